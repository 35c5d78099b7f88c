"""holdfast doctor and holdfast backup: of a gateway that runs, one that was killed, and a broken store."""

import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import tempfile
import threading

import pytest

import database
from gateway import BINARY, Gateway, run, wrongs
from holdfast import WAIT_S, Client, ids


def doctor(data, *more):
    """(exit status, what is wrong, all that was said); as if nobody were root."""
    done = run("doctor", "--data", str(data), *more, seconds=4 * WAIT_S)
    assert not done.stderr, done.stderr
    assert (done.returncode == 1) == ("WRONG " in done.stdout), done.stdout
    wrong = wrongs(done.stdout)
    return int(bool(wrong)), wrong, done.stdout


def contents(folder):
    return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir() if path.is_file()}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A data directory with ended tasks in blocks, a tail in the journal, and a task that waits."""
    folder = tmp_path_factory.mktemp("doctor")
    with Gateway(folder=folder) as gateway, Client(gateway) as client:
        client.finish({"flood": 2000, "bytes": 200})
        client.finish({"token": "short"})
        task = client.chat({"token": "a"}, {"hang": 1})
        client.event(task, "token")
        gateway.kill()
    return folder / "data"


@pytest.fixture
def data(stopped, tmp_path):
    shutil.copytree(stopped, tmp_path / "data", ignore=shutil.ignore_patterns("*.sock"))
    return tmp_path / "data"


def change(data, *statements, raw=False):
    with sqlite3.connect(data / "holdfast.db") as db:
        database.unpack_in(db)
        if not raw:
            database.sum_what_changes(db)
        for statement in statements:
            db.execute(statement)
    db.close()


# ---------------------------------------------------------------- sound


def test_running_gateway_is_sound_and_not_disturbed(tmp_path):
    with Gateway(folder=tmp_path) as gateway, Client(gateway) as client:
        client.finish({"flood": 1000, "bytes": 200})
        task = client.chat({"token": "a"}, {"hang": 1})
        client.event(task, "token")
        for more in ((), ("--full",)):
            status, wrong, said = doctor(gateway.data, *more)
            assert (status, wrong) == (0, [])
            assert f"in use by process {gateway.process.pid}" in said
            assert "2 tasks" in said and "1 tasks are live" in said
        client.call("cancel", **ids(task))
        client.wait_terminal(task)


def test_killed_and_stopped_stores_are_sound_and_left_as_they_are(data):
    status, wrong, said = doctor(data, "--full")
    assert (status, wrong) == (0, []), said
    assert "the last one was not stopped cleanly" in said and "1 tasks are live" in said
    with Gateway(folder=data.parent):
        pass
    before = contents(data)
    assert doctor(data, "--full")[0] == 0
    assert contents(data) == before


# ---------------------------------------------------------------- wrong

FAULTS = [
    ("DELETE FROM blocks WHERE rowid = (SELECT rowid FROM blocks ORDER BY first LIMIT 1 OFFSET 2)", "are missing"),
    ("DELETE FROM blocks WHERE first = 1", "first events"),
    ("DELETE FROM journal", "events"),
    ("UPDATE blocks SET first = first - 1 WHERE first > 1", "exist twice"),
    ("UPDATE tasks SET head = head + 5 WHERE status = 2", "last events"),
    ("UPDATE tasks SET head = head - 1 WHERE status = 2", "has more"),
    ("UPDATE tasks SET status = 9 WHERE status = 2", "status 9"),
    ("UPDATE tasks SET started_at = 0 WHERE status = 1", "was never started"),
    ("UPDATE tasks SET completed_at = 0 WHERE status = 2", "no time of its end"),
    ("UPDATE tasks SET created_at = 99999999999999", "is not in the past"),
    ("UPDATE marks SET next_key = 1", "would be assigned again"),
    ("UPDATE marks SET newest_id = ''", "newer than the newest"),
    ("DELETE FROM marks", "rows of marks are missing"),
    ("UPDATE blocks SET task_key = 99 WHERE task_key = 1", "belong to no task"),
    ("INSERT INTO inbox (task_key, position, line) VALUES (99, 1, x'78')", "a task that does not exist"),
    ("UPDATE journal SET bytes = x'ff'", "holds no entry"),
    ("DROP TABLE blocks", "cannot be read"),
    ("PRAGMA user_version = 99", "version 99"),
    ("PRAGMA user_version = 0", "not a gateway's"),
]


@pytest.mark.parametrize("statement, named", FAULTS, ids=lambda text: text[:40].replace(" ", "_"))
def test_fault_is_told_in_a_sentence(data, statement, named):
    change(data, statement)
    status, wrong, said = doctor(data)
    assert status == 1 and any(named in line for line in wrong), said


LETTER = "CAST(replace(CAST({0} AS TEXT), 'a', 'b') AS BLOB)"
DAMAGES = [  # what is changed, what names it, whether it takes --full
    ("UPDATE tasks SET agent = 'other' WHERE task_key = 1", "task {id}: its record is not", False),
    ("UPDATE tasks SET acked = 1 - acked WHERE task_key = 1", "task {id}: its record is not", False),
    ("UPDATE tasks SET output = output || 'x' WHERE task_key = 1", "task {id}: its output", True),
    ("UPDATE inputs SET input = input || ' ' WHERE task_key = 1", "task {id}: its input", True),
    ("DELETE FROM inputs WHERE task_key = 1", "task {id}: its input", True),
    ("UPDATE messages SET content = 'another'", "message ", True),
    ("UPDATE conversations SET title = 'another'", "conversation ", False),
    ("UPDATE marks SET next_key = next_key + 1", "the row of marks is not", False),
    (f"UPDATE journal SET bytes = {LETTER.format('bytes')}", "of the journal is not", False),
    (f"UPDATE blocks SET bytes = {LETTER.format('bytes')} WHERE first = 1", "task {id}: its events 1 to ", True),
    ("UPDATE usage SET bytes = bytes + 1", "what owner ", False),
]


@pytest.mark.parametrize("statement, named, full", DAMAGES, ids=lambda text: str(text)[:40].replace(" ", "_"))
def test_row_that_is_not_as_it_was_written_is_named(data, statement, named, full):
    with sqlite3.connect(data / "holdfast.db") as db:
        task_id, = db.execute("SELECT task_id FROM tasks WHERE task_key = 1").fetchone()
    change(data, statement, raw=True)
    wrong = doctor(data, *(["--full"] if full else []))[1]
    assert any(line.startswith(named.format(id=task_id)) or named in line for line in wrong), wrong


def test_lines_are_read_with_full(data):
    change(data, "UPDATE blocks SET bytes = CAST(replace(CAST(unpacked(bytes) AS TEXT), '\"seq\":3,', '\"seq\":4,') AS BLOB) "
                 "WHERE first = 1")
    assert doctor(data)[0] == 0
    assert any("has the number 4" in line for line in doctor(data, "--full")[1])
    change(data, "UPDATE blocks SET bytes = 'x' WHERE first = 1")
    wrong = doctor(data, "--full")[1]
    assert any("is not a line of this task" in line for line in wrong) and any("lines" in line for line in wrong)


@pytest.mark.parametrize("statement", [
    "DELETE FROM usage", "UPDATE usage SET bytes = bytes + 1",
    "INSERT INTO usage (owner, bytes) VALUES ('nobody', 5)",
], ids=["not_counted", "wrong", "has_nothing"])
def test_what_an_owner_is_said_to_have_is_counted_with_full(data, statement):
    with Gateway(folder=data.parent):
        pass
    change(data, statement)
    assert any("owners have more or less in the store" in line for line in doctor(data, "--full")[1])


def test_broken_pages_are_told(data):
    with Gateway(folder=data.parent):
        pass
    with open(data / "holdfast.db", "r+b") as file:
        for page in range(4, os.path.getsize(data / "holdfast.db") // 4096):
            file.seek(page * 4096)
            file.write(b"\xff" * 64)
    status, wrong, said = doctor(data)
    assert status == 1 and any("SQLite" in line for line in wrong), said
    (data / "holdfast.db").write_bytes(b"not a database, not even nearly one" * 200)
    assert doctor(data)[0] == 1


def test_modes_and_the_guest_key_are_looked_at(data):
    for name in ("holdfast.db", "guest.key", "."):
        (data / name).chmod(0o644 if name != "." else 0o755)
    wrong = doctor(data)[1]
    assert len(wrong) == 3 and all("other users" in line for line in wrong)
    for name in ("holdfast.db", "guest.key", "."):
        (data / name).chmod(0o600 if name != "." else 0o700)
    (data / "guest.key").write_bytes(b"short")
    assert any("not a key of 32 bytes" in line for line in doctor(data)[1])
    (data / "guest.key").unlink()
    assert "there is no guest key" in doctor(data)[2]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_files_of_another_user_than_the_directorys_are_told(data):
    os.chown(data, 12345, 12345)
    status, wrong, said = doctor(data)
    assert status == 1 and any("holdfast.db: belongs to user 0, its directory to user 12345" in line for line in wrong), said
    for path in data.iterdir():
        os.chown(path, 12345, 12345)
    assert doctor(data)[0] == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run it as root, and as another")
def test_gateway_of_root_is_told_and_another_users_is_not():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o711)
        program = shutil.copy(BINARY, pathlib.Path(folder, "holdfast"))  # the checkout may be closed to others
        for user, is_told in ((0, True), (65534, False)):
            place = pathlib.Path(folder, str(user))
            place.mkdir(mode=0o700)
            os.chown(place, user, user)
            as_user = {"user": user, "group": user, "extra_groups": [], "text": True}
            command = [program, "serve", "--listen", "127.0.0.1:0", "--data", str(place / "data")]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **as_user) as gateway:
                assert '"ready"' in gateway.stdout.readline()  # it starts all the same
                asked = [program, "doctor", "--data", str(place / "data")]
                done = subprocess.run(asked, capture_output=True, check=False, **as_user)
                gateway.terminate()
                log = gateway.communicate(timeout=WAIT_S)[1].splitlines()
            assert [line for line in done.stdout.splitlines() if "its gateway runs as root" in line and "WRONG" in line] \
                == ([f"WRONG {place}/data: its gateway runs as root: give it a user of its own"] if is_told else [])
            assert done.returncode == int(is_told), done.stdout
            assert [line.split()[1:4] for line in log if "level=error" in line] \
                == ([["level=error", "component=server", "event=runs_as_root"]] if is_told else [])
            done = run("doctor", "--data", str(place / "data"))  # it has stopped: whose directory is it?
            assert ("belongs to root" in done.stdout, done.returncode) == (is_told, int(is_told)), done.stdout


def test_programs_that_are_not_kept_are_told_with_the_reason(tmp_path):
    program = {"kind": "exec", "command": ["true"]}
    agents = [{"name": "stays", **program}, {"name": "goes", **program, "kept": False},
              {"name": "fails", **program, "after_restart": "fail"}, {"name": "codes", "kind": "acp", "command": ["true"]},
              {"name": "stops", "kind": "acp", "command": ["true"], "kept": False},
              {"name": "thinks", "kind": "react"}]
    (tmp_path / "other.json").write_text(json.dumps({"agents": agents}))
    with Gateway(folder=tmp_path) as gateway:
        said = doctor(gateway.data, "--config", str(tmp_path / "other.json"))[2]
    told = dict(re.findall(r'^the programs of agent "(\w+)" end with the gateway, .*orphaned: (.*)$', said, re.M))
    assert list(told) == ["goes", "fails", "stops"]
    assert '"kept": false' in told["goes"] and '"after_restart": "fail"' in told["fails"]
    assert '"kept": false' in told["stops"]


def test_what_is_no_data_directory(tmp_path):
    assert "no such directory" in doctor(tmp_path / "none")[1][0]
    assert "holdfast.db" in doctor(tmp_path)[1][0]
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("x")
    assert "is not a directory" in doctor(tmp_path / "file")[1][0]


# ---------------------------------------------------------------- backup


def restore(folder, file, key):
    """As docs/operations.md says."""
    (folder / "data").mkdir(parents=True, mode=0o700)
    shutil.copy(file, folder / "data" / "holdfast.db")
    shutil.copy(key, folder / "data" / "guest.key")


def test_backup_under_load_serves(tmp_path):
    file, stop, failed = tmp_path / "copy.db", threading.Event(), []

    def load(gateway):
        try:
            with Client(gateway) as client:
                while not stop.is_set():
                    client.finish({"flood": 20, "bytes": 100})
        except Exception as error:  # told by the test's own thread
            failed.append(error)

    (tmp_path / "one").mkdir()
    with Gateway(folder=tmp_path / "one") as gateway, Client(gateway) as client:
        workers = [threading.Thread(target=load, args=(gateway,)) for _ in range(2)]
        for worker in workers:
            worker.start()
        done = [client.finish({"flood": 300, "bytes": 100}, conversation=f"c-{i}") for i in range(3)]
        keyed = client.chat({"token": "k"}, request_key="once")
        client.wait_terminal(keyed)
        running = client.chat({"token": "seen"}, {"hang": 1})
        client.event(running, "token")
        said = run("backup", "--data", str(gateway.data), str(file), seconds=4 * WAIT_S)
        assert said.returncode == 0 and "sound" in said.stdout and "guest.key" in said.stdout, said
        assert file.stat().st_mode & 0o777 == 0o600
        stop.set()
        for worker in workers:
            worker.join()
        assert not failed
        again = run("backup", "--data", str(gateway.data), str(file))
        assert again.returncode == 1 and "exists" in again.stderr
        restore(tmp_path / "two", file, gateway.data / "guest.key")
        token, seen = client.token, client.raw_events(running)
    assert doctor(tmp_path / "two" / "data", "--full")[0] == 0
    with Gateway(folder=tmp_path / "two") as gateway, Client(gateway, token=token) as client:
        for task, events in done:
            assert client.replay(task) == events and client.task(task) == task
        assert client.call("chat", message="[]", request_key="other")["task"]["task_id"] > running["task_id"]
        assert client.refused("conflict", "chat", message="another", request_key="once")
        client.replay(running)
        got = client.raw_events(running)
        assert all(got[seq] == line for seq, line in seen.items())
        assert client.task(running)["error"]["code"] == "orphaned"


def test_backup_of_a_stopped_store_changes_nothing(data, tmp_path):
    with Gateway(folder=data.parent):
        pass
    before = contents(data)
    assert run("backup", "--data", str(data), str(tmp_path / "copy.db")).returncode == 0
    assert contents(data) == before


def test_backup_that_fails_leaves_nothing(data, tmp_path):
    change(data, "UPDATE tasks SET head = head + 5 WHERE status = 2")
    done = run("backup", "--data", str(data), str(tmp_path / "copy.db"))
    assert done.returncode == 1 and "not sound" in done.stderr and "last events" in done.stderr
    assert not list(tmp_path.glob("copy*"))
    assert run("backup", "--data", str(tmp_path / "none"), str(tmp_path / "copy.db")).returncode == 1
    assert run("backup", "--data", str(data), str(tmp_path / "no" / "copy.db")).returncode == 1
    assert run("backup").returncode == 2
