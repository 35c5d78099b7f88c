#!/usr/bin/python3
"""soak -- a mixed life for as long as you like, and whether anything grows that should not.

    ./dev soak [SECONDS]        default 600

Short tasks and long ones, clients that drop and resume, readers that do not read, cancels, agents that
are processes, streams over HTTP; in between the gateway is stopped, and killed, and started again.  Each
client checks all that it gets (support/holdfast.py: dense, one ending, nothing behind it).  Once a second
the gateway's resident memory, descriptors, threads and write-ahead log are noted; within each run of the
gateway, behind its first third, none of them may rise: the slope is the median of all slopes between two
samples (Theil-Sen), so that a peak is no growth.

Writes soak.csv and a picture of each series into build/soak; exit status 0: all is flat.
HOLDFAST_SEED repeats the choices of a run; HOLDFAST names the program (build/holdfast).
"""

import csv
import http.client
import os
import pathlib
import random
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "bench")]

from gateway import Gateway, SANITIZE, script_agent  # noqa: E402
from holdfast import Client, Closed, Refused, ids, new_id, program  # noqa: E402
from picture import lines  # noqa: E402

SEED = int(os.environ.get("HOLDFAST_SEED", random.randrange(2**32)))
RUN_S = 600           # a run of the gateway lasts so long, at most
PAUSE_S = 0.2         # of a life, at most: so that an hour does not fill a disk, or store_gib
STILL_S = 60          # so long nothing of all may get done before that is a failure
AWAY = (Closed, Refused, OSError, http.client.HTTPException)  # what a restart does to a client
CONFIG = {
    "agents": [{"name": "source", "kind": "source", "default": True}, script_agent(grace_s=1)],
    "store": {"replay_cache_mib": 8}, "drain_s": 2,
    "limits": {"tasks": 20_000, "tasks_per_owner": 20_000, "connections_per_address": 5000,
               "requests_per_second": 100_000, "burst": 100_000, "processes": 20},
}
# The allowed rise within a run: a part of its median, or this much, whichever is more.
SERIES = {"rss_mib": (0.10, 6.0), "descriptors": (0.10, 8.0), "threads": (0.0, 0.5), "wal_mib": (0.25, 16.0)}
WAL_MIB = 64          # and the log is never longer than that


class Again(Exception):
    """The gateway is busy, or about to stop: later."""


class Life(threading.Thread):
    """A client that lives one kind of life, over as many connections as it takes."""

    def __init__(self, soak, kind, number):
        super().__init__(name=f"{kind}-{number}", daemon=True)
        self.soak, self.kind = soak, kind
        self.rng = random.Random(f"{SEED}-{self.name}")
        self.conversation = f"{kind}-{number}"
        self.token = self.client = None
        self.n = 0
        self.failure = None

    def run(self):
        while not self.soak.over.is_set():
            try:
                with Client(self.soak.gateway, token=self.token, rcvbuf=4096 if self.kind == "slow" else None) as c:
                    self.token, self.client = c.token, c
                    for _ in range(self.rng.randrange(1, 20)):
                        getattr(self, self.kind)(c)
                        self.n += 1
                        c.log.clear()
                        c.raw.clear()
                        c.asked.clear()
                        if self.soak.over.wait(self.rng.random() * PAUSE_S):
                            return
            except (*AWAY, Again):
                self.soak.over.wait(0.1 + self.rng.random() * 0.3)
            except BaseException as failure:
                if self.soak.is_serving():
                    self.failure = failure
                    return

    def start_task(self, client, message, **fields):
        reply = client.ask("chat", message=message, conversation_id=self.conversation, **fields)
        if reply["type"] == "error":
            assert reply["code"] == "overloaded", reply
            raise Again
        return reply["task"]

    def follow(self, client, task, seconds=None):
        """To its end, or for so long."""
        until = time.monotonic() + (seconds or 120)
        while task["task_id"] not in client.ended:
            if time.monotonic() > until:
                assert seconds, "no end in sight"
                return
            client.pump(0.2)

    # ---------------------------------------------------------- the lives

    def short(self, client):
        events = self.rng.randrange(1, 200)
        self.follow(client, self.start_task(client, f"events={events} bytes=120", request_key=new_id("k")))

    def drops(self, client):
        """A task of ten seconds, left and resumed behind what was seen."""
        if not getattr(self, "task", None):
            self.task, self.seen = self.start_task(client, "events=1000 bytes=60 interval_ms=10"), 0
        else:
            reply = client.ask("resume", **ids(self.task), after=self.seen)
            if reply["type"] == "error":
                assert reply["code"] in ("overloaded", "internal"), reply
                raise Again
        self.follow(client, self.task, self.rng.random() * 3)
        self.seen = client.last[self.task["task_id"]]
        if self.task["task_id"] in client.ended:
            self.task = None
        self.n += 1
        client.drop()
        raise Closed(None)

    def slow(self, client):
        """Reads nothing of a long replay for a while; then all of it."""
        task = self.start_task(client, "events=3000 bytes=200")
        self.soak.over.wait(self.rng.random() * 3)
        self.follow(client, task)

    def cancels(self, client):
        task = self.start_task(client, "events=100000 bytes=30 interval_ms=20")
        client.pump(self.rng.random() * 0.5)
        assert client.ask("cancel", **ids(task))["type"] == "ok"
        self.follow(client, task)

    def processes(self, client):
        steps = [{"token": "x"}, {"flood": self.rng.randrange(1, 300)}, {"final_answer": "y"}]
        self.follow(client, self.start_task(client, program(*steps), agent="script"))

    def streams(self, client):
        """The events of an ended task over HTTP: all of them, or a cut."""
        task = self.start_task(client, "events=300 bytes=50")
        self.follow(client, task)
        path = f"/v1/conversations/{self.conversation}/tasks/{task['task_id']}/events"
        status, _, body = self.soak.gateway.http("GET", path, headers={"Authorization": f"Bearer {self.token}"})
        if status != 200:
            assert status in (503, 500), (status, body)
            raise Again
        seqs = [int(line[4:]) for line in body.decode().split("\n") if line.startswith("id: ")]
        assert seqs == list(range(1, client.last[task["task_id"]] + 1))


class Soak:
    def __init__(self, seconds):
        self.seconds = seconds
        self.gateway = Gateway(CONFIG)
        self.over = threading.Event()
        self.serving = False
        self.done, self.done_at = 0, time.monotonic()
        self.samples = []  # of each second: run, seconds of the run, and each of SERIES
        counts = {"short": 6, "drops": 8, "slow": 3, "cancels": 3, "processes": 1, "streams": 2}
        self.lives = [Life(self, kind, i) for kind, n in counts.items() for i in range(n)]

    def is_serving(self):
        return self.serving

    def sample(self, run, at):
        self.samples.append({
            "run": run, "seconds": round(at, 1), "rss_mib": self.gateway.rss() / 1048576,
            "descriptors": self.gateway.n_fds(), "threads": self.gateway.n_threads(),
            "wal_mib": self.gateway.wal_bytes() / 1048576})

    def look_for_progress(self):
        """A gateway that refuses everything is flat as well."""
        done, now = sum(life.n for life in self.lives), time.monotonic()
        if done != self.done:
            self.done, self.done_at = done, now
        elif now - self.done_at > STILL_S:
            raise SystemExit(f"soak: nothing was done for {STILL_S} s\n{self.gateway.tail()}")

    def serve(self, run, seconds):
        """One run of the gateway, and its end: a stop or a kill, in turn."""
        self.gateway.start()
        self.serving, begun = True, time.monotonic()
        if run == 0:
            for life in self.lives:
                life.start()
        while (at := time.monotonic() - begun) < seconds:
            time.sleep(max(0.0, 1 - time.monotonic() % 1))
            self.sample(run, at)
            del self.gateway.log[:-500]
            self.raise_failure()
            self.look_for_progress()
        self.serving = False
        if run % 2:
            self.gateway.kill()
        else:
            status = self.gateway.stop()
            if status != 0:
                raise SystemExit(f"soak: exit {status}\n{self.gateway.tail()}")

    def run(self):
        runs = max(2, round(self.seconds / RUN_S))
        for run in range(runs):
            self.serve(run, self.seconds / runs)
            print(f"run {run + 1}/{runs}: {self.summary()}", flush=True)
        self.over.set()
        for life in self.lives:
            life.join(60)
        self.raise_failure()

    def raise_failure(self):
        for life in self.lives:
            if life.failure:
                raise SystemExit(f"soak: {life.name}: {life.failure!r}\n{self.gateway.tail()}")

    def summary(self):
        return ", ".join(f"{sum(l.n for l in self.lives if l.kind == kind)} {kind}"
                         for kind in dict.fromkeys(l.kind for l in self.lives))


# ------------------------------------------------------------------ flat?


def slope(points):
    """The median of the slopes between any two (Theil-Sen), of at most 200 of them."""
    points = points[:: max(1, len(points) // 200)]
    slopes = sorted((y2 - y1) / (x2 - x1) for i, (x1, y1) in enumerate(points) for x2, y2 in points[i + 1:] if x2 > x1)
    return slopes[len(slopes) // 2] if slopes else 0.0


def judge(samples):
    """(lines that say how each series went, whether all are flat)"""
    said, flat = [], True
    for run in sorted({s["run"] for s in samples}):
        own = [s for s in samples if s["run"] == run]
        own = own[len(own) // 3:]
        if len(own) < 5:
            raise SystemExit(f"soak: {len(own)} samples of run {run + 1} say nothing: more seconds, please")
        length = own[-1]["seconds"] - own[0]["seconds"]
        for name, (part, least) in SERIES.items():
            values = sorted(s[name] for s in own)
            middle = values[len(values) // 2]
            rise = slope([(s["seconds"], s[name]) for s in own]) * length
            is_flat = rise <= max(part * middle, least) and (name != "wal_mib" or values[-1] <= WAL_MIB)
            flat = flat and is_flat
            said.append(f"run {run + 1}: {name:11} median {middle:8.1f}, highest {values[-1]:8.1f}, "
                        f"rise {rise:+7.2f} in {length:.0f} s: {'flat' if is_flat else 'GROWS'}")
    return said, flat


def write(samples, folder):
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "soak.csv", "w", newline="") as f:
        table = csv.DictWriter(f, samples[0])
        table.writeheader()
        table.writerows(samples)
    for name in SERIES:
        series = {}
        for s in samples:
            series.setdefault(f"run {s['run'] + 1}", []).append((s["seconds"], s[name]))
        (folder / f"{name}.svg").write_text(lines("Soak", "seconds of a run", name, series, is_log=False))


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 600.0
    print(f"seed {SEED}, {seconds:.0f} s", flush=True)
    soak = Soak(seconds)
    try:
        soak.run()
    finally:
        soak.over.set()
        if soak.gateway.process:
            soak.gateway.kill()
        if soak.samples:
            write(soak.samples, ROOT / "build" / "soak")
    said, flat = judge(soak.samples)
    print("\n".join(said))
    soak.gateway.close()
    sys.exit(0 if flat or SANITIZE else 1)


if __name__ == "__main__":
    main()
