/* link -- what two nodes of a cluster say to each other (docs/operations.md, "Several nodes").
 *
 * Shape:    a connection is dialled by the node where clients are, the front, to the node that
 *           serves their owners, the home.  It carries frames, {length, kind, id} and a payload:
 *           first a HELLO from each side, then a PROOF from each, the dialler's first.  After that
 *           the front opens sessions and puts requests, under ids that it never uses twice on this
 *           connection.  A session has two windows: OUT and IN may go on while the receiver has
 *           given ROOM.
 * Units:    numbers are little-endian; a payload's are varints.
 * Thread:   any; pure functions.
 * Owns:     nothing: a frame that was read points into the bytes.
 * Errors:   LINK_BROKEN for bytes that no node of any version sends.
 */
#ifndef PROTO_LINK_H
#define PROTO_LINK_H

#include "proto/buf.h"

#define LINK_VERSION 2
#define LINK_HEAD 9                   /* bytes before a payload */
#define LINK_MOST (64u * 1024 * 1024) /* bytes of a payload */
#define LINK_MOST_STRANGER 1024u      /* the same before the proof */
#define LINK_MOST_TEXT 65536u         /* bytes of a text */
#define LINK_NONCE 32                 /* bytes */
#define LINK_MAC 32                   /* bytes: HMAC-SHA256 (RFC 2104) */
#define LINK_WINDOW (128 * 1024)      /* bytes of lines that a front takes before it gives ROOM */
#define LINK_WINDOW_STEP (LINK_WINDOW / 4) /* it gives so much at once */

/* X(enum name, word, payload): f flags of one byte, n a number, t a text, b all further bytes */
#define LINK_TABLE(X)                                                                           \
    X(LINK_HELLO, "hello", "nnttb")         /* version, incarnation; cluster, node; nonce */    \
    X(LINK_PROOF, "proof", "b")             /* the MAC */                                       \
    X(LINK_BYE, "bye", "t")                 /* why the connection ends */                       \
    X(LINK_OPEN, "open", "fnttttt")         /* LINK_IS_SOCKET…; expiry; enum link_text */     \
    X(LINK_IN, "in", "nb")                  /* lines to charge; a client's message */           \
    X(LINK_OUT, "out", "fb")                /* LINK_FOLLOWS…; lines for the client */         \
    X(LINK_ROOM, "room", "n")               /* bytes that were taken; 0: the session is */      \
    X(LINK_CLOSE, "close", "n")             /* enum close_code: the session is over */          \
    X(LINK_REQUEST, "request", "nnttttttb") /* session or 0, expiry; the same; a line */        \
    X(LINK_REPLY, "reply", "ftb")           /* LINK_FOLLOWS…; error code or ""; a line */     \
    X(LINK_MOVED, "moved", "")              /* not carried out: this node is no home of it */   \
    X(LINK_PING, "ping", "")                                                                    \
    X(LINK_PONG, "pong", "")                                                                    \
    X(LINK_PIPE, "pipe", "ftt")   /* LINK_IS_OPERATOR…; owner, address of the client: HTTP */ \
    X(LINK_BYTES, "bytes", "b")   /* of it, in either direction */                              \
    X(LINK_TOOK, "took", "n")     /* so many of them are out */                                 \
    X(LINK_END, "end", "")        /* of that pipe */                                            \
    X(LINK_REDEEM, "redeem", "t") /* a code of a handover; the reply has its token */

enum link_kind {
    LINK_NOTHING,
#define X(name, word, payload) name,
    LINK_TABLE(X)
#undef X
        N_LINK_KINDS
};

/* In OPEN: the client's lines come as IN; else the front puts requests. */
#define LINK_IS_SOCKET 1
#define LINK_IS_STRICT 2 /* and members that nobody knows are refused */
/* In PIPE: an order that was given at the other node, about an owner, or (without one) to each. */
#define LINK_IS_OPERATOR 1
#define LINK_IS_WORKER 2 /* no HTTP, but the lines of a worker, which is no owner's */
/* In OUT and REPLY, what the home knows of the session (core/session.h): it follows a task, has
 * told all of the first one, is through with it, has conversations open. */
#define LINK_FOLLOWS 1
#define LINK_IS_TOLD 2
#define LINK_IS_THROUGH 4
#define LINK_WATCHES 8

/* The asker, in OPEN and REQUEST: rights are those of a narrowed token, "" for all of the owner's;
 * trace is in REQUEST alone. */
enum link_text {
    LINK_OWNER,
    LINK_QUOTA,
    LINK_FROM,
    LINK_RIGHTS,
    LINK_GRANT,
    LINK_TRACE,
    LINK_TEXTS
};

struct link_frame {
    enum link_kind kind;
    uint32_t id; /* of the session or the request; 0 where there is none */
    uint8_t flags;
    uint64_t number[2];
    struct str text[LINK_TEXTS];
    struct str bytes;
};

enum link_reading { LINK_READ, LINK_SHORT, LINK_BROKEN };

/* Takes the first frame off the front of the bytes.  LINK_SHORT: it is not whole yet. */
enum link_reading link_read(struct str *bytes, size_t most, struct link_frame *ret) MUST_USE;
void link_put(struct buf *out, const struct link_frame *f);
/* The same in two steps, for bytes that are written in place: link_begin leaves out where they go,
 * link_end completes the frame that began there. */
size_t link_begin(struct buf *out, const struct link_frame *f);
void link_end(struct buf *out, size_t begun);
const char *link_word(enum link_kind kind);

/* Why a peer with that HELLO is not spoken to, as a sentence's end; NULL: it is. */
const char *link_refuses(const struct link_frame *mine, const struct link_frame *theirs);
/* Appends the bytes whose MAC is the proof of one side: both HELLOs, the dialler's first. */
void link_put_proven(struct buf *out, bool dialler, const struct link_frame *dials,
                     const struct link_frame *accepts, struct str binding);

#endif
