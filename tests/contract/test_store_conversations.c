/* One suite for every store, on both backends: conversations, and what holds for all. */
#include "tests/contract/store_kit.h"

/* --- conversations ---------------------------------------------------------------------------- */

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
    q.max_bytes = 1; /* at least one, or nobody makes progress */
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

static struct op *newest_op(struct fixture *f)
{
    return &f->batch->ops[f->batch->n_ops - 1];
}

static void test_title_that_the_owner_gave_stays(void **state)
{
    struct fixture *f = *state;
    struct query q = about(QUERY_CONVERSATION, "o", "c");
    put_conversation(f, "o", "c", "automatic", false, 100);
    put_conversation(f, "o", "c", "an agent's", true, 200);
    newest_op(f)->softly = true;
    commit(f);
    assert_str(ask(f, q)->conversations[0].title, "an agent's");
    put_conversation(f, "o", "c", "the owner's", true, 300);
    newest_op(f)->flags_set = CONVERSATION_NAMED;
    put_conversation(f, "o", "c", "an agent's again", true, 400);
    newest_op(f)->softly = true;
    commit(f);
    assert_str(ask(f, q)->conversations[0].title, "the owner's");
    put_conversation(f, "o", "c", "the owner's next", true, 500);
    commit(f);
    assert_str(ask(f, q)->conversations[0].title, "the owner's next");
}

static void expect_title(struct fixture *f, const char *from, const char *title, const char *want)
{
    batch_put(f->batch, &(struct op){.kind = OP_TITLE,
                                     .owner = STR("o"),
                                     .conversation_id = STR("c"),
                                     .key = str_of(from),
                                     .title = str_of(title)});
    commit(f);
    assert_str(ask(f, about(QUERY_CONVERSATION, "o", "c"))->conversations[0].title, want);
}

static void test_title_by_a_model_replaces_the_first_messages_alone(void **state)
{
    struct fixture *f = *state;
    put_conversation(f, "o", "c", "automatic", false, 100);
    put_conversation(f, "p", "c", "automatic", false, 100);
    put_conversation(f, "o", "d", "automatic", false, 100);
    expect_title(f, "another", "a model's", "automatic");
    expect_title(f, NULL, "a model's", "automatic");
    expect_title(f, "automatic", "a model's", "a model's");
    assert_int_equal(f->answer.conversations[0].updated_at, 100);
    assert_int_equal(f->answer.conversations[0].flags, CONVERSATION_TITLED);
    expect_title(f, "a model's", "a model's again", "a model's");
    kit_reopen(f);
    assert_str(ask(f, about(QUERY_CONVERSATION, "o", "c"))->conversations[0].title, "a model's");
    assert_str(ask(f, about(QUERY_CONVERSATION, "p", "c"))->conversations[0].title, "automatic");
    assert_str(ask(f, about(QUERY_CONVERSATION, "o", "d"))->conversations[0].title, "automatic");
    put_conversation(f, "o", "c", "an agent's", true, 200);
    newest_op(f)->softly = true;
    commit(f);
    expect_title(f, "an agent's", "a model's", "an agent's");
}

static void test_title_by_a_model_of_one_without_a_title(void **state)
{
    struct fixture *f = *state;
    put_message(f, "o", "c", "m1", "x"); /* makes it */
    commit(f);
    assert_null(ask(f, about(QUERY_CONVERSATION, "o", "c"))->conversations[0].title.p);
    expect_title(f, NULL, "a model's", "a model's");
}

static void test_title_by_a_model_leaves_one_that_was_given(void **state)
{
    struct fixture *f = *state;
    put_conversation(f, "o", "c", "same", true, 100);
    newest_op(f)->flags_set = CONVERSATION_NAMED;
    expect_title(f, "same", "a model's", "same");
    put_delete(f, "o", "c");
    batch_put(f->batch, &(struct op){.kind = OP_TITLE,
                                     .owner = STR("o"),
                                     .conversation_id = STR("c"),
                                     .key = STR("same"),
                                     .title = STR("a model's")});
    commit(f);
    assert_int_equal(ask_status(f, about(QUERY_CONVERSATION, "o", "c")), STORE_NOT_FOUND);
}

static void test_conversations_by_their_flags(void **state)
{
    struct fixture *f = *state;
    static const struct {
        unsigned asked, flags;
        const char *ids;
    } rows[] = {{0, 0, "dcba"},
                {CONVERSATION_PINNED, CONVERSATION_PINNED, "ca"},
                {CONVERSATION_PINNED, 0, "db"},
                {CONVERSATION_ARCHIVED, CONVERSATION_ARCHIVED, "cb"},
                {CONVERSATION_PINNED | CONVERSATION_ARCHIVED, CONVERSATION_PINNED, "a"}};
    for (char id[] = "a"; id[0] <= 'd'; id[0]++)
        put_conversation(f, "o", id, NULL, false, id[0]);
    put_conversation(f, "o", "a", NULL, false, 0);
    newest_op(f)->flags_set = CONVERSATION_PINNED;
    put_conversation(f, "o", "b", NULL, false, 0);
    newest_op(f)->flags_set = CONVERSATION_PINNED | CONVERSATION_ARCHIVED;
    put_conversation(f, "o", "c", NULL, false, 0);
    newest_op(f)->flags_set = CONVERSATION_PINNED | CONVERSATION_ARCHIVED;
    put_conversation(f, "o", "b", NULL, false, 0);
    newest_op(f)->flags_clear = CONVERSATION_PINNED;
    commit(f);
    kit_reopen(f);
    for (size_t i = 0; i < countof(rows); i++) {
        struct query q = {.kind = QUERY_CONVERSATIONS,
                          .owner = STR("o"),
                          .flags_asked = rows[i].asked,
                          .flags = rows[i].flags};
        struct answer *a = ask(f, q);
        assert_int_equal(a->n_conversations, strlen(rows[i].ids));
        for (size_t n = 0; n < a->n_conversations; n++)
            assert_memory_equal(a->conversations[n].conversation_id.p, rows[i].ids + n, 1);
        q.limit = 1;
        q.before = STR("d");
        a = ask(f, q);
        bool has_d = rows[i].ids[0] == 'd';
        if (strlen(rows[i].ids) > has_d)
            assert_memory_equal(a->conversations[0].conversation_id.p, rows[i].ids + has_d, 1);
    }
    assert_int_equal(ask(f, about(QUERY_CONVERSATION, "o", "c"))->conversations[0].flags,
                     CONVERSATION_PINNED | CONVERSATION_ARCHIVED);
}

/* The ids of what was found, without their m. */
static void expect_found(struct fixture *f, struct query q, const char *ids, bool more,
                         const char *looked_at)
{
    struct answer *a = ask(f, q);
    assert_int_equal(a->n_messages, strlen(ids));
    for (size_t i = 0; i < a->n_messages; i++)
        assert_memory_equal(a->messages[i].message_id.p + 1, ids + i, 1);
    assert_int_equal(a->more, more);
    if (looked_at)
        assert_str(a->looked_at, looked_at);
}

static void test_search_goes_through_listed_conversations_newest_first(void **state)
{
    struct fixture *f = *state;
    put_message(f, "o", "c", "m1", "The Quick brown fox");
    put_message(f, "o", "d", "m2", "a QUICK reply");
    put_message(f, "p", "c", "m3", "quick, but somebody else's");
    put_conversation(f, "o", "hidden", NULL, false, 1);
    newest_op(f)->unlisted = true;
    put_message(f, "o", "hidden", "m4", "quick");
    put_message(f, "o", "c", "m5", "slow");
    put_message(f, "o", "c", "m6", "quick as a fox");
    commit(f);
    struct query q = {.kind = QUERY_SEARCH, .owner = STR("o"), .key = STR("qUiCk")};
    expect_found(f, q, "621", false, "m1");
    assert_str(f->answer.messages[1].conversation_id, "d");
    assert_str(f->answer.messages[2].content, "The Quick brown fox");
    q.key = STR("fox \"quick as\"");
    expect_found(f, q, "6", false, "m1");
    q.key = STR("uick");
    q.limit = 2;
    expect_found(f, q, "62", true, "m2");
    q.before = STR("m2");
    expect_found(f, q, "1", false, "m1");
    q.before = STR("m1");
    expect_found(f, q, "", false, NULL);
    q.before = STR_NULL;
    q.limit = 0;
    q.max_bytes = 100; /* one row and a little more: but at least one is looked at */
    expect_found(f, q, "6", true, "m6");
    q.before = STR("m6");
    expect_found(f, q, "", true, "m5");
    q = (struct query){.kind = QUERY_SEARCH, .owner = STR("x"), .key = STR("quick")};
    expect_found(f, q, "", false, NULL);
    put_delete(f, "o", "d");
    commit(f);
    q.owner = STR("o");
    expect_found(f, q, "61", false, "m1");
}

static void test_search_in_titles(void **state)
{
    struct fixture *f = *state;
    put_conversation(f, "o", "a", "Travel to Rome", false, 10);
    put_conversation(f, "o", "b", "Rome, again", false, 20);
    put_conversation(f, "o", "c", "work", false, 30);
    put_conversation(f, "o", "d", NULL, false, 40);
    put_conversation(f, "p", "e", "Rome", false, 50);
    commit(f);
    struct query q = {
        .kind = QUERY_CONVERSATIONS, .owner = STR("o"), .key = STR("rome"), .limit = 1};
    struct answer *a = ask(f, q);
    assert_int_equal(a->n_conversations, 1);
    assert_str(a->conversations[0].conversation_id, "b");
    q.limit = 5;
    a = ask(f, q);
    assert_int_equal(a->n_conversations, 2);
    assert_false(a->more);
    assert_str(a->conversations[1].title, "Travel to Rome");
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
        put_notice(f, 10 + i, owner, "c", false);
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
        assert_int_equal(ask(f, about(QUERY_NOTICES, NULL, NULL))->n_notices, 1);
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
    assert_next_key(f, &start, 12);  /* never used again */
    put_task(f, 12, "o", "c", "t1"); /* the ids are free again */
    put_message(f, "o", "c", "m1", "x");
    commit(f);
}

static void test_notices_wait_until_they_are_taken(void **state)
{
    struct fixture *f = *state;
    put_notice(f, 7, "p", "d", true);
    put_notice(f, 3, "o", "c", false);
    put_notice(f, 5, "o", "c", false);
    commit(f);
    kit_reopen(f);
    struct query q = {.kind = QUERY_NOTICES, .limit = 2};
    struct answer *a = ask(f, q);
    assert_int_equal(a->n_notices, 2);
    assert_true(a->more);
    assert_int_equal(a->notices[0].key, 3);
    assert_int_equal(a->notices[1].key, 5);
    assert_false(a->notices[1].silent);
    assert_str(a->notices[1].text, "it has ended");
    assert_null(a->notices[1].source.p);
    put_notice_take(f, 5);
    put_notice_take(f, 5); /* once more changes nothing */
    put_notice_take(f, 99);
    commit(f);
    q.after = 3;
    a = ask(f, q);
    assert_int_equal(a->n_notices, 1);
    assert_false(a->more);
    assert_int_equal(a->notices[0].key, 7);
    assert_true(a->notices[0].silent);
    assert_str(a->notices[0].owner, "p");
    assert_str(a->notices[0].conversation_id, "d");
    assert_str(a->notices[0].agent, "assistant");
    assert_str(a->notices[0].source, "proc_1");
}

static void test_notice_turns_are_counted_until_a_user_speaks(void **state)
{
    struct fixture *f = *state;
    static const enum turn_count turns[] = {TURNS_ADD,  TURNS_ADD,   TURNS_KEEP,
                                            TURNS_KEEP, TURNS_RESET, TURNS_ADD};
    static const unsigned counts[] = {1, 2, 2, 2, 0, 1};
    for (size_t i = 0; i < countof(turns); i++) {
        put_turns(f, "o", "c", turns[i]);
        commit(f);
        struct answer *a = ask(f, about(QUERY_CONVERSATION, "o", "c"));
        assert_int_equal(a->conversations[0].notices, counts[i]);
    }
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
    assert_next_key(f, &start, 6);
    assert_string_equal(start.newest_id, "01BX5ZZKBKACTAV9WEVGEMMVS0");
}

/* --- atomicity -------------------------------------------------------------------------------- */

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
        int status = commit_status(f);
        assert_true(status == STORE_IO || status == STORE_REFUSED);
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
        assert_next_key(f, &start, 2);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(test_messages_newest_that_fit_oldest_first),
        EACH(test_title_is_set_once_unless_forced),
        EACH(test_title_that_the_owner_gave_stays),
        EACH(test_title_by_a_model_replaces_the_first_messages_alone),
        EACH(test_title_by_a_model_of_one_without_a_title),
        EACH(test_title_by_a_model_leaves_one_that_was_given),
        EACH(test_conversations_by_their_flags),
        EACH(test_search_goes_through_listed_conversations_newest_first),
        EACH(test_search_in_titles),
        EACH(test_conversations_newest_change_first),
        EACH(test_deleted_conversation_leaves_nothing),
        EACH(test_notices_wait_until_they_are_taken),
        EACH(test_notice_turns_are_counted_until_a_user_speaks),
        EACH(test_start_knows_the_newest_id),
        EACH(test_batch_that_fails_changes_nothing),
        EACH(test_answer_beyond_its_bytes_ends_early),
    };
    return kit_run_all(tests, countof(tests));
}
