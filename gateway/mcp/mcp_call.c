/* Design.  One call of a tool.
 *
 *   WAITING ──▶ CALLING ──▶ the result: OVER
 *                │  ▲ │
 *                │  │ └──▶ a task: PAUSING ◀──▶ CALLING (tasks/get) … (mcp_task.c)
 *                ▼  │
 *               ASKING: the server wants to know something of the user (mcp_ask.c)
 *
 * The deadline is timeout_s after the last sign of work (rising progress, a task that is looked
 * at), and longest_s after the beginning; both stand while the user is asked.  A job never answers
 * from inside start: what fails there is start's own error. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/mcp/mcp_private.h"
#include "proto/forms/say.h"

#define MCP_JOBS 256 /* of one server at once */
#define TELL_MS 500  /* progress at most so often */
#define NOTE_BYTES 200
#define UNKNOWN "; whether it took effect is unknown"

static const char *const failure_names[] = {
#define X(name, label) label,
    MCP_FAILURE_TABLE(X)
#undef X
};

const char *mcp_failure_name(enum mcp_failure failure)
{
    return failure_names[failure];
}

static const struct config_mcp *job_config(const struct tool_job *job)
{
    return job->server->config;
}

/* --- clocks ----------------------------------------------------------------------------------- */

static void arm_deadline(struct tool_job *job)
{
    const struct config_mcp *c = job_config(job);
    msec_t silent = job->heard_ms + (msec_t)c->timeout_s * 1000,
           longest = job->begun_ms + (msec_t)c->longest_s * 1000;
    msec_t due = silent < longest && job->state != MCP_JOB_WAITING ? silent : longest;
    mcp_arm(job->server, &job->deadline, due - mcp_now(job->server));
}

void mcp_job_heard(struct tool_job *job)
{
    job->heard_ms = mcp_now(job->server);
    arm_deadline(job);
}

static void disarm_job(struct tool_job *job)
{
    mcp_disarm(job->server, &job->deadline);
    mcp_disarm(job->server, &job->pause);
    mcp_disarm(job->server, &job->tell);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void tell_progress(struct tool_job *job)
{
    mcp_disarm(job->server, &job->tell);
    job->told_ms = mcp_now(job->server);
    if (job->talk)
        job->talk->progress(job->user, job->progress, buf_str(&job->note));
    buf_clear(&job->note);
}

static void job_over(struct tool_job *job, bool good, struct str output)
{
    if (timer_is_armed(&job->tell))
        tell_progress(job);
    if (job->request)
        mcp_server_forget(job->server, job->request);
    job->request = 0;
    job->state = MCP_JOB_OVER;
    disarm_job(job);
    job->done(job->user, good, output);
    if (job->server->elicits && job->server->phase == MCP_READY)
        mcp_jobs_ready(job->server); /* the next one's turn */
}

void mcp_job_finish(struct tool_job *job, struct str output)
{
    if (job->state != MCP_JOB_OVER)
        job_over(job, true, output);
}

void mcp_job_fail(struct tool_job *job, enum mcp_failure kind, struct str why)
{
    if (job->state == MCP_JOB_OVER)
        return;
    job->server->stats.failures[kind]++;
    job_over(job, false, why);
}

static void fail_text(struct tool_job *job, enum mcp_failure kind, const char *before,
                      struct str text, const char *after)
{
    struct buf why = {0};
    buf_putf(&why, "the MCP server %s %s", job_config(job)->name, before);
    buf_putstr(&why, text);
    buf_puts(&why, after);
    mcp_job_fail(job, kind, buf_str(&why));
    buf_done(&why);
}

/* Tells the server that nobody waits any more. */
static void cancel_on_wire(struct tool_job *job)
{
    struct mcp_server *s = job->server;
    struct buf params = {0}, body = {0};
    if (job->task_id) {
        mcp_task_cancel(job);
    } else if (job->request && (s->config->command.n || s->era == MCP_LEGACY)) {
        buf_putf(&params, "\"requestId\":%lld,\"reason\":\"the call was given up\"",
                 (long long)job->request);
        mcp_put_notification(&body, "notifications/cancelled", buf_str(&params));
        mcp_server_tell(s, "notifications/cancelled", buf_str(&body));
    } /* of a modern one over HTTP, the end of the stream is the cancel */
    if (job->request)
        mcp_server_forget(s, job->request);
    job->request = 0;
    buf_done(&params);
    buf_done(&body);
}

static void on_deadline(struct timer *timer)
{
    struct tool_job *job = container_of(timer, struct tool_job, deadline);
    struct mcp_server *s = job->server;
    char why[128];
    bool waits = job->state == MCP_JOB_WAITING;
    bool is_long = mcp_now(s) - job->begun_ms >= (msec_t)s->config->longest_s * 1000;
    snprintf(why, sizeof why,
             is_long ? "has not finished within %u s" : "has not answered for %u s",
             is_long ? s->config->longest_s : s->config->timeout_s);
    cancel_on_wire(job);
    fail_text(job, MCP_FAILED_TIMEOUT, why, STR(""), waits ? "" : UNKNOWN);
    if (!waits)
        mcp_server_doubt(s);
}

/* --- sending ---------------------------------------------------------------------------------- */

bool mcp_job_request(struct tool_job *job, enum mcp_purpose purpose, const char *method,
                     struct str params)
{
    struct mcp_ask ask = {.purpose = purpose,
                          .method = method,
                          .params = params,
                          .name = str_of(job->task_id),
                          .job = job};
    job->request = mcp_server_ask(job->server, &ask);
    job->state = MCP_JOB_CALLING;
    if (job->request)
        return true;
    mcp_server_down(job->server, "it does not read", -1);
    return false;
}

/* The arguments that are headers as well. */
static void put_param_headers(const struct tool_job *job, struct buf *out)
{
    const struct mcp_tool *t = &job->entry->facts;
    struct js_doc doc = {0};
    struct buf text = {0};
    if (t->n_headers && js_parse(&doc, job->arguments, strlen(job->arguments), JS_OURS)) {
        for (size_t i = 0; i < t->n_headers; i++) {
            uint32_t node = js_get(&doc, 0, t->headers[i].argument);
            if (!node || js_type(&doc, node) == JS_NULL || js_type(&doc, node) >= JS_ARRAY)
                continue;
            buf_clear(&text);
            if (js_type(&doc, node) == JS_STRING)
                js_value(&doc, node, &text);
            else
                js_copy(&doc, node, &text);
            buf_putf(out, "Mcp-Param-%s: ", t->headers[i].header);
            mcp_put_header_value(out, buf_str(&text));
            buf_putc(out, '\n');
        }
    }
    js_done(&doc);
    buf_done(&text);
}

static void put_call(const struct tool_job *job, struct buf *params)
{
    const struct mcp_server *s = job->server;
    const struct mcp_tool *t = &job->entry->facts;
    buf_puts(params, "\"name\":");
    js_put_str(params, str_of(t->name));
    buf_puts(params, ",\"arguments\":");
    buf_puts(params, job->arguments);
    if (s->era == MCP_LEGACY && s->has_tasks && t->tasks == MCP_TASKS_REQUIRED)
        buf_putf(params, ",\"task\":{\"ttl\":%lld}", (long long)s->config->longest_s * 1000);
    if (job->responses.len) {
        buf_puts(params, ",\"inputResponses\":{");
        buf_putstr(params, buf_str(&job->responses));
        buf_putc(params, '}');
    }
    if (job->request_state.len) {
        buf_puts(params, ",\"requestState\":");
        buf_putstr(params, buf_str(&job->request_state));
    }
}

/* A server that asks without saying for which call has one at a time. */
static bool is_another_open(const struct tool_job *job)
{
    const struct list *jobs = &job->server->jobs;
    for (const struct list *it = jobs->next; it != jobs; it = it->next) {
        const struct tool_job *other =
            list_item((struct list *)(uintptr_t)it, struct tool_job, node);
        if (other != job && other->state != MCP_JOB_WAITING && other->state < MCP_JOB_GIVING)
            return true;
    }
    return false;
}

void mcp_job_send(struct tool_job *job)
{
    struct buf params = {0}, headers = {0};
    if (job->server->elicits && job->state == MCP_JOB_WAITING && is_another_open(job))
        return;
    put_call(job, &params);
    put_param_headers(job, &headers);
    struct mcp_ask ask = {.purpose = MCP_FOR_CALL,
                          .method = "tools/call",
                          .params = buf_str(&params),
                          .name = str_of(job->entry->facts.name),
                          .headers = buf_str(&headers),
                          .wants_progress = true,
                          .job = job};
    job->state = MCP_JOB_CALLING;
    job->token = job->request = mcp_server_ask(job->server, &ask);
    mcp_job_heard(job);
    buf_done(&params);
    buf_done(&headers);
}

static void job_on_pause(struct timer *timer)
{
    struct tool_job *job = container_of(timer, struct tool_job, pause);
    if (job->task_id) {
        mcp_task_look(job);
        return;
    }
    mcp_job_send(job);
    if (!job->request)
        mcp_server_down(job->server, "it does not read", -1);
}

void mcp_job_rest(struct tool_job *job, msec_t ms)
{
    job->state = MCP_JOB_PAUSING;
    mcp_arm(job->server, &job->pause, ms);
}

/* The calls that waited.  The list changes while it is walked: a server that does not read is
 * down. */
void mcp_jobs_ready(struct mcp_server *s)
{
    for (struct list *it = s->jobs.next; it != &s->jobs && s->phase == MCP_READY; it = it->next) {
        struct tool_job *job = list_item(it, struct tool_job, node);
        if (job->state != MCP_JOB_WAITING)
            continue;
        mcp_job_send(job);
        if (job->state == MCP_JOB_CALLING && !job->request) {
            mcp_server_down(s, "it does not read", -1);
            return;
        }
    }
}

void mcp_jobs_fail(struct mcp_server *s, const char *why, bool waiting)
{
    list_each (it, &s->jobs) {
        struct tool_job *job = list_item(it, struct tool_job, node);
        job->request = 0;
        if (job->state == MCP_JOB_WAITING && waiting)
            fail_text(job, MCP_FAILED_UNAVAILABLE, "does not run: ", str_of(why), "");
        else if (job->state != MCP_JOB_WAITING && job->state != MCP_JOB_GIVING)
            fail_text(job, MCP_FAILED_LOST, "ended during the call: ", str_of(why), UNKNOWN);
    }
}

/* --- what comes back -------------------------------------------------------------------------- */

void mcp_job_take_result(struct tool_job *job, const struct js_doc *doc, uint32_t result)
{
    struct buf text = {0};
    if (!js_get(doc, result, "content") && !js_get(doc, result, "structuredContent")) {
        fail_text(job, MCP_FAILED_STRANGE, "has answered without any content", STR(""), "");
        return;
    }
    bool good = mcp_content_put(doc, result, &text);
    mcp_output_cut(&text);
    bool waits = good && mcp_files_give(job, doc, result, buf_str(&text)); /* and then finishes */
    if (good && !waits)
        mcp_job_finish(job, buf_str(&text));
    else if (!good)
        mcp_job_fail(job, MCP_FAILED_TOOL, text.len ? buf_str(&text) : STR("the tool has failed"));
    buf_done(&text);
}

static void keep_state(struct tool_job *job, const struct js_doc *doc, uint32_t result)
{
    uint32_t state = js_get(doc, result, "requestState");
    buf_clear(&job->request_state);
    if (state)
        js_copy(doc, state, &job->request_state);
}

static void take_call_result(struct tool_job *job, const struct js_doc *doc, uint32_t result)
{
    switch (mcp_outcome_of(doc, result)) {
    case MCP_COMPLETE: mcp_job_take_result(job, doc, result); return;
    case MCP_TASK: mcp_task_begin(job, doc, result); return;
    case MCP_INPUT:
        keep_state(job, doc, result);
        mcp_ask_inputs(job, doc, js_get(doc, result, "inputRequests"));
        return;
    case MCP_STRANGE:
        fail_text(job, MCP_FAILED_STRANGE, "has answered with a kind of result that is not known",
                  STR(""), "");
        return;
    }
}

static void job_take_error(struct tool_job *job, const struct js_doc *doc,
                           const struct mcp_message *m)
{
    struct buf text = {0};
    if (m->text)
        js_value(doc, m->text, &text);
    else
        buf_putf(&text, "error %lld", (long long)m->code);
    mcp_output_cut(&text);
    mcp_job_fail(job, MCP_FAILED_REFUSED, buf_str(&text));
    buf_done(&text);
}

void mcp_job_answered(struct tool_job *job, enum mcp_purpose purpose, const struct js_doc *doc,
                      const struct mcp_message *m)
{
    job->request = 0;
    if (job->state >= MCP_JOB_GIVING)
        return;
    if (job->state == MCP_JOB_ASKING) /* it has not waited for the user */
        mcp_form_done(&job->form);
    if (m->kind == MCP_ERROR)
        job_take_error(job, doc, m);
    else if (purpose == MCP_FOR_CALL)
        take_call_result(job, doc, m->result);
    else if (purpose == MCP_FOR_TASK)
        mcp_task_take(job, doc, m->result);
    else if (purpose == MCP_FOR_TASK_RESULT)
        mcp_job_take_result(job, doc, m->result);
    else
        mcp_job_rest(job, job->poll_ms); /* tasks/update */
}

/* A legacy session that is gone has not carried the call out: it is made again, in a new one. */
void mcp_job_lost(struct tool_job *job, const struct mcp_loss *loss)
{
    struct mcp_server *s = job->server;
    bool is_gone = s->era == MCP_LEGACY && (loss->status == 404 || loss->status == 400);
    job->request = 0;
    if (job->state >= MCP_JOB_GIVING)
        return;
    if (is_gone && !job->retried && !job->task_id) {
        job->retried = true;
        job->state = MCP_JOB_WAITING;
        arm_deadline(job);
        mcp_server_down(s, "its session is gone", 0);
        return;
    }
    if (loss->status >= 400) {
        fail_text(job, MCP_FAILED_REFUSED, "refuses the call: ", loss->why, "");
        return;
    }
    fail_text(job, MCP_FAILED_LOST, "was lost during the call: ", loss->why, UNKNOWN);
    if (loss->status == 0)
        mcp_server_doubt(s);
}

/* --- progress --------------------------------------------------------------------------------- */

static void on_tell(struct timer *timer)
{
    tell_progress(container_of(timer, struct tool_job, tell));
}

static struct tool_job *find_by_token(struct mcp_server *s, int64_t token)
{
    list_each (it, &s->jobs) {
        struct tool_job *job = list_item(it, struct tool_job, node);
        if (job->token == token && job->state != MCP_JOB_OVER)
            return job;
    }
    return NULL;
}

void mcp_job_progress(struct mcp_server *s, const struct js_doc *doc, uint32_t params)
{
    int64_t token;
    double now = 0, total = 0;
    uint32_t node = js_get(doc, params, "progressToken"), value = js_get(doc, params, "progress"),
             all = js_get(doc, params, "total"), message = js_get(doc, params, "message");
    struct tool_job *job = node && js_int(doc, node, &token) ? find_by_token(s, token) : NULL;
    if (!job || !value || !js_double(doc, value, &now))
        return;
    if (now > job->highest && job->state != MCP_JOB_ASKING) {
        job->highest = now;
        mcp_job_heard(job);
    }
    if (all && js_double(doc, all, &total) && total > 0 && now / total > job->progress)
        job->progress = fmin(now / total, 1);
    buf_clear(&job->note);
    buf_putf(&job->note, "%s: ", s->config->name);
    (void)say_text(doc, message, &s->scratch);
    buf_putstr(&job->note, message ? buf_str(&s->scratch) : str_of(job->entry->facts.name));
    job->note.len = utf8_cut(buf_str(&job->note), NOTE_BYTES);
    if (mcp_now(s) - job->told_ms >= TELL_MS)
        tell_progress(job);
    else if (!timer_is_armed(&job->tell))
        mcp_arm(s, &job->tell, TELL_MS - (mcp_now(s) - job->told_ms));
}

/* --- the port --------------------------------------------------------------------------------- */

static const struct mcp_entry *current_of(const struct mcp_entry *e)
{
    return mcp_list_find(e->list->server->list, str_of(e->facts.name));
}

/* The server's hint decides unless the configuration does.  A tool that has changed since the run
 * began may do something else than what the model, and whoever approves, have read. */
static bool call_asks(const struct tool *tool, const struct tool_caller *caller,
                      struct str arguments, struct buf *question)
{
    const struct mcp_entry *e = tool->settings, *now = current_of(e);
    const struct config_mcp *c = e->list->server->config;
    bool changed = now && now->facts.digest != e->facts.digest;
    (void)caller, (void)arguments;
    if (c->approve == MCP_APPROVE_NEVER || !now)
        return false;
    if (c->approve == MCP_APPROVE_BY_HINT && e->facts.is_read_only && !changed)
        return false;
    buf_putf(question, "Call the tool %s of the MCP server %s?%s", e->facts.name, c->name,
             changed ? " The server has changed it since this task began." : "");
    return true;
}

/* The tool as it is now: one that has changed since the run began is asked about each time, and a
 * later run is asked about the new one.  A server of which the operator wants each call asked about
 * is never trusted that far. */
static bool call_topic(const struct tool *tool, const struct tool_caller *caller,
                       struct str arguments, struct tool_topic *ret)
{
    const struct mcp_entry *e = tool->settings, *now = current_of(e);
    (void)caller, (void)arguments;
    bool each = e->list->server->config->approve == MCP_APPROVE_ALWAYS;
    if (each || !now || now->facts.digest != e->facts.digest)
        return false;
    buf_putf(&ret->name, "%s/%s", e->list->server->config->name, e->facts.name);
    buf_putf(&ret->key, "mcp %016" PRIx64 " ", e->facts.digest);
    buf_putstr(&ret->key, buf_str(&ret->name));
    return true;
}

static bool may_start(const struct mcp_entry *e, struct buf *out)
{
    struct mcp_server *s = e->list->server;
    size_t n = 0;
    for (const struct list *it = s->jobs.next; it != &s->jobs; it = it->next)
        n++;
    if (s->phase == MCP_STOPPED)
        buf_putf(out, "the MCP server %s does not run: %s", s->config->name,
                 s->why[0] ? s->why : "it was never started");
    else if (s->phase == MCP_READY && !current_of(e))
        buf_putf(out, "the MCP server %s no longer has the tool %s", s->config->name,
                 e->facts.name);
    else if (n >= MCP_JOBS)
        buf_putf(out, "the MCP server %s has %d calls under way already", s->config->name,
                 MCP_JOBS);
    else
        return true;
    s->stats.failures[MCP_FAILED_UNAVAILABLE]++;
    return false;
}

static struct tool_job *call_start(const struct tool *tool, const struct tool_caller *caller,
                                   struct str arguments, tool_done_fn done, void *user,
                                   struct buf *out)
{
    const struct mcp_entry *e = tool->settings;
    struct mcp_server *s = e->list->server;
    s->stats.calls++;
    if (!may_start(e, out))
        return NULL;
    struct tool_job *job = xcalloc(sizeof *job);
    *job = (struct tool_job){.server = s,
                             .list = e->list,
                             .entry = e,
                             .done = done,
                             .user = user,
                             .talk = caller->talk,
                             .arguments = xstrdup(arguments.n ? arguments : STR("{}")),
                             .begun_ms = mcp_now(s),
                             .heard_ms = mcp_now(s),
                             .highest = -INFINITY,
                             .deadline.fire = on_deadline,
                             .pause.fire = job_on_pause,
                             .tell.fire = on_tell};
    trace_keep(&job->trace, caller->trace);
    mcp_files_caller(job, caller);
    e->list->refs++;
    list_push(&s->jobs, &job->node);
    arm_deadline(job);
    if (s->phase == MCP_READY)
        mcp_job_send(job);
    if (job->state == MCP_JOB_CALLING && !job->request)
        mcp_job_rest(job, 1); /* which fails, outside of start */
    return job;
}

static void call_stop(struct tool_job *job)
{
    if (job->state < MCP_JOB_GIVING)
        cancel_on_wire(job);
    disarm_job(job);
    list_remove(&job->node);
    mcp_list_drop(job->list);
    mcp_files_done(job);
    mcp_form_done(&job->form);
    buf_done(&job->note);
    buf_done(&job->own_id);
    buf_done(&job->inputs);
    buf_done(&job->responses);
    buf_done(&job->request_state);
    trace_drop(&job->trace);
    free(job->arguments);
    free(job->task_id);
    free(job);
}

void mcp_call_init(struct tool *tool)
{
    tool->start = call_start;
    tool->stop = call_stop;
    tool->asks = call_asks;
    tool->topic = call_topic;
    tool->answer = mcp_ask_answer;
}
