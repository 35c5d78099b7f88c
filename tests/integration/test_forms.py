"""Programs that were not written for this gateway, as exec agents with a `form` (PROTOCOL.md 8, docs/agents.md)."""

import json

import pytest

from gateway import SUPPORT, Gateway, processes_with, wait_until
from holdfast import Client, ids, names, new_id, text_of

REPLAY = str(SUPPORT / "agents" / "replay.py")
CLAUDE_SESSION = "b1997a3f-6bf6-48fd-b284-63e94526afe3"  # of claude_thinks
CODEX_SESSION = "01a2271a-ca8a-79a0-b6f1-ec102f9c2dc6"  # of codex_thinks


def replay(name, form, folder, *recorded, **options):
    (folder / name).mkdir(exist_ok=True)
    return {"name": name, "kind": "exec", "form": form, "grace_s": 1,
            "command": ["/usr/bin/python3", REPLAY, str(folder / name), *recorded, "--"], **options}


def sh(name, script, **options):
    return {"name": name, "kind": "exec", "form": "text", "grace_s": 1,
            "command": ["/bin/sh", "-c", script, "sh"], **options}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("forms")


@pytest.fixture(scope="module")
def gateway(folder):
    agents = [
        replay("claude", "claude", folder, "claude_thinks", default=True),
        replay("calls", "claude", folder, "claude_calls"),
        replay("fails", "claude", folder, "claude_fails"),
        replay("codex", "codex", folder, "codex_thinks"),
        replay("codex-fails", "codex", folder, "codex_fails"),
        replay("restarted", "claude", folder, "claude_thinks"),
        replay("forgetful", "codex", folder, "codex_thinks"),
        replay("silent", "codex", folder, "claude_fails"),  # nothing that codex says
        replay("deleted", "codex", folder, "codex_thinks"),
        {"name": "cat", "kind": "exec", "form": "text", "command": ["/bin/cat"]},
        sh("argument", 'printf "%s|" "$@"; cat', input="argument"),
        sh("fails-late", "printf so\\ far; echo why >&2; exit 3"),
        sh("stubborn", "trap '' TERM; echo on; while :; do sleep 1; done"),
    ]
    with Gateway({"agents": agents}) as running:
        yield running


def started(folder, name):
    text = (folder / name / "started").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_claude_turn_is_events_and_an_answer(client, folder):
    task, events = client.finish("think", agent="claude")
    assert (task["status"], task["output"]) == ("completed", "It is 42."), task
    assert text_of(events, "thinking") == "Let me think of six times seven."
    assert text_of(events) == "It is 42."
    assert task["result"]["num_turns"] == 1 and "usage" in task["result"]
    given = started(folder, "claude")[-1]
    assert given["input"] == "think"
    assert given["arguments"] == ["-p", "--output-format", "stream-json", "--include-partial-messages",
                                  "--verbose"]


def test_claude_calls_are_told(client):
    task, events = client.finish("list", agent="calls")
    [call] = [e["data"] for e in events if e["event"] == "tool_call"]
    [result] = [e["data"] for e in events if e["event"] == "tool_result"]
    assert call["arguments"] == {"command": "echo hello", "description": "say hello"}
    assert (result["name"], result["output"], result["is_error"]) == ("Bash", "hello", False)
    assert task["output"] == "It says hello."


@pytest.mark.parametrize("agent,why", [("fails", "API Error: 400 bad thing"), ("codex-fails", "bad thing")])
def test_failure_is_what_the_program_says_of_it(client, agent, why):
    task, events = client.finish("fail", agent=agent)
    assert task["status"] == "failed" and task["error"]["code"] == "agent_error"
    assert why in task["error"]["message"]
    assert text_of(events) == ""


def test_program_that_says_no_result_has_failed(client):
    task, _ = client.finish("x", agent="silent")
    assert task["error"]["message"].startswith("agent_error: ")
    assert "exit status 1: failed" in task["error"]["message"]


def test_next_turn_goes_on_with_the_session(client, folder):
    before = len(started(folder, "claude"))
    task, _ = client.finish("think", agent="claude")
    client.finish("and again", agent="claude", conversation=task["conversation_id"])
    first, second = started(folder, "claude")[before:]
    assert "--resume" not in first["arguments"]
    assert second["arguments"][-2:] == ["--resume", CLAUDE_SESSION]
    assert second["input"] == "and again"  # the program knows what was before
    assert first["cwd"] == second["cwd"]
    client.finish("think", agent="claude")  # another conversation
    third = started(folder, "claude")[-1]
    assert "--resume" not in third["arguments"] and third["cwd"] != first["cwd"]


def test_codex_is_told_to_resume(client, folder):
    task, events = client.finish("think", agent="codex")
    assert task["output"] == "It is 42." and text_of(events, "thinking")
    client.finish("again", agent="codex", conversation=task["conversation_id"])
    first, second = started(folder, "codex")[-2:]
    assert first["arguments"] == ["exec", "--json", "--skip-git-repo-check", "-"]
    assert second["arguments"] == ["exec", "--json", "--skip-git-repo-check", "resume", CODEX_SESSION, "-"]


def test_session_is_of_one_owner_alone(clients, folder):
    """Two owners may choose the same id for a conversation."""
    before, conversation = len(started(folder, "codex")), new_id()
    for client in clients(), clients():
        client.finish("think", agent="codex", conversation=conversation)
    assert all("resume" not in given["arguments"] for given in started(folder, "codex")[before:])


def test_session_survives_a_kill_of_the_gateway(folder):
    agents = [replay("killed", "claude", folder, "claude_thinks", default=True)]
    with Gateway({"agents": agents}) as own:
        with Client(own) as client:
            task, _ = client.finish("think")
            token = client.token
        own.kill()
        own.start()
        with Client(own, token=token) as client:
            client.finish("again", conversation=task["conversation_id"])
    assert started(folder, "killed")[-1]["arguments"][-2:] == ["--resume", CLAUDE_SESSION]


def test_session_that_the_program_has_forgotten_begins_anew(client, folder):
    task, _ = client.finish("think", agent="forgetful")
    (folder / "forgetful" / "gone").write_text(CODEX_SESSION, encoding="utf-8")
    task, _ = client.finish("go on", agent="forgetful", conversation=task["conversation_id"])
    (folder / "forgetful" / "gone").unlink()
    assert task["status"] == "completed"
    _, tried, anew = started(folder, "forgetful")
    assert "resume" in tried["arguments"] and "resume" not in anew["arguments"]
    assert tried["input"] == "go on"
    assert anew["input"] == ("What was said before in this conversation:\n\n[user] think\n\n"
                             "[assistant] It is 42.\n\nNow:\n\ngo on")


def test_session_goes_with_its_conversation(client, folder):
    task, _ = client.finish("think", agent="deleted")
    assert client.call("delete", conversation_id=task["conversation_id"])["type"] == "ok"
    client.finish("again", agent="deleted", conversation=task["conversation_id"])
    assert "resume" not in started(folder, "deleted")[-1]["arguments"]


def test_text_is_the_answer_as_it_comes(client, folder):
    task, events = client.finish("Ünï\ncode", agent="cat")
    assert (task["status"], task["output"]) == ("completed", "Ünï\ncode")
    assert names(events)[-2:] == ["final_answer", "task.completed"]
    gate, script = folder / "gate", folder / "gated.sh"
    script.write_text(f"printf one; while [ ! -e {gate} ]; do sleep 0.01; done; printf two", encoding="utf-8")
    agent = sh("gated", f". {script}", default=True)
    with Gateway({"agents": [agent]}) as own, Client(own) as client:
        task = client.chat("go")
        assert client.event(task, "token")["data"]["text"] == "one"  # before it has ended
        gate.touch()
        client.wait_terminal(task)
        assert client.task(task)["output"] == "onetwo"


def test_text_input_may_be_the_last_argument(client):
    task, _ = client.finish("$(id) 'x'; y", agent="argument")
    assert task["output"] == "$(id) 'x'; y|"  # one argument, and no shell's; stdin is at its end
    task, _ = client.finish("a\0b", agent="argument")
    assert "NUL byte" in task["error"]["message"]


def test_text_failure_has_the_end_of_stderr(client):
    task, _ = client.finish("x", agent="fails-late")
    assert task["error"]["message"] == "agent_error: exit status 3: why"
    assert task["output"] == "so far"


def test_form_has_no_inbox_and_cancel_is_a_signal(client, gateway):
    task = client.chat("x", agent="stubborn")
    client.event(task, "token")
    client.refused("no_inbox", "send", **ids(task), content="hello")
    client.call("cancel", **ids(task))
    assert client.wait_terminal(task)["data"]["status"] == "cancelled"
    wait_until(lambda: not any("trap" in line for line in processes_with(gateway.mark).values()), "its end")
