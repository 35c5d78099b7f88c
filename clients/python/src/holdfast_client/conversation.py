"""One conversation: what is asked in it, its lists, and what changes in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from .outbox import Outgoing

if TYPE_CHECKING:
    from .client import Client

Line = dict[str, Any]


class Conversation:
    def __init__(self, client: "Client", conversation_id: str) -> None:
        self._client = client
        self.conversation_id = conversation_id
        self._listeners: list[asyncio.Queue[Line]] = []

    def ask(self, message: str, **options: Any) -> Outgoing:
        """A message; `await` it for the task.  options: the fields of `chat`: agent, background, when_busy …"""
        return self._client.outbox.add({**options, "conversation_id": self.conversation_id, "message": message})

    async def _request(self, verb: str, **fields: Any) -> Line:
        return await self._client.request(verb, {**fields, "conversation_id": self.conversation_id})

    async def history(self, *, limit: int | None = None, before: str | None = None) -> list[Line]:
        return list((await self._request("history", limit=limit, before=before))["messages"])

    async def tasks(self, *, limit: int | None = None, before: str | None = None) -> list[Line]:
        return list((await self._request("tasks", limit=limit, before=before))["tasks"])

    async def results(self) -> list[Line]:
        """Answers of background tasks that were not acknowledged."""
        return list((await self._request("results"))["results"])

    async def acknowledge(self, task_ids: list[str]) -> int:
        return int((await self._request("ack", task_ids=task_ids))["acked"])

    async def cancel_all(self) -> int:
        return int((await self._request("cancel_all"))["cancelled"])

    async def rename(self, title: str) -> None:
        await self._request("title", title=title)

    async def delete(self) -> None:
        await self._request("delete")

    async def changes(self) -> AsyncIterator[Line]:
        """The gateway's `conversation` snapshot, then its `task` and `message` lines, newest states; after each
        reconnect a snapshot again."""
        queue: asyncio.Queue[Line] = asyncio.Queue()
        self._listeners.append(queue)
        try:
            await self.open()
            while True:
                line = await queue.get()
                if line.get("type") == "closed":
                    return
                yield line
        finally:
            self._listeners.remove(queue)
            if not self._listeners and not self._client.is_closed:
                self._client.later("close", {"conversation_id": self.conversation_id})

    async def open(self) -> None:
        await self._client.request("open", {"conversation_id": self.conversation_id}, first=self.on_line)

    @property
    def is_open(self) -> bool:
        return bool(self._listeners)

    def on_line(self, line: Line) -> None:
        for queue in self._listeners:
            queue.put_nowait(line)
