"""strict: a member that a request does not have is refused by its name, instead of being passed over."""
import json

import pytest

from gateway import Gateway
from holdfast import Client


@pytest.fixture(scope="module")
def gateway():
    with Gateway() as started:
        yield started


def test_unknown_member_is_passed_over_until_a_hello_is_strict(gateway):
    with Client(gateway) as client:
        assert client.call("chat", message=json.dumps({"token": "x"}), attachments=["a"])["type"] == "started"
        assert client.call("hello", token=client.token, strict=True)["type"] == "welcome"
        refused = client.refused("bad_request", "chat", message="x", attachments=["a"])
        assert refused["message"] == '"attachments" is unknown here'
        later = {"conversation_id": "c", "every_s": 3600}
        refused = client.refused("bad_request", "schedule", chat={"message": "x", "attachments": ["a"]}, **later)
        assert refused["message"] == 'in "chat": "attachments" is unknown here'
        assert client.call("schedule", chat={"message": "x", "metadata": {"any": 1}}, **later)["type"] == "scheduled"
        client.call("hello", token=client.token)  # a fresh token changes nothing of it
        client.refused("bad_request", "ping", attachments=["a"])


def test_http_request_is_strict_by_a_header(gateway):
    with Client(gateway) as client:
        head = {"Authorization": f"Bearer {client.token}", "Content-Type": "application/json"}
        body = json.dumps({"message": json.dumps({"token": "x"}), "attachments": ["a"], "id": "1"})
        path = "/v1/conversations/http/tasks"
        status, _, answer = gateway.http("POST", path, body, {**head, "Prefer": "respond-async, handling=strict"})
        assert status == 400 and json.loads(answer)["error"]["message"] == '"attachments" is unknown here'
        assert gateway.http("POST", path, body, {**head, "Prefer": "handling=lenient"})[0] == 201
        assert gateway.http("GET", path + "?limit=5&other=1", headers={**head, "Prefer": "handling=strict"})[0] == 200
