/* notify_on_complete: the end of a task starts a turn of the conversation's agent, exactly once. */
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

#define NOTIFY(message)                                                                 \
    "{'type':'chat','conversation_id':'c','background':true,'notify_on_complete':true," \
    "'name':'" message "','message':'" message "'}"

static const char *start_notifying(struct client *c, const char *line)
{
    client_say(c, line);
    return line_field(client_await(c, json("'started'")), "task_id");
}

static void test_notice_end_starts_a_turn_of_the_last_chat_s_agent(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_say(c, json("{'type':'chat','conversation_id':'c','agent':'second','message':'hi'}"));
    client_await(c, json("'started'"));
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    const char *task = start_notifying(c, json(NOTIFY("build")));
    client_free(c); /* nobody is connected when it ends */
    struct run *r = kit_run(k, 1);
    for (int i = 0; i < 600; i++) /* 4 characters each, 5 bytes */
        run_say(k, r, json("{'event':'token','data':{'text':'wör!'}}"));
    run_end(k, r, RUN_DONE, "");
    assert_int_equal(k->n_runs, 3);
    struct run *turn = kit_run(k, 2);
    assert_memory_equal(turn->input, "Background task ", 16);
    assert_memory_equal(turn->input + 16, task, TASK_ID_LEN);
    assert_non_null(strstr(turn->history.bytes, json("{'role':'user','content':'hi'}")));

    c = client_new(k, "ann");
    client_say(c, json("{'type':'history','conversation_id':'c'}"));
    const char *message = client_await(c, json("'role':'system'"));
    const char *text = strstr(message, "(build) has completed. The end of its output:\\n");
    assert_non_null(text);
    text = strstr(text, "\\n") + 2;
    assert_int_equal(strcspn(text, json("'")), 500 * 5); /* the last 2,000 characters, none cut */
    client_say(c, json("{'type':'tasks','conversation_id':'c'}"));
    message = client_await(c, json("'type':'tasks'"));
    assert_non_null(strstr(message, json("'type':'notice'")));
    const char *agent =
        strstr(message, json("'agent':'second'")); /* of the chat, and of the turn */
    assert_non_null(agent);
    assert_non_null(strstr(agent + 1, json("'agent':'second'")));
    run_end(k, turn, RUN_DONE, "");
    assert_int_equal(k->n_runs, 3); /* and no turn about the turn */
    client_free(c);
}

static void test_notice_waits_while_the_conversation_is_busy(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    start_notifying(c, json(NOTIFY("one")));
    start_notifying(c, json(NOTIFY("two")));
    client_start(c, "c", "chat");
    client_say(
        c, json("{'type':'chat','conversation_id':'c','when_busy':'enqueue','message':'next'}"));
    run_end(k, kit_run(k, 1), RUN_FAILED, "it broke");
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    assert_int_equal(k->n_runs, 3);
    run_end(k, kit_run(k, 2), RUN_DONE, "");
    assert_int_equal(k->n_runs, 4); /* who was in the queue goes first */
    assert_string_equal(kit_run(k, 3)->input, "next");
    run_end(k, kit_run(k, 3), RUN_DONE, "");
    assert_int_equal(k->n_runs, 5); /* one turn at a time, in order of creation */
    client_say(c, json("{'type':'history','conversation_id':'c'}"));
    const char *history = client_await(c, json("'type':'history'"));
    assert_non_null(strstr(history, "(one) has completed."));
    assert_null(strstr(history, "(two)"));
    run_end(k, kit_run(k, 4), RUN_DONE, "");
    assert_int_equal(k->n_runs, 6);
    client_say(c, json("{'type':'history','conversation_id':'c'}"));
    assert_non_null(strstr(client_await(c, json("'type':'history'")),
                           "(two) has failed: agent_error: it broke."));
    run_end(k, kit_run(k, 5), RUN_DONE, "");
    assert_int_equal(k->n_runs, 6);
    client_free(c);
}

static void test_notice_of_a_cancel_starts_no_turn_and_is_told_in_the_next(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_ask(c, "cancel", "c", start_notifying(c, json(NOTIFY("stopped"))), "");
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    client_free(c);
    kit_crash(k);
    assert_int_equal(k->n_runs, 1);
    c = client_new(k, "ann");
    start_notifying(c, json(NOTIFY("other")));
    assert_int_equal(k->n_runs, 2); /* a background task is no turn */
    client_start(c, "c", "and now?");
    assert_non_null(strstr(kit_run(k, 2)->history.bytes, "(stopped) was cancelled."));
    client_say(c, json("{'type':'cancel_all','conversation_id':'c'}"));
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    run_end(k, kit_run(k, 2), RUN_DONE, "");
    client_start(c, "c", "more?");
    const char *history = kit_run(k, 3)->history.bytes;
    assert_non_null(strstr(history, "(other) was cancelled."));
    const char *told = strstr(history, "(stopped)");
    assert_null(strstr(told + 1, "(stopped)")); /* once */
    run_end(k, kit_run(k, 3), RUN_DONE, "");
    client_free(c);
}

static void test_notice_turns_in_a_row_end_at_eight_until_the_user_speaks(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_say(c, json("{'type':'open','conversation_id':'c','follow':true}"));
    char line[256];
    for (int i = 0; i < 10; i++) {
        snprintf(line, sizeof line, json(NOTIFY("%d")), i, i);
        start_notifying(c, line);
    }
    for (size_t i = 0; i < 10; i++)
        run_end(k, kit_run(k, i), RUN_DONE, "");
    for (size_t i = 10; i < 18; i++) {
        assert_int_equal(k->n_runs, i + 1);
        run_end(k, kit_run(k, i), RUN_DONE, "");
    }
    assert_int_equal(k->n_runs, 18);
    client_await(c, json("'event':'custom','data':{'event_type':'notices_paused'"));
    client_free(c);
    kit_crash(k);
    assert_int_equal(k->n_runs, 18);
    c = client_new(k, "ann");
    client_start(c, "c", "go on");
    run_end(k, kit_run(k, 18), RUN_DONE, "");
    for (size_t i = 19; i < 21; i++) {
        assert_int_equal(k->n_runs, i + 1);
        run_end(k, kit_run(k, i), RUN_DONE, "");
    }
    assert_int_equal(k->n_runs, 21);
    client_free(c);
}

static void test_notice_waits_for_room_and_for_the_store(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    start_notifying(c, json(NOTIFY("job")));
    client_start(c, "d", "other conversation");
    k->hub.o.limits.tasks_per_owner = 1;
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    assert_int_equal(k->n_runs, 2);
    store_inline_fail_queries(k->inline_store, 2, STORE_IO);
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    assert_int_equal(k->n_runs, 2); /* who it is for could not be read */
    kit_pass(k, 1000);
    assert_int_equal(k->n_runs, 2);
    store_inline_fail_commits(k->inline_store, 1, STORE_FULL);
    kit_pass(k, 1000);
    kit_pass(k, 1000);
    assert_int_equal(k->n_runs, 3);
    run_end(k, kit_run(k, 2), RUN_DONE, "");
    client_free(c);
}

static void test_notice_whose_turn_is_given_up_has_another(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    start_notifying(c, json(NOTIFY("job")));
    struct run *r = kit_run(k, 0);
    r->events->on_end(r->task, RUN_DONE, STR_NULL);
    kit_turn(k);
    assert_true(store_inline_step_commit(k->inline_store)); /* the end, with its notice */
    kit_turn(k);
    while (store_inline_step_query(k->inline_store))
        kit_turn(k);
    store_inline_fail_commits(k->inline_store, 1000, STORE_FULL); /* the turn */
    for (int i = 0; i < 40; i++)
        kit_pass(k, 1000);
    assert_int_equal(k->n_runs, 1);
    store_inline_fail_commits(k->inline_store, 0, STORE_OK);
    kit_pass(k, 5000);
    assert_int_equal(k->n_runs, 2);
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    assert_int_equal(k->n_runs, 2);
    client_free(c);
}

static void test_notice_goes_with_its_conversation(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "busy");
    start_notifying(c, json(NOTIFY("job")));
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    session_receive(&c->session, str_of(json("{'type':'delete','conversation_id':'c'}")));
    kit_settle(k);
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    assert_int_equal(k->n_runs, 2);
    client_start(c, "c", "again");
    run_end(k, kit_run(k, 2), RUN_DONE, "");
    assert_int_equal(k->n_runs, 3);
    client_free(c);
    kit_crash(k);
    assert_int_equal(k->n_runs, 3);
}

static void test_notice_ends_that_come_close_are_one_turn(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    k->hub.o.notice_join_ms = 100;
    start_notifying(c, json(NOTIFY("one")));
    start_notifying(c, json(NOTIFY("two")));
    start_notifying(c, json(NOTIFY("three")));
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    kit_pass(k, 99);
    assert_int_equal(k->n_runs, 3); /* it waits for others */
    run_end(k, kit_run(k, 1), RUN_FAILED, "it broke");
    assert_int_equal(k->n_runs, 3);
    kit_pass(k, 1);
    assert_int_equal(k->n_runs, 4);
    client_say(c, json("{'type':'history','conversation_id':'c'}"));
    const char *message = client_await(c, json("'role':'system'"));
    assert_non_null(strstr(message, "(one) has completed.\\n\\nBackground task "));
    assert_non_null(strstr(message, "(two) has failed: agent_error: it broke."));
    run_end(k, kit_run(k, 3), RUN_DONE, "");
    kit_pass(k, 1000);
    assert_int_equal(k->n_runs, 4);
    run_end(k, kit_run(k, 2), RUN_DONE, ""); /* too late for that turn */
    kit_pass(k, 100);
    assert_int_equal(k->n_runs, 5);
    client_say(c, json("{'type':'history','conversation_id':'c'}"));
    assert_non_null(strstr(client_await(c, json("'type':'history'")), "(three) has completed."));
    run_end(k, kit_run(k, 4), RUN_DONE, "");
    client_free(c);
    kit_crash(k);
    assert_int_equal(k->n_runs, 5); /* all of them were told */
}

static void test_notice_agent_says_what_begins_a_turn(void **state)
{
    static const struct {
        enum notify notify;
        int turns; /* of an end, and of a failure */
    } rows[] = {{NOTIFY_ALL, 2}, {NOTIFY_RESULT, 2}, {NOTIFY_ERROR, 1}, {NOTIFY_OFF, 0}};
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    for (size_t i = 0; i < countof(rows); i++) {
        for (size_t j = 0; j < k->hub.o.n_agents; j++)
            ((struct agent *)(uintptr_t)k->hub.o.agents)[j].notify = rows[i].notify;
        size_t n = k->n_runs;
        start_notifying(c, json(NOTIFY("good")));
        start_notifying(c, json(NOTIFY("bad")));
        run_end(k, kit_run(k, n), RUN_DONE, "");
        run_end(k, kit_run(k, n + 1), RUN_FAILED, "it broke");
        for (int turn = 0; turn < rows[i].turns; turn++)
            run_end(k, kit_run(k, n + 2 + (size_t)turn), RUN_DONE, "");
        assert_int_equal(k->n_runs, n + 2 + (size_t)rows[i].turns);
        client_start(c, "c", "and?"); /* what began no turn is told now */
        n = k->n_runs - 1;
        assert_non_null(strstr(kit_run(k, n)->history.bytes, "(good) has completed."));
        assert_non_null(strstr(kit_run(k, n)->history.bytes, "(bad) has failed"));
        run_end(k, kit_run(k, n), RUN_DONE, "");
        client_say(c, json("{'type':'delete','conversation_id':'c'}"));
        client_await(c, json("'type':'ok'"));
    }
    client_free(c);
}

#define HUB_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HUB_TEST(test_notice_end_starts_a_turn_of_the_last_chat_s_agent),
        HUB_TEST(test_notice_waits_while_the_conversation_is_busy),
        HUB_TEST(test_notice_of_a_cancel_starts_no_turn_and_is_told_in_the_next),
        HUB_TEST(test_notice_turns_in_a_row_end_at_eight_until_the_user_speaks),
        HUB_TEST(test_notice_waits_for_room_and_for_the_store),
        HUB_TEST(test_notice_whose_turn_is_given_up_has_another),
        HUB_TEST(test_notice_goes_with_its_conversation),
        HUB_TEST(test_notice_ends_that_come_close_are_one_turn),
        HUB_TEST(test_notice_agent_says_what_begins_a_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
