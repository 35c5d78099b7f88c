/* ws -- connections: one WebSocket each, between libwebsockets and a session.
 *
 * Shape:    messages are assembled under a cap and handed to the session; the session's output is
 *           written at the end of the turn, many lines at once, as long as nothing is pending; only
 *           a full socket asks for the writable callback.
 * Thread:   loop.
 * Owns:     each conn owns its session.  libwebsockets says when a socket's memory goes, of which
 *           its conn is part: closed, it is in no list, and is freed when no caller is inside it.
 */
#ifndef GATEWAY_FRONT_WS_H
#define GATEWAY_FRONT_WS_H

#include "core/session.h"
#include "gateway/front/address.h"
#include "gateway/front/front.h"

struct conn;

#define WS_SUBPROTOCOL "holdfast.v1"
#define WS_WORKER_SUBPROTOCOL "holdfast.worker.v1"
/* A page's `new WebSocket(url, undefined, {})` offers this in Chromium, and wants it back: so does
 * the client of ACP's SDK. */
#define WS_NO_SUBPROTOCOL "undefined"

enum ws_form { WS_TEXT, WS_BINARY, WS_FRAMES };

enum conn_state { CONN_OPEN, CONN_CLOSING, CONN_DEAD };

/* Another protocol on a WebSocket of its own path (gateway/faces/, echo.h).  The connection is one
 * like any other, and has a session for its identity and its close code; its messages go to the
 * kind. */
struct ws_kind {
    const char *path;
    const char *subprotocol; /* NULL: WS_SUBPROTOCOL */
    /* Bytes of a message; 0: limits.face_bytes. */
    size_t most_bytes;
    /* The same before its peer is known (ws_is_known); 0: as most_bytes. */
    size_t hello_bytes;
    void (*opened)(struct conn *c, struct lws *wsi);
    void (*receive)(struct conn *c, struct str message);
    /* Appends the bytes of one write, MAX_MESSAGE_OUT or a little more; false: there is nothing.
     * ret_as is WS_TEXT, unless the kind makes it a binary message, or whole frames. */
    bool (*fill)(struct conn *c, struct buf *out, enum ws_form *ret_as);
    bool (*has_output)(const struct conn *c);
    /* Whether one of its streams comes from this node; NULL: the session is all that it has. */
    bool (*is_served_here)(const struct conn *c);
    void (*closed)(struct conn *c);
    const void *of_kind; /* the kind's own */
};

/* A peer that is not identified yet. */
struct stranger {
    char *bearer, *cookie; /* NULL: none */
};

/* The last message has not left yet. */
struct stall {
    struct list node; /* in the front's list */
    struct conn *conn;
    msec_t moved_ms;    /* the reader last took something */
    uint64_t acked;     /* bytes, by then */
    bool close_was_due; /* libwebsockets has failed it, and a turn has passed since */
};

/* There may be 100,000, and most are silent (core/session.h). */
struct conn {
    struct peer peer; /* the first: it has become this */
    struct front *front;
    struct lws *wsi;
    uint64_t number; /* in the log */
    struct session session;
    struct incoming *incoming; /* the pieces of an incomplete message; NULL: none */
    struct stranger *stranger; /* before welcome, when it is counted separately; then NULL */
    struct stall *stall;       /* NULL: nothing is pending */
    struct address *address;
    msec_t opened_ms, heard_ms;
    uint64_t deflated;        /* number of the last compressed message (deflate.h) */
    uint32_t pinged_after_ms; /* heard_ms; 0: not since */
    enum conn_state state : 8;
    bool message_is_binary, message_is_deflated;
    bool frame_ended;  /* the next bytes begin a frame */
    bool from_browser; /* it sent Origin */
    bool ping_due;     /* it could not be sent yet: something was pending */
    bool lingers;      /* it is closing, waits for pending output, and the peer does not take it */
    struct list all;   /* in the front's conns */
    const struct ws_kind *kind; /* NULL: it speaks holdfast.v1 */
    void *own;                  /* the kind's */
};

/* The callback of the vhost's only protocol: HTTP and WebSocket. */
int ws_callback(struct lws *wsi, enum lws_callback_reasons why, void *user, void *in, size_t len);
void ws_cut(struct conn *c); /* ends it without a close frame, and drops pending output */
/* Whether it came with one, and is not identified yet. */
static inline bool ws_brought_token(const struct conn *c)
{
    return c->stranger && (c->stranger->bearer || c->stranger->cookie);
}
/* The peer is identified: it is no longer counted as a stranger. */
void ws_is_known(struct conn *c);
/* Puts it into the list, of those that wait for what is pending; or out of it. */
void ws_stall(struct conn *c, struct list *where);
void ws_unstall(struct conn *c);
void ws_flush_woken(struct front *f); /* the end of the turn */
void ws_tick(struct front *f);        /* once a second: heartbeats, slow readers */
void ws_say_goaway(struct front *f);
/* Closes one owner's connections, after an error line when why is given; returns their number. */
uint32_t ws_close_owner(struct front *f, struct str owner, enum close_code code, const char *why);
void ws_close_all(struct front *f, enum close_code code);

#endif
