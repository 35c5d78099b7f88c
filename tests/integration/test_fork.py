"""fork: a new conversation of one path of another (PROTOCOL.md 5)."""

import json

from gateway import Gateway, script_agent
from holdfast import Client, new_id

CONFIG = {"agents": [script_agent(default=True)]}
HISTORY = {"answer": "history"}  # the agent's answer is what it was given


def opened(client, conversation):
    return client.call("open", conversation_id=conversation)


def contents(messages):
    return [message["content"] for message in messages]


def shape(messages):
    """All that a copy has in common with its source: no ids, and the tree by places."""
    place = {message["message_id"]: at for at, message in enumerate(messages)}
    return [(m["role"], m["content"], m["created_at"], m.get("partial"), place.get(m.get("parent_id")),
             [place.get(id) for id in m.get("siblings", [])]) for m in messages]


def forked(client, conversation, **fields):
    reply = client.call("fork", conversation_id=conversation, **fields)
    assert reply["type"] == "forked", reply
    return reply["conversation_id"], reply["messages"]


def give(gateway, client, conversation, data):
    head = {"Authorization": f"Bearer {client.token}", "Content-Type": "text/plain",
            "Content-Disposition": 'attachment; filename="a.txt"'}
    return json.loads(gateway.http("POST", f"/v1/conversations/{conversation}/files", data, head)[2])["file_id"]


def read(gateway, client, conversation, file):
    head = {"Authorization": f"Bearer {client.token}"}
    return gateway.http("GET", f"/v1/conversations/{conversation}/files/{file}", headers=head)[::2]


def test_fork_has_the_path_and_goes_on_by_itself(client):
    source = new_id()
    client.finish("one", conversation=source)
    client.finish("two", conversation=source)
    second = opened(client, source)["messages"][2]
    client.finish("zwei", conversation=source, edit=second["message_id"])
    before = opened(client, source)["messages"]
    copy, n = forked(client, source)
    shown = opened(client, copy)
    assert n == 4 and [row[:5] for row in shape(shown["messages"])] == [row[:5] for row in shape(before)]
    assert not any("siblings" in m for m in shown["messages"])
    ids = {m[key] for m in shown["messages"] for key in ("message_id", "task_id")}
    assert not ids & {m[key] for m in before for key in ("message_id", "task_id")}
    # what is said there is said there alone, and the agent has the history
    task, _ = client.finish(HISTORY, conversation=copy)
    assert contents(json.loads(task["output"])) == contents(before)
    assert opened(client, source)["messages"] == before
    listed = {row["conversation_id"]: row for row in client.call("conversations")["conversations"]}
    assert listed[copy]["title"] == listed[source]["title"] and listed[copy]["running"] == 0


def test_fork_up_to_a_message_on_any_branch(client):
    source = new_id()
    client.finish("one", conversation=source)
    task, _ = client.finish("two", conversation=source)
    messages = opened(client, source)["messages"]
    client.finish("zwei", conversation=source, edit=messages[2]["message_id"])
    for named, said in ((messages[1]["message_id"], ["one", "one"]), (messages[2]["message_id"], ["one", "one", "two"]),
                        (task["task_id"], ["one", "one", "two", "two"])):
        copy, n = forked(client, source, message_id=named, title="another")
        assert contents(opened(client, copy)["messages"]) == said and n == len(said)
        [row] = [row for row in client.call("conversations")["conversations"] if row["conversation_id"] == copy]
        assert row["title"] == "another"


def test_turns_of_a_fork_are_turns(client):
    """Each question has a task that has ended: with its agent and end, without events."""
    source = new_id()
    client.finish("one", conversation=source)
    failed, _ = client.finish({"token": "so far"}, {"exit": 1}, conversation=source)
    copy, _ = forked(client, source)
    tasks = client.call("tasks", conversation_id=copy, turns=True)["tasks"]
    assert [t["status"] for t in tasks] == ["completed", "failed"]
    assert tasks[1]["error"] == failed["error"] and {t["agent"] for t in tasks} == {failed["agent"]}
    whole = client.call("task", conversation_id=copy, task_id=tasks[0]["task_id"])["task"]
    assert whole["output"] == "one"
    resumed = client.call("resume", conversation_id=copy, task_id=tasks[0]["task_id"])
    assert (resumed["head"], resumed["first"]) == (1, 2)
    client.expect_type("caught_up")
    for again in (tasks[0]["task_id"], tasks[1]["task_id"], opened(client, copy)["messages"][1]["message_id"]):
        since = len(client.log)
        reply = client.call("chat", conversation_id=copy, regenerate=again)
        client.wait_terminal(reply["task"], since)
    first, answer = opened(client, copy)["messages"]
    assert (first["content"], len(answer["siblings"])) == ("one", 3)
    client.finish("uno", conversation=copy, edit=first["message_id"])
    assert contents(opened(client, copy)["messages"]) == ["uno", "uno"]
    assert client.call("delete", conversation_id=copy)["type"] == "ok"


def test_files_of_a_fork_are_its_own(gateway, client):
    source = new_id()
    file = give(gateway, client, source, b"bytes")
    message = [{"type": "text", "text": "look"}, {"type": "file", "file_id": file}]
    client.wait_terminal(client.call("chat", conversation_id=source, message=message)["task"])
    copy, _ = forked(client, source)
    [question, *_] = opened(client, copy)["messages"]
    part = question["parts"][1]
    assert part["file_id"] != file and part["name"] == "a.txt" and question["content"] == "look"
    assert read(gateway, client, copy, part["file_id"]) == (200, b"bytes")
    assert read(gateway, client, copy, file)[0] == 404
    client.call("delete", conversation_id=source)
    assert read(gateway, client, source, file)[0] == 404
    assert read(gateway, client, copy, part["file_id"]) == (200, b"bytes")


def test_what_cannot_be_forked(client):
    source = new_id()
    client.finish("one", conversation=source)
    assert client.refused("not_found", "fork", conversation_id="none")["message"] == "no such conversation"
    unknown = {"conversation_id": source, "message_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}
    assert client.refused("not_found", "fork", **unknown)["message"] == "no such message"
    to = new_id()
    assert forked(client, source, to=to) == (to, 2)
    for used in (to, source):
        assert client.refused("conflict", "fork", conversation_id=source, to=used)
    for field, wrong in (("to", "-"), ("message_id", "x"), ("title", ""), ("conversation_id", 1)):
        fields = {"conversation_id": source, field: wrong}
        assert f'"{field}"' in client.refused("bad_request", "fork", **fields)["message"]
    assert contents(opened(client, to)["messages"]) == ["one", "one"]


def test_fork_while_a_task_runs(client):
    source = new_id()
    client.finish("one", conversation=source)
    task = client.chat({"token": "a"}, {"hang": True}, conversation=source)
    client.event(task, "token")
    copy, n = forked(client, source)
    shown = opened(client, copy)
    assert n == 3 and shown["branch"]["task_id"] == shown["tasks"][-1]["task_id"]
    assert shown["tasks"][-1]["status"] == "cancelled"
    client.call("cancel", conversation_id=source, task_id=task["task_id"])
    client.wait_terminal(task)
    assert len(opened(client, source)["messages"]) == 4 and len(opened(client, copy)["messages"]) == 3


def test_fork_survives_a_kill():
    with Gateway(CONFIG) as gateway:
        with Client(gateway) as client:
            source = new_id()
            client.finish("one", conversation=source)
            copy, _ = forked(client, source)
            shown, token = opened(client, copy), client.token
        gateway.kill()
        gateway.start()
        with Client(gateway, token=token) as client:
            again = opened(client, copy)
            assert (again["messages"], again["branch"]) == (shown["messages"], shown["branch"])
            client.finish("two", conversation=copy)
            assert contents(opened(client, copy)["messages"]) == ["one", "one", "two", "two"]


def test_fork_over_http(gateway, client):
    source = new_id()
    client.finish("one", conversation=source)
    head = {"Authorization": f"Bearer {client.token}", "Content-Type": "application/json"}
    status, _, body = gateway.http("POST", f"/v1/conversations/{source}/fork", json.dumps({"to": source + "-2"}), head)
    assert (status, json.loads(body)) == (201, {"type": "forked", "conversation_id": source + "-2", "messages": 2})
