/* import: a new conversation of the lines of an export.  The request has all of them, so they are
 * one batch: all of it is there, or nothing. */
#include <stdio.h>

#include "core/call.h"
#include "core/graft.h"
#include "proto/export.h"

/* NULL, or what is wrong. */
static const char *import_line(struct graft *g, const struct export_line *line)
{
    switch (line->kind) {
    case EXPORT_OTHER: return NULL;
    case EXPORT_CONVERSATION:
        graft_name(g, line->title, STR_NULL);
        g->tip = arena_str(&g->chunks, line->tip);
        return NULL;
    case EXPORT_MESSAGE: return graft_add_message(g, &line->message) ? NULL : graft_is_full;
    case EXPORT_TASK: return graft_add_task(g, &line->task) ? NULL : graft_is_full;
    }
    UNREACHABLE();
}

/* False when the call has failed. */
static bool import_lines(struct call *c)
{
    struct js_doc *doc = &c->hub->doc;
    struct export_line line = {0};
    const char *wrong = NULL;
    char text[200];
    int n = 0;
    if (!js_parse(doc, c->req.lines.p, c->req.lines.n, JS_OURS))
        UNREACHABLE();
    for (uint32_t i = js_first(doc, 0); i < js_end(doc, 0) && !wrong; i = js_next(doc, i)) {
        n++;
        wrong = export_line_read(doc, i, &line);
        if (!wrong)
            wrong = import_line(c->graft, &line);
    }
    export_line_done(&line);
    snprintf(text, sizeof text, "line %d of \"lines\": %s", n, wrong ? wrong : "");
    if (wrong == graft_is_full)
        call_fail(c, ERR_TOO_LARGE, wrong);
    else if (wrong)
        call_fail(c, ERR_BAD_REQUEST, text);
    return !wrong;
}

static void on_import_target(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    (void)answer;
    if (graft_is_new(c, status))
        graft_end(c);
}

void verb_import(struct call *c)
{
    graft_begin(c, c->req.conversation_id);
    if (!graft_may_begin(c) || !import_lines(c))
        return;
    graft_sort(c->graft);
    const char *wrong = c->graft->n_messages ? graft_check(c->graft) : "there is no message";
    if (wrong) {
        call_fail(c, ERR_BAD_REQUEST, wrong);
        return;
    }
    call_query(
        c,
        &(struct query){.kind = QUERY_CONVERSATION, .conversation_id = str_of(c->conversation->id)},
        on_import_target);
}
