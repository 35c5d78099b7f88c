"""All of test_rfc6455.py and test_framing.py once more, where messages may be compressed (RFC 7692): every
connection has agreed to it, and the tests' own messages come compressed."""

import pytest

import test_framing
from test_framing import *  # noqa: F401,F403
from test_framing import ILLEGAL
from test_rfc6455 import *  # noqa: F401,F403
from test_rfc6455 import BINARY, CLOSE, PING, PONG, TEXT, Wire, fails, frame
from wire import deflated

CONFIG = {"compression": True}
OFFER = {"Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits"}
PLAIN_UPGRADE, PLAIN_TEXT = Wire._upgrade, Wire.text

del test_handshake_that_is_right_is_taken  # noqa: F821: of connections that have agreed to nothing


@pytest.fixture(autouse=True)
def agreed(monkeypatch):
    def upgrade(self, gateway, headers, path):
        PLAIN_UPGRADE(self, gateway, {**OFFER, **(headers or {})}, path)
        assert self.status != 101 or self.window

    def text(self, text, **options):
        data = deflated(text.encode() if isinstance(text, str) else text)
        return self.send(frame(TEXT, data, rsv=4, **options))

    monkeypatch.setattr(Wire, "_upgrade", upgrade)
    monkeypatch.setattr(Wire, "text", text)


@pytest.mark.parametrize("opcode", [TEXT, BINARY, PING, PONG, CLOSE])
@pytest.mark.parametrize("rsv", [1, 2, 3, 5, 6, 7])
def test_reserved_bits_fail_the_connection(wire, rsv, opcode):
    fails(wire, frame(opcode, deflated(b'{"type":"ping","id":"a"}') if opcode in (TEXT, BINARY) else b"\x03\xe8",
                      rsv=rsv))


@pytest.mark.parametrize("kind", [kind for kind in ILLEGAL if kind != "reserved_bit"])
def test_illegal_frames_end_the_connection(gateway, client, wire, kind):
    test_framing.test_illegal_frames_end_the_connection(gateway, client, wire, kind)
