"""MCP servers over stdio behind a react agent: what they can do, in both protocol versions."""

import contextlib
import json
import os

import pytest

from gateway import wait_until
from holdfast import Client, ids, names, new_id
from mcp_kit import Talk, agent, data, gateway_of, heard, of, offered, results, scripted, steps, turn

ERAS = ["new", "old"]
FORM = {"message": "How many?", "requestedSchema": {
    "type": "object", "properties": {"count": {"type": "integer", "minimum": 1}}, "required": ["count"]}}


@pytest.fixture(scope="module")
def gateway(model, folder):
    servers = [
        scripted("new", folder),
        scripted("old", folder, "legacy"),
        scripted("mute", folder, "mute"),
        scripted("late", folder, "late"),
        scripted("some", folder, allow=["write"], approve="never"),
        scripted("strict", folder, approve="always"),
        scripted("turns", folder, "legacy"),
        scripted("unused", folder),
    ]
    agents = [agent(name, f"mcp:{name}/*", default=name == "new")
              for name in ("new", "old", "mute", "late", "some", "strict", "turns")]
    agents += [agent("one", "mcp:new/write", "clock"), agent("both", "mcp:new/do", "mcp:old/do"),
               agent("wrong", "mcp:new/nope")]
    with gateway_of(model, servers, agents) as running:
        yield running


# -------------------------------------------------------------- the tools


def test_model_is_offered_the_tools_with_their_schemas(talk, model):
    talk.finish("new", steps("new", {"say": "hi"}))
    tools = offered(model.requests[0])
    assert set(tools) == {"new__do", "new__write"}
    assert tools["new__do"]["description"] == "does as it is told"
    assert tools["new__do"]["parameters"] == {"type": "object", "properties": {"steps": {"type": "array"}}}
    assert model.requests[1].json["messages"][-1]["content"] == "hi"


def test_agent_has_what_it_lists_and_the_server_allows(talk, model):
    for name, expected in (("one", {"new__write", "clock"}), ("some", {"some__write"}),
                           ("both", {"new__do", "old__do"})):
        talk.client.wait_terminal(talk.begin(name))
        assert set(offered(model.requests[0])) == expected, name


def test_server_that_no_agent_lists_is_not_started(talk, folder):
    talk.finish("new", steps("new", {"say": "hi"}))
    assert heard(folder, "unused") == []


def test_tool_that_the_server_lacks_is_told(talk):
    _, events = talk.finish("wrong")
    [custom] = data(events, "custom")
    assert custom["event_type"] == "mcp_unavailable"
    [missing] = custom["payload"]["tools"]
    assert (missing["server"], missing["tool"]) == ("new", "nope") and "no such tool" in missing["why"]


def test_each_server_is_spoken_to_in_its_version(talk, folder):
    for name in ("new", "old", "mute", "late"):
        assert talk.finish(name, steps(name, {"say": name}))[0] == {"c0": (name, False)}
    for name in ("old", "mute", "late"):
        said = heard(folder, name)
        assert said[0]["method"] == "server/discover"
        assert of(said, "initialize")[0]["params"]["protocolVersion"] == "2025-11-25"
        assert of(said, "notifications/initialized")
        assert list(of(said, "tools/call")[0]["params"]["_meta"]) == ["progressToken"]
    meta = of(heard(folder, "new"), "tools/call")[0]["params"]["_meta"]
    assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert meta["io.modelcontextprotocol/clientInfo"]["name"] == "holdfast"


# -------------------------------------------------------------- results


@pytest.mark.parametrize("era", ERAS)
def test_results_of_every_kind(talk, era):
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"},
             {"type": "image", "mimeType": "image/png", "data": "AAAA"}]
    got, events = talk.finish(
        era,
        steps(era, {"result": {"content": parts}}),
        steps(era, {"result": {"content": [{"type": "text", "text": "no luck"}], "isError": True}}),
        steps(era, {"error": {"code": -32602, "message": "bad arguments"}}),
        steps(era, {"result": {"content": [], "structuredContent": {"n": 1}}}))
    [file] = data(events, "file")
    assert (file["call_id"], file["media_type"], file["size"]) == ("c0", "image/png", 3)
    assert got == {"c0": ("a\nb\n[image: image/png, 3 bytes]", False), "c1": ("no luck", True),
                   "c2": ("bad arguments", True), "c3": ('{"n":1}', False)}


def test_long_result_loses_its_middle(talk):
    got, _ = talk.finish("new", steps("new", {"big": 200000}))
    output, failed = got["c0"]
    assert not failed and len(output) < 66000 and "[134464 bytes are left out]" in output


@pytest.mark.parametrize("era", ERAS)
def test_calls_run_side_by_side(talk, gateway, era):
    first, second = gateway.path(), gateway.path()
    # Each waits for what the other touches: one after the other, they would wait for ever.
    got, _ = talk.finish(era, steps(era, {"touch": first}, {"wait": second}, {"say": "1"}),
                         steps(era, {"touch": second}, {"wait": first}, {"say": "2"}))
    assert got == {"c0": ("1", False), "c1": ("2", False)}


@pytest.mark.parametrize("era", ERAS)
def test_progress_is_progress_of_the_task(talk, era):
    _, events = talk.finish(era, steps(era, {"progress": [1, 4, "a quarter"]}, {"progress": [4, 4, "all"]},
                                       {"say": "x"}))
    told = data(events, "progress")
    assert told[0] == {"progress": 0.25, "note": f"{era}: a quarter"}
    assert told[-1] == {"progress": 1, "note": f"{era}: all"}


def test_progress_without_a_total_is_a_note(talk):
    _, events = talk.finish("new", steps("new", {"progress": [7]}, {"say": "x"}))
    assert data(events, "progress") == [{"progress": 0, "note": "new: do"}]


# -------------------------------------------------------------- approval


def answered(talk, agent, calls, *answers, **fields):
    """The results of a task whose questions get these answers, and the questions."""
    client, since, asked = talk.client, len(talk.client.log), []
    task = talk.begin(agent, turn(*calls), **fields)
    for one in answers:
        known = {question["input_id"] for question in asked}
        question = client.expect(lambda line, known=known: line.get("event") == "input_required"
                                 and line["task_id"] == task["task_id"]
                                 and line["data"]["input_id"] not in known, since)["data"]
        asked.append(question)
        client.call("respond", **ids(task), input_id=question["input_id"], answer=one)
    events = list(client.events(task, since))
    assert len(data(events, "input_required")) == len(asked)
    return results(events), asked


def test_tool_asks_unless_it_says_that_it_only_reads(talk):
    got, [asked] = answered(talk, "new", [("new__write", {"x": 1}), steps("new", {"say": "free"})], True)
    assert (asked["kind"], asked["tool"], asked["arguments"]) == ("approval", "new__write", {"x": 1})
    assert asked["prompt"] == "Call the tool write of the MCP server new?"
    assert got == {"c0": ('write {"x": 1}', False), "c1": ("free", False)}


def test_refused_call_is_not_made(talk, folder):
    before = len(of(heard(folder, "new"), "tools/call"))
    got, _ = answered(talk, "new", [("new__write", {})], False)
    assert got == {"c0": ("the user did not approve the call", True)}
    assert len(of(heard(folder, "new"), "tools/call")) == before


def test_tool_is_allowed_for_the_conversation(talk):
    conversation = new_id()
    got, [asked] = answered(talk, "new", [("new__write", {"x": 1})], "conversation", conversation=conversation)
    assert [one["name"] for one in asked["options"]] == ["Allow once", "Allow new/write in this conversation", "Reject"]
    assert got == {"c0": ('write {"x": 1}', False)}
    got, _ = answered(talk, "new", [("new__write", {"x": 2}), ("new__write", {"x": 3})], conversation=conversation)
    assert got == {"c0": ('write {"x": 2}', False), "c1": ('write {"x": 3}', False)}
    got, _ = answered(talk, "old", [("old__write", {})], "reject", conversation=conversation)  # of another server
    assert got == {"c0": ("the user did not approve the call", True)}
    answered(talk, "new", [("new__write", {})], False)  # in another conversation


def test_configuration_that_always_asks_is_not_allowed_away(talk):
    conversation = new_id()
    for _ in range(2):
        _, [asked] = answered(talk, "strict", [steps("strict", {"say": "x"})], True, conversation=conversation)
        assert "options" not in asked


def test_configuration_decides_before_the_hint(talk):
    assert talk.finish("some", ("some__write", {}))[0] == {"c0": ("write {}", False)}
    got, [asked] = answered(talk, "strict", [steps("strict", {"say": "x"})], True)
    assert asked["kind"] == "approval" and got == {"c0": ("x", False)}


# -------------------------------------------------------------- questions


@pytest.mark.parametrize("era", ERAS)
def test_question_of_a_server_is_asked_and_answered(talk, era):
    wanted = steps(era, {"ask": FORM}, {"say": "answer"}) if era == "old" else steps(
        era, {"input": {"n": {"method": "elicitation/create", "params": FORM}}})
    got, asked = answered(talk, era, [wanted], "zero", "0", "3")
    accepted = {"action": "accept", "content": {"count": 3}}
    expected = accepted if era == "old" else [{"n": accepted}, "s1"]
    assert json.loads(got["c0"][0]) == expected
    assert [question["kind"] for question in asked] == ["question"] * 3
    assert asked[0]["prompt"].startswith(f"The MCP server {era} asks: How many?\n- count (integer)")
    assert asked[1]["prompt"].startswith('"count" must be an integer.\n')
    assert asked[2]["prompt"].startswith('"count" is out of its range.\n')
    assert asked[0]["expires_at"] > 0


@pytest.mark.parametrize("era", ERAS)
def test_question_is_declined(talk, era):
    wanted = steps(era, {"ask": FORM}, {"say": "answer"}) if era == "old" else steps(
        era, {"input": {"n": {"method": "elicitation/create", "params": FORM}}})
    got, _ = answered(talk, era, [wanted], "decline")
    assert '{"action": "decline"}' in got["c0"][0]


def test_question_closes_with_its_call(talk):
    """The server does not wait for the answer."""
    question = {"id": "q1", "method": "elicitation/create", "params": FORM}
    got, events = talk.finish("old", steps("old", {"send": question}, {"say": "never mind"}))
    [asked], [received] = data(events, "input_required"), data(events, "input_received")
    assert received == {"input_id": asked["input_id"], "answer": None} and got == {"c0": ("never mind", False)}
    assert names(events).index("input_received") < names(events).index("tool_result")


def test_several_questions_are_asked_in_turn(talk):
    yes = {"method": "elicitation/create", "params": {"message": "Sure?", "requestedSchema": {"type": "object"}}}
    url = {"method": "elicitation/create", "params": {"mode": "url", "message": "In", "url": "https://example.com/x"}}
    got, asked = answered(talk, "new", [steps("new", {"input": {"a": yes, "b \"": url}})], True, True)
    assert [question["kind"] for question in asked] == ["approval", "approval"]
    assert "https://example.com/x" in asked[1]["prompt"]
    assert json.loads(got["c0"][0]) == [{"a": {"action": "accept", "content": {}}, "b \"": {"action": "accept"}}, "s1"]


def test_request_that_is_not_supported_is_refused(talk, folder):
    got, _ = talk.finish("new", steps("new", {"input": {"r": {"method": "roots/list"}}}))
    assert got == {"c0": ("the server wants something that the gateway does not give", True)}
    talk.finish("old", steps("old", {"send": {"id": "r-1", "method": "roots/list"}},
                             {"send": {"id": "p-1", "method": "ping"}}, {"say": "x"}))
    wait_until(lambda: [m for m in heard(folder, "old") if m.get("id") == "p-1" and m.get("result") == {}], "a pong")
    [refusal] = [m for m in heard(folder, "old") if m.get("id") == "r-1"]
    assert refusal["error"]["code"] == -32601


def test_question_that_could_be_of_two_calls_is_cancelled_then_calls_take_turns(talk, gateway):
    begun, gate = gateway.path(), gateway.path()
    got, _ = talk.finish("turns", steps("turns", {"touch": begun}, {"wait": gate}, {"say": "x"}),
                         steps("turns", {"wait": begun}, {"ask": FORM}, {"touch": gate}, {"say": "answer"}))
    assert json.loads(got["c1"][0]) == {"action": "cancel"}
    got, _ = answered(talk, "turns", [steps("turns", {"ask": FORM}, {"say": "answer"}), steps("turns", {"say": "y"})],
                      "2")
    assert json.loads(got["c0"][0])["content"] == {"count": 2} and got["c1"] == ("y", False)


# -------------------------------------------------------------- tasks


def test_task_of_a_server_is_polled(talk, folder):
    states = [{"status": "working", "pollIntervalMs": 1, "statusMessage": "begun"},
              {"status": "working", "pollIntervalMs": 1, "statusMessage": "half"},
              {"status": "completed", "result": {"content": [{"type": "text", "text": "the result"}]}}]
    got, events = talk.finish("new", steps("new", {"task": states}))
    assert got == {"c0": ("the result", False)}
    assert [told["note"] for told in data(events, "progress")] == ["new: begun", "new: half"]
    assert of(heard(folder, "new"), "tasks/get")[-1]["params"]["taskId"] == "t1"


def test_task_asks_and_fails(talk, folder):
    ask = {"n": {"method": "elicitation/create", "params": FORM}}
    states = [{"status": "working", "pollIntervalMs": 1}, {"status": "input_required", "inputRequests": ask},
              {"status": "failed", "error": {"code": 1, "message": "no luck"}}]
    got, _ = answered(talk, "new", [steps("new", {"task": states})], "4")
    assert got == {"c0": ("the task has failed: no luck", True)}
    assert of(heard(folder, "new"), "tasks/update")[-1]["params"]["inputResponses"] == {
        "n": {"action": "accept", "content": {"count": 4}}}


def test_legacy_task_brings_its_result_by_a_request_of_its_own(talk):
    states = [{"status": "working", "pollInterval": 1}, {"status": "completed", "pollInterval": 1},
              {"content": [{"type": "text", "text": "late result"}]}]
    got, _ = talk.finish("old", steps("old", {"task": states}))
    assert got == {"c0": ("late result", False)}


# -------------------------------------------------------------- cancel


def cancelled(talk, agent, call, folder, method):
    before = len(of(heard(folder, agent), method))
    task = talk.begin(agent, turn(call))
    talk.client.event(task, "progress")
    talk.client.call("cancel", **ids(task))
    assert talk.client.wait_terminal(task)["data"]["error"]["code"] == "cancelled"
    return wait_until(lambda: of(heard(folder, agent), method)[before:], method)[0]["params"]


@pytest.mark.parametrize("era", ERAS)
def test_cancel_reaches_the_server(talk, gateway, folder, era):
    gate = gateway.path()
    said = cancelled(talk, era, steps(era, {"progress": [1]}, {"wait": gate}, {"say": "too late"}), folder,
                     "notifications/cancelled")
    assert said["requestId"] == of(heard(folder, era), "tools/call")[-1]["id"]
    with open(gate, "w", encoding="utf-8"):
        pass  # its answer comes after all, and harms nobody
    assert talk.finish(era, steps(era, {"say": "alive"}))[0] == {"c0": ("alive", False)}


def test_cancel_cancels_the_task_of_the_server(talk, folder):
    states = [{"status": "working", "pollIntervalMs": 200, "statusMessage": "x"}, {"status": "working"}]
    assert cancelled(talk, "new", steps("new", {"task": states}), folder, "tasks/cancel")["taskId"] == "t1"


# -------------------------------------------------------------- changes


def change(folder, name, *tools):
    (folder / name / "tools").write_text(json.dumps(list(tools)))


DO = {"name": "do", "description": "does as it is told", "annotations": {"readOnlyHint": True},
      "inputSchema": {"type": "object", "properties": {"steps": {"type": "array"}}}}
CHANGED = {"send": {"method": "notifications/tools/list_changed"}}


@pytest.mark.parametrize("era", ERAS)
def test_running_task_keeps_its_tools_and_the_next_one_has_the_new(talk, model, gateway, folder, era):
    fresh = {"name": "fresh", "inputSchema": {"type": "object", "properties": {}}, "annotations": {"readOnlyHint": True}}
    client, lists, since = talk.client, len(of(heard(folder, era), "tools/list")), len(talk.client.log)
    gate = gateway.path()
    change(folder, era, {**DO, "description": "does something else"}, fresh)
    task = talk.begin(era, turn(steps(era, CHANGED, {"wait": gate}, {"say": "1"})),
                      turn(steps(era, {"say": "2"}), (f"{era}__write", {})))
    wait_until(lambda: len(of(heard(folder, era), "tools/list")) > lists, "a new list")
    gateway.logged("event=listed", f"server={era}")
    with open(gate, "w", encoding="utf-8"):
        pass
    asked = client.event(task, "input_required", since)["data"]  # the tool has changed: it is no longer what was read
    assert asked["prompt"].endswith("The server has changed it since this task began.")
    client.call("respond", **ids(task), input_id=asked["input_id"], answer=True)
    events = list(client.events(task, since))
    assert results(events) == {"c0": ("2", False),
                               "c1": (f"the MCP server {era} no longer has the tool write", True)}
    assert set(offered(model.requests[1])) == {f"{era}__do", f"{era}__write"}
    talk.client.wait_terminal(talk.begin(era))
    assert offered(model.requests[0])[f"{era}__do"]["description"] == "does something else"
    assert f"{era}__fresh" in offered(model.requests[0])


def test_tool_that_has_changed_is_no_longer_allowed(talk, gateway, folder):
    conversation, lists = new_id(), len(of(heard(folder, "turns"), "tools/list"))
    write = {"name": "write", "description": "writes", "inputSchema": {"type": "object", "properties": {}}}
    answered(talk, "turns", [("turns__write", {})], "conversation", conversation=conversation)
    change(folder, "turns", DO, write)
    answered(talk, "turns", [steps("turns", CHANGED, {"say": "x"})], conversation=conversation)
    wait_until(lambda: len(of(heard(folder, "turns"), "tools/list")) > lists, "a new list")
    gateway.logged("event=listed", "server=turns")
    _, [asked] = answered(talk, "turns", [("turns__write", {})], "conversation", conversation=conversation)
    assert asked["prompt"] == "Call the tool write of the MCP server turns?"
    answered(talk, "turns", [("turns__write", {})], conversation=conversation)


# -------------------------------------------------------------- for the operator


def test_metrics_count_calls_and_failures(talk, gateway):
    def count(name, labels):
        text = gateway.http("GET", "/metrics")[2].decode()
        return int(text.split(f"{name}{{{labels}}} ")[1].split("\n")[0])

    calls, failed = count("holdfast_mcp_calls_total", 'server="mute"'), count(
        "holdfast_mcp_failures_total", 'server="mute",kind="refused"')
    talk.finish("mute", steps("mute", {"say": "x"}), steps("mute", {"error": {"code": 1, "message": "y"}}))
    assert count("holdfast_mcp_calls_total", 'server="mute"') == calls + 2
    assert count("holdfast_mcp_failures_total", 'server="mute",kind="refused"') == failed + 1
    assert count("holdfast_mcp_tools", 'server="mute"') == 2
    assert count("holdfast_mcp_restarts_total", 'server="mute"') == 0


# -------------------------------------------------------------- a restart


def test_restart_makes_calls_again_that_only_read_and_no_others(model, folder):
    servers = [scripted("reads", folder), scripted("acts", folder, approve="never")]
    change(folder, "acts", {key: value for key, value in DO.items() if key != "annotations"})
    with gateway_of(model, servers, [agent("a", "mcp:reads/*", "mcp:acts/*", default=True,
                                           after_restart="continue")]) as running:
        begun, acted, gate = (running.path() for _ in range(3))
        with contextlib.closing(Client(running)) as client:
            Talk(client, model).begin("a", turn(steps("reads", {"touch": begun}, {"wait": gate}, {"say": "read"}),
                                                steps("acts", {"touch": acted}, {"wait": running.path()})))
            wait_until(lambda: os.path.exists(begun) and os.path.exists(acted), "both calls")
            running.kill()
        with open(gate, "w", encoding="utf-8"):
            pass
        running.start()
        told = [message["content"] for message in model.wait_requests(2)[1].json["messages"]
                if message["role"] == "tool"]
        assert told == ["read", "error: the gateway restarted while this ran; whether it took effect is unknown"]
        assert set(offered(model.requests[1])) == {"reads__do", "reads__write", "acts__do"}
    assert len(of(heard(folder, "reads"), "tools/call")) == 2 and len(of(heard(folder, "acts"), "tools/call")) == 1
