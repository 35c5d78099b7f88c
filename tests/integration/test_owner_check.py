"""./dev owner-check against our own gateway: it finds nothing, and it would find something."""

import http.server
import importlib.util
import os
import pathlib
import random
import re
import subprocess
import threading

import pytest

import nodes
import postgres
import tokens
from gateway import WAIT_S, Gateway, merged, refusing_port
from short import long, rest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "tests/owner_check.py"
ALL = "HOLDFAST_TIMING" in os.environ  # where everything runs, a front is measured as well
TIMING = os.environ.get("HOLDFAST_TIMING", "25")  # tries of each: tens of thousands of requests at 100
FAST = {"agents": None, "limits": {"requests_per_second": 100000, "burst": 100000}}


def load():
    spec = importlib.util.spec_from_file_location("owner_check", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(gateway, *more):
    done = subprocess.run(["/usr/bin/python3", "-B", SCRIPT, f"http://{gateway.host}:{gateway.port}", *more],
                          capture_output=True, text=True, check=False, timeout=(20 if ALL else 8) * WAIT_S)
    return done.returncode, done.stdout + done.stderr


# Verbs and endpoints that owner-check does not ask, and why.
UNTRIED = {
    "ping": "says the time",
    "POST /v1/guest": "makes an owner",
    "POST /v1/handover/token": "takes a code in the place of a token: try_handover",
    "GET /healthz": "of the gateway", "GET /readyz": "of the gateway", "GET /metrics": "by address, with no owner in it",
    "GET /": "a page", "GET /page.json": "of the configuration",
}


def table_of(section, head):
    """The first cells of the table with that head."""
    text = (ROOT / "proto/PROTOCOL.md").read_text(encoding="utf-8").split(f"\n## {section}. ")[1].split("\n## ")[0]
    return [row.split(" | ")[0] for row in text.split(head)[1].split("\n\n")[0].splitlines()[2:]]


def verbs():
    return {verb for cell in table_of(5, "| request | fields | reply |") for verb in re.findall(r"`(\w+)`", cell)}


def endpoints():
    """"METHOD path" of each row; "…" stands for the folder of the row's first path, or for what is before {cid}."""
    found = set()
    for cell in table_of(7, "| method and path | request |"):
        methods, folder, waiting = [], None, []
        for method, path in re.findall(r"`(?:([A-Z]+)(?: |`))?([/…][^`]*)?", cell):
            waiting += [method] if method else []
            if not path:
                continue
            methods, waiting = waiting or methods, []
            path = re.sub("^…(?=/{cid})", "/v1/conversations", path)
            folder = folder or path.rpartition("/")[0]
            found |= {f"{method} {path.replace('…', folder)}" for method in methods}
    return found


def recorded(module, owner):
    """Verbs and endpoints, as they come to be asked with a token that is not the owner's."""
    asked, hello, ask = set(), module.Wire.hello, module.Wire.ask
    http, stream = module.Http.ask, module.Http.stream

    async def said_hello(wire, token=None):
        wire.token = token
        return await hello(wire, token)

    async def asked_wire(wire, type, **fields):
        if getattr(wire, "token", owner) != owner:
            asked.add(type)
        return await ask(wire, type, **fields)

    def endpoint(method, path):
        path = "/v1" + path.partition("?")[0]
        for noun, name in (("conversations", "cid"), ("tasks", "tid"), ("files", "fid"), ("workspace", "path")):
            path = re.sub(f"(/{noun})/[^/]+", rf"\1/{{{name}}}", path)
        asked.add(f"{method} {path}")

    def asked_http(self, method, path, body=None, token=None):
        if token not in (None, owner):
            endpoint(method, path)
        return http(self, method, path, body, token)

    def asked_stream(self, path, token, until):
        if token not in (None, owner):
            endpoint("GET", path)
        return stream(self, path, token, until)

    module.Wire.hello, module.Wire.ask = said_hello, asked_wire
    module.Http.ask, module.Http.stream = asked_http, asked_stream
    return asked


TIMED = {
    "answers": [],
    "wire": ["WebSocket branch:", "WebSocket chat edit:", "WebSocket task:", "WebSocket cancel tree:",
             "HTTP GET …/tasks/…:", "HTTP DELETE …/tasks/…?tree=true:"],
    "faces": ["AI SDK stream:", "Responses retrieve:", "Responses create:", "A2A cancel:", "A2A GetTask:",
              "MCP tasks/cancel:"],
    "sockets": ["WebSocket, AI SDK resume:", "WebSocket, Responses address:", "WebSocket, Responses frame:",
                "WebSocket, ACP load:", "WebSocket, ACP close:", "WebSocket, ACP answer:", "WebSocket, ACP cancel:"],
    "narrowed": ["narrowed, WebSocket task:", "narrowed, WebSocket cancel tree:", "narrowed, HTTP GET …/tasks/…/events:",
                 "narrowed, HTTP GET …/files/…:"],
}


@pytest.mark.parametrize("part", rest("answers", *(part for part in TIMED if part != "answers")))
def test_nothing_is_found_as_guests(part):
    with Gateway(FAST) as gateway:
        status, said = check(gateway, "--timing", TIMING, "--part", part)
        assert status == 0, said
        looked_at = int(re.search(r"(\d+) answers looked at, 0 wrong", said)[1])
        assert looked_at > (400 if part == "answers" else len(TIMED[part]))
        for what in TIMED[part]:
            assert f"timing, {TIMING} of each: {what} none " in said


@long
def test_nothing_is_found_with_keys_and_an_expired_token(tmp_path):
    """And every verb and every endpoint of PROTOCOL.md is among what was tried, or said not to be."""
    with Gateway(merged(FAST, {"auth": tokens.config(tmp_path)})) as gateway:
        owner, other = tokens.token("alice"), tokens.token("bob")
        module = load()
        asked = recorded(module, owner)
        status = module.main([f"http://{gateway.host}:{gateway.port}", "--owner", owner, "--other", other,
                              "--bad", tokens.token("alice", seconds=-100),
                              "--bad", tokens.token("alice", secret=b"another secret that is long enough to be one")])
        assert status == 0
        promised = verbs() | endpoints()
        assert len(verbs()) > 30 and len(endpoints()) > 50
        assert promised - asked == UNTRIED.keys()
        assert check(gateway)[0] == 2  # no guests here


@pytest.fixture(scope="module")
def front():
    """A gateway that carries its clients to another."""
    if not postgres.programs():
        pytest.skip("PostgreSQL is not installed")
    server = postgres.Postgres()
    server.start()
    cluster = nodes.Nodes(server, "check", config=FAST)
    try:
        yield cluster.start_pair()[1]
    finally:
        cluster.close()
        server.close()


def check_as_users(gateway, *more):
    return check(gateway, "--owner", tokens.token("alice"), "--other", tokens.token("bob"),
                 "--bad", tokens.token("alice", seconds=-100), *more)


def test_nothing_is_found_at_a_node_that_is_not_the_home(front):
    status, said = check_as_users(front)
    assert status == 0, said
    assert int(re.search(r"(\d+) answers looked at, 0 wrong", said)[1]) > 400
    asked = front.http("GET", "/metrics")[2].decode()
    assert int(re.search(r'^holdfast_cluster_link_requests_total{outcome="asked"} (\d+)', asked, re.M)[1]) > 400


@pytest.mark.skipif(not ALL, reason="HOLDFAST_TIMING is the number of tries")
@pytest.mark.parametrize("part", [part for part in TIMED if TIMED[part]])
def test_time_tells_nothing_at_a_node_that_is_not_the_home(front, part):
    status, said = check_as_users(front, "--timing", TIMING, "--part", part)
    assert status == 0, said
    for what in TIMED[part]:
        assert f"timing, {TIMING} of each: {what} none " in said


def test_what_cannot_be_tried_is_no_success():
    with refusing_port() as port:
        done = subprocess.run(["/usr/bin/python3", "-B", SCRIPT, f"http://127.0.0.1:{port}"], capture_output=True,
                              text=True, check=False, timeout=4 * WAIT_S)
    assert done.returncode == 2 and "could not be tried" in done.stderr


# ---------------------------------------------------------------- it would find something


class Leaky(http.server.BaseHTTPRequestHandler):
    """Tells a task that exists from one that does not: by one byte, or by a header."""

    protocol_version = "HTTP/1.1"
    wbufsize = 65536  # head and body in one packet: without that each answer waits for an ACK
    leak = None

    def answer(self):
        body = b'{"error":{"code":"not_found","message":"no such task"}}'
        known = self.server.known in self.path
        if self.leak == "body" and known:
            body = body.replace(b"task", b"Task")
        status = 401 if self.headers.get("Authorization") in (None, "Bearer ") else 404
        if self.headers.get("Content-Length"):
            self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(status)
        if self.leak == "header" and known:
            self.send_header("X-Seen", "1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = do_PATCH = answer

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("leak", ["body", "header"])
def test_a_difference_of_one_byte_is_found(leak):
    module = load()
    kind = type("Kind", (Leaky,), {"leak": leak})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        server.known = "TASK"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        world = module.World.__new__(module.World)
        world.http = module.Http(module.urllib.parse.urlsplit(f"http://127.0.0.1:{server.server_port}"))
        world.found, world.other, world.bad = module.Findings(), "other", {"missing": None}
        world.conversations, world.task, world.ended, world.nowhere = ["c-1", "c-2"], "TASK", "TASK", "c-9"
        world.messages = world.pairs
        module.try_http(world)
        server.shutdown()
    assert any("…/tasks/…:" in wrong and "is not" in wrong for wrong in world.found.wrong)


@pytest.mark.parametrize("kind", ["runs", "ended"])
@pytest.mark.parametrize("late_us, found", [(0, False), (100, True)])
def test_a_difference_in_time_is_found(kind, late_us, found):
    """A difference in one kind only, in answers that otherwise vary as much as over a network."""
    module = load()
    scatter = random.Random(5)

    class Asked:
        waits = 0

    def question(of):
        async def ask():
            module.time.now += 1e-3 + scatter.expovariate(1 / 200e-6) + (late_us * 1e-6 if of == kind else 0)
        return ask

    module.time = type("Clock", (), {"now": 0.0, "perf_counter": staticmethod(lambda: module.time.now)})
    world = module.World.__new__(module.World)
    world.found = module.Findings()
    questions = {of: question(of) for of in module.KINDS}
    module.asyncio.run(module.try_timing_of(world, "what", 2000, questions, Asked()))
    assert bool(world.found.wrong) == found, world.found.wrong


def test_tries_that_wait_for_the_rate_limit_are_not_measured():
    module = load()
    module.time = type("Clock", (), {"now": 0.0, "perf_counter": staticmethod(lambda: module.time.now)})

    class Asked:
        waits, n = 0, 0

    async def ask():
        Asked.n += 1
        Asked.waits += Asked.n % 10 == 0
        module.time.now += 5 if Asked.n % 10 == 0 else 0.001

    taken = module.asyncio.run(module.measure(100, {kind: ask for kind in module.KINDS}, Asked))
    assert all(len(samples) == 100 and max(samples) < 1 for samples in taken.values())
