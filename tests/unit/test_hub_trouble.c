/* The domain when things go wrong: stores that fail, readers that do not read, clients
 * that ask too much. */
#include "tests/support/hub_kit.h"

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

/* F37: a store that fails is told to nobody, and agents and writers are held. */
static void test_hub_store_failure_is_survived_and_nothing_of_it_sent(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "hi");
    struct run *r = kit_run(k, 0);
    client_await(c, "task.started");
    store_inline_fail_commits(k->inline_store, 3, STORE_FULL);
    run_say(k, r, json("{'event':'token','data':{'text':'x'}}"));
    client_expect_nothing(c);
    assert_false(
        r->events->on_line(r->task, str_of(json("{'event':'token','data':{'text':'y'}}"))));
    client_say(c, json("{'type':'chat','conversation_id':'c','message':'no'}"));
    client_expect(c, json("'code':'overloaded'"));
    client_ask(c, "cancel", "c", task, "");
    client_expect(c, json("'code':'overloaded'"));
    assert_int_equal(r->cancels, 0);
    for (int i = 0; i < 5; i++)
        kit_pass(k, 1000);
    client_expect(c, json("'seq':3,"));
    client_expect(c, json("'seq':4,"));
    assert_true(r->wants_more);
    run_end(k, r, RUN_DONE, "");
    client_await(c, "task.completed");
    client_free(c);
}

/* After retry_ms the task ends as failed (internal), with what is on disk, and life goes on. */
static void test_hub_store_failure_that_lasts_ends_the_tasks_and_the_gateway_goes_on(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "hi");
    struct run *r = kit_run(k, 0);
    run_say(k, r, json("{'event':'token','data':{'text':'kept'}}"));
    client_await(c, json("'seq':3,"));
    store_inline_fail_commits(k->inline_store, 60, STORE_IO);
    run_say(k, r, json("{'event':'token','data':{'text':'lost'}}"));
    for (int i = 0; i < 100; i++)
        kit_pass(k, 1000);
    assert_true(r->freed);
    const char *end = client_await(c, "task.failed");
    assert_non_null(strstr(end, json("'seq':4,")));
    assert_non_null(strstr(end, json("'code':'internal'")));
    client_ask(c, "resume", "c", task, "");
    client_await(c, json("'caught_up'"));
    client_start(c, "c", "again");
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    client_await(c, "task.completed");
    client_free(c);
}

/* Promise 7: a reader that takes nothing holds a cursor, and nobody else waits for it. */
static void test_hub_frozen_reader_keeps_a_cursor_not_a_queue(void **state)
{
    struct kit *k = *state;
    struct client *slow = client_new(k, "ann"), *fast = client_new(k, "ann");
    const char *task = client_start(fast, "c", "hi");
    client_ask(slow, "resume", "c", task, "");
    client_await(slow, json("'resumed'"));
    slow->frozen = true;
    struct run *r = kit_run(k, 0);
    char line[400];
    snprintf(line, sizeof line, json("{'event':'token','data':{'text':'%0300d'}}"), 7);
    for (int i = 0; i < 5000; i++)
        run_say(k, r, line);
    client_await(fast, json("'seq':5002,"));
    assert_true(k->hub.cache.bytes <= STREAM_CACHE_BYTES + BLOCK_BYTES);
    slow->frozen = false;
    session_wake(&slow->session);
    kit_settle(k);
    uint64_t seq = 2;
    for (const char *got = client_line(slow); *got; got = client_line(slow)) {
        if (strstr(got, json("'type':'event'")))
            seq++;
    }
    assert_true(seq >= 5002);
    run_end(k, r, RUN_DONE, "");
    client_free(slow);
    client_free(fast);
}

static void test_hub_time_outs_end_a_task_and_say_so(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "hi");
    kit_pass(k, 299000);
    run_say(k, kit_run(k, 0), json("{'event':'token','data':{'text':'x'}}"));
    kit_pass(k, 299000);
    assert_int_equal(kit_run(k, 0)->cancels, 0);
    kit_pass(k, 2000);
    assert_int_equal(kit_run(k, 0)->cancels, 1);
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    client_await(c, json("'code':'timeout'"));
    client_free(c);
}

static void test_hub_rate_limit_then_flood_closes(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    for (int i = 0; i < 200; i++)
        session_receive(&c->session, str_of(json("{'type':'conversations'}")));
    kit_settle(k);
    client_say(c, json("{'type':'conversations','id':'x'}"));
    client_await(c, json("{'type':'error','id':'x','code':'rate_limited'"));
    for (int i = 0; i < 300; i++)
        client_say(c, json("{'type':'conversations'}"));
    assert_int_equal(c->session.state, SESSION_CLOSING);
    assert_int_equal(c->session.close_code, CLOSE_FLOOD);
    client_free(c);
}

/* A compressed message of blanks is 50 bytes on the wire and 64 KiB of work: it costs as a line. */
static void test_hub_messages_that_say_nothing_cost_as_lines_do(void **state)
{
    struct kit *k = *state;
    static const struct str empty[] = {STR(""), STR("\n"), STR(" \t\r\n \n")};
    for (int welcome = 0; welcome < 2; welcome++) {
        struct client *c = xcalloc(sizeof *c);
        c->kit = k;
        session_init(&c->session, &k->hub, &client_ops, c);
        client_say(c, welcome ? json("{'type':'hello','token':'ann'}") : "");
        int n = 0;
        for (; c->session.state != SESSION_CLOSING && n < 1000; n++, kit_settle(k))
            session_receive(&c->session, empty[n % 3]);
        assert_true(n >= 399 && n <= 401); /* the burst, and as many refusals */
        assert_int_equal(c->session.close_code, CLOSE_FLOOD);
        client_free(c);
    }
}

/* A connection with 64 replies waiting is not read, and goes on when they have been taken. */
static void test_hub_unread_replies_hold_the_connection(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_await(c, "welcome");
    c->frozen = true;
    struct buf many = {0};
    for (int i = 0; i < 150; i++)
        buf_puts(&many, json("{'type':'ping'}\n"));
    session_receive(&c->session, buf_str(&many));
    kit_settle(k);
    assert_true(c->held);
    assert_true(session_n_waiting(&c->session) <= MAX_REPLIES_WAITING);
    c->frozen = false;
    session_wake(&c->session);
    kit_settle(k);
    int pongs = 0;
    while (*client_line(c))
        pongs++;
    assert_int_equal(pongs, 150);
    assert_false(c->held);
    buf_done(&many);
    client_free(c);
}

static void test_hub_first_line_must_be_hello(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_await(c, "welcome");
    struct client raw = {.kit = k};
    session_init(&raw.session, &k->hub, &client_ops, &raw);
    client_say(&raw, json("{'type':'tasks','id':'1','conversation_id':'c'}"));
    client_await(&raw, json("{'type':'error','id':'1','code':'unauthorized'"));
    assert_int_equal(raw.session.close_code, CLOSE_UNAUTHORIZED);
    session_done(&raw.session);
    session_init(&raw.session, &k->hub, &client_ops, &raw);
    kit_pass(k, 10001);
    assert_int_equal(raw.session.close_code, CLOSE_UNAUTHORIZED);
    session_done(&raw.session);
    client_say(c, json("{'type':'hello','token':'bob'}"));
    client_await(c, "unauthorized");
    assert_int_equal(c->session.close_code, CLOSE_UNAUTHORIZED);
    buf_done(&raw.got);
    client_free(c);
}

static void test_hub_tenth_malformed_line_is_answered_and_closes(void **state)
{
    struct kit *k = *state;
    for (int waits = 0; waits < 2; waits++) {
        struct client *c = client_new(k, "ann");
        client_await(c, "welcome");
        if (waits) /* a request before them has no answer yet */
            session_receive(&c->session, str_of(json("{'type':'conversations'}")));
        for (int i = 0; i < 10; i++)
            session_receive(&c->session, STR("rubbish"));
        kit_settle(k);
        assert_int_equal(c->session.close_code, CLOSE_POLICY);
        client_await(c, "bad_request");
        client_free(c);
    }
}

/* All output of an agent counts: events of its own and those that its calls make. */
static void test_hub_calls_count_towards_the_limit_of_events(void **state)
{
    struct kit *k = *state;
    k->hub.o.limits.task_events = 20;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "hi");
    struct run *r = kit_run(k, 0);
    for (int i = 0; i < 40; i++)
        run_say(k, r, json("{'call':'spawn','call_id':'c','input':'x','agent':'second'}"));
    assert_int_equal(r->cancels, 1);
    run_end(k, r, RUN_DONE, "");
    assert_non_null(strstr(client_await(c, "task.failed"), json("'seq':21,")));
    for (size_t i = 1; i < k->n_runs; i++)
        run_end(k, kit_run(k, i), RUN_DONE, "");
    client_free(c);
}

/* After an abandoned batch, the store is asked again until it accepts writes. */
static void test_hub_given_up_chat_leaves_a_gateway_that_takes_the_next(void **state)
{
    struct kit *k = *state;
    k->hub.journal.retry_ms = 1000;
    struct client *c = client_new(k, "ann");
    store_inline_fail_commits(k->inline_store, 30, STORE_BUSY);
    client_say(c, json("{'type':'chat','id':'1','conversation_id':'c','message':'hi'}"));
    for (int i = 0; i < 40; i++)
        kit_pass(k, 1000);
    client_await(c, json("{'type':'error','id':'1','code':'overloaded'"));
    assert_true(hub_can_write(&k->hub));
    client_start(c, "c", "again");
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    client_free(c);
}

/* The task that a delete waits for was never committed: it is gone, and the delete goes on. */
static void test_hub_delete_of_a_conversation_whose_task_never_was_ends(void **state)
{
    struct kit *k = *state;
    k->hub.journal.retry_ms = 1000;
    struct client *a = client_new(k, "ann"), *b = client_new(k, "ann");
    session_receive(&a->session,
                    str_of(json("{'type':'chat','id':'1','conversation_id':'c','message':'hi'}")));
    session_receive(&b->session, str_of(json("{'type':'delete','id':'2','conversation_id':'c'}")));
    store_inline_fail_commits(k->inline_store, 30, STORE_BUSY);
    for (int i = 0; i < 60; i++)
        kit_pass(k, 1000);
    client_await(a, json("{'type':'error','id':'1'"));
    client_await(b, json("'id':'2'"));
    client_say(b, json("{'type':'delete','id':'3','conversation_id':'c'}"));
    client_await(b, json("{'type':'ok','id':'3'}"));
    client_free(a);
    client_free(b);
}

/* A stop that comes while tasks are being created, at each of the steps: they are not started, and
 * the next process starts them. */
static void test_hub_abandoned_while_it_is_created_starts_later(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    session_receive(&c->session,
                    str_of(json("{'type':'chat','id':'1','conversation_id':'c','message':'hi'}")));
    hub_submit(&k->hub, false); /* one in flight … */
    struct client *d = xcalloc(sizeof *d);
    d->kit = k;
    snprintf(d->owner, sizeof d->owner, "ann");
    session_init(&d->session, &k->hub, &client_ops, d);
    session_receive(&d->session, str_of(json("{'type':'hello'}")));
    session_receive(&d->session,
                    str_of(json("{'type':'chat','id':'2','conversation_id':'c','message':'ho'}")));
    hub_drain(&k->hub); /* … and one staged after it */
    hub_abandon(&k->hub);
    kit_settle(k);
    assert_int_equal(k->n_runs, 0);
    assert_true(hub_is_over(&k->hub));
    struct client *both[] = {c, d};
    for (size_t i = 0; i < countof(both); i++) {
        client_await(both[i], json("'started'"));
        client_expect(both[i], json("'seq':1,"));
        client_expect_nothing(both[i]);
        client_free(both[i]);
    }
    kit_crash(k);
    assert_int_equal(k->n_runs, 2);
}

/* One runs, one waits after it: the stop ends the first, and the next process runs the second. */
static void test_hub_abandoned_ends_what_runs_and_keeps_what_waits(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "runs");
    client_say(c, json("{'type':'chat','id':'2','conversation_id':'c','message':'waits',"
                       "'when_busy':'enqueue'}"));
    client_await(c, json("'status':'pending'"));
    hub_drain(&k->hub);
    kit_settle(k);
    assert_false(hub_is_over(&k->hub));
    hub_abandon(&k->hub);
    assert_false(hub_is_over(&k->hub)); /* its end is not on disk */
    kit_settle(k);
    assert_true(hub_is_over(&k->hub));
    client_await(c, json("'code':'orphaned'"));
    client_free(c);
    assert_int_equal(k->n_runs, 1);
    kit_crash(k);
    assert_int_equal(k->n_runs, 2);
    assert_int_equal(k->hub.n_live, 1);
}

/* Events 1, 2, 3 … without a gap or one twice, the last of them the only end. */
static void assert_orphaned(struct client *c, const char *task)
{
    client_ask(c, "resume", "c", task, json(",'after':0"));
    client_await(c, json("'resumed'"));
    char seq[32];
    for (unsigned n = 1;; n++) {
        const char *line = client_line(c);
        snprintf(seq, sizeof seq, json("'seq':%u,"), n);
        assert_non_null(strstr(line, seq));
        if (!strstr(line, json("'event':'task.failed'")))
            continue;
        assert_non_null(strstr(line, json("'code':'orphaned'")));
        break;
    }
    client_expect(c, json("'caught_up'"));
    client_expect_nothing(c);
}

/* A stop that comes while a start repairs what an earlier process left, at each of the steps. */
static void test_hub_abandoned_while_it_repairs_ends_each_task_once(void **state)
{
    for (int steps = 0, more = 1; more; steps++) {
        struct kit *k = *state;
        struct client *c = client_new(k, "ann");
        k->hub.o.limits.processes = 1;
        const char *ran = client_start(c, "c", "hi"), *waited = client_start(c, "c", "ho");
        for (int i = 0; i < 5; i++)
            run_say(k, kit_run(k, 0), json("{'event':'token','data':{'text':'x'}}"));
        client_free(c);
        kit_close_hub(k);
        kit_open_hub(k);
        int status = 1;
        hub_restore(&k->hub, kit_on_ready, &status);
        for (int i = 0; i < steps && more; i++) {
            kit_turn(k);
            more = kit_step(k);
        }
        hub_drain(&k->hub);
        hub_abandon(&k->hub);
        kit_settle(k);
        assert_int_equal(status, 0);
        assert_true(hub_is_over(&k->hub));
        size_t n_runs = k->n_runs, n_live = k->hub.n_live;
        c = client_new(k, "ann");
        assert_orphaned(c, ran);
        if (n_live == 0) /* the repair was over, and it had been started */
            assert_orphaned(c, waited);
        client_free(c);
        kit_crash(k);
        assert_int_equal(k->n_runs, n_runs + n_live);
        kit_free_all(k);
        *state = kit_new();
    }
}

static void end_it(struct run *r)
{
    r->events->on_end(r->task, RUN_DONE, STR(""));
}

/* The first of two messages makes the agent end, from inside the call: it had that one and no
 * other, and nothing follows the end. */
static void test_hub_agent_that_ends_by_a_message_had_it(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "hi");
    struct run *r = kit_run(k, 0);
    r->full = true;
    client_ask(c, "send", "c", task, json(",'content':'bye'"));
    client_ask(c, "send", "c", task, json(",'content':'wait'"));
    kit_settle(k);
    r->full = false;
    r->on_delivered = end_it;
    kit_pass(k, 100);
    assert_string_equal(r->delivered.bytes,
                        json("{'type':'message','from':'user','content':'bye'}\n"));
    client_await(c, json("'event':'task.completed'"));
    client_expect_nothing(c);
    client_ask(c, "task", "c", task, "");
    client_await(c, json("'undelivered':[{'type':'message','from':'user','content':'wait'}]"));
    client_free(c);
}

static void call_again(struct run *r)
{
    static const char call[] =
        "{\"call\":\"tool\",\"call_id\":\"%u\",\"name\":\"none\",\"arguments\":{}}";
    char line[128];
    if (++r->spoke > 3)
        return;
    snprintf(line, sizeof line, call, r->spoke);
    r->events->on_line(r->task, str_of(line));
}

/* Each answer makes the agent call again, from inside: each call gets one answer, in order. */
static void test_hub_agent_that_calls_by_an_answer_gets_each_once(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "hi");
    struct run *r = kit_run(k, 0);
    r->on_delivered = call_again;
    call_again(r);
    kit_settle(k);
    const char *at = r->delivered.bytes;
    for (const char *id = "123"; *id; id++) {
        const char expected[] = {'"', 'c', 'a', 'l', 'l', '_', 'i',
                                 'd', '"', ':', '"', *id, '"', 0};
        at = strstr(at, expected);
        assert_non_null(at);
        at++;
        assert_null(strstr(at, expected));
    }
    run_end(k, r, RUN_DONE, "");
    client_free(c);
}

/* Large results: every one is shown on some page, and each can be acknowledged. */
static void test_hub_large_results_are_all_shown_and_acknowledged(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    struct buf line = {0};
    char ids[8][32];
    buf_puts(&line, json("{'event':'final_answer','data':{'output':'"));
    for (int i = 0; i < 100000; i++)
        buf_putc(&line, 'x');
    buf_puts(&line, json("'}}"));
    for (size_t i = 0; i < countof(ids); i++) {
        client_say(c,
                   json("{'type':'chat','conversation_id':'c','message':'hi','background':true}"));
        snprintf(ids[i], sizeof ids[i], "%s",
                 line_field(client_await(c, json("'started'")), "task_id"));
        run_say(k, kit_run(k, i), line.bytes);
        run_end(k, kit_run(k, i), RUN_DONE, "");
    }
    size_t shown = 0;
    char ask[1024] = "{\"type\":\"results\",\"conversation_id\":\"c\"}";
    for (bool more = true; more;) {
        client_say(c, ask);
        const char *page = client_await(c, json("{'type':'results'"));
        for (size_t i = 0; i < countof(ids); i++)
            shown += strstr(page, ids[i]) != NULL;
        more = strstr(page, json("'more':true")) != NULL;
        snprintf(ask, sizeof ask, json("{'type':'results','conversation_id':'c','before':'%s'}"),
                 line_field(page, "task_id"));
    }
    assert_int_equal(shown, countof(ids));
    for (size_t i = 0; i < countof(ids); i++) {
        snprintf(ask, sizeof ask,
                 json("{'type':'ack','conversation_id':'c','task_ids':['%s','%s']}"), ids[i],
                 ids[i]);
        client_say(c, ask);
        client_await(c, json("'acked':1}"));
    }
    buf_done(&line);
    client_free(c);
}

/* More tails than one batch seals: none of them can be read any more, and a reader is told so. */
/* Promise 2: an earlier state is committed while the end waits for the next batch. */
static void test_hub_end_that_is_staged_does_not_show_in_an_earlier_state(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "hi");
    struct run *r = kit_run(k, 0);
    char line[160];
    snprintf(line, sizeof line,
             json("{'type':'task','id':'q','conversation_id':'c','task_id':'%s'}"), task);
    r->events->on_line(r->task, str_of(json("{'event':'progress','data':{'progress':0.5}}")));
    kit_turn(k);
    r->events->on_line(r->task, str_of(json("{'event':'token','data':{'text':'early'}}")));
    r->events->on_line(r->task, str_of(json("{'event':'result','data':{'early':true}}")));
    r->events->on_end(r->task, RUN_FAILED, STR("early"));
    assert_true(store_inline_step_commit(k->inline_store));
    session_receive(&c->session, str_of(line));
    kit_turn(k);
    const char *told = client_await(c, json("'id':'q'"));
    assert_non_null(strstr(told, json("'status':'running','progress':0.5,")));
    assert_null(strstr(told, "early"));
    assert_null(strstr(told, "completed_at"));
    kit_settle(k);
    client_say(c, line);
    told = client_await(c, json("'id':'q'"));
    assert_non_null(strstr(told, json("'status':'failed','progress':0.5,")));
    assert_non_null(strstr(told, json("'output':'early','result':{'early':true}")));
    assert_non_null(strstr(told, json("'completed_at':")));
    client_free(c);
}

static void test_hub_deleted_tasks_are_gone_at_once_for_everyone(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann"), *slow = client_new(k, "ann");
    char ids[20][32];
    for (size_t i = 0; i < countof(ids); i++)
        snprintf(ids[i], sizeof ids[i], "%s", client_start(c, "c", "hi"));
    for (size_t i = 0; i < countof(ids); i++)
        k->runs[i]->events->on_end(k->runs[i]->task, RUN_DONE, STR(""));
    session_receive(&c->session, str_of(json("{'type':'delete','id':'d','conversation_id':'c'}")));
    slow->frozen = true;
    kit_settle(k);
    client_await(c, json("{'type':'ok','id':'d'}"));
    for (size_t i = 0; i < countof(ids); i++) {
        client_ask(c, "resume", "c", ids[i], "");
        client_await(c, json("'code':'not_found'"));
    }
    slow->frozen = false;
    client_free(c);
    client_free(slow);
}

static void test_hub_reader_of_a_deleted_task_is_told(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann"), *slow = client_new(k, "ann");
    const char *task = client_start(c, "c", "hi");
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    client_await(slow, "welcome");
    slow->frozen = true;
    client_ask(slow, "resume", "c", task, "");
    client_say(c, json("{'type':'delete','id':'d','conversation_id':'c'}"));
    client_await(c, json("{'type':'ok','id':'d'}"));
    slow->frozen = false;
    session_wake(&slow->session);
    kit_settle(k);
    client_expect(slow, json("'resumed'"));
    client_expect(slow, json("'code':'not_found'"));
    client_expect_nothing(slow);
    client_free(c);
    client_free(slow);
}

#define HUB_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HUB_TEST(test_hub_store_failure_is_survived_and_nothing_of_it_sent),
        HUB_TEST(test_hub_store_failure_that_lasts_ends_the_tasks_and_the_gateway_goes_on),
        HUB_TEST(test_hub_frozen_reader_keeps_a_cursor_not_a_queue),
        HUB_TEST(test_hub_time_outs_end_a_task_and_say_so),
        HUB_TEST(test_hub_rate_limit_then_flood_closes),
        HUB_TEST(test_hub_messages_that_say_nothing_cost_as_lines_do),
        HUB_TEST(test_hub_unread_replies_hold_the_connection),
        HUB_TEST(test_hub_first_line_must_be_hello),
        HUB_TEST(test_hub_given_up_chat_leaves_a_gateway_that_takes_the_next),
        HUB_TEST(test_hub_delete_of_a_conversation_whose_task_never_was_ends),
        HUB_TEST(test_hub_abandoned_while_it_is_created_starts_later),
        HUB_TEST(test_hub_abandoned_ends_what_runs_and_keeps_what_waits),
        HUB_TEST(test_hub_abandoned_while_it_repairs_ends_each_task_once),
        HUB_TEST(test_hub_agent_that_ends_by_a_message_had_it),
        HUB_TEST(test_hub_agent_that_calls_by_an_answer_gets_each_once),
        HUB_TEST(test_hub_large_results_are_all_shown_and_acknowledged),
        HUB_TEST(test_hub_end_that_is_staged_does_not_show_in_an_earlier_state),
        HUB_TEST(test_hub_deleted_tasks_are_gone_at_once_for_everyone),
        HUB_TEST(test_hub_reader_of_a_deleted_task_is_told),
        HUB_TEST(test_hub_calls_count_towards_the_limit_of_events),
        HUB_TEST(test_hub_tenth_malformed_line_is_answered_and_closes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
