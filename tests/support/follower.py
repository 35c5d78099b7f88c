"""One connection of many: follows one task, on asyncio, with as little work per event as possible."""

import asyncio
import base64
import json
import os
import re
import zlib

from holdfast import ids
from wire import CLOSE, PING, PONG, TEXT, TRAILER, deflated, frame

EVENT = re.compile(rb'\{"type":"event","task_id":"[^"]+","seq":(\d+),"ts":\d+,"event":"([^"]+)"')
LAST_TEXT = re.compile(rb'"seq":(\d+),"ts":\d+,"event":"token","data":\{"text":"(\d+) ')


class Follower(asyncio.Protocol):
    """One connection: resumes one task after the cursor, and checks that all is well."""

    def __init__(self, gateway, token, task, cursor, compressed=False):
        self.task, self.cursor, self.token = task, cursor, token
        self.gateway, self.compressed = gateway, compressed
        self.inflater = zlib.decompressobj(-15)  # keeps its window from message to message
        self.buffer = bytearray()
        self.upgraded = False
        self.greeted = False  # a first message came
        self.ended = None  # the terminal event's name
        self.close_code = None
        self.goaway = False
        self.n_events = 0
        self.failure = None
        self.closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self.transport = transport
        key = base64.b64encode(os.urandom(16)).decode()
        transport.write((f"GET /v1/ws HTTP/1.1\r\nHost: {self.gateway.host}:{self.gateway.port}\r\n"
                         "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                         + "Sec-WebSocket-Extensions: permessage-deflate\r\n" * self.compressed
                         + f"Sec-WebSocket-Key: {key}\r\n\r\n").encode())

    def data_received(self, data):
        try:
            self.buffer += data
            if not self.upgraded and not self.upgrade():
                return
            while self.take_frame():
                pass
        except AssertionError as failure:
            self.failure = failure
            self.transport.abort()

    def upgrade(self):
        head, mark, rest = bytes(self.buffer).partition(b"\r\n\r\n")
        if mark:
            assert head.startswith(b"HTTP/1.1 101"), head
            assert (b"permessage-deflate" in head) == self.compressed
            self.upgraded, self.buffer = True, bytearray(rest)
            lines = json.dumps({"type": "hello", "token": self.token}) + "\n" + json.dumps(
                {"type": "resume", "id": "r", **ids(self.task), "after": self.cursor})
            lines = lines.encode()
            self.transport.write(frame(TEXT, deflated(lines), rsv=4) if self.compressed else frame(TEXT, lines))
        return self.upgraded

    def take_frame(self):
        if len(self.buffer) < 2:
            return False
        n, at = self.buffer[1], 2
        if n > 125:
            at += 2 if n == 126 else 8
            if len(self.buffer) < at:
                return False
            n = int.from_bytes(self.buffer[2:at], "big")
        if len(self.buffer) < at + n:
            return False
        opcode, payload = self.buffer[0], bytes(self.buffer[at : at + n])
        del self.buffer[: at + n]
        assert opcode & 0x80, "no fragments from the gateway"
        if opcode & 15 == PING:
            self.transport.write(frame(PONG, payload))
        elif opcode & 15 == TEXT:
            if opcode & 0x40:
                payload = self.inflater.decompress(payload + TRAILER)
            self.take_message(payload)
        elif opcode & 15 == CLOSE:
            self.close_code = int.from_bytes(payload[:2], "big")
            self.transport.close()
        return True

    def take_message(self, payload):
        if not self.greeted and b'"message":"no hello within 10 s"' in payload:
            return  # this process was too busy to send it in time
        self.greeted = True
        found = EVENT.findall(payload)
        assert len(found) == payload.count(b'{"type":"event"'), payload[:300]
        assert b'{"type":"error"' not in payload, payload[:300]
        assert not (found and self.ended), "after the end"
        seqs = [int(seq) for seq, _ in found]
        assert seqs == list(range(self.cursor + 1, self.cursor + 1 + len(seqs))), \
            f"cursor {self.cursor}, then {seqs[:5]} … {seqs[-5:]}"
        numbered = LAST_TEXT.findall(payload)
        if numbered:  # the numbers that the agent gave its tokens: they must all have arrived
            assert int(numbered[-1][0]) == int(numbered[-1][1]) + 2, payload[-300:]
        self.cursor += len(seqs)
        self.goaway = self.goaway or b'{"type":"goaway"' in payload
        self.n_events += len(seqs)
        if found and found[-1][1].startswith(b"task."):
            if found[-1][1] in (b"task.completed", b"task.failed"):
                self.ended = found[-1][1].decode()
            if self.ended:
                self.transport.abort()

    def connection_lost(self, _):
        if not self.closed.done():
            self.closed.set_result(None)
