"""Out of descriptors: nobody who is there is harmed, nothing spins, nothing is half started (F47).
And what whoever started the gateway left it: descriptors, signals, a log that is read or not."""

import fcntl
import json
import os
import pathlib
import re
import subprocess
import threading
import time

import pytest

from gateway import BINARY, LATE_S, SCALE, WAIT_S, Gateway, merged, wait_until, wrongs
from holdfast import Client, names
from wire import Wire

FILES = 64


LIMITS = {"limits": {"connections": 90_000, "processes": 200}}  # not the usual ones


class Tight(Gateway):
    """A gateway under ulimit -n."""

    def command(self, *more):
        return ["/bin/sh", "-c", f'ulimit -n {FILES} && exec "$@"', "sh", *super().command(*more)]

    def cpu_s(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def tight():
    with Tight() as gateway:
        yield gateway


@pytest.mark.parametrize("kind", ["silent", "refused"])
def test_flood_of_connections_leaves_room_for_who_is_there(tight, kind):  # F47
    clients = [Client(tight) for _ in range(3)]
    wires = []
    if kind == "silent":  # what the gateway does not take waits in the kernel
        wires = [Wire(tight, upgrade=False) for _ in range(200)]
    else:
        while not wires or wires[-1].status == 101:
            wires.append(Wire(tight))
            assert len(wires) < FILES
        assert wires[-1].status == 503
    lines, begun, cpu = len(tight.log), time.monotonic(), tight.cpu_s()
    for client in clients:  # each starts what it could not finish without a process and a commit
        task, events = client.finish({"token": "x"})
        assert task["status"] == "completed", events
    gates = [tight.path() for _ in clients]
    tasks = [client.chat({"wait": gate}, {"flood": 50}) for client, gate in zip(clients, gates)]
    for gate in gates:
        open(gate, "w", encoding="utf-8").close()
    for client, task in zip(clients, tasks):
        assert names(client.events(task))[-1] == "task.completed"
    time.sleep(max(0, begun + 2 - time.monotonic()))
    assert tight.cpu_s() - cpu < 0.3 * SCALE * (time.monotonic() - begun)
    assert len([line for line in tight.log[lines:] if "level=debug" not in line]) < 20
    if kind == "refused":
        assert tight.http("GET", "/healthz")[0] == 200
    for wire in wires:
        wire.close()
    begun = time.monotonic()
    with Client(tight) as again:
        again.quiet()
        assert time.monotonic() - begun < LATE_S
    wait_until(lambda: tight.n_fds() < 40, "the descriptors' end")


def test_usual_limits_are_lowered_with_one_line_of_information(tight):  # F47
    told = [line for line in tight.log if "limit" in line]
    assert len(told) == 1 and "level=info" in told[0] and "event=limits " in told[0], told
    with Client(tight) as client:
        assert client.finish({"token": "x"})[0]["status"] == "completed"


def test_doctor_says_which_limits_are_lowered(tight):
    tight.stop()
    few = tight.folder / "few.json"
    few.write_text(json.dumps({"data": str(tight.data), "limits": {"connections": 10, "processes": 1, "tasks": 1}}),
                   encoding="utf-8")
    for more, n in ((["--data", str(tight.data)], 2), (["--config", str(few)], 0)):
        done = subprocess.run(["/bin/sh", "-c", f'ulimit -n {FILES * 4} && exec "$@"', "sh", BINARY, "doctor", *more],
                              capture_output=True, text=True, check=False, timeout=WAIT_S)
        told = [line for line in done.stdout.splitlines() if line.startswith("limits.")]
        assert not wrongs(done.stdout) and len(told) == n, done.stdout + done.stderr
        assert all("descriptors" in line for line in told)


def test_limits_that_the_descriptors_do_not_carry_are_lowered_with_a_line_each():  # F47
    tight = Tight(LIMITS)
    with tight:
        check_lowered(tight)


def check_lowered(tight):
    def told():
        return dict(re.findall(r"level=warn .*event=limit_lowered limit=(\w+) from=\d+ to=(\d+)", "\n".join(tight.log)))

    wait_until(lambda: set(told()) == {"processes", "connections"}, "a line for each")
    lowered = told()
    with Client(tight) as client:
        n, gate = int(lowered["processes"]), tight.path()
        tasks = [client.chat({"wait": gate}) for _ in range(n + 3)]
        for task in tasks[:n]:
            client.event(task, "task.started")
        assert [client.task(task)["status"] for task in tasks[n:]] == ["pending"] * 3
        open(gate, "w", encoding="utf-8").close()
        for task in tasks:
            assert client.wait_terminal(task)["event"] == "task.completed"


class Started(Gateway):
    """A gateway that another program starts."""

    def __init__(self, *starter):
        super().__init__()
        self.starter = starter

    def command(self, *more):
        return [*self.starter, *super().command(*more)]


def test_descriptors_are_raised_to_what_the_limits_need_and_no_further():
    """Some programs go through all descriptors that they may have: a billion of them takes minutes."""
    started = Started("/bin/sh", "-c", 'ulimit -Sn 64; exec "$@"', "sh")
    started.config = merged(started.config, {"limits": {"connections": 100, "processes": 10, "tasks": 50}})
    with started as gateway, Client(gateway) as client:
        limits = pathlib.Path(f"/proc/{gateway.process.pid}/limits").read_text()
        soft, hard = map(int, re.search(r"Max open files +(\d+) +(\d+)", limits).groups())
        assert 100 + 10 + 50 < soft <= 1000 < hard
        assert client.finish({"token": "x"})[0]["status"] == "completed"
        assert not [line for line in gateway.log if "limit_lowered" in line]


@pytest.mark.parametrize("closed", ["0<&-", "2>&-", "0<&- 2>&-"])
def test_descriptors_that_are_closed_at_the_start_go_to_no_socket(closed):
    with Started("/bin/sh", "-c", f'exec "$@" {closed}', "sh") as gateway, Client(gateway) as client:
        assert client.finish({"token": "x"})[0]["status"] == "completed"
        for fd in (0, 1, 2):
            assert os.readlink(f"/proc/{gateway.process.pid}/fd/{fd}").startswith(("/dev/null", "pipe:"))


def test_signals_that_its_starter_has_blocked_or_ignored_count():
    with Started("/usr/bin/env", "--ignore-signal=TERM,CHLD", "--block-signal=TERM,CHLD") as gateway:
        with Client(gateway) as client:
            task, _ = client.finish({"exit": 3})
            assert "3" in task["error"]["message"]
        assert gateway.stop() == 0


class Unread(Gateway):
    """A gateway whose log nobody reads, until they do."""

    reads = threading.Event()

    def _collect(self, stream, put):
        if stream is self.process.stderr:
            fcntl.fcntl(stream.fileno(), fcntl.F_SETPIPE_SZ, 4096)
            self.reads.wait()
        super()._collect(stream, put)


def test_log_that_nobody_reads_stops_nothing():
    with Unread() as gateway, Client(gateway) as client:
        try:
            for _ in range(30):  # some 200 lines, of 150 bytes and more each
                assert client.finish({"token": "x"})[0]["status"] == "completed"
        finally:
            gateway.reads.set()
        wait_until(lambda: client.finish({"token": "x"}) and [line for line in gateway.log if "event=lost" in line],
                   "the line that tells what was lost")
        lost = gateway.logged("event=lost")  # the first; this process may be late with what comes then
        assert int(re.search(r" lines=(\d+)", lost)[1]) > 50
        assert all(line.startswith("ts=") for line in gateway.log if line)
