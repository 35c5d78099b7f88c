"""Files that programs give (PROTOCOL.md 8, "file"): told, kept with the task, once over a restart; and what is refused."""

import json
import os
import sys

import pytest

from files import Owner, assert_sound, blobs
from gateway import WAIT_S, Gateway, wait_until
from holdfast import new_id

GIVES = """import json, sys
def line(): return json.loads(sys.stdin.readline())
run = line()
said = []
for n, call in enumerate(json.loads(run["input"])):
    print(json.dumps({"call": "file", "call_id": f"c{n}", **call}), flush=True)
    said.append(line())
print(json.dumps({"event": "final_answer", "data": {"output": json.dumps(said)}}), flush=True)
"""
PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)


def agent(name, **options):
    return {"name": name, "kind": "exec", "command": [sys.executable, "-c", GIVES], **options}


CONFIG = {"agents": [agent("gives", kept=False, after_restart="fail"), agent("kept", after_restart="continue"),
                     {"name": "model", "kind": "react"}], "limits": {"file_mib": 2}}


@pytest.fixture(scope="module")
def gateway():
    with Gateway(CONFIG, lasting=True) as running:
        yield running


@pytest.fixture
def owner(gateway):
    return Owner(gateway)


def started(owner, c, calls, agent="gives"):
    status, _, answer = owner.ask("POST", f"{c}/tasks", json.dumps({"message": json.dumps(calls), "agent": agent}),
                                  {"Content-Type": "application/json"})
    assert status == 201, answer
    return json.loads(answer)["task"]["task_id"]


def ended(owner, c, task):
    def look():
        found = json.loads(owner.ask("GET", f"{c}/tasks/{task}")[2])["task"]
        return found if found["status"] in ("completed", "failed") else None
    return wait_until(look, "the end", 3 * WAIT_S)


def events(owner, c, task):
    text = owner.ask("GET", f"{c}/tasks/{task}/events")[2].decode()
    return [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: ")]


def test_file_is_told_and_lives_with_its_task(owner, gateway, tmp_path):
    c, path = new_id(), tmp_path / "a b.png"
    path.write_bytes(PNG)
    task = started(owner, c, [{"path": str(path)}, {"path": str(path), "name": "ü.txt", "media_type": "Text/Plain"}])
    said = json.loads(ended(owner, c, task)["output"])
    told = [event["data"] for event in events(owner, c, task) if event["event"] == "file"]
    assert [(f["call_id"], f["name"], f["media_type"], f["size"]) for f in told] == [
        ("c0", "a b.png", "image/png", len(PNG)), ("c1", "ü.txt", "text/plain", len(PNG))]
    for answer, file in zip(said, told):
        assert answer["type"] == "tool_result" and not answer["is_error"]
        assert json.loads(answer["output"]) == {k: v for k, v in file.items() if k != "call_id"}
        assert owner.ask("GET", f"{c}/files/{file['file_id']}")[2] == PNG
    assert Owner(gateway).ask("GET", f"{c}/files/{told[0]['file_id']}")[0] == 404
    names = [event["event"] for event in events(owner, c, task)]
    assert names.index("tool_call") < names.index("file") < names.index("tool_result")
    path.write_bytes(b"changed")
    assert owner.ask("GET", f"{c}/files/{told[0]['file_id']}")[2] == PNG
    assert owner.ask("DELETE", c)[0] == 200
    assert owner.ask("GET", f"{c}/files/{told[0]['file_id']}")[0] == 404


@pytest.mark.parametrize("call, why", [
    ({"path": "relative"}, '"path" must be an absolute path'),
    ({"path": "/nowhere/at/all"}, "the file cannot be read: No such file or directory"),
    ({"path": "/dev/null"}, "the file cannot be read: it is no regular file"),
    ({"path": "/"}, "the file cannot be read: it is no regular file"),
    ({"path": "/bin/sh", "name": "a/b"}, '"name" must be at most 255 bytes without a slash'),
    ({"path": "/bin/sh", "media_type": "text"}, '"media_type" is no media type of at most 127 bytes')])
def test_file_that_cannot_be_given_is_an_error_for_the_program(owner, call, why):
    c = new_id()
    task = started(owner, c, [call])
    [answer] = json.loads(ended(owner, c, task)["output"])
    assert answer["is_error"] and answer["output"] == why
    assert "file" not in [event["event"] for event in events(owner, c, task)]


def test_fifo_and_file_that_is_too_large(owner, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "big").write_bytes(bytes((2 << 20) + 1))
    (tmp_path / "fits").write_bytes(bytes(2 << 20))
    c = new_id()
    task = started(owner, c, [{"path": str(tmp_path / name)} for name in ("fifo", "big", "fits")])
    fifo, big, fits = json.loads(ended(owner, c, task)["output"])
    assert fifo["output"] == "the file cannot be read: it is no regular file"
    assert big["output"] == "the file is larger than limits.file_mib"
    assert json.loads(fits["output"])["size"] == 2 << 20


def test_line_without_a_path_breaks_the_task(owner):
    c = new_id()
    task = started(owner, c, [{"name": "x"}])
    assert '"path" is missing' in ended(owner, c, task)["error"]["message"]


def test_kept_program_gives_each_file_once_over_kills(tmp_path):
    """The gateway is killed somewhere between the call and its result."""
    with Gateway(CONFIG, lasting=True) as gateway:
        owner, bodies = Owner(gateway), [os.urandom(1 << 20) for _ in range(4)]
        for n, body in enumerate(bodies):
            (tmp_path / str(n)).write_bytes(body)
        c = new_id()
        task = started(owner, c, [{"path": str(tmp_path / str(n))} for n in range(4)], "kept")
        for n in range(4):
            wait_until(lambda n=n: [event["event"] for event in events_so_far(owner, c, task)].count("tool_call") > n
                       or json.loads(owner.ask("GET", f"{c}/tasks/{task}")[2])["task"]["status"] == "completed", "a call")
            gateway.kill()
            gateway.start()
        said = json.loads(ended(owner, c, task)["output"])
        told = [event["data"] for event in events(owner, c, task) if event["event"] == "file"]
        assert [f["call_id"] for f in told] == ["c0", "c1", "c2", "c3"]
        assert [json.loads(answer["output"])["file_id"] for answer in said] == [f["file_id"] for f in told]
        for file, body in zip(told, bodies):
            assert owner.ask("GET", f"{c}/files/{file['file_id']}")[2] == body
        assert len(blobs(gateway)) == 4
        gateway.stop()
        assert_sound(gateway)


def events_so_far(owner, c, task):
    """Those that are there now: the stream is cut behind them."""
    head = json.loads(owner.ask("GET", f"{c}/tasks/{task}")[2])["task"]["head"]
    found = []
    link = owner.open("GET", f"{c}/tasks/{task}/events")
    try:
        for line in link.getresponse():
            if line.startswith(b"data: "):
                found.append(json.loads(line[6:]))
                if found[-1]["seq"] >= head:
                    return found
        return found
    finally:
        link.close()
