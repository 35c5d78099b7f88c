"""A task's state so far, from its events: what a user interface shows.

    async for so_far in task.transcripts():
        screen.update(so_far.text)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Union

Line = dict[str, Any]


@dataclass
class Text:
    """A piece of the answer, or with `is_thinking` of the reasoning."""

    seq: int
    text: str
    is_thinking: bool = False


@dataclass
class Tool:
    """A call, and its result once there is one."""

    seq: int
    call_id: str
    name: str
    arguments: Line
    output: Any = None
    is_error: bool = False
    is_open: bool = True


@dataclass
class Question:
    """kind: question, approval or budget.  The answer is None while it is open, and when it has expired."""

    seq: int
    input_id: str
    kind: str
    prompt: str
    tool: str | None = None
    arguments: Line | None = None
    options: list[Any] = field(default_factory=list)
    is_open: bool = True
    answer: bool | str | None = None

    @classmethod
    def of(cls, data: Mapping[str, Any], seq: int = 0) -> "Question":
        """From the data of an `input_required`."""
        return cls(
            seq,
            data["input_id"],
            data.get("kind", "question"),
            data.get("prompt", ""),
            data.get("tool"),
            data.get("arguments"),
            list(data.get("options") or []),
        )

    def allowed(self, *, always: bool = False) -> bool | str:
        """The answer that allows it: this once, or all of its kind in this conversation, where that is offered."""
        return (self._option("allow_always") if always else None) or self._option("allow_once") or True

    def denied(self) -> bool | str:
        return self._option("reject_once") or False

    def _option(self, kind: str) -> str | None:
        """The id of the option of that kind."""
        return next((str(one["id"]) for one in self.options if isinstance(one, dict) and one.get("kind") == kind), None)


@dataclass
class Other:
    """A child, file, message or custom event: its data are those of the wire."""

    seq: int
    type: str
    data: Line


Part = Union[Text, Tool, Question, Other]


class Transcript:
    """It changes with each event that it is told, in their order."""

    def __init__(self) -> None:
        self._clear(first=1)

    def _clear(self, first: int) -> None:
        self.first = first  # seq of the oldest event: above 1 when the beginning is no longer kept
        self.last = 0  # of the newest
        self.agent: str | None = None
        self.input: str | None = None
        self.parts: list[Part] = []  # everything, in the order of the stream
        self.progress: float | None = None
        self.note = ""
        self.resumed = 0  # how often it went on after a restart of the gateway
        self.status = "pending"  # running, completed, failed, cancelled
        self.error: Line | None = None

    @property
    def text(self) -> str:
        """The answer: all tokens, or the final answer in their place."""
        return "".join(part.text for part in self.parts if isinstance(part, Text) and not part.is_thinking)

    @property
    def thinking(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Text) and part.is_thinking)

    @property
    def tools(self) -> list[Tool]:
        return [part for part in self.parts if isinstance(part, Tool)]

    @property
    def questions(self) -> list[Question]:
        """Those that wait for an answer have `is_open`."""
        return [part for part in self.parts if isinstance(part, Question)]

    def others(self, type: str) -> list[Line]:
        """The data of each `child`, `file`, `message` or `custom`."""
        return [part.data for part in self.parts if isinstance(part, Other) and part.type == type]

    def tell(self, name: str, seq: int, data: Line, first: int = 0) -> None:
        """One more event, which must be the next; first: of merged pieces of text, the seq of the oldest."""
        if name == "reset":
            return self._clear(first=data["first"])
        self.last = seq
        if name in ("token", "thinking"):
            self._say(first or seq, data["text"], name == "thinking")
        elif name in ("task.completed", "task.failed"):
            self._end(seq, data)
        elif name in ("child", "file", "message", "custom"):
            self.parts.append(Other(seq, name, data))
        elif name in self._TAKE:
            self._TAKE[name](self, seq, data)

    def _say(self, seq: int, text: str, is_thinking: bool) -> None:
        last = self.parts[-1] if self.parts else None
        if isinstance(last, Text) and last.is_thinking == is_thinking:
            last.text += text
        else:
            self.parts.append(Text(seq, text, is_thinking))

    def _created(self, _: int, data: Line) -> None:
        self.agent, self.input = data.get("agent"), data.get("input")

    def _started(self, _: int, __: Line) -> None:
        self.status = "running"

    def _resumed(self, _: int, data: Line) -> None:
        """Withdrawn text is said anew; `keep` counts the characters that remain."""
        self.resumed += 1
        keep = data.get("keep")
        if keep is None:
            return
        left = {False: keep["text"], True: keep["thinking"]}
        for part in self.parts:
            if isinstance(part, Text):
                part.text = part.text[: left[part.is_thinking]]
                left[part.is_thinking] -= len(part.text)
        self.parts = [part for part in self.parts if not isinstance(part, Text) or part.text]

    def _called(self, seq: int, data: Line) -> None:
        self.parts.append(Tool(seq, data.get("call_id", ""), data["name"], data.get("arguments") or {}))

    def _returned(self, seq: int, data: Line) -> None:
        """Agents may reuse a call_id, and some models do in each turn: a result belongs to the oldest open call."""
        same = [tool for tool in self.tools if tool.call_id == data.get("call_id", "")]
        call = next((tool for tool in same if tool.is_open), same[-1] if same else None)
        if call is None:
            call = Tool(seq, data.get("call_id", ""), data.get("name", ""), {})
            self.parts.append(call)
        call.output, call.is_error, call.is_open = data.get("output"), bool(data.get("is_error")), False

    def _progressed(self, _: int, data: Line) -> None:
        self.progress, self.note = data.get("progress"), data.get("note") or ""

    def _asked(self, seq: int, data: Line) -> None:
        self.parts.append(Question.of(data, seq))

    def _answered(self, _: int, data: Line) -> None:
        for question in self.questions:
            if question.is_open and question.input_id == data["input_id"]:
                question.is_open, question.answer = False, data.get("answer")

    def _final(self, seq: int, data: Line) -> None:
        """It replaces all text so far, unless it is that text."""
        if data["output"] != self.text:
            self.parts = [part for part in self.parts if not isinstance(part, Text) or part.is_thinking]
            self.parts.append(Text(seq, data["output"]))

    def _end(self, seq: int, data: Line) -> None:
        self.status, self.error = data.get("status", "completed"), data.get("error")
        if self.first > 1:
            self._final(seq, {"output": data.get("output") or ""})
        for question in self.questions:
            question.is_open = False

    _TAKE = {
        "task.created": _created,
        "task.started": _started,
        "task.resumed": _resumed,
        "tool_call": _called,
        "tool_result": _returned,
        "progress": _progressed,
        "input_required": _asked,
        "input_received": _answered,
        "final_answer": _final,
    }
