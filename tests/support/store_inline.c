#include "tests/support/store_inline.h"

#include <stdlib.h>

#include "core/list.h"

struct pending_query {
    struct list at;
    uint64_t order; /* of arrival, shared with commits */
    struct query query;
    struct arena_chunk *chunks;
    store_query_fn done;
    void *arg;
    bool asked; /* answered, callback still due */
    int status;
    struct answer answer;
};

struct store_inline {
    struct store_port port;
    const struct store_ops *ops;
    void *store, *reader;

    struct batch *batch; /* NULL: no commit is queued */
    store_commit_fn commit_done;
    void *commit_arg;
    uint64_t commit_order;
    bool applied; /* committed, callback still due */
    int status;   /* of that commit */

    struct list queries, held;
    uint64_t next_order;
    unsigned fail_commits, fail_queries, failed_queries;
    enum store_error commit_error, query_error;
};

static void on_commit(struct store_port *port, struct batch *batch, store_commit_fn done, void *arg)
{
    struct store_inline *s = container_of(port, struct store_inline, port);
    ASSERT(!s->batch); /* one at a time */
    s->batch = batch;
    s->commit_done = done;
    s->commit_arg = arg;
    s->commit_order = s->next_order++;
    s->applied = false;
}

static void on_query(struct store_port *port, const struct query *query, store_query_fn done,
                     void *arg)
{
    struct store_inline *s = container_of(port, struct store_inline, port);
    struct pending_query *p = xcalloc(sizeof *p);
    p->order = s->next_order++;
    p->query = *query;
    if (query->slots) {
        struct slots *slots = arena_alloc(&p->chunks, sizeof *slots);
        *slots = *query->slots;
        p->query.slots = slots;
    }
    p->query.owner = arena_str(&p->chunks, query->owner);
    p->query.conversation_id = arena_str(&p->chunks, query->conversation_id);
    p->query.task_id = arena_str(&p->chunks, query->task_id);
    p->query.key = arena_str(&p->chunks, query->key);
    p->query.before = arena_str(&p->chunks, query->before);
    p->done = done;
    p->arg = arg;
    list_push(&s->queries, &p->at);
}

static void query_free(struct pending_query *p)
{
    answer_done(&p->answer);
    arena_done(&p->chunks);
    free(p);
}

struct store_inline *store_inline_new(const struct store_ops *ops, void *store)
{
    struct store_inline *s = xcalloc(sizeof *s);
    s->port = (struct store_port){.commit = on_commit, .query = on_query};
    s->ops = ops;
    s->store = store;
    s->reader = ops->reader_open(store);
    ASSERT(s->reader);
    list_init(&s->queries);
    list_init(&s->held);
    return s;
}

void store_inline_free(struct store_inline *s)
{
    if (!s)
        return;
    store_inline_release(s);
    for (struct list *at; (at = list_pop(&s->queries));)
        query_free(list_item(at, struct pending_query, at));
    batch_free(s->batch);
    s->ops->reader_close(s->reader);
    free(s);
}

struct store_port *store_inline_port(struct store_inline *s)
{
    return &s->port;
}

bool store_inline_apply(struct store_inline *s)
{
    if (!s->batch || s->applied)
        return false;
    if (s->fail_commits) {
        s->fail_commits--;
        s->status = s->commit_error;
    } else {
        s->status = s->ops->commit(s->store, s->batch);
        if (s->ops->idle)
            s->ops->idle(s->store);
    }
    s->applied = true;
    return true;
}

bool store_inline_step_commit(struct store_inline *s)
{
    if (!s->batch)
        return false;
    store_inline_apply(s);
    struct batch *batch = s->batch;
    s->batch = NULL; /* the callback may hand over the next one */
    s->commit_done(s->commit_arg, batch, s->status);
    return true;
}

static void inline_ask(struct store_inline *s, struct pending_query *p)
{
    if (p->asked)
        return;
    p->asked = true;
    if (s->fail_queries) {
        s->fail_queries--;
        s->failed_queries++;
        p->status = s->query_error;
    } else {
        p->status = s->ops->query(s->reader, &p->query, &p->answer);
    }
}

bool store_inline_ask(struct store_inline *s)
{
    if (list_is_empty(&s->queries))
        return false;
    inline_ask(s, list_item(s->queries.next, struct pending_query, at));
    return true;
}

bool store_inline_hold(struct store_inline *s, bool answered)
{
    struct list *at = list_pop(&s->queries);
    if (!at)
        return false;
    if (answered)
        inline_ask(s, list_item(at, struct pending_query, at));
    list_push(&s->held, at);
    return true;
}

void store_inline_release(struct store_inline *s)
{
    list_splice(&s->held, &s->queries);
    list_splice(&s->queries, &s->held);
}

enum query_kind store_inline_next(const struct store_inline *s)
{
    ASSERT(!list_is_empty(&s->queries));
    return list_item(s->queries.next, const struct pending_query, at)->query.kind;
}

bool store_inline_step_query(struct store_inline *s)
{
    struct list *at = list_pop(&s->queries);
    if (!at)
        return false;
    struct pending_query *p = list_item(at, struct pending_query, at);
    inline_ask(s, p);
    p->done(p->arg, p->status, &p->answer);
    query_free(p);
    return true;
}

bool store_inline_step(struct store_inline *s)
{
    if (s->batch && !list_is_empty(&s->queries)) {
        const struct pending_query *p = list_item(s->queries.next, struct pending_query, at);
        return p->order < s->commit_order ? store_inline_step_query(s)
                                          : store_inline_step_commit(s);
    }
    return s->batch ? store_inline_step_commit(s) : store_inline_step_query(s);
}

void store_inline_fail_commits(struct store_inline *s, unsigned n, enum store_error error)
{
    s->fail_commits = n;
    s->commit_error = error;
}

void store_inline_fail_queries(struct store_inline *s, unsigned n, enum store_error error)
{
    s->fail_queries = n;
    s->query_error = error;
}

unsigned store_inline_failed(const struct store_inline *s)
{
    return s->failed_queries;
}
