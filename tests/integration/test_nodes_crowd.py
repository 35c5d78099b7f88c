"""Three gateways over one PostgreSQL, nginx in front of them, tasks and readers of all kinds of owners: what a loss is
like for those whom it concerns, and for the others.

HOLDFAST_CROWD is the number of readers; without it there are few, and what takes minutes is left out.
"""

import contextlib
import os
import signal
import subprocess
import time

import pytest

import nodes
import postgres
import tokens
from crowd import Crowd, Door
from gateway import LATE_S, SCALE, free_port, wait_until
from holdfast import Client, Closed, Refused, new_id
from test_cluster_example import EXAMPLE
from test_proxy import NGINX, TEMPORARY, is_listening

CROWD = int(os.environ.get("HOLDFAST_CROWD", 0))
READERS = CROWD or 48
TASKS = READERS // 4
heavy = pytest.mark.skipif(not CROWD, reason="minutes: ./dev test-all has them")
NAMES = ("one", "two", "three")
CONFIG = {"agents": [{"name": "source", "kind": "source", "default": True}]}


class Scene:
    """The gateways, the door, and a crowd that reads."""

    def __init__(self, server, database, standby=None, store=None, **config):
        self.server = server
        self.cluster = nodes.Nodes(server, database, config={**CONFIG, **config}, standby=standby,
                                   store=store)
        self.crowd = Crowd()
        self.ends = contextlib.ExitStack()

    def start(self):
        for name in NAMES:
            self.cluster.new(name, {"listen": "127.0.0.1:0"}, listen=f"127.0.0.1:{free_port()}").start()
        self.cluster.settled(len(NAMES))
        for name in NAMES:
            for other in NAMES:
                if other != name:
                    self.cluster.gateways[name].logged("component=link event=up", f"node={other}", "as=front")
        self.door = self.ends.enter_context(self.nginx())
        return self

    @contextlib.contextmanager
    def nginx(self):
        folder, port = self.cluster.folder, free_port()
        site = (EXAMPLE / "nginx.conf").read_text().replace("0.0.0.0:8080", f"127.0.0.1:{port}")
        for name in NAMES:
            site = site.replace(f"{name}:8080", f"127.0.0.1:{self.cluster.gateways[name].port}")
        (folder / "site.conf").write_text(site)
        places = "".join(f"{name}_temp_path {folder}/{name};" for name in TEMPORARY)
        (folder / "nginx.conf").write_text(
            f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log; events {{ "
            f"worker_connections 4096; }} http {{ access_log off; {places} include {folder}/site.conf; }}")
        with subprocess.Popen([NGINX, "-e", str(folder / "error.log"), "-p", str(folder), "-c",
                               str(folder / "nginx.conf")]) as process:
            try:
                wait_until(lambda: is_listening(port, process), "nginx listens")
                yield Door(port)
            finally:
                process.kill()

    def begin(self, token, message):
        """A task, through nginx; however often it is asked, it is begun once."""
        key = new_id("k")

        def ask():
            with contextlib.suppress(Closed, Refused, OSError), Client(self.door, token=token) as client:
                reply = client.ask("chat", message=message, request_key=key)
                assert reply["type"] == "started" or reply["code"] == "overloaded", reply
                return reply.get("task")
        return wait_until(ask, "a task")

    def read(self, events, interval_ms=100, tasks=TASKS, readers=READERS, doors=None):
        """Tasks of owners at all homes, each read by some, through nginx.  The readers by home, in a dict."""
        found = {name: [] for name in NAMES}
        for i in range(tasks):
            home = NAMES[i % len(NAMES)]
            owner = self.cluster.owners_at(home, i // len(NAMES) + 1)[-1]
            task = self.begin(tokens.token(owner), f"events={events} bytes=40 burst=1 interval_ms={interval_ms}")
            for _ in range(readers // tasks):
                found[home].append(self.crowd.add(tokens.token(owner), task, doors or [self.door]))
        self.crowd.read_on()
        return found

    def close(self):
        self.crowd.close()
        self.ends.close()
        self.cluster.close()


@pytest.fixture
def stage(request):
    """Makes a scene over a server of its own, with standbys if asked for."""
    with contextlib.ExitStack() as ends:
        def make(with_standby=False, **config):
            server = postgres.Postgres()
            ends.callback(server.close)
            server.start()
            standby = None
            if with_standby:
                standby = server.new_standby()
                ends.callback(standby.close)
            scene = Scene(server, "crowd", standby, **config)
            scene.standby = standby
            ends.callback(scene.close)
            return scene.start()
        yield make


def codes(crowd):
    return {reader.ended for reader in crowd}


def test_a_home_is_killed_and_every_reader_has_all_numbers(stage):
    scene = stage()
    found = scene.read(events=400 + 100 * SCALE)
    # At gateways that live, of owners whose homes live: these may notice nothing.
    task = {name: readers[0] for name, readers in found.items()}
    doors = {name: Door(scene.cluster.gateways[name].port) for name in NAMES}
    calm = [scene.crowd.add(task[home].token, task[home].task, [doors[front]])
            for home in ("two", "three") for front in ("two", "three")]
    scene.crowd.read_on()
    scene.cluster.gateways["one"].kill()
    killed = scene.crowd.loop.time()
    scene.crowd.whole()
    assert codes(found["one"]) == {"task.failed"}
    assert codes(found["two"] + found["three"] + calm) == {"task.completed"}
    assert {reader.connections for reader in calm} == {1}
    served = max(reader.ended_at for reader in found["one"]) - killed
    assert served < scene.cluster.lease_s + 2 + 2 * LATE_S  # what is beyond lease + 2 s is a busy machine's


@heavy
def test_a_home_stands_still_for_longer_than_its_lease(stage):
    scene = stage()
    found = scene.read(events=500)
    one = scene.cluster.gateways["one"]
    owner = scene.cluster.owners_at("one", 1)[0]
    os.kill(one.process.pid, signal.SIGSTOP)
    time.sleep(15)  # its length is the subject
    wait_until(lambda: scene.cluster.home_of(owner) not in ("", "one"), "a new home")
    os.kill(one.process.pid, signal.SIGCONT)
    assert one.wait() == 75
    scene.crowd.whole()  # each number once: none came from the one that woke
    assert codes(found["one"]) == {"task.failed"}
    assert codes(found["two"] + found["three"]) == {"task.completed"}
    tasks = scene.cluster.sql("SELECT count(*) FROM tasks")
    assert int(tasks) == TASKS


def goes_on(scene, found):
    """Nobody has ended, nothing is lost or doubled, and all tasks end by themselves."""
    scene.crowd.read_on()
    scene.crowd.whole()
    assert codes(sum(found.values(), [])) == {"task.completed"}
    gateways = scene.cluster.gateways.values()
    assert not any("event=taken_over" in line or "event=fenced" in line for g in gateways for line in g.log)


@pytest.mark.parametrize("seconds", [pytest.param(5, marks=heavy), pytest.param(20, marks=heavy)])
def test_the_server_stands_still(stage, seconds):
    scene = stage()
    found = scene.read(events=400)
    scene.server.signal(signal.SIGSTOP)
    time.sleep(seconds)  # its length is the subject
    scene.server.signal(signal.SIGCONT)
    goes_on(scene, found)


@heavy
def test_the_server_is_killed_and_started_again(stage):
    scene = stage()
    found = scene.read(events=300)
    for _ in range(3):
        scene.server.kill()
        scene.server.start()
        scene.crowd.read_on()
    goes_on(scene, found)


@heavy
def test_a_failover_to_a_synchronous_standby_loses_nothing(stage):
    scene = stage(with_standby=True)
    scene.server.set("synchronous_standby_names", "*")
    wait_until(lambda: scene.server.sql("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1",
               "the standby is waited for")
    found = scene.read(events=300)
    scene.server.kill()
    scene.standby.promote()
    scene.cluster.server = scene.standby
    goes_on(scene, found)


def cut_off(standby):
    """Nothing more reaches it."""
    standby.set("primary_conninfo", "")
    wait_until(lambda: standby.sql("SELECT count(*) FROM pg_stat_wal_receiver") == "0", "it follows nobody")


@heavy
def test_a_failover_that_lost_a_tail_is_told_by_the_epoch(stage):
    """Gateways that keep nothing: what is lost is lost, and no number lies."""
    scene = stage(with_standby=True, store={"redo_mib": 0})
    one = scene.cluster.gateways["one"]
    owner, = scene.cluster.owners_at("one", 1)
    with Client(one, token=tokens.token(owner)) as client:
        done, _ = client.finish("events=5 bytes=40 burst=1 interval_ms=1", conversation="c")
        task = client.chat("events=100000 bytes=40 burst=1 interval_ms=20", conversation="c")
        client.event(task, "token")
        assert "epoch" not in client.welcome
        wait_until(lambda: scene.standby.sql(f"SELECT count(*) FROM tasks WHERE task_id = '{task['task_id']}'",
                                             "crowd") == "1", "the standby has it")
        cut_off(scene.standby)
        seen = client.last[task["task_id"]]
        client.expect(lambda line: line["type"] == "event" and line["seq"] > seen + 20, len(client.log))
        lost = client.chat("events=1 bytes=40 burst=1 interval_ms=1", conversation="d")
        client.event(lost, "task.started")
        scene.server.kill()
        scene.standby.promote()
        scene.cluster.server = scene.standby
        assert one.wait() == 75
        cursor = client.last[task["task_id"]]
    one.logged("event=tail_lost")
    one.start()

    def again():
        with contextlib.suppress(Closed, Refused, OSError):
            client = Client(one, token=tokens.token(owner))
            if client.ask("open", conversation_id="c")["type"] == "conversation":
                return client
        return None
    with wait_until(again, "service again") as client:
        epoch = client.welcome["epoch"]
        client.refused("not_found", "resume", task_id=lost["task_id"], conversation_id="d")
        for after in (1, cursor):
            client.refused("out_of_range", "resume", task_id=task["task_id"], conversation_id="c", after=after)
        events = client.replay(task, 0)
        assert events[-1]["data"]["error"]["code"] == "orphaned" and len(events) < cursor
        assert client.call("resume", task_id=done["task_id"], conversation_id="c", after=1, epoch=epoch)["epoch"] == epoch
        newer, _ = client.finish("events=5 bytes=40 burst=1 interval_ms=1", conversation="c")
        assert len(client.replay(newer, 1)) == newer["head"] - 1  # of later: no other history
    for name in ("two", "three"):
        gateway = scene.cluster.gateways[name]
        if gateway.process.poll() is not None:  # it had lost something too
            assert gateway.wait() == 75
            gateway.start()


@heavy
def test_a_failover_that_lost_a_tail_loses_nothing_that_was_seen(stage):
    """Each home sends again what the standby has not: every reader has all numbers, no epoch, nobody ends."""
    scene = stage(with_standby=True)
    found = scene.read(events=300)
    cut_off(scene.standby)
    one = scene.cluster.gateways["one"]
    owner, = scene.cluster.owners_at("one", 1)
    with Client(one, token=tokens.token(owner)) as client:
        lost, _ = client.finish("events=5 bytes=40 burst=1 interval_ms=1", conversation="d")
    scene.crowd.read_on()
    scene.server.kill()
    scene.standby.promote()
    scene.cluster.server = scene.standby
    scene.crowd.whole()
    assert codes(sum(found.values(), [])) == {"task.completed"}
    one.logged("event=tail_sent_again")
    with Client(one, token=tokens.token(owner)) as client:
        assert "epoch" not in client.welcome
        assert client.replay(lost, 0)[-1]["event"] == "task.completed"
    assert all(gateway.process.poll() is None for gateway in scene.cluster.gateways.values())


def test_all_three_are_restarted_one_after_the_other(stage):
    """No task that ends in time is lost or begun again, and nobody misses a number."""
    scene = stage(drain_s=120)
    found = scene.read(events=60, interval_ms=100)
    for name in NAMES:
        gateway = scene.cluster.gateways[name]
        assert gateway.stop() == 0
        gateway.start()
        scene.crowd.check()
        more = scene.read(events=60, interval_ms=100, tasks=3, readers=6)
        for home, readers in more.items():
            found[home] += readers
    scene.crowd.whole()
    assert codes(sum(found.values(), [])) == {"task.completed"}
    scene.cluster.settled(len(NAMES))
    gateways = scene.cluster.gateways.values()
    assert not any("event=taken_over" in line or "event=fenced" in line for g in gateways for line in g.log)
