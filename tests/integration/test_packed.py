"""SQLite keeps lines without what can be derived (proto/line_pack.h); rows of gateways that kept them whole stay as they are."""

import contextlib
import sqlite3

import database
from gateway import Gateway, run, wrongs
from holdfast import Client

SIZE = "coalesce(nullif(crc >> 32, 0), length(bytes))"


def is_sound(gateway):
    return wrongs(run("doctor", "--data", str(gateway.data), "--full").stdout) == []


def sizes(gateway):
    """(bytes of lines, bytes in rows) of all blocks."""
    with contextlib.closing(sqlite3.connect(gateway.data / "holdfast.db")) as db:
        return db.execute(f"SELECT sum({SIZE}), sum(length(bytes)) FROM blocks").fetchone()


def as_before(gateway):
    """Its database as a gateway of schema version 12 would have written it."""
    with database.opened(gateway) as db:
        db.execute("UPDATE blocks SET bytes = unpacked(bytes)")
        db.execute("UPDATE journal SET bytes = raw_row(bytes)")
        db.execute("PRAGMA user_version = 12")


def test_short_tokens_take_a_quarter_of_their_lines():
    with Gateway() as gateway:
        with Client(gateway) as client:
            token = client.token
            task, _ = client.finish({"flood": 3000, "bytes": 5})
            lines = client.raw_events(task)
        database.seal(gateway)
        whole, packed = sizes(gateway)
        assert whole == sum(len(line) + 1 for line in lines.values())  # usage and retention count these
        assert packed * 4 < whole, (packed, whole)
        gateway.start()
        with Client(gateway, token=token) as client:
            client.replay(task)
            assert client.raw_events(task) == lines


def test_database_of_an_older_gateway_is_read_and_goes_on():
    with Gateway() as gateway:
        with Client(gateway) as client:
            token = client.token
            old, _ = client.finish({"token": "old"}, {"flood": 300, "bytes": 90}, conversation="old")
            lines = client.raw_events(old)
            live = client.chat({"token": "live"}, {"hang": 1}, conversation="live")
            client.event(live, "token")
            gateway.kill()
        as_before(gateway)
        whole, kept = sizes(gateway)
        assert whole == kept
        gateway.start()
        with Client(gateway, token=token) as client:
            client.replay(old)
            assert client.raw_events(old) == lines
            assert client.task(live)["error"]["code"] == "orphaned"
            assert [line["event"] for line in client.replay(live)][-2:] == ["token", "task.failed"]
            new, _ = client.finish({"flood": 300, "bytes": 90}, conversation="old")
            more = client.raw_events(new)
        database.seal(gateway)
        assert is_sound(gateway)
        with database.opened(gateway) as db:
            kinds = [[row[0][:1] for row in db.execute("SELECT bytes FROM blocks WHERE task_key = ? ORDER BY first",
                                                       (database.key_of(db, task),))] for task in (old, new)]
        assert set(kinds[0]) == {b"{"} and set(kinds[1]) == {b"\x01"}
        gateway.start()
        with Client(gateway, token=token) as client:
            for task, events in ((old, lines), (new, more)):
                client.replay(task)
                assert client.raw_events(task) == events
            assert client.call("delete", conversation_id="old")["type"] == "ok"
            assert client.call("delete", conversation_id="live")["type"] == "ok"
        gateway.stop()  # with what was removed taken off the owner's usage
        gateway.start()
        gateway.stop()
        assert is_sound(gateway)
        with database.opened(gateway) as db:
            assert db.execute("SELECT count(*) FROM blocks").fetchone()[0] == 0
            assert db.execute("SELECT coalesce(sum(bytes), 0) FROM usage").fetchone()[0] == 0
