#include "gateway/store/store_locked.h"

#include <pthread.h>
#include <stdlib.h>

struct locked {
    pthread_mutex_t lock;
    const struct store_ops *ops;
    void *store;
};

struct locked_reader {
    struct locked *locked;
    void *reader;
};

void *store_locked_new(const struct store_ops *ops, void *store)
{
    struct locked *l = xcalloc(sizeof *l);
    pthread_mutex_init(&l->lock, NULL);
    l->ops = ops;
    l->store = store;
    return l;
}

static int commit(void *store, const struct batch *batch)
{
    struct locked *l = store;
    pthread_mutex_lock(&l->lock);
    int status = l->ops->commit(l->store, batch);
    pthread_mutex_unlock(&l->lock);
    return status;
}

static int locked_start(void *store, struct store_start *ret)
{
    struct locked *l = store;
    pthread_mutex_lock(&l->lock);
    int status = l->ops->start(l->store, ret);
    pthread_mutex_unlock(&l->lock);
    return status;
}

static void *reader_open(void *store)
{
    struct locked *l = store;
    struct locked_reader *r = xcalloc(sizeof *r);
    pthread_mutex_lock(&l->lock);
    *r = (struct locked_reader){l, l->ops->reader_open(l->store)};
    pthread_mutex_unlock(&l->lock);
    return r;
}

static void reader_close(void *reader)
{
    struct locked_reader *r = reader;
    pthread_mutex_lock(&r->locked->lock);
    r->locked->ops->reader_close(r->reader);
    pthread_mutex_unlock(&r->locked->lock);
    free(r);
}

static int query(void *reader, const struct query *q, struct answer *ret)
{
    struct locked_reader *r = reader;
    pthread_mutex_lock(&r->locked->lock);
    int status = r->locked->ops->query(r->reader, q, ret);
    pthread_mutex_unlock(&r->locked->lock);
    return status;
}

static void close_both(void *store)
{
    struct locked *l = store;
    l->ops->close(l->store);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

const struct store_ops store_locked_ops = {.name = "locked",
                                           .commit = commit,
                                           .start = locked_start,
                                           .reader_open = reader_open,
                                           .reader_close = reader_close,
                                           .query = query,
                                           .close = close_both};
