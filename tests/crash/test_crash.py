"""kill -9 at random moments under load; then every promise is called in (PROTOCOL.md 4, 5).

Each round: tasks that emit fast, one with a grandchild, one with a grandchild in a session of its
own; clients that note every line to the byte; one request_key from two connections at once; cancels;
edited messages and answers that are made again; files, whole and in pieces, and messages that name
them; schedules that are due at once, later and again and again.
Then the gateway is killed, started again on the same data, and asked for everything.

HOLDFAST_SEED and HOLDFAST_CRASH_ROUNDS choose the run; the seed is printed.
"""

import contextlib
import hashlib
import http.client
import itertools
import json
import os
import random
import socket
import threading
import time

from gateway import LATE_S, SANITIZE, SCALE, Gateway, processes_with, script_agent, wait_until
from holdfast import LIVE, TERMINAL, Client, Closed, ids, program

ROUNDS = int(os.environ.get("HOLDFAST_CRASH_ROUNDS", 10 if SANITIZE else 55))
SEED = int(os.environ.get("HOLDFAST_SEED", random.randrange(2**32)))

# A grace that no round outlives: a cancel of the patient agent is always cut short by the kill.
CONFIG = {"agents": [script_agent(default=True), script_agent("patient", grace_s=60)],
          "limits": {"requests_per_second": 10_000, "burst": 10_000}}


class Round:
    """Everything that the clients of one round have seen, whatever happened to their connections."""

    def __init__(self, gateway, token, number, rng):
        self.gateway, self.token, self.number, self.rng = gateway, token, number, rng
        self.conversation = f"round-{number}"
        self.key = f"key-{number}"
        self.counted = gateway.path(f"counted-{number}")
        self.message = program({"count": self.counted}, {"flood": 50}, {"final_answer": "once"})
        self.tasks = {}       # task_id → summary, as a reply showed it
        self.free = []        # task ids that may be run once more
        self.placed = {}      # task_id → how it came to its place in the conversation
        self.keyed = set()    # task ids that the key was answered with
        self.files = {}       # file_id → its bytes: answered with 201
        self.naming = {}      # task_id → the file that its message names
        self.pieces = {}      # the key of an upload → its bytes, of which some were sent
        self.schedules = {}   # schedule_id → the conversation of its tasks
        self.cancelled = set()  # of which a cancel was answered with 1
        self.clients, self.sockets = [], []
        self.failures = []
        self.lock = threading.Lock()

    # ---------------------------------------------------------- the load

    def follow(self, work):
        """Runs work(client) on a connection of its own, then reads until the gateway is gone."""
        def body():
            try:
                client = Client(self.gateway, token=self.token)
            except (OSError, Closed):
                return
            self.clients.append(client)
            try:
                work(client)
                while True:
                    client.pump(1)
            except (Closed, OSError):
                pass
            except AssertionError as failure:
                if client.ws.state.name == "OPEN":
                    self.failures.append(failure)

        return threading.Thread(target=body)

    def note(self, task):
        with self.lock:
            self.tasks[task["task_id"]] = task
        return task

    def start_tasks(self, client):
        path = self.gateway.path
        for steps in self.rng.sample([
            [{"flood": 100_000, "bytes": 40, "per_s": 3000}],
            [{"grandchild": path(), "hold_stdout": True, "ignore_term": True},
             {"flood": 100_000, "per_s": 500}],
            [{"grandchild": path(), "setsid": True}, {"flood": 300, "bytes": 200}, {"hang": 1}],
            [{"flood": 200, "bytes": 20}, {"final_answer": "quick"}],
            [{"token": "x"}, {"exit": 3}],
        ], 5):
            self.free.append(self.note(client.chat(*steps, conversation=self.conversation))["task_id"])
        self.note(client.chat({"ignore_term": 1}, {"flood": 20}, {"hang": 1}, agent="patient",
                              conversation=self.conversation))

    def start_by_key(self, barrier):
        def work(client):
            barrier.wait(20)
            reply = client.call("chat", message=self.message, request_key=self.key,
                                conversation_id=self.conversation)
            self.keyed.add(self.note(reply["task"])["task_id"])

        return work

    def branch_off(self, client):
        """Edits, has answers made again, chooses branches; what is acknowledged stays."""
        rng = random.Random(self.rng.random())
        left = 6  # a list has 50 tasks
        while True:
            client.pump(rng.random() * 0.1)
            with self.lock:
                known = list(self.tasks)
            way = rng.choice(["edit", "reply_to", "regenerate", "branch"])
            known = list(self.free) if way == "regenerate" else known
            if not known:
                continue
            id = rng.choice(known)
            if way == "branch":
                client.ask("branch", conversation_id=self.conversation, message_id=id)
            elif left > 0:
                left -= 1
                more = {} if way == "regenerate" else {"message": program({"final_answer": "other"})}
                reply = client.ask("chat", conversation_id=self.conversation, **{way: id}, **more)
                if reply["type"] == "started":
                    self.placed[self.note(reply["task"])["task_id"]] = way
                else:
                    assert reply["code"] in ("conflict", "overloaded"), reply  # it runs; the store is gone

    # ---- files

    def over_http(self, method, tail, body=None, **headers):
        connection = http.client.HTTPConnection(self.gateway.host, self.gateway.port, timeout=20)
        with contextlib.closing(connection):
            headers = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, f"/v1/conversations/{self.conversation}{tail}", body,
                               {"Authorization": "Bearer " + self.token, **headers})
            reply = connection.getresponse()
            return reply.status, reply.headers, reply.read()

    def give_files(self, client):
        """Whole ones, of which a message names every other; and one in pieces, whose rest never comes."""
        rng = random.Random(self.rng.random())
        for n in range(8):
            data = rng.randbytes(rng.choice([0, 100, 70_000, 300_000]))
            try:
                status, _, body = self.over_http("POST", "/files", data, Content_Type="application/x-test")
            except (OSError, http.client.HTTPException):
                raise Closed(None, "the gateway is gone") from None
            if status == 503:  # the store is gone
                continue
            assert status == 201, (status, body)
            file = json.loads(body)
            assert file["sha256"] == hashlib.sha256(data).hexdigest()
            self.files[file["file_id"]] = data
            if n % 2:
                task = client.call("chat", conversation_id=self.conversation, message=[
                    {"type": "text", "text": program({"final_answer": "seen"})},
                    {"type": "file", "file_id": file["file_id"]}])["task"]
                self.naming[self.note(task)["task_id"]] = file["file_id"]
            if n == 2:
                self.send_some(rng, f"piece-{self.number}")
            client.pump(rng.random() * 0.05)

    def send_some(self, rng, key):
        data = self.pieces[key] = rng.randbytes(200_000)
        head = (f"POST /v1/conversations/{self.conversation}/files?upload={key} HTTP/1.1\r\nHost: x\r\n"
                f"Authorization: Bearer {self.token}\r\nContent-Length: {len(data)}\r\n\r\n")
        try:
            sock = socket.create_connection((self.gateway.host, self.gateway.port))
            sock.sendall(head.encode() + data[:rng.randrange(len(data))])
            self.sockets.append(sock)  # it stays open: the kill ends it
        except OSError:
            raise Closed(None, "the gateway is gone") from None

    def check_files(self):
        for id, data in self.files.items():
            status, headers, body = self.over_http("GET", f"/files/{id}")
            assert (status, body) == (200, data), f"a file that was answered with 201: {status}"
            assert headers["ETag"] == f'"{hashlib.sha256(data).hexdigest()}"'
        for key, data in self.pieces.items():
            status, headers, _ = self.over_http("HEAD", f"/files?upload={key}")
            at = int(headers["Upload-Offset"])
            assert status == 200 and 0 <= at <= len(data)
            status, _, body = self.over_http("PATCH", f"/files?upload={key}", data[at:], Upload_Offset=str(at))
            assert status in (200, 201), (status, body)
            file = json.loads(body)
            assert file["sha256"] == hashlib.sha256(data).hexdigest()
            assert self.over_http("GET", f"/files/{file['file_id']}")[2] == data

    # ---- schedules

    def plan(self, client):
        """Some are due within the round, some after the kill, some never in this test."""
        rng = random.Random(self.rng.random())
        for n in range(6):
            conversation = f"planned-{self.number}-{n}"
            wait_ms = rng.choice([0, 50, 200, 400, 1000])
            times = {"every_s": 3600, "not_before": int(time.time() * 1000) + 3_600_000} if n == 0 else {
                "not_before": int(time.time() * 1000) + wait_ms}
            reply = client.ask("schedule", chat={"message": program({"final_answer": "planned"})},
                               conversation_id=conversation, **times)
            if reply["type"] == "scheduled":
                self.schedules[reply["schedule"]["schedule_id"]] = (conversation, n == 0)
            else:
                assert reply["code"] == "overloaded", reply  # the store is gone
            client.pump(rng.random() * 0.05)

    def check_schedules(self, client):
        """Each that was answered is there, or has made one task; what is due in an hour has made none."""
        for id, (conversation, is_late) in self.schedules.items():
            def made():
                tasks = client.call("tasks", conversation_id=conversation)["tasks"]
                records = [client.task(task) for task in tasks]
                return [record for record in records if (record.get("metadata") or {}).get("schedule_id") == id]

            if is_late:
                there = client.call("schedules", conversation_id=conversation)["schedules"]
                assert [schedule["schedule_id"] for schedule in there] == [id] and made() == []
                client.call("unschedule", schedule_id=id)
                continue
            wait_until(made, "the task of a schedule")
            # A kill between the two commits leaves it with its task; then it asks again, by the same key.
            wait_until(lambda at=conversation: not client.call("schedules", conversation_id=at)["schedules"], "its end")
            assert len(made()) == 1, "a schedule that was due once made two tasks"

    def pages(self, client, **fields):
        """All messages: a reply ends early at 256 KiB."""
        found, more = [], True
        while more:
            before = {"before": found[0]["message_id"]} if found else {}
            reply = client.call("history", conversation_id=self.conversation, limit=200, **fields, **before)
            found, more = reply["messages"] + found, reply["more"]
        return found

    def check_branches(self, client):
        """All messages of all tasks are there, and the current branch is one path."""
        def of_one_moment():  # tasks that had not begun before the kill begin now, and end
            everything, path = self.pages(client, all=True), self.pages(client)
            return everything == self.pages(client, all=True) and (everything, path)

        everything, path = wait_until(of_one_moment, "a moment without a new message")
        by_id = {message["message_id"]: message for message in everything}
        asked = {message["task_id"] for message in everything if message["role"] == "user"}
        for task, way in self.placed.items():
            assert way == "regenerate" or task in asked, "a question was lost"
        assert all(message.get("parent_id", message["message_id"]) in by_id for message in everything)
        assert [m.get("parent_id") for m in path] == [None] + [m["message_id"] for m in path[:-1]]
        for message in path:
            others = [m["message_id"] for m in everything if m.get("parent_id") == message.get("parent_id")]
            assert message.get("siblings", [message["message_id"]]) == others

    def read_along(self, client):
        """Follows whatever there is, from anywhere."""
        rng = random.Random(self.rng.random())
        while True:
            with self.lock:
                known = list(self.tasks.values())
            for task in known:
                head = client.call("task", **ids(task))["task"]["head"]
                client.resume(task, rng.randint(0, head))
            client.pump(0.05)

    def cancel_some(self, client):
        rng = random.Random(self.rng.random())
        while True:
            client.pump(rng.random() * 0.25)
            with self.lock:
                known = list(self.tasks.values())
            if known:
                task = rng.choice(known[-1:] if rng.random() < 0.4 else known)
                if task["task_id"] in self.keyed:
                    continue
                if client.call("cancel", **ids(task))["cancelled"]:
                    self.cancelled.add(task["task_id"])

    def has_seen_the_keyed_end(self):
        """The events of the task that nobody cancels."""
        return any(self.keyed & client.ended for client in list(self.clients))

    def run(self, seconds):
        barrier = threading.Barrier(2)
        threads = [self.follow(work) for work in (
            self.start_tasks, self.start_by_key(barrier), self.start_by_key(barrier),
            self.read_along, self.read_along, self.cancel_some, self.branch_off, self.give_files, self.plan)]
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        # On a slow machine the kill would always come before any end and any cancel.
        if self.number % 4 == 1:
            wait_until(lambda: self.cancelled or self.failures, "a cancel's answer")
        if self.number % 4 == 3:
            wait_until(lambda: self.has_seen_the_keyed_end() or self.failures, "the end of a task")
        self.gateway.kill()
        for thread in threads:
            thread.join()
        for client in self.clients:
            client.close()
        for sock in self.sockets:
            sock.close()
        assert not self.failures, self.failures

    # ---------------------------------------------------------- the reckoning

    def seen(self):
        """task_id → seq → line: all that any client has seen.  Two that saw the same saw equal bytes."""
        found = {}
        for client in self.clients:
            for line, raw in zip(client.log, client.raw):
                if line["type"] in ("started", "resumed"):
                    self.tasks.setdefault(line["task"]["task_id"], line["task"])
                if line["type"] == "event":
                    lines = found.setdefault(line["task_id"], {})
                    assert lines.setdefault(line["seq"], raw) == raw, "two clients saw different lines"
        return found

    def check(self, client):
        """Asks the new gateway for all of it.  Gives task_id → all its lines."""
        seen, kept = self.seen(), {}
        again = client.call("chat", message=self.message, request_key=self.key,
                            conversation_id=self.conversation)
        task = again["task"]
        client.wait_terminal(task, client.log.index(again))
        if self.keyed:
            assert again.get("repeated") is True, "a key that was answered was forgotten"
            assert self.keyed == {task["task_id"]}, "one key, two tasks"
        if os.path.exists(self.counted):
            with open(self.counted, "rb") as file:
                assert file.read().split() in ([], [task["task_id"].encode()]), "it ran twice"
        listed = client.call("tasks", conversation_id=self.conversation)["tasks"]
        assert len({t["task_id"] for t in listed}) == len(listed)
        assert set(self.tasks) | set(seen) <= {t["task_id"] for t in listed}, "a task was lost"
        self.check_branches(client)
        self.check_files()
        self.check_schedules(client)
        for record in listed:
            kept[record["task_id"]] = self.check_task(client, record, seen.get(record["task_id"], {}))
        return kept

    def check_task(self, client, listed, seen):
        events = client.replay(listed, 0)  # dense from 1: the client checks
        lines = client.raw_events(listed, client.log.index(events[0]))
        for seq, line in seen.items():
            assert lines.get(seq) == line, f"seen {line}, now {lines.get(seq)}"
        if listed["status"] in LIVE:  # it had not begun when the gateway died; now it does
            assert set(seen) <= {1}, f"{listed} was seen running, and runs again"
            assert listed["task_id"] not in self.cancelled
            client.call("unsubscribe", **ids(listed))
            return None
        ends = [event for event in events if event["event"] in TERMINAL]
        assert len(ends) == 1 and events[-1] is ends[0], \
            f"{len(ends)} ends: {client.task(listed)}, {events[-3:]}"
        end = ends[0]
        record = client.task(listed)
        assert record["head"] == end["seq"] == len(events)
        status = "completed" if end["event"] == "task.completed" else end["data"]["status"]
        assert record["status"] == status == listed["status"]
        if end["event"] == "task.failed":
            assert record["error"] == end["data"]["error"]
            code = record["error"]["code"]
            assert code in record["error"]["message"]
            assert (status == "cancelled") == (code == "cancelled")
            assert code in ("cancelled", "orphaned", "agent_error")
            if code == "agent_error":
                assert "3" in record["error"]["message"]  # only the one with {"exit": 3}
        if listed["task_id"] in self.cancelled:
            assert status == "cancelled", f"its cancel was answered ok, and it ended as {record}"
        elif status == "cancelled":  # asked, and the answer was lost with the gateway
            assert record["cancel_requested_at"]
        return lines


def check_processes(mark):
    """Soon: not after the grace of the patient agent, which is a minute."""
    wait_until(lambda: not processes_with(mark), f"the end of {processes_with(mark)}", 2 * LATE_S)


def waiting(client, current):
    return client.call("tasks", conversation_id=current.conversation, status="pending")["tasks"]


def forget(client):
    """Checked state is not needed any more."""
    client.log.clear()
    client.raw.clear()


def test_nothing_that_was_seen_is_ever_undone():
    print(f"seed {SEED}, {ROUNDS} rounds")
    rng = random.Random(SEED)
    rounds, kept = [], {}
    statuses = {}
    with Gateway(CONFIG) as gateway:
        with Client(gateway) as client:
            token = client.token
        for number in range(ROUNDS):
            current = Round(gateway, token, number, rng)
            rounds.append(current)
            mark = gateway.mark
            current.run(rng.uniform(0.05, 0.7) * SCALE)
            check_processes(mark)
            if rng.random() < 0.15:  # and once more while it repairs what the first kill left
                gateway.spawn()
                time.sleep(rng.uniform(0, 0.06) * SCALE)
                mark = gateway.mark
                gateway.kill()
                check_processes(mark)
            gateway.start()
            with Client(gateway, token=token) as client:
                kept.update(current.check(client))
                for task in client.call("tasks", conversation_id=current.conversation)["tasks"]:
                    statuses[task["status"]] = statuses.get(task["status"], 0) + 1
            current.clients.clear()
        # After all of it: every task of every round is still as it was, to the byte.
        with Client(gateway, token=token) as client:
            for current in rounds:  # all begin, so that the last kill ends what still runs
                wait_until(lambda at=current: not waiting(client, at), "the begin of all tasks")
        gateway.kill()
        gateway.start()
        with Client(gateway, token=token) as client:
            for current in rounds:
                for task in client.call("tasks", conversation_id=current.conversation)["tasks"]:
                    events, lines = client.replay(task, 0), kept.pop(task["task_id"])
                    assert lines in (None, client.raw_events(task))
                    assert sum(event["event"] in TERMINAL for event in events) == 1
                forget(client)
        assert not kept, "tasks that are gone"
    n_files, n_planned = sum(len(r.files) for r in rounds), sum(len(r.schedules) for r in rounds)
    n_pieces = sum(len(r.pieces) for r in rounds)
    print(f"{statuses}, {sum(len(r.cancelled) for r in rounds)} cancels answered, {n_files} files, "
          f"{n_pieces} cut uploads, {n_planned} schedules")
    assert min(n_files, n_planned) > ROUNDS and n_pieces > 0  # … and not what is named at the top
    assert statuses["completed"] > 0  # else the load is not what it should be
    assert min(statuses["failed"], statuses["cancelled"]) > ROUNDS // 5


def test_kill_in_a_tight_loop_of_starts():  # F35
    """Nothing but chats, all answered ones must be there; killed where most commits are."""
    rng = random.Random(SEED)
    answered = []
    with Gateway(CONFIG) as gateway:
        with Client(gateway) as client:
            token = client.token
        for number in range(max(5, ROUNDS // 5)):
            timer = threading.Timer(rng.uniform(0, 0.2) * SCALE, gateway.process.kill)
            with contextlib.suppress(Closed, OSError), Client(gateway, token=token) as client:
                for n in itertools.count(1):
                    reply = client.call("chat", message="x", conversation_id=f"tight-{number}")
                    answered.append(reply["task"])
                    if n == 5:
                        timer.start()
            timer.join()
            gateway.kill()
            gateway.start()
        with Client(gateway, token=token) as client:
            for task in answered:
                since = len(client.log)
                client.resume(task, 0)
                last = client.wait_terminal(task, since)  # one that had not begun runs now
                assert last["event"] == f"task.{client.task(task)['status']}"
                forget(client)
    assert len(answered) > 20
