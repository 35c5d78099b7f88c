"""The events of all of the owner's tasks, each once, over any number of connections.

A loop that is slower than the tasks delays nobody: what its queue has no room for is not kept, and asked for again from
the last cursor that the loop has passed.
"""

from __future__ import annotations

import asyncio
import collections
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .errors import HoldfastError
from .task import TERMINAL, Event, Line

if TYPE_CHECKING:
    from .client import Client

QUEUE = 5000  # lines that wait for the loop


@dataclass(frozen=True)
class Watched:
    """An event, and its task.  The watch's `cursor`, once it is past this event, goes on behind it."""

    task_id: str
    conversation_id: str
    event: Event


class Watch:
    def __init__(self, client: "Client", cursor: str | None, rollup_ms: int | None) -> None:
        self.cursor = cursor  # holds for all events that the loop has got
        self._client = client
        self._rollup_ms = rollup_ms
        self._queue: collections.deque[Line] = collections.deque()
        self._wake = asyncio.Event()
        self._asked = False  # on this connection
        self._error: HoldfastError | None = None
        self._closed = False
        self._connections = 0  # on which it was asked for
        self._tasks: dict[str, list[Any]] = {}  # id → conversation, last seq, the connection that told its end

    def __aiter__(self) -> "Watch":
        return self

    async def __anext__(self) -> Watched:
        while not self._closed:
            if not self._queue:
                await self._refill()
                continue
            found = self._take(self._queue.popleft())
            if found:
                return found
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """The gateway sends no more of it."""
        if not self._closed:
            self._closed = True
            self._wake.set()
            self._client.unwatch(self)

    async def _refill(self) -> None:
        if self._error:
            raise self._error
        if not self._asked:
            self._asked = True
            fields = {"events": True, "cursor": self.cursor, "rollup_ms": self._rollup_ms}
            await self._client.live()
            try:
                await self._client.request("watch", fields, kept=False, first=self._begins)
            except HoldfastError as error:
                if error.code != "connection_lost":
                    raise
                self._asked = False
            return
        self._wake.clear()
        if not self._queue and not self._closed:
            await self._wake.wait()

    def _begins(self, _: Line) -> None:
        self._queue.clear()
        self._connections += 1

    def _take(self, line: Line) -> Watched | None:
        if line["type"] == "cursor":
            self.cursor = line["cursor"]
            # Those that ended on this connection never come again; others may.
            self._tasks = {task: at for task, at in self._tasks.items() if at[2] != self._connections}
            return None
        if line["type"] == "following":
            task = line["task"]
            at = self._tasks.setdefault(task["task_id"], [task["conversation_id"], 0, 0])
            if line["after"] > at[1] or "epoch" in line and line["head"] < at[1]:
                at[1] = line["after"]  # retention has removed what was before; or the store has lost its end
            return None
        found = self._tasks.get(line["task_id"])
        if not found:
            return None
        if line["event"] in TERMINAL:
            found[2] = self._connections
        if line["seq"] <= found[1]:
            return None
        found[1] = line["seq"]
        event = Event(line["event"], line["seq"], line["data"], line["ts"], line.get("from", line["seq"]))
        return Watched(line["task_id"], found[0], event)

    # ---- for the client

    def on_line(self, line: Line) -> None:
        if not self._asked:
            return
        if len(self._queue) >= QUEUE:
            self._asked = False  # the rest is asked for when the loop has come so far
            return
        self._queue.append(line)
        self._wake.set()

    def on_lost(self) -> None:
        self._asked = False
        self._wake.set()

    def on_end(self, error: HoldfastError) -> None:
        self._error = error
        self._wake.set()
