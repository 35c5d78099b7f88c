"""Keys and headers of the configuration are taken out of outputs and errors, however they are cut."""

import json

import pytest

import model_server as m
from gateway import Gateway, script_agent
from holdfast import text_of
from model_server import reply

ENV_KEY, MODEL_KEY, HEADER = "sk-env-0123456789", "sk-model-0123456789", "header/secret+0123456789"
SIGNS, SIGNS_TOO = "hook-secret-0123456789012345", "aG9vay1zZWNyZXQtYXMtYmFzZTY0LTAxMjM0NTY3ODk="
WORKS = "worker-secret-0123456789"


@pytest.fixture(scope="module")
def gateway(server, tmp_path_factory):
    def file_of(text):
        path = tmp_path_factory.mktemp("secret") / "file"
        path.write_text(text + "\n")
        path.chmod(0o600)
        return str(path)

    config = {
        "errors": "full",
        "models": [{"name": "m", "base_url": server.url + "/v1", "model": "m", "retries": 0, "api_key_file": file_of(MODEL_KEY),
                    "headers": {"X-Auth-Token": HEADER, "X-Team": "kelp-and-more"}}],
        "agents": [script_agent("script", default=True, env={"MY_API_KEY": ENV_KEY, "PLAIN": "plain-value-1"}),
                   {"name": "model", "kind": "react", "model": "m", "tools": ["calculator"]},
                   {"name": "far", "kind": "worker"}],
        "webhooks": [{"name": name, "url": "https://hook.invalid/", "secret_file": file_of(text)}
                     for name, text in (("plain", SIGNS), ("encoded", f"whsec_{SIGNS_TOO}"))],
        "workers": [{"name": "w", "secret_file": file_of(WORKS), "agents": ["far"]}]}
    with Gateway(config) as running:
        yield running


def is_nowhere(gateway, client, *secrets):
    client.quiet()
    said = [raw for line, raw in zip(client.log, client.raw) if line.get("event") not in (None, "task.created")]
    for secret in secrets:
        assert said and not [raw for raw in said if secret in str(raw)]
        assert not [line for line in gateway.log if secret in line]


def test_tokens_that_cut_it_anywhere(client, gateway):
    text = f"the key {ENV_KEY} and plain-value-1, again {ENV_KEY}. s"
    for step in (1, 3, 7, 40):
        pieces = [{"token": text[at:at + step]} for at in range(0, len(text), step)]
        task, events = client.finish(*pieces)
        expected = text.replace(ENV_KEY, "***")
        assert (text_of(events), task["output"]) == (expected, expected)
    is_nowhere(gateway, client, ENV_KEY)


def test_thoughts_and_tokens_keep_their_order(client, gateway):
    _, events = client.finish({"thinking": "es"}, {"token": "s"}, {"thinking": "k-"}, {"token": "s"})
    said = [(e["event"], e["data"]["text"]) for e in events if e["event"] in ("thinking", "token")]
    whole = "".join(text for _, text in said)
    assert whole == "essk-s"
    assert [kind for kind, _ in said if kind == "token"] and said[0][0] == "thinking"


def test_other_events_results_and_errors(client, gateway):
    say = [{"event": "tool_call", "data": {"call_id": "1", "name": "n", "arguments": {"key": ENV_KEY}}},
           {"event": "tool_result", "data": {"call_id": "1", "name": "n", "output": f"<{ENV_KEY}>"}},
           {"event": "custom", "data": {"event_type": "x", "payload": [ENV_KEY]}}]
    task, events = client.finish(*[{"line": each} for each in say], {"result": {"of": ENV_KEY}}, {"final_answer": f"{ENV_KEY}!"})
    assert task["output"] == "***!", task
    assert task["result"] == {"of": "***"}
    data = {e["event"]: e["data"] for e in events}
    assert data["tool_call"]["arguments"] == {"key": "***"} and data["tool_result"]["output"] == "<***>"
    assert data["custom"]["payload"] == ["***"]
    is_nowhere(gateway, client, ENV_KEY)


def test_secrets_of_webhooks_and_workers(client, gateway):
    task, _ = client.finish({"token": f"{SIGNS} whsec_{SIGNS_TOO} {WORKS}!"})
    assert task["output"] == "*** whsec_*** ***!"
    is_nowhere(gateway, client, SIGNS, SIGNS_TOO, WORKS)


def test_error_of_a_model_s_server(client, gateway, server):
    wrong = {"error": {"message": f"Incorrect API key provided: {MODEL_KEY}, {HEADER}, kelp-and-more"}}
    server.script = [reply(json.dumps(wrong).encode(), status=401, content_type="application/json")]
    task, _ = client.finish("hi", agent="model")
    assert "Incorrect API key provided: ***, ***, kelp-and-more" in task["error"]["message"]
    assert task["error"]["reason"] == "model_refused"
    is_nowhere(gateway, client, MODEL_KEY, HEADER)


def test_what_a_model_says(client, gateway, server):
    pieces = [m.text(piece) for piece in ("it is sk-mo", "del-0123", "456789 ", "header\\/")]
    server.script = [reply(*pieces, m.finish(), m.DONE)]
    task, events = client.finish("hi", agent="model")
    assert task["output"] == text_of(events) == "it is *** header\\/"
    is_nowhere(gateway, client, MODEL_KEY)
