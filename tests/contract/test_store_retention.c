/* Removals by retention, on both stores: what is asked afterwards, what counts, what a restart
 * finds. */
#include "tests/contract/store_kit.h"

#define DAY 86400000LL

static const char *const id_of[] = {"", "01HF0000000000000000000001", "01HF0000000000000000000002",
                                    "01HF0000000000000000000003", "01HF0000000000000000000004"};

static int64_t usage_of(struct fixture *f, const char *owner)
{
    const struct answer *a = ask(f, (struct query){.kind = QUERY_USAGE, .owner = str_of(owner)});
    return a->n_owners ? a->owners[0].value : 0;
}

static int64_t bytes_of(int64_t key, uint64_t first, uint64_t last)
{
    struct buf b = {0};
    lines_of(&b, key, first, last);
    int64_t n = (int64_t)b.len;
    buf_done(&b);
    return n;
}

/* A task of n events in blocks of 10, with a message and a request key, that ended at that time. */
static void put_ended(struct fixture *f, int64_t key, const char *owner, uint64_t n, int64_t at)
{
    char message_id[TASK_ID_LEN + 1], request_key[8];
    put_task(f, key, owner, "c", id_of[key]);
    for (uint64_t first = 1; first <= n; first += 10)
        put_seal(f, key, first, first + 9 < n ? first + 9 : n);
    snprintf(message_id, sizeof message_id, "01HM%s", id_of[key] + 4);
    snprintf(request_key, sizeof request_key, "k%lld", (long long)key);
    struct message_record m = {.message_id = str_of(message_id),
                               .task_id = str_of(id_of[key]),
                               .content = STR("hi"),
                               .created_at = at};
    batch_put(f->batch, &(struct op){.kind = OP_MESSAGE,
                                     .owner = str_of(owner),
                                     .conversation_id = STR("c"),
                                     .message = &m});
    put_key(f, owner, request_key, "c", id_of[key]);
    put_state(f, key,
              (struct task_state){.status = STATUS_COMPLETED,
                                  .first = 1,
                                  .head = n,
                                  .completed_at = at,
                                  .output = STR("the end")});
}

/* "do it" and "the end", twice since it is a chat. */
#define COST (TASK_ROW_BYTES + 2 * (5 + 7))

/* As a fork makes them: it counts as an ended one, its events are gone, and it goes like any. */
static void test_task_that_is_new_and_has_ended(void **state)
{
    struct fixture *f = *state;
    struct task_record t = task_of(1, "a", "c", id_of[1]);
    t.state = (struct task_state){.status = STATUS_COMPLETED,
                                  .progress = -1,
                                  .first = 2,
                                  .head = 1,
                                  .completed_at = 50,
                                  .output = STR("the end")};
    put_record(f, t);
    commit(f);
    kit_reopen(f);
    assert_int_equal(usage_of(f, "a"), TASK_ROW_BYTES + 2 * (5 + 7));
    const struct answer *a = ask(f, (struct query){.kind = QUERY_LIVE});
    assert_int_equal(a->n_tasks, 0);
    a = ask(f, (struct query){.kind = QUERY_BLOCKS, .task_key = 1});
    assert_int_equal(a->n_blocks, 0);
    a = ask(f, (struct query){.kind = QUERY_OLDEST_EVENTS, .owner = STR("a")});
    assert_int_equal(a->n_tasks, 0);
    a = ask(f, (struct query){.kind = QUERY_EXPIRED, .at = 100});
    assert_int_equal(a->n_tasks, 1);
    assert_int_equal(a->tasks[0].event_bytes, 0);
    batch_put(f->batch, &(struct op){.kind = OP_TASK_REMOVE,
                                     .owner = STR("a"),
                                     .conversation_id = STR("c"),
                                     .task_id = str_of(id_of[1]),
                                     .task_key = 1,
                                     .at = 100});
    commit(f);
    assert_int_equal(usage_of(f, "a"), 0);
}

static void assert_keys(const struct answer *a, int64_t first, int64_t second)
{
    assert_int_equal(a->n_tasks, (first != 0) + (second != 0));
    if (first)
        assert_int_equal(a->tasks[0].key, first);
    if (second)
        assert_int_equal(a->tasks[1].key, second);
}

static void test_ended_tasks_are_found_by_age_and_owner(void **state)
{
    struct fixture *f = *state;
    put_ended(f, 1, "o", 10, 300);
    put_ended(f, 2, "p", 10, 100);
    put_ended(f, 3, "o", 10, 200);
    put_task(f, 4, "o", "c", id_of[4]); /* lives */
    put_seal(f, 4, 1, 5);
    commit(f);
    assert_keys(ask(f, (struct query){.kind = QUERY_EXPIRED, .at = 300}), 2, 3);
    assert_keys(ask(f, (struct query){.kind = QUERY_EXPIRED, .at = 301, .limit = 1}), 2, 0);
    assert_true(f->answer.more);
    assert_int_equal(f->answer.tasks[0].event_bytes, bytes_of(2, 1, 10));
    assert_keys(ask(f, (struct query){.kind = QUERY_EXPIRED, .at = 100}), 0, 0);
    assert_keys(ask(f, (struct query){.kind = QUERY_OLDEST, .owner = STR("o"), .at = 301}), 1, 3);
    assert_keys(ask(f, (struct query){.kind = QUERY_OLDEST, .owner = STR("o"), .at = 300}), 3, 0);
    assert_keys(ask(f, (struct query){.kind = QUERY_OLDEST_EVENTS, .owner = STR("o")}), 1, 3);
    assert_keys(ask(f, (struct query){.kind = QUERY_OLDEST_EVENTS, .owner = STR("q")}), 0, 0);
}

static void test_usage_counts_blocks_and_ended_records(void **state)
{
    struct fixture *f = *state;
    put_task(f, 1, "o", "c", id_of[1]);
    put_lines(f, 1, 1, 5);
    commit(f);
    assert_int_equal(usage_of(f, "o"), 0); /* not yet */
    put_seal(f, 1, 1, 8);
    commit(f);
    assert_int_equal(usage_of(f, "o"), bytes_of(1, 1, 8));
    put_ended(f, 2, "o", 10, 7);
    put_ended(f, 3, "p", 10, 7);
    commit(f);
    assert_int_equal(usage_of(f, "o"), bytes_of(1, 1, 8) + bytes_of(2, 1, 10) + COST);
    int64_t p = bytes_of(3, 1, 10) + COST;
    assert_int_equal(usage_of(f, "p"), p);
    kit_reopen(f);
    const struct answer *a = ask(f, (struct query){.kind = QUERY_FULL, .at = p - 1});
    assert_int_equal(a->n_owners, 2);
    assert_str(a->owners[0].owner, "o");
    assert_int_equal(a->owners[1].value, p);
    a = ask(f, (struct query){.kind = QUERY_FULL, .at = p});
    assert_int_equal(a->n_owners, 1);
    a = ask(f, (struct query){.kind = QUERY_FULL, .at = 1, .before = STR("o")});
    assert_int_equal(a->n_owners, 1);
    assert_str(a->owners[0].owner, "p");
    a = ask(f, (struct query){.kind = QUERY_USAGE});
    assert_int_equal(a->n_owners, 1);
    assert_true(a->owners[0].value > p); /* of all; a file has more than its rows */
    put_delete(f, "o", "c");
    commit(f);
    if (f->ops->idle)
        f->ops->idle(f->store);
    assert_int_equal(usage_of(f, "o"), 0);
    assert_int_equal(usage_of(f, "p"), p);
}

/* As after a takeover: in no order, some of them twice, beside other changes of theirs. */
static void test_ends_of_many_tasks_in_one_batch(void **state)
{
    struct fixture *f = *state;
    struct task_state end = {.status = STATUS_FAILED,
                             .first = 1,
                             .head = 2,
                             .completed_at = 9,
                             .output = STR("the end")};
    for (int64_t key = 1; key <= 4; key++) {
        put_task(f, key, key % 2 ? "o" : "p", "c", id_of[key]);
        put_mark(f, key, 5);
        put_note(f, key, 1, 1, "note");
        put_seal(f, key, 1, 1);
    }
    commit(f);
    put_state(f, 3, (struct task_state){.status = STATUS_RUNNING, .first = 1, .started_at = 8});
    put_state(f, 3, end);
    put_ack(f, "o", "c", id_of[3]);
    put_lines(f, 3, 2, 2);
    put_state(f, 1, end);
    put_conversation(f, "o", "c", NULL, false, 9);
    put_state(f, 4, end);
    put_events_remove(f, 4, "p", bytes_of(4, 1, 1));
    end.output = STR("the very end");
    put_state(f, 1, end);
    put_seal(f, 1, 2, 2);
    put_state(f, 2, end);
    commit(f);
    kit_reopen(f);
    const int64_t longer = 2 * 5; /* "the very end" */
    assert_int_equal(usage_of(f, "o"), 2 * COST + longer + bytes_of(1, 1, 2) + bytes_of(3, 1, 1));
    assert_int_equal(usage_of(f, "p"), 2 * COST + longer + bytes_of(2, 1, 1));
    assert_int_equal(ask(f, (struct query){.kind = QUERY_LIVE})->n_tasks, 0);
    const struct answer *a = ask(f, about_task("o", "c", id_of[1]));
    assert_int_equal(a->tasks[0].state.status, STATUS_FAILED);
    assert_str(a->tasks[0].state.output, "the very end");
    a = ask(f, about_task("o", "c", id_of[3]));
    assert_str(a->tasks[0].state.output, "the end");
    assert_true(a->tasks[0].state.acked);
    assert_int_equal(a->tasks[0].state.started_at, 0); /* the later state counts, as a whole */
    a = ask(f, about_task("p", "c", id_of[4]));
    assert_int_equal(a->tasks[0].state.first, 3);
    for (int64_t key = 1; key <= 4; key++)
        assert_int_equal(ask(f, (struct query){.kind = QUERY_NOTES, .task_key = key})->n_blocks, 0);
}

static void test_removed_events_leave_the_record(void **state)
{
    struct fixture *f = *state;
    put_ended(f, 1, "o", 100, 7);
    put_ended(f, 2, "o", 100, 8);
    commit(f);
    const struct answer *a = ask(f, (struct query){.kind = QUERY_OLDEST_EVENTS, .owner = STR("o")});
    assert_int_equal(a->tasks[0].event_bytes, bytes_of(1, 1, 100));
    put_events_remove(f, 1, "o", a->tasks[0].event_bytes);
    commit(f);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(usage_of(f, "o"), bytes_of(2, 1, 100) + 2 * COST);
        a = ask(f, about_task("o", "c", id_of[1]));
        assert_int_equal(a->tasks[0].state.first, 101);
        assert_int_equal(a->tasks[0].state.head, 100);
        assert_str(a->tasks[0].state.output, "the end");
        assert_str(a->tasks[0].input, "do it");
        assert_keys(ask(f, (struct query){.kind = QUERY_OLDEST_EVENTS, .owner = STR("o")}), 2, 0);
        a = ask(f, (struct query){.kind = QUERY_EXPIRED, .at = 8});
        assert_int_equal(a->tasks[0].event_bytes, 0);
        assert_int_equal(ask(f, about(QUERY_MESSAGES, "o", "c"))->n_messages, 2);
        assert_int_equal(ask(f, (struct query){.kind = QUERY_BLOCKS, .task_key = 1})->n_blocks, 0);
        if (f->ops->idle)
            f->ops->idle(f->store); /* the second round: collected */
    }
    assert_lines(ask(f, (struct query){.kind = QUERY_BLOCKS, .task_key = 2}), 0, 2, 1, 100);
}

/* The journal still has its lines: they are dead, also to a start. */
static void test_removed_events_do_not_come_back_with_a_start(void **state)
{
    struct fixture *f = *state;
    put_task(f, 1, "o", "c", id_of[1]);
    put_lines(f, 1, 1, 5);
    commit(f);
    put_seal(f, 1, 1, 5);
    put_state(
        f, 1,
        (struct task_state){.status = STATUS_FAILED, .first = 1, .head = 5, .completed_at = 9});
    commit(f);
    put_events_remove(f, 1, "o", bytes_of(1, 1, 5));
    commit(f);
    for (int i = 0; i < 3 && f->ops->idle; i++)
        f->ops->idle(f->store);
    kit_reopen(f);
    assert_int_equal(ask(f, (struct query){.kind = QUERY_TAILS})->n_blocks, 0);
    assert_int_equal(ask(f, (struct query){.kind = QUERY_LIVE})->n_tasks, 0);
    assert_int_equal(ask(f, about_task("o", "c", id_of[1]))->tasks[0].state.first, 6);
}

static void test_removed_task_takes_its_own_and_nothing_else(void **state)
{
    struct fixture *f = *state;
    put_ended(f, 1, "o", 30, 7);
    put_ended(f, 2, "o", 30, 8);
    put_ended(f, 3, "p", 30, 8); /* another owner's conversation c */
    commit(f);
    put_task_remove(f, 1, "o", "c", id_of[1], bytes_of(1, 1, 30), 1000);
    commit(f);
    assert_int_equal(ask_status(f, about_task("o", "c", id_of[1])), STORE_NOT_FOUND);
    struct query key = {.kind = QUERY_KEY, .owner = STR("o"), .key = STR("k1")};
    assert_int_equal(ask_status(f, key), STORE_NOT_FOUND);
    key.key = STR("k2");
    assert_int_equal(ask_status(f, key), STORE_OK);
    const struct answer *a = ask(f, about(QUERY_MESSAGES, "o", "c"));
    assert_int_equal(a->n_messages, 1);
    assert_str(a->messages[0].task_id, id_of[2]);
    assert_int_equal(ask(f, about(QUERY_MESSAGES, "p", "c"))->n_messages, 1);
    assert_int_equal(usage_of(f, "o"), bytes_of(2, 1, 30) + COST);
    assert_int_equal(ask(f, about(QUERY_CONVERSATIONS, "o", ""))->n_conversations, 1);
    assert_int_equal(ask(f, (struct query){.kind = QUERY_BLOCKS, .task_key = 1})->n_blocks, 0);
    put_task_remove(f, 1, "o", "c", id_of[1], 1, 1000); /* again: no effect */
    commit(f);
    assert_int_equal(usage_of(f, "o"), bytes_of(2, 1, 30) + COST);
}

static void test_conversation_goes_with_its_last_task(void **state)
{
    struct fixture *f = *state;
    put_ended(f, 1, "o", 10, 7);
    put_ended(f, 2, "o", 10, 8);
    put_conversation(f, "o", "c", "a title", true, 50);
    struct message_record told = {.message_id = STR("01HF0000000000000000000009"),
                                  .content = STR("told between tasks"),
                                  .role = ROLE_SYSTEM,
                                  .created_at = 9};
    batch_put(f->batch, &(struct op){.kind = OP_MESSAGE,
                                     .owner = STR("o"),
                                     .conversation_id = STR("c"),
                                     .message = &told});
    commit(f);
    put_task_remove(f, 1, "o", "c", id_of[1], bytes_of(1, 1, 10), 51);
    commit(f);
    assert_int_equal(ask_status(f, about(QUERY_CONVERSATION, "o", "c")), STORE_OK);
    put_notice(f, 77, "o", "c", false);
    put_task_remove(f, 2, "o", "c", id_of[2], bytes_of(2, 1, 10), 51);
    commit(f);
    assert_int_equal(ask_status(f, about(QUERY_CONVERSATION, "o", "c")), STORE_OK); /* a notice */
    put_notice_take(f, 77);
    put_ended(f, 3, "o", 10, 8);
    commit(f);
    put_task_remove(f, 3, "o", "c", id_of[3], bytes_of(3, 1, 10), 50);
    commit(f);
    assert_int_equal(ask_status(f, about(QUERY_CONVERSATION, "o", "c")), STORE_OK); /* changed */
    put_ended(f, 4, "o", 10, 8);
    commit(f);
    put_task_remove(f, 4, "o", "c", id_of[4], bytes_of(4, 1, 10), 51);
    commit(f);
    assert_int_equal(ask_status(f, about(QUERY_CONVERSATION, "o", "c")), STORE_NOT_FOUND);
    assert_int_equal(ask(f, about(QUERY_MESSAGES, "o", "c"))->n_messages, 0);
    assert_int_equal(usage_of(f, "o"), 0);
}

static void test_live_task_is_never_removed(void **state)
{
    struct fixture *f = *state;
    put_task(f, 1, "o", "c", id_of[1]);
    put_seal(f, 1, 1, 10);
    commit(f);
    assert_int_equal(ask(f, (struct query){.kind = QUERY_EXPIRED, .at = DAY * 1000000})->n_tasks,
                     0);
    assert_int_equal(
        ask(f, (struct query){.kind = QUERY_OLDEST_EVENTS, .owner = STR("o")})->n_tasks, 0);
    if (!f->dir[0] && !f->postgres)
        return; /* the naive store asserts it */
    put_task_remove(f, 1, "o", "c", id_of[1], 0, 1000);
    put_events_remove(f, 1, "o", 0);
    commit(f);
    assert_int_equal(ask(f, about_task("o", "c", id_of[1]))->tasks[0].state.first, 1);
    assert_lines(ask(f, (struct query){.kind = QUERY_BLOCKS, .task_key = 1}), 0, 1, 1, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(test_task_that_is_new_and_has_ended),
        EACH(test_ended_tasks_are_found_by_age_and_owner),
        EACH(test_usage_counts_blocks_and_ended_records),
        EACH(test_ends_of_many_tasks_in_one_batch),
        EACH(test_removed_events_leave_the_record),
        EACH(test_removed_events_do_not_come_back_with_a_start),
        EACH(test_removed_task_takes_its_own_and_nothing_else),
        EACH(test_conversation_goes_with_its_last_task),
        EACH(test_live_task_is_never_removed),
    };
    return kit_run_all(tests, countof(tests));
}
