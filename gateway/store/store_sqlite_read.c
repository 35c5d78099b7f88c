/* Answers.  Each is one short read transaction of bounded size (query_has_room), so that no reader
 * holds back checkpoints for long. */
#include <inttypes.h>

#include "gateway/base/log.h"
#include "gateway/store/store_sqlite_private.h"
#include "proto/search.h"

/* --- rows ------------------------------------------------------------------------------------- */

/* The positions of a task's columns (FULL, BRIEF, ENDED and LIVE of store_sqlite_conn.c). */
#define N(type, name) ROW_##name,
#define T(name) ROW_##name,
enum {
    ROW_key,
    TASK_FIXED_NUMBERS(N) TASK_NAMES(T) TASK_FIXED_TEXTS(T) ROW_FIXED_CRC,
    TASK_STATE_NUMBERS(N, T) TASK_STATE_TEXTS(T) ROW_STATE_CRC,
    TASK_LONG_TEXTS(T) ROW_LONG_CRC,
    TASK_INPUT_TEXTS(T) ROW_INPUT_CRC,
    ROW_IS_FULL,
    ROW_MORE,    /* in LIVE the last line in blocks, in ENDED its events' bytes */
    ROW_CONTEXT, /* only in LIVE, like the rest */
    ROW_CONTEXT_CRC,
    ROW_MARK,
    ROW_MARK_CRC
};
#undef N
#undef T

#define N(type, name) ret->name = (type)sql_col_int(c, ROW_##name);
#define R(name) ret->name = sqlite3_column_double(c->stmt, ROW_##name);
#define T(name) ret->name = arena_str(chunks, sql_col(c, ROW_##name));

static void take_state(const struct sql_call *c, struct arena_chunk **chunks,
                       struct task_state *ret)
{
    TASK_STATE_NUMBERS(N, R)
    TASK_STATE_TEXTS(T)
    TASK_LONG_TEXTS(T)
}

static void take_record(const struct sql_call *c, struct arena_chunk **chunks,
                        struct task_record *ret)
{
    *ret = (struct task_record){.key = sql_col_int(c, ROW_key)};
    TASK_FIXED_NUMBERS(N)
    TASK_NAMES(T)
    TASK_FIXED_TEXTS(T)
    TASK_INPUT_TEXTS(T)
    take_state(c, chunks, &ret->state);
}

#undef N
#undef R
#undef T

static void take_more(const struct sql_call *c, struct task_record *t)
{
    bool is_full = sql_col_int(c, ROW_IS_FULL) != 0;
    int64_t more = sqlite3_column_count(c->stmt) > ROW_MORE ? sql_col_int(c, ROW_MORE) : 0;
    if (!is_full)
        t->event_bytes = more;
    else if ((uint64_t)more > t->state.head)
        t->state.head = (uint64_t)more;
}

static bool has_column(const struct sql_call *c, int column)
{
    return sqlite3_column_count(c->stmt) > column &&
           sqlite3_column_type(c->stmt, column) != SQLITE_NULL;
}

static void take_task(const struct sql_call *c, struct arena_chunk **chunks,
                      struct task_record *ret)
{
    take_record(c, chunks, ret);
    if (has_column(c, ROW_CONTEXT))
        ret->context = arena_str(chunks, sql_col(c, ROW_CONTEXT));
    if (has_column(c, ROW_MARK))
        ret->mark = (uint64_t)sql_col_int(c, ROW_MARK);
    take_more(c, ret);
}

static bool is_null(const struct sql_call *c, int column)
{
    return sqlite3_column_type(c->stmt, column) == SQLITE_NULL;
}

/* A task without input has no row, and no checksum. */
static bool input_is_sound(const struct sql_call *c, uint32_t key)
{
    if (is_null(c, ROW_input) && is_null(c, ROW_metadata) && is_null(c, ROW_parts))
        return is_null(c, ROW_INPUT_CRC);
    return sql_is_sound(c, key, ROW_LONG_CRC + 1, ROW_INPUT_CRC - 1);
}

static bool task_is_sound(const struct sql_call *c, const struct task_record *t)
{
    uint32_t key = sql_crc_int(0, t->key);
    return sql_is_sound(c, 0, ROW_key, ROW_FIXED_CRC - 1) &&
           sql_is_sound(c, key, ROW_FIXED_CRC + 1, ROW_STATE_CRC - 1) &&
           (!sql_col_int(c, ROW_IS_FULL) ||
            (sql_is_sound(c, key, ROW_STATE_CRC + 1, ROW_LONG_CRC - 1) &&
             input_is_sound(c, key))) &&
           (!has_column(c, ROW_CONTEXT) ||
            sql_is_sound(c, key, ROW_CONTEXT, ROW_CONTEXT_CRC - 1)) &&
           (!has_column(c, ROW_MARK) || sql_is_sound(c, key, ROW_MARK, ROW_MARK_CRC - 1)) &&
           (unsigned)t->state.status <= STATUS_CANCELLED && (unsigned)t->type <= TYPE_NOTICE &&
           (unsigned)t->state.error <= TASK_INTERNAL;
}

/* For an answer that continues without it. */
static void tell_damage(const struct sql_conn *conn)
{
    log_event_limited(LEVEL_ERROR, "store", "reads_fail", LOG_TEXT("why", conn->error));
}

/* --- lists ------------------------------------------------------------------------------------ */

/* Retention asks again and again, for all owners: one damaged record must not end that. */
static bool leaves_out_damage(const struct query *q)
{
    return q->kind == QUERY_EXPIRED || q->kind == QUERY_OLDEST || q->kind == QUERY_OLDEST_EVENTS ||
           q->kind == QUERY_FULL || q->kind == QUERY_USAGE;
}

/* STORE_NOT_FOUND: the row is left out. */
static int add_task(struct sql_call *c, const struct query *q, struct answer *ret)
{
    struct task_record *t = answer_add_task(ret);
    take_task(c, &ret->chunks, t);
    if (task_is_sound(c, t))
        return STORE_OK;
    (void)sql_conn_damaged(c->conn,
                           "the record of task %.*s (key %" PRId64 ") is not as it was written",
                           (int)t->task_id.n, t->task_id.p ? t->task_id.p : "", t->key);
    ret->n_tasks--;
    if (!leaves_out_damage(q))
        return STORE_CORRUPT;
    tell_damage(c->conn);
    return STORE_NOT_FOUND;
}

int sqlite_list_tasks(struct sql_call *c, const struct query *q, struct answer *ret)
{
    size_t bytes = 0;
    int status = STORE_OK;
    while (status != STORE_CORRUPT && sql_step(c)) {
        status = add_task(c, q, ret);
        if (status < 0)
            continue;
        size_t next = task_record_bytes(&ret->tasks[ret->n_tasks - 1]);
        if (!query_has_room(q, ret->n_tasks - 1, bytes, next)) {
            ret->n_tasks--;
            ret->more = true;
            break;
        }
        bytes += next;
    }
    int end = sql_end(c);
    return status == STORE_CORRUPT ? status : end;
}

static void sql_before(struct sql_call *c, const struct query *q)
{
    sql_text(c, q->owner);
    sql_text(c, q->conversation_id);
    if (q->before.p)
        sql_text(c, q->before);
    else
        sql_last(c);
}

static int ask_tasks(struct sql_reader *r, const struct query *q, struct answer *ret)
{
    enum stmt stmt = STMT_ASK_TASKS;
    if (q->has_status)
        stmt = status_is_terminal(q->status) ? STMT_ASK_TASKS_STATUS : STMT_ASK_TASKS_LIVE;
    struct sql_call c = sql_begin(&r->conn, stmt);
    sql_before(&c, q);
    if (q->has_status)
        sql_int(&c, q->status);
    sql_int(&c, q->turns);
    return sqlite_list_tasks(&c, q, ret);
}

static int ask_owned(struct sql_reader *r, const struct query *q, struct answer *ret)
{
    enum stmt stmt = q->live ? STMT_ASK_OWNED_LIVE : STMT_ASK_OWNED;
    struct sql_call c = sql_begin(&r->conn, q->key.p ? stmt : STMT_ASK_OWNED_NEWEST);
    sql_text(&c, q->owner);
    if (q->key.p)
        sql_text(&c, q->key);
    return sqlite_list_tasks(&c, q, ret);
}

static int ask_results(struct sql_reader *r, const struct query *q, struct answer *ret)
{
    struct sql_call c = sql_begin(&r->conn, STMT_ASK_RESULTS);
    sql_before(&c, q);
    int status = sqlite_list_tasks(&c, q, ret);
    answer_reverse(ret);
    return status;
}

static int ask_live(struct sql_reader *r, const struct query *q, struct answer *ret)
{
    struct sql_call c = sql_begin(&r->conn, STMT_ASK_LIVE);
    sql_int(&c, (int64_t)q->after);
    return sqlite_list_tasks(&c, q, ret);
}

static int one_task(struct sql_call *c, struct answer *ret)
{
    const struct query any = {0};
    int status = sqlite_list_tasks(c, &any, ret);
    return status == STORE_OK && ret->n_tasks == 0 ? STORE_NOT_FOUND : status;
}

static int ask_task(struct sql_reader *r, const struct query *q, struct answer *ret)
{
    struct sql_call c = sql_begin(&r->conn, STMT_ASK_TASK);
    sql_text(&c, q->owner);
    sql_text(&c, q->conversation_id);
    sql_text(&c, q->task_id);
    return one_task(&c, ret);
}

/* The task that a damaged key names may be another one's. */
static int look_at_key(struct sql_reader *r, const struct query *q)
{
    struct sql_call c = sql_begin(&r->conn, STMT_ASK_KEY_ROW);
    sql_text(&c, q->owner);
    sql_text(&c, q->key);
    bool sound = !sql_step(&c) || sql_is_sound(&c, 0, 0, 4);
    int end = sql_end(&c);
    return sound ? end : sql_conn_damaged(&r->conn, "a request key is not as it was written");
}

static int sql_ask_key(struct sql_reader *r, const struct query *q, struct answer *ret)
{
    int status = look_at_key(r, q);
    if (status < 0)
        return status;
    struct sql_call c = sql_begin(&r->conn, STMT_ASK_KEY);
    sql_text(&c, q->owner);
    sql_text(&c, q->key);
    return one_task(&c, ret);
}

/* Those of its task, when it is a user's.  False when they are not as they were written. */
static bool take_parts(const struct sql_call *c, struct answer *ret, struct message_record *m)
{
    if (m->role != ROLE_USER || !m->task_id.p)
        return true;
    struct sql_call ask = sql_begin(c->conn, STMT_ASK_PARTS);
    sql_text(&ask, sql_col(c, 0));
    sql_text(&ask, sql_col(c, 1));
    sql_text(&ask, m->task_id);
    bool found = sql_step(&ask), sound = !found || sql_col_int(&ask, 1) != 0;
    if (found)
        m->parts = arena_str(&ret->chunks, sql_col(&ask, 0));
    return sql_end(&ask) == STORE_OK && sound;
}

int sqlite_take_message(struct sql_call *c, struct answer *ret)
{
    struct message_record *m = answer_add_message(ret);
    *m = (struct message_record){
        .message_id = arena_str(&ret->chunks, sql_col(c, COL_MESSAGE_ID)),
        .task_id = arena_str(&ret->chunks, sql_col(c, COL_MESSAGE_TASK)),
        .role = (enum message_role)sql_col_int(c, COL_MESSAGE_ROLE),
        .partial = sql_col_int(c, COL_MESSAGE_PARTIAL) != 0,
        .created_at = sql_col_int(c, COL_MESSAGE_CREATED),
        .content = arena_str(&ret->chunks, sql_col(c, COL_MESSAGE_CONTENT)),
        .parent_id = arena_str(&ret->chunks, sql_col(c, COL_MESSAGE_PARENT))};
    if (sql_is_sound(c, 0, 0, COL_MESSAGE_BEHIND) && (unsigned)m->role <= ROLE_SYSTEM &&
        take_parts(c, ret, m))
        return STORE_OK;
    return sql_conn_damaged(c->conn, "message %.*s of task %.*s is not as it was written",
                            (int)m->message_id.n, m->message_id.p ? m->message_id.p : "",
                            (int)m->task_id.n, m->task_id.p ? m->task_id.p : "");
}

static int ask_messages(struct sql_reader *r, const struct query *q, struct answer *ret)
{
    size_t bytes = 0;
    int status = STORE_OK;
    struct sql_call c = sql_begin(&r->conn, STMT_ASK_MESSAGES);
    sql_before(&c, q);
    while (status == STORE_OK && sql_step(&c)) {
        size_t next = sql_col(&c, COL_MESSAGE_CONTENT).n;
        if (!query_has_room(q, ret->n_messages, bytes, next)) {
            ret->more = true;
            break;
        }
        bytes += next;
        status = sqlite_take_message(&c, ret);
    }
    answer_reverse(ret);
    int end = sql_end(&c);
    return status < 0 ? status : end;
}

/* Rows of owner, id, title, agent, updated_at, notices, unlisted, tip, tip_task, flags,
 * checksum, running. */
static int list_conversations(struct sql_call *c, const struct query *q, struct search *s,
                              struct answer *ret)
{
    size_t bytes = 0;
    while (sql_step(c)) {
        struct str id = sql_col(c, 1), title = sql_col(c, 2), agent = sql_col(c, 3);
        if (s && !search_finds(s, title))
            continue;
        size_t next = id.n + title.n + agent.n;
        if (!query_has_room(q, ret->n_conversations, bytes, next)) {
            ret->more = true;
            break;
        }
        bytes += next;
        if (!sql_is_sound(c, 0, 0, 9)) {
            int status = sql_conn_damaged(c->conn, "conversation %.*s is not as it was written",
                                          (int)id.n, id.p ? id.p : "");
            (void)sql_end(c);
            return status;
        }
        struct conversation_record *to = answer_add_conversation(ret);
        to->conversation_id = arena_str(&ret->chunks, id);
        to->title = arena_str(&ret->chunks, title);
        to->agent = arena_str(&ret->chunks, agent);
        to->updated_at = sql_col_int(c, 4);
        to->notices = (uint32_t)sql_col_int(c, 5);
        to->unlisted = sql_col_int(c, 6) != 0;
        to->running = (uint32_t)sql_col_int(c, 11);
        to->flags = (unsigned)sql_col_int(c, 9);
    }
    return sql_end(c);
}

static int ask_conversation(struct sql_reader *r, const struct query *q, struct answer *ret)
{
    struct sql_call c = sql_begin(&r->conn, STMT_ASK_CONVERSATION);
    sql_text(&c, q->owner);
    sql_text(&c, q->conversation_id);
    int status = list_conversations(&c, q, NULL, ret);
    return status == STORE_OK && ret->n_conversations == 0 ? STORE_NOT_FOUND : status;
}

static int ask_conversations(struct sql_reader *r, const struct query *q, struct answer *ret)
{
    struct sql_call c =
        sql_begin(&r->conn, q->before.p ? STMT_ASK_CONVERSATIONS_BEFORE : STMT_ASK_CONVERSATIONS);
    sql_text(&c, q->owner);
    sql_int(&c, q->flags_asked);
    sql_int(&c, q->flags);
    if (q->before.p)
        sql_text(&c, q->before);
    struct search s = {0};
    bool searches = q->key.p && search_read(q->key, &s);
    int status = list_conversations(&c, q, searches ? &s : NULL, ret);
    search_done(&s);
    return status;
}

/* Goes through the owner's messages, newest first: no index of words, which each message would have
 * to pay for, and in which owners could see each other's shadows. */
static int sql_ask_search(struct sql_reader *r, const struct query *q, struct answer *ret)
{
    struct search s;
    size_t rows = 0, bytes = 0;
    int status = STORE_OK;
    if (!search_read(q->key, &s))
        return STORE_OK;
    struct sql_call c = sql_begin(&r->conn, STMT_ASK_SEARCH);
    sql_text(&c, q->owner);
    if (q->before.p)
        sql_text(&c, q->before);
    else
        sql_last(&c);
    for (; status == STORE_OK && sql_step(&c); rows++) {
        struct str content = sql_col(&c, COL_MESSAGE_CONTENT);
        ret->more = !search_goes_on(q, ret, rows, &bytes, content);
        if (ret->more)
            break;
        ret->looked_at = arena_str(&ret->chunks, sql_col(&c, COL_MESSAGE_ID));
        if (!search_finds(&s, content))
            continue;
        struct str conversation_id = arena_str(&ret->chunks, sql_col(&c, COL_MESSAGE_ID - 1));
        status = sqlite_take_message(&c, ret);
        if (status == STORE_OK)
            ret->messages[ret->n_messages - 1].conversation_id = conversation_id;
    }
    search_done(&s);
    int end = sql_end(&c);
    return status < 0 ? status : end;
}

/* --- notices ---------------------------------------------------------------------------------- */

static int sql_ask_notices(struct sql_reader *r, const struct query *q, struct answer *ret)
{
    size_t bytes = 0;
    struct sql_call c = sql_begin(&r->conn, STMT_ASK_NOTICES);
    sql_int(&c, (int64_t)q->after);
    while (sql_step(&c)) {
        struct str text = sql_col(&c, 5);
        if (!query_has_room(q, ret->n_notices, bytes, text.n)) {
            ret->more = true;
            break;
        }
        bytes += text.n;
        if (!sql_is_sound(&c, 0, 0, 6)) {
            int status = sql_conn_damaged(&r->conn, "notice %" PRId64 " is not as it was written",
                                          sql_col_int(&c, 0));
            (void)sql_end(&c);
            return status;
        }
        *answer_add_notice(ret) = (struct notice_record){
            .key = sql_col_int(&c, 0),
            .silent = sql_col_int(&c, 1) != 0,
            .owner = arena_str(&ret->chunks, sql_col(&c, 2)),
            .conversation_id = arena_str(&ret->chunks, sql_col(&c, 3)),
            .agent = arena_str(&ret->chunks, sql_col(&c, 4)),
            .text = arena_str(&ret->chunks, text),
            .source = arena_str(&ret->chunks, sql_col(&c, 6)),
        };
    }
    return sql_end(&c);
}

/* --- retention -------------------------------------------------------------------------------- */

static int ask_ended(struct sql_reader *r, const struct query *q, struct answer *ret)
{
    static const enum stmt stmts[] = {[QUERY_EXPIRED] = STMT_ASK_EXPIRED,
                                      [QUERY_OLDEST] = STMT_ASK_OLDEST,
                                      [QUERY_OLDEST_EVENTS] = STMT_ASK_OLDEST_EVENTS};
    struct sql_call c = sql_begin(&r->conn, stmts[q->kind]);
    if (q->kind != QUERY_EXPIRED)
        sql_text(&c, q->owner);
    if (q->kind != QUERY_OLDEST_EVENTS)
        sql_int(&c, q->at);
    return sqlite_list_tasks(&c, q, ret);
}

/* Rows of owner, number, checksum; the row for all owners does not exist. */
static bool owner_is_sound(const struct sql_call *c)
{
    return is_null(c, 0) || sql_is_sound(c, 0, 0, 1);
}

static int list_owners(struct sql_call *c, const struct query *q, struct answer *ret)
{
    size_t bytes = 0;
    while (sql_step(c)) {
        struct str owner = sql_col(c, 0);
        if (!owner_is_sound(c)) {
            (void)sql_conn_damaged(c->conn, "the data of owner %.*s is not as it was written",
                                   (int)owner.n, owner.p ? owner.p : "");
            tell_damage(c->conn);
            if (leaves_out_damage(q))
                continue;
            (void)sql_end(c);
            return STORE_CORRUPT;
        }
        if (!query_has_room(q, ret->n_owners, bytes, owner.n)) {
            ret->more = true;
            break;
        }
        bytes += owner.n;
        *answer_add_owner(ret) = (struct owner_record){.owner = arena_str(&ret->chunks, owner),
                                                       .value = sql_col_int(c, 1)};
    }
    return sql_end(c);
}

static int ask_usage(struct sql_reader *r, const struct query *q, struct answer *ret)
{
    bool is_all = !q->owner.p;
    struct sql_call c = sql_begin(&r->conn, is_all ? STMT_ASK_SIZE : STMT_ASK_USAGE);
    if (!is_all)
        sql_text(&c, q->owner);
    return list_owners(&c, q, ret);
}

/* Owners after before, or all of them. */
static void sql_behind(struct sql_call *c, struct str before)
{
    sql_text(c, before.p ? before : STR(""));
    sql_text(c, before);
}

static int ask_full(struct sql_reader *r, const struct query *q, struct answer *ret)
{
    struct sql_call c = sql_begin(&r->conn, STMT_ASK_FULL);
    sql_int(&c, q->at);
    sql_behind(&c, q->before);
    return list_owners(&c, q, ret);
}

static int ask_revoked(struct sql_reader *r, const struct query *q, struct answer *ret)
{
    struct sql_call c = sql_begin(&r->conn, STMT_ASK_REVOKED);
    sql_behind(&c, q->before);
    return list_owners(&c, q, ret);
}

static int ask_outbox(struct sql_reader *r, const struct query *q, struct answer *ret)
{
    size_t bytes = 0;
    struct sql_call c = sql_begin(&r->conn, STMT_ASK_OUTBOX);
    sql_text(&c, q->key);
    sql_int(&c, (int64_t)q->after);
    while (sql_step(&c)) {
        struct str body = sql_col(&c, 4);
        if (!query_has_room(q, ret->n_outbox, bytes, body.n)) {
            ret->more = true;
            break;
        }
        bytes += body.n;
        if (!sql_is_sound(&c, 0, 0, 4)) {
            int status = sql_conn_damaged(
                &r->conn, "message %" PRId64 " of the outbox is not as it was written",
                sql_col_int(&c, 0));
            (void)sql_end(&c);
            return status;
        }
        *answer_add_outbox(ret) = (struct outbox_record){
            .key = sql_col_int(&c, 0),
            .hook = arena_str(&ret->chunks, sql_col(&c, 1)),
            .id = arena_str(&ret->chunks, sql_col(&c, 2)),
            .at = sql_col_int(&c, 3),
            .body = arena_str(&ret->chunks, body),
        };
    }
    return sql_end(&c);
}

/* --- asking ----------------------------------------------------------------------------------- */

static int sql_ask(struct sql_reader *r, const struct query *q, struct answer *ret)
{
    switch (q->kind) {
    case QUERY_TASK: return ask_task(r, q, ret);
    case QUERY_KEY: return sql_ask_key(r, q, ret);
    case QUERY_TASKS: return ask_tasks(r, q, ret);
    case QUERY_OWNED: return ask_owned(r, q, ret);
    case QUERY_MESSAGES: return ask_messages(r, q, ret);
    case QUERY_PATH: return sqlite_ask_path(r, q, ret);
    case QUERY_TURN: return sqlite_ask_turn(r, q, ret);
    case QUERY_CONVERSATION: return ask_conversation(r, q, ret);
    case QUERY_CONVERSATIONS: return ask_conversations(r, q, ret);
    case QUERY_SEARCH: return sql_ask_search(r, q, ret);
    case QUERY_RESULTS: return ask_results(r, q, ret);
    case QUERY_LIVE: return ask_live(r, q, ret);
    case QUERY_TAILS: return sqlite_ask_tails(r, q, ret);
    case QUERY_BLOCKS: return q->after < MAX_SAFE_INTEGER ? sqlite_ask_blocks(r, q, ret) : STORE_OK;
    case QUERY_INBOX: return q->after < MAX_SAFE_INTEGER ? sqlite_ask_inbox(r, q, ret) : STORE_OK;
    case QUERY_NOTES: return q->after < MAX_SAFE_INTEGER ? sqlite_ask_notes(r, q, ret) : STORE_OK;
    case QUERY_NOTICES: return sql_ask_notices(r, q, ret);
    case QUERY_EXPIRED:
    case QUERY_OLDEST:
    case QUERY_OLDEST_EVENTS: return ask_ended(r, q, ret);
    case QUERY_USAGE: return ask_usage(r, q, ret);
    case QUERY_FULL: return ask_full(r, q, ret);
    case QUERY_OUTBOX: return ask_outbox(r, q, ret);
    case QUERY_REVOKED: return ask_revoked(r, q, ret);
    case QUERY_FILE:
    case QUERY_UPLOAD:
    case QUERY_BLOB:
    case QUERY_FILES_GONE: return sqlite_ask_files(r, q, ret);
    }
    UNREACHABLE();
}

int sqlite_query(void *reader, const struct query *query, struct answer *ret)
{
    struct sql_reader *r = reader;
    *ret = (struct answer){0};
    if (query->kind != QUERY_TAILS)
        tails_done(&r->tails);
    int status = sql_ask(r, query, ret);
    if (status < 0)
        answer_done(ret);
    if (status < 0 && status != STORE_NOT_FOUND) {
        store_note_error(r->store, &r->conn);
        log_event_limited(
            LEVEL_ERROR, "store", "reads_fail",
            LOG_TEXT("why", r->conn.error[0] ? r->conn.error : "a record is damaged"));
    }
    return status;
}
