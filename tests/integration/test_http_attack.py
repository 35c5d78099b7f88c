"""An attacker's HTTP: heads that two readers read in two ways, headers that are too long to be read,
methods and paths that go around a check.  Each must be refused, or mean one thing, and hold nothing."""

import json
import re
import socket

import pytest

import tokens
from gateway import WAIT_S, Gateway
from holdfast import Client, new_id
from test_http_api import JSON, Api
from wire import Wire

BODY = b'{"message":"x"}'
SITE = "https://chat.example"


@pytest.fixture(scope="module")
def keyed(tmp_path_factory):
    """Guests, a key, a cookie, and a proxy on this machine that is believed."""
    auth = tokens.config(tmp_path_factory.mktemp("keys"), cookie="session", audience="here")
    with Gateway({"auth": auth, "guests": True, "origins": [SITE], "trusted_proxies": ["127.0.0.1"]}) as gateway:
        yield gateway


def exchange(gateway, head, body=b""):
    """All that comes back until the gateway hangs up, or until its answer is whole."""
    with socket.create_connection((gateway.host, gateway.port), WAIT_S) as wire:
        wire.sendall(head.encode("latin-1") + b"\r\n" + body)
        got = b""
        while piece := wire.recv(65536):
            got += piece
            length = re.search(rb"content-length: (\d+)", got)
            if length and len(got) >= got.index(b"\r\n\r\n") + 4 + int(length[1]) and b"\r\n\r\n" in got:
                break
        return got


def head_of(gateway, method="POST", path=None, **headers):
    token = tokens.token("alice", aud="here")
    lines = [f"{method} {path or '/v1/conversations/' + new_id() + '/tasks'} HTTP/1.1", f"Host: 127.0.0.1:{gateway.port}",
             f"Authorization: Bearer {token}", "Content-Type: application/json"]
    return "".join(line + "\r\n" for line in lines + [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()])


# ---------------------------------------------------------------- where a body ends


@pytest.mark.parametrize("length", ["+15", "-1", "0x0f", "15a", "15, 15", "15,16", "1e1", "15.0", "\v15", "", "0" * 40 + "15",
                                    "18446744073709551631"])
def test_length_that_is_no_number_is_refused_and_the_connection_ends(keyed, length):
    """Else the body, or what is behind it, would be the next request to one of two readers."""
    got = exchange(keyed, head_of(keyed) + f"Content-Length: {length}\r\n", BODY)
    assert got == b"" or re.match(rb"HTTP/1.1 4(00|13) ", got), got
    with socket.create_connection((keyed.host, keyed.port), WAIT_S) as wire:
        wire.sendall((head_of(keyed) + f"Content-Length: {length}\r\n\r\n").encode("latin-1")
                     + b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        stream = wire.makefile("rb").read()
        assert b"alive" not in stream


def test_blanks_around_a_length_are_none_of_it(keyed):
    for length in ("15", "  15", "15 ", " 15\t "):
        assert exchange(keyed, head_of(keyed) + f"Content-Length:{length}\r\n", BODY).startswith(b"HTTP/1.1 201 "), length


@pytest.mark.parametrize("header", ["Content-Length : 15", "Content-Length\t: 15", "Transfer-Encoding : chunked",
                                    "Content-Length: 15\r\nTransfer-Encoding : chunked",
                                    "Content-Length: 15\r\nContent-Length: " + "0" * 40 + "15"])
def test_header_that_only_some_see_is_refused(keyed, header):
    got = exchange(keyed, head_of(keyed) + header + "\r\n", BODY)
    assert got.startswith(b"HTTP/1.1 400 "), got


@pytest.mark.parametrize("upgrade", ["", "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                                     "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"])
@pytest.mark.parametrize("path", ["/healthz%0d%0aOrigin:https://chat.example", "/healthz%0aX:", "/healthz%0d", "/healthz%0d%0a%0d%0a",
                                  "/v1/conversations%0d%0aCookie:session=x;y=", "/v1/ws%0aHost:127.0.0.1", "/?x=%0d%0aX:"])
def test_encoded_newline_in_a_path_makes_no_header(keyed, path, upgrade):
    """A link would bring its own headers: another's cookie, an Origin."""
    got = exchange(keyed, head_of(keyed, "GET", path) + upgrade)
    assert re.match(rb"HTTP/1.. 400 ", got), got


@pytest.mark.parametrize("path", ["/", "/healthz", "/nowhere", "/v1/conversations", "/v1/nowhere", "/v1/guest"])
def test_answer_to_head_has_no_body(keyed, path):
    """A proxy takes a body there for the next answer, and the next client gets it."""
    with socket.create_connection((keyed.host, keyed.port), WAIT_S) as wire:
        for origin in ("", "Origin: https://evil.example\r\n"):
            wire.sendall((head_of(keyed, "HEAD", path) + origin + "\r\n").encode()
                         + b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            stream = wire.makefile("rb")
            seen = []
            for _ in range(2):
                seen.append(stream.readline())
                while stream.readline().strip():
                    pass
            assert stream.read(6) == b"alive\n"
            assert all(line.startswith(b"HTTP/1.1 ") for line in seen), seen


def test_connect_holds_nothing(keyed):
    """libwebsockets makes a tunnel of it, which no time-out ends."""
    for target in ("127.0.0.1:22", "/v1/conversations"):
        with socket.create_connection((keyed.host, keyed.port), WAIT_S) as wire:
            wire.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            assert wire.recv(65536) == b""


# ---------------------------------------------------------------- what is too long to be read


@pytest.mark.parametrize("n", [129, 1024, 1025, 8000])
def test_long_idempotency_key_is_refused_and_not_left_away(keyed, n):
    """A start without the key that the client has sent is not safe to repeat."""
    c = new_id()
    got = exchange(keyed, head_of(keyed, path=f"/v1/conversations/{c}/tasks", Idempotency_Key="k" * n, Content_Length=15), BODY)
    assert got.startswith(b"HTTP/1.1 400 ") and b"request_key" in got
    api = Api(keyed, tokens.token("alice", aud="here"))
    assert api.ask("GET", f"/conversations/{c}/tasks")[1]["tasks"] == []


def test_long_last_event_id_is_refused_and_not_left_away(keyed):
    api, c = Api(keyed), new_id()
    task = api.chat(c, {"token": "x"})["task_id"]
    for value in ("9" * 30, "9" * 2000, "x" * 2000, "-1"):
        assert api.ask("GET", f"/conversations/{c}/tasks/{task}/events", Last_Event_ID=value)[0] == 400, value


def test_long_argument_does_not_hide_the_others(keyed):
    api = Api(keyed)
    assert api.ask("GET", f"/conversations?x={'a' * 600}&limit=0")[0] == 400
    assert api.ask("GET", f"/conversations?before={'a' * 600}")[0] == 400


def test_head_that_is_too_long_ends_the_connection_and_nothing_else(keyed):
    for name in ("Authorization", "Cookie", "Origin", "X"):
        try:
            got = exchange(keyed, f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n{name}: {'a' * 20480}\r\n")
        except ConnectionError:
            got = b""
        assert got == b"" or got.startswith(b"HTTP/1.1 4"), name
    assert keyed.http("GET", "/healthz")[0] == 200


# ---------------------------------------------------------------- who asks


@pytest.mark.parametrize("forwarded", ["203.0.113.7", "203.0.113.7:4711", "[2001:db8::7]:4711", "unknown", "_hidden", "x" * 3000,
                                       ", ".join(["203.0.113.7"] * 300), "203.0.113.7, unknown", "127.0.0.1", "::1"])
@pytest.mark.parametrize("path", ["/metrics", "/%6detrics", "//metrics", "/./metrics", "/v1/../metrics", "/metrics;x"])
def test_metrics_are_for_nobody_behind_a_proxy_of_this_machine(keyed, gateway, path, forwarded):
    """Any text that a client makes the proxy send; even from a proxy that is not trusted."""
    for through in (keyed, gateway):
        status, _, body = through.http("GET", path, headers={"X-Forwarded-For": forwarded})
        assert status == 403 and b"holdfast_" not in body


def test_metrics_allow_names_networks(tmp_path):
    config = {"trusted_proxies": ["127.0.0.1"], "metrics": {"allow": ["203.0.113.0/24", "2001:db8::/32"]}}
    with Gateway(config) as gateway:
        for address, status in (("203.0.113.7", 200), ("203.0.113.255", 200), ("2001:db8:1::7", 200), ("203.0.114.7", 403),
                                ("203.0.113.7:80", 200), ("127.0.0.1", 403), ("unknown", 403)):
            assert gateway.http("GET", "/metrics", headers={"X-Forwarded-For": address})[0] == status, address
        assert gateway.http("GET", "/metrics")[0] == 200


def test_address_with_a_port_is_the_address():
    config = {"trusted_proxies": ["127.0.0.1"], "limits": {"connections_per_address": 1}}
    with Gateway(config) as gateway:
        with Client(gateway, headers={"X-Forwarded-For": "203.0.113.7:4711"}):
            for again in ("203.0.113.7:4712", "203.0.113.7"):
                assert upgrade_status(gateway, again) == 503
            assert upgrade_status(gateway, "203.0.113.8:4711") == 101


def upgrade_status(gateway, forwarded):
    with Wire(gateway, headers={"X-Forwarded-For": forwarded}) as wire:
        return wire.status


# ---------------------------------------------------------------- cookies


@pytest.mark.parametrize("site, status", [(None, 200), ("same-origin", 200), ("none", 200), ("same-site", 403),
                                          ("cross-site", 403), ("Cross-Site", 403), ("x", 403)])
def test_cookie_serves_a_get_of_its_own_site(keyed, site, status):
    """Browsers send no Origin with a GET of a page's own site, EventSource included (PROTOCOL.md 7)."""
    cookie = {"Cookie": f"session={tokens.token('alice', aud='here')}"}
    headers = {**cookie, **({"Sec-Fetch-Site": site} if site else {})}
    assert keyed.http("GET", "/v1/conversations", headers=headers)[0] == status
    for method, path, body in (("DELETE", "/v1/conversations/c", None), ("POST", "/v1/conversations/c/tasks", BODY),
                               ("PATCH", "/v1/conversations/c", b'{"title":"x"}')):
        assert keyed.http(method, path, body, {**headers, **JSON})[0] == 403
        assert keyed.http(method, path, body, {**headers, **JSON, "Origin": "https://evil.example"})[0] == 403
        assert keyed.http(method, path, body, {**headers, "Content-Type": "text/plain", "Origin": SITE})[0] == 415
        assert keyed.http(method, path, body, {**headers, "Content-Type": "text/plain"})[0] == 403
        assert keyed.http(method, path, body, {**headers, "Origin": SITE})[0] == 415


def test_answers_are_not_for_other_sites_to_embed(keyed):
    for path in ("/", "/v1/conversations", "/healthz", "/nowhere"):
        headers = keyed.http("GET", path)[1]
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin", path
        assert headers["X-Content-Type-Options"] == "nosniff"


# ---------------------------------------------------------------- tokens


ATTACKS = {
    "none": lambda k: tokens.unsigned({"sub": "alice", "aud": "here", "exp": 1 << 32}),
    "public key as a secret": lambda k: tokens.hs256({"sub": "alice", "aud": "here", "exp": 1 << 32},
                                                     k.public.read_bytes(), kid="k2"),
    "kid is a path": lambda k: tokens.token("alice", aud="here", kid="../../../../dev/null"),
    "kid is long": lambda k: tokens.token("alice", aud="here", kid="k" * 4096),
    "kid is a list": lambda k: tokens.token("alice", aud="here", kid=["k1"]),
    "another audience": lambda k: tokens.token("alice", aud="there"),
    "no audience": lambda k: tokens.token("alice"),
    "expired by 31 s": lambda k: tokens.token("alice", seconds=-31, aud="here"),
    "no exp": lambda k: tokens.hs256({"sub": "alice", "aud": "here"}, kid="k1"),
    "exp is a text": lambda k: tokens.hs256({"sub": "alice", "aud": "here", "exp": "4000000000"}, kid="k1"),
    "exp is null": lambda k: tokens.hs256({"sub": "alice", "aud": "here", "exp": None}, kid="k1"),
    "not yet": lambda k: tokens.token("alice", aud="here", nbf=1 << 33),
    "sub is a list": lambda k: tokens.token(["alice"], aud="here"),
    "sub has a NUL": lambda k: tokens.token("alice\0", aud="here"),
    "a guest's sub": lambda k: tokens.token("guest-0123456789", aud="here"),
    "crit": lambda k: tokens.hs256({"sub": "alice", "aud": "here", "exp": 1 << 32}, kid="k1", crit=["exp"]),
    "nested": lambda k: tokens.hs256({"jwt": tokens.token("alice", aud="here")}, kid="k1", cty="JWT"),
    "embedded key": lambda k: tokens.hs256({"sub": "alice", "aud": "here", "exp": 1 << 32}, b"x" * 40,
                                           jwk={"kty": "oct", "k": tokens.b64(b"x" * 40)}, jku="https://evil.example/k"),
    "20 KiB": lambda k: tokens.token("alice", aud="here", pad="x" * 20480),
    "another secret": lambda k: tokens.token("alice", secret=b"another secret of thirty-two bytes and more", aud="here"),
    "rubbish": lambda k: "rubbish",
    "empty": lambda k: "",
}


def test_attacks_on_tokens_are_refused_alike(keyed, tmp_path):
    """The same bytes for all, on both transports: what is wrong stands in the log alone."""
    rsa, over_http, over_websocket = tokens.Rsa(tmp_path), {}, {}
    for name, make in ATTACKS.items():
        token = make(rsa)
        with Client(keyed, hello=False) as client:
            client.post("hello", id="h", token=token)
            client.closing()
            over_websocket[name] = "\n".join(client.raw), client.closing().code
        if len(token) < 12000:
            status, headers, body = keyed.http("GET", "/v1/conversations", headers={"Authorization": f"Bearer {token}"})
            over_http[name] = status, sorted(headers.items()), body
    assert len({str(answer) for answer in over_websocket.values()}) == 1, over_websocket
    assert len({str(answer) for answer in over_http.values()}) == 1, over_http
    assert over_http["none"][0] == 401 and over_websocket["none"][1] == 4401
    assert json.loads(over_http["none"][2])["error"]["message"] == json.loads(over_websocket["none"][0])["message"]


def test_log_says_what_was_wrong_with_a_token():
    with Gateway() as gateway:
        gateway.http("GET", "/v1/conversations", headers={"Authorization": "Bearer a.b.c"})
        gateway.stop()
        assert [line for line in gateway.log if "component=auth event=refused why=" in line]
        gateway.start()
