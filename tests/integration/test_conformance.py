"""The checks of a conformance suite for an echo, on the build with one (tests/holdfast_echo), whose messages go the gateway's
own way: in plain, where messages may be compressed and are not, and where they are.

Payloads of UTF-8 are those of Markus Kuhn's stress test and of tables 3-7 of the Unicode standard, by hand.
"""

import os
import pathlib
import struct

import pytest

from gateway import BINARY as HOLDFAST
from gateway import Gateway
from wire import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, Wire, deflated, frame

ECHO = pathlib.Path(HOLDFAST).resolve().parent / "tests" / "holdfast_echo"
OFFER = {"Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits"}
WAYS = ["plain", "compression_on", "compressed"]


@pytest.fixture(scope="module", params=WAYS)
def way(request):
    with Gateway({"compression": request.param != "plain"}, binary=ECHO) as gateway:
        gateway.compresses = request.param == "compressed"
        yield gateway


@pytest.fixture
def wire(way):
    with Wire(way, path="/v1/echo", headers=OFFER if way.compresses else None) as made:
        assert bool(made.window) == way.compresses
        made.compresses = way.compresses
        yield made


def message(wire, payload, opcode=TEXT, sizes=None):
    """The frames of a message, its payload (compressed where that was agreed) in fragments of these sizes; the last has
    the rest."""
    rsv = 4 if wire.compresses else 0
    if wire.compresses:
        payload = deflated(payload)
    frames, at = [], 0
    for size in sizes or []:
        frames.append((payload[at:at + size], False))
        at += size
    frames.append((payload[at:], True))
    return [frame(opcode if i == 0 else CONTINUATION, part, fin=fin, rsv=rsv if i == 0 else 0)
            for i, (part, fin) in enumerate(frames)]


def octets(n):
    return [1] * (n - 1)


def echoes(wire, payload, opcode=TEXT):
    assert wire.recv() == (opcode, payload)


def fails(wire, code):
    """Nothing is said back before the close frame."""
    assert wire.recv()[1][:2] == struct.pack(">H", code)
    wire.send(frame(CLOSE, struct.pack(">H", code)))
    assert wire.recv() is None


def closes(wire):
    """All is well to the end."""
    wire.send(frame(CLOSE, struct.pack(">H", 1000)))
    assert wire.recv() == (CLOSE, struct.pack(">H", 1000))
    assert wire.recv() is None


# ------------------------------------------------------------------ 1, 5: messages and fragments

SIZES = [0, 1, 125, 126, 127, 128, 65535, 65536, 70000]


@pytest.mark.parametrize("opcode", [TEXT, BINARY])
@pytest.mark.parametrize("size", SIZES)
def test_every_size_comes_back(wire, opcode, size):
    payload = (b"*" * size) if opcode == TEXT else os.urandom(size)
    wire.send(b"".join(message(wire, payload, opcode)))
    echoes(wire, payload, opcode)
    closes(wire)


@pytest.mark.parametrize("opcode", [TEXT, BINARY])
def test_large_messages_in_small_pieces(wire, opcode):
    payload = b"\xc3\xa9" * 500000
    frames = b"".join(message(wire, payload, opcode, sizes=[1000] * 300))
    for at in range(0, len(frames), 997):
        wire.send(frames[at:at + 997])
    echoes(wire, payload, opcode)
    closes(wire)


def test_messages_come_back_in_their_order(wire):
    sent = [b"%d" % i * 40 for i in range(200)]
    wire.send(b"".join(b"".join(message(wire, one)) for one in sent))
    for one in sent:
        echoes(wire, one)
    closes(wire)


def answers(wire, n):
    """[(opcode, payload)] of the next n frames."""
    return [wire.recv() for _ in range(n)]


def send_frames(wire, frames, chopped):
    data = b"".join(frames)
    for at in range(len(data)) if chopped else [None]:
        wire.send(data if at is None else data[at:at + 1])


@pytest.mark.parametrize("chopped", [False, True], ids=["together", "by_octets"])
def test_pong_comes_before_a_message_that_ends_after_its_ping(wire, chopped):
    """5.6, 5.8 of the suite: a ping between two fragments."""
    first, last = message(wire, b"fragment1fragment2", sizes=[9])
    send_frames(wire, [first, frame(PING, b"ping payload"), last], chopped)
    assert answers(wire, 2) == [(PONG, b"ping payload"), (TEXT, b"fragment1fragment2")]
    closes(wire)


@pytest.mark.parametrize("chopped", [False, True], ids=["together", "by_octets"])
def test_both_pongs_come_before_a_message_that_ends_after_their_pings(wire, chopped):
    """5.19, 5.20 of the suite: fragments, a ping, and when it is answered fragments, a ping and the last fragment."""
    parts = message(wire, b"fragment1fragment2fragment3fragment4fragment5", sizes=[9] * 4)
    send_frames(wire, [*parts[:2], frame(PING, b"pongme 1!")], chopped)
    assert wire.recv() == (PONG, b"pongme 1!")
    send_frames(wire, [*parts[2:4], frame(PING, b"pongme 2!"), parts[4]], chopped)
    assert answers(wire, 2) == [(PONG, b"pongme 2!"), (TEXT, b"fragment1fragment2fragment3fragment4fragment5")]
    closes(wire)


def test_pong_is_not_overtaken_by_whole_messages(wire):
    """Nor by many, one behind the other, and the messages keep their order."""
    for i in range(50):
        wire.send(frame(PING, b"%d" % i) + b"".join(message(wire, b"m%d" % i)))
        assert answers(wire, 2) == [(PONG, b"%d" % i), (TEXT, b"m%d" % i)]
    closes(wire)


def test_ping_behind_a_message_holds_nothing_up(wire):
    for i in range(50):
        wire.send(b"".join(message(wire, b"m%d" % i)) + frame(PING, b"%d" % i))
        assert sorted(answers(wire, 2)) == [(TEXT, b"m%d" % i), (PONG, b"%d" % i)]
    closes(wire)


# ------------------------------------------------------------------ 6: UTF-8

KOSME = "κόσμε".encode()
VALID = {
    "empty": b"", "hello": "Hello-µ@ßöäüàá-UTF-8!!".encode(), "kosme": KOSME,
    "first_of_1": b"\x00", "first_of_2": b"\xc2\x80", "first_of_3": b"\xe0\xa0\x80", "first_of_4": b"\xf0\x90\x80\x80",
    "last_of_1": b"\x7f", "last_of_2": b"\xdf\xbf", "last_of_3": b"\xef\xbf\xbf", "last_of_4": b"\xf4\x8f\xbf\xbf",
    "before_surrogates": b"\xed\x9f\xbf", "after_surrogates": b"\xee\x80\x80", "replacement": b"\xef\xbf\xbd",
    "no_character": b"\xef\xbf\xbe\xf0\x9f\xbf\xbe\xf3\xaf\xbf\xbf", "private": b"\xee\x80\x81\xef\xa3\xbf",
    "astral": "\U00010000\U0001f600\U0010fffd".encode(),
}
INVALID = {
    "surrogate_inside": KOSME + b"\xed\xa0\x80edited", "beyond_inside": KOSME + b"\xf4\x90\x80\x80edited",
    "five_first": b"\xf8\x88\x80\x80\x80", "six_first": b"\xfc\x84\x80\x80\x80\x80", "five_last": b"\xfb\xbf\xbf\xbf\xbf",
    "four_last": b"\xf7\xbf\xbf\xbf", "six_last": b"\xfd\xbf\xbf\xbf\xbf\xbf", "beyond": b"\xf4\x90\x80\x80",
    "fe": b"\xfe", "ff": b"\xff", "fe_ff": b"\xfe\xfe\xff\xff",
    "continuation_80": b"\x80", "continuation_bf": b"\xbf", "continuations": b"\x80\xbf\x80\xbf\x80\xbf\x80",
    "all_continuations": bytes(range(0x80, 0xc0)), "starts_of_2": b" ".join(bytes([c]) for c in range(0xc0, 0xe0)),
    "starts_of_3": b" ".join(bytes([c]) for c in range(0xe0, 0xf0)), "starts_of_4": b" ".join(bytes([c]) for c in range(0xf0, 0xf8)),
    "cut_2": b"\xc0", "cut_3": b"\xe0\x80", "cut_4": b"\xf0\x80\x80", "cut_2_last": b"\xdf", "cut_3_last": b"\xef\xbf",
    "cut_4_last": b"\xf7\xbf\xbf", "cuts": b"\xc0\xe0\x80\xf0\x80\x80\xdf\xef\xbf\xf7\xbf\xbf",
    "overlong_2": b"\xc0\xaf", "overlong_3": b"\xe0\x80\xaf", "overlong_4": b"\xf0\x80\x80\xaf",
    "overlong_5": b"\xf8\x80\x80\x80\xaf", "overlong_6": b"\xfc\x80\x80\x80\x80\xaf",
    "overlong_max_2": b"\xc1\xbf", "overlong_max_3": b"\xe0\x9f\xbf", "overlong_max_4": b"\xf0\x8f\xbf\xbf",
    "nul_2": b"\xc0\x80", "nul_3": b"\xe0\x80\x80", "nul_4": b"\xf0\x80\x80\x80",
    "d800": b"\xed\xa0\x80", "db7f": b"\xed\xad\xbf", "db80": b"\xed\xae\x80", "dbff": b"\xed\xaf\xbf",
    "dc00": b"\xed\xb0\x80", "dfff": b"\xed\xbf\xbf", "pair": b"\xed\xa0\x80\xed\xb0\x80", "pair_last": b"\xed\xaf\xbf\xed\xbf\xbf",
}
SPLITS = ["whole", "octets", "chopped"]  # fragments of an octet; octets of the one frame


def send_split(wire, payload, split):
    n = len(deflated(payload)) if wire.compresses else len(payload)
    frames = message(wire, payload, sizes=octets(n) if split == "octets" else None)
    data = b"".join(frames)
    for at in range(0, len(data), 1 if split == "chopped" else len(data)):
        wire.send(data[at:at + 1] if split == "chopped" else data)


@pytest.mark.parametrize("kind", VALID)
@pytest.mark.parametrize("split", SPLITS)
def test_text_comes_back(wire, kind, split):
    send_split(wire, VALID[kind], split)
    echoes(wire, VALID[kind])
    closes(wire)


@pytest.mark.parametrize("kind", INVALID)
@pytest.mark.parametrize("split", SPLITS)
def test_what_is_no_text_fails_with_1007(wire, kind, split):
    send_split(wire, INVALID[kind], split)
    fails(wire, 1007)


@pytest.mark.parametrize("n", range(len(KOSME) + 1))
def test_every_beginning_of_a_text_is_judged_by_itself(wire, n):
    payload = KOSME[:n]
    send_split(wire, payload, "whole")
    try:
        payload.decode()
    except UnicodeDecodeError:
        fails(wire, 1007)
    else:
        echoes(wire, payload)
        closes(wire)


def test_text_of_empty_fragments_comes_back(wire):
    if wire.compresses:
        pytest.skip("there a message is never empty")
    wire.send(frame(TEXT, b"", fin=False) + frame(CONTINUATION, b"", fin=False) + frame(CONTINUATION, b""))
    echoes(wire, b"")
    wire.send(frame(TEXT, b"", fin=False) + frame(CONTINUATION, KOSME, fin=False) + frame(CONTINUATION, b""))
    echoes(wire, KOSME)
    closes(wire)


FAIL_FAST = {  # what is sent, and then nothing: it must be clear by then
    "beyond_in_a_fragment": [frame(TEXT, KOSME, fin=False), frame(CONTINUATION, b"\xf4\x90\x80\x80", fin=False)],
    "beyond_over_two": [frame(TEXT, KOSME + b"\xf4", fin=False), frame(CONTINUATION, b"\x90", fin=False)],
    "surrogate_over_two": [frame(TEXT, b"\xed", fin=False), frame(CONTINUATION, b"\xa0", fin=False)],
    "inside_of_a_frame": [frame(TEXT, KOSME + b"\xf4\x90", length=len(KOSME) + 10)],
    "start_of_nothing": [frame(TEXT, b"\xff", length=70000)],
    "cut_before_ascii": [frame(TEXT, b"\xe2\x82", fin=False), frame(CONTINUATION, b"x", fin=False)],
}


@pytest.mark.parametrize("kind", FAIL_FAST)
def test_what_cannot_become_text_fails_at_once(wire, kind):
    """6.4 of the suite.  Of a compressed message it is known when it is whole."""
    if wire.compresses:
        pytest.skip("a compressed message is expanded when it is whole")
    for part in FAIL_FAST[kind]:
        wire.send(part)
    assert wire.close_code() == 1007


# ------------------------------------------------------------------ 7: closing

@pytest.mark.parametrize("code", [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999])
def test_close_comes_back_behind_the_echo(wire, code):
    wire.send(b"".join(message(wire, b"Hello")) + frame(CLOSE, struct.pack(">H", code)))
    echoes(wire, b"Hello")
    assert wire.recv() == (CLOSE, struct.pack(">H", code))
    assert wire.recv() is None
