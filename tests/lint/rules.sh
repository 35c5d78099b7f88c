#!/usr/bin/env bash
# rules.sh -- the house rules that no compiler checks.  Prints "file:line: what" for each breach.
#
#   rules.sh [ROOT]        exit status: 0 clean, 1 breaches
set -euo pipefail
export LC_ALL=C
cd "${1:-$(dirname "$0")/../..}"

sources() { # sources NAME-PATTERN...: files of ours, without what is built, fetched or recorded
    local names=()
    for pattern in "$@"; do names+=(-o -name "$pattern"); done
    find . \( -name .git -o -name node_modules -o -name dist -o -path ./build \
        -o -path ./tests/fuzz/corpus \) -prune \
        -o -type f \( "${names[@]:1}" \) ! -name package-lock.json -printf '%P\n' | sort
}

c_rules() { # the rules of C files, on code without its comments and the insides of its literals
    # shellcheck disable=SC2016
    awk '
    function breach(what) { printf "%s:%d: %s\n", FILENAME, FNR, what }
    function code_of(line,    out, token) {
        while (line != "") {
            if (in_comment) {
                if (!(at = index(line, "*/"))) return out
                line = substr(line, at + 2)
                in_comment = 0
            }
            if (!match(line, /\/\*|\/\/|"([^"\\]|\\.)*"|\047([^\047\\]|\\.)*\047/)) return out line
            token = substr(line, RSTART, 2)
            out = out substr(line, 1, RSTART - 1)
            line = substr(line, RSTART + RLENGTH)
            if (token == "//") return out
            if (token == "/*") in_comment = 1
            else out = out "\"\""
        }
        return out
    }
    function calls(code, names) { return code ~ "(^|[^A-Za-z0-9_.>])(" names ")[ \t]*\\(" }
    function uses(code, prefixes) { return code ~ "(^|[^A-Za-z0-9_])(" prefixes ")" }
    function layer_of(path) { sub(/\/.*/, "", path); return path }

    BEGIN {
        below["proto"] = "proto"
        below["core"] = "proto|core"
        below["gateway"] = "proto|core|gateway"
        libc = "assert|ctype|errno|float|inttypes|limits|math|stdalign|stdarg|stdatomic|stdbool|" \
               "stddef|stdint|stdio|stdlib|string|strings|time|sys/types"
        rim_only = "lws_|LWS_|uv_|UV_|sqlite3|SQLITE_|curl_|CURL|redis|json_|JSON_[A-Z]+\\(|" \
                   "SSL_|EVP_|BIO_|RAND_|HMAC_|X509|OPENSSL_"
    }
    FNR == 1 {
        layer = layer_of(FILENAME)
        ours = layer in below
        pure = layer == "proto" || layer == "core"
        in_comment = 0
    }
    FNR == 601 { breach("file is longer than 600 lines") }
    /^[ \t]*#[ \t]*include/ {
        if ($0 ~ /"\.\.\//) breach("include is not relative to the root of the tree")
        if (ours && $0 ~ /"/ && $0 !~ "\"(" below[layer] ")/")
            breach(layer "/ may include only " below[layer] " (from the root of the tree)")
        if (pure && $0 ~ /</ && $0 !~ "<(" libc ")\\.h>")
            breach(layer "/ may include only the pure part of libc")
        next
    }
    {
        code = code_of($0)
        if (pure && uses(code, rim_only)) breach("name of a library of the rim in " layer "/")
        if (calls(code, "strcpy|strcat|sprintf|vsprintf|atoi|atol|atoll|strtok|usleep|localtime|gets"))
            breach("banned function")
        if (ours && FILENAME !~ /^(proto|core)\/base\.c$/ &&
            calls(code, "malloc|calloc|realloc|reallocarray|strdup|strndup"))
            breach("raw allocation: use xalloc or try_alloc (proto/base.h)")
        if (ours && FILENAME != "gateway/main.c" && calls(code, "exit"))
            breach("exit() outside gateway/main.c")
    }
    ' "$@"
}

header_rules() { # the header is the manual: /* name -- sentence, and at least a Thread: line
    local file name
    for file in "$@"; do
        name=$(basename "$file" .h)
        head -n 1 "$file" | grep -qE "^/\* ([a-z0-9_/]+/)?$name -- [^ ]" ||
            echo "$file:1: first line is not \"/* $name -- one sentence\""
        grep -qE '^ \* Thread: ' "$file" || echo "$file:1: contract has no Thread: line"
    done
}

map_rules() { # ARCHITECTURE.md names each module: by its header, or by its .c when it has none
    local file map
    map=$(<ARCHITECTURE.md)
    for file in "$@"; do
        [[ $file == *.c && -e ${file%.c}.h || $map == *"\`$file\`"* ]] ||
            echo "$file:1: is not in the table of ARCHITECTURE.md"
    done
}

text_rules() { # of all files: no unfinished business, no path of somebody's machine
    found() { sed -E "s/^([^:]+:[0-9]+):.*/\1: $1/"; }
    { grep -nIHE '\<(TO[D]O|FIX[M]E|X[X]X)\>' "$@" || true; } | found "unfinished business"
    { grep -nIHE '(^|[^A-Za-z0-9_.-])/(home|root|Users|work|workspace)/' "$@" || true; } |
        found "path of somebody's machine"
}

mapfile -t c_files < <(sources '*.[ch]')
mapfile -t headers < <(printf '%s\n' "${c_files[@]}" | grep -E '^(proto|core|gateway)/.*\.h$')
mapfile -t modules < <(printf '%s\n' "${c_files[@]}" | grep -E '^(proto|core|gateway)/')
mapfile -t all_files < <(sources '*')

breaches=$(
    [ ${#c_files[@]} -eq 0 ] || c_rules "${c_files[@]}"
    header_rules "${headers[@]}"
    map_rules "${modules[@]}"
    [ ${#all_files[@]} -eq 0 ] || text_rules "${all_files[@]}"
)
[ -z "$breaches" ] || { echo "$breaches"; exit 1; }
