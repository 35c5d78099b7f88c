/* One suite for every store: what core relies on, on both backends. */
#include "tests/contract/store_kit.h"

static int setup(void **state)
{
    bool sqlite = strcmp(*state, "sqlite") == 0;
    *state = kit_new(sqlite);
    return 0;
}

static int teardown(void **state)
{
    kit_free(*state);
    return 0;
}

static struct query about(enum query_kind kind, const char *owner, const char *conversation)
{
    return (struct query){
        .kind = kind, .owner = str_of(owner), .conversation_id = str_of(conversation)};
}

static struct query about_task(const char *owner, const char *conversation, const char *task_id)
{
    struct query q = about(QUERY_TASK, owner, conversation);
    q.task_id = str_of(task_id);
    return q;
}

/* ---------------------------------------------------------------------------- tasks */

static void test_empty_store_starts_at_key_one(void **state)
{
    struct fixture *f = *state;
    struct store_start start;
    assert_int_equal(f->ops->start(f->store, &start), STORE_OK);
    assert_int_equal(start.next_key, 1);
    assert_string_equal(start.newest_id, "");
    commit(f); /* an empty batch is a batch */
    assert_int_equal(ask_status(f, about_task("o", "c", "t")), STORE_NOT_FOUND);
    assert_int_equal(ask_status(f, about(QUERY_CONVERSATION, "o", "c")), STORE_NOT_FOUND);
    assert_int_equal(ask(f, about(QUERY_LIVE, NULL, NULL))->n_tasks, 0);
    assert_int_equal(ask(f, about(QUERY_TAILS, NULL, NULL))->n_blocks, 0);
}

/* Each field another value, strings with NUL bytes, empty and absent ones. */
static void test_task_comes_back_as_it_was_put(void **state)
{
    struct fixture *f = *state;
    struct task_record t = {
        .key = 41,
        .type = TYPE_CHILD,
        .notify_on_complete = true,
        .created_at = 1764280000000,
        .owner = STR("own\0er"),
        .conversation_id = STR("c\0-1"),
        .task_id = STR("01ARZ3NDEKTSV4RRFFQ69G5FAV"),
        .agent = STR("a"),
        .name = STR("n"),
        .description = STR(""),
        .input = STR("in\0put"),
        .metadata = STR("{}"),
        .parent_task_id = STR("p1"),
        .parent_run_id = STR("p2"),
        .parent_call_id = STR("p3"),
        .parent_agent_id = STR("p4"),
        .state = {.status = STATUS_FAILED,
                  .error = TASK_LIMIT,
                  .progress = 0.25,
                  .first = 3,
                  .head = 9007199254740991,
                  .cancel_requested_at = 1,
                  .started_at = 2,
                  .completed_at = 3,
                  .output_truncated = true,
                  .acked = true,
                  .error_message = STR("limit"),
                  .output = STR("\0\0"),
                  .result = STR("[1]"),
                  .undelivered = STR("[2]"),
                  .waiting_for = STR("q")},
    };
    struct buf expected = {0}, got = {0};
    text_task(&expected, &t);
    put_record(f, t);
    commit(f);
    kit_reopen(f);
    struct query q = {.kind = QUERY_TASK,
                      .owner = t.owner,
                      .conversation_id = t.conversation_id,
                      .task_id = t.task_id};
    text_task(&got, &ask(f, q)->tasks[0]);
    bool same = str_eq(buf_str(&expected), buf_str(&got));
    buf_done(&expected);
    buf_done(&got);
    assert_true(same);

    q.owner = STR("own\0eR"); /* what stands behind a NUL counts */
    assert_int_equal(ask_status(f, q), STORE_NOT_FOUND);
    q.owner = STR("own");
    assert_int_equal(ask_status(f, q), STORE_NOT_FOUND);
    q.owner = t.owner;
    q.conversation_id = STR("c\0-2");
    assert_int_equal(ask_status(f, q), STORE_NOT_FOUND);
}

/* Promise 5: one answer, whatever does not fit. */
static void test_task_is_found_by_all_three_ids_only(void **state)
{
    struct fixture *f = *state;
    put_task(f, 1, "ann", "c", "t1");
    put_task(f, 2, "bob", "c", "t2");
    put_task(f, 3, "ann", "d", "t3");
    put_task(f, 4, "ann", "d", "t1"); /* ids need be unique in a conversation only */
    commit(f);
    assert_int_equal(ask(f, about_task("ann", "c", "t1"))->tasks[0].key, 1);
    assert_int_equal(ask(f, about_task("ann", "d", "t1"))->tasks[0].key, 4);
    assert_int_equal(ask_status(f, about_task("bob", "c", "t1")), STORE_NOT_FOUND);
    assert_int_equal(ask_status(f, about_task("ann", "c", "t3")), STORE_NOT_FOUND);
    assert_int_equal(ask_status(f, about_task("ann", "c", "t9")), STORE_NOT_FOUND);
    assert_int_equal(ask_status(f, about_task("", "c", "t1")), STORE_NOT_FOUND);
    assert_int_equal(ask_status(f, about_task(NULL, NULL, NULL)), STORE_NOT_FOUND);
    assert_int_equal(f->answer.n_tasks, 0);
}

static void test_task_set_changes_the_changing_half(void **state)
{
    struct fixture *f = *state;
    put_task(f, 1, "o", "c", "t");
    commit(f);
    put_state(f, 1, (struct task_state){.status = STATUS_COMPLETED, .head = 9, .output = STR("x")});
    put_state(f, 2, (struct task_state){.status = STATUS_FAILED}); /* no such task: no effect */
    commit(f);
    const struct task_record *t = ask(f, about_task("o", "c", "t"))->tasks;
    assert_int_equal(t->state.status, STATUS_COMPLETED);
    assert_int_equal(t->state.head, 9);
    assert_str(t->state.output, "x");
    assert_str(t->input, "do it");
    assert_int_equal(t->created_at, 1001);
}

static void test_tasks_are_listed_newest_first(void **state)
{
    struct fixture *f = *state;
    put_task(f, 1, "o", "c", "t1");
    put_task(f, 2, "o", "c", "t3");
    put_task(f, 3, "o", "c", "t2");
    put_task(f, 4, "o", "d", "t4");
    put_task(f, 5, "p", "c", "t5");
    put_state(f, 3, (struct task_state){.status = STATUS_COMPLETED, .output = STR("long")});
    commit(f);
    struct query q = about(QUERY_TASKS, "o", "c");
    q.limit = 2;
    struct answer *a = ask(f, q);
    assert_int_equal(a->n_tasks, 2);
    assert_true(a->more);
    assert_str(a->tasks[0].task_id, "t3");
    assert_str(a->tasks[1].task_id, "t2");
    assert_null(a->tasks[1].state.output.p); /* lists are brief */
    assert_null(a->tasks[1].input.p);
    q.before = STR("t2");
    a = ask(f, q);
    assert_int_equal(a->n_tasks, 1);
    assert_false(a->more);
    assert_str(a->tasks[0].task_id, "t1");
    q.before = STR_NULL;
    q.limit = 3;
    assert_false(ask(f, q)->more); /* exactly all */
    q.has_status = true;
    q.status = STATUS_COMPLETED;
    assert_int_equal(ask(f, q)->n_tasks, 1);
    q.status = STATUS_RUNNING;
    a = ask(f, q);
    assert_int_equal(a->n_tasks, 2);
    assert_str(a->tasks[1].task_id, "t1");
    q.status = STATUS_FAILED;
    assert_int_equal(ask(f, q)->n_tasks, 0);
    assert_int_equal(ask(f, about(QUERY_TASKS, "o", "nowhere"))->n_tasks, 0);
}

static void test_results_are_ended_background_tasks_not_acked(void **state)
{
    struct fixture *f = *state;
    static const char *const ids[] = {"r1", "r2", "r3", "r4"};
    for (int i = 0; i < 4; i++) {
        struct task_record t = task_of(1 + i, "o", "c", ids[i]);
        t.type = TYPE_BACKGROUND;
        t.state.status = i == 3 ? STATUS_RUNNING : STATUS_COMPLETED;
        t.state.output = i == 3 ? STR_NULL : STR("out");
        put_record(f, t);
    }
    put_task(f, 9, "o", "c", "chat");
    put_state(f, 9, (struct task_state){.status = STATUS_COMPLETED});
    commit(f);
    struct query q = about(QUERY_RESULTS, "o", "c");
    q.limit = 2;
    struct answer *a = ask(f, q);
    assert_int_equal(a->n_tasks, 2);
    assert_true(a->more);
    assert_str(a->tasks[0].task_id, "r2"); /* the newest, the oldest of them first */
    assert_str(a->tasks[1].task_id, "r3");
    assert_str(a->tasks[1].input, "do it");
    assert_str(a->tasks[1].state.output, "out");
    q.before = STR("r2");
    a = ask(f, q);
    assert_int_equal(a->n_tasks, 1);
    assert_false(a->more);
    put_ack(f, "o", "c", "r1");
    put_ack(f, "p", "c", "r2"); /* not theirs */
    put_ack(f, "o", "c", "none");
    commit(f);
    q.before = STR_NULL;
    a = ask(f, q);
    assert_int_equal(a->n_tasks, 2);
    assert_false(a->more);
    assert_true(ask(f, about_task("o", "c", "r1"))->tasks[0].state.acked);
    assert_false(ask(f, about_task("o", "c", "r2"))->tasks[0].state.acked);
}

static void test_live_tasks_of_all_owners_by_key(void **state)
{
    struct fixture *f = *state;
    put_task(f, 7, "o", "c", "t7");
    put_task(f, 3, "p", "c", "t3");
    put_task(f, 5, "o", "d", "t5");
    put_task(f, 4, "o", "d", "t4");
    put_state(f, 4, (struct task_state){.status = STATUS_CANCELLED});
    put_lines(f, 5, 1, 4);
    put_seal(f, 5, 1, 6);
    put_lines(f, 5, 7, 8);
    commit(f);
    kit_reopen(f);
    struct query q = {.kind = QUERY_LIVE, .limit = 2};
    struct answer *a = ask(f, q);
    assert_int_equal(a->n_tasks, 2);
    assert_true(a->more);
    assert_int_equal(a->tasks[0].key, 3);
    assert_int_equal(a->tasks[1].key, 5);
    assert_int_equal(a->tasks[1].state.head, 6); /* sealed lines count */
    assert_str(a->tasks[1].input, "do it");
    q.after = 5;
    a = ask(f, q);
    assert_int_equal(a->n_tasks, 1);
    assert_int_equal(a->tasks[0].key, 7);
    assert_false(a->more);
}

static void test_request_key_finds_its_task(void **state)
{
    struct fixture *f = *state;
    put_task(f, 1, "o", "c", "t1");
    put_task(f, 2, "o", "c", "t2");
    put_key(f, "o", "k", "c", "t1");
    put_key(f, "o", "lost", "c", "gone");
    commit(f);
    struct query q = {.kind = QUERY_KEY, .owner = STR("o"), .key = STR("k")};
    assert_int_equal(ask(f, q)->tasks[0].key, 1);
    q.owner = STR("p");
    assert_int_equal(ask_status(f, q), STORE_NOT_FOUND);
    q = (struct query){.kind = QUERY_KEY, .owner = STR("o"), .key = STR("k\0")};
    assert_int_equal(ask_status(f, q), STORE_NOT_FOUND);
    q.key = STR("lost");
    assert_int_equal(ask_status(f, q), STORE_NOT_FOUND);
    put_key(f, "o", "k", "c", "t2"); /* a key whose time is over may be used anew */
    commit(f);
    q.key = STR("k");
    assert_int_equal(ask(f, q)->tasks[0].key, 2);
}

/* ---------------------------------------------------------------------------- lines */

static void test_tails_hold_exactly_what_is_not_sealed(void **state)
{
    struct fixture *f = *state;
    put_task(f, 1, "o", "c", "t1");
    put_task(f, 2, "o", "c", "t2");
    put_lines(f, 2, 1, 1);
    put_lines(f, 1, 1, 3);
    put_lines(f, 2, 2, 5);
    put_lines(f, 9, 1, 1); /* no such task: no effect */
    commit(f);
    put_lines(f, 1, 4, 4);
    commit(f);
    struct answer *a = ask(f, about(QUERY_TAILS, NULL, NULL));
    assert_int_equal(a->n_blocks, 2);
    assert_lines(a, 0, 1, 1, 4);
    assert_lines(a, 1, 2, 1, 5);

    put_seal(f, 1, 1, 7); /* also lines that were never put alone */
    commit(f);
    kit_reopen(f);
    a = ask(f, about(QUERY_TAILS, NULL, NULL));
    assert_int_equal(a->n_blocks, 1);
    assert_lines(a, 0, 2, 1, 5);

    put_lines(f, 1, 8, 9);
    put_seal(f, 2, 1, 5);
    put_lines(f, 2, 6, 6);
    commit(f);
    kit_reopen(f);
    a = ask(f, about(QUERY_TAILS, NULL, NULL));
    assert_int_equal(a->n_blocks, 2);
    assert_lines(a, 0, 1, 8, 9);
    assert_lines(a, 1, 2, 6, 6);
}

static void test_tails_come_in_pages(void **state)
{
    struct fixture *f = *state;
    for (int64_t key = 1; key <= 5; key++) {
        char id[16];
        snprintf(id, sizeof id, "t%d", (int)key);
        put_task(f, key, "o", "c", id);
        put_lines(f, key, 1, 2);
    }
    commit(f);
    struct query q = {.kind = QUERY_TAILS, .limit = 2};
    struct answer *a = ask(f, q);
    assert_int_equal(a->n_blocks, 2);
    assert_true(a->more);
    put_lines(f, 4, 3, 3); /* between two pages */
    commit(f);
    q.after = 2;
    a = ask(f, q);
    assert_lines(a, 0, 3, 1, 2);
    assert_lines(a, 1, 4, 1, 3);
    assert_true(a->more);
    q.after = 4;
    a = ask(f, q);
    assert_int_equal(a->n_blocks, 1);
    assert_false(a->more);
    q = (struct query){.kind = QUERY_TAILS, .max_bytes = 1};
    assert_int_equal(ask(f, q)->n_blocks, 1);
}

static void test_blocks_from_any_position(void **state)
{
    struct fixture *f = *state;
    put_task(f, 1, "o", "c", "t1");
    put_task(f, 2, "o", "c", "t2");
    commit(f);
    for (uint64_t first = 1; first <= 91; first += 10) {
        put_lines(f, 1, first, first + 3);
        put_seal(f, 1, first, first + 9);
        put_seal(f, 2, first, first + 9);
        commit(f);
    }
    put_lines(f, 1, 101, 105);
    commit(f);
    kit_reopen(f);
    for (uint64_t after = 0; after <= 100; after++) {
        struct query q = {.kind = QUERY_BLOCKS, .task_key = 1, .after = after};
        struct answer *a = ask(f, q);
        uint64_t first = after / 10 * 10 + 1;
        size_t n = after < 100 ? 10 - (size_t)after / 10 : 0;
        assert_int_equal(a->n_blocks, n);
        assert_false(a->more);
        if (n)
            assert_lines(a, 0, 1, first, 100);
        q.max_bytes = 1; /* at least one */
        a = ask(f, q);
        assert_int_equal(a->n_blocks, n ? 1 : 0);
        assert_int_equal(a->more, n > 1);
    }
    struct query q = {.kind = QUERY_BLOCKS, .task_key = 3};
    assert_int_equal(ask(f, q)->n_blocks, 0);
    q = (struct query){.kind = QUERY_BLOCKS, .task_key = 1, .after = UINT64_MAX};
    assert_int_equal(ask(f, q)->n_blocks, 0);
}

static void test_inbox_is_taken_up_to_a_position(void **state)
{
    struct fixture *f = *state;
    put_task(f, 1, "o", "c", "t1");
    put_inbox(f, 1, 1, "one\n");
    put_inbox(f, 1, 2, "");
    put_inbox(f, 1, 3, "three\n");
    put_inbox(f, 2, 1, "nobody\n");
    commit(f);
    struct query q = {.kind = QUERY_INBOX, .task_key = 1};
    struct answer *a = ask(f, q);
    assert_int_equal(a->n_blocks, 3);
    assert_int_equal(a->blocks[1]->first, 2);
    assert_int_equal(a->blocks[1]->len, 0);
    put_inbox_take(f, 1, 2);
    put_inbox(f, 1, 4, "four\n");
    commit(f);
    kit_reopen(f);
    a = ask(f, q);
    assert_int_equal(a->n_blocks, 2);
    assert_int_equal(a->blocks[0]->first, 3);
    assert_memory_equal(a->blocks[1]->bytes, "four\n", 5);
    q.task_key = 2;
    assert_int_equal(ask(f, q)->n_blocks, 0);
}

/* ---------------------------------------------------------------------------- conversations */

static void test_messages_newest_that_fit_oldest_first(void **state)
{
    struct fixture *f = *state;
    put_message(f, "o", "c", "m2", "22");
    put_message(f, "o", "c", "m1", "1");
    put_message(f, "o", "c", "m4", "4444");
    put_message(f, "o", "c", "m3", "333");
    put_message(f, "p", "c", "m5", "5");
    put_message(f, "o", "d", "m6", "6");
    commit(f);
    struct query q = about(QUERY_MESSAGES, "o", "c");
    struct answer *a = ask(f, q);
    assert_int_equal(a->n_messages, 4);
    assert_false(a->more);
    assert_str(a->messages[0].message_id, "m1");
    assert_str(a->messages[3].content, "4444");
    assert_int_equal(a->messages[3].role, ROLE_ASSISTANT);
    assert_true(a->messages[3].partial);
    assert_int_equal(a->messages[3].created_at, 77);
    q.max_bytes = 7;
    a = ask(f, q);
    assert_int_equal(a->n_messages, 2);
    assert_true(a->more);
    assert_str(a->messages[0].message_id, "m3");
    q.max_bytes = 1; /* one at least, else nobody gets on */
    assert_int_equal(ask(f, q)->n_messages, 1);
    q.max_bytes = 0;
    q.limit = 2;
    q.before = STR("m4");
    a = ask(f, q);
    assert_int_equal(a->n_messages, 2);
    assert_true(a->more);
    assert_str(a->messages[0].message_id, "m2");
    q.before = STR("m2");
    assert_false(ask(f, q)->more);
    q.before = STR("m1");
    assert_int_equal(ask(f, q)->n_messages, 0);
}

static void test_title_is_set_once_unless_forced(void **state)
{
    struct fixture *f = *state;
    struct query q = about(QUERY_CONVERSATION, "o", "c");
    put_message(f, "o", "c", "m1", "x"); /* makes it */
    commit(f);
    assert_null(ask(f, q)->conversations[0].title.p);
    assert_int_equal(f->answer.conversations[0].updated_at, 77);
    put_conversation(f, "o", "c", "first", false, 100);
    put_conversation(f, "o", "c", "second", false, 200);
    commit(f);
    assert_str(ask(f, q)->conversations[0].title, "first");
    assert_int_equal(f->answer.conversations[0].updated_at, 200);
    put_conversation(f, "o", "c", "forced", true, 0);
    put_conversation(f, "o", "c", NULL, true, 0);
    commit(f);
    assert_str(ask(f, q)->conversations[0].title, "forced");
    assert_int_equal(f->answer.conversations[0].updated_at, 200);
    batch_put(f->batch, &(struct op){.kind = OP_CONVERSATION,
                                     .owner = STR("o"),
                                     .conversation_id = STR("c"),
                                     .agent = STR("coder"),
                                     .at = 300});
    put_conversation(f, "o", "c", NULL, false, 0);
    commit(f);
    assert_str(ask(f, q)->conversations[0].agent, "coder");
    assert_str(f->answer.conversations[0].title, "forced");
}

static void test_conversations_newest_change_first(void **state)
{
    struct fixture *f = *state;
    put_conversation(f, "o", "a", NULL, false, 10);
    put_conversation(f, "o", "b", NULL, false, 30);
    put_conversation(f, "o", "c", NULL, false, 20);
    put_conversation(f, "o", "d", NULL, false, 20);
    put_conversation(f, "p", "e", NULL, false, 99);
    put_task(f, 1, "o", "c", "t1");
    put_task(f, 2, "o", "c", "t2");
    put_task(f, 3, "o", "c", "t3");
    put_task(f, 4, "p", "c", "t4");
    put_state(f, 3, (struct task_state){.status = STATUS_COMPLETED});
    commit(f);
    struct query q = {.kind = QUERY_CONVERSATIONS, .owner = STR("o"), .limit = 3};
    struct answer *a = ask(f, q);
    assert_int_equal(a->n_conversations, 3);
    assert_true(a->more);
    assert_str(a->conversations[0].conversation_id, "b");
    assert_str(a->conversations[1].conversation_id, "d");
    assert_str(a->conversations[2].conversation_id, "c");
    assert_int_equal(a->conversations[2].running, 2);
    assert_int_equal(a->conversations[0].running, 0);
    q.before = STR("d");
    a = ask(f, q);
    assert_int_equal(a->n_conversations, 2);
    assert_false(a->more);
    assert_str(a->conversations[0].conversation_id, "c");
    q.before = STR("unknown");
    assert_int_equal(ask(f, q)->n_conversations, 0);
}

static void test_deleted_conversation_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 2; i++) {
        const char *owner = i ? "p" : "o";
        put_conversation(f, owner, "c", "title", false, 10);
        put_message(f, owner, "c", "m1", "x");
        put_task(f, 10 + i, owner, "c", "t1");
        put_key(f, owner, "k", "c", "t1");
        put_inbox(f, 10 + i, 1, "hello\n");
        put_lines(f, 10 + i, 1, 3);
        put_seal(f, 10 + i, 1, 4);
        put_lines(f, 10 + i, 5, 6);
    }
    commit(f);
    put_lines(f, 10, 7, 7);
    put_delete(f, "o", "c");
    put_lines(f, 10, 8, 8); /* late ones change nothing */
    put_seal(f, 10, 5, 8);
    put_state(f, 10, (struct task_state){.status = STATUS_COMPLETED});
    put_inbox(f, 10, 2, "late\n");
    put_delete(f, "o", "never");
    commit(f);

    for (int i = 0; i < 3; i++) {
        struct query key = {.kind = QUERY_KEY, .owner = STR("o"), .key = STR("k")};
        struct query blocks = {.kind = QUERY_BLOCKS, .task_key = 10};
        struct query inbox = {.kind = QUERY_INBOX, .task_key = 10};
        assert_int_equal(ask_status(f, about_task("o", "c", "t1")), STORE_NOT_FOUND);
        assert_int_equal(ask_status(f, about(QUERY_CONVERSATION, "o", "c")), STORE_NOT_FOUND);
        assert_int_equal(ask_status(f, key), STORE_NOT_FOUND);
        assert_int_equal(ask(f, about(QUERY_MESSAGES, "o", "c"))->n_messages, 0);
        assert_int_equal(ask(f, about(QUERY_TASKS, "o", "c"))->n_tasks, 0);
        assert_int_equal(ask(f, about(QUERY_LIVE, NULL, NULL))->n_tasks, 1);
        assert_int_equal(ask(f, blocks)->n_blocks, 0);
        assert_int_equal(ask(f, inbox)->n_blocks, 0);
        struct answer *a = ask(f, about(QUERY_TAILS, NULL, NULL));
        assert_int_equal(a->n_blocks, 1);
        assert_lines(a, 0, 11, 5, 6);
        blocks.task_key = 11;
        assert_int_equal(ask(f, blocks)->n_blocks, 1);
        assert_int_equal(ask(f, about_task("p", "c", "t1"))->tasks[0].key, 11);
        if (i == 1 && f->ops->idle)
            f->ops->idle(f->store);
        kit_reopen(f);
    }

    struct store_start start;
    put_delete(f, "p", "c");
    commit(f);
    kit_reopen(f);
    assert_int_equal(f->ops->start(f->store, &start), STORE_OK);
    assert_int_equal(start.next_key, 12); /* never used again */
    put_task(f, 12, "o", "c", "t1");      /* the ids are free again */
    put_message(f, "o", "c", "m1", "x");
    commit(f);
}

static void test_start_knows_the_newest_id(void **state)
{
    struct fixture *f = *state;
    struct store_start start;
    put_task(f, 5, "o", "c", "01BX5ZZKBKACTAV9WEVGEMMVRZ");
    put_message(f, "o", "c", "01BX5ZZKBKACTAV9WEVGEMMVS0", "x");
    put_task(f, 4, "o", "c", "01BX5ZZKBKACTAV9WEVGEMMVS1-not-a-ulid");
    commit(f);
    kit_reopen(f);
    assert_int_equal(f->ops->start(f->store, &start), STORE_OK);
    assert_int_equal(start.next_key, 6);
    assert_string_equal(start.newest_id, "01BX5ZZKBKACTAV9WEVGEMMVS0");
}

/* ---------------------------------------------------------------------------- atomicity */

static void test_batch_that_fails_changes_nothing(void **state)
{
    struct fixture *f = *state;
    struct store_start start;
    struct query conversation = about(QUERY_CONVERSATION, "o", "c");
    put_task(f, 1, "o", "c", "t1");
    put_conversation(f, "o", "c", "old", false, 1);
    put_lines(f, 1, 1, 2);
    commit(f);
    for (int i = 0; i < 3; i++) {
        put_task(f, 2, "o", "c", "t2");
        put_message(f, "o", "c", "m1", "x");
        put_conversation(f, "o", "c", "new", true, 2);
        put_lines(f, 1, 3, 4);
        put_seal(f, 1, 1, 5);
        put_lines(f, 2, 1, 1);
        put_state(f, 1, (struct task_state){.status = STATUS_COMPLETED});
        put_key(f, "o", "k", "c", "t2");
        if (i == 0)
            put_task(f, 1, "o", "c", "t3"); /* the key is taken */
        else if (i == 1)
            put_task(f, 3, "o", "c", "t1"); /* the id is taken */
        else
            put_message(f, "o", "c", "m1", "y");
        assert_int_equal(commit_status(f), STORE_IO);
        if (i == 1)
            kit_reopen(f);
        assert_int_equal(ask_status(f, about_task("o", "c", "t2")), STORE_NOT_FOUND);
        assert_str(ask(f, conversation)->conversations[0].title, "old");
        assert_int_equal(ask(f, about_task("o", "c", "t1"))->tasks[0].state.status, STATUS_RUNNING);
        assert_int_equal(ask(f, about(QUERY_MESSAGES, "o", "c"))->n_messages, 0);
        struct answer *a = ask(f, about(QUERY_TAILS, NULL, NULL));
        assert_int_equal(a->n_blocks, 1);
        assert_lines(a, 0, 1, 1, 2);
        assert_int_equal(f->ops->start(f->store, &start), STORE_OK);
        assert_int_equal(start.next_key, 2);
    }
    put_lines(f, 1, 3, 3); /* and the next one works */
    put_seal(f, 1, 1, 4);
    commit(f);
    assert_int_equal(ask(f, about(QUERY_TAILS, NULL, NULL))->n_blocks, 0);
}

static void test_answer_beyond_its_bytes_ends_early(void **state)
{
    struct fixture *f = *state;
    char *big = xalloc(1 << 20);
    memset(big, 'x', 1 << 20);
    for (int i = 0; i < 6; i++) {
        char id[16];
        snprintf(id, sizeof id, "t%d", i);
        struct task_record t = task_of(1 + i, "o", "c", id);
        t.input = (struct str){big, 1 << 20};
        put_record(f, t);
    }
    free(big);
    commit(f);
    struct answer *a = ask(f, about(QUERY_LIVE, NULL, NULL));
    assert_int_equal(a->n_tasks, 3); /* QUERY_MAX_BYTES, though nobody asked for a limit */
    assert_true(a->more);
    assert_int_equal(ask(f, about(QUERY_TASKS, "o", "c"))->n_tasks, 6);
}

#define BOTH(test)                                         \
    {#test " (memory)", test, setup, teardown, "memory"},  \
    {                                                      \
#test " (sqlite)", test, setup, teardown, "sqlite" \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_empty_store_starts_at_key_one),
        BOTH(test_task_comes_back_as_it_was_put),
        BOTH(test_task_is_found_by_all_three_ids_only),
        BOTH(test_task_set_changes_the_changing_half),
        BOTH(test_tasks_are_listed_newest_first),
        BOTH(test_results_are_ended_background_tasks_not_acked),
        BOTH(test_live_tasks_of_all_owners_by_key),
        BOTH(test_request_key_finds_its_task),
        BOTH(test_tails_hold_exactly_what_is_not_sealed),
        BOTH(test_tails_come_in_pages),
        BOTH(test_blocks_from_any_position),
        BOTH(test_inbox_is_taken_up_to_a_position),
        BOTH(test_messages_newest_that_fit_oldest_first),
        BOTH(test_title_is_set_once_unless_forced),
        BOTH(test_conversations_newest_change_first),
        BOTH(test_deleted_conversation_leaves_nothing),
        BOTH(test_start_knows_the_newest_id),
        BOTH(test_batch_that_fails_changes_nothing),
        BOTH(test_answer_beyond_its_bytes_ends_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
