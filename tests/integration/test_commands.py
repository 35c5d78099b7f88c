"""Commands as they come: much output and none, bytes of any kind, those that do not end, limits."""

import json
import os
import pathlib

import pytest

import commands
from commands import background, message, outputs, process, run, terminal, turns_of
from gateway import WAIT_S, Gateway, is_alive, wait_until
from holdfast import Client, new_id
from short import long

RING = 200_000  # characters of output that are kept
MIB = 1 << 20
BAD = "\ufffd"


model = commands.served


@pytest.fixture(scope="module")
def gateway(model):
    with Gateway(commands.config(model)) as running:
        yield running


def python(code):
    """A command that runs this code; what it writes goes out as it is."""
    return f"python3 -c 'import os, sys, time\n{code}'"


def alone(client, command, **arguments):
    (result,) = run(client, terminal(command, **arguments))
    return result


# ------------------------------------------------------------------ output


def test_output_and_exit_code_of_a_command(client):
    assert alone(client, "echo out; echo err >&2; exit 3") == {"output": "out\nerr\n", "exit_code": 3, "error": None}
    assert alone(client, "true") == {"output": "", "exit_code": 0, "error": None}
    killed = alone(client, "kill -9 $$")
    assert killed["exit_code"] == -9 and "SIGKILL" in killed["error"]
    missing = alone(client, "there-is-no-such-program")
    assert missing["exit_code"] == 127 and "not found" in missing["output"]


PROGRESS = ("echo begun; i=0; while [ $i -lt 400 ]; do i=$((i+1)); printf '\\rprogress %d of 400, which is quite a lot' $i; "
            "done; printf '\\r\\033[Kdone\\n'; echo 'error: it did not work' >&2; exit 3")


@pytest.mark.parametrize("pty", [False, True])
def test_g13_progress_that_is_written_over_is_one_line(client, pty):
    lines = "begun\ndone\nerror: it did not work\n"
    assert alone(client, PROGRESS, pty=pty)["output"] == lines
    _, waited, log, short = run(client, background(PROGRESS, pty=pty), process("wait"), process("log"),
                                process("log", limit=2), conversation=new_id())
    assert waited["output"] == lines and waited["exit_code"] == 3
    assert (log["output"], log["total_lines"], log["showing"]) == (lines, 3, "lines 1 to 3")
    assert short["output"] == "done\nerror: it did not work\n"


def test_g13_notice_tells_what_came_before_the_progress(client):
    conversation, _ = commands.start(client, PROGRESS, notify_on_complete=True)
    (text,) = commands.told(client, conversation)
    assert text.endswith("\nIts output:\nbegun\ndone\nerror: it did not work\n")


@long
def test_a_gigabyte_of_output_is_a_ring_of_its_end(client, gateway):
    before = gateway.rss()
    conversation = new_id()
    seen = run(client, background("head -c 1000000000 /dev/zero | tr '\\0' 'x'; echo; echo the end"),
               process("wait"), process("log", limit=1), conversation=conversation, seconds=4 * WAIT_S)
    assert (seen[1]["status"], seen[1]["exit_code"]) == ("exited", 0)
    assert seen[2]["output"] == "the end\n"
    assert seen[2]["total_lines"] == 2 and seen[2]["output_cut"]
    kept = (gateway.data / "processes" / seen[0]["session_id"] / "output").stat().st_size
    assert RING <= kept <= 5 * RING  # four bytes for each character, and one read
    assert gateway.rss() - before < 32 * MIB


def test_ring_has_room_for_200000_characters_of_any_size(client, gateway):
    conversation, wave = new_id(), "\U0001f30a"  # four bytes
    seen = run(client, background(python(f"sys.stdout.write(\"{wave}\" * 300000)")), process("wait"), process("log"),
               conversation=conversation)
    assert seen[1]["output"] == wave * 2000
    assert set(seen[2]["output"]) == {wave} and seen[2]["output_cut"]
    kept = (gateway.data / "processes" / seen[0]["session_id"] / "output").stat().st_size
    assert kept >= RING * len(wave.encode())


def test_silent_process_is_running_and_costs_nothing(client, gateway):
    """No clock of the gateway's looks at how long a process says nothing: it has none."""
    conversation = new_id()
    seen = run(client, background("exec sleep 3600"), process("poll"), process("wait", timeout=1),
               process("poll"), conversation=conversation)
    assert [one.get("status") for one in seen[1:]] == ["running", "timeout", "running"]
    assert seen[2]["process_running"] and seen[3]["output_preview"] == "" and seen[3]["uptime_seconds"] >= 1
    keeper = json.loads((gateway.data / "processes" / seen[0]["session_id"] / "status").read_text())["keeper"]

    def used():
        return sum(map(int, pathlib.Path(f"/proc/{keeper}/stat").read_text().split()[13:15]))

    before = used()
    run(client, process("wait", seen[0]["session_id"], timeout=1), conversation=conversation)
    assert used() - before <= 1  # of 10 ms: it sleeps
    run(client, process("kill", seen[0]["session_id"]), conversation=conversation)


def test_agent_that_waits_for_a_silent_command_is_not_idle(model):
    config = commands.config(model)
    config["agents"][0].update(idle_timeout_s=4)
    with Gateway(config) as own, Client(own) as client:
        assert alone(client, "sleep 6; echo awake")["output"] == "awake\n"


def test_bytes_that_are_no_text(client, clients):  # F27
    """Latin-1, a character cut by the size of a read, NUL, random bytes: between two clean lines."""
    code = (r'''out = sys.stdout.buffer
out.write(b"first\n"); out.write(b"caf\xe9\n"); out.flush()
out.write("\U0001f30a".encode()[:2]); out.flush(); time.sleep(0.05)
out.write("\U0001f30a".encode()[2:] + b"\n" + bytes([0]) + b"\n")
out.write(bytes(range(128, 256)) * 8 + b"\nlast\n"); out.flush()''').replace("'", '"')
    task, events = client.finish(message(terminal(python(code))))
    lines = outputs(events)[0]["output"].split("\n")
    assert lines[:4] == ["first", f"caf{BAD}", "\U0001f30a", BAD] and lines[-2:] == ["last", ""]
    assert task["status"] == "completed"  # the client checks that every frame is UTF-8 and every line JSON
    other = clients(token=client.token)
    assert other.replay(task) and other.raw_events(task) == client.raw_events(task)


def test_escapes_of_terminals_are_taken_out(client):
    printed = r"printf '\033[1;31mred\033[0m \033]0;title\007shown\r\n10%%\r20%%\rdone\033(B\n\033[2K'"
    assert alone(client, printed)["output"] == "red shown\ndone\n"


def test_a_megabyte_without_a_newline(client):
    conversation = new_id()
    seen = run(client, background(python('sys.stdout.write("y" * 1048576)')), process("wait"), process("log"),
               terminal(python('sys.stdout.write("y" * 1048576)')), conversation=conversation)
    assert set(seen[1]["output"]) == set(seen[2]["output"]) == {"y"} and seen[2]["total_lines"] == 1
    assert set(seen[3]["output"]) == {"y"} and len(seen[3]["output"]) == 50000 and seen[3]["output_cut"]


def test_log_counts_lines(client):
    conversation = new_id()
    seen = run(client, background("seq 1000"), process("wait"), process("log"), process("log", offset=0, limit=2),
               process("log", offset=998), process("log", offset=5000), conversation=conversation)
    tail, head, end, beyond = seen[2:]
    assert tail["output"].split() == [str(n) for n in range(801, 1001)]
    assert (tail["total_lines"], tail["showing"]) == (1000, "lines 801 to 1000")
    assert (head["output"], head["showing"]) == ("1\n2\n", "lines 1 to 2")
    assert end["output"] == "999\n1000\n" and beyond["output"] == ""


# ------------------------------------------------------------------ those that do not end as one thinks


def test_one_that_forks_and_leaves_has_ended(client):
    conversation, pid_file = new_id(), client.gateway.path()
    seen = run(client, background(f"sleep 1000 & echo $! > {pid_file}; echo left; exit 7"), process("wait"),
               conversation=conversation)  # the one left behind holds the pipe
    assert (seen[1]["status"], seen[1]["exit_code"], seen[1]["output"]) == ("exited", 7, "left\n")
    pid = int(pathlib.Path(pid_file).read_text(encoding="utf-8"))
    wait_until(lambda: not is_alive(pid), "the end of what it left behind")


def test_one_that_closes_its_output_runs_on(client):
    conversation, gate = new_id(), client.gateway.path()
    seen = run(client, background(f"echo said; exec >&- 2>&-; while [ ! -e {gate} ]; do sleep 0.02; done; exit 5"),
               process("wait", timeout=1), process("poll"), terminal(f"touch {gate}"), conversation=conversation)
    assert [one["status"] for one in seen[1:3]] == ["timeout", "running"]
    (end,) = run(client, process("wait", seen[0]["session_id"]), conversation=conversation)
    assert (end["status"], end["exit_code"], end["output"]) == ("exited", 5, "said\n")


@pytest.mark.parametrize("command, noted", [
    ("sleep 1000 & echo x", True), ("sleep 1000 &\necho x", True), ("(sleep 1000 > /dev/null &); echo x", True),
    ("true && echo x", False), ("echo x 2>&1", False), ("echo '&' \"it's &\"", False), ("echo x \\&", False)],
    ids=["amp", "line", "subshell", "and", "redirect", "quoted", "escaped"])
def test_what_a_command_leaves_running_is_told(client, command, noted):
    (seen,) = run(client, terminal(command))
    assert ("note" in seen) == noted, seen
    if noted:
        assert "killed" in seen["note"] and "background" in seen["note"]


@pytest.mark.parametrize("leaves", ["", "setsid "])
def test_kill_reaches_the_whole_tree(client, leaves):
    conversation, pid_file = new_id(), client.gateway.path()
    stubborn = f"trap '' TERM; ({leaves}sh -c 'trap \"\" TERM; echo $$ > {pid_file}; while :; do sleep 1; done') & wait"
    (started,) = run(client, background(stubborn), conversation=conversation)
    path = pathlib.Path(pid_file)
    pid = int(wait_until(lambda: path.exists() and path.read_text(encoding="utf-8").strip(), "the grandchild"))
    (killed,) = run(client, process("kill", started["session_id"]), conversation=conversation)
    assert (killed["status"], killed["exit_code"]) == ("killed", -15)
    assert not is_alive(pid) and not is_alive(started["pid"])  # when it says killed, all are gone


def test_kill_reaches_a_command_that_has_stopped_its_keeper(gateway, client):
    gate, conversation = gateway.path(), new_id()
    (started,) = run(client, background(f"kill -STOP $PPID; touch {gate}; exec sleep 1000"), conversation=conversation)
    wait_until(lambda: os.path.exists(gate), "the keeper is stopped")
    (ended,) = run(client, process("kill", started["session_id"]), conversation=conversation)
    assert (ended["status"], ended["exit_code"]) == ("killed", -15)


def test_time_out_of_a_command_ends_it(client):
    result = alone(client, "echo begun; exec sleep 1000", timeout=4)
    assert (result["output"], result["exit_code"]) == ("begun\n", 124) and "4 s" in result["error"]
    conversation = new_id()
    seen = run(client, background("exec sleep 1000", timeout=1, notify_on_complete=True), process("wait"),
               conversation=conversation)
    assert seen[1]["status"] == "timed_out"


def test_command_that_kills_its_keeper_leaves_nobody(client, gateway):
    """Its death reaches the shell alone; what that has started, in whatever session, is killed by the gateway."""
    pids = pathlib.Path(gateway.path())
    ended = alone(client, f"setsid sleep 1000 & echo $! > {pids}; sleep 1000 & echo $! >> {pids}; "
                          f"mv {pids} {pids}.all; kill -9 $PPID; sleep 1000")
    assert "lost" in ended["error"]
    left = [int(pid) for pid in pathlib.Path(f"{pids}.all").read_text().split()]
    assert len(left) == 2
    wait_until(lambda: not any(is_alive(pid) for pid in left), "their end")


# ------------------------------------------------------------------ input


def test_question_of_a_command_that_is_waited_for_has_no_answer(client):
    """Nobody can write to it: it must not hang until its time-out."""
    result = alone(client, "read answer; echo got=$answer; cat; echo over")
    assert (result["output"], result["exit_code"]) == ("got=\nover\n", 0)


def test_write_submit_and_close(client):
    conversation = new_id()
    seen = run(client, background("read line; echo got $line; cat; echo closed"), process("write", data="a"),
               process("submit", data="b"), process("write", data="rest"), process("close"), process("wait"),
               process("write", data="late"), process("close"), conversation=conversation)
    assert [one["bytes_written"] for one in seen[1:5]] == [1, 2, 4, 0]
    assert seen[5]["output"] == "got ab\nrestclosed\n"
    assert [one["status"] for one in seen[6:]] == ["already_exited"] * 2


def test_write_to_an_input_that_is_closed_is_refused(client):
    conversation, gate = new_id(), client.gateway.path()
    until = f"while [ ! -e {gate} ]; do sleep 0.02; done"
    seen = run(client, background(f"cat; {until}"), process("close"), process("write", data="lost"),
               process("submit", data="lost"), process("close"), conversation=conversation)
    assert [one["status"] for one in seen[1:]] == ["ok", "error", "error", "ok"]
    assert all("input is closed" in one["error"] for one in seen[2:4])
    (started,) = run(client, background(f"exec <&-; {until}"), conversation=conversation)  # by itself
    wait_until(lambda: run(client, process("write", started["session_id"], data="x"), conversation=conversation)[0]
               .get("error") == "its input is closed", "the end of its input")
    pathlib.Path(gate).touch()


def test_input_that_nobody_reads_is_refused_at_last_and_kill_still_works(client):
    conversation = new_id()
    (started,) = run(client, background("exec sleep 1000"), conversation=conversation)
    session, seen = started["session_id"], []
    for _ in range(20):
        seen += run(client, process("write", session, data="x" * 32768), conversation=conversation)
    refused = [reply for reply in seen if reply["status"] == "error"]
    assert seen[0]["status"] == "ok" and all("accepts no input" in reply["error"] for reply in refused)
    assert len(refused) >= 12  # the FIFO, the keeper and its pipe hold eight such pieces at most
    (killed,) = run(client, process("kill", session), conversation=conversation)
    assert killed["status"] == "killed"


def test_pty_is_a_terminal(client):
    conversation = new_id()
    seen = run(client, background("tty; stty size; read x; echo got $x; cat > /dev/null; echo over", pty=True),
               process("submit", data="in"), process("close"), process("wait"), conversation=conversation)
    lines = seen[3]["output"].split("\n")
    assert any(line.startswith("/dev/pts/") for line in lines) and "30 120" in lines
    assert "got in" in lines and "over" in lines and seen[3]["exit_code"] == 0
    assert alone(client, "test -t 0 && test -t 1 && echo yes", pty=True)["output"] == "yes\n"


# ------------------------------------------------------------------ where it runs, and with what


def test_work_folder_is_the_conversation_s(client, clients, gateway):
    one, two = new_id(), new_id()
    run(client, terminal("echo mine > file"), conversation=one)
    assert run(client, terminal("cat file"), conversation=one)[0]["output"] == "mine\n"
    assert run(client, terminal("ls"), conversation=two)[0]["output"] == ""
    assert run(clients(), terminal("ls"), conversation=one)[0]["output"] == ""  # another owner's of that name
    run(client, terminal("mkdir below"), conversation=one)
    assert run(client, terminal("pwd", workdir="below"), conversation=one)[0]["output"].endswith("/below\n")
    (wrong,) = run(client, terminal("pwd", workdir="nowhere"), conversation=one)
    assert wrong == '"workdir": there is no such directory'


def test_command_gets_nothing_of_the_gateway(client):
    environ = alone(client, "env")["output"]
    assert "HOLDFAST" not in environ and "PYTHONUNBUFFERED=1" in environ
    descriptors = alone(client, "ls /proc/self/fd")["output"].split()
    assert set(descriptors) == {"0", "1", "2", "3"}  # 3 is what ls reads


# ------------------------------------------------------------------ arguments and limits


@pytest.mark.parametrize("arguments, wrong", [
    ({}, "command"), ({"command": ""}, "command"), ({"command": 5}, "command"),
    ({"command": "x" * 20000}, "command"), ({"command": "a\0b"}, "command"),
    ({"command": "true", "timeout": 0}, "timeout"), ({"command": "true", "timeout": 601}, "timeout"),
    ({"command": "true", "background": "yes"}, "background"),
    ({"command": "true", "notify_on_complete": True}, "notify_on_complete"),
    ({"command": "true", "background": True, "watch_patterns": "x"}, "watch_patterns"),
    ({"command": "true", "background": True, "watch_patterns": [""]}, "watch_patterns"),
])
def test_terminal_arguments_that_are_not_right(client, arguments, wrong):
    (text,) = run(client, ("terminal", arguments))
    assert f'"{wrong}"' in text


@pytest.mark.parametrize("arguments, wrong", [
    ({}, "action"), ({"action": "burn"}, "action"), ({"action": "poll"}, "session_id"),
    ({"action": "write", "session_id": "x"}, "data"), ({"action": "wait", "session_id": "x", "timeout": 0}, "timeout"),
    ({"action": "log", "session_id": "x", "limit": 0}, "limit"),
])
def test_process_arguments_that_are_not_right(client, arguments, wrong):
    (text,) = run(client, ("process", arguments))
    assert f'"{wrong}"' in text


def test_longer_wait_than_there_is_says_so(client):
    seen = run(client, background("echo x"), process("wait", timeout=9999))
    assert seen[1]["status"] == "exited" and "180" in seen[1]["timeout_note"]


def test_so_many_processes_of_an_owner_and_no_more(model):
    limit = 64
    with Gateway(commands.config(model, limits={"processes": 1000})) as own, Client(own) as client:
        conversation = new_id()
        calls = [background("exec sleep 1000") for _ in range(limit // 2)]
        run(client, calls, conversation=conversation)
        run(client, calls[:-1] + [background("echo oldest")], conversation=new_id())
        wait_until(lambda: any("state=exited" in line for line in own.log), "the end of one")
        # An ended one makes room; then nothing does.
        seen = run(client, background("exec sleep 1000"), background("exec sleep 1000"), conversation=conversation)
        assert seen[0]["session_id"] and str(limit) in seen[1]
        with Client(own) as other:
            assert run(other, terminal("echo free"))[0]["output"] == "free\n"
        own.end_commands()


def test_limit_of_processes_counts_commands(model):
    with Gateway(commands.config(model, limits={"processes": 1})) as own, Client(own) as client:
        conversation = new_id()
        seen = run(client, background("exec sleep 1000"), terminal("true"), process("kill"), terminal("echo again"),
                   conversation=conversation)
        assert "too many processes" in seen[1] and seen[3]["output"] == "again\n"


def test_ended_one_is_forgotten_as_long_after_its_end_as_configured(model):
    day_ms = 86400 * 1000
    with Gateway(commands.config(model, retention={"process_days": 2})) as own:
        with Client(own) as client:
            conversation = new_id()
            old, young = (run(client, background("echo x"), process("wait"), conversation=conversation)[0]["session_id"]
                          for _ in range(2))
        own.kill()
        for session, age in ((old, 2 * day_ms + 1000), (young, 2 * day_ms - 600_000)):
            path = own.data / "processes" / session / "status"
            value = json.loads(path.read_text(encoding="utf-8"))
            value["ended_at"] -= age
            path.write_text(json.dumps(value), encoding="utf-8")
        own.start()
        with Client(own, token=client.token) as again:
            (found,) = run(again, ("process", {"action": "list"}), conversation=conversation)
            assert [p["session_id"] for p in found["processes"]] == [old, young]  # looking removes nothing
            run(again, background("true"), conversation=conversation)
            (found,) = run(again, ("process", {"action": "list"}), conversation=conversation)
            assert old not in str(found) and young in str(found)


# ------------------------------------------------------------------ lines that are watched for


def test_line_that_is_watched_for_starts_a_turn(client):
    conversation, gate = new_id(), client.gateway.path()
    (started,) = run(client, background(f"echo nothing; while [ ! -e {gate} ]; do sleep 0.02; done; "
                                        "echo ERROR one; echo fine; exec sleep 1000",
                                        watch_patterns=["ERROR", "FATAL"]), conversation=conversation)
    assert started["watch_patterns"] == 2
    pathlib.Path(gate).touch()
    wait_until(lambda: [t for t in turns_of(client, conversation) if t["status"] == "completed"], "the turn")
    (text,) = commands.notices(client, conversation)
    assert started["session_id"] in text and text.endswith("exec sleep 1000\nERROR one")
    run(client, process("kill", started["session_id"]), conversation=conversation)


def test_many_processes_that_match_at_once_are_paused_together(model):
    """The sixteenth within ten seconds: from then on nobody's are told for a while, and the log says so."""
    with Gateway(commands.config(model)) as own, Client(own) as client:
        gate = own.path()
        run(client, [background(f"while [ ! -e {gate} ]; do sleep 0.2; done; echo ERROR {i}; exec sleep 1000",
                                watch_patterns=["ERROR"]) for i in range(20)])
        pathlib.Path(gate).touch()
        wait_until(lambda: any("matches_paused" in line for line in own.log), "the pause")


def test_both_wishes_are_one(client):
    conversation = new_id()
    (started,) = run(client, background("echo ERROR", watch_patterns=["ERROR"], notify_on_complete=True),
                     conversation=conversation)
    assert started["watch_patterns_ignored"] and started["notify_on_complete"]
    wait_until(lambda: [t for t in turns_of(client, conversation) if t["status"] == "completed"], "the turn")
    (text,) = commands.notices(client, conversation)
    assert "has completed" in text


def test_lines_that_come_too_fast_are_told_once(client):
    """Within the window of the first, others are left out: its agent is not flooded."""
    conversation = new_id()
    (started,) = run(client, background("for i in 1 2 3 4 5 6 7 8 9 10; do echo ERROR $i; sleep 0.2; done; "
                                        "exec sleep 1000", watch_patterns=["ERROR"]), conversation=conversation)

    def look():
        return run(client, process("poll", started["session_id"]), conversation=conversation)[0]

    wait_until(lambda: "ERROR 10" in look()["output_preview"], "the last line")
    run(client, process("kill", started["session_id"]), conversation=conversation)
    wait_until(lambda: [t for t in turns_of(client, conversation) if t["status"] == "completed"], "the turn")
    assert sum("ERROR 1" in text for text in commands.notices(client, conversation)) == 1
