#include "gateway/agents/agent_react.h"

#include <stdio.h>
#include <stdlib.h>

#include "gateway/agents/react_input.h"
#include "gateway/agents/react_run.h"
#include "gateway/agents/react_tell.h"
#include "gateway/base/fault.h"
#include "proto/parts.h"

/* Design
 *
 *           is committed       files read, the model starts     on_done          calls tools
 *   READY ─────────────▶ COMMITTED ─────────────────▶ STREAMING ──────▶ STREAMED ────▶ CALLING ──┐
 *     ▲                                                                │ │ calls none, no     │
 *     ├───────────── calls none, a message follows ────────────────────┘ │ message: answer    │
 *     └──────────────────────────────────────────────────────────────────┼─ all are closed ───┘
 *                                                                        ▼
 *                                      cancel, a fault ─────────────▶  ENDED  on_end
 *
 * - Everything but the model's pieces happens in react_on_step, in its own turn of the loop: a
 *   cancel takes effect between any two steps, and nothing of the model is freed inside its
 *   callbacks.
 * - Calls are begun one a step, and run side by side (react_calls.h).  A malformed call enters the
 *   talk repaired, because not every model accepts its own output.
 * - The model is asked when all that it is told is committed, so the next gateway asks it the same.
 *   That knows which turns were over from notes (react_again.h): one for each turn with calls, one
 *   for each message.  Messages are taken between turns, and otherwise left to core.
 */

static void react_end(struct run *r, enum run_end how, struct str text)
{
    r->state = REACT_ENDED;
    stepper_stop(&r->stepper);
    if (r->has_usage)
        react_tell_usage(&r->teller, &r->usage);
    r->teller.events.on_end(r->teller.task, how, text);
}

/* Commands may run: they are stopped when the next gateway would know why. */
static void react_stop(struct run *r, struct str why)
{
    if (r->has_usage)
        react_tell_usage(&r->teller, &r->usage);
    r->has_usage = false;
    r->state = REACT_WAITING;
    stepper_stop(&r->stepper);
    r->teller.events.on_stop(r->teller.task, why);
}

/* --- the model's input ------------------------------------------------------------------------ */

/* Notes the turn that has just entered the talk. */
static void note_turn(struct run *r)
{
    react_again_note_turn(&r->teller, &r->calls, r->has_usage ? &r->usage : NULL,
                          talk_newest(&r->talk));
}

/* The message becomes the user's next, after the answer that it follows. */
static void take_message(struct run *r, struct str text)
{
    r->takes = false;
    r->has_taken = true;
    r->n_turns = 0;
    if (r->state == REACT_STREAMED && r->text.len) {
        react_input_put_turn(&r->talk, buf_str(&r->text), buf_str(&r->more), &r->calls);
        note_turn(r);
    }
    talk_put(&r->talk, TALK_USER, text, false);
    react_again_note_message(&r->teller, talk_newest(&r->talk));
}

/* Whether a message that waits is the user's next: one for each turn. */
static bool is_followed(struct run *r)
{
    r->takes = !r->has_taken;
    if (r->takes)
        r->teller.events.on_room(r->teller.task);
    r->takes = false;
    return r->has_taken;
}

/* --- steps ------------------------------------------------------------------------------------ */

static void react_on_tools(void *user)
{
    react_set_state(react_run_of(user), REACT_READY);
}

/* Before the first turn. */
static void take_tools(struct run *r)
{
    react_tools_take(&r->tools, r->settings->tools, r->settings->n_tools, &r->teller);
    r->calls.tools = r->tools.list;
    r->calls.n_tools = r->tools.n;
    r->has_tools = true;
}

/* True when the budget is used up: the user is asked first. */
static bool asks_for_more(struct run *r, bool before_call)
{
    msec_t now = (msec_t)uv_now(r->settings->loop);
    struct buf data = {0};
    char id[BUDGET_ID];
    if (!budget_is_spent(&r->budget, now, before_call))
        return false;
    r->asked_in = r->state;
    r->state = REACT_ASKING;
    r->budget.n_asked++;
    budget_put_id(&r->budget, id);
    budget_put_question(&r->budget, now, &data);
    teller_say(&r->teller, &(struct agent_line){.kind = LINE_EVENT,
                                                .event = EVENT_INPUT_REQUIRED,
                                                .data = buf_str(&data),
                                                .input_id = str_of(id),
                                                .approval = true,
                                                .timeout_s = -1});
    buf_done(&data);
    return true;
}

static void take_budget(struct run *r, bool granted)
{
    struct buf text = {0};
    if (granted) {
        budget_grant(&r->budget, (msec_t)uv_now(r->settings->loop));
        react_set_state(r, r->asked_in);
        return;
    }
    buf_puts(&text, "the budget is used up: ");
    budget_put(&r->budget, (msec_t)uv_now(r->settings->loop), &text);
    react_stop(r, buf_str(&text));
    buf_done(&text);
}

/* The budget as it was; an open question about it stays open. */
static enum react_state resume_budget(struct run *r, const struct recall *recall)
{
    enum react_state next = r->calls.n ? REACT_CALLING : REACT_READY;
    react_again_move_budget(recall, &r->budget, (msec_t)uv_now(r->settings->loop));
    r->asked_in = next;
    if (recall->budget.refused)
        take_budget(r, false);
    return recall->budget.refused ? r->state : recall->budget.asks ? REACT_ASKING : next;
}

/* Goes on where an earlier gateway was; until then no line is taken. */
static void take_recall(struct run *r)
{
    struct recall *recall = r->recall;
    r->recall = NULL;
    react_again_move(recall, &r->calls);
    react_set_state(r, resume_budget(r, recall));
    react_again_free(recall);
    r->teller.events.on_room(r->teller.task);
}

/* The model is told what is committed, and nothing else. */
static void commit_turn(struct run *r)
{
    if (!r->has_tools)
        take_tools(r);
    if (r->recall) {
        take_recall(r);
        return;
    }
    if (asks_for_more(r, false))
        return;
    (void)is_followed(r);
    r->state = REACT_COMMITTING;
    r->teller.events.when_committed(r->teller.task);
}

/* NULL: nobody traces the task. */
static const struct trace_context *begin_turn_trace(struct run *r)
{
    char name[32];
    if (!r->trace.is_there)
        return NULL;
    r->turn_trace = r->trace.context;
    if (!r->settings->traces) /* the caller's trace goes on, and there is no span of ours in it */
        return &r->turn_trace;
    snprintf(name, sizeof name, "turn %u", ++r->n_traced);
    trace_child_id(&r->trace.context, str_of(name), r->turn_trace.span_id);
    return &r->turn_trace;
}

static void react_on_files(void *user)
{
    react_set_state(react_run_of(user), REACT_READ);
}

/* The model is asked when its files are there. */
static void read_files(struct run *r)
{
    r->files.lender = r->settings->lender;
    r->files.ready = react_on_files;
    r->files.user = r;
    r->state = REACT_READING;
    r->files.owner = str_of(r->owner);
    r->files.conversation_id = str_of(r->conversation_id);
    if (react_files_open(&r->files, r->model, talk_str(&r->talk)))
        react_set_state(r, REACT_READ);
}

static void fit_turn(struct run *r)
{
    char error[256] = "";
    r->has_taken = false;
    react_input_fit(r->model, &r->talk, &r->teller);
    if (react_input_is_at_limit(r->settings, r->model, &r->talk, r->n_turns, error)) {
        react_end(r, RUN_FAILED, str_of(error));
        return;
    }
    read_files(r);
}

static struct model_turn *ask_model(struct run *r, char *ret_error)
{
    const struct model *model = r->model;
    struct buf tools = {0}, messages = {0};
    struct model_turn *turn = NULL;
    react_tools_put(&r->tools, &tools);
    react_files_put(&r->files, model, talk_str(&r->talk), &messages);
    struct model_request request = {.messages = buf_str(&messages),
                                    .tools = buf_str(&tools),
                                    .may_be_empty = r->has_called,
                                    .trace = begin_turn_trace(r)};
    if (r->files.fault)
        snprintf(ret_error, 256, "%s", r->files.fault);
    else
        turn = model->ops->start(model->settings, &request, &react_model_events, r, ret_error);
    react_files_clear(&r->files);
    buf_done(&messages);
    buf_done(&tools);
    return turn;
}

/* Its fallback may take them. */
static void refuse_files(struct run *r, const char *why)
{
    struct buf text = {0};
    buf_putf(&text, "model: %s", why);
    r->fault = buf_take(&text);
    react_files_clear(&r->files);
    react_set_state(r, REACT_STREAMED);
}

static void begin_turn(struct run *r)
{
    char error[256] = "";
    r->n_turns++;
    react_turn_clear(r);
    r->turn_began = uv_now(r->settings->loop);
    r->state = REACT_STREAMING;

    if (react_files_refuse(r->model, str_of(r->parts), error)) {
        refuse_files(r, error);
        return;
    }
    r->turn = ask_model(r, error);
    FAULT_DIE(MODEL_ASKED);
    if (!r->turn)
        react_turn_over(r, MODEL_FAULT_OTHER, str_of(error));
}

/* If nothing of the turn was sent yet, the next model may take it. */
static bool fall_back(struct run *r)
{
    const struct model *from = r->model;
    if (r->has_told || !from->fallback)
        return false;
    r->model = from->fallback;
    r->n_turns--;
    react_tell_fallback(&r->teller, from->name, r->model->name);
    react_turn_clear(r);
    react_set_state(r, REACT_READY);
    return true;
}

static void finish_turn(struct run *r)
{
    r->model->ops->free(r->turn);
    r->turn = NULL;
    if (r->fault && fall_back(r))
        return;
    if (r->fault) {
        react_end(r, RUN_FAILED, str_of(r->fault));
        return;
    }
    if (r->calls.n) {
        react_input_put_turn(&r->talk, buf_str(&r->text), buf_str(&r->more), &r->calls);
        note_turn(r);
        react_set_state(r, REACT_CALLING);
    } else if (is_followed(r)) {
        react_set_state(r, REACT_READY);
    } else {
        if (r->text.len || !r->has_called) /* otherwise it is the text before the calls */
            teller_final_answer(&r->teller, buf_str(&r->text));
        react_end(r, RUN_DONE, STR_NULL);
    }
}

/* Begins the next call or, when all are done, adds their results.  Waits for open calls. */
static void go_on_calling(struct run *r)
{
    bool is_new = react_calls_next_is_new(&r->calls);
    if (is_new && asks_for_more(r, true))
        return;
    r->budget.tool_calls += is_new;
    if (r->calls.at < r->calls.n)
        react_calls_begin(&r->calls);
    if (react_calls_are_through(&r->calls)) {
        react_calls_put_results(&r->calls, &r->talk);
        react_set_state(r, REACT_READY);
    } else if (r->calls.at < r->calls.n) {
        stepper_start(&r->stepper);
    }
}

static void on_call_closed(void *user)
{
    struct run *r = react_run_of(user);
    if (r->state == REACT_CALLING)
        stepper_start(&r->stepper);
}

static void react_on_step(void *arg)
{
    struct run *r = react_run_of(arg);
    stepper_stop(&r->stepper);
    if (r->state == REACT_ENDED)
        return;
    if (r->cancelled) {
        react_end(r, RUN_FAILED, STR("cancelled"));
        return;
    }
    if (r->teller.paused)
        return;
    switch (r->state) {
    case REACT_READY: commit_turn(r); break;
    case REACT_COMMITTED: fit_turn(r); break;
    case REACT_READ: begin_turn(r); break;
    case REACT_STREAMED: finish_turn(r); break;
    case REACT_CALLING: go_on_calling(r); break;
    case REACT_COMMITTING:
    case REACT_READING:
    case REACT_WAITING:
    case REACT_STREAMING:
    case REACT_ASKING:
    case REACT_ENDED: break;
    }
}

/* --- the port --------------------------------------------------------------------------------- */

static void react_cancel(struct run *run)
{
    struct run *r = react_run_of(run);
    if (r->state == REACT_ENDED)
        return;
    r->cancelled = true;
    stepper_start(&r->stepper);
}

static bool react_waits(struct run *run)
{
    const struct run *r = react_run_of(run);
    return r->state == REACT_WAITING || r->state == REACT_COMMITTING || r->state == REACT_READING ||
           (r->state == REACT_CALLING && r->calls.n_open > 0);
}

static bool react_is_bound(struct run *run)
{
    return react_calls_are_bound(&react_run_of(run)->calls);
}

static void react_proceed(struct run *run)
{
    struct run *r = react_run_of(run);
    if (r->state == REACT_COMMITTING)
        react_set_state(r, REACT_COMMITTED);
    else if (r->state == REACT_CALLING || r->state == REACT_ASKING)
        react_calls_proceed(&r->calls);
}

/* The step that is cut is asked again by the next gateway. */
static void react_leave(struct run *run)
{
    struct run *r = react_run_of(run);
    if (r->state == REACT_ENDED)
        return;
    r->left = true;
    r->state = REACT_ENDED;
    stepper_stop(&r->stepper);
    react_files_clear(&r->files);
    r->model->ops->free(r->turn);
    r->turn = NULL;
    react_calls_leave(&r->calls);
}

static void react_unpause(struct run *run)
{
    struct run *r = react_run_of(run);
    if (r->state == REACT_ENDED)
        return;
    r->teller.paused = false;
    stepper_start(&r->stepper);
    if (r->state == REACT_STREAMING)
        r->model->ops->unpause(r->turn);
}

static bool react_is_deaf(struct run *run)
{
    const struct run *r = react_run_of(run);
    return (r->state == REACT_ENDED && !r->left) || r->cancelled;
}

static bool react_deliver(struct run *run, struct str line)
{
    struct run *r = react_run_of(run);
    struct js_doc *doc = &r->calls.doc;
    if (r->state == REACT_ENDED || r->cancelled || r->recall)
        return false;
    if (!js_parse(doc, line.p, line.n, JS_OURS) || js_type(doc, 0) != JS_OBJECT)
        return true;
    bool granted = false;
    if (r->state == REACT_ASKING && budget_is_answer(&r->budget, doc, &granted)) {
        take_budget(r, granted);
        return true;
    }
    if (react_calls_deliver(&r->calls))
        return true;
    uint32_t type = js_get(doc, 0, "type"), content = js_get(doc, 0, "content");
    if (!type || !js_is(doc, type, "message") || !content || js_type(doc, content) != JS_STRING)
        return true; /* an answer to a call that is no longer open */
    if (!r->takes)
        return false; /* until there is room for it (is_followed) */
    struct buf text = {0};
    react_input_put_message(doc, &text);
    take_message(r, buf_str(&text));
    buf_done(&text);
    return true;
}

static void run_drop(struct run *r)
{
    r->magic = 0;
    free(r->owner);
    free(r->conversation_id);
    free(r->task_id);
    free(r->parts);
    free(r);
}

static void react_on_closed(void *arg)
{
    run_drop(react_run_of(arg));
}

static void react_free(struct run *run)
{
    if (!run)
        return;
    struct run *r = react_run_of(run);
    r->model->ops->free(r->turn);
    react_turn_clear(r);
    react_files_clear(&r->files);
    react_calls_done(&r->calls);
    react_tools_done(&r->tools);
    react_again_free(r->recall);
    trace_drop(&r->trace);
    talk_done(&r->talk);
    teller_done(&r->teller);
    stepper_close(&r->stepper, react_on_closed);
}

/* A run with everything up to the task's input in its talk. */
static struct run *run_new(const struct react_settings *s, const struct run_spec *spec,
                           const struct run_events *events, void *task, char *ret_error)
{
    struct run *r = xcalloc(sizeof *r);
    r->magic = RUN_MAGIC;
    r->settings = s;
    r->model = s->model;
    r->teller = (struct teller){.events = *events, .task = task};
    r->calls = (struct react_calls){
        .teller = &r->teller, .secrets = s->secrets, .on_closed = on_call_closed, .user = r};
    r->owner = xstrdup(spec->owner);
    r->conversation_id = xstrdup(spec->conversation_id);
    r->task_id = xstrdup(spec->task_id);
    r->calls.caller = (struct tool_caller){.owner = str_of(r->owner),
                                           .conversation_id = str_of(r->conversation_id),
                                           .task_id = str_of(r->task_id)};
    talk_init(&r->talk);
    if (!react_input_put_past(s, spec, &r->talk, &r->calls.doc)) {
        snprintf(ret_error, 256, "the history is not a JSON array");
        react_calls_done(&r->calls);
        talk_done(&r->talk);
        run_drop(r);
        return NULL;
    }
    trace_keep(&r->trace, spec->trace);
    r->calls.caller.trace = trace_kept(&r->trace);
    r->calls.has_spans = s->traces != NULL;
    r->n_traced = spec->attempt << 16; /* an earlier gateway's turns have other ids */
    r->parts = parts_have_file(spec->parts) ? xstrdup(spec->parts) : NULL;
    if (r->parts)
        talk_put_parts(&r->talk, TALK_USER, spec->parts, true);
    else
        talk_put(&r->talk, TALK_USER, spec->input, true);
    budget_init(&r->budget, &s->budget, spec->metadata, (msec_t)uv_now(s->loop));
    stepper_init(&r->stepper, s->loop, 0, react_on_step, r);
    return r;
}

static void begin(struct run *r)
{
    if (react_tools_open(&r->tools, r->settings->mcp, react_on_tools, r))
        react_set_state(r, REACT_READY);
}

static struct run *react_start(void *settings, const struct run_spec *spec,
                               const struct run_events *events, void *task, char *ret_error)
{
    struct run *r = run_new(settings, spec, events, task, ret_error);
    if (r)
        begin(r);
    return r;
}

static struct run *react_resume(void *settings, const struct run_spec *spec,
                                const struct resumption *from, const struct run_events *events,
                                void *task, char *ret_error)
{
    struct run *r = run_new(settings, spec, events, task, ret_error);
    struct recall *recall = from->recall;
    if (!r) {
        react_again_free(recall);
        return NULL;
    }
    talk_append(&r->talk, &recall->talk);
    r->model = react_input_fallback(r->model, recall->n_fallbacks);
    r->n_turns = recall->n_turns;
    r->has_called = recall->has_called;
    r->has_usage = recall->has_usage;
    r->usage = recall->usage;
    r->recall = recall;
    begin(r);
    return r;
}

static struct recall *react_recall(void *settings, struct recall *recall,
                                   const struct recalled *item, bool *ret_settled)
{
    (void)settings;
    return react_again_recall(recall, item, ret_settled);
}

const struct agent_ops agent_react_ops = {
    .kind = "react",
    .start = react_start,
    .cancel = react_cancel,
    .kill = react_cancel,
    .deliver = react_deliver,
    .is_deaf = react_is_deaf,
    .unpause = react_unpause,
    .waits = react_waits,
    .is_bound = react_is_bound,
    .free = react_free,
    .proceed = react_proceed,
    .recall = react_recall,
    .forget = react_again_free,
    .resume = react_resume,
    .leave = react_leave,
    .picks = true,
};
