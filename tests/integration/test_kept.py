"""Exec agents that are kept: what ends them, what does not, and who is told (PROTOCOL.md 3 and 8)."""

import contextlib
import os
import random
import signal
import sys
import threading
import time

import pytest

import model_server as m
from continuing import SEED, Round, begun, clean, lasting
from gateway import LATE_S, SCALE, Gateway, processes_with, run, script_agent, wait_until
from holdfast import Client, ids, names, text_of

HANG = [{"token": "up"}, {"hang": 1}]

WRITER = """
import os, random, sys, time
rng = random.Random(int(sys.stdin.read()))
text = "".join(rng.choice("aé€😀\\n") for _ in range(60_000)).encode()
while text:
    n = rng.randrange(1, 3000)
    text = text[os.write(1, text[:n]):]
    time.sleep(rng.random() * 0.004)
"""


def writer_text(seed):
    rng = random.Random(seed)
    return "".join(rng.choice("aé€😀\n") for _ in range(60_000))


@pytest.fixture
def started():
    """start(agent, …): a gateway, the token of a guest, and a task that is up."""
    made = []

    def start(config=None, steps=tuple(HANG), **agent):
        gateway = Gateway({"agents": [script_agent(default=True, **agent)], **(config or {})}, lasting=True).start()
        made.append(gateway)
        with Client(gateway) as client:
            task = client.chat(*steps)
            client.event(task, "token")
            return gateway, client.token, task

    yield start
    for gateway in made:
        gateway.close()


def end_of(gateway, token, task):
    with Client(gateway, token=token) as client:
        since = len(client.log)
        client.resume(task, 0)
        return client.wait_terminal(task, since)


def test_planned_stop_leaves_the_program_and_the_next_gateway_goes_on(started):
    gateway, token, task = started({"drain_s": 60}, steps=({"token": "up"}, {"hear": "message", "say": True}))
    begun_at = time.monotonic()
    assert gateway.stop() == 0
    assert time.monotonic() - begun_at < 10 + LATE_S, "it waited for a task that goes on"
    gateway.start()
    with Client(gateway, token=token) as client:
        client.call("send", **ids(task), content="hello")
        since = len(client.log)
        client.resume(task, 0)
        end = client.wait_terminal(task, since)
        events = client.events_since(task, since)
    assert end["event"] == "task.completed"
    resumed = [event["data"] for event in events if event["event"] == "task.resumed"]
    assert resumed == [{"attempt": 2, "why": "restart", "planned": True}]
    assert names(events).count("message") == 1
    clean(gateway)


def test_program_whose_configuration_changed_is_ended(started):
    gateway, token, task = started()
    gateway.kill()
    gateway.config["agents"][0]["env"] = {"SOMETHING": "else"}
    gateway.start()
    end = end_of(gateway, token, task)
    assert end["data"]["error"]["code"] == "orphaned" and "has changed" in end["data"]["error"]["message"]
    clean(gateway)


@pytest.mark.parametrize("change", [{"after_restart": "fail"}, {"kept": False}, {"name": "other"}])
def test_program_that_is_not_kept_any_more_is_ended(started, change):
    gateway, token, task = started()
    gateway.kill()
    gateway.config["agents"][0].update(change)
    gateway.start()
    end = end_of(gateway, token, task)
    assert end["data"]["error"]["code"] == "orphaned"
    gateway.logged("event=swept programs=1")
    clean(gateway)


def test_program_lives_no_longer_than_its_time_without_a_gateway(started):
    gateway, token, task = started(keep_s=1)
    gateway.kill()
    wait_until(lambda: not processes_with(gateway.mark), "the end of a program", 1 + LATE_S)
    gateway.start()
    end = end_of(gateway, token, task)
    assert end["data"]["error"]["code"] == "orphaned" and "keep_s" in end["data"]["error"]["message"]
    clean(gateway)


@pytest.mark.parametrize("options", [{"kept": False}, {"after_restart": "fail"}])
def test_program_that_is_not_kept_dies_with_the_gateway(started, options):
    gateway, token, task = started(**options)
    gateway.kill()
    wait_until(lambda: not processes_with(gateway.mark), "the end of a program")
    gateway.start()
    assert end_of(gateway, token, task)["data"]["error"]["code"] == "orphaned"


def test_cancelled_program_ends_at_once_when_the_gateway_is_gone(started):
    gateway, token, task = started(steps=({"ignore_term": 1}, *HANG), grace_s=600, keep_s=600)
    with Client(gateway, token=token) as client:
        assert client.call("cancel", **ids(task))["cancelled"] == 1
    gateway.kill()
    wait_until(lambda: len(processes_with(gateway.mark)) <= 1, "the end of a program")  # its holder has the report
    gateway.start()
    assert end_of(gateway, token, task)["data"]["status"] == "cancelled"
    clean(gateway)


def test_program_that_ends_without_a_gateway_ends_its_task_as_it_would_have(started):
    gateway, token, task = started(steps=({"token": "up"}, {"sleep_ms": int(1000 * SCALE)}, {"token": "last words"},
                                          {"exit": 3}))
    gateway.kill()
    wait_until(lambda: len(processes_with(gateway.mark)) == 1, "the end of a program")
    gateway.start()
    with Client(gateway, token=token) as client:
        since = len(client.log)
        client.resume(task, 0)
        end = client.wait_terminal(task, since)
        assert text_of(client.events_since(task, since)) == "uplast words"
    assert end["data"]["error"]["code"] == "agent_error" and "exit status 3" in end["data"]["error"]["message"]
    clean(gateway)


def test_program_of_the_form_text_goes_on_to_the_byte():
    rng = random.Random(SEED)
    print(f"seed {SEED}")
    agent = {"name": "text", "kind": "exec", "form": "text", "command": [sys.executable, "-c", WRITER], "default": True}
    with Gateway({"agents": [agent]}, lasting=True) as gateway:
        with Client(gateway) as client:
            token, task = client.token, client.chat(str(SEED))
            client.event(task, "token")
        for _ in range(6):
            with Client(gateway, token=token) as client:  # it gets on each time
                head = client.task(task)["head"]
                wait_until(lambda at=head, by=client: by.task(task)["head"] > at or by.task(task)["status"] != "running",
                           "what it says next")
            time.sleep(rng.uniform(0, 0.05) * SCALE)
            gateway.kill()
            gateway.start()
        with Client(gateway, token=token) as client:
            since = len(client.log)
            client.resume(task, 0)
            end = client.wait_terminal(task, since)
            assert end["event"] == "task.completed", end["data"].get("error")
            assert text_of(client.events_since(task, since)) == writer_text(SEED)
        clean(gateway)


def test_question_and_call_survive_many_restarts():
    rng = random.Random(SEED)
    with Gateway({"agents": [lasting("lasting", default=True)]}, lasting=True) as gateway:
        with Client(gateway) as client:
            token = client.token
        current = Round(gateway, token, rng).begin("many", 1)
        begun(current.tasks)
        for _ in range(7):  # more than a task may be resumed in vain
            current.live(0.05 * SCALE)
            gateway.kill()
            gateway.start()
        assert [record["status"] for record in current.finish()] == ["completed"]
        clean(gateway)


def test_metrics_and_the_log_say_what_a_restart_did():
    """One program goes on, the holder of another is killed meanwhile, and a model's half turn is withdrawn."""
    with contextlib.closing(m.ModelServer()) as model, Gateway({
            "models": [{"name": "m", "base_url": model.url + "/v1", "model": "m"}],
            "agents": [script_agent(default=True), {"name": "react", "kind": "react", "model": "m"}]}, lasting=True) as gateway:
        model.script = [[m.head(), m.text("hälf"), threading.Event()]]
        with Client(gateway) as client:
            token = client.token
            tasks = lives, dies, half = client.chat(*HANG), client.chat(*HANG), client.chat("go", agent="react")
            for task in tasks:
                client.event(task, "token")
        gateway.kill()
        holder, = (pid for pid, command in processes_with(gateway.mark).items() if f"\0{dies['task_id']}\0" in command)
        os.kill(holder, signal.SIGKILL)
        wait_until(lambda: holder not in processes_with(gateway.mark), "the end of the holder")
        gateway.start()
        said = gateway.http("GET", "/metrics")[2].decode().splitlines()
        for kind in ("exec", "react"):
            assert f'holdfast_tasks_resumed_total{{kind="{kind}",why="restart"}} 1' in said
            assert f'holdfast_tasks_resumed_total{{kind="{kind}",why="takeover"}} 0' in said
        assert {line for line in said if "not_resumed_total{" in line and not line.endswith(" 0")} == {
            'holdfast_tasks_not_resumed_total{reason="not_there"} 1'}
        assert "holdfast_retracted_bytes_total 5" in said and "holdfast_held_agents 1" in said
        for task, n in ((lives, 0), (half, 5)):
            gateway.logged("component=task event=resumed", f"task={task['task_id']}", "attempt=2", f"retracted={n}")
        gateway.logged("component=task event=ended", f"task={dies['task_id']}", "error=orphaned")
        with Client(gateway, token=token) as client:
            for task in (lives, half):
                client.call("cancel", **ids(task))
        clean(gateway)


def test_config_refuses_what_cannot_go_on(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"agents": [{"name": "a", "kind": "exec", "command": ["/bin/true"], "kept": false,'
                    ' "after_restart": "continue"}]}')
    done = run("check-config", str(path))
    assert done.returncode == 2 and "agents[0] (a).after_restart" in done.stderr, done.stderr


def test_holders_socket_is_private(started):
    gateway, _, task = started()
    folder = gateway.data / "agents"
    assert os.stat(folder).st_mode & 0o77 == 0
    assert [path.name for path in folder.iterdir()] == [f"{task['task_id']}.live"]
