"""The tool http_get: what it reads, and where it does not go."""

import json
import threading

import pytest

import model_server as m
from gateway import Gateway, script_agent, wait_until
from holdfast import ids
from model_server import CLOSE, DONE, ModelServer, answer, call, finish, head, reply


@pytest.fixture(scope="module")
def web():
    """A web server at an address that is allowed."""
    running = ModelServer("127.0.0.2")
    yield running
    running.close()


@pytest.fixture(scope="module")
def gateway(model):
    config = {
        "models": [{"name": "m", "base_url": model.url, "model": "x"}],
        "http_get": {"allow": ["127.0.0.2"]},
        "agents": [{"name": "reader", "kind": "react", "model": "m", "tools": ["http_get"],
                    "default": True, "grace_s": 1},
                   script_agent(tools=["http_get"])]}
    # A proxy would resolve names by itself: this one must not be asked.
    proxy = {"http_proxy": "http://127.0.0.1:1", "all_proxy": "http://127.0.0.1:1",
             "no_proxy": "127.0.0.1"}
    with Gateway(config, environ=proxy) as running:
        yield running


@pytest.fixture
def get(client, model, web):
    """get(url, …): the outputs of a turn that reads them."""

    def run(*urls, script=None):
        web.script = script
        web.requests.clear()
        pieces = [call(i, f"c{i}", "http_get", json.dumps({"url": url})) for i, url in enumerate(urls)]
        model.script = [reply(*pieces, finish("tool_calls"), DONE), answer("ok")]
        _, events = client.finish("go")
        results = {e["data"]["call_id"]: e["data"] for e in events if e["event"] == "tool_result"}
        return [(results[f"c{i}"]["output"], results[f"c{i}"]["is_error"]) for i in range(len(urls))]

    return run


def test_page_is_read(get, web):
    [(text, is_error)] = get(web.url + "/page?x=1", script=[
        reply("Hällo".encode(), content_type="text/plain; charset=utf-8")])
    assert (text, is_error) == ("Hällo", False)
    assert (web.requests[0].method, web.requests[0].path) == ("GET", "/page?x=1")


@pytest.mark.parametrize("url", [
    "http://127.0.0.1:{port}/", "http://localhost:{port}/", "http://[::1]:{port}/",
    "http://2130706433:{port}/", "http://0x7f.1:{port}/", "http://127.1:{port}/",
    "http://0.0.0.0:{port}/", "http://[::ffff:127.0.0.1]:{port}/", "http://[::ffff:7f00:1]:{port}/",
    "http://10.1.2.3/", "http://192.168.0.1/", "http://172.16.5.5/", "http://169.254.169.254/latest",
    "http://100.64.0.1/", "http://[fd00::1]/", "http://[fe80::1]/", "http://127.0.0.3:{port}/"])
def test_addresses_that_are_not_public_are_refused(get, model, url):
    before = len(model.requests)
    [(text, is_error)] = get(url.format(port=model.port))
    assert is_error and "is not public" in text, text
    assert len(model.requests) == before + 2  # the turns of the model, and nothing else


def test_address_that_an_internal_name_resolves_to_is_for_the_log_alone(get, gateway, model, web):
    """An agent may not read the names of a network by asking for them; an address that it named itself is no news."""
    url = f"http://localhost:{model.port}/"
    redirect = [reply(status=302, Location=url)]
    for [(text, is_error)] in (get(url), get(web.url, script=redirect)):
        assert is_error and text == "the address of localhost is not public"
    line = gateway.logged("component=fetch", "event=refused", "host=localhost")
    assert "address=127.0.0.1" in line or "address=::1" in line
    assert get("http://10.1.2.3/") == [("the address 10.1.2.3 is not public", True)]


def test_redirects_are_followed_and_guarded(get, model, web):
    [(text, is_error)] = get(web.url, script=[
        reply(status=302, Location="/there"), reply(b"here", content_type="text/html")])
    assert (text, is_error) == ("here", False) and web.requests[1].path == "/there"
    [(text, is_error)] = get(web.url, script=[
        reply(status=302, Location=f"http://localhost:{model.port}/")])
    assert is_error and "is not public" in text
    [(text, is_error)] = get(web.url, script=[reply(status=302, Location="file:///etc/passwd")])
    assert is_error and "root:" not in text
    [(text, is_error)] = get(web.url, script=[reply(status=302, Location="/again")])
    assert is_error and len(web.requests) == 6


@pytest.mark.parametrize("by_redirect", [False, True])
def test_connection_that_is_open_already_is_no_way_around(client, model, web, by_redirect):
    """The model's own, which stays open behind its turn (test_models: it is used again)."""
    web.script = [reply(status=302, Location=model.url + "/inside")]
    model.script = [m.kept(call(0, "c", "http_get", json.dumps(
        {"url": web.url if by_redirect else model.url + "/inside"})), finish("tool_calls"), DONE),
        answer("ok")]
    model.requests.clear()
    _, events = client.finish("go")
    [result] = [e["data"] for e in events if e["event"] == "tool_result"]
    assert result["is_error"] and "127.0.0.1 is not public" in result["output"]
    assert [request.method for request in model.requests] == ["POST", "POST"]


def test_what_is_no_page_is_an_error(get, web):
    for url in ("ftp://example.org/", "file:///etc/passwd", "", "http://a b/", "gopher://x"):
        [(text, is_error)] = get(url)
        assert is_error and "must be a URL" in text
    [(text, is_error)] = get(web.url, script=[reply(b"no such page", status=404,
                                                     content_type="text/plain")])
    assert (text, is_error) == ("HTTP 404: no such page", True)
    [(text, is_error)] = get(web.url, script=[reply(b"\x89PNG", content_type="image/png")])
    assert is_error and "image/png" in text


def test_long_page_is_cut_off(get, web):
    """The borders of its characters lie such that 128 KiB falls on one, and on each place within one."""
    for begin in range(3):
        page = "x" * begin + "€" * 100000
        [(text, is_error)] = get(web.url, script=[reply(page.encode(), content_type="text/plain")])
        whole = (128 * 1024 - begin) // 3
        assert not is_error and text == "x" * begin + "€" * whole + "\n[cut off at 128 KiB]", begin


def test_pages_of_one_turn_are_read_side_by_side(get, web):
    both, lock, met = threading.Event(), threading.Lock(), []

    def script(request):
        with lock:
            met.append(request)
            if len(met) == 2:
                both.set()
        return [head(content_type="text/plain"), both, request.path.encode(), CLOSE]

    assert get(web.url + "/a", web.url + "/b", script=script) == [("/a", False), ("/b", False)]


def test_cancel_closes_the_connection(client, model, web):
    web.script = [[head(content_type="text/plain"), threading.Event()]]
    web.requests.clear()
    model.script = [reply(call(0, "c", "http_get", json.dumps({"url": web.url})),
                          finish("tool_calls"), DONE)]
    task = client.chat("go")
    web.wait_requests(1)
    client.call("cancel", **ids(task))
    assert client.wait_terminal(task)["data"]["error"]["code"] == "cancelled"
    wait_until(lambda: web.requests[0].left, "the connection's end")


def test_exec_agent_calls_it(client, web):
    def steps(url):
        return ({"line": {"call": "tool", "call_id": "1", "name": "http_get",
                          "arguments": {"url": url}}}, {"hear": "tool_result", "say": True})

    web.script = [reply(b"for exec", content_type="text/plain")]
    task, events = client.finish(*steps(web.url), agent="script")
    told = json.loads(task["output"])
    assert (told["output"], told["is_error"]) == ("for exec", False)
    assert [e["event"] for e in events if e["event"].startswith("tool")] == ["tool_call", "tool_result"]
    task, _ = client.finish(*steps("http://127.0.0.1:1/"), agent="script")
    assert json.loads(task["output"])["is_error"] is True
    web.script = [[head(content_type="text/plain"), threading.Event()]]
    web.requests.clear()
    task = client.chat(*steps(web.url), agent="script")
    web.wait_requests(1)
    client.call("cancel", **ids(task))
    client.wait_terminal(task)
    wait_until(lambda: web.requests[0].left, "the connection's end")
