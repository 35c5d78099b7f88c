"""The memory that outlives the process: messages that the gateway has not confirmed, and the guest's token.

One SQLite file, or nothing.  Several processes may share it: request keys make one task of a message that two of them
send, and the guest's token that was kept first counts.
"""

from __future__ import annotations

import json
import sqlite3
from typing import Any


class Store:
    def __init__(self, path: str | None, place: str) -> None:
        self._db = sqlite3.connect(path or ":memory:", timeout=30, isolation_level=None)
        self._place = place
        self._db.executescript(
            """
            CREATE TABLE IF NOT EXISTS outbox (
                place TEXT, request_key TEXT, owner TEXT, request TEXT, PRIMARY KEY (place, request_key));
            CREATE TABLE IF NOT EXISTS tokens (place TEXT PRIMARY KEY, token TEXT);
            """
        )

    def put(self, key: str, owner: str | None, request: dict[str, Any]) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO outbox VALUES (?, ?, ?, ?)", (self._place, key, owner, json.dumps(request))
        )

    def remove(self, key: str) -> None:
        self._db.execute("DELETE FROM outbox WHERE place = ? AND request_key = ?", (self._place, key))

    def waiting(self) -> list[tuple[str | None, dict[str, Any]]]:
        """(owner, request) of each message, in the order in which they were asked."""
        rows = self._db.execute("SELECT owner, request FROM outbox WHERE place = ? ORDER BY rowid", (self._place,))
        return [(owner, json.loads(request)) for owner, request in rows]

    def token(self) -> str | None:
        row = self._db.execute("SELECT token FROM tokens WHERE place = ?", (self._place,)).fetchone()
        return row[0] if row else None

    def keep_token(self, token: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO tokens VALUES (?, ?)", (self._place, token))

    def forget_token(self) -> None:
        self._db.execute("DELETE FROM tokens WHERE place = ?", (self._place,))

    def close(self) -> None:
        self._db.close()
