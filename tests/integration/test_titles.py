"""A conversation's title by a model (titles.model): asked once, when the first turn has ended well."""

import threading

import pytest

import model_server as m
from gateway import Gateway, wait_until
from holdfast import Client, new_id
from model_server import DONE, answer, finish, reply, text


@pytest.fixture(scope="module")
def gateway(server):
    config = {"models": [{"name": "small", "base_url": server.url + "/v1", "model": "tiny", "price_out": 1000,
                          "fallback": "other"},
                         {"name": "other", "base_url": server.url + "/v1", "model": "other"}],
              "titles": {"model": "small", "max_tokens": 64}}
    with Gateway(config) as running:
        yield running


@pytest.fixture
def asked(server):
    """The requests of this test, each of which is answered with a title."""
    server.script = [answer("A title")]
    server.requests.clear()
    return server.requests


def title_of(client, conversation):
    rows = client.call("conversations")["conversations"]
    return next(row["title"] for row in rows if row["conversation_id"] == conversation)


def changed(client, conversation, title):
    return client.expect(lambda line: line["type"] == "conversation_changed"
                         and line["conversation"]["conversation_id"] == conversation
                         and line["conversation"].get("title") == title)



def counted(gateway, name):
    """The value of a row of the metrics; 0 without it."""
    text = gateway.http("GET", "/metrics")[2]
    text = text if isinstance(text, str) else text.decode()
    return next((float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name + " ")), 0)


def failures(gateway):
    return counted(gateway, 'holdfast_titles_total{outcome="failed"}')


def test_model_says_the_title_after_the_first_turn(gateway, client, server, asked):
    server.script = [reply(text('"Ro'), text('me" \n'), text("in May"), finish(), m.usage(9, 4), DONE)]
    client.call("watch")
    conversation = new_id()
    out = 'holdfast_model_tokens_total{agent="",model="small",kind="out"}'
    before = counted(gateway, out)
    client.finish("where to go " + 5000 * "x" + " end", conversation=conversation)
    changed(client, conversation, "Rome")
    request, = asked
    system, beginning = request.json["messages"]
    assert system["role"] == "system" and beginning["role"] == "user"
    assert "Question:\nwhere to go xx" in beginning["content"] and "Answer:\nwhere" in beginning["content"]
    assert "end" not in beginning["content"] and len(beginning["content"]) < 6500
    assert (request.json["model"], request.json["max_tokens"]) == ("tiny", 64)
    assert counted(gateway, out) == before + 4
    client.finish("and then?", conversation=conversation)
    client.finish("another", conversation=(second := new_id()))
    changed(client, second, "Rome")
    assert len(asked) == 2  # the second turn asked nobody


def test_title_that_came_meanwhile_stays(client, server, asked):
    client.call("watch")
    for by_owner in (True, False):
        gate, conversation = threading.Event(), new_id()
        asked.clear()
        server.script = [[m.head(), text("The model's"), gate, finish(), DONE, m.CLOSE]]
        client.finish("first", conversation=conversation)
        server.wait_requests(1)
        if by_owner:
            client.call("title", conversation_id=conversation, title="first")
        else:
            client.finish({"raw": '{"event":"title","data":{"title":"The agent\'s"}}\n'}, conversation=conversation)
        gate.set()
        server.script = [answer("A title")]
        client.finish("probe", conversation=(probe := new_id()))
        changed(client, probe, "A title")  # asked after the other had been answered
        assert title_of(client, conversation) == ("first" if by_owner else "The agent's")


def test_nobody_is_asked(client, server, asked):
    client.call("watch")
    hidden, failed, named = new_id(), new_id(), new_id()
    client.finish("x", conversation=hidden, unlisted=True)
    client.finish({"exit": 1}, conversation=failed)
    client.finish({"raw": '{"event":"title","data":{"title":"Named"}}\n'}, conversation=named)
    client.finish("another", conversation=(last := new_id()))
    changed(client, last, "A title")
    assert len(asked) == 1 and title_of(client, named) == "Named"


@pytest.mark.parametrize("script", [reply(status=500), answer(' "" '), reply(text("half a "))],
                         ids=["status 500", "no word", "cut"])
def test_failure_is_counted_and_harmless(gateway, client, server, asked, script):
    before = failures(gateway)
    server.script = [script]
    conversation = new_id()
    task, _ = client.finish("the first", conversation=conversation)
    wait_until(lambda: failures(gateway) == before + 1, "a failure")
    assert task["status"] == "completed" and title_of(client, conversation) == "the first"
    assert [request.json["model"] for request in asked] == ["tiny"]  # one try, and no fallback


def test_deadline(server):
    config = {"models": [{"name": "small", "base_url": server.url, "model": "tiny"}],
              "titles": {"model": "small", "timeout_s": 1}}
    never = threading.Event()
    server.requests.clear()
    server.script = [[m.head(), text("A"), never, m.CLOSE]]
    with Gateway(config) as gateway, Client(gateway) as client:
        client.finish("the first", conversation="c")
        wait_until(lambda: failures(gateway) == 1, "the deadline")
        wait_until(lambda: server.requests[0].left, "the connection's end")
        assert title_of(client, "c") == "the first"
        server.requests.clear()
        client.finish("next", conversation="d")
        server.wait_requests(1)
        gateway.stop()  # nothing waits for it


def test_model_must_be_one_of_models():
    with pytest.raises(AssertionError, match="titles.model"), Gateway({"titles": {"model": "none"}}):
        pass
