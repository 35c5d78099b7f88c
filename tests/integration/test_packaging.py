"""packaging/ and docker/: the unit runs under a manager of the test's own; the Dockerfile and the compose file are read,
and their commands run here.  test_installed.py carries out both stages in bare roots."""

import configparser
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess

import pytest
import yaml

from gateway import BINARY, SANITIZE, WAIT_S, Gateway, run
from holdfast import Client

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DATA, CONFIG = "/var/lib/holdfast", "/etc/holdfast/config.json"


class Manager:
    """The part of systemd that a service of Type=notify sees: a socket, and a record of its messages."""

    def __init__(self, name):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(name)
        self.socket.settimeout(WAIT_S)

    def told(self):
        return dict(line.split("=", 1) for line in self.socket.recv(4096).decode().splitlines())


# ---------------------------------------------------------------- systemd


def unit():
    """Section → key → values.  A key may stand twice, which configparser alone does not like."""
    text = (ROOT / "packaging/holdfast.service").read_text()
    parser = configparser.RawConfigParser(strict=True, comment_prefixes="#")
    parser.optionxform = str
    parser.read_string(text)
    return {name: dict(parser[name]) for name in parser.sections()}


def test_unit_says_what_the_gateway_does():
    service = unit()["Service"]
    assert service["Type"] == "notify" and service["KillMode"] == "process"
    drain = int(re.search(r"^drain_s: .*default: (\d+)", run("keys").stdout, re.M)[1])
    assert int(service["TimeoutStopSec"]) >= drain + 5
    assert int(service["LimitNOFILE"]) > 100000  # limits.connections
    assert service["RestartPreventExitStatus"] == "2" and "ExecStartPre" not in service, "which systemd would repeat"
    assert unit()["Unit"]["StartLimitIntervalSec"] == "0", "five quick tries would be the last ones otherwise"
    assert service["StateDirectory"] == "holdfast holdfast-work" and service["StateDirectoryMode"] == "0700"


def test_socket_is_that_of_the_documented_configuration():
    listen = re.search(r'"listen": "(.*?)"', (ROOT / "docs/operations.md").read_text())[1]
    assert f"ListenStream={listen}\n" in (ROOT / "packaging/holdfast.socket").read_text()


def test_unit_forbids_nothing_that_bubblewrap_needs():
    """Each of these ends with a gateway that does not start when an agent has the tool terminal."""
    assert not unit()["Service"].keys() & {"RestrictNamespaces", "ProtectKernelTunables", "ProtectProc", "PrivateUsers",
                                           "ProtectHostname"}


def started(service, tmp_path):
    """Its command, with the paths of a test."""
    (tmp_path / "config.json").write_text(json.dumps({"listen": "127.0.0.1:0"}))
    return [{"/usr/bin/holdfast": BINARY, CONFIG: str(tmp_path / "config.json"), DATA: str(tmp_path / "data")}
            .get(word, word) for word in shlex.split(service["ExecStart"])]


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_command_of_the_unit_runs_and_tells_the_manager(tmp_path, kind):
    serve = started(unit()["Service"], tmp_path)
    name = str(tmp_path / "notify") if kind == "path" else f"\0holdfast-{os.getpid()}"
    manager = Manager(name)
    environ = {**os.environ, "NOTIFY_SOCKET": name.replace("\0", "@")}
    with subprocess.Popen(serve, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert manager.told()["READY"] == "1"
        assert b'"ready"' in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert manager.told()["STOPPING"] == "1"
        assert process.wait(WAIT_S) == 0


def test_agents_do_not_speak_to_the_manager(tmp_path):
    manager = Manager(str(tmp_path / "notify"))
    environ = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
    with Gateway(environ=environ) as gateway, Client(gateway) as client:
        assert manager.told()["READY"] == "1"
        dumped = gateway.path()
        client.finish({"dump": dumped})
        assert "NOTIFY_SOCKET" not in json.loads(pathlib.Path(dumped).read_text())["environ"]


@pytest.mark.parametrize("path", ["", "relative", "/nowhere/at/all", "@", "/" + "x" * 200])
def test_manager_that_is_not_there_stops_nothing(path):
    with Gateway(environ={"NOTIFY_SOCKET": path}):
        pass


def test_kill_mode_process_is_enough():
    """SIGTERM reaches the gateway alone; a kill of it takes its agents along."""
    with Gateway({"drain_s": 20}) as gateway, Client(gateway) as client:
        gate = gateway.path()
        task = client.chat({"token": "a"}, {"wait": gate}, {"token": "b"})
        client.event(task, "token")
        gateway.process.send_signal(signal.SIGTERM)
        client.expect_type("goaway")
        assert client.task(task)["status"] == "running"
        pathlib.Path(gate).touch()
        assert client.wait_terminal(task)["data"]["output"] == "ab"
        assert gateway.wait() == 0
        gateway.start()


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd here")
def test_systemd_accepts_the_unit(tmp_path):
    text = (ROOT / "packaging/holdfast.service").read_text().replace("/usr/bin/holdfast", "/bin/true")
    (tmp_path / "holdfast.service").write_text(text)
    shutil.copy(ROOT / "packaging/holdfast.socket", tmp_path)
    units = [str(tmp_path / f"holdfast.{kind}") for kind in ("service", "socket")]
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False,
                          timeout=2 * WAIT_S)
    assert "holdfast." not in done.stderr, done.stderr


# ---------------------------------------------------------------- the Dockerfile and compose.yaml, as texts


def instructions():
    """[(keyword, rest)] of the Dockerfile, its continued lines joined."""
    text = re.sub(r"\\\n\s*", " ", (ROOT / "docker/Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [tuple(line.split(" ", 1)) for line in lines]


def stage(number):
    found = instructions()
    starts = [at for at, (keyword, _) in enumerate(found) if keyword == "FROM"] + [len(found)]
    return found[starts[number]:starts[number + 1]]


def of(stage, keyword):
    return [rest for found, rest in stage if found == keyword]


def packages(stage):
    installed = [command for rest in of(stage, "RUN") for command in rest.split("&&") if "apt-get install" in command]
    return {word for word in installed[0].split() if not word.startswith("-")} - {"apt-get", "install"}


def test_dockerfile_installs_what_dev_installs():
    listed = re.search(r"^run_packages=\((.*?)\)", (ROOT / "dev").read_text(), re.M | re.S)[1].split()
    keyword, base = instructions()[0]
    assert keyword == "ARG" and re.fullmatch("BASE=debian:12-slim@sha256:[0-9a-f]{64}", base), "the same bytes for everybody"
    assert of(stage(0), "FROM") == ["${BASE} AS build"] and of(stage(1), "FROM") == ["${BASE}"]
    assert packages(stage(0)) == {*listed, "python3", "${MORE}"}


def test_dockerfile_builds_with_options_and_a_target_that_exist():
    """The compilation is what every build does; here only that what it names is there."""
    configure, build, package = of(stage(0), "RUN")[1].split(" && ")
    cache = (pathlib.Path(BINARY).parent / "CMakeCache.txt").read_text()
    for option in re.findall(r"-D(\w+)=", configure):
        assert f"\n{option}:" in cache, option
    target = re.search(r"--target (\w+)", build)[1]
    assert f"add_executable({target} " in (ROOT / "CMakeLists.txt").read_text()
    script, program, out = package.split()
    assert (ROOT / script).exists() and program == f"/build/{target}"
    assert [rest for rest in of(stage(1), "COPY") if rest.startswith(f"--from=build {out}/holdfast_*.deb ")]
    assert {"/tmp/holdfast_*.deb", "curl", "tini"} == packages(stage(1)), "its libraries are the package's business"


def test_user_of_the_image_has_the_group_that_every_manifest_names(tmp_path):
    """shadow makes the user in a root of its own, as in the image; a group of its choice would be 999."""
    (tmp_path / "etc").mkdir()
    for name in ("passwd", "group", "shadow", "gshadow"):
        (tmp_path / "etc" / name).touch()
    made = [command.split() for command in of(stage(1), "RUN")[0].split(" && ") if re.match("(group|user)add ", command)]
    for program, *rest in made:
        subprocess.run([shutil.which(program, path="/usr/sbin:/usr/bin"), "--prefix", str(tmp_path), *rest], check=True, timeout=WAIT_S)
    assert [(row.split(":")[0], row.split(":")[2]) for row in (tmp_path / "etc/group").read_text().splitlines()] == [("holdfast", "10001")]
    assert (tmp_path / "etc/passwd").read_text().split(":")[:4] == ["holdfast", "x", "10001", "10001"]
    for manifest in [*(ROOT / "packaging/kubernetes").glob("*.yaml"), *(ROOT / "packaging/helm").rglob("statefulset.yaml")]:
        found = set(re.findall(r"(?:runAsUser|runAsGroup|fsGroup): (\d+)", manifest.read_text()))
        assert found in ({"10001"}, set()), manifest


def test_dockerfile_names_a_user_and_a_command_that_serves(tmp_path):
    kinds = [keyword for keyword, _ in stage(1)]
    assert of(stage(1), "USER") == ["10001:10001"] and kinds.index("USER") < kinds.index("CMD")
    assert of(stage(1), "STOPSIGNAL") == ["SIGTERM"]
    init, end, *program = json.loads(of(stage(1), "ENTRYPOINT")[0])
    assert (init, end) == ("/usr/bin/tini", "--"), "somebody reaps what `docker exec` leaves"
    words = program + json.loads(of(stage(1), "CMD")[0])
    config = json.loads((ROOT / "docker/config.json").read_text())
    config["listen"] = config["listen"].replace(":8080", ":0")
    (tmp_path / "config.json").write_text(json.dumps(config))
    words = [{"/usr/bin/holdfast": BINARY, CONFIG: str(tmp_path / "config.json"), DATA: str(tmp_path / "data")}
             .get(word, word) for word in words]
    health = json.loads(of(stage(1), "HEALTHCHECK")[0].split("CMD ")[1])
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        port = json.loads(process.stdout.readline())["listen"].rsplit(":", 1)[1]
        check = [word.replace(":8080", f":{port}") for word in health]
        assert check[0] in packages(stage(1)) and check[-1].endswith("/readyz")
        if shutil.which(check[0]):
            assert subprocess.run(check, check=False, timeout=WAIT_S).returncode == 0
        process.terminate()
        assert process.wait(WAIT_S) == 0


VERSIONED = {  # file: what stands before its version, each time
    "CMakeLists.txt": r"project\(holdfast VERSION ", "docker/Dockerfile": "ARG VERSION=",
    "packaging/helm/holdfast/Chart.yaml": "(?:version|appVersion): ",
    "packaging/kubernetes/holdfast.yaml": '(?:app.kubernetes.io/version: "|image: "holdfast:)',
    "packaging/kubernetes/holdfast-postgres.yaml": '(?:app.kubernetes.io/version: "|image: "holdfast:)',
    "web/client/package.json": '^  "version": "', "web/worker/package.json": '^  "version": "',
    "web/chat/package.json": '^  "version": "', "clients/python/pyproject.toml": '^version = "',
    "CHANGELOG.md": r"\A(?:.|\n)*?^## (?=\d)"}


@pytest.mark.parametrize("name", VERSIONED)
def test_every_part_has_the_version_of_the_program(name):
    found = re.findall(VERSIONED[name] + r"(\d+\.\d+\.\d+)", (ROOT / name).read_text(), re.M)
    assert set(found) == {run("version").stdout.split()[1]}


def reload_in_a_pod():
    """The words that the manual gives to `kubectl exec`."""
    return shlex.split(re.search(r"`kubectl exec POD -- (.*?)`", (ROOT / "docs/operations.md").read_text(), re.S)[1])


def test_compose_file_gives_it_time_and_a_place():
    compose = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())
    service = compose["services"]["holdfast"]
    build = service["build"]
    assert (ROOT / "docker" / build["context"] / build["dockerfile"]).exists()
    assert service["stop_grace_period"] == "30s" and "init" not in service, "the image has one"
    volumes = dict(volume.split(":")[:2] for volume in service["volumes"])
    assert volumes["data"] == DATA and "data" in compose["volumes"]
    assert (ROOT / "docker" / "config.json").exists() and volumes["./config.json"] == CONFIG
    assert service["ports"] == ["127.0.0.1:8080:8080"], "guests are served: loopback only"
    assert service["cap_drop"] == ["ALL"] and service["read_only"] is True


# ---------------------------------------------------------------- the root of another architecture

APART = ["unshare", "--map-root-user", "--mount"]


@pytest.mark.skipif(subprocess.run([*APART, "mount", "-t", "tmpfs", "none", "/tmp"], check=False, capture_output=True).returncode,
                    reason="cannot mount")
@pytest.mark.parametrize("place", ["root.new", "root.new/dev/shm", "root/src", "root/out/a folder"])
def test_cross_never_removes_what_is_mounted_below(tmp_path, place):
    """A mount of the same file system, which rm --one-file-system would empty."""
    (tmp_path / place).mkdir(parents=True)
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").touch()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/mmdebstrap").symlink_to("/bin/false")
    if place.startswith("root/"):
        (tmp_path / "root/made").touch()
    script = 'mount --bind precious "$1" && PATH=$PWD/bin:$PATH exec "$2" arm64 root made'
    done = subprocess.run([*APART, "sh", "-c", script, "sh", place, ROOT / "packaging/cross"], cwd=tmp_path, check=False,
                          capture_output=True, text=True, timeout=WAIT_S)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert f"{tmp_path / place} is mounted" in done.stderr
    assert (tmp_path / "precious/file").exists()
