"""Hostile or unlucky contents from every side: halves of characters, depth (F27, F55, F56; PROTOCOL.md 1)."""

import json
import os
import random

import pytest

from gateway import script_agent
from holdfast import names
from wire import Wire

DEPTH = 128  # the outermost object counts as 1
CONFIG = {"agents": [
    script_agent(default=True, tools=["calculator"]),
]}


def nested(depth):
    return "[" * depth + "]" * depth


# ------------------------------------------------------------------ F55


def test_half_an_emoji_from_every_side_is_delivered_and_replayed(client, clients):  # F55
    """From the chat, an inbox message, an answer, the agent's text, its tool's arguments and output."""
    half, whole = '\\ud83d', '\\ud83d\\ude00'
    task = client.chat(
        {"question": "q1", "kind": "question", "prompt": "?"}, {"hear": "input"}, {"hear": "message"},
        {"raw": '{"event":"token","data":{"text":"a%s b%s"}}\n' % (half, whole)},
        {"raw": '{"event":"tool_call","data":{"call_id":"c","name":"n%s","arguments":{"x%s":"%s"}}}\n' % (half, half, half)},
        {"raw": '{"event":"tool_result","data":{"call_id":"c","name":"n","output":"o%s","is_error":false}}\n' % half},
        {"raw": '{"call":"tool","call_id":"d","name":"calculator","arguments":{"expression":"1+%s"}}\n' % half},
        {"hear": "tool_result"}, {"token": "after"})
    client.event(task, "input_required")
    for type, field in (("respond", '"input_id":"q1","answer":"y%s"' % half), ("send", '"content":"m%s"' % half)):
        client.send_text('{"type":"%s","id":"%s","task_id":"%s","conversation_id":"%s",%s}'
                         % (type, type, task["task_id"], task["conversation_id"], field))
        assert client.reply(type)["type"] == "ok"
    end = client.wait_terminal(task)
    assert end["event"] == "task.completed", end
    events = client.events_since(task)
    data = {event["event"]: event["data"] for event in reversed(events)}
    assert data["input_received"]["answer"] == "y\ufffd" and data["message"]["content"] == "m\ufffd"
    assert data["token"]["text"] == "a\ufffd b😀"
    assert data["tool_call"]["name"] == "n\ufffd" and data["tool_call"]["arguments"] == {"x\ufffd": "\ufffd"}
    assert data["tool_result"]["output"] == "o\ufffd"
    assert len([event for event in events if event["event"] == "tool_result"]) == 2
    for after in range(5):  # each reconnect gets over it, and the same bytes
        again = clients(token=client.token)
        assert again.replay(task, after) == events[after:]
        raw = client.raw_events(task)
        assert all(raw[seq] == line for seq, line in again.raw_events(task).items())
        again.quiet()


def test_half_an_emoji_in_every_field_of_a_chat(client):  # F55
    client.send_text('{"type":"chat","id":"c","conversation_id":"c","message":"m\\ud83d","name":"n\\udc00",'
                     '"description":"d\\ud83d","request_key":"k\\ud83d","metadata":{"\\ud83d":"\\udc00"}}')
    task = client.reply("c")["task"]
    assert (task["name"], task["description"]) == ("n\ufffd", "d\ufffd")
    client.wait_terminal(task)
    assert client.task(task)["metadata"] == {"\ufffd": "\ufffd"}
    client.send_text('{"type":"title","id":"t","conversation_id":"c","title":"t\\ud83d"}')
    assert client.reply("t")["type"] == "ok"
    assert client.call("conversations")["conversations"][0]["title"] == "t\ufffd"


# ------------------------------------------------------------------ F27


def test_random_bytes_in_a_line_never_reach_a_client_as_they_are(client, clients):  # F27
    """Lines with bytes that are not UTF-8 in their strings, whatever they are: replaced, live and replayed."""
    rng = random.Random(27)
    texts = [bytes(rng.randrange(128, 256) for _ in range(n)) for n in (1, 2, 3, 7, 64, 1000)]
    task, events = client.finish(
        {"token": "clean"}, *({"hex": (b'{"event":"token","data":{"text":"' + text + b'"}}\n').hex()} for text in texts),
        {"token": "clean too"})
    assert task["status"] == "completed"
    said = [event["data"]["text"] for event in events if event["event"] == "token"]
    assert len(said) == len(texts) + 2 and said[0] == "clean" and said[-1] == "clean too"
    for text, got in zip(texts, said[1:]):
        assert "\ufffd" in got or got == text.decode("utf-8")
        got.encode("utf-8")
    again = clients(token=client.token)
    assert again.replay(task) == events and again.raw_events(task) == client.raw_events(task)


def test_output_that_is_no_line_fails_its_task_alone_and_what_was_said_stays(client):  # F27
    for raw in (os.urandom(1000) + b"\n", b"\x00\n", b"caf\xe9\n"):
        task, events = client.finish({"token": "before"}, {"hex": raw.hex()}, {"token": "behind"})
        assert task["status"] == "failed" and task["output"] == "before"
        assert names(events).count("token") == 1
        events[-1]["data"]["error"]["message"].encode("utf-8")
    assert client.finish("next")[0]["status"] == "completed"


# ------------------------------------------------------------------ F56


def test_brackets_as_the_first_message_of_many(gateway, client):  # F56
    pid = gateway.process.pid
    for text in ("[" * 32000, '{"a":' * 6400, '{"type":"hello","token":' + "[" * 30000,
                 '{"type":"hello","x":%s}' % nested(15000)):
        with Wire(gateway) as wire:
            wire.text(text)
            assert "bad_request" in wire.until_text('"error"')
        with Wire(gateway) as wire:
            wire.text("[" * 200_000)
            assert wire.close_code() in (1009, None)
        client.quiet()
    assert gateway.process.pid == pid and gateway.process.poll() is None


@pytest.mark.parametrize("where", [
    '{"event":"custom","data":{"event_type":"x","payload":%s}}', '{"event":"result","data":{"x":%s}}',
    '{"event":"token","data":{"text":"x","more":%s}}', '{"event":"token","data":{"text":"x"},"more":%s}',
    '{"event":"tool_call","data":{"call_id":"c","name":"n","arguments":{"x":%s}}}',
], ids=["payload", "result", "member_of_data", "member", "arguments"])
@pytest.mark.parametrize("over", [0, 1, 100_000])
def test_agents_lines_have_the_same_depth(client, clients, where, over):  # F56
    outer = 0
    for char in where[: where.index("%s")]:
        outer += {"{": 1, "}": -1}.get(char, 0)
    line = where % nested(DEPTH - outer + over)
    steps = [{"raw": line[i : i + 1000]} for i in range(0, len(line), 1000)] if over < 1000 else \
        [{"raw": where.split("%s")[0]}, {"repeat": 100, "steps": [{"raw": "[" * 1000}]}]
    task, events = client.finish({"token": "a"}, *steps, {"raw": "\n"}, {"token": "b"})
    assert task["status"] == ("failed" if over else "completed"), task
    if over:
        assert task["error"]["code"] == "agent_error" and task["output"] == "a"
    again = clients(token=client.token)
    assert again.replay(task) == events


def test_metadata_at_the_depth_comes_back_and_one_over_is_refused(client):  # F56
    room = DEPTH - 2  # the line's object and metadata's own
    client.send_text('{"type":"chat","id":"c","message":"x","metadata":{"x":%s}}' % nested(room))
    task = client.reply("c")["task"]
    client.wait_terminal(task)
    assert json.dumps(client.task(task)["metadata"]["x"]).replace(" ", "") == nested(room)
    client.send_text('{"type":"chat","id":"d","message":"x","metadata":{"x":%s}}' % nested(room + 1))
    error = client.expect_type("error")  # not JSON as far as it is read: it has no id
    assert error["code"] == "bad_request"
    client.quiet()
