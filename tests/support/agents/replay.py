"""A program that prints what another one was recorded to print: replay.py FOLDER RECORDED… -- ITS ARGUMENTS

It takes the next of RECORDED at each start, and the session that FOLDER/gone names is one that it does not know.  What
it was given goes to FOLDER/started, a line of JSON each."""

import json
import os
import pathlib
import sys

end = sys.argv.index("--")
folder, recorded, arguments = pathlib.Path(sys.argv[1]), sys.argv[2:end], sys.argv[end + 1:]
log = folder / "started"
n = len(log.read_text(encoding="utf-8").splitlines()) if log.exists() else 0
with log.open("a", encoding="utf-8") as file:
    given = {"arguments": arguments, "input": sys.stdin.read(), "cwd": os.getcwd()}
    file.write(json.dumps(given) + "\n")
gone = folder / "gone"
if gone.exists() and gone.read_text(encoding="utf-8") in arguments:
    sys.exit("no rollout found for that session")
forms = pathlib.Path(__file__).resolve().parent.parent.parent / "forms"
text = (forms / f"{recorded[n % len(recorded)]}.jsonl").read_text(encoding="utf-8")
print(text, end="", flush=True)
sys.exit("failed" if "_fails" in recorded[n % len(recorded)] else 0)
