/* A call that has become a task of the server (MCP Tasks): it is looked at again and again, and
 * cancelled with ours.
 *
 * Legacy (2025-11-25): tasks/get tells the status; the result, and questions to the user before it,
 * come by tasks/result, which waits.  Modern (the extension tasks): tasks/get brings all of it. */
#include <stdlib.h>

#include "gateway/mcp/mcp_private.h"
#include "proto/forms/say.h"

#define POLL_MS 1000 /* when the server names no time */
#define POLL_LEAST_MS 200
#define POLL_MOST_MS 30000
#define TASK_ID_BYTES 1024

static void put_task_id(const struct tool_job *job, struct buf *params)
{
    buf_puts(params, "\"taskId\":");
    js_put_str(params, str_of(job->task_id));
}

static void ask_about(struct tool_job *job, enum mcp_purpose purpose, const char *method)
{
    struct buf params = {0};
    put_task_id(job, &params);
    (void)mcp_job_request(job, purpose, method, buf_str(&params));
    buf_done(&params);
}

static void take_poll(struct tool_job *job, const struct mcp_task *t)
{
    job->poll_ms = t->poll_ms ? t->poll_ms : job->poll_ms ? job->poll_ms : POLL_MS;
    if (job->poll_ms < POLL_LEAST_MS)
        job->poll_ms = POLL_LEAST_MS;
    if (job->poll_ms > POLL_MOST_MS)
        job->poll_ms = POLL_MOST_MS;
}

void mcp_task_begin(struct tool_job *job, const struct js_doc *doc, uint32_t result)
{
    struct mcp_task t;
    struct buf id = {0};
    mcp_task_read(doc, result, &t);
    (void)say_text(doc, t.id, &id);
    if (id.len == 0 || id.len > TASK_ID_BYTES || memchr(id.bytes, 0, id.len)) {
        mcp_job_fail(job, MCP_FAILED_STRANGE, STR("the server has begun a task without an id"));
    } else if (job->task_id) {
        mcp_job_fail(job, MCP_FAILED_STRANGE, STR("the server has made a task of a task"));
    } else {
        job->task_id = xstrdup(buf_str(&id));
        mcp_task_take(job, doc, result);
    }
    buf_done(&id);
}

void mcp_task_look(struct tool_job *job)
{
    ask_about(job, MCP_FOR_TASK, "tasks/get");
}

static void note_status(struct tool_job *job, const struct js_doc *doc, const struct mcp_task *t)
{
    struct buf text = {0}, note = {0};
    struct str message = say_text(doc, t->message, &text);
    if (message.n && job->talk) {
        buf_putf(&note, "%s: ", job->server->config->name);
        buf_put(&note, message.p, utf8_cut(message, 160));
        if (!str_eq(buf_str(&note), buf_str(&job->note)))
            job->talk->progress(job->user, job->progress, buf_str(&note));
        buf_clear(&job->note);
        buf_putstr(&job->note, buf_str(&note));
    }
    buf_done(&text);
    buf_done(&note);
}

static void fail_task(struct tool_job *job, const struct js_doc *doc, const struct mcp_task *t)
{
    struct buf text = {0};
    uint32_t message = say_member(doc, t->error, "message");
    buf_puts(&text, t->status == MCP_TASK_CANCELLED ? "the server has cancelled the task"
                                                    : "the task has failed");
    message = message ? message : t->message;
    if (message && js_type(doc, message) == JS_STRING) {
        buf_puts(&text, ": ");
        js_value(doc, message, &text);
    }
    mcp_output_cut(&text);
    mcp_job_fail(job, MCP_FAILED_TOOL, buf_str(&text));
    buf_done(&text);
}

static void take_modern(struct tool_job *job, const struct js_doc *doc, const struct mcp_task *t)
{
    if (t->status == MCP_TASK_INPUT && t->inputs)
        mcp_ask_inputs(job, doc, t->inputs);
    else if (t->status == MCP_TASK_COMPLETED && t->result)
        mcp_job_take_result(job, doc, t->result);
    else if (t->status == MCP_TASK_COMPLETED)
        mcp_job_fail(job, MCP_FAILED_STRANGE, STR("the task has ended without a result"));
    else if (t->status == MCP_TASK_FAILED || t->status == MCP_TASK_CANCELLED)
        fail_task(job, doc, t);
    else
        mcp_job_rest(job, job->poll_ms);
}

static void take_legacy(struct tool_job *job, const struct js_doc *doc, const struct mcp_task *t)
{
    if (t->status == MCP_TASK_CANCELLED)
        fail_task(job, doc, t);
    else if (t->status == MCP_TASK_WORKING)
        mcp_job_rest(job, job->poll_ms);
    else
        ask_about(job, MCP_FOR_TASK_RESULT, "tasks/result");
}

void mcp_task_take(struct tool_job *job, const struct js_doc *doc, uint32_t result)
{
    struct mcp_task t;
    mcp_task_read(doc, result, &t);
    take_poll(job, &t);
    mcp_job_heard(job);
    note_status(job, doc, &t);
    if (t.status == MCP_TASK_STRANGE)
        mcp_job_fail(job, MCP_FAILED_STRANGE, STR("the task has a status that is not known"));
    else if (job->server->era == MCP_MODERN)
        take_modern(job, doc, &t);
    else
        take_legacy(job, doc, &t);
}

void mcp_task_cancel(struct tool_job *job)
{
    struct buf params = {0};
    put_task_id(job, &params);
    (void)mcp_server_ask(job->server, &(struct mcp_ask){.purpose = MCP_FOR_NOTHING,
                                                        .method = "tasks/cancel",
                                                        .params = buf_str(&params),
                                                        .name = str_of(job->task_id)});
    buf_done(&params);
}
