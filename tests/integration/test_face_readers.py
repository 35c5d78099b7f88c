"""A reader of a face that takes nothing costs a cursor, not a queue; and when it reads, it gets all of it.  A stream that
is cut before its last message has no clean end."""

import http.client
import json
import socket

import pytest

from faces import SOCKETS, STREAMS, filled, head_of
from gateway import SANITIZE, Gateway, run, wait_until
from holdfast import Client, ids, program
from short import rest
from wire import TEXT, Wire

MIB = 1 << 20
N, BYTES = 20_000, 1000  # 20 MB of text: each token is its number, a space, and so many characters
SIZE = sum(len(str(n)) + 1 + BYTES for n in range(1, N + 1))
UNPACED = {"limits": {"requests_per_second": 100_000, "burst": 100_000}}


@pytest.fixture(scope="module")
def told():
    with Gateway(UNPACED) as gateway:
        gateway.said = program({"flood": N, "bytes": BYTES}, {"hang": 1})
        with Client(gateway) as client:
            task = client.chat(gateway.said, conversation="c", request_key="flood", agent="script")
            wait_until(lambda: client.call("task", **ids(task))["task"]["head"] > N, "the flood on disk")
        gateway.task = task
        yield gateway, client  # who it is; nobody would read its own connection meanwhile
        with Client(gateway, token=client.token) as client:
            client.call("cancel", **ids(task))


@pytest.mark.parametrize("face", rest(*SOCKETS))
def test_reader_that_takes_nothing_costs_a_cursor(told, face):
    gateway, client = told
    path, frames, text_of = SOCKETS[face]
    path = filled(path, gateway.task, gateway.said)
    heap = gateway.heap()
    wires = [Wire(gateway, path=f"{path}token={client.token}", headers={"Sec-WebSocket-Protocol": None}, rcvbuf=4096)
             for _ in range(20)]
    for wire in wires:
        for frame in frames:
            wire.text(json.dumps(frame))
    n = 0
    while n < SIZE:
        payload = wires[0].until(TEXT)
        assert payload is not None, f"it ended after {n} bytes"
        n += len(text_of(json.loads(payload)))
    assert n == SIZE
    if not SANITIZE:
        grown = gateway.heap() - heap
        assert grown < 20 * MIB, f"{grown / MIB:.1f} MiB for twenty readers of {SIZE / MIB:.0f} each"
    for wire in wires:
        wire.close()


def asked(gateway, method, path, body, headers, rcvbuf=None):
    sock = socket.socket()
    if rcvbuf:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
    sock.connect((gateway.host, gateway.port))
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    sock.sendall(f"{method} {path} HTTP/1.1\r\nHost: {gateway.host}:{gateway.port}\r\n"
                 f"Content-Length: {len(body)}\r\n{head}\r\n{body}".encode())
    return sock


@pytest.mark.parametrize("face", rest(*STREAMS))
def test_stream_that_nobody_reads_costs_a_cursor(told, face):
    gateway, client = told
    method, path, body, text_of = STREAMS[face]
    path, body = (filled(text, gateway.task, gateway.said) for text in (path, body))
    headers = head_of(client)
    heap = gateway.heap()
    socks = [asked(gateway, method, path, body, headers, rcvbuf=4096) for _ in range(5)]
    for sock in socks:
        assert sock.recv(15) == b"HTTP/1.1 200 OK"  # and nobody reads on
    connection = http.client.HTTPConnection(gateway.host, gateway.port)
    connection.request(method, path, body or None, headers)
    n = 0
    answer = connection.getresponse()
    assert answer.status == 200
    while n < SIZE:
        line = answer.readline()
        assert line, f"it ended after {n} bytes"
        if line.startswith(b"data:") and line[5:].strip() not in (b"", b"[", b"]"):
            n += len(text_of(json.loads(line[5:])))
    assert n == SIZE
    if not SANITIZE:
        grown = gateway.heap() - heap
        assert grown < 20 * MIB, f"{grown / MIB:.1f} MiB for five readers of {SIZE / MIB:.0f} each"
    for sock in socks:
        sock.close()
    connection.close()


# ------------------------------------------------------------------ a cut has no clean end


@pytest.fixture(scope="module")
def running():
    """One turn that runs, of an owner who is thrown out by the operator again and again."""
    with Gateway(UNPACED) as gateway, Client(gateway) as client:
        gateway.said = program({"token": "said"}, {"hang": 1})
        gateway.task = client.chat(gateway.said, conversation="c", request_key="flood", agent="script")
        wait_until(lambda: client.call("task", **ids(gateway.task))["task"]["head"] >= 3, "the text on disk")
        yield gateway, client


def kick(gateway, client):
    files = ["--config", str(gateway.folder / "config.json"), "--data", str(gateway.data)]
    done = run("admin", *files, "kick", client.owner)
    assert done.returncode == 0, done.stderr


def raw(sock, until):
    """All that comes until the bytes are there, or, with None, to the end of the connection."""
    sock.settimeout(30)
    got = b""
    while until is None or until not in got:
        try:
            some = sock.recv(65536)
        except ConnectionResetError:
            some = b""
        if not some:
            assert until is None, got
            return got
        got += some
    return got


@pytest.mark.parametrize("face", STREAMS)
def test_stream_that_is_cut_has_no_last_chunk(running, face):
    gateway, client = running
    method, path, body, _ = STREAMS[face]
    path, body = (filled(text, gateway.task, gateway.said) for text in (path, body))
    sock = asked(gateway, method, path, body, head_of(client))
    got = raw(sock, b"said")
    assert b"transfer-encoding: chunked" in got.lower()
    kick(gateway, client)
    got += raw(sock, None)
    assert not got.endswith(b"0\r\n\r\n")
    sock.close()


@pytest.mark.parametrize("face", rest(*SOCKETS))
def test_socket_that_is_cut_says_no_end(running, face):
    gateway, client = running
    path, frames, text_of = SOCKETS[face]
    wire = Wire(gateway, path=f"{filled(path, gateway.task, gateway.said)}token={client.token}",
                headers={"Sec-WebSocket-Protocol": None})
    for frame in frames:
        wire.text(json.dumps(frame))
    said = ""
    while said != "said":
        said += text_of(json.loads(wire.until(TEXT)))
    kick(gateway, client)
    rest = []
    while (payload := wire.until(TEXT)) is not None:
        rest.append(payload.decode())
    assert not [text for text in rest if "completed" in text or '"end"' in text or "turn_ended" in text], rest
    wire.close()
