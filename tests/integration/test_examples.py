"""The agents of examples/, as its config.json has them."""

import json
import os
import pathlib
import re
import subprocess

import pytest

from gateway import Gateway, run
from holdfast import ids, names, text_of

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent.parent / "examples"
NODE = os.environ.get("HOLDFAST_NODE") or "node"


@pytest.fixture(scope="module")
def webhook():
    with subprocess.Popen(["/usr/bin/python3", str(EXAMPLES / "webhook.py"), "0"],
                          stdout=subprocess.PIPE, text=True) as process:
        yield int(process.stdout.readline().split()[-1])
        process.kill()


@pytest.fixture(scope="module")
def gateway(webhook):
    config = json.loads((EXAMPLES / "config.json").read_text())
    programs = {"python3": "/usr/bin/python3", "node": NODE, "sh": "/bin/sh"}
    for agent in config["agents"]:
        if agent["kind"] == "exec":
            program, file = agent["command"]
            agent["command"] = [programs[program], str(EXAMPLES.parent / file)]
        if agent["kind"] == "http":
            agent["url"] = f"http://127.0.0.1:{webhook}/"
    with Gateway(config) as running:
        yield running


def test_configuration_is_good():
    assert run("check-config", str(EXAMPLES / "config.json")).returncode == 0


def test_examples_are_short():
    for file in EXAMPLES.glob("*.[mps][jyh]*"):
        most = 130 if file.name == "holdfast_worker.py" else 40  # a library
        assert len(file.read_text().splitlines()) < most, file


def test_quiz(client):
    task = client.chat("a quiz, please", agent="quiz")
    question = client.event(task, "input_required")["data"]
    client.call("respond", **ids(task), input_id=question["input_id"], answer="12")
    end = client.wait_terminal(task)
    assert end["data"]["output"] == "12 squared: 144"
    assert "tool_call" in names(client.events_since(task))


def test_parrot(client):
    task, events = client.finish("to and fro", agent="parrot")
    assert (task["output"], len([e for e in events if e["event"] == "token"])) == ("to and fro", 3)
    task, _ = client.finish("again", agent="parrot", conversation=task["conversation_id"])
    assert task["output"] == "(1 before) again"


def test_parrot_stops_politely(client):
    task = client.chat("one word after the other " * 200, agent="parrot")
    client.event(task, "token")
    client.call("cancel", **ids(task))
    client.wait_terminal(task)
    assert client.task(task)["output"].endswith("… (stopped)")


def test_disks(client):
    task, _ = client.finish("how full?", agent="disks")
    assert re.match(r"Filesystem .*\n(.+\n)+$", task["output"])


def test_webhook(client):
    task, events = client.finish("hold fast", agent="webhook")
    assert task["output"] == "dloh tsaf" and text_of(events) == "dloh tsaf "
