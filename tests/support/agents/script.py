#!/usr/bin/env python3
"""The scripted exec agent: the input of its run is the program that it carries out.

The input is a JSON array of steps, each an object with one verb (the table at the end lists them)
and sometimes options beside it.  Any other input is said back as one token.  Nothing here waits for
a time where a test could wait for an event instead: "touch" and "wait" are the two directions.
"""

import json
import os
import signal
import subprocess
import sys
import time

POLL_S = 0.005
out = sys.stdout.buffer
heard = []  # the objects that came on stdin after the run
waiting = []  # those of them that came while a call waited for its answer
children = {}  # the ids of those that it spawned, by the label that its program gave them


def write(data):
    out.write(data)
    out.flush()


def say(line):
    write(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")


def event(name, data):
    say({"event": name, "data": data})


def hear():
    return waiting.pop(0) if waiting else hear_more()


def hear_more():
    line = sys.stdin.buffer.readline()
    if not line:
        return None
    heard.append(json.loads(line))
    return heard[-1]


# ------------------------------------------------------------------ steps


def hear_until(step):
    """{"hear": "message"}: reads stdin until a line of that type; "say": true tells it as a token."""
    while True:
        line = hear()
        if line is None or line["type"] == step["hear"]:
            break
    if step.get("say"):
        event("token", {"text": json.dumps(line, ensure_ascii=False, sort_keys=True)})


def call(step):
    """{"call": "spawn", …}: a call, and its answer; "say": true tells that as a token.

    A spawn's "input" may be steps, and "as" is a label: for "child" in a later send or cancel.
    """
    line = {key: value for key, value in step.items() if key not in ("as", "child", "say")}
    line.setdefault("call_id", f"call-{len(heard)}")
    if isinstance(line.get("input"), list):
        line["input"] = json.dumps(line["input"], ensure_ascii=False)
    if "child" in step:
        line["task_id"] = children[step["child"]]
    say(line)
    reply = hear_more()
    while reply and reply.get("call_id") != line["call_id"]:
        waiting.append(reply)
        reply = hear_more()
    if reply and "as" in step:
        children[step["as"]] = reply.get("task_id")
    if step.get("say"):
        event("token", {"text": json.dumps(reply, ensure_ascii=False, sort_keys=True)})


def answer(step):
    """{"answer": "history"}: that member of the run as the final answer, in JSON."""
    event("final_answer", {"output": json.dumps(run.get(step["answer"]), ensure_ascii=False)})


def flood(step):
    """{"flood": 1000, "bytes": 20, "per_s": 500, "text": "x"}: so many tokens, each numbered."""
    count, rate = step["flood"], step.get("per_s")
    fill = (step.get("text", "x") * step.get("bytes", 1))[: step.get("bytes", 0)]
    burst = max(1, rate // 100) if rate else 64
    begun = time.monotonic()
    for first in range(1, count + 1, burst):
        lines = [
            b'{"event":"token","data":{"text":"%d %s"}}\n' % (i, fill.encode())
            for i in range(first, min(first + burst, count + 1))
        ]
        write(b"".join(lines))
        if rate:
            time.sleep(max(0, begun + first / rate - time.monotonic()))


def wait(step):
    """{"wait": path}: until that file is there."""
    while not os.path.exists(step["wait"]):
        time.sleep(POLL_S)


def put(path, text):
    with open(path + ".part", "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(path + ".part", path)


def count(step):
    """{"count": path}: appends one line, in one write: side effects that a test can count."""
    with open(step["count"], "ab", buffering=0) as file:
        file.write(run["task_id"].encode() + b"\n")


def descriptors():
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            found[fd] = os.readlink("/proc/self/fd/" + fd)
        except OSError:
            pass  # the one that listed them
    return found


def dump(step):
    """{"dump": path}: what this process was given."""
    found = {
        "run": run,
        "heard": heard,
        "environ": dict(os.environ),
        "fds": descriptors(),
        "pid": os.getpid(),
        "pgid": os.getpgid(0),
        "cwd": os.getcwd(),
    }
    put(step["dump"], json.dumps(found))


def grandchild(step):
    """{"grandchild": path}: one that writes its pid there and stays.

    Options: "setsid", "ignore_term", "hold_stdout" (else it has none), "forget" (double fork).
    """
    code = (
        "import os,signal,sys,time\n"
        "if sys.argv[2]=='1': signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "open(sys.argv[1]+'.part','w').write(str(os.getpid()))\n"
        "os.rename(sys.argv[1]+'.part', sys.argv[1])\n"
        "while True: time.sleep(60)\n"
    )
    subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code, step["grandchild"], "01"[bool(step.get("ignore_term"))]],
        stdin=subprocess.DEVNULL,
        stdout=None if step.get("hold_stdout") else subprocess.DEVNULL,
        stderr=None if step.get("hold_stdout") else subprocess.DEVNULL,
        start_new_session=bool(step.get("setsid")),
    )
    wait({"wait": step["grandchild"]})


def on_term(step):
    """{"on_term": [steps]}: carried out when SIGTERM comes; then it goes on as it was."""
    signal.signal(signal.SIGTERM, lambda *_: carry_out(step["on_term"]))


def hang(_):
    while True:
        time.sleep(60)


def repeat(step):
    """{"repeat": 3, "steps": […]}"""
    for _ in range(step["repeat"]):
        carry_out(step["steps"])


def kill(step):
    os.kill(os.getpid(), step["kill"])
    hang(step)


def options(step, verb):
    return {key: value for key, value in step.items() if key != verb}


VERBS = {
    "token": lambda s: event("token", {"text": s["token"]}),
    "thinking": lambda s: event("thinking", {"text": s["thinking"]}),
    "final_answer": lambda s: event("final_answer", {"output": s["final_answer"]}),
    "progress": lambda s: event("progress", {"progress": s["progress"], **options(s, "progress")}),
    "custom": lambda s: event("custom", {"event_type": s["custom"], "payload": s.get("payload")}),
    "result": lambda s: event("result", s["result"]),
    "question": lambda s: event("input_required", {"input_id": s["question"], **options(s, "question")}),
    "line": lambda s: say(s["line"]),
    "raw": lambda s: write(s["raw"].encode("utf-8", "surrogatepass")),
    "hex": lambda s: write(bytes.fromhex(s["hex"])),
    "line_of": lambda s: write(b'{"event":"token","data":{"text":"%s"}}\n' % (b"x" * s["line_of"])),
    "stderr": lambda s: (sys.stderr.write(s["stderr"]), sys.stderr.flush()),
    "hear": hear_until,
    "call": call,
    "answer": answer,
    "flood": flood,
    "wait": wait,
    "touch": lambda s: put(s["touch"], str(os.getpid())),
    "count": count,
    "dump": dump,
    "grandchild": grandchild,
    "on_term": on_term,
    "ignore_term": lambda _: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    "hang": hang,
    "sleep_ms": lambda s: time.sleep(s["sleep_ms"] / 1000),
    "repeat": repeat,
    "close_stdin": lambda _: os.close(0),
    "close_stdout": lambda _: os.close(1),
    "kill": kill,
    "exit": lambda s: os._exit(s["exit"]),
}


def carry_out(steps):
    for step in steps:
        VERBS[next(iter(step))](step)


def program_of(text):
    try:
        steps = json.loads(text)
    except ValueError:
        steps = None
    return steps if isinstance(steps, list) else [{"token": text}]


run = json.loads(sys.stdin.buffer.readline())
carry_out(program_of(run["input"]))
sys.stdout.flush()
os._exit(0)
