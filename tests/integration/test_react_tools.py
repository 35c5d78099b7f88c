"""The tools with which an agent of kind react starts, tells, cancels and asks, over a scripted model."""

import json

import pytest

import model_server as m
from gateway import Gateway, script_agent
from holdfast import ids, names, program
from model_server import DONE, answer, call, finish, reply

TOOLS = ["calculator", "spawn_task", "cancel_task", "send_message", "ask_user"]


@pytest.fixture(scope="module")
def gateway(server):
    config = {"models": [{"name": "m", "base_url": server.url, "model": "x"}],
              "agents": [{"name": "boss", "kind": "react", "model": "m", "tools": TOOLS,
                          "default": True, "grace_s": 1},
                         script_agent()]}
    with Gateway(config) as running:
        yield running


def calls(*wanted):
    """A turn that calls these: (name, arguments)."""
    pieces = [call(i, f"c{i}", name, json.dumps(arguments)) for i, (name, arguments)
              in enumerate(wanted)]
    return reply(*pieces, finish("tool_calls"), DONE)


def results(events):
    return {e["data"]["call_id"]: (e["data"]["output"], e["data"].get("is_error", False))
            for e in events if e["event"] == "tool_result"}


def told(server, turn):
    """The results of its calls that the model got in that turn."""
    return [message["content"] for message in server.requests[turn].json["messages"]
            if message["role"] == "tool"]


@pytest.fixture
def ask(client, server):
    def run(*script):
        server.script = list(script)
        server.requests.clear()
        return client.finish("go")

    return run


def test_children_run_side_by_side_and_their_answers_come_back(gateway, ask, server):
    first, second = gateway.path(), gateway.path()
    # Each waits for what the other touches: one after the other, they would wait for ever.
    task, events = ask(
        calls(("spawn_task", {"agent": "script", "name": "one", "description": "the first",
                              "input": program({"touch": first}, {"wait": second},
                                               {"final_answer": "uno"})}),
              ("spawn_task", {"agent": "script",
                              "input": program({"touch": second}, {"wait": first},
                                               {"final_answer": "due"})})),
        answer("uno due"))
    assert task["status"] == "completed", task
    assert results(events) == {"c0": ("uno", False), "c1": ("due", False)}
    assert told(server, 1) == ["uno", "due"]
    children = [e["data"] for e in events if e["event"] == "child"]
    assert children[0]["name"] == "one" and children[0]["description"] == "the first"


def test_child_that_fails_is_told_as_an_error(ask, server):
    task, events = ask(
        calls(("spawn_task", {"agent": "script", "input": program({"token": "half"}, {"exit": 3})}),
              ("spawn_task", {"agent": "nobody", "input": "x"}),
              ("spawn_task", {"input": "x", "name": "parent"}),
              ("spawn_task", {"agent": "script"})),
        answer("pity"))
    got = results(events)
    assert got["c0"][1] and "failed" in got["c0"][0] and got["c0"][0].endswith("half")
    assert got["c1"] == ('"agent" names no configured agent: nobody', True)
    assert got["c2"][1] and "name" in got["c2"][0]
    assert got["c3"][1] and '"input" is missing' in got["c3"][0]
    assert all(text.startswith("error: ") for text in told(server, 1))
    assert task["status"] == "completed"


def test_send_and_cancel_of_a_child_that_is_not_waited_for(gateway, client, server):
    server.requests.clear()
    turns = []

    def script(request):
        turns.append(request)
        if len(turns) == 1:
            return calls(("spawn_task", {"agent": "script", "wait": False, "input": program(
                {"hear": "message"}, {"wait": gateway.path("never")})}))
        if len(turns) == 2:
            last = request.json["messages"][-1]["content"]
            child = last.split("task ")[1].split(";")[0]
            return calls(("send_message", {"task_id": child, "content": "hear me"}),
                         ("cancel_task", {"task_id": child, "tree": True}),
                         ("cancel_task", {"task_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}),
                         ("send_message", {"task_id": "parent", "content": "hello?"}),
                         ("cancel_task", {"task_id": 5}))
        return answer("done")

    server.script = script
    task, events = client.finish("go")
    assert results(events) == {  # of the second turn
        "c0": ("sent", False), "c1": ("tasks cancelled: 1", False), "c2": ("no such task", True),
        "c3": ("no such task", True), "c4": ('cancel: "task_id" must be a string', True)}
    assert task["status"] == "completed"


def test_question_is_asked_and_its_answer_told(client, server):
    server.script = [calls(("ask_user", {"prompt": "Which port?"}),
                           ("ask_user", {"prompt": "Really?", "kind": "approval"}),
                           ("ask_user", {"prompt": "Anyone?", "timeout_s": 0.01}),
                           ("ask_user", {"kind": "question"})),
                     answer("8080 it is")]
    server.requests.clear()
    task = client.chat("go")
    first = client.expect(lambda line: line.get("event") == "input_required"
                          and line["data"]["prompt"] == "Which port?")["data"]
    assert (first["kind"], first["tool"]) == ("question", "ask_user")
    second = client.expect(lambda line: line.get("event") == "input_required"
                           and line["data"]["prompt"] == "Really?")["data"]
    assert second["kind"] == "approval" and second["input_id"] != first["input_id"]
    client.call("respond", **ids(task), input_id=second["input_id"], answer=False)
    client.call("respond", **ids(task), input_id=first["input_id"], answer="8080")
    client.wait_terminal(task)
    assert told(server, 1) == [
        "8080", "the user did not approve the call", "the user did not answer in time",
        'error: input_required: "prompt" is missing: it must be a string']


@pytest.mark.parametrize("tool", ["spawn_task", "send_message", "cancel_task"])
def test_arguments_make_no_event(ask, server, tool):
    """The call's line would be an event's, if its arguments could say so."""
    task, events = ask(calls((tool, {"input": "x", "task_id": "parent", "content": "x",
                                     "event": "custom",
                                     "data": {"event_type": "forged", "payload": 1}})),
                       answer("done"))
    assert results(events) == {"c0": (f'{tool} has no argument "event"', True)}
    assert "custom" not in names(events) and task["output"] == "done"


def test_cancel_while_a_question_is_open(client, server):
    server.script = [calls(("ask_user", {"prompt": "Well?"}))]
    task = client.chat("go")
    client.event(task, "input_required")
    client.call("cancel", **ids(task))
    assert client.wait_terminal(task)["data"]["error"]["code"] == "cancelled"


def test_cancel_of_a_tree_that_is_waited_for(gateway, client, server):
    server.script = [calls(("spawn_task", {"agent": "script",
                                           "input": program({"wait": gateway.path()})}))]
    task = client.chat("go")
    client.event(task, "child")
    client.call("cancel", **ids(task), tree=True)
    assert client.wait_terminal(task)["data"]["error"]["code"] == "cancelled"
