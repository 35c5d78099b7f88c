/* config -- the operator's decisions: the JSON file, the command line, and the defaults.
 *
 * File:     JSON; comments as in C may stand wherever a blank may.
 * Shape:    one table of keys (config_keys.c) has each key's type, range, default and description;
 *           reading, faults and config_print use it.  config_check.c holds the rules that a table
 *           cannot express, such as values that depend on each other.  After config_load the struct
 *           is const.
 * Thread:   loop; read by any thread once loaded.
 * Owns:     all its texts and lists.  config_done accepts a half-filled struct too.
 * Errors:   all faults of a file are listed, one a line, each beginning with its key's path:
 *             limits.burst: must be an integer from 1 to 100000
 *           A fault never quotes a value of the file, because it may be a secret.
 * Paths:    relative paths start at the working directory.
 * A NULL text means: not given.
 */
#ifndef GATEWAY_CONFIG_CONFIG_H
#define GATEWAY_CONFIG_CONFIG_H

#include "core/hub.h"
#include "gateway/base/log.h"
#include "gateway/base/net.h"
#include "gateway/base/origin.h"
#include "proto/forms/form.h"

struct config_texts {
    char **list; /* followed by a NULL; NULL when n is 0 */
    size_t n;
};

enum key_alg { ALG_HS256, ALG_RS256, ALG_ES256, ALG_EDDSA };

const char *key_alg_text(enum key_alg alg); /* "HS256" */

struct config_key {
    char *kid;
    uint32_t alg;          /* enum key_alg */
    char *public_key_file; /* PEM, JWK or JWK set; not for HS256 */
    char *secret_file;     /* HS256 only */
};

/* How to talk to another HTTP server. */
struct config_upstream {
    char *api_key_env;           /* the environment variable that holds the key */
    char *api_key_file;          /* its first line is the key; not together with api_key_env */
    struct config_texts headers; /* "Name: value" */
    char *ca_file;
    char *proxy; /* "" for none */
    uint32_t connect_timeout_s, retries;
};

/* How much users learn about a model server's fault. */
enum error_kind { ERRORS_FULL, ERRORS_SHORT, ERRORS_BY_BIND };

enum model_kind { MODEL_OPENAI, MODEL_BUILTIN };

/* The interface of a model's server: Chat Completions, Responses, Anthropic's Messages. */
enum model_api { API_CHAT, API_RESPONSES, API_ANTHROPIC };

/* Files of messages that a model can be given: images and others, images, none. */
enum config_takes { TAKES_MESSAGES, TAKES_FILES, TAKES_IMAGES, TAKES_TEXT };

/* How a model is given files that have an id. */
enum config_files { FILES_DATA, FILES_URL, FILES_BY_ADDRESS };

struct config_model {
    char *name;
    uint32_t kind; /* enum model_kind */
    uint32_t api;  /* enum model_api */
    char *base_url;
    char *model; /* the model's name at base_url */
    struct config_upstream upstream;
    uint32_t idle_timeout_s; /* longest silence; 0: no limit */
    uint64_t context_bytes;  /* of messages in a request; 0: no limit */
    uint32_t takes;          /* enum config_takes */
    uint32_t files;          /* enum config_files, checked: the first two */
    char *think_tag;         /* the tag that encloses thoughts in its answers; "" for none */
    char *fallback;          /* name of another model; NULL for none */
    /* A word of its server, NULL for none; of an answer, 0 for the API's default; 0 for none. */
    char *effort;
    uint32_t max_tokens, thinking_tokens;
    /* For a million tokens, in thousandths of the operator's currency; cached: 0 is price_in. */
    uint32_t price_in, price_cached, price_out;
};

/* AGENT_SOURCE produces as many tokens as requested: for benchmarks and tests. */
enum agent_kind { AGENT_REACT, AGENT_EXEC, AGENT_HTTP, AGENT_SOURCE, AGENT_ACP, AGENT_WORKER };

/* Running tasks over a restart of the gateway. */
enum after_restart { RESTART_CONTINUE, RESTART_FAIL, RESTART_BY_KIND };

/* How a program of the form text gets its input. */
enum agent_input { INPUT_STDIN, INPUT_ARGUMENT };

#define CWD_WORKSPACE "workspace" /* as cwd: the conversation's own folder */

struct config_agent {
    char *name;
    char *description; /* "" by default */
    uint32_t kind;     /* enum agent_kind */
    char *model;       /* react: a name in models, or "builtin" (the default) */
    char *system;      /* react: the system message */
    struct config_texts examples;
    struct config_texts tools;
    struct config_texts command; /* exec, acp: argv; command.list is what exec_settings expects */
    struct config_texts env;     /* exec, acp: "KEY=value" */
    char *cwd;                   /* exec, acp: may be CWD_WORKSPACE */
    uint32_t form;               /* exec: enum agent_form */
    uint32_t input;              /* form text: enum agent_input */
    char *auth_method;           /* acp: NULL for none */
    struct {
        bool files, terminals; /* acp: what the gateway serves as its client */
    } client;
    uint32_t pool_idle_s, pool;         /* acp: processes that wait for a next turn */
    bool kept;                          /* exec: its program outlives the gateway … */
    uint32_t keep_s;                    /* … by so long at most */
    char *url;                          /* http */
    struct config_upstream upstream;    /* http */
    uint32_t max_turns;                 /* react */
    uint32_t wait_s;                    /* worker: for a place; 0: for ever */
    bool rerun;                         /* worker: a lost run of which nothing came */
    bool is_default;                    /* true for exactly one agent */
    uint32_t timeout_s, idle_timeout_s; /* 0: never */
    uint32_t grace_s;
    uint32_t after_restart; /* enum after_restart, but for RESTART_BY_KIND */
    uint32_t notify;        /* enum notify */
    struct {                /* until it asks whether to go on; 0: no limit */
        uint32_t tokens, tool_calls, seconds;
    } budget;
};

/* The default limits, which are lowered without a warning (gateway/descriptors.h). */
#define CONFIG_PROCESSES 256
#define CONFIG_CONNECTIONS 100000
#define REACT_MAX_TURNS 10 /* when max_turns is not given */

/* When the user is asked before a tool of an MCP server is called. */
enum mcp_approve { MCP_APPROVE_BY_HINT, MCP_APPROVE_ALWAYS, MCP_APPROVE_NEVER };

/* In the order of their names in config_keys.c. */
enum mcp_sandbox { MCP_SANDBOX_NONE, MCP_SANDBOX_BUBBLEWRAP };

/* A server of the Model Context Protocol: a program, or a URL. */
struct config_mcp {
    char *name;
    struct config_texts command; /* argv */
    struct config_texts env;     /* "KEY=value" */
    char *cwd;
    char *url;
    struct config_texts headers; /* "Name: value" */
    char *headers_file;          /* more of them, one a line */
    char *ca_file;
    struct config_texts allow; /* tools; none: all */
    uint32_t approve;          /* enum mcp_approve */
    uint32_t timeout_s;        /* longest silence of a call */
    uint32_t longest_s;        /* longest call */
    uint32_t sandbox;          /* enum mcp_sandbox */
    struct config_texts paths; /* in the sandbox: PATH, or PATH:ro */
    bool network;              /* in the sandbox */
};

#define MCP_TOOL "mcp:" /* "mcp:SERVER/TOOL", "mcp:SERVER/" "*": in an agent's tools */

struct config_hook {
    char *name, *url, *secret_file;
    char *ca_file;
    uint32_t timeout_s, give_up_s, at_once;
};

/* The protocols of other clients (gateway/faces/), each with a key under faces.  X(enum name, key,
 * the key's description) */
#define FACE_TABLE(X)                                                                       \
    X(FACE_AI_SDK, "ai_sdk", "the AI SDK's chat transports, at /v1/ai")                     \
    X(FACE_OPENAI, "openai",                                                                \
      "OpenAI's Responses at /v1/responses, Chat Completions at /v1/chat/completions, and " \
      "/v1/models")                                                                         \
    X(FACE_AG_UI, "ag_ui", "AG-UI, at /v1/ag-ui/{agent}")                                   \
    X(FACE_A2A, "a2a", "the Agent2Agent protocol, at /v1/a2a")                              \
    X(FACE_MCP, "mcp", "agents as tools of the Model Context Protocol, at /v1/mcp")         \
    X(FACE_ACP, "acp", "the Agent Client Protocol on a WebSocket, at /v1/acp")              \
    X(FACE_DURABLE_STREAMS, "durable_streams", "tasks as Durable Streams to read, at /v1/stream")

enum config_face {
#define X(name, key, doc) name,
    FACE_TABLE(X)
#undef X
        N_FACES
};

/* Agents that dial in (gateway/agents/workers.h). */
struct config_worker {
    char *name, *secret_file;
    struct config_texts agents; /* that it may serve: of kind worker */
    uint32_t runs;              /* at once, of all its instances */
    uint32_t instances;
};

enum sandbox_kind { SANDBOX_BUBBLEWRAP, SANDBOX_NONE };
enum store_kind { STORE_SQLITE, STORE_MEMORY, STORE_POSTGRES };
enum store_durability { DURABLE_PROCESS, DURABLE_POWER, DURABLE_REPLICATED, DURABLE_BY_KIND };

/* The command line; it overrides the file.  NULL: not given. */
struct config_flags {
    const char *listen, *data, *log_level, *log_format;
};

struct config {
    const char *file; /* the file that was read, and the flags: for a reload */
    struct config_flags flags;
    char *listen;         /* as written: "127.0.0.1:8080" */
    char *listen_host;    /* an address without brackets: "127.0.0.1", "::1" */
    uint16_t listen_port; /* 0: any free one */
    uint32_t processes;   /* that serve the port together */
    bool is_loopback;     /* listen_host is a loopback address */
    uint32_t errors;      /* enum error_kind */
    char *data;           /* directory */
    char *public_url;     /* of the page, for people; "" for none */
    struct {
        char *cert, *key; /* both or neither */
    } tls;
    struct config_texts origins, hosts;
    struct origins parsed_origins; /* as many as the texts */
    struct {
        struct config_key *keys;
        size_t n_keys;
        char *jwks_url; /* NULL for none */
        char *issuer, *audience;
        char *cookie; /* the cookie's name */
        char *admin_claim, *tenant_claim;
    } auth;
    struct {
        char *socket; /* path; NULL for none */
    } admin;
    struct {
        char *name, *sign_in_url, *sign_out_url; /* "" for none */
        char *accent;                            /* "#rrggbb"; "" for the page's own */
        char *mark;                              /* a file; "" for the page's own */
        struct buf mark_bytes; /* its contents, and their media type; NULL for none */
        const char *mark_type;
    } page;
    bool guests;        /* "guests": true was given */
    bool serves_guests; /* guests, or no keys */
    struct config_model *models;
    size_t n_models;
    struct config_mcp *mcp;
    size_t n_mcp;
    struct config_agent *agents; /* at least one */
    size_t n_agents;
    struct {
        uint32_t kind;       /* enum store_kind */
        uint32_t durability; /* enum store_durability, but for DURABLE_BY_KIND */
        char *url_file;
        uint32_t replay_cache_mib;
        uint32_t retry_s;
        uint32_t redo_mib;
        bool chain; /* tasks end with a continuity proof */
    } store;
    struct {
        char *node; /* this one's name */
        char *secret_file;
        uint32_t lease_s;
        uint32_t clock_off_s;
        uint32_t uneven_percent;
        char *listen;    /* NULL: other nodes cannot reach it */
        char *advertise; /* NULL like that */
        bool front_only;
        bool tls; /* on links */
    } cluster;
    struct {
        uint32_t task_days;
        uint32_t store_gib;
        uint32_t process_days;
    } retention;
    struct hub_limits limits;
    struct { /* the rim's limits */
        uint32_t connections, connections_per_address, ipv6_prefix;
        uint32_t face_bytes;
        uint32_t file_mib;
        uint64_t store_mib_per_owner;
    } rim_limits;
    struct config_texts trusted_proxies;
    struct net *trusted_nets; /* as many as the texts */
    bool proxy_protocol;
    bool compression;
    bool faces[N_FACES];      /* whether each is served */
    bool faces_said[N_FACES]; /* whether the file sets it */
    struct {
        struct config_texts allow;
        struct net *allow_nets; /* as many as the texts */
        bool is_public;
    } metrics;
    struct {
        struct config_texts allow;
        struct net *allow_nets; /* as many as the texts */
    } http_get;
    struct {                /* the tools terminal and process */
        uint32_t sandbox;   /* enum sandbox_kind */
        char *workdir;      /* parent of all conversations' folders */
        bool network;       /* whether commands may use it */
        bool host_loopback; /* and whether that is the host's own */
        uint64_t memory_mib, processes, cpu_s, file_mib, tmp_mib; /* 0: no limit */
        uint64_t workdir_mib;               /* of a conversation's folder; 0: a tenth of its disk */
        struct config_texts approved;       /* programs that need no approval; "*": all */
        struct config_texts approved_input; /* programs whose input needs no approval */
    } terminal;
    struct config_worker *workers;
    size_t n_workers;
    uint32_t worker_grace_s;
    struct config_hook *webhooks;
    size_t n_webhooks;
    struct config_texts webhook_allow;
    struct net *webhook_allow_nets; /* as many as the texts */
    uint32_t drain_s;
    struct {
        uint32_t level;  /* enum log_level */
        uint32_t format; /* enum log_format */
    } log;
    struct {
        char *path; /* NULL: none */
        uint64_t rotate_mib;
        uint32_t keep;
    } audit;
    struct {
        char *model; /* the name of one of models; NULL: there are none by a model */
        uint32_t max_tokens, timeout_s;
    } titles;
    struct {
        char *url; /* NULL: there are none */
        char *service;
        uint32_t percent;
        struct config_upstream upstream;
    } traces;
};

/* Reads the file (NULL: defaults alone) and the flags (NULL: none), both of which must outlive ret,
 * checks everything, and appends the faults to ret_faults.  Returns their number; with faults, *ret
 * may only be passed to config_done. */
int config_load(const char *file, const struct config_flags *flags, struct config *ret,
                struct buf *ret_faults) MUST_USE;
void config_done(struct config *c);
/* Appends a warning for each setting that is allowed but perhaps not intended, in the form of
 * faults.  Returns their number. */
int config_warn(const struct config *c, struct buf *ret_warnings);
/* Appends a fault for each file that it names and nobody can read, and for each variable that is
 * not set: the latter at a start alone, because whoever checks a file may have another environment.
 * Returns their number. */
int config_check_files(const struct config *c, bool is_start, struct buf *ret_faults);
/* Whether it is one of those programs that run what they are given, as far as they are known; so is
 * python for "/usr/bin/python3.11". */
bool config_runs_anything(const char *program);

/* Why the agent's programs end with the gateway, where others are kept; NULL: they don't, or it has
 * none. */
const char *config_not_kept(const struct config *c, const struct config_agent *agent);

/* The effective configuration as indented JSON; values that may be secret appear as "***". */
void config_print(const struct config *c, struct buf *out);
/* All keys with type, range, default and description, one a line. */
void config_print_keys(struct buf *out);

/* Whether tokens of others are let in: there are keys for them, or there will be. */
bool config_has_keys(const struct config *c);
/* A coding agent: it works in the folder that it is started in, and runs commands. */
bool config_is_coder(const struct config_agent *agent);
/* The server that an agent's tool "mcp:SERVER/TOOL" is of, and the tool in ret_tool; NULL when
 * there is none, or the text is no such tool. */
const struct config_mcp *config_find_mcp(const struct config *c, const char *tool,
                                         const char **ret_tool);
/* NULL for "builtin" (also when models has an entry of kind builtin and that name). */
const struct config_model *config_find_model(const struct config *c, const char *name);

#endif
