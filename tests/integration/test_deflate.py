"""permessage-deflate (RFC 7692; PROTOCOL.md 1 and 6): what is agreed, limits after expansion, and bombs."""

import os
import re
import struct
import zlib

import pytest

from gateway import SANITIZE, Gateway
from holdfast import Client, ids, new_id
from test_messages import HELLO, LIMIT, MIB, chat_of, is_one_task, large, leave_in_the_middle, read_slowly  # noqa: F401
from test_slow import welcome_and_resume
from wire import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, Wire, deflated, frame

CONFIG = {"compression": True}
KEEPS = "client_no_context_takeover"  # our window stays; theirs need not
NO_TAKEOVER = "server_no_context_takeover; client_no_context_takeover"
OFFER = {"Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits"}
ASK = b'{"type":"ping","id":"a"}'


def connected(gateway, token, **options):
    wire = Wire(gateway, **{"headers": OFFER, **options})
    assert wire.window
    wire.send(frame(TEXT, deflated((HELLO % token).encode()), rsv=4))
    wire.until_text("welcome")
    return wire


@pytest.fixture
def wire(gateway, client):
    with connected(gateway, client.token) as made:
        yield made


# ------------------------------------------------------------------ what is agreed

AGREED = {
    "permessage-deflate": KEEPS,
    "permessage-deflate; client_max_window_bits": KEEPS,
    "permessage-deflate; client_max_window_bits=9; server_no_context_takeover": NO_TAKEOVER,
    "permessage-deflate; client_no_context_takeover": KEEPS,
    "permessage-deflate; server_max_window_bits=15": KEEPS,
    "permessage-deflate; server_max_window_bits=9": KEEPS + "; server_max_window_bits=9",
    'permessage-deflate;server_max_window_bits="12"': KEEPS + "; server_max_window_bits=12",
    "x-webkit-deflate-frame, permessage-deflate": KEEPS,
    "permessage-deflate; server_max_window_bits=8, permessage-deflate": KEEPS,
    "permessage-deflate; unknown, permessage-deflate; server_max_window_bits=10":
        KEEPS + "; server_max_window_bits=10",
    "permessage-deflate, permessage-deflate; client_max_window_bits": KEEPS,
    "permessage-deflate; client_max_window_bits, permessage-deflate": KEEPS,
    "permessage-deflate; server_max_window_bits=8": None,
    "permessage-deflate; server_max_window_bits=16": None,
    "permessage-deflate; server_max_window_bits": None,
    "permessage-deflate; client_max_window_bits=7": None,
    "permessage-deflate; client_max_window_bits; client_max_window_bits": None,
    "permessage-deflate; server_no_context_takeover=1": None,
    "permessage-deflate; unknown": None,
    "permessage-bzip2, deflate": None,
}


@pytest.mark.parametrize("offer", AGREED)
def test_offer_is_answered(gateway, offer):
    with Wire(gateway, headers={"Sec-WebSocket-Extensions": offer}) as wire:
        assert wire.status == 101
        answers = re.findall(r"(?im)^sec-websocket-extensions: *(.*?)\r?$", wire.head)
        expected = AGREED[offer]
        assert answers == ([f"permessage-deflate; {expected}"] if expected else [])
        wire.text('{"type":"hello","id":"1"}')
        wire.until_text("welcome")
        assert bool(wire.n_deflated) == bool(expected)  # with a new guest's token it is long enough to be worth it


def test_offers_on_two_lines_are_one_list(gateway):
    lines = ["permessage-deflate; unknown", "permessage-deflate; server_max_window_bits=11"]
    with Wire(gateway, headers={"Sec-WebSocket-Extensions": lines}) as wire:
        assert wire.status == 101 and wire.window == 11


@pytest.mark.parametrize("n", [219, 250, 251, 260, 5000])
def test_endless_offers_are_served_without_compression(gateway, n):
    """libwebsockets has no room for more than 250 bytes of them (PROTOCOL.md 9)."""
    fits = "permessage-deflate, " + "x" * (n - 20)
    assert len(fits) == n
    for offers, agreed in ((fits, n <= 250), ("x" * n, False), (",".join(["permessage-deflate; x"] * (n // 22 + 1)), False)):
        with Wire(gateway, headers={"Sec-WebSocket-Extensions": offers}) as wire:
            assert wire.status == 101 and bool(wire.window) == agreed, offers
            wire.text(HELLO % "")
            assert wire.until(TEXT)


def test_without_an_offer_or_without_the_setting_nothing_is_compressed(gateway, client):
    with Wire(gateway) as wire:
        wire.text(HELLO % client.token)
        wire.until_text("welcome")
        assert not wire.window and not wire.n_deflated
    with Gateway({"compression": False}) as plain, Wire(plain, headers=OFFER) as wire:
        assert wire.status == 101 and not wire.window


# ------------------------------------------------------------------ in


@pytest.mark.parametrize("level", [0, 1, 9])
@pytest.mark.parametrize("size", [28000, LIMIT - 1, LIMIT])
@pytest.mark.parametrize("how", ["whole", "fragments", "fragments_and_pings", "one_byte_fragments", "empty_last"])
def test_chat_up_to_the_limit_is_one_task_with_its_text(gateway, client, how, size, level):  # F48, F52
    conversation = new_id()
    line, digest = chat_of(size, conversation)
    with connected(gateway, client.token) as wire:
        send_deflated(wire, deflated(line, level), how)
        wire.until_text('"started"')
        is_one_task(client, conversation, digest)


def send_deflated(wire, payload, how):
    """RSV1 stands on the first frame of the message alone."""
    n = {"whole": 1, "empty_last": 1, "one_byte_fragments": min(len(payload), 2000)}.get(how, 100)
    size = -(-len(payload) // n)
    parts = [payload[i : i + size] for i in range(0, len(payload), size)]
    if how == "empty_last":
        parts.append(b"")
    between = frame(PING, b"between") if how == "fragments_and_pings" else b""
    wire.send(between.join(
        frame(CONTINUATION if i else TEXT, part, fin=i == len(parts) - 1, rsv=0 if i else 4)
        for i, part in enumerate(parts)))


@pytest.mark.parametrize("over", [1, 2, 1000])
@pytest.mark.parametrize("level", [0, 9])
def test_chat_over_the_limit_is_1009_and_starts_nothing(gateway, client, over, level):  # F48, F52
    conversation = new_id()
    with connected(gateway, client.token) as wire:
        wire.send(frame(TEXT, deflated(chat_of(LIMIT + over, conversation)[0], level), rsv=4))
        assert wire.close_code() == 1009
    assert client.call("tasks", conversation_id=conversation)["tasks"] == []


@pytest.mark.parametrize("size", [32768, 32769])
def test_limit_before_welcome_counts_what_it_expands_to(gateway, client, size):  # F52
    hello = (HELLO % client.token).encode()
    with Wire(gateway, headers=OFFER) as wire:
        wire.send(frame(TEXT, deflated(hello + b" " * (size - len(hello))), rsv=4))
        if size == 32768:
            wire.until_text("welcome")
        else:
            assert wire.close_code() == 1009


@pytest.mark.parametrize("before_hello", [False, True])
@pytest.mark.parametrize("size", [MIB + LIMIT, 1 << 30])
def test_bomb_is_1009_and_costs_nothing(gateway, client, size, before_hello):  # F52
    z = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = z.compress(b" " * MIB) + z.flush(zlib.Z_FULL_FLUSH)  # looks back at nothing: any number of them is a stream
    bomb = (piece * (size // MIB))[:-4]
    client.quiet()
    rss = gateway.rss()
    for how in ("whole", "fragments"):
        with Wire(gateway, headers=OFFER) if before_hello else connected(gateway, client.token) as wire:
            send_deflated(wire, bomb, how)
            assert wire.close_code() in (1009, None)
    client.quiet()
    if not SANITIZE:
        assert gateway.rss() - rss < 2 * MIB


def test_small_bomb_is_told_1009(gateway, client):  # F52: what fits on the wire is told, and not only cut
    with connected(gateway, client.token) as wire:
        wire.send(frame(TEXT, deflated(b" " * (32 * MIB), 9), rsv=4))
        assert wire.close_code() == 1009


@pytest.mark.parametrize("welcome", [False, True])
def test_messages_that_say_nothing_are_a_flood(welcome):  # F52: 50 bytes each, and 64 KiB of work
    nothing = frame(TEXT, deflated(b" " * 32000, 9), rsv=4)
    with Gateway({"compression": True, "limits": {"requests_per_second": 1, "burst": 50}}) as gateway:
        with Wire(gateway, headers=OFFER) as wire:
            if welcome:
                wire.text('{"type":"hello"}')
                wire.until_text("welcome")
            wire.send(nothing * 200)
            assert "rate_limited" in wire.until_text('"error"')
            assert wire.close_code() == 4429


def empty_block():
    """The bits of one with codes of its own and no text (RFC 1951 3.2.7), in the order of the stream: 10 bytes."""
    bits = []

    def put(value, n):
        bits.extend(value >> i & 1 for i in range(n))

    put(0, 1), put(2, 2)                # not the last; dynamic
    put(0, 5), put(0, 5), put(14, 4)    # 257 literal codes, 1 distance code, 18 code length codes
    for symbol in (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1):
        put(symbol in (1, 18), 3)       # two of length 1: 1 is "0", 18 is "1"
    put(1, 1), put(138 - 11, 7), put(1, 1), put(118 - 11, 7)  # no code for 256 literals
    put(0, 1), put(0, 1)                # a code of 1 for the end of the block, one for distance 1
    put(0, 1)                           # the end of the block
    return bits


def headers_alone(n_blocks):
    bits = empty_block() * n_blocks + [0, 0, 0]  # then a stored block: its kind, the rest of the byte, its length
    bits += [0] * (-len(bits) % 8)
    data = bytes(sum(bit << i for i, bit in enumerate(bits[at : at + 8])) for at in range(0, len(bits), 8))
    return data + struct.pack("<HH", len(ASK), 0xFFFF - len(ASK)) + ASK + b"\0"


def test_blocks_that_say_nothing_cost_as_lines_do():  # F52: 64 KiB of them are 5 ms of work
    with Gateway({"compression": True, "limits": {"requests_per_second": 1, "burst": 50}}) as gateway:
        with Wire(gateway, headers=OFFER) as wire:
            wire.text('{"type":"hello"}')
            wire.until_text("welcome")
            wire.send(frame(TEXT, headers_alone(100), rsv=4))
            wire.until_text('"pong"')
            wire.send(frame(TEXT, headers_alone(6500), rsv=4) * 2)
            assert "rate_limited" in wire.until_text('"error"')  # 50 lines of work
            wire.send(frame(TEXT, headers_alone(6500), rsv=4))
            assert wire.close_code() == 4429


@pytest.mark.parametrize("level", [1, 9])
@pytest.mark.parametrize("memory", [1, 9])
def test_what_a_compressor_makes_costs_as_its_lines_do(level, memory):  # F52: also one that has little memory
    z = zlib.compressobj(level, zlib.DEFLATED, -15, memory)
    message = z.compress(b'{"type":"ping","x":"%s"}' % os.urandom(7500).hex().encode()) + z.flush(zlib.Z_SYNC_FLUSH)
    with Gateway({"compression": True, "limits": {"requests_per_second": 1, "burst": 40}}) as gateway:
        with Wire(gateway, headers=OFFER) as wire:
            wire.text('{"type":"hello"}')
            for _ in range(19):
                wire.send(frame(TEXT, message[:-4], rsv=4))
                wire.until_text('"pong"')


def test_many_bombs_at_once_harm_nobody(gateway, client):  # F52
    bomb = frame(TEXT, deflated(b" " * (40 * MIB), 9), rsv=4)
    wires = [connected(gateway, client.token) for _ in range(30)]
    for wire in wires:
        wire.send(bomb)
    client.quiet()
    assert {wire.close_code() for wire in wires} == {1009}
    for wire in wires:
        wire.close()
    client.quiet()


BROKEN = {
    "garbage": b"not compressed at all",
    "no_such_block": b"\x07",
    "cut_off": deflated(b'{"type":"ping","id":"%s"}' % os.urandom(40).hex().encode())[:-8],
    "looks_back_to_another_message": b"\xf2\x00\x11\x00\x00",
    "wrong_length": b"\x00\x05\x00\xfa\xfe\x48\x65\x6c\x6c\x6f\x00",
    "no_utf8": deflated(b'{"type":"ping","id":"\xff"}'),
    "half_a_character": deflated(b'{"type":"ping","id":"a"}' + "é".encode()[:1]),
    "surrogate": deflated(b'{"type":"ping","id":"\xed\xa0\x80"}'),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_cannot_be_expanded_or_is_no_text_is_1007(wire, kind):
    wire.send(frame(TEXT, BROKEN[kind], rsv=4) + frame(TEXT, ASK))
    assert wire.close_code() == 1007


@pytest.mark.parametrize("data", [b'{"type":"ping","id":"\xff"}', ASK + b"\xc3"])
def test_plain_text_is_looked_at_as_well(wire, data):
    """If messages may be compressed, libwebsockets does not check them: it would see compressed ones."""
    wire.send(frame(TEXT, data) + frame(TEXT, ASK))
    assert wire.close_code() == 1007


def test_close_frame_with_a_reason_that_is_no_text_ends_it(wire):
    wire.send(frame(CLOSE, b"\x03\xe8\xff\xfe"))
    assert wire.close_code() in (1002, 1007, None)


@pytest.mark.parametrize("kind", ["continuation", "pong", "close", "rsv2", "rsv3"])
def test_reserved_bit_where_none_may_be_ends_it(wire, kind):  # RFC 7692 6
    """libwebsockets reports no pings: they are answered, whatever their bits are."""
    half = deflated(ASK)[:10]
    wire.send({"continuation": frame(TEXT, half, fin=False, rsv=4) + frame(CONTINUATION, deflated(ASK)[10:], rsv=4),
               "pong": frame(PONG, b"x", rsv=4), "close": frame(CLOSE, b"\x03\xe8", rsv=4),
               "rsv2": frame(TEXT, deflated(ASK), rsv=6), "rsv3": frame(TEXT, deflated(ASK), rsv=5)}[kind])
    wire.send(frame(TEXT, ASK))
    while (found := wire.recv()) is not None and found[0] != CLOSE:
        assert b'"pong"' not in found[1], "carried out"
    assert found is None or found[1][:2] == b"\x03\xea", found


def test_plain_compressed_and_binary_messages_take_turns(wire):
    for i in range(20):
        line = b'{"type":"ping","id":"%d"}' % i
        wire.send(frame(TEXT, line) if i % 2 else frame(TEXT, deflated(line, i % 10), rsv=4))
        assert f'"id":"{i}"' in wire.until_text('"pong"')
    wire.send(frame(BINARY, deflated(b"x" * 1000), rsv=4))
    assert '"bad_request"' in wire.until_text('"error"')
    wire.send(frame(TEXT, b"\x00", rsv=4) + frame(TEXT, ASK))  # an empty one is an empty line
    wire.until_text('"pong"')


def test_blocks_of_every_kind_are_one_message(wire):  # RFC 7692 7.2.3
    def blocks(text, final=False):
        z = zlib.compressobj(6, zlib.DEFLATED, -15)
        return z.compress(text) + z.flush(zlib.Z_FINISH if final else zlib.Z_SYNC_FLUSH)

    stored = b"\x00" + len(ASK).to_bytes(2, "little") + (len(ASK) ^ 0xffff).to_bytes(2, "little") + ASK + b"\x00"
    for payload in (stored, blocks(ASK, final=True) + b"\x00", blocks(ASK[:9]) + blocks(ASK[9:])[:-4],
                    blocks(ASK[:9], final=True) + blocks(ASK[9:])[:-4]):
        wire.send(frame(TEXT, payload, rsv=4))
        wire.until_text('"pong"')


# ------------------------------------------------------------------ out


@pytest.mark.parametrize("bits", [9, 15])
@pytest.mark.parametrize("part", [0.5, 1])
def test_large_events_to_a_slow_reader_are_whole(gateway, large, part, bits):  # F49
    client, tasks = large
    offer = {"Sec-WebSocket-Extensions": f"permessage-deflate; server_max_window_bits={bits}"}
    for task in tasks:
        assert read_slowly(gateway, client, task, part, headers=offer).n_deflated
        client.quiet()


def test_readers_that_leave_in_the_middle_of_a_large_event(gateway, large):  # F49
    client, tasks = large
    leave_in_the_middle(gateway, client, tasks[1], 7000, headers=OFFER)


def test_compressed_connection_replays_the_same(client, clients):  # F49
    task, events = client.finish({"flood": 5000, "bytes": 60}, {"line_of": 300000}, {"final_answer": "x"})
    reader = clients(token=client.token, compression=True)
    assert reader.ws.extensions
    assert reader.replay(task) == events
    assert reader.raw_events(task) == client.raw_events(task)


@pytest.mark.parametrize("options, bits", [
    ({}, 15), ({"server_no_context_takeover": True}, 15), ({"client_no_context_takeover": True}, 15),
    ({"server_max_window_bits": 9}, 9), ({"client_max_window_bits": 9}, 15),
    ({"server_max_window_bits": 12, "client_max_window_bits": 15}, 12),
    ({"compress_settings": {"level": 0, "memLevel": 1}}, 15), ({"server_max_window_bits": 8}, None)])
def test_each_option_of_a_librarys_client(gateway, client, options, bits):
    """Both ways, with messages at the limit: the library looks at what was agreed."""
    task, events = client.finish({"flood": 500, "bytes": 300}, {"final_answer": "x" * 60000})
    with Client(gateway, token=client.token, compression=options) as reader:
        assert [e.remote_max_window_bits for e in reader.ws.extensions] == [bits] * bool(bits)
        assert reader.replay(task) == events
        done, _ = reader.finish(os.urandom(20000).hex())
        assert done["status"] == "completed"
        reader.send_text(" " * LIMIT + " ")
        assert reader.closing().code == 1009


def test_followers_with_and_without_it_see_the_same(client, clients):  # F49
    readers = [clients(token=client.token, compression=n % 2 == 0) for n in range(6)]
    task = client.chat({"flood": 3000, "bytes": 40}, {"token": "é" * 3000}, {"final_answer": "x"})
    for reader in readers:
        reader.resume(task)
    for reader in [client, *readers]:
        reader.wait_terminal(task)
    assert all(reader.raw_events(task) == client.raw_events(task) for reader in readers)


def test_one_line_like_the_one_before_is_a_few_bytes(gateway, client):
    """Each message looks back at the one before it; a client that keeps no window gets such lines as they are."""
    words = [{"hear": "message", "say": True}] * 40
    per_line = {}
    for offer in ("permessage-deflate", "permessage-deflate; server_no_context_takeover"):
        task = client.chat(*words)
        with Wire(gateway, headers={"Sec-WebSocket-Extensions": offer}) as wire:
            welcome_and_resume(wire, client.token, task)
            wire.until_text("caught_up")
            begun = None
            for n in range(40):  # one line a message: each waits for the one before
                client.call("send", **ids(task), content=f"word {n}")
                while f"word {n}" not in (text := wire.until(TEXT).decode()) or "token" not in text:
                    pass
                begun = begun or wire.n_bytes
            per_line[offer] = (wire.n_bytes - begun) / 39
    kept, not_kept = per_line.values()
    # Two events each, the message and the token that repeats it: in two messages, or in one.
    assert kept < 120 and not_kept > 1.4 * kept, per_line


def test_it_is_smaller_on_the_wire(gateway, client):
    task, _ = client.finish({"flood": 3000, "bytes": 40}, {"final_answer": "x"})
    sent = []
    for headers in (None, OFFER):
        with Wire(gateway, headers=headers) as wire:
            welcome_and_resume(wire, client.token, task)
            wire.until_text("caught_up")
            sent.append(wire.n_bytes)
    assert sent[1] < sent[0] / 4, sent
