"""The container image and both compose files, really built and run by an engine of the test's own (support/engine.py).
It downloads packages and takes minutes: ./dev test-all alone runs it, as root.  Without an engine, test_installed.py has
the steps of the Dockerfile in bare roots."""

import json
import os
import re

import pytest

import engine as engines
from gateway import SANITIZE, wait_until
from holdfast import Client
from test_artefacts import CHECK, NODE, call, version
from test_cluster_example import EXAMPLE, HOME_OF, has_said, talk, through_the_door
from test_packaging import reload_in_a_pod

ROOT = engines.ROOT
USER = 10001

pytestmark = [
    pytest.mark.skipif(not os.environ.get("HOLDFAST_ROOTS") or SANITIZE != "" or os.geteuid() != 0,
                       reason="./dev test-all's, as root"),
    pytest.mark.skipif(bool(engines.missing()), reason=f"not here: {', '.join(engines.missing())}"),
]


@pytest.fixture(scope="module")
def engine():
    engine = engines.Engine()
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def image(engine):
    engine.build("holdfast", ROOT, "--file", ROOT / "docker/Dockerfile", VERSION=version(), REVISION="a-revision")
    return "holdfast"


@pytest.fixture(scope="module")
def composed(engine, image):
    composed = engines.Composed(engine, ROOT / "docker/compose.yaml")
    try:
        composed("up", "--detach", "--build")
        yield composed
    finally:
        composed.close()


def is_healthy(composed, service):
    return composed.inspect(service)["State"]["Health"]["Status"] == "healthy"


def test_image_says_what_it_is(engine, image):
    config = engine.inspect(image)["Config"]
    labels = {name.removeprefix("org.opencontainers.image."): value for name, value in config["Labels"].items()}
    assert labels == {"title": "holdfast", "description": "A WebSocket gateway with resumable task streams",
                      "licenses": "MIT", "version": version(), "revision": "a-revision"}
    assert config["User"] == f"{USER}:{USER}" and config["StopSignal"] == "SIGTERM"
    assert config["Entrypoint"][0] == "/usr/bin/tini" and config["Volumes"] == {"/var/lib/holdfast": {}}
    assert config["ExposedPorts"] == {"8080/tcp": {}}
    done = engine.run("docker", "run", "--rm", "--network=none", "--read-only", image, "version")
    assert version() in done.stdout, done.stderr
    done = engine.run("docker", "run", "--rm", "--network=none", image, "check-config", "/etc/holdfast/config.json")
    assert done.stdout.endswith("good\n"), done.stderr


def test_image_has_a_bill_of_what_it_runs(engine, image, tmp_path):
    shell = ["run", "--rm", "--network=none", "--entrypoint=/bin/sh", image, "-c"]
    text = engine.docker(*shell, "cat /usr/share/holdfast/sbom.cdx.json")
    (tmp_path / "sbom.json").write_text(text)
    if (CHECK.parent / "node_modules").exists():
        call(NODE, CHECK, "cyclonedx", tmp_path / "sbom.json")
    there = dict(line.split("\t") for line in engine.docker(*shell, "dpkg-query -W -f '${Package}\\t${Version}\\n'").splitlines())
    billed = {entry["name"]: entry["version"] for entry in json.loads(text)["components"]
              if entry.get("purl", "").startswith("pkg:deb/")}
    assert {"libc6", "libssl3", "libwebsockets17", "libsqlite3-0", "libpq5"} <= billed.keys()
    assert billed == {name: there.get(name) for name in billed}, "and no other version of it"
    assert not {"gcc", "cmake", "libssl-dev", "python3"} & there.keys(), "what builds it stays outside"


def test_compose_file_runs_it_without_root_read_only_and_healthy(composed):
    wait_until(lambda: is_healthy(composed, "holdfast"), "its health check")
    status = composed.inside("holdfast", "cat", "/proc/1/status")
    for kind in ("Uid", "Gid"):
        assert re.search(rf"^{kind}:(\s+{USER}){{4}}$", status, re.M), kind
    assert re.search(r"^NoNewPrivs:\s+1$", status, re.M)
    for kind in ("Prm", "Eff", "Bnd"):
        assert re.search(rf"^Cap{kind}:\s+0+$", status, re.M), kind
    assert re.search(r"^\S+ / \S+ ro,", composed.inside("holdfast", "cat", "/proc/mounts"), re.M), "even for root"
    composed.inside("holdfast", "touch", "/tmp/x")
    binding, = composed.inspect("holdfast")["NetworkSettings"]["Ports"]["8080/tcp"]
    assert binding["HostIp"] == "127.0.0.1"


def test_orphan_of_an_exec_is_reaped(composed):
    """Its parent is gone before it ends: the init takes it, and leaves no zombie."""
    assert composed.inside("holdfast", "cat", "/proc/1/comm") == "tini\n"
    gate = "until [ -e /tmp/gate ]; do sleep 0.01; done"
    orphan = composed.inside("holdfast", "sh", "-c", f"({gate}) >/dev/null 2>&1 & echo $!").strip()
    assert composed.inside("holdfast", "sed", "-n", "s/^PPid:\t//p", f"/proc/{orphan}/status") == "1\n"
    composed.inside("holdfast", "touch", "/tmp/gate")
    wait_until(lambda: composed.engine.run("docker", "exec", composed.container("holdfast"), "test", "-e",
                                           f"/proc/{orphan}").returncode, "the orphan's end")


def test_reload_of_the_manual_runs_in_the_image(composed):
    """Debian's image has a shell, whose own `kill` does it, and no program of that name."""
    composed.inside("holdfast", *reload_in_a_pod())
    wait_until(lambda: '"event":"reloaded"' in composed("logs", "--no-color", "holdfast"), "the reload")


def test_task_goes_on_over_a_stop_and_its_volume_keeps_it(composed):
    """That of the agent which the gateway brings along: the stop leaves it to the next start."""
    wait_until(lambda: is_healthy(composed, "holdfast"), "its health check")
    with Client(composed) as client:
        token = client.token
        task = client.ask("chat", conversation_id="c", message="a word or two " * 20)["task"]
        client.event(task, "token")
    composed("stop")
    state = composed.inspect("holdfast")["State"]
    assert (state["ExitCode"], state["OOMKilled"]) == (0, False), "137 is a kill, when its time is over"
    composed("start")
    wait_until(lambda: is_healthy(composed, "holdfast"), "its health check")
    with Client(composed, token=token) as client:
        client.ask("resume", conversation_id="c", task_id=task["task_id"], after=0)
        assert client.wait_terminal(task)["event"] == "task.completed"
        assert has_said(client) == ["a word or two " * 20]


# ---------------------------------------------------------------- examples/cluster


@pytest.fixture(scope="module")
def cluster(engine, image):
    for name, target in (("postgres:15", "postgres"), ("nginx:1.22", "nginx")):
        engine.build(name, ROOT / "tests/packaging/images", f"--target={target}")
    cluster = engines.Composed(engine, EXAMPLE / "compose.yaml")
    try:
        cluster("up", "--detach", "--build")
        yield cluster
    finally:
        cluster.close()


def sql(cluster, server, text):
    return cluster.inside(server, "psql", "-X", "-A", "-t", "-U", "holdfast", "-c", text).strip()


def test_gateways_find_each_other_by_their_names(cluster):
    names = {"one", "two", "three"}
    for name in names:
        links = [f"event=up node={other}" for other in names - {name}]
        wait_until(lambda: all(link in cluster("logs", "--no-color", name) for link in links), f"the links of {name}")


def test_cluster_of_containers_loses_a_gateway_and_its_primary(cluster):
    """By the commands that stand at the head of the compose file."""
    said = re.findall(r"^#   docker compose -f \S+ (.*)", (EXAMPLE / "compose.yaml").read_text(), re.M)
    kill, promote = (line.split() for line in said)
    token = through_the_door(cluster, None, lambda client: client.token)
    task = through_the_door(cluster, token, talk("one"))
    wait_until(lambda: sql(cluster, "primary", "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1",
               "the standby")
    home = sql(cluster, "primary", HOME_OF.format(task["task_id"]))
    assert home in ("one", "two", "three")
    cluster("kill", home)  # by hand: it is not begun again
    assert through_the_door(cluster, token, talk("two"))
    assert sql(cluster, "primary", HOME_OF.format(task["task_id"])) not in ("", home)

    cluster(*kill)
    cluster(promote[0], "-T", *promote[1:])
    assert through_the_door(cluster, token, talk("three"))
    assert through_the_door(cluster, token, has_said) == ["one", "two", "three"]

    others = sorted({"one", "two", "three"} - {home})
    cluster("stop", *others)
    assert [cluster.inspect(name)["State"]["ExitCode"] for name in others] == [0, 0]
