"""Agents of kind http with the form langgraph, against a server that sends what a real one has sent.

The streams are those of @langchain/langgraph-api 1.5.1 (tests/forms/langgraph_*.sse); test_programs.py has the real one.
"""

import json
import threading

import pytest

from gateway import Gateway, wait_until
from holdfast import ids, text_of
from model_server import CLOSE, head
from peers import TESTS

THREAD = "0a1b2c3d-0000-4000-8000-000000000001"


def recorded(name):
    return (TESTS / "forms" / f"langgraph_{name}.sse").read_bytes()


def run_id(stream):
    return json.loads(stream.split(b"data: ")[1].split(b"\n")[0])["run_id"]


def chunked(*steps, **how):
    """A stream in one chunk for each piece; the last one ends it."""
    pieces = [b"%x\r\n%s\r\n" % (len(s), s) if isinstance(s, bytes) else s for s in steps]
    return [head(Transfer_Encoding="chunked", **how), *pieces, b"0\r\n\r\n", CLOSE]


def cut(*steps):
    """Its end is missing.  (A reset could destroy what was sent before it.)"""
    return chunked(*steps)[:-2] + [CLOSE]


def body(value, status=200):
    return [head(status, "application/json", Content_Length=len(json.dumps(value))),
            json.dumps(value).encode(), CLOSE]


@pytest.fixture(scope="module")
def gateway(server):
    with Gateway({"agents": [{"name": "graph", "kind": "http", "form": "langgraph", "url": server.url + "/",
                              "model": "agent", "retries": 2, "grace_s": 30, "default": True}]}) as running:
        yield running


@pytest.fixture
def routes(server):
    """A reply, or a list of them, by the end of a path; threads are made."""
    table = {"/threads": body({"thread_id": THREAD})}

    def answer(request):
        for end, replies in table.items():
            if request.path.endswith(end):
                return replies.pop(0) if isinstance(replies[0], list) else replies
        return body({"detail": "Not Found"}, 404)

    server.requests.clear()
    server.script = answer
    yield table
    server.script = []


def paths(server):
    return [f"{request.method} {request.path.replace(THREAD, 'T')}" for request in server.requests]


def test_conversation_is_a_thread(client, server, routes):
    routes["/runs/stream"] = chunked(recorded("says"))
    task, events = client.finish("hi")
    assert (task["status"], task["output"]) == ("completed", "Hello there, my friend. ")
    assert text_of(events) == "Hello there, my friend. "
    assert [e["data"] for e in events if e["event"] == "custom"] == [
        {"event_type": "custom", "payload": {"note": "custom thing"}}]
    client.finish("again", conversation=task["conversation_id"])
    assert paths(server) == ["POST /threads", "POST /threads/T/runs/stream", "POST /threads/T/runs/stream"]
    assert [r.json["input"]["messages"] for r in server.requests[1:]] == [
        [{"role": "user", "content": "hi"}], [{"role": "user", "content": "again"}]]
    assert server.requests[1].json["assistant_id"] == "agent"


def test_thread_that_the_server_has_lost_is_made_anew(client, server, routes):
    routes["/runs/stream"] = [chunked(recorded("says")), body({"detail": "Thread not found"}, 404),
                              chunked(recorded("says"))]
    task, _ = client.finish("hi")
    task, _ = client.finish("again", conversation=task["conversation_id"])
    assert task["status"] == "completed"
    assert paths(server)[2:] == ["POST /threads/T/runs/stream", "POST /threads", "POST /threads/T/runs/stream"]
    assert len(server.requests[-1].json["input"]["messages"]) == 3


@pytest.mark.parametrize("has_ids", [True, False])
def test_cut_goes_on_behind_the_last_event(client, server, routes, has_ids):
    stream = recorded("says")
    if not has_ids:
        stream = b"\n".join(line for line in stream.split(b"\n") if not line.startswith(b"id:"))
    events = stream.strip().split(b"\n\n")
    run = run_id(stream)
    routes["/runs/stream"] = cut(b"\n\n".join(events[:3]) + b"\n\n", events[3][:30])
    routes[f"{run}/stream"] = [body({"detail": "busy"}, 503), cut(b": hello\n\n"),
                               chunked(b"\n\n".join(events[3 if has_ids else 5:]) + b"\n\n")]
    routes[f"{run}/join"] = body({"messages": [{"type": "ai", "content": "Hello there, my friend. "}]})
    task, said = client.finish("hi")
    assert (task["status"], task["output"]) == ("completed", "Hello there, my friend. "), task
    assert text_of(said) == ("Hello there, my friend. " if has_ids else "Hello friend. ")
    assert server.requests[2].headers["Last-Event-ID"] == ("2" if has_ids else None)
    assert paths(server)[-1] == f"GET /threads/T/runs/{run}/join"


def test_run_that_cannot_be_joined_fails(client, server, routes):
    stream = recorded("says")
    routes["/runs/stream"] = cut(b"\n\n".join(stream.split(b"\n\n")[:3]) + b"\n\n")
    routes[f"{run_id(stream)}/stream"] = cut(b": hello\n\n")
    task, _ = client.finish("hi")
    assert (task["status"], task["output"]) == ("failed", "Hello "), task
    assert "broke off" in task["error"]["message"]
    assert len(paths(server)) == 4  # two retries


def test_interrupt_is_a_question(client, server, routes):
    routes["/runs/stream"] = [chunked(recorded("asks")), chunked(recorded("answered"))]
    task = client.call("chat", message="ask")["task"]
    question = client.event(task, "input_required")["data"]
    assert (question["kind"], question["prompt"]) == ("question", "Which colour?")
    client.call("respond", **ids(task), input_id=question["input_id"], answer="blue")
    assert client.wait_terminal(task)["data"]["output"] == 'You like "blue"'
    assert server.requests[-1].json["command"] == {"resume": "blue"}


def test_failure_is_the_graphs(client, routes):
    routes["/runs/stream"] = chunked(recorded("fails"))
    task, _ = client.finish("fail")
    assert task["error"]["message"] == "agent_error: the agent said: the graph broke"


def test_cancel_cancels_the_run(client, server, routes):
    stream, never = recorded("says"), threading.Event()
    routes["/runs/stream"] = chunked(b"\n\n".join(stream.split(b"\n\n")[:3]) + b"\n\n", never)
    routes[f"{run_id(stream)}/cancel"] = [head(202, Content_Length=0), CLOSE]
    task = client.call("chat", message="hi")["task"]
    client.event(task, "token")
    client.call("cancel", **ids(task))
    assert client.wait_terminal(task)["data"]["error"]["code"] == "cancelled"
    assert paths(server)[-1] == f"POST /threads/T/runs/{run_id(stream)}/cancel"
    wait_until(lambda: server.requests[1].left, "the stream is closed")


@pytest.mark.parametrize("reply,why", [
    (body({"id": 1}), "its reply has no thread_id"),
    (body({"thread_id": "../x"}), "its reply has no thread_id"),
    (body([]), "its reply has no thread_id"),
    ([head(200, "application/json"), b"{\"thread", CLOSE], "the reply is no JSON: unexpected end at byte 8"),
    (body({"detail": "no"}, 403), "HTTP 403: no"),
])
def test_threads_that_cannot_be_made(client, routes, reply, why):
    routes["/threads"] = reply
    task, _ = client.finish("hi")
    assert task["error"]["message"] == f"agent_error: {why}"


def test_event_that_is_too_long_fails_and_one_that_is_no_json(client, routes):
    routes["/runs/stream"] = [chunked(b"data: " + b"x" * (5 << 20)), chunked(b"event: updates\ndata: {\"a\n\n")]
    assert client.finish("hi")[0]["error"]["message"] == "agent_error: an event of the reply exceeds 4 MiB"
    assert "an event of the reply is no JSON" in client.finish("hi")[0]["error"]["message"]
