"""Agents and stores that fail: rows A80, A82, A83 and A84 of the task manager.

The store fails as a busy disk does: somebody else holds the lock of its database for a while.
"""

import contextlib
import re
import sqlite3
import types

import pytest

from gateway import wait_until
from holdfast import Client, names
from manager import HANG, listed, make, running

FAILURES = re.compile(r'^holdfast_store_commit_failures_total\{operation="([a-z_]+)"\} (\d+)$', re.M)


@contextlib.contextmanager
def locked(gateway):
    """Nobody else can write into the store meanwhile."""
    paths = [path for path in gateway.data.iterdir() if path.is_file() and path.read_bytes()[:15] == b"SQLite format 3"]
    assert len(paths) == 1
    with contextlib.closing(sqlite3.connect(paths[0], isolation_level=None, timeout=30)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield
        db.execute("ROLLBACK")


def failures(gateway):
    """operation → how many commits of it have failed."""
    text = gateway.http("GET", "/metrics")[2].decode()
    return {operation: int(n) for operation, n in FAILURES.findall(text)}


@pytest.fixture(scope="module")
def trouble(gateway):
    """A task whose end cannot be written for a while, and what was seen meanwhile."""
    with Client(gateway) as client, Client(gateway) as other:
        gate, before = gateway.path(), failures(gateway)
        task = client.chat({"token": "x"}, {"wait": gate}, {"result": {"answer": 42}}, conversation="c")
        client.event(task, "token")
        with locked(gateway):
            make(gate)
            wait_until(lambda: sum(failures(gateway).values()) > sum(before.values()), "a failed commit")
            client.quiet()
            during = types.SimpleNamespace(
                names=names(client.events_since(task)), record=client.task(task),
                chat=client.ask("chat", message="x", conversation_id="c"),
                other=other.ask("chat", message="x", conversation_id="c"),
                ready=gateway.http("GET", "/readyz")[0])
        yield types.SimpleNamespace(client=client, other=other, task=task, during=during, before=before,
                                    end=client.wait_terminal(task), after=failures(gateway))


def test_a80_task_that_cannot_be_recorded_is_not_started(trouble):
    for reply in (trouble.during.chat, trouble.during.other):
        assert (reply["type"], reply["code"]) == ("error", "overloaded")
        assert reply["retry_after_ms"] > 0
    assert trouble.during.ready == 503
    wait_until(lambda: trouble.client.gateway.http("GET", "/readyz")[0] == 200, "ready again")
    assert list(listed(trouble.client, "c")) == [trouble.task["task_id"]]
    assert listed(trouble.other, "c") == {}
    history = trouble.client.call("history", conversation_id="c")["messages"]
    assert {message["task_id"] for message in history} == {trouble.task["task_id"]}
    task, _ = trouble.other.finish("x", conversation="c")
    assert task["status"] == "completed"


def test_a83_end_is_told_when_it_is_written_and_not_before(trouble):
    assert trouble.during.names == ["task.created", "task.started", "token"]
    assert trouble.during.record["status"] == "running"
    assert not trouble.during.record.get("result") and not trouble.during.record.get("completed_at")
    assert trouble.end["event"] == "task.completed"
    assert trouble.client.task(trouble.task)["result"] == {"answer": 42}
    replayed = trouble.client.replay(trouble.task)
    assert names(replayed) == ["task.created", "task.started", "token", "final_answer", "task.completed"]


def test_a84_failed_commits_are_counted(trouble):
    assert sum(trouble.after.values()) > sum(trouble.before.values())


# ------------------------------------------------------------------ agents that crash


@pytest.mark.parametrize("last", [[{"kill": 11}], [{"kill": 9}], [{"raw": "\x00\x01 garbage\n" * 1000}, HANG]],
                         ids=["crash", "killed", "garbage"])
def test_a82_one_that_crashes_harms_nobody_else(client, last):
    good = client.chat({"token": "a"}, {"hear": "message", "say": True}, conversation="c")
    client.event(good, "token")
    bad, events = client.finish({"token": "part"}, *last, conversation="c", name="worker")
    assert (bad["status"], bad["error"]["code"], bad["output"]) == ("failed", "agent_error", "part")
    assert events[-1]["event"] == "task.failed"
    assert running(client, "c") == 1  # nothing of it is left running
    again, _ = client.finish("x", conversation="c", name="worker")
    assert again["status"] == "completed"
    client.call("send", task_id=good["task_id"], conversation_id="c", content="go on")
    assert client.wait_terminal(good)["event"] == "task.completed"


def test_a84_failed_commit_of_an_end_is_counted_as_such(trouble):
    assert trouble.after.get("task_completion", 0) > trouble.before.get("task_completion", 0)
    assert trouble.after["task_completion"] >= 1
