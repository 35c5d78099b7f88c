/* task_trace -- the trace that a task belongs to (proto/trace.h).
 *
 * Shape:    the caller's context, if there was one, is in two members of the task's metadata,
 *           METADATA_TRACE and METADATA_TRACESTATE, so a restart knows it.  The task's own span is
 *           below that; without a caller its trace begins with the task, and its ids are the
 *           task's.
 * Thread:   loop.
 */
#ifndef CORE_TASK_TRACE_H
#define CORE_TASK_TRACE_H

#include "proto/limits.h"
#include "proto/trace.h"

struct task_trace {
    struct trace_context own; /* what the task hands on; its state is below, so it is not copied */
    char state[MAX_TRACESTATE];
    bool has_parent;
    unsigned char parent_id[8]; /* the caller's span */
};

/* False: there is nothing to hand on.  traced: this gateway makes spans, of that share of the
 * traces that begin here; otherwise the caller's context is handed on as it came. */
bool task_trace_of(struct str task_id, struct str metadata, bool traced, double share,
                   struct task_trace *ret) MUST_USE;

#endif
