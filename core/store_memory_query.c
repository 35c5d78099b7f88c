#include <stdlib.h>

#include "core/store_memory_rows.h"
#include "proto/search.h"

static bool is_before(struct str id, struct str before)
{
    return !before.p || str_order(id, before) < 0;
}

static int by_task_id_newest(const void *a, const void *b)
{
    const struct mem_task *const *x = a, *const *y = b;
    return str_order((*y)->record.task_id, (*x)->record.task_id);
}

static int by_task_id_oldest(const void *a, const void *b)
{
    return by_task_id_newest(b, a);
}

static int by_key(const void *a, const void *b)
{
    const struct mem_task *const *x = a, *const *y = b;
    return ((*x)->record.key > (*y)->record.key) - ((*x)->record.key < (*y)->record.key);
}

static int by_message_id_newest(const void *a, const void *b)
{
    const struct mem_message *const *x = a, *const *y = b;
    return str_order((*y)->record.message_id, (*x)->record.message_id);
}

static int by_change_newest(const void *a, const void *b)
{
    const struct mem_conversation *x = *(void *const *)a, *y = *(void *const *)b;
    if (x->updated_at != y->updated_at)
        return x->updated_at > y->updated_at ? -1 : 1;
    return str_order(y->conversation_id, x->conversation_id);
}

static int by_notice_key(const void *a, const void *b)
{
    const struct mem_notice *x = *(void *const *)a, *y = *(void *const *)b;
    return (x->record.key > y->record.key) - (x->record.key < y->record.key);
}

static int by_position(const void *a, const void *b)
{
    const struct run *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

static void put_task(struct answer *a, const struct mem_task *t, bool brief)
{
    struct task_record *to = answer_add_task(a);
    *to = memory_record_copy(&a->chunks, &t->record, brief);
    to->context = STR_NULL;
    to->state = memory_state_copy(&a->chunks, &t->record.state, brief);
}

void memory_put_brief(struct answer *a, const struct mem_task *t)
{
    put_task(a, t, true);
}

static int memory_put_run(struct answer *a, int64_t task_key, const struct run *run)
{
    struct block *b = block_new(task_key, run->first, run->last, run->bytes.len);
    if (!b)
        return STORE_IO;
    if (run->bytes.len)
        memcpy(b->bytes, run->bytes.bytes, run->bytes.len);
    answer_add_block(a, b);
    return STORE_OK;
}

static bool task_is_asked(const struct mem_task *t, const struct query *q)
{
    const struct task_state *state = &t->record.state;
    switch (q->kind) {
    case QUERY_LIVE:
        return t->record.key > (int64_t)q->after && !status_is_terminal(state->status) &&
               query_has_slot(q, t->record.owner);
    case QUERY_TAILS:
        return t->record.key > (int64_t)q->after && t->tail.bytes.len > 0 &&
               query_has_slot(q, t->record.owner);
    case QUERY_OWNED:
        return str_eq(t->record.owner, q->owner) &&
               (!q->key.p || str_order(t->record.task_id, q->key) >= 0) &&
               !(q->live && status_is_terminal(state->status));
    case QUERY_RESULTS:
        if (t->record.type != TYPE_BACKGROUND || !status_is_terminal(state->status) || state->acked)
            return false;
        break;
    default:
        if (q->has_status && state->status != q->status)
            return false;
        if (q->kind == QUERY_TASKS && q->turns && !type_is_turn(t->record.type))
            return false;
        break;
    }
    return str_eq(t->record.owner, q->owner) &&
           str_eq(t->record.conversation_id, q->conversation_id) &&
           is_before(t->record.task_id, q->before);
}

static void put_live(struct answer *a, const struct mem_task *t)
{
    put_task(a, t, false);
    struct task_state *state = &a->tasks[a->n_tasks - 1].state;
    a->tasks[a->n_tasks - 1].context = arena_str(&a->chunks, t->record.context);
    a->tasks[a->n_tasks - 1].mark = t->record.mark;
    if (t->blocks.n && t->blocks.at[t->blocks.n - 1].last > state->head)
        state->head = t->blocks.at[t->blocks.n - 1].last;
}

static size_t asked_bytes(const struct mem_task *t, const struct query *q)
{
    if (q->kind == QUERY_TAILS)
        return t->tail.bytes.len;
    size_t bytes = task_record_bytes(&t->record);
    if (q->kind != QUERY_TASKS && q->kind != QUERY_OWNED)
        return bytes;
    const struct task_state *state = &t->record.state;
    return bytes - t->record.input.n - t->record.metadata.n - t->record.parts.n -
           t->record.context.n - state->output.n - state->result.n - state->undelivered.n -
           state->answers.n - state->retracted.n;
}

static int ask_tasks(const struct memory *m, const struct query *q, struct answer *ret)
{
    struct rows found = {0};
    size_t n = 0, bytes = 0;
    int status = STORE_OK;
    for (size_t i = 0; i < m->tasks.n; i++) {
        if (task_is_asked(m->tasks.at[i], q))
            memory_rows_add(&found, m->tasks.at[i]);
    }
    bool is_start = q->kind == QUERY_LIVE || q->kind == QUERY_TAILS;
    bool is_owned = q->kind == QUERY_OWNED, is_newest = is_owned && !q->key.p;
    if (found.n)
        qsort(found.at, found.n, sizeof *found.at,
              is_start                 ? by_key
              : is_owned && !is_newest ? by_task_id_oldest
                                       : by_task_id_newest);
    for (; n < found.n && status == STORE_OK; n++) {
        const struct mem_task *t = found.at[n];
        if ((is_newest && n > 0) || !query_has_room(q, n, bytes, asked_bytes(t, q)))
            break;
        bytes += asked_bytes(t, q);
        if (q->kind == QUERY_TAILS)
            status = memory_put_run(ret, t->record.key, &t->tail);
        else if (q->kind == QUERY_LIVE)
            put_live(ret, t);
        else
            put_task(ret, t, q->kind == QUERY_TASKS || is_owned);
    }
    ret->more = n < found.n && !is_newest;
    if (q->kind == QUERY_RESULTS)
        answer_reverse(ret);
    free(found.at);
    return status;
}

static int ask_task(const struct mem_task *t, struct answer *ret)
{
    if (!t)
        return STORE_NOT_FOUND;
    put_task(ret, t, false);
    return STORE_OK;
}

static int memory_ask_key(const struct memory *m, const struct query *q, struct answer *ret)
{
    const struct mem_key *k = memory_key_find(m, q->owner, q->key);
    return ask_task(k ? memory_task_find(m, q->owner, k->conversation_id, k->task_id) : NULL, ret);
}

static int ask_messages(const struct memory *m, const struct query *q, struct answer *ret)
{
    struct rows found = {0};
    size_t n = 0, bytes = 0;
    for (size_t i = 0; i < m->messages.n; i++) {
        const struct mem_message *message = m->messages.at[i];
        if (str_eq(message->owner, q->owner) &&
            str_eq(message->conversation_id, q->conversation_id) &&
            is_before(message->record.message_id, q->before))
            memory_rows_add(&found, m->messages.at[i]);
    }
    if (found.n)
        qsort(found.at, found.n, sizeof *found.at, by_message_id_newest);
    for (; n < found.n; n++) {
        const struct mem_message *message = found.at[n];
        if (!query_has_room(q, n, bytes, message->record.content.n))
            break;
        bytes += message->record.content.n;
        *answer_add_message(ret) = memory_message_copy(&ret->chunks, &message->record);
    }
    ret->more = n < found.n;
    answer_reverse(ret);
    free(found.at);
    return STORE_OK;
}

static void put_conversation(const struct memory *m, const struct mem_conversation *c,
                             struct answer *ret)
{
    struct conversation_record *to = answer_add_conversation(ret);
    to->conversation_id = arena_str(&ret->chunks, c->conversation_id);
    to->title = arena_str(&ret->chunks, c->title);
    to->agent = arena_str(&ret->chunks, c->agent);
    to->updated_at = c->updated_at;
    to->notices = c->notices;
    to->unlisted = c->unlisted;
    to->flags = c->flags;
    for (size_t i = 0; i < m->tasks.n; i++) {
        const struct task_record *t = &((struct mem_task *)m->tasks.at[i])->record;
        if (str_eq(t->owner, c->owner) && str_eq(t->conversation_id, c->conversation_id) &&
            !status_is_terminal(t->state.status))
            to->running++;
    }
}

static int ask_conversation(const struct memory *m, const struct query *q, struct answer *ret)
{
    const struct mem_conversation *c = memory_conversation_find(m, q->owner, q->conversation_id);
    if (!c)
        return STORE_NOT_FOUND;
    put_conversation(m, c, ret);
    return STORE_OK;
}

static bool is_listed_in(const struct memory *m, const struct mem_message *message)
{
    const struct mem_conversation *c =
        memory_conversation_find(m, message->owner, message->conversation_id);
    return c && !c->unlisted;
}

/* Newest first, of all listed conversations of the owner. */
static int ask_search(const struct memory *m, const struct query *q, struct answer *ret)
{
    struct search s;
    struct rows found = {0};
    size_t n = 0, bytes = 0;
    if (!search_read(q->key, &s))
        return STORE_OK;
    for (size_t i = 0; i < m->messages.n; i++) {
        struct mem_message *message = m->messages.at[i];
        if (str_eq(message->owner, q->owner) && is_before(message->record.message_id, q->before) &&
            is_listed_in(m, message))
            memory_rows_add(&found, message);
    }
    if (found.n)
        qsort(found.at, found.n, sizeof *found.at, by_message_id_newest);
    for (; n < found.n; n++) {
        const struct mem_message *message = found.at[n];
        if (!search_goes_on(q, ret, n, &bytes, message->record.content))
            break;
        ret->looked_at = arena_str(&ret->chunks, message->record.message_id);
        if (!search_finds(&s, message->record.content))
            continue;
        struct message_record *to = answer_add_message(ret);
        *to = memory_message_copy(&ret->chunks, &message->record);
        to->conversation_id = arena_str(&ret->chunks, message->conversation_id);
    }
    ret->more = n < found.n;
    free(found.at);
    search_done(&s);
    return STORE_OK;
}

static int ask_conversations(const struct memory *m, const struct query *q, struct answer *ret)
{
    struct mem_conversation *before = memory_conversation_find(m, q->owner, q->before);
    struct rows found = {0};
    struct search s = {0};
    size_t n = 0, bytes = 0;
    bool searches = q->key.p && search_read(q->key, &s);
    for (size_t i = 0; i < m->conversations.n; i++) {
        struct mem_conversation *c = m->conversations.at[i];
        if (str_eq(c->owner, q->owner) && !c->unlisted && (c->flags & q->flags_asked) == q->flags &&
            (!searches || search_finds(&s, c->title)) &&
            (!q->before.p || (before && by_change_newest(&c, &before) > 0)))
            memory_rows_add(&found, c);
    }
    if (found.n)
        qsort(found.at, found.n, sizeof *found.at, by_change_newest);
    for (; n < found.n; n++) {
        const struct mem_conversation *c = found.at[n];
        size_t next = c->conversation_id.n + c->title.n + c->agent.n;
        if (!query_has_room(q, n, bytes, next))
            break;
        bytes += next;
        put_conversation(m, c, ret);
    }
    ret->more = n < found.n;
    search_done(&s);
    free(found.at);
    return STORE_OK;
}

static int ask_runs(const struct memory *m, const struct query *q, struct answer *ret)
{
    struct mem_task *t = memory_task_by_key(m, q->task_key);
    if (!t)
        return STORE_OK;
    bool notes = q->kind == QUERY_NOTES;
    struct runs *runs = q->kind == QUERY_BLOCKS ? &t->blocks : notes ? &t->notes : &t->inbox;
    size_t n = 0, bytes = 0;
    if (runs->n)
        qsort(runs->at, runs->n, sizeof *runs->at, by_position);
    for (size_t i = 0; i < runs->n; i++) {
        const struct run *run = &runs->at[i];
        if ((notes ? run->first : run->last) <= q->after)
            continue;
        if (!query_has_room(q, n, bytes, run->bytes.len)) {
            ret->more = true;
            break;
        }
        bytes += run->bytes.len;
        if (memory_put_run(ret, q->task_key, run) < 0)
            return STORE_IO;
        n++;
    }
    return STORE_OK;
}

static int memory_ask_notices(const struct memory *m, const struct query *q, struct answer *ret)
{
    struct rows found = {0};
    size_t n = 0, bytes = 0;
    for (size_t i = 0; i < m->notices.n; i++) {
        const struct mem_notice *notice = m->notices.at[i];
        if (notice->record.key > (int64_t)q->after && query_has_slot(q, notice->record.owner))
            memory_rows_add(&found, m->notices.at[i]);
    }
    if (found.n)
        qsort(found.at, found.n, sizeof *found.at, by_notice_key);
    for (; n < found.n; n++) {
        const struct mem_notice *notice = found.at[n];
        if (!query_has_room(q, n, bytes, notice->record.text.n))
            break;
        bytes += notice->record.text.n;
        *answer_add_notice(ret) = memory_notice_copy(&ret->chunks, &notice->record);
    }
    ret->more = n < found.n;
    free(found.at);
    return STORE_OK;
}

int memory_ask(const struct memory *m, const struct query *q, struct answer *ret)
{
    switch (q->kind) {
    case QUERY_TASK:
        return ask_task(memory_task_find(m, q->owner, q->conversation_id, q->task_id), ret);
    case QUERY_KEY: return memory_ask_key(m, q, ret);
    case QUERY_TASKS:
    case QUERY_OWNED:
    case QUERY_RESULTS:
    case QUERY_LIVE:
    case QUERY_TAILS: return ask_tasks(m, q, ret);
    case QUERY_MESSAGES: return ask_messages(m, q, ret);
    case QUERY_PATH: return memory_ask_path(m, q, ret);
    case QUERY_TURN: return memory_ask_turn(m, q, ret);
    case QUERY_CONVERSATION: return ask_conversation(m, q, ret);
    case QUERY_CONVERSATIONS: return ask_conversations(m, q, ret);
    case QUERY_SEARCH: return ask_search(m, q, ret);
    case QUERY_BLOCKS:
    case QUERY_NOTES:
    case QUERY_INBOX: return ask_runs(m, q, ret);
    case QUERY_NOTICES: return memory_ask_notices(m, q, ret);
    case QUERY_EXPIRED:
    case QUERY_OLDEST:
    case QUERY_OLDEST_EVENTS: return memory_ask_ended(m, q, ret);
    case QUERY_USAGE:
    case QUERY_FULL: return memory_ask_usage(m, q, ret);
    case QUERY_OUTBOX: return memory_ask_outbox(m, q, ret);
    case QUERY_REVOKED: return memory_ask_revoked(m, q, ret);
    case QUERY_FILE:
    case QUERY_UPLOAD:
    case QUERY_BLOB:
    case QUERY_FILES_GONE: return memory_ask_files(m, q, ret);
    }
    UNREACHABLE();
}
