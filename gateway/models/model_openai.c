#include "gateway/models/model_openai.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/fetch/complaint.h"
#include "gateway/fetch/stream_form.h"
#include "gateway/models/json_end.h"
#include "gateway/models/model_fault.h"
#include "gateway/models/model_talk.h"
#include "gateway/models/openai_answer.h"
#include "gateway/models/openai_calls.h"
#include "proto/sse_reader.h"

#define TURN_MAGIC 0x6f706169u

struct model_turn {
    unsigned magic;
    enum stream_form form;
    bool says_events;
    bool may_be_empty;
    bool starts_over; /* the reply was empty: it is dropped, and the request sent again */
    bool has_choice;
    bool has_pieces; /* has pieces of the message */
    bool has_usage;
    bool done; /* on_done was called */
    struct model_events events;
    void *user;
    struct openai_settings *settings;
    struct buf request; /* until its head comes: the body, without its end */
    struct fetch *fetch;
    struct fetch *refused; /* the previous one; NULL: there was none */
    struct sse_reader sse;
    struct js_doc doc;
    struct buf whole; /* the reply of a server that does not stream, or its beginning */
    struct json_end whole_end;
    struct trace_copy trace;
    struct openai_answer answer;
    struct buf complaint; /* from a chunk that is an error; "" when there was none */
    char finish[32];      /* finish_reason, "" until it came */
    struct openai_calls calls;
    struct model_usage usage, spent; /* of this reply, of earlier ones */
};

static struct model_turn *turn_of(void *arg)
{
    struct model_turn *t = arg;
    ASSERT(t && t->magic == TURN_MAGIC);
    return t;
}

/* --- its end ---------------------------------------------------------------------------------- */

static void tell_usage(struct model_turn *t)
{
    struct model_usage all = t->usage;
    model_usage_add(&all, &t->spent);
    if (t->has_usage && t->events.on_usage)
        t->events.on_usage(t->user, &all);
}

static enum model_reason reason_of(const struct model_turn *t, struct str error)
{
    struct model_fault fault = {.status = fetch_status(t->fetch),
                                .begun = t->has_choice || t->form == FORM_EVENTS,
                                .said = error};
    return model_fault_reason(&fault);
}

static void openai_end(struct model_turn *t, struct str error)
{
    if (t->done)
        return;
    t->done = true;
    openai_answer_end(&t->answer);
    tell_usage(t);
    t->events.on_done(t->user, error.p ? reason_of(t, error) : MODEL_FAULT_OTHER, error);
}

static void openai_fail(struct model_turn *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void openai_fail(struct model_turn *t, const char *format, ...)
{
    struct buf text = {0};
    char line[640];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    buf_putstr(&text, (struct str){line, utf8_whole(str_of(line))});
    openai_end(t, buf_str(&text));
    buf_done(&text);
}

static bool fail_by_reason(struct model_turn *t)
{
    struct buf why = {0};
    bool is_fault = openai_put_fault(t->finish, &why);
    if (is_fault)
        openai_end(t, buf_str(&why));
    buf_done(&why);
    return is_fault;
}

static size_t tell_calls(struct model_turn *t)
{
    struct model_call call;
    size_t n = 0;
    openai_calls_part(&t->calls);
    for (size_t i = 0; i < t->calls.n; i++) {
        if (!openai_calls_get(&t->calls, i, &call))
            continue;
        if (n++ == 0)
            openai_answer_tell_more(&t->answer);
        t->events.on_tool_call(t->user, &call);
    }
    return n;
}

/* The reply has no answer.  Nothing was sent of it, so the request may be tried again. */
static void finish_empty(struct model_turn *t)
{
    if (t->may_be_empty) {
        openai_end(t, STR_NULL);
    } else if (t->answer.has_thoughts) {
        openai_fail(t, "the model ended with thoughts but without an answer");
    } else {
        t->starts_over = true;
        fetch_end_within(t->fetch, 0);
    }
}

static void openai_finish(struct model_turn *t)
{
    if (t->starts_over || fail_by_reason(t))
        return;
    if (!t->finish[0] && t->complaint.len) {
        openai_fail(t, "the server said: %s", t->complaint.bytes);
        return;
    }
    if (!t->has_choice) {
        openai_fail(t, "the reply has no choices");
        return;
    }
    if (t->calls.n == 0 && !t->answer.has_text && strcmp(t->finish, "tool_calls") == 0) {
        openai_fail(t, "the model's server reported tool calls, but named none");
        return;
    }
    openai_answer_end(&t->answer);
    if (tell_calls(t) || t->answer.has_text)
        openai_end(t, STR_NULL);
    else
        finish_empty(t);
}

/* --- one chunk -------------------------------------------------------------------------------- */

static int64_t count_of(const struct js_doc *doc, uint32_t usage, const char *name)
{
    uint32_t node = js_get(doc, usage, name);
    int64_t n;
    return node && js_type(doc, node) == JS_NUMBER && js_int(doc, node, &n) ? model_count(n) : 0;
}

/* OpenAI's place for it, then DeepSeek's and Moonshot's. */
static int64_t cached_of(const struct js_doc *doc, uint32_t usage)
{
    uint32_t details = js_get(doc, usage, "prompt_tokens_details");
    int64_t n =
        details && js_type(doc, details) == JS_OBJECT ? count_of(doc, details, "cached_tokens") : 0;
    n = n ? n : count_of(doc, usage, "prompt_cache_hit_tokens");
    return n ? n : count_of(doc, usage, "cached_tokens");
}

/* The last one that counts anything, because some servers send an empty one after it. */
static void take_usage(struct model_turn *t, uint32_t node)
{
    struct model_usage usage = {count_of(&t->doc, node, "prompt_tokens"),
                                count_of(&t->doc, node, "completion_tokens"),
                                cached_of(&t->doc, node)};
    if (!t->has_usage || usage.prompt_tokens || usage.completion_tokens)
        t->usage = usage;
    t->has_usage = true;
}

static void take_message(struct model_turn *t, const struct openai_chunk *c)
{
    const char *why = NULL;
    if (c->is_message && t->has_pieces)
        return; /* sent already */
    t->has_pieces |= !c->is_message && (c->thinking || c->content || c->tool_calls);
    if (t->finish[0] && (c->thinking || c->content || c->tool_calls))
        fetch_end_within(t->fetch, OPENAI_GRACE_MS); /* some servers give each piece a reason */
    openai_answer_take(&t->answer, &t->doc, c);
    if (c->tool_calls && !t->done)
        why = openai_calls_take(&t->calls, &t->doc, c->tool_calls);
    if (why)
        openai_fail(t, "%s", why);
}

static void take_error(struct model_turn *t, const struct openai_chunk *c)
{
    struct buf why = {0};
    complaint_put_node(&why, &t->doc, c->error_in);
    openai_fail(t, "the server said: %s", why.len ? why.bytes : "error");
    buf_done(&why);
}

static void take_reason(struct model_turn *t, uint32_t node)
{
    struct buf text = {0};
    js_value(&t->doc, node, &text);
    snprintf(t->finish, sizeof t->finish, "%.*s",
             (int)utf8_cut(buf_str(&text), sizeof t->finish - 1), text.bytes);
    buf_done(&text);
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
        take_reason(t, c.finish_reason);
        fetch_end_within(t->fetch, OPENAI_GRACE_MS);
    }
}

static void take_chunk(struct model_turn *t, struct str text)
{
    if (!js_parse(&t->doc, text.p, text.n, JS_AGENT))
        openai_fail(t, "the server sent something that is not JSON: %s", t->doc.error);
    else if (js_type(&t->doc, 0) != JS_OBJECT)
        openai_fail(t, "the server sent JSON that is not an object");
    else
        take_object(t);
}

/* --- the reply -------------------------------------------------------------------------------- */

static const struct fetch_events openai_fetch_events;

static void openai_ask(struct model_turn *t)
{
    const struct openai_settings *s = t->settings;
    struct buf body = {0};
    buf_putstr(&body, buf_str(&t->request));
    if (!s->without_usage)
        js_put_raw(&body, "stream_options", STR("{\"include_usage\":true}"));
    buf_putc(&body, '}');
    struct fetch_request fetch = {.url = s->url,
                                  .headers = s->headers,
                                  .body = buf_str(&body),
                                  .trace = trace_kept(&t->trace)};
    t->fetch = fetch_start(s->fetcher, &s->options, &fetch, &openai_fetch_events, t);
    buf_done(&body);
}

static void fail_by_text(struct model_turn *t, struct str text)
{
    struct buf why = {0};
    complaint_put(&why, text);
    openai_fail(t, "the server said: %s", why.len ? why.bytes : "error");
    buf_done(&why);
}

static void openai_take_event(struct model_turn *t, const struct sse_event *e)
{
    if (t->done || t->starts_over || openai_is_idle(e))
        return;
    if (str_eq(e->event, STR("error")))
        fail_by_text(t, e->data);
    else if (openai_is_done(e->data))
        openai_finish(t);
    else
        take_chunk(t, e->data);
}

static void openai_on_head(void *user, const struct fetch_head *head)
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
        openai_take_event(t, &e);
    if (got == SSE_TOO_LONG)
        openai_fail(t, "an event of the stream exceeds 4 MiB");
}

static void take_whole(struct model_turn *t);

/* JSON shows its own end, whatever happens to the connection. */
static void take_text(struct model_turn *t, struct str bytes)
{
    size_t n = json_end_find(&t->whole_end, bytes);
    buf_put(&t->whole, bytes.p, n ? n : bytes.n);
    if (n)
        take_whole(t);
    else if (t->whole.len > OPENAI_REPLY_BYTES)
        openai_fail(t, "the reply exceeds 4 MiB");
}

/* The reply is kept until it proves to be an event stream; a text is kept until it is whole. */
static void take_beginning(struct model_turn *t, struct str bytes)
{
    t->form = stream_form_begin(t->says_events, &t->whole, bytes);
    if (t->form == FORM_UNKNOWN)
        return;
    struct buf begun = t->whole;
    t->whole = (struct buf){0};
    if (t->form == FORM_EVENTS)
        take_events(t, buf_str(&begun));
    else
        take_text(t, buf_str(&begun));
    buf_done(&begun);
}

static bool openai_on_bytes(void *user, struct str bytes)
{
    struct model_turn *t = turn_of(user);
    if (t->done)
        return false;
    if (t->starts_over)
        return true; /* bytes after the end are not read */
    switch (t->form) {
    case FORM_EVENTS: take_events(t, bytes); break;
    case FORM_TEXT: take_text(t, bytes); break;
    case FORM_UNKNOWN: take_beginning(t, bytes); break;
    }
    return !t->done && !t->answer.paused;
}

static void take_whole(struct model_turn *t)
{
    struct str text = buf_str(&t->whole);
    if (text.n && text.p[0] == '[')
        fail_by_text(t, text);
    else if (text.n == 0 && t->says_events)
        openai_fail(t, "the stream broke off before its end");
    else if (text.n == 0 || text.p[0] != '{')
        openai_fail(t, "the reply is neither an event stream nor JSON");
    else
        take_chunk(t, text);
    if (!t->done)
        openai_finish(t);
}

/* Text after the last empty line of a stream may be half an event. */
static bool is_whole(struct model_turn *t, const struct sse_event *e)
{
    return openai_is_done(e->data) || str_eq(e->event, STR("error")) ||
           js_parse(&t->doc, e->data.p, e->data.n, JS_AGENT);
}

/* Not every server can count. */
static bool refuses_usage(const struct model_turn *t, struct str error)
{
    bool names_it = memmem(error.p, error.n, "stream_options", 14) ||
                    memmem(error.p, error.n, "include_usage", 13);
    return names_it && t->request.len && !t->refused && !t->settings->without_usage;
}

/* Anything after finish_reason is not part of the answer: it may be missing. */
static void take_end(struct model_turn *t, struct str error)
{
    struct sse_event e;
    if (error.p && refuses_usage(t, error)) {
        t->settings->without_usage = true;
        t->refused = t->fetch;
        openai_ask(t);
    } else if (error.p && !t->finish[0]) {
        openai_end(t, error);
    } else if (t->form != FORM_EVENTS) {
        take_whole(t);
    } else {
        if (sse_reader_last(&t->sse, &e) == SSE_EVENT && is_whole(t, &e))
            openai_take_event(t, &e);
        if (t->done || t->starts_over)
            return;
        if (t->finish[0])
            openai_finish(t); /* not every server sends [DONE] */
        else if (t->complaint.len)
            openai_fail(t, "the server said: %s", t->complaint.bytes);
        else
            openai_fail(t, "the stream broke off before its end");
    }
}

/* Forgets the reply, except its cost. */
static void clear_reply(struct model_turn *t)
{
    model_usage_add(&t->spent, &t->usage);
    t->usage = (struct model_usage){0};
    t->starts_over = t->has_choice = t->has_pieces = false;
    t->form = FORM_UNKNOWN;
    t->finish[0] = '\0';
    t->whole_end = (struct json_end){0};
    sse_reader_done(&t->sse);
    openai_calls_done(&t->calls);
    openai_answer_done(&t->answer);
    openai_answer_init(&t->answer, &t->events, t->user, t->settings->think_tag);
    buf_clear(&t->whole);
    buf_clear(&t->complaint);
}

static void start_over(struct model_turn *t)
{
    clear_reply(t);
    if (!fetch_again(t->fetch))
        openai_fail(t, "the model ended without an answer");
}

static void openai_on_done(void *user, struct str error)
{
    struct model_turn *t = turn_of(user);
    if (t->done)
        return;
    if (!t->starts_over)
        take_end(t, error);
    if (t->starts_over && !t->done)
        start_over(t);
}

static const struct fetch_events openai_fetch_events = {openai_on_head, openai_on_bytes,
                                                        openai_on_done};

/* --- the port --------------------------------------------------------------------------------- */

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
    t->may_be_empty = request->may_be_empty;
    trace_keep(&t->trace, request->trace);
    openai_answer_init(&t->answer, &t->events, user, s->think_tag);
    buf_putc(&t->request, '{');
    js_put_field(&t->request, "model", str_of(s->model));
    js_put_key(&t->request, "messages");
    model_talk_put_plain(&t->request, request->messages);
    if (s->effort)
        js_put_field(&t->request, "reasoning_effort", str_of(s->effort));
    if (s->max_tokens)
        js_put_int(&t->request, "max_tokens", s->max_tokens);
    if (request->tools.n > 2)
        js_put_raw(&t->request, "tools", request->tools);
    js_put_bool(&t->request, "stream", true);
    openai_ask(t);
    return t;
}

static void openai_unpause(struct model_turn *turn)
{
    struct model_turn *t = turn_of(turn);
    t->answer.paused = false;
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
    buf_done(&t->whole);
    buf_done(&t->complaint);
    openai_answer_done(&t->answer);
    trace_drop(&t->trace);
    t->magic = 0;
    free(t);
}

const struct model_ops model_openai_ops = {
    .kind = "openai",
    .start = openai_start,
    .unpause = openai_unpause,
    .free = openai_free,
};
