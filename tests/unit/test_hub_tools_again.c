/* Calls that an agent makes of the gateway, and that are under way when it stops: each is answered
 * once. */
#include <stdio.h>

#include "core/secrets.h"
#include "tests/support/hub_again.h"

struct tool_job {
    tool_done_fn done;
    void *user;
    bool over;
};

#define MAX_JOBS 16

static struct tool_job jobs[MAX_JOBS];
static size_t n_jobs;
static struct buf begun; /* what was begun: NAME or +NAME (attached), its call and arguments */

static struct tool_job *begin_job(const char *sign, const struct tool *tool,
                                  const struct tool_caller *caller, struct str arguments,
                                  tool_done_fn done, void *user)
{
    assert_true(n_jobs < MAX_JOBS);
    buf_putf(&begun, "%s%s(%.*s)%.*s ", sign, tool->name, (int)caller->call.n, caller->call.p,
             (int)arguments.n, arguments.p);
    jobs[n_jobs] = (struct tool_job){.done = done, .user = user};
    return &jobs[n_jobs++];
}

static struct tool_job *job_start(const struct tool *tool, const struct tool_caller *caller,
                                  struct str arguments, tool_done_fn done, void *user,
                                  struct buf *out)
{
    (void)out;
    return begin_job("", tool, caller, arguments, done, user);
}

static struct tool_job *job_attach(const struct tool *tool, const struct tool_caller *caller,
                                   struct str arguments, tool_done_fn done, void *user,
                                   struct buf *out)
{
    (void)out;
    return begin_job("+", tool, caller, arguments, done, user);
}

static void job_stop(struct tool_job *job)
{
    assert_false(job->over);
    job->over = true;
}

static const char *job_place_name;

static const char *job_place(const struct tool *tool)
{
    (void)tool;
    return job_place_name;
}

static bool job_asks(const struct tool *tool, const struct tool_caller *caller,
                     struct str arguments, struct buf *question)
{
    (void)tool, (void)caller, (void)arguments;
    buf_puts(question, "May it?");
    return true;
}

static const struct tool look = {
    .name = "look", .start = job_start, .stop = job_stop, .again = TOOL_AGAIN};
static const struct tool deed = {.name = "deed", .start = job_start, .stop = job_stop};
static const struct tool command = {.name = "command",
                                    .start = job_start,
                                    .stop = job_stop,
                                    .again = TOOL_ATTACH,
                                    .attach = job_attach,
                                    .place = job_place};
static const struct tool guarded = {.name = "guarded",
                                    .start = job_start,
                                    .stop = job_stop,
                                    .asks = job_asks,
                                    .again = TOOL_ATTACH,
                                    .attach = job_attach,
                                    .place = job_place};
static const struct tool asked = {
    .name = "asked", .start = job_start, .stop = job_stop, .asks = job_asks};
static const struct tool *const all_tools[] = {&look, &deed, &command, &asked, &guarded};

static void use_tools(struct kit *k, size_t n)
{
    for (size_t i = 0; i < countof(k->agents); i++) {
        k->agents[i].tools = all_tools;
        k->agents[i].n_tools = n;
    }
}

static int setup(void **state)
{
    struct kit *k = kit_new();
    n_jobs = 0;
    job_place_name = "here";
    again_use(k, &again_numbered_ops);
    use_tools(k, countof(all_tools));
    *state = k;
    return 0;
}

static int teardown(void **state)
{
    kit_free_all(*state);
    buf_done(&begun);
    return 0;
}

#define CALL(id, tool) "{'call':'tool','call_id':'" id "','name':'" tool "','arguments':{'n':1}}"
#define UNKNOWN(id)                                                         \
    "{'type':'tool_result','call_id':'" id "','output':'" TOOL_UNKNOWN "'," \
    "'is_error':true}\n"

/* The gateway is killed, and the next one begins: what it begins is in `begun`. */
static struct run *next_gateway(struct kit *k, struct client **c)
{
    client_free(*c);
    buf_clear(&begun);
    buf_puts(&begun, "");
    kit_crash(k);
    *c = client_new(k, "ann");
    return kit_run(k, k->n_runs - 1);
}

static size_t n_times(const struct buf *in, const char *what)
{
    size_t n = 0;
    for (const char *at = in->len ? in->bytes : ""; (at = strstr(at, what)) != NULL; at++)
        n++;
    return n;
}

static void test_hub_calls_that_a_restart_cut_are_answered_by_their_tools(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "go");
    struct run *r = kit_run(k, 0);
    run_say(k, r, json(CALL("l", "look")));
    run_say(k, r, json(CALL("d", "deed")));
    run_say(k, r, json(CALL("o", "command")));
    assert_string_equal(begun.bytes, json("look(3){'n':1} deed(4){'n':1} command(5){'n':1} "));
    (void)next_gateway(k, &c);
    assert_string_equal(begun.bytes, json("look(3){'n':1} +command(5){'n':1} "));
    assert_int_equal(n_times(&again.numbered, json(UNKNOWN("d"))), 1);
    assert_int_equal(k->hub.stats.unknown_effects[0].n, 1);
    jobs[3].done(jobs[3].user, true, STR("seen"));
    kit_settle(k);
    (void)next_gateway(k, &c); /* what was told is over */
    assert_string_equal(begun.bytes, json("+command(5){'n':1} "));
    jobs[5].done(jobs[5].user, true, STR("done"));
    kit_settle(k);
    r = next_gateway(k, &c);
    assert_string_equal(begun.bytes, "");
    assert_int_equal(n_times(&again.numbered, "tool_result"), 3);
    assert_int_equal(n_times(&again.numbered, "seen"), 1);
    assert_int_equal(n_times(&again.numbered, "done"), 1);
    run_end(k, r, RUN_DONE, "");
    client_free(c);
}

static void test_hub_call_waits_for_its_approval_over_a_restart(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    run_say(k, kit_run(k, 0), json(CALL("a", "asked")));
    struct run *r = next_gateway(k, &c);
    assert_string_equal(begun.bytes, "");
    client_ask(c, "respond", "c", task, json(",'input_id':'approve-1','answer':true"));
    kit_settle(k);
    assert_string_equal(begun.bytes, json("asked(3){'n':1} "));
    jobs[0].done(jobs[0].user, true, STR("done"));
    kit_settle(k);
    run_say(k, r, json(CALL("b", "asked")));
    r = next_gateway(k, &c);
    client_ask(c, "respond", "c", task, json(",'input_id':'approve-2','answer':false"));
    kit_settle(k);
    assert_string_equal(begun.bytes, "");
    assert_int_equal(n_times(&again.numbered, "did not approve"), 1);
    assert_int_equal(n_times(&again.numbered, "tool_result"), 2);
    run_end(k, r, RUN_DONE, "");
    client_free(c);
}

static void test_hub_call_that_was_approved_is_not_begun_twice(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    run_say(k, kit_run(k, 0), json(CALL("a", "asked")));
    client_ask(c, "respond", "c", task, json(",'input_id':'approve-1','answer':true"));
    kit_settle(k);
    assert_int_equal(n_jobs, 1);
    struct run *r = next_gateway(k, &c);
    assert_string_equal(begun.bytes, "");
    assert_int_equal(n_times(&again.numbered, json(UNKNOWN("a"))), 1);
    run_end(k, r, RUN_DONE, "");
    client_free(c);
}

/* On another machine, or after a reboot: what began left no trace there. */
static void test_hub_call_that_was_made_elsewhere_is_unknown(void **state)
{
    static const char *const places[] = {"there", ""};
    struct kit *k = *state;
    for (size_t i = 0; i < countof(places); i++) {
        struct client *c = client_new(k, "ann");
        job_place_name = "here";
        client_start(c, "c", "go");
        run_say(k, kit_run(k, k->n_runs - 1), json(CALL("o", "command")));
        job_place_name = places[i];
        struct run *r = next_gateway(k, &c);
        assert_string_equal(begun.bytes, "");
        assert_int_equal(n_times(&again.numbered, json(UNKNOWN("o"))), i + 1);
        run_end(k, r, RUN_DONE, "");
        client_free(c);
    }
    assert_int_equal(k->hub.stats.unknown_effects[0].n, 1);
}

/* It waited for its approval, and begins where it is approved: there it is found again. */
static void test_hub_call_that_is_approved_elsewhere_begins_there(void **state)
{
    struct kit *k = *state;
    for (int back = 0; back < 2; back++) {
        struct client *c = client_new(k, "ann");
        job_place_name = "here";
        buf_clear(&again.numbered);
        const char *task = client_start(c, "c", "go");
        run_say(k, kit_run(k, k->n_runs - 1), json(CALL("g", "guarded")));
        job_place_name = "there";
        next_gateway(k, &c);
        client_ask(c, "respond", "c", task, json(",'input_id':'approve-1','answer':true"));
        kit_settle(k);
        assert_int_equal(n_times(&begun, "guarded"), 1);
        job_place_name = back ? "here" : "there";
        struct run *r = next_gateway(k, &c);
        assert_int_equal(n_times(&begun, "+guarded"), !back);
        assert_int_equal(n_times(&begun, "guarded"), !back);
        assert_int_equal(n_times(&again.numbered, json(UNKNOWN("g"))), back);
        run_end(k, r, RUN_DONE, "");
        client_free(c);
    }
}

static void test_hub_call_of_a_tool_that_is_gone_is_unknown(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "go");
    run_say(k, kit_run(k, 0), json(CALL("o", "command")));
    use_tools(k, 2);
    struct run *r = next_gateway(k, &c);
    assert_string_equal(begun.bytes, "");
    assert_int_equal(n_times(&again.numbered, json(UNKNOWN("o"))), 1);
    client_await(c, json("'welcome'"));
    run_end(k, r, RUN_DONE, "");
    client_free(c);
}

/* Its event has no whole arguments, and the store shall have no secrets. */
static void test_hub_call_with_a_secret_is_not_made_again(void **state)
{
    struct kit *k = *state;
    struct secrets *secrets = secrets_new();
    secrets_add(secrets, STR("sk-0123456789"));
    k->hub.o.secrets = secrets;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "go");
    run_say(k, kit_run(k, 0),
            json("{'call':'tool','call_id':'s','name':'look','arguments':"
                 "{'key':'sk-0123456789'}}"));
    assert_non_null(strstr(begun.bytes, "sk-0123456789"));
    struct run *r = next_gateway(k, &c);
    k->hub.o.secrets = secrets;
    assert_string_equal(begun.bytes, "");
    assert_int_equal(n_times(&again.numbered, json(UNKNOWN("s"))), 1);
    run_end(k, r, RUN_DONE, "");
    client_free(c);
    kit_crash(k);
    secrets_free(secrets);
}

static void test_hub_call_of_a_task_that_is_cancelled_is_not_made_again(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    run_say(k, kit_run(k, 0), json(CALL("l", "look")));
    client_ask(c, "cancel", "c", task, "");
    struct run *r = next_gateway(k, &c);
    assert_string_equal(begun.bytes, "");
    assert_int_equal(n_times(&again.numbered, "the task is being stopped"), 1);
    run_end(k, r, RUN_DONE, "");
    client_free(c);
}

/* A call that waits for the budget never began; the one before it did. */
static void test_hub_call_that_waits_for_the_budget_begins_after_a_restart(void **state)
{
    struct kit *k = *state;
    for (size_t i = 0; i < countof(k->agents); i++) {
        k->agents[i].has_budget = true;
        k->agents[i].budget.tool_calls = 1;
    }
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    run_say(k, kit_run(k, 0), json(CALL("d", "deed")));
    run_say(k, kit_run(k, 0), json(CALL("e", "deed")));
    client_await(c, json("'input_id':'budget-1'"));
    assert_string_equal(begun.bytes, json("deed(3){'n':1} "));
    (void)next_gateway(k, &c);
    assert_string_equal(begun.bytes, "");
    assert_int_equal(n_times(&again.numbered, json(UNKNOWN("d"))), 1);
    client_ask(c, "respond", "c", task, json(",'input_id':'budget-1','answer':true"));
    kit_settle(k);
    assert_non_null(strstr(begun.bytes, "deed("));
    assert_int_equal(n_jobs, 2);
    struct run *r = next_gateway(k, &c);
    assert_string_equal(begun.bytes, "");
    assert_int_equal(n_times(&again.numbered, json(UNKNOWN("e"))), 1);
    run_end(k, r, RUN_DONE, "");
    client_free(c);
}

/* The next gateway is ready, and its store takes its time with the history that the run needs: the
 * question is answered meanwhile, and then the run begins. */
static struct run *answer_before_the_run(struct kit *k, struct client **c, const char *task,
                                         const char *answer)
{
    int status = 1;
    size_t before = k->n_runs;
    client_free(*c);
    buf_clear(&begun);
    buf_puts(&begun, "");
    kit_close_hub(k);
    kit_open_hub(k);
    hub_restore(&k->hub, kit_on_ready, &status);
    while (status != 0) {
        kit_turn(k);
        assert_true(kit_step(k));
    }
    kit_turn(k);
    while (store_inline_next(k->inline_store) != QUERY_PATH)
        assert_true(kit_step(k));
    assert_true(store_inline_hold(k->inline_store, false));
    *c = client_new(k, "ann");
    client_ask(*c, "respond", "c", task, answer);
    client_await(*c, json("'ok','id':'q'"));
    kit_settle(k);
    assert_int_equal(k->n_runs, before);
    assert_string_equal(begun.bytes, "");
    store_inline_release(k->inline_store);
    kit_settle(k);
    assert_int_equal(k->n_runs, before + 1);
    return kit_run(k, before);
}

static void test_hub_approval_that_comes_before_the_run_is_heard(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    run_say(k, kit_run(k, 0), json(CALL("a", "asked")));
    struct run *r =
        answer_before_the_run(k, &c, task, json(",'input_id':'approve-1','answer':true"));
    assert_string_equal(begun.bytes, json("asked(3){'n':1} "));
    jobs[0].done(jobs[0].user, true, STR("done"));
    kit_settle(k);
    run_say(k, r, json(CALL("b", "asked")));
    r = answer_before_the_run(k, &c, task, json(",'input_id':'approve-2','answer':false"));
    assert_string_equal(begun.bytes, "");
    assert_int_equal(n_times(&again.numbered, "did not approve"), 1);
    assert_int_equal(n_times(&again.numbered, "tool_result"), 2);
    assert_int_equal(n_times(&again.numbered, json("'type':'input'")), 0);
    assert_int_equal(k->hub.stats.unknown_effects[0].n, 0);
    run_end(k, r, RUN_DONE, "");
    client_free(c);
}

#define TOLD(id) "{'event':'tool_call','data':{'call_id':'" id "','name':'look','arguments':{}}}"

static void test_hub_budget_that_is_granted_before_the_run_is_heard(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    k->agents[0].has_budget = true;
    k->agents[0].budget.tool_calls = 1;
    const char *task = client_start(c, "c", "go");
    struct run *r = kit_run(k, 0);
    run_say(k, r, json(TOLD("a")));
    run_say(k, r, json(TOLD("b")));
    client_await(c, json("'input_id':'budget-1'"));
    r = answer_before_the_run(k, &c, task, json(",'input_id':'budget-1','answer':true"));
    run_say(k, r, json("{'event':'token','data':{'text':'on'}}"));
    assert_true(r->wants_more);
    run_say(k, r, json(TOLD("c"))); /* b was the first of the new budget */
    client_ask(c, "resume", "c", task, json(",'after':0"));
    client_await(c, json("'input_id':'budget-2'"));
    r = answer_before_the_run(k, &c, task, json(",'input_id':'budget-2','answer':false"));
    assert_int_equal(r->cancels, 1);
    assert_int_equal(again.numbered.len, 0);
    run_end(k, r, RUN_FAILED, "");
    client_ask(c, "task", "c", task, "");
    client_await(c, "agent_error: the budget is used up: 1 of 1 tool calls");
    client_free(c);
}

static void test_hub_answer_that_comes_before_the_run_goes_to_it(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    run_say(k, kit_run(k, 0),
            json("{'event':'input_required','data':{'input_id':'own','kind':'question',"
                 "'prompt':'?'}}"));
    struct run *r = answer_before_the_run(k, &c, task, json(",'input_id':'own','answer':'blue'"));
    assert_int_equal(
        n_times(&again.numbered, json("{'type':'input','input_id':'own','answer':'blue'}")), 1);
    run_end(k, r, RUN_DONE, "");
    client_free(c);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_hub_calls_that_a_restart_cut_are_answered_by_their_tools),
        TEST(test_hub_call_waits_for_its_approval_over_a_restart),
        TEST(test_hub_call_that_was_approved_is_not_begun_twice),
        TEST(test_hub_call_that_was_made_elsewhere_is_unknown),
        TEST(test_hub_call_that_is_approved_elsewhere_begins_there),
        TEST(test_hub_call_of_a_tool_that_is_gone_is_unknown),
        TEST(test_hub_call_with_a_secret_is_not_made_again),
        TEST(test_hub_call_of_a_task_that_is_cancelled_is_not_made_again),
        TEST(test_hub_call_that_waits_for_the_budget_begins_after_a_restart),
        TEST(test_hub_approval_that_comes_before_the_run_is_heard),
        TEST(test_hub_budget_that_is_granted_before_the_run_is_heard),
        TEST(test_hub_answer_that_comes_before_the_run_goes_to_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
