/* Answers: each is one statement, so one state of the database. */
#include <stdio.h>

#include "gateway/base/log.h"
#include "gateway/store/store_pg_private.h"
#include "proto/search.h"

#define ROWS_MAX 1024     /* of an answer without a limit */
#define TITLES_MAX 100000 /* that are searched */

/* --- rows ------------------------------------------------------------------------------------- */

/* The positions of a task's columns (FULL, BRIEF, ENDED and LIVE of store_pg_sql.c). */
#define N(type, name) ROW_##name,
#define T(name) ROW_##name,
enum {
    ROW_key,
    TASK_FIXED_NUMBERS(N) TASK_NAMES(T) TASK_FIXED_TEXTS(T) TASK_STATE_NUMBERS(N, T)
        TASK_STATE_TEXTS(T) TASK_LONG_TEXTS(T) TASK_INPUT_TEXTS(T) ROW_IS_FULL,
    ROW_MORE,    /* in LIVE the last line in blocks, in ENDED its events' bytes */
    ROW_CONTEXT, /* only in LIVE, like the rest */
    ROW_MARK,
    ROW_INBOX
};
#undef N
#undef T

#define N(type, name) ret->name = (type)pg_col_int(r, row, ROW_##name);
#define R(name) ret->name = pg_col_real(r, row, ROW_##name);
#define T(name) ret->name = arena_str(chunks, pg_col(r, row, ROW_##name));

static void row_state(const PGresult *r, int row, struct arena_chunk **chunks,
                      struct task_state *ret)
{
    TASK_STATE_NUMBERS(N, R)
    TASK_STATE_TEXTS(T)
    TASK_LONG_TEXTS(T)
}

static void row_record(const PGresult *r, int row, struct arena_chunk **chunks,
                       struct task_record *ret)
{
    *ret = (struct task_record){.key = pg_col_int(r, row, ROW_key)};
    TASK_FIXED_NUMBERS(N)
    TASK_NAMES(T)
    TASK_FIXED_TEXTS(T)
    TASK_INPUT_TEXTS(T)
    row_state(r, row, chunks, &ret->state);
}

#undef N
#undef R
#undef T

static void row_more(const PGresult *r, int row, enum query_kind kind, struct answer *ret)
{
    struct task_record *t = &ret->tasks[ret->n_tasks - 1];
    int64_t more = PQnfields(r) > ROW_MORE ? pg_col_int(r, row, ROW_MORE) : 0;
    if (kind != QUERY_LIVE) {
        t->event_bytes = pg_col_int(r, row, ROW_IS_FULL) ? 0 : more;
        return;
    }
    if ((uint64_t)more > t->state.head)
        t->state.head = (uint64_t)more;
    t->context = arena_str(&ret->chunks, pg_col(r, row, ROW_CONTEXT));
    t->mark = (uint64_t)pg_col_int(r, row, ROW_MARK);
    t->has_no_inbox = pg_col_is_null(r, row, ROW_INBOX);
}

static bool is_odd(const struct task_record *t)
{
    return (unsigned)t->state.status > STATUS_CANCELLED || (unsigned)t->type > TYPE_NOTICE ||
           (unsigned)t->state.error > TASK_INTERNAL;
}

/* --- asking ----------------------------------------------------------------------------------- */

int64_t pg_rows_wanted(const struct query *q)
{
    return q->limit ? (int64_t)q->limit + 1 : ROWS_MAX + 1;
}

static int64_t most_bytes(const struct query *q)
{
    bool is_less = q->max_bytes > 0 && q->max_bytes < QUERY_MAX_BYTES;
    return is_less ? (int64_t)q->max_bytes : QUERY_MAX_BYTES;
}

void pg_bound(struct pg_call *c, const struct query *q)
{
    pg_int(c, pg_rows_wanted(q));
    pg_int(c, most_bytes(q));
}

/* Bit n of the server's get_bit is bit n % 8 of byte n / 8. */
void pg_slots(struct pg_call *c, const struct query *q, char bytes[N_SLOTS / 8])
{
    for (size_t i = 0; q->slots && i < N_SLOTS / 8; i++)
        bytes[i] = (char)(q->slots->bits[i / 8] >> i % 8 * 8 & 0xff);
    pg_text(c, q->slots ? (struct str){bytes, N_SLOTS / 8} : STR_NULL);
}

/* Whether the next row is taken; the last of those that were asked for is only to be seen. */
static bool pg_has_room(const struct query *q, size_t rows, size_t *bytes, size_t next)
{
    if (rows >= (q->limit ? q->limit : ROWS_MAX) || !query_has_room(q, rows, *bytes, next))
        return false;
    *bytes += next;
    return true;
}

int pg_list_tasks(struct pg_call *c, const struct query *q, struct answer *ret)
{
    PGresult *r;
    size_t bytes = 0;
    int status = pg_ask(c, &r);
    for (int i = 0; status == STORE_OK && i < PQntuples(r); i++) {
        struct task_record *t = answer_add_task(ret);
        row_record(r, i, &ret->chunks, t);
        row_more(r, i, q->kind, ret);
        if (is_odd(t)) {
            snprintf(c->conn->error, sizeof c->conn->error,
                     "the record of a task (key %lld) is not as it was written", (long long)t->key);
            status = STORE_CORRUPT;
        } else if (!pg_has_room(q, ret->n_tasks - 1, &bytes, task_record_bytes(t))) {
            ret->n_tasks--;
            ret->more = true;
            break;
        }
    }
    PQclear(r);
    return status;
}

static void pg_before(struct pg_call *c, const struct query *q)
{
    pg_text(c, q->owner);
    pg_text(c, q->conversation_id);
    if (q->before.p)
        pg_text(c, q->before);
    else
        pg_last(c);
}

static int pg_ask_tasks(struct pg_reader *r, const struct query *q, struct answer *ret)
{
    struct pg_call c;
    enum pg_stmt stmt = PG_ASK_TASKS;
    if (q->has_status)
        stmt = status_is_terminal(q->status) ? PG_ASK_TASKS_STATUS : PG_ASK_TASKS_LIVE;
    pg_begin(&c, &r->conn, stmt);
    pg_before(&c, q);
    if (q->has_status)
        pg_int(&c, q->status);
    pg_int(&c, q->turns);
    pg_int(&c, pg_rows_wanted(q));
    return pg_list_tasks(&c, q, ret);
}

static int pg_ask_owned(struct pg_reader *r, const struct query *q, struct answer *ret)
{
    struct pg_call c;
    enum pg_stmt stmt = q->live ? PG_ASK_OWNED_LIVE : PG_ASK_OWNED;
    pg_begin(&c, &r->conn, q->key.p ? stmt : PG_ASK_OWNED_NEWEST);
    pg_text(&c, q->owner);
    if (q->key.p) {
        pg_text(&c, q->key);
        pg_int(&c, pg_rows_wanted(q));
    }
    return pg_list_tasks(&c, q, ret);
}

static int pg_ask_results(struct pg_reader *r, const struct query *q, struct answer *ret)
{
    struct pg_call c;
    pg_begin(&c, &r->conn, PG_ASK_RESULTS);
    pg_before(&c, q);
    pg_bound(&c, q);
    int status = pg_list_tasks(&c, q, ret);
    answer_reverse(ret);
    return status;
}

static int pg_ask_live(struct pg_reader *r, const struct query *q, struct answer *ret)
{
    struct pg_call c;
    char slots[N_SLOTS / 8];
    pg_begin(&c, &r->conn, PG_ASK_LIVE);
    pg_slots(&c, q, slots);
    pg_int(&c, (int64_t)q->after);
    pg_bound(&c, q);
    return pg_list_tasks(&c, q, ret);
}

static int pg_one_task(struct pg_call *c, struct answer *ret)
{
    const struct query any = {0};
    int status = pg_list_tasks(c, &any, ret);
    return status == STORE_OK && ret->n_tasks == 0 ? STORE_NOT_FOUND : status;
}

static int pg_ask_task(struct pg_reader *r, const struct query *q, struct answer *ret)
{
    struct pg_call c;
    pg_begin(&c, &r->conn, PG_ASK_TASK);
    pg_text(&c, q->owner);
    pg_text(&c, q->conversation_id);
    pg_text(&c, q->task_id);
    return pg_one_task(&c, ret);
}

static int pg_ask_key(struct pg_reader *r, const struct query *q, struct answer *ret)
{
    struct pg_call c;
    pg_begin(&c, &r->conn, PG_ASK_KEY);
    pg_text(&c, q->owner);
    pg_text(&c, q->key);
    return pg_one_task(&c, ret);
}

struct message_record *pg_take_message(const PGresult *r, int row, struct answer *ret)
{
    struct message_record *m = answer_add_message(ret);
    m->message_id = arena_str(&ret->chunks, pg_col(r, row, 0));
    m->task_id = arena_str(&ret->chunks, pg_col(r, row, 1));
    m->role = (enum message_role)pg_col_int(r, row, 2);
    m->partial = pg_col_int(r, row, 3) != 0;
    m->created_at = pg_col_int(r, row, 4);
    m->content = arena_str(&ret->chunks, pg_col(r, row, 5));
    m->parent_id = arena_str(&ret->chunks, pg_col(r, row, 6));
    m->parts = arena_str(&ret->chunks, pg_col(r, row, PQfnumber(r, "parts")));
    return m;
}

static int pg_ask_messages(struct pg_reader *r, const struct query *q, struct answer *ret)
{
    struct pg_call c;
    PGresult *rows;
    size_t bytes = 0;
    pg_begin(&c, &r->conn, PG_ASK_MESSAGES);
    pg_before(&c, q);
    pg_bound(&c, q);
    int status = pg_ask(&c, &rows);
    for (int i = 0; status == STORE_OK && i < PQntuples(rows); i++) {
        if (!pg_has_room(q, ret->n_messages, &bytes, pg_col(rows, i, 5).n)) {
            ret->more = true;
            break;
        }
        (void)pg_take_message(rows, i, ret);
    }
    PQclear(rows);
    answer_reverse(ret);
    return status;
}

static int pg_list_conversations(struct pg_call *c, const struct query *q, struct search *s,
                                 struct answer *ret)
{
    PGresult *r;
    size_t bytes = 0;
    int status = pg_ask(c, &r);
    for (int i = 0; status == STORE_OK && i < PQntuples(r); i++) {
        struct str id = pg_col(r, i, 0), title = pg_col(r, i, 1), agent = pg_col(r, i, 2);
        if (s && !search_finds(s, title))
            continue;
        if (!pg_has_room(q, ret->n_conversations, &bytes, id.n + title.n + agent.n)) {
            ret->more = true;
            break;
        }
        *answer_add_conversation(ret) = (struct conversation_record){
            .conversation_id = arena_str(&ret->chunks, id),
            .title = arena_str(&ret->chunks, title),
            .agent = arena_str(&ret->chunks, agent),
            .updated_at = pg_col_int(r, i, 3),
            .notices = (uint32_t)pg_col_int(r, i, 4),
            .unlisted = pg_col_int(r, i, 5) != 0,
            .flags = (unsigned)pg_col_int(r, i, 6),
            .running = (uint32_t)pg_col_int(r, i, 7),
        };
    }
    PQclear(r);
    return status;
}

static int pg_ask_conversation(struct pg_reader *r, const struct query *q, struct answer *ret)
{
    struct pg_call c;
    pg_begin(&c, &r->conn, PG_ASK_CONVERSATION);
    pg_text(&c, q->owner);
    pg_text(&c, q->conversation_id);
    int status = pg_list_conversations(&c, q, NULL, ret);
    return status == STORE_OK && ret->n_conversations == 0 ? STORE_NOT_FOUND : status;
}

static int pg_ask_conversations(struct pg_reader *r, const struct query *q, struct answer *ret)
{
    struct pg_call c;
    pg_begin(&c, &r->conn, q->before.p ? PG_ASK_CONVERSATIONS_BEFORE : PG_ASK_CONVERSATIONS);
    pg_text(&c, q->owner);
    pg_int(&c, q->flags_asked);
    pg_int(&c, q->flags);
    if (q->before.p)
        pg_text(&c, q->before);
    struct search s = {0};
    bool searches = q->key.p && search_read(q->key, &s);
    pg_int(&c, searches ? TITLES_MAX : pg_rows_wanted(q));
    int status = pg_list_conversations(&c, q, searches ? &s : NULL, ret);
    search_done(&s);
    return status;
}

/* One page of the owner's messages, newest first; true when the search goes on behind it. */
static bool search_page(const PGresult *rows, const struct query *q, struct search *s,
                        size_t looked[2], struct answer *ret)
{
    for (int i = 0; i < PQntuples(rows); i++, looked[0]++) {
        struct str content = pg_col(rows, i, 5);
        ret->more = !search_goes_on(q, ret, looked[0], &looked[1], content);
        if (ret->more)
            return false;
        ret->looked_at = arena_str(&ret->chunks, pg_col(rows, i, 0));
        if (search_finds(s, content))
            pg_take_message(rows, i, ret)->conversation_id =
                arena_str(&ret->chunks, pg_col(rows, i, 7));
    }
    return PQntuples(rows) > 0;
}

static int pg_ask_search(struct pg_reader *r, const struct query *q, struct answer *ret)
{
    const struct query page = {.limit = 500, .max_bytes = 1 << 20};
    struct search s;
    size_t looked[2] = {0, 0}; /* rows, bytes */
    bool goes_on = true;
    int status = STORE_OK;
    if (!search_read(q->key, &s))
        return STORE_OK;
    ret->looked_at = q->before;
    while (goes_on && status == STORE_OK) {
        struct pg_call c;
        PGresult *rows;
        pg_begin(&c, &r->conn, PG_ASK_SEARCH);
        pg_text(&c, q->owner);
        if (ret->looked_at.p)
            pg_text(&c, ret->looked_at);
        else
            pg_last(&c);
        pg_bound(&c, &page);
        status = pg_ask(&c, &rows);
        goes_on = status == STORE_OK && search_page(rows, q, &s, looked, ret);
        PQclear(rows);
    }
    search_done(&s);
    return status;
}

static int pg_ask_notices(struct pg_reader *r, const struct query *q, struct answer *ret)
{
    struct pg_call c;
    PGresult *rows;
    size_t bytes = 0;
    char slots[N_SLOTS / 8];
    pg_begin(&c, &r->conn, PG_ASK_NOTICES);
    pg_slots(&c, q, slots);
    pg_int(&c, (int64_t)q->after);
    pg_bound(&c, q);
    int status = pg_ask(&c, &rows);
    for (int i = 0; status == STORE_OK && i < PQntuples(rows); i++) {
        struct str text = pg_col(rows, i, 5);
        if (!pg_has_room(q, ret->n_notices, &bytes, text.n)) {
            ret->more = true;
            break;
        }
        *answer_add_notice(ret) = (struct notice_record){
            .key = pg_col_int(rows, i, 0),
            .silent = pg_col_int(rows, i, 1) != 0,
            .owner = arena_str(&ret->chunks, pg_col(rows, i, 2)),
            .conversation_id = arena_str(&ret->chunks, pg_col(rows, i, 3)),
            .agent = arena_str(&ret->chunks, pg_col(rows, i, 4)),
            .text = arena_str(&ret->chunks, text),
            .source = arena_str(&ret->chunks, pg_col(rows, i, 6)),
        };
    }
    PQclear(rows);
    return status;
}

/* --- retention -------------------------------------------------------------------------------- */

static int pg_ask_ended(struct pg_reader *r, const struct query *q, struct answer *ret)
{
    static const enum pg_stmt stmts[] = {[QUERY_EXPIRED] = PG_ASK_EXPIRED,
                                         [QUERY_OLDEST] = PG_ASK_OLDEST,
                                         [QUERY_OLDEST_EVENTS] = PG_ASK_OLDEST_EVENTS};
    struct pg_call c;
    char slots[N_SLOTS / 8];
    pg_begin(&c, &r->conn, stmts[q->kind]);
    if (q->kind == QUERY_EXPIRED)
        pg_slots(&c, q, slots);
    else
        pg_text(&c, q->owner);
    if (q->kind != QUERY_OLDEST_EVENTS)
        pg_int(&c, q->at);
    pg_int(&c, pg_rows_wanted(q));
    return pg_list_tasks(&c, q, ret);
}

static int pg_list_owners(struct pg_call *c, const struct query *q, struct answer *ret)
{
    PGresult *r;
    size_t bytes = 0;
    int status = pg_ask(c, &r);
    for (int i = 0; status == STORE_OK && i < PQntuples(r); i++) {
        struct str owner = pg_col(r, i, 0);
        if (!pg_has_room(q, ret->n_owners, &bytes, owner.n)) {
            ret->more = true;
            break;
        }
        *answer_add_owner(ret) = (struct owner_record){.owner = arena_str(&ret->chunks, owner),
                                                       .value = pg_col_int(r, i, 1)};
    }
    PQclear(r);
    return status;
}

static int pg_ask_usage(struct pg_reader *r, const struct query *q, struct answer *ret)
{
    struct pg_call c;
    char slots[N_SLOTS / 8];
    pg_begin(&c, &r->conn, q->owner.p ? PG_ASK_USAGE : PG_ASK_SIZE);
    if (q->owner.p)
        pg_text(&c, q->owner);
    else
        pg_slots(&c, q, slots);
    return pg_list_owners(&c, q, ret);
}

static int pg_ask_full(struct pg_reader *r, const struct query *q, struct answer *ret)
{
    struct pg_call c;
    char slots[N_SLOTS / 8];
    pg_begin(&c, &r->conn, PG_ASK_FULL);
    pg_slots(&c, q, slots);
    pg_int(&c, q->at);
    pg_text(&c, q->before);
    pg_int(&c, pg_rows_wanted(q));
    return pg_list_owners(&c, q, ret);
}

static int pg_ask_revoked(struct pg_reader *r, const struct query *q, struct answer *ret)
{
    struct pg_call c;
    char slots[N_SLOTS / 8];
    pg_begin(&c, &r->conn, PG_ASK_REVOKED);
    pg_slots(&c, q, slots);
    pg_text(&c, q->before);
    pg_int(&c, pg_rows_wanted(q));
    return pg_list_owners(&c, q, ret);
}

static int pg_ask_outbox(struct pg_reader *r, const struct query *q, struct answer *ret)
{
    struct pg_call c;
    PGresult *rows;
    size_t bytes = 0;
    char slots[N_SLOTS / 8];
    pg_begin(&c, &r->conn, PG_ASK_OUTBOX);
    pg_text(&c, q->key);
    pg_slots(&c, q, slots);
    pg_int(&c, (int64_t)q->after);
    pg_bound(&c, q);
    int status = pg_ask(&c, &rows);
    for (int i = 0; status == STORE_OK && i < PQntuples(rows); i++) {
        struct str body = pg_col(rows, i, 4);
        if (!pg_has_room(q, ret->n_outbox, &bytes, body.n)) {
            ret->more = true;
            break;
        }
        *answer_add_outbox(ret) = (struct outbox_record){
            .key = pg_col_int(rows, i, 0),
            .hook = arena_str(&ret->chunks, pg_col(rows, i, 1)),
            .id = arena_str(&ret->chunks, pg_col(rows, i, 2)),
            .at = pg_col_int(rows, i, 3),
            .body = arena_str(&ret->chunks, body),
            .slot = (unsigned)pg_col_int(rows, i, 5),
        };
    }
    PQclear(rows);
    return status;
}

/* --- the reader ------------------------------------------------------------------------------- */

static int pg_dispatch(struct pg_reader *r, const struct query *q, struct answer *ret)
{
    switch (q->kind) {
    case QUERY_TASK: return pg_ask_task(r, q, ret);
    case QUERY_KEY: return pg_ask_key(r, q, ret);
    case QUERY_TASKS: return pg_ask_tasks(r, q, ret);
    case QUERY_OWNED: return pg_ask_owned(r, q, ret);
    case QUERY_MESSAGES: return pg_ask_messages(r, q, ret);
    case QUERY_PATH: return pg_ask_path(r, q, ret);
    case QUERY_TURN: return pg_ask_turn(r, q, ret);
    case QUERY_CONVERSATION: return pg_ask_conversation(r, q, ret);
    case QUERY_CONVERSATIONS: return pg_ask_conversations(r, q, ret);
    case QUERY_SEARCH: return pg_ask_search(r, q, ret);
    case QUERY_RESULTS: return pg_ask_results(r, q, ret);
    case QUERY_LIVE: return pg_ask_live(r, q, ret);
    case QUERY_TAILS: return pg_ask_tails(r, q, ret);
    case QUERY_BLOCKS: return q->after < MAX_SAFE_INTEGER ? pg_ask_blocks(r, q, ret) : STORE_OK;
    case QUERY_INBOX:
    case QUERY_NOTES: return q->after < MAX_SAFE_INTEGER ? pg_ask_runs(r, q, ret) : STORE_OK;
    case QUERY_NOTICES: return pg_ask_notices(r, q, ret);
    case QUERY_EXPIRED:
    case QUERY_OLDEST:
    case QUERY_OLDEST_EVENTS: return pg_ask_ended(r, q, ret);
    case QUERY_USAGE: return pg_ask_usage(r, q, ret);
    case QUERY_FULL: return pg_ask_full(r, q, ret);
    case QUERY_OUTBOX: return pg_ask_outbox(r, q, ret);
    case QUERY_REVOKED: return pg_ask_revoked(r, q, ret);
    case QUERY_FILE:
    case QUERY_UPLOAD:
    case QUERY_BLOB:
    case QUERY_FILES_GONE: return pg_ask_files(r, q, ret);
    }
    UNREACHABLE();
}

/* None is older than the writer's: a server that was left may show what was never committed. */
static int reader_ready(struct pg_reader *r)
{
    int64_t generation = atomic_load(&r->store->generation);
    if (!pg_is_sure(r->store)) {
        snprintf(r->conn.error, sizeof r->conn.error, "the server is another one than before");
        return STORE_IO;
    }
    if (pg_conn_is_open(&r->conn) && r->conn.generation == generation)
        return STORE_OK;
    pg_conn_close(&r->conn);
    if (!pg_conn_open(&r->conn, &r->store->o, r->store->name))
        return STORE_IO;
    if (pg_history_ask(r->store, &r->conn) < 0) {
        pg_conn_close(&r->conn);
        return STORE_IO;
    }
    r->conn.generation = generation;
    return STORE_OK;
}

/* The server may have ended an idle connection: asking again on a new one is safe. */
static int ask_patiently(struct pg_reader *r, const struct query *q, struct answer *ret)
{
    bool was_open = pg_conn_is_open(&r->conn);
    int status = reader_ready(r);
    if (status == STORE_OK)
        status = pg_dispatch(r, q, ret);
    if (status == STORE_UNKNOWN && was_open) {
        answer_done(ret);
        status = reader_ready(r);
        if (status == STORE_OK)
            status = pg_dispatch(r, q, ret);
    }
    return status == STORE_UNKNOWN ? STORE_IO : status;
}

int pg_query(void *reader, const struct query *query, struct answer *ret)
{
    struct pg_reader *r = reader;
    *ret = (struct answer){0};
    if (query->kind != QUERY_TAILS)
        tails_done(&r->tails);
    int status = ask_patiently(r, query, ret);
    if (status < 0)
        answer_done(ret);
    if (status < 0 && status != STORE_NOT_FOUND) {
        pg_note_error(r->store, &r->conn);
        log_event_limited(LEVEL_ERROR, "store", "reads_fail", LOG_TEXT("why", r->conn.error));
    }
    return status;
}
