/* trace -- W3C trace contexts, and spans as OTLP's JSON.
 *
 * Shape:    a context is 16 bytes of trace id, 8 bytes of span id and the sampled flag, whose text
 *           is the header "traceparent" (W3C Trace Context, level 1, section 3.2), and what others
 *           have put into "tracestate" (section 3.3), which is passed on as it came.  A span is
 *           one object of ExportTraceServiceRequest in the JSON encoding (OTLP 1.x: ids as
 *           hexadecimal, 64-bit numbers as text).
 * Thread:   any.
 * Owns:     a context borrows its state; a copy owns it, until trace_drop.
 * Errors:   a text that is no traceparent is refused, and the caller begins a trace of its own
 *           (section 4.3).  A tracestate that cannot be read is dropped, and the trace goes on.
 */
#ifndef PROTO_TRACE_H
#define PROTO_TRACE_H

#include "proto/js.h"

#define TRACEPARENT_LEN 55   /* of version 00 */
#define MAX_TRACEPARENT 256  /* bytes; later versions may be longer */
#define MAX_TRACESTATE 512   /* bytes: as many must be passed on (section 3.3.1.5) */
#define MAX_TRACE_EVENTS 128 /* of a span; later ones are counted only */

struct trace_context {
    unsigned char trace_id[16], span_id[8];
    bool sampled;
    struct str state; /* tracestate, of tracestate_read; NULL: none */
};

/* A copy that outlives what it was given. */
struct trace_copy {
    struct trace_context context;
    bool is_there;
    char *state; /* context.state is here */
};
/* to is zeroed; context NULL: there is none. */
void trace_keep(struct trace_copy *to, const struct trace_context *context);
void trace_drop(struct trace_copy *copy);
static inline const struct trace_context *trace_kept(const struct trace_copy *copy)
{
    return copy->is_there ? &copy->context : NULL;
}

bool traceparent_read(struct str text, struct trace_context *ret) MUST_USE;
void traceparent_put(struct buf *out, const struct trace_context *context);
/* The members of a tracestate, without the space between them.  Of more than MAX_TRACESTATE bytes
 * first members of over 128 bytes are left out, then the last ones.  NULL: it cannot be read. */
struct str tracestate_read(struct str text, char room[MAX_TRACESTATE]) MUST_USE;

/* The same as members of a JSON object: "traceparent", and "tracestate" if there is one. */
bool trace_read_members(const struct js_doc *doc, uint32_t object, struct trace_context *ret,
                        char room[MAX_TRACESTATE]) MUST_USE;
void trace_put_members(struct buf *out, const struct trace_context *context);

/* Both headers of a request as one text; state is NULL without a tracestate. */
#define MAX_TRACE_HEAD (MAX_TRACEPARENT + 1 + MAX_TRACESTATE)
void trace_put_head(struct buf *out, struct str parent, struct str state);
void trace_split_head(struct str head, struct str *ret_parent, struct str *ret_state);

/* The span of a task whose caller gave no context: the trace id is the task's ULID, whose last ten
 * bytes are random, and the span id its last eight.  So a restart finds both again. */
bool trace_of_task(struct str task_id, struct trace_context *ret) MUST_USE;
/* The id of a span below another one, found again from its name: FNV-1a over both, never zero. */
void trace_child_id(const struct trace_context *parent, struct str name, unsigned char ret[8]);
/* Whether a trace is among this share (0 to 1) of all: by its id, so that all who ask agree. */
bool trace_is_sampled(const struct trace_context *context, double share);

enum span_kind { SPAN_INTERNAL = 1, SPAN_SERVER, SPAN_CLIENT };

/* A span that is being written: begin, attributes, events, end, in that order. */
struct span_writer {
    struct buf *out;
    unsigned n_events;
    bool in_events;
};

struct span_head {
    const struct trace_context *context;
    const unsigned char *parent_id; /* 8 bytes; NULL: none */
    struct str name;
    enum span_kind kind;
    int64_t from_ms, to_ms; /* one that ends before it begins ends there */
};

void span_begin(struct span_writer *w, struct buf *out, const struct span_head *head);
void span_text(struct span_writer *w, const char *key, struct str value); /* NULL: left out */
void span_int(struct span_writer *w, const char *key, int64_t value);
/* An event, with one attribute unless its key is NULL. */
void span_event(struct span_writer *w, int64_t at_ms, const char *name, const char *key,
                struct str value);
/* error: NULL when it went well. */
void span_end(struct span_writer *w, struct str error);

/* The request: open, spans with commas between, close. */
void spans_open(struct buf *out, struct str service, struct str instance, struct str version);
void spans_close(struct buf *out);

#endif
