#!/usr/bin/env python3
"""rollup.py -- CPU and bytes of the gateway for each event that a viewer gets, with and without rollup_ms, in turn.

A few tasks say words at a model's pace, and many viewers follow each.  A viewer takes bytes and counts newlines; the
figures are the gateway's: its CPU time, what it put on the wire, and how many lines that was.  Plain is the bound.
"""

import argparse
import json
import pathlib
import select
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "support"))

from gateway import Gateway  # noqa: E402
from holdfast import Client, new_id, program  # noqa: E402
from wire import Wire  # noqa: E402

TICKS = 100  # of a second, in /proc/PID/stat


def cpu_s(gateway):
    fields = pathlib.Path(f"/proc/{gateway.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def viewer(gateway, token, conversation, rollup_ms):
    wire = Wire(gateway)
    wire.text(json.dumps({"type": "hello", "id": "h", "token": token}))
    wire.until_text("welcome")
    more = {"rollup_ms": rollup_ms} if rollup_ms else {}
    wire.text(json.dumps({"type": "open", "id": "o", "conversation_id": conversation, "follow": True, **more}))
    wire.until_text('"id":"o"')
    return wire


def measure(gateway, owner, rollup_ms, o):
    """(CPU in µs, bytes, lines) of an event that one viewer gets."""
    gate = gateway.path()
    conversations = [new_id() for _ in range(o.tasks)]
    for conversation in conversations:
        owner.chat({"wait": gate}, {"flood": o.events, "per_s": o.per_s, "bytes": 5}, {"hang": 1}, conversation=conversation)
    viewers = [viewer(gateway, owner.token, c, rollup_ms) for c in conversations for _ in range(o.viewers)]
    socks = {wire.sock.fileno(): wire.sock for wire in viewers}
    poll = select.epoll()
    for fd in socks:
        poll.register(fd, select.EPOLLIN)
    begun, taken, lines = cpu_s(gateway), 0, 0
    pathlib.Path(gate).touch()
    quiet = time.monotonic()
    while time.monotonic() - quiet < 1:
        for fd, _ in poll.poll(0.2):
            data = socks[fd].recv(1 << 16)
            taken += len(data)
            lines += data.count(b'"event":"token"')
            quiet = time.monotonic()
    used, n = cpu_s(gateway) - begun, o.tasks * o.events * o.viewers
    for conversation in conversations:
        owner.call("cancel_all", conversation_id=conversation)
    for wire in viewers:
        wire.sock.close()
    return used / n * 1e6, taken / n, lines / n


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=4)
    parser.add_argument("--viewers", type=int, default=50, help="of each task")
    parser.add_argument("--events", type=int, default=400)
    parser.add_argument("--per-s", dest="per_s", type=int, default=100, help="of each task")
    parser.add_argument("--rounds", type=int, default=3)
    o = parser.parse_args()
    ways = [0, 100, 250, 1000]
    found = {way: [] for way in ways}
    with Gateway({}) as gateway, Client(gateway) as owner:
        for _ in range(o.rounds):
            for way in ways:
                found[way].append(measure(gateway, owner, way, o))
    middle = {way: [sorted(column)[o.rounds // 2] for column in zip(*rows)] for way, rows in found.items()}
    for way, (cpu, size, lines) in middle.items():
        of = [mine / plain if plain else 0 for mine, plain in zip((cpu, size, lines), middle[0])]
        print(f"{f'rollup_ms {way}' if way else 'plain':14} {cpu:6.2f} µs of CPU an event ({of[0]:.2f} of plain), "
              f"{size:6.1f} bytes ({of[1]:.2f}), {lines:.3f} lines ({of[2]:.2f})")


main()
