/* worker_frame -- what a worker and the gateway say to each other (PROTOCOL.md section 10).
 *
 * Shape:    a frame is a JSON object on a line.  worker_frame_decode reads one that a worker has
 *           sent; the worker_put_… functions append what the gateway sends, without a newline.
 * Thread:   any; one decoder at a time.
 * Owns:     nothing of the frame: its spans point into the line and into the decoder, and are valid
 *           until the next call.
 * Errors:   WORKER_BAD, and error is a sentence that quotes nothing of the line, which may hold a
 *           secret.  An agent's line is not judged here: a fault in it fails its run alone.
 */
#ifndef PROTO_WORKER_FRAME_H
#define PROTO_WORKER_FRAME_H

#include "proto/js.h"
#include "proto/limits.h"

#define WORKER_MAX_RUN 64      /* bytes of a run's id */
#define WORKER_MAX_INSTANCE 64 /* bytes */
#define WORKER_MAX_SECRET 512  /* bytes */
#define WORKER_MAX_RUNS 500    /* of one instance: they must fit into its hello */
#define WORKER_FRAME_BYTES 256 /* that a frame adds to an agent's line */

enum worker_frame_kind {
    WORKER_BAD,
    WORKER_NO_MEMORY,
    WORKER_NOTHING, /* an empty line, or a type that may come later */
    WORKER_HELLO,
    WORKER_LINE, /* of the agent: the whole frame is the line */
    WORKER_END,
    WORKER_ACK,
    WORKER_DRAIN
};

struct worker_frame {
    enum worker_frame_kind kind;
    const char *error; /* WORKER_BAD */
    struct str run;    /* WORKER_LINE, WORKER_END, WORKER_ACK; and its number: */
    uint64_t n;
    bool failed;       /* WORKER_END */
    struct str reason; /* why it failed; "" when it does not say */
    struct str worker, secret, instance;
    struct str agents; /* a NUL after each name */
    uint32_t runs;     /* at once */
    uint32_t open;     /* for worker_frame_opens; 0: it has no runs */
};

struct worker_decoder {
    struct js_doc doc;
    struct buf arena; /* decoded strings */
};

void worker_frame_decode(struct worker_decoder *d, struct str line, struct worker_frame *ret);
/* Whether a hello says that the worker still has this run, and the last number that it received. */
bool worker_frame_opens(const struct worker_decoder *d, const struct worker_frame *hello,
                        const char *run, uint64_t *ret_n);
void worker_decoder_done(struct worker_decoder *d);

/* line: an object of ours, with a type. */
void worker_put_line(struct buf *out, const char *run, uint64_t n, struct str line);
void worker_put_ack(struct buf *out, const char *run, uint64_t n);
void worker_put_cancel(struct buf *out, const char *run);
void worker_put_gone(struct buf *out, struct str run);

#endif
