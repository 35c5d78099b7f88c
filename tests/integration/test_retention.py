"""Retention, over sockets: what is old or too much goes, is told as gone, and what runs goes on."""

import json

import database
from gateway import Gateway, wait_until
from holdfast import Client, ids, new_id, program
from test_doctor import doctor
from test_http_api import Api, sse
from test_metrics import scrape

DAY_MS = 86400000


def removed(gateway, what):
    return scrape(gateway)[1]['holdfast_retention_removed_total{what="%s"}' % what]


def age(gateway, days, *tasks):
    """As if these had ended so many days ago."""
    with database.opened(gateway) as db:
        for task in tasks:
            db.execute("UPDATE tasks SET created_at = created_at - ?, started_at = started_at - ?, "
                       "completed_at = completed_at - ? WHERE task_id = ?",
                       (days * DAY_MS, days * DAY_MS, days * DAY_MS, task["task_id"]))
            db.execute("UPDATE conversations SET updated_at = updated_at - ? WHERE conversation_id = ?",
                       (days * DAY_MS, task["conversation_id"]))


def test_tasks_go_after_task_days_with_all_that_is_theirs():
    with Gateway({"retention": {"task_days": 7}}) as gateway:
        with Client(gateway) as client:
            token = client.token
            old, _ = client.finish({"flood": 2000, "bytes": 200}, request_key="k", conversation_id="both")
            gone, _ = client.finish({"token": "x"}, conversation="alone", background=True)
            young, events = client.finish({"token": "y"}, conversation="both")
        database.seal(gateway)
        age(gateway, 8, old, gone)
        age(gateway, 6, young)
        gateway.start()
        wait_until(lambda: removed(gateway, "task") == 2, "the removal")
        with Client(gateway, token=token) as client:
            unknown = {"task_id": "01" + "0" * 24, "conversation_id": "both"}
            for verb in ("resume", "task", "cancel", "unsubscribe"):
                assert client.refused("not_found", verb, **ids(old))["message"] \
                    == client.refused("not_found", verb, **unknown)["message"]
            assert [c["conversation_id"] for c in client.call("conversations")["conversations"]] == ["both"]
            assert {m["task_id"] for m in client.call("history", conversation_id="both")["messages"]} \
                == {young["task_id"]}
            assert client.call("results", conversation_id="alone")["results"] == []
            assert client.replay(young) == events
            again = client.call("chat", message=program({"token": "z"}), request_key="k",
                                conversation_id="both")
            assert "repeated" not in again and again["task"]["task_id"] != old["task_id"]
            client.wait_terminal(again["task"])
        api = Api(gateway, token)
        assert api.ask("GET", f"/conversations/both/tasks/{old['task_id']}")[0] == 404
        assert sse(api, "both", old["task_id"])[0] == 404
        gateway.stop()
        assert doctor(gateway.data, "--full")[:2] == (0, [])


def test_owner_over_the_quota_loses_the_oldest_events_and_nobody_elses():
    with Gateway({"limits": {"store_mib_per_owner": 1}}) as gateway:
        with Client(gateway) as client, Client(gateway) as other:
            his, his_events = other.finish({"flood": 500, "bytes": 200})
            running = client.chat({"token": "a"}, {"wait": gateway.path("gate")}, {"final_answer": "b"})
            client.event(running, "token")
            tasks = [client.finish({"flood": 1000, "bytes": 400}, {"final_answer": "b"}, conversation="c") for _ in range(4)]
            wait_until(lambda: removed(gateway, "events") >= 2, "the removal")
            (oldest, _), (newest, newest_events) = tasks[0], tasks[-1]

            reply = client.resume(oldest, 0)
            assert reply["first"] == oldest["head"] + 1 == reply["head"] + 1
            assert reply["task"]["status"] == "completed" and reply["task"]["output"] == oldest["output"]
            assert client.expect_type("caught_up")["seq"] == oldest["head"]
            api = Api(gateway, client.token)
            clean, events = sse(api, "c", oldest["task_id"])
            assert clean and [name for _, name, _ in events] == ["gap"]
            assert events[0][2] == {"after": 0, "first": oldest["head"] + 1, "head": oldest["head"]}
            assert client.replay(newest) == newest_events
            assert other.replay(his) == his_events
            open(gateway.path("gate"), "w", encoding="utf-8").close()
            assert client.wait_terminal(running)["event"] == "task.completed"
        gateway.stop()
        assert doctor(gateway.data, "--full")[:2] == (0, [])


def test_full_owner_is_refused_and_a_delete_makes_room():
    with Gateway({"limits": {"store_mib_per_owner": 1}}) as gateway, \
            Client(gateway) as client, Client(gateway) as other:
        running = client.chat({"token": "a"}, {"wait": gateway.path("gate")}, {"final_answer": "b"})
        client.event(running, "token")
        for _ in range(3):  # records count as well, and stay for a day
            client.finish({"flood": 500, "bytes": 500}, conversation="big")
        wait_until(lambda: scrape(gateway)[1]["holdfast_store_full_owners"] == 1, "the owner to be full")
        error = client.refused("overloaded", "chat", message="more")
        assert error["message"].startswith("this owner's share of the store is full")
        assert error["retry_after_ms"] > 0
        status, answer = Api(gateway, client.token).ask(
            "POST", f"/conversations/{new_id()}/tasks", {"message": "more"})
        assert (status, answer["error"]["code"]) == (503, "overloaded")
        assert scrape(gateway)[1]['holdfast_limit_hits_total{limit="store_mib_per_owner"}'] == 2
        other.finish({"token": "free"})
        open(gateway.path("gate"), "w", encoding="utf-8").close()
        assert client.wait_terminal(running)["event"] == "task.completed"
        client.call("delete", conversation_id="big")
        wait_until(lambda: scrape(gateway)[1]["holdfast_store_full_owners"] == 0, "room")
        client.finish({"token": "again"})


def test_kill_in_the_middle_of_a_removal_leaves_whole_tasks_or_none():
    with Gateway({"retention": {"task_days": 1}}) as gateway:
        with Client(gateway) as client:
            token = client.token
            tasks = [client.finish({"flood": 300, "bytes": 300}, conversation=f"c{i}") for i in range(40)]
        database.seal(gateway)
        age(gateway, 2, *(task for task, _ in tasks))
        gateway.start()
        wait_until(lambda: removed(gateway, "task") >= 1, "the first piece")
        gateway.kill()
        assert doctor(gateway.data, "--full")[:2] == (0, [])
        gateway.start()
        with Client(gateway, token=token) as client:
            for task, events in tasks:  # gone, or all there, or gone while it is read: that is said
                reply = client.ask("resume", **ids(task))
                assert reply["type"] == "resumed" or reply["code"] == "not_found"
                if reply["type"] == "resumed":
                    line = client.expect(lambda line: "id" not in line and line["type"] in ("caught_up", "error")
                                         and task["task_id"] in (line.get("task_id") or line["message"]))
                    got = client.events_since(task)
                    assert got == events or (line.get("code") == "not_found" and got == events[:len(got)])
            wait_until(lambda: client.call("conversations")["conversations"] == [], "all to be gone")
        gateway.stop()
        assert doctor(gateway.data, "--full")[:2] == (0, [])
        with database.opened(gateway) as db:
            assert json.dumps(db.execute("SELECT count(*) FROM usage").fetchone()) == "[0]"
