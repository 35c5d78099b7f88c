"""context and unlisted: what a chat brings along (PROTOCOL.md 5)."""

import json

import pytest

from database import rows_in
from gateway import Gateway, script_agent
from holdfast import Client, ids, new_id, program

CONFIG = {"agents": [script_agent(default=True)]}
CONTEXT = [{"role": "developer", "content": "be short"}, {"role": "user", "content": "one", "name": "ann"},
           {"role": "assistant", "content": "two"}]
AS_HISTORY = [{"role": "system", "content": "be short"}, {"role": "user", "content": "one"},
              {"role": "assistant", "content": "two"}]


def history_of(task):
    return json.loads(task["output"])


def kept(gateway):
    """How many contexts its database keeps."""
    return rows_in(gateway, "contexts")


def test_context_takes_the_place_of_the_stored_history(client):
    conversation = new_id()
    client.finish("stored", conversation=conversation)
    task, _ = client.finish({"answer": "history"}, conversation=conversation, context=CONTEXT)
    assert history_of(task) == AS_HISTORY
    task, _ = client.finish({"answer": "history"}, conversation=conversation)
    assert [m["content"] for m in history_of(task)][0] == "stored"
    messages = client.call("history", conversation_id=conversation)["messages"]
    step = program({"answer": "history"})
    assert [m["content"] for m in messages if m["role"] != "assistant"] == ["stored", step, step]


def test_context_comes_over_http_too(gateway, client):
    path = f"/v1/conversations/{new_id()}/tasks"
    headers = {"Authorization": f"Bearer {client.token}", "Content-Type": "application/json"}
    body = {"message": program({"answer": "history"}), "context": CONTEXT}
    status, _, answer = gateway.http("POST", path, json.dumps(body), headers)
    assert status == 201
    task = json.loads(answer)["task"]
    client.resume(task)
    client.wait_terminal(task)
    assert history_of(client.task(task)) == AS_HISTORY


@pytest.mark.parametrize("bad", [{}, [1], [{"role": "tool", "content": "x"}], [{"role": "user"}],
                                 [{"role": "user", "content": ["x"]}]])
def test_context_that_is_none_is_refused(client, bad):
    error = client.refused("bad_request", "chat", message="x", context=bad)
    assert error["message"].startswith('"context" must be an array')


def test_context_waits_with_its_task_over_a_kill_and_goes_with_its_end():
    with Gateway(CONFIG) as gateway:
        with Client(gateway) as client:
            token = client.token
            runs = client.chat({"hang": True}, conversation="c")
            client.event(runs, "task.started")
            waits = client.chat({"answer": "history"}, conversation="c", when_busy="enqueue", context=CONTEXT)
            gateway.kill()
        assert kept(gateway) == 1
        gateway.start()
        with Client(gateway, token=token) as client:
            client.resume(waits)
            client.wait_terminal(waits)
            assert history_of(client.task(waits)) == AS_HISTORY
        assert gateway.stop() == 0
        assert kept(gateway) == 0


def test_unlisted_conversation_is_found_by_its_id_alone(gateway, client):
    conversation = new_id()
    with Client(gateway, token=client.token) as watcher:
        watcher.call("watch")
        task, _ = client.finish("hidden", conversation=conversation, unlisted=True)
        client.finish("shown", conversation=(shown := new_id()))
        watcher.expect(lambda line: line["type"] == "conversation_changed"
                       and line["conversation"]["conversation_id"] == shown)
        listed = client.call("conversations")["conversations"]
        assert conversation not in [c["conversation_id"] for c in listed]
        assert client.task(task)["status"] == "completed"
        assert client.call("history", conversation_id=conversation)["messages"][0]["content"] == "hidden"
        with Client(gateway) as stranger:
            stranger.refused("not_found", "task", **ids(task))
        client.call("delete", conversation_id=conversation)
        client.refused("not_found", "task", **ids(task))
        assert conversation not in json.dumps(watcher.log)
