/* mcp_private -- what the files of this room share: mcp.c has the servers and the runs' tools,
 * mcp_server.c a server's life, mcp_take.c what it says, mcp_list.c its tools, mcp_call.c and
 * mcp_task.c the calls, mcp_ask.c its questions; mcp_stdio.c and mcp_http.c carry the messages;
 * mcp_program.c turns the configuration into a program or headers.
 *
 * Thread:   loop.
 */
#ifndef GATEWAY_MCP_MCP_PRIVATE_H
#define GATEWAY_MCP_MCP_PRIVATE_H

#include "core/bucket.h"
#include "core/list.h"
#include "gateway/mcp/mcp.h"
#include "gateway/processes/keep_folder.h"
#include "proto/mcp/mcp_content.h"
#include "proto/mcp/mcp_form.h"
#include "proto/mcp/mcp_message.h"
#include "proto/mcp/mcp_tool.h"

#define MCP_MESSAGE_BYTES (16 * 1024 * 1024) /* of one message of a server */
#define MCP_WHY 320

struct mcp_server;
struct tool_job;

/* --- links: how messages travel --------------------------------------------------------------- */

struct mcp_outgoing {
    struct str body;    /* the message */
    int64_t id;         /* of a request; 0: nothing is answered */
    const char *method; /* NULL: an answer to the server */
    struct str name;    /* what a header must name: the tool or the task; "" for none */
    struct str headers; /* further ones, "Name: value\n" each */
    bool stays;         /* its answers come as long as the server runs */
};

struct mcp_link;
struct mcp_link_ops {
    /* False: it does not take it, and never will. */
    bool (*send)(struct mcp_link *link, const struct mcp_outgoing *message);
    /* No answer to that request is of interest any more. */
    void (*forget)(struct mcp_link *link, int64_t id);
    /* From now on, the messages of a legacy server that answer nothing are listened to. */
    void (*listen)(struct mcp_link *link);
    void (*go_on)(struct mcp_link *link); /* reading, after mcp_server_heard has stopped it */
    /* Frees it, later if need be; the server is told nothing more.  kill: without ceremony. */
    void (*close)(struct mcp_link *link, bool kill);
};
struct mcp_link {
    const struct mcp_link_ops *ops;
    struct mcp_server *server; /* NULL: closed */
};

/* NULL with a sentence in ret_error (MCP_WHY). */
struct mcp_link *mcp_stdio_open(struct mcp_server *s, char *ret_error);
struct mcp_link *mcp_http_open(struct mcp_server *s, char *ret_error);

/* A link tells these to its server; each may close the link. */
struct mcp_loss {
    int status;      /* of HTTP; 0: there was no reply */
    struct str body; /* of a reply that refuses */
    struct str why;
};
/* stream: the request on whose stream it came; 0: on none. */
void mcp_server_take(struct mcp_server *s, struct str message, int64_t stream);
void mcp_server_lost(struct mcp_server *s, int64_t id, const struct mcp_loss *loss);
void mcp_server_died(struct mcp_server *s, const char *why);
void mcp_server_noise(struct mcp_server *s, struct str line); /* it is no message */
/* Counts what was read.  False: nothing more is read until go_on. */
bool mcp_server_heard(struct mcp_server *s, size_t messages, size_t bytes);

/* --- tools ------------------------------------------------------------------------------------ */

struct mcp_entry {
    struct tool tool; /* its settings are this */
    struct mcp_tool facts;
    struct mcp_list *list;
};

/* Immutable, and counted: a run keeps the one that it began with. */
struct mcp_list {
    unsigned refs;
    struct mcp_server *server;
    struct mcp_entry *entries;
    size_t n;
};

/* Takes the catalog's tools, those that the configuration allows. */
struct mcp_list *mcp_list_new(struct mcp_server *s, struct mcp_catalog *from);
void mcp_list_drop(struct mcp_list *list); /* NULL is allowed */
const struct mcp_entry *mcp_list_find(const struct mcp_list *list, struct str name);

/* --- servers ---------------------------------------------------------------------------------- */

enum mcp_phase {
    MCP_STOPPED, /* never started, or waiting to be started again */
    MCP_PROBING,
    MCP_INITIALIZING,
    MCP_SETTLING, /* a legacy server tells of its tools after the handshake */
    MCP_LISTING,
    MCP_READY
};

/* The purpose of a request of ours. */
enum mcp_purpose {
    MCP_FOR_PROBE,
    MCP_FOR_INITIALIZE,
    MCP_FOR_LIST,
    MCP_FOR_LISTEN,
    MCP_FOR_LIFE,    /* whether it still answers */
    MCP_FOR_NOTHING, /* its answer is of no interest */
    MCP_FOR_CALL,
    MCP_FOR_TASK,
    MCP_FOR_TASK_RESULT,
    MCP_FOR_TASK_INPUT
};

struct mcp_request {
    struct list node;
    int64_t id;
    enum mcp_purpose purpose;
    struct tool_job *job; /* of MCP_FOR_CALL and later */
};

struct mcp_server {
    struct mcp *mcp;
    const struct config_mcp *config;
    enum mcp_phase phase;
    enum mcp_era era;
    bool wanted;  /* an agent lists it */
    bool begun;   /* mcp_start has come */
    bool stopped; /* mcp_stop */
    bool lists;   /* a list is under way */
    bool says_changes, has_tasks;
    bool listens;          /* it has agreed to tell of changes */
    bool elicits;          /* over stdio, it has asked without saying for which call */
    struct mcp_link *link; /* NULL: none */
    struct list requests;
    struct list jobs;
    int64_t last_id;
    char version[16]; /* of a legacy server: the protocol's */
    int64_t ttl_ms;   /* how long a modern list is good; -1: it does not say */
    struct mcp_catalog catalog;
    struct mcp_list *list; /* the newest; NULL: none yet */
    msec_t listed_ms, ready_ms;
    struct timer timer;   /* of the phase */
    struct timer refresh; /* list again */
    struct timer relisten;
    struct timer life;
    struct timer flood;
    struct bucket messages, kbytes;
    msec_t flooded_ms; /* since when; 0: it does not */
    unsigned noise, failures, relistens;
    char why[MCP_WHY]; /* why it does not run */
    struct mcp_stats stats;
    struct js_doc doc;
    struct buf scratch, body;
};

struct mcp {
    struct mcp_options o;
    struct mcp_server *servers;
    size_t n;
    struct list hands; /* that wait */
    bool reviews, reviews_again;
};

void mcp_server_init(struct mcp_server *s, struct mcp *m, const struct config_mcp *config);
void mcp_server_open(struct mcp_server *s);
void mcp_server_stop(struct mcp_server *s);
void mcp_server_done(struct mcp_server *s);
/* It starts, or lists its tools for the first time: worth waiting for. */
bool mcp_server_is_starting(const struct mcp_server *s);
/* Lists again when the list is older than its server lets it be, and than since.  False: it is
 * good. */
bool mcp_server_refreshes(struct mcp_server *s, msec_t since);
/* Ends it, and starts it again after wait_ms; -1: after the next pause.  Calls that were not sent
 * yet wait for it when it starts again at once. */
void mcp_server_down(struct mcp_server *s, const char *why, msec_t wait_ms);
void mcp_server_again(struct mcp_server *s); /* list again, soon */
void mcp_server_doubt(struct mcp_server *s); /* a call had no answer: does it live? */
void mcp_server_answered(struct mcp_server *s, enum mcp_purpose purpose,
                         const struct mcp_message *m);
void mcp_server_refused(struct mcp_server *s, enum mcp_purpose purpose,
                        const struct mcp_loss *loss);
msec_t mcp_now(const struct mcp_server *s);
void mcp_arm(struct mcp_server *s, struct timer *t, msec_t ms); /* from now */
void mcp_disarm(struct mcp_server *s, struct timer *t);

struct mcp_ask {
    enum mcp_purpose purpose;
    const char *method;
    struct str params, name, headers;
    bool wants_progress;
    struct tool_job *job;
};
/* Sends a request; its id, or 0: the server does not read. */
int64_t mcp_server_ask(struct mcp_server *s, const struct mcp_ask *ask);
void mcp_server_tell(struct mcp_server *s, const char *method, struct str body);
void mcp_server_forget(struct mcp_server *s, int64_t id);

void mcp_hands_review(struct mcp *m); /* a server has become ready, or has failed */

/* --- calls ------------------------------------------------------------------------------------ */

enum mcp_job_state {
    MCP_JOB_WAITING, /* for its server to start, or for its turn */
    MCP_JOB_CALLING, /* a request is open */
    MCP_JOB_ASKING,  /* the user is asked; its clocks stand */
    MCP_JOB_PAUSING, /* until a task is looked at again, or the call is repeated */
    MCP_JOB_GIVING,  /* it went well, and its files are stored */
    MCP_JOB_OVER     /* done was called */
};

struct tool_job {
    struct list node; /* in its server's jobs */
    struct mcp_server *server;
    struct mcp_list *list; /* keeps the entry */
    const struct mcp_entry *entry;
    tool_done_fn done;
    void *user;
    const struct tool_talk *talk;
    char *arguments;
    struct trace_copy trace;
    enum mcp_job_state state;
    int64_t request; /* the open one; 0: none */
    int64_t token;   /* of its progress */
    bool retried;    /* its session was gone once */
    struct timer deadline, pause, tell;
    msec_t begun_ms, heard_ms, asked_ms;

    double progress, highest; /* told; as the server counts */
    struct buf note;          /* not told yet */
    msec_t told_ms;

    char *task_id; /* NULL: it is no task */
    msec_t poll_ms;

    unsigned rounds;              /* of questions */
    struct mcp_form form;         /* the open question */
    struct buf own_id;            /* legacy: the server's request, as JSON */
    struct buf inputs, responses; /* modern: what it wants to know, and the answers, as JSON */
    size_t at_input;
    struct buf request_state; /* as JSON; "" for none */

    char *owner, *conversation_id, *file_key; /* of its files; NULL: nobody takes them */
    struct mcp_gifts *gifts;                  /* NULL: none yet */
};

void mcp_call_init(struct tool *tool);   /* start, stop, asks, topic, answer */
void mcp_job_send(struct tool_job *job); /* the call, or the call again */
/* Sends a request for the job; false: its server is down now, and the job has failed. */
bool mcp_job_request(struct tool_job *job, enum mcp_purpose purpose, const char *method,
                     struct str params);
void mcp_job_finish(struct tool_job *job, struct str output); /* it went well */
void mcp_job_fail(struct tool_job *job, enum mcp_failure kind, struct str why);
void mcp_job_rest(struct tool_job *job, msec_t ms); /* pauses */
void mcp_job_heard(struct tool_job *job);           /* the server shows that it is at work */
void mcp_job_take_result(struct tool_job *job, const struct js_doc *doc, uint32_t result);
/* mcp_files.c */
#define MCP_GIFTS 16 /* files of one result */
void mcp_files_caller(struct tool_job *job, const struct tool_caller *caller);
/* True: the result has files, and the job finishes with text when they are stored. */
bool mcp_files_give(struct tool_job *job, const struct js_doc *doc, uint32_t result,
                    struct str text);
void mcp_files_done(struct tool_job *job);
/* mcp_task.c */
void mcp_task_begin(struct tool_job *job, const struct js_doc *doc, uint32_t result);
void mcp_task_look(struct tool_job *job);
void mcp_task_take(struct tool_job *job, const struct js_doc *doc, uint32_t result);
void mcp_task_cancel(struct tool_job *job);
/* mcp_ask.c */
void mcp_ask_inputs(struct tool_job *job, const struct js_doc *doc, uint32_t inputs);
void mcp_ask_answer(struct tool_job *job, struct str answer);
void mcp_jobs_ready(struct mcp_server *s);
/* All that were sent fail; with waiting, also those that were not. */
void mcp_jobs_fail(struct mcp_server *s, const char *why, bool waiting);
void mcp_job_answered(struct tool_job *job, enum mcp_purpose purpose, const struct js_doc *doc,
                      const struct mcp_message *m);
void mcp_job_lost(struct tool_job *job, const struct mcp_loss *loss);
void mcp_job_progress(struct mcp_server *s, const struct js_doc *doc, uint32_t params);
void mcp_server_elicits(struct mcp_server *s, const struct js_doc *doc, const struct mcp_message *m,
                        int64_t stream);

/* --- the configuration ------------------------------------------------------------------------ */

/* The program's argv, with the sandbox around it. */
void mcp_program_argv(const struct config_mcp *c, struct keep_texts *ret);
/* Its environment besides PATH, HOME and LANG; the texts are the configuration's, but the list is
 * the caller's to free. */
char **mcp_program_env(const struct config_mcp *c);
bool mcp_program_works(const struct config_mcp *c, char ret_error[MCP_ERROR_TEXT]);
/* Appends the headers of the configuration and of its file.  False with a sentence, without a part
 * of a header. */
bool mcp_program_headers(const struct config_mcp *c, struct keep_texts *ret, char *ret_error,
                         size_t n);

#endif
