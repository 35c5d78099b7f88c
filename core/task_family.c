/* Parents, children and their messages: what a task may do with its relatives. */
#include "core/task_parts.h"

#include <stdlib.h>

#include "core/task_trace.h"

static struct task *find_relative(const struct task *t, struct str id)
{
    struct stream *s = hub_find_stream(t->hub, task_owner(t), task_conversation_id(t), id);
    return s ? s->task : NULL;
}

static const char *why_no_child(const struct task *t, const struct agent *a)
{
    const struct hub *h = t->hub;
    if (staged_state(t)->cancel_requested_at || t->stopping != TASK_OK)
        return "the task is being stopped";
    bool begins_elsewhere = h->passes_on && a->goes_on && !agent_is_settled(a);
    if (h->draining && !begins_elsewhere)
        return "the gateway is stopping";
    if (a->is_process && !hub_has_slot(h))
        return "too many processes";
    if (task_field(t, FIELD_ancestors).n / TASK_ID_LEN + 1 >= MAX_GENERATIONS)
        return "too many generations of tasks";
    if (h->n_live >= h->o.limits.tasks || t->quota->n_live >= h->o.limits.tasks_per_owner)
        return "too many tasks";
    struct retention_refusal full;
    return retention_refuses(&h->retention, task_owner(t), &full);
}

static const char *why_bad_child(const struct agent_line *line)
{
    if (line->name.p && !task_name_is_valid(line->name))
        return "\"name\" must be 1 to 128 bytes, and not parent, self, all or broadcast";
    if (line->description.n > MAX_DESCRIPTION)
        return "\"description\" is longer than 1024 bytes";
    return NULL;
}

static void put_child_event(struct task *t, const struct task *child, struct str call_id)
{
    struct str name = task_field(child, FIELD_name);
    struct str description = task_field(child, FIELD_description);
    struct buf data = {0};
    buf_putc(&data, '{');
    js_put_field(&data, "task_id", task_id_of(child));
    if (name.p)
        js_put_field(&data, "name", name);
    if (description.p)
        js_put_field(&data, "description", description);
    js_put_field(&data, "call_id", call_id);
    buf_putc(&data, '}');
    task_event(t, EVENT_CHILD, buf_str(&data));
    buf_done(&data);
}

/* A child's metadata: its span goes below its parent's. */
static struct str put_trace(const struct task *t, struct buf *out)
{
    struct task_trace trace;
    if (!task_trace_of(task_id_of(t), task_field(t, FIELD_metadata), t->hub->o.traced,
                       t->hub->o.trace_share, &trace))
        return STR_NULL;
    buf_putc(out, '{');
    trace_put_members(out, &trace.own);
    buf_putc(out, '}');
    return buf_str(out);
}

void task_spawn(struct task *t, const struct agent_line *line)
{
    const struct agent *a = hub_find_agent(t->hub, line->agent);
    const char *why = why_bad_child(line);
    char no_agent[256];
    if (why) {
        task_answer_error(t, line->call_id, ERR_BAD_REQUEST, why);
        return;
    }
    if (!a) {
        hub_no_agent(line->agent, no_agent);
        task_answer_error(t, line->call_id, ERR_BAD_REQUEST, no_agent);
        return;
    }
    why = why_no_child(t, a);
    if (why) {
        task_answer_error(t, line->call_id, ERR_OVERLOADED, why);
        return;
    }
    if (line->name.p && task_name_is_taken(t->conversation, line->name)) {
        task_answer_error(t, line->call_id, ERR_CONFLICT, "a live task has that name");
        return;
    }
    struct buf ancestors = {0}, metadata = {0};
    buf_putstr(&ancestors, task_field(t, FIELD_ancestors));
    buf_putstr(&ancestors, task_id_of(t));
    struct task_plan plan = {.ancestors = buf_str(&ancestors),
                             .owner = t->conversation->owner,
                             .quota = t->quota,
                             .conversation = t->conversation,
                             .agent = a,
                             .type = TYPE_CHILD,
                             .input = line->input,
                             .name = line->name,
                             .description = line->description,
                             .metadata = put_trace(t, &metadata),
                             .parent_task_id = task_id_of(t),
                             .parent_call_id = line->call_id,
                             .parent_agent_id = task_field(t, FIELD_agent)};
    struct task *child = task_create(t->hub, &plan);
    buf_done(&ancestors);
    buf_done(&metadata);
    put_child_event(t, child, line->call_id);
    struct buf answer = {0};
    task_begin_answer(&answer, "child", line->call_id);
    js_put_field(&answer, "task_id", task_id_of(child));
    task_end_answer(t, &answer);
}

static bool is_child_of(const struct task *child, const struct task *parent)
{
    struct str id = child ? task_field(child, FIELD_parent_task_id) : STR_NULL;
    return id.p && str_eq(id, task_id_of(parent));
}

/* A call about a task that is not live: the store knows what became of it. */
struct late_call {
    struct task *task; /* a reference */
    bool cancels;
    size_t n;
    char call_id[];
};

static void answer_late(struct task *t, bool cancels, struct str call_id)
{
    if (!cancels) {
        task_answer_error(t, call_id, ERR_TASK_TERMINATED, "the task has ended");
        return;
    }
    struct buf answer = {0};
    task_begin_answer(&answer, "ok", call_id);
    js_put_int(&answer, "cancelled", 0);
    js_put_raw(&answer, "task_ids", STR("[]"));
    task_end_answer(t, &answer);
}

static void on_late(void *arg, int status, struct answer *found)
{
    struct late_call *late = arg;
    struct task *t = late->task;
    struct str call_id = {late->call_id, late->n};
    t->refs--;
    if (t->phase == PHASE_RUNNING) {
        if (status == 0 && str_eq(found->tasks[0].parent_task_id, task_id_of(t)))
            answer_late(t, late->cancels, call_id);
        else if (status == 0 || status == STORE_NOT_FOUND)
            task_answer_error(t, call_id, ERR_NOT_FOUND, NO_SUCH_TASK);
        else
            task_answer_error(t, call_id, ERR_OVERLOADED, STORE_CANNOT_BE_READ);
    }
    task_lookup_over(t);
    free(late);
}

static void look_up_late(struct task *t, const struct agent_line *line)
{
    struct late_call *late = xalloc(sizeof *late + line->call_id.n);
    *late =
        (struct late_call){.task = t, .cancels = line->kind == LINE_CANCEL, .n = line->call_id.n};
    if (late->n)
        memcpy(late->call_id, line->call_id.p, late->n);
    t->refs++;
    t->work->n_lookups++;
    hub_query(t->hub,
              &(struct query){.kind = QUERY_TASK,
                              .owner = task_owner(t),
                              .conversation_id = task_conversation_id(t),
                              .task_id = line->task_id},
              on_late, late);
}

void task_send_to_relative(struct task *t, const struct agent_line *line)
{
    bool up = str_eq(line->task_id, STR("parent"));
    struct str id = up ? task_field(t, FIELD_parent_task_id) : line->task_id;
    struct task *to = find_relative(t, id);
    if (!to && up && id.p) {
        answer_late(t, false, line->call_id);
        return;
    }
    if (!to && !up) {
        look_up_late(t, line);
        return;
    }
    if (!to || !(up || is_child_of(to, t))) {
        task_answer_error(t, line->call_id, ERR_NOT_FOUND, NO_SUCH_TASK);
        return;
    }
    enum error e =
        task_send(to, up ? STR("child") : STR("parent"), STR_NULL, line->content, STR_NULL);
    if (e) {
        task_answer_error(t, line->call_id, e, "the message was not accepted");
        return;
    }
    struct buf answer = {0};
    task_begin_answer(&answer, "ok", line->call_id);
    task_end_answer(t, &answer);
}

void task_cancel_child(struct task *t, const struct agent_line *line)
{
    struct task *child = find_relative(t, line->task_id);
    if (!child) {
        look_up_late(t, line);
        return;
    }
    if (!is_child_of(child, t)) {
        task_answer_error(t, line->call_id, ERR_NOT_FOUND, NO_SUCH_TASK);
        return;
    }
    struct buf ids = {0}, answer = {0};
    buf_putc(&ids, '[');
    uint32_t n = line->tree ? task_cancel_tree(t->conversation, task_id_of(child), STR_NULL, &ids)
                            : task_cancel_told(child, STR_NULL, &ids);
    buf_putc(&ids, ']');
    task_begin_answer(&answer, "ok", line->call_id);
    js_put_int(&answer, "cancelled", n);
    js_put_raw(&answer, "task_ids", buf_str(&ids));
    task_end_answer(t, &answer);
    buf_done(&ids);
}

/* By the ids of all its ancestors: those in between may have ended long ago. */
static bool descends(const struct task *t, struct str root)
{
    if (str_eq(task_id_of(t), root))
        return true;
    struct str ancestors = task_field(t, FIELD_ancestors);
    for (size_t at = 0; at < ancestors.n; at += TASK_ID_LEN)
        if (str_eq((struct str){ancestors.p + at, TASK_ID_LEN}, root))
            return true;
    return false;
}

uint32_t task_cancel_tree(struct conversation *c, struct str root, struct str actor,
                          struct buf *ids)
{
    uint32_t n = 0;
    list_each (it, &c->tasks) {
        struct task *t = list_item(it, struct task, in_conversation);
        if (descends(t, root))
            n += task_cancel_told(t, actor, ids);
    }
    return n;
}

bool task_has_children(const struct task *t)
{
    list_each (it, &t->conversation->tasks) {
        const struct task *other = list_item(it, const struct task, in_conversation);
        if (is_child_of(other, t) && !task_is_ending(other))
            return true;
    }
    return false;
}

void task_tell_parent(struct task *t, const struct task_record *staged)
{
    struct str id = staged->parent_task_id;
    struct task *parent = id.p ? find_relative(t, id) : NULL;
    if (!parent || task_is_ending(parent))
        return;
    struct buf child = {0};
    struct str said =
        js_fit(staged->state.output, MAX_EVENT_LINE - EVENT_FRAME); /* fits its event */
    task_write(&child, staged, false);
    (void)task_send(parent, STR("child"), STR_NULL, said, buf_str(&child));
    buf_done(&child);
}
