"""Messages that are not known to have started.

A message is stored before it is sent, and until `started` comes.  Its request key makes one task of it, however often
it is sent: after a lost connection, by the next process that opens the same store, or by two of them.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from .errors import HoldfastError
from .store import Store
from .task import Result, Task

if TYPE_CHECKING:
    from .client import Client

Line = dict[str, Any]


class Outgoing:
    """`await` it, or its `started`, for the task that answers."""

    def __init__(self, request: Line, owner: str | None) -> None:
        self.request = request
        self.owner = owner  # who asked, if that was known
        self.state = "queued"  # then started, or failed
        self.error: HoldfastError | None = None
        self.started: asyncio.Future[Task] = asyncio.get_running_loop().create_future()
        self.started.add_done_callback(lambda f: f.cancelled() or f.exception())  # nobody need look
        self.work: asyncio.Task[None] | None = None

    def __await__(self) -> Generator[Any, None, Task]:
        return asyncio.shield(self.started).__await__()

    async def result(self) -> Result:
        """Waits for the answer's end; raises TaskFailed."""
        return await (await self).result()

    @property
    def key(self) -> str:
        return str(self.request["request_key"])

    @property
    def text(self) -> str:
        message = self.request["message"]
        if isinstance(message, str):
            return message
        return "\n".join(part["text"] for part in message if part.get("type") == "text")

    def fail(self, error: HoldfastError) -> None:
        self.state, self.error = "failed", error
        if not self.started.done():
            self.started.set_exception(error)


class Outbox:
    def __init__(self, client: "Client", store: Store) -> None:
        self._client, self._store = client, store
        self._order: dict[str, asyncio.Lock] = {}  # by conversation: none overtakes one that waits for room
        self.items: list[Outgoing] = []
        for owner, request in store.waiting():
            self._begin(Outgoing(request, owner))

    def add(self, request: Line) -> Outgoing:
        request = {**request, "request_key": request.get("request_key") or str(uuid.uuid4())}
        one = Outgoing(request, self._client.owner)
        self._store.put(one.key, one.owner, request)
        self._begin(one)
        return one

    def discard(self, one: Outgoing) -> None:
        """Forgets it.  If it was sent already it may have started."""
        if one in self.items:
            self._forget(one)
            if one.work:
                one.work.cancel()
            one.fail(HoldfastError("discarded", "discarded"))

    def close(self) -> None:
        """Messages that have not started stay in the store."""
        for one in self.items:
            if one.work:
                one.work.cancel()
            one.fail(HoldfastError("closed", "the client was closed"))

    def _begin(self, one: Outgoing) -> None:
        self.items.append(one)
        one.work = asyncio.ensure_future(self._send(one))

    def _forget(self, one: Outgoing) -> None:
        self.items.remove(one)
        self._store.remove(one.key)

    def _is_foreign(self, one: Outgoing) -> bool:
        """Somebody else is signed in now.  A guest who got a new name is still the same person."""
        now, then = self._client.owner or "", one.owner or ""
        return bool(then) and then != now and not (then.startswith("guest-") and now.startswith("guest-"))

    async def _send(self, one: Outgoing) -> None:
        conversation = str(one.request.get("conversation_id"))
        async with self._order.setdefault(conversation, asyncio.Lock()):
            try:
                await self._client.live()
                if self._is_foreign(one):
                    self.items.remove(one)  # it stays stored for whoever asked
                    one.fail(HoldfastError("owner_changed", "somebody else is signed in now"))
                    return
                task = await self._client.start(one.request)
            except HoldfastError as error:
                if error.code != "closed":
                    self._forget(one)
                one.fail(error)
                return
        self._forget(one)
        one.state = "started"
        if not one.started.done():
            one.started.set_result(task)
