"""Files in holdfast chat: sent with a question, saved from an answer, in a talk and without one."""

import re
import sys

import pytest

from gateway import Gateway
from holdfast import program
from relay import Relay
from talks import HINT, Chat
from terminal import Screen

READS = """import json, sys
run = json.loads(sys.stdin.readline())
said = [part["name"] + "=" + part["media_type"] + "=" + open(part["path"], "rb").read().decode("utf-8", "replace")
        for part in run.get("parts", []) if part["type"] == "file"]
print(json.dumps({"event": "final_answer", "data": {"output": run["input"] + ": " + ", ".join(said)}}))
"""


@pytest.fixture(scope="module")
def reader():
    """A gateway whose agent says what the files of a question are, and what is in them."""
    agent = {"name": "reads", "kind": "exec", "command": [sys.executable, "-c", READS], "kept": False,
             "after_restart": "fail"}
    with Gateway({"agents": [agent], "limits": {"file_mib": 2}}) as running:
        yield running


@pytest.fixture
def chat(reader, tmp_path):
    return Chat(reader, tmp_path / "state")


@pytest.fixture
def giver(gateway, tmp_path):
    """The scripted agent, which can give files."""
    return Chat(gateway, tmp_path / "state")


def file_of(folder, name="a b.txt", text="what is in it"):
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def gives(path, call_id="c"):
    return [{"line": {"call": "file", "call_id": call_id, "path": str(path)}}, {"hear": "tool_result"}]


# ---------------------------------------------------------------- without a talk


def test_attached_files_go_along_with_the_question(chat, tmp_path):
    pictured = tmp_path / "x.bin"
    pictured.write_bytes(b"\x89PNG\r\n\x1a\n" + b"x" * 20)
    others = {"n.json": "application/json", "N.CSV": "text/csv", "plain": "text/plain"}
    attached = [word for name in others for word in ("--attach", file_of(tmp_path, name, "{}"))]
    status, out, err = chat.run("--attach", file_of(tmp_path), "--attach", str(pictured), *attached, "look")
    assert status == 0, err
    assert out.startswith("look: a b.txt=text/plain=what is in it, x.bin=image/png=")
    for name, kind in others.items():
        assert f", {name}={kind}={{}}" in out
    assert "· sending a b.txt (13 bytes)\n" in err and "· a b.txt is attached\n" in err


def test_file_that_cannot_be_attached_is_a_usage_error(chat, tmp_path):
    for words, why in ((("--attach", str(tmp_path / "none"), "x"), "none: No such file or directory"),
                       (("--save", str(tmp_path / "none"), "x"), "--save: there is no folder"),
                       (("--list", "--attach", file_of(tmp_path)), "--attach is for a question"),
                       (("--list", "--save", str(tmp_path)), "--save is for the files that a task gives")):
        status, out, err = chat.run(*words)
        assert (status, out) == (2, "") and why in err and err.count("\n") == 1, err
    status, out, err = chat.run("--attach", str(tmp_path), "x")
    assert (status, out) == (1, "") and "is not attached: it is a folder" in err


def test_file_that_the_gateway_refuses_asks_nothing(chat, tmp_path):
    status, out, err = chat.run("--attach", file_of(tmp_path, "big", "x" * (3 << 20)), "look")
    assert (status, out) == (1, "") and "holdfast: big is not attached: " in err
    assert chat.run("--list")[:2] == (0, "")


def test_continue_attaches_in_the_conversation_that_goes_on(chat, tmp_path):
    chat.run("--conversation", "c-1", "first")
    assert chat.run("--continue", "--attach", file_of(tmp_path), "second")[1].endswith("=what is in it\n")
    assert len(chat.run("--list", "--conversation", "c-1")[1].splitlines()) == 2


def test_cut_transfers_go_on_where_they_were(gateway, tmp_path):
    body = "0123456789abcdef" * (1 << 17)
    sent = file_of(tmp_path, "long.txt", body)
    with Relay(gateway, keeps=True) as relay:
        talk = Chat(relay, tmp_path / "state").talk(columns=400)
        relay.cut_after_bytes([700_000, 10 ** 9, 600_000])  # of the PATCH, the HEAD before it, the POST
        talk.type(f"/attach {sent}\n")
        talk.until_lines("· long.txt is attached", "(1 file) >")
        assert relay.n_spent == 2 and b"PATCH" in relay.asked
        assert len(relay.asked) < 2 * len(body)
        talk.type(program({"token": "x"}) + "\n")
        talk.until_lines("x", ">")
        relay.cut_after_bytes([600_000, 900_000])
        talk.type(f"/save 1 {tmp_path / 'copy'}\n")
        talk.until_lines(f"· {tmp_path / 'copy'} is saved ({len(body)} bytes)", ">")
        assert relay.n_spent == 4 and (tmp_path / "copy").read_text() == body
        talk.type("\x04")
        assert talk.end()[0] == 0


def test_ctrl_c_ends_a_transfer_and_leaves_nothing_half(gateway, tmp_path):
    with Relay(gateway) as relay:
        talk = Chat(relay, tmp_path / "state").talk(columns=400)
        talk.type(program(*gives(file_of(tmp_path)), {"token": "there"}) + "\n")
        talk.until_lines("there", ">")
        relay.swallow()
        talk.type(f"/attach {file_of(tmp_path, 'other')}\nlook\n")
        talk.until_lines("· sending other (13 bytes)", "(1 waiting)")
        talk.type("\x03")
        talk.until_lines("other is not attached: it was stopped", "> look")
        talk.type(f"\x15/save 1 {tmp_path / 'copy'}\n")
        talk.until_lines(f"> /save 1 {tmp_path / 'copy'}", ">")
        talk.type("\x03")
        talk.until_lines(f"{tmp_path / 'copy'} is not saved: it was stopped", ">")
        talk.type(f"/save 1 {tmp_path / 'copy'}\n")
        talk.until_lines(f"> /save 1 {tmp_path / 'copy'}", ">")
        talk.type("\x04")
        status, out, _ = talk.end()
        assert status == 0 and "copy is not saved" in out and not (tmp_path / "copy").exists()


def test_given_files_are_saved_under_names_of_their_own(giver, tmp_path):
    saved = tmp_path / "saved"
    saved.mkdir()
    made = file_of(tmp_path, "report.txt", "12 bytes of.")
    other = file_of(tmp_path, ".hidden", "x")
    status, out, err = giver.run("--save", str(saved), program(*gives(made, "c1"), *gives(made, "c2"), *gives(other, "c3"),
                                                                {"token": "there"}))
    assert (status, out) == (0, "there\n"), err
    assert f"· {saved}/report.txt is saved (12 bytes)\n" in err
    assert {path.name: path.read_text() for path in saved.iterdir()} == {
        "report.txt": "12 bytes of.", "report-2.txt": "12 bytes of.", "_hidden": "x"}
    task = re.search(r"task ([\w-]+/\w+)", err)[1]
    status, _, err = giver.run("--resume", task, "--save", str(saved))
    assert status == 0 and (saved / "report-4.txt").exists(), err


def test_file_that_cannot_be_saved_is_a_failure(giver, tmp_path):
    status, out, err = giver.run("--save", "/proc", program(*gives(file_of(tmp_path)), {"token": "there"}))
    assert (status, out) == (1, "there\n") and "/proc/a b.txt is not saved: " in err


# ---------------------------------------------------------------- in a talk


def test_talk_attaches_and_the_next_question_has_the_file(chat, tmp_path):
    talk = chat.talk(columns=400)
    path = file_of(tmp_path)
    talk.type(f"/attach {path}\n")
    talk.until_lines(f"> /attach {path}", "· sending a b.txt (13 bytes)", "· a b.txt is attached", "(1 file) >")
    talk.type("look\n")
    talk.until_lines("> look", "look: a b.txt=text/plain=what is in it", ">")
    talk.type("again\n")
    talk.until_lines("> again", "again:", ">")
    talk.type(f"/attach {path}\nthen\n")  # the question waits for its file
    talk.until_lines("then: a b.txt=text/plain=what is in it", ">")
    talk.type(f"/attach {path}\n")
    talk.until_lines("(1 file) >")
    talk.type("/detach\n")
    talk.until_lines("· nothing is attached now", ">")
    talk.type(f"/attach {path}\n")
    talk.until_lines("(1 file) >")
    talk.type("/new\n")
    talk.until_lines("> /new", "· the attached files stay behind", "· a new conversation", ">")
    talk.type("alone\n")
    talk.until_lines("> alone", "alone:", ">")
    talk.type("\x04")
    assert talk.end()[0] == 0


@pytest.mark.parametrize("typed", ["'{}'", '"{}"', "quoted"])
def test_path_is_taken_as_a_terminal_drops_it(chat, tmp_path, typed):
    path = file_of(tmp_path)
    typed = path.replace(" ", "\\ ") if typed == "quoted" else typed.format(path)
    talk = chat.talk(columns=400)
    talk.type(f"/attach {typed}\n")
    talk.until_lines("· a b.txt is attached", "(1 file) >")
    talk.type("\x04")
    assert talk.end()[0] == 0


def test_file_that_cannot_be_attached_gives_the_question_back(chat, tmp_path):
    talk = chat.talk(columns=400)
    for typed, why in ((tmp_path / "none", "No such file or directory"), (tmp_path, "it is a folder"), ("/dev/null", "it is no plain file")):
        talk.type(f"/attach {typed}\n")
        talk.until_lines(f"{typed} is not attached: {why}", ">")
    path = file_of(tmp_path, "big", "x" * (3 << 20))
    talk.type(f"/attach {path}\nlook\n")
    talk.until_lines("> look")
    assert any(line.startswith("big is not attached: ") for line in talk.lines())
    talk.type("\x15/attach\n")
    talk.until_lines("it is used like this:", "/attach PATH         sends a file along with the next question", ">")
    talk.type("\x04")
    assert talk.end()[0] == 0 and chat.run("--list")[:2] == (0, "")


def test_tab_completes_paths(chat, tmp_path):
    for name in ("report one.txt", "report two.txt", "röst.md", ".hidden", "bad\x1bname", "~tilde"):
        file_of(tmp_path, name)
    (tmp_path / "folder").mkdir()
    file_of(tmp_path / "folder", "within")
    chat.environ["HOME"] = str(tmp_path)
    talk = chat.talk(columns=400)
    talk.type("/att\t ~/re\t")
    talk.until_lines("> /attach ~/report")
    talk.type("\t")
    talk.until_lines("report one.txt", "report two.txt", "> /attach ~/report")
    talk.type("o\t")
    talk.until_lines("> /attach ~/report one.txt")
    talk.type("\x15/attach ~/f\t")
    talk.until_lines("> /attach ~/folder/")
    talk.type("\t")
    talk.until_lines("> /attach ~/folder/within")
    talk.type("\x15/attach ~/.h\t")
    talk.until_lines("> /attach ~/.hidden")
    talk.type("\x15/attach ~/b\tx")
    talk.until_lines("> /attach ~/bx")
    talk.type("\x15/attach ~\tx")
    talk.until_lines("> /attach ~x")
    talk.type("\x15/save 1 ~/rö\t")
    talk.until_lines("> /save 1 ~/röst.md")
    talk.type("\x15/attach ~/re\to\t\n")
    talk.until_lines("· report one.txt is attached", "(1 file) >")
    talk.type("\x04")
    assert talk.end()[0] == 0


def test_talk_saves_what_the_agent_gives(giver, tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    made = file_of(tmp_path, "report.txt", "12 bytes of.")
    talk = Screen("chat", giver.url, environ=giver.environ, columns=400, within=("env", "-C", str(here)))
    talk.until_lines(HINT, ">")
    talk.type("/save\n")
    talk.until_lines("this talk has no files yet", ">")
    talk.type(program(*gives(made), {"token": "there"}) + "\n")
    talk.until_lines("there", ">")
    assert "· it gives a file: report.txt (12 bytes, /save 1)" in talk.lines()
    talk.type("/save\n")
    talk.until_lines("> /save", "1  report.txt (12 bytes)", ">")
    talk.type("/save 1\n")
    talk.until_lines("· report.txt is saved (12 bytes)", ">")
    talk.type("/save 1\n")
    talk.until_lines("report.txt is not saved: it exists already", ">")
    talk.type("/save 1 other name.txt\n")
    talk.until_lines("· other name.txt is saved (12 bytes)", ">")
    talk.type(f"/save 1 {tmp_path / 'state'}\n")
    talk.until_lines(f"· {tmp_path}/state/report.txt is saved (12 bytes)", ">")
    talk.type("/save 2\n")
    talk.until_lines("there is no file 2; /save lists those that there are", ">")
    talk.type("\x04")
    assert talk.end()[0] == 0
    assert {path.name: path.read_text() for path in here.iterdir()} == {
        "report.txt": "12 bytes of.", "other name.txt": "12 bytes of."}


def test_files_of_earlier_questions_are_known_to_the_next_talk(chat, tmp_path):
    chat.run("--conversation", "c-9", "--attach", file_of(tmp_path), "look")
    talk = Screen("chat", chat.url, "--conversation", "c-9", environ=chat.environ, columns=400)
    talk.until_lines(HINT, "> look", "· with a file: a b.txt (13 bytes, /save 1)", "look: a b.txt=text/plain=what is in it", ">")
    talk.type(f"/save 1 {tmp_path / 'copy'}\n")
    talk.until_lines(f"· {tmp_path / 'copy'} is saved (13 bytes)", ">")
    talk.type("\x04")
    assert talk.end()[0] == 0 and (tmp_path / "copy").read_text() == "what is in it"
