"""notify_on_complete: the end of a task starts a turn of the conversation's agent, once (DESIGN: Background)."""

import pytest

from gateway import Gateway, script_agent, wait_until
from holdfast import TERMINAL, Client, new_id

CONFIG = {"agents": [script_agent(default=True)]}


def notices(client, conversation):
    tasks = client.call("tasks", conversation_id=conversation)["tasks"]
    return [task for task in tasks if task["type"] == "notice"]


def test_end_starts_one_turn_and_the_conversation_tells_of_it(client, clients):
    conversation, gate = new_id(), client.gateway.path()
    client.call("open", conversation_id=conversation, follow=True)
    job = client.chat({"wait": gate}, {"token": "all green"}, conversation=conversation,
                      background=True, notify_on_complete=True, name="build")
    assert job["notify_on_complete"] is True
    open(gate, "w", encoding="utf-8").close()
    turn = client.expect(lambda line: line["type"] == "task" and line["task"]["type"] == "notice"
                         and line["task"]["status"] == "completed")["task"]
    events = client.events_since(turn)
    assert events[0]["event"] == "task.created" and events[0]["seq"] == 1  # followed from the first
    assert "build" in events[0]["data"]["input"] and "all green" in events[0]["data"]["input"]
    messages = client.call("history", conversation_id=conversation)["messages"]
    assert [m["role"] for m in messages][0] == "system"
    assert job["task_id"] in messages[0]["content"]
    with clients() as stranger:
        assert notices(stranger, conversation) == []


def test_a_kill_between_the_end_and_the_turn_delays_it_and_no_more():
    with Gateway(CONFIG) as gateway:
        with Client(gateway) as client:
            token, conversation = client.token, new_id()
            chat = client.chat({"hang": 1}, conversation=conversation)  # the conversation is busy
            job, _ = client.finish({"token": "done"}, conversation=conversation, background=True,
                                   notify_on_complete=True)
            assert job["status"] == "completed"
            assert notices(client, conversation) == []
        for kills in range(3):  # the first one ends the chat as well; nobody is connected
            gateway.kill()
            gateway.start()
        with Client(gateway, token=token) as client:
            assert client.task(chat)["error"]["code"] == "orphaned"
            wait_until(lambda: [task["status"] for task in notices(client, conversation)]
                       and notices(client, conversation)[0]["status"] in ("completed", "failed"),
                       "the turn")
            assert len(notices(client, conversation)) == 1
            events = client.replay(notices(client, conversation)[0], 0)
            assert sum(event["event"] in TERMINAL for event in events) == 1


def test_an_orphan_is_told_of_too():
    with Gateway(CONFIG) as gateway:
        with Client(gateway) as client:
            token, conversation = client.token, new_id()
            job = client.chat({"token": "so far"}, {"hang": 1}, conversation=conversation,
                              background=True, notify_on_complete=True)
            client.event(job, "token")
        gateway.kill()
        gateway.start()
        with Client(gateway, token=token) as client:
            turn = wait_until(lambda: notices(client, conversation), "the turn")[0]
            created = client.replay(turn, 0)[0]
            assert "orphaned" in created["data"]["input"] and "so far" in created["data"]["input"]


@pytest.mark.parametrize("kind, turns", [("all", ["good", "bad"]), ("result", ["good", "bad"]), ("error", ["bad"]),
                                         ("off", [])])
def test_notify_of_an_agent_says_which_ends_begin_a_turn(kind, turns):
    """The others are told with the next turn."""
    with Gateway({"agents": [script_agent(default=True, notify=kind)]}) as gateway, Client(gateway) as client:
        conversation = new_id()
        for name, steps in (("good", [{"token": "done"}]), ("bad", [{"exit": 3}])):
            client.finish(*steps, conversation=conversation, background=True, notify_on_complete=True, name=name)
            if name in turns:
                wait_until(lambda: [task["status"] for task in notices(client, conversation)]
                           == ["completed"] * (turns.index(name) + 1), "its turn")
        client.finish({"token": "told"}, conversation=conversation)
        begun = [client.replay(task, 0)[0]["data"]["input"] for task in notices(client, conversation)]
        assert len(begun) == len(turns) and all(f"({name})" in text for name, text in zip(turns, begun)), begun
        messages = client.call("history", conversation_id=conversation)["messages"]
        said = "".join(message["content"] for message in messages if message["role"] == "system")
        assert said.count("(good)") == said.count("(bad)") == 1, said
