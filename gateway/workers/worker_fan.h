/* worker_fan -- a worker that dialled here, at all homes.
 *
 * Shape:    open says its hello at each of them.  When all have answered, the worker is welcomed
 *           with the runs that they know together.  A run that none knows is over only when the
 *           homes of all slots have answered; until then the worker keeps it, and is told to come
 *           again (1001) once they can be asked.
 * Thread:   loop.
 * Owns:     instances' connections and pipes, until worker_fan_close.
 * Lost:     with a home its runs are unknown, as above; the others notice nothing.
 */
#ifndef GATEWAY_WORKERS_WORKER_FAN_H
#define GATEWAY_WORKERS_WORKER_FAN_H

#include "gateway/workers/worker_doors.h"

struct worker_fan;

/* To its connection. */
struct worker_socket {
    void (*wake)(void *arg);                        /* there is something to fill */
    void (*hold)(void *arg, bool on);               /* read nothing, or go on */
    void (*close)(void *arg, enum close_code code); /* after what there is to fill */
    void *arg;
};

/* NULL: the hello is refused here; a node elsewhere that refuses it is passed over. */
struct worker_fan *worker_fan_open(struct doors *d, const struct worker_frame *hello,
                                   struct str text, const struct worker_socket *to,
                                   enum error *ret_error, const char **ret_why);
/* A frame after the hello, and its line; and the end of a message of them. */
void worker_fan_take(struct worker_fan *fan, const struct worker_frame *frame, struct str text);
void worker_fan_taken(struct worker_fan *fan);
bool worker_fan_fill(struct worker_fan *fan, struct buf *out);
bool worker_fan_has_output(const struct worker_fan *fan);
void worker_fan_close(struct worker_fan *fan); /* the connection has ended */

#endif
