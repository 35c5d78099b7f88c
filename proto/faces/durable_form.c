#include "proto/faces/durable.h"

#ifndef HOLDFAST_DURABLE_SHIM

struct durable_form durable_form_of(const struct js_doc *doc, uint32_t task)
{
    (void)doc, (void)task;
    return (struct durable_form){"application/json", .is_json = true, .is_text = true};
}

void durable_put(const struct durable_form *form, const struct face_event *e, struct buf *body)
{
    (void)form;
    buf_putc(body, body->len ? ',' : '[');
    buf_putstr(body, e->line);
}

void durable_close(const struct durable_form *form, bool is_live, struct buf *body)
{
    (void)form, (void)is_live;
    buf_puts(body, body->len ? "]" : "[]");
}

#else /* in a gateway for tests alone: streams of any type (tests/clients/durable_streams) */

#include <stdio.h>
#include <strings.h>

#include "proto/base64url.h"

/* The task's metadata has the type. */
struct durable_form durable_form_of(const struct js_doc *doc, uint32_t task)
{
    struct durable_form form = {"application/octet-stream", false, false};
    uint32_t metadata = js_get(doc, task, "metadata");
    uint32_t type = metadata ? js_get(doc, metadata, "durable_type") : 0;
    if (type && js_type(doc, type) == JS_STRING)
        snprintf(form.type, sizeof form.type, "%.*s", (int)js_raw(doc, type).n,
                 js_raw(doc, type).p);
    form.is_json = strncasecmp(form.type, "application/json", 16) == 0;
    form.is_text = form.is_json || strncasecmp(form.type, "text/", 5) == 0;
    return form;
}

/* A custom event's payload is base64url of what was appended. */
void durable_put(const struct durable_form *form, const struct face_event *e, struct buf *body)
{
    struct buf scratch = {0};
    struct str payload = face_text(e, "payload", &scratch);
    if (e->type == EVENT_CUSTOM && payload.n) {
        if (form->is_json)
            buf_putc(body, body->len ? ',' : '[');
        ASSERT(base64url_read(payload, body));
    }
    buf_done(&scratch);
}

/* Line ends within text would end the event's line (section 5.8): each begins another one. */
static void durable_put_lines(struct buf *out, struct str text)
{
    for (size_t i = 0; i < text.n; i++) {
        bool is_pair = text.p[i] == '\r' && i + 1 < text.n && text.p[i + 1] == '\n';
        if (text.p[i] == '\n' || text.p[i] == '\r')
            buf_puts(out, "\ndata:");
        else
            buf_putc(out, text.p[i]);
        i += is_pair ? 1 : 0;
    }
}

/* RFC 4648 section 4. */
static void durable_put_base64(struct buf *out, struct str bytes)
{
    size_t begun = out->len;
    base64url_put(out, bytes.p, bytes.n);
    for (size_t i = begun; i < out->len; i++)
        out->bytes[i] = out->bytes[i] == '-' ? '+' : out->bytes[i] == '_' ? '/' : out->bytes[i];
    while ((out->len - begun) % 4)
        buf_putc(out, '=');
}

void durable_close(const struct durable_form *form, bool is_live, struct buf *body)
{
    struct buf out = {0};
    if (form->is_json)
        buf_puts(body, body->len ? "]" : "[]");
    if (!is_live)
        return;
    if (form->is_text)
        durable_put_lines(&out, buf_str(body));
    else
        durable_put_base64(&out, buf_str(body));
    buf_done(body);
    *body = out;
}

#endif
