/* traces -- spans of tasks, told to an OpenTelemetry collector (OTLP over HTTP, in JSON).
 *
 * Shape:    a task whose trace is sampled has a span from its creation to its end, whichever
 *           connection asked for it; below that one for each tool call, each question, and each
 *           turn of a model.  Names and attributes are those of OpenTelemetry's conventions for
 *           generative AI; what was said or passed to a tool is in none of them.  A span is
 *           written when it has ended.  Once a second, or when TRACES_SEND bytes have come, all
 *           that are written go as one request.
 * Bounds:   TRACES_HELD bytes wait, with the request under way; later spans are dropped, and
 *           counted.
 * Thread:   loop.
 * Owns:     its entries, one for each sampled live task.
 * Errors:   a collector's are counted, logged, and never affect a task.  A batch that it did not
 *           take after the retries is dropped.
 */
#ifndef GATEWAY_TRACES_TRACES_H
#define GATEWAY_TRACES_TRACES_H

#include <uv.h>

#include "core/task.h"
#include "core/task_trace.h"

#define TRACES_HELD (2u << 20)
#define TRACES_SEND (256u << 10)

struct config;
struct fetcher;
struct secrets;
struct traces;

struct traces_stats {
    uint64_t sent, dropped, failed; /* spans; of failed: requests */
};

/* All outlive it. */
struct traces_options {
    uv_loop_t *loop;
    struct hub *hub;
    struct fetcher *fetcher;
    const struct config *config; /* traces.url is set */
    struct secrets *secrets;     /* gets those of the headers */
};

/* NULL with a sentence in ret_error. */
struct traces *traces_open(const struct traces_options *o, char *ret_error, size_t n) MUST_USE;
/* An event of a task (core/hub.h, happened): what one that goes on had under way at a restart is
 * told when it ends, from its beginning.  A resumption, a record that was reported. */
void traces_happened(struct traces *t, const struct task *task, enum event_type event,
                     struct str data, int64_t at);
void traces_resumed(struct traces *t, const struct task_record *rec, unsigned attempt);
void traces_reported(struct traces *t, const struct task_record *rec);

/* A turn of a model: the span's context is what its request hands on. */
struct traces_turn {
    const struct trace_context *context;
    const unsigned char *parent_id;
    struct str model;
    uint64_t began;   /* the loop's time, in ms; it ends now */
    uint64_t told;    /* the same, of the first thought, word or call; 0: none came */
    int64_t in, out;  /* tokens; -1: not counted */
    struct str error; /* NULL: it went well */
};
void traces_turn(struct traces *t, const struct traces_turn *turn); /* NULL for t: nobody traces */

struct traces_stats traces_stats(const struct traces *t); /* NULL: zeros */
/* Sends what waits, for which it turns the loop a second at most; memory goes when its handle has
 * closed. */
void traces_close(struct traces *t); /* NULL is allowed */

#endif
