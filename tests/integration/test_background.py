"""background, results and ack (PROTOCOL.md 5)."""

import pytest

from holdfast import names, new_id


def test_result_is_offered_until_it_is_acknowledged(client, clients):
    conversation = new_id()
    task = client.chat({"answer": "history"}, {"final_answer": "the answer"}, conversation=conversation,
                       background=True)
    assert task["type"] == "background"
    assert names(client.events(task))[-1] == "task.completed"  # its events are streamed too
    for reader in (client, clients(token=client.token)):
        for _ in range(2):
            results = reader.call("results", conversation_id=conversation)["results"]
            assert [(r["task_id"], r["status"], r["answer"]) for r in results] == \
                [(task["task_id"], "completed", "the answer")]
            assert results[0]["prompt"] and results[0]["completed_at"]
    assert client.call("ack", conversation_id=conversation, task_ids=[task["task_id"]])["acked"] == 1
    assert client.call("results", conversation_id=conversation)["results"] == []
    assert client.call("ack", conversation_id=conversation, task_ids=[task["task_id"]])["acked"] == 0


def test_results_are_in_order_of_start_and_running_ones_are_not_in_it(client):
    conversation, gate = new_id(), client.gateway.path()
    slow = client.chat({"wait": gate}, {"token": "slow"}, conversation=conversation, background=True)
    quick = client.chat({"token": "quick"}, conversation=conversation, background=True)
    client.wait_terminal(quick)
    results = client.call("results", conversation_id=conversation)["results"]
    assert [r["answer"] for r in results] == ["quick"]
    open(gate, "w", encoding="utf-8").close()
    client.wait_terminal(slow)
    results = client.call("results", conversation_id=conversation)["results"]
    assert [r["answer"] for r in results] == ["slow", "quick"]


def test_background_writes_no_message_and_has_no_history(client):
    conversation = new_id()
    client.finish("said before", conversation=conversation)
    task, _ = client.finish({"answer": "history"}, conversation=conversation, background=True)
    assert task["output"] in ("[]", "null")
    messages = client.call("history", conversation_id=conversation)["messages"]
    assert [m["content"] for m in messages] == ["said before", "said before"]


def test_failed_background_has_its_status_and_partial_text(client):
    conversation = new_id()
    client.finish({"token": "part"}, {"exit": 1}, conversation=conversation, background=True)
    results = client.call("results", conversation_id=conversation)["results"]
    assert [(r["status"], r["answer"]) for r in results] == [("failed", "part")]


def title_of(client, conversation):
    rows = client.call("conversations")["conversations"]
    return next(row.get("title") for row in rows if row["conversation_id"] == conversation)


@pytest.mark.parametrize("given, title", [
    ({}, "Sift the archive " + "x" * 63),
    ({"description": "Sifts"}, "Sifts"),
    ({"description": "Sifts", "name": "sifter"}, "sifter"),
])
def test_conversation_that_begins_in_the_background_has_a_title(client, given, title):
    """PROTOCOL.md 5, title: of the name, the description or the input of that task."""
    conversation = f"title-{len(title)}"
    task = client.chat("Sift the archive " + "x" * 200, conversation=conversation, background=True, **given)
    client.wait_terminal(task)
    assert title_of(client, conversation) == title
    client.wait_terminal(client.chat("And a chat", conversation=conversation))
    assert title_of(client, conversation) == title
