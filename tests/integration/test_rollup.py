"""rollup_ms: text merged live (PROTOCOL.md 5, Resuming)."""

import pytest

from gateway import script_agent
from holdfast import new_id, text_of

CONFIG = {"agents": [script_agent(default=True)]}
LONG = 10_000  # longer than the test takes: what is held back comes with another event only


def tokens(lines):
    return [line for line in lines if line["event"] == "token"]


def dense(lines):
    """The rule of a reader: (from or seq) is the last seq plus 1."""
    last = 0
    for line in lines:
        assert line.get("from", line["seq"]) == last + 1
        last = line["seq"]


@pytest.mark.parametrize("verb", ["chat", "resume", "open"])
def test_text_waits_and_anything_else_takes_it_along(client, clients, tmp_path, verb):
    gate = tmp_path / "gate"
    conversation = new_id()
    said = [{"token": letter} for letter in "abcde"]
    steps = [*said[:3], {"wait": str(gate)}, {"progress": 0.5}, *said[3:]]
    if verb == "chat":
        task = client.chat(*steps, conversation=conversation, rollup_ms=LONG)
        reader = client
    else:
        reader = clients(token=client.token)
        if verb == "open":
            reader.call("open", conversation_id=conversation, follow=True, rollup_ms=LONG)
        task = client.chat(*steps, conversation=conversation)
        if verb == "resume":
            reader.resume(task, 0, rollup_ms=LONG)
    plain = clients(token=client.token)
    plain.resume(task, 0)
    plain.expect(lambda line: line.get("event") == "token" and line["data"]["text"] == "c")
    gate.touch()
    plain.wait_terminal(task)
    reader.wait_terminal(task)
    lines, all_of_it = reader.events_since(task), plain.events_since(task)
    dense(lines)
    assert text_of(lines) == text_of(all_of_it) == "abcde"
    assert [line for line in lines if line["event"] != "token"] == [line for line in all_of_it if line["event"] != "token"]
    assert len(tokens(lines)) <= 3 < len(tokens(all_of_it))
    assert tokens(lines)[-1]["data"]["text"] == "de"


def test_held_text_comes_when_its_time_is_over(client):
    """Nothing but time lets it go: the agent says no more."""
    task = client.chat({"token": "a"}, {"token": "b"}, {"hang": True}, conversation=new_id(), rollup_ms=50)
    while text_of(client.events_since(task)) != "ab":
        assert client.pump()
    client.call("cancel", conversation_id=task["conversation_id"], task_id=task["task_id"])


def test_replay_is_merged_too(client):
    task, _ = client.finish(*({"token": letter} for letter in "abcdef"), conversation=new_id())
    lines = client.replay(task, 0, rollup_ms=100)
    dense(lines)
    assert [line["data"]["text"] for line in tokens(lines)] == ["abcdef"]


def test_over_http(gateway, client):
    task, _ = client.finish(*({"token": letter} for letter in "abcdef"), conversation=new_id())
    path = f"/v1/conversations/{task['conversation_id']}/tasks/{task['task_id']}/events?rollup_ms=100"
    body = gateway.http("GET", path, headers={"Authorization": f"Bearer {client.token}"})[2]
    assert body.count(b"event: token") == 1 and b'"text":"abcdef"' in body


def test_bounds(client):
    for wrong in (0, 10_001, -1, "x", 1.5):
        error = client.refused("bad_request", "chat", message="x", rollup_ms=wrong)
        assert error["message"] == '"rollup_ms" must be an integer from 1 to 10000'
