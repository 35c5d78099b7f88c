"""A deletion comes between two reads of the store (PROTOCOL.md 9, "Requests"): every answer of the store is held
back, by a gate, while the conversation goes.  Readers of sockets and of streams over HTTP; followers; doctor."""

import json
import pathlib
import re
import subprocess

import pytest

from gateway import BINARY, WAIT_S, Gateway, script_agent, wait_until, wrongs
from holdfast import Client, ids, new_id
from test_gateway_faults import passings
from wire import TEXT, Wire

CONFIG = {"agents": [script_agent(default=True)], "store": {"replay_cache_mib": 1}}
SEQ = re.compile(r'"type":"event","task_id":"[^"]+","seq":(\d+)')


class Gate:
    """While it is shut no answer of the store comes through."""

    def __init__(self, path):
        self.path = pathlib.Path(path)

    def shut(self):
        self.path.touch()

    def open(self):
        self.path.unlink()


@pytest.fixture
def gated():
    """A gateway with a gate, which was started anew since its large task has ended: nothing of that is in memory."""
    with Gateway(CONFIG) as gateway:
        with Client(gateway) as client:
            gateway.token = client.token
            gateway.task, _ = client.finish({"flood": 2000, "bytes": 1000}, conversation=new_id())
        gateway.stop()
        gateway.gate = Gate(gateway.path())
        gateway.environ = {"HOLDFAST_FAULT": "answer:1+", "HOLDFAST_FAULT_GATE": str(gateway.gate.path)}
        gateway.start()
        yield gateway
        assert not [line for line in gateway.log if "event=damaged" in line]
        assert gateway.stop() == 0
        assert passings(gateway)["answer"] > 0
        done = subprocess.run([BINARY, "doctor", "--full", "--data", str(gateway.data)], capture_output=True, text=True,
                              check=False, timeout=WAIT_S)
        assert not wrongs(done.stdout), done.stdout + done.stderr


TRIES = 10


def renew(gateway):
    """Another large task, as the fixture made the first: the store has queries of its own, such as retention's, and one of
    them came to the gate in place of the reader's record, which was then asked for too late."""
    with Client(gateway, token=gateway.token) as client:
        gateway.task, _ = client.finish({"flood": 2000, "bytes": 1000}, conversation=new_id())
    assert gateway.stop() == 0
    gateway.start()


def delete(gateway):
    """Goes on beside all answers that are held: it asks the store for nothing."""
    with Client(gateway, token=gateway.token) as other:
        other.call("delete", conversation_id=gateway.task["conversation_id"])


def damages(gateway):
    body = gateway.http("GET", "/metrics")[2].decode()
    return int(re.search(r"^holdfast_store_damages_total (\d+)$", body, re.M)[1])


def read_to_the_error(wire, first=""):
    """Its lines up to an error without id; events must be dense, and none is caught up."""
    text, seen = first, []
    while True:
        for line in text.split("\n"):
            if found := SEQ.search(line):
                seen.append(int(found[1]))
            elif line:
                told = json.loads(line)
                assert told["type"] in ("welcome", "resumed", "error"), told
                if told["type"] == "error":
                    assert seen == list(range(1, len(seen) + 1))
                    return told, len(seen)
        text = wire.until(TEXT).decode()


def asked(gateway, **options):
    wire = Wire(gateway, **options)
    wire.text(json.dumps({"type": "hello", "token": gateway.token}))
    wire.until_text('"welcome"')
    wire.text(json.dumps({"type": "resume", "id": "r", **ids(gateway.task)}))
    return wire


def answers(gateway):
    """How many the gate has held."""
    return len([line for line in gateway.log if "event=held point=answer" in line])


def deleted_beside_a_socket(gated, place):
    """(What the reader is told, how much it had seen)."""
    before = answers(gated)
    if place == "record":
        gated.gate.shut()
    wire = asked(gated, rcvbuf=4096)
    first = ""
    if place == "blocks":  # some were sent, and what its cursor needs next is not in the cache
        first = wire.until(TEXT).decode()
        while not SEQ.search(first):
            first += "\n" + wire.until(TEXT).decode()
        gated.gate.shut()
    else:
        wait_until(lambda: answers(gated) > before, "its record to be held")
    delete(gated)
    gated.gate.open()
    told = read_to_the_error(wire, first)
    wire.close()
    return told


@pytest.mark.parametrize("place", ["record", "blocks"])
def test_torture_delete_between_two_reads_is_not_found(gated, place):
    for _ in range(TRIES):
        told, seen = deleted_beside_a_socket(gated, place)
        if "id" not in told:
            break
        assert told["code"] == "not_found" and seen == 0  # its record was asked for when all was gone
        renew(gated)
    assert (told["code"], "id" in told) == ("not_found", False) and gated.task["task_id"] in told["message"]
    assert seen == 0 if place == "record" else 0 < seen < gated.task["head"]
    assert damages(gated) == 0
    with Client(gated, token=gated.token) as client:
        client.refused("not_found", "resume", **ids(gated.task))


def deleted_beside_a_stream(gated, path):
    """All that the reader gets."""
    gated.gate.shut()
    before = answers(gated)
    with Wire(gated, upgrade=False) as wire:
        wire.sock.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
                          f"Authorization: Bearer {gated.token}\r\n\r\n".encode())
        wait_until(lambda: answers(gated) > before, "its record to be held")
        delete(gated)
        gated.gate.open()
        got = b""
        try:
            while piece := wire.sock.recv(1 << 16):
                got += piece
        except ConnectionResetError:
            pass
    return got


def test_torture_delete_between_two_reads_cuts_a_stream_over_http(gated):
    for _ in range(TRIES):
        path = f"/v1/conversations/{gated.task['conversation_id']}/tasks/{gated.task['task_id']}/events"
        got = deleted_beside_a_stream(gated, path)
        if not got.startswith(b"HTTP/1.1 404 "):
            break
        renew(gated)
    assert b" 200 " in got.split(b"\r\n", 1)[0] and b"text/event-stream" in got
    assert not got.endswith(b"0\r\n\r\n") and b"task.completed" not in got  # a cut, and no clean end
    assert damages(gated) == 0
    assert gated.http("GET", path, headers={"Authorization": f"Bearer {gated.token}"})[0] == 404


def test_torture_doctor_beside_removals_finds_nothing_wrong(gated):
    """It reads a state of one moment: what is removed meanwhile is all there, or all gone."""
    with Client(gated, token=gated.token) as client:
        tasks = [client.finish({"flood": 500, "bytes": 300}, conversation=f"c{i}")[0] for i in range(30)]
        doctors = [subprocess.Popen([BINARY, "doctor", "--full", "--data", str(gated.data)], stdout=subprocess.PIPE,
                                    text=True) for _ in range(3)]
        for task in tasks:
            client.call("delete", conversation_id=task["conversation_id"])
        for doctor in doctors:
            out, _ = doctor.communicate(timeout=WAIT_S)
            assert out and not wrongs(out), out
