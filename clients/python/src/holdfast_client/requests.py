"""Requests that were not answered yet.

A kept request is safe to repeat: it is sent again on each connection until it is answered.  Any other fails when its
connection is lost.  Both wait while there is no connection, and up to a minute when the gateway has no room.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from typing import Any

from .errors import HoldfastError

LONGEST_WAIT_S = 60.0  # a longer one is the user's decision: the store may be full until tomorrow

Line = dict[str, Any]


class Pending:
    def __init__(self, text: str, kept: bool, first: Callable[[Line], None] | None) -> None:
        self.text = text
        self.kept = kept
        self.first = first  # called with the reply before the lines behind it are read
        self.sent = False
        self.reply: asyncio.Future[Line] = asyncio.get_running_loop().create_future()


class Requests:
    def __init__(self, send: Callable[[str], Awaitable[None]]) -> None:
        self._send = send
        self._pending: dict[str, Pending] = {}
        self._ids = map(str, itertools.count(1))
        self._live = False
        self._max_bytes = 0
        self._end: HoldfastError | None = None
        self._work: set[asyncio.Task[None]] = set()

    async def ask(
        self, verb: str, fields: Line, *, kept: bool = True, first: Callable[[Line], None] | None = None
    ) -> Line:
        """The reply; raises HoldfastError."""
        if self._end:
            raise self._end
        name = next(self._ids)
        line = {key: value for key, value in fields.items() if value is not None}
        pending = Pending(json.dumps({**line, "type": verb, "id": name}, ensure_ascii=False), kept, first)
        self._pending[name] = pending
        self._put(name)
        try:
            return await pending.reply
        finally:
            self._pending.pop(name, None)

    def _put(self, name: str) -> None:
        pending = self._pending.get(name)
        if not pending or not self._live or pending.sent:
            return
        if len(pending.text.encode()) > self._max_bytes:
            self._fail(name, HoldfastError("too_large", f"longer than {self._max_bytes} bytes"))
            return
        pending.sent = True
        sending = asyncio.ensure_future(self._send(pending.text))
        self._work.add(sending)  # the loop itself holds no reference
        sending.add_done_callback(self._work.discard)

    def _fail(self, name: str, error: HoldfastError) -> None:
        pending = self._pending.pop(name)
        if not pending.reply.done():
            pending.reply.set_exception(error)

    def settle(self, line: Line) -> bool:
        """Takes an answer; False when it is not ours."""
        name = str(line.get("id"))
        pending = self._pending.get(name)
        if not pending:
            return False
        if line.get("type") != "error":
            del self._pending[name]
            if pending.first:
                pending.first(line)
            if not pending.reply.done():
                pending.reply.set_result(line)
            return True
        error = HoldfastError.of(line)
        if error.retry_after_s is None or error.retry_after_s > LONGEST_WAIT_S:
            self._fail(name, error)
        else:
            pending.sent = False
            asyncio.get_running_loop().call_later(error.retry_after_s, self._put, name)
        return True

    def connected(self, max_bytes: int) -> None:
        self._live, self._max_bytes = True, max_bytes
        for name in list(self._pending):
            self._put(name)

    def lost(self) -> None:
        self._live = False
        for name, pending in list(self._pending.items()):
            if pending.sent and not pending.kept:
                self._fail(name, HoldfastError("connection_lost", "the connection was lost: it may have arrived"))
            pending.sent = False

    def drop(self, error: HoldfastError) -> None:
        """Nobody will answer any more."""
        self._live, self._end = False, error
        for name in list(self._pending):
            self._fail(name, error)
