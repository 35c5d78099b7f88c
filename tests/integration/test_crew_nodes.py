"""Several processes behind one port over PostgreSQL: each is a node of its own, and the first process speaks for all."""

import contextlib
import os
import pathlib
import re
import signal
import socket
import sys
import time

import pytest

import crew
import nodes
import postgres
import tokens
from crowd import Crowd
from gateway import is_alive, refusing_port, run, script_agent, wait_until
from holdfast import TERMINAL, Client, Closed, Refused, ids, text_of
from relay import Relay
from short import long
from test_activation import STARTER
from test_packaging import Manager

if not postgres.programs():
    pytest.skip("PostgreSQL is not installed", allow_module_level=True)

OTHER = b"another secret of more than thirty-two bytes, as well"


def free_row(n):
    """The first of so many free ports."""
    while True:
        with contextlib.ExitStack() as ends:
            port = ends.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
            try:
                for further in range(port + 1, port + n):
                    ends.enter_context(socket.create_server(("127.0.0.1", further)))
            except OSError:
                continue
            return port


@pytest.fixture
def cluster(postgresql, request):
    cluster = nodes.Nodes(postgresql, request.node.name[:40], lease_s=nodes.LONG_LEASE_S, config={"processes": 2, "drain_s": 20})
    yield cluster
    cluster.close()


def new(cluster, **more):
    return cluster.new("crew", {"listen": f"127.0.0.1:{free_row(cluster.config['processes'])}"}, **more)


def linked(cluster, gateway, *names):
    """Each has its share, and reaches the others."""
    cluster.settled(len(names))
    pairs = len(names) * (len(names) - 1)
    wait_until(lambda: len({(word(line, "process"), word(line, "node")) for line in gateway.log
                            if "component=link event=up" in line and "as=front" in line}) == pairs, "all links")


def word(line, key):
    return re.search(rf" {key}=(\S+)", line)[1]


def serves(gateway, pid, owner, secret=tokens.SECRET):
    """Whether that member knows who the owner's home is, and has its share: slots are open a moment after the table
    says whose they are, and others hear of it within a fifth of a lease."""
    def connect():
        return Client(gateway, token=tokens.token(owner, secret=secret))
    with contextlib.suppress(Closed), crew.client_at(gateway, pid, connect) as client:
        return (client.ask("conversations")["type"] == "conversations"
                and client.finish({"token": "said"})[0]["status"] == "completed")
    return False


def spread(gateway, owners, secret=tokens.SECRET):
    """By way of whichever member takes the connection."""
    for owner in owners:
        for pid in crew.members(gateway):
            wait_until(lambda at=pid, who=owner: serves(gateway, at, who, secret), "its home")


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
        linked(cluster, gateway, "crew", "crew-2")
        pids = crew.members(gateway)
        owners = [cluster.owners_at(name, 1)[0] for name in ("crew", "crew-2")]
        spread(gateway, owners)
        (gateway.folder / "secret").write_bytes(OTHER)
        before = len(gateway.log)
        gateway.process.send_signal(signal.SIGHUP)
        wait_until(lambda: sum("component=auth event=reloaded" in line for line in gateway.log[before:]) == 2, "both have read it")
        spread(gateway, owners, OTHER)
        done = run("doctor", "--config", str(gateway.folder / "config.json"))
        assert 'gateway "crew" has it' in done.stdout and 'gateway "crew-2" has it' in done.stdout
        assert "WRONG" not in done.stdout and done.returncode == 0, done.stdout
        gateway.process.send_signal(signal.SIGTERM)
        assert manager.told()["STOPPING"] == "1"
        assert gateway.wait() == 0 and not any(map(is_alive, pids))


# -------------------------------------------------------------------- a member that is killed

NAMES = ("crew", "crew-2", "crew-3")
SOURCE = {"name": "source", "kind": "source"}


@pytest.fixture
def three(postgresql, request):
    cluster = nodes.Nodes(postgresql, request.node.name[:40], lease_s=nodes.LONG_LEASE_S,
                          config={"processes": 3, "drain_s": 20, "agents": [script_agent(default=True), SOURCE]})
    yield cluster
    cluster.close()


def attempt(gateway, owner, work):
    """None while nobody serves the owner; no refusal but those that say "later" passes."""
    try:
        with Client(gateway, token=tokens.token(owner)) as client:
            return work(client)
    except (Closed, OSError):
        return None
    except (Refused, AssertionError) as refusal:
        if "overloaded" in str(refusal):
            return None
        raise


def begin(gateway, owner, **fields):
    with Client(gateway, token=tokens.token(owner)) as client:
        return client.call("chat", **fields)["task"]


def flow(gateway, owner):
    """Until it is cancelled."""
    return begin(gateway, owner, agent="source", message="events=1000000 bytes=40 burst=1 interval_ms=20")


def reader_at(gateway, pid, owner, task):
    client = crew.client_at(gateway, pid, lambda: Client(gateway, token=tokens.token(owner)))
    client.resume(task, 0)
    client.event(task, "token")
    return client


def ends(events):
    return [event["event"] for event in events if event["event"] in TERMINAL]


def test_member_that_is_killed_is_missed_by_its_own_owners_alone(three):
    """For moments: it is begun again under its name on its folder, and nobody waits for its lease."""
    gateway = new(three, lasting=True)
    gateway.start()
    linked(three, gateway, *NAMES)
    pids = dict(zip(NAMES, crew.members(gateway), strict=True))
    lost, *living = ("crew-2", "crew", "crew-3")
    owner = {name: three.owners_at(name, 1)[0] for name in NAMES}
    spread(gateway, owner.values())
    gate = pathlib.Path(gateway.path())
    kept = begin(gateway, owner[lost], message=f'[{{"token": "a"}}, {{"wait": "{gate}"}}, {{"token": "b"}}]')
    task = {name: flow(gateway, owner[name]) for name in NAMES}
    with contextlib.ExitStack() as closes:
        crowd = Crowd()
        closes.callback(crowd.close)
        calm = [(home, closes.enter_context(reader_at(gateway, pids[at], owner[home], task[home])))
                for home in living for at in living]
        shaken = [closes.enter_context(reader_at(gateway, pids[at], owner[lost], task[lost])) for at in living]
        for name, one in [*task.items(), (lost, kept)]:
            for _ in range(6):
                crowd.add(tokens.token(owner[name]), one, [gateway])
        crowd.all(lambda reader: reader.cursor > 1, "events for everybody")
        os.kill(pids[lost], signal.SIGKILL)
        killed = time.monotonic()
        for client in shaken:  # their front lives, and knows what to say
            assert client.closing().code == 1001
        assert wait_until(lambda: attempt(gateway, owner[lost], lambda client: client.finish({"token": "on"})), "service")
        served = time.monotonic() - killed
        gate.touch()
        for name in living:
            wait_until(lambda who=owner[name], one=task[name]: attempt(
                gateway, who, lambda client: client.call("cancel", **ids(one))), "a cancel's answer")
        crowd.whole()
        for home, client in calm:  # on the connection that it had: each number once, as the client checks
            assert client.wait_terminal(task[home])["data"]["status"] == "cancelled"
    assert served < three.lease_s, served
    assert three.home_of(owner[lost]) == lost and not any("event=taken_over" in line for line in gateway.log)
    ended = {name: "cancelled" for name in living} | {lost: "failed"}  # a source cannot go on
    for name, one, status in [*((name, task[name], ended[name]) for name in NAMES), (lost, kept, "completed")]:
        events, record = wait_until(lambda who=owner[name], task=one: attempt(
            gateway, who, lambda client: (client.replay(task, 0), client.task(task))), "the task")
        assert len(ends(events)) == 1 and [event["seq"] for event in events] == list(range(1, len(events) + 1))
        assert text_of(events) == "ab" if one is kept else len(events) > 1
        assert record["status"] == status
    gateway.logged("component=crew event=member_lost", "process=1", "code=137")
    assert len(crew.members(gateway)) == 3 and {pids[name] for name in living} < set(crew.members(gateway))


def wired(cluster, closes):
    """Three members, who reach each other by way of these wires."""
    ports, ways = free_row(3), free_row(3)
    wires = [closes.enter_context(Relay(nodes.Address(ports + i), port=ways + i)) for i in range(3)]
    gateway = cluster.new("crew", {"listen": f"127.0.0.1:{ports}", "advertise": f"127.0.0.1:{ways}"}, lasting=True)
    gateway.start()
    linked(cluster, gateway, *NAMES)
    return gateway, wires


@long
def test_member_that_begins_again_takes_no_client_before_it_reaches_the_others(three):
    """Its way to the first member is not there: whoever comes meanwhile is with the others, and is served."""
    with contextlib.ExitStack() as closes:
        gateway, wires = wired(three, closes)
        owner = three.owners_at("crew", 1)[0]
        spread(gateway, [owner])
        pids = crew.members(gateway)
        there, wires[0].to = wires[0].to, ("127.0.0.1", refusing_port())
        seen = len(gateway.log)
        os.kill(pids[1], signal.SIGKILL)
        wait_until(lambda: any("event=up" in line and "process=1" in line and "as=front" in line and "node=crew-3" in line
                               for line in gateway.log[seen:]), "the link to the other one")
        new, = set(crew.members(gateway)) - set(pids)
        clients = []
        for _ in range(20):  # as long as another one accepts, and is not far ahead
            client = closes.enter_context(Client(gateway, token=tokens.token(owner)))
            assert client.ask("conversations")["type"] == "conversations"
            clients.append(client)
        assert all(crew.member_of(gateway, client.sock.getsockname()[1]) != new for client in clients)
        wires[0].to = there
        assert wait_until(lambda: serves(gateway, new, owner), "the new one's clients")
