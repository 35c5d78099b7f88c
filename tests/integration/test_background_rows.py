"""Questions that are answered beside the chat: rows W1 to W10.

Reading an answer was destructive there; here it is `results`, then `ack`.
"""

import json

import pytest

from gateway import SCALE, Gateway, is_alive, script_agent, wait_until
from holdfast import LIVE, Client, ids, new_id
from manager import HANG, listed, make

CONFIG = {"agents": [
    script_agent(default=True),
    script_agent("hurried", timeout_s=2 + 2 * SCALE),
    {"name": "missing", "kind": "exec", "command": ["/nonexistent/program"]},
]}


def ask(client, conversation, *steps, **fields):
    return client.chat(*steps, conversation=conversation, background=True, **fields)


def results(client, conversation):
    return client.call("results", conversation_id=conversation)["results"]


def read(client, conversation):
    """results, then ack: (task_id, answer) of what was read."""
    found = results(client, conversation)
    if found:
        task_ids = [result["task_id"] for result in found]
        assert client.call("ack", conversation_id=conversation, task_ids=task_ids)["acked"] == len(found)
    return [(result["task_id"], result["answer"]) for result in found]


def test_w01_running_tasks_survive_a_read(client):
    conversation = new_id()
    task = ask(client, conversation, HANG)
    client.event(task, "task.started")
    assert read(client, conversation) == []
    assert [(t["task_id"], t["status"]) for t in listed(client, conversation).values()] == \
        [(task["task_id"], "running")]
    client.call("cancel", **ids(task))


def test_w02_done_tasks_are_read_once_and_the_others_stay(client, clients):
    conversation, gate = new_id(), client.gateway.path()
    done, run = ask(client, conversation, {"token": "42"}), ask(client, conversation, {"wait": gate})
    client.wait_terminal(done)
    found = results(client, conversation)
    assert [(result["task_id"], result["answer"]) for result in found] == [(done["task_id"], "42")]
    assert found[0]["prompt"] == '[{"token": "42"}]'
    assert found[0]["completed_at"] == client.task(done)["completed_at"]
    again = clients(token=client.token)  # an answer that was lost with its connection comes again
    assert results(again, conversation) == found
    assert read(again, conversation) == [(done["task_id"], "42")]
    assert read(client, conversation) == []
    assert list(listed(client, conversation, status="running")) == [run["task_id"]]
    make(gate)
    client.wait_terminal(run)
    assert [task_id for task_id, _ in read(client, conversation)] == [run["task_id"]]


def test_w02_reading_one_answer_takes_no_other(client):
    conversation = new_id()
    a, b = (ask(client, conversation, {"token": text}) for text in ("a", "b"))
    for task in (a, b):
        client.wait_terminal(task)
    assert client.call("ack", conversation_id=conversation, task_ids=[a["task_id"]])["acked"] == 1
    assert [result["task_id"] for result in results(client, conversation)] == [b["task_id"]]
    assert client.call("ack", conversation_id=new_id(), task_ids=[b["task_id"]])["acked"] == 0
    assert read(client, conversation) == [(b["task_id"], "b")]


def test_w03_one_that_completes_after_a_poll_is_read_by_the_next(client):
    conversation, gate = new_id(), client.gateway.path()
    task = ask(client, conversation, {"wait": gate}, {"final_answer": "answer!"})
    assert read(client, conversation) == []
    make(gate)
    client.wait_terminal(task)
    assert read(client, conversation) == [(task["task_id"], "answer!")]


def test_w04_nothing_is_left_of_what_was_read(client, clients):
    conversation = new_id()
    task = ask(client, conversation, {"token": "x"})
    client.wait_terminal(task)
    assert len(read(client, conversation)) == 1
    for reader in (client, clients(token=client.token)):
        reply = reader.call("results", conversation_id=conversation)
        assert (reply["results"], reply["more"]) == ([], False)
        assert reader.call("ack", conversation_id=conversation, task_ids=[task["task_id"]])["acked"] == 0


def test_w05_after_the_end_the_answer_is_there(client):
    """Run, then read what it said at last, then complete: as seen from outside."""
    conversation, gate = new_id(), client.gateway.path()
    task = ask(client, conversation, {"thinking": "hm"}, {"token": "The answer "}, {"wait": gate},
               {"token": "is 42"})
    client.event(task, "token")
    assert results(client, conversation) == []
    make(gate)
    client.wait_terminal(task)
    found = results(client, conversation)
    assert [(r["task_id"], r["status"], r["answer"]) for r in found] == \
        [(task["task_id"], "completed", "The answer is 42")]


def test_w06_answer_is_the_last_thing_said_that_is_no_error(client):
    conversation = new_id()
    said = ask(client, conversation, {"token": "draft"}, {"final_answer": "one"}, {"final_answer": "two"})
    failed = ask(client, conversation, {"final_answer": "partial"}, {"stderr": "an error\n"}, {"exit": 1})
    silent = ask(client, conversation, {"thinking": "only thoughts"}, {"stderr": "an error\n"}, {"exit": 1})
    for task in (said, failed, silent):
        client.wait_terminal(task)
    assert [(r["status"], r.get("answer") or "") for r in results(client, conversation)] == \
        [("completed", "two"), ("failed", "partial"), ("failed", "")]


def test_w07_nothing_hidden_is_left_behind(client):
    """There the run had a session of its own; here it has none: no conversation, no message, no process."""
    conversation, path = new_id(), client.gateway.path()
    client.finish("hello", conversation=conversation)
    task = ask(client, conversation, {"touch": path}, {"token": "x"})
    client.wait_terminal(task)
    assert [c["conversation_id"] for c in client.call("conversations")["conversations"]] == [conversation]
    messages = client.call("history", conversation_id=conversation)["messages"]
    assert [m["content"] for m in messages] == ["hello", "hello"]
    with open(path, encoding="utf-8") as file:
        pid = int(file.read())
    wait_until(lambda: not is_alive(pid), "the end of its process")


@pytest.mark.parametrize("steps,agent,status,answer", [
    ([{"token": "part"}, {"exit": 1}], "script", "failed", "part"),
    ([{"token": "part"}, {"kill": 11}], "script", "failed", "part"),
    ([{"token": "part"}, {"raw": "rubbish\n"}, HANG], "script", "failed", "part"),
    ([{"token": "part"}, HANG], "hurried", "failed", "part"),
    ([{"exit": 3}], "script", "failed", ""),
    (["x"], "missing", "failed", ""),
    ([{"thinking": "hm"}], "script", "completed", ""),
], ids=["exit", "crash", "rubbish", "timeout", "silent", "no_program", "no_answer"])
def test_w08_whatever_goes_wrong_polling_ends(client, steps, agent, status, answer):
    conversation = new_id()
    task = ask(client, conversation, *steps, agent=agent)
    found = wait_until(lambda: results(client, conversation), "a result")  # a poller, and nothing else
    assert [(r["task_id"], r["status"], r.get("answer") or "") for r in found] == \
        [(task["task_id"], status, answer)]
    record = client.task(task)
    assert record["status"] == status and bool(record.get("error")) == (status == "failed")


def test_w08_cancelled_one_is_offered_too(client):
    conversation = new_id()
    task = ask(client, conversation, {"token": "part"}, HANG)
    client.event(task, "token")
    client.call("cancel_all", conversation_id=conversation)
    client.wait_terminal(task)
    assert [(r["status"], r["answer"]) for r in results(client, conversation)] == [("cancelled", "part")]


def test_w08_polling_ends_over_a_crash_of_the_gateway():
    with Gateway() as gateway:
        with Client(gateway) as client:
            token = client.token
            done, run = ask(client, "c", {"token": "42"}), ask(client, "c", {"token": "part"}, HANG)
            client.wait_terminal(done)
            client.event(run, "token")
            gateway.kill()
        gateway.start()
        with Client(gateway, token=token) as client:
            assert [(r["task_id"], r["status"], r["answer"]) for r in results(client, "c")] == \
                [(done["task_id"], "completed", "42"), (run["task_id"], "failed", "part")]
            assert client.task(run)["error"]["code"] == "orphaned"
            assert len(read(client, "c")) == 2
        gateway.kill()
        gateway.start()
        with Client(gateway, token=token) as client:
            assert results(client, "c") == []  # an ack outlives the gateway as well


def test_w09_running_ones_stay_tracked_until_they_end(client):
    conversation = new_id()
    gates = [client.gateway.path() for _ in range(3)]
    tasks = [ask(client, conversation, {"wait": gate}, {"token": str(i)}) for i, gate in enumerate(gates)]
    for i in (1, 2, 0):  # not in the order in which they were started
        make(gates[i])
        client.wait_terminal(tasks[i])
        assert read(client, conversation) == [(tasks[i]["task_id"], str(i))]
    assert read(client, conversation) == []


def test_w09_ack_of_a_running_one_loses_nothing(client):
    conversation, gate = new_id(), client.gateway.path()
    task = ask(client, conversation, {"wait": gate}, {"token": "kept"})
    for _ in range(2):
        client.event(task, "task.started")
        ack = client.call("ack", conversation_id=conversation, task_ids=[task["task_id"]])
        assert ack["acked"] == 0
    make(gate)
    client.wait_terminal(task)
    assert read(client, conversation) == [(task["task_id"], "kept")]


def test_w09_results_are_in_the_order_of_their_start(client):
    conversation, gate = new_id(), client.gateway.path()
    first = ask(client, conversation, {"wait": gate}, {"token": "first"})
    second = ask(client, conversation, {"token": "second"})
    client.wait_terminal(second)
    make(gate)
    client.wait_terminal(first)
    assert [answer for _, answer in read(client, conversation)] == ["first", "second"]


def test_w10_fields_come_in_any_order_and_records_show_status_and_id(client):
    conversation = new_id()
    client.send_text('{"background":true,"message":"[{\\"token\\":\\"a\\"}]","conversation_id":"%s",'
                     '"id":"backwards","type":"chat"}' % conversation)
    first = client.reply("backwards")["task"]
    second = ask(client, conversation, {"token": "b"})
    for task in (first, second):
        assert task["type"] == "background" and task["status"] in LIVE and task["task_id"]
        client.wait_terminal(task)
    assert [(t["task_id"], t["status"]) for t in listed(client, conversation).values()] == \
        [(first["task_id"], "completed"), (second["task_id"], "completed")]


def test_w10_the_same_over_http(client):
    conversation = new_id()
    where, headers = f"/v1/conversations/{conversation}", {"Authorization": "Bearer " + client.token}
    send = {**headers, "Content-Type": "application/json"}
    body = json.dumps({"message": '[{"token":"42"}]', "background": True})
    status, _, answer = client.gateway.http("POST", where + "/tasks", body, send)
    task = json.loads(answer)["task"]
    assert status == 201 and task["type"] == "background"

    def over_http():
        return json.loads(client.gateway.http("GET", where + "/results", None, headers)[2])["results"]

    found = wait_until(over_http, "a result")
    assert [(r["task_id"], r["answer"]) for r in found] == [(task["task_id"], "42")]
    body = json.dumps({"task_ids": [task["task_id"]]})
    status, _, answer = client.gateway.http("POST", where + "/results/ack", body, send)
    assert (status, json.loads(answer)["acked"]) == (200, 1)
    assert over_http() == results(client, conversation) == []
