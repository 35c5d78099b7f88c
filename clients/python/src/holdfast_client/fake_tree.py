"""The messages of a fake conversation: a tree, with one current branch."""

from __future__ import annotations

from typing import Any

Line = dict[str, Any]


class FakeTree:
    """A message's `until` is the task under whose answer it goes as soon as there is one."""

    def __init__(self) -> None:
        self._all: list[Line] = []  # in order of creation
        self._end: str | None = None

    def find(self, ref: str, role: str | None = None) -> Line | None:
        """The message of this id; or of this task, which stands for its answer, or its question."""
        its = [one for one in self._all if one["task_id"] == ref]
        named = [one for one in its if one["role"] == role]
        if found := self._get(ref):
            return found
        if named:
            return named[0]
        return its[-1] if its and role is None else None

    def _get(self, message_id: str | None) -> Line | None:
        return next((one for one in self._all if one["message_id"] == message_id), None)

    @property
    def end(self) -> Line | None:
        return self._get(self._end)

    def ask(self, message: Line) -> None:
        """The new end is this message of the user's."""
        self._all.append(message)
        self._end = message["message_id"]

    def answer(self, message: Line) -> None:
        """Questions that were asked meanwhile go on behind it."""
        self._all.append(message)
        for one in self._all:
            if one.get("until") == message["task_id"]:
                one["parent_id"], one["until"] = message["message_id"], None
        if self._end == message["parent_id"]:
            self._end = message["message_id"]

    def choose(self, message_id: str) -> bool:
        """The branch through this message, down to the newest below it, is the current one."""
        at = self._get(message_id)
        if at is None:
            return False
        while at is not None:
            self._end = at["message_id"]
            below = [one for one in self._all if one["parent_id"] == self._end]
            at = below[-1] if below else None
        return True

    def choose_question(self, message_id: str) -> None:
        """Another answer is made to it."""
        self._end = message_id

    def path(self) -> list[Line]:
        """The current branch, oldest first."""
        path: list[Line] = []
        at = self.end
        while at is not None:
            path.insert(0, self.told(at))
            at = self._get(at["parent_id"])
        return path

    def all(self) -> list[Line]:
        """Those of every branch; siblings are told in a branch alone."""
        return [self._plain(one) for one in self._all]

    def told(self, message: Line) -> Line:
        siblings = self._under(message["parent_id"])
        return {**self._plain(message), **({"siblings": siblings} if len(siblings) > 1 else {})}

    @staticmethod
    def _plain(message: Line) -> Line:
        return {key: value for key, value in message.items() if key != "until" and value is not None}

    def _under(self, parent: str | None) -> list[str]:
        return [one["message_id"] for one in self._all if one["parent_id"] == parent]

    def branch(self, task_id: str | None) -> Line | None:
        """task_id: the task that answers the end, if that is a question."""
        end = self.end
        if end is None:
            return None
        branch = {"message_id": end["message_id"]}
        if end["role"] != "assistant":
            siblings = self._under(end["message_id"])
            branch |= {"task_id": task_id} if task_id else {}
            branch |= {"siblings": siblings} if siblings else {}
        return branch
