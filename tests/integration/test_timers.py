"""The gateway's behaviour when a client is silent, frozen or late (PROTOCOL.md 1, 2, 6).

These times are fixed by the protocol, so all connections wait together: one fixture of a minute.
"""

import contextlib
import datetime
import json
import re
import socket
import threading
import time

import pytest

import tokens
from gateway import LATE_S, SCALE, Gateway, wait_until
from holdfast import Client, ids
from wire import CLOSE, PING, PONG, TEXT, Wire, frame

HELLO = '{"type":"hello","id":"h"%s}'
SLACK = 7 * SCALE  # by how much it may be late: what is due after 50 s is seen within TOTAL_S
TOTAL_S = 58


class Watcher(threading.Thread):
    """Reads one connection to its end, or to the end of the test, and notes what came when."""

    def __init__(self, wire, answer_pings=False):
        super().__init__(daemon=True)
        self.wire, self.answer_pings = wire, answer_pings
        self.begun = time.monotonic()
        self.seen = []  # (seconds, opcode, payload)
        self.ended = None
        self.start()

    def run(self):
        self.wire.sock.settimeout(TOTAL_S)
        while True:
            try:
                found = self.wire.recv()
            except OSError:
                found = None
            now = time.monotonic() - self.begun
            if found is None:
                self.ended = now
                return
            self.seen.append((now, *found))
            if found[0] == PING and self.answer_pings:
                self.wire.send(frame(PONG, found[1]))

    def first(self, opcode, part=b""):
        return next((entry for entry in self.seen if entry[1] == opcode and part in entry[2]), None)

    def close_code(self):
        entry = self.first(CLOSE)
        return int.from_bytes(entry[2][:2], "big") if entry else None

    def ended_at(self):
        """When it was closed, by a close frame or by a cut."""
        entry = self.first(CLOSE)
        return entry[0] if entry else self.ended


def connections(gateway):
    text = gateway.http("GET", "/metrics")[2].decode()
    return int(float(re.search(r"^holdfast_connections (\S+)", text, re.MULTILINE)[1]))


def frozen_events(gateway, token, task):
    """A stream over HTTP whose reader reads nothing."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect((gateway.host, gateway.port))
    sock.sendall(f"GET /v1/conversations/{task['conversation_id']}/tasks/{task['task_id']}/events "
                 f"HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
    return sock


def opened_as(gateway, open_it):
    """The connection that open_it opens, with the number that the log gives its connection."""
    def numbers():
        return [int(n) for line in gateway.log for n in re.findall(r"event=opened conn=(\d+)", line)]

    before = max(numbers(), default=0)
    made = open_it()
    wait_until(lambda: max(numbers(), default=0) > before, "its line in the log")
    return made, max(numbers())


def moment(line):
    """When a line of the log was written, in seconds."""
    return datetime.datetime.fromisoformat(re.match(r"ts=(\S+)Z", line)[1]).timestamp()


def codes_of(log, number):
    """The codes with which that connection was closed: one, or none yet."""
    return [int(code) for line in log for code in re.findall(rf"event=closed conn={number} code=(\d+)", line)]


class Sipper(threading.Thread):
    """Takes 1 KiB a second, and says nothing."""

    def __init__(self, wire):
        super().__init__(daemon=True)
        self.wire, self.n, self.ended = wire, 0, False
        self.over = threading.Event()
        self.begun = time.monotonic()
        self.start()

    def run(self):
        while not self.over.wait(1):
            try:
                got = self.wire.sock.recv(max(1, int((time.monotonic() - self.begun) * 1024) - self.n))
            except OSError:
                got = b""
            if not got:
                self.ended = True
                return
            self.n += len(got)


class Dribble(threading.Thread):
    """A slow loris: says a little each second, so that it is never silent, and never comes to an end."""

    def __init__(self, gateway, begin):
        super().__init__(daemon=True)
        self.sock = socket.create_connection((gateway.host, gateway.port))
        self.sock.sendall(begin.encode())
        self.ended = None
        self.start()

    def run(self):
        begun = time.monotonic()
        self.sock.settimeout(1)
        while time.monotonic() - begun < TOTAL_S:
            try:
                if self.sock.recv(65536) == b"":
                    break
            except TimeoutError:
                pass
            except OSError:
                break
            try:
                self.sock.sendall(b"a")
            except OSError:
                break
        else:
            return
        self.ended = time.monotonic() - begun
        self.sock.close()


class Upload(threading.Thread):
    """A POST from a phone: pieces of its body, with tunnels between them.  Notes the answer, and when it came."""

    def __init__(self, gateway, pieces, pause_s, length=None):
        """length: that the head says, when it is not that of the pieces."""
        super().__init__(daemon=True)
        self.sock = socket.create_connection((gateway.host, gateway.port))
        self.pieces, self.pause_s, self.length = pieces, pause_s, length
        self.answer = b""
        self.ended = None
        self.start()

    def run(self):
        begun = time.monotonic()
        length = self.length or len(b"".join(self.pieces))
        self.sock.sendall(b"POST /v1/guest HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                          b"Connection: close\r\nContent-Length: %d\r\n\r\n" % length)
        with contextlib.suppress(OSError):
            for piece in self.pieces:
                time.sleep(self.pause_s)
                self.sock.sendall(piece)
            self.sock.settimeout(TOTAL_S)
            while got := self.sock.recv(65536):
                self.answer += got
        self.ended = time.monotonic() - begun
        self.sock.close()


DRIBBLES = {
    "line": "G", "head": "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ",
    "upgrade": "GET /v1/ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nX: ",
    "body": "POST /v1/guest HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n",
    "refused body": "POST /v1/x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 900000\r\n\r\n",
}


@pytest.fixture(scope="module")
def waited(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    with Gateway({"auth": tokens.config(folder), "guests": True}) as gateway, Gateway() as quiet:
        with Client(gateway) as client:
            task = client.chat({"flood": 12000, "per_s": 200})  # for a minute
            large, _ = client.finish({"flood": 20000, "bytes": 500})
            owner = client.token

            def opened(hello="", rcvbuf=None, **options):
                wire = Wire(gateway, rcvbuf=rcvbuf)
                watcher = Watcher(wire, **options)
                if hello is not None:
                    wire.text(HELLO % hello)
                return watcher

            found = {
                "no_hello": opened(None),
                "nobody_else": Watcher(Wire(quiet)),
                "no_upgrade": Watcher(Wire(gateway, upgrade=False)),
                "silent": opened(),
                "answering": opened(answer_pings=True),
                "pinging": opened(),
                "keepalive": opened(',"keepalive":"data"', answer_pings=True),
                "expiring": opened(',"token":"%s"' % tokens.token("alice", seconds=2), answer_pings=True),
                "silent_but_fed": opened(',"token":"%s"' % owner),
            }
            found["dribbles"] = {kind: Dribble(gateway, begin) for kind, begin in DRIBBLES.items()}
            found["pauses"] = Upload(gateway, [b"{", b'"x":', b"1}"], 8)
            found["stops"] = Upload(gateway, [b'{"x":'], 1, length=8)
            found["silent_but_fed"].wire.text(json.dumps({"type": "resume", **ids(task)}))
            frozen, found["frozen_number"] = opened_as(gateway, lambda: Wire(gateway, rcvbuf=4096))
            watching, found["watching_number"] = opened_as(gateway, lambda: Wire(gateway, rcvbuf=4096))
            watching.text(HELLO % (',"token":"%s"' % owner))
            watching.text('{"type":"watch"}')
            watching.text(json.dumps({"type": "resume", **ids(large)}))
            slow, found["slow_number"] = opened_as(gateway, lambda: Wire(gateway, rcvbuf=8 * 1024))
            slow.text(HELLO % (',"token":"%s"' % owner))
            slow.text(json.dumps({"type": "resume", **ids(large)}))
            found["slow"] = Sipper(slow)
            frozen.text(HELLO % (',"token":"%s"' % owner))
            frozen.text(json.dumps({"type": "resume", **ids(large)}))
            found["frozen_since"] = time.monotonic()
            found["frozen"] = frozen
            found["frozen_events"] = frozen_events(gateway, owner, large)
            over = threading.Event()

            def prod():  # a client that never reads, yet is not silent
                while not over.wait(5):
                    found["pinging"].wire.send(frame(PING, b""))
                    frozen.send(frame(PONG, b""))
                    watching.send(frame(PONG, b""))

            prodder = threading.Thread(target=prod, daemon=True)
            prodder.start()
            black_hole, found["black_hole_number"] = opened_as(  # neither says nor takes a word
                gateway, lambda: Client(gateway, token=owner, answer_pings=False))
            black_hole.post("resume", **ids(task))
            before = gateway.n_fds(), connections(gateway)
            time.sleep(5)
            with Client(gateway, token=owner) as back:  # the same owner from a new connection, at once
                begun = time.monotonic()
                back.replay(task, 1)
                found["back"] = (time.monotonic() - begun, back.task(task)["status"])
            time.sleep(TOTAL_S - 5)
            over.set()
            with contextlib.suppress(AssertionError):  # a busy machine may be late with the last of them
                wait_until(lambda: connections(gateway) <= before[1] - 7, "the end of the dead", LATE_S)
            found["fds"] = before, (gateway.n_fds(), connections(gateway))
            found["black_hole"] = black_hole
            with Client(gateway, token=owner) as back:
                found["status"] = back.task(task)["status"]
            found["gateway"] = gateway
            found["log"] = list(gateway.log)
            found["slow"].over.set()
            found["slow"].join()
            yield found
            slow.close()
            watching.close()
            found["frozen_events"].close()
            for wire in [frozen] + [w.wire for w in found.values() if isinstance(w, Watcher)]:
                wire.close()


def test_hello_is_due_within_10_s(waited):
    watcher = waited["no_hello"]
    assert watcher.first(TEXT, b'"unauthorized"')
    assert watcher.close_code() == 4401
    assert 9 < watcher.ended_at() < 10 + SLACK


def test_close_that_is_not_answered_ends_where_nothing_else_happens(waited):
    """5 s after the gateway's close frame, which came after 10 s: no other socket wakes it."""
    watcher = waited["nobody_else"]
    assert watcher.close_code() == 4401
    assert watcher.ended is not None and 14 < watcher.ended < 15 + SLACK, watcher.ended


@pytest.mark.parametrize("kind", DRIBBLES)
def test_slow_loris_is_left(waited, kind):
    """A head is due within 10 s, a body within 30 s, however lively its sender is."""
    dribble = waited["dribbles"][kind]
    dribble.join(LATE_S)
    assert dribble.ended is not None and dribble.ended < (30 if "body" in kind else 10) + 1 + SLACK, dribble.ended


def test_body_that_pauses_is_waited_for(waited):
    upload = waited["pauses"]
    upload.join(LATE_S)
    assert upload.answer.startswith(b"HTTP/1.1 200 ") and upload.ended >= 24, (upload.answer, upload.ended)


def test_body_that_does_not_go_on_is_left_at_30_s(waited):
    upload = waited["stops"]
    upload.join(LATE_S)
    assert upload.answer == b"" and 29 < upload.ended < 30 + 1 + SLACK, (upload.answer, upload.ended)


def test_connection_without_any_request_is_ended(waited):
    assert waited["no_upgrade"].ended is not None and waited["no_upgrade"].ended < 50


def test_silent_client_is_pinged_at_20_s_and_closed_at_50_s(waited):
    watcher = waited["silent"]
    assert 19 < watcher.first(PING)[0] < 20 + SLACK
    assert watcher.close_code() in (4408, None)
    assert 49 < watcher.ended_at() < 50 + SLACK


def test_client_that_answers_pings_is_kept(waited):
    watcher = waited["answering"]
    seen = [entry for entry in watcher.seen if entry[0] < TOTAL_S]  # it reads on while the others are looked at
    # without a payload: for that of a pong libwebsockets would touch the connection's receive buffer
    assert [entry[2] for entry in seen if entry[1] == PING] == [b"", b""]
    assert watcher.ended is None and watcher.close_code() is None
    # F45: no proxy that cuts after 30 s without a byte has a reason to
    times = [0] + [entry[0] for entry in seen] + [TOTAL_S]
    assert max(later - earlier for earlier, later in zip(times, times[1:])) < 20 + 2 * SLACK


def test_client_that_says_pings_alone_is_kept(waited):
    """Any byte is life; this one answers none of the gateway's pings."""
    assert waited["pinging"].ended is None and waited["pinging"].close_code() is None


def test_what_is_being_sent_to_it_does_not_count_as_life(waited):
    watcher = waited["silent_but_fed"]
    assert watcher.first(TEXT, b'"event"')
    assert 19 < watcher.first(PING)[0] < 20 + SLACK
    assert 49 < watcher.ended_at() < 50 + SLACK


def test_keepalive_data_is_an_empty_line_every_20_s(waited):  # F45
    watcher = waited["keepalive"]
    empty = [entry for entry in watcher.seen if entry[1] == TEXT and not entry[2].strip(b"\n") and entry[0] < TOTAL_S]
    assert len(empty) == 2
    assert 19 < empty[0][0] < 20 + SLACK
    assert watcher.ended is None


def test_token_is_announced_to_expire_and_then_closes(waited):
    watcher = waited["expiring"]
    announced = watcher.first(TEXT, b"token_expiring")
    assert announced and announced[0] < SLACK  # less than 60 s were left
    told = json.loads(next(line for line in announced[2].split(b"\n") if b"token_expiring" in line))
    assert told["expires_at"]
    assert watcher.close_code() == 4401
    assert watcher.ended_at() < 2 + 30 + SLACK  # the leeway is 30 s


def test_frozen_reader_is_closed_after_40_s(waited):  # F41
    """It follows events alone: 40 s.  Its close code cannot reach it before it reads; the log has the reason."""
    wire = waited["frozen"]
    assert codes_of(waited["log"], waited["frozen_number"]) == [4413]
    wire.sock.settimeout(5)
    code = wire.close_code(20)
    assert code in (4413, None)


def test_frozen_reader_of_pushes_is_closed_after_30_s(waited):  # F41
    """Sooner than one that holds a cursor alone: what it is pushed is kept for it."""
    assert codes_of(waited["log"], waited["watching_number"]) == [4413]
    closed = {number: moment(line) for line in waited["log"] for number in (waited["frozen_number"], waited["watching_number"])
              if f"event=closed conn={number} " in line}
    assert closed[waited["frozen_number"]] - closed[waited["watching_number"]] > 5


def test_slow_reader_of_events_is_kept(waited):  # F41
    """1 KiB/s: what it takes is seen, and counts as life.  (A kernel opens a window that was shut when a sixteenth of its
    buffer is free, and frees packets as a whole, on loopback 64 KiB; a small buffer takes none that large.)"""
    assert not waited["slow"].ended and waited["slow"].n > TOTAL_S // 2 * 1024
    assert codes_of(waited["log"], waited["slow_number"]) == [], \
        [line for line in waited["log"] if "conn=%d " % waited["slow_number"] in line + " "]


def test_descriptors_of_the_dead_are_freed(waited):  # F44
    (before, connected), (after, left) = waited["fds"]
    assert after <= before - 4  # no_hello, no_upgrade, silent, silent_but_fed, expiring, frozen
    assert left <= connected - 7  # the black hole and the first client too


def test_black_hole_is_left_and_its_owner_goes_on_elsewhere(waited):  # F44
    took, status = waited["back"]
    assert took < LATE_S and status == "running"
    assert waited["status"] in ("running", "completed")  # nothing of it touched the task
    wait_until(lambda: codes_of(waited["gateway"].log, waited["black_hole_number"]), "its end", LATE_S)
    assert codes_of(waited["gateway"].log, waited["black_hole_number"])[0] in (4408, 4413)
    assert waited["black_hole"].closing().code in (4408, 4413, None)


def test_frozen_reader_of_events_over_http_is_cut(waited):
    sock = waited["frozen_events"]
    sock.settimeout(10 * SCALE)
    got = b""
    try:
        while piece := sock.recv(1 << 20):
            got += piece
    except ConnectionResetError:
        pass
    assert b"text/event-stream" in got and len(got) < 9_000_000  # not all of it
    assert not got.endswith(b"0\r\n\r\n")  # a cut, and no clean end
