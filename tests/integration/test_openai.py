"""The wire of OpenAI's Python client: the head of its requests and its rules of reading, as its source has them
(openai-python 3.3.1, _base_client.py and _streaming.py), since the package needs others that Debian has not."""

import base64
import json
import pathlib
import re
import sys
import threading
import types
import urllib.error
import urllib.request

import pytest

from gateway import Gateway, script_agent
from holdfast import Client, program

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIG = {"agents": [script_agent(default=True)]}


HEAD = {"Accept": "application/json", "Content-Type": "application/json", "User-Agent": "OpenAI/Python 3.3.1",
        "X-Stainless-Lang": "python", "X-Stainless-Package-Version": "3.3.1", "X-Stainless-OS": "Linux",
        "X-Stainless-Arch": "x64", "X-Stainless-Runtime": "CPython", "X-Stainless-Runtime-Version": "3.11.2",
        "X-Stainless-Async": "false", "x-stainless-retry-count": "0", "x-stainless-read-timeout": "600"}


def ask(gateway, token, path, body=None, key=None):
    head = {**HEAD, "Authorization": f"Bearer {token}", **({"Idempotency-Key": key} if key else {})}
    request = urllib.request.Request(f"http://{gateway.host}:{gateway.port}/v1{path}",
                                     None if body is None else json.dumps(body).encode(), head)
    return urllib.request.urlopen(request)


def post(gateway, token, body, key=None):
    return ask(gateway, token, "/chat/completions", body, key)


class Decoder:
    """SSEDecoder.decode and Stream.__stream__: the JSON of each event, to [DONE]."""

    def __init__(self):
        self.event, self.data, self.last_event_id, self.retry = None, [], None, None
        self.done = False

    def line(self, line):
        if not line:
            if not self.event and not self.data and not self.last_event_id and self.retry is None:
                return None
            data = "\n".join(self.data)
            self.event, self.data, self.retry = None, [], None
            self.done = self.done or data.startswith("[DONE]")
            return None if self.done else json.loads(data)
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self.event = value
        elif name == "data":
            self.data.append(value)
        elif name == "id" and "\0" not in value:
            self.last_event_id = value
        elif name == "retry" and value.isdigit():
            self.retry = int(value)
        return None

    def events(self, lines):
        for line in lines:
            if (event := self.line(line.decode().rstrip("\r\n"))) is not None:
                assert not event.get("error"), event  # it raises APIError
                yield event
            if self.done:
                return


def messages(*steps):
    return [{"role": "system", "content": "be short"}, {"role": "user", "content": program(*steps)}]


def test_stream_is_read_line_by_line(gateway, client):
    said = ""
    with post(gateway, client.token, {"model": "script", "stream": True,
                                      "messages": messages({"token": "1 "}, {"token": "2"})}) as reply:
        assert reply.headers["Content-Type"] == "text/event-stream"
        decoder = Decoder()
        for chunk in decoder.events(reply):
            assert chunk["object"] == "chat.completion.chunk"
            said += chunk["choices"][0]["delta"].get("content", "")
    assert said == "1 2" and decoder.done
    assert chunk["choices"][0]["finish_reason"] == "stop"


def test_response_that_is_silent_is_no_event(gateway, client, tmp_path):
    """A client that comes back gets nothing new for 15 s, and then a comment."""
    task = client.chat({"token": "1 "}, {"wait": str(tmp_path / "gate")}, {"token": "2"}, conversation="c-silent")
    client.expect(lambda line: line.get("event") == "token")
    name = base64.urlsafe_b64encode(b"c-silent").decode().rstrip("=")
    last = 6  # created, queued, in_progress, the item, its part, the text: from 0 on
    with ask(gateway, client.token, f"/responses/resp_{name}.{task['task_id']}?stream=true&starting_after={last - 1}") as reply:
        lines = []
        while not lines or lines[-1] != b":\n":
            lines.append(reply.readline())
            assert lines[-1], "the stream ended"
        (tmp_path / "gate").touch()
        events = list(Decoder().events(lines + list(reply)))
    assert [event["sequence_number"] for event in events] == list(range(last, last + len(events)))
    assert events[0]["delta"] == "2" and events[-1]["type"] == "response.completed"


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


class Seen:
    """An object of the answer, as its models are: members are attributes, and what is absent is None."""

    def __init__(self, value):
        self._value = value

    def __getattr__(self, name):
        value = self._value.get(name)
        return [Seen(item) for item in value] if isinstance(value, list) else Seen(value) if isinstance(value, dict) else value


def stand_in(gateway):
    """A module `openai` with as much of the client as the pages' lines use."""
    class OpenAI:
        def __init__(self, *, base_url, api_key):
            assert base_url == "http://127.0.0.1:8080/v1"
            self.responses = Resource("/responses")
            self.chat = types.SimpleNamespace(completions=Resource("/chat/completions"))
            self.responses.token = self.chat.completions.token = api_key

    class Resource:
        def __init__(self, path):
            self.path = path

        def create(self, **body):
            with ask(gateway, self.token, self.path, body) as reply:
                yield from map(Seen, Decoder().events(reply))

    module = types.ModuleType("openai")
    module.OpenAI = OpenAI
    return module


@pytest.mark.parametrize("page, before", [("README.md", "\n<!-- client: openai-python -->\n"),
                                          ("docs/faces.md", "\n## OpenAI Chat Completions\n")])
def test_lines_of_the_pages_print_the_answer(gateway, client, monkeypatch, capsys, page, before):
    lines = re.search(r"```python\n(.*?)```", (ROOT / page).read_text().split(before)[1], re.S)[1]
    said = program({"token": "1 "}, {"token": "2 3"})
    lines = lines.replace('"Count to 3."', repr(said)).replace('"assistant"', '"script"')
    monkeypatch.setitem(sys.modules, "openai", stand_in(gateway))
    exec(compile(lines, page, "exec"), {"token": client.token})
    assert capsys.readouterr().out == "1 2 3"
