#include "gateway/config/config_keys.h"

#include "proto/mcp/mcp_tool.h"

#define MAX_SECONDS 31536000 /* a year */
#define MAX_COUNT 10000000
#define MAX_PATH_TEXT 4096

/* --- the table -------------------------------------------------------------------------------- */

static const char *const alg_names[] = {"HS256", "RS256", "ES256", "EdDSA", NULL};
static const char *const model_kinds[] = {"openai", "builtin", NULL};
static const char *const model_apis[] = {"chat", "responses", "anthropic", NULL};
static const char *const model_takes[] = {"messages", "files", "images", "text", NULL};
static const char *const agent_kinds[] = {"react", "exec", "http", "source", "acp", "worker", NULL};
static const char *const agent_forms[] = {
    "holdfast", "text", "claude", "codex",     "openai", "responses",
    "ag-ui",    "a2a",  "ai-sdk", "langgraph", NULL}; /* in the order of enum agent_form */
static const char *const notify_kinds[] = {"all", "result", "error", "off", NULL};
static const char *const agent_inputs[] = {"stdin", "argument", NULL};
static const char *const restart_kinds[] = {"continue", "fail", NULL};
static const char *const store_kinds[] = {"sqlite", "memory", "postgres", NULL};
static const char *const durabilities[] = {"process", "power", "replicated", NULL};
static const char *const sandbox_kinds[] = {"bubblewrap", "none", NULL};
static const char *const mcp_approves[] = {"unless_read_only", "always", "never", NULL};
static const char *const mcp_sandboxes[] = {"none", "bubblewrap", NULL};
static const char *const model_files[] = {"data", "url", NULL};
static const char *const error_kinds[] = {"full", "short", NULL};
static const char *const log_levels[] = {"debug", "info", "warn", "error", NULL};
static const char *const log_formats[] = {"logfmt", "json", NULL};

#define AT(of, field) .offset = (uint32_t)offsetof(struct of, field)
#define INT(of, field, lowest, highest, default_number)                                       \
    .type = KEY_INT, AT(of, field), .size = sizeof(((struct of *)0)->field), .min = (lowest), \
    .max = (highest), .number = (default_number)
#define BOOL(of, field) .type = KEY_BOOL, AT(of, field)
#define BOOL_ON(of, field) BOOL(of, field), .number = 1
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
    {"kid", "the key's name, which tokens refer to", TEXT(config_key, kid, MAX_NAME),
     .required = true},
    {"alg", "the key's only algorithm", CHOICE(config_key, alg, alg_names, ALG_HS256),
     .required = true},
    {"public_key_file", "PEM, JWK or JWK set file (not for HS256)",
     TEXT(config_key, public_key_file, MAX_PATH_TEXT)},
    {"secret_file", "file of at least 32 bytes (HS256)",
     TEXT(config_key, secret_file, MAX_PATH_TEXT)},
};
TABLE(auth_key_table, auth_key_keys);

static const struct key auth_keys[] = {
    {"keys", "keys that verify tokens", LIST(auth.keys, auth.n_keys, auth_key_table, 64)},
    {"jwks_url", "where the issuer publishes its keys (a JWK set), beside the keys above",
     URL(config, auth.jwks_url)},
    {"issuer", "required iss of tokens", TEXT(config, auth.issuer, 1024)},
    {"audience", "required aud of tokens, or one entry of it", TEXT(config, auth.audience, 1024)},
    {"cookie", "name of the cookie that may carry a token", TEXT(config, auth.cookie, 128)},
    {"admin_claim", "a token in which this claim is true is an operator's: docs/operations.md 12",
     TEXT(config, auth.admin_claim, 128)},
    {"tenant_claim", "the claim that names a tenant, the first part of the owner: TENANT/SUB",
     TEXT(config, auth.tenant_claim, 128)},
};
TABLE(auth_table, auth_keys);

#define UPSTREAM_KEYS(of, kind) UPSTREAM_KEYS_AT(of, upstream, kind)
#define UPSTREAM_KEYS_AT(of, upstream, kind)                                            \
    {"api_key_env", kind ": environment variable that holds the API key",               \
     TEXT(of, upstream.api_key_env, 128)},                                              \
        {"api_key_file", kind ": file whose first line is the API key",                 \
         TEXT(of, upstream.api_key_file, MAX_PATH_TEXT)},                               \
        {"headers", kind ": additional headers for each request",                       \
         HEADERS(of, upstream.headers, 64)},                                            \
        {"ca_file", kind ": PEM file of trusted certificates, instead of the system's", \
         TEXT(of, upstream.ca_file, MAX_PATH_TEXT)},                                    \
        {"proxy",                                                                       \
         kind ": URL of a proxy; \"\" for none",                                        \
         .type = KEY_URL,                                                               \
         AT(of, upstream.proxy),                                                        \
         .max = MAX_PATH_TEXT,                                                          \
         .computed = "from http_proxy, https_proxy and no_proxy"},                      \
        {"connect_timeout_s", kind ": longest wait for a connection",                   \
         INT(of, upstream.connect_timeout_s, 1, 3600, 10)},                             \
    {                                                                                   \
        "retries", kind ": retries until the first piece of an answer",                 \
            INT(of, upstream.retries, 0, 10, 3)                                         \
    }

static const struct key model_keys[] = {
    {"name", "the name that agents use", TEXT(config_model, name, MAX_NAME), .required = true},
    {"kind", "the model's protocol", CHOICE(config_model, kind, model_kinds, MODEL_OPENAI)},
    {"api", "openai: the server's interface: Chat Completions, Responses, Anthropic's Messages",
     CHOICE(config_model, api, model_apis, API_CHAT)},
    {"base_url", "openai: URL that /chat/completions, /responses or /messages is appended to",
     URL(config_model, base_url)},
    {"model", "openai: the model's name there", TEXT(config_model, model, 256)},
    UPSTREAM_KEYS(config_model, "openai"),
    {"idle_timeout_s", "openai: longest silence; 0: no limit",
     INT(config_model, idle_timeout_s, 0, MAX_SECONDS, 120)},
    {"context_bytes", "largest input in messages: older ones are left out; 0: no limit",
     INT(config_model, context_bytes, 0, 16 * 1024 * 1024, 0)},
    {"takes", "openai: files that it is given: of messages, also tools' images, images alone, none",
     CHOICE(config_model, takes, model_takes, TAKES_MESSAGES)},
    {"files", "openai: how it is given files that have an id: their data, or a URL for an hour",
     CHOICE(config_model, files, model_files, FILES_BY_ADDRESS),
     .computed = "url if public_url is of https and no loopback address, otherwise data"},
    {"effort", "openai: how much it thinks: a word of its server, such as low or high",
     TEXT(config_model, effort, 32)},
    {"max_tokens", "api responses, anthropic: limit of an answer; 0: none, or 8192 for anthropic",
     INT(config_model, max_tokens, 0, MAX_COUNT, 0)},
    {"thinking_tokens", "api anthropic: budget of thoughts, for models without effort; 0: none",
     INT(config_model, thinking_tokens, 0, MAX_COUNT, 0)},
    {"think_tag", "openai: name of the tags that enclose thoughts in its answers; \"\" for none",
     .type = KEY_TEXT, AT(config_model, think_tag), .max = MAX_THINK_TAG, .text = "think"},
    {"fallback", "openai: another entry of models, tried if this one fails without output",
     TEXT(config_model, fallback, MAX_NAME)},
    {"price_in", "price of a million tokens in, in thousandths of your currency; 0: not told",
     INT(config_model, price_in, 0, MAX_COUNT, 0)},
    {"price_cached", "that of those read from a cache; 0: as price_in",
     INT(config_model, price_cached, 0, MAX_COUNT, 0)},
    {"price_out", "that of tokens out", INT(config_model, price_out, 0, MAX_COUNT, 0)},
};
TABLE(model_table, model_keys);

static const struct key client_keys[] = {
    {"files", "reads and writes of text files in the folder", BOOL(config_agent, client.files),
     .number = 1},
    {"terminals", "commands that it runs through the gateway, in the folder",
     BOOL(config_agent, client.terminals), .number = 1},
};
TABLE(client_table, client_keys);

static const struct key budget_keys[] = {
    {"tokens", "tokens, by the usage that the model's server or the agent tells; 0: no limit",
     INT(config_agent, budget.tokens, 0, INT32_MAX, 0)},
    {"tool_calls", "tool calls; 0: no limit",
     INT(config_agent, budget.tool_calls, 0, MAX_COUNT, 0)},
    {"seconds", "seconds; 0: no limit", INT(config_agent, budget.seconds, 0, MAX_SECONDS, 0)},
};
TABLE(budget_table, budget_keys);

static const struct key agent_keys[] = {
    {"name", "the name that clients use", TEXT(config_agent, name, MAX_NAME), .required = true},
    {"description", "description for clients",
     TEXT_OR_NONE(config_agent, description, MAX_DESCRIPTION)},
    {"examples", "example questions, which pages suggest", TEXTS(config_agent, examples, 8)},
    {"kind", "kind of agent", CHOICE(config_agent, kind, agent_kinds, AGENT_REACT)},
    {"model", "react: name of a model; http: what the server calls it or its assistant",
     TEXT(config_agent, model, MAX_NAME), .computed = "builtin, or for http the agent's name"},
    {"system", "react: the system message", TEXT(config_agent, system, 262144)},
    {"max_turns", "react: limit of model turns for one message of the user",
     INT(config_agent, max_turns, 1, 1000, REACT_MAX_TURNS)},
    {"budget", "what a task may use before it asks its user whether to go on", GROUP(budget_table)},
    {"tools", "tools that it may call; mcp:SERVER/TOOL, mcp:SERVER/*: those of an entry of mcp",
     TEXTS(config_agent, tools, 64)},
    {"command", "exec, acp: program and arguments", TEXTS(config_agent, command, 1024)},
    {"env", "exec, acp: environment besides PATH, HOME and LANG", ENV(config_agent, env, 1024)},
    {"cwd",
     "exec, acp: working directory; relative paths in command start here; workspace: the "
     "conversation's own folder in terminal.workdir",
     TEXT(config_agent, cwd, MAX_PATH_TEXT),
     .computed = "workspace for acp and the forms claude and codex, else the gateway's own"},
    {"form", "exec: what the program prints; http: what the server speaks",
     CHOICE(config_agent, form, agent_forms, 0)},
    {"input", "form text: how the program gets the message",
     CHOICE(config_agent, input, agent_inputs, INPUT_STDIN)},
    {"auth_method", "acp: id of the authentication method, for agents that ask",
     TEXT(config_agent, auth_method, 256)},
    {"client", "acp: what the gateway serves; what it refuses, the agent does by itself",
     GROUP(client_table)},
    {"pool_idle_s", "acp: how long a process waits for the next turn; 0: not at all",
     INT(config_agent, pool_idle_s, 0, MAX_SECONDS, 300)},
    {"pool", "acp: limit of waiting processes", INT(config_agent, pool, 0, 10000, 8)},
    {"kept", "exec, acp: its program outlives the gateway, and its task goes on after a restart",
     BOOL_ON(config_agent, kept)},
    {"keep_s", "exec, acp: how long a kept program lives without a gateway",
     INT(config_agent, keep_s, 1, 3600, 60)},
    {"url", "http: URL that runs are posted to", URL(config_agent, url)},
    UPSTREAM_KEYS(config_agent, "http"),
    {"wait_s", "worker: longest wait for a worker with a place; 0: no limit",
     INT(config_agent, wait_s, 0, MAX_SECONDS, 60)},
    {"rerun", "worker: give a run to another instance if its own is lost and had said nothing",
     BOOL(config_agent, rerun)},
    {"default", "the agent for chats that name none", BOOL(config_agent, is_default),
     .computed = "true for the first, if none is set"},
    {"timeout_s", "longest run; 0: no limit", INT(config_agent, timeout_s, 0, MAX_SECONDS, 1800)},
    {"idle_timeout_s", "longest silence; 0: no limit",
     INT(config_agent, idle_timeout_s, 0, MAX_SECONDS, 300)},
    {"notify",
     "what begins a turn about its background work; result: no watched lines; error: failures alone; "
     "off: nothing; the rest is told with the next turn",
     CHOICE(config_agent, notify, notify_kinds, NOTIFY_ALL)},
    {"grace_s", "time between the polite stop and the kill",
     INT(config_agent, grace_s, 1, 3600, 5)},
    {"after_restart", "what becomes of its running tasks when the gateway is restarted",
     CHOICE(config_agent, after_restart, restart_kinds, RESTART_BY_KIND),
     .computed = "continue for react, kept exec and kept acp, otherwise fail"},
};
TABLE(agent_table, agent_keys);

static const struct key mcp_keys[] = {
    {"name", "the name in agents' tools: small letters, digits and -",
     TEXT(config_mcp, name, MCP_SERVER_BYTES), .required = true},
    {"command", "program and arguments of a server over stdio", TEXTS(config_mcp, command, 1024)},
    {"env", "environment besides PATH, HOME and LANG", ENV(config_mcp, env, 1024)},
    {"cwd", "working directory; relative paths in command start here",
     TEXT(config_mcp, cwd, MAX_PATH_TEXT), .computed = "the gateway's own"},
    {"url", "URL of a server over streamable HTTP", URL(config_mcp, url)},
    {"headers", "additional headers for each request", HEADERS(config_mcp, headers, 64)},
    {"headers_file", "file with more of them, one a line",
     TEXT(config_mcp, headers_file, MAX_PATH_TEXT)},
    {"ca_file", "PEM file of trusted certificates, instead of the system's",
     TEXT(config_mcp, ca_file, MAX_PATH_TEXT)},
    {"allow", "tools that agents may have of it", TEXTS(config_mcp, allow, 512), .computed = "all"},
    {"approve", "when the user is asked first; unless_read_only: the server's hint decides",
     CHOICE(config_mcp, approve, mcp_approves, MCP_APPROVE_BY_HINT)},
    {"timeout_s", "longest silence of a call; its progress counts",
     INT(config_mcp, timeout_s, 1, MAX_SECONDS, 60)},
    {"longest_s", "longest call, and how long a question of the server stays open",
     INT(config_mcp, longest_s, 1, MAX_SECONDS, 600)},
    {"sandbox", "how the program is confined; none: not at all",
     CHOICE(config_mcp, sandbox, mcp_sandboxes, MCP_SANDBOX_NONE)},
    {"paths", "what it sees in the sandbox besides the system: PATH to write to, PATH:ro to read",
     TEXTS(config_mcp, paths, 64)},
    {"network", "whether the sandbox has a network, which leads outward only (pasta)",
     BOOL(config_mcp, network)},
};
TABLE(mcp_table, mcp_keys);

static const struct key store_keys[] = {
    {"kind", "where conversations are kept", CHOICE(config, store.kind, store_kinds, STORE_SQLITE)},
    {"durability", "what a commit survives",
     CHOICE(config, store.durability, durabilities, DURABLE_BY_KIND),
     .computed = "process; power for postgres"},
    {"url_file", "postgres: file whose first line is the server's URL, or its keywords and values",
     TEXT(config, store.url_file, MAX_PATH_TEXT)},
    {"replay_cache_mib", "memory for replayed events",
     INT(config, store.replay_cache_mib, 0, 1048576, 64)},
    {"retry_s", "how long to retry a failing commit", INT(config, store.retry_s, 0, 3600, 30)},
    {"redo_mib", "postgres: memory for the last batches, for a failover that has lost them",
     INT(config, store.redo_mib, 0, 4096, 64)},
    {"chain", "whether the end of a task proves its events, by a chain of SHA-256",
     BOOL(config, store.chain)},
};
TABLE(store_table, store_keys);

static const struct key cluster_keys[] = {
    {"node", "this gateway's name among those of the store", TEXT(config, cluster.node, MAX_NAME),
     .computed = "the host's name"},
    {"secret_file", "file of at least 32 bytes, the same for all: guests' tokens come from it",
     TEXT(config, cluster.secret_file, MAX_PATH_TEXT)},
    {"lease_s", "how long a gateway that gives no sign of life keeps the store",
     INT(config, cluster.lease_s, 3, 3600, 10)},
    {"clock_off_s",
     "how far the clock of a start may be off the server's while another gateway serves; 0: any",
     INT(config, cluster.clock_off_s, 0, 86400, 60)},
    {"uneven_percent",
     "how far above the mean a gateway's load may stand before it gives owners "
     "away; 0: they are dealt by number alone; the same at all gateways",
     INT(config, cluster.uneven_percent, 0, 1000, 25)},
    {"listen", "address and port for the store's other gateways",
     TEXT(config, cluster.listen, 128)},
    {"advertise", "address and port by which those reach it", TEXT(config, cluster.advertise, 128),
     .computed = "cluster.listen"},
    {"front_only", "carry clients to the store's other gateways, and serve nobody here",
     BOOL(config, cluster.front_only)},
    {"tls", "TLS on links, with a key from the secret; the same at all gateways",
     BOOL(config, cluster.tls)},
};
TABLE(cluster_table, cluster_keys);

static const struct key retention_keys[] = {
    {"task_days", "how long to keep ended tasks", INT(config, retention.task_days, 1, 36500, 30)},
    {"process_days", "how long to keep the results of ended background commands",
     INT(config, retention.process_days, 1, 36500, 7)},
    {"store_gib", "largest size of the store", INT(config, retention.store_gib, 1, 1048576, 50)},
};
TABLE(retention_table, retention_keys);

static const struct key limit_keys[] = {
    {"connections", "connections in total",
     INT(config, rim_limits.connections, 1, MAX_COUNT, CONFIG_CONNECTIONS)},
    {"connections_per_address", "connections from one address",
     INT(config, rim_limits.connections_per_address, 1, MAX_COUNT, 200)},
    {"face_bytes", "size of one request of a face, which includes its history",
     INT(config, rim_limits.face_bytes, 1024, 64 << 20, 1 << 20)},
    {"file_mib", "size of one file; 0: none are taken",
     INT(config, rim_limits.file_mib, 0, 2047, 32)},
    {"ipv6_prefix", "bits of an IPv6 address that identify a peer",
     INT(config, rim_limits.ipv6_prefix, 1, 128, 64)},
    {"requests_per_second", "lines of one connection",
     INT(config, limits.requests_per_second, 1, 100000, 50)},
    {"burst", "lines of one connection at once", INT(config, limits.burst, 1, 100000, 200)},
    /* A message must fit into its task.created event with some room: MAX_EVENT_LINE. */
    {"message_bytes", "size of one client message",
     INT(config, limits.message_bytes, 1024, 1000000, 65536)},
    {"tasks", "live tasks in total", INT(config, limits.tasks, 1, MAX_COUNT, 10000)},
    {"tasks_per_owner", "live tasks of one owner, or of all guests of one address",
     INT(config, limits.tasks_per_owner, 1, MAX_COUNT, 32)},
    {"processes", "running exec agents and commands",
     INT(config, limits.processes, 1, 100000, CONFIG_PROCESSES)},
    {"task_bytes", "size of one task's events",
     INT(config, limits.task_bytes, 1024, 1LL << 50, 1LL << 30)},
    {"task_events", "events of one task", INT(config, limits.task_events, 2, 1LL << 40, MAX_COUNT)},
    {"inbox_messages", "messages that wait for one task",
     INT(config, limits.inbox_messages, 1, 100000, 1000)},
    {"inbox_bytes", "size of messages that wait for one task",
     INT(config, limits.inbox_bytes, 1, 1LL << 30, 1LL << 20)},
    {"subscriptions", "subscriptions of one connection",
     INT(config, limits.subscriptions, 1, 100000, 1000)},
    {"task_webhooks", "webhooks that a client may give one task; 0 for none",
     INT(config, limits.task_webhooks, 0, 64, 4)},
    {"schedules", "messages that are scheduled, of all owners",
     INT(config, limits.schedules, 1, 10000000, 100000)},
    {"schedules_per_owner", "messages that one owner may schedule; 0 for none",
     INT(config, limits.schedules_per_owner, 0, 10000, 100)},
    {"shares_per_owner", "links and members that one owner may have; 0 for none",
     INT(config, limits.shares_per_owner, 0, 10000, 100)},
    {"store_mib_per_owner", "one owner's share of the store",
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
    {"allow", "networks that may read /metrics, besides loopback",
     TEXTS(config, metrics.allow, 256)},
    {"public", "anyone may read /metrics", BOOL(config, metrics.is_public)},
};
TABLE(metrics_table, metrics_keys);

static const struct key http_get_keys[] = {
    {"allow", "networks that the tool may reach though they are not public",
     TEXTS(config, http_get.allow, 256)},
};
TABLE(http_get_table, http_get_keys);

static const struct key terminal_keys[] = {
    {"sandbox", "how commands are confined; none: not at all",
     CHOICE(config, terminal.sandbox, sandbox_kinds, SANDBOX_BUBBLEWRAP)},
    {"workdir", "parent of the conversations' folders, where commands write",
     TEXT(config, terminal.workdir, MAX_PATH_TEXT), .computed = "data followed by -work"},
    {"network", "commands may use the network (without a sandbox they always may)",
     BOOL(config, terminal.network)},
    {"host_loopback", "share the host's network, including its loopback; otherwise pasta is needed",
     BOOL(config, terminal.host_loopback)},
    {"memory_mib", "memory of a command or, without a cgroup, of each process; 0: no bound",
     INT(config, terminal.memory_mib, 0, 1LL << 30, 2048)},
    {"processes",
     "processes of a command (without a cgroup: in the sandbox, not for root); 0: no bound",
     INT(config, terminal.processes, 0, MAX_COUNT, 256)},
    {"cpu_s", "processor time of a command or, without a cgroup, of each process; 0: no bound",
     INT(config, terminal.cpu_s, 0, MAX_SECONDS, 14400)},
    {"file_mib", "size of each file that a command writes; 0: no bound",
     INT(config, terminal.file_mib, 0, 1LL << 30, 1024)},
    {"tmp_mib", "size of /tmp, and of /dev/shm, in the sandbox; 0: half of the memory each",
     INT(config, terminal.tmp_mib, 0, 1LL << 30, 256)},
    {"workdir_mib", "size of a conversation's folder: a command that exceeds it is killed",
     INT(config, terminal.workdir_mib, 0, 1LL << 30, 0), .computed = "a tenth of the disk"},
    {"approved", "programs whose plain calls need no approval by the user; \"*\": any command",
     TEXTS(config, terminal.approved, 256)},
    {"approved_input",
     "programs whose plain calls also get input without approval (approved \"*\" allows all)",
     TEXTS(config, terminal.approved_input, 256)},
};
TABLE(terminal_table, terminal_keys);

static const struct key hook_keys[] = {
    {"name", "its name in the store: do not change it", TEXT(config_hook, name, MAX_NAME),
     .required = true},
    {"url", "URL that ends of tasks are posted to", URL(config_hook, url), .required = true},
    {"secret_file", "file whose first line signs: 24 to 512 bytes, or whsec_ and base64 of them",
     TEXT(config_hook, secret_file, MAX_PATH_TEXT), .required = true},
    {"ca_file", "PEM file of trusted certificates, instead of the system's",
     TEXT(config_hook, ca_file, MAX_PATH_TEXT)},
    {"timeout_s", "longest wait for an answer", INT(config_hook, timeout_s, 1, 3600, 10)},
    {"give_up_s", "how long to retry a message",
     INT(config_hook, give_up_s, 1, MAX_SECONDS, 259200)},
    {"at_once", "messages sent at the same time", INT(config_hook, at_once, 1, 64, 4)},
};
TABLE(hook_table, hook_keys);

static const struct key worker_keys[] = {
    {"name", "the name that it says in its hello", TEXT(config_worker, name, MAX_NAME),
     .required = true},
    {"secret_file", "file whose first line is its secret: 16 to 512 bytes, not readable by others",
     TEXT(config_worker, secret_file, MAX_PATH_TEXT), .required = true},
    {"agents", "agents of kind worker that it may serve", TEXTS(config_worker, agents, 1024),
     .required = true},
    {"runs", "runs at once, of all its instances together",
     INT(config_worker, runs, 1, 100000, 256)},
    {"instances", "processes that may be connected at once",
     INT(config_worker, instances, 1, 10000, 64)},
};
TABLE(worker_table, worker_keys);

static const struct key page_keys[] = {
    {"name", "title of the chat page", TEXT(config, page.name, 128), .text = "Holdfast"},
    {"sign_in_url", "where users without a token sign in",
     TEXT_OR_NONE(config, page.sign_in_url, MAX_PATH_TEXT)},
    {"sign_out_url", "where users who came by a cookie end it: the page's \"Sign out\" leads there",
     TEXT_OR_NONE(config, page.sign_out_url, MAX_PATH_TEXT)},
    {"accent", "colour of the page's buttons and links, such as #0b6e66; dark looks derive theirs",
     TEXT_OR_NONE(config, page.accent, 7)},
    {"mark", "file with the page's mark: an SVG or a PNG, 256 KiB at most",
     TEXT_OR_NONE(config, page.mark, MAX_PATH_TEXT)},
};
TABLE(page_table, page_keys);

static const struct key admin_keys[] = {
    {"socket", "path of the operator's Unix socket; \"\" for none", .type = KEY_TEXT,
     AT(config, admin.socket), .max = MAX_PATH_TEXT,
     .computed = "admin.sock in the data directory"},
};
TABLE(admin_table, admin_keys);

static const struct key title_keys[] = {
    {"model",
     "an entry of models, asked once after a conversation's first turn; without it none is",
     TEXT(config, titles.model, MAX_NAME)},
    {"max_tokens", "limit of its answer, thoughts included; 0: the server's own",
     INT(config, titles.max_tokens, 0, MAX_COUNT, 1024)},
    {"timeout_s", "longest wait for its answer", INT(config, titles.timeout_s, 1, 3600, 30)},
};
TABLE(title_table, title_keys);

static const struct key log_keys[] = {
    {"level", "the lowest level that is logged", CHOICE(config, log.level, log_levels, LEVEL_INFO)},
    {"format", "format of the lines on stderr",
     CHOICE(config, log.format, log_formats, FORMAT_LOGFMT)},
};
TABLE(log_table, log_keys);

static const struct key audit_keys[] = {
    {"path", "file that lines are appended to; without it there is none",
     TEXT(config, audit.path, MAX_PATH_TEXT)},
    {"rotate_mib", "size at which it becomes FILE.1, that FILE.2 and so on; 0: at none",
     INT(config, audit.rotate_mib, 0, 1048576, 100)},
    {"keep", "how many of these are kept", INT(config, audit.keep, 1, 1000, 10)},
};
TABLE(audit_table, audit_keys);

static const struct key traces_keys[] = {
    {"url", "the collector's URL for OTLP over HTTP, such as http://127.0.0.1:4318/v1/traces",
     URL(config, traces.url)},
    {"service", "service.name of the spans", TEXT(config, traces.service, 128), .text = "holdfast"},
    {"percent", "share of the traces that begin here; callers decide about theirs",
     INT(config, traces.percent, 0, 100, 100)},
    UPSTREAM_KEYS_AT(config, traces.upstream, "the collector"),
};
TABLE(traces_table, traces_keys);

static const struct key root_keys[] = {
    {"listen", "address and port; port 0: any free one", TEXT(config, listen, 128),
     .text = "127.0.0.1:8080"},
    {"processes", "processes that serve the port together, to use several cores",
     INT(config, processes, 1, 64, 1)},
    {"data", "directory of the store and the guest key", TEXT(config, data, MAX_PATH_TEXT),
     .computed = "$XDG_STATE_HOME/holdfast or ~/.local/state/holdfast"},
    {"public_url",
     "where people reach the page, such as https://chat.example/: links begin with it",
     TEXT_OR_NONE(config, public_url, MAX_PATH_TEXT)},
    {"tls", "TLS on the listening port", GROUP(tls_table)},
    {"origins", "web origins that may connect: scheme://host[:port], scheme://*.host",
     TEXTS(config, origins, 1024)},
    {"hosts", "names that Host may have, besides those of origins: name or *.name",
     TEXTS(config, hosts, 1024), .computed = "any name; on a loopback address only its own"},
    {"auth", "which tokens are accepted", GROUP(auth_table)},
    {"page", "the chat page", GROUP(page_table)},
    {"admin", "the operator's socket: requests for any owner, revoke, kick", GROUP(admin_table)},
    {"guests", "serve connections without a token even beyond loopback, or with keys",
     BOOL(config, guests)},
    {"models", "language models", LIST(models, n_models, model_table, 256)},
    {"errors",
     "what users learn about a failure of a model or an agent; short: its kind, the log has the rest",
     CHOICE(config, errors, error_kinds, ERRORS_BY_BIND),
     .computed = "full on loopback, otherwise short"},
    {"titles", "titles of conversations, by a model", GROUP(title_table)},
    {"mcp", "servers of the Model Context Protocol, for agents that list their tools",
     LIST(mcp, n_mcp, mcp_table, 64)},
    {"agents", "the agents", LIST(agents, n_agents, agent_table, 1024),
     .computed = "a react agent \"assistant\" on the builtin model"},
    {"store", "the store", GROUP(store_table)},
    {"cluster", "several gateways that share one store on PostgreSQL", GROUP(cluster_table)},
    {"retention", "how long data is kept", GROUP(retention_table)},
    {"limits", "limits of one peer, or of all", GROUP(limits_table)},
    {"compression", "compress WebSocket messages (permessage-deflate) for clients that offer it",
     BOOL_ON(config, compression)},
    {"faces", "protocols of other clients, over the same tasks", GROUP(face_table)},
    {"trusted_proxies", "networks whose X-Forwarded-For is trusted",
     TEXTS(config, trusted_proxies, 256)},
    {"proxy_protocol", "connections of trusted_proxies begin with a PROXY header, version 1 or 2",
     BOOL(config, proxy_protocol)},
    {"metrics", "access to /metrics", GROUP(metrics_table)},
    {"http_get", "the tool http_get, for agents that list it", GROUP(http_get_table)},
    {"terminal", "the tools terminal and process, for agents that list them",
     GROUP(terminal_table)},
    {"workers", "programs that connect to the gateway and serve its agents of kind worker",
     LIST(workers, n_workers, worker_table, 256)},
    {"worker_grace_s", "how long a worker without a connection keeps its runs",
     INT(config, worker_grace_s, 1, 86400, 30)},
    {"webhooks", "servers that learn of each task's end",
     LIST(webhooks, n_webhooks, hook_table, 64)},
    {"webhook_allow", "networks that webhooks may reach though they are not public",
     TEXTS(config, webhook_allow, 256)},
    {"drain_s", "how long a stopping gateway waits for its tasks",
     INT(config, drain_s, 0, 86400, 20)},
    {"log", "the log", GROUP(log_table)},
    {"audit", "who asked, read, answered and cancelled, a line of JSON each", GROUP(audit_table)},
    {"traces", "spans of tasks, told to an OpenTelemetry collector", GROUP(traces_table)},
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
