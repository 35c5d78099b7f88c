/* Design. The record of the task comes first: it says where the stream ends, so an answer at the
 * tail needs no events, and HEAD none at all. A stream that is unknown, foreign or malformed gets
 * one answer. */
#include <stdio.h>
#include <stdlib.h>

#include "proto/faces/durable.h"
#include "proto/str.h"

#define CURSOR_EPOCH_MS 1728432000000 /* 2024-10-09 (PROTOCOL.md section 10.1) */
#define CURSOR_MS 20000
#define LONG_POLL_MS 20000

/* --- the query -------------------------------------------------------------------------------- */

static bool read_number(struct str digits, uint64_t *ret)
{
    *ret = 0;
    for (size_t i = 0; i < digits.n; i++) {
        if (!is_digit(digits.p[i]))
            return false;
        *ret = *ret * 10 + (uint64_t)(digits.p[i] - '0');
    }
    return digits.n > 0;
}

/* Three further digits would be more than an integer of JSON. */
static bool read_offset(struct str text, struct durable_request *ret)
{
    ret->from_now = str_eq(text, STR("now"));
    if (ret->from_now || str_eq(text, STR("-1")))
        return true;
    return text.n == DURABLE_OFFSET && str_begins(text, STR("0000")) &&
           read_number(text, &ret->after);
}

static bool read_mode(struct str text, enum durable_mode *ret)
{
    bool polls = str_eq(text, STR("long-poll"));
    *ret = polls ? DURABLE_LONG_POLL : DURABLE_LIVE;
    return polls || str_eq(text, STR("sse"));
}

static uint32_t count_name(struct str query, struct str name)
{
    uint32_t n = 0;
    while (query.n > 0) {
        const char *amp = memchr(query.p, '&', query.n);
        size_t len = amp ? (size_t)(amp - query.p) : query.n;
        n += len >= name.n && memcmp(query.p, name.p, name.n) == 0 &&
             (len == name.n || query.p[name.n] == '=');
        len += amp ? 1 : 0;
        query.p += len;
        query.n -= len;
    }
    return n;
}

bool durable_read(struct str query, int64_t now_ms, unsigned jitter, struct durable_request *ret,
                  char why[128])
{
    struct buf offset = {0}, live = {0}, cursor = {0};
    uint64_t theirs;
    uint32_t n = count_name(query, STR("offset"));
    const char *wrong = NULL;
    (void)exchange_query(query, "offset", &offset);
    (void)exchange_query(query, "live", &live);
    (void)exchange_query(query, "cursor", &cursor);
    if (n > 1)
        wrong = "\"offset\" appears more than once";
    else if (n == 1 && !read_offset(buf_str(&offset), ret))
        wrong = "\"offset\" must be -1, now, or a Stream-Next-Offset of this stream";
    else if (count_name(query, STR("live")) && !read_mode(buf_str(&live), &ret->mode))
        wrong = "\"live\" must be long-poll or sse";
    else if (ret->mode != DURABLE_CATCH_UP && n == 0)
        wrong = "\"live\" needs an \"offset\"";
    ret->interval = now_ms > CURSOR_EPOCH_MS ? (uint64_t)(now_ms - CURSOR_EPOCH_MS) / CURSOR_MS : 0;
    /* So that no cache answers the same request for ever. */
    if (cursor.len < DURABLE_OFFSET && read_number(buf_str(&cursor), &theirs) &&
        theirs >= ret->interval)
        ret->interval = theirs + jitter;
    snprintf(why, 128, "%s", wrong ? wrong : "");
    buf_done(&offset);
    buf_done(&live);
    buf_done(&cursor);
    return !wrong;
}

/* --- heads ------------------------------------------------------------------------------------ */

void durable_put_head(struct buf *lines, const struct durable_request *r, struct durable_tail tail)
{
    buf_putf(lines, "content-type: %s\n", r->form.type);
    buf_putf(lines, "stream-next-offset: %0*llu\n", DURABLE_OFFSET,
             (unsigned long long)tail.offset);
    if (tail.up_to_date && r->operation != DURABLE_HEAD)
        buf_puts(lines, "stream-up-to-date: true\n");
    if (tail.is_closed)
        buf_puts(lines, "stream-closed: true\n");
    if (r->mode == DURABLE_LONG_POLL && !tail.is_closed)
        buf_putf(lines, "stream-cursor: %llu\n", (unsigned long long)r->interval);
}

bool durable_tag(struct buf *lines, const struct durable_request *r, struct str task_id,
                 struct durable_tail tail)
{
    struct buf tag = {0};
    buf_putc(&tag, '"');
    buf_putstr(&tag, task_id);
    buf_putf(&tag, ":%llu:%llu%s\"", (unsigned long long)r->after, (unsigned long long)tail.offset,
             tail.is_closed ? ":c" : "");
    bool known = r->matches.n && memmem(r->matches.p, r->matches.n, tag.bytes, tag.len);
    buf_puts(lines, "etag: ");
    buf_putstr(lines, buf_str(&tag));
    buf_puts(lines, "\nvary: Authorization, Cookie\n");
    buf_done(&tag);
    return known;
}

/* --- the exchange ----------------------------------------------------------------------------- */

static enum face_next no_stream(struct face_exchange *x)
{
    return exchange_fail(x, ERR_NOT_FOUND, "no such task");
}

static enum face_next durable_begin(struct face_exchange *x, const struct face_input *in)
{
    struct durable_request *r = xcalloc(sizeof *r);
    unsigned jitter = 0;
    char why[128];
    x->state = r;
    r->operation = (enum durable_operation)in->operation;
    for (size_t i = 0; i < in->nonce.n && i < 2; i++)
        jitter = jitter * 10 + (unsigned char)in->nonce.p[i] % 10;
    if (!durable_read(in->operation == DURABLE_HEAD ? STR_NULL : in->query, in->now_ms, jitter + 1,
                      r, why))
        return exchange_fail(x, ERR_BAD_REQUEST, why);
    if (!in->conversation.n || !in->task.n)
        return no_stream(x);
    if (in->header.n) {
        buf_putstr(&x->memory, in->header);
        r->matches = buf_str(&x->memory);
    }
    exchange_ask(x, VERB_TASK_GET, in->conversation, in->task);
    exchange_ask_end(x);
    return FACE_ASK;
}

/* HEAD, and an offset at the tail, need the record alone. */
static enum face_next reply_at_tail(struct face_exchange *x, bool is_closed)
{
    const struct durable_request *r = x->state;
    const struct durable_tail tail = {r->after, true, is_closed};
    durable_put_head(&x->head, r, tail);
    x->status = r->mode == DURABLE_LONG_POLL ? 204 : 200;
    if (r->operation == DURABLE_HEAD)
        return FACE_REPLY;
    if (!r->from_now && durable_tag(&x->head, r, buf_str(&x->ask.task_id), tail))
        x->status = 304;
    if (x->status == 200)
        durable_close(&r->form, false, &x->reply);
    return FACE_REPLY;
}

static enum face_next durable_follow(struct face_exchange *x)
{
    const struct durable_request *r = x->state;
    struct buf *body =
        exchange_ask(x, VERB_RESUME, buf_str(&x->ask.conversation_id), buf_str(&x->ask.task_id));
    js_put_int(body, "after", (int64_t)r->after);
    exchange_ask_end(x);
    x->is_whole = r->mode != DURABLE_LIVE;
    x->patience_ms = r->mode == DURABLE_LONG_POLL ? LONG_POLL_MS : 0;
    if (r->mode == DURABLE_LIVE)
        buf_puts(&x->head, "cache-control: no-cache, no-store\n");
    if (r->mode == DURABLE_LIVE && !r->form.is_text)
        buf_puts(&x->head, "stream-sse-data-encoding: base64\n");
    return FACE_FOLLOW;
}

static enum face_next on_task(struct face_exchange *x, struct str line, struct js_doc *doc)
{
    struct durable_request *r = x->state;
    uint32_t task = exchange_task(doc, line), at = task ? js_get(doc, task, "head") : 0;
    int64_t head = 0;
    if (!at || !js_int(doc, at, &head))
        return no_stream(x);
    bool has_ended = !exchange_task_lives(doc, task), is_head = r->operation == DURABLE_HEAD;
    r->form = durable_form_of(doc, task);
    if (r->from_now || is_head)
        r->after = (uint64_t)head;
    if (r->after > (uint64_t)head)
        return exchange_fail(x, ERR_BAD_REQUEST, "\"offset\" is beyond the end of this stream");
    bool at_tail = r->after == (uint64_t)head;
    r->is_closed = at_tail && has_ended;
    bool waits = r->mode == DURABLE_LONG_POLL && !has_ended;
    if (is_head || (at_tail && !waits && r->mode != DURABLE_LIVE))
        return reply_at_tail(x, has_ended);
    return durable_follow(x);
}

static enum face_next durable_replied(struct face_exchange *x, enum error e, struct str line,
                                      struct js_doc *doc)
{
    if (e == ERR_NOT_FOUND || e == ERR_BAD_REQUEST)
        return no_stream(x);
    return e ? exchange_fail_line(x, e, line, doc) : on_task(x, line, doc);
}

const struct face_http_ops durable_http_ops = {
    .stream = &durable_ops,
    .begin = durable_begin,
    .replied = durable_replied,
    .put_error = exchange_put_error,
    .reads = "if-none-match:",
    .is_tight = true,
};
