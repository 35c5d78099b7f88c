"""Agents of kind http with the form langgraph, against LangGraph's own server (tests/programs/langgraph).

It takes 140 MB, so `./dev test` leaves it out and `./dev test-all` installs it; by hand, `npm ci` in that folder."""

import json
import types

import pytest

from gateway import Gateway, wait_until
from holdfast import Client, ids, names, text_of
from peers import TESTS, Peer
from relay import Relay

SERVER = TESTS / "programs" / "langgraph"

pytestmark = pytest.mark.skipif(not (SERVER / "node_modules").exists(), reason="tests/programs/langgraph is not installed")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    running = Peer(SERVER / "serve.mjs", cwd=tmp_path_factory.mktemp("langgraph"))
    yield running
    running.close()


@pytest.fixture(scope="module")
def relay(server):
    running = Relay(types.SimpleNamespace(host="127.0.0.1", port=server.port))
    yield running
    running.close()


@pytest.fixture(scope="module")
def gateway(server, relay):
    agent = {"kind": "http", "form": "langgraph", "model": "agent", "grace_s": 30}
    with Gateway({"agents": [{"name": "graph", "url": server.url, "default": True, **agent},
                             {"name": "cut", "url": f"http://127.0.0.1:{relay.port}", "retries": 5, **agent}]}) as running:
        yield running


def finish(client, *steps, **fields):
    return client.finish(json.dumps(list(steps)), **fields)


def start(client, *steps, **fields):
    return client.call("chat", message=json.dumps(list(steps)), **fields)["task"]


def test_turn(client):
    task, events = finish(client, {"say": ["Let me ", "look. "]}, {"call": "look"}, {"say": ["It is ", "$."]})
    assert (task["status"], task["output"]) == ("completed", 'It is "look of /x".'), task
    assert text_of(events) == 'Let me look. It is "look of /x".'
    assert [name for name in names(events) if name.startswith("tool")] == ["tool_call", "tool_result"]
    [result] = [e["data"] for e in events if e["event"] == "tool_result"]
    assert (result["name"], result["output"], result["is_error"]) == ("look", "look of /x", False)
    assert task["result"] == {"usage": {"prompt_tokens": 9, "completion_tokens": 15, "total_tokens": 24}}


def test_thread_goes_on_also_after_a_restart(client, gateway):
    task, _ = finish(client, {"say": ["one"]})
    task, _ = finish(client, {"count": 1}, conversation=task["conversation_id"])
    assert task["output"] == "3 messages"
    token = client.token
    gateway.kill()
    gateway.start()
    with Client(gateway, token=token) as again:
        task, _ = finish(again, {"count": 1}, conversation=task["conversation_id"])
        assert task["output"] == "5 messages"


def test_failure(client):
    task, _ = finish(client, {"say": ["Hm. "]}, {"fail": "the graph broke"})
    assert task["error"]["message"] == "agent_error: the agent said: the graph broke"


@pytest.mark.parametrize("asked,answer,brought", [
    ({"question": "Which?"}, "blue", '"blue"'),
    ("Which?", "blue", '"blue"'),
    ({"action_requests": [{"name": "rm", "args": {"path": "/x"}, "description": "Which?"}], "review_configs": []},
     True, '{"decisions":[{"type":"approve"}]}')])
def test_interrupt(client, asked, answer, brought):
    task = start(client, {"ask": asked}, {"say": ["So $."]})
    question = client.event(task, "input_required")["data"]
    assert question["prompt"] == "Which?"
    client.call("respond", **ids(task), input_id=question["input_id"], answer=answer)
    assert client.wait_terminal(task)["data"]["output"] == f"So {brought}."


def test_run_goes_on_after_cuts(client, relay, tmp_path):
    gate = tmp_path / "gate"
    relay.cut_after(b"before", 2)  # the second time it comes, it is not asked for
    task = start(client, {"say": ["this ", "is ", "before "]}, {"wait": str(gate)}, {"say": ["after"]}, agent="cut")
    client.event(task, "token")
    wait_until(lambda: relay.cuts_left == 1, "it is cut")
    relay.cut()
    gate.touch()
    assert client.wait_terminal(task)["data"]["output"] == "after"
    assert text_of([line for line in client.log if line["type"] == "event"]) == "this is before after"
    relay.cut_after(b"", 0)


def test_cancel_ends_the_run(client, server, tmp_path):
    task = start(client, {"say": ["one"]}, {"wait": str(tmp_path / "never")})
    client.event(task, "token")
    client.call("cancel", **ids(task))
    assert client.wait_terminal(task)["data"]["error"]["code"] == "cancelled"
    task, _ = finish(client, {"say": ["two"]}, conversation=task["conversation_id"])  # the thread is free
    assert task["output"] == "two"
