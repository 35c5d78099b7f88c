"""chat: how a task starts, what its record and its conversation say (PROTOCOL.md 3, 4, 5)."""

import json
import re
import threading
import time

import pytest

from gateway import Gateway, script_agent, wait_until
from holdfast import Client, ids, names, new_id, program, text_of

CONFIG = {
    "agents": [
        script_agent(default=True, description="carries out its input"),
        script_agent("other"),
    ],
}
ULID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")



# ------------------------------------------------------------------ start and stream


def test_started_comes_first_then_events_from_one(client):
    since = len(client.log)
    task = client.chat({"token": "Hel"}, {"token": "lo"})
    events = list(client.events(task, since))
    assert names(events) == ["task.created", "task.started", "token", "token", "final_answer",
                             "task.completed"]
    assert [event["seq"] for event in events] == [1, 2, 3, 4, 5, 6]
    kinds = [(line["type"], line.get("task_id")) for line in client.log[since:]]
    assert kinds[0] == ("started", None)


def test_events_have_their_documented_form(client):
    conversation = new_id()
    before = time.time() * 1000
    task, events = client.finish("Hi", conversation=conversation, description="a test")
    assert events[0]["data"]["agent"] == "script"
    assert events[0]["data"]["input"] == "Hi"
    assert events[0]["data"]["description"] == "a test"
    assert events[2]["data"] == {"text": "Hi"}
    assert events[3]["data"] == {"output": "Hi"}
    assert events[4]["data"]["output"] == "Hi"
    assert all(before - 2000 < event["ts"] < time.time() * 1000 + 2000 for event in events)
    for raw in client.raw_events(task).values():
        keys = list(json.loads(raw))
        assert keys[:6] == ["type", "task_id", "seq", "ts", "event", "data"][:len(keys)]
        assert '": ' not in raw and '", "' not in raw


def test_task_summary(client):
    conversation = new_id()
    since = len(client.log)
    started = client.chat({"wait": client.gateway.path()}, conversation=conversation,
                          description="waits", metadata={"k": [1, "x"]})
    client.event(started, "task.started", since)
    task = client.task(started)
    assert ULID.fullmatch(task["task_id"])
    assert (task["conversation_id"], task["agent"], task["type"]) == (conversation, "script", "chat")
    assert task["status"] == "running"
    assert task["description"] == "waits"
    assert task["metadata"] == {"k": [1, "x"]}
    assert task["head"] == 2
    assert task["created_at"] <= task["started_at"] <= time.time() * 1000 + 2000
    assert not task.get("completed_at") and not task.get("error") and not task.get("output")
    client.call("cancel", **ids(task))
    client.wait_terminal(task, since)


def test_all_kinds_of_events_pass_through(client):
    task, events = client.finish(
        {"thinking": "hm"}, {"token": "a"}, {"progress": 0.5, "note": "half"},
        {"line": {"event": "tool_call", "data": {"call_id": "c", "name": "n", "arguments": {"x": 1}}}},
        {"line": {"event": "tool_result",
                  "data": {"call_id": "c", "name": "n", "output": "o", "is_error": False}}},
        {"custom": "mine", "payload": {"deep": [1.50, 12345678901234567890]}},
        {"result": {"answer": 42}}, {"final_answer": "one"}, {"final_answer": "two"})
    assert names(events) == ["task.created", "task.started", "thinking", "token", "progress",
                             "tool_call", "tool_result", "custom", "final_answer", "final_answer",
                             "task.completed"]
    assert events[2]["data"] == {"text": "hm"}
    assert events[4]["data"] == {"progress": 0.5, "note": "half"}
    assert events[5]["data"] == {"call_id": "c", "name": "n", "arguments": {"x": 1}}
    assert events[6]["data"]["output"] == "o"
    assert events[7]["data"]["event_type"] == "mine"
    raw = client.raw_events(task)[8]
    assert "12345678901234567890" in raw  # numbers pass through as written
    assert task["output"] == "two"  # the last one counts
    assert task["result"] == {"answer": 42}
    assert events[-1]["data"]["result"] == {"answer": 42}


def test_conversation_id_is_chosen_by_the_gateway_when_absent(client):
    first, second = client.chat("x"), client.chat("x")
    assert first["conversation_id"] != second["conversation_id"]
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", first["conversation_id"])


def test_task_ids_grow_in_the_order_of_creation(client):
    conversation = new_id()
    for _ in range(30):
        client.post("chat", message="x", conversation_id=conversation)
    tasks = [client.reply(str(i + 2))["task"]["task_id"] for i in range(30)]
    assert tasks == sorted(tasks) and len(set(tasks)) == 30


def test_agent_is_chosen_by_name(client):
    assert client.finish("x", agent="other")[0]["agent"] == "other"
    assert client.finish("x")[0]["agent"] == "script"


def test_conversations_run_side_by_side(client):
    gate = client.gateway.path()
    waiting = client.chat({"wait": gate}, {"token": "late"})
    quick, _ = client.finish("quick")
    assert quick["status"] == "completed"
    assert client.task(waiting)["status"] in ("pending", "running")
    open(gate, "w", encoding="utf-8").close()
    assert client.wait_terminal(waiting)["data"]["output"] == "late"


def test_status_is_never_behind_what_was_shown(client):
    """Everything that a reply shows is committed, and a terminal event has its record with it."""
    for _ in range(20):
        task = client.chat("x")
        client.wait_terminal(task)
        assert client.task(task)["status"] == "completed"


def test_progress_is_in_the_record_and_one_when_completed(client):
    gate = client.gateway.path()
    task = client.chat({"progress": 0.25}, {"wait": gate})
    client.event(task, "progress")
    assert client.task(task)["progress"] == 0.25
    open(gate, "w", encoding="utf-8").close()
    client.wait_terminal(task)
    assert client.task(task)["progress"] == 1


# ------------------------------------------------------------------ the conversation


def test_messages_of_a_conversation(client):
    conversation = new_id()
    first, _ = client.finish("one", conversation=conversation)
    second, _ = client.finish({"token": "part"}, {"exit": 3}, conversation=conversation)
    messages = client.call("history", conversation_id=conversation)["messages"]
    assert [(m["role"], m["content"], m["task_id"], bool(m.get("partial"))) for m in messages] == [
        ("user", "one", first["task_id"], False),
        ("assistant", "one", first["task_id"], False),
        ("user", program({"token": "part"}, {"exit": 3}), second["task_id"], False),
        ("assistant", "part", second["task_id"], True),
    ]
    assert len({m["message_id"] for m in messages}) == 4
    assert all(isinstance(m["created_at"], int) for m in messages)


def test_history_is_given_to_the_next_turn(client):
    conversation = new_id()
    client.finish("one", conversation=conversation)
    client.finish({"thinking": "no"}, {"exit": 1}, conversation=conversation)
    task, _ = client.finish({"answer": "history"}, conversation=conversation)
    history = json.loads(task["output"])
    assert [(m["role"], m["content"]) for m in history] == [
        ("user", "one"), ("assistant", "one"), ("user", program({"thinking": "no"}, {"exit": 1}))]


def test_history_is_the_newest_256_kib(client):
    conversation = new_id()
    for i in range(8):
        client.finish(f"{i}" * 40000, conversation=conversation)  # twice 40,000 bytes each
    task, _ = client.finish({"dump": (path := client.gateway.path())}, conversation=conversation)
    history = json.loads(open(path, encoding="utf-8").read())["run"]["history"]
    assert sum(len(m["content"]) for m in history) <= 256 * 1024
    assert 4 <= len(history) <= 6
    assert history[-1]["content"] == "7" * 40000
    assert task["status"] == "completed"


def test_history_excludes_its_own_input_when_turns_overlap(client):
    conversation, gate = new_id(), client.gateway.path()
    client.chat({"wait": gate}, {"token": "late"}, conversation=conversation)
    task, _ = client.finish({"answer": "history"}, conversation=conversation)
    history = json.loads(task["output"])
    assert len(history) == 1 and history[0]["role"] == "user"
    open(gate, "w", encoding="utf-8").close()


def test_metadata_is_given_to_the_agent(client):
    path = client.gateway.path()
    metadata = {"user": {"lang": "de"}, "n": 2**53 - 1, "f": 0.1}
    task, _ = client.finish({"dump": path}, metadata=metadata)
    assert json.loads(open(path, encoding="utf-8").read())["run"]["metadata"] == metadata
    assert client.task(task)["metadata"] == metadata


def test_first_message_makes_the_title(client):
    conversation = new_id()
    client.finish("é" * 100, conversation=conversation)
    found = client.call("conversations")["conversations"][0]
    assert found["conversation_id"] == conversation
    assert found["title"] == "é" * 80


# ------------------------------------------------------------------ request_key (F28)


def test_request_key_repeated_is_the_same_task(client, clients):
    path = client.gateway.path()
    message = program({"count": path}, {"token": "x"})
    first = client.call("chat", message=message, request_key="k")
    events = list(client.events(first["task"]))
    other_tab = client.chat("something else", conversation=first["task"]["conversation_id"])
    for _ in range(3):
        again = clients(token=client.token)
        repeat = again.call("chat", message=message, request_key="k")
        assert repeat["repeated"] is True
        assert repeat["task"]["task_id"] == first["task"]["task_id"] != other_tab["task_id"]
        assert list(again.events(first["task"])) == events  # streamed from seq 1
    assert open(path, "rb").read().count(b"\n") == 1


def test_request_key_on_the_connection_that_follows_never_doubles(client):
    gate = client.gateway.path()
    message = program({"token": "a"}, {"wait": gate}, {"token": "b"})
    task = client.call("chat", message=message, request_key="k")["task"]
    client.event(task, "token")
    since = len(client.log)
    assert client.call("chat", message=message, request_key="k")["repeated"] is True
    open(gate, "w", encoding="utf-8").close()
    events = list(client.events(task, since))
    assert events[0]["seq"] == 1 and text_of(events) == "ab"


def test_request_key_with_another_request_is_conflict(client):
    conversation = new_id()
    client.chat("x", conversation=conversation, request_key="k", agent="script")
    for changed in ({"message": "y"}, {"agent": "other"}, {"conversation_id": new_id()}):
        fields = {"message": "x", "conversation_id": conversation, "request_key": "k", **changed}
        client.refused("conflict", "chat", **fields)
    assert client.call("chat", message="x", request_key="k")["repeated"] is True
    assert len(client.call("tasks", conversation_id=conversation)["tasks"]) == 1


def test_request_key_belongs_to_its_owner(client, clients):
    task = client.chat("x", request_key="k")
    reply = clients().call("chat", message="y", request_key="k")
    assert "repeated" not in reply and reply["task"]["task_id"] != task["task_id"]


def test_request_key_of_a_refused_chat_is_not_used_up(client):
    client.refused("bad_request", "chat", message="x", agent="nobody", request_key="k")
    assert "repeated" not in client.call("chat", message="x", request_key="k")


def test_request_key_from_many_connections_at_once_starts_one(gateway, client, clients):
    path = gateway.path()
    tabs = [clients(token=client.token) for _ in range(8)]
    for i in range(10):
        message = program({"count": path + str(i)}, {"token": "x"})
        barrier = threading.Barrier(len(tabs))

        def start(tab):
            barrier.wait()
            tab.started = tab.call("chat", message=message, request_key=f"k{i}")
            tab.wait_terminal(tab.started["task"])

        threads = [threading.Thread(target=start, args=(tab,)) for tab in tabs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({tab.started["task"]["task_id"] for tab in tabs}) == 1
        assert sum(not tab.started.get("repeated") for tab in tabs) == 1
        assert open(path + str(i), "rb").read().count(b"\n") == 1


def test_request_key_survives_a_dropped_connection_and_a_kill():
    with Gateway() as gateway:
        path = gateway.path()
        message = program({"count": path}, {"token": "x"})
        with Client(gateway) as client:
            token = client.token
            client.post("chat", message=message, request_key="k", conversation_id="c")
            client.drop()  # before the answer
        with Client(gateway, token=token) as client:
            task = client.call("chat", message=message, request_key="k", conversation_id="c")["task"]
            client.wait_terminal(task)
        gateway.kill()
        gateway.start()
        with Client(gateway, token=token) as client:
            again = client.call("chat", message=message, request_key="k")
            assert again["repeated"] is True and again["task"]["task_id"] == task["task_id"]
            assert client.wait_terminal(task)["event"] == "task.completed"
            client.refused("conflict", "chat", message="other", request_key="k")
        assert open(path, "rb").read().count(b"\n") == 1


# ------------------------------------------------------------------ output


def test_output_is_cut_behind_the_last_whole_character(client):
    task, events = client.finish({"repeat": 100, "steps": [{"token": "€" * 1000}]})
    assert task["output_truncated"] is True
    assert task["output"] == "€" * (256 * 1024 // 3)
    assert text_of(events) == "€" * 100_000  # the events have it all


def test_output_of_exactly_256_kib_is_whole(client):
    task, _ = client.finish({"repeat": 16, "steps": [{"token": "x" * 16384}]})
    assert task["output"] == "x" * (256 * 1024)
    assert not task.get("output_truncated")


@pytest.mark.parametrize("line", [
    {"event": "final_answer", "data": {"output": "x" * (256 * 1024 + 1)}},
    {"event": "result", "data": {"r": "x" * (256 * 1024)}},
], ids=["final_answer", "result"])
def test_own_answer_beyond_256_kib_fails_the_task(client, line):
    kind = line["event"]
    key = "output" if kind == "final_answer" else "r"
    n = len(line["data"][key])
    head = '{"event":"%s","data":{"%s":"' % (kind, key)
    code = {"raw": head}, {"repeat": n // 1024, "steps": [{"raw": "x" * 1024}]}, \
        {"raw": "x" * (n % 1024) + '"}}\n'}
    task, events = client.finish(*code)
    assert task["status"] == "failed"
    assert names(events)[-1] == "task.failed"
    assert kind in task["error"]["message"] or "256" in task["error"]["message"] or \
        "262144" in task["error"]["message"]


def test_nobody_watching_changes_nothing(client, clients):  # F14
    gate = client.gateway.path()
    task = client.chat({"wait": gate}, {"token": "alone"})
    client.drop()
    open(gate, "w", encoding="utf-8").close()
    again = clients(token=client.token)
    wait_until(lambda: again.task(task)["status"] == "completed", "the end")
    assert again.task(task)["output"] == "alone"
    events = again.replay(task)
    assert names(events) == ["task.created", "task.started", "token", "final_answer", "task.completed"]
