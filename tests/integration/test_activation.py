"""The port as a service manager's socket, which stays open from one gateway to the next (sd_listen_fds(3))."""

import http.client
import socket
import sys
import threading

import pytest

from gateway import WAIT_S, Gateway, script_agent
from holdfast import Client

# As systemd starts a service: the socket is descriptor 3, and the variables name this process.
STARTER = """
import os, sys
n, first, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[4:]
for i in range(n):
    os.dup2(first, 3 + i)
if first >= 3 + n:
    os.close(first)
os.environ.update(LISTEN_PID=str(os.getpid() + int(sys.argv[3])), LISTEN_FDS=str(n), LISTEN_FDNAMES="holdfast.socket")
os.execv(command[0], command)
"""


class Activated(Gateway):
    """A gateway whose port a manager (this test) holds."""

    def __init__(self, sock, config=None, *, n=1, of_another=False, **more):
        super().__init__(config, **more)
        self.pass_fds = (sock.fileno(),)
        self.starter = [sys.executable, "-c", STARTER, str(n), str(sock.fileno()), "1" if of_another else "0"]

    def command(self, *more):
        return [*self.starter, *super().command(*more)]


@pytest.fixture
def sock():
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        yield listening


def port(sock):
    return sock.getsockname()[1]


class Asking(threading.Thread):
    """A request that is made now, and answered by whichever gateway there is."""

    def __init__(self, sock):
        super().__init__(daemon=True)
        self.connection = http.client.HTTPConnection("127.0.0.1", port(sock), timeout=WAIT_S)
        self.connection.connect()
        self.connection.request("GET", "/readyz")
        self.status = None
        self.start()

    def run(self):
        self.status = self.connection.getresponse().status
        self.connection.close()

    def answer(self):
        self.join(WAIT_S)
        return self.status


def test_connection_made_between_two_gateways_is_served(sock):
    with Activated(sock) as gateway:
        assert gateway.port == port(sock)
        gateway.logged("event=activated", str(port(sock)))
        for end in (gateway.stop, gateway.kill, gateway.stop):
            end()
            between = [Asking(sock) for _ in range(5)]  # nobody refuses it
            gateway.start()
            assert gateway.port == port(sock)
            assert [asking.answer() for asking in between] == [200] * 5


def test_connection_made_while_a_gateway_lets_go_is_served(sock):
    """The client that keeps the old gateway waiting is one that does not answer its close."""
    with Activated(sock) as gateway:
        silent = Client(gateway)
        gateway.process.terminate()
        silent.expect_type("goaway")  # from here on it accepts nothing
        gateway.logged("event=draining")
        between = [Asking(sock) for _ in range(5)]
        assert gateway.wait() == 0
        gateway.start()
        assert [asking.answer() for asking in between] == [200] * 5
        silent.sock.close()


def test_tasks_that_must_end_keep_the_port_served(sock):
    config = {"drain_s": 60, "agents": [script_agent(default=True, after_restart="fail")]}
    with Activated(sock, config) as gateway, Client(gateway) as client:
        task = client.chat({"token": "up"}, {"hear": "message"}, {"token": "end"})
        client.event(task, "token")
        gateway.process.terminate()
        client.expect_type("goaway")
        assert Asking(sock).answer() == 503  # readiness ends, service does not
        with Client(gateway, token=client.token) as late:
            since = len(late.log)
            late.resume(task, 0)
            late.call("send", task_id=task["task_id"], conversation_id=task["conversation_id"], content="now")
            assert late.wait_terminal(task, since)["event"] == "task.completed"
        assert gateway.wait() == 0
        asking = Asking(sock)
        gateway.start()
        assert asking.answer() == 200


def test_what_was_handed_to_another_process_is_not_ours(sock):
    with Activated(sock, of_another=True) as gateway:
        assert gateway.port != port(sock)
        assert gateway.http("GET", "/readyz")[0] == 200


def refused(gateway):
    process = gateway.spawn()
    assert process.wait(WAIT_S) == 1
    gateway.reader.join(WAIT_S)
    gateway.process = None
    line = next(line for line in gateway.log if "event=cannot_listen" in line)
    gateway.close()
    return line


def test_other_sockets_are_refused(sock):
    assert "2 sockets" in refused(Activated(sock, n=2))
    with socket.socket() as connects_only:
        assert "no TCP socket that listens" in refused(Activated(connects_only))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.bind(("127.0.0.1", 0))
        assert "no TCP socket that listens" in refused(Activated(datagrams))


def test_socket_beyond_loopback_needs_a_configuration_for_that():
    with socket.create_server(("0.0.0.0", 0)) as everywhere:
        assert "beyond loopback" in refused(Activated(everywhere))
        with Activated(everywhere, {"guests": True}, listen="0.0.0.0:0") as gateway:
            assert gateway.port == port(everywhere)
