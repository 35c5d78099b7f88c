#include "proto/worker_frame.h"

#include "proto/str.h"

#define ESCAPED 6                     /* bytes of the longest escape of one byte */
#define MAX_REASON (32 * 1024)        /* bytes as written */
#define ARENA (4 * MAX_HELLO_MESSAGE) /* a broken byte may become three, and a list gets NULs */

/* A string's value: from the line itself, or from the arena, which has room for all of a frame. */
static struct str frame_text(struct worker_decoder *d, uint32_t node)
{
    if (d->doc.nodes[node].plain)
        return js_raw(&d->doc, node);
    size_t from = d->arena.len;
    js_value(&d->doc, node, &d->arena);
    return (struct str){d->arena.bytes + from, d->arena.len - from};
}

/* A member that must be a text of 1 to max bytes without NUL. */
static bool member_text(struct worker_decoder *d, const char *key, size_t max, struct str *ret)
{
    uint32_t node = js_get(&d->doc, 0, key);
    if (!node || js_type(&d->doc, node) != JS_STRING || d->doc.nodes[node].len > ESCAPED * max)
        return false;
    *ret = frame_text(d, node);
    return ret->n > 0 && ret->n <= max && !memchr(ret->p, 0, ret->n);
}

static bool frame_number(const struct worker_decoder *d, uint32_t node, int64_t least, int64_t most,
                         uint64_t *ret)
{
    int64_t n;
    if (!node || !js_int(&d->doc, node, &n) || n < least || n > most)
        return false;
    *ret = (uint64_t)n;
    return true;
}

static void frame_refuse(struct worker_frame *f, const char *why)
{
    f->kind = WORKER_BAD;
    f->error = why;
}

static bool frame_run(struct worker_decoder *d, struct worker_frame *f)
{
    uint32_t n = js_get(&d->doc, 0, "n");
    if (!member_text(d, "run", WORKER_MAX_RUN, &f->run))
        frame_refuse(f, "\"run\" must be the id of a run");
    else if (!frame_number(d, n, 1, MAX_SAFE_INTEGER, &f->n))
        frame_refuse(f, "\"n\" must be a number from 1 on");
    else
        return true;
    return false;
}

/* --- hello ------------------------------------------------------------------------------------ */

/* Names, a NUL after each, one after the other in the arena. */
static bool frame_agents(struct worker_decoder *d, struct worker_frame *f)
{
    uint32_t list = js_get(&d->doc, 0, "agents");
    size_t from = d->arena.len;
    if (!list || js_type(&d->doc, list) != JS_ARRAY || d->doc.nodes[list].len > MAX_HELLO_MESSAGE)
        return false;
    for (uint32_t i = js_first(&d->doc, list); i < js_end(&d->doc, list); i = js_next(&d->doc, i)) {
        size_t at = d->arena.len;
        if (js_type(&d->doc, i) != JS_STRING)
            return false;
        js_value(&d->doc, i, &d->arena);
        size_t n = d->arena.len - at;
        if (n == 0 || n > MAX_NAME || memchr(d->arena.bytes + at, 0, n))
            return false;
        buf_putc(&d->arena, 0);
    }
    f->agents = (struct str){d->arena.bytes + from, d->arena.len - from};
    return f->agents.n > 0;
}

static bool frame_open(struct worker_decoder *d, struct worker_frame *f)
{
    uint32_t open = js_get(&d->doc, 0, "open");
    uint64_t n;
    if (!open)
        return true;
    if (js_type(&d->doc, open) != JS_OBJECT)
        return false;
    for (uint32_t i = js_first(&d->doc, open); i < js_end(&d->doc, open);
         i = js_next(&d->doc, i + 1))
        if (!frame_number(d, i + 1, 0, MAX_SAFE_INTEGER, &n))
            return false;
    f->open = open;
    return true;
}

static void frame_hello(struct worker_decoder *d, struct worker_frame *f)
{
    uint64_t runs = 0;
    f->kind = WORKER_HELLO;
    if (!member_text(d, "worker", MAX_NAME, &f->worker))
        frame_refuse(f, "\"worker\" must be a name");
    else if (!member_text(d, "secret", WORKER_MAX_SECRET, &f->secret))
        frame_refuse(f, "\"secret\" must be a text");
    else if (!member_text(d, "instance", WORKER_MAX_INSTANCE, &f->instance))
        frame_refuse(f, "\"instance\" must be a text of 1 to 64 bytes");
    else if (!frame_agents(d, f))
        frame_refuse(f, "\"agents\" must be a list of names");
    else if (!frame_number(d, js_get(&d->doc, 0, "runs"), 1, WORKER_MAX_RUNS, &runs))
        frame_refuse(f, "\"runs\" must be a number from 1 to 500");
    else if (!frame_open(d, f))
        frame_refuse(f, "\"open\" must be an object of numbers");
    f->runs = (uint32_t)runs;
}

bool worker_frame_opens(const struct worker_decoder *d, const struct worker_frame *hello,
                        const char *run, uint64_t *ret_n)
{
    uint32_t node = hello->open ? js_get(&d->doc, hello->open, run) : 0;
    return node && frame_number(d, node, 0, MAX_SAFE_INTEGER, ret_n);
}

/* --- the others ------------------------------------------------------------------------------- */

static void frame_end(struct worker_decoder *d, struct worker_frame *f, uint32_t end)
{
    uint32_t why = js_get(&d->doc, 0, "error");
    f->kind = WORKER_END;
    f->failed = js_is(&d->doc, end, "failed");
    bool says = why && js_type(&d->doc, why) == JS_STRING && d->doc.nodes[why].len <= MAX_REASON;
    f->reason = says ? frame_text(d, why) : STR("");
    if (!f->failed && !js_is(&d->doc, end, "done"))
        frame_refuse(f, "\"end\" must be \"done\" or \"failed\"");
}

static void frame_take(struct worker_decoder *d, struct worker_frame *f)
{
    uint32_t type = js_get(&d->doc, 0, "type"), end = js_get(&d->doc, 0, "end");
    if (type && js_type(&d->doc, type) != JS_STRING)
        frame_refuse(f, "\"type\" must be a text");
    else if (type && js_is(&d->doc, type, "hello"))
        frame_hello(d, f);
    else if (type && js_is(&d->doc, type, "drain"))
        f->kind = WORKER_DRAIN;
    else if (type && !js_is(&d->doc, type, "ack"))
        f->kind = WORKER_NOTHING;
    else if (frame_run(d, f))
        f->kind = type ? WORKER_ACK : WORKER_LINE;
    if (f->kind == WORKER_LINE && end && js_type(&d->doc, end) == JS_STRING)
        frame_end(d, f, end);
    else if (f->kind == WORKER_LINE && end)
        frame_refuse(f, "\"end\" must be \"done\" or \"failed\"");
}

void worker_frame_decode(struct worker_decoder *d, struct str line, struct worker_frame *ret)
{
    *ret = (struct worker_frame){.kind = WORKER_NOTHING};
    if (str_is_blank(line))
        return;
    bool parsed = js_parse(&d->doc, line.p, line.n, JS_AGENT);
    if (!parsed && d->doc.error == js_out_of_memory) {
        ret->kind = WORKER_NO_MEMORY;
        return;
    }
    /* A key that stands twice is the agent's fault, and its run's end. */
    if ((!parsed && d->doc.error != js_duplicate_key) || js_type(&d->doc, 0) != JS_OBJECT) {
        frame_refuse(ret, "a frame must be a JSON object");
        return;
    }
    buf_clear(&d->arena);
    buf_reserve(&d->arena, ARENA); /* once: spans into it stay */
    frame_take(d, ret);
}

void worker_decoder_done(struct worker_decoder *d)
{
    js_done(&d->doc);
    buf_done(&d->arena);
}

/* --- from the gateway ------------------------------------------------------------------------- */

void worker_put_line(struct buf *out, const char *run, uint64_t n, struct str line)
{
    ASSERT(line.n > 2 && line.p[line.n - 1] == '}');
    buf_put(out, line.p, line.n - 1);
    js_put_field(out, "run", str_of(run));
    js_put_int(out, "n", (int64_t)n);
    buf_putc(out, '}');
}

void worker_put_ack(struct buf *out, const char *run, uint64_t n)
{
    worker_put_line(out, run, n, STR("{\"type\":\"ack\"}"));
}

void worker_put_cancel(struct buf *out, const char *run)
{
    buf_puts(out, "{\"type\":\"cancel\"");
    js_put_field(out, "run", str_of(run));
    buf_putc(out, '}');
}

void worker_put_gone(struct buf *out, struct str run)
{
    buf_puts(out, "{\"type\":\"gone\"");
    js_put_field(out, "run", run);
    buf_putc(out, '}');
}
