"""cancel and cancel_all: on disk first, one ending, by force if need be (PROTOCOL.md 5)."""

import json
import os
import threading
import time

import pytest

from gateway import Gateway, LATE_S, is_alive, processes_with, script_agent, wait_until
from holdfast import TERMINAL, Client, ids, names, new_id, text_of

# "gentle" has the time to end by itself, however busy the machine is.
CONFIG = {"agents": [script_agent(default=True), script_agent("patient", grace_s=3), script_agent("gentle", grace_s=60)]}
GRACE_S = 1


def cancelled(client, task, since=0):
    """Waits for the end of a task that was cancelled and checks all that it must say."""
    end = client.wait_terminal(task, since)
    assert end["event"] == "task.failed"
    assert end["data"]["status"] == "cancelled"
    assert end["data"]["error"]["code"] == "cancelled"
    assert "cancelled" in end["data"]["error"]["message"]
    marks = end["data"]["cancel"]
    assert 0 < marks["requested_at"] <= marks["stopped_at"]
    record = client.task(task)
    assert record["status"] == "cancelled"
    assert record["error"]["code"] == "cancelled"
    assert record["head"] == end["seq"]
    assert record["cancel_requested_at"] == marks["requested_at"]
    assert record["completed_at"]
    return end


def started(client, *steps, **fields):
    """A task that has carried out its steps and now hangs."""
    ready = client.gateway.path()
    task = client.chat(*steps, {"touch": ready}, {"hang": 1}, **fields)
    wait_until(lambda: os.path.exists(ready), "the agent's start")
    task["pid"] = int(open(ready, encoding="utf-8").read())
    return task


def test_cancel_stops_a_task(client):
    task = started(client, {"token": "some"})
    reply = client.call("cancel", **ids(task))
    assert reply["type"] == "ok"
    assert (reply["cancelled"], reply["task_ids"]) == (1, [task["task_id"]])
    end = cancelled(client, task)
    assert end["data"]["output"] == "some"
    assert not is_alive(task["pid"])


def test_cancel_twice_counts_once(client):
    task = started(client, {"ignore_term": 1}, agent="patient")
    assert client.call("cancel", **ids(task))["cancelled"] == 1
    again = client.call("cancel", **ids(task))
    assert (again["cancelled"], again["task_ids"]) == (0, [])
    cancelled(client, task)


def test_status_stays_until_the_end_with_the_request_marked(client):
    gate = client.gateway.path()
    task = started(client, {"on_term": [{"wait": gate}, {"exit": 0}]}, agent="gentle")
    client.call("cancel", **ids(task))
    record = client.task(task)
    assert record["status"] == "running"
    assert record["cancel_requested_at"]
    open(gate, "w", encoding="utf-8").close()
    cancelled(client, task)


def test_cancel_after_the_end_is_zero_and_changes_nothing(client):
    task, events = client.finish("x")
    for _ in range(2):
        assert client.call("cancel", **ids(task))["cancelled"] == 0
    assert client.task(task) == task
    assert client.replay(task) == events


def test_cancel_from_a_connection_that_never_followed(client, clients):  # F17
    task = started(client)
    watching, other = clients(token=client.token), clients(token=client.token)
    watching.resume(task)
    asked = time.monotonic()
    assert other.call("cancel", **ids(task))["cancelled"] == 1
    end = cancelled(client, task)
    assert time.monotonic() - asked < GRACE_S + LATE_S
    assert watching.wait_terminal(task) == end


def test_cancel_after_a_reconnect(client, clients):  # F17
    task = started(client)
    client.drop()
    again = clients(token=client.token)
    again.resume(task)
    assert again.call("cancel", **ids(task))["cancelled"] == 1
    cancelled(again, task)


def test_a_disconnect_never_cancels(client, clients):  # F17
    task = started(client)
    client.drop()
    again = clients(token=client.token)
    for _ in range(20):
        assert again.task(task)["status"] == "running"
    assert is_alive(task["pid"])
    again.call("cancel", **ids(task))


@pytest.mark.parametrize("last", [
    [{"final_answer": "success"}, {"exit": 0}],
    [{"exit": 7}],
    [{"token": "1"}, {"token": "2"}, {"token": "3"}, {"exit": 0}],
    [{"raw": "rubbish\n"}, {"exit": 0}],
    [{"kill": 11}],
], ids=["success", "failure", "more_tokens", "rubbish", "crash"])
def test_cancelled_whatever_the_agent_says_then(client, last):  # F15
    task = started(client, {"on_term": [{"sleep_ms": 300}, *last]}, agent="gentle")
    client.call("cancel", **ids(task))
    end = cancelled(client, task)
    said = names(client.events_since(task))
    assert said.count("task.failed") == 1 and "task.completed" not in said
    if "token" in last[0]:
        assert said[-4:] == ["token", "token", "token", "task.failed"]
        assert end["data"]["output"] == "123"
    if "final_answer" in last[0]:
        assert end["data"]["output"] == "success"
    events = client.replay(task)
    assert events[-1] == end


def test_cancelled_stays_cancelled_over_a_restart():  # F15
    with Gateway() as gateway:
        with Client(gateway) as client:
            task = started(client, {"on_term": [{"final_answer": "late"}, {"exit": 0}]})
            client.call("cancel", **ids(task))
            cancelled(client, task)
            token, record, live = client.token, client.task(task), client.raw_events(task)
        for end in (gateway.kill, gateway.stop):
            end()
            gateway.start()
            with Client(gateway, token=token) as client:
                assert client.task(task) == record
                client.replay(task)
                assert client.raw_events(task) == live


def test_an_agent_that_ignores_everything_is_killed_after_the_grace(client):  # F16
    conversation = new_id()
    task = started(client, {"ignore_term": 1}, conversation=conversation)
    asked = time.monotonic()
    client.call("cancel", **ids(task))
    assert time.monotonic() - asked < LATE_S
    new, _ = client.finish("the next turn", conversation=conversation)
    assert new["status"] == "completed"
    cancelled(client, task)
    assert GRACE_S - 0.2 < time.monotonic() - asked < GRACE_S + LATE_S
    wait_until(lambda: not is_alive(task["pid"]), "its death")
    tasks = client.call("tasks", conversation_id=conversation)["tasks"]
    assert [t["status"] for t in tasks] == ["cancelled", "completed"]


@pytest.mark.parametrize("options", [
    {"hold_stdout": True}, {"hold_stdout": True, "ignore_term": True}, {"setsid": True},
    {"setsid": True, "hold_stdout": True, "ignore_term": True},
], ids=lambda options: "+".join(options))
def test_grandchildren_go_with_their_agent(client, options):  # F19
    conversation, path = new_id(), client.gateway.path()
    task = started(client, {"grandchild": path, **options}, conversation=conversation)
    grandchild = int(open(path, encoding="utf-8").read())
    assert is_alive(grandchild)
    client.call("cancel", **ids(task))
    cancelled(client, task)
    wait_until(lambda: not is_alive(grandchild), "the grandchild's death", GRACE_S + LATE_S)
    assert client.finish("next", conversation=conversation)[0]["status"] == "completed"


def test_grandchildren_go_when_the_agent_ends(client):
    path = client.gateway.path()
    begun = time.monotonic()
    task, _ = client.finish({"grandchild": path, "hold_stdout": True, "ignore_term": True}, {"token": "x"})
    assert task["status"] == "completed" and task["output"] == "x"
    assert time.monotonic() - begun < 1 + LATE_S  # not waited for longer than 1 s
    grandchild = int(open(path, encoding="utf-8").read())
    wait_until(lambda: not is_alive(grandchild), "the grandchild's death", GRACE_S + LATE_S)


def test_no_zombies_are_left(gateway, client):
    for _ in range(5):
        task = started(client, {"grandchild": gateway.path()})
        client.call("cancel", **ids(task))
        cancelled(client, task)

    def zombies():
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                stat = open(f"/proc/{entry}/stat", encoding="utf-8").read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if stat[0] == "Z" and int(stat[1]) == gateway.process.pid:
                found.append(entry)
        return found

    wait_until(lambda: not zombies(), "the reaping")


def test_the_agent_is_told_before_the_signal(client):
    path = client.gateway.path()
    task = client.chat({"ignore_term": 1}, {"token": "ready"}, {"hear": "cancel"}, {"dump": path},
                       {"token": "stopping"}, {"exit": 0}, agent="gentle")
    client.event(task, "token")
    client.call("cancel", **ids(task))
    end = cancelled(client, task)
    assert json.loads(open(path, encoding="utf-8").read())["heard"] == [{"type": "cancel"}]
    assert end["data"]["output"] == "readystopping"


def test_cancel_all_takes_every_live_task_of_the_conversation(client):
    conversation = new_id()
    done, _ = client.finish("x", conversation=conversation)
    live = [started(client, conversation=conversation) for _ in range(4)]
    elsewhere = started(client)
    reply = client.call("cancel_all", conversation_id=conversation)
    assert reply["cancelled"] == 4
    assert sorted(reply["task_ids"]) == sorted(task["task_id"] for task in live)
    for task in live:
        cancelled(client, task)
    assert client.task(done)["status"] == "completed"
    assert client.task(elsewhere)["status"] == "running"
    assert client.call("cancel_all", conversation_id=conversation)["cancelled"] == 0
    client.call("cancel", **ids(elsewhere))


def test_cancel_all_without_a_conversation_is_zero(client):
    reply = client.call("cancel_all", conversation_id=new_id())
    assert (reply["cancelled"], reply["task_ids"]) == (0, [])


def test_cancel_takes_a_queued_task(client):
    conversation = new_id()
    first = started(client, conversation=conversation)
    queued = client.chat("x", conversation=conversation, when_busy="enqueue")
    assert client.task(queued)["status"] == "pending"
    assert client.call("cancel", **ids(queued))["cancelled"] == 1
    end = cancelled(client, queued)
    assert "task.started" not in names(client.events_since(queued))
    assert end["seq"] == 2
    client.call("cancel", **ids(first))


def test_partial_text_is_kept_as_a_partial_message(client):
    task = started(client, {"thinking": "never"}, {"token": "Par"}, {"token": "tial"})
    client.call("cancel", **ids(task))
    assert cancelled(client, task)["data"]["output"] == "Partial"
    message = client.call("history", conversation_id=task["conversation_id"])["messages"][-1]
    assert (message["role"], message["content"], message["partial"]) == ("assistant", "Partial", True)


def test_cancel_races_the_end_and_one_of_them_wins(client):
    """ok with 1 means cancelled, ok with 0 means that it had ended: never anything else."""
    outcomes = set()
    for i in range(30):
        go = client.gateway.path()
        task = client.chat({"token": "x"}, {"wait": go}, {"sleep_ms": i % 8})
        client.event(task, "token")
        if i % 10:  # the others are cancelled before: however slow this process is, not all have ended then
            open(go, "w", encoding="utf-8").close()
            time.sleep((i % 7) / 1000)
        n = client.call("cancel", **ids(task))["cancelled"]
        end = client.wait_terminal(task)
        outcomes.add(n)
        assert end["event"] == ("task.failed" if n else "task.completed")
        assert client.task(task)["status"] == ("cancelled" if n else "completed")
        events = client.replay(task)
        assert sum(event["event"] in TERMINAL for event in events) == 1
        assert events[-1] == end
    assert 1 in outcomes


def test_cancels_at_once_from_many_connections_count_one(client, clients):
    tabs = [clients(token=client.token) for _ in range(6)]
    for _ in range(5):
        task = started(client)
        barrier, counts = threading.Barrier(len(tabs)), []

        def cancel(tab, task=task, barrier=barrier, counts=counts):
            barrier.wait()
            counts.append(tab.call("cancel", **ids(task))["cancelled"])

        threads = [threading.Thread(target=cancel, args=(tab,)) for tab in tabs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(counts) == [0, 0, 0, 0, 0, 1]
        cancelled(client, task)


def test_cancel_right_after_started(client):
    for _ in range(20):
        task = client.chat({"token": "x"}, {"hang": 1})
        assert client.call("cancel", **ids(task))["cancelled"] == 1
        cancelled(client, task)


def test_cancel_in_one_message_with_its_chat(client):
    conversation = new_id()
    client.send({"type": "chat", "id": "a", "message": '[{"hang":1}]', "conversation_id": conversation},
                {"type": "cancel_all", "id": "b", "conversation_id": conversation})
    task = client.reply("a")["task"]
    assert client.reply("b")["cancelled"] == 1
    cancelled(client, task)


def test_cancel_of_a_flooding_task_is_prompt(client):
    task = client.chat({"flood": 10_000_000})
    client.expect(lambda line: line.get("seq", 0) > 1000)
    asked = time.monotonic()
    assert client.call("cancel", **ids(task))["cancelled"] == 1
    end = cancelled(client, task)
    assert time.monotonic() - asked < GRACE_S + LATE_S
    assert end["data"]["output"].startswith(text_of(client.events_since(task))[:1000])


def test_nothing_of_ended_runs_is_left():
    with Gateway() as gateway, Client(gateway) as client:
        task = started(client)
        client.call("cancel", **ids(task))
        cancelled(client, task)
        client.finish("x")
        client.finish({"exit": 3})
        wait_until(lambda: list(processes_with(gateway.mark)) == [gateway.process.pid],
                   "only the gateway itself being left")
