"""continuing -- tasks of the lasting agents (agents/lasting.py, agents/lasting_form.py), which outlive gateways, and their
reckoning: what the agents' own logs say against what the gateway has."""

import contextlib
import json
import os
import pathlib
import random
import signal
import sys
import time

from gateway import LATE_S, SCALE, has_mark, processes_with, signal_if, wait_until
from holdfast import TERMINAL, Client, Closed, ids

SEED = int(os.environ.get("HOLDFAST_SEED", random.randrange(2**32)))
LASTING = [sys.executable, str(pathlib.Path(__file__).parent / "agents/lasting.py")]
N_TASKS = 3


def lasting(name, **options):
    return {"name": name, "kind": "exec", "command": LASTING, "grace_s": 1, "tools": ["calculator"],
            "idle_timeout_s": 0, **options}


class Task:
    """A task of the lasting agent, and what the test has told it."""

    def __init__(self, gateway, rng, number):
        self.log = pathlib.Path(gateway.path(f"log-{number}"))
        self.sent = []       # messages that were answered with ok, in order
        self.perhaps = set()  # those whose answer was lost with the gateway
        self.answered = {}   # input_id → the answer that was taken
        self.cancelled = False
        self.seed = rng.randrange(2**32)
        self.conversation = f"of-{number}"
        self.task = None  # its summary; None: not known to exist
        self.ends_itself = False  # and does not hear all that is sent

    def start(self, client, agent="lasting", asked=None):
        self.ends_itself = "most" in (asked or {})
        asked = {"seed": self.seed, "log": str(self.log), "pace_s": 0.004 * SCALE, **(asked or {})}
        self.task = client.call("chat", message=json.dumps(asked), agent=agent,
                                conversation_id=self.conversation)["task"]

    def find(self, client):
        """Whether it exists: the answer to its chat may have been lost with the gateway."""
        if not self.task:
            found = client.ask("tasks", conversation_id=self.conversation).get("tasks")
            self.task = found[0] if found else None
        return self.task

    def said(self):
        """Its lines, as it logged them: a last one that was not said whole is one more than there can be."""
        return self._lines(b"S")

    def heard(self):
        return self._lines(b"H")

    def _lines(self, kind):
        if not self.log.exists():
            return []
        whole, _, _ = self.log.read_bytes().rpartition(b"\n")  # a line may just be on its way
        return [json.loads(line[1:]) for line in whole.splitlines() if line[:1] == kind]

    def send(self, client, content):
        self.perhaps.add(short(content))
        reply = client.ask("send", **ids(self.task), content=content)
        if reply["type"] == "ok":
            self.sent.append(short(content))
            self.perhaps.discard(short(content))
        return reply

    def answer(self, client):
        """One of the open questions."""
        waiting = client.task(self.task).get("waiting_for")
        if not waiting or waiting in self.answered:
            return
        reply = client.ask("respond", **ids(self.task), input_id=waiting, answer=f"so {waiting}")
        if reply["type"] == "ok":
            self.answered[waiting] = f"so {waiting}"

    def holder(self, gateway):
        """The pids of its holder and of itself; those that are not there are 0."""
        pids = {"holder": 0, "agent": 0}
        for pid, command in processes_with(gateway.mark).items():
            if f"\0{self.task['task_id']}\0" in command:
                pids["holder"] = pid
        for pid in processes_with(gateway.mark):
            with contextlib.suppress(OSError):
                parent = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
                if pids["holder"] and parent == pids["holder"]:
                    pids["agent"] = pid
        return pids

    # ------------------------------------------------------ the reckoning

    def check_said(self, events, whole):
        """The events are what it said: all of it, or a prefix when it was killed."""
        said, told = self.said(), [e for e in events if e["event"] in ("token", "tool_call", "input_required")]
        expected = [text_of_said(line) for line in said]
        expected = [text for text in expected if text is not None]
        found = [text_of_event(event) for event in told]
        if whole:
            assert found == expected, first_difference(found, expected)
        else:
            assert found == expected[:len(found)], first_difference(found, expected)

    def check_heard(self, events, whole):
        heard = self.heard()
        messages = [short(line["content"]) for line in heard if line["type"] == "message"]
        assert len(set(messages)) == len(messages), f"a message came twice: {messages}"
        assert set(self.sent) <= set(messages) or not whole, f"sent {self.sent}, heard {messages}"
        assert set(messages) <= set(self.sent) | self.perhaps
        assert [m for m in messages if m in self.sent] == [m for m in self.sent if m in messages], "order"
        told = [short(e["data"]["content"]) for e in events if e["event"] == "message"]
        n = len(messages) if whole else min(len(told), len(messages))  # one may have been on its way
        assert told[:n] == messages[:n] and (not whole or told == messages), f"{told}, heard {messages}"
        calls = [line["call_id"] for line in self.said() if "call" in line]
        answers = [line["call_id"] for line in heard if "call_id" in line]
        assert len(set(answers)) == len(answers), "a call was answered twice"
        assert set(answers) <= set(calls)
        for line in heard:
            if line["type"] == "tool_result":
                assert line["output"] == str(int(line["call_id"][1:]) + 1), line
        inputs = [line["input_id"] for line in heard if line["type"] == "input"]
        assert len(set(inputs)) == len(inputs), "an answer came twice"
        for input_id in self.answered:
            assert input_id in inputs or not whole

    def check(self, client, events):
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        ends = [event for event in events if event["event"] in TERMINAL]
        assert len(ends) == 1 and events[-1] is ends[0], f"{len(ends)} ends"
        record = client.task(self.task)
        if record["status"] != "completed":
            print(record["error"])
        whole = record["status"] == "completed"
        assert sum(e["event"] == "task.started" for e in events) == 1
        self.check_said(events, whole)
        self.check_heard(events, whole and not self.ends_itself)
        if self.cancelled:
            assert record["status"] == "cancelled", record
        return record


def short(content):
    """A message without its filling, which is checked."""
    text = content.rstrip(".")
    if text != "end":
        assert len(content) - len(text) == int(text.split()[-2]), text
    return text


def text_of_said(line):
    if line.get("event") == "token":
        return line["data"]["text"]
    if line.get("event") == "input_required":
        return line["data"]["input_id"]
    return line["call_id"] if line.get("call") == "tool" else None


def text_of_event(event):
    data = event["data"]
    return data.get("text") or data.get("input_id") or data.get("call_id")


def first_difference(found, expected):
    for i, (a, b) in enumerate(zip(found, expected)):
        if a != b:
            return f"at {i} of {len(found)}: {a[:60]!r} instead of {b[:60]!r}"
    return f"{len(found)} instead of {len(expected)}"


class Round:
    """Some tasks, and a client that talks to them."""

    def __init__(self, gateway, token, rng):
        self.gateway, self.token, self.rng = gateway, token, rng
        self.n_sent = 0
        self.tasks = []

    def begin(self, name, n=N_TASKS, **more):
        """Starts tasks until the gateway is gone: those that it has answered for."""
        with contextlib.suppress(Closed, OSError), Client(self.gateway, token=self.token) as client:
            for i in range(n):
                self.tasks.append(Task(self.gateway, self.rng, f"{name}-{i}"))
                self.tasks[-1].start(client, **more)
        return self

    def live(self, seconds, bytes=0):
        """Messages (of so many bytes) and answers, until that time is over or the gateway is gone."""
        until = time.monotonic() + seconds
        with contextlib.suppress(Closed, OSError), Client(self.gateway, token=self.token) as client:
            while time.monotonic() < until:
                task = self.rng.choice([task for task in self.tasks if task.task])
                if self.rng.random() < 0.5:
                    self.n_sent += 1
                    task.send(client, f"message {self.n_sent} of {bytes} bytes" + "." * bytes)
                else:
                    task.answer(client)
                client.pump(self.rng.random() * 0.02 * SCALE)

    def finish(self):
        """Every task is told to end; the statuses of all."""
        found = {}
        with Client(self.gateway, token=self.token) as client:
            self.tasks = [task for task in self.tasks if task.find(client)]
            for task in self.tasks:
                task.send(client, "end")
                task.task = client.task(task.task)
            for task in self.tasks:
                since = len(client.log)
                client.resume(task.task, 0)
                events = list(client.events(task.task, since))  # dense from 1: the client checks
                found[task.task["task_id"]] = task.check(client, events)
        return list(found.values())


FORMS = ("claude", "codex", "text")
LASTING_FORM = str(pathlib.Path(__file__).parent / "agents/lasting_form.py")
OF_FORM = {"token": ("text",), "thinking": ("text",), "tool_call": ("call_id", "name"),
           "tool_result": ("call_id", "name", "output"), "final_answer": ("output",)}


def lasting_form(form, folder, name=None, **options):
    return {"name": name or form, "kind": "exec", "form": form, "grace_s": 1,
            "command": [sys.executable, LASTING_FORM, form, str(folder), "--"], **options}


def of_form(event):
    return event["event"], *(event["data"][member] for member in OF_FORM[event["event"]])


class FormTask(Task):
    """One of a program that hears nothing but its prompt, and is told to end by a file."""

    def start(self, client, agent="claude", asked=None):
        self.until = pathlib.Path(f"{self.log}.until")
        self.form = agent
        asked = {"seed": self.seed, "log": str(self.log), "pace_s": 0.004 * SCALE, "most": 1_000_000,
                 "until": str(self.until), **(asked or {})}
        self.task = client.call("chat", message=json.dumps(asked), agent=agent, conversation_id=self.conversation)["task"]
        return self

    def check_said(self, events, whole):
        found = [of_form(event) for event in events if event["event"] in OF_FORM]
        expected = [of_form(line) for line in self.said()]
        if self.form.startswith("text"):  # it comes in whatever pieces
            found, expected = (["".join(text for name, text in told if name == "token")] for told in (found, expected))
            if not whole:  # it was cut, maybe in a character
                found[0] = found[0].rstrip("\ufffd")
                expected[0] = expected[0][:len(found[0])]
            assert found == expected, f"{len(found[0])} characters instead of {len(expected[0])}, or others"
            return
        found = found if whole or not found or found[-1][0] != "final_answer" else found[:-1]
        told = expected if whole else expected[:len(found)]
        assert found == told, first_difference([str(f) for f in found], [str(e) for e in told])

    def check_heard(self, events, whole):
        assert not self.sent

    def finish(self, client):
        self.until.touch()
        self.task = client.task(self.task)
        resumed = client.resume(self.task, 0)  # live lines of an earlier subscription come before it
        return self.check(client, list(client.events(self.task, client.log.index(resumed))))


class FormRound(Round):
    """Tasks of one form."""

    def __init__(self, gateway, token, rng, form):
        super().__init__(gateway, token, rng)
        self.form = form

    def begin(self, name, n=N_TASKS, agent=None, asked=None):
        with contextlib.suppress(Closed, OSError), Client(self.gateway, token=self.token) as client:
            for i in range(n):
                self.tasks.append(FormTask(self.gateway, self.rng, f"{name}-{i}"))
                self.tasks[-1].start(client, agent or self.form, asked)
        return self

    def live(self, seconds, bytes=0):
        """For that time, or until the gateway is gone."""
        with contextlib.suppress(Closed, OSError), Client(self.gateway, token=self.token) as client:
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                client.pump(0.02 * SCALE)

    def finish(self):
        with Client(self.gateway, token=self.token) as client:
            self.tasks = [task for task in self.tasks if task.find(client)]
            return [task.finish(client) for task in self.tasks]


def begun(tasks):
    wait_until(lambda: all(len(task.said()) > 20 for task in tasks), "agents that speak")


def kill(gateway, pid):
    if pid:
        signal_if(lambda pid: has_mark(pid, gateway.mark), pid, signal.SIGKILL)


def clean(gateway):
    """Nothing is left of tasks that have ended."""
    wait_until(lambda: not list((gateway.data / "agents").iterdir()), "the end of all sockets", LATE_S)
    wait_until(lambda: len(processes_with(gateway.mark)) == 1, f"{processes_with(gateway.mark)}", LATE_S)
