"""Several gateways over one PostgreSQL: each is the home of some owners, and what one leaves another takes.  The
server is this file's own."""

import contextlib
import json
import os
import re
import signal
import threading
import time

import pytest

import commands
import model_server as m
import nodes
import postgres
import tokens
from gateway import LATE_S, SCALE, processes_with, run, wait_until
from holdfast import Client, Closed, text_of
from short import long, rest

if not postgres.programs():
    pytest.skip("PostgreSQL is not installed", allow_module_level=True)


@pytest.fixture
def cluster(postgresql, request):
    cluster = nodes.Nodes(postgresql, "".join(c for c in request.node.name if c.isalnum() or c == "_")[:50])
    yield cluster
    cluster.close()


def client_of(gateway, owner):
    return Client(gateway, token=tokens.token(owner))


def whole(client, task):
    """All its events, to its end: that may still be on its way to the disk when the slot opens."""
    since = len(client.log)
    client.resume(task, 0)
    client.wait_terminal(task, since)
    return client.events_since(task, since)


def test_each_has_a_share_and_refuses_the_owners_of_others(cluster):
    cluster.lease_s = nodes.LONG_LEASE_S
    one, two, three = cluster.start("one", "two", "three")
    for name, gateway in cluster.gateways.items():
        owner, = cluster.owners_at(name, 1)
        with client_of(gateway, owner) as client:
            task, events = client.finish({"token": "said"})
            assert task["status"] == "completed"
        for other in (one, two, three):
            if other is gateway:
                continue
            with client_of(other, owner) as client:
                refused = client.refused("overloaded", "chat", conversation_id="c", message="x")
                assert refused["retry_after_ms"] > 0 and "another gateway" in refused["message"]
                client.refused("overloaded", "resume", task_id=task["task_id"], conversation_id=task["conversation_id"])
            status, _, body = other.http("GET", "/v1/conversations", headers={"Authorization": "Bearer " + tokens.token(owner)})
            assert status == 503 and b"overloaded" in body
    assert cluster.sql("SELECT count(*) FROM tasks") == "3"
    shares = {(name, "live", count) for name, count in cluster.shares().items()}
    listed = wait_until(lambda: next((all_ for all_ in [json.loads(run("admin", "--data", str(one.data), "nodes").stdout)]
                                      if {(n["node"], n["state"], n["slots"]) for n in all_["nodes"]} == shares), None),
                        "the shares of all, as this one sees them")
    this, = (n for n in listed["nodes"] if "this" in n)
    assert this["node"] == "one" and this["open"] == this["slots"] and listed["slots_of_nobody"] == 0
    assert this["coming"] == this["moving"] == 0
    state = json.loads(run("admin", "--data", str(one.data), "state").stdout)
    assert {(n["name"], n["slots"]) for n in state["nodes"]} == {(name, slots) for name, _, slots in shares}
    assert [n["name"] for n in state["nodes"] if "pid" in n] == ["one"]
    text = two.http("GET", "/metrics")[2].decode()
    assert 'holdfast_cluster_nodes{state="live"} 3\n' in text
    assert f'holdfast_cluster_slots{{state="open"}} {cluster.shares()["two"]}\n' in text
    assert float(re.search(r"^holdfast_cluster_lease_seconds_left ([0-9.]+)$", text, re.M)[1]) > 0


def test_one_is_killed_and_the_others_go_on_with_its_owners(cluster):
    one, two, three = cluster.start("one", "two", "three")
    lost, kept = cluster.owners_at("one", 2, "lost"), cluster.owners_at("two", 1, "kept")[0]
    running = {}
    for owner in lost:
        with client_of(one, owner) as client:
            done, _ = client.finish({"token": "said"}, conversation="c")
            task = client.chat({"token": "part"}, {"hang": 1}, conversation="c")
            client.event(task, "token")
            running[owner] = (done, task)
    with client_of(two, kept) as unmoved:
        live = unmoved.chat({"flood": 100000, "bytes": 40, "per_s": 50})
        unmoved.event(live, "token")
        one.kill()
        begun = time.monotonic()
        for owner in lost:
            wait_until(lambda who=owner: cluster.home_of(who) in ("two", "three"), "a new home")
        assert time.monotonic() - begun < cluster.lease_s + 2 + 2 * LATE_S
        for owner in lost:
            home = cluster.gateways[cluster.home_of(owner)]
            home.logged("event=slots_come")
            with client_of(home, owner) as client:
                done, task = running[owner]
                wait_until(lambda c=client, t=done: c.ask("task", task_id=t["task_id"], conversation_id="c")["type"] == "task",
                           "service again")
                assert client.replay(done, 0)[-1]["event"] == "task.completed"
                ends = [e for e in whole(client, task) if e["event"] == "task.failed"]
                assert [end["data"]["error"]["code"] for end in ends] == ["orphaned"]
                newer, _ = client.finish("next", conversation="c")
                assert newer["task_id"] > task["task_id"]
        seen = len(unmoved.events_since(live))
        unmoved.expect(lambda line: line["type"] == "event", len(unmoved.log))  # it notices nothing
        assert len(unmoved.events_since(live)) > seen
        unmoved.call("cancel", task_id=live["task_id"], conversation_id=live["conversation_id"])
        unmoved.wait_terminal(live)
    cluster.settled(2)
    assert sum("event=taken_over" in line for g in (two, three) for line in g.log) == 1
    assert cluster.sql("SELECT count(*) FROM nodes") == "2"


def test_one_that_was_stopped_for_longer_than_its_lease_says_nothing_more(cluster):
    one, two = cluster.start("one", "two")
    owner, = cluster.owners_at("one", 1)
    client = client_of(one, owner)
    task = client.chat({"flood": 100000, "bytes": 40, "per_s": 200})
    client.event(task, "token")
    os.kill(one.process.pid, signal.SIGSTOP)
    wait_until(lambda: cluster.home_of(owner) == "two", "a new home")
    with client_of(two, owner) as reader:
        wait_until(lambda: reader.ask("task", task_id=task["task_id"], conversation_id=task["conversation_id"])["type"] == "task",
                   "service again")
        events = whole(reader, task)
        assert events[-1]["data"]["error"]["code"] == "orphaned"
        with contextlib.suppress(Closed):
            while client.pump(0.5):  # what the kernel had already
                pass
        drained = len(client.log)
        client.post("chat", conversation_id="c", message="x")
        os.kill(one.process.pid, signal.SIGCONT)
        begun = time.monotonic()
        assert one.wait() == 75
        assert time.monotonic() - begun < 10 * SCALE + LATE_S
        with contextlib.suppress(Exception):
            client.closing()
        assert not [line for line in client.log[drained:] if line["type"] != "error"]
        known = {event["seq"]: event for event in events}
        assert all(known[event["seq"]] == event for event in client.events_since(task))  # a prefix of what is there
        assert whole(reader, task) == events
    assert cluster.sql("SELECT count(*) FROM tasks") == "1"


@long
def test_one_that_ends_gives_its_slots_at_once(cluster):
    cluster.lease_s = nodes.LONG_LEASE_S
    one, two = cluster.start("one", "two")
    owner, = cluster.owners_at("one", 1)
    with client_of(one, owner) as client:
        done, _ = client.finish({"token": "said"}, conversation="c")
    assert one.stop() == 0
    cluster.settled(1)
    with client_of(two, owner) as client:
        wait_until(lambda: client.ask("open", conversation_id="c")["type"] == "conversation", "service again")
        assert client.replay(done, 0)[-1]["event"] == "task.completed"
    assert not any("event=taken_over" in line for line in two.log)  # nobody waited for a lease


def test_one_that_comes_back_on_its_folder_keeps_its_slots(cluster):
    cluster.lease_s = nodes.LONG_LEASE_S
    one, two = cluster.start("one", "two")
    owner, = cluster.owners_at("one", 1)
    with client_of(one, owner) as client:
        task = client.chat({"token": "part"}, {"hang": 1})
        client.event(task, "token")
    one.kill()
    one.start()
    assert cluster.home_of(owner) == "one"
    with client_of(one, owner) as client:
        ends = [e for e in whole(client, task) if e["event"] == "task.failed"]
        assert [end["data"]["error"]["code"] for end in ends] == ["orphaned"]
    assert not any("event=taken_over" in line for line in two.log)


@long
def test_an_outage_for_longer_than_the_lease_ends_nobody(postgresql, cluster):
    one, two = cluster.start("one", "two")
    owner, = cluster.owners_at("one", 1)
    with client_of(one, owner) as client:
        task = client.chat({"flood": 2000, "bytes": 40, "per_s": 200}, {"token": "the end"})
        client.event(task, "token")
        postgresql.stop()
        try:
            one.logged("event=lease_lapsed")
            two.logged("event=lease_lapsed")
            time.sleep(cluster.lease_s)  # nobody's beat moves for longer than a lease: its length is the subject
        finally:
            postgresql.start()
        assert client.wait_terminal(task)["event"] == "task.completed"  # each number once: the client checks
    assert cluster.home_of(owner) == "one"
    assert not any("event=taken_over" in line for g in (one, two) for line in g.log)


def at_home(cluster, owner, without):
    """A client of the owner at its new home, when that serves it."""
    wait_until(lambda: cluster.home_of(owner) not in ("", without), "a new home")
    client = client_of(cluster.gateways[cluster.home_of(owner)], owner)
    wait_until(lambda: client.ask("conversations")["type"] == "conversations", "service again")
    return client


@pytest.fixture
def model():
    running = m.ModelServer()
    yield running
    running.close()


@pytest.mark.parametrize("kind", rest("react", "http"))
def test_agents_that_can_go_on_do_so_at_the_next_home(cluster, model, kind):
    """Its half turn is withdrawn, and said anew; it is asked once more, and ends once."""
    cluster.config = {
        "models": [{"name": "m", "base_url": model.url + "/v1", "model": "m"}],
        "agents": [{"name": "react", "kind": "react", "model": "m"},
                   {"name": "http", "kind": "http", "form": "openai", "model": "m", "url": model.url + "/v1/chat/completions",
                    "after_restart": "continue"}],
    }
    one, two = cluster.start("one", "two")
    owner, = cluster.owners_at("one", 1)
    model.script = [[m.head(), m.text("half "), threading.Event()]]
    with client_of(one, owner) as client:
        task = client.chat("go", agent=kind)
        client.event(task, "token")
        model.script = [m.reply(m.text("whole"), m.finish(), m.DONE)]
        one.kill()
    with at_home(cluster, owner, "one") as client:
        events = whole(client, task)
        assert [e["event"] for e in events].count("task.resumed") == 1
        assert events[-1]["event"] == "task.completed" and events[-1]["data"]["output"] == "whole"
        resumed, = (i for i, e in enumerate(events) if e["event"] == "task.resumed")
        assert (events[resumed]["data"]["why"], events[resumed]["data"]["attempt"]) == ("takeover", 2)
        assert text_of(events[resumed:]) == "whole"
    assert len(model.requests) == 2


def test_first_slots_of_a_gateway_are_another_ones_or_its_own(cluster, model):
    """A front has ended the home of all, and nobody was there for its slots: the next gateway begins with them."""
    cluster.config = {"models": [{"name": "m", "base_url": model.url + "/v1", "model": "m"}],
                      "agents": [{"name": "react", "kind": "react", "model": "m"}]}
    home, front = cluster.start_pair()
    model.script = [[m.head(), m.text("half "), threading.Event()]]
    with client_of(home, "ann") as client:
        task = client.chat("go", agent="react")
        client.event(task, "token")
    home.kill()
    front.logged("event=rescued")
    assert cluster.home_of("ann") == ""
    model.script = [[m.head(), m.text("half "), threading.Event()]]
    new = cluster.new("new", {"listen": "127.0.0.1:0"}).start()
    assert cluster.home_of("ann") == "new"
    with client_of(new, "ann") as client:
        client.resume(task, 0)
        resumed = client.event(task, "task.resumed")
        client.event(task, "token", client.log.index(resumed))
        new.kill()
    model.script = [m.reply(m.text("whole"), m.finish(), m.DONE)]
    new.start()
    with client_of(new, "ann") as client:
        resumed = [e["data"] for e in whole(client, task) if e["event"] == "task.resumed"]
    assert [(data["attempt"], data["why"]) for data in resumed] == [(2, "takeover"), (3, "restart")]
    said = new.http("GET", "/metrics")[2].decode().splitlines()
    for why, n in (("restart", 1), ("takeover", 0)):
        assert f'holdfast_tasks_resumed_total{{kind="react",why="{why}"}} {n}' in said


@long
def test_a_command_that_was_under_way_is_not_begun_again_at_the_next_home(cluster, tmp_path):
    """Nothing of it is to be seen there, and that is no proof."""
    ran, caller = tmp_path / "ran", commands.model()
    cluster.config = commands.config(caller)
    one, _ = cluster.start("one", "two")
    owner, = cluster.owners_at("one", 1)
    with client_of(one, owner) as client:
        task = client.chat(commands.message(commands.terminal(f"echo x >> {ran}; exec sleep 600")))
        wait_until(ran.exists, "the command")
        one.kill()
    with at_home(cluster, owner, "one") as client:
        events = whole(client, task)
        result, = (e["data"] for e in events if e["event"] == "tool_result")
        assert events[-1]["event"] == "task.completed"
    one.end_commands()
    caller.close()
    assert result["is_error"] and "whether it took effect is unknown" in result["output"]
    assert ran.read_text(encoding="utf-8") == "x\n"


def test_what_is_due_later_is_begun_once_by_the_next_home(cluster):
    one, two = cluster.start("one", "two")
    owner, = cluster.owners_at("one", 1)
    with client_of(one, owner) as client:
        client.call("schedule", conversation_id="due", not_before=int(time.time() * 1000) + 1000,
                    chat={"message": json.dumps({"token": "x"})})
        later = client.call("schedule", conversation_id="later", not_before=int(time.time() * 1000) + 10**9,
                            chat={"message": "x"})["schedule"]
        one.kill()  # nobody is there at its time
    with at_home(cluster, owner, "one") as client:
        wait_until(lambda: len(client.call("schedules")["schedules"]) == 1, "it is sent")
        assert len(client.call("tasks", conversation_id="due")["tasks"]) == 1
        kept, = client.call("schedules")["schedules"]
        assert kept["schedule_id"] == later["schedule_id"]


@long
def test_users_who_are_connected_go_along(cluster):
    """Slots with readers, schedules and shares move at once; those with a live task when it has ended."""
    cluster.config = {"drain_s": 120, "limits": {"schedules": 100}}
    for name in ("one", "two"):
        cluster.new(name, {"listen": "127.0.0.1:0"}).start()
    cluster.settled(2)
    one, two = cluster.gateways.values()
    two.logged("component=link event=up", "node=one", "as=front")
    *idle, busy = cluster.owners_at("one", 9)
    later, gate, clients = int(time.time() * 1000) + 10**9, one.path("gate"), {}
    for i, owner in enumerate(idle):
        client = clients[owner] = client_of((one, two)[i % 2], owner)  # some by way of the other
        client.finish({"token": "said"}, conversation="c")
        client.call("watch")
        client.call("open", conversation_id="c", follow=True)
        client.call("schedule", conversation_id="later", not_before=later, chat={"message": "x"})
    with client_of(two, busy) as reader:
        task = reader.chat({"token": "before"}, {"wait": gate}, {"token": "after"})
        reader.event(task, "token")
        one.process.send_signal(signal.SIGTERM)
        for owner, client in clients.items():
            assert client.closing().code == 1001
            with at_home(cluster, owner, "one") as again:
                wait_until(lambda c=again: c.ask("open", conversation_id="c")["type"] == "conversation", "service again")
                assert again.call("history", conversation_id="c")["messages"][-1]["content"] == "said"
                assert len(again.call("schedules")["schedules"]) == 1
                assert again.finish({"token": "more"}, conversation="c")[0]["status"] == "completed"
        assert cluster.home_of(busy) == "one" and one.process.poll() is None
        open(gate, "w", encoding="utf-8").close()
        assert reader.wait_terminal(task)["event"] == "task.completed"
    assert one.wait() == 0
    assert not any("event=taken_over" in line for line in two.log)


@long
def test_one_that_drains_gives_what_is_idle_and_keeps_what_lives(cluster):
    cluster.lease_s = nodes.LONG_LEASE_S
    cluster.config = {"drain_s": 120}
    one, two = cluster.start("one", "two")
    busy, idle = cluster.owners_at("one", 2)
    go_on = one.path("go-on")
    with client_of(one, busy) as client:
        task = client.chat({"token": "before"}, {"wait": go_on}, {"token": "after"})
        client.event(task, "token")
        one.process.send_signal(signal.SIGTERM)
        with at_home(cluster, idle, "one") as other:
            assert other.finish("x")[0]["status"] == "completed"
        assert cluster.home_of(busy) == "one"
        open(go_on, "w", encoding="utf-8").close()
        assert client.wait_terminal(task)["event"] == "task.completed"
    assert one.wait() == 0
    with at_home(cluster, busy, "one") as client:
        assert client.task(task)["status"] == "completed"
    assert not any("event=taken_over" in line for line in two.log)


def test_kept_agents_go_on_where_they_are(cluster):
    """Back before the lease is over, the gateway finds its agents."""
    cluster.lease_s = nodes.LONG_LEASE_S
    one, _ = cluster.start("one", "two", lasting=True)
    owner, = cluster.owners_at("one", 1)
    go_on = one.path("go-on")
    with client_of(one, owner) as client:
        task = client.chat({"token": "before"}, {"wait": go_on}, {"token": "after"})
        client.event(task, "token")
        one.kill()
        one.start()
        open(go_on, "w", encoding="utf-8").close()
    with client_of(one, owner) as client:
        events = whole(client, task)
        assert [e["event"] for e in events if e["event"].startswith("task.")] == [
            "task.created", "task.started", "task.resumed", "task.completed"]


@long
def test_kept_agents_go_on_nowhere_else(cluster):
    """Taken over meanwhile, their tasks have ended, and the agents are ended when it comes back."""
    one, _ = cluster.start("one", "two", lasting=True)
    owner, = cluster.owners_at("one", 1)
    with client_of(one, owner) as client:
        lost = client.chat({"token": "before"}, {"wait": one.path("never")})
        client.event(lost, "token")
        one.kill()
    with at_home(cluster, owner, "one") as client:
        assert whole(client, lost)[-1]["data"]["error"]["code"] == "orphaned"
    one.start()
    wait_until(lambda: not [c for c in processes_with(one.mark).values() if "script_agent" in c], "the end of the agent")
    one.logged("event=swept")
