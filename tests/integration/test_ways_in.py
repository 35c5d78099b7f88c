"""Every way in checks the same: tokens by each of them, origins and hosts on each path (F63, F66)."""

import hashlib
import hmac
import json
import re
import time

import pytest

import tokens
from gateway import Gateway
from holdfast import Client, new_id
from test_hello import BAD_TOKENS, ORIGINS, WRONG
from wire import Wire

SITE = "https://chat.example"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def keyed(tmp_path_factory):
    """A gateway with an HS256 and an RS256 key, and a cookie of its site."""
    folder = tmp_path_factory.mktemp("keys")
    rsa = tokens.Rsa(folder)
    auth = tokens.config(folder, cookie="session")
    auth["keys"].append({"kid": "k2", "alg": "RS256", "public_key_file": str(rsa.public)})
    with Gateway({"auth": auth, "origins": [SITE]}) as gateway:
        gateway.rsa = rsa
        with Client(gateway, token=tokens.token("alice")) as client:
            gateway.task, _ = client.finish("secret", conversation="c")
        yield gateway


MORE_WRONG = {
    "hs256_by_public_key_without_kid": lambda k: tokens.hs256(claims(), k.rsa.public.read_bytes()),
    "other_signature": lambda k: ".".join(tokens.token("alice").split(".")[:2] + [tokens.token("bob").split(".")[2]]),
    "other_payload": lambda k: ".".join([tokens.token("alice").split(".")[0], tokens.part({**claims(), "x": 1}),
                                         tokens.token("alice").split(".")[2]]),
    "no_alg": lambda k: tokens.part({"typ": "JWT", "kid": "k1"}) + "." + ".".join(tokens.token("alice").split(".")[1:]),
    "plain_base64": lambda k: tokens.token("alice").replace("-", "+").replace("_", "/") + "=",
    "inner_padding": lambda k: "=.".join(tokens.token("alice").split(".")),
    "empty_parts": lambda k: "..",
    "only_dots": lambda k: "....",
    "deep_payload_that_is_signed": lambda k: signed_raw(b"[" * 20000),
    "deep_claim_that_is_signed": lambda k: signed_raw(
        json.dumps(claims())[:-1].encode() + b',"x":' + b"[" * 5000 + b"]" * 5000 + b"}"),
    "two_subs_that_are_signed": lambda k: signed_raw(
        b'{"sub":"bob","sub":"alice","exp":%d}' % (time.time() + 60)),
}
BAD = {**{name: lambda k, make=make: make(tokens.token("alice")) for name, make in BAD_TOKENS.items()
        if name != "empty"}, **WRONG, **MORE_WRONG}


def claims():
    return {"sub": "alice", "exp": int(time.time()) + 60}


def signed_raw(payload):
    head = tokens.part({"alg": "HS256", "kid": "k1"}) + "." + tokens.b64(payload)
    return head + "." + tokens.b64(hmac.new(tokens.SECRET, head.encode(), hashlib.sha256).digest())


def closed_with_4401(gateway, line, **headers):
    with Wire(gateway, headers={"Origin": SITE, **headers}) as wire:
        if wire.status != 101:
            return wire.status in (400, 401, 403)
        wire.text(json.dumps({"type": "hello", "id": "h", **line}) + "\n"
                  + json.dumps({"type": "task", "id": "t", "task_id": gateway.task["task_id"], "conversation_id": "c"}))
        seen = b""
        while (found := wire.recv()) is not None:
            seen += found[1]
            if found[0] == 8:
                assert b"secret" not in seen and b'"welcome"' not in seen, seen
                return int.from_bytes(found[1][:2], "big") == 4401
    return False


@pytest.mark.parametrize("kind", BAD)
def test_wrong_token_is_refused_by_each_way_in(keyed, kind):  # F63
    token = BAD[kind](keyed)
    fits = len(token) < 4000  # a header's; the message may have more
    assert closed_with_4401(keyed, {"token": token})
    if fits:
        assert closed_with_4401(keyed, {}, Authorization=f"Bearer {token}")
        assert closed_with_4401(keyed, {}, Cookie=f"session={token}")
        path = f"/v1/conversations/c/tasks/{keyed.task['task_id']}"
        for identity in ({"Authorization": f"Bearer {token}"}, {"Cookie": f"session={token}", "Origin": SITE}):
            for method, tail, body in (("GET", "", None), ("GET", "/events", None), ("DELETE", "", None),
                                       ("POST", "/messages", '{"content":"x"}')):
                status, _, answer = keyed.http(method, path + tail, body, {**identity, **JSON})
                assert (status, json.loads(answer)["error"]["code"]) == (401, "unauthorized"), (method, tail)
                assert token[:40] not in answer.decode() or len(token) < 8


def test_right_token_is_taken_by_each_way_in(keyed):  # F63: else the above shows nothing
    token = tokens.token("alice")
    path = f"/v1/conversations/c/tasks/{keyed.task['task_id']}"
    for headers in ({"Authorization": f"Bearer {token}"}, {"Cookie": f"session={token}", "Origin": SITE}):
        assert keyed.http("GET", path, headers=headers)[0] == 200
        with Client(keyed, headers=headers, hello=False) as client:
            assert client.call("hello")["owner"] == "alice"


def test_cookie_reads_over_http_without_an_origin(keyed):
    """As a page of the same site does, EventSource above all; whatever changes something needs one."""
    cookie = {"Cookie": f"session={tokens.token('alice')}"}
    path = f"/v1/conversations/c/tasks/{keyed.task['task_id']}"
    for tail in ("", "/events"):
        assert keyed.http("GET", path + tail, headers=cookie)[0] == 200
        status, _, answer = keyed.http("GET", path + tail, headers={**cookie, "Origin": "https://evil.test"})
        assert status == 403 and keyed.task["task_id"] not in answer.decode()
    for method, tail, body in (("DELETE", "", None), ("POST", "/messages", '{"content":"x"}')):
        assert keyed.http(method, path + tail, body, {**cookie, **JSON})[0] == 403
        assert keyed.http(method, path + tail, body, {**cookie, **JSON, "Origin": SITE})[0] in (200, 409)


def test_tokens_stay_out_of_the_log(keyed):  # Spares
    token = tokens.token("carol", seconds=-3600)
    closed_with_4401(keyed, {"token": token})
    closed_with_4401(keyed, {}, Authorization=f"Bearer {token}")
    keyed.http("GET", f"/v1/conversations?token={token}", headers={"Authorization": f"Bearer {token}"})
    keyed.http("GET", f"/v1/ws?token={token}")
    keyed.stop()
    log = "\n".join(keyed.log)  # whole
    keyed.start()
    assert "event=refused" in log
    assert token not in log and token.split(".")[2] not in log and token.split(".")[1] not in log


def test_empty_origin_is_a_foreign_one(keyed):  # F66
    for origin, status in (("", 403), (None, 200)):
        for path in ("/v1/conversations", "/healthz", "/"):
            headers = {"Authorization": f"Bearer {tokens.token('alice')}", **({} if origin is None else {"Origin": origin})}
            assert keyed.http("GET", path, headers=headers)[0] == status, path
    with Wire(keyed, headers={"Origin": "", "Cookie": f"session={tokens.token('alice')}"}) as wire:
        assert wire.status == 403
    assert closed_with_4401(keyed, {}, Origin=None, Cookie=f"session={tokens.token('alice')}")  # the cookie counts not


# ------------------------------------------------------------------ origins and hosts


def test_refused_origin_is_told_in_the_log():
    """A page learns nothing of it from its browser: whoever runs the gateway must hear that origins lack something."""
    with Gateway() as gateway:
        for headers, why in (({"Origin": "http://localhost:5173"}, "foreign origin"), ({"Host": "a.test"}, "foreign host")):
            assert gateway.http("GET", "/v1/conversations", headers=headers)[0] == 403
            gateway.logged("component=http", "event=refused", f'why="{why}"')

PATHS = [("GET", "/"), ("GET", "/v1/conversations"), ("POST", "/v1/guest"), ("DELETE", "/v1/conversations/c"),
         ("POST", "/v1/conversations/c/tasks")]


@pytest.mark.parametrize("kind", [kind for kind, (_, status) in ORIGINS.items() if status == 403])
def test_foreign_origin_reaches_no_path(gateway, client, kind):  # F66
    origin = ORIGINS[kind][0](gateway)
    for method, path in PATHS:
        lines = [f"{method} {path} HTTP/1.1", f"Host: {gateway.host}:{gateway.port}", "Connection: close",
                 f"Authorization: Bearer {client.token}", "Content-Type: application/json", "Content-Length: 15"]
        lines += [f"Origin: {one}" for one in ([origin] if isinstance(origin, str) else origin)]
        with Wire(gateway, upgrade=False) as wire:
            wire.send(("\r\n".join(lines) + '\r\n\r\n{"message":"x"}').encode())
            while wire._more():
                pass
            answer = bytes(wire.buffer).decode("latin-1")
        assert " 403 " in answer.split("\r\n")[0], (method, path, answer[:200])
        assert "access-control-allow-origin" not in answer.lower()
        # Unreadable, and yet an answer: a page can tell it from a gateway that is not there (PROTOCOL.md, section 1).
        assert "cross-origin-resource-policy: cross-origin" in answer.lower()
    assert client.call("conversations")["conversations"] == []


def test_what_is_served_is_for_its_own_origin_alone(gateway):
    for path in ("/", "/healthz", "/v1/conversations"):
        assert gateway.http("GET", path)[1]["cross-origin-resource-policy"] == "same-origin", path


# Headers that stock libraries set by themselves, according to their sources: eventsource 2 and launchdarkly-eventsource 2 (Accept,
# Cache-Control, Last-Event-ID), eventsource 4, eventsource-client 1, extended-eventsource 2 and sse.js 2
# (Last-Event-ID), event-source-polyfill 1 and fetch-event-source 2 (Accept), axios 1 and ky 1 (Accept, Content-Type);
# jQuery 4 sets X-Requested-With for its own site alone, which pages copy, as they do Pragma; openai 7 (OpenAI-…,
# User-Agent, X-Stainless-…), @a2a-js/sdk 1.3 and @modelcontextprotocol/sdk 1.32 (those of their
# protocols); and what the API wants.
SET_BY_OPENAI = ("openai-organization", "openai-project", "user-agent",
                 *(f"x-stainless-{what}" for what in ("arch", "helper-method", "lang", "os", "package-version",
                                                      "retry-count", "runtime", "runtime-version", "timeout")))
SET_BY_LIBRARIES = ("accept", "cache-control", "last-event-id", "pragma", "x-requested-with", "authorization",
                    "content-type", "idempotency-key", *SET_BY_OPENAI,
                    "a2a-version", "a2a-extensions", "mcp-session-id", "mcp-protocol-version")


def allowed_headers(answer):
    line = next(line for line in answer.lower().split("\r\n") if line.startswith("access-control-allow-headers:"))
    return {name.strip() for name in line.partition(":")[2].split(",")}


@pytest.mark.parametrize("path, method", [("/v1/conversations/c/tasks/t/events", "GET"), ("/v1/conversations/c/tasks", "POST"),
                                          ("/v1/conversations/c", "DELETE"), ("/v1/conversations/c", "PATCH")])
@pytest.mark.parametrize("header", SET_BY_LIBRARIES)
def test_g07_preflight_allows_what_stock_libraries_set(keyed, path, method, header):
    status, headers, _ = keyed.http("OPTIONS", path, headers={
        "Origin": SITE, "Access-Control-Request-Method": method, "Access-Control-Request-Headers": header})
    assert status == 204
    assert header in {name.strip() for name in headers["access-control-allow-headers"].lower().split(",")}
    assert method in {name.strip() for name in headers["access-control-allow-methods"].split(",")}


def test_preflight_of_a_listed_origin_is_answered_without_a_length(keyed):
    """RFC 9110 8.6: a 204 has none; the next request on the connection is answered all the same."""
    lines = ["OPTIONS /v1/conversations HTTP/1.1", f"Host: {keyed.host}:{keyed.port}", f"Origin: {SITE}",
             "Access-Control-Request-Method: POST"]
    with Wire(keyed, upgrade=False) as wire:
        wire.send(("\r\n".join(lines) + "\r\n\r\n").encode())
        while b"\r\n\r\n" not in wire.buffer:
            assert wire._more()
        answer = bytes(wire.buffer).decode("latin-1").lower()
        assert answer.startswith("http/1.1 204 ") and answer.endswith("\r\n\r\n")
        assert f"access-control-allow-origin: {SITE}\r\n" in answer
        assert "content-length" not in answer
        assert set(SET_BY_LIBRARIES) <= allowed_headers(answer)
        wire.send(f"GET /healthz HTTP/1.1\r\nHost: {keyed.host}:{keyed.port}\r\nConnection: close\r\n\r\n".encode())
        while wire._more():
            pass
        assert b"HTTP/1.1 200 " in wire.buffer[len(answer):]


@pytest.mark.parametrize("origin,status", [
    (SITE, 101), ("HTTPS://CHAT.EXAMPLE", (101, 403)), (SITE + ":443", (101, 403)), (SITE + "/", (101, 403)),
    ("http://chat.example", 403), ("https://chat.example:8443", 403), ("https://chat.example.evil.test", 403),
    ("https://evil.test/https://chat.example", 403), ("https://sub.chat.example", 403), ("null", 403),
    ([SITE, "https://evil.test"], 403), (["https://evil.test", SITE], 403), (f"{SITE}, https://evil.test", 403),
    ("file://", 403), ("null, null", 403),
])
def test_cookie_is_taken_from_the_exact_origin_alone(keyed, origin, status):  # F66
    cookie = {"Cookie": f"session={tokens.token('alice')}", "Origin": origin}
    with Wire(keyed, headers=cookie) as wire:
        assert wire.status == status or wire.status in (status if isinstance(status, tuple) else ())
        if wire.status == 101:
            wire.text('{"type":"hello","id":"h"}')
            assert re.search('"owner":"alice"', wire.until_text('"welcome"'))
    assert keyed.http("POST", f"/v1/conversations/{new_id()}/tasks", '{"message":"x"}',
                      {"Cookie": cookie["Cookie"], **JSON})[0] in (401, 403)  # none at all
