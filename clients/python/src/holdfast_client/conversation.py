"""One conversation: what is asked in it, its lists, and what changes in it."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from .errors import HoldfastError
from .files import Progress, Source, give, read
from .outbox import Outgoing

if TYPE_CHECKING:
    from .client import Client
    from .task import Task

Line = dict[str, Any]


class Conversation:
    def __init__(self, client: "Client", conversation_id: str) -> None:
        self._client = client
        self.conversation_id = conversation_id
        self._listeners: list[asyncio.Queue[Line]] = []

    def ask(self, message: str | list[Line], **options: Any) -> Outgoing:
        """A message, a text or parts; `await` it for the task.  options: the fields of `chat`: agent, background, when_busy …;
        with `edit` it goes beside another message of the user's, with `reply_to` under one."""
        return self._client.outbox.add({**options, "conversation_id": self.conversation_id, "message": message})

    async def give(
        self,
        file: Source,
        *,
        name: str | None = None,
        media_type: str = "application/octet-stream",
        key: str | None = None,
        wait_s: float = 0.5,
        on_progress: Progress | None = None,
    ) -> Line:
        """Gives a file (its bytes, or its path), over any number of cuts; the part goes into the message of `ask`.

        key names the try over processes.  wait_s: about the first wait between two tries.  on_progress: gets the bytes
        that were sent, and all there are."""
        await self._client.live()
        return await give(
            self._client.files,
            self.conversation_id,
            lambda: self._client.connection.token,
            file,
            name=name,
            media_type=media_type,
            key=key,
            wait_s=wait_s,
            on_progress=on_progress,
        )

    async def read(self, file_id: str, to: str | os.PathLike[str] | None = None) -> bytes:
        """The bytes of a file; with `to` they are written there."""
        await self._client.live()
        return await read(self._client.files, self.conversation_id, self._client.connection.token, file_id, to)

    async def _request(self, verb: str, **fields: Any) -> Line:
        return await self._client.request(verb, {**fields, "conversation_id": self.conversation_id})

    async def regenerate(self, answer: str, **options: Any) -> "Task":
        """The task that answers once more what that message, or the answer of that task, has answered."""
        key = options.pop("request_key", None) or str(uuid.uuid4())
        task = (await self._request("chat", **options, request_key=key, regenerate=answer))["task"]
        return self._client.task(self.conversation_id, task["task_id"])

    async def branch(self, message_id: str) -> Line:
        """Makes the branch through that message the current one, for all devices."""
        return await self._request("branch", message_id=message_id)

    async def fork(self, message_id: str | None = None, *, title: str | None = None) -> "Conversation":
        """A new conversation of the current branch, or of the path to a message, or to a task's answer."""
        to = str(uuid.uuid4())
        fields = {"message_id": message_id, "title": title}
        given = {name: value for name, value in fields.items() if value is not None}
        try:
            await self._request("fork", to=to, **given)
        except HoldfastError as error:
            if error.code != "conflict":  # it was made before a cut
                raise
        return self._client.conversation(to)

    async def export(self) -> AsyncIterator[Line]:
        """Every line of the conversation: itself, its messages, its tasks with their events."""
        more: Line = {}
        while True:
            page = await self._request("export", **more)
            for line in page["lines"]:
                yield line
            if not page["more"]:
                return
            more = {"from": page["from"]}

    async def share(
        self,
        *,
        task_id: str | None = None,
        rights: list[str] | None = None,
        actor: str | None = None,
        expires_at: int | None = None,
    ) -> Line:
        """`share` and its `token`: a link that reads the conversation, or one task of it, or a member with more rights and
        an `actor`.  It ends with its time (Unix ms; a week), with `Client.unshare`, and with the conversation."""
        return await self._request("share", task_id=task_id, rights=rights, actor=actor, expires_at=expires_at)

    async def pin(self, pinned: bool = True) -> None:
        await self._request("pin", pinned=pinned)

    async def archive(self, archived: bool = True) -> None:
        await self._request("archive", archived=archived)

    async def history(
        self, *, limit: int | None = None, before: str | None = None, all: bool | None = None
    ) -> list[Line]:
        """The messages of the current branch; with `all` those of every branch."""
        return list((await self._request("history", limit=limit, before=before, all=all))["messages"])

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
        """The gateway's `conversation` snapshot, then its `task`, `message` and `branch` lines, newest states; after each
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
