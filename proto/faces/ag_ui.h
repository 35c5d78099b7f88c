/* ag_ui -- the Agent User Interaction Protocol, version 1.0 (docs/faces.md).
 *
 * Shape:    requests: RunAgentInput, read into one struct, and the place from which a reader
 *           continues. Events: a face_stream that makes the events of one run. Ids of messages and
 *           of tool calls begin with the task's id, so they are unique in a thread and the same in
 *           every replay. A place is written as `task.seq` or, within an event's messages,
 *           `task.seq.n`.
 * Thread:   any.
 * Owns:     spans of a request point into the buffer that the caller gives.
 * Errors:   ag_ui_read says false and names what is wrong.
 */
#ifndef PROTO_FACES_AG_UI_H
#define PROTO_FACES_AG_UI_H

#include "proto/faces/exchange.h"
#include "proto/limits.h"

enum ag_ui_operation { AG_UI_RUN, AG_UI_CONNECT };

struct ag_ui_request {
    struct str thread_id; /* the conversation; not checked here */
    struct str run_id;    /* 1 to 128 bytes: the request key */
    struct str resume;    /* JSON array of answers; STR_NULL: the run has a new question */
    struct str message;   /* the question: text of the last message, which is the user's */
    struct str parts;     /* the same in parts, JSON, when one is a file; or STR_NULL */
    struct str context;   /* JSON array for chat's `context`: the messages before it; or STR_NULL */
    struct str history;   /* JSON array of AG-UI messages up to the question; or STR_NULL */
    struct str agent;     /* the path's */
    struct str message_id; /* the question's id, or STR_NULL */
    struct str follows;    /* the id of ours right before the question, or STR_NULL */
    bool is_lone;          /* there is no other message */
    struct str record;     /* for a connect to an ended run: the task's object; or STR_NULL */
    struct str thread;     /* and the history with the run's own answer */
    bool tells_history;    /* the stream begins with it */
    bool is_before_1_0;    /* the client declares no version: it knows no outcome "cancelled" */
    char task_id[TASK_ID_LEN + 1]; /* of known, "" for none; for a connect the thread's last turn */
    struct face_place known;       /* the client has everything up to here */
};

/* Reads RunAgentInput. Unknown members are ignored. */
bool ag_ui_read(struct js_doc *doc, struct str json, struct ag_ui_request *ret, struct buf *memory,
                char why[128]) MUST_USE;
/* Whether the question's id is one that the gateway gave, so that the question is an edit. */
bool ag_ui_edits(const struct ag_ui_request *r);

/* A connect reads the record of a task that has ended, and then the messages of a reply `history`,
 * without the answer of the task itself. Spans are valid after the second call. */
void ag_ui_read_record(const struct js_doc *doc, uint32_t task, struct ag_ui_request *ret,
                       struct buf *memory);
void ag_ui_read_history(struct js_doc *doc, struct str line, struct ag_ui_request *ret,
                        struct buf *memory);

/* The id of an event in Server-Sent Events, and the place that such an id gives. */
void ag_ui_put_id(struct buf *out, const struct face_stream *face, struct face_place at);
bool ag_ui_read_id(struct str id, struct ag_ui_request *ret) MUST_USE;

/* One answer of a request's resume. */
struct ag_ui_answer {
    char task_id[TASK_ID_LEN + 1]; /* "" when the interrupt's id is not ours */
    uint64_t seq;                  /* how far the run that asked was sent */
    bool is_cancelled;             /* the user gives no answer */
    struct buf input_id, answer;   /* answer: JSON, true, false or a string */
};

/* The nth answer; false when there are no more. ag_ui_answer_done frees. */
bool ag_ui_answer(const struct ag_ui_request *r, struct js_doc *doc, uint32_t n,
                  struct ag_ui_answer *ret) MUST_USE;
void ag_ui_answer_done(struct ag_ui_answer *a);

extern const struct face_ops ag_ui_ops;
extern const struct face_http_ops ag_ui_http_ops;

#endif
