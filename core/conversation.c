#include "core/conversation.h"

#include <stdlib.h>

#include "core/notice.h"
#include "proto/js.h"

struct map_key conversation_key(const struct map_node *node)
{
    const struct conversation *c = container_of(node, const struct conversation, node);
    return (struct map_key){{names_owner(c->names), names_conversation(c->names)}};
}

struct conversation *conversation_find(struct hub *h, struct str owner, struct str id)
{
    struct map_node *node = map_find(&h->conversations, (struct map_key){{owner, id}});
    return node ? container_of(node, struct conversation, node) : NULL;
}

struct conversation *conversation_ref(struct hub *h, struct owner *owner, struct str id)
{
    struct conversation *c = conversation_find(h, str_of(owner->name), id);
    if (c) {
        c->refs++;
        return c;
    }
    c = xcalloc(sizeof *c);
    c->hub = h;
    c->owner = owner;
    owner->refs++;
    c->names = names_new(str_of(owner->name), id);
    c->id = names_conversation(c->names).p;
    c->refs = 1;
    list_init(&c->tasks);
    list_init(&c->followers);
    list_init(&c->notices);
    feed_init(&c->feed);
    map_put(&h->conversations, &c->node);
    return c;
}

void conversation_unref(struct conversation *c)
{
    ASSERT(c->refs > 0);
    if (--c->refs > 0)
        return;
    ASSERT(list_is_empty(&c->tasks) && list_is_empty(&c->followers));
    map_remove(&c->hub->conversations, &c->node);
    list_remove(&c->changed);
    list_remove(&c->due);
    feed_forget(&c->entry);
    feed_forget(&c->turn);
    feed_done(&c->feed);
    owner_unref(c->hub, c->owner);
    names_unref(c->names);
    free(c);
}

bool conversation_is_busy(const struct conversation *c)
{
    list_each (it, &c->tasks) {
        if (task_talks(list_item(it, const struct task, in_conversation)))
            return true;
    }
    return false;
}

/* A committed message reaches everyone who opened the conversation. */
static void tell_message(struct conversation *c, const struct message_record *m)
{
    if (!feed_has_readers(&c->feed))
        return;
    struct buf line = {0};
    buf_puts(&line, "{\"type\":\"message\"");
    js_put_field(&line, "conversation_id", str_of(c->id));
    buf_puts(&line, ",\"message\":");
    message_write(&line, m);
    buf_putc(&line, '}');
    feed_put(&c->feed, NULL, m->message_id, buf_str(&line));
    buf_done(&line);
}

void conversation_tell_branch(struct conversation *c, const struct placed *placed)
{
    if (!placed->turned || !feed_has_readers(&c->feed))
        return;
    struct buf line = {0};
    buf_puts(&line, "{\"type\":\"branch\"");
    js_put_field(&line, "conversation_id", str_of(c->id));
    js_put_field(&line, "message_id", placed->tip);
    if (placed->tip_task.p)
        js_put_field(&line, "task_id", placed->tip_task);
    buf_putc(&line, '}');
    feed_put(&c->feed, &c->turn, STR_NULL, buf_str(&line));
    buf_done(&line);
}

static void on_message_done(const struct op *op, int status)
{
    if (status == 0) {
        op->message->parent_id = op->placed->parent_id;
        op->message->siblings = op->placed->siblings;
        tell_message(op->ref, op->message);
        conversation_tell_branch(op->ref, op->placed);
    }
    conversation_op_done(op, status);
}

static void on_branch_done(const struct op *op, int status)
{
    if (status == 0)
        conversation_tell_branch(op->ref, op->placed);
    conversation_unref(op->ref);
}

void conversation_branch(struct conversation *c, struct str message_id, struct str task_id)
{
    c->refs++;
    journal_put(&c->hub->journal, &(struct op){.kind = OP_BRANCH,
                                               .done = on_branch_done,
                                               .ref = c,
                                               .owner = str_of(c->owner->name),
                                               .conversation_id = str_of(c->id),
                                               .key = message_id,
                                               .task_id = task_id});
}

void conversation_say(struct conversation *c, const struct message_record *message,
                      enum message_place place)
{
    char id[TASK_ID_LEN + 1];
    hub_new_id(c->hub, id);
    struct message_record m = *message;
    m.message_id = (struct str){id, TASK_ID_LEN};
    m.created_at = c->hub->clock.wall_ms;
    c->refs++;
    journal_put(&c->hub->journal, &(struct op){.kind = OP_MESSAGE,
                                               .done = on_message_done,
                                               .ref = c,
                                               .owner = str_of(c->owner->name),
                                               .conversation_id = str_of(c->id),
                                               .message = &m,
                                               .place = place});
}

void conversation_touch(struct conversation *c)
{
    if (list_is_in(&c->changed))
        return;
    c->refs++;
    list_push(&c->hub->changed, &c->changed);
}

void conversation_op_done(const struct op *op, int status)
{
    if (status == 0)
        conversation_touch(op->ref);
    conversation_unref(op->ref);
}

void conversation_title(struct conversation *c, struct str from, struct str title)
{
    c->refs++;
    journal_put(&c->hub->journal, &(struct op){.kind = OP_TITLE,
                                               .done = conversation_op_done,
                                               .ref = c,
                                               .owner = str_of(c->owner->name),
                                               .conversation_id = str_of(c->id),
                                               .key = from,
                                               .title = title});
}

static void put_changed(struct conversation *c, const struct conversation_record *record)
{
    struct buf line = {0};
    if (record)
        c->unlisted = record->unlisted;
    if (c->unlisted)
        return;
    buf_puts(&line, "{\"type\":\"conversation_changed\",\"conversation\":");
    if (record) {
        conversation_write(&line, record);
    } else {
        buf_putc(&line, '{');
        js_put_field(&line, "conversation_id", str_of(c->id));
        buf_puts(&line, "},\"deleted\":true");
    }
    buf_putc(&line, '}');
    feed_put(&c->owner->watch, &c->entry, str_of(c->id), buf_str(&line));
    buf_done(&line);
}

static void conversation_drop_stream(struct map_node *node, void *arg)
{
    struct stream *s = container_of(node, struct stream, node);
    const struct conversation *c = arg;
    if (s->task || !str_eq(stream_owner(s), str_of(c->owner->name)) ||
        !str_eq(stream_conversation_id(s), str_of(c->id)))
        return;
    stream_forget(s, &c->hub->cache);
    hub_release_stream(c->hub, s);
}

void conversation_deleted(struct conversation *c)
{
    const struct hub_options *o = &c->hub->o;
    c->deletions++;
    map_each(&c->hub->streams, conversation_drop_stream, c);
    notices_forget(c);
    allowances_forget(&c->hub->allowances, str_of(c->owner->name), str_of(c->id));
    if (o->deleted)
        o->deleted(o->arg, str_of(c->owner->name), str_of(c->id));
}

/* The store could not answer: watchers must get the newest state anyway, later. */
static void tell_later(struct conversation *c)
{
    conversation_touch(c);
    hub_ask_again(c->hub);
}

static void on_record(void *arg, int status, struct answer *answer)
{
    struct conversation *c = arg;
    c->asking = false;
    if (status == STORE_NOT_FOUND)
        put_changed(c, NULL);
    else if (status == 0)
        put_changed(c, &answer->conversations[0]);
    else if (status != STORE_CORRUPT) /* it will be corrupt the next time too */
        tell_later(c);
    conversation_unref(c);
}

void conversations_tell(struct hub *h)
{
    struct list now, *node;
    if (timer_is_armed(&h->ask_again))
        return;
    list_init(&now);
    list_splice(&now, &h->changed);
    while ((node = list_pop(&now)) != NULL) {
        struct conversation *c = list_item(node, struct conversation, changed);
        feed_trim(&c->feed);
        feed_trim(&c->owner->watch);
        if (c->asking) {
            list_push(&h->changed, &c->changed); /* asked again when the answer has arrived */
            continue;
        }
        if (feed_has_readers(&c->owner->watch)) {
            c->asking = true;
            hub_query(h,
                      &(struct query){.kind = QUERY_CONVERSATION,
                                      .owner = str_of(c->owner->name),
                                      .conversation_id = str_of(c->id)},
                      on_record, c);
            continue; /* the query holds the reference now */
        }
        conversation_unref(c);
    }
}
