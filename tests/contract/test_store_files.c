/* Files on both stores: their rows, the tasks that name them, what is gone, and what counts. */
#include "tests/contract/store_kit.h"

static const char *const task_ids[] = {"", "01HF0000000000000000000001",
                                       "01HF0000000000000000000002"};

static struct str id_of(int n)
{
    static char text[TASK_ID_LEN + 1];
    snprintf(text, sizeof text, "01HG%022d", n);
    return str_of(text);
}

static struct query file_query(enum query_kind kind, const char *owner, const char *conversation,
                               struct str key)
{
    return (struct query){
        .kind = kind, .owner = str_of(owner), .conversation_id = str_of(conversation), .key = key};
}

static int status_of(struct fixture *f, const char *owner, const char *conversation, int n)
{
    return ask_status(f, file_query(QUERY_FILE, owner, conversation, id_of(n)));
}

static int64_t usage_of(struct fixture *f, const char *owner)
{
    const struct answer *a = ask(f, (struct query){.kind = QUERY_USAGE, .owner = str_of(owner)});
    return a->n_owners ? a->owners[0].value : 0;
}

static void put_use(struct fixture *f, const char *owner, int n, int task)
{
    batch_put(f->batch, &(struct op){.kind = OP_FILE_USE,
                                     .owner = str_of(owner),
                                     .conversation_id = STR("c"),
                                     .task_id = str_of(task_ids[task]),
                                     .key = id_of(n)});
}

static void put_expire(struct fixture *f, int64_t at)
{
    batch_put(f->batch, &(struct op){.kind = OP_FILES_EXPIRE, .at = at});
}

static void put_remove(struct fixture *f, const char *blob)
{
    batch_put(f->batch, &(struct op){.kind = OP_FILES_REMOVE, .key = str_of(blob)});
}

static void put_ended(struct fixture *f, int task)
{
    put_task(f, task, "o", "c", task_ids[task]);
    put_seal(f, task, 1, 5);
    put_state(
        f, task,
        (struct task_state){.status = STATUS_COMPLETED, .first = 1, .head = 5, .completed_at = 50});
}

/* The blobs that are gone; a + behind those that other files share. */
static void assert_gone(struct fixture *f, const char *expected)
{
    struct buf got = {0};
    const struct answer *a = ask(f, (struct query){.kind = QUERY_FILES_GONE});
    buf_puts(&got, "");
    for (size_t i = 0; i < a->n_files; i++) {
        buf_putstr(&got, a->files[i].blob);
        buf_puts(&got, a->files[i].shares ? "+ " : " ");
    }
    buf_putc(&got, 0);
    assert_string_equal(got.bytes, expected);
    buf_done(&got);
}

static void test_file_is_found_by_all_three_and_by_its_upload(void **state)
{
    struct fixture *f = *state;
    put_file(f, "o", "c", id_of(1), "b1", "try", 100, 10);
    put_file(f, "p", "c", id_of(2), "b2", NULL, 7, 10);
    commit(f);
    kit_reopen(f);
    assert_int_equal(status_of(f, "o", "c", 1), STORE_OK);
    const struct file_record *r = &f->answer.files[0];
    assert_str(r->owner, "o");
    assert_str(r->conversation_id, "c");
    assert_true(str_eq(r->file_id, id_of(1)));
    assert_str(r->name, "a name");
    assert_str(r->media_type, "text/plain");
    assert_str(r->sha256, "b1");
    assert_str(r->blob, "b1");
    assert_str(r->upload, "try");
    assert_int_equal(r->size, 100);
    assert_int_equal(r->created_at, 10);
    assert_int_equal(status_of(f, "p", "c", 1), STORE_NOT_FOUND);
    assert_int_equal(status_of(f, "o", "d", 1), STORE_NOT_FOUND);
    assert_int_equal(status_of(f, "o", "c", 2), STORE_NOT_FOUND);
    assert_int_equal(ask_status(f, file_query(QUERY_FILE, "o", "c", STR(""))), STORE_NOT_FOUND);
    assert_int_equal(ask(f, file_query(QUERY_UPLOAD, "o", "c", STR("try")))->n_files, 1);
    assert_int_equal(ask_status(f, file_query(QUERY_UPLOAD, "p", "c", STR("try"))),
                     STORE_NOT_FOUND);
    assert_int_equal(ask_status(f, file_query(QUERY_UPLOAD, "o", "d", STR("try"))),
                     STORE_NOT_FOUND);
    assert_int_equal(ask(f, file_query(QUERY_BLOB, "", "", STR("b2")))->n_files, 1);
    assert_int_equal(ask_status(f, file_query(QUERY_BLOB, "", "", STR("b3"))), STORE_NOT_FOUND);
    assert_int_equal(usage_of(f, "o"), TASK_ROW_BYTES + 100);
    assert_int_equal(usage_of(f, "p"), TASK_ROW_BYTES + 7);
    struct store_start start;
    assert_int_equal(f->ops->start(f->store, &start), STORE_OK);
    assert_string_equal(start.newest_id, id_of(2).p);
}

static void test_what_nobody_names_expires(void **state)
{
    struct fixture *f = *state;
    put_file(f, "o", "c", id_of(1), "b1", NULL, 100, 10);
    put_file(f, "o", "c", id_of(2), "b2", NULL, 100, 10);
    put_file(f, "o", "c", id_of(3), "b3", "try", 100, 20);
    put_task(f, 1, "o", "c", task_ids[1]);
    put_use(f, "o", 2, 1);
    put_use(f, "o", 2, 1); /* again: no effect */
    put_use(f, "p", 1, 1); /* not his */
    put_use(f, "o", 9, 1); /* not there */
    commit(f);
    put_expire(f, 20);
    commit(f);
    kit_reopen(f);
    assert_int_equal(status_of(f, "o", "c", 1), STORE_NOT_FOUND);
    assert_int_equal(status_of(f, "o", "c", 2), STORE_OK);
    assert_int_equal(status_of(f, "o", "c", 3), STORE_OK);
    assert_gone(f, "b1 ");
    assert_int_equal(usage_of(f, "o"), 2 * (TASK_ROW_BYTES + 100));
    put_remove(f, "b1");
    put_remove(f, "b2"); /* is not gone: no effect */
    commit(f);
    assert_gone(f, "");
    assert_int_equal(status_of(f, "o", "c", 2), STORE_OK);
    put_expire(f, 1000);
    commit(f);
    assert_gone(f, "b3 ");
    assert_int_equal(ask_status(f, file_query(QUERY_UPLOAD, "o", "c", STR("try"))),
                     STORE_NOT_FOUND);
}

static void test_files_go_with_the_last_task_that_names_them(void **state)
{
    struct fixture *f = *state;
    put_file(f, "o", "c", id_of(1), "b1", NULL, 100, 10);
    put_file(f, "o", "c", id_of(2), "b2", NULL, 100, 10);
    put_ended(f, 1);
    put_ended(f, 2);
    put_use(f, "o", 1, 1);
    put_use(f, "o", 2, 1);
    put_use(f, "o", 2, 2);
    put_conversation(f, "o", "c", "t", true, 900);
    commit(f);
    int64_t before = usage_of(f, "o");
    put_task_remove(f, 1, "o", "c", task_ids[1], 0, 60);
    commit(f);
    assert_int_equal(status_of(f, "o", "c", 1), STORE_NOT_FOUND);
    assert_int_equal(status_of(f, "o", "c", 2), STORE_OK);
    assert_gone(f, "b1 ");
    assert_true(usage_of(f, "o") <= before - TASK_ROW_BYTES - 100);
    put_task_remove(f, 2, "o", "c", task_ids[2], 0, 60);
    commit(f);
    kit_reopen(f);
    assert_gone(f, "b1 b2 ");
}

static void test_files_go_with_their_conversation_and_share_their_bytes(void **state)
{
    struct fixture *f = *state;
    put_file(f, "o", "c", id_of(1), "b1", NULL, 100, 10);
    put_file(f, "o", "c", id_of(2), "b1", NULL, 100, 10);
    put_file(f, "o", "c", id_of(3), "b2", NULL, 100, 10);
    put_file(f, "o", "d", id_of(4), "b2", NULL, 100, 10);
    put_file(f, "p", "c", id_of(5), "b3", NULL, 100, 10);
    put_task(f, 1, "o", "c", task_ids[1]);
    put_use(f, "o", 1, 1);
    commit(f);
    put_delete(f, "o", "c");
    commit(f);
    kit_reopen(f);
    assert_gone(f, "b1 b2+ ");
    assert_int_equal(usage_of(f, "o"), TASK_ROW_BYTES + 100);
    assert_int_equal(status_of(f, "o", "d", 4), STORE_OK);
    assert_int_equal(status_of(f, "p", "c", 5), STORE_OK);
    const struct answer *a = ask(f, (struct query){.kind = QUERY_FILES_GONE, .limit = 1});
    assert_true(a->more && a->n_files == 1);
    put_remove(f, "b1");
    put_remove(f, "b2");
    commit(f);
    assert_gone(f, "");
    assert_int_equal(status_of(f, "o", "d", 4), STORE_OK);
    put_use(f, "o", 4, 1); /* of another conversation */
    put_expire(f, 1000);
    commit(f);
    assert_gone(f, "b2 b3 ");
    assert_int_equal(usage_of(f, "o"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(test_file_is_found_by_all_three_and_by_its_upload),
        EACH(test_what_nobody_names_expires),
        EACH(test_files_go_with_the_last_task_that_names_them),
        EACH(test_files_go_with_their_conversation_and_share_their_bytes),
    };
    return kit_run_all(tests, countof(tests));
}
