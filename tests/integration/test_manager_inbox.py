"""Messages to tasks: rows A57 to A61, A63, A87, A92, A95, A97, A99 and A100 of the task manager.

What refuses a message, in this order: not found, another's (the same answer), ended, no inbox.
"""

from holdfast import ids, names, new_id
from manager import HANG, child, listed, make, running, said, spawn

LISTEN = {"hear": "message", "say": True}
NONE = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def message_events(events):
    return [event["data"] for event in events if event["event"] == "message"]


def test_a57_message_reaches_the_child(client):
    task = client.chat(spawn("kid", LISTEN), {"call": "send", "child": "kid", "say": True,
                                              "content": "hello from parent"}, LISTEN)
    kid = child(client, task)
    client.resume(kid)
    events = list(client.events(kid))
    assert message_events(events) == [{"from": "parent", "content": "hello from parent"}]
    assert said(events) == [{"type": "message", "from": "parent", "content": "hello from parent"}]
    assert events[-1]["event"] == "task.completed"
    answer, end = said(client.events(task))
    assert answer["type"] == "ok"
    assert end["from"] == "child" and end["child"]["task_id"] == kid["task_id"]


def test_a57_message_of_a_client_reaches_the_child(client):
    task = client.chat(spawn("kid", LISTEN), LISTEN)
    kid = child(client, task)
    client.resume(kid)
    client.event(kid, "task.started")
    client.call("send", **ids(kid), content="hello from a client")
    events = list(client.events(kid))
    assert message_events(events) == [{"from": "user", "content": "hello from a client"}]
    client.wait_terminal(task)


def test_a57_child_writes_to_its_parent(client):
    task, events = client.finish(
        spawn("kid", {"call": "send", "task_id": "parent", "content": "hello from child", "say": True}),
        LISTEN, {"hear": "message"})
    assert said(events)[0] == {"type": "message", "from": "child", "content": "hello from child"}
    assert message_events(events)[0] == {"from": "child", "content": "hello from child"}
    kid = child(client, task)
    assert said(client.replay(kid, 0))[0]["type"] == "ok"


def test_a58_wrong_thread_is_not_found(client, clients):
    path = client.gateway.path()
    task = client.chat(LISTEN, {"dump": path}, conversation="thread-1")
    client.finish("x", conversation="thread-2")
    other = clients()
    other.finish("x", conversation="thread-1")
    missing = client.refused("not_found", "send", task_id=NONE, conversation_id="thread-1", content="x")
    wrong = client.refused("not_found", "send", task_id=task["task_id"], conversation_id="thread-2",
                           content="x")
    foreign = other.refused("not_found", "send", **ids(task), content="x")
    assert missing["message"] == wrong["message"] == foreign["message"]
    client.call("send", **ids(task), content="at last")
    events = list(client.events(task))
    assert message_events(events) == [{"from": "user", "content": "at last"}]


def test_a58_agent_writes_to_its_own_only(client):
    other = client.chat(LISTEN, conversation="thread-3")
    client.event(other, "task.started")
    _, events = client.finish(
        *({"call": "send", "task_id": task, "content": "x", "say": True}
          for task in (other["task_id"], NONE, "parent")), conversation="thread-3")
    answers = said(events)
    assert [(answer["type"], answer["code"]) for answer in answers] == [("error", "not_found")] * 3
    assert len({answer["message"] for answer in answers}) == 1
    client.call("send", **ids(other), content="end")
    assert message_events(client.events(other)) == [{"from": "user", "content": "end"}]


def test_a59_completed_task_is_terminated(client):
    task, events = client.finish("x")
    client.refused("task_terminated", "send", **ids(task), content="late")
    assert client.replay(task) == events and not client.task(task).get("undelivered")


def test_a59_terminated_comes_before_no_inbox(client):
    task, _ = client.finish({"close_stdin": 1}, {"token": "x"})
    client.refused("task_terminated", "send", **ids(task), content="late")
    client.refused("not_found", "send", task_id=task["task_id"], conversation_id="nowhere", content="late")


def test_a60_nonexistent_task_is_not_found(client):
    client.finish("x", conversation="thread-1")
    client.refused("not_found", "send", task_id=NONE, conversation_id="thread-1", content="x")
    client.refused("not_found", "send", task_id="nonexistent", conversation_id="thread-1", content="x")


def test_a61_agent_without_an_inbox_says_so(client):
    """The agent closed its stdin before the token: the first message is refused, none is taken and lost."""
    task = client.chat({"close_stdin": 1}, {"token": "closed"}, HANG)
    client.event(task, "token")
    client.refused("no_inbox", "send", **ids(task), content="x")
    client.refused("no_inbox", "send", **ids(task), content="y")
    client.call("cancel", **ids(task))
    assert message_events(client.events(task)) == []
    assert not client.task(task).get("undelivered")


def test_end_of_a_child_that_a_deaf_parent_cannot_take_is_undelivered(gateway, client):
    go, end = gateway.path(), gateway.path()
    task = client.chat(spawn("one", {"wait": go}), spawn("two", {"wait": go}), {"close_stdin": 1},
                       {"token": "closed"}, {"wait": end})
    client.event(task, "token")
    kids = [child(client, task, n) for n in (1, 2)]
    for kid in kids:
        client.resume(kid)
    make(go)
    for kid in kids:
        client.wait_terminal(kid)
    client.refused("no_inbox", "send", **ids(task), content="x")
    make(end)
    client.wait_terminal(task)
    undelivered = client.task(task)["undelivered"]
    assert [m["from"] for m in undelivered] == ["child", "child"]
    assert {m["child"]["task_id"] for m in undelivered} == {kid["task_id"] for kid in kids}


def test_a63_full_life_of_an_agent_with_children(client):
    conversation = new_id()
    leaf = spawn("leaf", {"custom": "progress", "payload": 1}, {"result": {"leaf": True}},
                 {"final_answer": "leaf's answer"})
    root = client.chat(spawn("agent", leaf, LISTEN, {"final_answer": "agent's answer"}), LISTEN,
                       conversation=conversation)
    agent = child(client, root)
    client.resume(agent)
    heard = said(client.events(agent))
    kid = child(client, agent)
    assert len(heard) == 1
    assert (heard[0]["from"], heard[0]["content"]) == ("child", "leaf's answer")
    summary = heard[0]["child"]
    assert (summary["task_id"], summary["status"], summary["result"], summary["output"]) == \
        (kid["task_id"], "completed", {"leaf": True}, "leaf's answer")
    end = said(client.events(root))[0]["child"]
    assert (end["task_id"], end["output"]) == (agent["task_id"], "agent's answer")
    assert {task["status"] for task in listed(client, conversation).values()} == {"completed"}
    assert running(client, conversation) == 0


def test_a63_failed_and_cancelled_children_are_told_as_well(client):
    root = client.chat(spawn("bad", {"stderr": "no luck\n"}, {"token": "part"}, {"exit": 1}), LISTEN,
                       spawn("ugly", HANG), {"call": "cancel", "child": "ugly"}, LISTEN)
    bad, ugly = said(client.events(root))
    assert (bad["child"]["status"], bad["content"]) == ("failed", "part")
    assert "no luck" in bad["child"]["error"]["message"]
    assert ugly["child"]["status"] == "cancelled"


def test_a87_named_agent_that_completed_is_terminated(client):
    task, _ = client.finish(spawn("kid", {"token": "x"}, name="worker"), LISTEN, name="boss")
    for ended in (task, child(client, task)):
        assert client.task(ended)["name"] in ("boss", "worker")
        client.refused("task_terminated", "send", **ids(ended), content="late")


def test_a92_messages_reach_the_one_they_are_for(client):
    task = client.chat(spawn("a", LISTEN, name="a"), spawn("b", LISTEN, name="b"),
                       {"call": "send", "child": "a", "content": "for a"}, LISTEN, HANG)
    a, b = child(client, task), child(client, task, 2)
    client.resume(a)
    client.resume(b)
    assert message_events(client.events(a)) == [{"from": "parent", "content": "for a"}]
    client.event(b, "task.started")
    client.call("cancel", **ids(task), tree=True)
    events = list(client.events(b))
    assert message_events(events) == [] and said(events) == []
    assert not client.task(b).get("undelivered")


def test_a95_inbox_is_closed_when_its_agent_has_ended(client):
    gate = client.gateway.path()
    task = client.chat({"token": "x"}, {"wait": gate})
    client.event(task, "token")
    client.call("send", **ids(task), content="never read")
    make(gate)
    client.wait_terminal(task)
    client.refused("task_terminated", "send", **ids(task), content="late")


def test_a97_events_of_nested_agents_flow(client):
    task = client.chat(spawn("inner", {"call": "send", "task_id": "parent", "content": "into the inbox"}),
                       LISTEN, LISTEN, {"final_answer": "outer"})
    events = list(client.events(task))
    assert [message["content"] for message in message_events(events)] == ["into the inbox", ""]
    assert events[-1]["event"] == "task.completed" and events[-1]["data"]["output"] == "outer"
    assert names(events).index("child") < names(events).index("message")


def test_a99_unnamed_task_is_addressed_by_its_id(client):
    task = client.chat(LISTEN, description="no name")
    client.event(task, "task.started")
    record = client.task(task)
    assert record["description"] == "no name" and not record.get("name")
    client.refused("not_found", "send", conversation_id=task["conversation_id"], task_id="no name", content="")
    client.call("send", **ids(task), content="by id")
    assert message_events(client.events(task)) == [{"from": "user", "content": "by id"}]


def test_a100_empty_message_is_delivered(client):
    task = client.chat(LISTEN)
    client.event(task, "task.started")
    client.call("send", **ids(task), content="")
    events = list(client.events(task))
    assert message_events(events) == [{"from": "user", "content": ""}]
    assert said(events) == [{"type": "message", "from": "user", "content": ""}]


def test_a100_empty_message_of_an_agent_is_delivered(client):
    task, _ = client.finish(spawn("kid", LISTEN), {"call": "send", "child": "kid", "content": ""},
                            {"hear": "message"})
    kid = child(client, task)
    assert message_events(client.replay(kid)) == [{"from": "parent", "content": ""}]


def test_a95_child_that_ended_is_terminated_for_its_parent(client):
    _, events = client.finish(spawn("kid", {"token": "x"}), {"hear": "message"},
                              {"call": "send", "child": "kid", "content": "late", "say": True})
    answer = said(events)[0]
    assert (answer["type"], answer["code"]) == ("error", "task_terminated")


def test_a95_parent_that_ended_is_terminated_for_its_child(client):
    gate = client.gateway.path()
    task = client.chat(spawn("kid", {"wait": gate}, {"call": "send", "task_id": "parent", "content": "late",
                                                     "say": True}))
    kid = child(client, task)
    client.wait_terminal(task)
    client.resume(kid)
    make(gate)
    answer = said(client.events(kid))[0]
    assert (answer["type"], answer["code"]) == ("error", "task_terminated")
