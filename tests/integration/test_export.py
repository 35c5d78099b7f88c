"""export and import: a conversation as JSON lines (PROTOCOL.md 5 and 7)."""

import json
import socket

import pytest

from gateway import WAIT_S, Gateway, script_agent, wait_until
from holdfast import Client, new_id

CONFIG = {"agents": [script_agent(default=True)]}
HISTORY = {"answer": "history"}


def head(client):
    return {"Authorization": f"Bearer {client.token}", "Content-Type": "application/x-ndjson"}


def exported(gateway, client, conversation):
    status, headers, body = gateway.http("GET", f"/v1/conversations/{conversation}/export", headers=head(client))
    assert status == 200 and headers["content-type"] == "application/x-ndjson", body
    return body


def lines_of(body):
    assert body.endswith(b"\n")
    return [json.loads(line) for line in body.splitlines()]


def imported(gateway, client, body, conversation=None):
    path = f"/v1/conversations/{conversation}/import" if conversation else "/v1/import"
    status, _, answer = gateway.http("POST", path, body, head(client))
    return status, json.loads(answer)


def paged(client, conversation):
    """The same over the socket."""
    lines, more = [], {}
    while True:
        reply = client.call("export", conversation_id=conversation, **more)
        assert reply["type"] == "exported", reply
        lines += reply["lines"]
        if not reply["more"]:
            return lines
        more = {"from": reply["from"]}


def opened(client, conversation):
    return client.call("open", conversation_id=conversation)


def shape(messages):
    """All that a copy has in common with its source: no ids, and the tree by places."""
    place = {message["message_id"]: at for at, message in enumerate(messages)}
    return [(m["role"], m["content"], m["created_at"], m.get("partial"), place.get(m.get("parent_id")),
             [place.get(id) for id in m.get("siblings", [])]) for m in messages]


def everything(client, conversation):
    return client.call("history", conversation_id=conversation, all=True, limit=200)["messages"]


@pytest.fixture
def grown(client):
    """A conversation with branches, a failed task and one in the background."""
    conversation = new_id()
    client.finish("one", conversation=conversation)
    client.finish("two", conversation=conversation)
    second = opened(client, conversation)["messages"][2]
    client.finish("zwei", conversation=conversation, edit=second["message_id"])
    client.finish({"token": "so far"}, {"exit": 1}, conversation=conversation)
    client.finish("aside", conversation=conversation, background=True)
    client.call("title", conversation_id=conversation, title="grown")
    return conversation


def test_export_has_all_of_it(gateway, client, grown):
    lines = lines_of(exported(gateway, client, grown))
    assert lines == paged(client, grown)
    [conversation] = [line for line in lines if line["type"] == "conversation"]
    assert (conversation["version"], conversation["conversation"]["title"]) == (1, "grown")
    assert conversation["branch"]["message_id"] == opened(client, grown)["branch"]["message_id"]
    messages = [line["message"] for line in lines if line["type"] == "message"]
    assert messages[::-1] == everything(client, grown)
    tasks = [line["task"] for line in lines if line["type"] == "task"]
    assert [t["task_id"] for t in tasks[::-1]] == [
        t["task_id"] for t in client.call("tasks", conversation_id=grown)["tasks"]]
    for at, line in enumerate(lines):
        if line["type"] != "task":
            continue
        since = len(client.log)
        client.call("resume", conversation_id=grown, task_id=line["task"]["task_id"])
        client.expect_type("caught_up", since)
        events = [event for event in client.log[since:] if event["type"] == "event"]
        assert lines[at + 1:at + 1 + len(events)] == events and len(events) == line["task"]["head"]
        assert line["task"] == client.call("task", conversation_id=grown, task_id=line["task"]["task_id"])["task"]


def test_long_export_is_the_same_in_pages(gateway, client):
    conversation = new_id()
    for _ in range(3):
        client.finish(*({"token": letter * 10_000} for letter in "abcde"), conversation=conversation)
    reply = client.call("export", conversation_id=conversation)
    assert reply["more"] and reply["lines"]
    lines = lines_of(exported(gateway, client, conversation))
    assert lines == paged(client, conversation)
    seqs = [line["seq"] for line in lines if line["type"] == "event"]
    heads = [line["task"]["head"] for line in lines if line["type"] == "task"]
    assert seqs == [seq for head in heads for seq in range(1, head + 1)]


def test_import_makes_the_same_conversation_with_ids_of_its_own(gateway, client, grown):
    status, answer = imported(gateway, client, exported(gateway, client, grown))
    copy = answer["conversation_id"]
    assert (status, answer["messages"]) == (201, 8)
    was, now = everything(client, grown), everything(client, copy)
    assert shape(now) == shape(was)
    assert not {m["message_id"] for m in was} & {m["message_id"] for m in now}
    assert shape(opened(client, copy)["messages"]) == shape(opened(client, grown)["messages"])
    [row] = [row for row in client.call("conversations")["conversations"] if row["conversation_id"] == copy]
    assert row["title"] == "grown"
    tasks = client.call("tasks", conversation_id=copy, turns=True)["tasks"]
    source = client.call("tasks", conversation_id=grown, turns=True)["tasks"]
    assert [(t["status"], t["agent"], t.get("error")) for t in tasks] == [
        (t["status"], t["agent"], t.get("error")) for t in source]
    task, _ = client.finish(HISTORY, conversation=copy)
    assert [m["content"] for m in json.loads(task["output"])] == [m["content"] for m in opened(client, grown)["messages"]]
    # and a copy of the copy is no other
    again = imported(gateway, client, exported(gateway, client, copy), new_id())[1]["conversation_id"]
    assert shape(everything(client, again)) == shape(everything(client, copy))


def test_import_over_the_socket(client):
    message = {"message_id": "m", "role": "user", "content": "hi"}
    answer = {"message_id": "n", "parent_id": "m", "role": "assistant", "content": "ho"}
    lines = [{"type": "message", "message": answer}, {"type": "else"}, {"type": "message", "message": message}]
    to = new_id()
    reply = client.call("import", conversation_id=to, title="mine", lines=lines)
    assert (reply["type"], reply["conversation_id"], reply["messages"]) == ("imported", to, 2)
    assert [(m["role"], m["content"]) for m in opened(client, to)["messages"]] == [("user", "hi"), ("assistant", "ho")]
    assert client.refused("conflict", "import", conversation_id=to, lines=lines)
    assert client.refused("bad_request", "import", lines=[])["message"] == "there is no message"
    assert client.refused("bad_request", "import", lines=[1])["message"].startswith('"lines" must be')
    wrong = [{"type": "message", "message": {**message, "role": "x"}}]
    assert client.refused("bad_request", "import", lines=lines + wrong)["message"].startswith('line 4 of "lines": "role"')


@pytest.mark.parametrize("more,why", [
    ({"parent_id": "none"}, "a message has a parent that is not there: m"),
    ({"parent_id": "m"}, "a message is its own ancestor: m"),
    ({"message_id": "n"}, "two messages have one id: n"),
])
def test_import_of_what_is_no_tree(client, more, why):
    first = {"message_id": "m", "role": "user", "content": "hi", **more}
    other = {"message_id": "n", "role": "user", "content": "ho"}
    lines = [{"type": "message", "message": message} for message in (first, other)]
    assert client.refused("bad_request", "import", lines=lines)["message"] == why


@pytest.mark.parametrize("body,why", [
    (b"{}\n", 'line 1: it must be an object with a string "type"'),
    (b'\n{"type":"event"}\n{', "line 3: "),
    (b'{"type":"message"}', "line 1: it must have the object"),
    (b'{"type":"message","message":{"message_id":1}}', 'line 1: "message_id" must be'),
    (b'{"type":"message","message":{"message_id":"m","role":"user","content":"","parts":[{"type":"x"}]}}', 'line 1: "parts" must'),
    (b'{"type":"task","task":{"task_id":"t","status":"x"}}', 'line 1: "status" must be'),
    (b'{"type":"conversation","conversation":{},"version":2}', 'line 1: "version" must be 1'),
    (b"[" * 200, "line 1: "),
    (b"", "there is no message"),
])
def test_fault_of_an_import_names_its_line(gateway, client, body, why):
    status, answer = imported(gateway, client, body)
    assert (status, answer["error"]["code"]) == (400, "bad_request") and answer["error"]["message"].startswith(why), answer


def test_import_has_bounds(gateway, client):
    long = json.dumps({"type": "message", "message": {"message_id": "m", "role": "user", "content": "x" * (9 << 20)}}).encode()
    status, answer = imported(gateway, client, long)
    assert (status, answer["error"]["code"]) == (413, "too_large")
    rows = [{"type": "message", "message": {"message_id": f"m{n:06}", "role": "user", "content": "x"}} for n in range(5_001)]
    crowd = "\n".join(map(json.dumps, rows[:257])).encode()
    assert imported(gateway, client, crowd)[1]["error"]["message"] == "more than 256 messages have one parent: m000256"
    assert imported(gateway, client, b"\n".join(crowd.split(b"\n")[:256]))[0] == 201
    for n in range(5_000):
        rows[n + 1]["message"]["parent_id"] = f"m{n:06}"
    body = "\n".join(map(json.dumps, rows)).encode()
    status, answer = imported(gateway, client, body)
    assert status == 413, answer


def test_file_of_an_export_is_its_name(gateway, client):
    source = new_id()
    disposition = {**head(client), "Content-Disposition": 'attachment; filename="a.txt"'}
    given = json.loads(gateway.http("POST", f"/v1/conversations/{source}/files", b"bytes", disposition)[2])
    message = [{"type": "text", "text": "look"}, {"type": "file", "file_id": given["file_id"]}]
    client.wait_terminal(client.call("chat", conversation_id=source, message=message)["task"])
    copy = imported(gateway, client, exported(gateway, client, source))[1]["conversation_id"]
    [question, *_] = opened(client, copy)["messages"]
    assert question["parts"] == [{"type": "text", "text": "look"}, {"type": "text", "text": "[a.txt]"}]
    assert question["content"] == "look\n[a.txt]"


def test_export_of_a_task_that_runs(gateway, client):
    conversation = new_id()
    task = client.chat({"token": "a"}, {"hang": True}, conversation=conversation)
    client.event(task, "token")
    lines = lines_of(exported(gateway, client, conversation))
    assert [line["event"] for line in lines if line["type"] == "event"] == ["task.created", "task.started", "token"]
    copy = imported(gateway, client, exported(gateway, client, conversation))[1]["conversation_id"]
    [one] = client.call("tasks", conversation_id=copy)["tasks"]
    assert one["status"] == "cancelled"
    client.call("cancel", conversation_id=conversation, task_id=task["task_id"])


def test_nothing_and_nonsense(gateway, client, clients):
    assert client.refused("not_found", "export", conversation_id="none")["message"] == "no such conversation"
    assert gateway.http("GET", "/v1/conversations/none/export", headers=head(client))[0] == 404
    conversation = new_id()
    client.finish("one", conversation=conversation)
    for nonsense in ("x", "m.1", "m.01ARZ3NDEKTSV4RRFFQ69G5FA", "h.01ARZ3NDEKTSV4RRFFQ69G5FAV"):
        assert client.refused("bad_request", "export", conversation_id=conversation, **{"from": nonsense})
    beyond = client.call("export", conversation_id=conversation, **{"from": "t.01ARZ3NDEKTSV4RRFFQ69G5FAV.99"})
    assert not beyond["lines"] and not beyond["more"]
    assert clients().refused("not_found", "export", conversation_id=conversation)


def test_import_is_all_or_nothing_after_a_kill():
    with Gateway(CONFIG) as gateway:
        with Client(gateway) as client:
            source = new_id()
            client.finish("one", conversation=source)
            copy = imported(gateway, client, exported(gateway, client, source))[1]["conversation_id"]
            shown, token = opened(client, copy)["messages"], client.token
        gateway.kill()
        gateway.start()
        with Client(gateway, token=token) as client:
            assert opened(client, copy)["messages"] == shown


def test_bodies_of_imports_are_few(gateway, client):
    """A body that comes slowly holds what came."""
    head = (f"POST /v1/import HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {client.token}\r\n"
            "Content-Length: 1000\r\n\r\n{").encode()
    slow = [socket.create_connection((gateway.host, gateway.port), WAIT_S) for _ in range(2)]
    for sock in slow:
        sock.sendall(head)

    def code():
        status, _, body = gateway.http("POST", "/v1/import", "\n", {"Authorization": f"Bearer {client.token}"})
        return status, json.loads(body)["error"]["code"]

    wait_until(lambda: code() == (503, "overloaded"), "two that are under way")
    slow.pop().close()
    wait_until(lambda: code() == (400, "bad_request"), "room for another one")
    slow.pop().close()
