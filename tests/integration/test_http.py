"""The HTTP side that a browser or a load balancer sees first (PROTOCOL.md 7)."""

import contextlib
import socket

import pytest

from gateway import WAIT_S


def test_page_is_served(gateway):
    status, headers, body = gateway.http("GET", "/")
    assert status == 200
    assert headers["Content-Type"].startswith("text/html")
    assert b"<html" in body.lower() or b"<!doctype" in body.lower()


def test_healthz_and_readyz(gateway):
    for path in ("/healthz", "/readyz"):
        assert gateway.http("GET", path)[0] == 200


def test_metrics_from_loopback(gateway, client):
    status, headers, body = gateway.http("GET", "/metrics")
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain")
    assert b"holdfast_connections 1" in body.replace(b"{}", b"")


def test_unknown_path_is_404(gateway):
    for path in ("/nothing", "/v1/nothing", "/../etc/passwd", "/%2e%2e/etc/passwd", "/v1"):
        assert gateway.http("GET", path)[0] in (404, 400), path


@pytest.mark.parametrize("path", ["/healthz", "/"])
def test_wrong_method_is_refused(gateway, path):
    assert gateway.http("POST", path, "x")[0] in (400, 403, 404, 405)


def test_ws_path_without_upgrade_is_no_success(gateway):
    assert gateway.http("GET", "/v1/ws")[0] >= 400


HEADS = [  # each is refused, or answered, before its body is read
    "POST /v1/conversations/c-1/tasks", "POST /v1/conversations/c-1/tasks/x/messages", "DELETE /v1/conversations/c-1",
    "POST /v1/nothing", "POST /healthz", "GET /", "GET /v1/conversations", "PUT /v1/conversations", "OPTIONS /v1/guest",
    "GET /v1/ws",
]


@pytest.mark.parametrize("upgrade", ["", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                                         "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: http://evil.example\r\n"])
@pytest.mark.parametrize("head", HEADS)
def test_body_that_comes_late_holds_nobody_up(gateway, head, upgrade):
    """libwebsockets turned for ever when a body came behind the answer: one stranger stopped the gateway."""
    text = f"{head} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 15\r\n{upgrade}\r\n"
    for wait in (True, False):
        with socket.create_connection((gateway.host, gateway.port), WAIT_S) as wire, contextlib.suppress(OSError):
            wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(3):
                wire.sendall(text.encode())
                if wait:  # a gateway that waits for the body says nothing yet
                    wire.settimeout(0.05)
                    with contextlib.suppress(TimeoutError):
                        wire.recv(4096)
                    wire.settimeout(WAIT_S)
                wire.sendall(b'{"content":"x"}')
                if not wait and not wire.recv(4096):
                    break
        assert gateway.http("GET", "/healthz")[0] == 200, (head, wait)


def test_body_is_asked_for_and_not_behind_a_refusal(gateway, client):
    """Expect: 100-continue: many clients wait a second for it, some for ever (RFC 9110 10.1.1)."""
    def head(token):
        return (f"POST /v1/conversations/c-1/tasks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                f"Authorization: Bearer {token}\r\nContent-Length: 15\r\nExpect: 100-continue\r\n\r\n").encode()

    with socket.create_connection((gateway.host, gateway.port), WAIT_S) as wire:
        stream = wire.makefile("rb")
        for _ in range(2):
            wire.sendall(head(client.token))
            assert stream.readline() + stream.readline() == b"HTTP/1.1 100 Continue\r\n\r\n"
            wire.sendall(b'{"message":"x"}')
            assert b" 201 " in stream.readline()
            length = 0
            while line := stream.readline().strip():
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            assert stream.read(length).startswith(b'{"type":"started"')
        wire.sendall(head("nobody's"))
        assert b" 401 " in stream.readline()  # and then it hangs up: what follows may be the body or not
        assert b"unauthorized" in stream.read()


def test_refused_body_is_read_and_the_connection_goes_on(gateway):
    head = (b"POST /v1/conversations/c-1/tasks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Content-Length: 15\r\n\r\n")
    with socket.create_connection((gateway.host, gateway.port), WAIT_S) as wire:
        stream = wire.makefile("rb")
        for _ in range(5):
            wire.sendall(head)
            wire.sendall(b'{"message":"x"}')
            assert b" 401 " in stream.readline()
            length = 0
            while (line := stream.readline().strip()):
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            assert b"unauthorized" in stream.read(length)


def test_refusal_of_the_head_waits_for_the_body_and_is_not_lost(gateway):
    """A client that sends them in two packets, as many do, over one connection."""
    heads = ["POST /v1/conversations/c-1/tasks", "POST /v1/nothing", "PATCH /v1/conversations/c-1"]
    with socket.create_connection((gateway.host, gateway.port), WAIT_S) as wire:
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream = wire.makefile("rb")
        for head in heads * 10:
            wire.sendall(f"{head} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                         "Content-Length: 15\r\n\r\n".encode())
            wire.sendall(b'{"message":"x"}')
            assert stream.readline().split()[1] in (b"401", b"404")
            length = 0
            while line := stream.readline().strip():
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            assert stream.read(length).startswith(b'{"error":')
