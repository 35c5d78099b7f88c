"""harness -- what run, growth and soak share: programs built and pinned, servers started, figures kept."""
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CFLAGS = "-std=gnu17 -D_GNU_SOURCE= -O2 -g -Wall -Wextra -Werror -Wshadow -Wvla".split()
PROGRAMS = {
    "load": ["load.c", "load_live.c", "load_past.c", "load_agent.c", "load_face.c", "client.c"],
    "relay": ["relay.c"],
    "bound_epoll": ["bound_epoll.c"],
    "bound_file": ["bound_file.c"],
    "bound_bytes": ["bound_bytes.c"],
}
LIBRARIES = ["libwebsockets", "libuv", "jansson", "openssl", "sqlite3", "libcurl", "zlib"]


def fail(text):
    sys.exit("bench: " + text)


# --- programs ------------------------------------------------------------------------------------

def compile_program(out, name, sources, extra=()):
    target = os.path.join(out, name)
    paths = [os.path.join(ROOT, "bench", s) for s in sources]
    inputs = paths + [os.path.join(ROOT, "bench", h) for h in ("client.h", "handover.h", "load.h")]
    inputs += [a for a in extra if a.endswith(".a")]
    if os.path.exists(target) and all(os.path.getmtime(target) > os.path.getmtime(p) for p in inputs):
        return
    command = [os.environ.get("CC", "cc"), *CFLAGS, *paths, "-o", target, *extra]
    if subprocess.run(command).returncode:
        fail(f"cannot build {name}")


def store_arguments(build):
    """With libpq if that build of the gateway has it."""
    with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as cache:
        has_pq = "PQ_FOUND:INTERNAL=1\n" in cache.read()
    libraries = LIBRARIES + (["libpq"] if has_pq else [])
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", *libraries], capture_output=True, text=True)
    archives = [os.path.join(build, f"lib{a}.a") for a in ("rim", "core", "proto")]
    define = ["-DHOLDFAST_POSTGRES"] if has_pq else []
    return ["-I", ROOT, *define, "-pthread", *archives, *flags.stdout.split(), "-lm"]


def pinned(cpu, nice):
    """Starts a command.  Where the kernel groups processes by session, a nice value counts only within its
    session, so the session gets it too."""
    command = []
    if nice:
        group = f"echo {nice} 2>/dev/null >/proc/self/autogroup; exec nice -n {nice} \"$@\""
        command = ["sh", "-c", group, "sh"]
    if os.cpu_count() > 1 and shutil.which("taskset"):
        command += ["taskset", "-c", str(cpu)]
    return command


class Server:
    """A bound or a gateway: its address, its process, and where its data is."""

    def __init__(self, bench, command, data=None):
        self.data = data
        err = open(os.path.join(bench.dir, "server.log"), "ab")
        self.process = subprocess.Popen(pinned(0, bench.o.nice) + command, stdout=subprocess.PIPE,
                                        stderr=err, start_new_session=True)
        err.close()
        begun = time.monotonic()
        line = self.process.stdout.readline()
        self.ready_ms = (time.monotonic() - begun) * 1000
        if not line:
            self.process.wait()
            fail(f"{command[0]} did not start:\n{bench.log_tail()}")
        self.url = json.loads(line)["listen"]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        time.sleep(0.05)
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *why):
        self.stop()


class Remote:
    """Somebody else's running gateway: measured unchanged, without a bound."""

    data = None

    def __init__(self, url):
        self.url = url

    def __enter__(self):
        return self

    def __exit__(self, *why):
        pass


class Bench:
    def __init__(self, options):
        self.o = options
        self.out = os.path.join(ROOT, "build", "bench")
        os.makedirs(self.out, exist_ok=True)
        self.dir = tempfile.mkdtemp(prefix="holdfast-bench-", dir=options.data)
        self.socket = os.path.join(self.dir, "agent")
        self.state = os.path.join(self.dir, "state")
        self.config = os.path.join(self.dir, "config.json")
        self.gateway_program = os.path.abspath(options.gateway)
        if not options.url and not os.path.exists(self.gateway_program):
            fail(f"there is no {self.gateway_program}: build the gateway first (./dev build)")
        for name, sources in PROGRAMS.items():
            compile_program(self.out, name, sources)
        self.write_config()
        self.n = 0

    def write_config(self, **store):
        relay = os.path.join(self.out, "relay")
        forever = {"timeout_s": 0, "idle_timeout_s": 0}
        agents = [{"name": "source", "kind": "source", "default": True, **forever},
                  {"name": "relay", "kind": "exec", "command": [relay, self.socket], **forever},
                  {"name": "obey", "kind": "exec", "command": [relay, "obey"]},
                  {"name": "react", "kind": "react"}]
        limits = {"connections": 1000000, "connections_per_address": 1000000, "requests_per_second": 100000,
                  "burst": 100000, "tasks": 100000, "tasks_per_owner": 100000, "processes": 128}
        with open(self.config, "w") as f:
            json.dump({"agents": agents, "limits": limits, "drain_s": 0, "log": {"level": "warn"},
                       "store": store}, f)

    def log_tail(self):
        with open(os.path.join(self.dir, "server.log"), errors="replace") as f:
            return f.read()[-2000:]

    def bound(self):
        return Server(self, [os.path.join(self.out, "bound_epoll")])

    def compile_with_store(self, name):
        """A program of the benchmark on the gateway's own libraries."""
        compile_program(self.out, name, [name + ".c"], store_arguments(os.path.dirname(self.gateway_program)))
        return os.path.join(self.out, name)

    def gateway(self, data=None):
        if self.o.url:
            return Remote(self.o.url)
        if not data:
            self.n += 1
            data = os.path.join(self.dir, f"data{self.n}")
        command = [self.gateway_program, "serve", "--config", self.config, "--listen", "127.0.0.1:0"]
        return Server(self, command + ["--data", data], data)

    def load(self, server, mode, **options):
        command = pinned(1, self.o.nice) + [os.path.join(self.out, "load"), mode, "--url", server.url]
        if not isinstance(server, Remote):
            options = {"pid": server.process.pid, **options}
        for name, value in {"timeout": 300, **options}.items():
            command += [f"--{name}", str(value)]
        done = subprocess.run(command, capture_output=True, text=True, start_new_session=True)
        if done.returncode:
            fail(f"{' '.join(command)}\n{done.stderr}{self.log_tail()}")
        return json.loads(done.stdout)

    def bytes_cpu_s(self, n, times):
        """CPU that a bare loop takes to write so many bytes, so many times."""
        command = pinned(0, self.o.nice)[:-3] if shutil.which("taskset") and os.cpu_count() > 1 else pinned(0, self.o.nice)
        done = subprocess.run(command + [os.path.join(self.out, "bound_bytes"), str(n), str(times)],
                              capture_output=True, text=True, start_new_session=True)
        if done.returncode:
            fail(done.stderr)
        return json.loads(done.stdout)["cpu_s"]

    def make(self, server, tasks, events, **options):
        """Tasks with a short final answer; the bound has one task only, and somebody else's gateway
        has no agent of ours, so its answers are long."""
        if isinstance(server, Remote):
            self.load(server, "make", state=self.state, events=events, tasks=tasks, **options)
            return
        self.load(server, "make", agent="relay", socket=self.socket, state=self.state, events=events,
                  tasks=1 if "bound" in server.process.args[-1] else tasks, **options)

    def discard(self, server):
        if server.data:
            shutil.rmtree(server.data, ignore_errors=True)

    def done(self):
        shutil.rmtree(self.dir, ignore_errors=True)


# --- figures -------------------------------------------------------------------------------------

class Figure:
    """The measurements of each round; the ratio is to the bound, or to another figure."""

    def __init__(self, name, unit, least=None, most=None, of_ratio=True, note=""):
        self.name, self.unit, self.least, self.most = name, unit, least, most
        self.of_ratio, self.note = of_ratio, note
        self.bound, self.ours, self.cpu = [], [], []

    def add(self, ours, bound=None, ours_cpu=None, bound_cpu=None):
        self.ours.append(ours)
        if bound is not None:
            self.bound.append(bound)
        if ours_cpu and bound_cpu:
            self.cpu.append(ours_cpu / bound_cpu)

    def ratio(self):
        pairs = [o / b for o, b in zip(self.ours, self.bound) if b]
        return statistics.median(pairs) if pairs else None

    def value(self):
        return self.ratio() if self.of_ratio else statistics.median(self.ours)  # None without a bound

    def target(self):
        if self.least is None and self.most is None:
            return ""
        sign, limit = ("≥", self.least) if self.least is not None else ("≤", self.most)
        return f"{sign} {limit:g}" + ("" if self.of_ratio else f" {self.unit}")

    def met(self):
        """None: there is no target, or no bound to compare with."""
        if (self.least is None and self.most is None) or self.value() is None:
            return None
        return self.value() >= self.least if self.least is not None else self.value() <= self.most

    def as_dict(self):
        return {"name": self.name, "unit": self.unit, "bound": self.bound, "ours": self.ours,
                "ratio": self.ratio(), "cpu_ratio": statistics.median(self.cpu) if self.cpu else None,
                "of_ratio": self.of_ratio, "limit": self.most if self.least is None else self.least,
                "target": self.target(), "met": self.met(), "note": self.note}


def pair(bench, figures, measure, keys):
    """One round: measure(server) on the bound, then on a fresh gateway."""
    results = []
    if bench.o.url:
        with bench.gateway() as server:
            ours = measure(server)
        for figure, key in zip(figures, keys):
            figure.add(ours[key[0]][key[1]] if isinstance(key, tuple) else ours[key])
        return
    for start in (bench.bound, bench.gateway):
        with start() as server:
            results.append(measure(server))
        bench.discard(server)
    bound, ours = results
    for figure, key in zip(figures, keys):
        b, o = (r[key[0]] for r in results) if isinstance(key, tuple) else (bound, ours)
        key = key[1] if isinstance(key, tuple) else key
        figure.add(o[key], b[key], o.get("cpu_s"), b.get("cpu_s"))


# --- the machine ------------------------------------------------------------------------------------

def lost_percent(nice):
    """CPU time that a loop which never sleeps loses to others, in gaps over 1 ms."""
    probe = ("import time\nt=time.monotonic\nend=t()+1\nlast=t()\nlost=0\n"
             "while last<end:\n n=t()\n lost+=(n-last)*(n-last>.001)\n last=n\nprint(lost*100)")
    done = subprocess.run(pinned(0, nice) + [sys.executable, "-c", probe], capture_output=True, text=True,
                          start_new_session=True)
    return round(float(done.stdout), 1)


def cpu_times():
    with open("/proc/stat") as f:
        return [int(x) for x in f.readline().split()[1:9]]


def machine(before):
    after = cpu_times()
    passed = max(sum(after) - sum(before), 1)
    model = "?"
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":")[1].strip()
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return {"date": time.strftime("%Y-%m-%d %H:%M", time.gmtime()), "cpu": model, "cpus": os.cpu_count(),
            "kernel": platform.release(), "commit": commit.stdout.strip(), "load": os.getloadavg()[0],
            "steal_percent": round(100 * (after[7] - before[7]) / passed, 1)}
