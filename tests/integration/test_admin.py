"""The operator's socket: the API for any owner, kick and revoke; and who does not get there."""

import json
import os
import pathlib
import socket
import stat
import subprocess
import sys
import tempfile

import pytest

from gateway import BINARY, WAIT_S, Gateway, run, wait_until
from holdfast import Client, Refused, ids, program
from test_http_api import Api, sse
from test_metrics import LINE


class Admin:
    """Requests through the socket, by hand."""

    def __init__(self, gateway, path=None):
        self.path = str(path or gateway.data / "admin.sock")

    def raw(self, bytes_, shut=False):
        with socket.socket(socket.AF_UNIX) as wire:
            wire.settimeout(WAIT_S)
            wire.connect(self.path)
            wire.sendall(bytes_)
            if shut:
                wire.shutdown(socket.SHUT_WR)
            got = b""
            while piece := wire.recv(65536):
                got += piece
            return got

    def ask(self, method, path, body=None, owner=None, headers=()):
        lines = [f"{method} {path} HTTP/1.1", "Host: x", "Connection: close", *headers]
        if owner is not None:
            lines.append(f"Holdfast-Owner: {owner}")
        data = b"" if body is None else (body if isinstance(body, bytes) else json.dumps(body).encode())
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
        head, _, answer = self.raw("\r\n".join(lines).encode() + b"\r\n\r\n" + data).partition(b"\r\n\r\n")
        status = int(head.split()[1])
        return status, json.loads(answer) if answer[:1] == b"{" else answer.decode()

    def good(self, *asked, **more):
        status, answer = self.ask(*asked, **more)
        assert status in (200, 201), (status, answer)
        return answer


def revocations(admin):
    """Those of all gateways: asked again while one does not answer, as right after a start."""
    def told():
        status, answer = admin.ask("GET", "/v1/admin/revocations")
        assert status == 200 or answer["error"]["retry_after_ms"] > 0, answer
        return status == 200 and answer
    return wait_until(told, "an answer of all")["revocations"]


@pytest.fixture
def admin(gateway):
    return Admin(gateway)


def command(gateway, *arguments):
    return run("admin", "--config", str(gateway.folder / "config.json"), "--data", str(gateway.data), *arguments)


# ------------------------------------------------------------------ who gets there


def test_socket_is_the_users_own_and_goes_with_the_gateway():
    with Gateway() as gateway:
        path = gateway.data / "admin.sock"
        mode = path.lstat().st_mode
        assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600
        gateway.kill()
        assert path.exists()
        gateway.start()  # what a kill left is no hindrance
        assert revocations(Admin(gateway)) == []
        gateway.stop()
        assert not path.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="another user is needed")
def test_another_user_is_refused_even_where_the_file_lets_him():
    """The file's mode keeps him off; should somebody change it, the gateway asks the kernel who it is."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, Gateway(
            {"admin": {"socket": f"{folder}/a.sock"}}) as gateway:
        os.chmod(folder, 0o755)
        program_ = ("import os, socket, sys; os.setgid(65534); os.setuid(65534); s = socket.socket(socket.AF_UNIX)\n"
                    "try:\n s.connect(sys.argv[1])\nexcept PermissionError: sys.exit(3)\n"
                    "try:\n s.sendall(b'GET /healthz HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')\n"
                    " sys.exit(4 if s.recv(100) else 5)\nexcept OSError: sys.exit(5)")
        other = [sys.executable, "-c", program_, f"{folder}/a.sock"]
        assert subprocess.run(other, check=False, timeout=WAIT_S).returncode == 3
        os.chmod(f"{folder}/a.sock", 0o666)
        assert subprocess.run(other, check=False, timeout=WAIT_S).returncode == 5
        wait_until(lambda: "another user" in "\n".join(gateway.log), "the line in the log")
        assert Admin(gateway, f"{folder}/a.sock").ask("GET", "/healthz") == (200, "alive\n")


def test_a_socket_that_cannot_be_made_is_no_start(tmp_path):
    for where, why in ((tmp_path / "missing" / "a.sock", "No such file"), (tmp_path, "File exists")):
        gateway = Gateway({"admin": {"socket": str(where)}})
        gateway.spawn()
        assert gateway.wait() == 1
        assert any("cannot_listen" in line and why in line for line in gateway.log), gateway.tail()
        gateway.close()
    with Gateway({"admin": {"socket": str(tmp_path / "a.sock")}}):  # another gateway's is not taken away
        second = Gateway({"admin": {"socket": str(tmp_path / "a.sock")}})
        second.spawn()
        assert second.wait() == 1
        assert any("Address already in use" in line for line in second.log)
        second.close()
        assert Admin(None, tmp_path / "a.sock").ask("GET", "/readyz")[0] == 200


def test_a_socket_whose_owner_is_busy_is_not_taken_away(tmp_path):
    """Its backlog is full: a connect would wait, and must not be taken for a refusal."""
    path = str(tmp_path / "busy.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(0)
        waiting = []
        try:
            while True:
                waiting.append(socket.socket(socket.AF_UNIX))
                waiting[-1].setblocking(False)
                waiting[-1].connect(path)
        except BlockingIOError:
            pass
        gateway = Gateway({"admin": {"socket": path}})
        gateway.spawn()
        try:
            assert gateway.wait() == 1
            assert any("cannot_listen" in line and "Address already in use" in line for line in gateway.log)
        finally:
            gateway.close()
        assert stat.S_ISSOCK(os.stat(path).st_mode)
        for wire in waiting:
            wire.close()


def test_no_socket_when_none_is_wanted():
    with Gateway({"admin": {"socket": ""}}) as gateway:
        assert not (gateway.data / "admin.sock").exists()
        assert command(gateway, "revocations").returncode == 2


def test_a_path_longer_than_an_address_works(tmp_path):
    folder = tmp_path / ("d" * 100) / ("e" * 100)
    folder.mkdir(parents=True)
    with Gateway({"admin": {"socket": str(folder / "a.sock")}}) as gateway:
        assert json.loads(command(gateway, "revocations").stdout)["revocations"] == []


def test_public_port_has_none_of_it(gateway):
    api = Api(gateway)
    unknown = api.ask("POST", "/no/such/path", {"owner": "x"})
    for path in ("/admin/kick", "/admin/revoke", "/admin/unrevoke"):
        assert api.ask("POST", path, {"owner": "x"}) == unknown
    assert api.ask("GET", "/admin/revocations") == api.ask("GET", "/no/such/path")
    with Client(gateway) as other:
        other.finish({"token": "x"}, conversation="c")
        assert api.ask("GET", "/conversations", Holdfast_Owner=other.owner)[1]["conversations"] == []


# ------------------------------------------------------------------ for any owner


def test_requests_are_for_the_owner_that_is_named_and_no_other(gateway, admin):
    with Client(gateway) as ann, Client(gateway) as bob:
        task, events = ann.finish({"token": "hers"}, conversation="c")
        bob.finish({"token": "his"}, conversation="c")
        there = f"/v1/conversations/c/tasks/{task['task_id']}"
        assert admin.good("GET", there, owner=ann.owner)["task"] == task
        assert admin.ask("GET", there, owner=bob.owner)[0] == 404
        assert admin.ask("GET", there, owner="nobody-yet")[0] == 404
        raw = admin.raw(f"GET {there}/events HTTP/1.1\r\nHost: x\r\nHoldfast-Owner: {ann.owner}\r\n"
                        "Connection: close\r\n\r\n".encode())
        assert [json.loads(line[6:])["seq"] for line in raw.decode().split("\n")
                if line.startswith("data: ")] == [event["seq"] for event in events]
        made = admin.good("POST", "/v1/conversations/c/tasks", {"message": program({"token": "for her"})},
                          owner=ann.owner)["task"]
        ann.resume(made)
        assert ann.wait_terminal(made)["event"] == "task.completed"
        hung = ann.chat({"token": "a"}, {"hang": 1}, conversation="c")
        ann.event(hung, "token")
        assert admin.good("DELETE", "/v1/conversations/c/tasks", owner=ann.owner)["cancelled"] == 1
        assert ann.wait_terminal(hung)["data"]["status"] == "cancelled"
        assert len(bob.call("tasks", conversation_id="c")["tasks"]) == 1


def test_owner_is_percent_encoded_where_it_must_be(gateway, admin):
    made = admin.good("POST", "/v1/conversations/c/tasks", {"message": program({"token": "x"})},
                      owner="J%c3%bcrgen%20100%25")["task"]
    assert admin.good("GET", "/v1/conversations", owner="J%C3%BCrgen%20100%25")["conversations"]
    done = command(gateway, "as", "Jürgen 100%", "GET", f"/v1/conversations/c/tasks/{made['task_id']}")
    assert done.returncode == 0 and json.loads(done.stdout)["task"]["task_id"] == made["task_id"]


@pytest.mark.parametrize("owner", [None, "", "%", "%4", "%zz", "%00", "a%0ab", "x" * 256, "%ff"])
def test_owner_must_be_one(admin, owner):
    status, answer = admin.ask("GET", "/v1/conversations", owner=owner)
    assert (status, answer["error"]["code"]) == (400, "bad_request")
    assert "Holdfast-Owner" in answer["error"]["message"]


@pytest.mark.parametrize("body", [
    b"", b"{", b"[]", b'"x"', b"{}", b'{"owner":1}', b'{"owner":""}', b'{"owner":"a\\u0000b"}',
    b'{"owner":"x","owner":"y"}', b'{"owner":"x","for_s":0}', b'{"owner":"x","for_s":1.5}',
    b'{"owner":"x","for_s":"1"}', b'{"owner":"x","for_s":315360001}', b'{"owner":"\xff"}'])
def test_malformed_orders_change_nothing(admin, body):
    for path in ("/v1/admin/revoke", "/v1/admin/kick") if b"for_s" not in body else ("/v1/admin/revoke",):
        status, answer = admin.ask("POST", path, body)
        assert (status, answer["error"]["code"]) == (400, "bad_request"), answer
    assert revocations(admin) == []


def test_what_is_no_request_is_refused_and_harms_nothing(gateway, admin):
    for junk in (b"\r\n\r\n", b"junk\r\n\r\n", b"\x16\x03\x01" + bytes(100), b"GET / HTTP/1.1\r\nA: " + b"x" * 20000):
        admin.raw(junk, shut=True)
    assert admin.ask("POST", "/v1/admin/kick")[0] == 400
    assert admin.ask("PUT", "/v1/admin/kick", {"owner": "x"})[0] == 404
    assert admin.ask("POST", "/v1/admin/other", {"owner": "x"})[0] == 404
    too_much = admin.ask("POST", "/v1/admin/kick", {"owner": "x" * 70000})
    assert too_much[0] == 413
    upgrade = admin.raw(b"GET /v1/ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
    assert b" 400" in upgrade.split(b"\r\n")[0]
    with Client(gateway) as client:
        client.finish({"token": "alive"})


def test_operators_endpoints_are_there_too(admin):
    assert admin.ask("GET", "/readyz") == (200, "ready\n")
    status, text = admin.ask("GET", "/metrics")
    assert status == 200
    assert all(LINE.match(line) for line in text.splitlines() if not line.startswith("#"))


# ------------------------------------------------------------------ kick and revoke


def test_kick_closes_all_of_the_owners_connections_and_nothing_else(gateway, admin):
    with Client(gateway) as ann, Client(gateway) as bob:
        task = ann.chat({"token": "a"}, {"wait": gateway.path("kick")}, {"final_answer": "b"}, conversation="c")
        ann.event(task, "token")
        with Client(gateway, token=ann.token) as again:
            done = command(gateway, "kick", ann.owner)
            assert (done.returncode, json.loads(done.stdout)) == (0, {"type": "ok", "closed": 2})
            assert ann.closing().code == again.closing().code == 1001
        bob.finish({"token": "untouched"})
        open(gateway.path("kick"), "w", encoding="utf-8").close()
        with Client(gateway, token=ann.token) as back:  # the task ran on
            back.resume(task)
            assert back.wait_terminal(task)["data"]["output"] == "b"
    assert admin.good("POST", "/v1/admin/kick", {"owner": "nobody"})["closed"] == 0


def test_revoke_closes_both_transports_and_holds_over_a_restart():
    with Gateway() as gateway:
        admin = Admin(gateway)
        with Client(gateway) as ann, Client(gateway) as bob:
            token, owner, his = ann.token, ann.owner, bob.token
            task = ann.chat({"token": "a"}, {"hang": 1}, conversation="c")
            ann.event(task, "token")
            wire = socket.create_connection((gateway.host, gateway.port), WAIT_S)
            wire.sendall(f"GET /v1/conversations/c/tasks/{task['task_id']}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                         f"Authorization: Bearer {token}\r\n\r\n".encode())
            got = b""
            while b"event: token" not in got:
                got += wire.recv(4096)
            assert command(gateway, "revoke", owner).returncode == 0
            assert ann.closing().code == 4401
            assert ann.log[-1]["code"] == "unauthorized"
            while piece := wire.recv(4096):
                got += piece
            assert not got.endswith(b"0\r\n\r\n")  # a cut, no clean end
            wire.close()
            bob.finish({"token": "untouched"})
        for _ in range(2):
            with Client(gateway, hello=False) as client:
                error = client.refused("unauthorized", "hello", token=token)
                assert "unknown guest" not in error["message"]
                assert client.closing().code == 4401
            assert Api(gateway, token).ask("GET", "/conversations")[0] == 401
            assert sse(Api(gateway, token), "c", task["task_id"])[0] == 401
            with pytest.raises(AssertionError):
                Client(gateway, token=token)
            assert [one["owner"] for one in revocations(admin)] == [owner]
            gateway.kill()
            gateway.start()
        Client(gateway, token=his).close()
        assert admin.good("GET", f"/v1/conversations/c/tasks/{task['task_id']}", owner=owner)
        assert command(gateway, "unrevoke", owner).returncode == 0
        with Client(gateway, token=token) as back:
            assert back.task(task)["status"] in ("failed", "running")


def test_revocation_ends_by_itself():
    with Gateway() as gateway:
        admin = Admin(gateway)
        with Client(gateway) as client:
            token, owner = client.token, client.owner
            answer = admin.good("POST", "/v1/admin/revoke", {"owner": owner, "for_s": 3600})
            assert client.closing().code == 4401 and answer["closed"] == 1
        assert revocations(admin) == [
            {"owner": owner, "until": answer["until"]}]
        admin.good("POST", "/v1/admin/revoke", {"owner": owner, "for_s": 1})  # the later order counts
        wait_until(lambda: Api(gateway, token).ask("GET", "/conversations")[0] == 200, "the end")
        gateway.stop()
        gateway.start()  # and is forgotten then
        assert revocations(admin) == []


AS = "it is holdfast admin as OWNER METHOD PATH [BODY]"


@pytest.mark.parametrize("arguments, why", [
    ([], "admin needs a verb"), (["other"], 'admin has no verb "other"'), (["kick"], "it is holdfast admin kick OWNER"),
    (["kick", "a", "b"], "it is holdfast admin kick OWNER"), (["drain", "a", "b"], "it is holdfast admin drain WORKER"),
    (["as", "o", "GET"], AS), (["as", "o", "GET", "path"], AS), (["as", "o", "GET", "/a b"], AS),
    (["revoke", "o", "--ttl", "soon"], "--ttl is a time such as 90s, 15m, 1h or 7d")])
def test_command_says_what_it_wants(gateway, arguments, why):
    done = command(gateway, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"holdfast: {why} (more: holdfast admin --help)\n"


def test_command_without_a_gateway(tmp_path):
    done = run("admin", "--data", str(tmp_path), "revocations")
    assert done.returncode == 1 and "no gateway answers at" in done.stderr
    assert pathlib.Path(BINARY).exists()


def test_command_tells_a_refusal(gateway):
    done = command(gateway, "as", "ann", "GET", "/v1/conversations/c/tasks/01" + "0" * 24)
    assert done.returncode == 1 and json.loads(done.stdout)["error"]["code"] == "not_found"
    assert Refused is not None and ids is not None
