"""SIGTERM: what is told, what still works, and how it ends (DESIGN 8; PROTOCOL.md 6)."""

import json
import signal
import time

from gateway import LATE_S, SCALE, Gateway, processes_with, wait_until
from holdfast import TERMINAL, Client, ids, names, new_id
from wire import Wire


def term(gateway):
    gateway.process.send_signal(signal.SIGTERM)


def test_idle_gateway_stops_at_once():
    with Gateway({"drain_s": 60}) as gateway:
        with Client(gateway) as client:
            begun = time.monotonic()
            term(gateway)
            goaway = client.expect_type("goaway")
            assert goaway["retry_after_ms"] > 0
            assert client.closing().code == 1001
            assert gateway.wait() == 0
            assert time.monotonic() - begun < 2 + LATE_S
        gateway.start()


def test_while_draining_all_but_chat_works():
    with Gateway({"drain_s": 20}) as gateway, Client(gateway) as client:
        gates = [gateway.path() for _ in range(2)]
        ended, _ = client.finish("x", conversation="c")
        running = [client.chat({"token": "a"}, {"wait": gate}, {"token": "b"}, conversation="c")
                   for gate in gates]
        for task in running:
            client.event(task, "token")
        term(gateway)
        client.expect_type("goaway")
        error = client.refused("overloaded", "chat", message="x", request_key="k")
        assert error["retry_after_ms"] > 0
        assert client.task(ended)["status"] == "completed"
        assert len(client.call("tasks", conversation_id="c")["tasks"]) == 3
        client.replay(ended)
        client.call("title", conversation_id="c", title="still")
        status, _, _ = gateway.http("GET", "/readyz")
        assert status == 503
        assert gateway.http("GET", "/healthz")[0] == 200
        assert client.call("cancel", **ids(running[0]))["cancelled"] == 1
        assert client.wait_terminal(running[0])["data"]["status"] == "cancelled"
        open(gates[1], "w", encoding="utf-8").close()
        assert client.wait_terminal(running[1])["data"]["output"] == "ab"
        assert client.closing().code == 1001  # the last task has ended
        assert gateway.wait() == 0
        gateway.start()


def test_after_drain_s_what_runs_is_orphaned_and_told():
    with Gateway({"drain_s": 1}) as gateway, Client(gateway) as client:
        tasks = [client.chat({"ignore_term": 1}, {"token": "a"}, {"hang": 1}) for _ in range(3)]
        for task in tasks:
            client.event(task, "token")
        mark, begun, token = gateway.mark, time.monotonic(), client.token
        term(gateway)
        for task in tasks:
            end = client.wait_terminal(task)
            assert end["data"]["error"]["code"] == "orphaned"
            assert end["data"]["output"] == "a"
        assert client.closing().code == 1001
        assert gateway.wait() == 0
        assert 0.9 < time.monotonic() - begun < 2 + LATE_S
        wait_until(lambda: not processes_with(mark), "the agents' end")
        gateway.start()
        with Client(gateway, token=token) as again:
            for task in tasks:
                events = again.replay(task)
                assert sum(event["event"] in TERMINAL for event in events) == 1
                assert again.raw_events(task) == client.raw_events(task)


def test_queued_task_waits_for_the_next_start():
    """Only what runs is orphaned; a planned stop loses no more than a kill -9 would."""
    with Gateway({"drain_s": 1}) as gateway, Client(gateway) as client:
        conversation = new_id()
        running = client.chat({"token": "a"}, {"hang": 1}, conversation=conversation)
        client.event(running, "token")
        queued = client.chat({"token": "later"}, conversation=conversation, when_busy="enqueue")
        client.call("send", **ids(queued), content="kept")
        term(gateway)
        assert client.wait_terminal(running)["data"]["error"]["code"] == "orphaned"
        assert client.closing().code == 1001
        assert gateway.wait() == 0
        assert names(client.events_since(queued)) == ["task.created"]
        gateway.start()
        with Client(gateway, token=client.token) as again:
            again.resume(queued)
            assert again.wait_terminal(queued)["data"]["output"] == "later"


def test_peers_that_do_not_answer_do_not_hold_it_up():
    """No close handshake is waited for longer than 1 s; frozen readers neither."""
    with Gateway({"drain_s": 1}) as gateway:
        wires = []
        with Client(gateway) as client:
            task, _ = client.finish({"flood": 20000, "bytes": 200})
            token = client.token
        for _ in range(10):
            wire = Wire(gateway, rcvbuf=4096)
            wire.text(json.dumps({"type": "hello", "token": token}) + "\n"
                      + json.dumps({"type": "resume", **ids(task)}))
            wires.append(wire)
        wires += [Wire(gateway) for _ in range(5)]           # without hello
        wires += [Wire(gateway, upgrade=False) for _ in range(5)]  # without anything
        begun = time.monotonic()
        assert gateway.stop() == 0
        assert time.monotonic() - begun < 9 * SCALE  # from 10 s on those without hello would go by themselves
        for wire in wires:
            wire.close()
        gateway.start()


def test_second_sigterm_is_not_needed_and_harmless():
    with Gateway({"drain_s": 1}) as gateway, Client(gateway) as client:
        task = client.chat({"token": "a"}, {"hang": 1})
        client.event(task, "token")
        term(gateway)
        client.expect_type("goaway")
        term(gateway)
        assert gateway.wait() in (0, 1)
        gateway.start()
