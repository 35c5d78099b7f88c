/* export: all of a conversation as lines, in pages: what it is, its messages, and its tasks, each
 * with its events; the newest first, but for events.  A page begins where "from" says, so that
 * nothing is kept between two of them. */
#include <stdio.h>
#include <stdlib.h>

#include "core/call.h"
#include "core/load.h"
#include "proto/export.h"
#include "proto/str.h"

#define EXPORT_PAGE (128u * 1024) /* bytes at which a page ends; one line may pass it */
#define EXPORT_STEPS 200          /* messages' pages and tasks of a page */

enum export_phase { EXPORTING_HEAD = 'h', EXPORTING_MESSAGES = 'm', EXPORTING_TASKS = 't' };

struct exporting {
    struct call *call;
    struct cursor cursor; /* of a task whose events are read */
    struct stream *stream;
    struct timer woken; /* what the cursor waited for has come: not from within its stream */
    uint64_t until;
    enum export_phase phase;
    unsigned steps;
    bool was_stale;
    uint64_t seq;             /* tasks: 1 more than how many events of this one are told; 0: all */
    char id[TASK_ID_LEN + 1]; /* the last message or task told; "": none */
};

static void export_step(struct exporting *e);

static void export_let_go(struct exporting *e)
{
    struct stream *s = e->stream;
    timer_disarm(&e->call->hub->clock, &e->woken);
    if (!s)
        return;
    cursor_detach(&e->cursor);
    e->stream = NULL;
    hub_release_stream(e->call->hub, s);
}

void exporting_free(struct exporting *e)
{
    if (!e)
        return;
    export_let_go(e);
    free(e);
}

/* --- pages ------------------------------------------------------------------------------------ */

/* PHASE.ID.SEQ, of export_reply.  False: it is none of ours. */
static bool export_from(struct exporting *e, struct str from)
{
    const size_t id_at = 2, seq_at = id_at + TASK_ID_LEN + 1;
    if (from.n <= seq_at || from.p[id_at - 1] != '.' || from.p[seq_at - 1] != '.')
        return false;
    char phase = from.p[0];
    struct str id = {from.p + id_at, TASK_ID_LEN}, seq = str_from(from, seq_at);
    if ((phase != EXPORTING_MESSAGES && phase != EXPORTING_TASKS) || !ulid_is_valid(id) ||
        !str_take_u64(&seq, &e->seq) || seq.n > 0)
        return false;
    e->phase = (enum export_phase)phase;
    memcpy(e->id, id.p, id.n);
    e->id[id.n] = '\0';
    return true;
}

static void export_reply(struct exporting *e, bool more)
{
    struct call *c = e->call;
    struct buf line = {0};
    char from[64];
    reply_begin(c, &line, "exported");
    js_put_field(&line, "conversation_id", c->req.conversation_id);
    js_put_raw(&line, "lines", STR("["));
    buf_putstr(&line, buf_str(&c->out));
    buf_putc(&line, ']');
    js_put_bool(&line, "more", more);
    snprintf(from, sizeof from, "%c.%s.%llu", (char)e->phase, e->id, (unsigned long long)e->seq);
    if (more)
        js_put_field(&line, "from", str_of(from));
    buf_putc(&line, '}');
    call_reply(c, buf_str(&line));
    buf_done(&line);
}

static void export_go_on(struct exporting *e)
{
    if (e->call->out.len >= EXPORT_PAGE || ++e->steps >= EXPORT_STEPS)
        export_reply(e, true);
    else
        export_step(e);
}

static struct buf *export_begin(struct exporting *e, const char *type)
{
    struct buf *out = &e->call->out;
    buf_puts(out, out->len ? ",{" : "{");
    js_put_field(out, "type", str_of(type));
    return out;
}

static bool export_failed(struct exporting *e, int status)
{
    if (status == STORE_OK || status == STORE_NOT_FOUND)
        return false;
    call_store_failed(e->call, status);
    return true;
}

/* --- events ----------------------------------------------------------------------------------- */

static void put_export_lines(struct exporting *e, struct str lines)
{
    struct buf *out = &e->call->out;
    for (struct str rest = lines; rest.n > 0 && e->cursor.seq < e->until;) {
        size_t n = (size_t)((const char *)memchr(rest.p, '\n', rest.n) - rest.p);
        if (out->len)
            buf_putc(out, ',');
        buf_put(out, rest.p, n);
        cursor_take(&e->cursor, (struct str){rest.p, n + 1});
        rest.p += n + 1;
        rest.n -= n + 1;
    }
}

static void next_task(struct exporting *e)
{
    export_let_go(e);
    e->seq = 0;
    export_go_on(e);
}

/* Events that were removed meanwhile are left out; damage ends it. */
static void export_events(struct exporting *e)
{
    struct call *c = e->call;
    struct str lines;
    while (!cursor_is_cut_off(&e->cursor) && e->cursor.seq < e->until) {
        if (c->out.len >= EXPORT_PAGE) {
            e->seq = e->cursor.seq + 1;
            export_reply(e, true);
            return;
        }
        switch (cursor_peek(&e->cursor, &c->hub->cache, EXPORT_PAGE, &lines)) {
        case READ_NONE: next_task(e); return;
        case READ_LINES: put_export_lines(e, lines); break;
        case READ_LOAD:
            if (e->stream->broken)
                call_fail(c, ERR_INTERNAL, "events of a task are damaged");
            else if (e->stream->unread)
                call_read_failed(c);
            else
                load_begin(c->hub, &e->cursor);
            return;
        }
    }
    next_task(e);
}

static void on_export_woken(struct timer *timer)
{
    export_events(container_of(timer, struct exporting, woken));
}

static void on_export_wake(struct cursor *cursor)
{
    struct exporting *e = container_of(cursor, struct exporting, cursor);
    struct clock *clock = &e->call->hub->clock;
    timer_arm(clock, &e->woken, clock->now_ms);
}

/* --- tasks ------------------------------------------------------------------------------------ */

static void export_task(struct exporting *e);

static void on_export_task(void *arg, int status, struct answer *answer)
{
    struct exporting *e = ((struct call *)arg)->exporting;
    struct hub *h = e->call->hub;
    if (export_failed(e, status))
        return;
    const struct task_record *t = status == STORE_OK ? &answer->tasks[0] : NULL;
    if (!t || retention_has_taken(&h->retention, t)) {
        next_task(e);
        return;
    }
    struct stream *s = hub_find_stream(h, t->owner, t->conversation_id, t->task_id);
    if (!s && !status_is_terminal(t->state.status)) { /* it has ended since it was read */
        if (e->was_stale) {
            call_fail(e->call, ERR_INTERNAL, STALE_RECORD);
            return;
        }
        e->was_stale = true;
        export_task(e);
        return;
    }
    e->was_stale = false;
    if (!s) {
        s = hub_add_stream(h, t->owner, t->conversation_id, t->task_id, t->key);
        stream_set(s, t->state.first, t->state.head, true);
    }
    struct task_record view = s->task ? task_view(s->task) : *t;
    if (e->seq == 0) {
        struct buf *out = export_begin(e, "task");
        js_put_raw(out, "task", STR(""));
        task_write(out, &view, false);
        buf_putc(out, '}');
    }
    e->until = s->head;
    e->stream = s;
    e->cursor.wake = on_export_wake;
    uint64_t after = e->seq > s->first ? e->seq - 1 : s->first - 1;
    cursor_attach(&e->cursor, s, after < e->until ? after : e->until);
    export_events(e);
}

static void export_task(struct exporting *e)
{
    call_query(e->call,
               &(struct query){.kind = QUERY_TASK,
                               .conversation_id = e->call->req.conversation_id,
                               .task_id = str_of(e->id)},
               on_export_task);
}

static void on_export_tasks(void *arg, int status, struct answer *answer)
{
    struct exporting *e = ((struct call *)arg)->exporting;
    if (export_failed(e, status))
        return;
    if (answer->n_tasks == 0) {
        export_reply(e, false);
        return;
    }
    memcpy(e->id, answer->tasks[0].task_id.p, TASK_ID_LEN);
    export_task(e);
}

static void export_tasks(struct exporting *e)
{
    if (e->seq > 0) { /* in the middle of one */
        export_task(e);
        return;
    }
    call_query(e->call,
               &(struct query){.kind = QUERY_TASKS,
                               .conversation_id = e->call->req.conversation_id,
                               .before = e->id[0] ? str_of(e->id) : STR_NULL,
                               .limit = 1},
               on_export_tasks);
}

/* --- messages --------------------------------------------------------------------------------- */

static void on_export_messages(void *arg, int status, struct answer *answer)
{
    struct exporting *e = ((struct call *)arg)->exporting;
    if (export_failed(e, status))
        return;
    for (size_t i = answer->n_messages; i > 0; i--) {
        struct buf *out = export_begin(e, "message");
        js_put_raw(out, "message", STR(""));
        message_write(out, &answer->messages[i - 1]);
        buf_putc(out, '}');
    }
    e->id[0] = 0;
    if (answer->more && answer->n_messages)
        memcpy(e->id, answer->messages[0].message_id.p, TASK_ID_LEN);
    else
        e->phase = EXPORTING_TASKS;
    if (e->id[0]) /* a page never ends between the two: it begins at an id */
        export_go_on(e);
    else
        export_step(e);
}

static void export_messages(struct exporting *e)
{
    call_query(e->call,
               &(struct query){.kind = QUERY_MESSAGES,
                               .conversation_id = e->call->req.conversation_id,
                               .before = e->id[0] ? str_of(e->id) : STR_NULL,
                               .limit = LIST_MAX,
                               .siblings = true,
                               .max_bytes = EXPORT_PAGE},
               on_export_messages);
}

/* --- the conversation ------------------------------------------------------------------------- */

static void on_export_tip(void *arg, int status, struct answer *answer)
{
    struct exporting *e = ((struct call *)arg)->exporting;
    struct buf *out = &e->call->out;
    if (export_failed(e, status))
        return;
    if (answer->tip.p) {
        js_put_raw(out, "branch", STR("{"));
        js_put_field(out, "message_id", answer->tip);
        if (answer->tip_task.p)
            js_put_field(out, "task_id", answer->tip_task);
        buf_putc(out, '}');
    }
    buf_putc(out, '}');
    e->phase = EXPORTING_MESSAGES;
    export_step(e);
}

static void on_export_head(void *arg, int status, struct answer *answer)
{
    struct exporting *e = ((struct call *)arg)->exporting;
    if (status == STORE_NOT_FOUND) {
        call_fail(e->call, ERR_NOT_FOUND, NO_SUCH_CONVERSATION);
        return;
    }
    if (export_failed(e, status))
        return;
    struct buf *out = export_begin(e, "conversation");
    js_put_int(out, "version", EXPORT_VERSION);
    js_put_raw(out, "conversation", STR(""));
    conversation_write(out, &answer->conversations[0]);
    call_query(e->call,
               &(struct query){
                   .kind = QUERY_PATH, .conversation_id = e->call->req.conversation_id, .limit = 1},
               on_export_tip);
}

static void export_head(struct exporting *e)
{
    call_query(e->call,
               &(struct query){.kind = QUERY_CONVERSATION,
                               .conversation_id = e->call->req.conversation_id},
               on_export_head);
}

static void export_step(struct exporting *e)
{
    switch (e->phase) {
    case EXPORTING_HEAD: export_head(e); return;
    case EXPORTING_MESSAGES: export_messages(e); return;
    case EXPORTING_TASKS: export_tasks(e); return;
    }
    UNREACHABLE();
}

void verb_export(struct call *c)
{
    struct exporting *e = c->exporting = xcalloc(sizeof *e);
    e->call = c;
    e->woken.fire = on_export_woken;
    e->phase = EXPORTING_HEAD;
    if (c->req.from.p && !export_from(e, c->req.from)) {
        call_fail(c, ERR_BAD_REQUEST, "\"from\" must be what an export has given");
        return;
    }
    export_step(e);
}
