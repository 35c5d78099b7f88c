#include "gateway/traces/traces.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

#include "core/hub.h"
#include "core/secrets.h"
#include "gateway/base/log.h"
#include "gateway/base/secret_lines.h"
#include "gateway/fetch/upstream.h"

#define SEND_EVERY_MS 1000
#define SEND_MS 30000 /* longest time of a request */
#define LAST_MS 1000  /* of the last one, at the stop */

static const uint64_t traced_secret[2] = {0x686f6c6466617374, 3}; /* ids are ours: nobody can aim */

/* Something of a task that has begun and not ended: a tool call, or a question. */
struct open_span {
    struct list node;
    char *id; /* call_id, input_id */
    char *name;
    bool asks;
    int64_t from_ms;
};

struct resumed_at {
    int64_t at_ms;
    unsigned attempt;
};

/* A sampled task. */
struct traced {
    struct map_node node;
    char task_id[TASK_ID_LEN + 1];
    struct trace_copy own;
    bool has_parent;
    unsigned char parent_id[8];
    struct list open; /* of struct open_span */
    struct resumed_at *resumed;
    size_t n_resumed;
};

struct traces {
    struct hub *hub;
    struct fetcher *fetcher;
    struct upstream upstream;
    const char *url;
    char *service, instance[128];
    uv_loop_t *loop;
    uv_timer_t timer;
    struct map tasks;
    struct buf spans; /* with commas between */
    uint64_t n_spans; /* in there */
    struct fetch *fetch;
    size_t flying_bytes;
    uint64_t n_flying;
    struct traces_stats stats;
    struct js_doc doc; /* scratch */
};

static struct map_key traced_key(const struct map_node *node)
{
    const struct traced *e = container_of(node, const struct traced, node);
    return (struct map_key){{{e->task_id, TASK_ID_LEN}}};
}

static struct traced *traced_find(const struct traces *t, struct str task_id)
{
    struct map_node *node = map_find(&t->tasks, (struct map_key){{task_id}});
    return node ? container_of(node, struct traced, node) : NULL;
}

static void open_free(struct open_span *o)
{
    list_remove(&o->node);
    free(o->id);
    free(o->name);
    free(o);
}

static void traced_free(struct map_node *node, void *arg)
{
    struct traced *e = container_of(node, struct traced, node);
    (void)arg;
    while (!list_is_empty(&e->open))
        open_free(list_item(e->open.next, struct open_span, node));
    trace_drop(&e->own);
    free(e->resumed);
    free(e);
}

/* --- sending ---------------------------------------------------------------------------------- */

static void traces_flush(struct traces *t);

static void traces_on_sent(void *arg, struct str error)
{
    struct traces *t = arg;
    if (error.p) {
        t->stats.failed++;
        t->stats.dropped += t->n_flying;
        log_event_limited(LEVEL_WARN, "traces", "not_sent", LOG_STR("why", error),
                          LOG_INT("spans", (int64_t)t->n_flying));
    } else {
        t->stats.sent += t->n_flying;
    }
    t->n_flying = 0;
    t->flying_bytes = 0;
}

static bool ignore_bytes(void *arg, struct str bytes)
{
    (void)arg, (void)bytes;
    return true;
}

static void traces_on_timer(uv_timer_t *timer)
{
    traces_flush(timer->data);
}

static const struct fetch_events sent_events = {.on_bytes = ignore_bytes,
                                                .on_done = traces_on_sent};

static void traces_flush(struct traces *t)
{
    if (t->n_flying || !t->n_spans)
        return;
    struct buf body = {0};
    spans_open(&body, str_of(t->service), str_of(t->instance), str_of(t->hub->o.version));
    buf_putstr(&body, buf_str(&t->spans));
    spans_close(&body);
    struct fetch_request request = {.url = t->url,
                                    .headers = (const char *const *)t->upstream.headers.list,
                                    .body = buf_str(&body)};
    fetch_free(t->fetch);
    t->n_flying = t->n_spans;
    t->flying_bytes = t->spans.len;
    t->n_spans = 0;
    buf_clear(&t->spans);
    t->fetch = fetch_start(t->fetcher, &t->upstream.options, &request, &sent_events, t);
    buf_done(&body);
}

/* False: there is no room, and the span is dropped. */
static bool span_has_room(struct traces *t)
{
    if (t->spans.len + t->flying_bytes >= TRACES_HELD) {
        t->stats.dropped++;
        return false;
    }
    if (t->n_spans++)
        buf_putc(&t->spans, ',');
    return true;
}

static void span_is_written(struct traces *t)
{
    if (t->spans.len >= TRACES_SEND)
        traces_flush(t);
}

/* --- what happens to a task ------------------------------------------------------------------- */

static struct traced *traced_add(struct traces *t, struct str task_id, struct str metadata)
{
    const struct hub_options *o = &t->hub->o;
    struct task_trace trace;
    if (!task_trace_of(task_id, metadata, o->traced, o->trace_share, &trace) || !trace.own.sampled)
        return NULL;
    struct traced *e = xcalloc(sizeof *e);
    memcpy(e->task_id, task_id.p, TASK_ID_LEN);
    trace_keep(&e->own, &trace.own);
    e->has_parent = trace.has_parent;
    memcpy(e->parent_id, trace.parent_id, sizeof e->parent_id);
    list_init(&e->open);
    map_put(&t->tasks, &e->node);
    return e;
}

static void child_of(const struct traced *e, const struct open_span *o, struct trace_context *ret)
{
    *ret = e->own.context;
    trace_child_id(&e->own.context, str_of(o->id), ret->span_id);
}

static void put_open(struct traces *t, const struct traced *e, const struct open_span *o,
                     struct str error)
{
    struct trace_context own;
    struct span_writer w;
    struct buf name = {0};
    if (!span_has_room(t))
        return;
    child_of(e, o, &own);
    buf_putf(&name, o->asks ? "ask %s" : "execute_tool %s", o->name);
    span_begin(&w, &t->spans,
               &(struct span_head){.context = &own,
                                   .parent_id = e->own.context.span_id,
                                   .name = buf_str(&name),
                                   .kind = SPAN_INTERNAL,
                                   .from_ms = o->from_ms,
                                   .to_ms = t->hub->clock.wall_ms});
    span_text(&w, "holdfast.task.id", str_of(e->task_id));
    if (o->asks) {
        span_text(&w, "holdfast.input.id", str_of(o->id));
    } else {
        span_text(&w, "gen_ai.operation.name", STR("execute_tool"));
        span_text(&w, "gen_ai.tool.name", str_of(o->name));
        span_text(&w, "gen_ai.tool.call.id", str_of(o->id));
    }
    span_end(&w, error);
    buf_done(&name);
    span_is_written(t);
}

static char *event_member(struct traces *t, const char *key)
{
    struct buf text = {0};
    uint32_t node = js_get(&t->doc, 0, key);
    if (node && js_type(&t->doc, node) == JS_STRING)
        js_value(&t->doc, node, &text);
    buf_putc(&text, 0);
    return buf_take(&text);
}

static struct open_span *open_find(const struct traced *e, const char *id, bool asks)
{
    list_each (at, &e->open) {
        struct open_span *o = list_item(at, struct open_span, node);
        if (o->asks == asks && strcmp(o->id, id) == 0)
            return o;
    }
    return NULL;
}

/* id is passed on.  A call that is made again after a restart is under way already. */
static void open_one(struct traces *t, struct traced *e, char *id, bool asks, int64_t at)
{
    if (open_find(e, id, asks)) {
        free(id);
        return;
    }
    struct open_span *o = xcalloc(sizeof *o);
    *o = (struct open_span){
        .id = id, .name = event_member(t, asks ? "kind" : "name"), .asks = asks, .from_ms = at};
    list_push(&e->open, &o->node);
}

/* One that ended before a restart was told then. */
static void end_one(struct traces *t, struct traced *e, const char *id, bool asks, bool is_past)
{
    struct open_span *o = open_find(e, id, asks);
    uint32_t failed = asks ? 0 : js_get(&t->doc, 0, "is_error");
    bool is_error = failed && js_type(&t->doc, failed) == JS_TRUE;
    if (!o)
        return;
    if (!is_past)
        put_open(t, e, o, is_error ? STR("the tool failed") : STR_NULL);
    open_free(o);
}

void traces_happened(struct traces *t, const struct task *task, enum event_type event,
                     struct str data, int64_t at)
{
    bool is_past = at != 0;
    bool begins = event == EVENT_TOOL_CALL || event == EVENT_INPUT_REQUIRED;
    bool ends = event == EVENT_TOOL_RESULT || event == EVENT_INPUT_RECEIVED;
    struct traced *e = traced_find(t, task_id_of(task));
    if (!e && (event == EVENT_TASK_CREATED || (begins && is_past)))
        e = traced_add(t, task_id_of(task), task_field(task, FIELD_metadata));
    if (!e || (!begins && !ends) || !js_parse(&t->doc, data.p, data.n, JS_OURS))
        return;
    bool asks = event == EVENT_INPUT_REQUIRED || event == EVENT_INPUT_RECEIVED;
    char *id = event_member(t, asks ? "input_id" : "call_id");
    if (begins) {
        open_one(t, e, id, asks, is_past ? at : t->hub->clock.wall_ms);
    } else {
        end_one(t, e, id, asks, is_past);
        free(id);
    }
}

void traces_resumed(struct traces *t, const struct task_record *rec, unsigned attempt)
{
    struct traced *e = traced_find(t, rec->task_id);
    if (!e)
        e = traced_add(t, rec->task_id, rec->metadata);
    if (!e || e->n_resumed == MAX_TRACE_EVENTS)
        return;
    e->resumed = xrealloc(e->resumed, (e->n_resumed + 1) * sizeof *e->resumed);
    e->resumed[e->n_resumed++] = (struct resumed_at){t->hub->clock.wall_ms, attempt};
}

/* --- the task itself -------------------------------------------------------------------------- */

static void put_task_events(struct span_writer *w, const struct traced *e,
                            const struct task_record *rec)
{
    if (rec->state.started_at)
        span_event(w, rec->state.started_at, "started", NULL, STR_NULL);
    for (size_t i = 0; i < e->n_resumed; i++) {
        char attempt[16];
        snprintf(attempt, sizeof attempt, "%u", e->resumed[i].attempt);
        span_event(w, e->resumed[i].at_ms, "resumed", "holdfast.attempt", str_of(attempt));
    }
    if (rec->state.cancel_requested_at)
        span_event(w, rec->state.cancel_requested_at, "cancel", NULL, STR_NULL);
}

static void put_task_span(struct traces *t, const struct traced *e, const struct task_record *rec)
{
    struct span_writer w;
    struct buf name = {0};
    const char *error = rec->state.error ? task_error_code(rec->state.error) : NULL;
    if (!span_has_room(t))
        return;
    buf_puts(&name, "invoke_agent ");
    buf_putstr(&name, rec->agent);
    span_begin(&w, &t->spans,
               &(struct span_head){.context = &e->own.context,
                                   .parent_id = e->has_parent ? e->parent_id : NULL,
                                   .name = buf_str(&name),
                                   .kind = rec->parent_task_id.p ? SPAN_INTERNAL : SPAN_SERVER,
                                   .from_ms = rec->created_at,
                                   .to_ms = rec->state.completed_at});
    span_text(&w, "gen_ai.operation.name", STR("invoke_agent"));
    span_text(&w, "gen_ai.agent.name", rec->agent);
    span_text(&w, "gen_ai.conversation.id", rec->conversation_id);
    span_text(&w, "holdfast.task.id", rec->task_id);
    span_text(&w, "holdfast.task.status", str_of(status_name(rec->state.status)));
    span_text(&w, "error.type", str_of(error));
    put_task_events(&w, e, rec);
    span_end(&w, str_of(error));
    buf_done(&name);
    span_is_written(t);
}

void traces_reported(struct traces *t, const struct task_record *rec)
{
    if (!status_is_terminal(rec->state.status))
        return;
    struct traced *e = traced_find(t, rec->task_id);
    if (!e) /* it is not sampled, or ends at a start */
        e = traced_add(t, rec->task_id, rec->metadata);
    if (!e)
        return;
    list_each (at, &e->open)
        put_open(t, e, list_item(at, struct open_span, node), STR("the task ended"));
    put_task_span(t, e, rec);
    map_remove(&t->tasks, &e->node);
    traced_free(&e->node, NULL);
}

/* --- turns of models -------------------------------------------------------------------------- */

static int64_t wall_of(const struct traces *t, uint64_t loop_ms)
{
    return t->hub->clock.wall_ms - (int64_t)(uv_now(t->loop) - loop_ms);
}

void traces_turn(struct traces *t, const struct traces_turn *turn)
{
    struct span_writer w;
    struct buf name = {0};
    if (!t || !turn->context->sampled || !span_has_room(t))
        return;
    buf_puts(&name, "chat ");
    buf_putstr(&name, turn->model);
    span_begin(&w, &t->spans,
               &(struct span_head){.context = turn->context,
                                   .parent_id = turn->parent_id,
                                   .name = buf_str(&name),
                                   .kind = SPAN_CLIENT,
                                   .from_ms = wall_of(t, turn->began),
                                   .to_ms = t->hub->clock.wall_ms});
    span_text(&w, "gen_ai.operation.name", STR("chat"));
    span_text(&w, "gen_ai.request.model", turn->model);
    if (turn->in >= 0)
        span_int(&w, "gen_ai.usage.input_tokens", turn->in);
    if (turn->out >= 0)
        span_int(&w, "gen_ai.usage.output_tokens", turn->out);
    span_text(&w, "error.type", turn->error);
    if (turn->told)
        span_event(&w, wall_of(t, turn->told), "first_token", NULL, STR_NULL);
    span_end(&w, turn->error);
    buf_done(&name);
    span_is_written(t);
}

/* --- opening, closing ------------------------------------------------------------------------- */

struct traces *traces_open(const struct traces_options *o, char *ret_error, size_t n)
{
    struct traces *t = xcalloc(sizeof *t);
    t->loop = o->loop;
    t->hub = o->hub;
    t->fetcher = o->fetcher;
    t->url = o->config->traces.url;
    t->service = xstrdup(str_of(o->config->traces.service));
    if (gethostname(t->instance, sizeof t->instance - 1) < 0)
        snprintf(t->instance, sizeof t->instance, "unknown");
    if (!upstream_open(&o->config->traces.upstream, NULL, &t->upstream, ret_error, n)) {
        free(t->service);
        free(t);
        return NULL;
    }
    t->upstream.options.total_ms = SEND_MS;
    secret_lines_add(o->secrets, (char *const *)o->config->traces.upstream.headers.list, ':');
    map_init(&t->tasks, traced_secret, traced_key);
    ASSERT(uv_timer_init(o->loop, &t->timer) == 0);
    t->timer.data = t;
    uv_timer_start(&t->timer, traces_on_timer, SEND_EVERY_MS, SEND_EVERY_MS);
    return t;
}

struct traces_stats traces_stats(const struct traces *t)
{
    return t ? t->stats : (struct traces_stats){0};
}

/* The timer wakes the loop in time. */
static void send_last(struct traces *t)
{
    uint64_t until = uv_now(t->loop) + LAST_MS;
    for (traces_flush(t); t->n_flying && uv_now(t->loop) < until; traces_flush(t))
        uv_run(t->loop, UV_RUN_ONCE);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct traces *t = handle->data;
    free(t);
}

void traces_close(struct traces *t)
{
    if (!t)
        return;
    send_last(t);
    fetch_free(t->fetch);
    map_each(&t->tasks, traced_free, NULL);
    map_done(&t->tasks);
    upstream_done(&t->upstream);
    buf_done(&t->spans);
    js_done(&t->doc);
    free(t->service);
    uv_close((uv_handle_t *)&t->timer, on_timer_closed);
}
