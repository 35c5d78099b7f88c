/* face -- how a task's events become another protocol's messages (docs/faces.md).
 *
 * Shape:    a face_stream maps the events of one task, from its first one on, to messages, which it
 *           hands to a sink in order. Its only state is what the other protocol needs from earlier
 *           messages (which part is open, which number comes next), so a replay from the first
 *           event makes the same messages, byte for byte. It does no I/O: a carrier
 *           (gateway/faces/) feeds it the lines that a session fills and writes what the sink gets.
 * Thread:   any; one at a time.
 * Owns:     a stream owns itself; face_stream_free ends it.
 * Errors:   none: everything in a journal has a mapping.
 */
#ifndef PROTO_FACES_FACE_H
#define PROTO_FACES_FACE_H

#include "proto/event.h"

/* Receives messages. name is the `event:` of Server-Sent Events where the protocol has one, or
 * NULL; json is one compact JSON value without newline, valid during the call. */
struct face_sink {
    void (*put)(void *arg, const char *name, struct str json);
    void *arg;
};

/* A stream's task, known before the first event. */
struct face_task {
    struct str task_id, conversation_id, agent;
    int64_t created_at;   /* Unix ms */
    uint64_t first;       /* the oldest event that is kept, when retention has removed others; 0 */
    struct str metadata;  /* the task's, a JSON object, or STR_NULL */
    struct str retracted; /* [[N,R],…]: what a replay will withdraw, or STR_NULL */
    struct str client_id; /* the id that the client gave the run, or STR_NULL */
    struct str
        after_answer;    /* send only what comes after the answer to this question; or STR_NULL */
    const void *request; /* the state of the face's exchange, which outlives the stream */
};

/* One event: node 0 of doc is its data. */
struct face_event {
    enum event_type type;
    uint64_t seq;
    int64_t ts; /* Unix ms */
    const struct js_doc *doc;
    struct str line; /* all of it, as a session writes it, without its newline; or STR_NULL */
};

/* A reader's place: after the first n messages of an event, or, when n is 0, after all of them. A
 * replay makes the same messages, so a place stays valid. */
struct face_place {
    uint64_t seq; /* 0: before the first event */
    uint32_t n;
};

struct face_stream;

#define FACE_WITHDRAWN 64 /* ranges that a task's summary names */

/* Text that restarts have withdrawn (PROTOCOL.md section 4): of the events between two places. */
struct face_withdrawn {
    uint64_t ranges[FACE_WITHDRAWN][2];
    size_t n;
};

struct face_ops {
    const char *name;     /* of the face, as in the configuration */
    bool tells_withdrawn; /* it gets the text that restarts have withdrawn, too */
    struct face_stream *(*make)(const struct face_task *task);
    void (*event)(struct face_stream *s, const struct face_event *e, const struct face_sink *to);
    /* All committed events were delivered, and the task has not ended. May be NULL. */
    void (*idle)(struct face_stream *s, const struct face_sink *to);
    /* The exchange's patience is over. May be NULL. */
    void (*late)(struct face_stream *s, const struct face_sink *to);
    void (*free)(struct face_stream *s);
};

/* The first member of every face's own stream. */
struct face_stream {
    const struct face_ops *ops;
    struct face_withdrawn *withdrawn; /* NULL: nothing */
    bool is_over;    /* the last message was sent: the carrier ends the stream cleanly */
    bool breaks;     /* with is_over: cuts the connection instead, so that nobody takes the text for
                   * complete */
    int status;      /* with is_over, for a reply in one piece (face_exchange): HTTP's; 0: 200. When
                   * `make` itself sets both, the reply is the error alone */
    struct str head; /* the same: lines of that reply's head (face_exchange) */
    struct face_place place; /* during an event, the face itself may move it */
};

/* A stream for that task: instead of `make`, so that it leaves out what restarts have withdrawn. */
struct face_stream *face_stream_make(const struct face_ops *ops, const struct face_task *task);
/* Whether the event is text that a later event withdraws. */
bool face_withdraws_text(const struct face_stream *s, const struct face_event *e);
static inline void face_stream_event(struct face_stream *s, const struct face_event *e,
                                     const struct face_sink *to)
{
    if (s->is_over)
        return;
    if (s->ops->tells_withdrawn || !face_withdraws_text(s, e))
        s->ops->event(s, e, to);
    s->place = (struct face_place){.seq = e->seq};
}
static inline void face_stream_idle(struct face_stream *s, const struct face_sink *to)
{
    if (!s->is_over && s->ops->idle)
        s->ops->idle(s, to);
}
/* Takes a whole line as a session writes it, without its newline; skips what is no event. */
void face_stream_line(struct face_stream *s, struct js_doc *doc, struct str line,
                      const struct face_sink *to);
/* The same for lines. */
void face_stream_lines(struct face_stream *s, struct js_doc *doc, struct str lines,
                       const struct face_sink *to);
void face_stream_free(struct face_stream *s);

/* --- for the faces themselves ----------------------------------------------------------------- */

/* Whether a question wants true or false: an approval, or what a budget asks. */
bool face_asks_yes_or_no(const struct face_event *e);
/* The value of a string member of an event's data, unescaped into scratch; STR_NULL when the member
 * is absent, null or of another type. Valid until scratch changes. */
struct str face_text(const struct face_event *e, const char *member, struct buf *scratch);
/* The same, and also as JSON, with its quotes; in `quoted` unless it is plain. */
struct str face_text_and_json(const struct face_event *e, const char *member, struct buf *scratch,
                              struct buf *quoted, struct str *ret_json);
/* A member as compact JSON; STR_NULL when it is absent. Valid until scratch changes. */
struct str face_json(const struct face_event *e, const char *member, struct buf *scratch);
bool face_has(const struct face_event *e, const char *member); /* present and not null */
/* Whether the event, task.resumed, withdraws text that the stream has told: then after which event.
 */
bool face_takes_back(const struct face_stream *s, const struct face_event *e, uint64_t *ret_after);
/* Whether that place is within a range of the task's: its reader has withdrawn text. */
bool face_is_withdrawn(struct str retracted, uint64_t place);
/* Whether a boolean member is true. */
bool face_is_true(const struct face_event *e, const char *member);
/* Appends a member of an event's data as compact JSON under another name, `fallback` when it is
 * absent. */
void face_copy(struct buf *out, const char *key, const struct face_event *e, const char *member,
               struct str fallback);

/* The address where the event's file is read; base: the gateway's, or "" for the path alone. */
void face_put_file_url(struct buf *out, const char *key, struct str base,
                       struct str conversation_id, const struct face_event *e);

/* A member that is a time of RFC 3339; nothing when there is none (0). */
void face_put_time(struct buf *out, const char *key, int64_t ms);

/* A fingerprint of text that arrives in pieces: equal texts have equal fingerprints, however they
 * were cut. It spares a stream a copy of its whole text. */
struct face_said {
    uint64_t n;
    uint64_t lanes[4]; /* of whole blocks */
    char rest[32];     /* what is no whole block yet; zeros behind it */
    uint64_t head;     /* the hash of the beginning, which a cut answer shares */
};
void face_said_add(struct face_said *said, struct str text);
/* To a whole text and to its last part, which may be all of it. */
static inline void face_said_add_to(struct face_said *all, struct face_said *last, struct str text)
{
    bool is_all = all->n == last->n;
    face_said_add(all, text);
    if (is_all)
        *last = *all;
    else
        face_said_add(last, text);
}
bool face_said_is(const struct face_said *said, struct str text);
/* Whether text is a beginning of the earlier text that ends at MAX_OUTPUT, after a whole character:
 * the final answer that the gateway makes of tokens, which is not a different answer. */
bool face_said_is_cut(const struct face_said *said, struct str text);

#endif
