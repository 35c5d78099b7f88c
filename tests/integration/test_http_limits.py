"""Limits over HTTP, and who a peer is behind a proxy (DESIGN: limits; trusted_proxies)."""

import contextlib
import json
import socket

from gateway import SCALE, WAIT_S, Gateway, wait_until
from holdfast import Client, Refused, ids, script_agent
from test_http_api import Api
from wire import TEXT, Wire, frame


def events(gateway, api, task):
    """(socket, status) of a stream that stays open."""
    sock = socket.create_connection((gateway.host, gateway.port), WAIT_S)
    sock.sendall(f"GET /v1/conversations/{task['conversation_id']}/tasks/{task['task_id']}/events "
                 f"HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {api.token}\r\n\r\n".encode())
    head = b""
    while b"\r\n\r\n" not in head:
        piece = sock.recv(4096)
        if not piece:
            break
        head += piece
    return sock, int(head.split()[1])


def to_the_end(sock):
    got = b""
    try:
        while piece := sock.recv(65536):
            got += piece
            assert b"\n:\n" not in got, "a comment came first"
    except ConnectionResetError:
        pass
    return got


def test_requests_of_one_owner_are_paced_and_others_are_not():
    with Gateway({"limits": {"requests_per_second": 1, "burst": 8}}) as gateway:
        one, other = Api(gateway), Api(gateway)
        assert [one.ask("GET", "/conversations")[0] for _ in range(8)] == [200] * 8

        def refusal():  # at last: while this process sleeps, the bucket fills
            status, headers, body = gateway.http("GET", "/v1/conversations",
                                                 headers={"Authorization": "Bearer " + one.token})
            return status == 429 and (headers, json.loads(body))

        headers, answer = wait_until(refusal, "a refusal")
        assert answer["error"]["code"] == "rate_limited" and int(headers["Retry-After"]) >= 1
        assert answer["error"]["retry_after_ms"] >= 1
        assert other.ask("GET", "/conversations")[0] == 200
        wait_until(lambda: one.ask("GET", "/conversations")[0] == 200, "the bucket fills")


def test_guesses_of_a_token_are_paced_by_address():
    with Gateway({"limits": {"requests_per_second": 1, "burst": 8}}) as gateway:
        def guess(n):
            return gateway.http("GET", "/v1/conversations", headers={"Authorization": f"Bearer {n}"})[0]

        assert [guess(n) for n in range(8)] == [401] * 8
        wait_until(lambda: guess(8) == 429, "a refusal")  # and of one who is nobody it is told as well when to come back
        wait_until(lambda: b'"retry_after_ms"' in gateway.http("GET", "/v1/conversations")[2], "a time")
        wait_until(lambda: gateway.http("POST", "/v1/guest")[0] == 429, "the same of tokens: they are not minted faster")


def test_streams_of_events_count_as_connections():
    with Gateway({"limits": {"connections_per_address": 4}}) as gateway:
        api = Api(gateway)
        with Client(gateway, token=api.token) as client:
            task = client.chat({"hang": 1})
            client.event(task, "task.started")
        open_ones = []
        for _ in range(4):
            sock, status = events(gateway, api, task)
            assert status == 200
            open_ones.append(sock)
        status, answer = api.ask("GET", f"/conversations/{task['conversation_id']}/tasks/{task['task_id']}/events")
        assert status == 503 and answer["error"]["code"] == "overloaded" and answer["error"]["retry_after_ms"] >= 1
        status, _, answer = gateway.http("GET", "/v1/ws", headers={
            "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="})
        assert status == 503 and json.loads(answer)["error"]["retry_after_ms"] >= 1
        assert api.ask("GET", "/conversations")[0] == 200  # short requests go on
        open_ones.pop().close()

        def has_room():
            again, result = events(gateway, api, task)
            again.close()
            return result == 200

        wait_until(has_room, "room for one more", 40 * SCALE)  # at the next comment, at the latest
        for sock in open_ones:
            sock.close()


def test_who_leaves_or_asks_for_more_before_the_answer_is_hung_up_on():
    """A stream lasts as long as its task, and a DELETE until the agents have gone: for all that time the loop would
    go round for what lies there unread, or be it the end.  A comment, after 15 s, would be the first to notice."""
    with Gateway({"agents": [script_agent(default=True, grace_s=60)]}) as gateway:
        api = Api(gateway)
        with Client(gateway, token=api.token) as client:
            task = client.chat({"ignore_term": 1}, {"token": "here"}, {"hang": 1})
            client.event(task, "token")
        left, more = (events(gateway, api, task)[0] for _ in range(2))
        left.shutdown(socket.SHUT_WR)
        more.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        waits = socket.create_connection((gateway.host, gateway.port), WAIT_S)
        waits.sendall(f"DELETE /v1/conversations/{task['conversation_id']} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                      f"Authorization: Bearer {api.token}\r\n\r\n".encode())
        waits.shutdown(socket.SHUT_WR)
        for sock in (left, more, waits):
            got = to_the_end(sock)
            assert b"alive" not in got and not got.endswith(b"0\r\n\r\n"), got
        assert got == b""  # what was asked goes on without its asker
        assert gateway.http("GET", "/healthz")[0] == 200


def status_from(gateway, *forwarded):
    """The status of an upgrade that comes with these lines of X-Forwarded-For, and the connection."""
    wire = Wire(gateway, headers={"X-Forwarded-For": list(forwarded)})
    return wire.status, wire


def test_address_is_what_a_trusted_proxy_says():
    config = {"trusted_proxies": ["127.0.0.1", "10.0.0.0/8"], "limits": {"connections_per_address": 1}}
    with Gateway(config) as gateway:
        kept = []

        def takes(*forwarded):
            status, wire = status_from(gateway, *forwarded)
            kept.append(wire)
            return status == 101

        assert takes("203.0.113.7")
        assert not takes("203.0.113.7")
        assert not takes("198.51.100.1, 203.0.113.7")  # what a client claims in front counts nothing
        assert not takes("203.0.113.7, 10.1.2.3")      # a second proxy of ours stands between
        assert not takes("203.0.113.7,10.1.2.3 , 10.9.9.9")
        assert takes("203.0.113.8")
        assert takes("2001:db8::1")
        assert not takes("2001:0db8:0::1")
        assert takes("nonsense")  # somebody whom the proxy does not name: all of those are one
        assert not takes("198.51.100.1, nonsense")
        assert takes("127.0.0.1")  # and not the proxy
        for wire in kept:
            wire.close()
        assert gateway.http("GET", "/metrics")[0] == 200
        assert gateway.http("GET", "/metrics", headers={"X-Forwarded-For": "203.0.113.7"})[0] == 403


def let_in(gateway, kept, forwarded):
    """Whether a client from there is welcome now; kept holds its connection."""
    try:
        kept.enter_context(Client(gateway, headers={"X-Forwarded-For": forwarded}.items()))
    except Refused as refused:
        assert refused.status == 503
        return False
    return True


def test_g22_every_spelling_of_an_address_behind_a_proxy_is_one():
    """Ports, brackets, chains and mapped addresses make neither one client of all, nor a client of each connection."""
    config = {"trusted_proxies": ["127.0.0.1", "10.0.0.0/8"], "limits": {"connections_per_address": 3}}
    groups = (["203.0.113.7", "203.0.113.7:4711", "[::ffff:203.0.113.7]:1", "::ffff:203.0.113.7", "9.9.9.9, 203.0.113.7:9"],
              ["2001:db8::7", "[2001:db8::7]", "[2001:db8::7]:4711", "2001:db8:0::7, 10.1.2.3", "2001:DB8::7"],
              ["203.0.113.8:1", "203.0.113.8:2", "203.0.113.8:3", "203.0.113.8:4"])
    with Gateway(config) as gateway, contextlib.ExitStack() as kept:
        for group in groups:
            assert [let_in(gateway, kept, one) for one in group] == [True] * 3 + [False] * (len(group) - 3), group


def test_frames_of_a_face_behind_a_proxy_are_paced_by_the_client_s_address():
    """Until the peer is identified; the head that names it is gone by then."""
    config = {"trusted_proxies": ["127.0.0.1"], "limits": {"requests_per_second": 1, "burst": 8}}
    with Gateway(config) as gateway, contextlib.ExitStack() as kept:
        def answers(forwarded):
            wire = Wire(gateway, path="/v1/ai", headers={"X-Forwarded-For": forwarded})
            kept.callback(wire.close)

            def ask():
                wire.send(frame(TEXT, b'{"chatId":"c","requestId":"r","type":"reconnect"}'))
                return b"too many" in wire.recv()[1]

            return ask

        hasty, other = answers("203.0.113.7"), answers("203.0.113.8")
        wait_until(hasty, "a refusal")
        assert not other()


def test_addresses_of_one_ipv6_network_are_one():
    config = {"trusted_proxies": ["127.0.0.1"], "limits": {"connections_per_address": 2}}
    near = ["2001:db8:1:2::1", "2001:db8:1:2:ffff::", "2001:db8:1:2:a:b:c:d", "[2001:db8:1:2::9]:80"]
    with Gateway(config) as gateway, contextlib.ExitStack() as kept:
        seen = [let_in(gateway, kept, one) for one in (*near, "2001:db8:1:3::1", "2001:db8:1:1::1")]
        assert seen == [True, True, False, False, True, True]
        assert gateway.logged("event=opened", "peer=2001:db8:1:2:ffff::").endswith(":ffff::")  # all of it


def test_ipv6_prefix_says_how_much_of_an_address_counts():
    for bits, expected in ((56, [True, False, True]), (128, [True, True, True])):
        config = {"trusted_proxies": ["127.0.0.1"], "limits": {"ipv6_prefix": bits, "connections_per_address": 1}}
        with Gateway(config) as gateway, contextlib.ExitStack() as kept:
            seen = [let_in(gateway, kept, one) for one in ("2001:db8:1:1::1", "2001:db8:1:ff::2", "2001:db8:1:100::3")]
            assert seen == expected, bits


def test_nobody_else_is_believed():
    with Gateway({"limits": {"connections_per_address": 1}}) as gateway:
        status, wire = status_from(gateway, "203.0.113.7")
        assert status == 101
        assert status_from(gateway, "203.0.113.8")[0] == 503
        wire.close()
        assert gateway.http("GET", "/metrics", headers={"X-Forwarded-For": "127.0.0.1"})[0] == 403


def test_guests_behind_a_proxy_have_a_quota_each():
    config = {"trusted_proxies": ["127.0.0.1"], "limits": {"tasks_per_owner": 1}}
    with Gateway(config) as gateway:
        def guest(address):
            return Client(gateway, headers={"X-Forwarded-For": address}.items())

        with guest("203.0.113.7") as one, guest("203.0.113.7") as same, guest("203.0.113.8") as other:
            task = one.chat({"hang": 1})
            assert same.refused("overloaded", "chat", message="x")["message"] == "too many tasks of all guests of this address"
            other.finish("x")
            one.call("cancel", **ids(task))
            one.wait_terminal(task)
            same.finish("x")


def test_guests_are_made_at_the_pace_of_their_ipv6_network():
    config = {"trusted_proxies": ["127.0.0.1"], "limits": {"requests_per_second": 1, "burst": 8}}
    with Gateway(config) as gateway:
        def make(n, network=2):
            return gateway.http("POST", "/v1/guest", headers={"X-Forwarded-For": f"2001:db8:1:{network}::{n:x}"})[0]

        statuses = [make(n) for n in range(100)]  # which takes less than 90 s, so that 429 is among them
        assert statuses[:8] == [200] * 8 and 429 in statuses
        assert make(1, network=3) == 200


def test_guests_of_one_ipv6_network_share_a_quota():
    config = {"trusted_proxies": ["127.0.0.1"], "limits": {"tasks_per_owner": 1}}
    with Gateway(config) as gateway:
        def guest(address):
            return Client(gateway, headers={"X-Forwarded-For": address}.items())

        with guest("2001:db8:1:2::1") as one, guest("2001:db8:1:2:3::4") as same, guest("2001:db8:1:3::1") as other:
            task = one.chat({"hang": 1})
            same.refused("overloaded", "chat", message="x")
            other.finish("x")
            _, answer = Api(gateway).ask("POST", "/conversations/c/tasks", {"message": "x"}, X_Forwarded_For="2001:db8:1:2:5::1")
            assert answer["error"]["code"] == "overloaded"
            one.call("cancel", **ids(task))
            one.wait_terminal(task)
            same.finish("x")
