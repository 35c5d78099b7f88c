"""A reader of a face that takes nothing costs a cursor, not a queue; and when it reads, it gets all of it."""

import json

import pytest

from gateway import SANITIZE, Gateway, wait_until
from holdfast import Client, ids
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


@pytest.fixture(scope="module")
def told():
    with Gateway(UNPACED) as gateway, Client(gateway) as client:
        task = client.chat({"flood": N, "bytes": BYTES}, {"hang": 1}, conversation="c")
        wait_until(lambda: client.call("task", **ids(task))["task"]["head"] > N, "the flood on disk")
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
