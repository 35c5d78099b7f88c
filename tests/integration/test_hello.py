"""hello: who one is, who may connect, and what may not come before it (PROTOCOL.md 1, 2)."""

import json
import time

import pytest

import tokens
from gateway import Gateway, run
from holdfast import Client, Closed, Refused, new_id
from wire import Wire


def refused_hello(gateway, token, **options):
    """A connection that brings a bad token: its error, after checking that it closed with 4401."""
    with Client(gateway, hello=False, **options) as client:
        fields = {} if token is None else {"token": token}
        error = client.refused("unauthorized", "hello", **fields)
        assert client.closing().code == 4401
        return error


# ------------------------------------------------------------------ guests


def test_welcome_says_who_what_and_how_much(gateway):
    with Client(gateway, hello=False) as client:
        reply = client.call("hello", client={"name": "test", "version": "1"})
        assert list(reply)[:2] == ["type", "id"]
        assert reply["owner"].startswith("guest-")
        assert reply["token"].count(".") == 2
        assert reply["server"] == {"name": "holdfast", "version": gateway.version}
        assert [(a["name"], a["default"]) for a in reply["agents"]] == [("script", True)]
        assert reply["limits"]["message_bytes"] == 65536
        assert reply["limits"]["heartbeat_ms"] == 20000
        assert reply["limits"]["tasks_per_owner"] == 5000


def test_agent_suggests_its_examples():
    agents = [{"name": "a", "kind": "react", "examples": ["What is new?", "Say \"hi\""]},
              {"name": "b", "kind": "react"}]
    with Gateway({"agents": agents}) as gateway, Client(gateway, hello=False) as client:
        told = {agent["name"]: agent.get("examples") for agent in client.call("hello")["agents"]}
    assert told == {"a": ["What is new?", "Say \"hi\""], "b": None}


def test_guest_without_token_is_new_each_time(clients):
    assert clients().owner != clients().owner


def test_guest_token_brought_back_is_the_same_guest(clients):
    first = clients()
    task, _ = first.finish("hello")
    again = clients(token=first.token)
    assert again.owner == first.owner
    assert again.task(task) == task


def test_guest_token_survives_a_restart():
    with Gateway() as gateway:
        with Client(gateway) as client:
            owner, token = client.owner, client.token
        gateway.kill()
        gateway.start()
        with Client(gateway, token=token) as client:
            assert client.owner == owner


def test_guest_token_in_the_authorization_header(gateway, clients):
    first = clients()
    again = clients(headers={"Authorization": f"Bearer {first.token}"})
    assert again.owner == first.owner


def test_hello_token_counts_before_the_header(clients):
    first, second = clients(), clients()
    both = clients(token=first.token, headers={"Authorization": f"Bearer {second.token}"})
    assert both.owner == first.owner


def test_bad_hello_token_is_not_skipped_for_a_good_header(gateway, client):
    refused_hello(gateway, "rubbish", headers={"Authorization": f"Bearer {client.token}"})


def test_bad_header_is_not_skipped_for_guest(gateway):
    refused_hello(gateway, None, headers={"Authorization": "Bearer rubbish"})


def altered(token, **claims):
    """The same token with other claims under the old signature."""
    head, _, signature = token.split(".")
    return ".".join([head, tokens.part({**tokens.claims_of(token), **claims}), signature])


BAD_TOKENS = {
    "empty": lambda t: "",
    "garbled": lambda t: "rubbish",
    "two_parts": lambda t: t.rsplit(".", 1)[0],
    "four_parts": lambda t: t + ".x",
    "no_signature": lambda t: t.rsplit(".", 1)[0] + ".",
    "flipped_signature": lambda t: t[:-10] + ("A" if t[-10] != "A" else "B") + t[-9:],
    "other_subject": lambda t: altered(t, sub="guest-somebody-else"),
    "later_expiry": lambda t: altered(t, exp=int(time.time()) + 10**8),
    "alg_none": lambda t: tokens.unsigned(tokens.claims_of(t)),
    "alg_None": lambda t: tokens.unsigned(tokens.claims_of(t), "None"),
    "alg_NONE_signed": lambda t: tokens.unsigned(tokens.claims_of(t), "NONE") + "abcd",
    "foreign_key": lambda t: tokens.hs256(tokens.claims_of(t), b"another key, also long enough!!!"),
    "deep_payload": lambda t: ".".join([t.split(".")[0], tokens.b64(b"[" * 20000), t.split(".")[2]]),
    "not_utf8": lambda t: ".".join([t.split(".")[0], tokens.b64(b"\xff\xfe"), t.split(".")[2]]),
}


@pytest.mark.parametrize("kind", BAD_TOKENS)
def test_bad_token_never_falls_back_to_guest(gateway, client, kind):  # F63
    error = refused_hello(gateway, BAD_TOKENS[kind](client.token))
    assert client.token not in json.dumps(error)
    assert error["message"] == "unknown guest"  # without keys, whoever brings it may start anew as one


def test_token_of_wrong_type_names_the_field(gateway):
    with Client(gateway, hello=False) as client:
        reply = client.ask("hello", token=7)
        assert reply["type"] == "error"
        assert reply["code"] in ("bad_request", "unauthorized")
        assert "token" in reply["message"]


# ------------------------------------------------------------------ before hello


@pytest.mark.parametrize("type,fields", [
    ("chat", {"message": "x"}), ("ping", {}), ("conversations", {}), ("cancel", {}), ("nonsense", {}),
])
def test_another_type_before_hello_is_unauthorized(gateway, type, fields):
    with Client(gateway, hello=False) as client:
        client.refused("unauthorized", type, **fields)
        assert client.closing().code == 4401


def test_hello_and_resume_in_one_message(gateway, clients):
    first = clients()
    task, events = first.finish("hello")
    with Client(gateway, hello=False) as client:
        client.send(
            {"type": "hello", "id": "h", "token": first.token},
            {"type": "resume", "id": "r", "task_id": task["task_id"],
             "conversation_id": task["conversation_id"]})
        assert client.reply("h")["owner"] == first.owner
        assert client.reply("r")["head"] == len(events)
        client.expect_type("caught_up")
        assert client.events_since(task) == events


def test_second_hello_of_the_same_guest_is_welcome(client):
    task = client.chat("hello")
    reply = client.call("hello", token=client.token)
    assert (reply["type"], reply["owner"]) == ("welcome", client.owner)
    client.wait_terminal(task)


def test_second_hello_of_another_owner_is_unauthorized(client, clients):
    other = clients()
    client.refused("unauthorized", "hello", token=other.token)
    assert client.closing().code == 4401


def test_second_hello_without_token_is_unauthorized(client):
    client.refused("unauthorized", "hello")
    assert client.closing().code == 4401


# ------------------------------------------------------------------ the transport


def test_subprotocol_is_chosen(gateway):
    with Client(gateway, subprotocols=("other", "holdfast.v1")) as client:
        assert client.ws.subprotocol == "holdfast.v1"


def test_no_subprotocol_offered_is_served(gateway):
    with Client(gateway, subprotocols=()) as client:
        assert client.finish("hello")[0]["status"] == "completed"


def test_other_subprotocols_alone_are_refused(gateway):
    with pytest.raises((Refused, Closed)):
        with Client(gateway, hello=False, subprotocols=("holdfast.v2", "graphql-ws")) as client:
            client.call("hello")


@pytest.mark.parametrize("offer, status", [
    ("holdfast.v1, " + "x" * 113, 101), ("holdfast.v1, " + "x" * 114, 400),  # 126 bytes, and 127
    ("x" * 62 + ", holdfast.v1", 101), ("x" * 63 + ", holdfast.v1", 400),
    ("holdfast.v1, " + "x" * 4000, 400), ("x" * 4000 + ", holdfast.v1", 400),
])
def test_long_list_of_subprotocols_is_refused_in_words(gateway, offer, status):
    with Wire(gateway, headers={"Sec-WebSocket-Protocol": offer}) as wire:
        assert wire.status == status


def test_another_path_is_not_the_websocket(gateway):
    with pytest.raises((Refused, Closed)):
        Client(gateway, path="/v1/other")


def test_binary_message_is_bad_request(client):
    client.send_binary(b'{"type":"ping","id":"b"}')
    error = client.expect_type("error")
    assert error["code"] == "bad_request"
    client.quiet()


def test_binary_message_before_hello_is_refused(gateway):
    with Client(gateway, hello=False) as client:
        client.send_binary(b'{"type":"hello","id":"b"}')
        assert client.expect_type("error")["code"] in ("bad_request", "unauthorized")


# ------------------------------------------------------------------ Origin and Host (F66)

ORIGINS = {
    "same": (lambda g: f"http://{g.host}:{g.port}", 101),
    "absent": (lambda g: None, 101),
    "other_host": (lambda g: "http://evil.test", 403),
    "other_port": (lambda g: f"http://{g.host}:{g.port + 1}", 403),
    "no_port": (lambda g: f"http://{g.host}", 403),
    "as_prefix": (lambda g: f"http://{g.host}:{g.port}.evil.test", 403),
    "as_user": (lambda g: f"http://{g.host}:{g.port}@evil.test", 403),
    "null": (lambda g: "null", 403),
    "empty": (lambda g: "", 403),
    "blank": (lambda g: "  ", 403),
    "two": (lambda g: [f"http://{g.host}:{g.port}", "http://evil.test"], 403),
    "two_reversed": (lambda g: ["http://evil.test", f"http://{g.host}:{g.port}"], 403),
    "rubbish": (lambda g: "http//%%", 403),
}


@pytest.mark.parametrize("kind", ORIGINS)
def test_origin_must_be_that_of_the_host(gateway, kind):
    origin, status = ORIGINS[kind]
    with Wire(gateway, headers={"Origin": origin(gateway)}) as wire:
        assert wire.status == status


HOSTS = {
    "127.0.0.1": 101, "localhost": 101, "LOCALHOST": 101, "[::1]": 101, "127.0.0.2": 101,
    "evil.test": 403, "127.0.0.1.evil.test": 403, "localhost.evil.test": 403, "10.0.0.1": 403,
}


@pytest.mark.parametrize("host", HOSTS)
def test_host_must_be_loopback_on_a_loopback_bind(gateway, host):
    with Wire(gateway, headers={"Host": f"{host}:{gateway.port}"}) as wire:
        assert wire.status == HOSTS[host]


def test_rebound_name_is_refused_also_with_its_own_origin(gateway):
    headers = {"Host": f"evil.test:{gateway.port}", "Origin": f"http://evil.test:{gateway.port}"}
    with Wire(gateway, headers=headers) as wire:
        assert wire.status == 403
    status, _, _ = gateway.http("GET", "/", headers=headers)
    assert status == 403


def test_host_beyond_loopback_must_be_one_that_is_configured():
    """A web page of evil.test, whose name was bound to the gateway's address, sends its own Host."""
    with Gateway({"guests": True, "hosts": ["gateway.internal"]}, listen="0.0.0.0:0") as gateway:
        gateway.host = "127.0.0.1"
        for host, status in (("gateway.internal", 101), ("evil.test", 403), (f"127.0.0.1:{gateway.port}", 101)):
            with Wire(gateway, headers={"Host": host}) as wire:
                assert wire.status == status, host
            headers = {"Host": host, "Origin": f"http://{host}"}
            assert gateway.http("POST", "/v1/guest", headers=headers)[0] == (200 if status == 101 else 403), host
        assert not [line for line in gateway.log if "rebinding" in line]


def test_guests_beyond_loopback_without_a_name_are_warned_of(tmp_path):
    for config, listen, warns in (({"guests": True}, "0.0.0.0:0", True), ({"guests": True}, "127.0.0.1:0", False),
                                  ({"guests": True, "origins": ["https://chat.example"]}, "0.0.0.0:0", False)):
        path = tmp_path / "config.json"
        path.write_text(json.dumps({**config, "listen": listen}))
        done = run("check-config", str(path))
        assert (done.returncode, "good" in done.stdout, "rebinding" in done.stderr) == (0, True, warns), done
        with Gateway(config, listen=listen) as gateway:
            assert sum("event=doubtful" in line and "rebinding" in line for line in gateway.log) == int(warns)


def test_configured_origins_are_exact():
    with Gateway({"origins": ["https://chat.example"]}) as gateway:
        def status_of(origin, host=None):
            headers = {"Origin": origin, **({"Host": host} if host else {})}
            with Wire(gateway, headers=headers) as wire:
                return wire.status

        assert status_of("https://chat.example") == 101
        assert status_of("https://chat.example", "chat.example") == 101  # a host of origins
        assert status_of("http://chat.example") == 403
        assert status_of("https://chat.example:8443") == 403
        assert status_of("https://chat.example.evil.test") == 403
        assert status_of(f"http://{gateway.host}:{gateway.port}") == 403
        assert status_of(None) == 101


# ------------------------------------------------------------------ keys


@pytest.fixture(scope="module")
def keyed(tmp_path_factory):
    """A gateway with an HS256 key k1 and an RS256 key k2, hence without guests."""
    folder = tmp_path_factory.mktemp("keys")
    rsa = tokens.Rsa(folder)
    auth = tokens.config(folder)
    auth["keys"].append({"kid": "k2", "alg": "RS256", "public_key_file": str(rsa.public)})
    with Gateway({"auth": auth}) as gateway:
        gateway.rsa = rsa
        yield gateway


def test_keys_token_gives_the_owner(keyed):
    with Client(keyed, token=tokens.token("alice")) as client:
        assert client.owner == "alice"
        assert "token" not in client.welcome


def test_keys_rs256_token_gives_the_owner(keyed):
    token = keyed.rsa.rs256({"sub": "bob", "exp": int(time.time()) + 60}, kid="k2")
    with Client(keyed, token=token) as client:
        assert client.owner == "bob"


def test_keys_without_token_is_unauthorized(keyed):
    refused_hello(keyed, None)


def test_keys_leeway_is_thirty_seconds(keyed):
    with Client(keyed, hello=False) as client:
        assert client.call("hello", token=tokens.token("alice", seconds=-15))["owner"] == "alice"
    refused_hello(keyed, tokens.token("alice", seconds=-45))


@pytest.mark.parametrize("exp", [2**53 - 1, 10**19, 1e300])
def test_keys_token_that_expires_after_all_clocks_never_does(keyed, exp):
    with Client(keyed, token=tokens.hs256({"sub": "alice", "exp": exp}, kid="k1")) as client:
        client.call("ping")
        assert [line["type"] for line in client.log] == ["welcome", "pong"]


def now():
    return int(time.time())


WRONG = {
    "expired": lambda k: tokens.token("alice", seconds=-3600),
    "no_exp": lambda k: tokens.hs256({"sub": "alice"}, kid="k1"),
    "exp_is_text": lambda k: tokens.hs256({"sub": "alice", "exp": str(now() + 60)}, kid="k1"),
    "no_sub": lambda k: tokens.hs256({"exp": now() + 60}, kid="k1"),
    "empty_sub": lambda k: tokens.token(""),
    "long_sub": lambda k: tokens.token("a" * 256),
    "sub_is_number": lambda k: tokens.token(7),
    "guest_sub": lambda k: tokens.token("guest-0123456789"),
    "not_yet": lambda k: tokens.token("alice", nbf=now() + 3600),
    "unknown_kid": lambda k: tokens.token("alice", kid="k9"),
    "kid_of_the_other_algorithm": lambda k: tokens.token("alice", kid="k2"),
    "hs256_by_public_key": lambda k: tokens.token("alice", secret=k.rsa.public.read_bytes(), kid="k2"),
    "rs256_under_k1": lambda k: k.rsa.rs256({"sub": "alice", "exp": now() + 60}, kid="k1"),
    "none": lambda k: tokens.unsigned({"sub": "alice", "exp": now() + 60}),
    "alg_is_array": lambda k: tokens.hs256({"sub": "alice", "exp": now() + 60}, alg=["HS256"], kid="k1"),
    "hs512": lambda k: tokens.hs256({"sub": "alice", "exp": now() + 60}, alg="HS512", kid="k1"),
    "padded": lambda k: tokens.token("alice") + "==",
    "critical": lambda k: tokens.hs256({"sub": "alice", "exp": now() + 60}, kid="k1", crit=["b64"], b64=True),
}


@pytest.mark.parametrize("kind", WRONG)
def test_keys_wrong_token_is_unauthorized_everywhere(keyed, kind):  # F63
    token = WRONG[kind](keyed)
    refused_hello(keyed, token)
    refused_hello(keyed, None, headers={"Authorization": f"Bearer {token}"})


def test_keys_refresh_by_a_second_hello(keyed):
    with Client(keyed, token=tokens.token("alice", seconds=50)) as client:
        client.expect_type("token_expiring")  # 60 s before the expiry
        reply = client.call("hello", token=tokens.token("alice"))
        assert (reply["type"], reply["owner"]) == ("welcome", "alice")
        client.refused("unauthorized", "hello", token=tokens.token("mallory"))
        assert client.closing().code == 4401


def test_keys_with_issuer_and_audience(tmp_path):
    auth = tokens.config(tmp_path, issuer="https://issuer.test", audience="chat")
    good = {"iss": "https://issuer.test", "aud": "chat"}
    with Gateway({"auth": auth}) as gateway:
        for claims in (good, {**good, "aud": ["x", "chat"]}):
            with Client(gateway, token=tokens.token("alice", **claims)) as client:
                assert client.owner == "alice"
        for claims in ({}, {**good, "iss": "https://evil.test"}, {**good, "aud": "other"},
                       {"iss": good["iss"]}, {"aud": "chat"}):
            refused_hello(gateway, tokens.token("alice", **claims))


def test_cookie_needs_an_origin(tmp_path):
    auth = tokens.config(tmp_path, cookie="session")
    with Gateway({"auth": auth, "origins": ["https://chat.example"]}) as gateway:
        cookie = {"Cookie": f"a=b; session={tokens.token('alice')}; c=d"}
        with Client(gateway, origin="https://chat.example", headers=cookie) as client:
            assert client.owner == "alice"
        with pytest.raises((Refused, AssertionError)):  # no browser sends no Origin
            Client(gateway, headers=cookie)
        with pytest.raises(Refused) as refused:
            Client(gateway, headers=cookie, origin="https://evil.test")
        assert refused.value.status == 403


def test_guests_beside_keys_only_when_configured(tmp_path):
    with Gateway({"auth": tokens.config(tmp_path), "guests": True}) as gateway:
        with Client(gateway) as guest, Client(gateway, token=tokens.token("alice")) as alice:
            assert guest.owner.startswith("guest-")
            assert alice.owner == "alice"
        refused_hello(gateway, tokens.token("guest-forged"))


def test_tokens_never_reach_the_log(keyed):
    token = tokens.token("carol")
    with Client(keyed, token=token) as client:
        client.call("chat", message="a secret message", conversation_id=new_id())
    refused_hello(keyed, token[:-3])
    keyed.stop()
    log = "\n".join(keyed.log)  # whole
    keyed.start()
    assert "event=welcome" in log
    assert token[:-3] not in log and token.split(".")[2][:20] not in log
