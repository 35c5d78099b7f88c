"""One connection to the gateway, kept alive: hello and tokens, and a new attempt after every close that allows one.

             ┌───────────── the wait is over ─────────────┐
             ▼                                            │
        connecting ──welcome──▶ live ──close, silence──▶ waiting
             │                    │
             └── never come back ─┴──▶ closed
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import random
import ssl as tls
import time
import urllib.parse
from collections.abc import Awaitable, Callable
from typing import Any, Optional, Protocol, Union

from websockets import connect  # type: ignore[attr-defined]  # made when asked for
from websockets.exceptions import ConnectionClosed, WebSocketException

from .errors import HoldfastError
from .store import Store

SUBPROTOCOL = "holdfast.v1"
WELCOME_S = 15.0  # from the first step of an attempt to welcome
STEADY_S = 10.0  # after a connection this long, the next wait is a first one
CANCEL_S = 2.0  # for the closing handshake
REFUSALS = 3  # after this many refused tokens in a row, the token is not the cause

TokenFunction = Callable[[Optional[str]], Union[Optional[str], Awaitable[Optional[str]]]]
TokenSource = Union[None, str, TokenFunction]


log = logging.getLogger("holdfast_client")


def parse(text: str) -> dict[str, Any]:
    """A line that is not JSON is the gateway's fault, and must not affect the lines that came with it."""
    try:
        line = json.loads(text) if text else {}
    except ValueError:
        log.error("bad line: %.200s", text)
        line = {}
    return line if isinstance(line, dict) else {}


def address_of(url: str) -> str:
    """The gateway's WebSocket: http means ws, and without a path it is the usual one."""
    try:
        parts = urllib.parse.urlsplit(url)
        good = parts.scheme in ("ws", "wss", "http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise HoldfastError("bad_url", f"{url!r} must look like ws://127.0.0.1:8080, or wss://HOST with TLS")
    scheme = parts.scheme.replace("http", "ws")
    return urllib.parse.urlunsplit((scheme, parts.netloc, parts.path.rstrip("/") or "/v1/ws", parts.query, ""))


class Rim(Protocol):
    """Whom a connection tells: everything in the order in which it came."""

    def on_welcome(self, line: dict[str, Any]) -> None: ...

    def on_line(self, line: dict[str, Any]) -> None: ...

    def on_lost(self) -> None: ...

    def on_end(self, error: HoldfastError) -> None: ...


class Connection:
    def __init__(
        self,
        url: str,
        rim: Rim,
        store: Store,
        token: TokenSource,
        *,
        backoff_s: tuple[float, float],
        name: str,
        ssl: tls.SSLContext | None,
    ) -> None:
        self.state = "connecting"
        self.trouble: str | None = None  # why the last attempt failed
        self._url, self._rim, self._store, self._source = url, rim, store, token
        (self._base_s, self._cap_s), self._name = backoff_s, name
        self._more: dict[str, Any] = {} if ssl is None else {"ssl": ssl}
        self._socket: Any = None
        self._failures = self._refusals = 0
        self._token: str | None = None
        self._stale: str | None = None  # refused, or expired
        self._why: str | None = None  # why it was refused
        self._wait_s: float | None = None  # what the gateway said of coming back
        self._renewal: asyncio.Task[None] | None = None
        self._live_at = 0.0
        self._has_complained = False
        self._task = asyncio.ensure_future(self._run())

    async def send(self, text: str) -> None:
        if self._socket is not None and self.state == "live":
            log.debug("> %s", text)
            try:
                await self._socket.send(text)
            except ConnectionClosed:
                pass  # the reader finds out, and whoever asked hears of the loss

    async def close(self) -> None:
        while not self._task.done():  # wait_for of Python 3.11 may lose a cancel that comes with its result
            self._task.cancel()
            await asyncio.wait([self._task], timeout=CANCEL_S)
        self.state = "closed"

    # ---- attempts

    async def _run(self) -> None:
        while True:
            self.state = "connecting"
            began, code = time.monotonic(), None
            try:
                await self._attempt()
            except ConnectionClosed as closed:
                code = closed.rcvd.code if closed.rcvd else None
                self.trouble = str(closed)
            except (OSError, WebSocketException, asyncio.TimeoutError) as error:
                self.trouble = str(error) or type(error).__name__
            except HoldfastError as error:
                return self._end(error)
            except Exception as error:  # a fault of ours must not end in silence
                log.exception("the connection has failed")
                return self._end(HoldfastError("internal", str(error)))
            if self._was_live(began):
                self._failures = 0
            error_at_end = self._verdict(code)
            if error_at_end is not None:
                return self._end(error_at_end)
            self._complain()
            self.state = "waiting"
            await asyncio.sleep(self._wait(code))

    async def _attempt(self) -> None:
        """From the token to the end of the connection, which is an exception."""
        self._wait_s = None
        try:
            self._token = await self._fetch()
            self._socket = await asyncio.wait_for(
                connect(self._url, subprotocols=[SUBPROTOCOL], max_size=None, close_timeout=1, **self._more),
                WELCOME_S,
            )
            await self._hello()
            line = await asyncio.wait_for(self._welcome(), WELCOME_S)
            self._be_live(line)
            while True:
                self._read(await self._socket.recv())
        finally:
            await self._hang_up()

    async def _hang_up(self) -> None:
        socket, self._socket = self._socket, None
        if self._renewal:
            self._renewal.cancel()
        if self.state == "live":
            self.state = "waiting"
            self._rim.on_lost()
        if socket is not None:
            await socket.close()

    @property
    def token(self) -> str | None:
        """That of the newest attempt; a guest's, once there is one."""
        return self._token

    async def _fetch(self) -> str | None:
        """The token for this attempt; None is a guest's first one."""
        if self._source is None:
            if self._stale:
                self._store.forget_token()
            return self._store.token()
        if isinstance(self._source, str):
            if self._stale:
                raise HoldfastError("unauthorized", self._why or "the token is not valid")
            return self._source
        token = await self._ask(self._source, self._stale)
        if not token or token == self._stale:
            raise HoldfastError("unauthorized", self._why or "there is no valid token")
        return token

    @staticmethod
    async def _ask(source: TokenFunction, stale: str | None) -> str | None:
        given = source(stale)
        token: str | None = await given if inspect.isawaitable(given) else given  # type: ignore[assignment]
        return token

    async def _hello(self) -> None:
        hello = {"type": "hello", "id": "hello", "client": {"name": self._name}}
        if self._token:
            hello["token"] = self._token
        await self._socket.send(json.dumps(hello))

    async def _welcome(self) -> dict[str, Any]:
        while True:
            for text in str(await self._socket.recv()).split("\n"):
                line = parse(text)
                if line.get("type") == "welcome":
                    return line
                self._note(line)

    def _be_live(self, line: dict[str, Any]) -> None:
        if line.get("token") and not self._token:
            self._token = line["token"]
            self._store.keep_token(line["token"])
        self.trouble = self._stale = self._why = None
        self._has_complained = False
        self._refusals = 0
        self._live_at = time.monotonic()
        self.state = "live"
        self._rim.on_welcome(line)

    def _read(self, message: str | bytes) -> None:
        for text in str(message).split("\n"):
            log.debug("< %s", text)
            line = parse(text)
            if line and not self._note(line):
                self._rim.on_line(line)

    def _note(self, line: dict[str, Any]) -> bool:
        """Takes lines for the connection itself."""
        kind = line.get("type")
        if kind == "goaway":
            self._wait_s = random.random() * line.get("retry_after_ms", 0) / 1000
        elif kind == "token_expiring":
            self._renewal = asyncio.ensure_future(self._renew())
        elif kind == "error" and line.get("id") == "hello":
            self._why = line.get("message")
        elif kind == "error" and line.get("code") == "rate_limited" and "id" not in line:
            self._wait_s = line.get("retry_after_ms", 0) / 1000
        return line.get("id") == "hello" or kind in ("goaway", "token_expiring")

    async def _renew(self) -> None:
        """A second hello, with a fresh token.  When there is none, the close will tell."""
        if callable(self._source):
            token = await self._ask(self._source, self._token)
            if token:
                self._token = token
                await self._hello()

    # ---- after a close

    def _complain(self) -> None:
        """Once until it is live: a program that waits in silence looks like one that hangs."""
        if self.trouble and not self._has_complained:
            self._has_complained = True
            log.warning("no connection to %s: %s; it is tried again", self._url, self.trouble)

    def _was_live(self, began: float) -> bool:
        return self._live_at >= began and time.monotonic() - self._live_at >= STEADY_S

    def _verdict(self, code: int | None) -> HoldfastError | None:
        """The error that ends all attempts."""
        if code in (1007, 1008):
            return HoldfastError("closed", f"refused: {code}")
        if code != 4401:
            return None
        self._stale = self._token
        self._refusals += 1
        final = self._why is not None and (not self._token or self._refusals >= REFUSALS)
        return HoldfastError("unauthorized", self._why or "unauthorized") if final else None

    def _wait(self, code: int | None) -> float:
        if code == 1001 and self._wait_s is not None:
            return self._wait_s
        longest = min(self._cap_s, self._base_s * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return max(self._wait_s or 0.0, random.random() * longest)

    def _end(self, error: HoldfastError) -> None:
        self.state = "closed"
        self.trouble = error.message
        self._rim.on_end(error)
