"""A disk that is full, for real: a file system of a few MiB (DESIGN 6; F37).

Needs to mount one: where that is not allowed, the tests say so and are skipped.
"""

import os
import subprocess

import pytest

from gateway import WAIT_S, Gateway, script_agent, wait_until
from holdfast import TERMINAL, Client

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



