"""Many readers of many tasks, each of which comes back, through any door, until its task has ended."""

import asyncio
import random
import re
import threading
import zlib

from follower import Follower
from gateway import WAIT_S, wait_until

AGAIN_S = 0.05  # between two tries of one reader
LINE = re.compile(rb'\{"type":"event"[^\n]*')
SEQ = re.compile(rb'"seq":(\d+)')


class Door:
    """An address, which is all that a reader wants of a gateway."""

    def __init__(self, port, host="127.0.0.1"):
        self.host, self.port = host, port


class Life(Follower):
    """One connection of a reader; a refusal ends it."""

    def __init__(self, reader, door):
        super().__init__(door, reader.token, reader.task, reader.cursor)
        self.reader = reader

    def take_message(self, payload):
        if b'{"type":"error"' in payload:  # nobody is there yet, or this process was too busy to greet
            codes = set(re.findall(rb'"code":"([a-z_]+)"', payload))
            assert codes == {b"overloaded"} or b"no hello within" in payload, payload
            self.transport.abort()
            return
        super().take_message(payload)
        for line in LINE.findall(payload):
            seq = int(SEQ.search(line)[1])
            assert seq not in self.reader.lines, f"{seq} twice"
            self.reader.lines[seq] = zlib.crc32(line)
        self.reader.cursor, self.reader.ended = self.cursor, self.ended


class Reader:
    def __init__(self, token, task, doors):
        self.token, self.task, self.doors = token, task, doors
        self.cursor, self.ended, self.failure = 0, None, None
        self.lines = {}  # seq → what the line was, as a sum
        self.connections = 0
        self.ended_at = None

    async def live(self):
        loop = asyncio.get_running_loop()
        while not self.ended and not self.failure:
            life = Life(self, random.choice(self.doors))
            try:
                await loop.create_connection(lambda made=life: made, life.gateway.host, life.gateway.port)
            except OSError:
                await asyncio.sleep(AGAIN_S)
                continue
            self.connections += 1
            await life.closed
            if life.upgraded:
                self.failure = life.failure
            if not self.ended:
                await asyncio.sleep(AGAIN_S)
        self.ended_at = loop.time()


class Crowd:
    """Readers on a thread of their own.  Asked from other threads, its numbers are those of some moment."""

    def __init__(self):
        self.readers = []
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def add(self, token, task, doors):
        reader = Reader(token, task, doors)
        self.readers.append(reader)
        asyncio.run_coroutine_threadsafe(reader.live(), self.loop)
        return reader

    def check(self):
        for reader in self.readers:
            assert reader.failure is None, reader.failure

    def all(self, condition, what, seconds=4 * WAIT_S):
        def all_do():
            self.check()
            return all(map(condition, self.readers))
        wait_until(all_do, what, seconds)

    def read_on(self, n=3):
        """Each that has not ended has so many more events than now."""
        goals = {reader: reader.cursor + n for reader in self.readers}
        self.all(lambda r: r.ended or r.cursor >= goals[r], "events for everybody")

    def whole(self):
        """Waits for the ends; each has every number once, and two readers of a task the same lines."""
        self.all(lambda r: r.ended, "the end of every task")
        known = {}
        for reader in self.readers:
            assert sorted(reader.lines) == list(range(1, reader.cursor + 1))
            assert known.setdefault(reader.task["task_id"], reader.lines) == reader.lines

    def close(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(WAIT_S)
