"""The remains of a gateway that cannot be put in order, and not for want of a server: the store refuses it, or a record
is damaged.  That is said once, tried a bounded number of times, and in nobody else's way."""

import contextlib

import pytest

import model_server as m
import nodes
import postgres
import tokens
from gateway import run, wait_until
from holdfast import Client, Closed, Refused, text_of

if not postgres.programs():
    pytest.skip("PostgreSQL is not installed", allow_module_level=True)


@pytest.fixture
def cluster(postgresql, request):
    cluster = nodes.Nodes(postgresql, request.node.name[:40], store={"retry_s": 1})
    yield cluster
    cluster.close()


def client_of(gateway, owner):
    return Client(gateway, token=tokens.token(owner))


def refuse(cluster, what):
    """From now on no block may have what the condition says."""
    cluster.sql(f"ALTER TABLE blocks ADD CONSTRAINT refused CHECK (NOT ({what})) NOT VALID")


def refuse_no_more(cluster):
    cluster.sql("ALTER TABLE blocks DROP CONSTRAINT refused")


def begin(gateway, owner):
    """A live task that has said something which is in no block."""
    with client_of(gateway, owner) as client:
        task = client.chat({"token": "half"}, {"hang": 1}, conversation="c")
        client.event(task, "token")
    return task


def served(gateway, owner, task):
    """The task's events, once the owner is served there; its end may come a moment later."""
    def attempt():
        with contextlib.suppress(Closed, Refused, OSError), client_of(gateway, owner) as client:
            return client.ask("conversations")["type"] == "conversations" and client.replay(task, 0)
    return wait_until(attempt, f"service for {owner}")


def assert_failed(gateway, owner, task):
    """With what it had said, and all of it told."""
    events = wait_until(lambda: (told := served(gateway, owner, task))[-1]["event"] == "task.failed" and told, "its end")
    assert text_of(events) == "half"


def incarnation_of(cluster, name):
    return cluster.sql(f"SELECT incarnation FROM nodes WHERE node = convert_to('{name}', 'UTF8')")


def test_a_start_that_the_store_refuses_is_over(cluster):
    """A seal is left, of a task that has ended: as when more end in one batch than it seals."""
    one, = cluster.start("one")
    task = begin(one, "ann")
    one.kill()
    cluster.sql("UPDATE tasks SET status = 2, head = 3, completed_at = created_at")  # 2: completed
    refuse(cluster, "true")
    before = len(one.log)
    one.spawn()
    assert one.wait() == 1
    told = [line for line in one.log[before:] if "event=cannot_repair" in line]
    assert len(told) == 1 and "the store refuses it" in told[0] and "violates check constraint" in told[0], told
    refuse_no_more(cluster)
    one.start()
    assert text_of(served(one, "ann", task)) == "half"


def test_a_rescue_that_is_refused_is_in_no_others_way(cluster):
    one, two, three = cluster.start("one", "two", "three")
    first, second = cluster.owners_at("one", 1, "first")[0], cluster.owners_at("two", 1, "second")[0]
    tasks = {owner: begin(gateway, owner) for gateway, owner in ((one, first), (two, second))}
    key = cluster.sql(f"SELECT task_key FROM tasks WHERE task_id = convert_to('{tasks[first]['task_id']}', 'UTF8')")
    refuse(cluster, f"task_key = {key}")
    lost = [incarnation_of(cluster, name) for name in ("one", "two")]
    one.kill()
    wait_until(lambda: any(f"event=rescue_fails incarnation={lost[0]}" in line for g in (two, three) for line in g.log),
               "a rescue that is refused")
    two.kill()
    three.logged(f"event=rescued incarnation={lost[1]}")
    assert text_of(served(three, second, tasks[second])) == "half"
    assert "violates check constraint" in three.logged(f"event=rescue_fails incarnation={lost[0]}")
    refuse_no_more(cluster)
    three.logged(f"event=rescued incarnation={lost[0]}")
    cluster.settled(1)
    assert_failed(three, first, tasks[first])


def unrepaired(gateway):
    closed, = [line for line in gateway.http("GET", "/metrics")[2].decode().splitlines()
               if line.startswith('holdfast_cluster_slots{state="unrepaired"} ')]
    return int(closed.split()[1])


def is_refused(gateway, owner):
    with client_of(gateway, owner) as client:
        return client.ask("conversations").get("code") == "overloaded"


def test_a_damaged_record_shuts_its_own_slot(cluster):
    """The others' owners are served, also those that came with it; it opens when it is mended."""
    one, two = cluster.start("one", "two")
    lost, beside = cluster.owners_at("one", 2, "lost")
    kept = cluster.owners_at("two", 1, "kept")[0]
    task, other = begin(one, lost), begin(one, beside)
    where = f"task_id = convert_to('{task['task_id']}', 'UTF8')"
    with client_of(two, kept) as client:
        live = client.chat({"flood": 100000, "bytes": 40, "per_s": 20})
        client.event(live, "token")
        cluster.sql(f"UPDATE tasks SET ancestors = 'x' WHERE {where}")
        one.kill()
        told = two.logged("event=cannot_repair")
        assert "a record of a live task is damaged" in told and "slots=1" in told
        seen = len(client.events_since(live))
        client.expect(lambda line: line["type"] == "event", len(client.log))  # on the connection that it had
        assert len(client.events_since(live)) > seen
        client.call("cancel", task_id=live["task_id"], conversation_id=live["conversation_id"])
        client.wait_terminal(live)
    assert text_of(served(two, beside, other)) == "half"
    assert is_refused(two, lost) and unrepaired(two) == 1
    said = run("admin", "--config", str(two.folder / "config.json"), "--data", str(two.data), "nodes").stdout
    assert '"unrepaired":1' in said
    cluster.sql(f"UPDATE tasks SET ancestors = NULL WHERE {where}")
    assert "unrepaired=0" in two.logged("event=slots_repaired")
    assert_failed(two, lost, task)
    assert unrepaired(two) == 0 and len([line for line in two.log if "event=cannot_repair" in line]) == 1


def test_a_start_opens_what_is_not_damaged(cluster):
    one, = cluster.start("one")
    task, other = begin(one, "ann"), begin(one, "bob")
    one.kill()
    cluster.sql(f"UPDATE tasks SET ancestors = 'x' WHERE task_id = convert_to('{task['task_id']}', 'UTF8')")
    one.start()
    assert "slots=1" in one.logged("event=cannot_repair")
    assert text_of(served(one, "bob", other)) == "half"
    assert is_refused(one, "ann") and unrepaired(one) == 1


def test_reads_that_the_server_refuses_are_put_again(cluster):
    """All slots that came wait for it; the owners who are served already notice nothing."""
    one, two = cluster.start("one", "two")
    lost, kept = cluster.owners_at("one", 1, "lost")[0], cluster.owners_at("two", 1, "kept")[0]
    task = begin(one, lost)
    cluster.sql("ALTER TABLE revocations RENAME TO elsewhere")
    one.kill()
    assert "does not exist" in two.logged("event=cannot_repair")
    with client_of(two, kept) as client:
        client.finish({"token": "on"})
    assert is_refused(two, lost)
    wait_until(lambda: unrepaired(two) == nodes.N_SLOTS // 2, "all that cannot be repaired")
    cluster.sql("ALTER TABLE elsewhere RENAME TO revocations")
    assert_failed(two, lost, task)
    wait_until(lambda: unrepaired(two) == 0, "all slots")


def test_a_slot_that_opens_late_has_what_was_to_be_told(postgresql):
    """By then the others' rows of the outbox have been read; the notes of its task alone are refused."""
    receiver = m.ModelServer("127.0.0.2")
    receiver.script = [[m.head(status=503, Content_Length=0), m.CLOSE]]
    cluster = nodes.Nodes(postgresql, "opens_late", store={"retry_s": 1}, config={"webhook_allow": ["127.0.0.2"]})
    with contextlib.closing(receiver), contextlib.closing(cluster):
        one, two = cluster.start("one", "two")
        lost = cluster.owners_at("one", 1, "lost")[0]
        task = begin(one, lost)
        with client_of(one, lost) as client:
            client.finish({"token": "told"}, webhook={"url": receiver.url})
        wait_until(lambda: receiver.requests, "a message that is not taken")
        cluster.sql("UPDATE tasks SET cancel_requested_at = created_at "
                    f"WHERE task_id = convert_to('{task['task_id']}', 'UTF8'); ALTER TABLE notes RENAME TO elsewhere")
        one.kill()
        assert "the store refuses it" in two.logged("event=cannot_repair")
        wait_until(lambda: unrepaired(two) == 1, "one slot that is shut")
        receiver.script = [[m.head(status=204, Content_Length=0), m.CLOSE]]
        before = len(receiver.requests)
        cluster.sql("ALTER TABLE elsewhere RENAME TO notes")
        assert "unrepaired=0" in two.logged("event=slots_repaired")
        wait_until(lambda: len(receiver.requests) > before, "the message")
