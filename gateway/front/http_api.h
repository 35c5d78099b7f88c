/* http_api -- the requests of the wire over HTTP (PROTOCOL.md section 7), and events as SSE.
 *
 * Shape:    a table of routes names the verb of each; path, query and body become one decoded
 *           request, and the same code as for WebSocket carries it out.  One exchange at a time on
 *           a connection; its memory is the wsi's user space.
 * Thread:   loop.
 * Owns:     an exchange until its answer was written or the connection has gone.
 */
#ifndef GATEWAY_FRONT_HTTP_API_H
#define GATEWAY_FRONT_HTTP_API_H

#include "core/session.h"
#include "gateway/front/http.h"

struct address;
struct admin_wait;
struct exchange;

enum method { GET, POST, DELETE, PATCH, OTHER };

/* A request of another protocol (gateway/faces/): it is let in like any other, and answers by
 * itself. */
struct exchange_kind {
    /* The owner is known and the body whole. */
    void (*begin)(struct exchange *x);
    /* Appends the body of an error. */
    void (*put_error)(const struct exchange *x, struct buf *out, enum error e, const char *message);
    /* Frees x->own. */
    void (*closed)(struct exchange *x);
    /* Of a stream (sse_follow).  The request was carried out, and this is its reply. */
    void (*started)(struct exchange *x, struct str reply);
    /* It was not. */
    void (*failed)(struct exchange *x, enum error e, struct str reply);
    /* Appends what one line of the session is to the reader; sets x->ended behind the last. */
    void (*line)(struct exchange *x, struct buf *out, struct str line);
    /* Everything that is committed was told. */
    void (*idle)(struct exchange *x, struct buf *out);
    /* One more header of a stream, in one piece or not, or NULL. */
    const char *(*header)(const struct exchange *x, const char **ret_value);
};

struct route {
    const char *pattern;             /* {c}: conversation_id, {t}: task_id, {a}: an agent's name */
    const char *query;               /* parameters that become members, separated by spaces */
    void (*own)(struct exchange *x); /* no request of the wire: it answers by itself */
    enum method method;
    enum verb verb;
    int made_status; /* of a good answer */
    bool is_events;
    bool is_admins;                   /* on the operator's socket alone */
    const struct exchange_kind *kind; /* NULL: a request of the wire */
    int operation;                    /* the kind's own */
    const void *of_kind;              /* the same */
};

struct exchange {
    struct front *front;
    struct lws *wsi;
    const struct route *route;
    char *conversation_id, *task_id, *agent;
    struct buf body; /* of the request */
    size_t length;   /* that it has said it has */
    size_t to_come;  /* of it, while nothing is known against waiting for it */
    msec_t begun_ms;
    struct list coming;    /* in the front's list of bodies */
    struct list under_way; /* in the front's list of these, when nothing is read meanwhile */
    bool body_ended;       /* that was said: see http_api_body_ended */
    bool waits;            /* the body comes when it is asked for */
    bool hangs_up;         /* behind the answer: what follows cannot be trusted */
    bool is_head;          /* the answer has no body, whatever its head says */
    bool is_admins;        /* it came through the operator's socket */
    struct owner *owner, *quota;
    int64_t expires_at_ms;
    struct call *call;          /* under way */
    struct admin_wait *waiting; /* the same, of a request of the operator */
    bool answered;
    int status;
    struct buf answer; /* the reply's line */
    void *own;         /* the route's kind's */
    char *origin;      /* that gets CORS headers; NULL for none */
    /* events */
    bool streams, starts, ended;
    bool is_whole; /* nothing is sent until it has ended; then the answer, in one piece */
    bool breaks;   /* ended, and not well: the connection is cut */
    bool lost;     /* whole: what it waits for will not come */
    bool is_plain; /* to HTTP/1.0, which knows no chunks: its end is that of the connection */
    bool broken;   /* something could not be written: nothing more is */
    struct session session;
    msec_t said_ms;          /* the last bytes */
    msec_t moved_ms;         /* the reader took something last … */
    uint64_t acked;          /* … so many bytes, then */
    struct address *address; /* that counts the stream; NULL for none */
    struct list all;         /* in the front's list of streams */
};

/* True when the path is of the API. */
bool http_api_serves(const char *path);
int http_api_begin(struct front *f, struct lws *wsi, struct exchange **slot, const char *path);
int http_api_body(struct exchange *x, const char *piece, size_t len);
int http_api_body_ended(struct exchange *x); /* the body is whole, and so is the request */
void http_api_tick(struct front *f); /* once a second: bodies that are late, peers that left */
int http_api_writable(struct exchange *x);
void http_api_closed(struct exchange *x); /* frees it; NULL is fine */

/* For those who answer by themselves: x->answer, or the error, is sent with that status. */
void http_api_ready(struct exchange *x, int status);
void http_api_fail(struct exchange *x, enum error e, const char *message);

/* Events (http_sse.c). */
/* Carries the request out, takes it, and streams the events of the task that it names. */
void sse_follow(struct exchange *x, struct request *req);
int sse_writable(struct exchange *x);
void sse_done(struct exchange *x);
uint32_t sse_close_owner(struct front *f, struct str owner); /* cut, never a clean end */
void sse_tick(struct front *f); /* once a second: comments, slow readers */

#endif
