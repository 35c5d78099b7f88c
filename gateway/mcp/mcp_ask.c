/* Questions of a server to the user (elicitation).
 *
 * Legacy: a request of the server's own, which is answered.  Over stdio it does not say for which
 * call it asks: a server that has once asked gets one call at a time from then on, and a question
 * that could be that of several calls is cancelled.
 * Modern: the result of a call, or of a task, lists what it wants to know; with the answers, the
 * call is made again (or tasks/update tells them).  Nothing is held open meanwhile. */
#include <stdio.h>
#include <stdlib.h>

#include "gateway/mcp/mcp_private.h"
#include "proto/forms/say.h"

#define ROUNDS 8 /* of questions for one call, and of wrong answers to them */
#define AGAIN_MS 1000

#define CANCELLED "{\"action\":\"cancel\"}"

static void next_input(struct tool_job *job);

/* --- asking ----------------------------------------------------------------------------------- */

/* False: nobody can be asked. */
static bool ask_user(struct tool_job *job, struct str wrong)
{
    struct buf prompt = {0};
    const struct config_mcp *c = job->server->config;
    if (!job->talk || ++job->rounds > ROUNDS)
        return false;
    mcp_form_put_prompt(&job->form, c->name, wrong, &prompt);
    if (job->state != MCP_JOB_ASKING)
        job->asked_ms = mcp_now(job->server);
    job->state = MCP_JOB_ASKING;
    mcp_disarm(job->server, &job->deadline);
    bool asks = job->talk->ask(
        job->user, &(struct tool_question){.prompt = buf_str(&prompt),
                                           .approval = mcp_form_is_yes_or_no(&job->form),
                                           .timeout_s = c->longest_s});
    buf_done(&prompt);
    return asks;
}

/* The clocks run on. */
static void mcp_go_on(struct tool_job *job)
{
    if (job->state == MCP_JOB_ASKING)
        job->begun_ms += mcp_now(job->server) - job->asked_ms;
    job->state = MCP_JOB_CALLING;
    mcp_job_heard(job);
}

static void answer_server(struct tool_job *job, struct str result)
{
    struct buf body = {0};
    mcp_put_answer(&body, buf_str(&job->own_id), result);
    buf_clear(&job->own_id);
    mcp_go_on(job);
    mcp_server_tell(job->server, NULL, buf_str(&body));
    buf_done(&body);
}

static void add_response(struct tool_job *job, struct str key, struct str result)
{
    buf_puts(&job->responses, job->responses.len ? "," : "");
    js_put_str(&job->responses, key);
    buf_putc(&job->responses, ':');
    buf_putstr(&job->responses, result);
    job->at_input++;
}

/* The key of the question that is open. */
static void put_key(const struct tool_job *job, struct buf *out)
{
    struct js_doc doc = {0};
    size_t at = 0;
    if (js_parse(&doc, job->inputs.bytes, job->inputs.len, JS_OURS))
        for (uint32_t i = js_first(&doc, 0); i < js_end(&doc, 0); i = js_next(&doc, i + 1))
            if (at++ == job->at_input)
                js_value(&doc, i, out);
    js_done(&doc);
}

static void take_result(struct tool_job *job, struct str result)
{
    struct buf key = {0};
    mcp_form_done(&job->form);
    if (job->own_id.len) {
        answer_server(job, result);
        return;
    }
    put_key(job, &key);
    add_response(job, buf_str(&key), result);
    buf_done(&key);
    next_input(job);
}

void mcp_ask_answer(struct tool_job *job, struct str answer)
{
    struct buf result = {0};
    if (job->state != MCP_JOB_ASKING)
        return; /* the call has ended without it */
    enum mcp_verdict verdict = mcp_form_take(&job->form, answer, &result);
    if (verdict != MCP_AGAIN)
        take_result(job, buf_str(&result));
    else if (!ask_user(job, buf_str(&result)))
        take_result(job, STR(CANCELLED));
    buf_done(&result);
}

/* --- modern ----------------------------------------------------------------------------------- */

/* All are answered. */
static void send_responses(struct tool_job *job)
{
    struct buf params = {0};
    mcp_go_on(job);
    if (!job->task_id) {
        if (job->responses.len) {
            mcp_job_send(job);
            if (!job->request)
                mcp_server_down(job->server, "it does not read", -1);
        } else {
            mcp_job_rest(job, AGAIN_MS); /* it only wants to be asked again */
        }
        return;
    }
    buf_puts(&params, "\"taskId\":");
    js_put_str(&params, str_of(job->task_id));
    buf_puts(&params, ",\"inputResponses\":{");
    buf_putstr(&params, buf_str(&job->responses));
    buf_putc(&params, '}');
    (void)mcp_job_request(job, MCP_FOR_TASK_INPUT, "tasks/update", buf_str(&params));
    buf_done(&params);
}

/* The question at job->at_input; 1: it is asked; 0: there is none; -1: it cannot be asked. */
static int ask_input(struct tool_job *job, const char **ret_why)
{
    struct js_doc doc = {0};
    size_t at = 0;
    int asked = 0;
    if (!js_parse(&doc, job->inputs.bytes, job->inputs.len, JS_OURS))
        return 0;
    for (uint32_t i = js_first(&doc, 0); i < js_end(&doc, 0) && !asked; i = js_next(&doc, i + 1)) {
        if (at++ < job->at_input)
            continue;
        uint32_t params = js_type(&doc, i + 1) == JS_OBJECT ? js_get(&doc, i + 1, "params") : 0;
        *ret_why = "the server wants something that the gateway does not give";
        asked = params && js_type(&doc, params) == JS_OBJECT &&
                        say_is(&doc, i + 1, "method", "elicitation/create") &&
                        mcp_form_read(&job->form, &doc, params, ret_why)
                    ? 1
                    : -1;
    }
    js_done(&doc);
    return asked;
}

static void next_input(struct tool_job *job)
{
    const char *why = "";
    int asked = ask_input(job, &why);
    if (asked == 0)
        send_responses(job);
    else if (asked < 0)
        mcp_job_fail(job, MCP_FAILED_STRANGE, str_of(why));
    else if (!ask_user(job, STR("")))
        take_result(job, STR(CANCELLED));
}

void mcp_ask_inputs(struct tool_job *job, const struct js_doc *doc, uint32_t inputs)
{
    size_t n = 0;
    bool some = inputs && js_type(doc, inputs) == JS_OBJECT;
    for (uint32_t i = some ? js_first(doc, inputs) : 0; some && i < js_end(doc, inputs);
         i = js_next(doc, i + 1))
        n++;
    buf_clear(&job->inputs);
    buf_clear(&job->responses);
    buf_clear(&job->own_id);
    job->at_input = 0;
    if (some && n <= ROUNDS)
        js_copy(doc, inputs, &job->inputs);
    else
        buf_puts(&job->inputs, "{}");
    if (job->rounds >= ROUNDS || n > ROUNDS)
        mcp_job_fail(job, MCP_FAILED_STRANGE, STR("the server asks the user too much"));
    else if (job->inputs.len == 2 && ++job->rounds <= ROUNDS)
        send_responses(job);
    else
        next_input(job);
}

/* --- legacy ----------------------------------------------------------------------------------- */

static struct tool_job *find_by_task(struct mcp_server *s, const struct js_doc *doc,
                                     uint32_t params)
{
    uint32_t meta = say_member(doc, params, "_meta");
    uint32_t task = meta ? js_get(doc, meta, MCP_META "related-task") : 0;
    uint32_t id = task && js_type(doc, task) == JS_OBJECT ? js_get(doc, task, "taskId") : 0;
    if (!id || js_type(doc, id) != JS_STRING)
        return NULL;
    list_each (it, &s->jobs) {
        struct tool_job *job = list_item(it, struct tool_job, node);
        if (job->task_id && js_is(doc, id, job->task_id))
            return job;
    }
    return NULL;
}

/* The call on whose stream it asks, or the only one that is open. */
static struct tool_job *find_asking(struct mcp_server *s, int64_t stream)
{
    struct tool_job *found = NULL;
    list_each (it, &s->jobs) {
        struct tool_job *job = list_item(it, struct tool_job, node);
        bool is_open = job->state == MCP_JOB_CALLING && job->request;
        if (stream && job->request == stream)
            return job;
        if (stream || !is_open)
            continue;
        if (found)
            return NULL;
        found = job;
    }
    return found;
}

void mcp_server_elicits(struct mcp_server *s, const struct js_doc *doc, const struct mcp_message *m,
                        int64_t stream)
{
    struct buf id = {0}, body = {0};
    const char *why = "no call of the gateway's asks for it";
    struct tool_job *job = find_by_task(s, doc, m->params);
    if (!job) {
        s->elicits |= stream == 0 && s->config->command.n > 0;
        job = find_asking(s, stream);
    }
    js_copy(doc, m->own_id, &id);
    if (!job || job->state != MCP_JOB_CALLING || !m->params) {
        mcp_put_answer(&body, buf_str(&id), STR(CANCELLED));
    } else if (!mcp_form_read(&job->form, doc, m->params, &why)) {
        mcp_put_refusal(&body, buf_str(&id), -32602, why);
    } else {
        buf_clear(&job->own_id);
        buf_putstr(&job->own_id, buf_str(&id));
        if (!ask_user(job, STR("")))
            take_result(job, STR(CANCELLED));
    }
    if (body.len)
        mcp_server_tell(s, NULL, buf_str(&body));
    buf_done(&id);
    buf_done(&body);
}
