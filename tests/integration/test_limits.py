"""Each key of limits.…: it is kept to at its edge, and told beyond it.  Those that have tests of their own elsewhere are
named in KEPT; a key that is in neither place fails test_every_limit_has_a_test."""

import json
import pathlib
import re
import socket
import time

import pytest

from gateway import LATE_S, Gateway, run, wait_until
from holdfast import Client, Refused, ids
from wire import CLOSE, TEXT, Wire

KEPT = {
    "connections_per_address": "test_connections_per_address_get_503",
    "ipv6_prefix": "test_ipv6_prefix_says_how_much_of_an_address_counts",
    "requests_per_second": "test_a_flood_is_rate_limited_then_closed_with_4429",
    "burst": "test_requests_of_one_owner_are_paced_and_others_are_not",
    "message_bytes": "test_configured_message_limit_is_told_and_kept",
    "tasks_per_owner": "test_tasks_per_owner_is_overloaded_beyond",
    "processes": "test_limits_that_the_descriptors_do_not_carry_are_lowered_with_a_line_each",
    "task_bytes": "test_task_bytes_limit",
    "task_events": "test_task_events_limit",
    "inbox_messages": "test_full_inbox_refuses_and_keeps_what_it_acknowledged",
    "subscriptions": "test_subscriptions_are_limited",
    "store_mib_per_owner": "test_full_owner_is_refused_and_a_delete_makes_room",
    "schedules": "test_schedules_of_all_and_of_one_owner_are_bounded",
    "shares_per_owner": "test_shares_over_http_and_their_bounds",
    "schedules_per_owner": "test_schedules_of_all_and_of_one_owner_are_bounded",
}


FLOODED = {"limits": {"requests_per_second": 1, "burst": 10}}


def metric(gateway, name):
    text = gateway.http("GET", "/metrics")[2].decode()
    return int(re.search(rf"^{re.escape(name)} (\d+)", text, re.M)[1])


def hits(gateway, limit):
    return metric(gateway, f'holdfast_limit_hits_total{{limit="{limit}"}}')


def test_connections_of_all_get_503_and_the_next_one_has_the_place():
    with Gateway({"limits": {"connections": 4}, "trusted_proxies": ["127.0.0.1"]}) as gateway:
        def connect(n):
            return Client(gateway, headers={"X-Forwarded-For": f"203.0.113.{n}"})

        held = [connect(n) for n in range(4)]
        with pytest.raises(Refused) as refused:
            connect(9)
        assert refused.value.status == 503 and "retry-after" in refused.value.answer.lower()
        for client in held:
            client.quiet()
        held.pop().close()

        def comes_in():
            try:
                return connect(9)
            except Refused:
                return None

        held.append(wait_until(comes_in, "the place that is free"))
        for client in held:
            client.close()


def test_strangers_hold_at_most_half():
    """Those who have not said hello, so that they keep nobody out who can say who he is."""
    with Gateway({"limits": {"connections": 4}}) as gateway:
        strangers = [Client(gateway, hello=False) for _ in range(2)]
        with pytest.raises(Refused):
            Client(gateway, hello=False)
        strangers[0].hello()
        strangers.append(Client(gateway, hello=False))
        for client in strangers:
            client.close()


def test_sockets_of_one_address_are_bounded_whatever_they_do():
    """Silent ones, and those between two requests, are no connections yet: twice the limit and 16 for all together."""
    with Gateway({"limits": {"connections_per_address": 2}, "trusted_proxies": ["127.0.0.2"]}) as gateway:
        def opened(source="127.0.0.1"):
            return socket.create_connection((gateway.host, gateway.port), 10, (source, 0))

        def is_served(wire):
            try:
                wire.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                return wire.recv(100).startswith(b"HTTP/1.1 200")
            except ConnectionError:
                return False

        before = gateway.n_fds()
        held = [opened() for _ in range(20)]
        assert all(is_served(wire) for wire in held[::2])
        for _ in range(3):
            with opened() as beyond:
                assert not is_served(beyond)
        with opened("127.0.0.2") as proxy, opened("127.0.0.3") as other:  # whose clients are counted by themselves
            assert is_served(proxy) and is_served(other)
        held.pop().close()

        def comes_in():
            with opened() as wire:
                return is_served(wire)

        wait_until(comes_in, "the place that is free")
        for wire in held:
            wire.close()
        wait_until(lambda: gateway.n_fds() <= before + 2, "the descriptors' end")


def test_tasks_of_all_are_overloaded_beyond():
    with Gateway({"limits": {"tasks": 2}}) as gateway, Client(gateway) as one, Client(gateway) as other:
        first, second = one.chat({"hang": 1}), other.chat({"hang": 1})
        for client in (one, other):
            assert client.refused("overloaded", "chat", message="x", request_key="k")["retry_after_ms"] > 0
        assert hits(gateway, "tasks") == 2
        one.call("cancel", **ids(first))
        one.wait_terminal(first)
        assert "repeated" not in other.call("chat", message="x", request_key="k")
        other.call("cancel", **ids(second))


def test_webhooks_of_a_task_are_overloaded_beyond():
    with Gateway({"limits": {"task_webhooks": 2}}) as gateway, Client(gateway) as client:
        task = client.chat({"hang": 1}, webhook={"url": "https://example.com/1", "webhook_id": "1"})
        for n in (2, 2, 1):  # one with the same id takes its place
            client.call("webhook", **ids(task), webhook={"url": f"https://example.com/{n}", "webhook_id": str(n)})
        client.refused("overloaded", "webhook", **ids(task), webhook={"url": "https://example.com/3"})
        client.call("webhook_delete", **ids(task), webhook_id="1")
        client.call("webhook", **ids(task), webhook={"url": "https://example.com/3"})
        client.call("cancel", **ids(task))
    with Gateway({"limits": {"task_webhooks": 0}}) as gateway, Client(gateway) as client:
        client.refused("unsupported", "chat", message="x", webhook={"url": "https://example.com/"})


def test_bytes_of_an_inbox_are_overloaded_beyond():
    with Gateway({"limits": {"inbox_bytes": 1000}}) as gateway, Client(gateway) as client:
        first = client.chat({"hang": 1}, conversation="c")
        queued = client.chat({"repeat": 2, "steps": [{"hear": "message", "say": True}]}, conversation="c", when_busy="enqueue")
        client.call("send", **ids(queued), content="x" * 400)
        client.call("send", **ids(queued), content="y" * 400)
        client.refused("overloaded", "send", **ids(queued), content="z" * 400)
        client.call("cancel", **ids(first))
        events = list(client.events(queued))
        assert [len(e["data"]["content"]) for e in events if e["event"] == "message"] == [400, 400]


def flood_behind_a_full_socket(gateway, owner):
    """A connection that takes nothing of a long replay, and has asked twice as much as it may."""
    task, _ = owner.finish({"flood": 20000, "bytes": 200})
    wire = Wire(gateway, rcvbuf=4096)
    wire.text('{"type":"hello","token":"%s"}' % owner.token)
    wire.until_text("welcome")
    wire.text(json.dumps({"type": "resume", **ids(task)}))
    wire.until_text('"resumed"')
    sent = []
    wait_until(lambda: sent.append(metric(gateway, "holdfast_sent_bytes_total")) or sent[-1:] == sent[-2:-1], "a full socket")
    wire.flooded_at = time.monotonic()
    wire.text("\n".join('{"type":"none","id":"n%d"}' % i for i in range(40)))
    wait_until(lambda: hits(gateway, "requests_per_second") >= 11, "the flood")
    return wire


def test_flood_is_told_all_that_was_answered_before_its_close():
    """Replies that wait behind a full socket: they are taken after the flood, and none is missing."""
    with Gateway(FLOODED) as gateway, Client(gateway) as owner, flood_behind_a_full_socket(gateway, owner) as wire:
        text = ""
        while (found := wire.recv()) and found[0] == TEXT:
            text += found[1].decode() + "\n"
    assert found and found[0] == CLOSE and found[1][:2] == (4429).to_bytes(2, "big"), found
    replies = [line for line in map(json.loads, filter(None, text.split("\n"))) if "id" in line]
    codes = [line["code"] for line in replies]
    assert [line["id"] for line in replies] == [f"n{i}" for i in range(len(replies))]
    n = codes.index("rate_limited")
    assert n >= 8 and codes == ["unsupported"] * n + ["rate_limited"] * 11  # 10, less hello and resume


def test_flood_that_takes_nothing_is_cut_in_the_time_of_a_close():
    with Gateway(FLOODED) as gateway, Client(gateway) as owner:
        with flood_behind_a_full_socket(gateway, owner) as wire:
            wait_until(lambda: metric(gateway, "holdfast_connections") == 1, "its end", 5 + LATE_S)
            assert time.monotonic() - wire.flooded_at > 3


def test_file_may_have_so_many_bytes():
    with Gateway({"limits": {"file_mib": 1}}) as gateway:
        token = json.loads(gateway.http("POST", "/v1/guest")[2])["token"]

        def give(size, method="POST", query="", **headers):
            status, _, answer = gateway.http(method, f"/v1/conversations/c/files{query}", b"x" * size,
                                             {"Authorization": f"Bearer {token}", **headers})
            return status, json.loads(answer)

        assert give(1 << 20)[0] == 201
        status, answer = give((1 << 20) + 1)
        assert status == 413 and answer["error"]["code"] == "too_large" and "limits.file_mib" in answer["error"]["message"]
        status, answer = give(1, "PATCH", "?upload=k", **{"Upload-Offset": str(1 << 20)})
        assert status == 413, answer
    with Gateway({"limits": {"file_mib": 0}}) as gateway:
        token = json.loads(gateway.http("POST", "/v1/guest")[2])["token"]
        assert gateway.http("POST", "/v1/conversations/c/files", b"", {"Authorization": f"Bearer {token}"})[0] == 400


def test_request_of_a_face_may_have_so_many_bytes():
    """Its protocol's own error, also beyond what a message of ours may have."""
    with Gateway({"limits": {"face_bytes": 2048, "message_bytes": 1024}}) as gateway:
        token = json.loads(gateway.http("POST", "/v1/guest")[2])["token"]
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

        def ask(size):
            body = {"id": "c", "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "hi"}]}]}
            body["pad"] = "x" * (size - len(json.dumps(body)) - len(', "pad": ""'))
            text = json.dumps(body)
            assert len(text) == size
            status, _, answer = gateway.http("POST", "/v1/ai/chat", text, headers)
            return status, answer

        assert ask(2048)[0] == 200
        status, answer = ask(2049)
        assert status == 413 and json.loads(answer)["error"]["code"] == "too_large"
        for path, form in OVER_THE_LIMIT.items():
            status, _, answer = gateway.http("POST", path, json.dumps({"pad": "x" * 2048}), headers)
            assert status == 413 and json.loads(answer)["error"].items() >= form.items(), (path, answer)
        for path in ("/v1/ai", "/v1/responses", "/v1/acp"):
            wire = Wire(gateway, path=f"{path}?token={token}", headers={"Sec-WebSocket-Protocol": None})
            wire.text(json.dumps({"pad": "x" * 2048}))
            assert wire.close_code() == 1009, path
            wire.close()


# The error in each protocol's own form.
OVER_THE_LIMIT = {
    "/v1/chat/completions": {"type": "invalid_request_error", "param": None, "code": "too_large"},
    "/v1/responses": {"type": "invalid_request_error", "param": None, "code": "too_large"},
    "/v1/ag-ui/any": {"code": "too_large"},
    "/v1/a2a/any": {"code": -32000},
    "/v1/a2a/any/message:send": {"code": 413, "status": "INVALID_ARGUMENT"},
    "/v1/mcp": {"code": -32000},
}


@pytest.mark.parametrize("address", ["/v1/ai", "/v1/responses?token=", "/v1/acp", "/v1/acp?token="])
def test_frame_of_a_face_costs_whatever_it_is(address):
    """Also one that is no JSON, an owner's and a stranger's; a peer that is told to wait and goes on is flooding."""
    with Gateway({"limits": {"requests_per_second": 1, "burst": 5}}) as gateway:
        token = json.loads(gateway.http("POST", "/v1/guest")[2])["token"] if "?" in address else ""
        hasty = []
        with Wire(gateway, path=address + token, headers={"Sec-WebSocket-Protocol": None}) as wire:
            for _ in range(200):
                wire.text("{")
            while (found := wire.recv()) and found[0] == TEXT:
                hasty.append(b"too many requests" in found[1])
        assert found and found[0] == CLOSE and found[1][:2] == (4429).to_bytes(2, "big"), found
        assert not any(hasty[:4]) and all(hasty[-6:]) and hasty.count(False) < 50, hasty  # the guest paid as well


def test_every_limit_has_a_test():
    named = set(re.findall(r"^limits\.(\w+):", run("keys").stdout, re.M))
    here = pathlib.Path(__file__).read_text()
    all_tests = "\n".join(path.read_text() for path in pathlib.Path(__file__).parent.glob("test_*.py"))
    assert len(named) > 10
    for limit in named:
        assert limit in KEPT or f'"limits": {{"{limit}":' in here, limit
    for limit, test in KEPT.items():
        assert limit in named and f"def {test}(" in all_tests, (limit, test)
