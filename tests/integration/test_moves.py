"""Slots move with their live tasks, where an agent can be continued: what a stop and an uneven load are like for tasks and
their readers.  Three gateways over one PostgreSQL of this file's own."""

import contextlib
import json
import threading

import pytest

import commands
import model_server as m
import nodes
import postgres
import tokens
from crowd import Crowd, Door
from gateway import WAIT_S, free_port, run, wait_until
from holdfast import Client, Closed, text_of

if not postgres.programs():
    pytest.skip("PostgreSQL is not installed", allow_module_level=True)

NAMES = ("one", "two", "three")
LONG_S = 4 * WAIT_S  # for what waits for several leases


class Model(m.ModelServer):
    """Says half of an answer, and all of it from a moment on: nobody takes its silence for an end."""

    def __init__(self):
        super().__init__()
        self.goes = threading.Event()
        self.script = lambda request: [m.head(), m.text("half "), self.goes, m.text("whole"), m.finish(), m.DONE, m.CLOSE]

    def config(self, **more):
        agents = [{"name": "react", "kind": "react", "model": "m", "default": True},
                  {"name": "http", "kind": "http", "form": "openai", "model": "m", "after_restart": "continue",
                   "url": self.url + "/v1/chat/completions"},
                  {"name": "tool", "kind": "react", "model": "m", "tools": ["terminal"]}]
        return {"models": [{"name": "m", "base_url": self.url + "/v1", "model": "m", "idle_timeout_s": 0}],
                "agents": [{"idle_timeout_s": 0, **agent} for agent in agents], "terminal": commands.FREE, **more}


@pytest.fixture
def scene(postgresql, request):
    model = Model()
    cluster = nodes.Nodes(postgresql, request.node.name[:40], lease_s=nodes.LONG_LEASE_S, config=model.config(drain_s=3600))
    cluster.model = model
    yield cluster
    cluster.close()
    model.close()


def join(cluster, name, **more):
    return cluster.new(name, {"listen": "127.0.0.1:0", **more}, listen=f"127.0.0.1:{free_port()}").start()


def start(cluster, names, **more):
    for name in names:
        join(cluster, name, **more)
    cluster.settled(len(names))
    return [cluster.gateways[name] for name in names]


def begin(gateway, owner, agent="react"):
    with Client(gateway, token=tokens.token(owner)) as client:
        task = client.chat("go", agent=agent)
        client.event(task, "token")
        return task


def whole(gateway, owner, task):
    """All its events, by way of that gateway, when its home has it."""
    def ask():
        with contextlib.suppress(Closed), Client(gateway, token=tokens.token(owner)) as client:
            if client.ask("task", task_id=task["task_id"], conversation_id=task["conversation_id"])["type"] != "task":
                return None
            client.resume(task, 0)
            client.wait_terminal(task)
            return client.events_since(task)
    return wait_until(ask, "its home")


def is_whole(events):
    """Begun once, gone on, ended once, and said anew from where it was cut."""
    names = [event["event"] for event in events]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert names.count("task.started") == 1 and names[-1] == "task.completed" and names.count("task.completed") == 1
    assert events[-1]["data"]["output"] == "half whole"
    resumed = [event["data"] for event in events if event["event"] == "task.resumed"]
    assert all(data["planned"] for data in resumed)
    last = max((i for i, name in enumerate(names) if name == "task.resumed"), default=0)
    assert text_of(events[last:]) == "half whole"
    return len(resumed)


def test_a_rolling_restart_moves_the_runs_and_loses_none(scene):
    """Each gateway ends without waiting for a task, though all of them last longer than the three stops."""
    start(scene, NAMES)
    crowd, tasks, readers = Crowd(), [], []
    doors = [Door(scene.gateways[name].port) for name in NAMES]
    for i, name in enumerate(NAMES):
        for k, owner in enumerate(scene.owners_at(name, 4)):
            task = begin(scene.gateways[name], owner, "http" if k == 3 else "react")
            tasks.append((owner, task))
            for at in range(2):  # readers at two gateways, who come back through any
                readers.append(crowd.add(tokens.token(owner), task, doors[(i + at) % 3:] + doors[:(i + at) % 3]))
    crowd.all(lambda reader: reader.cursor >= 3, "the half for everybody")
    for name in NAMES:
        gateway = scene.gateways[name]
        assert gateway.stop() == 0
        gateway.start()
        crowd.check()
    scene.model.goes.set()
    crowd.whole()
    assert {reader.ended for reader in readers} == {"task.completed"}
    scene.settled(len(NAMES))
    assert min(is_whole(whole(scene.gateways["one"], *task)) for task in tasks) >= 1
    crowd.close()
    assert scene.sql("SELECT count(*) FROM tasks") == str(len(tasks))
    assert not any("event=taken_over" in line or "event=fenced" in line
                   for gateway in scene.gateways.values() for line in gateway.log)


def test_a_stop_lets_a_command_end_and_moves_its_task_then(scene, tmp_path):
    """Nobody else would learn of its end."""
    one, two = start(scene, NAMES[:2])
    go, ran = tmp_path / "go", tmp_path / "ran"
    command = {"command": f"echo x >> {ran}; while [ ! -e {go} ]; do sleep 0.1; done; echo ended"}
    answers = [m.reply(m.call(0, "c", "terminal", json.dumps(command)), m.finish("tool_calls"), m.DONE)]

    def script(request):
        return answers.pop() if answers else [m.head(), scene.model.goes, m.text("half whole"), m.finish(), m.DONE, m.CLOSE]
    scene.model.script = script
    owner, other = scene.owners_at("one", 2)
    with Client(one, token=tokens.token(owner)) as client:
        task = client.chat("go", agent="tool")
        wait_until(ran.exists, "the command")
    one.process.terminate()
    wait_until(lambda: scene.home_of(other) == "two", "the others have gone")
    assert one.process.poll() is None and scene.home_of(owner) == "one"
    go.touch()
    assert one.wait() == 0
    scene.model.goes.set()
    events = whole(two, owner, task)
    result, = (event["data"] for event in events if event["event"] == "tool_result")
    assert not result["is_error"] and "ended" in result["output"]
    assert ran.read_text(encoding="utf-8") == "x\n" and events[-1]["event"] == "task.completed"


def nodes_of(gateway):
    return {node["node"]: node for node in json.loads(run("admin", "--data", str(gateway.data), "nodes").stdout)["nodes"]}


def test_an_uneven_load_moves_live_tasks(scene):
    """The part above the mean goes, in slots with live tasks, and each of these ends once."""
    n = 80
    one, two = start(scene, NAMES[:2], uneven_percent=3)
    tasks = [(owner, begin(one, owner)) for owner in scene.owners_at("one", n)]
    owners = [owner for owner, _ in tasks]
    slots = set(map(nodes.slot_of, owners))
    # It tells its load from 64 tasks on, until there is half of that; what is above the mean may go meanwhile.
    loads = wait_until(lambda: (seen := nodes_of(two))["one"]["load"] > 0 and seen, "its load, as the other hears of it")
    assert loads["two"]["load"] == 0

    def gone():
        homes = scene.homes_of(owners)
        return homes.count("two") >= len(slots) // 4 and "" not in homes
    wait_until(gone, "a part of the tasks at the other gateway", LONG_S)
    one.logged("event=tasks_part")
    scene.model.goes.set()
    moved = [is_whole(whole(two, *task)) for task in tasks]
    assert 0 < sum(moved) < n and max(moved) == 1


def test_a_gateway_that_joins_gets_live_tasks(scene):
    """Its part of the load of two that were even: in slots with live tasks, and each of these ends once."""
    n = 70
    gateways = start(scene, NAMES[:2], uneven_percent=3)
    pairs = list(zip(*(scene.owners_at(name, n) for name in NAMES[:2])))  # by turns, so that they are even all the time
    tasks = [(owner, begin(gateway, owner)) for pair in pairs for gateway, owner in zip(gateways, pair)]
    owners = [owner for owner, _ in tasks]
    for gateway in gateways:
        wait_until(lambda g=gateway: all(node["load"] >= 4 * n for node in nodes_of(g).values()), "both loads, as each hears of them")
    three = join(scene, "three", uneven_percent=3)

    def gone():
        homes = scene.homes_of(owners)
        return homes.count("three") >= n // 10 and "" not in homes
    wait_until(gone, "a part of the tasks at the third gateway", LONG_S)
    scene.model.goes.set()
    moved = [is_whole(whole(three, *task)) for task in tasks]
    assert 0 < sum(moved) < len(tasks) and max(moved) == 1
    assert scene.sql("SELECT count(*) FROM tasks") == str(len(tasks))
