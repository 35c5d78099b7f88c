/* worker_fan_private -- a worker's connection, and the homes behind it.  Internal to
 * gateway/workers/.
 *
 * Shape:    worker_fan.c has the connection's side: hello, welcome, frames, output.  worker_home.c
 *           has one home each: the instance here, or lines over a pipe; and who gets a place.
 * Thread:   loop.
 */
#ifndef GATEWAY_WORKERS_WORKER_FAN_PRIVATE_H
#define GATEWAY_WORKERS_WORKER_FAN_PRIVATE_H

#include "core/map.h"
#include "gateway/workers/worker_fan.h"

/* The worker at one home. */
struct at_home {
    struct list at; /* the fan's */
    struct worker_fan *fan;
    struct instance *instance; /* here; NULL: there, or another connection has it */
    struct pipe *pipe;         /* there */
    struct buf in;             /* the beginning of a line from there */
    size_t taken;              /* bytes of fan->out, of which it does not know yet */
    uint32_t places;           /* of the worker's, that it has */
    uint64_t given;            /* the number of the last one */
    struct slots slots;        /* that are served there … */
    struct slots asked;        /* … when it said which runs it knows */
    bool is_here, greeted, drained;
    bool wants; /* a place */
    bool holds; /* it takes no more for now */
};

struct worker_fan {
    struct list all; /* the doors' */
    struct doors *doors;
    struct worker_socket to;
    struct list homes; /* of struct at_home */
    struct map runs;   /* of struct fan_run */
    struct buf open;   /* the runs of its hello, a NUL after each */
    struct buf known;  /* members of the welcome: runs that homes know */
    struct buf notes;  /* lines of our own */
    struct buf out;    /* lines of homes */
    uint32_t most;     /* places */
    uint64_t n_given;  /* so far */
    struct timer due;  /* shares places: never from inside an instance */
    uint32_t n_held;   /* homes that hold */
    bool alone;        /* there is one home, and it is here */
    bool partial;      /* a home that knows a run of it may not have been asked */
    bool begun, welcomed, drains, over;
};

/* A run at another home, or (NULL) at one that nobody knows. */
struct fan_run {
    struct map_node node;
    struct at_home *home;
    char id[WORKER_MAX_RUN + 1];
};

/* worker_fan.c */
struct fan_run *fan_find_run(const struct worker_fan *fan, struct str id);
void fan_put_run(struct worker_fan *fan, struct str id, struct at_home *home); /* NULL: unknown */
void fan_drop_run(struct worker_fan *fan, struct fan_run *r);                  /* NULL is allowed */
void fan_hold(struct worker_fan *fan, bool on);                                /* counts */
void fan_welcome(struct worker_fan *fan); /* when all have answered */
void fan_settle(struct worker_fan *fan);  /* when all slots are known */
void fan_end(struct worker_fan *fan, enum close_code code);

/* worker_home.c */
struct at_home *home_join_here(struct worker_fan *fan, const struct worker_frame *hello,
                               enum error *ret_error, const char **ret_why);
void home_join_there(struct worker_fan *fan, uint64_t node, struct str hello);
void home_free(struct at_home *h);
void home_tell(struct at_home *h, const struct worker_frame *frame, struct str text);
void home_fill(struct at_home *h, struct buf *out); /* what the instance here says */
void places_share(struct worker_fan *fan);

#endif
