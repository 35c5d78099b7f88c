/* Images, sounds and resources of a result become files of the conversation, one after the other;
 * the result is told when all of them are. */
#include <stdio.h>
#include <stdlib.h>

#include "core/file_lender.h"
#include "gateway/mcp/mcp_private.h"
#include "proto/forms/gift.h"

/* The files of a call's result, until all of them are stored. */
struct mcp_gifts {
    struct gift list[MCP_GIFTS];
    size_t n, at;
    struct file_save *save; /* of the one that is stored now */
    struct buf text;        /* of the result */
};

void mcp_files_caller(struct tool_job *job, const struct tool_caller *caller)
{
    struct buf key = {0};
    const struct lender *lender = job->server->mcp->o.lender;
    if (!lender || !caller->talk || !caller->talk->file)
        return;
    buf_putf(&key, "mcp/%.*s/%.*s", (int)caller->task_id.n, caller->task_id.p, (int)caller->call.n,
             caller->call.p);
    job->owner = xstrdup(caller->owner);
    job->conversation_id = xstrdup(caller->conversation_id);
    job->file_key = buf_take(&key);
}

void mcp_files_done(struct tool_job *job)
{
    struct mcp_gifts *g = job->gifts;
    free(job->owner);
    free(job->conversation_id);
    free(job->file_key);
    if (!g)
        return;
    if (g->save)
        job->server->mcp->o.lender->drop(g->save);
    for (size_t i = 0; i < g->n; i++)
        gift_done(&g->list[i]);
    buf_done(&g->text);
    free(g);
}

/* --- what there is ---------------------------------------------------------------------------- */

static void take_gifts(struct mcp_gifts *g, const struct js_doc *doc, uint32_t content)
{
    for (uint32_t i = js_first(doc, content); i < js_end(doc, content); i = js_next(doc, i))
        if (g->n < MCP_GIFTS && gift_read(doc, i, &g->list[g->n]))
            g->n++;
}

/* --- storing ---------------------------------------------------------------------------------- */

static void give_next(struct tool_job *job);

static void on_gift_saved(void *user, const char *why, struct str file)
{
    struct tool_job *job = user;
    struct mcp_gifts *g = job->gifts;
    struct buf told = {0};
    buf_putstr(&told, file);
    job->server->mcp->o.lender->drop(g->save);
    g->save = NULL;
    if (job->state != MCP_JOB_GIVING) {
        buf_done(&told);
        return;
    }
    if (why)
        buf_putf(&g->text, "\n[a file of this could not be kept: %s]", why);
    else
        job->talk->file(job->user, buf_str(&told));
    buf_done(&told);
    give_next(job);
}

static void give_next(struct tool_job *job)
{
    struct mcp_gifts *g = job->gifts;
    char key[128];
    if (g->at == g->n) {
        mcp_job_finish(job, buf_str(&g->text));
        return;
    }
    struct gift *gift = &g->list[g->at++];
    const struct lender *lender = job->server->mcp->o.lender;
    int n = snprintf(key, sizeof key, "%.100s/%zu", job->file_key, g->at);
    g->save = lender->save(lender->arg,
                           &(struct file_plan){.owner = str_of(job->owner),
                                               .conversation_id = str_of(job->conversation_id),
                                               .key = {key, (size_t)n},
                                               .name = buf_str(&gift->name),
                                               .media_type = buf_str(&gift->type),
                                               .bytes = buf_str(&gift->bytes)},
                           on_gift_saved, job);
    buf_done(&gift->bytes);
}

bool mcp_files_give(struct tool_job *job, const struct js_doc *doc, uint32_t result,
                    struct str text)
{
    uint32_t content = js_get(doc, result, "content");
    if (!job->file_key || !content || js_type(doc, content) != JS_ARRAY)
        return false;
    struct mcp_gifts *g = xcalloc(sizeof *g);
    take_gifts(g, doc, content);
    job->gifts = g;
    if (g->n == 0)
        return false;
    buf_putstr(&g->text, text);
    job->state = MCP_JOB_GIVING;
    give_next(job);
    return true;
}
