"""Agents of kind http with a form, against aimock: a server of these protocols that nobody here wrote."""

import pytest

from gateway import Gateway
from holdfast import names, text_of
from peers import aimock

STORY = "Once upon a time there was a kelp that held fast to its rock. " * 6
RUN = {"threadId": "t", "runId": "r"}


def status(state):
    return {"type": "status", "state": f"TASK_STATE_{state}"}


def artifact(text, **more):
    return {"type": "artifact", "name": "answer", "parts": [{"text": text}], **more}


AG_UI = [
    {"match": {"message": "story"}, "text": STORY},
    {"match": {"message": "tool"}, "events": [
        {"type": "RUN_STARTED", **RUN},
        {"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "clock"},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "{\"zone\":"},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "\"UTC\"}"},
        {"type": "TOOL_CALL_END", "toolCallId": "c1"},
        {"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c1", "content": "12:00"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "m2", "delta": "Noon."},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m3", "delta": "It is noon."},
        {"type": "CUSTOM", "name": "place", "value": {"x": 1}},
        {"type": "RUN_FINISHED", **RUN, "result": {"n": 1},
         "usage": [{"inputTokens": 3, "outputTokens": 4}]}]},
    {"match": {"message": "fail"}, "events": [
        {"type": "RUN_STARTED", **RUN}, {"type": "RUN_ERROR", "message": "no idea", "code": "X"}]},
    {"match": {"message": "half"}, "events": [
        {"type": "RUN_STARTED", **RUN},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "half of"}]},
]
A2A = [{"name": "mock", "streamingTasks": [
    {"pattern": "story", "events": [status("WORKING"), artifact("Once "), artifact("upon."),
                                    status("COMPLETED")]},
    {"pattern": "open", "events": [status("WORKING"), artifact("Once "), artifact("more.")]},
    {"pattern": "fail", "events": [status("WORKING"), status("FAILED")]}]}]
MODEL = [
    {"match": {"userMessage": "story"}, "response": {
        "content": STORY, "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}}},
    {"match": {"userMessage": "think"},
     "response": {"reasoning": "Let me think of six times seven.", "content": "42 🌊"}},
    {"match": {"userMessage": "fail"},
     "response": {"error": {"message": "all busy", "type": "server_error"}, "status": 400}},
]


@pytest.fixture(scope="module")
def peer(tmp_path_factory):
    running = aimock(tmp_path_factory.mktemp("aimock"),
                     {"agui": {"fixtures": AG_UI}, "a2a": {"agents": A2A}}, MODEL)
    yield running
    running.close()


@pytest.fixture(scope="module")
def gateway(peer):
    def agent(form, path, **more):
        return {"name": form, "kind": "http", "form": form, "url": peer.url + path, "grace_s": 2, **more}

    agents = [agent("openai", "/v1/chat/completions", model="gpt-4o"),
              agent("responses", "/v1/responses", model="gpt-4o"),
              agent("ag-ui", "/agui"), agent("a2a", "/a2a", retries=1)]
    with Gateway({"agents": agents}) as running:
        yield running


@pytest.mark.parametrize("form", ["openai", "responses"])
def test_model_faces(client, peer, form):
    task, events = client.finish("a story", agent=form)
    assert (task["status"], task["output"]) == ("completed", STORY), task
    assert text_of(events) == STORY and names(events).count("token") > 3
    assert task["result"]["usage"] == {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
    task, events = client.finish("now think", agent=form, conversation=task["conversation_id"])
    assert (task["output"], text_of(events, "thinking")) == ("42 🌊", "Let me think of six times seven.")
    asked = [entry["body"] for entry in peer.get("/__aimock/journal")
             if entry.get("body") and "now think" in str(entry["body"])]
    said = asked[-1]["messages"]
    assert [message["role"] for message in said] == ["user", "assistant", "user"]
    assert STORY.strip() in str(said[1]["content"])


@pytest.mark.parametrize("form", ["openai", "responses"])
def test_model_faces_that_fail(client, form):
    task, _ = client.finish("fail", agent=form)
    assert task["error"]["message"] == "agent_error: HTTP 400: all busy"


def test_ag_ui(client):
    task, events = client.finish("a story", agent="ag-ui")
    assert (task["status"], task["output"], text_of(events)) == ("completed", STORY, STORY)
    task, events = client.finish("a tool", agent="ag-ui")
    assert names(events)[2:-1] == ["tool_call", "tool_result", "thinking", "token", "custom",
                                   "final_answer"]
    assert events[2]["data"]["arguments"] == {"zone": "UTC"}
    assert events[3]["data"]["output"] == "12:00"
    assert events[6]["data"] == {"event_type": "place", "payload": {"x": 1}}
    assert task["output"] == "It is noon."
    assert task["result"] == {"usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
                              "result": {"n": 1}}


@pytest.mark.parametrize("message,why", [
    ("fail", "agent_error: the agent said: no idea"),
    ("half", "agent_error: the reply ended before its turn"),
    ("nothing", "agent_error: HTTP 404: No matching AG-UI fixture")])
def test_ag_ui_that_fails(client, message, why):
    task, _ = client.finish(message, agent="ag-ui")
    assert (task["status"], task["error"]["message"]) == ("failed", why)
    assert task.get("output") == ("half of" if message == "half" else None)


def test_a2a(client):
    task, events = client.finish("a story", agent="a2a")
    assert (task["status"], task["output"], text_of(events)) == ("completed", "Once upon.", "Once upon.")
    task, _ = client.finish("fail", agent="a2a")
    assert task["error"]["message"] == "agent_error: the agent's task has failed"
    task, _ = client.finish("nothing", agent="a2a")
    assert task["error"]["message"] == "agent_error: the agent said: No matching pattern for message"


def test_a2a_stream_that_ends_early_is_asked_for_the_rest(client):
    """aimock has no SubscribeToTask: then the task is fetched."""
    task, events = client.finish("open", agent="a2a")
    assert (task["status"], task["output"], text_of(events)) == ("completed", "Once more.", "Once more.")
