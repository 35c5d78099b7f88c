"""Messages and answers around a task's end, a stop and a kill: none is acknowledged and lost (F29, F31)."""

import json
import os
import random
import signal
import threading
import time

import pytest

from gateway import SANITIZE, Gateway, wait_until
from holdfast import TERMINAL, Client, Closed, ids, names

ROUNDS = int(os.environ.get("HOLDFAST_ROUNDS", 40 if SANITIZE else 80))
SEED = int(os.environ.get("HOLDFAST_SEED", random.randrange(2**32)))


def make(path):
    open(path, "w", encoding="utf-8").close()


def fate(client, task, content):
    """The fate of a message: delivered, undelivered, or None."""
    record = client.task(task)
    delivered = [event for event in client.events_since(task)
                 if event["event"] == "message" and event["data"]["content"] == content]
    left = json.dumps(record.get("undelivered", [])).count(json.dumps(content))
    assert len(delivered) + left <= 1, "twice"
    return "delivered" if delivered else "undelivered" if left else None


# ------------------------------------------------------------------ F29


def test_message_within_5_ms_of_the_end_is_told_what_becomes_of_it(client):  # F29
    """Many tasks at once, and a message to each around its end."""
    print(f"seed {SEED}")
    rng, outcomes, gates = random.Random(SEED), set(), []
    path = client.gateway.path
    for first in range(0, ROUNDS, 20):
        tasks = []
        for _ in range(20):
            gates.append(path())
            tasks.append(client.chat({"token": "x"}, {"wait": gates[-1]}))
        for task in tasks:
            client.event(task, "token")
        for n, (task, gate) in enumerate(zip(tasks, gates[first:])):
            if n % 4:  # the others are told before: however slow this machine is, not all come too late
                make(gate)
                time.sleep(rng.uniform(0, 0.010))
            task["asked"] = client.post("send", **ids(task), content=f"to {task['task_id']}")
            make(gate)
        for task in tasks:
            reply = client.reply(task["asked"])
            client.wait_terminal(task)
            became = fate(client, task, f"to {task['task_id']}")
            outcomes.add((reply["type"], became))
            if reply["type"] == "ok":
                assert became, "acknowledged, and never seen again"
            else:
                assert reply["code"] in ("task_terminated", "no_inbox") and became is None, (reply, became)
    assert outcomes & {("ok", "delivered"), ("ok", "undelivered")}, outcomes


def test_full_inbox_refuses_and_keeps_what_it_acknowledged():  # F29
    with Gateway({"limits": {"inbox_messages": 5}}) as gateway, Client(gateway) as client:
        first = client.chat({"hang": 1}, conversation="c")
        client.event(first, "task.started")
        queued = client.chat({"repeat": 5, "steps": [{"hear": "message", "say": True}]}, conversation="c",
                             when_busy="enqueue")
        for i in range(5):
            client.call("send", **ids(queued), content=f"m{i}")
        for _ in range(2):
            assert client.refused("overloaded", "send", **ids(queued), content="too much")["retry_after_ms"] > 0
        client.call("cancel", **ids(first))
        events = list(client.events(queued))
        assert [e["data"]["content"] for e in events if e["event"] == "message"] == [f"m{i}" for i in range(5)]
        assert [json.loads(e["data"]["text"])["content"] for e in events if e["event"] == "token"] == \
            [f"m{i}" for i in range(5)]
        assert "undelivered" not in client.task(queued)


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_acknowledged_messages_survive_the_gateway(end):  # F29
    """To a task that waits: it gets them after the start. To one that ran: they are undelivered, or were heard."""
    with Gateway({"drain_s": 0}) as gateway:
        with Client(gateway) as client:
            token = client.token
            running = client.chat({"token": "x"}, {"hang": 1}, conversation="c")
            client.event(running, "token")
            queued = client.chat({"repeat": 3, "steps": [{"hear": "message", "say": True}]}, conversation="c",
                                 when_busy="enqueue")
            for i in range(3):
                client.call("send", **ids(queued), content=f"q{i}")
                client.call("send", **ids(running), content=f"r{i}")
            getattr(gateway, end)()
        gateway.start()
        with Client(gateway, token=token) as client:
            client.replay(running)
            assert client.task(running)["error"]["code"] == "orphaned"
            assert all(fate(client, running, f"r{i}") for i in range(3))
            client.resume(queued, 0)
            client.wait_terminal(queued)
            if client.task(queued)["status"] == "completed":
                assert [fate(client, queued, f"q{i}") for i in range(3)] == ["delivered"] * 3
            else:  # a stop ends what waits too
                assert [fate(client, queued, f"q{i}") for i in range(3)] == ["undelivered"] * 3


def test_messages_during_a_drain_are_not_lost():  # F29
    with Gateway({"drain_s": 4}) as gateway:
        with Client(gateway) as client:
            token = client.token
            task = client.chat({"ignore_term": 1}, {"token": "x"}, {"repeat": 100_000, "steps": [{"hear": "message"}]})
            client.event(task, "token")
            gateway.process.send_signal(signal.SIGTERM)
            acknowledged, n = [], 0
            try:
                while True:
                    n += 1
                    if client.ask("send", **ids(task), content=f"m{n}")["type"] == "ok":
                        acknowledged.append(f"m{n}")
                    client.pump(0.02)
            except Closed as closed:
                assert closed.code == 1001
            assert gateway.wait() == 0
        gateway.start()
        with Client(gateway, token=token) as client:
            client.replay(task)
            assert acknowledged and all(fate(client, task, content) for content in acknowledged)


# ------------------------------------------------------------------ F31


@pytest.mark.parametrize("kind,answer", [("approval", True), ("question", "go on")])
def test_question_asked_while_nobody_is_there_waits_for_its_answer(client, clients, kind, answer):  # F31
    gate = client.gateway.path()
    task = client.chat({"wait": gate}, {"question": "q1", "kind": kind, "prompt": "May I?"},
                       {"hear": "input", "say": True})
    client.event(task, "task.started")
    make(gate)
    client.drop()  # within milliseconds of the question
    again = clients(token=client.token)
    wait_until(lambda: again.task(task).get("waiting_for") == "q1", "the question")
    for _ in range(3):  # each disconnect is neither yes nor no
        reader = clients(token=client.token)
        asked = reader.replay(task, 0)[-1]
        assert asked["event"] == "input_required" and asked["data"]["prompt"] == "May I?"
        reader.drop()
    opened = again.call("open", conversation_id=task["conversation_id"])
    assert [t.get("waiting_for") for t in opened["tasks"]] == ["q1"]
    again.resume(task, 2)
    again.call("respond", **ids(task), input_id="q1", answer=answer)
    assert json.loads(again.wait_terminal(task)["data"]["output"])["answer"] == answer
    received = [event for event in again.events_since(task) if event["event"] == "input_received"]
    assert [event["data"] for event in received] == [{"input_id": "q1", "answer": answer}]


def test_of_two_answers_at_once_one_wins(client, clients):  # F31
    tabs = [clients(token=client.token) for _ in range(4)]
    for _ in range(5):
        task = client.chat({"question": "q1", "kind": "question", "prompt": "?"}, {"hear": "input", "say": True})
        client.event(task, "input_required")
        barrier, replies = threading.Barrier(len(tabs)), {}

        def answer(n, tab, task=task, barrier=barrier, replies=replies):
            barrier.wait()
            replies[n] = tab.ask("respond", **ids(task), input_id="q1", answer=f"from {n}")

        threads = [threading.Thread(target=answer, args=pair) for pair in enumerate(tabs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        won = [n for n, reply in replies.items() if reply["type"] == "ok"]
        assert len(won) == 1
        assert {reply.get("code") for n, reply in replies.items() if n != won[0]} == {"conflict"}
        assert json.loads(client.wait_terminal(task)["data"]["output"])["answer"] == f"from {won[0]}"


OPTIONS = [{"id": "y", "name": "Yes", "kind": "allow_once"}, {"id": "always", "name": "Always", "kind": "allow_always"},
           {"id": "n", "name": "No", "kind": "reject_once"}]


@pytest.mark.parametrize("answer", [True, False, "always"])
def test_approval_with_options_takes_the_id_of_one(client, answer):
    asked = {"input_id": "q1", "kind": "approval", "prompt": "May I?", "options": OPTIONS}
    task = client.chat({"line": {"event": "input_required", "data": asked}}, {"hear": "input", "say": True})
    assert client.event(task, "input_required")["data"]["options"] == OPTIONS
    refused = client.refused("bad_request", "respond", **ids(task), input_id="q1", answer="maybe")
    assert "the id of one of its options" in refused["message"]
    client.call("respond", **ids(task), input_id="q1", answer=answer)
    assert json.loads(client.wait_terminal(task)["data"]["output"])["answer"] == answer
    client.call("respond", **ids(task), input_id="q1", answer=answer)  # once more, and it has ended
    client.refused("conflict", "respond", **ids(task), input_id="q1", answer="n")


def test_approval_without_options_takes_no_text(client):
    task = client.chat({"question": "q1", "kind": "approval", "prompt": "?"}, {"hear": "input", "say": True})
    client.event(task, "input_required")
    client.refused("bad_request", "respond", **ids(task), input_id="q1", answer="y")
    client.call("respond", **ids(task), input_id="q1", answer=False)
    client.wait_terminal(task)


def test_question_of_a_task_that_ends_is_no_approval(client):  # F31
    task = client.chat({"question": "q1", "kind": "approval", "prompt": "?"}, {"hang": 1})
    client.event(task, "input_required")
    client.call("cancel", **ids(task))
    events = list(client.events(task))
    assert True not in [event["data"].get("answer") for event in events]
    client.refused("conflict", "respond", **ids(task), input_id="q1", answer=True)
    assert not client.task(task).get("waiting_for")


def test_question_is_gone_with_its_agent_after_a_kill():  # F31, F33
    with Gateway() as gateway:
        with Client(gateway) as client:
            token = client.token
            task = client.chat({"question": "q1", "kind": "approval", "prompt": "?"}, {"hang": 1})
            client.event(task, "input_required")
            gateway.kill()
        gateway.start()
        with Client(gateway, token=token) as client:
            events = client.replay(task)
            assert names(events)[-1] in TERMINAL and True not in [e["data"].get("answer") for e in events]
            assert not client.task(task).get("waiting_for")
            assert client.ask("respond", **ids(task), input_id="q1", answer=True)["code"] == "conflict"
