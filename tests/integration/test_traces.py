"""Traces: a task's spans reach a collector, whatever becomes of connections; and never the other way round."""

import json

import pytest

import model_server as m
from gateway import Gateway, script_agent, wait_until
from holdfast import Client, ids, new_id, program
from mcp_kit import agent, gateway_of, heard, of, scripted, steps, turn
from model_server import CLOSE, DONE, ModelServer, answer, call, finish, reply, text
from test_metrics import scrape

CALLER = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
TRACEPARENT = f"00-{CALLER}-{PARENT}-01"
STATE = 'rojo=00f067aa0ba902b7,congo=t61"rcWkgMzE'
CONTEXT = {"traceparent": TRACEPARENT, "tracestate": STATE}


class Collector(ModelServer):
    """Takes what is exported as OTLP says: 200 and an empty object."""

    def __init__(self, port=0):
        super().__init__("127.0.0.1", port=port)
        self.script = [[m.head(status=200, content_type="application/json", Content_Length=2) + b"{}", CLOSE]]

    def spans(self):
        found = []
        for request in list(self.requests):
            assert request.headers["Content-Type"] == "application/json"
            (resource,) = request.json["resourceSpans"]
            assert {a["key"] for a in resource["resource"]["attributes"]} >= {"service.name", "service.instance.id"}
            (scope,) = resource["scopeSpans"]
            found += scope["spans"]
        return found

    def of(self, task):
        return [s for s in self.spans() if attributes(s).get("holdfast.task.id") == task["task_id"]]

    def wait(self, task, n=1):
        """The span of the task comes last."""
        wait_until(lambda: [s for s in self.of(task) if s["name"].startswith("invoke_agent")], "its span")
        spans = self.of(task)
        assert len(spans) == n, spans
        return spans[-1], spans[:-1]


def attributes(span):
    return {a["key"]: a["value"].get("stringValue", a["value"].get("intValue")) for a in span["attributes"]}


def events(span):
    return [e["name"] for e in span.get("events", [])]


@pytest.fixture
def collector():
    running = Collector()
    yield running
    running.close()


def said(event, **data):
    return {"line": {"event": event, "data": data}}


def dump(path):
    wait_until(path.exists, "what the agent got")
    return json.loads(path.read_text())


def handed(path):
    """The context in the run line that the agent dumped."""
    return dump(path)["run"].get("traceparent")


def traced(collector, **more):
    return {"traces": {"url": collector.url + "/v1/traces", "retries": 0, **more.pop("traces", {})}, **more}


def test_trace_of_a_task_is_its_own_with_its_calls_and_questions(collector):
    with Gateway(traced(collector)) as gateway, Client(gateway) as client:
        task = client.chat(said("tool_call", call_id="c1", name="look", arguments={"at": "secret"}),
                           said("tool_result", call_id="c1", output="seen"),
                           said("tool_call", call_id="c2", name="look", arguments={}),
                           said("tool_result", call_id="c2", output="no", is_error=True),
                           {"question": "q", "kind": "question", "prompt": "who?"}, {"hear": "input"}, {"token": "x"})
        client.event(task, "input_required")
        client.call("respond", **ids(task), input_id="q", answer="me")
        client.wait_terminal(task)
        whole, parts = collector.wait(task, 4)
        assert [s["name"] for s in parts] == ["execute_tool look", "execute_tool look", "ask question"]
        assert whole["name"] == "invoke_agent script" and whole["kind"] == 2 and "parentSpanId" not in whole
        assert all(s["traceId"] == whole["traceId"] and s["parentSpanId"] == whole["spanId"] for s in parts)
        assert len({s["spanId"] for s in parts + [whole]}) == 4
        assert attributes(parts[0])["gen_ai.tool.call.id"] == "c1"
        assert [s["status"]["code"] for s in parts] == [1, 2, 1]
        assert attributes(whole)["gen_ai.conversation.id"] == task["conversation_id"]
        record = client.call("task", **ids(task))["task"]
        assert int(whole["startTimeUnixNano"]) == record["created_at"] * 10**6
        assert int(whole["endTimeUnixNano"]) == record["completed_at"] * 10**6
        assert all(int(s["startTimeUnixNano"]) <= int(s["endTimeUnixNano"]) for s in parts)
        sent = b"".join(request.body for request in collector.requests)
        assert b"secret" not in sent and b"seen" not in sent and b"who?" not in sent
        wait_until(lambda: scrape(gateway)[1]['holdfast_trace_spans_total{outcome="sent"}'] == 4, "the count")


def test_trace_of_the_caller_goes_on_in_the_task_its_run_and_its_child(collector, tmp_path):
    with Gateway(traced(collector)) as gateway, Client(gateway) as client:
        head = {"Authorization": "Bearer " + client.token, "Content-Type": "application/json", **CONTEXT}
        dumped = tmp_path / "run"
        body = {"message": program({"dump": str(dumped)}, {"call": "spawn", "call_id": "s", "agent": "script",
                                                           "input": program({"token": "child"})})}
        status, _, answer = gateway.http("POST", f"/v1/conversations/{new_id()}/tasks", json.dumps(body), head)
        task = json.loads(answer)["task"]
        assert status == 201 and task["metadata"] == CONTEXT
        whole, _ = collector.wait(task)
        assert (whole["traceId"], whole["parentSpanId"]) == (CALLER, PARENT)
        wait_until(lambda: len(collector.spans()) == 2, "the child's")
        child = [s for s in collector.spans() if s is not whole and s["spanId"] != whole["spanId"]][0]
        assert (child["traceId"], child["parentSpanId"], child["kind"]) == (CALLER, whole["spanId"], 1)
        own = {"traceparent": f"00-{CALLER}-{whole['spanId']}-01", "tracestate": STATE}
        got = dump(dumped)
        assert {key: got["run"][key] for key in own} == own
        assert {key: got["environ"][key.upper()] for key in own} == own
        assert whole["traceState"] == child["traceState"] == STATE


def test_trace_in_the_environment_is_the_agents_own_when_it_has_one(tmp_path):
    config = {"agents": [script_agent(default=True, env={"TRACEPARENT": "mine"})]}
    with Gateway(config) as gateway, Client(gateway) as client:
        for i, given in enumerate((CONTEXT, {"traceparent": TRACEPARENT}, {})):
            client.finish({"dump": str(tmp_path / str(i))}, **({"metadata": given} if given else {}))
            environ = dump(tmp_path / str(i))["environ"]
            assert (environ["TRACEPARENT"], environ.get("TRACESTATE")) == ("mine", given.get("tracestate"))


@pytest.mark.parametrize("given", ["no", "k=v=w", ",".join(f"k{i}=v" for i in range(33)), 5])
def test_trace_goes_on_without_a_state_that_cannot_be_read(collector, tmp_path, given):
    with Gateway(traced(collector)) as gateway, Client(gateway) as client:
        dumped = tmp_path / "run"
        task, _ = client.finish({"dump": str(dumped)}, metadata={"traceparent": TRACEPARENT, "tracestate": given})
        whole, _ = collector.wait(task)
        assert whole["parentSpanId"] == PARENT and "traceState" not in whole
        assert "tracestate" not in dump(dumped)["run"] and "TRACESTATE" not in dump(dumped)["environ"]


def test_trace_of_the_head_and_of_the_metadata_do_not_mix(tmp_path):
    """A tracestate counts with the traceparent beside it alone."""
    with Gateway() as gateway, Client(gateway) as client:
        other = f"00-{PARENT}{PARENT}-{PARENT}-01"
        for i, (head, metadata, expected) in enumerate([
                (CONTEXT, {"traceparent": other}, (other, None)),
                ({"traceparent": TRACEPARENT}, {"tracestate": "k=v"}, (TRACEPARENT, None)),
                (CONTEXT, {"tracestate": "k=v"}, (TRACEPARENT, STATE)),
                ({"tracestate": STATE}, {}, (None, None))]):
            dumped = tmp_path / str(i)
            status, _, _ = gateway.http(
                "POST", f"/v1/conversations/{new_id()}/tasks",
                json.dumps({"message": program({"dump": str(dumped)}), "metadata": metadata}),
                {"Authorization": "Bearer " + client.token, "Content-Type": "application/json", **head})
            assert status == 201
            run = dump(dumped)["run"]
            assert (run.get("traceparent"), run.get("tracestate")) == expected


def test_trace_of_metadata_counts_and_what_is_none_begins_anew(collector):
    with Gateway(traced(collector)) as gateway, Client(gateway) as client:
        for given, parent in ((TRACEPARENT, PARENT), (TRACEPARENT.upper(), None), ("00-0-0-01", None), (5, None)):
            task, _ = client.finish({"token": "x"}, metadata={"traceparent": given})
            whole, _ = collector.wait(task)
            assert whole.get("parentSpanId") == parent and (whole["traceId"] == CALLER) == (parent is not None)


def test_trace_that_the_caller_does_not_sample_is_handed_on_and_not_told(collector, tmp_path):
    with Gateway(traced(collector, traces={"percent": 0})) as gateway, Client(gateway) as client:
        told = []
        for i, given in enumerate((TRACEPARENT[:-2] + "00", None, TRACEPARENT)):
            dumped = tmp_path / str(i)
            last, _ = client.finish({"dump": str(dumped)}, **({"metadata": {"traceparent": given}} if given else {}))
            told.append(handed(dumped))
        collector.wait(last)
        assert len(collector.spans()) == 1
        assert [t[-3:] for t in told] == ["-00", "-00", "-01"]
        assert told[0][3:35] == told[2][3:35] == CALLER != told[1][3:35]


def test_trace_is_handed_to_a_model_and_its_turns_are_spans(collector):
    server = ModelServer()
    server.script = [reply(call(0, "c1", "calculator", '{"expression":"6*7"}'), finish("tool_calls"), DONE),
                     reply(text("42"), finish(), m.usage(10, 2), DONE)]
    config = traced(collector, models=[{"name": "m", "base_url": server.url, "model": "x"}],
                    agents=[{"name": "a", "kind": "react", "model": "m", "tools": ["calculator"], "default": True}])
    try:
        with Gateway(config) as gateway, Client(gateway) as client:
            task = client.call("chat", message="what?", metadata=CONTEXT)["task"]
            client.wait_terminal(task)
            whole, parts = collector.wait(task, 2)
            assert [s["name"] for s in parts] == ["execute_tool calculator"]
            turns = [s for s in collector.spans() if s["name"] == "chat m"]
            assert [s["kind"] for s in turns] == [3, 3]
            assert all(s["parentSpanId"] == whole["spanId"] and s["traceId"] == CALLER for s in turns)
            assert [request.headers["traceparent"] for request in server.requests] == [
                f"00-{CALLER}-{s['spanId']}-01" for s in turns]
            assert [request.headers["tracestate"] for request in server.requests] == [STATE, STATE]
            assert all(events(s) == ["first_token"] for s in turns)
            assert attributes(turns[1])["gen_ai.usage.input_tokens"] == "10"
    finally:
        server.close()


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_trace_is_handed_to_an_mcp_server_with_its_call(collector, tmp_path, era):
    server = ModelServer()
    server.script = [turn(steps("s", {"say": "x"})), answer("done")]
    servers = [scripted("s", tmp_path, era, approve="never")]
    try:
        with gateway_of(server, servers, [agent("a", "mcp:s/do", default=True)], **traced(collector)) as gateway, \
                Client(gateway) as client:
            task = client.call("chat", message="go", metadata=CONTEXT)["task"]
            client.wait_terminal(task)
            _, parts = collector.wait(task, 2)
            (asked,) = of(heard(tmp_path, "s"), "tools/call")
            assert parts[0]["name"] == "execute_tool s__do"
            assert asked["params"]["_meta"]["traceparent"] == f"00-{CALLER}-{parts[0]['spanId']}-01"
            assert asked["params"]["_meta"]["tracestate"] == STATE
    finally:
        server.close()


def test_trace_is_handed_to_webhooks(collector, tmp_path):
    receiver = ModelServer("127.0.0.2")
    receiver.script = [[m.head(status=204, Content_Length=0), CLOSE]]
    (tmp_path / "secret").write_bytes(b"0123456789abcdef0123456789abcdef")
    hooks = {"webhooks": [{"name": "h", "url": receiver.url + "/all", "secret_file": str(tmp_path / "secret")}],
             "webhook_allow": ["127.0.0.2"]}
    try:
        with Gateway(traced(collector, **hooks)) as gateway, Client(gateway) as client:
            task, _ = client.finish({"token": "x"}, metadata=CONTEXT,
                                    webhook={"url": receiver.url + "/one"})
            whole, _ = collector.wait(task)
            wait_until(lambda: len(receiver.requests) == 2, "both")
            for request in receiver.requests:
                assert request.headers["traceparent"] == request.json["traceparent"] == f"00-{CALLER}-{whole['spanId']}-01"
                assert request.headers["tracestate"] == request.json["tracestate"] == STATE
    finally:
        receiver.close()


def test_trace_without_a_collector_passes_on_as_it_came():
    server = ModelServer()
    server.script = [reply(m.data({"event": "token", "data": {"text": "x"}}))]
    config = {"agents": [{"name": "a", "kind": "http", "url": server.url, "default": True}]}
    try:
        with Gateway(config) as gateway, Client(gateway) as client:
            for given in (CONTEXT, None):
                task = client.call("chat", message="x", **({"metadata": given} if given else {}))["task"]
                client.wait_terminal(task)
            assert [r.headers.get("traceparent") for r in server.requests] == [TRACEPARENT, None]
            assert [r.json.get("traceparent") for r in server.requests] == [TRACEPARENT, None]
            assert [r.headers.get("tracestate") for r in server.requests] == [STATE, None]
    finally:
        server.close()


def test_trace_of_a_cancelled_task_and_of_one_that_is_cut_off(collector):
    with Gateway(traced(collector)) as gateway, Client(gateway) as client:
        task = client.chat(said("tool_call", call_id="c", name="long", arguments={}), {"hang": 1})
        client.event(task, "tool_call")
        client.call("cancel", **ids(task))
        client.wait_terminal(task)
        whole, parts = collector.wait(task, 2)
        assert "cancel" in events(whole) and attributes(whole)["holdfast.task.status"] == "cancelled"
        assert whole["status"]["code"] == 2 and parts[0]["status"]["message"] == "the task ended"


def test_trace_goes_on_over_a_kill_of_the_gateway(collector):
    with Gateway(traced(collector), lasting=True) as gateway:
        with Client(gateway) as client:
            task = client.chat({"token": "a"}, {"hang": 1}, metadata={"traceparent": TRACEPARENT})
            client.event(task, "token")
            token = client.token
        gateway.kill()
        gateway.start()
        with Client(gateway, token=token) as client:
            client.call("cancel", **ids(task))
            whole, _ = collector.wait(task)
            assert (whole["traceId"], whole["parentSpanId"]) == (CALLER, PARENT)
            assert "resumed" in events(whole)


def test_trace_tells_what_was_under_way_at_a_kill_of_the_gateway(collector):
    """The call from its beginning, with the id that it had; what had ended before is not told twice."""
    with Gateway(traced(collector), lasting=True) as gateway:
        with Client(gateway) as client:
            task = client.chat(said("tool_call", call_id="a", name="before", arguments={}),
                               said("tool_result", call_id="a", output="x"),
                               said("tool_call", call_id="b", name="over", arguments={}),
                               {"question": "q", "kind": "question", "prompt": "who?"}, {"hear": "input"},
                               said("tool_result", call_id="b", output="y"), {"hang": 1})
            client.event(task, "input_required")
            began = {e["data"].get("call_id") or e["data"]["input_id"]: e["ts"] for e in client.events_since(task)
                     if e["event"] in ("tool_call", "input_required")}
            wait_until(lambda: len(collector.of(task)) == 1, "the call that has ended")
            token = client.token
        gateway.kill()
        gateway.start()
        with Client(gateway, token=token) as client:
            client.resume(task, 0)
            client.event(task, "task.resumed")
            client.call("respond", **ids(task), input_id="q", answer="me")
            client.expect(lambda line: line.get("event") == "tool_result" and line["data"]["call_id"] == "b")
            client.call("cancel", **ids(task))
            whole, parts = collector.wait(task, 4)
        assert [s["name"] for s in parts] == ["execute_tool before", "ask question", "execute_tool over"]
        assert [int(s["startTimeUnixNano"]) for s in parts] == [began[i] * 10**6 for i in ("a", "q", "b")]
        assert all(s["parentSpanId"] == whole["spanId"] and s["status"]["code"] == 1 for s in parts)


def test_trace_of_a_task_that_a_restart_ends_is_told(collector):
    with Gateway(traced(collector)) as gateway:
        with Client(gateway) as client:
            task = client.chat({"token": "a"}, {"hang": 1}, metadata={"traceparent": TRACEPARENT})
            client.event(task, "token")
        gateway.kill()
        gateway.start()
        whole, _ = collector.wait(task)
        assert whole["parentSpanId"] == PARENT and attributes(whole)["error.type"] == "orphaned"


def test_trace_of_a_collector_that_is_away_costs_spans_and_nothing_else():
    away = Collector()
    port = away.port
    away.close()
    with Gateway({"traces": {"url": f"http://127.0.0.1:{port}/v1/traces", "retries": 0}}) as gateway, \
            Client(gateway) as client:
        for _ in range(3):
            assert client.finish({"token": "x"})[1][-1]["event"] == "task.completed"
        wait_until(lambda: scrape(gateway)[1]['holdfast_trace_spans_total{outcome="dropped"}'] == 3, "the count")
        gateway.logged("component=traces", "event=not_sent")
        assert gateway.stop() == 0


def test_trace_that_waits_is_sent_at_the_stop(collector):
    with Gateway(traced(collector)) as gateway, Client(gateway) as client:
        tasks = [client.finish({"token": "x"})[0] for _ in range(5)]
        assert gateway.stop() == 0
        assert {attributes(s)["holdfast.task.id"] for s in collector.spans()} == {t["task_id"] for t in tasks}
