"""Several processes behind one port: "processes" in the configuration.  The first member is the home of all owners, the
others carry their clients to it."""

import contextlib
import os
import pathlib
import re
import signal

import pytest

import crew
import exposition
import files
import tokens
from gateway import Gateway, is_alive, run, wait_until
from holdfast import Client, Closed, ids, new_id, text_of
from workers import Worker, config


@pytest.fixture
def gateway(tmp_path):
    with Gateway({"processes": 3, "auth": tokens.config(tmp_path), "drain_s": 20}) as gateway:
        yield gateway


def at(gateway, pid, owner=None):
    owner = owner or new_id("u")
    return crew.client_at(gateway, pid, lambda: Client(gateway, token=tokens.token(owner)))


def bearer(owner):
    return {"Authorization": "Bearer " + tokens.token(owner), "Content-Type": "application/json"}


def samples(gateway, name):
    """process → value"""
    text = gateway.http("GET", "/metrics")[2].decode()
    return {int(m[1]): float(m[2]) for m in re.finditer(rf'^{name}{{process="(\d+)"}} (\S+)$', text, re.M)}


def test_one_owner_at_all_processes(gateway):
    home, *fronts = crew.members(gateway)
    assert len(fronts) == 2
    with at(gateway, home) as client:
        task, events = client.finish({"token": "one"}, {"token": "two"}, conversation="c")
        for front in fronts:
            with at(gateway, front, client.owner) as other, at(gateway, front) as stranger:
                assert other.replay(task, 0) == events
                stranger.refused("not_found", "task", **ids(task))
                _, more = other.finish({"token": "more"}, conversation="c")
                assert text_of(more) == "more" and more[0]["seq"] == 1
        assert len(client.call("history", conversation_id="c")["messages"]) == 6


def test_a_front_that_is_killed_loses_nothing(gateway):
    home, front, other = crew.members(gateway)
    gate = gateway.path()
    with at(gateway, front) as reader, at(gateway, other) as bystander:
        task = reader.chat({"token": "a"}, {"wait": gate}, {"token": "b"})
        reader.event(task, "token")
        seen = reader.events_since(task)
        os.kill(front, signal.SIGKILL)
        with contextlib.suppress(Closed, ConnectionError):
            reader.closing()
        with Client(gateway, token=tokens.token(reader.owner)) as again:
            again.resume(task, seen[-1]["seq"])
            pathlib.Path(gate).touch()
            again.wait_terminal(task)
            rest = again.events_since(task)
        events = seen + [event for event in rest if event["seq"] > seen[-1]["seq"]]
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        assert text_of(events) == "ab"
        assert text_of(bystander.finish({"token": "x"})[1]) == "x"
    gateway.logged("component=crew event=member_lost", "process=1")
    wait_until(lambda: len(crew.members(gateway)) == 3, "its successor")
    assert crew.members(gateway)[0] == home
    successor = max(crew.members(gateway))
    with at(gateway, successor) as client:
        assert text_of(client.finish({"token": "again"})[1]) == "again"


def test_the_home_that_is_killed_is_begun_again(gateway):
    home, front, _ = crew.members(gateway)
    with at(gateway, front) as client:
        owner = client.owner
        ended, events = client.finish({"token": "kept"})
        cut = client.chat({"token": "a"}, {"sleep_ms": 600000})
        client.event(cut, "token")
        os.kill(home, signal.SIGKILL)
        assert client.closing().code == 1001  # its front lives: it knows what to say
    gateway.logged("component=crew event=member_lost", "process=0")
    def comes_back():
        try:
            return Client(gateway, token=tokens.token(owner))
        except (Closed, OSError, AssertionError):
            return None
    with wait_until(comes_back, "the next home") as client:
        assert client.replay(ended, 0) == events
        client.replay(cut, 0)  # its end may not be committed yet
        events = list(client.events(cut))
        assert events[-1]["event"] == "task.failed" and events[-1]["data"]["error"]["code"] == "orphaned"
        assert text_of(client.finish({"token": "on"})[1]) == "on"


def test_connections_are_spread(gateway):
    """Those that come one after the other too, of which any process that is idle could take each."""
    clients = [Client(gateway, token=tokens.token("u")) for _ in range(60)]
    at_each = [crew.member_of(gateway, client.sock.getsockname()[1]) for client in clients]
    for client in clients:
        client.close()
    counts = [at_each.count(pid) for pid in crew.members(gateway)]
    assert sum(counts) == 60 and min(counts) >= 10, counts


def test_metrics_are_of_all_and_only_grow(gateway):
    home, *fronts = crew.members(gateway)
    with at(gateway, home) as client, at(gateway, fronts[0]), at(gateway, fronts[1]):
        client.finish({"token": "one"})
        counts = wait_until(lambda: (now := samples(gateway, "holdfast_connections")) == {0: 1, 1: 1, 2: 1} and now,
                            "a connection at each")
        assert set(counts) == {0, 1, 2}
        families = exposition.read(gateway.http("GET", "/metrics")[2].decode())
        assert {labels["process"] for _, labels, _ in families["holdfast_requests_total"].samples} == {"0", "1", "2"}
        last = 0
        for _ in range(30):
            now = samples(gateway, "holdfast_events_total")[0]
            assert now >= last > -1
            last = now


def test_a_stop_lets_tasks_end_and_their_readers_read(gateway):
    _, front, _ = crew.members(gateway)
    pids = crew.members(gateway)
    gate = gateway.path()
    with at(gateway, front) as reader:
        task = reader.chat({"token": "a"}, {"wait": gate}, {"token": "b"})
        reader.event(task, "token")
        gateway.process.send_signal(signal.SIGTERM)
        reader.expect_type("goaway")
        pathlib.Path(gate).touch()
        assert reader.wait_terminal(task)["event"] == "task.completed"
        assert reader.closing().code == 1001
    assert gateway.wait() == 0
    assert not any(map(is_alive, pids))
    gateway.start()


def test_nothing_outlives_the_first_process(gateway):
    pids = crew.members(gateway)
    gateway.kill()
    wait_until(lambda: not any(map(is_alive, pids)), "the end of the members")
    gateway.start()
    with Client(gateway, token=tokens.token("u")) as client:
        client.finish({"token": "one"})


def test_a_start_that_fails_ends_with_its_code(gateway):
    second = Gateway({**gateway.config}, folder=gateway.folder)
    second.spawn()
    assert second.wait() == 1
    assert any("cannot_open" in line for line in second.log)
    gateway.http("GET", "/healthz")


def test_a_told_drain_ends_all(gateway):
    pids = crew.members(gateway)
    words = ("admin", "--config", str(gateway.folder / "config.json"), "--data", str(gateway.data), "drain")
    assert run(*words).returncode == 0
    assert gateway.wait() == 0 and not any(map(is_alive, pids))
    gateway.start()


def test_files_go_to_the_home(gateway):
    with Client(gateway, token=tokens.token("u")) as client:
        client.finish({"token": "one"}, conversation="c")
    owner, body = files.Owner(gateway, tokens.token("u")), os.urandom(300000)
    for _ in range(6):  # whichever process takes the connection
        file = owner.give("c", body, "application/octet-stream")
        status, _, answer = owner.ask("GET", f"c/files/{file['file_id']}")
        assert status == 200 and answer == body


def test_lines_of_a_member_name_it(gateway):
    """Those of the first process have no number of their own."""
    for process in range(3):
        gateway.logged("component=server event=ready", f" process={process} ")
    with at(gateway, crew.members(gateway)[1]):
        os.kill(crew.members(gateway)[2], signal.SIGKILL)
    assert gateway.logged("component=crew event=member_lost").count("process=") == 1


# -------------------------------------------------------------------- workers


@pytest.fixture
def served(tmp_path):
    """A gateway whose tasks are workers'."""
    with Gateway({"processes": 2, "auth": tokens.config(tmp_path), **config(tmp_path, instances=20)}) as gateway:
        yield gateway


def worker_at(gateway, pid, instance=None, held=None):
    """Welcomed by a home that has as much of its runs as it says: before that home is there, a member welcomes it with
    nothing, and sends it away when it is."""
    def welcomed():
        with contextlib.suppress(Closed, OSError):
            worker = crew.client_at(gateway, pid, lambda: Worker(gateway, instance, received=held))
            welcome = next(iter(worker.scan(0)))
            if welcome["type"] == "welcome" and welcome["open"] == (held or {}):
                return worker
            assert worker.closing().code == 1001
        return None
    return wait_until(welcomed, "a welcome")


def test_worker_at_a_front_serves_the_tasks_of_the_home(served):
    home, front = crew.members(served)
    with worker_at(served, front) as worker:
        for pid in (home, front):
            with at(served, pid) as client:
                task = client.chat("hello", agent="shout")
                line = worker.next("run")
                assert line["input"] == "hello" and line["task_id"] == task["task_id"]
                worker.ack(line["run"], 1)
                worker.says(line["run"], 1, "HEL")
                client.event(task, "token")
                client.call("send", content="more", **ids(task))
                message = worker.next("message")
                worker.ack(line["run"], message["n"])
                worker.line(line["run"], 2, end="done")
                assert worker.next("gone")["run"] == line["run"]
                assert client.wait_terminal(task)["data"]["output"] == "HEL"
                second = client.chat("x", agent="shout")
                run_id = worker.next("run")["run"]
                client.call("cancel", **ids(second))
                assert worker.next("cancel")["run"] == run_id
                worker.line(run_id, 1, end="failed", error="cancelled")
                worker.next("gone")


@pytest.mark.parametrize("killed", ["home", "front"])
def test_run_of_a_worker_at_a_front_goes_on_when_a_member_is_killed(served, killed):
    home, front = crew.members(served)
    worker = worker_at(served, front)
    with at(served, home) as client:
        task = client.chat("hello", agent="shout")
        run_id = worker.next("run")["run"]
        worker.ack(run_id, 1)
        worker.says(run_id, 1, "a")
        worker.acked(run_id, 1)
        os.kill(home if killed == "home" else front, signal.SIGKILL)
        if killed == "home":
            assert worker.closing().code == 1001  # its front lives: it knows what to say
    def is_whole():
        now = crew.members(served)
        return len(now) == 2 and set(now) != {home, front} and now
    whole = wait_until(is_whole, "the successor")
    there = front if killed == "home" else max(whole)
    with worker_at(served, there, worker.instance, {run_id: 1}) as back:
        back.says(run_id, 2, "b")
        back.line(run_id, 3, end="done")
        assert back.next("gone")["run"] == run_id
    with at(served, there, client.owner) as again:
        events = again.replay(task, 0)
        assert events[-1]["event"] == "task.completed" and text_of(events) == "ab"
