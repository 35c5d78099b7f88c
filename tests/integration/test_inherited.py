"""Inheritance by agents and commands from the gateway, and by the gateway: signals, limits, orphans."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest

import commands
from commands import background, process, run, terminal
from gateway import Gateway, is_alive, merged, wait_until
from holdfast import Client, new_id


OF_THE_C_LIBRARY = 0b11 << 31  # signals 32 and 33: no program can set them, whatever this one was started with


model = commands.served


class Started(Gateway):
    """A gateway that another program starts; its agent "probe" answers with what its command prints."""

    def __init__(self, model, starter, command="true", limits=None):
        probe = f"""read -r run; printf '{{"event":"token","data":{{"text":"%s"}}}}\\n' "$({command} | tr '\\n\\t' ';:')" """
        agent = {"name": "probe", "kind": "exec", "command": ["/bin/sh", "-c", probe], "grace_s": 1}
        config = commands.config(model, limits=limits or {})
        super().__init__(merged(config, {"agents": config["agents"] + [agent]}))
        self.starter = starter

    def command(self, *more):
        return [*self.starter, *super().command(*more)]

    def pid(self):
        return self.process.pid


def answers(client, command):
    """Its output as an exec agent, waited for, in the background and with a terminal, as lists of lines."""
    task, _ = client.finish("go", agent="probe")
    yield task["output"].replace(":", "\t").strip(";").split(";")
    yield run(client, terminal(command))[0]["output"].splitlines()
    yield run(client, background(command), process("wait"), conversation=new_id())[1]["output"].splitlines()
    yield run(client, terminal(command, pty=True))[0]["output"].splitlines()


# ------------------------------------------------------------------ what they inherit


def test_g10_signals_that_the_starter_ignored_or_blocked_are_at_their_defaults(model):
    """Five ignored, four blocked: with such a mask pipelines never end, or complain."""
    command = "{ grep -E 'Sig(Blk|Ign)' /proc/self/status | tr -d ':'; yes 2>&1 | head -n 1; }"
    starter = ["/usr/bin/env", "--ignore-signal=HUP,INT,QUIT,PIPE,CHLD", "--block-signal=TERM,USR1,ALRM,CHLD"]
    with Started(model, starter, command) as gateway, Client(gateway) as client:
        for lines in answers(client, command):
            masks = [int(line.split("\t")[1], 16) & ~OF_THE_C_LIBRARY for line in lines[:2]]
            assert masks == [0, 0] and lines[2:] == ["y"]


def test_g11_limit_of_descriptors_is_what_the_gateway_was_started_with(model):
    command = "ulimit -Sn"
    starter = ["/bin/sh", "-c", 'ulimit -Sn 256; exec "$@"', "sh"]
    with Started(model, starter, command, {"connections": 300, "tasks": 50}) as gateway, Client(gateway) as client:
        own = pathlib.Path(f"/proc/{gateway.pid()}/limits").read_text(encoding="utf-8")
        assert int(re.search(r"Max open files +(\d+)", own)[1]) > 256
        for lines in answers(client, command):
            assert lines == ["256"]


# ------------------------------------------------------------------ what it inherits


def stat(pid):
    """(state, parent) of a process, zombies included; None when there is none."""
    with contextlib.suppress(OSError):
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
        return fields[0], int(fields[1])
    return None


def children(parent):
    return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and (stat(pid) or ("", 0))[1] == parent]


def until(path):
    return f"while [ ! -e {path} ]; do sleep 0.05; done"


class First(Started):
    """A gateway that is process 1 of a namespace of its own."""

    STARTER = ["unshare", "-U", "-r", "-p", "-f", "--kill-child", "--mount-proc"]

    def __init__(self, model):
        super().__init__(model, self.STARTER)

    def pid(self):
        (pid,) = children(self.process.pid)
        return pid

    def stop(self, seconds=None):
        os.kill(self.pid(), signal.SIGTERM)
        return self.wait(seconds)


def may_unshare():
    return shutil.which("nsenter") and subprocess.run([*First.STARTER, "true"], check=False).returncode == 0


def expect_that_it_reaps(client, gateway, orphans, gate):
    """They are its children, they end, and nothing is left of them; the ends of its own are told right."""
    wait_until(lambda: len([pid for pid in orphans() if (stat(pid) or ("", 0))[1] == gateway.pid()]) == 2,
               "two orphans")
    both = orphans()
    pathlib.Path(gate).touch()
    ends = [run(client, terminal(f"exit {code}"))[0]["exit_code"] for code in (3, 0, 5)]
    wait_until(lambda: not any(stat(pid) for pid in both), "the end of the orphans, and no zombie")
    assert ends == [3, 0, 5]
    assert not [pid for pid in children(gateway.pid()) if (stat(pid) or ("",))[0] == "Z"]


@pytest.mark.skipif(not may_unshare(), reason="no namespaces here")
def test_g12_process_1_reaps_what_joined_its_namespace(model):
    """As docker exec does: a shell that leaves an orphan, and a daemon of a session of its own."""
    with First(model) as gateway, Client(gateway) as client:
        gate, own = gateway.path(), gateway.pid()
        loop = until(gate)
        before = set(children(own))
        subprocess.run(["nsenter", "-t", str(own), "-U", "-p", "--preserve-credentials", "/bin/sh", "-c",
                        f"({loop} &); (setsid /bin/sh -c '{loop}' &)"], check=True)
        expect_that_it_reaps(client, gateway, lambda: set(children(own)) - before, gate)
        assert is_alive(own)


def test_g12_children_that_it_was_started_with_are_reaped(model, tmp_path):
    """sh -c "helper & exec holdfast": nobody else is their parent."""
    gate = tmp_path / "gate"
    starter = ["/bin/sh", "-c", f'({until(gate)}) & ({until(gate)}) & exec "$@"', "sh"]
    with Started(model, starter) as gateway, Client(gateway) as client:
        helpers = children(gateway.pid())
        expect_that_it_reaps(client, gateway, lambda: helpers, gate)
