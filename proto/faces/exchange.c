#include "proto/faces/exchange.h"

#include <stdlib.h>

#include "proto/base64url.h"
#include "proto/ulid.h"

struct buf *exchange_ask(struct face_exchange *x, enum verb verb, struct str conversation_id,
                         struct str task_id)
{
    struct face_ask *ask = &x->ask;
    ask->verb = verb;
    struct buf conversation = {0}, task = {0}; /* the spans may point into the old buffers */
    buf_putstr(&conversation, conversation_id);
    buf_putstr(&task, task_id);
    buf_done(&ask->conversation_id);
    buf_done(&ask->task_id);
    ask->conversation_id = conversation;
    ask->task_id = task;
    buf_clear(&ask->body);
    buf_putc(&ask->body, '{');
    return &ask->body;
}

void exchange_put_error(struct buf *out, enum error e, const char *message)
{
    buf_putc(out, '{');
    js_put_key(out, "error");
    buf_putc(out, '{');
    js_put_field(out, "code", str_of(error_code(e)));
    js_put_field(out, "message", str_of(message));
    buf_puts(out, "}}");
}

enum face_next exchange_fail(struct face_exchange *x, enum error e, const char *message)
{
    buf_clear(&x->reply);
    x->ops->put_error(&x->reply, e, message);
    x->status = error_status(e);
    return FACE_REPLY;
}

void exchange_put_why(struct buf *out, struct str line, struct js_doc *doc)
{
    uint32_t at = js_parse(doc, line.p, line.n, JS_OURS) ? js_get(doc, 0, "message") : 0;
    if (at && js_type(doc, at) == JS_STRING)
        js_value(doc, at, out);
    buf_putc(out, 0);
}

enum face_next exchange_fail_line(struct face_exchange *x, enum error e, struct str line,
                                  struct js_doc *doc)
{
    struct buf message = {0};
    exchange_put_why(&message, line, doc);
    enum face_next next = exchange_fail(x, e, message.bytes);
    buf_done(&message);
    return next;
}

void exchange_done(struct face_exchange *x)
{
    buf_done(&x->ask.conversation_id);
    buf_done(&x->ask.task_id);
    buf_done(&x->ask.body);
    buf_done(&x->reply);
    buf_done(&x->after_answer);
    buf_done(&x->client_id);
    buf_done(&x->memory);
    buf_done(&x->header_value);
    buf_done(&x->head);
    free(x->state);
    x->state = NULL;
}

void exchange_put_id(struct buf *out, struct str conversation_id, struct str task_id)
{
    base64url_put(out, conversation_id.p, conversation_id.n);
    buf_putc(out, '.');
    buf_putstr(out, task_id);
}

bool exchange_read_id(struct str id, struct buf *ret_conversation, struct str *ret_task_id)
{
    const char *dot = id.n ? memchr(id.p, '.', id.n) : NULL;
    if (!dot || !base64url_read((struct str){id.p, (size_t)(dot - id.p)}, ret_conversation))
        return false;
    *ret_task_id = (struct str){dot + 1, id.n - (size_t)(dot + 1 - id.p)};
    return ulid_is_valid(*ret_task_id) && conversation_id_is_valid(buf_str(ret_conversation));
}

/* FNV-1a, 64 bits: keys outlive the program, so this never changes. */
static uint64_t hash_on(uint64_t hash, struct str text)
{
    for (size_t i = 0; i < text.n; i++)
        hash = (hash ^ (unsigned char)text.p[i]) * 0x100000001b3u;
    return hash;
}

void exchange_put_key(struct buf *out, const char *prefix, const struct str *fields, size_t n)
{
    uint64_t a = 0xcbf29ce484222325u, b = hash_on(a, STR("b"));
    for (size_t i = 0; i < n; i++) {
        a = hash_on(hash_on(a, fields[i]), STR("\0"));
        b = hash_on(hash_on(b, fields[i]), STR("\0"));
    }
    buf_putf(out, "%s:%016llx%016llx", prefix, (unsigned long long)a, (unsigned long long)b);
}

uint32_t exchange_task(struct js_doc *doc, struct str line)
{
    if (!js_parse(doc, line.p, line.n, JS_OURS) || js_type(doc, 0) != JS_OBJECT)
        return 0;
    uint32_t task = js_get(doc, 0, "task"), tasks = js_get(doc, 0, "tasks"), last = 0;
    if (task && js_type(doc, task) == JS_OBJECT)
        return task;
    for (uint32_t i = tasks ? js_first(doc, tasks) : 0; tasks && i < js_end(doc, tasks);
         i = js_next(doc, i))
        last = i;
    return last;
}

static struct str raw_of(const struct js_doc *doc, uint32_t object, const char *member)
{
    uint32_t at = js_get(doc, object, member);
    return at && js_type(doc, at) == JS_STRING ? js_raw(doc, at) : STR_NULL; /* ids and names */
}

void exchange_task_read(const struct face_exchange *x, struct js_doc *doc, struct str line,
                        struct face_task *ret)
{
    uint32_t task = exchange_task(doc, line);
    ASSERT(task);
    uint32_t created = js_get(doc, task, "created_at"), given = js_get(doc, task, "metadata");
    *ret = (struct face_task){.task_id = raw_of(doc, task, "task_id"),
                              .conversation_id = raw_of(doc, task, "conversation_id"),
                              .agent = raw_of(doc, task, "agent")};
    if (!created || !js_int(doc, created, &ret->created_at))
        ret->created_at = 0;
    if (given && js_type(doc, given) == JS_OBJECT)
        ret->metadata = js_raw(doc, given);
    uint32_t retracted = js_get(doc, task, "retracted"), first = js_get(doc, 0, "first");
    int64_t seq = 0;
    if (retracted && js_type(doc, retracted) == JS_ARRAY)
        ret->retracted = js_raw(doc, retracted);
    if (first && js_int(doc, first, &seq))
        ret->first = (uint64_t)seq;
    if (x->after_answer.len)
        ret->after_answer = buf_str(&x->after_answer);
    ret->request = x->state;
    if (x->client_id.len)
        ret->client_id = buf_str(&x->client_id);
}

bool exchange_task_lives(const struct js_doc *doc, uint32_t task)
{
    uint32_t status = js_get(doc, task, "status");
    return status && (js_is(doc, status, "pending") || js_is(doc, status, "running"));
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void put_decoded(struct buf *out, struct str value)
{
    for (size_t i = 0; i < value.n; i++) {
        bool coded = value.p[i] == '%' && i + 2 < value.n;
        int high = coded ? hex(value.p[i + 1]) : -1, low = coded ? hex(value.p[i + 2]) : -1;
        if (high >= 0 && low >= 0) {
            buf_putc(out, (char)(high << 4 | low));
            i += 2;
        } else {
            buf_putc(out, value.p[i] == '+' ? ' ' : value.p[i]);
        }
    }
}

bool exchange_query(struct str query, const char *name, struct buf *out)
{
    size_t n = strlen(name);
    while (query.n > 0) {
        const char *amp = memchr(query.p, '&', query.n);
        size_t len = amp ? (size_t)(amp - query.p) : query.n;
        if (len > n && memcmp(query.p, name, n) == 0 && query.p[n] == '=') {
            put_decoded(out, (struct str){query.p + n + 1, len - n - 1});
            return true;
        }
        len += amp ? 1 : 0;
        query.p += len;
        query.n -= len;
    }
    return false;
}
