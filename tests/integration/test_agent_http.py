"""Agents of kind http: the run is posted, the reply is what they say."""

import json
import ssl
import subprocess
import threading
import time

import pytest

import model_server as m
from gateway import Gateway, wait_until
from holdfast import ids, names, text_of
from model_server import CLOSE, DONE, RESET, ModelServer, data, finish, head, reply, text


def certificate(folder):
    """A key and a self-signed certificate for 127.0.0.1."""
    key, cert = str(folder / "key.pem"), str(folder / "cert.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=test",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert],
                   check=True, capture_output=True)
    return key, cert


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    key, cert = certificate(tmp_path_factory.mktemp("tls"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    running = ModelServer(wrap=lambda sock: context.wrap_socket(sock, server_side=True))
    running.certificate = cert
    yield running
    running.close()


@pytest.fixture(scope="module")
def gateway(server, tls):
    def agent(name, url, **options):
        return {"name": name, "kind": "http", "url": url, "grace_s": 1, "retries": 1, **options}

    config = {"agents": [
        agent("plain", server.url + "/run", default=True, api_key_env="TEST_AGENT_KEY",
              headers={"X-Team": "kelp"}),
        agent("tls", tls.url + "/run", ca_file=tls.certificate),
        agent("stranger", tls.url + "/run"),
        agent("proxied", "http://agent.invalid/run", proxy=server.url),
        agent("gone", "http://127.0.0.1:1/"),
        agent("chat", server.url, form="openai", model="big"),
        agent("idle", server.url, idle_timeout_s=4)]}  # more than this process may sleep
    with Gateway(config, environ={"TEST_AGENT_KEY": "key-of-the-agent"}) as running:
        yield running


def event(event, **data):
    return {"event": event, "data": data}


def lines(*objects):
    return b"".join(json.dumps(o, ensure_ascii=False).encode() + b"\n" for o in objects)


NDJSON = {"content_type": "application/x-ndjson"}


@pytest.fixture
def ask(client, server):
    def run(*script, message="hello", **fields):
        server.script = list(script)
        server.requests.clear()
        return client.finish(message, **fields)

    return run


def test_run_is_posted(ask, server):
    task, _ = ask(reply(lines(event("final_answer", output="Hi.")), **NDJSON), message="hé")
    [request] = server.requests
    assert (request.method, request.path) == ("POST", "/run")
    assert request.headers["Authorization"] == "Bearer key-of-the-agent"
    assert request.headers["X-Team"] == "kelp"
    run = request.json
    assert run["type"] == "run" and run["input"] == "hé" and run["history"] == []
    assert run["task_id"] == task["task_id"] and task["output"] == "Hi."


def test_context_is_the_history_that_is_posted(ask, server):
    said = [{"role": "system", "content": "be short"}, {"role": "user", "content": "one"}]
    ask(reply(lines(event("final_answer", output="Hi.")), **NDJSON), context=said)
    assert server.requests[0].json["history"] == said


def test_json_lines_are_events(ask):
    body = lines(event("thinking", text="Hm."), event("token", text="Hel"),
                 event("tool_call", call_id="1", name="x", arguments={}),
                 event("tool_result", call_id="1", name="x", output="y"),
                 event("progress", progress=0.5), event("token", text="lo 🌊"),
                 event("result", n=1), event("final_answer", output="Hello 🌊"))
    for step in (1, 3, len(body)):
        task, events = ask([head(**NDJSON), *(body[i:i + step] for i in range(0, len(body), step)),
                            CLOSE])
        assert task["status"] == "completed" and task["output"] == "Hello 🌊"
        assert text_of(events) == "Hello 🌊" and task["result"] == {"n": 1}
        assert names(events)[2:-1] == ["thinking", "token", "tool_call", "tool_result", "progress",
                                       "token", "final_answer"]


@pytest.mark.parametrize("end", ["\n\n", "\r\n\r\n", "\r\r"])
def test_server_sent_events(ask, end):
    task, events = ask(reply(b": hello" + end.encode(), data(event("token", text="a"), end),
                             b"id: 5\nevent: message\n", data(event("token", text="b"), end),
                             data(event("final_answer", output="ab"), "")))
    assert (task["status"], task["output"], text_of(events)) == ("completed", "ab", "ab")


def test_chunks_of_openai(ask):
    task, events = ask(reply(m.delta(role="assistant"), m.delta(reasoning="Hm."), text("Hel"),
                             text("lo"), finish(), DONE))
    assert (task["output"], text_of(events, "thinking")) == ("Hello", "Hm.")
    task, _ = ask(reply(text("Hel"), finish("length"), DONE))
    assert "length" in task["error"]["message"] and task["output"] == "Hel"


@pytest.mark.parametrize("how, body", [
    ({}, lines(event("token", text="ab"), event("final_answer", output="ab"))),
    ({"content_type": "text/plain"}, data(event("token", text="ab")) + data(event("final_answer", output="ab"))),
    ({"content_type": "text/plain"}, b"\xef\xbb\xbf\r\n" + lines(event("token", text="ab"), event("final_answer", output="ab"))),
    ({}, b"data: null\n\nevent: ping\ndata: 12:00\n\n" + text("ab") + finish() + DONE),
    ({}, text("a") + text("b") + data({"choices": [{"message": {"content": "ab"}, "finish_reason": "stop"}]})),
], ids=["lines-as-events", "events-as-text", "mark", "alive", "whole-message-behind"])
def test_forms_of_a_reply(ask, how, body):
    for step in (1, len(body)):
        task, events = ask([head(**how), *(body[i:i + step] for i in range(0, len(body), step)), CLOSE])
        assert (task["status"], task["output"], text_of(events)) == ("completed", "ab", "ab")


def test_chunks_of_openai_end_with_a_reason(ask):
    """Their stream is whole then, whatever becomes of the body; without one it is not, though that is whole."""
    def body(*parts):
        return [head(Transfer_Encoding="chunked"), *(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)]

    task, _ = ask([*body(text("ab"), finish()), CLOSE])
    assert (task["status"], task["output"]) == ("completed", "ab")
    task, _ = ask([*body(text("ab")), b"0\r\n\r\n", CLOSE])
    assert task["status"] == "failed" and "broke off" in task["error"]["message"] and task["output"] == "ab"


def test_reply_with_a_length_may_end_without_final_answer(ask):
    body = lines(event("token", text="short"))
    task, _ = ask([head(Content_Length=len(body), **NDJSON), body, CLOSE])
    assert (task["status"], task["output"]) == ("completed", "short")


@pytest.mark.parametrize("steps, why", [
    ([lines(event("token", text="I was"))], "broke off before its end"),
    ([lines(event("token", text="I was")), b'{"event":"tok'], "broke off before its end"),
    ([lines(event("token", text="I was")), b"nonsense\n"], "not JSON"),
    ([lines(event("token", text="I was"), {"hello": 1})], "neither"),
    ([lines(event("token", text="I was"), event("task.started"))], "only the gateway makes event"),
    ([lines(event("token", text="I was"), {"call": "spawn", "call_id": "1", "input": "x"})],
     "a call, which"),
    ([lines(event("token", text="I was"),
            event("input_required", input_id="1", kind="question", prompt="?"))],
     "a question, which"),
    ([lines(event("token", text="I was"), {"error": {"message": "out of ink"}})],
     "the agent said: out of ink"),
    ([lines(event("token", text="I was"), {"error": "ValueError", "message": "out of ink"})],
     "the agent said: ValueError: out of ink"),
], ids=["close", "torn", "nonsense", "other", "reserved", "call", "question", "error", "error-and-message"])
def test_what_ends_badly_keeps_what_was_said(ask, server, steps, why):
    task, events = ask(reply(*steps, **NDJSON))
    assert task["status"] == "failed" and task["error"]["code"] == "agent_error", task
    assert why in task["error"]["message"], task["error"]
    assert task["output"] == "I was" and len(server.requests) == 1


def test_event_that_is_an_error(ask):
    for said in (b"out of ink\n\n", b'{"message": "out of ink"}'):
        task, _ = ask(reply(data(event("token", text="I was")), b"event: error\ndata: " + said))
        assert task["error"]["message"] == "agent_error: the agent said: out of ink" and task["output"] == "I was"


def test_connection_that_is_reset(client, server):
    seen = threading.Event()
    server.script = [[head(**NDJSON), lines(event("token", text="I was")), seen, RESET]]
    task = client.chat("x")
    client.event(task, "token")
    seen.set()
    assert "broke off" in client.wait_terminal(task)["data"]["error"]["message"]


def test_refusals(ask, server):
    task, _ = ask(reply(b'{"detail": "no such graph"}', status=404))
    assert "HTTP 404: no such graph" in task["error"]["message"] and len(server.requests) == 1
    task, _ = ask(reply(status=500))  # it may have done something
    assert "HTTP 500" in task["error"]["message"] and len(server.requests) == 1
    task, _ = ask([RESET])
    assert task["status"] == "failed" and len(server.requests) == 1
    task, _ = ask(reply(status=503), reply(lines(event("final_answer", output="now")), **NDJSON))
    assert task["output"] == "now" and len(server.requests) == 2
    task, _ = ask(agent="gone")
    assert "127.0.0.1 port 1" in task["error"]["message"]


def test_tls(client, tls):
    tls.script = [reply(lines(event("final_answer", output="safe")), **NDJSON)]
    task, _ = client.finish("x", agent="tls")
    assert task["output"] == "safe"
    task, _ = client.finish("x", agent="stranger")
    assert task["status"] == "failed" and "certificate" in task["error"]["message"]


def test_proxy(ask, server):
    task, _ = ask(reply(lines(event("final_answer", output="by proxy")), **NDJSON), agent="proxied")
    assert task["output"] == "by proxy"
    assert server.requests[0].path == "http://agent.invalid/run"


def test_cancel_closes_the_request(client, server):
    server.script = [[head(**NDJSON), lines(event("token", text="I am")), threading.Event()]]
    server.requests.clear()
    task = client.chat("x")
    client.event(task, "token")
    client.refused("no_inbox", "send", **ids(task), content="x")
    client.call("cancel", **ids(task))
    wait_until(lambda: server.requests[-1].left, "the request's end")
    assert client.wait_terminal(task)["data"]["error"]["code"] == "cancelled"


def test_silence_is_a_timeout(ask):
    task, _ = ask([head(**NDJSON), lines(event("token", text="I am")), threading.Event()],
                  agent="idle")
    assert task["error"]["code"] == "timeout" and task["output"] == "I am"


def test_fast_agent_is_read_whole(ask):
    body = [lines(*(event("token", text=f"{i} ") for i in range(j, j + 1000)))
            for j in range(0, 20000, 1000)]
    task, events = ask(reply(*body, lines(event("final_answer", output="all")), **NDJSON))
    assert task["output"] == "all"
    assert text_of(events) == "".join(f"{i} " for i in range(20000))


# ------------------------------------------------------------------ the end is the end


def chunked(*parts):
    return [head(Transfer_Encoding="chunked"), *(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)]


@pytest.mark.parametrize("end", [[finish(), DONE], [finish()], [finish(), m.usage(3, 4)],
                                 [finish(), DONE, text("late"), finish("length"), b"data: {nonsense\n\n"]],
                         ids=["done", "reason", "usage", "after-done"])
@pytest.mark.parametrize("form", [chunked, lambda *parts: [head(), *parts]], ids=["chunks", "bare"])
def test_end_of_chunks_is_the_end_on_a_connection_that_stays_open(ask, server, form, end):
    began = time.monotonic()
    task, events = ask([*form(text("Hello"), *end), threading.Event()])
    assert (task["status"], task["output"], text_of(events)) == ("completed", "Hello", "Hello")
    assert time.monotonic() - began < 60  # idle_timeout_s of an agent is 300
    wait_until(lambda: server.requests[0].left, "the connection's end")


def test_nothing_after_done_is_part_of_the_answer(ask):
    for body in (text("Hello") + finish() + DONE + text(" late"), text("Hello") + DONE + b"data: nonsense\n\n"):
        task, events = ask([head(Content_Length=len(body)), body, CLOSE])
        assert (task["status"], task["output"], text_of(events)) == ("completed", "Hello", "Hello")


def test_end_of_chunks_whose_comments_go_on(ask):
    """The agent is never silent, and has ended all the same."""
    class Pause(threading.Event):
        def wait(self, timeout=None):
            return super().wait(0.1) or True

    task, _ = ask([head(), text("Hello"), finish(), *([b": on\n\n", Pause()] * 600)], agent="idle")
    assert (task["status"], task["output"]) == ("completed", "Hello")


@pytest.mark.parametrize("rest", [b"", b"\n", b'{"event":"tok'], ids=["silent", "blank", "torn"])
def test_silence_after_final_answer_is_its_end(ask, rest):
    task, _ = ask([head(**NDJSON), lines(event("token", text="so"), event("final_answer", output="42")) + rest,
                   threading.Event()], agent="idle")
    assert (task["status"], task["output"]) == ("completed", "42"), task


def test_final_answer_without_a_newline_and_silence(ask):
    body = lines(event("final_answer", output="42"))[:-1]
    task, _ = ask([head(**NDJSON), body, threading.Event()], agent="idle")
    assert (task["status"], task["output"]) == ("completed", "42"), task


def test_last_final_answer_and_a_result_after_it_count(ask):
    body = lines(event("final_answer", output="41"), event("final_answer", output="42"), event("result", n=1))
    for rest in (threading.Event(), CLOSE):
        task, _ = ask([head(**NDJSON), body, rest], agent="idle")
        assert (task["status"], task["output"], task["result"]) == ("completed", "42", {"n": 1})


def test_reset_after_final_answer_is_its_end(client, server):
    seen = threading.Event()
    server.script = [[head(**NDJSON), lines(event("final_answer", output="42")), seen, RESET]]
    task = client.chat("x")
    client.event(task, "final_answer")
    seen.set()
    assert client.wait_terminal(task)["data"]["output"] == "42"
    assert client.task(task)["status"] == "completed"


@pytest.mark.parametrize("rest", [b"", b'{"event":"tok'], ids=["whole", "torn"])
@pytest.mark.parametrize("how", [{}, {"Content_Length": 9999}, {"Transfer_Encoding": "chunked"}],
                         ids=["bare", "length", "chunks"])
def test_cut_after_final_answer_is_its_end(ask, how, rest):
    body = lines(event("token", text="so"), event("final_answer", output="42")) + rest
    if "Transfer_Encoding" in how:
        body = b"%x\r\n%s\r\n" % (len(body), body)
    task, _ = ask([head(**NDJSON, **how), body, CLOSE])
    assert (task["status"], task["output"]) == ("completed", "42"), task


def test_cancel_after_final_answer_is_a_cancel(client, server):
    server.script = [[head(**NDJSON), lines(event("final_answer", output="42")), threading.Event()]]
    task = client.chat("x")
    client.event(task, "final_answer")
    client.call("cancel", **ids(task))
    assert client.wait_terminal(task)["data"]["status"] == "cancelled"


@pytest.mark.parametrize("steps", [[finish(), DONE], [m.delta(reasoning="Hm."), finish()], [text("\n"), finish(), DONE]],
                         ids=["nothing", "thoughts", "blank"])
def test_g19_chunks_without_an_answer_are_a_failure(ask, server, steps):
    task, _ = ask(reply(*steps))
    assert task["status"] == "failed" and "ended without an answer" in task["error"]["message"]
    assert len(server.requests) == 1  # it may have done something


# -------------------------------------------------------------- the form openai


@pytest.fixture
def chat(client, server):
    def run(*script, message="hello", **fields):
        server.script = list(script)
        server.requests.clear()
        return client.finish(message, agent="chat", **fields)

    return run


def test_openai_request_has_the_conversation(chat, server):
    task, _ = chat(reply(text("Hi."), finish(), m.usage(3, 4), DONE))
    assert task["result"] == {"usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}}
    task, _ = chat(m.answer("Yes."), message="again", conversation=task["conversation_id"])
    assert (task["output"], task.get("result")) == ("Yes.", None)
    [request] = server.requests
    assert request.json == {
        "model": "big", "stream": True, "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "Hi."},
                     {"role": "user", "content": "again"}]}


def test_openai_server_that_cannot_count_is_asked_again(chat, server):
    refusal = b'{"error":{"message":"Unknown parameter: stream_options"}}'
    task, _ = chat([head(400, "application/json", Content_Length=len(refusal)), refusal, CLOSE], m.answer("Hi."))
    assert (task["status"], task["output"]) == ("completed", "Hi.")
    first, second = (request.json for request in server.requests)
    assert first.pop("stream_options") and first == second
    task, _ = chat([head(400, "application/json", Content_Length=len(refusal)), refusal, CLOSE])
    assert task["error"]["message"] == "agent_error: HTTP 400: Unknown parameter: stream_options"
    assert len(server.requests) == 2


def test_openai_call_of_a_tool_is_no_answer(chat):
    task, _ = chat(reply(m.call(0, "c1", "rm", "{}"), finish("tool_calls"), DONE))
    assert task["error"]["message"] == "agent_error: the agent ended without an answer"
