/* responses -- OpenAI's Responses API (docs/faces.md).
 *
 * Shape:    requests: the body of a create, over HTTP or as a frame `response.create`, read into
 *           one struct. Events: a face_stream that makes the events of one response, numbered from
 *           0. A response is a task; its id is "resp_", base64url of the conversation's id, "." and
 *           the task's id.
 * Thread:   any.
 * Owns:     a request owns its buffers; responses_request_done frees them, also after a failure.
 * Errors:   responses_read says false and names what is wrong.
 */
#ifndef PROTO_FACES_RESPONSES_H
#define PROTO_FACES_RESPONSES_H

#include "proto/faces/socket.h"

void responses_put_id(struct buf *out, struct str conversation_id, struct str task_id);
/* Appends the two ids; false for what responses_put_id does not write. */
bool responses_read_id(struct str id, struct buf *conversation_id, struct buf *task_id) MUST_USE;

/* The id of a requested approval: the question's input_id, as text that every client accepts. */
void responses_put_approval_id(struct buf *out, struct str input_id);
bool responses_read_approval_id(struct str id, struct buf *input_id) MUST_USE;

/* The Response object of a task, from its record or from its events. */
struct response {
    struct str conversation_id, task_id, agent;
    struct str metadata;              /* JSON object, or STR_NULL */
    int64_t created_ms, completed_ms; /* Unix ms; 0: not yet */
    const char *status; /* "queued", "in_progress", "completed", "failed", "cancelled" */
    struct str output;  /* JSON items, separated by commas */
    struct str error;   /* the message, or STR_NULL */
    struct str usage;   /* in OpenAI's form, JSON, or STR_NULL */
    bool output_is_cut; /* output is not the whole text: `metadata` says so */
};
void responses_put(struct buf *out, const struct response *r);
/* The same for a task's object in our replies (node task of doc). */
void responses_put_task(struct buf *out, const struct js_doc *doc, uint32_t task);
/* The usage in a task's result (node 0 for none); nothing when it has none. */
void responses_put_usage(struct buf *out, const struct js_doc *doc, uint32_t result);

struct responses_request {
    struct buf message;      /* the last message of the user */
    struct buf parts;        /* the same in parts, JSON, when one is a file; or empty */
    struct buf context;      /* JSON array of the items before it, instructions first; or empty */
    struct buf agent;        /* `model`; empty: the default one */
    struct buf conversation; /* empty: none was named */
    struct buf previous;     /* previous_response_id, empty: none */
    struct buf metadata;     /* JSON object, or empty */
    bool stream, background;
    bool is_answer; /* to a question of `previous` for an approval, */
    bool approves;
    struct buf input_id; /* this one; message has the answer */
};

/* Reads a body. On failure why has a sentence. Unknown members are ignored. */
bool responses_read(struct js_doc *doc, struct str json, struct responses_request *ret,
                    char why[128]) MUST_USE;
void responses_request_done(struct responses_request *r);

/* The form of the response that a request wants, and what its exchange keeps meanwhile. */
enum responses_way {
    RESPONSES_EVENTS,
    RESPONSES_WHOLE,   /* one object, when the task has ended, or waits for an approval */
    RESPONSES_AT_ONCE, /* one object, in its current state */
};
struct responses_state {
    enum responses_way way;
    bool is_record; /* text is the object, made from the task's record */
    char text[];
};

/* Over HTTP and, the last two, over a WebSocket: a frame `response.create`, and an address that
 * names a response to continue. */
enum responses_operation {
    RESPONSES_CREATE,
    RESPONSES_GET,
    RESPONSES_CANCEL,
    RESPONSES_DELETE,
    RESPONSES_FRAME,
    RESPONSES_ADDRESS,
};

extern const struct face_ops responses_ops;
extern const struct face_http_ops responses_http_ops;
extern const struct face_ws_ops responses_ws_ops;

#endif
