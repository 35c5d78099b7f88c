"""MCP servers over streamable HTTP, played byte by byte: both protocol versions, and replies of every bad kind."""

import json
import threading

import pytest

from gateway import free_port, wait_until
from mcp_kit import agent, data, gateway_of, results, turn
from model_server import CLOSE, RESET, ModelServer, head, reply

TOOL = {"name": "t", "inputSchema": {"type": "object", "properties": {}}, "annotations": {"readOnlyHint": True}}
HEADED = {"name": "h", "annotations": {"readOnlyHint": True}, "inputSchema": {"type": "object", "properties": {
    "region": {"type": "string", "x-mcp-header": "Region"}, "n": {"type": "integer", "x-mcp-header": "N"}}}}


def whole(message, **how):
    """A reply that is one message."""
    return reply(json.dumps(message).encode(), content_type="application/json", **how)


def stream(*events, **how):
    return [head(**how), *[event if isinstance(event, bytes) else sse(event) for event in events], CLOSE]


def sse(message, id=None):
    return (f"id: {id}\n" if id else "").encode() + f"data: {json.dumps(message)}\n\n".encode()


def answer_to(request, **members):
    return {"jsonrpc": "2.0", "id": request.json["id"], **members}


def text(value):
    return {"content": [{"type": "text", "text": value}], "resultType": "complete"}


class McpServer(ModelServer):
    """A server of one of the two versions; `call` says what a tools/call is answered with."""

    def __init__(self, era, **where):
        super().__init__(**where)
        self.era, self.session, self.call, self.get = era, "s-1", None, None
        self.status = None  # of every reply, when set
        self.script = self.answer

    def answer(self, request):
        if self.status:
            return self.status
        if request.method == "GET":
            return self.get(request) if self.get else reply(status=405)
        message = request.json
        method, era = message.get("method"), self.era
        if method == "server/discover" and era == "legacy":
            return whole({"error": {"code": -32000, "message": "Bad Request: Server not initialized"}, "id": None},
                         status=400)
        if method == "server/discover":
            return whole(answer_to(request, result={"supportedVersions": ["2026-07-28"], "ttlMs": 60000,
                                                    "capabilities": {"tools": {}}}))
        if era == "legacy" and method != "initialize" and request.headers["Mcp-Session-Id"] != self.session:
            return whole({"error": {"code": -32000, "message": "No valid session ID provided"}}, status=400)
        if method == "initialize":
            return stream(answer_to(request, result={"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}),
                          Mcp_Session_Id=self.session)
        if method == "tools/list":
            return whole(answer_to(request, result={"tools": [TOOL, HEADED], "ttlMs": 60000}))
        if method == "tools/call":
            return self.call(request)
        return reply(status=202)

    def calls(self, method="tools/call"):
        return [request for request in self.requests if request.method == "POST" and request.json.get("method") == method]


@pytest.fixture(scope="module")
def servers():
    running = {"new": McpServer("modern"), "old": McpServer("legacy"), "shut": McpServer("modern"),
               "lost": McpServer("legacy")}
    running["shut"].status = reply(b'{"error":"who are you?"}', status=401, content_type="application/json")
    yield running
    for server in running.values():
        server.close()


@pytest.fixture(scope="module")
def gateway(model, servers, tmp_path_factory):
    secret = tmp_path_factory.mktemp("mcp") / "headers"
    secret.write_text("# the key\nAuthorization: Bearer s3cr3t-value\n\nX-Team: a b\n")
    entries = [{"name": name, "url": f"{server.url}/mcp", "headers": {"X-From": "holdfast"}, "timeout_s": 20}
               for name, server in servers.items()]
    entries[0]["headers_file"] = str(secret)
    agents = [agent(name, f"mcp:{name}/*", default=name == "new") for name in servers]
    with gateway_of(model, entries, agents) as running:
        yield running


@pytest.fixture
def ask(talk, servers):
    def run(name, call, tool="t", **arguments):
        servers[name].requests.clear()
        servers[name].call = call
        got, events = talk.finish(name, (f"{name}__{tool}", arguments))
        return got["c0"], events

    return run


ERAS = ["new", "old"]
UNKNOWN = "whether it took effect is unknown"


@pytest.mark.parametrize("era", ERAS)
def test_answer_is_a_message_or_a_stream(ask, era):
    assert ask(era, lambda request: whole(answer_to(request, result=text("one"))))[0] == ("one", False)
    progress = {"method": "notifications/progress", "params": {"progress": 1, "total": 2}}

    def streamed(request):
        progress["params"]["progressToken"] = request.json["params"]["_meta"]["progressToken"]
        return stream(b": hello\n\n", progress, answer_to(request, result=text("two")))

    got, events = ask(era, streamed)
    assert got == ("two", False) and data(events, "progress")[0]["progress"] == 0.5


def test_headers_of_both_versions(ask, servers):
    ask("new", lambda request: whole(answer_to(request, result=text("x"))), tool="h", region="Köln", n=7)
    [sent] = servers["new"].calls()
    names = {name: sent.headers[name] for name in ("MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "Authorization",
                                                   "X-Team", "X-From", "Mcp-Param-Region", "Mcp-Param-N")}
    assert names == {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "h",
                     "Authorization": "Bearer s3cr3t-value", "X-Team": "a b", "X-From": "holdfast",
                     "Mcp-Param-Region": "=?base64?S8O2bG4=?=", "Mcp-Param-N": "7"}
    ask("old", lambda request: whole(answer_to(request, result=text("x"))))
    [sent] = servers["old"].calls()
    assert (sent.headers["MCP-Protocol-Version"], sent.headers["Mcp-Session-Id"]) == ("2025-06-18", "s-1")
    assert sent.headers["Mcp-Method"] is None
    assert "text/event-stream" in sent.headers["Accept"] and "application/json" in sent.headers["Accept"]


def test_header_of_the_configuration_is_taken_out_of_a_result(ask):
    got, _ = ask("new", lambda request: whole(answer_to(request, result=text("it is s3cr3t-value"))))
    assert got == ("it is ***", False)


@pytest.mark.parametrize("era", ERAS)
def test_errors_are_read_from_their_bodies(ask, era):
    error = {"code": -32602, "message": "Tool t not found"}
    for status in (200, 400, 404):
        got, _ = ask(era, lambda request, s=status: whole(answer_to(request, error=error), status=s))
        assert got == ("Tool t not found", True)


@pytest.mark.parametrize("made,why", [
    (lambda request: reply(b"<html>Hello</html>", content_type="text/html"), "the reply is no message of MCP"),
    (lambda request: reply(b"{}", content_type="application/json"), "the connection ended without an answer"),
    (lambda request: stream(b": nothing\n\n"), "the connection ended without an answer"),
    (lambda request: reply(b"oops", status=500, content_type="text/plain"), "HTTP 500: oops"),
    (lambda request: reply(status=302, Location="http://127.0.0.1:1/"), "HTTP 302"),
    (lambda request: [head(Content_Length=100), b"data: {", CLOSE], "the connection broke off"),
    (lambda request: [RESET], UNKNOWN),
    (lambda request: whole({"jsonrpc": "2.0", "id": 4711, "result": {}}), "the connection ended without an answer")])
@pytest.mark.parametrize("era", ERAS)
def test_reply_that_is_no_answer_is_told(ask, era, made, why):
    (output, failed), _ = ask(era, made)
    assert failed and why in output, output
    assert ask(era, lambda request: whole(answer_to(request, result=text("alive"))))[0] == ("alive", False)


def test_server_that_does_not_know_us_is_told(talk):
    _, events = talk.finish("shut")
    [missing] = data(events, "custom")[0]["payload"]["tools"]
    assert missing["server"] == "shut" and "it is not authorized: HTTP 401" in missing["why"]


def test_session_that_is_gone_is_begun_anew_and_the_call_made_again(ask, servers):
    server = servers["lost"]
    assert ask("lost", lambda request: whole(answer_to(request, result=text("1"))))[0] == ("1", False)
    server.session = "s-2"  # it has forgotten the first
    assert ask("lost", lambda request: whole(answer_to(request, result=text("2"))))[0] == ("2", False)
    assert [request.headers["Mcp-Session-Id"] for request in server.calls()] == ["s-1", "s-2"]


def test_cut_stream_is_resumed_from_its_last_event(ask, servers):
    made = {}

    def cut(request):
        made["request"] = request
        return stream(b"id: e-1\nretry: 10\ndata: \n\n")

    def resumed(request):
        last = request.headers["Last-Event-ID"]
        if last == "e-1":  # more events, and again no answer
            return [head(Content_Length=9999), sse({"method": "notifications/message", "params": {}}, id="e-2"), CLOSE]
        return stream(sse(answer_to(made["request"], result=text(last)), id="e-3"))

    servers["old"].get = resumed
    got, _ = ask("old", cut)
    servers["old"].get = None
    assert got == ("e-2", False)
    assert len(servers["old"].calls()) == 1


def test_question_comes_on_the_stream_of_its_call(talk, servers):
    client, server = talk.client, servers["old"]
    form = {"message": "Name?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}

    answers = {}  # of two calls, each with a question of its own on its own stream

    def call(request):
        key = request.json["params"]["arguments"]["key"]
        gate = threading.Event()
        answers[key] = {"gate": gate}

        def steps():
            yield head()
            yield sse({"jsonrpc": "2.0", "id": key, "method": "elicitation/create", "params": form})
            yield gate
            yield sse(answer_to(request, result=text(answers[key]["name"])))
            yield CLOSE

        return steps()

    def other(request):
        message = request.json
        if "method" not in message:
            entry = answers[message["id"]]
            entry["name"] = message["result"]["content"]["name"]
            entry["gate"].set()
            return reply(status=202)
        return call(request) if message["method"] == "tools/call" else server.answer(request)

    server.script = other
    since = len(client.log)
    task = talk.begin("old", turn(("old__t", {"key": "a"}), ("old__t", {"key": "b"})))
    seen = {}
    while len(seen) < 2:
        question = client.expect(lambda line: line.get("event") == "input_required"
                                 and line["data"]["input_id"] not in seen, since)["data"]
        seen[question["input_id"]] = question["arguments"]["key"]
    for input_id, key in seen.items():
        client.call("respond", conversation_id=task["conversation_id"], task_id=task["task_id"], input_id=input_id,
                    answer=f"name of {key}")
    events = list(client.events(task, since))
    server.script = server.answer
    assert results(events) == {"c0": ("name of a", False), "c1": ("name of b", False)}


def test_cancel_closes_the_stream_of_a_modern_call(talk, servers):
    never = threading.Event()
    servers["new"].requests.clear()
    servers["new"].call = lambda request: [head(), b": begun\n\n", never, CLOSE]
    task = talk.begin("new", turn(("new__t", {})))
    [request] = wait_until(servers["new"].calls, "the call")
    talk.client.call("cancel", conversation_id=task["conversation_id"], task_id=task["task_id"])
    talk.client.wait_terminal(task)
    wait_until(lambda: request.left, "the end of its stream")
    assert not servers["new"].calls("notifications/cancelled")


def test_server_that_is_gone_comes_back(model):
    port = free_port()
    with gateway_of(model, [{"name": "away", "url": f"http://127.0.0.1:{port}/mcp"}],
                    [agent("a", "mcp:away/*", default=True)]) as running:
        running.logged("event=down", "server=away")
        server = McpServer("modern", port=port)
        try:
            running.logged("event=ready", "server=away", "tools=2")
        finally:
            server.close()
