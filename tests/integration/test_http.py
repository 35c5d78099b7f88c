"""The HTTP side that a browser or a load balancer sees first (PROTOCOL.md 7)."""

import contextlib
import json
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


# ------------------------------------------------------------------ what libwebsockets would answer, or not, by itself

JAVA = "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA"


def said_to(gateway, request):
    """All that the gateway says to these bytes, up to its end of the connection."""
    with socket.create_connection((gateway.host, gateway.port), WAIT_S) as wire:
        wire.sendall(request.encode())
        said = b""
        with contextlib.suppress(ConnectionError):
            while piece := wire.recv(65536):
                said += piece
        return said


def once(gateway, line, *headers):
    """One request whose answer ends the connection."""
    return "\r\n".join([f"{line} HTTP/1.1", f"Host: {gateway.host}:{gateway.port}", *headers, "", ""])


@pytest.mark.parametrize("offer", [
    JAVA, "Upgrade: h2c\r\nConnection: Upgrade", "Upgrade: TLS/1.2\r\nConnection: Upgrade", "Upgrade: h2c",
    "Upgrade: TLS/1.2, h2c\r\nConnection: upgrade", "Upgrade: IRC/6.9, RTA/x11\r\nConnection: upgrade",
    "Upgrade: h2c\r\nUpgrade: TLS/1.0\r\nConnection: Upgrade", "Upgrade: " + "x" * 2000, "Upgrade:",
], ids=["java", "h2c", "tls", "bare", "list", "irc", "twice", "long", "empty"])
def test_offer_of_another_protocol_is_ignored(gateway, client, offer):
    """RFC 9110 7.8: a server may ignore an offer, and goes on in HTTP/1.1."""
    with socket.create_connection((gateway.host, gateway.port), WAIT_S) as wire:
        stream = wire.makefile("rb")
        for _ in range(2):  # the connection goes on, too
            wire.sendall(f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n{offer}\r\n\r\n".encode())
            assert stream.readline() == b"HTTP/1.1 200 OK\r\n"
            while stream.readline().strip():
                pass
            assert stream.read(6) == b"alive\n"
        wire.sendall(f"POST /v1/conversations/c-h2c/tasks HTTP/1.1\r\nHost: 127.0.0.1\r\n{offer}\r\n"
                     f"Authorization: Bearer {client.token}\r\nContent-Type: application/json\r\n"
                     'Content-Length: 15\r\n\r\n{"message":"x"}'.encode())
        assert stream.readline().startswith(b"HTTP/1.1 201 ")


UNREAD = {
    "nul_in_a_name": "GET /a%00b", "nul_behind_a_slash": "GET /%00", "nul_then_a_name": "GET /%00x",
    "nul_in_an_id": "GET /v1/conversations/c%00/tasks", "nul_in_the_query": "GET /healthz?a=%00",
    "no_escape": "GET /a%zz", "cut_escape": "GET /a%", "other_method": "BREW /", "http_2": "PRI *",
    "absolute": "GET http://127.0.0.1/healthz", "star": "GET *", "nul_of_delete": "DELETE /v1/conversations/c%00d",
}


@pytest.mark.parametrize("kind", UNREAD)
def test_head_that_cannot_be_read_is_told_so_in_our_words(gateway, kind):
    said = said_to(gateway, once(gateway, UNREAD[kind]))
    head, _, body = said.partition(b"\r\n\r\n")
    assert head.split(b" ", 2)[1] == b"400" and b"application/json" in head, said
    assert json.loads(body)["error"]["code"] == "bad_request"


def test_head_that_is_too_long_is_told_so(gateway):
    said = said_to(gateway, once(gateway, "GET /healthz", *[f"X-{i}: {'x' * 1000}" for i in range(17)]))
    assert said.split(b" ", 2)[1] == b"400" and b'"bad_request"' in said
    assert said.count(b"HTTP/1.") == 1


@pytest.mark.parametrize("connection", [[], ["Connection: keep-alive"], ["Connection: close"]])
def test_upgrade_without_its_connection_header_is_told_so(gateway, connection):
    """As behind a proxy that was not told to pass it on (RFC 6455 4.2.1)."""
    said = said_to(gateway, once(
        gateway, "GET /v1/ws", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", *connection))
    assert said.split(b" ", 2)[1] == b"400" and b"Connection" in said.partition(b"\r\n\r\n")[2], said


def test_end_of_a_connection_that_asked_for_nothing_is_silent(gateway):
    """No answer to a request that was never made: it would be taken for the answer to the next one."""
    with socket.create_connection((gateway.host, gateway.port), WAIT_S) as wire:
        wire.shutdown(socket.SHUT_WR)
        assert wire.recv(4096) == b""
    with socket.create_connection((gateway.host, gateway.port), WAIT_S) as wire:
        wire.sendall(once(gateway, "GET /healthz").encode())
        wire.shutdown(socket.SHUT_WR)
        said = b""
        while piece := wire.recv(4096):
            said += piece
        assert said.count(b"HTTP/1.") == 1 and said.endswith(b"alive\n")
