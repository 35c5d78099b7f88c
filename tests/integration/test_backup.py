"""holdfast backup that fails, is stopped, or is killed: it names what was wrong, and is in nobody's way (G25)."""

import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess

import pytest

from gateway import BINARY, WAIT_S, Gateway, run, wait_until
from holdfast import Client

BALLAST = 48  # MiB, so that a copy takes a while


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data directory that nobody uses, with something in it that takes long to copy."""
    folder = tmp_path_factory.mktemp("backup")
    with Gateway(folder=folder) as gateway, Client(gateway) as client:
        client.finish("a word")
    with sqlite3.connect(folder / "data" / "holdfast.db") as db:
        db.execute("CREATE TABLE ballast (bytes BLOB)")
        db.executemany("INSERT INTO ballast VALUES (?)", ((os.urandom(4000),) for _ in range(BALLAST << 8)))
    db.close()
    yield folder / "data"
    shutil.rmtree(folder / "data")


def backup(data, file):
    return run("backup", "--data", str(data), str(file), seconds=4 * WAIT_S)


@pytest.fixture
def begun(data, tmp_path):
    """A backup that has been stopped in the middle, and what it writes to."""
    file = tmp_path / "copy.db"
    part = pathlib.Path(f"{file}.part")
    process = subprocess.Popen([BINARY, "backup", "--data", str(data), str(file)], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: process.poll() is not None or (part.exists() and part.stat().st_size > 0), "the copy to begin")
        process.send_signal(signal.SIGSTOP)
        assert process.poll() is None and part.exists(), "it was too fast: more ballast"
        yield process, file
    finally:
        process.kill()
        process.communicate()


def left(file):
    return sorted(path.name for path in file.parent.iterdir() if path.name.startswith(file.name))


@pytest.mark.parametrize("kind", ["disk", "limit"])
def test_g25_full_target_is_named_and_nothing_is_left(data, tmp_path, kind):
    file = tmp_path / "target" / "copy.db"
    file.parent.mkdir()
    command, environ = [BINARY, "backup", "--data", str(data), str(file)], None
    if kind == "limit":
        command = ["bash", "-c", 'ulimit -f 8192; exec "$@"', "bash", *command]
    elif subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(file.parent)], check=False,
                        capture_output=True).returncode:
        pytest.skip("cannot mount")
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=4 * WAIT_S, env=environ)
        assert done.returncode == 1
        assert str(file) in done.stderr and "no room" in done.stderr, done.stderr
        assert str(data) not in done.stderr  # whose disk has room
        assert left(file) == []
    finally:
        if kind == "disk":
            subprocess.run(["umount", "-l", str(file.parent)], check=True)
    assert backup(data, file).returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_g25_backup_that_is_stopped_leaves_nothing(begun, number):
    process, file = begun
    process.send_signal(number)
    process.send_signal(signal.SIGCONT)
    process.communicate(timeout=WAIT_S)
    assert process.returncode == -number
    assert left(file) == []


def test_g25_what_a_kill_left_is_taken_over(begun, data):
    process, file = begun
    process.kill()
    process.communicate()
    assert "copy.db.part" in left(file) and "copy.db" not in left(file)
    assert backup(data, file).returncode == 0
    assert left(file) == ["copy.db"] and file.stat().st_mode & 0o777 == 0o600


def test_g25_what_runs_is_not_taken_over(begun, data):
    process, file = begun
    second = backup(data, file)
    assert second.returncode == 1 and "copy.db.part: another backup is writing it" in second.stderr
    process.send_signal(signal.SIGCONT)
    process.communicate(timeout=4 * WAIT_S)
    assert process.returncode == 0 and left(file) == ["copy.db"]
    copy = file.read_bytes()
    third = backup(data, file)
    assert third.returncode == 1 and f"{file}: exists" in third.stderr and file.read_bytes() == copy


@pytest.mark.parametrize("kind", ["link", "hard_link", "folder"])
def test_g25_what_no_backup_left_is_not_taken_over(data, tmp_path, kind):
    mine, part = tmp_path / "mine", tmp_path / "copy.db.part"
    mine.write_text("mine")
    if kind == "link":
        part.symlink_to(mine)
    elif kind == "hard_link":
        part.hardlink_to(mine)
    else:
        part.mkdir()
    done = backup(data, tmp_path / "copy.db")
    assert done.returncode == 1 and "copy.db.part" in done.stderr
    assert mine.read_text() == "mine" and part.lstat()
