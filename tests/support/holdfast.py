"""A client of the wire that checks everything: all tests of the gateway use it.

Client is synchronous, over the framing of python3-websockets.  It keeps every received line, in
order, and checks the permanent promises of PROTOCOL.md on each, in every test:
- a line is compact JSON, an object, its type first;
- a task's events are dense from the cursor of its subscription on (from == last+1 when coalesced);
- one terminal event ends a stream, and nothing comes after it;
- after the ok of unsubscribe or close none of its lines follow.
"""

import itertools
import json
import select
import socket
import time
import uuid

from websockets.client import ClientConnection
from websockets.connection import State
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory
from websockets.frames import Opcode
from websockets.http11 import Response
from websockets.uri import parse_uri

from gateway import Gateway, SCALE, WAIT_S, script_agent, wait_until  # noqa: F401 (for the tests)

SUBPROTOCOL = "holdfast.v1"
TERMINAL = ("task.completed", "task.failed")
LIVE = ("pending", "running")


class Closed(Exception):
    """The connection has ended.  code is None when it was cut without a close frame."""

    def __init__(self, code, reason=""):
        super().__init__(f"closed: {code} {reason}")
        self.code = code
        self.reason = reason


class Refused(Exception):
    """The handshake was answered with a status other than 101."""

    def __init__(self, status, answer):
        super().__init__(f"HTTP {status}")
        self.status = status
        self.answer = answer


def new_id(prefix="c"):
    return f"{prefix}-{uuid.uuid4()}"


def program(*steps):
    """The input for the scripted agent."""
    return json.dumps(list(steps), ensure_ascii=False)


class Client:
    def __init__(self, gateway, *, token=None, hello=True, headers=(), origin=None, host=None,
                 subprotocols=(SUBPROTOCOL,), compression=False, path="/v1/ws", rcvbuf=None,
                 answer_pings=True):
        self.gateway = gateway
        self.log = []        # every line, decoded, in order of arrival
        self.raw = []        # the same as text
        self.messages = 0    # WebSocket messages received
        self.largest = 0     # their bytes
        self.pings = 0
        self.empty_lines = 0
        self.last = {}       # task → seq of its newest event here; None: not followed
        self.ended = set()   # tasks whose terminal event has arrived
        self.away = set()    # tasks that were unsubscribed
        self.shut = set()    # conversations that were closed
        self.follows = set() # conversations opened with follow
        self.asked = {}      # id → the request
        self.ids = map(str, itertools.count(1))
        self.owner = self.token = self.welcome = None
        self.answer_pings = answer_pings
        self._parts = []
        self._connect(headers, origin, host, subprotocols, compression, path, rcvbuf)
        if hello:
            self.hello(token=token)

    # -------------------------------------------------------------- the connection

    def _connect(self, headers, origin, host, subprotocols, compression, path, rcvbuf):
        self.sock = socket.socket()
        if rcvbuf:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        self.sock.settimeout(WAIT_S)
        self.sock.connect((self.gateway.host, self.gateway.port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.ws = ClientConnection(
            parse_uri(f"ws://{self.gateway.host}:{self.gateway.port}{path}"),
            origin=origin, max_size=None, subprotocols=subprotocols or None,
            extensions=None if compression is False else
            [ClientPerMessageDeflateFactory(**({} if compression is True else compression))])
        request = self.ws.connect()
        if host:
            del request.headers["Host"]
            request.headers["Host"] = host
        for name, value in dict(headers).items():
            request.headers[name] = value
        self.ws.send_request(request)
        self._flush()
        self._handshake()

    def _handshake(self):
        """Reads up to the answer's empty line.  A refusal may well be HTTP/1.0."""
        head = b""
        while b"\r\n\r\n" not in head:
            data = self._recv(time.monotonic() + WAIT_S)
            if not data:
                self.sock.close()
                raise Closed(None, "during the handshake")
            head += data
        status = int(head.split(b" ", 2)[1])
        if status != 101:
            self.sock.close()
            raise Refused(status, head.decode("latin-1"))
        self.ws.receive_data(head)
        self.early = [event for event in self.ws.events_received() if not isinstance(event, Response)]
        assert self.ws.state is State.OPEN, getattr(self.ws, "handshake_exc", None)

    def _flush(self):
        data = b"".join(self.ws.data_to_send())
        if data:
            try:
                self.sock.sendall(data)
            except (ConnectionError, BrokenPipeError):
                pass  # earlier output stays readable

    def _recv(self, deadline):
        """The socket's input; b"" at its end, None when nothing came before the deadline."""
        left = deadline - time.monotonic()
        if not select.select([self.sock], [], [], max(0, left))[0]:
            return None
        try:
            return self.sock.recv(1 << 18)
        except ConnectionError:
            return b""

    def _read(self, deadline):
        """Takes what the socket has; False when nothing came before the deadline."""
        data = self._recv(deadline)
        if data is None:
            return False
        if data:
            self.ws.receive_data(data)
        else:
            self.ws.receive_eof()
        if self.answer_pings:
            self._flush()
        return True

    def pump(self, seconds=WAIT_S):
        """Waits for input and takes it; False when nothing arrived in that time."""
        deadline = time.monotonic() + seconds
        while True:
            events, self.early = self.early + self.ws.events_received(), []
            if events:
                for event in events:
                    self._take_frame(event)
                return True
            if self.ws.state is State.CLOSED:
                raise self._closed()
            if not self._read(deadline):
                return False

    def _closed(self):
        frame = self.ws.close_rcvd
        return Closed(frame.code, frame.reason) if frame else Closed(None)

    def _take_frame(self, frame):
        if frame.opcode is Opcode.PING:
            self.pings += 1
        assert frame.opcode is not Opcode.BINARY, "the gateway sends text only"
        if frame.opcode in (Opcode.TEXT, Opcode.CONT):
            self._parts.append(frame.data)
            if frame.fin:
                message, self._parts = b"".join(self._parts), []
                self._take_message(message)

    def _take_message(self, message):
        self.messages += 1
        self.largest = max(self.largest, len(message))
        lines = message.decode("utf-8").split("\n")  # strict: a text message is valid UTF-8
        assert len(message) <= 65536 or sum(map(bool, lines)) == 1, "over 64 KiB, and not alone"
        if not any(lines):
            self.empty_lines += 1
        for line in filter(None, lines):
            self._take_line(line)

    # -------------------------------------------------------------- what must always hold

    def _take_line(self, line):
        value = json.loads(line)
        assert line.startswith('{"type":"'), f"type is not first: {line[:200]}"
        self.log.append(value)
        self.raw.append(line)
        kind = value["type"]
        if kind == "event":
            self._check_event(value)
        elif kind == "task" and "id" not in value:
            assert value["task"]["conversation_id"] not in self.shut, "a push after close"
        elif kind == "message":
            assert value["conversation_id"] not in self.shut, "a push after close"
        elif kind in ("started", "resumed", "following"):
            self._follow_task(value)
        elif kind != "error" and value.get("id") in self.asked:
            self._follow_reply(self.asked[value["id"]], value)

    def _check_event(self, event):
        task, first = event["task_id"], event.get("from", event["seq"])
        assert task not in self.ended, f"after the end: {event}"
        assert task not in self.away, f"after unsubscribe: {event}"
        last = self.last.get(task)
        if last is None:
            assert self.follows, f"an event of a task that is not followed: {event}"
            last = 0
        assert first == last + 1, f"not dense: {first} after {last}: {str(event)[:300]}"
        assert event["seq"] >= first
        self.last[task] = event["seq"]
        if event["event"] in TERMINAL:
            self.ended.add(task)

    def _follow_task(self, reply):
        task = reply["task"]["task_id"]
        self.ended.discard(task)
        self.away.discard(task)
        self.last[task] = reply["first"] - 1 if "first" in reply else reply.get("after", 0)

    def _follow_reply(self, request, reply):
        kind = reply["type"]
        if kind == "conversation":
            self.shut.discard(request["conversation_id"])
            if request.get("follow"):
                self.follows.add(request["conversation_id"])
                for task in reply["tasks"]:
                    if task["status"] in LIVE and self.last.get(task["task_id"]) is None:
                        self.last[task["task_id"]] = task["head"]
        elif kind == "ok" and request["type"] == "unsubscribe":
            self.away.add(request["task_id"])
        elif kind == "ok" and request["type"] == "close":
            self.shut.add(request["conversation_id"])
            self.follows.discard(request["conversation_id"])

    # -------------------------------------------------------------- sending

    def send_text(self, text):
        if self.ws.state is not State.OPEN:
            raise self._closed()
        self.ws.send_text(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
        self._flush()

    def send_binary(self, data):
        self.ws.send_binary(data)
        self._flush()

    def send(self, *objects):
        """One message with these lines."""
        for value in objects:
            if isinstance(value, dict) and isinstance(value.get("id"), str):
                self.asked[value["id"]] = value
        self.send_text("\n".join(json.dumps(value, ensure_ascii=False) for value in objects))

    def post(self, type, **fields):
        """Sends a request, and returns its id."""
        fields.setdefault("id", next(self.ids))
        self.send({"type": type, **fields})
        return fields["id"]

    # -------------------------------------------------------------- receiving

    def scan(self, since=0, seconds=WAIT_S):
        """All lines from that place of the log on, with a time limit for each."""
        position = since
        while True:
            while position < len(self.log):
                yield self.log[position]
                position += 1
            deadline = time.monotonic() + seconds
            while position == len(self.log):  # pings are frames, not lines
                left = deadline - time.monotonic()
                if left <= 0 or not self.pump(left):
                    raise AssertionError(f"nothing more within {seconds} s; last: {self.log[-3:]}")

    def expect(self, matches, since=0, seconds=WAIT_S):
        """The first line, from that place of the log on, that matches."""
        deadline = time.monotonic() + seconds
        for line in self.scan(since, seconds):
            if matches(line):
                return line
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {seconds} s; last: {self.log[-3:]}")

    def expect_type(self, type, since=0, seconds=WAIT_S):
        return self.expect(lambda line: line["type"] == type, since, seconds)

    def reply(self, id, since=0, seconds=WAIT_S):
        return self.expect(lambda line: line.get("id") == id, since, seconds)

    def ask(self, type, **fields):
        """A request and its reply, whatever it is."""
        since = len(self.log)
        return self.reply(self.post(type, **fields), since)

    def call(self, type, **fields):
        """A request that must succeed."""
        reply = self.ask(type, **fields)
        assert reply["type"] != "error", reply
        return reply

    def refused(self, code, type, **fields):
        """A request that must be refused with that code; returns the error."""
        reply = self.ask(type, **fields)
        assert (reply["type"], reply.get("code")) == ("error", code), reply
        assert reply["message"], reply
        return reply

    def closing(self, seconds=WAIT_S):
        """Reads to the end of the connection, and returns its close code."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                self.pump(max(0.01, deadline - time.monotonic()))
            except Closed as closed:
                self.sock.close()
                return closed
            assert time.monotonic() < deadline, f"still open after {seconds} s: {self.log[-3:]}"

    def quiet(self):
        """Waits until everything that the gateway has for this client now has arrived."""
        self.call("ping")

    # -------------------------------------------------------------- the verbs, by name

    def hello(self, token=None, **fields):
        if token is not None:
            fields["token"] = token
        self.welcome = self.ask("hello", **fields)
        if self.welcome.get("code") == "overloaded":
            raise self.closing()  # as for a gateway that is not there: come again
        assert self.welcome["type"] == "welcome", self.welcome
        self.owner = self.welcome["owner"]
        self.token = self.welcome.get("token", token)
        return self.welcome

    def chat(self, *steps, conversation=None, **fields):
        """Starts a task of the scripted agent (or with a plain message); returns its summary."""
        message = steps[0] if steps and isinstance(steps[0], str) else program(*steps)
        if conversation is not None:
            fields["conversation_id"] = conversation
        reply = self.call("chat", message=message, **fields)
        assert reply["type"] == "started", reply
        return reply["task"]

    def task(self, task):
        return self.call("task", **ids(task))["task"]

    def resume(self, task, after=None, **fields):
        if after is not None:
            fields["after"] = after
        reply = self.call("resume", **ids(task), **fields)
        assert reply["type"] == "resumed", reply
        return reply

    def replay(self, task, after=None, **fields):
        """Resumes and returns all events up to caught_up."""
        since = len(self.log)
        self.resume(task, after, **fields)
        for line in self.scan(since):
            if line["type"] == "caught_up" and line["task_id"] == task["task_id"]:
                return self.events_since(task, since)

    def events_since(self, task, since=0):
        return [line for line in self.log[since:]
                if line["type"] == "event" and line["task_id"] == task["task_id"]]

    def raw_events(self, task, since=0):
        """seq → the line, unchanged."""
        return {line["seq"]: raw for line, raw in zip(self.log[since:], self.raw[since:])
                if line["type"] == "event" and line["task_id"] == task["task_id"]}

    def events(self, task, since=0, seconds=WAIT_S):
        """The events of a task as they come, to its terminal one."""
        for line in self.scan(since, seconds):
            if line["type"] == "event" and line["task_id"] == task["task_id"]:
                yield line
                if line["event"] in TERMINAL:
                    return

    def event(self, task, name, since=0, seconds=WAIT_S):
        """The first event of that name."""
        return self.expect(lambda line: line["type"] == "event" and line["event"] == name
                           and line["task_id"] == task["task_id"], since, seconds)

    def wait_terminal(self, task, since=0, seconds=WAIT_S):
        return list(self.events(task, since, seconds))[-1]

    def finish(self, *steps, seconds=WAIT_S, **fields):
        """A whole task: (summary of its end, its events)."""
        since = len(self.log)
        task = self.chat(*steps, **fields)
        events = list(self.events(task, since, seconds))
        return self.task(task), events

    # -------------------------------------------------------------- ends

    def drop(self):
        """Cuts the connection silently."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.sock.close()

    def close(self):
        if self.sock.fileno() < 0:
            return
        if self.ws.state is State.OPEN:
            self.ws.send_close(1000)
            self._flush()
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def ids(task):
    return {"task_id": task["task_id"], "conversation_id": task["conversation_id"]}


def names(events):
    return [event["event"] for event in events]


def text_of(events, name="token"):
    return "".join(event["data"]["text"] for event in events if event["event"] == name)


def stays(events):
    """The text that is left by what task.resumed withdraws."""
    out = []
    for e in events:
        if e["event"] == "token":
            out.append((e["seq"], e["data"]["text"]))
        if "retracts" in e["data"]:
            out = [(seq, words) for seq, words in out if seq <= e["data"]["retracts"]]
            assert len("".join(words for _, words in out)) == e["data"]["keep"]["text"]
    return "".join(words for _, words in out)
