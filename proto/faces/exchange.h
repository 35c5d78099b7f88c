/* exchange -- one HTTP request of another protocol, as a few requests of our own (docs/faces.md).
 *
 * Shape:    a pure state machine. `begin` reads the request; from then on each step says what is
 *           next: ask (carry out ask; its reply comes to `replied`), follow (the same, and the
 *           events of the task that it names go through a face_stream from then on), or reply
 *           (status and body). A carrier (gateway/faces/face_http.h) does the asking, following and
 *           writing. To add a face: one file in proto/faces/ that fills face_http_ops and face_ops,
 *           its routes in gateway/faces/faces.c, and a folder of tests.
 * Thread:   loop.
 * Owns:     the exchange owns what it keeps in its buffers; exchange_done frees them and the state.
 * Errors:   what is wrong with a request is a reply in the other protocol's own form.
 */
#ifndef PROTO_FACES_EXCHANGE_H
#define PROTO_FACES_EXCHANGE_H

#include "proto/faces/face.h"
#include "proto/request.h"

enum face_next { FACE_ASK, FACE_FOLLOW, FACE_REPLY };

/* A request of PROTOCOL.md section 5: body has its members but the two ids. */
struct face_ask {
    enum verb verb;
    struct buf conversation_id, task_id; /* empty: none */
    struct buf body;
};

struct face_input {
    int operation;           /* the route's */
    struct str conversation; /* {c} of the route's pattern, or STR_NULL */
    struct str task;         /* {t}, or STR_NULL */
    struct str agent;        /* {a}, or STR_NULL */
    struct str query;        /* `a=1&b=2` as it came, or STR_NULL */
    struct str body;
    struct str idempotency_key; /* the header, or STR_NULL */
    struct str header;          /* the one that the face reads, or STR_NULL */
    struct str agents;          /* a JSON array, as in `welcome` */
    struct js_doc *doc;         /* scratch */
    int64_t now_ms;             /* Unix ms */
};

struct face_exchange;

struct face_http_ops {
    const struct face_ops *stream;
    enum face_next (*begin)(struct face_exchange *x, const struct face_input *in);
    /* e is ERR_NONE and line a reply, or line an `error` line. After FACE_FOLLOW only of an
     * error. */
    enum face_next (*replied)(struct face_exchange *x, enum error e, struct str line,
                              struct js_doc *doc);
    /* The body of an error that the gateway itself finds (401, 413, 429 …). */
    void (*put_error)(struct buf *out, enum error e, const char *message);
    const char *header,
        *header_value; /* one more of a stream's head, in one piece or not; or NULL */
    const char *last;  /* the data of one more message behind a stream's clean end, or NULL */
    const char *reads; /* a header of the request, in lower case with its colon; NULL: none */
    /* Appends the id of Server-Sent Events that says how far a reader is; NULL: they have none. */
    void (*put_id)(struct buf *out, const struct face_stream *s, struct face_place at);
};

struct face_exchange {
    const struct face_http_ops *ops;
    int operation;
    int step; /* the face's own */
    struct face_ask ask;
    int status; /* FACE_REPLY; a status of 204 has no body */
    struct buf reply;
    struct buf after_answer; /* FACE_FOLLOW: see struct face_task; empty: none */
    struct buf client_id;    /* the same */
    uint64_t after;    /* FACE_FOLLOW: the first messages that are not sent: the client has them */
    bool is_whole;     /* FACE_FOLLOW: nothing is sent until the stream is over, and then its last
                     * message as the body of one reply; what it says when idle may be the last */
    void *state;       /* the face's own; freed with free() */
    struct buf memory; /* the face's own */
};

/* Sets the ask; its body is "{" until exchange_ask_end. */
struct buf *exchange_ask(struct face_exchange *x, enum verb verb, struct str conversation_id,
                         struct str task_id);
static inline void exchange_ask_end(struct face_exchange *x)
{
    buf_putc(&x->ask.body, '}');
}
/* Sets the reply to the face's error, with the HTTP status of e. */
enum face_next exchange_fail(struct face_exchange *x, enum error e, const char *message);
/* The same from an `error` line. */
enum face_next exchange_fail_line(struct face_exchange *x, enum error e, struct str line,
                                  struct js_doc *doc);
void exchange_done(struct face_exchange *x);

/* The task of a reply `started`, `resumed`, `task`, or the newest of `tasks`: the node of its
 * object in doc, which then holds the line; 0 when there is none. */
uint32_t exchange_task(struct js_doc *doc, struct str line);
/* What a stream is told of the task of a reply, which must name one. Spans point into doc's text
 * and x. */
void exchange_task_read(const struct face_exchange *x, struct js_doc *doc, struct str line,
                        struct face_task *ret);
/* Whether a task's object says that the task has not ended. */
bool exchange_task_lives(const struct js_doc *doc, uint32_t task);

/* The value of a parameter of a query, percent-decoded into out; false when it is not there. */
bool exchange_query(struct str query, const char *name, struct buf *out);

#endif
