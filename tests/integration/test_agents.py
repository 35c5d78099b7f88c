"""exec agents: what they are given, and every way in which they can end (PROTOCOL.md 8)."""

import json
import os
import time

import pytest

from gateway import LATE_S, SANITIZE, SCALE, STORE, Gateway, script_agent, wait_until
from holdfast import Client, ids, names, new_id, text_of

SHORT_S = 2 + 2 * SCALE  # a time-out that is reached soon, and in which an agent comes to say something all the same
CONFIG = {
    "agents": [
        script_agent(default=True, env={"MY_KEY": "my value"}),
        script_agent("hurried", timeout_s=SHORT_S),
        script_agent("idle", idle_timeout_s=SHORT_S),
        {"name": "missing", "kind": "exec", "command": ["/nonexistent/program"]},
        {"name": "cat", "kind": "exec", "command": ["/bin/cat"]},
        {"name": "true", "kind": "exec", "command": ["/bin/true"]},
        {"name": "false", "kind": "exec", "command": ["/bin/false"]},
        {"name": "sh", "kind": "exec", "command": ["/bin/sh", "-c", "read line; echo oops >&2; exit 7"]},
    ],
}


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def failed(client, *steps, code="agent_error", **fields):
    """A task that must fail: (record, events)."""
    task, events = client.finish(*steps, **fields)
    assert task["status"] == "failed", task
    end = events[-1]
    assert end["event"] == "task.failed" and end["data"]["status"] == "failed"
    assert task["error"] == end["data"]["error"]
    assert task["error"]["code"] == code
    assert code in task["error"]["message"]
    assert "cancel" not in end["data"] or end["data"]["cancel"] is None
    return task, events


# ------------------------------------------------------------------ what it is given


def test_run_line(client):
    path = client.gateway.path()
    task, _ = client.finish({"dump": path}, metadata={"a": 1})
    run = load(path)["run"]
    assert run["type"] == "run"
    assert (run["task_id"], run["conversation_id"]) == (task["task_id"], task["conversation_id"])
    assert json.loads(run["input"]) == [{"dump": path}]
    assert run["history"] == [] and run["metadata"] == {"a": 1}
    assert "parent" in run


def test_environment_is_path_home_lang_and_its_own(client):
    path = client.gateway.path()
    client.finish({"dump": path})
    environ = load(path)["environ"]
    assert environ["MY_KEY"] == "my value"
    # LC_CTYPE is what Python adds by itself.
    assert set(environ) <= {"PATH", "HOME", "LANG", "MY_KEY", "HOLDFAST_TEST_MARK", "LC_CTYPE"}


def test_descriptors_are_only_its_three(client, clients):  # F26
    clients()
    path = client.gateway.path()
    client.finish({"dump": path})
    found = load(path)
    assert set(found["fds"]) <= {"0", "1", "2"}
    assert all(target.startswith(("pipe:", "socket:", "/dev/null")) for target in found["fds"].values())
    assert found["pgid"] == found["pid"]  # its own group


# ------------------------------------------------------------------ how it ends


def test_exit_zero_completes_with_the_tokens_joined(client):
    task, events = client.finish({"token": "a"}, {"thinking": "x"}, {"token": "b"})
    assert task["output"] == "ab"
    assert names(events)[-2:] == ["final_answer", "task.completed"]  # added by the gateway
    assert events[-2]["data"]["output"] == "ab"


def test_own_final_answer_counts_and_none_is_added(client):
    task, events = client.finish({"token": "draft"}, {"final_answer": "answer"})
    assert task["output"] == "answer"
    assert names(events).count("final_answer") == 1


def test_nothing_said_is_an_empty_answer(client):
    task, events = client.finish({"sleep_ms": 1})
    assert task["status"] == "completed" and not task.get("output")
    assert names(events)[:2] == ["task.created", "task.started"]
    assert events[-1]["event"] == "task.completed"


@pytest.mark.parametrize("status", [1, 3, 126, 255])
def test_exit_status_is_named(client, status):
    task, _ = failed(client, {"token": "x"}, {"exit": status})
    assert str(status) in task["error"]["message"]
    assert task["output"] == "x"


@pytest.mark.parametrize("signal,name", [(9, "9"), (11, "11"), (15, "15")])
def test_signal_is_named(client, signal, name):
    task, _ = failed(client, {"kill": signal})
    message = task["error"]["message"].lower()
    assert name in message or {9: "kill", 11: "seg", 15: "term"}[signal] in message


def test_death_in_the_middle_of_a_line_is_told_as_what_it_is(client):
    """Not as the torn line: the status and stderr say what the user can act on."""
    torn = '{"event":"token","data":{"te'
    task, _ = failed(client, {"token": "x"}, {"raw": torn}, {"stderr": "Traceback: why\n"}, {"exit": 3})
    assert "exit status 3: Traceback: why" in task["error"]["message"] and task["output"] == "x"
    task, _ = failed(client, {"token": "x"}, {"raw": torn}, {"kill": 9})
    assert "SIGKILL" in task["error"]["message"] and task["output"] == "x"
    task, _ = failed(client, {"raw": torn})
    assert "not JSON" in task["error"]["message"]
    task, _ = failed(client, {"raw": '{"event":"token","data":{"text":"whole"}}'}, {"exit": 3})
    assert task["output"] == "whole"


def test_short_errors_keep_the_agents_words_in_the_log(tmp_path):
    """Programs that end, cannot be started or do not answer: the user is told that it broke off, the log why."""
    refused = {"name": "far", "kind": "http", "url": "http://127.0.0.1:9/secret-path", "retries": 0}
    with Gateway({**CONFIG, "agents": [*CONFIG["agents"], refused], "errors": "short"}) as gateway, Client(gateway) as client:
        for agent, steps, why in ((None, ({"token": "x"}, {"stderr": "Traceback: in /srv/key.py\n"}, {"exit": 3}),
                                   "exit status 3: Traceback: in /srv/key.py"),
                                  ("missing", ("hi",), "/nonexistent/program"), ("sh", ("hi",), "exit status 7"),
                                  ("far", ("hi",), "127.0.0.1")):
            task, events = failed(client, *steps, **({"agent": agent} if agent else {}))
            assert task["error"] == {"code": "agent_error", "message": "agent_error: the agent broke off"}, agent
            assert why not in json.dumps([task, events])
            gateway.logged("component=task", "event=failed", f"agent={agent or CONFIG['agents'][0]['name']}", why)


def test_failure_after_final_answer_keeps_that_text(client):
    task, events = failed(client, {"token": "draft"}, {"final_answer": "answer"}, {"exit": 1})
    assert task["output"] == "answer" == events[-1]["data"]["output"]
    message = client.call("history", conversation_id=task["conversation_id"])["messages"][-1]
    assert (message["content"], message["partial"]) == ("answer", True)


def test_stderr_tail_is_in_the_message(client):
    task, _ = failed(client, {"stderr": "lost" * 2000 + "\nTraceback: the last words\n"}, {"exit": 1})
    assert "the last words" in task["error"]["message"]
    assert len(task["error"]["message"]) < 8192


def test_stderr_alone_is_no_failure(client):
    task, _ = client.finish({"stderr": "just a warning\n"}, {"token": "x"})
    assert task["status"] == "completed"


def test_stderr_that_is_not_utf8_and_large(client):
    task, _ = failed(client, {"repeat": 50, "steps": [{"stderr": "é" * 3000}]}, {"exit": 1})
    assert "é" in task["error"]["message"]


def test_program_that_does_not_exist(client):
    task, _ = failed(client, "x", agent="missing")
    assert "/nonexistent/program" in task["error"]["message"] or "No such file" in task["error"]["message"]


def test_other_programs(client):
    assert client.finish("x", agent="true")[0]["status"] == "completed"
    failed(client, "x", agent="false")
    task, _ = failed(client, "x", agent="sh")
    assert "7" in task["error"]["message"] and "oops" in task["error"]["message"]


def test_program_that_prints_no_events(client):
    failed(client, "x", agent="cat")  # it says the run line back


def test_one_that_never_reads_its_input(client):
    task, _ = client.finish("x" * 60000, agent="true")
    assert task["status"] == "completed"


# ------------------------------------------------------------------ lines

BAD_LINES = [  # what is printed, and what the error names
    ("rubbish\n", None),
    ("[1]\n", None),
    ('"text"\n', None),
    ("{}\n", None),
    ('{"event":7,"data":{}}\n', "event"),
    ('{"event":"dance","data":{}}\n', "dance"),
    ('{"call":"dance","call_id":"c"}\n', "dance"),
    ('{"event":"task.completed","data":{"output":"x"}}\n', "task.completed"),
    ('{"event":"task.failed","data":{}}\n', "task.failed"),
    ('{"event":"task.created","data":{}}\n', "task.created"),
    ('{"event":"task.started","data":{}}\n', "task.started"),
    ('{"event":"message","data":{"from":"user","content":"x"}}\n', "message"),
    ('{"event":"input_received","data":{}}\n', "input_received"),
    ('{"event":"child","data":{}}\n', "child"),
    ('{"event":"token","data":{}}\n', "text"),
    ('{"event":"token"}\n', "data"),
    ('{"event":"token","data":{"text":7}}\n', "text"),
    ('{"event":"token","data":"x"}\n', "data"),
    ('{"event":"thinking","data":{"text":null}}\n', "text"),
    ('{"event":"final_answer","data":{}}\n', "output"),
    ('{"event":"progress","data":{"progress":"half"}}\n', "progress"),
    ('{"event":"progress","data":{"progress":1.5}}\n', "progress"),
    ('{"event":"progress","data":{"progress":-0.1}}\n', "progress"),
    ('{"event":"token","data":{"text":"a"},"data":{"text":"b"}}\n', None),
    ('{"event":"token","data":{"text":"a"}} x\n', None),
    ('{"event":"token","data":{"text":"cut', None),
    ("[" * 50000 + "\n", None),
]


@pytest.mark.parametrize("text,named", BAD_LINES, ids=range(len(BAD_LINES)))
def test_bad_line_fails_the_task_and_is_named(client, text, named):
    task, events = failed(client, {"token": "before"}, {"raw": text}, {"sleep_ms": 1})
    assert task["output"] == "before"
    assert names(events)[:3] == ["task.created", "task.started", "token"]
    if named:
        assert named in task["error"]["message"]


def test_one_that_dies_or_prints_rubbish_harms_nobody(client):
    gate = client.gateway.path()
    good = client.chat({"token": "a"}, {"wait": gate}, {"token": "b"})
    for steps in ([{"kill": 11}], [{"raw": "\x00\x01\n" * 1000}], [{"hex": "ff" * 5000 + "0a"}]):
        task, _ = client.finish(*steps)
        assert task["status"] == "failed"
    open(gate, "w", encoding="utf-8").close()
    assert client.wait_terminal(good)["data"]["output"] == "ab"


def test_bad_line_stops_a_running_agent(client):
    task, _ = failed(client, {"raw": "rubbish\n"}, {"hang": 1})
    assert task["completed_at"] - task["created_at"] < 20000


def test_unknown_members_are_ignored(client):
    task, _ = client.finish({"raw": '{"x":[1],"event":"token","data":{"text":"a","more":1},"y":{}}\n'})
    assert task["output"] == "a"


def test_empty_lines_and_missing_last_newline(client):
    task, _ = client.finish({"raw": '\n\n{"event":"token","data":{"text":"a"}}\n\n'},
                            {"raw": '{"event":"token","data":{"text":"b"}}'})
    assert task["output"] == "ab"


def test_line_written_in_pieces(client):
    line = '{"event":"token","data":{"text":"é😀"}}\n'.encode()
    task, _ = client.finish(*({"hex": bytes([byte]).hex()} for byte in line))
    assert task["output"] == "é😀"


def test_line_of_almost_1_mib_travels_alone_and_whole(client, clients):
    n = 1024 * 1024 - 300
    task, events = client.finish({"token": "a"}, {"line_of": n}, {"token": "b"}, {"final_answer": "ok"})
    assert len(events[3]["data"]["text"]) == n
    replayed = clients(token=client.token)
    assert replayed.replay(task) == events
    assert replayed.raw_events(task) == client.raw_events(task)


@pytest.mark.parametrize("n, code", [(1024 * 1024 + 1, "limit"), (5 * 1024 * 1024, "agent_error")])
def test_line_beyond_1_mib_fails_the_task_and_says_so(client, n, code):
    task, events = failed(client, {"token": "a"}, {"line_of": n}, code=code)
    assert "1 MiB" in task["error"]["message"]
    assert [event["event"] for event in events][2:] == ["token", "task.failed"]


@pytest.mark.parametrize("text", ["日", "😀"])
def test_line_is_as_long_as_its_event(client, text):
    """With Python's json, a line of letters beyond ASCII takes two to three times its event's bytes."""
    n = 900_000 // len(text.encode())
    line = json.dumps({"event": "token", "data": {"text": text * n}})
    assert len(line) > 1024 * 1024
    task, events = client.finish({"raw": '{"event":"token","data":{"text":"'},
                                 {"repeat": n // 100, "steps": [{"raw": json.dumps(text * 100)[1:-1]}]},
                                 {"raw": '"}' + " " * 1000 + "}\n"}, {"final_answer": "ok"})
    assert task["status"] == "completed", task
    assert events[2]["data"]["text"] == text * (n // 100 * 100)


def test_line_without_end_is_bounded(gateway, client):
    rss = gateway.rss()
    failed(client, {"repeat": 64, "steps": [{"raw": "x" * 50}]}, {"hex": "78"},
           {"line_of": 50_000_000})
    if not SANITIZE:
        assert gateway.rss() - rss < 16 << 20


def test_escapes_that_grow_the_line_are_counted(client):
    """A control character takes six bytes in JSON: the event's line is what counts."""
    task, _ = client.finish({"raw": '{"event":"token","data":{"text":"' + "\\u0001" * 5000 + '"}}\n'})
    assert task["output"] == "\u0001" * 5000


# ------------------------------------------------------------------ bytes (F27, F55)


def test_bytes_that_are_not_utf8(client, clients):
    def token_of(raw):
        return {"hex": (b'{"event":"token","data":{"text":"' + raw + b'"}}\n').hex()}

    half = '{"event":"token","data":{"text":"😀"}}\n'.encode()
    task, events = client.finish(
        token_of(b"clean"), token_of(b"caf\xe9."), {"hex": half[:35].hex()}, {"sleep_ms": 30},
        {"hex": half[35:].hex()}, token_of(b"a\\u0000b"), token_of(b"\xf0\x9f" * 10), token_of(b"end"))
    assert task["status"] == "completed", task
    texts = [event["data"]["text"] for event in events if event["event"] == "token"]
    assert texts[0] == "clean" and texts[-1] == "end"
    assert texts[1].startswith("caf\ufffd") and texts[2] == "😀" and texts[3] == "a\u0000b"
    assert set(texts[4]) == {"\ufffd"}
    again = clients(token=client.token)
    assert again.replay(task) == events and again.raw_events(task) == client.raw_events(task)


def test_raw_nul_or_rubbish_ends_only_that_task(client):
    for raw in (b'{"event":"token","data":{"text":"a\x00b"}}\n', os.urandom(1000) + b"\n"):
        failed(client, {"token": "x"}, {"hex": raw.hex()})
    client.quiet()


def test_half_of_an_emoji_is_replaced(client, clients):
    task, events = client.finish({"raw": '{"event":"token","data":{"text":"a\\ud83d."}}\n'},
                                 {"raw": '{"event":"custom","data":{"event_type":"\\udc00","payload":{"\\ud83d":"\\ud83d\\ude00"}}}\n'})
    assert events[2]["data"]["text"] == "a\ufffd."
    assert events[3]["data"]["event_type"] == "\ufffd"
    assert events[3]["data"]["payload"] == {"\ufffd": "😀"}
    for _ in range(5):
        again = clients(token=client.token)
        assert again.replay(task, 1) == events[1:]


def test_numbers_pass_through_as_written(client):
    numbers = "[1.0,1e400,-0,0.10,12345678901234567890123,1E+2,9007199254740993]"
    task, _ = client.finish({"raw": '{"event":"custom","data":{"event_type":"n","payload":%s}}\n' % numbers})
    assert numbers in client.raw_events(task)[3]


# ------------------------------------------------------------------ time-outs


def test_timeout_fails_the_task(client):
    begun = time.monotonic()
    task, _ = failed(client, {"token": "a"}, {"repeat": 4000, "steps": [{"thinking": "."}, {"sleep_ms": 20}]},
                     code="timeout", agent="hurried")
    assert task["output"] == "a"
    assert SHORT_S - 0.2 < time.monotonic() - begun < SHORT_S + LATE_S


def test_idle_timeout_fails_the_task(client):
    task, _ = failed(client, {"token": "a"}, {"hang": 1}, code="timeout", agent="idle")
    assert task["output"] == "a"


def test_events_keep_the_idle_clock_off(client):
    task, _ = client.finish({"repeat": 50, "steps": [{"token": "."}, {"sleep_ms": 25 * SHORT_S}]}, agent="idle")
    assert task["status"] == "completed"


def test_timeout_of_one_that_ignores_sigterm(client):
    task, _ = failed(client, {"ignore_term": 1}, {"hang": 1}, code="timeout", agent="idle")
    assert task["status"] == "failed"


# ------------------------------------------------------------------ backpressure and limits


def test_fast_agent_is_slowed_not_buffered(gateway, client):
    client.quiet()
    rss = gateway.rss()
    task = client.chat({"flood": 400_000, "bytes": 100})
    client.call("unsubscribe", **ids(task))
    peak = 0

    def ended():
        nonlocal peak
        peak = max(peak, gateway.rss())
        return client.task(task)["status"] == "completed"

    wait_until(ended, "the end of the flood", 120)
    if not SANITIZE:
        most = 96 + (64 if STORE == "postgres" else 0)  # cache of blocks: 64 MiB; store.redo_mib: 64
        assert (peak - rss) >> 20 < most
    assert client.task(task)["head"] == 400_004


def test_task_events_limit():
    with Gateway({"limits": {"task_events": 1000}}) as gateway, Client(gateway) as client:
        task, events = client.finish({"flood": 5000})
        assert task["status"] == "failed" and task["error"]["code"] == "limit"
        assert len(events) <= 1002


def test_task_bytes_limit():
    with Gateway({"limits": {"task_bytes": 1 << 20}}) as gateway, Client(gateway) as client:
        task, events = client.finish({"flood": 5000, "bytes": 1000})
        assert task["status"] == "failed" and task["error"]["code"] == "limit"
        assert len(text_of(events)) <= 1 << 20


def test_processes_limit_keeps_tasks_pending():
    with Gateway({"limits": {"processes": 2}}) as gateway, Client(gateway) as client:
        gates = [gateway.path() for _ in range(3)]
        tasks = [client.chat({"wait": gate}) for gate in gates]
        client.event(tasks[0], "task.started")
        client.event(tasks[1], "task.started")
        assert client.task(tasks[2])["status"] == "pending"
        open(gates[0], "w", encoding="utf-8").close()
        client.wait_terminal(tasks[0])
        client.event(tasks[2], "task.started")
        for gate in gates[1:]:
            open(gate, "w", encoding="utf-8").close()
        for task in tasks[1:]:
            client.wait_terminal(task)


def test_many_agents_at_once(client):
    conversation = new_id()
    tasks = [client.chat(f"n{i}", conversation=conversation) for i in range(60)]
    for i, task in enumerate(tasks):
        assert client.wait_terminal(task)["data"]["output"] == f"n{i}"
