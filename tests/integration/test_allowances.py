"""An approval may allow a program for the whole conversation (test_mcp.py: a tool of an MCP server)."""

import json
import pathlib

import pytest

import commands
from commands import background, message, outputs, process, terminal
from gateway import SCRIPT, Gateway, merged
from holdfast import Client, ids, new_id

NO = "the user did not approve the call"


def options_of(name):
    return [{"id": "once", "name": "Allow once", "kind": "allow_once"},
            {"id": "conversation", "name": f"Allow {name} in this conversation", "kind": "allow_always"},
            {"id": "reject", "name": "Reject", "kind": "reject_once"}]


model = commands.served


def config_of(server):
    script = {"name": "script", "kind": "exec", "command": SCRIPT, "grace_s": 1, "tools": ["terminal", "process"]}
    config = commands.config(server, {"sandbox": "none", "approved": ["cat", "sleep"]})
    return merged(config, {"agents": config["agents"] + [script]})


@pytest.fixture(scope="module")
def gateway(model):
    with Gateway(config_of(model)) as running:
        yield running


def asked_of(client, task, n, since):
    """The question of that number, from 0 on."""
    def there():
        found = [line["data"] for line in client.log[since:] if line["type"] == "event"
                 and line["event"] == "input_required" and line["task_id"] == task["task_id"]]
        return found[n] if len(found) > n else None
    if not there():
        client.expect(lambda _: there() is not None, since)
    return there()


def answered(client, text, *answers, **fields):
    """The task of that message, whose questions get these answers: (its events, the questions)."""
    since, asked = len(client.log), []
    task = client.chat(text, **fields)
    for value in answers:
        asked.append(asked_of(client, task, len(asked), since))
        client.call("respond", **ids(task), input_id=asked[-1]["input_id"], answer=value)
    client.wait_terminal(task)
    events = client.events_since(task)
    assert sum(e["event"] == "input_required" for e in events) == len(answers)
    return events, asked


def commanded(client, *turns, answers=(), **fields):
    """The results of the calls of these turns, and the questions."""
    events, asked = answered(client, message(*turns), *answers, **fields)
    return outputs(events), asked


def said(results_of_calls):
    return [one["output"] if isinstance(one, dict) else one for one in results_of_calls]


# -------------------------------------------------------------- commands


def test_program_is_asked_about_once_in_a_conversation(client):
    conversation = new_id()
    seen, [asked] = commanded(client, terminal("echo one"), terminal("echo two", background=False), [terminal(" echo a"), terminal("echo b")],
                              answers=["conversation"], conversation=conversation)
    assert said(seen) == ["one\n", "two\n", "a\n", "b\n"]
    assert (asked["kind"], asked["tool"], asked["options"]) == ("approval", "terminal", options_of("echo"))
    seen, _ = commanded(client, terminal("echo three"), conversation=conversation)  # another task
    assert said(seen) == ["three\n"]


def test_once_and_true_are_this_call_alone(client):
    conversation = new_id()
    seen, asked = commanded(client, terminal("echo 1"), terminal("echo 2"), terminal("echo 3"), terminal("echo 4"), terminal("echo 5"),
                            answers=["once", True, "reject", False, "once"], conversation=conversation)
    assert said(seen) == ["1\n", "2\n", NO, NO, "5\n"]
    assert all(one["options"] == options_of("echo") for one in asked)


def test_other_programs_conversations_and_owners_are_asked_about(client, clients):
    conversation = new_id()
    commanded(client, terminal("echo"), answers=["conversation"], conversation=conversation)
    _, [asked] = commanded(client, terminal("printf x"), answers=[False], conversation=conversation)
    assert asked["options"] == options_of("printf")
    commanded(client, terminal("echo"), answers=[False], conversation=new_id())
    other = clients()  # another guest
    commanded(other, terminal("echo"), answers=[False], conversation=conversation)
    commanded(client, terminal("echo"), conversation=conversation)


@pytest.mark.parametrize("command", [
    "echo a; touch {}", "echo a && touch {}", "echo $(touch {})", "echo `touch {}`", "echo a > {}", "echo a | tee {}",
    "echo a\ntouch {}", "PATH=. echo {}", "./echo {}", "/bin/echo {}", "(echo {})", "echo 'a' {}", "echo *", "'echo' {}", "echo\t{}",
])
def test_whatever_a_shell_may_take_for_its_own_is_asked_about_each_time(client, command):
    conversation, path = new_id(), client.gateway.path()
    seen, asked = commanded(client, terminal("echo"), terminal(command.format(path)), terminal(command.format(path)),
                            answers=["conversation", False, False], conversation=conversation)
    assert said(seen) == ["\n", NO, NO] and not pathlib.Path(path).exists()
    assert "options" not in asked[1] and "options" not in asked[2]


@pytest.mark.parametrize("command", [
    "sh x", "python3.11 x", "env echo", "xargs echo", "sudo echo", "eval echo", "exec echo", "command echo", "busybox echo", ". x", "PATH=.",
])
def test_program_that_runs_what_it_is_given_is_asked_about_each_time(client, command):
    conversation = new_id()
    task = client.chat(message(terminal(command)), conversation=conversation)
    asked = asked_of(client, task, 0, 0)
    assert asked["kind"] == "approval" and "options" not in asked
    client.refused("bad_request", "respond", **ids(task), input_id=asked["input_id"], answer="conversation")
    client.call("respond", **ids(task), input_id=asked["input_id"], answer=False)
    client.wait_terminal(task)


def test_input_to_a_program_is_allowed_by_itself(client):
    conversation = new_id()
    seen, asked = commanded(client, background("cat"), process("submit", data="one"), process("submit", data="two"), process("close"),
                            process("wait"), answers=["conversation"], conversation=conversation)
    assert (asked[0]["tool"], asked[0]["options"]) == ("process", options_of("input to cat"))
    assert seen[4]["output"] == "one\ntwo\n"
    seen, asked = commanded(client, background("tee"), process("submit", data="x"), process("kill"),
                            answers=["conversation", "reject"], conversation=conversation)
    assert [one["options"] for one in asked] == [options_of("tee"), options_of("input to tee")] and seen[1] == NO
    _, asked = commanded(client, background("cat | cat"), process("submit", data="x"), process("kill"),
                         answers=[True, False], conversation=conversation)
    assert not any("options" in one for one in asked)


def test_allowed_for_one_agent_is_allowed_for_the_others(client):
    conversation = new_id()
    call = {"call": "tool", "name": "terminal", "arguments": {"command": "echo x"}, "say": True}
    events, [asked] = answered(client, json.dumps([call, call]), "conversation", agent="script", conversation=conversation)
    assert asked["options"] == options_of("echo")
    found = [e["data"] for e in events if e["event"] == "tool_result"]
    assert len(found) == 2 and all(not one.get("is_error") for one in found)
    seen, _ = commanded(client, terminal("echo y"), conversation=conversation)
    assert said(seen) == ["y\n"]
    answered(client, json.dumps([call]), False, agent="script")


def test_deleted_conversation_takes_it_along(client):
    conversation = new_id()
    commanded(client, terminal("echo"), answers=["conversation"], conversation=conversation)
    client.call("delete", conversation_id=conversation)
    commanded(client, terminal("echo"), answers=[False], conversation=conversation)


def test_visitor_allows_one_call_alone(client):
    conversation = new_id()
    commanded(client, terminal("cat /dev/null"), conversation=conversation)
    made = client.call("share", conversation_id=conversation, rights=["read", "answer"], actor="bob")
    with Client(client.gateway, token=made["token"]) as bob:
        since = len(client.log)
        task = client.chat(message(terminal("echo 1"), terminal("echo 2")), conversation=conversation)
        first = asked_of(client, task, 0, since)
        for _ in range(2):
            bob.call("respond", **ids(task), input_id=first["input_id"], answer="conversation")
        second = asked_of(client, task, 1, since)
        client.call("respond", **ids(task), input_id=second["input_id"], answer=False)
        client.wait_terminal(task)
        bob.call("respond", **ids(task), input_id=first["input_id"], answer="conversation")
        bob.refused("conflict", "respond", **ids(task), input_id=first["input_id"], answer="reject")
    received = [e["data"] for e in client.events_since(task) if e["event"] == "input_received"]
    assert received[0] == {"input_id": first["input_id"], "answer": "once", "actor": "bob"}


# -------------------------------------------------------------- restarts


@pytest.mark.parametrize("agent_name", ["operator", "script"])
def test_restart_asks_again_and_an_open_question_takes_its_options(model, agent_name):
    def text(*words):
        if agent_name == "operator":
            return message(*(terminal(f"echo {word}") for word in words))
        return json.dumps([{"call": "tool", "name": "terminal", "arguments": {"command": f"echo {word}"}, "say": True}
                           for word in words])

    with Gateway(config_of(model), lasting=True) as own:
        conversation = new_id()
        with Client(own) as client:
            token = client.token
            answered(client, text("one"), "conversation", conversation=conversation, agent=agent_name)
        own.kill()
        own.start()
        with Client(own, token=token) as client:
            task = client.chat(text("two", "three"), conversation=conversation, agent=agent_name)
            asked = asked_of(client, task, 0, 0)
            assert asked["options"] == options_of("echo")
        own.kill()
        own.start()
        with Client(own, token=token) as client:
            client.call("respond", **ids(task), input_id=asked["input_id"], answer="conversation")
            events = client.replay(task, 0)
            done = events if events[-1]["event"] == "task.completed" else list(client.events(task))
            assert done[-1]["event"] == "task.completed", done[-1]
            found = [e["data"] for e in client.events_since(task) if e["event"] == "tool_result"]
            assert ["two" in found[0]["output"], "three" in found[1]["output"]] == [True, True]
            answered(client, text("four"), conversation=conversation, agent=agent_name)
