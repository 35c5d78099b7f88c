"""The Python client as a package: its wheel in an environment of its own, its types, and the names of its README."""

import asyncio
import operator
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
HERE = ROOT / "clients/python"
sys.path[:0] = [str(ROOT / "tests" / "support"), str(HERE / "src")]

import pytest  # noqa: E402

from gateway import Gateway  # noqa: E402
from short import long  # noqa: E402

from holdfast_client import Client, Conversation, Task, connect  # noqa: E402

README = (HERE / "README.md").read_text(encoding="utf-8")
PYTHON = "/usr/bin/python3"
AGENT = {"agents": [{"name": "assistant", "kind": "react", "model": "builtin", "default": True}],
         "models": [{"name": "builtin", "kind": "builtin"}]}
LONG_S = 300


def call(*words, status=0, **options):
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False, timeout=LONG_S, **options)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(HERE, folder / "client", ignore=shutil.ignore_patterns("__pycache__"))
    call(PYTHON, "-m", "pip", "wheel", "--no-deps", "--no-index", "--no-build-isolation", "-w", folder, folder / "client")
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """An environment with the wheel, and the dependency of the system."""
    folder = tmp_path_factory.mktemp("environment")
    call(PYTHON, "-m", "venv", "--system-site-packages", "--without-pip", folder)
    call(PYTHON, "-m", "pip", "--python", folder / "bin/python", "install", "--no-deps", "--no-index", wheel)
    return folder / "bin/python"


def test_wheel_holds_what_is_needed_and_no_more(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        said = archive.read(metadata).decode()
    modules = {f"holdfast_client/{path.name}" for path in (HERE / "src/holdfast_client").glob("*.py")}
    assert names == modules | {"holdfast_client/py.typed"}
    assert "Requires-Dist: websockets>=10.4" in said.replace(" (", "").replace(")", "").replace("websockets >", "websockets>")
    assert "Requires-Python: >=3.10" in said and "# holdfast-client" in said


def test_first_example_runs_with_the_installed_package(python, tmp_path):
    code = re.search(r"```python\n(.*?)```", README, re.S)[1]
    with Gateway(AGENT) as gateway:
        (tmp_path / "example.py").write_text(code.replace("127.0.0.1:8080", f"127.0.0.1:{gateway.port}"), encoding="utf-8")
        said = call(python, "example.py", cwd=tmp_path, env={"PATH": "/usr/bin:/bin"})
    assert said.strip().endswith("1 2 3 4 5")
    assert str(python.parent.parent) in call(python, "-c", "import holdfast_client; print(holdfast_client.__file__)", cwd=tmp_path)


RIGHT = """
from ssl import create_default_context

from holdfast_client import HoldfastError, TaskFailed, connect

async def talk(text: str) -> str:
    async with connect("ws://127.0.0.1:8080/v1/ws", token=lambda stale: stale, backoff_s=(0.5, 30),
                       ssl=create_default_context()) as client:
        task = await client.conversation("c-1").ask(text, agent="assistant")
        async for event in task.events(exact=True):
            if event.name == "token":
                print(event.data["text"], event.seq + 1)
        try:
            return (await task.result()).output
        except TaskFailed as failed:
            return failed.output
        except HoldfastError as error:
            return error.code
"""
WRONG = {"await client.conversation(\"c-1\").ask": "client.conversation(\"c-1\").ask",  # it is not awaited
         "event.seq + 1": "event.seq + \"\"", "exact=True": "exakt=True", "return error.code": "return error.retry_after_s"}


@long
def test_its_types_are_strict_and_reach_who_installs_it(python, tmp_path):
    mypy = [PYTHON, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache"]
    call(*mypy, HERE / "src/holdfast_client", cwd=tmp_path)
    user = tmp_path / "user.py"
    checks = [*mypy, "--python-executable", python, user]
    user.write_text(RIGHT, encoding="utf-8")
    call(*checks, cwd=tmp_path)
    for right, wrong in WRONG.items():
        assert right in RIGHT
        user.write_text(RIGHT.replace(right, wrong), encoding="utf-8")
        call(*checks, cwd=tmp_path, status=1)


# ---------------------------------------------------------------- README.md


@long
def test_each_block_has_the_types_of_the_package(python, tmp_path):
    blocks = re.findall(r"```(\w*)\n(.*?)```", README, re.S)
    assert {language for language, _ in blocks} == {"python"}
    for n, (_, code) in enumerate(blocks):
        (tmp_path / f"block_{n}.py").write_text(code, encoding="utf-8")
    loose = ["--allow-untyped-defs", "--check-untyped-defs", "--allow-untyped-calls"]
    call(PYTHON, "-m", "mypy", "--strict", *loose, "--cache-dir", tmp_path / "cache", "--python-executable", python,
         *tmp_path.glob("block_*.py"), cwd=tmp_path)


def tables_of(heading):
    """The names in the first cells of each table below it."""
    section = README.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    for table in re.findall(r"(?:^\|.*\n)+", section, re.M):
        cells = [row.split(" | ")[0] for row in table.splitlines()[2:]]
        yield [name for cell in cells for name in re.findall(r"`([\w.]+)", cell)]


def test_what_the_readme_names_is_there():
    arguments, members = tables_of("connect")
    assert set(arguments) == set(connect.__annotations__) - {"url", "return"}

    async def body():
        client = connect("ws://127.0.0.1:9/v1/ws")
        for one, names in ((client, members), (client.task("c", "t"), next(tables_of("Tasks")))):
            for name in names:
                operator.attrgetter(name)(one)
        await client.close()

    asyncio.run(body())


def test_what_is_public_is_in_the_readme():
    inner = {"later", "start", "unwatch", "is_closed", "open", "is_open"}
    for kind in (Client, Conversation, Task):
        names = {name for name in vars(kind) if not re.match("_|on_", name)} - inner
        assert {name for name in names if not re.search(rf"`(\w+\.)?{name}\b", README)} == set(), kind
