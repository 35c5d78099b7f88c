"""A transcript: what a user interface shows of a task, told event by event."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "clients" / "python" / "src")]

import pytest  # noqa: E402

from holdfast_client import Other, Question, Text, Tool, Transcript  # noqa: E402


def told(*events, first=1):
    so_far = Transcript()
    for seq, (name, data) in enumerate(events, first):
        so_far.tell(name, seq, data)
    return so_far


CREATED = ("task.created", {"agent": "assistant", "input": "why?"})
STARTED = ("task.started", {})


def test_parts_are_in_the_order_of_the_stream():
    file = {"file_id": "f", "name": "a.png", "media_type": "image/png", "size": 3}
    so_far = told(CREATED, STARTED, ("thinking", {"text": "hm"}), ("thinking", {"text": "m"}), ("token", {"text": "a"}),
                  ("token", {"text": "b"}), ("tool_call", {"call_id": "1", "name": "look", "arguments": {"at": 1}}),
                  ("token", {"text": "c"}), ("tool_result", {"call_id": "1", "name": "look", "output": "seen"}),
                  ("file", file), ("progress", {"progress": 0.5, "note": "half"}), ("of_tomorrow", {}))
    assert so_far.parts == [Text(3, "hmm", True), Text(5, "ab"), Tool(7, "1", "look", {"at": 1}, "seen", False, False),
                            Text(8, "c"), Other(10, "file", file)]
    assert (so_far.text, so_far.thinking, so_far.agent, so_far.input) == ("abc", "hmm", "assistant", "why?")
    assert (so_far.status, so_far.progress, so_far.note, so_far.last) == ("running", 0.5, "half", 12)
    assert so_far.others("file") == [file] and so_far.others("child") == []


def test_result_belongs_to_the_oldest_open_call_of_its_id():
    call, result = {"call_id": "c", "name": "look"}, {"call_id": "c", "name": "look", "is_error": True}
    so_far = told(("tool_call", call), ("tool_call", call), ("tool_result", {**result, "output": "1"}))
    assert [tool.output for tool in so_far.tools] == ["1", None] and [tool.is_open for tool in so_far.tools] == [False, True]
    so_far.tell("tool_result", 4, {**result, "output": "2"})
    so_far.tell("tool_result", 5, {"call_id": "gone", "name": "lost", "output": "3"})  # its call is no longer kept
    assert [(tool.name, tool.output) for tool in so_far.tools] == [("look", "1"), ("look", "2"), ("lost", "3")]


def test_final_answer_replaces_the_text_unless_it_is_that_text():
    said = (("token", {"text": "4"}), ("tool_call", {"call_id": "1", "name": "look"}), ("token", {"text": "2"}))
    assert len(told(*said, ("final_answer", {"output": "42"})).parts) == 3
    so_far = told(*said, ("thinking", {"text": "hm"}), ("final_answer", {"output": "43"}))
    assert so_far.text == "43" and [type(part) for part in so_far.parts] == [Tool, Text, Text]


def test_text_that_a_restart_withdraws_is_gone():
    so_far = told(("token", {"text": "ab\U0001f600"}), ("tool_call", {"call_id": "1", "name": "x"}), ("thinking", {"text": "hm"}),
                  ("token", {"text": "cd"}), ("task.resumed", {"keep": {"text": 3, "thinking": 1}}), ("token", {"text": "e"}))
    assert (so_far.text, so_far.thinking, so_far.resumed) == ("ab\U0001f600e", "h", 1)
    assert [type(part) for part in so_far.parts] == [Text, Tool, Text, Text]
    so_far.tell("task.resumed", 7, {})  # which withdraws nothing
    assert so_far.text == "ab\U0001f600e"


def test_question_is_open_until_its_answer_or_the_end():
    asked = ("input_required", {"input_id": "q", "kind": "question", "prompt": "Which?", "options": ["a", "b"]})
    so_far = told(asked, ("input_received", {"input_id": "q", "answer": "a"}))
    assert so_far.questions == [Question(1, "q", "question", "Which?", options=["a", "b"], is_open=False, answer="a")]
    assert [one.is_open for one in told(asked).questions] == [True]
    assert [one.is_open for one in told(asked, ("task.completed", {"output": ""})).questions] == [False]


OPTIONS = [{"id": "once", "kind": "allow_once", "name": "Once"}, {"id": "all", "kind": "allow_always", "name": "All"},
           {"id": "no", "kind": "reject_once", "name": "No"}]


@pytest.mark.parametrize(("options", "answers"), [
    ([], [True, True, False]), (OPTIONS, ["once", "all", "no"]), (OPTIONS[1:2], [True, "all", False]),
    (OPTIONS[:1], ["once", "once", False]), (["yes", "no"], [True, True, False])])
def test_approval_is_allowed_by_the_option_of_that_kind(options, answers):
    one = Question.of({"input_id": "q", "kind": "approval", "options": options})
    assert [one.allowed(), one.allowed(always=True), one.denied()] == answers


def test_ended_task_has_its_status_and_error():
    failed = told(STARTED, ("task.failed", {"status": "cancelled", "error": {"code": "cancelled"}, "output": ""}))
    assert (failed.status, failed.error) == ("cancelled", {"code": "cancelled"})
    assert told(("task.completed", {"output": "x"})).status == "completed"


def test_gap_clears_it_and_its_end_has_the_whole_answer():
    so_far = told(CREATED, STARTED, ("token", {"text": "lost"}))
    so_far.tell("reset", 9, {"first": 10})
    so_far.tell("token", 10, {"text": "end"})
    assert (so_far.text, so_far.first) == ("end", 10)
    so_far.tell("task.completed", 11, {"output": "the whole end"})
    assert so_far.text == "the whole end"
