"""A gateway for the tests of a program: in memory, on a port of this machine, and obedient.

It keeps conversations and tasks as the protocol requires, numbers events, replays them, and survives cuts.  The test
speaks for the agent: `answer` is called for each task, or the test takes the task and sends its events step by step.

    async with FakeGateway() as gateway, gateway.connect() as client:
        asked = client.conversation("c-1").ask("hello")
        task = await gateway.task()
        task.say("Hello, ")
        gateway.drop()  # what was said is not lost
        task.complete("Hello, you.")
        assert (await asked.result()).output == "Hello, you."
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import inspect
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, Union

from websockets import serve  # type: ignore[attr-defined]  # made when asked for
from websockets.exceptions import ConnectionClosed

from .client import Client, connect
from .connection import SUBPROTOCOL
from .fake_tree import FakeTree

__all__ = ["FakeGateway", "FakeTask"]

Line = dict[str, Any]
Answer = Callable[["FakeTask"], Union[None, Awaitable[None]]]

OK: Line = {"type": "ok"}
NOT_FOUND: Line = {"type": "error", "code": "not_found", "message": "no such task"}
PAGE = 50


def _now() -> int:
    return int(time.time() * 1000)


class FakeTask:
    """A task, from the agent's side."""

    def __init__(self, gateway: "FakeGateway", task_id: str, request: Line, question: Line | None) -> None:
        message = request.get("message", "")
        texts = message if isinstance(message, str) else "\n".join(p["text"] for p in message if p["type"] == "text")
        self.task_id = task_id
        self.conversation_id: str = request["conversation_id"]
        self.input: str = question["content"] if question else texts
        self.parts: list[Line] | None = message if isinstance(message, list) else None  # the question with its files
        self.agent: str = request["agent"]
        self.type = "background" if request.get("background") else "chat"
        self.question_id: str | None = question["message_id"] if question else None  # answered once more
        self.events: list[Line] = []
        self.status = "pending"
        self.text = ""  # that was said, and not withdrawn
        self.stopped = asyncio.Event()  # the user has stopped it
        self._gateway = gateway
        self._questions: dict[str, asyncio.Future[bool | str | None]] = {}
        self._calls = self._asked = 0

    @property
    def live(self) -> bool:
        return self.status in ("pending", "running")

    def emit(self, event: str, data: Line) -> None:
        """Any event of the protocol; after its end a task sends nothing."""
        if not self.live:
            return
        if event == "task.started":
            self.status = "running"
        elif event == "task.completed":
            self.status = "completed"
        elif event == "task.failed":
            self.status = data["status"]
        elif event == "task.resumed":
            self.text = self._kept("token", data.get("retracts"))
        elif event == "token":
            self.text += data["text"]
        line = {"type": "event", "task_id": self.task_id, "seq": len(self.events) + 1, "ts": _now(), "event": event}
        self.events.append({**line, "data": data})
        self._gateway._told(self, self.events[-1])

    def say(self, text: str) -> None:
        self.emit("token", {"text": text})

    def think(self, text: str) -> None:
        self.emit("thinking", {"text": text})

    def call(self, name: str, arguments: Line | None = None, output: str | None = None) -> Callable[..., None]:
        """A tool call, with its result if there is one already; returns a function that sends the result later."""
        self._calls += 1
        call_id = f"call-{self._calls}"
        self.emit("tool_call", {"call_id": call_id, "name": name, "arguments": arguments or {}})

        def result(output: str, is_error: bool = False) -> None:
            self.emit("tool_result", {"call_id": call_id, "name": name, "output": output, "is_error": is_error})

        if output is not None:
            result(output)
        return result

    def ask(self, prompt: str, **more: Any) -> "asyncio.Future[bool | str | None]":
        """Asks the user; await it for the answer, None when the task ends before there is one."""
        self._asked += 1
        input_id = more.get("input_id", f"question-{self._asked}")
        answer: asyncio.Future[bool | str | None] = asyncio.get_running_loop().create_future()
        self._questions[input_id] = answer
        self.emit("input_required", {"kind": "question", "prompt": prompt, **more, "input_id": input_id})
        return answer

    def restart(self, retracts: int = 2) -> None:
        """The gateway was restarted: the text after that event is withdrawn, all of it by default."""
        attempt = 2 + sum(one["event"] == "task.resumed" for one in self.events)
        keep = {"text": len(self._kept("token", retracts)), "thinking": len(self._kept("thinking", retracts))}
        data = {"attempt": attempt, "why": "restart", "planned": False, "retracts": retracts, "keep": keep}
        self.emit("task.resumed", data)

    def complete(self, output: str | None = None, result: Any = None) -> None:
        said = self.text if output is None else output
        if said != self.text:
            self.emit("final_answer", {"output": said})
        self._end("task.completed", {"output": said} if result is None else {"output": said, "result": result})

    def fail(self, **error: Any) -> None:
        full = {"code": "agent_error", "message": "it broke off", **error}
        self._end("task.failed", {"status": "failed", "error": full, "output": self.text})

    # ---- for the gateway

    def _cancelled(self) -> None:
        self.stopped.set()
        error = {"code": "cancelled", "message": "cancelled by the user"}
        self._end("task.failed", {"status": "cancelled", "error": error, "output": self.text})

    def _end(self, event: str, data: Line) -> None:
        self.emit(event, data)
        for answer in self._questions.values():
            if not answer.done():
                answer.set_result(None)

    @property
    def _retracted(self) -> list[list[int]]:
        """Pairs of numbers: the text between them is withdrawn."""
        resumed = [one for one in self.events if one["event"] == "task.resumed"]
        return [[one["data"].get("retracts", one["seq"]), one["seq"]] for one in resumed]

    def _kept(self, kind: str, last: int | None) -> str:
        """All text of a kind up to that event that was not withdrawn."""
        gone = self._retracted
        return "".join(
            one["data"]["text"]
            for one in self.events
            if one["event"] == kind
            and (last is None or one["seq"] <= last)
            and not any(after < one["seq"] < before for after, before in gone)
        )

    @property
    def _summary(self) -> Line:
        times = {one["event"]: one["ts"] for one in self.events}
        summary = {"task_id": self.task_id, "conversation_id": self.conversation_id, "agent": self.agent,
                   "type": self.type, "status": self.status, "head": len(self.events),
                   "created_at": times.get("task.created", _now())}
        more = {"question_id": self.question_id, "started_at": times.get("task.started"),
                "completed_at": None if self.live else self.events[-1]["ts"]}
        return {**summary, **{key: value for key, value in more.items() if value is not None}}

    def _respond(self, input_id: str, answer: bool | str) -> bool:
        asked = self._questions.pop(input_id, None)
        if asked is None or asked.done():
            return False
        loop = asyncio.get_running_loop()
        loop.call_soon(self.emit, "input_received", {"input_id": input_id, "answer": answer})
        loop.call_soon(asked.set_result, answer)
        return True


class _Socket:
    """A client's connection."""

    def __init__(self, wire: Any) -> None:
        self.wire = wire
        self.follows: set[str] = set()
        self.opened: set[str] = set()
        self.watches = False
        self.out: asyncio.Queue[Line] = asyncio.Queue()

    def tell(self, *lines: Line) -> None:
        for line in lines:
            self.out.put_nowait(line)

    async def write(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                await self.wire.send(json.dumps(await self.out.get(), ensure_ascii=False))


class _Conversation:
    def __init__(self, title: str) -> None:
        self.title = title
        self.updated_at = _now()
        self.tree = FakeTree()
        self.marks: Line = {}


class FakeGateway:
    """agents: one "assistant" by default.  answer: called for each task, may be async; without it the test speaks."""

    def __init__(
        self, *, agents: list[Line] | None = None, answer: Answer | None = None, owner: str = "fake"
    ) -> None:
        self.tasks: list[FakeTask] = []  # all that were started, the oldest first
        self.requests: list[Line] = []  # all that were received, hello and ping too
        self.is_down = False  # while true, attempts fail
        self.url = ""
        self._agents = agents or [{"name": "assistant", "default": True}]
        self._answer, self._owner = answer, owner
        self._sockets: set[_Socket] = set()
        self._conversations: dict[str, _Conversation] = {}
        self._refusals: dict[str, collections.deque[Line]] = collections.defaultdict(collections.deque)
        self._keys: dict[str, FakeTask] = {}
        self._taken = self._ids = 0
        self._begun = asyncio.Event()
        self._work: set[asyncio.Task[Any]] = set()
        self._server: Any = None

    async def __aenter__(self) -> "FakeGateway":
        self._server = await serve(self._serve, "127.0.0.1", 0, subprotocols=[SUBPROTOCOL])
        self.url = f"ws://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1/ws"
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in list(self._work):
            task.cancel()
        self._server.close()
        self.drop()
        await self._server.wait_closed()

    def connect(self, **options: Any) -> Client:
        """A client of it, with the options of `connect`; it comes back at once after a cut."""
        given: Line = {"token": "fake", "backoff_s": (0.001, 0.01), **options}
        return connect(self.url, **given)

    async def task(self) -> FakeTask:
        """The next task that nobody has taken, once it exists."""
        at, self._taken = self._taken, self._taken + 1
        while len(self.tasks) <= at or not self.tasks[at].events:
            self._begun.clear()
            await self._begun.wait()
        return self.tasks[at]

    def drop(self) -> None:
        """Cuts all connections."""
        for socket in list(self._sockets):
            self._sockets.discard(socket)
            socket.wire.transport.abort()

    def refuse(self, kind: str, code: str, message: str | None = None, **more: Any) -> None:
        """The next request of this type gets this error: a limit, a sign-in (`hello`), a conflict …"""
        self._refusals[kind].append({"type": "error", "code": code, "message": message or code, **more})

    # ---- a connection

    async def _serve(self, wire: Any, *_: object) -> None:
        socket = _Socket(wire)
        if self.is_down:
            wire.transport.abort()
            return
        self._sockets.add(socket)
        writing = asyncio.ensure_future(socket.write())
        try:
            with contextlib.suppress(ConnectionClosed):
                async for message in wire:
                    for text in filter(None, str(message).split("\n")):
                        await self._take(socket, json.loads(text))
        finally:
            writing.cancel()
            self._sockets.discard(socket)

    async def _take(self, socket: _Socket, asked: Line) -> None:
        self.requests.append(asked)
        kind, name = asked["type"], {"id": asked["id"]} if "id" in asked else {}
        if self._refusals[kind]:
            refusal = {**self._refusals[kind].popleft(), **name}
            if kind != "hello":
                socket.tell(refusal)
                return
            await socket.wire.send(json.dumps(refusal))
            await socket.wire.close(4401)
            return
        handler = getattr(self, f"_on_{kind}", None)
        if handler is None:
            socket.tell({"type": "error", "code": "unsupported", "message": f"no such type: {kind}", **name})
            return
        reply, *rest = handler(asked, socket)
        socket.tell({**reply, **name}, *rest)

    def _soon(self, function: Callable[..., object], *arguments: Any) -> None:
        asyncio.get_running_loop().call_soon(function, *arguments)

    def _task(self, asked: Line) -> FakeTask | None:
        its = (one for one in self._tasks_of(asked["conversation_id"]) if one.task_id == asked["task_id"])
        return next(its, None)

    def _on_hello(self, _: Line, __: _Socket) -> list[Line]:
        return [{"type": "welcome", "owner": self._owner, "agents": self._agents, "limits": {"message_bytes": 65536}}]

    def _on_ping(self, _: Line, __: _Socket) -> list[Line]:
        return [{"type": "pong", "ts": _now()}]

    def _on_resume(self, asked: Line, socket: _Socket) -> list[Line]:
        task, after = self._task(asked), asked.get("after", 0)
        if task is None:
            return [NOT_FOUND]
        head = len(task.events)
        if after > head:
            return [{"type": "error", "code": "out_of_range", "message": "after is beyond the head", "head": head}]
        if task.live:
            socket.follows.add(task.task_id)
        summary = {**task._summary, "retracted": task._retracted}
        resumed = {"type": "resumed", "task": summary, "after": after, "head": head}
        return [resumed, *task.events[after:], {"type": "caught_up", "task_id": task.task_id, "seq": head}]

    def _on_unsubscribe(self, asked: Line, socket: _Socket) -> list[Line]:
        socket.follows.discard(asked["task_id"])
        return [OK]

    def _on_cancel(self, asked: Line, _: _Socket) -> list[Line]:
        task = self._task(asked)
        return [NOT_FOUND] if task is None else self._cancel([task] if task.live else [])

    def _on_cancel_all(self, asked: Line, _: _Socket) -> list[Line]:
        return self._cancel([task for task in self._tasks_of(asked["conversation_id"]) if task.live])

    def _on_respond(self, asked: Line, _: _Socket) -> list[Line]:
        task = self._task(asked)
        return [OK if task and task._respond(asked["input_id"], asked["answer"]) else NOT_FOUND]

    def _on_send(self, asked: Line, _: _Socket) -> list[Line]:
        task = self._task(asked)
        if task is None:
            return [NOT_FOUND]
        if not task.live:
            return [{"type": "error", "code": "task_terminated", "message": "the task has ended"}]
        self._soon(task.emit, "message", {"from": "user", "content": asked["content"]})
        return [OK]

    def _on_open(self, asked: Line, socket: _Socket) -> list[Line]:
        conversation_id = asked["conversation_id"]
        socket.opened.add(conversation_id)
        tasks = [task._summary for task in self._tasks_of(conversation_id)]
        page = self._page(conversation_id, asked.get("limit", PAGE))
        return [{"type": "conversation", "conversation_id": conversation_id, "messages": page["messages"],
                 "tasks": tasks, "branch": self._branch(conversation_id)}]

    def _on_close(self, asked: Line, socket: _Socket) -> list[Line]:
        socket.opened.discard(asked["conversation_id"])
        return [OK]

    def _on_watch(self, _: Line, socket: _Socket) -> list[Line]:
        socket.watches = True
        return [OK]

    def _on_task(self, asked: Line, _: _Socket) -> list[Line]:
        task = self._task(asked)
        return [{"type": "task", "task": self._record(task)} if task else NOT_FOUND]

    def _on_tasks(self, asked: Line, _: _Socket) -> list[Line]:
        return [{"type": "tasks", "tasks": [task._summary for task in self._tasks_of(asked["conversation_id"])]}]

    def _on_history(self, asked: Line, _: _Socket) -> list[Line]:
        page = self._page(asked["conversation_id"], asked.get("limit", PAGE), asked.get("before"), asked.get("all"))
        return [{"type": "history", **page}]

    def _on_branch(self, asked: Line, _: _Socket) -> list[Line]:
        conversation = self._conversations.get(asked["conversation_id"])
        if conversation is None or not conversation.tree.choose(asked["message_id"]):
            return [NOT_FOUND]
        return [self._chose(asked["conversation_id"])]

    def _on_conversations(self, asked: Line, _: _Socket) -> list[Line]:
        rows = [] if asked.get("before") else self._list()
        for mark in ("pinned", "archived"):
            rows = [row for row in rows if asked.get(mark) is None or asked[mark] == bool(row.get(mark))]
        return [{"type": "conversations", "conversations": rows}]

    def _on_pin(self, asked: Line, _: _Socket) -> list[Line]:
        return self._mark(asked["conversation_id"], "pinned", asked["pinned"])

    def _on_archive(self, asked: Line, _: _Socket) -> list[Line]:
        return self._mark(asked["conversation_id"], "archived", asked["archived"])

    def _on_title(self, asked: Line, _: _Socket) -> list[Line]:
        conversation = self._conversations.get(asked["conversation_id"])
        if conversation is None:
            return [NOT_FOUND]
        conversation.title = asked["title"]
        self._changed(asked["conversation_id"])
        return [OK]

    def _on_delete(self, asked: Line, _: _Socket) -> list[Line]:
        conversation_id = asked["conversation_id"]
        self._cancel([task for task in self._tasks_of(conversation_id) if task.live])
        self._list_changed(conversation_id, deleted=True)
        self._conversations.pop(conversation_id, None)
        return [OK]

    def _on_results(self, _: Line, __: _Socket) -> list[Line]:
        return [{"type": "results", "results": []}]

    def _on_ack(self, asked: Line, _: _Socket) -> list[Line]:
        return [{**OK, "acked": len(asked["task_ids"])}]

    # ---- a chat

    def _on_chat(self, asked: Line, socket: _Socket) -> list[Line]:
        again = self._keys.get(asked.get("request_key", ""))
        if again is not None:
            if again.live:
                socket.follows.add(again.task_id)
            return [{"type": "started", "task": again._summary, "repeated": True}, *again.events]
        number = self._number()
        conversation_id = asked.get("conversation_id") or f"conversation-{number}"
        place = self._place_of(conversation_id, asked)
        if place is None:
            return [NOT_FOUND]
        default = next((one["name"] for one in self._agents if one.get("default")), self._agents[0]["name"])
        request = {**asked, "conversation_id": conversation_id, "agent": asked.get("agent") or default}
        task = FakeTask(self, f"task-{number}", request, place.get("question"))
        self.tasks.append(task)
        if "request_key" in asked:
            self._keys[asked["request_key"]] = task
        self._conversations.setdefault(conversation_id, _Conversation(task.input[:80]))
        self._soon(self._run, task, socket, place, "regenerate" in asked or "edit" in asked)
        return [{"type": "started", "task": task._summary}]

    def _place_of(self, conversation_id: str, asked: Line) -> Line | None:
        """Where a message goes; None: what it names is not there."""
        conversation = self._conversations.get(conversation_id)
        tree = conversation.tree if conversation else FakeTree()
        if "regenerate" in asked:
            named = tree.find(asked["regenerate"])
            of_task = next((one.question_id for one in self.tasks if one.task_id == asked["regenerate"]), None)
            question = tree.find(named["parent_id"]) if named and named["role"] == "assistant" else named
            question = question or tree.find(of_task or "")
            return {"parent": question["message_id"], "question": question} if question else None
        if "edit" in asked:
            edited = tree.find(asked["edit"], "user")
            return {"parent": edited["parent_id"]} if edited else None
        end = tree.find(asked["reply_to"]) if "reply_to" in asked else tree.end
        if end is None:
            return None if "reply_to" in asked else {"parent": None}
        runs = any(one.live for one in self.tasks if one.task_id == end["task_id"])
        return {"parent": end["message_id"], "until": end["task_id"] if end["role"] == "user" and runs else None}

    def _run(self, task: FakeTask, socket: _Socket, place: Line, is_branch: bool) -> None:
        """After the reply, which names the task."""
        socket.follows.add(task.task_id)
        tree = self._conversations[task.conversation_id].tree
        parts = {"parts": task.parts} if task.parts else {}
        task.emit("task.created", {"agent": task.agent, "input": task.input, **parts})
        question = place.get("question")
        if task.type == "chat" and question is None:
            message = {**self._message(task, "user", task.input, place["parent"]), "until": place.get("until"), **parts}
            tree.ask(message)
            self._said(task.conversation_id, message)
        if question is not None:
            tree.choose_question(question["message_id"])
        if is_branch:
            self._chose(task.conversation_id)
        task.emit("task.started", {})
        self._begun.set()
        answer = self._answer(task) if self._answer else None
        if inspect.isawaitable(answer):
            work = asyncio.ensure_future(answer)
            self._work.add(work)
            work.add_done_callback(self._work.discard)

    def _cancel(self, tasks: list[FakeTask]) -> list[Line]:
        for task in tasks:
            self._soon(task._cancelled)
        return [{**OK, "cancelled": len(tasks), "task_ids": [task.task_id for task in tasks]}]

    def _mark(self, conversation_id: str, mark: str, value: bool) -> list[Line]:
        """Its place in the list stays."""
        conversation = self._conversations.get(conversation_id)
        if conversation is None:
            return [{**NOT_FOUND, "message": "no such conversation"}]
        conversation.marks = {**conversation.marks, mark: value}
        conversation.marks = {key: on for key, on in conversation.marks.items() if on}
        self._list_changed(conversation_id)
        return [OK]

    # ---- unasked lines

    def _told(self, task: FakeTask, event: Line) -> None:
        for socket in self._sockets:
            if task.task_id in socket.follows:
                socket.tell(event)
            if event["event"].startswith("task.") and task.conversation_id in socket.opened:
                socket.tell({"type": "task", "task": task._summary})
        if not task.live and task.type == "chat" and event["data"].get("output"):
            self._answered(task, event["data"]["output"])
        if event["event"].startswith("task."):
            self._changed(task.conversation_id)

    def _answered(self, task: FakeTask, output: str) -> None:
        if task.conversation_id not in self._conversations:
            return
        tree = self._conversations[task.conversation_id].tree
        asked = tree.find(task.task_id, "user")
        parent = task.question_id or (asked["message_id"] if asked else None)
        message = self._message(task, "assistant", output, parent)
        tree.answer(message)
        self._said(task.conversation_id, message)

    def _message(self, task: FakeTask, role: str, content: str, parent_id: str | None) -> Line:
        partial = {"partial": True} if task.status in ("failed", "cancelled") else {}
        return {"message_id": f"message-{self._number()}", "parent_id": parent_id, "task_id": task.task_id,
                "role": role, "content": content, "created_at": _now(), **partial}

    def _said(self, conversation_id: str, message: Line) -> None:
        told = self._conversations[conversation_id].tree.told(message)
        self._tell(conversation_id, {"type": "message", "message": told})

    def _chose(self, conversation_id: str) -> Line:
        """Another branch is the current one."""
        branch = {key: value for key, value in (self._branch(conversation_id) or {}).items() if key != "siblings"}
        line = {"type": "branch", "conversation_id": conversation_id, **branch}
        self._soon(self._tell, conversation_id, line)
        return line

    def _tell(self, conversation_id: str, line: Line) -> None:
        for socket in self._sockets:
            if conversation_id in socket.opened:
                socket.tell({"conversation_id": conversation_id, **line})

    def _changed(self, conversation_id: str) -> None:
        if conversation_id in self._conversations:
            self._conversations[conversation_id].updated_at = _now()
        self._list_changed(conversation_id)

    def _list_changed(self, conversation_id: str, **more: Any) -> None:
        for listed in (row for row in self._list() if row["conversation_id"] == conversation_id):
            for socket in self._sockets:
                if socket.watches:
                    socket.tell({"type": "conversation_changed", "conversation": listed, **more})

    # ---- its contents

    def _number(self) -> str:
        self._ids += 1
        return f"{self._ids:06}"

    def _record(self, task: FakeTask) -> Line:
        last = task.events[-1]["data"] if task.events and not task.live else {}
        return {**task._summary, **{key: last[key] for key in ("output", "result", "error") if key in last}}

    def _branch(self, conversation_id: str) -> Line | None:
        if conversation_id not in self._conversations:
            return None
        tree = self._conversations[conversation_id].tree
        end = tree.end or {}
        its = [one.task_id for one in self.tasks
               if (one.question_id == end.get("message_id") if one.question_id else one.task_id == end.get("task_id"))]
        return tree.branch(its[-1] if its else None)

    def _page(self, conversation_id: str, limit: int, before: str | None = None, all: bool | None = None) -> Line:
        """The newest messages of the current branch, or those before one."""
        if conversation_id not in self._conversations:
            return {"messages": []}
        tree = self._conversations[conversation_id].tree
        path = tree.all() if all else tree.path()
        names = [message["message_id"] for message in path]
        at = names.index(before) if before in names else len(path) if before is None else 0
        begin = max(0, at - limit)
        return {"messages": path[begin:at], **({"more": True} if begin else {})}

    def _tasks_of(self, conversation_id: str) -> list[FakeTask]:
        if conversation_id not in self._conversations:
            return []
        return [task for task in self.tasks if task.conversation_id == conversation_id]

    def _list(self) -> list[Line]:
        rows = [
            {"conversation_id": name, "title": one.title, **one.marks, "updated_at": one.updated_at,
             "running": sum(task.live for task in self._tasks_of(name))}
            for name, one in self._conversations.items()
        ]
        return sorted(rows, key=lambda row: -int(row["updated_at"]))
