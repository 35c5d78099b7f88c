#include "core/task_trace.h"

static bool trace_caller(struct str metadata, struct trace_context *ret, char *room)
{
    struct js_doc doc = {0};
    bool found = metadata.n && js_parse(&doc, metadata.p, metadata.n, JS_OURS) &&
                 js_type(&doc, 0) == JS_OBJECT && trace_read_members(&doc, 0, ret, room);
    js_done(&doc);
    return found;
}

bool task_trace_of(struct str task_id, struct str metadata, bool traced, double share,
                   struct task_trace *ret)
{
    struct trace_context own, caller = {0};
    ret->has_parent = trace_caller(metadata, &caller, ret->state);
    if (!traced) {
        ret->own = caller;
        return ret->has_parent;
    }
    if (!trace_of_task(task_id, &own))
        return false;
    if (ret->has_parent) {
        memcpy(own.trace_id, caller.trace_id, sizeof own.trace_id);
        memcpy(ret->parent_id, caller.span_id, sizeof ret->parent_id);
        own.sampled = caller.sampled;
        own.state = caller.state;
    } else {
        own.sampled = trace_is_sampled(&own, share);
    }
    ret->own = own;
    return true;
}
