"""A drain under load: everyone is told, comes back to the next instance on the same data, and misses nothing."""

import asyncio
import signal
import time

from follower import Follower
from gateway import SANITIZE, SCALE, WAIT_S, Gateway, script_agent
from holdfast import Client

CLIENTS = 200 if SANITIZE else 1000
TASKS = 50
CONFIG = {"drain_s": 2 * SCALE,
          "agents": [script_agent(default=True), {"name": "source", "kind": "source"}]}


class Seat:
    """One client over its connections."""

    def __init__(self, task):
        self.task, self.cursor = task, 0
        self.codes, self.told, self.ended = [], 0, None

    async def connect(self, gateway, token):
        loop = asyncio.get_running_loop()
        _, self.follower = await loop.create_connection(
            lambda: Follower(gateway, token, self.task, self.cursor), gateway.host, gateway.port)

    async def leave(self):
        """The connection's end, which must be the gateway's own, or the task's."""
        await asyncio.wait_for(asyncio.shield(self.follower.closed), WAIT_S * 2)
        if self.follower.failure:
            raise self.follower.failure
        self.cursor, self.ended = self.follower.cursor, self.follower.ended
        self.told += self.follower.goaway
        if self.follower.close_code:
            self.codes.append(self.follower.close_code)


async def first_life(gateway, token, seats):
    for some in range(0, len(seats), 50):  # half of all connections may be before welcome
        await asyncio.gather(*(seat.connect(gateway, token) for seat in seats[some:some + 50]))
    latest = time.monotonic() + 4 * WAIT_S
    while not all(seat.follower.cursor > 2 for seat in seats):
        assert time.monotonic() < latest, f"{sum(seat.follower.cursor > 2 for seat in seats)} have read something"
        for seat in seats:
            if seat.follower.closed.done():
                if seat.follower.failure:
                    raise seat.follower.failure
                assert not seat.follower.greeted, "the gateway hung up"
                await seat.connect(gateway, token)  # this process was late with its hello
        await asyncio.sleep(0.05)
    gateway.process.send_signal(signal.SIGTERM)
    await asyncio.gather(*(seat.leave() for seat in seats))


async def second_life(gateway, token, seats):
    for seat in seats:
        await seat.connect(gateway, token)
    await asyncio.gather(*(seat.leave() for seat in seats))


def test_drain_of_1000_connections_and_50_tasks_loses_nothing():
    with Gateway(CONFIG) as gateway:
        with Client(gateway) as client:
            token = client.token
            tasks = [client.chat("events=1000000 bytes=40 burst=1 interval_ms=100", agent="source",
                                 conversation=f"c{n}") for n in range(TASKS - 5)]
            tasks += [client.chat({"flood": 1_000_000, "bytes": 40, "per_s": 50}, conversation="script")
                      for n in range(5)]
        seats = [Seat(tasks[n % TASKS]) for n in range(CLIENTS)]
        asyncio.run(first_life(gateway, token, seats))
        assert gateway.wait() == 0
        assert all(seat.told == 1 for seat in seats)  # before the close, to everyone
        assert all(seat.ended == "task.failed" or seat.codes == [1001] for seat in seats)
        heads = {}
        with_rest = [seat for seat in seats if not seat.ended]
        gateway.start()
        asyncio.run(second_life(gateway, token, with_rest))
        assert all(seat.ended == "task.failed" for seat in seats)
        for seat in seats:  # all have read the same: density was checked line by line
            assert heads.setdefault(seat.task["task_id"], seat.cursor) == seat.cursor
        with Client(gateway, token=token) as client:
            for task in tasks:
                record = client.task(task)
                assert record["error"]["code"] == "orphaned" and record["head"] == heads[task["task_id"]]
