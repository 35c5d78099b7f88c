"""PROXY headers: who a trusted proxy names is the client; what is cut off, too long, slow or nobody's is refused."""

import json
import socket
import struct
import time

import pytest

from gateway import LATE_S, WAIT_S, Gateway, run, wait_until
from holdfast import Client

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
GET = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


def v1(client="203.0.113.7", family="TCP4", to="192.0.2.1"):
    return f"PROXY {family} {client} {to} 51000 443\r\n".encode()


def v2(client="203.0.113.7", command=0x21, family=None, tail=b"", length=None):
    v6 = ":" in client
    packed = socket.inet_pton(socket.AF_INET6 if v6 else socket.AF_INET, client)
    body = packed * 2 + struct.pack("!HH", 51000, 443) + tail
    return SIGNATURE + struct.pack("!BBH", command, family or (0x21 if v6 else 0x11),
                                   len(body) if length is None else length) + body


@pytest.fixture(scope="module")
def proxied():
    """127.0.0.1 is a proxy; 127.0.0.2 is nobody."""
    with Gateway({"proxy_protocol": True, "trusted_proxies": ["127.0.0.1"],
                  "limits": {"connections_per_address": 4}}) as gateway:
        yield gateway


def say(gateway, *pieces, source="127.0.0.1", rest=False):
    """The answer to these pieces, each sent by itself."""
    with socket.create_connection((gateway.host, gateway.port), WAIT_S, (source, 0)) as wire:
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        got = b""
        try:
            for piece in pieces:
                wire.sendall(piece)
            if rest:
                wire.shutdown(socket.SHUT_WR)
            while piece := wire.recv(65536):
                got += piece
        except ConnectionError:
            pass
        return got


HEADERS = {"v1": v1(), "v1 of IPv6": v1("2001:db8::7", "TCP6", "2001:db8::1"), "v1 unknown": b"PROXY UNKNOWN\r\n",
           "v1 unknown with more": b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n",
           "v2": v2(), "v2 of IPv6": v2("2001:db8::7"), "v2 with TLVs": v2(tail=b"\x04\x00\x03abc"),
           "v2 local": v2(command=0x20), "v2 local without addresses": SIGNATURE + b"\x20\x00\x00\x00",
           "v2 of 2048 bytes": v2(tail=bytes(2048 - 28))}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_header_is_taken_and_what_follows_is_served(proxied, header):
    assert say(proxied, header + GET).startswith(b"HTTP/1.1 200")
    assert say(proxied, header, GET).startswith(b"HTTP/1.1 200")
    assert say(proxied, *(bytes([byte]) for byte in header[:200]), header[200:] + GET[:7], GET[7:]
               ).startswith(b"HTTP/1.1 200")


BAD = {"none": GET, "v1 without an address": b"PROXY TCP4\r\n", "v1 of a name": v1("localhost"),
       "v1 of the other family": v1("2001:db8::7"), "v1 with a bad port": b"PROXY TCP4 1.2.3.4 1.2.3.5 70000 1\r\n",
       "v1 with more": b"PROXY TCP4 1.2.3.4 1.2.3.5 1 2 3\r\n", "v1 too long": b"PROXY UNKNOWN " + b"x" * 100 + b"\r\n",
       "v1 in small letters": b"proxy TCP4 1.2.3.4 1.2.3.5 1 2\r\n", "v2 of UDP": v2(family=0x12),
       "v2 of a Unix socket": v2(family=0x31), "v2 of another version": v2(command=0x11),
       "v2 with an unknown command": v2(command=0x22), "v2 cut short": v2(length=11),
       "v2 too long": v2(tail=bytes(2049 - 28)), "v2 of 64 KiB": v2(length=65535), "TLS": b"\x16\x03\x01\x02\x00\x01",
       "not quite v2": SIGNATURE[:-1] + b"\r"}


@pytest.mark.parametrize("header", BAD.values(), ids=BAD)
def test_what_is_no_header_is_refused_without_an_answer(proxied, header):
    assert say(proxied, header + GET) == b""
    wait_until(lambda: "event=refused" in "\n".join(proxied.log), "the line in the log")


@pytest.mark.parametrize("header", [v1(), v2()])
def test_header_that_is_cut_off_is_refused(proxied, header):
    for n in (0, 1, 11, len(header) - 1):
        assert say(proxied, header[:n], rest=True) == b""


def test_header_that_does_not_come_is_not_waited_for(proxied):
    start = time.monotonic()
    assert say(proxied) == b"" and say(proxied, v2()[:15]) == b""
    assert 9 < time.monotonic() - start < 10 + 2 * LATE_S
    with socket.create_connection((proxied.host, proxied.port), WAIT_S) as wire:  # a byte a second buys no time
        start, closed = time.monotonic(), False
        for byte in v1():
            try:
                wire.sendall(bytes([byte]))
                wire.settimeout(0.5)
                closed = wire.recv(1) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                closed = True
            if closed:
                break
        assert closed and time.monotonic() - start < 5 + LATE_S


def test_who_is_no_proxy_names_nobody(proxied):
    assert say(proxied, GET, source="127.0.0.2").startswith(b"HTTP/1.1 200")
    for header in (v1(), v2()):
        assert say(proxied, header + GET, source="127.0.0.2") == b""
        assert say(proxied, *(bytes([byte]) for byte in header[:12]), header[12:] + GET, source="127.0.0.2") == b""
    post = b"POST /v1/guest HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    assert say(proxied, *(bytes([byte]) for byte in post), source="127.0.0.2").startswith(b"HTTP/1.1 200")


def upgraded(gateway, client):
    """The status of an upgrade, and the socket."""
    wire = socket.create_connection((gateway.host, gateway.port), WAIT_S)
    wire.sendall(v2(client) + b"GET /v1/ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                 b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
    return int(wire.recv(65536).split()[1]), wire


def test_limits_count_the_client_and_not_the_proxy(proxied):
    held = [upgraded(proxied, "198.51.100.1") for _ in range(2)]  # strangers: half of 4
    assert [status for status, _ in held] == [101, 101]
    assert upgraded(proxied, "198.51.100.1")[0] == 503
    other = [upgraded(proxied, f"198.51.100.{i}") for i in range(2, 12)]
    assert [status for status, _ in other] == [101] * 10
    wait_until(lambda: any("peer=198.51.100.11" in line for line in list(proxied.log)), "the line in the log")
    for _, wire in held + other:
        wire.close()
    wait_until(lambda: upgraded(proxied, "198.51.100.1")[0] == 101, "room again")


def test_metrics_are_for_the_client_that_is_named(proxied):
    ask = GET.replace(b"/healthz", b"/metrics")
    assert say(proxied, v2() + ask).startswith(b"HTTP/1.1 403")
    assert say(proxied, v2("127.0.0.1") + ask).startswith(b"HTTP/1.1 200")
    assert say(proxied, v2(command=0x20) + ask).startswith(b"HTTP/1.1 200")


def test_forwarded_for_counts_only_behind_a_proxy_that_is_named(proxied):
    ask = GET.replace(b"/healthz", b"/metrics").replace(b"Host", b"X-Forwarded-For: 127.0.0.9\r\nHost")
    assert say(proxied, v2("203.0.113.9") + ask).startswith(b"HTTP/1.1 403")


def test_off_by_default_and_wants_trusted_proxies(tmp_path, gateway):
    ask = GET.replace(b"/healthz", b"/metrics")
    for header in (v1(), v2()):  # nobody is believed: what is answered, if anything, is for 127.0.0.1
        assert say(gateway, header + ask).split(b"\r\n")[0] in (b"", b"HTTP/1.1 200 OK", b"HTTP/1.1 400 Bad Request")
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"proxy_protocol": True}))
    done = run("check-config", str(path))
    assert done.returncode == 2 and "proxy_protocol: needs trusted_proxies" in done.stderr
    with Client(gateway) as client:
        client.finish({"token": "x"})


def test_stop_does_not_wait_for_headers():
    with Gateway({"proxy_protocol": True, "trusted_proxies": ["127.0.0.0/8"]}) as gateway:
        wires = [socket.create_connection((gateway.host, gateway.port), WAIT_S) for _ in range(5)]
        assert gateway.stop() == 0
        for wire in wires:
            wire.close()
