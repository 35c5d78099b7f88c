/* workers_private -- what the files of this room share.
 *
 * Shape:    workers.c has the configured workers and what operators see, worker_run.c the runs,
 *           worker_lines.c their lines, worker_instance.c the instances, worker_place.c decides
 *           which instance gets a run.
 * Thread:   loop.
 */
#ifndef GATEWAY_AGENTS_WORKERS_PRIVATE_H
#define GATEWAY_AGENTS_WORKERS_PRIVATE_H

#include "core/map.h"
#include "gateway/agents/workers.h"

/* A configured worker. */
struct worker {
    const struct config_worker *config;
    struct buf secret;
    uint32_t n_runs, n_instances;
    bool draining;
};

struct workers {
    struct hub *hub;
    const struct config *config;
    struct worker *list;
    size_t n;
    struct list instances;      /* of struct instance; the one that has waited longest first */
    struct list waiting;        /* of struct run: without an instance, in order of arrival */
    struct list adrift;         /* of struct run: an earlier gateway had given it to an instance */
    struct timer due;           /* places are given when it fires: not from inside start */
    struct recall *recalled;    /* of the task that is being restored */
    uint32_t n_recalls;         /* of tasks whose runs have not begun again */
    void (*resumed)(void *arg); /* they all have; NULL: nobody asks */
    void *resumed_arg;
    struct list noted;       /* of struct run: lines were handed to core since the last wait */
    struct list flying;      /* of struct run: what they said by then is being committed */
    struct waiter committed; /* armed while flying is not empty */
    bool waits;
    bool stops;        /* the gateway: runs that were left are the next one's */
    struct map runs;   /* by id */
    struct map shares; /* by owner */
    uint32_t n_waiting;
    struct workers_stats stats;
};

/* An owner's part. */
struct share {
    struct map_node node;
    char *owner;
    uint32_t refs;  /* runs */
    uint32_t given; /* of them */
};

/* Where it is. */
enum run_place { RUN_NOWHERE, RUN_WAITING, RUN_ADRIFT, RUN_GIVEN };

/* A line of the agent that came while its run was paused. */
struct in_line {
    struct list node;
    uint64_t n;
    bool is_end, failed;
    size_t len;
    char bytes[]; /* the line, or the reason of a failure */
};

/* A line to the agent that it has not acknowledged. */
struct out_line {
    struct list node;
    uint64_t n;
    size_t len;
    char bytes[]; /* the frame */
};

struct run {
    unsigned magic;
    struct map_node node;
    char id[WORKER_MAX_RUN + 1];
    struct workers *workers;
    const struct worker_agent *agent;
    struct run_events events;
    void *task; /* NULL once core has freed it */
    struct share *share;

    enum run_place place;
    struct instance *instance;     /* RUN_GIVEN */
    char *of_worker, *of_instance; /* it was given to, last */
    uint32_t writing;              /* commits that come before its worker is told of it */
    struct list at;                /* in waiting, in adrift, or in the instance's runs */
    struct list ready;             /* in the instance's list: something is to be sent */
    struct list told;              /* in noted or flying */
    struct timer timer;            /* waiting, adrift: how long */

    struct list out;        /* of struct out_line, from out_acked + 1 on */
    struct out_line *first; /* the run line, kept while the run may be given once more */
    size_t out_bytes, out_most;
    uint64_t out_n, out_sent, out_acked;
    uint64_t last; /* position of the newest line that the agent is known to have */

    struct list behind;  /* of struct in_line: came while paused */
    uint64_t in_n;       /* the last line that came */
    uint64_t in_handed;  /* … that core has */
    uint64_t in_settled; /* … whose outcome is staged, and its mark */
    uint64_t in_flying;  /* … by the commit under way */
    uint64_t in_durable; /* … on disk */
    bool ack_due, cancel_due;
    bool paused, handing;
    bool counts;  /* among the instance's paused */
    bool resumed; /* an earlier gateway began it */
    bool cancelled;
    bool left;  /* it is the next gateway's */
    bool ended; /* on_end was called */
};

struct instance {
    struct list all;
    struct workers *workers;
    struct worker *worker;
    char id[WORKER_MAX_INSTANCE + 1];
    struct worker_wire wire;
    bool is_here; /* it has a connection */
    bool held;    /* which is not read */
    bool drains;
    bool asked;        /* for a place; of a wire with ask alone, as the next */
    uint32_t places;   /* that it was given and has no run in */
    struct buf agents; /* a NUL after each name */
    uint32_t most, n_runs, n_paused;
    struct list runs, ready;
    struct buf notes;   /* lines outside runs */
    struct timer grace; /* armed without a connection */
};

/* worker_place.c */
void place_wait(struct run *r, bool first); /* before all others, or behind them */
void place_leave(struct run *r);
void places_give(struct workers *w); /* as far as there are places; never from inside start */
void places_due(struct workers *w);  /* soon */

/* worker_run.c */
void run_give(struct run *r, struct instance *i);
void run_adopt(struct run *r, struct instance *i); /* adrift: its instance is here again */
void run_lose(struct run *r, const char *why);     /* its instance is gone */
void worker_run_leave(struct run *r); /* its place is free, but is not given to anybody yet */
void run_drop_now(struct run *r);
void run_say_gone(struct run *r); /* the worker need not keep it any longer */
void run_end_with(struct run *r, enum run_end end, struct str text);
void run_keep(struct run *r);   /* the note for the next gateway */
void run_forget(struct run *r); /* at the end of all */
void run_resume(struct run *r, uint64_t received);

/* worker_lines.c */
void run_put(struct run *r, uint64_t n, struct str line);
bool run_acked(struct run *r, uint64_t n); /* false: no such line was sent */
bool run_take(struct run *r, const struct worker_frame *frame, struct str text);
void worker_run_go_on(struct run *r); /* it is no longer paused */
void run_drop_lines(struct run *r);
void runs_told(struct workers *w); /* arms the wait for what was noted */
struct map_key run_key(const struct map_node *node);
struct map_key share_key(const struct map_node *node);

/* worker_instance.c */
void instance_wake(struct instance *i, struct run *r); /* r NULL: notes */
void instance_hold(struct instance *i);                /* reads or not, as its runs want it */
/* The name and the secret were right.  NULL: the hello is not. */
struct instance *instance_hello(struct workers *w, struct worker *worker,
                                const struct worker_decoder *d, const struct worker_frame *hello,
                                const struct worker_wire *wire, const char **ret_why);
void instance_free(struct instance *i);
void instance_say_drain(struct instance *i);

#endif
