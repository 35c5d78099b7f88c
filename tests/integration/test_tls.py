"""TLS on the gateway's own port: HTTP/1.1 and WebSocket as without it."""

import asyncio
import json
import re
import socket
import ssl
import subprocess
import time

import pytest
import websockets

from gateway import LATE_S, WAIT_S, Gateway, run
from holdfast import program
from wire import TEXT, Wire, deflated, frame

OFFER = {"Sec-WebSocket-Extensions": "permessage-deflate"}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    key, cert = str(folder / "key.pem"), str(folder / "cert.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost"],
                   check=True, capture_output=True)
    return {"cert": cert, "key": key}


def context(cafile, alpn=None):
    made = ssl.create_default_context(cafile=cafile)
    made.check_hostname = False
    if alpn:
        made.set_alpn_protocols(alpn)
    return made


@pytest.mark.parametrize("compression", [False, True])
def test_a_conversation_is_resumed_over_tls(certificate, compression):
    async def talk(gateway):
        url = f"wss://{gateway.host}:{gateway.port}/v1/ws"
        tls = context(certificate["cert"])
        async with websockets.connect(url, subprotocols=["holdfast.v1"], ssl=tls) as ws:  # which offers it
            assert len(ws.extensions) == compression
            await ws.send('{"type":"hello"}')
            token = json.loads(await ws.recv())["token"]
            await ws.send(json.dumps({"type": "chat", "message": program({"flood": 3000, "bytes": 200})}))
            task = json.loads((await ws.recv()).split("\n")[0])["task"]
        async with websockets.connect(url, subprotocols=["holdfast.v1"], ssl=tls) as ws:
            await ws.send(json.dumps({"type": "hello", "token": token}))
            await ws.send(json.dumps({"type": "resume", "task_id": task["task_id"],
                                      "conversation_id": task["conversation_id"]}))
            last = 0
            async for message in ws:
                for line in map(json.loads, filter(None, message.split("\n"))):
                    if line["type"] == "event":
                        assert line["seq"] == last + 1
                        last = line["seq"]
                        if line["event"] == "task.completed":
                            return last

    with Gateway({"tls": certificate, "compression": compression}) as gateway:
        assert asyncio.run(talk(gateway)) == 3004


@pytest.mark.parametrize("compression", [False, True])
def test_requests_beyond_what_may_wait_are_all_answered(certificate, compression):
    """64 replies wait, and what comes behind them in the same record is read later: libwebsockets went round and round
    there, and with it the gateway."""
    with Gateway({"tls": certificate, "compression": compression}) as gateway:
        wire = Wire(gateway, upgrade=False)
        wire.sock = context(certificate["cert"]).wrap_socket(wire.sock)
        wire._upgrade(gateway, OFFER if compression else None, "/v1/ws")
        wire.text('{"type":"hello"}')
        wire.until_text("welcome")
        asked = [b'{"type":"conversations","id":"%d"}' % i for i in range(1000)]
        for size in (1, 10, 100):  # of lines in a message
            messages = [b"\n".join(asked[at : at + size]) for at in range(0, len(asked), size)]
            wire.send(b"".join(frame(TEXT, deflated(m), rsv=4) if compression else frame(TEXT, m) for m in messages))
            answered = ""
            while answered.count('"id"') < len(asked):
                answered += wire.until(TEXT).decode() + "\n"
            assert re.findall(r'"id":"(\d+)"', answered) == [str(i) for i in range(len(asked))]
        wire.close()


def test_operators_socket_has_no_tls(certificate):
    with Gateway({"tls": certificate}) as gateway:
        done = run("admin", "--config", gateway.path("config.json"), "--data", str(gateway.data), "revocations")
        assert json.loads(done.stdout) == {"type": "revocations", "revocations": []}


def test_http_2_is_not_offered(certificate):
    with Gateway({"tls": certificate}) as gateway:
        tls = context(certificate["cert"], ["h2", "http/1.1"])
        with tls.wrap_socket(socket.create_connection((gateway.host, gateway.port), WAIT_S)) as wire:
            assert wire.selected_alpn_protocol() == "http/1.1"
            wire.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert wire.recv(100).startswith(b"HTTP/1.1 200")


def client_hello():
    """The bytes with which a client begins."""
    coming, going = ssl.MemoryBIO(), ssl.MemoryBIO()
    connection = ssl.create_default_context().wrap_bio(coming, going, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        connection.do_handshake()
    return going.read()


def test_handshake_that_does_not_come_to_an_end_is_left(certificate):
    """Within 10 s, however it dawdles: the time is the subject."""
    hello = client_hello()
    with Gateway({"tls": certificate}) as gateway:
        begun, wires = time.monotonic(), {}
        for kind, said in (("silent", b""), ("half a hello", hello[:50]), ("no more than a hello", hello), ("dripping", hello[:20])):
            wires[kind] = socket.create_connection((gateway.host, gateway.port), WAIT_S)
            wires[kind].sendall(said)
        rest, ended = hello[20:], {}
        while len(ended) < len(wires) and time.monotonic() - begun < 10 + 1 + LATE_S:
            try:
                wires["dripping"].sendall(rest[:1])
            except OSError:
                pass  # it has been left
            rest = rest[1:]
            for kind in [kind for kind in wires if kind not in ended]:
                wires[kind].settimeout(0.2)
                try:
                    if wires[kind].recv(65536) == b"":
                        ended[kind] = time.monotonic() - begun
                except TimeoutError:
                    pass
                except OSError:
                    ended[kind] = time.monotonic() - begun
        assert set(ended) == set(wires), ended
        for wire in wires.values():
            wire.close()


def test_a_missing_certificate_refuses_to_start(certificate, tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"tls": {"cert": str(tmp_path / "none.pem"), "key": certificate["key"]}}))
    done = run("serve", "--config", str(config), "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"))
    told = f"holdfast: the configuration has 1 fault\ntls: {tmp_path}/none.pem: No such file or directory\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", told), "a manager does not repeat it"
    assert run("check-config", str(config)).stderr == told
    for kind in (["ed25519"], ["EC", "-pkeyopt", "ec_paramgen_curve:prime256v1"], ["RSA"]):
        subprocess.run(["openssl", "genpkey", "-algorithm", *kind, "-out", tmp_path / "other.key"], check=True,
                       capture_output=True)
        config.write_text(json.dumps({"tls": {"cert": certificate["cert"], "key": str(tmp_path / "other.key")}}))
        fault = run("check-config", str(config)).stderr.splitlines()[1]
        assert re.fullmatch(rf"tls: {tmp_path}/other.key: (the key does not belong to the certificate|key values mismatch)", fault)
    config.write_text(json.dumps({"tls": {"cert": str(tmp_path / "none.pem"), "key": certificate["key"]}}))
    (tmp_path / "none.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    assert f"tls: {tmp_path}/none.pem: " in run("check-config", str(config)).stderr
