#include "gateway/front/http_export.h"

#include <stdio.h>
#include <stdlib.h>

#include "gateway/base/deadline.h"
#include "gateway/front/address.h"
#include "gateway/front/http_api.h"
#include "proto/export.h"
#include "proto/file_head.h"
#include "proto/str.h"

#define MAX_IMPORT (24u << 20) /* of the lines that are kept: 8 MiB of text with its escapes */
#define CHUNK_HEAD 10          /* eight digits at most, and the end of their line */
#define CHUNK_AT (LWS_PRE + CHUNK_HEAD)

struct http_export {
    struct buf out; /* CHUNK_AT bytes, then lines */
    char *from;     /* where the next page begins; NULL: there is none */
    bool is_begun;
};

static void export_put_error(const struct exchange *x, struct buf *out, enum error e,
                             const char *message)
{
    (void)x;
    http_put_error(out, e, message);
}

static const char *export_header(const struct exchange *x, const char **ret_value)
{
    (void)x;
    *ret_value = NULL;
    return NULL;
}

static struct str no_lines(const struct exchange *x)
{
    (void)x;
    return STR_NULL;
}

/* --- out -------------------------------------------------------------------------------------- */

static struct http_export *export_of(struct exchange *x)
{
    if (!x->own)
        x->own = xcalloc(sizeof(struct http_export));
    return x->own;
}

static void export_closed(struct exchange *x)
{
    struct http_export *own = x->own;
    buf_done(&own->out);
    free(own->from);
    free(own);
}

static void put_lines_of(struct http_export *own, struct js_doc *doc)
{
    uint32_t lines = js_get(doc, 0, "lines"), from = js_get(doc, 0, "from");
    buf_clear(&own->out);
    buf_reserve(&own->out, CHUNK_AT);
    own->out.len = CHUNK_AT;
    for (uint32_t i = js_first(doc, lines); i < js_end(doc, lines); i = js_next(doc, i)) {
        buf_putstr(&own->out, js_raw(doc, i));
        buf_putc(&own->out, '\n');
    }
    free(own->from);
    own->from = from ? xstrdup(js_raw(doc, from)) : NULL;
}

/* After the head a fault can only cut the stream. */
static void on_export_page(void *arg, enum error e, struct str line)
{
    struct exchange *x = arg;
    struct js_doc doc = {0};
    x->call = NULL;
    if (e && x->sends) {
        deadline_now(x->wsi);
        return;
    }
    if (e) {
        http_put_error_line(&x->answer, line);
        http_api_ready(x, error_status(e));
        return;
    }
    if (!js_parse(&doc, line.p, line.n, JS_OURS))
        UNREACHABLE();
    put_lines_of(export_of(x), &doc);
    js_done(&doc);
    x->sends = true;
    lws_callback_on_writable(x->wsi);
}

static void ask_page(struct exchange *x)
{
    struct http_export *own = export_of(x);
    struct buf body = {0};
    struct request req;
    struct request_fault fault = {0};
    buf_putc(&body, '{');
    if (own->from)
        js_put_field(&body, "from", str_of(own->from));
    buf_putc(&body, '}');
    bool good = request_from_body(&x->front->hub->doc, VERB_EXPORT, str_of(x->conversation_id),
                                  STR_NULL, buf_str(&body), &req, &fault);
    buf_done(&body);
    if (!good && x->sends) {
        deadline_now(x->wsi);
    } else if (!good) {
        http_api_fail(x, fault.code, fault.message);
    } else {
        struct asker who = http_asker(x);
        x->call = hub_request(x->front->hub, &who, &req, on_export_page, x);
    }
}

static bool begin_lines(struct exchange *x)
{
    struct buf lines = {0}, name = {0};
    x->is_plain = http_is_1_0(x->wsi);
    buf_puts(&name, x->conversation_id);
    buf_puts(&name, ".jsonl");
    buf_puts(&lines, "content-type: application/x-ndjson\ncontent-disposition: ");
    disposition_put(&lines, false, buf_str(&name));
    buf_putc(&lines, '\n');
    bool good = http_begin_events(x->wsi, x->origin, x->is_plain, NULL, NULL, buf_str(&lines)) >= 0;
    buf_done(&lines);
    buf_done(&name);
    return good;
}

static bool write_lines(struct exchange *x, struct http_export *own)
{
    char size[CHUNK_HEAD + 1];
    size_t n = own->out.len - CHUNK_AT;
    int head = x->is_plain ? 0 : snprintf(size, sizeof size, "%zx\r\n", n);
    memcpy(own->out.bytes + CHUNK_AT - head, size, (size_t)head);
    buf_puts(&own->out, x->is_plain ? "" : "\r\n");
    buf_puts(&own->out, own->from || x->is_plain ? "" : "0\r\n\r\n");
    unsigned char *at = (unsigned char *)own->out.bytes + CHUNK_AT - head;
    size_t all = own->out.len - CHUNK_AT + (size_t)head;
    own->out.len = 0;
    x->moved_ms = x->front->hub->clock.now_ms;
    return lws_write(x->wsi, at, all, LWS_WRITE_HTTP) >= 0;
}

static int export_writable(struct exchange *x)
{
    struct http_export *own = x->own;
    if (!own->is_begun && !begin_lines(x))
        return -1;
    own->is_begun = true;
    if (lws_partial_buffered(x->wsi)) {
        lws_callback_on_writable(x->wsi);
        return 0;
    }
    bool has_lines = own->out.len > 0;
    if (has_lines && !write_lines(x, own))
        return -1;
    if (lws_partial_buffered(x->wsi) || (has_lines && !own->from))
        lws_callback_on_writable(x->wsi);
    else if (own->from && !x->call)
        ask_page(x);
    else if (!own->from)
        return x->is_plain ? -1 : http_api_complete(x);
    return 0;
}

static const struct exchange_kind export_kind = {
    .begin = ask_page,
    .put_error = export_put_error,
    .closed = export_closed,
    .header = export_header,
    .lines = no_lines,
    .writable = export_writable,
};

/* --- in --------------------------------------------------------------------------------------- */

struct http_import {
    struct buf line; /* as far as it came */
    struct buf kept; /* lines that a conversation is made of, with commas between */
    unsigned n;      /* lines that were read */
};

static struct http_import *import_of(struct exchange *x)
{
    if (!x->own)
        x->own = xcalloc(sizeof(struct http_import));
    return x->own;
}

static void import_closed(struct exchange *x)
{
    struct http_import *own = x->own;
    buf_done(&own->line);
    buf_done(&own->kept);
    free(own);
}

static void import_fail(struct exchange *x, enum error e, const char *why)
{
    char text[200];
    snprintf(text, sizeof text, "line %u: %s", import_of(x)->n, why);
    http_api_fail(x, e, text);
}

static void import_line(struct exchange *x, struct http_import *own)
{
    struct js_doc *doc = &x->front->hub->doc;
    struct export_line line = {0};
    struct str text = buf_str(&own->line);
    own->n++;
    if (str_is_blank(text))
        return;
    if (!js_parse(doc, text.p, text.n, JS_CLIENT)) {
        import_fail(x, ERR_BAD_REQUEST, doc->error);
        return;
    }
    const char *wrong = export_line_read(doc, 0, &line);
    if (wrong)
        import_fail(x, ERR_BAD_REQUEST, wrong);
    else if (line.kind != EXPORT_OTHER && own->kept.len + text.n > MAX_IMPORT)
        import_fail(x, ERR_TOO_LARGE, "it is more than a conversation may have");
    else if (line.kind != EXPORT_OTHER) {
        if (own->kept.len)
            buf_putc(&own->kept, ',');
        js_copy(doc, 0, &own->kept);
    }
    export_line_done(&line);
}

static void import_piece(struct exchange *x, const char *bytes, size_t n)
{
    struct http_import *own = import_of(x);
    while (n > 0 && !x->answered) {
        const char *newline = memchr(bytes, '\n', n);
        size_t part = newline ? (size_t)(newline - bytes) : n;
        if (own->line.len + part > MAX_EXPORT_LINE) {
            own->n++;
            import_fail(x, ERR_TOO_LARGE, "it is longer than 2 MiB");
            return;
        }
        buf_put(&own->line, bytes, part);
        part += newline ? 1 : 0;
        bytes += part;
        n -= part;
        if (!newline)
            return;
        import_line(x, own);
        buf_clear(&own->line);
    }
}

static void on_imported(void *arg, enum error e, struct str line)
{
    struct exchange *x = arg;
    x->call = NULL;
    if (e)
        http_put_error_line(&x->answer, line);
    else
        buf_putstr(&x->answer, line);
    http_api_ready(x, e ? error_status(e) : 201);
}

/* The body is whole. */
static void import_begin(struct exchange *x)
{
    struct http_import *own = import_of(x);
    struct request req;
    struct request_fault fault = {0};
    struct buf body = {0};
    if (own->line.len)
        import_line(x, own);
    if (x->answered)
        return;
    buf_puts(&body, "{\"lines\":[");
    buf_putstr(&body, buf_str(&own->kept));
    buf_puts(&body, "]}");
    struct str id = str_of(x->conversation_id);
    bool good = request_from_body(&x->front->hub->doc, VERB_IMPORT, id, STR_NULL, buf_str(&body),
                                  &req, &fault);
    buf_done(&body);
    buf_done(&own->kept);
    if (!good) {
        http_api_fail(x, fault.code, fault.message);
        return;
    }
    struct asker who = http_asker(x);
    x->call = hub_request(x->front->hub, &who, &req, on_imported, x);
}

/* Bodies that come slowly hold what came: they are as few as the conversations that are made. */
static bool import_has_room(const struct exchange *x)
{
    unsigned all = 0, of_owner = 0;
    list_each (it, &x->front->bodies) {
        const struct exchange *other = list_item(it, const struct exchange, coming);
        if (other == x || !other->route || other->route->kind->piece != import_piece)
            continue;
        all++;
        of_owner += other->owner == x->owner;
    }
    return all < MAX_GRAFTS && of_owner < MAX_GRAFTS_PER_OWNER;
}

static void import_head(struct exchange *x)
{
    (void)import_of(x);
    if (import_has_room(x))
        return;
    x->front->hub->stats.limit_hits[LIMIT_GRAFTS]++;
    http_api_fail(x, ERR_OVERLOADED, "too many forks and imports are under way");
}

static const struct exchange_kind import_kind = {
    .begin = import_begin,
    .put_error = export_put_error,
    .closed = import_closed,
    .header = export_header,
    .lines = no_lines,
    .head = import_head,
    .piece = import_piece,
};

/* --- routes ----------------------------------------------------------------------------------- */

static const struct route export_routes[] = {
    {.method = GET, .pattern = "/v1/conversations/{c}/export", .query = "", .kind = &export_kind},
    {.method = POST, .pattern = "/v1/conversations/{c}/import", .query = "", .kind = &import_kind},
    {.method = POST, .pattern = "/v1/import", .query = "", .kind = &import_kind},
};

void http_export_init(struct front *f)
{
    for (size_t i = 0; i < countof(export_routes); i++)
        front_add_route(f, &export_routes[i]);
}
