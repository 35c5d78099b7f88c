#!/usr/bin/env bash
# rules.sh -- the house rules that no compiler checks.  Prints "file:line: what" for each breach.
#
#   rules.sh [ROOT]        exit status: 0 clean, 1 breaches
set -euo pipefail
export LC_ALL=C
cd "${1:-$(dirname "$0")/../..}"

# A room of gateway/, and the rooms that it may include: those of lines above it alone, so there is no ring.
# "gateway" is what stands there directly.
rooms='
base
config      base
processes   base config
store       base
cluster     base store
fetch       base config
auth        base config fetch
files       base
front       auth base cluster config files
crew        base config front
links       base cluster crew front
cli         auth base front store
models      base fetch
tools       config fetch models processes
mcp         base config fetch processes
traces      base fetch
agents      base config fetch mcp models processes tools traces
faces       auth front
workers     agents base cluster front
gateway     agents auth base cli cluster config crew faces fetch files front links mcp models processes store tools traces workers
'

# Names of a library, or an include of it, and where in gateway/ they may stand: rooms, single modules, and those that
# begin with a name and a star.
# libuv is everywhere: it is the loop.
libraries='
curl_|CURL|<curl/           fetch/ cli/chat_transfer
sqlite3|SQLITE_|<sqlite3    store/
PQ|PG[A-Zr]|pg_|<libpq      store/store_pg*
lws_|LWS_|<libwebsockets    front/ base/deadline cli/chat_link
json_t|JSON_|<jansson       config/ auth/jwt_key
z_stream|Z_[A-Z]|<zlib      front/deflate
SSL_|X509|<openssl/ssl      front/tls front/ws links/link_tls
EVP_|<openssl/evp           auth/ fetch/webhook_sign files/ links/link_proof links/link_tls processes/sandbox store/file_check store/store_pg_import_files
SHA256_[A-Z][a-z]|<openssl/sha base/chain_digest
HMAC|<openssl/hmac          auth/jwt fetch/webhook_sign links/link_proof
PEM_|BN_|OSSL_|ECDSA_       auth/
BIO_                        auth/ links/link_tls
RAND_|<openssl/rand         auth/ crew/crew fetch/fetch front/front server
'

sources() { # sources NAME-PATTERN...: files of ours, without what is built, fetched or recorded
    local names=()
    for pattern in "$@"; do names+=(-o -name "$pattern"); done
    find . \( -name .git -o -name node_modules -o -name dist -o -path ./build -o -name ".scene-*" \
        -o -path ./tests/fuzz/corpus \) -prune \
        -o -type f \( "${names[@]:1}" \) ! -name package-lock.json -printf '%P\n' | sort
}

c_rules() { # the rules of C files, on code without its comments and the insides of its literals
    # shellcheck disable=SC2016
    awk -v rooms="$rooms" -v libraries="$libraries" '
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
    function room_of(path) { return split(path, part, "/") > 2 ? part[2] : "gateway" }
    function stem_of(path) { sub(/.*\//, "", path); sub(/\.[ch]$/, "", path); return path }
    function columns(line) { gsub(/[\200-\277]/, "", line); return length(line) }

    function read_rooms(    lines, words, n, i, k, j) {
        n = split(rooms, lines, "\n")
        for (i = 1; i <= n; i++) {
            k = split(lines[i], words, " ")
            for (j = 2; j <= k; j++) {
                if (!(words[j] in is_room))
                    printf "tests/lint/rules.sh:1: room %s may include %s, which is not above it\n", words[1], words[j]
                may[words[1], words[j]] = 1
            }
            if (k) is_room[words[1]] = 1
        }
    }
    function read_libraries(    lines, n, i) {
        n = split(libraries, lines, "\n")
        for (i = 1; i <= n; i++) {
            if (lines[i] == "") continue
            names[++n_libraries] = lines[i]
            sub(/ .*/, "", names[n_libraries])
            sub(/[^ ]+ +/, "", lines[i])
            places[n_libraries] = lines[i]
        }
    }
    function stands_in(path, list,    words, k, j) {
        sub(/^gateway\//, "", path)
        sub(/\.[ch]$/, "", path)
        k = split(list, words, " ")
        for (j = 1; j <= k; j++)
            if (path == words[j] || (words[j] ~ /\/$/ && index(path, words[j]) == 1) ||
                (sub(/\*$/, "", words[j]) && index(path, words[j]) == 1)) return 1
        return 0
    }
    function library_rules(code,    i) {
        for (i = 1; i <= n_libraries; i++)
            if (uses(code, names[i]) && !stands_in(FILENAME, places[i]))
                breach("names of this library stand in " places[i] " alone")
    }
    function room_rules(path,    other) {
        if (!(room in is_room)) {
            breach("room " room " has no line in tests/lint/rules.sh")
            return
        }
        other = room_of(path)
        if (other == room) return
        if (!((room, other) in may)) breach(room "/ may not include " other "/")
        used[room, other] = 1
        if (path ~ /_private\.h$/) breach("a private header of another room")
    }
    function include_rules(    path, kind) { # own header, system headers, ours; each sorted
        if (!match($0, /[<"][^>"]+/)) return
        path = substr($0, RSTART + 1, RLENGTH - 1)
        kind = substr($0, RSTART, 1)
        if (kind == "<" && include_kind == "\"" && (n_ours > 1 || FILENAME ~ /\.h$/ || !is_own(first_ours)))
            breach("system headers come before ours")
        if (kind == "\"" && include_kind == kind && !blank_before) {
            if (path < last_include) breach("includes are not sorted")
        }
        if (kind == "\"" && !n_ours++) first_ours = path
        include_kind = kind
        last_include = path
        if (layer == "gateway" && kind == "\"" && path ~ /^gateway\//) room_rules(path)
        if (layer == "gateway") library_rules($0)
    }
    function is_own(path,    name) {
        name = stem_of(FILENAME)
        sub(/^(test|fuzz)_/, "", name)
        path = stem_of(path)
        sub(/_(private|parts)$/, "", path)
        return index(name, path) == 1
    }

    BEGIN {
        read_rooms()
        read_libraries()
        below["proto"] = "proto"
        below["core"] = "proto|core"
        below["gateway"] = "proto|core|gateway"
        libc = "assert|ctype|errno|float|inttypes|limits|math|stdalign|stdarg|stdatomic|stdbool|" \
               "stddef|stdint|stdio|stdlib|string|strings|time|sys/types"
        rim_only = "lws_|LWS_|uv_|UV_|sqlite3|SQLITE_|PQ|curl_|CURL|redis|json_|JSON_[A-Z]+\\(|" \
                   "SSL_|EVP_|BIO_|RAND_|HMAC_|X509|OPENSSL_"
    }
    FNR == 1 {
        layer = layer_of(FILENAME)
        ours = layer in below
        pure = layer == "proto" || layer == "core"
        in_comment = n_ours = 0
        include_kind = last_include = ""
        if (layer == "gateway") room = room_of(FILENAME)
    }
    FNR == 601 { breach("file is longer than 600 lines") }
    /^[ \t]*#[ \t]*include/ {
        if ($0 ~ /"\.\.\//) breach("include is not relative to the root of the tree")
        if (ours && $0 ~ /"/ && $0 !~ "\"(" below[layer] ")/")
            breach(layer "/ may include only " below[layer] " (from the root of the tree)")
        if (pure && $0 ~ /</ && $0 !~ "<(" libc ")\\.h>")
            breach(layer "/ may include only the pure part of libc")
        include_rules()
        blank_before = 0
        next
    }
    /^[ \t]*#/ { include_kind = last_include = "" } # a condition, a definition: what follows is a list of its own
    { blank_before = $0 == "" }
    /^\/\* ?[-=*][-=*][-=*]/ && ($0 !~ /^\/\* --- [^-].* -+ \*\/$/ || columns($0) != 100) {
        breach("a section bar is \"/* --- name ---- */\" over 100 columns")
    }
    columns($0) > 100 && (in_comment || /\/\*/) { breach("a comment of more than 100 columns") }
    {
        code = code_of($0)
        if (layer == "gateway") library_rules(code)
        if (pure && uses(code, rim_only)) breach("name of a library of the rim in " layer "/")
        if (calls(code, "strcpy|strcat|sprintf|vsprintf|atoi|atol|atoll|strtok|usleep|localtime|gets"))
            breach("banned function")
        if (ours && FILENAME !~ /^(proto|core)\/base\.c$/ &&
            calls(code, "malloc|calloc|realloc|reallocarray|strdup|strndup"))
            breach("raw allocation: use xalloc or try_alloc (proto/base.h)")
        if (ours && FILENAME != "gateway/main.c" && calls(code, "exit"))
            breach("exit() outside gateway/main.c")
    }
    END {
        for (arrow in may)
            if (!(arrow in used)) {
                split(arrow, pair, SUBSEP)
                printf "tests/lint/rules.sh:1: %s/ no longer includes %s/: take it off its line\n", pair[1], pair[2]
            }
    }
    ' "$@"
}

root_rules() { # gateway/ itself is a room like any other, and a small one
    local most=16
    [ $# -le $most ] || echo "gateway:1: $# files stand in it directly, at most $most"
}

signature_rules() { # what clang-tidy says of functions, without its half an hour: see .clang-tidy
    local most=6 lines=60
    # shellcheck disable=SC2016
    awk -v most=$most -v lines=$lines '
    function name_of(parameter) { # the last word of "const char *const *name[3]", or the one of "int (*name)(void)"
        if (match(parameter, /\(\*[A-Za-z0-9_]+/)) return substr(parameter, RSTART + 2, RLENGTH - 2)
        gsub(/\[[^]]*\]/, "", parameter)
        sub(/[ \t]+$/, "", parameter)
        sub(/.*[^A-Za-z0-9_.]/, "", parameter)
        return parameter
    }
    function names_of(text,    i, c, depth, one, out) { # of what follows the first bracket; counts them in n_names
        n_names = 0
        if (text ~ /^(void)?\)/) return ""
        for (i = 1; i <= length(text); i++) {
            c = substr(text, i, 1)
            if (depth == 0 && (c == "," || c == ")")) {
                out = out (n_names++ ? ", " : "") name_of(one)
                one = ""
                if (c == ")") return out
                continue
            }
            depth += (c == "(") - (c == ")")
            one = one c
        }
        return out
    }
    function take(is_definition,    at, head, key) {
        at = index(text, "(")
        head = substr(text, 1, at - 1)
        if (head !~ /[A-Za-z0-9_][ *]+[a-z][A-Za-z0-9_]*$/ || head ~ /=|^typedef |^extern "/) return
        key = head
        sub(/.*[^A-Za-z0-9_]/, "", key)
        if (head ~ /^static /) key = FILENAME " " key
        if (is_definition) {
            defined[key, ++n_defined[key]] = names_of(substr(text, at + 1)) # another program has its own
            if (n_names > most && begun != exempt)
                printf "%s:%d: a function of %d parameters, at most %d\n", FILENAME, begun, n_names, most
        } else {
            declared[++n_declared] = names_of(substr(text, at + 1))
            declares[n_declared] = key
            places[n_declared] = FILENAME ":" begun
        }
    }
    function alike(a, b) { # of "t" and "task" one begins the other: clang-tidy takes them for one name
        return index(a, b) == 1 || index(b, a) == 1 || a == substr(b, length(b) - length(a) + 1) ||
               b == substr(a, length(a) - length(b) + 1)
    }
    function differ(one, other,    a, b, n, i) {
        n = split(one, a, ", ")
        if (n != split(other, b, ", ")) return 1
        for (i = 1; i <= n; i++)
            if (!alike(a[i], b[i])) return 1
        return 0
    }
    FNR == 1 { text = ""; body = exempt = 0 }
    /NOLINTNEXTLINE\(readability-function-size\)/ { exempt = FNR + 1 }
    body && /^}/ {
        if (FNR - body > lines) printf "%s:%d: a function of %d lines, at most %d\n", FILENAME, begun, FNR - body, lines
        body = 0
    }
    body || /^#/ { next }
    /^{/ {
        if (text != "") take(1)
        text = ""
        body = FNR
        next
    }
    text == "" && /^[A-Za-z_]/ { begun = FNR }
    text != "" || /^[A-Za-z_]/ {
        line = $0
        gsub(/\/\*.*\*\/|\/\/.*/, "", line)
        sub(/^[ \t]+/, " ", line)
        text = text line
        if (text ~ /;[ \t]*$/) take(0)
        if (text ~ /[;{}][ \t]*$|^[A-Z0-9_]+\(.*\)[ \t]*$/) text = ""
    }
    function is_alike(i,    k) {
        for (k = 1; k <= n_defined[declares[i]]; k++)
            if (!differ(defined[declares[i], k], declared[i])) return 1
        return k == 1
    }
    END {
        for (i = 1; i <= n_declared; i++)
            if (!is_alike(i))
                printf "%s: its definition names the parameters %s\n", places[i], defined[declares[i], 1]
    }
    ' "$@"
}

static_rules() { # a backtrace, perf and grep name functions: which one is meant?
    local most=5
    # shellcheck disable=SC2016
    awk -v most=$most '
    /^static / && match($0, /[A-Za-z0-9_]+ *(\[[^]]*\])* *[(=;]/) {
        name = substr($0, RSTART, RLENGTH)
        sub(/[^A-Za-z0-9_].*/, "", name)
        if (!((name, FILENAME) in seen)) {
            seen[name, FILENAME] = 1
            n[name]++
            places[name] = places[name] "\n" FILENAME ":" FNR
        }
    }
    END {
        for (name in n) many += n[name] >= 3
        if (many <= most) exit
        for (name in n)
            if (n[name] >= 3) {
                k = split(places[name], at, "\n")
                for (i = 2; i <= k; i++)
                    printf "%s: static %s stands in %d files; %d such names, at most %d: give it its noun\n",
                        at[i], name, n[name], many, most
            }
    }' "$@"
}

prose_rules() { # subject first: next to no comment opens with one of these as a pronoun (docs/style.md)
    local most=5
    # shellcheck disable=SC2016
    awk -v most=$most '
    FNR == 1 { opened = 0 }
    {
        text = $0
        if (!opened && !sub(/^(.*[ \t])?(\/\*\*?|\/\/|#|""")[ \t]*/, "", text)) text = ""
        if (opened) sub(/^[ \t]*\*?[ \t]*/, "", text)
        opened = $0 ~ /^[ \t]*(\/\*\*?|""")[ \t]*$/
        if (text ~ /^(Who|Whose|Whoever|Of|What|Whatever)[ ,]/ && text !~ /\?/)
            places[++many] = FILENAME ":" FNR
    }
    END {
        if (many <= most) exit
        for (i = 1; i <= many; i++)
            printf "%s: a comment opens with Who, Of or What; %d do, at most %d: put the subject first\n",
                places[i], many, most
    }' "$@"
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

map_rules() { # ARCHITECTURE.md names each module in a row of its folder
    printf '%s\n' "$@" | awk '
    FNR == NR {
        if ($2 ~ /^`.*\/`$/) rows[$2] = rows[$2] $0
        next
    }
    {
        folder = name = $0
        sub(/[^\/]*$/, "", folder)
        sub(/.*\//, "", name)
        sub(/\.[ch]$/, "", name)
        if (!index(rows["`" folder "`"], "`" name "`"))
            print $0 ":1: is in no row of its folder in ARCHITECTURE.md"
    }' ARCHITECTURE.md -
}

mention_rules() { # "core/task.c:task_finish" in a text: there is such a function
    local file line path name
    { grep -oHnE '\<(proto|core|gateway)/[a-z_/]+\.[ch]:[a-z_]+' "$@" || true; } |
        while IFS=: read -r file line path name; do
            grep -qsE "(^|[ *])$name\(" "$path" || echo "$file:$line: there is no $path:$name"
        done
}

picture_rules() { # docs/rooms.svg is what the includes are
    docs/rooms.py --check 2>/dev/null || echo "docs/rooms.svg:1: is not what docs/rooms.py draws: run it"
}

sentence_rules() { # an error's sentence is the same in every language: C has the wire's, Python more, TypeScript all
    local from to c=proto/sentences.c python=clients/python/src/holdfast_client/sentences.py
    local page=web/client/src/sentences.ts
    pairs() { sed -nE 's/^[ {]*"?([a-z_]+)"?[:,] "(.*\.)"}?,$/\1: \2/p' "$1" | sort; }
    for from in $c $python; do
        to=$python
        [ $from = $c ] || to=$page
        comm -23 <(pairs $from) <(pairs $to) | sed "s|^|$from:1: is no sentence of $to: |"
    done
}

text_rules() { # of all files: no unfinished business, no path of somebody's machine
    found() { sed -E "s/^([^:]+:[0-9]+):.*/\1: $1/"; }
    { grep -nIHE '\<(TO[D]O|FIX[M]E|X[X]X)\>' "$@" || true; } | found "unfinished business"
    { grep -nIHE '(^|[^A-Za-z0-9_.}-])/(home|root|Users|work|workspace)/' "$@" || true; } |
        found "path of somebody's machine"
}

mapfile -t c_files < <(sources '*.[ch]')
mapfile -t headers < <(printf '%s\n' "${c_files[@]}" | grep -E '^(proto|core|gateway)/.*\.h$')
mapfile -t modules < <(printf '%s\n' "${c_files[@]}" | grep -E '^(proto|core|gateway)/')
mapfile -t code_files < <(printf '%s\n' "${modules[@]}" | grep '\.c$')
mapfile -t root_files < <(printf '%s\n' "${modules[@]}" | grep -E '^gateway/[^/]*$')
mapfile -t texts < <(sources '*.md' '*.[ch]')
mapfile -t commented < <(sources '*.[ch]' '*.ts' '*.tsx' '*.mjs' '*.css' '*.py' '*.sh' '*.cmake' CMakeLists.txt dev)
mapfile -t all_files < <(sources '*')

breaches=$(
    [ ${#c_files[@]} -eq 0 ] || c_rules "${c_files[@]}"
    header_rules "${headers[@]}"
    map_rules "${modules[@]}"
    root_rules "${root_files[@]}"
    signature_rules "${c_files[@]}"
    static_rules "${code_files[@]}"
    prose_rules "${commented[@]}"
    mention_rules "${texts[@]}"
    picture_rules
    sentence_rules
    [ ${#all_files[@]} -eq 0 ] || text_rules "${all_files[@]}"
)
[ -z "$breaches" ] || { echo "$breaches"; exit 1; }
