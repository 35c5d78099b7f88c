/* A task that a restart found running: it goes on, or ends as an orphan.
 *
 *   its notes and events, in order ──▶ decide ─┬─ task.resumed ──committed──▶ its run begins again
 *                                              └─ orphaned, with the reason
 *
 * What a run said since it was last settled it says again, so that is withdrawn: task.resumed names
 * the last event that stays (retracts) and how much text that leaves (keep).  The event after that
 * one is a text, and no event before it is followed by a text that stays: so no run of merged
 * events lies across the border.
 *
 * A resumption is in vain when nothing comes of it.  After VAIN_RESUMPTIONS in a row the task ends:
 * it may be what kills the gateway.  Whether they were close together says nothing, because a
 * manager that starts us again waits longer each time.  Not counted are those after a planned stop,
 * and those of a task that waits for an answer or a child, which has nothing to say. */
#include "core/task_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define VAIN_RESUMPTIONS 5
#define MAX_RETRACTED 64

void task_past_begin(struct task *t, uint64_t mark)
{
    struct task_work *w = task_work(t);
    w->past = xcalloc(sizeof *w->past);
    w->past->mark = w->mark = mark;
    w->next_note = NOTE_FIRST;
}

void task_free_past(struct task *t)
{
    struct task_past *p = t->work ? t->work->past : NULL;
    if (!p)
        return;
    if (p->recall)
        t->agent->ops->forget(p->recall);
    free(p->calls);
    free(p->place);
    free(p);
    t->work->past = NULL;
}

/* --- what the store has ----------------------------------------------------------------------- */

void task_past_is_unreadable(struct task *t)
{
    struct task_past *p = t->work ? t->work->past : NULL;
    if (!p)
        return;
    p->unreadable = true;
    if (p->recall)
        t->agent->ops->forget(p->recall);
    p->recall = NULL;
}

static void recall(struct task *t, const struct recalled *item)
{
    struct task_past *p = t->work->past;
    bool settled = false;
    if (p->unreadable)
        return;
    p->recall = t->agent->ops->recall(t->agent->settings, p->recall, item, &settled);
    p->unreadable = !p->recall;
    if (!settled)
        return;
    p->settled = t->work->said.sum;
    p->unsettled = 0;
}

void task_past_note(struct task *t, uint64_t number, uint64_t seq, struct str bytes)
{
    struct task_work *w = t->work;
    if (number == NOTE_STOPPED && bytes.n == 0)
        w->past->stopped_at = seq;
    else if (number == NOTE_STOPPED)
        task_past_stop(t, bytes);
    if (number == NOTE_RESULT) {
        free(w->result);
        w->result = xstrdup(bytes);
    }
    if (number == NOTE_HELD_THINKING || number == NOTE_HELD_TOKEN)
        task_restore_held(t, number, bytes);
    if (number == NOTE_CALLS)
        task_past_calls(t, bytes);
    if (number != NOTE_STANDING && number < NOTE_FIRST)
        return;
    if (number >= NOTE_FIRST) {
        w->next_note = number + 1;
        t->bytes += bytes.n;
    }
    recall(t, &(struct recalled){.note = bytes, .standing = number == NOTE_STANDING});
}

/* While a question is open, the clocks stand. */
static void count_questions(struct task *t, const struct event_parts *event)
{
    struct task_past *p = t->work->past;
    unsigned before = p->n_open;
    p->n_open = t->work->n_questions;
    if (before == 0 && p->n_open > 0)
        p->stood_since = event->ts;
    if (before > 0 && p->n_open == 0 && event->ts > p->stood_since)
        p->stood_ms += event->ts - p->stood_since;
}

/* One that withdraws more (task_on_anew) is of the same attempt. */
static void count_attempt(struct task_past *p, const struct event_parts *event)
{
    struct js_doc doc = {0};
    int64_t attempt = 0;
    if (js_parse(&doc, event->data.p, event->data.n, JS_OURS) && js_get(&doc, 0, "attempt") &&
        js_int(&doc, js_get(&doc, 0, "attempt"), &attempt) && attempt > (int64_t)p->attempts + 1 &&
        attempt <= INT32_MAX) {
        uint32_t planned = js_get(&doc, 0, "planned");
        p->attempts = (unsigned)attempt - 1;
        p->vain += !planned || js_type(&doc, planned) != JS_TRUE;
    }
    js_done(&doc);
}

static void count_attempts(struct task_past *p, const struct event_parts *event)
{
    if (event->event == EVENT_TASK_RESUMED)
        count_attempt(p, event);
    else
        p->vain = 0;
}

static void recall_budget(struct task *t, const struct event_parts *event)
{
    struct js_doc *doc = &t->hub->doc;
    bool asks = event->event == EVENT_INPUT_REQUIRED || event->event == EVENT_INPUT_RECEIVED;
    if (!asks ||
        (js_parse(doc, event->data.p, event->data.n, JS_OURS) && js_type(doc, 0) == JS_OBJECT))
        budget_recall(&t->work->past->budget, event, doc, 0);
}

/* The event is in said and among the questions already. */
void task_past_event(struct task *t, const struct event_parts *event)
{
    struct task_past *p = t->work->past;
    bool is_text = event->event == EVENT_TOKEN || event->event == EVENT_THINKING;
    if (is_text && !t->work->first_text)
        t->work->first_text = event->seq;
    if (is_text && !p->unsettled)
        p->unsettled = event->seq;
    if (event->event == EVENT_TASK_RESUMED)
        p->stopped_at = p->stopped_at >= event->seq ? p->stopped_at : 0;
    if (event->event == EVENT_TOOL_CALL)
        task_past_call(t, event);
    if (t->hub->o.happened && !is_text)
        t->hub->o.happened(t->hub->o.arg, t, event->event, event->data, event->ts);
    count_questions(t, event);
    count_attempts(p, event);
    recall_budget(t, event);
    recall(t, &(struct recalled){.event = event});
}

/* --- the decision ----------------------------------------------------------------------------- */

static const char *const reasons[N_NOT_RESUMED] = {
#define X(name, label, text) [name] = text,
    NOT_RESUMED_TABLE(X)
#undef X
};

/* N_NOT_RESUMED: it goes on. */
static enum not_resumed why_not(struct task *t, char ret_text[256])
{
    const struct task_past *p = t->work ? t->work->past : NULL;
    enum not_resumed why = N_NOT_RESUMED;
    bool waits = t->work && (t->work->n_questions > 0 || task_has_children(t));
    if (!t->agent)
        why = NOT_CONFIGURED;
    else if (!p)
        why = NOT_WANTED;
    else if (p->unreadable || !p->recall)
        why = NOT_READABLE;
    else if (p->vain >= VAIN_RESUMPTIONS && !waits)
        why = NOT_GETTING_ON;
    if (why != N_NOT_RESUMED) {
        snprintf(ret_text, 256, "%s", reasons[why]);
        return why;
    }
    const struct agent_ops *ops = t->agent->ops;
    uint64_t last = 0;
    if (ops->is_there && !ops->is_there(t->agent->settings, task_id_of(t), &last, ret_text))
        return NOT_THERE;
    task_inbox_skip(t, last);
    return N_NOT_RESUMED;
}

static void put_retracted(struct task_work *w, uint64_t after, uint64_t before)
{
    struct buf all = {0};
    const char *old = w->retracted;
    size_t n = 0;
    for (const char *at = old; at && (at = strchr(at + 1, '[')) != NULL;)
        n++;
    for (; n >= MAX_RETRACTED;
         n--) /* the oldest: who replays it learns of it at its task.resumed */
        old = strchr(old, ']') + 1;
    buf_putc(&all, '[');
    if (n > 0)
        buf_put(&all, old + 1, strlen(old) - 2);
    buf_putf(&all, "%s[%" PRIu64 ",%" PRIu64 "]]", n > 0 ? "," : "", after, before);
    free(w->retracted);
    w->retracted = buf_take(&all);
}

const char *resumed_why_name(enum resumed_why why)
{
    return why == RESUMED_TAKEOVER ? "takeover" : "restart";
}

static enum resumed_why resumed_why(const struct task *t)
{
    bool own = slots_has(&t->hub->own, slot_of(task_owner(t)));
    return own ? RESUMED_RESTART : RESUMED_TAKEOVER;
}

/* Withdraws the text from the event `from` on, 0 for none: what is before it has `keep`. The number
 * of bytes. */
static uint64_t put_resumed_event(struct task *t, bool planned, uint64_t from,
                                  const struct said_sum *keep)
{
    struct task_work *w = t->work;
    struct buf data = {0};
    buf_putc(&data, '{');
    js_put_int(&data, "attempt", (int64_t)w->attempt);
    js_put_field(&data, "why", str_of(resumed_why_name(resumed_why(t))));
    if (planned)
        js_put_bool(&data, "planned", true);
    if (from) {
        js_put_int(&data, "retracts", (int64_t)from - 1);
        js_put_raw(&data, "keep", STR("{"));
        js_put_int(&data, "text", (int64_t)keep->text);
        js_put_int(&data, "thinking", (int64_t)keep->thinking);
        buf_putc(&data, '}');
    }
    buf_putc(&data, '}');
    uint64_t seq = task_event(t, EVENT_TASK_RESUMED, buf_str(&data));
    buf_done(&data);
    if (!from)
        return 0;
    uint64_t withdrawn = w->said.sum.bytes - keep->bytes;
    put_retracted(w, from - 1, seq);
    said_keep(&w->said, keep);
    t->hub->stats.retracted_bytes += withdrawn;
    return withdrawn;
}

void task_on_anew(void *task)
{
    struct task *t = task;
    struct task_work *w = t->work;
    if (!task_run_of(t) || t->left || task_is_ending(t))
        return;
    task_drop_held(t);
    if (w->said.sum.bytes == 0)
        return;
    (void)put_resumed_event(t, false, w->first_text, &(struct said_sum){0});
    task_stage(t);
}

static void go_on(struct task *t)
{
    struct task_work *w = t->work;
    w->attempt = w->past->attempts + 2;
    uint64_t withdrawn =
        put_resumed_event(t, w->past->stopped_at > 0, w->past->unsettled, &w->past->settled);
    hub_count(t->hub->stats.resumed[resumed_why(t)], str_of(t->agent->ops->kind));
    t->phase = PHASE_RESUMING;
    task_review_questions(t); /* stages the row */
    if (t->hub->o.resumed) {
        struct task_record rec = task_staged(t);
        t->hub->o.resumed(t->hub->o.arg, &rec, w->attempt, withdrawn);
    }
}

void task_past_end(struct task *t)
{
    char why[256] = "", text[320];
    bool cancelled = staged_state(t)->cancel_requested_at != 0;
    bool stops = cancelled || t->stopping != TASK_OK;
    enum not_resumed reason = why_not(t, why);
    if (reason == N_NOT_RESUMED && (!stops || t->agent->outlives)) {
        go_on(t);
        return;
    }
    if (stops && !cancelled) {
        task_finish(t, STATUS_FAILED, t->stopping, str_of(t->work->stop_text));
        return;
    }
    if (!cancelled)
        t->hub->stats.not_resumed[reason]++;
    snprintf(text, sizeof text, "orphaned: %s", why);
    task_finish(t, STATUS_FAILED, TASK_ORPHANED, str_of(text));
}

/* --- the run ---------------------------------------------------------------------------------- */

struct run *task_resume_run(struct task *t, const struct run_spec *spec, char *ret_error)
{
    struct task_past *p = t->work->past;
    struct resumption from = {.recall = p->recall, .mark = p->mark, .held = task_held_token(t)};
    p->recall = NULL;
    if (t->agent->is_process) { /* it runs, whatever the limit is */
        hub_hold_slot(t->hub);
        t->has_slot = true;
    }
    return t->agent->ops->resume(t->agent->settings, spec, &from, &task_run_events, t, ret_error);
}

/* The time-out counts from the first start, without the time in which a question was open; the
 * gateway's absence counts. */
static void arm_clocks(struct task *t)
{
    struct clock *c = &t->hub->clock;
    struct task_work *w = t->work;
    const struct task_past *p = w->past;
    int64_t until = p->n_open ? p->stood_since : c->wall_ms;
    int64_t ran = until - staged_state(t)->started_at - p->stood_ms;
    msec_t left = t->agent->timeout_ms - (ran > 0 ? ran : 0);
    left = left > 1 ? left : 1;
    w->heard_ms = c->now_ms;
    w->clocks_stand = w->n_questions > 0;
    w->timeout_left = t->agent->timeout_ms ? left : 0;
    if (w->clocks_stand)
        return;
    if (t->agent->timeout_ms)
        timer_arm(c, &w->timeout, c->now_ms + left);
    if (t->agent->idle_timeout_ms)
        timer_arm(c, &w->idle, c->now_ms + t->agent->idle_timeout_ms);
}

void task_resumed(struct task *t)
{
    arm_clocks(t);
    task_free_past(t);
    task_arm_questions(t);
    task_resume_tools(t);
    task_hear_answers(t);
    if (shown_state(t)->cancel_requested_at) /* one that is not committed is told when it is */
        task_stop(t, TASK_CANCELLED_ERROR, "cancelled");
    else if (t->stopping != TASK_OK)
        task_stop(t, t->stopping, t->work->stop_text);
}
