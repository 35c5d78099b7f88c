/* ws -- connections: one WebSocket each, between libwebsockets and a session.
 *
 * Shape:    messages are assembled under a cap and handed to the session; the session's output is
 *           written at the end of the turn, many lines at once, as long as nothing is pending; only
 *           a full socket asks for the writable callback.
 * Thread:   loop.
 * Owns:     each conn owns its session.  A conn is freed at the end of the turn in which it closed.
 */
#ifndef GATEWAY_FRONT_WS_H
#define GATEWAY_FRONT_WS_H

#include "core/session.h"
#include "gateway/front/deflate.h"
#include "gateway/front/front.h"

struct address;

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

struct conn {
    struct front *front;
    struct lws *wsi;
    uint64_t number; /* in the log */
    struct session session;
    struct buf message; /* the pieces of an incomplete one */
    size_t n_checked;   /* of its bytes are UTF-8 */
    bool message_is_binary, message_is_deflated;
    bool frame_ended;             /* the next bytes begin a frame */
    bool close_was_due;           /* libwebsockets has failed it, and a turn has passed since */
    struct deflate_terms deflate; /* for compressed messages */
    bool from_browser;            /* it sent Origin */
    bool ping_due;                /* it could not be sent yet: something was pending */
    bool pinged;                  /* at pinged_ms, without a sign of life since */
    bool stranger;                /* before welcome: counted separately */
    bool lingers; /* it is closing, waits for pending output, and the peer does not take it */
    enum conn_state state;
    char *bearer, *cookie; /* until the client is identified */
    struct address *address;
    msec_t opened_ms, heard_ms, pinged_ms, kept_ms;
    msec_t moved_ms;   /* the reader last took something */
    uint64_t acked;    /* bytes, by then */
    uint64_t deflated; /* number of the last compressed message (deflate.h) */
    struct list all, silent, blocked;
    const struct ws_kind *kind; /* NULL: it speaks holdfast.v1 */
    void *own;                  /* the kind's */
};

/* The callback of the vhost's only protocol: HTTP and WebSocket. */
int ws_callback(struct lws *wsi, enum lws_callback_reasons why, void *user, void *in, size_t len);
void ws_cut(struct conn *c); /* ends it without a close frame, and drops pending output */
/* The peer is identified: it is no longer counted as a stranger. */
void ws_is_known(struct conn *c);
void ws_flush_woken(struct front *f); /* the end of the turn */
void ws_reap(struct front *f);
void ws_tick(struct front *f); /* once a second: heartbeats, slow readers */
void ws_say_goaway(struct front *f);
/* Closes one owner's connections, after an error line when why is given; returns their number. */
uint32_t ws_close_owner(struct front *f, struct str owner, enum close_code code, const char *why);
void ws_close_all(struct front *f, enum close_code code);

#endif
