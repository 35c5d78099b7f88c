/* The tree of a conversation's messages: each step looks through all of them. */
#include <stdlib.h>

#include "core/store_memory_rows.h"

struct place {
    const struct memory *m;
    struct str owner, conversation_id;
};

static bool is_here(const struct place *p, struct str owner, struct str conversation_id)
{
    return str_eq(owner, p->owner) && str_eq(conversation_id, p->conversation_id);
}

static struct mem_message *message_at(const struct place *p, struct str id)
{
    return id.p ? memory_message_find(p->m, p->owner, p->conversation_id, id) : NULL;
}

static bool is_same(struct str a, struct str b)
{
    return !a.p == !b.p && (!a.p || str_eq(a, b));
}

static bool is_answer(const struct mem_message *message)
{
    return message->record.role == ROLE_ASSISTANT;
}

/* The oldest message of the task that is an answer, or is none. */
static struct mem_message *message_of_task(const struct place *p, struct str task_id, bool answer)
{
    struct mem_message *found = NULL;
    for (size_t i = 0; task_id.p && i < p->m->messages.n; i++) {
        struct mem_message *message = p->m->messages.at[i];
        if (is_here(p, message->owner, message->conversation_id) &&
            str_eq(message->record.task_id, task_id) && is_answer(message) == answer &&
            (!found || str_order(message->record.message_id, found->record.message_id) < 0))
            found = message;
    }
    return found;
}

static struct mem_message *question_of(const struct place *p, struct str task_id)
{
    const struct mem_task *t = memory_task_find(p->m, p->owner, p->conversation_id, task_id);
    return t && t->record.question_id.p ? message_at(p, t->record.question_id)
                                        : message_of_task(p, task_id, false);
}

/* All messages with this parent, by id. */
static struct rows children_of(const struct place *p, struct str parent_id)
{
    struct rows found = {0};
    for (size_t i = 0; i < p->m->messages.n; i++) {
        struct mem_message *message = p->m->messages.at[i];
        if (is_here(p, message->owner, message->conversation_id) &&
            is_same(message->record.parent_id, parent_id))
            memory_rows_add(&found, message);
    }
    for (size_t i = 1; i < found.n; i++)
        for (size_t j = i; j > 0; j--) {
            struct mem_message *a = found.at[j - 1], *b = found.at[j];
            if (str_order(a->record.message_id, b->record.message_id) < 0)
                break;
            found.at[j - 1] = b;
            found.at[j] = a;
        }
    return found;
}

/* The newest task that answers the question, or has; NULL for none. */
static struct str answerer_of(const struct place *p, const struct mem_message *question)
{
    struct str newest = is_answer(question) ? STR_NULL : question->record.task_id;
    for (size_t i = 0; !is_answer(question) && i < p->m->tasks.n; i++) {
        const struct task_record *t = &((struct mem_task *)p->m->tasks.at[i])->record;
        if (is_here(p, t->owner, t->conversation_id) && t->question_id.p &&
            str_eq(t->question_id, question->record.message_id) &&
            (!newest.p || str_order(newest, t->task_id) < 0))
            newest = t->task_id;
    }
    return newest;
}

static void set_tip(struct mem_conversation *c, struct str tip, struct str task_id)
{
    char *new_tip = xstrdup(tip), *new_task = xstrdup(task_id);
    free(c->tip);
    free(c->tip_task);
    c->tip = new_tip;
    c->tip_task = new_task;
}

/* The newest message below that one, or of all when it is NULL. */
static void set_tip_below(const struct place *p, struct mem_conversation *c, struct str id)
{
    for (;;) {
        struct rows children = children_of(p, id);
        if (children.n)
            id = ((struct mem_message *)children.at[children.n - 1])->record.message_id;
        bool is_last = children.n == 0;
        free(children.at);
        if (is_last)
            break;
    }
    const struct mem_message *tip = message_at(p, id);
    set_tip(c, id, tip ? answerer_of(p, tip) : STR_NULL);
}

/* --- writing ---------------------------------------------------------------------------------- */

static void hang(struct mem_message *message, struct str parent_id, struct str behind)
{
    message->record.parent_id = arena_str(&message->chunks, parent_id);
    message->record.behind = is_answer(message) ? STR_NULL : arena_str(&message->chunks, behind);
}

/* False: what it names does not exist. */
static bool put_in_place(const struct place *p, enum message_place place,
                         struct mem_message *message)
{
    const struct message_record *m = &message->record;
    const struct mem_message *named = message_at(p, m->parent_id), *answer;
    switch (place) {
    case PLACE_TIP: break;
    case PLACE_ROOT: hang(message, STR_NULL, STR_NULL); return true;
    case PLACE_UNDER:
        answer = message_of_task(p, m->behind, true);
        if (answer)
            hang(message, answer->record.message_id, STR_NULL);
        else
            hang(message, m->parent_id, m->behind);
        return answer || named;
    case PLACE_BESIDE:
        if (named)
            hang(message, named->record.parent_id, named->record.behind);
        return named != NULL;
    case PLACE_ANSWER:
        named = question_of(p, m->task_id);
        if (named)
            hang(message, named->record.message_id, STR_NULL);
        return named != NULL;
    }
    return false;
}

static void come_between(const struct place *p, const struct mem_message *answer)
{
    for (size_t i = 0; i < p->m->messages.n; i++) {
        struct mem_message *message = p->m->messages.at[i];
        if (is_here(p, message->owner, message->conversation_id) && message->record.behind.p &&
            str_eq(message->record.behind, answer->record.task_id) && message->record.parent_id.p &&
            str_eq(message->record.parent_id, answer->record.parent_id))
            hang(message, answer->record.message_id, STR_NULL);
    }
}

static struct str ids_below(const struct place *p, struct arena_chunk **chunks,
                            struct str parent_id)
{
    struct rows all = children_of(p, parent_id);
    struct buf ids = {0};
    for (size_t i = all.n > MAX_SIBLINGS ? all.n - MAX_SIBLINGS : 0; i < all.n; i++) {
        if (ids.len)
            buf_putc(&ids, ' ');
        buf_putstr(&ids, ((struct mem_message *)all.at[i])->record.message_id);
    }
    struct str ret = ids.len ? arena_str(chunks, buf_str(&ids)) : STR_NULL;
    buf_done(&ids);
    free(all.at);
    return ret;
}

static struct str siblings_of(const struct place *p, struct arena_chunk **chunks,
                              const struct mem_message *message)
{
    struct str ids = ids_below(p, chunks, message->record.parent_id);
    return ids.n > message->record.message_id.n ? ids : STR_NULL;
}

static void put_placed(const struct place *p, const struct mem_conversation *c,
                       const struct mem_message *message, struct placed *ret)
{
    arena_done(&ret->chunks);
    *ret = (struct placed){0};
    ret->tip = arena_str(&ret->chunks, str_of(c->tip));
    ret->tip_task = arena_str(&ret->chunks, str_of(c->tip_task));
    if (!message)
        return;
    ret->parent_id = arena_str(&ret->chunks, message->record.parent_id);
    ret->siblings = siblings_of(p, &ret->chunks, message);
}

void memory_message_put(struct memory *m, const struct op *op)
{
    struct place p = {m, op->owner, op->conversation_id};
    struct mem_conversation *c = memory_conversation_get(m, op, op->message->created_at);
    struct mem_message *message = xcalloc(sizeof *message);
    message->owner = arena_str(&message->chunks, op->owner);
    message->conversation_id = arena_str(&message->chunks, op->conversation_id);
    message->record = memory_message_copy(&message->chunks, op->message);
    bool placed = put_in_place(&p, op->place, message);
    if (!placed)
        hang(message, str_of(c->tip), str_of(c->tip_task));
    memory_rows_add(&m->messages, message);

    const struct message_record *r = &message->record;
    struct str tip = str_of(c->tip), tip_task = str_of(c->tip_task);
    bool turned = !is_same(r->parent_id, tip) && placed && op->place != PLACE_ANSWER;
    if (is_answer(message) && r->parent_id.p && r->task_id.p)
        come_between(&p, message);
    if (!placed || op->place != PLACE_ANSWER)
        set_tip(c, r->message_id, is_answer(message) ? STR_NULL : r->task_id);
    else if (tip_task.p && is_same(tip_task, r->task_id))
        set_tip(c, r->message_id, STR_NULL);
    put_placed(&p, c, message, op->placed);
    op->placed->turned = turned;
}

void memory_branch(struct memory *m, const struct op *op)
{
    struct place p = {m, op->owner, op->conversation_id};
    struct mem_conversation *c = memory_conversation_find(m, op->owner, op->conversation_id);
    if (!c || !message_at(&p, op->key))
        return;
    char *tip = xstrdup(str_of(c->tip)), *task_id = xstrdup(str_of(c->tip_task));
    if (op->task_id.p)
        set_tip(c, op->key, op->task_id);
    else
        set_tip_below(&p, c, op->key);
    put_placed(&p, c, NULL, op->placed);
    op->placed->turned =
        !is_same(str_of(tip), str_of(c->tip)) || !is_same(str_of(task_id), str_of(c->tip_task));
    free(tip);
    free(task_id);
}

/* --- removing --------------------------------------------------------------------------------- */

/* The first other task that answers the question; NULL for none. */
static struct str heir_of(const struct place *p, const struct mem_message *message)
{
    struct str first = STR_NULL;
    for (size_t i = 0; !is_answer(message) && i < p->m->tasks.n; i++) {
        const struct task_record *t = &((struct mem_task *)p->m->tasks.at[i])->record;
        if (is_here(p, t->owner, t->conversation_id) && t->question_id.p &&
            str_eq(t->question_id, message->record.message_id) &&
            !str_eq(t->task_id, message->record.task_id) &&
            (!first.p || str_order(t->task_id, first) < 0))
            first = t->task_id;
    }
    return first;
}

static void cut_out(struct memory *m, const struct place *p, size_t at)
{
    struct mem_message *message = m->messages.at[at];
    struct mem_conversation *c = memory_conversation_find(m, p->owner, p->conversation_id);
    struct rows children = children_of(p, message->record.message_id);
    for (size_t i = 0; i < children.n; i++)
        hang(children.at[i], message->record.parent_id, message->record.behind);
    free(children.at);
    memory_rows_remove(&m->messages, at);
    if (c && c->tip && str_eq(str_of(c->tip), message->record.message_id))
        set_tip_below(p, c, message->record.parent_id);
    memory_message_free(message);
}

static bool find_of_task(const struct place *p, struct str task_id, size_t *ret)
{
    const struct mem_message *found = NULL;
    for (size_t i = 0; i < p->m->messages.n; i++) {
        const struct mem_message *message = p->m->messages.at[i];
        if (!is_here(p, message->owner, message->conversation_id) ||
            !str_eq(message->record.task_id, task_id) ||
            (found && str_order(found->record.message_id, message->record.message_id) < 0))
            continue;
        found = message;
        *ret = i;
    }
    return found != NULL;
}

void memory_messages_of_task_remove(struct memory *m, const struct op *op)
{
    struct place p = {m, op->owner, op->conversation_id};
    for (size_t i; find_of_task(&p, op->task_id, &i);) {
        struct mem_message *message = m->messages.at[i];
        struct str heir = heir_of(&p, message);
        if (heir.p)
            message->record.task_id = arena_str(&message->chunks, heir);
        else
            cut_out(m, &p, i);
    }
}

/* --- asking ----------------------------------------------------------------------------------- */

static struct message_record *tree_put_message(struct answer *a, const struct mem_message *message)
{
    struct message_record *to = answer_add_message(a);
    *to = memory_message_copy(&a->chunks, &message->record);
    to->behind = STR_NULL;
    return to;
}

/* Where the path begins; NULL for nowhere. */
static const struct mem_message *path_end(const struct place *p, const struct query *q,
                                          struct answer *ret)
{
    const struct mem_message *below = NULL;
    if (q->key.p)
        return message_at(p, q->key);
    if (!q->before.p && !q->task_id.p) {
        const struct mem_conversation *c =
            memory_conversation_find(p->m, p->owner, p->conversation_id);
        if (!c || !c->tip)
            return NULL;
        ret->tip = arena_str(&ret->chunks, str_of(c->tip));
        ret->tip_task = arena_str(&ret->chunks, str_of(c->tip_task));
        return message_at(p, ret->tip);
    }
    below = q->before.p ? message_at(p, q->before) : question_of(p, q->task_id);
    return below ? message_at(p, below->record.parent_id) : NULL;
}

int memory_ask_path(const struct memory *m, const struct query *q, struct answer *ret)
{
    struct place p = {m, q->owner, q->conversation_id};
    size_t bytes = 0;
    const struct mem_message *end = path_end(&p, q, ret);
    if (end && q->siblings)
        ret->children = ids_below(&p, &ret->chunks, end->record.message_id);
    for (const struct mem_message *at = end; at; at = message_at(&p, at->record.parent_id)) {
        if (q->at && at->record.created_at > q->at)
            continue;
        ret->more = !query_has_room(q, ret->n_messages, bytes, at->record.content.n);
        if (ret->more)
            break;
        bytes += at->record.content.n;
        struct message_record *to = tree_put_message(ret, at);
        if (q->siblings)
            to->siblings = siblings_of(&p, &ret->chunks, at);
    }
    answer_reverse(ret);
    return STORE_OK;
}

int memory_ask_turn(const struct memory *m, const struct query *q, struct answer *ret)
{
    struct place p = {m, q->owner, q->conversation_id};
    const struct mem_message *named = message_at(&p, q->key);
    struct str task_id = named ? named->record.task_id : q->key;
    const struct mem_task *t = memory_task_find(m, q->owner, q->conversation_id, task_id);
    if (!named && !t)
        return STORE_NOT_FOUND;
    const struct mem_message *question = named, *answer = message_of_task(&p, task_id, true);
    if (!named || is_answer(named))
        question = question_of(&p, task_id);
    if (named && is_answer(named))
        answer = named;
    if (question)
        tree_put_message(ret, question);
    if (answer)
        tree_put_message(ret, answer);
    if (t)
        memory_put_brief(ret, t);
    return STORE_OK;
}
