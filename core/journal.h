/* journal -- the commit cycle: what is staged in one turn becomes one batch, one in flight.
 *
 * Shape:    changes are put into the batch that is being built; lines of streams are collected when
 *           it is submitted; when it is committed the streams advance, and waiters are called.  A
 *           batch that fails is retried unchanged, with backoff; after retry_ms it is abandoned:
 *           the streams roll back to what is on disk, and everyone concerned is told so.
 *
 *             building ──submit──▶ flying ──committed──▶ streams advance, waiters run
 *                                     └──failed──▶ again … ──given up──▶ roll back, waiters run
 *
 *           A commit that does not come back for LATE_COMMIT_MS counts as failing until it does.
 *           One whose outcome is not known (STORE_UNKNOWN) is not abandoned before it is known: at
 *           the end of retry_ms the batch is marked, and the store says which of the two it was.
 *           A store that is another process's now (STORE_FENCED) ends the journal: nothing is
 *           submitted any more, and nobody who waits is told anything.
 * Thread:   loop.
 * Owns:     both batches.  Waiters are embedded in their users.
 * Errors:   a waiter gets 0, or the store's error when its batch was abandoned.
 */
#ifndef CORE_JOURNAL_H
#define CORE_JOURNAL_H

#include "core/clock.h"
#include "core/histogram.h"
#include "core/store.h"
#include "core/stream.h"

#define JOURNAL_FULL_BYTES \
    (8u << 20) /* appended and not committed, in both batches: at this size agents are not read */
#define SEALS_PER_COMMIT 4  /* at least; more when the batch brings more bytes than these */
#define TAIL_AGE_MS 60000   /* a tail older than this is sealed, so that it pins nothing */
#define LATE_COMMIT_MS 4000 /* longer than a store waits for a lock (3 s): it hangs */
#define BATCH_PACE_MS 16    /* on a busy loop: how long a batch waits for more changes, */
#define BATCH_TURNS 2       /* and for how many turns at least */

/* The kind of a batch's contents, for the operator; a batch may have several. */
enum operation {
    OPERATION_EVENTS,
    OPERATION_TASK_CREATION,
    OPERATION_TASK_COMPLETION,
    OPERATION_OTHER, /* none of these: a title, an acknowledgement, a probe */
    N_OPERATIONS
};

struct waiter {
    struct list node;
    void (*done)(struct waiter *waiter, int status);
};

struct journal_events {
    void (*advanced)(void *arg, struct stream *stream); /* its head moved */
    void (*settled)(void *arg, struct stream *stream);  /* its tail is sealed */
    void (*lost)(void *arg, struct stream *stream);     /* some of its lines were rolled back */
    void (*failing)(void *arg);                         /* a commit failed, the first one */
    void (*late)(void *arg);                            /* a commit hangs */
    void (*recovered)(void *arg);                       /* the first commit after a failure */
    void (*fenced)(void *arg); /* another process has the store: this one must stop, in silence */
};

struct journal {
    struct store_port *port;
    struct clock *clock;
    struct block_cache *cache;
    const struct journal_events *events;
    void *arg;

    struct batch *building, *flying;
    uint64_t building_number; /* number of the batch that is being built: never repeated */
    uint64_t last_number;     /* batch.number of the last one submitted */
    struct list building_waiters, flying_waiters;
    struct list dirty, aging, want_seal;
    struct stream **aboard; /* the streams whose lines are in the flying batch */
    size_t n_aboard, cap_aboard;
    size_t pending_bytes; /* appended and not committed */
    size_t flying_bytes;

    msec_t retry_ms;      /* how long to retry a failing batch */
    msec_t failing_since; /* of this batch; 0 while commits succeed */
    bool failing;         /* until the next success */
    bool fenced;
    unsigned n_tries; /* how often that batch has failed */
    struct timer retry, age, late;
    uint64_t n_commits, n_events;
    uint64_t n_unknown;                /* answers that left it open whether a batch was committed */
    uint64_t n_failures[N_OPERATIONS]; /* failed commits, by their contents */
    msec_t submitted_at;
    unsigned n_turns;             /* since then */
    struct histogram commit_time; /* from submitted to committed, failures included */
};

/* The caller sets retry_ms: how long to retry a failing batch, and last_number. */
void journal_init(struct journal *j, struct store_port *port, struct clock *clock,
                  struct block_cache *cache, const struct journal_events *events, void *arg);
/* Drops what is staged or in flight, and calls the waiters with an error. */
void journal_done(struct journal *j);
/* Puts a change; returns its copy, valid until the next put. */
struct op *journal_put(struct journal *j, const struct op *op);
/* The stream has lines that are in no batch yet. */
void journal_dirty(struct journal *j, struct stream *s, size_t bytes);
/* The stream will get no more lines, or was found with an old tail: seal what it has. */
void journal_want_seal(struct journal *j, struct stream *s);
/* Calls w->done when everything staged so far is committed or abandoned; at once, from inside this
 * call, when nothing is staged. */
void journal_wait(struct journal *j, struct waiter *w);
static inline bool journal_is_full(const struct journal *j)
{
    return j->failing || j->pending_bytes >= JOURNAL_FULL_BYTES;
}
static inline bool journal_is_idle(const struct journal *j)
{
    return !j->flying && !j->building && list_is_empty(&j->dirty);
}
/* Once a turn: submits the next batch when none is in flight. busy: the next turn comes at once, so
 * a batch may wait for more changes, up to BATCH_PACE_MS and BATCH_TURNS after the last one. */
void journal_submit(struct journal *j, bool busy);

#endif
