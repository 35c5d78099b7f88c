#include "gateway/models/model_openai.h"

#include "gateway/fetch/complaint.h"
#include "gateway/fetch/stream_form.h"
#include "gateway/models/openai_calls.h"
#include "gateway/models/openai_chunk.h"
#include "proto/sse_reader.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define TURN_MAGIC 0x6f706169u

struct model_turn {
    unsigned magic;
    struct model_events events;
    void *user;
    struct openai_settings *settings;
    struct buf request; /* until its head comes: the body, but for its end */
    struct fetch *fetch;
    struct fetch *refused; /* the one before; NULL: there was none */
    struct sse_reader sse;
    struct js_doc doc;
    struct buf text;  /* scratch: a decoded string */
    struct buf whole; /* the reply of a server that does not stream, or what it begins with */
    bool says_events;
    enum stream_form form;
    bool paused;
    bool has_choice;
    bool has_pieces; /* of the message */
    bool has_text;
    struct buf complaint; /* of a chunk that is none; "" when there was none */
    char finish[32];      /* finish_reason, "" until it came */
    bool done;            /* on_done was called */
    struct openai_calls calls;
    struct openai_half halves[2]; /* by enum model_piece */
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

/* t->text. */
static void say_text(struct model_turn *t, enum model_piece kind)
{
    if (t->text.len == 0)
        return;
    t->has_text |= kind == PIECE_TOKEN;
    t->paused = true; /* first, so that an unpause from inside is not forgotten */
    if (t->events.on_piece(t->user, kind, buf_str(&t->text)))
        t->paused = false;
}

static void say_rest(struct model_turn *t)
{
    for (enum model_piece kind = PIECE_THINKING; kind <= PIECE_TOKEN; kind++) {
        buf_clear(&t->text);
        openai_put_half(&t->halves[kind], &t->text);
        say_text(t, kind);
    }
}

static void end(struct model_turn *t, struct str error)
{
    if (t->done)
        return;
    t->done = true;
    say_rest(t);
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

static bool fail_by_reason(struct model_turn *t)
{
    struct buf why = {0};
    bool is_fault = openai_put_fault(t->finish, &why);
    if (is_fault)
        end(t, buf_str(&why));
    buf_done(&why);
    return is_fault;
}

static void finish(struct model_turn *t)
{
    struct model_call call;
    if (fail_by_reason(t))
        return;
    if (!t->finish[0] && t->complaint.len) {
        fail(t, "the server said: %s", t->complaint.bytes);
        return;
    }
    if (!t->has_choice) {
        fail(t, "the reply has no choices");
        return;
    }
    if (t->calls.n == 0 && !t->has_text && strcmp(t->finish, "tool_calls") == 0) {
        fail(t, "the model's server said that tools are called, and named none");
        return;
    }
    for (size_t i = 0; i < t->calls.n; i++)
        if (openai_calls_get(&t->calls, i, &call))
            t->events.on_tool_call(t->user, &call);
    end(t, STR_NULL);
}

/* ------------------------------------------------------------------ one chunk */

static void say(struct model_turn *t, enum model_piece kind, uint32_t node)
{
    if (!node)
        return;
    buf_clear(&t->text);
    openai_put_piece(&t->doc, node, kind == PIECE_THINKING, &t->halves[kind], &t->text);
    say_text(t, kind);
}

static int64_t count_of(const struct js_doc *doc, uint32_t usage, const char *name)
{
    uint32_t node = js_get(doc, usage, name);
    int64_t n;
    return node && js_type(doc, node) == JS_NUMBER && js_int(doc, node, &n) && n > 0 ? n : 0;
}

/* The last one that counts anything: there are servers that say one behind it that is empty. */
static void take_usage(struct model_turn *t, uint32_t node)
{
    struct model_usage usage = {count_of(&t->doc, node, "prompt_tokens"),
                                count_of(&t->doc, node, "completion_tokens")};
    if (!t->has_usage || usage.prompt_tokens || usage.completion_tokens)
        t->usage = usage;
    t->has_usage = true;
}

static void take_message(struct model_turn *t, const struct openai_chunk *c)
{
    const char *why = NULL;
    if (c->is_message && t->has_pieces)
        return; /* said already */
    t->has_pieces |= !c->is_message && (c->thinking || c->content || c->tool_calls);
    say(t, PIECE_THINKING, c->thinking);
    say(t, PIECE_TOKEN, c->content);
    if (c->tool_calls && !t->done)
        why = openai_calls_take(&t->calls, &t->doc, c->tool_calls);
    if (why)
        fail(t, "%s", why);
}

static void take_error(struct model_turn *t, const struct openai_chunk *c)
{
    struct buf why = {0};
    complaint_put_node(&why, &t->doc, c->error_in);
    fail(t, "the server said: %s", why.len ? why.bytes : "error");
    buf_done(&why);
}

static void take_object(struct model_turn *t)
{
    struct js_doc *doc = &t->doc;
    struct openai_chunk c;
    openai_read_chunk(doc, &c);
    if (c.usage)
        take_usage(t, c.usage);
    t->has_choice |= c.has_choice;
    take_message(t, &c);
    if (c.error)
        take_error(t, &c);
    else if (!c.has_choices && t->complaint.len == 0)
        complaint_put_node(&t->complaint, doc, 0);
    if (c.finish_reason) {
        buf_clear(&t->text);
        js_value(doc, c.finish_reason, &t->text);
        snprintf(t->finish, sizeof t->finish, "%.*s", (int)t->text.len, t->text.bytes);
    }
}

static void take_chunk(struct model_turn *t, struct str text)
{
    if (!js_parse(&t->doc, text.p, text.n, JS_AGENT))
        fail(t, "the server sent what is no JSON: %s", t->doc.error);
    else if (js_type(&t->doc, 0) != JS_OBJECT)
        fail(t, "the server sent JSON that is no object");
    else
        take_object(t);
}

/* ------------------------------------------------------------------ the reply */

static const struct fetch_events fetch_events;

static void ask(struct model_turn *t)
{
    const struct openai_settings *s = t->settings;
    struct buf body = {0};
    buf_putstr(&body, buf_str(&t->request));
    if (!s->without_usage)
        js_put_raw(&body, "stream_options", STR("{\"include_usage\":true}"));
    buf_putc(&body, '}');
    struct fetch_request fetch = {.url = s->url, .headers = s->headers, .body = buf_str(&body)};
    t->fetch = fetch_start(s->fetcher, &s->options, &fetch, &fetch_events, t);
    buf_done(&body);
}

static void fail_by_text(struct model_turn *t, struct str text)
{
    struct buf why = {0};
    complaint_put(&why, text);
    fail(t, "the server said: %s", why.len ? why.bytes : "error");
    buf_done(&why);
}

static void take_event(struct model_turn *t, const struct sse_event *e)
{
    if (t->done || openai_is_idle(e))
        return;
    if (str_eq(e->event, STR("error")))
        fail_by_text(t, e->data);
    else if (openai_is_done(e->data))
        finish(t);
    else
        take_chunk(t, e->data);
}

static void on_head(void *user, const struct fetch_head *head)
{
    struct model_turn *t = turn_of(user);
    t->says_events = stream_form_says_events(head->content_type);
    buf_done(&t->request);
}

static void take_events(struct model_turn *t, struct str bytes)
{
    struct sse_event e;
    enum sse_result got = SSE_MORE;
    while (!t->done && (got = sse_reader_next(&t->sse, &bytes, &e)) == SSE_EVENT)
        take_event(t, &e);
    if (got == SSE_TOO_LONG)
        fail(t, "an event of the stream passes 4 MiB");
}

/* Until it is seen to be an event stream, the reply is kept; a text is until it is whole. */
static void take_beginning(struct model_turn *t, struct str bytes)
{
    if (t->form == FORM_TEXT)
        buf_putstr(&t->whole, bytes);
    else
        t->form = stream_form_begin(t->says_events, &t->whole, bytes);
    if (t->form == FORM_EVENTS) {
        take_events(t, buf_str(&t->whole));
        buf_done(&t->whole);
    } else if (t->whole.len > OPENAI_REPLY_BYTES) {
        fail(t, "the reply passes 4 MiB");
    }
}

static bool on_bytes(void *user, struct str bytes)
{
    struct model_turn *t = turn_of(user);
    if (t->done)
        return false;
    if (t->form == FORM_EVENTS)
        take_events(t, bytes);
    else
        take_beginning(t, bytes);
    return !t->done && !t->paused;
}

/* There are servers that put the end of a stream behind a reply that is none. */
static struct str without_end(struct str text)
{
    static const char last[] = "data: [DONE]";
    while (text.n && (unsigned char)text.p[text.n - 1] <= ' ')
        text.n--;
    size_t n = sizeof last - 1;
    if (text.n >= n && memcmp(text.p + text.n - n, last, n) == 0)
        text.n -= n;
    return text;
}

static void take_whole(struct model_turn *t)
{
    struct str text = without_end(buf_str(&t->whole));
    if (text.n && text.p[0] == '[')
        fail_by_text(t, text);
    else if (text.n == 0 && t->says_events)
        fail(t, "the stream broke off before its end");
    else if (text.n == 0 || text.p[0] != '{')
        fail(t, "the reply is neither an event stream nor JSON");
    else
        take_chunk(t, text);
    if (!t->done)
        finish(t);
}

/* What stands behind the last empty line of a stream may be half an event. */
static bool is_whole(struct model_turn *t, const struct sse_event *e)
{
    return openai_is_done(e->data) || str_eq(e->event, STR("error")) ||
           js_parse(&t->doc, e->data.p, e->data.n, JS_AGENT);
}

/* Not every server knows how to count. */
static bool refuses_usage(const struct model_turn *t, struct str error)
{
    bool names_it = memmem(error.p, error.n, "stream_options", 14) ||
                    memmem(error.p, error.n, "include_usage", 13);
    return names_it && t->request.len && !t->refused && !t->settings->without_usage;
}

/* What comes behind finish_reason is no part of the answer: it may fail to come. */
static void on_done(void *user, struct str error)
{
    struct model_turn *t = turn_of(user);
    struct sse_event e;
    if (t->done)
        return;
    if (error.p && refuses_usage(t, error)) {
        t->settings->without_usage = true;
        t->refused = t->fetch;
        ask(t);
    } else if (error.p && !t->finish[0]) {
        end(t, error);
    } else if (t->form != FORM_EVENTS) {
        take_whole(t);
    } else {
        if (sse_reader_last(&t->sse, &e) == SSE_EVENT && is_whole(t, &e))
            take_event(t, &e);
        if (!t->done && t->finish[0])
            finish(t); /* not every server says [DONE] */
        else if (!t->done && t->complaint.len)
            fail(t, "the server said: %s", t->complaint.bytes);
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
    struct openai_settings *s = settings;
    (void)ret_error;
    struct model_turn *t = xcalloc(sizeof *t);
    t->magic = TURN_MAGIC;
    t->events = *events;
    t->user = user;
    t->settings = s;
    t->sse.max = OPENAI_REPLY_BYTES;
    buf_putc(&t->request, '{');
    js_put_field(&t->request, "model", str_of(s->model));
    js_put_raw(&t->request, "messages", request->messages);
    if (request->tools.n > 2)
        js_put_raw(&t->request, "tools", request->tools);
    js_put_bool(&t->request, "stream", true);
    ask(t);
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
    fetch_free(t->refused);
    buf_done(&t->request);
    openai_calls_done(&t->calls);
    sse_reader_done(&t->sse);
    js_done(&t->doc);
    buf_done(&t->text);
    buf_done(&t->whole);
    buf_done(&t->complaint);
    t->magic = 0;
    free(t);
}

const struct model_ops model_openai_ops = {
    .kind = "openai",
    .start = openai_start,
    .unpause = openai_unpause,
    .free = openai_free,
};
