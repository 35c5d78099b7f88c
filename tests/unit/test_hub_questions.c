/* The cost of questions and approvals: their lines, and the part that is kept. */
#include "tests/support/hub_kit.h"

#define PROMPT 16384 /* control characters, each six bytes when it is quoted */

static unsigned n_started;

static bool asks(const struct tool *tool, const struct tool_caller *caller, struct str arguments,
                 struct buf *question)
{
    (void)tool;
    (void)caller;
    (void)arguments;
    for (int i = 0; i < PROMPT; i++)
        buf_putc(question, 1);
    return true;
}

static struct tool_job *start(const struct tool *tool, const struct tool_caller *caller,
                              struct str arguments, tool_done_fn done, void *user, struct buf *out)
{
    (void)tool;
    (void)caller;
    (void)arguments;
    (void)done;
    (void)user;
    n_started++;
    buf_puts(out, "it never starts");
    return NULL;
}

static const struct tool asking = {.name = "asking", .start = start, .asks = asks};
static const struct tool *const tools[] = {&asking};

static int setup(void **state)
{
    struct kit *k = kit_new();
    n_started = 0;
    k->agents[0].tools = tools;
    k->agents[0].n_tools = countof(tools);
    *state = k;
    return 0;
}

static int teardown(void **state)
{
    kit_free_all(*state);
    return 0;
}

/* A call whose arguments have so many bytes, and whose approval's line has about 98,700 more. */
static void call_asking(struct kit *k, struct run *r, size_t n)
{
    struct buf line = {0};
    buf_puts(&line, json("{'call':'tool','call_id':'a','name':'asking','arguments':{'x':'"));
    for (size_t i = strlen(json("{'x':''}")); i < n; i++)
        buf_putc(&line, 'x');
    buf_puts(&line, json("'}}"));
    run_say(k, r, line.bytes);
    buf_done(&line);
}

static void test_hub_approval_whose_event_would_be_too_long_fails_the_task(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "go");
    struct run *r = kit_run(k, 0);
    call_asking(k, r, 1000000);
    assert_int_equal(r->cancels, 1);
    run_end(k, r, RUN_FAILED, "");
    assert_null(strstr(c->got.bytes, json("'event':'input_required'")));
    const char *end = client_await(c, json("'event':'task.failed'"));
    assert_non_null(strstr(end, json("'code':'limit'")));
    assert_non_null(strstr(end, "limit: input_required: the event's line exceeds 1 MiB"));
    assert_int_equal(n_started, 0);
    client_free(c);
}

static void test_hub_approval_that_fits_is_asked(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    struct run *r = kit_run(k, 0);
    call_asking(k, r, 900000);
    const char *line = client_await(c, json("'event':'input_required'"));
    assert_true(strlen(line) > 990000);
    client_ask(c, "respond", "c", task, json(",'input_id':'approve-1','answer':true"));
    client_await(c, json("'type':'ok'"));
    assert_int_equal(n_started, 1);
    run_end(k, r, RUN_DONE, "");
    client_free(c);
}

/* The fields of an answer, of 700 bytes; variant tells one from another at its end. */
static const char *answer_fields(unsigned n, char variant)
{
    static char fields[800];
    snprintf(fields, sizeof fields, json(",'input_id':'q%u','answer':'%0699u%c'"), n, n, variant);
    return fields;
}

static void ask(struct kit *k, struct run *r, unsigned n)
{
    char line[128];
    snprintf(line, sizeof line,
             json("{'event':'input_required','data':{'input_id':'q%u','kind':'question',"
                  "'prompt':'?'}}"),
             n);
    run_say(k, r, line);
}

/* The answers that the task's record has. */
static size_t stored_answers(struct kit *k, const char *task)
{
    struct answer answer = {0};
    void *reader = store_memory_ops.reader_open(k->store);
    struct query q = {.kind = QUERY_TASK,
                      .owner = STR("ann"),
                      .conversation_id = STR("c"),
                      .task_id = str_of(task)};
    assert_int_equal(store_memory_ops.query(reader, &q, &answer), STORE_OK);
    size_t n = answer.tasks[0].state.answers.n;
    answer_done(&answer);
    store_memory_ops.reader_close(reader);
    return n;
}

static void expect_answers(struct client *c, const char *task)
{
    const struct {
        unsigned n;
        char variant;
        const char *reply;
    } rows[] = {{MAX_QUESTIONS + 1, 'a', json("'type':'ok'")},
                {MAX_QUESTIONS + 1, 'b', json("'code':'conflict'")},
                {3, 'a', json("'type':'ok'")},
                {3, 'b', json("'code':'conflict'")},
                {1, 'a', json("'code':'not_found'")}}; /* forgotten */
    for (size_t i = 0; i < countof(rows); i++) {
        client_ask(c, "respond", "c", task, answer_fields(rows[i].n, rows[i].variant));
        client_await(c, rows[i].reply);
    }
}

/* The last of them are told from others, while it lives and when it has ended; an answer of any
 * size takes less than 100 bytes. */
static void test_hub_answered_questions_are_kept_in_bounds(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    char task[TASK_ID_LEN + 1];
    snprintf(task, sizeof task, "%s", client_start(c, "c", "go"));
    struct run *r = kit_run(k, 0);
    for (unsigned n = 1; n <= MAX_QUESTIONS + 1; n++) {
        ask(k, r, n);
        client_ask(c, "respond", "c", task, answer_fields(n, 'a'));
        client_await(c, json("'type':'ok'"));
        kit_pass(k, 100); /* the rate of requests is another matter */
    }
    assert_int_equal(r->cancels, 0);
    expect_answers(c, task);
    ask(k, r, 1); /* its id is free again, and only the newest is asked */
    client_await(c, json("'event':'input_required','data':{'input_id':'q1'"));
    run_end(k, r, RUN_DONE, "");
    client_await(c, json("'event':'task.completed'"));
    assert_true(stored_answers(k, task) < MAX_QUESTIONS * 100);
    kit_pass(k, 5000);
    client_ask(c, "respond", "c", task, answer_fields(MAX_QUESTIONS, 'a'));
    client_await(c, json("'type':'ok'"));
    client_ask(c, "respond", "c", task, answer_fields(MAX_QUESTIONS, 'b'));
    client_await(c, json("'code':'conflict'"));
    client_ask(c, "respond", "c", task, answer_fields(2, 'a'));
    client_await(c, json("'type':'ok'"));
    client_free(c);
}

static void test_hub_too_many_open_questions_fail_the_task(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "go");
    struct run *r = kit_run(k, 0);
    for (unsigned n = 1; n <= MAX_QUESTIONS; n++)
        ask(k, r, n);
    assert_int_equal(r->cancels, 0);
    ask(k, r, MAX_QUESTIONS + 1);
    assert_int_equal(r->cancels, 1);
    run_end(k, r, RUN_FAILED, "");
    const char *end = client_await(c, json("'event':'task.failed'"));
    assert_non_null(strstr(end, "limit: more than 1000 questions are open at once"));
    client_free(c);
}

#define HUB_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HUB_TEST(test_hub_approval_whose_event_would_be_too_long_fails_the_task),
        HUB_TEST(test_hub_approval_that_fits_is_asked),
        HUB_TEST(test_hub_answered_questions_are_kept_in_bounds),
        HUB_TEST(test_hub_too_many_open_questions_fail_the_task),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
