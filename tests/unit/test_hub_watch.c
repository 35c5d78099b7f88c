/* The events of all of an owner's tasks over one subscription: each task once and dense, whatever
 * happens to the connection, the gateway or the store.  T_SEED repeats a run. */
#define KIT_RUNS 8192
#include "proto/watch_cursor.h"
#include "tests/support/hub_kit.h"

#define TASKS 600
#define MOST_SEQS 200

/* A client of the protocol's page: it keeps the last cursor and, for each task, the last number,
 * and drops what it has.  It is the oracle, too: numbers without a gap, lines that never change. */
struct reader {
    struct client *client; /* NULL: it is away */
    char cursor[MAX_WATCH_CURSOR + 1];
    struct told {
        char id[TASK_ID_LEN + 1];
        uint64_t last; /* … that it ever had */
        uint64_t now;  /* … on this connection; UINT64_MAX: the task was not told of on it */
        uint64_t had;  /* … when this connection told of it */
        bool ended;
        char *lines[MOST_SEQS];
    } tasks[TASKS];
    size_t n_tasks;
    unsigned n_again, n_cursors; /* events that it had before; cursors */
};

static struct told *told_of(struct reader *r, const char *id)
{
    for (size_t i = 0; i < r->n_tasks; i++)
        if (strcmp(r->tasks[i].id, id) == 0)
            return &r->tasks[i];
    assert_true(r->n_tasks < TASKS);
    struct told *t = &r->tasks[r->n_tasks++];
    snprintf(t->id, sizeof t->id, "%s", id);
    t->now = UINT64_MAX;
    return t;
}

static uint64_t number_of(const char *line, const char *key)
{
    char name[32];
    snprintf(name, sizeof name, json("'%s':"), key);
    const char *at = strstr(line, name);
    assert_non_null(at);
    return strtoull(at + strlen(name), NULL, 10);
}

static void read_event(struct reader *r, const char *line)
{
    struct told *t = told_of(r, line_field(line, "task_id"));
    bool merged = strstr(line, json("'from':")) != NULL;
    uint64_t seq = number_of(line, "seq"), from = merged ? number_of(line, "from") : seq;
    assert_int_equal(from, t->now + 1); /* dense, behind what following said */
    t->now = seq;
    assert_true(seq < MOST_SEQS && from <= t->last + 1);
    if (merged) {
        assert_true(from > t->had); /* never half of what it has */
        t->last = seq > t->last ? seq : t->last;
    } else if (t->lines[seq]) {
        assert_string_equal(t->lines[seq], line);
        r->n_again++;
    } else {
        t->lines[seq] = xstrdup(str_of(line));
        t->last = seq > t->last ? seq : t->last;
    }
    if (strstr(line, json("'event':'task.completed'")) ||
        strstr(line, json("'event':'task.failed'")))
        t->ended = true;
}

static void read_line(struct reader *r, const char *line)
{
    if (strstr(line, json("{'type':'following'")) == line) {
        struct told *t = told_of(r, line_field(line, "task_id"));
        assert_int_equal(t->now, UINT64_MAX); /* once on a connection */
        t->now = number_of(line, "after");
        t->had = t->last;
        assert_true(t->now <= t->last);
    } else if (strstr(line, json("{'type':'event'")) == line) {
        read_event(r, line);
    } else if (strstr(line, json("{'type':'cursor'")) == line) {
        const char *at = strstr(line + 16, json("'cursor':'")) + 10;
        size_t n = strcspn(at, json("'"));
        assert_true(n <= MAX_WATCH_CURSOR);
        snprintf(r->cursor, sizeof r->cursor, "%.*s", (int)n, at);
        r->n_cursors++;
    }
}

static void read_all(struct reader *r)
{
    for (const char *line = ""; r->client && *(line = client_line(r->client));)
        read_line(r, line);
}

static void begin(struct reader *r, struct kit *k, const char *owner, const char *more)
{
    char *line = xalloc(MAX_WATCH_CURSOR + 256);
    r->client = client_new(k, owner);
    for (size_t i = 0; i < r->n_tasks; i++)
        r->tasks[i].now = UINT64_MAX;
    if (r->cursor[0])
        snprintf(line, MAX_WATCH_CURSOR + 256,
                 json("{'type':'watch','id':'w','events':true,'cursor':'%s'%s}"), r->cursor, more);
    else
        snprintf(line, MAX_WATCH_CURSOR + 256, json("{'type':'watch','id':'w','events':true%s}"),
                 more);
    session_receive(&r->client->session, str_of(line));
    free(line);
}

static void leave(struct reader *r)
{
    read_all(r);
    if (r->client)
        client_free(r->client);
    r->client = NULL;
}

static void free_reader(struct reader *r)
{
    leave(r);
    for (size_t i = 0; i < r->n_tasks; i++)
        for (size_t s = 0; s < MOST_SEQS; s++)
            free(r->tasks[i].lines[s]);
    free(r);
}

static int setup(void **state)
{
    *state = kit_new();
    return 0;
}

static int teardown(void **state)
{
    kit_free_all(*state);
    return 0;
}

static void test_watch_tells_live_tasks_from_their_start_and_new_ones(void **state)
{
    struct kit *k = *state;
    struct client *a = client_new(k, "ann"), *other = client_new(k, "bob");
    struct reader *r = xcalloc(sizeof *r);
    client_start(a, "c", "done");
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    client_start(a, "c", "old");
    begin(r, k, "ann", "");
    kit_settle(k);
    read_all(r);
    assert_int_equal(r->n_cursors, 1);
    client_start(a, "d", "new");
    client_start(other, "c", "no");
    run_say(k, kit_run(k, 2), json("{'event':'token','data':{'text':'x'}}"));
    run_end(k, kit_run(k, 2), RUN_DONE, "");
    kit_pass(k, 1000);
    read_all(r);
    assert_int_equal(r->n_tasks, 2); /* neither what had ended before, nor another owner's */
    assert_int_equal(r->tasks[0].last, 2);
    assert_false(r->tasks[0].ended);
    assert_true(r->tasks[1].ended);
    assert_true(r->n_cursors >= 1);
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    run_end(k, kit_run(k, 3), RUN_DONE, "");
    free_reader(r);
    client_free(a);
    client_free(other);
}

/* Tasks that came and ended while it was away are told, and nothing twice. */
static void test_watch_goes_on_behind_its_cursor(void **state)
{
    struct kit *k = *state;
    struct client *a = client_new(k, "ann");
    struct reader *r = xcalloc(sizeof *r);
    begin(r, k, "ann", "");
    client_start(a, "c", "first");
    run_say(k, kit_run(k, 0), json("{'event':'token','data':{'text':'x'}}"));
    kit_pass(k, 1000);
    leave(r);
    run_say(k, kit_run(k, 0), json("{'event':'token','data':{'text':'y'}}"));
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    for (size_t i = 1; i <= 60; i++) { /* several pages of the walk */
        char conversation[16];
        snprintf(conversation, sizeof conversation, "c%zu", i);
        client_start(a, conversation, "while it was away");
        run_end(k, kit_run(k, i), RUN_DONE, "");
    }
    begin(r, k, "ann", "");
    kit_settle(k);
    kit_pass(k, 1000);
    read_all(r);
    assert_int_equal(r->n_tasks, 61);
    for (size_t i = 0; i < r->n_tasks; i++)
        assert_true(r->tasks[i].ended);
    assert_int_equal(r->n_again, 0);
    leave(r); /* its last cursor has nothing more to tell */
    begin(r, k, "ann", "");
    kit_pass(k, 1000);
    read_all(r);
    assert_int_equal(r->n_tasks, 61);
    assert_int_equal(r->n_again, 0);
    free_reader(r);
    client_free(a);
}

static void test_watch_takes_no_cursor_that_is_none(void **state)
{
    struct kit *k = *state;
    struct client *a = client_new(k, "ann");
    client_say(a, json("{'type':'watch','id':'1','events':true,'cursor':'nonsense'}"));
    client_await(a, json("{'type':'error','id':'1','code':'bad_request','message':'\\'cursor\\'"));
    client_say(a, json("{'type':'watch','id':'2','cursor':'x'}"));
    client_await(a, json("{'type':'error','id':'2','code':'bad_request'"));
    client_free(a);
}

/* A task that the connection follows already is told once. */
static void test_watch_tells_once_what_a_chat_on_the_same_connection_tells(void **state)
{
    struct kit *k = *state;
    struct reader *r = xcalloc(sizeof *r);
    begin(r, k, "ann", "");
    kit_settle(k);
    client_start(r->client, "c", "own");
    r->client->seen = 0; /* what came between is looked at too */
    read_all(r);
    assert_int_equal(r->tasks[0].last, 2);
    run_say(k, kit_run(k, 0), json("{'event':'token','data':{'text':'x'}}"));
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    unsigned n = 0;
    for (const char *line = client_line(r->client); *line; line = client_line(r->client))
        n += strstr(line, json("'event':'token'")) != NULL;
    assert_int_equal(n, 1);
    free_reader(r);
}

/* Else a connection that is cut before anything happens would not know where it was. */
static void test_watch_of_nothing_has_a_cursor_at_once(void **state)
{
    struct kit *k = *state;
    struct reader *r = xcalloc(sizeof *r);
    begin(r, k, "ann", "");
    kit_settle(k);
    read_all(r);
    assert_int_equal(r->n_cursors, 1);
    free_reader(r);
}

/* events: false ends it; a plain watch changes nothing. */
static void test_watch_ends_when_it_is_told_to(void **state)
{
    struct kit *k = *state;
    struct client *a = client_new(k, "ann"), *b = client_new(k, "ann");
    client_say(b, json("{'type':'watch','id':'1','events':true}"));
    client_start(a, "c", "one");
    client_say(b, json("{'type':'watch','id':'2'}"));
    client_start(a, "c", "two");
    client_say(b, json("{'type':'watch','id':'3','events':false}"));
    client_start(a, "c", "three");
    run_say(k, kit_run(k, 1), json("{'event':'token','data':{'text':'it goes on'}}"));
    kit_pass(k, 1000);
    unsigned n = 0, said = 0;
    for (const char *line = client_line(b); *line; line = client_line(b)) {
        n += strstr(line, json("{'type':'following'")) == line;
        said += strstr(line, "it goes on") != NULL;
    }
    assert_int_equal(n, 2);
    assert_int_equal(said, 1);
    for (size_t i = 0; i < 3; i++)
        run_end(k, kit_run(k, i), RUN_DONE, "");
    client_free(a);
    client_free(b);
}

/* A store that cannot be read delays, and loses nothing. */
static void test_watch_waits_for_a_store_that_cannot_be_read(void **state)
{
    struct kit *k = *state;
    struct client *a = client_new(k, "ann");
    struct reader *r = xcalloc(sizeof *r);
    begin(r, k, "ann", "");
    kit_settle(k);
    store_inline_fail_queries(k->inline_store, 1, STORE_IO);
    client_start(a, "c", "x");
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    read_all(r);
    assert_int_equal(r->n_tasks, 0);
    kit_pass(k, 1000);
    read_all(r);
    assert_int_equal(r->n_tasks, 1);
    assert_true(r->tasks[0].ended);
    free_reader(r);
    client_free(a);
}

static void step_to(struct kit *k, enum query_kind kind)
{
    for (int i = 0; i < 50; i++, (void)kit_step(k)) {
        kit_turn(k);
        if (!store_inline_hold(k->inline_store, false)) /* there is no query */
            continue;
        store_inline_release(k->inline_store);
        if (store_inline_next(k->inline_store) == kind)
            return;
    }
    fail_msg("no query of kind %d came", (int)kind);
}

/* The walk's answer is about the rows that it asked for, whatever came to wait meanwhile. */
static void test_watch_keeps_rows_and_places_apart(void **state)
{
    struct kit *k = *state;
    struct client *a = client_new(k, "ann");
    struct reader *r = xcalloc(sizeof *r);
    begin(r, k, "ann", "");
    client_start(a, "x", "it cannot be read later");
    client_start(a, "z", "z");
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    kit_pass(k, 1000);
    leave(r);
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    client_free(a);
    kit_crash(k);
    a = client_new(k, "ann");
    client_start(a, "d", "so that its conversation is known");
    begin(r, k, "ann", "");
    step_to(k, QUERY_BLOCKS);
    store_inline_fail_queries(k->inline_store, 100000, STORE_IO);
    for (msec_t waited = 0; waited < 29000; waited += 1000)
        kit_pass(k, 1000);
    store_inline_fail_queries(k->inline_store, 0, STORE_OK);
    session_receive(&a->session,
                    STR("{\"type\":\"chat\",\"conversation_id\":\"d\",\"message\":\"y\"}"));
    step_to(k, QUERY_OWNED);
    assert_true(store_inline_hold(k->inline_store, false));
    store_inline_fail_queries(k->inline_store, 100000, STORE_IO);
    for (int i = 0; i < 3; i++)
        kit_pass(k, 1000);
    store_inline_fail_queries(k->inline_store, 0, STORE_OK);
    store_inline_release(k->inline_store);
    read_all(r);
    for (int i = 0; i < 3; i++)
        kit_pass(k, 1000);
    read_all(r);
    assert_int_equal(r->n_tasks, 4);
    assert_true(r->tasks[0].ended);
    free_reader(r);
    client_free(a);
}

/* Promise 7: a client that begins anew again and again does not fill the store's queue. */
static void test_watch_asks_one_question_at_a_time(void **state)
{
    struct kit *k = *state;
    struct client *a = client_new(k, "ann");
    unsigned n = 0;
    for (int i = 0; i < 20; i++) {
        session_receive(&a->session, STR("{\"type\":\"watch\",\"events\":true}"));
        session_receive(&a->session, STR("{\"type\":\"watch\",\"events\":false}"));
        kit_turn(k);
    }
    session_receive(&a->session, STR("{\"type\":\"watch\",\"events\":true}"));
    kit_turn(k);
    while (store_inline_hold(k->inline_store, false))
        n++;
    assert_int_equal(n, 1);
    store_inline_release(k->inline_store);
    client_start(a, "c", "the last one is served");
    client_await(a, json("{'type':'following'"));
    session_receive(&a->session, STR("{\"type\":\"watch\",\"events\":true}"));
    session_receive(&a->session, STR("{\"type\":\"watch\",\"events\":true}"));
    client_free(a); /* while the answer to an ended one is awaited */
    kit_settle(k);
    run_end(k, kit_run(k, 0), RUN_DONE, "");
}

/* One that waits for room is told also when it ends meanwhile; one that had ended before is not. */
static void test_watch_tells_what_ends_while_it_waits_for_room(void **state)
{
    struct kit *k = *state;
    struct client *a = client_new(k, "ann");
    struct reader *r = xcalloc(sizeof *r);
    for (size_t i = 0; i < 4; i++)
        client_start(a, (const char *[]){"c0", "c1", "c2", "c3"}[i], "x");
    run_end(k, kit_run(k, 2), RUN_DONE, "");
    kit_pass(k, 1000);
    k->hub.o.limits.subscriptions = 2;
    begin(r, k, "ann", "");
    kit_settle(k);
    read_all(r);
    assert_int_equal(r->n_tasks, 2);
    kit_pass(k, 10);
    run_end(k, kit_run(k, 3), RUN_DONE, "");
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    kit_pass(k, 1000);
    read_all(r);
    assert_int_equal(r->n_tasks, 3);
    for (size_t i = 0; i < r->n_tasks; i++)
        assert_true(r->tasks[i].ended);
    free_reader(r);
    client_free(a);
}

/* The clock is set back meanwhile: they seem to have ended before. */
static void test_watch_does_not_trust_the_wall_clock(void **state)
{
    struct kit *k = *state;
    struct client *a = client_new(k, "ann");
    struct reader *r = xcalloc(sizeof *r);
    for (size_t i = 0; i < 3; i++)
        client_start(a, "c", "x");
    k->hub.o.limits.subscriptions = 1; /* the others wait */
    begin(r, k, "ann", "");
    kit_settle(k);
    clock_set(&k->hub.clock, k->hub.clock.now_ms + 10, k->hub.clock.wall_ms - 3600000);
    for (size_t i = 3; i > 0; i--)
        run_end(k, kit_run(k, i - 1), RUN_DONE, "");
    kit_pass(k, 1000);
    read_all(r);
    assert_int_equal(r->n_tasks, 3);
    for (size_t i = 0; i < r->n_tasks; i++)
        assert_true(r->tasks[i].ended);
    free_reader(r);
    client_free(a);
}

/* --- random lives ----------------------------------------------------------------------------- */

static uint64_t rng;

static void speak(struct kit *k)
{
    struct run *r =
        k->n_runs ? k->runs[k->n_runs - 1 - t_below(&rng, k->n_runs < 6 ? k->n_runs : 6)] : NULL;
    if (!r || r->freed || r->paused)
        return;
    if (t_below(&rng, 4))
        r->wants_more =
            r->events->on_line(r->task, str_of(json("{'event':'token','data':{'text':'x'}}")));
    else
        r->events->on_end(r->task, RUN_DONE, str_of(""));
}

static void start_one(struct kit *k, struct client *c, unsigned *n)
{
    char line[128];
    if (*n == TASKS)
        return;
    ++*n;
    snprintf(line, sizeof line,
             json("{'type':'chat','conversation_id':'c%zu','message':'hi','unlisted':%s}"),
             t_below(&rng, 4), t_below(&rng, 2) ? "true" : "false");
    session_receive(&c->session, str_of(line));
    (void)k;
}

static void step_once(struct kit *k, struct client **asker, struct reader *r, unsigned *n)
{
    switch (t_below(&rng, 16)) {
    case 0:
    case 1: start_one(k, *asker, n); break;
    case 2:
    case 3:
    case 4: speak(k); break;
    case 5:
        if (t_below(&rng, 6) == 0)
            leave(r);
        break;
    case 6:
        if (!r->client)
            begin(r, k, "ann", t_below(&rng, 3) ? "" : json(",'rollup_ms':5"));
        break;
    case 7: k->hub.clock.now_ms += (msec_t)t_below(&rng, 1200); break;
    case 8:
        if (r->client)
            r->client->frozen = t_below(&rng, 2) != 0;
        break;
    case 9:
        if (t_below(&rng, 40))
            break;
        leave(r);
        client_free(*asker);
        kit_crash(k);
        *asker = client_new(k, "ann");
        break;
    case 10:
        store_inline_fail_queries(k->inline_store, (unsigned)t_below(&rng, 2), STORE_IO);
        break;
    case 11: kit_turn(k); break;
    default: (void)kit_step(k); break;
    }
    k->hub.clock.wall_ms++;
    if (t_below(&rng, 3) == 0)
        kit_turn(k);
    read_all(r);
}

/* Each task is as a replay from the start says. */
static void check_all(struct kit *k, struct reader *r)
{
    struct query q = {.kind = QUERY_OWNED, .owner = STR("ann"), .key = STR("0")};
    struct answer a = {0};
    void *reader = store_memory_ops.reader_open(k->store);
    assert_int_equal(store_memory_ops.query(reader, &q, &a), STORE_OK);
    assert_int_equal(a.n_tasks, r->n_tasks);
    for (size_t i = 0; i < a.n_tasks; i++) {
        char id[TASK_ID_LEN + 1];
        snprintf(id, sizeof id, "%.26s", a.tasks[i].task_id.p);
        struct told *t = told_of(r, id);
        assert_true(t->ended);
        assert_int_equal(t->last, a.tasks[i].state.head);
    }
    answer_done(&a);
    store_memory_ops.reader_close(reader);
}

static void end_all_runs(struct kit *k)
{
    for (size_t i = 0; i < k->n_runs; i++)
        if (!k->runs[i]->freed)
            k->runs[i]->events->on_end(k->runs[i]->task, RUN_DONE, str_of(""));
    kit_settle(k);
}

static void test_watch_random_lives_tell_each_task_once(void **state)
{
    uint64_t seed = t_seed();
    unsigned again = 0, cursors = 0, tasks = 0;
    (void)state;
    for (uint64_t life = 0; life < 6; life++) {
        struct kit *k = kit_new();
        struct client *asker = client_new(k, "ann");
        struct reader *r = xcalloc(sizeof *r);
        unsigned n = 0;
        rng = seed + life;
        begin(r, k, "ann", "");
        kit_settle(k);
        kit_pass(k, 1000);
        client_start(asker, "c0", "first"); /* so that there is a cursor */
        kit_pass(k, 1000);
        read_all(r);
        assert_true(r->cursor[0]);
        for (int i = 0; i < 3000; i++)
            step_once(k, &asker, r, &n);
        if (r->client)
            r->client->frozen = false;
        store_inline_fail_queries(k->inline_store, 0, STORE_IO);
        if (!r->client)
            begin(r, k, "ann", "");
        kit_settle(k);
        for (int i = 0; i < 40; i++) { /* those that waited for a place start and end as well */
            end_all_runs(k);
            kit_pass(k, 1000);
            read_all(r);
        }
        check_all(k, r);
        again += r->n_again;
        cursors += r->n_cursors;
        tasks += (unsigned)r->n_tasks;
        free_reader(r);
        client_free(asker);
        kit_free_all(k);
    }
    print_message("%u tasks, %u cursors, %u events came again\n", tasks, cursors, again);
    assert_true(tasks > 300 && cursors > 100 && again > 20);
}

/* --- the text --------------------------------------------------------------------------------- */

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_watch_tells_live_tasks_from_their_start_and_new_ones),
        TEST(test_watch_goes_on_behind_its_cursor),
        TEST(test_watch_takes_no_cursor_that_is_none),
        TEST(test_watch_tells_once_what_a_chat_on_the_same_connection_tells),
        TEST(test_watch_of_nothing_has_a_cursor_at_once),
        TEST(test_watch_ends_when_it_is_told_to),
        TEST(test_watch_waits_for_a_store_that_cannot_be_read),
        TEST(test_watch_keeps_rows_and_places_apart),
        TEST(test_watch_asks_one_question_at_a_time),
        TEST(test_watch_tells_what_ends_while_it_waits_for_room),
        TEST(test_watch_does_not_trust_the_wall_clock),
        cmocka_unit_test(test_watch_random_lives_tell_each_task_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
