"""The gateway is killed at each named point of the life of an ACP agent that outlives it (DIE_TABLE in gateway/base/fault.h);
then all is as crash/test_continue_acp.py says.  A point that is not passed fails the test."""

import contextlib
import os
import random
import re

import pytest

from coding import CodingTask, coder, lines, request
from gateway import LATE_S, WAIT_S, Gateway, wait_until
from holdfast import Client, Closed, ids

SEED = int(os.environ.get("HOLDFAST_SEED", random.randrange(2**32)))
ALL = "HOLDFAST_KILLS" in os.environ  # where everything runs
STRIDE = 1 if ALL else 2  # a short run has each second point

# How often a point is passed before the gateway dies there, in a turn from its beginning.
IN_A_TURN = {"bind": [1], "spawn": [1], "splice_out": [1, 4, 9], "line_taken": [1, 5, 11], "mark_staged": [1, 5, 11],
             "commit_before": [3, 7, 12], "commit_after": [2, 3, 4, 7, 12], "note": [1, 2, 3, 5, 9],
             "line_bytes": [1, 2, 3, 5], "line_number": [1, 2, 3, 5], "splice_in": [1, 2, 3, 5], "effect": [1, 2, 3, 4],
             "folder": [1], "keeper": [1], "settled": [1], "unlinked": [1]}
AT_A_START = ["found", "resumed", "attached", "staged", "repaired", "attach", "note", "commit_after"]
AT_A_STOP = ["left", "leave"]


def some(points):
    return [(point, n) for point, passings in points.items() for n in (passings if ALL else passings[-1:])]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("coding")


@pytest.fixture(scope="module")
def gateway(folder):
    agents = [coder("coder", folder, default=True), coder("alone", folder, pool_idle_s=0)]
    agents += [coder(f"dies-{point}", folder, env={"HOLDFAST_FAULT": f"die_{point}:1"}) for point in ("rename", "fork")]
    with Gateway({"agents": agents}, lasting=True) as running:
        with Client(running) as client:
            running.token = client.token
        yield running


@pytest.fixture
def task(gateway, folder, request):
    if not gateway.process:
        gateway.start()  # after a failure
    name = re.sub(r"\W+", "-", request.node.name)
    print(f"seed {SEED}")
    return new_task(folder, "coder", name)


def new_task(folder, agent, name):
    made = CodingTask(folder / agent, random.Random(f"{SEED} {name}"), name, f"c-{name}", most=6)
    end = made.steps.pop()
    for number in (1001, 1002):
        made.command(number, random)
        made.write(number, random)
        made.permission(number, random)
    made.steps.append(end)
    made.agent = agent
    return made


def begin(gateway, task):
    """Its answer may be lost with the gateway; who knows of no task asks again."""
    with contextlib.suppress(Closed, OSError), Client(gateway, token=gateway.token) as client:
        if not task.find(client):
            task.start(client, task.agent)


def dying(gateway, point, passing):
    """A gateway that is killed there; whether it is there."""
    gateway.environ = {"HOLDFAST_FAULT": f"die_{point}:{passing}"}
    gateway.spawn()
    gateway.environ = {}
    line = gateway.printed.get(timeout=WAIT_S)  # "" when it dies before it is ready
    if line:
        gateway.port = int(re.search(r':(\d+)"', line)[1])
    return bool(line)


def died(gateway, point):
    if gateway.process.poll() is None:
        with contextlib.suppress(Exception):
            gateway.process.wait(1)
    if gateway.process.poll() is None:
        gateway.process.terminate()
    status = gateway.process.wait(WAIT_S)
    gateway.kill()
    assert status == -9, f"{point} was not passed ({status})"


def live(gateway, task):
    """Until the gateway has died, or the task is over."""
    while gateway.process.poll() is None:
        begin(gateway, task)
        if task.task and not task.live(gateway, WAIT_S):
            return


def ends(gateway, task):
    gateway.start()
    begin(gateway, task)
    task.finish(gateway)


@pytest.mark.parametrize("point, passing", some(IN_A_TURN)[::STRIDE])
def test_gateway_that_dies_in_a_turn_loses_nothing(gateway, folder, task, point, passing):
    if point == "unlinked":
        task = new_task(folder, "alone", "unlinked")
    gateway.kill()
    dying(gateway, point, passing)
    live(gateway, task)
    died(gateway, point)
    ends(gateway, task)


@pytest.mark.parametrize("passing", [1])
def test_gateway_that_dies_as_a_process_moves_to_the_next_turn(gateway, folder, task, passing):
    gateway.kill()
    dying(gateway, "moved", passing)
    begin(gateway, task)
    task.finish(gateway)
    following = new_task(folder, "coder", f"{task.name}-following")
    following.conversation, following.before = task.conversation, {task.task["task_id"]}
    live(gateway, following)
    died(gateway, "moved")
    ends(gateway, following)


@pytest.mark.parametrize("point", AT_A_START[::STRIDE])
def test_gateway_that_dies_as_it_goes_on_loses_nothing(gateway, task, point):
    task.steps.insert(1, request("terminal/wait_for_exit", terminalId="$"))
    gate = gateway.path()
    task.steps.insert(1, request("terminal/create", command="/bin/sh",
                                 args=["-c", f"until test -e {gate}; do sleep 0.05; done; echo gate >> {task.name}-ran"]))
    task.commands.insert(0, "gate")
    begin(gateway, task)
    wait_until(lambda: task.prompts() and task.answers(), "the command", LATE_S)
    gateway.kill()
    if dying(gateway, point, 1):
        with open(gate, "w", encoding="utf-8"):
            pass
        live(gateway, task)
    died(gateway, point)
    with open(gate, "w", encoding="utf-8"):
        pass
    ends(gateway, task)


@pytest.mark.parametrize("point", AT_A_STOP)
def test_gateway_that_dies_as_it_leaves_loses_nothing(gateway, task, point):
    gateway.kill()
    dying(gateway, point, 1)
    begin(gateway, task)
    wait_until(task.prompts, "the prompt", LATE_S)
    gateway.process.terminate()
    died(gateway, point)
    ends(gateway, task)


def test_gateway_that_dies_as_it_cancels_has_cancelled(gateway, task):
    task.steps.append({"hang": "politely"})
    task.cancelled = True
    gateway.kill()
    dying(gateway, "cancel", 1)
    begin(gateway, task)
    wait_until(task.prompts, "the prompt", LATE_S)
    with contextlib.suppress(Closed, OSError), Client(gateway, token=gateway.token) as client:
        client.call("cancel", **ids(task.task))
    died(gateway, "cancel")
    ends(gateway, task)


@pytest.mark.parametrize("point", ["rename", "fork"])
def test_holder_that_dies_there_ends_its_task_once(gateway, folder, task, point):
    failing = new_task(folder, f"dies-{point}", f"holder-{point}")
    begin(gateway, failing)
    with Client(gateway, token=gateway.token) as client:
        client.resume(failing.task, 0)
        client.wait_terminal(failing.task)
        assert client.task(failing.task)["error"]["code"] == "agent_error"
    assert len(lines(folder / failing.agent / "started")) <= (point == "fork")
