#!/usr/bin/python3
"""mcp.py -- how long a call of an MCP tool over stdio takes.

    /usr/bin/python3 bench/mcp.py [CALLS]        800 by default

A scripted model calls one tool a turn.  Timed is what lies between its turn and the request that brings the result:
for the tool `clock`, which the gateway answers itself, and for a tool of a small MCP server.  The difference is the
call.  The bound is the same server, asked by this script over bare pipes.  Rounds are taken in turn.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
os.environ.setdefault("HOLDFAST", os.path.join(ROOT, "build", "holdfast"))
from gateway import Gateway  # noqa: E402
from holdfast import Client  # noqa: E402
from model_server import DONE, ModelServer, answer, call, finish, kept  # noqa: E402

ROUNDS = 5
SERVER = r"""
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    if m["method"] == "tools/call": r = {"content": [{"type": "text", "text": m["params"]["arguments"]["text"]}]}
    elif m["method"] == "tools/list": r = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
    else: r = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}) + "\n"); sys.stdout.flush()
"""


class Model(ModelServer):
    """Calls the tool again and again, and times each answer."""

    def __init__(self):
        super().__init__()
        self.tool, self.left, self.sent, self.times = None, 0, None, []
        self.script = self.turn

    def turn(self, request):
        now = time.perf_counter()
        if self.sent:
            self.times.append(now - self.sent)
        if self.left == 0:
            self.sent = None
            return answer("done")
        self.left -= 1
        pieces = [call(0, "c", self.tool, json.dumps({"text": "x"} if self.tool != "clock" else {})),
                  finish("tool_calls"), DONE]
        return self.timed(kept(*pieces))

    def timed(self, steps):
        for step in steps:
            yield step
            if isinstance(step, bytes):
                self.sent = time.perf_counter()


def through_gateway(client, model, tool, calls):
    """Seconds of each."""
    model.tool, model.left, model.times, model.sent = tool, calls, [], None
    task, _ = client.finish("go")
    assert task["status"] == "completed", task
    return model.times


def bare(program, calls):
    process = subprocess.Popen([sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    times = []
    for i in range(calls):
        began = time.perf_counter()
        process.stdin.write(b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":'
                            b'{"text":"x"}}}\n' % i)
        process.stdin.flush()
        process.stdout.readline()
        times.append(time.perf_counter() - began)
    process.stdin.close()
    process.wait()
    return times


def main():
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 800
    model, rows = Model(), {"bare": [], "clock": [], "mcp": []}
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "server.py")
        with open(program, "w", encoding="utf-8") as file:
            file.write(SERVER)
        config = {"models": [{"name": "m", "base_url": model.url, "model": "x"}],
                  "mcp": [{"name": "s", "command": [sys.executable, program], "approve": "never"}],
                  "agents": [{"name": "a", "kind": "react", "model": "m", "tools": ["clock", "mcp:s/*"],
                              "max_turns": 1000, "default": True}]}
        with Gateway(config) as gateway:
            gateway.logged("event=ready", "server=s")
            client = Client(gateway)
            for _ in range(ROUNDS):
                rows["bare"].append(statistics.median(bare(program, calls)))
                rows["clock"].append(statistics.median(through_gateway(client, model, "clock", calls)))
                rows["mcp"].append(statistics.median(through_gateway(client, model, "s__echo", calls)))
            client.close()
    threading.Thread(target=model.close, daemon=True).start()
    for name, values in rows.items():
        print(f"{name:6} {statistics.median(values) * 1e6:8.0f} us  ({min(values) * 1e6:.0f}..{max(values) * 1e6:.0f})")
    cost = [mcp - clock for mcp, clock in zip(rows["mcp"], rows["clock"])]
    print(f"a call {statistics.median(cost) * 1e6:8.0f} us  ({min(cost) * 1e6:.0f}..{max(cost) * 1e6:.0f})")


main()
