"""Tasks that are started, asked for and answered: rows A4 to A6, A10, A21, A22, A24, A27, A29, A30,
A64, A69, A98 and A101 of the task manager, and their lineage: A34 to A36."""

import json

from gateway import script_agent
from holdfast import ids, new_id
from manager import HANG, child, listed, make, said, spawn

CONFIG = {"agents": [script_agent(default=True), script_agent("shell"), script_agent("http")]}


def test_a04_spawn_and_list(client):
    task = client.chat(HANG, conversation="thread-1", agent="shell", description="my task")
    client.event(task, "task.started")
    tasks = client.call("tasks", conversation_id="thread-1")["tasks"]
    assert [(t["task_id"], t["agent"], t["description"], t["status"]) for t in tasks] == \
        [(task["task_id"], "shell", "my task", "running")]
    assert client.call("tasks", conversation_id="thread-2")["tasks"] == []
    client.call("cancel", **ids(task))


def test_a05_task_completes_with_its_result(client):
    task, _ = client.finish({"result": {"answer": 42}})
    assert task["status"] == "completed"
    assert task["completed_at"] >= task["created_at"]
    assert task["result"]["answer"] == 42


def test_a06_task_fails_with_its_error(client):
    task, _ = client.finish({"stderr": "oops\n"}, {"exit": 1})
    assert task["status"] == "failed"
    assert task["error"]["code"] == "agent_error" and "oops" in task["error"]["message"]
    assert not task.get("result")


def test_a10_agent_is_told_the_id_that_its_starter_got(client):
    task, events = client.finish(
        spawn("kid", {"answer": "task_id"}, say=True), {"hear": "message", "say": True})
    answer, message = said(events)
    assert answer["type"] == "child"
    kid = client.task({**ids(task), "task_id": answer["task_id"]})
    assert json.loads(kid["output"]) == answer["task_id"] == message["child"]["task_id"]
    task, _ = client.finish({"answer": "task_id"})
    assert json.loads(task["output"]) == task["task_id"]


def test_a21_several_tasks_at_once(client):
    conversation = new_id()
    blockers = [client.chat(HANG, conversation=conversation, agent=agent) for agent in ("shell", "http")]
    for task in blockers:
        client.event(task, "task.started")
    third, _ = client.finish({"token": "done"}, conversation=conversation)
    tasks = client.call("tasks", conversation_id=conversation)["tasks"]
    assert [(t["task_id"], t["agent"], t["status"]) for t in tasks] == [
        (blockers[0]["task_id"], "shell", "running"),
        (blockers[1]["task_id"], "http", "running"),
        (third["task_id"], "script", "completed")]
    for task in blockers:
        assert client.call("cancel", **ids(task))["cancelled"] == 1


def test_a22_one_that_does_not_exist_is_not_found(client):
    client.finish("x", conversation="thread-1")
    for task in ("nonexistent", "01ARZ3NDEKTSV4RRFFQ69G5FAV"):
        client.refused("not_found", "task", task_id=task, conversation_id="thread-1")


def test_a24_nested_result_is_read_exactly(client):
    result = {"key": "value", "nested": [1, 2, 3]}
    task, events = client.finish({"result": result})
    assert task["result"] == result == events[-1]["data"]["result"]


def test_a27_ids_are_in_order_of_creation(client):
    """Three in one message (they were bg_0, bg_1, bg_2), made within one turn."""
    conversation = new_id()
    client.send(*({"type": "chat", "id": f"spawn-{i}", "message": "x", "conversation_id": conversation}
                  for i in range(3)))
    made = [client.reply(f"spawn-{i}")["task"]["task_id"] for i in range(3)]
    assert made == sorted(set(made)) and len(made) == 3
    assert list(listed(client, conversation)) == made


def test_a29_status_of_each_changes_on_its_own(client):
    conversation = new_id()
    blocker = client.chat(HANG, conversation=conversation)
    client.event(blocker, "task.started")
    completed, _ = client.finish({"token": "x"}, conversation=conversation)
    assert client.task(blocker)["status"] == "running"
    failed, _ = client.finish({"stderr": "boom\n"}, {"exit": 1}, conversation=conversation)
    assert completed["status"] == "completed" and completed["completed_at"]
    assert failed["status"] == "failed" and "boom" in failed["error"]["message"] and failed["completed_at"]
    record = client.task(blocker)
    assert record["status"] == "running" and not record.get("completed_at")
    assert client.task(completed) == completed  # terminal ones never change
    client.call("cancel", **ids(blocker))


def test_a30_spawns_and_cancels_mixed(client):
    conversation = new_id()
    blockers, finishers = [], []
    for i in range(3):
        blockers.append(client.chat({"token": "x"}, HANG, conversation=conversation))
        if i < 2:
            finishers.append(client.chat({"token": "done"}, conversation=conversation))
    for task in blockers:
        assert client.call("cancel", **ids(task))["cancelled"] == 1
    for task in blockers + finishers:
        client.wait_terminal(task)
    tasks = listed(client, conversation)
    assert len(tasks) == 5
    assert [tasks[task["task_id"]]["status"] for task in finishers] == ["completed"] * 2
    assert [tasks[task["task_id"]]["status"] for task in blockers] == ["cancelled"] * 3


def test_a64_one_shot_completes_with_its_result(client):
    task, events = client.finish({"result": {"sum": 42}}, {"final_answer": "42"}, background=True)
    assert (task["status"], task["result"]) == ("completed", {"sum": 42})
    assert events[-1]["event"] == "task.completed" and events[-1]["data"]["result"] == {"sum": 42}


def test_a69_one_shot_fails_with_its_error(client):
    task, _ = client.finish({"stderr": "connection refused\n"}, {"exit": 1}, background=True)
    assert task["status"] == "failed" and "connection refused" in task["error"]["message"]
    assert task["error"] == client.task(task)["error"]


def test_a98_what_is_read_is_what_was_recorded(client, clients):
    task, _ = client.finish({"result": {"x": 1}}, conversation=new_id())
    reader = clients(token=client.token)
    assert reader.task(task)["result"] == {"x": 1}
    assert list(listed(reader, task["conversation_id"])) == [task["task_id"]]


def test_a101_result_is_there_long_after_the_end(client, clients):
    task, _ = client.finish({"result": {"answer": 42}})
    client.close()
    reader = clients(token=client.token)
    for _ in range(8):  # others come and go meanwhile
        reader.wait_terminal(reader.chat("x", agent="shell"))
    record = reader.task(task)
    assert record["result"] == {"answer": 42} and record["completed_at"] == task["completed_at"]


# ------------------------------------------------------------------ lineage


def test_a34_lineage_is_the_same_wherever_it_is_shown(client):
    task = client.chat(spawn("kid", HANG, call_id="call-xyz"), HANG, agent="shell")
    kid = child(client, task)
    parent = client.task(kid)["parent"]
    assert parent["call_id"] == "call-xyz" and parent["agent_id"] == "shell"
    assert parent["task_id"] == task["task_id"]
    assert listed(client, task["conversation_id"])[kid["task_id"]]["parent"] == parent
    opened = client.call("open", conversation_id=task["conversation_id"])
    assert [t.get("parent") for t in opened["tasks"]] == [None, parent]
    assert client.call("cancel", **ids(task), tree=True)["cancelled"] == 2
    client.wait_terminal(task)
    client.resume(kid)
    client.wait_terminal(kid)
    assert client.task(kid)["parent"] == parent  # from the store, too
    assert listed(client, task["conversation_id"])[kid["task_id"]]["parent"] == parent


def test_a35_child_inherits_the_run_the_call_and_the_agent(client):
    """The agent names none of them: the gateway fills them in.  A task is one run of an agent."""
    gate = client.gateway.path()
    task, events = client.finish(spawn("kid", {"wait": gate}, call_id="call-ambient", say=True),
                                 agent="http")
    kid = client.task({**ids(task), "task_id": said(events)[0]["task_id"]})
    assert (kid["type"], kid["conversation_id"]) == ("child", task["conversation_id"])
    assert kid["parent"]["task_id"] == kid["parent"]["run_id"] == task["task_id"]
    assert (kid["parent"]["call_id"], kid["parent"]["agent_id"]) == ("call-ambient", "http")
    assert kid["agent"] == "script"  # not inherited: the default
    assert not task.get("parent")
    make(gate)


def test_a36_nested_spawn_has_its_parent_and_a_tree_is_cancelled(client):
    root = client.chat(spawn("kid", {"answer": "task_id"}, HANG), {"answer": "task_id"}, HANG)
    kid = child(client, root)
    client.resume(kid)
    for task in (root, kid):  # each sees itself
        assert json.loads(client.event(task, "final_answer")["data"]["output"]) == task["task_id"]
    assert client.task(kid)["parent"]["task_id"] == root["task_id"]
    reply = client.call("cancel", **ids(root), tree=True)
    assert reply["cancelled"] == 2
    assert sorted(reply["task_ids"]) == sorted([root["task_id"], kid["task_id"]])
    for task in (root, kid):
        client.wait_terminal(task)
        assert client.task(task)["status"] == "cancelled"


def test_a36_child_sees_its_parent(client):
    path = client.gateway.path()
    task, _ = client.finish(spawn("kid", {"dump": path}, {"token": "ok"}), {"hear": "message"})
    with open(path, encoding="utf-8") as file:
        run = json.load(file)["run"]
    assert run["parent"]["task_id"] == task["task_id"]
    assert run["history"] == []  # a child has none
