"""Narrowed tokens, shares, members and handovers, over sockets and HTTP."""
import json
import subprocess
import time

import pytest

import tokens
from gateway import BINARY, Gateway, script_agent
from holdfast import Client, new_id, program

NO_TASK = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
NOT_TASK = {"type": "error", "code": "not_found", "message": "no such task"}
NOT_CONVERSATION = {"type": "error", "code": "not_found", "message": "no such conversation"}
ASKS = program({"question": "q", "kind": "question", "prompt": "well?"}, {"hear": "input"})


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    auth = tokens.config(tmp_path_factory.mktemp("keys"))
    with Gateway({"auth": auth}) as started:
        yield started


def narrowed(sub, *scopes, **more):
    return tokens.token(sub, holdfast={"conversations": list(scopes), **more})


def answer(client, type, **fields):
    """The reply without its id."""
    return {key: value for key, value in client.ask(type, **fields).items() if key != "id"}


def head(token):
    return {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}


def http(gateway, token, method, path, body=None):
    status, _, text = gateway.http(method, "/v1" + path, None if body is None else json.dumps(body), head(token))
    return status, json.loads(text) if text.startswith(b"{") else text


@pytest.fixture
def owner(gateway):
    with Client(gateway, token=tokens.token(new_id("ann"))) as client:
        yield client


def finished(client, conversation, message="[]"):
    started = client.call("chat", conversation_id=conversation, message=message)
    task = started["task"]["task_id"]
    client.expect(lambda line: line.get("task_id") == task and line.get("event", "").startswith("task.c")
                  and line["event"] != "task.created")
    return task


# what is asked, with which right
ABOUT_TASK = {"task": ("read", {}), "resume": ("read", {}), "unsubscribe": ("read", {}), "send": ("ask", {"content": "x"}),
              "respond": ("answer", {"input_id": "q", "answer": "x"}), "cancel": ("cancel", {}), "webhooks": (None, {}),
              "webhook_delete": (None, {"webhook_id": "w"}), "webhook": (None, {"webhook": {"url": "https://example.com/"}})}
ABOUT_CONVERSATION = {"open": ("read", {}), "close": ("read", {}), "tasks": ("read", {}), "history": ("read", {}),
                      "results": ("read", {}), "ack": ("ask", {"task_ids": []}), "branch": ("ask", {"message_id": NO_TASK}),
                      "cancel_all": ("cancel", {}), "title": (None, {"title": "x"}), "pin": (None, {"pinned": True}),
                      "archive": (None, {"archived": True}), "fork": (None, {}), "export": ("read", {}), "share": (None, {}), "delete": (None, {})}


@pytest.mark.parametrize("has", ["read", "ask", "answer", "cancel"])
def test_narrowed_token_may_what_it_says_and_finds_nothing_else(gateway, owner, has):
    task = finished(owner, "c-1")
    token = narrowed(owner.owner, {"id": "c-1", "rights": [has]})
    with Client(gateway, token=token) as client:
        assert client.welcome["rights"] == {"conversations": [{"id": "c-1", "rights": [has]}]}
        for verb, (right, fields) in ABOUT_TASK.items():
            known, unknown = (answer(client, verb, conversation_id="c-1", task_id=t, **fields) for t in (task, NO_TASK))
            assert unknown == NOT_TASK
            if right != has:
                assert known == NOT_TASK, verb
            else:
                assert known != NOT_TASK, verb
            for elsewhere in ("c-2", "c-10", "C-1"):
                assert answer(client, verb, conversation_id=elsewhere, task_id=task, **fields) == NOT_TASK
        for verb, (right, fields) in ABOUT_CONVERSATION.items():
            known = answer(client, verb, conversation_id="c-1", **fields)
            assert (known == NOT_CONVERSATION) == (right != has), (verb, known)
            assert answer(client, verb, conversation_id="c-2", **fields) == NOT_CONVERSATION
        for verb, fields in (("schedules", {}), ("shares", {}), ("handover", {}), ("unschedule", {"schedule_id": "x"}),
                             ("import", {"lines": []})):
            assert answer(client, verb, **fields) == NOT_CONVERSATION
        assert answer(client, "chat", message="[]") == NOT_CONVERSATION
        assert (answer(client, "chat", message="[]", conversation_id="c-1") == NOT_CONVERSATION) == (has != "ask")
    assert owner.call("history", conversation_id="c-1")["messages"]


def test_asker_without_read_hears_nothing_of_the_answer(gateway, owner):
    with Client(gateway, token=narrowed(owner.owner, {"prefix": "c-", "rights": ["ask"]})) as client:
        made = client.call("chat", message=program({"token": "a"}), conversation_id="c-9", request_key="k")["task"]["task_id"]
        owner.call("resume", conversation_id="c-9", task_id=made)
        owner.expect(lambda line: line.get("event") == "task.completed")
        assert client.call("ping") and not [line for line in client.log if line["type"] == "event"]
        # a key reaches no task of another conversation, nor the owner's
        other = client.call("chat", message=program({"token": "a"}), conversation_id="c-8", request_key="k")
        assert "repeated" not in other
        assert client.call("chat", message=program({"token": "a"}), conversation_id="c-9", request_key="k")["repeated"]
        webhook = {"url": "https://example.com/"}
        assert answer(client, "chat", message="x", conversation_id="c-9", webhook=webhook) == NOT_CONVERSATION
        assert answer(client, "chat", message="x", conversation_id="c-9", when_busy="interrupt") == NOT_CONVERSATION


def test_lists_and_watch_show_what_it_may_read(gateway, owner):
    for conversation in ("a-1", "b-1", "a-2", "a-3", "b-2"):
        finished(owner, conversation)
    with Client(gateway, token=narrowed(owner.owner, {"prefix": "a-", "rights": ["read"]}, {"id": "b-2", "rights": ["ask"]})) as client:
        listed = client.call("conversations", limit=2)
        assert [row["conversation_id"] for row in listed["conversations"]] == ["a-3", "a-2"] and listed["more"]
        rest = client.call("conversations", limit=2, before="a-2")
        assert [row["conversation_id"] for row in rest["conversations"]] == ["a-1"] and not rest["more"]
        client.call("watch")
        owner.call("title", conversation_id="b-1", title="hidden")
        owner.call("title", conversation_id="a-1", title="seen")
        client.expect_type("conversation_changed")
        client.call("ping")
        changed = [line["conversation"] for line in client.log if line["type"] == "conversation_changed"]
        assert [(c["conversation_id"], c["title"]) for c in changed] == [("a-1", "seen")]


def test_http_and_events_are_narrowed_as_the_socket_is(gateway, owner):
    task = finished(owner, "c-1", program({"token": "a"}))
    token = narrowed(owner.owner, {"id": "c-1", "rights": ["read"]})
    status, _, events = gateway.http("GET", f"/v1/conversations/c-1/tasks/{task}/events", headers=head(token))
    assert status == 200 and b"task.completed" in events
    for method, path, body in (("GET", "/conversations/c-2/tasks", None), ("POST", "/conversations/c-1/tasks", {"message": "x"}),
                               ("DELETE", "/conversations/c-1", None), ("POST", "/conversations/c-1/pin", {"pinned": True}),
                               ("GET", "/shares", None)):
        assert http(gateway, token, method, path, body) == (404, {"error": {"code": "not_found", "message": "no such conversation"}})
    for method, path in (("DELETE", f"/conversations/c-1/tasks/{task}"), ("GET", f"/conversations/c-2/tasks/{task}"),
                         ("GET", f"/conversations/c-2/tasks/{task}/events"), ("GET", f"/conversations/c-1/tasks/{NO_TASK}")):
        assert http(gateway, token, method, path) == (404, {"error": {"code": "not_found", "message": "no such task"}})
    kept = json.loads(gateway.http("POST", "/v1/conversations/c-1/files", b"bytes", {**head(owner.token), "Content-Type": "text/plain"})[2])
    path = f"/v1/conversations/c-1/files/{kept['file_id']}"
    assert gateway.http("GET", path, headers=head(token))[2] == b"bytes"
    blind = narrowed(owner.owner, {"id": "c-1", "rights": ["answer"]})
    missing = gateway.http("GET", path[:-26] + NO_TASK, headers=head(blind))
    assert gateway.http("GET", path, headers=head(blind))[::2] == missing[::2] and missing[0] == 404
    assert gateway.http("POST", "/v1/conversations/c-1/files", b"x", head(token))[0] == 404


def test_token_that_is_not_understood_is_none(gateway):
    for claim in ({"conversations": [{"id": "c", "rights": ["write"]}]}, {"conversations": [{"rights": ["read"]}]},
                  {"conversations": [{"id": "c", "prefix": "c", "rights": ["read"]}]}, {"conversations": "c"}, {"only": "c"},
                  {"conversations": [{"id": "c", "rights": []}]}, {"conversations": [{"id": "c", "rights": ["read"], "x": 1}]},
                  {"actor": ""}, "c", []):
        with Client(gateway, hello=False) as client:
            client.refused("unauthorized", "hello", token=tokens.token("ann", holdfast=claim))
            assert client.closing().code == 4401


def test_connection_keeps_its_rights(gateway, owner):
    with Client(gateway, token=narrowed(owner.owner, {"id": "c-1", "rights": ["read"]})) as client:
        client.call("hello", token=narrowed(owner.owner, {"id": "c-1", "rights": ["read"]}))
        client.refused("unauthorized", "hello", token=tokens.token(owner.owner))
        assert client.closing().code == 4401


# ------------------------------------------------------------------ shares and members


def test_share_reads_one_conversation_live_until_it_is_withdrawn(gateway, owner):
    finished(owner, "s-1", program({"token": "a"}))
    finished(owner, "s-2")
    made = owner.call("share", conversation_id="s-1")
    share = made["share"]
    assert share["rights"] == ["read"] and share["expires_at"] - share["created_at"] == 7 * 86_400_000
    assert owner.call("shares")["shares"] == [share]
    assert owner.call("shares", conversation_id="s-2")["shares"] == []
    with Client(gateway, token=made["token"]) as reader:
        assert reader.owner == owner.owner
        assert [row["conversation_id"] for row in reader.call("conversations")["conversations"]] == ["s-1"]
        reader.call("open", conversation_id="s-1", follow=True)
        owner.call("chat", conversation_id="s-1", message=program({"token": "b"}))
        reader.expect(lambda line: line.get("event") == "task.completed")
        assert answer(reader, "chat", conversation_id="s-1", message="x") == NOT_CONVERSATION
        assert answer(reader, "share", conversation_id="s-1") == NOT_CONVERSATION
        owner.call("unshare", share_id=share["share_id"])
        assert reader.closing().code == 4401
    with Client(gateway, hello=False) as reader:
        reader.refused("unauthorized", "hello", token=made["token"])
    assert http(gateway, made["token"], "GET", "/conversations/s-1/messages")[0] == 401
    assert owner.call("shares")["shares"] == []
    assert owner.refused("not_found", "unshare", share_id=share["share_id"])["message"] == "no such share"


def test_share_of_a_task_reads_that_task_alone(gateway, owner):
    task, other = finished(owner, "s-3"), finished(owner, "s-3")
    made = owner.call("share", conversation_id="s-3", task_id=task)
    with Client(gateway, token=made["token"]) as reader:
        assert reader.call("task", conversation_id="s-3", task_id=task)["task"]["task_id"] == task
        assert answer(reader, "task", conversation_id="s-3", task_id=other) == NOT_TASK
        assert answer(reader, "history", conversation_id="s-3") == NOT_CONVERSATION
        assert reader.call("conversations")["conversations"] == []
    assert owner.refused("not_found", "share", conversation_id="s-3", task_id=NO_TASK)["message"] == "no such task"
    assert owner.refused("not_found", "share", conversation_id="none")["message"] == "no such conversation"


def test_member_asks_and_answers_in_its_own_name(gateway, owner):
    finished(owner, "m-1")
    made = owner.call("share", conversation_id="m-1", rights=["read", "ask", "answer"], actor="bob")
    with Client(gateway, token=made["token"]) as bob:
        task = bob.call("chat", conversation_id="m-1", message=ASKS)["task"]["task_id"]
        created = bob.expect(lambda line: line.get("event") == "task.created")
        assert created["data"]["actor"] == "bob"
        bob.expect(lambda line: line.get("event") == "input_required")
        assert answer(bob, "cancel", conversation_id="m-1", task_id=task) == NOT_TASK
        bob.call("respond", conversation_id="m-1", task_id=task, input_id="q", answer="yes")
        received = bob.expect(lambda line: line.get("event") == "input_received")
        assert received["data"] == {"input_id": "q", "answer": "yes", "actor": "bob"}
        bob.expect(lambda line: line.get("event") == "task.completed")
    owner.call("chat", conversation_id="m-1", message="[]")
    mine = owner.expect(lambda line: line.get("event") == "task.created" and line["task_id"] != task, since=len(owner.log) - 3)
    assert "actor" not in mine["data"]


@pytest.mark.parametrize("verb", ["cancel", "cancel tree", "cancel_all"])
def test_end_says_who_cancelled(gateway, owner, verb):
    finished(owner, "m-2")
    made = owner.call("share", conversation_id="m-2", rights=["read", "cancel"], actor="bob")
    with Client(gateway, token=made["token"]) as bob:
        task = owner.call("chat", conversation_id="m-2", message='[{"token":"a"},{"hang":1}]')["task"]["task_id"]
        owner.expect(lambda line: line.get("event") == "token" and line["task_id"] == task)
        more = {} if verb == "cancel_all" else {"task_id": task, "tree": verb == "cancel tree"}
        assert bob.call(verb.split()[0], conversation_id="m-2", **more)["cancelled"] == 1
    end = owner.expect(lambda line: line.get("event") == "task.failed" and line["task_id"] == task)
    assert end["data"]["cancel"]["actor"] == "bob"
    task = owner.call("chat", conversation_id="m-2", message='[{"hang":1}]')["task"]["task_id"]
    owner.call("cancel", conversation_id="m-2", task_id=task)
    end = owner.expect(lambda line: line.get("event") == "task.failed" and line["task_id"] == task)
    assert "actor" not in end["data"]["cancel"]


def test_end_says_who_cancelled_before_a_kill(tmp_path):
    """Whether the task goes on until its grace is over, or ends with the start."""
    agents = [script_agent(default=True, grace_s=3), script_agent("fails", after_restart="fail", grace_s=3)]
    with Gateway({"auth": tokens.config(tmp_path), "agents": agents}, lasting=True) as gateway:
        tasks = []
        with Client(gateway, token=tokens.token("ann")) as owner:
            for agent in ("script", "fails"):
                task = owner.chat({"ignore_term": 1}, {"token": "a"}, {"hang": 1}, conversation="m-3", agent=agent)
                owner.event(task, "token")
                tasks.append(task)
            made = owner.call("share", conversation_id="m-3", rights=["read", "cancel"], actor="bob")
            with Client(gateway, token=made["token"]) as bob:
                assert bob.call("cancel_all", conversation_id="m-3")["cancelled"] == 2
            gateway.kill()
        gateway.start()
        with Client(gateway, token=tokens.token("ann")) as owner:
            for task in tasks:
                owner.resume(task)
                end = owner.wait_terminal(task)
                assert end["data"]["status"] == "cancelled" and end["data"]["cancel"]["actor"] == "bob"


def test_shares_outlive_a_kill_and_go_with_their_conversation(tmp_path):
    with Gateway({"auth": tokens.config(tmp_path)}) as gateway:
        with Client(gateway, token=tokens.token("ann")) as owner:
            finished(owner, "k-1")
            finished(owner, "k-2")
            first, second = (owner.call("share", conversation_id=c) for c in ("k-1", "k-2"))
        gateway.kill()
        gateway.start()
        with Client(gateway, token=tokens.token("ann")) as owner, Client(gateway, token=first["token"]) as reader:
            assert owner.call("shares")["shares"] == [second["share"], first["share"]]
            owner.call("delete", conversation_id="k-1")
            assert reader.closing().code == 4401
            assert owner.call("shares")["shares"] == [second["share"]]
        gateway.kill()
        gateway.start()
        assert http(gateway, first["token"], "GET", "/conversations/k-1/messages")[0] == 401
        assert http(gateway, second["token"], "GET", "/conversations/k-2/messages")[0] == 200


def test_shares_over_http_and_their_bounds(tmp_path):
    limits = {"shares_per_owner": 2}
    with Gateway({"auth": tokens.config(tmp_path), "limits": limits}) as gateway, Client(gateway, token=tokens.token("ann")) as owner:
        finished(owner, "h-1")
        now = int(time.time() * 1000)
        for wrong in (1, now + 367 * 86_400_000):
            assert owner.refused("bad_request", "share", conversation_id="h-1", expires_at=wrong)
        assert owner.refused("bad_request", "share", conversation_id="h-1", rights=["write"])["message"] == (
            '"rights" must be an array of read, ask, answer or cancel')
        status, made = http(gateway, owner.token, "POST", "/conversations/h-1/shares", {"expires_at": now + 60_000})
        assert status == 201 and made["share"]["expires_at"] == now + 60_000
        owner.call("share", conversation_id="h-1")
        owner.refused("overloaded", "share", conversation_id="h-1")
        assert 'holdfast_limit_hits_total{limit="shares"} 1' in gateway.http("GET", "/metrics")[2].decode()
        assert len(http(gateway, owner.token, "GET", "/conversations/h-1/shares?limit=1")[1]["shares"]) == 1
        path = "/shares?share_id=" + made["share"]["share_id"]
        assert http(gateway, tokens.token("eve"), "DELETE", path)[0] == 404
        assert http(gateway, owner.token, "DELETE", path) == (200, {"type": "ok"})
        assert len(http(gateway, owner.token, "GET", "/shares")[1]["shares"]) == 1
    with Gateway({"limits": {"shares_per_owner": 0}}) as gateway, Client(gateway) as owner:
        owner.refused("unsupported", "share", conversation_id="h-1")


# ------------------------------------------------------------------ another device


def test_handover_brings_the_same_owner_once(gateway, owner):
    made = owner.call("handover")
    with Client(gateway, hello=False) as phone:
        welcome = phone.call("hello", handover=made["code"])
        assert welcome["owner"] == owner.owner and "rights" not in welcome
        token = welcome["token"]
    assert tokens.claims_of(token)["exp"] == tokens.claims_of(owner.token)["exp"]
    with Client(gateway, token=token) as phone:
        assert phone.owner == owner.owner
    for code in (made["code"], "x", made["code"][:-1]):
        with Client(gateway, hello=False) as thief:
            thief.refused("unauthorized", "hello", handover=code)
            assert thief.closing().code == 4401


def test_handover_over_http(gateway, owner):
    status, made = http(gateway, owner.token, "POST", "/handover")
    assert status == 201
    status, _, text = gateway.http("POST", "/v1/handover/token", json.dumps({"code": made["code"]}), {"Content-Type": "application/json"})
    assert status == 200 and tokens.claims_of(json.loads(text)["token"])["sub"] == owner.owner
    again = gateway.http("POST", "/v1/handover/token", json.dumps({"code": made["code"]}), {"Content-Type": "application/json"})
    assert (again[0], json.loads(again[2])["error"]["message"]) == (404, "the code is not valid")


def test_guest_takes_itself_to_another_device():
    with Gateway() as gateway, Client(gateway) as guest, Client(gateway, hello=False) as phone:
        code = guest.call("handover")["code"]
        assert phone.call("hello", handover=code)["owner"] == guest.owner


# ------------------------------------------------------------------ pinned, and put away


def test_conversations_are_pinned_and_put_away(gateway, owner):
    for conversation in ("p-1", "p-2", "p-3"):
        finished(owner, conversation)
    owner.call("pin", conversation_id="p-1", pinned=True)
    owner.call("archive", conversation_id="p-2", archived=True)

    def ids(**more):
        return [row["conversation_id"] for row in owner.call("conversations", **more)["conversations"]]

    assert ids() == ["p-3", "p-2", "p-1"]  # in their order: nothing of them has changed
    assert ids(pinned=True) == ["p-1"] and ids(archived=True) == ["p-2"] and ids(archived=False) == ["p-3", "p-1"]
    assert ids(archived=False, pinned=False) == ["p-3"] and ids(archived=False, limit=1, before="p-3") == ["p-1"]
    assert http(gateway, owner.token, "GET", "/conversations?archived=true")[1]["conversations"][0]["archived"] is True
    assert http(gateway, owner.token, "POST", "/conversations/p-2/archive", {"archived": False}) == (200, {"type": "ok"})
    assert ids(archived=True) == []
    assert owner.refused("not_found", "pin", conversation_id="none", pinned=True)["message"] == "no such conversation"
    owner.refused("bad_request", "archive", conversation_id="p-1")


# ------------------------------------------------------------------ search and titles


def test_search_finds_titles_and_texts_and_marks_them(gateway, owner):
    finished(owner, "f-1", program({"final_answer": "The Quick brown fox"}))
    finished(owner, "f-2", program({"final_answer": "slow"}))
    finished(owner, "g-1", program({"final_answer": "quick again"}))
    owner.call("title", conversation_id="f-2", title="My quick notes")
    found = owner.call("search", query="QUICK")
    titles = {c["conversation_id"]: (c["title"], c["matches"]) for c in found["conversations"]}
    assert titles["f-2"] == ("My quick notes", [[3, 5]])
    times = [c["updated_at"] for c in found["conversations"]]  # two may be of the same millisecond
    assert times == sorted(times, reverse=True)
    answers = [m for m in found["messages"] if m["role"] == "assistant"]
    assert [(m["conversation_id"], m["text"], m["matches"]) for m in answers] == [
        ("g-1", "quick again", [[0, 5]]), ("f-1", "The Quick brown fox", [[4, 5]])]
    assert not found["more"] and "before" not in found
    pages, before = [], {}
    while True:
        page = owner.call("search", query="quick", limit=1, **before)
        assert (page["conversations"] == []) == bool(before)
        pages += page["messages"]
        if not page["more"]:
            break
        before = {"before": page["before"]}
    assert [m["message_id"] for m in pages] == [m["message_id"] for m in found["messages"]]
    assert http(gateway, owner.token, "GET", "/search?query=quick+brown")[1]["messages"][0]["conversation_id"] == "f-1"
    assert owner.refused("bad_request", "search", query=' "" ')["message"] == '"query" has nothing to look for'
    with Client(gateway, token=narrowed(owner.owner, {"prefix": "f-", "rights": ["read"]})) as reader:
        seen = reader.call("search", query="quick")
        assert {m["conversation_id"] for m in seen["messages"]} == {"f-1"} and len(seen["conversations"]) >= 1
        assert {c["conversation_id"] for c in seen["conversations"]} <= {"f-1", "f-2"}
    with Client(gateway, token=tokens.token(new_id("eve"))) as other:
        assert answer(other, "search", query="quick") == {"type": "found", "conversations": [], "messages": [], "more": False}


def test_agent_names_the_conversation_until_the_owner_does(gateway, owner):
    def title():
        return owner.call("conversations")["conversations"][0]["title"]

    say = program({"line": {"event": "title", "data": {"title": "By the agent"}}}, {"token": "a"})
    finished(owner, "t-1", say)
    assert title() == "By the agent"
    owner.call("title", conversation_id="t-1", title="By me")
    finished(owner, "t-1", say)
    assert title() == "By me"
    assert not [line for line in owner.log if line.get("event") == "title"]


def test_link_begins_with_the_public_address():
    with Gateway({"public_url": "https://chat.example/at/"}) as gateway, Client(gateway) as client:
        client.call("chat", conversation_id="c-1", message=program({"token": "a"}))
        made = client.call("share", conversation_id="c-1")
        assert made["url"] == f"https://chat.example/at/#share={made['token']}"
        code = client.call("handover")
        assert code["url"] == f"https://chat.example/at/#handover={code['code']}"
    with Gateway({}) as gateway, Client(gateway) as client:
        client.call("chat", conversation_id="c-1", message=program({"token": "a"}))
        assert "url" not in client.call("share", conversation_id="c-1") and "url" not in client.call("handover")


@pytest.mark.parametrize("url", ["chat.example", "ftp://chat.example/", "https://", "https:///", "https://a@chat.example/", "https://chat.example/#x"])
def test_public_address_is_one(tmp_path, url):
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"public_url": url}))
    done = subprocess.run([BINARY, "check-config", file], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2 and "public_url" in done.stderr + done.stdout
