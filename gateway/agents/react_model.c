/* The output of a run's model, as it comes. */
#include <stdlib.h>

#include "gateway/agents/react_input.h"
#include "gateway/agents/react_run.h"
#include "gateway/base/fault.h"
#include "gateway/models/model_stats.h"
#include "gateway/traces/traces.h"

void react_turn_clear(struct run *r)
{
    react_calls_clear(&r->calls);
    free(r->fault);
    r->fault = NULL;
    r->turn_bytes = 0;
    r->has_told = false;
    r->turn_told = 0;
    r->turn_usage = (struct model_usage){0};
    buf_done(&r->text);
    buf_done(&r->more);
}

static void trace_turn(struct run *r, const char *error)
{
    bool counted = r->turn_usage.prompt_tokens || r->turn_usage.completion_tokens;
    if (!r->trace.is_there)
        return;
    traces_turn(r->settings->traces,
                &(struct traces_turn){.context = &r->turn_trace,
                                      .parent_id = r->trace.context.span_id,
                                      .model = str_of(r->model->name),
                                      .began = r->turn_began,
                                      .told = r->turn_told,
                                      .in = counted ? r->turn_usage.prompt_tokens : -1,
                                      .out = counted ? r->turn_usage.completion_tokens : -1,
                                      .error = str_of(error)});
}

void react_turn_over(struct run *r, enum model_reason reason, struct str fault)
{
    if (r->state == REACT_STREAMING)
        trace_turn(r, !fault.p                     ? NULL
                      : *model_reason_word(reason) ? model_reason_word(reason)
                                                   : "_OTHER");
    if (fault.p && !r->fault)
        r->fault = react_input_fault(r->settings, r->model, r->task_id, reason, fault);
    react_set_state(r, REACT_STREAMED);
}

static bool react_has_room(struct run *r, size_t bytes)
{
    r->turn_bytes += bytes;
    if (r->turn_bytes <= REACT_TURN_BYTES)
        return true;
    react_turn_over(r, MODEL_FAULT_OTHER, STR("a turn exceeds 4 MiB"));
    return false;
}

static void tell_first(struct run *r)
{
    if (!r->has_told && r->model->stats)
        histogram_add(&r->model->stats->first_token,
                      (msec_t)(uv_now(r->settings->loop) - r->turn_began));
    if (!r->has_told)
        r->turn_told = uv_now(r->settings->loop);
    r->has_told = true;
}

static bool on_piece(void *user, enum model_piece kind, struct str text)
{
    struct run *r = react_run_of(user);
    if (r->state != REACT_STREAMING || r->cancelled)
        return false;
    tell_first(r);
    if (kind == PIECE_THINKING) {
        teller_piece(&r->teller, EVENT_THINKING, text);
        return !r->teller.paused;
    }
    if (!react_has_room(r, text.n))
        return false;
    buf_putstr(&r->text, text);
    teller_piece(&r->teller, EVENT_TOKEN, text);
    FAULT_DIE(MODEL_SAID);
    return !r->teller.paused;
}

static void react_tool_call(void *user, const struct model_call *asked)
{
    struct run *r = react_run_of(user);
    size_t bytes = asked->arguments.n + asked->more.n + asked->function_more.n;
    if (r->state != REACT_STREAMING || !react_has_room(r, bytes))
        return;
    if (r->calls.n == REACT_CALLS)
        react_turn_over(r, MODEL_FAULT_OTHER, STR("a turn calls more than 64 tools"));
    else
        react_calls_add(&r->calls, asked);
    r->has_called = true;
    tell_first(r);
}

static void on_unsaid(void *user)
{
    buf_done(&react_run_of(user)->text);
}

static void on_more(void *user, struct str members)
{
    struct run *r = react_run_of(user);
    if (r->state == REACT_STREAMING && react_has_room(r, members.n))
        buf_putstr(&r->more, members);
}

static void on_usage(void *user, const struct model_usage *usage)
{
    struct run *r = react_run_of(user);
    r->has_usage = true;
    model_usage_add(&r->usage, usage);
    model_usage_add(&r->turn_usage, usage);
    r->budget.tokens += usage->prompt_tokens + usage->completion_tokens;
    if (r->model->stats)
        model_stats_count(r->model->stats, usage);
}

static void react_on_done(void *user, enum model_reason reason, struct str error)
{
    struct run *r = react_run_of(user);
    if (r->state == REACT_STREAMING)
        react_turn_over(r, reason, error);
}

const struct model_events react_model_events = {.on_piece = on_piece,
                                                .on_tool_call = react_tool_call,
                                                .on_unsaid = on_unsaid,
                                                .on_more = on_more,
                                                .on_usage = on_usage,
                                                .on_done = react_on_done};
