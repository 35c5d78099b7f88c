/* request -- a client's request, decoded and checked from one table (PROTOCOL.md sections 1 to 5).
 *
 * Shape:    request_decode reads one line into a struct request: the verb, the echoed id, and the
 *           fields of its verb, each checked for type, length and range.  request_from_body does
 *           the same for HTTP, where the ids come from the path and the rest from the body.
 * Thread:   any.
 * Owns:     a request owns one block of memory that all of its spans point into.
 * Errors:   false with request_fault filled: the code, a sentence that names the field, and the id
 *           to echo when it could be read.
 */
#ifndef PROTO_REQUEST_H
#define PROTO_REQUEST_H

#include "proto/errors.h"
#include "proto/js.h"
#include "proto/record.h"

/* X(enum name, wire type, flags) */
#define VERB_TABLE(X)                                                 \
    X(VERB_HELLO, "hello", VERB_BEFORE_WELCOME)                       \
    X(VERB_PING, "ping", 0)                                           \
    X(VERB_CHAT, "chat", VERB_ASK | VERB_WRITES)                      \
    X(VERB_RESUME, "resume", VERB_TASK | VERB_READ)                   \
    X(VERB_UNSUBSCRIBE, "unsubscribe", VERB_TASK | VERB_READ)         \
    X(VERB_CANCEL, "cancel", VERB_TASK | VERB_CANCELS | VERB_WRITES)  \
    X(VERB_CANCEL_ALL, "cancel_all", VERB_CANCELS | VERB_WRITES)      \
    X(VERB_SEND, "send", VERB_TASK | VERB_ASK | VERB_WRITES)          \
    X(VERB_RESPOND, "respond", VERB_TASK | VERB_ANSWER | VERB_WRITES) \
    X(VERB_WEBHOOK, "webhook", VERB_TASK | VERB_WRITES)               \
    X(VERB_WEBHOOKS, "webhooks", VERB_TASK)                           \
    X(VERB_WEBHOOK_DELETE, "webhook_delete", VERB_TASK | VERB_WRITES) \
    X(VERB_OPEN, "open", VERB_READ)                                   \
    X(VERB_CLOSE, "close", VERB_READ)                                 \
    X(VERB_WATCH, "watch", VERB_LISTS)                                \
    X(VERB_TASK_GET, "task", VERB_TASK | VERB_READ)                   \
    X(VERB_TASKS, "tasks", VERB_READ)                                 \
    X(VERB_HISTORY, "history", VERB_READ)                             \
    X(VERB_CONVERSATIONS, "conversations", VERB_LISTS)                \
    X(VERB_TITLE, "title", VERB_WRITES)                               \
    X(VERB_DELETE, "delete", VERB_WRITES)                             \
    X(VERB_RESULTS, "results", VERB_READ)                             \
    X(VERB_ACK, "ack", VERB_ASK | VERB_WRITES)                        \
    X(VERB_BRANCH, "branch", VERB_ASK | VERB_WRITES)                  \
    X(VERB_SCHEDULE, "schedule", VERB_WRITES)                         \
    X(VERB_SCHEDULES, "schedules", 0)                                 \
    X(VERB_RESCHEDULE, "reschedule", VERB_WRITES)                     \
    X(VERB_UNSCHEDULE, "unschedule", VERB_WRITES)                     \
    X(VERB_SHARE, "share", VERB_WRITES)                               \
    X(VERB_SHARES, "shares", 0)                                       \
    X(VERB_UNSHARE, "unshare", VERB_WRITES)                           \
    X(VERB_HANDOVER, "handover", 0)                                   \
    X(VERB_PIN, "pin", VERB_WRITES)                                   \
    X(VERB_ARCHIVE, "archive", VERB_WRITES)                           \
    X(VERB_SEARCH, "search", VERB_LISTS)                              \
    X(VERB_FORK, "fork", VERB_WRITES)                                 \
    X(VERB_EXPORT, "export", VERB_READ)                               \
    X(VERB_IMPORT, "import", VERB_WRITES)

enum verb_flags {
    VERB_BEFORE_WELCOME = 1, /* legal as the first line */
    VERB_TASK = 2,           /* about one task: a bad task_id or conversation_id is not_found */
    VERB_WRITES = 4,         /* needs a commit */
    /* A narrowed token needs these for it, by proto/rights.h; none of these: only the owner may. */
    VERB_READ = 8,
    VERB_ASK = 16,
    VERB_ANSWER = 32,
    VERB_CANCELS = 64,
    VERB_LISTS = 128, /* of conversations, each of which must be readable */
};
/* The bits of enum right. */
#define VERB_RIGHTS(flags) (((flags) >> 3) & 15u)

enum verb {
#define X(name, wire, flags) name,
    VERB_TABLE(X)
#undef X
        N_VERBS
};

enum when_busy { BUSY_PARALLEL, BUSY_REJECT, BUSY_ENQUEUE, BUSY_INTERRUPT };
enum answer_kind { ANSWER_NONE, ANSWER_TRUE, ANSWER_FALSE, ANSWER_TEXT };

struct request {
    enum verb verb;
    bool keepalive_data; /* hello: keepalive: "data" */
    bool strict;         /* hello: from now on; others: its members were checked */
    struct str id;       /* value to echo; NULL for none */
    struct str task_id;
    struct str conversation_id; /* chat: NULL when absent */
    struct str token;           /* hello: NULL when absent */
    /* chat */
    struct str message, agent, request_key, name, description;
    struct str parts;    /* of the message, in our form (parts.h); NULL: it is one text */
    struct str metadata; /* compact JSON object */
    struct str budget;   /* compact JSON object of tokens, tool_calls, seconds */
    struct str
        context; /* compact JSON array of {"role","content"}, role user, assistant or system */
    bool background, notify_on_complete, unlisted, begin;
    struct str reply_to, edit, regenerate; /* ids of messages or tasks; NULL when absent */
    struct str message_id;                 /* branch, fork: the same */
    enum when_busy when_busy;
    struct str webhook;    /* also webhook: compact JSON of proto/webhook.h; NULL for none */
    struct str webhook_id; /* of that, NULL for none; webhook_delete */
    /* resume */
    uint64_t after;
    uint64_t epoch; /* resume: of the store, when the cursor was told; 0: the oldest */
    bool coalesce;
    uint64_t rollup_ms;      /* also chat, open; 0: each event by itself */
    bool tree;               /* cancel */
    bool follow;             /* open */
    enum maybe events;       /* watch: those of all tasks … */
    struct str cursor;       /* … behind this; NULL when absent */
    struct str content;      /* send */
    struct str input_id;     /* respond */
    enum answer_kind answer; /* respond: any legal type; the question's kind decides */
    struct str answer_text;
    struct str title;
    /* lists */
    uint32_t limit;    /* LIST_DEFAULT when absent */
    struct str before; /* NULL when absent */
    bool has_status;
    bool turns; /* tasks: only those of type chat and notice */
    bool all;   /* history: of all branches */
    enum task_status status;
    struct str *task_ids; /* ack; n_task_ids of them */
    size_t n_task_ids;
    /* schedule, reschedule, unschedule */
    struct str schedule_id;
    struct str chat;              /* compact JSON object of chat's members */
    struct str cron, time_zone;   /* NULL when absent */
    uint64_t not_before, every_s; /* Unix ms; 0 when absent */
    enum maybe catch_up, paused;
    /* share, unshare, hello */
    struct str share_id, member;
    unsigned rights; /* 0: not given */
    bool is_visitor; /* the token is narrowed: its bearer may not do all that the owner may */
    uint64_t expires_at;
    struct str handover;
    /* pin, archive; conversations: only such */
    enum maybe pinned, archived;
    struct str query; /* search */
    struct str to;    /* fork: the new conversation's id; NULL when absent */
    struct str from;  /* export: where it goes on; NULL when absent */
    struct str lines; /* import: a compact JSON array of objects */
    struct str actor; /* who asks in the owner's name: of the token; NULL: the owner */
    char *memory;     /* the block that everything above points into */
};

struct request_fault {
    enum error code;
    char message[256];
    char id[MAX_REQUEST_ID + 1]; /* the id's value to echo */
    size_t id_len;
    bool has_id;
    bool malformed; /* not JSON, not an object, or no type: counts towards 1008 */
};

/* Reads one line.  The doc is scratch, reused from call to call.  strict: a member that the verb
 * does not have is a fault (a hello decides for itself).  On success request_done frees. */
bool request_decode(struct js_doc *doc, struct str line, bool strict, struct request *ret,
                    struct request_fault *fault) MUST_USE;

/* The same for a verb that is already known: body is a JSON object or empty, and its members type,
 * id, task_id and conversation_id are ignored; the caller gives the ids (STR_NULL when the path has
 * none). */
bool request_from_body(struct js_doc *doc, enum verb verb, struct str conversation_id,
                       struct str task_id, struct str body, struct request *ret,
                       struct request_fault *fault) MUST_USE;
/* Whether the verb has every member of the object that the doc holds: strict for HTTP, and for an
 * object inside a request. */
bool request_knows_members(const struct js_doc *doc, enum verb verb, struct request_fault *fault)
    MUST_USE;
void request_done(struct request *r);
/* Appends the request as a line without newline that request_decode reads as the same request: for
 * another node that carries it out.  Not of a hello. */
void request_encode(const struct request *r, struct buf *out);

unsigned verb_flags(enum verb v);
const char *verb_name(enum verb v); /* on the wire */
/* 1–128 bytes of [A-Za-z0-9._-], the first a letter or digit. */
bool conversation_id_is_valid(struct str id);
/* 1–128 bytes, and none of the reserved words for relatives. */
bool task_name_is_valid(struct str name);

#endif
