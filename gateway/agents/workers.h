/* workers -- agents that dial in: the configured workers, their instances, and the runs that they
 * are given (PROTOCOL.md section 10).
 *
 * Shape:    agent_worker_ops is the adapter for core/agent.h; its settings are worker_agent.  An
 *           instance is one process of a worker: it outlives its connection by worker_grace_s.
 *           workers_hello and instance_… are its side; worker_ws.h gives it a WebSocket, and a test
 *           may be the other end by itself (struct worker_wire).
 *
 *               core ─ agent_ops ─▶ run ─ numbered lines ─▶ instance ─ worker_wire ─▶ connection
 *
 *           A run waits until an instance that serves its agent has a place.  The next place goes
 *           to the owner with the fewest runs at workers, the run to the instance with the most
 *           room.
 * Thread:   loop.
 * Owns:     instances and runs.  The hub must be open when a run starts or an instance comes, and
 *           outlives neither: workers_close comes after hub_done.
 * Errors:   workers_open: each secret that cannot be used, by the key of its file.
 * Lost:     an instance that does not come back in time has lost its runs.  They end as RUN_LOST,
 *           or wait for another instance if nothing came of them and their agent allows it.
 * Restart:  runs go on with the next gateway, which waits as long for their instances.
 */
#ifndef GATEWAY_AGENTS_WORKERS_H
#define GATEWAY_AGENTS_WORKERS_H

#include "core/agent.h"
#include "core/hub.h"
#include "core/secrets.h"
#include "gateway/config/config.h"
#include "proto/worker_frame.h"

struct workers;
struct instance;

/* The settings of an agent that workers serve. */
struct worker_agent {
    struct workers *workers;
    const char *name;
    msec_t wait_ms; /* for a place; 0: for ever */
    bool rerun;     /* a lost run of which nothing came is given to another instance */
};
extern const struct agent_ops agent_worker_ops;

/* NULL, with all faults appended, one a line.  The configuration and the hub must outlive it; the
 * hub need not be open yet. */
struct workers *workers_open(const struct config *config, struct hub *hub, struct buf *ret_faults);
void workers_add_secrets(const struct workers *w, struct secrets *s);
void workers_start(struct workers *w); /* the hub is open */
void workers_stop(struct workers *w);  /* the hub is about to close */
void workers_close(struct workers *w); /* and is closed; NULL is allowed */
/* The same checks without anything that runs: false, with all faults appended. */
bool workers_check(const struct config *config, struct buf *ret_faults);

/* --- an instance's connection ----------------------------------------------------------------- */

struct worker_wire {
    void (*wake)(void *arg);                        /* there is something to fill */
    void (*hold)(void *arg, bool on);               /* read nothing, or go on */
    void (*close)(void *arg, enum close_code code); /* after what there is to fill */
    void (*gone)(void *arg);                        /* another connection is the instance's now */
    /* Of a worker that other homes give runs too; NULL: of one that has this home alone.  Asks for
     * one of its places: false: instance_place will say so.  And gives places back. */
    bool (*ask)(void *arg);
    void (*release)(void *arg, uint32_t n);
    void *arg;
};

/* Runs of an earlier gateway have not all begun again: no hello may come yet, because its worker
 * would learn that they are over. */
bool workers_are_resuming(const struct workers *w);
/* resumed is called when that is over. */
void workers_watch(struct workers *w, void (*resumed)(void *arg), void *arg);
/* A hello: the instance, new or returned, whose connection is wire from now on.  NULL: the name or
 * the secret is wrong, or (ret_code) the hello is. */
struct instance *workers_hello(struct workers *w, const struct worker_decoder *d,
                               const struct worker_frame *hello, const struct worker_wire *wire,
                               enum error *ret_error, const char **ret_why);
/* Any other frame; text is the whole line.  A fault closes the connection. */
void instance_take(struct instance *i, const struct worker_frame *frame, struct str text);
/* All frames of a message were taken. */
void instance_taken(struct instance *i);
/* Appends lines, each with its newline, up to max bytes unless one is longer; false: none. */
bool instance_fill(struct instance *i, struct buf *out, size_t max);
bool instance_has_output(const struct instance *i);
/* It has a place that it asked for. */
void instance_place(struct instance *i);
uint32_t instance_runs(const struct instance *i);
/* The connection has ended, and wire is no more. */
void instance_lost(struct instance *i);
/* For the log. */
const char *instance_worker(const struct instance *i);

/* --- for the operator ------------------------------------------------------------------------- */

struct workers_stats {
    uint64_t given;    /* runs given to an instance */
    uint64_t returned; /* instances that came back with their connection broken */
    uint64_t lost;     /* runs */
    uint64_t refused;  /* hellos */
};

struct worker_view {
    const char *name;
    uint32_t instances, away; /* away: without a connection, within the grace */
    uint32_t runs, most;
    bool draining;
};

const struct workers_stats *workers_stats(const struct workers *w);
size_t workers_count(const struct workers *w);
struct worker_view workers_view(const struct workers *w, size_t at);
uint32_t workers_waiting(const struct workers *w); /* runs without a place */
/* {"worker":…,"instances":[{…}],…}, for `holdfast admin workers`. */
void workers_put(const struct workers *w, struct buf *out);
/* Gives a worker's instances no more runs, and tells them so; or again.  False: there is none of
 * that name. */
bool workers_drain(struct workers *w, struct str name, bool on);

#endif
