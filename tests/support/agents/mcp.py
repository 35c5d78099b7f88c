#!/usr/bin/env python3
"""mcp.py -- an MCP server over stdio that does as it is told, well or badly.

    mcp.py ERA FOLDER

ERA: modern, legacy, mute (legacy; says nothing to server/discover), late (legacy; answers it only after initialize).
FOLDER: `heard` gets each line that comes in; `tools`, if it is there, is the list of tools (JSON), read at each
tools/list; `start` is run as steps at the start, in place of everything else.

The tool `do` runs the steps of its argument, one after the other, beside other calls:
    {"say": value}          a result with this text (JSON of what is no text)
    {"result": {...}}       a result; {"error": {...}} an error
    {"send": {...}}         any message; "ID" in it is the call's id; {"raw": text} a line
    {"progress": [p, total, message]}
    {"ask": {...}}          elicitation/create (legacy); {"say": "answer"} then says its answer
    {"input": {...}}        input_required (modern); the call that follows says what came with it
    {"task": [{...}, ...]}  a task; each tasks/get (or tasks/result) has the next of these
    {"flood": n}            n notifications; {"big": n} a result of n bytes; {"stderr": text}
    {"wait": path} {"touch": path} {"write": [path, text]} {"sleep": seconds} {"exit": n} {"stop": true}
    {"look": [path, ...]}   says which exist, which it may write to, and the network's interfaces
"""
import json
import os
import pathlib
import signal
import socket
import sys
import threading
import time

ERA, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
P = "io.modelcontextprotocol/"
TOOLS = [
    {"name": "do", "description": "does as it is told", "annotations": {"readOnlyHint": True},
     "inputSchema": {"type": "object", "properties": {"steps": {"type": "array"}}}},
    {"name": "write", "inputSchema": {"type": "object", "properties": {}}},
]
lock = threading.Lock()
answers = {}  # to requests of our own
arrived = threading.Condition()
tasks = {}
last_id = 0


def put(text):
    with lock:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def send(message):
    put(json.dumps({"jsonrpc": "2.0", **message}))


def text_of(value):
    return {"content": [{"type": "text", "text": value if isinstance(value, str) else json.dumps(value)}]}


def ask(params):
    global last_id
    with arrived:
        last_id += 1
        own = f"own-{last_id}"
    send({"id": own, "method": "elicitation/create", "params": params})
    with arrived:
        arrived.wait_for(lambda: own in answers)
        return answers[own]


def step(id, one, state):
    for what, value in one.items():
        if what == "say":
            send({"id": id, "result": text_of(state["answer"] if value == "answer" else value)})
        elif what in ("result", "error"):
            send({"id": id, what: value})
        elif what == "send":
            send(json.loads(json.dumps(value).replace('"ID"', json.dumps(id))))
        elif what == "raw":
            put(value)
        elif what == "progress":
            params = dict(zip(("progress", "total", "message"), value))
            send({"method": "notifications/progress", "params": {"progressToken": state["token"], **params}})
        elif what == "ask":
            state["answer"] = ask(value)
        elif what == "input":
            send({"id": id, "result": {"resultType": "input_required", "inputRequests": value, "requestState": "s1"}})
        elif what == "task":
            tasks["t1"] = value
            task = {"taskId": "t1", **value.pop(0)}
            send({"id": id, "result": {"resultType": "task", **task} if ERA == "modern" else {"task": task}})
        elif what == "flood":
            line = json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}) + "\n"
            for _ in range(0, value, 1000):
                with lock:
                    sys.stdout.write(line * 1000)
                    sys.stdout.flush()
        elif what == "big":
            send({"id": id, "result": text_of("x" * value)})
        elif what == "stderr":
            sys.stderr.write(value)
            sys.stderr.flush()
        elif what == "wait":
            while not os.path.exists(value):
                time.sleep(0.01)
        elif what == "look":
            send({"id": id, "result": text_of({"exists": [os.path.exists(path) for path in value],
                                               "writes": [os.access(path, os.W_OK) for path in value],
                                               "networks": [name for _, name in socket.if_nameindex()]})})
        elif what == "sleep":
            time.sleep(value)
        elif what == "touch":
            pathlib.Path(value).touch()
        elif what == "write":
            pathlib.Path(value[0]).write_text(value[1], encoding="utf-8")
        elif what == "exit":
            os._exit(value)
        elif what == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)


def run(id, params):
    state = {"token": params.get("_meta", {}).get("progressToken"), "answer": None}
    if "inputResponses" in params:
        send({"id": id, "result": text_of([params["inputResponses"], params.get("requestState")])})
        return
    for one in params["arguments"].get("steps", []):
        step(id, one, state)


def list_tools():
    path = FOLDER / "tools"
    return json.loads(path.read_text()) if path.exists() else TOOLS


def next_task(id, method):
    states = tasks.get("t1", [])
    if method == "tasks/cancel":
        send({"id": id, "result": {}})
    elif method == "tasks/update":
        send({"id": id, "result": {}})
    elif method == "tasks/result":
        send({"id": id, "result": states.pop(0)})
    else:
        send({"id": id, "result": {"taskId": "t1", **(states.pop(0) if len(states) > 1 else states[0])}})


def take(message):
    id, method, params = message.get("id"), message.get("method"), message.get("params", {})
    if method is None:
        with arrived:
            answers[id] = message.get("result", message.get("error"))
            arrived.notify_all()
    elif method == "server/discover":
        if ERA == "modern":
            send({"id": id, "result": {"resultType": "complete", "supportedVersions": ["2026-07-28"],
                                       "capabilities": {"tools": {"listChanged": True}}, "ttlMs": 0}})
        elif ERA == "legacy":
            send({"id": id, "error": {"code": -32601, "message": "Method not found"}})
        else:
            take.probe = id
    elif method == "initialize":
        if ERA == "modern":
            send({"id": id, "error": {"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"]}}})
            return
        can = {"tools": {"listChanged": True}, "tasks": {"requests": {"tools": {"call": {}}}}}
        if ERA == "late":
            send({"id": take.probe, "error": {"code": -32601, "message": "Method not found"}})
        send({"id": id, "result": {"protocolVersion": "2025-06-18", "capabilities": can,
                                   "serverInfo": {"name": "x", "version": "1"}}})
    elif method == "subscriptions/listen":
        send({"method": "notifications/subscriptions/acknowledged", "params": {"_meta": {P + "subscriptionId": id}}})
    elif method == "tools/list":
        send({"id": id, "result": {"resultType": "complete", "tools": list_tools(), "ttlMs": 0}})
    elif method == "tools/call" and params["name"] == "do":
        threading.Thread(target=run, args=(id, params), daemon=True).start()
    elif method == "tools/call":
        send({"id": id, "result": text_of(f"{params['name']} {json.dumps(params['arguments'])}")})
    elif method.startswith("tasks/"):
        next_task(id, method)
    elif method == "ping":
        send({"id": id, "result": {}})


def main():
    start = FOLDER / "start"
    if start.exists():
        for one in json.loads(start.read_text()):
            step(None, one, {"answer": None, "token": None})
    with open(FOLDER / "heard", "a", encoding="utf-8") as heard:
        for line in sys.stdin:
            heard.write(line)
            heard.flush()
            take(json.loads(line))


main()
