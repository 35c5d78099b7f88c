/* hub_kit -- a whole hub without a rim: the memory store stepped by hand, agents that obey the
 * test, sessions whose lines are kept.
 *
 * Faults:   everything that the hub asks of its rim passes one of the points of KIT_POINTS.
 *           kit_fault names a point, the first passing that fails, and how many fail.  kit_passed
 *           counts.
 * Thread:   the test's.
 */
#ifndef TESTS_SUPPORT_HUB_KIT_H
#define TESTS_SUPPORT_HUB_KIT_H

#include "core/call.h"
#include "core/session.h"
#include "core/store_memory.h"
#include "tests/support/store_inline.h"
#include "tests/support/t.h"

struct run {
    const struct run_events *events;
    void *task;
    char input[64];
    struct buf history;
    struct buf delivered; /* lines, each with a newline */
    unsigned cancels, kills, spoke;
    bool paused, freed, wants_more, full, deaf;
    void (*on_delivered)(struct run *r); /* called with each line, from inside; NULL: nothing */
};

/* X(NAME, name, what happens when it fails) */
#define KIT_POINTS(X)                                                       \
    X(COMMIT, commit, "a commit changes nothing, and says kit_fault.error") \
    X(READ, read, "a query says kit_fault.error")                           \
    X(SPAWN, spawn, "an agent cannot be started")                           \
    X(DELIVER, deliver, "an agent does not take a message")                 \
    X(HELLO, hello, "a client is refused")                                  \
    X(SEND, send, "a connection breaks instead of taking lines")            \
    X(TIMER, timer, "timers that are due wait for the next turn")

enum kit_point {
#define X(NAME, name, what) KIT_##NAME,
    KIT_POINTS(X)
#undef X
        N_KIT_POINTS
};

static struct {
    enum kit_point point;
    unsigned first, times; /* the passings that fail: `times` from first (1 …) on; 0: none */
    enum store_error error;
} kit_fault;
static unsigned kit_passed[N_KIT_POINTS]; /* since kit_new */
static bool kit_start_may_fail;           /* once, without a fault of kit_fault's: no memory */
static bool
    kit_commit_lies; /* a commit returns STORE_IO, but a crash finds it: none may come between */
static unsigned kit_unknown; /* the next commits that succeed answer STORE_UNKNOWN */

static unsigned
    kit_stale; /* that many answers about one task say that it runs, whatever the store has */

static inline bool kit_fails(enum kit_point point)
{
    unsigned n = ++kit_passed[point];
    return point == kit_fault.point && n >= kit_fault.first &&
           n - kit_fault.first < kit_fault.times;
}

#ifndef KIT_RUNS
#define KIT_RUNS 256
#endif

struct kit {
    struct hub hub;
    void *store;
    struct store_inline *inline_store;
    struct agent agents[2];
    struct list clients;        /* that are there: those that a failed test leaves are freed */
    struct run *runs[KIT_RUNS]; /* every run ever started, in order; freed at the end */
    size_t n_runs;
    bool bounded; /* the store takes steps_left more steps: later ones are lost, as after a kill */
    unsigned steps_left;
    bool hangs;                         /* the store does not step at all */
    struct retention_options retention; /* for the next hub_restore: see kit_crash */
    unsigned n_fenced;                  /* how often the hub was told to stop */
    uint64_t damaged_at;                /* the first event in the last report of damage; 0: none */
};

/* One client. */
struct client {
    struct list node; /* in the kit's, if client_new made it */
    struct kit *kit;
    struct session session;
    char owner[32];
    struct buf got; /* every line, each with a newline */
    size_t seen;    /* position in got */
    bool held;
    bool frozen; /* reads nothing */
    bool broken; /* its connection is dead too: it only has to notice */
};

static struct kit *kit_now; /* the agents' settings point to nothing: one kit at a time */

static inline struct run *kit_start(void *settings, const struct run_spec *spec,
                                    const struct run_events *events, void *task, char *ret_error)
{
    (void)settings;
    struct run *r = xcalloc(sizeof *r);
    if (str_eq(spec->input, STR("cannot start")) || kit_fails(KIT_SPAWN)) {
        snprintf(ret_error, 256, "it cannot start");
        free(r);
        return NULL;
    }
    r->events = events;
    r->task = task;
    r->wants_more = true;
    snprintf(r->input, sizeof r->input, "%.*s", (int)spec->input.n, spec->input.p);
    buf_putstr(&r->history, spec->history);
    assert_true(kit_now->n_runs < KIT_RUNS);
    kit_now->runs[kit_now->n_runs++] = r;
    return r;
}

static inline void kit_cancel(struct run *r)
{
    r->cancels++;
}

static inline void kit_kill(struct run *r)
{
    r->kills++;
}

static inline bool kit_is_deaf(struct run *r)
{
    return r->deaf;
}

static inline bool kit_deliver(struct run *r, struct str line)
{
    if (r->full || r->deaf || kit_fails(KIT_DELIVER))
        return false;
    buf_putstr(&r->delivered, line);
    buf_putc(&r->delivered, '\n');
    if (r->on_delivered)
        r->on_delivered(r);
    return true;
}

static inline void kit_unpause(struct run *r)
{
    r->wants_more = true;
}

static inline void kit_free(struct run *r)
{
    assert_false(r->freed);
    r->freed = true;
}

static const struct agent_ops kit_ops = {.kind = "kit",
                                         .start = kit_start,
                                         .cancel = kit_cancel,
                                         .kill = kit_kill,
                                         .deliver = kit_deliver,
                                         .is_deaf = kit_is_deaf,
                                         .unpause = kit_unpause,
                                         .free = kit_free};

static uint64_t kit_random_state;

static inline bool kit_random(void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)bytes)[i] = (uint8_t)t_random(&kit_random_state);
    return true;
}

static inline int kit_commit(void *store, const struct batch *batch)
{
    if (kit_fails(KIT_COMMIT))
        return kit_fault.error;
    int status = store_memory_ops.commit(store, batch);
    if (status == STORE_OK && kit_unknown) {
        kit_unknown--;
        return STORE_UNKNOWN;
    }
    return kit_commit_lies ? STORE_IO : status;
}

static inline int kit_query(void *reader, const struct query *query, struct answer *ret)
{
    if (kit_fails(KIT_READ))
        return kit_fault.error;
    int status = store_memory_ops.query(reader, query, ret);
    if (kit_stale && status == 0 && (query->kind == QUERY_TASK || query->kind == QUERY_KEY)) {
        kit_stale--;
        ret->tasks[0].state.status = STATUS_RUNNING;
    }
    return status;
}

static inline void *kit_reader_open(void *store)
{
    return store_memory_ops.reader_open(store);
}

static inline void kit_reader_close(void *reader)
{
    store_memory_ops.reader_close(reader);
}

static const struct store_ops kit_store_ops = {.name = "kit",
                                               .commit = kit_commit,
                                               .query = kit_query,
                                               .reader_open = kit_reader_open,
                                               .reader_close = kit_reader_close};

static inline void kit_damaged(const char *task_id, uint64_t seq)
{
    (void)task_id;
    kit_now->damaged_at = seq;
}

static inline void kit_fenced(void *arg)
{
    ((struct kit *)arg)->n_fenced++;
}

/* The claims themselves. */
static inline bool kit_sign(void *arg, struct str claims, struct buf *out)
{
    (void)arg;
    buf_putstr(out, claims);
    return true;
}

static inline void kit_open_hub(struct kit *k)
{
    struct hub_options o = {.agents = k->agents,
                            .n_agents = countof(k->agents),
                            .limits = {.tasks = 100,
                                       .tasks_per_owner = 32,
                                       .processes = 100,
                                       .task_bytes = 1 << 30,
                                       .task_events = 1000000,
                                       .inbox_messages = 10,
                                       .inbox_bytes = 1 << 20,
                                       .subscriptions = 1000,
                                       .task_webhooks = 2,
                                       .schedules = 20,
                                       .schedules_per_owner = 4,
                                       .shares_per_owner = 4,
                                       .requests_per_second = 50,
                                       .burst = 200,
                                       .message_bytes = 65536},
                            .retention = k->retention,
                            .cache_bytes = 64u << 20,
                            .retry_ms = 30000,
                            .version = "test",
                            .random = kit_random,
                            .damaged = kit_damaged,
                            .fenced = kit_fenced,
                            .sign = kit_sign,
                            .arg = k};
    kit_unknown = 0;
    struct store_start start;
    assert_int_equal(store_memory_ops.start(k->store, &start), 0);
    k->inline_store = store_inline_new(&kit_store_ops, k->store);
    msec_t now = k->hub.clock.now_ms;
    int64_t wall = k->hub.clock.wall_ms;
    hub_init(&k->hub, &o, store_inline_port(k->inline_store), &start);
    k->hub.clock.now_ms = now ? now : 1000;
    k->hub.clock.wall_ms = wall ? wall : 1764280000000;
}

static inline struct kit *kit_new(void)
{
    struct kit *k = xcalloc(sizeof *k);
    kit_now = k;
    kit_random_state = 42;
    memset(kit_passed, 0, sizeof kit_passed);
    kit_stale = 0;
    for (size_t i = 0; i < countof(k->agents); i++)
        k->agents[i] = (struct agent){.name = i ? "second" : "first",
                                      .description = "",
                                      .is_default = i == 0,
                                      .has_inbox = true,
                                      .is_process = true,
                                      .timeout_ms = 1800000,
                                      .idle_timeout_ms = 300000,
                                      .grace_ms = 5000,
                                      .ops = &kit_ops};
    k->store = store_memory_new();
    list_init(&k->clients);
    kit_open_hub(k);
    return k;
}

/* The end of a turn, without a step of the store. */
static inline void kit_turn(struct kit *k)
{
    msec_t due = clock_next(&k->hub.clock);
    if (due != 0 || !kit_fails(KIT_TIMER))
        clock_run(&k->hub.clock);
    hub_submit(&k->hub, false);
    struct list now, *node;
    list_init(&now);
    list_splice(&now, &k->hub.woken);
    while ((node = list_pop(&now)) != NULL) {
        struct client *c = list_item(node, struct session, woken)->rim;
        if (c->frozen || c->broken)
            continue;
        if (session_has_output(&c->session) && kit_fails(KIT_SEND))
            c->broken = true;
        else
            while (session_fill(&c->session, &c->got, MAX_MESSAGE_OUT))
                buf_putc(&c->got, '\n');
    }
    hub_reap(&k->hub);
}

static inline bool kit_step(struct kit *k)
{
    if (k->hangs || (k->bounded && k->steps_left == 0))
        return false;
    k->steps_left -= k->bounded;
    return store_inline_step(k->inline_store);
}

static inline void kit_hang(struct kit *k, bool hangs)
{
    k->hangs = hangs;
}

/* Runs turns until nothing more happens by itself. */
static inline void kit_settle(struct kit *k)
{
    int quiet = 0;
    while (quiet < 2) {
        kit_turn(k);
        quiet = kit_step(k) ? 0 : quiet + 1;
    }
}

static inline void kit_pass(struct kit *k, msec_t ms)
{
    k->hub.clock.now_ms += ms;
    k->hub.clock.wall_ms += ms;
    kit_settle(k);
}

/* As in a crash: nothing more is committed.  Waiting calls are released. */
static inline void kit_close_hub(struct kit *k)
{
    store_inline_fail_queries(k->inline_store, 1000000, STORE_IO);
    store_inline_fail_commits(k->inline_store, 1000000, STORE_IO);
    while (store_inline_step_query(k->inline_store) || store_inline_step_commit(k->inline_store))
        ;
    store_inline_free(k->inline_store);
    hub_done(&k->hub);
}

static inline void kit_on_ready(void *arg, int status)
{
    *(int *)arg = status;
}

/* Uncommitted changes are lost; the next process repairs what it finds.  Clients must be gone.  A
 * process that cannot read its store ends; the next one finds the store working again. */
static inline void kit_crash(struct kit *k)
{
    int status = 1;
    k->bounded = kit_commit_lies = false;
    for (int tries = 0; tries < 2 && status != 0; tries++) {
        if (tries > 0) {
            assert_true(kit_fault.times > 0 || kit_start_may_fail); /* otherwise: why? */
            kit_fault.times = 0;
        }
        status = 1;
        kit_close_hub(k);
        kit_open_hub(k);
        hub_restore(&k->hub, kit_on_ready, &status);
        kit_settle(k);
        for (int i = 0; status == 1 && i < 100; i++) /* a commit that fails is tried again */
            kit_pass(k, 1000);
    }
    assert_int_equal(status, 0);
}

static inline void client_free(struct client *c)
{
    list_remove(&c->node);
    session_done(&c->session);
    buf_done(&c->got);
    free(c);
}

static inline void kit_free_all(struct kit *k)
{
    for (struct list *node = k->clients.next; node != &k->clients; node = k->clients.next)
        client_free(list_item(node, struct client, node));
    kit_settle(k);
    kit_close_hub(k);
    store_memory_ops.close(k->store);
    for (size_t i = 0; i < k->n_runs; i++) {
        assert_true(k->runs[i]->freed);
        buf_done(&k->runs[i]->history);
        buf_done(&k->runs[i]->delivered);
        free(k->runs[i]);
    }
    free(k);
}

static inline bool client_authenticate(struct session *s, struct str token, struct identity *ret)
{
    const struct client *c = s->rim;
    if (str_eq(token, STR("bad")) || kit_fails(KIT_HELLO)) {
        snprintf(ret->error, sizeof ret->error, "a bad token");
        return false;
    }
    struct str owner = token.p ? token : str_of(c->owner);
    ASSERT(owner.p);
    memcpy(ret->owner, owner.p, owner.n);
    ret->owner_len = owner.n;
    return true;
}

static inline void client_hold(struct session *s, bool hold)
{
    ((struct client *)s->rim)->held = hold;
}

static const struct session_ops client_ops = {.authenticate = client_authenticate,
                                              .hold = client_hold};

static inline void client_say(struct client *c, const char *line)
{
    session_receive(&c->session, str_of(line));
    kit_settle(c->kit);
}

static inline struct client *client_new(struct kit *k, const char *owner)
{
    struct client *c = xcalloc(sizeof *c);
    c->kit = k;
    snprintf(c->owner, sizeof c->owner, "%s", owner);
    session_init(&c->session, &k->hub, &client_ops, c);
    list_push(&k->clients, &c->node);
    client_say(c, json("{'type':'hello'}"));
    return c;
}

/* The next received line, without its newline; "" when there is none.  Valid until the next
 * call. */
static inline const char *client_line(struct client *c)
{
    static struct buf line;
    buf_clear(&line);
    buf_puts(&line, "");
    while (c->seen < c->got.len) {
        const char *at = c->got.bytes + c->seen;
        const char *end = memchr(at, '\n', c->got.len - c->seen);
        size_t n = end ? (size_t)(end - at) : c->got.len - c->seen;
        c->seen += n + (end ? 1 : 0);
        if (n == 0)
            continue;
        buf_put(&line, at, n);
        if (strncmp(line.bytes, EVENT_PREFIX, strlen(EVENT_PREFIX)) == 0)
            assert_true(n + 1 <= MAX_EVENT_LINE);
        break;
    }
    return line.bytes;
}

/* Skips lines until one contains this. */
static inline const char *client_await(struct client *c, const char *part)
{
    for (;;) {
        const char *line = client_line(c);
        if (!*line)
            fail_msg("no line with %s came; at last: %s", part,
                     c->got.len > 700 ? c->got.bytes + c->got.len - 700 : c->got.bytes);
        if (strstr(line, part))
            return line;
    }
}

static inline void client_expect(struct client *c, const char *part)
{
    const char *line = client_line(c);
    if (!strstr(line, part))
        fail_msg("wanted %s, got %s", part, line);
}

static inline void client_expect_nothing(struct client *c)
{
    assert_string_equal(client_line(c), "");
}

/* The value of a string member of a line, by plain search. */
static inline const char *line_field(const char *line, const char *key)
{
    static char values[8][160];
    static size_t turn;
    char *value = values[turn++ % countof(values)];
    char name[64];
    snprintf(name, sizeof name, json("'%s':'"), key);
    const char *at = strstr(line, name);
    if (!at) {
        fail_msg("no %s in %s", key, line);
        abort(); /* for the analyzer: the line above does not return */
    }
    at += strlen(name);
    snprintf(value, sizeof values[0], "%.*s", (int)strcspn(at, json("'")), at);
    return value;
}

/* Starts a task and returns its id (copied: valid for 8 more). */
static inline const char *client_start(struct client *c, const char *conversation,
                                       const char *message)
{
    char line[512];
    snprintf(line, sizeof line, json("{'type':'chat','conversation_id':'%s','message':'%s'}"),
             conversation, message);
    client_say(c, line);
    return line_field(client_await(c, json("'started'")), "task_id");
}

static inline void client_ask(struct client *c, const char *type, const char *conversation,
                              const char *task, const char *more)
{
    char line[1024];
    snprintf(line, sizeof line,
             json("{'type':'%s','id':'q','conversation_id':'%s','task_id':'%s'%s}"), type,
             conversation, task, more);
    client_say(c, line);
}

static inline struct run *kit_run(struct kit *k, size_t i)
{
    assert_true(i < k->n_runs);
    return k->runs[i];
}

static inline void run_say(struct kit *k, struct run *r, const char *line)
{
    r->wants_more = r->events->on_line(r->task, str_of(line));
    kit_settle(k);
}

static inline void run_end(struct kit *k, struct run *r, enum run_end how, const char *text)
{
    r->events->on_end(r->task, how, str_of(text));
    kit_settle(k);
}

#endif
