"""A gateway that dies, again and again, while tasks of agents of kind react run: they go on, and nothing happens twice.

Each round starts a few tasks, ends the gateway in some way, starts it, and follows each task to its end.  What a task
does is counted where it happens: commands append to files, the model's server keeps what it was asked.  It answers by
what it is told, so the next gateway must tell it the same, to the byte.

The ways: kill -9 at a random moment; by the gateway's own hand behind each of POINTS; twice, within the repair; and
SIGTERM.  HOLDFAST_SEED and HOLDFAST_CONTINUE_ROUNDS choose the run; the seed is printed.
"""

import contextlib
import json
import os
import random
import threading
import time

import pytest

from gateway import SANITIZE, SCALE, WAIT_S, Gateway, wait_until
from holdfast import TERMINAL, Client, Closed, ids
from model_server import CLOSE, DONE, ModelServer, call, finish, head, text

ROUNDS = int(os.environ.get("HOLDFAST_CONTINUE_ROUNDS", 4 if SANITIZE else 8))  # of each kind but POINTS
SEED = int(os.environ.get("HOLDFAST_SEED", random.randrange(2**32)))
TASKS = 2  # of a round

# Behind what the gateway kills itself (gateway/base/fault.h), and how often it passes that first.
POINTS = {"commit_before": 9, "commit_after": 9, "model_asked": 4, "model_said": 12, "note": 3, "tool_before": 3,
          "tool_after": 3, "tool_done": 3, "folder": 2, "keeper": 2, "dropped": 2}
# The same in the start that follows a kill.
REPAIR_POINTS = {"staged": 1, "repaired": 1, "again": 1, "attach": 1, "commit_before": 1, "commit_after": 1}
# Behind these, and then again when the next start has looked at all commands, and no call was taken up yet.
TWICE = ("folder", "keeper", "tool_before", "tool_after", "tool_done")
ALL = "HOLDFAST_KILLS" in os.environ  # where everything runs

WORDS = ["Let me ", "see. ", "And ", "then. "]


def told(messages):
    """The number of the turn, and the task's own name."""
    return sum(m["role"] == "assistant" for m in messages), messages[0]["content"]


class Model:
    """Its answers, and all that it was asked: by task, in order."""

    def __init__(self, folder):
        self.folder = folder
        self.asked = {}
        self.server = ModelServer()
        self.server.script = self.answer

    def command(self, name, n):
        return f"echo {n} >> {self.folder}/{name} && sleep 0.0{n}"

    def calls(self, turn, name):
        if name.startswith("child"):
            return [("terminal", {"command": self.command(name, 7)})] if turn == 0 else []
        return [
            [("terminal", {"command": self.command(name, 1)}), ("calculator", {"expression": "6*7"}),
             ("terminal", {"command": self.command(name, 2)})],
            [("ask_user", {"prompt": "which?"}), ("terminal", {"command": self.command(name, 3)})],
            [("spawn_task", {"input": f"child-of-{name}"})],
        ][turn] if turn < 3 else []

    def answer(self, request):  # holds the server's lock
        messages = request.json["messages"]
        turn, name = told(messages)
        self.asked.setdefault(name, []).append((turn, json.dumps(messages)))
        return self.stream(turn, name)

    def stream(self, turn, name):
        calls = self.calls(turn, name)
        yield head()
        for word in WORDS if calls else ["It is ", "done."]:
            time.sleep(0.004)
            yield text(word)
        for i, (tool, arguments) in enumerate(calls):
            yield call(i, f"call-{i}", tool, json.dumps(arguments))
        yield finish("tool_calls" if calls else "stop") + DONE
        yield CLOSE

    def check(self, name):
        """No turn is asked again after a later one, and each with the same bytes."""
        asked = self.asked.get(name, [])
        turns = [turn for turn, _ in asked]
        assert turns == sorted(turns), f"{name}: a settled turn was asked again: {turns}"
        for turn in set(turns):
            bodies = {body for t, body in asked if t == turn}
            assert len(bodies) == 1, f"{name}: turn {turn} was asked with other words: {bodies}"


def said(events):
    """The text of the events, without what is withdrawn."""
    text_so_far = ""
    for event in events:
        if event["event"] == "token":
            text_so_far += event["data"]["text"]
        if event["event"] == "task.resumed" and "retracts" in event["data"]:
            data = event["data"]
            kept = "".join(e["data"]["text"] for e in events if e["event"] == "token" and e["seq"] <= data["retracts"])
            before = [e for e in events if e["seq"] == data["retracts"]]
            assert before and before[0]["event"] not in ("token", "thinking"), "a border within text"
            assert len(kept) >= data["keep"]["text"]
            text_so_far = text_so_far[:data["keep"]["text"]]
    return text_so_far


class World:
    def __init__(self, gateway, model, rng):
        self.gateway, self.model, self.rng = gateway, model, rng
        self.names = 0
        self.resumed = self.planned = self.retracted = 0
        with Client(gateway) as client:
            self.token = client.token

    # ---------------------------------------------------------- a round

    def begin(self, client):
        """Tasks of a round: by name."""
        found = {}
        for _ in range(TASKS):
            self.names += 1
            name = f"task-{self.names}"
            found[name] = client.chat(name, request_key=name)
        return found

    def live(self, client, tasks, seconds):
        """Answers what is asked, until the gateway dies, all have ended, or for so long."""
        deadline = time.monotonic() + seconds
        answered = set()
        with contextlib.suppress(Closed, OSError):
            while time.monotonic() < deadline:
                for line in list(client.log):
                    if line.get("event") == "input_required" and line["task_id"] not in answered:
                        answered.add(line["task_id"])
                        task = next(t for t in tasks.values() if t["task_id"] == line["task_id"])
                        client.post("respond", **ids(task), input_id=line["data"]["input_id"], answer="this")
                if all(t["task_id"] in client.ended for t in tasks.values()):
                    return
                client.pump(0.02)

    def finish(self, tasks):
        with Client(self.gateway, token=self.token) as client:
            for name in tasks:
                client.chat(name, request_key=name, conversation=tasks[name]["conversation_id"])
            self.live(client, tasks, WAIT_S * 2)
            for name, task in tasks.items():
                assert task["task_id"] in client.ended, f"{name} does not end: {client.task(task)}"
                self.check(client, name, task)

    def check(self, client, name, task):
        events = client.replay(task, 0)
        assert events[-1]["event"] == "task.completed", events[-1]
        assert sum(e["event"] in TERMINAL for e in events) == 1
        assert events[-1]["data"]["output"] == "It is done."
        assert said(events) == "".join(WORDS) * 3 + "It is done.", events
        of = lambda what: [e for e in events if e["event"] == what]
        assert len(of("tool_call")) == len(of("tool_result")) == 6
        assert len(of("input_required")) == len(of("input_received")) == len(of("child")) == 1
        for result in (e["data"] for e in of("tool_result")):
            assert not result["is_error"], result
            if result["name"] == "terminal":
                assert '"exit_code":0,"error":null' in result["output"], result
        for who, numbers in ((name, ["1", "2", "3"]), (f"child-of-{name}", ["7"])):
            with open(f"{self.model.folder}/{who}", encoding="utf-8") as file:
                ran = sorted(file.read().split())
                assert ran == numbers, f"{who}: a command ran twice, or not at all: {ran}, {of('tool_result')}"
            self.model.check(who)
        self.check_other_ways(client, task, events)
        record = client.task(task)
        withdrawn = [e for e in of("task.resumed") if "retracts" in e["data"]]
        assert record.get("retracted", []) == [[e["data"]["retracts"], e["seq"]] for e in withdrawn]
        self.resumed += len(of("task.resumed"))
        self.planned += sum("planned" in e["data"] for e in of("task.resumed"))
        self.retracted += len(withdrawn)

    def check_other_ways(self, client, task, events):
        """Coalesced, no line has texts of both sides of a border; as server-sent events it is the same."""
        merged = client.replay(task, 0, coalesce=True)
        borders = [e["data"]["retracts"] for e in events if "retracts" in e["data"]]
        assert said(merged) == said(events)
        assert not [e for e in merged for n in borders if e.get("from", e["seq"]) <= n < e["seq"]]
        status, _, body = self.gateway.http(
            "GET", f"/v1/conversations/{task['conversation_id']}/tasks/{task['task_id']}/events",
            headers={"Authorization": f"Bearer {self.token}"})
        blocks = [dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
                  for block in body.decode().split("\n\n")]
        told = [(int(b["id"]), b["event"], json.loads(b["data"])) for b in blocks if "id" in b]
        assert status == 200 and [(seq, name) for seq, name, _ in told] == [(e["seq"], e["event"]) for e in events]
        assert [e["data"] for e in events if e["event"] == "task.resumed"] == [
            data.get("data", data) for _, name, data in told if name == "task.resumed"]

    def dies(self, tasks, end):
        """Starts the round's tasks and runs end() beside them; the gateway is gone after it."""
        with contextlib.suppress(Closed, OSError, AssertionError):
            client = Client(self.gateway, token=self.token)
            try:
                tasks.update(self.begin(client))
                beside = threading.Thread(target=end)
                beside.start()
                self.live(client, tasks, WAIT_S)
                beside.join()
            finally:
                client.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("effects")
    model = Model(folder)
    tools = ["terminal", "calculator", "ask_user", "spawn_task"]
    config = {"models": [{"name": "m", "base_url": model.server.url, "model": "x"}],
              "agents": [{"name": "react", "kind": "react", "model": "m", "tools": tools}],
              "terminal": {"sandbox": "none", "approved": ["*"]}}
    print(f"seed {SEED}, {ROUNDS} rounds of each kind")
    with Gateway(config) as gateway:
        yield World(gateway, model, random.Random(SEED))
    model.server.close()


def one_round(world, end):
    tasks = {}
    world.dies(tasks, end)
    assert tasks, "no task was started"
    world.gateway.start()
    world.finish(tasks)


def rounds(hit):
    """ROUNDS of them, and some more if none was hit: on a machine that is quick, tasks may end before their gateway."""
    for n in range(5 * ROUNDS):
        if n >= ROUNDS and hit():
            return
        yield


def test_a_kill_at_any_moment(world):
    for _ in rounds(lambda: world.resumed > 0):
        one_round(world, lambda: (time.sleep(world.rng.uniform(0, 0.6)), world.gateway.kill()))
    assert world.resumed > 0


def test_a_kill_within_the_repair(world):
    for _ in range(ROUNDS):
        def end():
            time.sleep(world.rng.uniform(0.05, 0.3) * SCALE)
            world.gateway.kill()
            world.gateway.spawn()
            time.sleep(world.rng.uniform(0, 0.08) * SCALE)
            world.gateway.kill()
        one_round(world, end)


def test_a_planned_stop(world):
    before = world.planned
    for _ in rounds(lambda: world.planned > before):
        def end():
            time.sleep(world.rng.uniform(0, 0.5))
            began = time.monotonic()
            assert world.gateway.stop() == 0
            assert time.monotonic() - began < 10 * SCALE  # and not as long as the tasks take
        one_round(world, end)
    assert world.planned > before


def by_its_own_hand(world, point, n):
    """Restarts the gateway so that it dies there; the caller starts tasks and waits for that."""
    world.gateway.environ = {"HOLDFAST_FAULT": f"die_{point}:{n}"}
    world.gateway.start()
    world.gateway.environ = {}


with_faults = pytest.mark.skipif(SANITIZE != "address", reason="this build has no faults")


@with_faults
@pytest.mark.parametrize("point", POINTS)
def test_a_death_behind(world, point):
    world.gateway.stop()
    by_its_own_hand(world, point, POINTS[point] + world.rng.randrange(3))
    status = []
    one_round(world, lambda: status.append(world.gateway.wait(WAIT_S)))
    assert status == [-9], "it never came there"


@with_faults
@pytest.mark.parametrize("point", REPAIR_POINTS)
def test_a_death_in_the_repair_behind(world, point):
    status = []

    def end():
        with open(f"{world.model.folder}/task-{world.names}", "a", encoding="utf-8"):
            pass
        wait_until(lambda: os.path.getsize(f"{world.model.folder}/task-{world.names}"), "a command")
        world.gateway.kill()
        world.gateway.environ = {"HOLDFAST_FAULT": f"die_{point}:{REPAIR_POINTS[point]}"}
        world.gateway.spawn()
        world.gateway.environ = {}
        status.append(world.gateway.wait(WAIT_S))

    one_round(world, end)
    assert status == [-9], "it never came there"


@with_faults
@pytest.mark.parametrize("point", TWICE if ALL else TWICE[:2])
def test_a_death_behind_and_one_before_its_call_is_taken_up(world, point):
    """The second gateway may find out what it likes about a command: the third decides by itself."""
    world.gateway.stop()
    by_its_own_hand(world, point, POINTS[point])
    status = []

    def end():
        status.append(world.gateway.wait(WAIT_S))
        world.gateway.environ = {"HOLDFAST_FAULT": "die_again:1"}
        world.gateway.spawn()
        world.gateway.environ = {}
        status.append(world.gateway.wait(WAIT_S))

    one_round(world, end)
    assert status == [-9, -9], "it never came there"
