"""A task's events, and their receivers: rows A18, A19, A45 to A50, A65, A70, A72 to A76, A88, A89, A93
and A94 of the task manager.

There an owner has an inbox in memory; here it is the task's stream, as its subscribers see it.
"""

import json

import pytest

from holdfast import ids, names, new_id, wait_until
from manager import HANG, customs, listed, make

HEAD = ["task.created", "task.started"]


def emits(*payloads, event_type="progress"):
    return [{"custom": event_type, "payload": payload} for payload in payloads]


def start_over_http(client, conversation, *steps):
    """A task that nobody follows, from its first event on."""
    status, _, body = client.gateway.http(
        "POST", f"/v1/conversations/{conversation}/tasks", json.dumps({"message": json.dumps(steps)}),
        {"Authorization": "Bearer " + client.token, "Content-Type": "application/json"})
    assert status == 201
    return json.loads(body)["task"]


# ------------------------------------------------------------------ a view of the tasks


def test_a18_a_snapshot_replaces_what_was_known(client):
    """Each snapshot is the whole view: what it says of a task replaces what was said, what it leaves out is gone."""
    def view():
        return [(t["task_id"], t["type"], t.get("description"), t["status"])
                for t in client.call("open", conversation_id=conversation)["tasks"]]

    conversation, gate = new_id(), client.gateway.path()
    assert view() == []
    task = client.chat({"wait": gate}, conversation=conversation, background=True, description="a shell")
    client.event(task, "task.started")
    assert view() == [(task["task_id"], "background", "a shell", "running")]
    make(gate)
    client.wait_terminal(task)
    assert view() == [(task["task_id"], "background", "a shell", "completed")]
    client.call("delete", conversation_id=conversation)
    other, _ = client.finish("x", conversation=conversation)
    assert view() == [(other["task_id"], "chat", None, "completed")]


def test_a19_a_view_is_empty_when_all_is_deleted(client):
    task, _ = client.finish("x")
    client.call("delete", conversation_id=task["conversation_id"])
    reply = client.call("open", conversation_id=task["conversation_id"])
    assert (reply["tasks"], reply["messages"]) == ([], [])
    assert client.call("conversations")["conversations"] == []


# ------------------------------------------------------------------ to subscribers


def test_a45_what_a_task_emits_comes_first_and_in_order(client):
    _, events = client.finish(*emits({"progress": 50}, {"progress": 100}))
    assert names(events)[:4] == HEAD + ["custom", "custom"]
    assert customs(events) == [("progress", {"progress": 50}), ("progress", {"progress": 100})]


def test_a46_a_task_without_a_subscriber_completes(client):
    task = start_over_http(client, new_id(), *emits({"n": 1}), {"result": {"ok": True}})
    wait_until(lambda: client.task(task)["status"] == "completed", "the end")
    assert client.task(task)["result"] == {"ok": True}
    assert not [line for line in client.log if line["type"] == "event"]


def test_a47_completion_is_an_event(client):
    task, events = client.finish("x")
    assert events[-1]["event"] == "task.completed" and events[-1]["task_id"] == task["task_id"]


def test_a48_subscriber_that_went_before_the_start_is_no_harm(client, clients):
    gate, conversation = client.gateway.path(), new_id()
    first = client.chat({"wait": gate}, conversation=conversation)
    task = client.chat(*emits({"n": 1}), {"result": {"ok": True}}, conversation=conversation,
                       when_busy="enqueue")
    client.drop()
    again = clients(token=client.token)
    assert again.task(task)["status"] == "pending"
    make(gate)
    wait_until(lambda: again.task(task)["status"] == "completed", "the end")
    assert names(again.replay(task))[-1] == "task.completed"
    assert customs(again.events_since(task)) == [("progress", {"n": 1})]
    assert again.task(first)["status"] == "completed"


def test_a49_custom_and_terminal_events_arrive(client):
    _, events = client.finish(*emits({"n": 1}, {"n": 2}))
    assert names(events).count("custom") == 2 and names(events).count("task.completed") == 1


def test_a50_custom_event_keeps_its_structure(client):
    _, events = client.finish(*emits({"percent": 75}))
    assert events[2]["event"] == "custom"
    assert events[2]["data"] == {"event_type": "progress", "payload": {"percent": 75}}


def test_a65_long_running_task_with_progress(client):
    steps = []
    for i in range(3):
        steps += [*emits({"step": i}), {"sleep_ms": 10}]
    task, events = client.finish(*steps)
    assert task["status"] == "completed"
    assert customs(events) == [("progress", {"step": i}) for i in range(3)]


def test_a70_all_events_arrive(client):
    _, events = client.finish(*emits({"name": "build"}, {"name": "test"}, event_type="stage"),
                              {"result": {"ok": True}})
    assert customs(events) == [("stage", {"name": "build"}), ("stage", {"name": "test"})]
    assert events[-1]["event"] == "task.completed"


def test_a72_events_wait_until_they_are_read(client, clients):
    task = start_over_http(client, new_id(), *emits(*range(5)), {"final_answer": "x"})
    wait_until(lambda: client.task(task)["status"] == "completed", "the end")
    reader = clients(token=client.token)
    events = reader.replay(task, 2)
    assert names(events) == ["custom"] * 5 + ["final_answer", "task.completed"]
    assert [payload for _, payload in customs(events)] == list(range(5))
    n = len(reader.log)
    reader.quiet()
    assert [line["type"] for line in reader.log[n:]] == ["pong"]  # and nothing more


def test_a73_nothing_said_is_nothing_heard(client):
    task = client.chat(HANG)
    head = client.event(task, "task.started")["seq"]
    assert client.replay(task, head) == []
    client.call("cancel", **ids(task))
    end = client.wait_terminal(task)
    assert client.replay(task, end["seq"]) == []


def test_a74_several_tasks_share_a_subscriber(client, clients):
    conversation = new_id()
    subscriber = clients(token=client.token)
    subscriber.call("open", conversation_id=conversation, follow=True)
    tasks = [client.chat(*emits({"n": i}), conversation=conversation) for i in range(3)]
    for task in tasks:
        subscriber.wait_terminal(task)
    subscriber.quiet()
    heard = [(line["task_id"], line["event"]) for line in subscriber.log if line["type"] == "event"
             and line["event"] in ("custom", "task.completed")]
    assert sorted(heard) == sorted((task["task_id"], event) for task in tasks
                                   for event in ("custom", "task.completed"))


def test_a75_subscriber_that_goes_while_it_runs_is_no_harm(client, clients):
    gate = client.gateway.path()
    task = client.chat(*emits({"n": 1}), {"wait": gate}, *emits({"n": 2}))
    seen = client.event(task, "custom")["seq"]
    client.drop()
    make(gate)
    again = clients(token=client.token)
    wait_until(lambda: again.task(task)["status"] == "completed", "the end")
    events = again.replay(task, seen)
    assert customs(events) == [("progress", {"n": 2})]
    assert events[-1]["event"] == "task.completed"


def test_a76_events_carry_their_task_id(client):
    conversation = new_id()
    since = len(client.log)
    tasks = [client.chat(*emits({"n": i}), conversation=conversation) for i in range(3)]
    for i, task in enumerate(tasks):
        events = list(client.events(task, since))
        assert customs(events) == [("progress", {"n": i})]
        assert names(events)[:2] == HEAD and names(events)[-1] == "task.completed"
    heard = {line["task_id"] for line in client.log[since:] if line["type"] == "event"}
    assert heard == set(listed(client, conversation)) == {task["task_id"] for task in tasks}


# ------------------------------------------------------------------ and the end


def test_a88_events_do_not_change_the_result(client):
    task, _ = client.finish(*emits({"final": "no"}, "nor this"), {"result": {"final": "answer"}},
                            *emits({"final": "neither"}))
    assert task["result"] == {"final": "answer"}


def test_a89_rapid_emits_without_a_loss(client):
    task, events = client.finish({"raw": "".join(
        '{"event":"custom","data":{"event_type":"tick","payload":%d}}\n' % i for i in range(100))})
    assert [payload for _, payload in customs(events, "tick")] == list(range(100))
    assert task["status"] == "completed"


def test_a93_terminal_event_has_the_result(client):
    task, events = client.finish({"result": {"score": 3.125}})
    assert events[-1]["task_id"] == task["task_id"]
    assert events[-1]["data"]["result"] == {"score": 3.125}
    assert '"score":3.125' in client.raw_events(task)[events[-1]["seq"]]


def test_a94_terminal_event_has_the_error(client):
    task, events = client.finish({"stderr": "disk full\n"}, {"exit": 1})
    assert events[-1]["event"] == "task.failed" and events[-1]["data"]["status"] == "failed"
    assert "disk full" in events[-1]["data"]["error"]["message"]
    assert events[-1]["data"]["error"] == task["error"]


# ------------------------------------------------------------------ when nobody hears the end


def notice(client, conversation):
    """The turn that the gateway started by itself, when it has ended."""
    found = [task for task in listed(client, conversation).values() if task["type"] == "notice"]
    return found[0] if found and found[0]["status"] == "completed" else None


@pytest.mark.parametrize("gone", ["before it starts", "while it runs"])
def test_a48_a75_end_that_nobody_hears_wakes_a_turn(client, clients, gone):
    conversation, gate = new_id(), client.gateway.path()
    if gone == "before it starts":
        make(gate)
    task = client.chat({"token": "started "}, {"wait": gate}, {"token": "the words"},
                       conversation=conversation, background=True, notify_on_complete=True)
    if gone == "while it runs":
        client.event(task, "token")
    client.drop()
    make(gate)
    again = clients(token=client.token)
    turn = wait_until(lambda: notice(again, conversation), "the turn")
    assert turn["task_id"] > task["task_id"]
    system, answer = again.call("history", conversation_id=conversation)["messages"]
    assert (system["role"], system["task_id"]) == ("system", turn["task_id"])
    assert "the words" in system["content"]
    assert (answer["role"], answer["content"]) == ("assistant", system["content"])  # it is said back
    again.quiet()
    assert len(listed(again, conversation)) == 2  # once
