"""A disk that is full, breaks or is read-only, for real: file systems of a few MiB (DESIGN 6; F37).

Needs to mount one: where that is not allowed, the tests say so and are skipped.
"""

import contextlib
import os
import random
import re
import subprocess
import time

import pytest

from continuing import Round, begun, clean, lasting
from gateway import BINARY, SCALE, WAIT_S, Gateway, script_agent, wait_until, wrongs
from holdfast import TERMINAL, Client, new_id

MIB = 1 << 20
FILL = {"flood": 1_000_000, "bytes": 200, "per_s": 5000}
CONFIG = {"agents": [script_agent(default=True)], "store": {"retry_s": 60}}


@pytest.fixture
def disk(tmp_path):
    """A folder on a file system of 24 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk, leave):
    """Leaves so many bytes free; gives the file that takes the rest."""
    filler = disk / "filler"
    room = os.statvfs(disk)
    filler.write_bytes(b"x" * (room.f_bavail * room.f_frsize - leave))
    return filler


def is_ready(gateway):
    return gateway.http("GET", "/readyz")[0] == 200


def failures(gateway, operation="events"):
    body = gateway.http("GET", "/metrics")[2].decode()
    return sum(int(line.rsplit(" ", 1)[1]) for line in body.splitlines()
               if line.startswith(f'holdfast_store_commit_failures_total{{operation="{operation}"}}'))


def test_full_disk_is_waited_for_and_nothing_is_lost(disk):
    with Gateway(CONFIG, folder=disk) as gateway, Client(gateway) as client, \
            Client(gateway, token=client.token) as other:
        before, _ = other.finish("said before")
        filler = fill(disk, MIB)
        task = client.chat(FILL)
        wait_until(lambda: not is_ready(gateway), "the disk to be full")
        seen = len(client.events_since(task))
        # what must write is refused, and changes nothing; what reads goes on
        error = other.refused("overloaded", "chat", message="x", request_key="k")
        assert error["retry_after_ms"] > 0
        other.refused("overloaded", "cancel", **{key: task[key] for key in ("task_id", "conversation_id")})
        assert other.task(before)["status"] == "completed"
        other.replay(before)
        assert other.task(task)["status"] == "running"
        assert failures(gateway, "events") > 0 and failures(gateway, "task_completion") == 0
        wait_until(lambda: any("event=commits_fail" in line and "full" in line for line in gateway.log),
                   "the log says so")
        assert gateway.http("GET", "/healthz")[0] == 200
        filler.unlink()
        wait_until(lambda: is_ready(gateway), "the gateway to go on")
        wait_until(lambda: any("event=commits_again" in line for line in gateway.log), "the log says so")
        client.expect(lambda line: line["type"] == "event" and line["seq"] > seen + 1000)  # dense: checked
        again = other.chat("x", request_key="k")
        assert other.wait_terminal(again)["event"] == "task.completed"
        assert other.call("cancel", task_id=task["task_id"],
                          conversation_id=task["conversation_id"])["cancelled"] == 1
        assert client.wait_terminal(task)["data"]["status"] == "cancelled"
        live = {line["seq"]: line for line in client.events_since(task)}
        replayed = other.replay(task, 0)
        assert [live[line["seq"]] for line in replayed] == replayed


def test_full_disk_at_the_start_is_named(disk):
    with Gateway(CONFIG, folder=disk) as gateway, Client(gateway) as client:
        client.finish("said before")
        gateway.stop()
        filler = fill(disk, 0)
        process = gateway.spawn()
        assert process.wait(WAIT_S) == 1
        gateway._finish()
        assert any("event=cannot_open" in line and "No space left on device" in line for line in gateway.log), gateway.log
        filler.unlink()
        gateway.start()


def test_writers_on_a_disk_that_fills_are_answered_within_2_s(disk):
    """Also those whose commit is the one that finds it full: it is tried again for a minute, and they go on then."""
    def answers():
        """Four clients' requests at once, and how long the slowest took."""
        begun = time.monotonic()
        asked = [client.post("chat", message="x" * 30_000, request_key=new_id("k")) for client in clients]
        replies = [client.reply(number) for client, number in zip(clients, asked)]
        return replies, time.monotonic() - begun

    with Gateway(CONFIG, folder=disk) as gateway, contextlib.ExitStack() as opened:
        clients = [opened.enter_context(Client(gateway)) for _ in range(4)]
        filler = fill(disk, 4 * MIB // 10)
        refused = []
        while not refused:
            replies, took = answers()
            assert took < 2 + 2 * SCALE, replies  # 2 s; a machine may sleep for a second
            refused = [reply for reply in replies if reply["type"] == "error"]
        assert {reply["code"] for reply in refused} == {"overloaded"}
        filler.unlink()
        wait_until(lambda: is_ready(gateway), "the gateway to go on")
        for client in clients:
            client.finish("and on")


def test_full_disk_that_lasts_ends_the_tasks_and_the_gateway_goes_on(disk):
    config = {**CONFIG, "store": {"retry_s": 1}}
    with Gateway(config, folder=disk) as gateway, Client(gateway) as client:
        filler = fill(disk, MIB)
        task = client.chat(FILL)
        wait_until(lambda: not is_ready(gateway), "the disk to be full")
        wait_until(lambda: failures(gateway) > 12, "giving up", WAIT_S * 2)  # backoff: 1 s is eight
        filler.unlink()
        last = client.wait_terminal(task)
        assert last["data"]["error"]["code"] == "internal"
        wait_until(lambda: is_ready(gateway), "the gateway to go on")
        record, events = client.finish("and on")
        assert record["output"] == "and on"
        events = client.replay(task, 0)
        assert sum(event["event"] in TERMINAL for event in events) == 1


# ---------------------------------------------------------------- the database's alone


@pytest.fixture
def cramped(tmp_path):
    """A data folder whose database lies on a disk of its own, of 1 MiB; its log has room."""
    small, data = tmp_path / "small", tmp_path / "data"
    small.mkdir()
    data.mkdir(mode=0o700)
    for file in (small / "db", data / "holdfast.db"):
        file.touch(mode=0o600)
    run("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small)
    (small / "db").touch(mode=0o600)
    run("mount", "--bind", small / "db", data / "holdfast.db")
    yield small
    for at in (data / "holdfast.db", small):
        subprocess.run(["umount", "-l", str(at)], check=True)


def checkpoint_failures(gateway):
    body = gateway.http("GET", "/metrics")[2].decode()
    return int(re.search(r"^holdfast_store_checkpoint_failures_total (\d+)$", body, re.M)[1])


def test_database_that_cannot_grow_is_told_and_served_from_its_log(cramped):
    flood = {"flood": 10_000, "bytes": 200}
    with Gateway(CONFIG, folder=cramped.parent) as gateway, Client(gateway) as client:
        while checkpoint_failures(gateway) == 0:
            client.finish(flood)
        gateway.logged("event=checkpoints_fail", "full")
        task, events = client.finish(flood)  # it goes on, and all that was said is there
        assert is_ready(gateway) and failures(gateway) == 0
        assert client.replay(task, 0) == events
        told = [line for line in gateway.log if "event=checkpoints_" in line]
        assert len(told) == 1, told  # not with each of them
        run("mount", "-o", "remount,size=256m", cramped)
        wait_until(lambda: client.finish("more") and any("event=checkpoints_again" in line for line in gateway.log),
                   "a checkpoint")
        size = (cramped / "db").stat().st_size
        assert size > MIB
        gateway.kill()
        gateway.start()
        with Client(gateway, token=client.token) as back:
            assert back.replay(task, 0) == events
            back.finish("and on")


# ---------------------------------------------------------------- a disk that breaks


class Ext4:
    """A file system in a file, which can be made to give up as it does by itself when its disk fails."""

    def __init__(self, folder):
        self.image, self.at = folder / "image", folder / "ext4"
        self.at.mkdir()
        with open(self.image, "wb") as image:
            image.truncate(64 * MIB)
        run("mkfs.ext4", "-q", self.image)
        self.mount()

    def mount(self, options="loop"):
        run("mount", "-o", options, self.image, self.at)

    def fail(self):
        """From here on each write is an error."""
        run("mount", "-o", "remount,abort", self.at)

    def unmount(self):
        run("umount", self.at)

    def mend(self):
        subprocess.run(["e2fsck", "-fy", self.image], capture_output=True, check=False)  # 1: it has mended something


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{command[0]}: {done.stderr.strip()}")


@pytest.fixture
def ext4(tmp_path):
    made = Ext4(tmp_path)
    yield made
    subprocess.run(["umount", "-l", str(made.at)], capture_output=True, check=False)


def test_disk_that_breaks_is_told_and_nothing_that_was_seen_is_lost(ext4):
    """With what the kernel alone had gone, as at a power failure: hence its durability."""
    store = {"retry_s": 60, "durability": "power"}
    gateway = Gateway({**CONFIG, "store": store, "drain_s": 0}, folder=ext4.at.parent)
    gateway.data = ext4.at / "data"
    with gateway, Client(gateway) as client, Client(gateway, token=client.token) as other:
        before, events = other.finish("said before")
        gate = gateway.path()
        task = client.chat({"flood": 500, "bytes": 200}, {"wait": gate}, FILL)
        client.expect(lambda line: line.get("seq") == 502)
        ext4.fail()  # between two commits: the kernel says of an fdatasync under way that all is well
        open(gate, "w", encoding="utf-8").close()
        wait_until(lambda: not is_ready(gateway), "its being told")
        wait_until(lambda: any("event=commits_fail" in line for line in gateway.log), "the log says so")
        other.refused("overloaded", "chat", message="x")
        other.refused("overloaded", "cancel", **{key: task[key] for key in ("task_id", "conversation_id")})
        assert other.replay(before, 0) == events and gateway.http("GET", "/healthz")[0] == 200
        client.quiet()
        seen = client.raw_events(task)
        assert failures(gateway) > 0 and max(seen) == 502  # nothing that is not on disk
        gateway.kill()
        ext4.unmount()
        ext4.mend()
        ext4.mount()
        gateway.start()
        with Client(gateway, token=client.token) as back:
            assert back.replay(before, 0) == events
            back.replay(task, 0)
            lines = back.raw_events(task)
            assert all(lines[seq] == line for seq, line in seen.items())
            assert back.task(task)["error"]["code"] == "orphaned"
            back.finish("and on")
        assert gateway.stop() == 0
        gateway.start()


def test_read_only_disk_is_a_clear_failure_at_the_start_and_doctor_reads_it(ext4):
    gateway = Gateway(folder=ext4.at.parent)
    gateway.data = ext4.at / "data"
    with gateway, Client(gateway) as client:
        client.finish("x")
        assert gateway.stop() == 0
        ext4.unmount()
        ext4.mount("loop,ro")
        process = gateway.spawn()
        assert process.wait(WAIT_S) == 1
        gateway._finish()
        assert any("Read-only file system" in line for line in gateway.log), gateway.log
        done = subprocess.run([BINARY, "doctor", "--data", str(gateway.data)], capture_output=True, text=True, check=False,
                              timeout=WAIT_S)
        assert "blocks" in done.stdout and not wrongs(done.stdout), done.stdout + done.stderr
        ext4.unmount()
        ext4.mount()
        gateway.start()


def test_kept_programs_and_a_model_go_on_behind_a_full_disk(disk, tmp_path):
    """Killed while nothing can be committed, and started before there is room again."""
    agents = [lasting("lasting", default=True), {"name": "react", "kind": "react", "model": "builtin"}]
    with Gateway({"agents": agents, "store": {"retry_s": 60}}, folder=disk, lasting=True) as gateway:
        with Client(gateway) as client:
            token = client.token
        gateway.path = lambda name: str(tmp_path / name)  # the agents' own logs have room
        current = Round(gateway, token, random.Random(1)).begin("full", 2)
        with Client(gateway, token=token) as client:
            slow = client.chat("write 400 words slowly", agent="react")
            client.event(slow, "token")
        begun(current.tasks)
        with contextlib.suppress(OSError):  # it is full when this comes last, too
            fill(disk, MIB // 2)
        wait_until(lambda: not is_ready(gateway), "the disk to be full")
        gateway.kill()
        gateway.spawn()
        first = gateway.printed  # a line when it is ready, "" when it gives up
        wait_until(lambda: not first.empty() or "commits_fail" in gateway.tail(), "the start to meet the full disk")
        (disk / "filler").unlink()
        if gateway.process.poll() is not None:
            gateway.kill()
            gateway.start()
        else:
            gateway.port = int(re.search(r':(\d+)"', first.get(timeout=WAIT_S))[1])
        for record in current.finish():
            assert record["status"] == "completed", record["error"]
        with Client(gateway, token=token) as client:
            events = client.replay(slow, 0)
            resumed = [event["seq"] for event in events if event["event"] == "task.resumed"]
            assert resumed, "it had ended before"
            client.wait_terminal(slow)
            assert client.task(slow)["status"] == "completed"
        clean(gateway)
