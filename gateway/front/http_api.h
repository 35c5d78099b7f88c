/* http_api -- the requests of the wire over HTTP (PROTOCOL.md section 7), and events as SSE.
 *
 * Shape:    a table of routes names the verb of each; path, query and body become one decoded
 *           request, which the same code carries out as for WebSocket.  One exchange at a time on a
 *           connection; it lives in the wsi's user space.
 * Thread:   loop.
 * Owns:     an exchange until its answer was written or the connection is closed.
 */
#ifndef GATEWAY_FRONT_HTTP_API_H
#define GATEWAY_FRONT_HTTP_API_H

#include "core/session.h"
#include "gateway/front/http.h"

struct address;
struct admin_wait;
struct exchange;
struct others;

enum method { GET, POST, DELETE, PATCH, HEAD, PUT, OTHER };
static inline bool only_reads(enum method method)
{
    return method == GET || method == HEAD;
}

/* A request of another protocol (gateway/faces/): it is checked like any other, and answers by
 * itself. */
struct exchange_kind {
    /* The owner is known and the body whole. */
    void (*begin)(struct exchange *x);
    /* Appends the body of an error. */
    void (*put_error)(const struct exchange *x, struct buf *out, enum error e, const char *message);
    /* Frees x->own. */
    void (*closed)(struct exchange *x);
    /* For a stream (sse_follow).  The request was carried out, and this is its reply. */
    void (*started)(struct exchange *x, struct str reply);
    /* The request failed. */
    void (*failed)(struct exchange *x, enum error e, struct str reply);
    /* Appends the reader's form of one line of the session; sets x->ended after the last. */
    void (*line)(struct exchange *x, struct buf *out, struct str line);
    /* All committed events were delivered. */
    void (*idle)(struct exchange *x, struct buf *out);
    /* An extra header of a reply or of a stream, or NULL. */
    const char *(*header)(const struct exchange *x, const char **ret_value);
    /* Further lines of its head (struct http_json). */
    struct str (*lines)(const struct exchange *x);
    /* Patience_ms are over. */
    void (*late)(struct exchange *x, struct buf *out);
    /* For a body that is taken as it comes, up to limits.file_mib, and of any type.  The owner is
     * known, and nothing of the body was read; then a piece. */
    void (*head)(struct exchange *x);
    void (*piece)(struct exchange *x, const char *bytes, size_t n);
    bool is_homes; /* it is answered at the owner's home alone (relay.h) */
    /* Writes the answer by itself, once x->sends is set; as a callback of libwebsockets. */
    int (*writable)(struct exchange *x);
};

struct route {
    const char *pattern;             /* {c}: conversation_id, {t}: task_id, {a}: an agent's name,
                                      * {p}: a path */
    const char *query;               /* parameters that become members, separated by spaces */
    void (*own)(struct exchange *x); /* not a request of the wire: answers by itself */
    const char *allow;               /* this method is not served here, these are: 405 */
    enum method method;
    enum verb verb;
    const struct exchange_kind *kind; /* NULL: a request of the wire */
    const void *of_kind;              /* the kind's own */
    int operation;                    /* the same */
    int made_status;                  /* of a success */
    bool is_events;
    bool is_admins;  /* for operators alone */
    bool takes_link; /* its URL may be signed (gateway/auth/file_link.h) */
};

struct exchange {
    struct front *front;
    struct lws *wsi;
    const struct route *route;
    char *conversation_id, *task_id, *agent;
    struct buf body; /* of the request */
    size_t length;   /* that its header announces */
    size_t to_come;  /* that are still awaited, unless something speaks against it */
    msec_t begun_ms;
    struct list coming;    /* in the front's list of bodies */
    struct list under_way; /* in the front's list of these, while nothing is read */
    bool body_ended;       /* was reported: see http_api_body_ended */
    bool waits;            /* the client sends the body after a 100 */
    bool hangs_up;         /* after the answer: what follows cannot be trusted */
    bool is_head;          /* the answer has no body, whatever its head says */
    bool is_admins;        /* it is an operator's (admin_claims) */
    bool held;             /* the body is not read now */
    bool sends;            /* its kind writes the answer */
    struct owner *owner, *quota;
    struct rights *rights; /* a reference; NULL: all of the owner's */
    char from[NET_TEXT];   /* its address, or "operator" */
    char *trace;           /* of its head, as struct asker has it */
    int64_t expires_at_ms;
    struct call *call;           /* in progress */
    struct admin_wait *waiting;  /* the same, for a request of the operator */
    struct others *others;       /* what other gateways say to it (admin_others.h); NULL: nothing */
    struct redeeming *redeeming; /* the same, for a code (core/handover.h) */
    bool answered;
    int status;
    struct buf answer; /* the reply's line */
    void *own;         /* the route's kind's */
    char *origin;      /* gets CORS headers; NULL for none */
    /* events */
    bool streams, starts, ended;
    bool watches;        /* an operator's (admin_state.h) … */
    bool shows;          /* … and the next state is to be written */
    char *watched_owner; /* of those; NULL for all */
    char *operator_;     /* whose token it is; NULL through the socket */
    bool is_whole;       /* nothing is sent until it has ended; then the answer, in one piece */
    bool breaks;         /* ended with an error: the connection is cut */
    bool lost;           /* whole: the awaited end will not come */
    int64_t patience_ms; /* whole: after that the kind ends it; 0: it waits */
    bool is_plain;       /* to HTTP/1.0, which has no chunks: it ends with the connection */
    bool broken;         /* a write failed: nothing more is written */
    struct session session;
    msec_t said_ms;          /* the last bytes sent */
    msec_t moved_ms;         /* the reader last took something … */
    uint64_t acked;          /* … this many bytes, by then */
    struct address *address; /* counts the stream; NULL for none */
    struct list all;         /* in the front's list of streams */
};

static inline struct asker http_asker(struct exchange *x)
{
    return (struct asker){.owner = x->owner,
                          .quota = x->quota,
                          .from = x->from,
                          .rights = x->rights,
                          .expires_at_ms = x->expires_at_ms,
                          .trace = x->trace};
}

/* Whether the path belongs to the API. */
bool http_api_serves(const char *path);
int http_api_begin(struct front *f, struct lws *wsi, struct exchange **slot, const char *path);
int http_api_body(struct exchange *x, const char *piece, size_t len);
int http_api_body_ended(struct exchange *x); /* the body is whole, and so is the request */
void http_api_tick(struct front *f);         /* once a second: late bodies, peers that left */
int http_api_writable(struct exchange *x);
void http_api_closed(struct exchange *x); /* frees it; NULL is allowed */

#define HTTP_ANSWER_S 15 /* another gateway that says nothing is lost by then */

/* In http_route.c.  A route's absence was answered: NULL. */
#define NO_SUCH_FILE "no such file"
enum method http_method(struct lws *wsi);
const struct route *http_route_find(struct exchange *x, enum method method, const char *path);
/* In http_token.c. */
void http_api_make_guest(struct exchange *x);
void http_api_take_handover(struct exchange *x);
/* Stops reading the body, or reads it again. */
void http_api_hold(struct exchange *x, bool hold);
/* The answer has been written. */
int http_api_complete(struct exchange *x);

/* For routes that answer by themselves: sends x->answer, or the error, with that status. */
void http_api_ready(struct exchange *x, int status);
void http_api_fail(struct exchange *x, enum error e, const char *message);

/* Events (http_sse.c). */
/* Carries out the request, takes ownership of it, and streams the events of its task. */
void sse_follow(struct exchange *x, struct request *req);
int sse_writable(struct exchange *x);
void sse_done(struct exchange *x);
uint32_t sse_close_owner(struct front *f, struct str owner); /* cut, never a clean end */
void sse_tick(struct front *f); /* once a second: comments, slow readers */

#endif
