"""Files that an agent has left in its conversation's folder (PROTOCOL.md 7): for its owner alone, and nothing beyond."""

import json
import os
import sys

import pytest

from files import Owner
from gateway import Gateway, wait_until
from holdfast import new_id

WORKSPACE = "workspace"
LEAVES = r"""import json, os, sys
run = json.loads(sys.stdin.readline())
os.makedirs("out/deep", exist_ok=True)
open("chart.png", "wb").write(b"\x89PNG\r\n\x1a\n" + bytes(100))
open("out/a b.txt", "wb").write(bytes(range(256)) * 1000)
open("out/deep/page.html", "w").write("<script>")
open("empty", "w").close()
for name, target in [("link", "/etc/passwd"), ("up", ".."), ("in", "chart.png"), ("outlink", "out")]:
    if not os.path.lexists(name): os.symlink(target, name)
if not os.path.exists("fifo"): os.mkfifo("fifo")
open(b"bad\xff", "w").close()
print(json.dumps({"event": "final_answer", "data": {"output": os.getcwd()}}))
"""


@pytest.fixture(scope="module")
def gateway():
    agent = {"name": "leaves", "kind": "exec", "command": [sys.executable, "-c", LEAVES], "cwd": WORKSPACE,
             "kept": False, "after_restart": "fail", "default": True}
    with Gateway({"agents": [agent]}) as running:
        yield running


@pytest.fixture(scope="module")
def left(gateway):
    """An owner, a conversation, and where its folder is."""
    owner, c = Owner(gateway), new_id()
    status, _, answer = owner.ask("POST", f"{c}/tasks", json.dumps({"message": "go"}), {"Content-Type": "application/json"})
    assert status == 201, answer
    task = json.loads(answer)["task"]["task_id"]

    def look():
        found = json.loads(owner.ask("GET", f"{c}/tasks/{task}")[2])["task"]
        return found if found["status"] in ("completed", "failed") else None
    ended = wait_until(look, "the end")
    assert ended["status"] == "completed", ended
    return owner, c, ended["output"]


def listed(owner, path):
    status, headers, body = owner.ask("GET", path)
    assert (status, headers["content-type"]) == (200, "application/json"), body
    answer = json.loads(body)
    assert answer["type"] == "workspace" and all(entry["modified_at"] > 0 for entry in answer["entries"])
    return [(entry["name"], entry["kind"], entry.get("size")) for entry in answer["entries"]]


def test_folders_are_listed_by_name_and_links_are_not(left):
    owner, c, _ = left
    root = [("chart.png", "file", 108), ("empty", "file", 0), ("out", "folder", None)]
    assert listed(owner, f"{c}/{WORKSPACE}") == root
    assert listed(owner, f"{c}/{WORKSPACE}/out") == [("a b.txt", "file", 256_000), ("deep", "folder", None)]
    assert listed(owner, f"{c}/{WORKSPACE}/out/deep") == [("page.html", "file", 8)]


def test_file_is_read_like_any_other(left):
    owner, c, _ = left
    body = bytes(range(256)) * 1000
    status, headers, got = owner.ask("GET", f"{c}/{WORKSPACE}/out/a%20b.txt")
    assert status == 200 and got == body
    assert headers["content-disposition"] == 'attachment; filename="a b.txt"'
    assert headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert headers["x-content-type-options"] == "nosniff" and headers["content-type"] == "application/octet-stream"
    status, _, got = owner.ask("GET", f"{c}/{WORKSPACE}/out/a%20b.txt", headers={"Range": "bytes=100000-199999"})
    assert status == 206 and got == body[100_000:200_000]
    assert owner.ask("GET", f"{c}/{WORKSPACE}/out/a%20b.txt", headers={"If-None-Match": headers["etag"]})[0] == 304
    status, headers, got = owner.ask("HEAD", f"{c}/{WORKSPACE}/out/a%20b.txt")
    assert (status, got, headers["content-length"]) == (200, b"", "256000")
    headers = owner.ask("GET", f"{c}/{WORKSPACE}/chart.png")[1]
    assert headers["content-type"] == "image/png" and headers["content-disposition"].startswith("inline")
    headers = owner.ask("GET", f"{c}/{WORKSPACE}/out/deep/page.html")[1]
    assert headers["content-disposition"].startswith("attachment")
    assert owner.ask("GET", f"{c}/{WORKSPACE}/empty")[2] == b""


def test_whatever_is_beyond_or_foreign_is_one_answer(left, gateway):
    owner, c, folder = left
    other = Owner(gateway)
    with open(os.path.join(os.path.dirname(folder), "secret"), "w", encoding="ascii") as secret:
        secret.write("x")
    answers = set()
    for who, path in [(owner, "link"), (owner, "up"), (owner, "in"), (owner, "outlink/deep"), (owner, "fifo"), (owner, "none"),
                      (owner, "%2fetc/passwd"), (owner, "/etc/passwd"), (owner, "chart.png/x"), (owner, "bad%FF/x"),
                      (other, ""), (other, "chart.png"), (other, "none")]:
        status, headers, body = who.ask("GET", f"{c}/{WORKSPACE}/{path}")
        assert b"root:" not in body and body != b"x"
        answers.add((path if status != 404 else 404, body if status == 404 else None))
    assert answers == {(404, b'{"error":{"code":"not_found","message":"no such file"}}')}, answers
    for path in ("../secret", "..%2fsecret", "out/../../secret", "out/%2e%2e/%2e%2e/secret", "./../../secret"):
        assert owner.ask("GET", f"{c}/{WORKSPACE}/{path}")[0] == 404, path
    assert owner.ask("GET", f"{new_id()}/{WORKSPACE}")[0] == 404
    assert owner.ask("GET", f"{c}/{WORKSPACE}", headers={"Authorization": ""})[0] == 401
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert owner.ask(method, f"{c}/{WORKSPACE}/chart.png", b"x", {"Content-Type": "application/json"})[0] in (404, 405)
    assert os.path.getsize(os.path.join(folder, "chart.png")) == 108


def test_file_that_shrinks_while_it_is_read_is_cut_and_no_alarm(left, gateway):
    owner, c, folder = left
    path = os.path.join(folder, "shrinks")
    with open(path, "wb") as big:
        big.truncate(20 << 20)
    link = owner.open("GET", f"{c}/{WORKSPACE}/shrinks")
    answer = link.getresponse()
    assert answer.read(10) == bytes(10)
    os.truncate(path, 100)
    read = 0
    while piece := answer.read1(65536):  # what was under way, and then the end
        read += len(piece)
    link.close()
    assert read < 20 << 20
    assert not [line for line in gateway.log if "component=files" in line and "event=damaged" in line]
