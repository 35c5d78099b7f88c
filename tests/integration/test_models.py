"""Models over HTTP, spoken by a server of ours that does well or badly, byte by byte."""

import itertools
import json
import threading

import pytest

import model_server as m
from gateway import Gateway, wait_until
from holdfast import Client, names, text_of
from model_server import DONE, RESET, answer, call, finish, reply, text


@pytest.fixture(scope="module")
def gateway(server, tmp_path_factory):
    key = tmp_path_factory.mktemp("key") / "key"
    key.write_text("sk-from-a-file\n")
    url = server.url + "/v1"

    def model(name, **options):
        return {"name": name, "base_url": url, "model": "qwen3", **options}

    def agent(name, **options):
        return {"name": name, "kind": "react", "grace_s": 1,
                "tools": ["calculator", "clock"], **options}

    config = {
        "models": [model("plain", api_key_env="TEST_MODEL_KEY", headers={"X-Team": "kelp"}),
                   model("filed", api_key_file=str(key), base_url=url + "/"),
                   model("hasty", idle_timeout_s=4, retries=0),
                   model("narrow", context_bytes=1500)],
        "agents": [agent("plain", model="plain", system="Be brief.", default=True),
                   agent("filed", model="filed"), agent("hasty", model="hasty"),
                   agent("narrow", model="narrow", max_turns=3)],
    }
    with Gateway(config, environ={"TEST_MODEL_KEY": "sk-from-the-environment"}) as running:
        yield running


@pytest.fixture
def ask(client, server):
    """ask(script, …): the ended task, its events, the requests that its model has got."""

    def run(script, message="hello", **fields):
        server.script = script
        server.requests.clear()
        task, events = client.finish(message, **fields)
        return task, events, list(server.requests)

    return run


def messages_of(request):
    return [(message["role"], message["content"]) for message in request.json["messages"]]


# ------------------------------------------------------------------ what goes well


def test_answer_streams_and_usage_is_the_result(ask):
    task, events, [request] = ask([reply(
        m.delta(role="assistant", content=""), m.delta(reasoning_content="Hm. "),
        m.delta(reasoning="So. "), text("Hel"), text("lo 🌊"), finish(), m.usage(2, 1), m.usage(9, 4),
        m.data({"choices": [], "usage": {}}), DONE)])
    assert task["status"] == "completed" and task["output"] == "Hello 🌊"
    assert text_of(events, "thinking") == "Hm. So. "
    assert [e["data"]["text"] for e in events if e["event"] == "token"] == ["Hel", "lo 🌊"]
    assert task["result"] == {"usage": {"prompt_tokens": 9, "completion_tokens": 4,
                                        "total_tokens": 13}}


def test_request_is_what_openai_describes(ask):
    _, _, [request] = ask([answer("Hi.")], "hé")
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert request.headers["Authorization"] == "Bearer sk-from-the-environment"
    assert request.headers["X-Team"] == "kelp"
    assert request.headers["Content-Type"] == "application/json"
    assert "text/event-stream" in request.headers["Accept"]
    body = request.json
    assert body["model"] == "qwen3" and body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}
    assert body["messages"] == [{"role": "system", "content": "Be brief."},
                                {"role": "user", "content": "hé"}]
    assert [tool["function"]["name"] for tool in body["tools"]] == ["calculator", "clock"]
    assert all(tool["function"]["parameters"]["type"] == "object" for tool in body["tools"])


def test_key_from_a_file_and_slash_behind_the_url(ask):
    _, _, [request] = ask([answer("Hi.")], agent="filed")
    assert request.headers["Authorization"] == "Bearer sk-from-a-file"
    assert request.path == "/v1/chat/completions"


def test_secrets_are_not_logged(gateway, ask):
    ask([reply(status=401)])
    assert not [line for line in gateway.log if "sk-from" in line]


def whole_answer():
    return b"".join([text("Hél"), text("lo 🌊!"), finish(), m.usage(1, 2), DONE])


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize("step", [1, 2, 3, 5, 7, 64])
def test_stream_cut_into_pieces_of_any_size(ask, step, newline):  # F59
    whole = whole_answer().replace(b"\n", newline)
    pieces = [whole[at:at + step] for at in range(0, len(whole), step)]
    task, events, _ = ask([reply(*pieces)])
    assert task["output"] == "Héllo 🌊!"
    assert [e["data"]["text"] for e in events if e["event"] == "token"] == ["Hél", "lo 🌊!"]


@pytest.mark.parametrize("change", [
    lambda b: b.replace(b"\n", b"\r\n"),
    lambda b: b.replace(b"\n", b"\r"),
    lambda b: b.replace(b"data: ", b": ping\n\ndata:"),
    lambda b: b"\xef\xbb\xbfretry: 10\nid: 7\n\n" + b,
    lambda b: b.replace(b',"', b',\ndata: "').replace(b', "', b',\ndata: "'),  # data of many lines
    lambda b: b.rstrip(b"\n"),
    lambda b: b[:-len(DONE)],  # finish_reason came: that is an end
    lambda b: b + b"data: {\"choices\": []}\n\n" + text("ignored"),
    lambda b: b.replace(b"data: [DONE]", b"data:  [DONE] "),
    lambda b: b.replace(b'"finish_reason": null', b'"finish_reason": ""'),  # as Ollama's and SGLang's
    lambda b: m.data({"choices": [], "prompt_filter_results": [{"prompt_index": 0}]}) + b,  # as Azure's
    lambda b: b.replace(b"data: {", b"data: null\n\ndata: {"),  # to keep the connection alive
    lambda b: b"event: ping\ndata: 2023-02-20 08:40:33.556053\n\n" + b,
    lambda b: b.replace(b'"choices"', b'"error": {}, "choices"'),
    lambda b: b[:-len(DONE)] + m.data({"choices": [{"message": {"content": "Héllo 🌊!"}}]}) + DONE,
], ids=["crlf", "cr", "comments", "bom", "lines", "no-last-newline", "no-done", "after-done", "done-in-spaces",
        "empty-reason", "no-choice-first", "null", "ping", "empty-error", "whole-message-behind"])
def test_forms_of_a_stream(ask, change):  # F59
    task, _, _ = ask([reply(change(whole_answer()))])
    assert (task["status"], task["output"]) == ("completed", "Héllo 🌊!")


def test_content_in_parts(ask):
    """As Mistral's reasoning models write it: none of it may be lost in silence."""
    def part(type, value):
        return m.delta(content=[{"type": type, type: value}])

    task, events, _ = ask([reply(part("thinking", [{"type": "text", "text": "Hm. "}]), part("thinking", "So. "),
                                 part("text", "Hel"), m.delta(content=["lo"]), part("reference", [1]), finish(), DONE)])
    assert (task["status"], task["output"], text_of(events, "thinking")) == ("completed", "Hello", "Hm. So. ")
    assert len([e for e in events if e["event"] == "token"]) == 2


def test_character_that_two_pieces_share(ask):
    """As a server that counts in UTF-16 cuts it; a backslash before it, and a half that stays alone, are no such."""
    def raw(content):
        return b'data: {"choices":[{"delta":{"content":"%s"}}]}\n\n' % content

    task, events, _ = ask([reply(raw(rb"a\ud83c"), raw(rb"\udf0a b"), raw(rb"\\ud83c"), raw(rb"\uD83C"), raw(b"c"),
                                 raw(rb"\ud83c"), raw(rb"\ud83c\udf0a"), raw(rb"\ud83c"), finish(), DONE)])
    assert task["output"] == text_of(events) == "a🌊 b\\ud83c\ufffdc\ufffd🌊\ufffd"


def test_server_that_does_not_stream(ask):
    whole = {"choices": [{"index": 0, "finish_reason": "stop",
                          "message": {"role": "assistant", "content": "All at once."}}],
             "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}}
    task, _, _ = ask([reply(json.dumps(whole, indent=1).encode(), content_type="application/json")])
    assert task["output"] == "All at once." and task["result"]["usage"]["total_tokens"] == 7


@pytest.mark.parametrize("kind", ["application/json", "text/plain; charset=utf-8", "Text/Event-Stream", None])
def test_stream_is_one_whatever_its_content_type(ask, kind):
    begun = m.head(content_type=kind) if kind else b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
    stream = b": OPENROUTER PROCESSING\n\n" + whole_answer()
    task, _, _ = ask([[begun, *(stream[at:at + 1] for at in range(8)), stream[8:], m.CLOSE]])
    assert (task["status"], task["output"]) == ("completed", "Héllo 🌊!")


@pytest.mark.parametrize("last", [b"", b"\n\ndata: [DONE]\n\n"])
def test_json_that_is_called_a_stream(ask, last):
    whole = {"choices": [{"message": {"content": "All at once."}, "finish_reason": "stop"}]}
    task, _, _ = ask([reply(json.dumps(whole, indent=1).encode() + last)])
    assert (task["status"], task["output"]) == ("completed", "All at once.")
    task, _, _ = ask([reply(b'{"error": {"message": "quota exceeded"}}' + last)])
    assert task["error"]["message"].endswith("the server said: quota exceeded")


def test_answer_is_whole_with_its_finish_reason(ask):
    """Not with what comes behind it: usage, [DONE], the last chunk of the body."""
    task, _, requests = ask([[m.head(Transfer_Encoding="chunked"), *chunks(text("Hello"), finish()), m.CLOSE]],
                            agent="hasty")
    assert (task["status"], task["output"], len(requests)) == ("completed", "Hello", 1)
    task, _, _ = ask([[m.head(Transfer_Encoding="chunked"), *chunks(text("Hello")), m.CLOSE]], agent="hasty")
    assert task["status"] == "failed" and "broke off" in task["error"]["message"]


def chunks(*parts):
    return [b"%x\r\n%s\r\n" % (len(part), part) for part in parts]


def test_connection_is_used_again(ask):
    _, _, [first, second] = ask([m.kept(call(0, "a", "clock", "{}"), finish("tool_calls"), DONE),
                                 m.kept(text("Now."), finish(), DONE)])
    assert first.peer == second.peer


# ------------------------------------------------------------------ tools


def test_tool_calls_in_pieces_are_made_and_answered(ask):
    task, events, requests = ask([
        reply(text("Let me see."), call(0, "c1", "calculator", ""), call(1, "c2", "clock", "{}"),
              call(0, arguments='{"expres'), call(0, arguments='sion": "6*7"}'),
              finish("tool_calls"), m.usage(10, 5), DONE),
        reply(text("42."), finish(), m.usage(20, 6), DONE)], "what is 6*7?")
    assert task["output"] == "42." and task["result"]["usage"]["total_tokens"] == 41
    results = {e["data"]["call_id"]: e["data"] for e in events if e["event"] == "tool_result"}
    assert results["c1"]["output"] == "42" and not results["c1"]["is_error"]
    assert results["c2"]["name"] == "clock"
    said = requests[1].json["messages"]
    assert said[2]["role"] == "assistant" and said[2]["content"] == "Let me see."
    assert [c["id"] for c in said[2]["tool_calls"]] == ["c1", "c2"]
    assert said[2]["tool_calls"][0] == {
        "id": "c1", "type": "function",
        "function": {"name": "calculator", "arguments": '{"expression":"6*7"}'}}
    assert (said[3]["role"], said[3]["tool_call_id"], said[3]["content"]) == ("tool", "c1", "42")
    assert said[4]["tool_call_id"] == "c2"


def test_calls_that_cannot_be_made_go_back_to_the_model(ask):
    task, events, requests = ask([
        reply(call(0, "a", "calculator", '{"expression": '), call(1, "b", "teleport", "{}"),
              call(2, "c", "calculator", "[]"), finish("tool_calls"), DONE),
        answer("Sorry.")])
    assert task["status"] == "completed"
    told = [content for role, content in messages_of(requests[1]) if role == "tool"]
    assert "not JSON" in told[0] and "no tool" in told[1] and "not a JSON object" in told[2]
    assert all(e["data"]["is_error"] for e in events if e["event"] == "tool_result")


@pytest.mark.parametrize("tool, arguments", [("clock", " "), ("clock", "null"), ("clock", '""'), ("clock", None),
                                             ("calculator", '"{\\"expression\\":\\"42\\"}"')])
def test_arguments_that_are_no_object_and_mean_one(ask, tool, arguments):
    task, events, _ = ask([reply(call(0, "a", tool, arguments), finish("tool_calls"), DONE), answer("ok")])
    [result] = [e["data"] for e in events if e["event"] == "tool_result"]
    assert not result["is_error"] and task["output"] == "ok", result


@pytest.mark.parametrize("name", ["clock<|channel|>commentary", "functions.clock", " clock\n"])
def test_name_of_a_tool_that_its_server_has_garbled(ask, name):
    _, events, requests = ask([reply(call(0, "a", name, "{}"), finish("tool_calls"), DONE), answer("ok")])
    assert [e["data"]["name"] for e in events if e["event"].startswith("tool")] == ["clock", "clock"]
    assert not [e for e in events if e["data"].get("is_error")]
    assert requests[1].json["messages"][2]["tool_calls"][0]["function"]["name"] == "clock"


def test_calls_without_ids_and_indexes(ask):
    """Some servers leave them out, or give each call the same id."""
    def piece(**function):
        return m.delta(tool_calls=[{"function": function}])

    first = m.delta(tool_calls=[{"id": "x", "function": {"name": "clock", "arguments": "{}"}}])
    second = m.delta(tool_calls=[{"id": "x", "function": {"name": "calculator"}}])
    task, events, requests = ask([
        reply(first, second, piece(arguments='{"expression":"1+1"}'), finish("tool_calls"), DONE),
        answer("2")])
    called = [e["data"] for e in events if e["event"] == "tool_call"]
    assert [c["name"] for c in called] == ["clock", "calculator"]
    assert len({c["call_id"] for c in called}) == 2
    assert task["output"] == "2"


def unnumbered(*pieces):
    return m.delta(tool_calls=list(pieces))


@pytest.mark.parametrize("pieces", [
    [[call(0, "a", "calculator", '{"expression":"1+1"}')], [call(0, "b", "calculator", '{"expression":"2+2"}')]],
    [[call(0, "a", "calculator", '{"expres')], [call(0, "a", "calculator", 'sion":"1+1"}')],
     [call(0, "b", "calculator", "")], [call(0, "b", "calculator", '{"expression":"2+2"}')]],
    [[call(0, "a", "calculator", {"expression": "1+1"})], [call(1, "b", "calculator", {"expression": "2+2"})]],
    [[unnumbered({"id": "a", "function": {"name": "calculator", "arguments": '{"exp'}})],
     [unnumbered({"id": "b", "function": {"name": "calculator", "arguments": '{"exp'}})],
     [unnumbered({"id": "a", "function": {"arguments": 'ression":"1+1"}'}})],
     [unnumbered({"id": "b", "function": {"arguments": 'ression":"2+2"}'}})]],
    [[unnumbered({"id": "a", "function": {"name": "calculator"}}, {"id": "b", "function": {"name": "calculator"}})],
     [unnumbered({"function": {"arguments": '{"expression":"1+1"}'}},
                 {"function": {"arguments": '{"expression":"2+2"}'}})]],
    [[unnumbered({"id": "a", "function": {"arguments": '{"expression":'}})],
     [unnumbered({"id": "a", "function": {"arguments": '"1+1"}'}})],
     [unnumbered({"id": "a", "function": {"name": "calculator"}})],
     [call(0, "", "", ""), call(7, "b", "calculator", '{"expression":"2+2"}')]],
    [[call(0, "a", "calculator", '{"expression":"1+1"}')] * 2, [call(1, "b", "calculator", '{"expr')],
     [call(1, "b", None, '{"expression":"2+')], [call(1, "b", None, '{"expression":"2+2"}')]],
], ids=["all-number-0", "id-and-name-in-each-piece", "arguments-are-an-object", "ids-alone", "places-alone",
        "arguments-before-the-name", "arguments-again-in-each-piece"])
def test_calls_of_two_are_told_apart(ask, pieces):
    """As Gemini's, vLLM's, Ollama's, SGLang's and Qianfan's servers write them."""
    _, events, requests = ask([reply(*itertools.chain(*pieces), finish("tool_calls"), DONE), answer("2 and 4")])
    results = [(e["data"]["call_id"], e["data"]["output"]) for e in events if e["event"] == "tool_result"]
    assert sorted(results) == [("a", "2"), ("b", "4")]
    assert [c["id"] for c in requests[1].json["messages"][2]["tool_calls"]] == ["a", "b"]


def test_cap_on_turns_is_told(ask):
    task, _, requests = ask([reply(call(0, "a", "clock", "{}"), finish("tool_calls"), DONE)],
                            agent="narrow")
    assert task["status"] == "failed" and "within 3 turns" in task["error"]["message"]
    assert len(requests) == 3


# ------------------------------------------------------------------ what goes wrong


@pytest.mark.parametrize("steps, why", [
    ([text("I was going to"), finish("length"), DONE], "length"),
    ([text("I was going to"), finish("content_filter"), DONE], "content_filter"),
    ([text("I was going to"), finish("model_length"), DONE], "its length limit"),
    ([text("I was going to"), finish("max_tokens"), DONE], "its length limit"),
    ([text("I was going to"), finish("error"), DONE], "broke off the answer"),
    ([text("I was going to"), finish("abort"), DONE], "broke off the answer"),
    ([text("I was going to"), finish("insufficient_system_resource"), DONE], "broke off the answer"),
    ([text("I was going to"), m.data({"error": {"message": "GPU on\nfire", "code": 500}})],
     "the server said: GPU on fire"),
    ([text("I was going to"), b"event: error\n", m.data({"error": "overloaded"})], "overloaded"),
    ([text("I was going to"), b"event: error\ndata: upstream is gone\n\n", DONE], "the server said: upstream is gone"),
    ([text("I was going to"), b'error: {"code":400,"message":"the context is full"}\n\n', DONE],
     "the server said: the context is full"),
    ([text("I was going to"), m.data({"object": "error", "message": "CUDA is out"}), DONE], "the server said: CUDA is out"),
    ([text("I was going to"), m.data({"detail": "shutting down"}), DONE], "the server said: shutting down"),
    ([m.data({"choices": [{"delta": {"content": "I was going to"}, "finish_reason": "error",
                           "error": {"code": 502, "metadata": {"raw": "33 of 32"}}}]}), DONE],
     "the server said: 502: 33 of 32"),
    ([text("I was going to"), finish("SAFETY"), DONE], "content filter"),
    ([text("I was going to"), finish("network-error"), DONE], "broke off the answer"),
    ([text("I was going to"), finish("function_call_filter: MALFORMED_FUNCTION_CALL"), DONE], "call of a tool"),
    # 31 bytes of a reason are kept, which ends within the thirteenth "ä".
    ([text("I was going to"), finish("abort:" + "ä" * 20)], f'(finish_reason "abort:{"ä" * 12}")'),
    ([text("I was going to")], "broke off"),
    ([text("I was going to"), b'data: {"choices": [{"delta": {"con'], "broke off"),
    ([text("I was going to"), b"data: {nonsense}\n\n"], "not JSON"),
], ids=["length", "filter", "model-length", "max-tokens", "error-reason", "abort", "resource", "error", "error-text",
        "error-event", "error-field", "error-object", "detail", "error-of-the-choice", "safety", "network", "malformed", "long-reason", "close",
        "half", "nonsense"])
def test_stream_that_ends_badly_keeps_what_was_said(ask, client, steps, why):
    task, events, requests = ask([reply(*steps)])
    assert task["status"] == "failed" and task["error"]["code"] == "agent_error", task
    assert why in task["error"]["message"] and task["error"]["message"].startswith("agent_error: model:")
    assert task["output"] == "I was going to" == text_of(events)
    assert len(requests) == 1  # no second try behind the first piece


def test_connection_that_is_reset_behind_the_first_piece(client, server):
    seen = threading.Event()
    server.script = [[m.head(), text("I was going to"), seen, RESET]]
    server.requests.clear()
    task = client.chat("hello")
    client.event(task, "token")
    seen.set()
    assert "broke off" in client.wait_terminal(task)["data"]["error"]["message"]
    assert client.task(task)["output"] == "I was going to" and len(server.requests) == 1


def test_length_of_declared_body_that_does_not_come(ask):
    task, _, _ = ask([[m.head(Content_Length=100000), text("I was going to"), m.CLOSE]])
    assert task["status"] == "failed" and "broke off" in task["error"]["message"]
    assert task["output"] == "I was going to"


@pytest.mark.parametrize("how, body, why", [
    ({"status": 401, "content_type": "application/json"},
     b'{"error": {"message": "Incorrect API key", "type": "auth"}}', "HTTP 401: Incorrect API key"),
    ({"status": 404, "content_type": "text/plain"}, b"no such model\nbye", "HTTP 404: no such model"),
    ({"status": 400, "content_type": "text/html"}, b"<html>oh", "HTTP 400"),
    ({"status": 302, "Location": "http://127.0.0.1:1/"}, b"", "HTTP 302"),
    ({"content_type": "text/html"}, b"<html>Welcome to nginx", "neither an event stream nor JSON"),
    ({"content_type": "application/json"}, b'{"hello": 1}', "no choices"),
    ({"content_type": "application/json"}, b'{"choices": [', "something that is not JSON: unexpected end"),
    ({"content_type": "application/json"}, b'{"error": {"message": "no"}}', "the server said: no"),
    ({"content_type": "application/json"}, b'[{"error": {"message": "no"}}]', "the server said: no"),
    ({"status": 400}, b'[{\n "error": {"code": 400, "message": "no such field"}}]', "HTTP 400: no such field"),
    ({}, DONE, "no choices"),
    ({}, m.usage(3, 0) + DONE, "no choices"),
    ({}, m.data({"choices": None, "base_resp": {"status_code": 1008, "status_msg": "no balance"}}) + DONE,
     "the server said: no balance"),
    ({}, finish("tool_calls") + DONE, "named none"),
])
def test_reply_that_is_none_is_told_once(ask, how, body, why):
    task, _, requests = ask([reply(body, **how)])
    assert task["status"] == "failed" and why in task["error"]["message"], task["error"]
    assert len(requests) == 1


def test_trouble_before_the_first_piece_is_tried_again(ask):
    task, _, requests = ask([reply(status=503), [RESET], reply(status=429, Retry_After="1"),
                             answer("At last.")])
    assert task["output"] == "At last." and len(requests) == 4
    assert requests[3].at - requests[2].at > 0.99  # Retry-After; clocks count in whole milliseconds
    assert requests[1].at - requests[0].at > 0.24


@pytest.mark.parametrize("status, said", [
    (400, {"error": {"message": "Unrecognized request argument supplied: stream_options"}}),
    (422, {"object": "error", "message": {"detail": [{"type": "extra_forbidden", "msg": "Extra inputs are not permitted",
                                                      "loc": ["body", "stream_options", "include_usage"]}]}})])
def test_server_that_does_not_count_is_asked_without(server, status, said):  # Azure's, Mistral's
    server.script = lambda request: reply(json.dumps(said).encode(), status=status) \
        if "stream_options" in request.json else answer("Hi.")
    server.requests.clear()
    config = {"models": [{"name": "m", "base_url": server.url, "model": "x"}],
              "agents": [{"name": "a", "kind": "react", "model": "m", "default": True}]}
    with Gateway(config) as gateway, Client(gateway) as client:
        for _ in range(2):
            task, _ = client.finish("hello")
            assert task["output"] == "Hi.", task
    assert ["stream_options" in request.json for request in server.requests] == [True, False, False]  # learnt


def test_retries_end(ask):
    task, _, requests = ask([reply(b'{"error":{"message":"busy"}}', status=503, Retry_After="0")],
                            agent="hasty")
    assert "HTTP 503: busy" in task["error"]["message"] and len(requests) == 1
    task, _, requests = ask([reply(status=429, Retry_After="3600")])
    assert "HTTP 429" in task["error"]["message"] and len(requests) == 1


def test_silence_is_ended(ask):
    never = threading.Event()
    task, _, _ = ask([[m.head(), text("I was"), never]], agent="hasty")
    assert "nothing arrived for 4 s" in task["error"]["message"] and task["output"] == "I was"


def test_nobody_listens():
    config = {"models": [{"name": "gone", "base_url": "http://127.0.0.1:1", "model": "x",
                          "retries": 1}],
              "agents": [{"name": "a", "kind": "react", "model": "gone", "default": True}]}
    with Gateway(config) as gateway, Client(gateway) as client:
        task, _ = client.finish("hello")
        assert "127.0.0.1 port 1" in task["error"]["message"]


# ------------------------------------------------------------------ cancel, history, inbox


def test_cancel_closes_the_connection_at_once(client, server):  # F17
    never = threading.Event()
    server.script = [[m.head(), text("One "), never]]
    server.requests.clear()
    task = client.chat("hello")
    client.event(task, "token")
    client.call("cancel", task_id=task["task_id"], conversation_id=task["conversation_id"])
    wait_until(lambda: server.requests[0].left, "the connection's end")
    assert client.wait_terminal(task)["data"]["error"]["code"] == "cancelled"
    assert client.task(task)["output"] == "One "


def test_history_is_given(client, server):
    server.script = [answer("First.")]
    task, _ = client.finish("one")
    server.script, server.requests[:] = [answer("Second.")], []
    client.finish("two", conversation=task["conversation_id"])
    assert messages_of(server.requests[0]) == [("system", "Be brief."), ("user", "one"),
                                               ("assistant", "First."), ("user", "two")]


def test_inbox_message_enters_between_turns(client, server):
    go = threading.Event()
    server.script = [[m.head(), call(0, "a", "clock", "{}"), go, finish("tool_calls"), DONE,
                      m.CLOSE], answer("Aye.")]
    server.requests.clear()
    task = client.chat("hello")
    server.wait_requests(1)
    client.call("send", task_id=task["task_id"], conversation_id=task["conversation_id"],
                content="hurry up")
    go.set()
    client.event(task, "message")
    client.wait_terminal(task)
    said = messages_of(server.requests[1])
    assert [role for role, _ in said] == ["system", "user", "assistant", "tool", "user"]
    assert said[-1][1] == "hurry up"


def test_long_history_is_shortened_and_that_is_said(client, server):
    server.script = [answer("a" * 300)]
    task, _ = client.finish("one " + "x" * 300, agent="narrow")
    for word in ("two", "three"):
        server.requests.clear()
        _, events = client.finish(word + " x" * 150, agent="narrow",
                                  conversation=task["conversation_id"])
    [custom] = [e["data"] for e in events if e["event"] == "custom"]
    assert custom["event_type"] == "history_shortened"
    assert custom["payload"]["messages"] == 2 and custom["payload"]["context_bytes"] == 1500
    said = messages_of(server.requests[0])
    assert [content[:5] for _, content in said] == ["two x", "aaaaa", "three"]
    task, _ = client.finish("y" * 2000, agent="narrow")
    assert "exceeds 1500 bytes" in task["error"]["message"]
