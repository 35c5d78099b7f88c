"""Agents of kind http with a form, against the faces of another gateway: what stock clients understand, forms understand."""

import pytest

from gateway import Gateway, script_agent
from holdfast import Client, ids, names, program, text_of

PATHS = {"ag-ui": "/v1/ag-ui/script", "a2a": "/v1/a2a/script", "ai-sdk": "/v1/ai/chat",
         "responses": "/v1/responses", "openai": "/v1/chat/completions"}


@pytest.fixture(scope="module")
def far():
    with Gateway({"agents": [script_agent(default=True)]}) as running:
        yield running


@pytest.fixture(scope="module")
def gateway(far):
    with Client(far) as client:
        token = client.token
    base = f"http://{far.host}:{far.port}"
    models = {form: {"model": "script"} for form in ("responses", "openai")}
    agents = [{"name": form, "kind": "http", "form": form, "url": base + path, "grace_s": 20, "api_key_env": "FAR_TOKEN", **models.get(form, {})}
              for form, path in PATHS.items()]
    with Gateway({"agents": agents}, environ={"FAR_TOKEN": token}) as running:
        yield running


@pytest.mark.parametrize("form", PATHS)
def test_turn(client, form):
    call = {"event": "tool_call", "data": {"call_id": "1", "name": "look", "arguments": {"at": 1}}}
    result = {"event": "tool_result", "data": {"call_id": "1", "name": "look", "output": "there"}}
    task, events = client.finish(program({"thinking": "hm"}, {"token": "Let me. "}, {"line": call}, {"line": result},
                                         {"token": "It is there."}), agent=form)
    assert (task["status"], text_of(events)) == ("completed", "Let me. It is there."), task
    assert text_of(events, "thinking") == ("" if form == "a2a" else "hm")
    if form in ("a2a", "openai"):  # these have no place for another's calls
        assert task["output"] == "Let me. It is there."
        return
    assert names(events)[2:] == ["thinking", "token", "tool_call", "tool_result", "token", "final_answer",
                                 "task.completed"]
    assert (events[4]["data"]["name"], events[4]["data"]["arguments"]) == ("look", {"at": 1})
    assert (events[5]["data"]["output"], events[5]["data"]["is_error"]) == ("there", False)
    assert task["output"] == "It is there."


@pytest.mark.parametrize("form", PATHS)
def test_failure(client, form):
    task, _ = client.finish(program({"token": "half"}, {"stderr": "oh no"}, {"exit": 3}), agent=form)
    assert (task["status"], task["output"]) == ("failed", "half")
    assert task["error"]["message"] == "agent_error: the agent said: agent_error: exit status 3: oh no"


@pytest.mark.parametrize("form,kind,answer", [
    ("ag-ui", "question", "x"), ("ag-ui", "approval", True), ("a2a", "question", "x")])
def test_question(client, form, kind, answer):
    task = client.call("chat", message=program({"token": "a "}, {"question": "q", "kind": kind, "prompt": "Which?"},
                                               {"hear": "input"}, {"token": "b"}), agent=form)["task"]
    question = client.event(task, "input_required")["data"]
    assert (question["kind"], question["prompt"]) == (kind, "Which?")
    client.call("respond", **ids(task), input_id=question["input_id"], answer=answer)
    assert client.wait_terminal(task)["event"] == "task.completed"
    assert client.task(task)["output"] == "a b"
    assert [e["event"] for e in client.log if e.get("event") == "input_required"] == ["input_required"]
