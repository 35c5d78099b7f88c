"""The output of packaging/package for the built program: bytes, contents, an installation into a bare folder; and the
schemas of others for the SBOM and for Kubernetes.  Installations on whole systems are in test_installed.py."""

import email.utils
import gzip
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import urllib.request

import pytest
import yaml

from gateway import BINARY, SANITIZE, WAIT_S, run

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CHECK = ROOT / "tests/packaging/check.mjs"
MANIFESTS = ROOT / "packaging/kubernetes/holdfast.yaml"
SEVERAL = MANIFESTS.with_name("holdfast-postgres.yaml")
NODE = os.environ.get("HOLDFAST_NODE") or "node"

pytestmark = pytest.mark.skipif(SANITIZE != "" or not shutil.which("dpkg-deb"), reason="packages are of the plain build")


def call(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False,
                          timeout=10 * WAIT_S, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def package(folder):
    environ = {**os.environ, "SOURCE_DATE_EPOCH": "1764280000"}
    paths = call(ROOT / "packaging/package", BINARY, folder, env=environ).split()
    return {re.search(r"\.deb$|\.tar\.gz$|\.cdx\.json$|SHA256SUMS", path)[0]: pathlib.Path(path) for path in paths}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return package(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def unpacked(made, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")
    call("dpkg-deb", "--raw-extract", made[".deb"], folder)
    return folder


def version():
    return run("version").stdout.split()[1]


def test_same_program_gives_the_same_bytes(made, tmp_path):
    again = package(tmp_path)
    assert made.keys() == again.keys() == {".deb", ".tar.gz", ".cdx.json", "SHA256SUMS"}
    for kind, path in made.items():
        assert path.read_bytes() == again[kind].read_bytes(), kind


def test_checksums_are_those_of_the_files(made):
    folder = made["SHA256SUMS"].parent
    lines = [line.split() for line in made["SHA256SUMS"].read_text().splitlines()]
    assert {name for _, name in lines} == {made[kind].name for kind in (".deb", ".tar.gz", ".cdx.json")}
    for digest, name in lines:
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest


def test_debian_package_says_what_it_needs(unpacked):
    fields = dict(line.split(": ", 1) for line in (unpacked / "DEBIAN/control").read_text().splitlines()
                  if not line.startswith(" "))
    assert fields["Package"] == "holdfast" and fields["Version"] == version()
    needed = {word.split()[0] for word in fields["Depends"].split(", ")}
    assert {"libc6", "libcurl4", "libjansson4", "libsqlite3-0", "libssl3", "libuv1", "libwebsockets17", "zlib1g",
            "libwebsockets-evlib-uv", "passwd", "ca-certificates"} <= needed, "Debian 12's names"
    assert (unpacked / "DEBIAN/conffiles").read_text() == "/etc/holdfast/config.json\n"


def test_package_says_whose_and_since_when_it_is(unpacked):
    text = gzip.decompress((unpacked / "usr/share/doc/holdfast/changelog.gz").read_bytes()).decode()
    head, change, end = text.strip().split("\n\n")
    assert head == f"holdfast ({version()}) unstable; urgency=medium" and change.startswith("  * ")
    maintainer, date = re.fullmatch(r" -- (.*>)  (.*)", end).groups()
    assert f"\nMaintainer: {maintainer}\n" in (ROOT / "packaging/debian/control.in").read_text()
    day = f"{email.utils.parsedate_to_datetime(date):%Y-%m-%d}"
    assert f"\n## {version()} ({day})\n" in (ROOT / "CHANGELOG.md").read_text()
    assert gzip.decompress((unpacked / "usr/share/doc/holdfast/CHANGELOG.md.gz").read_bytes()).startswith(b"# Changelog")
    whose = re.search(r"^Copyright.* (\d{4} The .*)$", (ROOT / "LICENSE").read_text(), re.M)[1]
    assert f"\nCopyright: {whose}\n" in (unpacked / "usr/share/doc/holdfast/copyright").read_text()


@pytest.mark.skipif(not shutil.which("lintian"), reason="lintian is not installed")
def test_lintian_finds_neither_errors_nor_warnings(made):
    said = call("lintian", "--no-cfg", "--allow-root", "--fail-on", "none", made[".deb"])
    assert not re.search("^[EW]: ", said, re.M), said


def test_package_has_program_units_manual_and_completion(made, unpacked):
    listed = {}
    for line in call("dpkg-deb", "--contents", made[".deb"]).splitlines():
        mode, owner, _, _, _, name = line.split(maxsplit=5)
        listed[name.lstrip(".")] = (mode, owner)
    assert {owner for _, owner in listed.values()} == {"root/root"}
    for name in ("/lib/systemd/system/holdfast.service", "/usr/share/man/man1/holdfast.1.gz",
                 "/usr/share/man/man5/holdfast.json.5.gz", "/usr/share/bash-completion/completions/holdfast",
                 "/usr/share/holdfast/sbom.cdx.json", "/usr/share/doc/holdfast/copyright",
                 "/usr/share/doc/holdfast/operations.md", "/etc/holdfast/config.json"):
        assert listed[name][0] == "-rw-r--r--", name
    assert listed["/usr/bin/holdfast"][0] == "-rwxr-xr-x"
    for unit in (ROOT / "packaging").glob("holdfast.s*"):
        assert (unpacked / "lib/systemd/system" / unit.name).read_text() == unit.read_text()
    for name in ("postinst", "prerm", "postrm"):
        call("sh", "-n", unpacked / "DEBIAN" / name)
    for line in (unpacked / "DEBIAN/md5sums").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.md5((unpacked / name).read_bytes()).hexdigest() == digest


def test_unpacked_program_serves_with_the_package_s_configuration(unpacked, tmp_path):
    program = unpacked / "usr/bin/holdfast"
    assert call(program, "check-config", unpacked / "etc/holdfast/config.json").endswith("good\n")
    command = [program, "serve", "--config", unpacked / "etc/holdfast/config.json", "--listen", "127.0.0.1:0",
               "--data", tmp_path / "data"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            listen = json.loads(process.stdout.readline())["listen"]
            assert urllib.request.urlopen(f"http://{listen}/readyz", timeout=WAIT_S).status == 200
        finally:
            process.terminate()
        assert process.wait(WAIT_S) == 0


def test_tarball_has_one_folder_and_the_same_program(made, unpacked):
    with tarfile.open(made[".tar.gz"]) as ball:
        names = ball.getnames()
        top = made[".tar.gz"].name.removesuffix(".tar.gz")
        assert {name.split("/")[0] for name in names} == {top}
        assert ball.extractfile(f"{top}/bin/holdfast").read() == (unpacked / "usr/bin/holdfast").read_bytes()
        assert {f"{top}/lib/systemd/system/holdfast.service", f"{top}/LICENSE", f"{top}/README.md",
                f"{top}/share/man/man1/holdfast.1.gz"} <= set(names)


@pytest.mark.skipif(os.geteuid() != 0, reason="dpkg installs as root alone")
def test_dpkg_installs_and_removes_it_and_keeps_a_changed_configuration(made, tmp_path):
    """Into a folder that has dpkg's own files and nothing else; the scripts run without a chroot, with DPKG_ROOT."""
    for name in ("var/lib/dpkg/updates", "var/lib/dpkg/info", "etc", "usr/bin", "var/lib/systemd"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("var/lib/dpkg/status", "var/lib/dpkg/available", "etc/passwd", "etc/group", "etc/shadow", "etc/gshadow"):
        (tmp_path / name).touch()

    def dpkg(*words):
        call("dpkg", f"--root={tmp_path}", "--force-depends", "--force-script-chrootless", "--force-confold",
             f"--log={tmp_path}/log", *words)

    dpkg("--install", made[".deb"])
    passwd = (tmp_path / "etc/passwd").read_text().split(":")
    assert passwd[0] == "holdfast" and 0 < int(passwd[2]) < 1000 and passwd[5] == "/var/lib/holdfast"
    assert passwd[6].strip() == "/usr/sbin/nologin"
    group = int((tmp_path / "etc/group").read_text().split(":")[2])
    config = tmp_path / "etc/holdfast/config.json"
    for path, mode in ((config.parent, 0o40750), (config, 0o100640)):
        assert (path.stat().st_mode, path.stat().st_uid, path.stat().st_gid) == (mode, 0, group), path
    assert (tmp_path / "etc/systemd/system/multi-user.target.wants/holdfast.service").is_symlink()
    config.write_text('{"listen": "127.0.0.1:1"}')
    config.chmod(0o600)
    dpkg("--install", made[".deb"])
    assert config.read_text() == '{"listen": "127.0.0.1:1"}' and config.stat().st_mode == 0o100600
    (tmp_path / "var/lib/holdfast").mkdir()
    socket = tmp_path / "etc/systemd/system/sockets.target.wants/holdfast.socket"  # as systemctl enable does
    socket.parent.mkdir()
    socket.symlink_to("/lib/systemd/system/holdfast.socket")
    dpkg("--remove", "holdfast")
    assert config.exists() and not (tmp_path / "usr/bin/holdfast").exists()
    dpkg("--purge", "holdfast")
    assert not config.exists() and (tmp_path / "var/lib/holdfast").exists(), "what belongs to users stays"
    assert not (tmp_path / "etc/systemd/system/multi-user.target.wants/holdfast.service").is_symlink()
    assert not socket.is_symlink()


# ---------------------------------------------------------------- texts made from the help


def complete(unpacked, *words):
    script = ('source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _holdfast; printf "%s\\n" "${COMPREPLY[@]}"')
    return call("bash", "-c", script, unpacked / "usr/share/bash-completion/completions/holdfast", "holdfast",
                *words).split()


def test_completion_knows_commands_options_and_values(unpacked, tmp_path):
    for command in re.findall(r"^  holdfast (\S+)", run("help").stdout, re.M):
        assert command in complete(unpacked, "")
    assert complete(unpacked, "che") == ["check-config"]
    assert set(complete(unpacked, "serve", "--")) == {"--config", "--listen", "--data", "--log-level", "--log-format"}
    assert complete(unpacked, "serve", "--log-level", "") == ["debug", "info", "warn", "error"]
    assert complete(unpacked, "admin", "unr") == ["unrevoke"]
    assert "--conversation" in complete(unpacked, "chat", "--c")
    for command in complete(unpacked, ""):  # those that a command's own help alone has, too
        for option in re.findall(r"^    (--[a-z-]+)", run("help", command).stdout, re.M):
            assert option in complete(unpacked, command, option), (command, option)
    assert complete(unpacked, "help", "prin") == ["print-config"]
    assert complete(unpacked, "chat", "--token", "") == []
    (tmp_path / "a file.json").touch()
    assert "".join(complete(unpacked, "check-config", str(tmp_path / "a"))) == f"{tmp_path}/afile.json"
    assert complete(unpacked, "doctor", "--data", str(tmp_path / "a")) == [], "a file is no directory"
    (tmp_path / "folder").mkdir()
    assert complete(unpacked, "import", str(tmp_path / "f")) == [f"{tmp_path}/folder"]


@pytest.mark.skipif(not shutil.which("mandoc"), reason="no mandoc here")
def test_manual_pages_are_whole(unpacked):
    for name in ("man1/holdfast.1.gz", "man5/holdfast.json.5.gz"):
        page = unpacked / "usr/share/man" / name
        call("mandoc", "-T", "lint", "-W", "warning,stop", page)
        text = re.sub(r".\x08", "", call("mandoc", "-T", "utf8", "-O", "width=400", page))
        if "man1" in name:
            for line in re.findall(r"^  holdfast (\S+.*?)(?:  .*)?$", run("help").stdout, re.M):
                assert f"holdfast {line.replace('…', '...')}" in text, line
        else:
            for key in re.findall(r"^(\S+): ", run("keys").stdout, re.M):
                assert re.search(rf"^ *{re.escape(key)}(\s|$)", text, re.M), key


# ---------------------------------------------------------------- schemas of others


@pytest.mark.skipif(not CHECK.with_name("node_modules").exists(), reason="its npm packages are not installed")
def test_sbom_is_cyclonedx_and_names_what_is_linked(made, tmp_path):
    call(NODE, CHECK, "cyclonedx", made[".cdx.json"])
    document = json.loads(made[".cdx.json"].read_text())
    names = {component["name"]: component for component in document["components"]}
    linked = set(re.findall(r"=> (/\S+)", call("ldd", BINARY)))
    hashed = {entry["value"] for component in names.values() for entry in component.get("properties", [])}
    for path in linked:
        assert hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest() in hashed, path
    installed = call("dpkg-query", "-W", "-f", "${Version}", "libssl3")
    assert names["libssl3"]["version"] == installed
    assert {"libwebsockets-evlib-uv", "react", "katex"} <= names.keys() and "vite" not in names
    document["components"][0]["type"] = "thing"
    (tmp_path / "bad.json").write_text(json.dumps(document))
    assert subprocess.run([NODE, CHECK, "cyclonedx", tmp_path / "bad.json"], check=False, capture_output=True).returncode


def manifests(file=MANIFESTS):
    return [document for document in yaml.safe_load_all(file.read_text()) if document]


@pytest.mark.skipif(not CHECK.with_name("node_modules").exists(), reason="its npm packages are not installed")
def test_manifests_are_valid_by_the_api_s_schemas(tmp_path):
    objects = manifests() + manifests(SEVERAL) + [yaml.safe_load((ROOT / "packaging/proxies/kubernetes-ingress.yaml").read_text())]
    (tmp_path / "good.json").write_text(json.dumps(objects))
    call(NODE, CHECK, "kubernetes", tmp_path / "good.json")
    objects[2]["spec"]["template"]["spec"]["containers"][0]["livenessProbe"]["httpGet"]["port"] = None
    (tmp_path / "bad.json").write_text(json.dumps(objects))
    assert subprocess.run([NODE, CHECK, "kubernetes", tmp_path / "bad.json"], check=False,
                          capture_output=True).returncode == 1


def test_manifests_fit_the_image_and_the_gateway(tmp_path):
    kinds = {document["kind"]: document for document in manifests()}
    pod = kinds["StatefulSet"]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    config = json.loads(kinds["ConfigMap"]["data"]["config.json"])
    (tmp_path / "config.json").write_text(json.dumps(config))
    shown = json.loads(run("print-config", str(tmp_path / "config.json")).stdout)
    assert pod["terminationGracePeriodSeconds"] >= shown["drain_s"] + 15
    assert kinds["StatefulSet"]["spec"]["replicas"] == 1, "one gateway for each database"
    port = int(shown["listen"].rsplit(":", 1)[1])
    assert [entry["containerPort"] for entry in container["ports"]] == [port]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["livenessProbe"]["httpGet"]["path"] == container["startupProbe"]["httpGet"]["path"] == "/healthz"
    security = container["securityContext"]
    assert security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"]
    image = (ROOT / "docker/Dockerfile").read_text()
    user = pod["securityContext"]
    assert f"USER {user['runAsUser']}:{user['runAsGroup']}\n" in image and user["runAsNonRoot"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert container["args"] == ["serve", "--config", mounts["config"], "--data", mounts["data"] + "/data"]
    size = kinds["StatefulSet"]["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"]
    assert int(size.removesuffix("Gi")) > shown["retention"]["store_gib"]


def test_manifests_of_several_gateways_give_each_pod_a_good_configuration(tmp_path):
    """The init container's command runs here, for each pod; the gateway reads what it has made."""
    objects = {(document["kind"], document["metadata"]["name"]): document for document in manifests(SEVERAL)}
    several = objects["StatefulSet", "holdfast"]["spec"]
    pod = several["template"]["spec"]
    nodes = objects["Service", several["serviceName"]]["spec"]
    assert nodes["clusterIP"] == "None" and nodes["publishNotReadyAddresses"], "pods have names before they are ready"
    container, made = pod["containers"][0], pod["initContainers"][0]
    ports = {entry["name"]: entry["containerPort"] for entry in container["ports"]}
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert mounts["/etc/holdfast/config.json"] == "own" and mounts["/etc/holdfast/keys"] == "keys"
    shared, own, keys = (tmp_path / name for name in ("shared", "own", "keys"))
    for folder in (shared, own, keys):
        folder.mkdir()
    (shared / "config.json").write_text(objects["ConfigMap", "holdfast"]["data"]["config.json"])
    (keys / "store.url").write_text("host=postgres user=holdfast dbname=holdfast\n")
    (keys / "cluster.secret").write_text("0123456789abcdef" * 2)
    told = set()
    for number in range(several["replicas"]):
        name = f"holdfast-{number}"
        command = [word.replace("/shared/", f"{shared}/").replace("/own/", f"{own}/") for word in made["command"]]
        subprocess.run(command, check=True, env={"PATH": os.environ["PATH"], "POD_NAME": name})
        text = (own / "config.json").read_text().replace("/etc/holdfast/keys", str(keys))
        (tmp_path / "config.json").write_text(text)
        assert run("check-config", str(tmp_path / "config.json")).returncode == 0
        cluster = json.loads(text)["cluster"]
        assert cluster["advertise"] == f"{name}.{several['serviceName']}.default.svc:{ports['links']}"
        told.add(cluster["node"])
    assert len(told) == several["replicas"] > 1
    assert [port["port"] for port in nodes["ports"]] == [ports["links"]]
    assert objects["PodDisruptionBudget", "holdfast"]["spec"]["maxUnavailable"] == 1
