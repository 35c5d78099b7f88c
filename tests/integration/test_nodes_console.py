"""The operator's view of several gateways, at any one of them: rows of all, orders to each, and one that is silent."""

import json
import signal
import time

import pytest

import nodes
import postgres
import tokens
from gateway import wait_until
from holdfast import Client, Closed, ids
from test_admin import Admin, command
from test_console import Console, events

if not postgres.programs():
    pytest.skip("PostgreSQL is not installed", allow_module_level=True)

NAMES = ("one", "two", "three")


@pytest.fixture
def cluster(postgresql, request):
    cluster = nodes.Nodes(postgresql, request.node.name[:40], lease_s=nodes.LONG_LEASE_S, config={"drain_s": 5})
    for name in NAMES:
        cluster.new(name, {"listen": "127.0.0.1:0"}).start()
    cluster.settled(len(NAMES))
    for name, gateway in cluster.gateways.items():
        for other in set(NAMES) - {name}:
            gateway.logged("component=link event=up", f"node={other}", "as=front")
    yield cluster
    cluster.close()


def client_of(gateway, owner):
    """Once that gateway serves the owner, or knows who does."""
    def served():
        client = Client(gateway, token=tokens.token(owner))
        try:
            if client.ask("conversations")["type"] == "conversations":
                return client
        except Closed:  # sent away, as to where the owner is now: come again
            pass
        client.close()
        return None
    return wait_until(served, f"service for {owner}")


def begin(client):
    task = client.chat({"token": "a"}, {"hang": 1}, conversation="c")
    client.event(task, "token")
    return task


def seen(state, kind):
    return {(row["node"], row["owner"]) for row in state[kind]}


def named(state):
    return {node["name"]: node for node in state["nodes"]}


def test_state_is_of_all_whoever_is_asked(cluster):
    """Each with the gateway where it is: a task at its owner's home, a connection where it came in."""
    owners = {name: cluster.owners_at(name, 1, f"of {name}/ü%&")[0] for name in NAMES}
    clients = {name: client_of(cluster.gateways[name], owners[name]) for name in NAMES}
    tasks = {name: begin(client) for name, client in clients.items()}
    away = client_of(cluster.gateways["one"], owners["three"])
    for gateway in cluster.gateways.values():
        state = Admin(gateway).good("GET", "/v1/admin/state")
        assert seen(state, "tasks") == set(owners.items()) and state["n_tasks"] == 3
        assert seen(state, "connections") == {*owners.items(), ("one", owners["three"])} and state["n_connections"] == 4
        rows = named(state)
        assert {name: rows[name]["pid"] for name in NAMES} == {n: g.process.pid for n, g in cluster.gateways.items()}
        assert all(row["ready"] and row["slots"] and "silent" not in row for row in rows.values()) and len(rows) == 3
        assert {(u["node"], u["now"]) for u in state["limits"] if u["limit"] == "tasks"} == {(name, 1) for name in NAMES}
        others = {other["node"]: other["metrics"] for other in state["others"]}
        assert set(others) == {name for name, g in cluster.gateways.items() if g is not gateway}
        assert all("holdfast_limit_hits_total{" in text for text in (*others.values(), state["metrics"]))
    state = Admin(cluster.gateways["one"]).good("GET", "/v1/admin/state?owner=three/%C3%BC%25%26")
    assert seen(state, "tasks") == {("three", owners["three"])}
    assert seen(state, "connections") == {("three", owners["three"]), ("one", owners["three"])}
    for name, client in clients.items():
        client.call("cancel", **ids(tasks[name]))
        client.close()
    away.close()


def test_console_shows_and_orders_everywhere(cluster):
    owner, = cluster.owners_at("three", 1)
    console = Console(cluster.gateways["one"]).enter()
    states = events(console.port, "/v1/admin/watch", Authorization=f"Bearer {console.secret}")
    with client_of(cluster.gateways["two"], owner) as client:
        task = begin(client)
        assert next(s for s in states if ("three", owner) in seen(s, "tasks") and ("two", owner) in seen(s, "connections"))
        status, reply = console.ask("POST", "/v1/admin/kick", {"owner": owner})
        assert status == 200 and reply["closed"] == 1
        assert client.closing().code == 1001
        assert next(s for s in states if ("two", owner) not in seen(s, "connections"))
    path = f"/v1/conversations/c/tasks/{task['task_id']}"
    assert console.ask("DELETE", path, Holdfast_Owner=owner)[0] == 200
    assert next(s for s in states if ("three", owner) not in seen(s, "tasks"))
    states.close()
    console.end()


def test_a_silent_one_is_named_and_the_rest_is_shown(cluster):
    owner, = cluster.owners_at("two", 1)
    with client_of(cluster.gateways["two"], owner) as client:
        task = begin(client)
        admin = Admin(cluster.gateways["one"])
        cluster.gateways["three"].process.send_signal(signal.SIGSTOP)
        try:
            for _ in range(3):
                begun = time.monotonic()
                state = admin.good("GET", "/v1/admin/state")
                took = time.monotonic() - begun
                rows = named(state)
                assert rows["three"]["silent"] and "silent" not in rows["two"]
                assert seen(state, "tasks") == {("two", owner)}
                assert took < 5, took  # a link that says nothing is broken after six
        finally:
            cluster.gateways["three"].process.send_signal(signal.SIGCONT)
        wait_until(lambda: "silent" not in named(admin.good("GET", "/v1/admin/state"))["three"], "its answers")
        client.call("cancel", **ids(task))


def test_drain_of_a_named_gateway(cluster):
    one, two, three = cluster.gateways.values()
    assert "no gateway of that name" in command(one, "drain-node", "four").stdout
    for slip in ({"node": 4}, {"node": ""}, {"nod": "two"}):
        assert Admin(one).ask("POST", "/v1/admin/drain", slip)[0] == 400
    assert json.loads(command(one, "drain-node", "three").stdout) == {"type": "ok"}
    assert three.wait() == 0
    wait_until(lambda: set(named(Admin(one).good("GET", "/v1/admin/state"))) == {"one", "two"}, "two gateways")
    assert json.loads(command(one, "drain-node", "one").stdout) == {"type": "ok"}
    assert one.wait() == 0 and two.process.poll() is None
