/* One suite for every store, on all backends: the tree of a conversation's messages. */
#include "tests/contract/store_kit.h"

#define O "o"
#define C "c"

/* A message of the task; role ROLE_USER is its question. */
/* NOLINTNEXTLINE(readability-function-size): a place has so many parts */
static void say_in(struct fixture *f, const char *conversation, enum message_place place,
                   const char *parent, const char *behind, enum message_role role, const char *id,
                   const char *task)
{
    struct message_record m = {.message_id = str_of(id),
                               .parent_id = str_of(parent),
                               .behind = str_of(behind),
                               .task_id = str_of(task),
                               .content = str_of(id),
                               .role = role,
                               .created_at = 70 + (id[1] - '0')};
    batch_put(f->batch, &(struct op){.kind = OP_MESSAGE,
                                     .owner = STR(O),
                                     .conversation_id = str_of(conversation),
                                     .message = &m,
                                     .place = place});
}

/* NOLINTNEXTLINE(readability-function-size) */
static void say_at(struct fixture *f, enum message_place place, const char *parent,
                   const char *behind, enum message_role role, const char *id, const char *task)
{
    say_in(f, C, place, parent, behind, role, id, task);
}

static void asks(struct fixture *f, const char *id, const char *task)
{
    say_at(f, PLACE_TIP, NULL, NULL, ROLE_USER, id, task);
}

static void says(struct fixture *f, const char *id, const char *task)
{
    say_at(f, PLACE_ANSWER, NULL, NULL, ROLE_ASSISTANT, id, task);
}

static void put_branch(struct fixture *f, const char *message, const char *task)
{
    batch_put(f->batch, &(struct op){.kind = OP_BRANCH,
                                     .owner = STR(O),
                                     .conversation_id = STR(C),
                                     .key = str_of(message),
                                     .task_id = str_of(task)});
}

/* A task that has ended, so that it may be removed; it answers another one's question. */
static void put_again(struct fixture *f, int64_t key, const char *task, const char *question)
{
    struct task_record t = task_of(key, O, C, task);
    t.question_id = str_of(question);
    t.state.status = STATUS_COMPLETED;
    put_record(f, t);
}

static void remove_task(struct fixture *f, int64_t key, const char *task)
{
    put_task_remove(f, key, O, C, task, 0, 0);
}

static struct query path_query(void)
{
    struct query q = about(QUERY_PATH, O, C);
    q.siblings = true;
    return q;
}

/* The path as text: ids, each with its siblings in brackets if there are others, "| tip task" and
 * what is below the end. */
static const char *path_of(struct fixture *f, struct query q)
{
    static struct buf text;
    const struct answer *a = ask(f, q);
    buf_clear(&text);
    buf_puts(&text, "");
    for (size_t i = 0; i < a->n_messages; i++) {
        const struct message_record *m = &a->messages[i], *above = i ? m - 1 : NULL;
        if (above)
            assert_true(str_eq(m->parent_id, above->message_id));
        buf_putf(&text, "%s%.*s", i ? " " : "", (int)m->message_id.n, m->message_id.p);
        if (m->siblings.p)
            buf_putf(&text, "(%.*s)", (int)m->siblings.n, m->siblings.p);
    }
    if (a->tip_task.p)
        buf_putf(&text, " | %.*s", (int)a->tip_task.n, a->tip_task.p);
    if (a->children.p)
        buf_putf(&text, " > %.*s", (int)a->children.n, a->children.p);
    return text.bytes;
}

static void assert_path(struct fixture *f, const char *path)
{
    kit_reopen(f);
    assert_string_equal(path_of(f, path_query()), path);
}

/* --- growing ---------------------------------------------------------------------------------- */

static void test_messages_in_their_order_are_one_path(void **state)
{
    struct fixture *f = *state;
    asks(f, "m1", "t1");
    commit(f);
    assert_path(f, "m1 | t1");
    says(f, "m2", "t1");
    asks(f, "m3", "t2");
    says(f, "m4", "t2");
    commit(f);
    assert_path(f, "m1 m2 m3 m4");
}

static void test_answer_comes_between_its_question_and_what_was_asked_meanwhile(void **state)
{
    struct fixture *f = *state;
    asks(f, "m1", "t1");
    asks(f, "m2", "t2");
    asks(f, "m3", "t3");
    commit(f);
    assert_path(f, "m1 m2 m3 | t3");
    says(f, "m4", "t2");
    commit(f);
    assert_path(f, "m1 m2 m4 m3 | t3");
    says(f, "m5", "t3");
    commit(f);
    assert_path(f, "m1 m2 m4 m3 m5");
    says(f, "m6", "t1");
    commit(f);
    assert_path(f, "m1 m6 m2 m4 m3 m5");
    asks(f, "m7", "t4");
    commit(f);
    assert_path(f, "m1 m6 m2 m4 m3 m5 m7 | t4");
}

static void test_news_without_a_task_stands_where_it_came(void **state)
{
    struct fixture *f = *state;
    say_at(f, PLACE_TIP, NULL, NULL, ROLE_SYSTEM, "m1", NULL);
    asks(f, "m2", "t1");
    say_at(f, PLACE_TIP, NULL, NULL, ROLE_SYSTEM, "m3", NULL);
    asks(f, "m4", "t2");
    says(f, "m5", "t1");
    commit(f);
    assert_path(f, "m1 m2 m5 m3 m4 | t2");
}

/* --- branches --------------------------------------------------------------------------------- */

/* m1 m2 m3 m4, in tasks t1 and t2. */
static void put_straight(struct fixture *f)
{
    asks(f, "m1", "t1");
    says(f, "m2", "t1");
    asks(f, "m3", "t2");
    says(f, "m4", "t2");
    commit(f);
}

static void test_edited_message_stands_beside_the_first_one(void **state)
{
    struct fixture *f = *state;
    put_straight(f);
    say_at(f, PLACE_BESIDE, "m3", NULL, ROLE_USER, "m5", "t3");
    commit(f);
    assert_path(f, "m1 m2 m5(m3 m5) | t3");
    says(f, "m6", "t3");
    commit(f);
    assert_path(f, "m1 m2 m5(m3 m5) m6");
    say_at(f, PLACE_BESIDE, "m1", NULL, ROLE_USER, "m7", "t4"); /* the very first one */
    commit(f);
    assert_path(f, "m7(m1 m7) | t4");
    put_branch(f, "m1", NULL);
    commit(f);
    assert_path(f, "m1(m1 m7) m2 m5(m3 m5) m6");
    put_branch(f, "m3", NULL);
    commit(f);
    assert_path(f, "m1(m1 m7) m2 m3(m3 m5) m4");
    say_at(f, PLACE_ROOT, NULL, NULL, ROLE_USER, "m8", "t5");
    commit(f);
    assert_path(f, "m8(m1 m7 m8) | t5");
}

static void test_message_at_the_root_may_be_the_first_one(void **state)
{
    struct fixture *f = *state;
    say_at(f, PLACE_ROOT, NULL, NULL, ROLE_USER, "m1", "t1");
    commit(f);
    assert_path(f, "m1 | t1");
    says(f, "m2", "t1");
    commit(f);
    assert_path(f, "m1 m2");
}

static void test_reply_goes_under_what_it_names(void **state)
{
    struct fixture *f = *state;
    put_straight(f);
    say_at(f, PLACE_UNDER, "m2", NULL, ROLE_USER, "m5", "t3");
    says(f, "m6", "t3");
    commit(f);
    assert_path(f, "m1 m2 m5(m3 m5) m6");
    say_at(f, PLACE_UNDER, "m6", NULL, ROLE_USER, "m7", "t4");
    commit(f);
    assert_path(f, "m1 m2 m5(m3 m5) m6 m7 | t4");
    say_at(f, PLACE_UNDER, "m7", "t4", ROLE_USER, "m8", "t5"); /* what t4 will say */
    commit(f);
    assert_path(f, "m1 m2 m5(m3 m5) m6 m7 m8 | t5");
    says(f, "m9", "t4");
    commit(f);
    assert_path(f, "m1 m2 m5(m3 m5) m6 m7 m9 m8 | t5");
    say_at(f, PLACE_UNDER, "m7", "t4", ROLE_USER, "n1", "t6"); /* and what it has said meanwhile */
    commit(f);
    assert_path(f, "m1 m2 m5(m3 m5) m6 m7 m9 n1(m8 n1) | t6");
}

static void test_edit_of_what_waits_for_an_answer_waits_too(void **state)
{
    struct fixture *f = *state;
    asks(f, "m1", "t1");
    asks(f, "m2", "t2");
    say_at(f, PLACE_BESIDE, "m2", NULL, ROLE_USER, "m3", "t3");
    commit(f);
    assert_path(f, "m1 m3(m2 m3) | t3");
    says(f, "m4", "t1");
    commit(f);
    assert_path(f, "m1 m4 m3(m2 m3) | t3");
}

static void test_regenerated_answer_stands_beside_the_first_one(void **state)
{
    struct fixture *f = *state;
    put_straight(f);
    put_again(f, 3, "t3", "m1");
    put_branch(f, "m1", "t3");
    commit(f);
    assert_path(f, "m1 | t3 > m2");
    asks(f, "m5", "t4"); /* behind it */
    commit(f);
    assert_path(f, "m1 m5(m2 m5) | t4");
    says(f, "m6", "t3");
    commit(f);
    assert_path(f, "m1 m6(m2 m6) m5 | t4");
    put_branch(f, "m2", NULL);
    commit(f);
    assert_path(f, "m1 m2(m2 m6) m3 m4");
}

static void test_branch_that_is_left_does_not_move_the_tip(void **state)
{
    struct fixture *f = *state;
    put_straight(f);
    put_again(f, 3, "t3", "m3");
    put_branch(f, "m3", "t3");
    put_branch(f, "m4", NULL);
    says(f, "m5", "t3");
    commit(f);
    assert_path(f, "m1 m2 m3 m4(m4 m5)");
    put_branch(f, "m3", NULL);
    commit(f);
    assert_path(f, "m1 m2 m3 m5(m4 m5)");
    put_branch(f, "gone", NULL);
    put_branch(f, "gone", "t1");
    commit(f);
    assert_path(f, "m1 m2 m3 m5(m4 m5)");
}

/* The newest answer that is under way continues where a branch ends with its question. */
static void test_branch_that_ends_with_a_question_has_its_newest_task(void **state)
{
    struct fixture *f = *state;
    asks(f, "m1", "t1");
    put_again(f, 3, "t3", "m1");
    put_again(f, 2, "t2", "m1");
    say_at(f, PLACE_BESIDE, "m1", NULL, ROLE_USER, "m2", "t4");
    put_branch(f, "m1", NULL);
    commit(f);
    assert_path(f, "m1(m1 m2) | t3");
    put_branch(f, "m2", NULL);
    commit(f);
    assert_path(f, "m2(m1 m2) | t4");
}

static void test_what_does_not_exist_means_the_tip(void **state)
{
    struct fixture *f = *state;
    put_straight(f);
    say_at(f, PLACE_UNDER, "gone", NULL, ROLE_USER, "m5", "t3");
    say_at(f, PLACE_BESIDE, "gone", NULL, ROLE_USER, "m6", "t4");
    says(f, "m7", "gone");
    commit(f);
    assert_path(f, "m1 m2 m3 m4 m5 m6 m7");
}

static void test_placed_says_where_it_went(void **state)
{
    struct fixture *f = *state;
    put_straight(f);
    say_at(f, PLACE_BESIDE, "m3", NULL, ROLE_USER, "m5", "t3");
    says(f, "m6", "t3");
    put_branch(f, "m3", NULL);
    put_branch(f, "m4", NULL);
    assert_int_equal(f->ops->commit(f->store, f->batch), STORE_OK);
    const struct placed *p = f->batch->ops[0].placed;
    assert_str(p->parent_id, "m2");
    assert_str(p->siblings, "m3 m5");
    assert_str(p->tip, "m5");
    assert_str(p->tip_task, "t3");
    assert_true(p->turned);
    p = f->batch->ops[1].placed;
    assert_str(p->parent_id, "m5");
    assert_null(p->siblings.p);
    assert_str(p->tip, "m6");
    assert_null(p->tip_task.p);
    assert_false(p->turned);
    p = f->batch->ops[2].placed;
    assert_str(p->tip, "m4");
    assert_true(p->turned);
    assert_false(f->batch->ops[3].placed->turned);
    batch_free(f->batch);
    f->batch = batch_new();
}

static void asks_in(struct fixture *f, const char *conversation, const char *id, const char *task)
{
    say_in(f, conversation, PLACE_TIP, NULL, NULL, ROLE_USER, id, task);
}

static void says_in(struct fixture *f, const char *conversation, const char *id, const char *task)
{
    say_in(f, conversation, PLACE_ANSWER, NULL, NULL, ROLE_ASSISTANT, id, task);
}

static void assert_path_in(struct fixture *f, const char *conversation, const char *path)
{
    struct query q = path_query();
    q.conversation_id = str_of(conversation);
    assert_string_equal(path_of(f, q), path);
}

/* A batch may have thousands, of which each is placed as if it were alone: in a conversation where
 * its question is the tip; where another one waits behind it; where the question comes in the same
 * batch, or a further message; where there is an answer; where there is no question. */
static void test_answers_of_many_conversations_in_one_batch(void **state)
{
    struct fixture *f = *state;
    asks_in(f, "c1", "m1", "t1");
    asks_in(f, "c2", "m1", "t2");
    asks_in(f, "c2", "m2", "t3");
    asks_in(f, "c4", "m1", "t5");
    asks_in(f, "c5", "m1", "t6");
    says_in(f, "c5", "m2", "t6");
    asks_in(f, "c7", "m1", "t10");
    struct task_record again = task_of(7, O, "c5", "t7");
    again.question_id = STR("m1");
    put_record(f, again);
    commit(f);
    says_in(f, "c1", "m2", "t1");
    says_in(f, "c2", "m3", "t2");
    asks_in(f, "c3", "m1", "t4");
    says_in(f, "c3", "m2", "t4");
    says_in(f, "c4", "m2", "t5");
    asks_in(f, "c4", "m3", "t8");
    says_in(f, "c5", "m3", "t7");
    says_in(f, "c6", "m1", "t9");
    asks_in(f, "c7", "m2", "t11");
    says_in(f, "c7", "m3", "t10");
    assert_int_equal(f->ops->commit(f->store, f->batch), STORE_OK);
    const struct placed *p = f->batch->ops[0].placed;
    assert_str(p->parent_id, "m1");
    assert_null(p->siblings.p);
    assert_str(p->tip, "m2");
    assert_null(p->tip_task.p);
    p = f->batch->ops[1].placed;
    assert_str(p->parent_id, "m1");
    assert_str(p->tip, "m2");
    assert_str(p->tip_task, "t3");
    p = f->batch->ops[6].placed;
    assert_str(p->siblings, "m2 m3");
    batch_free(f->batch);
    f->batch = batch_new();
    kit_reopen(f);
    assert_path_in(f, "c1", "m1 m2");
    assert_path_in(f, "c2", "m1 m3 m2 | t3");
    assert_path_in(f, "c3", "m1 m2");
    assert_path_in(f, "c4", "m1 m2 m3 | t8");
    assert_path_in(f, "c5", "m1 m2(m2 m3)");
    assert_path_in(f, "c6", "m1");
    assert_path_in(f, "c7", "m1 m3 m2 | t11");
}

/* --- paths and turns -------------------------------------------------------------------------- */

static void test_path_begins_where_it_is_asked_to(void **state)
{
    struct fixture *f = *state;
    put_straight(f);
    say_at(f, PLACE_BESIDE, "m3", NULL, ROLE_USER, "m5", "t3");
    put_again(f, 9, "t9", "m3");
    commit(f);
    struct query q = about(QUERY_PATH, O, C);
    q.before = STR("m4");
    assert_string_equal(path_of(f, q), "m1 m2 m3");
    q.limit = 2;
    assert_string_equal(path_of(f, q), "m2 m3");
    assert_true(f->answer.more);
    q.limit = 0;
    q.max_bytes = 2; /* each has two */
    assert_string_equal(path_of(f, q), "m3");
    assert_true(f->answer.more);
    q.max_bytes = 0;
    q.at = 72; /* m3 came at 73 */
    assert_string_equal(path_of(f, q), "m1 m2");
    q.at = 0;
    q.before = STR_NULL;
    q.key = STR("m4");
    assert_string_equal(path_of(f, q), "m1 m2 m3 m4");
    q.key = STR_NULL;
    q.task_id = STR("t2");
    assert_string_equal(path_of(f, q), "m1 m2");
    q.task_id = STR("t9"); /* it answers m3, too */
    assert_string_equal(path_of(f, q), "m1 m2");
    q.task_id = STR("gone");
    assert_string_equal(path_of(f, q), "");
    q.task_id = STR_NULL;
    q.before = STR("gone");
    assert_string_equal(path_of(f, q), "");
    q.before = STR_NULL;
    q.owner = STR("p");
    assert_string_equal(path_of(f, q), "");
    assert_int_equal(ask(f, about(QUERY_MESSAGES, O, C))->n_messages, 5);
}

static void assert_turn(struct fixture *f, const char *id, const char *expected)
{
    struct query q = about(QUERY_TURN, O, C);
    struct buf text = {0};
    q.key = str_of(id);
    buf_puts(&text, "");
    if (ask_status(f, q) == STORE_NOT_FOUND)
        buf_puts(&text, "not found");
    for (size_t i = 0; i < f->answer.n_messages; i++)
        buf_putf(&text, "%.*s ", (int)f->answer.messages[i].message_id.n,
                 f->answer.messages[i].message_id.p);
    for (size_t i = 0; i < f->answer.n_tasks; i++)
        buf_putf(&text, "%.*s", (int)f->answer.tasks[i].task_id.n, f->answer.tasks[i].task_id.p);
    assert_string_equal(text.bytes, expected);
    buf_done(&text);
}

static void test_turn_of_a_message_or_a_task(void **state)
{
    struct fixture *f = *state;
    put_straight(f);
    put_task(f, 1, O, C, "t1");
    put_again(f, 3, "t3", "m1");
    put_again(f, 4, "t4", "m1");
    says(f, "m5", "t3");
    say_at(f, PLACE_TIP, NULL, NULL, ROLE_SYSTEM, "m6", NULL);
    commit(f);
    assert_turn(f, "m1", "m1 m2 t1");
    assert_turn(f, "m2", "m1 m2 t1");
    assert_turn(f, "t1", "m1 m2 t1");
    assert_turn(f, "m5", "m1 m5 t3");
    assert_turn(f, "t3", "m1 m5 t3");
    assert_turn(f, "t4", "m1 t4");  /* no answer */
    assert_turn(f, "m4", "m3 m4 "); /* no record of its task */
    assert_turn(f, "t2", "not found");
    assert_turn(f, "m6", "m6 ");
    assert_turn(f, "gone", "not found");
    struct query foreign = about(QUERY_TURN, "p", C);
    foreign.key = STR("m1");
    assert_int_equal(ask_status(f, foreign), STORE_NOT_FOUND);
}

/* --- removing --------------------------------------------------------------------------------- */

static void put_ended(struct fixture *f, int64_t key, const char *task)
{
    put_again(f, key, task, NULL);
}

static void test_removed_turn_leaves_its_branches_under_what_was_before(void **state)
{
    struct fixture *f = *state;
    put_ended(f, 1, "t1");
    put_ended(f, 2, "t2");
    put_straight(f);
    say_at(f, PLACE_BESIDE, "m3", NULL, ROLE_USER, "m5", "t3");
    commit(f);
    remove_task(f, 1, "t1");
    commit(f);
    assert_path(f, "m5(m3 m5) | t3");
    put_branch(f, "m3", NULL);
    remove_task(f, 2, "t2");
    commit(f);
    assert_path(f, "m5 | t3"); /* nothing is lost of what is left */
}

static void test_question_stays_while_another_task_answers_it(void **state)
{
    struct fixture *f = *state;
    put_ended(f, 1, "t1");
    put_straight(f);
    put_again(f, 3, "t3", "m1");
    put_again(f, 4, "t4", "m1");
    says(f, "m5", "t3");
    says(f, "m6", "t4");
    commit(f);
    remove_task(f, 1, "t1");
    commit(f);
    assert_turn(f, "m1", "m1 m5 t3"); /* it is t3's now */
    put_branch(f, "m6", NULL);
    commit(f);
    assert_path(f, "m1 m6(m3 m5 m6)"); /* m3 was below m2 */
    remove_task(f, 3, "t3");
    remove_task(f, 4, "t4");
    commit(f);
    assert_path(f, "m3 m4");
}

static void test_removed_question_leaves_others_behind_the_same_task(void **state)
{
    struct fixture *f = *state;
    put_ended(f, 2, "t2");
    asks(f, "m1", "t1");
    asks(f, "m2", "t2");
    asks(f, "m3", "t3");
    commit(f);
    remove_task(f, 2, "t2");
    commit(f);
    assert_path(f, "m1 m3 | t3");
    says(f, "m4", "t1");
    commit(f);
    assert_path(f, "m1 m4 m3 | t3");
}

static void test_siblings_are_the_newest(void **state)
{
    struct fixture *f = *state;
    char id[16] = "m000", task[16];
    asks(f, id, "t");
    for (int i = 1; i < MAX_SIBLINGS + 3; i++) {
        snprintf(id, sizeof id, "m%03d", i);
        snprintf(task, sizeof task, "t%03d", i);
        say_at(f, PLACE_BESIDE, "m000", NULL, ROLE_USER, id, task);
    }
    commit(f);
    const struct answer *a = ask(f, path_query());
    assert_int_equal(a->messages[0].siblings.n, MAX_SIBLINGS * 5 - 1);
    assert_memory_equal(a->messages[0].siblings.p, "m003 m004 ", 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(test_messages_in_their_order_are_one_path),
        EACH(test_answer_comes_between_its_question_and_what_was_asked_meanwhile),
        EACH(test_news_without_a_task_stands_where_it_came),
        EACH(test_edited_message_stands_beside_the_first_one),
        EACH(test_message_at_the_root_may_be_the_first_one),
        EACH(test_reply_goes_under_what_it_names),
        EACH(test_edit_of_what_waits_for_an_answer_waits_too),
        EACH(test_regenerated_answer_stands_beside_the_first_one),
        EACH(test_branch_that_is_left_does_not_move_the_tip),
        EACH(test_branch_that_ends_with_a_question_has_its_newest_task),
        EACH(test_what_does_not_exist_means_the_tip),
        EACH(test_placed_says_where_it_went),
        EACH(test_answers_of_many_conversations_in_one_batch),
        EACH(test_path_begins_where_it_is_asked_to),
        EACH(test_turn_of_a_message_or_a_task),
        EACH(test_removed_turn_leaves_its_branches_under_what_was_before),
        EACH(test_question_stays_while_another_task_answers_it),
        EACH(test_removed_question_leaves_others_behind_the_same_task),
        EACH(test_siblings_are_the_newest),
    };
    return kit_run_all(tests, countof(tests));
}
