"""A thousand tasks of fifty owners live at once, with cancels, sends, spawns, questions and kills at random.

Each owner is a thread with a model of what must hold: whatever was acknowledged is true for ever, over
every restart.  In the end nothing is left: no live task, no process, no memory.

HOLDFAST_LOAD_S sets how long, HOLDFAST_SEED which random run.
"""

import contextlib
import os
import random
import re
import threading
import time

from gateway import SANITIZE, WAIT_S, Gateway, processes_with, script_agent, wait_until
from holdfast import LIVE, TERMINAL, Client, Closed, ids, program

SECONDS = float(os.environ.get("HOLDFAST_LOAD_S", 10 if SANITIZE else 60))
SEED = int(os.environ.get("HOLDFAST_SEED", random.randrange(2**32)))
OWNERS = 10 if SANITIZE else 50
EACH = 20  # live tasks of one owner
KILLS = 1 if SANITIZE else 3
WAL_MAX = 64 << 20
CONFIG = {"agents": [script_agent(default=True, grace_s=1), {"name": "source", "kind": "source"}],
          "store": {"replay_cache_mib": 8}}
LISTENER = program({"question": "q", "kind": "approval", "prompt": "go on?"},
                   {"line": {"call": "spawn", "call_id": "s", "agent": "source",
                             "input": "events=100000 bytes=30 burst=1 interval_ms=200"}},
                   {"repeat": 1_000_000, "steps": [{"hear": "message"}]})


class Owner(threading.Thread):
    """One owner's life: what it was told, and what it does next."""

    def __init__(self, gateway, number, full):
        super().__init__(name=f"owner-{number}", daemon=True)  # a test that fails ends, whatever they do
        self.gateway, self.rng, self.full = gateway, random.Random(SEED + number), full
        self.conversation = f"work-{number}"
        self.token = None
        self.client = None
        self.seen = {}       # task id → seq of its newest event, over all connections
        self.known = {}      # task id → summary, as a reply or a push had it
        self.ended = {}      # task id → status
        self.cancelled = set()
        self.sent = {}       # task id → messages that were acknowledged, in order
        self.answered = set()
        self.n_sent = self.n_lives = self.peak = 0
        self.failure = None
        self.over = threading.Event()

    # ---------------------------------------------------------- connections

    def connect(self):
        self.client = Client(self.gateway, token=self.token)
        self.token = self.client.token
        self.n_lives += 1
        for task in self.live():  # what it missed, and then what comes
            self.client.resume(self.known[task], self.seen[task])
        reply = self.client.call("open", conversation_id=self.conversation, follow=True, limit=100)
        for task in reply["tasks"]:
            self.learn(task)
            if task["status"] in LIVE:
                self.seen.setdefault(task["task_id"], task["head"])
        self.take(0)

    def learn(self, task):
        self.known[task["task_id"]] = task

    def take(self, since):
        """The lines' contents go into the model; the client has checked that they are dense."""
        for line in self.client.log[since:]:
            if line["type"] == "task":
                self.learn(line["task"])
            elif line["type"] == "event":
                task = line["task_id"]
                assert line["seq"] == self.seen.get(task, 0) + 1, line
                self.seen[task] = line["seq"]
                self.known.setdefault(task, {"task_id": task, "conversation_id": self.conversation})
                if line["event"] in TERMINAL:
                    assert task not in self.ended, line
                    self.ended[task] = line["data"].get("status", "completed")
        self.client.log.clear()
        self.client.raw.clear()

    def live(self):
        return [task for task in self.seen if task not in self.ended]

    # ---------------------------------------------------------- what it does

    def start_one(self):
        if self.rng.random() < 0.1:
            task = self.client.chat(LISTENER, conversation=self.conversation)
        else:
            events = self.rng.randrange(5, 60)
            if not self.full.is_set():  # else a slow machine would see as many end as begin
                events = 1_000_000
            task = self.client.chat(
                f"events={events} bytes=40 burst=1 interval_ms=200", agent="source",
                conversation=self.conversation, background=self.rng.random() < 0.3,
                request_key=f"{self.name}-{len(self.known)}-{self.n_lives}")
        self.learn(task)
        self.seen.setdefault(task["task_id"], 0)

    def cancel_one(self, tree):
        task = self.rng.choice(self.live())
        reply = self.client.call("cancel", tree=tree, **ids(self.known[task]))
        self.cancelled.update(reply["task_ids"])

    def send_one(self):
        listeners = [task for task in self.live() if self.known[task].get("agent") == "script"]
        if not listeners:
            return
        task = self.rng.choice(listeners)
        content = f"message {self.n_sent}"
        self.n_sent += 1
        reply = self.client.ask("send", content=content, **ids(self.known[task]))
        if reply["type"] == "ok":
            self.sent.setdefault(task, []).append(content)
        else:
            assert reply["code"] in ("task_terminated", "no_inbox"), reply

    def answer_one(self):
        waiting = [task for task in self.live() if self.known[task].get("waiting_for") == "q"]
        if waiting:
            task = self.rng.choice(waiting)
            reply = self.client.ask("respond", input_id="q", answer=True, **ids(self.known[task]))
            if reply["type"] == "ok":
                self.answered.add(task)

    def step(self):
        live = len(self.live())
        self.peak = max(self.peak, live)
        dice = self.rng.random()
        if live < EACH / 2 or (live < EACH and dice < 0.6):
            self.start_one()
        elif dice < 0.65:
            self.cancel_one(False)
        elif dice < 0.68:
            self.cancel_one(True)
        elif dice < 0.85:
            self.send_one()
        elif dice < 0.9:
            self.answer_one()
        else:
            self.client.pump(0.2)
        self.take(0)

    def run(self):
        try:
            while not self.over.is_set():
                with contextlib.suppress(Closed, OSError):
                    self.connect()
                    while not self.over.is_set():
                        self.step()
                time.sleep(0.05)
        except BaseException as failure:  # told by the test's thread
            self.failure = failure

    # ---------------------------------------------------------- what must hold

    def finish(self):
        """No task of it goes on; then all that it was ever told is checked against the store."""
        self.client.close()
        self.connect()
        client = self.client
        client.call("cancel_all", conversation_id=self.conversation)
        self.take(0)
        while self.live():
            assert client.pump(WAIT_S), [client.task(self.known[task]) for task in self.live()]
            self.take(0)
        for task in self.known.values():
            record = client.task(task)
            assert record["status"] not in LIVE
            status = self.ended.get(task["task_id"])
            assert status in (None, record["status"]), (status, record)
            if task["task_id"] in self.cancelled:
                assert record["status"] == "cancelled", record
        for task, sent in self.sent.items():
            self.check_messages(task, sent)
        client.close()

    def check_messages(self, task, sent):
        """Each acknowledged message was delivered or is in the record: once, and in order."""
        client = self.client
        events = client.replay(self.known[task], 0)
        assert sum(event["event"] in TERMINAL for event in events) == 1
        got = [e["data"]["content"] for e in events if e["event"] == "message"]
        got += [m["content"] for m in client.task(self.known[task]).get("undelivered") or []
                if m["from"] == "user"]
        got = [content for content in got if content in set(sent)]
        assert got == sent
        received = [event for event in events if event["event"] == "input_received"]
        assert len(received) <= 1
        if task in self.answered:
            assert received


def raise_failure(owners):
    for owner in owners:
        if owner.failure:
            owner.over.set()
            raise owner.failure


def live_tasks(gateway):
    return sum(int(n) for n in re.findall(r"^holdfast_tasks\{.*\} (\d+)", metrics(gateway), re.M))


def settled(gateway):
    """(descriptors, bytes of memory in use, threads) with no client and no process of an agent."""
    wait_until(lambda: len(processes_with(gateway.mark)) == 1, "no agent's process")
    with Client(gateway) as client:
        client.quiet()
    wait_until(lambda: "holdfast_connections 0" in metrics(gateway), "no connection")
    return gateway.n_fds(), gateway.heap(), gateway.n_threads()


def metrics(gateway):
    return gateway.http("GET", "/metrics")[2].decode()


def test_thousand_tasks_of_fifty_owners():
    print(f"seed {SEED}")
    with Gateway(CONFIG) as gateway:
        full = threading.Event()  # there are as many at once as there should be
        owners = [Owner(gateway, number, full) for number in range(OWNERS)]
        for owner in owners:
            owner.start()
        peak = 0
        for kill in range(KILLS + 1):
            until = time.monotonic() + SECONDS / (KILLS + 1)
            latest = until + 4 * WAIT_S
            highest = 0
            while time.monotonic() < until or highest < OWNERS * EACH * 0.9:
                raise_failure(owners)
                assert time.monotonic() < latest, f"no more than {highest} tasks at once"
                highest = max(highest, live_tasks(gateway))
                if highest >= OWNERS * EACH * 0.9:
                    full.set()
                assert gateway.wal_bytes() < WAL_MAX, "the write-ahead log is not cut"
                time.sleep(0.2)
            peak = max(peak, highest)
            if kill < KILLS:
                full.clear()
                gateway.kill()
                gateway.start()
        for owner in owners:
            owner.over.set()
        for owner in owners:
            owner.join(WAIT_S)
        raise_failure(owners)
        for owner in owners:
            owner.finish()
        print(f"{sum(len(o.known) for o in owners)} tasks, {peak} at once, "
              f"{sum(len(o.cancelled) for o in owners)} cancelled, "
              f"{sum(len(s) for o in owners for s in o.sent.values())} messages, "
              f"{sum(o.n_lives for o in owners)} connections")
        wait_until(lambda: live_tasks(gateway) == 0, "no live task")
        descriptors, memory, threads = settled(gateway)
        gateway.stop()
        gateway.start()
        fresh = settled(gateway)
        print(f"{memory / 1e6:.0f} MB, {descriptors} descriptors; fresh {fresh[1] / 1e6:.0f}, {fresh[0]}")
        assert threads == fresh[2]
        assert abs(descriptors - fresh[0]) <= 2  # of the request for /metrics, closed a little later
        if not SANITIZE:  # the cache of blocks is 8 MiB
            assert memory - fresh[1] < 20e6
