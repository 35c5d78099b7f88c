/* Answers.  Each is one short read transaction of bounded size (query_has_room), so that no reader
 * holds back checkpoints for long. */
#include "gateway/base/log.h"
#include "gateway/store/block_slab.h"
#include "gateway/store/store_sqlite_private.h"

/* --- rows ------------------------------------------------------------------------------------- */

static void take_state(const struct call *c, int at, struct arena_chunk **chunks,
                       struct task_state *ret)
{
    *ret = (struct task_state){
        .status = (enum task_status)call_col_int(c, at),
        .error = (enum task_error)call_col_int(c, at + 1),
        .progress = sqlite3_column_double(c->stmt, at + 2),
        .first = (uint64_t)call_col_int(c, at + 3),
        .head = (uint64_t)call_col_int(c, at + 4),
        .cancel_requested_at = call_col_int(c, at + 5),
        .started_at = call_col_int(c, at + 6),
        .completed_at = call_col_int(c, at + 7),
        .output_truncated = call_col_int(c, at + 8) != 0,
        .acked = call_col_int(c, at + 9) != 0,
        .error_message = arena_str(chunks, call_col(c, at + 10)),
        .waiting_for = arena_str(chunks, call_col(c, at + 11)),
        .output = arena_str(chunks, call_col(c, at + 12)),
        .result = arena_str(chunks, call_col(c, at + 13)),
        .undelivered = arena_str(chunks, call_col(c, at + 14)),
        .answers = arena_str(chunks, call_col(c, at + 15)),
    };
}

#define EVENT_BYTES 34 /* the column, of statements that have it */

static void take_task(const struct call *c, struct arena_chunk **chunks, struct task_record *ret)
{
    *ret = (struct task_record){
        .key = call_col_int(c, 0),
        .type = (enum task_type)call_col_int(c, 1),
        .notify_on_complete = call_col_int(c, 2) != 0,
        .waits = call_col_int(c, 3) != 0,
        .created_at = call_col_int(c, 4),
        .owner = arena_str(chunks, call_col(c, 5)),
        .conversation_id = arena_str(chunks, call_col(c, 6)),
        .task_id = arena_str(chunks, call_col(c, 7)),
        .agent = arena_str(chunks, call_col(c, 8)),
        .name = arena_str(chunks, call_col(c, 9)),
        .description = arena_str(chunks, call_col(c, 10)),
        .parent_task_id = arena_str(chunks, call_col(c, 11)),
        .parent_run_id = arena_str(chunks, call_col(c, 12)),
        .parent_call_id = arena_str(chunks, call_col(c, 13)),
        .parent_agent_id = arena_str(chunks, call_col(c, 14)),
        .ancestors = arena_str(chunks, call_col(c, 15)),
        .input = arena_str(chunks, call_col(c, 32)),
        .metadata = arena_str(chunks, call_col(c, 33)),
    };
    take_state(c, 16, chunks, &ret->state);
    if (sqlite3_column_count(c->stmt) > EVENT_BYTES)
        ret->event_bytes = call_col_int(c, EVENT_BYTES);
}

static bool task_is_sound(const struct task_record *t)
{
    return (unsigned)t->state.status <= STATUS_CANCELLED && (unsigned)t->type <= TYPE_NOTICE &&
           (unsigned)t->state.error <= TASK_INTERNAL;
}

/* --- lists ------------------------------------------------------------------------------------ */

static int list_tasks(struct call *c, const struct query *q, struct answer *ret)
{
    size_t bytes = 0;
    int status = STORE_OK;
    while (status == STORE_OK && call_step(c)) {
        struct task_record *t = answer_add_task(ret);
        take_task(c, &ret->chunks, t);
        if (!task_is_sound(t))
            status = STORE_CORRUPT;
        size_t next = task_record_bytes(t);
        if (!query_has_room(q, ret->n_tasks - 1, bytes, next)) {
            ret->n_tasks--;
            ret->more = true;
            break;
        }
        bytes += next;
    }
    int end = call_end(c);
    return status < 0 ? status : end;
}

static void call_before(struct call *c, const struct query *q)
{
    call_text(c, q->owner);
    call_text(c, q->conversation_id);
    if (q->before.p)
        call_text(c, q->before);
    else
        call_last(c);
}

static int ask_tasks(struct reader *r, const struct query *q, struct answer *ret)
{
    enum stmt stmt = STMT_ASK_TASKS;
    if (q->has_status)
        stmt = status_is_terminal(q->status) ? STMT_ASK_TASKS_STATUS : STMT_ASK_TASKS_LIVE;
    struct call c = call_begin(&r->conn, stmt);
    call_before(&c, q);
    if (q->has_status)
        call_int(&c, q->status);
    call_int(&c, q->turns);
    return list_tasks(&c, q, ret);
}

static int ask_results(struct reader *r, const struct query *q, struct answer *ret)
{
    struct call c = call_begin(&r->conn, STMT_ASK_RESULTS);
    call_before(&c, q);
    int status = list_tasks(&c, q, ret);
    answer_reverse(ret);
    return status;
}

static int ask_live(struct reader *r, const struct query *q, struct answer *ret)
{
    struct call c = call_begin(&r->conn, STMT_ASK_LIVE);
    call_int(&c, (int64_t)q->after);
    return list_tasks(&c, q, ret);
}

static int one_task(struct call *c, struct answer *ret)
{
    const struct query any = {0};
    int status = list_tasks(c, &any, ret);
    return status == STORE_OK && ret->n_tasks == 0 ? STORE_NOT_FOUND : status;
}

static int ask_task(struct reader *r, const struct query *q, struct answer *ret)
{
    struct call c = call_begin(&r->conn, STMT_ASK_TASK);
    call_text(&c, q->owner);
    call_text(&c, q->conversation_id);
    call_text(&c, q->task_id);
    return one_task(&c, ret);
}

static int sql_ask_key(struct reader *r, const struct query *q, struct answer *ret)
{
    struct call c = call_begin(&r->conn, STMT_ASK_KEY);
    call_text(&c, q->owner);
    call_text(&c, q->key);
    return one_task(&c, ret);
}

static int ask_messages(struct reader *r, const struct query *q, struct answer *ret)
{
    size_t bytes = 0;
    bool sound = true;
    struct call c = call_begin(&r->conn, STMT_ASK_MESSAGES);
    call_before(&c, q);
    while (sound && call_step(&c)) {
        struct str content = call_col(&c, 5);
        if (!query_has_room(q, ret->n_messages, bytes, content.n)) {
            ret->more = true;
            break;
        }
        bytes += content.n;
        struct message_record *m = answer_add_message(ret);
        m->message_id = arena_str(&ret->chunks, call_col(&c, 0));
        m->task_id = arena_str(&ret->chunks, call_col(&c, 1));
        m->role = (enum message_role)call_col_int(&c, 2);
        sound = (unsigned)m->role <= ROLE_SYSTEM;
        m->partial = call_col_int(&c, 3) != 0;
        m->created_at = call_col_int(&c, 4);
        m->content = arena_str(&ret->chunks, content);
    }
    answer_reverse(ret);
    int end = call_end(&c);
    return sound ? end : STORE_CORRUPT;
}

static int list_conversations(struct call *c, const struct query *q, struct answer *ret)
{
    size_t bytes = 0;
    while (call_step(c)) {
        struct str id = call_col(c, 0), title = call_col(c, 1), agent = call_col(c, 2);
        size_t next = id.n + title.n + agent.n;
        if (!query_has_room(q, ret->n_conversations, bytes, next)) {
            ret->more = true;
            break;
        }
        bytes += next;
        struct conversation_record *to = answer_add_conversation(ret);
        to->conversation_id = arena_str(&ret->chunks, id);
        to->title = arena_str(&ret->chunks, title);
        to->agent = arena_str(&ret->chunks, agent);
        to->updated_at = call_col_int(c, 3);
        to->notices = (uint32_t)call_col_int(c, 4);
        to->running = (uint32_t)call_col_int(c, 5);
    }
    return call_end(c);
}

static int ask_conversation(struct reader *r, const struct query *q, struct answer *ret)
{
    struct call c = call_begin(&r->conn, STMT_ASK_CONVERSATION);
    call_text(&c, q->owner);
    call_text(&c, q->conversation_id);
    int status = list_conversations(&c, q, ret);
    return status == STORE_OK && ret->n_conversations == 0 ? STORE_NOT_FOUND : status;
}

static int ask_conversations(struct reader *r, const struct query *q, struct answer *ret)
{
    struct call c =
        call_begin(&r->conn, q->before.p ? STMT_ASK_CONVERSATIONS_BEFORE : STMT_ASK_CONVERSATIONS);
    call_text(&c, q->owner);
    if (q->before.p)
        call_text(&c, q->before);
    return list_conversations(&c, q, ret);
}

/* --- lines ------------------------------------------------------------------------------------ */

/* Rows of position, line. */
static int ask_inbox(struct reader *r, const struct query *q, struct answer *ret)
{
    size_t bytes = 0;
    int status = STORE_OK;
    struct call c = call_begin(&r->conn, STMT_ASK_INBOX);
    call_int(&c, q->task_key);
    call_int(&c, (int64_t)q->after);
    while (status == STORE_OK && call_step(&c)) {
        uint64_t position = (uint64_t)call_col_int(&c, 0);
        struct str line = call_col(&c, 1);
        if (!query_has_room(q, ret->n_blocks, bytes, line.n)) {
            ret->more = true;
            break;
        }
        bytes += line.n;
        struct block *b = block_new(q->task_key, position, position, line.n);
        if (b) {
            memcpy(b->bytes, line.p, line.n);
            answer_add_block(ret, b);
        } else {
            status = STORE_IO;
        }
    }
    int end = call_end(&c);
    return status < 0 ? status : end;
}

/* A block's bytes go from SQLite's pages to where they stay: as a column they would be put together
 * elsewhere first, also for a row that has no room. */
static int read_block(struct reader *r, sqlite3_blob **blob, const struct query *q,
                      const struct call *row, struct block **ret)
{
    int64_t id = call_col_int(row, 0);
    int rc = *blob ? sqlite3_blob_reopen(*blob, id)
                   : sqlite3_blob_open(r->conn.db, "main", "blocks", "bytes", id, 0, blob);
    if (rc == SQLITE_ERROR)
        return STORE_CORRUPT; /* it is no blob */
    if (rc != SQLITE_OK)
        return conn_failed(&r->conn, rc);
    int n = sqlite3_blob_bytes(*blob);
    struct block *b = block_slab_new(q->task_key, (uint64_t)call_col_int(row, 1),
                                     (uint64_t)call_col_int(row, 2), (size_t)n);
    if (!b)
        return STORE_IO;
    rc = sqlite3_blob_read(*blob, b->bytes, n, 0);
    if (rc != SQLITE_OK) {
        block_free(b);
        return conn_failed(&r->conn, rc);
    }
    *ret = b;
    return STORE_OK;
}

/* Rows of rowid, first, last, length. */
static int list_blocks(struct reader *r, struct call *c, const struct query *q, struct answer *ret)
{
    size_t bytes = 0;
    int status = STORE_OK;
    sqlite3_blob *blob = NULL;
    while (status == STORE_OK && call_step(c)) {
        size_t n = (size_t)call_col_int(c, 3);
        if (!query_has_room(q, ret->n_blocks, bytes, n)) {
            ret->more = true;
            break;
        }
        bytes += n;
        struct block *b = NULL;
        status = read_block(r, &blob, q, c, &b);
        if (status == STORE_OK)
            answer_add_block(ret, b);
    }
    sqlite3_blob_close(blob); /* tells again what is noted already */
    int end = call_end(c);
    return status < 0 ? status : end;
}

static int ask_blocks(struct reader *r, const struct query *q, struct answer *ret)
{
    struct call c = call_begin(&r->conn, STMT_ASK_BLOCKS);
    call_int(&c, q->task_key);
    call_int(&c, (int64_t)q->after);
    int status = list_blocks(r, &c, q, ret);
    if (status == STORE_CORRUPT && ret->n_blocks > 0) {
        ret->more = true; /* what is in front of the damage is served; who goes on meets it */
        status = STORE_OK;
    }
    return status;
}

static int sql_ask_notices(struct reader *r, const struct query *q, struct answer *ret)
{
    size_t bytes = 0;
    struct call c = call_begin(&r->conn, STMT_ASK_NOTICES);
    call_int(&c, (int64_t)q->after);
    while (call_step(&c)) {
        struct str text = call_col(&c, 5);
        if (!query_has_room(q, ret->n_notices, bytes, text.n)) {
            ret->more = true;
            break;
        }
        bytes += text.n;
        *answer_add_notice(ret) = (struct notice_record){
            .key = call_col_int(&c, 0),
            .silent = call_col_int(&c, 1) != 0,
            .owner = arena_str(&ret->chunks, call_col(&c, 2)),
            .conversation_id = arena_str(&ret->chunks, call_col(&c, 3)),
            .agent = arena_str(&ret->chunks, call_col(&c, 4)),
            .text = arena_str(&ret->chunks, text),
            .source = arena_str(&ret->chunks, call_col(&c, 6)),
        };
    }
    return call_end(&c);
}

/* --- retention -------------------------------------------------------------------------------- */

static int ask_ended(struct reader *r, const struct query *q, struct answer *ret)
{
    static const enum stmt stmts[] = {[QUERY_EXPIRED] = STMT_ASK_EXPIRED,
                                      [QUERY_OLDEST] = STMT_ASK_OLDEST,
                                      [QUERY_OLDEST_EVENTS] = STMT_ASK_OLDEST_EVENTS};
    struct call c = call_begin(&r->conn, stmts[q->kind]);
    if (q->kind != QUERY_EXPIRED)
        call_text(&c, q->owner);
    if (q->kind != QUERY_OLDEST_EVENTS)
        call_int(&c, q->at);
    return list_tasks(&c, q, ret);
}

static int list_owners(struct call *c, const struct query *q, struct answer *ret)
{
    size_t bytes = 0;
    while (call_step(c)) {
        struct str owner = call_col(c, 0);
        if (!query_has_room(q, ret->n_owners, bytes, owner.n)) {
            ret->more = true;
            break;
        }
        bytes += owner.n;
        *answer_add_owner(ret) = (struct owner_record){.owner = arena_str(&ret->chunks, owner),
                                                       .value = call_col_int(c, 1)};
    }
    return call_end(c);
}

static int ask_usage(struct reader *r, const struct query *q, struct answer *ret)
{
    bool is_all = !q->owner.p;
    struct call c = call_begin(&r->conn, is_all ? STMT_ASK_SIZE : STMT_ASK_USAGE);
    if (!is_all)
        call_text(&c, q->owner);
    return list_owners(&c, q, ret);
}

/* Behind an owner, or all of them. */
static void call_behind(struct call *c, struct str before)
{
    call_text(c, before.p ? before : STR(""));
    call_text(c, before);
}

static int ask_full(struct reader *r, const struct query *q, struct answer *ret)
{
    struct call c = call_begin(&r->conn, STMT_ASK_FULL);
    call_int(&c, q->at);
    call_behind(&c, q->before);
    return list_owners(&c, q, ret);
}

static int ask_revoked(struct reader *r, const struct query *q, struct answer *ret)
{
    struct call c = call_begin(&r->conn, STMT_ASK_REVOKED);
    call_behind(&c, q->before);
    return list_owners(&c, q, ret);
}

static int ask_outbox(struct reader *r, const struct query *q, struct answer *ret)
{
    size_t bytes = 0;
    struct call c = call_begin(&r->conn, STMT_ASK_OUTBOX);
    call_text(&c, q->key);
    call_int(&c, (int64_t)q->after);
    while (call_step(&c)) {
        struct str body = call_col(&c, 4);
        if (!query_has_room(q, ret->n_outbox, bytes, body.n)) {
            ret->more = true;
            break;
        }
        bytes += body.n;
        *answer_add_outbox(ret) = (struct outbox_record){
            .key = call_col_int(&c, 0),
            .hook = arena_str(&ret->chunks, call_col(&c, 1)),
            .id = arena_str(&ret->chunks, call_col(&c, 2)),
            .at = call_col_int(&c, 3),
            .body = arena_str(&ret->chunks, body),
        };
    }
    return call_end(&c);
}

/* --- tails ------------------------------------------------------------------------------------ */

static int data_version(struct reader *r, int64_t *ret)
{
    struct call c = call_begin(&r->conn, STMT_DATA_VERSION);
    if (call_step(&c))
        *ret = call_col_int(&c, 0);
    return call_end(&c);
}

/* The journal has no index: the first page reads all of it, the next ones take from what was read
 * as long as nothing was committed since. */
static int tails_refresh(struct reader *r)
{
    int64_t version = 0;
    int status = run_plain(&r->conn, STMT_SNAPSHOT);
    if (status < 0)
        return status;
    status = data_version(r, &version);
    if (status == STORE_OK && (!r->tails.at || version != r->tails_version)) {
        tails_done(&r->tails);
        status = tails_load(&r->conn, &r->tails);
        r->tails_version = version;
    }
    int end = run_plain(&r->conn, STMT_COMMIT);
    return status < 0 ? status : end;
}

static int ask_tails(struct reader *r, const struct query *q, struct answer *ret)
{
    size_t bytes = 0;
    int status = tails_refresh(r);
    for (size_t i = 0; i < r->tails.n && status == STORE_OK; i++) {
        struct block *b = r->tails.at[i];
        if (b->task_key <= (int64_t)q->after)
            continue;
        if (!query_has_room(q, ret->n_blocks, bytes, b->len)) {
            ret->more = true;
            break;
        }
        bytes += b->len;
        struct block *copy = block_new(b->task_key, b->first, b->last, b->len);
        if (!copy)
            return STORE_IO;
        memcpy(copy->bytes, b->bytes, b->len);
        answer_add_block(ret, copy);
    }
    if (!ret->more)
        tails_done(&r->tails);
    return status;
}

/* --- asking ----------------------------------------------------------------------------------- */

static int sql_ask(struct reader *r, const struct query *q, struct answer *ret)
{
    switch (q->kind) {
    case QUERY_TASK: return ask_task(r, q, ret);
    case QUERY_KEY: return sql_ask_key(r, q, ret);
    case QUERY_TASKS: return ask_tasks(r, q, ret);
    case QUERY_MESSAGES: return ask_messages(r, q, ret);
    case QUERY_CONVERSATION: return ask_conversation(r, q, ret);
    case QUERY_CONVERSATIONS: return ask_conversations(r, q, ret);
    case QUERY_RESULTS: return ask_results(r, q, ret);
    case QUERY_LIVE: return ask_live(r, q, ret);
    case QUERY_TAILS: return ask_tails(r, q, ret);
    case QUERY_BLOCKS: return q->after < MAX_SAFE_INTEGER ? ask_blocks(r, q, ret) : STORE_OK;
    case QUERY_INBOX: return q->after < MAX_SAFE_INTEGER ? ask_inbox(r, q, ret) : STORE_OK;
    case QUERY_NOTICES: return sql_ask_notices(r, q, ret);
    case QUERY_EXPIRED:
    case QUERY_OLDEST:
    case QUERY_OLDEST_EVENTS: return ask_ended(r, q, ret);
    case QUERY_USAGE: return ask_usage(r, q, ret);
    case QUERY_FULL: return ask_full(r, q, ret);
    case QUERY_OUTBOX: return ask_outbox(r, q, ret);
    case QUERY_REVOKED: return ask_revoked(r, q, ret);
    }
    UNREACHABLE();
}

int sqlite_query(void *reader, const struct query *query, struct answer *ret)
{
    struct reader *r = reader;
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
