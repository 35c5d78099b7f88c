"""Several processes behind one port over PostgreSQL: each is a node of its own, and the first process speaks for all."""

import contextlib
import os
import signal
import socket
import sys

import pytest

import crew
import nodes
import postgres
import tokens
from gateway import is_alive, run, wait_until
from holdfast import Client, Closed
from test_activation import STARTER
from test_packaging import Manager

if not postgres.programs():
    pytest.skip("PostgreSQL is not installed", allow_module_level=True)

OTHER = b"another secret of more than thirty-two bytes, as well"


@pytest.fixture(scope="module")
def server():
    server = postgres.Postgres()
    server.start()
    yield server
    server.close()


def free_pair():
    """A port whose next one is free as well."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as one:
            port = one.getsockname()[1]
            try:
                socket.create_server(("127.0.0.1", port + 1)).close()
            except OSError:
                continue
            return port


@pytest.fixture
def cluster(server, request):
    cluster = nodes.Nodes(server, request.node.name[:40], lease_s=nodes.LONG_LEASE_S, config={"processes": 2, "drain_s": 20})
    yield cluster
    cluster.close()


def new(cluster, **more):
    return cluster.new("crew", {"listen": f"127.0.0.1:{free_pair()}"}, **more)


def linked(cluster, gateway):
    """Each has its share, and reaches the other."""
    cluster.settled(2)
    for name in ("crew", "crew-2"):
        wait_until(lambda o=name: any("component=link event=up" in line and f"node={o} " in line and "as=front" in line
                                      for line in gateway.log), f"a link to {name}")


def spread(cluster, gateway, secret=tokens.SECRET):
    """An owner at each member, by way of whichever takes the connection."""
    for name in ("crew", "crew-2"):
        owner, = cluster.owners_at(name, 1)
        for pid in crew.members(gateway):
            def finishes(pid=pid, who=owner):
                def connect():
                    return Client(gateway, token=tokens.token(who, secret=secret))
                with contextlib.suppress(Closed), crew.client_at(gateway, pid, connect) as client:
                    return (client.ask("conversations")["type"] == "conversations"
                            and client.finish({"token": "said"})[0]["status"] == "completed")
                return False
            wait_until(finishes, "its home")


def test_members_are_nodes_and_read_new_keys(cluster, tmp_path):
    """Started under a manager, with its socket; each member hears of the new key; doctor looks at what all have."""
    manager = Manager(str(tmp_path / "notify"))
    with socket.create_server(("127.0.0.1", 0), backlog=64) as sock:
        gateway = new(cluster, environ={"NOTIFY_SOCKET": str(tmp_path / "notify")})
        gateway.pass_fds = (sock.fileno(),)
        plain = gateway.command
        gateway.command = lambda *more: [sys.executable, "-c", STARTER, "1", str(sock.fileno()), "0", *plain(*more)]
        gateway.start()
        assert manager.told()["READY"] == "1"
        assert gateway.port == sock.getsockname()[1]
        linked(cluster, gateway)
        pids = crew.members(gateway)
        spread(cluster, gateway)
        (gateway.folder / "secret").write_bytes(OTHER)
        before = len(gateway.log)
        gateway.process.send_signal(signal.SIGHUP)
        wait_until(lambda: sum("component=auth event=reloaded" in line for line in gateway.log[before:]) == 2, "both have read it")
        spread(cluster, gateway, OTHER)
        done = run("doctor", "--config", str(gateway.folder / "config.json"))
        assert 'gateway "crew" has it' in done.stdout and 'gateway "crew-2" has it' in done.stdout
        assert "WRONG" not in done.stdout and done.returncode == 0, done.stdout
        gateway.process.send_signal(signal.SIGTERM)
        assert manager.told()["STOPPING"] == "1"
        assert gateway.wait() == 0 and not any(map(is_alive, pids))
