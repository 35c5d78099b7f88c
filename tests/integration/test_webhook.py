"""Webhooks: every end of a task is told, at least once, signed; and never where it must not go."""

import base64
import hashlib
import hmac
import json
import threading

import pytest

import model_server as m
from gateway import LATE_S, Gateway, run, wait_until
from holdfast import Client, ids
from model_server import CLOSE, ModelServer
from test_metrics import scrape

SECRET = b"0123456789abcdef0123456789abcdef"


@pytest.fixture
def receiver():
    running = ModelServer("127.0.0.2")
    running.script = [said(204)]
    yield running
    running.close()


def said(status, **headers):
    return [m.head(status=status, Content_Length=0, **headers), CLOSE]


def config(tmp_path, receiver, secret=b"whsec_" + base64.b64encode(SECRET), **hook):
    (tmp_path / "secret").write_bytes(secret + b"\n")
    return {"webhooks": [{"name": "h", "url": receiver.url + "/told?x=1", "secret_file": str(tmp_path / "secret"),
                          **hook}], "webhook_allow": ["127.0.0.2"]}


def check_signature(request, secret=SECRET):
    """By the standard's own words, and not by our code: id.timestamp.body."""
    told = request.headers
    signed = b".".join([told["webhook-id"].encode(), told["webhook-timestamp"].encode(), request.body])
    mac = base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
    assert told["webhook-signature"] == f"v1,{mac}"
    assert told["Content-Type"] == "application/json"
    return told["webhook-id"]


def tries(gateway, outcome):
    return scrape(gateway)[1]['holdfast_webhook_messages_total{outcome="%s"}' % outcome]


def arrived(receiver, n):
    wait_until(lambda: len(receiver.requests) >= n, f"{n} requests")
    return receiver.requests


def stored(gateway):
    import database
    with database.opened(gateway) as db:
        return [row[0] for row in db.execute("SELECT id FROM outbox ORDER BY key")]


@pytest.mark.parametrize("secret", [SECRET, b"whsec_" + base64.b64encode(SECRET)])
def test_each_end_is_told_with_a_signature(tmp_path, receiver, secret):
    with Gateway(config(tmp_path, receiver, secret)) as gateway, Client(gateway) as client:
        done, _ = client.finish({"token": "ü"}, conversation="c")
        failed, _ = client.finish({"token": "x"}, {"exit": 3})
        hung = client.chat({"token": "a"}, {"hang": 1})
        client.event(hung, "token")
        client.call("cancel", task_id=hung["task_id"], conversation_id=hung["conversation_id"])
        client.wait_terminal(hung)
        requests = arrived(receiver, 3)
        ends = {}
        for request in requests:
            assert (request.method, request.path) == ("POST", "/told?x=1")
            check_signature(request)
            body = request.json
            assert body["data"]["owner"] == client.owner
            ends[body["data"]["task"]["task_id"]] = body
        assert len({request.headers["webhook-id"] for request in requests}) == 3
        assert ends[done["task_id"]]["type"] == "task.completed"
        assert ends[done["task_id"]]["data"]["task"] == done
        assert ends[done["task_id"]]["timestamp"] == done["completed_at"]
        assert (ends[failed["task_id"]]["type"], ends[failed["task_id"]]["data"]["task"]["status"]) \
            == ("task.failed", "failed")
        assert ends[hung["task_id"]]["data"]["task"]["status"] == "cancelled"
        wait_until(lambda: tries(gateway, "delivered") == 3, "the count")
        gateway.stop()
        assert stored(gateway) == []


def test_what_fails_is_tried_again_with_the_same_id(tmp_path, receiver):
    receiver.script = [said(500), said(404), [CLOSE], said(200)]
    with Gateway(config(tmp_path, receiver)) as gateway, Client(gateway) as client:
        client.finish({"token": "x"})
        requests = arrived(receiver, 4)
        assert len({check_signature(request) for request in requests}) == 1
        assert len({request.body for request in requests}) == 1
        gaps = [b.at - a.at for a, b in zip(requests, requests[1:])]
        assert 0.7 < gaps[0] < 1.3 + LATE_S and 1.4 < gaps[1] and 2.9 < gaps[2], gaps  # 1, 2, 4 s
        wait_until(lambda: tries(gateway, "delivered") == 1, "the count")
        assert tries(gateway, "failed") == 3


def test_slow_receiver_holds_up_nothing_but_its_own(tmp_path, receiver):
    gate = threading.Event()
    receiver.script = [[gate, *said(200)]]
    with Gateway(config(tmp_path, receiver, at_once=2, timeout_s=300)) as gateway, Client(gateway) as client:
        for _ in range(5):
            client.finish({"token": "x"})
        arrived(receiver, 2)
        client.finish({"token": "goes on"})
        assert len(receiver.requests) == 2  # no more than two together
        assert scrape(gateway)[1]["holdfast_webhook_pending"] == 6
        gate.set()
        wait_until(lambda: tries(gateway, "delivered") == 6, "all")


def test_receiver_that_never_answers_is_left(tmp_path, receiver):
    gate = threading.Event()
    receiver.script = [[gate, CLOSE], said(200)]
    with Gateway(config(tmp_path, receiver, timeout_s=1)) as gateway, Client(gateway) as client:
        client.finish({"token": "x"})
        wait_until(lambda: tries(gateway, "delivered") == 1, "the second try")
        assert tries(gateway, "failed") >= 1  # the first; others too, where this process is late with its answer
        gate.set()


def test_redirect_is_not_followed_and_private_addresses_are_not_reached(tmp_path, receiver):
    private = ModelServer("127.0.0.3")  # at whatever name
    private.script = [said(200)]
    receiver.script = [said(307, Location=private.url + "/told"), said(200)]
    both = config(tmp_path, receiver)
    for n, host in enumerate(("127.0.0.3", "localhost", "[::ffff:127.0.0.3]", "2130706435", "0x7f.3", "169.254.169.254", "0.0.0.0")):
        both["webhooks"].append({**both["webhooks"][0], "name": f"private {n}", "url": f"http://{host}:{private.port}/"})
    with Gateway(both) as gateway, Client(gateway) as client:
        client.finish({"token": "x"})
        wait_until(lambda: tries(gateway, "delivered") == 1, "the other")
        wait_until(lambda: tries(gateway, "failed") >= 8, "the refusals: a redirect, and seven that are not public")
        assert private.requests == [] and len(receiver.requests) == 2
        gateway.logged("component=webhook", "127.0.0.3")
    private.close()


def test_kill_between_commit_and_delivery_loses_nothing(tmp_path, receiver):
    gate = threading.Event()
    receiver.script = [[gate, *said(200)]]
    with Gateway(config(tmp_path, receiver)) as gateway:
        with Client(gateway) as client:
            client.finish({"token": "x"})
            hung = client.chat({"token": "a"}, {"hang": 1})
            client.event(hung, "token")
            first = check_signature(arrived(receiver, 1)[0])
            gateway.kill()
        assert stored(gateway) == [first]
        receiver.script = [said(200)]
        gate.set()
        gateway.start()
        wait_until(lambda: tries(gateway, "delivered") == 2, "both")
        told = {check_signature(request): request.json for request in receiver.requests[1:]}
        assert first in told  # the same id again
        orphan = next(body for id_, body in told.items() if id_ != first)
        assert orphan["data"]["task"]["task_id"] == hung["task_id"]
        assert orphan["data"]["task"]["error"]["code"] == "orphaned"
        gateway.stop()
        assert stored(gateway) == []


def test_more_than_a_window_waits_in_the_store(tmp_path, receiver):
    gate = threading.Event()
    receiver.script = [[gate, *said(500)]]
    n = 600
    made = {**config(tmp_path, receiver, at_once=64, timeout_s=300),
            "agents": [{"name": "quick", "kind": "source", "default": True}]}
    with Gateway(made) as gateway, Client(gateway) as client:
        for _ in range(n):
            client.call("chat", message="1", background=True)
        wait_until(lambda: sum(value for name, value in scrape(gateway)[1].items()
                               if name.startswith("holdfast_tasks_ended_total")) == n, "all tasks")
        assert scrape(gateway)[1]["holdfast_webhook_pending"] <= 256
        receiver.script = [said(200)]
        gate.set()
        wait_until(lambda: tries(gateway, "delivered") == n, "all messages")
        assert len({request.headers["webhook-id"] for request in receiver.requests}) == n
        gateway.stop()
        assert stored(gateway) == []


def test_message_that_is_too_old_is_given_up(tmp_path, receiver):
    receiver.script = [said(500)]
    with Gateway(config(tmp_path, receiver, give_up_s=2)) as gateway, Client(gateway) as client:
        client.finish({"token": "x"})
        wait_until(lambda: tries(gateway, "given_up") == 1, "the end of patience")
        assert tries(gateway, "delivered") == 0 and gateway.logged("component=webhook event=given_up")
        gateway.stop()
        assert stored(gateway) == []


@pytest.mark.parametrize("secret", [b"short", b"whsec_", b"whsec_!!!!", b"x" * 513,
                                    b"whsec_" + base64.b64encode(b"x" * 23)])
def test_bad_secret_is_no_start(tmp_path, receiver, secret):
    gateway = Gateway(config(tmp_path, receiver, secret))
    gateway.spawn()
    assert gateway.wait() == 1
    assert any("component=webhook event=cannot_open" in line for line in gateway.log), gateway.tail()
    assert not any(secret.decode() in line for line in gateway.log if "why=" in line) or len(secret) < 8
    gateway.close()


def test_faults_of_the_configuration_are_named(tmp_path):
    path = tmp_path / "c.json"
    path.write_text('{"webhooks":[{"name":"a","url":"ftp://x","secret_file":"s"},'
                    '{"name":"a","url":"https://x"}],"webhook_allow":["x"]}')
    done = run("check-config", str(path))
    for fault in ("webhooks[0].url: must begin", "webhooks[1].name: is the same",
                  "webhooks[1].secret_file: ", "webhook_allow[0]: "):
        assert fault in done.stderr, done.stderr


# ---------------------------------------------------------------- of a task


ALLOWED = {"webhook_allow": ["127.0.0.2"]}


def test_webhooks_of_a_task_are_told_of_its_question_and_its_end(receiver):
    with Gateway(ALLOWED) as gateway, Client(gateway) as client:
        hook = {"url": receiver.url + "/chat", "headers": {"Authorization": "Bearer s", "X-Mine": "1"}, "webhook_id": "a"}
        task = client.chat({"question": "q", "kind": "question", "prompt": "who?"}, {"hear": "input"}, {"token": "x"}, webhook=hook)
        client.event(task, "input_required")
        asked = arrived(receiver, 1)[0]
        assert (asked.path, asked.headers["Authorization"], asked.headers["x-mine"]) == ("/chat", "Bearer s", "1")
        assert asked.headers["Content-Type"] == "application/json" and "webhook-signature" not in asked.headers
        assert (asked.json["type"], asked.json["data"]["task"]["waiting_for"]) == ("task.input_required", "q")
        assert client.call("webhooks", **ids(task))["webhooks"] == [{**hook}]
        made = client.call("webhook", **ids(task), webhook={"url": receiver.url + "/late"})["webhook"]
        client.call("webhook", **ids(task), webhook={"url": receiver.url + "/gone", "webhook_id": "b"})
        client.call("webhook_delete", **ids(task), webhook_id="b")
        assert [h["webhook_id"] for h in client.call("webhooks", **ids(task))["webhooks"]] == ["a", made["webhook_id"]]
        client.call("respond", **ids(task), input_id="q", answer="me")
        client.wait_terminal(task)
        ends = {request.path: request.json for request in arrived(receiver, 3)[1:]}
        assert sorted(ends) == ["/chat", "/late"]
        assert ends["/late"]["type"] == "task.completed" and ends["/late"]["data"]["owner"] == client.owner
        assert ends["/late"]["data"]["task"] == client.call("task", **ids(task))["task"]
        assert client.call("webhooks", **ids(task))["webhooks"] == []
        client.refused("task_terminated", "webhook", **ids(task), webhook=hook)
        client.call("webhook_delete", **ids(task), webhook_id="a")
        wait_until(lambda: tries(gateway, "delivered") == 3, "the count")
        gateway.stop()
        assert stored(gateway) == []


def test_webhooks_of_a_task_survive_a_kill_and_go_with_their_conversation(receiver):
    with Gateway(ALLOWED) as gateway:
        with Client(gateway) as client:
            kept = client.chat({"token": "a"}, {"hang": 1}, conversation="kept", webhook={"url": receiver.url + "/kept"})
            late = client.chat({"hang": 1}, conversation="kept", when_busy="enqueue")
            client.call("webhook", **ids(late), webhook={"url": receiver.url + "/queued", "form": "a2a"})
            client.event(kept, "token")
            token = client.token
            gateway.kill()
        gateway.start()
        with Client(gateway, token=token) as client:
            assert arrived(receiver, 1)[0].json["data"]["task"]["error"]["code"] == "orphaned"
            assert client.call("webhooks", **ids(late))["webhooks"][0]["url"] == receiver.url + "/queued"
            client.call("delete", conversation_id="kept")
            told = arrived(receiver, 2)[1]
            assert told.headers["Content-Type"] == "application/a2a+json"
            assert told.json["task"]["status"]["state"] == "TASK_STATE_CANCELED"
        wait_until(lambda: tries(gateway, "delivered") == 2, "the count")
        gateway.stop()
        assert stored(gateway) == []


def test_a_dead_server_of_one_owner_holds_up_nobody(receiver):
    gate = threading.Event()
    dead = ModelServer("127.0.0.2")
    dead.script = [[gate, *said(204)]]
    with Gateway(ALLOWED) as gateway, Client(gateway) as client, Client(gateway) as other:
        for _ in range(5):
            client.finish({"token": "x"}, webhook={"url": dead.url + "/"})
        other.finish({"token": "x"}, webhook={"url": receiver.url + "/"})
        arrived(receiver, 1)
        assert len(arrived(dead, 2)) == 2  # no more than two of an owner together
        gate.set()
        wait_until(lambda: tries(gateway, "delivered") == 6, "all")
    dead.close()


def test_an_owner_whose_server_is_dead_has_a_share_of_what_waits(receiver):
    gate = threading.Event()
    dead = ModelServer("127.0.0.2")
    dead.script = [[gate, *said(204)]]
    made = {**ALLOWED, "agents": [{"name": "quick", "kind": "source", "default": True}]}
    with Gateway(made) as gateway, Client(gateway) as client, Client(gateway) as other:
        for _ in range(70):
            client.call("chat", message="1", background=True, webhook={"url": dead.url + "/"})
        wait_until(lambda: tries(gateway, "given_up") == 6, "those beyond 64")
        other.call("chat", message="1", background=True, webhook={"url": receiver.url + "/"})
        arrived(receiver, 1)
        gate.set()
        wait_until(lambda: tries(gateway, "delivered") == 65, "all others")
        gateway.stop()
        assert stored(gateway) == []
    dead.close()


def test_webhook_of_a_task_never_reaches_an_inner_address(receiver):
    private = ModelServer("127.0.0.3")
    private.script = [said(200)]
    receiver.script = [said(307, Location=private.url + "/told")]
    with Gateway(ALLOWED) as gateway, Client(gateway) as client:
        for host in ("127.0.0.3", "localhost", "[::ffff:127.0.0.3]", "2130706435"):
            client.finish({"token": "x"}, webhook={"url": f"http://{host}:{private.port}/"})
        client.finish({"token": "x"}, webhook={"url": receiver.url + "/"})
        wait_until(lambda: tries(gateway, "failed") >= 5, "the refusals")
        assert private.requests == [] and arrived(receiver, 1)
    private.close()


@pytest.mark.parametrize("wrong", [
    {}, {"url": ""}, {"url": "x"}, {"url": "ftp://x/"}, {"url": "http://"}, {"url": "http:///x"}, {"url": "http://u:p@x/"},
    {"url": "http://x/ y"}, {"url": "http://x/\n"}, {"url": "http://x/" + "y" * 2048}, {"url": 1}, {"url": "http://x/", "form": "xml"},
    {"url": "http://x/", "headers": []}, {"url": "http://x/", "headers": {"Host": "y"}},
    {"url": "http://x/", "headers": {"webhook-id": "y"}}, {"url": "http://x/", "headers": {"a b": "y"}},
    {"url": "http://x/", "headers": {"a": "y\r\nb: z"}}, {"url": "http://x/", "headers": {"a": 1}},
    {"url": "http://x/", "headers": {f"a{n}": "y" for n in range(9)}}, {"url": "http://x/", "webhook_id": "x" * 129},
])
def test_bad_webhook_is_a_bad_request(client, wrong):
    task = client.chat({"hang": 1})
    assert '"webhook" must be an object' in client.refused("bad_request", "webhook", **ids(task), webhook=wrong)["message"]
    client.refused("bad_request", "chat", message="x", webhook=wrong)
    client.call("cancel", **ids(task))


def test_webhooks_of_a_task_over_http(gateway, client):
    task = client.chat({"hang": 1})
    path = f"/v1/conversations/{task['conversation_id']}/tasks/{task['task_id']}/webhooks"
    headers = {"Authorization": "Bearer " + client.token}
    hook = {"url": "https://example.com/", "webhook_id": "1"}  # not a number
    body = json.dumps({"webhook": hook}).encode()
    status, _, answer = gateway.http("POST", path, body, {**headers, "Content-Type": "application/json"})
    assert status == 200 and json.loads(answer)["webhook"] == {"webhook_id": "1", "url": "https://example.com/"}
    assert len(json.loads(gateway.http("GET", path, headers=headers)[2])["webhooks"]) == 1
    assert gateway.http("DELETE", path + "?webhook_id=1", headers=headers)[0] == 200
    assert json.loads(gateway.http("GET", path, headers=headers)[2])["webhooks"] == []
    client.call("cancel", **ids(task))
