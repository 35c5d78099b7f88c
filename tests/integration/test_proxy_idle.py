"""Behind an nginx that was told nothing about time-outs and buffers: what is open and silent for longer than its 60 s
stays open, by the gateway's own heartbeat.  The time is the subject: both transports wait together."""

import json
import pathlib
import socket
import subprocess
import threading
import time

import pytest

from gateway import Gateway, wait_until
from holdfast import Client
from test_proxy import NGINX, TEMPORARY, Proxied, free_port, is_listening

IDLE_S = 65  # nginx's proxy_read_timeout and proxy_send_timeout are 60 s
PATIENCE_S = 122  # Caddy keeps idle connections for 120 s, Traefik for 90 s, nginx and AWS for 60 s
ASK = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
SITE = """
map $http_upgrade $connection_upgrade { default upgrade; "" ""; }
server {
    listen 127.0.0.1:PORT;
    location / {
        proxy_pass http://127.0.0.1:GATEWAY;
        proxy_http_version 1.1;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection $connection_upgrade;
    }
}
"""


@pytest.fixture
def proxied(tmp_path):
    with Gateway() as gateway:
        port = free_port()
        places = "".join(f"{name}_temp_path {tmp_path}/{name};" for name in TEMPORARY)
        site = SITE.replace("PORT", str(port)).replace("GATEWAY", str(gateway.port))
        (tmp_path / "nginx.conf").write_text(
            f"daemon off; master_process off; pid {tmp_path}/pid; error_log {tmp_path}/error.log;"
            f"events {{}} http {{ access_log off; {places} {site} }}")
        command = [NGINX, "-e", str(tmp_path / "error.log"), "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                wait_until(lambda: is_listening(port, process), "nginx listens")
                yield Proxied(gateway, port)
            finally:
                process.kill()


class Events(threading.Thread):
    """A stream over HTTP, read as it comes."""

    def __init__(self, proxied, token, task):
        super().__init__(daemon=True)
        self.sock = socket.create_connection((proxied.host, proxied.port), 2 * IDLE_S)
        self.sock.sendall(f"GET /v1/conversations/{task['conversation_id']}/tasks/{task['task_id']}/events HTTP/1.1\r\n"
                          f"Host: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        self.got, self.ended = b"", False
        self.start()

    def run(self):
        while not self.got.endswith(b"\r\n0\r\n\r\n") and (piece := self.sock.recv(65536)):
            self.got += piece
        self.ended = True


@pytest.fixture(scope="module", autouse=True)
def idle():
    """A connection that has asked for something and is silent since, while the other test waits too."""
    with Gateway() as gateway, socket.create_connection((gateway.host, gateway.port), 2 * IDLE_S) as sock:
        sock.sendall(ASK)
        read_answer(sock)
        yield sock, time.monotonic()


def read_answer(sock):
    answer = b""
    while not answer.endswith(b"alive\n"):
        piece = sock.recv(4096)
        assert piece, f"closed, after {answer!r}"
        answer += piece
    assert answer.startswith(b"HTTP/1.1 200 ")


@pytest.mark.skipif(not pathlib.Path(NGINX).exists(), reason="no nginx here")
def test_silence_longer_than_nginx_waits_is_bridged(proxied):
    gate = proxied.path()
    with Client(proxied) as client:
        task = client.chat({"token": "a"}, {"wait": gate}, {"token": "b"})
        client.event(task, "token")
        events = Events(proxied, client.token, task)
        wait_until(lambda: b"event: token" in events.got, "the first events, which are not held back")
        begun = time.monotonic()
        while time.monotonic() - begun < IDLE_S:
            client.pump(1)  # answers pings, and says nothing of its own
        assert not events.ended and client.pings >= 2
        open(gate, "w", encoding="utf-8").close()
        assert client.wait_terminal(task)["data"]["output"] == "ab"
        events.join(IDLE_S)
        assert events.ended and events.got.endswith(b"\r\n0\r\n\r\n")
        lines = [json.loads(line[6:]) for line in events.got.decode().split("\n") if line.startswith("data: ")]
        assert [line["seq"] for line in lines] == [1, 2, 3, 4, 5, 6]


def test_g23_idle_connection_is_kept_for_longer_than_proxies_keep_it(idle):
    sock, since = idle
    time.sleep(max(0, since + PATIENCE_S - time.monotonic()))
    sock.sendall(ASK)
    read_answer(sock)
