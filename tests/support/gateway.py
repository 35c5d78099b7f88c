"""The gateway in a test: a process with a configuration, a data folder and a port."""

import contextlib
import http.client
import json
import os
import pathlib
import queue
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid

SUPPORT = pathlib.Path(__file__).resolve().parent
BINARY = os.environ.get("HOLDFAST") or str(SUPPORT.parent.parent / "build" / "holdfast")
SANITIZE = os.environ.get("HOLDFAST_SANITIZE", "")
SCALE = {"address": 3, "thread": 6}.get(SANITIZE, 1)  # how much longer everything may take
WAIT_S = 30 * SCALE  # for things that normally come at once
LATE_S = 5 + 5 * SCALE  # how late a busy machine may be with anything

STORE = os.environ.get("HOLDFAST_TEST_STORE", "")  # "postgres": gateways that name no store have theirs there
WRONG_NODE = os.environ.get("HOLDFAST_TEST_NODES", "") == "wrong"  # then clients come to a front, never to the home
PROCESSES = int(os.environ.get("HOLDFAST_TEST_PROCESSES", "1"))  # of each gateway whose test names no number
POSTGRES = os.environ.get("HOLDFAST_POSTGRES", "")  # support/postgres.py's file about the tests' server

SCRIPT = [str(pathlib.Path(BINARY).resolve().parent / "tests" / "script_agent")]
MARK = "HOLDFAST_TEST_MARK"  # in the environment of the gateway and of everything that it starts
REPORTS = re.compile(r"AddressSanitizer|LeakSanitizer|ThreadSanitizer|runtime error:")


def merged(base, changes):
    """A copy of base with changes laid over it; None removes a key."""
    result = dict(base)
    for key, value in (changes or {}).items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = value
    return result


def on_server(url, sql):
    """Its rows as text, a line each."""
    return subprocess.run(["psql", "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql], check=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True).stdout


def script_agent(name="script", **options):
    return {"name": name, "kind": "exec", "command": SCRIPT, "grace_s": 1, **options}


# All clients of a test share one address, so limits by address must not interfere.
DEFAULTS = {
    "agents": [script_agent(default=True)],
    "drain_s": 1,
    "limits": {"tasks_per_owner": 5000, "connections_per_address": 5000,
               "requests_per_second": 100000, "burst": 100000},
}


def processes_with(mark):
    """pid → command line of every living process that was started under mark, at any depth."""
    found = {}
    needle = f"{MARK}={mark}".encode()
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            environ = pathlib.Path("/proc", entry, "environ").read_bytes()
            state = pathlib.Path("/proc", entry, "stat").read_text().rsplit(")", 1)[1].split()[0]
            if needle in environ.split(b"\0") and state != "Z":
                found[int(entry)] = pathlib.Path("/proc", entry, "cmdline").read_bytes().decode()
    return found


def has_mark(pid, mark):
    """Whether it was started under that mark."""
    with contextlib.suppress(OSError):
        return f"{MARK}={mark}".encode() in pathlib.Path("/proc", str(pid), "environ").read_bytes().split(b"\0")
    return False


def runs(pid, *words):
    """Whether these stand in its command line."""
    with contextlib.suppress(OSError):
        command = pathlib.Path("/proc", str(pid), "cmdline").read_bytes()
        return all(os.fsencode(word) in command for word in words)
    return False


def signal_if(is_meant, pid, number):
    """Signals a process whose pid was learnt some time ago: by now the pid may be another's, of a test beside this one.
    What is looked at is what is signalled."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        with contextlib.suppress(ProcessLookupError):
            if is_meant(pid):
                signal.pidfd_send_signal(descriptor, number)
                return True
        return False
    finally:
        os.close(descriptor)


def wait_until(condition, what, seconds=WAIT_S):
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.01)


CLAIMS = []  # to the ports that free_port has given: names that one process can have


def free_port():
    """A port that is this process's until it ends, even while no gateway listens on it: outside the range that the
    system hands out, and locked against tests that run at the same time."""
    while True:
        port = random.randrange(20000, 32000)
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0holdfast-test-port-{port}")
            with socket.create_server(("127.0.0.1", port)):
                CLAIMS.append(claim)
                return port
        except OSError:
            claim.close()


@contextlib.contextmanager
def refusing_port():
    """A port on which nobody listens, and nobody else can meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def is_alive(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path("/proc", str(pid), "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


def families(metrics):
    """name → [the lines that introduce it, {sample: value}]."""
    found, name = {}, None
    for line in metrics.splitlines():
        if line.startswith("#"):
            name = line.split(" ")[2]
            found.setdefault(name, ([], {}))[0].append(line)
        else:
            sample, value = line.rsplit(" ", 1)
            found[name][1][sample] = float(value)
    return found


def summed(metrics, others):
    """Metrics of two gateways as if they were one's."""
    both = families(metrics)
    for name, (introduced, samples) in families(others).items():
        mine = both.setdefault(name, (introduced, {}))[1]
        for sample, value in samples.items():
            mine[sample] = mine.get(sample, 0) + value
    lines = []
    for introduced, samples in both.values():
        lines += introduced
        lines += [f"{sample} {int(value) if value.is_integer() else value}" for sample, value in samples.items()]
    return "\n".join(lines) + "\n"


def of_crew(metrics):
    """Metrics of several processes, which are told apart by a label, as if they were one's."""
    sums = {}
    for line in metrics.splitlines():
        name, value = (line, None) if line.startswith("#") else line.rsplit(" ", 1)
        name = re.sub(r'{process="\d+"(,|})', lambda m: "{" if m[1] == "," else "", name)
        sums[name] = None if value is None else sums.get(name, 0) + float(value)
    def put(name, value):
        return name if value is None else f"{name} {int(value) if value == int(value) else value}"
    return "\n".join(put(name, value) for name, value in sums.items()) + "\n"


class Gateway:
    """One data folder, and the process that serves it now.  start, stop, kill, start …"""

    def __init__(self, config=None, *, listen="127.0.0.1:0", folder=None, environ=None, binary=BINARY, lasting=False):
        self.binary = binary
        self.own_folder = folder is None
        self.folder = pathlib.Path(folder or tempfile.mkdtemp(prefix="holdfast-test-"))
        self.data = self.folder / "data"
        self.config = merged(DEFAULTS, config)
        self.listen = listen
        self.environ = environ or {}
        self.process = None
        # The tasks of its programs go on over a restart, for which their environment stays the same.  Otherwise they
        # end with it, and tests of ends, orphans and what is left of them are those of a gateway without kept agents.
        self.lasting = lasting
        self.mark = None
        self.pass_fds = ()  # descriptors that it is born with
        self.log = []  # the lines of stderr, of all runs
        self.port = None
        self.version = None
        self.reports = []
        self.schema = None  # of its store on PostgreSQL
        self.front = None   # with WRONG_NODE: the process that clients speak with
        self.front_log = []

    # -------------------------------------------------------------- life

    def command(self, *more):
        config = self.folder / "config.json"
        agents = [self.marked(agent) for agent in self.config.get("agents", [])]
        servers = [
            merged(server, {"env": {MARK: self.mark}}) if "command" in server else server
            for server in self.config.get("mcp", [])
        ]
        crew = {"processes": PROCESSES} if PROCESSES > 1 and "processes" not in self.config else {}
        changes = {"agents": agents, **({"mcp": servers} if servers else {}), **self.store(), **crew}
        config.write_text(json.dumps(merged(self.config, changes)))
        listen = "127.0.0.1:0" if self.has_front() else self.listen
        return [str(self.binary), "serve", "--config", str(config), "--listen", listen,
                "--data", str(self.data), "--log-level", "debug", *more]

    def has_front(self):
        return WRONG_NODE and self.schema is not None

    def start_front(self):
        """A gateway that is nobody's home, at the address that tests know."""
        config = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))
        config["cluster"] = merged(config["cluster"], {"node": "front", "front_only": True})
        (self.folder / "front.json").write_text(json.dumps(config), encoding="utf-8")
        self.front = subprocess.Popen(
            [str(self.binary), "serve", "--config", str(self.folder / "front.json"), "--listen", self.listen,
             "--data", str(self.folder / "front"), "--log-level", "debug"], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **self.environ})
        self.front_log = []
        threading.Thread(target=self._collect, args=(self.front.stderr, self.front_says), daemon=True).start()
        ready = self.front.stdout.readline()
        assert ready, "\n".join(self.front_log[-40:])
        wait_until(lambda: any("component=link event=up" in line for line in self.front_log), "a link to the home")
        return json.loads(ready)

    def front_says(self, line):
        """Tests look in one log for what either says."""
        self.front_log.append(line)
        self.log.append(line)

    def end_front(self):
        if self.front:
            self.front.kill()
            self.front.wait()
            self.front.stdout.close()
            self.front = None

    @staticmethod
    def server_url():
        return pathlib.Path(POSTGRES).read_text(encoding="utf-8").split("\n", 1)[0]

    def store(self):
        """The configuration of a store on the tests' server: a schema for each data folder."""
        if STORE != "postgres" or "kind" in self.config.get("store", {}):
            return {}
        url = self.server_url()
        schema = "h" + re.sub("[^a-z0-9]", "", self.folder.name.lower())
        for name, text in (("store.url", f"{url} options='-c search_path={schema}'"), ("cluster.secret", 32 * "s")):
            (self.folder / name).write_text(text, encoding="utf-8")
        if not self.schema:
            self.schema = schema
            on_server(url, f"CREATE SCHEMA IF NOT EXISTS {schema}")
        changes = {"kind": "postgres", "url_file": str(self.folder / "store.url")}
        if "durability" in self.config.get("store", {}):
            changes["durability"] = None  # the usual one
        return {"store": changes,
                "cluster": {"secret_file": str(self.folder / "cluster.secret"), "lease_s": 3,
                            **({"listen": "127.0.0.1:0", "node": "home"} if WRONG_NODE else {})}}

    def drop_store(self):
        if self.schema:
            url = self.server_url()
            on_server(url, f"SET client_min_messages = error; DROP SCHEMA IF EXISTS {self.schema} CASCADE")
            self.schema = None

    def marked(self, agent):
        """The agent with the mark of this run in the environment of its processes."""
        if agent.get("kind") not in ("exec", "acp"):
            return agent
        ends = agent["kind"] == "exec" and not self.lasting
        return merged({"after_restart": "fail"} if ends else {}, merged(agent, {"env": {MARK: self.mark}}))

    def start(self):
        """Starts it and waits for its ready line."""
        self.spawn()
        line = self.stdout_line(4 * WAIT_S)  # each of many steps waits for its turn, those of a database too
        if not line:
            self.process.wait(WAIT_S)
            self.reader.join(WAIT_S)
            raise AssertionError(f"no ready line, exit {self.process.returncode}:\n{self.tail()}")
        ready = json.loads(line)
        assert ready["event"] == "ready", ready
        self.home_port = int(ready["listen"].rsplit(":", 1)[1])
        if self.has_front():
            ready = self.start_front()
        self.host, port = ready["listen"].rsplit(":", 1)
        self.port = int(port)
        self.version = ready["version"]
        return self

    def spawn(self):
        """Starts it without waiting for anything."""
        assert self.process is None
        self.mark = self.mark if self.lasting and self.mark else uuid.uuid4().hex
        environ = {**os.environ, MARK: self.mark, **self.environ}
        # A test only cares about events after the start of a run: the rest is noise.
        self.process = subprocess.Popen(
            self.command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=environ, pass_fds=self.pass_fds)
        self.printed = queue.Queue()
        self.stdout_reader = threading.Thread(
            target=self._collect, args=(self.process.stdout, self.printed.put), daemon=True)
        self.reader = threading.Thread(
            target=self._collect, args=(self.process.stderr, self.log.append), daemon=True)
        self.stdout_reader.start()
        self.reader.start()
        return self.process

    @staticmethod
    def _collect(stream, put):
        for line in stream:
            put(line.decode("utf-8", "replace").rstrip("\n"))
        put("")

    def stdout_line(self, seconds):
        try:
            return self.printed.get(timeout=seconds)
        except queue.Empty:
            raise AssertionError(f"nothing on stdout within {seconds} s:\n{self.tail()}") from None

    def stop(self, seconds=None):
        """SIGTERM, and its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait(seconds)

    def wait(self, seconds=None):
        try:
            status = self.process.wait(seconds or 10 + self.config.get("drain_s", 20) + WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            self._finish()
            raise AssertionError(f"it does not end:\n{self.tail()}") from None
        self._finish()
        return status

    def kill(self):
        """kill -9: nothing of it can clean up."""
        self.process.kill()
        self.process.wait()
        self._finish()

    def _finish(self):
        self.end_front()
        self.reader.join(WAIT_S)
        self.process.stdout.close()
        self.process.stderr.close()
        self.process = None
        self.reports = [line for line in self.log if REPORTS.search(line)]

    def end_commands(self):
        """Ends what its tools have started, which outlives it on purpose."""
        keepers = {}
        for status in self.data.glob("processes/*/status"):
            with contextlib.suppress(OSError, ValueError, KeyError):
                keepers[json.loads(status.read_text(encoding="utf-8"))["keeper"]] = status.parent
        ending = [pid for pid, folder in keepers.items()
                  if signal_if(lambda pid, folder=folder: runs(pid, "keep", folder), pid, signal.SIGTERM)]
        for pid in ending:
            wait_until(lambda pid=pid: not runs(pid, "keep", keepers[pid]), "the end of a keeper")

    def end_kept(self):
        """Ends programs that would wait for the next gateway."""
        for pid in processes_with(self.mark) if self.lasting and self.mark else ():
            signal_if(lambda pid: has_mark(pid, self.mark), pid, signal.SIGKILL)

    def close(self):
        """Stops what runs, checks that it ended well, and removes its folder."""
        try:
            if self.process:
                status = self.stop()
                assert status == 0, f"exit {status}:\n{self.tail()}"
            assert not self.reports, "\n".join(self.log[-200:])
        finally:
            self.end_kept()
            self.end_commands()
            if self.own_folder:
                self.drop_store()
                shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, *_):
        if kind is None:
            self.close()
            return
        if self.process:
            self.process.kill()
            self.wait()
        self.end_kept()
        self.end_commands()
        print(self.tail(), file=sys.stderr)

    # -------------------------------------------------------------- looking at it

    def tail(self, lines=40):
        return "\n".join(self.log[-lines:])

    def logged(self, *texts):
        """Waits for a line of its log with these: a line may come later than the event itself."""
        return wait_until(lambda: next((line for line in self.log if all(text in line for text in texts)), None),
                          f"{texts} in the log")

    def path(self, name=None):
        """A path in its folder that nothing else uses."""
        return str(self.folder / (name or uuid.uuid4().hex))

    def rss(self):
        """Resident bytes."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024

    def heap(self):
        """Bytes that it has allocated, without what malloc keeps for later."""
        metrics = self.http("GET", "/metrics")[2].decode()
        return int(re.search(r'^holdfast_heap_bytes\{state="used"\} (\d+)', metrics, re.M)[1])

    def n_fds(self):
        """Counts both, once the links between them are there in both directions."""
        if not self.front:
            return len(os.listdir(f"/proc/{self.process.pid}/fd"))
        wait_until(lambda: sum("component=link event=up" in line for line in self.front_log) >= 2, "both links")
        return sum(len(os.listdir(f"/proc/{process.pid}/fd")) for process in (self.process, self.front))

    def n_threads(self):
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    def wal_bytes(self):
        """Bytes of the write-ahead log's file."""
        with contextlib.suppress(FileNotFoundError):
            return (self.data / "holdfast.db-wal").stat().st_size
        return 0

    def http(self, method, path, body=None, headers=None):
        """(status, headers, body) of one HTTP exchange.  Metrics are those of both, and ready is the home."""
        front = getattr(self, "front", None)  # a proxy before it has none
        if front and path == "/readyz":
            return self._http(self.home_port, method, path, body, headers)
        status, head, answer = self._http(self.port, method, path, body, headers)
        if front and path == "/metrics" and status == 200:
            answer = summed(answer.decode(), self._http(self.home_port, method, path, body, headers)[2].decode()).encode()
        if PROCESSES > 1 and path == "/metrics" and status == 200:
            answer = of_crew(answer.decode()).encode()
        return status, head, answer

    def _http(self, port, method, path, body, headers):
        connection = http.client.HTTPConnection(self.host, port, timeout=WAIT_S)
        try:
            connection.request(method, path, body, headers or {})
            reply = connection.getresponse()
            return reply.status, reply.headers, reply.read()
        finally:
            connection.close()


def wrongs(said):
    """Doctor's findings, without those that concern only tests run as root."""
    found = [line[len("WRONG "):] for line in said.splitlines() if line.startswith("WRONG ")]
    return [line for line in found if os.geteuid() or "a user of its own" not in line]


def run(*arguments, seconds=WAIT_S, environ=None):
    """One invocation of the binary that ends by itself."""
    return subprocess.run([BINARY, *arguments], capture_output=True, text=True, check=False,
                          timeout=seconds, env={**os.environ, **(environ or {})},
                          stdin=subprocess.DEVNULL)
