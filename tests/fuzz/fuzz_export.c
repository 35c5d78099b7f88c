/* The lines of an export: whatever is read is good enough to be checked as a tree, and a tree that
 * is not refused has a task for each question, and no way up that does not end. */
#include "core/graft.h"
#include "proto/export.h"

static void fuzz_one_line(struct graft *g, struct str text)
{
    struct js_doc doc = {0};
    struct export_line line = {0};
    bool added = true;
    if (js_parse(&doc, text.p, text.n, JS_CLIENT) && !export_line_read(&doc, 0, &line)) {
        if (line.kind == EXPORT_MESSAGE)
            added = graft_add_message(g, &line.message);
        if (line.kind == EXPORT_TASK)
            added = graft_add_task(g, &line.task);
        if (line.kind == EXPORT_CONVERSATION)
            graft_name(g, line.title, STR_NULL);
    }
    ASSERT(added);
    export_line_done(&line);
    js_done(&doc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct graft *g = graft_new();
    for (const char *at = (const char *)data, *end = at + size; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t n = (size_t)((newline ? newline : end) - at);
        fuzz_one_line(g, (struct str){at, n});
        at += n + 1;
    }
    graft_sort(g);
    bool is_tree = !graft_check(g);
    for (size_t i = 0; is_tree && i < g->n_messages; i++) {
        size_t up = i, steps = 0;
        while ((up = g->messages[up].parent) != GRAFT_NONE)
            ASSERT(++steps < g->n_messages);
        ASSERT(g->messages[i].record.role != ROLE_USER || g->messages[i].task < g->n_tasks);
    }
    graft_free(g);
    return 0;
}
