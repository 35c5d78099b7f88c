"""Workers that dial in: frames by hand over a real socket."""

import json

import pytest

from gateway import WAIT_S, Gateway, run, wait_until
from holdfast import Client, Refused, ids, names, new_id
from test_admin import Admin
from workers import SECRET, Worker, config


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    with Gateway(config(tmp_path_factory.mktemp("workers"))) as running:
        yield running


def stands(gateway):
    return {one["worker"]: one for one in Admin(gateway).good("GET", "/v1/admin/workers")["workers"]}


def statuses(gateway, worker="gpu"):
    return [one["status"] for one in stands(gateway)[worker]["instances"]]


def test_a_run_goes_out_and_its_lines_come_back(gateway, client):
    with Worker(gateway) as worker:
        assert worker.next("welcome") == {"type": "welcome", "grace_s": 30, "open": {}}
        task = client.chat("hello", agent="shout")
        line = worker.next("run")
        run_id = line["run"]
        assert (line["n"], line["agent"], line["input"], line["task_id"]) == (1, "shout", "hello", task["task_id"])
        assert line["history"] == [] and line["metadata"] is None and line["conversation_id"]
        assert client.owner not in json.dumps(worker.log)  # whose it is, an agent does not learn
        worker.ack(run_id, 1)
        worker.says(run_id, 1, "HEL")
        worker.says(run_id, 2, "LO")
        worker.line(run_id, 3, event="result", data={"x": 1})
        worker.line(run_id, 4, end="done")
        assert worker.next("gone") == {"type": "gone", "run": run_id}
        client.wait_terminal(task)
        record = client.call("task", **ids(task))["task"]
        assert (record["status"], record["output"], record["result"]) == ("completed", "HELLO", {"x": 1})


def test_secret_that_a_worker_says_is_hidden(gateway, client):
    with Worker(gateway) as worker:
        task = client.chat("x", agent="shout")
        run_id = worker.next("run")["run"]
        worker.line(run_id, 1, event="final_answer", data={"output": f"it is {SECRET}"})
        worker.line(run_id, 2, end="done")
        assert client.wait_terminal(task)["data"]["output"] == "it is ***"


def test_calls_questions_messages_and_cancel(gateway, client):
    with Worker(gateway) as worker:
        task = client.chat("x", agent="shout")
        run_id = worker.next("run")["run"]
        worker.ack(run_id, 1)
        worker.line(run_id, 1, call="tool", call_id="c1", name="calculator", arguments={"expression": "6*7"})
        answer = worker.next("tool_result")
        assert (answer["call_id"], answer["output"], answer["n"]) == ("c1", "42", 2)
        worker.line(run_id, 2, event="input_required", data={"input_id": "q", "kind": "question", "prompt": "?"})
        client.event(task, "input_required")
        client.call("respond", **ids(task), input_id="q", answer="yes")
        assert worker.next("input")["answer"] == "yes"
        client.call("send", **ids(task), content="psst")
        message = worker.next("message")
        assert (message["content"], message["n"]) == ("psst", 4)
        assert "message" not in names(client.events_since(task))
        worker.ack(run_id, 4)  # now the agent has it
        client.event(task, "message")
        client.call("cancel", **ids(task))
        assert worker.next("cancel") == {"type": "cancel", "run": run_id}
        worker.says(run_id, 3, "bye")
        worker.line(run_id, 4, end="failed", error="cancelled")
        worker.next("gone")
        assert client.wait_terminal(task)["data"]["status"] == "cancelled"


def test_a_worker_that_does_not_stop_is_left_alone(gateway, client):
    with Worker(gateway) as worker:
        task = client.chat("x", agent="shout")
        run_id = worker.next("run")["run"]
        client.call("cancel", **ids(task))
        worker.next("cancel")
        assert client.wait_terminal(task)["data"]["status"] == "cancelled"  # after grace_s
        assert worker.next("gone")["run"] == run_id
        worker.says(run_id, 1, "too late")
        assert worker.next("gone")["run"] == run_id


def test_failures_are_told_as_those_of_programs(gateway, client):
    with Worker(gateway) as worker:
        for members, error in (({"end": "failed", "error": "no GPU"}, "agent_error: no GPU"),
                               ({"end": "failed"}, "agent_error: the worker gave no reason"),
                               ({"event": "noise", "data": {}}, "agent_error: unknown event")):
            task = client.chat("x", agent="shout")
            worker.line(worker.next("run")["run"], 1, **members)
            assert client.wait_terminal(task)["data"]["error"]["message"].startswith(error)
            worker.next("cancel" if "event" in members else "gone")


def test_a_cut_loses_and_doubles_nothing(gateway, client):
    worker = Worker(gateway)
    task = client.chat("x", agent="shout")
    run_id = worker.next("run")["run"]
    worker.ack(run_id, 1)
    worker.says(run_id, 1, "a")
    worker.says(run_id, 2, "b")
    worker.acked(run_id, 2)
    worker.cut()
    wait_until(lambda: statuses(gateway) == ["away"], "the gateway sees the cut")
    client.call("send", **ids(task), content="meanwhile")
    with Worker(gateway, worker.instance, received={run_id: 1, "01GONE": 3}) as back:
        assert back.next("welcome")["open"] == {run_id: 2}
        assert (back.next("message")["n"]) == 2
        back.says(run_id, 2, "b")  # again: it is on disk
        back.says(run_id, 3, "c")
        back.line(run_id, 4, end="done")
        back.next("gone")
    assert client.wait_terminal(task)["data"]["output"] == "abc"


def test_a_connection_whose_worker_came_back_is_closed(gateway, client):
    with Worker(gateway) as worker:
        worker.next("welcome")
        with Worker(gateway, worker.instance) as back:
            back.next("welcome")
            assert worker.closing().code == 1001
            task = client.chat("x", agent="shout")
            back.line(back.next("run")["run"], 1, end="done")
            client.wait_terminal(task)


def test_a_run_that_its_worker_forgot_is_orphaned(gateway, client):
    worker = Worker(gateway)
    task = client.chat("x", agent="shout")
    run_id = worker.next("run")["run"]
    worker.says(run_id, 1, "a")
    worker.acked(run_id, 1)
    worker.cut()
    with Worker(gateway, worker.instance) as back:
        assert back.next("welcome")["open"] == {}
        end = client.wait_terminal(task)["data"]
        assert (end["error"]["code"], end["output"]) == ("orphaned", "a")


def test_a_run_that_never_arrived_is_sent_again(gateway, client):
    worker = Worker(gateway)
    task = client.chat("x", agent="shout")
    run_id = worker.next("run")["run"]
    worker.cut()
    with Worker(gateway, worker.instance) as back:
        assert back.next("welcome")["open"] == {}
        assert back.next("run")["run"] == run_id
        back.line(run_id, 1, end="done")
        client.wait_terminal(task)


def test_workers_that_do_not_come_back(tmp_path):
    """The run of one agent is orphaned, that of the other, of which nothing came, goes to the next worker."""
    with Gateway({**config(tmp_path), "worker_grace_s": 1}) as gateway, Client(gateway) as client:
        worker = Worker(gateway, agents=["shout", "again"])
        lost = client.chat("x", agent="shout")
        moved = client.chat("y", agent="again")
        runs = {worker.next("run")["agent"] for _ in range(2)}
        assert runs == {"shout", "again"}
        for line in worker.log:
            if line["type"] == "run":
                worker.ack(line["run"], 1)
        wait_until(lambda: stands(gateway)["gpu"]["runs"] == 2, "both are there")
        worker.cut()
        end = client.wait_terminal(lost)["data"]["error"]
        assert (end["code"], end["message"]) == ("orphaned", "orphaned: its worker did not come back")
        with Worker(gateway, agents=["again"], worker="cpu") as other:
            line = other.next("run")
            assert (line["input"], line["n"], line["task_id"]) == ("y", 1, moved["task_id"])
            other.line(line["run"], 1, end="done")
            assert client.wait_terminal(moved)["data"]["output"] == ""


def test_without_a_worker_a_run_waits_and_then_fails(tmp_path):
    settings = config(tmp_path)
    settings["agents"][0]["wait_s"] = 1
    with Gateway(settings) as gateway, Client(gateway) as client:
        task = client.chat("x", agent="shout")
        error = client.wait_terminal(task)["data"]["error"]
        assert error["message"] == "agent_error: no worker took it within 1 s"
        waiting = client.chat("x", agent="again")
        client.event(waiting, "task.started")
        client.call("cancel", **ids(waiting))
        assert client.wait_terminal(waiting)["data"]["status"] == "cancelled"


def test_limits_of_a_worker(tmp_path):
    with Gateway(config(tmp_path, runs=3, instances=2)) as gateway, Client(gateway) as client:
        with Worker(gateway, runs=2) as one, Worker(gateway, runs=2) as two:
            one.next("welcome")
            two.next("welcome")
            with Worker(gateway) as third:
                assert third.next("error")["message"] == "this worker has as many instances as it may have"
                assert third.closing().code == 1008
            tasks = [client.chat(f"{n}", agent="shout", conversation=new_id()) for n in range(4)]
            for task in tasks:
                client.event(task, "task.started")
            runs = [one.next("run"), two.next("run")]  # the one with the most room gets the next
            wait_until(lambda: stands(gateway)["gpu"]["runs"] == 3, "three of four are given")
            wait_until(lambda: Admin(gateway).good("GET", "/v1/admin/workers")["waiting"] == 1, "the fourth waits")
            one.line(runs[0]["run"], 1, end="done")
            one.next("gone")
            wait_until(lambda: Admin(gateway).good("GET", "/v1/admin/workers")["waiting"] == 0, "the fourth is given")


def test_drained_by_itself_and_by_the_operator(gateway, client):
    admin = Admin(gateway)
    with Worker(gateway) as leaving, Worker(gateway) as staying:
        staying.next("welcome")
        leaving.send({"type": "drain"})
        leaving.next("drain")
        tasks = [client.chat("x", agent="shout", conversation=new_id()) for _ in range(2)]
        for _ in tasks:
            staying.line(staying.next("run")["run"], 1, end="done")
        for task in tasks:
            client.wait_terminal(task)
        assert sorted(statuses(gateway)) == ["draining", "serving"]
        assert admin.good("POST", "/v1/admin/workers/drain", {"worker": "gpu"}) == {"type": "ok"}
        staying.next("drain")
        waiting = client.chat("x", agent="shout")
        client.event(waiting, "task.started")
        assert stands(gateway)["gpu"]["draining"]
        assert not any(line["type"] == "run" for line in staying.log[staying.taken:])
        admin.good("POST", "/v1/admin/workers/undrain", {"worker": "gpu"})
        staying.line(staying.next("run")["run"], 1, end="done")
        client.wait_terminal(waiting)
    status, answer = admin.ask("POST", "/v1/admin/workers/drain", {"worker": "nobody"})
    assert (status, answer["error"]["code"]) == (400, "bad_request")


def command(gateway, *arguments):
    return run("admin", "--data", str(gateway.data), *arguments)


def test_admin_commands(gateway):
    with Worker(gateway) as worker:
        worker.next("welcome")
        shown = json.loads(command(gateway, "workers").stdout)
        assert shown["workers"][0]["worker"] == "gpu"
        assert command(gateway, "drain", "gpu").returncode == 0
        worker.next("drain")
        assert command(gateway, "undrain", "gpu").returncode == 0
        assert command(gateway, "drain", "nobody").returncode == 1


def test_wrong_secrets_are_refused_alike_and_slowed(tmp_path):
    settings = {**config(tmp_path), "limits": {"requests_per_second": 1, "burst": 8}}
    with Gateway(settings) as gateway:
        refusals = set()
        for worker, secret in (("gpu", "x"), ("gpu", SECRET + "x"), ("nobody", SECRET), ("gpu", "x" * 512)):
            with Worker(gateway, worker=worker, secret=secret) as one:
                refusals.add((one.next("error")["message"], one.closing().code))
        assert refusals == {("the worker's name or secret is wrong", 4401)}
        codes = []
        for _ in range(40):
            with Worker(gateway, secret="x") as one:
                codes.append(one.closing().code)
            if codes[-1] == 4429:
                break
        assert codes[-1] == 4429 and set(codes[:-1]) <= {4401}
        assert any(line.startswith('holdfast_worker_events_total{event="refused"} ') and int(line.split()[-1]) >= 4
                   for line in gateway.http("GET", "/metrics")[2].decode().splitlines())
    assert not [line for line in gateway.log if SECRET in line or "PLANTED" in line]


def test_subprotocol_is_its_own(gateway):
    for path, offers in (("/v1/worker", ["holdfast.v1"]), ("/v1/worker", ["holdfast.worker.v1", "holdfast.v1"]),
                         ("/v1/ws", ["holdfast.worker.v1", "holdfast.v1"]), ("/v1/ws", ["holdfast.worker.v1"])):
        with pytest.raises(Refused) as refused:
            Client(gateway, hello=False, path=path, subprotocols=offers)
        assert refused.value.status == 400


def test_frames_out_of_order_end_the_connection_and_a_stranger_is_small(gateway, client):
    with Worker(gateway) as worker:
        task = client.chat("x", agent="shout")
        run_id = worker.next("run")["run"]
        worker.says(run_id, 2, "b")
        assert worker.next("error")["message"] == 'a line\'s "n" is not the last one plus 1'
        assert worker.closing().code == 1008
    with Worker(gateway, worker.instance, received={run_id: 1}) as worker:
        worker.ack(run_id, 9)
        assert worker.next("error")["message"] == "an ack of a line that was not sent"
        assert worker.closing().code == 1008
    with Worker(gateway, worker.instance, received={run_id: 1}) as worker:
        worker.line(run_id, 1, end="done")
        client.wait_terminal(task)
        worker.send_text("PLANTED{")
        assert worker.closing().code == 1008
    for first in ('{"type":"ack","run":"r","n":1}', "no JSON"):
        with Client(gateway, hello=False, path="/v1/worker", subprotocols=()) as stranger:
            stranger.send_text(first)
            assert stranger.closing().code == 1008
    with Client(gateway, hello=False, path="/v1/worker", subprotocols=()) as stranger:
        stranger.send_text(json.dumps({"type": "hello", "worker": "x" * 33000}))
        assert stranger.closing().code == 1009


def test_flood_is_not_read_faster_than_the_disk_takes(gateway, client):
    """40 MB of lines: the gateway holds a few of them, and the worker's socket the rest."""
    with Worker(gateway) as worker:
        task = client.chat("x", agent="shout")
        run_id = worker.next("run")["run"]
        text = "x" * 20000
        worker.sock.settimeout(WAIT_S * 4)
        for n in range(1, 2001):
            worker.line(run_id, n, event="custom", data={"event_type": "e", "payload": text})
        worker.line(run_id, 2001, end="done")
        client.wait_terminal(task, seconds=WAIT_S * 4)
        assert client.call("task", **ids(task))["task"]["head"] == 2004


def test_check_config_says_what_is_wrong_with_secrets(tmp_path):
    settings, file = config(tmp_path), tmp_path / "config.json"
    secret = tmp_path / "worker.secret"

    def check():
        file.write_text(json.dumps(settings))
        done = run("check-config", str(file))
        return done.returncode, done.stderr

    assert check()[0] == 0
    secret.chmod(0o604)
    assert check() == (2, "holdfast: the configuration has 2 faults\n"
                          f"workers[0].secret_file: {secret}: others may read it: chmod o= it\n"
                          f"workers[1].secret_file: {secret}: others may read it: chmod o= it\n")
    secret.chmod(0o640)
    assert check()[0] == 0
    secret.write_text("\n")
    assert f"workers[0].secret_file: {secret}: the first line is empty\n" in check()[1]
    secret.write_text("short")
    assert f"workers[0].secret_file: {secret}: the first line is shorter than 16 bytes\n" in check()[1]
    secret.unlink()
    code, faults = check()
    assert (code, faults.splitlines()[1]) == (2, f"workers[0].secret_file: {secret}: No such file or directory")
    with pytest.raises(Exception):
        Gateway(settings).start()
