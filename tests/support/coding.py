"""coding -- tasks of an ACP agent on the protocol's own library (agents/acp.mjs), which outlive gateways, and their reckoning:
what the agent logged, and what its commands wrote, against what the gateway has."""

import contextlib
import json
import os
import shutil
import time

from gateway import SCALE, SUPPORT, processes_with, wait_until
from holdfast import TERMINAL, Client, Closed, ids

NODE = os.environ.get("HOLDFAST_NODE") or shutil.which("node")
OPTIONS = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}, {"optionId": "no", "name": "No", "kind": "reject_once"}]
UNKNOWN = "the gateway restarted while this ran; whether it took effect is unknown"
THIS = {"terminalId": "$"}


def coder(name, folder, **options):
    (folder / name).mkdir(exist_ok=True)
    return {"name": name, "kind": "acp", "grace_s": 2, "cwd": str(folder / name), "timeout_s": 0, "idle_timeout_s": 0,
            "command": [NODE, str(SUPPORT / "agents" / "acp.mjs"), str(folder / name), "resume"], **options}


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def request(method, **params):
    return {"request": [method, params]}


class CodingTask:
    """A task whose steps are chosen at random, each with an effect that can be counted."""

    def __init__(self, folder, rng, name, conversation, most=12):
        self.folder, self.name, self.conversation, self.task = folder, name, conversation, None
        self.asks, self.commands, self.steps = 0, [], [{"say": f"begin {name}. "}]
        self.cancelled, self.before = False, set()
        kinds = [self.say, self.read, self.write, self.command, self.permission]
        for number in range(most):
            rng.choice(kinds)(number, rng)
            self.steps.append({"pause": rng.randrange(0, 12) * SCALE})
        self.steps.append({"say": f"end {name}."})

    def say(self, number, rng):
        self.steps += [{"say": f"{self.name}:{number}:{i} "} for i in range(rng.randrange(1, 6))]

    def read(self, number, rng):
        (self.folder / f"{self.name}-read").write_text("x" * rng.choice([3, 3000, 300_000]), encoding="utf-8")
        self.steps.append(request("fs/read_text_file", path=str(self.folder / f"{self.name}-read")))

    def write(self, number, rng):
        path = self.folder / f"{self.name}-written-{number}"
        self.steps.append(request("fs/write_text_file", path=str(path), content=f"of {number}" * rng.choice([1, 300])))

    def command(self, number, rng):
        self.commands.append(str(number))
        self.steps += [request("terminal/create", command="/bin/sh",
                               args=["-c", f"sleep 0.0{rng.randrange(0, 9)}; echo {number} >> {self.name}-ran; echo {number}"]),
                       request("terminal/wait_for_exit", **THIS), request("terminal/output", **THIS)]
        if rng.random() < 0.5:
            self.steps.append(request("terminal/release", **THIS))

    def permission(self, number, rng):
        self.asks += 1
        call = {"toolCallId": f"call-{self.name}-{number}", "title": f"Do {number}", "rawInput": {"n": number}}
        self.steps.append(request("session/request_permission", toolCall=call, options=OPTIONS))

    # ------------------------------------------------------ its life

    def start(self, client, agent):
        self.task = client.call("chat", message=json.dumps(self.steps), agent=agent, conversation_id=self.conversation)["task"]
        return self

    def find(self, client):
        """Whether it exists: the answer to its chat may have been lost with the gateway."""
        found = client.ask("tasks", conversation_id=self.conversation).get("tasks", [])
        self.task = self.task or next((t for t in found if t["task_id"] not in self.before), None)
        return self.task

    def prompts(self):
        """How often the agent was asked this."""
        return sum(entry.get("prompt", "").endswith(json.dumps(self.steps)) for entry in self.log())

    def log(self):
        return lines(self.folder / "asked")

    def tend(self, client):
        """Answers what is open: whether it goes on."""
        now = client.task(self.task)
        if now.get("waiting_for"):
            client.ask("respond", **ids(self.task), input_id=now["waiting_for"], answer=True)
        return now["status"] in ("pending", "running")

    def live(self, gateway, seconds):
        """For that time, or until the gateway is gone: whether it goes on."""
        goes_on = True
        with contextlib.suppress(Closed, OSError), Client(gateway, token=gateway.token) as client:
            until = time.monotonic() + seconds
            while time.monotonic() < until and goes_on:
                goes_on = self.tend(client)
                client.pump(0.01 * SCALE)
        return goes_on

    # ------------------------------------------------------ the reckoning

    def answers(self):
        """All that the agent was answered in this turn, in order."""
        log = self.log()
        at = next(i for i, entry in enumerate(log) if entry.get("prompt", "").endswith(json.dumps(self.steps)))
        found = []
        for entry in log[at + 1:]:
            if "prompt" in entry:
                break
            if "method" in entry:
                found.append((entry["method"], entry["answer"]))
        return found

    def check_answers(self):
        asked = [step["request"] for step in self.steps if "request" in step]
        answers = self.answers()
        assert [method for method, _ in answers] == [method for method, _ in asked]
        for (method, params), (_, answer) in zip(asked, answers):
            if method == "fs/write_text_file":
                assert "code" not in answer or answer["message"] == UNKNOWN, answer
            else:
                assert "code" not in answer, (method, answer)
            if method == "session/request_permission":
                assert answer == {"outcome": {"outcome": "selected", "optionId": "yes"}}
            if method == "terminal/wait_for_exit":
                assert answer == {"exitCode": 0, "signal": None}, answer
        return answers

    def finish(self, gateway):
        """Its record, once all of it is as it must be."""
        with Client(gateway, token=gateway.token) as client:
            wait_until(lambda: not self.tend(client), f"the end of {self.name}")
            since = len(client.log)
            client.resume(self.task, 0)
            events = list(client.events(self.task, since))  # dense from 1: the client checks
            record = client.task(self.task)
        assert sum(event["event"] in TERMINAL for event in events) == 1
        assert sum(event["event"] == "task.started" for event in events) == 1
        if self.cancelled:
            assert record["status"] == "cancelled", record
            return record
        assert record["status"] == "completed", record.get("error")
        assert self.prompts() == 1, f"{self.prompts()} prompts"
        answers = iter(self.check_answers())
        said = [step.get("say") if "say" in step else json.dumps(next(answers)[1]) for step in self.steps if "pause" not in step]
        told = [event["data"]["text"] for event in events if event["event"] == "token"]
        assert "".join(told).replace(" ", "") == "".join(self.plain(text) for text in said).replace(" ", "")
        ran = self.folder / f"{self.name}-ran"
        assert (ran.read_text().split() if ran.exists() else []) == self.commands
        assert sum(event["event"] == "input_received" for event in events) == self.asks
        return record

    @staticmethod
    def plain(text):
        """As JSON.stringify has it."""
        with contextlib.suppress(ValueError):
            return json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False)
        return text


def clean(gateway):
    """Nothing is left of tasks that have ended, but what waits in a pool."""
    wait_until(lambda: len(list((gateway.data / "agents").iterdir())) <= 1, "the end of all sockets")
    assert processes_with(gateway.mark)
