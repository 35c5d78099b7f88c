"""Coding agents as they come from the registry (tests/programs), run by the gateway, offline: their model is aimock.

They take 1 GB, so `./dev test` leaves them out and `./dev test-all` installs them; by hand, `npm ci` in tests/programs."""

import base64
import os
import pathlib
import shutil
import struct
import types
import zlib

import pytest

from gateway import Gateway
from holdfast import Client, ids, names, text_of
from relay import Relay
from test_aimock import Aimock

PROGRAMS = pathlib.Path(__file__).resolve().parent.parent / "programs" / "node_modules"
CLAUDE = str(PROGRAMS / "@anthropic-ai" / "claude-code-linux-x64" / "claude")
CODEX = str(PROGRAMS / "@openai" / "codex" / "bin" / "codex.js")
CODEX_ACP = str(PROGRAMS / "@zed-industries" / "codex-acp-linux-x64" / "bin" / "codex-acp")
NODE = os.environ.get("HOLDFAST_NODE") or shutil.which("node")
LONG_S = 240  # no program is silent for so long, nor begins so late, on a machine under load
FIXTURES = [
    # Told to a program that has no session to go on with: none of these should be.
    {"match": {"userMessage": "What was said before"}, "response": {"content": "Told all of it again."}},
    {"match": {"userMessage": "think"},
     "response": {"reasoning": "Let me think of six times seven.", "content": "It is 42."}},
    {"match": {"userMessage": "again"}, "response": {"content": "Once more."}},
    {"match": {"userMessage": "list", "hasToolResult": False}, "response": {
        "content": "Let me look.", "toolCalls": [
            {"name": "Bash", "arguments": "{\"command\":\"mkdir made; echo hello\",\"description\":\"say hello\"}"}]}},
    {"match": {"userMessage": "list", "hasToolResult": True}, "response": {"content": "It says hello."}},
    {"match": {"userMessage": "shell", "hasToolResult": False}, "response": {
        "content": "Let me look.", "toolCalls": [
            {"name": "exec_command", "arguments": "{\"cmd\":\"mkdir made; echo hello\"}"}]}},
    {"match": {"userMessage": "shell", "hasToolResult": True}, "response": {"content": "It says hello."}},
    {"match": {"userMessage": "fail"},
     "response": {"error": {"message": "bad thing", "type": "invalid_request_error"}, "status": 400}},
]

pytestmark = pytest.mark.skipif(not PROGRAMS.exists(), reason="tests/programs is not installed")


@pytest.fixture(scope="module")
def aimock(tmp_path_factory):
    running = Aimock(tmp_path_factory.mktemp("fixtures"), FIXTURES)
    yield running
    running.close()


@pytest.fixture(scope="module")
def wire(aimock):
    """The way to the model: keeps what is sent to it."""
    with Relay(types.SimpleNamespace(host="127.0.0.1", port=aimock.port), keeps=True) as running:
        yield running


def environ(folder, wire, codex_settings=""):
    """All that each of them needs to know of its model, and nothing of this machine's user."""
    codex, url = folder / "codex", f"http://{wire.host}:{wire.port}"
    codex.mkdir()
    (codex / "config.toml").write_text(f"""{codex_settings}
model = "gpt-5"
model_provider = "mock"
[model_providers.mock]
name = "mock"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "MOCK_KEY"
""", encoding="utf-8")
    return {"HOME": str(folder), "PATH": os.environ["PATH"],
            "CODEX_HOME": str(codex), "MOCK_KEY": "x", "OPENAI_API_KEY": "x",
            "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "sk-x", "IS_SANDBOX": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}


@pytest.fixture(scope="module")
def gateway(wire, tmp_path_factory):
    env = environ(tmp_path_factory.mktemp("home"), wire)
    agents = [
        {"name": "claude", "kind": "exec", "form": "claude", "command": [CLAUDE, "--allowedTools", "Bash"],
         "env": env, "idle_timeout_s": LONG_S},
        {"name": "codex", "kind": "exec", "form": "codex", "env": env, "idle_timeout_s": LONG_S,
         "command": [NODE, CODEX, "exec", "-s", "danger-full-access"]},
    ]
    acp_env = environ(tmp_path_factory.mktemp("home"), wire, 'approval_policy = "untrusted"\nsandbox_mode = "danger-full-access"')
    os.chmod(CODEX_ACP, 0o755)  # it comes without
    agents += [
        {"name": "claude-acp", "kind": "acp", "env": acp_env, "idle_timeout_s": LONG_S,
         "command": [NODE, str(PROGRAMS / "@zed-industries" / "claude-agent-acp" / "dist" / "index.js")]},
        {"name": "codex-acp", "kind": "acp", "env": acp_env, "idle_timeout_s": LONG_S, "auth_method": "openai-api-key",
         "command": [CODEX_ACP]},
    ]
    with Gateway({"agents": agents}) as running:
        yield running


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_real_program_thinks_answers_and_goes_on_after_a_restart(gateway, agent):
    with Client(gateway) as client:
        task, events = client.finish("think", agent=agent, seconds=LONG_S)
        assert (task["status"], task["output"]) == ("completed", "It is 42."), task
        assert text_of(events, "thinking") == "Let me think of six times seven."
        assert text_of(events) == "It is 42."
        assert "usage" in task["result"]
        token = client.token
    gateway.stop()
    gateway.start()
    with Client(gateway, token=token) as client:
        task, _ = client.finish("again", agent=agent, seconds=LONG_S, conversation=task["conversation_id"])
        assert task["output"] == "Once more."


@pytest.mark.parametrize("agent,message,name", [("claude", "list", "Bash"), ("codex", "shell", "command_execution")])
def test_real_program_tells_its_calls(gateway, agent, message, name):
    with Client(gateway) as client:
        task, events = client.finish(message, agent=agent, seconds=LONG_S)
        [call] = [e["data"] for e in events if e["event"] == "tool_call"]
        [result] = [e["data"] for e in events if e["event"] == "tool_result"]
        assert (call["name"], result["name"]) == (name, name)
        assert "echo hello" in call["arguments"]["command"]
        assert (result["call_id"], result["output"].strip()) == (call["call_id"], "hello")
        assert names(events).index("tool_call") < names(events).index("tool_result")
        assert task["output"] == "It says hello."


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_real_program_says_why_it_failed(gateway, agent):
    with Client(gateway) as client:
        task, _ = client.finish("fail", agent=agent, seconds=LONG_S)
        assert task["status"] == "failed" and "bad thing" in task["error"]["message"], task


# -------------------------------------------------------------- the same over the Agent Client Protocol


def answer_of(task):
    """codex-acp puts its warnings into the answer, before it."""
    return task["output"].splitlines()[-1] if task["output"] else ""


@pytest.mark.parametrize("agent", ["claude-acp", "codex-acp"])
def test_real_acp_agent_answers_and_goes_on_after_a_restart(gateway, agent):
    with Client(gateway) as client:
        task, events = client.finish("think", agent=agent, seconds=LONG_S)
        assert task["status"] == "completed" and answer_of(task).endswith("It is 42."), task
        assert "six times seven" in text_of(events, "thinking")
        again, _ = client.finish("again", agent=agent, seconds=LONG_S, conversation=task["conversation_id"])
        assert answer_of(again).endswith("Once more."), again  # the same process
        token = client.token
    gateway.stop()
    gateway.start()
    with Client(gateway, token=token) as client:
        task, events = client.finish("again", agent=agent, seconds=LONG_S, conversation=task["conversation_id"])
        assert task["status"] == "completed" and answer_of(task).endswith("Once more."), task
        assert "42" not in text_of(events)  # what a loading agent replays is in the journal already


@pytest.mark.parametrize("agent,message", [("claude-acp", "list"), ("codex-acp", "shell")])
def test_real_acp_agent_asks_before_it_runs_a_command(gateway, agent, message):
    with Client(gateway) as client:
        task = client.chat(message, agent=agent)
        asked = client.event(task, "input_required", seconds=LONG_S)["data"]
        assert asked["kind"] == "approval"
        assert {"allow_once", "reject_once"} <= {option["kind"] for option in asked["options"]}
        client.call("respond", **ids(task), input_id=asked["input_id"], answer=True)
        client.wait_terminal(task, seconds=LONG_S)
        events = client.events_since(task)
        assert "hello" in [e["data"] for e in events if e["event"] == "tool_result"][-1]["output"]
        assert answer_of(client.task(task)).endswith("It says hello.")


def picture():
    """A PNG of one red dot, as base64."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    dot = chunk(b"IDAT", zlib.compress(b"\0\xff\0\0")) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + head + dot).decode()


@pytest.mark.parametrize("agent", ["claude-acp", "codex-acp"])
def test_real_acp_agent_shows_an_image_to_its_model(gateway, wire, agent):
    wire.asked.clear()
    message = [{"type": "text", "text": f"think of what {agent} sees"},
               {"type": "file", "media_type": "image/png", "name": "dot.png", "data": picture()}]
    with Client(gateway) as client:
        task = client.call("chat", message=message, agent=agent)["task"]
        client.wait_terminal(task, seconds=LONG_S)
        end = client.task(task)
        assert end["status"] == "completed" and answer_of(end).endswith("It is 42."), end
    assert picture().encode() in wire.asked
