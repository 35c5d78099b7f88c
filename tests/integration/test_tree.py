"""A tree of tasks under load is cancelled whole: three levels, a hundred tasks, all of them talking."""

import json
import time

from gateway import LATE_S, script_agent
from holdfast import TERMINAL, ids, new_id

CONFIG = {"agents": [script_agent(default=True, grace_s=1), {"name": "leaf", "kind": "source"}]}
MIDDLE, LEAVES = 9, 10
LEAF = "events=10000000 bytes=40 burst=1 interval_ms=20"


def spawn(agent, input, number):
    return {"line": {"call": "spawn", "call_id": f"s{number}", "agent": agent, "input": input}}


def tree():
    """Each level starts the next one and talks on; on SIGTERM the middle ones try once more."""
    late = {"on_term": [spawn("leaf", LEAF, 99)]}
    talk = {"flood": 1_000_000, "bytes": 20, "per_s": 100}
    middle = [late, *(spawn("leaf", LEAF, n) for n in range(LEAVES)), talk]
    return [*(spawn("script", json.dumps(middle), n) for n in range(MIDDLE)), talk]


def all_tasks(client, conversation):
    found, before = [], {}
    while True:
        page = client.call("tasks", conversation_id=conversation, limit=100, **before)
        found = page["tasks"] + found
        if not page["more"]:
            return found
        before = {"before": page["tasks"][0]["task_id"]}


def test_tree_of_100_talking_tasks_is_cancelled_whole(client):
    total = 1 + MIDDLE + MIDDLE * LEAVES
    conversation = new_id()
    client.call("open", conversation_id=conversation, follow=True)
    root = client.chat(*tree(), conversation=conversation)
    talking, since = set(), 0
    for line in client.scan(since):
        if line["type"] == "event" and line["event"] == "token":
            talking.add(line["task_id"])
            if len(talking) == total:
                break
    begun = time.monotonic()
    since = len(client.log)
    reply = client.call("cancel", tree=True, **ids(root))
    assert reply["cancelled"] == total and set(reply["task_ids"]) == talking
    ended = {}
    for line in client.scan(since):
        if line["type"] == "event" and line["event"] in TERMINAL:
            assert line["task_id"] not in ended
            ended[line["task_id"]] = line["data"]["status"]
            if len(ended) == total:
                break
    # the grace, the force behind it, and what a busy machine needs
    assert time.monotonic() - begun < 1 + 2 + 2 * LATE_S
    assert set(ended) == talking and set(ended.values()) == {"cancelled"}
    tasks = all_tasks(client, conversation)
    assert len(tasks) == total  # what was spawned after the cancel left no record
    assert {task["status"] for task in tasks} == {"cancelled"}
    for task in tasks[:: total // 7]:
        events = client.replay(task, 0)
        assert sum(event["event"] in TERMINAL for event in events) == 1


def test_tree_is_cancelled_through_a_root_that_has_ended(client):
    conversation = new_id()
    client.call("open", conversation_id=conversation, follow=True)
    root, _ = client.finish(spawn("leaf", LEAF, 1), conversation=conversation)
    assert root["status"] == "completed"
    reply = client.call("cancel", tree=True, **ids(root))
    assert reply["cancelled"] == 1
    assert client.call("cancel", tree=True, **ids(root))["cancelled"] == 0
    child = {"task_id": reply["task_ids"][0], "conversation_id": conversation}
    client.expect(lambda line: line["type"] == "event" and line["task_id"] == child["task_id"]
                  and line["event"] in TERMINAL)
    assert client.task(child)["parent"]["task_id"] == root["task_id"]
