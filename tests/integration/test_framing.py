"""Frames: fragments, control frames between them, and what is not WebSocket (PROTOCOL.md 1, 6)."""

import json
import os
import threading

import pytest

from gateway import SANITIZE, wait_until
from holdfast import Client, program
from wire import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, Wire, frame

HELLO = '{"type":"hello","id":"1"}'


@pytest.fixture
def wire(gateway):
    """A raw connection that has been welcomed."""
    with Wire(gateway) as made:
        made.text(HELLO)
        made.until_text("welcome")
        yield made


def ping_line(id, size=0):
    return json.dumps({"type": "ping", "id": id, "x": "x" * size}).encode()


def chat_line(id, message):
    return json.dumps({"type": "chat", "id": id, "message": message}, ensure_ascii=False).encode()


# ------------------------------------------------------------------ fragments (F48)


@pytest.mark.parametrize("n", [1, 2, 3, 100])
@pytest.mark.parametrize("size", [20, 28000, 65000])
def test_fragments_make_one_message(gateway, wire, n, size):
    message = program({"token": "é" * (size // 2)})
    line = chat_line("f", message)
    for part in wire.fragments(line, n):
        wire.send(part)
    started = wire.until_text('"started"')
    assert started.count('"type":"started"') == 1
    done = started if "task.completed" in started else wire.until_text("task.completed")
    line = next(line for line in done.split("\n") if "task.completed" in line)
    assert json.loads(line)["data"]["output"] == "é" * (size // 2)


def test_one_byte_writes_make_one_message(wire):
    for byte in frame(TEXT, ping_line("b", 500)):
        wire.send(bytes([byte]))
    wire.until_text('"pong"')


def test_one_byte_fragments_make_one_message(wire):
    line = ping_line("b", 300)
    for part in wire.fragments(line, len(line)):
        wire.send(part)
    wire.until_text('"pong"')


def test_two_messages_in_one_segment(wire):
    wire.send(frame(TEXT, ping_line("a")) + frame(TEXT, ping_line("b")))
    first = wire.until_text('"id":"a"')
    assert '"id":"b"' in first or wire.until_text('"id":"b"')


def test_empty_final_fragment(wire):
    wire.send(frame(TEXT, ping_line("a"), fin=False) + frame(CONTINUATION, b""))
    wire.until_text('"id":"a"')


def test_empty_message_is_ignored(wire):
    wire.send(frame(TEXT, b"") + frame(TEXT, ping_line("a")))
    assert "error" not in wire.until_text('"id":"a"')


def test_character_cut_by_a_fragment_is_whole(wire):
    line = '{"type":"ping","id":"ключ😀"}'.encode()
    cut = line.index("😀".encode()) + 2
    wire.send(frame(TEXT, line[:cut], fin=False) + frame(CONTINUATION, line[cut:]))
    assert "ключ😀" in wire.until_text('"pong"')


# ------------------------------------------------------------------ control frames (F53)


def test_ping_frame_is_answered_with_its_payload(wire):
    for payload in (b"", b"hello", b"x" * 125):
        wire.send(frame(PING, payload))
        assert wire.until(PONG) == payload


def test_ping_between_fragments(wire):
    line = ping_line("a")
    wire.send(frame(TEXT, line[:5], fin=False) + frame(PING, b"p") + frame(CONTINUATION, line[5:]))
    seen = {}
    while len(seen) < 2:
        opcode, payload = wire.recv()
        seen[opcode] = payload
    assert seen[PONG] == b"p" and b'"id":"a"' in seen[TEXT]


def test_close_between_fragments(wire):
    line = ping_line("a")
    wire.send(frame(TEXT, line[:5], fin=False) + frame(CLOSE, b"\x03\xe8"))
    assert wire.close_code() in (1000, None)


@pytest.mark.parametrize("payload,codes", [
    (b"\x03\xe8bye", (1000,)), (b"\x0f\xa0", (4000,)), (b"", (None, 1000)),
    (b"\x03", (1002, 3, None)), (b"\x03\xed", (1002, None)), (b"\x03\xe8\xff\xfe", (1007, 1002, None)),
], ids=["1000", "4000", "empty", "one_byte", "1005", "not_utf8"])
def test_close_frame_is_answered(wire, payload, codes):
    wire.send(frame(CLOSE, payload))
    assert wire.close_code() in codes


ILLEGAL = {
    "continuation_of_nothing": [frame(CONTINUATION, b"x")],
    "text_inside_a_message": [frame(TEXT, b'{"type"', fin=False), frame(TEXT, b'{"type":"ping"}')],
    "ping_of_126": [frame(PING, b"x" * 126)],
    "fragmented_ping": [frame(PING, b"x", fin=False)],
    "opcode_3": [frame(3, b"x")],
    "opcode_7": [frame(7, b"x")],
    "opcode_11": [frame(11, b"x")],
    "reserved_bit": [frame(TEXT, ping_line("illegal"), rsv=4)],
    "reserved_bit_2": [frame(TEXT, ping_line("illegal"), rsv=2)],
    "length_2_63": [frame(TEXT, b"", length=2**63)],
    "length_2_64": [frame(TEXT, b"", length=2**64 - 1)],
    "continuation_2_63": [frame(TEXT, b"{", fin=False), frame(CONTINUATION, b"", length=2**63)],
}


@pytest.mark.parametrize("kind", ILLEGAL)
def test_illegal_frames_end_the_connection(gateway, client, wire, kind):  # F51, F53
    for data in ILLEGAL[kind]:
        wire.send(data)
    wire.send(frame(TEXT, ping_line("after")))
    ended = wire.close_code()
    assert ended in (1002, 1009, None)
    client.quiet()  # nobody else feels it


@pytest.mark.parametrize("before_hello", [False, True])
@pytest.mark.parametrize("length", [2**32, 2**31, 2**63 - 1, 10**6])
def test_announced_length_beyond_the_limit(gateway, client, length, before_hello):  # F51
    rss = gateway.rss()
    wires = [Wire(gateway) for _ in range(20)]
    for wire in wires:
        if not before_hello:
            wire.text(HELLO)
            wire.until_text("welcome")
        wire.send(frame(TEXT, b"x" * 1000, length=length, key=b"\0\0\0\0"))
        wire.send(b"x" * 70000)
    assert {wire.close_code() for wire in wires} <= {1009, 1002, None}
    client.quiet()
    if not SANITIZE:
        assert gateway.rss() - rss < 8 << 20


@pytest.mark.parametrize("before_hello", [False, True])
def test_endless_small_fragments_are_bounded(gateway, client, before_hello):  # F51
    rss = gateway.rss()
    with Wire(gateway) as wire:
        if not before_hello:
            wire.text(HELLO)
            wire.until_text("welcome")
        wire.send(frame(TEXT, b"{", fin=False))
        block = frame(CONTINUATION, b"x", fin=False) * 1000
        for _ in range(200):
            if not wire.send(block):
                break
        assert wire.close_code() in (1009, None)
    client.quiet()
    if not SANITIZE:
        assert gateway.rss() - rss < 4 << 20


def test_endless_large_fragments_are_bounded(gateway, client):  # F51
    rss = gateway.rss()
    with Wire(gateway) as wire:
        wire.text(HELLO)
        wire.until_text("welcome")
        wire.send(frame(TEXT, b"{", fin=False))
        block = frame(CONTINUATION, b"x" * 30000, fin=False)
        for _ in range(300):
            if not wire.send(block):
                break
        assert wire.close_code() in (1009, None)
    client.quiet()
    if not SANITIZE:
        assert gateway.rss() - rss < 4 << 20


def test_fragments_are_counted_together(gateway):
    with Wire(gateway) as wire:
        wire.text(HELLO)
        wire.until_text("welcome")
        line = ping_line("z", 65536)
        for part in wire.fragments(line, 40):
            wire.send(part)
        assert wire.close_code() == 1009


def test_hello_fragments_are_counted_against_32_kib(gateway):
    with Wire(gateway) as wire:
        line = json.dumps({"type": "hello", "x": "x" * 33000}).encode()
        for part in wire.fragments(line, 40):
            wire.send(part)
        assert wire.close_code() == 1009


def test_close_code_is_readable_after_junk(gateway):
    """Input after the fatal frame must not reset the close away (Spares)."""
    with Wire(gateway) as wire:
        wire.text(HELLO)
        wire.until_text("welcome")
        wire.send(frame(TEXT, ping_line("z", 70000)))
        for _ in range(50):
            if not wire.send(frame(BINARY, os.urandom(60000))):
                break
        assert wire.close_code() in (1009, None)


# ------------------------------------------------------------------ floods of control frames


def test_ping_flood_of_a_peer_that_does_not_read(gateway, client):  # Spares, F43
    rss = gateway.rss()
    with Wire(gateway, rcvbuf=4096) as wire:
        wire.text(HELLO)
        wire.until_text("welcome")
        wire.sock.settimeout(0.5)
        block = frame(PING, b"x" * 100) * 100
        try:
            for _ in range(1000):
                if not wire.send(block):
                    break
        except TimeoutError:
            pass
        client.quiet()
        if not SANITIZE:
            assert gateway.rss() - rss < 4 << 20


def test_pong_flood_is_harmless(wire):
    for _ in range(100):
        wire.send(frame(PONG, b"unasked") * 100)
    wire.send(frame(TEXT, ping_line("a")))
    wire.until_text('"id":"a"')


# ------------------------------------------------------------------ before the upgrade


@pytest.mark.parametrize("data", [
    b"\r\n\r\n", b"GET /v1/ws HTTP/1.1\r\n\r\n", b"rubbish\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
    b"GET /v1/ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    b"GET /v1/ws HTTP/1.1\r\nX: " + b"x" * 100000 + b"\r\n\r\n",
    b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n", b"\x00" * 5000,
], ids=["empty", "no_host", "rubbish", "tls", "no_key", "huge_header", "huge_path", "zeros"])
def test_rubbish_instead_of_http(gateway, client, data):
    with Wire(gateway, upgrade=False) as wire:
        wire.send(data)
        wire.sock.settimeout(0.3)
        try:
            while wire._more():
                pass
        except TimeoutError:
            pass
        assert b"101" not in bytes(wire.buffer[:20])
    client.quiet()


def test_connections_that_come_and_go_leave_nothing(gateway, client):
    def storm():
        for i in range(40):
            try:
                with Wire(gateway, upgrade=i % 4 != 0) as wire:
                    if i % 4 == 1:
                        wire.text(HELLO)
                    if i % 4 == 2:
                        wire.text(HELLO)
                        wire.until_text("welcome")
                        wire.send(frame(TEXT, b"{", fin=False))
            except OSError:
                pass

    client.quiet()
    before = gateway.n_fds()
    threads = [threading.Thread(target=storm) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_until(lambda: gateway.n_fds() <= before, "the descriptors' end")
    with Client(gateway) as again:
        again.quiet()
