#include "gateway/models/model_stream.h"

#include <stdarg.h>
#include <stdio.h>

#include "gateway/fetch/complaint.h"
#include "gateway/models/model_fault.h"
#include "gateway/models/model_talk.h"

/* --- its end ---------------------------------------------------------------------------------- */

static void stream_tell_usage(struct model_stream *s)
{
    struct model_usage all = s->usage;
    model_usage_add(&all, &s->spent);
    if (s->has_usage && s->events.on_usage)
        s->events.on_usage(s->user, &all);
}

static void stream_end(struct model_stream *s, struct str error)
{
    struct model_fault fault = {.status = fetch_status(s->fetch), .begun = s->begun, .said = error};
    if (s->done)
        return;
    s->done = true;
    openai_answer_end(&s->answer);
    stream_tell_usage(s);
    s->events.on_done(s->user, error.p ? model_fault_reason(&fault) : MODEL_FAULT_OTHER, error);
}

void model_stream_fail(struct model_stream *s, const char *format, ...)
{
    char line[640];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    stream_end(s, (struct str){line, utf8_whole(str_of(line))});
}

void model_stream_complain(struct model_stream *s, uint32_t object)
{
    struct buf why = {0};
    complaint_put_node(&why, &s->doc, object);
    model_stream_fail(s, "the server said: %s", why.len ? why.bytes : "error");
    buf_done(&why);
}

/* Tells what goes back with the calls, and the calls. */
static size_t stream_tell_calls(struct model_stream *s)
{
    struct buf all = {0};
    buf_putc(&all, '[');
    buf_put(&all, s->items.bytes, s->items.len ? s->items.len - 1 : 0); /* no comma at the end */
    buf_putc(&all, ']');
    size_t n = 0;
    if (js_parse(&s->doc, all.bytes, all.len, JS_AGENT))
        n = s->api->tell_calls(s);
    if (n && s->events.on_more) {
        struct buf more = {0};
        model_talk_put_output(&more, s->api->name, buf_str(&all));
        s->events.on_more(s->user, buf_str(&more));
        buf_done(&more);
    }
    buf_done(&all);
    return n;
}

void model_stream_finish(struct model_stream *s)
{
    if (s->done || s->starts_over)
        return;
    openai_answer_end(&s->answer);
    if (stream_tell_calls(s) || s->answer.has_text || s->may_be_empty) {
        stream_end(s, STR_NULL);
    } else if (s->answer.has_thoughts) {
        model_stream_fail(s, "the model ended with thoughts but without an answer");
    } else {
        s->starts_over = true;
        fetch_end_within(s->fetch, 0);
    }
}

/* --- for the API ------------------------------------------------------------------------------ */

void model_stream_piece(struct model_stream *s, enum model_piece kind, uint32_t node)
{
    if (node && js_type(&s->doc, node) == JS_STRING)
        openai_answer_piece(&s->answer, &s->doc, node, kind);
}

struct item_place {
    size_t index, length; /* in the output; of its JSON and the comma */
};

/* Servers end items in another order than that of the output, which is what goes back. */
void model_stream_item(struct model_stream *s, size_t index, struct str json)
{
    struct item_place place = {index, json.n + 1};
    size_t n = s->places.len / sizeof place, end = s->items.len, at = end;
    if (end + json.n + s->places.len > OPENAI_THOUGHT_BYTES) {
        model_stream_fail(s, "an answer exceeds 4 MiB");
        return;
    }
    if (n == STREAM_MOST_ITEMS) {
        model_stream_fail(s, "an answer has more than %d items", STREAM_MOST_ITEMS);
        return;
    }
    buf_putstr(&s->items, json);
    buf_putc(&s->items, ',');
    buf_put(&s->places, &place, sizeof place);
    struct item_place *places = (struct item_place *)(void *)s->places.bytes;
    for (; n > 0 && places[n - 1].index > index; n--) {
        at -= places[n - 1].length;
        places[n] = places[n - 1];
    }
    if (at == end)
        return;
    places[n] = place;
    memmove(s->items.bytes + at + place.length, s->items.bytes + at, end - at);
    memcpy(s->items.bytes + at, json.p, json.n);
    s->items.bytes[at + json.n] = ',';
}

uint32_t model_stream_find(const struct model_stream *s, uint32_t object, const char *name,
                           enum js_type type)
{
    uint32_t node = js_get(&s->doc, object, name);
    return node && js_type(&s->doc, node) == type ? node : 0;
}

int64_t model_stream_count(const struct model_stream *s, uint32_t object, const char *name)
{
    uint32_t node = object ? model_stream_find(s, object, name, JS_NUMBER) : 0;
    int64_t n;
    return node && js_int(&s->doc, node, &n) ? model_count(n) : 0;
}

/* --- the reply -------------------------------------------------------------------------------- */

static const struct fetch_events stream_fetch_events;

static void stream_ask(struct model_stream *s)
{
    struct buf body = {0};
    buf_putstr(&body, buf_str(&s->request));
    if (s->api->extra && !s->settings->without_extra) {
        buf_putc(&body, ',');
        buf_puts(&body, s->api->extra);
    }
    buf_putc(&body, '}');
    struct fetch_request request = {.url = s->settings->url,
                                    .headers = s->settings->headers,
                                    .body = buf_str(&body),
                                    .trace = trace_kept(&s->trace)};
    s->fetch =
        fetch_start(s->settings->fetcher, &s->settings->options, &request, &stream_fetch_events, s);
    buf_done(&body);
}

static bool stream_parse(struct model_stream *s, struct str text)
{
    if (!js_parse(&s->doc, text.p, text.n, JS_AGENT))
        model_stream_fail(s, "the server sent something that is not JSON: %s", s->doc.error);
    else if (js_type(&s->doc, 0) != JS_OBJECT)
        model_stream_fail(s, "the server sent JSON that is not an object");
    return !s->done;
}

/* The type stands in the object; the event's name repeats it where servers send one. */
static void stream_take_event(struct model_stream *s, const struct sse_event *e)
{
    struct buf type = {0};
    if (s->done || s->starts_over || openai_is_idle(e) || openai_is_done(e->data) ||
        !stream_parse(s, e->data))
        return;
    uint32_t node = model_stream_find(s, 0, "type", JS_STRING);
    s->begun = true;
    if (node)
        js_value(&s->doc, node, &type);
    else
        buf_putstr(&type, js_get(&s->doc, 0, "error") ? STR("error") : e->event);
    s->api->take(s, buf_str(&type));
    buf_done(&type);
}

static void stream_on_head(void *user, const struct fetch_head *head)
{
    struct model_stream *s = user;
    s->says_events = stream_form_says_events(head->content_type);
    buf_done(&s->request);
}

static void stream_take_events(struct model_stream *s, struct str bytes)
{
    struct sse_event e;
    enum sse_result got = SSE_MORE;
    while (!s->done && (got = sse_reader_next(&s->sse, &bytes, &e)) == SSE_EVENT)
        stream_take_event(s, &e);
    if (got == SSE_TOO_LONG)
        model_stream_fail(s, "an event of the stream exceeds 4 MiB");
}

/* A reply is kept until it proves to be an event stream, or until it is whole. */
static bool stream_on_bytes(void *user, struct str bytes)
{
    struct model_stream *s = user;
    if (s->done)
        return false;
    if (s->starts_over)
        return true;
    if (s->form == FORM_UNKNOWN) {
        s->form = stream_form_begin(s->says_events, &s->whole, bytes);
        if (s->form != FORM_EVENTS)
            bytes = STR("");
    } else if (s->form == FORM_TEXT) {
        buf_putstr(&s->whole, bytes);
    }
    if (s->form == FORM_EVENTS && s->whole.len) {
        struct buf begun = s->whole;
        s->whole = (struct buf){0};
        stream_take_events(s, buf_str(&begun));
        buf_done(&begun);
    } else if (s->form == FORM_EVENTS) {
        stream_take_events(s, bytes);
    } else if (s->whole.len > STREAM_REPLY_BYTES) {
        model_stream_fail(s, "the reply exceeds 4 MiB");
    }
    return !s->done && !s->answer.paused;
}

static void stream_take_whole(struct model_stream *s)
{
    struct str text = buf_str(&s->whole);
    if (text.n == 0 && s->says_events)
        model_stream_fail(s, "the stream broke off before its end");
    else if (text.n == 0 || text.p[0] != '{')
        model_stream_fail(s, "the reply is neither an event stream nor JSON");
    else if (stream_parse(s, text))
        s->api->take_whole(s);
}

static bool stream_refuses_extra(const struct model_stream *s, struct str error)
{
    const char *word = s->api->extra_word;
    return s->api->extra && s->request.len && !s->refused && !s->settings->without_extra &&
           memmem(error.p, error.n, word, strlen(word));
}

static void stream_take_end(struct model_stream *s, struct str error)
{
    struct sse_event e;
    if (error.p && stream_refuses_extra(s, error)) {
        s->settings->without_extra = true;
        s->refused = s->fetch;
        stream_ask(s);
        return;
    }
    if (error.p) {
        stream_end(s, error);
        return;
    }
    if (s->form != FORM_EVENTS)
        stream_take_whole(s);
    else if (sse_reader_last(&s->sse, &e) == SSE_EVENT &&
             js_parse(&s->doc, e.data.p, e.data.n, JS_AGENT)) /* half an event is none */
        stream_take_event(s, &e);
    if (!s->done && !s->starts_over)
        model_stream_fail(s, "the stream broke off before its end");
}

/* Forgets the reply, except its cost. */
static void stream_start_over(struct model_stream *s)
{
    model_usage_add(&s->spent, &s->usage);
    s->usage = (struct model_usage){0};
    s->starts_over = s->begun = false;
    s->form = FORM_UNKNOWN;
    sse_reader_done(&s->sse);
    openai_answer_done(&s->answer);
    openai_answer_init(&s->answer, &s->events, s->user, s->settings->think_tag);
    buf_clear(&s->items);
    buf_clear(&s->places);
    buf_clear(&s->whole);
    s->api->forget(s);
    if (!fetch_again(s->fetch))
        model_stream_fail(s, "the model ended without an answer");
}

static void stream_on_done(void *user, struct str error)
{
    struct model_stream *s = user;
    if (s->done)
        return;
    if (!s->starts_over)
        stream_take_end(s, error);
    if (s->starts_over && !s->done)
        stream_start_over(s);
}

static const struct fetch_events stream_fetch_events = {stream_on_head, stream_on_bytes,
                                                        stream_on_done};

/* --- its life --------------------------------------------------------------------------------- */

void model_stream_begin(struct model_stream *s, const struct model_request *asked)
{
    s->may_be_empty = asked->may_be_empty;
    trace_keep(&s->trace, asked->trace);
    s->sse.max = STREAM_REPLY_BYTES;
    openai_answer_init(&s->answer, &s->events, s->user, s->settings->think_tag);
    stream_ask(s);
}

void model_stream_unpause(struct model_stream *s)
{
    s->answer.paused = false;
    if (!s->done)
        fetch_unpause(s->fetch);
}

void model_stream_done(struct model_stream *s)
{
    fetch_free(s->fetch);
    fetch_free(s->refused);
    buf_done(&s->request);
    sse_reader_done(&s->sse);
    js_done(&s->doc);
    buf_done(&s->whole);
    buf_done(&s->items);
    buf_done(&s->places);
    openai_answer_done(&s->answer);
    trace_drop(&s->trace);
}
