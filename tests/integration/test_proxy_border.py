"""At the border of a proxy's idle time, over a line with delay: requests come just as an idle connection to the gateway
is closed.  None may be lost while the proxy is the first to close.  The idle times are shortened; what closes is not."""

import contextlib
import http.client
import re
import subprocess
import threading
import time

import pytest

from delay import Delay
from gateway import WAIT_S, Gateway, free_port, wait_until
from test_proxy import beside, caddy, haproxy, is_listening, nginx

IDLE_S = 2
LINE_S = 0.15  # one way
WINDOW_S = 6  # how long a request of the last test may be late
OFFSETS_S = [IDLE_S + 0.05 * step for step in range(-6, 6)]  # around the border, for as long as the line takes
ROUNDS = 2


def shortened(name, folder):
    """The proxy's own file with an idle time of IDLE_S towards the gateway."""
    path = folder / {"nginx": "site.conf", "haproxy": "haproxy.cfg", "caddy": "Caddyfile"}[name]
    what, by = {
        "nginx": (r"keepalive_timeout 60s;", f"keepalive_timeout {IDLE_S}s;"),
        "haproxy": (r"http-keep-alive 60s", f"http-keep-alive {IDLE_S}s"),
        "caddy": (r"flush_interval -1", f"flush_interval -1\n\t\ttransport http {{\n\t\t\tkeepalive {IDLE_S}s\n\t\t}}"),
    }[name]
    text, n = re.subn(what, by, path.read_text())
    assert n == 1
    path.write_text(text)


class Client(threading.Thread):
    """Asks, is silent for `offset`, asks again: on one connection to the proxy, or, as a browser does, on another one
    when the proxy has closed that."""

    def __init__(self, port, offset):
        super().__init__(daemon=True)
        self.port, self.offset, self.statuses = port, offset, []
        self.start()

    def run(self):
        wire = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        for _ in range(1 + ROUNDS):
            if self.statuses:
                time.sleep(self.offset)
            try:
                wire.request("GET", "/healthz")
                answer = wire.getresponse()
            except ConnectionError:
                wire.close()
                wire.request("GET", "/healthz")
                answer = wire.getresponse()
            answer.read()
            self.statuses.append(answer.status)
        wire.close()


@contextlib.contextmanager
def running(make, folder, line, change=None):
    """The proxy in front of the line; its port."""
    port = free_port()
    command = make(folder, line, port)
    if change:
        change(make.__name__, folder)
    with open(folder / "said", "w", encoding="utf-8") as said, \
            subprocess.Popen(command, stdout=said, stderr=said, env=beside(command)) as process:
        try:
            wait_until(lambda: is_listening(port, process), "the proxy listens")
            yield port
        finally:
            process.kill()


@pytest.fixture
def gateway():
    with Gateway({"trusted_proxies": ["127.0.0.1"], "hosts": ["chat.example"]}) as gateway:
        yield gateway


@pytest.mark.parametrize("make", [nginx, haproxy, caddy], ids=["nginx", "haproxy", "caddy"])
def test_no_request_is_lost_when_the_proxy_closes_first(gateway, make, tmp_path):
    line = Delay((gateway.host, gateway.port), LINE_S)
    with running(make, tmp_path, line, shortened) as port:
        clients = [Client(port, offset) for offset in OFFSETS_S]
        for client in clients:
            client.join(4 * WAIT_S)
        wait_until(lambda: line.ended, "the proxy closes what is idle")
    line.close()
    assert [status for client in clients for status in client.statuses] == [200] * len(OFFSETS_S) * (1 + ROUNDS)


def test_request_is_lost_when_the_server_closes_first(gateway, tmp_path):
    """The fault that all this avoids: a server with less patience than nginx closes, and the request meets the end on its way."""
    line = Delay((gateway.host, gateway.port), WINDOW_S, patience=WINDOW_S)
    with running(nginx, tmp_path, line) as port:
        wire = http.client.HTTPConnection("127.0.0.1", port, timeout=2 * WAIT_S)
        statuses = []
        for _ in range(2):
            wire.request("GET", "/healthz")
            answer = wire.getresponse()
            answer.read()
            statuses.append(answer.status)
            assert line.closed.wait(WAIT_S)
    line.close()
    assert statuses == [200, 502]
