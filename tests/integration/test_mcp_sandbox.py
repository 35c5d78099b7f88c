"""MCP servers in bubblewrap: what they see, and what they do not."""

import json

import pytest

from gateway import SUPPORT, processes_with, wait_until
from mcp_kit import agent, gateway_of, heard, scripted, steps


@pytest.fixture(scope="module")
def gateway(model, folder):
    secret = folder / "secret"
    secret.write_text("s")
    inside = scripted("inside", folder, sandbox="bubblewrap", paths=[f"{SUPPORT}:ro", str(folder / "inside")])
    broken = scripted("broken", folder, sandbox="bubblewrap", paths=[str(folder / "missing")])
    with gateway_of(model, [inside, broken], [agent("a", "mcp:inside/*", default=True),
                                              agent("b", "mcp:broken/*")]) as running:
        yield running


def test_server_runs_and_writes_to_its_paths_alone(talk, folder):
    assert talk.finish("a", steps("inside", {"say": "hi"}))[0] == {"c0": ("hi", False)}
    assert heard(folder, "inside")  # it writes there
    got, _ = talk.finish("a", steps("inside", {"look": [str(folder / "secret"), str(folder / "inside" / "heard"),
                                                        str(SUPPORT / "mcp_kit.py"), "/usr/bin/env", "/root", "/tmp"]}))
    seen = json.loads(got["c0"][0])
    assert seen == {"exists": [False, True, True, True, False, True],
                    "writes": [False, True, False, False, False, True], "networks": ["lo"]}


def test_path_that_is_missing_is_the_servers_own_failure(talk, gateway):
    gateway.logged("event=down", "server=broken", "missing")
    assert talk.finish("a", steps("inside", {"say": "alive"}))[0] == {"c0": ("alive", False)}


def test_sandboxed_server_ends_with_the_gateway(model, folder):
    server = scripted("ends", folder, sandbox="bubblewrap", paths=[f"{SUPPORT}:ro", str(folder / "ends")])
    with gateway_of(model, [server], [agent("a", "mcp:ends/*", default=True)]) as running:
        running.logged("event=ready", "server=ends")
        mark = running.mark
        running.kill()
    wait_until(lambda: not processes_with(mark), "the end of all of its processes")
