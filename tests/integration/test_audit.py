"""The audit's file: who asked, read, answered, cancelled, as lines of JSON that never hold a text; its rotation, a full
disk, and what a kill leaves."""

import json
import pathlib
import resource
import signal
import subprocess

import pytest

from gateway import BINARY, Gateway, wait_until
from holdfast import Client, ids, new_id
from test_admin import Admin
from test_http_api import Api
from test_metrics import scrape

SECRET = "a very private sentence"


def entries(path):
    """All lines so far that are whole."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(True) if line.endswith("\n")]


def found(path, **members):
    return [entry for entry in entries(path) if members.items() <= entry.items()]


@pytest.fixture(name="path")
def audit_path(tmp_path):
    return tmp_path / "audit.log"


def audited(path, **more):
    return Gateway({"audit": {"path": str(path), **more}})


def test_actor_of_a_members_token_is_told(path):
    """Over the socket, over HTTP, and for files; the owner's own requests have none."""
    with audited(path) as gateway, Client(gateway) as owner:
        task = owner.chat({"hang": 1}, agent="script")
        made = owner.call("share", conversation_id=task["conversation_id"], rights=["read", "ask", "cancel"], actor="bob")
        with Client(gateway, token=made["token"]) as bob:
            bob.call("task", **ids(task))
            Api(gateway, made["token"]).ask("GET", f"/conversations/{task['conversation_id']}/messages")
            Api(gateway, made["token"]).ask("GET", f"/conversations/{task['conversation_id']}/files/none")
            bob.call("cancel", **ids(task))
        owner.wait_terminal(task)
        owner.call("task", **ids(task))
        his = {"owner": owner.owner, "actor": "bob", "conversation": task["conversation_id"]}
        for event, outcome in (("task", "ok"), ("history", "ok"), ("download", "not_found"), ("cancel", "ok")):
            wait_until(lambda e=event, o=outcome: found(path, event=e, outcome=o, **his), f"the line of {event}")
        wait_until(lambda: len(found(path, event="task")) == 2, "the owner's line")
        assert "actor" not in found(path, event="task")[-1] and "actor" not in found(path, event="chat")[0]


def test_requests_are_told_with_who_what_and_how_they_ended(path):
    with audited(path) as gateway:
        with Client(gateway) as client:
            token = client.token
            task = client.chat({"token": SECRET}, {"hang": 1}, agent="script")
            client.event(task, "token")
            client.call("cancel", **ids(task))
            client.wait_terminal(task)
            client.refused("not_found", "task", task_id=task["task_id"], conversation_id=new_id())
        owner = client.owner
        Api(gateway, token).ask("GET", "/conversations")
        Admin(gateway).good("GET", "/v1/conversations", owner=owner)
        Admin(gateway).good("POST", "/v1/admin/kick", {"owner": owner})
        common = {"owner": owner, "from": "127.0.0.1"}
        asked = {"conversation": task["conversation_id"], "task": task["task_id"]}
        wait_until(lambda: found(path, event="kick", owner=owner, **{"from": "operator"}, outcome="ok"), "the last line")
        assert found(path, event="chat", agent="script", outcome="ok", **common, **asked)
        assert found(path, event="cancel", outcome="ok", **common, **asked)
        assert found(path, event="task", outcome="not_found", task=task["task_id"], **common)
        assert found(path, event="conversations", outcome="ok", **common)
        assert found(path, event="conversations", owner=owner, outcome="ok", **{"from": "operator"})
        _, values = scrape(gateway)
        assert values['holdfast_audit_lines_total{outcome="written"}'] == len(entries(path))
        assert values['holdfast_requests_total{verb="chat"}'] == values['holdfast_requests_total{verb="cancel"}'] == 1
        assert values['holdfast_request_errors_total{code="not_found"}'] == 1
    text = path.read_text()
    assert SECRET not in text and token not in text
    assert path.stat().st_mode & 0o777 == 0o600


def test_files_that_are_uploaded_and_read_are_told(path):
    with audited(path) as gateway:
        api, conversation = Api(gateway), new_id()
        bearer = {"Authorization": f"Bearer {api.token}"}
        files = f"/v1/conversations/{conversation}/files"
        status, _, body = gateway.http("POST", files, SECRET.encode(), {**bearer, "Content-Type": "text/plain"})
        file = json.loads(body)["file_id"]
        assert status == 201 and gateway.http("GET", f"{files}/{file}", headers=bearer)[2] == SECRET.encode()
        assert gateway.http("GET", f"{files}/{new_id()}", headers=bearer)[0] == 404
        common = {"conversation": conversation, "from": "127.0.0.1"}
        wait_until(lambda: found(path, event="download", outcome="not_found", **common), "the last line")
        assert found(path, event="upload", outcome="ok", file=file, **common)
        assert found(path, event="download", outcome="ok", file=file, **common)
    assert SECRET not in path.read_text()


def test_file_rotates_at_its_size_and_keeps_so_many(path):
    with audited(path, rotate_mib=1, keep=2) as gateway, Client(gateway) as client:
        path.write_bytes(b"")  # truncated under it: O_APPEND goes on
        with open(path, "ab") as file:
            file.write(b'{"event":"old"}\n' * 70000)
        gateway.process.send_signal(signal.SIGHUP)  # it learns the size
        wait_until(lambda: (client.call("tasks", conversation_id=new_id()), path.with_suffix(".log.1").exists())[1],
                   "the full file is renamed")
        assert wait_until(lambda: found(path, event="tasks"), "a new file")
        assert len(entries(path)) < 70000 <= len(entries(path.with_suffix(".log.1")))


def test_reload_opens_the_file_again(path):
    with audited(path) as gateway, Client(gateway) as client:
        client.call("conversations")
        wait_until(lambda: found(path, event="conversations"), "the first line")
        path.rename(path.with_suffix(".1"))
        gateway.process.send_signal(signal.SIGHUP)
        wait_until(path.exists, "a new file")
        client.call("tasks", conversation_id=new_id())
        wait_until(lambda: found(path, event="tasks"), "the next line stands there")
        assert not found(path, event="conversations")


def test_full_disk_is_counted_and_survived(path):
    """A limit on the size of files stands for a full disk: it ends when the limit does."""
    with audited(path) as gateway, Client(gateway) as client:
        client.call("conversations")
        wait_until(lambda: found(path, event="conversations"), "the first line")
        pid = gateway.process.pid
        soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        database = max(file.stat().st_size for file in pathlib.Path(gateway.data).iterdir() if file.is_file())
        with open(path, "ab") as file:
            file.truncate(max(database, path.stat().st_size) + (1 << 24))  # a hole: larger than all other files
            file.write(b"\n")
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (path.stat().st_size, hard))
        client.call("tasks", conversation_id="while-full")
        gateway.logged("component=audit event=cannot_write")
        task, _ = client.finish({"token": "served"})
        assert task["output"] == "served"
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))
        gateway.logged("component=audit event=writes_again", "lost=0")
        tail = path.read_bytes().rpartition(b"\0")[2].decode()
        lines = [json.loads(line) for line in tail.splitlines() if line]
        assert [entry["event"] for entry in lines][:2] == ["tasks", "chat"] and lines[0]["conversation"] == "while-full"


def test_torn_last_line_is_ended_and_a_stop_writes_all(path):
    path.write_text('{"event":"torn')
    with audited(path) as gateway, Client(gateway) as client:
        client.call("conversations")
        gateway.stop()
    lines = path.read_text().splitlines()
    assert lines[0] == '{"event":"torn' and json.loads(lines[1])["event"] == "conversations"


@pytest.mark.parametrize("bad", ["/nowhere/at/all", "/dev/null", "/"])
def test_file_that_cannot_be_opened_is_no_start(tmp_path, bad):
    (tmp_path / "config.json").write_text(json.dumps({"listen": "127.0.0.1:0", "audit": {"path": bad}}))
    done = subprocess.run([BINARY, "serve", "--config", tmp_path / "config.json", "--data", tmp_path / "data"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "component=audit event=cannot_open" in done.stderr and not done.stdout
