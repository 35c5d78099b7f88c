/* socket -- another protocol's requests on one WebSocket, many at a time (docs/faces.md).
 *
 * Shape:    how a face reads a frame, and how it writes a message of a request's stream, its
 *           beginning, its end and its failure. Each request is a face_exchange of its own; a
 *           carrier (gateway/faces/face_ws.h) runs them side by side.
 * Thread:   any.
 * Owns:     nothing; a face_frame's spans point into its buffer.
 * Errors:   a frame that cannot be read is answered with put_failed, and the socket stays open.
 */
#ifndef PROTO_FACES_SOCKET_H
#define PROTO_FACES_SOCKET_H

#include "proto/faces/exchange.h"

enum face_frame_kind {
    FRAME_REQUEST, /* begins an exchange; the frame's text is its body */
    FRAME_CANCEL,  /* cancels the task of the request with that id, and ends its stream */
    FRAME_BAD,     /* why says what is wrong */
    FRAME_IGNORE,
};

struct face_frame {
    enum face_frame_kind kind;
    struct str id;            /* the request's; "" where the protocol has none */
    struct str authorization; /* a token from the frame, with or without "Bearer "; or STR_NULL */
    struct str chat_id;
    char why[128];
    struct buf memory;
};

struct face_ws_ops {
    const struct face_http_ops *http; /* its exchanges and their stream */
    int operation;                    /* the operation of a frame's request */
    const char *query_name; /* a parameter that makes the address itself a request; or NULL */
    int query_operation;    /* of that request */
    bool one_at_a_time;     /* frames with one id, even "": a second one is refused while the first
                             * is in progress */
    void (*read)(struct js_doc *doc, struct str text, struct face_frame *ret);
    /* Each appends the JSON of one frame. begun and nothing may be NULL: no frame is sent then. */
    void (*put_begun)(struct buf *out, struct str id, const struct face_exchange *x);
    void (*put_message)(struct buf *out, struct str id, uint64_t n, struct str json);
    void (*put_end)(struct buf *out, struct str id);
    /* The exchange ended with a reply instead: that reply's status and body. */
    void (*put_reply)(struct buf *out, struct str id, const struct face_exchange *x);
    void (*put_failed)(struct buf *out, struct str id, enum error e, const char *why);
};

#endif
