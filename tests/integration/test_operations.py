"""docs/operations.md is run, as test_readme.py runs README.md: its commands in a folder that stands in for /."""

import os
import pathlib
import re
import subprocess

import pytest

import test_readme as readme
from gateway import BINARY, Gateway, script_agent
from holdfast import WAIT_S, Client

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
    """What the commands of a block print."""
    text = RUN[name].replace("/var/", f"{place}/var/")
    if gateway:
        text = text.replace("127.0.0.1:8080", f"127.0.0.1:{gateway.port}")
    ran = subprocess.run(["sh", "-eu", "-c", text], cwd=place, capture_output=True, text=True, check=False,
                         env={**os.environ, "PATH": f"{place / 'bin'}:{os.environ['PATH']}", **environ},
                         timeout=4 * WAIT_S, stdin=subprocess.DEVNULL)
    assert ran.returncode == 0, f"{name}:\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


def test_doctor_backup_and_restore(place, serving, tmp_path):
    with Client(serving) as client:
        task, events = client.finish({"flood": 200, "bytes": 100})
        token = client.token
    assert "sound" in carry_out("doctor", place)
    assert "sound" in carry_out("doctor-full", place)
    assert "1 tasks" in carry_out("backup", place)
    assert "sound" in carry_out("restore", place)
    (tmp_path / "data").symlink_to(place / "var/lib/holdfast-restored")
    with Gateway(folder=tmp_path) as gateway, Client(gateway, token=token) as client:
        assert client.replay(task) == events


def test_chat_on_the_command_line(place, serving):
    printed = carry_out("chat", place, serving, XDG_STATE_HOME=str(place / "state")).splitlines()
    assert printed[:2] == ["count to 3"] * 2  # the scripted agent says it back
    assert printed[2].startswith("c-1\t0 running\tcount to 3")
    assert printed[-1].startswith("c-1/") and "\tcompleted" in printed[-1]


def test_what_to_watch(place, serving):
    printed = carry_out("watch", place, serving)
    for name in set(re.findall(r"`(holdfast_\w+)", TEXT)):
        assert f"# TYPE {name} " in printed, name
    for code in re.findall(r'closes_total\{(code="\d+")\}', TEXT) + re.findall(r'\{(outcome="\w+")\}', TEXT):
        assert code in printed


def test_admin(place, serving):
    said = carry_out("admin", place).splitlines()
    assert [line[:24] for line in said[:2]] == ['{"type":"ok","closed":0}', '{"type":"ok","closed":0,']
    assert '"owner":"alice"' in said[2] and said[3] == '{"type":"ok"}'
    assert said[4] == '{"type":"conversations","conversations":[],"more":false}'


def test_what_is_installed_is_there():
    """systemd is not run here: test_packaging.py runs what the unit says."""
    for kind, _, _, text in BLOCKS:
        for name in re.findall(r"\bpackaging/[\w.]+", text if kind == "install" else ""):
            assert (ROOT / name).exists(), name


def test_dev_commands_are_there():
    """owner-check is carried out by test_owner_check.py."""
    for kind, name, _, text in BLOCKS:
        if kind == "dev":
            readme.test_dev_command_is_there(name, text)


# ---------------------------------------------------------------- the page itself


def test_every_block_is_marked_and_run():
    assert len(BLOCKS) == TEXT.count("\n```") // 2
    assert {kind for kind, *_ in BLOCKS} <= {"run", "install", "dev"}
    here = pathlib.Path(__file__).read_text()
    assert [name for name in RUN if f'carry_out("{name}"' not in here] == []


test_page_names_commands_that_are_there = lambda: readme.test_commands_in_sentences_are_there(PAGE)  # noqa: E731
test_page_names_files_that_are_there = lambda: readme.test_named_files_are_there(PAGE)  # noqa: E731
test_page_names_functions_that_are_there = lambda: readme.test_named_functions_and_tests_are_there(PAGE)  # noqa: E731
test_lines_of_the_page_fit = lambda: readme.test_lines_fit(PAGE)  # noqa: E731
