#include "gateway/agents/agent_http.h"

#include <stdlib.h>

#include "gateway/agents/http_again.h"
#include "gateway/agents/run_line.h"
#include "gateway/agents/teller.h"
#include "gateway/base/fault.h"
#include "gateway/base/stepper.h"
#include "gateway/fetch/complaint.h"
#include "gateway/fetch/stream_form.h"
#include "gateway/models/openai_chunk.h"
#include "proto/forms/remote.h"
#include "proto/sse_reader.h"

#define RUN_MAGIC 0x68747470u

struct run {
    unsigned magic;
    const struct http_settings *s;
    struct teller teller;
    struct stepper stepper; /* ends it after a cancel, or when it has settled; asks again */
    struct fetch *fetch;
    struct buf request; /* without its closing brace, where it may be asked again; else "" */
    bool asks_again;
    int64_t tokens_in, tokens_out; /* of the last chunk that counts any */
    struct trace_copy trace;
    bool says_events;
    enum stream_form form;
    bool framed;
    bool is_whole;   /* final_answer, finish_reason or [DONE] was received */
    bool is_over;    /* the last two: nothing more of it can come */
    bool has_pieces; /* has pieces of OpenAI's message */
    bool has_chunks;
    bool has_answer; /* the answer has more than white space */
    bool settled;    /* see http_settle */
    bool cancelled;
    bool ended;
    struct sse_reader events;
    struct buf line; /* the beginning of an incomplete line, or of the reply */
    struct agent_line_decoder decoder;
    struct openai_half thinking, answer;
    struct buf text;
    struct http_again again;
};

static struct run *agent_http_run_of(void *arg)
{
    struct run *r = arg;
    ASSERT(r && r->magic == RUN_MAGIC);
    return r;
}

static void agent_http_end(struct run *r, enum run_end how, struct str text)
{
    if (r->ended)
        return;
    r->ended = true;
    stepper_stop(&r->stepper);
    r->teller.events.on_end(r->teller.task, how, text);
}

/* --- its output ------------------------------------------------------------------------------- */

/* Its text is in r->text. */
static void http_say_text(struct run *r, enum event_type event)
{
    if (r->text.len == 0)
        return;
    r->has_answer |= event == EVENT_TOKEN && !openai_is_blank(buf_str(&r->text));
    teller_piece(&r->teller, event, buf_str(&r->text));
    FAULT_DIE(LINE_TAKEN);
}

static void say_node(struct run *r, enum event_type event, uint32_t node)
{
    if (!node)
        return;
    bool thinks = event == EVENT_THINKING;
    buf_clear(&r->text);
    openai_put_piece(&r->decoder.doc, node, thinks, thinks ? &r->thinking : &r->answer, &r->text);
    http_say_text(r, event);
}

static void say_usage(struct run *r)
{
    struct buf *b = &r->text;
    if (r->tokens_in + r->tokens_out == 0)
        return;
    buf_clear(b);
    buf_puts(b, "{\"usage\":{");
    js_put_int(b, "prompt_tokens", r->tokens_in);
    js_put_int(b, "completion_tokens", r->tokens_out);
    js_put_int(b, "total_tokens", r->tokens_in + r->tokens_out);
    buf_puts(b, "}}");
    teller_result(&r->teller, buf_str(b));
}

/* The agent has said its end. */
static void finish(struct run *r)
{
    if (r->ended)
        return;
    buf_clear(&r->text);
    openai_put_half(&r->answer, &r->text);
    http_say_text(r, EVENT_TOKEN);
    say_usage(r);
    if (r->has_chunks && !r->has_answer)
        agent_http_end(r, RUN_FAILED, STR("the agent ended without an answer"));
    else
        agent_http_end(r, RUN_DONE, STR_NULL);
}

static void end_with_complaint(struct run *r, struct str complaint)
{
    struct buf why = {0};
    buf_puts(&why, "the agent said: ");
    buf_putstr(&why, complaint.n ? complaint : STR("error"));
    agent_http_end(r, RUN_FAILED, buf_str(&why));
    buf_done(&why);
}

static void say_message(struct run *r, const struct openai_chunk *c)
{
    if (c->is_message && r->has_pieces)
        return; /* already sent */
    r->has_pieces |= !c->is_message && (c->thinking || c->content);
    if (r->is_over && (c->thinking || c->content))
        fetch_end_within(r->fetch, OPENAI_GRACE_MS); /* some servers give each piece a reason */
    say_node(r, EVENT_THINKING, c->thinking);
    say_node(r, EVENT_TOKEN, c->content);
}

static void take_reason(struct run *r, uint32_t node)
{
    struct buf why = {0};
    buf_clear(&r->text);
    js_value(&r->decoder.doc, node, &r->text);
    r->is_whole = r->is_over = true;
    if (openai_put_fault(r->text.bytes, &why))
        agent_http_end(r, RUN_FAILED, buf_str(&why));
    else
        fetch_end_within(r->fetch, OPENAI_GRACE_MS);
    buf_done(&why);
}

static int64_t http_count(const struct js_doc *doc, uint32_t usage, const char *name)
{
    int64_t n;
    uint32_t node = js_get(doc, usage, name);
    return node && js_int(doc, node, &n) && n > 0 && n <= MAX_SAFE_INTEGER / 2 ? n : 0;
}

static void take_usage(struct run *r, uint32_t usage)
{
    int64_t in = http_count(&r->decoder.doc, usage, "prompt_tokens");
    int64_t out = http_count(&r->decoder.doc, usage, "completion_tokens");
    if (in + out == 0)
        return;
    r->tokens_in = in;
    r->tokens_out = out;
}

/* A chunk of OpenAI's, or an error object; false when it is neither. */
static bool take_chunk(struct run *r, struct str text)
{
    struct js_doc *doc = &r->decoder.doc;
    struct openai_chunk c;
    if (!js_parse(doc, text.p, text.n, JS_AGENT) || js_type(doc, 0) != JS_OBJECT ||
        js_get(doc, 0, "event") || js_get(doc, 0, "call"))
        return false;
    openai_read_chunk(doc, &c);
    if (!c.error && !c.has_choices)
        return false;
    r->has_chunks |= c.has_choice;
    if (c.usage)
        take_usage(r, c.usage);
    say_message(r, &c);
    if (c.error) {
        struct buf why = {0};
        complaint_put_node(&why, doc, c.error_in);
        end_with_complaint(r, buf_str(&why));
        buf_done(&why);
    } else if (c.finish_reason) {
        take_reason(r, c.finish_reason);
    }
    return true;
}

static void agent_http_take_line(struct run *r, struct str text)
{
    struct agent_line line;
    if (r->ended || text.n == 0)
        return;
    if (openai_is_done(text)) {
        finish(r);
        return;
    }
    if (take_chunk(r, text))
        return;
    if (!agent_line_decode(&r->decoder, text, &line)) {
        (void)r->teller.events.on_line(r->teller.task, text); /* core reports what is wrong */
        return;
    }
    if (line.kind != LINE_EMPTY && line.kind != LINE_EVENT && line.kind != LINE_RESULT &&
        line.kind != LINE_TITLE) {
        agent_http_end(r, RUN_FAILED, STR("a call, which an agent of kind http cannot make"));
        return;
    }
    if (line.kind == LINE_EVENT && line.event == EVENT_INPUT_REQUIRED) {
        agent_http_end(r, RUN_FAILED, STR("a question, which an agent of kind http cannot ask"));
        return;
    }
    if (line.kind == LINE_EVENT && line.event == EVENT_FINAL_ANSWER)
        r->is_whole = r->has_answer = true;
    if (line.kind != LINE_EMPTY)
        teller_say(&r->teller, &line);
    FAULT_DIE(LINE_TAKEN);
}

/* --- the reply -------------------------------------------------------------------------------- */

static void agent_http_on_head(void *user, const struct fetch_head *head)
{
    struct run *r = agent_http_run_of(user);
    r->framed = head->framed;
    r->says_events = stream_form_says_events(head->content_type);
    bool goes_on = r->again.goes_on && str_eq(head->wanted, buf_str(&r->again.last_id));
    if (r->again.is_resumed && !goes_on) {
        r->is_whole = r->has_answer = false;
        http_again_begin_anew(&r->again, &r->teller.events, r->teller.task);
    }
    r->again.is_resumed = r->again.goes_on = false;
    FAULT_DIE(REPLY_HEAD);
}

static void agent_http_take_event(struct run *r, const struct sse_event *e)
{
    struct buf why = {0};
    if (r->s->goes_on && !r->s->model)
        http_again_keep(&r->again, e->id);
    if (openai_is_idle(e))
        return;
    if (!str_eq(e->event, STR("error"))) {
        agent_http_take_line(r, e->data);
        return;
    }
    complaint_put(&why, e->data);
    end_with_complaint(r, buf_str(&why));
    buf_done(&why);
}

static void agent_http_take_lines(struct run *r, struct str bytes)
{
    const char *newline;
    while (!r->ended && (newline = memchr(bytes.p, '\n', bytes.n)) != NULL) {
        struct str line = {bytes.p, (size_t)(newline - bytes.p)};
        bytes = (struct str){newline + 1, bytes.n - line.n - 1};
        if (r->line.len) {
            buf_putstr(&r->line, line);
            line = buf_str(&r->line);
        }
        if (line.n && line.p[line.n - 1] == '\r')
            line.n--;
        agent_http_take_line(r, line);
        buf_clear(&r->line);
    }
    if (r->line.len + bytes.n > SSE_MAX_EVENT)
        agent_http_end(r, RUN_FAILED, STR("a line of the reply exceeds 4 MiB"));
    else
        buf_putstr(&r->line, bytes);
}

static void take_events(struct run *r, struct str bytes)
{
    struct sse_event e;
    enum sse_result got = SSE_MORE;
    while (!r->ended && (got = sse_reader_next(&r->events, &bytes, &e)) == SSE_EVENT)
        agent_http_take_event(r, &e);
    if (got == SSE_TOO_LONG)
        agent_http_end(r, RUN_FAILED, STR("an event of the reply exceeds 4 MiB"));
}

static void take_beginning(struct run *r, struct str bytes)
{
    r->form = stream_form_begin(r->says_events, &r->line, bytes);
    if (r->form == FORM_UNKNOWN)
        return;
    struct buf begun = r->line;
    r->line = (struct buf){0};
    if (r->form == FORM_EVENTS)
        take_events(r, buf_str(&begun));
    else
        agent_http_take_lines(r, buf_str(&begun));
    buf_done(&begun);
}

static bool agent_http_on_bytes(void *user, struct str bytes)
{
    struct run *r = agent_http_run_of(user);
    if (r->form == FORM_UNKNOWN && !r->ended)
        take_beginning(r, bytes);
    else if (r->form == FORM_EVENTS)
        take_events(r, bytes);
    else
        agent_http_take_lines(r, bytes);
    if (!r->ended)
        http_again_note(&r->again, &r->teller.events, r->teller.task);
    return !r->ended && !r->teller.paused;
}

/* A last line needs no newline, unless it broke off in the middle: that is not a fault of its
 * text. */
static void take_last(struct run *r, struct str text, bool is_cut)
{
    struct js_doc doc = {0};
    bool is_torn = is_cut && !openai_is_done(text) && !js_parse(&doc, text.p, text.n, JS_AGENT);
    js_done(&doc);
    if (!is_torn)
        agent_http_take_line(r, text);
}

/* Takes the text after the last newline, or empty line.  is_cut: its end may be missing. */
static void take_rest(struct run *r, bool is_cut)
{
    struct sse_event e;
    if (r->form != FORM_EVENTS) {
        struct buf line = r->line;
        r->line = (struct buf){0};
        if (line.len)
            take_last(r, buf_str(&line), is_cut);
        buf_done(&line);
        return;
    }
    if (sse_reader_last(&r->events, &e) != SSE_EVENT || openai_is_idle(&e))
        return;
    if (str_eq(e.event, STR("error")))
        agent_http_take_event(r, &e);
    else
        take_last(r, e.data, is_cut);
}

/* Not every server can count. */
static bool refuses_usage(const struct run *r, struct str error)
{
    return error.p && r->request.len && !r->asks_again && !r->ended &&
           (memmem(error.p, error.n, "stream_options", 14) ||
            memmem(error.p, error.n, "include_usage", 13));
}

static void agent_http_on_done(void *user, struct str error)
{
    struct run *r = agent_http_run_of(user);
    if (refuses_usage(r, error)) {
        r->asks_again = true;
        stepper_start(&r->stepper);
        return;
    }
    take_rest(r, error.p || !r->framed);
    if (r->is_whole || (!error.p && r->framed && !r->has_chunks))
        finish(r);
    else if (error.p)
        agent_http_end(r, RUN_FAILED, error);
    else
        agent_http_end(r, RUN_FAILED, STR("the reply broke off before its end"));
}

static const struct fetch_events http_fetch_events = {agent_http_on_head, agent_http_on_bytes,
                                                      agent_http_on_done};

/* --- the port --------------------------------------------------------------------------------- */

#define LAST_ID "Last-Event-ID"

/* Posts; again: the gateway was restarted since it has posted first. */
static void http_send(struct run *r, struct str body, bool again)
{
    const struct http_settings *s = r->s;
    const char *const *from = s->headers;
    struct buf last_id = {0};
    size_t n = 0;
    while (from[n])
        n++;
    const char **headers = xcalloc((n + 2) * sizeof *headers);
    memcpy(headers, from, n * sizeof *headers);
    if (r->again.goes_on) {
        buf_puts(&last_id, LAST_ID ": ");
        buf_putstr(&last_id, buf_str(&r->again.last_id));
        headers[n] = last_id.bytes;
    }
    struct fetch_request request = {.url = s->url,
                                    .headers = headers,
                                    .body = body,
                                    .wanted = LAST_ID,
                                    .trace = trace_kept(&r->trace)};
    r->fetch =
        fetch_start(s->fetcher, again ? &s->again : &s->options, &request, &http_fetch_events, r);
    free(headers);
    buf_done(&last_id);
    FAULT_DIE(POSTED);
}

static void agent_http_on_step(void *arg)
{
    struct run *r = agent_http_run_of(arg);
    fetch_free(r->fetch);
    r->fetch = NULL;
    if (r->asks_again && !r->cancelled && r->request.len) {
        stepper_stop(&r->stepper);
        buf_putc(&r->request, '}');
        http_send(r, buf_str(&r->request), false);
        buf_done(&r->request);
    } else if (r->settled)
        finish(r);
    else
        agent_http_end(r, RUN_FAILED, STR("cancelled"));
}

/* Its final_answer may be followed by another one, or a result, so it does not end the run; silence
 * does. */
static bool http_settle(struct run *run)
{
    struct run *r = agent_http_run_of(run);
    if (!r->ended)
        take_rest(r, true);
    if (r->ended || !r->is_whole)
        return r->ended;
    r->settled = true;
    stepper_start(&r->stepper);
    return true;
}

static void http_cancel(struct run *run)
{
    struct run *r = agent_http_run_of(run);
    r->cancelled = true;
    if (!r->ended)
        stepper_start(&r->stepper);
}

static void http_unpause(struct run *run)
{
    struct run *r = agent_http_run_of(run);
    r->teller.paused = false;
    if (!r->ended && r->fetch)
        fetch_unpause(r->fetch);
}

static bool http_deliver(struct run *run, struct str line)
{
    (void)run;
    (void)line;
    return false;
}

static bool http_is_deaf(struct run *run)
{
    (void)run;
    return true;
}

static void agent_http_on_closed(void *arg)
{
    struct run *r = agent_http_run_of(arg);
    r->magic = 0;
    free(r);
}

static void http_free(struct run *run)
{
    if (!run)
        return;
    struct run *r = agent_http_run_of(run);
    r->ended = true;
    fetch_free(r->fetch);
    sse_reader_done(&r->events);
    agent_line_done(&r->decoder);
    buf_done(&r->line);
    buf_done(&r->text);
    buf_done(&r->request);
    http_again_done(&r->again);
    trace_drop(&r->trace);
    teller_done(&r->teller);
    stepper_close(&r->stepper, agent_http_on_closed);
}

/* Without its last brace. */
static void http_put_chat(struct buf *out, const char *model, const struct run_spec *spec)
{
    buf_putc(out, '{');
    js_put_field(out, "model", str_of(model));
    js_put_bool(out, "stream", true);
    js_put_raw(out, "messages", STR("["));
    remote_put_messages(spec->history, spec->input, remote_put_role_content, out);
    buf_putc(out, ']');
}

static struct run *http_run_new(const struct http_settings *s, const struct run_events *events,
                                void *task)
{
    struct run *r = xcalloc(sizeof *r);
    r->magic = RUN_MAGIC;
    r->s = s;
    r->teller = (struct teller){.events = *events, .task = task};
    stepper_init(&r->stepper, s->loop, 0, agent_http_on_step, r);
    return r;
}

static void http_ask(struct run *r, const struct run_spec *spec, bool again)
{
    trace_keep(&r->trace, spec->trace);
    const struct http_settings *s = r->s;
    struct buf body = {0};
    if (s->model) {
        http_put_chat(&r->request, s->model, spec);
        buf_putstr(&body, buf_str(&r->request));
        js_put_raw(&body, "stream_options", STR("{\"include_usage\":true}"));
        buf_putc(&body, '}');
    } else {
        run_line_put(&body, spec);
    }
    http_send(r, buf_str(&body), again);
    buf_done(&body);
}

static struct run *http_start(void *settings, const struct run_spec *spec,
                              const struct run_events *events, void *task, char *ret_error)
{
    (void)ret_error;
    struct run *r = http_run_new(settings, events, task);
    http_ask(r, spec, false);
    return r;
}

static struct run *http_resume(void *settings, const struct run_spec *spec,
                               const struct resumption *from, const struct run_events *events,
                               void *task, char *ret_error)
{
    (void)ret_error;
    struct run *r = http_run_new(settings, events, task);
    struct http_again *a = &r->again;
    a->mark = from->mark;
    a->is_resumed = true;
    buf_putstr(&a->last_id, buf_str(&from->recall->last_id));
    a->goes_on = a->last_id.len > 0;
    r->is_whole = a->goes_on && from->recall->is_whole;
    r->has_answer = a->goes_on && (from->recall->has_answer || r->is_whole);
    http_again_forget(from->recall);
    FAULT_DIE(RESUMED);
    http_ask(r, spec, true);
    return r;
}

/* The connection is cut; a server that keeps its runs goes on. */
static void http_leave(struct run *run)
{
    struct run *r = agent_http_run_of(run);
    r->ended = true;
    stepper_stop(&r->stepper);
    fetch_free(r->fetch);
    r->fetch = NULL;
    FAULT_DIE(LEAVE);
}

const struct agent_ops agent_http_ops = {
    .kind = "http",
    .start = http_start,
    .cancel = http_cancel,
    .kill = http_cancel,
    .deliver = http_deliver,
    .is_deaf = http_is_deaf,
    .settle = http_settle,
    .unpause = http_unpause,
    .free = http_free,
    .recall = http_again_recall,
    .forget = http_again_forget,
    .resume = http_resume,
    .leave = http_leave,
};
