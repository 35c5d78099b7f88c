#!/bin/sh
# An agent in shell: reports how full the disks are, whatever the question.
set -eu

text() { # as a JSON string, without its newline
    printf '%s' "$1" | sed 's/\\/\\\\/g; s/"/\\"/g; s/	/ /g' | tr -d '\000-\037'
}

say() { printf '{"event":"%s","data":{"text":"%s"}}\n' "$1" "$(text "$2")"; }

read -r _run # the first line is the run; not needed here

say thinking "I ask df."
df -hP | while read -r line; do
    printf '{"event":"token","data":{"text":"%s\\n"}}\n' "$(text "$line")"
done
