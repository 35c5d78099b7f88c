"""Before a command runs the user is asked, unless the configuration has said yes."""

import itertools
import json
import pathlib
import shutil

import pytest

import commands
from commands import background, message, outputs, process, run, terminal
from gateway import SCRIPT, Gateway, merged
from holdfast import Client, ids, new_id

NO = "the user did not approve the call"


model = commands.served


@pytest.fixture(scope="module")
def gateway(model):
    script = {"name": "script", "kind": "exec", "command": SCRIPT, "grace_s": 1, "tools": ["terminal", "process"]}
    config = commands.config(model, {"sandbox": "none", "approved": ["cat", "sleep", "ed", "tee"],
                                     "approved_input": ["cat", "sed"]})
    with Gateway(merged(config, {"agents": config["agents"] + [script]})) as running:
        yield running


def question(client, task, n=0):
    """Its question of that number, from 0 on: it may have come before the reply to the answer that let it be asked."""
    asked = (line["data"] for line in client.scan() if line["type"] == "event"
             and line["event"] == "input_required" and line["task_id"] == task["task_id"])
    return next(itertools.islice(asked, n, None))


def answered(client, *turns, answers, **fields):
    """A task of these turns whose questions are answered so: (what its calls gave back, the questions)."""
    task, asked = client.chat(message(*turns), **fields), []
    for value in answers:
        asked.append(question(client, task, len(asked)))
        client.call("respond", **ids(task), input_id=asked[-1]["input_id"], answer=value)
    client.wait_terminal(task)
    events = client.events_since(task)
    assert sum(e["event"] == "input_required" for e in events) == len(answers)
    return outputs(events), asked


def test_command_runs_when_the_user_approves_and_not_before(client):
    path = client.gateway.path()
    task = client.chat(message(terminal(f"touch {path}; echo ran", background=False)))
    asked = question(client, task)
    assert (asked["kind"], asked["tool"]) == ("approval", "terminal")
    assert asked["arguments"]["command"] in asked["prompt"] and "outside of any sandbox" in asked["prompt"]
    assert client.task(task)["waiting_for"] == asked["input_id"]
    assert not pathlib.Path(path).exists()
    client.call("respond", **ids(task), input_id=asked["input_id"], answer=True)
    client.wait_terminal(task)
    assert outputs(client.events_since(task))[0]["output"] == "ran\n" and pathlib.Path(path).exists()


def test_no_is_no(client):
    path = client.gateway.path()
    seen, _ = answered(client, terminal(f"touch {path}"), answers=[False])
    assert seen == [NO] and not pathlib.Path(path).exists()


def test_end_of_the_task_is_no(client):
    path = client.gateway.path()
    task = client.chat(message(terminal(f"touch {path}")))
    question(client, task)
    client.call("cancel", **ids(task))
    assert client.wait_terminal(task)["data"]["status"] == "cancelled"
    assert not pathlib.Path(path).exists()


def test_question_outlives_its_reader_and_another_answers_it(client, clients):
    task = client.chat(message(terminal("echo late")))
    asked = question(client, task)
    client.drop()
    other = clients(token=client.token)
    other.call("respond", **ids(task), input_id=asked["input_id"], answer=True)
    events = other.replay(task, 0)
    done = events if events[-1]["event"] == "task.completed" else list(other.events(task))
    assert outputs(done)[0]["output"] == "late\n"


def test_plain_calls_of_named_programs_need_no_approval(client):
    path = pathlib.Path(client.gateway.path())
    path.write_text("text\n", encoding="utf-8")
    assert run(client, terminal(f"cat {path}"))[0]["output"] == "text\n"


@pytest.mark.parametrize("command", [
    "cat /dev/null; touch {}", "cat /dev/null && touch {}", "cat $(touch {})", "cat `touch {}`", "cat < /dev/null > {}",
    "cat /dev/null | tee {}", "cat /dev/null\ntouch {}", "PATH=. cat {}", "./cat {}", "cats {}", "/bin/cat {}",
    "(cat {})", "cat /dev/null & touch {}", "cat '/dev/null' {}", "cat *", "'touch' {}", "\ncat {}", "cat\ttouch {}",
])
def test_whatever_a_shell_may_take_for_its_own_is_asked_for(client, command):
    path = client.gateway.path()
    seen, asked = answered(client, terminal(command.format(path)), answers=[False])
    assert seen == [NO] and command.format(path) in asked[0]["prompt"] and not pathlib.Path(path).exists()


def test_arguments_that_are_not_right_ask_nobody(client):
    seen, _ = answered(client, terminal("", timeout=0), ("process", {"action": "write", "session_id": "x"}), answers=[])
    assert '"command"' in seen[0] and '"data"' in seen[1]


def test_writing_to_a_process_is_asked_for(client):
    conversation = new_id()
    seen, asked = answered(client, background("read x; echo got $x"), process("submit", data="no"),
                           process("submit", data="yes"), process("wait"), answers=[True, False, True],
                           conversation=conversation)
    assert seen[1] == NO and seen[2]["status"] == "ok" and seen[3]["output"] == "got yes\n"
    assert asked[1]["tool"] == "process" and "no" in asked[1]["prompt"] and "echo got" in asked[1]["prompt"]
    seen, _ = answered(client, background("cat"), process("submit", data="free"), process("close"), process("wait"),
                       answers=[])
    assert seen[3]["output"] == "free\n"  # cat is approved for its input too


@pytest.mark.skipif(not shutil.which("ed"), reason="there is no ed here")
def test_approval_of_a_program_is_none_of_what_it_is_told(client):
    """ed runs what follows "!": its command is approved, its input is another command."""
    path = client.gateway.path()
    seen, asked = answered(client, background("ed"), process("submit", data=f"!touch {path}"), process("write", data=f"!touch {path}\n"),
                           process("submit", data="q"), process("wait"), answers=[False, False, True])
    assert seen[1:3] == [NO, NO] and seen[4]["exit_code"] == 0 and not pathlib.Path(path).exists()
    assert [a["tool"] for a in asked] == ["process"] * 3 and f"!touch {path}" in asked[0]["prompt"]


@pytest.mark.parametrize("command", ["cat | sh", "cat; sh", "sed -n p", "tee /dev/null"])
def test_approval_of_input_is_for_plain_calls_of_its_own_programs(client, command):
    """sed is approved for input alone: its command is asked for, what it reads is not; tee the other way round."""
    begins, submits = command != "tee /dev/null", command != "sed -n p"
    seen, asked = answered(client, background(command), process("submit", data="echo ran"), process("kill"),
                           answers=[True] * begins + [False] * submits)
    assert [a["tool"] for a in asked] == ["terminal"] * begins + ["process"] * submits
    assert (seen[1] == NO) is submits


def test_looking_and_killing_need_no_approval(client):
    seen, _ = answered(client, background("sleep 1000"), process("poll"), process("log"), process("kill"), answers=[])
    assert [one["status"] for one in seen[1:]] == ["running", "running", "killed"]


def exec_call(command, **more):
    return {"call": "tool", "name": "terminal", "arguments": {"command": command, **more}, "say": True}


def test_exec_agent_is_asked_for_too_and_goes_on_meanwhile(client):
    path = client.gateway.path()
    task = client.chat(exec_call(f"touch {path}; echo ran"), {"token": "!"}, agent="script")
    asked = question(client, task)
    assert (asked["kind"], asked["tool"]) == ("approval", "terminal") and path in asked["prompt"]
    assert client.task(task)["waiting_for"] == asked["input_id"] and not pathlib.Path(path).exists()
    client.refused("bad_request", "respond", **ids(task), input_id=asked["input_id"], answer="yes")
    client.call("respond", **ids(task), input_id=asked["input_id"], answer=True)
    client.wait_terminal(task)
    (result,) = [e["data"] for e in client.events_since(task) if e["event"] == "tool_result"]
    assert '"output":"ran\\n"' in result["output"] and pathlib.Path(path).exists()
    # The answer is the gateway's: the agent is told the result of its call, and nothing else.
    said = [e["data"]["text"] for e in client.events_since(task) if e["event"] == "token"]
    assert json.loads(said[0])["type"] == "tool_result" and said[1] == "!"


def test_exec_agent_that_is_not_approved_is_told_so(client):
    task = client.chat(exec_call("touch nothing"), exec_call("echo two"), agent="script")
    first = question(client, task)
    client.call("respond", **ids(task), input_id=first["input_id"], answer=False)
    second = client.expect(lambda line: line.get("event") == "input_required"
                           and line["data"]["input_id"] != first["input_id"])["data"]
    client.call("respond", **ids(task), input_id=second["input_id"], answer=True)
    client.wait_terminal(task)
    results = [e["data"] for e in client.events_since(task) if e["event"] == "tool_result"]
    assert results[0]["output"] == NO and results[0]["is_error"] and "two" in results[1]["output"]


def test_cancel_while_an_exec_agent_s_call_is_asked_for(client):
    task = client.chat(exec_call("touch nothing"), agent="script")
    question(client, task)
    client.call("cancel", **ids(task))
    assert client.wait_terminal(task)["data"]["status"] == "cancelled"


def test_star_approves_of_everything(model):
    with Gateway(commands.config(model, {"sandbox": "none", "approved": ["*"]})) as own, Client(own) as client:
        assert run(client, terminal("echo a; echo b"))[0]["output"] == "a\nb\n"


def test_approval_that_comes_behind_a_cancel_starts_nothing(client):
    path = client.gateway.path()
    call = {"call": "tool", "call_id": "c", "name": "terminal", "arguments": {"command": f"touch {path}"}}
    task = client.chat({"ignore_term": 1}, {"line": call}, {"hang": 1}, agent="script")
    asked = question(client, task)
    client.send({"type": "cancel", "id": "stop", **ids(task)},
                {"type": "respond", "id": "yes", **ids(task), "input_id": asked["input_id"], "answer": True})
    assert client.reply("stop")["cancelled"] == 1
    assert client.wait_terminal(task)["data"]["status"] == "cancelled"
    result = [e["data"] for e in client.events_since(task) if e["event"] == "tool_result"]
    assert [r["output"] for r in result] == ["the task is being stopped"]
    assert not pathlib.Path(path).exists()
