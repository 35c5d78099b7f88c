"""Background processes: what they are, what is told of their ends, and that a restart loses none of it."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import time
import uuid

import pytest

import commands
from commands import background, message, notices, process, run, start, terminal, told, turns_of
from database import rows_in
from gateway import LATE_S, SCRIPT, Gateway, is_alive, merged, wait_until
from holdfast import Client, ids, new_id

TAIL = 2000  # characters of output in a notice


model = commands.served


@pytest.fixture(scope="module")
def gateway(model):
    script = {"name": "script", "kind": "exec", "command": SCRIPT, "grace_s": 1, "tools": ["terminal", "process"]}
    config = commands.config(model)
    with Gateway(merged(config, {"agents": config["agents"] + [script]})) as running:
        yield running


@pytest.fixture
def own(model):
    """A gateway that the test may kill."""
    with Gateway(commands.config(model)) as running:
        yield running


def touch(path):
    pathlib.Path(path).touch()


def until(path):
    """A command that ends when that file is there."""
    return f"while [ ! -e {path} ]; do sleep 0.02; done"


def folder(gateway, session):
    return gateway.data / "processes" / session


def record(gateway, session, file):
    return json.loads((folder(gateway, session) / file).read_text(encoding="utf-8"))


def edit(gateway, session, file, change):
    """Changes a record as a damaged, or an older, gateway would have written it."""
    value = record(gateway, session, file)
    change(value)
    (folder(gateway, session) / file).write_text(json.dumps(value), encoding="utf-8")


def status(client, conversation, session):
    return run(client, process("poll", session), conversation=conversation)[0]


def ended(client, conversation, session):
    def look():
        found = status(client, conversation, session)
        return found["status"] != "running" and found

    return wait_until(look, "the end of the process")


# ------------------------------------------------------------------ the rows N1 to N20


def test_n01_n10_flag_is_false_when_nobody_asks_for_it(client, gateway):
    conversation, started = start(client, "true")
    assert "notify_on_complete" not in started and "notify_on_complete" in started["hint"]
    assert status(client, conversation, started["session_id"])["notify_on_complete"] is False
    assert record(gateway, started["session_id"], "spec")["notify_on_complete"] is False  # there, and false


def test_n02_n09_n14_flag_is_passed_kept_and_written(client, gateway):
    conversation, started = start(client, "true", notify_on_complete=True)
    assert started["notify_on_complete"] is True
    assert status(client, conversation, started["session_id"])["notify_on_complete"] is True
    assert record(gateway, started["session_id"], "spec")["notify_on_complete"] is True


def test_n03_nothing_is_there_and_nothing_is_told_at_first(client):
    conversation = new_id()
    assert run(client, ("process", {"action": "list"}), conversation=conversation) == [{"processes": []}]
    assert notices(client, conversation) == [] == turns_of(client, conversation)


def test_n04_without_the_flag_an_end_is_told_to_nobody(client):
    conversation, started = start(client, "echo done")
    assert ended(client, conversation, started["session_id"])["exit_code"] == 0
    # One that is told, behind it: the order shows that the first was not only late.
    run(client, background("echo second", notify_on_complete=True), conversation=conversation)
    (text,) = told(client, conversation)
    assert "second" in text and started["session_id"] not in text


def test_n05_n16_n18_end_with_the_flag_starts_a_whole_turn(client, model):
    gate = client.gateway.path()
    conversation, started = start(client, f"{until(gate)}; echo build succeeded", notify_on_complete=True)
    since = len(model.requests)
    touch(gate)  # from here on nobody asks for anything
    (text,) = told(client, conversation)
    assert started["session_id"] in text and "status 0" in text and "build succeeded" in text
    assert f"{until(gate)}; echo" in text
    (turn,) = turns_of(client, conversation)
    assert turn["agent"] == "operator" and turn["status"] == "completed"
    assert text in model.requests[since].json["messages"][-1]["content"]  # the model was asked, as for any turn
    names = [e["event"] for e in client.replay(turn)]
    assert names[:2] == ["task.created", "task.started"] and names[-1] == "task.completed"
    history = client.call("history", conversation_id=conversation)["messages"]
    assert (history[-1]["role"], history[-1]["content"]) == ("assistant", "that is all")


def test_n06_failure_is_told_too(client):
    conversation, started = start(client, "echo FAILED; exit 1", notify_on_complete=True)
    (text,) = told(client, conversation)
    assert started["session_id"] in text and "status 1" in text and text.endswith("FAILED\n")


def test_n07_last_2000_characters_are_told_and_no_byte_less(client):
    count = 5000
    conversation, _ = start(client, f"python3 -c \"print('x' * 100 + '\\u00e9' * {count}, end='')\"",
                            notify_on_complete=True)
    (text,) = told(client, conversation)
    assert text.endswith("The end of its output:\n" + "\u00e9" * TAIL)
    assert text.count("\u00e9") == TAIL


def test_n08_three_that_end_together_are_told_each_once(client):
    gate, conversation = client.gateway.path(), new_id()
    started = run(client, [background(f"{until(gate)}; echo number {i}", notify_on_complete=True) for i in range(3)],
                  conversation=conversation)
    touch(gate)
    texts = told(client, conversation, 3)
    assert len(texts) == 3
    for i, one in enumerate(started):
        assert sum(one["session_id"] in text and f"number {i}\n" in text for text in texts) == 1


def restart(gateway, client):
    """kill -9, start, and the same owner again."""
    gateway.kill()
    gateway.start()
    return Client(gateway, token=client.token)


def test_n11_restart_finds_a_living_process_with_its_flag(own):
    with Client(own) as client:
        gate = own.path()
        conversation, started = start(client, f"echo before; {until(gate)}; echo after", notify_on_complete=True)
    with restart(own, client) as again:
        found = status(again, conversation, started["session_id"])
        assert (found["status"], found["pid"], found["notify_on_complete"]) == ("running", started["pid"], True)
        assert found["detached"] and found["note"] and found["output_preview"] == "before\n"
        touch(gate)
        (text,) = told(again, conversation)
        assert text.endswith("before\nafter\n") and "status 0" in text


def test_n12_record_of_an_older_gateway_has_no_flag_and_is_found(own):
    with Client(own) as client:
        conversation, started = start(client, f"{until(own.path('never'))}", notify_on_complete=True)
    own.kill()
    session = started["session_id"]
    edit(own, session, "spec", lambda spec: spec.pop("notify_on_complete"))
    edit(own, session, "status", lambda s: (s.pop("keeper_ticks"), s.pop("pid_ticks")))  # by its command line, then
    own.start()
    with Client(own, token=client.token) as again:
        found = status(again, conversation, session)
        assert (found["status"], found["notify_on_complete"]) == ("running", False)
        assert run(again, process("kill", session), conversation=conversation)[0]["status"] == "killed"
        assert turns_of(again, conversation) == []


def schema(model, name):
    tools = model.requests[-1].json["tools"]
    return next(tool["function"] for tool in tools if tool["function"]["name"] == name)


def test_n13_schema_has_the_flag(client, model):
    run(client)
    flag = schema(model, "terminal")["parameters"]["properties"]["notify_on_complete"]
    assert (flag["type"], flag["default"]) == ("boolean", False)


def test_n20_text_of_the_tool_tells_two_ways_to_use_the_background(client, model):
    run(client)
    text = schema(model, "terminal")["description"]
    assert "never ends" in text and "long job that ends" in text and "notify_on_complete" in text


@pytest.mark.parametrize("argument", [{"notify_on_complete": True}, {"background": True}, {"pty": True},
                                      {"watch_patterns": ["x"]}])
def test_n15_program_may_not_use_the_background(client, argument):
    task, events = client.finish(
        {"call": "tool", "name": "terminal", "arguments": {"command": "echo hi", **argument}, "say": True},
        {"call": "tool", "name": "terminal", "arguments": {"command": "echo hi"}, "say": True}, agent="script")
    results = [e["data"] for e in events if e["event"] == "tool_result"]
    assert results[0]["is_error"] and next(iter(argument)) in results[0]["output"]
    assert json.loads(results[1]["output"]) == {"output": "hi\n", "exit_code": 0, "error": None}
    assert task["status"] == "completed" and [e["event"] for e in events].count("tool_call") == 2


def test_n17_notice_waits_for_the_turn_under_way_and_comes_at_once_when_idle(client):
    def notice_times():
        messages = client.call("history", conversation_id=conversation, limit=200)["messages"]
        return [m["created_at"] for m in messages if m["role"] == "system"]

    conversation, gate = new_id(), client.gateway.path()
    # A turn that goes on when its process has exited, until it is let go.
    task = client.chat(message(background("echo now", notify_on_complete=True), terminal(until(gate))),
                       conversation=conversation)
    session = json.loads(client.event(task, "tool_result")["data"]["output"])["session_id"]
    wait_until(lambda: record(client.gateway, session, "status")["state"] == "exited", "its end")
    # The gateway knows of it: another process that ended later has been told, elsewhere.
    elsewhere = new_id()
    run(client, background("echo later", notify_on_complete=True), conversation=elsewhere)
    told(client, elsewhere)
    assert turns_of(client, conversation) == [] and client.task(task)["status"] == "running"
    touch(gate)
    client.wait_terminal(task)
    assert len(told(client, conversation)) == 1
    (turn,) = turns_of(client, conversation)
    (noticed,) = notice_times()
    assert client.task(task)["completed_at"] <= turn["created_at"] <= noticed
    # And with nobody talking: at once, when the process has ended.
    idle = client.gateway.path()
    run(client, background(until(idle), notify_on_complete=True), conversation=conversation)
    before = time.time() * 1000
    touch(idle)
    assert len(told(client, conversation, 2)) == 2
    assert before <= notice_times()[1] < before + LATE_S * 1000


def test_n19_end_that_nobody_saw_is_told_after_a_restart_once(own):
    gate = own.path()
    with Client(own) as client:
        conversation, started = start(client, f"{until(gate)}; echo built", notify_on_complete=True)
    own.kill()
    touch(gate)
    wait_until(lambda: record(own, started["session_id"], "status")["state"] == "exited", "its end")
    own.start()
    with Client(own, token=client.token) as again:
        (text,) = told(again, conversation)
        assert "built" in text and started["session_id"] in text
    for _ in range(2):  # and no later start tells it again
        with restart(own, client) as again:
            found = status(again, conversation, started["session_id"])
            assert (found["status"], found["exit_code"]) == ("exited", 0)
            assert len(turns_of(again, conversation)) == len(notices(again, conversation)) == 1


# ------------------------------------------------------------------ exactly once, whatever was looked at


def test_looking_at_an_ended_process_takes_nothing_of_its_notice(client, clients):  # F21
    gate, conversation = client.gateway.path(), new_id()
    # A turn that holds the notice back until all has been looked at.
    holder = client.chat(message(terminal(until(gate))), conversation=conversation)
    other = clients(token=client.token)
    (started,) = run(other, background("echo out", notify_on_complete=True), conversation=conversation)
    session = started["session_id"]
    first = ended(other, conversation, session)
    assert status(other, conversation, session) == first == status(other, conversation, session)
    (log,) = run(other, process("log", session), conversation=conversation)
    assert (log["output"], log["exit_code"]) == ("out\n", 0) and turns_of(other, conversation) == []
    touch(gate)
    client.wait_terminal(holder)
    (text,) = told(client, conversation)
    assert session in text and text.endswith("out\n") and "status 0" in text
    assert len(turns_of(client, conversation)) == 1


def test_end_that_a_wait_has_given_is_not_told_again(client):
    conversation = new_id()
    seen = run(client, background("echo out", notify_on_complete=True), process("wait"), conversation=conversation)
    assert (seen[1]["status"], seen[1]["output"]) == ("exited", "out\n")
    again = run(client, background("exit 3", notify_on_complete=True), conversation=conversation)
    (text,) = told(client, conversation)
    assert again[0]["session_id"] in text and seen[0]["session_id"] not in text


def n_waiting(gateway):
    """Notices in its store that no turn has taken."""
    return rows_in(gateway, "notices")


def test_end_that_a_wait_has_given_is_not_told_by_a_notice_that_waits_since_before_a_restart(own):
    gate, later = own.path(), own.path("later")
    with Client(own) as client:
        conversation, started = start(client, f"{until(gate)}; echo out", notify_on_complete=True)
        session = started["session_id"]
        client.chat(message(terminal(until(later))), conversation=conversation)
        waits = client.chat(message(process("wait", session)), conversation=conversation, when_busy="enqueue")
        touch(gate)
        wait_until(lambda: n_waiting(own) == 1, "the notice")
    with restart(own, client) as again:
        again.resume(waits)
        touch(later)  # what goes on ends; what waited for its turn has it now, and the notice waits on
        (seen,) = commands.outputs(list(again.events(waits)))
        assert (seen["status"], seen["output"]) == ("exited", "out\n")
        wait_until(lambda: n_waiting(own) == 0, "its end")
        other = run(again, background("exit 3", notify_on_complete=True), conversation=conversation)
        (text,) = told(again, conversation)
        assert other[0]["session_id"] in text and session not in text


def test_killed_one_starts_no_turn_and_is_told_in_the_next(client):
    conversation = new_id()
    seen = run(client, background("echo out; exec sleep 1000", notify_on_complete=True), process("kill"),
               process("kill"), conversation=conversation)
    assert (seen[1]["status"], seen[1]["exit_code"]) == ("killed", -15)
    assert seen[2]["status"] == "already_exited"
    run(client, background("echo other", notify_on_complete=True), conversation=conversation)
    texts = told(client, conversation)
    assert sum("killed" in text and seen[0]["session_id"] in text for text in texts) == 1
    assert len(turns_of(client, conversation)) == 1


def test_ends_reach_the_conversation_that_began_them(clients, gateway):  # F24
    """Two owners, two conversations each, one of them of the same name; ends in another order."""
    owners = [clients(), clients()]
    rounds, jobs = 4, []
    for number in range(rounds):
        gates = []
        for i, owner in enumerate(owners):
            for conversation in ("c", f"own-{i}"):
                gate, secret = gateway.path(), f"secret-{number}-{i}-{conversation}"
                run(owner, background(f"{until(gate)}; echo {secret}.", notify_on_complete=True),
                    conversation=conversation)
                gates.append(gate)
                jobs.append((i, conversation, secret))
        owners[0].drop()
        for gate in reversed(gates) if number % 2 else gates:
            touch(gate)
        owners[0] = clients(token=owners[0].token)
    for i, owner in enumerate(owners):
        for conversation in ("c", f"own-{i}"):
            text = "\n".join(told(owner, conversation, rounds))
            for whose, where, secret in jobs:
                mine = whose == i and where == conversation
                assert text.count(f"\n{secret}.") == (1 if mine else 0)


def test_nobody_else_finds_a_process(client, clients):
    conversation, started = start(client, "exec sleep 1000")
    stranger, session = clients(), started["session_id"]
    for who, where in ((stranger, conversation), (client, new_id())):
        for action in ("poll", "log", "wait", "kill", "close"):
            (found,) = run(who, process(action, session), conversation=where)
            assert found["status"] == "not_found" and found["error"]
        assert run(who, ("process", {"action": "list"}), conversation=where) == [{"processes": []}]
    assert status(client, conversation, session)["status"] == "running"
    run(client, process("kill", session), conversation=conversation)


# ------------------------------------------------------------------ restarts, and pids of others


def test_restart_finds_it_and_kill_reaches_it(own):  # F25
    with Client(own) as client:
        conversation, started = start(client, "exec sleep 600", notify_on_complete=True)
    with restart(own, client) as again:
        assert is_alive(started["pid"])
        found = run(again, process("kill", started["session_id"]), conversation=conversation)[0]
        assert (found["status"], found["exit_code"]) == ("killed", -15)
        wait_until(lambda: not is_alive(started["pid"]), "its end")


@pytest.mark.parametrize("files, stays", [((), False), (("spec.new",), False), (("spec",), True)])
def test_folder_that_a_death_left_half_made_is_removed(own, files, stays):
    """One whose spec cannot be read is left for somebody to look at."""
    own.kill()
    half = own.data / "processes" / "proc_0123456789ab"
    half.mkdir(parents=True)
    for name in files:
        (half / name).write_text("{", encoding="utf-8")
    own.start()
    assert half.exists() == stays
    shutil.rmtree(half, ignore_errors=True)


def test_command_that_was_under_way_at_a_reboot_is_not_begun_again(own):
    """Its folder may be gone with what was not on disk yet: that proves no more that it never began."""
    ran, place = pathlib.Path(own.path()), own.data / "place"
    with Client(own) as client:
        task = client.chat(message(terminal(f"echo x >> {ran}; exec sleep 600")))
        wait_until(ran.exists, "the command")
    own.kill()
    own.end_commands()
    shutil.rmtree(own.data / "processes")
    boot, name = place.read_text(encoding="utf-8").split()
    place.write_text(f"{uuid.uuid4()} {name}\n", encoding="utf-8")  # that of another boot
    own.start()
    with Client(own, token=client.token) as again:
        again.resume(task, 0)
        events = list(again.events(task))
        result, = (e["data"] for e in events if e["event"] == "tool_result")
    assert events[-1]["event"] == "task.completed"
    assert result["is_error"] and "whether it took effect is unknown" in result["output"]
    assert ran.read_text(encoding="utf-8") == "x\n"
    assert place.read_text(encoding="utf-8").split()[0] == boot and name not in place.read_text(encoding="utf-8")


@pytest.mark.parametrize("forge", ["ticks", "command line"])
def test_stranger_with_the_pid_of_a_record_is_never_signalled(own, forge):  # F25
    logged = own.path()
    trap = f"trap 'echo hit >> {logged}' TERM HUP INT USR1 USR2 CONT; echo ready; while :; do sleep 0.05; done"
    with Client(own) as client:
        conversation, started = start(client, "exec sleep 600", notify_on_complete=True)
    own.kill()
    with subprocess.Popen(["/bin/sh", "-c", trap], stdout=subprocess.PIPE) as stranger:
        try:
            stranger.stdout.readline()

            def change(value):
                value.update(keeper=stranger.pid, pid=stranger.pid)
                if forge == "command line":
                    del value["keeper_ticks"]

            edit(own, started["session_id"], "status", change)
            own.start()
            with Client(own, token=client.token) as again:
                found = status(again, conversation, started["session_id"])
                assert (found["status"], found["exit_code"]) == ("lost", None)
                killed = run(again, process("kill", started["session_id"]), conversation=conversation)[0]
                assert killed["status"] == "already_exited"
                (text,) = told(again, conversation)
                assert "lost" in text and started["session_id"] in text
            # Its process is not left alone: the keeper was told through its own FIFO.
            wait_until(lambda: not is_alive(started["pid"]), "the end of what was started")
            assert stranger.poll() is None and not pathlib.Path(logged).exists()
        finally:
            stranger.kill()


def test_gateway_that_stops_leaves_what_runs_running(own):
    with Client(own) as client:
        conversation, started = start(client, "exec sleep 600")
    assert own.stop() == 0 and is_alive(started["pid"])
    own.start()
    with Client(own, token=client.token) as again:
        found = run(again, process("poll", started["session_id"]), process("kill", started["session_id"]),
                    conversation=conversation)
        assert [one["status"] for one in found] == ["running", "killed"]


def test_keeper_that_is_killed_takes_its_command_along_and_leaves_it_lost(client, gateway):
    conversation, started = start(client, "exec sleep 600", notify_on_complete=True)
    os.kill(record(gateway, started["session_id"], "status")["keeper"], signal.SIGKILL)
    (text,) = told(client, conversation)
    assert "lost" in text
    wait_until(lambda: not is_alive(started["pid"]), "the end of the command")
    assert status(client, conversation, started["session_id"])["exit_code"] is None


def test_command_that_is_waited_for_ends_with_its_call(client, own):
    pid_file, gate = own.path(), own.path()

    def begun():
        text = pathlib.Path(pid_file)
        return text.exists() and text.read_text(encoding="utf-8").strip()

    with Client(own) as mine:
        task = mine.chat(message(terminal(f"echo $$ > {pid_file}; {until(gate)}")))
        pid = int(wait_until(begun, "the command"))
        mine.call("cancel", **ids(task))
        assert mine.wait_terminal(task)["data"]["status"] == "cancelled"
        wait_until(lambda: not is_alive(pid), "the end of a command whose task is cancelled")
        pathlib.Path(pid_file).unlink()
        task = mine.chat(message(terminal(f"echo $$ > {pid_file}; {until(gate)}")))
        pid = int(wait_until(begun, "the second command"))
    with restart(own, mine) as again:  # which its task goes on to wait for
        again.resume(task)
        again.event(task, "task.resumed")
        assert is_alive(pid)
        again.call("cancel", **ids(task))
        assert again.wait_terminal(task)["data"]["status"] == "cancelled"
        wait_until(lambda: not is_alive(pid), "the end of a command that an earlier gateway started")
        wait_until(lambda: not list((own.data / "processes").iterdir()), "its folder to go")


def test_what_ran_in_a_deleted_conversation_is_ended(client, gateway):
    conversation, started = start(client, "exec sleep 600", notify_on_complete=True)
    client.call("delete", conversation_id=conversation)
    wait_until(lambda: not is_alive(started["pid"]), "its end")
    wait_until(lambda: not folder(gateway, started["session_id"]).exists(), "its folder to go")
    assert turns_of(client, conversation) == []


def test_notice_whose_conversation_went_with_the_gateway_down_goes_nowhere(own):  # F24
    """The record says a task that is not there: parked and logged, and told to nobody."""
    gate = own.path()
    with Client(own) as client:
        conversation, started = start(client, until(gate), notify_on_complete=True)
    own.kill()
    edit(own, started["session_id"], "spec", lambda spec: spec.update(conversation_id="another"))
    touch(gate)
    own.start()
    with Client(own, token=client.token) as again:
        wait_until(lambda: any("notice_parked" in line for line in own.log), "a line in the log")
        assert turns_of(again, conversation) == [] == turns_of(again, "another")


def test_line_that_was_printed_while_the_gateway_was_down_is_told_once(own):
    gate, printed = own.path(), own.path()
    with Client(own) as client:
        conversation, started = start(client, f"{until(gate)}; echo ERROR here; touch {printed}; exec sleep 1000",
                                      watch_patterns=["ERROR"])
    own.kill()
    touch(gate)
    wait_until(lambda: pathlib.Path(printed).exists(), "the line")
    own.start()
    with Client(own, token=client.token) as again:
        (text,) = told(again, conversation)
        assert text.endswith("\nERROR here") and started["session_id"] in text
    with restart(own, client) as again:
        run(again, process("kill", started["session_id"]), conversation=conversation)
        assert len(turns_of(again, conversation)) == 1
        assert sum("ERROR here" in text for text in notices(again, conversation)) == 1


@pytest.mark.parametrize("restarted", [False, True], ids=["own", "of_an_earlier_gateway"])
def test_command_that_stops_its_keeper_and_ends_is_told_to_have_ended(own, restarted):
    gate = own.path()
    with Client(own) as client:
        conversation, started = start(client, f"{until(gate)}; kill -STOP $PPID; exit 3")
    if restarted:
        own.kill()
        own.start()
    touch(gate)
    with Client(own, token=client.token) as again:
        end = ended(again, conversation, started["session_id"])
        assert (end["status"], end["exit_code"]) == ("exited", 3)
