"""ACP agents outlive the gateway: kill -9 of it at random moments, twice within its repair, and SIGTERM; then the agent was
prompted once, each of its requests was answered once, each command ran once, and all that it said is told once, in order.

HOLDFAST_SEED and HOLDFAST_CONTINUE_ROUNDS choose the run; the seed is printed.
"""

import json
import os
import random
import signal
import time

import pytest

from coding import OPTIONS, CodingTask, coder, lines, request
from gateway import LATE_S, SANITIZE, SCALE, WAIT_S, Gateway, is_alive, processes_with, wait_until
from holdfast import Client, ids, new_id

SEED = int(os.environ.get("HOLDFAST_SEED", random.randrange(2**32)))
ALL = "HOLDFAST_KILLS" in os.environ  # where everything runs
ROUNDS = int(os.environ.get("HOLDFAST_CONTINUE_ROUNDS", (30 if SANITIZE else 300) if ALL else 2 if SANITIZE else 8))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("coding")


@pytest.fixture(scope="module")
def gateway(folder):
    with Gateway({"agents": [coder("coder", folder, default=True)]}, lasting=True) as running:
        with Client(running) as client:
            running.token = client.token
        yield running


def started(folder, agent="coder"):
    return [entry["pid"] for entry in lines(folder / agent / "started")]


def kill(gateway):
    gateway.kill()
    gateway.start()


def kill_twice(gateway):
    gateway.kill()
    for _ in range(2):
        gateway.spawn()
        time.sleep(random.uniform(0, 0.1) * SCALE)
        gateway.kill()
    gateway.start()


def stop(gateway):
    assert gateway.stop() == 0
    gateway.start()


def test_all_that_passes_between_them_passes_once(gateway, folder):
    print(f"seed {SEED}, {ROUNDS} rounds")
    rng = random.Random(SEED)
    for number in range(ROUNDS):
        conversation = f"c-{number // 4}"  # three of four find a process in the pool, if nothing has killed it
        task = CodingTask(folder / "coder", rng, f"t{number}", conversation)
        before = len(started(folder))
        with Client(gateway, token=gateway.token) as client:
            task.start(client, "coder")
        if rng.random() < 0.7:
            wait_until(task.prompts, "the prompt")
        for way in rng.choices([kill, kill_twice, stop], [3, 1, 1], k=rng.randrange(1, 3)):
            task.live(gateway, rng.uniform(0, 0.3) * SCALE)
            way(gateway)
        task.finish(gateway)
        assert len(started(folder)) <= before + 2, "a program more than the one that was told nothing"


def asks(n=1):
    call = {"toolCallId": "c1", "title": "rm -r x", "rawInput": {"command": "rm -r x"}}
    return [request("session/request_permission", toolCall=call, options=OPTIONS) for _ in range(n)]


def begin(gateway, steps, conversation=None):
    with Client(gateway, token=gateway.token) as client:
        return client.call("chat", message=json.dumps(steps), agent="coder", conversation_id=conversation or new_id())["task"]


def log_after(folder, task_steps):
    log = lines(folder / "coder" / "asked")
    at = max(i for i, entry in enumerate(log) if entry.get("prompt", "").endswith(json.dumps(task_steps)))
    return log[at + 1:]


@pytest.mark.parametrize("way", [kill, stop])
def test_permission_stays_open_and_is_answered_once(gateway, folder, way):
    steps = [*asks(), {"say": " so"}]
    task = begin(gateway, steps)
    with Client(gateway, token=gateway.token) as client:
        client.resume(task, 0)
        client.event(task, "input_required")
    way(gateway)
    with Client(gateway, token=gateway.token) as client:
        assert client.task(task)["waiting_for"] == "permission-1"
        client.call("respond", **ids(task), input_id="permission-1", answer=True)
    way(gateway)  # the answer is committed, whether it was given or not
    with Client(gateway, token=gateway.token) as client:
        client.resume(task, 0)
        client.wait_terminal(task)
        record = client.task(task)
        assert client.ask("respond", **ids(task), input_id="permission-1", answer=False)["code"] == "conflict"
    assert record["status"] == "completed" and record["output"].endswith(" so"), record
    assert [entry["answer"]["outcome"]["optionId"] for entry in log_after(folder, steps) if "method" in entry] == ["yes"]


def test_answer_of_the_turn_is_what_was_said_since_the_last_call(gateway):
    """Over a kill in the midst of it."""
    call = {"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Read", "status": "in_progress", "rawInput": {"a": 1}}
    done = {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed", "rawOutput": "text"}
    gate = gateway.path()
    steps = [{"say": "before "}, {"update": call}, {"say": "the "}, {"wait": gate}, {"update": done}, {"say": "answer"}]
    task = begin(gateway, steps)
    with Client(gateway, token=gateway.token) as client:
        client.resume(task, 0)
        client.expect(lambda line: line.get("event") == "token" and line["data"]["text"] == "the ")
    kill(gateway)
    with open(gate, "w", encoding="utf-8"):
        pass
    with Client(gateway, token=gateway.token) as client:
        since = len(client.log)
        client.resume(task, 0)
        events = list(client.events(task, since))
        record = client.task(task)
    assert record["output"] == "the answer", record
    [result] = [event["data"] for event in events if event["event"] == "tool_result"]
    assert (result["name"], result["output"]) == ("Read", "text")


def test_cancel_that_was_acknowledged_is_carried_out(gateway, folder):
    task = begin(gateway, [{"say": "on"}, {"hang": "rudely"}])
    with Client(gateway, token=gateway.token) as client:
        client.resume(task, 0)
        client.event(task, "token")
        pid = started(folder)[-1]
        client.call("cancel", **ids(task))
    gateway.kill()
    wait_until(lambda: not is_alive(pid), "its end, without a gateway", WAIT_S)
    gateway.start()
    with Client(gateway, token=gateway.token) as client:
        client.resume(task, 0)
        assert client.wait_terminal(task)["data"]["status"] == "cancelled"


def test_command_that_runs_goes_on_and_its_end_is_told(gateway, folder):
    mark, gate = new_id(), gateway.path()
    shell = request("terminal/create", command="/bin/sh", args=["-c", f"echo one; until test -e {gate}; do sleep 0.05; done; echo two"],
                    env=[{"name": "HOLDFAST_TEST", "value": mark}])
    steps = [shell, request("terminal/wait_for_exit", terminalId="$"), request("terminal/output", terminalId="$")]
    task = begin(gateway, steps)
    wait_until(lambda: [entry for entry in log_after(folder, steps) if entry.get("method") == "terminal/create"]
               if any(entry.get("prompt", "").endswith(json.dumps(steps)) for entry in lines(folder / "coder" / "asked")) else None,
               "the command", LATE_S)
    kill(gateway)
    with open(gate, "w", encoding="utf-8"):
        pass
    with Client(gateway, token=gateway.token) as client:
        client.resume(task, 0)
        client.wait_terminal(task)
    _, end, output = [entry["answer"] for entry in log_after(folder, steps) if "method" in entry]
    assert end == {"exitCode": 0, "signal": None} and output["output"] == "one\ntwo\n", output
    with Client(gateway, token=gateway.token) as client:
        client.call("delete", conversation_id=task["conversation_id"])
    wait_until(lambda: not list((gateway.data / "processes").iterdir()), "the end of its folder", LATE_S)


def test_five_resumptions_in_vain_are_the_last(gateway, folder):
    steps = [{"say": "on"}, {"hang": "politely"}]
    task = begin(gateway, steps)
    with Client(gateway, token=gateway.token) as client:
        client.resume(task, 0)
        client.event(task, "token")
    pid = started(folder)[-1]
    for _ in range(6):
        kill(gateway)
    with Client(gateway, token=gateway.token) as client:
        record = client.task(task)
    assert record["error"]["code"] == "orphaned", record
    wait_until(lambda: not is_alive(pid), "its end")


def parent(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        return int(stat.read().rsplit(")", 1)[1].split()[1])


@pytest.mark.parametrize("victim", ["agent", "holder"])
@pytest.mark.parametrize("without", [False, True])
def test_agent_or_holder_that_is_killed_ends_its_task_once(gateway, folder, victim, without):
    """Beside a gateway, and without one."""
    task = begin(gateway, [{"say": "on"}, {"hang": "politely"}])
    with Client(gateway, token=gateway.token) as client:
        client.resume(task, 0)
        client.event(task, "token")
    agent = started(folder)[-1]
    pid = agent if victim == "agent" else parent(agent)
    assert pid in processes_with(gateway.mark)
    if without:
        gateway.kill()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(agent), "its end")
    if without:
        gateway.start()
    with Client(gateway, token=gateway.token) as client:
        since = len(client.log)
        client.resume(task, 0)
        events = list(client.events(task, since))
        record = client.task(task)
    assert [event["data"]["text"] for event in events if event["event"] == "token"] == ["on"]
    code = "orphaned" if without and victim == "holder" else "agent_error"
    assert (record["status"], record["error"]["code"]) == ("failed", code), record


@pytest.mark.parametrize("way", [None, kill])
def test_process_that_dies_of_the_prompt_unheard_is_replaced_once(gateway, folder, way):
    """The second one is given the prompt too, and there is no third."""
    task = begin(gateway, [{"say": "one"}])
    with Client(gateway, token=gateway.token) as client:
        client.resume(task, 0)
        client.wait_terminal(task)
    before, steps = len(started(folder)), [{"exit": 3}, {"say": str(way)}]
    again = begin(gateway, steps, task["conversation_id"])
    if way:
        way(gateway)
    with Client(gateway, token=gateway.token) as client:
        client.resume(again, 0)
        client.wait_terminal(again)
        record = client.task(again)
    assert record["error"]["code"] == "agent_error" and "exit status 3" in record["error"]["message"], record
    assert len(started(folder)) <= before + 1
    prompts = [entry for entry in lines(folder / "coder" / "asked") if entry.get("prompt", "").endswith(json.dumps(steps))]
    assert len(prompts) <= 2


def test_process_that_waits_for_a_turn_ends_with_its_gateway(gateway, folder):
    task = begin(gateway, [{"say": "one"}])
    with Client(gateway, token=gateway.token) as client:
        client.resume(task, 0)
        client.wait_terminal(task)
    pid = started(folder)[-1]
    gateway.kill()
    wait_until(lambda: not is_alive(pid), "its end: it waited in the pool")
    gateway.start()
    steps = [{"say": "two"}]
    again = begin(gateway, steps, task["conversation_id"])
    with Client(gateway, token=gateway.token) as client:
        client.resume(again, 0)
        client.wait_terminal(again)
        assert client.task(again)["output"] == "two"
    wait_until(lambda: len(processes_with(gateway.mark)) >= 1, "a gateway")
