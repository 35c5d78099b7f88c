#include "gateway/agents/agent_react.h"

#include <stdio.h>
#include <stdlib.h>

#include "gateway/agents/react_again.h"
#include "gateway/agents/react_input.h"
#include "gateway/agents/react_tell.h"
#include "gateway/base/fault.h"
#include "gateway/base/stepper.h"
#include "gateway/models/model_stats.h"

/* Design
 *
 *           is committed             the model starts          on_done          calls tools
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

#define RUN_MAGIC 0x72656163u

enum react_state {
    REACT_READY,
    REACT_COMMITTING, /* ready, and waits for a commit */
    REACT_COMMITTED,
    REACT_STREAMING,
    REACT_STREAMED,
    REACT_CALLING,
    REACT_ASKING, /* about its budget: then it goes on with asked_in */
    REACT_ENDED
};

struct run {
    unsigned magic;
    enum react_state state, asked_in;
    const struct react_settings *settings;
    const struct model *model; /* the settings', or the fallback in use */
    struct teller teller;
    struct stepper stepper;
    struct model_turn *turn; /* NULL between turns */
    uint64_t turn_began;     /* the loop's time, in ms */
    bool has_told;           /* the turn has produced a thought, a word or a call */
    unsigned n_turns;        /* since the user's last message */
    bool has_called;         /* a tool, in any turn */
    bool cancelled;
    bool left;      /* the gateway stops: nothing comes any more */
    bool takes;     /* a message, now */
    bool has_taken; /* a message, for the next turn */

    struct talk talk;
    struct buf text; /* the turn's text */
    struct buf more; /* members that go back with its calls: its thoughts */
    struct react_calls calls;
    struct react_budget budget;
    size_t turn_bytes;
    char *fault; /* why the turn failed; NULL: it did not */
    struct model_usage usage;
    bool has_usage;
    char *owner, *conversation_id, *task_id; /* for its tools */
};

static struct run *react_run_of(void *arg)
{
    struct run *r = arg;
    ASSERT(r && r->magic == RUN_MAGIC);
    return r;
}

static void set_state(struct run *r, enum react_state state)
{
    r->state = state;
    stepper_start(&r->stepper);
}

static void react_end(struct run *r, enum run_end how, struct str text)
{
    r->state = REACT_ENDED;
    stepper_stop(&r->stepper);
    if (r->has_usage)
        react_tell_usage(&r->teller, &r->usage);
    r->teller.events.on_end(r->teller.task, how, text);
}

/* --- the model's output ----------------------------------------------------------------------- */

static void turn_clear(struct run *r)
{
    react_calls_clear(&r->calls);
    free(r->fault);
    r->fault = NULL;
    r->turn_bytes = 0;
    r->has_told = false;
    buf_done(&r->text);
    buf_done(&r->more);
}

static void turn_over(struct run *r, enum model_reason reason, struct str fault)
{
    if (fault.p && !r->fault)
        r->fault = react_input_fault(r->settings, r->model, r->task_id, reason, fault);
    set_state(r, REACT_STREAMED);
}

static bool react_has_room(struct run *r, size_t bytes)
{
    r->turn_bytes += bytes;
    if (r->turn_bytes <= REACT_TURN_BYTES)
        return true;
    turn_over(r, MODEL_FAULT_OTHER, STR("a turn exceeds 4 MiB"));
    return false;
}

static void tell_first(struct run *r)
{
    if (!r->has_told && r->model->stats)
        histogram_add(&r->model->stats->first_token,
                      (msec_t)(uv_now(r->settings->loop) - r->turn_began));
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
        turn_over(r, MODEL_FAULT_OTHER, STR("a turn calls more than 64 tools"));
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
    r->budget.tokens += usage->prompt_tokens + usage->completion_tokens;
    if (!r->model->stats)
        return;
    r->model->stats->in += (uint64_t)usage->prompt_tokens;
    r->model->stats->out += (uint64_t)usage->completion_tokens;
    r->model->stats->cached += (uint64_t)usage->cached_tokens;
}

static void react_on_done(void *user, enum model_reason reason, struct str error)
{
    struct run *r = react_run_of(user);
    if (r->state == REACT_STREAMING)
        turn_over(r, reason, error);
}

static const struct model_events model_events = {.on_piece = on_piece,
                                                 .on_tool_call = react_tool_call,
                                                 .on_unsaid = on_unsaid,
                                                 .on_more = on_more,
                                                 .on_usage = on_usage,
                                                 .on_done = react_on_done};

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

/* True when the budget is used up: the user is asked first. */
static bool asks_for_more(struct run *r, bool before_call)
{
    uint64_t now = uv_now(r->settings->loop);
    if (!react_budget_is_spent(&r->budget, now, before_call))
        return false;
    r->asked_in = r->state;
    r->state = REACT_ASKING;
    react_budget_ask(&r->budget, now, &r->teller);
    return true;
}

static void take_budget(struct run *r, bool granted)
{
    struct buf text = {0};
    if (granted) {
        react_budget_grant(&r->budget, uv_now(r->settings->loop));
        set_state(r, r->asked_in);
        return;
    }
    buf_puts(&text, "the budget is used up: ");
    react_budget_put(&r->budget, uv_now(r->settings->loop), &text);
    r->fault = buf_take(&text);
    r->has_told = true; /* no fallback helps */
    set_state(r, REACT_STREAMED);
}

/* The model is told what is committed, and nothing else. */
static void commit_turn(struct run *r)
{
    if (asks_for_more(r, false))
        return;
    (void)is_followed(r);
    r->state = REACT_COMMITTING;
    r->teller.events.when_committed(r->teller.task);
}

static void begin_turn(struct run *r)
{
    const struct model *model = r->model;
    char error[256] = "";
    r->has_taken = false;
    react_input_fit(r->model, &r->talk, &r->teller);
    if (react_input_is_at_limit(r->settings, r->model, &r->talk, r->n_turns, error)) {
        react_end(r, RUN_FAILED, str_of(error));
        return;
    }
    r->n_turns++;
    turn_clear(r);
    r->turn_began = uv_now(r->settings->loop);
    r->state = REACT_STREAMING;

    struct buf tools = {0};
    react_input_put_tools(r->settings, &tools);
    struct model_request request = {
        .messages = talk_str(&r->talk), .tools = buf_str(&tools), .may_be_empty = r->has_called};
    r->turn = model->ops->start(model->settings, &request, &model_events, r, error);
    buf_done(&tools);
    FAULT_DIE(MODEL_ASKED);
    if (!r->turn)
        turn_over(r, MODEL_FAULT_OTHER, str_of(error));
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
    turn_clear(r);
    set_state(r, REACT_READY);
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
        set_state(r, REACT_CALLING);
    } else if (is_followed(r)) {
        set_state(r, REACT_READY);
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
        set_state(r, REACT_READY);
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
    case REACT_COMMITTED: begin_turn(r); break;
    case REACT_STREAMED: finish_turn(r); break;
    case REACT_CALLING: go_on_calling(r); break;
    case REACT_COMMITTING:
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
    return r->state == REACT_COMMITTING || (r->state == REACT_CALLING && r->calls.n_open > 0);
}

static void react_proceed(struct run *run)
{
    struct run *r = react_run_of(run);
    if (r->state == REACT_COMMITTING)
        set_state(r, REACT_COMMITTED);
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
    if (r->state == REACT_ENDED || r->cancelled)
        return false;
    if (!js_parse(doc, line.p, line.n, JS_OURS) || js_type(doc, 0) != JS_OBJECT)
        return true;
    bool granted = false;
    if (r->state == REACT_ASKING && react_budget_is_answer(&r->budget, doc, &granted)) {
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
    turn_clear(r);
    react_calls_done(&r->calls);
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
    r->calls = (struct react_calls){.teller = &r->teller,
                                    .tools = s->tools,
                                    .n_tools = s->n_tools,
                                    .secrets = s->secrets,
                                    .on_closed = on_call_closed,
                                    .user = r};
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
    talk_put(&r->talk, TALK_USER, spec->input, true);
    react_budget_init(&r->budget, &s->budget, spec->metadata, uv_now(s->loop));
    stepper_init(&r->stepper, s->loop, 0, react_on_step, r);
    return r;
}

static struct run *react_start(void *settings, const struct run_spec *spec,
                               const struct run_events *events, void *task, char *ret_error)
{
    struct run *r = run_new(settings, spec, events, task, ret_error);
    if (r)
        set_state(r, REACT_READY);
    return r;
}

/* The budget as it was; an open question about it stays open. */
static enum react_state resume_budget(struct run *r, const struct recall *recall)
{
    enum react_state next = r->calls.n ? REACT_CALLING : REACT_READY;
    react_again_move_budget(recall, &r->budget, uv_now(r->settings->loop));
    r->asked_in = next;
    if (recall->budget_refused)
        take_budget(r, false);
    return recall->budget_refused ? r->state : recall->budget_asks ? REACT_ASKING : next;
}

static struct run *react_resume(void *settings, const struct run_spec *spec,
                                const struct resumption *from, const struct run_events *events,
                                void *task, char *ret_error)
{
    struct run *r = run_new(settings, spec, events, task, ret_error);
    struct recall *recall = from->recall;
    if (r) {
        talk_append(&r->talk, &recall->talk);
        r->model = react_input_fallback(r->model, recall->n_fallbacks);
        r->n_turns = recall->n_turns;
        r->has_called = recall->has_called;
        r->has_usage = recall->has_usage;
        r->usage = recall->usage;
        react_again_move(recall, &r->calls);
        set_state(r, resume_budget(r, recall));
    }
    react_again_free(recall);
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
    .free = react_free,
    .proceed = react_proceed,
    .recall = react_recall,
    .forget = react_again_free,
    .resume = react_resume,
    .leave = react_leave,
    .picks = true,
};
