/* a2a -- the Agent2Agent protocol 1.0 over JSON-RPC and over REST (docs/faces.md).
 *
 * Shape:    one request struct for both bindings; replies are an envelope of JSON-RPC, or bare.  A
 *           task's id comes from exchange_put_id, its context is the conversation, and its one
 *           artifact, "answer", is the text.  The rest of a2a is split by noun: a2a_request.c
 *           reads, a2a_task.c writes tasks and errors, a2a_card.c and a2a_list.c answer from lists,
 *           a2a_http.c asks, a2a.c maps the events.
 * Thread:   any.
 * Owns:     a request is the state of its exchange, and its spans point into the exchange's memory.
 * Errors:   enum a2a_fault, each with its code of JSON-RPC and its status of REST.
 */
#ifndef PROTO_FACES_A2A_H
#define PROTO_FACES_A2A_H

#include "proto/faces/exchange.h"

/* X(name, code of JSON-RPC, status of HTTP, its name in REST, reason or NULL) */
#define A2A_FAULT_TABLE(X)                                                                \
    X(A2A_PARSE, -32700, 400, "INVALID_ARGUMENT", NULL)                                   \
    X(A2A_NO_REQUEST, -32600, 400, "INVALID_ARGUMENT", NULL)                              \
    X(A2A_NO_METHOD, -32601, 404, "NOT_FOUND", NULL)                                      \
    X(A2A_PARAMS, -32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS")                      \
    X(A2A_INTERNAL, -32603, 500, "INTERNAL", NULL)                                        \
    X(A2A_NOT_FOUND, -32001, 404, "NOT_FOUND", "TASK_NOT_FOUND")                          \
    X(A2A_NOT_CANCELABLE, -32002, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE")      \
    X(A2A_NO_PUSH, -32003, 400, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED") \
    X(A2A_UNSUPPORTED, -32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION")       \
    X(A2A_CONTENT_TYPE, -32005, 400, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED")    \
    X(A2A_VERSION, -32009, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED")           \
    X(A2A_UNAUTHENTICATED, -32000, 401, "UNAUTHENTICATED", NULL)                          \
    X(A2A_TOO_LARGE, -32000, 413, "INVALID_ARGUMENT", NULL)                               \
    X(A2A_TOO_MANY, -32000, 429, "RESOURCE_EXHAUSTED", NULL)                              \
    X(A2A_UNAVAILABLE, -32000, 503, "UNAVAILABLE", NULL)

enum a2a_fault {
    A2A_NONE,
#define X(name, code, status, status_name, reason) name,
    A2A_FAULT_TABLE(X)
#undef X
};

enum a2a_state {
    A2A_UNSPECIFIED,
    A2A_SUBMITTED,
    A2A_WORKING,
    A2A_INPUT_REQUIRED,
    A2A_COMPLETED,
    A2A_FAILED,
    A2A_CANCELED,
    N_A2A_STATES
};

#define A2A_PAGE 100 /* tasks of a list, at most */

enum a2a_operation {
    A2A_RPC, /* only for the route: the method chooses one of the others */
    A2A_CARD,
    A2A_EXTENDED_CARD,
    A2A_SEND,         /* one reply, when the task has ended or waits for the user */
    A2A_SEND_AT_ONCE, /* one reply, of the current state */
    A2A_STREAM,       /* a new task's events */
    A2A_STREAM_ON,    /* the same after a message to a task: a snapshot, then later events */
    A2A_SUBSCRIBE,    /* a snapshot, then later events, to the end */
    A2A_GET,
    A2A_CANCEL,
    A2A_LIST,
    A2A_PUSH_SET,
    A2A_PUSH_GET,
    A2A_PUSH_LIST,
    A2A_PUSH_DELETE,
};

struct a2a_request {
    enum a2a_operation operation;
    bool is_rpc;
    struct str rpc_id;     /* of JSON-RPC, as JSON; STR_NULL: null */
    struct str agent;      /* from the path; "": the default one */
    struct str base;       /* struct face_input's */
    struct str message_id; /* of a message, like the next four */
    struct str context_id; /* or of a list; or STR_NULL */
    struct str task_id;    /* or of any request about a task; STR_NULL: a new one */
    struct str text;
    struct str parts;      /* the same in parts, JSON, when one is a file; or STR_NULL */
    struct str webhook;    /* JSON: of a push notification config, or STR_NULL */
    struct str webhook_id; /* A2A_PUSH_GET, _DELETE */
    struct str answer;     /* JSON: the member "answer" of a data part, or STR_NULL */
    bool without_history;  /* historyLength is 0: otherwise a task's history is its first message */
    /* list */
    struct str page_token;
    int64_t page_size;
    enum a2a_state state; /* A2A_UNSPECIFIED: any */
    int64_t after;        /* Unix ms: status changes after that */
    bool with_artifacts;
    /* its progress (a2a_list.c) */
    uint32_t n, n_asks;              /* tasks that were put; asks that were made */
    char last[TASK_ID_LEN + 1];      /* the oldest examined task of the conversation */
    bool has_more;                   /* it has older ones */
    char ids[A2A_PAGE][TASK_ID_LEN]; /* their records are requested, from at_id on */
    uint32_t n_ids, at_id;
};

/* Reads a request into the exchange's state.  A2A_NONE, or what is wrong, with a sentence. */
enum a2a_fault a2a_read(struct face_exchange *x, const struct face_input *in, char why[128]);

/* --- writing ---------------------------------------------------------------------------------- */

struct a2a_task {
    struct str task_id, conversation_id;
    enum a2a_state state;
    int64_t at;          /* Unix ms: when it entered that state; 0: unknown */
    struct str message;  /* JSON of the status's message, or STR_NULL */
    struct str history;  /* JSON of one message, or STR_NULL */
    struct str text;     /* of the artifact; STR_NULL: there is none */
    struct str files;    /* JSON of further artifacts, separated by commas, or STR_NULL */
    struct str metadata; /* JSON object, or STR_NULL */
};

void a2a_put_task(struct buf *out, const struct a2a_task *task);
/* "status":{…} */
void a2a_put_status(struct buf *out, const struct a2a_task *task);
/* One message; n makes its id unique among the task's; data is a JSON object, or STR_NULL. */
void a2a_put_message(struct buf *out, const struct a2a_task *task, uint64_t n, bool of_user,
                     struct str text, struct str data);
/* The message of an object's member "error" as one of the agent; nothing when it has none. */
void a2a_put_why(struct buf *out, const struct a2a_task *task, uint64_t n, const struct js_doc *doc,
                 uint32_t object);
/* Its member "error" or "result" as metadata, {"error":…}; nothing when it has none. */
void a2a_put_outcome(struct buf *out, const struct js_doc *doc, uint32_t object);
/* "parts":[{"text":…}] */
void a2a_put_text_parts(struct buf *out, struct str text);
/* "artifact":{…} */
void a2a_put_artifact(struct buf *out, struct str text);
/* The event's file as an artifact of its own; base is the gateway's address. */
void a2a_put_file(struct buf *out, struct str base, struct str conversation_id,
                  const struct face_event *e);
/* A task's object of our own reply: state, time, and its message when it has failed.  The spans
 * point into doc's text, and into memory. */
void a2a_task_read(const struct js_doc *doc, uint32_t task, struct buf *memory,
                   struct a2a_task *ret);
bool a2a_state_read(struct str name, enum a2a_state *ret);
bool a2a_time_read(struct str text, int64_t *ret_ms); /* RFC 3339 */

/* The envelope of JSON-RPC around a result, or nothing. */
void a2a_begin_result(struct buf *out, const struct a2a_request *r);
void a2a_end_result(struct buf *out, const struct a2a_request *r);
enum face_next a2a_fail(struct face_exchange *x, enum a2a_fault fault, const char *message);
/* The same from an `error` line. */
enum face_next a2a_fail_line(struct face_exchange *x, enum error e, struct str line,
                             struct js_doc *doc);
enum a2a_fault a2a_fault_of(enum error e);
/* For struct face_http_ops. */
void a2a_put_rpc_error(struct buf *out, enum error e, const char *message);
void a2a_put_rest_error(struct buf *out, enum error e, const char *message);

/* Push notifications (a2a_push.c).  A config, by its node, as a webhook of ours. */
void a2a_put_webhook(const struct js_doc *doc, uint32_t config, struct buf *out);
enum face_next a2a_push(struct face_exchange *x); /* sets, gets, lists or deletes */
enum face_next a2a_push_replied(struct face_exchange *x, struct str line, struct js_doc *doc);
/* Appends {"task":…} from a report that a webhook gets (PROTOCOL.md section 5); false when it is
 * none. */
bool a2a_put_push(struct js_doc *doc, struct str message, struct buf *out) MUST_USE;

/* --- answers from lists ----------------------------------------------------------------------- */

enum face_next a2a_card(struct face_exchange *x, const struct face_input *in);
enum face_next a2a_list(struct face_exchange *x);
/* The reply to one of its asks. */
enum face_next a2a_list_replied(struct face_exchange *x, enum error e, struct str line,
                                struct js_doc *doc);

extern const struct face_ops a2a_ops;
extern const struct face_http_ops a2a_rpc_ops, a2a_rest_ops;

#endif
