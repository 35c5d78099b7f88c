"""A talk: a prompt that stays on a terminal while answers stream above it. The screen is an emulator's, as a person
sees it: lines are compared, not escapes."""

import json
import os
import pathlib
import pty
import re
import signal
import termios

import pyte
import pytest

from gateway import WAIT_S, Gateway, free_port, wait_until
from holdfast import program
from relay import Relay
from talks import HINT, Chat
from terminal import Command, Screen, lines_of


@pytest.fixture
def chat(gateway, tmp_path):
    return Chat(gateway, tmp_path)


def tasks_of(chat):
    with chat.client() as client:
        (row,) = client.call("conversations")["conversations"]
        return client.call("tasks", conversation_id=row["conversation_id"])["tasks"]


def go(path):
    open(path, "w", encoding="utf-8").close()


def behind(talk, line):
    """The lines behind the newest that is this one."""
    lines = talk.lines()
    return lines[len(lines) - lines[::-1].index(line):]


# ---------------------------------------------------------------- the prompt


def test_talk_asks_one_question_after_another_in_one_conversation(chat):
    talk = chat.talk()
    talk.type("first question\n")
    talk.until_lines(HINT, "> first question", "first question", ">")
    talk.type("second\n")
    talk.until_lines("> second", "second", ">")
    talk.type("/quit\n")
    status, out, _ = talk.end()
    (asked,) = {task["conversation_id"] for task in tasks_of(chat)}
    assert status == 0 and f"holdfast chat {chat.url} --conversation {asked}" in out
    assert Command("chat", chat.url, "--conversation", asked, "third", environ=chat.environ).end()[0] == 0
    assert len(tasks_of(chat)) == 3


def test_prompt_stays_while_an_answer_streams_and_what_is_typed_waits_for_its_end(chat, gateway):
    gates = [gateway.path() for _ in range(3)]
    talk = chat.talk(columns=400)
    asked = program({"token": "one "}, {"wait": gates[0]}, {"token": "two "}, {"wait": gates[1]}, {"token": "three"})
    talk.type(asked + "\n")
    talk.until_lines("one", "…")
    talk.type("my nex")
    talk.until_lines("one", "… my nex")
    go(gates[0])
    talk.until_lines("one two", "… my nex")
    talk.type("\x1b[D\x1b[D.")
    talk.until_lines("one two", "… my n.ex")
    assert talk.cursor() == len("… my n.")
    talk.type("\x05t\n")
    talk.until_lines("one two", "(1 waiting)")
    talk.type(program({"wait": gates[2]}, {"token": "later"}) + "\n")
    talk.until_lines("one two", "(2 waiting)")
    go(gates[1])
    talk.until_lines("one two three", "> my n.ext", "my n.ext", f"> {program({'wait': gates[2]}, {'token': 'later'})}",
                     "…")
    go(gates[2])
    talk.until_lines("later", ">")
    assert talk.lines()[:3] == [HINT, f"> {asked}", "one two three"]
    talk.type("\x04")
    assert talk.end()[0] == 0 and len(tasks_of(chat)) == 3


def rendered(text, columns, rows):
    """The lines of a terminal that was given just that text."""
    screen = pyte.HistoryScreen(columns, rows, history=10000)
    pyte.Stream(screen).feed(text.replace("\n", "\r\n"))
    return lines_of(screen)


def test_no_character_is_lost_wherever_an_answer_is_interrupted(chat, gateway):
    """The prompt is put below the open line, and lifted, between any two of these pieces; the screen scrolls."""
    pieces = ["a" * 39, "b", "c", "\n", "\n", "d" * 40, "\n", "世" * 20, "e", "f" * 37 + "世", "g\n", "h\ti", "j\n",
              "k" * 95, "l" * 25, "m", "é" * 39, "n\n", "o"]
    gates = [gateway.path() for _ in pieces]
    talk = chat.talk(columns=40, rows=6)
    asked = program(*[step for piece, gate in zip(pieces, gates) for step in ({"wait": gate}, {"token": piece})])
    talk.type(asked + "\n")
    before = f"{HINT}\n> {asked}\n"
    for n, gate in enumerate(gates):
        go(gate)
        said = before + "".join(pieces[:n + 1])
        talk.until_lines(*rendered(said + ("" if said.endswith("\n") else "\n") + ("…" if n + 1 < len(gates) else ">"), 40, 6))
    talk.type("\x04")
    assert talk.end()[0] == 0


def test_what_the_agent_thinks_and_other_lines_keep_the_prompt_below(chat, gateway):
    gate = gateway.path()
    talk = chat.talk(columns=400)
    talk.type(program({"thinking": "hmm"}, {"token": "a"}, {"wait": gate}, {"token": "b"}) + "\n")
    talk.until_lines("hmm", "a", "…")
    talk.type("/agents\n")
    talk.until_lines("a", "> /agents", "script", "…")
    go(gate)
    talk.until_lines("script", "b", ">")
    talk.type("\x04")
    assert talk.end()[0] == 0


def test_question_of_the_agent_is_answered_at_the_prompt(chat):
    talk = chat.talk(columns=400)
    talk.type(program({"question": "q1", "kind": "question", "prompt": "Which colour?"}, {"hear": "input", "say": True})
              + "\n")
    talk.until_lines("? Which colour?", "?")
    talk.type("bl\x7flue\n")
    talk.until("answer")
    talk.until_line("blue")
    assert any('"answer":"blue"' in line for line in talk.lines())
    talk.type(program({"question": "q2", "kind": "approval", "prompt": "May I?"}, {"hear": "input", "say": True}) + "\n")
    talk.until_lines("? May I?", "[y/N]")
    talk.type("y\n")
    talk.until('"answer":true')
    talk.type("\x04")
    assert talk.end()[0] == 0
    history = pathlib.Path(chat.environ["XDG_STATE_HOME"], "holdfast", "chat-history").read_text(encoding="utf-8")
    assert "blue" not in history.split()  # an answer may be a password


def asks(input_id, **more):
    """A step of the scripted agent: it asks the user."""
    return {"line": {"event": "input_required", "data": {"input_id": input_id, **more}}}


HEARD = {"hear": "input", "say": True}


def test_choices_have_numbers_and_are_answered_by_number_or_name(chat):
    talk = chat.talk(columns=400)
    offered = ["Red", {"id": "b", "name": "Deep blue"}, {"name": "nameless"}, 5]
    which = asks("q", kind="question", prompt="Which?", options=offered)
    for typed, answer in (("2", "b"), ("red", "Red"), ("3", "3"), ("something else", "something else")):
        talk.type(program(which, HEARD) + "\n")
        talk.until_lines("? Which?", "  1) Red", "  2) Deep blue", "?")
        talk.type(typed + "\n")
        talk.until(f'"answer":"{answer}"')
        talk.until_lines(">")
    talk.type("\x04")
    assert talk.end()[0] == 0


@pytest.mark.parametrize("typed, answer", [("y", "true"), ("n", "false"), ("", "false"), ("2", '"all"'), ("never", '"no"')])
def test_approval_has_what_the_agent_offers(chat, typed, answer):
    talk = chat.talk(columns=400)
    offered = [{"id": "one", "name": "Allow once", "kind": "allow_once"},
               {"id": "all", "name": "Allow for this conversation", "kind": "allow_always"},
               {"id": "no", "name": "Never", "kind": "reject_always"}]
    talk.type(program(asks("a", kind="approval", prompt="May I?", options=offered), HEARD) + "\n")
    talk.until_lines("? May I?", "  1) Allow once", "  2) Allow for this conversation", "  3) Never", "[y/N, 1-3]")
    talk.type(typed + "\n")
    talk.until(f'"answer":{answer}')
    talk.type("\x04")
    assert talk.end()[0] == 0


def test_what_is_to_be_approved_is_shown_whole_once_and_as_it_is(chat):
    talk = chat.talk(columns=400)
    command = "rm \u202e --all " + "x" * 300
    shown = command.replace("\u202e", "\\u202e")
    for prompt, given, lines in (
            ("Tidy up?", {"command": command}, ["? terminal: Tidy up?", f"  {shown}"]),
            (f"Run {command}?", {"command": command}, [f"? terminal: Run {shown}?"]),
            ("Write?", {"path": "/etc/hosts", "text": "x"},
             ["? terminal: Write?", '  {"path":"/etc/hosts","text":"x"}'])):
        asked = asks("a", kind="approval", prompt=prompt, tool="terminal", arguments=given)
        talk.type(json.dumps([asked, HEARD]) + "\n")  # which types no character that turns the line around
        talk.until_lines(*lines, "[y/N]")
        talk.type("n\n")
        talk.until_lines(">")
    talk.type("\x04")
    assert talk.end()[0] == 0


def test_questions_that_are_open_together_are_asked_one_after_another(chat):
    talk = chat.talk(columns=400)
    both = [asks("x", kind="question", prompt="First?"), asks("y", kind="approval", prompt="Second?")]
    talk.type(program(*both, {"hear": "input", "say": True}, {"hear": "input", "say": True}) + "\n")
    talk.until_lines("? First?", "?")
    talk.type("one\n")
    talk.until_line("? Second?")
    talk.until('"input_id":"x","answer":"one"')
    talk.type("y\n")
    talk.until('"input_id":"y","answer":true')
    talk.until_lines(">")
    assert [line for line in talk.lines() if line.startswith("? ")] == ["? First?", "? Second?"]
    talk.type("\x04")
    assert talk.end()[0] == 0


def test_question_that_is_answered_elsewhere_gives_way_to_the_next(chat):
    talk = chat.talk(columns=400)
    both = [asks("x", kind="question", prompt="First?"), asks("y", kind="question", prompt="Second?")]
    talk.type(program(*both, {"hear": "input", "say": True}, {"hear": "input", "say": True}) + "\n")
    talk.until_lines("? First?", "?")
    with chat.client() as client:
        (row,) = client.call("conversations")["conversations"]
        (task,) = client.call("tasks", conversation_id=row["conversation_id"])["tasks"]
        ids = {"conversation_id": row["conversation_id"], "task_id": task["task_id"]}
        client.call("respond", **ids, input_id="x", answer="there")
    talk.until_line("? Second?")
    talk.type("here\n")
    talk.until('"input_id":"y","answer":"here"')
    talk.type("\x04")
    assert talk.end()[0] == 0


# ---------------------------------------------------------------- Ctrl-C


def test_ctrl_c_stops_the_answer_and_twice_leaves(chat):
    talk = chat.talk(columns=400)
    talk.type(program({"token": "begun"}, {"hang": 1}) + "\n")
    talk.until_lines("begun", "…")
    talk.type("\x03")
    talk.until_lines("begun", "· it stops; Ctrl-C again leaves", "holdfast: It was stopped.", ">")
    talk.type("still there\n")
    talk.until_lines("> still there", "still there", ">")
    talk.type("unsent")
    talk.until_lines("> unsent")
    talk.type("\x03")
    talk.until_lines("still there", ">")  # the line is cleared, as in a shell
    talk.type("\x03")
    talk.until_lines("· Ctrl-C again leaves, and so does Ctrl-D", ">")
    talk.type("\x03")
    assert talk.end()[0] == 0
    assert [task["status"] for task in tasks_of(chat)] == ["cancelled", "completed"]


def test_ctrl_c_twice_leaves_a_task_that_does_not_stop(chat):
    talk = chat.talk(columns=400)
    talk.type(program({"ignore_term": 1}, {"token": "begun"}, {"hang": 1}) + "\n")
    talk.until_line("begun")
    talk.type("\x03")
    talk.until("it stops")
    talk.type("\x03")
    assert talk.end()[0] == 0
    wait_until(lambda: tasks_of(chat)[0]["status"] == "cancelled", "the task's end")


def test_ctrl_c_gives_back_the_lines_that_wait(chat):
    talk = chat.talk(columns=400)
    talk.type(program({"token": "begun"}, {"hang": 1}) + "\n")
    talk.until_lines("begun", "…")
    talk.type("and then\nand last\n")
    talk.until_lines("begun", "(2 waiting)")
    talk.type("\x03")
    talk.until_lines("holdfast: It was stopped.", "> and then↵and last")
    talk.type("!")
    talk.until_lines("> and then↵and last!")
    talk.type("\x03")
    talk.until_lines("holdfast: It was stopped.", ">")
    talk.type("\x04")
    assert talk.end()[0] == 0 and len(tasks_of(chat)) == 1


# ---------------------------------------------------------------- commands


def test_commands_of_a_talk(chat):
    talk = chat.talk(columns=400)
    talk.type("/resume\n")
    talk.until_lines("> /resume", "there are none yet", ">")
    talk.type("/agents\n")
    talk.until_lines("> /agents", "script", ">")
    talk.type("/help\n")
    talk.until_line("/resume CONVERSATION/TASK")
    talk.until_line("Tab completes, Alt-Enter begins a new line, and what you type during an answer is asked when it has ended.")
    talk.type("/cancel\n")
    talk.until_lines("· nothing runs", ">")
    talk.type("/agent nobody\n")
    talk.until_lines('there is no agent "nobody"; there are: script', ">")
    talk.type("/agent script\n")
    talk.until_lines("· the next question is for script", ">")
    talk.type("one\n")
    talk.until_lines("> one", "one", ">")
    talk.type("/etc/passwd is a path\n")
    talk.until_lines("> /etc/passwd is a path", "/etc/passwd is a path", ">")
    talk.type("/new\n")
    talk.until_lines("· a new conversation", ">")
    talk.type("two\n")
    talk.until_lines("> two", "two", ">")
    talk.type("/resume\n")
    talk.until_lines("/resume and a name goes on in it", ">")
    rows = [line.split()[0] for line in behind(talk, "> /resume") if "running" in line]
    assert len(rows) == 2
    talk.type(f"/resume {rows[1]}\n")  # the newest comes first
    talk.until_lines("> /etc/passwd is a path", "/etc/passwd is a path", ">")
    talk.type("three\n")
    talk.until_lines("> three", "three", ">")
    with chat.client() as client:
        tasks = client.call("tasks", conversation_id=rows[1])["tasks"]
    talk.type(f"/resume {rows[1]}/{tasks[0]['task_id']}\n")
    talk.until_lines("one", ">")
    talk.type("\x04")
    assert talk.end()[0] == 0 and len(tasks) == 3


UNKNOWN = "there is no command {}, and /help lists those that there are; with a blank before it, it is asked as it is"


def test_word_with_a_slash_that_is_no_command_is_not_asked(chat, gateway):
    gate = gateway.path()
    talk = chat.talk(columns=400)
    for typed in ("/foo", "/Resume x", "/"):
        talk.type(typed + "\n")
        talk.until_lines(f"> {typed}", UNKNOWN.format(typed.split()[0]), ">")
    for typed, used in (("/cancel it", "/cancel, Ctrl-C      stops the answer"), ("/agent", "/agent NAME          asks that agent from now on")):
        talk.type(typed + "\n")
        talk.until_lines(f"> {typed}", "it is used like this:", used, ">")
    talk.type(" /foo\n")  # as a person is told
    talk.until_lines(">  /foo", " /foo", ">")
    talk.type("\x1b[200~/two\nlines\x1b[201~\n")
    talk.until_lines("> /two", "lines", "/two", "lines", ">")
    talk.type(program({"token": "begun"}, {"wait": gate}) + "\n")
    talk.until_lines("begun", "…")
    talk.type("/foo\n")  # told at once, not when the answer has ended
    talk.until_lines("begun", "> /foo", UNKNOWN.format("/foo"), "…")
    go(gate)
    talk.until_lines(UNKNOWN.format("/foo"), ">")
    talk.type("\x04")
    assert talk.end()[0] == 0 and len(tasks_of(chat)) == 3


def test_question_is_answered_with_a_path_or_a_slash_word(chat):
    talk = chat.talk(columns=400)
    talk.type(program(asks("q", kind="question", prompt="Which?"), HEARD) + "\n")
    talk.until_lines("? Which?", "?")
    talk.type("/tmp\n")
    talk.until('"answer":"/tmp"')
    talk.type("\x04")
    assert talk.end()[0] == 0


def test_tab_completes_commands_and_agents(tmp_path):
    agents = [{"name": name, "kind": "exec", "command": ["cat"]} for name in ("coder", "coach", "writer")]
    with Gateway({"agents": agents}) as gateway:
        talk = Chat(gateway, tmp_path).talk()
        talk.type("/ag\t")
        talk.until_lines("> /agent")
        talk.type("\t")
        talk.until_lines("/agents", "/agent", "> /agent")
        talk.type(" \t")
        talk.until_lines("coder", "coach", "writer", "> /agent")
        talk.type("c\t")
        talk.until_lines("> /agent co")
        talk.type("d\t")
        talk.until_lines("> /agent coder")
        talk.type("\x15no command\t\x1b[200~/\t\x1b[201~")
        talk.until_lines("> no command/")
        talk.type("\x15\x04")
        assert talk.end()[0] == 0


def test_talk_in_a_conversation_shows_its_end_and_follows_what_runs_in_it(chat, gateway):
    gate = gateway.path()
    chat.run("--conversation", "c-1", "asked before")
    first = Screen("chat", chat.url, "--conversation", "c-1", environ=chat.environ, columns=400)
    first.until_lines(HINT, "> asked before", "asked before", ">")
    first.type(program({"token": "begun"}, {"wait": gate}, {"token": " and ended"}) + "\n")
    first.until_lines("begun", "…")
    second = Screen("chat", chat.url, "--conversation", "c-1", environ=chat.environ, columns=400)
    second.until_lines("begun", "…")
    assert "> asked before" in second.lines()
    go(gate)
    for talk in (first, second):
        talk.until_lines("begun and ended", ">")
        talk.type("\x04")
        assert talk.end()[0] == 0


def test_all_that_runs_in_a_conversation_is_followed_one_after_another(chat, gateway):
    gates = [gateway.path() for _ in range(3)]
    asked = [program({"token": f"a{n}"}, {"wait": gate}, {"token": f"z{n}"}) for n, gate in enumerate(gates)]
    chat.run("--conversation", "c-1", "before")
    with chat.client() as client:
        for message in asked:
            client.call("chat", conversation_id="c-1", message=message, when_busy="parallel")
        talk = Screen("chat", chat.url, "--conversation", "c-1", environ=chat.environ, columns=400)
        talk.until_lines(f"· the answer to: {asked[0]}"[:len("· the answer to: ") + 200], "a0", "…")
        talk.type("next\n")
        talk.until_lines("a0", "(1 waiting)")
        go(gates[2])  # which ends first, and is shown last
        go(gates[0])
        talk.until_lines("a0z0", f"· the answer to: {asked[1]}", "a1", "(1 waiting)")
        go(gates[1])
        talk.until_lines("a1z1", f"· the answer to: {asked[2]}", "a2z2", "> next", "next", ">")
        talk.type("\x04")
        assert talk.end()[0] == 0


def test_who_has_left_a_conversation_sees_and_follows_nothing_of_it(chat, gateway):
    """The gateway answers for it when the next has been chosen."""
    gate = gateway.path()
    first = chat.talk(columns=400)
    first.type(program({"token": "begun"}, {"wait": gate}) + "\n")
    first.until_lines("begun", "…")
    with chat.client() as client:
        left = client.call("conversations")["conversations"][0]["conversation_id"]
    second = chat.talk(columns=400)
    second.type(f"/resume {left}\n/new\n")  # read at once
    second.until_lines("· a new conversation", ">")
    second.type("one\n")
    second.until_lines(f"> /resume {left}", "> /new", "· a new conversation", "> one", "one", ">")
    second.type(f"/resume {left}\n/resume c-2\n")
    second.until_lines("> /resume c-2", "· it has no messages yet", ">")
    second.type("two\n")
    second.until_lines(f"> /resume {left}", "> /resume c-2", "· it has no messages yet", "> two", "two", ">")
    go(gate)
    first.until_lines("begun", ">")
    for talk in (first, second):
        talk.type("\x04")
        assert talk.end()[0] == 0


def test_slash_cancel_stops_the_answer_at_once(chat):
    talk = chat.talk(columns=400)
    talk.type(program({"token": "begun"}, {"hang": 1}) + "\n")
    talk.until_lines("begun", "…")
    talk.type("/cancel\n")
    talk.until_lines("> /cancel", "holdfast: It was stopped.", ">")
    talk.type("\x04")
    assert talk.end()[0] == 0


def test_ctrl_d_during_an_answer_says_how_to_come_back(chat, gateway):
    gate = gateway.path()
    talk = chat.talk(columns=400)
    talk.type(program({"token": "begun "}, {"wait": gate}, {"token": "done"}) + "\n")
    talk.until_lines("begun", "…")
    talk.type("\x04")
    status, out, _ = talk.end()
    go(gate)
    again = re.search(r"holdfast (chat \S+ --resume [\w/-]+)", out)[1].split()
    assert status == 0 and Command(*again, environ=chat.environ).end()[:2] == (0, "begun done\n")


# ---------------------------------------------------------------- lines


def test_lines_before_come_back_in_this_talk_and_in_the_next(chat):
    talk = chat.talk()
    talk.type("helo\x1b[Dl\x01Oh: \n")
    talk.until_lines("> Oh: hello", "Oh: hello", ">")
    talk.type("\x1b[A!\n")
    talk.until_lines("> Oh: hello!", "Oh: hello!", ">")
    talk.type(" hidden\n")
    talk.until_lines(">  hidden", " hidden", ">")
    talk.type("\x1b[200~two\r\tlines\\n\x1b[201~\n")
    talk.until_lines("> two", " lines\\n", "two", " lines\\n", ">")
    talk.type("\x04")
    assert talk.end()[0] == 0
    kept = pathlib.Path(chat.environ["XDG_STATE_HOME"], "holdfast", "chat-history")
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.read_text(encoding="utf-8") == "Oh: hello\nOh: hello!\ntwo\\n lines\\\\n\n"
    talk = chat.talk()
    talk.type("\x1b[A")
    talk.until_lines("> two↵ lines\\n")
    talk.type("\x1b[A\x1b[A")
    talk.until_lines("> Oh: hello")
    talk.type("\x15\x04")
    assert talk.end()[0] == 0
    kept.chmod(0o644)
    talk = chat.talk()  # others may read it: it is not used
    talk.type("\x1b[Ax")
    talk.until_lines(HINT, "> x")
    talk.type("\x15\x04")
    assert talk.end()[0] == 0


def test_history_file_has_a_bound(chat):
    folder = pathlib.Path(chat.environ["XDG_STATE_HOME"], "holdfast")
    folder.mkdir(mode=0o700)
    kept = folder / "chat-history"
    kept.write_text("".join(f"line {n} {'x' * 1000}\n" for n in range(1200)), encoding="utf-8")
    kept.chmod(0o600)
    talk = chat.talk()
    talk.type("\x1b[A\x01")
    talk.until("line 1199")
    talk.type("\x05\x15\x04")
    assert talk.end()[0] == 0
    left = kept.read_text(encoding="utf-8").splitlines()
    assert 500 < len(left) < 700 and left[-1].startswith("line 1199") and all(line.startswith("line") for line in left)


# ---------------------------------------------------------------- the terminal


def test_terminal_is_given_back_as_it_was(chat):
    fresh = pty.openpty()
    flags = termios.tcgetattr(fresh[1])[3]  # as every terminal begins: that of the talk is raw already
    for end in fresh:
        os.close(end)
    for leave in ("/quit\n", "\x04"):
        talk = chat.talk()
        assert termios.tcgetattr(talk.keyboard)[3] != flags
        talk.type(leave)
        assert talk.process.wait(WAIT_S) == 0
        assert termios.tcgetattr(talk.keyboard)[3] == flags
        _, out, _ = talk.end()
        assert out.rindex("\x1b[?2004l") > out.rindex("\x1b[?2004h")


def test_programs_that_have_the_terminal_next_can_read_it(chat):
    for question in ((), ("hello",)):
        command = Screen("chat", chat.url, *question, environ=chat.environ, within=("bash", "-c", '"$@" && echo left && exec cat', "-"))
        if not question:
            command.until_lines(HINT, ">")
            command.type("\x04")
        command.until_line("left")
        command.type("typed\n")
        command.until_lines("typed", "typed")
        command.type("\x04")
        assert command.end()[0] == 0


def test_stopped_and_continued_talk_takes_the_terminal_again(chat):
    talk = chat.talk()
    talk.type("be")
    talk.until_lines("> be")
    talk.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, talk.process.pid, os.WSTOPPED | os.WNOWAIT)
    mode = termios.tcgetattr(talk.keyboard)
    mode[3] |= termios.ECHO | termios.ICANON  # as a shell sets it
    termios.tcsetattr(talk.keyboard, termios.TCSANOW, mode)
    talk.process.send_signal(signal.SIGCONT)
    wait_until(lambda: not termios.tcgetattr(talk.keyboard)[3] & termios.ECHO, "its own mode")
    talk.type("gin\n")
    talk.until_lines("> begin", "begin", ">")
    talk.type("\x04")
    assert talk.end()[0] == 0


# A shell with jobs: it says when the talk has stopped, and continues it after a line.
SHELL = ("bash", "-mc", 'tty=$(stty -g); "$@"; echo "stopped: $?, $([ "$tty" = "$(stty -g)" ] && echo as it was)"; read -r; fg >/dev/null', "-")


def test_ctrl_z_gives_the_terminal_back_until_the_talk_goes_on(chat, gateway):
    gate = gateway.path()
    talk = chat.talk(columns=400, within=SHELL)
    talk.type(program({"token": "begun"}, {"wait": gate}, {"token": "more"}) + "\n")
    talk.until_lines("begun", "…")
    talk.type("\x1a")
    talk.until_line(f"stopped: {128 + signal.SIGTSTP}, as it was")
    assert "begun" in talk.lines()
    assert talk.seen["out"].rindex(b"\x1b[?2004l") > talk.seen["out"].rindex(b"\x1b[?2004h")
    go(gate)
    talk.type("\n")
    talk.until_line("more")
    talk.until_lines("more", ">")
    talk.type("next\n")
    talk.until_lines("> next", "next", ">")
    talk.type("\x04")
    assert talk.end()[0] == 0


def test_ctrl_z_does_not_stop_a_talk_that_no_shell_would_continue(chat):
    talk = chat.talk()  # the only program of its terminal, as in a container
    talk.type("be")
    talk.until_lines("> be")  # Ctrl-Z takes with it what nobody has read yet
    talk.type("\x1a")
    talk.type("gin\n")
    talk.until_lines("> begin", "begin", ">")
    talk.type("\x04")
    assert talk.end()[0] == 0


def test_no_colour_means_none_in_a_talk_either(chat):
    chat.environ["NO_COLOR"] = "1"
    talk = chat.talk(columns=400)
    talk.type(program({"thinking": "hm"}, {"token": "**b** "}, {"token": "`c`"}) + "\n")
    talk.until_lines("hm", "**b** `c`", ">")
    talk.type("\x04")
    assert not re.search(r"\x1b\[[0-9;]*m", talk.end()[1])


def test_terminal_without_escapes_edits_by_itself(chat, gateway):
    chat.environ["TERM"] = "dumb"
    gate = gateway.path()
    talk = chat.start(terminal=True)
    talk.until("> ")
    talk.type("first\n")
    talk.until("first\r\nfirst\r\n> ")
    talk.type(program({"token": "begun"}, {"wait": gate}) + "\n")
    talk.until("\r\nbegun")
    talk.type("waits\n/cancel\n")
    talk.until("It was stopped.")
    talk.until("\r\nwaits\r\n> ")
    talk.type("\x04")
    status, out, _ = talk.end()
    assert status == 0 and "\x1b" not in out


def test_broken_connection_leaves_the_prompt_and_what_is_typed(tmp_path, gateway):
    with Relay(gateway) as relay:
        chat = Chat(relay, tmp_path)
        gates = [gateway.path() for _ in range(2)]
        talk = chat.talk(columns=400)
        talk.type(program({"token": "a"}, {"wait": gates[0]}, {"token": "b"}) + "\n")
        talk.until_lines("a", "…")
        talk.type("typed")
        talk.until_lines("a", "… typed")
        relay.cut()
        talk.until_lines("· the connection broke; the task continues; connecting again", "· connected again", "… typed")
        go(gates[0])
        talk.until_lines("b", "> typed")
        talk.type("\n")
        talk.until_lines("> typed", "typed", ">")
        talk.type("\x04")
        assert talk.end()[0] == 0


def test_talk_survives_a_restart_of_the_gateway(tmp_path):
    with Gateway(listen=f"127.0.0.1:{free_port()}") as gateway:
        talk = Chat(gateway, tmp_path).talk(columns=400)
        gateway.kill()
        talk.until_lines("· the connection broke; connecting again", "…")
        talk.type("asked meanwhile\n")
        talk.until_lines("(1 waiting)")
        gateway.start()
        talk.until_lines("> asked meanwhile", "asked meanwhile", ">")
        talk.type("\x04")
        assert talk.end()[0] == 0
