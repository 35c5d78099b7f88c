"""TLS on the gateway's own port: HTTP/1.1 and WebSocket as without it."""

import asyncio
import json
import ssl
import subprocess

import pytest
import websockets

from gateway import Gateway, run
from holdfast import program


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


def test_a_conversation_is_resumed_over_tls(certificate):
    async def talk(gateway):
        url = f"wss://{gateway.host}:{gateway.port}/v1/ws"
        tls = context(certificate["cert"])
        async with websockets.connect(url, subprotocols=["holdfast.v1"], ssl=tls) as ws:
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

    with Gateway({"tls": certificate}) as gateway:
        assert asyncio.run(talk(gateway)) == 3004


def test_operators_socket_has_no_tls(certificate):
    with Gateway({"tls": certificate}) as gateway:
        done = run("admin", "--config", gateway.path("config.json"), "--data", str(gateway.data), "revocations")
        assert json.loads(done.stdout) == {"type": "revocations", "revocations": []}


def test_http_2_is_not_offered(certificate):
    import socket
    with Gateway({"tls": certificate}) as gateway:
        tls = context(certificate["cert"], ["h2", "http/1.1"])
        with tls.wrap_socket(socket.create_connection((gateway.host, gateway.port), 10)) as wire:
            assert wire.selected_alpn_protocol() == "http/1.1"
            wire.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert wire.recv(100).startswith(b"HTTP/1.1 200")


def test_a_missing_certificate_refuses_to_start(certificate, tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"tls": {"cert": str(tmp_path / "none.pem"), "key": certificate["key"]}}))
    done = run("serve", "--config", str(config), "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"))
    assert done.returncode == 1
    assert "tls.cert" in done.stderr and "ready" not in done.stdout
