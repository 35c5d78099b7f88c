"""Requests: how a line must look, what every fault is told, order, rate and size (PROTOCOL.md 1, 5, 6)."""

import json
import time

import pytest

import tokens
from gateway import Gateway, wait_until
from holdfast import Client, Closed, ids, new_id, program
from wire import Wire

RATES = {"limits": {"requests_per_second": 1, "burst": 200}}  # so slow that a busy machine is faster


def error_of(client, text):
    """The error that a line gets; the connection goes on."""
    since = len(client.log)
    client.send_text(text)
    error = client.expect_type("error", since)
    assert error["message"]
    client.quiet()
    return error


# ------------------------------------------------------------------ lines

MALFORMED = {
    "not_json": "hello there",
    "truncated": '{"type":"ping"',
    "trailing": '{"type":"ping"} x',
    "array": "[1,2]",
    "string": '"ping"',
    "number": "7",
    "null": "null",
    "no_type": '{"id":"1"}',
    "type_is_number": '{"type":7}',
    "type_is_null": '{"type":null}',
    "single_quotes": "{'type':'ping'}",
    "comment": '{"type":"ping"} // hi',
    "nan": '{"type":"ping","x":NaN}',
    "leading_zero": '{"type":"ping","x":01}',
    "raw_control": '{"type":"ping","x":"a\tb"}',
    "bad_escape": '{"type":"ping","x":"\\q"}',
    "deep": "[" * 20000,
    "deep_field": '{"type":"ping","x":' + "[" * 5000 + "]" * 5000 + "}",
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed_line_is_bad_request(client, kind):  # F56
    assert error_of(client, MALFORMED[kind])["code"] == "bad_request"


@pytest.mark.parametrize("line,key", [
    ('{"type":"ping","type":"ping"}', "type"),
    ('{"type":"ping","id":"1","id":"2"}', "id"),
    ('{"type":"chat","message":"a","message":"b"}', "message"),
    ('{"type":"ping","x":{"deep":1,"deep":1}}', "deep"),
    ('{"type":"ping","a":1,"\\u0061":2}', "a"),
])
def test_duplicate_key_is_bad_request_and_named(client, line, key):
    error = error_of(client, line)
    assert error["code"] == "bad_request"
    assert key in error["message"]


def test_unknown_type_is_unsupported_and_named(client):
    error = client.refused("unsupported", "dance")
    assert "dance" in error["message"]


def test_unknown_fields_are_ignored(client):
    assert client.call("ping", extra={"a": [1, None, {"b": "c"}]})["type"] == "pong"


def test_empty_lines_are_ignored(client):
    client.send_text("\n\n" + '{"type":"ping","id":"e1"}' + "\n\n" + '{"type":"ping","id":"e2"}\n')
    client.reply("e1")
    client.reply("e2")
    client.send_text("")
    client.quiet()
    assert not [line for line in client.log if line["type"] == "error"]


def test_carriage_return_before_newline_is_white_space(client):
    client.send_text('{"type":"ping","id":"r1"}\r\n{"type":"ping","id":"r2"}\r\n')
    client.reply("r1")
    client.reply("r2")


# ------------------------------------------------------------------ fields

WRONG_FIELDS = [  # type, fields, the one that the message names
    ("chat", {}, "message"),
    ("chat", {"message": ""}, "message"),
    ("chat", {"message": 7}, "message"),
    ("chat", {"message": None}, "message"),
    ("chat", {"message": ["x"]}, "message"),
    ("chat", {"message": "x", "conversation_id": ""}, "conversation_id"),
    ("chat", {"message": "x", "conversation_id": "a b"}, "conversation_id"),
    ("chat", {"message": "x", "conversation_id": ".x"}, "conversation_id"),
    ("chat", {"message": "x", "conversation_id": "-x"}, "conversation_id"),
    ("chat", {"message": "x", "conversation_id": "a/b"}, "conversation_id"),
    ("chat", {"message": "x", "conversation_id": "ä"}, "conversation_id"),
    ("chat", {"message": "x", "conversation_id": "x" * 129}, "conversation_id"),
    ("chat", {"message": "x", "conversation_id": 5}, "conversation_id"),
    ("chat", {"message": "x", "agent": "nobody"}, "agent"),
    ("chat", {"message": "x", "agent": 5}, "agent"),
    ("chat", {"message": "x", "agent": ""}, "agent"),
    ("chat", {"message": "x", "request_key": ""}, "request_key"),
    ("chat", {"message": "x", "request_key": "k" * 129}, "request_key"),
    ("chat", {"message": "x", "request_key": 1}, "request_key"),
    ("chat", {"message": "x", "background": "yes"}, "background"),
    ("chat", {"message": "x", "notify_on_complete": 1}, "notify_on_complete"),
    ("chat", {"message": "x", "name": 4}, "name"),
    ("chat", {"message": "x", "name": "parent"}, "name"),
    ("chat", {"message": "x", "name": "self"}, "name"),
    ("chat", {"message": "x", "name": "all"}, "name"),
    ("chat", {"message": "x", "name": "broadcast"}, "name"),
    ("chat", {"message": "x", "description": {}}, "description"),
    ("chat", {"message": "x", "when_busy": "panic"}, "when_busy"),
    ("chat", {"message": "x", "when_busy": True}, "when_busy"),
    ("chat", {"message": "x", "metadata": "text"}, "metadata"),
    ("chat", {"message": "x", "metadata": [1]}, "metadata"),
    ("chat", {"message": "x", "metadata": {"a": "m" * 17000}}, "metadata"),
    ("chat", {"message": "x", "metadata": {"n": 2**53}}, "metadata"),
    ("open", {}, "conversation_id"),
    ("open", {"conversation_id": "a b"}, "conversation_id"),
    ("open", {"conversation_id": "a", "follow": "yes"}, "follow"),
    ("open", {"conversation_id": "a", "limit": "5"}, "limit"),
    ("close", {}, "conversation_id"),
    ("cancel_all", {}, "conversation_id"),
    ("cancel_all", {"conversation_id": []}, "conversation_id"),
    ("tasks", {}, "conversation_id"),
    ("tasks", {"conversation_id": "a", "status": "odd"}, "status"),
    ("tasks", {"conversation_id": "a", "status": 5}, "status"),
    ("tasks", {"conversation_id": "a", "limit": 0}, "limit"),
    ("tasks", {"conversation_id": "a", "limit": -1}, "limit"),
    ("tasks", {"conversation_id": "a", "limit": 1.5}, "limit"),
    ("tasks", {"conversation_id": "a", "before": 5}, "before"),
    ("history", {"conversation_id": "a", "limit": True}, "limit"),
    ("history", {}, "conversation_id"),
    ("conversations", {"limit": {}}, "limit"),
    ("title", {"conversation_id": "a"}, "title"),
    ("title", {"conversation_id": "a", "title": 5}, "title"),
    ("title", {"title": "x"}, "conversation_id"),
    ("delete", {}, "conversation_id"),
    ("results", {}, "conversation_id"),
    ("ack", {"conversation_id": "a"}, "task_ids"),
    ("ack", {"conversation_id": "a", "task_ids": "x"}, "task_ids"),
    ("ack", {"conversation_id": "a", "task_ids": [5]}, "task_ids"),
    ("ping", {"x": 2**53}, "x"),
    ("ping", {"x": -(2**53)}, "x"),
    ("ping", {"x": [1, {"y": 10**30}]}, "x"),
]


@pytest.mark.parametrize("type,fields,named", WRONG_FIELDS,
                         ids=[f"{i}-{t}-{n}" for i, (t, _, n) in enumerate(WRONG_FIELDS)])
def test_wrong_field_is_bad_request_and_named(gateway, client, type, fields, named):
    error = client.refused("bad_request", type, **fields)
    assert named in error["message"]
    assert client.call("conversations")["conversations"] == []  # nothing has happened


RIGHT_FIELDS = [  # the same fields at the edge of what is allowed
    {"conversation_id": "x" * 128}, {"conversation_id": "0._-A"}, {"request_key": "k" * 128},
    {"agent": "script"}, {"metadata": {}}, {"metadata": {"n": 2**53 - 1, "x": "m" * 16000}},
    {"description": ""}, {"background": False}, {"notify_on_complete": False}, {"when_busy": "parallel"},
    {"name": "a-name"},
]


@pytest.mark.parametrize("fields", RIGHT_FIELDS, ids=lambda f: next(iter(f)))
def test_field_at_its_edge_is_accepted(client, fields):
    task = client.chat("x", **fields)
    assert client.wait_terminal(task)["event"] == "task.completed"


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1e3", "0.1", "-0", "1E+2"])
def test_numbers_in_unknown_fields_are_harmless(client, number):
    client.send_text('{"type":"ping","id":"n","x":%s}' % number)
    assert client.reply("n")["type"] in ("pong", "error")
    client.quiet()


# ------------------------------------------------------------------ ids


@pytest.mark.parametrize("id", ["1", "a" * 64, "9007199254740993", "é\u0001\"\\\n", "😀" * 16, "\u0000", " "])
def test_id_is_echoed_to_the_byte(client, id):  # F58
    assert client.ask("ping", id=id)["id"] == id
    assert client.ask("nonsense", id=id)["id"] == id


@pytest.mark.parametrize("id", ["", "a" * 65, 7, None, True, ["x"], {}, "😀" * 17])
def test_wrong_id_is_bad_request_and_not_echoed(client, id):
    error = error_of(client, json.dumps({"type": "ping", "id": id}))
    assert error["code"] == "bad_request"
    assert "id" in error["message"]
    assert "id" not in error


def test_request_without_id_is_answered_without(client):
    since = len(client.log)
    client.send({"type": "conversations"})
    assert "id" not in client.expect_type("conversations", since)


def test_errors_carry_the_id(client):
    for type, fields in [("chat", {}), ("resume", {}), ("nonsense", {}), ("tasks", {"limit": "x"})]:
        assert client.ask(type, id="mine", **fields)["id"] == "mine"


# ------------------------------------------------------------------ strings


def test_lone_surrogate_becomes_the_replacement_character(client):  # F55
    client.send_text('{"type":"chat","id":"s","message":"a\\ud83d b\\udc00c \\ud83d\\ude00"}')
    task = client.reply("s")["task"]
    created = client.event(task, "task.created")
    assert created["data"]["input"] == "a\ufffd b\ufffdc 😀"
    assert client.wait_terminal(task)["data"]["output"] == "a\ufffd b\ufffdc 😀"


def test_escaped_nul_is_kept(client):
    task, _ = client.finish("a\u0000b")
    assert task["output"] == "a\u0000b"
    history = client.call("history", conversation_id=task["conversation_id"])
    assert [m["content"] for m in history["messages"]] == ["a\u0000b", "a\u0000b"]


def test_text_comes_back_to_the_byte(client):
    text = "\u0001\u001f\"\\/\b\f\n\r\t\u007f\u0080\u2028\u2029\ufeff\uffff𐀀\U0010ffff é e\u0301"
    task, events = client.finish(text)
    assert events[0]["data"]["input"] == text
    assert task["output"] == text


@pytest.mark.parametrize("data", [b"\xff", b"\xc3", b"\xed\xa0\xbd", b"\xc0\x80", b"\xf5\x80\x80\x80"])
def test_invalid_utf8_closes_with_1007(gateway, data):
    with Wire(gateway) as wire:
        wire.text('{"type":"hello","id":"1"}')
        wire.until_text("welcome")
        wire.text(b'{"type":"ping","x":"' + data + b'"}')
        assert wire.close_code() == 1007


@pytest.mark.parametrize("depth,accepted", [(100, True), (128, True), (129, False), (1000, False)])
def test_nesting_has_a_limit(client, depth, accepted):  # the object itself counts as 1
    x = "[" * (depth - 1) + "]" * (depth - 1)
    client.send_text('{"type":"ping","id":"d","x":%s}' % x)
    line = client.expect(lambda line: line["type"] in ("pong", "error"), len(client.log))
    assert line["type"] == ("pong" if accepted else "error")


# ------------------------------------------------------------------ order


def test_replies_come_in_the_order_of_the_requests(client):
    conversation = new_id()
    done, _ = client.finish("x", conversation=conversation)
    sent = []
    for i in range(20):
        sent.append(client.post("history", conversation_id=conversation))
        sent.append(client.post("chat", message=f"m{i}", conversation_id=conversation))
        sent.append(client.post("resume", **{**ids(done), "task_id": "0" * 26}))
        sent.append(client.post("conversations"))
        sent.append(client.post("chat", message=""))
    client.reply(sent[-1])
    got = [line["id"] for line in client.log if line.get("id") in set(sent)]
    assert got == sent


def test_many_lines_in_one_message_are_answered_in_order(client):
    client.send(*({"type": "conversations", "id": f"n{i}"} for i in range(60)))
    client.reply("n59")
    got = [line["id"] for line in client.log if line.get("id", "").startswith("n")]
    assert got == [f"n{i}" for i in range(60)]


def test_pipelined_requests_beyond_64_are_all_answered(client):
    """A connection with 64 replies waiting is not read, but nothing of it is lost."""
    for i in range(500):
        client.send({"type": "conversations", "id": f"p{i}"})
    client.reply("p499")
    assert [line["id"] for line in client.log if line.get("id", "").startswith("p")] == \
        [f"p{i}" for i in range(500)]


def test_pong_has_the_time(client):
    before = time.time() * 1000
    pong = client.call("ping")
    assert before - 2000 < pong["ts"] < time.time() * 1000 + 2000


# ------------------------------------------------------------------ limits


def test_ten_malformed_lines_close_with_1008(gateway):
    with Client(gateway) as client:
        for _ in range(9):
            error_of(client, "rubbish")
        client.send_text("rubbish")
        assert client.closing().code == 1008
        assert len([line for line in client.log if line["type"] == "error"]) >= 9


def test_refusals_that_are_well_formed_do_not_close(client):
    for _ in range(30):
        client.refused("bad_request", "chat", message="")
        client.refused("unsupported", "nonsense")


def test_a_flood_is_rate_limited_then_closed_with_4429():
    with Gateway(RATES) as gateway, Client(gateway) as client, Client(gateway) as other:
        ask = {"type": "conversations", "id": "0"}
        client.send(*[ask] * 230)
        error = client.expect_type("error")
        assert error["code"] == "rate_limited"
        assert 0 < error["retry_after_ms"] <= 60000
        other.quiet()  # the limit is the connection's
        try:
            for i in range(30):
                client.send(*[ask] * 100)
                client.pump(0)
        except Closed:
            pass
        assert client.closing().code == 4429
        other.quiet()


def test_after_waiting_as_told_requests_are_served_again():
    rates = {"limits": {"requests_per_second": 10, "burst": 200}}
    with Gateway(rates) as gateway, Client(gateway) as client:
        client.send(*[{"type": "conversations", "id": str(n)} for n in range(1000, 1250)])  # 5 s too many
        error = client.reply("1249")
        assert error.get("code") == "rate_limited"
        time.sleep(error["retry_after_ms"] / 1000 + 0.05)
        assert client.call("conversations")["conversations"] == []


def sized(n):
    """A ping of exactly n bytes."""
    head, tail = '{"type":"ping","id":"z","x":"', '"}'
    return head + "x" * (n - len(head) - len(tail)) + tail


def test_message_at_the_limit_is_accepted(client):
    client.send_text(sized(65536))
    client.reply("z")


def test_message_over_the_limit_closes_with_1009(gateway):
    with Client(gateway) as client:
        client.send_text(sized(65537))
        assert client.closing().code == 1009
        assert not [line for line in client.log if line.get("id") == "z"]


def test_before_welcome_the_limit_is_32_kib(gateway):
    hello = '{"type":"hello","id":"h","x":"%s"}'
    with Client(gateway, hello=False) as client:
        client.send_text(hello % ("x" * (32768 - len(hello) + 2)))
        client.reply("h")
    with Client(gateway, hello=False) as client:
        client.send_text(hello % ("x" * (32769 - len(hello) + 2)))
        assert client.closing().code == 1009
        assert client.log == []


def test_configured_message_limit_is_told_and_kept():
    with Gateway({"limits": {"message_bytes": 131072}}) as gateway:
        with Client(gateway) as client:
            assert client.welcome["limits"]["message_bytes"] == 131072
            client.send_text(sized(131072))
            client.reply("z")
            client.send_text(sized(131073))
            assert client.closing().code == 1009


def test_compressed_message_counts_after_decompression():  # F52
    """By a library's client; by hand: test_deflate.py."""
    with Gateway({"compression": True}) as gateway:
        with Client(gateway, compression=True) as client:
            assert client.ws.extensions
            client.send_text(sized(65536))
            client.reply("z")
            client.send_text(sized(65537))
            assert client.closing().code == 1009
        with Client(gateway, compression=True) as client:
            client.send_text(sized(50_000_000))
            assert client.closing().code == 1009


def test_tasks_per_owner_is_overloaded_beyond():
    with Gateway({"limits": {"tasks_per_owner": 3}}) as gateway, Client(gateway) as client:
        tasks = [client.chat({"hang": 1}) for _ in range(3)]
        error = client.refused("overloaded", "chat", message="x", request_key="k")
        assert error["retry_after_ms"] > 0
        assert client.call("cancel", **ids(tasks[0]))["cancelled"] == 1
        client.wait_terminal(tasks[0])
        task = client.call("chat", message="x", request_key="k")  # a refused chat used up no key
        assert "repeated" not in task


def test_limit_of_tasks_says_whose_it_is(tmp_path):
    with Gateway({"limits": {"tasks_per_owner": 1}, "auth": tokens.config(tmp_path), "guests": True}) as gateway:
        for token, whose in ((tokens.token("ann"), "this owner"), (None, "all guests of this address")):
            with Client(gateway, token=token) as one:
                one.chat({"hang": 1})
                assert one.refused("overloaded", "chat", message="x")["message"] == f"too many tasks of {whose}"


def test_subscriptions_are_limited():
    with Gateway({"limits": {"subscriptions": 2}}) as gateway, Client(gateway) as client:
        first, second = (client.chat({"hang": 1}) for _ in range(2))
        with Client(gateway, token=client.token) as other:
            third = other.chat({"hang": 1})
        client.refused("overloaded", "resume", **ids(third))
        client.resume(first)  # already followed: no new one
        client.refused("overloaded", "chat", message="x")  # a chat is followed
        client.call("unsubscribe", **ids(second))
        client.resume(third)


def test_connections_per_address_get_503():
    with Gateway({"limits": {"connections_per_address": 4}}) as gateway:
        kept = [Client(gateway) for _ in range(4)]
        with Wire(gateway) as wire:
            assert wire.status == 503
            assert "retry-after" in wire.head.lower()
        kept.pop().close()

        def comes_in():
            with Wire(gateway) as wire:
                return wire.status == 101

        wait_until(comes_in, "the place that is free")
        for client in kept:
            client.quiet()


def test_program_input_is_not_special_to_the_gateway(client):
    task, events = client.finish(program({"token": "é"}))
    assert task["output"] == "é"
    assert json.loads(events[0]["data"]["input"]) == [{"token": "é"}]
