#include "gateway/agents/agent_react.h"

#include <stdio.h>
#include <stdlib.h>

#include "gateway/agents/react_calls.h"
#include "gateway/agents/react_tell.h"
#include "gateway/agents/react_tools.h"
#include "gateway/base/log.h"
#include "gateway/base/stepper.h"
#include "gateway/config/config.h"
#include "gateway/models/model_stats.h"

/* Design
 *
 *            the model starts           on_done              calls tools
 *   READY ───────────────────▶ STREAMING ───────▶ STREAMED ───────────────▶ CALLING ──┐
 *     ▲                                              │ │ calls none, the inbox is     │ one begins
 *     ├───────────── calls none, a message waits ────┘ │ empty: final_answer          │ a step
 *     └────────────────────────────────────────────────┼──────────── all are closed ──┘
 *                                                      ▼
 *                  cancel, a fault ─────────────▶    ENDED  on_end
 *
 * - Everything but the model's pieces happens in react_on_step, in its own turn of the loop: a
 *   cancel takes effect between any two steps, and nothing of the model is freed inside its
 *   callbacks.
 * - Calls are begun one a step, and run side by side (react_calls.h).  A malformed call enters the
 *   talk repaired, because not every model accepts its own output.
 */

#define RUN_MAGIC 0x72656163u

enum react_state {
    REACT_WAITING,
    REACT_READY,
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

    struct talk talk;
    struct buf inbox; /* messages for it: each its length in decimal, a blank, its text */
    struct buf text;  /* the turn's text */
    struct buf more;  /* members that go back with its calls: its thoughts */
    struct react_calls calls;
    struct react_tools tools;
    bool has_tools; /* tools are taken */
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

/* Sets the fault for the user; the log has all of it. */
static void set_fault(struct run *r, enum model_reason reason, struct str said)
{
    struct buf text = {0};
    const char *word = model_reason_word(reason);
    log_event_limited(LEVEL_WARN, "model", "failed", LOG_TEXT("model", r->model->name),
                      LOG_TEXT("task", r->task_id), LOG_TEXT("reason", *word ? word : "other"),
                      LOG_STR("said", said));
    if (r->model->stats)
        r->model->stats->failures[reason]++;
    buf_putf(&text, "model: %s%s", word, *word ? ": " : "");
    buf_putstr(&text, r->settings->short_errors ? str_of(model_reason_text(reason)) : said);
    r->fault = buf_take(&text);
}

static void turn_over(struct run *r, enum model_reason reason, struct str fault)
{
    if (fault.p && !r->fault)
        set_fault(r, reason, fault);
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

/* Adds the turn's text, or its thoughts and calls, because some servers refuse a call without its
 * thoughts. */
static void put_turn(struct run *r)
{
    struct buf *out = &r->talk.json;
    if (r->calls.n == 0 && r->text.len == 0)
        return;
    talk_begin(&r->talk, TALK_ASSISTANT);
    js_put_field(out, "content", r->text.len ? buf_str(&r->text) : STR_NULL);
    if (r->calls.n && r->more.len) {
        buf_putc(out, ',');
        buf_putstr(out, buf_str(&r->more));
    }
    if (r->calls.n)
        react_calls_put(&r->calls, out);
    talk_end(&r->talk, false);
}

/* The oldest message of the inbox becomes the user's next. */
static void take_message(struct run *r)
{
    char *text;
    size_t n = strtoul(r->inbox.bytes, &text, 10);
    talk_put(&r->talk, TALK_USER, (struct str){text + 1, n}, false);
    buf_consume(&r->inbox, (size_t)(text + 1 - r->inbox.bytes) + n);
    r->n_turns = 0;
}

/* Leaves out what does not fit into the model's context, and reports it. */
static void fit_context(struct run *r)
{
    size_t max = r->model->context_bytes, before = talk_size(&r->talk);
    size_t n = max ? talk_shorten(&r->talk, max) : 0;
    if (n == 0)
        return;
    react_tell_shortened(&r->teller, n, before - talk_size(&r->talk), max);
}

/* --- steps ------------------------------------------------------------------------------------ */

static unsigned max_turns(const struct run *r)
{
    return r->settings->max_turns ? r->settings->max_turns : REACT_MAX_TURNS;
}

/* Why there can be no further turn; false: there can. */
static bool is_at_limit(struct run *r, char ret_why[128])
{
    size_t max = r->model->context_bytes;
    if (max == 0 || max > REACT_TALK_BYTES)
        max = REACT_TALK_BYTES;
    if (r->n_turns == max_turns(r))
        snprintf(ret_why, 128, "no answer within %u turns of the model", max_turns(r));
    else if (talk_size(&r->talk) >= max)
        snprintf(ret_why, 128, "model: %s: the conversation with the model exceeds %zu bytes",
                 model_reason_word(CONTEXT_TOO_LONG), max);
    else
        return false;
    return true;
}

static void react_on_tools(void *user)
{
    set_state(react_run_of(user), REACT_READY);
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
    set_state(r, REACT_STREAMED);
}

static void begin_turn(struct run *r)
{
    const struct model *model = r->model;
    char error[256] = "";
    if (!r->has_tools)
        take_tools(r);
    if (asks_for_more(r, false))
        return;
    if (r->inbox.len)
        take_message(r);
    fit_context(r);
    if (is_at_limit(r, error)) {
        react_end(r, RUN_FAILED, str_of(error));
        return;
    }
    r->n_turns++;
    turn_clear(r);
    r->turn_began = uv_now(r->settings->loop);
    r->state = REACT_STREAMING;

    struct buf tools = {0};
    react_tools_put(&r->tools, &tools);
    struct model_request request = {
        .messages = talk_str(&r->talk), .tools = buf_str(&tools), .may_be_empty = r->has_called};
    r->turn = model->ops->start(model->settings, &request, &model_events, r, error);
    buf_done(&tools);
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
    put_turn(r);
    if (r->calls.n) {
        set_state(r, REACT_CALLING);
    } else if (r->inbox.len) {
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
    if (r->calls.at < r->calls.n) {
        if (asks_for_more(r, true))
            return;
        r->budget.tool_calls++;
        react_calls_begin(&r->calls);
    }
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
    case REACT_READY: begin_turn(r); break;
    case REACT_STREAMED: finish_turn(r); break;
    case REACT_CALLING: go_on_calling(r); break;
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
    return r->state == REACT_WAITING || (r->state == REACT_CALLING && r->calls.n_open > 0);
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

/* The sender, when it is not the user: a task that this one started, or its parent. */
static void put_sender(struct run *r, struct buf *out)
{
    const struct js_doc *doc = &r->calls.doc;
    uint32_t from = js_get(doc, 0, "from"), child = js_get(doc, 0, "child");
    if (!from || js_type(doc, from) != JS_STRING || js_is(doc, from, "user"))
        return;
    buf_puts(out, "[from ");
    js_value(doc, from, out);
    const char *const members[] = {"name", "task_id", "status"};
    for (size_t i = 0; child && js_type(doc, child) == JS_OBJECT && i < countof(members); i++) {
        uint32_t member = js_get(doc, child, members[i]);
        if (member && js_type(doc, member) == JS_STRING) {
            buf_putf(out, ", %s ", members[i]);
            js_value(doc, member, out);
        }
    }
    buf_puts(out, "]\n");
}

static bool react_is_deaf(struct run *run)
{
    const struct run *r = react_run_of(run);
    return r->state == REACT_ENDED || r->cancelled;
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
    if (r->inbox.len + line.n > REACT_INBOX)
        return false;
    struct buf text = {0};
    put_sender(r, &text);
    js_value(doc, content, &text);
    buf_putf(&r->inbox, "%zu ", text.len);
    buf_putstr(&r->inbox, buf_str(&text));
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
    if (r->turn)
        r->model->ops->free(r->turn);
    r->turn = NULL;
    turn_clear(r);
    react_calls_done(&r->calls);
    react_tools_done(&r->tools);
    talk_done(&r->talk);
    buf_done(&r->inbox);
    teller_done(&r->teller);
    stepper_close(&r->stepper, react_on_closed);
}

static bool react_put_past(struct run *r, const struct run_spec *spec)
{
    struct str system = str_of(r->settings->system);
    if (spec->is_context)
        return talk_put_context(&r->talk, &r->calls.doc, system, spec->history);
    if (system.p)
        talk_put(&r->talk, TALK_SYSTEM, system, true);
    return talk_put_history(&r->talk, &r->calls.doc, spec->history);
}

static struct run *react_start(void *settings, const struct run_spec *spec,
                               const struct run_events *events, void *task, char *ret_error)
{
    const struct react_settings *s = settings;
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
    if (!react_put_past(r, spec)) {
        snprintf(ret_error, 256, "the history is not a JSON array");
        react_calls_done(&r->calls);
        talk_done(&r->talk);
        run_drop(r);
        return NULL;
    }
    talk_put(&r->talk, TALK_USER, spec->input, true);
    react_budget_init(&r->budget, &s->budget, spec->metadata, uv_now(s->loop));
    stepper_init(&r->stepper, s->loop, 0, react_on_step, r);
    if (react_tools_open(&r->tools, s->mcp, react_on_tools, r))
        set_state(r, REACT_READY);
    return r;
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
};
