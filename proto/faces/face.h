/* face -- how a task's events become another protocol's messages (docs/faces.md).
 *
 * Shape:    a face_stream maps the events of one task, from its first one on, to messages that it
 *           hands to a sink in order. Its only state is what the other protocol needs to know of
 *           earlier messages (which part is open, which number comes next), so a replay from the
 *           first event makes the same messages again, to the byte. It does no I/O: a carrier
 *           (gateway/faces/) feeds it the lines that a session fills and writes what the sink gets.
 * Thread:   any; one at a time.
 * Owns:     a stream owns itself; face_stream_free ends it.
 * Errors:   none: whatever a journal holds has a mapping.
 */
#ifndef PROTO_FACES_FACE_H
#define PROTO_FACES_FACE_H

#include "proto/event.h"

/* Where messages go.  name is the `event:` of Server-Sent Events where the protocol wants one, else
 * NULL; json is one compact JSON value without newline, good for the call. */
struct face_sink {
    void (*put)(void *arg, const char *name, struct str json);
    void *arg;
};

/* What a stream is told of its task before the first event. */
struct face_task {
    struct str task_id, conversation_id, agent;
    int64_t created_at;   /* Unix ms */
    struct str metadata;  /* the task's, a JSON object, or STR_NULL */
    struct str client_id; /* the id that the client gave the run, or STR_NULL */
    struct str
        after_answer;    /* say only what comes after the answer to this question; or STR_NULL */
    const void *request; /* the state of the face's exchange, which outlives the stream */
};

/* One event: doc has its data as node 0. */
struct face_event {
    enum event_type type;
    uint64_t seq;
    int64_t ts; /* Unix ms */
    const struct js_doc *doc;
};

/* How far a reader is: behind the first n messages of an event, or, when n is 0, behind all of
 * them. A replay makes the same messages, so a place stays good. */
struct face_place {
    uint64_t seq; /* 0: before the first event */
    uint32_t n;
};

struct face_stream;

struct face_ops {
    const char *name; /* of the face, as in the configuration */
    struct face_stream *(*make)(const struct face_task *task);
    void (*event)(struct face_stream *s, const struct face_event *e, const struct face_sink *to);
    /* Everything that is committed was told, and the task has not ended.  May be NULL. */
    void (*idle)(struct face_stream *s, const struct face_sink *to);
    void (*free)(struct face_stream *s);
};

/* The first member of every face's own stream. */
struct face_stream {
    const struct face_ops *ops;
    bool is_over; /* the last message was put: the carrier ends the stream cleanly */
    bool breaks;  /* with is_over: it cuts the connection instead, so that nobody takes what came
                   * for the whole */
    int status;   /* with is_over, of a reply in one piece (face_exchange): HTTP's; 0: 200 */
    struct face_place place; /* while an event is told, the face itself may move it */
};

static inline void face_stream_event(struct face_stream *s, const struct face_event *e,
                                     const struct face_sink *to)
{
    if (s->is_over)
        return;
    s->ops->event(s, e, to);
    s->place = (struct face_place){.seq = e->seq};
}
static inline void face_stream_idle(struct face_stream *s, const struct face_sink *to)
{
    if (!s->is_over && s->ops->idle)
        s->ops->idle(s, to);
}
/* Whole lines as a session fills them: events are told, whatever else there is passes by. */
void face_stream_lines(struct face_stream *s, struct js_doc *doc, struct str lines,
                       const struct face_sink *to);
static inline void face_stream_free(struct face_stream *s)
{
    if (s)
        s->ops->free(s);
}

/* --- for the faces themselves ----------------------------------------------------------------- */

/* The value of a string member of an event's data, unescaped into scratch; STR_NULL when the member
 * is absent, null or of another type. Good until scratch changes. */
struct str face_text(const struct face_event *e, const char *member, struct buf *scratch);
bool face_has(const struct face_event *e, const char *member); /* and it is not null */
/* Whether a boolean member is true. */
bool face_is_true(const struct face_event *e, const char *member);
/* Appends a member of an event's data as compact JSON under another name, `fallback` when it is
 * absent. */
void face_copy(struct buf *out, const char *key, const struct face_event *e, const char *member,
               struct str fallback);

/* A fingerprint of text that was said piece by piece: equal texts have equal ones, however they
 * were cut. It spares a stream a copy of all that it has said. */
struct face_said {
    uint64_t n, hash;
    uint64_t head; /* the hash of the beginning that a cut answer shares */
};
void face_said_add(struct face_said *said, struct str text);
bool face_said_is(const struct face_said *said, struct str text);
/* Whether it is a beginning of what was said that ends at MAX_OUTPUT, behind a whole character: the
 * final answer that the gateway makes of tokens, which is no other answer. */
bool face_said_is_cut(const struct face_said *said, struct str text);

#endif
