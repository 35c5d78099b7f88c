"""A continuous copy by Litestream, with packaging/litestream.yml: under load, to a cold standby that goes on.  Where the
program is not (./dev test-all installs it), this is skipped."""

import pathlib
import re
import subprocess
import urllib.request

import pytest

from gateway import BINARY, SANITIZE, WAIT_S, Gateway, free_port, run, wait_until, wrongs
from holdfast import Client

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = ROOT / "tests/packaging/tools/node_modules/@flydotio/litestream-linux-x64/litestream"
TASKS, TOKENS = 20, 200

pytestmark = pytest.mark.skipif(SANITIZE != "" or not PROGRAM.exists(), reason="no Litestream here")


class Litestream:
    def __init__(self, folder, data):
        self.port = free_port()
        self.config = folder / "litestream.yml"
        self.replica = folder / "replica"
        text = (ROOT / "packaging/litestream.yml").read_text()
        for old, new in (("/var/lib/holdfast/holdfast.db", f"{data}/holdfast.db"), ("127.0.0.1:9091", f"127.0.0.1:{self.port}"),
                         ("/var/backups/holdfast-replica", str(self.replica))):
            assert text.count(old) == 1
            text = text.replace(old, new)
        self.config.write_text(text)
        self.process = subprocess.Popen([PROGRAM, "replicate", "-config", self.config], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)

    def metrics(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=WAIT_S) as answer:
            return answer.read().decode()

    def restore(self, data, target):
        """To a file that must not be there yet; False while there is nothing to restore."""
        done = subprocess.run([PROGRAM, "restore", "-config", self.config, "-o", target, data / "holdfast.db"],
                              capture_output=True, text=True, check=False, timeout=4 * WAIT_S)
        return done.returncode == 0

    def kill(self):
        self.process.kill()
        self.process.wait()


def of_the_manual(copy, data, standby):
    """Its two blocks for the standby, as scripts for these folders and without what needs a service manager."""
    section = (ROOT / "docs/operations.md").read_text().split("### A continuous copy")[1].split("\n## ")[0]
    scripts = re.findall(r"(?:^    .*\n)+", section, re.M)
    for old, new in (("-o /var/lib/holdfast/holdfast.db /var/lib/holdfast/", f"-o {standby}/holdfast.db {data}/"),
                     ("/var/lib/holdfast", str(standby)), ("/etc/litestream.yml", str(copy.config)),
                     ("setpriv --reuid=holdfast --regid=holdfast --clear-groups \\\n        litestream", str(PROGRAM)),
                     ("holdfast doctor", f"{BINARY} doctor")):
        assert any(old in script for script in scripts), old
        scripts = [script.replace(old, new) for script in scripts]
    return [re.sub(r"systemctl .*", "", script) for script in scripts]


def test_standby_is_made_by_the_commands_of_the_manual(tmp_path):
    """Over the empty store of the gateway that the standby's package has started."""
    with Gateway(folder=tmp_path) as gateway:
        copy = Litestream(tmp_path, gateway.data)
        try:
            with Client(gateway) as client:
                client.finish({"token": "x"})
            once = tmp_path / "once"
            once.mkdir(mode=0o700)
            wait_until(lambda: copy.restore(gateway.data, once / "holdfast.db") or (once / "holdfast.db").unlink(missing_ok=True),
                       "the first copy", 4 * WAIT_S)
            (tmp_path / "second").mkdir()
            with Gateway(folder=tmp_path / "second") as second:
                second.stop()
                assert not copy.restore(gateway.data, second.data / "holdfast.db"), "it would stand in the way"
                for script in of_the_manual(copy, gateway.data, second.data):
                    done = subprocess.run(["sh", "-eu", "-c", script], capture_output=True, text=True, check=False,
                                          cwd=tmp_path, timeout=4 * WAIT_S)
                    assert not wrongs(done.stdout) and "Permission" not in done.stderr, done.stdout + done.stderr
                assert "1 conversations, 1 tasks" in done.stdout
                assert sorted(path.name for path in second.data.iterdir() if path.suffix in (".db", ".tmp-wal")) == ["holdfast.db"]
                second.start()
        finally:
            copy.kill()


def test_standby_has_what_was_acknowledged_and_goes_on(tmp_path):
    with Gateway(folder=tmp_path) as gateway:
        copy = Litestream(tmp_path, gateway.data)
        try:
            with Client(gateway) as client:
                token = client.token
                tasks = [client.chat({"flood": TOKENS, "bytes": 20}) for _ in range(TASKS)]
                ended = {task["task_id"]: client.wait_terminal(task) for task in tasks}
            # A lag of nothing: what Litestream has sent is where the log ends.
            numbers = iter(range(10**6))

            def is_whole():
                standby = tmp_path / f"standby-{next(numbers)}"
                standby.mkdir(mode=0o700)
                if not copy.restore(gateway.data, standby / "holdfast.db"):
                    return None
                (standby / "holdfast.db").chmod(0o600)
                said = run("doctor", "--data", str(standby), "--full")
                whole = f"{TASKS} tasks" in said.stdout and "tasks are live" not in said.stdout
                return standby if whole and not wrongs(said.stdout) else None

            standby = wait_until(is_whole, "the replica has all tasks", 4 * WAIT_S)
            metrics = copy.metrics()
            for name in re.findall(r"litestream_\w+", (ROOT / "packaging/alerts.yml").read_text()):
                assert re.search(rf"^{name}(\{{| )", metrics, re.M), name
            gateway.kill()
        finally:
            copy.kill()
        key = gateway.data / "guest.key"
        (standby / "guest.key").write_bytes(key.read_bytes())
        (standby / "guest.key").chmod(0o600)
    folder = tmp_path / "second"
    folder.mkdir()
    standby.rename(folder / "data")
    with Gateway(folder=folder) as second, Client(second, token=token) as client:
        for task in tasks:
            client.resume(task, 0)
            assert client.wait_terminal(task)["data"] == ended[task["task_id"]]["data"]
        assert client.finish({"token": "and new ones"})[0]["output"] == "and new ones"
