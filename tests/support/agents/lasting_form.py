"""A program that speaks as Claude Code or Codex does, or prints text, outlives gateways, and logs what must come of it:
lasting_form.py FORM FOLDER -- ITS ARGUMENTS.

Its prompt ends with a line {"seed": n, "log": path, "pace_s": seconds, "most": steps, "until": path}; it ends when that
file is there, or after so many steps.  An event is in the log before its line is said.  Each start is a line of
FOLDER/started; a session that FOLDER/gone names is one that it does not know.
"""

import json
import os
import pathlib
import random
import sys
import time

end = sys.argv.index("--")
form, folder, arguments = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[end + 1:]
prompt = sys.stdin.read()
with (folder / "started").open("a", encoding="utf-8") as file:
    file.write(json.dumps({"arguments": arguments, "input": prompt}) + "\n")
gone = folder / "gone"
if gone.exists() and gone.read_text(encoding="utf-8") in arguments:
    print(json.dumps({"type": "system", "subtype": "looking"}), flush=True)
    time.sleep(random.random() * 0.2)
    sys.exit("no session of that id")

asked = json.loads(prompt.splitlines()[-1])
rng = random.Random(asked["seed"])
log = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def say_raw(raw, *events):
    for name, data in events:
        os.write(log, b"S" + json.dumps({"event": name, "data": data}).encode() + b"\n")
    while raw:
        raw = raw[os.write(1, raw):]
    time.sleep(rng.random() * asked["pace_s"])


def say(line, *events):
    say_raw(json.dumps(line, separators=(",", ":")).encode() + b"\n", *events)


def words():
    return rng.choice("abcdefgh") * rng.randrange(1, rng.choice((20, 300, 30_000)))


def result_of(call_id, name, output):
    return "tool_result", {"call_id": call_id, "name": name, "output": output}


class Claude:
    def __init__(self):
        self.calls = {}  # open ones: id → name
        self.session = f"of-claude-{os.getpid()}"

    def begin(self):
        say({"type": "system", "subtype": "init", "session_id": self.session})

    def piece(self, kind):
        text = words()
        say({"type": "stream_event", "event": {"type": "content_block_delta", "delta": {"type": f"{kind}_delta", kind: text}}},
            ("token" if kind == "text" else kind, {"text": text}))
        return text

    def whole(self, n, streams):
        """A message or a part of it, which says nothing new when it has come in pieces."""
        text, call_id, name = words(), f"call-{n}", rng.choice(("Bash", "Read", "Ünï"))
        self.calls[call_id] = name
        events = [] if streams else [("token", {"text": text})]
        say({"type": "assistant", "message": {"content": [{"type": "text", "text": text},
                                                           {"type": "tool_use", "id": call_id, "name": name, "input": {}}]}},
            *events, ("tool_call", {"call_id": call_id, "name": name}))

    def step(self, n):
        if self.calls and rng.random() < 0.4:
            call_id, output = rng.choice(list(self.calls)), words()
            name = self.calls.pop(call_id)
            say({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": call_id, "content": output}]}},
                result_of(call_id, name, output))
        elif rng.random() < 0.3:
            self.whole(n, False)
        else:
            say({"type": "stream_event", "event": {"type": "message_start"}})
            for _ in range(rng.randrange(1, 6)):
                self.piece(rng.choice(("text", "thinking")))
            self.whole(n, True)
            say({"type": "stream_event", "event": {"type": "message_stop"}})

    def end(self):
        text = words()
        say({"type": "result", "subtype": "success", "is_error": False, "result": text, "usage": {"n": 1}},
            ("final_answer", {"output": text}))


class Codex:
    def __init__(self):
        self.calls, self.answer = {}, ""
        self.session = f"of-codex-{os.getpid()}"

    def begin(self):
        say({"type": "thread.started", "thread_id": self.session})

    def item(self, event, *events, **item):
        say({"type": f"item.{event}", "item": item}, *events)

    def step(self, n):
        if self.calls and rng.random() < 0.4:
            call_id, output = rng.choice(list(self.calls)), words()
            kind, name = self.calls.pop(call_id)
            member = "aggregated_output" if kind == "command_execution" else "result"
            self.item("completed", result_of(call_id, name, output), type=kind, id=call_id, tool=name, **{member: output})
        elif rng.random() < 0.5:
            kind, name = rng.choice((("command_execution", "command_execution"), ("mcp_tool_call", "look")))
            self.calls[f"item-{n}"] = kind, name
            more = {"tool": name} if kind == "mcp_tool_call" else {"command": "ls"}
            self.item("started", ("tool_call", {"call_id": f"item-{n}", "name": name}), type=kind, id=f"item-{n}", **more)
        elif rng.random() < 0.5:
            text = words()
            self.item("completed", ("thinking", {"text": text}), type="reasoning", text=text)
        else:
            self.say_answer()

    def say_answer(self):
        self.answer = words()
        self.item("completed", ("token", {"text": self.answer}), type="agent_message", text=self.answer)

    def end(self):
        if not self.answer:
            self.say_answer()
        say({"type": "turn.completed", "usage": {"n": 1}}, ("final_answer", {"output": self.answer}))


class Text:
    def begin(self):
        pass

    def step(self, n):
        """Half of a character may come first."""
        text = words() + "ü🌊"
        raw = text.encode()
        cut = rng.randrange(len(raw))
        say_raw(raw[:cut], ("token", {"text": text}))
        say_raw(raw[cut:])

    def end(self):
        pass


program = {"claude": Claude, "codex": Codex, "text": Text}[form]()
program.begin()
for n in range(asked["most"]):
    program.step(n)
    if os.path.exists(asked["until"]):
        break
program.end()
