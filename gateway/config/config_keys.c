#include "gateway/config/config_keys.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define MAX_SECONDS 31536000 /* a year */
#define MAX_COUNT 10000000
#define MAX_PATH_TEXT 4096

/* --- the table -------------------------------------------------------------------------------- */

static const char *const alg_names[] = {"HS256", "RS256", "ES256", "EdDSA", NULL};
static const char *const model_kinds[] = {"openai", "builtin", NULL};
static const char *const agent_kinds[] = {"react", "exec", "http", "source", "acp", NULL};
static const char *const agent_forms[] = {"holdfast", "text", "claude", "codex", NULL};
static const char *const agent_inputs[] = {"stdin", "argument", NULL};
static const char *const store_kinds[] = {"sqlite", "memory", NULL};
static const char *const durabilities[] = {"process", "power", NULL};
static const char *const sandbox_kinds[] = {"bubblewrap", "none", NULL};
static const char *const error_kinds[] = {"full", "short", NULL};
static const char *const log_levels[] = {"debug", "info", "warn", "error", NULL};
static const char *const log_formats[] = {"logfmt", "json", NULL};

#define AT(of, field) .offset = (uint32_t)offsetof(struct of, field)
#define INT(of, field, lowest, highest, default_number)                                       \
    .type = KEY_INT, AT(of, field), .size = sizeof(((struct of *)0)->field), .min = (lowest), \
    .max = (highest), .number = (default_number)
#define BOOL(of, field) .type = KEY_BOOL, AT(of, field)
#define CHOICE(of, field, names, first) \
    .type = KEY_CHOICE, AT(of, field), .choices = (names), .number = (first)
#define TEXT(of, field, bytes) .type = KEY_TEXT, AT(of, field), .min = 1, .max = (bytes)
#define TEXT_OR_NONE(of, field, bytes) .type = KEY_TEXT, AT(of, field), .max = (bytes), .text = ""
#define URL(of, field) .type = KEY_URL, AT(of, field), .min = 1, .max = MAX_PATH_TEXT
#define TEXTS(of, field, entries) .type = KEY_TEXTS, AT(of, field), .max = (entries)
#define ENV(of, field, entries) .type = KEY_ENV, AT(of, field), .max = (entries)
#define HEADERS(of, field, entries) .type = KEY_HEADERS, AT(of, field), .max = (entries)
#define GROUP(keys_table) .type = KEY_GROUP, .table = &(keys_table)
#define LIST(field, n_field, keys_table, entries)                                  \
    .type = KEY_LIST, AT(config, field), .table = &(keys_table), .max = (entries), \
    .count_offset = (uint32_t)offsetof(struct config, n_field),                    \
    .size = sizeof(*((struct config *)0)->field)
#define TABLE(name, keys) static const struct key_table name = {(keys), countof(keys)}

static const struct key tls_keys[] = {
    {"cert", "certificate chain, a PEM file", TEXT(config, tls.cert, MAX_PATH_TEXT)},
    {"key", "its private key, a PEM file", TEXT(config, tls.key, MAX_PATH_TEXT)},
};
TABLE(tls_table, tls_keys);

static const struct key auth_key_keys[] = {
    {"kid", "name of the key, by which tokens choose it", TEXT(config_key, kid, MAX_NAME),
     .required = true},
    {"alg", "the only algorithm that the key is used with",
     CHOICE(config_key, alg, alg_names, ALG_HS256), .required = true},
    {"public_key_file", "PEM, JWK or JWK set file (not for HS256)",
     TEXT(config_key, public_key_file, MAX_PATH_TEXT)},
    {"secret_file", "file of at least 32 bytes (HS256)",
     TEXT(config_key, secret_file, MAX_PATH_TEXT)},
};
TABLE(auth_key_table, auth_key_keys);

static const struct key auth_keys[] = {
    {"keys", "keys that tokens are verified with",
     LIST(auth.keys, auth.n_keys, auth_key_table, 64)},
    {"issuer", "what a token's iss must be", TEXT(config, auth.issuer, 1024)},
    {"audience", "what a token's aud must be, or have", TEXT(config, auth.audience, 1024)},
    {"cookie", "name of the cookie that may carry a token", TEXT(config, auth.cookie, 128)},
};
TABLE(auth_table, auth_keys);

#define UPSTREAM_KEYS(of, kind)                                                                \
    {"api_key_env", kind ": environment variable that holds the API key",                      \
     TEXT(of, upstream.api_key_env, 128)},                                                     \
        {"api_key_file", kind ": file whose first line is the API key",                        \
         TEXT(of, upstream.api_key_file, MAX_PATH_TEXT)},                                      \
        {"headers", kind ": more headers of each request", HEADERS(of, upstream.headers, 64)}, \
        {"ca_file", kind ": PEM file of the certificates to believe, instead of the system's", \
         TEXT(of, upstream.ca_file, MAX_PATH_TEXT)},                                           \
        {"proxy",                                                                              \
         kind ": URL of a proxy; \"\" for none",                                               \
         .type = KEY_URL,                                                                      \
         AT(of, upstream.proxy),                                                               \
         .max = MAX_PATH_TEXT,                                                                 \
         .computed = "as http_proxy, https_proxy and no_proxy say"},                           \
        {"connect_timeout_s", kind ": longest wait for a connection",                          \
         INT(of, upstream.connect_timeout_s, 1, 3600, 10)},                                    \
    {                                                                                          \
        "retries", kind ": further tries, before the first piece of an answer",                \
            INT(of, upstream.retries, 0, 10, 3)                                                \
    }

static const struct key model_keys[] = {
    {"name", "by which agents choose it", TEXT(config_model, name, MAX_NAME), .required = true},
    {"kind", "how it is talked to", CHOICE(config_model, kind, model_kinds, MODEL_OPENAI)},
    {"base_url", "openai: where /chat/completions is", URL(config_model, base_url)},
    {"model", "openai: the model's name there", TEXT(config_model, model, 256)},
    UPSTREAM_KEYS(config_model, "openai"),
    {"idle_timeout_s", "openai: longest silence; 0: no limit",
     INT(config_model, idle_timeout_s, 0, MAX_SECONDS, 120)},
    {"context_bytes", "of messages that it can be given: older ones are left out; 0: no limit",
     INT(config_model, context_bytes, 0, 16 * 1024 * 1024, 0)},
    {"think_tag", "openai: name of the tags around thoughts in its answers; \"\" for none",
     .type = KEY_TEXT, AT(config_model, think_tag), .max = MAX_THINK_TAG, .text = "think"},
    {"fallback", "openai: name of another of models, tried when nothing was said yet",
     TEXT(config_model, fallback, MAX_NAME)},
};
TABLE(model_table, model_keys);

static const struct key agent_keys[] = {
    {"name", "by which clients choose it", TEXT(config_agent, name, MAX_NAME), .required = true},
    {"description", "what clients are told of it",
     TEXT_OR_NONE(config_agent, description, MAX_DESCRIPTION)},
    {"examples", "what one may ask it, as pages suggest", TEXTS(config_agent, examples, 8)},
    {"kind", "what it is", CHOICE(config_agent, kind, agent_kinds, AGENT_REACT)},
    {"model", "react: name of a model", TEXT(config_agent, model, MAX_NAME), .computed = "builtin"},
    {"system", "react: the system message", TEXT(config_agent, system, 262144)},
    {"max_turns", "react: of the model, for one message of the user",
     INT(config_agent, max_turns, 1, 1000, REACT_MAX_TURNS)},
    {"tools", "tools that it may call", TEXTS(config_agent, tools, 64)},
    {"command", "exec, acp: program and arguments", TEXTS(config_agent, command, 1024)},
    {"env", "exec, acp: environment beside PATH, HOME and LANG", ENV(config_agent, env, 1024)},
    {"cwd",
     "exec, acp: working directory, to which relative paths of command belong; workspace: "
     "the conversation's own, below terminal.workdir",
     TEXT(config_agent, cwd, MAX_PATH_TEXT),
     .computed = "workspace for acp and the forms claude and codex, else the gateway's"},
    {"form", "exec: what the program prints", CHOICE(config_agent, form, agent_forms, 0)},
    {"input", "form text: how the program is given the message",
     CHOICE(config_agent, input, agent_inputs, INPUT_STDIN)},
    {"auth_method", "acp: id of the method by which it authenticates, when it asks",
     TEXT(config_agent, auth_method, 256)},
    {"keep_s", "acp: how long a process waits for the next turn; 0: not at all",
     INT(config_agent, keep_s, 0, MAX_SECONDS, 300)},
    {"keep", "acp: processes that wait at most", INT(config_agent, keep, 0, 10000, 8)},
    {"url", "http: where runs are posted to", URL(config_agent, url)},
    UPSTREAM_KEYS(config_agent, "http"),
    {"default", "the agent of a chat that names none", BOOL(config_agent, is_default),
     .computed = "true for the first, when none says so"},
    {"timeout_s", "longest run; 0: no limit", INT(config_agent, timeout_s, 0, MAX_SECONDS, 1800)},
    {"idle_timeout_s", "longest silence; 0: no limit",
     INT(config_agent, idle_timeout_s, 0, MAX_SECONDS, 300)},
    {"grace_s", "from the polite stop to the kill", INT(config_agent, grace_s, 1, 3600, 5)},
};
TABLE(agent_table, agent_keys);

static const struct key store_keys[] = {
    {"kind", "where conversations are kept", CHOICE(config, store.kind, store_kinds, STORE_SQLITE)},
    {"durability", "what a commit survives",
     CHOICE(config, store.durability, durabilities, DURABLE_PROCESS)},
    {"replay_cache_mib", "memory for events that are replayed",
     INT(config, store.replay_cache_mib, 0, 1048576, 64)},
    {"retry_s", "how long a failing commit is tried again",
     INT(config, store.retry_s, 0, 3600, 30)},
};
TABLE(store_table, store_keys);

static const struct key retention_keys[] = {
    {"task_days", "how long ended tasks are kept", INT(config, retention.task_days, 1, 36500, 30)},
    {"store_gib", "size of the store", INT(config, retention.store_gib, 1, 1048576, 50)},
};
TABLE(retention_table, retention_keys);

static const struct key limit_keys[] = {
    {"connections", "of all",
     INT(config, rim_limits.connections, 1, MAX_COUNT, CONFIG_CONNECTIONS)},
    {"connections_per_address", "of one address",
     INT(config, rim_limits.connections_per_address, 1, MAX_COUNT, 200)},
    {"face_bytes", "of one request of a face, which brings its history along",
     INT(config, rim_limits.face_bytes, 1024, 64 << 20, 1 << 20)},
    {"ipv6_prefix", "bits of an IPv6 address that count as its address",
     INT(config, rim_limits.ipv6_prefix, 1, 128, 64)},
    {"requests_per_second", "of one connection, in lines",
     INT(config, limits.requests_per_second, 1, 100000, 50)},
    {"burst", "lines of one connection at once", INT(config, limits.burst, 1, 100000, 200)},
    /* A message must fit into its task.created event with some room: MAX_EVENT_LINE. */
    {"message_bytes", "of one message of a client",
     INT(config, limits.message_bytes, 1024, 1000000, 65536)},
    {"tasks", "live tasks of all", INT(config, limits.tasks, 1, MAX_COUNT, 10000)},
    {"tasks_per_owner", "live tasks of one owner",
     INT(config, limits.tasks_per_owner, 1, MAX_COUNT, 32)},
    {"processes", "running exec agents and commands",
     INT(config, limits.processes, 1, 100000, CONFIG_PROCESSES)},
    {"task_bytes", "of one task's events",
     INT(config, limits.task_bytes, 1024, 1LL << 50, 1LL << 30)},
    {"task_events", "of one task", INT(config, limits.task_events, 2, 1LL << 40, MAX_COUNT)},
    {"inbox_messages", "that wait for one task",
     INT(config, limits.inbox_messages, 1, 100000, 1000)},
    {"inbox_bytes", "that wait for one task",
     INT(config, limits.inbox_bytes, 1, 1LL << 30, 1LL << 20)},
    {"subscriptions", "of one connection", INT(config, limits.subscriptions, 1, 100000, 1000)},
    {"store_mib_per_owner", "of the store, for one owner",
     INT(config, rim_limits.store_mib_per_owner, 1, 1LL << 30, 0),
     .computed = "a tenth of retention.store_gib"},
};
TABLE(limits_table, limit_keys);

static const struct key face_keys[] = {
#define X(name, key, doc)                                                 \
    {key, doc, BOOL(config, faces[name]),                                 \
     .count_offset = (uint32_t)offsetof(struct config, faces_said[name]), \
     .computed = "true on a loopback address"},
    FACE_TABLE(X)
#undef X
};
TABLE(face_table, face_keys);

static const struct key metrics_keys[] = {
    {"allow", "networks that may read /metrics, beside loopback",
     TEXTS(config, metrics.allow, 256)},
    {"public", "anyone may read /metrics", BOOL(config, metrics.is_public)},
};
TABLE(metrics_table, metrics_keys);

static const struct key http_get_keys[] = {
    {"allow", "networks that the tool may reach although they are not public",
     TEXTS(config, http_get.allow, 256)},
};
TABLE(http_get_table, http_get_keys);

static const struct key terminal_keys[] = {
    {"sandbox", "what confines commands; none: nothing does",
     CHOICE(config, terminal.sandbox, sandbox_kinds, SANDBOX_BUBBLEWRAP)},
    {"workdir", "where commands write: each conversation has a folder of its own in it",
     TEXT(config, terminal.workdir, MAX_PATH_TEXT), .computed = "data with -work behind it"},
    {"network", "commands may use the network (without a sandbox they always may)",
     BOOL(config, terminal.network)},
    {"host_loopback",
     "and it is the host's, with what listens on its loopback; else pasta is needed",
     BOOL(config, terminal.host_loopback)},
    {"memory_mib", "of a command, or, without a cgroup, of each of its processes; 0: no bound",
     INT(config, terminal.memory_mib, 0, 1LL << 30, 2048)},
    {"processes", "of a command (without a cgroup: in the sandbox, not for root); 0: no bound",
     INT(config, terminal.processes, 0, MAX_COUNT, 256)},
    {"cpu_s", "seconds of processor of each process, in a cgroup of a command; 0: no bound",
     INT(config, terminal.cpu_s, 0, MAX_SECONDS, 14400)},
    {"file_mib", "of each file that a command writes; 0: no bound",
     INT(config, terminal.file_mib, 0, 1LL << 30, 1024)},
    {"tmp_mib", "of /tmp, and of /dev/shm, in the sandbox; 0: half of the memory each",
     INT(config, terminal.tmp_mib, 0, 1LL << 30, 256)},
    {"workdir_mib", "of a conversation's folder: a command beyond it is killed",
     INT(config, terminal.workdir_mib, 0, 1LL << 30, 0), .computed = "a tenth of the disk"},
    {"approved", "programs whose plain calls need no approval of the user; \"*\": any command",
     TEXTS(config, terminal.approved, 256)},
    {"approved_input",
     "programs whose plain calls also take input without approval (approved \"*\" says so for all)",
     TEXTS(config, terminal.approved_input, 256)},
};
TABLE(terminal_table, terminal_keys);

static const struct key hook_keys[] = {
    {"name", "by which the store knows it: do not change it", TEXT(config_hook, name, MAX_NAME),
     .required = true},
    {"url", "where ends of tasks are posted to", URL(config_hook, url), .required = true},
    {"secret_file", "file whose first line signs: 24 to 512 bytes, or whsec_ and base64 of them",
     TEXT(config_hook, secret_file, MAX_PATH_TEXT), .required = true},
    {"ca_file", "PEM file of the certificates to believe, instead of the system's",
     TEXT(config_hook, ca_file, MAX_PATH_TEXT)},
    {"timeout_s", "longest wait for an answer", INT(config_hook, timeout_s, 1, 3600, 10)},
    {"give_up_s", "how long a message is tried again",
     INT(config_hook, give_up_s, 1, MAX_SECONDS, 259200)},
    {"at_once", "messages on their way together", INT(config_hook, at_once, 1, 64, 4)},
};
TABLE(hook_table, hook_keys);

static const struct key page_keys[] = {
    {"name", "what the chat page calls itself", TEXT(config, page.name, 128), .text = "Holdfast"},
    {"sign_in_url", "where people sign in who have no token",
     TEXT_OR_NONE(config, page.sign_in_url, MAX_PATH_TEXT)},
};
TABLE(page_table, page_keys);

static const struct key admin_keys[] = {
    {"socket", "path of the operator's Unix socket; \"\" for none", .type = KEY_TEXT,
     AT(config, admin.socket), .max = MAX_PATH_TEXT,
     .computed = "admin.sock in the data directory"},
};
TABLE(admin_table, admin_keys);

static const struct key log_keys[] = {
    {"level", "the least that is logged", CHOICE(config, log.level, log_levels, LEVEL_INFO)},
    {"format", "of the lines on stderr", CHOICE(config, log.format, log_formats, FORMAT_LOGFMT)},
};
TABLE(log_table, log_keys);

static const struct key root_keys[] = {
    {"listen", "address and port; port 0: any free one", TEXT(config, listen, 128),
     .text = "127.0.0.1:8080"},
    {"data", "directory of the store and the guest key", TEXT(config, data, MAX_PATH_TEXT),
     .computed = "$XDG_STATE_HOME/holdfast or ~/.local/state/holdfast"},
    {"tls", "TLS on the listening port", GROUP(tls_table)},
    {"origins", "web origins that may connect: scheme://host[:port], scheme://*.host",
     TEXTS(config, origins, 1024)},
    {"hosts",
     "names by which the gateway may be asked for, beside those of origins: name or *.name",
     TEXTS(config, hosts, 1024), .computed = "any, but on a loopback address its own"},
    {"auth", "whose tokens are believed", GROUP(auth_table)},
    {"page", "the chat page", GROUP(page_table)},
    {"admin", "the operator's socket: requests for any owner, revoke, kick", GROUP(admin_table)},
    {"guests", "serve connections without a token also beyond loopback or beside keys",
     BOOL(config, guests)},
    {"models", "language models", LIST(models, n_models, model_table, 256)},
    {"errors", "what users are told of a model's failure; short: its kind, the log has the rest",
     CHOICE(config, errors, error_kinds, ERRORS_BY_BIND),
     .computed = "full on loopback, else short"},
    {"agents", "who answers", LIST(agents, n_agents, agent_table, 1024),
     .computed = "a react agent \"assistant\" on the builtin model"},
    {"store", "the store", GROUP(store_table)},
    {"retention", "what is kept", GROUP(retention_table)},
    {"limits", "what one peer, or all, can use", GROUP(limits_table)},
    {"compression", "of WebSocket messages (permessage-deflate), for clients that offer it",
     BOOL(config, compression)},
    {"faces", "protocols of other clients, over the same tasks", GROUP(face_table)},
    {"trusted_proxies", "networks whose X-Forwarded-For is believed",
     TEXTS(config, trusted_proxies, 256)},
    {"proxy_protocol", "connections of trusted_proxies begin with a PROXY header, version 1 or 2",
     BOOL(config, proxy_protocol)},
    {"metrics", "who reads /metrics", GROUP(metrics_table)},
    {"http_get", "the tool http_get, which works for the agents that list it",
     GROUP(http_get_table)},
    {"terminal", "the tools terminal and process, which work for the agents that list them",
     GROUP(terminal_table)},
    {"webhooks", "servers that are told of tasks that end",
     LIST(webhooks, n_webhooks, hook_table, 64)},
    {"webhook_allow", "networks that webhooks may reach although they are not public",
     TEXTS(config, webhook_allow, 256)},
    {"drain_s", "how long a stopping gateway waits for its tasks",
     INT(config, drain_s, 0, 86400, 20)},
    {"log", "the log", GROUP(log_table)},
};
const struct key_table config_table = {root_keys, countof(root_keys)};

/* --- looking up ------------------------------------------------------------------------------- */

const char *key_alg_text(enum key_alg alg)
{
    return alg_names[alg];
}

const struct key *key_find(const struct key_table *table, const char *name)
{
    for (size_t i = 0; i < table->n; i++)
        if (str_eq(str_of(table->keys[i].name), str_of(name)))
            return &table->keys[i];
    return NULL;
}

int key_choice(const char *const *choices, const char *text)
{
    for (int i = 0; choices[i]; i++)
        if (str_eq(str_of(choices[i]), str_of(text)))
            return i;
    return -1;
}

/* How many characters must be changed, added or dropped: Levenshtein's distance. */
static size_t distance_of(struct str a, struct str b)
{
    size_t row[65];

    a.n = a.n < 64 ? a.n : 64;
    b.n = b.n < 64 ? b.n : 64;
    for (size_t j = 0; j <= b.n; j++)
        row[j] = j;
    for (size_t i = 1; i <= a.n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.n; j++) {
            size_t change = diagonal + (strncasecmp(&a.p[i - 1], &b.p[j - 1], 1) != 0);
            diagonal = row[j];
            size_t other = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            row[j] = change < other ? change : other;
        }
    }
    return row[b.n];
}

struct nearest {
    const struct key_table *home; /* where the unknown key stands: its siblings come first */
    struct str name;
    size_t score;
    struct buf path; /* of the best so far */
};

static void find_nearest(struct nearest *n, const struct key_table *table, struct str prefix)
{
    for (size_t i = 0; i < table->n; i++) {
        const struct key *key = &table->keys[i];
        size_t score = 2 * distance_of(n->name, str_of(key->name)) + (table != n->home ? 3 : 0);
        if (score < n->score) {
            n->score = score;
            buf_clear(&n->path);
            buf_putstr(&n->path, prefix);
            buf_puts(&n->path, key->name);
        }
        if (!key->table)
            continue;
        struct buf below = {0};
        buf_putstr(&below, prefix);
        buf_putf(&below, key->type == KEY_LIST ? "%s[]." : "%s.", key->name);
        find_nearest(n, key->table, buf_str(&below));
        buf_done(&below);
    }
}

void key_put_nearest(const struct key_table *table, const char *name, struct buf *out)
{
    struct nearest n = {.home = table, .name = str_of(name), .score = SIZE_MAX};

    find_nearest(&n, &config_table, STR(""));
    buf_putstr(out, buf_str(&n.path));
    buf_done(&n.path);
}

/* --- values ----------------------------------------------------------------------------------- */

void key_put_wanted(const struct key *key, struct buf *out)
{
    switch (key->type) {
    case KEY_INT:
        buf_putf(out, "an integer from %lld to %lld", (long long)key->min, (long long)key->max);
        return;
    case KEY_BOOL: buf_puts(out, "true or false"); return;
    case KEY_CHOICE:
        buf_puts(out, "one of ");
        for (int i = 0; key->choices[i]; i++)
            buf_putf(out, "%s\"%s\"", i ? ", " : "", key->choices[i]);
        return;
    case KEY_TEXT:
    case KEY_URL:
        buf_putf(out, "a text of %lld to %lld bytes", (long long)key->min, (long long)key->max);
        return;
    case KEY_TEXTS: buf_putf(out, "a list of at most %lld texts", (long long)key->max); return;
    case KEY_ENV:
    case KEY_HEADERS: buf_putf(out, "an object of at most %lld texts", (long long)key->max); return;
    case KEY_GROUP: buf_puts(out, "an object"); return;
    case KEY_LIST: buf_putf(out, "a list of at most %lld objects", (long long)key->max); return;
    }
    UNREACHABLE();
}

void key_put_number(const struct key *key, void *base, int64_t number)
{
    void *member = key_member(key, base);

    if (key->type == KEY_BOOL)
        *(bool *)member = number != 0;
    else if (key->type == KEY_INT && key->size == sizeof(uint64_t))
        *(uint64_t *)member = (uint64_t)number;
    else
        *(uint32_t *)member = (uint32_t)number;
}

int64_t key_number(const struct key *key, const void *base)
{
    const void *member = (const char *)base + key->offset;

    if (key->type == KEY_BOOL)
        return *(const bool *)member;
    if (key->type == KEY_INT && key->size == sizeof(uint64_t))
        return (int64_t) * (const uint64_t *)member;
    return *(const uint32_t *)member;
}

void keys_set_defaults(const struct key_table *table, void *base)
{
    for (size_t i = 0; i < table->n; i++) {
        const struct key *key = &table->keys[i];
        switch (key->type) {
        case KEY_INT:
        case KEY_BOOL:
        case KEY_CHOICE: key_put_number(key, base, key->number); break;
        case KEY_TEXT:
        case KEY_URL: *(char **)key_member(key, base) = xstrdup(str_of(key->text)); break;
        case KEY_GROUP: keys_set_defaults(key->table, base); break;
        case KEY_TEXTS:
        case KEY_ENV:
        case KEY_HEADERS:
        case KEY_LIST: break;
        }
    }
}

static void free_list(const struct key *key, void *base)
{
    char *elements = *(char **)key_member(key, base);
    size_t n = *(size_t *)(void *)((char *)base + key->count_offset);

    for (size_t i = 0; i < n; i++)
        keys_free(key->table, elements + i * key->size);
    free(elements);
}

static void free_texts(struct config_texts *texts)
{
    for (size_t i = 0; i < texts->n; i++)
        free(texts->list[i]);
    free(texts->list);
}

void keys_free(const struct key_table *table, void *base)
{
    for (size_t i = 0; i < table->n; i++) {
        const struct key *key = &table->keys[i];
        switch (key->type) {
        case KEY_TEXT:
        case KEY_URL: free(*(char **)key_member(key, base)); break;
        case KEY_TEXTS:
        case KEY_ENV:
        case KEY_HEADERS: free_texts(key_member(key, base)); break;
        case KEY_GROUP: keys_free(key->table, base); break;
        case KEY_LIST: free_list(key, base); break;
        case KEY_INT:
        case KEY_BOOL:
        case KEY_CHOICE: break;
        }
    }
}

/* --- faults ----------------------------------------------------------------------------------- */

void fault(struct faults *f, const char *path, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    buf_putf(f->out, "%s: %s\n", path, text);
    f->n++;
}
