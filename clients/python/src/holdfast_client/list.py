"""The owner's conversations, the one that changed last first, kept up to date over reconnects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client import Client

Line = dict[str, Any]

PAGE = 50
MOST = 200


class ConversationList:
    """items: as `Client.conversations` has them.  has_older: `older()` finds more."""

    def __init__(self, client: "Client") -> None:
        self.loaded = False
        self.has_older = False
        self._client = client
        self._items: dict[str, Line] = {}
        self._oldest: str | None = None  # of the pages: others below it may be known too
        self._wakes: list[asyncio.Event] = []
        self._is_closed = False

    @property
    def items(self) -> list[Line]:
        return sorted(self._items.values(), key=lambda one: -int(one["updated_at"]))

    async def changes(self) -> AsyncIterator[list[Line]]:
        """The items as soon as they are known, and after each change; those of a loop that is slow come at once."""
        wake = asyncio.Event()
        self._wakes.append(wake)
        try:
            if len(self._wakes) == 1 or not self.loaded:
                await self._client.live()
                await self.open()
            else:
                wake.set()
            while True:
                await wake.wait()
                wake.clear()
                if self._is_closed:
                    return
                yield self.items
        finally:
            self._wakes.remove(wake)

    async def older(self) -> bool:
        """Loads the next page; whether there are still older ones."""
        reply = await self._client.request("conversations", {"limit": PAGE, "before": self._oldest})
        self._add(reply)
        return self.has_older

    # ---- for the client

    @property
    def is_open(self) -> bool:
        return bool(self._wakes)

    async def open(self) -> None:
        """Pushes count from now on; then all that is known is read anew."""
        limit = min(MOST, max(PAGE, len(self._items)))
        await self._client.request("watch", {}, first=lambda _: self._items.clear())
        await self._client.request("conversations", {"limit": limit}, first=self._begin)

    def on_line(self, line: Line) -> None:
        if not self._wakes:
            return
        conversation = line["conversation"]
        name = conversation["conversation_id"]
        if name == self._oldest:  # gone, or first now
            names = [one["conversation_id"] for one in self.items]
            at = names.index(name) if name in names else 0
            self._oldest = names[at - 1] if at else None
        if line.get("deleted"):
            self._items.pop(name, None)
        else:
            self._items[name] = conversation
        if self.loaded:
            self._changed()

    def on_end(self) -> None:
        self._is_closed = True
        self._changed()

    def _begin(self, reply: Line) -> None:
        self._items.clear()
        self._oldest = None
        self._add(reply)

    def _add(self, reply: Line) -> None:
        for one in reply["conversations"]:
            self._items[one["conversation_id"]] = one
            self._oldest = one["conversation_id"]
        self.has_older = bool(reply.get("more"))
        self.loaded = True
        self._changed()

    def _changed(self) -> None:
        for wake in self._wakes:
            wake.set()
