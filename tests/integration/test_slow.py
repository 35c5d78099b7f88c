"""Slow and frozen readers, and replays far larger than memory (F11, F41, F43, F08)."""

import json
import pathlib
import re
import statistics
import threading
import time

import pytest

from gateway import LATE_S, SANITIZE, SCALE, wait_until
from holdfast import Client, ids
from wire import PING, PONG, TEXT, Wire, frame

CONFIG = {"store": {"replay_cache_mib": 4}}
MIB = 1 << 20
SEQ_TS = re.compile(rb'"type":"event","task_id":"[^"]+","seq":(\d+),"ts":(\d+)')
SEQ = re.compile(rb'"type":"event","task_id":"[^"]+","seq":(\d+)')


def welcome_and_resume(wire, token, task, after=0):
    wire.text(json.dumps({"type": "hello", "id": "h", "token": token}))
    wire.until_text('"welcome"')
    wire.text(json.dumps({"type": "resume", "id": "r", **ids(task), "after": after}))


def usual(waits):
    """That of nine in ten at most: a gateway that is held up makes many wait, a machine that sleeps for a second
    makes one wait (the next is asked when it has been answered)."""
    return sorted(waits)[len(waits) * 9 // 10] if waits else 0


class Probe(threading.Thread):
    """Pings, and now and then runs a small task, until told to stop; keeps how long each has taken."""

    def __init__(self, gateway):
        super().__init__(daemon=True)
        self.client = Client(gateway)
        self.over = threading.Event()
        self.waits = {"ping": [], "chat": []}
        self.failure = None

    def time(self, name, do):
        begun = time.monotonic()
        do()
        self.waits[name].append(time.monotonic() - begun)

    def run(self):
        try:
            n = 0
            while not self.over.wait(0.02):
                self.time("ping", self.client.quiet)
                n += 1
                if n % 20 == 0:
                    self.time("chat", lambda: self.client.finish("x"))
        except Exception as failure:  # pylint: disable=broad-except
            self.failure = failure

    def finish(self):
        self.over.set()
        self.join()
        self.client.close()
        assert self.failure is None, self.failure
        return {name: usual(waits) for name, waits in self.waits.items()}


def test_frozen_and_slow_readers_harm_nobody(gateway, client):  # F41
    """One that never reads, one of 1 KiB/s, and eight good ones, of the same task and of others."""
    seconds, rate = 6, 4000 // (2 if SANITIZE else 1)
    client.quiet()
    rss = gateway.rss()
    task = client.chat({"flood": seconds * rate, "bytes": 1000, "per_s": rate}, {"final_answer": "x"})
    client.call("unsubscribe", **ids(task))
    frozen = Wire(gateway, rcvbuf=4096)
    welcome_and_resume(frozen, client.token, task)
    slow = Wire(gateway, rcvbuf=4096)
    welcome_and_resume(slow, client.token, task)
    over = threading.Event()

    def sip():
        while not over.wait(1):
            slow.sock.recv(1024)

    sipper = threading.Thread(target=sip, daemon=True)
    sipper.start()
    probe = Probe(gateway)
    probe.start()
    late, peak, ends = [], 0, []

    def follow(reader):
        payload, last = b"", 0
        while b'"event":"task.completed"' not in payload:
            payload = reader.until(TEXT)
            now = time.time() * 1000
            found = [(int(seq), int(ts)) for seq, ts in SEQ_TS.findall(payload)]
            assert [seq for seq, _ in found] == list(range(last + 1, last + 1 + len(found)))
            last += len(found)
            late.append(max((now - ts for _, ts in found), default=0) / 1000)
        ends.append(last)

    threads = []
    for _ in range(8):
        reader = Wire(gateway)
        welcome_and_resume(reader, client.token, task)
        threads.append(threading.Thread(target=follow, args=(reader,)))
        threads[-1].start()
    while any(thread.is_alive() for thread in threads):
        peak = max(peak, gateway.rss())
        time.sleep(0.05)
    waits = probe.finish()
    over.set()
    assert ends == [seconds * rate + 4] * 8
    record = client.task(task)
    took = (record["completed_at"] - record["started_at"]) / 1000
    assert took < seconds + LATE_S  # the task is not slowed
    # Half of it comes at once: one that waited for the frozen or the slow reader would make nearly all late, and for
    # as long as they are; a machine that sleeps for a second, what is said in that second.
    assert statistics.median(late) < 0.5 * SCALE, f"median {statistics.median(late):.3f} s"
    assert waits["ping"] < 1 * SCALE, waits
    if not SANITIZE:  # 11 to 25; a queue for each of the two that do not read would be 24 MB each, on top of that
        assert peak - rss < 40 * MIB, f"{(peak - rss) / MIB:.1f} MiB"
    # The frozen one thaws, and has everything from the beginning on.
    expected = 1
    while expected <= record["head"]:
        payload = frozen.until(TEXT)
        assert payload is not None, f"closed at {expected}"
        for seq in SEQ.findall(payload):
            assert int(seq) == expected
            expected += 1
    frozen.close()
    slow.close()
    sipper.join()


def test_frozen_reader_does_not_share_events_with_another(gateway, client, clients):  # F08
    gate = gateway.path()
    task = client.chat({"wait": gate}, {"flood": 100})
    frozen = Wire(gateway)
    welcome_and_resume(frozen, client.token, task)
    other = clients(token=client.token)
    other.resume(task)
    open(gate, "w", encoding="utf-8").close()
    assert [event["seq"] for event in other.events(task)] == list(range(1, 105))
    seen = []
    while len(seen) < 104:
        seen += map(int, SEQ.findall(frozen.until(TEXT)))
    assert seen == list(range(1, 105))
    frozen.close()


@pytest.fixture(scope="module")
def large(gateway):
    """A guest with one ended task of 200 MB (20 MB in the sanitizers' builds)."""
    with Client(gateway) as client:
        n = 20_000 if SANITIZE else 200_000
        task = client.chat({"flood": n, "bytes": 900}, {"final_answer": "x"})
        client.call("unsubscribe", **ids(task))
        wait_until(lambda: client.task(task)["status"] == "completed", "the writing", 120 * SCALE)
        client.large = task
        yield client


def test_replay_of_200_mb_costs_a_few_mib(gateway, large):  # F11
    task, head = large.large, large.task(large.large)["head"]
    rss, heap, peak, highest = gateway.rss(), gateway.heap(), 0, 0
    probe = Probe(gateway)
    probe.start()
    with Wire(gateway, rcvbuf=MIB) as wire:
        welcome_and_resume(wire, large.token, task)
        expected, largest, total, begun = 1, 0, 0, time.monotonic()
        while expected <= head:
            payload = wire.until(TEXT)
            seqs = list(map(int, SEQ.findall(payload)))
            assert seqs == list(range(expected, expected + len(seqs)))
            expected += len(seqs)
            largest, total = max(largest, len(payload)), total + len(payload)
            if expected % 50 < 2:
                peak, highest = max(peak, gateway.rss()), max(highest, gateway.heap())
        took = time.monotonic() - begun
    peak = max(peak, gateway.rss())
    waits = probe.finish()
    assert total > head * 900 and largest <= 65536
    assert waits["ping"] < 1 * SCALE, f"{waits} over {took:.1f} s"
    if not SANITIZE:
        assert highest - heap < 20 * MIB, f"{(highest - heap) / MIB:.1f} MiB"  # 7 as a rule: a tenth of 200 at most
        assert peak - rss < 40 * MIB, f"{(peak - rss) / MIB:.1f} MiB"  # 11: and what malloc keeps for later


def test_many_replays_at_once_are_bounded(gateway, large):
    """Fifty frozen replays of the 200 MB: a connection is a cursor, not a queue."""
    rss = gateway.rss()
    wires = [Wire(gateway, rcvbuf=4096) for _ in range(50)]
    for i, wire in enumerate(wires):
        welcome_and_resume(wire, large.token, large.large, i * 100)
    probe = Probe(gateway)
    probe.start()
    time.sleep(1)
    waits = probe.finish()
    if not SANITIZE:
        assert gateway.rss() - rss < 32 * MIB, f"{(gateway.rss() - rss) / MIB:.1f} MiB"
    assert waits["ping"] < 1 * SCALE
    for wire in wires:
        wire.close()


def test_pings_are_answered_during_a_slow_replay(gateway, large):  # F43
    """256 kB/s; a WebSocket ping and a ping request each second, each answered within 3 s."""
    with Wire(gateway, rcvbuf=16384) as wire:
        welcome_and_resume(wire, large.token, large.large)
        asked, answered, begun, read = {}, {}, time.monotonic(), 0
        n = 0
        while time.monotonic() - begun < 5:
            if len(asked) < 2 * (time.monotonic() - begun):
                n += 1
                key = f"p{n}"
                asked[key] = time.monotonic()
                wire.text(json.dumps({"type": "ping", "id": key}))
                wire.send(frame(PING, key.encode()))
            opcode, payload = wire.recv()
            read += len(payload)
            if opcode == PONG:
                answered[payload.decode(), "frame"] = time.monotonic()
            elif b'"pong"' in payload:
                for key in re.findall(rb'"type":"pong","id":"(p\d+)"', payload):
                    answered[key.decode(), "line"] = time.monotonic()
            time.sleep(max(0, begun + read / 256_000 - time.monotonic()))
        for key, at in asked.items():
            if at < begun + 2:
                for kind in ("frame", "line"):  # one pong may answer several pings
                    when = [answered[later, kind] for later in asked
                            if int(later[1:]) >= int(key[1:]) and (later, kind) in answered]
                    assert when and min(when) - at < 3, (key, kind, asked, answered)


def unsent_bytes(gateway, wire):
    """Bytes that the kernel holds for this client and could not deliver."""
    ends = [f":{port:04X}" for port in (gateway.port, wire.sock.getsockname()[1])]
    for line in pathlib.Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        local, remote, _, queues = line.split()[1:5]
        if [local[-5:], remote[-5:]] == ends:
            return int(queues.split(":")[0], 16)
    raise AssertionError("no such connection")


def test_pong_waits_for_no_more_than_128_kib_in_the_kernel(gateway, large):  # F43
    """However many more may be on their way to a reader that takes them."""
    with Wire(gateway, rcvbuf=4096) as wire:
        welcome_and_resume(wire, large.token, large.large)
        seen = [0, 0]
        wait_until(lambda: seen.append(unsent_bytes(gateway, wire)) or (seen[-1] > 32768 and seen[-1] == seen[-3]),
                   "a full socket")
        assert seen[-1] <= 131072


def test_ten_thousand_pings_without_reading_are_bounded(gateway):  # F43
    with Wire(gateway, rcvbuf=4096) as wire:
        wire.text('{"type":"hello"}')
        wire.until_text("welcome")
        rss = gateway.rss()
        wire.sock.settimeout(0.5)
        try:
            for i in range(10_000):
                wire.send(frame(TEXT, b'{"type":"ping","id":"%d"}' % i))
        except TimeoutError:
            pass
        if not SANITIZE:
            assert gateway.rss() - rss < 4 * MIB


def test_sockets_of_readers_that_are_cut_are_freed(gateway, large):
    before = gateway.n_fds()
    for i in range(30):
        wire = Wire(gateway, rcvbuf=4096)
        welcome_and_resume(wire, large.token, large.large, i)
        wire.sock.setsockopt(1, 13, b"\1\0\0\0\0\0\0\0")  # SO_LINGER: a reset
        wire.close()
    wait_until(lambda: gateway.n_fds() <= before, "the descriptors' end")
    with Client(gateway) as client:
        client.quiet()
