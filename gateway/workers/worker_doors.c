#include "gateway/workers/worker_doors.h"

#include "proto/str.h"

void doors_slots(const struct doors *d, struct slots *ret)
{
    *ret = (struct slots){0};
    if (!workers_are_resuming(d->workers))
        *ret = d->front->hub->open;
}

bool doors_line(struct str *bytes, struct str *ret)
{
    const char *newline = bytes->n ? memchr(bytes->p, '\n', bytes->n) : NULL;
    if (!newline)
        return false;
    *ret = (struct str){bytes->p, (size_t)(newline - bytes->p)};
    *bytes = str_from(*bytes, ret->n + 1);
    return true;
}

static void on_slots(void *arg)
{
    fans_settle(arg);
    gates_tell_slots(arg);
}

static void on_cluster_changed(struct cluster_watcher *watcher)
{
    on_slots(container_of(watcher, struct doors, watcher));
}

static void on_node_up(void *arg)
{
    fans_call_again(arg);
}

void doors_open(struct doors *d, struct front *f, struct workers *w)
{
    d->front = f;
    d->workers = w;
    list_init(&d->fans);
    list_init(&d->gates);
    d->watcher.changed = on_cluster_changed;
    cluster_watch(f->cluster, &d->watcher);
    workers_watch(w, on_slots, d);
    d->server = (struct pipe_server){.arg = d, .open = gate_open, .is_up = on_node_up};
    f->pipe_server = &d->server;
}

void doors_close(struct doors *d)
{
    d->front->pipe_server = NULL;
    workers_watch(d->workers, NULL, NULL);
    cluster_unwatch(&d->watcher);
    worker_decoder_done(&d->decoder);
    js_done(&d->doc);
}
