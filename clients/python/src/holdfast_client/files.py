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
import ssl
import urllib.parse
import uuid
from typing import Any, BinaryIO, Optional, Union

from .errors import HoldfastError

Line = dict[str, Any]
Source = Union[bytes, str, "os.PathLike[str]"]

PIECE = 65536
PASSING = (429, 502, 503, 504)  # busy for now: everything else is an answer


class Files:
    """The files behind the address of a gateway's WebSocket."""

    def __init__(self, url: str, timeout_s: float = 60.0) -> None:
        address = urllib.parse.urlsplit(url)
        self._secure = address.scheme in ("wss", "https")
        self._host, self._port = address.hostname or "", address.port
        self._path = address.path.rsplit("/v1/", 1)[0] + "/v1/conversations/"
        self._timeout_s = timeout_s

    def _open(self) -> http.client.HTTPConnection:
        if not self._secure:
            return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)
        return http.client.HTTPSConnection(
            self._host, self._port, timeout=self._timeout_s, context=ssl.create_default_context()
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

    def offset(self, path: str, token: Optional[str]) -> int:
        with self._ask("HEAD", path, token, {}) as answer:
            return int(answer.headers.get("Upload-Offset") or 0)

    def send(self, path: str, token: Optional[str], source: BinaryIO, offset: int, size: int, head: Line) -> Line:
        """The file; {} when this try was not its last; an error when there is no further one."""
        source.seek(offset)
        headers = {**head, "Content-Length": str(size - offset)}
        if offset:
            headers["Upload-Offset"] = str(offset)
        with self._ask("PATCH" if offset else "POST", path, token, headers, iter(lambda: source.read(PIECE), b"")) as answer:
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
) -> Line:
    """token: a function for each try."""
    path = f"{conversation_id}/files?upload={urllib.parse.quote(key or str(uuid.uuid4()), safe='')}"
    if name is None and not isinstance(file, bytes):
        name = os.path.basename(os.fspath(file))
    head = {"Content-Type": media_type}
    if name:
        head["Content-Disposition"] = f"attachment; filename*=UTF-8''{urllib.parse.quote(name, safe='')}"
    failures = 0 if key is None else 1  # an earlier process may have begun
    offset = 0
    with _opened(file) as source:
        size = source.seek(0, io.SEEK_END)
        while True:
            try:
                if failures:
                    offset = await asyncio.to_thread(files.offset, path, token())
                given = await asyncio.to_thread(files.send, path, token(), source, offset, size, head)
                if given:
                    return {k: given[k] for k in ("type", "file_id", "name", "media_type", "size", "sha256")}
            except (OSError, http.client.HTTPException):
                pass  # the network: once more
            await asyncio.sleep(wait_s * 2 ** min(failures, 5) * (0.5 + random.random()))
            failures += 1


async def read(
    files: Files, conversation_id: str, token: Optional[str], file_id: str, to: Union[None, str, "os.PathLike[str]"]
) -> bytes:
    path = f"{conversation_id}/files/{urllib.parse.quote(file_id, safe='')}"
    if to is None:
        memory = io.BytesIO()
        await asyncio.to_thread(files.read, path, token, memory)
        return memory.getvalue()
    with open(to, "wb") as out:
        await asyncio.to_thread(files.read, path, token, out)
    return b""
