"""Clients at a gateway that is not the home of their owner: everything is as at the home.  The front of these tests has
no owners of its own (cluster.front_only), so every client is at the wrong gateway.  The server is this file's own."""

import contextlib
import json
import os
import pathlib
import signal
import threading
import time
import types

import pytest

import exposition
import faces
import files
import nodes
import postgres
import tokens
from gateway import LATE_S, free_port, run, wait_until
from holdfast import Client, Closed, ids, new_id, program, text_of
from relay import Relay
from short import long, rest
from wire import TEXT, Wire

if not postgres.programs():
    pytest.skip("PostgreSQL is not installed", allow_module_level=True)


@pytest.fixture
def cluster(postgresql, request):
    cluster = nodes.Nodes(postgresql, request.node.name[:50])
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def pair(postgresql):
    """A home and a front that this file's quiet tests share."""
    cluster = nodes.Nodes(postgresql, "pair")
    yield types.SimpleNamespace(cluster=cluster, **dict(zip(("home", "front"), cluster.start_pair())))
    cluster.close()


def client_of(gateway, owner=None):
    return Client(gateway, token=tokens.token(owner or new_id("u")))


def bearer(owner):
    return {"Authorization": "Bearer " + tokens.token(owner), "Content-Type": "application/json"}


def metric(gateway, name):
    lines = gateway.http("GET", "/metrics")[2].decode().splitlines()
    return int(next(line for line in lines if line.startswith(name + " ")).rsplit(" ", 1)[1])


def order(gateway, *words):
    return run("admin", "--config", str(gateway.folder / "config.json"), "--data", str(gateway.data), *words)


# -------------------------------------------------------------------- what clients do


def test_metrics_of_nodes_can_be_read(pair):
    for gateway in (pair.home, pair.front):
        wait_until(lambda one=gateway: sum("component=link event=up" in line for line in one.log) >= 2, "both links")
        families = exposition.read(gateway.http("GET", "/metrics")[2].decode())
        assert len(families["holdfast_cluster_link_up"].samples) == 1


def test_conversation_at_the_wrong_node(pair):
    with client_of(pair.front) as client, client_of(pair.home, None) as stranger:
        task, events = client.finish({"token": "one"}, {"token": "two"}, conversation="c")
        assert task["status"] == "completed" and text_of(events) == "onetwo"
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        stranger.refused("not_found", "task", **ids(task))
        assert client.call("history", conversation_id="c")["messages"]
        assert [c["conversation_id"] for c in client.call("conversations")["conversations"]] == ["c"]
        with client_of(pair.home, client.owner) as at_home:  # the same task, wherever it is read
            assert at_home.replay(task, 0) == events
        assert client.replay(task, 2) == events[2:]


def test_cancel_send_respond_and_enqueue(pair):
    with client_of(pair.front) as client:
        asked = {"input_id": "q", "kind": "question", "prompt": "Who?"}
        task = client.chat({"line": {"event": "input_required", "data": asked}},
                           {"hear": "input", "say": True}, {"hang": 1}, conversation="c")
        client.event(task, "input_required")
        client.call("respond", input_id="q", answer="me", **ids(task))
        client.event(task, "input_received")
        client.call("send", content="more", **ids(task))
        client.event(task, "message")
        queued = client.chat({"token": "later"}, conversation="c", when_busy="enqueue")
        client.call("cancel", **ids(task))
        assert client.wait_terminal(task)["data"]["status"] == "cancelled"
        assert client.wait_terminal(queued)["event"] == "task.completed"


def test_watch_open_and_a_request_key(pair):
    owner = new_id("u")
    with client_of(pair.front, owner) as watcher, client_of(pair.front, owner) as client:
        watcher.call("watch")
        watcher.call("open", conversation_id="c", follow=True)
        since = len(watcher.log)
        first = client.call("chat", message="[]", conversation_id="c", request_key="k")
        again = client.call("chat", message="[]", conversation_id="c", request_key="k")
        assert first["task"]["task_id"] == again["task"]["task_id"] and again["repeated"]
        watcher.event(first["task"], "task.completed", since)
        watcher.expect(lambda line: line["type"] == "watch" or line["type"].startswith("conversation"), since)


def test_code_of_a_handover_is_good_once_over_all_nodes(pair):
    owner, both = new_id("u"), (pair.home, pair.front)
    for given_by, taken_at in ((pair.front, pair.home), (pair.home, pair.front), (pair.front, pair.front)):
        with client_of(given_by, owner) as client:
            code = client.call("handover")["code"]
        with Client(taken_at, hello=False) as phone:
            assert phone.call("hello", handover=code)["owner"] == owner
            assert phone.call("conversations")["conversations"] == []
        for gateway in both:
            with Client(gateway, hello=False) as thief:
                thief.refused("unauthorized", "hello", handover=code)


def test_code_of_a_handover_over_http(pair):
    def take(gateway, code):
        status, _, text = gateway.http("POST", "/v1/handover/token", json.dumps({"code": code}),
                                       {"Content-Type": "application/json"})
        return status, json.loads(text)

    with client_of(pair.home) as client:
        code, unused = (client.call("handover")["code"] for _ in range(2))
        status, answer = take(pair.front, code)
        assert status == 200
        with Client(pair.home, token=answer["token"]) as phone:
            assert phone.owner == client.owner
        wrong = take(pair.front, code)
        assert wrong[0] == 404 and [wrong] * 3 == [take(pair.home, code), take(pair.front, unused[:-1]),
                                                   take(pair.front, unused[:2] + "A" * 22)]
        assert take(pair.front, unused)[0] == 200


def test_http_at_the_wrong_node(pair):
    owner = new_id("u")
    status, _, body = pair.front.http("POST", "/v1/conversations/c/tasks", json.dumps({"message": '[{"token":"hi"}]'}),
                                      bearer(owner))
    task = json.loads(body)["task"]
    assert status == 201
    path = f"/v1/conversations/c/tasks/{task['task_id']}"

    def status_of():
        return json.loads(pair.front.http("GET", path, None, bearer(owner))[2])["task"]["status"]
    wait_until(lambda: status_of() == "completed", "the end")
    assert pair.front.http("GET", path, None, bearer(new_id("u")))[0] == 404
    status, headers, body = pair.front.http("GET", path + "/events", None, bearer(owner))
    assert status == 200 and headers["Content-Type"].startswith("text/event-stream")
    numbers = [int(line[4:]) for line in body.decode().splitlines() if line.startswith("id: ")]
    assert numbers == list(range(1, len(numbers) + 1)) and b"event: task.completed" in body
    at_home = pair.home.http("GET", path + "/events", None, bearer(owner))[2]
    events = [line for line in body.decode().splitlines() if line.startswith("data: ")]
    assert events == [line for line in at_home.decode().splitlines() if line.startswith("data: ")]
    assert pair.front.http("GET", f"{path}/events?after={numbers[-1]}", None, bearer(owner))[0] == 204


def test_trace_of_the_head_reaches_the_home(pair, tmp_path):
    owner, dumped = new_id("u"), tmp_path / "run"
    context = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate": 'a=b,c=t61"rc'}
    status, _, body = pair.front.http("POST", "/v1/conversations/c/tasks", json.dumps({"message": program({"dump": str(dumped)})}),
                                      {**bearer(owner), **context})
    assert status == 201
    path = f"/v1/conversations/c/tasks/{json.loads(body)['task']['task_id']}/events"
    assert b"task.completed" in pair.front.http("GET", path, None, bearer(owner))[2]
    run = json.loads(dumped.read_text(encoding="utf-8"))["run"]
    assert {key: run.get(key) for key in context} == context


def test_face_at_the_wrong_node(pair):
    said = '[{"token":"hel"},{"token":"lo"}]'
    body = {"model": "script", "stream": True, "messages": [{"role": "user", "content": said}]}
    status, _, said = pair.front.http("POST", "/v1/chat/completions", json.dumps(body), bearer(new_id("u")))
    chunks = [line[6:] for line in said.decode().splitlines() if line.startswith("data: ")]
    assert status == 200 and chunks[-1] == "[DONE]"
    text = "".join(choice["delta"].get("content") or ""
                   for chunk in chunks[:-1] for choice in json.loads(chunk)["choices"])
    assert text == "hello"
    body["stream"] = False
    status, _, said = pair.front.http("POST", "/v1/chat/completions", json.dumps(body), bearer(new_id("u")))
    assert status == 200 and json.loads(said)["choices"][0]["message"]["content"] == "hello"


class Acp:
    """A connection of the ACP face, by hand."""

    def __init__(self, gateway, owner):
        self.wire = Wire(gateway, path=f"/v1/acp?token={tokens.token(owner)}", headers={"Sec-WebSocket-Protocol": None})
        self.updates, self.n_asked = [], 0
        assert self.ask("initialize", protocolVersion=1)["result"]["protocolVersion"] == 1

    def send(self, method, **params):
        self.n_asked += 1
        self.wire.text(json.dumps(faces.acp(method, self.n_asked, **params)))

    def until(self, is_meant):
        """The first message that is; updates are kept."""
        while (payload := self.wire.until(TEXT)) is not None:
            message = json.loads(payload)
            if message.get("method") == "session/update":
                self.updates.append(message["params"]["update"])
            if is_meant(message):
                return message
        raise AssertionError("the connection has ended")

    def answer(self):
        return self.until(lambda message: message.get("id") == self.n_asked and "method" not in message)

    def ask(self, method, **params):
        self.send(method, **params)
        return self.answer()

    def prompt(self, session, *steps):
        self.send("session/prompt", sessionId=session, prompt=[{"type": "text", "text": program(*steps)}])

    def text(self):
        return "".join(one["content"]["text"] for one in self.updates if one["sessionUpdate"] == "agent_message_chunk")


def test_acp_at_the_wrong_node(pair):
    """A turn, a load of it at either, a cancel while it runs, and somebody else's session."""
    owner, place = new_id("u"), {"cwd": "/", "mcpServers": []}
    one = Acp(pair.front, owner)
    session = one.ask("session/new", **place)["result"]["sessionId"]
    one.prompt(session, {"token": "hel"}, {"token": "lo"})
    assert one.answer()["result"]["stopReason"] == "end_turn" and one.text() == "hello"
    for gateway in (pair.home, pair.front):
        other = Acp(gateway, owner)
        other.ask("session/load", sessionId=session, **place)
        assert other.text() == "hello"
        other.wire.close()
    one.prompt(session, {"token": "on"}, {"hang": 1})
    one.until(lambda message: message.get("method") == "session/update" and one.text() == "helloon")
    one.wire.text(json.dumps({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}))
    assert one.answer()["result"]["stopReason"] == "cancelled"
    stranger = Acp(pair.front, new_id("u"))
    answers = {which: stranger.ask("session/load", sessionId=which, **place)["error"] for which in (session, "nowhere")}
    assert [answer.pop("data") for answer in answers.values()] == [{"sessionId": which} for which in answers]
    assert answers[session] == answers["nowhere"]
    for connection in (one, stranger):
        connection.wire.close()


def test_frozen_client_stops_nobody(pair):
    """Its cursor stays at the home; the link goes on, and later it reads everything."""
    with client_of(pair.front) as frozen, client_of(pair.front) as other:
        flood = frozen.chat({"flood": 20000, "bytes": 400})  # some MB, far beyond every buffer on the way
        frozen.event(flood, "token")
        with client_of(pair.home, frozen.owner) as at_home:
            at_home.resume(flood, 0)
            at_home.wait_terminal(flood)
        task, _ = other.finish({"token": "said"})
        assert task["status"] == "completed"
        assert metric(pair.front, 'holdfast_cluster_link_bytes_total{direction="in"}') > 0
        assert frozen.wait_terminal(flood)["event"] == "task.completed"


def test_files_at_the_wrong_node(pair):
    who, elsewhere = files.Owner(pair.front, tokens.token("files")), files.Owner(pair.home, tokens.token("files"))
    body = os.urandom(1 << 20)  # many windows of the link
    file = who.give("c", body, "text/plain", 'attachment; filename="a b.txt"')
    path = f"c/files/{file['file_id']}"
    assert elsewhere.ask("GET", path)[2] == body
    status, headers, got = who.ask("GET", path)
    assert status == 200 and got == body and headers["content-disposition"] == 'attachment; filename="a b.txt"'
    status, headers, got = who.ask("GET", path, headers={"Range": "bytes=7-9"})
    assert status == 206 and got == body[7:10] and headers["content-range"] == f"bytes 7-9/{len(body)}"
    assert who.ask("HEAD", path)[0] == 200 and who.ask("GET", "c/workspace/x")[0] == 404
    assert files.Owner(pair.front, tokens.token("other")).ask("GET", path)[0] == 404
    assert pair.front.http("GET", f"/v1/conversations/{path}")[0] == 401
    wait_until(lambda: metric(pair.home, 'holdfast_cluster_link_sessions{as="pipe"}') == 0, "the end of the pipes")


def ways_in(gateway, owner):
    """A client meets this at once, over a socket and over HTTP: (the socket's error, its close code, status, error)."""
    with Client(gateway, hello=False) as client:
        error = client.refused("overloaded", "hello", token=tokens.token(owner))
        code = client.closing().code
    status, headers, text = gateway.http("GET", "/v1/conversations", headers=bearer(owner))
    assert int(headers["Retry-After"]) >= 1
    return error, code, status, json.loads(text)["error"]


@pytest.mark.parametrize("how", rest(signal.SIGSTOP, signal.SIGKILL))
def test_nobody_waits_for_a_home_that_is_not_there(postgresql, how, request):
    """Until another has taken its owners over: each is told when to come again; a link that says nothing is no link."""
    cluster = nodes.Nodes(postgresql, "gone" + str(int(how)), lease_s=nodes.LONG_LEASE_S)
    try:
        home, front = cluster.start_pair()
        owner = new_id("u")
        with client_of(front, owner) as client:
            client.call("conversations")
            begun = time.monotonic()
            os.kill(home.process.pid, how)
            answers = []
            pending = [threading.Thread(target=lambda: answers.append(front.http("GET", "/v1/conversations",
                                                                                 headers=bearer(owner))))
                       for _ in range(3)]
            for thread in pending:
                thread.start()
            assert client.closing().code == 1001
            for thread in pending:
                thread.join()
        assert [answer[0] for answer in answers] == [503] * 3
        for _ in range(3):
            error, code, status, told = ways_in(front, owner)
            assert error["retry_after_ms"] > 0 and told["retry_after_ms"] > 0 and told["code"] == "overloaded"
            assert (code, status) == (1001, 503)
        assert time.monotonic() - begun < 6 * 2 + LATE_S
        if how == signal.SIGKILL:
            home.kill()
            home.start()  # on its folder: it keeps its owners
        else:
            os.kill(home.process.pid, signal.SIGCONT)
        wait_until(lambda: front.http("GET", "/v1/conversations", headers=bearer(owner))[0] == 200, "service")
    finally:
        if home.process:
            os.kill(home.process.pid, signal.SIGCONT)
        cluster.close()


def test_reader_of_a_file_who_stands_still_stops_nobody(pair):
    who = files.Owner(pair.front, tokens.token("still"))
    file = who.give("c", bytes(8 << 20))
    sent = metric(pair.home, 'holdfast_cluster_link_bytes_total{direction="out"}')
    frozen = who.open("GET", f"c/files/{file['file_id']}", rcvbuf=4096)
    answer = frozen.getresponse()  # the head, and nothing of the body; it has the socket, which ends with it
    wait_until(lambda: metric(pair.home, 'holdfast_cluster_link_sessions{as="pipe"}') == 1, "the pipe")
    with client_of(pair.front, "still") as client:  # over the same link, for the same owner
        assert client.finish({"token": "x"})[0]["status"] == "completed"
    assert metric(pair.home, 'holdfast_cluster_link_bytes_total{direction="out"}') - sent < 7 << 20
    assert metric(pair.home, 'holdfast_cluster_link_sessions{as="pipe"}') == 1
    answer.close()
    wait_until(lambda: metric(pair.home, 'holdfast_cluster_link_sessions{as="pipe"}') == 0, "the end of the pipe")


def test_operators_orders_reach_the_home(pair):
    owner = new_id("u")
    with client_of(pair.front, owner) as one, client_of(pair.home, owner) as other:
        assert json.loads(order(pair.front, "kick", owner).stdout) == {"type": "ok", "closed": 2}
        assert one.closing().code == other.closing().code == 1001
    with client_of(pair.front, owner) as client:
        assert order(pair.front, "revoke", owner).returncode == 0
        assert client.closing().code == 4401
    for gateway in (pair.home, pair.front):  # which is asked does not matter
        assert order(gateway, "revocations").stdout.count(f'"{owner}"') == 1
    for gateway in (pair.front, pair.home):
        assert gateway.http("GET", "/v1/conversations", headers=bearer(owner))[0] == 401
    assert order(pair.front, "unrevoke", owner).returncode == 0
    with client_of(pair.front, owner) as client:
        assert client.finish({"token": "x"})[0]["status"] == "completed"


def test_client_at_another_node_is_no_operator(pair):
    """His bytes come to the home over a socket of Unix, as an operator's do."""
    who = files.Owner(pair.front, tokens.token("mine"))
    file = who.give("c", b"mine")
    other = {"Authorization": "Bearer " + tokens.token("other"), "Holdfast-Owner": "mine"}
    status, _, answer = pair.front.http("GET", f"/v1/conversations/c/files/{file['file_id']}", headers=other)
    assert status == 404 and b"mine" not in answer
    assert pair.front.http("POST", "/v1/admin/kick", json.dumps({"owner": "mine"}), bearer("other"))[0] == 404


def test_guest_and_a_later_hello(pair):
    with client_of(pair.front) as client:
        client.call("hello", token=tokens.token(client.owner))
        client.post("hello", token=tokens.token(new_id("u")))
        assert client.closing().code == 4401


def test_narrowed_token_is_as_narrow_at_the_wrong_node(pair):
    with client_of(pair.front) as client:
        task, _ = client.finish({"token": "said"}, conversation="c-1")
        token = tokens.token(client.owner, holdfast={"conversations": [{"id": "c-1", "rights": ["read"]}]})
    with Client(pair.front, token=token) as reader:
        assert reader.welcome["rights"]
        assert reader.replay(task, 0)[-1]["event"] == "task.completed"
        reader.refused("not_found", "cancel", **ids(task))
        reader.refused("not_found", "history", conversation_id="c-2")
    head = {"Authorization": "Bearer " + token, "Content-Type": "application/json"}
    assert pair.front.http("GET", f"/v1/conversations/c-1/tasks/{task['task_id']}", None, head)[0] == 200
    assert pair.front.http("GET", f"/v1/conversations/c-2/tasks/{task['task_id']}", None, head)[0] == 404
    assert pair.front.http("POST", "/v1/conversations/c-1/tasks", '{"message":"[]"}', head)[0] == 404


# -------------------------------------------------------------------- links that break


@pytest.fixture
def wired(postgresql, request):
    """A pair whose link goes through a wire that can be cut."""
    cluster = nodes.Nodes(postgresql, request.node.name[:50])
    port = free_port()
    with Relay(types.SimpleNamespace(host="127.0.0.1", port=port)) as wire:
        home = cluster.new("home", {"listen": f"127.0.0.1:{port}", "advertise": f"127.0.0.1:{wire.port}"}).start()
        cluster.settled(1)
        yield types.SimpleNamespace(wire=wire, home=home, front=cluster.start_front("front"), cluster=cluster)
        cluster.close()


def resumed(gateway, owner, task):
    """A client that could resume: at first the link may still be down."""
    def attempt():
        client = None
        with contextlib.suppress(Closed, OSError, AssertionError):
            client = client_of(gateway, owner)
            client.resume(task, 0)
            return client
        if client:
            client.close()
        return None
    return wait_until(attempt, "a resume")


def test_link_that_is_cut(wired):
    client = client_of(wired.front)
    task = client.chat({"flood": 100000, "bytes": 40, "per_s": 100}, conversation="c")
    client.event(task, "token")
    wired.wire.cut()
    assert client.closing().code == 1001
    with resumed(wired.front, client.owner, task) as again:
        seen = again.event(task, "token")
        assert seen
        again.call("cancel", **ids(task))
        again.wait_terminal(task)
        numbers = [event["seq"] for event in again.events_since(task)]
        assert numbers == list(range(1, len(numbers) + 1))
    wired.front.logged("component=link event=ended", "how=closed")


@long
def test_link_that_swallows_everything(wired):
    client = client_of(wired.front)
    task = client.chat({"hang": 1}, conversation="c")
    wired.wire.swallow()
    begun = time.monotonic()
    assert client.closing().code == 1001
    assert time.monotonic() - begun < 6 * 2 + LATE_S
    wired.front.logged("component=link event=ended", "how=silent")
    status, _, body = wired.front.http("GET", "/v1/conversations", None, bearer(client.owner))
    assert status == 503 and b"cannot be reached" in body
    wired.wire.cut()
    wired.wire.swallow(False)
    with resumed(wired.front, client.owner, task) as again:
        again.call("cancel", **ids(task))
        again.wait_terminal(task)


@long
def test_link_that_is_slow(wired):
    wired.wire.delay_s = 0.1
    with client_of(wired.front) as client:
        task, events = client.finish({"flood": 2000, "bytes": 100})
        assert task["status"] == "completed"
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))


@pytest.mark.parametrize("tls", rest(True, False))
def test_link_is_as_private_as_it_is_told_to_be(cluster, tls):
    port = free_port()
    with Relay(types.SimpleNamespace(host="127.0.0.1", port=port), keeps=True) as wire:
        home = cluster.new("home", {"listen": f"127.0.0.1:{port}", "advertise": f"127.0.0.1:{wire.port}", "tls": tls})
        home.start()
        cluster.settled(1)
        front = cluster.new("front", {"listen": "127.0.0.1:0", "front_only": True, "tls": tls}).start()
        front.logged("component=link event=up", "node=home", "as=front")
        with client_of(front) as client:
            assert text_of(client.finish({"token": "overheard"}, {"flood": 3000, "bytes": 100})[1], "token")
        assert (b"overheard" in wire.asked) == (not tls)
        cluster.close()


def test_another_secret_is_refused_by_tls(cluster):
    home = cluster.new("home", {"listen": "127.0.0.1:0", "tls": True}).start()
    cluster.settled(1)
    other = pathlib.Path(cluster.folder, "other")
    other.write_text(32 * "o", encoding="utf-8")
    front = cluster.new("front", {"listen": "127.0.0.1:0", "front_only": True, "tls": True,
                                  "secret_file": str(other)}).start()
    for gateway in (front, home):
        gateway.logged("component=link event=ended", "how=refused", "TLS fails: the secrets differ")


def test_another_secret_is_refused(postgresql, cluster):
    home = cluster.new("home", {"listen": "127.0.0.1:0"}).start()
    cluster.settled(1)
    other = pathlib.Path(cluster.folder, "other")
    other.write_text(32 * "o", encoding="utf-8")
    front = cluster.new("front", {"listen": "127.0.0.1:0", "front_only": True, "secret_file": str(other)}).start()
    front.logged("component=link event=ended", "how=refused", "the secrets differ")
    home.logged("component=link event=ended", "how=refused", "the secrets differ")
    client = Client(front, hello=False)
    client.post("hello", token=tokens.token("u"))
    assert client.closing().code == 1001
    assert home.http("GET", "/healthz")[0] == 200


def test_sockets_of_faces_stay_when_a_node_joins(cluster):
    """A stream comes from its home, whatever other nodes do."""
    _, front = cluster.start_pair()
    client, gate = client_of(front), front.path("gate")
    task = client.chat({"token": "before"}, {"wait": gate}, {"token": "after"}, conversation="c")
    client.event(task, "token")
    wires = []
    for path, frames, _ in faces.SOCKETS.values():
        path = faces.filled(path, task, "")
        wire = Wire(front, path=f"{path}token={client.token}", headers={"Sec-WebSocket-Protocol": None})
        for frame in frames:
            wire.text(json.dumps(frame))
        wire.until_text("before")
        wires.append(wire)
    third = cluster.start_front("third")
    front.logged("component=link event=up", "node=third", "as=front")  # it knows of it by its own view
    with contextlib.closing(third), open(gate, "w", encoding="utf-8"):
        for wire in wires:
            wire.until_text("after")
            wire.close()


def test_home_is_killed_and_its_readers_resume_at_the_next(cluster):
    one, two = (cluster.new(name, {"listen": "127.0.0.1:0"}) for name in ("one", "two"))
    one.start(), two.start()
    cluster.settled(2)
    front = cluster.start_front("front")
    owners = cluster.owners_at("one", 3)
    kept = client_of(front, cluster.owners_at("two", 1)[0])
    live = kept.chat({"flood": 100000, "bytes": 40, "per_s": 50})
    readers = []
    for owner in owners:
        client = client_of(front, owner)
        readers.append((client, client.chat({"flood": 100000, "bytes": 40, "per_s": 50}, conversation="c")))
        client.event(readers[-1][1], "token")
    one.kill()
    for client, task in readers:
        assert client.closing().code == 1001
        with resumed(front, client.owner, task) as again:
            assert again.wait_terminal(task)["data"]["error"]["code"] == "orphaned"
            numbers = [event["seq"] for event in again.events_since(task)]
            assert numbers == list(range(1, len(numbers) + 1))
            seen = {event["seq"]: event for event in again.events_since(task)}
            assert all(seen[event["seq"]] == event for event in client.events_since(task))
    since = len(kept.log)  # the other home's clients have noticed nothing
    kept.event(live, "token", since)
    kept.call("cancel", **ids(live))
    kept.wait_terminal(live)
    kept.close()
