/* hub_nodes -- several hubs over one memory store: its fence, leases by a clock of the test's own,
 * agents and readers that check what they see.
 *
 * Shape:    w is the world.  The table of nodes and the homes of owners are as in the tables of a
 *           store that nodes share; owners are few, and each has a slot of its own.
 * Thread:   the test's.
 */
#ifndef TESTS_SUPPORT_HUB_NODES_H
#define TESTS_SUPPORT_HUB_NODES_H

#define KIT_RUNS 65536
#include "tests/support/hub_kit.h"

#define NODES 3
#define OWNERS 8
#define ROWS 4096
#define TASKS 512
#define READERS 256
#define LOG 16384
#define LEASE_MS 10000
#define TRUST_MS 8000
#define BEAT_MS 2000
#define HALF_RANGE 0x80000000 /* of keys: from there on another one is wanted */

struct row { /* of the table of nodes */
    int64_t beat;
    uint64_t number; /* of its last batch */
    unsigned server; /* that it has said it is on */
    bool dead, gone;
};

/* A server's tables; batches besides are in the log. */
struct tables {
    struct row rows[ROWS];
    int64_t home[OWNERS]; /* an incarnation; 0: nobody's */
    int64_t moved[OWNERS];
    int64_t epoch;
    size_t n_before; /* tasks that it is about */
    unsigned server; /* as it was noted */
    size_t n_keys, n_log;
};

struct logged {
    int64_t incarnation;
    struct batch *batch;
};

struct kept {
    uint64_t from, to;
    struct batch *batch;
};

struct node {
    struct kit kit;
    int64_t incarnation; /* its row; 0: the process does not run */
    msec_t trusted_until, beat_at;
    bool paused, half, cut, restores;
    int64_t seen[ROWS]; /* beats of others, and since when */
    msec_t since[ROWS];
    bool mine[OWNERS], comes[OWNERS], goes[OWNERS];
    int64_t claimed; /* the newest claim, and one of its owners */
    unsigned claimed_owner;
    bool leaves;
    unsigned server; /* the one that it knows; it is sure of what all had before */
    bool sure;
    struct kept kept[ROWS]; /* its last batches */
    size_t first_kept, n_kept, most_kept;
    uint64_t last;
    int64_t range;
    struct slots closed, parted;
    struct waiter staged;
    unsigned n_fenced;
};

struct known_task {
    char id[TASK_ID_LEN + 1];
    unsigned owner;
    bool ended, began, lost; /* lost: with a tail, which the epoch tells */
    size_t n;
    char **lines; /* of numbers 1 … n; NULL: nobody has seen it yet */
};

struct reader {
    struct client *client;
    struct node *node;
    unsigned owner;
    size_t at;                         /* in got */
    uint64_t last[TASKS];              /* newest number; 0 and not follows: it is not read */
    bool follows[TASKS], stale[TASKS]; /* stale: asked with the epoch before */
};

static struct {
    void *memory;
    msec_t now;
    uint64_t random;
    int64_t number;
    struct tables t, copy; /* of the server, and of the standby that nothing reaches any more */
    bool has_copy;
    unsigned server;
    struct logged log[LOG];
    size_t n_log;
    size_t n_rows;
    struct node *nodes[NODES];
    size_t n_nodes;
    struct known_task tasks[TASKS];
    size_t n_tasks;
    struct reader *readers[READERS];
    size_t n_readers;
    int key_of[OWNERS];          /* number of the request key that is asked for */
    int key_task[OWNERS][TASKS]; /* the task that a key made; -1: not known */
    bool outage, healing;
    bool goes_on; /* tasks do, over a restart and a move */
    struct node *running;
    int64_t keys[ROWS];
    unsigned owners_of_keys[ROWS];
    int64_t epoch;                  /* the newest that was ever raised */
    int64_t told;                   /* … that a hub has heard of, and so clients */
    size_t n_before, n_before_told; /* tasks that these are about */
    unsigned resumed, parted, takeovers, moves, sent_away, fenced, lines, zombies, losses, redone,
        refused, raised, raised_before, quiet, ranges;
} w;

static char names[OWNERS][8];

static unsigned pick(unsigned n)
{
    return (unsigned)t_below(&w.random, n);
}

static bool chance(unsigned percent)
{
    return pick(100) < percent;
}

static unsigned owner_of_slot(unsigned slot)
{
    for (unsigned i = 0; i < OWNERS; i++)
        if (slot_of(str_of(names[i])) == slot)
            return i;
    return OWNERS;
}

static unsigned owner_of_name(struct str name)
{
    return owner_of_slot(slot_of(name));
}

static struct slots slots_of(const bool owners[OWNERS])
{
    struct slots s = {0};
    for (unsigned i = 0; i < OWNERS; i++)
        if (owners[i])
            slots_add(&s, slot_of(str_of(names[i])));
    return s;
}

static bool is_trusted(const struct node *n)
{
    return w.now < n->trusted_until;
}

/* On the server that there is, and of one mind with the others. */
static bool is_sure(const struct node *n)
{
    return n->sure && n->server == w.server;
}

/* --- the store -------------------------------------------------------------------------------- */

static unsigned owner_of_key(int64_t key)
{
    for (size_t i = 0; i < w.t.n_keys; i++)
        if (w.keys[i] == key)
            return w.owners_of_keys[i];
    return OWNERS;
}

static void note_key(int64_t key, unsigned owner)
{
    assert_int_equal(owner_of_key(key), OWNERS);    /* no key twice, whoever gives it */
    assert_true((uint32_t)key < HALF_RANGE + ROWS); /* a beat later it is of another range */
    for (size_t i = 0; i < w.t.n_keys; i++) /* lists and queues by key are in order of time */
        assert_true(w.owners_of_keys[i] != owner || w.keys[i] < key);
    assert_true(w.t.n_keys < ROWS);
    w.keys[w.t.n_keys] = key;
    w.owners_of_keys[w.t.n_keys++] = owner;
}

static unsigned owner_of_op(const struct op *op)
{
    if (op->kind == OP_TASK_NEW)
        return owner_of_name(op->record->owner);
    if (op->owner.p)
        return owner_of_name(op->owner);
    return op->task_key ? owner_of_key(op->task_key) : OWNERS;
}

/* At most one home commits: the fence let this batch through, so all that it touches is ours. */
static void check_batch(const struct node *n, const struct batch *batch)
{
    for (size_t i = 0; i < batch->n_ops; i++) {
        const struct op *op = &batch->ops[i];
        unsigned owner = owner_of_op(op);
        if (owner < OWNERS)
            assert_int_equal(w.t.home[owner], n->incarnation);
        if (op->kind == OP_TASK_NEW)
            note_key(op->record->key, owner);
    }
}

static void apply(const struct node *n, const struct batch *batch)
{
    struct batch *plain = batch_clone(batch);
    check_batch(n, batch);
    plain->number = 0; /* the memory store knows the numbers of one alone */
    assert_int_equal(store_memory_ops.commit(w.memory, plain), STORE_OK);
    assert_true(w.t.n_log < LOG);
    w.log[w.t.n_log++] = (struct logged){n->incarnation, plain};
    w.t.rows[n->incarnation].number = batch->number;
}

static void keep(struct node *n, const struct batch *batch)
{
    if (batch->number == n->last)
        return;
    assert_true(n->n_kept < ROWS);
    n->kept[n->n_kept++] = (struct kept){n->last, batch->number, batch_clone(batch)};
    n->last = batch->number;
    while (n->n_kept - n->first_kept > n->most_kept)
        batch_free(n->kept[n->first_kept++].batch);
}

static int nodes_commit(void *store, const struct batch *batch)
{
    struct node *n = store;
    struct row *row = &w.t.rows[n->incarnation];
    bool reached = !w.outage && !n->cut;
    if (!is_sure(n))
        return STORE_UNKNOWN; /* it may have been sent to the server before */
    if (!reached && !chance(20))
        return STORE_UNKNOWN;
    if (row->dead)
        return STORE_FENCED;
    if (batch->give_up && batch->number != row->number)
        return STORE_VOID;
    if (batch->number != row->number)
        apply(n, batch);
    if (!reached)
        return STORE_UNKNOWN; /* the answer alone was lost */
    keep(n, batch);
    return STORE_OK;
}

static int nodes_query(void *reader, const struct query *query, struct answer *ret)
{
    struct node *n = reader;
    *ret = (struct answer){0};
    if (w.outage || n->cut || !is_sure(n))
        return STORE_IO;
    return store_memory_ops.query(w.memory, query, ret);
}

static void *nodes_reader_open(void *store)
{
    return store;
}

static void nodes_reader_close(void *reader)
{
    (void)reader;
}

static const struct store_ops nodes_ops = {.name = "nodes",
                                           .commit = nodes_commit,
                                           .query = nodes_query,
                                           .reader_open = nodes_reader_open,
                                           .reader_close = nodes_reader_close};

/* --- agents ----------------------------------------------------------------------------------- */

static struct known_task *task_of(struct str id, unsigned owner)
{
    for (size_t i = 0; i < w.n_tasks; i++)
        if (str_eq(str_of(w.tasks[i].id), id))
            return &w.tasks[i];
    assert_true(w.n_tasks < TASKS && id.n == TASK_ID_LEN);
    struct known_task *t = &w.tasks[w.n_tasks++];
    *t = (struct known_task){.owner = owner};
    memcpy(t->id, id.p, id.n);
    return t;
}

static struct run *nodes_start(void *settings, const struct run_spec *spec,
                               const struct run_events *events, void *task, char *ret_error)
{
    unsigned owner = owner_of_name(spec->owner);
    struct known_task *t = task_of(spec->task_id, owner);
    assert_true(is_trusted(w.running));
    if (is_sure(w.running))
        assert_int_equal(w.t.home[owner], w.running->incarnation);
    assert_false(t->began || t->ended);
    t->began = true;
    return kit_start(settings, spec, events, task, ret_error);
}

/* Text that nothing has settled is said again. */
struct recall {
    unsigned n;
};

static struct recall *nodes_recall(void *settings, struct recall *recall,
                                   const struct recalled *item, bool *ret_settled)
{
    (void)settings;
    *ret_settled =
        !item->event || (item->event->event != EVENT_TOKEN && item->event->event != EVENT_THINKING);
    return recall ? recall : xcalloc(sizeof *recall);
}

static void nodes_forget(struct recall *recall)
{
    free(recall);
}

static struct run *nodes_resume(void *settings, const struct run_spec *spec,
                                const struct resumption *from, const struct run_events *events,
                                void *task, char *ret_error)
{
    unsigned owner = owner_of_name(spec->owner);
    struct known_task *t = task_of(spec->task_id, owner);
    free(from->recall);
    assert_true(is_trusted(w.running));
    if (is_sure(w.running))
        assert_int_equal(w.t.home[owner], w.running->incarnation);
    assert_false(t->ended);
    t->began = true;
    w.resumed++;
    return kit_start(settings, spec, events, task, ret_error);
}

static void nodes_leave(struct run *r)
{
    r->wants_more = false;
}

static const struct agent_ops nodes_agent_ops = {.kind = "kit",
                                                 .recall = nodes_recall,
                                                 .forget = nodes_forget,
                                                 .resume = nodes_resume,
                                                 .leave = nodes_leave,
                                                 .start = nodes_start,
                                                 .cancel = kit_cancel,
                                                 .kill = kit_kill,
                                                 .deliver = kit_deliver,
                                                 .is_deaf = kit_is_deaf,
                                                 .unpause = kit_unpause,
                                                 .free = kit_free};

/* --- what is lost for good -------------------------------------------------------------------- */

/* Clients know from now on that tasks of before may have another history. */
static void raise_epoch(void)
{
    w.t.epoch = w.epoch = ++w.number;
    w.raised++;
    w.n_before = w.t.n_before = w.n_tasks;
    for (size_t i = 0; i < w.n_tasks; i++) {
        struct known_task *t = &w.tasks[i];
        for (size_t k = 0; k < t->n; k++)
            free(t->lines[k]);
        t->n = 0;
        t->ended = t->began = false;
    }
    memset(w.key_task, 0xff, sizeof w.key_task);
}

static void tell_epoch(struct node *n)
{
    if (w.t.epoch > w.told) {
        w.told = w.t.epoch;
        w.n_before_told = w.t.n_before;
    }
    hub_rewound(&n->kit.hub, w.t.epoch, n->range);
}

/* --- a node's life ---------------------------------------------------------------------------- */

static bool hub_asks_trust(void *arg)
{
    return is_trusted(arg);
}

static void hub_is_fenced(void *arg)
{
    ((struct node *)arg)->n_fenced++;
}

static void node_open(struct node *n)
{
    struct kit *k = &n->kit;
    struct store_start start = {0};
    struct hub_options o = {.agents = k->agents,
                            .n_agents = 1,
                            .limits = {.tasks = 1000,
                                       .tasks_per_owner = 1000,
                                       .processes = 1000,
                                       .task_bytes = 1 << 30,
                                       .task_events = 1000000,
                                       .inbox_messages = 10,
                                       .inbox_bytes = 1 << 20,
                                       .subscriptions = 1000,
                                       .requests_per_second = 100000,
                                       .burst = 100000,
                                       .message_bytes = 65536},
                            .cache_bytes = 64u << 20,
                            .retry_ms = 1000000,
                            .version = "test",
                            .random = kit_random,
                            .damaged = kit_damaged,
                            .fenced = hub_is_fenced,
                            .shared = true,
                            .trusted = hub_asks_trust,
                            .arg = n};
    assert_true(w.n_rows < ROWS);
    n->incarnation = (int64_t)w.n_rows++;
    w.t.rows[n->incarnation] = (struct row){.server = w.server};
    if (w.t.server != w.server)
        raise_epoch(); /* those who had what is lost may be gone */
    w.t.server = n->server = w.server;
    n->sure = false;
    n->last = 0;
    n->range = n->claimed = 0;
    n->first_kept = n->n_kept = 0;
    n->most_kept = chance(20) ? 2 : ROWS;
    n->trusted_until = w.now + TRUST_MS;
    n->beat_at = w.now;
    n->paused = n->half = n->cut = n->restores = n->leaves = false;
    n->n_fenced = 0;
    memset(n->seen, 0, sizeof n->seen);
    memset(n->mine, 0, sizeof n->mine);
    memset(n->comes, 0, sizeof n->comes);
    memset(n->goes, 0, sizeof n->goes);
    memset(&n->parted, 0, sizeof n->parted);
    start.next_key = ++w.number << 32 | 1;
    k->inline_store = store_inline_new(&nodes_ops, n);
    k->agents[0] = (struct agent){.name = "first",
                                  .description = "",
                                  .is_default = true,
                                  .has_inbox = true,
                                  .is_process = !w.goes_on,
                                  .goes_on = w.goes_on,
                                  .timeout_ms = 1800000000,
                                  .idle_timeout_ms = 1800000000,
                                  .grace_ms = 5000,
                                  .ops = &nodes_agent_ops};
    hub_init(&k->hub, &o, store_inline_port(k->inline_store), &start);
    k->hub.clock.now_ms = w.now;
    k->hub.clock.wall_ms = 1764280000000 + w.now;
}

static void reader_drop(size_t i)
{
    client_free(w.readers[i]->client);
    free(w.readers[i]);
    w.readers[i] = w.readers[--w.n_readers];
}

/* The process is gone, and its connections with it. */
static void node_close(struct node *n)
{
    for (size_t i = w.n_readers; i-- > 0;)
        if (w.readers[i]->node == n)
            reader_drop(i);
    kit_now = &n->kit;
    w.running = n;
    kit_close_hub(&n->kit);
    while (n->first_kept < n->n_kept)
        batch_free(n->kept[n->first_kept++].batch);
    n->incarnation = 0;
}

/* --- what readers see ------------------------------------------------------------------------- */

static void check_event(struct reader *r, const char *line, size_t len)
{
    char text[1024];
    snprintf(text, sizeof text, "%.*s", (int)len, line);
    const char *id = line_field(text, "task_id"), *seq = strstr(text, json("'seq':"));
    struct known_task *t = task_of(str_of(id), r->owner);
    size_t at = (size_t)(t - w.tasks), n = (size_t)strtoull(seq + 6, NULL, 10);
    assert_int_equal(t->owner, r->owner);
    assert_true(is_trusted(r->node));
    assert_true(r->follows[at]);
    assert_int_equal(n, r->last[at] + 1);
    r->last[at] = n;
    if (r->node->kit.hub.epoch < w.epoch)
        return; /* of a history that clients know to be over */
    if (is_sure(r->node))
        assert_int_equal(w.t.home[r->owner], r->node->incarnation); /* nobody else may speak */
    if (n > t->n) {
        assert_false(t->ended); /* nothing follows an end */
        t->lines = xrealloc(t->lines, n * sizeof *t->lines);
        while (t->n < n)
            t->lines[t->n++] = NULL;
    }
    if (!t->lines[n - 1])
        t->lines[n - 1] = xstrdup(str_of(text));
    else
        assert_string_equal(t->lines[n - 1], text);
    if (strstr(text, json("'event':'task.completed'")) ||
        strstr(text, json("'event':'task.failed'"))) {
        assert_int_equal(n, t->n);
        t->ended = true;
    }
    w.lines++;
}

/* Where its events begin: "first" says it, or "after". */
static struct known_task *take_followed(struct reader *r, const char *text)
{
    struct known_task *t = task_of(str_of(line_field(text, "task_id")), r->owner);
    const char *first = strstr(text, json("'first':")), *after = strstr(text, json("'after':"));
    size_t at = (size_t)(t - w.tasks);
    r->last[at] = first   ? (uint64_t)strtoull(first + 8, NULL, 10) - 1
                  : after ? (uint64_t)strtoull(after + 8, NULL, 10)
                          : 0;
    r->follows[at] = true;
    assert_false(r->stale[at] && r->last[at] > 0);
    return t;
}

static void take_started(struct reader *r, const char *text)
{
    int at = (int)(take_followed(r, text) - w.tasks);
    if (r->node->kit.hub.epoch < w.epoch)
        return;
    int *known = &w.key_task[r->owner][strtol(line_field(text, "id"), NULL, 10)];
    assert_true(*known == -1 || *known == at); /* one task for a key */
    *known = at;
}

/* All that was seen is there, but for what an epoch has told. */
static void take_not_found(const char *text)
{
    size_t at = (size_t)strtoul(line_field(text, "id"), NULL, 10);
    assert_true(at < w.n_before);
    w.tasks[at].lost = true;
}

static void read_lines(struct reader *r)
{
    const struct buf *got = &r->client->got;
    while (r->at < got->len) {
        const char *line = got->bytes + r->at;
        const char *end = memchr(line, '\n', got->len - r->at);
        size_t len = end ? (size_t)(end - line) : got->len - r->at;
        char text[2048];
        r->at += len + 1;
        snprintf(text, sizeof text, "%.*s", (int)len, line);
        if (strncmp(text, json("{'type':'event'"), 15) == 0)
            check_event(r, line, len);
        else if (strncmp(text, json("{'type':'started'"), 17) == 0)
            take_started(r, text);
        else if (strncmp(text, json("{'type':'resumed'"), 17) == 0)
            (void)take_followed(r, text);
        else if (strstr(text, json("'code':'not_found'")))
            take_not_found(text);
        else if (strstr(text, json("'code':'out_of_range'")))
            w.refused++;
    }
}

#endif
