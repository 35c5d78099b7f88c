/* A request as a line again, from the same table that decoded it. */
#include "proto/request_fields.h"
#include "proto/rights.h"

static void encode_answer(const struct request *r, struct buf *out)
{
    switch (r->answer) {
    case ANSWER_NONE: return;
    case ANSWER_TRUE: js_put_bool(out, "answer", true); return;
    case ANSWER_FALSE: js_put_bool(out, "answer", false); return;
    case ANSWER_TEXT: js_put_field(out, "answer", r->answer_text); return;
    }
    UNREACHABLE();
}

static void encode_task_ids(const struct request *r, struct buf *out)
{
    js_put_key(out, "task_ids");
    buf_putc(out, '[');
    for (size_t i = 0; i < r->n_task_ids; i++) {
        if (i)
            buf_putc(out, ',');
        js_put_str(out, r->task_ids[i]);
    }
    buf_putc(out, ']');
}

static void encode_message(const struct request *r, struct buf *out)
{
    if (r->parts.p)
        js_put_raw(out, "message", r->parts);
    else if (r->message.p)
        js_put_field(out, "message", r->message);
}

/* Its id stands beside it in a request, and within it on the wire. */
static void encode_webhook(const struct request *r, struct buf *out)
{
    if (!r->webhook.p)
        return;
    js_put_raw(out, "webhook", (struct str){r->webhook.p, r->webhook.n - 1});
    if (r->webhook_id.p)
        js_put_field(out, "webhook_id", r->webhook_id);
    buf_putc(out, '}');
}

static void encode_text(const char *name, struct str value, struct buf *out)
{
    if (value.p)
        js_put_field(out, name, value);
}

static void encode_json(const char *name, struct str value, struct buf *out)
{
    if (value.p)
        js_put_raw(out, name, value);
}

static void encode_number(const char *name, uint64_t value, struct buf *out)
{
    if (value > 0)
        js_put_int(out, name, (int64_t)value);
}

static void encode_busy(const char *name, enum when_busy value, struct buf *out)
{
    if (value != BUSY_PARALLEL)
        js_put_field(out, name, str_of(request_busy_words[value]));
}

static void encode_maybe(const char *name, enum maybe value, struct buf *out)
{
    if (value != MAYBE_ABSENT)
        js_put_bool(out, name, value == MAYBE_YES);
}

static void encode_true(const char *name, bool value, struct buf *out)
{
    if (value)
        js_put_bool(out, name, true);
}

static void encode_rights(const char *name, unsigned rights, struct buf *out)
{
    if (!rights)
        return;
    js_put_key(out, name);
    rights_put_words(out, rights);
}

static void encode_status(const struct request *r, struct buf *out)
{
    if (r->has_status)
        js_put_field(out, "status", str_of(status_name(r->status)));
}

static void encode_member(const struct request *r, const struct field *f, struct buf *out)
{
    const void *at = (const char *)r + f->offset;
    switch (f->kind) {
    case KIND_TEXT:
    case KIND_NAME:
    case KIND_CONVERSATION_ID:
    case KIND_ULID: encode_text(f->name, *(const struct str *)at, out); return;
    case KIND_METADATA:
    case KIND_LINES: encode_json(f->name, *(const struct str *)at, out); return;
    case KIND_BUDGET: encode_json(f->name, r->budget, out); return;
    case KIND_CONTEXT: encode_json(f->name, r->context, out); return;
    case KIND_MESSAGE: encode_message(r, out); return;
    case KIND_BOOL: encode_true(f->name, *(const bool *)at, out); return;
    case KIND_MAYBE: encode_maybe(f->name, *(const enum maybe *)at, out); return;
    case KIND_INTEGER: encode_number(f->name, *(const uint64_t *)at, out); return;
    case KIND_LIMIT: encode_number(f->name, r->limit, out); return;
    case KIND_WHEN_BUSY: encode_busy(f->name, r->when_busy, out); return;
    case KIND_STATUS: encode_status(r, out); return;
    case KIND_ANSWER: encode_answer(r, out); return;
    case KIND_TASK_IDS: encode_task_ids(r, out); return;
    case KIND_WEBHOOK: encode_webhook(r, out); return;
    case KIND_RIGHTS: encode_rights(f->name, r->rights, out); return;
    case KIND_CLIENT:
    case KIND_KEEPALIVE: return; /* of a hello */
    }
    UNREACHABLE();
}

void request_encode(const struct request *r, struct buf *out)
{
    size_t n;
    const struct field *fields = request_fields_of(r->verb, &n);
    ASSERT(r->verb != VERB_HELLO);
    buf_putc(out, '{');
    js_put_field(out, "type", str_of(verb_name(r->verb)));
    encode_text("id", r->id, out);
    if (verb_flags(r->verb) & VERB_TASK) {
        js_put_field(out, "conversation_id", r->conversation_id);
        js_put_field(out, "task_id", r->task_id);
    }
    for (size_t i = 0; i < n; i++)
        encode_member(r, &fields[i], out);
    buf_putc(out, '}');
}
