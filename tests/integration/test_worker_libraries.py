"""The workers' libraries: all that a program can do, cuts at any byte, kill -9 of either side."""

import os
import random
import signal

import pytest

from gateway import WAIT_S, Gateway, free_port, wait_until
from holdfast import LIVE, Client, Closed, ids, new_id
from relay import Relay
from short import long, rest
from test_workers import stands
from workers import Fleet, Library, Worker, config

CUTS = int(os.environ.get("HOLDFAST_CUTS", "50"))
KILLS = max(3, CUTS // 40)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    with Gateway(config(tmp_path_factory.mktemp("workers"))) as running:
        yield running


@pytest.fixture(params=["python", "node"])
def language(request):
    return request.param


def test_library_does_all_that_a_program_can(gateway, client, tmp_path, language):
    with Library(language, gateway, tmp_path) as library:
        ask = client.chat("ask", agent="again", conversation=new_id())
        question = client.event(ask, "input_required")["data"]
        client.call("respond", **ids(ask), input_id=question["input_id"], answer="this")
        assert client.wait_terminal(ask)["data"]["output"] == "this"
        read = client.chat("read", agent="again", conversation=new_id())
        client.event(read, "task.started")
        client.call("send", **ids(read), content="a message")
        assert client.wait_terminal(read)["data"]["output"] == "a message"
        fall = client.chat("fall", agent="again", conversation=new_id())
        assert client.wait_terminal(fall)["data"]["error"]["message"] == "agent_error: ValueError: over"
        hang = client.chat("hang", agent="again", conversation=new_id())
        wait_until(lambda: stands(gateway)["gpu"]["runs"] == 1, "it is there")
        client.call("cancel", **ids(hang))
        end = client.wait_terminal(hang)["data"]
        assert (end["status"], end["output"]) == ("cancelled", "bye")
        library.process.send_signal(signal.SIGTERM)
        assert library.process.wait(WAIT_S) == 0, library.process.stderr.read()
        assert library.process.stderr.read() == b""


def test_library_loses_and_doubles_nothing_through_cuts(gateway, client, tmp_path, language):
    """Each connection ends at some byte, within a line or a frame of either direction."""
    rng = random.Random(seed := int(os.environ.get("HOLDFAST_SEED", "0")) or random.randrange(1 << 32))
    print(f"HOLDFAST_SEED={seed}")
    with Relay(gateway) as relay:
        relay.cut_after_bytes([rng.randrange(1300, 6000) for _ in range(CUTS)])
        with Library(language, relay, tmp_path):
            while relay.accepted <= CUTS:  # until the one behind the last cut
                counts = [rng.randrange(500, 1000) for _ in range(3)]
                tasks = [client.chat(str(count), agent="shout", conversation=new_id()) for count in counts]
                for task, count in zip(tasks, counts):
                    end = client.wait_terminal(task)["data"]
                    assert (end.get("error"), end["output"]) == (None, "".join(f"{k} " for k in range(count)))
                    sums = [event["data"]["payload"] for event in client.events_since(task) if event["event"] == "custom"]
                    assert sums == [str(k) for k in range(10, count + 1, 10)]
        assert relay.n_spent >= CUTS - 1  # the last one may be whole when the tasks are over


def test_kill_of_a_worker(tmp_path):
    """Nothing that was seen is undone, and each task ends once."""
    settings = {**config(tmp_path), "worker_grace_s": 1}
    with Gateway(settings) as gateway, Client(gateway) as client, Fleet("python", gateway, tmp_path) as fleet:
        for _ in range(3):
            worker = fleet.start()
            wait_until(lambda: stands(gateway)["gpu"]["instances"], "it has come")
            task = client.chat("1000000", agent="shout", conversation=new_id())
            client.event(task, "custom")
            worker.kill()
            end = client.wait_terminal(task)["data"]
            assert end["error"]["code"] == "orphaned"
            said = "".join(event["data"]["text"] for event in client.events_since(task) if event["event"] == "token")
            assert said == "".join(f"{n} " for n in range(said.count(" ")))  # dense up to its end


@pytest.mark.parametrize("planned", rest(False, True), ids=["kill -9", "SIGTERM"])
def test_run_goes_on_over_a_restart_of_the_gateway(tmp_path, language, planned):
    """No line of a worker is lost or counted twice, whatever moment the gateway is killed at."""
    count, kills = 20000, 0
    with Gateway(config(tmp_path), listen=f"127.0.0.1:{free_port()}") as gateway, \
            Fleet(language, gateway, tmp_path) as fleet:
        fleet.start()
        with Client(gateway) as client:
            token = client.token
            task = client.chat(str(count), agent="shout", conversation=new_id())
        while kills < KILLS:
            with Client(gateway, token=token) as client:
                now = client.task(task)
                if now["status"] not in LIVE:
                    break
                client.call("resume", **ids(task), after=now["head"])
                client.expect_type("event")
                gateway.stop() if planned else gateway.kill()
                kills += 1
            gateway.start()
        with Client(gateway, token=token) as client:
            client.call("resume", **ids(task), after=0)
            end = client.wait_terminal(task)
            assert (end["event"], end["data"].get("error")) == ("task.completed", None)
            assert end["data"]["output"] == "".join(f"{n} " for n in range(count))
            events = client.events_since(task)
            assert [event["data"]["payload"] for event in events if event["event"] == "custom"] == \
                [str(n) for n in range(10, count + 1, 10)]
            resumed = [event for event in events if event["event"] == "task.resumed"]
            assert kills > 1 and resumed and all("retracts" not in event["data"] for event in resumed)


def test_messages_calls_and_questions_over_a_kill(tmp_path):
    with Gateway(config(tmp_path), listen=f"127.0.0.1:{free_port()}") as gateway:
        with Client(gateway) as client:
            token = client.token
            worker = Worker(gateway)
            task = client.chat("x", agent="shout")
            run_id = worker.next("run")["run"]
            worker.ack(run_id, 1)
            client.call("send", **ids(task), content="one")
            first = worker.next("message")
            worker.ack(run_id, first["n"])
            client.event(task, "message")
            worker.line(run_id, 1, event="input_required", data={"input_id": "q", "kind": "question", "prompt": "?"})
            client.event(task, "input_required")
            client.call("send", **ids(task), content="two")
            second = worker.next("message")  # received, and its ack dies with the gateway
            assert second["n"] > first["n"]
            gateway.kill()
        gateway.start()
        with Client(gateway, token=token) as client:
            with pytest.raises(Closed):
                worker.says(run_id, 9, "to nobody"), worker.next("gone")
            client.call("resume", **ids(task), after=0)
            client.call("send", **ids(task), content="three")
            worker = Worker(gateway, worker.instance, received={run_id: second["n"]})
            assert worker.next("welcome")["open"] == {run_id: 1}
            third = worker.next("message")
            assert third["content"] == "three" and third["n"] > second["n"]
            client.call("respond", **ids(task), input_id="q", answer="yes")
            assert worker.next("input")["answer"] == "yes"
            worker.ack(run_id, third["n"])
            worker.line(run_id, 2, call="tool", call_id="c", name="calculator", arguments={"expression": "6*7"})
            assert worker.next("tool_result")["output"] == "42"
            worker.line(run_id, 3, end="done")
            worker.next("gone")
            client.wait_terminal(task)
            said = [event["data"]["content"] for event in client.replay(task, 0) if event["event"] == "message"]
            assert said == ["one", "two", "three"]


@long
def test_who_comes_back_after_a_restart(tmp_path):
    """A run that waited is handed out; of those that were given, each is its own worker's alone."""
    settings = {**config(tmp_path), "worker_grace_s": 5}
    with Gateway(settings, listen=f"127.0.0.1:{free_port()}") as gateway:
        with Client(gateway) as client:
            token = client.token
            waiting = client.chat("waiting", agent="again", conversation=new_id())
            client.event(waiting, "task.started")
            worker = Worker(gateway)
            tasks = [client.chat(name, agent="shout", conversation=new_id()) for name in ("mine", "forgotten")]
            runs = {line["input"]: line["run"] for line in (worker.next("run"), worker.next("run"))}
            for run_id in runs.values():
                worker.says(run_id, 1, "a")
                worker.acked(run_id, 1)
            gateway.kill()
        gateway.start()
        opened = {run_id: 1 for run_id in runs.values()}
        with Client(gateway, token=token) as client:
            for task in (*tasks, waiting):
                client.call("resume", **ids(task), after=0)
            with Worker(gateway, "another", received=opened) as thief:
                assert thief.next("welcome")["open"] == {}
            with Worker(gateway, worker.instance, worker="cpu", agents=["again"], received=opened) as thief:
                assert thief.next("welcome")["open"] == {}
                line = thief.next("run")
                assert line["input"] == "waiting"
                thief.line(line["run"], 1, end="done")
                client.wait_terminal(waiting)
            with Worker(gateway, worker.instance, received={runs["mine"]: 1}) as back:
                assert back.next("welcome")["open"] == {runs["mine"]: 1}
                assert client.wait_terminal(tasks[1])["data"]["error"]["code"] == "orphaned"
                back.line(runs["mine"], 2, end="done")
                assert client.wait_terminal(tasks[0])["data"]["output"] == "a"
        with Client(gateway, token=token) as client:
            gone = client.chat("gone", agent="shout", conversation=new_id())
            with Worker(gateway) as worker:
                worker.next("run")
            gateway.kill()
        gateway.start()
        with Client(gateway, token=token) as client:
            client.call("resume", **ids(gone), after=0)
            assert client.wait_terminal(gone)["data"]["error"]["message"] == \
                "orphaned: its worker did not come back after a restart of the gateway"
