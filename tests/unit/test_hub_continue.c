/* Tasks that go on over a restart of the gateway (PROTOCOL.md 3 and 4). */
#include "tests/support/hub_again.h"

#include "core/secrets.h"

#define TOKEN(text) json("{'event':'token','data':{'text':'" text "'}}")
#define TOOL_CALL json("{'event':'tool_call','data':{'call_id':'1','name':'t','arguments':{}}}")
#define TOOL_RESULT \
    json("{'event':'tool_result','data':{'call_id':'1','name':'t','output':'o','is_error':false}}")
#define QUESTION(more)                                                                          \
    json("{'event':'input_required','data':{'input_id':'q','kind':'question','prompt':'?'" more \
         "}}")

static int setup(void **state)
{
    struct kit *k = kit_new();
    again_use(k, &again_ops);
    *state = k;
    return 0;
}

static int teardown(void **state)
{
    kit_free_all(*state);
    buf_done(&again.numbered);
    return 0;
}

/* A kill, a start, and a client that follows the task from its beginning. */
static struct client *restart(struct kit *k, struct client *c, const char *task)
{
    client_free(c);
    for (size_t i = 0; i < k->n_runs; i++)
        k->runs[i]->full = false;
    kit_crash(k);
    c = client_new(k, "ann");
    if (task) {
        client_ask(c, "resume", "c", task, "");
        client_await(c, json("'resumed'"));
    }
    return c;
}

static void note(struct kit *k, struct run *r, bool standing, const char *text)
{
    r->events->on_note(r->task, standing, str_of(text));
    kit_settle(k);
}

static void test_a_task_goes_on_and_withdraws_what_it_says_again(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    struct run *r = kit_run(k, 0);
    run_say(k, r, TOKEN("ab\xc3\xa4"));
    note(k, r, false, "first");
    run_say(k, r, TOOL_CALL);
    run_say(k, r, TOOL_RESULT);
    note(k, r, true, "old");
    note(k, r, true, "new");
    run_say(k, r, json("{'event':'thinking','data':{'text':'hm'}}"));
    run_say(k, r, TOKEN("cd"));
    run_say(k, r, TOKEN("e"));
    c = restart(k, c, task);
    assert_non_null(strstr(c->got.bytes, json("'status':'running'")));
    assert_non_null(strstr(c->got.bytes, json("'retracted':[[5,9]]")));
    client_await(c, json("'seq':9,"));
    assert_non_null(
        strstr(c->got.bytes, json("'seq':9,'ts':1764280000000,'event':'task.resumed','data':{"
                                  "'attempt':2,'why':'restart','retracts':5,"
                                  "'keep':{'text':3,'thinking':0}}}")));
    assert_int_equal(k->n_runs, 2);
    r = kit_run(k, 1);
    assert_string_equal(r->history.bytes,
                        "[] | S:new task.created task.started token N:first tool_call tool_result "
                        "thinking token token");
    assert_string_equal(r->input, "go");
    run_say(k, r, TOKEN("xy"));
    run_end(k, r, RUN_DONE, "");
    client_await(c, json("'event':'final_answer','data':{'output':'ab\xc3\xa4xy'}"));
    client_await(c, json("'event':'task.completed','data':{'output':'ab\xc3\xa4xy'"));
    client_free(c);
}

static void test_text_withdrawn_twice_is_told_twice(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    run_say(k, kit_run(k, 0), TOKEN("one"));
    c = restart(k, c, task);
    run_say(k, kit_run(k, 1), TOKEN("three"));
    c = restart(k, c, task);
    assert_non_null(strstr(c->got.bytes, json("'retracted':[[2,4],[4,6]]")));
    client_await(c,
                 json("'attempt':3,'why':'restart','retracts':4,'keep':{'text':0,'thinking':0}"));
    c = restart(k, c, task); /* nothing was said since */
    client_await(c, json("'seq':7,"));
    assert_non_null(strstr(c->got.bytes, json("'data':{'attempt':4,'why':'restart'}}")));
    assert_non_null(strstr(c->got.bytes, json("'retracted':[[2,4],[4,6]]")));
    client_ask(c, "cancel", "c", task, "");
    run_end(k, kit_run(k, 3), RUN_DONE, "");
    const char *end = client_await(c, json("'event':'task.failed'"));
    assert_null(strstr(end, "one"));
    assert_null(strstr(end, "three"));
    client_free(c);
}

static void test_only_64_retractions_are_listed(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    for (size_t i = 0; i < 66; i++) {
        run_say(k, kit_run(k, i), TOKEN("word"));
        c = restart(k, c, NULL);
    }
    client_ask(c, "task", "c", task, "");
    const char *line =
        client_await(c, json("'retracted':[[6,8],[8,10],")); /* the first two are gone */
    size_t n = 0;
    for (const char *at = strstr(line, "[["); at && *at != ']'; at = strchr(at, ']') + 1)
        n++;
    assert_int_equal(n, 64);
    assert_non_null(strstr(line, "[132,134]]"));
    run_end(k, kit_run(k, 66), RUN_DONE, "");
    client_free(c);
}

static void test_a_question_stays_open_and_is_answered_once(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    run_say(k, kit_run(k, 0),
            json("{'event':'input_required','data':{'input_id':'q','kind':'approval','prompt':'?',"
                 "'options':['yes',{'id':'no'}]}}"));
    c = restart(k, c, task);
    assert_non_null(strstr(c->got.bytes, json("'waiting_for':'q'")));
    client_ask(c, "respond", "c", task, json(",'input_id':'q','answer':'other'"));
    client_await(c, json("'code':'bad_request'")); /* its options are known again */
    client_ask(c, "respond", "c", task, json(",'input_id':'q','answer':'no'"));
    client_await(c, json("{'type':'ok'"));
    assert_string_equal(kit_run(k, 1)->delivered.bytes,
                        json("{'type':'input','input_id':'q','answer':'no'}\n"));
    c = restart(k, c, task);
    client_ask(c, "respond", "c", task, json(",'input_id':'q','answer':true"));
    client_await(c, json("'code':'conflict'"));
    client_ask(c, "respond", "c", task, json(",'input_id':'q','answer':'no'"));
    client_await(c, json("{'type':'ok'"));
    assert_int_equal(kit_run(k, 2)->delivered.len, 0); /* it is in its events */
    run_end(k, kit_run(k, 2), RUN_DONE, "");
    client_free(c);
}

static void test_a_question_expires_when_it_said(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    run_say(k, kit_run(k, 0), QUESTION(",'timeout_s':100"));
    kit_pass(k, 40000);
    c = restart(k, c, task);
    kit_pass(k, 59000);
    assert_int_equal(kit_run(k, 1)->delivered.len, 0);
    kit_pass(k, 1000);
    client_await(c, json("'event':'input_received','data':{'input_id':'q','answer':null}"));
    assert_string_equal(kit_run(k, 1)->delivered.bytes,
                        json("{'type':'input','input_id':'q','answer':null}\n"));
    run_say(k, kit_run(k, 1),
            json("{'event':'input_required','data':{'input_id':'r','kind':'question','prompt':'?',"
                 "'timeout_s':10}}"));
    client_free(c);
    c = NULL;
    k->hub.clock.wall_ms += 20000; /* it was over before the gateway was back */
    kit_crash(k);
    assert_string_equal(kit_run(k, 2)->delivered.bytes,
                        json("{'type':'input','input_id':'r','answer':null}\n"));
    run_end(k, kit_run(k, 2), RUN_DONE, "");
}

static void test_the_timeout_counts_from_the_first_start(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    for (size_t i = 0; i < countof(k->agents); i++) {
        k->agents[i].timeout_ms = 100000;
        k->agents[i].idle_timeout_ms = 0;
    }
    const char *task = client_start(c, "c", "go");
    run_say(k, kit_run(k, 0), QUESTION(""));
    kit_pass(k, 1000000); /* does not count */
    client_ask(c, "respond", "c", task, json(",'input_id':'q','answer':'a'"));
    kit_pass(k, 40000);
    c = restart(k, c, task);
    kit_pass(k, 59000);
    assert_int_equal(kit_run(k, 1)->cancels, 0);
    kit_pass(k, 1001);
    assert_int_equal(kit_run(k, 1)->cancels, 1);
    run_end(k, kit_run(k, 1), RUN_FAILED, "exit status 1");
    client_await(c, json("'code':'timeout'"));
    client_free(c);
}

static void test_a_timeout_that_is_over_ends_it_at_once(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    k->hub.clock.wall_ms += k->agents[0].timeout_ms + 1;
    c = restart(k, c, task);
    kit_pass(k, 1);
    assert_int_equal(kit_run(k, 1)->cancels, 1);
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    client_await(c, json("'code':'timeout'"));
    client_free(c);
}

static void test_a_cancel_that_was_acknowledged_is_carried_out(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    client_ask(c, "cancel", "c", task, "");
    client_await(c, json("'cancelled':1"));
    c = restart(k, c, task);
    assert_int_equal(k->n_runs, 1);
    client_await(c, json("'status':'cancelled'"));
    client_free(c);
}

static void test_an_agent_that_lives_on_is_stopped_as_always(void **state)
{
    struct kit *k = *state;
    again_use(k, &again_numbered_ops);
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    client_ask(c, "cancel", "c", task, "");
    c = restart(k, c, task);
    assert_int_equal(kit_run(k, 1)->cancels, 1);
    run_say(k, kit_run(k, 1), TOKEN("last words"));
    run_end(k, kit_run(k, 1), RUN_FAILED, "signal 15");
    client_await(c, json("'status':'cancelled'"));
    assert_non_null(strstr(c->got.bytes, json("'output':'last words'")));
    client_free(c);
}

static void expect_orphan(struct client *c, const char *why)
{
    const char *end = client_await(c, json("'event':'task.failed'"));
    if (!strstr(end, json("'code':'orphaned'")) || !strstr(end, why))
        fail_msg("wanted %s, got %s", why, end);
}

static void test_an_orphan_is_told_why(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    again.gone = "its process was killed";
    c = restart(k, c, task);
    expect_orphan(c, "orphaned: its process was killed");
    again.gone = NULL;
    assert_int_equal(again.forgotten, 1);

    task = client_start(c, "c", "go");
    note(k, kit_run(k, 1), false, "it cannot read this");
    again.cannot_recall = true;
    c = restart(k, c, task);
    expect_orphan(c, "cannot be read");
    again.cannot_recall = false;

    task = client_start(c, "c", "go");
    const char *name = k->agents[0].name;
    k->agents[0].name = "another";
    c = restart(k, c, task);
    expect_orphan(c, "no longer configured");
    k->agents[0].name = name;

    task = client_start(c, "c", "go");
    k->agents[0].goes_on = false;
    c = restart(k, c, task);
    expect_orphan(c, "restarted while the task ran");
    assert_int_equal(k->n_runs, 4);
    assert_int_equal(k->hub.stats.not_resumed[NOT_WANTED], 1);
    client_free(c);
}

static void test_a_task_that_does_not_get_on_is_given_up(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    for (int i = 0; i < 5; i++)
        c = restart(k, c, NULL);
    assert_int_equal(k->n_runs, 6);
    run_say(k, kit_run(k, 5), TOKEN("a word")); /* it does */
    for (int i = 0; i < 5; i++)
        c = restart(k, c, NULL);
    assert_int_equal(k->n_runs, 11);
    c = restart(k, c, task);
    expect_orphan(c, "did not get on");
    client_free(c);
}

static void test_a_task_that_waits_is_resumed_any_number_of_times(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    run_say(k, kit_run(k, 0), QUESTION(""));
    for (int i = 0; i < 12; i++)
        c = restart(k, c, NULL);
    client_ask(c, "respond", "c", task, json(",'input_id':'q','answer':'a'"));
    client_await(c, json("{'type':'ok'"));
    assert_non_null(strstr(kit_run(k, 12)->delivered.bytes, json("'answer':'a'")));
    run_end(k, kit_run(k, 12), RUN_DONE, "");
    client_free(c);
}

static struct client *stop_and_start(struct kit *k, struct client *c, const char *task)
{
    hub_drain(&k->hub);
    kit_settle(k);
    assert_true(hub_is_over(&k->hub));
    return restart(k, c, task);
}

static void test_a_planned_stop_does_not_wait_and_does_not_count(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    for (int i = 0; i < 8; i++)
        c = stop_and_start(k, c, NULL);
    assert_int_equal(again.left, 8);
    client_ask(c, "resume", "c", task, "");
    client_await(
        c, json("'event':'task.resumed','data':{'attempt':9,'why':'restart','planned':true}"));
    c = restart(k, c, task);
    client_await(c, json("'event':'task.resumed','data':{'attempt':10,'why':'restart'}"));
    run_end(k, kit_run(k, 9), RUN_DONE, "");
    client_await(c, json("'event':'task.completed'"));
    client_free(c);
}

static void test_what_comes_while_the_gateway_stops_is_not_lost(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    run_say(k, kit_run(k, 0), QUESTION(",'timeout_s':10"));
    hub_drain(&k->hub);
    client_ask(c, "send", "c", task, json(",'content':'late'"));
    client_await(c, json("{'type':'ok'"));
    client_ask(c, "respond", "c", task, json(",'input_id':'q','answer':'a'"));
    client_await(c, json("{'type':'ok'"));
    kit_pass(k, 20000);
    assert_int_equal(kit_run(k, 0)->delivered.len, 0);
    c = restart(k, c, task);
    struct run *r = kit_run(k, 1);
    assert_non_null(strstr(r->history.bytes, "input_received"));
    assert_string_equal(r->delivered.bytes,
                        json("{'type':'message','from':'user','content':'late'}\n"));
    run_end(k, r, RUN_DONE, "");
    client_free(c);
}

static void test_a_cancel_while_the_gateway_stops(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    hub_drain(&k->hub);
    client_ask(c, "cancel", "c", task, "");
    client_await(c, json("'cancelled':1"));
    assert_true(hub_is_over(&k->hub));
    c = restart(k, c, task);
    client_await(c, json("'status':'cancelled'"));
    assert_int_equal(k->n_runs, 1);
    client_free(c);
}

static void test_a_waiting_task_starts_after_a_planned_stop(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "go");
    client_say(c, json("{'type':'chat','conversation_id':'c','message':'next',"
                       "'when_busy':'enqueue'}"));
    hub_drain(&k->hub);
    run_end(k, kit_run(k, 0), RUN_DONE, ""); /* the adapter should not, and it changes nothing */
    assert_int_equal(k->n_runs, 1);
    client_free(c);
    kit_crash(k);
    assert_int_equal(k->n_runs, 2);
    run_end(k, kit_run(k, 1), RUN_DONE, "");
}

/* A run that was started and never begun, or whose beginning is all that is on disk. */
static void test_a_task_that_had_only_started_goes_on(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    c = restart(k, c, task);
    assert_string_equal(kit_run(k, 1)->history.bytes, "[] | task.created task.started");
    assert_null(strstr(c->got.bytes, "retract"));
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    client_free(c);
}

/* --- numbered lines --------------------------------------------------------------------------- */

static void test_numbered_lines_are_committed_and_told_once(void **state)
{
    struct kit *k = *state;
    again_use(k, &again_numbered_ops);
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    struct run *r = kit_run(k, 0);
    client_ask(c, "send", "c", task, json(",'content':'one'"));
    run_say(k, r, json("{'call':'send','call_id':'x','task_id':'parent','content':'hi'}"));
    client_ask(c, "send", "c", task, json(",'content':'two'"));
    assert_string_equal(
        again.numbered.bytes,
        json("1 {'type':'message','from':'user','content':'one'}\n"
             "2 {'type':'error','call_id':'x','code':'not_found','message':'no such task'}\n"
             "3 {'type':'message','from':'user','content':'two'}\n"));
    again.slow = true;
    client_ask(c, "send", "c", task, json(",'content':'three'"));
    r->full = true;
    client_ask(c, "send", "c", task, json(",'content':'four'"));
    buf_clear(&again.numbered);
    again.slow = false;
    c = restart(k, c, task);
    assert_string_equal(again.numbered.bytes,
                        json("5 {'type':'message','from':'user','content':'four'}\n"));
    client_await(c, json("'event':'message','data':{'from':'user','content':'three'}"));
    client_await(c, json("'event':'message','data':{'from':'user','content':'four'}"));
    c = restart(k, c, task);
    client_ask(c, "send", "c", task, json(",'content':'five'"));
    assert_non_null(strstr(again.numbered.bytes, json("6 {'type':'message'")));
    run_end(k, kit_run(k, 2), RUN_DONE, "");
    client_free(c);
}

static void test_the_mark_does_not_pass_a_call_without_its_answer(void **state)
{
    struct kit *k = *state;
    again_use(k, &again_numbered_ops);
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "go");
    struct run *r = kit_run(k, 0);
    run_say(k, r, TOKEN("word"));
    r->events->on_mark(r->task, 100);
    kit_settle(k);
    assert_false(
        r->events->on_line(r->task, str_of(json("{'call':'cancel','call_id':'x',"
                                                "'task_id':'01ARZ3NDEKTSV4RRFFQ69G5FAV'}"))));
    r->events->on_mark(r->task, 200);
    r->wants_more = false;
    kit_turn(k);
    store_inline_step_commit(k->inline_store); /* the look-up comes later */
    client_free(c);
    kit_crash(k); /* before the look-up was answered */
    assert_int_equal(again.mark, 100);
    r = kit_run(k, 1);
    r->wants_more =
        r->events->on_line(r->task, str_of(json("{'call':'cancel','call_id':'x',"
                                                "'task_id':'01ARZ3NDEKTSV4RRFFQ69G5FAV'}")));
    r->events->on_mark(r->task, 200);
    assert_false(r->wants_more);
    kit_settle(k);
    assert_true(r->wants_more);
    assert_non_null(strstr(again.numbered.bytes, json("1 {'type':'error','call_id':'x'")));
    kit_crash(k);
    assert_int_equal(again.mark, 200);
    run_end(k, kit_run(k, 2), RUN_DONE, "");
}

static void test_text_that_is_held_back_is_not_lost(void **state)
{
    struct kit *k = *state;
    struct secrets *secrets = secrets_new();
    secrets_add(secrets, STR("sk-0123456789"));
    k->hub.o.secrets = secrets;
    again_use(k, &again_numbered_ops);
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    struct run *r = kit_run(k, 0);
    run_say(k, r, TOKEN("key: sk-01"));
    r->events->on_mark(r->task, 100); /* what came before it is not read again */
    kit_settle(k);
    client_free(c);
    kit_crash(k);
    k->hub.o.secrets = secrets;
    assert_int_equal(again.mark, 100);
    r = kit_run(k, 1);
    run_say(k, r, TOKEN("23456789, and s"));
    r->events->on_mark(r->task, 200);
    kit_settle(k);
    kit_crash(k);
    k->hub.o.secrets = secrets;
    run_end(k, kit_run(k, 2), RUN_DONE, "");
    c = client_new(k, "ann");
    client_ask(c, "resume", "c", task, json(",'after':0"));
    client_await(c, json("'event':'token','data':{'text':'key: '}"));
    client_await(c, json("'event':'token','data':{'text':'***, and '}"));
    client_await(c, json("'event':'token','data':{'text':'s'}"));
    client_free(c);
    kit_crash(k);
    secrets_free(secrets);
}

/* --- an agent that picks ---------------------------------------------------------------------- */

static void test_an_agent_that_picks_takes_a_later_line(void **state)
{
    struct kit *k = *state;
    again_use(k, &again_picks_ops);
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    struct run *r = kit_run(k, 0);
    r->full = true;
    client_ask(c, "send", "c", task, json(",'content':'one'"));
    client_ask(c, "send", "c", task, json(",'content':'two, urgent'"));
    assert_string_equal(r->delivered.bytes,
                        json("{'type':'message','from':'user','content':'two, urgent'}\n"));
    r->full = false;
    kit_pass(k, 100); /* nobody offers it again by himself */
    assert_null(strstr(r->delivered.bytes, "one"));
    c = restart(k, c, task); /* what was taken out of turn does not come again */
    assert_string_equal(kit_run(k, 1)->delivered.bytes,
                        json("{'type':'message','from':'user','content':'one'}\n"));
    client_ask(c, "send", "c", task, json(",'content':'three'"));
    kit_run(k, 1)->full = true;
    client_ask(c, "send", "c", task, json(",'content':'four'"));
    kit_run(k, 1)->full = false;
    kit_run(k, 1)->events->on_room(kit_run(k, 1)->task);
    assert_non_null(strstr(kit_run(k, 1)->delivered.bytes, "four"));
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    client_free(c);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_task_goes_on_and_withdraws_what_it_says_again),
        TEST(test_text_withdrawn_twice_is_told_twice),
        TEST(test_only_64_retractions_are_listed),
        TEST(test_a_question_stays_open_and_is_answered_once),
        TEST(test_a_question_expires_when_it_said),
        TEST(test_the_timeout_counts_from_the_first_start),
        TEST(test_a_timeout_that_is_over_ends_it_at_once),
        TEST(test_a_cancel_that_was_acknowledged_is_carried_out),
        TEST(test_an_agent_that_lives_on_is_stopped_as_always),
        TEST(test_an_orphan_is_told_why),
        TEST(test_a_task_that_does_not_get_on_is_given_up),
        TEST(test_a_task_that_waits_is_resumed_any_number_of_times),
        TEST(test_a_planned_stop_does_not_wait_and_does_not_count),
        TEST(test_what_comes_while_the_gateway_stops_is_not_lost),
        TEST(test_a_cancel_while_the_gateway_stops),
        TEST(test_a_waiting_task_starts_after_a_planned_stop),
        TEST(test_a_task_that_had_only_started_goes_on),
        TEST(test_numbered_lines_are_committed_and_told_once),
        TEST(test_the_mark_does_not_pass_a_call_without_its_answer),
        TEST(test_text_that_is_held_back_is_not_lost),
        TEST(test_an_agent_that_picks_takes_a_later_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
