"""Several gateways, and things that they cannot know of each other or of the server: answers that are lost, a home that
is cut off, a gateway that died with all that knew it.  The server is this file's own."""

import contextlib
import time

import pytest

import nodes
import tokens
from gateway import LATE_S, free_port, run, script_agent, wait_until
from holdfast import TERMINAL, Client, Closed, Refused, ids, new_id
from relay import Relay
from test_nodes import at_home, client_of, cluster, whole  # noqa: F401 (fixtures too)


def order(gateway, *words):
    return run("admin", "--config", str(gateway.folder / "config.json"), "--data", str(gateway.data), *words)


# ------------------------------------------------------------------ slots that go


def ask_until_started(cluster, owner, key):
    """A chat, now at this gateway and then at that, until it is answered; at most one of them carries it out."""
    def ask():
        for gateway in list(cluster.gateways.values()):
            with contextlib.suppress(Closed, Refused, OSError), client_of(gateway, owner) as client:
                reply = client.ask("chat", conversation_id="c", message="x", request_key=key)
                if reply["type"] == "started":
                    return reply["task"]["task_id"]
                assert reply["code"] == "overloaded", reply
        return None
    return wait_until(ask, "an answer")


@pytest.mark.parametrize("answer", [b"COMMIT\0", None], ids=["committed", "not sent"])
def test_release_whose_outcome_is_not_known(postgresql, cluster, answer):
    """It is asked again, and whoever has the slots then serves them, alone."""
    cluster.lease_s = nodes.LONG_LEASE_S
    with Relay(postgresql.socket) as wire:
        one = cluster.new("one", wire=wire).start()
        cluster.settled(1)
        owners, key = [f"u{i}" for i in range(6)], new_id("k")
        done = {}
        for owner in owners:
            with client_of(one, owner) as client:
                done[owner] = client.finish({"token": "said"}, conversation="c")[0]
        wire.lose(b"slot = ANY(", answer)  # the statement of a release alone
        cluster.new("two").start()
        assert wire.lost.wait(LATE_S + nodes.LONG_LEASE_S), "nothing was released"
        begun = {owner: ask_until_started(cluster, owner, key) for owner in owners}
        cluster.settled(2)
        homes = {cluster.home_of(owner) for owner in owners}
        assert homes == {"one", "two"}
        for owner in owners:
            with client_of(cluster.gateways[cluster.home_of(owner)], owner) as client:
                wait_until(lambda c=client: c.ask("open", conversation_id="c")["type"] == "conversation", "service")
                assert client.replay(done[owner], 0)[-1]["event"] == "task.completed"
                again = client.call("chat", conversation_id="c", message="x", request_key=key)
                assert again["repeated"] and again["task"]["task_id"] == begun[owner]
        assert cluster.sql("SELECT count(*) FROM tasks") == str(2 * len(owners))
        assert not any("event=taken_over" in line for g in cluster.gateways.values() for line in g.log)
        cluster.close()


COMES_BACK = """
CREATE FUNCTION comes_back() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    NEW.incarnation := OLD.incarnation; RETURN NEW; END $$;
CREATE TRIGGER comes_back BEFORE UPDATE ON slots FOR EACH ROW
    WHEN (OLD.incarnation IS NOT NULL AND NEW.incarnation IS NULL) EXECUTE FUNCTION comes_back()"""


def test_slots_that_are_back_before_anybody_saw_them_go(cluster):
    """Given away, taken and given back between two looks: they are served again, and can be given away again."""
    cluster.lease_s = nodes.LONG_LEASE_S
    one = cluster.new("one").start()
    cluster.settled(1)
    cluster.sql(COMES_BACK)
    cluster.new("two").start()
    wait_until(lambda: cluster.sql("SELECT count(*) > 0 FROM slots WHERE moved > incarnation") == "t", "a release")
    owners = cluster.owners_at("one", 40)
    for owner in owners:
        with client_of(one, owner) as client:
            wait_until(lambda c=client: c.ask("open", conversation_id="c")["type"] == "conversation", "service again")
    cluster.sql("DROP TRIGGER comes_back ON slots")
    cluster.settled(2)
    with at_home(cluster, owners[0], "nobody's") as client:
        assert client.finish({"token": "said"})[0]["status"] == "completed"


# ------------------------------------------------------------------ answers that are lost


def test_cancel_whose_ok_is_lost_is_asked_again_at_the_next_home(cluster):
    """It was committed: the task has one end, and that is the cancel's."""
    cluster.config = {"agents": [script_agent("patient", default=True, grace_s=600)]}
    one, _ = cluster.start("one", "two")
    owner, = cluster.owners_at("one", 1)
    with Relay(one) as wire:
        client = client_of(wire, owner)
        task = client.chat({"ignore_term": 1}, {"token": "part"}, {"hang": 1})
        client.event(task, "token")
        wire.lose(b"", b'"cancelled":1')
        client.post("cancel", **ids(task))
        client.closing()
        assert wire.lost.is_set() and not [line for line in client.log if "cancelled" in line]
        one.kill()
    with at_home(cluster, owner, "one") as client:
        again = client.call("cancel", **ids(task))
        assert (again["cancelled"], again["task_ids"]) == (0, [])  # it was asked before, and has ended
        events = whole(client, task)
        ends = [event for event in events if event["event"] in TERMINAL]
        assert [end["data"]["status"] for end in ends] == ["cancelled"] and events[-1] is ends[0]
        assert client.task(task)["status"] == "cancelled"
        assert whole(client, task) == events


# ------------------------------------------------------------------ a home that is cut off


def test_revoked_while_the_home_is_cut_off(postgresql, cluster):
    """The order is answered by a home alone; the old one is silent before the new one can carry it out, and then nobody
    is let in, anywhere."""
    port = free_port()
    with Relay(postgresql.socket) as store, Relay(nodes.Address(port)) as link:
        one = cluster.new("one", {"listen": f"127.0.0.1:{port}", "advertise": f"127.0.0.1:{link.port}"}, wire=store)
        one.start()
        two, three = (cluster.new(name, {"listen": "127.0.0.1:0"}).start() for name in ("two", "three"))
        cluster.settled(3)
        two.logged("component=link event=up", "node=one", "as=front")
        owner, = cluster.owners_at("one", 1)
        client = client_of(one, owner)
        task = client.chat({"flood": 100000, "bytes": 40, "per_s": 100})
        client.event(task, "token")
        store.swallow()
        link.swallow()
        said = order(two, "revoke", owner)  # not by a gateway that is no home
        assert said.returncode != 0 or cluster.home_of(owner) != "one", said.stdout
        one.logged("event=lease_lapsed")
        wait_until(lambda: order(two, "revoke", owner).returncode == 0, "the new home's word")
        assert cluster.home_of(owner) in ("two", "three")
        with contextlib.suppress(Closed):
            while client.pump(0.5):  # what the kernel had already
                pass
        heard = len(client.log)
        client.post("chat", conversation_id="c", message="x")
        assert not client.pump(1)  # for so long: silence is the subject
        for wire in (store, link):
            wire.cut()
            wire.swallow(False)
        assert one.wait() == 75
        with contextlib.suppress(Closed):
            client.closing()
        assert not [line for line in client.log[heard:] if line["type"] != "error"]
        one.start()
        cluster.settled(3)
        for gateway in (one, two, three):
            status, _, _ = gateway.http("GET", "/v1/conversations", headers={"Authorization": "Bearer " + tokens.token(owner)})
            assert status == 401
        assert cluster.sql("SELECT count(*) FROM tasks") == "1"
        cluster.close()


# ------------------------------------------------------------------ gone with the server


@pytest.mark.parametrize("is_back", [False, True], ids=["gone", "back"])
def test_joined_served_and_died_with_the_server(postgresql, cluster, is_back):
    """All that it said is there, what ran ends once, and its slots have a home."""
    cluster.start("one", "two")
    begun = time.monotonic()
    three = cluster.new("three").start()
    owner, = cluster.owners_at("three", 1)
    three.logged("event=slots_come")
    with client_of(three, owner) as client:
        wait_until(lambda: client.ask("open", conversation_id="c")["type"] == "conversation", "service")
        done, events = client.finish({"token": "said"}, conversation="c")
        task = client.chat({"token": "part"}, {"hang": 1}, conversation="c")
        client.event(task, "token")
        seen = client.events_since(task)
        postgresql.kill()
        three.kill()
    print(f"joined, served and died in {time.monotonic() - begun:.1f} s")
    postgresql.start()
    if is_back:
        three.start()
    cluster.settled(3 if is_back else 2)
    with at_home(cluster, owner, "" if is_back else "three") as client:
        assert client.replay(done, 0) == events
        after = whole(client, task)
        assert after[:len(seen)] == seen and after[-1]["data"]["error"]["code"] == "orphaned"
        assert sum(event["event"] in TERMINAL for event in after) == 1
        assert client.finish({"token": "more"}, conversation="c")[0]["status"] == "completed"
    assert cluster.sql("SELECT count(*) FROM slots WHERE incarnation IS NULL") == "0"
