#include "core/store_memory.h"

#include <stdlib.h>

#include "core/store_memory_rows.h"

/* --- rows and runs ---------------------------------------------------------------------------- */

void memory_rows_add(struct rows *r, void *row)
{
    r->at = xrealloc(r->at, (r->n + 1) * sizeof *r->at);
    r->at[r->n++] = row;
}

void memory_rows_remove(struct rows *r, size_t i)
{
    memmove(&r->at[i], &r->at[i + 1], (r->n - i - 1) * sizeof *r->at);
    r->n--;
}

static void runs_add(struct runs *r, uint64_t first, uint64_t last, struct str bytes)
{
    r->at = xrealloc(r->at, (r->n + 1) * sizeof *r->at);
    r->at[r->n] = (struct run){.first = first, .last = last};
    buf_putstr(&r->at[r->n++].bytes, bytes);
}

void memory_runs_done(struct runs *r)
{
    for (size_t i = 0; i < r->n; i++)
        buf_done(&r->at[i].bytes);
    free(r->at);
}

void memory_task_free(struct mem_task *t)
{
    arena_done(&t->fixed);
    arena_done(&t->changing);
    memory_runs_done(&t->blocks);
    memory_runs_done(&t->inbox);
    memory_runs_done(&t->notes);
    buf_done(&t->tail.bytes);
    free(t);
}

void memory_message_free(struct mem_message *m)
{
    arena_done(&m->chunks);
    free(m);
}

void memory_conversation_free(struct mem_conversation *c)
{
    arena_done(&c->chunks);
    free(c->tip);
    free(c->tip_task);
    free(c);
}

static void notice_free(struct mem_notice *n)
{
    arena_done(&n->chunks);
    free(n);
}

void memory_key_free(struct mem_key *k)
{
    arena_done(&k->chunks);
    free(k);
}

/* --- finding ---------------------------------------------------------------------------------- */

static bool task_is(const struct mem_task *t, struct str owner, struct str conversation,
                    struct str task_id)
{
    return str_eq(t->record.owner, owner) && str_eq(t->record.conversation_id, conversation) &&
           str_eq(t->record.task_id, task_id);
}

struct mem_task *memory_task_find(const struct memory *m, struct str owner, struct str conversation,
                                  struct str task_id)
{
    for (size_t i = 0; i < m->tasks.n; i++) {
        if (task_is(m->tasks.at[i], owner, conversation, task_id))
            return m->tasks.at[i];
    }
    return NULL;
}

struct mem_task *memory_task_by_key(const struct memory *m, int64_t key)
{
    for (size_t i = m->tasks.n; i-- > 0;) {
        struct mem_task *t = m->tasks.at[i];
        if (t->record.key == key)
            return t;
    }
    return NULL;
}

struct mem_message *memory_message_find(const struct memory *m, struct str owner,
                                        struct str conversation, struct str message_id)
{
    for (size_t i = 0; i < m->messages.n; i++) {
        struct mem_message *message = m->messages.at[i];
        if (str_eq(message->owner, owner) && str_eq(message->conversation_id, conversation) &&
            str_eq(message->record.message_id, message_id))
            return message;
    }
    return NULL;
}

struct mem_conversation *memory_conversation_find(const struct memory *m, struct str owner,
                                                  struct str conversation)
{
    for (size_t i = 0; i < m->conversations.n; i++) {
        struct mem_conversation *c = m->conversations.at[i];
        if (str_eq(c->owner, owner) && str_eq(c->conversation_id, conversation))
            return c;
    }
    return NULL;
}

struct mem_key *memory_key_find(const struct memory *m, struct str owner, struct str key)
{
    for (size_t i = 0; i < m->keys.n; i++) {
        struct mem_key *k = m->keys.at[i];
        if (str_eq(k->owner, owner) && str_eq(k->key, key))
            return k;
    }
    return NULL;
}

/* --- copying ---------------------------------------------------------------------------------- */

struct task_state memory_state_copy(struct arena_chunk **chunks, const struct task_state *from,
                                    bool brief)
{
    struct task_state to = *from;
#define T(name) to.name = arena_str(chunks, from->name);
    TASK_STATE_TEXTS(T)
#undef T
#define T(name) to.name = brief ? STR_NULL : arena_str(chunks, from->name);
    TASK_LONG_TEXTS(T)
#undef T
    return to;
}

struct task_record memory_record_copy(struct arena_chunk **chunks, const struct task_record *from,
                                      bool brief)
{
    struct task_record to = *from;
    to.mark = 0; /* only QUERY_LIVE has it */
#define T(name) to.name = arena_str(chunks, from->name);
    TASK_NAMES(T)
    TASK_FIXED_TEXTS(T)
#undef T
#define T(name) to.name = brief ? STR_NULL : arena_str(chunks, from->name);
    TASK_INPUT_TEXTS(T)
    TASK_CONTEXT_TEXTS(T)
#undef T
    return to;
}

struct message_record memory_message_copy(struct arena_chunk **chunks,
                                          const struct message_record *from)
{
    struct message_record to = *from;
    to.message_id = arena_str(chunks, from->message_id);
    to.parent_id = arena_str(chunks, from->parent_id);
    to.behind = arena_str(chunks, from->behind);
    to.task_id = arena_str(chunks, from->task_id);
    to.content = arena_str(chunks, from->content);
    to.parts = arena_str(chunks, from->parts);
    return to;
}

struct notice_record memory_notice_copy(struct arena_chunk **chunks,
                                        const struct notice_record *from)
{
    struct notice_record to = *from;
    to.owner = arena_str(chunks, from->owner);
    to.conversation_id = arena_str(chunks, from->conversation_id);
    to.agent = arena_str(chunks, from->agent);
    to.text = arena_str(chunks, from->text);
    to.source = arena_str(chunks, from->source);
    return to;
}

/* --- applying --------------------------------------------------------------------------------- */

static void note_id(struct memory *m, struct str id)
{
    if (id.n == TASK_ID_LEN && memcmp(id.p, m->start.newest_id, TASK_ID_LEN) > 0)
        memcpy(m->start.newest_id, id.p, TASK_ID_LEN);
}

static void apply_task_new(struct memory *m, const struct op *op)
{
    struct mem_task *t = xcalloc(sizeof *t);
    t->record = memory_record_copy(&t->fixed, op->record, false);
    t->record.state = memory_state_copy(&t->changing, &op->record->state, false);
    if (status_is_terminal(t->record.state.status))
        t->record.context = STR_NULL;
    memory_rows_add(&m->tasks, t);
    if (t->record.key >= m->start.next_key)
        m->start.next_key = t->record.key + 1;
    note_id(m, t->record.task_id);
}

static void apply_task_set(struct mem_task *t, const struct op *op)
{
    arena_done(&t->changing);
    t->record.state = memory_state_copy(&t->changing, op->state, false);
    if (!status_is_terminal(op->state->status))
        return;
    t->record.context = STR_NULL;
    t->record.mark = 0;
    memory_runs_done(&t->notes);
    t->notes = (struct runs){0};
}

static void apply_lines(struct mem_task *t, const struct op *op)
{
    ASSERT(op->first == t->head + 1 && op->last >= op->first); /* promise 1 */
    if (t->tail.bytes.len == 0)
        t->tail.first = op->first;
    t->tail.last = t->head = op->last;
    buf_putstr(&t->tail.bytes, op->bytes);
}

static void apply_seal(struct mem_task *t, const struct op *op)
{
    const struct buf *tail = &t->tail.bytes;
    ASSERT(op->first == (tail->len ? t->tail.first : t->head + 1) && op->last >= op->first);
    ASSERT(op->last >= t->head && op->bytes.n >= tail->len);
    ASSERT(tail->len == 0 || memcmp(op->bytes.p, tail->bytes, tail->len) == 0);
    struct lines left = {op->first, op->last, op->bytes}, block;
    while (lines_take_block(&left, &block))
        runs_add(&t->blocks, block.first, block.last, block.bytes);
    t->head = op->last;
    buf_clear(&t->tail.bytes);
}

struct mem_conversation *memory_conversation_get(struct memory *m, const struct op *op, int64_t at)
{
    struct mem_conversation *c = memory_conversation_find(m, op->owner, op->conversation_id);
    if (c)
        return c;
    c = xcalloc(sizeof *c);
    c->owner = arena_str(&c->chunks, op->owner);
    c->conversation_id = arena_str(&c->chunks, op->conversation_id);
    c->updated_at = at;
    c->unlisted = op->unlisted;
    memory_rows_add(&m->conversations, c);
    return c;
}

static void apply_message(struct memory *m, const struct op *op)
{
    memory_message_put(m, op);
    note_id(m, op->message->message_id);
}

static void apply_conversation(struct memory *m, const struct op *op)
{
    struct mem_conversation *c = memory_conversation_get(m, op, op->at);
    bool keeps = op->softly && (c->flags & CONVERSATION_NAMED);
    if (op->title.p && ((op->force && !keeps) || !c->title.p))
        c->title = arena_str(&c->chunks, op->title);
    if (op->agent.p)
        c->agent = arena_str(&c->chunks, op->agent);
    if (op->at)
        c->updated_at = op->at;
    if (op->turns != TURNS_KEEP)
        c->notices = op->turns == TURNS_ADD ? c->notices + 1 : 0;
    c->flags = (c->flags & ~op->flags_clear) | op->flags_set;
}

static void apply_title(struct memory *m, const struct op *op)
{
    struct mem_conversation *c = memory_conversation_find(m, op->owner, op->conversation_id);
    bool given = c && (c->flags & (CONVERSATION_NAMED | CONVERSATION_TITLED));
    if (!c || given || !str_eq(c->title, op->key) || !c->title.p != !op->key.p)
        return;
    c->title = arena_str(&c->chunks, op->title);
    c->flags |= CONVERSATION_TITLED;
}

static void apply_delete(struct memory *m, const struct op *op)
{
    for (size_t i = m->tasks.n; i-- > 0;) {
        struct mem_task *t = m->tasks.at[i];
        if (str_eq(t->record.owner, op->owner) &&
            str_eq(t->record.conversation_id, op->conversation_id)) {
            memory_task_free(t);
            memory_rows_remove(&m->tasks, i);
        }
    }
    for (size_t i = m->messages.n; i-- > 0;) {
        struct mem_message *message = m->messages.at[i];
        if (str_eq(message->owner, op->owner) &&
            str_eq(message->conversation_id, op->conversation_id)) {
            memory_message_free(message);
            memory_rows_remove(&m->messages, i);
        }
    }
    for (size_t i = m->conversations.n; i-- > 0;) {
        struct mem_conversation *c = m->conversations.at[i];
        if (str_eq(c->owner, op->owner) && str_eq(c->conversation_id, op->conversation_id)) {
            memory_conversation_free(c);
            memory_rows_remove(&m->conversations, i);
        }
    }
    for (size_t i = m->keys.n; i-- > 0;) {
        struct mem_key *k = m->keys.at[i];
        if (str_eq(k->owner, op->owner) && str_eq(k->conversation_id, op->conversation_id)) {
            memory_key_free(k);
            memory_rows_remove(&m->keys, i);
        }
    }
    for (size_t i = m->notices.n; i-- > 0;) {
        struct mem_notice *n = m->notices.at[i];
        if (str_eq(n->record.owner, op->owner) &&
            str_eq(n->record.conversation_id, op->conversation_id)) {
            notice_free(n);
            memory_rows_remove(&m->notices, i);
        }
    }
    memory_files_delete(m, op);
}

static void apply_notice_take(struct memory *m, const struct op *op)
{
    for (size_t i = m->notices.n; i-- > 0;) {
        struct mem_notice *n = m->notices.at[i];
        if (n->record.key == op->task_key) {
            notice_free(n);
            memory_rows_remove(&m->notices, i);
        }
    }
}

static void apply_notice_put(struct memory *m, const struct op *op)
{
    struct mem_notice *n = xcalloc(sizeof *n);
    n->record = memory_notice_copy(&n->chunks, op->notice);
    if (n->record.key >= m->start.next_key) /* of something that is not a task */
        m->start.next_key = n->record.key + 1;
    memory_rows_add(&m->notices, n);
}

static void apply_request_key(struct memory *m, const struct op *op)
{
    struct mem_key *k = memory_key_find(m, op->owner, op->key);
    if (!k) {
        k = xcalloc(sizeof *k);
        k->owner = arena_str(&k->chunks, op->owner);
        k->key = arena_str(&k->chunks, op->key);
        memory_rows_add(&m->keys, k);
    }
    k->conversation_id = arena_str(&k->chunks, op->conversation_id);
    k->task_id = arena_str(&k->chunks, op->task_id);
}

static void apply_inbox_put(struct mem_task *t, const struct op *op)
{
    for (size_t i = 0; i < t->inbox.n; i++)
        ASSERT(t->inbox.at[i].first != op->first);
    runs_add(&t->inbox, op->first, op->first, op->bytes);
}

static void apply_inbox_take(struct mem_task *t, const struct op *op)
{
    size_t kept = 0;
    for (size_t i = 0; i < t->inbox.n; i++) {
        if (t->inbox.at[i].first >= op->first && t->inbox.at[i].first <= op->last)
            buf_done(&t->inbox.at[i].bytes);
        else
            t->inbox.at[kept++] = t->inbox.at[i];
    }
    t->inbox.n = kept;
}

static void apply_note(struct mem_task *t, const struct op *op)
{
    for (size_t i = 0; i < t->notes.n; i++) {
        struct run *note = &t->notes.at[i];
        if (note->first != op->first)
            continue;
        note->last = op->last;
        buf_clear(&note->bytes);
        buf_putstr(&note->bytes, op->bytes);
        return;
    }
    runs_add(&t->notes, op->first, op->last, op->bytes);
}

/* An op for a removed task has no effect. */
static void apply_to_task(struct mem_task *t, const struct op *op)
{
    if (!t)
        return;
    if (op->kind == OP_TASK_SET)
        apply_task_set(t, op);
    else if (op->kind == OP_LINES)
        apply_lines(t, op);
    else if (op->kind == OP_SEAL)
        apply_seal(t, op);
    else if (op->kind == OP_ACK)
        t->record.state.acked = true;
    else if (op->kind == OP_EVENTS_REMOVE)
        memory_events_remove(t);
    else if (op->kind == OP_INBOX_PUT)
        apply_inbox_put(t, op);
    else if (op->kind == OP_INBOX_TAKE)
        apply_inbox_take(t, op);
    else if (op->kind == OP_MARK)
        t->record.mark = op->first;
    else if (op->kind == OP_NOTE)
        apply_note(t, op);
}

static void apply(struct memory *m, const struct op *op)
{
    switch (op->kind) {
    case OP_TASK_NEW: apply_task_new(m, op); return;
    case OP_MESSAGE: apply_message(m, op); return;
    case OP_BRANCH: memory_branch(m, op); return;
    case OP_CONVERSATION: apply_conversation(m, op); return;
    case OP_TITLE: apply_title(m, op); return;
    case OP_CONVERSATION_DELETE: apply_delete(m, op); return;
    case OP_REQUEST_KEY: apply_request_key(m, op); return;
    case OP_NOTICE_PUT: apply_notice_put(m, op); return;
    case OP_NOTICE_TAKE: apply_notice_take(m, op); return;
    case OP_OUTBOX_PUT: memory_outbox_put(m, op); return;
    case OP_OUTBOX_TAKE: memory_outbox_take(m, op); return;
    case OP_REVOKE: memory_revoke(m, op); return;
    case OP_TASK_REMOVE: memory_task_remove(m, op); return;
    case OP_FILE_PUT:
        memory_file_put(m, op);
        note_id(m, op->file->file_id);
        return;
    case OP_FILE_USE: memory_file_use(m, op); return;
    case OP_FILES_EXPIRE: memory_files_expire(m, op); return;
    case OP_FILES_REMOVE: memory_files_remove(m, op); return;
    case OP_ACK:
        apply_to_task(memory_task_find(m, op->owner, op->conversation_id, op->key), op);
        return;
    case OP_TASK_SET:
    case OP_LINES:
    case OP_SEAL:
    case OP_EVENTS_REMOVE:
    case OP_INBOX_PUT:
    case OP_INBOX_TAKE:
    case OP_MARK:
    case OP_NOTE: apply_to_task(memory_task_by_key(m, op->task_key), op); return;
    }
    UNREACHABLE();
}

/* --- committing ------------------------------------------------------------------------------- */

static bool same_new_row(const struct op *a, const struct op *b)
{
    if (a->kind != b->kind)
        return false;
    if (a->kind == OP_TASK_NEW)
        return a->record->key == b->record->key ||
               (str_eq(a->record->owner, b->record->owner) &&
                str_eq(a->record->conversation_id, b->record->conversation_id) &&
                str_eq(a->record->task_id, b->record->task_id));
    return str_eq(a->owner, b->owner) && str_eq(a->conversation_id, b->conversation_id) &&
           str_eq(a->message->message_id, b->message->message_id);
}

/* Whether the new row of op i already exists when op i's turn comes. */
static bool is_taken(const struct memory *m, const struct batch *b, size_t i)
{
    const struct op *op = &b->ops[i];
    bool is_task = op->kind == OP_TASK_NEW;
    struct str owner = is_task ? op->record->owner : op->owner;
    struct str conversation = is_task ? op->record->conversation_id : op->conversation_id;

    for (size_t j = i; j-- > 0;) {
        const struct op *earlier = &b->ops[j];
        if (same_new_row(op, earlier))
            return true;
        if (earlier->kind == OP_CONVERSATION_DELETE && str_eq(earlier->owner, owner) &&
            str_eq(earlier->conversation_id, conversation))
            return false;
    }
    if (!is_task)
        return memory_message_find(m, owner, conversation, op->message->message_id) != NULL;
    return memory_task_by_key(m, op->record->key) ||
           memory_task_find(m, owner, conversation, op->record->task_id);
}

/* Only new rows can fail, so checking them first makes the batch atomic. */
static int memory_commit(void *store, const struct batch *batch)
{
    struct memory *m = store;
    bool known = batch->number && batch->number == m->start.number;
    if (known || batch->give_up)
        return known ? STORE_OK : STORE_VOID;
    for (size_t i = 0; i < batch->n_ops; i++) {
        enum op_kind kind = batch->ops[i].kind;
        if ((kind == OP_TASK_NEW || kind == OP_MESSAGE) && is_taken(m, batch, i))
            return STORE_IO;
    }
    for (size_t i = 0; i < batch->n_ops; i++)
        apply(m, &batch->ops[i]);
    if (batch->number)
        m->start.number = batch->number;
    return STORE_OK;
}

static int memory_start(void *store, struct store_start *ret)
{
    struct memory *m = store;
    *ret = m->start;
    return STORE_OK;
}

/* --- the backend ------------------------------------------------------------------------------ */

static int memory_query(void *reader, const struct query *query, struct answer *ret)
{
    *ret = (struct answer){0};
    int status = memory_ask(reader, query, ret);
    if (status < 0)
        answer_done(ret);
    return status;
}

static void *memory_reader_open(void *store)
{
    return store;
}

static void memory_reader_close(void *reader)
{
    (void)reader;
}

static void memory_close(void *store)
{
    struct memory *m = store;
    if (!m)
        return;
    for (size_t i = 0; i < m->tasks.n; i++)
        memory_task_free(m->tasks.at[i]);
    for (size_t i = 0; i < m->messages.n; i++)
        memory_message_free(m->messages.at[i]);
    for (size_t i = 0; i < m->conversations.n; i++)
        memory_conversation_free(m->conversations.at[i]);
    for (size_t i = 0; i < m->keys.n; i++)
        memory_key_free(m->keys.at[i]);
    for (size_t i = 0; i < m->notices.n; i++)
        notice_free(m->notices.at[i]);
    memory_revocations_done(m);
    memory_outbox_done(m);
    memory_files_done(m);
    free(m->notices.at);
    free(m->tasks.at);
    free(m->messages.at);
    free(m->conversations.at);
    free(m->keys.at);
    free(m);
}

void *store_memory_new(void)
{
    struct memory *m = xcalloc(sizeof *m);
    m->start.next_key = 1;
    return m;
}

const struct store_ops store_memory_ops = {
    .name = "memory",
    .commit = memory_commit,
    .start = memory_start,
    .reader_open = memory_reader_open,
    .reader_close = memory_reader_close,
    .query = memory_query,
    .close = memory_close,
};
