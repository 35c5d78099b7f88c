"""The client: routes lines to those whom they concern, and keeps requests through lost connections."""

from __future__ import annotations

import asyncio
import ssl as tls
import uuid
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

from .connection import Connection, TokenSource, address_of
from .conversation import Conversation
from .errors import HoldfastError
from .files import Files
from .list import ConversationList
from .outbox import Outbox
from .requests import Requests
from .store import Store
from .task import Task
from .watch import Watch

Line = dict[str, Any]


def connect(
    url: str,
    *,
    token: TokenSource = None,
    store: str | None = None,
    backoff_s: tuple[float, float] = (0.5, 30.0),
    name: str = "holdfast-client-python",
    ssl: tls.SSLContext | None = None,
) -> "Client":
    """A client that connects at once, and again after every loss; requests wait for the connection.

    url: ws://HOST:PORT or wss://HOST; another one is `bad_url`.
    token: a string, or a function (also async) that gets the token that is no longer valid, or None; without it the
    client is a guest.  store: a file for unsent messages and the guest's token.  backoff_s: the first wait is a random
    part of the first number, each further one of twice as much, up to the second.  ssl: for wss, where the system's certificates are not the right ones, or the gateway
    wants one of its clients.
    """
    address = address_of(url)
    if ssl is not None and not address.startswith("wss:"):
        raise HoldfastError("bad_url", f"ssl is for wss://HOST, and this is {url!r}")
    return Client(address, token=token, store=store, backoff_s=backoff_s, name=name, ssl=ssl)


class Client:
    def __init__(
        self,
        url: str,
        *,
        token: TokenSource,
        store: str | None,
        backoff_s: tuple[float, float],
        name: str,
        ssl: tls.SSLContext | None,
    ) -> None:
        self.owner: str | None = None
        self.agents: list[Line] = []
        self.welcome: Line = {}
        self._error: HoldfastError | None = None
        self._live = asyncio.Event()
        self._tasks: weakref.WeakValueDictionary[str, Task] = weakref.WeakValueDictionary()
        self._conversations: weakref.WeakValueDictionary[str, Conversation] = weakref.WeakValueDictionary()
        self._work: set[asyncio.Task[Any]] = set()
        self._watch: Watch | None = None
        self._store = Store(store, url)
        self._requests = Requests(self._send)
        self.listed = ConversationList(self)
        self.files = Files(url, ssl=ssl)
        self.connection = Connection(url, self, self._store, token, backoff_s=backoff_s, name=name, ssl=ssl)
        self.outbox = Outbox(self, self._store)

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Waiting requests fail with `closed`; unsent messages stay in the store."""
        if self.is_closed:
            return
        self.outbox.close()
        await self.connection.close()
        self.on_end(HoldfastError("closed", "the client was closed"))
        await asyncio.gather(*self._work, return_exceptions=True)
        self._store.close()

    @property
    def state(self) -> str:
        """connecting, live, waiting or closed."""
        return self.connection.state

    @property
    def trouble(self) -> str | None:
        """Why the last attempt to connect failed; None while it is live."""
        return self.connection.trouble

    @property
    def is_closed(self) -> bool:
        return self._error is not None

    async def live(self) -> None:
        """Waits for the connection; raises when there will be none."""
        await self._live.wait()
        if self._error:
            raise self._error

    def conversation(self, conversation_id: str | None = None) -> Conversation:
        """The conversation of this id, the same object each time; a new id without one."""
        conversation_id = conversation_id or str(uuid.uuid4())
        found = self._conversations.get(conversation_id)
        if found is None:
            found = self._conversations[conversation_id] = Conversation(self, conversation_id)
        return found

    def task(self, conversation_id: str, task_id: str) -> Task:
        found = self._tasks.get(task_id)
        if found is None:
            found = self._tasks[task_id] = Task(self, conversation_id, task_id)
        return found

    async def conversations(self, *, limit: int | None = None, before: str | None = None) -> list[Line]:
        reply = await self.request("conversations", {"limit": limit, "before": before})
        return list(reply["conversations"])

    async def search(self, query: str, *, limit: int | None = None, before: str | None = None) -> Line:
        """`conversations` whose titles have all words of the query, and `messages`, newest first; while there is `more`, ask
        again with the reply's `before`."""
        return await self.request("search", {"query": query, "limit": limit, "before": before})

    def watch(self, cursor: str | None = None, *, rollup_ms: int | None = None) -> Watch:
        """The events of all tasks of this owner, each once and in order within its task; `async for`.  cursor: what an
        earlier watch had in `cursor`; without it, all live tasks and all that come.  A client has one watch."""
        if self._watch:
            raise HoldfastError("conflict", "this client has a watch already")
        self._watch = Watch(self, cursor, rollup_ms)
        return self._watch

    def unwatch(self, watch: Watch) -> None:
        if self._watch is watch:
            self._watch = None
            if not self.is_closed:
                self.later("watch", {"events": False})

    async def import_lines(self, lines: list[Line], *, title: str | None = None) -> Conversation:
        """A new conversation of the lines of an export, without its events; a long one goes over HTTP."""
        kept = [line for line in lines if line.get("type") != "event"]
        named = {} if title is None else {"title": title}
        reply = await self.request("import", {"lines": kept, **named}, kept=False)
        return self.conversation(reply["conversation_id"])

    async def shares(self, conversation_id: str | None = None) -> list[Line]:
        """All that are good still, newest first."""
        found: list[Line] = []
        while True:
            before = found[-1]["share_id"] if found else None
            fields = {"conversation_id": conversation_id, "limit": 200, "before": before}
            reply = await self.request("shares", fields)
            found += reply["shares"]
            if not reply.get("more"):
                return found

    async def unshare(self, share_id: str) -> None:
        await self.request("unshare", {"share_id": share_id}, kept=False)

    async def handover(self) -> Line:
        """`code`, which brings this owner to another device, once and within two minutes."""
        return await self.request("handover", {}, kept=False)

    async def request(
        self, verb: str, fields: Line, *, kept: bool = True, first: Callable[[Line], None] | None = None
    ) -> Line:
        """Any request of the protocol.  kept: it is safe to repeat, and sent again after a lost connection."""
        return await self._requests.ask(verb, fields, kept=kept, first=first)

    async def start(self, request: Line) -> Task:
        """A chat; events that come with it wait for nobody: events() reads them from the gateway."""
        found: list[Task] = []

        def begin(reply: Line) -> None:
            summary = reply["task"]
            task = self.task(summary["conversation_id"], summary["task_id"])
            task.summary = summary
            found.append(task)

        await self.request("chat", request, first=begin)
        return found[0]

    def later(self, verb: str, fields: Line) -> None:
        """A request whose reply interests nobody."""
        self._begin(self.request(verb, fields, kept=False))

    def _begin(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.ensure_future(work)
        self._work.add(task)  # the loop itself holds no reference
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._work.discard(task)
        if not task.cancelled():
            task.exception()  # nobody asks

    # ---- for the connection

    async def _send(self, text: str) -> None:
        await self.connection.send(text)

    def on_welcome(self, line: Line) -> None:
        self.welcome, self.owner, self.agents = line, line["owner"], line.get("agents", [])
        self._live.set()
        self._requests.connected(line.get("limits", {}).get("message_bytes", 65536))
        for conversation in list(self._conversations.values()):
            if conversation.is_open:
                self._begin(conversation.open())
        if self.listed.is_open and self.listed.loaded:
            self._begin(self.listed.open())

    def on_line(self, line: Line) -> None:
        kind = line.get("type")
        if self._watch and kind in ("event", "following", "cursor"):
            self._watch.on_line(line)
        if kind == "event":
            task = self._tasks.get(line["task_id"])
            if task:
                task.on_event(line)
        elif kind == "caught_up":
            task = self._tasks.get(line["task_id"])
            if task:
                task.on_caught_up(line)
        elif kind == "conversation_changed":
            self.listed.on_line(line)
        elif kind in ("task", "message", "branch") and "id" not in line:
            self._on_push(line)
        elif not self._requests.settle(line) and kind == "error":
            task = self._tasks.get(line.get("task_id", ""))
            if task:
                task.on_error(line)

    def _on_push(self, line: Line) -> None:
        summary = line.get("task", {})
        task = self._tasks.get(summary.get("task_id", ""))
        if task:
            task.summary = summary
        conversation = self._conversations.get(line.get("conversation_id") or summary.get("conversation_id", ""))
        if conversation:
            conversation.on_line(line)

    def on_lost(self) -> None:
        if self._watch:
            self._watch.on_lost()
        self._live.clear()
        self._requests.lost()
        for task in list(self._tasks.values()):
            task.on_lost()

    def on_end(self, error: HoldfastError) -> None:
        self._error = error
        self._live.set()
        self._requests.drop(error)
        if self._watch:
            self._watch.on_end(error)
        for task in list(self._tasks.values()):
            task.on_end(error)
        self.listed.on_end()
        for conversation in list(self._conversations.values()):
            conversation.on_line({"type": "closed"})
