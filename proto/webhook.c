#include "proto/webhook.h"

#include <stdlib.h>
#include <strings.h>

static bool has_text(const struct js_doc *doc, uint32_t node, size_t min, size_t max,
                     struct buf *ret)
{
    if (js_type(doc, node) != JS_STRING)
        return false;
    buf_clear(ret);
    js_value(doc, node, ret);
    return ret->len >= min && ret->len <= max;
}

/* http or https, printable ASCII without spaces, a host, and no user before it. */
static bool is_url(struct str url)
{
    size_t at = url.n > 8 && memcmp(url.p, "https://", 8) == 0  ? 8
                : url.n > 7 && memcmp(url.p, "http://", 7) == 0 ? 7
                                                                : 0;
    if (!at || url.p[at] == '/' || url.p[at] == '?' || url.p[at] == '#' || url.p[at] == ':')
        return false;
    bool in_host = true;
    for (size_t i = at; i < url.n; i++) {
        in_host = in_host && !strchr("/?#", url.p[i]);
        if (url.p[i] <= ' ' || url.p[i] > '~' || url.p[i] == '\\' || (in_host && url.p[i] == '@'))
            return false;
    }
    return true;
}

/* A token (RFC 9110 5.6.2) that is nobody else's: not of the connection, and not of the message. */
static bool is_header_name(struct str name)
{
    static const char *const taken[] = {
        "host",   "content-length", "content-type", "content-encoding", "transfer-encoding",
        "te",     "trailer",        "connection",   "keep-alive",       "upgrade",
        "expect", "proxy-",         "webhook-",
    };
    static const char marks[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        if (!(c >= '0' && c <= '9') && !((c | 0x20) >= 'a' && (c | 0x20) <= 'z') &&
            !(c && strchr(marks, c)))
            return false;
    }
    for (size_t i = 0; i < countof(taken); i++) {
        size_t n = strlen(taken[i]);
        bool is_prefix = taken[i][n - 1] == '-';
        if (name.n >= n && (is_prefix || name.n == n) && strncasecmp(name.p, taken[i], n) == 0)
            return false;
    }
    return name.n > 0;
}

static bool is_header_value(struct str value)
{
    for (size_t i = 0; i < value.n; i++)
        if (value.p[i] < ' ' || value.p[i] > '~')
            return false;
    return true;
}

static bool headers_are_good(const struct js_doc *doc, uint32_t headers)
{
    struct buf text = {0};
    size_t n = 0;
    bool good = js_type(doc, headers) == JS_OBJECT;
    for (uint32_t i = good ? js_first(doc, headers) : 0; good && i < js_end(doc, headers);
         i = js_next(doc, i + 1)) {
        good = ++n <= MAX_WEBHOOK_HEADERS && has_text(doc, i, 1, MAX_WEBHOOK_HEADER_NAME, &text) &&
               is_header_name(buf_str(&text)) &&
               has_text(doc, i + 1, 1, MAX_WEBHOOK_HEADER, &text) &&
               is_header_value(buf_str(&text));
    }
    buf_done(&text);
    return good;
}

bool webhook_read(const struct js_doc *doc, uint32_t node, struct buf *out, uint32_t *ret_id)
{
    if (js_type(doc, node) != JS_OBJECT)
        return false;
    uint32_t url = js_get(doc, node, "url"), headers = js_get(doc, node, "headers");
    uint32_t form = js_get(doc, node, "form"), id = js_get(doc, node, "webhook_id");
    struct buf text = {0};
    bool good = url && has_text(doc, url, 1, MAX_WEBHOOK_URL, &text) && is_url(buf_str(&text)) &&
                (!id || has_text(doc, id, 1, MAX_WEBHOOK_ID, &text)) &&
                (!headers || headers_are_good(doc, headers)) &&
                (!form || js_is(doc, form, "holdfast") || js_is(doc, form, "a2a"));
    buf_done(&text);
    if (!good)
        return false;
    *ret_id = id;
    buf_putc(out, '{');
    js_put_key(out, "url");
    js_copy(doc, url, out);
    if (headers) {
        js_put_key(out, "headers");
        js_copy(doc, headers, out);
    }
    if (form) {
        js_put_key(out, "form");
        js_copy(doc, form, out);
    }
    buf_putc(out, '}');
    return true;
}

void webhook_put_message(struct buf *out, struct str owner, struct str webhook, struct str message)
{
    buf_putc(out, '{');
    js_put_field(out, "owner", owner);
    js_put_raw(out, "webhook", webhook);
    js_put_raw(out, "message", message);
    buf_putc(out, '}');
}

static char *target_text(const struct js_doc *doc, uint32_t node)
{
    struct buf text = {0};
    js_value(doc, node, &text);
    char *own = xstrdup(text.len ? buf_str(&text) : STR(""));
    buf_done(&text);
    return own;
}

static void target_headers(const struct js_doc *doc, uint32_t headers, struct webhook_target *ret)
{
    size_t n = 0;
    for (uint32_t i = js_first(doc, headers); n < MAX_WEBHOOK_HEADERS && i < js_end(doc, headers);
         i = js_next(doc, i + 1)) {
        struct buf line = {0};
        js_value(doc, i, &line);
        buf_puts(&line, ": ");
        js_value(doc, i + 1, &line);
        ret->headers[n++] = xstrdup(buf_str(&line));
        buf_done(&line);
    }
}

bool webhook_target_read(struct js_doc *doc, struct str entry, struct webhook_target *ret)
{
    *ret = (struct webhook_target){0};
    if (!js_parse(doc, entry.p, entry.n, JS_OURS) || js_type(doc, 0) != JS_OBJECT)
        return false;
    uint32_t hook = js_get(doc, 0, "webhook"), message = js_get(doc, 0, "message");
    if (!hook || js_type(doc, hook) != JS_OBJECT || !message)
        return false;
    uint32_t url = js_get(doc, hook, "url"), headers = js_get(doc, hook, "headers");
    uint32_t form = js_get(doc, hook, "form");
    if (!url || js_type(doc, url) != JS_STRING || (headers && !headers_are_good(doc, headers)))
        return false;
    ret->url = target_text(doc, url);
    ret->a2a = form && js_is(doc, form, "a2a");
    if (headers)
        target_headers(doc, headers, ret);
    js_copy(doc, message, &ret->message);
    return true;
}

void webhook_target_done(struct webhook_target *target)
{
    free(target->url);
    for (size_t i = 0; i < MAX_WEBHOOK_HEADERS; i++)
        free(target->headers[i]);
    buf_done(&target->message);
    *target = (struct webhook_target){0};
}
