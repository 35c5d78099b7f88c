"""watch with events: all tasks of the owner over one subscription (PROTOCOL.md 5, Watching everything)."""

import base64
import contextlib
import http.client
import json
import os

import pytest

import tokens
from gateway import WAIT_S, Gateway, merged, script_agent
from holdfast import Client, new_id

CONFIG = {"agents": [script_agent(default=True)]}


class Reader:
    """A client as the page describes it: keeps the newest cursor, and drops the numbers that it has."""

    def __init__(self):
        self.cursor, self.tasks, self.ended, self.again = None, {}, set(), 0
        self.client = None

    def come(self, client, **more):
        self.client, self.now, self.at = client, {}, len(client.log)
        fields = {"cursor": self.cursor} if self.cursor else {}
        assert client.call("watch", events=True, **fields, **more)["type"] == "ok"

    def read(self):
        lines, self.at = self.client.log[self.at:], len(self.client.log)
        for line in lines:
            if line["type"] == "following":
                task = line["task"]["task_id"]
                assert task not in self.now
                self.now[task] = line["after"]
            elif line["type"] == "event" and line["task_id"] in self.now:
                self.take(line)
            elif line["type"] == "cursor":
                assert len(line["cursor"]) <= 8192
                self.cursor = line["cursor"]

    def take(self, line):
        task, seq = line["task_id"], line["seq"]
        assert line.get("from", seq) == self.now[task] + 1
        self.now[task] = seq
        kept = self.tasks.setdefault(task, [])
        if seq <= len(kept):
            self.again += 1
            assert kept[seq - 1] == line
            return
        assert seq == len(kept) + 1
        kept.append(line)
        if line["event"] in ("task.completed", "task.failed"):
            self.ended.add(task)

    def until(self, condition):
        self.read()
        while not condition():
            assert self.client.pump()
            self.read()

    def leave(self):
        self.read()
        self.client.close()


def whole(client, reader, tasks):
    """The reader has what a replay of each task says."""
    for task in tasks:
        client.resume(task, 0)
        client.wait_terminal(task)
        assert reader.tasks[task["task_id"]] == client.events_since(task)


def test_all_tasks_over_one_connection_and_over_many(client, clients, tmp_path):
    gate, reader = tmp_path / "gate", Reader()
    done = client.chat({"token": "before"}, conversation=new_id())
    client.wait_terminal(done)
    live = client.chat({"token": "a"}, {"wait": str(gate)}, {"token": "b"}, conversation=new_id())
    reader.come(clients(token=client.token))
    here = [client.chat({"token": str(n)}, conversation=new_id()) for n in range(3)]
    reader.until(lambda: len(reader.ended) == 3 and reader.cursor)
    assert done["task_id"] not in reader.tasks
    seen = reader.cursor
    reader.until(lambda: reader.cursor != seen or live["task_id"] in reader.tasks)
    reader.leave()
    gate.touch()
    away = [client.chat({"token": str(n)}, conversation=new_id()) for n in range(40)]
    for task in [live, *away]:
        client.wait_terminal(task)
    reader.come(clients(token=client.token))
    reader.until(lambda: len(reader.ended) == 44)
    order = [task for task in reader.now if task in {t["task_id"] for t in away}]
    assert order == [t["task_id"] for t in away]  # as they were made
    whole(clients(token=client.token), reader, [live, *here, *away])


def test_a_cursor_outlives_a_kill():
    with Gateway(CONFIG) as gateway:
        asker, reader = Client(gateway), Reader()
        reader.come(Client(gateway, token=asker.token))
        first = asker.chat({"token": "x"}, conversation=new_id())
        reader.until(lambda: first["task_id"] in reader.ended and reader.cursor)
        token = asker.token
        gateway.kill()
        gateway.start()
        asker = Client(gateway, token=token)
        second = asker.chat({"token": "y"}, conversation=new_id())
        asker.wait_terminal(second)
        reader.come(Client(gateway, token=token))
        reader.until(lambda: second["task_id"] in reader.ended)
        whole(Client(gateway, token=token), reader, [first, second])


def test_a_cursor_is_nothing_for_another_owner(client, clients):
    reader = Reader()
    reader.come(client)
    secret = client.chat({"token": "secret"}, {"hang": True}, conversation=new_id())
    reader.until(lambda: reader.cursor and secret["task_id"] in reader.tasks)
    other = clients()
    thief = Reader()
    thief.cursor = reader.cursor
    thief.come(other)
    own = other.chat({"token": "own"}, conversation=new_id())
    thief.until(lambda: own["task_id"] in thief.ended)
    assert list(thief.tasks) == [own["task_id"]]
    assert not any(secret["task_id"] in json.dumps(line) for line in other.log)
    client.call("cancel", conversation_id=secret["conversation_id"], task_id=secret["task_id"])


@pytest.mark.parametrize("fields, word", [
    ({"events": True, "cursor": "AAAA"}, "cursor"), ({"events": True, "cursor": ""}, "cursor"),
    ({"events": True, "cursor": "A" * 8193}, "cursor"), ({"cursor": "AQ"}, "cursor"), ({"rollup_ms": 5}, "rollup_ms"),
    ({"events": "yes"}, "events")])
def test_bad_fields_are_named(client, fields, word):
    assert word in client.refused("bad_request", "watch", **fields)["message"]


def test_a_narrowed_token_is_told_of_its_conversations_alone(tmp_path):
    with Gateway(merged(CONFIG, {"auth": tokens.config(tmp_path)})) as gateway:
        owner, reader = Client(gateway, token=tokens.token("ann")), Reader()
        claim = {"holdfast": {"conversations": [{"id": "c-open", "rights": ["read"]}]}}
        reader.come(Client(gateway, token=tokens.token("ann", **claim)))
        owner.wait_terminal(owner.chat({"token": "no"}, conversation="c-shut"))
        shown = owner.chat({"token": "yes"}, conversation="c-open")
        reader.until(lambda: shown["task_id"] in reader.ended)
        assert list(reader.tasks) == [shown["task_id"]]


def test_text_may_be_rolled_up(client, clients, tmp_path):
    gate, reader = tmp_path / "gate", Reader()
    other = clients(token=client.token)
    assert other.call("watch", events=True, rollup_ms=10_000)["type"] == "ok"
    task = client.chat(*[{"token": c} for c in "abcdef"], {"wait": str(gate)}, {"progress": 0.5}, conversation=new_id())
    client.expect(lambda line: line.get("event") == "token" and line["data"]["text"] == "f")
    gate.touch()
    client.wait_terminal(task)
    other.expect(lambda line: line.get("event") == "task.completed")
    lines = [line for line in other.log if line["type"] == "event"]
    assert [line.get("from", line["seq"]) for line in lines] == [1] + [line["seq"] + 1 for line in lines[:-1]]
    assert len([line for line in lines if line["event"] == "token"]) < 6


# ---------------------------------------------------------------- over HTTP


class Stream:
    """Server-Sent Events as the standard reads them, in the place of a client: the id is kept, and lines are logged."""

    def __init__(self, gateway, token, query="events=true", last=None):
        self.http = http.client.HTTPConnection(gateway.host, gateway.port, timeout=WAIT_S)
        head = {"Authorization": f"Bearer {token}"} | ({"Last-Event-ID": last} if last else {})
        self.http.request("GET", f"/v1/watch?{query}", headers=head)
        self.answer = self.http.getresponse()
        self.log, self.names, self.last = [], [], last

    def pump(self):
        """One event; False: the stream is over."""
        fields = {}
        with contextlib.suppress(http.client.IncompleteRead, ConnectionError):
            while (line := self.answer.readline().decode()) not in ("\n", ""):
                name, value = line.rstrip("\n").split(":", 1)
                fields[name] = value.removeprefix(" ")
        self.last = fields.get("id", self.last)
        if "data" not in fields:
            return bool(fields)
        self.names.append(fields["event"])
        self.log.append(json.loads(fields["data"]))
        return True

    def call(self, type, events=None, cursor=None):
        assert (type, events, cursor) == ("watch", True, self.last)
        assert self.answer.status == 200 and self.answer.getheader("content-type") == "text/event-stream"
        return {"type": "ok"}

    def close(self):
        """A cut: of what is on its way nothing is read."""
        self.http.close()


def test_stream_goes_on_behind_its_last_id(gateway, client, clients, tmp_path):
    """Cut ten times in the middle of tasks: every task whole, each event once but for what came behind the last id."""
    reader, tasks = Reader(), []
    for n in range(10):
        gate = tmp_path / f"gate-{n}"
        stream = Stream(gateway, client.token, last=reader.cursor)
        reader.come(stream)
        tasks.append(client.chat({"token": "a"}, {"wait": str(gate)}, *[{"token": c} for c in "bcd"], conversation=new_id()))
        reader.until(lambda: len(reader.tasks.get(tasks[-1]["task_id"], [])) > 2 and reader.cursor)
        assert stream.last == reader.cursor
        reader.leave()
        gate.touch()
        client.wait_terminal(tasks[-1])
    stream = Stream(gateway, client.token, last=reader.cursor)
    reader.come(stream)
    reader.until(lambda: len(reader.ended) == 10)
    whole(clients(token=client.token), reader, tasks)
    assert {"following", "task.created", "token", "task.completed"} <= set(stream.names)
    assert all(name == line.get("event", line["type"]) for name, line in zip(stream.names, stream.log))
    reader.leave()


def test_stream_takes_its_cursor_as_a_parameter_too_and_the_header_is_newer(gateway, client):
    first = Reader()
    first.come(Stream(gateway, client.token))
    task, _ = client.finish("one", conversation=new_id())
    first.until(lambda: task["task_id"] in first.ended and first.client.names[-1] == "cursor")
    begun = next(line["cursor"] for line in first.client.log if line["type"] == "cursor")
    first.leave()
    other, _ = client.finish("two", conversation=new_id())
    for query, last in ((f"events=true&cursor={first.cursor}", None), (f"cursor={begun}&events=true", first.cursor)):
        second = Reader()
        second.client = Stream(gateway, client.token, query, last)
        second.now, second.at = {}, 0
        second.until(lambda: other["task_id"] in second.ended)
        assert list(second.tasks) == [other["task_id"]]
        second.leave()


def test_stream_of_conversations_alone(gateway, client):
    stream, conversation = Stream(gateway, client.token, ""), new_id()
    client.finish("x", conversation=conversation)
    while not stream.log or stream.log[-1]["conversation"]["conversation_id"] != conversation:
        assert stream.pump()
    assert set(stream.names) == {"conversation_changed"}
    stream.close()


def test_stream_with_a_cursor_of_8_kib(gateway, client):
    """The longest one fits into a head, and tasks that are gone are passed over."""
    place = os.urandom(16) + b"\xff" * 7 + b"\x01"
    cursor = base64.urlsafe_b64encode(b"\x01\x00" + bytes(16) + place * 250).rstrip(b"=").decode()
    assert 8000 < len(cursor) <= 8192
    task, _ = client.finish("x", conversation=new_id())
    stream = Stream(gateway, client.token, last=cursor)
    assert stream.answer.status == 200
    while not any(line.get("event") == "task.completed" for line in stream.log):
        assert stream.pump()
    assert {line["task_id"] for line in stream.log if line["type"] == "event"} == {task["task_id"]}
    stream.close()


@pytest.mark.parametrize("query, last, word", [
    ("events=true&cursor=AAAA", None, "cursor"), ("events=true", "AAAA", "cursor"), ("", "AQ", "events"),
    ("events=maybe", None, "events"), ("rollup_ms=5", None, "rollup_ms"), ("events=true&cursor=7", None, "cursor")])
def test_bad_parameters_of_a_stream_are_named(gateway, client, query, last, word):
    answer = Stream(gateway, client.token, query, last).answer
    error = json.loads(answer.read())["error"]
    assert answer.status == 400 and error["code"] == "bad_request" and word in error["message"]


def test_stream_is_the_owners_and_ends_with_its_token(tmp_path):
    """A cursor is nothing for another; a narrowed token hears of its own; who is revoked is cut, never ended cleanly."""
    with Gateway(merged(CONFIG, {"auth": tokens.config(tmp_path)})) as gateway:
        ann, bob = Client(gateway, token=tokens.token("ann")), Client(gateway, token=tokens.token("bob"))
        reader, thief = Reader(), Reader()
        reader.come(Stream(gateway, ann.token))
        claim = {"holdfast": {"conversations": [{"id": "c-open", "rights": ["read"]}]}}
        narrow = Stream(gateway, tokens.token("ann", **claim))
        secret, _ = ann.finish({"token": "secret"}, conversation="c-shut")
        shown, _ = ann.finish({"token": "yes"}, conversation="c-open")
        reader.until(lambda: len(reader.ended) == 2 and reader.cursor)
        while not any(line.get("event") == "task.completed" for line in narrow.log):
            assert narrow.pump()
        assert secret["task_id"] not in json.dumps(narrow.log) and "c-shut" not in json.dumps(narrow.log)
        thief.cursor = reader.cursor
        thief.come(Stream(gateway, bob.token, last=thief.cursor))
        own, _ = bob.finish("own", conversation="c-open")
        thief.until(lambda: own["task_id"] in thief.ended)
        assert list(thief.tasks) == [own["task_id"]]
        assert shown["task_id"] not in json.dumps(thief.client.log)
        assert Stream(gateway, tokens.token("ann", seconds=-100)).answer.status == 401
        gateway.stop()
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            reader.client.answer.read()
