"""Tasks that are cancelled, alone, as a tree, or all of a conversation: rows A7 to A9, A12, A23, A62,
A66 to A68, A71, A77, A90, A91 and A96 of the task manager.

There a cancelled task has an event of its own; here it is `task.failed` with the status `cancelled`.
"""

import os

from gateway import SCALE, Gateway, script_agent, wait_until
from holdfast import LIVE, Client, ids, names, new_id
from manager import HANG, child, customs, listed, running, said, spawn
from model_server import ModelServer, answer

# "gentle" has the time to end by itself, however busy the machine is.
CONFIG = {"agents": [script_agent(default=True), script_agent("gentle", grace_s=60)]}
MANY = 100_000


def waiting(client, conversation=None):
    """A task whose agent runs, and waits for ever."""
    task = client.chat(HANG, conversation=conversation or new_id())
    client.event(task, "task.started")
    return task


def cancelled(client, task):
    """Waits for its end, which must be that of a cancel; gives the events."""
    events = list(client.events(task))
    assert events[-1]["event"] == "task.failed"
    assert events[-1]["data"]["status"] == "cancelled"
    assert "cancelled" in events[-1]["data"]["error"]["message"]
    assert client.task(task)["status"] == "cancelled"
    return events


def live(client, conversation):
    return [task for task in listed(client, conversation).values() if task["status"] in LIVE]


def test_a07_cancel(client):
    task = waiting(client)
    assert client.call("cancel", **ids(task))["cancelled"] == 1
    cancelled(client, task)


def test_a08_cancel_of_one_that_does_not_exist(client):
    task = waiting(client)
    for missing in ("nonexistent", "01ARZ3NDEKTSV4RRFFQ69G5FAV"):
        client.refused("not_found", "cancel", task_id=missing, conversation_id=task["conversation_id"])
    assert client.task(task)["status"] == "running"
    client.call("cancel", **ids(task))


def test_a09_tree_takes_all_descendants(client):
    grandchild = spawn("grandchild", HANG)
    root = client.chat(spawn("child", grandchild, HANG), HANG)
    middle = child(client, root)
    client.resume(middle)
    leaf = child(client, middle)
    client.resume(leaf)
    other = waiting(client, root["conversation_id"])
    reply = client.call("cancel", **ids(root), tree=True)
    assert reply["cancelled"] == 3
    assert sorted(reply["task_ids"]) == sorted(task["task_id"] for task in (root, middle, leaf))
    for task in (root, middle, leaf):
        cancelled(client, task)
    assert client.task(other)["status"] == "running"  # it descends from none of them
    client.call("cancel", **ids(other))


def test_a09_without_tree_the_descendants_run_on(client):
    root = client.chat(spawn("child", HANG), HANG)
    kid = child(client, root)
    assert client.call("cancel", **ids(root))["task_ids"] == [root["task_id"]]
    cancelled(client, root)
    assert client.task(kid)["status"] in LIVE
    assert not client.task(kid).get("cancel_requested_at")
    client.call("cancel", **ids(kid))


def test_a09_tree_is_nobody_elses(client, clients):
    root = client.chat(spawn("child", HANG), HANG)
    kid = child(client, root)
    other = clients()
    other.refused("not_found", "cancel", **ids(root), tree=True)
    assert [client.task(task)["status"] in LIVE for task in (root, kid)] == [True, True]
    client.call("cancel_all", conversation_id=root["conversation_id"])


def test_a12_agent_cancels_its_child(client):
    root = client.chat(spawn("kid", HANG), {"call": "cancel", "child": "kid", "say": True},
                       {"hear": "message", "say": True})
    answer, message = said(client.events(root))
    kid = child(client, root)
    assert (answer["type"], answer["cancelled"], answer["task_ids"]) == ("ok", 1, [kid["task_id"]])
    assert message["child"]["status"] == "cancelled"
    assert client.task(kid)["status"] == "cancelled"


def test_a12_agent_cancels_only_children_of_its_own(client):
    other = waiting(client, "thread-1")
    task, events = client.finish(
        {"call": "cancel", "task_id": other["task_id"], "say": True},
        {"call": "cancel", "task_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "say": True}, conversation="thread-1")
    answers = said(events)
    assert [(answer["type"], answer["code"]) for answer in answers] == [("error", "not_found")] * 2
    assert answers[0]["message"] == answers[1]["message"]
    assert client.task(other)["status"] == "running"
    client.call("cancel", **ids(other))


def test_a23_cancel_of_a_completed_task_is_zero(client):
    task, _ = client.finish("x")
    reply = client.call("cancel", **ids(task))
    assert (reply["cancelled"], reply["task_ids"]) == (0, [])


def test_a62_running_follows_the_life_of_a_task(client):
    client.finish("x", conversation="thread-1")
    client.finish("x", conversation="thread-2")
    assert (running(client, "thread-1"), running(client, "thread-2")) == (0, 0)
    task = waiting(client, "thread-1")
    assert (running(client, "thread-1"), running(client, "thread-2")) == (1, 0)
    client.call("cancel", **ids(task))
    cancelled(client, task)
    assert (running(client, "thread-1"), running(client, "thread-2")) == (0, 0)


def test_a66_spawn_notify_wait_for_kill(client):
    task = client.chat({"custom": "ready", "payload": {"port": 8080}}, HANG)
    assert client.event(task, "custom")["data"] == {"event_type": "ready", "payload": {"port": 8080}}
    assert client.task(task)["status"] == "running"
    assert running(client, task["conversation_id"]) == 1
    assert client.call("cancel", **ids(task))["cancelled"] == 1
    cancelled(client, task)
    assert running(client, task["conversation_id"]) == 0


def test_a67_cancel_all_stops_all(client):
    conversation = new_id()
    tasks = [waiting(client, conversation) for _ in range(3)]
    assert client.call("cancel_all", conversation_id=conversation)["cancelled"] == 3
    for task in tasks:
        cancelled(client, task)
    assert live(client, conversation) == []
    assert [task["status"] for task in listed(client, conversation).values()] == ["cancelled"] * 3


def test_a68_cancel_all_is_of_one_conversation(client, clients):
    mine, elsewhere = waiting(client, "thread-1"), waiting(client, "thread-2")
    other = clients()
    foreign = waiting(other, "thread-1")
    assert client.call("cancel_all", conversation_id="thread-1")["task_ids"] == [mine["task_id"]]
    cancelled(client, mine)
    assert client.task(elsewhere)["status"] == other.task(foreign)["status"] == "running"
    client.call("cancel", **ids(elsewhere))
    other.call("cancel", **ids(foreign))


def test_a71_cancel_after_completion_changes_nothing(client):
    task, events = client.finish({"result": {"answer": 42}})
    assert client.call("cancel", **ids(task))["cancelled"] == 0
    assert client.call("cancel", **ids(task), tree=True)["cancelled"] == 0
    assert client.call("cancel_all", conversation_id=task["conversation_id"])["cancelled"] == 0
    assert client.task(task) == task and task["status"] == "completed"
    assert client.replay(task) == events


# ------------------------------------------------------------------ while they say things


def emitting(client, conversation=None, **fields):
    """One that says something every few milliseconds, for longer than any test takes."""
    return client.chat({"repeat": MANY, "steps": [{"custom": "heartbeat", "payload": {}}, {"sleep_ms": 5}]},
                       conversation=conversation or new_id(), **fields)


def test_a77_heartbeats_then_cancel(client):
    """It is stopped by being asked, amid its heartbeats: its grace alone would be a minute."""
    task = emitting(client, agent="gentle")
    client.event(task, "custom")
    assert client.call("cancel", **ids(task))["cancelled"] == 1
    events = cancelled(client, task)
    cancel = events[-1]["data"]["cancel"]
    assert 0 <= cancel["stopped_at"] - cancel["requested_at"] < 3000 * SCALE  # 2 to 10; a machine may sleep
    assert 0 <= client.task(task)["completed_at"] - cancel["stopped_at"] < 3000 * SCALE


def test_a90_cancel_while_it_emits(client):
    task = emitting(client)
    client.expect(lambda line: line.get("task_id") == task["task_id"] and line["seq"] == 5)
    assert client.call("cancel", **ids(task))["cancelled"] == 1
    events = cancelled(client, task)
    assert 0 < len(customs(events, "heartbeat")) < MANY
    assert names(events).count("task.failed") == 1 and "task.completed" not in names(events)


def test_a91_what_is_said_after_the_cancel_still_arrives(client):
    ready = client.gateway.path()
    task = client.chat({"on_term": [{"custom": "final_words", "payload": {"n": 1}}, {"exit": 0}]},
                       {"custom": "first_words"}, {"touch": ready}, HANG, agent="gentle")
    wait_until(lambda: os.path.exists(ready), "the agent's start")  # a signal amid its print would break it
    client.call("cancel", **ids(task))
    events = cancelled(client, task)
    assert names(events)[-3:] == ["custom", "custom", "task.failed"]
    assert customs(events, "final_words") == [("final_words", {"n": 1})]
    assert client.replay(task) == events


def test_a96_cancel_all_while_they_emit(client):
    conversation = new_id()
    tasks = [emitting(client, conversation) for _ in range(5)]
    for task in tasks:
        client.event(task, "custom")
    assert client.call("cancel_all", conversation_id=conversation)["cancelled"] == 5
    for task in tasks:
        cancelled(client, task)
    wait_until(lambda: live(client, conversation) == [], "none running")
    assert running(client, conversation) == 0
    ends = [line for line in client.log if line["type"] == "event" and line["event"] == "task.failed"]
    assert len(ends) == 5 and {line["data"]["status"] for line in ends} == {"cancelled"}
    assert {line["task_id"] for line in ends} == {task["task_id"] for task in tasks}



def test_a09_tree_of_a_root_that_has_ended(client):
    """It has nothing left to stop, but its descendants have."""
    root, _ = client.finish(spawn("child", HANG), {"token": "x"})
    kid = child(client, root)
    client.resume(kid)
    reply = client.call("cancel", **ids(root), tree=True)
    assert (reply["cancelled"], reply["task_ids"]) == (1, [kid["task_id"]])
    cancelled(client, kid)
    assert client.task(root) == root  # it completed, and that is final


def test_a23_agent_cancels_a_child_that_ended(client):
    _, events = client.finish(spawn("kid", {"token": "x"}), {"hear": "message"},
                              {"call": "cancel", "child": "kid", "say": True})
    answer = said(events)[0]
    assert (answer["type"], answer.get("cancelled"), answer.get("task_ids")) == ("ok", 0, [])


def test_a12_agents_can_have_the_tool_cancel_task():
    """The model is given it, with what it takes, where the agent has it, and nowhere else."""
    server = ModelServer()
    agents = [{"name": name, "kind": "react", "model": "m", "tools": tools}
              for name, tools in (("with", ["spawn_task", "cancel_task"]), ("without", ["spawn_task"]))]
    agents[0]["default"] = True
    config = {"models": [{"name": "m", "base_url": server.url, "model": "x"}], "agents": agents}
    try:
        with Gateway(config) as gateway, Client(gateway) as client:
            for agent in agents:
                server.script = [answer("done")]
                client.wait_terminal(client.call("chat", message="x", agent=agent["name"])["task"])
        given = [{tool["function"]["name"]: tool["function"]["parameters"] for tool in request.json["tools"]}
                 for request in server.requests]
        assert [set(tools) for tools in given] == [{"spawn_task", "cancel_task"}, {"spawn_task"}]
        assert given[0]["cancel_task"]["required"] == ["task_id"]
    finally:
        server.close()
