/* Rows A14 to A17, A33 and A37 to A39 of the task manager, on every store: what was recorded of a
 * task is what is read back, over a restart too. */
#include "tests/contract/store_kit.h"

/* Puts it, restarts, reads it back, and compares all of it. */
static const struct task_record *round_trip(struct fixture *f, struct task_record task)
{
    struct buf expected = {0}, got = {0};
    text_task(&expected, &task);
    put_record(f, task);
    commit(f);
    kit_reopen(f);
    struct query q = {.kind = QUERY_TASK,
                      .owner = task.owner,
                      .conversation_id = task.conversation_id,
                      .task_id = task.task_id};
    const struct task_record *read = ask(f, q)->tasks;
    text_task(&got, read);
    bool same = str_eq(buf_str(&expected), buf_str(&got));
    buf_done(&expected);
    buf_done(&got);
    assert_true(same);
    return read;
}

static struct task_record ended(const char *task_id, enum task_status status)
{
    struct task_record task = task_of(42, "ann", "thread-1", task_id);
    task.state.status = status;
    task.state.completed_at = 2000;
    return task;
}

static void assert_shows(const struct task_record *task, const char *part, bool there)
{
    struct buf out = {0};
    task_write(&out, task, false);
    bool found = strstr(out.bytes, part) != NULL;
    buf_done(&out);
    assert_int_equal(found, there);
}

static void test_a14_record_has_what_the_task_had_and_its_thread(void **state)
{
    struct task_record task = ended("t", STATUS_COMPLETED);
    task.type = TYPE_BACKGROUND;
    task.state.result = str_of(json("{'ok':true}"));
    const struct task_record *read = round_trip(*state, task);
    assert_str(read->task_id, "t");
    assert_int_equal(read->type, TYPE_BACKGROUND);
    assert_int_equal(read->state.status, STATUS_COMPLETED);
    assert_int_equal(read->state.completed_at, 2000);
    assert_str(read->state.result, json("{'ok':true}"));
    assert_str(read->owner, "ann");
    assert_str(read->conversation_id, "thread-1");
}

static void test_a15_failed_record_survives(void **state)
{
    struct task_record task = ended("t", STATUS_FAILED);
    task.state.error = TASK_TIMEOUT;
    task.state.error_message = STR("timeout");
    const struct task_record *read = round_trip(*state, task);
    assert_int_equal(read->state.status, STATUS_FAILED);
    assert_shows(read, json("'error':{'code':'timeout','message':'timeout'}"), true);
}

static void test_a16_second_state_of_a_task_replaces_the_first(void **state)
{
    struct fixture *f = *state;
    put_task(f, 1, "ann", "thread-1", "t");
    commit(f);
    struct query q = about(QUERY_TASKS, "ann", "thread-1");
    assert_int_equal(ask(f, q)->n_tasks, 1);
    assert_int_equal(f->answer.tasks[0].state.status, STATUS_RUNNING);
    put_state(f, 1, (struct task_state){.status = STATUS_COMPLETED, .head = 4});
    commit(f);
    kit_reopen(f);
    assert_int_equal(ask(f, q)->n_tasks, 1);
    assert_int_equal(f->answer.tasks[0].state.status, STATUS_COMPLETED);
}

static void test_a17_all_of_a_conversation_is_replaced_in_one_batch(void **state)
{
    struct fixture *f = *state;
    put_conversation(f, "ann", "thread-1", "title", false, 1);
    put_task(f, 1, "ann", "thread-1", "old");
    put_task(f, 2, "ann", "thread-2", "other");
    commit(f);
    put_delete(f, "ann", "thread-1");
    put_task(f, 3, "ann", "thread-1", "new");
    commit(f);
    kit_reopen(f);
    assert_int_equal(ask(f, about(QUERY_TASKS, "ann", "thread-1"))->n_tasks, 1);
    assert_str(f->answer.tasks[0].task_id, "new");
    assert_int_equal(ask(f, about(QUERY_TASKS, "ann", "thread-2"))->n_tasks, 1);
    assert_int_equal(ask_status(f, about_task("ann", "thread-1", "old")), STORE_NOT_FOUND);
}

static void test_a33_failed_summary_survives(void **state)
{
    struct task_record task = ended("bg_42", STATUS_FAILED);
    task.description = STR("fetch data");
    task.state.error = TASK_AGENT_ERROR;
    task.state.error_message = STR("agent_error: connection refused");
    const struct task_record *read = round_trip(*state, task);
    assert_int_equal(read->state.completed_at, 2000);
    assert_shows(read, "connection refused", true);
    assert_shows(read, json("'completed_at':2000"), true);
    assert_shows(read, json("'result'"), false);
}

static void test_a37_parent_survives_and_what_it_lacks_stays_absent(void **state)
{
    struct task_record task = ended("t", STATUS_COMPLETED);
    task.parent_run_id = STR("run-123");
    task.parent_agent_id = STR("agent-a");
    const struct task_record *read = round_trip(*state, task);
    assert_null(read->parent_call_id.p);
    assert_null(read->parent_task_id.p);
    assert_shows(read, json("'parent':{'run_id':'run-123','agent_id':'agent-a'}"), true);
}

/* A record that has only what every record must have. */
static void test_a38_least_record_loads_with_nothing_made_up(void **state)
{
    struct task_record task = {.key = 42,
                               .created_at = 1000,
                               .owner = STR("ann"),
                               .conversation_id = STR("thread-1"),
                               .task_id = STR("bg_0"),
                               .agent = STR("shell"),
                               .description = STR("old"),
                               .input = STR(""),
                               .state = {.status = STATUS_COMPLETED,
                                         .progress = -1,
                                         .first = 1,
                                         .head = 1,
                                         .completed_at = 2000}};
    const struct task_record *read = round_trip(*state, task);
    assert_int_equal(read->type, TYPE_CHAT);
    assert_null(read->state.result.p);
    assert_null(read->name.p);
    assert_shows(read, json("'parent'"), false);
    assert_shows(read, json("'result'"), false);
}

static void test_a39_result_stands_under_its_key_as_it_was(void **state)
{
    struct task_record task = ended("t", STATUS_COMPLETED);
    task.state.result = str_of(json("{'output':'built ok','lines':42}"));
    const struct task_record *read = round_trip(*state, task);
    assert_shows(read, json(",'result':{'output':'built ok','lines':42},"), true);
}

static void put_revoke(struct fixture *f, const char *owner, int64_t until)
{
    batch_put(f->batch, &(struct op){.kind = OP_REVOKE, .owner = str_of(owner), .at = until});
}

static void test_revocations_are_kept_until_they_are_lifted(void **state)
{
    struct fixture *f = *state;
    put_revoke(f, "bob", 200);
    put_revoke(f, "ann", 100);
    put_revoke(f, "eve", 300);
    commit(f);
    put_revoke(f, "bob", 250); /* again, for longer */
    put_revoke(f, "eve", 0);
    put_revoke(f, "nobody", 0);
    commit(f);
    kit_reopen(f);
    const struct answer *a = ask(f, (struct query){.kind = QUERY_REVOKED});
    assert_int_equal(a->n_owners, 2);
    assert_str(a->owners[0].owner, "ann");
    assert_int_equal(a->owners[0].value, 100);
    assert_str(a->owners[1].owner, "bob");
    assert_int_equal(a->owners[1].value, 250);
    a = ask(f, (struct query){.kind = QUERY_REVOKED, .limit = 1});
    assert_true(a->more && a->n_owners == 1);
    a = ask(f, (struct query){.kind = QUERY_REVOKED, .before = STR("ann")});
    assert_int_equal(a->n_owners, 1);
    assert_str(a->owners[0].owner, "bob");
}

static void put_outbox(struct fixture *f, int64_t key, const char *hook, const char *body)
{
    struct outbox_record o = {.key = key,
                              .hook = str_of(hook),
                              .id = STR("01HF000000000000000000000X"),
                              .at = 77,
                              .body = str_of(body)};
    batch_put(f->batch, &(struct op){.kind = OP_OUTBOX_PUT, .outbox = &o});
}

static void test_outbox_keeps_what_is_to_be_told(void **state)
{
    struct fixture *f = *state;
    put_outbox(f, 5, "a", json("{'n':5}"));
    put_outbox(f, 6, "b", json("{'n':6}"));
    put_outbox(f, 9, "a", json("{'n':9}"));
    put_outbox(f, 10, "a", json("{'n':10}"));
    commit(f);
    batch_put(f->batch, &(struct op){.kind = OP_OUTBOX_TAKE, .task_key = 9});
    batch_put(f->batch, &(struct op){.kind = OP_OUTBOX_TAKE, .task_key = 99});
    commit(f);
    kit_reopen(f);
    struct query q = {.kind = QUERY_OUTBOX, .key = STR("a")};
    const struct answer *a = ask(f, q);
    assert_int_equal(a->n_outbox, 2);
    assert_int_equal(a->outbox[0].key, 5);
    assert_int_equal(a->outbox[0].at, 77);
    assert_str(a->outbox[0].hook, "a");
    assert_str(a->outbox[0].id, "01HF000000000000000000000X");
    assert_str(a->outbox[1].body, json("{'n':10}"));
    q.after = 5;
    assert_int_equal(ask(f, q)->n_outbox, 1);
    q = (struct query){.kind = QUERY_OUTBOX, .key = STR("a"), .max_bytes = 8};
    assert_int_equal(ask(f, q)->n_outbox, 1);
    assert_true(f->answer.more);
    struct store_start start;
    assert_int_equal(f->ops->start(f->store, &start), STORE_OK);
    assert_next_key(f, &start, 11); /* no key is given twice */
}

/* As after an answer that was lost: a task that is there is refused, so it was not put again. */
static void test_number_is_applied_once(void **state)
{
    struct fixture *f = *state;
    struct store_start start;
    assert_int_equal(f->ops->start(f->store, &start), STORE_OK);
    f->batch->number = start.number + 1;
    put_task(f, 7, "ann", "c", "t");
    put_lines(f, 7, 1, 3);
    assert_int_equal(f->ops->commit(f->store, f->batch), STORE_OK);
    assert_int_equal(f->ops->commit(f->store, f->batch), STORE_OK);
    f->batch->give_up = true; /* too late */
    commit(f);
    assert_int_equal(ask(f, about(QUERY_TASKS, "ann", "c"))->n_tasks, 1);
    assert_int_equal(assert_lines(ask(f, about(QUERY_TAILS, NULL, NULL)), 0, 7, 1, 3), 1);

    f->batch->number = start.number + 2;
    f->batch->give_up = true; /* it never came: now it never will */
    put_lines(f, 7, 4, 9);
    assert_int_equal(commit_status(f), STORE_VOID);
    f->batch->number = start.number + 3;
    put_lines(f, 7, 4, 4);
    commit(f);
    assert_int_equal(assert_lines(ask(f, about(QUERY_TAILS, NULL, NULL)), 0, 7, 1, 4), 1);
}

/* However much of the journal dies and is cut behind it. */
static void test_lines_behind_a_seal_of_their_batch_stay(void **state)
{
    struct fixture *f = *state;
    put_task(f, 1, "o", "c", "t1");
    put_task(f, 2, "o", "c", "t2");
    put_lines(f, 1, 1, 2);
    commit(f);
    put_seal(f, 1, 1, 2);
    put_lines(f, 1, 3, 4);
    commit(f);
    for (uint64_t seq = 1; seq <= 200; seq++) {
        put_lines(f, 2, seq, seq);
        commit(f);
        put_seal(f, 2, seq, seq);
    }
    commit(f);
    assert_int_equal(assert_lines(ask(f, about(QUERY_TAILS, NULL, NULL)), 0, 1, 3, 4), 1);
    kit_reopen(f);
    assert_int_equal(assert_lines(ask(f, about(QUERY_TAILS, NULL, NULL)), 0, 1, 3, 4), 1);
}

/* QUERY_OWNED: of all conversations of one owner, by id. */
static void test_owned_tasks_are_those_from_an_id_on(void **state)
{
    struct fixture *f = *state;
    put_task(f, 1, "o", "c", "t1");
    put_task(f, 2, "o", "d", "t3");
    put_task(f, 3, "o", "b", "t2");
    put_task(f, 4, "p", "c", "t4");
    put_state(f, 3, (struct task_state){.status = STATUS_COMPLETED, .output = STR("long")});
    commit(f);
    struct query q = {.kind = QUERY_OWNED, .owner = STR("o"), .key = STR("t1"), .limit = 2};
    struct answer *a = ask(f, q);
    assert_int_equal(a->n_tasks, 2);
    assert_true(a->more);
    assert_str(a->tasks[0].task_id, "t1");
    assert_str(a->tasks[1].task_id, "t2");
    assert_str(a->tasks[1].conversation_id, "b");
    assert_null(a->tasks[1].state.output.p); /* brief, as in lists */
    q.key = STR("t2");
    a = ask(f, q);
    assert_int_equal(a->n_tasks, 2);
    assert_false(a->more);
    assert_str(a->tasks[1].task_id, "t3");
    q.live = true;
    a = ask(f, q);
    assert_int_equal(a->n_tasks, 1);
    assert_str(a->tasks[0].task_id, "t3");
    q.key = STR("t4");
    assert_int_equal(ask(f, q)->n_tasks, 0);
    q = (struct query){.kind = QUERY_OWNED, .owner = STR("o")};
    a = ask(f, q);
    assert_int_equal(a->n_tasks, 1);
    assert_false(a->more);
    assert_str(a->tasks[0].task_id, "t3");
    q.owner = STR("nobody");
    assert_int_equal(ask(f, q)->n_tasks, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(test_number_is_applied_once),
        EACH(test_a14_record_has_what_the_task_had_and_its_thread),
        EACH(test_a15_failed_record_survives),
        EACH(test_a16_second_state_of_a_task_replaces_the_first),
        EACH(test_a17_all_of_a_conversation_is_replaced_in_one_batch),
        EACH(test_a33_failed_summary_survives),
        EACH(test_a37_parent_survives_and_what_it_lacks_stays_absent),
        EACH(test_a38_least_record_loads_with_nothing_made_up),
        EACH(test_lines_behind_a_seal_of_their_batch_stay),
        EACH(test_revocations_are_kept_until_they_are_lifted),
        EACH(test_outbox_keeps_what_is_to_be_told),
        EACH(test_owned_tasks_are_those_from_an_id_on),
        EACH(test_a39_result_stands_under_its_key_as_it_was),
    };
    return kit_run_all(tests, countof(tests));
}
