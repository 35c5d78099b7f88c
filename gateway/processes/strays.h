/* strays -- the rest of a tree whose supervisor, or keeper, was itself killed: by its own agent, or
 * by the system when memory was out.
 *
 * Shape:    strays_adopt makes this process the one that inherits orphans below it.  strays_kill
 *           looks for children that are neither supervisors nor keepers, which are this same
 *           program, kills and reaps them, and their children after them, on a thread of libuv's
 *           pool.
 * Promise:  it signals only children of ours that were not ours before strays_adopt.  It gives up
 *           after half a second; whatever is left then (a process in the kernel) is left to the
 *           next call.
 * Thread:   loop.
 */
#ifndef GATEWAY_PROCESSES_STRAYS_H
#define GATEWAY_PROCESSES_STRAYS_H

#include <signal.h>
#include <stdbool.h>
#include <uv.h>

void strays_adopt(void);
/* From here on, reaps orphans that have ended, and continues supervisors and keepers that were
 * stopped.  The signal is the caller's to close; its data is set. */
void strays_watch(uv_loop_t *loop, uv_signal_t *signal);
void strays_kill(uv_loop_t *loop);
/* From waitid on a supervisor or keeper: whether it was killed, so that there may be strays. */
static inline bool strays_may_be(const siginfo_t *info)
{
    return info->si_pid != 0 && info->si_code != CLD_EXITED;
}

#endif
