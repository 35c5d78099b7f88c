#include "gateway/agents/exec_watch.h"

#include <errno.h>
#include <unistd.h>

bool watched_open(struct watched *w, uv_loop_t *loop, int fd, void *owner, uv_close_cb on_close)
{
    w->fd = fd;
    w->poll.data = owner;
    w->on_close = on_close;
    if (uv_poll_init(loop, &w->poll, fd) == 0)
        return true;
    close(fd);
    w->fd = -1;
    return false;
}

int watched_release(struct watched *w)
{
    int fd = w->fd;
    if (fd >= 0)
        uv_close((uv_handle_t *)&w->poll, w->on_close);
    w->fd = -1;
    return fd;
}

void watched_close(struct watched *w)
{
    int fd = watched_release(w);
    if (fd >= 0)
        close(fd);
}

void watched_start(struct watched *w, int events, uv_poll_cb on_ready)
{
    if (w->fd < 0 || w->events == events)
        return;
    w->events = events;
    uv_poll_start(&w->poll, events, on_ready);
}

void watched_stop(struct watched *w)
{
    if (w->fd < 0 || w->events == 0)
        return;
    w->events = 0;
    uv_poll_stop(&w->poll);
}

ssize_t watched_read(struct watched *w, char *to, size_t n)
{
    ssize_t got;
    do
        got = read(w->fd, to, n);
    while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EAGAIN)
        return -1;
    if (got > 0)
        return got;
    watched_close(w);
    return 0;
}
