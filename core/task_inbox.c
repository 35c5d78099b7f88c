/* A task's inbox: messages to a running agent.
 *
 * A message is staged as an op, and handed to the agent when that is committed; the event `message`
 * and the op that takes it from the inbox are one batch.  Messages that an ended task did not take
 * stay in its record as undelivered: none is lost silently.
 *
 * An agent that outlives the gateway gets all of its lines in this way, answers too, numbered by
 * their positions: what it was told is on disk, and it is told nothing twice.  A run that speaks a
 * protocol of its own with its agent puts its lines there, too (on_say). */
#include "core/task_parts.h"

#include <stdlib.h>

#define AGAIN_MS 20                        /* when to retry an agent whose input was full */
#define MAX_ANSWERS_WAITING (1024 * 1024)  /* bytes; an agent that calls but does not read fails */
#define MAX_OWN_WAITING (64 * 1024 * 1024) /* bytes of the run's own lines; the same */

struct task_inbox {
    struct task *task;
    struct list lines;       /* of struct input_message: committed or staged, not yet delivered */
    uint32_t n_messages;     /* of these: messages … */
    size_t bytes, own_bytes; /* … and their bytes, and those of the run's own lines */
    uint64_t position;       /* of the last line … */
    uint64_t committed;      /* … and of the last one that is */
    struct list answers;     /* of struct input_message: replies to its calls and questions */
    size_t answer_bytes;     /* numbered or not */
    struct timer again;      /* its input was full */
    bool delivers;           /* inside task_deliver */
};

static void inbox_on_again(struct timer *timer)
{
    task_deliver(container_of(timer, struct task_inbox, again)->task);
}

static struct task_inbox *inbox_of(struct task *t)
{
    struct task_work *w = task_work(t);
    if (!w->inbox) {
        w->inbox = xcalloc(sizeof *w->inbox);
        w->inbox->task = t;
        w->inbox->again.fire = inbox_on_again;
        list_init(&w->inbox->lines);
        list_init(&w->inbox->answers);
    }
    return w->inbox;
}

uint64_t task_inbox_position(const struct task *t)
{
    return t->work && t->work->inbox ? t->work->inbox->position : 0;
}

void task_inbox_skip(struct task *t, uint64_t position)
{
    if (position > task_inbox_position(t))
        inbox_of(t)->position = position;
}

static bool fits(struct task *t, size_t bytes)
{
    const struct hub_limits *l = &t->hub->o.limits;
    const struct task_inbox *in = inbox_of(t);
    return in->n_messages < l->inbox_messages && in->bytes + bytes <= l->inbox_bytes;
}

static void put_message_line(struct buf *line, struct str from, struct str actor,
                             struct str content, struct str child)
{
    buf_puts(line, "{\"type\":\"message\"");
    js_put_field(line, "from", from);
    js_put_field(line, "content", content.p ? content : STR(""));
    if (actor.p)
        js_put_field(line, "actor", actor);
    if (child.p)
        js_put_raw(line, "child", child);
    buf_putc(line, '}');
}

static struct input_message *copy_line(uint64_t position, struct str line)
{
    struct input_message *m = xalloc(sizeof *m + line.n);
    *m = (struct input_message){.position = position, .len = line.n};
    memcpy(m->line, line.p, line.n);
    return m;
}

#define MESSAGE_BEGIN "{\"type\":\"message\","

#define LINE_BEGIN "{\"type\":"

/* Not an answer: our own lines begin in one way. */
static bool is_message(const struct input_message *m)
{
    return m->len > sizeof MESSAGE_BEGIN - 1 &&
           memcmp(m->line, MESSAGE_BEGIN, sizeof MESSAGE_BEGIN - 1) == 0;
}

/* It is the run's, and no line of ours. */
static bool is_own(const struct input_message *m)
{
    return m->len < sizeof LINE_BEGIN - 1 ||
           memcmp(m->line, LINE_BEGIN, sizeof LINE_BEGIN - 1) != 0;
}

static size_t *bytes_of(struct task_inbox *in, const struct input_message *m)
{
    return is_message(m) ? &in->bytes : is_own(m) ? &in->own_bytes : &in->answer_bytes;
}

/* The agent has refused a line: it is offered again soon, unless the agent asks for it. */
static void inbox_refused(struct task *t)
{
    if (t->agent->ops->is_deaf(task_run_of(t)))
        t->work->no_inbox = true;
    else if (!t->agent->ops->picks)
        timer_arm(&t->hub->clock, &t->work->inbox->again, t->hub->clock.now_ms + AGAIN_MS);
}

/* True when the run has it, and may have ended because of it.  What is numbered stays in the list
 * until the agent has it, everything else is the caller's then. */
static bool hand_over(struct task *t, struct input_message *m)
{
    const struct agent_ops *ops = t->agent->ops;
    struct str line = {m->line, m->len};
    struct list *before = m->node.prev;
    if (ops->deliver_at) {
        m->taken = true; /* first: on_taken may come from inside */
        if (ops->deliver_at(task_run_of(t), m->position, line))
            return true;
        m->taken = false;
    } else {
        list_remove(&m->node);
        if (ops->deliver(task_run_of(t), line))
            return true;
        list_push_front(before, &m->node);
    }
    inbox_refused(t);
    return false;
}

static bool takes_lines(const struct task *t)
{
    return task_run_of(t) && !t->left && !task_is_ending(t);
}

static void drop_answer(struct task *t, struct input_message *m)
{
    list_remove(&m->node);
    t->work->inbox->answer_bytes -= m->len;
    free(m);
}

static void put_line(struct task *t, struct str line);

/* Its run is there, or will be again. */
static bool hears(const struct task *t)
{
    return (task_run_of(t) || t->phase == PHASE_RESUMING) && !t->work->no_inbox;
}

void task_answer(struct task *t, struct str line)
{
    if (!hears(t))
        return;
    struct task_inbox *in = inbox_of(t);
    if (t->agent->ops->deliver_at) {
        put_line(t, line);
    } else {
        struct input_message *m = copy_line(0, line);
        list_push(&in->answers, &m->node);
        in->answer_bytes += m->len;
    }
    if (in->answer_bytes > MAX_ANSWERS_WAITING)
        task_stop(t, TASK_AGENT_ERROR,
                  "agent_error: the agent does not read the answers to its calls");
    else
        task_deliver(t);
}

/* Answers go first, because the agent waits for them. */
static bool deliver_answers(struct task *t)
{
    struct list *answers = &t->work->inbox->answers;
    while (takes_lines(t) && !list_is_empty(answers)) {
        struct input_message *m = list_item(answers->next, struct input_message, node);
        if (!hand_over(t, m))
            return false;
        drop_answer(t, m);
    }
    return true;
}

static void inbox_keep(struct task *t, uint64_t position, struct str line)
{
    struct task_inbox *in = inbox_of(t);
    struct input_message *m = copy_line(position, line);
    list_push(&in->lines, &m->node);
    in->n_messages += is_message(m);
    *bytes_of(in, m) += m->len;
}

void task_restore_message(struct task *t, uint64_t position, struct str line)
{
    inbox_keep(t, position, line);
    t->work->inbox->position = t->work->inbox->committed = position;
}

/* An agent that was asked to stop counts as deaf: what comes now is undelivered. */
static bool is_deaf(const struct task *t, struct task_work *w)
{
    if (task_run_of(t) && !staged_state(t)->cancel_requested_at &&
        t->agent->ops->is_deaf(task_run_of(t)))
        w->no_inbox = true;
    return w->no_inbox;
}

static void forget(struct task *t, struct input_message *m)
{
    struct task_inbox *in = t->work->inbox;
    list_remove(&m->node);
    in->n_messages -= is_message(m);
    *bytes_of(in, m) -= m->len;
    free(m);
}

/* The event has the line's members from, content and actor. */
static void put_message_event(struct task *t, const struct input_message *m)
{
    struct js_doc doc = {0};
    struct buf data = {0};
    if (js_parse(&doc, m->line, m->len, JS_OURS)) {
        buf_puts(&data, "{\"from\":");
        js_copy(&doc, js_get(&doc, 0, "from"), &data);
        buf_puts(&data, ",\"content\":");
        js_copy(&doc, js_get(&doc, 0, "content"), &data);
        uint32_t actor = js_get(&doc, 0, "actor");
        if (actor) {
            buf_puts(&data, ",\"actor\":");
            js_copy(&doc, actor, &data);
        }
        buf_putc(&data, '}');
        task_event(t, EVENT_MESSAGE, buf_str(&data));
    }
    buf_done(&data);
    js_done(&doc);
}

static void inbox_lost(struct task *t, uint64_t position)
{
    list_each (it, &t->work->inbox->lines) {
        struct input_message *m = list_item(it, struct input_message, node);
        if (m->position == position)
            forget(t, m);
    }
}

static void inbox_committed(struct task *t, uint64_t position)
{
    t->work->inbox->committed = position;
    task_deliver(t);
}

static void on_put_done(const struct op *op, int status)
{
    struct task *t = op->ref;
    if (!task_op_counts(t))
        return;
    if (status == 0)
        inbox_committed(t, op->first);
    else
        inbox_lost(t, op->first);
}

static void put_line(struct task *t, struct str line)
{
    struct task_inbox *in = inbox_of(t);
    inbox_keep(t, ++in->position, line);
    t->refs++;
    journal_put(&t->hub->journal, &(struct op){.kind = OP_INBOX_PUT,
                                               .done = on_put_done,
                                               .ref = t,
                                               .task_key = task_key(t),
                                               .first = in->position,
                                               .bytes = line});
}

uint64_t task_on_say(void *task, struct str line)
{
    struct task *t = task;
    if (!task_run_of(t) || t->left || task_is_ending(t))
        return 0;
    const struct task_inbox *in = inbox_of(t);
    if (in->own_bytes + line.n > MAX_OWN_WAITING) {
        task_stop(t, TASK_AGENT_ERROR, "agent_error: the agent does not read what it is told");
        return 0;
    }
    put_line(t, line);
    return in->position;
}

/* The end of a child always fits; if the agent is deaf, it becomes undelivered. */
enum error task_send(struct task *t, struct str from, struct str actor, struct str content,
                     struct str child)
{
    if (task_is_ending(t))
        return ERR_TASK_TERMINATED;
    if (!t->agent || !t->agent->has_inbox)
        return ERR_NO_INBOX;
    struct task_work *w = task_work(t);
    if (!child.p && is_deaf(t, w))
        return ERR_NO_INBOX;
    struct buf line = {0};
    put_message_line(&line, from, actor, content, child);
    if (!child.p && !fits(t, line.len)) {
        t->hub->stats.limit_hits[LIMIT_INBOX]++;
        buf_done(&line);
        return ERR_OVERLOADED;
    }
    put_line(t, buf_str(&line));
    buf_done(&line);
    return ERR_NONE;
}

/* It has reached the agent: the event, when it is a message, and the op are one batch.  Nothing
 * follows the end. */
static void inbox_take(struct task *t, struct input_message *m)
{
    if (!task_is_ending(t) && is_message(m))
        put_message_event(t, m);
    journal_put(&t->hub->journal, &(struct op){.kind = OP_INBOX_TAKE,
                                               .task_key = task_key(t),
                                               .first = m->position,
                                               .last = m->position});
    forget(t, m);
}

void task_on_taken(void *task, uint64_t position)
{
    struct task *t = task;
    if (!task_run_of(t) || task_is_ending(t) || !t->work->inbox)
        return;
    list_each (it, &t->work->inbox->lines) {
        struct input_message *m = list_item(it, struct input_message, node);
        if (m->taken && m->position <= position)
            inbox_take(t, m);
    }
}

/* In their order, unless the agent picks. */
static void deliver_messages(struct task *t)
{
    const struct agent_ops *ops = t->agent->ops;
    const struct task_inbox *in = t->work->inbox;
    list_each (it, &in->lines) {
        struct input_message *m = list_item(it, struct input_message, node);
        if (m->position > in->committed)
            return;
        if (m->taken)
            continue;
        bool taken = hand_over(t, m);
        if (taken && !ops->deliver_at)
            inbox_take(t, m);
        if (!takes_lines(t) || (!taken && !ops->picks))
            return;
    }
}

/* A line may make the agent ask for the next one: the loop that already runs handles that. */
void task_deliver(struct task *t)
{
    struct task_inbox *in = t->work ? t->work->inbox : NULL;
    if (!in || !takes_lines(t) || in->delivers)
        return;
    in->delivers = true;
    if (deliver_answers(t))
        deliver_messages(t);
    in->delivers = false;
}

void task_close_inbox(struct task *t)
{
    const struct task_inbox *in = t->work->inbox;
    if (!in || list_is_empty(&in->lines))
        return;
    struct buf all = {0};
    uint64_t last = 0;
    buf_putc(&all, '[');
    list_each (it, &in->lines) {
        struct input_message *m = list_item(it, struct input_message, node);
        if (all.len > 1 && is_message(m))
            buf_putc(&all, ',');
        if (is_message(m))
            buf_put(&all, m->line, m->len);
        last = m->position;
        forget(t, m);
    }
    buf_putc(&all, ']');
    struct task_outcome *o = task_outcome(t);
    str_free(&o->undelivered);
    o->undelivered = (struct str){all.bytes, all.len};
    journal_put(&t->hub->journal,
                &(struct op){.kind = OP_INBOX_TAKE, .task_key = task_key(t), .last = last});
}

void task_inbox_rest(struct task *t)
{
    if (t->work->inbox)
        timer_disarm(&t->hub->clock, &t->work->inbox->again);
}

void task_free_inbox(struct task *t)
{
    struct task_inbox *in = t->work->inbox;
    if (!in)
        return;
    task_inbox_rest(t);
    list_each (it, &in->answers)
        drop_answer(t, list_item(it, struct input_message, node));
    list_each (it, &in->lines)
        forget(t, list_item(it, struct input_message, node));
    free(in);
    t->work->inbox = NULL;
}
