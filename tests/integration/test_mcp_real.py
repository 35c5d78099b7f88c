"""MCP servers that nobody here wrote, from the registry, of both protocol versions, over stdio and HTTP."""

import contextlib
import json
import os
import shutil
import socket
import subprocess

import pytest

from gateway import SUPPORT, free_port, processes_with, wait_until
from holdfast import ids
from mcp_kit import agent, data, gateway_of, offered, results, turn
from short import rest

NODE = os.environ.get("HOLDFAST_NODE") or shutil.which("node")
PACKAGES = SUPPORT.parent / "mcp"
EVERYTHING = str(PACKAGES / "node_modules/@modelcontextprotocol/server-everything/dist/index.js")
EXAMPLES = PACKAGES / "node_modules/@modelcontextprotocol/sdk/dist/esm/examples/server"
MODERN = str(PACKAGES / "modern.mjs")

pytestmark = pytest.mark.skipif(not os.path.exists(EVERYTHING), reason="tests/mcp is not installed")

STDIO = {
    "all": [EVERYTHING, "stdio"],
    "new": [MODERN, "stdio"],
    "count": [str(EXAMPLES / "progressExample.js")],
    "sample": [str(EXAMPLES / "toolWithSampleServer.js")],
}
HTTP = {  # name → arguments, the variable that names its port
    "allweb": ([EVERYTHING, "streamableHttp"], "PORT"),
    "newweb": ([MODERN], None),
    "tasks": ([str(EXAMPLES / "simpleTaskInteractive.js")], "PORT"),
    "forms": ([str(EXAMPLES / "elicitationFormExample.js")], "PORT"),
}


def listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


@pytest.fixture(scope="module")
def ports():
    ports, running = {name: free_port() for name in HTTP}, []
    for name, (arguments, variable) in HTTP.items():
        more = [] if variable else [str(ports[name])]
        environ = {**os.environ, **({variable: str(ports[name])} if variable else {})}
        running.append(subprocess.Popen([NODE, *arguments, *more], env=environ, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL))
    try:
        for name, port in ports.items():
            wait_until(lambda port=port: listens(port), name)
        yield ports
    finally:
        for process in running:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def gateway(model, ports):
    servers = [{"name": name, "command": [NODE, *arguments]} for name, arguments in STDIO.items()]
    servers += [{"name": name, "url": f"http://127.0.0.1:{port}/mcp"} for name, port in ports.items()]
    for server in servers:
        server["approve"] = "never"
    agents = [agent(name, f"mcp:{name}/*", default=name == "all") for name in [*STDIO, *HTTP]]
    with gateway_of(model, servers, agents) as running:
        for name in [*STDIO, *HTTP]:
            running.logged("event=ready", f"server={name}")
        yield running


def ask(talk, name, calls, *answers):
    """The results of a task whose questions get these answers, and the questions."""
    client, since, asked = talk.client, len(talk.client.log), []
    task = talk.begin(name, turn(*calls))
    for one in answers:
        known = {question["input_id"] for question in asked}
        question = client.expect(lambda line, known=known: line.get("event") == "input_required"
                                 and line["task_id"] == task["task_id"]
                                 and line["data"]["input_id"] not in known, since)["data"]
        asked.append(question)
        client.call("respond", **ids(task), input_id=question["input_id"], answer=one)
    events = list(client.events(task, since))
    return results(events), asked, events


def test_versions_are_found_out(gateway):
    for name, version in (("all", "2025-11-25"), ("new", "2026-07-28"), ("allweb", "2025-11-25"),
                          ("newweb", "2026-07-28"), ("tasks", "2025-11-25"), ("forms", "2025-11-25")):
        gateway.logged("event=ready", f"server={name} protocol={version}")


@pytest.mark.parametrize("name", ["all", "allweb"])
def test_everything(talk, model, name):
    calls = [("echo", {"message": "hi"}), ("echo", {}), ("get-tiny-image", {}),
             ("get-structured-content", {"location": "New York"}), ("get-resource-links", {"count": 1}),
             ("trigger-long-running-operation", {"duration": 1, "steps": 2})]
    got, _, events = ask(talk, name, [(f"{name}__{tool}", arguments) for tool, arguments in calls])
    assert got["c0"] == ("Echo: hi", False)
    assert got["c1"][1] and "Invalid arguments for tool echo" in got["c1"][0]
    assert "[image: image/png, 4 KiB]" in got["c2"][0]
    [file] = data(events, "file")
    assert (file["call_id"], file["media_type"]) == ("c2", "image/png") and file["size"] > 3000
    assert json.loads(got["c3"][0])["conditions"] == "Cloudy"
    assert "<demo://resource/dynamic/" in got["c4"][0]
    assert got["c5"] == ("Long running operation completed. Duration: 1 seconds, Steps: 2.", False)
    assert data(events, "progress")[-1]["progress"] == 1
    tools = offered(model.requests[0])
    assert tools[f"{name}__get-sum"]["parameters"]["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert f"{name}__simulate-research-query" in tools and f"{name}__trigger-sampling-request" not in tools


@pytest.mark.parametrize("name", rest("all", "allweb"))
def test_everything_asks_the_user(talk, name):
    wish = json.dumps({"name": "Ada", "check": True, "integer": 7})
    got, [asked], _ = ask(talk, name, [(f"{name}__trigger-elicitation-request", {})], wish)
    assert asked["kind"] == "question" and "- integer (integer), optional, else 42" in asked["prompt"]
    assert not got["c0"][1] and "Ada" in got["c0"][0], got
    got, _, _ = ask(talk, name, [(f"{name}__trigger-elicitation-request", {})], "decline")
    assert "decline" in got["c0"][0]


@pytest.mark.parametrize("name", rest("allweb", "all"))
def test_everything_has_a_task_that_asks(talk, name):
    query = {"topic": "python", "ambiguous": True}
    got, [asked], events = ask(talk, name, [(f"{name}__simulate-research-query", query)], "programming")
    assert asked["prompt"].startswith(f"The MCP server {name} asks: The research query")
    assert not got["c0"][1] and "python" in got["c0"][0], got
    assert any("Gathering" in told["note"] for told in data(events, "progress"))


@pytest.mark.parametrize("name", ["new", "newweb"])
def test_modern_server(talk, name):
    calls = [("echo", {"text": "hi"}), ("steps", {"n": 3}), ("list", {}), ("throw", {}), ("region", {"region": "Köln"})]
    got, _, events = ask(talk, name, [(f"{name}__{tool}", arguments) for tool, arguments in calls])
    assert got["c0"] == ("hi", False) and got["c1"] == ("3 steps", False)
    assert json.loads(got["c2"][0]) == [1, 2.5, 3] and got["c3"] == ("no such luck", True)
    assert got["c4"][1] is False and got["c4"][0].startswith("Köln")
    assert data(events, "progress")[0]["note"].startswith(f"{name}: step ")


@pytest.mark.parametrize("name", rest("newweb", "new"))
def test_modern_server_asks_the_user(talk, name):
    got, asked, _ = ask(talk, name, [(f"{name}__deploy", {"env": "prod"})], "0", "3")
    assert got == {"c0": ("3 to prod, state-prod", False)}
    assert asked[1]["prompt"].startswith('"count" is out of its range.')
    got, _, _ = ask(talk, name, [(f"{name}__deploy", {"env": "prod"})], "decline")
    assert got == {"c0": ("not prod: decline", False)}
    got, [asked], _ = ask(talk, name, [(f"{name}__open", {})], True)
    assert got == {"c0": ("accept", False)} and "https://example.com/in" in asked["prompt"]


@pytest.mark.parametrize("name", rest("new", "newweb"))
def test_modern_server_changes_its_tools(talk, name):
    assert ask(talk, name, [(f"{name}__change", {})])[0] == {"c0": ("changed", False)}
    wait_until(lambda: ask(talk, name, [(f"{name}__late", {})])[0] == {"c0": ("late", False)}, "the new tool")


@pytest.mark.parametrize("name", ["new", "newweb"])
def test_modern_server_hears_of_a_cancel(talk, gateway, name):
    task = talk.begin(name, turn((f"{name}__wait", {})))
    talk.client.event(task, "progress")
    talk.client.call("cancel", **ids(task))
    assert talk.client.wait_terminal(task)["data"]["error"]["code"] == "cancelled"
    if name == "new":  # only its stderr tells
        gateway.logged("event=stderr", "server=new", "aborted")
    assert ask(talk, name, [(f"{name}__echo", {"text": "alive"})])[0] == {"c0": ("alive", False)}


def test_examples_of_the_sdk(talk):
    got, _, events = ask(talk, "count", [("count__count", {"n": 3})])
    assert got == {"c0": ("Counted to 3", False)} and data(events, "progress")[0]["note"] == "count: Counting: 1/3"
    got, _, _ = ask(talk, "sample", [("sample__summarize", {"text": "x"})])
    assert got["c0"][1]  # it wants a model of ours, which it does not get
    wish = json.dumps({"username": "ada", "email": "a@example.com", "password": "12345678", "role": "developer"})
    got, [asked], _ = ask(talk, "forms", [("forms__register_user", {})], wish)
    assert '- role (one of "developer"' in asked["prompt"]
    assert not got["c0"][1] and "ada" in got["c0"][0], got
    got, [asked], _ = ask(talk, "tasks", [("tasks__confirm_delete", {"filename": "a.txt"})], "true")
    assert "a.txt" in asked["prompt"] and not got["c0"][1] and "Deleted" in got["c0"][0], (asked, got)


def test_nothing_of_them_outlives_the_gateway(model):
    with gateway_of(model, [{"name": "all", "command": [NODE, EVERYTHING, "stdio"]}],
                    [agent("a", "mcp:all/*", default=True)]) as running:
        running.logged("event=ready", "server=all")
        mark = running.mark
        assert running.stop() == 0
    assert not processes_with(mark)
