/* chat: a request key is claimed, looked up, and only then a task is created (promise 6).
 *
 * A claim stands for an (owner, key) from its look-up until its task is committed or refused; a
 * second chat with the same key waits for it and then looks again. */
#include <stdlib.h>

#include "core/call.h"
#include "core/notice.h"
#include "core/session.h"
#include "proto/parts.h"
#include "proto/trace.h"

struct claim {
    struct map_node node;
    struct hub *hub;
    char *owner, *key;
    size_t key_len;
    struct list waiting; /* of struct call */
};

struct map_key claim_key(const struct map_node *node)
{
    const struct claim *c = container_of(node, const struct claim, node);
    return (struct map_key){{str_of(c->owner), {c->key, c->key_len}}};
}

static void look_up(struct call *c);

static void release_claim(struct call *c)
{
    struct claim *claim = c->claim;
    if (!claim)
        return;
    c->claim = NULL;
    map_remove(&c->hub->claims, &claim->node);
    struct list waiting, *node;
    list_init(&waiting);
    list_splice(&waiting, &claim->waiting);
    free(claim->owner);
    free(claim->key);
    free(claim);
    while ((node = list_pop(&waiting)) != NULL)
        look_up(list_item(node, struct call, node));
}

/* The claim goes first: its waiters must see the decision. */
static void verb_chat_refuse(struct call *c, enum error e, const char *message)
{
    release_claim(c);
    call_fail(c, e, message);
}

/* A repeat may come when the task's oldest events are gone: the reply says so, as resumed does. */
static void put_started(struct call *c, struct buf *line, const struct task_record *task,
                        const struct stream *s, bool repeated)
{
    reply_begin(c, line, "started");
    js_put_raw(line, "task", STR(""));
    task_write(line, task, false);
    if (repeated)
        js_put_bool(line, "repeated", true);
    if (s->first > 1)
        js_put_int(line, "first", (int64_t)s->first);
    buf_putc(line, '}');
}

/* Pins the stream before the claim goes, because a waiter may look at the stream and release it. */
static void reply_started(struct call *c, const struct task_record *task, struct stream *s,
                          bool repeated)
{
    struct buf line = {0};
    put_started(c, &line, task, s, repeated);
    struct session *session = c->session;
    s->pins++;
    struct hub *h = c->hub;
    release_claim(c);
    /* The watch follows it in its turn. */
    bool is_watched = session && session_watching(session) && !repeated;
    if (session && !is_watched) /* before the reply, which may end the session's turn */
        subscription_roll_up(session_subscribe(session, s, s->first - 1),
                             (uint32_t)c->req.rollup_ms);
    c->stream = s;
    call_reply(c, buf_str(&line));
    s->pins--;
    hub_release_stream(h, s);
    buf_done(&line);
}

static void on_created(struct waiter *w, int status)
{
    struct call *c = container_of(w, struct call, waiter);
    struct stream *s = c->stream;
    struct hub *h = c->hub;
    if (status < 0) {
        release_claim(c);
        c->stream = NULL;
        s->pins--;
        hub_release_stream(h, s);
        call_write_failed(c);
        return;
    }
    ASSERT(s->task); /* it cannot have ended in the commit that created it */
    struct task_record view = task_view(s->task);
    reply_started(c, &view, s, false);
    s->pins--;
    hub_release_stream(h, s);
}

/* Cancels every chat and notice task, with its descendants. */
static void interrupt(struct conversation *conversation, struct str actor)
{
    struct buf ids = {0};
    list_each (it, &conversation->tasks) {
        struct task *t = list_item(it, struct task, in_conversation);
        if (task_talks(t))
            task_cancel_tree(conversation, task_id_of(t), actor, &ids);
    }
    buf_done(&ids);
}

static enum error meet(struct hub *h, enum hub_limit limit)
{
    h->stats.limit_hits[limit]++;
    return ERR_OVERLOADED;
}

static enum error find_fault(struct call *c, const struct agent *agent, const char **ret_why)
{
    struct hub *h = c->hub;
    const struct request *r = &c->req;
    *ret_why = "the agent takes no \"budget\"";
    if (r->budget.p && !agent->has_budget)
        return ERR_UNSUPPORTED;
    *ret_why = "the store accepts no writes now";
    if (!hub_can_write(h))
        return ERR_OVERLOADED;
    *ret_why = "the gateway is stopping";
    if (h->draining)
        return ERR_OVERLOADED;
    *ret_why = "too many tasks in all";
    if (h->n_live >= h->o.limits.tasks)
        return meet(h, LIMIT_TASKS);
    *ret_why = c->quota == c->owner ? "too many tasks of this owner"
                                    : "too many tasks of all guests of this address";
    if (c->quota->n_live >= h->o.limits.tasks_per_owner)
        return meet(h, LIMIT_TASKS_PER_OWNER);
    struct retention_refusal full;
    *ret_why = retention_refuses(&h->retention, str_of(c->owner->name), &full);
    if (*ret_why) {
        c->retry_after_ms = full.retry_after_ms;
        return meet(h, full.is_all ? LIMIT_STORE : LIMIT_STORE_PER_OWNER);
    }
    *ret_why = FOLLOWS_TOO_MUCH;
    if (c->session && !session_may_follow(c->session, NULL))
        return meet(h, LIMIT_SUBSCRIPTIONS);
    *ret_why = "tasks have no webhooks here";
    if (r->webhook.p && h->o.limits.task_webhooks == 0)
        return ERR_UNSUPPORTED;
    *ret_why = IS_BEING_DELETED;
    if (c->conversation->deleting)
        return ERR_CONFLICT;
    *ret_why = IS_BEING_MADE;
    if (c->conversation->grafting)
        return ERR_CONFLICT;
    *ret_why = "\"name\" is in use by a live task of the conversation";
    if (r->name.p && task_name_is_taken(c->conversation, r->name))
        return ERR_CONFLICT;
    *ret_why = "the conversation is busy";
    if (r->when_busy == BUSY_REJECT && !r->background && conversation_is_busy(c->conversation))
        return ERR_CONFLICT;
    return ERR_NONE;
}

/* Adds the context of the request's head, unless the metadata have one; false: it does not. */
static bool put_trace_of_head(const struct call *c, bool has_trace, struct buf *out)
{
    struct trace_context caller;
    struct str parent, state;
    if (has_trace || !c->trace)
        return false;
    trace_split_head(str_of(c->trace), &parent, &state);
    if (!traceparent_read(parent, &caller))
        return false;
    js_put_field(out, METADATA_TRACE, parent);
    if (state.p)
        js_put_field(out, METADATA_TRACESTATE, state);
    return true;
}

/* The request's metadata with the members that the gateway adds, which is how the task keeps them:
 * its budget, and its caller's trace. */
static struct str put_metadata(const struct call *c, struct js_doc *doc, struct buf *out)
{
    const struct request *r = &c->req;
    if (!r->budget.p && !c->trace)
        return r->metadata;
    bool given = r->metadata.p && js_parse(doc, r->metadata.p, r->metadata.n, JS_OURS);
    buf_putc(out, '{');
    if (r->budget.p)
        js_put_raw(out, METADATA_BUDGET, r->budget);
    bool has_head = put_trace_of_head(c, given && js_get(doc, 0, METADATA_TRACE), out);
    for (uint32_t i = given ? js_first(doc, 0) : 0; given && i < js_end(doc, 0);
         i = js_next(doc, i + 1)) {
        if (r->budget.p && js_is(doc, i, METADATA_BUDGET))
            continue;
        if (has_head && js_is(doc, i, METADATA_TRACESTATE))
            continue;
        if (out->len > 1)
            buf_putc(out, ',');
        js_copy(doc, i, out);
        buf_putc(out, ':');
        js_copy(doc, i + 1, out);
    }
    buf_putc(out, '}');
    return out->len > 2 || r->metadata.p ? buf_str(out) : STR_NULL;
}

/* The agent of the turn that is regenerated, unless the request names one or it is gone. */
static const struct agent *find_agent(const struct call *c)
{
    struct str name = c->req.agent;
    if (!name.p && c->placing && c->placing->agent)
        name = str_of(c->placing->agent);
    const struct agent *agent = hub_find_agent(c->hub, name);
    return agent || c->req.agent.p ? agent : hub_find_agent(c->hub, STR_NULL);
}

static struct str given(const char *text)
{
    return text[0] ? str_of(text) : STR_NULL;
}

static void put_place(const struct placing *p, struct task_plan *plan)
{
    if (!p)
        return;
    plan->place = p->place;
    plan->parent_id = given(p->parent_id);
    plan->behind = given(p->behind);
    plan->question_id = given(p->question_id);
    if (p->input)
        plan->input = str_of(p->input);
    if (p->parts)
        plan->parts = str_of(p->parts);
}

/* As they were asked with: their files are looked up by these. */
static struct str parts_of(const struct call *c)
{
    const struct placing *p = c->placing;
    return p && p->parts ? str_of(p->parts) : c->req.parts;
}

static void create_placed(struct call *c);

static void create(struct call *c)
{
    char id[TASK_ID_LEN + 1];
    hub_new_id(c->hub, id);
    struct str given_id = c->req.conversation_id;
    c->conversation = conversation_ref(c->hub, c->owner, given_id.p ? given_id : str_of(id));
    placing_find(c, create_placed, verb_chat_refuse);
}

static void create_placed(struct call *c)
{
    struct hub *h = c->hub;
    const struct request *r = &c->req;
    const struct agent *agent = find_agent(c);
    struct str named = parts_of(c);
    const char *why = "";
    if (!chat_files_are_found(c, named)) {
        chat_files_find(c, named, create_placed, verb_chat_refuse);
        return;
    }
    char no_agent[256];
    if (!agent) {
        hub_no_agent(r->agent, no_agent);
        verb_chat_refuse(c, ERR_BAD_REQUEST, no_agent);
        return;
    }
    enum error e = find_fault(c, agent, &why);
    if (e) {
        verb_chat_refuse(c, e, why);
        return;
    }
    if (r->when_busy == BUSY_INTERRUPT && !r->background)
        interrupt(c->conversation, c->req.actor);
    if (!r->background && !c->placing) /* what they report belongs to the branch that goes on */
        notices_tell_silent(c->conversation);
    struct buf metadata = {0};
    struct task_plan plan = {.owner = c->owner,
                             .quota = c->quota,
                             .conversation = c->conversation,
                             .agent = agent,
                             .type = r->background ? TYPE_BACKGROUND : TYPE_CHAT,
                             .input = r->message,
                             .parts = c->out.len ? buf_str(&c->out) : STR_NULL,
                             .actor = r->actor,
                             .name = r->name,
                             .description = r->description,
                             .metadata = put_metadata(c, &h->doc, &metadata),
                             .context = r->context,
                             .request_key = r->request_key,
                             .webhook = r->webhook,
                             .webhook_id = r->webhook_id,
                             .notify_on_complete = r->notify_on_complete,
                             .unlisted = r->unlisted,
                             .wait_for_others = r->when_busy >= BUSY_ENQUEUE && !r->background};
    put_place(c->placing, &plan);
    struct task *t = task_create(h, &plan);
    chat_files_use(c, t, plan.parts);
    buf_done(&metadata);
    c->stream = t->stream;
    c->stream->pins++;
    call_wait(c, on_created);
}

/* A message without files is copied as it is. */
static void find_files(struct call *c)
{
    if (parts_have_file(c->req.parts)) {
        chat_files_find(c, c->req.parts, create, verb_chat_refuse);
        return;
    }
    if (c->req.parts.p)
        buf_putstr(&c->out, c->req.parts);
    create(c);
}

/* --- repeats ---------------------------------------------------------------------------------- */

static bool has_same_parts(const struct request *r, struct hub *h, const struct task_record *task)
{
    struct js_doc other = {0};
    bool same = parts_equal(&h->doc, &other, r->parts, task->parts);
    js_done(&other);
    return same;
}

static bool is_same_request(const struct request *r, struct hub *h, const struct task_record *task)
{
    bool regenerates = r->regenerate.p != NULL;
    const struct agent *agent = hub_find_agent(h, r->agent);
    if (regenerates != (task->question_id.p != NULL))
        return false;
    return (regenerates || (str_eq(r->message, task->input) && has_same_parts(r, h, task))) &&
           ((regenerates && !r->agent.p) || (agent && str_eq(str_of(agent->name), task->agent))) &&
           (!r->conversation_id.p || str_eq(r->conversation_id, task->conversation_id));
}

static void verb_chat_ask_key(struct call *c);

static void read_failed(struct call *c)
{
    release_claim(c);
    call_read_failed(c);
}

static void on_key_settled(struct waiter *w, int status)
{
    struct call *c = container_of(w, struct call, waiter);
    if (status < 0)
        read_failed(c);
    else
        verb_chat_ask_key(c);
}

/* The task has ended, or it or its events were removed, since its record was read.  The record is
 * read again when the staged changes are on disk.  True when the answer is used up. */
static bool is_out_of_date(struct call *c, const struct stream *s, const struct task_record *task)
{
    bool is_taken = !s && retention_has_taken(&c->hub->retention, task);
    if (!is_taken && ((s && s->task) || status_is_terminal(task->state.status)))
        return false;
    if (is_taken && !hub_can_write(c->hub))
        read_failed(c);
    else if (call_may_ask_again(c, task))
        call_wait(c, on_key_settled);
    else
        verb_chat_refuse(c, ERR_INTERNAL, STALE_RECORD);
    return true;
}

static void on_key(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    if (status == STORE_NOT_FOUND) {
        find_files(c);
        return;
    }
    if (status < 0) {
        release_claim(c);
        call_store_failed(c, status);
        return;
    }
    struct task_record task = answer->tasks[0];
    if (!is_same_request(&c->req, c->hub, &task)) {
        verb_chat_refuse(c, ERR_CONFLICT, "\"request_key\" was used for another request");
        return;
    }
    struct stream *s = hub_find_stream(c->hub, task.owner, task.conversation_id, task.task_id);
    if (is_out_of_date(c, s, &task))
        return;
    if (!s) {
        s = hub_add_stream(c->hub, task.owner, task.conversation_id, task.task_id, task.key);
        stream_set(s, task.state.first, task.state.head, true);
    }
    if (c->session && !session_may_follow(c->session, s)) {
        hub_release_stream(c->hub, s);
        verb_chat_refuse(c, meet(c->hub, LIMIT_SUBSCRIPTIONS), FOLLOWS_TOO_MUCH);
        return;
    }
    if (s->task)
        task = task_view(s->task);
    reply_started(c, &task, s, true);
}

static void verb_chat_ask_key(struct call *c)
{
    call_query(c, &(struct query){.kind = QUERY_KEY, .key = c->req.request_key}, on_key);
}

static void look_up(struct call *c)
{
    struct map_node *node =
        map_find(&c->hub->claims, (struct map_key){{str_of(c->owner->name), c->req.request_key}});
    if (node) {
        list_push(&container_of(node, struct claim, node)->waiting, &c->node);
        call_waits(c);
        return;
    }
    struct claim *claim = xcalloc(sizeof *claim);
    claim->hub = c->hub;
    claim->owner = xstrdup(str_of(c->owner->name));
    claim->key = xstrdup(c->req.request_key);
    claim->key_len = c->req.request_key.n;
    list_init(&claim->waiting);
    map_put(&c->hub->claims, &claim->node);
    c->claim = claim;
    verb_chat_ask_key(c);
}

/* Keys are the owner's: that of a narrowed token is kept apart by the conversation, or it would
 * reach tasks of others. */
static void narrow_key(struct call *c)
{
    struct buf key = {0};
    buf_putstr(&key, c->req.conversation_id.p ? c->req.conversation_id : STR(""));
    buf_putc(&key, '\n');
    buf_putstr(&key, c->req.request_key);
    size_t n = key.len;
    c->request_key = buf_take(&key);
    c->req.request_key = (struct str){c->request_key, n};
}

void verb_chat(struct call *c)
{
    struct str conversation = c->req.conversation_id.p ? c->req.conversation_id : STR("");
    if (!rights_allow(c->rights, conversation, STR_NULL, RIGHT_READ))
        c->session = NULL; /* it may ask, and not hear the answer */
    if (c->req.request_key.p && !rights_are_whole(c->rights))
        narrow_key(c);
    if (c->req.request_key.p)
        look_up(c);
    else
        find_files(c);
}
