"""A WebSocket client that hides nothing: the test writes the frames, and decides when to read."""

import base64
import hashlib
import os
import re
import socket
import struct
import time
import zlib

from gateway import WAIT_S

TEXT, BINARY, CLOSE, PING, PONG, CONTINUATION = 1, 2, 8, 9, 10, 0
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def frame(opcode, payload=b"", *, fin=True, rsv=0, mask=True, length=None, key=None):
    """The bytes of a frame.  length: the header's claim, if not the payload's."""
    n = len(payload) if length is None else length
    head = bytes([(0x80 if fin else 0) | rsv << 4 | opcode])
    bit = 0x80 if mask else 0
    if n < 126:
        head += bytes([bit | n])
    elif n < 65536:
        head += bytes([bit | 126]) + struct.pack(">H", n)
    else:
        head += bytes([bit | 127]) + struct.pack(">Q", n)
    if not mask:
        return head + payload
    key = key or os.urandom(4)
    pad = key * (len(payload) // 4 + 1)
    masked = (int.from_bytes(payload, "big") ^ int.from_bytes(pad[: len(payload)], "big"))
    return head + key + masked.to_bytes(len(payload), "big")


TRAILER = b"\0\0\xff\xff"  # the end of a flush, which is not sent (RFC 7692 section 7.2.1)


def deflated(payload, level=6):
    """The payload of a compressed message; its frame has rsv=4."""
    z = zlib.compressobj(level, zlib.DEFLATED, -15)
    data = z.compress(payload) + z.flush(zlib.Z_SYNC_FLUSH)
    assert data.endswith(TRAILER)
    return data[:-4]


class Wire:
    """With an offer of permessage-deflate in its headers it reads compressed messages; it sends the test's bytes
    unchanged."""

    def __init__(self, gateway, *, headers=None, path="/v1/ws", rcvbuf=None, upgrade=True):
        self.sock = socket.socket()
        if rcvbuf:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        self.sock.settimeout(WAIT_S)
        self.sock.connect((gateway.host, gateway.port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray()
        self.status = None
        self.window = 0      # window bits of compressed messages; 0: none may come
        self.inflater = None # the one of the connection
        self.n_deflated = 0  # received
        self.n_bytes = 0
        if upgrade:
            self._upgrade(gateway, headers, path)

    def _upgrade(self, gateway, headers, path):
        """headers: name → value; None leaves one of the usual away; a list sends it repeatedly."""
        key = base64.b64encode(os.urandom(16))
        usual = {"Host": f"{gateway.host}:{gateway.port}", "Upgrade": "websocket",
                 "Connection": "Upgrade", "Sec-WebSocket-Key": key.decode(),
                 "Sec-WebSocket-Version": "13", "Sec-WebSocket-Protocol": "holdfast.v1"}
        lines = [f"GET {path} HTTP/1.1"]
        for name, value in {**usual, **(headers or {})}.items():
            for one in value if isinstance(value, list) else [value]:
                if one is not None:
                    lines.append(f"{name}: {one}")
        self.sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        head = self._until(b"\r\n\r\n")
        if head is None:
            self.status = 0  # closed without an answer
            return
        self.status = int(head.split(b" ", 2)[1])
        self.head = head.decode("latin-1")
        agreed = re.search(r"(?i)sec-websocket-extensions: *permessage-deflate(.*)", self.head)
        if agreed:
            bits = re.search(r"server_max_window_bits=(\d+)", agreed[1])
            self.window = int(bits[1]) if bits else 15
            if "server_no_context_takeover" not in agreed[1]:
                self.inflater = zlib.decompressobj(-self.window)  # keeps its window from message to message
        if self.status == 101:
            accept = re.search(rb"(?i)sec-websocket-accept: *(\S+)", head)[1]
            assert accept == base64.b64encode(hashlib.sha1(key + GUID).digest())

    def _until(self, mark):
        while mark not in self.buffer:
            if not self._more():
                return None
        head, _, rest = bytes(self.buffer).partition(mark)
        self.buffer[:] = rest
        return head

    def _more(self):
        try:
            data = self.sock.recv(1 << 16)
        except ConnectionError:
            data = b""
        self.buffer += data
        self.n_bytes += len(data)
        return bool(data)

    # -------------------------------------------------------------- sending

    def send(self, data):
        """False when the gateway has hung up."""
        try:
            self.sock.sendall(data)
            return True
        except (ConnectionError, BrokenPipeError):
            return False

    def text(self, text, **options):
        return self.send(frame(TEXT, text.encode() if isinstance(text, str) else text, **options))

    def fragments(self, payload, n):
        """The payload in n fragments."""
        size = max(1, -(-len(payload) // n))
        parts = [payload[i : i + size] for i in range(0, len(payload), size)]
        return [frame(TEXT if i == 0 else CONTINUATION, part, fin=i == len(parts) - 1)
                for i, part in enumerate(parts)]

    # -------------------------------------------------------------- receiving

    def _need(self, n):
        while len(self.buffer) < n:
            if not self._more():
                return False
        return True

    def recv(self):
        """(opcode, payload) of the next frame; None when the connection has ended."""
        if not self._need(2):
            return None
        first, n = self.buffer[0], self.buffer[1]
        at = 2
        assert not first & (0x30 if self.window else 0x70), "a reserved bit without an extension"
        assert not first & 0x40 or first & 15 == TEXT, "a reserved bit where none may be"
        assert not n & 0x80, "a server's frame must not be masked"
        if n in (126, 127):
            at += 2 if n == 126 else 8
            if not self._need(at):
                return None
            n = int.from_bytes(self.buffer[2:at], "big")
        if not self._need(at + n):
            return None
        payload = bytes(self.buffer[at : at + n])
        del self.buffer[: at + n]
        if first & 0x40:
            self.n_deflated += 1
            z = self.inflater or zlib.decompressobj(-self.window)
            payload = z.decompress(payload + TRAILER)
            assert not z.unconsumed_tail and not z.unused_data
        return first & 15, payload

    def until(self, opcode, seconds=WAIT_S):
        """The payload of the next frame of that opcode; None when the connection ends before it."""
        deadline = time.monotonic() + seconds
        while True:
            self.sock.settimeout(max(0.01, deadline - time.monotonic()))
            found = self.recv()
            if found is None or found[0] == opcode:
                return found and found[1]

    def until_text(self, part, seconds=WAIT_S):
        """The next text message with that in it."""
        deadline = time.monotonic() + seconds
        while True:
            message = self.until(TEXT, deadline - time.monotonic())
            assert message is not None, f"closed before {part!r}"
            if part.encode() in message:
                return message.decode()

    def close_code(self, seconds=WAIT_S):
        """Reads to the end: the close frame's code, or None for a bare cut."""
        try:
            payload = self.until(CLOSE, seconds)
        except ConnectionError:
            payload = None
        if not payload:
            return None
        code = int.from_bytes(payload[:2], "big")
        assert code not in (1005, 1006, 1015), f"{code} is not legal on the wire"
        payload[2:].decode("utf-8")
        return code

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
