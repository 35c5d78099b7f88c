"""Budgets of agents that do not ask by themselves: the gateway counts what passes by."""

import os
import threading

import pytest

from gateway import Gateway, free_port, script_agent, wait_until
from holdfast import Client, ids, names, new_id
from model_server import CLOSE, DONE, data, head
from workers import Worker
from workers import config as worker_config


def call(call_id):
    return {"line": {"event": "tool_call", "data": {"call_id": call_id, "name": "look", "arguments": {}}}}


def result(**usage):
    return {"result": {"usage": usage}}


@pytest.fixture(scope="module")
def gateway(server, tmp_path_factory):
    config = worker_config(tmp_path_factory.mktemp("workers"))
    config["agents"] += [
        script_agent("script", default=True, tools=["calculator"]),
        script_agent("two", budget={"tool_calls": 2}),
        {"name": "http", "kind": "http", "url": server.url, "grace_s": 1, "retries": 0, "budget": {"tool_calls": 2}}]
    del config["agents"][0]["default"]
    with Gateway(config) as running:
        yield running


def question(client, task, behind=0):
    return client.expect(lambda line: line.get("event") == "input_required" and line["task_id"] == task["task_id"]
                         and line["seq"] > behind)


def respond(client, task, asked, answer):
    client.call("respond", **ids(task), input_id=asked["data"]["input_id"], answer=answer)


def calls(client, task):
    return [event["data"]["call_id"] for event in client.replay(task, 0) if event["event"] == "tool_call"]


def test_program_is_not_read_until_the_answer(gateway, client):
    wrote = gateway.path()
    task = client.chat(call("a"), call("b"), call("c"), {"token": "more"}, {"touch": wrote}, {"final_answer": "done"},
                       agent="two")
    asked = question(client, task)
    assert asked["data"]["kind"] == "budget" and "2 of 2 tool calls" in asked["data"]["prompt"]
    assert asked["data"]["arguments"] == {"tool_calls": {"used": 2, "limit": 2}}
    wait_until(lambda: os.path.exists(wrote), "it has written all of it")
    assert "token" not in names(client.replay(task, 0))
    client.refused("bad_request", "respond", **ids(task), input_id=asked["data"]["input_id"], answer="yes")
    respond(client, task, asked, True)
    end = client.wait_terminal(task)
    assert (end["event"], end["data"]["output"]) == ("task.completed", "done")
    assert calls(client, task) == ["a", "b", "c"]


def test_each_yes_is_one_more_budget(client):
    task = client.chat(*[call(name) for name in "abcdef"], {"final_answer": "done"}, agent="two")
    first = question(client, task)
    respond(client, task, first, True)
    second = question(client, task, first["seq"])
    assert second["data"]["input_id"] != first["data"]["input_id"]
    respond(client, task, second, True)
    assert client.wait_terminal(task)["event"] == "task.completed"
    assert calls(client, task) == list("abcdef")


def test_a_no_ends_it_with_what_it_has_said(client):
    task = client.chat({"token": "Let me see."}, call("a"), call("b"), call("c"), {"token": " More."}, {"hang": 1},
                       agent="two")
    respond(client, task, question(client, task), False)
    end = client.wait_terminal(task)["data"]
    assert end["error"]["code"] == "agent_error" and "2 of 2 tool calls" in end["error"]["message"]
    assert client.task(task)["output"] == "Let me see."


def test_tool_of_the_gateway_waits_for_the_answer(client):
    tool = {"call": "tool", "call_id": "b", "name": "calculator", "arguments": {"expression": "6*7"}}
    task = client.chat(call("a"), {"line": tool}, {"hear": "tool_result", "say": True}, agent="script",
                       budget={"tool_calls": 1})
    asked = question(client, task)
    assert "tool_result" not in names(client.replay(task, 0))
    respond(client, task, asked, True)
    assert client.wait_terminal(task)["event"] == "task.completed"
    assert names(client.replay(task, 0)).count("tool_result") == 1


def test_silent_program_is_asked_about_its_seconds(client):
    task = client.chat({"token": "up"}, {"hang": 1}, agent="script", budget={"seconds": 1})
    asked = question(client, task)
    assert asked["data"]["arguments"]["seconds"]["limit"] == 1
    respond(client, task, asked, True)
    again = question(client, task, asked["seq"])
    assert again["data"]["arguments"]["seconds"]["used"] == 1
    client.call("cancel", **ids(task))
    assert client.wait_terminal(task)["data"]["status"] == "cancelled"


def test_cancel_is_heard_while_it_is_not_read(client):
    task = client.chat({"on_term": [{"token": "bye"}, {"exit": 0}]}, call("a"), call("b"), call("c"), {"hang": 1},
                       agent="two")
    question(client, task)
    client.call("cancel", **ids(task))
    end = client.wait_terminal(task)["data"]
    assert (end["status"], end["output"]) == ("cancelled", "bye")


def test_tokens_are_those_of_its_results(client):
    task = client.chat(result(input_tokens=40, output_tokens=10), {"token": "a"},
                       result(input_tokens=90, output_tokens=20), {"token": "b"},
                       result(total_tokens=150), {"token": "c"}, agent="script", budget={"tokens": 100})
    asked = question(client, task)
    assert asked["data"]["arguments"] == {"tokens": {"used": 110, "limit": 100}}
    respond(client, task, asked, True)
    assert client.wait_terminal(task)["data"]["output"] == "abc"  # 40 since the answer


def test_reply_of_a_server(server, client):
    def said(name):
        return data({"event": "tool_call", "data": {"call_id": name, "name": "look", "arguments": {}}})

    gate = threading.Event()
    server.script = [[head(), said("a") + said("b") + said("c"), gate,
                      data({"event": "final_answer", "data": {"output": "done"}}), DONE, CLOSE]]
    task = client.chat("go", agent="http")
    asked = question(client, task)
    gate.set()
    respond(client, task, asked, True)
    end = client.wait_terminal(task)
    assert (end["event"], end["data"]["output"]) == ("task.completed", "done")


def test_run_of_a_worker_goes_on_and_its_tools_wait(gateway, client):
    """A connection has many runs, of which one must not stop the others."""
    with Worker(gateway) as worker:
        task = client.chat("x", agent="shout", conversation=new_id(), budget={"tool_calls": 1})
        run = worker.next("run")["run"]
        worker.line(run, 1, event="tool_call", data={"call_id": "a", "name": "look", "arguments": {}})
        worker.line(run, 2, call="tool", call_id="b", name="calculator", arguments={"expression": "6*7"})
        asked = question(client, task)
        worker.says(run, 3, "on")
        assert client.event(task, "token")["data"]["text"] == "on"
        respond(client, task, asked, True)
        assert worker.next("tool_result")["output"] == "42"
        worker.line(run, 4, end="done")
        assert client.wait_terminal(task)["data"]["output"] == "on"


def test_question_stands_over_a_kill():
    agent = script_agent("two", default=True, budget={"tool_calls": 2})
    with Gateway({"agents": [agent]}, listen=f"127.0.0.1:{free_port()}", lasting=True) as gateway:
        with Client(gateway) as client:
            token = client.token
            task = client.chat(*[call(name) for name in "abcdef"], {"final_answer": "done"}, agent="two")
            first = question(client, task)
            respond(client, task, first, True)
            second = question(client, task, first["seq"])
            gateway.kill()
        gateway.start()
        with Client(gateway, token=token) as client:
            client.resume(task, second["seq"])
            assert client.task(task)["waiting_for"] == second["data"]["input_id"]
            respond(client, task, second, True)
            assert client.wait_terminal(task)["data"]["output"] == "done"
            assert calls(client, task) == list("abcdef")
