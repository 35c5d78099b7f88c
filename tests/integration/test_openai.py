"""The wire of OpenAI's Python client, which is that of its others (docs/faces.md): with what Python has."""

import json
import threading
import urllib.error
import urllib.request

import pytest

from gateway import Gateway, script_agent
from holdfast import Client, program

CONFIG = {"agents": [script_agent(default=True)]}


def post(gateway, token, body, key=None):
    request = urllib.request.Request(f"http://{gateway.host}:{gateway.port}/v1/chat/completions",
                                     json.dumps(body).encode(),
                                     {"Authorization": f"Bearer {token}", "Content-Type": "application/json",
                                      **({"Idempotency-Key": key} if key else {})})
    return urllib.request.urlopen(request)


def messages(*steps):
    return [{"role": "system", "content": "be short"}, {"role": "user", "content": program(*steps)}]


def test_stream_is_read_line_by_line(gateway, client):
    said = ""
    with post(gateway, client.token, {"model": "script", "stream": True,
                                      "messages": messages({"token": "1 "}, {"token": "2"})}) as reply:
        assert reply.headers["Content-Type"] == "text/event-stream"
        lines = [line.decode().rstrip("\n")[len("data: "):] for line in reply if line.startswith(b"data: ")]
    assert lines.pop() == "[DONE]"
    for chunk in map(json.loads, lines):
        assert chunk["object"] == "chat.completion.chunk"
        said += chunk["choices"][0]["delta"].get("content", "")
    assert said == "1 2"
    assert json.loads(lines[-1])["choices"][0]["finish_reason"] == "stop"


def test_plain_answer_is_one_object(gateway, client):
    with post(gateway, client.token, {"messages": messages({"token": "1 "}, {"token": "2"})}) as reply:
        assert reply.headers["Content-Type"] == "application/json"
        assert json.load(reply)["choices"][0]["message"]["content"] == "1 2"


def test_failed_answer_is_an_error(gateway, client):
    with pytest.raises(urllib.error.HTTPError) as caught:
        post(gateway, client.token, {"messages": messages({"token": "so far"}, {"exit": 3})})
    assert caught.value.code == 500
    error = json.load(caught.value)["error"]
    assert error["code"] == "agent_error" and "exit status 3" in error["message"]


def test_plain_answer_is_cut_by_a_kill_and_told_as_it_is_after_it():
    body = {"conversation": "c", "messages": messages({"token": "so far"}, {"hang": True})}
    with Gateway(CONFIG) as gateway:
        with Client(gateway) as client:
            token = client.token
            seen = []

            def ask():
                try:
                    post(gateway, token, body, "k")
                except OSError as error:
                    seen.append(error)

            client.call("open", conversation_id="c", follow=True)
            asking = threading.Thread(target=ask)
            asking.start()
            client.expect(lambda line: line.get("event") == "token")
            gateway.kill()
        asking.join()
        assert len(seen) == 1 and not isinstance(seen[0], urllib.error.HTTPError), "no answer that is none"
        gateway.start()
        with pytest.raises(urllib.error.HTTPError) as caught:
            post(gateway, token, body, "k")
        assert json.load(caught.value)["error"]["code"] == "orphaned"


def test_face_that_is_off_is_not_there():
    with Gateway({**CONFIG, "faces": {"openai": False}}) as gateway:
        status, _, _ = gateway.http("GET", "/v1/models")
        assert status == 404
