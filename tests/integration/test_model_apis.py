"""Models with the APIs of Responses and of Anthropic's Messages: requests, streams, what goes back, faults."""

import json

import pytest

import model_server as m
from gateway import Gateway
from holdfast import text_of
from model_server import reply

ENCRYPTED = "gAAAAABo\\u002bW\\/=="  # as it came, escapes and all
SIGNATURE = "EqQBCgIYAhIM+/=="


@pytest.fixture(scope="module")
def gateway(server):
    def model(name, **options):
        return {"name": name, "base_url": server.url + "/v1", "model": "m-1", "retries": 1,
                "api_key_env": "TEST_MODEL_KEY", **options}

    def agent(name):
        return {"name": name, "kind": "react", "model": name, "system": "Be brief.", "grace_s": 1,
                "tools": ["calculator"]}

    models = [model("responses", api="responses", effort="low", fallback="chat", price_in=3000, price_cached=300,
                    price_out=15000),
              model("open", api="responses", max_tokens=100),
              model("claude", api="anthropic"),
              model("adaptive", api="anthropic", effort="high", max_tokens=4000),
              model("budget", api="anthropic", thinking_tokens=2000),
              model("chat", effort="low")]
    config = {"models": models, "agents": [agent(each["name"]) for each in models]}
    with Gateway(config, environ={"TEST_MODEL_KEY": "sk-from-the-environment"}) as running:
        yield running


@pytest.fixture
def ask(client, server):
    def run(agent, script, message="hello", **fields):
        server.script = script
        server.requests.clear()
        task, events = client.finish(message, agent=agent, **fields)
        return task, events, list(server.requests)

    return run


def event(type, **members):
    return f"event: {type}\ndata: {json.dumps({'type': type, **members}, ensure_ascii=False)}\n\n".encode()


def raw_event(type, text):
    return f"event: {type}\ndata: {text}\n\n".encode()


# ------------------------------------------------------------------ responses

def responses_text(*pieces):
    return [event("response.output_text.delta", item_id="msg_1", output_index=0, content_index=0, delta=piece)
            for piece in pieces]


def completed(status="completed", usage=None, **members):
    usage = usage or {"input_tokens": 30, "input_tokens_details": {"cached_tokens": 12}, "output_tokens": 5,
             "output_tokens_details": {"reasoning_tokens": 3}, "total_tokens": 35}
    return event(f"response.{status}", response={"id": "resp_1", "status": status, "output": [],
                                                 "usage": usage, **members})


def cost_of(gateway, agent):
    lines = gateway.http("GET", "/metrics")[2].decode().splitlines()
    [cost] = [line for line in lines if line.startswith(f'holdfast_model_cost_total{{agent="{agent}"')]
    return float(cost.split()[-1])


@pytest.mark.parametrize("told, cost", [
    ({"input_tokens": 10, "input_tokens_details": {"cached_tokens": 1000}, "output_tokens": 0}, 10 * 300e-9),
    ({"input_tokens": 2**63 - 1, "input_tokens_details": {"cached_tokens": 2**62}, "output_tokens": 2**63 - 1}, 0),
])
def test_responses_counts_that_cannot_be_cost_nothing(ask, gateway, told, cost):
    before = cost_of(gateway, "responses")
    task, _, _ = ask("responses", [reply(*responses_text("yes"), completed(usage=told))])
    assert task["status"] == "completed"
    assert cost_of(gateway, "responses") - before == pytest.approx(cost, abs=2e-9)


def test_anthropic_counts_that_cannot_be_are_none(ask):
    task, _, _ = ask("claude", [reply(start(2**63 - 1), *text_block(0, "yes"), *stop())])
    assert task["result"]["usage"]["prompt_tokens"] == 5


REASONING = ('{"id": "rs_1",  "type":"reasoning","summary":[{"type":"summary_text","text":"So."}],'
             f'"encrypted_content":"{ENCRYPTED}"}}')
CALL = ('{"type":"function_call","id":"fc_1","call_id":"call_1","name":"calculator",'
        '"arguments":"{\\"expression\\":\\"2^10\\"}","status":"completed"}')


def responses_call():
    return reply(event("response.created", response={"id": "resp_1"}),
                 event("response.reasoning_summary_part.added", summary_index=0),
                 event("response.reasoning_summary_text.delta", delta="So."),
                 raw_event("response.output_item.done",
                           f'{{"type":"response.output_item.done","output_index":0,"item":{REASONING}}}'),
                 raw_event("response.output_item.done",
                           f'{{"type":"response.output_item.done","output_index":1,"item":{CALL}}}'),
                 completed())


def test_responses_request_and_answer(ask):
    task, events, [request] = ask("responses", [reply(*responses_text("Hel", "lo 🌊"), completed())])
    assert (task["status"], task["output"]) == ("completed", "Hello 🌊")
    assert task["result"]["usage"] == {"prompt_tokens": 30, "completion_tokens": 5, "total_tokens": 35,
                                       "cached_tokens": 12}
    assert request.path == "/v1/responses"
    assert request.headers["Authorization"] == "Bearer sk-from-the-environment"
    body = request.json
    assert body["input"] == [{"role": "user", "content": "hello"}]
    assert (body["instructions"], body["stream"], body["store"]) == ("Be brief.", True, False)
    assert body["reasoning"] == {"effort": "low", "summary": "auto"}
    assert body["include"] == ["reasoning.encrypted_content"]
    [tool] = body["tools"]
    assert (tool["type"], tool["name"]) == ("function", "calculator")
    assert tool["parameters"]["type"] == "object"


def test_responses_items_go_back_byte_for_byte(ask):
    task, events, [_, request] = ask("responses", [responses_call(),
                                                   reply(*responses_text("1024"), completed())])
    assert task["output"] == "1024"
    assert text_of(events, "thinking") == "So."
    assert f"{REASONING},{CALL}".encode() in request.body
    assert request.json["input"][-1] == {"type": "function_call_output", "call_id": "call_1",
                                         "output": "1024"}
    assert task["result"]["usage"]["prompt_tokens"] == 60


def test_responses_output_never_goes_to_another_api(ask):
    """The fallback speaks chat completions: it gets the call, and nothing that it does not know."""
    busy = reply(b'{"error":{"message":"overloaded"}}', status=503, content_type="application/json")
    task, _, requests = ask("responses", [responses_call(), busy, busy, m.answer("1024")])
    assert task["output"] == "1024"
    assert requests[-1].path == "/v1/chat/completions"
    assert requests[-1].json["reasoning_effort"] == "low"
    call = requests[-1].json["messages"][2]
    assert set(call) == {"role", "content", "tool_calls"}
    assert call["tool_calls"][0]["id"] == "call_1"


def test_responses_model_without_thoughts_to_encrypt(ask):
    refusal = reply(b'{"error":{"message":"Encrypted content is not supported with this model."}}',
                    status=400, content_type="application/json")
    task, _, requests = ask("open", [refusal, reply(*responses_text("Hi."), completed())])
    assert task["output"] == "Hi."
    assert ["include" in request.json for request in requests] == [True, False]
    assert requests[0].json["max_output_tokens"] == 100 and "reasoning" not in requests[0].json
    _, _, requests = ask("open", [reply(*responses_text("Hi."), completed())])
    assert ["include" in request.json for request in requests] == [False]


def test_responses_refusal_is_an_answer(ask):
    task, _, _ = ask("open", [reply(event("response.refusal.delta", delta="I cannot "),
                                    event("response.refusal.delta", delta="help."), completed())])
    assert (task["status"], task["output"]) == ("completed", "I cannot help.")


def test_responses_in_one_piece(ask):
    whole = {"id": "resp_1", "object": "response", "status": "completed", "error": None, "output": [
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]}],
        "usage": {"input_tokens": 1, "output_tokens": 2}}
    task, events, _ = ask("open", [reply(json.dumps(whole).encode(), content_type="application/json")])
    assert (task["output"], text_of(events, "thinking")) == ("Hi.", "Hm.")


@pytest.mark.parametrize("steps, reason, said", [
    ([*responses_text("Hel"), completed("incomplete", incomplete_details={"reason": "max_output_tokens"})],
     "broke_off", "length limit"),
    ([completed("incomplete", incomplete_details={"reason": "content_filter"})], "broke_off", "filter"),
    ([completed("failed", error={"code": "rate_limit_exceeded", "message": "Rate limit reached"})],
     "model_busy", "Rate limit reached"),
    ([event("error", code="context_length_exceeded", message="Your input exceeds the context window")],
     "context_too_long", "exceeds"),
    ([*responses_text("Hel")], "broke_off", "broke off"),
    ([raw_event("x", "{nothing")], None, "not JSON"),
], ids=["length", "filter", "busy", "context", "cut", "no-json"])
def test_responses_faults(ask, steps, reason, said):
    task, _, _ = ask("open", [reply(*steps)])
    assert task["status"] == "failed" and said in task["error"]["message"], task
    assert task["error"].get("reason") == reason


def test_responses_empty_answer_is_asked_for_again(ask):
    task, _, requests = ask("open", [reply(completed()), reply(*responses_text("Hi."), completed())])
    assert (task["output"], len(requests)) == ("Hi.", 2)
    assert task["result"]["usage"]["total_tokens"] == 70
    task, _, requests = ask("open", [reply(completed())])
    assert "without an answer" in task["error"]["message"] and len(requests) == 2


# ------------------------------------------------------------------ metrics

def model_metrics(gateway):
    _, _, body = gateway.http("GET", "/metrics")
    lines = [line.rsplit(" ", 1) for line in body.decode().splitlines() if line.startswith("holdfast_model_")]
    return {name.removeprefix("holdfast_model_"): float(value) for name, value in lines}


def test_metrics_by_agent_and_model(ask, gateway):
    before = model_metrics(gateway)
    busy = reply(b'{"error":{"message":"overloaded"}}', status=503, content_type="application/json")
    ask("responses", [reply(*responses_text("Hi."), completed())])
    ask("responses", [busy, busy, reply(m.text("Hi."), m.finish(), m.usage(9, 4), m.DONE)])
    after = model_metrics(gateway)
    grown = {name: after[name] - before[name] for name in after if after[name] != before[name]
             and "_bucket" not in name and "_sum" not in name}
    own, other = 'agent="responses",model="responses"', 'agent="responses",model="chat"'
    assert grown == {
        f'tokens_total{{{own},kind="in"}}': 30, f'tokens_total{{{own},kind="out"}}': 5,
        f'tokens_total{{{own},kind="cached"}}': 12, f'failures_total{{{own},reason="model_overloaded"}}': 1,
        f'first_token_seconds_count{{{own}}}': 1,
        # By the million: 18 of 30 tokens in at 3.00, 12 from the cache at 0.30, 5 out at 15.00; the other has no prices.
        f'cost_total{{{own}}}': pytest.approx(0.0001326, abs=1e-9),
        f'tokens_total{{{other},kind="in"}}': 9, f'tokens_total{{{other},kind="out"}}': 4,
        f'first_token_seconds_count{{{other}}}': 1}
    assert after[f'first_token_seconds_bucket{{{own},le="+Inf"}}'] == after[f'first_token_seconds_count{{{own}}}']


# ------------------------------------------------------------------ anthropic

def start(cached=7):
    return event("message_start", message={"id": "msg_1", "role": "assistant", "content": [], "usage": {
        "input_tokens": 3, "cache_creation_input_tokens": 2, "cache_read_input_tokens": cached,
        "output_tokens": 1}})


def block(index, content, *deltas):
    return [event("content_block_start", index=index, content_block=content),
            *[event("content_block_delta", index=index, delta=delta) for delta in deltas],
            event("content_block_stop", index=index)]


def text_block(index, *pieces):
    return block(index, {"type": "text", "text": ""}, *[{"type": "text_delta", "text": piece}
                                                        for piece in pieces])


def stop(reason="end_turn", **members):
    return [event("message_delta", delta={"stop_reason": reason, "stop_sequence": None, **members},
                  usage={"output_tokens": 9}), event("message_stop")]


def anthropic_call(*inputs):
    return reply(
        start(), event("ping"),
        *block(0, {"type": "thinking", "thinking": "", "signature": ""},
               {"type": "thinking_delta", "thinking": "Let me "}, {"type": "thinking_delta", "thinking": "see 🌊."},
               {"type": "signature_delta", "signature": SIGNATURE}),
        *block(1, {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix"}),
        *text_block(2, "One moment."),
        *block(3, {"type": "tool_use", "id": "toolu_1", "name": "calculator", "input": {}},
               *[{"type": "input_json_delta", "partial_json": piece} for piece in inputs]),
        *stop("tool_use"))


def test_anthropic_request_and_answer(ask):
    task, _, [request] = ask("claude", [reply(start(), *text_block(0, "Hel", "lo 🌊"), *stop())])
    assert (task["status"], task["output"]) == ("completed", "Hello 🌊")
    assert task["result"]["usage"] == {"prompt_tokens": 12, "completion_tokens": 9, "total_tokens": 21,
                                       "cached_tokens": 7}
    assert request.path == "/v1/messages"
    assert request.headers["x-api-key"] == "sk-from-the-environment"
    assert request.headers["anthropic-version"] == "2023-06-01"
    assert "Authorization" not in request.headers
    body = request.json
    assert (body["system"], body["max_tokens"], body["stream"]) == ("Be brief.", 8192, True)
    assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]
    assert [(tool["name"], tool["input_schema"]["type"]) for tool in body["tools"]] == [("calculator", "object")]
    assert "thinking" not in body


def test_anthropic_thinking_is_asked_for(ask):
    answer = [reply(start(), *text_block(0, "Hi."), *stop())]
    _, _, [request] = ask("adaptive", answer)
    assert request.json["thinking"] == {"type": "adaptive"}
    assert (request.json["output_config"], request.json["max_tokens"]) == ({"effort": "high"}, 4000)
    _, _, [request] = ask("budget", answer)
    assert request.json["thinking"] == {"type": "enabled", "budget_tokens": 2000}
    assert request.json["max_tokens"] == 10192


def test_anthropic_blocks_go_back_as_they_came(ask):
    task, events, [_, request] = ask("claude", [
        anthropic_call('{"expr', 'ession": "2^10"}'), reply(start(), *text_block(0, "1024"), *stop())])
    assert task["output"] == "1024"
    assert text_of(events, "thinking") == "Let me see 🌊."
    question, assistant, results = request.json["messages"]
    assert assistant == {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "Let me see 🌊.", "signature": SIGNATURE},
        {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix"},
        {"type": "text", "text": "One moment."},
        {"type": "tool_use", "id": "toolu_1", "name": "calculator", "input": {"expression": "2^10"}}]}
    assert results == {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "1024"}]}


def test_anthropic_call_with_broken_input_is_made_by_nobody(ask):
    task, events, [_, request] = ask("claude", [
        anthropic_call('{"expression": "2^'), reply(start(), *text_block(0, "Sorry."), *stop())])
    assert task["output"] == "Sorry."
    [result] = [e["data"] for e in events if e["event"] == "tool_result"]
    assert result["is_error"] and "not JSON" in result["output"]
    assert request.json["messages"][1]["content"][-1]["input"] == {}


def test_anthropic_history_takes_turns(ask):
    task, _, _ = ask("claude", [reply(start(), *text_block(0, "Hi."), *stop())])
    _, _, [request] = ask("claude", [reply(start(), *text_block(0, "Hi."), *stop())], "again",
                          conversation=task["conversation_id"])
    assert [message["role"] for message in request.json["messages"]] == ["user", "assistant", "user"]


@pytest.mark.parametrize("answer, reason, said", [
    (reply(start(), *text_block(0, "Hel"), *stop("max_tokens")), "broke_off", "length limit"),
    (reply(start(), *text_block(0, "Hel"), *stop("model_context_window_exceeded")), "context_too_long", "limit"),
    (reply(start(), *stop("refusal")), "broke_off", "filter"),
    (reply(start(), *text_block(0, "Hel"), event("error", error={"type": "overloaded_error",
                                                                 "message": "Overloaded"})),
     "model_overloaded", "Overloaded"),
    (reply(start(), *text_block(0, "Hel")), "broke_off", "broke off"),
    (reply(b'{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}',
           status=401, content_type="application/json"), "model_refused", "invalid x-api-key"),
    (reply(b'{"type":"error","error":{"type":"rate_limit_error","message":"Slow down"}}', status=429,
           content_type="application/json"), "model_busy", "Slow down"),
    (reply(b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', status=529,
           content_type="application/json"), "model_overloaded", "Overloaded"),
    (reply(b'{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210 > 200"}}',
           status=400, content_type="application/json"), "context_too_long", "too long"),
], ids=["length", "window", "refusal", "overloaded", "cut", "key", "busy", "529", "context"])
def test_anthropic_faults(ask, answer, reason, said):
    task, _, _ = ask("claude", [answer])
    assert task["status"] == "failed" and said in task["error"]["message"], task
    assert task["error"].get("reason") == reason


def test_anthropic_message_in_one_piece(ask):
    whole = {"type": "message", "role": "assistant", "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "x"}, {"type": "text", "text": "Hi."}],
        "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 2}}
    task, events, _ = ask("claude", [reply(json.dumps(whole).encode(), content_type="application/json")])
    assert (task["output"], text_of(events, "thinking")) == ("Hi.", "Hm.")
