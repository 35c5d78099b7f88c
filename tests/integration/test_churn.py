"""200 clients drop and resume at random while tasks pour out events: no gap, no duplicate (F03).

HOLDFAST_CHURN_S sets how long, HOLDFAST_SEED which random run.  A client keeps its cursor over its
connections; whatever comes must be exactly the cursor's successors.
"""

import asyncio
import base64
import json
import os
import random
import re

from gateway import SANITIZE, WAIT_S, wait_until
from holdfast import Client, ids
from wire import CLOSE, PING, PONG, TEXT, frame

SECONDS = float(os.environ.get("HOLDFAST_CHURN_S", 20 if SANITIZE else 60))
SEED = int(os.environ.get("HOLDFAST_SEED", random.randrange(2**32)))
CLIENTS = 200
TASKS = 5
RATE = 800  # events/s of each
TASK_S = 8
EVENT = re.compile(rb'\{"type":"event","task_id":"[^"]+","seq":(\d+),"ts":\d+,"event":"([^"]+)"')
LAST_TEXT = re.compile(rb'"seq":(\d+),"ts":\d+,"event":"token","data":\{"text":"(\d+) ')


class Totals:
    events = connections = replays = ends = 0


class Follower(asyncio.Protocol):
    """One connection: resumes one task behind the cursor, and checks that nothing is amiss."""

    def __init__(self, gateway, token, task, cursor):
        self.task, self.cursor, self.token = task, cursor, token
        self.gateway = gateway
        self.buffer = bytearray()
        self.upgraded = False
        self.ended = False
        self.failure = None
        self.closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        Totals.connections += 1
        self.transport = transport
        key = base64.b64encode(os.urandom(16)).decode()
        transport.write((f"GET /v1/ws HTTP/1.1\r\nHost: {self.gateway.host}:{self.gateway.port}\r\n"
                         "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                         f"Sec-WebSocket-Key: {key}\r\n\r\n").encode())

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
            self.upgraded, self.buffer = True, bytearray(rest)
            lines = json.dumps({"type": "hello", "token": self.token}) + "\n" + json.dumps(
                {"type": "resume", "id": "r", **ids(self.task), "after": self.cursor})
            self.transport.write(frame(TEXT, lines.encode()))
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
            self.take_message(payload)
        else:
            assert opcode & 15 != CLOSE, f"closed: {payload}"
        return True

    def take_message(self, payload):
        found = EVENT.findall(payload)
        assert len(found) == payload.count(b'{"type":"event"'), payload[:300]
        assert b'{"type":"error"' not in payload, payload[:300]
        assert not (found and self.ended), "after the end"
        seqs = [int(seq) for seq, _ in found]
        assert seqs == list(range(self.cursor + 1, self.cursor + 1 + len(seqs))), \
            f"cursor {self.cursor}, then {seqs[:5]} … {seqs[-5:]}"
        numbered = LAST_TEXT.findall(payload)
        if numbered:  # the numbers that the agent gave its tokens: what came is what it said
            assert int(numbered[-1][0]) == int(numbered[-1][1]) + 2, payload[-300:]
        self.cursor += len(seqs)
        Totals.events += len(seqs)
        if found and found[-1][1].startswith(b"task."):
            self.ended = found[-1][1] in (b"task.completed", b"task.failed")
            if self.ended:
                assert found[-1][1] == b"task.completed"
                self.transport.abort()

    def connection_lost(self, _):
        if not self.closed.done():
            self.closed.set_result(None)


async def churn(gateway, token, tasks, rng, over):
    """One client: follows one task after the other, over many connections each."""
    loop = asyncio.get_running_loop()
    while not over.is_set():
        task, cursor = rng.choice(tasks), rng.choice([0, 0, 0, 1])
        while True:
            _, follower = await loop.create_connection(
                lambda: Follower(gateway, token, task, cursor), gateway.host, gateway.port)
            # To the end when time is up: nobody leaves without having seen everything.
            patience = WAIT_S * 4 if over.is_set() else rng.choice([0.05, 0.3, 1, 2]) * rng.random() * 2
            try:
                await asyncio.wait_for(asyncio.shield(follower.closed), patience)
                assert follower.failure or follower.ended, "the gateway hung up"
            except asyncio.TimeoutError:
                assert not over.is_set() or patience < WAIT_S, "no end in sight"
                Totals.replays += 1
            follower.transport.abort()
            if follower.failure:
                raise follower.failure
            cursor = follower.cursor
            if follower.ended:
                Totals.ends += 1
                break


async def keep_tasks(client, tasks, over):
    """Keeps so many tasks alive; the oldest makes room."""
    while True:
        if len(tasks) >= TASKS:
            await asyncio.sleep(TASK_S / TASKS)
        if over.is_set():
            return
        task = client.chat({"flood": RATE * TASK_S, "bytes": 30, "per_s": RATE})
        client.call("unsubscribe", **ids(task))
        tasks.append(task)
        if len(tasks) > TASKS:
            tasks.pop(0)


async def run(gateway, client, rng):
    tasks, over = [], asyncio.Event()
    keeper = asyncio.create_task(keep_tasks(client, tasks, over))
    while len(tasks) < 2:
        await asyncio.sleep(0.01)
    clients = [asyncio.create_task(churn(gateway, client.token, tasks, random.Random(rng.random()), over))
               for _ in range(CLIENTS)]
    done, _ = await asyncio.wait(clients, timeout=SECONDS, return_when=asyncio.FIRST_EXCEPTION)
    over.set()
    if not done:
        await asyncio.wait(clients, timeout=WAIT_S * 6, return_when=asyncio.FIRST_EXCEPTION)
    failures = [one.exception() for one in clients if one.done() and one.exception()]
    unfinished = [one for one in clients if not one.done()]
    for one in unfinished:
        one.cancel()
    await asyncio.gather(*clients, return_exceptions=True)
    await keeper
    if failures:
        raise failures[0]
    assert not unfinished, f"{len(unfinished)} clients never came to an end"


def test_churn_has_no_gap_and_no_duplicate(gateway):
    print(f"seed {SEED}")
    with Client(gateway) as client:
        fds = gateway.n_fds()
        asyncio.run(run(gateway, client, random.Random(SEED)))
        client.quiet()
    print(f"{Totals.events} events, {Totals.connections} connections, {Totals.replays} drops, "
          f"{Totals.ends} ends")
    assert Totals.ends >= CLIENTS and Totals.replays > SECONDS * 10
    wait_until(lambda: gateway.n_fds() <= fds + 2, "the descriptors of those that left")
