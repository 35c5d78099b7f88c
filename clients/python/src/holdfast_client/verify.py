"""The continuity proofs in an export over HTTP, checked on any machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .task import TERMINAL


@dataclass(frozen=True)
class Proof:
    """state: proved, none (its end has no proof), or broken; broken_at: the first event that is not as it was said."""

    task_id: str
    events: int
    state: str
    broken_at: int | None = None


def verify(lines: Iterable[bytes]) -> list[Proof]:
    """Each task whose events are in the file of `GET /v1/conversations/{c}/export`, its bytes unchanged: `open(path, "rb")`."""
    tasks: dict[str, list[tuple[bytes, dict[str, Any]]]] = {}
    for line in lines:
        line = line.rstrip(b"\n")
        if line.startswith(b'{"type":"event",'):
            event = json.loads(line)
            tasks.setdefault(event["task_id"], []).append((line, event))
    return [_proof(task_id, events) for task_id, events in tasks.items()]


def _proof(task_id: str, events: list[tuple[bytes, dict[str, Any]]]) -> Proof:
    chain = bytes(32)
    first, end = events[0][1]["seq"], events[-1][1]
    for at, (line, event) in enumerate(events):
        if event["seq"] != first + at:
            return Proof(task_id, len(events), "broken", first + at)
        if event["event"] not in TERMINAL:
            chain = hashlib.sha256(chain + line).digest()
        elif event is not end:
            return Proof(task_id, len(events), "broken", event["seq"] + 1)
    told = end["data"].get("chain") if end["event"] in TERMINAL and first == 1 else None
    if told is None:
        return Proof(task_id, len(events), "none")
    return Proof(task_id, len(events), "proved") if told == chain.hex() else Proof(task_id, len(events), "broken", end["seq"])
