"""Agents of kind http whose tasks go on over a restart of the gateway (PROTOCOL.md 3 and 8)."""

import threading

import pytest

from gateway import Gateway
from holdfast import TERMINAL, Client, ids, names, stays, text_of
from model_server import CLOSE, DONE, ModelServer, data, finish, head, reply, text


def event(of, id=None, **members):
    return (f"id: {id}\n".encode() if id else b"") + data({"event": of, "data": members})


def told(id, words):
    return event("token", id, text=words)


FINAL = event("final_answer", "end", output="one two three")


@pytest.fixture
def world():
    server = ModelServer()
    agent = {"kind": "http", "url": server.url + "/run", "grace_s": 1, "retries": 4, "after_restart": "continue"}
    config = {"drain_s": 60, "agents": [{"name": "plain", "default": True, **agent},
                                        {"name": "chat", "form": "openai", "model": "big", **agent},
                                        {"name": "usual", **{**agent, "after_restart": "fail"}}]}
    gateway = Gateway(config).start()
    yield World(gateway, server)
    server.close()
    gateway.close()


def hear(client, task, words):
    for _ in client.scan():
        if text_of(client.events_since(task)) == words:
            return


class World:
    def __init__(self, gateway, server):
        self.gateway, self.server = gateway, server

    def begin(self, *steps, words, last=None, **fields):
        """A task whose server has said that, and waits; last: the name of the last event."""
        self.server.script = [[head(), *steps, threading.Event()]]
        with Client(self.gateway) as client:
            self.token = client.token
            self.task = client.chat("go", **fields)
            hear(client, self.task, words)
            if last:
                client.event(self.task, last)

    def restart(self, *script, kill=True):
        self.server.script = list(script)
        self.server.requests.clear()
        if kill:
            self.gateway.kill()
        else:
            assert self.gateway.stop() == 0
        self.gateway.start()

    def end(self):
        """Its record, and all its events; what was withdrawn is left out of the text."""
        with Client(self.gateway, token=self.token) as client:
            since = len(client.log)
            client.resume(self.task, 0)
            client.wait_terminal(self.task, since)
            return client.task(self.task), client.events_since(self.task, since)


def resumed(events):
    return [e["data"] for e in events if e["event"] == "task.resumed"]


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "stopped"])
def test_server_goes_on_behind_the_last_event(world, kill):
    world.begin(told("a", "one "), event("progress", "b", progress=0.5), told("c", "two "), words="one two ")
    world.restart(reply(told("d", "three"), FINAL, Last_Event_ID="c"), kill=kill)
    record, events = world.end()
    assert (record["status"], record["output"]) == ("completed", "one two three")
    assert resumed(events) == [{"attempt": 2, "why": "restart", **({} if kill else {"planned": True})}]
    assert text_of(events) == "one two three" and names(events).count("progress") == 1
    [again] = world.server.requests
    assert (again.method, again.path, again.headers["Last-Event-ID"]) == ("POST", "/run", "c")
    assert again.json["attempt"] == 2 and again.json["task_id"] == world.task["task_id"]


def test_each_restart_is_an_attempt_and_goes_on_behind_what_came_last(world):
    world.begin(told(1, "one "), words="one ")
    world.restart([head(Last_Event_ID="1"), told(2, "two "), threading.Event()])
    with Client(world.gateway, token=world.token) as client:
        client.resume(world.task, 0)
        hear(client, world.task, "one two ")
    world.restart(reply(told(3, "three"), FINAL, Last_Event_ID="2"))
    record, events = world.end()
    assert text_of(events) == record["output"] == "one two three"
    assert [r["attempt"] for r in resumed(events)] == [2, 3] and "retracted" not in record
    assert [(r.json["attempt"], r.headers["Last-Event-ID"]) for r in world.server.requests] == [(3, "2")]


@pytest.mark.parametrize("more", [{}, {"Last_Event_ID": "a"}], ids=["silent", "elsewhere"])
def test_server_that_does_not_go_on_there_begins_anew(world, more):
    world.begin(told("a", "one "), event("tool_call", "b", call_id="1", name="x", arguments={}), told("c", "tw"),
                words="one tw")
    world.restart(reply(told("x", "one two "), told("y", "three"), FINAL, **more))
    record, events = world.end()
    first, second = resumed(events)
    assert first == {"attempt": 2, "why": "restart"}
    assert second["attempt"] == 2 and second["keep"] == {"text": 0, "thinking": 0}
    assert stays(events) == record["output"] == "one two three"
    assert names(events).count("tool_call") == 1  # it has happened
    [[after, before]] = record["retracted"]
    assert {e["seq"]: e for e in events}[after + 1]["event"] == "token" and after < before


def test_server_without_ids_is_asked_anew(world):
    world.begin(told(None, "one "), told(None, "tw"), words="one tw")
    world.restart(reply(told(None, "one two "), told(None, "three"), FINAL))
    record, events = world.end()
    [only] = resumed(events)
    assert only["attempt"] == 2 and only["keep"] == {"text": 0, "thinking": 0}
    assert stays(events) == record["output"] == "one two three"
    [again] = world.server.requests
    assert "Last-Event-ID" not in again.headers and again.json["attempt"] == 2


def test_answer_that_was_whole_needs_no_more(world):
    world.begin(told("a", "one "), event("final_answer", "b", output="one two three"), words="one ",
                last="final_answer")
    world.restart([head(204, Last_Event_ID="b"), CLOSE])
    record, events = world.end()
    assert (record["status"], record["output"]) == ("completed", "one two three")
    assert len(resumed(events)) == 1


def test_ids_that_no_header_can_have_are_none(world):
    world.begin(told("good", "one "), told("no good", "tw"), words="one tw")
    world.restart(reply(told("x", "one two "), told("y", "three"), FINAL))
    record, events = world.end()
    assert stays(events) == record["output"] == "one two three" and len(resumed(events)) == 1
    assert "Last-Event-ID" not in world.server.requests[0].headers


def test_chat_completions_are_asked_for_anew(world):
    world.begin(text("Hel"), agent="chat", words="Hel")
    world.restart(reply(text("Hel"), text("lo"), finish(), DONE))
    record, events = world.end()
    assert stays(events) == record["output"] == "Hello"
    assert world.server.requests[0].json["messages"] == [{"role": "user", "content": "go"}]


def test_server_that_is_not_up_again_is_waited_for(world):
    """A request that may have had an effect is repeated after a restart only."""
    world.begin(told("a", "one two "), words="one two ")
    world.restart([head(502, content_type="text/plain"), CLOSE], reply(told("b", "three"), FINAL, Last_Event_ID="a"))
    record, events = world.end()
    assert text_of(events) == record["output"] == "one two three"
    assert [r.headers["Last-Event-ID"] for r in world.server.requests] == ["a", "a"]


def test_server_that_is_gone_fails_the_task(world):
    world.begin(told("a", "one "), words="one ")
    world.restart([head(410, content_type="text/plain"), b"no such run", CLOSE])
    record, _ = world.end()
    assert record["error"]["code"] == "agent_error" and "no such run" in record["error"]["message"]


def test_cancel_that_was_acknowledged_ends_the_task_without_asking_again(world):
    world.begin(told("a", "one "), words="one ")
    with Client(world.gateway, token=world.token) as client:
        client.send({"type": "cancel", "id": "x", **ids(world.task)})
        client.reply("x")
    world.restart(reply(FINAL))
    record, events = world.end()
    assert record["status"] == "cancelled" and events[-1]["event"] in TERMINAL
    assert not world.server.requests


def test_by_default_a_restart_ends_it(world):
    world.begin(told("a", "one "), agent="usual", words="one ")
    world.restart(reply(FINAL))
    record, _ = world.end()
    assert record["error"]["code"] == "orphaned" and record["output"] == "one "
    assert not world.server.requests
