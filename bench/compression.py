#!/usr/bin/env python3
"""compression.py -- CPU and bytes of the gateway for each event, plain and compressed, side by side.

N tasks with a reader each; every task says words at a pace.  A reader takes bytes and looks at none of them, so that the
figures are the gateway's: its CPU time, and what it put on the wire.  Three ways, in turn: plain; compressed by
messages alone (the client keeps no window); compressed with the message before.
"""

import argparse
import json
import pathlib
import select
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "support"))

from gateway import Gateway  # noqa: E402
from holdfast import Client, program  # noqa: E402
from wire import Wire  # noqa: E402

WAYS = {"plain": None, "alone": "permessage-deflate; server_no_context_takeover", "with the one before": "permessage-deflate"}
TICKS = 100  # of a second, in /proc/PID/stat


def cpu_s(gateway):
    fields = pathlib.Path(f"/proc/{gateway.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def opened(gateway, token, offer):
    wire = Wire(gateway, headers={"Sec-WebSocket-Extensions": offer})
    wire.text(json.dumps({"type": "hello", "id": "h", "token": token}))
    wire.until_text("welcome")
    return wire


def measure(gateway, token, offer, o):
    """(CPU in µs, bytes) of an event."""
    gate = gateway.path()
    steps = program({"wait": gate}, {"flood": o.events, "per_s": o.per_s, "bytes": 5}, {"hang": 1})
    readers = [opened(gateway, token, offer) for _ in range(o.tasks)]
    for i, wire in enumerate(readers):
        wire.text(json.dumps({"type": "chat", "id": "c", "conversation_id": f"c{i}", "message": steps}))
        wire.until_text("task.started")
    socks = {wire.sock.fileno(): wire.sock for wire in readers}
    poll = select.epoll()
    for fd in socks:
        poll.register(fd, select.EPOLLIN)
    metrics = lambda: int(gateway.http("GET", "/metrics")[2].split(b"\nholdfast_events_total ")[1].split()[0])  # noqa: E731
    begun, events, taken = cpu_s(gateway), metrics(), 0
    pathlib.Path(gate).touch()
    quiet = time.monotonic()
    while not taken or time.monotonic() - quiet < 1:
        for fd, _ in poll.poll(0.2):
            taken += len(socks[fd].recv(1 << 16))
            quiet = time.monotonic()
    n = metrics() - events
    assert n == o.tasks * o.events, n
    used = cpu_s(gateway) - begun
    with Client(gateway, token=token) as client:
        for i in range(o.tasks):
            client.call("cancel_all", conversation_id=f"c{i}")
    for wire in readers:
        wire.sock.close()
    return used / n * 1e6, taken / n


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--events", type=int, default=1000)
    parser.add_argument("--per-s", dest="per_s", type=int, default=200, help="of each task")
    parser.add_argument("--rounds", type=int, default=3)
    o = parser.parse_args()
    found = {way: [] for way in WAYS}
    with Gateway({"compression": True}) as gateway, Client(gateway) as owner:
        for _ in range(o.rounds):
            for way, offer in WAYS.items():
                found[way].append(measure(gateway, owner.token, offer, o))
    plain = sorted(cpu for cpu, _ in found["plain"])[o.rounds // 2]
    for way, pairs in found.items():
        cpus, sizes = (sorted(column) for column in zip(*pairs))
        cpu, size = cpus[o.rounds // 2], sizes[o.rounds // 2]
        print(f"{way:20} {cpu:6.2f} µs of CPU an event ({cpus[0]:.2f} to {cpus[-1]:.2f}), {cpu / plain:.2f} of plain; "
              f"{size:6.1f} bytes an event")


main()
