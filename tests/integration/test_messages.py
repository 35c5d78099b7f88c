"""Messages at their limits, however they are cut, and large events to slow readers (PROTOCOL.md 1, 4, 6)."""

import hashlib
import json
import os
import re
import threading

import pytest

from gateway import SANITIZE, wait_until
from holdfast import Client, ids, new_id
from test_framing import ILLEGAL
from test_slow import Probe, welcome_and_resume
from wire import BINARY, CONTINUATION, PING, TEXT, Wire, deflated, frame

CONFIG = {"compression": False}  # test_deflate.py has it on
HELLO = '{"type":"hello","id":"1","token":"%s"}'
LIMIT = 65536
MIB = 1 << 20


def connected(gateway, token, **options):
    wire = Wire(gateway, **options)
    wire.text(HELLO % token)
    wire.until_text("welcome")
    return wire


def chat_of(size, conversation):
    """A chat of exactly that many bytes, its message not the same at any two places."""
    head = json.dumps({"type": "chat", "id": "c", "conversation_id": conversation, "message": "\0"}, ensure_ascii=False)
    room = size - len(head.encode()) + len("\\u0000")
    text, n = [], 0
    for i in range(room):
        piece = f"é{i} "
        if n + len(piece.encode()) > room:
            break
        text.append(piece)
        n += len(piece.encode())
    text = "".join(text) + "x" * (room - n)
    line = head.replace("\\u0000", text).encode()
    assert len(line) == size
    return line, hashlib.sha256(text.encode()).hexdigest()


def one_byte_writes(wire, line):
    """A frame in one-byte TCP segments, as far as the kernel lets them be."""
    data = frame(TEXT, line)
    for i in range(0, 600):
        wire.send(data[i : i + 1])
    wire.send(data[600:-600])
    for i in range(len(data) - 600, len(data)):
        wire.send(data[i : i + 1])


def fragments(wire, line):
    wire.send(b"".join(wire.fragments(line, 100)))


def fragments_and_pings(wire, line):
    for part in wire.fragments(line, 100):
        wire.send(part + frame(PING, b"between"))


def empty_last_fragment(wire, line):
    wire.send(frame(TEXT, line, fin=False) + frame(CONTINUATION, b""))


HOWS = {"whole": lambda wire, line: wire.send(frame(TEXT, line)), "one_byte_writes": one_byte_writes,
        "fragments": fragments, "fragments_and_pings": fragments_and_pings,
        "empty_last_fragment": empty_last_fragment}


def is_one_task(client, conversation, digest):
    """It was asked once, with that text, and said it back, as one token."""
    tasks = client.call("tasks", conversation_id=conversation)["tasks"]
    assert len(tasks) == 1
    wait_until(lambda: client.task(tasks[0])["status"] == "completed", "its end")
    created = client.replay(tasks[0], 0)[0]
    assert hashlib.sha256(created["data"]["input"].encode()).hexdigest() == digest
    assert client.task(tasks[0])["output"] == created["data"]["input"]


@pytest.mark.parametrize("size", [28000, LIMIT - 1, LIMIT])
@pytest.mark.parametrize("how", HOWS)
def test_chat_up_to_the_limit_is_one_task_with_its_text(gateway, client, how, size):  # F48, F52
    conversation = new_id()
    line, digest = chat_of(size, conversation)
    with connected(gateway, client.token) as wire:
        HOWS[how](wire, line)
        wire.until_text('"started"')
        is_one_task(client, conversation, digest)


@pytest.mark.parametrize("over", [1, 2, 1000])
@pytest.mark.parametrize("how", HOWS)
def test_chat_over_the_limit_is_1009_and_starts_nothing(gateway, client, how, over):  # F48, F52
    conversation = new_id()
    with connected(gateway, client.token) as wire:
        HOWS[how](wire, chat_of(LIMIT + over, conversation)[0])
        assert wire.close_code() == 1009
    assert client.call("tasks", conversation_id=conversation)["tasks"] == []


# ------------------------------------------------------------------ what is not served

OFFERS = ["permessage-deflate", "permessage-deflate; client_max_window_bits",
          "permessage-deflate; server_no_context_takeover; client_no_context_takeover",
          "x-webkit-deflate-frame, permessage-deflate"]


@pytest.mark.parametrize("offer", OFFERS)
def test_compression_that_is_off_is_not_taken_and_a_bomb_expands_to_nothing(gateway, client, offer):  # F49, F52
    """test_deflate.py has it configured."""
    rss = gateway.rss()
    with Wire(gateway, headers={"Sec-WebSocket-Extensions": offer}) as wire:
        assert wire.status == 101 and "sec-websocket-extensions" not in wire.head.lower()
        wire.text(HELLO % client.token)
        wire.until_text("welcome")
        bomb = deflated(b" " * (32 * MIB), 9)
        assert len(bomb) < 60000
        wire.send(frame(TEXT, bomb, rsv=4))
        assert wire.close_code() in (1002, 1007, None)
    client.quiet()
    if not SANITIZE:
        assert gateway.rss() - rss < 4 * MIB


@pytest.mark.parametrize("kind", ILLEGAL)
def test_nothing_of_an_illegal_frame_is_carried_out(gateway, client, kind):  # F53
    conversation = new_id()
    line, _ = chat_of(400, conversation)
    with connected(gateway, client.token) as wire:
        data = b"".join(ILLEGAL[kind])
        if kind.startswith("reserved_bit"):  # else nothing, but for its bit
            data = frame(TEXT, line, rsv=4 if kind == "reserved_bit" else 2)
        wire.send(data + frame(TEXT, line))
        assert wire.close_code() in (1002, 1009, None)
    client.quiet()
    assert client.call("tasks", conversation_id=conversation)["tasks"] == []


@pytest.mark.parametrize("cut", [0, 300])
def test_nothing_behind_a_close_frame_is_carried_out(gateway, client, cut):  # F53
    """In the middle of a message, and between two."""
    conversation = new_id()
    line, _ = chat_of(400, conversation)
    start, rest = (frame(TEXT, line[:cut], fin=False), CONTINUATION) if cut else (b"", TEXT)
    for _ in range(5):
        with connected(gateway, client.token) as wire:
            wire.send(start + frame(8, b"\x03\xe8") + frame(rest, line[cut:]) * 3)
            assert wire.close_code() in (1000, None)
        client.quiet()
    assert client.call("tasks", conversation_id=conversation)["tasks"] == []


def test_unmasked_frame_is_refused_where_the_library_does(gateway, client):  # F53
    """libwebsockets 4.1.6 takes it (PROTOCOL.md 9): then it is carried out whole, or not at all."""
    conversation = new_id()
    line, _ = chat_of(400, conversation)
    with connected(gateway, client.token) as wire:
        wire.send(frame(TEXT, line, mask=False) + frame(PING, b"after"))
        opcode, _ = wire.recv() or (None, None)
    tasks = client.call("tasks", conversation_id=conversation)["tasks"]
    assert len(tasks) <= (0 if opcode in (None, 8) else 1)


# ------------------------------------------------------------------ many at once


@pytest.mark.parametrize("before_hello", [False, True])
def test_fifty_endless_messages_are_bounded_and_harm_nobody(gateway, client, before_hello):  # F51
    client.quiet()
    rss, peak = gateway.rss(), 0
    probe = Probe(gateway)
    probe.start()
    wires = [Wire(gateway) if before_hello else connected(gateway, client.token) for _ in range(50)]
    small = frame(CONTINUATION, b"x", fin=False, key=b"\0\0\0\0") * 1000
    large = frame(CONTINUATION, b"x" * 30000, fin=False, key=b"\0\0\0\0")
    for wire in wires:
        wire.send(frame(TEXT, b"{", fin=False))
    for i in range(10):  # 300 KB and a 10th of it in small ones: far beyond any limit
        for n, wire in enumerate(wires):
            wire.send(small if n % 2 else large)
        peak = max(peak, gateway.rss())
    ended = {wire.close_code() for n, wire in enumerate(wires) if n % 2 == 0}
    assert ended <= {1009, None}, ended
    probe.finish()  # each was answered; how fast, test_slow.py says, which has the machine for itself
    for wire in wires:
        wire.close()
    client.quiet()
    if not SANITIZE:
        assert peak - rss < 50 * (LIMIT + 32768), f"{(peak - rss) / MIB:.1f} MiB"


# ------------------------------------------------------------------ large events


@pytest.fixture(scope="module")
def large(gateway):
    """Two ended tasks: lines of almost 1 MiB, and the same between lines of random text."""
    with Client(gateway) as client:
        alike, _ = client.finish(*[{"line_of": MIB - 1000}] * 8)
        mixed, _ = client.finish(*[step for _ in range(4) for step in (
            {"line_of": MIB - 1000}, {"token": os.urandom(6000).hex()})])
        assert alike["status"] == mixed["status"] == "completed"
        yield client, [alike, mixed]


def read_slowly(gateway, client, task, part, **options):
    """The first part of a task's events, on a socket that takes little: each is the one that was said."""
    expected = {seq: line.encode() for seq, line in client.raw_events(task).items()}
    with Wire(gateway, rcvbuf=4096, **options) as wire:
        welcome_and_resume(wire, client.token, task)
        got = {}
        while len(got) < len(expected) * part:
            for line in wire.until(TEXT).split(b"\n"):
                if line.startswith(b'{"type":"event"'):
                    got[int(re.search(rb'"seq":(\d+)', line)[1])] = line
        assert all(expected[seq] == line for seq, line in got.items())
        return wire


def leave_in_the_middle(gateway, client, task, step, **options):
    """Twelve readers that take so many bytes more each, and go: with a close frame, a fault, or nothing."""
    before = gateway.n_fds()

    def leave(n):
        wire = Wire(gateway, rcvbuf=4096, **options)
        welcome_and_resume(wire, client.token, task)
        wire.sock.recv(1000 + n * step)
        if n % 3 == 0:
            wire.send(frame(8, b"\x03\xe8"))
        if n % 3 == 1:
            wire.send(frame(BINARY, b"x"))
        wire.close()

    threads = [threading.Thread(target=leave, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_until(lambda: gateway.n_fds() <= before, "the descriptors' end")
    assert client.call("task", **ids(task))["task"]["status"] == "completed"


@pytest.mark.parametrize("part", [0.5, 1])
def test_large_events_to_a_slow_reader_are_whole(gateway, large, part):  # F49
    client, tasks = large
    for task in tasks:
        read_slowly(gateway, client, task, part)
        client.quiet()


def test_readers_that_leave_in_the_middle_of_a_large_event(gateway, large):  # F49
    client, tasks = large
    leave_in_the_middle(gateway, client, tasks[1], 70000)
