"""A container engine of a test's own: Debian's dockerd, in a folder of its own, that changes nothing of this machine's
network.  No registry is asked: the base is made from Debian's packages."""

import contextlib
import json
import os
import pathlib
import resource
import shutil
import subprocess
import tempfile

import pytest
import yaml

from gateway import WAIT_S, free_port, wait_until

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BASE = "debian:12-slim"
LONG_S = 1800


def missing():
    """The programs that are not here."""
    return [name for name in ("dockerd", "containerd", "runc", "docker-compose", "mmdebstrap") if not shutil.which(name)]


class Engine:
    """Its close ends all containers.  Skips the test where the kernel lets nobody run one."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-engine-")).resolve()
        sbin = pathlib.Path(shutil.which("dockerd")).parent  # its own client knows BuildKit without a plugin
        self.environ = {**os.environ, "PATH": f"{sbin.parent / 'bin'}:{sbin}:{os.environ['PATH']}",
                        "DOCKER_HOST": f"unix://{self.folder}/docker.sock", "DOCKER_BUILDKIT": "1",
                        "COMPOSE_DOCKER_CLI_BUILD": "1", "DOCKER_CONFIG": str(self.folder)}
        self.log = self.folder / "log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", "dockerd", "--iptables=false", "--ip6tables=false", "--bridge=none",
                 "--ip-forward=false", "--data-root", self.folder / "data", "--exec-root", self.folder / "exec",
                 "--pidfile", self.folder / "pid", "--host", self.environ["DOCKER_HOST"]],
                env=self.environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            wait_until(lambda: self.process.poll() is not None or self.answers(), "dockerd")
            if self.process.poll() is not None:
                pytest.skip(f"no container engine runs here: {self.log.read_text()[-300:]}")
            self.make_base()
        except BaseException:
            self.close()
            raise

    def run(self, *words, **options):
        return subprocess.run([str(word) for word in words], check=False, capture_output=True, text=True, env=self.environ,
                              stdin=subprocess.DEVNULL, timeout=LONG_S, **options)

    def docker(self, *words):
        done = self.run("docker", *words)
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout

    def answers(self):
        return self.run("docker", "version").returncode == 0

    def make_base(self):
        tar = self.folder / "base.tar"
        made = ["unshare", "--mount", "mmdebstrap", "--variant=minbase", "--dpkgopt=force-unsafe-io", "bookworm", tar]
        subprocess.run(made, check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=LONG_S)
        self.docker("import", tar, BASE)
        tar.unlink()

    def build(self, name, folder, *options, **arguments):
        """The image of that name; its RUNs use this machine's network."""
        words = [f"--build-arg={key}={value}" for key, value in {"BASE": BASE, **arguments}.items()]
        self.docker("build", "--network=host", "--tag", name, *words, *options, folder)

    def inspect(self, name):
        return json.loads(self.docker("inspect", name))[0]

    def close(self):
        if self.process.poll() is None and (running := self.run("docker", "ps", "--all", "--quiet").stdout.split()):
            self.run("docker", "rm", "--force", "--volumes", *running)
        self.run("docker", "network", "prune", "--force")
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(WAIT_S)
        self.process.kill()
        self.process.wait()
        for place in self.mounted():
            subprocess.run(["umount", "--lazy", place], check=False)
        assert not self.mounted(), "what is mounted would be emptied with the folder"
        shutil.rmtree(self.folder)

    def mounted(self):
        places = [line.split()[1] for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
        return [place for place in places if place.startswith(f"{self.folder}/")]


class Composed:
    """A compose file at work.  It stands as it is, but for a port that is free, the base, the network of the builds,
    and descriptors of which this machine has fewer.  Its network has no way out."""

    host = "127.0.0.1"

    def __init__(self, engine, path):
        self.engine, self.port, self.name = engine, free_port(), f"{path.parent.name}{os.getpid()}"
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        compose = yaml.safe_load(path.read_text())
        for service in compose["services"].values():
            if "build" in service:
                service["build"].setdefault("args", {})["BASE"] = BASE
                service["build"]["network"] = "host"
            if "ports" in service:
                service["ports"] = [port.replace(":8080:", f":{self.port}:") for port in service["ports"]]
            if "ulimits" in service:
                service["ulimits"]["nofile"] = min(service["ulimits"]["nofile"], most)
        changed = engine.folder / f"{self.name}.yaml"
        changed.write_text(yaml.safe_dump(compose))
        self.words = ["docker-compose", "--project-name", self.name, "--file", changed, "--project-directory", path.parent]

    def __call__(self, *words):
        done = self.engine.run(*self.words, *words)
        assert done.returncode == 0, f"{done.stderr[-4000:]}\n{self.logs()}"
        return done.stdout

    def logs(self):
        return self.engine.run(*self.words, "logs", "--no-color", "--tail=20").stdout

    def container(self, service):
        return self("ps", "--quiet", service).strip()

    def inspect(self, service):
        return self.engine.inspect(self.container(service))

    def inside(self, service, *words):
        return self.engine.docker("exec", self.container(service), *words)

    def close(self):
        self("down", "--volumes", "--timeout", "1")
