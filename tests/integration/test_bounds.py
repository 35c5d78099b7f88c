"""A command's use of the machine: bounds that hold without a cgroup, and doctor's lines about them."""

import json
import os
import pathlib
import shutil
import socket
import tempfile

import pytest

import commands
from commands import background, process, run, terminal
from gateway import BINARY, Gateway, run as holdfast
from holdfast import Client, new_id
from test_sandbox import confined, serve

SMALL = {"memory_mib": 128, "file_mib": 1, "cpu_s": 1, "tmp_mib": 1, "workdir_mib": 4}
TAKE = "python3 -c 'x = bytearray({} << 20); print(len(x) >> 20)' 2>&1 | tail -1"


model = commands.served


@pytest.fixture(scope="module", params=[pytest.param("bubblewrap", marks=confined), "none"])
def gateway(request, model):
    with Gateway(commands.config(model, {"sandbox": request.param, "approved": ["*"], **SMALL})) as running:
        running.sandbox = request.param
        yield running


def test_memory_of_a_process(client):
    assert run(client, terminal(TAKE.format(60)))[0]["output"] == "60\n"
    assert "MemoryError" in run(client, terminal(TAKE.format(200)))[0]["output"]


def test_size_of_a_file(client):
    (seen,) = run(client, terminal("head -c 3000000 /dev/zero >big; stat -c %s big; ulimit -c"))
    assert seen["output"].endswith("1048576\n0\n")  # and no dump of a core


def test_processor_of_a_process(client, gateway):
    (seen,) = run(client, terminal("while :; do :; done", timeout=60))
    assert seen["exit_code"] == (128 + 24 if gateway.sandbox == "bubblewrap" else -24)  # SIGXCPU


def test_folder_that_grows_beyond_its_share(client):
    """Also where the command has made a part of it unreadable: it is killed, and told why."""
    conversation = new_id()
    fill = "for i in 1 2 3 4 5 6; do head -c 1000000 /dev/urandom >{}$i; done"
    (seen,) = run(client, terminal("mkdir d; cd d; " + fill.format("") + "; chmod 300 .; sleep 100", timeout=100),
                  conversation=conversation)
    assert seen["error"] == "the command was killed: its conversation's folder takes more than 4 MiB"
    # Existing files stay, and the next command of the conversation is killed too.
    (started,) = run(client, background("sleep 100", notify_on_complete=True), conversation=conversation)
    (text,) = commands.told(client, conversation)
    assert started["session_id"] in text and "takes more than 4 MiB" in text
    assert [t["status"] for t in commands.turns_of(client, conversation)] == ["completed"]  # nobody had asked for it
    (other,) = run(client, terminal("sleep 6; echo lives"))  # the folder of another conversation is another
    assert other["output"] == "lives\n"


def test_links_of_a_file_are_no_bytes(client):
    (seen,) = run(client, terminal("head -c 1000000 /dev/urandom >f; for i in 1 2 3 4 5 6 7 8; do ln f f$i; done; "
                                   "ln -s /usr usr; sleep 6; echo lives"))
    assert seen["output"] == "lives\n"


@confined
def test_tmp_and_dev_of_the_sandbox(model):
    with Gateway(commands.config(model, {"sandbox": "bubblewrap", "approved": ["*"], "tmp_mib": 1})) as own, Client(own) as client:
        for place in ("/tmp", "/dev/shm"):
            (seen,) = run(client, terminal(f"head -c 3000000 /dev/zero >{place}/x; stat -c %s {place}/x"))
            assert "No space left" in seen["output"] and seen["output"].endswith("\n1048576\n"), seen
        (seen,) = run(client, terminal("touch /dev/x; echo to >/dev/null && test -w /dev/tty && head -c 3 /dev/urandom | wc -c"))
        assert "Read-only file system" in seen["output"] and seen["output"].endswith("\n3\n")


@confined
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run it as another")
def test_processes_of_a_command(model):
    """As a user: the kernel exempts root."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-test-"))
    program = shutil.copy(BINARY, folder / "holdfast")  # the checkout may be closed to others
    gateway = Gateway(commands.config(model, {"approved": ["*"], "processes": 20}), folder=folder, binary=program)
    plain = gateway.command
    gateway.command = lambda *more: ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *plain(*more)]
    os.chown(folder, 65534, 65534)
    try:
        with gateway, Client(gateway) as client:
            many = "for i in $(seq {}); do sleep 5 & done; echo begun"
            assert run(client, background(many.format(10) + "; sleep 1"), process("wait"))[1]["output"] == "begun\n"
            assert "fork" in run(client, background(many.format(30)), process("wait"))[1]["output"]
            # Each command counts for itself: many of them have room.
            seen = run(client, *[background("sleep 3 & sleep 3 & sleep 3 & echo begun; wait") for _ in range(8)],
                       *[process("kill")])
            assert all(one["session_id"] for one in seen[:8])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# ------------------------------------------------------------------ the network


def test_network_of_the_host_must_be_asked_for(tmp_path):
    done = serve(tmp_path, {"network": True}, str(tmp_path))  # no pasta there
    assert done.returncode == 1 and "terminal.network: without pasta" in done.stderr and "host_loopback" in done.stderr


@confined
def test_network_is_one_of_its_own_where_pasta_is(model, tmp_path):
    """A stand-in for pasta, since it wants /dev/net/tun: a network namespace without a way out."""
    (tmp_path / "pasta").write_text(
        f"#!/bin/sh\necho \"$@\" >>{tmp_path}/said\nwhile [ \"$1\" != -- ]; do shift; done\nshift\n"
        "exec unshare --net -- \"$@\"\n", encoding="utf-8")
    (tmp_path / "pasta").chmod(0o755)
    keys = {"sandbox": "bubblewrap", "approved": ["*"], "network": True}
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with socket.create_server(("127.0.0.1", 0)) as listener, Gateway(commands.config(model, keys), environ=environ) as own, \
            Client(own) as client:
        port = listener.getsockname()[1]
        (seen,) = run(client, terminal(f"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 2)' 2>&1"))
        assert "unreachable" in seen["output"] or "refused" in seen["output"], seen
        words = (tmp_path / "said").read_text(encoding="utf-8").splitlines()[-1].split(" -- ")[0].split()
        assert "--no-map-gw" in words  # else the gateway's address is the host's loopback
        assert all(words[words.index(port) + 1] == "none" for port in ("-t", "-u", "-T", "-U"))
        seen = run(client, background("trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.05; done"), process("kill"))
        assert seen[1]["status"] == "killed"


# ------------------------------------------------------------------ doctor


def test_doctor_says_which_bounds_are_in_force(gateway):
    done = holdfast("doctor", "--config", str(gateway.folder / "config.json"), "--data", str(gateway.data))
    lines = [line for line in done.stdout.splitlines() if line.startswith("commands: ")]
    text = "\n".join(lines)
    for expected in ("memory: at most 128 MiB", "processor: at most 1 s", "files: at most 1 MiB", "folder: at most 4 MiB"):
        assert expected in text, text
    assert ("/tmp: at most 1 MiB" in text) == (gateway.sandbox == "bubblewrap")
    assert ("network: none" in text) == (gateway.sandbox == "bubblewrap")
    assert "bounds by rlimits: " in lines[0] or "bounds by cgroups in " in lines[0]
    logged = gateway.logged("component=process", "event=bounds")
    assert ("by=rlimits" in logged) == ("rlimits" in lines[0])


def test_bounds_have_defaults_and_can_be_left_out(tmp_path):
    said = json.loads(holdfast("print-config").stdout)["terminal"]
    assert (said["memory_mib"], said["processes"], said["file_mib"], said["tmp_mib"]) == (2048, 256, 1024, 256)
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"terminal": {"memory_mib": 0, "processes": 0, "file_mib": 0, "cpu_s": 0, "tmp_mib": 0}}))
    with Gateway() as gateway:
        done = holdfast("doctor", "--config", str(file), "--data", str(gateway.data))
    assert done.stdout.count(": no bound") == 5
