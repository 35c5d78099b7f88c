/* Questions that a task asks: each is answered once, for everyone (PROTOCOL.md 4, 5).
 *
 * A task may ask as long as it lives, so the cost of answered questions is bounded: the last
 * MAX_QUESTIONS of them are remembered, each with an answer of a few bytes. */
#include "core/task_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/approval.h"
#include "proto/str.h"

#define NO_SUCH_QUESTION "no such question"
#define MAX_KEPT_ANSWER 64 /* bytes; of a longer one a digest is kept */

static struct question *find_in(const struct list *questions, struct str id)
{
    list_each (it, questions) {
        struct question *q = list_item(it, struct question, node);
        if (str_eq(str_of(q->input_id), id))
            return q;
    }
    return NULL;
}

static struct question *question_find(const struct task *t, struct str id)
{
    const struct task_work *w = t->work;
    struct question *q = w ? find_in(&w->questions, id) : NULL;
    return w && !q ? find_in(&w->answered, id) : q;
}

/* The identity of an answer: itself, or {"bytes":N,"fnv1a":"…"}, which is not a valid answer. */
static void put_kept(struct buf *out, struct str answer)
{
    uint64_t hash = 14695981039346656037u;
    if (answer.n <= MAX_KEPT_ANSWER) {
        buf_putstr(out, answer);
        return;
    }
    for (size_t i = 0; i < answer.n; i++)
        hash = (hash ^ (unsigned char)answer.p[i]) * 1099511628211u;
    buf_putf(out, "{\"bytes\":%zu,\"fnv1a\":\"%016" PRIx64 "\"}", answer.n, hash);
}

/* Records of earlier versions contain long answers unchanged. */
static bool is_kept(struct str kept, struct str answer)
{
    struct buf text = {0};
    put_kept(&text, answer);
    bool same = str_eq(kept, buf_str(&text)) || str_eq(kept, answer);
    buf_done(&text);
    return same;
}

static void question_drop(struct question *q)
{
    timer_disarm(&q->task->hub->clock, &q->expiry);
    list_remove(&q->node);
    free(q->input_id);
    free(q->answer);
    free(q->call_id);
    str_free(&q->option_ids);
    free(q);
}

/* The question is no longer open; the oldest answered one makes room. */
static void keep_answer(struct question *q, struct str answer)
{
    struct task_work *w = q->task->work;
    struct buf kept = {0};
    timer_disarm(&q->task->hub->clock, &q->expiry);
    put_kept(&kept, answer);
    q->answer = buf_take(&kept);
    list_remove(&q->node);
    list_push(&w->answered, &q->node);
    w->n_questions--;
    if (w->n_answered == MAX_QUESTIONS)
        question_drop(list_item(w->answered.next, struct question, node));
    else
        w->n_answered++;
}

void task_review_questions(struct task *t)
{
    struct task_work *w = task_work(t);
    const struct list *questions = &w->questions;
    const struct question *open =
        list_is_empty(questions) ? NULL : list_item(questions->next, const struct question, node);
    free(w->staged.waiting_for);
    w->staged.waiting_for = open ? xstrdup(str_of(open->input_id)) : NULL;
    task_stage(t);
    task_stand_clocks(t, open != NULL);
}

/* The task goes on and its run has not begun: the asker is not there yet. */
static bool is_early(const struct task *t, const struct question *q)
{
    return t->phase == PHASE_RESUMING &&
           (task_is_budget_question(t, str_of(q->input_id)) ||
            (q->call_id && task_awaits_approval(t, str_of(q->call_id))));
}

void task_hear_answers(struct task *t)
{
    list_each (it, &t->work->answered) {
        struct question *q = list_item(it, struct question, node);
        bool hears = q->unheard && q->answered;
        q->unheard = false;
        if (hears)
            q->answered(q->arg, str_of(q->answer));
    }
}

static void question_settle(struct task *t, struct question *q, struct str answer, struct str actor)
{
    keep_answer(q, answer);
    struct buf data = {0};
    buf_putc(&data, '{');
    js_put_field(&data, "input_id", str_of(q->input_id));
    js_put_raw(&data, "answer", answer);
    if (actor.p)
        js_put_field(&data, "actor", actor);
    buf_putc(&data, '}');
    task_event(t, EVENT_INPUT_RECEIVED, buf_str(&data));
    task_review_questions(t);
    if (q->answered) {
        q->answered(q->arg, answer);
    } else if (is_early(t, q)) {
        q->unheard = true; /* true, false, null or an option, which are kept as they are */
    } else {
        struct buf line = {0};
        buf_puts(&line, "{\"type\":\"input\",");
        buf_put(&line, data.bytes + 1, data.len - 1);
        task_answer(t, buf_str(&line));
        buf_done(&line);
    }
    buf_done(&data);
}

static void on_expiry(struct timer *timer)
{
    struct question *q = container_of(timer, struct question, expiry);
    if (!task_is_ending(q->task))
        question_settle(q->task, q, STR("null"), STR_NULL);
}

void task_on_moot(void *arg, struct str input_id)
{
    struct task *t = arg;
    struct question *q = t->work ? find_in(&t->work->questions, input_id) : NULL;
    if (q && !task_is_ending(t))
        question_settle(t, q, STR("null"), STR_NULL);
}

static struct question *question_add(struct task *t, struct str input_id)
{
    struct question *q = xcalloc(sizeof *q);
    q->task = t;
    q->input_id = xstrdup(input_id);
    q->expiry.fire = on_expiry;
    list_push(&task_work(t)->questions, &q->node);
    t->work->n_questions++;
    return q;
}

/* One more would exceed the limit: the task fails. */
static bool is_too_many(struct task *t)
{
    char why[96];
    if (task_work(t)->n_questions < MAX_QUESTIONS)
        return false;
    snprintf(why, sizeof why, "limit: more than %d questions are open at once", MAX_QUESTIONS);
    task_stop(t, TASK_LIMIT, why);
    return true;
}

static void tell_asked(struct task *t)
{
    struct task_record rec = task_staged(t);
    task_tell_hooks(t, "task.input_required", &rec);
}

bool task_ask_own(struct task *t, const struct own_question *own)
{
    if (is_too_many(t) || task_line_is_too_long(t, "input_required", own->data.n))
        return false;
    struct question *q = question_add(t, own->id);
    q->approval = true;
    q->option_ids = str_own(own->option_ids);
    q->answered = own->answered;
    q->arg = own->arg;
    task_event_hidden(t, EVENT_INPUT_REQUIRED, own->data);
    task_review_questions(t);
    tell_asked(t);
    return true;
}

bool task_has_asked(const struct task *t, struct str input_id)
{
    return question_find(t, input_id) != NULL;
}

/* It is open, or its answer is not heard. */
static bool is_due(const struct question *q)
{
    return !q->answer || q->unheard;
}

void task_ask_still(struct task *t, const struct own_question *own)
{
    struct question *q = question_find(t, own->id);
    if (!q || !is_due(q))
        return;
    q->answered = own->answered;
    q->arg = own->arg;
}

static void put_approval_id(struct task *t, char ret[32])
{
    do
        snprintf(ret, 32, "approve-%u", ++task_work(t)->n_approvals);
    while (question_find(t, str_of(ret)));
}

bool task_ask_approval(struct task *t, const struct approval *a)
{
    struct buf data = {0};
    char id[32];
    put_approval_id(t, id);
    buf_putc(&data, '{');
    js_put_field(&data, "input_id", str_of(id));
    js_put_field(&data, "kind", STR("approval"));
    js_put_field(&data, "call_id", a->call_id);
    js_put_field(&data, "prompt", buf_str(&a->question->prompt));
    js_put_field(&data, "tool", a->tool);
    js_put_raw(&data, "arguments", a->arguments);
    approval_put_options(a->question, &data);
    buf_putc(&data, '}');
    bool asks = task_ask_own(t, &(struct own_question){.id = str_of(id),
                                                       .data = buf_str(&data),
                                                       .option_ids = approval_ids(a->question),
                                                       .answered = a->answered,
                                                       .arg = a->arg});
    buf_done(&data);
    return asks;
}

bool task_await_approval(struct task *t, struct str call_id,
                         void (*answered)(void *arg, struct str answer), void *arg)
{
    struct list *const all[] = {&t->work->questions, &t->work->answered};
    for (size_t i = 0; i < countof(all); i++)
        list_each (it, all[i]) {
            struct question *q = list_item(it, struct question, node);
            if (is_due(q) && !q->answered && q->call_id && str_eq(str_of(q->call_id), call_id)) {
                q->answered = answered;
                q->arg = arg;
                return true;
            }
        }
    return false;
}

void task_ask(struct task *t, const struct agent_line *line)
{
    if (question_find(t, line->input_id)) {
        task_stop(t, TASK_AGENT_ERROR, "agent_error: input_required: \"input_id\" was used before");
        return;
    }
    if (is_too_many(t))
        return;
    struct question *q = question_add(t, line->input_id);
    q->approval = line->approval;
    q->option_ids = str_own(line->option_ids);
    struct buf data = {0};
    buf_put(&data, line->data.p, line->data.n - 1); /* without its closing brace */
    if (line->timeout_s >= 0) {
        msec_t ms = (msec_t)line->timeout_s * 1000;
        timer_arm(&t->hub->clock, &q->expiry, t->hub->clock.now_ms + ms);
        js_put_int(&data, "expires_at", t->hub->clock.wall_ms + ms);
    }
    buf_putc(&data, '}');
    task_event_hidden(t, EVENT_INPUT_REQUIRED, buf_str(&data));
    buf_done(&data);
    task_review_questions(t);
    tell_asked(t);
}

static bool is_conversation(const struct request *r)
{
    return r->answer == ANSWER_TEXT && str_eq(r->answer_text, STR(APPROVAL_CONVERSATION));
}

/* The answer as JSON.  A visitor may decide about this call, not about those to come. */
static void put_answer(struct buf *out, const struct request *r, struct str option_ids)
{
    bool is_wide = r->is_visitor && is_conversation(r) && str_eq(option_ids, APPROVAL_IDS);
    if (r->answer == ANSWER_TEXT)
        js_put_str(out, is_wide ? STR(APPROVAL_ONCE) : r->answer_text);
    else
        buf_puts(out, r->answer == ANSWER_TRUE ? "true" : "false");
}

static bool has_option(const struct question *q, struct str id)
{
    struct str all = q->option_ids;
    while (all.n) {
        struct str one = {all.p, strnlen(all.p, all.n)};
        if (str_eq(one, id))
            return true;
        all = (struct str){all.p + one.n + 1, all.n - one.n - 1};
    }
    return false;
}

/* An approval takes true and false, and the id of one of its options; a question a text. */
static bool may_answer(const struct question *q, const struct request *r, const char **ret_why)
{
    if (!q->approval) {
        *ret_why = "\"answer\" must be a string";
        return r->answer == ANSWER_TEXT;
    }
    *ret_why = q->option_ids.n ? "\"answer\" must be true, false or the id of one of its options"
                               : "\"answer\" must be true or false";
    return r->answer != ANSWER_TEXT || has_option(q, r->answer_text);
}

static enum error judge_late(bool same, const char **ret_why)
{
    *ret_why = "the question is no longer open, or had another answer";
    return same ? ERR_NONE : ERR_CONFLICT;
}

enum error task_respond(struct task *t, const struct request *r, const char **ret_why)
{
    struct question *q = question_find(t, r->input_id);
    *ret_why = NO_SUCH_QUESTION;
    if (!q)
        return ERR_NOT_FOUND;
    if (!may_answer(q, r, ret_why))
        return ERR_BAD_REQUEST;
    struct buf answer = {0};
    put_answer(&answer, r, q->option_ids);
    bool same = q->answer && is_kept(str_of(q->answer), buf_str(&answer));
    bool late = q->answer || task_is_ending(t);
    if (!late)
        question_settle(t, q, buf_str(&answer), r->actor);
    buf_done(&answer);
    return late ? judge_late(same, ret_why) : ERR_NONE;
}

static void put_questions(struct buf *out, const struct list *questions)
{
    list_each (it, questions) {
        const struct question *q = list_item(it, const struct question, node);
        buf_putc(out, out->len ? ',' : '[');
        js_put_str(out, str_of(q->input_id));
        buf_putc(out, ',');
        buf_puts(out, q->answer ? q->answer : "null");
    }
}

void task_close_questions(struct task *t)
{
    const struct task_work *w = t->work;
    if (w->n_questions + w->n_answered == 0)
        return;
    struct buf all = {0};
    put_questions(&all, &w->answered);
    put_questions(&all, &w->questions);
    buf_putc(&all, ']');
    struct task_outcome *o = task_outcome(t);
    free((char *)(uintptr_t)o->answers.p);
    o->answers = (struct str){all.bytes, all.len};
}

void task_free_questions(struct task *t)
{
    struct list *const all[] = {&t->work->questions, &t->work->answered};
    for (size_t i = 0; i < countof(all); i++)
        list_each (it, all[i])
            question_drop(list_item(it, struct question, node));
}

/* --- of a task that has ended, or that a restart found ---------------------------------------- */

static bool is_value(const struct js_doc *doc, uint32_t node, struct str value)
{
    struct buf text = {0};
    js_value(doc, node, &text);
    bool same = str_eq(buf_str(&text), value);
    buf_done(&text);
    return same;
}

/* The question is not known any more, and perhaps was one whose answer put_answer narrows. */
static bool was_given(struct str given, const struct request *r)
{
    const struct str ids[] = {STR_NULL, APPROVAL_IDS};
    bool same = false;
    for (size_t i = 0; i < countof(ids) && !same; i++) {
        struct buf answer = {0};
        put_answer(&answer, r, ids[i]);
        same = is_kept(given, buf_str(&answer));
        buf_done(&answer);
    }
    return same;
}

enum error question_respond_late(struct str answers, const struct request *r, const char **ret_why)
{
    struct js_doc doc = {0};
    enum error e = ERR_NOT_FOUND;
    *ret_why = NO_SUCH_QUESTION;
    if (answers.p && js_parse(&doc, answers.p, answers.n, JS_OURS)) {
        for (uint32_t id = js_first(&doc, 0); id < js_end(&doc, 0); id += 2)
            if (is_value(&doc, id, r->input_id)) {
                struct buf given = {0};
                js_copy(&doc, id + 1, &given);
                e = judge_late(was_given(buf_str(&given), r), ret_why);
                buf_done(&given);
                break;
            }
    }
    js_done(&doc);
    return e;
}

/* The ids of an approval's options, a NUL after each (agent_line.c has checked them). */
static void restore_options(struct question *q, const struct js_doc *doc, uint32_t options)
{
    struct buf ids = {0};
    if (!q->approval || !options || js_type(doc, options) != JS_ARRAY)
        return;
    for (uint32_t i = js_first(doc, options); i < js_end(doc, options); i = js_next(doc, i)) {
        bool is_object = js_type(doc, i) == JS_OBJECT;
        uint32_t id = is_object ? js_get(doc, i, "id") : i;
        if (!id || js_type(doc, id) != JS_STRING)
            continue;
        js_value(doc, id, &ids);
        buf_putc(&ids, 0);
    }
    q->option_ids = str_own(buf_str(&ids));
    buf_done(&ids);
}

static void restore_asked(struct task *t, const struct js_doc *doc, struct str input_id)
{
    static const char prefix[] = "approve-";
    struct question *q = question_add(t, input_id);
    uint32_t kind = js_get(doc, 0, "kind"), expires = js_get(doc, 0, "expires_at"),
             call = js_get(doc, 0, "call_id");
    q->approval = kind && js_type(doc, kind) == JS_STRING && !js_is(doc, kind, "question");
    restore_options(q, doc, js_get(doc, 0, "options"));
    if (expires && !js_int(doc, expires, &q->expires_at))
        q->expires_at = 0;
    if (call && js_type(doc, call) == JS_STRING) {
        struct buf id = {0};
        js_value(doc, call, &id);
        q->call_id = buf_take(&id);
    }
    if (str_begins(input_id, str_of(prefix))) {
        unsigned n = (unsigned)strtoul(q->input_id + sizeof prefix - 1, NULL, 10);
        t->work->n_approvals = n > t->work->n_approvals ? n : t->work->n_approvals;
    }
}

void task_restore_question(struct task *t, const struct event_parts *line)
{
    struct js_doc doc = {0};
    struct buf input_id = {0}, answer = {0};
    if (js_parse(&doc, line->data.p, line->data.n, JS_OURS)) {
        uint32_t id = js_get(&doc, 0, "input_id"), value = js_get(&doc, 0, "answer");
        if (id && js_type(&doc, id) == JS_STRING)
            js_value(&doc, id, &input_id);
        struct question *q = question_find(t, buf_str(&input_id));
        if (line->event == EVENT_INPUT_REQUIRED && !q)
            restore_asked(t, &doc, buf_str(&input_id));
        if (line->event == EVENT_INPUT_RECEIVED && q && !q->answer && value) {
            js_copy(&doc, value, &answer);
            keep_answer(q, buf_str(&answer));
        }
    }
    buf_done(&input_id);
    buf_done(&answer);
    js_done(&doc);
}

/* One that has expired meanwhile expires now. */
void task_arm_questions(struct task *t)
{
    struct clock *c = &t->hub->clock;
    list_each (it, &t->work->questions) {
        struct question *q = list_item(it, struct question, node);
        if (q->expires_at)
            timer_arm(c, &q->expiry,
                      c->now_ms + (q->expires_at > c->wall_ms ? q->expires_at - c->wall_ms : 0));
    }
}

void task_disarm_questions(struct task *t)
{
    list_each (it, &t->work->questions)
        timer_disarm(&t->hub->clock, &list_item(it, struct question, node)->expiry);
}
