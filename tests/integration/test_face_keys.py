"""Each face is switched by its key, and lets in the pages that our own endpoints let in."""

import json

import pytest

from gateway import Gateway
from holdfast import Client
from test_face_input import FACES, SOCKETS
from wire import Wire

SITE = "https://chat.example"
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
KEYS = {  # what is there with each of them
    "ai_sdk": ["AI SDK"], "openai": ["Responses", "Chat Completions"], "ag_ui": ["AG-UI"],
    "a2a": ["A2A over JSON-RPC", "A2A over REST"], "mcp": ["MCP"], "acp": [], "durable_streams": []}
SOCKETS_OF = {"ai_sdk": "AI SDK", "openai": "Responses", "acp": "ACP"}


def there(gateway, client, task, key):
    """Whether what belongs to a face is there: all of it, or nothing."""
    head = {**JSON, "Authorization": f"Bearer {client.token}"}
    found = {gateway.http("POST", FACES[face][0], json.dumps(FACES[face][1]), head)[0] for face in KEYS[key]}
    if key == "durable_streams":
        found.add(gateway.http("GET", f"/v1/stream/c-keys/{task['task_id']}?offset=-1", headers=head)[0])
    if key in SOCKETS_OF:
        path = f"{SOCKETS[SOCKETS_OF[key]][0]}?token={client.token}"
        with Wire(gateway, path=path, headers={"Sec-WebSocket-Protocol": None}) as wire:
            found.add(200 if wire.status == 101 else wire.status)
    assert len(found) == 1 and found <= {200, 404}, (key, found)
    return found == {200}


def faces_of(gateway):
    with Client(gateway) as client:
        task, _ = client.finish({"token": "x"}, conversation="c-keys")
        return {key for key in KEYS if there(gateway, client, task, key)}


@pytest.mark.parametrize("key", KEYS)
def test_key_switches_its_face_alone(key):
    with Gateway({"faces": {key: False}}) as gateway:
        assert faces_of(gateway) == set(KEYS) - {key}


def test_all_are_off_beyond_loopback_but_those_that_a_key_turns_on():
    with Gateway({"guests": True, "faces": {"ag_ui": True, "acp": True}}, listen="0.0.0.0:0") as gateway:
        assert faces_of(gateway) == {"ag_ui", "acp"}
    with Gateway({}) as gateway:
        assert faces_of(gateway) == set(KEYS)


@pytest.fixture(scope="module")
def site():
    with Gateway({"origins": [SITE], "limits": {"requests_per_second": 100_000, "burst": 100_000}}) as running:
        yield running


@pytest.mark.parametrize("face", FACES)
def test_page_of_a_listed_origin_reads_the_answer_and_no_other_gets_one(site, face):
    path, good, *_ = FACES[face]
    with Client(site) as client:
        head = {**JSON, "Authorization": f"Bearer {client.token}"}
        status, headers, _ = site.http("OPTIONS", path, headers={
            "Origin": SITE, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"})
        assert (status, headers["access-control-allow-origin"]) == (204, SITE)
        status, headers, body = site.http("POST", path, json.dumps(good), {**head, "Origin": SITE})
        assert (status, headers["access-control-allow-origin"]) == (200, SITE) and b"hello" in body
        known = client.call("conversations")["conversations"]
        for origin in ("https://evil.example", f"{SITE}.evil.example", "null"):
            status, headers, body = site.http("POST", path, json.dumps(good), {**head, "Origin": origin})
            assert (status, headers["access-control-allow-origin"]) == (403, None) and b"hello" not in body
        assert client.call("conversations")["conversations"] == known


@pytest.mark.parametrize("face", SOCKETS)
def test_socket_is_for_a_listed_origin(site, face):
    with Client(site) as client:
        for origin, status in ((SITE, 101), ("https://evil.example", 403)):
            headers = {"Sec-WebSocket-Protocol": None, "Origin": origin}
            with Wire(site, path=f"{SOCKETS[face][0]}?token={client.token}", headers=headers) as wire:
                assert wire.status == status, origin
