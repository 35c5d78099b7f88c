"""An agent that outlives gateways, and logs what it says and hears: the oracle of crash/test_continue_exec.py.

Its input is {"seed": n, "log": path, "pace_s": seconds, "most": numbers, "flood": bool}.  It speaks in bursts, calls and asks, until a
message says "end", or it has said so much.  A line is in the log ("S" and the line) before it is said, and ("H" and the line) after it was heard.
"""

import json
import os
import random
import select
import signal
import sys


class Channel:
    def __init__(self):
        self.pending = b""
        self.log = None

    def note(self, kind, line):
        if self.log is not None:
            os.write(self.log, kind + line + b"\n")

    def say(self, line):
        raw = json.dumps(line, separators=(",", ":")).encode()
        self.note(b"S", raw)
        raw += b"\n"
        while raw:
            raw = raw[os.write(1, raw):]

    def hear(self, seconds):
        """The lines that are there, after at most that time."""
        if not select.select([0], [], [], seconds)[0]:
            return []
        got = os.read(0, random.choice((7, 100, 65536)))
        if not got:
            sys.exit(7)  # the gateway never ends this stdin
        *lines, self.pending = (self.pending + got).split(b"\n")
        for line in lines:
            self.note(b"H", line)
        return [json.loads(line) for line in lines]


def act(channel, rng, n, flood):
    """Says some things; the first has number n.  Returns the next number."""
    kind = 0.13 if flood else rng.random()
    if kind < 0.07:
        channel.say({"call": "tool", "call_id": f"c{n}", "name": "calculator", "arguments": {"expression": f"{n} + 1"}})
        return n + 1
    if kind < 0.10:  # there is no such child: the store is asked
        channel.say({"call": "cancel", "call_id": f"c{n}", "task_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"})
        return n + 1
    if kind < 0.12:
        channel.say({"event": "input_required", "data": {"input_id": f"q{n}", "kind": "question", "prompt": "well?"}})
        return n + 1
    if kind < 0.15:
        channel.say({"event": "token", "data": {"text": f"{n}:" + rng.choice("abcdefgh") * rng.randrange(60_000)}})
        return n + 1
    for n in range(n, n + rng.randrange(1, 30)):
        channel.say({"event": "token", "data": {"text": f"{n}:" + "x" * rng.randrange(200)}})
    return n + 1


def main():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    channel = Channel()
    lines = []
    while not lines:
        lines = channel.hear(None)
    run, *lines = lines
    assert run["type"] == "run", run
    asked = json.loads(run["input"])
    rng = random.Random(asked["seed"])
    channel.log = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for line in lines:
        channel.note(b"H", json.dumps(line).encode())
    n = 0
    while n < asked.get("most", n + 1) and not any(line.get("content") == "end" for line in lines):
        n = act(channel, rng, n, asked.get("flood"))
        lines = channel.hear(rng.random() * asked["pace_s"])
    channel.say({"event": "final_answer", "data": {"output": f"{n} in all"}})


main()
