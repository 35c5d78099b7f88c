"""Commands in bubblewrap: what they can reach, and that nothing runs when it does not work."""

import json
import os
import pathlib
import shutil
import socket
import subprocess

import pytest

import commands
from commands import background, process, run, terminal
from gateway import Gateway, is_alive, run as holdfast, wait_until
from holdfast import Client, new_id


def why_not():
    """Why bubblewrap does not work here; None when it does."""
    if not shutil.which("bwrap"):
        return "bubblewrap is not installed"
    done = subprocess.run(["bwrap", "--ro-bind", "/", "/", "--unshare-pid", "--unshare-net", "--proc", "/proc", "true"],
                          capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"bubblewrap makes no namespaces here: {done.stderr.strip()}"


WHY_NOT = why_not()
confined = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
SANDBOX = {"sandbox": "bubblewrap", "approved": ["*"]}


model = commands.served


@pytest.fixture(scope="module")
def gateway(model):
    with Gateway(commands.config(model, SANDBOX)) as running:
        yield running


def said(client, command, **fields):
    return run(client, terminal(command), **fields)[0]["output"]


@confined
def test_work_folder_is_all_that_can_be_written_to(client):
    conversation = new_id()
    assert said(client, "pwd; echo mine > file; cat file; echo $HOME", conversation=conversation) == "/files\nmine\n/files\n"
    assert said(client, "cat file", conversation=conversation) == "mine\n"
    assert said(client, "ls", conversation=new_id()) == ""
    for place in ("/x", "/usr/x", "/etc/x", "/bin/x", "/etc/passwd", "/etc/ssl/certs/x"):
        assert "Read-only file system" in said(client, f"touch {place} 2>&1"), place
    assert said(client, "echo there > /tmp/x; cat /tmp/x") == "there\n" and "No such" in said(client, "cat /tmp/x 2>&1")


@confined
def test_data_directory_and_everything_else_is_not_there(client, gateway):
    secret = gateway.folder / "secret"
    secret.write_text("secret", encoding="utf-8")
    assert "secret\n" not in said(client, f"cat {secret} 2>&1")
    seen = said(client, f"ls {gateway.data} {gateway.folder} /root /ho*e /var /mnt 2>&1; ls /").split("\n")
    assert sum("No such file" in line for line in seen) == 6
    assert set(seen[-20:]) & {"root", "home", "var", "srv", "mnt"} == set()


@confined
def test_other_processes_are_not_seen_and_not_reached(client, gateway):
    pids = said(client, "ls /proc | grep '^[0-9]' | wc -l")
    assert int(pids) < 8
    assert "No such process" in said(client, f"kill -9 {gateway.process.pid} 2>&1; kill -0 {os.getpid()} 2>&1")
    assert gateway.process.poll() is None


@confined
def test_network_only_when_it_is_allowed(client, model):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        reach = (f"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 2); "
                 "print(\"reached\")' 2>&1 | tail -1")
        assert "reached" not in said(client, reach)
        shared = {**SANDBOX, "network": True, "host_loopback": True}
        with Gateway(commands.config(model, shared)) as open_one, Client(open_one) as other:
            assert said(other, reach) == "reached\n"


@confined
def test_no_privilege_is_left(client):
    assert "CapEff:\t0000000000000000\n" in said(client, "grep CapEff /proc/self/status")
    assert run(client, terminal("mount -t tmpfs none /tmp"))[0]["exit_code"] != 0


@confined
def test_exit_codes_kill_and_pty_are_as_without(client):
    conversation = new_id()
    assert run(client, terminal("exit 3"))[0]["exit_code"] == 3
    seen = run(client, background("sleep 1000 & echo begun; sleep 1001"), process("kill"), conversation=conversation)
    assert (seen[1]["status"], seen[1]["exit_code"]) == ("killed", -15)
    wait_until(lambda: not is_alive(seen[0]["pid"]), "its end")
    seen = run(client, background("read x; echo got $x; test -t 0 && echo terminal", pty=True),
               process("submit", data="in"), process("wait"), conversation=conversation)
    assert "got in" in seen[2]["output"] and "terminal\n" in seen[2]["output"]


@confined
def test_command_in_the_sandbox_can_clean_up_when_it_is_asked_to_end(client):
    conversation = new_id()
    (started,) = run(client, background("trap 'echo cleaned > file; exit 0' TERM; echo ready; "
                                        "while :; do sleep 0.05; done"), conversation=conversation)

    def look():
        return run(client, process("poll", started["session_id"]), conversation=conversation)[0]

    wait_until(lambda: look()["output_preview"] == "ready\n", "its trap")
    seen = run(client, process("kill", started["session_id"]), terminal("cat file"), conversation=conversation)
    assert seen[0]["status"] == "killed" and seen[1]["output"] == "cleaned\n"
    stubborn = run(client, background("trap '' TERM; while :; do sleep 1; done"), process("kill"),
                   conversation=conversation)
    assert stubborn[1]["status"] == "killed"
    wait_until(lambda: not is_alive(stubborn[0]["pid"]), "its end")


@confined
def test_processes_in_the_sandbox_outlive_the_gateway(model):
    with Gateway(commands.config(model, SANDBOX)) as own:
        with Client(own) as client:
            conversation = new_id()
            (started,) = run(client, background("while [ ! -e gate ]; do sleep 0.05; done; echo over",
                                                notify_on_complete=True), conversation=conversation)
        own.kill()
        own.start()
        with Client(own, token=client.token) as again:
            run(again, terminal("touch gate"), conversation=conversation)
            wait_until(lambda: commands.notices(again, conversation), "the notice")
            (text,) = commands.notices(again, conversation)
            assert text.endswith("over\n") and started["session_id"] in text


@confined
def test_workdir_is_below_the_work_folder(client):
    conversation = new_id()
    said(client, "mkdir -p a/b", conversation=conversation)
    assert run(client, terminal("pwd", workdir="a/b"), conversation=conversation)[0]["output"] == "/files/a/b\n"
    (wrong,) = run(client, terminal("pwd", workdir="/nowhere"), conversation=conversation)
    assert wrong["exit_code"] != 0 and "nowhere" in wrong["output"]


@confined
def test_nothing_of_the_kernels_may_be_written_to(client):
    """Asked of access(2), never tried: where it may be written to, a try would change the machine."""
    writable = said(client, "find /proc /sys -writable -not -path '/proc/[0-9]*' -not -path '/proc/self/*' "
                            "-not -path '/proc/thread-self/*' -not -type l 2>/dev/null; echo over")
    assert writable == "over\n"
    assert said(client, "test -e /proc/sys/kernel/core_pattern && echo there") == "there\n"


# ------------------------------------------------------------------ refusals


def serve(tmp_path, terminal_keys, path, listen="127.0.0.1:0", **more):
    config = {"agents": [{"name": "a", "kind": "react", "tools": ["terminal", "process"]}],
              "terminal": terminal_keys, **more}
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config), encoding="utf-8")
    return holdfast("serve", "--config", str(file), "--listen", listen, "--data", str(tmp_path / "data"),
                    environ={"PATH": path})


def test_gateway_that_cannot_confine_refuses_to_start(tmp_path):
    done = serve(tmp_path, {}, str(tmp_path))  # no bwrap there
    assert done.returncode == 1 and "cannot_build" in done.stderr
    assert "bubblewrap" in done.stderr and "No such file" in done.stderr and "none" in done.stderr


def test_bubblewrap_that_may_not_make_namespaces_is_told_in_its_own_words(tmp_path):
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n", encoding="utf-8")
    fake.chmod(0o755)
    done = serve(tmp_path, {}, f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode == 1 and "No permissions to create new namespace" in done.stderr


def test_guests_from_beyond_loopback_run_no_commands(tmp_path):
    done = serve(tmp_path, {"sandbox": "none"}, os.environ["PATH"], "0.0.0.0:0", guests=True)
    assert done.returncode == 2
    assert "agents[0] (a).tools[0]: runs commands" in done.stderr and "agents[0] (a).tools[1]: runs commands" in done.stderr


def test_work_folders_are_private(model, tmp_path):
    work = tmp_path / "work" / "deep"
    with Gateway(commands.config(model, {**commands.FREE, "workdir": str(work)})) as own, Client(own) as client:
        assert run(client, terminal("pwd"))[0]["output"].startswith(str(pathlib.Path(work).resolve()))
        assert work.stat().st_mode & 0o777 == 0o700 == (own.data / "processes").stat().st_mode & 0o777
        (folder,) = work.iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
