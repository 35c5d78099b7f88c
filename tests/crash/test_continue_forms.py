"""Programs that speak as Claude Code and Codex do outlive the gateway: kill -9 of it at random moments, and what their own
logs say is in their events once, in order, each result with the name of its call.

HOLDFAST_SEED and HOLDFAST_CONTINUE_ROUNDS choose the run; the seed is printed.
"""

import json
import os
import random
import time

import pytest

from continuing import SEED, Task, clean, first_difference
from gateway import SANITIZE, SCALE, SUPPORT, Gateway, wait_until
from holdfast import Client

ALL = "HOLDFAST_KILLS" in os.environ  # where everything runs
ROUNDS = int(os.environ.get("HOLDFAST_CONTINUE_ROUNDS", 300 if ALL else 2 if SANITIZE else 8))
FORMS = ("claude", "codex")
TOLD = {"token": ("text",), "thinking": ("text",), "tool_call": ("call_id", "name"),
        "tool_result": ("call_id", "name", "output"), "final_answer": ("output",)}


def agent(form, folder):
    return {"name": form, "kind": "exec", "form": form, "grace_s": 1,
            "command": ["/usr/bin/python3", str(SUPPORT / "agents" / "lasting_form.py"), form, str(folder), "--"]}


def of_event(event):
    return event["event"], *(event["data"][member] for member in TOLD[event["event"]])


class FormTask(Task):
    """It hears nothing but its prompt."""

    def start_form(self, client, form, most=40, conversation=None):
        self.conversation = conversation or self.conversation
        asked = {"seed": self.seed, "log": str(self.log), "pace_s": 0.004 * SCALE, "most": most}
        self.task = client.call("chat", message=json.dumps(asked), agent=form, conversation_id=self.conversation)["task"]
        return self

    def check_said(self, events, whole):
        found = [of_event(event) for event in events if event["event"] in TOLD]
        expected = [of_event(line) for line in self.said()]
        assert found == expected, first_difference([str(f) for f in found], [str(e) for e in expected])

    def check_heard(self, events, whole):
        assert not self.sent

    def finish(self, client):
        self.task = client.task(self.task)
        since = len(client.log)
        client.resume(self.task, 0)
        record = self.check(client, list(client.events(self.task, since)))
        assert record["status"] == "completed", record.get("error")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forms")
    with Gateway({"agents": [agent(form, folder) for form in FORMS]}, lasting=True) as running:
        with Client(running) as client:
            running.token = client.token
        running.forms = folder
        yield running


def started(gateway):
    file = gateway.forms / "started"
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


def kill_and_start(gateway, rng, most_s):
    """Some of the kills fall into the repair of the one before."""
    for _ in range(rng.randrange(1, 3)):
        time.sleep(rng.uniform(0, most_s) * SCALE)
        gateway.kill()
        gateway.spawn()
    gateway.kill()
    gateway.start()


def test_what_is_printed_is_there_once(gateway):
    print(f"seed {SEED}, {ROUNDS} rounds")
    rng = random.Random(SEED)
    for number in range(ROUNDS):
        with Client(gateway, token=gateway.token) as client:
            tasks = [FormTask(gateway, rng, f"{number}-{form}").start_form(client, form) for form in FORMS]
        before = len(started(gateway))
        wait_until(lambda: all(len(task.said()) > 2 for task in tasks), "programs that speak")
        for _ in range(2):
            kill_and_start(gateway, rng, 0.1)
        with Client(gateway, token=gateway.token) as client:
            for task in tasks:
                task.finish(client)
        assert len(started(gateway)) <= before + len(FORMS), "a program was started twice"
        clean(gateway)


@pytest.mark.parametrize("form", FORMS)
def test_a_session_that_is_gone_begins_anew_once(gateway, form):
    """The second program outlives gateways as well, and there is no third."""
    rng = random.Random(f"{SEED} {form}")
    for number in range(max(2, ROUNDS // 6)):
        conversation = f"anew-{form}-{number}"
        with Client(gateway, token=gateway.token) as client:
            first = FormTask(gateway, rng, f"first-{form}-{number}").start_form(client, form, 2, conversation)
            first.finish(client)
            before = len(started(gateway))
            session = next(iter(gateway.data.glob("sessions/*")), None)
            assert session, "no session is kept"
            gone = max(gateway.data.glob("sessions/*"), key=lambda file: file.stat().st_mtime_ns).read_text().strip()
            (gateway.forms / "gone").write_text(gone)
            second = FormTask(gateway, rng, f"second-{form}-{number}").start_form(client, form, 30, conversation)
        if rng.random() < 0.5:
            wait_until(lambda: second.said(), "the second program")
        kill_and_start(gateway, rng, 0.3)
        with Client(gateway, token=gateway.token) as client:
            second.finish(client)
        tried = [gone in given["arguments"] for given in started(gateway)[before:]]
        assert tried == [True, False], tried
        clean(gateway)
    (gateway.forms / "gone").unlink()
