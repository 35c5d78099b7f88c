"""100 clients drop and resume at random while tasks pour out events: no gap, no duplicate (F03).

HOLDFAST_CHURN_S sets how long, HOLDFAST_SEED which random run.  A client keeps its cursor over its
connections; whatever comes must be exactly the cursor's successors.
"""

import asyncio
import os
import random

from follower import Follower
from gateway import SANITIZE, WAIT_S, wait_until
from holdfast import Client, ids

SECONDS = float(os.environ.get("HOLDFAST_CHURN_S", 12 if SANITIZE else 60))
SEED = int(os.environ.get("HOLDFAST_SEED", random.randrange(2**32)))
CLIENTS = 100
TASKS = 5
RATE = 800  # events/s of each
TASK_S = 8
CONFIG = {"compression": True}  # which every other connection asks for


class Totals:
    events = connections = replays = ends = late = 0


async def churn(gateway, token, tasks, rng, over):
    """One client: follows one task after the other, over many connections each."""
    loop = asyncio.get_running_loop()
    while not over.is_set():
        task, cursor, compressed = rng.choice(tasks), rng.choice([0, 0, 0, 1]), rng.random() < 0.5
        while True:
            _, follower = await loop.create_connection(
                lambda: Follower(gateway, token, task, cursor, compressed), gateway.host, gateway.port)
            # To the end when time is up: nobody leaves without having seen everything.
            patience = WAIT_S * 4 if over.is_set() else rng.choice([0.05, 0.3, 1, 2]) * rng.random() * 2
            try:
                await asyncio.wait_for(asyncio.shield(follower.closed), patience)
                # One that this busy process could not serve in time never said its hello.
                assert follower.failure or follower.ended or not follower.greeted, "the gateway hung up"
                Totals.late += not follower.greeted
            except asyncio.TimeoutError:
                assert not over.is_set() or patience < WAIT_S, "no end in sight"
                Totals.replays += 1
            follower.transport.abort()
            if follower.failure:
                raise follower.failure
            assert follower.ended in (None, "task.completed")
            assert not follower.close_code or not follower.greeted
            cursor = follower.cursor
            Totals.events += follower.n_events
            Totals.connections += 1
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
    while len(tasks) < 2 and not keeper.done():
        await asyncio.sleep(0.01)
    if keeper.done():
        await keeper  # it has failed
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
    with Client(gateway, token=client.token) as client:  # the first may have been silent for too long
        client.quiet()
    print(f"{Totals.events} events, {Totals.connections} connections, {Totals.replays} drops, "
          f"{Totals.ends} ends")
    assert Totals.ends >= CLIENTS and Totals.replays > SECONDS * 10 and Totals.late < Totals.connections // 10
    wait_until(lambda: gateway.n_fds() <= fds + 2, "the descriptors of those that left")
