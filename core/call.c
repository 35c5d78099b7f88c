#include "core/call.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/graft.h"
#include "core/home.h"
#include "core/session.h"

#define PATIENCE_MS 1000 /* how long failing commits go on before calls are answered */

static void verb_none(struct call *c)
{
    call_fail(c, ERR_INTERNAL, "not a request of an owner");
}

static const verb_fn verbs[N_VERBS] = {
    [VERB_HELLO] = verb_none, /* the session handles it itself, like ping */
    [VERB_PING] = verb_none,
    [VERB_CHAT] = verb_chat,
    [VERB_RESUME] = verb_resume,
    [VERB_UNSUBSCRIBE] = verb_unsubscribe,
    [VERB_CANCEL] = verb_cancel,
    [VERB_CANCEL_ALL] = verb_cancel_all,
    [VERB_SEND] = verb_send,
    [VERB_RESPOND] = verb_respond,
    [VERB_WEBHOOK] = verb_webhook,
    [VERB_WEBHOOKS] = verb_webhooks,
    [VERB_WEBHOOK_DELETE] = verb_webhook_delete,
    [VERB_OPEN] = verb_open,
    [VERB_CLOSE] = verb_close,
    [VERB_WATCH] = verb_watch,
    [VERB_TASK_GET] = verb_task,
    [VERB_TASKS] = verb_tasks,
    [VERB_HISTORY] = verb_history,
    [VERB_CONVERSATIONS] = verb_conversations,
    [VERB_TITLE] = verb_title,
    [VERB_DELETE] = verb_delete,
    [VERB_RESULTS] = verb_results,
    [VERB_ACK] = verb_ack,
    [VERB_SCHEDULE] = verb_schedule,
    [VERB_SCHEDULES] = verb_schedules,
    [VERB_RESCHEDULE] = verb_reschedule,
    [VERB_UNSCHEDULE] = verb_unschedule,
    [VERB_BRANCH] = verb_branch,
    [VERB_SHARE] = verb_share,
    [VERB_SHARES] = verb_shares,
    [VERB_UNSHARE] = verb_unshare,
    [VERB_HANDOVER] = verb_handover,
    [VERB_PIN] = verb_pin,
    [VERB_ARCHIVE] = verb_archive,
    [VERB_SEARCH] = verb_search,
    [VERB_FORK] = verb_fork,
    [VERB_IMPORT] = verb_import,
    [VERB_EXPORT] = verb_export,
};

/* --- rights ----------------------------------------------------------------------------------- */

static bool is_allowed(const struct call *c)
{
    const struct request *r = &c->req;
    unsigned flags = verb_flags(r->verb), need = VERB_RIGHTS(flags);
    if (rights_are_whole(c->rights) || (flags & VERB_LISTS))
        return true;
    if (r->verb == VERB_CHAT && r->when_busy == BUSY_INTERRUPT)
        need |= RIGHT_CANCEL;
    if (r->verb == VERB_CHAT && r->webhook.p) /* it would be told what the bearer may not read */
        return false;
    return rights_allow(c->rights, r->conversation_id.p ? r->conversation_id : STR(""),
                        (flags & VERB_TASK) ? r->task_id : STR_NULL, need);
}

static void on_refused(void *arg, int status, struct answer *answer)
{
    struct call *c = arg;
    (void)answer;
    if (status != STORE_NOT_FOUND)
        call_read_failed(c);
    else
        call_fail(c, ERR_NOT_FOUND,
                  (verb_flags(c->req.verb) & VERB_TASK) ? NO_SUCH_TASK : NO_SUCH_CONVERSATION);
}

/* The answer about a task that does not exist, after the look-up that such an answer takes: it says
 * nothing of what is there (promise 5). */
static void call_refuse(struct call *c)
{
    c->session = NULL;
    call_query(c,
               &(struct query){.kind = QUERY_TASK,
                               .conversation_id = STR("-"), /* none has this id */
                               .task_id = STR("00000000000000000000000000")},
               on_refused);
}

struct call *hub_request(struct hub *h, const struct asker *who, struct request *req,
                         call_reply_fn reply, void *arg)
{
    struct call *c = xcalloc(sizeof *c);
    bool replied = false;
    c->hub = h;
    c->owner = who->owner;
    c->owner->refs++;
    c->owner->n_calls++;
    c->quota = who->quota;
    c->quota->refs++;
    c->req = *req;
    *req = (struct request){0};
    c->session = who->session;
    c->rights = rights_ref(who->rights);
    c->expires_at_ms = who->expires_at_ms;
    if (c->rights)
        c->req.actor = c->rights->actor;
    c->req.is_visitor = !rights_are_whole(c->rights);
    if ((h->o.told || h->o.home) && who->from)
        c->from = xstrdup(str_of(who->from));
    if (who->trace && c->req.verb == VERB_CHAT)
        c->trace = xstrdup(str_of(who->trace));
    c->reply = reply;
    c->arg = arg;
    c->replied = &replied;
    if (home_is_away(h, str_of(c->owner->name)))
        away_request(c);
    else if (!hub_serves(h, c->owner) || !hub_is_trusted(h))
        call_fail(c, ERR_OVERLOADED, "another gateway serves this owner, or will in a moment");
    else if ((verb_flags(c->req.verb) & VERB_WRITES) && !hub_can_write(h))
        call_fail(c, ERR_OVERLOADED, "the store accepts no writes now");
    else if (!is_allowed(c))
        call_refuse(c);
    else
        verbs[c->req.verb](c);
    if (replied)
        return NULL;
    c->replied = NULL;
    return c;
}

void call_forget(struct call *c)
{
    c->session = NULL;
    c->reply = NULL;
}

static void done(struct call *c)
{
    if (c->replied)
        *c->replied = true;
    list_remove(&c->waits);
    list_remove(&c->naming);
    if (c->graft)
        graft_over(c);
    exporting_free(c->exporting);
    if (c->conversation)
        conversation_unref(c->conversation);
    c->owner->n_calls--;
    owner_unref(c->hub, c->owner);
    owner_unref(c->hub, c->quota);
    request_done(&c->req);
    buf_done(&c->out);
    placing_free(c->placing);
    rights_unref(c->rights);
    free(c->request_key);
    free(c->from);
    free(c->trace);
    free(c);
}

void call_finish(struct call *c, enum error e, struct str line)
{
    call_reply_fn reply = c->reply;
    void *arg = c->arg;
    struct buf copy = {0};
    if (!c->is_away) {
        c->hub->stats.requests[c->req.verb]++;
        c->hub->stats.refusals[e]++;
    }
    if (c->hub->o.told && !c->is_away)
        c->hub->o.told(c->hub->o.arg, c, e);
    buf_putstr(&copy, line);
    done(c);
    if (reply)
        reply(arg, e, buf_str(&copy));
    buf_done(&copy);
}

/* Another home may have changed since what was carried out here: it may not be told.  A session
 * holds its lines back until the lease is sure again, when they are true; others cannot wait. */
void call_reply(struct call *c, struct str line)
{
    if (!c->session && !hub_is_trusted(c->hub)) {
        call_fail(c, ERR_OVERLOADED, "this gateway cannot tell now whether it was carried out");
        return;
    }
    call_finish(c, ERR_NONE, line);
}

void call_fail(struct call *c, enum error e, const char *message)
{
    struct buf line = {0};
    error_line(&line, e, c->req.id, message, c->retry_after_ms ? c->retry_after_ms : RETRY_USUAL,
               -1);
    call_finish(c, e, buf_str(&line));
    buf_done(&line);
}

void reply_begin(struct call *c, struct buf *out, const char *type)
{
    buf_putc(out, '{');
    js_put_field(out, "type", str_of(type));
    if (c->req.id.p)
        js_put_field(out, "id", c->req.id);
}

void call_ok(struct call *c)
{
    struct buf line = {0};
    reply_begin(c, &line, "ok");
    buf_putc(&line, '}');
    call_reply(c, buf_str(&line));
    buf_done(&line);
}

void call_query(struct call *c, struct query *q, store_query_fn done_fn)
{
    q->owner = str_of(c->owner->name);
    hub_query(c->hub, q, done_fn, c);
}

bool call_may_ask_again(struct call *c, const struct task_record *task)
{
    if (c->asked_again) {
        char id[TASK_ID_LEN + 1] = "";
        snprintf(id, sizeof id, "%.*s", (int)task->task_id.n, task->task_id.p);
        hub_tell_damage(c->hub, id, 0);
        return false;
    }
    c->asked_again = true;
    return true;
}

/* --- a store that fails ----------------------------------------------------------------------- */

/* Its staged changes may still be committed, so the call keeps its claim and continues. */
static void lose_patience(struct call *c)
{
    call_reply_fn reply = c->reply;
    void *arg = c->arg;
    if (!reply)
        return;
    struct buf line = {0};
    error_line(&line, ERR_OVERLOADED, c->req.id,
               "the store accepts no writes now, but may still accept this one", -1, -1);
    call_forget(c);
    reply(arg, ERR_OVERLOADED, buf_str(&line));
    buf_done(&line);
}

void calls_lose_patience(struct hub *h)
{
    struct list now, *node;
    list_init(&now);
    list_splice(&now, &h->waiting_calls);
    while ((node = list_pop(&now)) != NULL)
        lose_patience(list_item(node, struct call, waits));
    calls_begin_losing_patience(h); /* some readers wait for staged changes */
}

static void on_patience(struct timer *timer)
{
    struct hub *h = container_of(timer, struct hub, patience);
    if (!hub_can_write(h))
        calls_lose_patience(h);
}

void calls_init(struct hub *h)
{
    list_init(&h->waiting_calls);
    list_init(&h->naming);
    h->patience.fire = on_patience;
}

void calls_begin_losing_patience(struct hub *h)
{
    timer_arm(&h->clock, &h->patience, h->clock.now_ms + PATIENCE_MS);
}

void call_waits(struct call *c)
{
    if (!list_is_in(&c->waits))
        list_push(&c->hub->waiting_calls, &c->waits);
}

void call_wait(struct call *c, void (*done_fn)(struct waiter *waiter, int status))
{
    call_waits(c);
    c->waiter.done = done_fn;
    journal_wait(&c->hub->journal, &c->waiter);
}

static void on_written(struct waiter *w, int status)
{
    struct call *c = container_of(w, struct call, waiter);
    if (status < 0)
        call_write_failed(c);
    else
        call_ok(c);
}

void call_wait_ok(struct call *c)
{
    call_wait(c, on_written);
}

void call_read_failed(struct call *c)
{
    call_fail(c, ERR_OVERLOADED, STORE_CANNOT_BE_READ);
}

void call_store_failed(struct call *c, int status)
{
    char id[TASK_ID_LEN + 1] = "", what[64] = "this conversation's data in the store is damaged";
    if (status != STORE_CORRUPT) {
        call_read_failed(c);
        return;
    }
    if (c->req.task_id.n == TASK_ID_LEN) {
        memcpy(id, c->req.task_id.p, TASK_ID_LEN);
        snprintf(what, sizeof what, "the record of task %s is damaged", id);
    }
    hub_tell_damage(c->hub, id, 0);
    call_fail(c, ERR_INTERNAL, what);
}

void call_write_failed(struct call *c)
{
    call_fail(c, ERR_OVERLOADED, "the store did not accept it");
}
