"""Damage to what is on disk is told, harms only what it hit, and is never passed over (F35)."""

import os
import re

import pytest

import database
from gateway import WAIT_S, Gateway, wait_until
from holdfast import Client

HALF = {"flood": 36, "bytes": 400}  # more than a tail may have, little enough for one block with what comes last
REPLACED = "UPDATE blocks SET bytes = CAST(replace(CAST(unpacked(bytes) AS TEXT), '{}', '{}') AS BLOB) WHERE rowid = ?"
CHANGES = {
    "missing": "DELETE FROM blocks WHERE rowid = ?",
    "empty": "UPDATE blocks SET bytes = x'' WHERE rowid = ?",
    "cut_short": "UPDATE blocks SET bytes = substr(bytes, 1, length(bytes) - 700) WHERE rowid = ?",
    "zeros": "UPDATE blocks SET bytes = zeroblob(length(bytes)) WHERE rowid = ?",
    "cut_by_one": "UPDATE blocks SET bytes = substr(bytes, 1, length(bytes) - 1) WHERE rowid = ?",
    "last_newline": "UPDATE blocks SET bytes = substr(unpacked(bytes), 1, length(unpacked(bytes)) - 1) WHERE rowid = ?",
    "first_line": "UPDATE blocks SET bytes = substr(unpacked(bytes), instr(unpacked(bytes), x'0a') + 1) WHERE rowid = ?",
    "other_seqs": REPLACED.format('"seq":7', '"seq":5'),
    "other_task": REPLACED.format('"task_id":"0', '"task_id":"1'),
    "last_too_far": "UPDATE blocks SET last = last + 1 WHERE rowid = ?",
    "first_too_near": "UPDATE blocks SET first = first - 1 WHERE rowid = ?",
}

# A byte as a bad disk changes it: the lines are lines still, or text no more, or JSON no more.
BYTES = {"a_letter": ("xxx", "xyx"), "not_utf8": ("xxx", "x\udca8x"), "a_quote": ("xxx", 'x"x')}


def change_byte(gateway, task, old, new):
    """In the middle of the task's last block; gives that one's first seq."""
    with database.opened(gateway, raw=True) as db:
        rowid, first, data = db.execute("SELECT rowid, first, bytes FROM blocks WHERE task_key = ? ORDER BY first DESC",
                                        (database.key_of(db, task),)).fetchone()
        at = data.index(old.encode(), len(data) // 2)
        data = data[:at] + new.encode(errors="surrogateescape") + data[at + 3:]
        db.execute("UPDATE blocks SET bytes = ? WHERE rowid = ?", (data, rowid))
        return first


def halves(client, *more):
    """A task whose lines lie in two blocks at least, at its last token."""
    gate = client.gateway.path()
    task = client.chat(HALF, {"wait": gate}, HALF, *more)
    client.expect(lambda line: line.get("task_id") == task["task_id"] and line.get("seq") == 38)
    open(gate, "w", encoding="utf-8").close()
    client.expect(lambda line: line.get("task_id") == task["task_id"] and line.get("seq") == 74)
    return task


def damage(gateway, task, sql):
    """Carries it out on the task's last block; gives that one's first seq."""
    with database.opened(gateway) as db:
        blocks = db.execute("SELECT rowid, first FROM blocks WHERE task_key = ? ORDER BY first",
                            (database.key_of(db, task),)).fetchall()
        db.execute(sql, blocks[-1][:1])
        return blocks[-1][1]


def damages(gateway):
    """As its metrics count them."""
    body = gateway.http("GET", "/metrics")[2].decode()
    return int(re.search(r"^holdfast_store_damages_total (\d+)$", body, re.M)[1])


@pytest.fixture(scope="module")
def damaged(request):
    """A gateway that found, for each of these kinds of damage, an ended task with it; and one without.  (Two of them: the
    log tells ten in a row.)"""
    with Gateway() as gateway:
        with Client(gateway) as client:
            gateway.token, gateway.tasks = client.token, {}
            for kind in [*request.param, "none"]:
                task = halves(client)
                client.wait_terminal(task)
                gateway.tasks[kind] = task, client.raw_events(task)
        database.seal(gateway)
        gateway.first = {kind: change_byte(gateway, gateway.tasks[kind][0], *how) if isinstance(how, tuple)
                         else damage(gateway, gateway.tasks[kind][0], how) for kind, how in request.param.items()}
        assert min(gateway.first.values()) > 1
        gateway.start()
        yield gateway


@pytest.mark.parametrize("damaged, kind", [(kinds, kind) for kinds in (CHANGES, BYTES) for kind in kinds],
                         indirect=["damaged"], ids=[*CHANGES, *BYTES])
def test_damaged_events_end_the_replay_with_an_error(damaged, kind):  # F35
    task, raw = damaged.tasks[kind]
    pid, counted = damaged.process.pid, damages(damaged)
    with Client(damaged, token=damaged.token) as client:
        for after in (0, 20):
            since = len(client.log)
            client.resume(task, after)
            error = client.expect_type("error", since)
            assert error["code"] == "internal" and task["task_id"] in error["message"]
            got = client.raw_events(task, since)
            assert list(got) == list(range(after + 1, damaged.first[kind])) or \
                kind == "first_too_near" and list(got) == list(range(after + 1, damaged.first[kind] - 1))
            assert all(raw[seq] == line for seq, line in got.items())
        client.quiet()
        assert not [line for line in client.log if line["type"] == "caught_up"]
        whole, lines = damaged.tasks["none"]
        client.replay(whole)  # nobody else is harmed
        assert client.raw_events(whole) == lines
    assert damaged.process.pid == pid and damaged.process.poll() is None
    told = f"level=error component=store event=damaged task={task['task_id']}"
    wait_until(lambda: told in "\n".join(damaged.log), "the line in the log")
    assert damages(damaged) > counted


def test_damage_of_a_task_that_ran_ends_it_all_the_same():  # F35
    with Gateway() as gateway:
        with Client(gateway) as client:
            token, task = client.token, halves(client, {"hang": 1})
            other = client.chat({"token": "x"}, {"hang": 1})
            client.event(other, "token")
            gateway.kill()
        damage(gateway, task, CHANGES["cut_short"])
        gateway.start()
        with Client(gateway, token=token) as client:
            for orphan in (task, other):
                record = client.task(orphan)
                assert (record["status"], record["error"]["code"]) == ("failed", "orphaned")
            assert client.replay(other)[-1]["event"] == "task.failed"
            end = client.replay(task, client.task(task)["head"] - 1)
            assert end[0]["event"] == "task.failed" and end[0]["seq"] > 74
            client.resume(task, 0)
            assert client.expect_type("error")["code"] == "internal"
            assert client.finish("next")[0]["status"] == "completed"


@pytest.mark.parametrize("sql", [
    "UPDATE journal SET bytes = substr(bytes, 1, length(bytes) - 3)",
    "UPDATE journal SET bytes = CAST(replace(CAST(raw_row(bytes) AS BLOB), x'0a', x'20') AS BLOB)",
    "DELETE FROM journal WHERE row = (SELECT min(row) + 1 FROM journal)",
    "DELETE FROM journal WHERE row > (SELECT min(row) FROM journal)",
], ids=["cut_short", "no_lines", "a_row_is_missing", "all_but_the_first_are_missing"])
def test_damaged_journal_is_refused_with_a_reason(sql):  # F35
    with Gateway() as gateway:
        with Client(gateway) as client:
            gates = [gateway.path() for _ in range(5)]
            task = client.chat(*[step for gate in gates for step in ({"wait": gate}, {"token": "x"})], {"hang": 1})
            for n, gate in enumerate(gates):  # one after the other is seen: each has a commit of its own
                open(gate, "w", encoding="utf-8").close()
                client.expect(lambda line: line.get("task_id") == task["task_id"] and line.get("seq") == 3 + n)
            gateway.kill()
        with database.opened(gateway) as db:
            assert db.execute("SELECT count(*) FROM journal").fetchone()[0] > 2
            db.execute(sql)
        gateway.spawn()
        assert gateway.process.wait(WAIT_S) == 1
        gateway._finish()
        assert re.search("level=error component=store ", "\n".join(gateway.log))


def test_letter_in_the_journal_refuses_the_start_and_names_whose_it_is():
    with Gateway() as gateway:
        with Client(gateway) as client:
            task = client.chat({"token": "a letter"}, {"hang": 1})
            client.event(task, "token")
            gateway.kill()
        with database.opened(gateway, raw=True) as db:
            key = database.key_of(db, task)
            changed = db.execute("UPDATE journal SET bytes = CAST(replace(CAST(bytes AS TEXT), 'a letter', 'b letter') AS BLOB) "
                                 "WHERE instr(bytes, CAST('a letter' AS BLOB)) > 0").rowcount
            assert changed > 0
        gateway.spawn()
        assert gateway.process.wait(WAIT_S) == 1
        gateway._finish()
        log = "\n".join(gateway.log)
        assert "of the journal is not as it was written" in log and f"of the task with key {key}" in log


def test_numbers_of_lines_that_are_gone_are_not_given_again():  # F35
    with Gateway() as gateway:
        with Client(gateway) as client:
            token, task = client.token, client.chat({"token": "x"}, {"progress": 0.5}, {"hang": 1})
            client.event(task, "progress")
            gateway.kill()
        with database.opened(gateway) as db:
            head, = db.execute("SELECT head FROM tasks").fetchone()
            assert head >= 2
            db.execute("DELETE FROM journal")
        gateway.start()
        with Client(gateway, token=token) as client:
            assert client.task(task)["status"] == "failed"
            end = client.replay(task, client.task(task)["head"] - 1)
            assert end[0]["event"] == "task.failed" and end[0]["seq"] > head
        told = f"level=error component=store event=damaged task={task['task_id']}"
        wait_until(lambda: told in "\n".join(gateway.log), "the line in the log")
        assert damages(gateway) == 1


@pytest.mark.parametrize("sql", [
    "UPDATE tasks SET task_id = 'short'",
    "UPDATE tasks SET ancestors = 'short'",
], ids=["task_id", "ancestors"])
def test_record_of_a_live_task_that_cannot_be_is_refused_with_a_reason(sql):  # F35
    with Gateway() as gateway:
        with Client(gateway) as client:
            client.chat({"token": "x"}, {"hang": 1})
            client.expect(lambda line: line.get("seq") == 3)
            gateway.kill()
        with database.opened(gateway) as db:
            db.execute(sql)
        gateway.spawn()
        assert gateway.process.wait(20) == 1
        gateway._finish()
        assert re.search("level=error component=store ", "\n".join(gateway.log))


def test_message_of_nobody_is_told_as_damage():  # F35
    with Gateway() as gateway:
        with Client(gateway) as client:
            token = client.token
            task, _ = client.finish("a word")
        database.seal(gateway)
        with database.opened(gateway) as db:
            assert db.execute("UPDATE messages SET role = 9").rowcount > 0
        gateway.start()
        with Client(gateway, token=token) as client:
            reply = client.ask("history", conversation_id=task["conversation_id"])
            assert reply["code"] == "internal"
            assert client.finish("next")[0]["status"] == "completed"


RECORDS = {  # what is changed of a task's record, and what then needs it
    "fixed": ("UPDATE tasks SET agent = agent || 'x'", ("task", "resume", "tasks", "open")),
    "state": ("UPDATE tasks SET completed_at = completed_at + 1", ("task", "resume", "tasks", "open")),
    "output": ("UPDATE tasks SET output = 'b word'", ("task", "resume")),
    "input": ("UPDATE inputs SET input = 'b word'", ("task", "resume")),
    "message": ("UPDATE messages SET content = 'b word'", ("history",)),
    "conversation": ("UPDATE conversations SET title = 'b word'", ("conversations",)),
}


@pytest.mark.parametrize("kind", RECORDS)
def test_damaged_record_is_told_as_damage_and_the_rest_is_served(kind):
    sql, verbs = RECORDS[kind]
    with Gateway() as gateway:
        with Client(gateway) as client:
            token = client.token
            task, _ = client.finish("a word", conversation="c")
            whole, events = client.finish("a word", conversation="d")
        database.seal(gateway)
        with database.opened(gateway, raw=True) as db:
            where = {"inputs": f"task_key = {database.key_of(db, task)}"}.get(sql.split()[1], "conversation_id = 'c'")
            assert db.execute(f"{sql} WHERE {where}").rowcount > 0
        gateway.start()
        with Client(gateway, token=token) as client:
            for verb in verbs:
                fields = {} if verb == "conversations" else {"conversation_id": "c"}
                if verb in ("task", "resume"):
                    fields["task_id"] = task["task_id"]
                reply = client.ask(verb, **fields)
                assert (reply["type"], reply["code"]) == ("error", "internal"), (verb, reply)
                assert task["task_id"] in reply["message"] or "task_id" not in fields
            assert client.replay(whole) == events and client.task(whole) == whole
            assert client.finish("next", conversation="d")[0]["status"] == "completed"
            assert client.call("delete", conversation_id="c")["type"] == "ok"  # which is how one gets rid of it
        told = "event=reads_fail"
        wait_until(lambda: any(told in line and "is not as it was written" in line for line in gateway.log), "the log")


def test_damaged_file_is_told_and_what_is_whole_is_served():  # F35
    """Pages of events in the middle of the file: the records beside them are served on."""
    with Gateway() as gateway:
        with Client(gateway) as client:
            token = client.token
            task, events = client.finish({"flood": 3000, "bytes": 900})
            small, _ = client.finish("small")
        database.seal(gateway)
        with database.opened(gateway) as db:
            block, = db.execute("SELECT bytes FROM blocks WHERE task_key = ? AND first <= 1500 AND last >= 1500",
                                (database.key_of(db, task),)).fetchone()
        path = gateway.data / "holdfast.db"
        data = bytearray(path.read_bytes())
        at = data.index(block[:60])
        at -= at % 4096
        data[at - 40960 : at] = os.urandom(40960)
        path.write_bytes(data)
        gateway.start()
        with Client(gateway, token=token) as client:
            client.resume(task, 0)
            error = client.expect_type("error")
            assert error["code"] == "internal"
            got = client.events_since(task)
            assert events[:len(got)] == got and len(got) < 1500
            assert client.task(small)["output"] == "small"
            assert client.finish("more")[0]["status"] == "completed"
        wait_until(lambda: "event=damaged" in "\n".join(gateway.log), "the line in the log")
