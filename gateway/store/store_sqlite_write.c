/* Batches into transactions.  The state in memory (marks, the journal's tails) follows a
 * transaction only after its COMMIT; a failure rolls both back. */
#include "gateway/store/store_sqlite_private.h"
#include "proto/line_pack.h"

void sqlite_note_id(struct store_sqlite *s, struct str id)
{
    if (id.n == TASK_ID_LEN && memcmp(id.p, s->new_marks.newest_id, TASK_ID_LEN) > 0)
        memcpy(s->new_marks.newest_id, id.p, TASK_ID_LEN);
}

static void sql_conversation(struct sql_call *c, const struct op *op)
{
    sql_text(c, op->owner);
    sql_text(c, op->conversation_id);
}

#define N(type, name) sql_int(c, (int64_t)from->name);
#define R(name) sql_real(c, from->name);
#define T(name) sql_text(c, from->name);

/* In the order of SQL_TASK_STATE and SQL_TASK_LONG. */
static void sql_state(struct sql_call *c, const struct task_state *from)
{
    TASK_STATE_NUMBERS(N, R)
    TASK_STATE_TEXTS(T)
    TASK_LONG_TEXTS(T)
}

static void sql_input(struct sql_call *c, const struct task_record *from)
{
    TASK_INPUT_TEXTS(T)
}

static void sql_record(struct sql_call *c, const struct task_record *from)
{
    sql_int(c, from->key);
    TASK_FIXED_NUMBERS(N)
    TASK_NAMES(T)
    TASK_FIXED_TEXTS(T)
    sql_state(c, &from->state);
    sql_input(c, from); /* only for the checksum */
}

#undef N
#undef R
#undef T

static int put_context(struct store_sqlite *s, const struct task_record *t)
{
    struct sql_call c = sql_begin(&s->writer, STMT_CONTEXT_NEW);
    sql_int(&c, t->key);
    sql_text(&c, t->context);
    return sql_run(&c);
}

static int apply_task_new(struct store_sqlite *s, const struct op *op)
{
    const struct task_record *t = op->record;
    struct sql_call c = sql_begin(&s->writer, STMT_TASK_NEW);
    sql_record(&c, t);
    int status = sql_run(&c);
    if (status < 0)
        return status;

    if (t->key >= s->new_marks.next_key)
        s->new_marks.next_key = t->key + 1;
    sqlite_note_id(s, t->task_id);
    if (t->input.p || t->metadata.p || t->parts.p) {
        c = sql_begin(&s->writer, STMT_INPUT_NEW);
        sql_int(&c, t->key);
        sql_input(&c, t);
        status = sql_run(&c);
    }
    bool has_ended = status_is_terminal(t->state.status);
    if (status == STORE_OK && t->context.p && !has_ended)
        status = put_context(s, t);
    return status == STORE_OK && has_ended ? sqlite_usage_ended(s, t->key) : status;
}

/* Rows that only a live task has. */
static int drop_run(struct store_sqlite *s, int64_t task_key)
{
    static const enum stmt steps[] = {STMT_CONTEXT_GONE, STMT_MARK_GONE, STMT_NOTES_GONE};
    int status = STORE_OK;
    for (size_t i = 0; i < countof(steps) && status == STORE_OK; i++) {
        struct sql_call c = sql_begin(&s->writer, steps[i]);
        sql_int(&c, task_key);
        status = sql_run(&c);
    }
    return status;
}

static int apply_task_set(struct store_sqlite *s, const struct op *op)
{
    bool ends = status_is_terminal(op->state->status);
    int status = ends ? sqlite_usage_forget(s, op->task_key) : STORE_OK; /* a batch may repeat it */
    if (status < 0)
        return status;
    struct sql_call c = sql_begin(&s->writer, STMT_TASK_SET);
    sql_int(&c, op->task_key);
    sql_state(&c, op->state);
    status = sql_run(&c);
    if (status == STORE_OK && ends)
        status = drop_run(s, op->task_key);
    return status == STORE_OK && ends ? sqlite_usage_ended(s, op->task_key) : status;
}

/* STORE_NOT_FOUND when there is no such task: then an op for it has no effect.  A tail proves that
 * its task exists, unless this very transaction deletes. */
static int task_exists(struct store_sqlite *s, int64_t task_key)
{
    if (!s->deletes && sqlite_journal_has(&s->journal, task_key))
        return STORE_OK;
    struct sql_call c = sql_begin(&s->writer, STMT_TASK_EXISTS);
    sql_int(&c, task_key);
    bool exists = sql_step(&c);
    int status = sql_end(&c);
    return status < 0 ? status : exists ? STORE_OK : STORE_NOT_FOUND;
}

/* Until the next ones. */
static struct str packed(struct store_sqlite *s, struct str lines)
{
    buf_clear(&s->packed);
    line_pack(&s->packed, lines);
    return buf_str(&s->packed);
}

static int apply_lines(struct store_sqlite *s, const struct op *op)
{
    ASSERT(op->first > 0 && op->last >= op->first);
    int status = task_exists(s, op->task_key);
    if (status < 0)
        return status;
    return sqlite_journal_lines(&s->journal, op->task_key, op->first, op->last,
                                packed(s, op->bytes));
}

static int put_block(struct store_sqlite *s, int64_t task_key, const struct lines *block)
{
    struct str bytes = packed(s, block->bytes);
    struct sql_call c = sql_begin(&s->writer, STMT_BLOCK_NEW);
    sql_int(&c, task_key);
    sql_int(&c, (int64_t)block->first);
    sql_int(&c, (int64_t)block->last);
    sql_blob(&c, bytes);
    sql_int(&c, line_pack_is(bytes) ? (int64_t)block->bytes.n : 0);
    return sql_run(&c);
}

static int apply_seal(struct store_sqlite *s, const struct op *op)
{
    ASSERT(op->first > 0 && op->last >= op->first);
    int status = task_exists(s, op->task_key);
    struct lines left = {op->first, op->last, op->bytes}, block;
    while (status == STORE_OK && lines_take_block(&left, &block))
        status = put_block(s, op->task_key, &block);
    if (status < 0)
        return status;
    sqlite_journal_drop(&s->journal, op->task_key);
    return sqlite_usage_sealed(s, op->task_key, op->bytes.n);
}

static int apply_message(struct store_sqlite *s, const struct op *op)
{
    struct sql_call c = sql_begin(&s->writer, STMT_CONVERSATION_ENSURE);
    sql_conversation(&c, op);
    sql_int(&c, op->message->created_at);
    int status = sql_run(&c);
    if (status < 0)
        return status;
    sqlite_note_id(s, op->message->message_id);
    return sqlite_message_put(s, op);
}

static int apply_conversation(struct store_sqlite *s, const struct op *op)
{
    struct sql_call c = sql_begin(&s->writer, STMT_CONVERSATION_SET);
    sql_conversation(&c, op);
    sql_text(&c, op->title);
    sql_text(&c, op->agent);
    sql_int(&c, op->at);
    sql_int(&c, op->force && op->softly ? 2 : op->force);
    sql_int(&c, op->turns);
    sql_int(&c, op->unlisted);
    sql_int(&c, op->flags_set);
    sql_int(&c, op->flags_clear);
    return sql_run(&c);
}

static int apply_title(struct store_sqlite *s, const struct op *op)
{
    struct sql_call c = sql_begin(&s->writer, STMT_TITLE_SET);
    sql_conversation(&c, op);
    sql_text(&c, op->title);
    sql_text(&c, op->key);
    return sql_run(&c);
}

/* The tasks' rows are deleted at once, so that no look-up finds them; their blocks, inputs and
 * inboxes, which may be large, are named in garbage and removed in pieces
 * (sqlite_collect_garbage). */
static int apply_delete(struct store_sqlite *s, const struct op *op)
{
    static const enum stmt steps[] = {STMT_USAGE_FORGET_ALL,   STMT_GARBAGE_ADD,
                                      STMT_TASKS_DELETE,       STMT_MESSAGES_DELETE,
                                      STMT_KEYS_DELETE,        STMT_NOTICES_DELETE,
                                      STMT_FILES_DELETE_COUNT, STMT_FILES_DELETE,
                                      STMT_FILE_USES_DELETE,   STMT_CONVERSATION_DELETE};
    struct sql_call c = sql_begin(&s->writer, STMT_TASK_KEYS);
    sql_conversation(&c, op);
    while (sql_step(&c))
        sqlite_journal_drop(&s->journal, sql_col_int(&c, 0));
    int status = sql_end(&c);
    s->deletes = true;
    for (size_t i = 0; i < countof(steps) && status == STORE_OK; i++) {
        c = sql_begin(&s->writer, steps[i]);
        sql_conversation(&c, op);
        status = sql_run(&c);
    }
    return status;
}

static int apply_request_key(struct store_sqlite *s, const struct op *op)
{
    struct sql_call c = sql_begin(&s->writer, STMT_KEY_SET);
    sql_text(&c, op->owner);
    sql_text(&c, op->key);
    sql_text(&c, op->conversation_id);
    sql_text(&c, op->task_id);
    sql_int(&c, op->at);
    return sql_run(&c);
}

static int apply_ack(struct store_sqlite *s, const struct op *op)
{
    struct sql_call c = sql_begin(&s->writer, STMT_ACK);
    sql_conversation(&c, op);
    sql_text(&c, op->key);
    return sql_run(&c);
}

static int apply_inbox_put(struct store_sqlite *s, const struct op *op)
{
    struct sql_call c = sql_begin(&s->writer, STMT_INBOX_PUT);
    sql_int(&c, op->task_key);
    sql_int(&c, (int64_t)op->first);
    sql_blob(&c, op->bytes);
    return sql_run(&c);
}

static int apply_inbox_take(struct store_sqlite *s, const struct op *op)
{
    struct sql_call c = sql_begin(&s->writer, STMT_INBOX_TAKE);
    sql_int(&c, op->task_key);
    sql_int(&c, (int64_t)op->first);
    sql_int(&c, (int64_t)op->last);
    return sql_run(&c);
}

static int apply_mark(struct store_sqlite *s, const struct op *op)
{
    struct sql_call c = sql_begin(&s->writer, STMT_MARK_SET);
    sql_int(&c, op->task_key);
    sql_int(&c, (int64_t)op->first);
    return sql_run(&c);
}

static int apply_note(struct store_sqlite *s, const struct op *op)
{
    struct sql_call c = sql_begin(&s->writer, STMT_NOTE_SET);
    sql_int(&c, op->task_key);
    sql_int(&c, (int64_t)op->first);
    sql_int(&c, (int64_t)op->last);
    sql_blob(&c, op->bytes);
    return sql_run(&c);
}

static int apply_notice_put(struct store_sqlite *s, const struct op *op)
{
    const struct notice_record *n = op->notice;
    if (n->key >= s->new_marks.next_key) /* of something that is not a task */
        s->new_marks.next_key = n->key + 1;
    struct sql_call c = sql_begin(&s->writer, STMT_NOTICE_PUT);
    sql_int(&c, n->key);
    sql_int(&c, n->silent);
    sql_text(&c, n->owner);
    sql_text(&c, n->conversation_id);
    sql_text(&c, n->agent);
    sql_text(&c, n->text);
    sql_text(&c, n->source);
    return sql_run(&c);
}

static int apply_notice_take(struct store_sqlite *s, const struct op *op)
{
    struct sql_call c = sql_begin(&s->writer, STMT_NOTICE_TAKE);
    sql_int(&c, op->task_key);
    return sql_run(&c);
}

static int apply_outbox_put(struct store_sqlite *s, const struct op *op)
{
    const struct outbox_record *o = op->outbox;
    struct sql_call c = sql_begin(&s->writer, STMT_OUTBOX_PUT);
    sql_int(&c, o->key);
    sql_text(&c, o->hook);
    sql_text(&c, o->id);
    sql_int(&c, o->at);
    sql_text(&c, o->body);
    if (o->key >= s->new_marks.next_key)
        s->new_marks.next_key = o->key + 1;
    return sql_run(&c);
}

static int apply_outbox_take(struct store_sqlite *s, const struct op *op)
{
    struct sql_call c = sql_begin(&s->writer, STMT_OUTBOX_TAKE);
    sql_int(&c, op->task_key);
    return sql_run(&c);
}

static int apply_revoke(struct store_sqlite *s, const struct op *op)
{
    struct sql_call c = sql_begin(&s->writer, op->at ? STMT_REVOKE : STMT_UNREVOKE);
    sql_text(&c, op->owner);
    if (op->at)
        sql_int(&c, op->at);
    return sql_run(&c);
}

static int apply(struct store_sqlite *s, const struct op *op)
{
    switch (op->kind) {
    case OP_TASK_NEW: return apply_task_new(s, op);
    case OP_TASK_SET: return apply_task_set(s, op);
    case OP_LINES: return apply_lines(s, op);
    case OP_SEAL: return apply_seal(s, op);
    case OP_MESSAGE: return apply_message(s, op);
    case OP_BRANCH: return sqlite_branch(s, op);
    case OP_CONVERSATION: return apply_conversation(s, op);
    case OP_TITLE: return apply_title(s, op);
    case OP_CONVERSATION_DELETE: return apply_delete(s, op);
    case OP_REQUEST_KEY: return apply_request_key(s, op);
    case OP_ACK: return apply_ack(s, op);
    case OP_INBOX_PUT: return apply_inbox_put(s, op);
    case OP_INBOX_TAKE: return apply_inbox_take(s, op);
    case OP_MARK: return apply_mark(s, op);
    case OP_NOTE: return apply_note(s, op);
    case OP_NOTICE_PUT: return apply_notice_put(s, op);
    case OP_NOTICE_TAKE: return apply_notice_take(s, op);
    case OP_OUTBOX_PUT: return apply_outbox_put(s, op);
    case OP_OUTBOX_TAKE: return apply_outbox_take(s, op);
    case OP_REVOKE: return apply_revoke(s, op);
    case OP_FILE_PUT: return sqlite_file_put(s, op);
    case OP_FILE_USE: return sqlite_file_use(s, op);
    case OP_FILES_EXPIRE: return sqlite_files_expire(s, op);
    case OP_FILES_REMOVE: return sqlite_files_remove(s, op);
    case OP_EVENTS_REMOVE: return sqlite_events_remove(s, op);
    case OP_TASK_REMOVE: return sqlite_task_remove(s, op);
    }
    UNREACHABLE();
}

static int write_marks(struct store_sqlite *s)
{
    if (s->new_marks.next_key == s->marks.next_key &&
        memcmp(s->new_marks.newest_id, s->marks.newest_id, sizeof s->marks.newest_id) == 0)
        return STORE_OK;
    struct sql_call c = sql_begin(&s->writer, STMT_MARKS_SET);
    sql_int(&c, s->new_marks.next_key);
    sql_text(&c, str_of(s->new_marks.newest_id));
    return sql_run(&c);
}

static int apply_all(struct store_sqlite *s, const struct batch *batch)
{
    int status = sql_run_plain(&s->writer, STMT_BEGIN);
    for (size_t i = 0; i < batch->n_ops && status == STORE_OK; i++) {
        status = apply(s, &batch->ops[i]);
        if (status == STORE_NOT_FOUND)
            status = STORE_OK;
        batch->ops[i].refused = status == STORE_REFUSED;
    }
    if (status == STORE_OK)
        status = write_marks(s);
    if (status == STORE_OK)
        status = sqlite_journal_finish(&s->journal);
    if (status == STORE_OK)
        status = sql_run_plain(&s->writer, STMT_COMMIT);
    return status;
}

/* Some failures (disk full, I/O) have rolled back by themselves already. */
void sqlite_roll_back(struct store_sqlite *s)
{
    if (!sqlite3_get_autocommit(s->writer.db))
        (void)sql_run_plain(&s->writer, STMT_ROLLBACK);
    ASSERT(sqlite3_get_autocommit(s->writer.db));
}

int sqlite_commit(void *store, const struct batch *batch)
{
    struct store_sqlite *s = store;
    bool known = batch->number && batch->number == s->marks.number;
    if (known || batch->give_up)
        return known ? STORE_OK : STORE_VOID;
    s->new_marks = s->marks;
    if (batch->number)
        s->new_marks.number = batch->number;
    s->deletes = false;
    int status = apply_all(s, batch);
    if (s->packed.cap > PACKED_KEPT)
        buf_done(&s->packed);
    if (status < 0) {
        store_note_error(s, &s->writer);
        sqlite_roll_back(s);
        sqlite_journal_rollback(&s->journal);
        return status;
    }
    ASSERT(sql_gather_is_empty(&s->gather)); /* all of it is the kernel's now */
    s->marks = s->new_marks;
    sqlite_journal_commit(&s->journal);
    s->has_garbage = s->has_garbage || s->deletes;
    return STORE_OK;
}
