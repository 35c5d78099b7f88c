#include "proto/trace.h"

#include <stdlib.h>

#include "proto/str.h"
#include "proto/ulid.h"

/* --- contexts --------------------------------------------------------------------------------- */

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; /* upper case is invalid: section 3.2.2 */
}

static bool trace_hex_read(const char *text, unsigned char *ret, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int high = hex_value(text[2 * i]), low = hex_value(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        ret[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

static void trace_hex_put(struct buf *out, const unsigned char *bytes, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        buf_putc(out, digits[bytes[i] >> 4]);
        buf_putc(out, digits[bytes[i] & 15]);
    }
}

static bool id_is_zero(const unsigned char *bytes, size_t n)
{
    unsigned char all = 0;
    for (size_t i = 0; i < n; i++)
        all |= bytes[i];
    return all == 0;
}

bool traceparent_read(struct str text, struct trace_context *ret)
{
    unsigned char version, flags;
    const char *p = text.p;
    if (text.n < TRACEPARENT_LEN || text.n > MAX_TRACEPARENT || p[2] != '-' || p[35] != '-' ||
        p[52] != '-')
        return false;
    if (!trace_hex_read(p, &version, 1) || version == 0xff ||
        !trace_hex_read(p + 3, ret->trace_id, sizeof ret->trace_id) ||
        !trace_hex_read(p + 36, ret->span_id, sizeof ret->span_id) ||
        !trace_hex_read(p + 53, &flags, 1))
        return false;
    if (text.n > TRACEPARENT_LEN && (version == 0 || p[TRACEPARENT_LEN] != '-'))
        return false;
    ret->sampled = flags & 1;
    ret->state = STR_NULL;
    return !id_is_zero(ret->trace_id, sizeof ret->trace_id) &&
           !id_is_zero(ret->span_id, sizeof ret->span_id);
}

void traceparent_put(struct buf *out, const struct trace_context *context)
{
    buf_puts(out, "00-");
    trace_hex_put(out, context->trace_id, sizeof context->trace_id);
    buf_putc(out, '-');
    trace_hex_put(out, context->span_id, sizeof context->span_id);
    buf_puts(out, context->sampled ? "-01" : "-00");
}

/* --- tracestate: section 3.3 ------------------------------------------------------------------ */

#define MAX_STATE_MEMBERS 32
#define LONG_STATE_MEMBER 128
#define MAX_STATE_KEY 256 /* and of a value as many */

static bool is_state_key(struct str key)
{
    for (size_t i = 0; i < key.n; i++) {
        char c = key.p[i];
        bool begins = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!begins && (i == 0 || !memchr("_-*/@", c, 5)))
            return false;
    }
    return key.n >= 1 && key.n <= MAX_STATE_KEY;
}

static bool is_state_value(struct str value)
{
    for (size_t i = 0; i < value.n; i++)
        if (value.p[i] < ' ' || value.p[i] > '~' || value.p[i] == '=')
            return false;
    return value.n >= 1 && value.n <= MAX_STATE_KEY;
}

/* The next member of the list, which may be empty. */
static struct str state_next(struct str *list)
{
    const char *comma = memchr(list->p, ',', list->n);
    size_t n = comma ? (size_t)(comma - list->p) : list->n;
    struct str member = str_trim((struct str){list->p, n});
    size_t used = comma ? n + 1 : n;
    *list = (struct str){list->p + used, list->n - used};
    return member;
}

static bool state_split(struct str text, struct str members[MAX_STATE_MEMBERS], size_t *ret_n)
{
    *ret_n = 0;
    while (text.n > 0) {
        struct str member = state_next(&text);
        if (member.n == 0)
            continue;
        const char *sign = memchr(member.p, '=', member.n);
        size_t key = sign ? (size_t)(sign - member.p) : 0;
        if (*ret_n == MAX_STATE_MEMBERS || !is_state_key((struct str){member.p, key}) ||
            !is_state_value((struct str){member.p + key + 1, member.n - key - 1}))
            return false;
        members[(*ret_n)++] = member;
    }
    return *ret_n > 0;
}

/* Which one goes first when there is too much: section 3.3.1.5. */
static size_t state_least_wanted(const struct str *members, size_t n)
{
    for (size_t i = n; i > 0; i--)
        if (members[i - 1].n > LONG_STATE_MEMBER)
            return i - 1;
    return n - 1;
}

static size_t state_bytes(const struct str *members, size_t n)
{
    size_t bytes = n ? n - 1 : 0;
    for (size_t i = 0; i < n; i++)
        bytes += members[i].n;
    return bytes;
}

struct str tracestate_read(struct str text, char room[MAX_TRACESTATE])
{
    struct str members[MAX_STATE_MEMBERS];
    size_t n, used = 0;
    if (!text.p || !state_split(text, members, &n))
        return STR_NULL;
    while (state_bytes(members, n) > MAX_TRACESTATE) {
        size_t i = state_least_wanted(members, n--);
        memmove(members + i, members + i + 1, (n - i) * sizeof *members);
    }
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            room[used++] = ',';
        memcpy(room + used, members[i].p, members[i].n);
        used += members[i].n;
    }
    return n ? (struct str){room, used} : STR_NULL;
}

/* --- as members of an object, and copies ------------------------------------------------------ */

bool trace_read_members(const struct js_doc *doc, uint32_t object, struct trace_context *ret,
                        char room[MAX_TRACESTATE])
{
    uint32_t node = js_get(doc, object, "traceparent");
    if (!node || js_type(doc, node) != JS_STRING || !traceparent_read(js_raw(doc, node), ret))
        return false;
    uint32_t state = js_get(doc, object, "tracestate");
    if (state && js_type(doc, state) == JS_STRING) {
        struct buf text = {0};
        js_value(doc, state, &text);
        ret->state = tracestate_read(buf_str(&text), room);
        buf_done(&text);
    }
    return true;
}

void trace_put_members(struct buf *out, const struct trace_context *context)
{
    js_put_raw(out, "traceparent", STR("\""));
    traceparent_put(out, context);
    buf_putc(out, '"');
    if (context->state.p)
        js_put_field(out, "tracestate", context->state);
}

void trace_put_head(struct buf *out, struct str parent, struct str state)
{
    char room[MAX_TRACESTATE];
    state = tracestate_read(state, room);
    buf_put(out, parent.p, parent.n < MAX_TRACEPARENT ? parent.n : MAX_TRACEPARENT);
    if (state.p) {
        buf_putc(out, '\n');
        buf_putstr(out, state);
    }
}

void trace_split_head(struct str head, struct str *ret_parent, struct str *ret_state)
{
    const char *end = memchr(head.p, '\n', head.n);
    size_t n = end ? (size_t)(end - head.p) : head.n;
    *ret_parent = (struct str){head.p, n};
    *ret_state = end ? (struct str){end + 1, head.n - n - 1} : STR_NULL;
}

void trace_keep(struct trace_copy *to, const struct trace_context *context)
{
    to->is_there = context != NULL;
    if (!context)
        return;
    to->context = *context;
    if (context->state.p) {
        to->state = xstrdup(context->state);
        to->context.state = str_of(to->state);
    }
}

void trace_drop(struct trace_copy *copy)
{
    free(copy->state);
    *copy = (struct trace_copy){0};
}

/* --- ids -------------------------------------------------------------------------------------- */

bool trace_of_task(struct str task_id, struct trace_context *ret)
{
    *ret = (struct trace_context){.sampled = true};
    if (!ulid_read(task_id, ret->trace_id))
        return false;
    memcpy(ret->span_id, ret->trace_id + 8, sizeof ret->span_id);
    return !id_is_zero(ret->span_id, sizeof ret->span_id);
}

void trace_child_id(const struct trace_context *parent, struct str name, unsigned char ret[8])
{
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < sizeof parent->span_id; i++)
        hash = (hash ^ parent->span_id[i]) * 0x100000001b3;
    for (size_t i = 0; i < name.n; i++)
        hash = (hash ^ (unsigned char)name.p[i]) * 0x100000001b3;
    if (hash == 0)
        hash = 1;
    for (int i = 0; i < 8; i++)
        ret[i] = (unsigned char)(hash >> (56 - 8 * i));
}

bool trace_is_sampled(const struct trace_context *context, double share)
{
    uint64_t low = 0; /* the last seven bytes are the random ones: level 2, section 3.2.2.4 */
    for (size_t i = 9; i < sizeof context->trace_id; i++)
        low = low << 8 | context->trace_id[i];
    return (double)low < share * (double)(1ULL << 56);
}

/* --- spans ------------------------------------------------------------------------------------ */

static void put_hex_field(struct buf *out, const char *key, const unsigned char *bytes, size_t n)
{
    js_put_key(out, key);
    buf_putc(out, '"');
    trace_hex_put(out, bytes, n);
    buf_putc(out, '"');
}

static void put_nanos(struct buf *out, const char *key, int64_t ms)
{
    js_put_key(out, key);
    buf_putf(out, "\"%lld000000\"", (long long)(ms > 0 ? ms : 0));
}

/* {"key":…,"value":{"stringValue":…}} */
static void put_attribute(struct buf *out, const char *key, struct str value)
{
    buf_putc(out, '{');
    js_put_field(out, "key", str_of(key));
    buf_puts(out, ",\"value\":{");
    js_put_field(out, "stringValue", value);
    buf_puts(out, "}}");
}

void span_begin(struct span_writer *w, struct buf *out, const struct span_head *head)
{
    const struct trace_context *context = head->context;
    *w = (struct span_writer){.out = out};
    buf_putc(out, '{');
    put_hex_field(out, "traceId", context->trace_id, sizeof context->trace_id);
    put_hex_field(out, "spanId", context->span_id, sizeof context->span_id);
    if (head->parent_id)
        put_hex_field(out, "parentSpanId", head->parent_id, 8);
    if (context->state.p)
        js_put_field(out, "traceState", context->state);
    js_put_field(out, "name", head->name);
    js_put_int(out, "kind", head->kind);
    put_nanos(out, "startTimeUnixNano", head->from_ms);
    put_nanos(out, "endTimeUnixNano", head->to_ms > head->from_ms ? head->to_ms : head->from_ms);
    js_put_raw(out, "attributes", STR("["));
}

static void attribute_comma(struct span_writer *w)
{
    ASSERT(!w->in_events);
    if (w->out->bytes[w->out->len - 1] != '[')
        buf_putc(w->out, ',');
}

void span_text(struct span_writer *w, const char *key, struct str value)
{
    if (!value.p)
        return;
    attribute_comma(w);
    put_attribute(w->out, key, value);
}

void span_int(struct span_writer *w, const char *key, int64_t value)
{
    attribute_comma(w);
    buf_putc(w->out, '{');
    js_put_field(w->out, "key", str_of(key));
    buf_putf(w->out, ",\"value\":{\"intValue\":\"%lld\"}}", (long long)value);
}

void span_event(struct span_writer *w, int64_t at_ms, const char *name, const char *key,
                struct str value)
{
    if (w->n_events++ >= MAX_TRACE_EVENTS)
        return;
    buf_puts(w->out, w->in_events ? "," : "],\"events\":[");
    w->in_events = true;
    buf_putc(w->out, '{');
    put_nanos(w->out, "timeUnixNano", at_ms);
    js_put_field(w->out, "name", str_of(name));
    js_put_raw(w->out, "attributes", STR("["));
    if (key && value.p)
        put_attribute(w->out, key, value);
    buf_puts(w->out, "]}");
}

void span_end(struct span_writer *w, struct str error)
{
    buf_putc(w->out, ']');
    if (w->n_events > MAX_TRACE_EVENTS)
        js_put_int(w->out, "droppedEventsCount", w->n_events - MAX_TRACE_EVENTS);
    js_put_raw(w->out, "status", STR("{"));
    if (error.p) {
        js_put_int(w->out, "code", 2);
        js_put_field(w->out, "message", error);
    } else {
        js_put_int(w->out, "code", 1);
    }
    buf_puts(w->out, "}}");
}

void spans_open(struct buf *out, struct str service, struct str instance, struct str version)
{
    buf_puts(out, "{\"resourceSpans\":[{\"resource\":{\"attributes\":[");
    put_attribute(out, "service.name", service);
    buf_putc(out, ',');
    put_attribute(out, "service.instance.id", instance);
    buf_putc(out, ',');
    put_attribute(out, "service.version", version);
    buf_puts(out, "]},\"scopeSpans\":[{\"scope\":{");
    js_put_field(out, "name", STR("holdfast"));
    js_put_field(out, "version", version);
    buf_puts(out, "},\"spans\":[");
}

void spans_close(struct buf *out)
{
    buf_puts(out, "]}]}]}");
}
