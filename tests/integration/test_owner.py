"""Ownership: another's, missing and malformed are one answer, whichever verb (PROTOCOL.md 3, 5; F62)."""

import json
import os

import pytest

from gateway import Gateway, wait_until
from holdfast import Client, ids

VERBS = {
    "resume": {},
    "resume_after": {"type": "resume", "after": 3},
    "resume_beyond": {"type": "resume", "after": 10**6},
    "unsubscribe": {},
    "cancel": {},
    "cancel_tree": {"type": "cancel", "tree": True},
    "task": {},
    "send": {"content": "hello"},
    "respond": {"input_id": "q", "answer": "yes"},
}
MISSING = object()
MALFORMED = [
    None, MISSING, "", 7, 1.5, True, [], {}, "x", "../etc", "0" * 25, "0" * 27, "8" * 26, "é" * 13,
    "01JZZZZZZZZZZZZZZZZZZZZZZZ'--", "a\u0000b", "\ud83d", 2**60, "%s" * 13, "x" * 3000,
]


@pytest.fixture(scope="module")
def world(gateway):
    """Two guests, each with a running and an ended task in a conversation c-1 of the same name."""
    with Client(gateway) as alice, Client(gateway) as bob:
        for client in (alice, bob):
            client.done, client.events_of_done = client.finish("secret", conversation="c-1")
            client.end, client.dumped = gateway.path(), gateway.path()
            client.running = client.chat({"token": "secret"}, {"wait": client.end}, {"dump": client.dumped}, {"hang": 1},
                                         conversation="c-1")
            client.event(client.running, "token")
            client.finish("elsewhere", conversation="c-2")
        yield alice, bob


def answer(client, verb, task_id, conversation_id):
    """The reply's bytes, its id taken out."""
    fields = {"type": verb, **VERBS[verb], "id": "same"}
    if task_id is not MISSING:
        fields["task_id"] = task_id
    if conversation_id is not MISSING:
        fields["conversation_id"] = conversation_id
    since = len(client.log)
    client.send_text(json.dumps(fields))
    reply = client.reply("same", since)
    return client.raw[client.log.index(reply, since)], reply


@pytest.mark.parametrize("verb", VERBS)
def test_foreign_missing_and_malformed_are_one_answer(world, verb):
    alice, bob = world
    none = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
    expected, reply = answer(alice, verb, none, "c-1")
    assert (reply["type"], reply["code"]) == ("error", "not_found")
    assert "retry_after_ms" not in reply and "head" not in reply
    pairs = []
    for task in (bob.done["task_id"], bob.running["task_id"], none):
        for conversation in ("c-1", "c-2", "c-9", "missing"):
            pairs.append((task, conversation))
    for task in (alice.done["task_id"], alice.running["task_id"]):  # own, in another conversation
        for conversation in ("c-2", "c-9"):
            pairs.append((task, conversation))
        pairs.append((task.lower(), "c-1"))
    for bad in MALFORMED:
        pairs.append((bad, "c-1"))
        pairs.append((alice.running["task_id"], bad))
        pairs.append((bad, bad))
    for task, conversation in pairs:
        got, _ = answer(alice, verb, task, conversation)
        assert got == expected, (task, conversation)
    alice.quiet()
    assert alice.task(alice.running)["status"] == "running"
    assert bob.task(bob.running)["status"] == "running"


def test_name_does_not_serve_as_a_task_id(client):
    task = client.chat({"hang": 1}, name="worker", conversation="c")
    client.refused("not_found", "task", task_id="worker", conversation_id="c")
    client.call("cancel", **ids(task))


def test_own_ids_are_served(world):
    alice, _ = world
    assert alice.task(alice.done)["output"] == "secret"
    assert alice.task(alice.running)["status"] == "running"


def test_nothing_of_the_other_was_touched(world):
    """After all of the above: bob's tasks, inbox and journal are as they were."""
    alice, bob = world
    for verb in VERBS:
        for task in (bob.done, bob.running):
            answer(alice, verb, task["task_id"], "c-1")
    running = bob.task(bob.running)
    assert running["status"] == "running" and not running.get("cancel_requested_at")
    assert running["head"] == 3 and not running.get("undelivered")
    assert bob.replay(bob.done) == bob.events_of_done
    open(bob.end, "w", encoding="utf-8").close()
    wait_until(lambda: os.path.exists(bob.dumped), "what his agent has heard")
    assert json.load(open(bob.dumped, encoding="utf-8"))["heard"] == []
    told = {line["task_id"] for line in alice.log if line["type"] == "event"}
    assert not told & {bob.done["task_id"], bob.running["task_id"]}


def test_same_conversation_id_is_another_conversation(world):
    alice, bob = world
    for client, other in ((alice, bob), (bob, alice)):
        tasks = client.call("tasks", conversation_id="c-1")["tasks"]
        mine = {client.done["task_id"], client.running["task_id"]}
        assert mine <= {t["task_id"] for t in tasks}
        assert not {other.done["task_id"], other.running["task_id"]} & {t["task_id"] for t in tasks}
        messages = client.call("history", conversation_id="c-1")["messages"]
        assert {m["task_id"] for m in messages} <= {t["task_id"] for t in tasks}


def test_verbs_of_a_conversation_never_reach_the_others(world, clients):
    _, bob = world
    carol = clients()
    before = bob.call("history", conversation_id="c-1")["messages"]
    opened = carol.call("open", conversation_id="c-1", follow=True)
    assert (opened["messages"], opened["tasks"]) == ([], [])
    assert carol.call("tasks", conversation_id="c-1")["tasks"] == []
    assert carol.call("history", conversation_id="c-1")["messages"] == []
    assert carol.call("results", conversation_id="c-1")["results"] == []
    assert carol.call("cancel_all", conversation_id="c-1")["cancelled"] == 0
    assert carol.call("ack", conversation_id="c-1", task_ids=[bob.done["task_id"]])["acked"] == 0
    carol.call("watch")
    carol.ask("title", conversation_id="c-1", title="mine now")
    carol.call("delete", conversation_id="c-1")
    carol.call("close", conversation_id="c-1")
    assert carol.call("conversations")["conversations"] == []
    # Neither a push nor an event of what bob does meanwhile:
    task = bob.chat("more", conversation="c-1")
    bob.wait_terminal(task)
    carol.quiet()
    assert task["task_id"] not in str(carol.log)
    assert bob.call("history", conversation_id="c-1")["messages"][: len(before)] == before
    assert bob.task(bob.running)["status"] == "running"
    titles = {c["conversation_id"]: c["title"] for c in bob.call("conversations")["conversations"]}
    assert titles["c-1"] == "secret"


def test_agent_gets_only_its_own_conversation(world, clients):
    carol = clients()
    task, _ = carol.finish({"answer": "history"}, conversation="c-1")
    assert json.loads(task["output"]) == []


def test_ownership_holds_after_a_restart():
    with Gateway() as gateway:
        with Client(gateway) as alice, Client(gateway) as bob:
            tokens = alice.token, bob.token
            task, events = alice.finish("secret", conversation="c-1")
        gateway.kill()
        gateway.start()
        with Client(gateway, token=tokens[0]) as alice, Client(gateway, token=tokens[1]) as bob:
            expected, _ = answer(bob, "resume", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "c-1")
            assert answer(bob, "resume", task["task_id"], "c-1")[0] == expected
            assert alice.replay(task) == events


def test_a_batch_with_own_and_foreign_ids(world):
    alice, bob = world
    alice.send(*({"type": "task", "id": f"x{i}", **ids(task)}
                 for i, task in enumerate((alice.done, bob.done, alice.running, bob.running))))
    replies = [alice.reply(f"x{i}") for i in range(4)]
    assert [reply["type"] for reply in replies] == ["task", "error", "task", "error"]
