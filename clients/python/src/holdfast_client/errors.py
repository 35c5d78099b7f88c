"""Errors, by their code: one of the wire's, or one of the client's own."""

from __future__ import annotations

from typing import Any

from .sentences import detail_of, may_retry, sentence_of


class HoldfastError(Exception):
    """code: one of the wire's (`not_found`, `conflict` …), `connection_lost`, `closed`, `discarded`, `owner_changed`, `bad_url`."""

    reason: str | None = None  # the kind of failure, when the gateway tells it

    def __init__(self, code: str, message: str, line: dict[str, Any] | None = None) -> None:
        super().__init__(message or code)
        self.code = code
        self.message = message
        self.line = line or {}

    @property
    def retry_after_s(self) -> float | None:
        """When the gateway may have room; None when asking again is of no use."""
        wait_ms = self.line.get("retry_after_ms")
        return None if wait_ms is None else wait_ms / 1000

    @property
    def sentence(self) -> str:
        """For the people who use a program: the page says the same."""
        return sentence_of(self.code, self.reason)

    @property
    def detail(self) -> str:
        """The machine's words, as far as the gateway's `errors` tells them; "" when there are none."""
        return detail_of(self.code, self.message)

    @property
    def may_retry(self) -> bool:
        """Whether sending the same again may help."""
        return may_retry(self.code, self.reason)

    @classmethod
    def of(cls, line: dict[str, Any]) -> "HoldfastError":
        return cls(str(line.get("code", "internal")), str(line.get("message", "")), line)


class TaskFailed(HoldfastError):
    """A task that failed or was cancelled; output is what it had said."""

    def __init__(self, status: str, error: dict[str, Any] | None, output: str) -> None:
        error = error or {}
        super().__init__(str(error.get("code", status)), str(error.get("message", status)), error)
        self.status = status
        self.reason = error.get("reason")
        self.output = output
