#include "core/notice.h"

#include <stdlib.h>

#include "core/task_parts.h"

struct notice {
    struct list node; /* in its conversation, by key */
    struct conversation *conversation;
    msec_t at; /* when it began to wait */
    struct notice_record rec;
};

/* --- the text --------------------------------------------------------------------------------- */

static void notice_put_text(struct buf *out, const struct task_record *t)
{
    static const char *const ends[] = {[STATUS_COMPLETED] = "has completed",
                                       [STATUS_FAILED] = "has failed",
                                       [STATUS_CANCELLED] = "was cancelled"};
    const struct task_state *s = &t->state;
    buf_puts(out, t->type == TYPE_BACKGROUND ? "Background task " : "Task ");
    buf_putstr(out, t->task_id);
    if (t->name.p) {
        buf_puts(out, " (");
        buf_putstr(out, t->name);
        buf_putc(out, ')');
    }
    buf_putc(out, ' ');
    buf_puts(out, ends[s->status]);
    if (s->status == STATUS_FAILED) {
        buf_puts(out, ": ");
        buf_putstr(out, s->error_message);
    }
    buf_puts(out, ".");
    if (s->output.n == 0)
        return;
    struct str tail = utf8_tail(s->output, NOTICE_OUTPUT_CHARS);
    buf_puts(out, tail.n < s->output.n ? " The end of its output:\n" : " Its output:\n");
    buf_putstr(out, tail);
}

/* --- waiting notices -------------------------------------------------------------------------- */

void notice_due(struct conversation *c)
{
    if (list_is_empty(&c->notices) || list_is_in(&c->due))
        return;
    list_push(&c->hub->due, &c->due);
    c->hub->notices_may_go = true;
}

static void notice_keep(struct notice *n)
{
    struct list *before = &n->conversation->notices;
    while (before->prev != &n->conversation->notices &&
           list_item(before->prev, struct notice, node)->rec.key > n->rec.key)
        before = before->prev;
    list_push(before, &n->node); /* before it */
    notice_due(n->conversation);
}

struct notice *notice_add(struct conversation *c, const struct notice_record *from)
{
    struct notice *n = xcalloc(sizeof *n);
    n->conversation = c;
    n->at = c->hub->clock.now_ms;
    c->refs++;
    n->rec = *from;
    n->rec.owner = str_of(c->owner->name);
    n->rec.conversation_id = str_of(c->id);
    n->rec.agent = str_own(from->agent);
    n->rec.text = str_own(from->text);
    n->rec.source = str_own(from->source);
    notice_keep(n);
    return n;
}

static void notice_on_put(const struct op *op, int status)
{
    if (status == 0)
        notice_add(op->ref, op->notice);
    conversation_unref(op->ref);
}

bool notice_is_silent(const struct hub *h, struct str agent, enum notice_kind kind)
{
    const struct agent *a = agent.p ? hub_find_agent(h, agent) : NULL;
    switch (a ? a->notify : NOTIFY_ALL) {
    case NOTIFY_ALL: return false;
    case NOTIFY_RESULT: return kind == NOTICE_LINES;
    case NOTIFY_ERROR: return kind != NOTICE_ERROR;
    case NOTIFY_OFF: return true;
    }
    UNREACHABLE();
}

/* A cancelled task was ended by somebody who knows. */
static bool is_silent_end(const struct hub *h, const struct task_record *rec)
{
    bool failed = rec->state.status == STATUS_FAILED;
    return rec->state.status == STATUS_CANCELLED ||
           notice_is_silent(h, rec->agent, failed ? NOTICE_ERROR : NOTICE_RESULT);
}

void notice_stage(struct task *t, const struct task_record *rec)
{
    if (!rec->notify_on_complete)
        return;
    struct buf text = {0};
    notice_put_text(&text, rec);
    struct notice_record n = {.key = rec->key,
                              .silent = is_silent_end(t->hub, rec),
                              .owner = rec->owner,
                              .conversation_id = rec->conversation_id,
                              .agent = rec->agent,
                              .text = buf_str(&text)};
    t->conversation->refs++;
    journal_put(&t->hub->journal, &(struct op){.kind = OP_NOTICE_PUT,
                                               .done = notice_on_put,
                                               .ref = t->conversation,
                                               .notice = &n});
    buf_done(&text);
}

static void notice_drop(struct notice *n)
{
    struct conversation *c = n->conversation;
    list_remove(&n->node);
    str_free(&n->rec.agent);
    str_free(&n->rec.text);
    str_free(&n->rec.source);
    free(n);
    conversation_unref(c);
}

void notice_restore(struct hub *h, const struct notice_record *n)
{
    struct owner *owner = owner_ref(h, n->owner);
    struct conversation *c = conversation_ref(h, owner, n->conversation_id);
    notice_add(c, n);
    conversation_unref(c);
    owner_unref(h, owner);
}

void notices_forget(struct conversation *c)
{
    list_remove(&c->due);
    c->refs++;
    list_each (it, &c->notices)
        notice_drop(list_item(it, struct notice, node));
    conversation_unref(c);
}

static void on_take_done(const struct op *op, int status)
{
    if (status == 0)
        notice_drop(op->ref);
    else
        notice_keep(op->ref); /* its turn was never created */
}

void notice_take(struct notice *n)
{
    list_remove(&n->node); /* the op owns it now */
    journal_put(&n->conversation->hub->journal, &(struct op){.kind = OP_NOTICE_TAKE,
                                                             .done = on_take_done,
                                                             .ref = n,
                                                             .task_key = n->rec.key});
}

bool notice_withdraw(struct hub *h, struct str owner, struct str conversation_id, struct str key)
{
    struct conversation *c = conversation_find(h, owner, conversation_id);
    if (!c)
        return false;
    list_each (it, &c->notices) {
        struct notice *n = list_item(it, struct notice, node);
        if (!n->rec.source.p || !str_eq(n->rec.source, key))
            continue;
        notice_take(n);
        return true;
    }
    return notice_withdraw_put(h, owner, key);
}

/* --- turns ------------------------------------------------------------------------------------ */

void notices_tell_silent(struct conversation *c)
{
    list_each (it, &c->notices) {
        struct notice *n = list_item(it, struct notice, node);
        if (!n->rec.silent)
            continue;
        conversation_say(c, &(struct message_record){.role = ROLE_SYSTEM, .content = n->rec.text},
                         PLACE_TIP);
        notice_take(n);
    }
}

static struct notice *first_loud(const struct conversation *c)
{
    list_each (it, &c->notices) {
        struct notice *n = list_item(it, struct notice, node);
        if (!n->rec.silent)
            return n;
    }
    return NULL;
}

/* The agent of the conversation's last chat, or of the task that ended, or the default. */
static const struct agent *pick_agent(const struct hub *h, struct str last_chat, struct str ended)
{
    const struct agent *a = last_chat.p ? hub_find_agent(h, last_chat) : NULL;
    if (!a && ended.p)
        a = hub_find_agent(h, ended);
    return a ? a : hub_find_agent(h, STR_NULL);
}

static void put_paused_event(struct task *t)
{
    struct buf data = {0};
    buf_puts(&data, "{\"event_type\":\"notices_paused\",\"payload\":{");
    js_put_int(&data, "turns", MAX_NOTICE_TURNS);
    buf_puts(&data, "}}");
    task_event(t, EVENT_CUSTOM, buf_str(&data));
    buf_done(&data);
}

/* Whether a notice is told in the same turn as the first one. */
static bool is_joined(const struct notice *first, const struct notice *n, size_t bytes)
{
    msec_t join = first->conversation->hub->o.notice_join_ms;
    return n == first || (!n->rec.silent && n->at < first->at + join && first->at < n->at + join &&
                          bytes + n->rec.text.n <= NOTICE_TURN_BYTES);
}

/* The first notice, and those that came with it; they count as told. */
static void take_joined(struct conversation *c, struct notice *first, struct buf *text)
{
    list_each (it, &c->notices) {
        struct notice *n = list_item(it, struct notice, node);
        if (!is_joined(first, n, text->len))
            continue;
        if (text->len)
            buf_puts(text, "\n\n");
        buf_putstr(text, n->rec.text);
        if (n != first)
            notice_take(n);
    }
}

static void begin_turn(struct conversation *c, struct notice *n,
                       const struct conversation_record *record)
{
    struct hub *h = c->hub;
    struct buf text = {0};
    notices_tell_silent(c);
    take_joined(c, n, &text);
    struct task_plan plan = {.owner = c->owner,
                             .quota = c->owner,
                             .conversation = c,
                             .agent = pick_agent(h, record->agent, n->rec.agent),
                             .type = TYPE_NOTICE,
                             .input = buf_str(&text)};
    struct task *t = task_create(h, &plan);
    buf_done(&text);
    if (record->notices + 1 >= MAX_NOTICE_TURNS)
        put_paused_event(t);
    notice_take(n);
}

static bool is_free(const struct conversation *c)
{
    return !c->deleting && !conversation_is_busy(c) && first_loud(c);
}

static bool notice_has_room(const struct conversation *c)
{
    const struct hub *h = c->hub;
    struct retention_refusal full;
    return h->n_live < h->o.limits.tasks && c->owner->n_live < h->o.limits.tasks_per_owner &&
           !retention_refuses(&h->retention, str_of(c->owner->name), &full);
}

static void on_record(void *arg, int status, struct answer *answer)
{
    struct conversation *c = arg;
    struct hub *h = c->hub;
    c->noticing = false;
    if (status < 0 && status != STORE_NOT_FOUND && status != STORE_CORRUPT) {
        notice_due(c);
        hub_ask_again(h);
    } else if (status == 0 && is_free(c) && !h->draining) {
        if (!notice_has_room(c) || !hub_can_write(h))
            notice_due(c);
        else if (answer->conversations[0].notices < MAX_NOTICE_TURNS)
            begin_turn(c, first_loud(c), &answer->conversations[0]);
    }
    conversation_unref(c);
}

/* The first notice waits a little for others. */
static bool may_be_joined(struct conversation *c)
{
    struct hub *h = c->hub;
    msec_t due = first_loud(c)->at + h->o.notice_join_ms;
    if (due <= h->clock.now_ms)
        return false;
    if (!timer_is_armed(&h->notice_join) || h->notice_join.due > due)
        timer_arm(&h->clock, &h->notice_join, due);
    return true;
}

/* False when it has to wait for room, or for others. */
static bool proceed(struct conversation *c)
{
    if (!hub_serves(c->hub, c->owner))
        return false; /* its slot is being repaired */
    if (c->noticing || !is_free(c))
        return true; /* the end of what is live makes it due again */
    if (may_be_joined(c) || !notice_has_room(c))
        return false;
    c->noticing = true;
    c->refs++;
    hub_query(c->hub,
              &(struct query){.kind = QUERY_CONVERSATION,
                              .owner = str_of(c->owner->name),
                              .conversation_id = str_of(c->id)},
              on_record, c);
    return true;
}

void notices_proceed(struct hub *h)
{
    if (!h->notices_may_go || h->draining || !hub_can_write(h))
        return;
    h->notices_may_go = false;
    struct list now, *node;
    list_init(&now);
    list_splice(&now, &h->due);
    while ((node = list_pop(&now)) != NULL) {
        struct conversation *c = list_item(node, struct conversation, due);
        if (!proceed(c))
            list_push(&h->due, &c->due);
    }
}
