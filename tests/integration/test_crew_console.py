"""An operator of several processes behind one port: he sees all of them, whichever he asks."""

import http.client
import json
import os
import signal

import pytest

import crew
import tokens
from gateway import Gateway, wait_until
from holdfast import Client, ids
from test_admin import Admin
from test_console import events


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    auth = tokens.config(tmp_path_factory.mktemp("auth"), admin_claim="operator")
    with Gateway({"processes": 3, "auth": auth, "drain_s": 20}) as gateway:
        yield gateway


def at(gateway, pid, owner):
    return crew.client_at(gateway, pid, lambda: Client(gateway, token=tokens.token(owner)))


def state_at(gateway, pid):
    """The answer of that process to an operator who came in by the port."""
    def connect():
        connection = http.client.HTTPConnection(gateway.host, gateway.port, timeout=30)
        connection.connect()
        return connection
    connection = crew.client_at(gateway, pid, connect)
    connection.request("GET", "/v1/admin/state", headers={"Authorization": "Bearer " + tokens.token("op", operator=True)})
    answer = connection.getresponse()
    assert answer.status == 200
    state = json.loads(answer.read())
    connection.close()
    return state


def names_of(state):
    """pid → name; the home is the first."""
    return {row["pid"]: row["name"] for row in state["nodes"] if "pid" in row}


def seen(state, kind):
    return {(row["node"], row["owner"]) for row in state[kind]}


def is_whole(gateway):
    """Each front has its link."""
    return wait_until(lambda: len(names_of(Admin(gateway).good("GET", "/v1/admin/state"))) == 3, "all processes")


def test_state_is_of_all_whoever_is_asked(gateway):
    is_whole(gateway)
    members = crew.members(gateway)
    clients = [at(gateway, pid, f"u{i}") for i, pid in enumerate(members)]
    tasks = [client.chat({"token": "a"}, {"hang": 1}, conversation="c") for client in clients]
    for client, task in zip(clients, tasks):
        client.event(task, "token")
    for state in (Admin(gateway).good("GET", "/v1/admin/state"), *(state_at(gateway, pid) for pid in members)):
        names = names_of(state)
        assert set(names) == set(members) and len(set(names.values())) == 3 and len(state["nodes"]) == 3
        assert seen(state, "connections") == {(names[pid], f"u{i}") for i, pid in enumerate(members)}
        assert state["n_connections"] == 3 and state["n_tasks"] == 3
        assert seen(state, "tasks") == {(names[members[0]], f"u{i}") for i in range(3)}  # at home
        used = {row["node"]: row["now"] for row in state["limits"] if row["limit"] == "connections"}
        assert used == dict.fromkeys(names.values(), 1)
        assert [row.get("front", False) for row in state["nodes"]] == [False, True, True]
    state = Admin(gateway).good("GET", "/v1/admin/state?owner=u1")
    assert seen(state, "connections") == {(names[members[1]], "u1")} and len(state["tasks"]) == 1
    for client, task in zip(clients, tasks):
        client.call("cancel", **ids(task))
        client.close()


def test_a_console_sees_clients_come_and_go_at_a_front(gateway):
    is_whole(gateway)
    front = crew.members(gateway)[2]
    token = "Bearer " + tokens.token("op", operator=True)
    states = events(gateway.port, "/v1/admin/watch", Authorization=token)
    with at(gateway, front, "comes"):
        shown = next(s for s in states if "comes" in {owner for _, owner in seen(s, "connections")})
        assert (names_of(shown)[front], "comes") in seen(shown, "connections")
    assert next(s for s in states if "comes" not in {owner for _, owner in seen(s, "connections")})
    states.close()


def test_a_front_that_is_silent_is_named_and_one_that_ends_is_gone(gateway):
    is_whole(gateway)
    home, front, other = crew.members(gateway)
    names = names_of(Admin(gateway).good("GET", "/v1/admin/state"))
    os.kill(front, signal.SIGSTOP)
    try:
        with at(gateway, home, "kept"):
            state = Admin(gateway).good("GET", "/v1/admin/state")
        assert (names[home], "kept") in seen(state, "connections")
        rows = {row["name"]: row for row in state["nodes"]}
        assert rows[names[front]] == {"name": names[front], "silent": True} and rows[names[other]]["pid"] == other
    finally:
        os.kill(front, signal.SIGCONT)
    os.kill(front, signal.SIGKILL)
    gateway.logged("component=crew event=member_lost", "process=1")
    is_whole(gateway)
    assert front not in names_of(Admin(gateway).good("GET", "/v1/admin/state"))
