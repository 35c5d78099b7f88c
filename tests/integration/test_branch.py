"""Messages are a tree: reply_to, edit, regenerate and branch (PROTOCOL.md 3 and 5)."""

import json

import pytest

from gateway import Gateway, script_agent
from holdfast import Client, new_id, program

CONFIG = {"agents": [script_agent(default=True)]}
HISTORY = {"answer": "history"}  # the agent's answer is what it was given


def heard(task):
    """The conversation as the agent was given it."""
    return [message["content"] for message in json.loads(task["output"])]


def contents(messages):
    return [message["content"] for message in messages]


def opened(client, conversation):
    return client.call("open", conversation_id=conversation)


def again(client, conversation, id, **fields):
    """Has an answer made again, and waits for its end."""
    since = len(client.log)
    reply = client.call("chat", conversation_id=conversation, regenerate=id, **fields)
    assert reply["type"] == "started", reply
    client.wait_terminal(reply["task"], since)
    return client.task(reply["task"])


def test_edit_begins_a_branch_and_loses_nothing(client):
    conversation = new_id()
    client.finish("one", conversation=conversation)
    client.finish("two", conversation=conversation)
    first = opened(client, conversation)["messages"]
    assert [m.get("parent_id") for m in first] == [None] + [m["message_id"] for m in first[:-1]]
    assert not any("siblings" in m for m in first)
    task, _ = client.finish(HISTORY, conversation=conversation, edit=first[2]["message_id"])
    assert heard(task) == ["one", "one"]
    shown = opened(client, conversation)
    assert [m["message_id"] for m in shown["messages"][:2]] == [m["message_id"] for m in first[:2]]
    edited = shown["messages"][2]
    assert edited["siblings"] == [first[2]["message_id"], edited["message_id"]]
    assert edited["parent_id"] == first[1]["message_id"]
    assert shown["branch"] == {"message_id": shown["messages"][3]["message_id"]}
    everything = client.call("history", conversation_id=conversation, all=True)["messages"]
    assert len(everything) == 6
    reply = client.call("branch", conversation_id=conversation, message_id=first[2]["message_id"])
    assert (reply["type"], reply["message_id"]) == ("branch", first[3]["message_id"])
    assert contents(opened(client, conversation)["messages"]) == ["one", "one", "two", "two"]
    above = client.call("history", conversation_id=conversation, before=first[2]["message_id"])["messages"]
    assert contents(above) == ["one", "one"]


def test_regenerate_asks_the_same_again(client):
    conversation = new_id()
    client.finish("before", conversation=conversation)
    first, _ = client.finish(HISTORY, conversation=conversation)
    second = again(client, conversation, first["task_id"])
    assert heard(first) == heard(second) == ["before", "before"]
    question, answer = opened(client, conversation)["messages"][2:]
    assert second["question_id"] == question["message_id"]
    assert len(answer["siblings"]) == 2 and answer["task_id"] == second["task_id"]
    third = again(client, conversation, answer["siblings"][0])
    assert heard(third) == ["before", "before"]
    shown = opened(client, conversation)["messages"]
    assert len(shown) == 4 and len(shown[3]["siblings"]) == 3
    client.finish("next", conversation=conversation)
    assert len(opened(client, conversation)["messages"]) == 6


def test_failed_task_is_tried_again_and_one_that_runs_is_not(client):
    conversation = new_id()
    failed, _ = client.finish({"exit": 1}, conversation=conversation)
    assert again(client, conversation, failed["task_id"])["status"] == "failed"
    hangs = client.chat({"hang": True}, conversation=conversation)
    client.event(hangs, "task.started")
    client.refused("conflict", "chat", conversation_id=conversation, regenerate=hangs["task_id"])
    client.call("cancel_all", conversation_id=conversation)
    client.wait_terminal(hangs)


def test_open_while_an_answer_is_made_again(client):
    conversation = new_id()
    client.finish("one", conversation=conversation)
    question, answer = opened(client, conversation)["messages"]
    gate = client.gateway.path()
    since = len(client.log)
    edited = client.chat({"wait": gate}, {"token": "new"}, conversation=conversation, edit=question["message_id"])
    client.event(edited, "task.started", since)
    waits = client.chat(HISTORY, conversation=conversation, when_busy="enqueue")
    shown = opened(client, conversation)
    assert len(shown["messages"]) == 2  # the edited one, and what waits behind it
    assert shown["branch"]["task_id"] == waits["task_id"]
    open(gate, "w", encoding="utf-8").close()
    client.wait_terminal(waits, since)
    assert heard(client.task(waits)) == [program({"wait": gate}, {"token": "new"}), "new"]
    assert contents(opened(client, conversation)["messages"])[:2] == heard(client.task(waits))
    client.call("branch", conversation_id=conversation, message_id=question["message_id"])
    assert contents(opened(client, conversation)["messages"]) == ["one", "one"]
    assert opened(client, conversation)["messages"][1]["message_id"] == answer["message_id"]


def test_other_devices_hear_of_it(client, clients):
    conversation = new_id()
    client.finish("one", conversation=conversation)
    other = clients(token=client.token)
    question = opened(other, conversation)["messages"][0]
    client.finish("two", conversation=conversation, edit=question["message_id"])
    pushed = other.expect(lambda line: line["type"] == "message" and line["message"]["content"] == "two")["message"]
    assert len(pushed["siblings"]) == 2 and "parent_id" not in pushed
    turned = other.expect_type("branch")
    assert (turned["conversation_id"], turned["message_id"]) == (conversation, pushed["message_id"])
    since = len(other.log)
    client.call("branch", conversation_id=conversation, message_id=question["message_id"])
    turned = other.expect_type("branch", since)
    assert turned["message_id"] == opened(other, conversation)["messages"][1]["message_id"]


def test_all_of_it_over_http(gateway, client):
    conversation = new_id()
    client.finish("one", conversation=conversation)
    question = opened(client, conversation)["messages"][0]["message_id"]
    headers = {"Authorization": f"Bearer {client.token}", "Content-Type": "application/json"}

    def ask(method, tail, body=None):
        status, _, answer = gateway.http(method, f"/v1/conversations/{conversation}{tail}",
                                         None if body is None else json.dumps(body), headers)
        return status, json.loads(answer)

    status, answer = ask("POST", "/tasks", {"message": "two", "edit": question})
    assert status == 201
    client.resume(answer["task"])
    client.wait_terminal(answer["task"])
    assert contents(ask("GET", "/messages")[1]["messages"]) == ["two", "two"]
    assert len(ask("GET", "/messages?all=true")[1]["messages"]) == 4
    status, answer = ask("POST", "/branch", {"message_id": question})
    assert (status, answer["type"]) == (200, "branch")
    assert contents(ask("GET", "/messages")[1]["messages"]) == ["one", "one"]
    assert ask("POST", "/branch", {"message_id": "x"})[0] == 400
    assert ask("POST", "/branch", {"message_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"})[0] == 404


@pytest.mark.parametrize("member", ["reply_to", "edit", "regenerate"])
def test_id_of_nothing_is_not_found(client, member):
    conversation = new_id()
    client.finish("one", conversation=conversation)
    more = {} if member == "regenerate" else {"message": "x"}
    nothing = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
    client.refused("not_found", "chat", conversation_id=conversation, **{member: nothing}, **more)
    error = client.refused("bad_request", "chat", conversation_id=conversation, **{member: "x"}, **more)
    assert error["message"].startswith(f'"{member}" ')
    message = opened(client, conversation)["messages"][0]["message_id"]
    client.refused("not_found", "chat", conversation_id=new_id(), **{member: message}, **more)


def test_response_goes_on_after_an_older_one(gateway, client):
    headers = {"Authorization": f"Bearer {client.token}", "Content-Type": "application/json"}

    def create(message, **more):
        status, _, answer = gateway.http("POST", "/v1/responses", json.dumps({"input": message, **more}), headers)
        assert status == 200, answer
        return json.loads(answer)

    first = create("one")
    create("two", previous_response_id=first["id"])
    third = create(program(HISTORY), previous_response_id=first["id"])
    assert contents(json.loads(third["output"][-1]["content"][0]["text"])) == ["one", "one"]
    fourth = create(program(HISTORY), previous_response_id=third["id"])
    assert contents(json.loads(fourth["output"][-1]["content"][0]["text"]))[:3] == ["one", "one", program(HISTORY)]


def test_ai_sdk_regenerates(gateway, client):
    conversation = new_id()
    headers = {"Authorization": f"Bearer {client.token}", "Content-Type": "application/json"}
    first, _ = client.finish("one", conversation=conversation)
    body = {"id": conversation, "trigger": "regenerate-message", "messages": [
        {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "one"}]}]}
    for more in ({"messageId": first["task_id"]}, {}):
        status, _, answer = gateway.http("POST", "/v1/ai/chat", json.dumps({**body, **more}), headers)
        assert status == 200 and b'"type":"finish"' in answer, answer
    messages = opened(client, conversation)["messages"]
    assert contents(messages) == ["one", "one"] and len(messages[1]["siblings"]) == 3
    status, _, answer = gateway.http("POST", "/v1/ai/chat", json.dumps({**body, "id": new_id()}), headers)
    assert status == 404, answer


def test_branches_survive_a_kill():
    with Gateway(CONFIG) as gateway:
        with Client(gateway) as client:
            token = client.token
            client.finish("one", conversation="c")
            question, answer = opened(client, "c")["messages"]
            runs = client.call("chat", conversation_id="c", message=program({"hang": True}),
                               edit=question["message_id"])["task"]
            client.event(runs, "task.started")
            waits = client.chat(HISTORY, conversation="c", when_busy="enqueue")
            gateway.kill()
        gateway.start()
        with Client(gateway, token=token) as client:
            client.resume(waits)
            client.wait_terminal(waits)  # the one before it was orphaned, without a word
            assert heard(client.task(waits)) == [program({"hang": True})]
            assert len(opened(client, "c")["messages"]) == 3
            client.call("branch", conversation_id="c", message_id=answer["message_id"])
            gateway.kill()
        gateway.start()
        with Client(gateway, token=token) as client:
            assert contents(opened(client, "c")["messages"]) == ["one", "one"]
            assert client.task(again(client, "c", answer["message_id"]))["status"] == "completed"
            assert len(opened(client, "c")["messages"][1]["siblings"]) == 2
