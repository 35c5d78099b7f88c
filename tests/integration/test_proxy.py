"""Behind nginx, HAProxy and Caddy, where they are installed, with the files of packaging/proxies as they stand but for the
port and the certificate.  Time-outs are the proxies' own."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess

import pytest
import yaml

from gateway import BINARY, WAIT_S, Gateway, free_port, wait_until
from holdfast import Client, Refused, ids, new_id, program
from test_artefacts import NODE
from test_http_api import Api, sse

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NGINX = shutil.which("nginx") or "/usr/sbin/nginx"
ENVOY = ROOT / "tests/packaging/tools/envoy.mjs"
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def nginx(folder, gateway, port):
    """Its command line; the site's file is ours, the rest is what a test needs."""
    site = (ROOT / "packaging/proxies/nginx.conf").read_text()
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
    site = (ROOT / "packaging/proxies/Caddyfile").read_text()
    site = site.replace("127.0.0.1:8080", f"127.0.0.1:{gateway.port}")
    site, n = re.subn(r"^chat\.example \{", f"http://:{port} {{", site, flags=re.M)
    assert n == 1
    site = site.replace("flush_interval", "trusted_proxies 127.0.0.1/32\n\t\tflush_interval")  # the tests' clients
    (folder / "Caddyfile").write_text("{\n\tadmin off\n}\n" + site)
    return [shutil.which("caddy"), "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]


def haproxy(folder, gateway, port):
    if not shutil.which("haproxy"):
        pytest.skip("no haproxy here")
    site = (ROOT / "packaging/proxies/haproxy.cfg").read_text()
    site = site.replace("server gateway 127.0.0.1:8080", f"server gateway 127.0.0.1:{gateway.port}")
    site, n = re.subn(r"bind :443 ssl .*", f"bind 127.0.0.1:{port}", site)
    assert n == 1
    (folder / "haproxy.cfg").write_text(site)
    return [shutil.which("haproxy"), "-db", "-f", str(folder / "haproxy.cfg")]


def beside(command):
    """The environment of a program that was unpacked with its libraries, and not installed."""
    root = pathlib.Path(command[0]).resolve().parent.parent
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, (root / "lib").glob("*-linux-gnu")))}


def is_listening(port, process):
    assert process.poll() is None, "the proxy did not start"
    with socket.socket() as wire:
        return wire.connect_ex(("127.0.0.1", port)) == 0


class Proxied:
    """The gateway as seen through the proxy: what Client and Api want of a gateway."""

    def __init__(self, gateway, port):
        self.gateway, self.host, self.port = gateway, "127.0.0.1", port
        self.path = gateway.path

    http, _http = Gateway.http, Gateway._http


@pytest.fixture(scope="module", params=[nginx, haproxy, caddy], ids=["nginx", "haproxy", "caddy"])
def proxied(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("proxy")
    config = {"trusted_proxies": ["127.0.0.1"], "origins": ["https://chat.example"],
              "limits": {"connections_per_address": 40}, "drain_s": 20}
    with Gateway(config, listen=f"127.0.0.1:{free_port()}") as gateway:  # the same one after a start
        port = free_port()
        command = request.param(folder, gateway, port)
        with open(folder / "said", "w", encoding="utf-8") as said, \
                subprocess.Popen(command, stdout=said, stderr=said, env=beside(command)) as process:
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


HEARTBEAT_S, GIVEN_UP_S = 20, 30  # a WebSocket says something that often, and is given up so much later (PROTOCOL.md 1)


@pytest.mark.parametrize("name, times, idle", [
    ("nginx.conf", r"proxy_(?:read|send)_timeout (\d+)s;", r"keepalive_timeout (\d+)s;"),
    ("haproxy.cfg", r"timeout (?:client|server|tunnel) (\d+)s", r"timeout http-keep-alive (\d+)s"),
    ("traefik.yml", None, r'idleConnTimeout: "(\d+)s"'),
    ("envoy.yaml", r"stream_idle_timeout: (\d+)s", r"[^_]idle_timeout: (\d+)s"),
    ("kubernetes-ingress.yaml", r'proxy-(?:read|send)-timeout: "(\d+)"', r'keepalive-timeout": "(\d+)"'),
    ("Caddyfile", None, None)])
def test_time_outs_are_longer_than_the_heartbeat_and_shorter_than_our_patience(name, times, idle):
    """Proxies that are not here are read, at least."""
    site = (ROOT / "packaging/proxies" / name).read_text()
    assert "trusted_proxies" in site and "/metrics" in site or "Metrics stay inside" in site
    if times:
        found = [int(seconds) for seconds in re.findall(times, site)]
        assert found and min(found) > HEARTBEAT_S + GIVEN_UP_S
    if idle:
        found = [int(seconds) for seconds in re.findall(idle, site)]
        assert found and max(found) <= 120, "the gateway keeps an idle connection for 130 s"
    if name.endswith((".yml", ".yaml")):
        assert yaml.safe_load(site)


@pytest.mark.skipif(not (ENVOY.parent / "node_modules").exists(), reason="Envoy's definitions are not installed")
def test_envoys_file_is_of_its_api(tmp_path):
    """Debian has no Envoy: its file is held against its API's own definitions."""
    def wrong(text):
        (tmp_path / "envoy.json").write_text(json.dumps(yaml.safe_load(text)))
        return subprocess.run([NODE, ENVOY, tmp_path / "envoy.json"], capture_output=True, text=True, check=False).stderr

    text = (ROOT / "packaging/proxies/envoy.yaml").read_text()
    assert wrong(text) == ""
    for old, new, said in (("num_retries", "retries", "retry_policy.retries: unknown"),
                           ("connect_timeout: 5s", "connect_timeout: 5", "connect_timeout: no Duration"),
                           ("UNESCAPE_AND_REDIRECT", "UNESCAPE", "action: no PathWithEscapedSlashesAction"),
                           ("connect_timeout: 5s", "http_protocol_options: {}", "http_protocol_options: deprecated")):
        assert old in text and said in wrong(text.replace(old, new))


def test_drain_behind_it_is_announced_and_the_next_start_serves_the_rest(proxied):
    """The proxy stays; clients are told to come back, and find the gateway at the same port."""
    gateway = proxied.gateway
    api, c, gate = Api(proxied), new_id(), proxied.path()
    with Client(proxied) as client:
        token = client.token
        task = client.chat({"token": "a"}, {"wait": gate}, {"token": "b"})
        client.event(task, "token")
        gateway.process.send_signal(signal.SIGTERM)
        assert client.expect_type("goaway")["retry_after_ms"] > 0
        assert proxied.http("GET", "/readyz")[0] in (502, 503)
        open(gate, "w", encoding="utf-8").close()
        assert client.wait_terminal(task)["data"]["output"] == "ab"
    assert gateway.wait() == 0
    gateway.start()
    wait_until(lambda: proxied.http("GET", "/readyz")[0] == 200, "the proxy sees it again")
    with Client(proxied, token=token) as client:
        client.resume(task, 0)
        assert client.wait_terminal(task)["data"]["output"] == "ab"
    assert api.chat(c, {"token": "again"})["task_id"]
