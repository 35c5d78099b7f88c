"""RFC 6455 by its sections: every rule for a server's receiving end, from frames made by hand.

What an endpoint must fail the connection for ends in a close frame with the RFC's code, or (where
libwebsockets sends none) in a bare end; never in an answer.  test_framing.py has what is ours: limits,
floods, fragments of every size.
"""

import socket
import struct
import time

import pytest

from holdfast import Client
from wire import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, Wire, frame

CONFIG = {"compression": False}  # test_rfc6455_deflate.py has it on

HELLO = '{"type":"hello","id":"1"}'
PROTOCOL_ERROR = (1002, None)
PING_LINE = b'{"type":"ping","id":"a"}'


@pytest.fixture
def wire(gateway):
    with Wire(gateway) as made:
        made.text(HELLO)
        made.until_text("welcome")
        yield made


def fails(wire, data, codes=PROTOCOL_ERROR):
    """The connection ends because of this, and nothing behind it is carried out."""
    wire.send(data)
    wire.send(frame(TEXT, b'{"type":"ping","id":"behind"}'))
    payload = None
    while True:
        found = wire.recv()
        if found is None:
            break
        opcode, payload_now = found
        assert b"behind" not in payload_now, "what comes behind a violation is carried out"
        if opcode == CLOSE:
            payload = payload_now
            break
    code = int.from_bytes(payload[:2], "big") if payload else None
    assert code in codes, code


def close_frame(code, reason=b""):
    return frame(CLOSE, struct.pack(">H", code) + reason)


def with_length(opcode, payload, form):
    """A frame whose length stands in a longer form (126 or 127) than it needs."""
    n = len(payload)
    size = struct.pack(">H", n) if form == 126 else struct.pack(">Q", n)
    return bytes([0x80 | opcode, 0x80 | form]) + size + b"\0\0\0\0" + payload


# ------------------------------------------------------------------ 5.2: reserved bits, opcodes


@pytest.mark.parametrize("opcode", [TEXT, BINARY, PING, PONG, CLOSE])
@pytest.mark.parametrize("rsv", range(1, 8))
def test_reserved_bits_fail_the_connection(wire, rsv, opcode):
    payload = PING_LINE if opcode in (TEXT, BINARY) else b"\x03\xe8"
    fails(wire, frame(opcode, payload, rsv=rsv))


def test_reserved_bit_of_a_continuation_fails_the_connection(wire):
    fails(wire, frame(TEXT, PING_LINE[:5], fin=False) + frame(CONTINUATION, PING_LINE[5:], rsv=4))


@pytest.mark.parametrize("opcode", [3, 4, 5, 6, 7, 11, 12, 13, 14, 15])
@pytest.mark.parametrize("payload", [b"", b"x"], ids=["empty", "full"])
def test_reserved_opcodes_fail_the_connection(wire, opcode, payload):
    fails(wire, frame(opcode, payload))


def test_reserved_opcode_inside_a_message_fails_the_connection(wire):
    fails(wire, frame(TEXT, PING_LINE[:5], fin=False) + frame(3, b"") + frame(CONTINUATION, PING_LINE[5:]))


# ------------------------------------------------------------------ 5.2: lengths


@pytest.mark.parametrize("form", [126, 127])
@pytest.mark.parametrize("size", [0, 24, 125])
def test_length_in_a_longer_form_is_the_same_or_an_error(gateway, client, form, size):
    """Not minimal is not allowed to send; the RFC asks no receiver to refuse it.  It is the same message."""
    with Wire(gateway) as wire:
        wire.text(HELLO)
        wire.until_text("welcome")
        payload = PING_LINE + b" " * (size - len(PING_LINE)) if size else b""
        wire.send(with_length(TEXT, payload, form) + frame(PING, b"after"))
        opcode, payload = wire.recv()
        if opcode == TEXT:
            assert b'"pong"' in payload and size
            opcode, payload = wire.recv()
        assert (opcode, payload) == (PONG, b"after") or opcode == CLOSE
    client.quiet()


@pytest.mark.parametrize("opcode", [PING, PONG, CLOSE])
@pytest.mark.parametrize("form", [126, 127])
def test_control_frame_with_an_extended_length_fails_the_connection(wire, opcode, form):
    fails(wire, with_length(opcode, b"\x03\xe8" if opcode == CLOSE else b"x", form))


@pytest.mark.parametrize("opcode", [TEXT, BINARY])
@pytest.mark.parametrize("length", [2**63, 2**63 + 5, 2**64 - 1])
def test_length_with_the_highest_bit_fails_the_connection(wire, opcode, length):
    fails(wire, frame(opcode, b"", length=length), (1002, 1009, None))


# ------------------------------------------------------------------ 5.4: fragments


@pytest.mark.parametrize("opcode", [TEXT, BINARY])
@pytest.mark.parametrize("fin", [True, False])
def test_new_message_inside_a_fragmented_one_fails_the_connection(wire, opcode, fin):
    fails(wire, frame(TEXT, PING_LINE[:5], fin=False) + frame(opcode, PING_LINE, fin=fin))


@pytest.mark.parametrize("fin", [True, False])
@pytest.mark.parametrize("payload", [b"", b"x"], ids=["empty", "full"])
def test_continuation_of_nothing_fails_the_connection(wire, fin, payload):
    fails(wire, frame(CONTINUATION, payload, fin=fin))


def test_continuation_behind_a_whole_message_fails_the_connection(wire):
    wire.send(frame(TEXT, PING_LINE))
    wire.until_text('"pong"')
    fails(wire, frame(CONTINUATION, b"x"))


@pytest.mark.parametrize("opcode", [PING, PONG])
def test_control_frames_between_all_fragments(wire, opcode):
    parts = wire.fragments(PING_LINE, len(PING_LINE))
    wire.send(b"".join(part + frame(opcode, b"p") for part in parts))
    seen = wire.until_text('"pong"')
    assert seen.count('"pong"') == 1


# ------------------------------------------------------------------ 5.5: control frames


@pytest.mark.parametrize("opcode", [PING, PONG, CLOSE])
def test_fragmented_control_frame_fails_the_connection(wire, opcode):
    fails(wire, frame(opcode, b"\x03\xe8", fin=False) + frame(CONTINUATION, b"x"))


@pytest.mark.parametrize("opcode", [PING, PONG, CLOSE])
def test_control_frame_of_126_bytes_fails_the_connection(wire, opcode):
    payload = (b"\x03\xe8" if opcode == CLOSE else b"") + b"x" * 126
    fails(wire, frame(opcode, payload[:126]))


@pytest.mark.parametrize("size", [0, 1, 2, 124, 125])
def test_ping_is_answered_with_its_payload(wire, size):
    payload = bytes(range(size))
    wire.send(frame(PING, payload))
    assert wire.until(PONG) == payload


def test_ping_cut_into_bytes_is_answered(wire):
    for byte in frame(PING, b"\x00\xff\xfe\xfd\xfc\xfb\x00\xff" * 15):
        wire.send(bytes([byte]))
    assert wire.until(PONG) == b"\x00\xff\xfe\xfd\xfc\xfb\x00\xff" * 15


def test_pong_that_nobody_asked_for_is_ignored(wire):
    wire.send(frame(PONG) + frame(PONG, b"unasked") + frame(PING, b"asked"))
    assert wire.until(PONG) == b"asked"


def test_pings_in_a_row_are_answered_in_order(wire):
    """5.5.3: those that come before one is answered may be left out.  libwebsockets 4.1.6 keeps the first
    of them instead of the last (PROTOCOL.md 9)."""
    wire.send(b"".join(frame(PING, b"%d" % i) for i in range(10)))
    answered = [wire.until(PONG)]
    wire.send(frame(PING, b"later"))
    while answered[-1] != b"later":
        answered.append(wire.until(PONG))
    assert answered == sorted(set(answered))


# ------------------------------------------------------------------ 5.5.1, 7.4: closing

VALID_CODES = [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999]
INVALID_CODES = [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535]


@pytest.mark.parametrize("code", VALID_CODES)
@pytest.mark.parametrize("reason", [b"", "Grüße".encode(), b"x" * 123], ids=["none", "text", "longest"])
def test_valid_close_is_answered_with_its_code(wire, code, reason):
    wire.send(close_frame(code, reason))
    assert wire.close_code() in (code, 1000)


@pytest.mark.parametrize("code", INVALID_CODES)
def test_invalid_close_code_is_a_protocol_error(wire, code):
    wire.send(close_frame(code))
    assert wire.close_code() in PROTOCOL_ERROR


def test_close_without_a_code_is_answered(wire):
    wire.send(frame(CLOSE))
    assert wire.close_code() in (1000, None)


def test_close_of_one_byte_is_a_protocol_error(wire):
    wire.send(frame(CLOSE, b"\x03"))
    raw = wire.until(CLOSE)
    assert raw is None or raw[:2] == struct.pack(">H", 1002), raw


@pytest.mark.parametrize("reason", [b"\xff", b"\xce\xba\xed\xa0\x80", b"\xf4\x90\x80\x80", b"x\xe2\x82"],
                         ids=["invalid", "surrogate", "beyond", "cut"])
def test_close_reason_that_is_not_utf8_is_refused(wire, reason):
    wire.send(close_frame(1000, reason))
    assert wire.close_code() == 1007


def ends(wire):
    """Seconds until the gateway's end of the connection, read to the end."""
    begun = time.monotonic()
    while wire.recv() is not None:
        pass
    return time.monotonic() - begun


@pytest.mark.parametrize("answers", [True, False], ids=["answered", "silent"])
@pytest.mark.parametrize("violation", [
    frame(TEXT, PING_LINE, rsv=2), frame(PING, b"x", rsv=1), frame(3, b"x"), frame(CONTINUATION, b"x"),
    frame(PING, b"x", fin=False)], ids=["rsv2", "rsv3_of_a_ping", "opcode", "continuation", "fragmented_ping"])
def test_failed_connection_ends_at_once(gateway, violation, answers):
    """7.1.7, 7.1.1: the server ends the TCP connection.  libwebsockets would wait 5 s for a close frame that it no
    longer understands, having stopped inside of another; of three tries one is faster on any machine."""
    took = []
    for _ in range(3):
        with Wire(gateway) as wire:
            wire.text(HELLO)
            wire.until_text("welcome")
            wire.send(violation)
            assert wire.until(CLOSE)[:2] == struct.pack(">H", 1002)
            if answers:
                wire.send(close_frame(1002))
            took.append(ends(wire))
            if took[-1] < 3:
                return
    pytest.fail(f"it hangs: {took}")


@pytest.mark.parametrize("last", [close_frame(1000), frame(CLOSE)], ids=["with_a_code", "without"])
def test_what_is_in_the_segment_of_a_close_is_answered_before_it(gateway, last):
    with Wire(gateway) as wire:
        wire.send(frame(TEXT, HELLO.encode()) + last)
        assert b'"welcome"' in wire.until(TEXT)
        assert wire.close_code() in (1000, None)


@pytest.mark.parametrize("behind", [
    frame(TEXT, PING_LINE), frame(PING, b"x"), frame(CONTINUATION, b"x"), frame(CLOSE, b"\x03\xe8"), b"\xff" * 50,
], ids=["text", "ping", "continuation", "close", "rubbish"])
def test_what_comes_behind_a_close_is_ignored(wire, behind):
    wire.send(close_frame(1000) + behind)
    frames = []
    while (found := wire.recv()) is not None:
        frames.append(found)
    assert [opcode for opcode, _ in frames] in ([CLOSE], []), frames


# ------------------------------------------------------------------ 5.3: masks


def test_mask_of_zeros_and_of_ones(wire):
    for key in (b"\0\0\0\0", b"\xff\xff\xff\xff"):
        wire.send(frame(TEXT, PING_LINE, key=key))
        wire.until_text('"pong"')


# ------------------------------------------------------------------ 8.1: UTF-8

INVALID_UTF8 = {
    "lonely_continuation": b"\x80", "lonely_start": b"\xc3", "cut_three": b"\xe2\x82", "cut_four": b"\xf0\x9f\x98",
    "overlong_slash": b"\xc0\xaf", "overlong_three": b"\xe0\x80\xaf", "overlong_four": b"\xf0\x80\x80\xaf",
    "surrogate_high": b"\xed\xa0\x80", "surrogate_low": b"\xed\xbf\xbf", "beyond_10ffff": b"\xf4\x90\x80\x80",
    "five_bytes": b"\xf8\x88\x80\x80\x80", "fe": b"\xfe", "ff": b"\xff",
}


@pytest.mark.parametrize("kind", INVALID_UTF8)
@pytest.mark.parametrize("split", ["whole", "fragments", "bytes"])
def test_invalid_utf8_fails_the_connection(gateway, kind, split):
    payload = b'{"type":"ping","id":"' + INVALID_UTF8[kind] + b'"}'
    with Wire(gateway) as wire:
        wire.text(HELLO)
        wire.until_text("welcome")
        if split == "whole":
            data = frame(TEXT, payload)
        elif split == "fragments":
            data = b"".join(wire.fragments(payload, len(payload)))
        else:
            for byte in frame(TEXT, payload):
                wire.send(bytes([byte]))
            data = b""
        fails(wire, data, (1007, None))


def test_invalid_utf8_fails_before_the_message_is_whole(wire):
    """Fail fast: the rest of the message never comes."""
    wire.send(frame(TEXT, b'{"type":"ping","id":"\xff', fin=False))
    assert wire.close_code() in (1007, None)


def test_text_that_ends_inside_a_character_fails_the_connection(wire):
    fails(wire, frame(TEXT, "😀".encode()[:2], fin=False) + frame(CONTINUATION, b""), (1007, None))


VALID_UTF8 = ["κόσμε", "\U0010ffff", "\ufffe\uffff", "\U0001fffe", "\ud7ff\ue000", "\u0000".replace("\u0000", "\\u0000")]


@pytest.mark.parametrize("text", VALID_UTF8, ids=range(len(VALID_UTF8)))
def test_valid_utf8_in_fragments_of_a_byte_is_whole(wire, text):
    payload = ('{"type":"ping","id":"%s"}' % text).encode()
    wire.send(b"".join(wire.fragments(payload, len(payload))))
    assert text in wire.until_text('"pong"')


# ------------------------------------------------------------------ 4.2: the opening handshake

REFUSED = {
    "no_key": {"Sec-WebSocket-Key": None}, "no_upgrade": {"Upgrade": None},
    "upgrade_to_something_else": {"Upgrade": "h2c"}, "no_connection": {"Connection": None},
    "connection_close": {"Connection": "close"},
    "other_subprotocol": {"Sec-WebSocket-Protocol": "chat"},
    "version_8": {"Sec-WebSocket-Version": "8"}, "version_14": {"Sec-WebSocket-Version": "14"},
    "no_version": {"Sec-WebSocket-Version": None},
}
ACCEPTED = {
    "other_case": {"Upgrade": "WebSocket", "Connection": "upgrade"},
    "connection_list": {"Connection": "keep-alive, Upgrade"},
    "no_subprotocol": {"Sec-WebSocket-Protocol": None},
    "subprotocol_list": {"Sec-WebSocket-Protocol": "chat, holdfast.v1"},
    "extension": {"Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits"},
    "unknown_extension": {"Sec-WebSocket-Extensions": "x-nobody; a=1; b=\"2\", y"},
    "unknown_headers": {"X-Unknown": "x" * 1000},
    "many_extensions": {"Sec-WebSocket-Extensions": ", ".join(f"x-nobody-{i}; a=1" for i in range(40))},
    "long_extension": {"Sec-WebSocket-Extensions": "x" * 4000},
    "extension_of_251": {"Sec-WebSocket-Extensions": "x" * 251},
}


@pytest.mark.parametrize("kind", REFUSED)
def test_handshake_that_is_wrong_is_refused(gateway, client, kind):
    with Wire(gateway, headers=REFUSED[kind]) as wire:
        assert wire.status != 101, wire.head
    client.quiet()


@pytest.mark.parametrize("kind", ACCEPTED)
def test_handshake_that_is_right_is_taken(gateway, kind):
    with Wire(gateway, headers=ACCEPTED[kind]) as wire:
        assert wire.status == 101
        head = wire.head.lower()
        assert "sec-websocket-extensions" not in head, "an extension that nobody speaks"
        if kind == "no_subprotocol":
            assert "sec-websocket-protocol" not in head
        wire.text(HELLO)
        wire.until_text("welcome")


@pytest.mark.parametrize("version", ["8", "14", "1", "130", "", "x", None])
def test_another_version_is_told_ours(gateway, version):
    with Wire(gateway, headers={"Sec-WebSocket-Version": version}) as wire:
        assert wire.status == 426
        assert "sec-websocket-version: 13" in wire.head.lower()


def test_handshake_in_single_bytes(gateway):
    with Wire(gateway, upgrade=False) as wire:
        head = (f"GET /v1/ws HTTP/1.1\r\nHost: {gateway.host}:{gateway.port}\r\nUpgrade: websocket\r\n"
                "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: holdfast.v1\r\n\r\n")
        for byte in head.encode():
            wire.send(bytes([byte]))
        answer = wire._until(b"\r\n\r\n")
        assert b" 101 " in answer and b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in answer  # RFC 6455 1.3


@pytest.mark.parametrize("method", ["POST", "PUT", "HEAD", "OPTIONS"])
def test_handshake_with_another_method_is_no_websocket(gateway, method):
    with Wire(gateway, upgrade=False) as wire:
        wire.send((f"{method} /v1/ws HTTP/1.1\r\nHost: {gateway.host}:{gateway.port}\r\nUpgrade: websocket\r\n"
                   "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                   "Sec-WebSocket-Version: 13\r\nContent-Length: 0\r\n\r\n").encode())
        wire.sock.shutdown(socket.SHUT_WR)
        assert b" 101 " not in (wire._until(b"\r\n") or b"")


def test_frames_in_the_segment_of_the_handshake_are_carried_out(gateway):
    with Wire(gateway, upgrade=False) as wire:
        head = (f"GET /v1/ws HTTP/1.1\r\nHost: {gateway.host}:{gateway.port}\r\nUpgrade: websocket\r\n"
                "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: holdfast.v1\r\n\r\n")
        wire.send(head.encode() + frame(TEXT, HELLO.encode()))
        assert b" 101 " in wire._until(b"\r\n\r\n")
        wire.until_text("welcome")
    with Client(gateway) as again:
        again.quiet()
