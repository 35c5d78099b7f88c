"""holdfast chat: asks, follows, leaves, comes back; what goes to stdout and what it exits with."""

import contextlib
import json
import os
import re
import shlex
import subprocess
import threading

import pytest

import model_server as m
import tokens
from asking_gateway import AskingGateway
from gateway import Gateway, free_port, refusing_port, run
from holdfast import Client, ids, program, wait_until
from lost_history import LostHistory, beside
from relay import Relay
from talks import Chat
from terminal import Command, Screen


@pytest.fixture
def chat(gateway, tmp_path):
    return Chat(gateway, tmp_path)


def task_of(said):
    """The conversation and the task that were told on stderr."""
    return re.search(r"task ([\w-]+)/(\w+)", said).groups()


def resume_command(said):
    """The arguments of the command that it tells for coming back."""
    return shlex.split(re.search(r"holdfast (chat .* --after \d+)", said)[1])


# ---------------------------------------------------------------- asking


def test_answer_alone_is_on_stdout(chat):
    status, out, err = chat.ask({"token": "Hel"}, {"token": "lo"})
    assert (status, out) == (0, "Hello\n")
    assert task_of(err)
    assert chat.run(stdin=program({"token": "from stdin"}) + "\n")[:2] == (0, "from stdin\n")
    assert chat.run("plain", "words")[:2] == (0, "plain words\n")


def test_final_answer_that_was_not_said_in_tokens_is_printed_once(chat):
    assert chat.ask({"final_answer": "42"})[:2] == (0, "42\n")
    assert chat.ask({"token": "so "}, {"token": "42"}, {"final_answer": "42"})[1] == "so 42\n"
    assert chat.ask({"token": "working"}, {"final_answer": "42"})[1] == "working\n42\n"


def test_failure_keeps_what_was_said_and_exits_with_1(chat):
    status, out, err = chat.ask({"token": "half"}, {"exit": 3})
    assert (status, out) == (1, "half\n")
    assert err.endswith("holdfast: The assistant broke off.\n  exit status 3\n")


def test_failure_is_a_sentence_alone_where_the_gateway_keeps_its_details(tmp_path):
    with Gateway({"errors": "short"}) as gateway:
        chat = Chat(gateway, tmp_path)
        assert chat.ask({"exit": 3})[2].endswith("\nholdfast: The assistant broke off.\n")


def test_usage_is_2(chat):
    for arguments in (("--dance",), ("--resume", "no-slash"), ("--resume", "a/b", "--after", "x"),
                      ("--list", "words"), ("",)):
        status, _, err = chat.run(*arguments)
        assert status == 2 and "holdfast chat --help" in err and err.count("\n") == 1, arguments
    for url in ("ftp://x", "ws://host:port", "http:/x"):
        said = run("chat", url, "hi")
        assert said.returncode == 2 and said.stderr.startswith(f"holdfast: the URL {url} is malformed: it must look like ws://")
        assert said.stderr.count("\n") == 1


@pytest.mark.parametrize("address", ["127.0.0.1:9", "localhost:8080", "gateway.example:443", "[::1]:8080",
                                     "myhost:8080"])
def test_address_without_a_scheme_is_no_message(address):
    said = run("chat", address, "hi")
    assert said.returncode == 2 and not said.stdout and f"ws://{address}," in said.stderr


def test_words_with_a_colon_are_a_message(chat):
    for words in (["at", "10:30"], ["10:30", "then"], ["e.g.", "this:", "7"], ["see", "a.b:7"], ["note:1", "is", "short"],
                  ["myhost:8080 is an address"]):
        assert chat.run(*words)[:2] == (0, " ".join(words) + "\n")


def test_agent_and_conversation_are_chosen(chat):
    status, _, err = chat.run("--agent", "nobody", "hi")
    assert (status, err) == (1, 'holdfast: there is no agent "nobody"; there are: script\n')
    assert chat.run("--agent", "script", "--conversation", "c-7", "hi")[0] == 0
    status, out, _ = chat.run("--list")
    assert status == 0 and out.startswith("c-7\t0 running\thi\n")


def test_stdin_is_a_part_of_the_message_where_it_says_so(chat):
    for words, message in ((("sum up:", "-"), "sum up:\n\ntwo\nlines"), (("-", "and", "-"), "two\nlines\n\nand -"),
                           (("-",), "two\nlines"), (("a", "-b"), None)):
        status, out, _ = chat.run("--", *words, stdin="two\nlines\n")
        assert (status, out) == (0, f"{message or ' '.join(words)}\n")


def test_continue_asks_in_the_conversation_that_changed_last(chat):
    assert chat.run("--continue", "first")[:2] == (0, "first\n")  # there is none yet
    chat.run("--conversation", "c-2", "second")
    assert chat.run("--continue", "third")[:2] == (0, "third\n")
    with chat.client() as client:
        said = client.call("history", conversation_id="c-2")["messages"]
    assert [one["content"] for one in said if one["role"] == "user"] == ["second", "third"]
    talk = Screen("chat", chat.url, "--continue", environ=chat.environ)
    talk.until_lines("> second", "second", "> third", "third", ">")
    talk.type("\x04")
    assert talk.end()[0] == 0
    for wrong in (("--continue", "--conversation", "c", "x"), ("--continue", "--list")):
        assert chat.run(*wrong)[0] == 2


def test_continue_that_is_refused_is_told_and_asks_nothing(tmp_path):
    class Refusing(LostHistory):
        async def on_conversations(self, wire, line, *_):
            await wire.send(json.dumps({"type": "error", "id": line["id"], "code": "unsupported", "message": "no lists here"}))

    for words in (["second"], []):
        gateway = Refusing()
        with beside(gateway) as port:
            gateway.host, gateway.port = "127.0.0.1", port
            status, out, err = Chat(gateway, tmp_path).start("--continue", *words, terminal=not words).end()
        assert status == 1 and "holdfast: " in out + err and "no lists here" in out + err and "Ask something" not in out
        assert len(gateway.epochs) == 1  # nothing was asked, and nobody came again


def test_json_is_the_events_each_once_in_order(chat):
    status, out, err = chat.run("--json", program({"token": "a"}, {"exit": 3}))
    events = [json.loads(line) for line in out.splitlines()]
    assert status == 1 and [one["seq"] for one in events] == list(range(1, len(events) + 1))
    assert [one["event"] for one in events] == ["task.created", "task.started", "token", "task.failed"]
    assert events[-1]["data"]["error"]["code"] == "agent_error"
    status, out, _ = chat.run("--json", "--resume", "/".join(task_of(err)), "--after", "2")
    assert [json.loads(line) for line in out.splitlines()] == events[2:]
    for wrong in (("--json", "--list"), ("--json", "--cancel", "a/b")):
        assert chat.run(*wrong)[0] == 2


def test_file_that_an_agent_gives_is_told(chat, tmp_path):
    (tmp_path / "report.txt").write_text("12 bytes of.")
    _, out, err = chat.ask({"line": {"call": "file", "call_id": "c", "path": str(tmp_path / "report.txt")}}, {"hear": "tool_result"},
                           {"token": "there"})
    assert out == "there\n" and re.search(r"· it gives a file: report\.txt \(12 bytes, \w+\)\n", err), err


def test_list_pages_through_everything(chat):
    chat.ask({"token": "x"})
    with chat.client() as client:
        client.event(client.chat({"hang": 1}, conversation="many"), "task.started")
        made = [client.chat("x", conversation="many", when_busy="enqueue")["task_id"] for _ in range(60)]
        status, out, _ = chat.run("--list", "--conversation", "many")
        client.call("cancel_all", conversation_id="many")
    rows = [line.split("\t")[:2] for line in out.splitlines()]
    assert status == 0 and rows[:-1] == [[f"many/{task}", "pending"] for task in reversed(made)]


def test_unreachable_gateway_is_told_at_once(chat):
    with refusing_port() as port:
        status, _, err = Command("chat", f"ws://127.0.0.1:{port}", "hi", environ=chat.environ).end()
    assert status == 1 and "cannot connect" in err
    assert "nothing listens there" in err and "holdfast serve" in err


def test_what_answers_in_another_way_is_told_in_plain_words(chat, gateway):
    port = gateway.port
    for url, why in ((f"https://127.0.0.1:{port}", "does not speak TLS (then ws://)"), (f"ws://127.0.0.1:{port}/none", "not as a gateway"),
                     ("ws://no-such-host.invalid", "no such host")):
        status, out, err = Command("chat", url, "hi", environ=chat.environ).end()
        assert (status, out) == (1, "") and "cannot connect to" in err and why in err, (url, err)


# ---------------------------------------------------------------- leaving and coming back


def test_broken_connection_is_resumed_and_starts_nothing_twice(chat, gateway):
    with Relay(gateway) as relay:
        chat.gateway = relay
        gates = [gateway.path() for _ in range(2)]
        command = chat.start(program({"token": "a"}, {"wait": gates[0]}, {"token": "b"}, {"wait": gates[1]},
                                     {"token": "c"}))
        command.until("a")
        relay.cut()
        command.until("connecting again", "err")
        open(gates[0], "w", encoding="utf-8").close()
        command.until("b")
        relay.cut()
        open(gates[1], "w", encoding="utf-8").close()
        status, out, err = command.end()
        assert (status, out) == (0, "abc\n"), err
        assert relay.accepted == 3
        assert len(chat.run("--list")[1].splitlines()) == 1


def test_text_that_a_restart_withdraws_is_told_and_said_anew(tmp_path):
    """The printed text stays, on a line of its own; the answer follows whole."""
    with contextlib.closing(m.ModelServer()) as model, Gateway({
            "models": [{"name": "m", "base_url": model.url + "/v1", "model": "m"}],
            "agents": [{"name": "a", "kind": "react", "model": "m"}]}, listen=f"127.0.0.1:{free_port()}") as gateway:
        model.script = [[m.head(), m.text("half an an"), threading.Event()]]
        command = Chat(gateway, tmp_path).start("go")
        command.until("half an an")
        model.script = [m.reply(m.text("half an answer, and the rest"), m.finish(), m.DONE)]
        gateway.kill()
        command.until("connecting again", "err")
        gateway.start()
        status, out, err = command.end()
    assert (status, out) == (0, "half an an\nhalf an answer, and the rest\n"), err
    assert "the gateway was restarted, and the task goes on; its last words come anew" in err


def test_g06_resumes_that_break_before_anything_new_came_lose_and_double_nothing(chat, gateway):
    with Relay(gateway) as relay:
        chat.gateway = relay
        gate = gateway.path()
        command = chat.start(program({"token": "a"}, {"token": "b"}, {"wait": gate}, {"token": "c"}, {"token": "d"}))
        command.until("ab")
        relay.cut_after(b'"caught_up"', 6)
        relay.cut()
        wait_until(lambda: relay.accepted >= 8, "the resume that is not cut", seconds=120)  # its pauses double
        open(gate, "w", encoding="utf-8").close()
        status, out, err = command.end()
        assert (status, out) == (0, "abcd\n"), err
        assert relay.accepted == 8 and relay.cuts_left == 0
        assert len(chat.run("--list")[1].splitlines()) == 1


@pytest.mark.parametrize("words", [["hello"], ["--resume", "c/t"]])
def test_numbers_of_a_lost_history_are_not_gone_on_from(tmp_path, words):
    """Printed text stays; the answer that the store has now follows whole, on a line of its own."""
    gateway = LostHistory()
    with beside(gateway) as port:
        gateway.host, gateway.port = "127.0.0.1", port
        status, out, err = Chat(gateway, tmp_path).run(*words)
    assert (status, out) == (0, "old\nnew\n"), err
    assert "the gateway has lost a part of this task" in err
    assert gateway.asked[-2:] == [(2, 5), (0, None)]  # with its number it had gone on behind "new"


def test_kill_of_the_gateway_is_survived(tmp_path):
    with Gateway(listen=f"127.0.0.1:{free_port()}") as gateway:
        chat = Chat(gateway, tmp_path)
        command = chat.start(program({"token": "seen"}, {"hang": 1}))
        command.until("seen")
        gateway.kill()
        command.until("connecting again", "err")
        gateway.start()
        status, out, err = command.end()
        assert (status, out) == (1, "seen\n") and "holdfast: The gateway was restarted while this ran." in err


def test_planned_stop_is_waited_for(tmp_path):
    with Gateway({"drain_s": 1}, listen=f"127.0.0.1:{free_port()}") as gateway:
        chat = Chat(gateway, tmp_path)
        command = chat.start(program({"token": "seen"}, {"hang": 1}))
        command.until("seen")
        assert gateway.stop() == 0
        gateway.start()
        status, out, err = command.end()
        assert (status, out) == (1, "seen\n") and "holdfast: The gateway was restarted while this ran." in err


def test_ctrl_c_leaves_and_says_how_to_come_back(chat, gateway):
    gate = gateway.path()
    command = chat.start(program({"token": "first"}, {"wait": gate}, {"token": "second"}))
    command.until("first")
    command.interrupt()
    status, out, err = command.end()
    assert (status, out) == (1, "first\n") and "The task continues" in err
    again = Command(*resume_command(err), environ=chat.environ)
    open(gate, "w", encoding="utf-8").close()
    assert again.end()[:2] == (0, "second\n")
    whole = "/".join(task_of(err))
    assert chat.run("--resume", whole)[:2] == (0, "firstsecond\n")
    status, out, err = chat.run("--resume", whole, "--after", "6")
    assert (status, out) == (0, "") and "ended" in err
    assert chat.run("--resume", whole, "--after", "99")[:2] == (0, "firstsecond\n")
    assert chat.run("--resume", "c-1/01ARZ3NDEKTSV4RRFFQ69G5FAV")[0] == 1


def test_cancel_ends_it_for_everybody(chat):
    command = chat.start(program({"token": "a"}, {"hang": 1}))
    command.until("a")
    command.until("task ", "err")
    task = "/".join(task_of(command.seen["err"].decode()))
    status, _, err = chat.run("--cancel", task)
    assert status == 0 and "stops" in err
    status, out, err = command.end()
    assert (status, out) == (1, "a\n") and "holdfast: It was stopped.\n" in err
    assert "ended" in chat.run("--cancel", task)[2]


def test_nobody_reads_stdout(chat, gateway):
    gate = gateway.path()
    command = chat.start(program({"token": "a"}, {"wait": gate}, {"token": "b"}, {"hang": 1}))
    command.until("a")
    out = next(end for end, name in command.ends.items() if name == "out")
    os.close(out)
    del command.ends[out]
    open(gate, "w", encoding="utf-8").close()
    assert command.end()[0] == 1


# ---------------------------------------------------------------- who asks


def test_guest_is_the_same_one_the_next_time(chat):
    chat.ask({"token": "x"})
    assert chat.token_file().stat().st_mode & 0o777 == 0o600
    assert chat.token_file().parent.stat().st_mode & 0o777 == 0o700
    chat.ask({"token": "x"})
    assert len(chat.run("--list")[1].splitlines()) == 2
    chat.token_file().chmod(0o644)
    status, out, err = chat.run("--list")
    assert (status, out) == (0, "") and "not used" in err


def test_guest_whose_key_is_gone_starts_anew(tmp_path):
    with Gateway(listen=f"127.0.0.1:{free_port()}") as gateway:
        chat = Chat(gateway, tmp_path)
        chat.ask({"token": "x"})
        gateway.stop()
        (gateway.data / "guest.key").unlink()
        gateway.start()
        assert chat.run("--list")[0] == 1
        assert chat.ask({"token": "y"})[:2] == (0, "y\n")
        assert len(chat.run("--list")[1].splitlines()) == 1


def test_tokens_of_keys(tmp_path):
    with Gateway({"auth": tokens.config(tmp_path)}) as gateway:
        chat = Chat(gateway, tmp_path)
        status, _, err = chat.ask({"token": "x"})
        assert status == 1 and "HOLDFAST_TOKEN" in err
        assert chat.run("--token", tokens.token("alice"), program({"token": "x"}))[0] == 0
        chat.environ["HOLDFAST_TOKEN"] = tokens.token("alice")
        assert len(chat.run("--list")[1].splitlines()) == 1
        chat.environ["HOLDFAST_TOKEN"] = tokens.token("bob")
        assert chat.run("--list")[:2] == (0, "")
        chat.environ["HOLDFAST_TOKEN"] = tokens.token("bob", seconds=-100)
        for given, source in (((), "HOLDFAST_TOKEN"), (("--token", "none"), "--token")):
            status, _, err = chat.run("--list", *given)
            assert status == 1 and err.startswith(f"holdfast: the gateway does not accept the token of {source}: ")
        assert not (tmp_path / "holdfast").exists() or not list((tmp_path / "holdfast").iterdir())


def test_busy_gateway_is_asked_again(tmp_path):
    with Gateway({"limits": {"tasks": 1}}) as gateway, Client(gateway) as client:
        chat = Chat(gateway, tmp_path)
        task = client.chat({"hang": 1})
        command = chat.start(program({"token": "x"}))
        command.until("busy", "err")
        client.call("cancel", **ids(task))
        assert command.end()[:2] == (0, "x\n")


def test_tls_is_checked(tmp_path):
    key, cert = str(tmp_path / "key.pem"), str(tmp_path / "cert.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    with Gateway({"tls": {"cert": cert, "key": key}}) as gateway:
        chat = Chat(gateway, tmp_path)
        url = f"https://localhost:{gateway.port}"
        status, _, err = Command("chat", url, "hi", environ=chat.environ).end()
        assert status == 1 and "not trusted" in err and "SSL_CERT_FILE" in err
        chat.environ["SSL_CERT_FILE"] = cert
        assert Command("chat", url, "hi", environ=chat.environ).end()[:2] == (0, "hi\n")


# ---------------------------------------------------------------- on a terminal


def test_terminal_is_not_at_the_agents_mercy(chat):
    evil = "a\x1b[31mb\x07c\u009bd\te"
    assert chat.ask({"token": evil})[1] == evil + "\n"  # to a file: as it is
    status, out, _ = chat.ask({"token": evil}, terminal=True)
    assert status == 0 and "a?[31mb?c?d\te\r\n" in out


def test_colours_on_a_terminal_only(chat):
    assert "\x1b" not in "".join(chat.ask({"token": "x"})[1:])
    assert "\x1b[2m" in chat.ask({"token": "x"}, terminal=True)[1]
    chat.environ["NO_COLOR"] = "1"
    assert "\x1b" not in chat.ask({"token": "x"}, terminal=True)[1]


@pytest.mark.parametrize("kind, typed, answer", [("approval", "y\n", True), ("approval", "\n", False),
                                                 ("question", "blue\n", "blue")])
def test_question_is_answered_on_the_terminal(chat, kind, typed, answer):
    command = chat.start(program({"question": "q1", "kind": kind, "prompt": "Which colour?"},
                                 {"hear": "input", "say": True}), terminal=True)
    command.until("Which colour?")
    command.type(typed)
    status, out, _ = command.end()
    assert status == 0 and f'"answer":{json.dumps(answer)}' in out, out


def test_question_without_a_terminal_is_told(chat):
    command = chat.start(program({"question": "q1", "kind": "question", "prompt": "Which?"},
                                 {"hear": "input", "say": True}))
    command.until("only be typed on a terminal", "err")
    with chat.client() as client:
        conversation, task = task_of(command.seen["err"].decode())
        client.call("respond", conversation_id=conversation, task_id=task, input_id="q1", answer="red")
    status, out, _ = command.end()
    assert status == 0 and '"red"' in out


@pytest.mark.parametrize("first", ["overloaded", "rate_limited", "invalid_request", None])
def test_answer_that_does_not_arrive_is_asked_for_again(tmp_path, first):
    gateway = AskingGateway(first)
    with beside(gateway) as port:
        gateway.host, gateway.port = "127.0.0.1", port
        command = Chat(gateway, tmp_path).start("hello", terminal=True)
        command.until("? Which?")
        command.type("red\n")
        command.until("was not accepted" if first else "connected again")
        command.until("? Which?", times=2)
        command.type("blue\n")
        status, _, _ = command.end()
    assert (status, gateway.answers) == (0, ["red", "blue"])


@pytest.mark.parametrize("first", ["conflict", "not_found"])
def test_question_that_is_over_is_not_asked_again(tmp_path, first):
    gateway = AskingGateway(first)
    with beside(gateway) as port:
        gateway.host, gateway.port = "127.0.0.1", port
        command = Chat(gateway, tmp_path).start("hello", terminal=True)
        command.until("? Which?")
        command.type("red\n")
        command.until("was not accepted")
        command.interrupt()
        _, out, _ = command.end()
    assert (out.count("? Which?"), gateway.answers) == (1, ["red"])


def test_question_of_a_lost_history_is_not_asked(tmp_path):
    gateway = AskingGateway(None)
    asks = [("task.created", {}), ("input_required", {"input_id": "lost", "kind": "question", "prompt": "Old?"})]
    gateway.epochs = [(5, asks), (6, gateway.epochs[0][1])]
    gateway.on_resume = super(AskingGateway, gateway).on_resume
    gateway.answers.append("none yet")
    with beside(gateway) as port:
        gateway.host, gateway.port = "127.0.0.1", port
        command = Chat(gateway, tmp_path).start("hello", terminal=True)
        command.until("? Which?")
        command.type("blue\n")
        status, out, _ = command.end()
    assert (status, out.count("? Old?"), gateway.answered) == (0, 1, ["q"])


def test_answer_on_a_terminal_is_lightly_styled(chat):
    said = "# T\n**b** `c`\n```\n# d\n```\ne"
    assert chat.ask({"token": said})[1] == said + "\n"
    out = chat.ask({"token": said[:8]}, {"token": said[8:]}, terminal=True)[1]
    assert "\x1b[1m# T\x1b[0m\r\n*" in out and "\x1b[36m`c`" in out and "\x1b[36m# d\x1b[0m\r\n" in out
    assert re.sub(r"\x1b\[\d+m", "", out).endswith(said.replace("\n", "\r\n") + "\r\n")
