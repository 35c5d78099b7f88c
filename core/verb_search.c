/* search: in the titles and texts of an owner's conversations. */
#include "core/call.h"
#include "proto/search.h"

#define SEARCH_BYTES (4u << 20) /* of messages that one look takes … */
#define SEARCH_LOOKS 8          /* … and how many of them answer one request */

static void search_look(struct call *c, struct str before);

static bool search_may_show(const struct call *c, struct str conversation_id)
{
    return rights_allow(c->rights, conversation_id, STR_NULL, RIGHT_READ);
}

static void put_found(struct search *s, const struct message_record *m, struct buf *out)
{
    buf_putc(out, '{');
    js_put_field(out, "conversation_id", m->conversation_id);
    js_put_field(out, "message_id", m->message_id);
    if (m->task_id.p)
        js_put_field(out, "task_id", m->task_id);
    js_put_field(out, "role", str_of(role_name(m->role)));
    js_put_int(out, "created_at", m->created_at);
    search_put(s, m->content, out);
    buf_putc(out, '}');
}

static void finish_search(struct call *c, bool more, struct str before)
{
    struct buf line = c->out;
    c->out = (struct buf){0};
    buf_putc(&line, ']');
    js_put_bool(&line, "more", more);
    if (more)
        js_put_field(&line, "before", before);
    buf_putc(&line, '}');
    call_reply(c, buf_str(&line));
    buf_done(&line);
}

/* c->n: how many it has; c->at: how many looks. */
static void on_searched(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    struct search s;
    if (status < 0) {
        call_store_failed(c, status);
        return;
    }
    bool is_good = search_read(c->req.query, &s);
    ASSERT(is_good);
    struct str last = answer->looked_at;
    bool full = false;
    for (size_t i = 0; i < answer->n_messages && !full; i++) {
        const struct message_record *m = &answer->messages[i];
        if (!search_may_show(c, m->conversation_id))
            continue;
        if (c->n++)
            buf_putc(&c->out, ',');
        put_found(&s, m, &c->out);
        full = c->n == c->req.limit || c->out.len > MAX_REPLY - 4096;
        if (full)
            last = m->message_id;
    }
    search_done(&s);
    bool more = answer->more || (full && !str_eq(last, answer->looked_at));
    if (!full && more && ++c->at < SEARCH_LOOKS)
        search_look(c, last);
    else
        finish_search(c, more, last);
}

static void search_look(struct call *c, struct str before)
{
    call_query(c,
               &(struct query){.kind = QUERY_SEARCH,
                               .key = c->req.query,
                               .before = before,
                               .limit = c->req.limit,
                               .max_bytes = SEARCH_BYTES},
               on_searched);
}

/* Titles stand before the texts, on the first page. */
static void on_titles(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    struct search s;
    if (status < 0) {
        call_store_failed(c, status);
        return;
    }
    bool is_good = search_read(c->req.query, &s);
    ASSERT(is_good);
    for (size_t i = 0; i < answer->n_conversations; i++) {
        const struct conversation_record *r = &answer->conversations[i];
        if (!search_may_show(c, r->conversation_id) || c->out.len > MAX_REPLY / 2)
            continue;
        if (c->out.bytes[c->out.len - 1] == '}')
            buf_putc(&c->out, ',');
        conversation_write(&c->out, r);
        c->out.len--; /* its brace: the marks are a member too */
        search_put_matches(&s, r->title, &c->out);
        buf_putc(&c->out, '}');
    }
    search_done(&s);
    buf_putc(&c->out, ']');
    js_put_raw(&c->out, "messages", STR("["));
    search_look(c, STR_NULL);
}

void verb_search(struct call *c)
{
    struct search s;
    bool is_good = search_read(c->req.query, &s);
    search_done(&s);
    if (!is_good) {
        call_fail(c, ERR_BAD_REQUEST, "\"query\" has nothing to look for");
        return;
    }
    reply_begin(c, &c->out, "found");
    js_put_raw(&c->out, "conversations", STR("["));
    if (c->req.before.p) {
        buf_putc(&c->out, ']');
        js_put_raw(&c->out, "messages", STR("["));
        search_look(c, c->req.before);
        return;
    }
    call_query(c,
               &(struct query){.kind = QUERY_CONVERSATIONS,
                               .key = c->req.query,
                               .limit = c->req.limit,
                               .max_bytes = MAX_REPLY / 2},
               on_titles);
}
