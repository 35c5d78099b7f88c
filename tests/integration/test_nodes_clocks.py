"""Gateways, and a server, whose clocks are an hour wrong (libfaketime): who is whose home is nobody's clock's business,
nor is the order of records.  Times that somebody named (schedules, shares, tokens) count by the clock of whoever looks."""

import contextlib
import glob
import re
import time

import pytest

import nodes
import postgres
import tokens
from gateway import SANITIZE, wait_until
from holdfast import ids
from test_nodes import at_home, client_of, cluster, whole  # noqa: F401 (fixtures too)

LIBRARY = next(iter(glob.glob("/usr/lib/*/faketime/libfaketime.so.1")), "")
HOUR_MS = 3_600_000

if SANITIZE:
    pytest.skip("a sanitizer must be loaded first", allow_module_level=True)
if not LIBRARY:
    pytest.skip("libfaketime is not installed", allow_module_level=True)


def off(hours):
    """The environment of a process whose wall clock is wrong; no other clock of its is."""
    return {"LD_PRELOAD": LIBRARY, "FAKETIME": f"{hours:+d}h", "DONT_FAKE_MONOTONIC": "1"}


def start(cluster, listen=False, **hours):
    """Gateways by name."""
    for name, n in hours.items():
        more = {"clock_off_s": 0, **({"listen": "127.0.0.1:0"} if listen else {})}
        cluster.new(name, more, environ=off(n) if n else None).start()
    cluster.settled(len(hours))
    return list(cluster.gateways.values())


def now_ms():
    return int(time.time() * 1000)


def test_nobody_is_taken_over_for_its_clock_and_records_stay_in_order(cluster):
    """Two deaths, from an hour ahead to an hour behind and back: two takeovers."""
    ahead, behind = start(cluster, ahead=1, behind=-1)
    owner, calm = cluster.owners_at("ahead", 1)[0], cluster.owners_at("behind", 1)[0]
    for gateway, ms in ((ahead, " ms=3"), (behind, " ms=-3")):
        gateway.logged("event=clock_is_off", ms)
    with client_of(ahead, owner) as client:
        done, _ = client.finish({"token": "first"}, conversation="c")
        assert done["created_at"] > now_ms() + HOUR_MS * 3 // 4
        lost = client.chat({"token": "part"}, {"hang": 1}, conversation="c")
        client.event(lost, "token")
    with client_of(behind, calm) as client:
        task = client.chat({"flood": 100000, "bytes": 40, "per_s": 20}, conversation="c")
        client.event(task, "token")
        time.sleep(2 * cluster.lease_s)  # nobody is ended meanwhile: the time is the subject
        assert not any("event=taken_over" in line for g in (ahead, behind) for line in g.log)
        ahead.kill()
        with at_home(cluster, owner, "ahead") as other:
            assert whole(other, lost)[-1]["data"]["error"]["code"] == "orphaned"
            newer, _ = other.finish({"token": "second"}, conversation="c")
            assert newer["task_id"] > lost["task_id"] > done["task_id"]
            assert newer["created_at"] < now_ms() - HOUR_MS * 3 // 4
            assert [t["task_id"] for t in other.call("tasks", conversation_id="c")["tasks"]] == [
                t["task_id"] for t in (done, lost, newer)]
            said = [m["content"] for m in other.call("history", conversation_id="c")["messages"] if m["role"] == "assistant"]
            assert said == ["first", "part", "second"]
        ahead.start()
        cluster.settled(2)
        since = len(client.log)  # it has noticed nothing
        client.event(task, "token", since)
    behind.kill()
    with at_home(cluster, calm, "behind") as client:
        assert whole(client, task)[-1]["data"]["error"]["code"] == "orphaned"
        assert client.finish({"token": "more"}, conversation="c")[0]["task_id"] > task["task_id"]
    assert sum("event=taken_over" in line for g in (ahead, behind) for line in g.log) == 2


@pytest.mark.parametrize("hours", [1, -1], ids=["ahead", "behind"])
def test_wrong_clock_is_no_start_beside_others(cluster, hours):
    """One clear error; with nobody else there, and with a key that says so, it serves."""
    right, wrong = cluster.new("right").start(), cluster.new("wrong", environ=off(hours))
    wrong.spawn()
    assert wrong.wait() == 1
    told, = [line for line in wrong.log if "level=error" in line and "event=cannot_open" in line]
    assert 3500 < int(re.search(r"are (\d+) s apart", told)[1]) < 3700 and "right" in told and "cluster.clock_off_s" in told
    assert cluster.sql("SELECT count(*) FROM nodes") == "1" and right.process.poll() is None
    allowed = cluster.new("allowed", {"clock_off_s": 0}, environ=off(hours)).start()
    allowed.kill()
    right.kill()  # its row says that it lives, and gives no sign
    wrong.start()
    wrong.logged("event=clock_is_wrong")
    with client_of(wrong, "ann") as client:
        wait_until(lambda: client.ask("conversations")["type"] == "conversations", "service")
    cluster.settled(1)


def test_schedule_is_due_by_the_clock_of_its_home_and_once(cluster):
    """Not there yet an hour behind; the next home, whose clock is right, sends it."""
    start(cluster, behind=-1, right=0)
    behind = cluster.gateways["behind"]
    owner, = cluster.owners_at("behind", 1)
    with client_of(behind, owner) as client:
        for conversation, wait_ms in (("due", 0), ("later", 2 * HOUR_MS)):
            client.call("schedule", conversation_id=conversation, not_before=now_ms() + wait_ms, chat={"message": "x"})
        client.finish({"token": "said"}, conversation="c")  # a turn later
        assert len(client.call("schedules")["schedules"]) == 2
        behind.kill()
    with at_home(cluster, owner, "behind") as client:
        kept, = wait_until(lambda: (lambda all_: len(all_) == 1 and all_)(client.call("schedules")["schedules"]), "it is sent")
        assert kept["conversation_id"] == "later"
        behind.start()
        cluster.settled(2)
        assert len(client.call("tasks", conversation_id="due")["tasks"]) == 1
        assert client.call("tasks", conversation_id="later")["tasks"] == []


def is_let_in(gateway, token):
    return gateway.http("GET", "/v1/conversations", headers={"Authorization": "Bearer " + token})[0] == 200


def test_share_and_token_expire_by_the_clock_of_whoever_looks(cluster):
    """So a wrong clock moves an end by as much as it is wrong, and no home and no other clock moves it further."""
    start(cluster, listen=True, ahead=1, behind=-1)
    ahead, behind = cluster.gateways["ahead"], cluster.gateways["behind"]
    for one, other in ((ahead, "behind"), (behind, "ahead")):
        one.logged("component=link event=up", f"node={other}", "as=front")
    half, owner = now_ms() + HOUR_MS // 2, cluster.owners_at("behind", 1)[0]
    soon = tokens.token(owner, seconds=1800)
    assert is_let_in(behind, soon) and not is_let_in(ahead, soon)
    with client_of(behind, owner) as client:
        client.finish({"token": "said"}, conversation="c")
        short = client.call("share", conversation_id="c", expires_at=half)["token"]
        made = client.call("share", conversation_id="c", expires_at=half + 4 * HOUR_MS)
        assert is_let_in(behind, short) and not is_let_in(ahead, short)
        assert is_let_in(behind, made["token"]) and is_let_in(ahead, made["token"])
        behind.kill()
    at_home(cluster, owner, "behind").close()
    assert not is_let_in(ahead, short) and is_let_in(ahead, made["token"])
    behind.start()
    cluster.settled(2)
    with at_home(cluster, owner, "") as client:
        client.call("unshare", share_id=made["share"]["share_id"])
        for gateway in (ahead, behind):
            assert not is_let_in(gateway, made["token"])


@pytest.mark.parametrize("hours", [1, -1])
def test_failover_to_a_server_with_another_clock(hours):
    """Nothing is lost, nobody is ended for it, and a home that dies then is taken over as ever."""
    with contextlib.ExitStack() as ends:
        server = postgres.Postgres()
        ends.callback(server.close)
        server.start()
        standby = server.new_standby(environ=off(hours))
        ends.callback(standby.close)
        server.set("synchronous_standby_names", "*")
        wait_until(lambda: server.sql("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1",
                   "the standby is waited for")
        own = nodes.Nodes(server, "failover", standby=standby)
        ends.callback(own.close)
        one, two = start(own, one=0, two=0)
        owner, calm = own.owners_at("one", 1)[0], own.owners_at("two", 1)[0]
        with client_of(one, owner) as client, client_of(two, calm) as other:
            live = [(c, c.chat({"flood": 100000, "bytes": 40, "per_s": 20}, conversation="c")) for c in (client, other)]
            for each, task in live:
                each.event(task, "token")
            server.kill()
            standby.promote()
            own.server = standby
            for each, task in live:
                each.event(task, "token", len(each.log))
                assert "epoch" not in each.welcome
            assert abs(float(standby.sql("SELECT extract(epoch FROM clock_timestamp())")) - time.time() - hours * 3600) < 600
            time.sleep(2 * own.lease_s)  # nobody is ended meanwhile: the time is the subject
            assert not any("event=taken_over" in line or "event=fenced" in line for g in (one, two) for line in g.log)
            one.kill()
            with at_home(own, owner, "one") as again:
                assert whole(again, live[0][1])[-1]["data"]["error"]["code"] == "orphaned"
                newer, _ = again.finish({"token": "more"}, conversation="c")
                assert newer["task_id"] > live[0][1]["task_id"]
            other.event(live[1][1], "token", len(other.log))
            other.call("cancel", **ids(live[1][1]))
            other.wait_terminal(live[1][1])
