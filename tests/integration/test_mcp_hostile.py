"""MCP servers that hang, lie, flood, die and come back: a tool's error with a reason, and never the gateway's end."""

import json
import time

import pytest

from gateway import processes_with, run, wait_until
from holdfast import ids
from mcp_kit import agent, data, gateway_of, heard, of, offered, scripted, steps, turn

UNKNOWN = "; whether it took effect is unknown"
NAMES = ["calm", "slow", "long", "dies", "hangs", "floods", "noisy", "huge", "bad", "gone", "lists", "leaves"]


@pytest.fixture(scope="module")
def gateway(model, folder):
    options = {"slow": {"timeout_s": 5}, "long": {"timeout_s": 60, "longest_s": 2}, "hangs": {"timeout_s": 5}}
    servers = [scripted(name, folder, "legacy" if name in ("slow", "dies") else "modern", **options.get(name, {}))
               for name in NAMES]
    servers[NAMES.index("gone")]["command"] = ["/nonexistent/server"]
    (folder / "bad" / "start").write_text(json.dumps([{"stderr": "no database\n"}, {"exit": 7}]))
    (folder / "lists" / "tools").write_text(json.dumps(
        [{"name": "ok.1", "inputSchema": {"type": "object"}}, {"name": "ok.1", "inputSchema": {"type": "object"}},
         {"name": "no schema"}, {"name": "odd", "inputSchema": {"type": "string"}}, 7,
         {"name": "fat", "inputSchema": {"type": "object", "x": "y" * 33000}},
         {"name": "deep", "inputSchema": {"type": "object", "properties": {"x": {"$ref": "#/properties/x"}}}}]))
    agents = [agent(name, f"mcp:{name}/*", default=name == "calm") for name in NAMES]
    with gateway_of(model, servers, agents) as running:
        yield running


def metric(gateway, name, labels):
    text = gateway.http("GET", "/metrics")[2].decode()
    return int(text.split(f"{name}{{{labels}}} ")[1].split("\n")[0])


def until_back(talk, name):
    """Waits until the server serves again; its pause is a second or two."""
    def answers():
        task = talk.begin(name)
        talk.client.wait_terminal(task)
        return f"{name}__do" in offered(talk.model.requests[0])

    wait_until(answers, f"{name} is back")
    assert talk.finish(name, steps(name, {"say": "back"}))[0] == {"c0": ("back", False)}


def test_what_does_not_start_is_told_and_the_task_goes_on(talk):
    for name, why in (("gone", "cannot start \"/nonexistent/server\""), ("bad", "exit status 7: no database")):
        _, events = talk.finish(name)
        [missing] = data(events, "custom")[0]["payload"]["tools"]
        assert (missing["server"], missing["tool"]) == (name, "*") and why in missing["why"], missing


def test_list_with_lies_gives_the_tools_that_are_some(talk, model, gateway):
    talk.client.wait_terminal(talk.begin("lists"))
    assert set(offered(model.requests[0])) == {"lists__ok_1", "lists__deep"}
    for tool, why in (("ok.1", "another one has the same name"), ("no schema", "no schema of an object"),
                      ("odd", "no schema of an object"), ("fat", "exceeds 32 KiB")):
        gateway.logged("event=tool_left_out", "server=lists", tool, why)


def test_answers_that_are_none(talk):
    two = {"id": "ID", "result": {"content": [{"type": "text", "text": "first"}]}}
    got, _ = talk.finish(
        "calm",
        steps("calm", {"result": {"resultType": "riddle"}}),
        steps("calm", {"result": {}}),
        steps("calm", {"send": {"id": 999999, "result": {"content": []}}}, {"send": {"id": None, "result": {}}},
              {"send": {"id": "x", "error": {"code": 1}}}, {"send": two},
              {"send": {"id": "ID", "result": {"content": [{"type": "text", "text": "second"}]}}}),
        steps("calm", {"error": {"data": {}}}),
        steps("calm", {"result": {"resultType": "task"}}),
        steps("calm", {"result": {"content": "x", "isError": "no"}}))
    server = "the MCP server calm "
    assert got == {"c0": (server + "has answered with a kind of result that is not known", True),
                   "c1": (server + "has answered without any content", True), "c2": ("first", False),
                   "c3": ("error 0", True), "c4": ("the server has begun a task without an id", True),
                   "c5": ("", False)}


def test_noise_between_messages_does_no_harm(talk):
    noise = [{"raw": text} for text in ("Listening on stdio…", "", "   ", "{", "[]", "7", '{"jsonrpc":"2.0"}', "[{}]",
                                        '{"method":7}', '{"id":1,"id":1}', '{"jsonrpc":"2.0","method":"x","params":[]}')]
    got, _ = talk.finish("calm", steps("calm", *noise, {"say": "fine"}))
    assert got == {"c0": ("fine", False)}


def test_progress_of_others_and_of_nobody_is_dropped(talk):
    stray = {"send": {"method": "notifications/progress", "params": {"progressToken": 12345, "progress": 1}}}
    odd = [{"send": {"method": "notifications/progress", "params": params}}
           for params in ({}, {"progressToken": "ID"}, {"progressToken": "ID", "progress": "x"}, {"progressToken": None})]
    got, events = talk.finish("calm", steps("calm", stray, *odd, {"progress": [2, 0, "x"]}, {"progress": [-1, 4]},
                                            {"say": "fine"}))
    assert got == {"c0": ("fine", False)}
    assert [told["progress"] for told in data(events, "progress")] == [0] * len(data(events, "progress"))


def test_call_that_is_not_answered_ends_and_others_go_on(talk, gateway, folder):
    failed = metric(gateway, "holdfast_mcp_failures_total", 'server="slow",kind="timeout"')
    got, _ = talk.finish("slow", steps("slow", {"wait": gateway.path()}), steps("slow", {"say": "quick"}))
    assert got == {"c0": ("the MCP server slow has not answered for 5 s" + UNKNOWN, True), "c1": ("quick", False)}
    assert wait_until(lambda: of(heard(folder, "slow"), "notifications/cancelled"), "a cancel")
    assert wait_until(lambda: of(heard(folder, "slow"), "ping"), "a question whether it lives")
    assert metric(gateway, "holdfast_mcp_failures_total", 'server="slow",kind="timeout"') == failed + 1
    assert metric(gateway, "holdfast_mcp_restarts_total", 'server="slow"') == 0


def test_progress_for_ever_does_not_move_the_longest_time(talk):
    trickle = [step for i in range(600) for step in ({"progress": [i]}, {"sleep": 0.1})]
    got, _ = talk.finish("long", steps("long", *trickle))
    assert got == {"c0": ("the MCP server long has not finished within 2 s" + UNKNOWN, True)}


def test_server_that_hangs_is_started_again(talk, gateway):
    got, _ = talk.finish("hangs", steps("hangs", {"stop": True}))
    assert got == {"c0": ("the MCP server hangs has not answered for 5 s" + UNKNOWN, True)}
    gateway.logged("event=down", "server=hangs", "it hangs")
    until_back(talk, "hangs")
    assert metric(gateway, "holdfast_mcp_restarts_total", 'server="hangs"') == 1


def test_server_that_dies_is_a_reason_and_comes_back(talk, gateway, folder):
    begun = gateway.path()
    got, _ = talk.finish("dies", steps("dies", {"touch": begun}, {"wait": gateway.path()}),
                         steps("dies", {"wait": begun}, {"stderr": "segfault\n"}, {"exit": 3}))
    why = "the MCP server dies ended during the call: exit status 3: segfault" + UNKNOWN
    assert got == {"c0": (why, True), "c1": (why, True)}
    until_back(talk, "dies")
    assert len(of(heard(folder, "dies"), "initialize")) == 2


def test_call_of_a_server_that_does_not_run_fails_with_its_reason(talk, folder):
    client, since = talk.client, len(talk.client.log)
    for_good = {"write": [str(folder / "leaves" / "start"), json.dumps([{"exit": 4}])]}
    task = talk.begin("leaves", turn(steps("leaves", for_good, {"exit": 4})), turn(steps("leaves", {"say": "x"})))
    events = list(client.events(task, since))
    outputs = [told["output"] for told in data(events, "tool_result")]
    assert outputs == ["the MCP server leaves ended during the call: exit status 4" + UNKNOWN,
                       "the MCP server leaves does not run: exit status 4"]


def test_flood_is_slowed_and_the_others_do_not_notice(talk, folder):
    lists = len(of(heard(folder, "floods"), "tools/list"))
    began = time.monotonic()
    got, _ = talk.finish("floods", steps("floods", {"flood": 3000}, {"say": "through"}))
    assert got == {"c0": ("through", False)}
    # A thousand at once, then 200 a second: without the bound, the answer would be there at once.
    assert time.monotonic() - began > 3
    assert talk.finish("calm", steps("calm", {"say": "x"}))[0] == {"c0": ("x", False)}
    assert len(of(heard(folder, "floods"), "tools/list")) <= lists + 3


def test_server_that_writes_no_messages_is_ended(talk):
    got, _ = talk.finish("noisy", steps("noisy", *[{"raw": "noise"}] * 100, {"say": "x"}))
    assert got["c0"][1] and "it writes lines that are no messages" in got["c0"][0]
    until_back(talk, "noisy")


def test_message_of_17_mib_ends_the_server_and_one_of_3_does_not(talk):
    got, _ = talk.finish("huge", steps("huge", {"big": 3 << 20}))
    assert got["c0"][1] is False and "bytes are left out" in got["c0"][0]
    got, _ = talk.finish("huge", steps("huge", {"big": 17 << 20}))
    assert got["c0"][1] and "a line of it exceeds 16 MiB" in got["c0"][0]
    until_back(talk, "huge")


def test_cancel_while_the_server_hangs(talk, gateway):
    task = talk.begin("calm", turn(steps("calm", {"progress": [1]}, {"wait": gateway.path()})))
    talk.client.event(task, "progress")
    talk.client.call("cancel", **ids(task))
    assert talk.client.wait_terminal(task)["data"]["error"]["code"] == "cancelled"


def test_check_config_and_doctor_tell_what_cannot_start(tmp_path):
    config = {"data": str(tmp_path / "data"), "mcp": [
        {"name": "a", "command": ["/nonexistent/server"]}, {"name": "b", "command": ["true"]},
        {"name": "c", "url": "http://127.0.0.1:1/mcp", "headers_file": str(tmp_path / "none")},
        {"name": "d", "url": "http://mcp.example.com/", "headers": {"Authorization": "Bearer s3cr3t-value"}}]}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    said = run("check-config", str(path))
    assert said.returncode == 0
    assert 'mcp[0] a: cannot start "/nonexistent/server"' in said.stderr
    assert "mcp[2] c: headers_file cannot be read" in said.stderr and "mcp[1]" not in said.stderr
    assert "mcp[3].url: the server's headers go over the network without TLS" in said.stderr
    assert "s3cr3t" not in said.stderr + run("print-config", str(path)).stdout
    doctor = run("doctor", "--config", str(path)).stdout
    assert 'warning: mcp[0] a: cannot start' in doctor and "mcp[1] b: true" in doctor


def test_nothing_of_a_server_outlives_the_gateway(model, folder):
    command = " ".join(scripted("tree", folder)["command"])
    servers = [{"name": "tree", "command": ["/bin/sh", "-c", f"setsid sleep 1000 & exec {command}"]}]
    for how in ("stop", "kill"):
        with gateway_of(model, servers, [agent("a", "mcp:tree/*", default=True)]) as running:
            found = wait_until(lambda r=running: len(processes_with(r.mark)) > 3 and processes_with(r.mark), "processes")
            running.logged("event=ready", "server=tree")
            mark = running.mark
            if how == "kill":
                running.kill()
            else:
                assert running.stop() == 0
        assert found
        wait_until(lambda m=mark: not processes_with(m), "the end of all of its processes")
