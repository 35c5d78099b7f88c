"""Files over HTTP (PROTOCOL.md 7): given, gone on with after a cut, read, swept; nobody learns of another's."""

import contextlib
import hashlib
import http.client
import itertools
import json
import os
import shutil
import socket
import sys
import threading

import pytest

from files import Owner, aged, assert_sound, await_part, blobs, named_blobs, parts, put_stray
from gateway import SANITIZE, WAIT_S, Gateway, run, script_agent, wait_until, wrongs
from holdfast import new_id

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40


@pytest.fixture
def owner(gateway):
    return Owner(gateway)


@pytest.fixture
def alone():
    """A gateway of the test's own, with no other files."""
    with Gateway() as gateway:
        yield gateway


def test_file_is_given_and_read_as_it_was(owner):
    c, body = new_id(), os.urandom(300_000)
    file = owner.give(c, body, "Text/CSV; charset=utf-8", 'form-data; filename="a b.csv"')
    assert file == {"type": "file", "file_id": file["file_id"], "name": "a b.csv", "media_type": "text/csv",
                    "size": 300_000, "sha256": hashlib.sha256(body).hexdigest()}
    status, headers, got = owner.ask("GET", f"{c}/files/{file['file_id']}")
    assert status == 200 and got == body
    assert headers["content-type"] == "text/csv"
    assert headers["content-disposition"] == 'attachment; filename="a b.csv"'
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert headers["etag"] == f'"{file["sha256"]}"'
    assert headers["content-length"] == "300000" and headers["accept-ranges"] == "bytes"
    status, again, got = owner.ask("HEAD", f"{c}/files/{file['file_id']}")
    assert status == 200 and got == b"" and again["content-length"] == "300000"
    assert owner.ask("GET", f"{c}/files/{file['file_id']}", headers={"If-None-Match": headers["etag"]})[0] == 304


def test_empty_file_is_a_file(owner):
    c = new_id()
    file = owner.give(c, b"")
    assert file["size"] == 0 and file["name"] == "" and file["sha256"] == hashlib.sha256(b"").hexdigest()
    status, headers, got = owner.ask("GET", f"{c}/files/{file['file_id']}")
    assert (status, got, headers["content-disposition"]) == (200, b"", "attachment")


def test_image_is_shown_by_its_bytes_and_nothing_else_is(owner):
    c = new_id()
    for body, kind, shown, how in [(PNG, "text/html", "image/png", "inline"),
                                   (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml", "image/svg+xml", "attachment"),
                                   (b"<script>", "image/png", "image/png", "attachment"),
                                   (b"GIF", "image/gif", "image/gif", "attachment")]:
        file = owner.give(c, body, kind, 'attachment; filename="x.png"')
        headers = owner.ask("GET", f"{c}/files/{file['file_id']}")[1]
        assert headers["content-type"] == shown and headers["content-disposition"].split(";")[0] == how, body


def test_name_loses_its_path_and_keeps_its_letters(owner):
    c = new_id()
    for given, name, told in [
            ("attachment; filename*=UTF-8''na%C3%AFve%20%E2%82%AC.txt", "naïve €.txt",
             "attachment; filename=\"na__ve ___.txt\"; filename*=UTF-8''na%C3%AFve%20%E2%82%AC.txt"),
            (r'attachment; filename="..\\..\\boot.ini"', "boot.ini", 'attachment; filename="boot.ini"'),
            ('attachment; filename="../../etc/passwd"', "passwd", 'attachment; filename="passwd"'),
            ('attachment; filename=".."', "", "attachment")]:
        file = owner.give(c, b"x", name=given)
        assert file["name"] == name
        assert owner.ask("GET", f"{c}/files/{file['file_id']}")[1]["content-disposition"] == told


@pytest.mark.parametrize("header, value", [("Content-Disposition", 'attachment; filename="a'),
                                           ("Content-Disposition", "attachment; filename*=UTF-8''%FF"),
                                           ("Content-Disposition", f'attachment; filename="{"x" * 256}"'),
                                           ("Content-Type", "text"), ("Content-Type", "a/" + "b" * 127)])
def test_bad_head_is_named(owner, header, value):
    status, _, answer = owner.ask("POST", f"{new_id()}/files", b"x", {header: value})
    assert status == 400 and f'"{header}"' in json.loads(answer)["error"]["message"], answer


def test_ranges(owner):
    c, body = new_id(), bytes(range(256)) * 1000
    path = f"{c}/files/{owner.give(c, body)['file_id']}"
    size = len(body)
    for value, first, last in [("bytes=0-0", 0, 0), ("bytes=5-", 5, size - 1), ("bytes=-7", size - 7, size - 1),
                               ("bytes=100000-199999", 100_000, 199_999), ("bytes=0-99999999", 0, size - 1),
                               ("bytes=-99999999", 0, size - 1)]:
        status, headers, got = owner.ask("GET", path, headers={"Range": value})
        assert status == 206 and got == body[first:last + 1], value
        assert headers["content-range"] == f"bytes {first}-{last}/{size}"
    for value in [f"bytes={size}-", "bytes=-0"]:
        status, headers, got = owner.ask("GET", path, headers={"Range": value})
        assert (status, headers["content-range"], got) == (416, f"bytes */{size}", b""), value
    for value in ["bytes=1-0", "bytes=a-b", "bytes=0-1,3-4", "lines=0-1", "bytes=", "bytes=-"]:
        assert owner.ask("GET", path, headers={"Range": value})[0] == 200, value
    etag = owner.ask("HEAD", path)[1]["etag"]
    assert owner.ask("GET", path, headers={"Range": "bytes=0-1", "If-Range": etag})[0] == 206
    assert owner.ask("GET", path, headers={"Range": "bytes=0-1", "If-Range": '"other"'})[0] == 200


def test_foreign_missing_and_malformed_are_one_answer(owner, gateway):
    c, other = new_id(), Owner(gateway)
    file = owner.give(c, b"mine")["file_id"]
    ids = [file, "01ARZ3NDEKTSV4RRFFQ69G5FAV", "x", "%00", file.lower(), file + "0", "%C3%A9" * 13, "a;b"]
    answers, of_files = set(), set()
    for method in ("GET", "HEAD"):
        for asker, names in ((other, ids), (owner, ids[1:])):
            for name in names:
                status, headers, body = asker.ask(method, f"{c}/files/{name}")
                told = {k: v for k, v in headers.items() if k != "date"}
                if name in ids[:2]:
                    of_files.add((method, *told.items()))
                told.pop("connection", None)  # a home's answer by way of another gateway ends it
                answers.add((method, status, *sorted(told.items()), body))
    assert {a[1] for a in answers} == {404} and len(answers) == 2, answers
    assert len(of_files) == 2, of_files  # in all its headers, in their order
    assert owner.ask("GET", f"{new_id()}/files/{file}")[0] == 404  # another conversation
    assert owner.ask("GET", f"{c}/files/{file}")[2] == b"mine"


def test_same_bytes_of_two_owners_share_nothing(alone):
    c, owner, other, gateway = new_id(), Owner(alone), Owner(alone), alone
    one, two, again = owner.give(c, b"same"), other.give(c, b"same"), owner.give(c, b"same")
    assert len({one["file_id"], two["file_id"], again["file_id"]}) == 3
    assert len(blobs(gateway)) == 2
    owner.ask("DELETE", c)
    wait_until(lambda: len(blobs(gateway)) == 1, "the sweep", 3 * WAIT_S)
    assert other.ask("GET", f"{c}/files/{two['file_id']}")[2] == b"same"
    assert owner.ask("GET", f"{c}/files/{one['file_id']}")[0] == 404


# ---------------------------------------------------------------- uploads that go on


def test_upload_goes_on_where_it_was_cut(alone):
    owner, gateway = Owner(alone), alone
    c, body = new_id(), os.urandom(1_000_000)
    wire = owner.begin(c, "try", body[:400_000], len(body))
    await_part(gateway, 400_000)
    wire.close()
    assert owner.offset(c, "try") == 400_000
    status, headers, answer = owner.go_on(c, "try", 7, body[7:])
    assert status == 409 and headers["upload-offset"] == "400000", answer
    status, _, answer = owner.go_on(c, "try", 400_000, body[400_000:])
    file = json.loads(answer)
    assert status == 201 and file["size"] == len(body) and file["sha256"] == hashlib.sha256(body).hexdigest()
    assert owner.ask("GET", f"{c}/files/{file['file_id']}")[2] == body
    assert parts(gateway) == []
    assert owner.offset(c, "try") == len(body)
    status, _, answer = owner.go_on(c, "try", len(body), b"")  # its answer was lost
    assert status == 200 and json.loads(answer) == {**file, "repeated": True}
    assert owner.offset(new_id(), "try") == 0 and Owner(gateway).offset(c, "try") == 0


def test_try_that_hangs_is_taken_over(alone):
    c, body, owner = new_id(), b"0123456789", Owner(alone)
    wire = owner.begin(c, "k", body[:4], len(body))
    await_part(alone, 4)
    assert owner.offset(c, "k") == 4  # the look ends the try
    assert wire.recv(1) == b""
    wire.close()
    assert owner.go_on(c, "k", 4, body[4:])[0] == 201


def test_upload_outlives_a_kill(alone):
    owner, c, body, gateway = Owner(alone), new_id(), os.urandom(200_000), alone
    wire = owner.begin(c, "k", body[:150_000], len(body))
    once = owner.begin(c, "", b"", 1)  # an empty key is refused: no part
    once.close()
    whole = owner.give(c, b"whole")["file_id"]
    await_part(gateway, 150_000)
    gateway.kill()
    wire.close()
    gateway.start()
    assert owner.ask("GET", f"{c}/files/{whole}")[2] == b"whole"
    assert owner.offset(c, "k") == 150_000
    assert owner.go_on(c, "k", 150_000, body[150_000:])[0] == 201


def test_cut_upload_without_a_key_leaves_nothing(alone):
    c, owner, gateway = new_id(), Owner(alone), alone
    wire = socket.create_connection((gateway.host, gateway.port), WAIT_S)
    wire.sendall(f"POST /v1/conversations/{c}/files HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {owner.token}\r\n"
                 f"Content-Length: 500000\r\n\r\n".encode() + b"x" * 400_000)
    wait_until(lambda: parts(gateway), "the part")
    wire.close()
    wait_until(lambda: not parts(gateway), "its end")
    assert blobs(gateway) == []


@pytest.mark.parametrize("method, path, headers, what", [
    ("POST", "?upload=", {}, '"upload"'), ("POST", "?upload=" + "k" * 129, {}, '"upload"'),
    ("HEAD", "", {}, None), ("PATCH", "", {"Upload-Offset": "0"}, '"upload"'),
    ("PATCH", "?upload=k", {}, '"Upload-Offset"'), ("PATCH", "?upload=k", {"Upload-Offset": "-1"}, '"Upload-Offset"')])
def test_bad_upload_is_named(owner, method, path, headers, what):
    status, _, answer = owner.ask(method, f"{new_id()}/files{path}", None if method == "HEAD" else b"x", headers)
    assert status == 400 and (not what or what in json.loads(answer)["error"]["message"]), answer


def test_big_file_is_never_whole_in_memory(owner, gateway):
    c, size = new_id(), 30 << 20
    before = gateway.rss()
    body = os.urandom(1 << 20) * 30
    file = owner.give(c, body)
    assert file["size"] == size
    status, _, got = owner.ask("GET", f"{c}/files/{file['file_id']}")
    assert status == 200 and hashlib.sha256(got).hexdigest() == file["sha256"]
    assert gateway.rss() - before < 16 << 20 or SANITIZE  # which keeps what was freed


# ---------------------------------------------------------------- the sweep


def test_what_nobody_names_is_swept_after_a_day_and_after_a_crash(alone):
    owner, c, gateway = Owner(alone), new_id(), alone
    old, new = owner.give(c, b"old"), owner.give(c, b"new")
    wire = owner.begin(c, "k", b"half", 8)
    await_part(gateway, 4)
    wire.close()
    gateway.kill()
    stray = put_stray(gateway)
    aged(gateway, 2, old["file_id"])
    assert stray in blobs(gateway)
    gateway.start()
    wait_until(lambda: stray not in blobs(gateway) and len(blobs(gateway)) == 1 and not parts(gateway), "the sweep",
               3 * WAIT_S)
    assert owner.ask("GET", f"{c}/files/{old['file_id']}")[0] == 404
    assert owner.ask("GET", f"{c}/files/{new['file_id']}")[2] == b"new"
    gateway.stop()
    assert_sound(gateway)


def test_share_of_the_store_counts_files():
    with Gateway({"limits": {"store_mib_per_owner": 1}}) as gateway:
        owner, c = Owner(gateway), new_id()
        owner.give(c, b"x" * 600_000)
        status, _, answer = owner.ask("POST", f"{c}/files", b"y" * 600_000)
        assert status == 503 and json.loads(answer)["error"]["code"] == "overloaded", answer
        assert owner.ask("DELETE", c)[0] == 200
        owner.give(c, b"y" * 600_000)


def test_store_in_memory_takes_no_files():
    memory = Gateway({"store": {"kind": "memory"}})
    memory.data.mkdir(mode=0o700)
    with memory as gateway:
        assert Owner(gateway).ask("POST", f"{new_id()}/files", b"x")[0] == 404


def test_what_was_acknowledged_survives_kills(alone):
    """Uploads of all kinds, and kills at any place of them; what is left behind is swept."""
    gateway, owner, c = alone, Owner(alone), new_id()
    given, stop = [], threading.Event()

    def give(n):
        tried = itertools.count()
        while not stop.is_set():
            body = f"{n} {next(tried)} ".encode() * (1 + 9000 * (n % 2))
            with contextlib.suppress(OSError, http.client.HTTPException):  # the kill
                status, _, answer = owner.ask("POST", f"{c}/files?upload={n}-{next(tried)}", body)
                if status == 201:
                    given.append((json.loads(answer)["file_id"], body))

    for _ in range(int(os.environ.get("HOLDFAST_CRASH_ROUNDS", 3))):
        stop.clear()
        threads = [threading.Thread(target=give, args=(n,), daemon=True) for n in range(4)]
        before = len(given)
        for thread in threads:
            thread.start()
        wait_until(lambda n=before: len(given) >= n + 12, "some files")
        gateway.kill()
        stop.set()
        for thread in threads:
            thread.join()
        gateway.start()
        for name, body in given[before:]:
            assert owner.ask("GET", f"{c}/files/{name}")[2] == body
    for name, body in given:
        assert owner.ask("GET", f"{c}/files/{name}")[2] == body
    gateway.stop()
    named = named_blobs(gateway)
    gateway.start()
    wait_until(lambda: set(blobs(gateway)) == named, "the sweep", 3 * WAIT_S)
    gateway.stop()
    assert_sound(gateway)


# ---------------------------------------------------------------- messages with parts

READS = """import json, sys
run = json.loads(sys.stdin.readline())
said = []
for part in run.get("parts", []):
    if part["type"] == "file":
        path = part.pop("path")
        said.append([part, open(path, "rb").read().decode(), path.rsplit("/", 1)[1], path])
print(json.dumps({"event": "final_answer", "data": {"output": json.dumps([run["input"], said, run["history"]])}}))
"""
AGENTS = {"agents": [script_agent(default=True),
                     {"name": "reads", "kind": "exec", "command": [sys.executable, "-c", READS], "kept": False,
                      "after_restart": "fail"},
                     {"name": "model", "kind": "react", "after_restart": "fail"}]}


@pytest.fixture(scope="module")
def served():
    with Gateway(AGENTS) as gateway:
        yield gateway


def known(file):
    return {"type": "file", **{k: file[k] for k in ("file_id", "name", "media_type", "size", "sha256")}}


def asked(owner, c, message, agent="reads", **fields):
    status, _, answer = owner.ask("POST", f"{c}/tasks", json.dumps({"message": message, "agent": agent, **fields}),
                                  {"Content-Type": "application/json"})
    return status, json.loads(answer)


def ended(owner, c, task):
    def look():
        found = json.loads(owner.ask("GET", f"{c}/tasks/{task['task_id']}")[2])["task"]
        return found if found["status"] in ("completed", "failed") else None
    return wait_until(look, "the end")


def test_parts_reach_the_program_and_everybody_who_reads(served):
    owner, c = Owner(served), new_id()
    file = owner.give(c, b"what is in it", "text/plain", 'attachment; filename="a b.txt"')
    parts = [{"type": "text", "text": "look"}, {"type": "file", "file_id": file["file_id"]},
             {"type": "file", "media_type": "text/x", "data": "aGk="}, {"type": "text", "text": "at it"}]
    status, answer = asked(owner, c, parts)
    assert status == 201, answer
    told = [parts[0], known(file), parts[2], parts[3]]
    end = ended(owner, c, answer["task"])
    assert end["status"] == "completed", end
    text, said, history = json.loads(end["output"])
    assert text == "look\nat it" and history == []
    assert [s[:3] for s in said] == [[known(file), "what is in it", "a b.txt"], [parts[2], "hi", "file"]]
    wait_until(lambda: not os.path.exists(said[0][3]), "its return")
    messages = json.loads(owner.ask("GET", f"{c}/messages")[2])["messages"]
    assert messages[0]["content"] == "look\nat it" and messages[0]["parts"] == told and "parts" not in messages[1]
    events = owner.ask("GET", f"{c}/tasks/{end['task_id']}/events")[2].decode()
    created = json.loads(next(line for line in events.split("\n") if line.startswith("data: "))[6:])
    assert created["data"]["input"] == "look\nat it" and created["data"]["parts"] == told
    again = ended(owner, c, asked(owner, c, "and again")[1]["task"])
    assert json.loads(again["output"])[2][0] == {"role": "user", "content": "look\nat it", "parts": told}


def test_one_text_is_a_string(served):
    owner, c = Owner(served), new_id()
    task = ended(owner, c, asked(owner, c, [{"type": "text", "text": "hi"}])[1]["task"])
    assert json.loads(task["output"])[0] == "hi"
    assert "parts" not in json.loads(owner.ask("GET", f"{c}/messages")[2])["messages"][0]


def test_foreign_missing_and_malformed_files_of_a_message_are_one_answer(served):
    owner, other, c = Owner(served), Owner(served), new_id()
    mine = owner.give(c, b"mine")["file_id"]
    answers = [asked(who, where, [{"type": "file", "file_id": name}])
               for who, where, name in [(other, c, mine), (owner, new_id(), mine), (owner, c, "01ARZ3NDEKTSV4RRFFQ69G5FAV"),
                                        (owner, c, ""), (owner, c, "x/../y"), (owner, c, "é" * 40)]]
    assert answers == [(404, {"error": {"code": "not_found", "message": "no such file"}})] * 6
    assert asked(owner, c, [{"type": "file", "file_id": mine}])[0] == 201


@pytest.mark.parametrize("message", [[], [1], [{"type": "text"}], [{"type": "text", "text": ""}], {},
                                     [{"type": "file", "file_id": "x", "data": ""}],
                                     [{"type": "file", "media_type": "a/b", "data": "?"}]])
def test_message_that_is_none_is_named(served, message):
    status, answer = asked(Owner(served), new_id(), message)
    assert status == 400 and answer["error"]["message"].startswith('"message" must be a string'), answer


def test_agent_that_takes_no_files_fails_the_task_not_the_request(served):
    owner, c = Owner(served), new_id()
    file = owner.give(c, b"x")
    status, answer = asked(owner, c, [{"type": "file", "file_id": file["file_id"]}], agent="model")
    assert status == 201
    error = ended(owner, c, answer["task"])["error"]
    assert error["code"] == "agent_error" and "takes no files" in error["message"]
    assert ended(owner, c, asked(owner, c, [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
                                 agent="model")[1]["task"])["status"] == "completed"


def test_repeat_compares_parts(served):
    owner, c = Owner(served), new_id()
    file, other = owner.give(c, b"x"), owner.give(c, b"x")
    message = [{"type": "file", "file_id": file["file_id"]}]
    first = asked(owner, c, message, request_key="k")
    assert first[0] == 201
    again = asked(owner, c, message, request_key="k")
    assert again[0] == 200 and again[1]["task"]["task_id"] == first[1]["task"]["task_id"]
    assert asked(owner, c, [{"type": "file", "file_id": other["file_id"]}], request_key="k")[0] == 409


def test_file_lives_as_long_as_its_task(alone):
    owner, c, gateway = Owner(alone), new_id(), alone
    named, other = owner.give(c, b"named"), owner.give(c, b"other")
    status, _, answer = owner.ask("POST", f"{c}/tasks", json.dumps(
        {"message": [{"type": "file", "file_id": named["file_id"]}, {"type": "text", "text": "[]"}]}),
        {"Content-Type": "application/json"})
    assert status == 201, answer
    ended(owner, c, json.loads(answer)["task"])
    gateway.kill()
    aged(gateway, 2)
    gateway.start()
    wait_until(lambda: owner.ask("HEAD", f"{c}/files/{other['file_id']}")[0] == 404, "the sweep")  # a GET may be cut
    assert owner.ask("GET", f"{c}/files/{named['file_id']}")[2] == b"named"
    messages = json.loads(owner.ask("GET", f"{c}/messages")[2])["messages"]
    assert messages[0]["parts"][0] == known(named)
    assert owner.ask("DELETE", c)[0] == 200
    wait_until(lambda: blobs(gateway) == [], "the sweep", 3 * WAIT_S)
    gateway.stop()
    assert_sound(gateway)


def test_backup_has_the_files(alone, tmp_path):
    owner, c, gateway = Owner(alone), new_id(), alone
    file, copy = owner.give(c, b"in the copy"), tmp_path / "copy.db"
    assert run("backup", "--data", str(gateway.data), str(copy)).returncode == 0
    assert run("backup", "--data", str(gateway.data), str(copy)).returncode == 1  # it exists
    restored = tmp_path / "restored"
    restored.mkdir(mode=0o700)
    copy.rename(restored / "holdfast.db")
    shutil.copy(gateway.data / "guest.key", restored / "guest.key")
    (tmp_path / "copy.db.files").rename(restored / "files")
    assert wrongs(run("doctor", "--full", "--data", str(restored)).stdout) == []
    blob = next(path for path in (restored / "files").rglob("*") if path.is_file())
    blob.chmod(0o600)
    blob.write_bytes(b"in the COPY")
    assert "not as they were written" in run("doctor", "--full", "--data", str(restored)).stdout
    blob.unlink()
    assert "are missing" in run("doctor", "--data", str(restored)).stdout
    assert owner.ask("GET", f"{c}/files/{file['file_id']}")[2] == b"in the copy"
