"""Agents of kind http with a form, against servers on the protocols' own libraries (tests/support/agents/peers.mjs)."""

import json
import types

import pytest

from gateway import SUPPORT, Gateway, wait_until
from holdfast import ids, names, text_of
from peers import Peer
from relay import Relay

FORMS = ["ag-ui", "a2a", "a2a-old", "a2a-plain", "ai-sdk"]


@pytest.fixture(scope="module")
def peer():
    running = Peer(SUPPORT / "agents" / "peers.mjs")
    yield running
    running.close()


@pytest.fixture(scope="module")
def relay(peer):
    running = Relay(types.SimpleNamespace(host="127.0.0.1", port=peer.port))
    yield running
    running.close()


@pytest.fixture(scope="module")
def gateway(peer, relay):
    def agent(name, base, **more):
        return {"name": name, "kind": "http", "form": name.replace("-old", "").replace("-plain", ""),
                "url": f"{base}/{name}",
                "grace_s": 30, **more}

    through = f"http://127.0.0.1:{relay.port}"
    agents = [agent(form, peer.url) for form in FORMS]
    agents += [{**agent(form, through, retries=3), "name": f"{form}-cut"} for form in FORMS]
    agents[0]["headers"] = {"X-Team": "kelp-of-the-team"}
    with Gateway({"agents": agents}) as running:
        yield running


def finish(client, *steps, **fields):
    return client.finish(json.dumps(list(steps)), **fields)


def asked(peer, form):
    return [entry[form] for entry in peer.get("/log") if form in entry]


def data(events, name):
    return [event["data"] for event in events if event.get("event") == name]


def start(client, form, *steps, conversation=None):
    more = {"conversation_id": conversation} if conversation else {}
    return client.call("chat", message=json.dumps(list(steps)), agent=form, **more)["task"]


def answer(client, task, value):
    """Answers the next question, which it returns."""
    question = client.event(task, "input_required", since=getattr(client, "at", 0))["data"]
    client.at = len(client.log)
    client.call("respond", **ids(task), input_id=question["input_id"], answer=value)
    return question


@pytest.mark.parametrize("form", FORMS)
def test_turn_is_events_and_an_answer(client, form):
    task, events = finish(client, {"think": "hm"}, {"say": "Hel"}, {"say": "lo 🌊"}, agent=form)
    assert (task["status"], task["output"]) == ("completed", "Hello 🌊"), task
    assert text_of(events) == "Hello 🌊"
    assert text_of(events, "thinking") == ("" if form in ("ag-ui", "a2a-plain") else "hm")
    if form == "ai-sdk":
        assert task["result"] == {"usage": {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}}


@pytest.mark.parametrize("form", ["ag-ui", "ai-sdk"])
def test_conversation_goes_along(client, peer, form):
    task, _ = finish(client, {"say": "one"}, agent=form)
    finish(client, {"say": "two"}, agent=form, conversation=task["conversation_id"])
    said = [(m["role"], m["content"] if form == "ag-ui" else m["parts"][0]["text"])
            for m in asked(peer, form)[-1]["messages"]]
    assert said == [("user", '[{"say": "one"}]'), ("assistant", "one"), ("user", '[{"say": "two"}]')]


@pytest.mark.parametrize("form", ["a2a", "a2a-old"])
def test_a2a_conversation_is_the_servers_context(client, peer, gateway, form):
    task, _ = finish(client, {"say": "one"}, agent=form)
    first = asked(peer, "a2a")[-1]
    finish(client, {"say": "two"}, agent=form, conversation=task["conversation_id"])
    second = asked(peer, "a2a")[-1]
    assert second["contextId"] == first["contextId"] and second["text"] == '[{"say": "two"}]'
    finish(client, {"say": "three"}, agent="a2a-cut", conversation=task["conversation_id"])
    other = asked(peer, "a2a")[-1]
    assert other["contextId"] != first["contextId"]
    assert other["text"].startswith("What was said before in this conversation:\n\n[user] [{\"say\": \"one\"}]")


@pytest.mark.parametrize("form", FORMS)
def test_failure_is_told_in_the_agents_words(client, form):
    step = {"raw": {"type": "RUN_ERROR", "message": "I cannot"}} if form == "ag-ui" else {"fail": "I cannot"}
    task, _ = finish(client, {"say": "Hm. "}, step, agent=form)
    assert (task["status"], task["output"]) == ("failed", "Hm. ")
    assert task["error"]["message"] == "agent_error: the agent said: I cannot"


# -------------------------------------------------------------- questions


@pytest.mark.parametrize("form", ["a2a", "a2a-old", "a2a-plain", "ag-ui"])
def test_question_is_answered_and_the_turn_goes_on(client, peer, form):
    ask = {"ask": "Which colour?"} if form != "ag-ui" else {"ask": {"message": "Which colour?"}}
    task = start(client, form, {"say": "Well. "}, ask, {"say": "So $. "}, ask, {"say": "Then $."})
    for colour in ("blue", "red"):
        question = answer(client, task, colour)
        assert (question["kind"], question["prompt"]) == ("question", "Which colour?")
    assert client.wait_terminal(task)["data"]["output"] == "Well. So blue. Then red."
    if form == "ag-ui":
        messages = asked(peer, form)[-1]["messages"]
        assert [m["content"] for m in messages[1:]] == ["Well. ", "So blue. "]
        assert len({run["runId"] for run in asked(peer, form)[-3:]}) == 3
        assert [run["threadId"] for run in asked(peer, form)[-3:]] == [task["conversation_id"]] * 3
    else:
        assert [entry["text"] for entry in asked(peer, "a2a")[-2:]] == ["blue", "red"]
        assert len({entry["taskId"] for entry in asked(peer, "a2a")[-2:]}) == 1


@pytest.mark.parametrize("schema,kind,value,payload", [
    ({"type": "boolean"}, "approval", True, True),
    (None, "question", "blue", "blue"),
    ({"type": "string"}, "question", "blue", "blue"),
    ({"type": "object", "properties": {"approved": {"type": "boolean"}}}, "approval", False, {"approved": False}),
    ({"type": "object", "properties": {"n": {"type": "number"}, "name": {"type": "string"}}}, "question", "x",
     {"name": "x"})])
def test_ag_ui_answer_has_the_form_that_the_schema_wants(client, peer, schema, kind, value, payload):
    interrupt = {"message": "Go on?", **({"responseSchema": schema} if schema else {})}
    task = start(client, "ag-ui", {"ask": interrupt}, {"say": "$"})
    assert answer(client, task, value)["kind"] == kind
    client.wait_terminal(task)
    [entry] = asked(peer, "ag-ui")[-1]["resume"]
    assert entry == {"interruptId": "ask-0-0", "status": "resolved", "payload": payload}


def test_ag_ui_all_questions_of_a_run_are_answered_together(client, peer):
    task = start(client, "ag-ui", {"call": "remove"}, {"ask": [
        {"message": "One?", "reason": "tool_call", "toolCallId": "x"}, {"message": "Two?"}]}, {"say": "ok"})
    client.expect(lambda line: line.get("event") == "input_required" and line["data"]["prompt"] == "Two?")
    one, two = data(client.log, "input_required")
    assert (one["kind"], two["kind"]) == ("approval", "question")
    before = len(asked(peer, "ag-ui"))
    client.call("respond", **ids(task), input_id=two["input_id"], answer="b")
    client.call("respond", **ids(task), input_id=one["input_id"], answer=True)
    assert client.wait_terminal(task)["data"]["output"] == "ok"
    assert [entry["payload"] for entry in asked(peer, "ag-ui")[-1]["resume"]] == [{"approved": True}, "b"]
    assert len(asked(peer, "ag-ui")) == before + 1
    [call] = [m for m in asked(peer, "ag-ui")[-1]["messages"] if m["role"] == "assistant"]
    assert call["toolCalls"][0]["function"] == {"name": "remove", "arguments": "{}"}


@pytest.mark.parametrize("allows", [True, False])
def test_ai_sdk_approval_of_a_tool(client, allows):
    task = start(client, "ai-sdk", {"say": "Look. "}, {"call": "look"}, {"say": "Now. "}, {"call": "remove"}, {"say": "End."})
    question = answer(client, task, allows)
    assert (question["kind"], question["tool"], question["arguments"]) == ("approval", "remove", {"path": "/x"})
    client.wait_terminal(task)
    record = client.task(task)
    assert (record["status"], record["output"]) == ("completed", "End."), record
    events = [line for line in client.log if line["type"] == "event"]
    results = data(events, "tool_result")
    assert results[0] == {"call_id": "c1", "name": "look", "output": '{"at":"/x"}', "is_error": False}
    expected = {"output": "removed /x", "is_error": False} if allows else {"output": "denied", "is_error": True}
    assert {key: results[1][key] for key in expected} == expected and len(results) == 2
    assert len(data(events, "tool_call")) == 2
    assert record["result"]["usage"]["total_tokens"] == 24  # three turns of its model


# -------------------------------------------------------------- cuts and cancels


@pytest.mark.parametrize("form", ["a2a", "a2a-old"])
def test_a2a_goes_on_after_cuts(client, peer, relay, tmp_path, form):
    gate = tmp_path / "gate"
    method = "tasks/resubscribe" if form == "a2a-old" else "SubscribeToTask"
    before = asked(peer, "method").count(method)
    relay.cut_after(b"before", 2)
    task = start(client, f"{form}-cut", {"say": "before "}, {"wait": str(gate)}, {"say": "after"})
    wait_until(lambda: asked(peer, "method").count(method) > before + 1, "it subscribes twice")
    gate.touch()
    assert client.wait_terminal(task)["data"]["output"] == "before after"
    assert text_of([line for line in client.log if line["type"] == "event"]) == "before after"


def test_a2a_that_is_cut_for_good_fails(client, relay, tmp_path):
    relay.cut_after(b"data:", 1000)
    task, _ = finish(client, {"say": "before "}, {"wait": str(tmp_path / "never")}, agent="a2a-cut")
    relay.cut_after(b"", 0)
    assert task["status"] == "failed" and "broke off" in task["error"]["message"], task
    assert relay.accepted >= 4


@pytest.mark.parametrize("form", ["ag-ui", "ai-sdk"])
def test_cut_of_a_protocol_without_resume_fails(client, relay, tmp_path, form):
    relay.cut_after(b"before", 1)
    task, _ = finish(client, {"say": "before "}, {"wait": str(tmp_path / "never")}, {"say": "x"}, agent=f"{form}-cut")
    assert (task["status"], task["output"]) == ("failed", "before ")
    assert "broke off" in task["error"]["message"]


@pytest.mark.parametrize("form", [form for form in FORMS if form != "a2a-plain"])  # that says nothing before its end
def test_cancel_is_told(client, peer, tmp_path, form):
    told = "cancelled" if form.startswith("a2a") else "closed"
    before = len(asked(peer, told))
    task = start(client, form, {"say": "before "}, {"wait": str(tmp_path / "never")})
    client.event(task, "token")
    client.call("cancel", **ids(task))
    end = client.wait_terminal(task)["data"]
    assert (end["error"]["code"], client.task(task)["output"]) == ("cancelled", "before ")
    wait_until(lambda: len(asked(peer, told)) > before, "the server knows")


@pytest.mark.parametrize("form", ["a2a", "ag-ui"])
def test_cancel_of_a_run_that_asks(client, form):
    ask = {"ask": "Which?"} if form != "ag-ui" else {"ask": {"message": "Which?"}}
    task = start(client, form, ask, {"say": "$"})
    client.event(task, "input_required")
    client.call("cancel", **ids(task))
    assert client.wait_terminal(task)["data"]["error"]["code"] == "cancelled"


def test_headers_go_along_and_into_no_log(client, peer, gateway):
    finish(client, {"say": "one"}, agent="ag-ui")
    assert "kelp-of-the-team" not in gateway.tail(100000)
