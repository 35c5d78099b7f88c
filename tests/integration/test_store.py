"""The data folder: one gateway, restarts, and what a stop or a kill leaves (PROTOCOL.md 4; DESIGN 6)."""

import os
import signal
import stat
import time

import pytest

import database
from gateway import WAIT_S, Gateway, free_port, processes_with, script_agent, wait_until
from holdfast import TERMINAL, Client, ids, names, new_id


def test_second_gateway_on_the_same_data_says_so_and_exits_1():
    with Gateway() as first:
        second = Gateway(folder=first.folder)
        process = second.spawn()
        assert process.wait(WAIT_S) == 1
        second._finish()
        said = "\n".join(second.log)
        assert str(first.data) in said
        assert "in use" in said
        assert second.printed.queue[0] == ""  # never ready
        with Client(first) as client:
            assert client.finish("x")[0]["status"] == "completed"


def test_lock_of_a_killed_gateway_does_not_stay():
    with Gateway() as gateway:
        for _ in range(3):
            gateway.kill()
            gateway.start()


def test_data_folder_is_private():
    with Gateway() as gateway:
        assert stat.S_IMODE(os.stat(gateway.data).st_mode) == 0o700


def test_same_port_can_be_bound_again_at_once():  # F26
    with Gateway(listen=f"127.0.0.1:{free_port()}") as gateway:
        with Client(gateway) as client:
            client.chat({"hang": 1})
            mark = gateway.mark
            gateway.kill()
            assert client.closing().code is None  # cut, not left hanging
        gateway.start()
        with Client(gateway) as client:
            client.quiet()
        wait_until(lambda: not processes_with(mark), "the end of the killed gateway's agents")


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_what_ran_is_orphaned_once(end):  # F33
    with Gateway({"drain_s": 0, "limits": {"tasks_per_owner": 3}}) as gateway:
        with Client(gateway) as client:
            tasks = [client.chat({"token": "part"}, {"hang": 1}, conversation=new_id()) for _ in range(3)]
            for task in tasks:
                client.event(task, "token")
            mark, token = gateway.mark, client.token
            if end == "kill":
                gateway.kill()
            else:
                assert gateway.stop() == 0
            ended = client.closing()
            assert ended.code == (1001 if end == "stop" else None)
            seen = [client.raw_events(task) for task in tasks]
        wait_until(lambda: not processes_with(mark), "the agents' end")
        gateway.start()
        with Client(gateway, token=token) as client:
            for task, before in zip(tasks, seen):
                events = client.replay(task, 0)
                assert [event["seq"] for event in events] == [1, 2, 3, 4]
                assert events[-1]["event"] == "task.failed"
                error = events[-1]["data"]["error"]
                assert error["code"] == "orphaned" and "orphaned" in error["message"]
                assert events[-1]["data"]["status"] == "failed"
                assert events[-1]["data"]["output"] == "part"
                raw = client.raw_events(task)
                assert all(raw[seq] == line for seq, line in before.items())
                record = client.task(task)
                assert (record["status"], record["head"]) == ("failed", 4)
                message = client.call("history", conversation_id=task["conversation_id"])["messages"][-1]
                assert (message["content"], message["partial"]) == ("part", True)
            assert client.finish("next")[0]["status"] == "completed"  # the slots are free
        gateway.kill()
        gateway.start()
        with Client(gateway, token=token) as client:
            for task in tasks:
                assert client.task(task)["head"] == 4  # a second restart adds nothing
                assert sum(event["event"] in TERMINAL for event in client.replay(task)) == 1


def test_resume_at_once_after_the_restart_gets_the_end():  # F33
    with Gateway() as gateway:
        with Client(gateway) as client:
            token = client.token
            task = client.chat({"flood": 30}, {"hang": 1})
            client.expect(lambda line: line.get("seq") == 32)
            gateway.kill()
        gateway.start()
        with Client(gateway, token=token) as client:
            assert names(client.replay(task, 32)) == ["task.failed"]


def test_kill_right_after_the_start_again_and_again():  # F33 (c)
    with Gateway() as gateway:
        with Client(gateway) as client:
            token = client.token
            tasks = [client.chat({"token": "x"}, {"hang": 1}) for _ in range(20)]
            for task in tasks:
                client.event(task, "token")
        for delay in (0, 0.005, 0.01, 0.02, 0.04, 0.08):
            gateway.kill()
            gateway.spawn()
            time.sleep(delay)
        gateway.kill()
        gateway.start()
        with Client(gateway, token=token) as client:
            for task in tasks:
                events = client.replay(task)
                assert [event["seq"] for event in events] == [1, 2, 3, 4]
                assert events[-1]["data"]["error"]["code"] == "orphaned"


def test_end_without_anyone_attached_survives_a_kill():  # F14
    with Gateway() as gateway:
        def whole(client):
            task, events = client.finish({"flood": 200, "bytes": 20}, {"thinking": "t"}, {"final_answer": "a"})
            return [(event["seq"], event["event"], event["data"]) for event in events], task

        with Client(gateway) as client:
            token = client.token
            attached, _ = whole(client)
            gate = gateway.path()
            task = client.chat({"wait": gate}, {"flood": 200, "bytes": 20}, {"thinking": "t"},
                               {"final_answer": "a"})
            client.drop()
        open(gate, "w", encoding="utf-8").close()
        with Client(gateway, token=token) as client:
            wait_until(lambda: client.task(task)["status"] == "completed", "the end")
        gateway.kill()
        gateway.start()
        with Client(gateway, token=token) as client:
            record = client.task(task)
            assert record["status"] == "completed" and record["output"] == "a"
            found = [(event["seq"], event["event"], event["data"]) for event in client.replay(task)]
            assert found[1:] == attached[1:]  # the first has the input, which differs
            tasks = client.call("tasks", conversation_id=task["conversation_id"])["tasks"]
            assert [t["status"] for t in tasks] == ["completed"]


def test_everything_a_restart_must_keep():
    with Gateway() as gateway:
        def snapshot(client):
            return {
                "conversations": client.call("conversations")["conversations"],
                "tasks": client.call("tasks", conversation_id="c")["tasks"],
                "history": client.call("history", conversation_id="c")["messages"],
                "results": client.call("results", conversation_id="c")["results"],
                "records": [client.task(task) for task in tasks],
            }

        with Client(gateway) as client:
            token = client.token
            tasks = [client.finish(*steps, conversation="c", **fields)[0] for steps, fields in [
                (["one 😀"], {"metadata": {"n": [1, {"x": None}]}, "description": "d"}),
                ([{"token": "p"}, {"exit": 2}], {}),
                ([{"result": {"a": 1.50}}, {"token": "r"}], {"name": "named"}),
                ([{"token": "bg"}], {"background": True}),
            ]]
            client.call("title", conversation_id="c", title="the title")
            client.finish("other", conversation="d")
            before = snapshot(client)
        for end in (gateway.kill, gateway.stop):
            end()
            gateway.start()
            with Client(gateway, token=token) as client:
                assert snapshot(client) == before


def test_cancel_that_was_answered_outlives_a_kill():
    with Gateway({"agents": [script_agent(default=True, grace_s=30)]}) as gateway:
        with Client(gateway) as client:
            token = client.token
            task = client.chat({"ignore_term": 1}, {"token": "x"}, {"hang": 1})
            client.event(task, "token")
            assert client.call("cancel", **ids(task))["cancelled"] == 1
            gateway.kill()
        gateway.start()
        with Client(gateway, token=token) as client:
            end = client.replay(task)[-1]
            assert end["event"] == "task.failed" and end["data"]["status"] == "cancelled"
            assert end["data"]["error"]["code"] == "cancelled"
            assert end["data"]["cancel"]["requested_at"]
            assert client.task(task)["status"] == "cancelled"


def test_queued_tasks_go_on_or_end_after_a_kill():
    """A task that waits when the gateway dies is never left pending for ever."""
    with Gateway() as gateway:
        with Client(gateway) as client:
            token = client.token
            first = client.chat({"token": "x"}, {"hang": 1}, conversation="c")
            client.event(first, "token")
            queued = client.chat("y", conversation="c", when_busy="enqueue")
            gateway.kill()
        gateway.start()
        with Client(gateway, token=token) as client:
            since = len(client.log)
            client.resume(queued)
            end = client.wait_terminal(queued, since)
            assert client.task(first)["error"]["code"] == "orphaned"
            assert end["event"] == "task.completed" or end["data"]["error"]["code"] == "orphaned"


def test_task_ids_grow_over_restarts():
    with Gateway() as gateway:
        made = []
        token = None
        for _ in range(4):
            with Client(gateway, token=token) as client:
                token = client.token
                made += [client.chat("x", conversation="c")["task_id"] for _ in range(5)]
            gateway.kill()
            gateway.start()
        assert made == sorted(made) and len(set(made)) == 20


def test_unwritable_data_folder_is_a_clear_failure(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    gateway = Gateway(folder=tmp_path)
    gateway.data = blocked / "data"
    process = gateway.spawn()
    assert process.wait(WAIT_S) in (1, 2)
    gateway._finish()
    assert str(blocked) in "\n".join(gateway.log)


def test_a_version_from_the_future_is_no_start():
    """And is left as it is: the newer gateway goes on with it."""
    with Gateway() as gateway:
        with Client(gateway) as client:
            task, events = client.finish({"token": "x"})
            token = client.token
        gateway.stop()
        with database.opened(gateway) as db:
            version = db.execute("PRAGMA user_version").fetchone()[0]
            db.execute("PRAGMA user_version = 99")
        before = (gateway.data / "holdfast.db").read_bytes()
        process = gateway.spawn()
        assert process.wait(WAIT_S) == 1
        gateway._finish()
        assert any("schema version 99; this gateway knows versions up to" in line for line in gateway.log)
        assert (gateway.data / "holdfast.db").read_bytes() == before
        with database.opened(gateway) as db:
            db.execute(f"PRAGMA user_version = {version}")
        gateway.start()
        with Client(gateway, token=token) as client:
            assert client.replay(task) == events


def test_sigint_stops_as_sigterm_does():
    with Gateway() as gateway:
        gateway.process.send_signal(signal.SIGINT)
        assert gateway.wait() == 0
        gateway.start()
