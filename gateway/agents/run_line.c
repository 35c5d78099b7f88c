#include "gateway/agents/run_line.h"

void run_line_put(struct buf *out, const struct run_spec *spec)
{
    buf_puts(out, "{\"type\":\"run\"");
    js_put_field(out, "task_id", spec->task_id);
    js_put_field(out, "conversation_id", spec->conversation_id);
    js_put_field(out, "input", spec->input);
    if (spec->parts.p)
        js_put_raw(out, "parts", spec->parts);
    js_put_raw(out, "history", spec->history.n ? spec->history : STR("[]"));
    js_put_raw(out, "parent", spec->parent.n ? spec->parent : STR("{}"));
    js_put_raw(out, "metadata", spec->metadata.n ? spec->metadata : STR("null"));
    if (spec->trace)
        trace_put_members(out, spec->trace);
    if (spec->attempt > 1)
        js_put_int(out, "attempt", spec->attempt);
    buf_puts(out, "}\n");
}
