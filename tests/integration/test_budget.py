"""A task whose budget is used up asks whether to go on."""

import threading
import time

import pytest

import model_server as m
from gateway import Gateway
from holdfast import ids
from model_server import reply


@pytest.fixture(scope="module")
def gateway(server):
    def agent(name, **budget):
        return {"name": name, "kind": "react", "model": "m", "tools": ["calculator"], "grace_s": 1, "budget": budget}

    config = {"models": [{"name": "m", "base_url": server.url + "/v1", "model": "m"}],
              "agents": [agent("calls", tool_calls=3), agent("tokens", tokens=100), agent("free"),
                         {"name": "source", "kind": "source"}]}
    with Gateway(config) as running:
        yield running


def calls(*names):
    """A turn that calls the calculator, once for each name."""
    return reply(*[m.call(i, name, "calculator", '{"expression":"1+1"}') for i, name in enumerate(names)],
                 m.finish("tool_calls"), m.usage(30, 10), m.DONE)


LAST = reply(m.text("Done."), m.finish(), m.usage(30, 10), m.DONE)


def ask(client, server, script, **fields):
    server.script = list(script)
    return client.chat("go", **fields)


def question(client, task, behind=0):
    return client.expect(lambda line: line.get("event") == "input_required" and line["task_id"] == task["task_id"]
                         and line["seq"] > behind)


def results(client, task):
    return [e["data"]["call_id"] for e in client.replay(task) if e["event"] == "tool_result"]


def test_calls_beyond_the_budget_wait_for_a_yes(client, server):
    task = ask(client, server, [calls("a", "b"), calls("c", "d", "e"), LAST], agent="calls")
    asked = question(client, task)
    assert asked["data"]["kind"] == "budget" and "3 of 3 tool calls" in asked["data"]["prompt"]
    assert asked["data"]["arguments"] == {"tool_calls": {"used": 3, "limit": 3}}
    assert client.task(task)["waiting_for"] == asked["data"]["input_id"]
    client.refused("bad_request", "respond", **ids(task), input_id=asked["data"]["input_id"], answer="yes")
    client.call("respond", **ids(task), input_id=asked["data"]["input_id"], answer=True)
    end = client.wait_terminal(task)
    assert (end["event"], end["data"]["output"]) == ("task.completed", "Done.")
    assert results(client, task) == ["a", "b", "c", "d", "e"]


def test_each_grant_is_one_more_budget(client, server):
    task = ask(client, server, [calls(*"abcdefgh"), LAST], agent="calls")
    first = question(client, task)
    client.call("respond", **ids(task), input_id=first["data"]["input_id"], answer=True)
    second = question(client, task, first["seq"])
    assert first["data"]["input_id"] != second["data"]["input_id"]
    client.call("respond", **ids(task), input_id=second["data"]["input_id"], answer=True)
    assert client.wait_terminal(task)["event"] == "task.completed"


def test_a_no_ends_the_task_with_what_it_has_said(client, server):
    said = reply(m.text("Let me see."), m.call(0, "a", "calculator", '{"expression":"1+1"}'),
                 m.finish("tool_calls"), m.usage(90, 10), m.DONE)
    task = ask(client, server, [said, LAST], agent="tokens")
    asked = question(client, task)
    assert asked["data"]["arguments"] == {"tokens": {"used": 100, "limit": 100}}
    client.call("respond", **ids(task), input_id=asked["data"]["input_id"], answer=False)
    end = client.wait_terminal(task)
    assert end["event"] == "task.failed" and "100 of 100 tokens" in end["data"]["error"]["message"]
    assert client.task(task)["output"] == "Let me see."


def test_budget_of_the_task_replaces_the_agent_s(client, server):
    task = ask(client, server, [calls("a"), calls("b"), LAST], agent="calls", budget={"tool_calls": 1},
               metadata={"mine": [1]})
    asked = question(client, task)
    assert asked["data"]["arguments"] == {"tool_calls": {"used": 1, "limit": 1}}
    assert client.task(task)["metadata"] == {"holdfast_budget": {"tool_calls": 1}, "mine": [1]}
    client.call("cancel", **ids(task))
    assert client.wait_terminal(task)["data"]["error"]["code"] == "cancelled"


def test_seconds_are_counted(client, server):
    gate = threading.Event()
    slow = [m.head(), m.call(0, "a", "calculator", '{"expression":"1+1"}'), gate, m.finish("tool_calls"), m.DONE,
            m.CLOSE]
    task = ask(client, server, [slow, LAST], agent="free", budget={"seconds": 1})
    time.sleep(1.1)  # the time is the subject
    gate.set()
    asked = question(client, task)
    assert asked["data"]["arguments"]["seconds"]["limit"] == 1
    client.call("respond", **ids(task), input_id=asked["data"]["input_id"], answer=True)
    assert client.wait_terminal(task)["data"]["output"] == "Done."


@pytest.mark.parametrize("budget", [5, {"tokens": 0}, {"tokens": "5"}, {"turns": 1}, {"seconds": 1.5}, []])
def test_budget_that_is_none(client, budget):
    client.refused("bad_request", "chat", message="x", agent="calls", budget=budget)


def test_agent_without_budgets(client):
    client.refused("unsupported", "chat", message="x", agent="source", budget={"seconds": 1})
