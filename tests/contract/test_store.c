/* One suite for every store, on all backends: tasks, their lines and inboxes. */
#include "tests/contract/store_kit.h"

/* --- tasks ------------------------------------------------------------------------------------ */

static void test_empty_store_starts(void **state)
{
    struct fixture *f = *state;
    struct store_start start;
    assert_int_equal(f->ops->start(f->store, &start), STORE_OK);
    assert_next_key(f, &start, 1);
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
        .ancestors = STR("p0p1"),
        .waits = true,
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
                  .answers = STR("[\"q\",true]"),
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

    q.owner = STR("own\0eR"); /* bytes after a NUL count */
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

static struct str live_context(struct fixture *f, int64_t key)
{
    const struct answer *a = ask(f, (struct query){.kind = QUERY_LIVE});
    for (size_t i = 0; i < a->n_tasks; i++)
        if (a->tasks[i].key == key)
            return a->tasks[i].context;
    return STR_NULL;
}

/* For the start alone: who looks a task up, or lists some, does not read it. */
static void test_context_is_kept_until_the_task_has_ended(void **state)
{
    struct fixture *f = *state;
    for (int64_t key = 1; key <= 3; key++) {
        struct task_record t = task_of(key, "o", "c", key == 1 ? "t1" : key == 2 ? "t2" : "t3");
        t.context = key == 3 ? STR_NULL : STR("[{\"role\":\"user\",\"content\":\"\"}]");
        put_record(f, t);
    }
    commit(f);
    kit_reopen(f);
    assert_str(live_context(f, 1), "[{\"role\":\"user\",\"content\":\"\"}]");
    assert_null(live_context(f, 3).p);
    assert_null(ask(f, about_task("o", "c", "t1"))->tasks[0].context.p);
    assert_null(ask(f, about(QUERY_TASKS, "o", "c"))->tasks[0].context.p);
    put_state(f, 1, (struct task_state){.status = STATUS_RUNNING, .first = 1, .head = 2});
    put_state(f, 2, (struct task_state){.status = STATUS_FAILED, .first = 1, .head = 2});
    commit(f);
    assert_non_null(live_context(f, 1).p);
    put_state(f, 2, (struct task_state){.status = STATUS_RUNNING, .first = 1, .head = 2});
    commit(f); /* no core does this: here it shows that the context is gone */
    assert_null(live_context(f, 2).p);
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

static void test_tasks_that_are_turns_are_of_type_chat_and_notice(void **state)
{
    static const enum task_type types[] = {TYPE_CHAT, TYPE_BACKGROUND, TYPE_CHILD, TYPE_NOTICE};
    struct fixture *f = *state;
    for (size_t i = 0; i < countof(types); i++) {
        char id[8];
        snprintf(id, sizeof id, "t%zu", i);
        struct task_record t = task_of((int64_t)i + 1, "o", "c", id);
        t.type = types[i];
        put_record(f, t);
    }
    commit(f);
    struct query q = about(QUERY_TASKS, "o", "c");
    q.turns = true;
    struct answer *a = ask(f, q);
    assert_int_equal(a->n_tasks, 2);
    assert_str(a->tasks[0].task_id, "t3");
    assert_str(a->tasks[1].task_id, "t0");
    q.has_status = true;
    q.status = STATUS_RUNNING;
    assert_int_equal(ask(f, q)->n_tasks, 2);
    q.turns = false;
    assert_int_equal(ask(f, q)->n_tasks, 4);
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

/* --- lines ------------------------------------------------------------------------------------ */

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

/* A task that says much at once: its tail is long, what is read of it comes in pieces. */
static void test_a_long_tail_becomes_several_blocks(void **state)
{
    struct fixture *f = *state;
    put_task(f, 1, "o", "c", "t1");
    put_lines(f, 1, 1, 4000);
    commit(f);
    put_seal(f, 1, 1, 4500);
    commit(f);
    kit_reopen(f);
    struct query q = {.kind = QUERY_BLOCKS, .task_key = 1};
    struct answer *a = ask(f, q);
    assert_int_equal(assert_lines(a, 0, 1, 1, 4500), a->n_blocks);
    assert_true(a->n_blocks > 1);
    for (size_t i = 0; i < a->n_blocks; i++)
        assert_true(a->blocks[i]->len <= BLOCK_MOST);
    uint64_t behind = a->blocks[1]->first + 1;
    q.after = behind;
    q.max_bytes = BLOCK_MOST;
    a = ask(f, q);
    assert_int_equal(a->n_blocks, 1);
    assert_true(a->more);
    assert_in_range(behind + 1, a->blocks[0]->first, a->blocks[0]->last);
    assert_int_equal(ask(f, (struct query){.kind = QUERY_TAILS})->n_blocks, 0);
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

static void test_inbox_loses_single_positions(void **state)
{
    struct fixture *f = *state;
    struct query q = {.kind = QUERY_INBOX, .task_key = 1};
    put_task(f, 1, "o", "c", "t1");
    for (uint64_t position = 1; position <= 4; position++)
        put_inbox(f, 1, position, "a line");
    put_inbox_take(f, 1, 3);
    f->batch->ops[f->batch->n_ops - 1].first = 3;
    commit(f);
    const struct answer *a = ask(f, q);
    assert_int_equal(a->n_blocks, 3);
    assert_int_equal(a->blocks[1]->first, 2);
    assert_int_equal(a->blocks[2]->first, 4);
}

static uint64_t mark_of_live(struct fixture *f)
{
    const struct answer *a = ask(f, (struct query){.kind = QUERY_LIVE, .limit = 10});
    assert_int_equal(a->n_tasks, 1);
    return a->tasks[0].mark;
}

static void test_mark_is_replaced_and_goes_with_the_end(void **state)
{
    struct fixture *f = *state;
    put_task(f, 1, "o", "c", "t1");
    put_mark(f, 2, 7); /* of no task */
    commit(f);
    assert_int_equal(mark_of_live(f), 0);
    put_mark(f, 1, 17);
    put_mark(f, 1, 4096);
    commit(f);
    kit_reopen(f);
    assert_int_equal(mark_of_live(f), 4096);
    put_mark(f, 1, 9007199254740991);
    put_state(f, 1, (struct task_state){.status = STATUS_RUNNING, .first = 1, .head = 1});
    commit(f);
    assert_int_equal(mark_of_live(f), 9007199254740991);
    const struct answer *a = ask(f, about_task("o", "c", "t1"));
    assert_int_equal(a->tasks[0].mark, 0); /* only a start needs it */
    put_state(f, 1, (struct task_state){.status = STATUS_FAILED, .first = 1, .head = 1});
    put_state(f, 1, (struct task_state){.status = STATUS_RUNNING, .first = 1, .head = 1});
    commit(f);
    assert_int_equal(mark_of_live(f), 0);
}

static void test_notes_come_by_number_and_go_with_the_end(void **state)
{
    struct fixture *f = *state;
    struct query q = {.kind = QUERY_NOTES, .task_key = 1};
    put_task(f, 1, "o", "c", "t1");
    put_note(f, 1, 1, 3, "standing");
    put_note(f, 1, 5, 9, "the second");
    put_note(f, 1, 4, 2, "");
    put_note(f, 2, 4, 2, "nobody's");
    commit(f);
    put_note(f, 1, 1, 12, "replaced");
    commit(f);
    kit_reopen(f);
    const struct answer *a = ask(f, q);
    assert_int_equal(a->n_blocks, 3);
    assert_int_equal(a->blocks[0]->first, 1);
    assert_int_equal(a->blocks[0]->last, 12);
    assert_memory_equal(a->blocks[0]->bytes, "replaced", 8);
    assert_int_equal(a->blocks[1]->first, 4);
    assert_int_equal(a->blocks[1]->last, 2);
    assert_int_equal(a->blocks[1]->len, 0);
    assert_int_equal(a->blocks[2]->first, 5);
    q.after = 4;
    assert_int_equal(ask(f, q)->n_blocks, 1);
    q = (struct query){.kind = QUERY_NOTES, .task_key = 1, .max_bytes = 5};
    a = ask(f, q);
    assert_int_equal(a->n_blocks, 1);
    assert_true(a->more);
    assert_int_equal(ask(f, (struct query){.kind = QUERY_NOTES, .task_key = 2})->n_blocks, 0);
    put_state(f, 1, (struct task_state){.status = STATUS_COMPLETED, .first = 1, .head = 1});
    commit(f);
    assert_int_equal(ask(f, (struct query){.kind = QUERY_NOTES, .task_key = 1})->n_blocks, 0);
}

static void test_what_was_retracted_stays_with_the_record(void **state)
{
    struct fixture *f = *state;
    struct task_state s = {
        .status = STATUS_RUNNING, .first = 1, .head = 9, .retracted = STR("[[2,5]]")};
    put_task(f, 1, "o", "c", "t1");
    put_state(f, 1, s);
    commit(f);
    const struct answer *a = ask(f, (struct query){.kind = QUERY_LIVE, .limit = 10});
    assert_str(a->tasks[0].state.retracted, "[[2,5]]");
    s.status = STATUS_COMPLETED;
    put_state(f, 1, s);
    commit(f);
    kit_reopen(f);
    a = ask(f, about_task("o", "c", "t1"));
    assert_str(a->tasks[0].state.retracted, "[[2,5]]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(test_empty_store_starts),
        EACH(test_task_comes_back_as_it_was_put),
        EACH(test_task_is_found_by_all_three_ids_only),
        EACH(test_task_set_changes_the_changing_half),
        EACH(test_context_is_kept_until_the_task_has_ended),
        EACH(test_tasks_are_listed_newest_first),
        EACH(test_tasks_that_are_turns_are_of_type_chat_and_notice),
        EACH(test_results_are_ended_background_tasks_not_acked),
        EACH(test_live_tasks_of_all_owners_by_key),
        EACH(test_request_key_finds_its_task),
        EACH(test_tails_hold_exactly_what_is_not_sealed),
        EACH(test_tails_come_in_pages),
        EACH(test_blocks_from_any_position),
        EACH(test_a_long_tail_becomes_several_blocks),
        EACH(test_inbox_is_taken_up_to_a_position),
        EACH(test_inbox_loses_single_positions),
        EACH(test_mark_is_replaced_and_goes_with_the_end),
        EACH(test_notes_come_by_number_and_go_with_the_end),
        EACH(test_what_was_retracted_stays_with_the_record),
    };
    return kit_run_all(tests, countof(tests));
}
