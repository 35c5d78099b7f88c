"""watch with events: all tasks of the owner over one subscription (PROTOCOL.md 5, Watching everything)."""

import json

import pytest

import tokens
from gateway import Gateway, merged, script_agent
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
