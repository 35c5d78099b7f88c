"""send, respond, names and when_busy (PROTOCOL.md 4, 5)."""

import json

import pytest

from holdfast import ids, names, new_id


def make(path):
    open(path, "w", encoding="utf-8").close()


# ------------------------------------------------------------------ send


def test_message_reaches_the_agent_and_the_stream(client):
    task = client.chat({"token": "ready "}, {"hear": "message", "say": True})
    client.event(task, "token")
    assert client.call("send", **ids(task), content="hello 😀")["type"] == "ok"
    event = client.event(task, "message")
    assert event["data"]["content"] == "hello 😀" and event["data"]["from"] == "user"
    output = client.wait_terminal(task)["data"]["output"]
    assert json.loads(output.removeprefix("ready ")) == \
        {"type": "message", "from": "user", "content": "hello 😀"}


def test_empty_message_is_allowed(client):
    task = client.chat({"hear": "message"}, {"token": "got it"})
    client.call("send", **ids(task), content="")
    assert client.wait_terminal(task)["event"] == "task.completed"


def test_send_to_an_ended_task_is_task_terminated(client):
    task, _ = client.finish("x")
    client.refused("task_terminated", "send", **ids(task), content="late")


def test_send_needs_content(client):
    task = client.chat({"hang": 1})
    assert "content" in client.refused("bad_request", "send", **ids(task))["message"]
    assert "content" in client.refused("bad_request", "send", **ids(task), content=7)["message"]
    client.call("cancel", **ids(task))


def test_message_is_delivered_or_undelivered_never_gone(client):  # F29
    for i in range(30):
        task = client.chat({"token": "x"}, {"sleep_ms": i % 6})
        client.event(task, "token")
        reply = client.ask("send", **ids(task), content=f"m{i}")
        client.wait_terminal(task)
        delivered = "message" in names(client.events_since(task))
        undelivered = "m%d" % i in json.dumps(client.task(task).get("undelivered", []))
        if reply["type"] == "ok":
            assert delivered != undelivered
        else:
            assert reply["code"] in ("task_terminated", "no_inbox")
            assert not delivered and not undelivered


def test_message_that_is_not_written_is_undelivered(client, tmp_path):
    """A pipe holds 64 KiB: what is in none has reached no agent.  When it reads, it gets them all."""
    said = [f"{i}" * 30000 for i in range(6)]
    for reads in (False, True):
        gate = tmp_path / str(reads)
        task = client.chat({"token": "x"}, {"wait": str(gate)}, *[{"hear": "message", "say": True}] * len(said))
        client.event(task, "token")
        for content in said:
            client.call("send", **ids(task), content=content)
        if reads:
            make(gate)
        else:
            client.call("cancel", **ids(task))
        end = client.wait_terminal(task)
        told = [e["data"]["content"] for e in client.events_since(task) if e["event"] == "message"]
        left = [m["content"] for m in client.task(task).get("undelivered", [])]
        assert told + left == said
        if reads:
            assert told == said and end["data"]["output"].count("message") == len(said)
        else:
            assert len("".join(told)) <= 65536


# ------------------------------------------------------------------ questions


def asking(client, kind, **more):
    task = client.chat({"question": "q1", "kind": kind, "prompt": "May I?", **more},
                       {"hear": "input", "say": True}, {"hear": "message"})
    client.event(task, "input_required")
    return task


@pytest.mark.parametrize("kind,answer,other", [("approval", True, False), ("approval", False, True),
                                               ("question", "yes, please", "no")])
def test_answer_reaches_the_agent(client, kind, answer, other):  # F31
    task = asking(client, kind)
    assert client.task(task)["waiting_for"] == "q1"
    assert client.call("respond", **ids(task), input_id="q1", answer=answer)["type"] == "ok"
    received = client.event(task, "input_received")
    assert received["data"] == {"input_id": "q1", "answer": answer}
    assert client.call("respond", **ids(task), input_id="q1", answer=answer)["type"] == "ok"
    client.refused("conflict", "respond", **ids(task), input_id="q1", answer=other)
    assert not client.task(task).get("waiting_for")
    client.call("send", **ids(task), content="go on")
    output = json.loads(client.wait_terminal(task)["data"]["output"])
    assert (output["input_id"], output["answer"]) == ("q1", answer)
    client.refused("conflict", "respond", **ids(task), input_id="q1", answer=other)  # too late


def test_wrong_answers(client):
    task = asking(client, "approval")
    client.refused("not_found", "respond", **ids(task), input_id="q9", answer=True)
    for answer in ("yes", 1, None, {}):
        client.refused("bad_request", "respond", **ids(task), input_id="q1", answer=answer)
    client.refused("bad_request", "respond", **ids(task), input_id="q1")
    client.call("respond", **ids(task), input_id="q1", answer=True)
    client.call("send", **ids(task), content="go on")
    client.wait_terminal(task)


def test_question_is_found_by_a_resume(client, clients):
    task = client.chat({"question": "q1", "kind": "question", "prompt": "Who?"}, {"hear": "input", "say": True})
    client.drop()
    again = clients(token=client.token)
    again.resume(task)
    assert again.event(task, "input_required")["data"]["prompt"] == "Who?"
    again.call("respond", **ids(task), input_id="q1", answer="me")
    assert again.wait_terminal(task)["event"] == "task.completed"


def test_question_that_expires_is_answered_with_null(client):
    task = client.chat({"question": "q1", "kind": "approval", "prompt": "?", "timeout_s": 1},
                       {"hear": "input", "say": True})
    received = client.event(task, "input_received")
    assert received["data"]["answer"] is None
    client.wait_terminal(task)
    client.refused("conflict", "respond", **ids(task), input_id="q1", answer=True)


# ------------------------------------------------------------------ when_busy and names


def test_reject(client):
    conversation, gate = new_id(), client.gateway.path()
    task = client.chat({"wait": gate}, conversation=conversation)
    client.refused("conflict", "chat", message="x", conversation_id=conversation, when_busy="reject")
    make(gate)
    client.wait_terminal(task)
    client.chat("x", conversation=conversation, when_busy="reject")


def test_enqueue_is_first_in_first_out(client):
    conversation, gate = new_id(), client.gateway.path()
    first = client.chat({"wait": gate}, conversation=conversation)
    queued = [client.chat({"answer": "history"}, conversation=conversation, when_busy="enqueue")
              for _ in range(3)]
    assert all(client.task(task)["status"] == "pending" for task in queued)
    make(gate)
    ends = [client.wait_terminal(task) for task in queued]
    assert [len(json.loads(end["data"]["output"])) for end in ends] == sorted(
        len(json.loads(end["data"]["output"])) for end in ends)
    started = [client.event(task, "task.started")["ts"] for task in [first] + queued]
    assert started == sorted(started)


def test_interrupt_stops_the_running_one_first(client):
    conversation = new_id()
    first = client.chat({"token": "x"}, {"hang": 1}, conversation=conversation)
    client.event(first, "token")
    queued = client.chat("never", conversation=conversation, when_busy="enqueue")
    new = client.chat("now", conversation=conversation, when_busy="interrupt")
    assert client.wait_terminal(new)["data"]["output"] == "now"
    for task in (first, queued):
        assert client.wait_terminal(task)["data"]["status"] == "cancelled"
    log = [(line["task_id"], line["event"]) for line in client.log if line["type"] == "event"]
    assert log.index((new["task_id"], "task.started")) > log.index((first["task_id"], "task.failed"))


def test_name_is_unique_among_live_tasks(client):
    conversation, gate = new_id(), client.gateway.path()
    task = client.chat({"wait": gate}, conversation=conversation, name="worker")
    assert task["name"] == "worker"
    client.refused("conflict", "chat", message="x", conversation_id=conversation, name="worker")
    client.chat("x", conversation=new_id(), name="worker")
    make(gate)
    client.wait_terminal(task)
    client.chat("x", conversation=conversation, name="worker")
