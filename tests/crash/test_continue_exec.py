"""Exec agents that outlive the gateway: kill -9 at random moments of the gateway, of a holder, of an agent, of two of them,
and of a gateway that repairs; then the agents' own logs say what must be there.

Each byte that an agent has said is in its events once, in order; each line for it was heard once, in order; numbers are
dense, and there is one end.  HOLDFAST_SEED and HOLDFAST_CONTINUE_ROUNDS choose the run; the seed is printed.
"""

import os
import random
import signal
import time

from continuing import SEED, Round, begun, clean, kill, lasting
from gateway import SANITIZE, SCALE, Gateway
from holdfast import Client

ALL = "HOLDFAST_KILLS" in os.environ  # where everything runs
ROUNDS = int(os.environ.get("HOLDFAST_CONTINUE_ROUNDS", 300 if ALL else 6 if SANITIZE else 24))
CONFIG = {"agents": [lasting("lasting", default=True)]}


def kill_gateway(current, rng):
    current.live(rng.uniform(0.01, 0.25) * SCALE)
    current.gateway.kill()
    current.gateway.start()


def kill_twice(current, rng):
    current.live(rng.uniform(0.01, 0.15) * SCALE)
    current.gateway.kill()
    for _ in range(2):
        current.gateway.spawn()
        time.sleep(rng.uniform(0, 0.05) * SCALE)
        current.gateway.kill()
    current.gateway.start()


def kill_other(current, rng, names):
    begun(current.tasks)
    current.live(rng.uniform(0.01, 0.1) * SCALE)
    pids = current.tasks[0].holder(current.gateway)
    if "gateway" in names and rng.random() < 0.5:
        current.gateway.kill()
    for name in names:
        kill(current.gateway, pids.get(name, 0))
    if "gateway" in names:
        if current.gateway.process:
            current.gateway.kill()
        current.gateway.start()


VICTIMS = {
    "gateway": lambda current, rng: [kill_gateway(current, rng) for _ in range(2)],
    "gateway twice": kill_twice,
    "holder": lambda current, rng: kill_other(current, rng, ["holder"]),
    "agent": lambda current, rng: kill_other(current, rng, ["agent"]),
    "gateway and holder": lambda current, rng: kill_other(current, rng, ["gateway", "holder"]),
    "gateway and agent": lambda current, rng: kill_other(current, rng, ["gateway", "agent"]),
}


def test_a_holder_that_is_stopped_is_found_all_the_same():
    rng = random.Random(SEED)
    with Gateway(CONFIG, lasting=True) as gateway:
        with Client(gateway) as client:
            token = client.token
        current = Round(gateway, token, rng).begin("stopped", 2)
        begun(current.tasks)
        for task in current.tasks:
            os.kill(task.holder(gateway)["holder"], signal.SIGSTOP)
        gateway.kill()
        gateway.start()
        assert [record["status"] for record in current.finish()] == ["completed"] * 2
        clean(gateway)


def test_every_byte_is_there_once_whoever_is_killed():
    print(f"seed {SEED}, {ROUNDS} rounds")
    rng = random.Random(SEED)
    statuses = {}
    with Gateway(CONFIG, lasting=True) as gateway:
        with Client(gateway) as client:
            token = client.token
        for number in range(ROUNDS):
            victim = list(VICTIMS)[number % len(VICTIMS)]
            current = Round(gateway, token, rng).begin(number)
            VICTIMS[victim](current, rng)
            for record in current.finish():
                key = victim, record["status"], (record.get("error") or {}).get("code")
                statuses[key] = statuses.get(key, 0) + 1
            clean(gateway)
    print(statuses)
    for (victim, status, code), n in statuses.items():
        if victim in ("gateway", "gateway twice"):
            assert status == "completed", (victim, status, code, n)
    if ROUNDS >= len(VICTIMS):
        assert sum(n for (_, status, _), n in statuses.items() if status == "failed") > 0
