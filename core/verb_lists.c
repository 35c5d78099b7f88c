/* The lists of a conversation and of an owner, and the pushes when they change. */
#include <stdio.h>

#include "core/call.h"
#include "core/watching.h"

static bool failed(struct call *c, int status)
{
    if (status == 0 || status == STORE_NOT_FOUND)
        return false;
    call_store_failed(c, status);
    return true;
}

static void put_comma(struct buf *line)
{
    if (line->bytes[line->len - 1] != '[')
        buf_putc(line, ',');
}

/* Appends one item; false when the list has no room for another one after it. */
static bool put_item(struct buf *line, size_t start, bool first, const struct buf *item)
{
    if (!first && line->len - start + item->len > MAX_REPLY)
        return false;
    if (!first)
        buf_putc(line, ',');
    buf_putstr(line, buf_str(item));
    return true;
}

static void finish_list(struct call *c, struct buf *line, bool more)
{
    buf_putc(line, ']');
    js_put_raw(line, "more", more ? STR("true") : STR("false"));
    buf_putc(line, '}');
    call_reply(c, buf_str(line));
    buf_done(line);
}

/* Live tasks come from memory, where they are as committed as in the store, and newer.  One that
 * the store has and has not confirmed is still to come here: who follows gets its first event. */
static struct task_record newest(struct call *c, const struct task_record *task)
{
    struct stream *s = hub_find_stream(c->hub, task->owner, task->conversation_id, task->task_id);
    struct task_record unconfirmed = *task;
    if (!s || !s->task)
        return *task;
    unconfirmed.state.head = 0;
    return s->task->phase == PHASE_CREATING ? unconfirmed : task_view(s->task);
}

/* The store has the newest first; the list shows the newest that fit, in order of creation.
 * put_before puts what must come before them. */
static bool put_tasks(struct call *c, struct buf *line, const struct answer *answer,
                      void (*put_before)(struct call *, struct buf *, struct str oldest))
{
    struct buf item = {0};
    size_t n = 0, bytes = 0;
    for (; n < answer->n_tasks; n++) {
        struct task_record view = newest(c, &answer->tasks[n]);
        buf_clear(&item);
        task_write(&item, &view, true);
        bytes += item.len + 1;
        if (n > 0 && bytes > MAX_REPLY)
            break;
    }
    buf_done(&item);
    if (put_before && n > 0)
        put_before(c, line, answer->tasks[n - 1].task_id);
    for (size_t i = n; i > 0; i--) {
        struct task_record view = newest(c, &answer->tasks[i - 1]);
        put_comma(line);
        task_write(line, &view, true);
    }
    return n == answer->n_tasks;
}

typedef void (*write_fn)(struct buf *out, const struct answer *answer, size_t i);

/* For a list that comes oldest first: when it does not fit, the newest stay. */
static bool put_newest(struct buf *line, const struct answer *answer, size_t n, size_t room,
                       write_fn write)
{
    struct buf item = {0};
    size_t skip = n, used = 0;
    while (skip > 0) {
        buf_clear(&item);
        write(&item, answer, skip - 1);
        if (used > 0 && used + item.len + 1 > room)
            break;
        used += item.len + 1;
        skip--;
    }
    buf_done(&item);
    for (size_t i = skip; i < n; i++) {
        put_comma(line);
        write(line, answer, i);
    }
    return skip == 0;
}

static void write_message(struct buf *out, const struct answer *answer, size_t i)
{
    message_write(out, &answer->messages[i]);
}

static bool put_messages(struct buf *line, const struct answer *answer, size_t room)
{
    return put_newest(line, answer, answer->n_messages, room, write_message);
}

/* --- tasks, history, conversations, results --------------------------------------------------- */

static struct query list_query(const struct call *c, enum query_kind kind)
{
    return (struct query){.kind = kind,
                          .conversation_id = c->req.conversation_id,
                          .before = c->req.before,
                          .limit = c->req.limit,
                          .has_status = c->req.has_status,
                          .status = c->req.status,
                          .turns = c->req.turns,
                          .max_bytes = MAX_REPLY};
}

/* A task ended while the list was read: it would be shown as live after its end. */
static bool is_behind(struct call *c, const struct answer *answer)
{
    for (size_t i = 0; i < answer->n_tasks; i++) {
        const struct task_record *t = &answer->tasks[i];
        const struct stream *s = hub_find_stream(c->hub, t->owner, t->conversation_id, t->task_id);
        if (!(s && s->task) && !status_is_terminal(t->state.status))
            return true;
    }
    return false;
}

static void on_tasks(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    if (failed(c, status))
        return;
    if (!c->asked_again && is_behind(c, answer)) {
        c->asked_again = true;
        verb_tasks(c);
        return;
    }
    struct buf line = {0};
    reply_begin(c, &line, "tasks");
    js_put_raw(&line, "tasks", STR("["));
    bool fits = put_tasks(c, &line, answer, NULL);
    finish_list(c, &line, answer->more || !fits);
}

void verb_tasks(struct call *c)
{
    struct query q = list_query(c, QUERY_TASKS);
    call_query(c, &q, on_tasks);
}

static void on_history(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    if (failed(c, status))
        return;
    struct buf line = {0};
    reply_begin(c, &line, "history");
    js_put_raw(&line, "messages", STR("["));
    bool all = put_messages(&line, answer, MAX_REPLY);
    finish_list(c, &line, answer->more || !all);
}

void verb_history(struct call *c)
{
    struct query q = list_query(c, c->req.all ? QUERY_MESSAGES : QUERY_PATH);
    q.siblings = true;
    call_query(c, &q, on_history);
}

static void ask_next_conversations(struct call *c, struct str before);

static bool is_readable(const struct call *c, const struct conversation_record *r)
{
    return rights_allow(c->rights, r->conversation_id, STR_NULL, RIGHT_READ);
}

/* For a narrowed token the list is read on until it is full: most of a page may not be its. */
static void on_conversations(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    struct buf item = {0};
    bool fits = true;
    if (failed(c, status))
        return;
    for (size_t i = 0; i < answer->n_conversations && fits; i++) {
        if (!is_readable(c, &answer->conversations[i]))
            continue;
        buf_clear(&item);
        conversation_write(&item, &answer->conversations[i]);
        fits = c->n < c->req.limit && put_item(&c->out, c->at, c->n == 0, &item);
        c->n += fits;
    }
    buf_done(&item);
    if (fits && answer->more && c->n < c->req.limit && !rights_are_whole(c->rights)) {
        ask_next_conversations(c,
                               answer->conversations[answer->n_conversations - 1].conversation_id);
        return;
    }
    struct buf line = c->out;
    c->out = (struct buf){0};
    finish_list(c, &line, answer->more || !fits);
}

static void ask_next_conversations(struct call *c, struct str before)
{
    struct query q = list_query(c, QUERY_CONVERSATIONS);
    q.before = before;
    q.flags = call_flags(c, MAYBE_YES);
    q.flags_asked = q.flags | call_flags(c, MAYBE_NO);
    if (!rights_are_whole(c->rights))
        q.limit = LIST_MAX;
    call_query(c, &q, on_conversations);
}

void verb_conversations(struct call *c)
{
    reply_begin(c, &c->out, "conversations");
    js_put_raw(&c->out, "conversations", STR("["));
    c->at = c->out.len;
    ask_next_conversations(c, c->req.before);
}

static void write_result(struct buf *out, const struct answer *answer, size_t i)
{
    const struct task_record *t = &answer->tasks[i];
    buf_putc(out, '{');
    js_put_field(out, "task_id", t->task_id);
    js_put_field(out, "status", str_of(status_name(t->state.status)));
    js_put_field(out, "prompt", t->input);
    js_put_field(out, "answer", t->state.output.p ? t->state.output : STR(""));
    js_put_int(out, "completed_at", t->state.completed_at);
    buf_putc(out, '}');
}

static void on_results(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    if (failed(c, status))
        return;
    struct buf line = {0};
    reply_begin(c, &line, "results");
    js_put_raw(&line, "results", STR("["));
    bool all = put_newest(&line, answer, answer->n_tasks, MAX_REPLY, write_result);
    finish_list(c, &line, answer->more || !all);
}

void verb_results(struct call *c)
{
    struct query q = list_query(c, QUERY_RESULTS);
    call_query(c, &q, on_results);
}

/* --- open, close, watch ----------------------------------------------------------------------- */

static void release(struct call *c)
{
    struct opening *o = c->opening;
    c->opening = NULL;
    if (c->session && o)
        opening_release(o);
}

/* The live tasks that are older than the list's oldest: all live ones are shown. */
static void put_older_live(struct call *c, struct buf *line, struct str oldest)
{
    struct conversation *conversation =
        conversation_find(c->hub, str_of(c->owner->name), c->req.conversation_id);
    if (!conversation)
        return;
    list_each (it, &conversation->tasks) {
        const struct task *t = list_item(it, const struct task, in_conversation);
        if (t->phase == PHASE_CREATING || memcmp(task_id_of(t).p, oldest.p, TASK_ID_LEN) >= 0)
            continue;
        struct task_record view = task_view(t);
        put_comma(line);
        task_write(line, &view, true);
    }
}

static bool open_failed(struct call *c, int status)
{
    if (status == 0 || status == STORE_NOT_FOUND)
        return false;
    struct opening *o = c->opening;
    if (c->session && o && o->fresh)
        opening_end(o);
    else
        release(c); /* an earlier opening stays */
    call_store_failed(c, status);
    return true;
}

static void on_open_tasks(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    if (open_failed(c, status))
        return;
    struct buf *line = &c->out;
    js_put_raw(line, "tasks", STR("["));
    (void)put_tasks(c, line, answer, put_older_live);
    buf_puts(line, "]}");
    if (c->session && c->opening && answer->n_tasks)
        memcpy(c->opening->newest, answer->tasks[0].task_id.p, TASK_ID_LEN);
    struct buf reply = *line;
    c->out = (struct buf){0};
    /* The snapshot goes out before the feed's lines: replies come first in a message. */
    release(c);
    call_reply(c, buf_str(&reply));
    buf_done(&reply);
}

/* The end of the branch: its last message, what answers it, and the answers that it has already. */
static void put_branch(struct buf *line, const struct answer *answer)
{
    if (!answer->tip.p)
        return;
    js_put_raw(line, "branch", STR("{"));
    js_put_field(line, "message_id", answer->tip);
    if (answer->tip_task.p)
        js_put_field(line, "task_id", answer->tip_task);
    if (answer->children.p)
        ids_write(line, "siblings", answer->children);
    buf_putc(line, '}');
}

/* A question may have come before the answer that stands before it: the newest id counts. */
static void skip_shown(struct feed_reader *reader, const struct answer *answer)
{
    for (size_t i = 0; i < answer->n_messages; i++) {
        struct str id = answer->messages[i].message_id;
        if (id.n == TASK_ID_LEN && memcmp(id.p, reader->skip_id, TASK_ID_LEN) > 0)
            memcpy(reader->skip_id, id.p, TASK_ID_LEN);
    }
}

static void on_open_messages(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    if (open_failed(c, status))
        return;
    struct buf *line = &c->out;
    reply_begin(c, line, "conversation");
    js_put_field(line, "conversation_id", c->req.conversation_id);
    js_put_raw(line, "messages", STR("["));
    (void)put_messages(line, answer, MAX_REPLY / 2);
    buf_putc(line, ']');
    put_branch(line, answer);
    if (c->session && c->opening)
        skip_shown(&c->opening->reader, answer);
    struct query q = list_query(c, QUERY_TASKS);
    q.max_bytes = MAX_REPLY / 2;
    call_query(c, &q, on_open_tasks);
}

/* The feed is joined before the snapshot is read, and held until it has been sent: a change between
 * the two comes twice, and none is missed. */
void verb_open(struct call *c)
{
    if (c->session) {
        c->conversation = conversation_ref(c->hub, c->owner, c->req.conversation_id);
        if (!session_may_open(c->session, c->conversation, c->req.follow)) {
            c->hub->stats.limit_hits[LIMIT_SUBSCRIPTIONS]++;
            call_fail(c, ERR_OVERLOADED, FOLLOWS_TOO_MUCH);
            return;
        }
        c->opening = session_open(c->session, c->conversation, c->req.follow);
        c->opening->rollup_ms = (uint32_t)c->req.rollup_ms;
    }
    struct query q = list_query(c, QUERY_PATH);
    q.siblings = true;
    call_query(c, &q, on_open_messages);
}

void verb_close(struct call *c)
{
    struct conversation *conversation =
        conversation_find(c->hub, str_of(c->owner->name), c->req.conversation_id);
    if (c->session && conversation)
        session_shut(c->session, conversation);
    call_ok(c);
}

void verb_watch(struct call *c)
{
    bool events = c->req.events == MAYBE_YES;
    if (!events && (c->req.cursor.p || c->req.rollup_ms)) {
        call_fail(c, ERR_BAD_REQUEST, "\"cursor\" and \"rollup_ms\" need \"events\"");
        return;
    }
    if (c->session && c->req.events == MAYBE_NO)
        watching_end(c->session);
    if (c->session && events && !watching_begin(c->session, &c->req)) {
        call_fail(c, ERR_BAD_REQUEST, "\"cursor\" must be one that this gateway gave");
        return;
    }
    if (c->session)
        opening_release(session_watch(c->session));
    call_ok(c);
}
