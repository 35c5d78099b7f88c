/* errors -- every error code and close code of the wire, from two tables.
 *
 * Shape:    enum error for replies (PROTOCOL.md section 6, HTTP status of section 7), enum
 *           task_error for a task's record, enum close_code for the end of a connection.
 * Thread:   any.
 */
#ifndef PROTO_ERRORS_H
#define PROTO_ERRORS_H

#include "proto/buf.h"

/* X(enum name, wire code, HTTP status) */
#define ERROR_TABLE(X)                             \
    X(ERR_BAD_REQUEST, "bad_request", 400)         \
    X(ERR_UNAUTHORIZED, "unauthorized", 401)       \
    X(ERR_NOT_FOUND, "not_found", 404)             \
    X(ERR_CONFLICT, "conflict", 409)               \
    X(ERR_OUT_OF_RANGE, "out_of_range", 409)       \
    X(ERR_TASK_TERMINATED, "task_terminated", 409) \
    X(ERR_NO_INBOX, "no_inbox", 409)               \
    X(ERR_TOO_LARGE, "too_large", 413)             \
    X(ERR_RATE_LIMITED, "rate_limited", 429)       \
    X(ERR_OVERLOADED, "overloaded", 503)           \
    X(ERR_UNSUPPORTED, "unsupported", 400)         \
    X(ERR_INTERNAL, "internal", 500)

/* The message for any task that this owner cannot see, whatever the reason (promise 5). */
#define NO_SUCH_TASK "no such task"

enum error {
    ERR_NONE = 0,
#define X(name, code, status) name,
    ERROR_TABLE(X)
#undef X
};
#define ERROR_ONE(name, code, status) +1
#define N_ERRORS (1 ERROR_TABLE(ERROR_ONE)) /* with ERR_NONE */

/* X(enum name, wire code): why a task failed; the message always contains the code */
#define TASK_ERROR_TABLE(X)              \
    X(TASK_AGENT_ERROR, "agent_error")   \
    X(TASK_TIMEOUT, "timeout")           \
    X(TASK_CANCELLED_ERROR, "cancelled") \
    X(TASK_ORPHANED, "orphaned")         \
    X(TASK_LIMIT, "limit")               \
    X(TASK_OVERLOADED, "overloaded")     \
    X(TASK_INTERNAL, "internal")

enum task_error {
    TASK_OK = 0,
#define X(name, code) name,
    TASK_ERROR_TABLE(X)
#undef X
};
#define TASK_ERROR_ONE(name, code) +1
#define N_TASK_ERRORS (0 TASK_ERROR_TABLE(TASK_ERROR_ONE)) /* without TASK_OK */

/* X(enum name, wire word, message where a model's server is not quoted): why a model failed.  In a
 * task's record the word is part of the message, "agent_error: model: model_busy: …". */
#define MODEL_REASON_TABLE(X)                                                             \
    X(MODEL_BUSY, "model_busy", "the model is busy, or its quota is used up")             \
    X(MODEL_OVERLOADED, "model_overloaded", "the model's server is overloaded")           \
    X(MODEL_REFUSED, "model_refused", "the model's server refuses this gateway")          \
    X(MODEL_UNREACHABLE, "model_unreachable", "the model's server cannot be reached")     \
    X(CONTEXT_TOO_LONG, "context_too_long", "the conversation is too long for the model") \
    X(BROKE_OFF, "broke_off", "the answer broke off")

enum model_reason {
    MODEL_FAULT_OTHER = 0,
#define X(name, word, text) name,
    MODEL_REASON_TABLE(X)
#undef X
};

/* X(enum name, code, text in the close frame) */
#define CLOSE_TABLE(X)                                \
    X(CLOSE_GOING_AWAY, 1001, "going away")           \
    X(CLOSE_PROTOCOL, 1002, "protocol error")         \
    X(CLOSE_INVALID, 1007, "invalid payload")         \
    X(CLOSE_POLICY, 1008, "too many malformed lines") \
    X(CLOSE_TOO_BIG, 1009, "message too big")         \
    X(CLOSE_TRY_LATER, 1013, "try again later")       \
    X(CLOSE_UNAUTHORIZED, 4401, "unauthorized")       \
    X(CLOSE_SILENT, 4408, "silent")                   \
    X(CLOSE_SLOW, 4413, "reader too slow")            \
    X(CLOSE_FLOOD, 4429, "flood")

enum close_code {
    CLOSE_NONE = 0,
#define X(name, code, text) name = code,
    CLOSE_TABLE(X)
#undef X
};

const char *error_code(enum error e); /* "not_found" */
int error_status(enum error e);       /* HTTP: 404 */
const char *task_error_code(enum task_error e);
/* Appends {"code":…,"message":…}; moves a reason's word from the message to "reason". */
void task_error_put(struct buf *out, enum task_error e, struct str message);
const char *model_reason_word(enum model_reason reason); /* "" for MODEL_FAULT_OTHER */
const char *model_reason_text(enum model_reason reason);
const char *close_text(enum close_code c);

#define ERROR_RETRY_MS 1000 /* how long a client should wait when nobody knows better */

#define RETRY_USUAL (-1)
#define RETRY_NEVER (-2)

/* Appends `{"type":"error",…}` without a newline. id is the echoed id's value, STR_NULL for none.
 * Negative values of retry_after_ms and head are left out, except that rate_limited and overloaded
 * send ERROR_RETRY_MS for RETRY_USUAL; RETRY_NEVER sends none, because waiting does not help. */
void error_line(struct buf *out, enum error e, struct str id, const char *message,
                msec_t retry_after_ms, int64_t head);

#endif
