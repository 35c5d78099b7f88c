/* The budget of a task whose agent does not keep to one by itself (agent.asks_budget): counted from
 * what passes by.
 *
 * A call is counted when the agent tells it or makes it; tokens when it says a result with usage;
 * seconds run.  What the agent does inside itself cannot be stopped between two lines, so once the
 * question is open it is not read any more: it runs on until its pipe or connection is full.  The
 * gateway's own tools wait.  Runs that share a connection are read nevertheless
 * (agent_ops.shares). */
#include <stdlib.h>

#include "core/task_parts.h"

struct task_budget {
    struct task *task;
    struct budget budget;
    struct timer timer;   /* its seconds are over */
    int64_t tokens_until; /* used before the last grant … */
    int64_t calls_until;  /* … and the calls until the question, which is open */
    bool asks;
};

static msec_t now_of(const struct task *t)
{
    return t->hub->clock.now_ms;
}

/* --- counting --------------------------------------------------------------------------------- */

/* Servers count in these members; a total counts alone. */
static int64_t tokens_in(const struct js_doc *doc, uint32_t usage)
{
    static const char *const names[] = {
        "total_tokens",           "totalTokens",  "prompt_tokens",
        "completion_tokens",      "input_tokens", "inputTokens",
        "output_tokens",          "outputTokens", "cache_creation_input_tokens",
        "cache_read_input_tokens"};
    int64_t sum = 0, n;
    for (size_t i = 0; i < countof(names); i++) {
        uint32_t node = js_get(doc, usage, names[i]);
        if (!node || js_type(doc, node) != JS_NUMBER || !js_int(doc, node, &n) || n < 0)
            continue;
        sum += n;
        if (i < 2 && n > 0)
            break;
    }
    return sum;
}

/* A result says {"usage":{…}}. */
static int64_t tokens_of(struct hub *h, struct str result)
{
    int64_t n = 0;
    if (result.p && js_parse(&h->doc, result.p, result.n, JS_OURS) &&
        js_type(&h->doc, 0) == JS_OBJECT) {
        uint32_t usage = js_get(&h->doc, 0, "usage");
        if (usage && js_type(&h->doc, usage) == JS_OBJECT)
            n = tokens_in(&h->doc, usage);
    }
    return n;
}

/* --- asking ----------------------------------------------------------------------------------- */

static void on_budget(void *arg, struct str answer);

static void arm(struct task_budget *b)
{
    msec_t seconds = b->budget.limits.seconds;
    if (seconds)
        timer_arm(&b->task->hub->clock, &b->timer, b->budget.began_ms + seconds * 1000);
}

static void budget_ask(struct task *t)
{
    struct task_budget *b = t->work->budget;
    struct buf data = {0};
    char id[BUDGET_ID];
    do {
        b->budget.n_asked++;
        budget_put_id(&b->budget, id);
    } while (task_has_asked(t, str_of(id)));
    timer_disarm(&t->hub->clock, &b->timer);
    budget_put_question(&b->budget, now_of(t), &data);
    b->calls_until = b->budget.tool_calls;
    b->asks = true; /* first: the clocks stand now */
    b->asks = task_ask_own(
        t, &(struct own_question){
               .id = str_of(id), .data = buf_str(&data), .answered = on_budget, .arg = t});
    buf_done(&data);
}

static bool is_over(const struct task *t)
{
    return !task_run_of(t) || t->left || task_is_ending(t) || t->stopping != TASK_OK ||
           staged_state(t)->cancel_requested_at;
}

static void ask_if_spent(struct task *t, bool before_call)
{
    struct task_budget *b = t->work->budget;
    if (!b->asks && !is_over(t) && budget_is_spent(&b->budget, now_of(t), before_call))
        budget_ask(t);
}

/* While the user is asked anything else, this waits. */
void task_budget_review(struct task *t)
{
    if (t->work->budget && !t->work->clocks_stand)
        ask_if_spent(t, false);
}

static void on_seconds(struct timer *timer)
{
    task_budget_review(container_of(timer, struct task_budget, timer)->task);
}

static void budget_refuse(struct task *t)
{
    struct task_budget *b = t->work->budget;
    struct buf why = {0};
    b->budget.tool_calls = b->calls_until; /* as in the question */
    buf_puts(&why, "agent_error: the budget is used up: ");
    budget_put(&b->budget, now_of(t), &why);
    buf_putc(&why, 0);
    task_stop(t, TASK_AGENT_ERROR, why.bytes);
    buf_done(&why);
}

static void on_budget(void *arg, struct str answer)
{
    struct task *t = arg;
    struct task_budget *b = t->work->budget;
    b->asks = false;
    if (!str_eq(answer, STR("true"))) {
        budget_refuse(t);
        return;
    }
    int64_t calls = b->budget.tool_calls - b->calls_until;
    b->tokens_until += b->budget.tokens;
    budget_grant(&b->budget, now_of(t));
    b->budget.tool_calls = calls;
    arm(b);
    task_begin_tools(t);
    if (!t->paused)
        task_unpause(t);
}

void task_budget_count(struct task *t, const struct agent_line *line)
{
    struct task_budget *b = t->work->budget;
    if (!b)
        return;
    bool calls =
        line->kind == LINE_TOOL || (line->kind == LINE_EVENT && line->event == EVENT_TOOL_CALL);
    ask_if_spent(t, calls);
    b->budget.tool_calls += calls;
    if (line->kind == LINE_RESULT)
        b->budget.tokens = tokens_of(t->hub, line->data) - b->tokens_until;
}

bool task_budget_holds(const struct task *t)
{
    return t->work && t->work->budget && t->work->budget->asks && t->stopping == TASK_OK;
}

/* --- its life --------------------------------------------------------------------------------- */

/* Earlier grants had tokens of which nothing is kept: those that are known now are the budget's. */
static void budget_go_on(struct task *t)
{
    struct task_budget *b = t->work->budget;
    const struct budget_past *past = &t->work->past->budget;
    int64_t tokens = tokens_of(t->hub, t->work->result ? str_of(t->work->result) : STR_NULL);
    char id[BUDGET_ID];
    b->tokens_until = past->used.n_asked > past->asks ? tokens : 0;
    budget_resume(&b->budget, past, 0, t->hub->clock.wall_ms, now_of(t));
    b->budget.tokens = tokens - b->tokens_until;
    b->calls_until = past->calls_asked;
    budget_put_id(&b->budget, id);
    b->asks = past->asks;
    task_ask_still(t, &(struct own_question){.id = str_of(id), .answered = on_budget, .arg = t});
    if (past->refused)
        budget_refuse(t);
}

bool task_is_budget_question(const struct task *t, struct str input_id)
{
    const struct task_past *past = t->work->past;
    char id[BUDGET_ID];
    if (!past || !past->budget.asks || !t->agent->has_budget || t->agent->asks_budget)
        return false;
    budget_put_id(&past->budget.used, id);
    return str_eq(input_id, str_of(id));
}

void task_budget_begin(struct task *t, struct str metadata)
{
    struct task_budget *b;
    if (!t->agent->has_budget || t->agent->asks_budget)
        return;
    b = xcalloc(sizeof *b);
    budget_init(&b->budget, &t->agent->budget, metadata, now_of(t));
    if (budget_is_none(&b->budget)) {
        free(b);
        return;
    }
    b->task = t;
    b->timer.fire = on_seconds;
    t->work->budget = b;
    if (t->work->past)
        budget_go_on(t);
    if (!b->asks)
        arm(b);
}

void task_budget_stop(struct task *t)
{
    if (t->work && t->work->budget)
        timer_disarm(&t->hub->clock, &t->work->budget->timer);
}

void task_budget_let_go(struct task *t)
{
    task_budget_stop(t);
    if (t->work->budget && !t->paused)
        task_unpause(t);
}

void task_budget_free(struct task_work *w)
{
    free(w->budget);
    w->budget = NULL;
}
