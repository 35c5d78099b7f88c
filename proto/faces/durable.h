/* durable -- a task as a stream of the Durable Streams protocol, for readers (docs/faces.md).
 *
 * Shape:    requests: the query of a GET, or a HEAD, read into one struct; each first asks for the
 *           task, which says where its stream ends.  Events: each is a message as its line stands
 *           in the journal, in a JSON array; an offset is 20 digits of an event's seq, so a reader
 *           goes on after any event.  Rules: PROTOCOL.md of durable-streams, sections 5.5 to 5.8,
 *           8 and 10.
 * Thread:   any.
 * Owns:     a request is the state of its exchange.
 * Errors:   durable_read says false and names what is wrong.
 */
#ifndef PROTO_FACES_DURABLE_H
#define PROTO_FACES_DURABLE_H

#include "proto/faces/exchange.h"

enum durable_operation { DURABLE_READ, DURABLE_HEAD };

enum durable_mode {
    DURABLE_CATCH_UP,  /* what is there */
    DURABLE_LONG_POLL, /* the same, or what comes next */
    DURABLE_LIVE,      /* Server-Sent Events, to the end */
};

#define DURABLE_OFFSET 20 /* digits: offsets sort like their numbers */

/* How a task's events become a stream.  In a gateway for tests alone there are others, which a
 * conformance suite writes (HOLDFAST_DURABLE_SHIM, tests/README.md). */
struct durable_form {
    char type[64]; /* the stream's Content-Type */
    bool is_json, is_text;
};

struct durable_form durable_form_of(const struct js_doc *doc, uint32_t task);
/* Appends the event's message to a body, if it is one. */
void durable_put(const struct durable_form *form, const struct face_event *e, struct buf *body);
/* The body is complete: of an answer, or of an event of Server-Sent Events. */
void durable_close(const struct durable_form *form, bool is_live, struct buf *body);

struct durable_request {
    enum durable_operation operation;
    enum durable_mode mode;
    bool from_now;     /* after is the tail */
    uint64_t after;    /* the event at the offset; 0: the beginning */
    uint64_t interval; /* Stream-Cursor of the answer */
    struct durable_form form;
    bool is_closed;     /* at after: there are no more events */
    struct str matches; /* If-None-Match, or STR_NULL */
};

/* Reads the query `offset=…&live=…&cursor=…`.  now_ms: Unix ms; jitter: 1 to 180. */
bool durable_read(struct str query, int64_t now_ms, unsigned jitter, struct durable_request *ret,
                  char why[128]) MUST_USE;

/* Where an answer ends. */
struct durable_tail {
    uint64_t offset;
    bool up_to_date, is_closed;
};

/* The lines of an answer's head. */
void durable_put_head(struct buf *lines, const struct durable_request *r, struct durable_tail tail);
/* The lines of its tag; true when the reader has that answer already. */
bool durable_tag(struct buf *lines, const struct durable_request *r, struct str task_id,
                 struct durable_tail tail);

extern const struct face_ops durable_ops;
extern const struct face_http_ops durable_http_ops;

#endif
