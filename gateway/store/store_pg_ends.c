/* The ends of a batch's tasks: after a takeover there are thousands of them in one batch, so they
 * are a few statements for all of them, and not some for each. */
#include "gateway/store/store_pg_private.h"

#define ENDS_BYTES (4u << 20)

/* The place of the key, or the empty one in which it would be. */
static size_t place_of(const struct pg_ends *e, int64_t key)
{
    size_t at = (size_t)((uint64_t)key * 0x9e3779b97f4a7c15u >> 32) % countof(e->table);
    while (e->table[at] && e->table[at] != key)
        at = (at + 1) % countof(e->table);
    return at;
}

/* Whether an end that stands before it may be carried out behind it: it neither reads nor changes
 * what an end does. */
static bool lets_wait(const struct pg_ends *e, const struct op *op)
{
    switch (op->kind) {
    case OP_TASK_NEW: /* another one */
    case OP_LINES:
    case OP_SEAL:
    case OP_CONVERSATION:
    case OP_MESSAGE:
    case OP_REQUEST_KEY:
    case OP_INBOX_PUT:
    case OP_INBOX_TAKE:
    case OP_NOTICE_PUT:
    case OP_OUTBOX_PUT: return true;
    case OP_TASK_SET: return !e->table[place_of(e, op->task_key)];
    default: return false;
    }
}

void pg_ends_begin(struct pg_ends *e)
{
    if (e->n > 0)
        memset(e->table, 0, sizeof e->table);
    e->n = e->bytes = 0;
}

void pg_ends_done(struct pg_ends *e)
{
    buf_done(&e->keys);
    for (size_t i = 0; i < countof(e->columns); i++)
        buf_done(&e->columns[i]);
}

#define N(type, name) pg_ints_begin(column++);
#define R(name) pg_reals_begin(column++);
#define T(name) pg_texts_begin(column++);

static void columns_begin(struct pg_ends *e)
{
    struct buf *column = e->columns;
    pg_ints_begin(&e->keys);
    TASK_STATE_NUMBERS(N, R)
    TASK_STATE_TEXTS(T)
    TASK_LONG_TEXTS(T)
    ASSERT(column == e->columns + countof(e->columns));
}

#undef N
#undef R
#undef T
#define N(type, name) pg_ints_add(column++, (int64_t)from->name);
#define R(name) pg_reals_add(column++, from->name);
#define T(name) pg_texts_add(column++, from->name), e->bytes += from->name.n;

static void columns_add(struct pg_ends *e, const struct task_state *from)
{
    struct buf *column = e->columns;
    TASK_STATE_NUMBERS(N, R)
    TASK_STATE_TEXTS(T)
    TASK_LONG_TEXTS(T)
}

#undef N
#undef R
#undef T

void pg_ends_put(struct pg_ends *e, const struct op *op)
{
    size_t at = place_of(e, op->task_key);
    ASSERT(op->task_key && !e->table[at] && e->n < PG_ENDS_MOST);
    e->table[at] = op->task_key;
    if (e->n++ == 0)
        columns_begin(e);
    pg_ints_add(&e->keys, op->task_key);
    columns_add(e, op->state);
}

static void about_all(struct store_pg *s, enum pg_stmt stmt)
{
    struct pg_call c;
    pg_begin(&c, &s->writer, stmt);
    pg_array(&c, &s->ends.keys);
    pg_send(&c);
}

void pg_ends_send(struct store_pg *s)
{
    struct pg_ends *e = &s->ends;
    struct pg_call c;
    if (e->n == 0)
        return;
    about_all(s, PG_USAGE_FORGET); /* a batch may repeat it */
    pg_begin(&c, &s->writer, PG_TASKS_SET);
    pg_array(&c, &e->keys);
    for (size_t i = 0; i < countof(e->columns); i++)
        pg_array(&c, &e->columns[i]);
    pg_send(&c);
    about_all(s, PG_CONTEXT_GONE);
    about_all(s, PG_MARK_GONE);
    about_all(s, PG_NOTES_GONE);
    about_all(s, PG_USAGE_ENDED);
    pg_ends_begin(e);
}

void pg_ends_before(struct store_pg *s, const struct op *op)
{
    const struct pg_ends *e = &s->ends;
    if (!lets_wait(e, op) || e->n >= PG_ENDS_MOST || e->bytes >= ENDS_BYTES)
        pg_ends_send(s);
}
