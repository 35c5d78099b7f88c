"""The state of tasks after a restart: rows A11, A13, A25, A26, A28, A31, A32, A34, A44, A51 to A56
and A101 of the task manager.

There is no plugin to register and no hook to call: what they did is the order of a start, and that is
what is tested.  One world is made, killed, looked at, stopped and looked at again.
"""

import os
import types

import pytest

from gateway import Gateway, script_agent, wait_until
from holdfast import LIVE, TERMINAL, Client, ids, names
from manager import HANG, child, listed, make, spawn

CONFIG = {"agents": [script_agent(default=True), script_agent("shell"), script_agent("hurried", timeout_s=1)]}


def build(client, gateway):
    """Tasks in all states; kept by name."""
    made = {}
    timeout = client.chat(HANG, conversation="thread-2", agent="hurried")
    made["orphan"] = client.chat({"token": "half"}, HANG, conversation="thread-1", description="orphan")
    client.event(made["orphan"], "token")
    made["gate"] = gateway.path()
    made["queued"] = client.chat({"wait": made["gate"]}, {"final_answer": "late"}, conversation="thread-1",
                                 when_busy="enqueue", name="researcher")
    made["shell"], _ = client.finish({"result": {"exit_code": 0}}, conversation="thread-r", agent="shell",
                                     description="restored", background=True)
    made["failed"], _ = client.finish({"stderr": "err\n"}, {"exit": 1}, conversation="thread-2")
    made["parent"] = client.chat(spawn("kid", HANG, call_id="call-xyz"), HANG, conversation="thread-3")
    made["kid"] = client.task(child(client, made["parent"]))
    client.wait_terminal(timeout)
    made["timeout"] = client.task(timeout)
    return made


def look(client):
    """All that there is of tasks."""
    return {conversation: client.call("tasks", conversation_id=conversation)["tasks"]
            for conversation in ("thread-1", "thread-2", "thread-3", "thread-r")}


@pytest.fixture(scope="module")
def world():
    with Gateway(CONFIG) as gateway:
        with Client(gateway) as client:
            token, made = client.token, build(client, gateway)
            before = look(client)
            shell = client.task(made["shell"])
            gateway.kill()
        gateway.start()
        with Client(gateway, token=token) as client:
            name_in_use = client.ask("chat", message="x", conversation_id="thread-1", name="researcher")
            make(made["gate"])
            wait_until(lambda: client.task(made["queued"])["status"] not in LIVE, "the queued one's end")
            killed = look(client)
            new, _ = client.finish("new", conversation="thread-r")
        assert gateway.stop() == 0
        gateway.start()
        client = Client(gateway, token=token)
        yield types.SimpleNamespace(gateway=gateway, client=client, made=made, before=before, shell=shell,
                                    killed=killed, stopped=look(client), new=new, name_in_use=name_in_use)
        client.close()


def one(tasks, task):
    return next(t for t in tasks[task["conversation_id"]] if t["task_id"] == task["task_id"])


# ------------------------------------------------------------------ what was recorded


def test_a13_completed_task_is_there_after_a_restart(world):
    restored = one(world.killed, world.made["shell"])
    assert (restored["status"], restored["conversation_id"]) == ("completed", "thread-r")
    assert world.client.task(world.made["shell"]) == world.shell


def test_a25_record_has_the_tasks_of_all_threads(world):
    shell, failed = world.made["shell"], world.made["failed"]
    assert shell["conversation_id"] != failed["conversation_id"]
    for tasks in (world.before, world.killed, world.stopped):
        assert one(tasks, shell)["status"] == "completed"
        assert one(tasks, failed)["status"] == "failed"


def test_a28_planned_stop_keeps_what_was_done(world):
    tasks = world.stopped["thread-r"]
    assert (tasks[0]["agent"], tasks[0]["status"]) == ("shell", "completed")
    assert one(world.stopped, world.new) == one({"thread-r": tasks}, world.new)
    assert world.client.task(world.new) == world.new
    for conversation, found in world.killed.items():  # a stop with nothing running changes nothing
        assert world.stopped[conversation][: len(found)] == found


def test_a31_record_has_the_running_ones_too(world):
    tasks = world.before["thread-1"]
    assert [(t["task_id"], t["status"]) for t in tasks] == \
        [(world.made["orphan"]["task_id"], "running"), (world.made["queued"]["task_id"], "pending")]
    assert not any(t.get("completed_at") for t in tasks)
    orphan = world.killed["thread-1"][0]  # only on disk can a killed gateway have had it
    assert orphan["task_id"] == world.made["orphan"]["task_id"]
    both = world.before["thread-1"][:1] + world.before["thread-r"]
    assert sum(t["status"] not in LIVE for t in both) == 1


def test_a32_ids_go_on_behind_the_restored_ones(world):
    old = [t["task_id"] for tasks in world.before.values() for t in tasks]
    assert world.new["task_id"] > max(old)
    again = world.client.chat("x", conversation="thread-r")
    world.client.wait_terminal(again)
    made = list(listed(world.client, "thread-r"))
    assert made[:2] == [world.made["shell"]["task_id"], world.new["task_id"]]
    assert made[-1] == again["task_id"] and made == sorted(made)


def test_a34_lineage_is_restored(world):
    parent = world.made["kid"]["parent"]
    assert parent["task_id"] == world.made["parent"]["task_id"] and parent["call_id"] == "call-xyz"
    assert one(world.killed, world.made["kid"])["parent"] == parent
    assert world.client.task(world.made["kid"])["parent"] == parent


def test_a44_record_has_the_value_of_the_result(world):
    assert world.client.task(world.made["shell"])["result"] == {"exit_code": 0}


def test_a101_result_outlives_its_gateway(world):
    record = world.client.task(world.made["shell"])
    assert record["result"] == {"exit_code": 0}
    assert record["completed_at"] == world.made["shell"]["completed_at"] > 0


def test_a79_name_is_held_over_a_restart(world):
    assert (world.name_in_use["type"], world.name_in_use["code"]) == ("error", "conflict")
    assert world.client.task(world.made["queued"])["name"] == "researcher"
    again = world.client.chat("x", conversation="thread-1", name="researcher")  # free: that one has ended
    world.client.wait_terminal(again)


# ------------------------------------------------------------------ what a start repairs


def test_a54_running_task_is_orphaned_by_a_restart(world):
    for name, output in (("orphan", "half"), ("parent", None), ("kid", None)):
        task = world.client.task(world.made[name])
        assert task["status"] == "failed" and task["error"]["code"] == "orphaned"
        assert "orphaned" in task["error"]["message"]
        assert task["completed_at"] and (task.get("output") or None) == output
        events = world.client.replay(task)
        assert sum(event["event"] in TERMINAL for event in events) == 1
        assert events[-1]["data"]["error"] == task["error"]


def test_a55_terminal_status_is_kept(world):
    completed, failed = one(world.killed, world.made["shell"]), one(world.killed, world.made["timeout"])
    assert completed["status"] == "completed" and not completed.get("error")
    assert failed["status"] == "failed" and failed["error"]["code"] == "timeout"
    assert world.client.task(world.made["timeout"]) == world.made["timeout"]
    assert world.client.task(world.made["failed"]) == world.made["failed"]


def test_a26_restored_ones_stand_beside_the_live_ones(world):
    client, gate = world.client, world.gateway.path()
    live = client.chat({"wait": gate}, conversation="thread-2", description="live")
    client.event(live, "task.started")
    tasks = listed(client, "thread-2")
    assert (tasks[live["task_id"]]["status"], tasks[live["task_id"]]["description"]) == ("running", "live")
    failed = tasks[world.made["failed"]["task_id"]]
    assert failed["status"] == "failed" and "err" in failed["error"]["message"]
    assert failed == one(world.killed, world.made["failed"])
    make(gate)
    client.wait_terminal(live)


def test_a56_live_task_is_not_degraded(world):
    """A second gateway that would restore the same data is refused, and the task runs on."""
    client, gate = world.client, world.gateway.path()
    live = client.chat({"token": "a"}, {"wait": gate}, {"token": "b"}, conversation="thread-9")
    client.event(live, "token")
    second = Gateway(CONFIG, folder=world.gateway.folder)
    process = second.spawn()
    assert process.wait(60) == 1
    second._finish()
    record = client.task(live)
    assert record["status"] == "running" and not record.get("error")
    make(gate)
    assert client.wait_terminal(live)["data"]["output"] == "ab"


# ------------------------------------------------------------------ the order of a start


def test_a11_fresh_store_takes_the_first_task(tmp_path):
    """Nothing need be prepared: the first lines of the first connection start a task."""
    with Gateway(folder=tmp_path) as gateway, Client(gateway, hello=False) as client:
        assert os.path.isdir(gateway.data)
        client.send({"type": "hello", "id": "h"},
                    {"type": "chat", "id": "c", "message": '[{"result":{"ok":true}}]', "conversation_id": "c"},
                    {"type": "tasks", "id": "t", "conversation_id": "c"})
        task = client.reply("c")["task"]
        assert [t["task_id"] for t in client.reply("t")["tasks"]] == [task["task_id"]]
        client.wait_terminal(task)
        assert client.task(task)["result"] == {"ok": True}


def test_a51_a_gateway_says_its_name_when_it_is_ready(world):
    assert world.client.welcome["server"] == {"name": "holdfast", "version": world.gateway.version}


def test_a52_start_alone_makes_nothing(world):
    with Client(world.gateway) as guest:
        assert guest.call("conversations")["conversations"] == []
        assert guest.call("open", conversation_id="thread-1")["tasks"] == []
    head = world.client.task(world.made["orphan"])["head"]
    assert head == 4  # created, started, token, failed: repaired once, in two starts


def test_a53_restore_comes_before_the_first_start(world):
    """Waiting tasks start when the orphan before them has ended, and so do all new ones."""
    orphan, queued = (world.client.task(world.made[name]) for name in ("orphan", "queued"))
    assert (queued["status"], queued["output"]) == ("completed", "late")
    assert orphan["completed_at"] <= queued["started_at"]
    assert orphan["completed_at"] <= world.new["created_at"]
    events = world.client.replay(queued)
    assert names(events) == ["task.created", "task.started", "final_answer", "task.completed"]
    assert world.client.call("cancel", **ids(queued))["cancelled"] == 0
