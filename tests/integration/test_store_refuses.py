"""A change that SQLite refuses: by a trigger that somebody has put into the file."""

import contextlib
import re
import sqlite3

import tokens
from gateway import Gateway
from holdfast import Client


def test_a_batch_that_is_refused_says_for_what(tmp_path):
    config = {"store": {"kind": "sqlite", "retry_s": 1}, "auth": tokens.config(tmp_path)}
    with Gateway(config) as gateway:
        assert gateway.stop() == 0
        with contextlib.closing(sqlite3.connect(gateway.data / "holdfast.db")) as db:
            db.execute("CREATE TRIGGER refused BEFORE INSERT ON messages WHEN CAST(NEW.content AS TEXT) = 'bad' "
                       "BEGIN SELECT RAISE(ABORT, 'not that'); END")
            db.commit()
        gateway.start()
        with Client(gateway, token=tokens.token("bob")) as client:
            client.post("chat", conversation_id="c", message="bad")
            assert "not that" in gateway.logged("event=commits_fail")
            told = gateway.logged("component=store event=refuses")
            assert "op=message" in told and "owner=bob" in told and re.search("task=[0-9A-Z]{26}", told), told
            gateway.logged("event=commits_again")  # after store.retry_s
            client.finish({"token": "on"})
        assert len([line for line in gateway.log if "event=refuses" in line]) == 1
