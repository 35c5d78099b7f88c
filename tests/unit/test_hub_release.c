/* What is staged around the release of a slot: random lives of two owners, of whom ann's slot comes
 * and goes, and a naive witness of each batch.
 *
 *   served ──close──▶ closed ──part──▶ parted ──leave, wait──▶ released ──restore──▶ served
 *
 * From hub_leave on no operation of ann's is staged, in whatever batch; when the wait is over, all
 * that were staged before are in the store, and nothing of hers is in memory.  What she was told is
 * there at the next home, which is the same hub again. */
#include "core/task.h"
#include "tests/support/hub_again.h"

#define KEYS 8192
#define TASKS 2048
#define STEPS 1500

enum stage { SERVED, CLOSED, PARTED, LEFT, RELEASED, COMING };

static struct {
    uint64_t random;
    struct kit *kit;
    struct store_port port, *inner;
    struct slots slot;
    struct client *ann, *bob;
    enum stage stage;
    const struct batch *left_in; /* the batch that was being built then … */
    size_t n_before;             /* … and how many operations it had */
    struct waiter waiter;
    int64_t tenure;
    struct {
        int64_t key;
        bool anns;
    } keys[KEYS];
    size_t n_keys;
    struct {
        char id[TASK_ID_LEN + 1], conversation[8];
    } tasks[TASKS]; /* ann's, of which she was told */
    size_t n_tasks;
    char schedule[TASK_ID_LEN + 1], share[TASK_ID_LEN + 1]; /* the newest */
    unsigned releases, parted, ops, kinds[64], waited, told[16];
} w;

static unsigned pick(unsigned n)
{
    return (unsigned)t_below(&w.random, n);
}

static bool chance(unsigned percent)
{
    return pick(100) < percent;
}

/* --- the witness of batches ------------------------------------------------------------------- */

static bool is_ann(struct str owner)
{
    return str_eq(owner, STR("ann"));
}

static void note_key(int64_t key, bool anns)
{
    assert_true(w.n_keys < KEYS);
    w.keys[w.n_keys].key = key;
    w.keys[w.n_keys++].anns = anns;
}

static bool key_is_anns(int64_t key)
{
    for (size_t i = w.n_keys; i-- > 0;)
        if (w.keys[i].key == key)
            return w.keys[i].anns;
    fail_msg("a key that nobody was given");
    return false;
}

static bool is_anns(const struct op *op)
{
    if (op->kind == OP_TASK_NEW)
        return is_ann(op->record->owner);
    if (op->kind == OP_NOTICE_PUT)
        return is_ann(op->notice->owner);
    if (op->kind == OP_OUTBOX_PUT)
        return op->outbox->slot == slot_of(STR("ann"));
    return op->owner.p ? is_ann(op->owner) : op->task_key && key_is_anns(op->task_key);
}

static void note_keys(const struct op *op)
{
    if (op->kind == OP_TASK_NEW)
        note_key(op->record->key, is_anns(op));
    if (op->kind == OP_NOTICE_PUT)
        note_key(op->notice->key, is_anns(op));
    if (op->kind == OP_OUTBOX_PUT)
        note_key(op->outbox->key, is_anns(op));
}

static void witness(struct store_port *port, struct batch *batch, store_commit_fn done, void *arg)
{
    bool gone = w.stage == LEFT || w.stage == RELEASED;
    (void)port;
    for (size_t i = 0; i < batch->n_ops; i++) {
        const struct op *op = &batch->ops[i];
        note_keys(op);
        if (!is_anns(op))
            continue;
        w.ops++;
        w.kinds[op->kind]++;
        assert_true(!gone || (w.stage == LEFT && batch == w.left_in && i < w.n_before));
    }
    w.inner->commit(w.inner, batch, done, arg);
}

static void pass_query(struct store_port *port, const struct query *query, store_query_fn done,
                       void *arg)
{
    (void)port;
    w.inner->query(w.inner, query, done, arg);
}

/* --- clients ---------------------------------------------------------------------------------- */

static void say_line(struct client *c, const char *line)
{
    session_receive(&c->session, str_of(line));
}

static struct client *come_in(const char *owner)
{
    struct client *c = xcalloc(sizeof *c);
    c->kit = w.kit;
    snprintf(c->owner, sizeof c->owner, "%s", owner);
    session_init(&c->session, &w.kit->hub, &client_ops, c);
    say_line(c, json("{'type':'hello'}"));
    return c;
}

/* Replies that must come now and then: lives without them would show nothing. */
static const char *const wanted[] = {"started", "resumed", "scheduled", "shared",
                                     "forked",  "webhook", "ok"};

static void take_line(const char *line)
{
    for (size_t i = 0; i < countof(wanted); i++) {
        char begin[64];
        size_t n = (size_t)snprintf(begin, sizeof begin, json("{'type':'%s'"), wanted[i]);
        w.told[i] += strncmp(line, begin, n) == 0;
    }
    if (strstr(line, json("'type':'scheduled'")))
        snprintf(w.schedule, sizeof w.schedule, "%s", line_field(line, "schedule_id"));
    if (strstr(line, json("'type':'shared'")))
        snprintf(w.share, sizeof w.share, "%s", line_field(line, "share_id"));
    if (strncmp(line, json("{'type':'started'"), 17) != 0 || strstr(line, json("'repeated':true")))
        return;
    assert_true(w.n_tasks < TASKS);
    snprintf(w.tasks[w.n_tasks].id, TASK_ID_LEN + 1, "%s", line_field(line, "task_id"));
    snprintf(w.tasks[w.n_tasks++].conversation, 8, "%s", line_field(line, "conversation_id"));
}

static void take_lines(void)
{
    const char *at = w.ann->got.bytes, *end = w.ann->got.len ? at + w.ann->got.len : at;
    while (at < end) {
        const char *next = memchr(at, '\n', (size_t)(end - at));
        char line[4096];
        snprintf(line, sizeof line, "%.*s", (int)((next ? next : end) - at), at);
        take_line(line);
        at = next ? next + 1 : end;
    }
}

static void go_out(void)
{
    if (w.ann) {
        take_lines();
        client_free(w.ann);
    }
    w.ann = NULL;
}

#define ASKS(type, more) "{'type':'" type "','id':'q','conversation_id':'%s'" more "}"
#define OF(type, more) "{'type':'" type "','id':'q','conversation_id':'%s','task_id':'%s'" more "}"

/* The first %s is a conversation, the second its newest task. */
static const char *const asked[] = {
    ASKS("chat", ",'message':'m','when_busy':'enqueue'"),
    ASKS("chat", ",'message':'m','when_busy':'interrupt'"),
    ASKS("chat", ",'message':'m','when_busy':'enqueue','request_key':'k'"),
    ASKS("chat", ",'message':'m','background':true,'notify_on_complete':true"),
    ASKS("chat", ",'message':'m','when_busy':'enqueue','webhook':{'url':'https://h/1'}"),
    OF("resume", ",'after':0"),
    OF("unsubscribe", ""),
    OF("cancel", ""),
    "{'type':'cancel_all','id':'q'}",
    OF("send", ",'content':'x'"),
    OF("respond", ",'input_id':'i','answer':'a'"),
    OF("webhook", ",'webhook':{'url':'https://h/2','webhook_id':'2'}"),
    OF("webhook_delete", ",'webhook_id':'2'"),
    ASKS("title", ",'title':'t'"),
    ASKS("pin", ",'pinned':true"),
    ASKS("archive", ",'archived':true"),
    OF("ack", ""),
    "{'type':'delete','id':'q','conversation_id':'c2'}",
    ASKS("share", ""),
    ASKS("history", ""),
    ASKS("open", ""),
    ASKS("fork", ",'to':'f'"),
    "{'type':'conversations','id':'q'}",
    "{'type':'watch','id':'q'}",
    "{'type':'schedule','id':'q','chat':{'message':'m'},'conversation_id':'%s','every_s':60}",
    "{'type':'schedule','id':'q','chat':{'message':'m'},'not_before':1764280020000}",
};

/* C's own form of json, and two words for its %s. */
static void say_form(struct client *c, const char *form, const char *conversation, const char *task)
{
    char line[512], text[512];
    size_t n = 0;
    for (const char *p = form; *p; p++)
        line[n++] = *p == '\'' ? '"' : *p;
    line[n] = 0;
    const char *one = strstr(line, "%s"), *two = one ? strstr(one + 2, "%s") : NULL;
    if (!one)
        snprintf(text, sizeof text, "%s", line);
    else if (!two)
        snprintf(text, sizeof text, "%.*s%s%s", (int)(one - line), line, conversation, one + 2);
    else
        snprintf(text, sizeof text, "%.*s%s%.*s%s%s", (int)(one - line), line, conversation,
                 (int)(two - one - 2), one + 2, task, two + 2);
    say_line(c, text);
}

static void ask_something(void)
{
    static const char none[] = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    char conversation[8];
    const char *task = none;
    snprintf(conversation, sizeof conversation, "c%u", pick(3));
    if (w.n_tasks > 0 && chance(90)) {
        size_t i = w.n_tasks - 1 - pick(w.n_tasks < 6 ? (unsigned)w.n_tasks : 6);
        task = w.tasks[i].id;
        snprintf(conversation, sizeof conversation, "%s", w.tasks[i].conversation);
    }
    say_form(w.ann, asked[pick(countof(asked))], conversation, task);
    if (w.schedule[0] && chance(5))
        say_form(w.ann, "{'type':'unschedule','id':'q','schedule_id':'%s'}", w.schedule, "");
    if (w.share[0] && chance(5))
        say_form(w.ann, "{'type':'unshare','id':'q','share_id':'%s'}", w.share, "");
}

/* --- agents ----------------------------------------------------------------------------------- */

static const char *const said[] = {
    "{'event':'token','data':{'text':'t'}}",
    "{'event':'thinking','data':{'text':'t'}}",
    "{'event':'progress','data':{'progress':0.5}}",
    "{'event':'input_required','data':{'input_id':'i','kind':'question','prompt':'?'}}",
};

/* It says no more. */
static void leave_run(struct run *r)
{
    r->wants_more = false;
}

static void agent_acts(void)
{
    size_t i = w.kit->n_runs
                   ? w.kit->n_runs - 1 - pick(w.kit->n_runs < 8 ? (unsigned)w.kit->n_runs : 8)
                   : 0;
    struct run *r = w.kit->n_runs ? w.kit->runs[i] : NULL;
    if (!r || r->freed || !r->wants_more)
        return;
    if (r->cancels > 0 || chance(15)) {
        r->wants_more = false;
        r->events->on_end(r->task, RUN_DONE, STR(""));
        return;
    }
    char line[128];
    size_t n = 0;
    for (const char *p = said[pick(countof(said))]; *p; p++)
        line[n++] = *p == '\'' ? '"' : *p;
    r->events->on_line(r->task, (struct str){line, n});
}

/* --- the slot --------------------------------------------------------------------------------- */

static bool is_among(void (*find)(struct hub *h, const struct slots *among, struct slots *ret))
{
    struct slots found;
    find(&w.kit->hub, &w.slot, &found);
    return slots_has(&found, slot_of(STR("ann")));
}

static bool is_movable(void)
{
    struct slots found;
    hub_find_movable(&w.kit->hub, &w.slot, true, &found);
    return slots_has(&found, slot_of(STR("ann")));
}

static void holds_nothing(struct map_node *node, void *arg)
{
    (void)arg;
    assert_false(is_ann(stream_owner(container_of(node, struct stream, node))));
}

static void on_released(struct waiter *waiter, int status)
{
    (void)waiter;
    assert_int_equal(status, 0);
    w.stage = RELEASED;
    w.releases++;
}

static void leave(void)
{
    struct hub *h = &w.kit->hub;
    w.left_in = h->journal.building;
    w.n_before = w.left_in ? w.left_in->n_ops : 0;
    w.stage = LEFT;
    hub_leave(h, &w.slot);
    map_each(&h->streams, holds_nothing, NULL);
    assert_int_equal(h->use[slot_of(STR("ann"))].tasks, 0);
    w.waiter.done = on_released;
    journal_wait(&h->journal, &w.waiter);
    w.waited += w.stage == LEFT;
}

static void on_come(void *arg, int status)
{
    (void)arg;
    assert_int_equal(status, 0);
    w.stage = SERVED;
}

static void move_on(void)
{
    struct hub *h = &w.kit->hub;
    switch (w.stage) {
    case SERVED:
        if (!is_movable())
            return;
        hub_close_slots(h, &w.slot);
        go_out();
        w.stage = CLOSED;
        return;
    case CLOSED:
        if (chance(20)) {
            hub_reopen_slots(h, &w.slot);
            w.stage = SERVED;
        } else if (is_among(hub_find_quiet)) {
            w.parted += hub_part(h, &w.slot);
            w.stage = PARTED;
        }
        return;
    case PARTED:
        if (is_among(hub_find_idle))
            leave();
        return;
    case RELEASED:
        w.stage = COMING;
        hub_restore_slots(h, &w.slot, NULL, (struct tenure){w.tenure++, ""}, on_come, NULL);
        return;
    case LEFT:
    case COMING: return;
    }
}

/* Idle as it is, without a word to anybody: sessions that hold nothing may be there. */
static void leave_at_once(void)
{
    if (w.stage == SERVED && is_among(hub_find_idle)) {
        leave();
        go_out();
    }
}

/* --- a life ----------------------------------------------------------------------------------- */

static void step(void)
{
    if (!w.ann && chance(30))
        w.ann = come_in("ann");
    if (w.ann && chance(40))
        ask_something();
    if (chance(10))
        say_form(w.bob, asked[0], "b", "");
    if (chance(60))
        agent_acts();
    if (w.ann && chance(4))
        go_out();
    if (chance(8))
        move_on();
    if (chance(3))
        leave_at_once();
    if (chance(30)) {
        w.kit->hub.clock.now_ms += pick(3000);
        w.kit->hub.clock.wall_ms += pick(3000);
    }
    if (chance(70))
        kit_turn(w.kit);
    if (chance(2))
        store_inline_fail_commits(w.kit->inline_store, 1 + pick(3), STORE_IO);
    for (unsigned i = pick(3); i > 0 && kit_step(w.kit); i--)
        ;
}

/* All that she was told of is there, and ends. */
static void reckon(void)
{
    struct kit *k = w.kit;
    for (unsigned i = 0; i < 200 && (i < 5 || w.stage != SERVED); i++) {
        kit_pass(k, 1000);
        if (w.stage == CLOSED)
            hub_reopen_slots(&k->hub, &w.slot), w.stage = SERVED;
        else if (w.stage != SERVED)
            move_on();
    }
    assert_int_equal(w.stage, SERVED);
    go_out();
    struct client *c = client_new(k, "ann");
    client_say(c, json("{'type':'cancel_all'}"));
    for (unsigned i = 0; i < 20; i++)
        kit_pass(k, 1000);
    for (size_t i = 0; i < w.n_tasks; i++) {
        if (strcmp(w.tasks[i].conversation, "c2") == 0)
            continue; /* she may have deleted it */
        client_ask(c, "resume", w.tasks[i].conversation, w.tasks[i].id, json(",'after':0"));
        assert_non_null(strstr(client_await(c, json("'type':'resumed'")), w.tasks[i].id));
        client_await(c, json("'event':'task."));
    }
    client_free(c);
}

static void live(uint64_t seed)
{
    static struct agent_ops ops;
    struct kit *k = kit_new();
    ops = again_ops;
    ops.leave = leave_run;
    again_use(k, &ops);
    memset(&w, 0, offsetof(typeof(w), releases));
    w.random = seed;
    w.kit = k;
    w.tenure = 10;
    slots_add(&w.slot, slot_of(STR("ann")));
    k->hub.o.shared = true;
    k->hub.o.limits.requests_per_second = k->hub.o.limits.burst = 1000000;
    w.inner = k->hub.port;
    w.port = (struct store_port){.commit = witness, .query = pass_query};
    k->hub.port = k->hub.journal.port = &w.port;
    for (size_t i = 0; i < countof(k->agents); i++)
        k->agents[i].is_process = false;
    w.bob = client_new(k, "bob");
    for (unsigned i = 0; i < STEPS && k->n_runs < KIT_RUNS - 64; i++)
        step();
    reckon();
    client_free(w.bob);
    kit_free_all(k);
}

static void test_nothing_is_staged_behind_a_release(void **state)
{
    const char *lives = getenv("HOLDFAST_MODEL_LIVES");
    unsigned n = lives ? (unsigned)strtoul(lives, NULL, 10) : t_often(60, 20);
    uint64_t seed = t_seed();
    size_t tasks = 0;
    (void)state;
    memset(&w, 0, sizeof w);
    for (unsigned i = 0; i < n; i++) {
        print_message("life %u\n", i);
        live(seed + i);
        tasks += w.n_tasks;
    }
    unsigned kinds = 0;
    for (size_t i = 0; i < countof(w.kinds); i++)
        kinds += w.kinds[i] > 0;
    print_message("%u releases, %u of which waited for a commit; %u tasks were left; %zu tasks, %u "
                  "operations of %u kinds\n",
                  w.releases, w.waited, w.parted, tasks, w.ops, kinds);
    assert_true(w.releases > n && w.waited > n / 4 && w.parted > n && tasks > 10 * n);
    assert_true(kinds >= 16);
    for (size_t i = 0; i < countof(wanted); i++)
        assert_true(w.told[i] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_staged_behind_a_release),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
