"""The ReAct agent with a server of OpenAI's interface that nobody here wrote: aimock, from tests/models."""

import contextlib
import http.client
import json
import os
import pathlib
import re
import subprocess
import threading

import pytest

from gateway import Gateway, WAIT_S, wait_until
from holdfast import Client, ids, stays, text_of

MODELS = pathlib.Path(__file__).resolve().parent.parent / "models"
STORY = "Once upon a time there was a kelp that held fast to its rock. " * 6
FIXTURES = [
    {"match": {"userMessage": "sum", "hasToolResult": False}, "response": {"content": "One moment.",
     "toolCalls": [
        {"name": "calculator", "arguments": "{\"expression\":\"2^10\"}"},
        {"name": "clock", "arguments": "{\"format\":\"date\"}"}]}},
    {"match": {"userMessage": "sum", "hasToolResult": True}, "response": {"content": "It is 1024."}},
    {"match": {"userMessage": "lost", "hasToolResult": False}, "response": {"toolCalls": [
        {"name": "teleport", "arguments": "{}"}]}},
    {"match": {"userMessage": "lost", "hasToolResult": True}, "response": {"content": "I cannot."}},
    {"match": {"userMessage": "think"},
     "response": {"reasoning": "Let me think of six times seven.", "content": "42 🌊"}},
    {"match": {"userMessage": "fail"},
     "response": {"error": {"message": "all busy", "type": "server_error"}, "status": 503}},
    {"match": {"userMessage": "drop"}, "response": {"content": STORY}, "latency": 60, "chunkSize": 4,
     "disconnectAfterMs": 1000},
    {"match": {"userMessage": "story"}, "response": {"content": STORY}, "latency": 10},
    {"match": {"userMessage": "saga"}, "response": {"content": STORY * 100}, "latency": 25},
]


STEPS = 4
JOURNEY = [{"match": {"userMessage": "journey", "turnIndex": n}, "latency": 15,
            "response": {"content": f"Step {n}. {STORY}", "toolCalls": [
                {"name": "calculator", "arguments": json.dumps({"expression": f"{n}+1"})}]}} for n in range(STEPS)]
JOURNEY += [{"match": {"userMessage": "journey", "turnIndex": STEPS}, "latency": 15,
             "response": {"content": f"There. {STORY}"}}]


class Aimock:
    """The server's process."""

    def __init__(self, folder, fixtures):
        node = os.environ.get("HOLDFAST_NODE") or "node"
        program = MODELS / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"
        (folder / "all.json").write_text(json.dumps({"fixtures": fixtures}))
        self.process = subprocess.Popen(
            [node, str(program), "-p", "0", "-f", str(folder), "-c", "8", "-l", "2"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in self.process.stdout:
            listening = re.search(r"listening on (http://127\.0\.0\.1:(\d+))", line)
            if listening:
                self.url, self.port = listening[1], int(listening[2])
                break
        else:
            raise AssertionError("aimock does not start: run ./dev test once")
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def journal(self):
        """The requests that it has got."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        connection.request("GET", "/__aimock/journal")
        entries = json.loads(connection.getresponse().read())
        connection.close()
        return entries if isinstance(entries, list) else entries.get("entries") or entries["requests"]

    def close(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def aimock(tmp_path_factory):
    running = Aimock(tmp_path_factory.mktemp("fixtures"), FIXTURES)
    yield running
    running.close()


@pytest.fixture(scope="module")
def gateway(aimock):
    apis = ["chat", "responses", "anthropic"]
    config = {"models": [{"name": api, "api": api, "base_url": aimock.url + "/v1", "model": "gpt-4o",
                          "retries": 1} for api in apis],
              "agents": [{"name": api, "kind": "react", "model": api, "default": api == "chat",
                          "tools": ["calculator", "clock"], "grace_s": 1} for api in apis]}
    with Gateway(config) as running:
        yield running


def test_conversation_that_uses_tools(client, aimock):
    task, events = client.finish("what is the sum?")
    assert (task["status"], task["output"]) == ("completed", "It is 1024."), task
    results = {e["data"]["name"]: e["data"] for e in events if e["event"] == "tool_result"}
    assert results["calculator"]["output"] == "1024"
    assert re.match(r"\w+day, \d{4}-\d\d-\d\d$", results["clock"]["output"])
    assert task["result"]["usage"]["total_tokens"] > 0
    asked = [entry["body"] for entry in aimock.journal() if "sum" in json.dumps(entry["body"])]
    roles = [message["role"] for message in asked[-1]["messages"]]
    assert roles == ["user", "assistant", "tool", "tool"]
    task, _ = client.finish("think again", conversation=task["conversation_id"])
    assert task["output"] == "42 🌊"


@pytest.mark.parametrize("api, path", [("responses", "/v1/responses"), ("anthropic", "/v1/messages")])
def test_other_apis(client, aimock, api, path):
    task, events = client.finish("what is the sum?", agent=api)
    assert (task["status"], task["output"]) == ("completed", "It is 1024."), task
    results = {e["data"]["name"]: e["data"] for e in events if e["event"] == "tool_result"}
    assert results["calculator"]["output"] == "1024"
    assert "usage" in task["result"]
    asked = [entry for entry in aimock.journal() if entry["path"] == path]
    assert len(asked) == 2, [entry["path"] for entry in aimock.journal()]
    task, events = client.finish("think again", agent=api, conversation=task["conversation_id"])
    assert task["output"] == "42 🌊"
    assert text_of(events, "thinking") == "Let me think of six times seven."
    task, _ = client.finish("fail", agent=api)
    assert (task["error"]["reason"], "all busy" in task["error"]["message"]) == ("model_overloaded", True)
    task, events = client.finish("drop it", agent=api)
    assert task["status"] == "failed" and task["error"]["reason"] in ("broke_off", "model_unreachable"), task
    assert task.get("output", "") == text_of(events)  # a slow server may have said nothing


def test_thinking_and_unknown_tools(client):
    task, events = client.finish("think")
    assert text_of(events, "thinking") == "Let me think of six times seven."
    assert task["output"] == "42 🌊"
    task, events = client.finish("get lost")
    assert task["output"] == "I cannot."
    assert [e["data"]["is_error"] for e in events if e["event"] == "tool_result"] == [True]


def test_errors_and_streams_that_break_off(client, aimock):
    task, _ = client.finish("fail")
    assert task["error"]["message"] == "agent_error: model: HTTP 503: all busy"
    assert sum("fail" in json.dumps(entry["body"]) and entry["path"] == "/v1/chat/completions"
               for entry in aimock.journal()) == 2
    task, events = client.finish("drop it")
    assert "broke off" in task["error"]["message"]
    assert STORY.startswith(task["output"]) and 0 < len(task["output"]) < len(STORY)
    assert task["output"] == text_of(events)


def is_text_of_step(n):
    """A token behind so many results: half of that step is said."""
    results = []

    def is_it(line):
        if line.get("event") == "tool_result":
            results.append(line)
        return line.get("event") == "token" and len(results) == n
    return is_it


@pytest.mark.parametrize("planned", [False, True], ids=["kill -9", "SIGTERM"])
def test_no_settled_step_is_asked_twice_over_restarts(tmp_path, planned):
    """Each step is cut once: it is asked once more, in the same bytes, and none before it ever again."""
    aimock = Aimock(tmp_path, JOURNEY)
    with contextlib.closing(aimock), Gateway({
            "models": [{"name": "m", "base_url": aimock.url + "/v1", "model": "gpt-4o"}],
            "agents": [{"name": "a", "kind": "react", "model": "m", "tools": ["calculator"]}]}) as gateway:
        with Client(gateway) as client:
            token, task = client.token, client.chat("a journey")
        for n in range(STEPS + 1):
            with Client(gateway, token=token) as client:
                client.resume(task, 0)
                client.expect(is_text_of_step(n))
                gateway.stop() if planned else gateway.kill()
            gateway.start()
        with Client(gateway, token=token) as client:
            since = len(client.log)
            client.resume(task, 0)
            events = list(client.events(task, since))
        bodies = [entry["body"] for entry in aimock.journal()]
    assert events[-1]["data"]["output"] == f"There. {STORY}"
    assert stays(events) == "".join(f"Step {n}. {STORY}" for n in range(STEPS)) + f"There. {STORY}"
    assert [e["data"]["output"] for e in events if e["event"] == "tool_result"] == [str(n + 1) for n in range(STEPS)]
    steps = [sum(message["role"] == "assistant" for message in body["messages"]) for body in bodies]
    assert steps == [n for n in range(STEPS + 1) for _ in range(2)], steps
    told = [json.dumps(body["messages"], ensure_ascii=False) for body in bodies]
    for before, after in zip(told, told[1:]):
        assert after.startswith(before[:-1])
    for once, again in zip(bodies[::2], bodies[1::2]):
        assert json.dumps(once) == json.dumps(again)


def side_by_side(client, type, asked):
    """The replies to all; those that a disk refused which stood still are asked for again."""
    replies = {}

    def answered():
        posts = {n: client.post(type, **fields) for n, fields in enumerate(asked) if n not in replies}
        for n, post in posts.items():
            reply = client.reply(post)
            assert reply.get("code") in (None, "overloaded"), reply
            if reply["type"] != "error":
                replies[n] = reply
        return len(replies) == len(asked)
    wait_until(answered, f"{len(asked)} replies")
    return [replies[n] for n in range(len(asked))]


def test_hundred_conversations_side_by_side(gateway):
    """Fifty are cancelled in the middle, fifty end well; no descriptor stays."""
    with Client(gateway) as client:
        client.finish("think")  # what is opened once, is
    before = gateway.n_fds()
    with Client(gateway) as client:
        chats = [{"message": "a story" if i % 2 else "a saga", "request_key": f"k{i}"} for i in range(100)]
        tasks = [reply["task"] for reply in side_by_side(client, "chat", chats)]
        seen = set()
        for line in client.scan():  # all stream at the same time
            if line["type"] == "event" and line["event"] == "token":
                seen.add(line["task_id"])
            if len(seen) == 100:
                break
        side_by_side(client, "cancel", [ids(task) for task in tasks[::2]])
        for number, task in enumerate(tasks):
            end = client.wait_terminal(task)
            if number % 2:
                assert end["data"]["output"] == STORY
            else:
                assert end["data"]["error"]["code"] == "cancelled"
                assert (STORY * 100).startswith(client.task(task)["output"])
    wait_until(lambda: gateway.n_fds() <= before, f"{before} descriptors, not {gateway.n_fds()}")
