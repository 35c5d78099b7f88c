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
#define LEASE_MS 10000
#define TRUST_MS 8000
#define BEAT_MS 2000

struct row { /* of the table of nodes */
    int64_t beat;
    uint64_t number; /* of its last batch */
    bool dead;
};

struct node {
    struct kit kit;
    int64_t incarnation; /* its row; 0: the process does not run */
    msec_t trusted_until, beat_at;
    bool paused, half, cut, restores;
    int64_t seen[ROWS]; /* beats of others, and since when */
    msec_t since[ROWS];
    bool mine[OWNERS], comes[OWNERS], goes[OWNERS];
    bool leaves;
    struct slots closed;
    struct waiter staged;
    unsigned n_fenced;
};

struct known_task {
    char id[TASK_ID_LEN + 1];
    unsigned owner;
    bool ended, began;
    size_t n;
    char **lines; /* of numbers 1 … n; NULL: nobody has seen it yet */
};

struct reader {
    struct client *client;
    struct node *node;
    unsigned owner;
    size_t at;            /* in got */
    uint64_t last[TASKS]; /* newest number; 0 and not follows: it is not read */
    bool follows[TASKS];
};

static struct {
    void *memory;
    msec_t now;
    uint64_t random;
    int64_t number;
    struct row rows[ROWS];
    size_t n_rows;
    int64_t home[OWNERS]; /* an incarnation; 0: nobody's */
    int64_t moved[OWNERS];
    struct node *nodes[NODES];
    size_t n_nodes;
    struct known_task tasks[TASKS];
    size_t n_tasks;
    struct reader *readers[READERS];
    size_t n_readers;
    int key_of[OWNERS];          /* number of the request key that is asked for */
    int key_task[OWNERS][TASKS]; /* the task that a key made; -1: not known */
    bool outage, healing;
    struct node *running;
    int64_t keys[ROWS];
    unsigned owners_of_keys[ROWS];
    size_t n_keys;
    unsigned takeovers, moves, sent_away, fenced, lines, zombies;
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

/* --- the store -------------------------------------------------------------------------------- */

static unsigned owner_of_key(int64_t key)
{
    for (size_t i = 0; i < w.n_keys; i++)
        if (w.keys[i] == key)
            return w.owners_of_keys[i];
    return OWNERS;
}

static void note_key(int64_t key, unsigned owner)
{
    assert_int_equal(owner_of_key(key), OWNERS); /* no key twice, whoever gives it */
    for (size_t i = 0; i < w.n_keys; i++)        /* lists and queues by key are in order of time */
        assert_true(w.owners_of_keys[i] != owner || w.keys[i] < key);
    assert_true(w.n_keys < ROWS);
    w.keys[w.n_keys] = key;
    w.owners_of_keys[w.n_keys++] = owner;
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
            assert_int_equal(w.home[owner], n->incarnation);
        if (op->kind == OP_TASK_NEW)
            note_key(op->record->key, owner);
    }
}

static int nodes_commit(void *store, const struct batch *batch)
{
    struct node *n = store;
    struct row *row = &w.rows[n->incarnation];
    bool reached = !w.outage && !n->cut;
    if (!reached && !chance(20))
        return STORE_UNKNOWN;
    if (row->dead)
        return STORE_FENCED;
    if (batch->number == row->number)
        return reached ? STORE_OK : STORE_UNKNOWN;
    if (batch->give_up)
        return STORE_VOID;
    check_batch(n, batch);
    struct batch plain = *batch;
    plain.number = 0; /* the memory store knows the numbers of one alone */
    int status = store_memory_ops.commit(w.memory, &plain);
    assert_int_equal(status, STORE_OK);
    row->number = batch->number;
    return reached ? STORE_OK : STORE_UNKNOWN; /* the answer alone was lost */
}

static int nodes_query(void *reader, const struct query *query, struct answer *ret)
{
    struct node *n = reader;
    *ret = (struct answer){0};
    if (w.outage || n->cut)
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
    assert_int_equal(w.home[owner], w.running->incarnation);
    assert_false(t->began || t->ended);
    t->began = true;
    return kit_start(settings, spec, events, task, ret_error);
}

static const struct agent_ops nodes_agent_ops = {.kind = "kit",
                                                 .start = nodes_start,
                                                 .cancel = kit_cancel,
                                                 .kill = kit_kill,
                                                 .deliver = kit_deliver,
                                                 .is_deaf = kit_is_deaf,
                                                 .unpause = kit_unpause,
                                                 .free = kit_free};

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
    w.rows[n->incarnation] = (struct row){0};
    n->trusted_until = w.now + TRUST_MS;
    n->beat_at = w.now;
    n->paused = n->half = n->cut = n->restores = n->leaves = false;
    n->n_fenced = 0;
    memset(n->seen, 0, sizeof n->seen);
    memset(n->mine, 0, sizeof n->mine);
    memset(n->comes, 0, sizeof n->comes);
    memset(n->goes, 0, sizeof n->goes);
    start.next_key = ++w.number << 32 | 1;
    k->inline_store = store_inline_new(&nodes_ops, n);
    k->agents[0] = (struct agent){.name = "first",
                                  .description = "",
                                  .is_default = true,
                                  .has_inbox = true,
                                  .is_process = true,
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
    assert_int_equal(w.home[r->owner], r->node->incarnation); /* the only one that may speak */
    assert_true(r->follows[at]);
    assert_int_equal(n, r->last[at] + 1);
    r->last[at] = n;
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
    return t;
}

static void take_started(struct reader *r, const char *text)
{
    int at = (int)(take_followed(r, text) - w.tasks);
    int *known = &w.key_task[r->owner][strtol(line_field(text, "id"), NULL, 10)];
    assert_true(*known == -1 || *known == at); /* one task for a key */
    *known = at;
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
    }
}

#endif
