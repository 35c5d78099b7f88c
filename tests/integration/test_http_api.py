"""The requests of the wire over HTTP, and events as SSE (PROTOCOL.md 7)."""

import json
import socket

import pytest

from gateway import WAIT_S, Gateway
from holdfast import new_id, program

JSON = {"Content-Type": "application/json"}


class Api:
    """One identity over HTTP."""

    def __init__(self, gateway, token=None):
        self.gateway = gateway
        self.token = token or json.loads(gateway.http("POST", "/v1/guest")[2])["token"]

    def ask(self, method, path, body=None, **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        headers["Authorization"] = "Bearer " + self.token
        if body is not None:
            headers.update(JSON)
            body = body if isinstance(body, str) else json.dumps(body)
        status, _, answer = self.gateway.http(method, "/v1" + path, body, headers)
        return status, json.loads(answer) if answer else None

    def chat(self, conversation, *steps, **fields):
        status, answer = self.ask("POST", f"/conversations/{conversation}/tasks",
                                  {"message": program(*steps), **fields})
        assert status == 201, answer
        return answer["task"]


@pytest.fixture
def api(gateway):
    return Api(gateway)


def sse(api, conversation, task, after=None, query="", until=None):
    """(clean end?, [(id, event, data)]) of one stream, its chunks read by hand."""
    wire = socket.create_connection((api.gateway.host, api.gateway.port), WAIT_S)
    last = f"Last-Event-ID: {after}\r\n" if after is not None else ""
    wire.sendall(f"GET /v1/conversations/{conversation}/tasks/{task}/events{query} HTTP/1.1\r\n"
                 f"Host: 127.0.0.1\r\nAuthorization: Bearer {api.token}\r\n{last}\r\n".encode())
    stream = wire.makefile("rb")
    status = int(stream.readline().split()[1])
    headers = {}
    while (line := stream.readline().strip()):
        name, value = line.decode().split(":", 1)
        headers[name.lower()] = value.strip()
    if status != 200:
        return status, headers
    assert headers["content-type"] == "text/event-stream"
    assert headers["transfer-encoding"] == "chunked"
    assert headers["cache-control"] == "no-store"
    assert headers.get("x-accel-buffering", "no") == "no"  # a proxy may take it for itself
    assert "x-accel-buffering" in headers or not isinstance(api.gateway, Gateway)
    body, clean = b"", False
    while not (until and until in body):
        size = stream.readline().strip()
        if not size:
            break
        chunk = stream.read(int(size, 16))
        stream.read(2)
        if not chunk:
            clean = True
            break
        body += chunk
    wire.close()
    assert b"\r" not in body
    events = []
    for block in body.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if fields:
            events.append((fields.get("id"), fields["event"], json.loads(fields["data"])))
    return clean, events


def test_chat_is_made_once_by_its_idempotency_key(api):
    path, body = f"/conversations/{new_id()}/tasks", {"message": program({"token": "x"})}
    status, first = api.ask("POST", path, body, Idempotency_Key="k1")
    assert status == 201 and first["type"] == "started" and "id" not in first
    status, again = api.ask("POST", path, body, Idempotency_Key="  k1\t ")  # blanks around it are none of it
    assert status == 200 and again["repeated"] is True
    assert again["task"]["task_id"] == first["task"]["task_id"]
    status, other = api.ask("POST", path, {"message": "other"}, Idempotency_Key="k1")
    assert status == 409 and other["error"]["code"] == "conflict"
    assert api.ask("POST", path, 'x"message":"hi"}', Idempotency_Key="k2")[0] == 400


def test_events_are_numbered_and_end_cleanly(api):
    c = new_id()
    task = api.chat(c, {"token": "a"}, {"token": "b"})["task_id"]
    clean, events = sse(api, c, task)
    assert clean
    assert [int(id) for id, _, _ in events] == list(range(1, len(events) + 1))
    assert events[-1][1] == "task.completed"
    assert all(id == str(data["seq"]) and event == data["event"] for id, event, data in events)
    for after, query in ((3, ""), (None, "?after=3"), (3, "?after=1")):  # the header knows better
        clean, rest = sse(api, c, task, after, query)
        assert clean and rest == events[3:]
    status, headers = sse(api, c, task, len(events))
    assert status == 204 and "content-length" not in headers  # RFC 9110 8.6
    assert sse(api, c, task, len(events) + 1)[0] == 409


def test_events_for_http_1_0_are_plain(api):
    """It knows no chunks (RFC 9112 6.1); the connection ends with the stream."""
    c = new_id()
    task = api.chat(c, {"token": "a"}, {"token": "b"})["task_id"]
    events = sse(api, c, task)[1]
    with socket.create_connection((api.gateway.host, api.gateway.port), WAIT_S) as wire:
        wire.sendall(f"GET /v1/conversations/{c}/tasks/{task}/events HTTP/1.0\r\nHost: 127.0.0.1\r\n"
                     f"Authorization: Bearer {api.token}\r\n\r\n".encode())
        head, body = wire.makefile("rb").read().decode().split("\r\n\r\n", 1)
    assert "transfer-encoding" not in head.lower()
    blocks = body.split("\n\n")
    assert blocks.pop() == ""
    assert [json.loads(block.split("\ndata: ")[1]) for block in blocks] == [data for _, _, data in events]


def test_what_stands_behind_a_nul_is_read_with_a_key_too(api):
    """A key is put in front of the body, and takes nothing from its end."""
    path = f"/conversations/{new_id()}/tasks"
    for key in ({}, {"Idempotency-Key": new_id()}):
        status, answer = api.ask("POST", path, '{"message":"x"}\0{', **key)
        assert (status, answer["error"]["code"]) == (400, "bad_request"), key


def test_a_killed_gateway_is_a_cut_and_never_a_clean_end(gateway, api, tmp_path):
    c = new_id()
    task = api.chat(c, {"token": "a"}, {"wait": str(tmp_path / "never")})["task_id"]
    clean, events = sse(api, c, task, until=b"event: token")
    assert not clean and events[-1][1] == "token"
    gateway.kill()
    gateway.start()
    clean, rest = sse(api, c, task, len(events))
    assert clean and [event for _, event, _ in rest] == ["task.failed"]
    assert rest[0][2]["data"]["error"]["code"] == "orphaned"


def test_lists_records_and_changes(api):
    c = new_id()
    task = api.chat(c, {"final_answer": "42"})["task_id"]
    sse(api, c, task)
    assert api.ask("GET", "/conversations?limit=1")[1]["conversations"][0]["conversation_id"] == c
    assert api.ask("GET", f"/conversations/{c}/tasks/{task}")[1]["task"]["output"] == "42"
    assert [t["task_id"] for t in api.ask("GET", f"/conversations/{c}/tasks?status=completed")[1]["tasks"]] == [task]
    assert [m["role"] for m in api.ask("GET", f"/conversations/{c}/messages")[1]["messages"]] == ["user", "assistant"]
    assert api.ask("PATCH", f"/conversations/{c}", {"title": "new"}) == (200, {"type": "ok"})
    assert api.ask("GET", "/conversations")[1]["conversations"][0]["title"] == "new"
    assert api.ask("GET", f"/conversations/{c}/tasks?limit=0")[0] == 400
    assert api.ask("DELETE", f"/conversations/{c}") == (200, {"type": "ok"})
    assert api.ask("GET", f"/conversations/{c}/tasks")[1] == {"type": "tasks", "tasks": [], "more": False}


def test_cancel_messages_and_background_results(api, tmp_path):
    c = new_id()
    task = api.chat(c, {"wait": str(tmp_path / "never")})["task_id"]
    sse(api, c, task, until=b"task.started")
    assert api.ask("POST", f"/conversations/{c}/tasks/{task}/messages", {"content": "more"})[0] == 200
    status, answer = api.ask("DELETE", f"/conversations/{c}/tasks/{task}?tree=true")
    assert status == 200 and answer["cancelled"] == 1 and answer["task_ids"] == [task]
    assert sse(api, c, task)[1][-1][2]["data"]["status"] == "cancelled"
    assert api.ask("POST", f"/conversations/{c}/tasks/{task}/messages", {"content": "late"})[0] == 409
    assert api.ask("DELETE", f"/conversations/{c}/tasks")[1]["cancelled"] == 0
    side = api.chat(c, {"final_answer": "done"}, background=True)["task_id"]
    sse(api, c, side)
    assert [r["answer"] for r in api.ask("GET", f"/conversations/{c}/results")[1]["results"]] == ["done"]
    assert api.ask("POST", f"/conversations/{c}/results/ack", {"task_ids": [side]})[1] == {"type": "ok", "acked": 1}
    assert api.ask("GET", f"/conversations/{c}/results")[1]["results"] == []


def test_foreign_missing_and_malformed_get_the_same_answer(gateway, api):
    c = new_id()
    task = api.chat(c, {"token": "x"})["task_id"]
    other = Api(gateway)
    for method, tail, body in (("GET", "", None), ("DELETE", "", None), ("GET", "/events", None),
                               ("POST", "/messages", {"content": "x"}),
                               ("POST", "/responses", {"input_id": "q", "answer": "x"})):
        answers = {json.dumps(other.ask(method, f"/conversations/{cid}/tasks/{tid}{tail}", body))
                   for cid, tid in ((c, task), (new_id(), task), (c, "01ARZ3NDEKTSV4RRFFQ69G5FAV"), (c, "x"))}
        assert len(answers) == 1
        assert json.loads(answers.pop())[0] == 404


def first_line(api, conversation, task):
    with socket.create_connection((api.gateway.host, api.gateway.port), WAIT_S) as wire:
        wire.sendall(f"GET /v1/conversations/{conversation}/tasks/{task}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                     f"Authorization: Bearer {api.token}\r\n\r\n".encode())
        stream = wire.makefile("rb")
        while stream.readline().strip():
            pass
        stream.readline()  # the chunk's size
        return stream.readline().decode()


def test_stream_says_when_to_come_back(api):
    """Else a browser's EventSource waits for 3 to 5 s; and not all come back at the same moment."""
    c = new_id()
    task = api.chat(c, {"hang": 1})["task_id"]
    lines = [first_line(api, c, task) for _ in range(8)]
    assert all(line.startswith("retry: ") and 1000 <= int(line.split()[1]) < 1500 for line in lines), lines
    assert len(set(lines)) > 1
    _, events = sse(api, c, task, until=b"task.started")
    assert [event for _, event, _ in events][:2] == ["task.created", "task.started"]


def test_fault_of_an_id_names_nothing_else(api):
    """An id that no path can hold is not there like any other, and what is left of the path is not meant."""
    c = new_id()
    task = api.chat(c, {"hang": 1})["task_id"]
    missing = api.ask("GET", f"/conversations/{c}/tasks/01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert missing[0] == 404
    wrong = [(f"{c}{end}", task) for end in (";", "&", ";x", "&x", "&x=1", ";/", "%2fx", "%3f", "%26", "%20")]
    wrong += [(c, tid) for tid in (f"{task};", f"{task}&x", ";", "&", "a%2fb", ".", "%00", "%2e")]
    for cid, tid in wrong:
        for method, tail, body in (("GET", "", None), ("DELETE", "", None), ("DELETE", "?tree=true", None),
                                   ("GET", "/events", None), ("POST", "/messages", {"content": "x"}),
                                   ("POST", "/responses", {"input_id": "q", "answer": "x"})):
            assert api.ask(method, f"/conversations/{cid}/tasks/{tid}{tail}", body) == missing, (method, cid, tid, tail)
    for method, path, body in (("DELETE", f"{c};x", None), ("DELETE", f"{c}&x", None), ("DELETE", f"{c}/tasks;x", None),
                               ("PATCH", f"{c}&x", {"title": "x"}), ("POST", f"{c}/tasks;x", {"message": "x"})):
        assert api.ask(method, f"/conversations/{path}", body)[0] == 404, path
    assert [t["task_id"] for t in api.ask("GET", f"/conversations/{c}/tasks?x;y&limit=5")[1]["tasks"]] == [task]
    assert "cancel_requested_at" not in api.ask("GET", f"/conversations/{c}/tasks/{task}")[1]["task"]
    assert api.ask("DELETE", f"/conversations/{c}/tasks/{task}")[1]["task_ids"] == [task]


def test_identity_body_and_method_are_checked(gateway, api):
    path = f"/v1/conversations/{new_id()}/tasks"
    assert gateway.http("GET", path)[0] == 401
    assert gateway.http("GET", path, headers={"Authorization": "Bearer bad"})[0] == 401
    own = {"Authorization": "Bearer " + api.token}
    assert gateway.http("GET", path, headers={**own, "Origin": "http://evil.example"})[0] == 403
    assert gateway.http("GET", path, headers={**own, "Host": "evil.example"})[0] == 403
    assert gateway.http("POST", path, '{"message":"x"}', own)[0] == 415
    assert gateway.http("POST", path, "[1]", {**own, **JSON})[0] == 400
    assert gateway.http("POST", path, '{"message":"%s"}' % ("x" * 70000), {**own, **JSON})[0] == 413
    assert gateway.http("PUT", path, "{}", {**own, **JSON})[0] == 404
    with socket.create_connection((gateway.host, gateway.port), WAIT_S) as wire:  # a body without a length
        wire.sendall(f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {api.token}\r\n"
                     "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        assert b" 411 " in wire.makefile("rb").readline()


@pytest.mark.parametrize("lengths", [("15", "16"), ("15", "15"), ("16", "15")])
def test_two_lengths_are_refused(gateway, api, lengths):
    """A request that a proxy in front may have read differently is refused (RFC 9112 section 6.3)."""
    lines = "".join(f"Content-Length: {n}\r\n" for n in lengths)
    with socket.create_connection((gateway.host, gateway.port), WAIT_S) as wire:
        wire.sendall(f"POST /v1/conversations/{new_id()}/tasks HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                     f"Authorization: Bearer {api.token}\r\nContent-Type: application/json\r\n{lines}\r\n"
                     '{"message":"x"}'.encode())
        stream = wire.makefile("rb")
        assert b" 400 " in stream.readline()
        assert b"Content-Length appears twice" in stream.read()  # and it is hung up
