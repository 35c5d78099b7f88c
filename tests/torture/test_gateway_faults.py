"""Every fault point of the gateway fails at its first, second, … passing in a whole conversation.

One conversation is held again and again, in one data folder, each time by a gateway that is told
which passing of which point fails (gateway/base/fault.h).  Its client does what a good client does: it
comes back, asks again, and keeps what it has seen.  It gets to its end each time; and each time the
next gateway, without a fault, is asked for all that was seen.
"""

import http.client
import json
import os
import re
import time

import pytest

from gateway import WAIT_S, Gateway, script_agent
from holdfast import LIVE, TERMINAL, Client, Closed, ids, new_id, program
from wire import TEXT, Wire, deflated, frame

POINTS = ["commit", "read", "spawn", "send", "accept", "timer", "inflate", "deflate"]
COMPRESSED = ("inflate", "deflate")
ALL = "HOLDFAST_KILLS" in os.environ  # where everything runs: else the first two passings, and each fifth
PATIENCE_S = 2  # with what fails for good
CONFIG = {"agents": [script_agent(default=True)], "store": {"retry_s": 1},
          "limits": {"requests_per_second": 10_000, "burst": 10_000}, "compression": True}


class Stuck(Exception):
    """It does not go on: the fault is for good."""


class Person:
    """A client that does not give up.  seen: task_id → seq → the line, over all its connections."""

    def __init__(self, gateway, point=None, token=None, patience_s=WAIT_S):
        self.gateway, self.token, self.patience_s = gateway, token, patience_s
        self.compression = point in COMPRESSED
        self.seen, self.tasks = {}, {}
        self.client = None

    def note(self):
        for line, raw in zip(self.client.log, self.client.raw):
            if line["type"] == "event":
                lines = self.seen.setdefault(line["task_id"], {})
                assert lines.setdefault(line["seq"], raw) == raw, "a line has changed"

    def leave(self):
        if self.client:
            self.note()
            self.client.close()
            self.client = None

    def persist(self, action):
        """action(client), over as many connections as it takes."""
        deadline = time.monotonic() + self.patience_s
        while True:
            try:
                if not self.client:
                    self.client = Client(self.gateway, token=self.token, hello=False,
                                         compression=self.compression)
                    self.client.hello(token=self.token)
                    self.token = self.client.token
                return action(self.client)
            except (Closed, OSError):
                self.leave()
            if time.monotonic() > deadline:
                raise Stuck
            time.sleep(0.02)

    def ask(self, type, **fields):
        """A request that is sent again while the gateway says that it is busy."""
        deadline = time.monotonic() + self.patience_s
        while True:
            reply = self.persist(lambda client: client.ask(type, **fields))
            if reply["type"] != "error" or reply["code"] not in ("overloaded", "internal"):
                return reply
            if time.monotonic() > deadline:
                raise Stuck
            time.sleep(0.02)

    def start(self, conversation, *steps):
        key = new_id("key")
        reply = self.ask("chat", message=program(*steps), conversation_id=conversation, request_key=key)
        assert reply["type"] == "started", reply
        self.tasks[reply["task"]["task_id"]] = reply["task"]
        return reply["task"]

    def follow(self, task, until):
        """Resumes behind what it has seen, until an event of that name, or the end, has come."""
        def body(client):
            known = max(self.seen.get(task["task_id"], {0: ""}))
            since = len(client.log)
            if client.last.get(task["task_id"]) is None:
                reply = client.ask("resume", **ids(task), after=known)
                if reply["type"] == "error":
                    raise OSError(reply["code"])  # come again
            return client.expect(lambda line: line.get("task_id") == task["task_id"] and is_wanted(line),
                                 since, self.patience_s)

        def is_wanted(line):
            return line.get("event") in (until, "task.completed", "task.failed")

        if self.client:
            self.note()
        for raw in self.seen.get(task["task_id"], {}).values():
            if is_wanted(json.loads(raw)):
                return json.loads(raw)
        line = self.persist(body)
        self.note()
        return line


def hold_conversation(person, point=None):
    """A task that is asked, told something, left and resumed; one that is cancelled; the lists.  Where
    timers are the point, the cancelled one does not obey, and its grace runs out.  A short text is compressed
    without zlib, so where that is the point the first piece is long."""
    long = 800 if person.compression else 1
    stubborn = [{"ignore_term": 1}] if point == "timer" else []
    conversation, gate = new_id(), person.gateway.path()
    first = person.start(conversation, {"count": person.gateway.path("count-" + conversation)},
                         {"token": "one " * long}, {"hear": "message"}, {"token": "two "}, {"wait": gate},
                         {"final_answer": "whole"})
    person.follow(first, "token")
    said = person.ask("send", **ids(first), content="go on")
    person.leave()  # a lid closes
    open(gate, "w").close()
    ended = person.follow(first, "task.completed")
    second = person.start(conversation, *stubborn, {"token": "x"}, {"hang": 1})
    person.follow(second, "token")
    cancelled = person.ask("cancel", **ids(second))
    last = person.follow(second, "task.failed")
    for verb in ("tasks", "history", "open"):
        assert person.ask(verb, conversation_id=conversation)["type"] != "error"
    if first["task_id"] in person.seen:
        read_over_http(person, first)
    return {"first": (first, said, ended), "second": (second, cancelled, last)}


def read_over_http(person, task):
    """The events of an ended task as a stream over HTTP: one that is cut is read again; one that ends
    cleanly has all of them."""
    gateway, deadline = person.gateway, time.monotonic() + person.patience_s
    path = f"/v1/conversations/{task['conversation_id']}/tasks/{task['task_id']}/events"
    while time.monotonic() < deadline:
        try:
            status, _, body = gateway.http("GET", path, headers={"Authorization": f"Bearer {person.token}"})
        except (OSError, http.client.HTTPException):
            continue
        if status != 200:
            assert status in (500, 503), body
            continue
        seqs = [int(line[4:]) for line in body.decode().split("\n") if line.startswith("id: ")]
        assert seqs == list(range(1, max(person.seen[task["task_id"]]) + 1)), "a clean end, and not all of it"
        return
    raise Stuck


# Possible ends of a task when the failed operation was needed for its start.
ENDS = {"spawn": "agent_error", "read": "internal"}


def check_conversation(told, point):
    """The outcome of its tasks: as without a fault, except a task that could not start."""
    first, said, ended = told["first"]
    if ended["event"] == "task.failed":
        assert ended["data"]["error"]["code"] == ENDS.get(point), ended
    else:
        assert said["type"] == "ok" and ended["data"]["output"] == "whole", (said, ended)
    second, cancelled, last = told["second"]
    assert last["event"] == "task.failed"
    if last["data"]["status"] == "failed":
        assert last["data"]["error"]["code"] == ENDS.get(point), last
    else:
        assert (cancelled["type"], last["data"]["status"]) == ("ok", "cancelled"), (cancelled, last)


def check_seen(gateway, person):
    """All that was ever seen is there, to the byte, dense from 1, and what has ended ended once."""
    with Client(gateway, token=person.token) as client:
        for task_id, task in person.tasks.items():
            since = len(client.log)
            events = client.replay(task)
            assert [e["seq"] for e in events] == list(range(1, len(events) + 1))
            kept = client.raw_events(task, since)
            n_ends = [e["event"] in TERMINAL for e in events].count(True)
            assert n_ends == 1 or (n_ends == 0 and client.task(task)["status"] in LIVE)
            for seq, raw in person.seen.get(task_id, {}).items():
                assert kept[seq] == raw


def check_once(gateway, person):
    """No task has run twice, however often its request was sent."""
    for path in gateway.folder.glob("count-*"):
        assert len(path.read_text().splitlines()) <= 1


def strikes(gateway):
    return any("event=struck" in line for line in gateway.log)


def passings(gateway):
    found = {}
    for line in gateway.log:
        match = re.search(r"event=passed point=(\w+) times=(\d+)", line)
        if match:
            found[match[1]] = int(match[2])
    return found


def begin(gateway, fault=None):
    """Starts it with a fault; one that it cannot start with is a start without it."""
    if gateway.process:  # a test has failed
        gateway.kill()
    gateway.environ = {"HOLDFAST_FAULT": fault} if fault else {}
    gateway.log.clear()
    try:
        gateway.start()
        return True
    except AssertionError:
        assert any("cannot_repair" in line for line in gateway.log), gateway.tail()
        gateway._finish()
        begin(gateway)
        return False


@pytest.fixture(scope="module")
def gateway():
    made = Gateway(CONFIG)
    yield made
    made.close()


@pytest.fixture(scope="module")
def passed(gateway):
    """How often each point is passed in a conversation without a fault."""
    found = {}
    for point in (None, "timer", *COMPRESSED):
        begin(gateway)
        person = Person(gateway, point)
        check_conversation(hold_conversation(person, point), None)
        person.leave()
        assert gateway.stop() == 0
        found = {**passings(gateway), **found, **({point: passings(gateway)[point]} if point else {})}
    return found


@pytest.mark.parametrize("point", POINTS)
def test_torture_each_passing_of_a_point_fails_once(gateway, passed, point):
    assert passed[point] > 0, f"{point} is not passed at all"
    struck = 0
    for n in (n for n in range(1, passed[point] + 1) if ALL or n <= 2 or n % 5 == 0):
        started = begin(gateway, f"{point}:{n}")
        person = Person(gateway, point)
        told = hold_conversation(person, point)
        person.leave()
        check_conversation(told, point)
        assert gateway.stop() == 0
        struck += strikes(gateway) or not started  # its log is whole now
        begin(gateway)
        check_seen(gateway, person)
        check_once(gateway, person)
        assert gateway.stop() == 0
    assert struck > 0, "no fault struck"


@pytest.mark.parametrize("point", ["commit", "read", "send", "accept"])
def test_torture_a_point_that_fails_for_good_shows_nothing_untrue(gateway, passed, point, monkeypatch):
    for n in sorted({1, 2, max(2, passed[point] // 2), passed[point]}):
        begin(gateway, f"{point}:{n}+")
        person = Person(gateway, patience_s=PATIENCE_S)
        try:
            with monkeypatch.context() as changed:
                changed.setattr("holdfast.WAIT_S", PATIENCE_S)  # a connection that is never accepted
                hold_conversation(person)
        except (Stuck, AssertionError) as why:
            assert isinstance(why, Stuck) or "nothing more within" in str(why) \
                or "not within" in str(why), why
        person.leave()
        gateway.kill()
        begin(gateway)
        if person.token:
            check_seen(gateway, person)
        check_once(gateway, person)
        assert gateway.stop() == 0


OFFER = {"Sec-WebSocket-Extensions": "permessage-deflate"}


@pytest.mark.parametrize("fault", ["inflate:1+", "inflate:2+"])  # its state; its window
def test_torture_without_memory_to_expand_a_connection_ends_and_nothing_else(gateway, fault):
    begin(gateway, fault)
    for _ in range(3):
        with Wire(gateway, headers=OFFER) as wire:
            wire.send(frame(TEXT, deflated(b'{"type":"hello"}'), rsv=4))
            assert wire.close_code() is None, "a close code says that the client is at fault"
    person = Person(gateway)
    check_conversation(hold_conversation(person), None)
    person.leave()
    assert gateway.stop() == 0 and strikes(gateway)


def test_torture_without_memory_to_compress_messages_go_plain(gateway):
    begin(gateway, "deflate:1+")
    person = Person(gateway, "deflate")
    check_conversation(hold_conversation(person), None)
    person.leave()
    with Wire(gateway, headers=OFFER) as wire:
        wire.text('{"type":"hello"}')
        wire.until_text("welcome")
        assert wire.window and wire.n_deflated == 1, "a short text takes no memory"
        wire.text(json.dumps({"type": "chat", "message": program({"token": "one " * 800}, {"hang": 1}), "conversation_id": "c"}))
        wire.until_text('"started"')
        short = wire.n_deflated
        while '"event":"token"' not in wire.until(TEXT).decode():
            short = wire.n_deflated
        assert wire.n_deflated == short, "a long one goes plain"
    assert gateway.stop() == 0 and strikes(gateway)
