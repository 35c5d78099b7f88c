"""Files of messages, as models are given them: each API in its own form, what a model takes, what is left out."""

import base64
import http.client
import json
import pathlib
import threading
import urllib.parse

import pytest

import crew
import nodes
import postgres
import tokens
from files import Owner
from gateway import WAIT_S, Gateway, wait_until
from holdfast import new_id
from mcp_kit import scripted
from model_server import reply

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 500  # 128 KB
PDF = b"%PDF-1.7\n" + bytes(range(200))
WHOLE = {"chat": {"choices": [{"message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]},
         "responses": {"status": "completed", "output": [
             {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]}]},
         "anthropic": {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "ok"}],
                       "stop_reason": "end_turn"}}


def api_of(request):
    return {"/v1/chat/completions": "chat", "/v1/responses": "responses", "/v1/messages": "anthropic"}[request.path]


def answers(request):
    return reply(json.dumps(WHOLE[api_of(request)]).encode(), content_type="application/json")


@pytest.fixture(scope="module")
def gateway(server):
    def model(name, api, **options):
        return {"name": name, "api": api, "base_url": server.url + "/v1", "model": "m", "retries": 0, **options}

    models = [*(model(api, api) for api in WHOLE), model("images", "chat", takes="images"),
              model("text", "chat", takes="text", fallback="images"), model("none", "responses", takes="text")]
    agents = [{"name": each["name"], "kind": "react", "model": each["name"], "after_restart": "continue"} for each in models]
    with Gateway({"models": models, "agents": [*agents, {"name": "built", "kind": "react"}]}) as running:
        yield running


@pytest.fixture
def owner(gateway, server):
    server.script = answers
    server.requests.clear()
    return Owner(gateway)


def asked(owner, c, message, agent, **fields):
    """The task, when it has ended."""
    status, _, answer = owner.ask("POST", f"{c}/tasks", json.dumps({"message": message, "agent": agent, **fields}),
                                  {"Content-Type": "application/json"})
    assert status == 201, answer
    task = json.loads(answer)["task"]["task_id"]

    def look():
        found = json.loads(owner.ask("GET", f"{c}/tasks/{task}")[2])["task"]
        return found if found["status"] in ("completed", "failed") else None
    return wait_until(look, "the end")


def said(server):
    """The messages of the newest request, in its API's form."""
    body = server.requests[-1].json
    return body["input"] if api_of(server.requests[-1]) == "responses" else body["messages"]


def encoded(body):
    return base64.b64encode(body).decode()


def file(given):
    return {"type": "file", "file_id": given["file_id"]}


def given(owner, c):
    return [owner.give(c, PNG, "image/png", 'attachment; filename="cat.png"'),
            owner.give(c, PDF, "application/pdf", 'attachment; filename="a b.pdf"'),
            owner.give(c, "Zeile ü".encode(), "text/plain")]


FORMS = {
    "chat": [{"type": "text", "text": "look"},
             {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{encoded(PNG)}"}},
             {"type": "file", "file": {"filename": "a b.pdf", "file_data": f"data:application/pdf;base64,{encoded(PDF)}"}},
             {"type": "file", "file": {"filename": "file",
                                       "file_data": f"data:text/plain;base64,{encoded('Zeile ü'.encode())}"}}],
    "responses": [{"type": "input_text", "text": "look"},
                  {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{encoded(PNG)}"},
                  {"type": "input_file", "filename": "a b.pdf", "file_data": f"data:application/pdf;base64,{encoded(PDF)}"},
                  {"type": "input_file", "filename": "file",
                   "file_data": f"data:text/plain;base64,{encoded('Zeile ü'.encode())}"}],
    "anthropic": [{"type": "text", "text": "look"},
                  {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": encoded(PNG)}},
                  {"type": "document", "title": "a b.pdf",
                   "source": {"type": "base64", "media_type": "application/pdf", "data": encoded(PDF)}},
                  {"type": "document", "title": "file",
                   "source": {"type": "text", "media_type": "text/plain", "data": "Zeile ü"}}],
}


@pytest.mark.parametrize("api", list(FORMS))
def test_each_api_gets_files_in_its_own_form(owner, server, api):
    c = new_id()
    message = [{"type": "text", "text": "look"}, *map(file, given(owner, c))]
    assert asked(owner, c, message, api)["status"] == "completed"
    [message] = said(server)
    assert message == {"role": "user", "content": FORMS[api]}
    assert asked(owner, c, "and now?", api)["status"] == "completed"  # the history has them too
    first, *_, last = said(server)
    assert first == message
    assert last["content"] == ([{"type": "text", "text": "and now?"}] if api == "anthropic" else "and now?")


def test_small_file_in_the_message_itself(owner, server):
    message = [{"type": "file", "media_type": "image/png", "name": "dot.png", "data": "iVBORw=="}]
    assert asked(owner, new_id(), message, "chat")["status"] == "completed"
    assert said(server)[0]["content"] == [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}]


@pytest.mark.parametrize("agent, which, why", [
    ("none", 0, "none takes no images, and the message has one: cat.png"),
    ("none", 1, "none takes no files, and the message has one: a b.pdf"),
    ("images", 1, "images takes no files, and the message has one: a b.pdf"),
    ("text", 1, "images takes no files, and the message has one: a b.pdf"),  # nor does the fallback
    ("built", 0, "the agent takes no files, and the message has one")])
def test_model_that_takes_none_fails_the_task_with_its_reason(owner, server, agent, which, why):
    c = new_id()
    task = asked(owner, c, [file(given(owner, c)[which])], agent)
    assert task["error"]["code"] == "agent_error" and why in task["error"]["message"], task
    assert server.requests == []


def test_type_that_the_api_has_no_block_for(owner, server):
    c = new_id()
    sheet = owner.give(c, b"PK", "application/vnd.ms-excel", 'attachment; filename="a.xls"')
    task = asked(owner, c, [file(sheet)], "anthropic")
    assert "anthropic takes no files of this type, and the message has one: a.xls" in task["error"]["message"]
    assert asked(owner, c, [file(sheet)], "chat")["status"] == "completed"


def test_fallback_that_takes_images_gets_the_image(owner, server):
    c = new_id()
    assert asked(owner, c, [file(given(owner, c)[0])], "text")["status"] == "completed"
    assert said(server)[0]["content"][0]["type"] == "image_url"


def test_file_of_an_earlier_message_that_the_model_does_not_take_is_named(owner, server):
    c = new_id()
    asked(owner, c, [{"type": "text", "text": "look"}, file(given(owner, c)[0])], "chat")
    assert asked(owner, c, "and now?", "none")["status"] == "completed"
    assert said(server)[0]["content"] == [
        {"type": "input_text", "text": "look"},
        {"type": "input_text", "text": "[The file cat.png is left out: the model takes none of its kind.]"}]


def test_files_that_are_too_much_together(owner, server):
    c = new_id()
    half = owner.give(c, bytes(13 << 20), "application/pdf")
    other = owner.give(c, b"x" + bytes(13 << 20), "application/pdf", 'attachment; filename="b.pdf"')
    task = asked(owner, c, [file(half), file(other)], "chat")
    assert "the files of the message exceed 24 MiB" in task["error"]["message"] and server.requests == []
    assert asked(owner, c, [file(other)], "chat")["status"] == "completed"
    assert asked(owner, c, [file(half)], "chat")["status"] == "completed"  # the older one is left out
    assert [part["type"] for message in said(server) if isinstance(message["content"], list)
            for part in message["content"]] == ["text", "text", "text", "file"]


def test_task_that_goes_on_gets_its_files_again(owner, server, gateway):
    c = new_id()
    server.script = [reply(threading.Event())]  # never
    [image, *_] = given(owner, c)
    status, _, answer = owner.ask("POST", f"{c}/tasks", json.dumps({"message": [file(image)], "agent": "chat"}),
                                  {"Content-Type": "application/json"})
    assert status == 201, answer
    server.wait_requests(1)
    gateway.kill()
    server.script = answers
    gateway.start()
    task = json.loads(answer)["task"]["task_id"]
    wait_until(lambda: json.loads(owner.ask("GET", f"{c}/tasks/{task}")[2])["task"]["status"] == "completed", "the end")
    first, again = server.requests
    assert first.json["messages"] == again.json["messages"] and len(said(server)[0]["content"]) == 1


# -------------------------------------------------------------- images in results of tools


TINY = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
JPEG = base64.b64encode(b"\xff\xd8\xff\xe0" + bytes(30)).decode()
SHOWN = [{"type": "text", "text": "look"}, {"type": "image", "mimeType": "image/png", "data": TINY},
         {"type": "image", "mimeType": "image/png", "data": JPEG},  # by its bytes it is another
         {"type": "image", "mimeType": "image/png", "data": "bm8gaW1hZ2U="},  # no image at all
         {"type": "audio", "mimeType": "audio/wav", "data": TINY}]
TOLD = "look\n[image: image/png, 28 bytes]\n[image: image/png, 34 bytes]\n[image: image/png, 8 bytes]\n" \
       "[audio: audio/wav, 28 bytes]"


def calls(api, *ids):
    """A turn that calls the tool so often."""
    wanted = [(id, "eyes__do", {"steps": [{"result": {"content": SHOWN}}]}) for id in ids]
    if api == "chat":
        return {"choices": [{"finish_reason": "tool_calls", "message": {"role": "assistant", "tool_calls": [
            {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
            for id, name, given in wanted]}}]}
    if api == "responses":
        return {"status": "completed", "output": [
            {"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": name, "arguments": json.dumps(given)}
            for id, name, given in wanted]}
    return {"type": "message", "role": "assistant", "stop_reason": "tool_use", "content": [
        {"type": "tool_use", "id": id, "name": name, "input": given} for id, name, given in wanted]}


@pytest.fixture(scope="module")
def seeing(server, tmp_path_factory):
    def model(name, api, **options):
        return {"name": name, "api": api, "base_url": server.url + "/v1", "model": "m", "retries": 0, **options}

    models = [*(model(api, api, takes="images") for api in WHOLE), model("files", "chat", takes="files"),
              model("default", "chat"), model("blind", "responses", takes="text")]
    agents = [{"name": each["name"], "kind": "react", "model": each["name"], "tools": ["mcp:eyes/*"],
               "after_restart": "continue"} for each in models]
    with Gateway({"models": models, "mcp": [scripted("eyes", tmp_path_factory.mktemp("mcp"))], "agents": agents}) as running:
        yield running


def shown(seeing, server, agent, api, *ids, **fields):
    """The model is told this behind its own turn."""
    owner = Owner(seeing)
    whole = iter([calls(api, *ids), WHOLE[api]])
    server.script = lambda request: reply(json.dumps(next(whole)).encode(), content_type="application/json")
    server.requests.clear()
    assert asked(owner, new_id(), "go", agent, **fields)["status"] == "completed"
    told = said(server)
    at = next(i for i, each in enumerate(told) if "function_call" in each.get("type", "") or each.get("role") == "assistant")
    return told[at + (len(ids) if api == "responses" else 1):]


def url(data, kind):
    return f"data:image/{kind};base64,{data}"


def test_chat_shows_images_of_results_with_the_next_message(seeing, server):
    images = [{"type": "image_url", "image_url": {"url": url(TINY, "png")}},
              {"type": "image_url", "image_url": {"url": url(JPEG, "jpeg")}}]
    for agent in ("chat", "files"):
        assert shown(seeing, server, agent, "chat", "c0") == [
            {"role": "tool", "tool_call_id": "c0", "content": TOLD},
            {"role": "user", "content": [{"type": "text", "text": "[The images of the results above, in their order:]"},
                                         *images]}]


def test_images_of_two_calls_come_once(seeing, server):
    first, second, message = shown(seeing, server, "chat", "chat", "c0", "c1")
    assert (first["tool_call_id"], second["tool_call_id"]) == ("c0", "c1")
    again = "\n[The file is left out: it is given again below.]" * 2
    assert (first["content"], second["content"]) == (TOLD + again, TOLD)
    assert [part["type"] for part in message["content"]] == ["text", "image_url", "image_url"]


def test_responses_and_anthropic_show_images_in_the_result(seeing, server):
    [output] = shown(seeing, server, "responses", "responses", "c0")
    assert output == {"type": "function_call_output", "call_id": "c0", "output": [
        {"type": "input_text", "text": TOLD},
        {"type": "input_image", "detail": "auto", "image_url": url(TINY, "png")},
        {"type": "input_image", "detail": "auto", "image_url": url(JPEG, "jpeg")}]}
    [result] = shown(seeing, server, "anthropic", "anthropic", "c0")
    assert result == {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c0", "content": [
        {"type": "text", "text": TOLD},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": TINY}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": JPEG}}]}]}


def test_model_that_does_not_say_that_it_takes_them_gets_text(seeing, server):
    assert shown(seeing, server, "default", "chat", "c0") == [{"role": "tool", "tool_call_id": "c0", "content": TOLD}]
    assert shown(seeing, server, "blind", "responses", "c0") == [
        {"type": "function_call_output", "call_id": "c0", "output": TOLD}]


def test_message_behind_a_result_takes_its_images_along(seeing, server):
    """And a task that goes on after a kill shows the model the same again."""
    owner, c, gate = Owner(seeing), new_id(), seeing.path()
    waits = calls("chat", "c0")
    function = waits["choices"][0]["message"]["tool_calls"][0]["function"]
    function["arguments"] = json.dumps({"steps": [{"wait": gate}, {"result": {"content": SHOWN}}]})
    server.requests.clear()
    server.script = [reply(json.dumps(waits).encode(), content_type="application/json"), reply(threading.Event())]
    _, _, answer = owner.ask("POST", f"{c}/tasks", json.dumps({"message": "go", "agent": "chat"}),
                             {"Content-Type": "application/json"})
    task = json.loads(answer)["task"]["task_id"]
    server.wait_requests(1)
    status, _, answer = owner.ask("POST", f"{c}/tasks/{task}/messages", json.dumps({"content": "and blue?"}),
                                  {"Content-Type": "application/json"})
    assert status == 200, answer
    pathlib.Path(gate).touch()
    server.wait_requests(2)
    result, message = said(server)[-2:]
    assert result == {"role": "tool", "tool_call_id": "c0", "content": TOLD}
    assert [part["type"] for part in message["content"]] == ["image_url", "image_url", "text"]
    assert message["content"][2]["text"] == "and blue?"
    seeing.kill()
    server.script = [reply(json.dumps(WHOLE["chat"]).encode(), content_type="application/json")]
    seeing.start()
    server.wait_requests(3)
    assert server.requests[2].json["messages"] == server.requests[1].json["messages"]


# -------------------------------------------------------------- URLs instead of data


PUBLIC = "http://127.0.0.1:1/chat/"  # a proxy would take it to the gateway
APIS = {"chat": lambda part: part["image_url"]["url"], "responses": lambda part: part.get("image_url") or part["file_url"],
        "anthropic": lambda part: part["source"]["url"]}


def with_urls(server):
    models = [{"name": api, "api": api, "base_url": server.url + "/v1", "model": "m", "retries": 0, "files": "url"}
              for api in WHOLE] + [
        {"name": "default", "api": "chat", "base_url": server.url + "/v1", "model": "m", "retries": 0}]
    agents = [{"name": each["name"], "kind": "react", "model": each["name"]} for each in models]
    return {"public_url": PUBLIC, "models": models, "agents": agents}


def linking(server, **config):
    return Gateway({**with_urls(server), **config})


@pytest.fixture(scope="module")
def linked(server):
    with linking(server) as running:
        yield running


def fetched(gateway, url, method="GET", **headers):
    """As the model's server gets it, which knows nothing but the URL: (status, headers, bytes).  Without the time, and
    without what is said of the connection alone: an answer that was carried from another node is the last of its own."""
    assert url.startswith(PUBLIC), url
    link = http.client.HTTPConnection(gateway.host, gateway.port, timeout=WAIT_S)
    try:
        link.request(method, url[len(PUBLIC) - 1:], headers=headers)
        answer = link.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders() if k.lower() not in ("date", "connection")}, answer.read()
    finally:
        link.close()


def links_of(server, owner, api, c, files):
    server.script = answers
    assert asked(owner, c, list(map(file, files)), api)["status"] == "completed"
    return [APIS[api](part) for part in said(server)[0]["content"]]


@pytest.mark.parametrize("api, count", [("chat", 1), ("responses", 2), ("anthropic", 2)])
def test_model_gets_a_url_and_its_server_the_bytes(linked, server, api, count):
    owner, c = Owner(linked), new_id()
    urls = links_of(server, owner, api, c, given(owner, c)[:count])
    for url, body, kind in list(zip(urls, (PNG, PDF), ("image/png", "application/pdf"), strict=False)):
        status, headers, got = fetched(linked, url)
        assert (status, got, headers["content-type"]) == (200, body, kind)
        assert fetched(linked, url, "HEAD")[::2] == (200, b"")
        assert fetched(linked, url, Range="bytes=2-5")[::2] == (206, body[2:6])
        assert fetched(linked, url, "DELETE")[0] == 404  # it only reads


def test_what_has_no_url_goes_as_data(linked, server):
    owner, c = Owner(linked), new_id()
    server.script = answers
    asked(owner, c, list(map(file, given(owner, c))), "chat")
    assert said(server)[0]["content"][1:] == FORMS["chat"][2:]  # no form for a URL of these
    asked(owner, c, [{"type": "file", "media_type": "image/png", "name": "dot.png", "data": "iVBORw=="}], "chat")
    assert said(server)[-1]["content"][0]["image_url"]["url"] == "data:image/png;base64,iVBORw=="  # without an id
    asked(owner, c, [file(given(owner, c)[0])], "default")
    assert said(server)[-1]["content"] == [FORMS["chat"][1]]  # nobody elsewhere reaches a loopback address


def test_url_that_is_not_good_is_no_such_file(linked, server):
    owner, other, c = Owner(linked), Owner(linked), new_id()
    [image, pdf, _] = given(owner, c)
    [url] = links_of(server, owner, "chat", c, [image])
    base, proof = url.split("?signed=")
    name, until, mac = proof.split(".")

    def told(owner_name):
        return base64.urlsafe_b64encode(owner_name.encode()).decode().rstrip("=")
    assert name == told(owner.name)
    missing = fetched(linked, url.replace(image["file_id"], "01ARZ3NDEKTSV4RRFFQ69G5FAV"))
    assert missing[0] == 404
    bad = [f"{base}?signed={each}" for each in (
        f"{name}.{int(until) + 1}.{mac}", f"{name}.{int(until) - 7200}.{mac}", f"{told(other.name)}.{until}.{mac}",
        f"{name}.{until}.{mac[:-2]}", f"{name}.{until}.{'A' * 43}", f"{name}.0{until}.{mac}", f"{name}.{until}",
        "", ".", "..", "x", urllib.parse.quote(owner.token), f".{until}.{mac}")]
    bad += [url.replace(image["file_id"], pdf["file_id"]), url.replace(c, new_id())]
    for each in bad:
        assert fetched(linked, each) == missing, each
        assert fetched(linked, each, Authorization=f"Bearer {other.token}") == missing, each
    path = f"{c}/tasks?signed={proof}"
    assert fetched(linked, f"{PUBLIC}v1/conversations/{path}")[0] == 401  # nothing but the file
    assert owner.ask("DELETE", c)[0] == 200
    gone = fetched(linked, url)
    gone[1].pop("connection", None)  # the home's answer by way of another gateway ends it
    assert gone == missing


def test_url_is_served_by_each_process(server):
    with linking(server, processes=3) as gateway:
        owner, c = Owner(gateway), new_id()
        [url] = links_of(server, owner, "chat", c, given(owner, c)[:1])
        for pid in crew.members(gateway):
            assert crew.client_at(gateway, pid, lambda: Opened(gateway)).get(url) == (200, PNG)
            assert crew.client_at(gateway, pid, lambda: Opened(gateway)).get(url[:-3] + "AAA")[0] == 404


@pytest.mark.skipif(not postgres.programs(), reason="PostgreSQL is not installed")
def test_url_of_one_node_is_served_by_another(server):
    """The owner's home has made it; whoever is asked checks it, and so does the next home."""
    database = postgres.Postgres()
    database.start()
    cluster = nodes.Nodes(database, "urls", config=with_urls(server))
    try:
        both = cluster.start("a", "b", cluster={"listen": "127.0.0.1:0"})
        urls = []
        for home in "ab":
            token = tokens.token(cluster.owners_at(home, 1, new_id("u"))[0])
            for gateway in both:
                def serves(at=Owner(gateway, token)):
                    return at.ask("GET", "c/tasks")[0] != 503
                wait_until(serves, f"an owner of {home}, served")
            owner, c = Owner(cluster.gateways[home], token), new_id()
            urls += links_of(server, owner, "chat", c, given(owner, c)[:1])
            for gateway in both:
                assert fetched(gateway, urls[-1])[::2] == (200, PNG)
                assert fetched(gateway, urls[-1], Range="bytes=2-5")[::2] == (206, PNG[2:6])
                assert fetched(gateway, urls[-1][:-3] + "AAA")[0] == 404
        assert cluster.gateways["a"].stop() == 0
        wait_until(lambda: fetched(cluster.gateways["b"], urls[0])[::2] == (200, PNG), "its next home")
    finally:
        cluster.close()
        database.close()


class Opened:
    """A connection to one of several processes."""

    def __init__(self, gateway):
        self.link = http.client.HTTPConnection(gateway.host, gateway.port, timeout=WAIT_S)
        self.link.connect()
        self.sock = self.link.sock

    def get(self, url):
        self.link.request("GET", url[len(PUBLIC) - 1:])
        answer = self.link.getresponse()
        return answer.status, answer.read()

    def close(self):
        self.link.close()
