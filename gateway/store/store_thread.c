/* The threads share one lock and three places: the batch slot, the queue of queries and the list of
 * finished items.  An item belongs to one side at a time; nothing else is shared.
 *
 * The list of finished items is bounded: readers wait while READY_MAX answers have not been
 * fetched, so a busy loop delays readers instead of filling memory. */
#include "gateway/store/store_thread.h"

#include <stdlib.h>

#include "core/list.h"
#include "gateway/base/fault.h"

#define READY_MAX 256
#define IDLE_NS 250000000ULL /* housekeeping when nothing is committed */

struct item {
    struct list at;
    int status;
    void *arg;
    struct batch *batch; /* a commit; NULL for a query */
    store_commit_fn commit_done;
    store_query_fn query_done;
    struct query query;
    struct arena_chunk *chunks; /* the query's */
    struct answer answer;
};

struct store_thread {
    struct store_port port;
    const struct store_ops *ops;
    void *store;
    uv_async_t async;
    bool closing; /* loop side: accepts nothing any more */
    void (*closed)(void *arg);
    void *closed_arg;

    unsigned n_readers;
    void *readers[STORE_READERS_MAX];
    uv_thread_t writer_thread, reader_threads[STORE_READERS_MAX];

    uv_mutex_t lock; /* for the members below */
    uv_cond_t to_write, to_read, fetched;
    struct item *batch;
    struct list queries, done;
    size_t n_queries, n_done;
    bool stop;
};

/* --- the threads ------------------------------------------------------------------------------ */

static void put_done(struct store_thread *t, struct item *item) /* call with the lock */
{
    list_push(&t->done, &item->at);
    t->n_done++;
    uv_async_send(&t->async);
}

static void do_idle(struct store_thread *t)
{
    if (t->ops->idle)
        t->ops->idle(t->store);
}

static void run_writer(void *arg)
{
    struct store_thread *t = arg;
    uv_mutex_lock(&t->lock);
    for (;;) {
        struct item *item = t->batch;
        if (!item && t->stop)
            break;
        if (item) {
            t->batch = NULL;
            uv_mutex_unlock(&t->lock);
            FAULT_DIE(COMMIT_BEFORE);
            item->status = FAULT(COMMIT) ? STORE_IO : t->ops->commit(t->store, item->batch);
            FAULT_DIE(COMMIT_AFTER);
            uv_mutex_lock(&t->lock);
            put_done(t, item); /* the loop continues while this thread is idle */
        } else if (uv_cond_timedwait(&t->to_write, &t->lock, IDLE_NS) == 0) {
            continue;
        }
        uv_mutex_unlock(&t->lock);
        do_idle(t);
        uv_mutex_lock(&t->lock);
    }
    uv_mutex_unlock(&t->lock);
}

struct reader_arg {
    struct store_thread *t;
    void *reader;
};

static void run_reader(void *arg)
{
    struct reader_arg r = *(struct reader_arg *)arg;
    struct store_thread *t = r.t;
    free(arg);
    uv_mutex_lock(&t->lock);
    for (;;) {
        bool may_take = t->n_done < READY_MAX || t->stop;
        struct list *at = may_take ? list_pop(&t->queries) : NULL;
        if (at) {
            struct item *item = list_item(at, struct item, at);
            t->n_queries--;
            uv_mutex_unlock(&t->lock);
            item->status =
                FAULT(READ) ? STORE_IO : t->ops->query(r.reader, &item->query, &item->answer);
            FAULT_GATE(ANSWER); /* as if the system ran something else now */
            uv_mutex_lock(&t->lock);
            put_done(t, item);
        } else if (t->stop) {
            break;
        } else {
            uv_cond_wait(may_take ? &t->to_read : &t->fetched, &t->lock);
        }
    }
    uv_mutex_unlock(&t->lock);
}

/* --- the loop's side -------------------------------------------------------------------------- */

static void item_free(struct item *item)
{
    answer_done(&item->answer);
    arena_done(&item->chunks);
    free(item);
}

static void deliver(struct item *item)
{
    if (item->batch)
        item->commit_done(item->arg, item->batch, item->status);
    else
        item->query_done(item->arg, item->status, &item->answer);
    item_free(item);
}

static void deliver_all(struct store_thread *t)
{
    struct list ready;
    list_init(&ready);
    uv_mutex_lock(&t->lock);
    list_splice(&ready, &t->done);
    t->n_done = 0;
    uv_cond_broadcast(&t->fetched);
    uv_mutex_unlock(&t->lock);
    for (struct list *at; (at = list_pop(&ready));)
        deliver(list_item(at, struct item, at));
}

static void on_async(uv_async_t *async)
{
    deliver_all(container_of(async, struct store_thread, async));
}

static void on_commit(struct store_port *port, struct batch *batch, store_commit_fn done, void *arg)
{
    struct store_thread *t = container_of(port, struct store_thread, port);
    struct item *item = xcalloc(sizeof *item);
    item->batch = batch;
    item->commit_done = done;
    item->arg = arg;
    uv_mutex_lock(&t->lock);
    if (t->closing) {
        item->status = STORE_IO;
        put_done(t, item);
    } else {
        ASSERT(!t->batch); /* one at a time */
        t->batch = item;
        uv_cond_signal(&t->to_write);
    }
    uv_mutex_unlock(&t->lock);
}

static struct item *query_item(const struct query *query, store_query_fn done, void *arg)
{
    struct item *item = xcalloc(sizeof *item);
    item->query = *query;
    if (query->slots) {
        struct slots *slots = arena_alloc(&item->chunks, sizeof *slots);
        *slots = *query->slots;
        item->query.slots = slots;
    }
    item->query.owner = arena_str(&item->chunks, query->owner);
    item->query.conversation_id = arena_str(&item->chunks, query->conversation_id);
    item->query.task_id = arena_str(&item->chunks, query->task_id);
    item->query.key = arena_str(&item->chunks, query->key);
    item->query.before = arena_str(&item->chunks, query->before);
    item->query_done = done;
    item->arg = arg;
    return item;
}

static void on_query(struct store_port *port, const struct query *query, store_query_fn done,
                     void *arg)
{
    struct store_thread *t = container_of(port, struct store_thread, port);
    struct item *item = query_item(query, done, arg);
    uv_mutex_lock(&t->lock);
    if (t->closing || t->n_queries >= STORE_QUEUE_MAX) {
        item->status = t->closing ? STORE_IO : STORE_BUSY;
        put_done(t, item);
    } else {
        list_push(&t->queries, &item->at);
        t->n_queries++;
        uv_cond_signal(&t->to_read);
    }
    uv_mutex_unlock(&t->lock);
}

struct store_port *store_thread_port(struct store_thread *t)
{
    return &t->port;
}

size_t store_thread_queries(struct store_thread *t)
{
    uv_mutex_lock(&t->lock);
    size_t n = t->n_queries;
    uv_mutex_unlock(&t->lock);
    return n;
}

/* --- opening, closing ------------------------------------------------------------------------- */

static bool start_reader(struct store_thread *t)
{
    unsigned i = t->n_readers;
    t->readers[i] = t->ops->reader_open(t->store);
    if (!t->readers[i])
        return false;
    struct reader_arg *arg = xalloc(sizeof *arg);
    *arg = (struct reader_arg){t, t->readers[i]};
    if (uv_thread_create(&t->reader_threads[i], run_reader, arg) != 0) {
        free(arg);
        t->ops->reader_close(t->readers[i]);
        return false;
    }
    t->n_readers++;
    return true;
}

static void join_all(struct store_thread *t, bool has_writer)
{
    uv_mutex_lock(&t->lock);
    t->stop = true;
    uv_cond_broadcast(&t->to_write);
    uv_cond_broadcast(&t->to_read);
    uv_cond_broadcast(&t->fetched);
    uv_mutex_unlock(&t->lock);
    if (has_writer)
        uv_thread_join(&t->writer_thread);
    for (unsigned i = 0; i < t->n_readers; i++) {
        uv_thread_join(&t->reader_threads[i]);
        t->ops->reader_close(t->readers[i]);
    }
}

static void on_async_closed(uv_handle_t *handle)
{
    struct store_thread *t = container_of((uv_async_t *)handle, struct store_thread, async);
    void (*closed)(void *arg) = t->closed;
    void *arg = t->closed_arg;
    uv_cond_destroy(&t->to_write);
    uv_cond_destroy(&t->to_read);
    uv_cond_destroy(&t->fetched);
    uv_mutex_destroy(&t->lock);
    free(t);
    if (closed)
        closed(arg);
}

int store_thread_open(uv_loop_t *loop, const struct store_ops *ops, void *store, unsigned readers,
                      struct store_thread **ret)
{
    struct store_thread *t = xcalloc(sizeof *t);
    if (readers == 0)
        readers = STORE_READERS;
    if (readers > STORE_READERS_MAX)
        readers = STORE_READERS_MAX;
    t->port = (struct store_port){.commit = on_commit, .query = on_query};
    t->ops = ops;
    t->store = store;
    list_init(&t->queries);
    list_init(&t->done);
    if (uv_async_init(loop, &t->async, on_async) < 0) {
        free(t);
        return STORE_IO;
    }
    ASSERT(uv_mutex_init(&t->lock) == 0 && uv_cond_init(&t->to_write) == 0 &&
           uv_cond_init(&t->to_read) == 0 && uv_cond_init(&t->fetched) == 0);

    while (t->n_readers < readers && start_reader(t))
        ;
    bool has_readers = t->n_readers == readers;
    if (!has_readers || uv_thread_create(&t->writer_thread, run_writer, t) != 0) {
        join_all(t, false);
        uv_close((uv_handle_t *)&t->async, on_async_closed);
        return STORE_IO;
    }
    *ret = t;
    return STORE_OK;
}

void store_thread_close(struct store_thread *t, void (*closed)(void *arg), void *arg)
{
    ASSERT(!t->closing);
    t->closing = true;
    t->closed = closed;
    t->closed_arg = arg;
    join_all(t, true);
    while (!list_is_empty(&t->done)) /* only this thread is left */
        deliver_all(t);
    uv_close((uv_handle_t *)&t->async, on_async_closed);
}
