/* strays -- what is left of a tree whose supervisor, or keeper, was killed itself: by its own
 * agent, by the system when memory is out.
 *
 * Shape:    strays_adopt makes this process the one to which orphans below it go.  strays_kill
 *           looks for children that are neither supervisors nor keepers, which are this same
 *           program, kills and reaps them, and their children after them, on a thread of libuv's
 *           pool.
 * Promise:  nothing is signalled that is no child of ours, or was one before strays_adopt.  Gives
 *           up after half a second; what is left then (a process in the kernel) is the next one's.
 * Thread:   loop.
 */
#ifndef GATEWAY_PROCESSES_STRAYS_H
#define GATEWAY_PROCESSES_STRAYS_H

#include <signal.h>
#include <stdbool.h>
#include <uv.h>

void strays_adopt(void);
/* Orphans that have ended are reaped from here on, and supervisors and keepers that were stopped go
 * on.  The signal is the caller's to close; its data is set. */
void strays_watch(uv_loop_t *loop, uv_signal_t *signal);
void strays_kill(uv_loop_t *loop);
/* What waitid said of a supervisor or keeper: whether it was killed, so that there may be
 * strays. */
static inline bool strays_may_be(const siginfo_t *info)
{
    return info->si_pid != 0 && info->si_code != CLD_EXITED;
}

#endif
