/* exec_watch -- a descriptor that is watched for reading or writing, and read or written by its
 * owner.
 *
 * Shape:    zeroed with fd -1 it is closed.  poll.data is its owner's; on_close is called for each
 *           watch that was opened.
 * Thread:   loop.
 * Owns:     the descriptor, until watched_close or watched_release.
 */
#ifndef GATEWAY_AGENTS_EXEC_WATCH_H
#define GATEWAY_AGENTS_EXEC_WATCH_H

#include <uv.h>

#include "proto/base.h"

struct watched {
    uv_poll_t poll;
    uv_close_cb on_close;
    int fd;     /* -1: closed, or never opened */
    int events; /* that it is watched for; 0: not watched */
};

/* Takes over the descriptor, and closes it on failure. */
bool watched_open(struct watched *w, uv_loop_t *loop, int fd, void *owner, uv_close_cb on_close)
    MUST_USE;
void watched_close(struct watched *w);
/* Ends the watch alone; the descriptor is the caller's. */
int watched_release(struct watched *w);
/* Costs nothing when nothing changes: uv_poll_start itself makes two system calls. */
void watched_start(struct watched *w, int events, uv_poll_cb on_ready);
void watched_stop(struct watched *w);
/* -1: nothing there now; 0: it has ended, and is closed. */
ssize_t watched_read(struct watched *w, char *to, size_t n);

#endif
