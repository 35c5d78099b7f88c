"""WebSocket libraries of other languages, unchanged from Debian, against the gateway's compression: each reads what our
own client reads.  Go and Java are large, so ./dev test-all alone installs and runs them."""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess

import pytest

from gateway import SANITIZE, WAIT_S, Gateway
from holdfast import Client, program

HERE = pathlib.Path(__file__).resolve().parent.parent / "clients/libraries"
GO_PATH = pathlib.Path("/usr/share/gocode")
LONG_S = 10 * WAIT_S
# One line a message, many lines a message, a line that is longer than a frame.
STEPS = [{"token": f"word {i} "} for i in range(40)] + [{"flood": 2000}, {"token": "é" * 30000}, {"flood": 100}]

pytestmark = pytest.mark.skipif(not os.environ.get("HOLDFAST_TOOLCHAINS") or SANITIZE != "",
                                reason="./dev test-all's")


@pytest.fixture(scope="module")
def gateway():
    with Gateway({"compression": True}) as running:
        yield running


@pytest.fixture(scope="module")
def expected(gateway):
    with Client(gateway) as client:
        _, events = client.finish(*STEPS)
    return {"events": len(events), "text": digest(events)}


def digest(events):
    text = "".join(event["data"]["text"] for event in events if event["event"] == "token")
    return hashlib.sha256(text.encode()).hexdigest()


def url(gateway):
    return f"ws://{gateway.host}:{gateway.port}/v1/ws"


@pytest.fixture(scope="module")
def go(gateway, tmp_path_factory):
    """What each library of Go had, by its name."""
    if not shutil.which("go") or not (GO_PATH / "src/nhooyr.io/websocket").exists():
        pytest.skip("there is no Go with gorilla's and nhooyr's libraries")
    folder = tmp_path_factory.mktemp("go")
    environ = {**os.environ, "GO111MODULE": "off", "GOPATH": str(GO_PATH), "GOCACHE": str(folder / "cache")}
    subprocess.run(["go", "build", "-o", str(folder / "deflate"), str(HERE / "deflate.go")], env=environ, check=True,
                   timeout=LONG_S)
    done = subprocess.run([folder / "deflate", url(gateway), program(*STEPS)], capture_output=True, text=True,
                          check=False, timeout=LONG_S)
    assert done.returncode == 0, done.stderr
    return {said["library"]: said for said in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("library, agreed", [
    ("gorilla", "server_no_context_takeover"), ("gorilla-plain", None), ("nhooyr", "client_no_context_takeover"),
    ("nhooyr-alone", "server_no_context_takeover"), ("nhooyr-plain", None)])
def test_client_of_go_reads_what_ours_reads(go, expected, library, agreed):
    said = go[library]
    assert (said["events"], said["text"]) == (expected["events"], expected["text"])
    words = [word.strip() for word in said["extensions"].split(";")]
    assert (words[0] == "permessage-deflate" and agreed in words) if agreed else words == [""]
    assert agreed != "client_no_context_takeover" or "server_no_context_takeover" not in words


def test_client_of_java_reads_what_ours_reads(gateway, expected):
    """Its own library offers no compression."""
    if not shutil.which("java") or not shutil.which("javac"):
        pytest.skip("there is no Java")
    chat = {"type": "chat", "id": "2", "conversation_id": "java", "message": program(*STEPS)}
    words = ['{"type":"hello","id":"1"}', json.dumps(chat, ensure_ascii=False)]
    done = subprocess.run(["java", str(HERE / "Plain.java"), url(gateway), *words], capture_output=True, check=False,
                          encoding="utf-8", timeout=LONG_S, env={**os.environ, "LC_ALL": "C.UTF-8"})
    assert done.returncode == 0, done.stderr
    events = [line for line in map(json.loads, done.stdout.splitlines()) if line["type"] == "event"]
    assert [e["seq"] for e in events] == list(range(1, expected["events"] + 1)) and digest(events) == expected["text"]
