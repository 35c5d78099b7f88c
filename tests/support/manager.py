"""Shared by the tests of the task manager's rows (A1 to A101, W1 to W10)."""

import json

HANG = {"hang": 1}


def make(path):
    open(path, "w", encoding="utf-8").close()


def spawn(label, *steps, **fields):
    """The step with which a scripted agent starts a child that carries out these steps."""
    return {"call": "spawn", "as": label, "input": list(steps), **fields}


def customs(events, event_type=None):
    """The custom events among them, as (type, payload)."""
    found = [(event["data"]["event_type"], event["data"].get("payload"))
             for event in events if event["event"] == "custom"]
    return [custom for custom in found if event_type in (None, custom[0])]


def child(client, task, n=1):
    """The ids of a task's nth child, as soon as its event has arrived."""
    seen = 0
    for line in client.scan():
        if line["type"] == "event" and line["task_id"] == task["task_id"] and line["event"] == "child":
            seen += 1
            if seen == n:
                return {"task_id": line["data"]["task_id"], "conversation_id": task["conversation_id"]}


def said(events):
    """The answers that a scripted agent reported with "say", decoded."""
    return [json.loads(event["data"]["text"]) for event in events if event["event"] == "token"]


def listed(client, conversation, **fields):
    """task_id → summary of a conversation's list."""
    tasks = client.call("tasks", conversation_id=conversation, **fields)["tasks"]
    return {task["task_id"]: task for task in tasks}


def running(client, conversation):
    """How many tasks of a conversation are live, according to the list of conversations."""
    for entry in client.call("conversations")["conversations"]:
        if entry["conversation_id"] == conversation:
            return entry["running"]
    return 0
