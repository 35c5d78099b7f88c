"""resume and unsubscribe: the cursor, exact to the event (PROTOCOL.md 4, 5)."""

import pytest

from gateway import Gateway
from holdfast import TERMINAL, Client, ids, names, new_id, text_of, wait_until


@pytest.fixture(scope="module")
def ended(gateway):
    """A guest with an ended task of 104 events: (client, task, its events)."""
    with Client(gateway) as client:
        task, events = client.finish({"flood": 100, "bytes": 10}, {"final_answer": "done"})
        assert len(events) == 104
        yield client, task, events


@pytest.fixture
def running(gateway, clients):
    """A running task at head 22 that goes on to 44 when its gate is made."""
    client = clients()
    client.gate = gateway.path()
    task = client.chat({"flood": 20}, {"wait": client.gate}, {"flood": 20}, {"final_answer": "x"})
    client.expect(lambda line: line.get("seq") == 22)
    return client, task


def open_gate(client):
    open(client.gate, "w", encoding="utf-8").close()


# ------------------------------------------------------------------ after


@pytest.mark.parametrize("after", [0, 1, 50, 103, 104])
def test_resume_of_an_ended_task_gives_exactly_the_rest(ended, clients, after):
    owner, task, events = ended
    client = clients(token=owner.token)
    since = len(client.log)
    reply = client.resume(task, after)
    assert list(reply) == ["type", "id", "task", "after", "head"]
    assert (reply["after"], reply["head"]) == (after, 104)
    assert reply["task"]["status"] == "completed"
    caught_up = client.expect_type("caught_up", since)
    assert caught_up == {"type": "caught_up", "task_id": task["task_id"], "seq": 104}
    assert client.events_since(task, since) == events[after:]
    client.quiet()
    assert [line["type"] for line in client.log[since:]] == \
        ["resumed"] + ["event"] * (104 - after) + ["caught_up", "pong"]


def test_resume_without_after_is_from_zero(ended, clients):  # F05
    owner, task, events = ended
    client = clients(token=owner.token)
    assert client.resume(task)["after"] == 0
    client.expect_type("caught_up")
    assert client.events_since(task) == events


@pytest.mark.parametrize("after", [
    "null", "-1", "1.5", "1e3", "1.0", '"5"', "true", "[]", "{}", "9007199254740992",
    "9007199254740993", "9223372036854775807", "18446744073709551616", "1e400", "-9007199254740993",
])
def test_resume_with_a_wrong_after_is_bad_request(ended, clients, after):  # F05, F58
    owner, task, _ = ended
    client = clients(token=owner.token)
    client.send_text('{"type":"resume","id":"r","task_id":"%s","conversation_id":"%s","after":%s}'
                     % (task["task_id"], task["conversation_id"], after))
    error = client.reply("r")
    assert error.get("code") == "bad_request"
    assert "after" in error["message"]
    client.quiet()
    assert client.events_since(task) == []


def test_resume_from_minus_zero_is_from_zero_or_refused(ended, clients):  # F58
    owner, task, _ = ended
    client = clients(token=owner.token)
    client.send_text('{"type":"resume","id":"r","task_id":"%s","conversation_id":"%s","after":-0}'
                     % (task["task_id"], task["conversation_id"]))
    reply = client.reply("r")
    assert reply.get("code") == "bad_request" or reply["after"] == 0


@pytest.mark.parametrize("after", [105, 1000, 2**31, 2**32, 2**53 - 1])
def test_resume_beyond_the_head_is_out_of_range_with_head(ended, clients, after):  # F06
    owner, task, _ = ended
    client = clients(token=owner.token)
    error = client.refused("out_of_range", "resume", **ids(task), after=after)
    assert error["head"] == 104
    client.quiet()
    assert client.events_since(task) == []
    client.replay(task)


def test_resume_beyond_the_head_of_a_running_task(running, clients):
    owner, task = running
    client = clients(token=owner.token)
    assert client.refused("out_of_range", "resume", **ids(task), after=23)["head"] == 22
    open_gate(owner)


def test_resume_with_a_wrong_coalesce_is_bad_request(ended):
    client, task, _ = ended
    error = client.refused("bad_request", "resume", **ids(task), coalesce="yes")
    assert "coalesce" in error["message"]


# ------------------------------------------------------------------ live


@pytest.mark.parametrize("after", [0, 7, 22])
def test_resume_of_a_running_task_goes_over_to_live(running, clients, after):
    owner, task = running
    client = clients(token=owner.token)
    since = len(client.log)
    reply = client.resume(task, after)
    assert (reply["after"], reply["head"], reply["task"]["status"]) == (after, 22, "running")
    assert client.expect_type("caught_up", since)["seq"] == 22
    assert [event["seq"] for event in client.events_since(task)] == list(range(after + 1, 23))
    open_gate(owner)
    events = list(client.events(task, since))
    assert [event["seq"] for event in events] == list(range(after + 1, 45))
    assert events[-1]["event"] == "task.completed"


def test_resume_of_a_followed_task_moves_the_cursor(running):
    client, task = running
    for after in (0, 20, 5, 22, 0):
        since = len(client.log)
        client.resume(task, after)
        client.expect_type("caught_up", since)
        client.quiet()
        assert [event["seq"] for event in client.events_since(task, since)] == list(range(after + 1, 23))
    since = len(client.log)
    open_gate(client)
    assert [event["seq"] for event in client.events(task, since)] == list(range(23, 45))


def test_two_resumes_in_one_message_never_double(running, clients):
    owner, task = running
    client = clients(token=owner.token)
    client.send({"type": "resume", "id": "a", **ids(task), "after": 0},
                {"type": "resume", "id": "b", **ids(task), "after": 10})
    client.reply("b")
    since = client.log.index(client.reply("b"))
    open_gate(owner)
    assert [event["seq"] for event in client.events(task, since)] == list(range(11, 45))


def test_resume_while_events_pour_has_no_gap(client, clients):  # F03
    task = client.chat({"flood": 20000, "per_s": 10000})
    for i in range(25):
        reader = clients(token=client.token)
        reader.replay(task, reader.call("task", **ids(task))["task"]["head"] // (1 + i % 3))
        reader.drop()
        while client.pump(0):  # it reads as well, or it would be too slow
            pass
    assert client.wait_terminal(task)["seq"] == 20004


def test_ten_reconnects_of_a_silent_client_get_everything(client, clients):
    """After each reconnect live events come without anything being sent (Spares)."""
    task = client.chat({"flood": 600, "per_s": 1000})
    client.drop()
    seen = 0
    while True:
        reader = clients(token=client.token)
        reader.resume(task, seen)
        for event in reader.events(task):
            seen += 1
            assert event["seq"] == seen
            if seen % 60 == 0 or event["event"] in TERMINAL:
                break
        reader.drop()
        if event["event"] in TERMINAL:
            break
    assert seen == 604


# ------------------------------------------------------------------ unsubscribe


def test_unsubscribe_then_none_of_its_lines(client):
    task = client.chat({"flood": 10_000_000, "per_s": 20000})
    client.expect(lambda line: line.get("seq", 0) > 100)
    client.call("unsubscribe", **ids(task))  # every later event of it fails the client's check
    for _ in range(20):
        client.quiet()
    assert client.task(task)["status"] == "running"
    last = client.last[task["task_id"]]
    since = len(client.log)
    client.resume(task, last)
    client.expect(lambda line: line.get("seq", 0) > last + 100, since)
    assert client.call("cancel", **ids(task))["cancelled"] == 1
    client.wait_terminal(task, since)


def test_unsubscribe_of_what_is_not_followed_is_ok(ended, clients):
    owner, task, _ = ended
    client = clients(token=owner.token)
    assert client.call("unsubscribe", **ids(task))["type"] == "ok"


def test_unsubscribe_is_the_connections_own(running, clients):
    owner, task = running
    other = clients(token=owner.token)
    other.resume(task, 22)
    owner.call("unsubscribe", **ids(task))
    open_gate(owner)
    assert other.wait_terminal(task)["seq"] == 44


# ------------------------------------------------------------------ coalesce


def test_coalesced_replay_has_the_same_text_in_fewer_events(client, clients):
    task, events = client.finish(
        {"repeat": 3, "steps": [
            {"flood": 50}, {"thinking": "a"}, {"thinking": "ü"}, {"thinking": "😀"},
            {"progress": 0.5}, {"token": '"\\\n'}, {"token": "é"}]})
    reader = clients(token=client.token)
    merged = reader.replay(task, coalesce=True)
    assert len(merged) < len(events) / 5
    assert text_of(merged) == text_of(events)
    assert text_of(merged, "thinking") == text_of(events, "thinking")
    assert merged[-1] == events[-1]
    by_seq = {event["seq"]: event for event in events}
    for event in merged:
        first = event.get("from", event["seq"])
        if first == event["seq"]:
            assert event == by_seq[event["seq"]]
            continue
        parts = [by_seq[seq] for seq in range(first, event["seq"] + 1)]
        assert {part["event"] for part in parts} == {event["event"]}
        assert event["data"]["text"] == "".join(part["data"]["text"] for part in parts)


@pytest.mark.parametrize("after", [0, 1, 2, 3, 50, 99])
def test_coalesced_replay_starts_right_behind_the_cursor(ended, clients, after):
    owner, task, events = ended
    client = clients(token=owner.token)
    merged = client.replay(task, after, coalesce=True)
    assert text_of(merged) == text_of(events[after:])
    assert merged[-1]["seq"] == 104


def test_coalesced_resume_goes_over_to_live(running, clients):
    owner, task = running
    client = clients(token=owner.token)
    client.replay(task, coalesce=True)
    open_gate(owner)
    assert client.wait_terminal(task)["seq"] == 44


# ------------------------------------------------------------------ whose events


def test_resume_gives_only_that_task(client, clients):  # F06
    gate = client.gateway.path()
    steps = [{"repeat": 30, "steps": [{"token": "x"}, {"sleep_ms": 1}]}, {"wait": gate}]
    one, two = client.chat(*steps), client.chat(*steps)
    stranger = clients()
    three = stranger.chat(*steps)
    for task in (one, two):
        client.expect(lambda line, task=task: line.get("task_id") == task["task_id"] and line["seq"] == 32)
    client.drop()
    reader = clients(token=client.token)
    assert [event["seq"] for event in reader.replay(one, 5)] == list(range(6, 33))
    open(gate, "w", encoding="utf-8").close()
    reader.wait_terminal(one)
    told = {line["task_id"] for line in reader.log if line["type"] == "event"}
    assert told == {one["task_id"]} and three["task_id"] not in told


def test_interrupted_replays_use_nothing_up(client, clients):  # F09
    task, events = client.finish({"flood": 5000, "bytes": 40})
    seen = []
    for _ in range(5):
        reader = clients(token=client.token)
        reader.resume(task, len(seen))
        for event in reader.events(task):
            seen.append(event)
            if len(seen) % 100 == 0:
                break
        reader.drop()
    reader = clients(token=client.token)
    assert seen + reader.replay(task, 500) == events
    device = clients(token=client.token)
    assert device.replay(task) == events
    assert device.raw_events(task) == client.raw_events(task)  # the same bytes, live and replayed


def test_a_drop_before_the_end_finds_the_end(client, clients):  # F12
    gate = client.gateway.path()
    task = client.chat({"flood": 48}, {"wait": gate}, {"flood": 8})
    client.expect(lambda line: line.get("seq") == 50)
    client.drop()
    open(gate, "w", encoding="utf-8").close()
    reader = clients(token=client.token)
    wait_until(lambda: reader.task(task)["status"] == "completed", "the end")
    for _ in range(2):
        events = reader.replay(task, 50)
        assert [event["seq"] for event in events] == list(range(51, 61))
        assert events[-1]["event"] == "task.completed" and events[-1]["data"]["output"]


def test_cut_right_after_started(client, clients):  # F05
    gate = client.gateway.path()
    conversation = new_id()
    task = client.chat({"wait": gate}, {"flood": 20}, conversation=conversation)
    client.drop()
    open(gate, "w", encoding="utf-8").close()
    reader = clients(token=client.token)
    reader.resume(task, 0)
    assert [event["seq"] for event in reader.events(task)] == list(range(1, 25))
    assert len(reader.call("tasks", conversation_id=conversation)["tasks"]) == 1


def test_replay_after_a_restart_is_the_same_to_the_byte():
    with Gateway() as gateway:
        with Client(gateway) as client:
            task, events = client.finish({"flood": 3000, "bytes": 30}, {"thinking": "ü\u0000\u2028"})
            live, token = client.raw_events(task), client.token
        for end in (gateway.kill, gateway.stop):
            end()
            gateway.start()
            with Client(gateway, token=token) as client:
                client.replay(task)
                assert client.raw_events(task) == live
                assert names(client.replay(task, len(events) - 1)) == ["task.completed"]


def test_replay_is_packed_into_few_messages(client, clients):  # F11
    task, events = client.finish({"flood": 10000, "bytes": 40}, {"final_answer": "x"})
    reader = clients(token=client.token)
    reader.replay(task)
    assert reader.largest <= 65536
    assert reader.messages < 100 < len(events)
