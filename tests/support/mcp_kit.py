"""Agents with MCP servers, over a scripted model: what the tests of MCP share."""

import contextlib
import json
import sys

from gateway import SUPPORT, Gateway
from model_server import DONE, answer, call, finish, reply

SCRIPTED = [sys.executable, str(SUPPORT / "agents" / "mcp.py")]


def scripted(name, folder, era="modern", **options):
    """A server that does as it is told (support/agents/mcp.py), in a folder of its own."""
    place = folder / name
    place.mkdir(exist_ok=True)
    return {"name": name, "command": [*SCRIPTED, era, str(place)], **options}


def agent(name, *tools, **options):
    return {"name": name, "kind": "react", "model": "m", "tools": list(tools), "grace_s": 1, **options}


def gateway_of(model, servers, agents, **config):
    return Gateway({"models": [{"name": "m", "base_url": model.url, "model": "x", "retries": 0}], "mcp": servers,
                    "agents": agents, **config})


def turn(*wanted):
    """A turn of the model that calls these: (name, arguments)."""
    pieces = [call(i, f"c{i}", name, json.dumps(arguments)) for i, (name, arguments) in enumerate(wanted)]
    return reply(*pieces, finish("tool_calls"), DONE)


def steps(server, *what):
    """A call of a scripted server's tool do."""
    return (f"{server}__do", {"steps": list(what)})


def results(events):
    return {e["data"]["call_id"]: (e["data"]["output"], e["data"].get("is_error", False))
            for e in events if e["event"] == "tool_result"}


def data(events, name):
    return [event["data"] for event in events if event["event"] == name]


def offered(request):
    """name → the function that the model was offered."""
    return {tool["function"]["name"]: tool["function"] for tool in request.json.get("tools", [])}


def heard(folder, server):
    """The messages that a scripted server got."""
    with contextlib.suppress(FileNotFoundError):
        lines = (folder / server / "heard").read_text(encoding="utf-8").split("\n")
        return [json.loads(line) for line in lines[:-1]] # the last one may be half written
    return []


def of(messages, method):
    return [message for message in messages if message.get("method") == method]


class Talk:
    """Tasks of a scripted model, one after the other."""

    def __init__(self, client, model):
        self.client, self.model = client, model

    def begin(self, agent, *turns, **fields):
        self.model.script = [*turns, answer("done")]
        self.model.requests.clear()
        return self.client.chat("go", agent=agent, **fields)

    def finish(self, agent, *wanted):
        """A task with one turn that calls these: its results, and its events."""
        since = len(self.client.log)
        task = self.begin(agent, *([turn(*wanted)] if wanted else []))
        events = list(self.client.events(task, since))
        assert events[-1]["event"] == "task.completed", events[-1]
        return results(events), events
