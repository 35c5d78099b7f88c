#!/usr/bin/env python3
"""texts.py PROGRAM completion|manual|config-manual -- what the program's own help says, in the forms that a system wants.

The help and the list of keys are the program's tables; nothing is written twice.  Lines of the help, where those of
options are in `holdfast COMMAND --help` alone:

      holdfast COMMAND [--option VALUE] ARGUMENT   description       (the gap is two blanks or more)
                                    description, or a synopsis that goes on
        VERB ARGUMENT               description of a verb of that command

        --option VALUE              description
"""
import os
import re
import subprocess
import sys
import time

GAP = re.compile(r"\s{2,}")


class Command:
    """One command: its synopses, each with a description, and the verbs that it has."""

    def __init__(self, name):
        self.name, self.synopses, self.verbs, self.about_options = name, [], [], []

    def options(self):
        """--option → the word for its value, or None."""
        found = {}
        for text, _ in self.synopses + self.verbs + self.about_options:
            for option, value in re.findall(r"(--[a-z-]+)(?: ([A-Za-z0-9:|]+))?", text):
                found[option] = value or None
        return found

    def arguments(self):
        plain = re.sub(r"--[a-z-]+( [A-Za-z0-9:|]+)?", "", " ".join(text for text, _ in self.synopses))
        return re.findall(r"[A-Z]{3,}", plain)


def commands_of(text):
    """The commands in the order of the help."""
    found, about = {}, None
    for line in text.splitlines()[1:]:
        body = line.strip()
        if not body:
            continue
        what, _, why = (GAP.sub("\t", body)).partition("\t")
        if line.startswith("  holdfast "):
            name = line.split()[1]
            command = found.setdefault(name, Command(name))
            about = command.synopses
            about.append([what[len("holdfast "):], why])
        elif line.startswith("    ") and line[4] != " ":
            about = command.verbs
            about.append([what, why])
        elif what.startswith("["):  # the synopsis goes on
            about[-1][0] += " " + body
        else:
            about[-1][1] = (about[-1][1] + " " + body).strip()
    return found


def options_of(text):
    """[option with its value, description] of each, of a command's own help."""
    found = []
    for line in text.partition("\n\n")[2].splitlines():
        what, _, why = GAP.sub("\t", line.strip()).partition("\t")
        if what.startswith("--"):
            found.append([what, why])
        else:
            found[-1][1] += what
    return found


# ---------------------------------------------------------------------------- completion

VALUES = {"FILE": 'compgen -f -- "$word"', "DIR": 'compgen -d -- "$word"'}

COMPLETION = r"""# bash completion for holdfast, made from the program's help by packaging/texts.py.

_holdfast()
{
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
    local IFS=$'\n'
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(IFS=' '; compgen -W "@COMMANDS@" -- "$word"))
        return
    fi
    case $command:$before in
@VALUES@
    esac
    case $command:$word in
@OPTIONS@
    esac
    case $command in
@ARGUMENTS@
    esac
}
complete -o filenames -F _holdfast holdfast"""


def words(list_):
    return f"""COMPREPLY=($(IFS=' '; compgen -W "{' '.join(list_)}" -- "$word"))"""


def completion(commands):
    values, options, arguments = [], [], []
    for command in commands.values():
        for option, value in command.options().items():
            if value is None:
                continue
            if value in VALUES:
                reply = f"COMPREPLY=($({VALUES[value]}))"
            else:
                reply = words(value.split("|")) if "|" in value else "COMPREPLY=()"
            values.append(f"    {command.name}:{option}) {reply}; return ;;")
        if command.options():
            options.append(f"    {command.name}:-*) {words(command.options())}; return ;;")
        if command.verbs:
            arguments.append(f"    {command.name}) {words([text.split()[0] for text, _ in command.verbs])} ;;")
        elif "COMMAND" in command.arguments():
            arguments.append(f"    {command.name}) {words(commands)} ;;")
        else:
            arguments += [f"    {command.name}) COMPREPLY=($({VALUES[what]})) ;;" for what in VALUES
                          if what in command.arguments()]
    return (COMPLETION.replace("@COMMANDS@", " ".join(commands)).replace("@VALUES@", "\n".join(values))
            .replace("@OPTIONS@", "\n".join(options)).replace("@ARGUMENTS@", "\n".join(arguments)) + "\n")


# ---------------------------------------------------------------------------- manual pages

EXITS = """.SH EXIT STATUS
.TP
0
Done; for
.BR chat ,
answered; for
.BR doctor ,
sound.
.TP
1
Failed.
.TP
2
An option or the configuration is wrong.
.TP
75
.BR serve :
another gateway has taken the store; start it again.
.SH FILES
.TP
/etc/holdfast/config.json
The configuration of the service: see
.BR holdfast.json (5).
.TP
/var/lib/holdfast
Its data.
.TP
/usr/share/doc/holdfast/operations.md
The operator's manual.
.SH SEE ALSO
.BR holdfast.json (5)
"""


def troff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...").replace("'", "\\(aq")
    return "\\&" + text if text.startswith((".", "'")) else text


def heading(name, section, version):
    day = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))
    return f'.TH {name} {section} {day} "Holdfast {version}"\n.SH NAME\n'


def manual(commands, version, title):
    out = heading("HOLDFAST", 1, version) + f"holdfast \\- {troff(title)}\n.SH SYNOPSIS\n"
    for command in commands.values():
        for text, _ in command.synopses:
            out += f".HP\n.B holdfast\n{troff(text)}\n"
    out += ".SH COMMANDS\n"
    for command in commands.values():
        for text, why in command.synopses:
            out += f".TP\n.B {troff(text)}\n{troff(why)}\n" if why else ""
        for text, why in command.verbs + command.about_options:
            out += f".RS\n.TP\n.B {troff(text)}\n{troff(why)}\n.RE\n" if why else ""
    return out + EXITS


def config_manual(keys, version):
    out = heading("HOLDFAST.JSON", 5, version) + "holdfast.json \\- the configuration of a holdfast gateway\n"
    out += (".SH DESCRIPTION\nA file of JSON, named by\n.BR \\-\\-config .\nEvery key has a default; a key that does "
            "not exist is a fault.\n.B holdfast check\\-config\nreports all faults of a file, and\n"
            ".B holdfast print\\-config\nwhat is in force.\n.SH KEYS\n")
    for line in keys.splitlines():
        key, _, what = line.partition(": ")
        about, _, form = what.rpartition(" (") if what.endswith(")") else (what, "", "")
        out += f".TP\n.B {troff(key)}\n{troff(about[:1].upper() + about[1:])}.\n"
        if form:
            out += f"{troff(form[:-1][:1].upper() + form[:-1][1:])}.\n"
    return out + ".SH SEE ALSO\n.BR holdfast (1)\n"


def main():
    program, what = sys.argv[1:]

    def ask(*words_):
        return subprocess.run([program, *words_], capture_output=True, encoding="utf-8", check=True).stdout

    text = ask("help")
    version, title = re.match(r"holdfast (\S+) - (.*)", text).groups()
    commands = commands_of(text)
    for command in commands.values():
        command.about_options = options_of(ask("help", command.name))
    texts = {
        "completion": lambda: completion(commands),
        "manual": lambda: manual(commands, version, title),
        "config-manual": lambda: config_manual(ask("keys"), version),
    }
    sys.stdout.reconfigure(encoding="utf-8")
    sys.stdout.write(texts[what]())


main()
