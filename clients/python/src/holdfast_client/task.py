"""One task: its events, each once, over any number of connections; its end; cancel, answers and messages.

Every loop over events() has a cursor and a bounded queue of its own.  A loop that is slower than the task delays
nobody: what its queue has no room for is not kept, and read again from the gateway when the loop has come that far.
"""

from __future__ import annotations

import asyncio
import collections
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .errors import HoldfastError, TaskFailed
from .transcript import Question, Transcript

if TYPE_CHECKING:
    from .client import Client

TERMINAL = ("task.completed", "task.failed")
ENDED = ("completed", "failed", "cancelled")
QUEUE = 1000  # events that wait for one loop

Line = dict[str, Any]


@dataclass(frozen=True)
class Event:
    """name is the wire's `event`; `reset` is the client's own: there is a gap, and the next event is data["first"]."""

    name: str
    seq: int
    data: Line
    ts: int = 0
    first: int = 0  # of merged pieces of text, the seq of the oldest; else seq

    @property
    def is_last(self) -> bool:
        return self.name in TERMINAL


@dataclass(frozen=True)
class Result:
    status: str
    output: str
    result: Any = None


@dataclass(eq=False)
class Cursor:
    """A loop's place in the stream."""

    seq: int
    exact: bool
    epoch: int = 0  # of the history that seq is of: PROTOCOL.md 4
    queue: collections.deque[Event] = field(default_factory=collections.deque)
    is_behind: bool = True  # it must be read again from seq
    is_over: bool = False  # the stream has ended where it is
    error: HoldfastError | None = None
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, event: Event) -> None:
        self.queue.append(event)
        self.seq = event.seq
        self.wake.set()


class Task:
    def __init__(self, client: "Client", conversation_id: str, task_id: str) -> None:
        self._client = client
        self.conversation_id = conversation_id
        self.task_id = task_id
        self.summary: Line = {}  # the gateway's newest
        self._cursors: list[Cursor] = []
        self._has_ended = False

    def __repr__(self) -> str:
        return f"<Task {self.task_id} {self.status}>"

    @property
    def status(self) -> str:
        return str(self.summary.get("status", "pending"))

    @property
    def _ids(self) -> Line:
        return {"conversation_id": self.conversation_id, "task_id": self.task_id}

    # ---- events

    async def events(self, after: int = 0, *, exact: bool = False) -> AsyncIterator[Event]:
        """Every event behind `after`, each once, to the last one.  Pieces of text from before the loop began may come
        merged, unless exact."""
        cursor = Cursor(after, exact, 0 if after else self._client.welcome.get("epoch", 0))
        self._cursors.append(cursor)
        try:
            while True:
                while cursor.queue:
                    event = cursor.queue.popleft()
                    yield event
                    if event.is_last:
                        return
                if cursor.error:
                    raise cursor.error
                if cursor.is_over:
                    return
                if cursor.is_behind:
                    await self._catch_up(cursor)
                else:
                    await cursor.wake.wait()
                    cursor.wake.clear()
        finally:
            self._cursors.remove(cursor)
            if not self._cursors and not self._has_ended and not self._client.is_closed:
                self._client.later("unsubscribe", self._ids)

    async def transcripts(self) -> AsyncIterator[Transcript]:
        """The task's state so far, after each event: one object, which changes."""
        so_far = Transcript()
        async for event in self.events():
            so_far.tell(event.name, event.seq, event.data, event.first)
            yield so_far

    async def _catch_up(self, cursor: Cursor) -> None:
        """Resumes at the cursor: what others read of this task meanwhile, they skip."""
        merged = not cursor.exact and len(self._cursors) == 1
        fields = {**self._ids, "after": cursor.seq, "coalesce": merged or None, "epoch": cursor.epoch or None}

        def begin(reply: Line) -> None:
            self.summary = reply["task"]
            cursor.epoch = reply.get("epoch", 0)
            cursor.is_behind = False  # what follows in this very message is for it
            first = reply.get("first", 0)
            if first > cursor.seq + 1:
                cursor.put(Event("reset", first - 1, {"first": first}))

        try:
            await self._client.request("resume", fields, first=begin)
        except HoldfastError as error:
            if error.code != "out_of_range":
                raise
            cursor.put(Event("reset", 0, {"first": 1}))  # the gateway has lost what this loop has seen

    def on_event(self, line: Line) -> None:
        seq, first = line["seq"], line.get("from", line["seq"])
        event = Event(line["event"], seq, line.get("data", {}), line.get("ts", 0), first)
        if event.is_last:
            self._has_ended = True
            self.summary = {**self.summary, "status": event.data.get("status", "completed")}
        for cursor in self._cursors:
            if cursor.is_behind or seq <= cursor.seq:
                continue
            if first == cursor.seq + 1 and len(cursor.queue) < QUEUE:
                cursor.put(event)
            else:
                cursor.is_behind = True
                cursor.wake.set()

    def on_caught_up(self, line: Line) -> None:
        """Nothing follows in a stream that has ended, also when its last event came to nobody here."""
        for cursor in self._cursors:
            if self.status in ENDED and cursor.seq >= line["seq"] and not cursor.is_behind:
                cursor.is_over = True
                cursor.wake.set()

    def on_error(self, line: Line) -> None:
        """The gateway cannot go on with this stream."""
        error = HoldfastError.of(line)
        for cursor in self._cursors:
            if error.retry_after_s is None:
                cursor.error = error
                cursor.wake.set()
            else:
                asyncio.get_running_loop().call_later(error.retry_after_s, self._fall_behind, cursor)

    @staticmethod
    def _fall_behind(cursor: Cursor) -> None:
        cursor.is_behind = True
        cursor.wake.set()

    def on_lost(self) -> None:
        for cursor in self._cursors:
            self._fall_behind(cursor)

    def on_end(self, error: HoldfastError) -> None:
        for cursor in self._cursors:
            cursor.error = error
            self._fall_behind(cursor)

    # ---- requests

    async def record(self) -> Line:
        """The gateway's whole record, with output and result."""
        reply = await self._client.request("task", self._ids)
        self.summary = reply["task"]
        return self.summary

    async def result(self) -> Result:
        """Waits for the end; raises TaskFailed."""
        record = await self.record()
        if record["status"] not in ENDED:
            async for event in self.events(record.get("head", 0)):
                pass
            record = await self.record()
        output = record.get("output") or ""
        if record["status"] != "completed":
            raise TaskFailed(record["status"], record.get("error"), output)
        return Result("completed", output, record.get("result"))

    async def cancel(self, *, tree: bool = False) -> int:
        """Asks it to stop, and says how many tasks it stopped; its end comes as an event."""
        reply = await self._client.request("cancel", {**self._ids, "tree": tree or None})
        return int(reply["cancelled"])

    async def respond(self, input_id: str, answer: bool | str) -> None:
        await self._client.request("respond", {**self._ids, "input_id": input_id, "answer": answer})

    async def allow(self, question: Question, *, always: bool = False) -> None:
        """Approves it: this once, or with `always` all of its kind in this conversation, where that is offered."""
        await self.respond(question.input_id, question.allowed(always=always))

    async def deny(self, question: Question) -> None:
        await self.respond(question.input_id, question.denied())

    async def send(self, content: str) -> None:
        """A message for its inbox.  Not safe to repeat: `connection_lost` says that it may have arrived."""
        await self._client.request("send", {**self._ids, "content": content}, kept=False)
