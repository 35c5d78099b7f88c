"""Why a model failed, told so that a program can act on it; what its server said; the model that is tried next."""

import contextlib
import json
import threading

import pytest

import model_server as m
from gateway import Gateway
from holdfast import Client, names, text_of
from model_server import DONE, RESET, ModelServer, answer, call, finish, reply, text


@pytest.fixture(scope="module")
def second():
    with contextlib.closing(ModelServer()) as running:
        yield running


def config_of(server, second, **more):
    def model(name, url, **options):
        return {"name": name, "base_url": url + "/v1", "model": name, "retries": 0, **options}

    def agent(name, **options):
        return {"name": name, "kind": "react", "model": name, "tools": ["clock"], **options}

    return {"models": [model("plain", server.url), model("gone", "http://127.0.0.1:1"),
                       model("narrow", server.url, context_bytes=300), model("silent", server.url, idle_timeout_s=4),
                       model("doubled", server.url, fallback="spare"), model("spare", second.url, fallback="last"),
                       model("last", server.url)],
            "agents": [agent("plain", default=True), agent("gone"), agent("narrow"), agent("silent"), agent("doubled")],
            **more}


@pytest.fixture(scope="module")
def gateway(server, second):
    with Gateway(config_of(server, second)) as running:
        yield running


@pytest.fixture
def ask(client, server):
    def run(script, message="hello", **fields):
        server.script = script
        server.requests.clear()
        task, events = client.finish(message, **fields)
        return task, events, list(server.requests)

    return run


def said(status, message):
    return reply(json.dumps({"error": {"message": message}}).encode(), status=status)


@pytest.mark.parametrize("script, reason", [
    (said(429, "slow down"), "model_busy"),
    (said(400, "You exceeded your current quota"), "model_busy"),
    (said(503, "come back"), "model_overloaded"),
    (said(529, "Overloaded"), "model_overloaded"),
    (said(401, "who are you"), "model_refused"),
    (said(403, "not you"), "model_refused"),
    (said(502, "no upstream"), "model_unreachable"),
    ([RESET], "model_unreachable"),
    (said(413, "large"), "context_too_long"),
    (said(400, "This model's maximum context length is 8192 tokens"), "context_too_long"),
    (said(400, "the request exceeds the available context size"), "context_too_long"),
    (reply(text("I was"), m.data({"error": {"message": "GPU on fire"}})), "broke_off"),
    (reply(text("I was")), "broke_off"),
    (reply(text("I was"), finish("length"), DONE), "broke_off"),
    (reply(m.data({"error": {"message": "Rate limit reached"}})), "model_busy"),
    (said(400, "no such field"), None),
    (reply(b"<html>Welcome", content_type="text/html"), None),
], ids=lambda value: value if isinstance(value, str) else None)
def test_reason_of_a_failure(ask, client, script, reason):
    task, events, _ = ask([script])
    error = task["error"]
    assert task["status"] == "failed" and error["code"] == "agent_error"
    assert error.get("reason") == reason, error
    assert events[-1]["data"]["error"] == error  # the event and the record say the same
    assert error["message"].startswith("agent_error: model: ") and f" {reason}:" not in error["message"]
    [listed] = client.call("tasks", conversation_id=task["conversation_id"])["tasks"]
    assert listed["error"] == error


def test_reason_of_a_server_that_is_not_there_or_silent(ask):
    task, _, _ = ask([answer("x")], agent="gone")
    assert task["error"]["reason"] == "model_unreachable" and "127.0.0.1 port 1" in task["error"]["message"]
    task, _, _ = ask([[m.head(), text("I was"), threading.Event()]], agent="silent")
    assert task["error"]["reason"] == "broke_off"


def test_reason_of_a_conversation_that_does_not_fit(ask):
    task, _, requests = ask([answer("x")], "y" * 400, agent="narrow")
    assert task["error"]["reason"] == "context_too_long" and not requests


def test_reason_survives_a_restart(server, second):
    with Gateway(config_of(server, second)) as gateway:
        with Client(gateway) as client:
            server.script = [said(429, "slow down")]
            task, _ = client.finish("hello")
            token = client.token
        gateway.stop()
        gateway.start()
        with Client(gateway, token=token) as client:
            assert client.task(task)["error"] == task["error"] and task["error"]["reason"] == "model_busy"


def test_short_errors_keep_the_servers_words_in_the_log(server, second):
    with Gateway(config_of(server, second, errors="short")) as gateway, Client(gateway) as client:
        for script, reason in ((said(429, "org-1234 is out of tokens"), "model_busy"), (said(400, "field org-1234"), None)):
            server.script = [script]
            task, events = client.finish("hello")
            assert task["error"].get("reason") == reason
            assert "org-1234" not in json.dumps([task, events]) and "HTTP" not in task["error"]["message"]
            gateway.logged("component=model", "event=failed", f"reason={reason or 'other'}", "org-1234")


def test_full_errors_are_the_default_on_loopback(ask):
    task, _, _ = ask([said(429, "org-1234 is out of tokens")])
    assert "HTTP 429: org-1234 is out of tokens" in task["error"]["message"]


# ------------------------------------------------------------------ fallback


def fallbacks(events):
    return [e["data"]["payload"] for e in events if e["event"] == "custom" and e["data"]["event_type"] == "model_fallback"]


def test_fallback_takes_a_turn_that_nothing_was_said_of(ask, second):
    second.script, second.requests[:] = [answer("From the second.")], []
    for script in (said(503, "busy"), reply(finish(), DONE), [RESET]):
        task, events, requests = ask([script], agent="doubled")
        assert (task["status"], task["output"]) == ("completed", "From the second.")
        assert len(requests) == 1 and fallbacks(events) == [{"from": "doubled", "to": "spare"}]
    assert second.requests[0].json["messages"] == requests[0].json["messages"]
    assert second.requests[0].json["model"] == "spare"


def test_fallback_has_a_fallback_and_the_last_fault_is_told(ask, second):
    second.script = [said(503, "busy too")]
    task, events, _ = ask([said(503, "busy"), answer("From the last.")], agent="doubled")
    assert task["output"] == "From the last." and [f["to"] for f in fallbacks(events)] == ["spare", "last"]
    task, _, _ = ask([said(503, "busy"), said(401, "who?")], agent="doubled")
    assert task["error"]["reason"] == "model_refused"


@pytest.mark.parametrize("piece", [text("I was"), m.delta(reasoning_content="Hm.")], ids=["word", "thought"])
def test_fallback_takes_nothing_that_was_begun(ask, second, piece):
    second.script, second.requests[:] = [answer("no")], []
    task, events, _ = ask([reply(piece)], agent="doubled")
    assert task["status"] == "failed" and not second.requests and not fallbacks(events)


def test_fallback_stays_for_the_task_and_goes_on_after_calls(ask, second):
    second.script, second.requests[:] = [answer("Twelve.")], []
    task, _, requests = ask([reply(call(0, "a", "clock", "{}"), finish("tool_calls"), DONE), said(429, "slow down")],
                            agent="doubled")
    assert task["output"] == "Twelve." and len(requests) == 2
    assert [said["role"] for said in second.requests[0].json["messages"]] == ["user", "assistant", "tool"]


@pytest.mark.parametrize("models, why", [
    ([{"name": "a", "fallback": "a"}], "ring"), ([{"name": "a", "fallback": "b"}, {"name": "b", "fallback": "a"}], "ring"),
    ([{"name": "a", "fallback": "c"}], "must name another entry")])
def test_fallback_is_checked(tmp_path, models, why):
    from gateway import run
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"models": [{"base_url": "http://x", "model": "x", **model} for model in models]}))
    result = run("check-config", str(path))
    assert result.returncode != 0 and why in result.stdout + result.stderr and "fallback" in result.stdout + result.stderr
