"""A task whose oldest events are gone: that is said, and never skipped in silence (PROTOCOL.md 5, 7)."""

import base64
import json

import pytest

import database
from gateway import Gateway
from holdfast import Client, program, text_of
from test_http_api import Api, sse
from test_metrics import scrape

HEAD = 254


def message(gateway):
    """250 tokens in two halves, so that they lie in two blocks at least, and an answer."""
    half = {"flood": 125, "bytes": 400}
    return program(half, {"wait": gateway.path("gate")}, half, {"final_answer": "the end"})


def started(client, key, conversation="c"):
    """A task of 254 events that has ended, and all its lines."""
    task = client.call("chat", message=message(client.gateway), request_key=key, conversation_id=conversation)["task"]
    client.expect(lambda line: line.get("task_id") == task["task_id"] and line.get("seq") == 127)
    open(client.gateway.path("gate"), "w", encoding="utf-8").close()
    client.wait_terminal(task)
    return task, client.events_since(task), client.raw_events(task)


@pytest.fixture(scope="module")
def pruned():
    """A gateway with ended tasks: two without their oldest events, in two conversations, and one without any."""
    with Gateway() as gateway:
        with Client(gateway) as client:
            gateway.token = client.token
            gateway.task, gateway.events, gateway.raw = started(client, "k")
            gateway.empty, _, _ = started(client, "all")
            gateway.other, _, _ = started(client, "other", "d")
        database.seal(gateway)
        gateway.first = database.prune(gateway, gateway.task, 130)
        assert 1 < gateway.first < 200
        assert database.prune(gateway, gateway.empty, HEAD + 1) == HEAD + 1
        assert database.prune(gateway, gateway.other, 130) > 4
        gateway.start()
        yield gateway


@pytest.fixture
def reader(pruned):
    with Client(pruned, token=pruned.token) as client:
        yield client


@pytest.mark.parametrize("behind", [None, 10, 2])
def test_gap_is_told_before_the_rest(pruned, reader, behind):  # F01
    after = pruned.first - behind if behind else 0
    reply = reader.resume(pruned.task, after)
    assert (reply["after"], reply["first"], reply["head"]) == (after, pruned.first, HEAD)
    assert reader.expect_type("caught_up")["seq"] == HEAD
    assert reader.events_since(pruned.task) == pruned.events[pruned.first - 1:]
    assert all(pruned.raw[seq] == raw for seq, raw in reader.raw_events(pruned.task).items())


@pytest.mark.parametrize("behind", [1, 0, -50])
def test_cursor_at_or_behind_the_first_that_is_kept_has_no_gap(pruned, reader, behind):  # F01
    after = pruned.first - behind
    assert "first" not in reader.resume(pruned.task, after)
    reader.expect_type("caught_up")
    assert reader.events_since(pruned.task) == pruned.events[after:]


def test_answer_in_one_piece_is_whole_or_an_error(pruned):
    """A face's reply that waits for the end (docs/faces.md): the end is among what is kept, or nothing is."""
    said = {}
    for key in ("k", "all"):
        body = {"conversation": "c", "messages": [{"role": "user", "content": message(pruned)}]}
        status, _, answer = pruned.http("POST", "/v1/chat/completions", json.dumps(body),
                                        {"Authorization": f"Bearer {pruned.token}", "Content-Type": "application/json",
                                         "Idempotency-Key": key})
        said[key] = status, json.loads(answer)
    assert said["k"][0] == 200 and said["k"][1]["choices"][0]["message"]["content"] == "the end"
    assert said["all"][0] == 500 and said["all"][1]["error"]["code"] == "internal"


def test_coalesced_replay_tells_the_gap_too(pruned, reader):  # F01
    since = len(reader.log)
    merged = reader.replay(pruned.task, 0, coalesce=True)
    assert reader.log[since]["first"] == pruned.first
    assert text_of(merged) == text_of(pruned.events[pruned.first - 1:])


def test_last_events_are_there_as_long_as_any(pruned, reader):  # F12
    assert reader.replay(pruned.task, 240) == pruned.events[240:]
    assert pruned.events[-1]["event"] == "task.completed"


def test_repeated_start_tells_the_gap(pruned, reader):  # F01
    reply = reader.call("chat", message=message(pruned), request_key="k")
    assert reply["repeated"] is True and reply["first"] == pruned.first
    assert list(reader.events(pruned.task)) == pruned.events[pruned.first - 1:]


def test_nothing_kept_is_told_as_a_gap_up_to_the_head(pruned, reader):  # F01
    for _ in range(2):
        since = len(reader.log)
        assert reader.replay(pruned.empty, 0) == []
        reply = reader.log[since]
        assert (reply["first"], reply["head"], reply["task"]["status"]) == (HEAD + 1, HEAD, "completed")
    assert "first" not in reader.resume(pruned.empty, HEAD)
    reply = reader.call("chat", message=message(pruned), request_key="all")
    assert (reply["repeated"], reply["first"]) == (True, HEAD + 1)
    reader.quiet()
    assert not [line for line in reader.log if line["type"] == "error"]


def test_gap_is_the_first_event_over_http(pruned):  # F01
    api = Api(pruned, pruned.token)
    clean, events = sse(api, "c", pruned.task["task_id"], 3)
    assert events[0] == (None, "gap", {"after": 3, "first": pruned.first, "head": HEAD})
    assert clean and [data for _, _, data in events[1:]] == pruned.events[pruned.first - 1:]
    clean, events = sse(api, "c", pruned.empty["task_id"], 3)
    assert clean and events == [(None, "gap", {"after": 3, "first": HEAD + 1, "head": HEAD})]
    assert sse(api, "c", pruned.empty["task_id"], HEAD)[0] == 204


@pytest.mark.parametrize("which", ["task", "empty"])
def test_response_without_its_events_is_told_from_the_record(pruned, which):  # F01
    task = getattr(pruned, which)
    name = base64.urlsafe_b64encode(b"c").decode().rstrip("=")
    api, path = Api(pruned, pruned.token), f"/responses/resp_{name}.{task['task_id']}"
    status, response = api.ask("GET", path)
    assert (status, response["status"]) == (200, "completed")
    assert [item["content"][0]["text"] for item in response["output"]] == ["the end"]
    headers = {"Authorization": "Bearer " + pruned.token}
    if which == "task":  # numbers that are not those of before are not told
        _, _, body = pruned.http("GET", f"/v1{path}?stream=true", None, headers)
        kind, data = body.decode().split("data: ")[:2]
        assert "event: error" in kind and json.loads(data)["code"] == "gone" and body.count(b"data: ") == 1


def ag_ui_events(gateway, conversation, place=None):
    """The events of AG-UI's connect()."""
    headers = {"Authorization": "Bearer " + gateway.token, **({"Last-Event-ID": place} if place else {})}
    status, _, body = gateway.http("GET", f"/v1/ag-ui/any/{conversation}", None, headers)
    assert status == 200
    blocks = [block.split("\n") for block in body.decode().strip().split("\n\n")]
    return [json.loads(line[6:]) for block in blocks for line in block if line.startswith("data: ")]


def test_ag_ui_tells_the_thread_of_a_run_without_its_events(pruned):  # F01
    """The conversation's last turn is the one of which nothing is left."""
    for place in (None, f"{pruned.empty['task_id']}.3", f"{pruned.empty['task_id']}.{HEAD}"):
        events = ag_ui_events(pruned, "c", place)
        assert [event["type"] for event in events] == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
        said = [(m["role"], m["content"]) for m in events[1]["messages"]]
        assert said[-2:] == [("user", message(pruned)), ("assistant", "the end")]
        assert events[2]["outcome"] == {"type": "success"}


def test_ag_ui_tells_all_that_is_left_to_who_has_the_beginning(pruned):  # F01
    """A place before the gap: the answer is whole in the end, because the final answer restates it."""
    events = ag_ui_events(pruned, "d", f"{pruned.other['task_id']}.3")
    types = [event["type"] for event in events]
    assert types[:3] == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "TEXT_MESSAGE_START"]
    assert types[-2:] == ["MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    assert events[-2]["messages"][-1]["content"] == "the end"


def test_gaps_are_counted(pruned, reader):
    name = 'holdfast_resume_total{outcome="gap"}'
    before = scrape(pruned)[1][name]
    reader.replay(pruned.task, 0)
    reader.replay(pruned.task, pruned.first)
    assert scrape(pruned)[1][name] == before + 1
