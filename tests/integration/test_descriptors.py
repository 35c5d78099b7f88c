"""Out of descriptors: nobody who is there is harmed, nothing spins, nothing is half started (F47)."""

import os
import pathlib
import re
import time

import pytest

from gateway import LATE_S, SCALE, Gateway, wait_until
from holdfast import Client, names
from wire import Wire

FILES = 64


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


def test_limits_that_the_descriptors_do_not_carry_are_lowered_with_a_line_each(tight):  # F47
    def told():
        return dict(re.findall(r"event=limit_lowered limit=(\w+) from=\d+ to=(\d+)", "\n".join(tight.log)))

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
