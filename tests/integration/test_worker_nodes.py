"""Workers and several gateways: one that dials any of them serves the tasks of all, and a gateway that is killed loses
none.  The server is this file's own."""

import contextlib
import itertools
import re

import pytest

import nodes
import postgres
import tokens
from gateway import wait_until
from holdfast import Client, Closed, ids, new_id, text_of
from test_admin import Admin
from workers import Fleet, Worker, config

if not postgres.programs():
    pytest.skip("PostgreSQL is not installed", allow_module_level=True)

LISTENS = {"listen": "127.0.0.1:0"}


def open_slots(gateway):
    metrics = gateway.http("GET", "/metrics")[2].decode()
    return int(re.search(r'^holdfast_cluster_slots{state="open"} (\d+)', metrics, re.M)[1])


@pytest.fixture
def three(postgresql, request, tmp_path):
    """Gateways a, b and c, with a share of the owners each and links between all."""
    cluster = nodes.Nodes(postgresql, request.node.name[:50], config={**config(tmp_path, instances=20, runs=400), "drain_s": 3600})
    try:
        cluster.start(*"abc", cluster=LISTENS)
        for one in cluster.gateways.values():
            wait_until(lambda g=one: sum("component=link event=up" in line for line in g.log) >= 4, "its links")
        wait_until(lambda: {name: open_slots(one) for name, one in cluster.gateways.items()} == cluster.shares(), "all slots")
        yield cluster
    finally:
        cluster.close()


def client_at(cluster, home, at):
    """A client of an owner of that home, at another gateway perhaps."""
    return served(cluster.gateways[at], cluster.owners_at(home, 1, new_id("u"))[0])


def comes_back(worker, gateway, received=None):
    """The same instance, welcomed: a gateway that has just begun, or lost another, may send it away at first."""
    def welcomed():
        with contextlib.suppress(Closed, OSError):
            back = Worker(gateway, worker.instance, received=received)
            assert next(iter(back.scan(0)))["type"] == "welcome"
            return back
    return wait_until(welcomed, "a welcome")


def welcomed_with(worker, gateway, run_id, n):
    """The same, with the run: it is asked for again until its home has it."""
    def known():
        with contextlib.suppress(Closed, OSError):
            back = Worker(gateway, worker.instance, received={run_id: 1})
            assert run_id in (opened := next(iter(back.scan(0)))["open"]), "its run is over for some home"
            if opened[run_id] == n:
                return back
            back.close()
    return wait_until(known, "its run")


def on_disk(worker, runs, n):
    for run_id in runs.values():
        worker.expect(lambda line, of=run_id: line["type"] == "ack" and line["run"] == of and line["n"] >= n)


def served(gateway, owner):
    """A client of an owner who has a home again."""
    def tried():
        with contextlib.suppress(Closed, OSError):
            client = Client(gateway, token=tokens.token(owner))
            if client.ask("conversations")["type"] == "conversations":
                return client
            client.close()
    return wait_until(tried, "a home")


def test_one_worker_serves_the_agents_of_all(three):
    with Worker(three.gateways["a"], runs=1) as worker:
        worker.next("welcome")
        for home in "abc":
            with client_at(three, home, "b") as client:
                task = client.chat(home, agent="shout")
                line = worker.next("run")
                assert line["input"] == home and line["task_id"] == task["task_id"]
                second = client.chat(home, agent="shout")
                worker.ack(line["run"], 1)
                worker.says(line["run"], 1, "HEL")
                client.call("send", content="more", **ids(task))
                message = worker.next("message")
                worker.ack(line["run"], message["n"])
                client.event(task, "message")
                assert not any(other["type"] == "run" for other in worker.log[worker.taken:])  # it has one place
                worker.line(line["run"], 2, end="done")
                assert worker.next("gone")["run"] == line["run"]
                assert client.wait_terminal(task)["data"]["output"] == "HEL"
                line = worker.next("run")
                assert line["task_id"] == second["task_id"]
                client.call("cancel", **ids(second))
                assert worker.next("cancel")["run"] == line["run"]
                worker.line(line["run"], 1, end="failed", error="cancelled")
                worker.next("gone")


def test_places_are_shared_by_all_homes(three):
    """A worker never has more runs than it wants, and as many, whoever gives them."""
    with Worker(three.gateways["a"], runs=2) as worker:
        worker.next("welcome")
        clients = {home: client_at(three, home, home) for home in "abc"}
        tasks = [(client, client.chat(home, agent="shout")) for home, client in clients.items() for _ in range(4)]
        n_given, under_way = 0, []
        while n_given < len(tasks) or under_way:
            if len(under_way) < 2 and n_given < len(tasks):
                under_way.append(worker.next("run")["run"])
                n_given += 1
            else:
                worker.line(under_way.pop(0), 1, end="done")
                worker.next("gone")
        for client, task in tasks:
            assert client.wait_terminal(task)["event"] == "task.completed"
        at_once = list(itertools.accumulate({"run": 1, "gone": -1}.get(line["type"], 0) for line in worker.log))
        assert max(at_once) == 2 and at_once[-1] == 0
        for client in clients.values():
            client.close()


def test_a_home_that_is_killed_loses_no_run(three):
    """The gateway that the worker dialled tells it to come again, and it goes on."""
    with Worker(three.gateways["a"]) as worker, client_at(three, "b", "c") as client, \
            client_at(three, "c", "c") as bystander:
        worker.next("welcome")
        task, other = client.chat("x", agent="shout"), bystander.chat("y", agent="shout")
        runs = {}
        for _ in range(2):
            line = worker.next("run")
            runs[line["input"]] = line["run"]
            worker.ack(line["run"], 1)
            worker.says(line["run"], 1, "a")
        on_disk(worker, runs, 1)
        three.gateways["b"].kill()
        worker.says(runs["y"], 2, "b")  # its home lives, and notices nothing
        worker.acked(runs["y"], 2)
        assert worker.closing().code == 1001  # the next home has its owners
        back = comes_back(worker, three.gateways["a"], {run_id: 1 for run_id in runs.values()})
        with back:
            assert back.next("welcome")["open"] == {runs["x"]: 1, runs["y"]: 2}
            for run_id, n in ((runs["x"], 2), (runs["y"], 3)):
                back.says(run_id, n, "c")
                back.line(run_id, n + 1, end="done")
                back.next("gone")
        with served(three.gateways["c"], client.owner) as again:
            events = again.replay(task, 0)
            assert events[-1]["event"] == "task.completed" and text_of(events) == "ac"
        assert bystander.wait_terminal(other)["data"]["output"] == "abc"


def test_the_gateway_that_it_dialled_is_killed(three):
    """The worker goes to another one at once: runs whose home is gone stay with it until there is a next one."""
    worker = Worker(three.gateways["a"])
    worker.next("welcome")
    with client_at(three, "a", "c") as lost, client_at(three, "b", "c") as kept:
        tasks = {"a": lost.chat("a", agent="shout"), "b": kept.chat("b", agent="shout")}
        runs = {}
        for _ in range(2):
            line = worker.next("run")
            runs[line["input"]] = line["run"]
            worker.ack(line["run"], 1)
            worker.says(line["run"], 1, line["input"])
        on_disk(worker, runs, 1)
        three.gateways["a"].kill()
        received = {run_id: 1 for run_id in runs.values()}
        back = comes_back(worker, three.gateways["b"], received)
        assert back.next("welcome")["open"] == {runs["a"]: 0, runs["b"]: 1}
        back.says(runs["b"], 2, "!")
        back.acked(runs["b"], 2)
        assert back.closing().code == 1001
        with comes_back(worker, three.gateways["b"], received) as last:
            assert last.next("welcome")["open"] == {runs["a"]: 1, runs["b"]: 2}
            last.says(runs["a"], 2, "!")
            for run_id in runs.values():
                last.line(run_id, 3, end="done")
                last.next("gone")
        assert kept.wait_terminal(tasks["b"])["data"]["output"] == "b!"
        with served(three.gateways["c"], lost.owner) as again:
            assert text_of(again.replay(tasks["a"], 0)) == "a!"


def test_a_rolling_restart_moves_their_runs(three):
    """Each gateway ends while the run lasts: it was begun once, and the worker goes on with it at the next home."""
    with Worker(three.gateways["c"]) as worker, client_at(three, "a", "b") as client:
        worker.next("welcome")
        owner, task = client.owner, client.chat("x", agent="shout")
        run_id = worker.next("run")["run"]
        worker.ack(run_id, 1)
        worker.says(run_id, 1, "0")
        on_disk(worker, {"x": run_id}, 1)
    moves = 0
    for n, name in enumerate("abc", 1):
        with welcomed_with(worker, three.gateways["b" if name == "a" else "a"], run_id, n) as back:
            back.says(run_id, n + 1, str(n))
            on_disk(back, {"x": run_id}, n + 1)
            was_home = three.home_of(owner) == name
            assert three.gateways[name].stop() == 0
            if was_home:
                assert back.closing().code == 1001
            moves += was_home
        three.gateways[name].start()
        three.settled(3)
    with welcomed_with(worker, three.gateways["b"], run_id, 4) as last:
        last.line(run_id, 5, end="done")
        last.next("gone")
    with served(three.gateways["c"], owner) as again:
        events = again.replay(task, 0)
    names = [event["event"] for event in events]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert names.count("task.started") == 1 and names[-1] == "task.completed" and text_of(events) == "0123"
    resumed = [event["data"] for event in events if event["event"] == "task.resumed"]
    assert 1 <= moves <= len(resumed) and all(data["planned"] for data in resumed)


def test_a_gateway_that_joins_has_them_too(three):
    with Worker(three.gateways["a"]) as worker:
        worker.next("welcome")
        three.start("d", cluster=LISTENS)
        assert worker.closing().code == 1001
        owner = three.owners_at("d", 1, new_id("u"))[0]
        with comes_back(worker, three.gateways["a"]) as back, served(three.gateways["b"], owner) as client:
            task = client.chat("x", agent="shout")
            back.line(back.next("run")["run"], 1, end="done")
            client.wait_terminal(task)


def test_an_operator_drains_a_worker_at_all_gateways(three):
    with Worker(three.gateways["a"]) as worker:
        worker.next("welcome")
        for order in ("drain", "undrain"):
            Admin(three.gateways["b"]).good("POST", f"/v1/admin/workers/{order}", {"worker": "gpu"})
            for gateway in three.gateways.values():
                listed = Admin(gateway).good("GET", "/v1/admin/workers")["workers"]
                assert [one["draining"] for one in listed] == [order == "drain", False]
        worker.next("drain")
        with client_at(three, "c", "b") as client:
            task = client.chat("x", agent="shout")
            worker.line(worker.next("run")["run"], 1, end="done")
            client.wait_terminal(task)


@pytest.mark.parametrize("language", ["python", "node"])
def test_libraries_go_on_over_the_death_of_a_home(three, tmp_path, language):
    a, b, c = (three.gateways[name] for name in "abc")
    with Fleet(language, a, tmp_path) as fleet, client_at(three, "b", "c") as client, client_at(three, "c", "c") as other:
        fleet.start()
        tasks = [one.chat("ask", agent="again") for one in (client, other)]
        questions = [one.event(task, "input_required")["data"]["input_id"]
                     for one, task in zip((client, other), tasks)]
        b.kill()
        with served(c, client.owner) as again:
            again.call("respond", input_id=questions[0], answer="hello", **ids(tasks[0]))
            again.resume(tasks[0], 0)
            assert again.wait_terminal(tasks[0])["data"]["output"] == "hello"
        other.call("respond", input_id=questions[1], answer="there", **ids(tasks[1]))
        assert other.wait_terminal(tasks[1])["data"]["output"] == "there"
