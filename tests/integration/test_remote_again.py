"""Agents of kind http with a form whose tasks go on over a restart of the gateway, against the protocols' own libraries
and a LangGraph server's recorded streams."""

import contextlib
import json
import threading

import pytest

from gateway import SUPPORT, Gateway
from holdfast import Client, ids, names, stays, text_of
from model_server import ModelServer
from peers import Peer
from test_http_again import hear, resumed
from test_langgraph import THREAD, body, chunked, recorded, run_id
from test_remote import asked

FORMS = ["ag-ui", "a2a", "a2a-old", "ai-sdk"]


@pytest.fixture(scope="module")
def peer():
    running = Peer(SUPPORT / "agents" / "peers.mjs")
    yield running
    running.close()


@pytest.fixture(scope="module")
def langgraph():
    with contextlib.closing(ModelServer()) as running:
        yield running


@pytest.fixture(scope="module")
def gateway(peer, langgraph):
    def agent(name, url, form):
        return {"name": name, "kind": "http", "form": form, "url": url, "grace_s": 30, "retries": 3,
                "after_restart": "continue"}

    agents = [agent(form, f"{peer.url}/{form}", form.replace("-old", "")) for form in FORMS]
    with Gateway({"agents": [*agents, agent("langgraph", langgraph.url, "langgraph")]}) as running:
        yield running


def begin(gateway, form, *steps, words):
    """A task that has said that, and the client's token."""
    with Client(gateway) as client:
        task = client.call("chat", message=json.dumps(list(steps)), agent=form)["task"]
        hear(client, task, words)
        return client.token, task


def restart(gateway):
    gateway.kill()
    gateway.start()


def end(gateway, token, task):
    with Client(gateway, token=token) as client:
        since = len(client.log)
        client.resume(task, 0)
        client.wait_terminal(task, since)
        return client.task(task), client.events_since(task, since)


def answer(gateway, token, task, value, then=None):
    """Answers its open question; waits for those words."""
    with Client(gateway, token=token) as client:
        waiting = client.task(task)["waiting_for"]
        client.resume(task, 0)
        client.call("respond", **ids(task), input_id=waiting, answer=value)
        if then:
            hear(client, task, then)


@pytest.mark.parametrize("form", FORMS)
def test_reply_that_was_cut(gateway, peer, tmp_path, form):
    gate = tmp_path / "gate"
    kind = form.replace("-old", "")
    before = len(asked(peer, kind))
    token, task = begin(gateway, form, {"say": "before "}, {"wait": str(gate)}, {"say": "after"}, words="before ")
    restart(gateway)
    gate.touch()
    record, events = end(gateway, token, task)
    assert (record["status"], record["output"]) == ("completed", "before after"), record.get("error")
    assert stays(events) == "before after"
    [again] = resumed(events)
    assert again["attempt"] == 2 and again["keep"]["text"] == 0
    # An A2A task goes on, and is told from its beginning; the others are asked anew.
    assert len(asked(peer, kind)) - before == (1 if kind == "a2a" else 2)


@pytest.mark.parametrize("form", FORMS)
def test_open_question_stays_open(gateway, form):
    ask = {"ag-ui": {"ask": {"message": "Which?"}}, "ai-sdk": {"call": "remove"}}.get(form, {"ask": "Which?"})
    value = True if form == "ai-sdk" else "blue"
    token, task = begin(gateway, form, {"say": "Well. "}, ask, {"say": "So $."}, words="Well. ")
    with Client(gateway, token=token) as client:
        client.resume(task, 0)
        client.event(task, "input_required")
    restart(gateway)
    answer(gateway, token, task, value)
    record, events = end(gateway, token, task)
    assert record["status"] == "completed", record
    said = {"ai-sdk": "Well. So removed /x."}.get(form, "Well. So blue.")
    assert text_of(events) == stays(events) == said
    assert resumed(events) == [{"attempt": 2, "why": "restart"}]
    assert names(events).count("input_required") == names(events).count("input_received") == 1


@pytest.mark.parametrize("form", ["ag-ui", "a2a"])
def test_answer_that_was_given_counts(gateway, peer, tmp_path, form):
    gate = tmp_path / "gate"
    ask = {"ask": {"message": "Which?"}} if form == "ag-ui" else {"ask": "Which?"}
    before = len(asked(peer, form))
    token, task = begin(gateway, form, {"say": "Well. "}, ask, {"say": "So $. "}, {"wait": str(gate)}, {"say": "End."},
                        words="Well. ")
    with Client(gateway, token=token) as client:
        client.resume(task, 0)
        client.event(task, "input_required")
    answer(gateway, token, task, "blue", then="Well. So blue. ")
    restart(gateway)
    gate.touch()
    record, events = end(gateway, token, task)
    assert stays(events) == "Well. So blue. End.", record
    assert names(events).count("input_required") == names(events).count("input_received") == 1
    [again] = resumed(events)
    assert again["keep"]["text"] == (len("Well. ") if form == "ag-ui" else 0)
    assert len(asked(peer, form)) - before == (3 if form == "ag-ui" else 2)


def test_langgraph_goes_on_behind_its_last_event(gateway, langgraph):
    stream = recorded("says")
    pieces = stream.split(b"\n\n")
    said = [i for i, piece in enumerate(pieces) if b"event: messages" in piece]
    at = said[2] + 1
    run, last = run_id(stream), pieces[at - 1].split(b"id: ")[1].split(b"\n")[0].decode()
    first, rest = (b"\n\n".join(part) + b"\n\n" for part in (pieces[:at], pieces[at:-1]))
    table = {"/threads": body({"thread_id": THREAD}),
             "/runs/stream": [*chunked(first)[:2], threading.Event()],
             f"/runs/{run}/stream": chunked(rest),
             f"/runs/{run}/join": body({"messages": [{"type": "ai", "content": "All of it."}]})}
    langgraph.script = lambda request: next(reply for path, reply in table.items() if request.path.endswith(path))
    words = "".join(text for piece in pieces[:at] if b"event: messages" in piece
                    for text in [json.loads(piece.split(b"data: ")[1].split(b"\nid:")[0])[0]["content"]])
    token, task = begin(gateway, "langgraph", words=words)
    langgraph.requests.clear()
    restart(gateway)
    record, events = end(gateway, token, task)
    assert record["output"] == "All of it." and resumed(events) == [{"attempt": 2, "why": "restart"}]
    stream_again, join = langgraph.requests
    assert (stream_again.method, stream_again.headers["Last-Event-ID"]) == ("GET", last)
    assert text_of(events).startswith(words) and text_of(events).count(words) == 1
    assert join.path.endswith("/join")
