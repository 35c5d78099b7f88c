"""Agents and grandchildren that do not want to end: all that they held comes back (F16, F17, F19, F26)."""

import os
import pathlib
import re
import time

import pytest

from gateway import LATE_S, SCRIPT, Gateway, free_port, is_alive, processes_with, script_agent, wait_until
from holdfast import Client, ids, names, new_id

# Leaves a grandchild that ignores SIGTERM, holds stdout and writes a marker 20 times a second.
WRITER = 'read line; (trap "" TERM; while :; do date +%N > "$MARKER"; sleep 0.05; done) & ' \
         'while :; do wait; done'
CONFIG = {"limits": {"processes": 2}, "agents": [
    script_agent(default=True),
    {"name": "writer", "kind": "exec", "command": ["/bin/sh", "-c", WRITER], "grace_s": 1},
    {"name": "stubborn", "kind": "exec", "command": ["/bin/sh", "-c", 'trap "" TERM; ' + WRITER], "grace_s": 1},
]}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    marker = tmp_path_factory.mktemp("marker") / "marker"
    agents = [{**agent, "env": {"MARKER": str(marker)}} if agent["name"] != "script" else agent
              for agent in CONFIG["agents"]]
    with Gateway({**CONFIG, "agents": agents}) as running:
        running.marker = marker
        yield running


def held(pid):
    """Descriptor → what it is."""
    return {fd: os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}


def zombies(gateway):
    """Dead processes that the gateway has not buried."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            state, parent = pathlib.Path("/proc", entry, "stat").read_text().rsplit(")", 1)[1].split()[:2]
        except OSError:
            continue
        if state == "Z" and int(parent) == gateway.process.pid:
            found.append(int(entry))
    return found


@pytest.mark.parametrize("agent", ["writer", "stubborn"])
def test_cancel_leaves_no_process_descriptor_zombie_or_slot(gateway, clients, agent):  # F16, F17, F19
    client = clients()
    client.quiet()
    fds, conversation = gateway.n_fds(), new_id()
    for _ in range(2):
        tasks = [client.chat("x", agent=agent, conversation=conversation) for _ in range(2)]  # both slots
        for task in tasks:
            client.event(task, "task.started")
        gateway.marker.unlink(missing_ok=True)
        wait_until(gateway.marker.exists, "the grandchild's writing")
        waiting = client.chat("next", conversation=conversation)
        begun = time.monotonic()
        other = clients(token=client.token)  # one that follows nothing
        for task in tasks:
            assert other.call("cancel", **ids(task))["cancelled"] == 1
        assert time.monotonic() - begun < LATE_S
        for task in tasks:
            assert client.wait_terminal(task)["data"]["status"] == "cancelled"
        assert time.monotonic() - begun < 1 + LATE_S
        assert client.wait_terminal(waiting)["data"]["output"] == "next"
        listed = client.call("tasks", conversation_id=conversation)["tasks"]
        assert {task["status"] for task in listed} <= {"cancelled", "completed"}
        other.drop()
        wait_until(lambda: list(processes_with(gateway.mark)) == [gateway.process.pid], "the end of all processes")
        before = gateway.marker.read_text()
        wait_until(lambda: not zombies(gateway), "the burial of the dead")
        assert gateway.marker.read_text() == before
    wait_until(lambda: gateway.n_fds() <= fds, "the descriptors")


def test_agent_holds_nothing_of_the_gateway_s_while_it_serves_others(gateway, clients):  # F26
    """Looked at from outside, so that no other open descriptor can be hidden: also a grandchild's."""
    clients(), clients()
    client = clients()
    ready = gateway.path()
    task = client.chat({"grandchild": ready, "hold_stdout": True, "setsid": True}, {"touch": ready + "-2"}, {"hang": 1})
    wait_until(lambda: os.path.exists(ready + "-2"), "the agent's start")
    pids = set(processes_with(gateway.mark)) - {gateway.process.pid}
    assert len(pids) >= 2
    own, looked_at = held(gateway.process.pid), 0
    for pid in pids:
        theirs = held(pid)
        assert not [name for name in theirs.values() if str(gateway.data) in name], theirs
        assert not [name for name in theirs.values() if name.startswith("socket") and name in own.values()], theirs
        if os.readlink(f"/proc/{pid}/exe") == SCRIPT[0]:  # not the supervisor, which has its line to the gateway
            assert set(theirs) <= {"0", "1", "2"}, theirs
            looked_at += 1
    assert looked_at == 2  # the agent and its grandchild
    client.call("cancel", **ids(task))
    client.wait_terminal(task)


def test_restart_on_the_same_port_within_a_second():  # F26
    with Gateway(listen=f"127.0.0.1:{free_port()}") as gateway:
        with Client(gateway) as client, Client(gateway) as other:
            ready = gateway.path()
            task = client.chat({"grandchild": ready, "setsid": True, "ignore_term": True}, {"hang": 1})
            wait_until(lambda: os.path.exists(ready), "the grandchild")
            grandchild, token = int(open(ready, encoding="utf-8").read()), client.token
            gateway.kill()
            assert client.closing().code is None and other.closing().code is None
        begun = time.monotonic()
        gateway.start()
        assert time.monotonic() - begun < 1 + LATE_S
        with Client(gateway, token=token) as client:
            assert names(client.replay(task))[-1] == "task.failed"
        wait_until(lambda: not is_alive(grandchild), "the grandchild's end")
        assert not re.search("address|in use", "\n".join(gateway.log[-5:]))


@pytest.mark.parametrize("how", ["cancel", "stop", "kill"])
def test_agent_that_stops_its_supervisor_ends_all_the_same(how, tmp_path):
    stopped = tmp_path / "stopped"
    stops_it = f'kill -STOP $PPID; touch {stopped}; (trap "" TERM; sleep 1000) & sleep 1000'
    agent = {"name": "sh", "kind": "exec", "command": ["/bin/sh", "-c", stops_it], "grace_s": 1}
    with Gateway({"agents": [agent]}) as gateway, Client(gateway) as client:
        task = client.chat("x")
        wait_until(stopped.exists, "a supervisor that was stopped")
        mark, pid = gateway.mark, gateway.process.pid
        if how == "cancel":
            client.call("cancel", **ids(task))
            assert client.wait_terminal(task)["data"]["status"] == "cancelled"
        elif how == "stop":
            assert gateway.stop(LATE_S + 5) == 0
        else:
            gateway.kill()
        wait_until(lambda: not set(processes_with(mark)) - {pid}, "nothing is left of the agent")


def test_agent_that_stops_its_supervisor_and_ends_is_told_to_have_ended():
    """A supervisor that stays stopped tells nobody: the task would last until its time is over."""
    agent = {"name": "sh", "kind": "exec", "command": ["/bin/sh", "-c", "kill -STOP $PPID; exit 3"]}
    with Gateway({"agents": [agent]}) as gateway, Client(gateway) as client:
        task, _ = client.finish("x")
        assert "exit status 3" in task["error"]["message"]
