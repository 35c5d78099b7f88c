"""scenarios -- each yields its figures, then carries out one round per request."""
import json
import os
import subprocess
import urllib.request

from harness import Figure, fail, pair, pinned

PAIRS = 3  # repetitions in a round of short measurements, which vary by a fifth between processes


def journal(bench, small):
    """1,000 tasks in turn through the SQLite store, beside one rowid table."""
    figures = [Figure("journal, 100 events a commit", "events/s", least=0.5),
               Figure("journal, bytes written per event", "bytes", most=1024, of_ratio=False)]
    command = pinned(0, bench.o.nice) + [bench.compile_with_store("store_bench"), "1000", "100",
                                         "100000" if small else "500000", "1"]
    yield figures
    while True:
        done = subprocess.run(command, capture_output=True, text=True, start_new_session=True,
                              env={**os.environ, "TMPDIR": bench.dir})
        if done.returncode:
            fail("store_bench: " + done.stderr)
        r = json.loads(done.stdout)
        figures[0].add(r["events_per_s"], r["bare_events_per_s"])
        figures[1].add(r["bytes_per_event"], r["bare_bytes_per_event"])
        yield


def many(bench, small):
    """1,000 tasks with a subscriber each, from the agent over the journal to the socket."""
    figures = [Figure("end to end, 1,000 tasks, 1 event a turn", "events/s", least=0.55),
               Figure("end to end, 1,000 tasks, 16 events a turn", "events/s",
                      note="the bound sends 16 lines at once and has no journal")]
    yield figures
    while True:
        for figure, burst in zip(figures, (1, 16)):
            pair(bench, [figure], lambda s: bench.load(s, "many", tasks=1000, burst=burst,
                                                       events=50 if small else 300), ["tokens_s"])
        yield


def fanout(bench, small):
    """One task, 1,000 subscribers; the generator is the agent and waits for all of them."""
    figures = [Figure("fan-out 1 to 1,000, 1 in flight", "deliveries/s", least=0.8),
               Figure("fan-out 1 to 1,000, 16 in flight", "deliveries/s", least=0.5)]
    yield figures
    while True:
        for _ in range(PAIRS):
            for figure, window, events in zip(figures, (1, 16), (150, 700) if small else (700, 3000)):
                pair(bench, [figure], lambda s: bench.load(s, "fanout", agent="relay", socket=bench.socket,
                                                           window=window, events=events), ["deliveries_s"])
        yield


def replay_of(events):
    label = f"{events:,}"

    def scenario(bench, small):
        figures = [Figure(f"replay of {label}, 1 subscriber", "MB/s", least=0.3),
                   Figure(f"replay of {label}, 1 subscriber", "events/s"),
                   Figure(f"replay of {label}, 100 subscribers", "MB/s", least=0.3)]
        times = (20 if small else 200) * 1000 // events + 5

        def measure(server):
            bench.make(server, 1, events)
            return {"one": bench.load(server, "replay", state=bench.state, conns=1, warm=2, repeat=times),
                    "hundred": bench.load(server, "replay", state=bench.state, conns=100, warm=1,
                                          repeat=max(times // 20, 2))}

        yield figures
        while True:
            pair(bench, figures, measure, [("one", "mb_s"), ("one", "events_s"), ("hundred", "mb_s")])
            yield
    return scenario


def cold(bench, small):
    """Replays from the blocks on disk, each the first after a restart, beside those from memory."""
    figures = [Figure(f"cold replay of {n:,} / from memory", "MB/s", least=0.3) for n in (1000, 10000)]
    yield figures
    while True:
        for figure, events, tasks in [*zip(figures, (1000, 10000), (8, 4) if small else (40, 10))] * PAIRS:
            with bench.gateway() as first:
                bench.make(first, tasks, events)
            with bench.gateway(first.data) as server:
                options = {"state": bench.state, "conns": 1, "repeat": tasks}
                once = bench.load(server, "replay", **options)
                again = bench.load(server, "replay", **options)
            figure.add(once["mb_s"], again["mb_s"], once["cpu_s"], again["cpu_s"])
            bench.discard(server)
        yield


def comeback(bench, small):
    """Clients reconnect one after the other: connect, upgrade, hello and resume of 200 events."""
    figures = [Figure(f"connect() to caught up, 200 events, one after the other, {p}", "ms") for p in ("p50", "p99")]

    def measure(server):
        bench.make(server, 50, 197)
        return bench.load(server, "storm", state=bench.state, conns=200 if small else 2000, alone=1)

    yield figures
    while True:
        pair(bench, figures, measure, ["own_p50_ms", "own_p99_ms"])
        yield


def storm(bench, small):
    """Connections at once, each with hello and resume of 200 events, until all have them."""
    sizes = [(500, None)] if small else [(2000, 3.2), (9900, 6.3)]
    figures = [Figure(f"storm of {n:,}, until all are caught up", "s", most=most,
                      note="target: 0.15 (2,000) and 0.3 (9,900) of Nchan's time, as multiples of bare epoll")
               for n, most in sizes]
    figures += [Figure(f"storm of {n:,}, its first connect() to caught up, p99", "ms") for n, _ in sizes]

    def measure(server):
        bench.make(server, 50, 197)
        return {n: bench.load(server, "storm", state=bench.state, conns=n) for n, _ in sizes}

    yield figures
    while True:
        pair(bench, figures, measure, [(n, key) for key in ("seconds", "since_start_p99_ms") for n, _ in sizes])
        yield


def idle(bench, small):
    """Memory of a connection that follows a live task and hears nothing."""
    figures = [Figure("memory per idle connection, PSS", "bytes", most=2048, of_ratio=False),
               Figure("memory per idle connection, RSS", "bytes", of_ratio=False)]
    yield figures
    while True:
        with bench.gateway() as server:
            r = bench.load(server, "idle", conns=2000 if small else 9900, tasks=100, seconds=2)
        bench.discard(server)
        figures[0].add(r["pss_bytes"])
        figures[1].add(r["rss_bytes"])
        yield


def latency(bench, small):
    """From the event's ts to the subscriber, at a fixed rate."""
    busy = [Figure(f"latency at 20,000/s over 1,000 tasks, {p}", "ms", most=most, of_ratio=False)
            for p, most in (("p50", 2), ("p99", 10))]
    beside = [Figure(f"latency at 2,000/s beside 9,000 idle, {p}", "ms", most=most, of_ratio=False)
              for p, most in (("p50", 2), ("p99", 10))]
    cost = Figure("CPU at 2,000/s: beside 9,000 idle / alone", "s", most=1.2)
    yield busy + beside + [cost]
    seconds = 2 if small else 5
    while True:
        results = []
        for tasks, idle_conns in ((1000, 0), (100, 9000), (100, 0)):
            with bench.gateway() as server:
                results.append(bench.load(server, "latency", tasks=tasks, interval=50, idle=idle_conns,
                                          seconds=seconds))
            bench.discard(server)
        for figures, r in ((busy, results[0]), (beside, results[1])):
            figures[0].add(r["p50_ms"])
            figures[1].add(r["p99_ms"])
        cost.add(results[1]["cpu_s"], results[2]["cpu_s"])
        yield


def cancel(bench, small):
    """From the request to the terminal event, one after the other."""
    agents = (("source", 10), ("react", 10), ("obey", 30))
    figures = [Figure(f"cancel of {agent}, {p}", "ms", most=most if p == "p99" else None, of_ratio=False)
               for agent, most in agents for p in ("p50", "p99")]
    yield figures
    while True:
        with bench.gateway() as server:
            for i, (agent, _) in enumerate(agents):
                r = bench.load(server, "cancel", agent=agent, repeat=30 if small else 200)
                figures[2 * i].add(r["p50_ms"])
                figures[2 * i + 1].add(r["p99_ms"])
        bench.discard(server)
        yield


def coalesce(bench, small):
    """10,000 tokens of 4 bytes: the bytes of a merged replay, beside the plain one."""
    figures = [Figure("coalesced replay / plain, token lines", "bytes", most=0.05),
               Figure("coalesced replay / plain, all lines", "bytes")]
    yield figures
    while True:
        with bench.gateway() as server:
            bench.make(server, 1, 10000, bytes=4)
            plain, merged = (bench.load(server, "replay", state=bench.state, conns=1, coalesce=c)
                             for c in (0, 1))
        bench.discard(server)
        figures[0].add(merged["token_bytes"], plain["token_bytes"])
        figures[1].add(merged["bytes"], plain["bytes"])
        yield


def chain(bench, small):
    """The cost of the continuity proof: the CPU of the tasks of `many` with it, beside that without it, in turn."""
    figure = Figure("end to end, 1,000 tasks, with a proof / without: CPU", "s", most=1.05)
    yield [figure]
    while True:
        for _ in range(PAIRS):
            cpu = {}
            for proves in (False, True):
                bench.write_config(chain=proves)
                with bench.gateway() as server:
                    cpu[proves] = bench.load(server, "many", tasks=1000, burst=16, events=50 if small else 300)["cpu_s"]
                bench.discard(server)
            figure.add(cpu[True], cpu[False])
        bench.write_config()
        yield


FACES = {"ai_sdk": "AI SDK", "responses": "Responses"}


def faces(bench, small):
    """The same events through faces, beside our own wire: a replay from memory, and 100 live tasks."""
    events = 2000 if small else 20000
    cases = [(face, label, what) for what in ("replay", "live") for face, label in FACES.items()]
    figures = [Figure(f"{label}: replay of {events:,} / our wire" if what == "replay"
                      else f"{label}: 100 live tasks / our wire", "events/s", least=0.6)
               for _, label, what in cases]
    times = 5 if small else 20
    # With our wire's CPU, but the bytes of the face, and a mapping that takes no time at all: no mapping can do better.
    ceiling = Figure("Responses: the same, its bytes alone beside our wire's / our wire", "events/s of CPU")
    yield [*figures, ceiling]
    while True:
        for figure, (face, _, what) in zip(figures, cases):
            for _ in range(PAIRS):
                with bench.gateway() as server:
                    if what == "replay":
                        bench.make(server, 1, events)
                        own = bench.load(server, "replay", state=bench.state, conns=1, warm=2, repeat=times)
                        of = {"state": bench.state} if face == "responses" else {"socket": bench.socket}
                        got = bench.load(server, "replay_face", face=face, events=events, warm=2, repeat=times, **of)
                        figure.add(got["events_s"], own["events_s"], got["cpu_s"], own["cpu_s"])
                        figure.note = f"{got['bytes'] // times:,} bytes for {own['bytes'] // times:,}"
                        if face == "responses":
                            bare = [bench.bytes_cpu_s(one["bytes"] // times, times) for one in (own, got)]
                            n = events * times
                            ceiling.add(n / (own["cpu_s"] - bare[0] + bare[1]), n / own["cpu_s"])
                    else:
                        n = {"tasks": 100, "events": 200 if small else 2000, "burst": 4}
                        own = bench.load(server, "many", **n)
                        got = bench.load(server, "many_face", face=face, **n)
                        figure.add(got["tokens_s"], own["tokens_s"], got["cpu_s"], own["cpu_s"])
                bench.discard(server)
        yield


def live(bench, small):
    """Memory of a silent task: one that waits for a process slot, so only stream, record and indexes;
    and one that runs, with the run of its source agent.  With 50 of them in a conversation
    the conversation hardly counts; with one it counts in full.  The first share what a gateway takes
    once, such as the store's page cache; the figure of as many more is a task's alone."""
    cases = [(agent, run, per) for agent, run in (("obey", "without a run"), ("source", "with its run"))
             for per in (50, 1)]
    figures = [Figure(f"memory per live task beside its tail, {run}, {per} in a conversation, {which}, PSS", "bytes",
                      most=640 if agent == "obey" and per == 50 else None, of_ratio=False)
               for agent, run, per in cases for which in ("the first", "as many more")]
    yield figures
    while True:
        for first, more, (agent, _, per) in zip(figures[::2], figures[1::2], cases):
            with bench.gateway() as server:
                r = bench.load(server, "live", agent=agent, tasks=2000 if small else 50000, per=per, seconds=2)
            bench.discard(server)
            first.add(r["own_bytes"])
            more.add(r["more_bytes"])
        yield


def run_json(bench, command):
    done = subprocess.run(pinned(0, bench.o.nice) + command, capture_output=True, text=True, start_new_session=True)
    if done.returncode:
        fail(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def filled(bench, tasks, events):
    """A data folder with some tasks of 1,000 events of our own, then as many more as asked for."""
    with bench.gateway() as server:
        bench.make(server, 20, 1000)
    run_json(bench, [bench.compile_with_store("store_fill"), server.data, str(tasks), str(events)])
    with bench.gateway(server.data):  # tasks that ran when it was filled are repaired once
        pass
    return server.data


def cold_start(bench, data):
    """The time to ready, and a first replay of each of our tasks."""
    with bench.gateway(data) as server:
        once = bench.load(server, "replay", state=bench.state, conns=1, repeat=20)
    return {"ready_ms": server.ready_ms, "mb_s": once["mb_s"]}


def start(bench, small):
    """The start with a large store, and a replay from it, beside those with a small one."""
    tasks, events = (2000, 200000) if small else (100000, 10000000)
    label = f"{events:,} events, {tasks:,} tasks in the store"
    figures = [Figure(f"start, {label}", "ms", most=2000, of_ratio=False),
               Figure("cold replay of 1,000 out of it / out of a small store", "MB/s", least=0.8)]
    yield figures
    small_store = filled(bench, 1, 1)
    own = open(bench.state).read()
    large_store = filled(bench, tasks, events)
    large = open(bench.state).read()
    while True:
        results = []
        for data, state in ((small_store, own), (large_store, large)):
            with open(bench.state, "w") as f:
                f.write(state)
            results.append(cold_start(bench, data))
        figures[0].add(results[1]["ready_ms"], results[0]["ready_ms"])
        figures[1].add(results[1]["mb_s"], results[0]["mb_s"])
        yield


def commits_of(server):
    """Commits so far, of the gateway's metrics."""
    with urllib.request.urlopen(f"http://{server.url}/metrics", timeout=20) as answer:
        return next(float(line.split()[1]) for line in answer.read().decode().splitlines()
                    if line.startswith("holdfast_store_commits_total "))


def power(bench, small):
    """Commits that survive a power failure, beside a bare file with the same batches and an fdatasync each.
    Each agent sends its next event when its subscriber has the last; so many that the log has wrapped around,
    and grows no more."""
    sizes = {1: 8000, 10: 4000, 100: 2000}
    figures = [Figure(f"durable to power loss, {n} tasks emitting", "events/s", least=0.6,
                      note="the bound: the same number of lines a batch in a bare file") for n in sizes]

    def emit(server, tasks, events):
        """The generator's result, and the commits that it took."""
        before = commits_of(server)
        seen = bench.load(server, "turns", tasks=tasks, agent="relay", socket=bench.socket, events=events)
        return seen, commits_of(server) - before

    yield figures
    while True:
        bench.write_config(durability="power")
        for figure, (n, events) in zip(figures, sizes.items()):
            events //= 20 if small else 1
            with bench.gateway() as server:
                _, around = emit(server, n, 1)  # of the tasks' beginnings and ends
                ours, commits = emit(server, n, events)
            bench.discard(server)
            batch = max(round(n * (events - 1) / (commits - around)), 1)
            bound = run_json(bench, [os.path.join(bench.out, "bound_file"), os.path.join(bench.dir, "bound"),
                                     str(batch), "190", str(int(min(commits, 3000)))])
            figure.add(ours["events_s"], bound["events_s"])
        bench.write_config()
        yield


SCENARIOS = {"journal": journal, "many": many, "fanout": fanout, "replay1k": replay_of(1000),
             "replay10k": replay_of(10000), "cold": cold, "comeback": comeback, "storm": storm,
             "idle": idle, "latency": latency, "cancel": cancel, "coalesce": coalesce, "live": live, "start": start,
             "faces": faces, "chain": chain,
             "power": power}
REPLAYS = ["replay1k", "replay10k", "cold"]
QUICK = [name for name in SCENARIOS if name not in ("replay10k", "idle", "latency")]
TAKE_URL = ["many", "replay1k", "replay10k", "comeback", "storm", "coalesce"]  # with no agent but one named source
