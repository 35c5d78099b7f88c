"""Lines that a background process is watched for: each is looked at once, however it was printed."""

import pathlib

import pytest

import commands
from commands import background, notices, process, run, start, told, turns_of
from gateway import Gateway, wait_until
from holdfast import Client

FILLER = "yes 'nothing to see in this line' | head -c"


model = commands.served


@pytest.fixture(scope="module")
def gateway(model):
    with Gateway(commands.config(model)) as running:
        yield running


@pytest.fixture
def own(model):
    """A gateway that the test may kill."""
    with Gateway(commands.config(model)) as running:
        yield running


def until(path):
    """A command that ends when that file is there."""
    return f"while [ ! -e {path} ]; do sleep 0.02; done"


def kill(client, conversation, started):
    run(client, process("kill", started["session_id"]), conversation=conversation)


@pytest.mark.parametrize("end", ["", "\\n"])
def test_last_line_is_matched_when_its_process_has_ended(client, end):
    conversation, _ = start(client, f"printf 'fine\\nREADY on 8080{end}'", watch_patterns=["READY"])
    (text,) = told(client, conversation)
    assert "has printed lines that you watch for" in text and text.endswith("\nREADY on 8080")


def test_line_is_not_taken_before_its_end_has_come(client, gateway):
    gate = gateway.path()
    conversation, started = start(client, f"printf 'ERROR part'; {until(gate)}; echo ' and rest'; exec sleep 1000",
                                  watch_patterns=["ERROR", "rest"])
    wait_until(lambda: "part" in run(client, process("poll", started["session_id"]),
                                     conversation=conversation)[0]["output_preview"], "its first part")
    pathlib.Path(gate).touch()
    (text,) = told(client, conversation)
    assert text.endswith("\nERROR part and rest")
    kill(client, conversation, started)


def test_last_line_of_a_process_that_ended_while_the_gateway_was_down_is_told_once(own):
    gate, ended = own.path(), own.path()
    with Client(own) as client:
        conversation, started = start(client, f"{until(gate)}; printf 'ERROR at last'", watch_patterns=["ERROR"])
    status = own.data / "processes" / started["session_id"] / "status"
    own.kill()
    pathlib.Path(gate).touch()
    wait_until(lambda: '"state":"exited"' in status.read_text(encoding="utf-8"), "its end")
    own.start()
    with Client(own, token=client.token) as again:
        (text,) = told(again, conversation)
        assert text.endswith("\nERROR at last")
    own.stop()
    own.start()
    with Client(own, token=client.token) as again:
        run(again, process("poll", started["session_id"]), conversation=conversation)
        assert len(turns_of(again, conversation)) == 1
        assert sum("ERROR at last" in text for text in notices(again, conversation)) == 1
    assert not pathlib.Path(ended).exists()


def test_end_is_told_when_lines_were_left_out_before_it(client, gateway):
    """The second line falls into the window of the first one, and no later notice could count it."""
    gate = gateway.path()
    conversation, started = start(client, f"echo ERROR one; {until(gate)}; echo ERROR two; exit 3",
                                  watch_patterns=["ERROR"])
    (first,) = told(client, conversation)
    assert first.endswith("\nERROR one")
    pathlib.Path(gate).touch()
    _, end = told(client, conversation, 2)
    assert started["session_id"] in end and "has exited with status 3" in end and end.endswith("ERROR two\n")


def test_end_is_not_told_when_all_its_lines_were(client):
    conversation, started = start(client, "echo ERROR one", watch_patterns=["ERROR"])
    told(client, conversation)
    run(client, process("wait", started["session_id"]), conversation=conversation)
    assert len(notices(client, conversation)) == 1


def test_line_between_much_output_is_found(client):
    """More than one look takes; less than the ring keeps."""
    conversation, started = start(client, f"{FILLER} 320000; echo; echo READY here; {FILLER} 320000; exec sleep 1000",
                                  watch_patterns=["READY"])
    (text,) = told(client, conversation)
    assert text.endswith("\nREADY here")
    kill(client, conversation, started)


def test_text_in_a_line_that_is_longer_than_a_look_is_found(client):
    """65,536 bytes count as a line; the text lies across that place."""
    conversation, _ = start(client, "head -c 65533 /dev/zero | tr '\\0' x; echo 'READY now'; exec sleep 1000",
                            watch_patterns=["READY now"])
    (text,) = told(client, conversation)
    assert "printed lines that you watch for" in text


def test_state_of_a_line_that_is_written_over_is_matched(client):
    conversation, _ = start(client, "printf 'at 10%%\\rat 50%%\\rat 90%%\\rdone   \\n'", watch_patterns=["50%"])
    (text,) = told(client, conversation)
    assert text.endswith("\nat 50%")


def test_output_that_was_written_over_unseen_is_said_to_be(own):
    gate, printed = own.path(), own.path()
    with Client(own) as client:
        conversation, started = start(client, f"{until(gate)}; {FILLER} 2000000; touch {printed}; echo; echo READY; "
                                      "exec sleep 1000", watch_patterns=["READY"])
        own.kill()
        pathlib.Path(gate).touch()
        wait_until(lambda: pathlib.Path(printed).exists(), "its output")
        own.start()
    with Client(own, token=client.token) as again:
        (text,) = told(again, conversation)
        assert "overwritten before it was examined" in text and text.endswith("\nREADY")
        kill(again, conversation, started)


def record_of_a_look(gateway, started, position):
    """The gateway's record when it has examined these first bytes, and has not told about them yet."""
    path = gateway.data / "processes" / started["session_id"] / "watch"
    path.write_text(f"{position:020} {1:010} {0:010} {0:020} {0:020}\n", encoding="utf-8")


@pytest.mark.parametrize("was_told", [False, True])
def test_kill_between_a_look_and_the_notice_tells_the_lines_once(own, was_told):
    gate, printed, line = own.path(), own.path(), "ERROR here\n"
    with Client(own) as client:
        conversation, started = start(client, f"{until(gate)}; echo {line.strip()}; touch {printed}; exec sleep 1000",
                                      watch_patterns=["ERROR"])
        if was_told:
            pathlib.Path(gate).touch()
            told(client, conversation)
    own.kill()
    pathlib.Path(gate).touch()
    wait_until(lambda: pathlib.Path(printed).exists(), "its line")
    record_of_a_look(own, started, len(line))
    own.start()
    with Client(own, token=client.token) as again:
        (text,) = told(again, conversation)
        assert text.endswith("\nERROR here")
        kill(again, conversation, started)
        assert sum("ERROR here" in text for text in notices(again, conversation)) == 1
