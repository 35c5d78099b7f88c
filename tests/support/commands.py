"""An agent of kind react that runs commands: a model that makes the calls in the user's message.

The message is a JSON list of turns, each a list of calls [tool, arguments]; "$session" in an argument is
the session_id of the newest process.  After the last turn, and to anything else (a notice), the model
answers in a few words.  Each test sees the tools' results, and the model's input.
"""

import contextlib
import json
import re

import pytest

from gateway import merged, wait_until
from holdfast import new_id
from model_server import DONE, ModelServer, answer, call, finish, reply

TOOLS = ["terminal", "process"]
FREE = {"sandbox": "none", "approved": ["*"]}  # no sandbox, no questions


def _session(messages):
    for message in reversed(messages):
        if message["role"] == "tool" and '"session_id":"proc_' in message["content"]:
            return json.loads(message["content"])["session_id"]
    return None


def _think(request):
    messages = request.json["messages"]
    last = max(i for i, message in enumerate(messages) if message["role"] == "user")
    done = sum(message["role"] == "assistant" for message in messages[last:])
    try:
        turns = json.loads(messages[last]["content"])
    except ValueError:
        turns = []
    if done >= len(turns):
        return answer("that is all")
    pieces = [call(i, f"call-{done}-{i}", tool,
                   json.dumps(arguments).replace('"$session"', json.dumps(_session(messages))))
              for i, (tool, arguments) in enumerate(turns[done])]
    return reply(*pieces, finish("tool_calls"), DONE)


def model():
    """A running server for config()."""
    server = ModelServer()
    server.script = _think
    return server


@pytest.fixture(name="model", scope="module")
def served():
    """The file's own: model = commands.served"""
    with contextlib.closing(model()) as server:
        yield server


def config(server, terminal=None, **more):
    agent = {"name": "operator", "kind": "react", "model": "m", "tools": TOOLS, "default": True, "grace_s": 1}
    return merged({"models": [{"name": "m", "base_url": server.url, "model": "x"}], "agents": [agent],
                   "terminal": FREE if terminal is None else terminal}, more)


def message(*turns):
    """The message for these turns: each a call, or a list of calls made side by side."""
    return json.dumps([turn if isinstance(turn, list) else [turn] for turn in turns])


def outputs(events):
    """The result of each call, in the order of the calls: an object, or the text of an error.  A command whose end was not
    its own, and it alone, is an object that says so and an error."""
    results = [event["data"] for event in events if event["event"] == "tool_result"]
    results.sort(key=lambda data: [int(part) for part in data["call_id"].split("-")[1:]])
    found = []
    for data in results:
        is_error, is_object = data.get("is_error", False), data["output"].startswith("{")
        found.append(json.loads(data["output"]) if is_object or not is_error else data["output"])
        if is_object:
            assert is_error == ("output" in found[-1] and bool(found[-1].get("error"))), data
    return found


def run(client, *turns, **fields):
    """A whole task of these turns; returns the results of its calls."""
    task, events = client.finish(message(*turns), **fields)
    assert task["status"] == "completed", task
    return outputs(events)


def terminal(command, **arguments):
    return ("terminal", {"command": command, **arguments})


def background(command, **arguments):
    return terminal(command, background=True, **arguments)


def process(action, session_id="$session", **arguments):
    return ("process", {"action": action, "session_id": session_id, **arguments})


def notices(client, conversation):
    """The ends that agents were told, in its system messages: those that came close are one message."""
    messages = client.call("history", conversation_id=conversation, limit=200)["messages"]
    return [text for m in messages if m["role"] == "system"
            for text in re.split(r"\n\n(?=Background process proc_)", m["content"])]


def turns_of(client, conversation):
    """Its tasks of type notice, the oldest first."""
    tasks = client.call("tasks", conversation_id=conversation, limit=200)["tasks"]
    return [t for t in tasks if t["type"] == "notice"]


def told(client, conversation, n=1):
    """The notices of a conversation, when there are n and their turns have ended."""
    def there():
        turns, texts = turns_of(client, conversation), notices(client, conversation)
        return turns and all(t["status"] == "completed" for t in turns) and len(texts) >= n and texts

    return wait_until(there, f"{n} notices told")


def start(client, command, **arguments):
    """Starts it in a conversation of its own: (conversation, the tool's result)."""
    conversation = new_id()
    (started,) = run(client, background(command, **arguments), conversation=conversation)
    assert started["output"] == "Background process started", started
    return conversation, started
