#!/usr/bin/env python3
"""Tries on a running deployment that nobody learns anything of another's tasks.

    ./dev owner-check URL [--owner TOKEN --other TOKEN] [--bad TOKEN]... [--message TEXT] [--timing N] [--part PART]

Every verb of both transports is asked as the owner of a task, as another owner, and with an identity that is missing,
malformed, forged, or given by --bad (an expired token, say); and by one who has the owner's share of a third conversation.  For all but the owner, the answers about a task that
exists and about one that does not must be equal to the byte.  Afterwards the owner's task must be untouched.
Without --owner and --other it makes two guests.  It starts two tasks and removes their conversations in the end.

--timing N also asks, with each verb about a task on both transports and with each request of a face, N times each about another's task that runs,
about another's that has ended, and about none, in random order, and compares how long the answers take: the medians may
differ by what two samples of the same kind differ, and by a few standard errors.

Exit status: 0 nothing was found, 1 something was, 2 it could not be tried.
"""

import argparse
import asyncio
import base64
import contextlib
import functools
import http.client
import itertools
import json
import random
import ssl
import statistics
import sys
import time
import urllib.parse
import uuid

import websockets

WAIT_S = 20
NO_TASK = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
MALFORMED_IDS = ["", "x", "../etc", NO_TASK.lower(), NO_TASK + "0", "%00", "é" * 13]
PASSING = {"date", "server", "content-length", "via", "cf-ray", "x-request-id", "age", "connection"}  # of proxies and clocks

# verb → fields beside the two ids
TASK_VERBS = {
    "task": {}, "resume": {}, "resume from 3": {"after": 3}, "resume beyond": {"after": 10**6}, "unsubscribe": {},
    "send": {"content": "x"}, "respond": {"input_id": "q", "answer": "x"}, "cancel": {}, "cancel tree": {"tree": True},
    "webhook": {"webhook": {"url": "https://example.com/"}}, "webhooks": {}, "webhook_delete": {"webhook_id": "x"},
}
CONVERSATION_VERBS = {
    "tasks": {}, "history": {}, "results": {}, "ack": {"task_ids": [NO_TASK]}, "title": {"title": "x"},
    "cancel_all": {}, "open": {"follow": True}, "close": {}, "share": {}, "pin": {"pinned": True},
    "archive": {"archived": True}, "fork": {}, "export": {}, "delete": {},
}
IMPORTED = {"type": "message", "message": {"message_id": "m", "role": "user", "content": "x"}}
SCHEDULE_VERBS = {"reschedule": {"paused": True}, "unschedule": {}}  # with the id of a schedule
# Those with an id of a message, or of a task, of a conversation.
MESSAGE_VERBS = {
    "branch": {"message_id": "{t}"}, "fork at": {"message_id": "{t}"}, "chat reply_to": {"message": "x", "reply_to": "{t}"},
    "chat edit": {"message": "x", "edit": "{t}"}, "chat regenerate": {"regenerate": "{t}"},
}
# method, path behind the task, body
TASK_ROUTES = [
    ("GET", "", None), ("GET", "/events", None), ("GET", "/events?after=3", None), ("GET", "/events?after=999999", None),
    ("POST", "/messages", {"content": "x"}), ("POST", "/responses", {"input_id": "q", "answer": "x"}),
    ("DELETE", "", None), ("DELETE", "?tree=true", None),
    ("POST", "/webhooks", {"webhook": {"url": "https://example.com/"}}), ("GET", "/webhooks", None),
    ("DELETE", "/webhooks?webhook_id=x", None),
]
CONVERSATION_ROUTES = [
    ("GET", "/tasks", None), ("GET", "/messages", None), ("GET", "/results", None),
    ("POST", "/results/ack", {"task_ids": [NO_TASK]}), ("PATCH", "", {"title": "x"}), ("DELETE", "/tasks", None),
    ("POST", "/shares", {}), ("POST", "/pin", {"pinned": True}), ("POST", "/archive", {"archived": True}), ("POST", "/fork", {}),
    ("GET", "/export", None), ("DELETE", "", None),
]
FILE_KEY = "owner-check"
# method, path behind the conversation, body; {t} is a file's id, and the upload has a key that the owner has used
FILE_ROUTES = [
    ("GET", "/files/{t}", None), ("HEAD", "/files/{t}", None),
    ("POST", "/tasks", {"message": [{"type": "file", "file_id": "{t}"}]}),
]
UPLOAD_ROUTES = [("HEAD", f"/files?upload={FILE_KEY}", None), ("PATCH", f"/files?upload={FILE_KEY}", b"x"),
                 *((method, f"/workspace{path}", None) for path in ("", "/x") for method in ("GET", "HEAD"))]
BAD_PROOFS = ["", "x", "b3duZXI.9999999999." + "A" * 43]  # of the URL of a file
MESSAGE_ROUTES = [("POST", "/branch", {"message_id": "{t}"}), ("POST", "/fork", {"message_id": "{t}"})] + [
    ("POST", "/tasks", fields) for verb, fields in MESSAGE_VERBS.items() if verb.startswith("chat")]
# The faces (docs/faces.md): what, method, path, body, the statuses of an answer about nothing.  {c} and {t} are the ids of
# conversation and task, in the body as in the path, and {id} is the one id that stands for both where a protocol has no
# more; a face that the gateway does not serve is passed over.
ANSWER = [{"id": "{t}", "role": "assistant", "parts": [{"type": "data-answer", "data": {"input_id": "q", "answer": "x"}}]}]
RESUME = [{"interruptId": "{t}.1.q", "status": "resolved", "payload": "x"}]
MESSAGE = {"message": {"messageId": "m", "role": "ROLE_USER", "taskId": "{id}", "parts": [{"text": "x"}]}}


def a2a_call(method, **params):
    return (f"A2A {method}", "POST", "/a2a/any", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, (200,))


def mcp_call(method):
    return (f"MCP {method}", "POST", "/mcp",
            {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"taskId": "{id}"}}, (200,))


def modern_call(method, **params):
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities":
            {"extensions": {"io.modelcontextprotocol/tasks": {}}}}
    return (f"MCP 2026-07-28 {method}", "POST", "/mcp",
            {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}, (200,))


def mcp_head(body):
    """A request of MCP 2026-07-28 repeats itself in its head."""
    params = body.get("params", {}) if isinstance(body, dict) else {}
    if "_meta" not in params:
        return {}
    name = params.get("taskId", params.get("name"))
    head = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": body["method"]}
    coded = base64.b64encode((name or "").encode()).decode()
    return {**head, **({"Mcp-Name": f"=?base64?{coded}?="} if name else {})}


FACE_ROUTES = [
    ("AI SDK stream", "GET", "/ai/chat/{c}/stream", None, (204,)),
    ("AI SDK answer", "POST", "/ai/chat", {"id": "{c}", "messages": ANSWER}, (404,)),
    ("Responses retrieve", "GET", "/responses/resp_{id}", None, (404,)),
    ("Responses stream", "GET", "/responses/resp_{id}?stream=true&starting_after=3", None, (404,)),
    ("Responses cancel", "POST", "/responses/resp_{id}/cancel", None, (404,)),
    ("Responses delete", "DELETE", "/responses/resp_{id}", None, (404,)),
    ("Responses create", "POST", "/responses", {"input": "x", "background": True, "previous_response_id": "resp_{id}"}, (404,)),
    ("Responses file", "GET", "/containers/{c}/files/{t}/content", None, (404,)),
    ("OpenAI chat", "POST", "/chat/completions", {"conversation": "{c}", "messages": []}, (400,)),
    ("OpenAI models", "GET", "/models", None, (200,)),
    ("OpenAI model", "GET", "/models/{c}", None, (404,)),
    ("AG-UI connect", "GET", "/ag-ui/any/{c}", None, (404,)),
    ("AG-UI answer", "POST", "/ag-ui/any", {"threadId": "{c}", "runId": "r", "messages": [], "resume": RESUME}, (404,)),
    ("A2A task", "GET", "/a2a/any/tasks/{id}", None, (404,)),
    ("A2A subscribe", "POST", "/a2a/any/tasks/{id}:subscribe", None, (404,)),
    ("A2A cancel", "POST", "/a2a/any/tasks/{id}:cancel", None, (404,)),
    ("A2A send", "POST", "/a2a/any/message:send", MESSAGE, (404,)),
    ("A2A stream", "POST", "/a2a/any/message:stream", MESSAGE, (404,)),
    ("A2A list", "GET", "/a2a/any/tasks?contextId={c}&includeArtifacts=true", None, (200,)),
    ("A2A push set", "POST", "/a2a/any/tasks/{id}/pushNotificationConfigs", {"url": "https://example.com/"}, (404,)),
    ("A2A push list", "GET", "/a2a/any/tasks/{id}/pushNotificationConfigs", None, (404,)),
    ("A2A push get", "GET", "/a2a/any/tasks/{id}/pushNotificationConfigs/x", None, (404,)),
    ("A2A push delete", "DELETE", "/a2a/any/tasks/{id}/pushNotificationConfigs/x", None, (404,)),
    a2a_call("CreateTaskPushNotificationConfig", taskId="{id}", url="https://example.com/"),
    a2a_call("GetTask", id="{id}"),
    a2a_call("SubscribeToTask", id="{id}"),
    a2a_call("CancelTask", id="{id}"),
    a2a_call("SendMessage", **MESSAGE),
    a2a_call("SendStreamingMessage", **MESSAGE),
    a2a_call("ListTasks", contextId="{c}"),
    mcp_call("tasks/get"),
    mcp_call("tasks/result"),
    mcp_call("tasks/cancel"),
    modern_call("tasks/get", taskId="{id}"),
    modern_call("tasks/update", taskId="{id}", inputResponses={"q/q": {"action": "accept", "content": {"answer": "x"}}}),
    modern_call("tasks/cancel", taskId="{id}"),
    modern_call("tools/call", name="any", arguments={"message": "x"}, requestState="{id}_3"),
    modern_call("subscriptions/listen", notifications={"taskIds": ["{id}"]}),
    ("Durable Streams read", "GET", "/stream/{c}/{t}", None, (404,)),
    ("Durable Streams long-poll", "GET", "/stream/{c}/{t}?offset=-1&live=long-poll", None, (404,)),
    ("Durable Streams live", "GET", "/stream/{c}/{t}?offset=now&live=sse", None, (404,)),
    ("Durable Streams head", "HEAD", "/stream/{c}/{t}", None, (404,)),
    ("Durable Streams delete", "DELETE", "/stream/{c}/{t}", None, (405,)),
    ("MCP answer", "POST", "/mcp", {"jsonrpc": "2.0", "id": "{id}/q/q", "result": {"action": "accept"}}, (202,)),
]
# Their WebSockets: what, path, what the address says, the frames that begin a connection (each is answered), those that are
# sent, of which the last is answered, and what the answer about nothing contains.
BEGIN = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}
LOAD = {"jsonrpc": "2.0", "id": 1, "method": "session/load", "params": {"sessionId": "{c}", "cwd": "/", "mcpServers": []}}
SESSION = {"sessionId": "{c}", "cwd": "/"}
GO_ON, CLOSE, DELETE = ({"jsonrpc": "2.0", "id": 1, "method": f"session/{name}", "params": SESSION}
                        for name in ("resume", "close", "delete"))
ALLOW = {"jsonrpc": "2.0", "id": "{id}/a/q", "result": {"outcome": {"outcome": "selected", "optionId": "allow"}}}
STOP = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "{c}"}}
MARK = {"jsonrpc": "2.0", "id": 2, "method": "none"}  # what came before it has no answer
FACE_SOCKETS = [
    ("AI SDK resume", "/ai", "", [], [{"type": "resume", "requestId": "r", "id": "{c}", "headers": {}, "body": {}}], "no-active"),
    ("Responses address", "/responses", "response_id=resp_{id}&starting_after=3", [], [], "no such task"),
    ("Responses frame", "/responses", "", [],
     [{"type": "response.create", "input": "x", "previous_response_id": "resp_{id}"}], "no such task"),
    ("ACP load", "/acp", "", [BEGIN], [LOAD], "Resource not found"),
    ("ACP resume", "/acp", "", [BEGIN], [GO_ON], "Resource not found"),
    ("ACP close", "/acp", "", [BEGIN], [CLOSE], "result"),
    ("ACP delete", "/acp", "", [BEGIN], [DELETE], "result"),
    ("ACP answer", "/acp", "", [BEGIN], [ALLOW, MARK], "no such method"),
    ("ACP cancel", "/acp", "", [BEGIN], [STOP, MARK], "no such method"),
]


def one_id(conversation, task):
    name = base64.urlsafe_b64encode(conversation.encode()).decode().rstrip("=")
    return f"{name}.{task}"


def filled(template, conversation, task):
    """A path or a body with the ids in their places."""
    if isinstance(template, str):
        ids = {"{c}": conversation, "{t}": task, "{id}": one_id(conversation, task)}
        return functools.reduce(lambda text, name: text.replace(name, ids[name]), ids, template)
    if isinstance(template, list):
        return [filled(item, conversation, task) for item in template]
    if isinstance(template, dict):
        return {key: filled(value, conversation, task) for key, value in template.items()}
    return template


class CannotTry(Exception):
    pass


class Findings:
    def __init__(self):
        self.compared = 0
        self.wrong = []

    def equal(self, what, got, expected):
        self.compared += 1
        if got != expected:
            self.wrong.append(f"{what}:\n    {got}\n  is not\n    {expected}")

    def that(self, what, condition):
        self.compared += 1
        if not condition:
            self.wrong.append(what)


# ---------------------------------------------------------------- the two transports


class Http:
    def __init__(self, url):
        self.url = url
        kind = http.client.HTTPSConnection if url.scheme in ("https", "wss") else http.client.HTTPConnection
        self.connection = kind(url.hostname, url.port, timeout=WAIT_S)
        self.waits = 0  # for the rate limit

    def ask(self, method, path, body=None, token=None):
        """(status, headers that may be compared, body).  Bytes are sent as they are."""
        headers = {"Authorization": "Bearer " + token} if token is not None else {}
        raw = isinstance(body, bytes)
        if body is not None and not raw:
            headers["Content-Type"] = "application/json"
            headers.update(mcp_head(body))
        for _ in range(100):
            try:
                self.connection.request(method, "/v1" + urllib.parse.quote(path, "/?=&%:"),
                                        body if raw or body is None else json.dumps(body), headers)
                reply = self.connection.getresponse()
                answer = b"" if "event-stream" in reply.headers.get("Content-Type", "") else reply.read()
            except (http.client.HTTPException, OSError) as error:
                self.connection.close()
                raise CannotTry(f"{method} {path}: {error}") from None
            if "event-stream" in reply.headers.get("Content-Type", ""):
                self.connection.close()
            if reply.status != 429:
                kept = sorted((name.lower(), value) for name, value in reply.headers.items()
                              if name.lower() not in PASSING)
                return reply.status, kept, answer
            self.waits += 1
            time.sleep(float(reply.headers.get("Retry-After", 0.2)))
        raise CannotTry("the rate limit does not let this through")


    def stream(self, path, token, until):
        """(status, the lines of a stream of events up to that one and the line behind it)."""
        for _ in range(100):
            connection = type(self.connection)(self.url.hostname, self.url.port, timeout=WAIT_S)
            with contextlib.closing(connection):
                connection.request("GET", "/v1" + path, headers={} if token is None else {"Authorization": "Bearer " + token})
                reply, lines = connection.getresponse(), []
                while reply.status == 200 and until not in lines[-2:-1] and (line := reply.readline()):
                    lines.append(line.decode().rstrip("\n"))
            if reply.status != 429:
                return reply.status, lines
            self.waits += 1
            time.sleep(float(reply.headers.get("Retry-After", 0.2)))
        raise CannotTry("the rate limit does not let this through")


class Wire:
    """One WebSocket, its requests asked one after the other."""

    def __init__(self, url):
        secure = url.scheme in ("https", "wss")
        self.address = f"{'wss' if secure else 'ws'}://{url.netloc}/v1/ws"
        self.tls = ssl.create_default_context() if secure else None
        self.ids = map(str, itertools.count(1))
        self.waits = 0  # for the rate limit

    async def __aenter__(self):
        extra = {"ssl": self.tls} if self.tls else {}
        self.ws = await websockets.connect(self.address, subprotocols=["holdfast.v1"], max_size=None, **extra)
        self.lines = []
        return self

    async def __aexit__(self, *_):
        await self.ws.close()

    async def line(self):
        while not self.lines:
            message = await asyncio.wait_for(self.ws.recv(), WAIT_S)
            self.lines = [line for line in message.split("\n") if line]
        return self.lines.pop(0)

    async def ask(self, type, **fields):
        """The reply's text, its id taken out."""
        for _ in range(100):
            id = next(self.ids)
            await self.ws.send(json.dumps({"type": type, "id": id, **fields}, ensure_ascii=False))
            while json.loads(text := await self.line()).get("id") != id:
                pass
            if json.loads(text).get("code") != "rate_limited":
                return text.replace(f'"id":"{id}"', '"id":"…"', 1)
            self.waits += 1
            await asyncio.sleep(json.loads(text)["retry_after_ms"] / 1000)
        raise CannotTry("the rate limit does not let this through")

    async def hello(self, token=None):
        reply = json.loads(await self.ask("hello", **({} if token is None else {"token": token})))
        if reply["type"] != "welcome":
            raise CannotTry(f"hello: {reply.get('message')}")
        return reply


def code_of(text):
    return json.loads(text).get("code")


# ---------------------------------------------------------------- the world


class World:
    """An owner with a task that runs, and one who should see nothing of it."""

    def __init__(self, options):
        self.url = urllib.parse.urlsplit(options.url if "://" in options.url else "http://" + options.url)
        self.message = options.message
        self.http = Http(self.url)
        self.found = Findings()
        self.owner, self.other = options.owner or self.guest(), options.other or self.guest()
        self.conversations = [f"owner-check-{uuid.uuid4()}", f"owner-check-{uuid.uuid4()}"]
        self.task = self.start(self.owner, self.conversations[0])
        self.ended = self.start(self.owner, self.conversations[1])
        self.path = f"/conversations/{self.conversations[1]}/tasks/{self.ended}"
        self.http.ask("DELETE", self.path, token=self.owner)  # it ends soon, and is an ended task then
        self.nowhere = f"owner-check-{uuid.uuid4()}"
        self.files = [self.give(conversation) for conversation in self.conversations]
        self.bad = self.bad_tokens(options.bad)
        self.shared = None
        self.narrowed = False  # whether the other is the bearer of a share

    def guest(self):
        status, _, answer = self.http.ask("POST", "/guest")
        if status != 200:
            raise CannotTry("there are no guests here: give --owner and --other")
        return json.loads(answer)["token"]

    def start(self, token, conversation):
        status, _, answer = self.http.ask("POST", f"/conversations/{conversation}/tasks",
                                          {"message": self.message}, token)
        if status != 201:
            raise CannotTry(f"a task could not be started: {status} {answer.decode(errors='replace')}")
        return json.loads(answer)["task"]["task_id"]

    def give(self, conversation):
        """A file's id; None: this gateway takes none."""
        status, _, answer = self.http.ask("POST", f"/conversations/{conversation}/files?upload={FILE_KEY}", b"a file",
                                          self.owner)
        return json.loads(answer)["file_id"] if status == 201 else None

    def bad_tokens(self, given):
        """name → token.  None: no token at all."""
        head, claims, signature = self.owner.split(".")
        none = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').decode().rstrip("=")
        bad = {"missing": None, "empty": "", "malformed": "x.y.z", "cut": self.owner[:-10],
               "forged": f"{head}.{claims}.{'A' * len(signature)}", "unsigned": f"{none}.{claims}."}
        return {**bad, **{f"given {n}": token for n, token in enumerate(given, 1)}}

    def messages(self):
        """pairs, and those with a message in place of its task."""
        said = []
        for conversation in self.conversations:
            _, _, answer = self.http.ask("GET", f"/conversations/{conversation}/messages", token=self.owner)
            said.append((conversation, json.loads(answer)["messages"][0]["message_id"]))
        return self.pairs() + said + [(self.nowhere, said[0][1])]

    def pairs(self):
        """(conversation, task) about which another must hear what he hears of nothing."""
        real = list(zip(self.conversations, (self.task, self.ended)))
        mixed = [(self.conversations[0], self.ended), (self.nowhere, self.task)]
        return real + mixed

    def share(self):
        """The owner's own token for another conversation, with every right there; None: nothing is shared here."""
        self.shared = f"owner-check-{uuid.uuid4()}"
        self.start(self.owner, self.shared)
        status, _, answer = self.http.ask("POST", f"/conversations/{self.shared}/shares",
                                          {"rights": ["read", "ask", "answer", "cancel"]}, self.owner)
        return json.loads(answer)["token"] if status == 201 else None

    def clean_up(self):
        self.http.connection.close()
        for conversation in [*self.conversations, *filter(None, [self.shared])]:
            self.http.ask("DELETE", f"/conversations/{conversation}", token=self.owner)


def told(answer, *names):
    """An answer without the names that its request gave."""
    text = repr(answer)
    for name in names:
        text = text.replace(name, "…")
    return text


# ---------------------------------------------------------------- what is tried


def try_http(world):
    found, ask, nowhere = world.found, world.http.ask, world.nowhere
    for method, tail, body in TASK_ROUTES:
        what = f"HTTP {method} …/tasks/…{tail}"
        expected = ask(method, f"/conversations/{nowhere}/tasks/{NO_TASK}{tail}", body, world.other)
        found.that(f"{what}: {expected[0]} for no task", expected[0] == 404)
        for conversation, task in world.pairs():
            found.equal(what, ask(method, f"/conversations/{conversation}/tasks/{task}{tail}", body, world.other), expected)
        for bad in MALFORMED_IDS:
            if not bad or "/" in bad or "%" in bad:
                continue  # in a path that is another path
            found.equal(f"{what}, task {bad!r}",
                        ask(method, f"/conversations/{world.conversations[0]}/tasks/{bad}{tail}", body, world.other), expected)
        for name, token in world.bad.items():
            refused = [ask(method, f"/conversations/{c}/tasks/{t}{tail}", body, token)
                       for c, t in ((world.conversations[0], world.task), (nowhere, NO_TASK))]
            found.that(f"{what}, {name} identity: {refused[0][0]}", refused[0][0] == 401)
            found.equal(f"{what}, {name} identity", *refused)
    for method, tail, body in CONVERSATION_ROUTES:
        what = f"HTTP {method} /v1/conversations/…{tail}"
        expected = told(ask(method, f"/conversations/{nowhere}{tail}", body, world.other), nowhere)
        for conversation in world.conversations:
            got = ask(method, f"/conversations/{conversation}{tail}", body, world.other)
            found.equal(what, told(got, conversation), expected)
        for name, token in world.bad.items():
            refused = [told(ask(method, f"/conversations/{c}{tail}", body, token), c)
                       for c in (world.conversations[0], nowhere)]
            found.that(f"{what}, {name} identity", refused[0].startswith("(401"))
            found.equal(f"{what}, {name} identity", *refused)
    for method, tail, body in MESSAGE_ROUTES:
        what = f"HTTP {method} /v1/conversations/…{tail} {body}"
        expected = ask(method, f"/conversations/{nowhere}{tail}", filled(body, nowhere, NO_TASK), world.other)
        found.that(f"{what}: {expected[0]} for no message", expected[0] == 404)
        for conversation, message in world.messages():
            got = ask(method, f"/conversations/{conversation}{tail}", filled(body, conversation, message), world.other)
            found.equal(what, got, expected)
        for name, token in world.bad.items():
            refused = [ask(method, f"/conversations/{c}{tail}", filled(body, c, t), token)
                       for c, t in ((world.conversations[0], world.task), (nowhere, NO_TASK))]
            found.that(f"{what}, {name} identity: {refused[0][0]}", refused[0][0] == 401)
            found.equal(f"{what}, {name} identity", *refused)
    status, _, answer = ask("GET", "/conversations", None, world.other)
    found.that("HTTP GET /v1/conversations names another's",
               status == 200 and not any(c.encode() in answer for c in world.conversations))


def try_files(world):
    found, ask, nowhere = world.found, world.http.ask, world.nowhere
    if None in world.files:
        return
    real = list(zip(world.conversations, world.files))
    for method, tail, body in FILE_ROUTES:
        def about(conversation, file, token=world.other, method=method, tail=tail, body=body):
            path = f"/conversations/{conversation}{filled(tail, conversation, file)}"
            return ask(method, path, filled(body, conversation, file), token)

        what = f"HTTP {method} …{tail}, a file"
        expected = about(nowhere, NO_TASK)
        found.that(f"{what}: {expected[0]} for none", expected[0] == 404)
        malformed = [(world.conversations[0], bad) for bad in MALFORMED_IDS if bad and not set("/%") & set(bad)]
        for conversation, file in [*real, (nowhere, world.files[0]), *malformed]:
            found.equal(what, about(conversation, file), expected)
        if not world.narrowed:
            found.equal(f"{what}, of the owner in another conversation",
                        about(world.conversations[0], world.files[1], world.owner), expected)
        for name, token in world.bad.items():
            refused = [about(c, f, token) for c, f in (real[0], (nowhere, NO_TASK))]
            found.that(f"{what}, {name} identity", refused[0][0] == 401)
            found.equal(f"{what}, {name} identity", *refused)
    none = ask("GET", f"/conversations/{nowhere}/files/{NO_TASK}", None, world.other)
    for (conversation, file), proof in itertools.product([*real, (nowhere, NO_TASK)], BAD_PROOFS):
        path = f"/conversations/{conversation}/files/{file}?signed={proof}"
        for token in (None, world.other, world.owner):
            found.equal(f"HTTP GET …/files/…?signed={proof}", ask("GET", path, None, token), none)
    for method, tail, body in UPLOAD_ROUTES:
        expected = ask(method, f"/conversations/{nowhere}{tail}", body, world.other)
        for conversation in world.conversations:
            found.equal(f"HTTP {method} …{tail}", ask(method, f"/conversations/{conversation}{tail}", body, world.other), expected)
    given = [ask("POST", f"/conversations/{c}/files?upload={FILE_KEY}", b"x", world.other)[0] for c in (nowhere, *world.conversations)]
    found.that(f"HTTP POST …/files with a key of the owner's: {given}", given[0] in (201, 404) and set(given) == {given[0]})
    for conversation in (nowhere, *world.conversations):
        ask("DELETE", f"/conversations/{conversation}", None, world.other)
    for conversation, file in real:
        status, _, answer = ask("GET", f"/conversations/{conversation}/files/{file}", None, world.owner)
        found.that("the owner's file is not there, or not as it was", (status, answer) == (200, b"a file"))


def served_faces(world):
    """Those of FACE_ROUTES whose path is the API's: what is not served has an answer of its own."""
    unserved = "there is nothing at this path"
    for row in FACE_ROUTES:
        what, method, path, body, _ = row
        answer = world.http.ask(method, filled(path, world.nowhere, NO_TASK), filled(body, world.nowhere, NO_TASK),
                                world.other)
        if unserved not in answer[2].decode(errors="replace"):
            yield row


def try_faces(world):
    found, ask, nowhere = world.found, world.http.ask, world.nowhere
    for what, method, path, body, statuses in served_faces(world):
        def about(conversation, task, token=world.other):
            said = ask(method, filled(path, conversation, task), filled(body, conversation, task), token)
            return told(said, conversation, *([task] if len(task) > 1 else []))

        expected = about(nowhere, NO_TASK)
        found.that(f"{what}: {expected} for nothing",
                   world.narrowed or expected.startswith(tuple(f"({status}" for status in statuses)))
        malformed = [(world.conversations[0], bad) for bad in MALFORMED_IDS if bad and not set("/%") & set(bad)]
        for conversation, task in world.pairs() + malformed:
            found.equal(what, about(conversation, task), expected)
        for name, token in world.bad.items():
            refused = [about(c, t, token) for c, t in ((world.conversations[0], world.task), (nowhere, NO_TASK))]
            found.that(f"{what}, {name} identity: {refused[0]}", refused[0].startswith("(401"))
            found.equal(f"{what}, {name} identity", *refused)


class FaceSocket:
    """A face's WebSocket, its requests asked one after the other; served: whether the gateway has it."""

    def __init__(self, world, row, token):
        self.world, self.token = world, token
        self.what, self.path, self.query, self.begin, self.frames, self.says = row
        self.waits = 0  # for the rate limit
        self.ws, self.served = None, True

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        if self.ws:
            await self.ws.close()

    async def answer(self):
        return await asyncio.wait_for(self.ws.recv(), WAIT_S)

    async def connect(self, pair):
        """The answers to what begins the connection."""
        secure = self.world.url.scheme in ("https", "wss")
        extra = {"ssl": ssl.create_default_context()} if secure else {}
        address = (f"{'wss' if secure else 'ws'}://{self.world.url.netloc}/v1{self.path}?{filled(self.query, *pair)}"
                   f"&token={urllib.parse.quote(self.token or '')}")
        self.ws = await websockets.connect(address, max_size=None, **extra)
        said = []
        for frame in self.begin:
            await self.ws.send(json.dumps(frame))
            said.append(await self.answer())
        return said

    async def once(self, pair):
        said = []
        if not self.ws or self.query:  # the address is the request, or a part of it
            await self.__aexit__()
            said = await self.connect(pair)
        for frame in filled(self.frames, *pair):
            await self.ws.send(json.dumps(frame))
        return told([*said, await self.answer()], *(name for name in pair if len(name) > 1))

    async def ask(self, pair):
        """The answer about a conversation and a task, without their names; None: the face is not served."""
        for _ in range(100):
            try:
                said = await self.once(pair)
            except websockets.InvalidStatus as error:
                self.served = error.response.status_code != 404
                if self.served and error.response.status_code not in (429, 503):
                    raise
                said = None
            if not self.served or (said and "too many requests" not in said):
                return said
            self.waits += 1
            await asyncio.sleep(0.2)
        raise CannotTry("the rate limit does not let this through")


async def try_face_sockets(world):
    nothing = (world.nowhere, NO_TASK)
    for row in FACE_SOCKETS:
        async def about(pair, token=world.other, row=row):
            async with FaceSocket(world, row, token) as socket:
                return await socket.ask(pair)

        what, says = f"WebSocket, {row[0]}", row[-1]
        expected = await about(nothing)
        if expected is None:
            continue
        world.found.that(f"{what}: {expected} for nothing", says in expected)
        malformed = [(world.conversations[0], bad) for bad in MALFORMED_IDS]
        malformed += [(bad, world.task) for bad in MALFORMED_IDS if len(bad) > 1]  # told() finds no shorter one
        if row[2]:
            malformed = []  # in an address that is another address
        for pair in world.pairs() + malformed:
            world.found.equal(f"{what}, {pair}", await about(pair), expected)
        for name, token in world.bad.items():
            refused = [await about(pair, token) for pair in ((world.conversations[0], world.task), nothing)]
            world.found.that(f"{what}, {name} identity: {refused[0]}", "error" in refused[0])
            world.found.equal(f"{what}, {name} identity", *refused)


def cursor_of(lines):
    return next((line.get("cursor") for line in map(json.loads, lines) if line["type"] == "cursor"), None)


async def try_watch(world):
    """A watch of all events, begun at the owner's cursor: the other hears of none of the owner's tasks."""
    async with Wire(world.url) as mine:
        await mine.hello(world.owner)
        told = [await mine.ask("watch", events=True)]
        while not (cursor := cursor_of(told)):
            told.append(await mine.line())
    for fields in ({}, {"cursor": cursor}):
        async with Wire(world.url) as other:
            await other.hello(world.other)
            heard = [await other.ask("watch", events=True, **fields)]
            while not cursor_of(heard):  # all that it may follow is told of by then
                heard.append(await other.line())
            world.found.that("WebSocket watch names another's", not any(known in line for line in heard for known in (*world.conversations, world.task, world.ended)))
        query = "".join(f"&{name}={value}" for name, value in fields.items())
        status, lines = world.http.stream(f"/watch?events=true{query}", world.other, "event: cursor")
        world.found.that(f"HTTP GET /watch: {status}", status == 200)
        world.found.that("HTTP GET /watch names another's", not any(known in line for line in lines for known in (*world.conversations, world.task, world.ended)))
    for name, token in world.bad.items():
        status, _ = world.http.stream("/watch?events=true", token, "event: cursor")
        world.found.that(f"HTTP GET /watch, {name} identity: {status}", status == 401)


async def try_wire(world):
    found, nowhere = world.found, world.nowhere
    async with Wire(world.url) as wire:
        await wire.hello(world.other)
        for verb, fields in TASK_VERBS.items():
            type = verb.split()[0]
            expected = await wire.ask(type, conversation_id=nowhere, task_id=NO_TASK, **fields)
            found.that(f"WebSocket {verb}: {expected} for no task", code_of(expected) == "not_found")
            pairs = world.pairs() + [(c, bad) for c in world.conversations[:1] for bad in MALFORMED_IDS]
            pairs += [(bad, world.task) for bad in MALFORMED_IDS]
            for conversation, task in pairs:
                got = await wire.ask(type, conversation_id=conversation, task_id=task, **fields)
                found.equal(f"WebSocket {verb}", got, expected)
        for verb, fields in CONVERSATION_VERBS.items():
            expected = told(await wire.ask(verb, conversation_id=nowhere, **fields), nowhere)
            for conversation in world.conversations:
                got = told(await wire.ask(verb, conversation_id=conversation, **fields), conversation)
                found.equal(f"WebSocket {verb}", got, expected)
        for verb, fields in MESSAGE_VERBS.items():
            type = verb.split()[0]
            expected = await wire.ask(type, conversation_id=nowhere, **filled(fields, nowhere, NO_TASK))
            found.that(f"WebSocket {verb}: {expected} for no message", code_of(expected) == "not_found")
            for conversation, message in world.messages():
                got = await wire.ask(type, conversation_id=conversation, **filled(fields, conversation, message))
                found.equal(f"WebSocket {verb}", got, expected)
        await try_watch(world)
        listed = await wire.ask("conversations")
        await wire.ask("watch")
        found.that("WebSocket conversations names another's", not any(c in listed for c in world.conversations))


async def try_schedules(world):
    """A schedule of the owner's, a year ahead, is not there for another, in its conversation or out of it."""
    found, later = world.found, int(time.time() * 1000) + 366 * 86_400_000
    async with Wire(world.url) as mine, Wire(world.url) as wire:
        await mine.hello(world.owner)
        made = json.loads(await mine.ask("schedule", conversation_id=world.conversations[0], chat={"message": "x"}, not_before=later))
        if code_of(json.dumps(made)) == "unsupported":
            return
        known = made["schedule"]["schedule_id"]
        await wire.hello(world.other)
        for verb, fields in SCHEDULE_VERBS.items():
            expected = await wire.ask(verb, schedule_id=NO_TASK, **fields)
            found.that(f"WebSocket {verb}: {expected} for no schedule", code_of(expected) == "not_found")
            for bad in (known, *filter(None, MALFORMED_IDS)):
                found.equal(f"WebSocket {verb}", await wire.ask(verb, schedule_id=bad, **fields), expected)
        for method, path, body in (("PATCH", "/schedules", True), ("DELETE", "/schedules?schedule_id={id}", False)):
            asked = [world.http.ask(method, path.format(id=of), {"schedule_id": of, "paused": True} if body else None, token=world.other)
                     for of in (NO_TASK, known)]
            found.equal(f"HTTP {method} /schedules", asked[1][::2], asked[0][::2])
        for conversation in world.conversations:
            listed = await wire.ask("schedules", conversation_id=conversation)
            found.that("WebSocket schedules names another's", known not in listed and known not in await wire.ask("schedules"))
        await try_schedules_of(world, wire, known, later)
        gone = json.loads(await mine.ask("unschedule", schedule_id=known))
        found.that(f"the owner's schedule is gone: {gone}", gone["type"] == "ok")


async def try_schedules_of(world, wire, known, later):
    """Schedules that the other makes and lists, with the owner's names of conversations: they are his own."""
    found, fields = world.found, {"chat": {"message": "x"}, "not_before": later}
    for conversation in (world.nowhere, *world.conversations):
        made = [json.loads(await wire.ask("schedule", conversation_id=conversation, **fields))]
        for path, more in ((f"/conversations/{conversation}/schedules", {}), ("/schedules", {"conversation_id": conversation})):
            made.append(json.loads(world.http.ask("POST", path, {**fields, **more}, world.other)[2]))
            listed = world.http.ask("GET", path, None, world.other)
            found.that("HTTP GET …/schedules names another's", listed[0] == 200 and known.encode() not in listed[2])
        found.that(f"schedule of the other: {made}", all(one["type"] == "scheduled" for one in made))
        for one in made:
            await wire.ask("unschedule", schedule_id=one["schedule"]["schedule_id"])


async def try_shares(world):
    """A share of the owner's is in no list of another's, and no more than an unknown one to who would end it."""
    found, ask = world.found, world.http.ask
    status, _, answer = ask("POST", f"/conversations/{world.conversations[0]}/shares", {}, world.owner)
    if status != 201:
        return
    known = json.loads(answer)["share"]["share_id"]
    async with Wire(world.url) as wire:
        await wire.hello(world.other)
        for bad in (known, *filter(None, MALFORMED_IDS)):
            found.equal("WebSocket unshare", await wire.ask("unshare", share_id=bad), await wire.ask("unshare", share_id=NO_TASK))
        for fields in ({}, {"conversation_id": world.conversations[0]}):
            found.that("WebSocket shares names another's", known not in await wire.ask("shares", **fields))
    asked = [ask("DELETE", f"/shares?share_id={of}", None, world.other)[::2] for of in (known, NO_TASK)]
    found.equal("HTTP DELETE /shares", *asked)
    for path in ("/shares", f"/conversations/{world.conversations[0]}/shares"):
        found.that(f"HTTP GET {path} names another's", known.encode() not in ask("GET", path, None, world.other)[2])
    kept = ask("GET", "/shares", None, world.owner)[2]
    found.that("the owner's share is gone", known.encode() in kept)
    ask("DELETE", f"/shares?share_id={known}", None, world.owner)


async def try_search(world):
    """The owner finds his own texts, and another does not."""
    found, query = world.found, urllib.parse.quote(world.message, "")

    def names(answer):
        return any(conversation in answer for conversation in world.conversations)

    async with Wire(world.url) as wire:
        await wire.hello(world.owner)
        found.that("the owner does not find his own", names(await wire.ask("search", query=world.message)))
    async with Wire(world.url) as wire:
        await wire.hello(world.other)
        found.that("WebSocket search names another's", not names(await wire.ask("search", query=world.message)))
    answer = world.http.ask("GET", f"/search?query={query}", None, world.other)
    found.that("HTTP GET /search names another's", answer[0] in (200, 404) and not names(answer[2].decode()))


async def try_imports(world):
    """An import to a conversation that another has is one to a conversation that nobody has."""
    line, ask = json.dumps(IMPORTED).encode(), world.http.ask
    async with Wire(world.url) as wire:
        await wire.hello(world.other)
        for conversation in (world.nowhere, *world.conversations):
            about = {"conversation_id": conversation}
            got = [told(await wire.ask("import", lines=[IMPORTED], **about), conversation)]
            await wire.ask("delete", **about)
            got.append(told(ask("POST", f"/conversations/{conversation}/import", line, world.other), conversation))
            await wire.ask("delete", **about)
            if conversation == world.nowhere:
                expected = got
            world.found.equal("import", got, expected)
        made = json.loads(ask("POST", "/import", line, world.other)[2])
        await wire.ask("delete", conversation_id=made.get("conversation_id", world.nowhere))


async def try_handover(world):
    """A code brings him who asked for it, and nobody else."""
    async with Wire(world.url) as wire, Wire(world.url) as phone, Wire(world.url) as tablet:
        owner = (await wire.hello(world.other))["owner"]
        made = json.loads(await wire.ask("handover"))
        given = json.loads(world.http.ask("POST", "/handover", None, world.other)[2])
        if "code" in made and "code" in given:  # not so with a narrowed token
            came = json.loads(await phone.ask("hello", handover=made["code"]))
            token = json.loads(world.http.ask("POST", "/handover/token", {"code": given["code"]})[2])["token"]
            heard = (came.get("owner"), (await tablet.hello(token))["owner"])
            world.found.equal("handover", heard, (owner, owner))


async def try_all_of_an_owner(world):
    """Requests without an id of a task: the owner's things are not among another's."""
    await try_shares(world)
    await try_search(world)
    await try_imports(world)
    await try_handover(world)
    for method, path, body in (("POST", "/handover", {}), ("GET", "/shares", None), ("DELETE", f"/shares?share_id={NO_TASK}", None),
                               ("GET", "/search?query=x", None), ("POST", "/import", {}), ("GET", "/schedules", None)):
        for name, token in world.bad.items():
            status = world.http.ask(method, path, body, token)[0]
            world.found.that(f"HTTP {method} {path}, {name} identity: {status}", status == 401)


def try_narrowed(world):
    """A token of the owner for another conversation sees as little as a stranger."""
    token, other, bad = world.share(), world.other, world.bad
    if token is None:
        return
    world.other, world.narrowed, world.bad = token, True, {}
    try_http(world)
    try_files(world)
    try_faces(world)
    asyncio.run(try_wire(world))
    asyncio.run(try_all_of_an_owner(world))
    world.other, world.narrowed, world.bad = other, False, bad


async def try_identities(world):
    """A line before hello, and a hello with a bad token: the same, whatever task it is about."""
    for name, token in world.bad.items():
        heard = []
        for conversation, task in ((world.conversations[0], world.task), (world.nowhere, NO_TASK)):
            async with Wire(world.url) as wire:
                if token is None:
                    said = {"type": "task", "id": "1", "conversation_id": conversation, "task_id": task}
                    await wire.ws.send(json.dumps(said))
                else:
                    await wire.ws.send(json.dumps({"type": "hello", "id": "1", "token": token}))
                    await wire.ws.send(json.dumps({"type": "task", "id": "2", "conversation_id": conversation,
                                                   "task_id": task}))
                lines = []
                try:
                    while True:
                        lines.append(await wire.line())
                except websockets.ConnectionClosed as closed:
                    heard.append((lines, closed.rcvd.code if closed.rcvd else None))
        world.found.equal(f"WebSocket, {name} identity", *heard)
        world.found.that(f"WebSocket, {name} identity: {heard[0]}",
                         heard[0][1] == 4401 and code_of(heard[0][0][0]) == "unauthorized")


async def try_owner(world):
    """The owner's own answers, without which the others' prove nothing; and that nothing was touched."""
    found, ids = world.found, {"conversation_id": world.conversations[0], "task_id": world.task}
    async with Wire(world.url) as wire:
        await wire.hello(world.owner)
        task = json.loads(await wire.ask("task", **ids)).get("task", {})
        found.that(f"the owner's task is not there: {task}", task.get("task_id") == world.task)
        found.that("the owner's task was cancelled", not task.get("cancel_requested_at")
                   and task.get("status") != "cancelled")
        found.that("the owner's task has messages that nobody of his sent", not task.get("undelivered"))
        history = json.loads(await wire.ask("history", conversation_id=world.conversations[0]))
        found.that("the owner's messages are gone", len(history.get("messages", [])) >= 1)
        listed = json.loads(await wire.ask("conversations"))["conversations"]
        titles = {row["conversation_id"]: row.get("title") for row in listed}
        found.that("the owner's conversations were renamed or removed",
                   all(titles.get(c) == world.message[:80] for c in world.conversations))
        for type, fields, good in (("resume", {}, "resumed"), ("unsubscribe", {}, "ok"), ("cancel", {}, "ok")):
            reply = json.loads(await wire.ask(type, **ids, **fields))
            found.that(f"WebSocket {type} of the owner: {reply}", reply["type"] == good)
    status, _, _ = world.http.ask("GET", world.path, token=world.owner)
    found.that(f"HTTP GET of the owner: {status}", status == 200)


# ---------------------------------------------------------------- how long it takes


def spread(samples):
    """The standard error of the median, by the quartiles: a few slow answers do not count."""
    low, _, high = statistics.quantiles(samples, n=4)
    return 1.2533 * (high - low) / 1.349 / len(samples) ** 0.5


KINDS = ("runs", "ended", "none", "nothing")  # none and nothing are the same kind, as a measure of the noise


async def measure(n, questions, asked):
    """kind → seconds of n answers.  questions: kind → what asked is to ask; asked.waits counts what was held up."""
    taken = {kind: [] for kind in KINDS}
    for kind in random.sample(KINDS * n, len(KINDS) * n):
        waits = -1
        while waits != asked.waits:  # a try that had to wait for the rate limit says nothing
            waits, begun = asked.waits, time.perf_counter()
            await questions[kind]()
            seconds = time.perf_counter() - begun
        taken[kind].append(seconds)
    return taken


def tell_apart(taken):
    """How the answers about each kind of another's tasks differ from those about none, and whether that is more than noise."""
    none = taken["none"] + taken["nothing"]
    noise = abs(statistics.median(taken["none"]) - statistics.median(taken["nothing"]))
    said, differ = [], False
    for kind in ("runs", "ended"):
        difference = statistics.median(taken[kind]) - statistics.median(none)
        error = (spread(taken[kind]) ** 2 + spread(none) ** 2) ** 0.5
        differ = differ or abs(difference) > noise + 4 * error + 1e-6
        said.append(f"{kind} {difference * 1e6:+.1f} µs (standard error {error * 1e6:.1f})")
    return differ, f"none {statistics.median(none) * 1e6:.1f} µs, {', '.join(said)}, noise {noise * 1e6:.1f} µs"


async def try_timing_of(world, what, n, questions, asked):
    """A difference that is real is there each time; one of a busy machine is not."""
    for _ in range(3):
        differ, said = tell_apart(await measure(n, questions, asked))
        print(f"timing, {n} of each: {what}: {said}", flush=True)
        if not differ:
            world.found.compared += 1
            return
    world.found.wrong.append(f"timing of {what}: the medians differ by more than noise, three times in a row")


def kinds(world):
    """The four kinds of tasks that are asked about."""
    return {"runs": (world.conversations[0], world.task), "ended": (world.conversations[1], world.ended),
            "none": (world.nowhere, NO_TASK), "nothing": (world.nowhere, NO_TASK)}


def over_http(world, token, method, path, body):
    async def ask():
        world.http.ask(method, path, body, token)
    return ask


async def try_timing_narrowed(world, n):
    """A token for another conversation of the owner's: a refusal that no look-up precedes takes as long for what is there."""
    token = world.share()
    if token is None:
        return
    about = kinds(world)
    async with Wire(world.url) as wire:
        await wire.hello(token)
        for verb, fields in TASK_VERBS.items():
            questions = {kind: functools.partial(wire.ask, verb.split()[0], conversation_id=c, task_id=t, **fields)
                         for kind, (c, t) in about.items()}
            await try_timing_of(world, f"narrowed, WebSocket {verb}", n, questions, wire)
    world.http.connection.close()

    for method, tail, body in TASK_ROUTES:
        questions = {kind: over_http(world, token, method, f"/conversations/{c}/tasks/{t}{tail}", body) for kind, (c, t) in about.items()}
        await try_timing_of(world, f"narrowed, HTTP {method} …/tasks/…{tail}", n, questions, world.http)
    files = {**about, "runs": (world.conversations[0], world.files[0]), "ended": (world.conversations[1], world.files[1])}
    if None not in world.files:
        questions = {kind: over_http(world, token, "GET", f"/conversations/{c}/files/{f}", None) for kind, (c, f) in files.items()}
        await try_timing_of(world, "narrowed, HTTP GET …/files/…", n, questions, world.http)


async def try_timing(world, n):
    about = kinds(world)
    async with Wire(world.url) as wire:
        await wire.hello(world.other)
        for verb, fields in TASK_VERBS.items():
            questions = {kind: functools.partial(wire.ask, verb.split()[0], conversation_id=c, task_id=t, **fields)
                         for kind, (c, t) in about.items()}
            await try_timing_of(world, f"WebSocket {verb}", n, questions, wire)
        for verb, fields in MESSAGE_VERBS.items():
            questions = {kind: functools.partial(wire.ask, verb.split()[0], conversation_id=c, **filled(fields, c, t))
                         for kind, (c, t) in about.items()}
            await try_timing_of(world, f"WebSocket {verb}", n, questions, wire)

    world.http.connection.close()  # it has been idle for long, and may be closed at the other end
    for method, tail, body in TASK_ROUTES:
        questions = {kind: over_http(world, world.other, method, f"/conversations/{c}/tasks/{t}{tail}", body) for kind, (c, t) in about.items()}
        await try_timing_of(world, f"HTTP {method} …/tasks/…{tail}", n, questions, world.http)
    files = {**about, "runs": (world.conversations[0], world.files[0]), "ended": (world.conversations[1], world.files[1])}
    for method, tail, body in FILE_ROUTES[::2] if None not in world.files else []:
        questions = {kind: over_http(world, world.other, method, f"/conversations/{c}{filled(tail, c, f)}", filled(body, c, f))
                     for kind, (c, f) in files.items()}
        await try_timing_of(world, f"HTTP {method} …{tail}, a file", n, questions, world.http)


async def try_timing_of_faces(world, n):
    about = kinds(world)
    world.http.connection.close()
    for what, method, path, body, _ in served_faces(world):
        questions = {kind: over_http(world, world.other, method, filled(path, c, t), filled(body, c, t)) for kind, (c, t) in about.items()}
        await try_timing_of(world, what, n, questions, world.http)


async def try_timing_of_face_sockets(world, n):
    about = kinds(world)
    for row in FACE_SOCKETS:
        async with FaceSocket(world, row, world.other) as socket:
            await socket.ask(about["none"])
            questions = {kind: functools.partial(socket.ask, pair) for kind, pair in about.items()}
            if socket.served:
                await try_timing_of(world, f"WebSocket, {socket.what}", n, questions, socket)


def options_of(arguments):
    parser = argparse.ArgumentParser(prog="./dev owner-check", description=__doc__.split("\n")[0])
    parser.add_argument("url", metavar="URL", help="such as http://127.0.0.1:8080")
    parser.add_argument("--owner", help="a token")
    parser.add_argument("--other", help="a token of somebody else")
    parser.add_argument("--bad", action="append", default=[], metavar="TOKEN", help="must be refused: an expired one")
    parser.add_argument("--part", choices=["answers", *TIMINGS], help="that alone; all but answers need --timing")
    parser.add_argument("--message", default="count to 200 slowly", help="what the owner's tasks are asked")
    parser.add_argument("--timing", type=int, default=0, metavar="N", help="compare times, N tries of each")
    return parser.parse_args(arguments)


def try_answers(world):
    try_http(world)
    try_files(world)
    try_faces(world)
    asyncio.run(try_wire(world))
    asyncio.run(try_schedules(world))
    asyncio.run(try_all_of_an_owner(world))
    try_narrowed(world)
    asyncio.run(try_identities(world))
    asyncio.run(try_face_sockets(world))


TIMINGS = {"wire": try_timing, "faces": try_timing_of_faces, "sockets": try_timing_of_face_sockets,
           "narrowed": try_timing_narrowed}


def main(arguments):
    options = options_of(arguments)
    try:
        world = World(options)
        try:
            if options.part in (None, "answers"):
                try_answers(world)
            for part, tries in TIMINGS.items():
                if options.timing and options.part in (None, part):
                    asyncio.run(tries(world, options.timing))
            asyncio.run(try_owner(world))
        finally:
            world.clean_up()
    except (CannotTry, OSError, asyncio.TimeoutError, websockets.WebSocketException) as error:
        print(f"owner-check: it could not be tried: {error}", file=sys.stderr)
        return 2
    for wrong in world.found.wrong:
        print("WRONG", wrong)
    print(f"{world.found.compared} answers looked at, {len(world.found.wrong)} wrong")
    return 1 if world.found.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
