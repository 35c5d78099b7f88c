"""examples/cluster: its script, as it stands, on this machine; its compose file is read."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess

import pytest
import yaml

import postgres
from gateway import BINARY, MARK, WAIT_S, free_port, has_mark, is_alive, processes_with, signal_if, wait_until
from holdfast import Client, Closed, Refused
from test_proxy import NGINX

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
EXAMPLE = ROOT / "examples/cluster"
LEASE_S = 3
HOME_OF = ("SELECT convert_from(n.node, 'UTF8') FROM tasks t JOIN slots s ON s.slot = t.slot JOIN nodes n "
           "ON n.incarnation = s.incarnation WHERE t.task_id = '{}'")

if not postgres.programs() or not pathlib.Path(NGINX).exists():
    pytest.skip("PostgreSQL or nginx is not installed", allow_module_level=True)


def free_ports(n):
    """The first of so many in a row."""
    while True:
        first = free_port()
        try:
            for port in range(first + 1, first + n):
                socket.create_server(("127.0.0.1", port)).close()
            return first
        except OSError:
            continue


class Cluster:
    def __init__(self, folder):
        self.folder = folder
        self.mark = f"cluster-{os.getpid()}"
        self.host, self.port = "127.0.0.1", free_ports(4)
        self.process = subprocess.Popen(
            [EXAMPLE / "run", str(folder)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "HOLDFAST": BINARY, "PORT": str(self.port), "LEASE_S": str(LEASE_S), MARK: self.mark})

    def ready(self):
        line = self.process.stdout.readline()
        assert line == f"ready: http://127.0.0.1:{self.port}/\n", self.logs()
        return self

    def logs(self):
        return "\n".join(f"{log.name}: {log.read_text()[-4000:]}" for log in self.folder.glob("*.log"))

    def number(self, file):
        return int((self.folder / file).read_text())

    def sql(self, text):
        url = (self.folder / "keys/store.url").read_text().strip()
        return subprocess.run(["psql", "-X", "-A", "-t", "-d", url, "-c", text], check=True, capture_output=True,
                              text=True, stdin=subprocess.DEVNULL).stdout.strip()

    def home_of(self, task):
        return self.sql(HOME_OF.format(task["task_id"]))

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            assert self.process.wait(2 * WAIT_S) == 143
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()


@pytest.fixture
def cluster():
    """Not in a folder of root's alone: the server has another user."""
    folder = postgres.new_folder()
    cluster = Cluster(pathlib.Path(folder) / "cluster")
    try:
        yield cluster.ready()
        cluster.close()
        assert not processes_with(cluster.mark), "all of it has ended"
    finally:
        cluster.process.kill()
        for pid in processes_with(cluster.mark):
            signal_if(lambda pid: has_mark(pid, cluster.mark), pid, signal.SIGKILL)
        postgres.remove_folder(folder)


def through_the_door(door, token, ask):
    """The answer to a client that comes back until somebody serves it."""
    def try_it():
        try:
            with Client(door, token=token) as client:
                return ask(client)
        except (Closed, Refused):
            return None
    return wait_until(try_it, "service through nginx")


def talk(message):
    """Has that said in a conversation; the task, when it could be said and was answered."""
    def ask(client):
        reply = client.ask("chat", conversation_id="c", message=message, request_key=message)
        if reply["type"] == "error":
            assert reply["code"] == "overloaded"
            return None
        assert client.wait_terminal(reply["task"])["event"] == "task.completed"
        return reply["task"]
    return ask


def has_said(client):
    reply = client.ask("history", conversation_id="c")
    return reply["type"] == "history" and [m["content"] for m in reply["messages"] if m["role"] == "user"]


def test_one_command_and_any_part_may_die(cluster):
    token = through_the_door(cluster, None, lambda client: client.token)
    task = through_the_door(cluster, token, talk("one"))
    assert cluster.sql("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1"
    home = cluster.home_of(task)
    before = cluster.number(f"{home}.pid")

    os.kill(before, signal.SIGKILL)  # it is begun again
    assert through_the_door(cluster, token, talk("two"))
    wait_until(lambda: (cluster.folder / f"{home}.pid").exists() and cluster.number(f"{home}.pid") != before,
               "a new process")

    loop, gateway = cluster.number(f"{home}.loop"), cluster.number(f"{home}.pid")
    os.kill(loop, signal.SIGKILL)
    os.kill(gateway, signal.SIGKILL)  # this one stays away: its owners go to others
    wait_until(lambda: not is_alive(gateway), "its end")
    assert through_the_door(cluster, token, talk("three"))
    assert cluster.home_of(task) not in ("", home)

    primary, standby = (postgres.Postgres(str(cluster.folder / "postgres"), data=name)
                        for name in ("primary", "standby"))
    primary.kill()
    standby.run("pg_ctl", "-D", standby.data, "-w", "promote")
    assert through_the_door(cluster, token, talk("four"))
    assert through_the_door(cluster, token, has_said) == ["one", "two", "three", "four"]


def test_a_stop_takes_the_database_from_no_gateway(cluster):
    """One of them takes its time: it still finds the server, and all end at once."""
    slow = cluster.number("two.pid")
    os.kill(slow, signal.SIGSTOP)
    try:
        cluster.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not any((cluster.folder / f"{name}.pid").exists() for name in ("one", "three", "nginx")),
                   "the end of the others")
        assert cluster.sql("SELECT 1") == "1"
    finally:
        os.kill(slow, signal.SIGCONT)
    cluster.close()
    said = cluster.logs()
    assert "stopped code=0" in said and "beat_fails" not in said, said


def test_the_compose_file_names_what_is_there():
    compose = yaml.safe_load((EXAMPLE / "compose.yaml").read_text())
    services, volumes = compose["services"], compose["volumes"]
    gateways = [name for name, service in services.items() if "build" in service]
    upstream = re.findall(r"server (\w+):8080", (EXAMPLE / "nginx.conf").read_text())
    assert gateways == upstream == [services[name]["hostname"] for name in gateways] and len(gateways) == 3
    for service in services.values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (EXAMPLE / source).is_file() if source.startswith("./") else source in volumes, volume
    for name in gateways:
        build = services[name]["build"]
        assert (EXAMPLE / build["context"] / build["dockerfile"]).is_file()
        arguments = re.findall(r"^ARG (\w+)=", (ROOT / build["dockerfile"]).read_text(), re.M)
        assert set(build["args"]) <= set(arguments)
        assert services[name]["stop_grace_period"] == "30s" and services[name]["cap_drop"] == ["ALL"]
    assert services["nginx"]["ports"] == ["127.0.0.1:8080:8080"], "guests are served: loopback only"
    hosts = re.search(r"host=(\S+) user", (EXAMPLE / "keys").read_text())[1].split(",")
    assert set(hosts) <= set(services)


def test_the_gateways_of_the_compose_file_have_a_good_configuration(tmp_path):
    command = yaml.safe_load((EXAMPLE / "compose.yaml").read_text())["services"]["one"]["entrypoint"][-1]
    put_in, _ = command.replace("$$", "$").split(" >")
    text = subprocess.run(["sh", "-c", put_in.replace("/etc/holdfast", str(EXAMPLE))], env={**os.environ, "HOSTNAME": "one"},
                          check=True, capture_output=True, text=True).stdout.replace("/keys/", f"{tmp_path}/")
    assert json.loads(text)["cluster"]["advertise"] == "one:8090", "its own name, by which others find it"
    subprocess.run(["sh", EXAMPLE / "keys", str(tmp_path)], check=True)
    first = (tmp_path / "store.url").read_text()
    subprocess.run(["sh", EXAMPLE / "keys", str(tmp_path)], check=True)
    assert (tmp_path / "store.url").read_text() == first, "made once"
    assert (tmp_path / "password").read_text() in first and len((tmp_path / "cluster.secret").read_text()) >= 32
    (tmp_path / "config.json").write_text(text)
    checked = subprocess.run([BINARY, "check-config", str(tmp_path / "config.json")], capture_output=True, text=True,
                             check=False)
    assert checked.returncode == 0, checked.stderr
    network, = yaml.safe_load((EXAMPLE / "compose.yaml").read_text())["networks"]["default"]["ipam"]["config"]
    assert json.loads(text)["trusted_proxies"] == [network["subnet"]]
