"""HTTP and WebSocket are one API: for every verb that both have, with own, foreign, missing and malformed ids, they say
the same bytes (PROTOCOL.md 7); and for those that the WebSocket alone has, foreign and missing are the same bytes."""

import json
import urllib.parse

import pytest

from holdfast import Client, new_id, program
from test_http_api import JSON, sse

NO_TASK = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
MALFORMED = ["x", "..x", "a b", "é", "%", NO_TASK.lower(), NO_TASK + "0", "x" * 200]

# verb: fields, method, path behind the conversation or the task, body
TASK_VERBS = {
    "task": ({}, "GET", "", None),
    "cancel": ({}, "DELETE", "", None),
    "cancel tree": ({"tree": True}, "DELETE", "?tree=true", None),
    "cancel tree of a wrong type": ({"tree": "x"}, "DELETE", "?tree=x", None),
    "send": ({"content": "x"}, "POST", "/messages", {"content": "x"}),
    "send of a wrong type": ({"content": 7}, "POST", "/messages", {"content": 7}),
    "send of nothing": ({}, "POST", "/messages", {}),
    "respond": ({"input_id": "q", "answer": "x"}, "POST", "/responses", {"input_id": "q", "answer": "x"}),
    "respond with nothing": ({"input_id": "q"}, "POST", "/responses", {"input_id": "q"}),
    "resume beyond": ({"after": 10 ** 6}, "GET", "/events?after=1000000", None),
    "resume before all": ({"after": -1}, "GET", "/events?after=-1", None),
    "resume from a word": ({"after": "x"}, "GET", "/events?after=x", None),
}
CONVERSATION_VERBS = {
    "tasks": ({}, "GET", "/tasks", None),
    "tasks with a limit": ({"limit": 1}, "GET", "/tasks?limit=1", None),
    "tasks with a wrong limit": ({"limit": 0}, "GET", "/tasks?limit=0", None),
    "tasks by status": ({"status": "failed"}, "GET", "/tasks?status=failed", None),
    "tasks by a wrong status": ({"status": "x"}, "GET", "/tasks?status=x", None),
    "history": ({}, "GET", "/messages", None),
    "history before": ({"before": "0"}, "GET", "/messages?before=0", None),
    "results": ({}, "GET", "/results", None),
    "ack": ({"task_ids": [NO_TASK]}, "POST", "/results/ack", {"task_ids": [NO_TASK]}),
    "ack of a wrong type": ({"task_ids": "x"}, "POST", "/results/ack", {"task_ids": "x"}),
    "title": ({"title": "same"}, "PATCH", "", {"title": "same"}),
    "title of a wrong type": ({"title": 7}, "PATCH", "", {"title": 7}),
    "cancel_all": ({}, "DELETE", "/tasks", None),
    "chat without a message": ({}, "POST", "/tasks", {}),
    "chat with a wrong agent": ({"message": "x", "agent": "nobody"}, "POST", "/tasks",
                                {"message": "x", "agent": "nobody"}),
}
WEBSOCKET_ALONE = {"unsubscribe": "task", "open": "conversation", "close": "conversation"}


class Both:
    """One owner on both transports."""

    def __init__(self, gateway, **options):
        self.gateway = gateway
        self.client = Client(gateway, **options)
        self.token = self.client.token

    def over_websocket(self, type, **fields):
        since = len(self.client.log)
        self.client.send_text(json.dumps({"type": type, "id": "same", **fields}))
        reply = self.client.reply("same", since)
        return self.client.raw[self.client.log.index(reply, since)].replace(',"id":"same"', "", 1)

    def over_http(self, method, path, body):
        headers = {"Authorization": "Bearer " + self.token, **(JSON if body is not None else {})}
        answer = self.gateway.http(method, path, None if body is None else json.dumps(body), headers)[2].decode()
        error = '{"error":{'
        return '{"type":"error",' + answer[len(error):-1] if answer.startswith(error) else answer


@pytest.fixture(scope="module")
def world(gateway):
    """Alice and Bob, each with a task that runs, one that has ended, and a result that waits."""
    both = Both(gateway), Both(gateway)
    for who in both:
        client, who.conversation = who.client, new_id()
        who.ended, _ = client.finish({"token": "said"}, conversation=who.conversation)
        client.finish({"token": "result"}, conversation=who.conversation, background=True)
        who.runs = client.chat({"token": "x"}, {"hang": 1}, conversation=who.conversation)
        client.event(who.runs, "token")
        client.call("unsubscribe", task_id=who.runs["task_id"], conversation_id=who.conversation)
    yield both
    for who in both:
        who.client.close()


def path_of(conversation, task=None):
    path = "/v1/conversations/" + urllib.parse.quote(conversation, safe="")
    return path if task is None else path + "/tasks/" + urllib.parse.quote(task, safe="")


@pytest.mark.parametrize("verb", TASK_VERBS)
def test_verbs_about_a_task_say_the_same(world, verb):
    alice, bob = world
    fields, method, tail, body = TASK_VERBS[verb]
    own = [(alice.conversation, alice.ended["task_id"])]
    if not verb.startswith(("cancel", "send")):  # those change what runs: the second answer is another
        own.append((alice.conversation, alice.runs["task_id"]))
    foreign = [(bob.conversation, task["task_id"]) for task in (bob.ended, bob.runs)]
    foreign.append((alice.conversation, bob.runs["task_id"]))
    missing = [(alice.conversation, NO_TASK), (new_id(), NO_TASK), (new_id(), alice.ended["task_id"])]
    malformed = [(alice.conversation, bad) for bad in MALFORMED] + [(bad, alice.ended["task_id"]) for bad in MALFORMED]
    seen = set()
    for conversation, task in own + foreign + missing + malformed:
        said = alice.over_websocket(verb.split()[0], conversation_id=conversation, task_id=task, **fields)
        assert alice.over_http(method, path_of(conversation, task) + tail, body) == said, (conversation, task)
        if (conversation, task) not in own:
            seen.add(said)
    assert len(seen) == 1, seen  # foreign, missing and malformed


@pytest.mark.parametrize("verb", CONVERSATION_VERBS)
def test_verbs_about_a_conversation_say_the_same(world, verb):
    alice, bob = world
    fields, method, tail, body = CONVERSATION_VERBS[verb]
    names = [bob.conversation, new_id()] + MALFORMED[2:]
    if verb != "cancel_all":
        names.append(alice.conversation)
    for conversation in names:
        said = alice.over_websocket(verb.split()[0], conversation_id=conversation, **fields)
        assert alice.over_http(method, path_of(conversation) + tail, body) == said, conversation
    told = [alice.over_websocket(verb.split()[0], conversation_id=name, **fields).replace(name, "…")
            for name in names[:2]]
    assert told[0] == told[1], "foreign and missing"


def test_lists_of_conversations_and_deletes_say_the_same(world):
    alice, bob = world
    for query, fields in (("", {}), ("?limit=1", {"limit": 1}), ("?limit=x", {"limit": "x"}), ("?before=c", {"before": "c"})):
        assert alice.over_http("GET", "/v1/conversations" + query, None) == alice.over_websocket("conversations", **fields)
    for conversation in (bob.conversation, new_id(), "a b"):
        said = alice.over_websocket("delete", conversation_id=conversation)
        assert alice.over_http("DELETE", path_of(conversation), None) == said
    assert bob.client.task(bob.ended)["status"] == "completed"


def test_start_that_is_repeated_is_the_same_on_both(world):
    alice, _ = world
    conversation, message = new_id(), program({"token": "once"})
    task = alice.client.chat({"token": "once"}, conversation=conversation, request_key="same-key")
    alice.client.wait_terminal(task)
    alice.client.quiet()
    fields = {"message": message, "request_key": "same-key"}
    again = alice.over_websocket("chat", conversation_id=conversation, **fields)
    assert '"repeated":true' in again and task["task_id"] in again
    assert alice.over_http("POST", path_of(conversation) + "/tasks", fields) == again
    other = {**fields, "message": "another"}
    assert alice.over_http("POST", path_of(conversation) + "/tasks", other) == \
        alice.over_websocket("chat", conversation_id=conversation, **other)


def test_events_are_the_same_lines(world, gateway):
    alice, _ = world
    alice.client.replay(alice.ended)
    lines = [raw for raw, line in zip(alice.client.raw, alice.client.log)
             if line["type"] == "event" and line["task_id"] == alice.ended["task_id"]]
    clean, events = sse(alice, alice.conversation, alice.ended["task_id"])
    assert clean and [json.loads(line) for line in dict.fromkeys(lines)] == [data for _, _, data in events]


@pytest.mark.parametrize("verb", WEBSOCKET_ALONE)
def test_verbs_of_the_websocket_alone_tell_nothing(world, verb):
    alice, bob = world

    def ask(conversation, task):
        fields = {"task_id": task} if WEBSOCKET_ALONE[verb] == "task" else {"follow": True} if verb == "open" else {}
        return alice.over_websocket(verb, conversation_id=conversation, **fields).replace(conversation, "…")

    none = new_id()
    assert ask(bob.conversation, bob.runs["task_id"]) == ask(none, NO_TASK)
    assert ask(bob.conversation, bob.ended["task_id"]) == ask(none, NO_TASK)
    if WEBSOCKET_ALONE[verb] == "task":
        assert len({ask(alice.conversation, bad) for bad in [bob.runs["task_id"], NO_TASK, *MALFORMED]}) == 1
    later = bob.client.chat({"token": "unheard"}, conversation=bob.conversation)
    bob.client.wait_terminal(later)
    alice.over_websocket("ping")
    assert later["task_id"] not in str(alice.client.log)


def test_every_verb_is_here():
    """The rules of PROTOCOL.md section 5."""
    asked = {verb.split()[0] for verb in [*TASK_VERBS, *CONVERSATION_VERBS, *WEBSOCKET_ALONE]}
    assert asked | {"conversations", "delete", "watch", "ping", "hello"} == {
        "hello", "chat", "resume", "unsubscribe", "cancel", "cancel_all", "send", "respond", "open", "close", "watch",
        "task", "tasks", "history", "conversations", "title", "delete", "results", "ack", "ping"}
