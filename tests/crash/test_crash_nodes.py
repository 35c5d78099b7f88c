"""Three gateways over one PostgreSQL under load, and a victim each round: a gateway (kill -9, or it stands still until
another has taken it over), the server (kill -9), or a link (a reset, or a wire that swallows everything).  Whoever ends
is begun again, as by a service manager, at once or when its lease is over.  Then every promise is called in, with a
naive log of what readers saw: numbers dense and once, one ending, one task for a request key that ran at most once, a
cancel that was answered.  The server itself checks that whoever writes a row is the home of its slot.

HOLDFAST_SEED and HOLDFAST_VICTIM_ROUNDS choose the run; the seed is printed.  HOLDFAST_VICTIM_KEEP names a folder that
gets what a failure leaves: the gateways' logs, the server's files, and what readers saw.
"""

import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import threading
import time
import zlib

import pytest

import nodes
import postgres
import tokens
from crowd import Crowd
from gateway import SANITIZE, WAIT_S, free_port, script_agent, wait_until
from holdfast import TERMINAL, Client, Closed, Refused, program
from relay import Relay

if not postgres.programs():
    pytest.skip("PostgreSQL is not installed", allow_module_level=True)

ROUNDS = int(os.environ.get("HOLDFAST_VICTIM_ROUNDS", 5 if SANITIZE else 12))
SEED = int(os.environ.get("HOLDFAST_SEED", random.randrange(2**32)))
KEEP = os.environ.get("HOLDFAST_VICTIM_KEEP")
NAMES = ("one", "two", "three")
OWNERS = [f"u{i}" for i in range(4)]
VICTIMS = ["node"] * 4 + ["frozen"] + ["engine"] * 3 + ["cut"] * 3 + ["swallowed"]
CONFIG = {"agents": [script_agent(default=True), {"name": "source", "kind": "source"}]}
GONE = (Closed, Refused, OSError)

# Rows that somebody wrote who is not the home of their slot.
WITNESS = """
CREATE TABLE strangers (place text, slot bigint, writer text, home bigint);
CREATE FUNCTION witness() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE writer text := current_setting('application_name'); home bigint; BEGIN
    SELECT incarnation INTO home FROM slots WHERE slot = NEW.slot;
    IF writer LIKE 'holdfast/%' AND split_part(writer, '/', 2) <> coalesce(home::text, '') THEN
        INSERT INTO strangers VALUES (TG_TABLE_NAME, NEW.slot, writer, home);
    END IF;
    RETURN NEW; END $$;
"""
WITNESSED = ("tasks", "notices", "outbox")  # a rescue seals lines, and counts them, for a home that is dead


class Scene:
    def __init__(self, rng):
        self.rng, self.ends = rng, contextlib.ExitStack()
        self.server = postgres.Postgres()
        self.ends.callback(self.server.close)
        self.server.start()
        self.cluster = nodes.Nodes(self.server, "victims", config=CONFIG)
        self.ends.callback(self.cluster.close)
        self.links = {}
        self.crowd = Crowd()
        self.ends.callback(self.crowd.close)
        self.doors = [self.new(name) for name in NAMES]
        self.cluster.settled(len(NAMES))
        self.cluster.sql(WITNESS + "".join(
            f"CREATE TRIGGER witness AFTER INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION witness();"
            for table in WITNESSED))

    def new(self, name):
        """A gateway whose link the others dial by way of a wire."""
        port = free_port()
        self.links[name] = self.ends.enter_context(Relay(nodes.Address(port)))
        cluster = {"listen": f"127.0.0.1:{port}", "advertise": f"127.0.0.1:{self.links[name].port}"}
        return self.cluster.new(name, cluster, listen=f"127.0.0.1:{free_port()}").start()

    def revive(self):
        """A fenced one has ended, with the code that says so."""
        for gateway in self.doors:
            if gateway.process and gateway.process.poll() is not None:
                status = gateway.wait()
                assert status == 75, f"exit {status}:\n{gateway.tail()}"
            if not gateway.process:
                gateway.start()

    def wait(self, condition, what):
        """As wait_until, with all gateways alive."""
        def look():
            self.revive()
            self.crowd.check()
            return condition()
        return wait_until(look, what, 4 * WAIT_S)

    def keep(self):
        """Copies what the end of the test removes; the server's files as after a crash."""
        folder = pathlib.Path(KEEP, f"seed-{SEED}")
        folder.mkdir(parents=True)
        with contextlib.suppress(OSError, RuntimeError):
            self.server.stop("immediate")
        shutil.copytree(self.server.folder, folder / "server", ignore=shutil.ignore_patterns(".s.PGSQL*"))
        for gateway in self.doors:
            (folder / f"{gateway.folder.name}.log").write_text("\n".join(gateway.log), encoding="utf-8")
        seen = [{"task": reader.task, "cursor": reader.cursor, "ended": reader.ended, "failure": repr(reader.failure),
                 "connections": reader.connections, "seqs": len(reader.lines)} for reader in self.crowd.readers]
        (folder / "readers.json").write_text(json.dumps(seen, indent=1, default=repr), encoding="utf-8")

    # ---------------------------------------------------------- victims

    def strike(self, victim):
        name = self.rng.choice(NAMES)
        getattr(self, victim)(self.cluster.gateways[name], name)

    def node(self, gateway, name):
        gateway.kill()
        if self.rng.random() < 0.3:  # nobody begins it again before its lease is over
            self.is_taken_over(name)

    def frozen(self, gateway, name):
        os.kill(gateway.process.pid, signal.SIGSTOP)
        try:
            self.is_taken_over(name)
        finally:
            os.kill(gateway.process.pid, signal.SIGCONT)

    def is_taken_over(self, name):
        wait_until(lambda: name not in self.cluster.shares(), f"{name} is taken over", 4 * WAIT_S)

    def engine(self, _gateway, _name):
        self.server.kill()
        self.server.start()

    def cut(self, _gateway, name):
        self.links[name].cut()

    def swallowed(self, gateway, name):
        """Until the others know."""
        since = {other.folder: len(other.log) for other in self.doors}
        self.links[name].swallow()
        try:
            wait_until(lambda: any("event=ended" in line and "how=silent" in line for other in self.doors
                                   if other is not gateway for line in other.log[since[other.folder]:]), "a silent link")
        finally:
            self.links[name].cut()
            self.links[name].swallow(False)


class Round:
    def __init__(self, scene, number):
        self.scene, self.number = scene, number
        self.rng = random.Random(scene.rng.random())
        self.conversation = f"round-{number}"
        self.tasks = {}       # key of a request → its task
        self.cancelled = set()  # ids of tasks of which a cancel was answered with 1
        self.readers = []
        self.counted = {owner: scene.doors[0].path(f"counted-{number}-{owner}") for owner in OWNERS}
        self.failures = []
        self.threads = []

    def attempt(self, owner, work):
        """At a gateway of these; None when it is gone, stands still, or serves nobody yet."""
        try:
            with Client(self.rng.choice(self.scene.doors), token=tokens.token(owner)) as client:
                return work(client)
        except GONE:
            return None
        except AssertionError as failure:
            if "'code': 'overloaded'" in str(failure) or "nothing more within" in str(failure):
                return None
            raise

    def ask(self, owner, type, **fields):
        return self.attempt(owner, lambda client: client.call(type, conversation_id=self.conversation, **fields))

    def chats(self, owner):
        """name → what is asked."""
        source = "bytes=40 burst=1"
        return {
            "keyed": {"message": program({"count": self.counted[owner]}, {"flood": 50}, {"final_answer": "once"})},
            "short": {"agent": "source", "message": f"events=60 {source} interval_ms=5"},
            "long": {"agent": "source", "message": f"events=1000000 {source} interval_ms=10"},
        }

    def chat(self, owner, name, fields):
        return self.ask(owner, "chat", request_key=f"{self.number}-{name}", **fields)

    def begin(self, owner):
        for name, fields in self.chats(owner).items():
            task = self.scene.wait(lambda n=name, f=fields: self.chat(owner, n, f), "a task")["task"]
            self.tasks[owner, name] = task
            self.readers += [self.scene.crowd.add(tokens.token(owner), task, self.scene.doors) for _ in range(2)]

    def beside(self, work):
        def body():
            try:
                work()
            except Exception as failure:  # noqa: BLE001 (the round's thread raises it)
                self.failures.append(failure)
        self.threads.append(threading.Thread(target=body))
        self.threads[-1].start()

    def ask_again(self):
        """The same keys, from other connections, while it happens."""
        owner = self.rng.choice(OWNERS)
        reply = wait_until(lambda: self.chat(owner, "keyed", self.chats(owner)["keyed"]), "an answer", 4 * WAIT_S)
        assert reply["task"]["task_id"] == self.tasks[owner, "keyed"]["task_id"], "one key, two tasks"

    def cancel(self, owner):
        task = self.tasks[owner, "long"]
        time.sleep(self.rng.random() / 2)  # before the victim's end, within it, behind it
        reply = wait_until(lambda: self.ask(owner, "cancel", task_id=task["task_id"]), "the cancel's answer", 4 * WAIT_S)
        if reply["cancelled"]:
            self.cancelled.add(task["task_id"])

    def run(self, victim):
        scene = self.scene
        for owner in OWNERS:
            self.begin(owner)
        scene.wait(lambda: all(reader.cursor > 1 or reader.ended for reader in self.readers), "events for everybody")
        for owner in OWNERS:
            self.beside(lambda who=owner: self.cancel(who))
        self.beside(self.ask_again)
        time.sleep(self.rng.random() / 4)
        scene.strike(victim)
        scene.wait(lambda: not any(thread.is_alive() for thread in self.threads), "all answers")
        assert not self.failures, self.failures
        for owner in OWNERS:  # a cancel that was carried out, and whose answer was lost, was asked again
            task = self.tasks[owner, "long"]
            scene.wait(lambda o=owner, t=task: self.ask(o, "cancel", task_id=t["task_id"]), "an answer")
        scene.wait(lambda: all(reader.ended for reader in self.readers), "the end of every task")

    # ---------------------------------------------------------- the reckoning

    def seen(self):
        """task id → seq → a sum of the line: of all readers, who agree; each had every number once."""
        found = {}
        for reader in self.readers:
            assert sorted(reader.lines) == list(range(1, reader.cursor + 1))
            assert found.setdefault(reader.task["task_id"], reader.lines) == reader.lines, "two saw different lines"
        return found

    def check(self):
        seen = self.seen()
        for (owner, name), task in self.tasks.items():
            self.scene.wait(lambda o=owner, n=name, t=task: self.attempt(
                o, lambda client: self.check_task(client, n, t, seen[t["task_id"]])), "the task")
            if name == "keyed":
                again = self.scene.wait(lambda o=owner: self.chat(o, "keyed", self.chats(o)["keyed"]), "an answer")
                assert again["repeated"] and again["task"]["task_id"] == task["task_id"]
            if name == "keyed" and os.path.exists(self.counted[owner]):
                with open(self.counted[owner], encoding="utf-8") as file:
                    assert file.read().split() in ([], [task["task_id"]]), "it ran twice"
        return {(owner, task["task_id"]): seen[task["task_id"]] for (owner, _), task in self.tasks.items()}

    def check_task(self, client, name, task, seen):
        sums = lines_of(client, task, self.conversation)
        assert sums == seen, f"{name}: seen to {len(seen)}, now {len(sums)}"
        events = client.events_since(task)
        ends = [event for event in events if event["event"] in TERMINAL]
        assert len(ends) == 1 and events[-1] is ends[0]
        record = client.task(task)
        code = (record.get("error") or {}).get("code")
        assert record["head"] == len(events)
        if task["task_id"] in self.cancelled:
            assert record["status"] == "cancelled", f"its cancel was answered, and it ended as {record}"
        elif name == "long":  # a cancel whose answer was lost, or it went with its home
            assert record["status"] == "cancelled" or code == "orphaned", record
        else:
            assert record["status"] == "completed" or code == "orphaned", record
        return True


def lines_of(client, task, conversation):
    """seq → a sum of the line."""
    since = len(client.log)
    client.replay({**task, "conversation_id": conversation}, 0)
    return {seq: zlib.crc32(raw.encode()) for seq, raw in client.raw_events(task, since).items()}


def test_whoever_is_lost_nothing_that_was_seen_is_undone():
    print(f"seed {SEED}, {ROUNDS} rounds")
    rng, kept, counts, begun = random.Random(SEED), {}, {}, time.monotonic()
    with contextlib.ExitStack() as ends:
        scene = Scene(rng)
        ends.callback(scene.ends.close)
        for number in range(ROUNDS):
            victim = rng.choice(VICTIMS)
            counts[victim] = counts.get(victim, 0) + 1
            current = Round(scene, number)
            try:
                current.run(victim)
                kept.update({who: (number, sums) for who, sums in current.check().items()})
            except BaseException:
                print(f"round {number}, {victim}: failed, seed {SEED}")
                if KEEP:
                    scene.keep()
                raise
            print(f"round {number}, {victim}: {time.monotonic() - begun:.1f} s", flush=True)
            scene.crowd.readers.clear()
            assert scene.cluster.sql("SELECT * FROM strangers") == ""
        print(f"{counts}, {(time.monotonic() - begun) / ROUNDS:.1f} s a round")
        # After all of it every task is still as it was, to the byte, and every slot has a home.
        scene.wait(lambda: scene.cluster.sql("SELECT count(*) FROM slots WHERE incarnation IS NULL") == "0", "homes")
        for (owner, id), (number, sums) in kept.items():
            assert sums == scene.wait(lambda o=owner, i=id, n=number: current.attempt(
                o, lambda client: lines_of(client, {"task_id": i}, f"round-{n}")), "the task")
        assert int(scene.cluster.sql("SELECT count(*) FROM tasks")) == len(kept)
        taken = sum("event=taken_over" in line for gateway in scene.doors for line in gateway.log)
        print(f"{taken} takeovers, {len(kept)} tasks")
