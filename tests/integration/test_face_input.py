"""Bad input is told in each protocol's own form, and what a protocol does not know is passed over."""

import http.client
import json

import pytest

from gateway import Gateway
from holdfast import Client, program
from wire import TEXT, Wire

SAYS = program({"token": "hello"})
USER = {"role": "user", "content": SAYS}
ENVELOPE = {"jsonrpc": "2.0", "id": 7}


def ours(body):
    return body["error"]["code"], body["error"]["message"]


def openai(body):
    error = body["error"]
    assert set(error) == {"message", "type", "param", "code"} and error["type"] == "invalid_request_error"
    return error["code"], error["message"]


def rpc(body):
    assert body["jsonrpc"] == "2.0" and "result" not in body
    return body["error"]["code"], body["error"]["message"]


def status(body):  # of google.rpc, as A2A's REST has it
    error = body["error"]
    return error["status"], error["message"]


def a2a(message):
    return {"message": {"messageId": "m", "role": "ROLE_USER", "parts": message}}


# path, a good body, the error in an answer, (status, code, words) of what is no JSON and of what is no object, and a good
# body's change with the same of it
FACES = {
    "AI SDK": ("/v1/ai/chat", {"id": "c", "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": SAYS}]}]},
               ours, (400, "bad_request", "not JSON"), (400, "bad_request", "not a JSON object"),
               {"messages": 3}, (400, "bad_request", '"messages" must be')),
    "Responses": ("/v1/responses", {"model": "script", "input": SAYS, "conversation": "c"}, openai,
                  (400, "bad_request", "not JSON"), (400, "bad_request", "JSON object"),
                  {"input": 3}, (400, "bad_request", '"input"')),
    "Chat Completions": ("/v1/chat/completions", {"model": "script", "messages": [USER], "conversation": "c"}, openai,
                         (400, None, "not JSON"), (400, None, "JSON object"),
                         {"messages": 3}, (400, None, "messages")),
    "AG-UI": ("/v1/ag-ui/script", {"threadId": "c", "runId": "r", "messages": [{"id": "m", **USER}]}, ours,
              (400, "bad_request", "not JSON"), (400, "bad_request", "not a JSON object"),
              {"messages": 3}, (400, "bad_request", '"messages" must be an array')),
    "A2A over JSON-RPC": ("/v1/a2a/script", {**ENVELOPE, "method": "SendMessage", "params": a2a([{"text": SAYS}])}, rpc,
                          (200, -32700, "JSON"), (200, -32600, ""), {"params": a2a(3)}, (200, -32602, "parts")),
    "A2A over REST": ("/v1/a2a/script/message:send", a2a([{"text": SAYS}]), status,
                      (400, "INVALID_ARGUMENT", "JSON"), (400, "INVALID_ARGUMENT", ""), a2a(3), (400, "INVALID_ARGUMENT", "parts")),
    "MCP": ("/v1/mcp", {**ENVELOPE, "method": "tools/call", "params": {"name": "script", "arguments": {"message": SAYS}}}, rpc,
            (400, -32700, "not JSON"), (400, -32600, "JSON object"), {"params": {"name": "script", "arguments": 3}}, (200, -32602, "")),
}
BEGIN = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}
PROMPT = {**ENVELOPE, "method": "session/prompt", "params": {"sessionId": "c", "prompt": [{"type": "text", "text": SAYS}]}}
SEND = {"type": "send", "requestId": "r", "id": "c", "trigger": "submit-message", "headers": {}, "body": {},
        "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": SAYS}]}]}
CREATE = {"type": "response.create", "model": "script", "input": SAYS, "conversation": "c"}


@pytest.fixture(scope="module")
def gateway():
    with Gateway({"limits": {"requests_per_second": 100_000, "burst": 100_000}}) as gateway:
        yield gateway


@pytest.fixture
def client(gateway):
    with Client(gateway) as client:
        yield client


def post(gateway, client, path, body):
    connection = http.client.HTTPConnection(gateway.host, gateway.port)
    head = {"Authorization": f"Bearer {client.token}", "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream", "Mcp-Session-Id": "c"}
    connection.request("POST", path, body, head)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, text


def tasks(client):
    return client.call("tasks", conversation_id="c")["tasks"]


@pytest.mark.parametrize("face", FACES)
def test_bad_body_is_told_in_the_protocols_form(gateway, client, face):
    path, good, error_of, no_json, no_object, change, expected = FACES[face]
    for body, (code_of_http, code, words) in [("{", no_json), ("3", no_object), (json.dumps({**good, **change}), expected)]:
        got, text = post(gateway, client, path, body)
        answer = json.loads(text)
        assert got == code_of_http, (body, text)
        found = error_of(answer)
        assert code is None or found[0] == code, (body, text)
        assert words in found[1], (body, text)
    assert tasks(client) == []


def with_more(value):
    """The same with a member more in each of its objects."""
    if isinstance(value, dict):
        return {**{key: with_more(item) for key, item in value.items()}, "x_unknown": {"deep": [1]}}
    return [with_more(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("face", FACES)
def test_unknown_members_are_passed_over(gateway, client, face):
    path, good, *_ = FACES[face]
    got, text = post(gateway, client, path, json.dumps(with_more(good)))
    assert got == 200, text
    assert b"hello" in text


# path, the frames that begin, a good one, a change of it, and what the frame about that says; `{` is answered by a frame, too
SOCKETS = {
    "AI SDK": ("/v1/ai", [], SEND, {"messages": 3}, '"messages" must be'),
    "Responses": ("/v1/responses", [], CREATE, {"input": 3}, "input"),
    "ACP": ("/v1/acp", [BEGIN], PROMPT, {"params": {"sessionId": "c", "prompt": 3}}, "-32602"),
}


@pytest.mark.parametrize("face", SOCKETS)
def test_bad_frame_is_told_and_unknown_members_are_passed_over(gateway, client, face):
    path, begin, good, change, words = SOCKETS[face]
    wire = Wire(gateway, path=f"{path}?token={client.token}", headers={"Sec-WebSocket-Protocol": None})
    for frame in begin:
        wire.text(json.dumps(frame))
        assert wire.until(TEXT)
    for frame, expected in [("{", "JSON" if face != "ACP" else "-32700"), (json.dumps({**good, **change}), words)]:
        wire.text(frame)
        answer = wire.until(TEXT).decode()
        assert "error" in answer and expected in answer.replace('\\"', '"')
    assert tasks(client) == []
    wire.text(json.dumps(with_more(good)))
    while b"hello" not in (frame := wire.until(TEXT)):
        assert b"error" not in frame.replace(b'"error":null', b""), frame
    wire.close()
