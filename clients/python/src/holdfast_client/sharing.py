"""Another device of the same owner: a code that one client got by `handover` is a token for the next."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl as tls
from typing import Any

from .connection import address_of
from .errors import HoldfastError
from .files import Files
from .store import Store


async def take_over(url: str, code: str, *, store: str | None = None, ssl: tls.SSLContext | None = None) -> str:
    """The owner's token for a code of `Client.handover`, which is good once; `not_found` when it is good no more.

    store: the file in which a client without a token of its own looks for it: `connect(url, store=store)` is that owner."""
    address = address_of(url)
    try:
        said = await asyncio.to_thread(Files(address, ssl=ssl).post, "handover/token", {"code": code})
        answer: Any = json.loads(said)
    except (OSError, http.client.HTTPException) as error:
        raise HoldfastError("connection_lost", str(error)) from error
    token = str(answer["token"])
    if store is not None:
        kept = Store(store, address)
        kept.keep_token(token)
        kept.close()
    return token
