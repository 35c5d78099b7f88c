/* Removals, and owners' usage (core/store.h, TASK_ROW_BYTES).
 *
 * A removal deletes the rows that make a task known at once, so that no look-up finds it; its
 * blocks, input and inbox, which may be large, are named in garbage and removed in pieces between
 * commits.  The table usage changes in the same transactions: for events that retention removes,
 * their size, which a reader had reported, is subtracted with the op; for those of a deleted
 * conversation, as they are collected, for which garbage names the owner. */
#include "gateway/base/log.h"
#include "gateway/store/store_sqlite_private.h"

#define GARBAGE_BLOCKS 64 /* removed at once */
#define GARBAGE_TASKS 64

/* --- usage ------------------------------------------------------------------------------------ */

static int run_for_task(struct store_sqlite *s, enum stmt stmt, int64_t task_key)
{
    struct sql_call c = sql_begin(&s->writer, stmt);
    sql_int(&c, task_key);
    return sql_run(&c);
}

int sqlite_usage_ended(struct store_sqlite *s, int64_t task_key)
{
    return run_for_task(s, STMT_USAGE_ENDED, task_key);
}

int sqlite_usage_forget(struct store_sqlite *s, int64_t task_key)
{
    return run_for_task(s, STMT_USAGE_FORGET, task_key);
}

int sqlite_usage_sealed(struct store_sqlite *s, int64_t task_key, size_t bytes)
{
    struct sql_call c = sql_begin(&s->writer, STMT_USAGE_SEALED);
    sql_int(&c, task_key);
    sql_int(&c, (int64_t)bytes);
    return sql_run(&c);
}

static int usage_less(struct store_sqlite *s, struct str owner, int64_t bytes)
{
    struct sql_call c = sql_begin(&s->writer, STMT_USAGE_LESS);
    sql_text(&c, owner);
    sql_int(&c, bytes);
    int status = sql_run(&c);
    if (status < 0)
        return status;
    c = sql_begin(&s->writer, STMT_USAGE_NONE);
    sql_text(&c, owner);
    return sql_run(&c);
}

/* Usage can be counted again.  A damaged row may belong to another owner, so all owners are
 * counted. */
static int count_usage(struct store_sqlite *s)
{
    static const enum stmt steps[] = {STMT_BEGIN, STMT_USAGE_CLEAR, STMT_USAGE_COUNT, STMT_COMMIT};
    int status = STORE_OK;
    for (size_t i = 0; i < countof(steps) && status == STORE_OK; i++)
        status = sql_run_plain(&s->writer, steps[i]);
    if (status < 0)
        sqlite_roll_back(s);
    return status;
}

int sqlite_usage_mend(struct store_sqlite *s)
{
    struct sql_call c = sql_begin(&s->writer, STMT_USAGE_DAMAGED);
    bool damaged = sql_step(&c);
    int status = sql_end(&c);
    if (status < 0 || !damaged)
        return status;
    log_event(LEVEL_WARN, "store", "usage_counted",
              LOG_TEXT("why", "the usage of an owner was not as it was written"));
    return count_usage(s);
}

/* --- removing --------------------------------------------------------------------------------- */

static int has_ended(struct store_sqlite *s, int64_t task_key, bool *ret)
{
    struct sql_call c = sql_begin(&s->writer, STMT_HAS_ENDED);
    sql_int(&c, task_key);
    *ret = sql_step(&c);
    return sql_end(&c);
}

int sqlite_events_remove(struct store_sqlite *s, const struct op *op)
{
    bool ended = false;
    int status = has_ended(s, op->task_key, &ended);
    if (status < 0 || !ended)
        return status;
    s->deletes = true; /* there is garbage; and a tail does not prove that its task exists */
    sqlite_journal_drop(&s->journal, op->task_key);
    status = run_for_task(s, STMT_GARBAGE_EVENTS, op->task_key);
    if (status == STORE_OK)
        status = run_for_task(s, STMT_TASK_EMPTY, op->task_key);
    return status < 0 ? status : usage_less(s, op->owner, op->freed);
}

static int run_in_conversation(struct store_sqlite *s, enum stmt stmt, const struct op *op,
                               struct str third)
{
    struct sql_call c = sql_begin(&s->writer, stmt);
    sql_text(&c, op->owner);
    sql_text(&c, op->conversation_id);
    if (third.p)
        sql_text(&c, third);
    return sql_run(&c);
}

/* Removes the conversation when only messages without a task are left in it. */
static int remove_conversation(struct store_sqlite *s, const struct op *op)
{
    struct sql_call c = sql_begin(&s->writer, STMT_CONVERSATION_EMPTY);
    sql_text(&c, op->owner);
    sql_text(&c, op->conversation_id);
    sql_int(&c, op->at);
    bool is_empty = sql_step(&c);
    int status = sql_end(&c);
    if (status < 0 || !is_empty)
        return status;
    status = run_in_conversation(s, STMT_MESSAGES_DELETE, op, STR_NULL);
    return status < 0 ? status : run_in_conversation(s, STMT_CONVERSATION_DELETE, op, STR_NULL);
}

int sqlite_task_remove(struct store_sqlite *s, const struct op *op)
{
    bool ended = false;
    int status = has_ended(s, op->task_key, &ended);
    if (status < 0 || !ended)
        return status;
    s->deletes = true;
    sqlite_journal_drop(&s->journal, op->task_key);
    static const enum stmt of_task[] = {STMT_USAGE_FORGET, STMT_GARBAGE_TASK, STMT_TASK_DELETE};
    static const enum stmt of_id[] = {STMT_TASK_KEYS_DELETE, STMT_TASK_FILES_COUNT,
                                      STMT_TASK_FILES_DELETE, STMT_TASK_FILE_USES_DELETE};
    status = sqlite_messages_of_task_remove(s, op);
    for (size_t i = 0; i < countof(of_task) && status == STORE_OK; i++)
        status = run_for_task(s, of_task[i], op->task_key);
    for (size_t i = 0; i < countof(of_id) && status == STORE_OK; i++)
        status = run_in_conversation(s, of_id[i], op, op->task_id);
    if (status == STORE_OK)
        status = usage_less(s, op->owner, op->freed);
    return status < 0 ? status : remove_conversation(s, op);
}

/* --- garbage ---------------------------------------------------------------------------------- */

struct garbage {
    int64_t task_key;
    bool has_owner; /* … whose usage its blocks still count in */
    struct buf owner;
    bool keeps_record;
};

static int first_garbage(struct store_sqlite *s, struct garbage *ret, bool *ret_none)
{
    struct sql_call c = sql_begin(&s->writer, STMT_GARBAGE_FIRST);
    *ret_none = !sql_step(&c);
    if (!*ret_none) {
        ret->task_key = sql_col_int(&c, 0);
        ret->keeps_record = sql_col_int(&c, 2) != 0;
        ret->has_owner = sql_col(&c, 1).p != NULL;
        buf_clear(&ret->owner);
        buf_puts(&ret->owner, "");
        buf_putstr(&ret->owner, sql_col(&c, 1));
    }
    return sql_end(&c);
}

static int collect_blocks(struct store_sqlite *s, const struct garbage *g, int *budget)
{
    int64_t bytes = 0;
    struct sql_call c = sql_begin(&s->writer, STMT_GARBAGE_BLOCKS);
    sql_int(&c, g->task_key);
    sql_int(&c, *budget);
    for (; sql_step(&c); --*budget)
        bytes += sql_col_int(&c, 0);
    int status = sql_end(&c);
    return status == STORE_OK && g->has_owner ? usage_less(s, buf_str(&g->owner), bytes) : status;
}

static int collect_task(struct store_sqlite *s, const struct garbage *g, int *budget)
{
    int status = collect_blocks(s, g, budget);
    if (status < 0 || *budget <= 0)
        return status; /* there may be more */
    static const enum stmt rest[] = {STMT_GARBAGE_DONE,  STMT_GARBAGE_INPUT, STMT_CONTEXT_GONE,
                                     STMT_GARBAGE_INBOX, STMT_MARK_GONE,     STMT_NOTES_GONE};
    size_t n = g->keeps_record ? 1 : countof(rest);
    for (size_t i = 0; i < n && status == STORE_OK; i++)
        status = run_for_task(s, rest[i], g->task_key);
    return status;
}

static int collect_some(struct store_sqlite *s, bool *ret_all)
{
    int budget = GARBAGE_BLOCKS;
    struct garbage g = {0};
    int status = sql_run_plain(&s->writer, STMT_BEGIN);
    for (int i = 0; i < GARBAGE_TASKS && budget > 0 && status == STORE_OK && !*ret_all; i++) {
        status = first_garbage(s, &g, ret_all);
        if (status == STORE_OK && !*ret_all)
            status = collect_task(s, &g, &budget);
    }
    buf_done(&g.owner);
    if (status == STORE_OK)
        status = sql_run_plain(&s->writer, STMT_COMMIT);
    return status;
}

void sqlite_collect_garbage(struct store_sqlite *s)
{
    bool all = false;
    if (!s->has_garbage)
        return;
    if (collect_some(s, &all) < 0) {
        store_note_error(s, &s->writer);
        sqlite_roll_back(s); /* it stays named, and is retried */
    } else if (all) {
        s->has_garbage = false;
    }
}
