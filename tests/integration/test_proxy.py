"""Behind nginx, with packaging/nginx.conf as it stands but for the port and the certificate; and behind Caddy, where
it is installed.  Time-outs are the proxies' own."""

import json
import pathlib
import re
import shutil
import socket
import subprocess

import pytest

from gateway import BINARY, WAIT_S, Gateway, free_port, wait_until
from holdfast import Client, Refused, ids, new_id, program
from test_http_api import Api, sse

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NGINX = shutil.which("nginx") or "/usr/sbin/nginx"
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def nginx(folder, gateway, port):
    """Its command line; the site's file is ours, the rest is what a test needs."""
    site = (ROOT / "packaging/nginx.conf").read_text()
    site = site.replace("server 127.0.0.1:8080", f"server 127.0.0.1:{gateway.port}")
    site, n = re.subn(r"listen 443 ssl http2;", f"listen 127.0.0.1:{port};", site)
    site, m = re.subn(r"^\s*ssl_certificate.*$", "", site, flags=re.M)
    assert (n, m) == (1, 2)
    (folder / "site.conf").write_text(site)
    places = "".join(f"{name}_temp_path {folder}/{name};" for name in TEMPORARY)
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;"
        f"events {{}} http {{ access_log off; {places} include {folder}/site.conf; }}")
    return [NGINX, "-e", str(folder / "error.log"), "-p", str(folder), "-c", str(folder / "nginx.conf")]


def caddy(folder, gateway, port):
    if not shutil.which("caddy"):
        pytest.skip("no caddy here")
    site = (ROOT / "packaging/Caddyfile").read_text()
    site = site.replace("127.0.0.1:8080", f"127.0.0.1:{gateway.port}")
    site, n = re.subn(r"^chat\.example \{", f"http://:{port} {{", site, flags=re.M)
    assert n == 1
    site = site.replace("flush_interval", "trusted_proxies 127.0.0.1/32\n\t\tflush_interval")  # the tests' clients
    (folder / "Caddyfile").write_text("{\n\tadmin off\n}\n" + site)
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]


def is_listening(port, process):
    assert process.poll() is None, "the proxy did not start"
    with socket.socket() as wire:
        return wire.connect_ex(("127.0.0.1", port)) == 0


class Proxied:
    """The gateway as seen through the proxy: what Client and Api want of a gateway."""

    def __init__(self, gateway, port):
        self.gateway, self.host, self.port = gateway, "127.0.0.1", port
        self.path = gateway.path

    http = Gateway.http


@pytest.fixture(scope="module", params=[nginx, caddy], ids=["nginx", "caddy"])
def proxied(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("proxy")
    config = {"trusted_proxies": ["127.0.0.1"], "origins": ["https://chat.example"],
              "limits": {"connections_per_address": 40}}
    with Gateway(config) as gateway:
        port = free_port()
        command = request.param(folder, gateway, port)
        with open(folder / "said", "w", encoding="utf-8") as said, \
                subprocess.Popen(command, stdout=said, stderr=said) as process:
            try:
                wait_until(lambda: is_listening(port, process), "the proxy listens")
                yield Proxied(gateway, port)
            finally:
                process.kill()  # a polite stop waits for all connections


def test_websocket_and_resume(proxied):
    gate = proxied.path()
    with Client(proxied) as client:
        token = client.token
        task = client.chat({"token": "a"}, {"wait": gate}, {"token": "b"})
        client.event(task, "token")
        seen = client.last[task["task_id"]]
        client.drop()
    with Client(proxied, token=token) as client:
        client.resume(task, seen)
        open(gate, "w", encoding="utf-8").close()
        assert client.wait_terminal(task)["data"]["output"] == "ab"
        assert min(client.raw_events(task)) == seen + 1


def test_long_replay_and_long_request(proxied):
    with Client(proxied) as client:
        task, events = client.finish({"flood": 5000, "bytes": 200})
        assert client.replay(task, after=0) == events
        done, _ = client.finish("x" * 60000)
        assert done["output"] == "x" * 60000


def test_cancel_and_ping_pass(proxied):
    with Client(proxied) as client:
        task = client.chat({"token": "a"}, {"hang": 1})
        client.event(task, "token")
        client.quiet()
        assert client.call("cancel", **ids(task))["cancelled"] == 1
        assert client.wait_terminal(task)["data"]["status"] == "cancelled"


def test_events_over_http_are_not_held_back(proxied):
    api, c, gate = Api(proxied), new_id(), proxied.path()
    task = api.chat(c, {"token": "now"}, {"wait": gate}, {"token": "later"})["task_id"]
    clean, events = sse(api, c, task, until=b"event: token")  # comes though the stream goes on
    assert not clean and events[-1][2]["data"]["text"] == "now"
    open(gate, "w", encoding="utf-8").close()
    clean, rest = sse(api, c, task, events[-1][0])
    assert clean and [event for _, event, _ in rest][-1] == "task.completed"
    assert sse(api, c, task, rest[-1][0])[0] == 204


def test_api_and_pages_over_http(proxied):
    api, c = Api(proxied), new_id()
    body = {"message": program({"final_answer": "42"})}
    status, first = api.ask("POST", f"/conversations/{c}/tasks", body, Idempotency_Key="k")
    assert status == 201
    assert api.ask("POST", f"/conversations/{c}/tasks", body, Idempotency_Key="k")[0] == 200
    sse(api, c, first["task"]["task_id"])
    assert api.ask("GET", f"/conversations/{c}/tasks/{first['task']['task_id']}")[1]["task"]["output"] == "42"
    assert api.ask("DELETE", f"/conversations/{c}")[0] == 200
    for path, expected in (("/", 200), ("/healthz", 200), ("/readyz", 200), ("/metrics", 404)):
        assert proxied.http("GET", path)[0] == expected, path


def test_origin_is_checked_behind_it(proxied):
    with Client(proxied, origin="https://chat.example"):
        pass
    with pytest.raises(Refused) as refused:
        Client(proxied, origin="https://evil.example")
    assert refused.value.status == 403


def test_limits_count_addresses_and_not_the_proxy(proxied):
    held = []
    try:
        with pytest.raises(Refused) as refused:
            for _ in range(41):
                held.append(Client(proxied, headers={"X-Forwarded-For": "192.0.2.1"}))
        assert refused.value.status == 503 and len(held) == 40
        with Client(proxied, headers={"X-Forwarded-For": "192.0.2.2"}) as client:
            client.finish({"token": "x"})
        with Client(proxied, headers={"X-Forwarded-For": "192.0.2.1, 192.0.2.3"}):
            pass  # what stands left of the nearest is hearsay
    finally:
        for client in held:
            client.close()


def test_command_line_client(proxied, tmp_path):
    done = subprocess.run([BINARY, "chat", f"http://127.0.0.1:{proxied.port}", program({"token": "through"})],
                          capture_output=True, text=True, check=False, timeout=WAIT_S, stdin=subprocess.DEVNULL,
                          env={"XDG_STATE_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    assert (done.returncode, done.stdout) == (0, "through\n"), done.stderr


def test_time_outs_are_longer_than_the_heartbeat():
    """A WebSocket says something every 20 s, and is given up after 30 s more (PROTOCOL.md 1); events, every 15 s."""
    site = (ROOT / "packaging/nginx.conf").read_text()
    found = [int(seconds) for seconds in re.findall(r"proxy_(?:read|send)_timeout (\d+)s;", site)]
    assert len(found) == 2 and min(found) > 50
    assert json.dumps("127.0.0.1") in site and "X-Forwarded-For" in site
