"""The behaviours of the agentkit portal, rows P1 to P23, in the form that was decided for them.

A cancelled task has a status of its own; its one failure event says `cancelled`.  "Subscribe without
a filter" is `open` with `follow`.  The run is detached: connections come and go.
"""


import pytest

import database
from gateway import Gateway
from holdfast import Client, ids, names, new_id, wait_until

ANSWER = [{"thinking": "let me see"}, {"final_answer": "The answer is 42"}]


def assistant_messages(client, task):
    history = client.call("history", conversation_id=task["conversation_id"])["messages"]
    return [(m["content"], bool(m.get("partial"))) for m in history if m["role"] == "assistant"]


def make(path):
    open(path, "w", encoding="utf-8").close()


def cancelled_after(client, text):
    """A task that said that text and was then cancelled: (task, its terminal event)."""
    task = client.chat({"thinking": "hm"}, {"final_answer": text}, {"hang": 1})
    client.event(task, "final_answer")
    assert client.call("cancel", **ids(task))["cancelled"] == 1
    return task, client.wait_terminal(task)


def test_p01_normal_completion_persists_result(client):
    task, _ = client.finish(*ANSWER)
    assert assistant_messages(client, task) == [("The answer is 42", False)]


def test_p02_partial_output_persisted_on_error(client):
    task, _ = client.finish({"thinking": "hm"}, {"final_answer": "Partial result"}, {"exit": 1})
    assert task["status"] == "failed"
    assert assistant_messages(client, task) == [("Partial result", True)]


def test_p03_no_output_on_error_without_final_answer(client):
    task, _ = client.finish({"thinking": "only thoughts"}, {"exit": 1})
    assert task["status"] == "failed"
    assert assistant_messages(client, task) == []
    assert not task.get("output")


def test_p04_events_emitted_to_subscriber(client, clients):
    gate = client.gateway.path()
    task = client.chat({"wait": gate}, *ANSWER)
    subscriber = clients(token=client.token)
    subscriber.resume(task)
    make(gate)
    got = names(subscriber.events(task))
    assert got == ["task.created", "task.started", "thinking", "final_answer", "task.completed"]


def test_p05_task_failed_event_on_error(client):
    task, events = client.finish({"stderr": "Execution failed\n"}, {"exit": 1})
    failures = [event for event in events if event["event"] == "task.failed"]
    assert len(failures) == 1
    assert "Execution failed" in failures[0]["data"]["error"]["message"]
    assert task["status"] == "failed"


def test_p06_status_pending_running_completed(client):
    gate, conversation = client.gateway.path(), new_id()
    first = client.chat({"wait": gate}, conversation=conversation)
    queued = client.chat({"wait": gate + "2"}, {"final_answer": "Result"}, conversation=conversation,
                         when_busy="enqueue")
    assert queued["status"] == "pending" and client.task(queued)["status"] == "pending"
    make(gate)
    client.wait_terminal(first)
    client.event(queued, "task.started")
    assert client.task(queued)["status"] == "running"  # and the agent has not said a thing yet
    make(gate + "2")
    client.wait_terminal(queued)
    record = client.task(queued)
    assert (record["status"], record["output"], record["progress"]) == ("completed", "Result", 1)


def test_p07_status_failed_on_error(client):
    task, _ = client.finish({"stderr": "Execution failed\n"}, {"exit": 1})
    assert task["status"] == "failed"
    assert "Execution failed" in task["error"]["message"]


def test_p08_runs_without_any_option(client):
    """There the task store was optional; here nothing but a message need be given."""
    task = client.call("chat", message="x")["task"]
    client.wait_terminal(task)
    assert assistant_messages(client, task) == [("x", False)]


def test_p09_list_by_status(client):
    conversation, gate = new_id(), client.gateway.path()
    done, _ = client.finish({"token": "x"}, conversation=conversation)
    running = client.chat({"wait": gate}, conversation=conversation)
    client.event(running, "task.started")
    pending = client.chat("y", conversation=conversation, when_busy="enqueue")
    for status, task in (("pending", pending), ("running", running), ("completed", done)):
        found = client.call("tasks", conversation_id=conversation, status=status)["tasks"]
        assert [t["task_id"] for t in found] == [task["task_id"]]
    assert found[0]["progress"] == 1
    make(gate)
    client.wait_terminal(pending)


def test_p10_record_contains_conversation_id(client):
    task = client.chat("x", conversation="conv-123")
    assert task["conversation_id"] == "conv-123"
    assert client.task(task)["conversation_id"] == "conv-123"
    client.wait_terminal(task)
    assert client.task(task)["conversation_id"] == "conv-123"  # also after updates of the status


def test_p11_subscribe_to_one_task(client, clients):
    gate = client.gateway.path()
    a, b = (client.chat({"wait": gate}, {"token": "1"}, {"token": "2"}) for _ in range(2))
    subscriber = clients(token=client.token)
    subscriber.resume(a)
    make(gate)
    subscriber.wait_terminal(a)
    client.wait_terminal(b)
    subscriber.quiet()
    events = [line for line in subscriber.log if line["type"] == "event"]
    assert {event["task_id"] for event in events} == {a["task_id"]}
    assert names(events).count("token") == 2


def test_p12_subscribe_without_a_filter_receives_all(client, clients):
    """Two of one conversation and one of another; and nothing of what was not opened."""
    first, second, third, gate = new_id(), new_id(), new_id(), client.gateway.path()
    a, b, c, d = (client.chat({"wait": gate}, {"token": "x"}, conversation=conversation)
                  for conversation in (first, first, second, third))
    for task in (a, b, c, d):
        client.event(task, "task.started")
    subscriber = clients(token=client.token)
    for conversation in (first, second):
        subscriber.call("open", conversation_id=conversation, follow=True)
    make(gate)
    for task in (a, b, c):
        assert names(subscriber.events(task)) == ["token", "final_answer", "task.completed"]
    client.wait_terminal(d)
    subscriber.quiet()
    assert {line["task_id"] for line in subscriber.log if line["type"] == "event"} == \
        {task["task_id"] for task in (a, b, c)}


def test_p13_subscribe_replays_what_was_before(client, clients):
    gate = client.gateway.path()
    a, b = (client.chat({"token": "1"}, {"token": "2"}, {"wait": gate}) for _ in range(2))
    for task in (a, b):
        client.expect(lambda line, task=task: line.get("task_id") == task["task_id"] and line["seq"] == 4)
    subscriber = clients(token=client.token)
    events = subscriber.replay(a)
    assert names(events) == ["task.created", "task.started", "token", "token"]
    assert {line["task_id"] for line in subscriber.log if line["type"] == "event"} == {a["task_id"]}
    make(gate)


def test_p14_cancel_persists_partial_output(client):
    task, end = cancelled_after(client, "Partial before cancel")
    assert assistant_messages(client, task) == [("Partial before cancel", True)]
    assert end["data"]["output"] == "Partial before cancel"


def test_p15_cancel_marks_task_cancelled_in_store(client):
    task, _ = cancelled_after(client, "Partial before cancel")
    record = client.task(task)
    assert record["status"] == "cancelled"
    assert "cancelled" in record["error"]["message"].lower()


def test_p16_cancel_emits_one_task_failed_event(client):
    task, end = cancelled_after(client, "Partial before cancel")
    assert names(client.events_since(task)).count("task.failed") == 1
    assert end["event"] == "task.failed" and end["data"]["status"] == "cancelled"
    assert "cancelled" in end["data"]["error"]["message"].lower()


def test_p17_resume_rejects_mismatched_conversation_id(client):
    task, _ = client.finish("x", conversation="conv-A")
    client.finish("y", conversation="conv-B")
    client.refused("not_found", "resume", task_id=task["task_id"], conversation_id="conv-B")
    assert client.call("ping")["type"] == "pong"  # the connection goes on


def test_p18_resume_accepts_matching_conversation_id(client):
    task, events = client.finish("x", conversation="conv-A")
    assert client.resume(task)["type"] == "resumed"
    assert client.replay(task) == events


def test_p19_resume_rejects_when_conversation_id_is_missing(client):
    task, _ = client.finish("x", conversation="conv-A")
    for fields in ({}, {"conversation_id": ""}, {"conversation_id": None}):
        client.refused("not_found", "resume", task_id=task["task_id"], **fields)


@pytest.mark.parametrize("conversation", ["", "conv-A"])
def test_p19_resume_rejects_when_the_record_names_no_conversation(conversation):
    """A record without its conversation, which only a damaged or foreign store has: fail closed."""
    with Gateway() as gateway:
        with Client(gateway) as client:
            token = client.token
            task, _ = client.finish("x", conversation="conv-A")
        gateway.stop()
        with database.opened(gateway) as db:
            changed = db.execute("UPDATE tasks SET conversation_id = '' WHERE task_id = ?", (task["task_id"],)).rowcount
        assert changed == 1
        gateway.start()
        with Client(gateway, token=token) as client:
            client.refused("not_found", "resume", task_id=task["task_id"], conversation_id=conversation)
            client.refused("not_found", "task", task_id=task["task_id"], conversation_id=conversation)


def test_p20_explicit_cancel_marks_task_cancelled(client):
    task, _ = cancelled_after(client, "Partial before user cancel")
    record = client.task(task)
    assert record["status"] == "cancelled" and record["output"] == "Partial before user cancel"
    assert assistant_messages(client, task) == [("Partial before user cancel", True)]


def test_p21_cancel_after_completion_is_noop(client):
    task, events = client.finish(*ANSWER)
    assert client.call("cancel", **ids(task))["cancelled"] == 0
    assert client.task(task) == task
    assert assistant_messages(client, task) == [("The answer is 42", False)]
    assert client.replay(task) == events


def test_p22_disconnect_does_not_cancel_background_task(client, clients):
    gate = client.gateway.path()
    task = client.chat({"token": "x"}, {"wait": gate}, {"final_answer": "Final result"})
    client.event(task, "token")
    client.drop()
    again = clients(token=client.token)
    assert again.task(task)["status"] == "running"
    make(gate)
    wait_until(lambda: again.task(task)["status"] == "completed", "the end")
    assert assistant_messages(again, task) == [("Final result", False)]


def test_p23_disconnect_result_available_for_resume(client, clients):
    gate = client.gateway.path()
    task = client.chat({"wait": gate}, {"final_answer": "Resumable result"}, conversation="resume-conv")
    client.event(task, "task.started")
    client.drop()
    make(gate)
    again = clients(token=client.token)
    wait_until(lambda: again.task(task)["status"] == "completed", "the end")
    reply = again.resume(task)
    assert reply["task"]["status"] == "completed"
    assert again.task(task)["output"] == "Resumable result"
    assert again.wait_terminal(task)["data"]["output"] == "Resumable result"
