"""Records that were written by hand: seqs at their limit, and owners that are none (F58, F61)."""

import json

import pytest

import database
import line_pack
from gateway import Gateway
from holdfast import Client, ids
from test_owner import VERBS

TOP = 2**53 - 1


@pytest.fixture(scope="module")
def seeded():
    """A gateway with one ended task whose 6 events have the last six seqs there can be."""
    with Gateway() as gateway:
        with Client(gateway) as client:
            gateway.token = client.token
            task, events = client.finish({"token": "a"}, {"token": "b"})
            assert len(events) == 6
            gateway.task = task
        database.seal(gateway)
        with database.opened(gateway) as db:
            key = database.key_of(db, task)
            for first, last, data in db.execute("SELECT first, last, bytes FROM blocks WHERE task_key = ?",
                                                (key,)).fetchall():
                lines = line_pack.unpacked(data).decode()
                for seq in range(6, 0, -1):
                    lines = lines.replace(f'"seq":{seq},', f'"seq":{TOP - 6 + seq},')
                db.execute("UPDATE blocks SET first = ?, last = ?, bytes = ? WHERE task_key = ? AND first = ?",
                           (first + TOP - 6, last + TOP - 6, lines.encode(), key, first))
            db.execute("UPDATE tasks SET first = ?, head = ? WHERE task_key = ?", (TOP - 5, TOP, key))
        gateway.start()
        yield gateway


@pytest.mark.parametrize("behind", range(7))
def test_cursor_near_the_highest_seq_is_exact(seeded, behind):  # F58
    with Client(seeded, token=seeded.token) as client:
        reply = client.resume(seeded.task, TOP - behind)
        assert reply["head"] == TOP and reply["after"] == TOP - behind
        assert client.expect_type("caught_up")["seq"] == TOP
        assert [event["seq"] for event in client.events_since(seeded.task)] == list(range(TOP - behind + 1, TOP + 1))


@pytest.mark.parametrize("after", ["9007199254740992", "9007199254740993", "9223372036854775807",
                                   "9223372036854775808", "18446744073709551615", "18446744073709551616",
                                   "9007199254740991.0", "9.007199254740991e15", "1e400", "-1"])
def test_cursor_beyond_the_highest_seq_is_refused(seeded, after):  # F58
    task = seeded.task
    with Client(seeded, token=seeded.token) as client:
        client.send_text('{"type":"resume","id":"r","task_id":"%s","conversation_id":"%s","after":%s}'
                         % (task["task_id"], task["conversation_id"], after))
        assert client.reply("r").get("code") == "bad_request"
        client.quiet()
        assert client.events_since(task) == []
    status, _, body = seeded.http("GET", f"/v1/conversations/{task['conversation_id']}/tasks/{task['task_id']}"
                                  f"/events?after={after}", headers={"Authorization": f"Bearer {seeded.token}"})
    assert (status, json.loads(body)["error"]["code"]) == (400, "bad_request")


# ------------------------------------------------------------------ F61

OWNERS = {"empty": "''", "null_text": "CAST(x'00' AS TEXT)", "a_number": "0", "of_another_case": "upper(owner)",
          "with_a_tail": "owner || x'00'", "no_row": None}


@pytest.fixture(scope="module")
def orphaned():
    """Two owners, and of the first one's records one for each kind of wrong owner, and one that is right."""
    with Gateway() as gateway:
        with Client(gateway) as ann, Client(gateway) as bob:
            gateway.tokens = ann.token, bob.token
            gateway.tasks = {kind: ann.finish("secret", conversation=f"c-{kind}")[0] for kind in OWNERS}
            gateway.own, gateway.events = ann.finish("mine", conversation="d")
        gateway.stop()
        with database.opened(gateway) as db:
            for kind, owner in OWNERS.items():
                sql = f"UPDATE tasks SET owner = {owner}" if owner else "DELETE FROM tasks"
                db.execute(f"{sql} WHERE task_id = ?", (gateway.tasks[kind]["task_id"],))
        gateway.start()
        yield gateway


@pytest.mark.parametrize("kind", OWNERS)
def test_record_without_a_right_owner_is_nobodys(orphaned, kind):  # F61
    task, conversation = orphaned.tasks[kind], f"c-{kind}"
    for token in orphaned.tokens:
        with Client(orphaned, token=token) as client:
            for verb, fields in VERBS.items():
                asked = {**fields, **ids(task)}
                reply = client.ask(asked.pop("type", verb), **asked)
                assert (reply["type"], reply["code"]) == ("error", "not_found"), (verb, reply)
            assert client.call("cancel_all", conversation_id=conversation)["cancelled"] == 0
            assert client.call("tasks", conversation_id=conversation)["tasks"] == []
            assert client.call("results", conversation_id=conversation)["results"] == []
            assert not [line for line in client.log if line["type"] == "event"]
    with Client(orphaned, token=orphaned.tokens[0]) as client:
        assert client.replay(orphaned.own) == orphaned.events


def test_live_record_without_an_owner_is_ended_and_nobodys():  # F61
    with Gateway() as gateway:
        with Client(gateway) as client:
            token = client.token
            lost = client.chat({"token": "x"}, {"hang": 1}, conversation="c")
            mine = client.chat({"token": "x"}, {"hang": 1}, conversation="c")
            for task in (lost, mine):
                client.event(task, "token")
            gateway.kill()
        with database.opened(gateway) as db:
            db.execute("UPDATE tasks SET owner = '' WHERE task_id = ?", (lost["task_id"],))
        gateway.start()
        with Client(gateway, token=token) as client:
            client.refused("not_found", "resume", **ids(lost))
            assert client.task(mine)["error"]["code"] == "orphaned"
            assert [t["task_id"] for t in client.call("tasks", conversation_id="c")["tasks"]] == [mine["task_id"]]
        gateway.stop()
        with database.opened(gateway) as db:
            assert db.execute("SELECT count(*) FROM tasks WHERE status < 2").fetchone()[0] == 0
        gateway.start()
