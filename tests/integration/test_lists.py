"""open, close, watch and the lists (PROTOCOL.md 5)."""

import concurrent.futures
import json
import os

import pytest

from gateway import Gateway, is_alive
from holdfast import Client, ids, names, new_id, program, wait_until


def gate_of(client):
    return client.gateway.path()


def make(path):
    open(path, "w", encoding="utf-8").close()


def pushes(client, since=0):
    return [line["task"] for line in client.log[since:] if line["type"] == "task" and "id" not in line]


def until_pushed(client, task, status, since=0):
    return client.expect(
        lambda line: line["type"] == "task" and "id" not in line
        and line["task"]["task_id"] == task["task_id"] and line["task"]["status"] == status, since)["task"]


# ------------------------------------------------------------------ open


def test_open_shows_messages_and_tasks(client):
    conversation = new_id()
    first, _ = client.finish("one", conversation=conversation)
    second, _ = client.finish({"token": "part"}, {"exit": 1}, conversation=conversation)
    reply = client.call("open", conversation_id=conversation)
    assert (reply["type"], reply["conversation_id"]) == ("conversation", conversation)
    assert [m["content"] for m in reply["messages"]] == \
        ["one", "one", program({"token": "part"}, {"exit": 1}), "part"]
    assert [t["task_id"] for t in reply["tasks"]] == [first["task_id"], second["task_id"]]
    assert [t["status"] for t in reply["tasks"]] == ["completed", "failed"]
    for task in reply["tasks"]:
        for absent in ("output", "result", "metadata", "undelivered"):
            assert not task.get(absent)


def test_open_of_one_that_does_not_exist_is_empty_then_live(client, clients):
    conversation = new_id()
    reply = client.call("open", conversation_id=conversation)
    assert (reply["messages"], reply["tasks"]) == ([], [])
    other = clients(token=client.token)
    task = other.chat("hello", conversation=conversation)
    until_pushed(client, task, "completed")
    messages = [line["message"] for line in client.log if line["type"] == "message"]
    assert [(m["role"], m["content"]) for m in messages] == [("user", "hello"), ("assistant", "hello")]
    assert all(line["conversation_id"] == conversation for line in client.log if line["type"] == "message")


def test_open_pushes_changes_and_never_goes_back(client, clients):
    conversation, gate = new_id(), gate_of(client)
    watching = clients(token=client.token)
    watching.call("open", conversation_id=conversation)
    task = client.chat({"progress": 0.3}, {"wait": gate}, conversation=conversation)
    watching.expect(lambda line: line["type"] == "task" and line["task"].get("progress") == 0.3)
    client.call("cancel", **ids(task))
    until_pushed(watching, task, "cancelled")
    states = [push["status"] for push in pushes(watching)]
    order = {"pending": 0, "running": 1, "cancelled": 2}
    assert [order[s] for s in states] == sorted(order[s] for s in states)
    heads = [push["head"] for push in pushes(watching)]
    assert heads == sorted(heads)
    for push in pushes(watching):
        assert not push.get("output") and not push.get("metadata")
    assert not [line for line in watching.log if line["type"] == "event"]  # without follow: none


def test_open_pushes_every_message_in_order(client, clients):
    conversation = new_id()
    watching = clients(token=client.token)
    watching.call("open", conversation_id=conversation)
    for i in range(20):
        client.finish(f"m{i}", conversation=conversation)
    watching.expect(lambda line: line["type"] == "message" and line["message"]["role"] == "assistant"
                    and line["message"]["content"] == "m19")
    told = [line["message"]["content"] for line in watching.log if line["type"] == "message"]
    assert told == [f"m{i // 2}" for i in range(40)]


def test_open_limit_is_of_each_but_all_live_tasks_are_shown(client):
    conversation, gate = new_id(), gate_of(client)
    live = [client.chat({"wait": gate}, conversation=conversation) for _ in range(3)]
    for i in range(5):
        client.finish(f"m{i}", conversation=conversation)
    reply = client.call("open", conversation_id=conversation, limit=2)
    assert [m["content"] for m in reply["messages"]] == ["m4", "m4"]
    assert {t["task_id"] for t in live} <= {t["task_id"] for t in reply["tasks"]}
    assert len(reply["tasks"]) <= 5
    make(gate)


def test_open_twice_is_harmless(client):
    conversation = new_id()
    client.call("open", conversation_id=conversation)
    client.call("open", conversation_id=conversation)
    task, _ = client.finish("x", conversation=conversation)
    until_pushed(client, task, "completed")
    told = [line["message"]["role"] for line in client.log if line["type"] == "message"]
    assert told == ["user", "assistant"]


# ------------------------------------------------------------------ follow


def test_follow_gives_live_tasks_from_their_head_and_new_ones_from_one(client, clients):
    conversation, gate = new_id(), gate_of(client)
    live = client.chat({"flood": 10}, {"wait": gate}, {"flood": 10}, conversation=conversation)
    client.expect(lambda line: line.get("seq") == 12)
    tab = clients(token=client.token)
    reply = tab.call("open", conversation_id=conversation, follow=True)
    assert reply["tasks"][0]["head"] == 12
    new = client.chat("new", conversation=conversation)
    assert [event["seq"] for event in tab.events(new)] == [1, 2, 3, 4, 5]
    make(gate)
    assert [event["seq"] for event in tab.events(live)] == list(range(13, 25))


def test_follow_while_events_pour_has_no_gap(client, clients):
    conversation, gate = new_id(), gate_of(client)
    tasks = [client.chat({"flood": 4000, "per_s": 2000}, {"wait": gate}, conversation=conversation) for _ in range(3)]
    tabs = []
    for _ in range(8):
        tabs.append(clients(token=client.token))
        tabs[-1].call("open", conversation_id=conversation, follow=True)
    make(gate)  # none that has ended is followed
    late = client.chat({"flood": 50}, conversation=conversation)

    def read(tab):
        for task in tasks + [late]:
            tab.wait_terminal(task)  # density is checked by the client
    with concurrent.futures.ThreadPoolExecutor(len(tabs)) as pool:  # whoever waits for others to have read is too slow
        list(pool.map(read, tabs))


def test_resume_of_a_followed_task_moves_its_cursor(client, clients):
    conversation, gate = new_id(), gate_of(client)
    task = client.chat({"flood": 10}, {"wait": gate}, conversation=conversation)
    client.expect(lambda line: line.get("seq") == 12)
    tab = clients(token=client.token)
    tab.call("open", conversation_id=conversation, follow=True)
    events = tab.replay(task, 0)
    assert [event["seq"] for event in events] == list(range(1, 13))
    since = len(tab.log)
    make(gate)
    assert next(tab.events(task, since))["seq"] == 13


# ------------------------------------------------------------------ close


def test_close_ends_the_pushes(client, clients):
    conversation = new_id()
    tab = clients(token=client.token)
    tab.call("open", conversation_id=conversation, follow=True)
    task, _ = client.finish("x", conversation=conversation)
    tab.wait_terminal(task)
    tab.call("close", conversation_id=conversation)  # any later push fails the client's check
    since = len(tab.log)
    for _ in range(5):
        client.finish("x", conversation=conversation)
        tab.quiet()
    assert {line["type"] for line in tab.log[since:]} == {"pong"}


def test_close_of_what_is_not_open_is_ok(client):
    assert client.call("close", conversation_id=new_id())["type"] == "ok"


# ------------------------------------------------------------------ watch


def test_watch_tells_of_every_conversation_of_the_owner(client, clients):
    watching, stranger = clients(token=client.token), clients()
    assert watching.call("watch")["type"] == "ok"
    stranger.finish("x", conversation=new_id("stranger"))
    one, two = new_id(), new_id()
    gate = gate_of(client)
    task = client.chat({"wait": gate}, conversation=one)
    client.finish("hello", conversation=two)

    def changed(conversation, **state):
        return watching.expect(
            lambda line: line["type"] == "conversation_changed"
            and line["conversation"]["conversation_id"] == conversation
            and all(line["conversation"].get(k, 0) == v for k, v in state.items()))["conversation"]

    changed(one, running=1)
    assert changed(two, running=0)["title"] == "hello"
    make(gate)
    client.wait_terminal(task)
    changed(one, running=0)
    client.call("title", conversation_id=one, title="A name")
    changed(one, title="A name")
    client.call("delete", conversation_id=two)
    watching.expect(lambda line: line["type"] == "conversation_changed"
                    and (line.get("deleted") or line["conversation"].get("deleted"))
                    and two in str(line))
    told = {line["conversation"]["conversation_id"] for line in watching.log
            if line["type"] == "conversation_changed"}
    assert told == {one, two}


# ------------------------------------------------------------------ paging


@pytest.fixture(scope="module")
def many(gateway):
    """A guest with a conversation of 12 tasks that have ended (7 completed) and 24 messages."""
    with Client(gateway) as client:
        client.conversation = new_id()
        client.made = []
        for i in range(12):
            steps = [{"token": f"t{i}"}, {"exit": 0 if i % 5 else 2}] if i % 2 == 0 else [f"t{i}"]
            client.made.append(client.finish(*steps, conversation=client.conversation)[0])
        yield client


def page_through(client, type, key, **fields):
    """All pages from the newest to the oldest, put together in their order."""
    found, before, pages = [], None, 0
    while True:
        if before is not None:
            fields["before"] = before
        reply = client.call(type, **fields)
        assert reply["type"] == type
        found = reply[{"history": "messages"}.get(type, type)] + found if type != "conversations" \
            else found + reply["conversations"]
        pages += 1
        if not reply["more"]:
            return found, pages
        before = (found[-1] if type == "conversations" else found[0])[key]


def test_tasks_are_the_newest_in_order_of_creation(many):
    made = [task["task_id"] for task in many.made]
    reply = many.call("tasks", conversation_id=many.conversation)
    assert [t["task_id"] for t in reply["tasks"]] == made and reply["more"] is False
    reply = many.call("tasks", conversation_id=many.conversation, limit=5)
    assert [t["task_id"] for t in reply["tasks"]] == made[-5:] and reply["more"] is True
    reply = many.call("tasks", conversation_id=many.conversation, limit=5, before=made[-5])
    assert [t["task_id"] for t in reply["tasks"]] == made[-10:-5] and reply["more"] is True
    for absent in ("output", "result", "metadata", "undelivered"):
        assert not any(t.get(absent) for t in reply["tasks"])


@pytest.mark.parametrize("limit", [1, 4, 5, 12, 200])
def test_tasks_page_through(many, limit):
    found, pages = page_through(many, "tasks", "task_id", conversation_id=many.conversation, limit=limit)
    assert [t["task_id"] for t in found] == [t["task_id"] for t in many.made]
    assert pages == -(-12 // limit)


def test_tasks_by_status(many):
    for status in ("completed", "failed", "pending", "running", "cancelled"):
        reply = many.call("tasks", conversation_id=many.conversation, status=status)
        expected = [t["task_id"] for t in many.made if t["status"] == status]
        assert [t["task_id"] for t in reply["tasks"]] == expected
    found, _ = page_through(many, "tasks", "task_id", conversation_id=many.conversation,
                            status="completed", limit=2)
    assert [t["task_id"] for t in found] == \
        [t["task_id"] for t in many.made if t["status"] == "completed"]


@pytest.mark.parametrize("limit", [1, 7, 24, 25])
def test_history_pages_through(many, limit):
    found, _ = page_through(many, "history", "message_id", conversation_id=many.conversation, limit=limit)
    everything = many.call("history", conversation_id=many.conversation)["messages"]
    assert found == everything
    assert [m["role"] for m in found] == ["user", "assistant"] * 12
    assert [m["task_id"] for m in found[::2]] == [t["task_id"] for t in many.made]


def test_conversations_are_newest_first(client):
    made = []
    for i in range(7):
        made.append(new_id())
        client.finish(f"title {i}", conversation=made[-1])
    client.finish("again", conversation=made[0])
    expected = [made[0]] + made[:0:-1]
    reply = client.call("conversations")
    assert [c["conversation_id"] for c in reply["conversations"]] == expected
    assert [c["title"] for c in reply["conversations"]] == ["title 0"] + [f"title {i}" for i in range(6, 0, -1)]
    times = [c["updated_at"] for c in reply["conversations"]]
    assert times == sorted(times, reverse=True)
    found, _ = page_through(client, "conversations", "conversation_id", limit=2)
    assert [c["conversation_id"] for c in found] == expected


def test_conversations_count_what_runs(client):
    conversation, gate = new_id(), gate_of(client)
    tasks = [client.chat({"wait": gate}, conversation=conversation) for _ in range(2)]
    assert client.call("conversations")["conversations"][0]["running"] == 2
    make(gate)
    for task in tasks:
        client.wait_terminal(task)
    assert client.call("conversations")["conversations"][0].get("running", 0) == 0


def test_limit_is_at_most_200(client):
    for type in ("conversations", "tasks", "history"):
        fields = {} if type == "conversations" else {"conversation_id": "c"}
        assert client.call(type, limit=200, **fields)["more"] is False
        reply = client.ask(type, limit=201, **fields)  # refused, or served as 200
        assert reply["type"] == type or (reply["code"], "limit" in reply["message"]) == ("bad_request", True)


def test_history_ends_early_at_256_kib(client):
    conversation = new_id()
    for i in range(6):
        client.finish(chr(97 + i) * 50000, conversation=conversation)
    reply = client.call("history", conversation_id=conversation)
    assert reply["more"] is True
    assert len(client.raw[-1]) <= 256 * 1024
    assert reply["messages"][-1]["content"] == "f" * 50000
    found, _ = page_through(client, "history", "message_id", conversation_id=conversation)
    assert [m["content"][0] for m in found] == [chr(97 + i // 2) for i in range(12)]


def test_before_that_does_not_exist_gives_no_foreign_thing(client, clients):
    stranger = clients()
    theirs, _ = stranger.finish("x", conversation="c")
    client.finish("mine", conversation="c")
    for type in ("tasks", "history"):
        reply = client.ask(type, conversation_id="c", before=theirs["task_id"])
        assert theirs["task_id"] not in str(reply.get("tasks", "")) + str(reply.get("messages", ""))


def test_lists_of_a_conversation_that_does_not_exist_are_empty(client):
    conversation = new_id()
    assert client.call("tasks", conversation_id=conversation)["tasks"] == []
    assert client.call("history", conversation_id=conversation)["messages"] == []
    assert client.call("results", conversation_id=conversation)["results"] == []
    assert client.call("conversations")["conversations"] == []


# ------------------------------------------------------------------ title and delete


def test_title_names_a_conversation_for_good(client):
    conversation = new_id()
    client.finish("first", conversation=conversation)
    client.call("title", conversation_id=conversation, title="Ein Name 😀")
    client.finish("second", conversation=conversation)
    assert client.call("conversations")["conversations"][0]["title"] == "Ein Name 😀"


def test_delete_removes_everything_and_frees_the_id(client):
    conversation, gate = new_id(), gate_of(client)
    ended, _ = client.finish("x", conversation=conversation, request_key="k")
    live = client.chat({"wait": gate}, conversation=conversation)
    client.event(live, "task.started")
    assert client.call("delete", conversation_id=conversation)["type"] == "ok"
    for task in (ended, live):
        client.refused("not_found", "task", **ids(task))
        client.refused("not_found", "resume", **ids(task))
    assert client.call("tasks", conversation_id=conversation)["tasks"] == []
    assert client.call("history", conversation_id=conversation)["messages"] == []
    assert client.call("conversations")["conversations"] == []
    again = client.call("chat", message="y", conversation_id=conversation, request_key="k")
    assert "repeated" not in again
    client.wait_terminal(again["task"])
    messages = client.call("history", conversation_id=conversation)["messages"]
    assert [m["content"] for m in messages] == ["y", "y"]


def test_delete_stops_the_agents(client):
    conversation, path = new_id(), gate_of(client)
    client.chat({"dump": path}, {"hang": 1}, conversation=conversation)
    wait_until(lambda: os.path.exists(path), "the start")
    pid = json.load(open(path, encoding="utf-8"))["pid"]
    client.call("delete", conversation_id=conversation)
    wait_until(lambda: not is_alive(pid), "the agent's end")


def test_delete_ends_what_other_tabs_follow(client, clients):
    conversation = new_id()
    task = client.chat({"hang": 1}, conversation=conversation)
    tab = clients(token=client.token)
    tab.resume(task)
    client.call("delete", conversation_id=conversation)
    end = tab.wait_terminal(task)  # the task is cancelled first, and that is told
    assert end["data"]["status"] == "cancelled"


def test_delete_of_one_that_does_not_exist_is_ok(client):
    assert client.call("delete", conversation_id=new_id())["type"] == "ok"


def test_delete_is_for_good():
    with Gateway() as gateway:
        with Client(gateway) as client:
            token = client.token
            task, _ = client.finish("x", conversation="c")
            kept, events = client.finish("y", conversation="d")
            client.call("delete", conversation_id="c")
        gateway.kill()
        gateway.start()
        with Client(gateway, token=token) as client:
            client.refused("not_found", "task", **ids(task))
            assert [c["conversation_id"] for c in client.call("conversations")["conversations"]] == ["d"]
            assert names(client.replay(kept)) == names(events)
