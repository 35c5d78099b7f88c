"""README.md and docs/agents.md are run: their files written, their commands carried out, their output compared.

A comment before a fenced block says what the block is:
  <!-- file: NAME -->   that file, for the blocks after it
  <!-- run: NAME -->    commands; each must succeed
  <!-- shows: NAME -->  what those commands print, but for white space at the ends of lines
  <!-- client: NAME --> lines for somebody else's client: tests/clients and tests/browser run them
  <!-- dev: NAME -->    "./dev NAME …": not run from inside a test, but ./dev must know it

The other pages name files, functions and tests; those must be there.
"""

import json
import os
import pathlib
import re
import subprocess

import pytest

from gateway import BINARY, Gateway, run
from holdfast import WAIT_S, Client, names

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
README = (ROOT / "README.md").read_text()
AGENTS = (ROOT / "docs" / "agents.md").read_text()
PAGES = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/agents.md", "docs/decisions.md", "docs/style.md",
         "proto/PROTOCOL.md", "tests/README.md"]
README_LINES = 200  # what a stranger reads in five minutes
CONFIG = {"agents": None}  # what a gateway without a file has

MARKED = re.compile(r"^<!-- (\w+): ([\w.-]+) -->\n```(\w+)\n(.*?)^```$", re.M | re.S)
BLOCKS = [match.groups() for match in MARKED.finditer(README + AGENTS)]


def blocks(kind):
    return [(name, language, text) for what, name, language, text in BLOCKS if what == kind]


def text_of(kind, name):
    found = [text for of, _, text in blocks(kind) if of == name]
    assert len(found) == 1, f"{len(found)} blocks for {kind}: {name}"
    return found[0]


@pytest.fixture(scope="module")
def folder(gateway, tmp_path_factory):
    """The files of README.md, made to talk to the file's gateway."""
    path = tmp_path_factory.mktemp("readme")
    for name, _, text in blocks("file"):
        (path / name).write_text(text.replace("127.0.0.1:8080", f"127.0.0.1:{gateway.port}"))
    (path / "build").mkdir()
    (path / "build" / "holdfast").symlink_to(pathlib.Path(BINARY).resolve())
    return path


def carry_out(name, folder):
    """The output of a block's commands.  python3 is the system's, like that of all tests."""
    (folder / "bin").mkdir(exist_ok=True)
    if not (folder / "bin" / "python3").exists():
        (folder / "bin" / "python3").symlink_to("/usr/bin/python3")
    environ = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-eu", "-c", text_of("run", name)], cwd=folder, env=environ,
                          capture_output=True, text=True, check=False, timeout=2 * WAIT_S)
    assert done.returncode == 0, f"{name}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def shown(text):
    return [line.rstrip() for line in text.splitlines()]


# ---------------------------------------------------------------- what is run


def test_every_block_is_marked():
    assert len(BLOCKS) == (README + AGENTS).count("\n```") // 2
    assert {what for what, *_ in BLOCKS} == {"file", "run", "shows", "dev", "client"}


RUN_BY = {"README.md": "tests/integration/test_readme.py", "docs/agents.md": "tests/integration/test_readme.py",
          "docs/operations.md": "tests/integration/test_operations.py", "docs/faces.md": "tests/clients/support/docs.mjs",
          "web/client/README.md": "web/client/tests/gateway/readme.test.mjs",
          "web/worker/README.md": "web/client/tests/gateway/readme.test.mjs",
          "clients/python/README.md": "clients/python/tests/test_package.py"}
SHELL_ALONE = {"web/README.md"}  # what one types to work on the page


def test_every_page_with_code_has_a_test_that_runs_it():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "*.md"], capture_output=True, text=True, check=True).stdout.split()
    with_code = {page for page in listed if re.search(r"^```\w", (ROOT / page).read_text(), re.M)}
    assert with_code == RUN_BY.keys() | SHELL_ALONE
    for page, test in RUN_BY.items():
        assert pathlib.Path(page).name in (ROOT / test).read_text(), page


def test_configurations_of_the_page_of_faces_hold(tmp_path):
    found = re.findall(r"^```json\n(.*?)^```$", (ROOT / "docs/faces.md").read_text(), re.M | re.S)
    assert found
    for text in found:
        (tmp_path / "config.json").write_text(text)
        assert run("check-config", str(tmp_path / "config.json")).returncode == 0, text


def test_readme_is_short():
    assert len(README.splitlines()) <= README_LINES


def test_first_conversation_then_resume(folder, gateway):
    assert shown(carry_out("first-conversation", folder)) == shown(text_of("shows", "first-conversation"))
    expected = shown(text_of("shows", "first-resume"))
    assert shown(carry_out("first-resume", folder)) == expected
    assert shown(carry_out("first-resume", folder)) == expected, "run again: the same lines"
    gateway.kill()  # "tomorrow, or after a kill -9 of the gateway": on another port, this time
    port = gateway.port
    gateway.start()
    for script in folder.glob("*.py"):
        script.write_text(script.read_text().replace(f":{port}/", f":{gateway.port}/"))
    assert shown(carry_out("first-resume", folder)) == expected, "after a kill: the same lines"


def test_agent_of_your_own(folder):
    config = json.loads((folder / "echo.json").read_text())
    command = [str(folder / word) if word.endswith(".py") else word
               for word in config["agents"][0]["command"]]
    config["agents"][0]["command"] = command
    with Gateway(config) as gateway, Client(gateway) as client:
        assert client.welcome["agents"][0]["name"] == "echo"
        task, events = client.finish("what holds the kelp")
        assert task["output"] == "WHAT HOLDS THE KELP"
        assert names(events) == ["task.created", "task.started", *["token"] * 4, "final_answer",
                                 "task.completed"]


def test_agents_page_has_configurations_that_hold(folder):
    assert '"name": "echo"' in carry_out("agents", folder)


def test_configuration_commands(folder):
    (folder / "examples").symlink_to(ROOT / "examples")
    assert '"name": "parrot"' in carry_out("configuration", folder)
    for command in ("help", "keys", "print-config", "check-config"):
        assert f"build/holdfast {command}" in text_of("run", "configuration")


# ---------------------------------------------------------------- what is not run from here


def dev(*arguments):
    return subprocess.run([ROOT / "dev", *arguments], capture_output=True, text=True, check=True,
                          timeout=WAIT_S).stdout


@pytest.mark.parametrize("name, text", [(name, text) for name, _, text in blocks("dev")])
def test_dev_command_is_there(name, text):
    assert text.startswith(f"./dev {name}") and text.count("\n") == 1
    assert re.search(rf"^\./dev {name}\b", dev("help"), re.M)


@pytest.mark.parametrize("page", PAGES)
def test_commands_in_sentences_are_there(page):
    text = (ROOT / page).read_text()
    for name in re.findall(r"`\./dev (\w+)", text):
        assert re.search(rf"^\./dev {name}\b", dev("help"), re.M), name
    for name in re.findall(r"`holdfast ([a-z-]+)", text):
        assert f"holdfast {name}" in run("help").stdout, name


def test_test_packages_have_what_the_scripts_import():
    assert "python3-websockets" in (ROOT / "dev").read_text()


def test_served_address_is_the_default():
    assert '"127.0.0.1:8080"' in run("keys").stdout


# ---------------------------------------------------------------- what the pages name


def functions_in(text):
    return re.findall(r"`((?:proto|core|gateway|web|bench|tests)/[\w/.-]+\.(?:c|h|py|js|mjs)):(\w+)`", text)


@pytest.mark.parametrize("page", PAGES)
def test_named_files_are_there(page):
    text = (ROOT / page).read_text()
    folders = r"(?:proto|core|gateway|web|tests|docs|cmake)"
    for name in re.findall(rf"`({folders}/[\w/.-]*)(?::\w+)?`", text):
        assert (ROOT / name).exists(), name
    for name in re.findall(r"\]\(([\w/.-]+)\)", text):
        assert (ROOT / page).parent.joinpath(name).exists(), name


@pytest.mark.parametrize("page", PAGES)
def test_named_functions_and_tests_are_there(page):
    text = (ROOT / page).read_text()
    for path, name in functions_in(text):
        assert re.search(rf"\b{name}\(", (ROOT / path).read_text()), f"{path}:{name}"
    every_test = "\n".join(path.read_text() for path in sorted((ROOT / "tests").rglob("test_*"))
                           if path.suffix in (".c", ".py"))
    for name in re.findall(r"`(test_\w+)`", text):
        assert re.search(rf"\b{name}\(", every_test), name


@pytest.mark.parametrize("page", PAGES)
def test_lines_fit(page):
    tables_and_links = ("|", "!", "<!--", "{")
    for number, line in enumerate((ROOT / page).read_text().splitlines(), 1):
        assert len(line) <= 120 or line.lstrip().startswith(tables_and_links), f"{page}:{number}"
