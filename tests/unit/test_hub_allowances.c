/* Approvals that offer to allow a kind of call for the conversation. */
#include "core/approval.h"
#include "tests/support/hub_again.h"

struct tool_job {
    tool_done_fn done;
    void *user;
};

static struct tool_job jobs[16];
static size_t n_jobs;

static struct tool_job *start(const struct tool *tool, const struct tool_caller *caller,
                              struct str arguments, tool_done_fn done, void *user, struct buf *out)
{
    (void)tool, (void)caller, (void)arguments, (void)out;
    assert_true(n_jobs < countof(jobs));
    jobs[n_jobs] = (struct tool_job){done, user};
    return &jobs[n_jobs++];
}

static void stop(struct tool_job *job)
{
    (void)job;
}

static bool asks(const struct tool *tool, const struct tool_caller *caller, struct str arguments,
                 struct buf *question)
{
    (void)tool, (void)caller, (void)arguments;
    buf_puts(question, "May it?");
    return true;
}

/* The arguments are it; those with an x have none. */
static bool topic(const struct tool *tool, const struct tool_caller *caller, struct str arguments,
                  struct tool_topic *ret)
{
    (void)tool, (void)caller;
    buf_putstr(&ret->key, arguments);
    buf_puts(&ret->name, "the \"deed\"");
    return !memchr(arguments.p, 'x', arguments.n);
}

static const struct tool deed = {
    .name = "deed", .start = start, .stop = stop, .asks = asks, .topic = topic};
static const struct tool other = {.name = "other", .start = start, .stop = stop, .asks = asks};
static const struct tool *const tools[] = {&deed, &other};

static int setup(void **state)
{
    struct kit *k = kit_new();
    n_jobs = 0;
    again_use(k, &again_numbered_ops);
    for (size_t i = 0; i < countof(k->agents); i++) {
        k->agents[i].tools = tools;
        k->agents[i].n_tools = countof(tools);
    }
    *state = k;
    return 0;
}

static int teardown(void **state)
{
    kit_free_all(*state);
    return 0;
}

#define CALL(id, tool, n) \
    "{'call':'tool','call_id':'" id "','name':'" tool "','arguments':{'n':'" n "'}}"
#define ASKED "'event':'input_required'"

/* A new task in that conversation, whose call has these arguments; returns its id. */
static const char *call_in(struct kit *k, struct client *c, const char *conversation,
                           const char *call)
{
    const char *task = client_start(c, conversation, "go");
    run_say(k, kit_run(k, k->n_runs - 1), call);
    return task;
}

/* It ends well, and is not on the mind of anybody. */
static void over(struct kit *k, struct client *c)
{
    for (size_t i = 0; i < n_jobs; i++)
        jobs[i].done(jobs[i].user, true, STR("done"));
    n_jobs = 0;
    run_end(k, kit_run(k, k->n_runs - 1), RUN_DONE, "");
    client_await(c, "task.completed");
}

static void answer(struct client *c, const char *conversation, const char *task, const char *value)
{
    char more[128];
    snprintf(more, sizeof more, json(",'input_id':'approve-1','answer':%s"), value);
    client_ask(c, "respond", conversation, task, more);
    kit_settle(c->kit);
}

/* Whether such a call is asked about; its task is over after it. */
static bool asks_for(struct kit *k, struct client *c, const char *conversation, const char *call)
{
    const char *task = call_in(k, c, conversation, call);
    bool starts = n_jobs == 1;
    if (!starts)
        answer(c, conversation, task, "false");
    over(k, c);
    return !starts;
}

static void allow(struct kit *k, struct client *c, const char *call)
{
    const char *task = call_in(k, c, "c", call);
    assert_int_equal(n_jobs, 0);
    answer(c, "c", task, json("'conversation'"));
    assert_int_equal(n_jobs, 1);
    over(k, c);
}

static void test_hub_question_about_a_topic_has_options(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = call_in(k, c, "c", json(CALL("a", "deed", "1")));
    client_await(c, json("'tool':'deed','arguments':{'n':'1'},'options':["
                         "{'id':'once','name':'Allow once','kind':'allow_once'},"
                         "{'id':'conversation','name':'Allow the \\'deed\\' in this conversation',"
                         "'kind':'allow_always'},"
                         "{'id':'reject','name':'Reject','kind':'reject_once'}]}"));
    answer(c, "c", task, json("'never'"));
    client_await(c, json("true, false or the id of one of its options"));
    answer(c, "c", task, json("'once'"));
    client_await(c, json("'event':'input_received','data':{'input_id':'approve-1',"
                         "'answer':'once'}"));
    assert_int_equal(n_jobs, 1);
    over(k, c);
    assert_true(asks_for(k, c, "c", json(CALL("a", "deed", "1"))));
    client_free(c);
}

static void test_hub_question_without_a_topic_has_none(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    struct buf longer = {0};
    buf_puts(&longer, json("{'call':'tool','call_id':'a','name':'deed','arguments':{'n':'"));
    for (int i = 0; i < APPROVAL_TOPIC_BYTES; i++)
        buf_putc(&longer, 'y');
    buf_puts(&longer, json("'}}"));
    const char *const calls[] = {json(CALL("a", "other", "1")), json(CALL("a", "deed", "x")),
                                 longer.bytes};
    for (size_t i = 0; i < countof(calls); i++) {
        const char *task = call_in(k, c, "c", calls[i]);
        assert_null(strstr(client_await(c, json(ASKED)), "options"));
        answer(c, "c", task, json("'conversation'"));
        client_await(c, "must be true or false");
        assert_int_equal(n_jobs, 0);
        answer(c, "c", task, "true");
        assert_int_equal(n_jobs, 1);
        over(k, c);
    }
    buf_done(&longer);
    client_free(c);
}

static void test_hub_allowed_call_is_asked_about_elsewhere(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann"), *bob = client_new(k, "bob");
    allow(k, c, json(CALL("a", "deed", "1")));
    assert_false(asks_for(k, c, "c", json(CALL("a", "deed", "1"))));
    assert_true(asks_for(k, c, "c", json(CALL("a", "deed", "2"))));
    assert_true(asks_for(k, c, "c", json(CALL("a", "other", "1"))));
    assert_true(asks_for(k, c, "d", json(CALL("a", "deed", "1"))));
    assert_true(asks_for(k, bob, "c", json(CALL("a", "deed", "1"))));
    assert_false(asks_for(k, c, "c", json(CALL("a", "deed", "1"))));
    client_free(c);
    client_free(bob);
}

static void test_hub_no_allows_nothing(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *const no[] = {"false", json("'reject'")};
    for (size_t i = 0; i < countof(no); i++) {
        const char *task = call_in(k, c, "c", json(CALL("a", "deed", "1")));
        answer(c, "c", task, no[i]);
        assert_int_equal(n_jobs, 0);
        client_await(c, "did not approve");
        over(k, c);
    }
    assert_true(asks_for(k, c, "c", json(CALL("a", "deed", "1"))));
    client_free(c);
}

static void test_hub_deleted_conversation_takes_what_it_allowed_along(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    allow(k, c, json(CALL("a", "deed", "1")));
    client_say(c, json("{'type':'delete','id':'x','conversation_id':'c'}"));
    client_await(c, json("{'type':'ok','id':'x'}"));
    assert_int_equal(k->hub.allowances.all.n, 0);
    assert_true(asks_for(k, c, "c", json(CALL("a", "deed", "1"))));
    client_free(c);
}

static void test_hub_restart_asks_again(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    allow(k, c, json(CALL("a", "deed", "1")));
    client_free(c);
    kit_crash(k);
    c = client_new(k, "ann");
    assert_true(asks_for(k, c, "c", json(CALL("a", "deed", "1"))));
    client_free(c);
}

/* Another home may have deleted the conversation meanwhile. */
static void test_hub_owner_who_comes_back_is_asked_again(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann"), *bob = client_new(k, "bob");
    struct slots anns = {0};
    int status = 1;
    allow(k, c, json(CALL("a", "deed", "1")));
    allow(k, bob, json(CALL("a", "deed", "1")));
    client_free(c);
    slots_add(&anns, slot_of(STR("ann")));
    k->hub.o.shared = true;
    hub_close_slots(&k->hub, &anns);
    hub_leave(&k->hub, &anns);
    kit_settle(k);
    hub_restore_slots(&k->hub, &anns, NULL, (struct tenure){1, ""}, kit_on_ready, &status);
    kit_settle(k);
    assert_int_equal(status, 0);
    c = client_new(k, "ann");
    assert_true(asks_for(k, c, "c", json(CALL("a", "deed", "1"))));
    assert_false(asks_for(k, bob, "c", json(CALL("a", "deed", "1"))));
    client_free(c);
    client_free(bob);
}

static void test_hub_open_question_takes_its_options_over_a_restart(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = call_in(k, c, "c", json(CALL("a", "deed", "1")));
    client_free(c);
    kit_crash(k);
    assert_int_equal(n_jobs, 0);
    c = client_new(k, "ann");
    answer(c, "c", task, json("'conversation'"));
    assert_int_equal(n_jobs, 1);
    client_ask(c, "resume", "c", task, json(",'after':0"));
    over(k, c);
    assert_false(asks_for(k, c, "c", json(CALL("a", "deed", "1"))));
    client_free(c);
}

/* A connection with a token of the owner's that may answer in the conversation c. */
static struct client *visitor_new(struct kit *k)
{
    struct js_doc doc = {0};
    struct str claim = STR("{\"conversations\":[{\"id\":\"c\",\"rights\":[\"read\",\"answer\"]}]}");
    struct client *c = xcalloc(sizeof *c);
    c->kit = k;
    session_init(&c->session, &k->hub, &client_ops, c);
    assert_true(js_parse(&doc, claim.p, claim.n, JS_OURS));
    struct owner *ann = owner_ref(&k->hub, STR("ann"));
    struct asker who = {.owner = ann, .quota = ann, .rights = rights_read(&doc, 0, STR_NULL)};
    session_adopt(&c->session, &who);
    rights_unref(who.rights);
    owner_unref(&k->hub, ann);
    js_done(&doc);
    return c;
}

static void test_hub_visitor_allows_one_call_alone(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann"), *visitor = visitor_new(k);
    const char *task = call_in(k, c, "c", json(CALL("a", "deed", "1")));
    answer(visitor, "c", task, json("'conversation'"));
    client_await(visitor, json("'type':'ok'"));
    client_await(c, json("'event':'input_received','data':{'input_id':'approve-1',"
                         "'answer':'once'}"));
    assert_int_equal(n_jobs, 1);
    answer(visitor, "c", task, json("'conversation'")); /* the same again */
    client_await(visitor, json("'type':'ok'"));
    answer(c, "c", task, json("'conversation'")); /* the owner's would have been another one */
    client_await(c, json("'code':'conflict'"));
    over(k, c);
    answer(visitor, "c", task, json("'conversation'"));
    client_await(visitor, json("'type':'ok'"));
    answer(c, "c", task, json("'conversation'"));
    client_await(c, json("'code':'conflict'"));
    assert_true(asks_for(k, c, "c", json(CALL("a", "deed", "1"))));
    client_free(visitor);
    client_free(c);
}

/* Options that an agent has made are its own. */
static void test_hub_visitor_answers_an_agent_as_it_says(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann"), *visitor = visitor_new(k);
    const char *task =
        call_in(k, c, "c",
                json("{'event':'input_required','data':{'input_id':'approve-1',"
                     "'kind':'approval','prompt':'?','options':['conversation','reject']}}"));
    answer(visitor, "c", task, json("'conversation'"));
    client_await(c, json("'event':'input_received','data':{'input_id':'approve-1',"
                         "'answer':'conversation'}"));
    over(k, c);
    client_free(visitor);
    client_free(c);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_hub_question_about_a_topic_has_options),
        TEST(test_hub_question_without_a_topic_has_none),
        TEST(test_hub_allowed_call_is_asked_about_elsewhere),
        TEST(test_hub_no_allows_nothing),
        TEST(test_hub_deleted_conversation_takes_what_it_allowed_along),
        TEST(test_hub_restart_asks_again),
        TEST(test_hub_owner_who_comes_back_is_asked_again),
        TEST(test_hub_open_question_takes_its_options_over_a_restart),
        TEST(test_hub_visitor_allows_one_call_alone),
        TEST(test_hub_visitor_answers_an_agent_as_it_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
