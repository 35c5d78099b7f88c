"""The gateway, or a holder, is killed at each named point of the life of a kept agent of each kind (DIE_TABLE in
gateway/base/fault.h); then all is as crash/test_continue_exec.py says.  A point that is not passed fails the test.  (Those
of kind react: crash/test_continue.py.)"""

import contextlib
import os
import random
import re
import time

import pytest

from continuing import FORMS, SEED, FormRound, Round, begun, clean, lasting, lasting_form
from gateway import SCALE, WAIT_S, Gateway, wait_until
from holdfast import Client, Closed, ids



def life(current):
    """All that a gateway does while agents live."""
    current.live(0.5 * SCALE, bytes=20_000)


def starting(current):
    current.begin(f"new-{len(current.tasks)}-{current.rng.random()}", 2)
    life(current)


def ending(current):
    current.begin(f"short-{len(current.tasks)}-{current.rng.random()}", 2, asked={"most": 30})
    life(current)


def cancelling(current):
    """An answer with ok makes the cancel certain; one that was lost with the gateway may have been carried out."""
    with contextlib.suppress(Closed, OSError), Client(current.gateway, token=current.token) as client:
        for task in current.tasks:
            task.cancelled = client.call("cancel", **ids(task.task))["cancelled"] == 1 or task.cancelled


def waiting(current):
    time.sleep(0.05)


def late(current):
    """One that has a second, and needs more."""
    if not current.tasks:
        current.begin(f"late-{current.form}", 1, agent=f"{current.form}-late")
    waiting(current)


def leaving(current):
    """A planned stop, once the agents are read again: one that was not attached yet is not left either."""
    with Client(current.gateway, token=current.token) as client:
        heads = [(task.find(client), client.task(task.find(client))["head"]) for task in current.tasks]
        wait_until(lambda: all(client.task(task)["head"] > head + 5 for task, head in heads), "agents that are read")
    current.gateway.process.terminate()
    current.gateway.process.wait(WAIT_S)


# By point: what the gateway that is to die does.
POINTS = {
    "die_splice_out": life, "die_rewind_1": life, "die_rewind_2": life, "die_rewind_3": life, "die_punch": life,
    "die_line_taken": life, "die_mark_staged": life, "die_commit_before": life, "die_commit_after": life,
    "die_line_bytes": life, "die_line_number": life, "die_splice_in": life, "die_in_cut": life,
    "die_bind": starting, "die_spawn": starting, "die_cancel": cancelling, "die_found": waiting,
    "die_resumed": waiting, "die_attached": waiting, "die_settled": ending, "die_unlinked": ending,
    "die_leave": leaving,
}
HOLDERS = ("die_rename", "die_fork", "die_report")
ALL = "HOLDFAST_KILLS" in os.environ  # where everything runs
STRIDE = 1 if ALL else 2  # a short run has each second point

# The same for programs that are given their prompt and no line more.  A short run has one form for each point, of those that
# these programs pass in a way of their own.
FORM_POINTS = {**{point: does for point, does in POINTS.items() if point != "die_in_cut"}, "die_note": life,
               "die_line_bytes": starting, "die_line_number": starting, "die_splice_in": starting}
OWN_POINTS = ("die_note", "die_mark_staged", "die_splice_in", "die_attached", "die_commit_after", "die_settled")
WITHOUT = {("die_note", "text")}  # its reader knows nothing but the beginning of a character
BY_FORM = ([(point, form) for point in FORM_POINTS for form in FORMS if (point, form) not in WITHOUT] if ALL else
           [(point, FORMS[i % 2 if point == "die_note" else i % 3]) for i, point in enumerate(OWN_POINTS)])


def holder_fault(name):
    return {"env": {"HOLDFAST_FAULT": f"{name}:1"}}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forms")
    agents = [lasting("lasting", default=True), *(lasting_form(form, folder) for form in FORMS)]
    agents += [lasting_form(form, folder, f"{form}-late", timeout_s=1) for form in FORMS]
    agents += [lasting(name, **holder_fault(name)) for name in HOLDERS]
    agents += [lasting_form(form, folder, f"{form}-{name}", **holder_fault(name)) for name in HOLDERS for form in FORMS]
    with Gateway({"agents": agents, "limits": {"inbox_bytes": 16 << 20}}, lasting=True) as started:
        with Client(started) as client:
            started.token = client.token
        yield started


def die(gateway, current, point, passing, does):
    """A gateway that is killed at that passing of that point."""
    gateway.environ = {"HOLDFAST_FAULT": f"{point}:{passing}"}
    gateway.spawn()
    gateway.environ = {}
    line = gateway.printed.get(timeout=WAIT_S)  # "" when it dies before it is ready
    if line:
        gateway.port = int(re.search(r':(\d+)"', line)[1])
        deadline = time.monotonic() + WAIT_S
        while gateway.process.poll() is None and time.monotonic() < deadline:
            does(current)
        if gateway.process.poll() is None:
            gateway.process.terminate()  # with 0
    status = gateway.process.wait(WAIT_S)
    gateway.kill()
    assert status == -9, f"{point}:{passing} was not passed ({status})"


def dies_there(gateway, current, point, passing, does):
    """A round whose gateway dies at that passing of that point."""
    print(f"seed {SEED}")
    if not gateway.process:
        gateway.start()  # after a failure
    asked = {"pace_s": 0, "flood": True} if point == "die_punch" else {}
    current.begin(f"{point}-{passing}-{current.rng.random()}", max(2, passing), asked=asked)
    begun(current.tasks)
    gateway.kill()
    die(gateway, current, point, passing, does)
    gateway.start()
    current.live(0.05 * SCALE)
    for record in current.finish():
        assert record["status"] == ("cancelled" if record.get("cancel_requested_at") else "completed"), record.get("error")
    clean(gateway)


@pytest.mark.parametrize("point", list(POINTS)[::STRIDE])
@pytest.mark.parametrize("passing", [1, 2, 3] if ALL else [1])
def test_gateway_that_dies_there_loses_nothing(gateway, point, passing):
    rng = random.Random(f"{SEED} {point} {passing}")
    dies_there(gateway, Round(gateway, gateway.token, rng), point, passing, POINTS[point])


@pytest.mark.parametrize("point, form", BY_FORM[::STRIDE])
def test_gateway_that_dies_there_loses_nothing_of_a_form(gateway, point, form):
    rng = random.Random(f"{SEED} {point} {form}")
    dies_there(gateway, FormRound(gateway, gateway.token, rng, form), point, 1, FORM_POINTS[point])


@pytest.mark.parametrize("form", FORMS if ALL else ["claude"])
def test_gateway_that_dies_as_it_stops_an_agent_stops_it_for_that_reason(gateway, form):
    rng = random.Random(f"{SEED} late {form}")
    if gateway.process:
        gateway.kill()
    current = FormRound(gateway, gateway.token, rng, form)
    die(gateway, current, "die_cancel", 1, late)
    gateway.start()
    assert [record["error"]["code"] for record in current.finish()] == ["timeout"]
    clean(gateway)


@pytest.mark.parametrize("point", HOLDERS)
@pytest.mark.parametrize("form", [None, *FORMS] if ALL else [None])
def test_holder_that_dies_there_ends_its_task_once(gateway, point, form):
    rng = random.Random(f"{SEED} {point} {form}")
    if not gateway.process:
        gateway.start()
    current = FormRound(gateway, gateway.token, rng, form) if form else Round(gateway, gateway.token, rng)
    agent = f"{form}-{point}" if form else point
    current.begin(f"{point}-{form}", 1, agent=agent, asked={"most": 50 if not form else 3, "pace_s": 1})
    task = current.tasks[0]
    if point == "die_report":  # its end comes while there is no gateway, and its pipe holds all that it says
        wait_until(task.log.exists, "the start of an agent")
        gateway.kill()
        wait_until(lambda: not task.holder(gateway)["holder"], "the end of a holder")
        gateway.start()
    record = current.finish()[0]
    assert record["status"] == "failed", record
    assert record["error"]["code"] == ("orphaned" if point == "die_report" else "agent_error"), record
    clean(gateway)
