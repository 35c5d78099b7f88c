#!/usr/bin/env python3
"""An agent in Python: asks the user a question, lets a tool of the gateway compute, and answers."""
import json
import sys


def say(**line):
    print(json.dumps(line), flush=True)


def hear(kind):
    """The next line of that type; a message to the agent's inbox may come in between."""
    for line in map(json.loads, sys.stdin):
        if line["type"] == "message":
            say(event="token", data={"text": f"(You said: {line['content']}) "})
        elif line["type"] in (kind, "error"):
            return line
    sys.exit("the gateway is gone")


run = hear("run")
say(event="thinking", data={"text": f"The user wants: {run['input']}"})
say(event="input_required", data={"input_id": "n", "kind": "question", "timeout_s": 600,
                                  "prompt": "Which number shall I square?"})
number = hear("input")["answer"]
if number is None:
    sys.exit("nobody has answered")

say(call="tool", call_id="1", name="calculator", arguments={"expression": f"({number})^2"})
result = hear("tool_result")
say(event="progress", data={"progress": 1, "note": "computed"})
say(event="final_answer", data={"output": f"{number} squared: {result.get('output', 'no tool')}"})
