"""Programs that speak as Claude Code and Codex do, or print text, outlive the gateway: kill -9 of it at random moments, and
what their own logs say is in their events once, in order, each result with the name of its call.

HOLDFAST_SEED and HOLDFAST_CONTINUE_ROUNDS choose the run; the seed is printed.
"""

import json
import os
import random
import time

import pytest

from continuing import FORMS, SEED, FormTask, clean, lasting_form
from gateway import SANITIZE, SCALE, Gateway, wait_until
from holdfast import Client

ALL = "HOLDFAST_KILLS" in os.environ  # where everything runs
ROUNDS = int(os.environ.get("HOLDFAST_CONTINUE_ROUNDS", (30 if SANITIZE else 300) if ALL else 2 if SANITIZE else 8))


def completed(task, client):
    record = task.finish(client)
    assert record["status"] == "completed", record.get("error")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forms")
    with Gateway({"agents": [lasting_form(form, folder) for form in FORMS]}, lasting=True) as running:
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
            tasks = [FormTask(gateway, rng, f"{number}-{form}").start(client, form, {"most": 40}) for form in FORMS]
        before = len(started(gateway))
        wait_until(lambda: all(len(task.said()) > 2 for task in tasks), "programs that speak")
        for _ in range(2):
            kill_and_start(gateway, rng, 0.1)
        with Client(gateway, token=gateway.token) as client:
            for task in tasks:
                completed(task, client)
        assert len(started(gateway)) <= before + len(FORMS), "a program was started twice"
        clean(gateway)


def task_of(gateway, rng, name, conversation):
    task = FormTask(gateway, rng, name)
    task.conversation = conversation
    return task


@pytest.mark.parametrize("form", [form for form in FORMS if form != "text"])
def test_a_session_that_is_gone_begins_anew_once(gateway, form):
    """The second program outlives gateways as well, and there is no third."""
    rng = random.Random(f"{SEED} {form}")
    for number in range(max(2, ROUNDS // 6)):
        conversation = f"anew-{form}-{number}"
        with Client(gateway, token=gateway.token) as client:
            first = task_of(gateway, rng, f"first-{form}-{number}", conversation).start(client, form, {"most": 2})
            completed(first, client)
            before = len(started(gateway))
            gone = max(gateway.data.glob("sessions/*"), key=lambda file: file.stat().st_mtime_ns).read_text().split()[0]
            (gateway.forms / "gone").write_text(gone)
            second = task_of(gateway, rng, f"second-{form}-{number}", conversation).start(client, form, {"most": 30})
        if rng.random() < 0.5:
            wait_until(lambda: second.said(), "the second program")
        kill_and_start(gateway, rng, 0.3)
        with Client(gateway, token=gateway.token) as client:
            completed(second, client)
        tried = [gone in given["arguments"] for given in started(gateway)[before:]]
        assert tried == [True, False], tried
        clean(gateway)
    (gateway.forms / "gone").unlink()
