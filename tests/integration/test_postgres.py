"""A gateway whose store is on PostgreSQL, while the server stops, dies, hangs or is somebody else's (NODES: one gateway
at a time).  The server is this file's own."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import tempfile
import time

import pytest

import files as file_store
import postgres
from gateway import LATE_S, SCALE, WAIT_S, Gateway, run, wait_until
from holdfast import Client, new_id, program
from short import long, rest

if not postgres.programs():
    pytest.skip("PostgreSQL is not installed", allow_module_level=True)

STEADY = {"flood": 400, "bytes": 40, "per_s": 100}  # some seconds of events


@pytest.fixture
def folder():
    path = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-test-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


def config(postgresql, folder, database, **more):
    if not (folder / "url").exists():
        (folder / "url").write_text(postgresql.new_database(database) + "\n", encoding="utf-8")
        (folder / "secret").write_text(32 * "s", encoding="utf-8")
    return {"store": {"kind": "postgres", "url_file": str(folder / "url"), "retry_s": 120, **more},
            "cluster": {"secret_file": str(folder / "secret"), "node": "one", "lease_s": 3}}


def is_ready(gateway):
    with contextlib.suppress(OSError):
        return gateway.http("GET", "/readyz")[0] == 200
    return False


def stop_and_start(postgresql):
    postgresql.stop()
    postgresql.start()


def kill_and_start(postgresql):
    postgresql.kill()
    postgresql.start()


def hang_for_a_while(postgresql):
    postgresql.signal(signal.SIGSTOP)
    time.sleep(5)  # its length is the subject: longer than a commit may take unnoticed
    postgresql.signal(signal.SIGCONT)


@pytest.mark.parametrize("trouble", rest(kill_and_start, stop_and_start, hang_for_a_while))
def test_outage_under_load_loses_nothing_and_doubles_nothing(postgresql, folder, trouble):
    with Gateway(config(postgresql, folder, trouble.__name__)) as gateway:
        with Client(gateway) as client:
            task = client.chat(STEADY, {"token": "the end"})
            client.event(task, "token")
            trouble(postgresql)
            assert client.wait_terminal(task)["event"] == "task.completed"  # each number once: the client checks
            numbers = [event["seq"] for event in client.events(task)]
            assert numbers == list(range(1, len(numbers) + 1))
            token = client.token
        gateway.kill()
        gateway.start()
        with Client(gateway, token=token) as client:
            assert [event["seq"] for event in client.replay(task, 0)] == numbers
        assert postgresql.sql("SELECT count(*) FROM tasks", trouble.__name__) == "1"


def test_while_the_server_is_down_readers_read_and_writers_are_told(postgresql, folder):
    patient = config(postgresql, folder, "down")
    patient["cluster"]["lease_s"] = 300  # while it is sure of its lease
    with Gateway(patient) as gateway, Client(gateway) as client:
        done, _ = client.finish("before")
        postgresql.stop()
        try:
            request = client.post("chat", conversation_id=new_id(), message="x")
            reply = client.reply(request)
            assert reply["type"] == "error" and reply["code"] == "overloaded"
            wait_until(lambda: not is_ready(gateway), "not ready")
            assert client.replay(done, 0)[-1]["event"] == "task.completed"  # from memory
        finally:
            postgresql.start()
        wait_until(lambda: is_ready(gateway), "ready again")
        assert client.finish("after")[0]["status"] == "completed"


def test_another_machine_goes_on_where_one_was_lost(postgresql, folder):
    """No folder in common: owner, conversation and events are there, and what ran has ended, once."""
    with tempfile.TemporaryDirectory(prefix="holdfast-test-") as other:
        one = Gateway(config(postgresql, folder, "moved"))
        two = Gateway(config(postgresql, folder, "moved"), folder=other)
        one.start()
        with Client(one) as client:
            done, _ = client.finish({"token": "said"}, conversation="c")
            running = client.chat({"token": "part"}, {"hang": 1}, conversation="c")
            client.event(running, "token")
            token, owner = client.token, client.welcome["owner"]
        one.kill()
        two.start()  # when the lease is over
        assert any("waits_for_lease" in line for line in two.log)
        with Client(two, token=token) as client:
            assert client.welcome["owner"] == owner
            assert client.replay(done, 0)[-1]["event"] == "task.completed"
            ends = [event for event in client.replay(running, 0) if event["event"] == "task.failed"]
            assert [end["data"]["error"]["code"] for end in ends] == ["orphaned"]
            newer, _ = client.finish("next", conversation="c")
            assert newer["task_id"] > running["task_id"]
        two.close()
        one.close()


def test_second_gateway_is_refused_while_the_first_lives(postgresql, folder):
    with tempfile.TemporaryDirectory(prefix="holdfast-test-") as other:
        with Gateway(config(postgresql, folder, "both")) as one:
            two = Gateway(config(postgresql, folder, "both"), folder=other)
            process = two.spawn()
            assert process.wait(WAIT_S) == 1
            two._finish()
            assert 'another gateway, "one", serves this database under the same name' in "\n".join(two.log).replace('\\"', '"')
            with Client(one) as client:
                assert client.finish("x")[0]["status"] == "completed"


def test_process_that_was_stopped_and_replaced_says_nothing_more(postgresql, folder):
    """SIGSTOP for longer than its lease; another takes over; SIGCONT: it ends with 75, and nothing is doubled."""
    with tempfile.TemporaryDirectory(prefix="holdfast-test-") as other:
        one = Gateway(config(postgresql, folder, "zombie"))
        two = Gateway(config(postgresql, folder, "zombie"), folder=other)
        one.start()
        client = Client(one)
        task = client.chat({"flood": 100000, "bytes": 40, "per_s": 200})
        client.event(task, "token")
        os.kill(one.process.pid, signal.SIGSTOP)
        two.start()
        with Client(two, token=client.token) as reader:
            events = reader.replay(task, 0)
            assert events[-1]["data"]["error"]["code"] == "orphaned"
        client.post("chat", conversation_id="c", message="x")
        os.kill(one.process.pid, signal.SIGCONT)
        assert one.wait() == 75
        assert any("event=fenced" in line for line in one.log)
        with contextlib.suppress(Exception):
            client.closing()
        seen = client.events_since(task)
        known = {event["seq"]: event for event in events}
        assert all(known[event["seq"]] == event for event in seen)  # a prefix of what is there
        said = [line for line in client.log if line["type"] in ("started", "error")][1:]
        assert {line.get("code") for line in said} <= {"overloaded"}  # "may still accept this one": no claim
        with Client(two, token=client.token) as reader:
            assert reader.replay(task, 0) == events
        two.close()
        one.close()


def unknown_outcomes(gateway):
    text = gateway.http("GET", "/metrics")[2].decode()
    name = "holdfast_cluster_unknown_outcomes_total "
    return sum(float(line.split()[1]) for line in text.splitlines() if line.startswith(name))


WAITING = ("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name LIKE 'holdfast/%' "
           "AND query LIKE 'COMMIT%'")


def cancel_the_wait(postgresql, pid):
    postgresql.sql(f"SELECT pg_cancel_backend({pid})")


def end_the_wait(postgresql, pid):
    postgresql.sql(f"SELECT pg_terminate_backend({pid})")


def restart_within_the_wait(postgresql, _):
    kill_and_start(postgresql)


@pytest.mark.parametrize("trouble", rest(cancel_the_wait, end_the_wait, restart_within_the_wait))
def test_commit_that_no_standby_has_is_told_to_nobody(postgresql, folder, trouble):
    """It is visible on the server, with a warning or an error: until a standby has it, it is in doubt."""
    patient = config(postgresql, folder, trouble.__name__)
    patient["cluster"]["lease_s"] = 300  # it speaks while its beats wait as well
    with Gateway(patient) as gateway, Client(gateway) as client:
        client.finish("before")
        postgresql.set("synchronous_standby_names", "nobody")
        try:
            wait_until(lambda: postgresql.sql("SHOW synchronous_standby_names") == "nobody", "its setting")
            request = client.post("chat", conversation_id="c", message=program({"token": "said"}), request_key="k")
            pid = wait_until(lambda: postgresql.sql(WAITING).split("\n")[0], "a commit that waits")
            trouble(postgresql, pid)
            wait_until(lambda: unknown_outcomes(gateway) > 0, "an outcome that is not known")
            assert postgresql.sql("SELECT count(*) FROM tasks", trouble.__name__) == "2"  # visible
            client.ask("conversations")  # whatever was said comes before this one's reply
            assert not any(line["type"] == "started" for line in client.log if line.get("id") == request)
        finally:
            postgresql.set("synchronous_standby_names", "")
        reply = client.reply(request)
        while reply["type"] == "error":  # it said so while the outcome was open
            assert reply["code"] == "overloaded"
            reply = client.reply(client.post("chat", conversation_id="c", message=program({"token": "said"}), request_key="k"))
        assert client.wait_terminal(reply["task"])["event"] == "task.completed"
        assert postgresql.sql("SELECT count(*) FROM tasks", trouble.__name__) == "2"


def test_replicated_without_a_standby_does_not_start(postgresql, folder):
    gateway = Gateway(config(postgresql, folder, "alone", durability="replicated"))
    process = gateway.spawn()
    assert process.wait(WAIT_S) == 1
    gateway._finish()
    assert "synchronous_standby_names is empty" in "\n".join(gateway.log)
    gateway.close()


def test_server_that_is_not_there_is_one_clear_error(folder):
    (folder / "url").write_text(f"host={folder} port=5432 user=holdfast dbname=x\n", encoding="utf-8")
    (folder / "secret").write_text(32 * "s", encoding="utf-8")
    gateway = Gateway(config(None, folder, "none"))
    process = gateway.spawn()
    assert process.wait(WAIT_S) == 1
    gateway._finish()
    assert "cannot reach the server" in "\n".join(gateway.log)
    gateway.close()


def doctor(gateway, *more):
    done = run("doctor", "--config", str(gateway.folder / "config.json"), *more)
    return done.returncode, done.stdout


def test_doctor_looks_at_the_server_and_at_what_is_on_it(postgresql, folder):
    with Gateway(config(postgresql, folder, "doctor")) as gateway:
        with Client(gateway) as client:
            task, _ = client.finish({"flood": 300, "bytes": 200})
        code, said = doctor(gateway, "--full")
        assert code == 0, said
        assert "PostgreSQL 1" in said and 'gateway "one" has it' in said and "1 tasks" in said
        assert "synchronous standbys: none" in said
        assert "min_wal_size is 80MB: after a quiet time" in said  # PostgreSQL's own default
        postgresql.set("min_wal_size", "1GB")
        wait_until(lambda: "min_wal_size" not in doctor(gateway)[1], "doctor's word on the log")
        postgresql.sql("ALTER SYSTEM RESET min_wal_size")
        postgresql.sql("ALTER SYSTEM SET autovacuum = off")
        postgresql.sql("SELECT pg_reload_conf()")
        wait_until(lambda: "WRONG autovacuum is off" in doctor(gateway)[1], "doctor's finding")
        postgresql.sql("ALTER SYSTEM RESET autovacuum")
        postgresql.sql("SELECT pg_reload_conf()")
        wait_until(lambda: postgresql.sql("SELECT count(*) FROM journal", "doctor") == "0"
                   or postgresql.sql("SELECT count(*) FROM blocks", "doctor") != "0", "the task's blocks")
        postgresql.sql("DELETE FROM blocks WHERE first = (SELECT max(first) FROM blocks)", "doctor")
        postgresql.sql("UPDATE tasks SET head = head + 1", "doctor")
        postgresql.sql("DELETE FROM conversations", "doctor")
        code, said = doctor(gateway, "--full")
        assert code == 1 and f"WRONG task {task['task_id']} hangs on no conversation" in said


def give_files(gateway, token, conversation):
    """id → bytes: none, one, around a chunk's border, and more."""
    owner = file_store.Owner(gateway, token)
    bodies = [os.urandom(n) for n in (0, 1, 65535, 65536, 65537, 300000)]
    return {(conversation, owner.give(conversation, body)["file_id"]): body for body in bodies}


def have_files(gateway, token, given):
    owner = file_store.Owner(gateway, token)
    return all(owner.ask("GET", f"{conversation}/files/{file_id}")[::2] == (200, body)
               for (conversation, file_id), body in given.items())


def test_contents_that_the_server_refuses_are_not_called_damaged(postgresql, folder):
    """A table that is gone for a while, as when somebody restores it: the file is as it was given."""
    with Gateway(config(postgresql, folder, "refused")) as gateway:
        owner, c, body = file_store.Owner(gateway), new_id(), os.urandom(100_000)
        path = f"{c}/files/{owner.give(c, body)['file_id']}"
        postgresql.sql("ALTER TABLE file_chunks RENAME TO elsewhere", "refused")
        status, _, answer = owner.ask("GET", path)
        assert status == 503 and json.loads(answer)["error"]["code"] == "overloaded", answer
        gateway.logged("event=unread")
        gateway.logged("component=files event=not_read")
        assert not [line for line in gateway.log if "event=not_stored" in line]
        postgresql.sql("ALTER TABLE elsewhere RENAME TO file_chunks", "refused")
        assert owner.ask("GET", path)[2] == body


@long
def test_import_brings_a_data_directory_over_and_back(postgresql, folder):
    """A client sees the same on both sides, byte for byte."""
    keys = {"auth": {"keys": [{"kid": "k", "alg": "HS256", "secret_file": str(folder / "secret")}]}}
    over = {**config(postgresql, folder, "import"), **keys}
    sqlite = {"store": {"kind": "sqlite"}, **keys}
    token = lambda gateway: run("token", "--sub", "ann", "--config", str(gateway.folder / "config.json")).stdout.strip()

    def seen(gateway, tasks):
        with Client(gateway, token=token(gateway)) as client:
            for task in tasks:
                client.replay(task, 0)
            return ([client.raw_events(task) for task in tasks], client.call("conversations"),
                    [client.call("open", conversation_id=task["conversation_id"])["messages"] for task in tasks])

    with tempfile.TemporaryDirectory(prefix="holdfast-test-") as here, \
            tempfile.TemporaryDirectory(prefix="holdfast-test-") as there:
        with Gateway(sqlite, folder=here) as one:
            with Client(one, token=token(one)) as client:
                tasks = [client.finish({"token": "said"}, {"flood": 300, "bytes": 90})[0] for _ in range(3)]
            given = give_files(one, token(one), tasks[0]["conversation_id"])
            before = seen(one, tasks)
            assert have_files(one, token(one), given)
        two = Gateway(over, folder=there)
        two.mark = "none"
        two.command()
        files = ("--config", str(pathlib.Path(there) / "config.json"))
        spoilt, = one.data.glob(f"files/blob/*/{sorted(file_store.blobs(one))[0]}")
        good = spoilt.read_bytes()
        spoilt.chmod(0o600)
        spoilt.write_bytes(good[:-1] + b"?" if good else b"?")
        done = run("import", *files, str(one.data))
        assert done.returncode == 1 and f"WRONG files/blob/{spoilt.parent.name}/{spoilt.name}: " in done.stdout
        assert postgresql.sql("SELECT (SELECT count(*) FROM tasks) + (SELECT count(*) FROM file_chunks)", "import") == "0"
        spoilt.write_bytes(good)
        done = run("import", *files, str(one.data))
        assert done.returncode == 0 and f"{len(given)} files of " in done.stdout, done.stdout
        again = run("import", *files, str(one.data))
        assert again.returncode == 1 and "take an empty database" in again.stdout
        with contextlib.closing(sqlite3.connect(one.data / "holdfast.db")) as db:  # packed here, as they are there
            assert db.execute("SELECT count(*) FROM blocks WHERE substr(bytes, 1, 1) = x'01'").fetchone()[0] > 0
        assert postgresql.sql("SELECT count(*) FROM blocks WHERE get_byte(bytes, 0) <> 123", "import") == "0"
        with two:
            assert seen(two, tasks) == before
            assert have_files(two, token(two), given)
            with Client(two, token=token(two)) as client:
                newer, _ = client.finish({"token": "more"})
                assert newer["task_id"] > tasks[-1]["task_id"]
            after = seen(two, [*tasks, newer])
        back = pathlib.Path(here) / "back"
        done = run("export", *files, str(back))
        assert done.returncode == 0, done.stdout
        assert run("doctor", "--data", str(back), "--full").stdout.count("WRONG") == (1 if os.geteuid() == 0 else 0)
        shutil.rmtree(one.data)
        back.rename(one.data)
        with Gateway(sqlite, folder=here) as one:
            assert seen(one, [*tasks, newer]) == after
            assert have_files(one, token(one), given)
