"""docs/operations.md is run, as test_readme.py runs README.md: its commands in a folder that stands in for /.

What changes the system itself is left away: packages and users (they were there once, on a bare Debian 12).  systemd
is a script that does what the unit says; nginx is the real one.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest

import test_readme as readme
from gateway import BINARY, Gateway, runs, script_agent, signal_if, wait_until, wrongs
from holdfast import WAIT_S, Client
from test_proxy import NGINX, TEMPORARY, free_port

ROOT = readme.ROOT
PAGE = "docs/operations.md"
TEXT = (ROOT / PAGE).read_text()
BLOCKS = [match.groups() for match in readme.MARKED.finditer(TEXT)]
RUN = {name: text for kind, name, _, text in BLOCKS if kind == "run"}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """/var, and a PATH with holdfast."""
    root = tmp_path_factory.mktemp("place")
    for folder in ("var/lib", "var/backups", "bin"):
        (root / folder).mkdir(parents=True)
    (root / "bin" / "holdfast").symlink_to(pathlib.Path(BINARY).resolve())
    return root


@pytest.fixture(scope="module")
def serving(place, tmp_path_factory):
    agents = {"agents": [script_agent("assistant", default=True)]}
    with Gateway(agents, folder=tmp_path_factory.mktemp("serving")) as gateway:
        (place / "var/lib/holdfast").symlink_to(gateway.data)
        yield gateway


def carry_out(name, place, gateway=None, **environ):
    """The output of a block's commands."""
    text = RUN[name].replace("/var/", f"{place}/var/")
    if gateway:
        text = text.replace("127.0.0.1:8080", f"127.0.0.1:{gateway.port}")
    return run_in(place, text, place, name, **environ)


def run_in(folder, text, place, name, **environ):
    ran = subprocess.run(["sh", "-eu", "-c", text], cwd=folder, capture_output=True, text=True, check=False,
                         env={**os.environ, "PATH": f"{place / 'bin'}:{os.environ['PATH']}", **environ},
                         timeout=4 * WAIT_S, stdin=subprocess.DEVNULL)
    is_doctors = "WRONG " in ran.stdout and not wrongs(ran.stdout)  # root's tests are told who they are
    assert ran.returncode == int(is_doctors), f"{name}:\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


# ---------------------------------------------------------------- from nothing to a TLS deployment

SYSTEMCTL = """#!/bin/sh -eu
# Stands in for systemd.
unit=PLACE/etc/systemd/system/holdfast.service
of() { sed -n "s/^$1=//p" "$unit" | sed -E 's#(^|[ =])/(usr/bin|etc|var)/#\\1PLACE/\\2/#g'; }
start() {
    for name in $(of StateDirectory); do mkdir -p -m "$(of StateDirectoryMode)" "PLACE/var/lib/$name"; done
    : >PLACE/run/out
    $(of ExecStart) >PLACE/run/out 2>>PLACE/run/log & echo $! >PLACE/run/holdfast.pid
    until grep -q '"ready"' PLACE/run/out; do kill -0 "$(cat PLACE/run/holdfast.pid)"; sleep 0.02; done
}
case "$*" in
daemon-reload) ;;
"enable --now holdfast") start ;;
"restart holdfast")
    kill "$(cat PLACE/run/holdfast.pid)"
    while kill -0 "$(cat PLACE/run/holdfast.pid)" 2>/dev/null; do sleep 0.02; done
    start ;;
"reload holdfast") kill -HUP "$(cat PLACE/run/holdfast.pid)" ;;
"reload nginx")
    if [ -s PLACE/run/nginx.pid ]; then PLACE/bin/nginx -s reload; else PLACE/bin/nginx >/dev/null 2>&1; fi
    until curl -sk -o /dev/null https://127.0.0.1:TLS/; do sleep 0.02; done ;;
*) echo "systemctl $*: not known here" >&2; exit 1 ;;
esac
"""
NGINX_SH = """#!/bin/sh -eu
sed -i -e 's/127.0.0.1:8080/127.0.0.1:PORT/' -e 's/listen 443 /listen 127.0.0.1:TLS /' -e 's# /etc/# PLACE/etc/#' \\
    PLACE/etc/nginx/conf.d/holdfast.conf
exec REAL -e PLACE/run/nginx.log -p PLACE -c PLACE/etc/nginx/nginx.conf "$@"
"""
INSTALL_SH = """#!/bin/sh -eu
# Without -g holdfast, which is no group here.
for word; do shift; case "$word" in -g|holdfast) ;; *) set -- "$@" "$word" ;; esac; done
exec REAL "$@"
"""
LEFT_AWAY = ["apt-get", "useradd", "chgrp"]


class System:
    """A machine: /etc, /usr, /var in a folder, ports that are free, and a checkout."""

    def __init__(self, place):
        self.place, self.checkout = place, place / "checkout"
        self.ports = {"PORT": free_port(), "TLS": free_port(), "DIRECT": free_port()}
        for name in ("bin", "run", "usr/bin", "etc/systemd/system", "etc/ssl", "etc/nginx/conf.d", "var/lib", "checkout/build"):
            (place / name).mkdir(parents=True)
        (self.checkout / "packaging").symlink_to(ROOT / "packaging")
        (self.checkout / "build/holdfast").symlink_to(pathlib.Path(BINARY).resolve())
        self.script(self.checkout / "dev", "#!/bin/sh\n[ \"$*\" = build ]\n")
        for name in LEFT_AWAY:
            self.script(place / "bin" / name, "#!/bin/sh\n")
        self.script(place / "bin/systemctl", SYSTEMCTL)
        self.script(place / "bin/nginx", NGINX_SH, REAL=NGINX)
        self.script(place / "bin/install", INSTALL_SH, REAL=shutil.which("install"))
        places = "".join(f"{name}_temp_path {place}/run/{name};" for name in TEMPORARY)
        (place / "etc/nginx/nginx.conf").write_text(
            f"{'user root;' if os.geteuid() == 0 else ''} pid {place}/run/nginx.pid; error_log {place}/run/nginx.log;"
            f"events {{}} http {{ access_log off; {places} include {place}/etc/nginx/conf.d/*.conf; }}")
        (place / ".curlrc").write_text("".join(f"connect-to = chat.example:{named}:127.0.0.1:{self.ports[port]}\n"
                                               for named, port in ((443, "TLS"), (8443, "DIRECT"))))

    def script(self, path, text, **words):
        for word, value in {"PLACE": self.place, **self.ports, **words}.items():
            text = text.replace(word, str(value))
        path.write_text(text)
        path.chmod(0o755)

    def carry_out(self, name, more=""):
        text = re.sub(r"(?<![\w.])/(etc|var|usr)/", f"{self.place}/\\1/", RUN[name] + more)
        for old, new in (("127.0.0.1:8080", f"127.0.0.1:{self.ports['PORT']}"), ("0.0.0.0:8443", f"0.0.0.0:{self.ports['DIRECT']}"),
                         ("wss://chat.example", f"wss://127.0.0.1:{self.ports['TLS']}"),
                         ("DNS:chat.example", "DNS:chat.example,IP:127.0.0.1")):
            text = text.replace(old, new)
        return run_in(self.checkout, text, self.place, name, CURL_HOME=str(self.place), HOME=str(self.place),
                      PATH=f"{self.place}/bin:{self.place}/usr/bin:{os.environ['PATH']}")

    def end(self):
        for name in ("holdfast.pid", "nginx.pid"):
            if (self.place / "run" / name).exists():
                pid = int((self.place / "run" / name).read_text())
                if signal_if(lambda pid, name=name: runs(pid, name.removesuffix(".pid")), pid, signal.SIGTERM):
                    wait_until(lambda pid=pid: not pathlib.Path(f"/proc/{pid}").exists(), f"the end of {name}")


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    machine = System(tmp_path_factory.mktemp("system"))
    yield machine
    machine.end()


@pytest.mark.skipif(not pathlib.Path(NGINX).exists(), reason="no nginx here")
def test_from_nothing_to_a_tls_deployment(system):
    system.carry_out("install")
    system.carry_out("keys")
    printed = system.carry_out("configuration")
    assert "good" in printed and '"EdDSA"' in printed
    assert "ready" in system.carry_out("service")
    system.carry_out("certificate")
    assert "chat.example" in (system.place / "etc/hosts").read_text()
    system.carry_out("nginx")
    printed = system.carry_out("first-requests")
    assert printed.startswith('alive\n{"type":"conversations","conversations":[],"more":false}{"type":"started"')
    assert "1 2 3\n" in printed and printed.count("count to 3") == 2
    # The same owner by the other key, and nobody without one:
    listed = json.loads(system.carry_out("application-token"))["conversations"]
    assert {row["conversation_id"] for row in listed} > {"c-1"}
    ask = "\necho\ncurl -s --cacert /etc/ssl/chat.example/fullchain.pem -o /dev/null -w '%{http_code}' https://chat.example"
    answers = system.carry_out("application-token", f"{ask}/v1/conversations{ask}/metrics{ask}'/metrics;x'").split("\n")
    assert answers[-3:] == ["401", "404", "404"]


@pytest.mark.skipif(not pathlib.Path(NGINX).exists(), reason="no nginx here")
def test_keys_and_certificates_of_the_deployment_are_changed(system):
    make = "\nholdfast token --sub alice --config /etc/holdfast/config.json --data /var/lib/holdfast"
    old = system.carry_out("configuration", make).split("\n")[-2]
    log = system.place / "run/log"
    new = system.carry_out("reload", make).split("\n")[-2]
    wait_until(lambda: '"event":"reloaded"' in log.read_text(), "the reload")
    url = "https://chat.example/v1/conversations"
    ask = f"\necho\ncurl -s --cacert /etc/ssl/chat.example/fullchain.pem -o /dev/null -w '%{{http_code}}' {url} -H 'Authorization: Bearer "
    answers = system.carry_out("application-token", f"{ask}{old}'{ask}{new}'").split("\n")
    assert answers[-2:] == ["401", "200"]
    assert '"application"' in system.carry_out("configuration")
    assert system.carry_out("without-a-proxy").endswith("alive\n")


# ---------------------------------------------------------------- the other sections


def test_doctor_backup_and_restore(place, serving, tmp_path):
    with Client(serving) as client:
        task, events = client.finish({"flood": 200, "bytes": 100})
        token = client.token
    assert not wrongs(carry_out("doctor", place))
    assert not wrongs(carry_out("doctor-full", place))
    assert "1 tasks" in carry_out("backup", place)
    assert not wrongs(carry_out("restore", place))
    (tmp_path / "data").symlink_to(place / "var/lib/holdfast-restored")
    with Gateway(folder=tmp_path) as gateway, Client(gateway, token=token) as client:
        assert client.replay(task) == events


def test_chat_on_the_command_line(place, serving):
    printed = carry_out("chat", place, serving, XDG_STATE_HOME=str(place / "state")).splitlines()
    assert printed[:2] == ["count to 3"] * 2  # the scripted agent says it back
    assert printed[2].startswith("c-1\t0 running\tcount to 3")
    assert printed[-1].startswith("c-1/") and "\tcompleted" in printed[-1]


def test_files_on_the_command_line(place, serving):
    assert carry_out("chat-files", place, serving, XDG_STATE_HOME=str(place / "state")) == "make a table of this\n"


def test_what_to_watch(place, serving):
    printed = carry_out("watch", place, serving)
    for name in set(re.findall(r"`(holdfast_\w+)", TEXT)):
        assert f"# TYPE {name} " in printed or name.startswith("holdfast_cluster_link_"), name  # with links alone
    for code in re.findall(r'closes_total\{(code="\d+")\}', TEXT) + re.findall(r'\{(outcome="\w+")\}', TEXT):
        assert code in printed


def test_admin(place, serving):
    said = carry_out("admin", place).splitlines()
    assert [line[:24] for line in said[:2]] == ['{"type":"ok","closed":0}', '{"type":"ok","closed":0,']
    assert '"owner":"alice"' in said[2] and said[3] == '{"type":"ok"}'
    assert said[4] == '{"type":"conversations","conversations":[],"more":false}'


def test_dev_commands_are_there():
    """owner-check is carried out by test_owner_check.py."""
    for kind, name, _, text in BLOCKS:
        if kind == "dev":
            readme.test_dev_command_is_there(name, text)


# ---------------------------------------------------------------- the page itself


def test_every_block_is_marked_and_run():
    assert len(BLOCKS) == TEXT.count("\n```") // 2
    assert {kind for kind, *_ in BLOCKS} <= {"run", "dev"}
    here = pathlib.Path(__file__).read_text()
    assert [name for name in RUN if f'carry_out("{name}"' not in here] == []
    assert [int(n) for n in re.findall(r"^## (\d+)\.", TEXT, re.M)] == list(range(1, TEXT.count("\n## ") + 1))
    assert re.findall(r"^\d+\. \[(.*)\]", TEXT, re.M) == re.findall(r"^## \d+\. (.*)$", TEXT, re.M)


test_page_names_commands_that_are_there = lambda: readme.test_commands_in_sentences_are_there(PAGE)  # noqa: E731
test_page_names_files_that_are_there = lambda: readme.test_named_files_are_there(PAGE)  # noqa: E731
test_page_names_functions_that_are_there = lambda: readme.test_named_functions_and_tests_are_there(PAGE)  # noqa: E731
test_lines_of_the_page_fit = lambda: readme.test_lines_fit(PAGE)  # noqa: E731
