"""Files of a conversation, over HTTP: given in as many tries as it takes, and read.

An upload names its try, so after a cut it goes on where the gateway says; it ends when the file is there, or when the
gateway refuses it.  The bytes go through a thread of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import io
import json
import os
import random
import ssl as tls
import urllib.parse
import uuid
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Optional, Union

from .errors import HoldfastError

Line = dict[str, Any]
Source = Union[bytes, str, "os.PathLike[str]"]
Progress = Callable[[int, int], object]

PIECE = 65536
PASSING = (429, 502, 503, 504)  # busy for now: everything else is an answer


class Files:
    """The files behind the address of a gateway's WebSocket."""

    def __init__(self, url: str, timeout_s: float = 60.0, ssl: Optional[tls.SSLContext] = None) -> None:
        address = urllib.parse.urlsplit(url)
        self._secure = address.scheme in ("wss", "https")
        self._host, self._port = address.hostname or "", address.port
        self._path = address.path.rsplit("/v1/", 1)[0] + "/v1/"
        self._timeout_s, self._ssl = timeout_s, ssl

    def _open(self) -> http.client.HTTPConnection:
        if not self._secure:
            return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)
        return http.client.HTTPSConnection(
            self._host, self._port, timeout=self._timeout_s, context=self._ssl or tls.create_default_context()
        )

    @contextlib.contextmanager
    def _ask(self, method: str, path: str, token: Optional[str], headers: Line, body: Any = None) -> Any:
        link = self._open()
        try:
            head = {**headers, **({"Authorization": f"Bearer {token}"} if token else {})}
            link.request(method, self._path + path, body, head)
            yield link.getresponse()
        finally:
            link.close()

    def post(self, path: str, body: Line) -> bytes:
        """The answer to JSON, without a token."""
        with self._ask("POST", path, None, {"Content-Type": "application/json"}, json.dumps(body).encode()) as answer:
            said = bytes(answer.read())
            if answer.status >= 300:
                raise _error(answer.status, said)
            return said

    def offset(self, path: str, token: Optional[str]) -> int:
        with self._ask("HEAD", path, token, {}) as answer:
            return int(answer.headers.get("Upload-Offset") or 0)

    def send(
        self, path: str, token: Optional[str], source: BinaryIO, offset: int, size: int, head: Line, tell: Progress
    ) -> Line:
        """The file; {} when this try was not its last; an error when there is no further one."""
        source.seek(offset)

        def pieces() -> Iterator[bytes]:
            at = offset
            while piece := source.read(PIECE):
                yield piece
                at += len(piece)
                tell(at, size)

        headers = {**head, "Content-Length": str(size - offset)}
        if offset:
            headers["Upload-Offset"] = str(offset)
        with self._ask("PATCH" if offset else "POST", path, token, headers, pieces()) as answer:
            said = answer.read()
            if answer.status < 300:
                return dict(json.loads(said))
            elsewhere = answer.status == 409 and answer.headers.get("Upload-Offset") is not None
            if elsewhere or answer.status in PASSING:
                return {}
            raise _error(answer.status, said)

    def read(self, path: str, token: Optional[str], to: BinaryIO) -> None:
        with self._ask("GET", path, token, {}) as answer:
            if answer.status != 200:
                raise _error(answer.status, answer.read())
            while piece := answer.read(PIECE):
                to.write(piece)
            if answer.length:  # the rest did not come
                raise http.client.IncompleteRead(b"", answer.length)


def _error(status: int, said: bytes) -> HoldfastError:
    try:
        return HoldfastError.of(json.loads(said)["error"])
    except (ValueError, KeyError, TypeError):
        return HoldfastError("internal", f"HTTP {status}")


def _opened(file: Source) -> BinaryIO:
    return io.BytesIO(file) if isinstance(file, bytes) else open(file, "rb")  # noqa: SIM115  # its user closes it


async def give(
    files: Files,
    conversation_id: str,
    token: Any,
    file: Source,
    *,
    name: Optional[str],
    media_type: str,
    key: Optional[str],
    wait_s: float,
    on_progress: Optional[Progress],
) -> Line:
    """token: a function for each try."""
    path = f"conversations/{conversation_id}/files?upload={urllib.parse.quote(key or str(uuid.uuid4()), safe='')}"
    if name is None and not isinstance(file, bytes):
        name = os.path.basename(os.fspath(file))
    head = {"Content-Type": media_type}
    if name:
        head["Content-Disposition"] = f"attachment; filename*=UTF-8''{urllib.parse.quote(name, safe='')}"
    failures = 0 if key is None else 1  # an earlier process may have begun
    offset = 0
    loop = asyncio.get_running_loop()

    def tell(sent: int, total: int) -> None:  # on the thread of the bytes
        if on_progress:
            loop.call_soon_threadsafe(on_progress, sent, total)

    with _opened(file) as source:
        size = source.seek(0, io.SEEK_END)
        while True:
            try:
                if failures:
                    offset = await asyncio.to_thread(files.offset, path, token())
                given = await asyncio.to_thread(files.send, path, token(), source, offset, size, head, tell)
                if given:
                    return {k: given[k] for k in ("type", "file_id", "name", "media_type", "size", "sha256")}
            except (OSError, http.client.HTTPException):
                pass  # the network: once more
            await asyncio.sleep(wait_s * 2 ** min(failures, 5) * (0.5 + random.random()))
            failures += 1


async def read(
    files: Files, conversation_id: str, token: Optional[str], file_id: str, to: Union[None, str, "os.PathLike[str]"]
) -> bytes:
    path = f"conversations/{conversation_id}/files/{urllib.parse.quote(file_id, safe='')}"
    if to is None:
        memory = io.BytesIO()
        await asyncio.to_thread(files.read, path, token, memory)
        return memory.getvalue()
    with open(to, "wb") as out:
        await asyncio.to_thread(files.read, path, token, out)
    return b""
