"""A reader of a face that takes nothing costs a cursor, not a queue; and when it reads, it gets all of it."""

import base64
import http.client
import json
import socket

import pytest

from gateway import SANITIZE, Gateway, wait_until
from holdfast import Client, ids, program
from wire import TEXT, Wire

MIB = 1 << 20
N, BYTES = 20_000, 1000  # 20 MB of text: each token is its number, a space, and so many characters
SIZE = sum(len(str(n)) + 1 + BYTES for n in range(1, N + 1))
UNPACED = {"limits": {"requests_per_second": 100_000, "burst": 100_000}}


def acp(method, id, **params):
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


# path, the frames that ask for a conversation's last turn, the text in a frame
SOCKETS = {
    "AI SDK": ("/v1/ai?", [{"type": "resume", "requestId": "r", "id": "c", "headers": {}, "body": {}}],
               lambda frame: frame.get("chunk", {}).get("delta", "")),
    "ACP": ("/v1/acp?", [acp("initialize", 0, protocolVersion=1), acp("session/load", 1, sessionId="c", cwd="/", mcpServers=[])],
            lambda frame: frame["params"]["update"]["content"]["text"]
            if frame.get("params", {}).get("update", {}).get("sessionUpdate") == "agent_message_chunk" else ""),
}


RESULT = {"jsonrpc": "2.0", "id": 1, "method": "tasks/result", "params": {"taskId": "{id}", "_meta": {"progressToken": 1}}}
COMPLETION = {"model": "script", "stream": True, "conversation": "c", "messages": [{"role": "user", "content": "{message}"}]}


def delta(said):
    return said["choices"][0]["delta"].get("content") or "" if said.get("choices") else ""


def a2a_text(said):  # all of it is one artifact in one task, and what follows comes in pieces
    artifacts = said.get("task", {}).get("artifacts", []) or [said.get("artifactUpdate", {}).get("artifact", {})]
    return "".join(part["text"] for artifact in artifacts for part in artifact.get("parts", []))


# method, path, body, the text in a message
STREAMS = {
    "AI SDK": ("GET", "/v1/ai/chat/c/stream", "", lambda said: said.get("delta", "")),
    "Responses": ("GET", "/v1/responses/resp_{id}?stream=true", "",
                  lambda said: said["delta"] if said["type"] == "response.output_text.delta" else ""),
    "AG-UI": ("GET", "/v1/ag-ui/script/c", "", lambda said: said.get("delta", "")),
    "Chat Completions": ("POST", "/v1/chat/completions", json.dumps(COMPLETION), delta),
    "A2A": ("POST", "/v1/a2a/script/tasks/{id}:subscribe", "", a2a_text),
    "Durable Streams": ("GET", "/v1/stream/c/{task}?offset=-1&live=sse", "", lambda said: "".join(
        event["data"]["text"] for event in said if event["event"] == "token") if isinstance(said, list) else ""),
    "MCP": ("POST", "/v1/mcp", json.dumps(RESULT), lambda said: said.get("params", {}).get("message", "")),
}


@pytest.fixture(scope="module")
def told():
    with Gateway(UNPACED) as gateway, Client(gateway) as client:
        gateway.said = program({"flood": N, "bytes": BYTES}, {"hang": 1})
        task = client.chat(gateway.said, conversation="c", request_key="flood", agent="script")
        wait_until(lambda: client.call("task", **ids(task))["task"]["head"] > N, "the flood on disk")
        gateway.one_id = base64.urlsafe_b64encode(b"c").decode().rstrip("=") + "." + task["task_id"]
        gateway.task = task["task_id"]
        yield gateway, client
        client.call("cancel", **ids(task))


@pytest.mark.parametrize("face", SOCKETS)
def test_reader_that_takes_nothing_costs_a_cursor(told, face):
    gateway, client = told
    path, frames, text_of = SOCKETS[face]
    heap = gateway.heap()
    wires = [Wire(gateway, path=f"{path}token={client.token}", headers={"Sec-WebSocket-Protocol": None}, rcvbuf=4096)
             for _ in range(20)]
    for wire in wires:
        for frame in frames:
            wire.text(json.dumps(frame))
    n = 0
    while n < SIZE:
        payload = wires[0].until(TEXT)
        assert payload is not None, f"it ended after {n} bytes"
        n += len(text_of(json.loads(payload)))
    assert n == SIZE
    if not SANITIZE:
        grown = gateway.heap() - heap
        assert grown < 20 * MIB, f"{grown / MIB:.1f} MiB for twenty readers of {SIZE / MIB:.0f} each"
    for wire in wires:
        wire.close()


def deaf(gateway, method, path, body, headers):
    """A request whose answer nobody reads."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect((gateway.host, gateway.port))
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    sock.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n{head}\r\n{body}".encode())
    return sock


@pytest.mark.parametrize("face", STREAMS)
def test_stream_that_nobody_reads_costs_a_cursor(told, face):
    gateway, client = told
    method, path, body, text_of = STREAMS[face]
    path = path.replace("{id}", gateway.one_id).replace("{task}", gateway.task)
    body = body.replace("{id}", gateway.one_id).replace('"{message}"', json.dumps(gateway.said))
    headers = {"Authorization": f"Bearer {client.token}", "Content-Type": "application/json", "Idempotency-Key": "flood",
               "Accept": "application/json, text/event-stream"}
    heap = gateway.heap()
    socks = [deaf(gateway, method, path, body, headers) for _ in range(5)]
    connection = http.client.HTTPConnection(gateway.host, gateway.port)
    connection.request(method, path, body or None, headers)
    n = 0
    answer = connection.getresponse()
    assert answer.status == 200
    while n < SIZE:
        line = answer.readline()
        assert line, f"it ended after {n} bytes"
        if line.startswith(b"data:") and line[5:].strip() not in (b"", b"[", b"]"):
            n += len(text_of(json.loads(line[5:])))
    assert n == SIZE
    if not SANITIZE:
        grown = gateway.heap() - heap
        assert grown < 20 * MIB, f"{grown / MIB:.1f} MiB for five readers of {SIZE / MIB:.0f} each"
    for sock in socks:
        sock.close()
    connection.close()
