#include "proto/forms/form.h"

#include "proto/str.h"

#define SCRATCH (256 * 1024) /* bytes; buffers that one long line has grown are not kept */

void form_open(struct form *f, enum agent_form kind)
{
    ASSERT(kind > AGENT_FORM_HOLDFAST && kind <= AGENT_FORM_CODEX);
    *f = (struct form){.kind = kind};
}

bool form_is_bytes(enum agent_form kind)
{
    return kind == AGENT_FORM_TEXT;
}

bool form_is_session(struct str id)
{
    if (id.n == 0 || id.n > FORM_SESSION || id.p[0] == '-')
        return false;
    for (size_t i = 0; i < id.n; i++) {
        char c = id.p[i];
        if (!is_digit(c) && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && c != '-' &&
            c != '_' && c != '.')
            return false;
    }
    return true;
}

void form_set_session(struct form *f, struct str id)
{
    if (!form_is_session(id))
        return;
    buf_clear(&f->session);
    buf_putstr(&f->session, id);
}

/* A character may come in two reads. */
static void form_text(struct form *f, struct str bytes, struct buf *out)
{
    buf_putstr(&f->text, bytes);
    struct str all = buf_str(&f->text);
    size_t n = all.n - utf8_begun(all);
    say_token(out, (struct str){all.p, n});
    buf_consume(&f->text, n);
}

static void form_trim(struct buf *b)
{
    if (b->cap > SCRATCH)
        buf_done(b);
}

void form_take(struct form *f, struct str piece, struct buf *out)
{
    if (f->kind == AGENT_FORM_TEXT) {
        form_text(f, piece, out);
        return;
    }
    if (!js_parse(&f->doc, piece.p, piece.n, JS_AGENT) || js_type(&f->doc, 0) != JS_OBJECT)
        return;
    if (f->kind == AGENT_FORM_CLAUDE)
        form_claude(f, out);
    else
        form_codex(f, out);
    form_trim(&f->text);
    form_trim(&f->other);
}

void form_end(struct form *f, struct buf *out)
{
    if (f->kind == AGENT_FORM_TEXT)
        say_token(out, buf_str(&f->text));
    else if (f->failure.len == 0 && !f->has_ended)
        buf_puts(&f->failure, f->last_error.len ? f->last_error.bytes
                                                : "it has ended without saying its result");
}

/* --- state ------------------------------------------------------------------------------------ */

static const struct {
    const char *key;
    size_t at; /* a buf, "" when the key is missing */
} form_texts[] = {{"answer", offsetof(struct form, answer)},
                  {"failure", offsetof(struct form, failure)},
                  {"last_error", offsetof(struct form, last_error)},
                  {"session", offsetof(struct form, session)}};

static const struct {
    const char *key;
    size_t at; /* an int64_t, 0 when the key is missing */
} form_counts[] = {{"tokens_in", offsetof(struct form, tokens_in)},
                   {"tokens_out", offsetof(struct form, tokens_out)},
                   {"message_in", offsetof(struct form, message_in)},
                   {"message_out", offsetof(struct form, message_out)}};

void form_put_state(const struct form *f, struct buf *out)
{
    js_put_bool(out, "streams", f->streams);
    js_put_bool(out, "has_ended", f->has_ended);
    for (size_t i = 0; i < countof(form_texts); i++) {
        const struct buf *text = (const void *)((const char *)f + form_texts[i].at);
        if (text->len)
            js_put_field(out, form_texts[i].key, buf_str(text));
    }
    for (size_t i = 0; i < countof(form_counts); i++) {
        const int64_t *n = (const void *)((const char *)f + form_counts[i].at);
        if (*n)
            js_put_int(out, form_counts[i].key, *n);
    }
    js_put_key(out, "calls");
    say_calls_put(&f->calls, out);
}

static bool form_flag(const struct js_doc *doc, uint32_t object, const char *key, bool *ret)
{
    uint32_t node = js_get(doc, object, key);
    *ret = node && js_type(doc, node) == JS_TRUE;
    return *ret || (node && js_type(doc, node) == JS_FALSE);
}

bool form_take_state(struct form *f, const struct js_doc *doc, uint32_t object)
{
    uint32_t calls = js_type(doc, object) == JS_OBJECT ? js_get(doc, object, "calls") : 0;
    if (!calls || !form_flag(doc, object, "streams", &f->streams) ||
        !form_flag(doc, object, "has_ended", &f->has_ended) ||
        !say_calls_take(&f->calls, doc, calls))
        return false;
    for (size_t i = 0; i < countof(form_texts); i++) {
        struct buf *text = (void *)((char *)f + form_texts[i].at);
        uint32_t node = js_get(doc, object, form_texts[i].key);
        if (node && js_type(doc, node) != JS_STRING)
            return false;
        if (node)
            js_value(doc, node, text);
    }
    for (size_t i = 0; i < countof(form_counts); i++) {
        uint32_t node = js_get(doc, object, form_counts[i].key);
        int64_t *n = (void *)((char *)f + form_counts[i].at);
        if (node && (!js_int(doc, node, n) || *n < 0 || *n > MAX_SAFE_INTEGER))
            return false;
    }
    return f->session.len == 0 || form_is_session(buf_str(&f->session));
}

void form_done(struct form *f)
{
    struct buf *const all[] = {&f->text,    &f->other,      &f->answer,
                               &f->failure, &f->last_error, &f->session};
    js_done(&f->doc);
    say_calls_done(&f->calls);
    for (size_t i = 0; i < countof(all); i++)
        buf_done(all[i]);
}
