"""Agents of kind acp: an agent on the protocol's own library (@agentclientprotocol/sdk), and the gateway as its client."""

import base64
import contextlib
import json
import os
import shutil
import urllib.parse

import pytest

from files import Owner
from gateway import MARK, SUPPORT, Gateway, is_alive, processes_with, wait_until
from holdfast import Client, ids, names, new_id, text_of
from short import long, rest

NODE = os.environ.get("HOLDFAST_NODE") or shutil.which("node")
CONVERSATION = "What was said before in this conversation:\n"


def acp(name, folder, *can, **options):
    (folder / name).mkdir(exist_ok=True)
    return {"name": name, "kind": "acp", "grace_s": 2,
            "command": [NODE, str(SUPPORT / "agents" / "acp.mjs"), str(folder / name), *can], **options}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("acp")


@pytest.fixture(scope="module")
def gateway(folder):
    agents = [
        acp("acp", folder, default=True),
        acp("load", folder, "load", pool_idle_s=0),
        acp("resume", folder, "load", "resume", pool_idle_s=0),
        acp("neither", folder, pool_idle_s=0),
        acp("gone", folder, "resume", pool_idle_s=0),
        acp("auth", folder, "auth", auth_method="key"),
        acp("unnamed", folder, "auth"),
        acp("old", folder, "old"),
        acp("two", folder, pool=2),
        acp("one-second", folder, pool_idle_s=1),
        acp("files", folder, cwd=str(folder / "files")),
        acp("mcp", folder, "mcp-http", tools=["mcp:tree/*", "mcp:web/*"]),
        acp("mcp-stdio", folder, tools=["mcp:tree/*", "mcp:web/*"]),
        acp("shell", folder, cwd=str(folder / "shell"), env={"FROM_AGENT": "agent", "NAME": "agent"}),
        acp("sees", folder, "image", cwd=str(folder / "sees")),
        acp("alone", folder, client={"files": False, "terminals": False}),
        {"name": "missing", "kind": "acp", "command": ["/nonexistent/agent"]},
        {"name": "no-agent", "kind": "acp", "command": ["/bin/sh", "-c", "echo oops >&2; exit 7"]},
        {"name": "silent", "kind": "acp", "command": ["/bin/true"]},
    ]
    servers = [{"name": "tree", "command": ["sh", "-c", "cat"], "env": {"KEY": "v=1"}},
               {"name": "web", "url": "http://127.0.0.1:1/mcp", "headers": {"X-Key": "a: b"}}]
    with Gateway({"agents": agents, "mcp": servers}) as running:
        yield running


def lines(folder, agent, name):
    path = folder / agent / name
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def asked(folder, agent, what):
    return [entry[what] for entry in lines(folder, agent, "asked") if what in entry]


def finish(client, *steps, **fields):
    return client.finish(json.dumps(list(steps)), **fields)


def data(events, name):
    return [event["data"] for event in events if event["event"] == name]


# -------------------------------------------------------------- a turn


def test_turn_is_events_and_an_answer(client, folder):
    task, events = finish(client, {"think": "hm"}, {"say": "Hel"}, {"say": "lo 🌊"})
    assert (task["status"], task["output"]) == ("completed", "Hello 🌊"), task
    assert (text_of(events, "thinking"), text_of(events)) == ("hm", "Hello 🌊")
    assert task["result"] == {"stop_reason": "end_turn"}
    [opened] = asked(folder, "acp", "new")[-1:]
    assert os.path.isabs(opened["cwd"]) and opened["mcpServers"] == []
    [said] = asked(folder, "acp", "initialize")[-1:]
    assert said["protocolVersion"] == 1 and said["clientCapabilities"]["terminal"] is True
    assert said["clientCapabilities"]["fs"] == {"readTextFile": True, "writeTextFile": True}


def test_agent_gets_the_mcp_servers_that_it_lists(client, folder):
    for name in ("mcp", "mcp-stdio"):
        finish(client, {"say": "x"}, agent=name)
    program, url = asked(folder, "mcp", "new")[-1]["mcpServers"]
    assert (program["name"], program["args"]) == ("tree", ["-c", "cat"])
    assert os.path.isabs(program["command"]) and os.path.basename(program["command"]) == "sh"
    assert {"name": "KEY", "value": "v=1"} in program["env"]
    assert url == {"type": "http", "name": "web", "url": "http://127.0.0.1:1/mcp",
                   "headers": [{"name": "X-Key", "value": "a: b"}]}
    [only] = asked(folder, "mcp-stdio", "new")[-1]["mcpServers"]
    assert only["name"] == "tree"


def test_calls_are_told_and_the_answer_is_what_follows(client):
    call = {"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Read a.c", "kind": "read", "status": "pending",
            "rawInput": {"path": "a.c"}}
    working = {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "in_progress",
               "content": [{"type": "content", "content": {"type": "text", "text": "int main"}}]}
    done = {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed"}
    failed = {"sessionUpdate": "tool_call_update", "toolCallId": "c2", "title": "Run", "status": "failed",
              "rawOutput": {"exit": 1}}
    task, events = finish(client, {"say": "Let me look."}, {"update": call}, {"update": working}, {"update": done},
                          {"update": failed}, {"say": "It is C."})
    assert [c["name"] for c in data(events, "tool_call")] == ["Read a.c", "Run"]
    assert data(events, "tool_call")[0]["arguments"] == {"path": "a.c"}
    assert data(events, "tool_result") == [
        {"call_id": "c1", "name": "Read a.c", "output": "int main", "is_error": False},
        {"call_id": "c2", "name": "Run", "output": '{"exit":1}', "is_error": True}]
    assert [c["event_type"] for c in data(events, "custom")] == ["tool_call_update"]
    assert task["output"] == "It is C."
    assert text_of(events) == "Let me look.It is C."


def test_call_that_says_its_input_later_is_told_with_it(client):
    def call(id, **members):
        return {"update": {"sessionUpdate": "tool_call", "toolCallId": id, "title": "Terminal", "status": "pending",
                           "rawInput": {}, **members}}

    def update(id, **members):
        return {"update": {"sessionUpdate": "tool_call_update", "toolCallId": id, **members}}

    _, events = finish(client, call("c1"), update("c1", title="echo hi", rawInput={"command": "echo hi"}),
                       update("c1", status="completed", rawOutput="hi"), call("c2"), {"say": "so"},
                       update("c2", status="failed"), call("c3"))
    calls = [(c["call_id"], c["name"], c["arguments"]) for c in data(events, "tool_call")]
    assert calls == [("c1", "echo hi", {"command": "echo hi"}), ("c2", "Terminal", {}), ("c3", "Terminal", {})]
    results = [(r["call_id"], r["name"], r["output"], r["is_error"]) for r in data(events, "tool_result")]
    assert results == [("c1", "echo hi", "hi", False), ("c2", "Terminal", "", True), ("c3", "Terminal", "", False)]
    order = [e["event"] for e in events if e["event"] in ("tool_call", "token")]
    assert order == ["tool_call", "tool_call", "token", "tool_call"]


def test_plan_is_progress_and_the_rest_is_custom(client):
    entries = [{"content": text, "priority": "high", "status": status}
               for text, status in (("a", "completed"), ("b", "in_progress"), ("c", "pending"), ("d", "pending"))]
    mode = {"sessionUpdate": "current_mode_update", "currentModeId": "code"}
    task, events = finish(client, {"update": {"sessionUpdate": "plan", "entries": entries}}, {"update": mode})
    assert data(events, "progress") == [{"progress": 0.25, "note": "b"}]
    assert [c["event_type"] for c in data(events, "custom")] == ["plan", "current_mode_update"]
    assert data(events, "custom")[0]["payload"]["entries"] == entries
    assert task["status"] == "completed"


@pytest.mark.parametrize("reason", rest("max_tokens", "max_turn_requests", "refusal"))
def test_other_ends_complete_with_their_reason(client, reason):
    task, _ = finish(client, {"say": "so far"}, {"stop": reason})
    assert (task["status"], task["output"], task["result"]["stop_reason"]) == ("completed", "so far", reason)


def test_noise_and_strange_requests_do_no_harm(client, folder):
    task, _ = finish(client, {"raw": "not JSON"}, {"raw": "[]"}, {"raw": "7"},
                     {"raw": '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}'},
                     {"raw": '{"jsonrpc":"2.0","id":99,"result":{"stopReason":"end_turn"}}'},
                     {"request": ["_vendor/x", {}]}, {"request": ["terminal/attach", {"command": "id"}]},
                     {"say": "alive"})
    assert task["status"] == "completed" and task["output"].endswith("alive")
    assert [entry["answer"]["code"] for entry in lines(folder, "acp", "asked") if "method" in entry][-2:] == [-32601] * 2


@pytest.mark.parametrize("agent,why", [
    ("missing", "/nonexistent/agent"), ("no-agent", "exit status 7: oops"), ("silent", "it has ended before its turn"),
    ("old", "version 1"), ("unnamed", "auth_method: browser, key")])
def test_agent_that_does_not_start_says_why(client, agent, why):
    task, _ = client.finish("x", agent=agent)
    assert task["status"] == "failed" and why in task["error"]["message"], task


def test_failure_in_a_turn_keeps_what_was_said(client, gateway):
    task, _ = finish(client, {"say": "so far"}, {"stderr": "segfault\n"}, {"exit": 3})
    assert task["output"] == "so far" and "exit status 3: segfault" in task["error"]["message"]
    task, _ = finish(client, {"throw": "no such luck"})
    assert "session/prompt: Internal error (no such luck)" in task["error"]["message"]
    task, _ = finish(client, {"stop": "cancelled"})
    assert task["status"] == "failed" and "nobody asked for" in task["error"]["message"]


def test_authentication_by_the_named_method(client, folder):
    task, _ = client.finish("hello", agent="auth")
    assert task["output"] == "said: hello"
    assert asked(folder, "auth", "authenticate")[-1]["methodId"] == "key"


# -------------------------------------------------------------- permissions

OPTIONS = [{"optionId": "ever", "name": "Always", "kind": "allow_always"},
           {"optionId": "once", "name": "Yes", "kind": "allow_once"},
           {"optionId": "no", "name": "No", "kind": "reject_once"}]
CALL = {"toolCallId": "c1", "title": "rm -r x", "kind": "execute", "rawInput": {"command": "rm -r x"}}


def permission(options=OPTIONS):
    return {"request": ["session/request_permission", {"toolCall": CALL, "options": options}]}


@pytest.mark.parametrize("answer,chosen", [(True, "once"), (False, "no"), ("ever", "ever")])
def test_permission_is_an_approval_and_its_answer_goes_back(client, answer, chosen):
    task = client.chat(json.dumps([permission()]), agent="acp")
    asks = client.event(task, "input_required")["data"]
    assert (asks["kind"], asks["prompt"], asks["tool"]) == ("approval", "rm -r x", "rm -r x")
    assert asks["arguments"] == {"command": "rm -r x"}
    assert asks["options"] == [{"id": o["optionId"], "name": o["name"], "kind": o["kind"]} for o in OPTIONS]
    client.call("respond", **ids(task), input_id=asks["input_id"], answer=answer)
    client.wait_terminal(task)
    assert json.loads(client.task(task)["output"]) == {"outcome": {"outcome": "selected", "optionId": chosen}}


def test_yes_allows_nothing_for_ever(client):
    task = client.chat(json.dumps([permission(OPTIONS[:1])]), agent="acp")
    asks = client.event(task, "input_required")["data"]
    client.call("respond", **ids(task), input_id=asks["input_id"], answer=True)
    client.wait_terminal(task)
    assert json.loads(client.task(task)["output"]) == {"outcome": {"outcome": "cancelled"}}


def test_cancel_answers_what_was_asked(client, folder):
    task = client.chat(json.dumps([permission(), {"stop": "cancelled"}]), agent="acp")
    client.event(task, "input_required")
    client.call("cancel", **ids(task))
    assert client.wait_terminal(task)["data"]["status"] == "cancelled"
    assert asked(folder, "acp", "answer")[-1] == {"outcome": {"outcome": "cancelled"}}


# -------------------------------------------------------------- cancel


def test_polite_cancel_keeps_the_process(client, folder):
    task = client.chat(json.dumps([{"say": "on"}, {"hang": "politely"}]), agent="acp")
    client.event(task, "token")
    client.call("cancel", **ids(task))
    assert client.wait_terminal(task)["data"]["status"] == "cancelled"
    before = len(lines(folder, "acp", "started"))
    task, _ = client.finish("go on", agent="acp", conversation=task["conversation_id"])
    assert task["output"] == "said: go on"
    assert len(lines(folder, "acp", "started")) == before


@pytest.mark.parametrize("how", rest("stubbornly", "rudely"))
def test_cancel_that_is_not_heard_is_a_signal_then_a_kill(client, folder, gateway, how):
    task = client.chat(json.dumps([{"hang": how}]), agent="acp")
    wait_until(lambda: how in json.dumps(asked(folder, "acp", "prompt")[-1:]), "its prompt")
    pid = lines(folder, "acp", "started")[-1]["pid"]
    client.call("cancel", **ids(task))
    assert client.wait_terminal(task)["data"]["status"] == "cancelled"
    wait_until(lambda: not is_alive(pid), "its end")


# -------------------------------------------------------------- sessions and the pool


@long
def test_process_serves_the_next_turns_of_its_conversation_alone(client, folder):
    before = len(lines(folder, "acp", "started"))
    task, _ = client.finish("one", agent="acp")
    again, _ = client.finish("two", agent="acp", conversation=task["conversation_id"])
    assert again["output"] == "said: two"  # the session knows what was before
    assert len(lines(folder, "acp", "started")) == before + 1
    client.finish("three", agent="acp")
    assert len(lines(folder, "acp", "started")) == before + 2


@pytest.mark.parametrize("agent", rest("load", "resume"))
def test_new_process_goes_on_with_the_session(client, folder, agent):
    task, _ = client.finish("one", agent=agent)
    [session] = [path.name for path in (folder / agent / "sessions").iterdir()]
    again, events = client.finish("two", agent=agent, conversation=task["conversation_id"])
    assert again["output"] == text_of(events) == "said: two"  # what was replayed is in the journal already
    assert asked(folder, agent, agent)[-1]["sessionId"] == session
    first, second = lines(folder, agent, "started")
    assert first["pid"] != second["pid"] and first["cwd"] == second["cwd"]


def test_agent_without_sessions_is_told_the_conversation(client, folder):
    task, _ = client.finish("one", agent="neither")
    again, _ = client.finish("two", agent="neither", conversation=task["conversation_id"])
    assert asked(folder, "neither", "prompt")[-1] == (
        f"{CONVERSATION}\n[user] one\n\n[assistant] said: one\n\nNow:\n\ntwo")


def test_session_that_is_gone_begins_anew(client, folder):
    task, _ = client.finish("one", agent="gone")
    for session in (folder / "gone" / "sessions").iterdir():
        session.unlink()
    again, _ = client.finish("two", agent="gone", conversation=task["conversation_id"])
    assert again["status"] == "completed" and again["output"].startswith(f"said: {CONVERSATION}")


def test_session_survives_a_kill_of_the_gateway(folder):
    agent = acp("killed", folder, "resume", default=True)
    with Gateway({"agents": [agent]}) as own:
        with Client(own) as client:
            task, _ = client.finish("one")
            token = client.token
        pid = lines(folder, "killed", "started")[-1]["pid"]
        own.kill()
        wait_until(lambda: not is_alive(pid), "its end: it waited in the pool")
        own.start()
        with Client(own, token=token) as client:
            again, _ = client.finish("two", conversation=task["conversation_id"])
    assert again["output"] == "said: two" and asked(folder, "killed", "resume")


def alive(folder, agent):
    return [entry["pid"] for entry in lines(folder, agent, "started") if is_alive(entry["pid"])]


@long
def test_pool_is_bounded(client, folder):
    for _ in range(4):
        client.finish("x", agent="two")
    started = [entry["pid"] for entry in lines(folder, "two", "started")]
    wait_until(lambda: alive(folder, "two") == started[-2:], "the end of those that waited longest")


def test_process_that_waited_long_enough_ends(client, folder):
    client.finish("x", agent="one-second")
    wait_until(lambda: not alive(folder, "one-second"), "its end")


@long
def test_process_that_dies_in_the_pool_is_started_again(client, folder):
    task, _ = client.finish("one", agent="acp")
    pid = lines(folder, "acp", "started")[-1]["pid"]
    os.kill(pid, 9)
    wait_until(lambda: not is_alive(pid), "its end")
    again, _ = client.finish("two", agent="acp", conversation=task["conversation_id"])
    assert again["status"] == "completed", again  # also when the gateway has not noticed yet


def test_deleted_conversation_takes_its_process_along(client, folder):
    task, _ = client.finish("one", agent="acp")
    pid = lines(folder, "acp", "started")[-1]["pid"]
    assert client.call("delete", conversation_id=task["conversation_id"])["type"] == "ok"
    wait_until(lambda: not is_alive(pid), "its end")


# -------------------------------------------------------------- files


def test_files_are_those_of_the_folder(client, folder):
    here = folder / "files"
    (here / "a.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    (folder / "secret").write_text("secret", encoding="utf-8")
    for name, to in (("link", folder / "secret"), ("up", folder)):
        with contextlib.suppress(FileExistsError):
            (here / name).symlink_to(to)
    os.mkfifo(here / "fifo")

    def answers(*requests):
        before = len(lines(folder, "files", "asked"))
        finish(client, *({"request": request} for request in requests), agent="files")
        return [entry["answer"] for entry in lines(folder, "files", "asked")[before:] if "method" in entry]

    read, write = "fs/read_text_file", "fs/write_text_file"
    whole, part = answers([read, {"path": str(here / "a.txt")}],
                          [read, {"path": str(here / "a.txt"), "line": 2, "limit": 1}])
    assert (whole["content"], part["content"]) == ("one\ntwo\nthree\n", "two\n")
    [good] = answers([write, {"path": str(here / "b.txt"), "content": "new 🌊"}])
    assert "code" not in good and (here / "b.txt").read_text(encoding="utf-8") == "new 🌊"
    bad = [here / "none", here / "link", here / "up" / "secret", here / ".." / "secret", folder / "secret",
           here / "fifo", here, "a.txt", "/proc/self/environ"]
    refused = answers(*([read, {"path": str(path)}] for path in bad))
    assert [answer.get("code") for answer in refused] == [-32002] * len(bad)
    refused = answers(*([write, {"path": str(path), "content": "x"}] for path in bad[1:]))
    assert [answer.get("code") for answer in refused] == [-32002] * (len(bad) - 1)
    assert (folder / "secret").read_text(encoding="utf-8") == "secret"


# -------------------------------------------------------------- terminals


@pytest.fixture
def shell(client, folder):
    """shell(requests…): the answers; a request's "$" is the terminal that the last create made."""
    def run(*requests, agent="shell"):
        before = len(lines(folder, agent, "asked"))
        steps = [{"request": [f"terminal/{method}", params]} for method, params in requests]
        task, _ = finish(client, *steps, agent=agent)
        assert task["status"] == "completed", task
        return [entry["answer"] for entry in lines(folder, agent, "asked")[before:] if "method" in entry]

    return run


def sh(text, **params):
    return ("create", {"command": "/bin/sh", "args": ["-c", text], **params})


def sleep(mark):
    """Runs on, so that processes_with(mark) finds it."""
    return sh("echo begun; exec sleep 1000", env=[{"name": MARK, "value": mark}])


THIS = {"terminalId": "$"}
WAIT, OUTPUT, KILL, RELEASE = (("wait_for_exit", THIS), ("output", THIS), ("kill", THIS), ("release", THIS))


def test_terminal_runs_a_command_in_the_folder(shell, folder):
    made, end, seen, gone, none = shell(sh("pwd; echo é 🌊 >&2; exit 3"), WAIT, OUTPUT, RELEASE, OUTPUT)
    assert made["terminalId"] and end == {"exitCode": 3, "signal": None}
    assert seen == {"output": f"{folder / 'shell'}\né 🌊\n", "truncated": False, "exitStatus": end}
    assert gone == {} and none["code"] == -32002


def test_terminal_takes_a_line_and_variables(shell):
    env = [{"name": "NAME", "value": "request"}, {"name": "OTHER", "value": "a b"}]
    _, _, seen = shell(("create", {"command": "echo $NAME $FROM_AGENT $OTHER | tr a-z A-Z", "env": env}), WAIT, OUTPUT)
    assert seen["output"] == "REQUEST AGENT A B\n"


def test_terminal_that_runs_on_is_killed(shell, gateway):
    mark = new_id()
    made, seen, killed, end, again = shell(sleep(mark), ("output", THIS), KILL, WAIT, OUTPUT)
    assert "exitStatus" not in seen and killed == {}
    assert end == {"exitCode": None, "signal": "SIGTERM"} == again["exitStatus"]
    wait_until(lambda: not processes_with(mark), "its end")


@long
def test_terminal_ends_with_its_release_and_with_its_process(shell, folder, client):
    first, second = new_id(), new_id()
    shell(sleep(first), RELEASE, sleep(second))
    wait_until(lambda: not processes_with(first), "the end of what was released")
    task, _ = finish(client, {"exit": 3}, agent="shell")  # another conversation's process
    wait_until(lambda: processes_with(second), "its begin")
    for each in client.call("conversations")["conversations"]:
        client.call("delete", conversation_id=each["conversation_id"])
    wait_until(lambda: not processes_with(second), "the end of what its agent had begun")


def test_terminal_keeps_the_last_bytes(shell):
    _, _, seen = shell(sh("i=0; while [ $i -lt 2000 ]; do echo é$i; i=$((i+1)); done", outputByteLimit=10), WAIT, OUTPUT)
    assert seen["truncated"] and seen["output"] == "98\né1999\n"


def test_terminal_requests_that_cannot_be(shell):
    refused = [
        ("create", {}), ("create", {"command": ""}), ("create", {"command": "x\0y"}), ("create", {"command": ["x"]}),
        ("create", {"command": "x", "args": [1]}), ("create", {"command": "x", "env": [{"name": "A=B", "value": ""}]}),
        ("create", {"command": "true", "cwd": "/"}), ("create", {"command": "true", "cwd": "relative"}),
        ("output", {"terminalId": "term-99"}), ("kill", {"terminalId": 1}), ("wait_for_exit", {}),
        ("release", {"terminalId": "-1"})]
    codes = [answer["code"] for answer in shell(*refused)]
    assert codes == [-32602] * 6 + [-32603] * 2 + [-32002] * 4


def test_terminal_of_a_program_that_is_not_there(shell):
    _, end, seen = shell(("create", {"command": "/nonexistent/program"}), WAIT, OUTPUT)
    assert end == {"exitCode": 127, "signal": None} and "could not start" in seen["output"]


def test_client_that_serves_nothing_says_so(shell, client, folder):
    [answer] = shell(("create", {"command": "true"}), agent="alone")
    assert answer["code"] == -32601
    said = asked(folder, "alone", "initialize")[-1]["clientCapabilities"]
    assert said["fs"] == {"readTextFile": False, "writeTextFile": False} and said["terminal"] is False


# -------------------------------------------------------------- all together


def test_it_takes_no_messages(client):
    task = client.chat(json.dumps([{"say": "on"}, {"hang": "politely"}]), agent="acp")
    client.event(task, "token")
    client.refused("no_inbox", "send", **ids(task), content="hello")
    client.call("cancel", **ids(task))
    client.wait_terminal(task)


def test_events_are_read_no_faster_than_they_are_kept(client):
    flood = [{"say": f"{n} "} for n in range(2000)]
    task, events = finish(client, *flood)
    assert text_of(events) == "".join(f"{n} " for n in range(2000))
    assert names(events)[-1] == "task.completed"


def test_stop_of_the_gateway_leaves_no_process(folder):
    agent = acp("stopped", folder, default=True)
    with Gateway({"agents": [agent]}) as own, Client(own) as client:
        client.finish("x")
        mark = own.mark
        assert own.stop() == 0
        assert processes_with(mark) == {}


# -------------------------------------------------------------- files


PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40
TINY = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()


@pytest.fixture
def owner(gateway):
    return Owner(gateway)


def ask(owner, agent, c, parts):
    """The task and its events, at its end."""
    status, _, answer = owner.ask("POST", f"{c}/tasks", json.dumps({"message": parts, "agent": agent}),
                                  {"Content-Type": "application/json"})
    assert status == 201, answer
    task = json.loads(answer)["task"]["task_id"]
    text = owner.ask("GET", f"{c}/tasks/{task}/events")[2].decode()
    events = [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: ")]
    return json.loads(owner.ask("GET", f"{c}/tasks/{task}")[2])["task"], events


def file(given):
    return {"type": "file", "file_id": given["file_id"]}


def test_agent_gets_the_files_of_a_message(owner, gateway, folder):
    c = new_id()
    image = owner.give(c, PNG, "image/png", "attachment; filename*=UTF-8''a%20b%25%C3%BC.png")
    text = owner.give(c, "Zeile\n".encode(), "text/plain", 'attachment; filename="t.txt"')
    inside = {"type": "file", "media_type": "image/gif", "name": "dot.gif", "data": "R0lGODlh"}
    says = json.dumps([{"say": "ok"}])
    parts = [{"type": "text", "text": says}, file(image), file(text), inside]
    assert ask(owner, "sees", c, parts)[0]["status"] == "completed"
    picture, link, dot = asked(folder, "sees", "blocks")[-1]
    assert picture == {"type": "image", "mimeType": "image/png", "data": base64.b64encode(PNG).decode()}
    assert dot == {"type": "image", "mimeType": "image/gif", "data": "R0lGODlh"}
    assert (link["type"], link["name"], link["mimeType"], link["size"]) == ("resource_link", "t.txt", "text/plain", 6)
    assert link["uri"].startswith("file:///") and link["uri"].endswith("/t.txt")
    wait_until(lambda: not os.path.exists(link["uri"][7:]), "the end of the lending")
    # One that takes no images gets links alone, and reads them: over the protocol, too, though they lie elsewhere.
    c, gate = new_id(), gateway.path()
    image = owner.give(c, PNG, "image/png", "attachment; filename*=UTF-8''a%20b%25%C3%BC.png")
    text = owner.give(c, "Zeile\n".encode(), "text/plain", 'attachment; filename="t.txt"')
    status, _, answer = owner.ask("POST", f"{c}/tasks", json.dumps(
        {"message": [{"type": "text", "text": json.dumps([{"wait": gate}])}, file(image), file(text)], "agent": "files"}),
        {"Content-Type": "application/json"})
    assert status == 201, answer
    [picture, link] = wait_until(lambda: asked(folder, "files", "blocks"), "the prompt")[-1]
    path = urllib.parse.unquote(picture["uri"][len("file://"):])
    assert picture["type"] == "resource_link" and path.endswith("/a b%ü.png")
    with open(path, "rb") as lent:
        assert lent.read() == PNG
    with open(gate, "w", encoding="utf-8"):
        pass


def test_agent_reads_a_file_of_the_message_and_no_other(owner, folder):
    c = new_id()
    text = owner.give(c, b"one\ntwo\n", "text/plain", 'attachment; filename="t.txt"')
    request = {"request": ["fs/read_text_file", {"path": "$"}]}
    _, events = ask(owner, "files", c, [{"type": "text", "text": json.dumps([request])}, file(text)])
    assert json.loads(text_of(events)) == {"content": "one\ntwo\n"}
    path = urllib.parse.unquote(asked(folder, "files", "blocks")[-1][-1]["uri"][len("file://"):])
    other = {"request": ["fs/read_text_file", {"path": path.replace("t.txt", "u.txt")}]}
    _, events = ask(owner, "files", c, [{"type": "text", "text": json.dumps([other])}, file(text)])
    assert json.loads(text_of(events))["code"] == -32002


def test_images_that_the_agent_says_are_files(owner):
    c = new_id()
    said = {"update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "mimeType": "image/png", "data": TINY}}}
    call = {"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Draw", "status": "in_progress", "rawInput": {"n": 1}}
    done = {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed", "content": [
        {"type": "content", "content": {"type": "text", "text": "here"}},
        {"type": "content", "content": {"type": "resource", "resource": {"uri": "file:///a/b.bin", "mimeType": "application/x", "blob": "AAEC"}}},
        {"type": "content", "content": {"type": "audio", "mimeType": "audio/wav", "data": "AAAA"}}]}
    task, events = ask(owner, "acp", c, json.dumps([{"say": "look: "}, said, {"update": call}, {"update": done}, {"say": "good"}]))
    assert (task["status"], task["output"]) == ("completed", "good"), task
    told = data(events, "file")
    assert [(f.get("call_id"), f["name"], f["media_type"], f["size"]) for f in told] == [
        (None, "", "image/png", 8), ("c1", "b.bin", "application/x", 3), ("c1", "", "audio/wav", 3)]
    assert data(events, "tool_result")[0]["output"] == "here\n[file: application/x]\n[file: audio/wav]"
    assert names(events).index("file") < names(events).index("tool_call") and "custom" not in names(events)
    assert owner.ask("GET", f"{c}/files/{told[1]['file_id']}")[2] == b"\x00\x01\x02"


def test_agent_that_dies_behind_its_image_leaves_it(owner):
    said = {"update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "mimeType": "image/png", "data": TINY}}}
    task, events = ask(owner, "acp", new_id(), json.dumps([said, {"exit": 7}]))
    assert (task["status"], task["error"]["code"]) == ("failed", "agent_error")
    assert [f["size"] for f in data(events, "file")] == [8]
