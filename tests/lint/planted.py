#!/usr/bin/env python3
"""planted.py -- plants breaches of the house rules in a copy of the tree, and expects rules.sh to tell each.

A rule that tells nothing is no rule.  All breaches of PLANTS stand in the copy together, each in a place of
its own; what rules.sh tells must be those, and nothing else.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TREE = pathlib.Path(__file__).resolve().parents[2]
HERE = "tests/lint/rules.sh"
SENTENCES = "web/client/src/sentences.ts"  # all of web/ that the rules read
STATIC = "static int planted_name(int x)\n{\n    return x;\n}\n"


def at_end(text):
    return lambda old: old + text


def at_top(text):
    """After the last include."""
    return lambda old: re.sub(r'((?:^#include .*\n\n?)+)', lambda m: m[1] + text, old, count=1, flags=re.M)


def include(line, after):
    return lambda old: old.replace(f'#include "{after}"\n', f'#include "{after}"\n{line}\n', 1)


def replace(what, by):
    return lambda old: old.replace(what, by, 1)


# A change to a file (a new one if it does not exist), and the message about it.
PLANTS = [
    ("gateway/store/data_dir.c", include('#include "gateway/front/tcp.h"', "gateway/store/data_dir.h"),
     "store/ may not include front/"),
    ("gateway/base/net.c", include('#include "gateway/config/config.h"', "gateway/base/net.h"),
     "base/ may not include config/"),
    ("gateway/cli/backup.c", include('#include "gateway/store/store_sqlite_private.h"', "gateway/cli/backup.h"),
     "a private header of another room"),
    ("gateway/attic/planted.c", at_end('#include "gateway/base/log.h"\n'), "room attic has no line"),
    ("gateway/models/arithmetic.c", at_end("int planted(void);\nint planted(void)\n{\n    return curl_easy();\n}\n"),
     "names of this library stand in fetch/ cli/chat_transfer alone"),
    ("gateway/tools/tool_arguments.c", at_end("typedef sqlite3 planted;\n"),
     "names of this library stand in store/ alone"),
    ("gateway/agents/talk.c", at_end("struct lws_context;\n"), "names of this library stand in front/"),
    ("gateway/fetch/complaint.c", at_top("#include <jansson.h>\n"), "names of this library stand in config/"),
    ("gateway/processes/tree.c", at_end("int EVP_planted(void);\n"), "names of this library stand in auth/ fetch/"),
    ("gateway/store/block_slab.c", at_end("struct SSL_planted;\n"), "names of this library stand in front/tls"),
    ("core/map.c", at_end("struct uv_planted;\n"), "name of a library of the rim in core/"),
    ("core/list.h", include('#include "gateway/base/log.h"', "proto/base.h"), "core/ may include only"),
    ("proto/utf8.c", at_top("#include <unistd.h>\n"), "proto/ may include only the pure part of libc"),
    *((f"gateway/planted_{i}.c", at_end("int planted;\n"), None) for i in range(10)),
    ("gateway", None, "files stand in it directly, at most 16"),
    *((f"core/{f}.c", at_end("".join(STATIC.replace("planted_name", f"planted_{n}") for n in "abcdef")),
       "such names, at most 5") for f in ("feed", "batch", "hub")),
    ("bench/client.c", at_end(("/* " + "What is planted here. */\n") * 6), "a comment opens with Who, Of or What"),
    ("proto/ulid.c", at_top("#include <string.h>\n#include \"proto/base.h\"\n\n#include <stdio.h>\n"),
     "system headers come before ours"),
    ("gateway/config/config_check.c", include('#include "proto/base.h"\n#include "core/list.h"',
                                              "gateway/base/folders.h"), "includes are not sorted"),
    ("proto/quote.c", at_end("/* ------------------- planted */\n"), "a section bar is"),
    ("proto/coalesce.c", at_end("/* " + "long " * 20 + "*/\n"), "a comment of more than 100 columns"),
    ("gateway/auth/jwt.c", at_end("void planted(void)\n{\n    exit(1);\n}\n"), "exit() outside"),
    ("core/retention.c", at_end("void *planted(void)\n{\n    return malloc(1);\n}\n"), "raw allocation"),
    ("proto/request.c", at_end("int planted(void)\n{\n    return atoi(\"1\");\n}\n"), "banned function"),
    ("core/budget.c", at_end("int planted(int a, int b, int c, int d, int e, int f, int g)\n{\n    return a;\n}\n"),
     "a function of 7 parameters, at most 6"),
    ("core/clock.c", at_end("void planted(void)\n{\n" + "    ;\n" * 60 + "}\n"), "a function of 61 lines, at most 60"),
    ("core/secrets.h", replace("struct secrets *secrets_new(", "void planted_twice(int one);\nstruct secrets *secrets_new("),
     "its definition names the parameters other"),
    ("core/secrets.c", at_end("void planted_twice(int other)\n{\n    (void)other;\n}\n"), None),
    ("core/verb_lists.c", at_end("\n" * 600), "file is longer than 600 lines"),
    ("gateway/base/stepper.h", replace("/* stepper -- ", "/* Stepper: "), "first line is not"),
    ("gateway/base/fault.h", replace(" * Thread: ", " * Thraed: "), "contract has no Thread: line"),
    ("ARCHITECTURE.md", at_end("\n`core/task.c:task_planted` does nothing.\n"), "there is no core/task.c:task_planted"),
    ("core/planted.c", at_end("typedef int planted;\n"), "is in no row of its folder"),
    ("docs/operations.md", at_end("\nTO" + "DO\n"), "unfinished business"),
    ("docs/style.md", at_end("\n/ho" + "me/somebody/x\n"), "path of somebody's machine"),
    ("clients/python/src/holdfast_client/sentences.py", replace("It was stopped.", "It was planted."),
     f"is no sentence of {SENTENCES}: cancelled: It was planted."),
    ("proto/sentences.c", None, "cancelled: It was stopped."),
    ("docs/rooms.svg", at_end("<!-- -->\n"), "is not what docs/rooms.py draws"),
]
# Changes to the table of rooms itself, each in its own run.
TABLES = [
    ("config      base", "config      base store", "which is not above it"),
    ("models      base fetch", "models      base config fetch", "models/ no longer includes config/"),
]


def told(tree):
    run = subprocess.run(["bash", tree / HERE, tree], capture_output=True, text=True)
    assert run.returncode in (0, 1) and not run.stderr, run.stderr
    return run.stdout.splitlines()


def plant(tree):
    """(file, what is told of it) of all plants."""
    expected = []
    for name, change, breach in PLANTS:
        file = tree / name
        if change:
            file.parent.mkdir(exist_ok=True)
            old = file.read_text() if file.exists() else ""
            new = change(old)
            assert new != old, f"{name}: nothing was planted"
            file.write_text(new)
        if breach:
            expected.append((name, breach))
    return expected


def main():
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder) / "tree"
        shutil.copytree(TREE, tree, ignore=shutil.ignore_patterns(".git", "build", "node_modules", "web", "__pycache__",
                                                                  "corpus", "pictures", ".pytest_cache"))
        (tree / SENTENCES).parent.mkdir(parents=True)
        shutil.copy(TREE / SENTENCES, tree / SENTENCES)
        wrong += [f"told of the tree as it is: {line}" for line in told(tree)]
        for old, new, breach in TABLES:
            rules = (tree / HERE).read_text()
            (tree / HERE).write_text(rules.replace(f"\n{old}\n", f"\n{new}\n"))
            if not any(breach in line for line in told(tree)):
                wrong.append(f"{HERE}: not told: {breach}")
            (tree / HERE).write_text(rules)
        expected, lines = plant(tree), told(tree)
    for name, breach in expected:
        if not any(line.startswith(f"{name}:") and breach in line for line in lines):
            wrong.append(f"{name}: not told: {breach}")
    print("\n".join(wrong) or f"{len(expected) + len(TABLES)} breaches told")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
