"""Secrets: no contents, tokens and keys in the log, at its most verbose, and in a printed configuration."""

import json
import re

import pytest

import tokens
from gateway import Gateway, run, script_agent, wait_until
from holdfast import Client, Refused, ids, new_id
from test_http_api import JSON, Api, sse
from wire import Wire

PLANTED = "PLANTED"  # stands in all that a log must not have


class Talkative(Gateway):
    """At debug level, as all gateways of tests, in the format that is asked for."""

    def __init__(self, config, log_format, **options):
        super().__init__(config, **options)
        self.log_format = log_format

    def command(self, *more):
        return super().command("--log-format", self.log_format, *more)


@pytest.mark.parametrize("log_format", ["logfmt", "json"])
def test_log_has_ids_and_neither_contents_nor_tokens(tmp_path, log_format):
    secret = f"{PLANTED} secret of more than thirty-two bytes".encode()
    (tmp_path / "key").write_bytes(secret)
    (tmp_path / "hook").write_text(f"{PLANTED}-hook-secret-of-24-bytes")
    config = {
        "auth": {"keys": [{"kid": "k1", "alg": "HS256", "secret_file": str(tmp_path / "key")}], "cookie": "session"},
        "origins": ["https://chat.example"],
        "agents": [script_agent("script", default=True, env={"KEY": PLANTED})],
        "webhooks": [{"name": "hook", "url": f"http://user:{PLANTED}@127.0.0.1:9/{PLANTED}?key={PLANTED}",
                      "secret_file": str(tmp_path / "hook")}],
        "webhook_allow": ["127.0.0.1"],
    }
    good = tokens.token("alice", secret=secret, mark=PLANTED)
    conversation = new_id()
    with Talkative(config, log_format) as gateway:
        with Client(gateway, token=good) as client:
            done, _ = client.finish({"token": PLANTED}, {"custom": "x", "payload": PLANTED}, {"final_answer": PLANTED},
                                    conversation=conversation, name=f"{PLANTED}-name", description=PLANTED,
                                    metadata={"x": PLANTED})
            failed = client.chat({"token": PLANTED}, {"stderr": PLANTED}, {"exit": 3}, conversation=conversation)
            client.wait_terminal(failed)
            hung = client.chat({"hang": 1}, conversation=conversation)
            client.event(hung, "task.started")
            client.call("send", **ids(hung), content=PLANTED)
            client.ask("title", conversation_id=conversation, title=PLANTED)
            client.ask("respond", **ids(hung), input_id=PLANTED, answer=PLANTED)
            client.call("cancel", **ids(hung))
            client.wait_terminal(hung)
            client.ask("chat", message="", agent=PLANTED)
            client.send_text(f'{{"type":"{PLANTED}","id":"1"}}')
            client.send_text(f"{PLANTED} is no JSON")
            client.quiet()
        for bad in (PLANTED, f"a.{PLANTED}.c", tokens.token("alice", secret=b"x" * 40, kid=PLANTED),
                    tokens.token(PLANTED, seconds=-99, secret=secret)):
            with Client(gateway, hello=False) as client:
                client.refused("unauthorized", "hello", token=bad)
            gateway.http("GET", f"/v1/conversations?token={PLANTED}", headers={"Authorization": f"Bearer {bad}"})
            gateway.http("GET", f"/{PLANTED}?{PLANTED}", headers={"Cookie": f"session={bad}", "Origin": "https://chat.example"})
        api = Api(gateway, good)
        api.ask("POST", f"/conversations/{conversation}/tasks", {"message": PLANTED, "agent": PLANTED}, Idempotency_Key=PLANTED)
        api.ask("POST", f"/conversations/{conversation}/tasks", f"{PLANTED}")
        sse(api, conversation, done["task_id"], query=f"?x={PLANTED}")
        with Wire(gateway, headers={"Origin": f"https://{PLANTED}.example", "Cookie": PLANTED, "User-Agent": PLANTED}) as wire:
            assert wire.status == 403
        with pytest.raises(Refused):
            Client(gateway, path=f"/v1/{PLANTED}")
        gateway.http("POST", f"/v1/conversations/{PLANTED}/tasks", b"{}", {**JSON, "Authorization": f"Bearer {good}"})
        wait_until(lambda: [line for line in gateway.log if "webhook" in line], "a try of the webhook")
        gateway.stop()
        found = [line for line in gateway.log if PLANTED in line or any(part in line for part in good.split("."))]
        assert not found, found
        parsed = [parse(line, log_format) for line in gateway.log if line]
        told = {(line["event"], line["status"], line.get("error")) for line in parsed
                if line["component"] == "task" and line["conversation"] == conversation}
        assert told == {("created", "pending", "none"), ("started", "running", "none"), ("ended", "completed", "none"),
                        ("ended", "failed", "agent_error"), ("ended", "cancelled", "cancelled")}
        assert {line["task"] for line in parsed if line["component"] == "task"} >= {task["task_id"] for task in (done, failed, hung)}
        assert [line for line in parsed if line["event"] == "welcome" and line["owner"] == "alice" and int(line["conn"]) > 0]
        gateway.start()


def parse(line, log_format):
    if log_format == "json":
        return json.loads(line)
    fields = re.findall(r'(\w+)=("(?:[^"\\]|\\.)*"|\S*)', line)
    assert " ".join(f"{key}={value}" for key, value in fields) == line, line
    return {key: json.loads(value) if value.startswith('"') else value for key, value in fields}


def test_printed_configuration_has_no_secrets(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(tokens.SECRET)
    config = {
        "auth": {"keys": [{"kid": "k", "alg": "HS256", "secret_file": str(secret)}]},
        "models": [{"name": "m", "base_url": f"https://user:{PLANTED}@host/v1?key={PLANTED}", "model": "x",
                    "headers": {"X-Key": PLANTED}, "proxy": f"http://user:{PLANTED}@proxy:3128"}],
        "agents": [{"name": "a", "kind": "exec", "command": ["true"], "env": {"KEY": PLANTED}},
                   {"name": "b", "kind": "http", "url": f"http://{PLANTED}:{PLANTED}@host/?token={PLANTED}",
                    "headers": {"Authorization": PLANTED}}],
        "webhooks": [{"name": "w", "url": f"https://host/path?sig={PLANTED}#{PLANTED}", "secret_file": str(secret)}],
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    done = run("print-config", str(path))
    assert done.returncode == 0, done.stderr
    assert PLANTED not in done.stdout and tokens.SECRET.decode() not in done.stdout, done.stdout
    assert done.stdout.count("***") >= 7
    path.write_text(json.dumps({**config, "listne": 1}))
    assert PLANTED not in run("check-config", str(path)).stderr
