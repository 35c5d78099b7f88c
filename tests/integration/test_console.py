"""The operator's console: what it tells and orders, who gets there, and what a hostile page can do to it."""

import contextlib
import http.client
import json
import os
import pathlib
import re
import socket
import subprocess

import pytest

import tokens
from gateway import BINARY, WAIT_S, Gateway, wait_until
from holdfast import Client
from test_admin import Admin, command
from test_http_api import Api


def request(port, method, path, body=None, host="127.0.0.1", **headers):
    """One request; (status, body, headers).  A header named X_Y is X-Y."""
    wire = http.client.HTTPConnection(host, port, timeout=WAIT_S)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        wire.request(method, path, body if body is None or isinstance(body, bytes) else json.dumps(body).encode(),
                     {"Content-Type": "application/json", **named} if body is not None else named)
        answer = wire.getresponse()
        return answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}
    finally:
        wire.close()


def events(port, path, **headers):
    """The states of an event stream, as they come."""
    wire = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    wire.request("GET", path, headers=headers)
    answer = wire.getresponse()
    assert answer.status == 200 and answer.getheader("content-type") == "text/event-stream", answer.read()
    with contextlib.closing(wire):
        while line := answer.readline():
            if line.startswith(b"data: "):
                yield json.loads(line[6:])


class Console:
    """holdfast admin console, for one gateway."""

    def __init__(self, gateway):
        self.process = subprocess.Popen(
            [BINARY, "admin", "console", "--config", str(gateway.folder / "config.json"), "--data", str(gateway.data)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
        self.said = self.process.stdout.readline()
        self.port, self.token = re.match(r"Open http://127\.0\.0\.1:(\d+)/console/#token=([0-9a-f]{64})$",
                                         self.said).groups()
        self.secret = None

    def log_in(self, token=None):
        return request(self.port, "POST", "/login", {"token": token or self.token})

    def enter(self):
        status, body, _ = self.log_in()
        assert status == 200
        self.secret = json.loads(body)["secret"]
        return self

    def ask(self, method, path, body=None, **headers):
        status, text, _ = request(self.port, method, path, body, Authorization=f"Bearer {self.secret}", **headers)
        return status, json.loads(text)

    def end(self):
        self.process.terminate()
        out, err = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, out, err


@pytest.fixture
def console(gateway):
    made = Console(gateway)
    yield made
    made.process.kill()
    made.process.communicate()


# ------------------------------------------------------------------ what it tells, and orders


def test_state_names_who_is_connected_and_what_runs(gateway, console):
    console.enter()
    with Client(gateway) as ann, Client(gateway) as bob:
        task = ann.chat({"token": "a"}, {"hang": 1}, conversation="c")
        ann.event(task, "token")
        status, state = console.ask("GET", f"/v1/admin/state?owner={ann.owner}")
        assert status == 200 and [c["owner"] for c in state["connections"]] == [ann.owner]
        assert state["connections"][0]["follows"] == 1 and state["connections"][0]["from"] == "127.0.0.1"
        (row,) = state["tasks"]
        assert (row["task_id"], row["conversation_id"], row["status"]) == (task["task_id"], "c", "running")
        assert row["agent"] == "script" and row["events"] >= 2 and row["readers"] == 1 and row["started_at"] > 0
        state = console.ask("GET", "/v1/admin/state")[1]
        assert {ann.owner, bob.owner} <= {c["owner"] for c in state["connections"]} and state["n_connections"] >= 2
        assert state["nodes"][0]["phase"] == "serving" and state["nodes"][0]["ready"] is True
        assert {"limit": "tasks", "now": state["n_tasks"], "max": 10000} in state["limits"]
        assert "holdfast_limit_hits_total{" in state["metrics"]
        assert console.ask("GET", "/v1/admin/state?owner=nobody-of-that-name")[1]["tasks"] == []
        ann.call("cancel", **{k: task[k] for k in ("conversation_id", "task_id")})


def test_watch_tells_what_comes_and_goes(gateway, console):
    console.enter()
    states = events(console.port, "/v1/admin/watch", Authorization=f"Bearer {console.secret}")
    assert next(states)["type"] == "state"
    with Client(gateway) as ann:
        state = next(s for s in states if ann.owner in {c["owner"] for c in s["connections"]})
        assert state["at"] > 0
        owner = ann.owner
    assert next(s for s in states if owner not in {c["owner"] for c in s["connections"]})
    states.close()


def test_orders_reach_the_gateway(gateway, console):
    console.enter()
    with Client(gateway) as ann:
        owner = ann.owner
        task = ann.chat({"token": "a"}, {"hang": 1}, conversation="c")
        ann.event(task, "token")
        path = f"/v1/conversations/c/tasks/{task['task_id']}?tree=true"
        assert console.ask("DELETE", path, Holdfast_Owner=owner) == (
            200, {"type": "ok", "cancelled": 1, "task_ids": [task["task_id"]]})
        assert ann.wait_terminal(task)["data"]["status"] == "cancelled"
        assert console.ask("POST", "/v1/admin/kick", {"owner": owner})[1]["closed"] == 1
        assert ann.closing().code == 1001
    assert console.ask("POST", "/v1/admin/revoke", {"owner": owner})[0] == 200
    assert [r["owner"] for r in console.ask("GET", "/v1/admin/revocations")[1]["revocations"]] == [owner]
    assert console.ask("POST", "/v1/admin/unrevoke", {"owner": owner})[0] == 200


def test_drain_stops_the_gateway_as_planned_and_watchers_see_it():
    with Gateway({"drain_s": 600}) as gateway:
        console = Console(gateway).enter()
        states = events(console.port, "/v1/admin/watch", Authorization=f"Bearer {console.secret}")
        with Client(gateway) as ann:
            task = ann.chat({"token": "a"}, {"wait": gateway.path("gate")}, conversation="c")
            ann.event(task, "token")
            assert console.ask("POST", "/v1/admin/drain", {}) == (200, {"type": "ok"})
            assert next(s for s in states if s["nodes"][0]["phase"] == "draining")["nodes"][0]["ready"] is False
            assert console.ask("POST", "/v1/admin/drain", {})[0] == 200  # again: it does not hurry
            open(gateway.path("gate"), "w", encoding="utf-8").close()
            assert ann.wait_terminal(task)["event"] == "task.completed"
        assert gateway.wait() == 0
        assert list(states) is not None  # the stream ends
        assert console.ask("GET", "/v1/admin/state")[0] == 502
        assert console.end()[0] == 0
        gateway.start()


def test_command_drains_and_shows_the_state():
    with Gateway() as gateway:
        assert json.loads(command(gateway, "state").stdout)["type"] == "state"
        assert command(gateway, "drain").returncode == 0
        assert gateway.wait() == 0
        done = command(gateway, "console")
        assert done.returncode == 1 and "no gateway answers" in done.stderr and not done.stdout
        gateway.start()


# ------------------------------------------------------------------ who gets there


def test_token_counts_once_and_nothing_goes_without_the_secret(console):
    assert request(console.port, "GET", "/v1/admin/state")[0] == 401
    assert request(console.port, "GET", "/v1/admin/state", Authorization=f"Bearer {console.token}")[0] == 401
    for wrong in ("0" * 64, console.token[:-1], console.token + "0", "x", ""):
        assert request(console.port, "POST", "/login", {"token": wrong})[0] == 401
    for junk in (b"", b"{", b"[]", b'{"token":1}'):
        assert request(console.port, "POST", "/login", junk)[0] == 401
    console.enter()
    assert console.log_in()[0] == 401
    assert console.ask("GET", "/v1/admin/state")[0] == 200
    for wrong in (console.secret[:-1], console.secret[:-1] + "g", "0" * 64, console.token, ""):
        assert request(console.port, "GET", "/v1/admin/state", Authorization=f"Bearer {wrong}")[0] == 401
    assert request(console.port, "GET", "/v1/admin/state", Cookie=f"secret={console.secret}")[0] == 401
    assert request(console.port, "GET", f"/v1/admin/state?secret={console.secret}")[0] == 401
    assert console.ask("GET", "/metrics")[0] == 404


def test_other_pages_and_rebound_names_get_nothing(console):
    console.enter()
    mine = {"Authorization": f"Bearer {console.secret}"}
    for host in ("rebound.example", f"rebound.example:{console.port}", f"localhost:{console.port}", "127.0.0.1", ""):
        assert request(console.port, "GET", "/v1/admin/state", Host=host, **mine)[0] == 421, host
        assert request(console.port, "GET", "/console/", Host=host)[0] == 421, host
    for origin in ("https://evil.example", "null", f"http://localhost:{console.port}"):
        assert request(console.port, "POST", "/login", {"token": console.token}, Origin=origin)[0] == 403
        assert request(console.port, "POST", "/v1/admin/kick", {"owner": "x"}, Origin=origin, **mine)[0] == 403
    assert request(console.port, "POST", "/v1/admin/kick", {"owner": "x"}, Sec_Fetch_Site="cross-site", **mine)[0] == 403
    status, _, headers = request(console.port, "OPTIONS", "/v1/admin/kick", Origin="https://evil.example",
                                 Access_Control_Request_Method="POST")
    assert status == 403 and not any(name.startswith("access-control") for name in headers)
    ours = f"http://127.0.0.1:{console.port}"
    assert request(console.port, "POST", "/v1/admin/kick", {"owner": "x"}, Origin=ours, **mine)[0] == 200


def test_page_is_bound_to_itself(console):
    status, body, headers = request(console.port, "GET", "/console/")
    assert status == 200 and b"<title>Holdfast console</title>" in body and "set-cookie" not in headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self'" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy and headers["referrer-policy"] == "no-referrer"
    assert headers["x-content-type-options"] == "nosniff"
    for name in ("console.js", "figures.js", "console.css"):
        assert request(console.port, "GET", f"/console/{name}")[0] == 200
    for path in ("/console/../v1/admin/state", "/console/%2e%2e/v1/admin/state", "/console/..%2fv1/admin/state",
                 "/console//v1/admin/state", "/console/./../v1/admin/state", "//v1/admin/state", "/v1/../v1/admin/state"):
        assert request(console.port, "GET", path)[0] == 401, path  # no way around the secret by another spelling
    assert request(console.port, "GET", "/")[0] == 401


def test_it_listens_on_this_machine_alone(console):
    found = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    at = {row[1] for row in found if row[3] == "0A" and row[1].endswith(f":{int(console.port):04X}")}
    assert at == {f"0100007F:{int(console.port):04X}"}


def test_bytes_that_are_no_request_harm_nothing(console):
    def raw(bytes_):
        with socket.create_connection(("127.0.0.1", int(console.port)), WAIT_S) as wire:
            wire.sendall(bytes_)
            wire.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                return wire.recv(100)
        return b""

    host = f"Host: 127.0.0.1:{console.port}\r\n".encode()
    for junk in (b"", b"\r\n\r\n", b"junk\r\n\r\n", b"\x16\x03\x01" + bytes(100), b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 5000,
                 b"POST /login HTTP/1.1\r\n" + host + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                 b"POST /login HTTP/1.1\r\n" + host + b"Content-Length: 5\r\n\r\n{}"):
        assert not raw(junk).startswith(b"HTTP/1.1 2")
    waiting = [socket.create_connection(("127.0.0.1", int(console.port)), WAIT_S) for _ in range(80)]
    for wire in waiting:
        wire.close()
    wait_until(lambda: answers(console), "an answer")
    console.enter()


def answers(console):
    """Not while all of its places are taken."""
    with contextlib.suppress(ConnectionError, http.client.HTTPException):
        return console.log_in("0" * 64)[0] == 401
    return False


def test_no_secret_is_in_a_log_or_in_the_command_line(tmp_path):
    audit = tmp_path / "audit.jsonl"
    with Gateway({"audit": {"path": str(audit)}, "log": {"level": "debug"}}) as gateway:
        console = Console(gateway).enter()
        console.ask("POST", "/v1/admin/kick", {"owner": "someone"})
        console.ask("GET", "/v1/admin/state")
        line = pathlib.Path(f"/proc/{console.process.pid}/cmdline").read_bytes()
        code, out, err = console.end()
        gateway.stop()
        log = "\n".join(gateway.log)
        kept = audit.read_text(encoding="utf-8")
        assert code == 0 and "kicked" in log and '"event":"kick"' in kept
        for secret in (console.token, console.secret):
            assert secret not in log + kept and secret not in out and secret not in err and secret.encode() not in line
        gateway.start()


def test_many_watchers_have_a_bound(gateway):
    admin = Admin(gateway)
    wires = []
    try:
        for _ in range(16):
            wire = socket.socket(socket.AF_UNIX)
            wire.settimeout(WAIT_S)
            wires.append(wire)
            wire.connect(admin.path)
            wire.sendall(b"GET /v1/admin/watch HTTP/1.1\r\nHost: x\r\n\r\n")
            assert wire.recv(12) == b"HTTP/1.1 200"
        assert admin.ask("GET", "/v1/admin/watch")[0] == 503
    finally:
        for wire in wires:
            wire.close()
    wait_until(lambda: len(admin.path) and is_open(admin), "a place among the watchers")


def is_open(admin):
    with socket.socket(socket.AF_UNIX) as wire:
        wire.settimeout(WAIT_S)
        wire.connect(admin.path)
        wire.sendall(b"GET /v1/admin/watch HTTP/1.1\r\nHost: x\r\n\r\n")
        return wire.recv(12) == b"HTTP/1.1 200"


# ------------------------------------------------------------------ from elsewhere, with a token


@pytest.fixture(scope="module", name="remote")
def remote_(tmp_path_factory):
    folder = tmp_path_factory.mktemp("remote")
    auth = tokens.config(folder, admin_claim="holdfast_admin", cookie="session")
    with Gateway({"auth": auth, "guests": True}) as gateway:
        yield gateway


def test_token_with_the_claim_is_an_operators(remote):
    operator = tokens.token("olga", holdfast_admin=True)
    mine = {"Authorization": f"Bearer {operator}"}
    with Client(remote, token=tokens.token("ann")) as ann:
        task = ann.chat({"token": "a"}, {"hang": 1}, conversation="c")
        ann.event(task, "token")
        states = events(remote.port, "/v1/admin/watch?owner=ann", **mine)
        assert [t["task_id"] for t in next(states)["tasks"]] == [task["task_id"]]
        states.close()
        path = f"/v1/conversations/c/tasks/{task['task_id']}"
        assert request(remote.port, "DELETE", path, Holdfast_Owner="ann", **mine)[0] == 200
        assert ann.wait_terminal(task)["data"]["status"] == "cancelled"
        assert request(remote.port, "POST", "/v1/admin/kick", {"owner": "ann"}, **mine)[0] == 200
        assert ann.closing().code == 1001
    assert request(remote.port, "GET", "/console/")[0] == 200
    assert request(remote.port, "GET", "/v1/conversations", **mine)[0] == 200  # of olga's own


def test_open_watch_ends_when_its_operator_is_revoked(remote):
    mine = {"Authorization": f"Bearer {tokens.token('oscar', holdfast_admin=True)}"}
    others = {"Authorization": f"Bearer {tokens.token('olga', holdfast_admin=True)}"}
    states, still = events(remote.port, "/v1/admin/watch", **mine), events(remote.port, "/v1/admin/watch", **others)
    next(states), next(still)
    assert request(remote.port, "POST", "/v1/admin/revoke", {"owner": "oscar"}, **others)[0] == 200
    with contextlib.suppress(http.client.HTTPException, ConnectionError):
        for n, _ in enumerate(states):
            assert n < 30, "it goes on"
    assert request(remote.port, "GET", "/v1/admin/watch", **mine)[0] == 404
    next(still)
    assert request(remote.port, "POST", "/v1/admin/unrevoke", {"owner": "oscar"}, **others)[0] == 200
    states.close(), still.close()


def test_every_other_token_finds_nothing_there(remote):
    with Client(remote) as guest:
        others = [tokens.token("eve"), tokens.token("eve", holdfast_admin=False), tokens.token("eve", holdfast_admin=1),
                  tokens.token("eve", holdfast_admin="true"), tokens.token("eve", holdfast_admin=[True]),
                  tokens.token("eve", holdfast_admin=None), tokens.token("eve", seconds=-100, holdfast_admin=True),
                  tokens.token("eve", secret=b"another secret of thirty-two bytes", holdfast_admin=True),
                  tokens.unsigned({"sub": "eve", "exp": 9999999999, "holdfast_admin": True}), guest.token]
    unknown = Api(remote, tokens.token("eve")).ask("GET", "/no/such/path")
    for token in others:
        api = Api(remote, token)
        for method, path, body in (("GET", "/admin/state", None), ("GET", "/admin/watch", None),
                                   ("POST", "/admin/drain", {}), ("POST", "/admin/kick", {"owner": "ann"}),
                                   ("GET", "/admin/workers", None)):
            assert api.ask(method, path, *([body] if body is not None else []))[0] == unknown[0], (path, token)
    eve = tokens.token("eve")
    Client(remote, token=eve).close()
    mine = {"Authorization": f"Bearer {eve}", "Holdfast-Owner": "ann"}
    status, body, _ = request(remote.port, "GET", "/v1/conversations", **mine)
    assert status == 200 and json.loads(body)["conversations"] == []  # eve's own: the header means nothing


def test_cookie_is_no_operators_and_another_origin_is_refused(remote):
    operator = tokens.token("olga", holdfast_admin=True)
    ours = f"http://127.0.0.1:{remote.port}"
    assert request(remote.port, "POST", "/v1/admin/kick", {"owner": "x"}, Cookie=f"session={operator}", Origin=ours)[0] == 404
    mine = {"Authorization": f"Bearer {operator}"}
    assert request(remote.port, "POST", "/v1/admin/kick", {"owner": "x"}, Origin="https://evil.example", **mine)[0] == 403
    assert request(remote.port, "POST", "/v1/admin/kick", {"owner": "x"}, Origin=ours, **mine)[0] == 200
    assert request(remote.port, "GET", "/v1/admin/state", Host="rebound.example", **mine)[0] == 403
    remote.stop()
    assert operator not in "\n".join(remote.log)
    remote.start()


def test_without_the_claim_in_the_configuration_nobody_is_one(tmp_path):
    with Gateway({"auth": tokens.config(tmp_path)}) as gateway:
        token = tokens.token("olga", holdfast_admin=True, admin=True)
        assert request(gateway.port, "GET", "/v1/admin/state", Authorization=f"Bearer {token}")[0] == 404
        assert request(gateway.port, "GET", "/console/")[0] == 404
        assert os.path.exists(gateway.data / "admin.sock")
