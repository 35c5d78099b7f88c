"""The gateway is killed at each named point of the life of an agent behind HTTP (DIE_TABLE in gateway/base/fault.h), with each
kind of server: one that goes on behind Last-Event-ID, one that has lost its runs, one without ids, and each form.  The
next gateway goes on; what its task has said, without what was withdrawn, is whole and has nothing twice, and it ends
once.  A point that is not passed fails the test."""

import contextlib
import http.server
import json
import os
import re
import subprocess
import threading
import time
import types

import pytest

from gateway import SUPPORT, WAIT_S, Gateway, wait_until
from holdfast import Client, ids, stays, text_of
from peers import Peer

PACE_S = 0.005
HEARD = 5  # pieces, before somebody is killed
ALL = "HOLDFAST_KILLS" in os.environ  # where everything runs
PEERS = ("ag-ui", "a2a", "ai-sdk")
KINDS = ("ids", "lost", "anew", "openai", "langgraph", *PEERS)

# By point: who passes it.  "again": a gateway that finds the task; "new": one that is asked for it; "stop": one that is
# stopped, as planned.
POINTS = {"die_staged": "again", "die_repaired": "again", "die_resumed": "again", "die_posted": "again",
          "die_reply_head": "again", "die_line_taken": "again", "die_note": "again", "die_anew": "again",
          "die_commit_before": "again", "die_commit_after": "again", "die_left": "stop", "die_leave": "stop"}
NEW = ("die_posted", "die_reply_head", "die_line_taken", "die_note")
EVERY = [(point, kind, when) for kind in KINDS
         for point, when in [*POINTS.items(), *((point, "new") for point in NEW)]]


def is_passed(point, kind):
    """A server that goes on takes nothing back; of one without ids what was said is withdrawn when its task goes on."""
    if point == "die_anew":
        return kind == "lost"
    return point != "die_note" or kind not in ("anew", "openai", "ag-ui", "ai-sdk")


EVERY = [case for case in EVERY if is_passed(*case[:2])]
SOME = [("die_staged", "ids", "again"), ("die_posted", "langgraph", "again"), ("die_resumed", "a2a", "again"),
        ("die_posted", "ids", "again"), ("die_posted", "a2a", "new"), ("die_reply_head", "lost", "again"),
        ("die_line_taken", "ids", "new"), ("die_line_taken", "ag-ui", "again"), ("die_note", "ids", "again"),
        ("die_note", "langgraph", "again"), ("die_anew", "lost", "again"), ("die_commit_before", "openai", "again"),
        ("die_commit_after", "langgraph", "again"), ("die_left", "anew", "stop"), ("die_leave", "ids", "stop"),
        ("die_repaired", "ai-sdk", "again")]


class Servers(http.server.ThreadingHTTPServer):
    """Runs that say 0, 1, 2 … until their gate is set, with a reader or without one."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.open_gate()

    def open_gate(self):
        self.gate, self.runs, self.posts = threading.Event(), {}, []

    def run(self, name, anew=False):
        if anew or name not in self.runs:
            self.runs[name] = types.SimpleNamespace(begun=time.monotonic(), most=None, gate=self.gate)
        return self.runs[name]


def said_by(run):
    """How many pieces it has said by now."""
    if run.gate.is_set() and run.most is None:
        run.most = int((time.monotonic() - run.begun) / PACE_S) + 1
    return run.most or int((time.monotonic() - run.begun) / PACE_S) + 1


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def head(self, **headers):
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def begin(self, **headers):
        self.head(Content_Type="text/event-stream", Transfer_Encoding="chunked", **headers)

    def value(self, value):
        data = json.dumps(value).encode()
        self.head(Content_Type="application/json", Content_Length=len(data))
        self.wfile.write(data)

    def put(self, *texts):
        for data in (text.encode() for text in texts):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def pieces(self, run, n, written):
        """Each piece from the n-th on; the number of all."""
        while True:
            is_over = run.gate.is_set()
            for n in range(n, said_by(run)):
                self.put(written(n))
                n += 1
            if is_over:
                return n
            time.sleep(PACE_S)

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        kind, *rest = self.path.strip("/").split("/")
        try:
            getattr(self, kind)(rest, asked)
        except OSError:
            self.close_connection = True

    do_GET = do_POST

    def ids(self, _, asked, goes_on=True):
        last = self.headers["Last-Event-ID"]
        self.server.posts.append((asked.get("attempt", 1), last))
        goes_on = goes_on and last
        self.begin(**({"Last_Event_ID": last} if goes_on else {}))
        n = self.pieces(self.server.run(asked["task_id"]), int(last) + 1 if goes_on else 0,
                        lambda n: f"id: {n}\n" + ours("token", text=f"{n} "))
        self.put(ours("final_answer", output=numbers(n)), "")

    def lost(self, rest, asked):
        self.ids(rest, asked, goes_on=False)

    def anew(self, _, asked):
        self.server.posts.append((asked.get("attempt", 1), None))
        self.begin()
        n = self.pieces(self.server.run("anew", anew=True), 0, lambda n: ours("token", text=f"{n} "))
        self.put(ours("final_answer", output=numbers(n)), "")

    def openai(self, *_):
        self.begin()
        self.pieces(self.server.run("openai", anew=True), 0, lambda n: delta(f"{n} "))
        self.put(delta("", "stop"), "data: [DONE]\n\n", "")

    def langgraph(self, rest, asked):
        """threads, threads/T/runs/stream, threads/T/runs/R/stream (which goes on), threads/T/runs/R/join."""
        if rest == ["threads"]:
            self.value({"thread_id": "thread"})
            return
        name = rest[3] if len(rest) > 4 else f"run-{len(self.server.runs)}"
        run, last = self.server.run(name), self.headers["Last-Event-ID"]
        if rest[-1] == "join":
            self.value({"messages": [{"type": "ai", "content": numbers(run.most)}]})
            return
        self.begin()
        if not last:
            self.put(f'event: metadata\ndata: {{"run_id":"{name}"}}\nid: 0\n\n')
        self.pieces(run, int(last or 0), graph)
        self.put("")


def numbers(n):
    return "".join(f"{i} " for i in range(n))


def ours(event, **members):
    return f"data: {json.dumps({'event': event, 'data': members})}\n\n"


def delta(text, reason=None):
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": reason}
    return f"data: {json.dumps({'object': 'chat.completion.chunk', 'choices': [choice]})}\n\n"


def graph(n):
    message = [{"content": f"{n} ", "type": "ai", "id": "m"}, {"langgraph_node": "agent"}]
    return f"event: messages\ndata: {json.dumps(message)}\nid: {n + 1}\n\n"


class World:
    def __init__(self, folder):
        self.peer = Peer(SUPPORT / "agents" / "peers.mjs")
        self.servers = Servers()
        self.folder = folder
        self.chat = None

        def agent(kind):
            url = f"{self.peer.url}/{kind}" if kind in PEERS else f"{self.servers.url}/{kind}"
            form = {"form": kind} if kind in PEERS or kind in ("openai", "langgraph") else {}
            return {"name": kind, "kind": "http", "url": url, "grace_s": 30, "retries": 3, "model": "m" if form else None,
                    "after_restart": "continue", **form}

        agents = [{k: v for k, v in agent(kind).items() if v and (k != "model" or kind in ("openai", "langgraph"))}
                  for kind in KINDS]
        self.gateway = Gateway({"agents": agents, "drain_s": 60})
        with Client(self.gateway.start()) as client:
            self.token = client.token

    def close(self):
        self.servers.gate.set()
        self.gateway.close()
        self.peer.close()
        self.servers.shutdown()

    def client(self):
        return Client(self.gateway, token=self.token)

    def begin(self, kind, name):
        """The fields of a chat for it, and what lets its server end."""
        self.servers.gate.set()
        self.servers.open_gate()
        gate = self.folder / f"gate-{name}"
        steps = [*({"say": f"{n} "} for n in range(20)), {"wait": str(gate)}, *({"say": f"{n} "} for n in range(20, 25))]
        self.chat = {"message": json.dumps(steps) if kind in PEERS else "go", "agent": kind, "conversation_id": name}

        def end():
            self.servers.gate.set()
            gate.touch()

        return end

    def clear(self):
        """Ends the task that a failed round has left."""
        if not self.gateway.process:
            self.gateway.start()
        with self.client() as client:
            for task in client.call("tasks", conversation_id=self.chat["conversation_id"])["tasks"] if self.chat else []:
                client.call("cancel", **ids(task))
                client.resume(task, 0)
                client.wait_terminal(task)

    def find(self, client):
        [task] = client.call("tasks", conversation_id=self.chat["conversation_id"])["tasks"]
        return task

    def hear(self, client, task, words):
        """Until that is among what it has said."""
        client.resume(task, 0)
        for _ in client.scan():
            if words in text_of(client.events_since(task)):
                return

    def spawn(self, point):
        """A gateway that dies there; whether it was ready before."""
        self.gateway.environ = {"HOLDFAST_FAULT": f"{point}:1"}
        self.gateway.spawn()
        self.gateway.environ = {}
        line = self.gateway.printed.get(timeout=WAIT_S)
        if line:
            self.gateway.port = int(re.search(r':(\d+)"', line)[1])
        return bool(line)

    def died(self, point):
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.gateway.process.wait(WAIT_S)
        passed = self.gateway.process.poll() == -9
        self.gateway.kill()
        assert passed, f"{point} was not passed:\n{self.gateway.tail()}"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    running = World(tmp_path_factory.mktemp("gates"))
    yield running
    running.close()


def ask(world):
    """The chat of the round, by whose task the gateway dies: its reply may not come any more."""
    with world.client() as client:
        client.send({"type": "chat", "id": "c", "request_key": world.chat["conversation_id"], **world.chat})
        wait_until(lambda: world.gateway.process.poll() is not None, "the death of a gateway")


def dies(world, point, when):
    if when != "new":
        with world.client() as client:
            task = client.call("chat", **world.chat)["task"]
            world.hear(client, task, numbers(HEARD))
    world.gateway.kill()
    is_ready = world.spawn(point)
    if when == "new":
        ask(world)
    elif when == "stop":
        assert is_ready
        with world.client() as client:
            client.resume(task, 0)
            goes_on = client.event(task, "task.resumed")
            client.expect(lambda line: line.get("event") == "token" and line["seq"] > goes_on["seq"])
        world.gateway.process.terminate()
    world.died(point)


@pytest.mark.parametrize("point, kind, when", EVERY if ALL else SOME)
def test_gateway_that_dies_there_loses_nothing_of_a_server(world, point, kind, when):
    world.clear()
    end = world.begin(kind, f"{point}-{kind}-{when}")
    dies(world, point, when)
    world.gateway.start()
    with world.client() as client:
        if when == "new":  # the same request, should it have been lost
            client.call("chat", request_key=world.chat["conversation_id"], **world.chat)
        task = world.find(client)
        world.hear(client, task, numbers(HEARD))
    end()
    with world.client() as client:
        client.resume(task, 0)
        client.wait_terminal(task)
        record, events = client.task(task), client.events_since(task)
    assert record["status"] == "completed", record
    left = stays(events)
    assert left == record["output"] == numbers(25 if kind in PEERS else left.count(" "))
    if kind == "ids":
        assert text_of(events) == left or when == "new", "it went on behind the last event"
        assert all(attempt > 1 for attempt, _ in world.servers.posts[1:])
