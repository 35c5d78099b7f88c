/* exchange -- one HTTP request of another protocol, as a few requests of our own (docs/faces.md).
 *
 * Shape:    a pure state machine. `begin` reads the request; from then on each step returns what is
 *           next: ask (carry out ask; its reply comes to `replied`), follow (the same, and the
 *           events of the task that it names go through a face_stream from then on), or reply
 *           (status and body). A carrier (gateway/faces/face_http.h) does the asking, following and
 *           writing. To add a face: one file in proto/faces/ that fills face_http_ops and face_ops,
 *           its routes in gateway/faces/faces.c, and a folder of tests.
 * Thread:   loop.
 * Owns:     the exchange owns what it keeps in its buffers; exchange_done frees them and the state.
 * Errors:   a bad request gets a reply in the other protocol's own form.
 */
#ifndef PROTO_FACES_EXCHANGE_H
#define PROTO_FACES_EXCHANGE_H

#include "proto/faces/face.h"
#include "proto/request.h"

#define FACE_ALSO 3

enum face_next { FACE_ASK, FACE_FOLLOW, FACE_REPLY };

/* A request of PROTOCOL.md section 5: body has its members except the two ids. */
struct face_ask {
    enum verb verb;
    struct buf conversation_id, task_id; /* empty: none */
    struct buf body;
};

/* A client of a WebSocket, as long as it is connected. */
struct face_peer {
    bool has_begun; /* the protocol's first message was good */
    bool elicits;   /* it takes forms */
};

struct face_input {
    int operation;           /* the route's */
    struct str conversation; /* {c} of the route's pattern, or STR_NULL */
    struct str task;         /* {t}, or STR_NULL */
    struct str agent;        /* {a}, or a WebSocket's parameter `agent`; or STR_NULL */
    struct str query;        /* `a=1&b=2` as received, or STR_NULL */
    struct str body;
    struct str idempotency_key; /* the header, or STR_NULL */
    struct str header;          /* the one that the face reads, or STR_NULL */
    struct str also[FACE_ALSO]; /* further ones, or STR_NULL */
    struct str base;            /* the gateway's address for the client: `https://host:port` */
    struct str agents;          /* a JSON array, as in `welcome` */
    bool takes_webhooks;        /* a task may have webhooks of its own */
    struct str nonce;           /* hexadecimal digits, random and never repeated */
    struct face_peer *peer;     /* on a WebSocket; else NULL */
    struct js_doc *doc;         /* scratch */
    int64_t now_ms;             /* Unix ms */
};

struct face_exchange;

struct face_http_ops {
    const struct face_ops *stream;
    enum face_next (*begin)(struct face_exchange *x, const struct face_input *in);
    /* e is ERR_NONE and line a reply, or line is an `error` line. After FACE_FOLLOW it is called
     * only for an error. */
    enum face_next (*replied)(struct face_exchange *x, enum error e, struct str line,
                              struct js_doc *doc);
    /* On a WebSocket, when the stream is over, or its events are at an end though it is not: what
     * is next; s is still valid. FACE_REPLY: the reply, which may be empty, is the last frame.
     * NULL: the stream is all of the exchange. */
    enum face_next (*ended)(struct face_exchange *x, const struct face_stream *s);
    /* The body of an error that the gateway itself detects (401, 413, 429 …). */
    void (*put_error)(struct buf *out, enum error e, const char *message);
    const char *header,
        *header_value; /* an extra header of a stream, in one piece or not; or NULL */
    const char *last;  /* the data of one more message after a stream's clean end, or NULL */
    const char *reads; /* a header of the request, in lower case with its colon; NULL: none */
    const char *also_reads[FACE_ALSO]; /* further ones */
    bool is_tight; /* no blank follows `data:`, which simple readers of other protocols want */
    /* Appends a reader's place as the id of Server-Sent Events; NULL: they have none. */
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
    struct buf client_id;    /* FACE_FOLLOW: see struct face_task; empty: none */
    uint64_t after;    /* FACE_FOLLOW: how many messages to skip, because the client has them */
    bool is_whole;     /* FACE_FOLLOW: nothing is sent until the stream is over, and then its last
                        * message as the body of one reply; what it sends when idle may be the
                        * last */
    void *state;       /* the face's own; freed with free() */
    struct buf memory; /* the face's own */
    struct buf header_value; /* of the reply's header, instead of the ops' */
    struct buf head;     /* further lines `name: value` of the reply's head, or the stream's, each
                              * with its newline; content-type and cache-control replace our own */
    int64_t patience_ms; /* FACE_FOLLOW, is_whole: then the stream is told that it is late; 0: no
                              * end */
};

/* Sets the ask; its body is "{" until exchange_ask_end. */
struct buf *exchange_ask(struct face_exchange *x, enum verb verb, struct str conversation_id,
                         struct str task_id);
static inline void exchange_ask_end(struct face_exchange *x)
{
    buf_putc(&x->ask.body, '}');
}
/* Appends an error as our own HTTP has it, {"error":{"code","message"}}: for protocols without
 * one. */
void exchange_put_error(struct buf *out, enum error e, const char *message);
/* Sets the reply to the face's error, with the HTTP status of e. */
enum face_next exchange_fail(struct face_exchange *x, enum error e, const char *message);
/* The message of an `error` line, followed by a NUL. */
void exchange_put_why(struct buf *out, struct str line, struct js_doc *doc);
/* The same from an `error` line. */
enum face_next exchange_fail_line(struct face_exchange *x, enum error e, struct str line,
                                  struct js_doc *doc);
void exchange_done(struct face_exchange *x);

/* A task's id for protocols that have one id for it: base64url of the conversation, `.`, the task.
 * It is looked up by owner, conversation and task like any other (PROTOCOL.md section 5). */
void exchange_put_id(struct buf *out, struct str conversation_id, struct str task_id);
/* Appends the conversation to ret; false when the text is not such an id. */
bool exchange_read_id(struct str id, struct buf *ret_conversation, struct str *ret_task_id)
    MUST_USE;
/* A request_key from the fields that make two requests the same. */
void exchange_put_key(struct buf *out, const char *prefix, const struct str *fields, size_t n);

/* The task of a reply `started`, `resumed`, `task`, or the newest of `tasks`: the node of its
 * object in doc, which then holds the line; 0 when there is none. */
uint32_t exchange_task(struct js_doc *doc, struct str line);
/* Fills in what a stream needs to know about the task of a reply, which must name one. Spans point
 * into doc's text and x. */
void exchange_task_read(const struct face_exchange *x, struct js_doc *doc, struct str line,
                        struct face_task *ret);
/* Whether a task's object says that the task is live. */
bool exchange_task_lives(const struct js_doc *doc, uint32_t task);

/* The value of a query parameter, percent-decoded into out; false when it is absent. */
bool exchange_query(struct str query, const char *name, struct buf *out);

#endif
