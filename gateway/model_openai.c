#include "gateway/model_openai.h"

#include "gateway/complaint.h"
#include "gateway/openai_chunk.h"
#include "proto/sse_reader.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define TURN_MAGIC 0x6f706169u

struct call_parts {
    int64_t index;
    struct buf id, name, arguments;
};

struct model_turn {
    unsigned magic;
    struct model_events events;
    void *user;
    struct fetch *fetch;
    struct sse_reader sse;
    struct js_doc doc;
    struct buf text;  /* scratch: a decoded string */
    struct buf whole; /* the reply of a server that does not stream */
    bool is_stream;
    bool paused;
    bool has_choices;
    char finish[32]; /* finish_reason, "" until it came */
    bool done;       /* on_done was called */
    struct call_parts *calls;
    size_t n_calls, call_bytes;
    struct model_usage usage;
    bool has_usage;
};

static struct model_turn *turn_of(void *arg)
{
    struct model_turn *t = arg;
    ASSERT(t && t->magic == TURN_MAGIC);
    return t;
}

/* ------------------------------------------------------------------ its end */

static void end(struct model_turn *t, struct str error)
{
    if (t->done)
        return;
    t->done = true;
    if (t->has_usage && t->events.on_usage)
        t->events.on_usage(t->user, &t->usage);
    t->events.on_done(t->user, error);
}

static void fail(struct model_turn *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void fail(struct model_turn *t, const char *format, ...)
{
    struct buf text = {0};
    char line[640];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    buf_putstr(&text, (struct str){line, utf8_cut(str_of(line), sizeof line)});
    end(t, buf_str(&text));
    buf_done(&text);
}

static void finish(struct model_turn *t)
{
    const char *why = openai_fault_of(t->finish);
    if (why) {
        end(t, str_of(why));
        return;
    }
    for (size_t i = 0; i < t->n_calls; i++) {
        const struct call_parts *c = &t->calls[i];
        t->events.on_tool_call(t->user, &(struct model_call){buf_str(&c->id), buf_str(&c->name),
                                                             buf_str(&c->arguments)});
    }
    end(t, STR_NULL);
}

/* ------------------------------------------------------------------ one chunk */

/* A member that is a string that says something: into t->text. */
static bool read_text(struct model_turn *t, uint32_t object, const char *name)
{
    uint32_t node = js_get(&t->doc, object, name);
    buf_clear(&t->text);
    if (node && js_type(&t->doc, node) == JS_STRING)
        js_value(&t->doc, node, &t->text);
    return t->text.len > 0;
}

static void say(struct model_turn *t, enum model_piece kind, uint32_t node)
{
    if (!node)
        return;
    buf_clear(&t->text);
    openai_put_piece(&t->doc, node, kind == PIECE_THINKING, &t->text);
    if (t->text.len == 0)
        return;
    t->paused = true; /* first, so that an unpause from inside is not forgotten */
    if (t->events.on_piece(t->user, kind, buf_str(&t->text)))
        t->paused = false;
}

/* There are servers that number every call 0: one with another id, and a name, is another call. */
static bool begins_another(struct model_turn *t, const struct call_parts *call, uint32_t piece)
{
    uint32_t function = js_get(&t->doc, piece, "function");
    return call->id.len > 0 && read_text(t, piece, "id") &&
           !str_eq(buf_str(&t->text), buf_str(&call->id)) && function &&
           js_type(&t->doc, function) == JS_OBJECT && read_text(t, function, "name");
}

/* The call that a piece belongs to: by its index; without one, a piece with an id begins a new call.
 */
static struct call_parts *find_call(struct model_turn *t, uint32_t piece)
{
    uint32_t node = js_get(&t->doc, piece, "index");
    int64_t index;
    if (!node || js_type(&t->doc, node) != JS_NUMBER || !js_int(&t->doc, node, &index))
        index = read_text(t, piece, "id") || t->n_calls == 0 ? (int64_t)t->n_calls
                                                             : (int64_t)t->n_calls - 1;
    for (size_t i = t->n_calls; i-- > 0;)
        if (t->calls[i].index == index && !begins_another(t, &t->calls[i], piece))
            return &t->calls[i];
    if (t->n_calls == OPENAI_CALLS)
        return NULL;
    t->calls = xrealloc(t->calls, (t->n_calls + 1) * sizeof *t->calls);
    t->calls[t->n_calls] = (struct call_parts){.index = index};
    return &t->calls[t->n_calls++];
}

static void add_text(struct model_turn *t, struct buf *to, uint32_t object, const char *name)
{
    if (!read_text(t, object, name))
        return;
    t->call_bytes += t->text.len;
    if (t->call_bytes <= OPENAI_REPLY_BYTES)
        buf_putstr(to, buf_str(&t->text));
}

/* A text of JSON, in pieces; there are servers that give the object itself. */
static void add_arguments(struct model_turn *t, struct buf *to, uint32_t function)
{
    uint32_t node = js_get(&t->doc, function, "arguments");
    size_t begun = to->len;
    if (!node || js_type(&t->doc, node) != JS_OBJECT) {
        add_text(t, to, function, "arguments");
        return;
    }
    js_copy(&t->doc, node, to);
    t->call_bytes += to->len - begun;
}

static void take_call(struct model_turn *t, uint32_t piece)
{
    if (js_type(&t->doc, piece) != JS_OBJECT)
        return;
    struct call_parts *call = find_call(t, piece);
    uint32_t function = js_get(&t->doc, piece, "function");
    if (!call) {
        fail(t, "a turn calls more than %d tools", OPENAI_CALLS);
        return;
    }
    if (call->id.len == 0) /* there are servers that repeat it */
        add_text(t, &call->id, piece, "id");
    if (!function || js_type(&t->doc, function) != JS_OBJECT)
        return;
    if (call->name.len == 0)
        add_text(t, &call->name, function, "name");
    add_arguments(t, &call->arguments, function);
    if (t->call_bytes > OPENAI_REPLY_BYTES)
        fail(t, "the calls of a turn pass 4 MiB");
}

static int64_t count_of(const struct js_doc *doc, uint32_t usage, const char *name)
{
    uint32_t node = js_get(doc, usage, name);
    int64_t n;
    return node && js_type(doc, node) == JS_NUMBER && js_int(doc, node, &n) && n > 0 ? n : 0;
}

static void take_chunk(struct model_turn *t, struct str text)
{
    struct js_doc *doc = &t->doc;
    struct openai_chunk c;
    if (!js_parse(doc, text.p, text.n, JS_AGENT)) {
        fail(t, "the server sent what is no JSON: %s", doc->error);
        return;
    }
    if (js_type(doc, 0) != JS_OBJECT) {
        fail(t, "the server sent JSON that is no object");
        return;
    }
    openai_read_chunk(doc, &c);
    if (c.error) {
        struct buf why = {0};
        complaint_put_node(&why, doc, 0);
        fail(t, "the server said: %s", why.len ? why.bytes : "error");
        buf_done(&why);
        return;
    }
    if (c.usage) {
        t->usage = (struct model_usage){count_of(doc, c.usage, "prompt_tokens"),
                                        count_of(doc, c.usage, "completion_tokens")};
        t->has_usage = true;
    }
    t->has_choices |= c.has_choices;
    say(t, PIECE_THINKING, c.thinking);
    say(t, PIECE_TOKEN, c.content);
    for (uint32_t i = c.tool_calls ? js_first(doc, c.tool_calls) : 0;
         i && i < js_end(doc, c.tool_calls) && !t->done; i = js_next(doc, i))
        take_call(t, i);
    if (c.finish_reason) {
        buf_clear(&t->text);
        js_value(doc, c.finish_reason, &t->text);
        snprintf(t->finish, sizeof t->finish, "%.*s", (int)t->text.len, t->text.bytes);
    }
}

/* ------------------------------------------------------------------ the reply */

static void take_event(struct model_turn *t, const struct sse_event *e)
{
    if (t->done || e->data.n == 0)
        return;
    if (openai_is_done(e->data))
        finish(t);
    else
        take_chunk(t, e->data);
}

static void on_head(void *user, const struct fetch_head *head)
{
    struct model_turn *t = turn_of(user);
    struct str type = STR("text/event-stream");
    t->is_stream =
        head->content_type.n >= type.n && str_eq((struct str){head->content_type.p, type.n}, type);
}

static bool on_bytes(void *user, struct str bytes)
{
    struct model_turn *t = turn_of(user);
    struct sse_event e;
    enum sse_result got = SSE_MORE;
    if (t->done)
        return false;
    if (!t->is_stream) {
        buf_putstr(&t->whole, bytes);
        if (t->whole.len > OPENAI_REPLY_BYTES)
            fail(t, "the reply passes 4 MiB");
        return !t->done;
    }
    while (!t->done && (got = sse_reader_next(&t->sse, &bytes, &e)) == SSE_EVENT)
        take_event(t, &e);
    if (got == SSE_TOO_LONG)
        fail(t, "an event of the stream passes 4 MiB");
    return !t->done && !t->paused;
}

static void take_whole(struct model_turn *t)
{
    struct str text = buf_str(&t->whole);
    while (text.n && (unsigned char)text.p[0] <= ' ')
        text = (struct str){text.p + 1, text.n - 1};
    if (text.n == 0 || text.p[0] != '{')
        fail(t, "the reply is neither an event stream nor JSON");
    else
        take_chunk(t, text);
    if (!t->done && !t->has_choices)
        fail(t, "the reply has no choices");
    else if (!t->done)
        finish(t);
}

/* What stands behind the last empty line of a stream may be half an event. */
static bool is_whole(struct model_turn *t, struct str text)
{
    return openai_is_done(text) || js_parse(&t->doc, text.p, text.n, JS_AGENT);
}

static void on_done(void *user, struct str error)
{
    struct model_turn *t = turn_of(user);
    struct sse_event e;
    if (t->done)
        return;
    if (error.p) {
        end(t, error);
    } else if (!t->is_stream) {
        take_whole(t);
    } else {
        if (sse_reader_last(&t->sse, &e) == SSE_EVENT && is_whole(t, e.data))
            take_event(t, &e);
        if (!t->done && t->finish[0])
            finish(t); /* not every server says [DONE] */
        else
            fail(t, "the stream broke off before its end");
    }
}

static const struct fetch_events fetch_events = {on_head, on_bytes, on_done};

/* ------------------------------------------------------------------ the port */

static struct model_turn *openai_start(void *settings, const struct model_request *request,
                                       const struct model_events *events, void *user,
                                       char *ret_error)
{
    const struct openai_settings *s = settings;
    struct buf body = {0};
    (void)ret_error;
    buf_putc(&body, '{');
    js_put_field(&body, "model", str_of(s->model));
    js_put_raw(&body, "messages", request->messages);
    if (request->tools.n > 2)
        js_put_raw(&body, "tools", request->tools);
    js_put_bool(&body, "stream", true);
    js_put_raw(&body, "stream_options", STR("{\"include_usage\":true}"));
    buf_putc(&body, '}');

    struct model_turn *t = xcalloc(sizeof *t);
    t->magic = TURN_MAGIC;
    t->events = *events;
    t->user = user;
    t->sse.max = OPENAI_REPLY_BYTES;
    struct fetch_request fetch = {.url = s->url, .headers = s->headers, .body = buf_str(&body)};
    t->fetch = fetch_start(s->fetcher, &s->options, &fetch, &fetch_events, t);
    buf_done(&body);
    return t;
}

static void openai_unpause(struct model_turn *turn)
{
    struct model_turn *t = turn_of(turn);
    t->paused = false;
    if (!t->done)
        fetch_unpause(t->fetch);
}

static void openai_free(struct model_turn *turn)
{
    if (!turn)
        return;
    struct model_turn *t = turn_of(turn);
    fetch_free(t->fetch);
    for (size_t i = 0; i < t->n_calls; i++) {
        buf_done(&t->calls[i].id);
        buf_done(&t->calls[i].name);
        buf_done(&t->calls[i].arguments);
    }
    free(t->calls);
    sse_reader_done(&t->sse);
    js_done(&t->doc);
    buf_done(&t->text);
    buf_done(&t->whole);
    t->magic = 0;
    free(t);
}

const struct model_ops model_openai_ops = {
    .kind = "openai",
    .start = openai_start,
    .unpause = openai_unpause,
    .free = openai_free,
};
