/* Ops as statements: nothing waits for an answer before the COMMIT, so whatever depends on what
 * there is stands in the statement itself. */
#include "gateway/store/store_pg_private.h"

#define GARBAGE_BLOCKS 64 /* removed at once */
#define GARBAGE_TASKS 64

static int64_t slot_number(struct str owner)
{
    return slot_of(owner);
}

static void pg_conversation(struct pg_call *c, const struct op *op)
{
    pg_text(c, op->owner);
    pg_text(c, op->conversation_id);
}

/* --- tasks ------------------------------------------------------------------------------------ */

#define N(type, name) pg_int(c, (int64_t)from->name);
#define R(name) pg_real(c, from->name);
#define T(name) pg_text(c, from->name);

/* In the order of PG_TASK_STATE and PG_TASK_LONG. */
static void bind_state(struct pg_call *c, const struct task_state *from)
{
    TASK_STATE_NUMBERS(N, R)
    TASK_STATE_TEXTS(T)
    TASK_LONG_TEXTS(T)
}

static void bind_record(struct pg_call *c, const struct task_record *from)
{
    pg_int(c, from->key);
    pg_int(c, slot_number(from->owner));
    TASK_FIXED_NUMBERS(N)
    TASK_NAMES(T)
    TASK_FIXED_TEXTS(T)
    bind_state(c, &from->state);
}

static void bind_input(struct pg_call *c, const struct task_record *from)
{
    pg_int(c, from->key);
    TASK_INPUT_TEXTS(T)
}

#define HAS(name) || t->name.p
static bool has_input(const struct task_record *t)
{
    return false TASK_INPUT_TEXTS(HAS);
}
#undef HAS
#undef N
#undef R
#undef T

/* A statement about one number: a key, or a time … */
static void put_number(struct store_pg *s, enum pg_stmt stmt, int64_t number)
{
    struct pg_call c;
    pg_begin(&c, &s->writer, stmt);
    pg_int(&c, number);
    pg_send(&c);
}

/* … about a list of keys, in which is one. */
static void put_listed(struct store_pg *s, enum pg_stmt stmt, int64_t key)
{
    struct pg_call c;
    struct buf keys = {0};
    pg_ints_begin(&keys);
    pg_ints_add(&keys, key);
    pg_begin(&c, &s->writer, stmt);
    pg_array(&c, &keys);
    pg_send(&c);
    buf_done(&keys);
}

static void pg_put_task_new(struct store_pg *s, const struct op *op)
{
    const struct task_record *t = op->record;
    bool has_ended = status_is_terminal(t->state.status);
    struct pg_call c;
    pg_begin(&c, &s->writer, PG_TASK_NEW);
    bind_record(&c, t);
    pg_send(&c);
    if (has_input(t)) {
        pg_begin(&c, &s->writer, PG_INPUT_NEW);
        bind_input(&c, t);
        pg_send(&c);
    }
    if (t->context.p && !has_ended) {
        pg_begin(&c, &s->writer, PG_CONTEXT_NEW);
        pg_int(&c, t->key);
        pg_text(&c, t->context);
        pg_send(&c);
    }
    if (has_ended)
        put_listed(s, PG_USAGE_ENDED, t->key);
}

static void pg_put_task_set(struct store_pg *s, const struct op *op)
{
    struct pg_call c;
    if (status_is_terminal(op->state->status)) {
        pg_ends_put(&s->ends, op);
        return;
    }
    pg_begin(&c, &s->writer, PG_TASK_SET);
    pg_int(&c, op->task_key);
    bind_state(&c, op->state);
    pg_send(&c);
}

/* --- lines ------------------------------------------------------------------------------------ */

static void pg_put_lines(struct store_pg *s, const struct op *op)
{
    ASSERT(op->first > 0 && op->last >= op->first);
    pg_journal_lines(&s->journal, op->task_key, op->first, op->last, op->bytes);
}

static void pg_put_seal(struct store_pg *s, const struct op *op)
{
    ASSERT(op->first > 0 && op->last >= op->first);
    struct lines left = {op->first, op->last, op->bytes}, block;
    while (lines_take_block(&left, &block)) {
        struct pg_call c;
        pg_begin(&c, &s->writer, PG_BLOCK_NEW);
        pg_int(&c, op->task_key);
        pg_int(&c, (int64_t)block.first);
        pg_int(&c, (int64_t)block.last);
        pg_text(&c, block.bytes);
        pg_send(&c);
    }
    pg_journal_drop(&s->journal, op->task_key);
}

/* --- conversations ---------------------------------------------------------------------------- */

static void pg_put_conversation(struct store_pg *s, const struct op *op)
{
    struct pg_call c;
    pg_begin(&c, &s->writer, PG_CONVERSATION_SET);
    pg_conversation(&c, op);
    pg_text(&c, op->title);
    pg_text(&c, op->agent);
    pg_int(&c, op->at);
    pg_int(&c, op->turns);
    pg_int(&c, op->unlisted);
    pg_int(&c, op->flags_set);
    pg_int(&c, op->force && op->softly ? 2 : op->force);
    pg_int(&c, op->flags_clear);
    pg_send(&c);
}

static void pg_put_title(struct store_pg *s, const struct op *op)
{
    struct pg_call c;
    pg_begin(&c, &s->writer, PG_TITLE_SET);
    pg_conversation(&c, op);
    pg_text(&c, op->title);
    pg_text(&c, op->key);
    pg_send(&c);
}

/* The rows of tasks are deleted at once, so that no look-up finds them; their blocks, inputs and
 * inboxes, which may be large, are named in garbage and removed in pieces. */
static void pg_put_delete(struct store_pg *s, const struct op *op)
{
    static const enum pg_stmt steps[] = {
        PG_USAGE_FORGET_ALL, PG_GARBAGE_ADD,      PG_TASKS_DELETE,
        PG_MESSAGES_DELETE,  PG_KEYS_DELETE,      PG_NOTICES_DELETE,
        PG_FILES_DELETE,     PG_FILE_USES_DELETE, PG_CONVERSATION_DELETE};
    s->deletes = true;
    for (size_t i = 0; i < countof(steps); i++) {
        struct pg_call c;
        pg_begin(&c, &s->writer, steps[i]);
        pg_conversation(&c, op);
        pg_send(&c);
    }
}

static void pg_put_request_key(struct store_pg *s, const struct op *op)
{
    struct pg_call c;
    pg_begin(&c, &s->writer, PG_KEY_SET);
    pg_text(&c, op->owner);
    pg_text(&c, op->key);
    pg_text(&c, op->conversation_id);
    pg_text(&c, op->task_id);
    pg_int(&c, op->at);
    pg_send(&c);
}

static void pg_put_ack(struct store_pg *s, const struct op *op)
{
    struct pg_call c;
    pg_begin(&c, &s->writer, PG_ACK);
    pg_conversation(&c, op);
    pg_text(&c, op->key);
    pg_send(&c);
}

/* --- what a live task has --------------------------------------------------------------------- */

static void pg_put_inbox(struct store_pg *s, const struct op *op)
{
    struct pg_call c;
    pg_begin(&c, &s->writer, PG_INBOX_PUT);
    pg_int(&c, op->task_key);
    pg_int(&c, (int64_t)op->first);
    pg_text(&c, op->bytes.p ? op->bytes : STR(""));
    pg_send(&c);
}

static void pg_put_inbox_take(struct store_pg *s, const struct op *op)
{
    struct pg_call c;
    pg_begin(&c, &s->writer, PG_INBOX_TAKE);
    pg_int(&c, op->task_key);
    pg_int(&c, (int64_t)op->first);
    pg_int(&c, (int64_t)op->last);
    pg_send(&c);
}

static void pg_put_mark(struct store_pg *s, const struct op *op)
{
    struct pg_call c;
    pg_begin(&c, &s->writer, PG_MARK_SET);
    pg_int(&c, op->task_key);
    pg_int(&c, (int64_t)op->first);
    pg_send(&c);
}

static void pg_put_note(struct store_pg *s, const struct op *op)
{
    struct pg_call c;
    pg_begin(&c, &s->writer, PG_NOTE_SET);
    pg_int(&c, op->task_key);
    pg_int(&c, (int64_t)op->first);
    pg_int(&c, (int64_t)op->last);
    pg_text(&c, op->bytes.p ? op->bytes : STR(""));
    pg_send(&c);
}

static void pg_put_notice(struct store_pg *s, const struct op *op)
{
    const struct notice_record *n = op->notice;
    struct pg_call c;
    pg_begin(&c, &s->writer, PG_NOTICE_PUT);
    pg_int(&c, n->key);
    pg_int(&c, slot_number(n->owner));
    pg_int(&c, n->silent);
    pg_text(&c, n->owner);
    pg_text(&c, n->conversation_id);
    pg_text(&c, n->agent);
    pg_text(&c, n->text);
    pg_text(&c, n->source);
    pg_send(&c);
}

/* --- others ----------------------------------------------------------------------------------- */

static void pg_put_outbox(struct store_pg *s, const struct op *op)
{
    const struct outbox_record *o = op->outbox;
    struct pg_call c;
    pg_begin(&c, &s->writer, PG_OUTBOX_PUT);
    pg_int(&c, o->key);
    pg_int(&c, o->slot);
    pg_text(&c, o->hook);
    pg_text(&c, o->id);
    pg_int(&c, o->at);
    pg_text(&c, o->body);
    pg_send(&c);
}

static void pg_put_files_remove(struct store_pg *s, const struct op *op)
{
    struct pg_call c;
    pg_begin(&c, &s->writer, PG_FILES_REMOVE);
    pg_text(&c, op->key);
    pg_send(&c);
}

static void pg_put_revoke(struct store_pg *s, const struct op *op)
{
    struct pg_call c;
    pg_begin(&c, &s->writer, op->at ? PG_REVOKE : PG_UNREVOKE);
    pg_text(&c, op->owner);
    if (op->at) {
        pg_int(&c, slot_number(op->owner));
        pg_int(&c, op->at);
    }
    pg_send(&c);
}

static void pg_put_usage_none(struct store_pg *s, struct str owner)
{
    struct pg_call c;
    pg_begin(&c, &s->writer, PG_USAGE_NONE);
    pg_text(&c, owner);
    pg_send(&c);
}

static void pg_put_events_remove(struct store_pg *s, const struct op *op)
{
    struct pg_call c;
    s->deletes = true; /* a tail does not prove that its task exists */
    pg_begin(&c, &s->writer, PG_EVENTS_REMOVE);
    pg_int(&c, op->task_key);
    pg_int(&c, op->freed);
    pg_text(&c, op->owner);
    pg_send(&c);
    pg_put_usage_none(s, op->owner);
}

static int pg_put_task_remove(struct store_pg *s, const struct op *op)
{
    static const enum pg_stmt empty[] = {PG_EMPTY_MESSAGES_DELETE, PG_EMPTY_CONVERSATION_DELETE};
    static const enum pg_stmt files[] = {PG_TASK_FILES_DELETE, PG_TASK_FILE_USES_DELETE};
    struct pg_call c;
    PGresult *r;
    pg_begin(&c, &s->writer, PG_HAS_ENDED);
    pg_int(&c, op->task_key);
    int status = pg_ask_within(s, &c, &r);
    bool has_ended = status == STORE_OK && PQntuples(r) > 0;
    PQclear(r);
    if (!has_ended)
        return status;
    status = pg_messages_of_task_remove(s, op);
    if (status < 0)
        return status;
    s->deletes = true;
    pg_begin(&c, &s->writer, PG_TASK_REMOVE);
    pg_int(&c, op->task_key);
    pg_conversation(&c, op);
    pg_text(&c, op->task_id);
    pg_int(&c, op->freed);
    pg_send(&c);
    for (size_t i = 0; i < countof(files); i++) {
        pg_begin(&c, &s->writer, files[i]);
        pg_conversation(&c, op);
        pg_text(&c, op->task_id);
        pg_send(&c);
    }
    pg_put_usage_none(s, op->owner);
    for (size_t i = 0; i < countof(empty); i++) {
        pg_begin(&c, &s->writer, empty[i]);
        pg_conversation(&c, op);
        pg_int(&c, op->at);
        pg_send(&c);
    }
    return STORE_OK;
}

static void pg_put_other(struct store_pg *s, const struct op *op)
{
    switch (op->kind) {
    case OP_TASK_NEW: pg_put_task_new(s, op); return;
    case OP_TASK_SET: pg_put_task_set(s, op); return;
    case OP_LINES: pg_put_lines(s, op); return;
    case OP_SEAL: pg_put_seal(s, op); return;
    case OP_CONVERSATION: pg_put_conversation(s, op); return;
    case OP_TITLE: pg_put_title(s, op); return;
    case OP_CONVERSATION_DELETE: pg_put_delete(s, op); return;
    case OP_FILE_PUT: pg_put_file(s, op); return;
    case OP_FILE_USE: pg_put_file_use(s, op); return;
    case OP_FILES_EXPIRE: pg_put_files_expire(s, op); return;
    case OP_FILES_REMOVE: pg_put_files_remove(s, op); return;
    case OP_REQUEST_KEY: pg_put_request_key(s, op); return;
    case OP_ACK: pg_put_ack(s, op); return;
    case OP_INBOX_PUT: pg_put_inbox(s, op); return;
    case OP_INBOX_TAKE: pg_put_inbox_take(s, op); return;
    case OP_MARK: pg_put_mark(s, op); return;
    case OP_NOTE: pg_put_note(s, op); return;
    case OP_NOTICE_PUT: pg_put_notice(s, op); return;
    case OP_NOTICE_TAKE: put_number(s, PG_NOTICE_TAKE, op->task_key); return;
    case OP_OUTBOX_PUT: pg_put_outbox(s, op); return;
    case OP_OUTBOX_TAKE: put_number(s, PG_OUTBOX_TAKE, op->task_key); return;
    case OP_REVOKE: pg_put_revoke(s, op); return;
    case OP_EVENTS_REMOVE: pg_put_events_remove(s, op); return;
    case OP_MESSAGE:
    case OP_BRANCH:
    case OP_TASK_REMOVE: break; /* pg_put */
    }
    UNREACHABLE();
}

static int pg_put(struct store_pg *s, const struct op *op)
{
    switch (op->kind) {
    case OP_MESSAGE: return pg_put_message(s, op);
    case OP_BRANCH: return pg_put_branch(s, op);
    case OP_TASK_REMOVE: return pg_put_task_remove(s, op);
    default: pg_put_other(s, op); return STORE_OK;
    }
}

int pg_put_ops(struct store_pg *s, const struct batch *batch)
{
    int status = STORE_OK;
    pg_ends_begin(&s->ends);
    pg_answers_begin(&s->answers, batch);
    for (size_t i = 0; i < batch->n_ops && status == STORE_OK; i++) {
        pg_ends_before(s, &batch->ops[i]);
        status = pg_answers_look(s, batch, i);
        if (status == STORE_OK)
            status = pg_put(s, &batch->ops[i]);
    }
    pg_answers_end(&s->answers);
    if (status == STORE_OK) /* otherwise the transaction is over */
        pg_ends_send(s);
    return status;
}

/* --- garbage ---------------------------------------------------------------------------------- */

struct pg_garbage {
    int64_t task_key;
    struct buf owner; /* in whose usage its blocks still count */
    bool has_owner, keeps_record;
};

static int pg_first_garbage(struct store_pg *s, struct pg_garbage *ret, bool *ret_none)
{
    struct pg_call c;
    PGresult *r;
    pg_begin(&c, &s->writer, PG_GARBAGE_FIRST);
    int status = pg_ask(&c, &r);
    *ret_none = status == STORE_OK && PQntuples(r) == 0;
    if (status == STORE_OK && !*ret_none) {
        ret->task_key = pg_col_int(r, 0, 0);
        ret->has_owner = !pg_col_is_null(r, 0, 1);
        ret->keeps_record = pg_col_int(r, 0, 2) != 0;
        buf_clear(&ret->owner);
        buf_putstr(&ret->owner, pg_col(r, 0, 1));
    }
    PQclear(r);
    return status;
}

static int pg_collect_blocks(struct store_pg *s, const struct pg_garbage *g, int64_t *budget)
{
    struct pg_call c;
    PGresult *r;
    pg_begin(&c, &s->writer, PG_GARBAGE_BLOCKS);
    pg_int(&c, g->task_key);
    pg_int(&c, *budget);
    int status = pg_ask(&c, &r);
    if (status == STORE_OK) {
        *budget -= pg_col_int(r, 0, 0);
        int64_t bytes = pg_col_int(r, 0, 1);
        if (g->has_owner && bytes > 0) {
            pg_begin(&c, &s->writer, PG_USAGE_LESS);
            pg_int(&c, bytes);
            pg_text(&c, (struct str){g->owner.bytes ? g->owner.bytes : "", g->owner.len});
            pg_send(&c);
            pg_put_usage_none(s, (struct str){g->owner.bytes ? g->owner.bytes : "", g->owner.len});
        }
    }
    PQclear(r);
    return status;
}

static int pg_collect_task(struct store_pg *s, const struct pg_garbage *g, int64_t *budget)
{
    static const enum pg_stmt rest[] = {PG_GARBAGE_DONE,  PG_GARBAGE_INPUT, PG_CONTEXT_GONE,
                                        PG_GARBAGE_INBOX, PG_MARK_GONE,     PG_NOTES_GONE};
    int status = pg_collect_blocks(s, g, budget);
    if (status < 0)
        return status;
    size_t n = *budget <= 0 ? 0 : g->keeps_record ? 1 : countof(rest); /* 0: there may be more */
    for (size_t i = 0; i < n; i++)
        put_listed(s, rest[i], g->task_key);
    return pg_flush(&s->writer, NULL, NULL);
}

static int pg_collect_some(struct store_pg *s, bool *ret_all)
{
    int64_t budget = GARBAGE_BLOCKS;
    struct pg_garbage g = {0};
    int status = pg_run_plain(&s->writer, PG_BEGIN);
    for (int i = 0; i < GARBAGE_TASKS && budget > 0 && status == STORE_OK && !*ret_all; i++) {
        status = pg_first_garbage(s, &g, ret_all);
        if (status == STORE_OK && !*ret_all)
            status = pg_collect_task(s, &g, &budget);
    }
    buf_done(&g.owner);
    return status == STORE_OK ? pg_run_plain(&s->writer, PG_COMMIT) : status;
}

/* A failure ends the transaction (pg_flush): what is named stays so, and is tried again. */
void pg_collect_garbage(struct store_pg *s)
{
    bool all = false;
    if (!s->has_garbage || s->doubt || s->fenced || !pg_conn_is_open(&s->writer))
        return;
    if (pg_collect_some(s, &all) < 0)
        pg_note_error(s, &s->writer);
    else if (all)
        s->has_garbage = false;
}
