"""Names: rows A78, A79, A85 and A86 of the task manager; each for clients and for agents."""

import pytest

from holdfast import ids
from manager import HANG, child, listed, said, spawn

RESERVED = ["parent", "self", "all", "broadcast"]


def holder(client, conversation, name="researcher"):
    """A live task of that name."""
    task = client.chat(HANG, conversation=conversation, name=name)
    client.event(task, "task.started")
    return task


@pytest.mark.parametrize("name", RESERVED)
def test_a78_reserved_name_is_refused(client, name):
    error = client.refused("bad_request", "chat", message="x", conversation_id="thread-1", name=name)
    assert "name" in error["message"]
    task, events = client.finish(spawn("kid", "x", name=name, say=True), conversation="thread-1")
    answer = said(events)[0]
    assert (answer["type"], answer["code"]) == ("error", "bad_request") and "name" in answer["message"]
    assert list(listed(client, "thread-1")) == [task["task_id"]]  # nothing else was started


def test_a79_duplicate_name_is_refused(client):
    first = holder(client, "thread-1")
    client.refused("conflict", "chat", message="x", conversation_id="thread-1", name="researcher")
    second, events = client.finish(spawn("kid", "x", name="researcher", say=True),
                                   conversation="thread-1")
    answer = said(events)[0]
    assert (answer["type"], answer["code"]) == ("error", "conflict")
    assert list(listed(client, "thread-1")) == [first["task_id"], second["task_id"]]
    assert client.task(first)["status"] == "running"
    client.call("cancel", **ids(first))


def test_a79_name_is_held_until_the_end_of_a_cancel(client):
    task = client.chat({"ignore_term": 1}, {"token": "x"}, HANG, conversation="thread-1", name="researcher")
    client.event(task, "token")
    client.call("cancel", **ids(task))
    client.refused("conflict", "chat", message="x", conversation_id="thread-1", name="researcher")
    client.wait_terminal(task)
    client.chat("x", conversation="thread-1", name="researcher")


def test_a79_child_holds_its_name(client):
    task = client.chat(spawn("kid", HANG, name="researcher"), HANG, conversation="thread-1")
    child(client, task)
    client.refused("conflict", "chat", message="x", conversation_id="thread-1", name="researcher")
    client.call("cancel", **ids(task), tree=True)


@pytest.mark.parametrize("steps", [[{"token": "x"}], [{"exit": 1}]], ids=["completed", "failed"])
def test_a85_name_is_free_after_the_end(client, steps):
    first, _ = client.finish(*steps, conversation="thread-1", name="researcher")
    second, _ = client.finish("x", conversation="thread-1", name="researcher")
    assert second["name"] == "researcher" and second["task_id"] > first["task_id"]
    assert second["status"] == "completed"


def test_a85_name_of_a_child_is_free_after_its_end(client):
    _, events = client.finish(
        *[spawn("kid", {"token": "x"}, name="researcher", say=True), {"hear": "message"}] * 2)
    first, second = said(events)
    assert first["type"] == second["type"] == "child" and first["task_id"] < second["task_id"]


def test_a86_same_name_on_different_threads(client):
    tasks = [holder(client, conversation) for conversation in ("thread-1", "thread-2")]
    for task in tasks:
        reply = client.call("cancel_all", conversation_id=task["conversation_id"])
        assert reply["task_ids"] == [task["task_id"]]
        assert client.wait_terminal(task)["data"]["status"] == "cancelled"


def test_a86_same_name_of_another_owner(client, clients):
    other = clients()
    tasks = [holder(c, "thread-1") for c in (client, other)]
    assert client.call("cancel_all", conversation_id="thread-1")["task_ids"] == [tasks[0]["task_id"]]
    assert other.task(tasks[1])["status"] == "running"
    other.call("cancel", **ids(tasks[1]))
