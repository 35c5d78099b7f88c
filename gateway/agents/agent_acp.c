#include "gateway/agents/agent_acp.h"

#include <stdio.h>
#include <stdlib.h>

#include "gateway/agents/acp_process.h"
#include "gateway/agents/recap.h"
#include "gateway/base/fault.h"
#include "proto/parts.h"

#define ACP_MAGIC 0x00616370u

/* --- the pool --------------------------------------------------------------------------------- */

static bool acp_is_of(const struct acp_process *p, struct str owner, struct str conversation_id)
{
    return str_eq(str_of(p->owner), owner) && str_eq(str_of(p->conversation_id), conversation_id);
}

/* Whether its last turn is one of those before the task, and not one of another branch. */
static bool acp_knows_branch(const struct acp_process *p, const struct run_spec *spec)
{
    return spec->is_context || !spec->turns.p || strstr(spec->turns.p, p->task_id);
}

/* It serves that task from here on. */
static bool acp_serve(struct acp_process *p, struct str task_id)
{
    if (!exec_move(p->inner, task_id))
        return false;
    p->settled = false;
    p->said = p->mark = 0;
    p->n_commits = 0;
    buf_clear(&p->noted);
    return true;
}

/* The conversation's process out of the pool; NULL: it has none that lives. */
static struct acp_process *acp_from_pool(struct acp_settings *s, const struct run_spec *spec)
{
    list_each (it, &s->pool) {
        struct acp_process *p = list_item(it, struct acp_process, node);
        if (!acp_is_of(p, spec->owner, spec->conversation_id) || p->spent ||
            agent_exec_ops.is_deaf(p->inner)) /* it has died, and its end is not heard yet */
            continue;
        if (acp_is_kept(p) && !p->settled) /* a start must find it where it was */
            continue;
        if (!acp_knows_branch(p, spec)) {
            acp_close(p);
            continue;
        }
        if (acp_is_kept(p) && !acp_serve(p, spec->task_id)) {
            acp_close(p);
            continue;
        }
        acp_leave_list(p);
        uv_timer_stop(&p->timer);
        p->reused = true;
        p->heard = false;
        return p;
    }
    return NULL;
}

static void acp_to_pool(struct acp_process *p)
{
    struct acp_settings *s = p->s;
    p->run = NULL;
    acp_gifts_clear(&p->gifts);
    uv_timer_stop(&p->timer);
    acp_leave_list(p);
    if (p->spent || p->acp.broken || p->acp.turn == ACP_RUNNING || s->keep == 0 ||
        s->keep_ms == 0) {
        acp_close(p);
        return;
    }
    if (s->n_pool == s->keep)
        acp_close(list_item(s->pool.next, struct acp_process, node));
    list_push(&s->pool, &p->node);
    p->pooled = true;
    s->n_pool++;
    acp_arm(p, s->keep_ms);
    if (!acp_is_kept(p)) /* else acp_settled */
        agent_exec_ops.unpause(p->inner);
}

void agent_acp_init(struct acp_settings *s)
{
    list_init(&s->pool);
    list_init(&s->busy);
}

void agent_acp_forget(struct acp_settings *s, struct str owner, struct str conversation_id)
{
    list_each (it, &s->pool) {
        struct acp_process *p = list_item(it, struct acp_process, node);
        if (acp_is_of(p, owner, conversation_id))
            acp_close(p);
    }
    list_each (it, &s->busy) {
        struct acp_process *p = list_item(it, struct acp_process, node);
        p->spent |= acp_is_of(p, owner, conversation_id);
    }
}

void agent_acp_close(struct acp_settings *s)
{
    while (!list_is_empty(&s->pool))
        acp_close(list_item(s->pool.next, struct acp_process, node));
}

/* --- the port --------------------------------------------------------------------------------- */

static void acp_take_lent(struct acp_run *r, struct buf *files)
{
    acp_gifts_put_lent(buf_str(&r->lent), files, &r->process->folder.lent);
    buf_done(&r->lent);
}

static void acp_on_lent(void *user, const char *why)
{
    struct acp_run *r = acp_run_of(user);
    struct acp_process *p = r->process;
    struct buf files = {0};
    r->lending = NULL;
    if (why) {
        acp_lost(&p->acp, str_of(why));
    } else {
        acp_take_lent(r, &files);
        acp_take_files(&p->acp, files.len ? buf_str(&files) : STR(""));
    }
    buf_done(&files);
    (void)acp_flush(p);
}

static bool acp_lend(struct acp_run *r, const struct lender *lender, const struct run_spec *spec,
                     char *ret_error)
{
    if (!lender || !parts_have_file(spec->parts))
        return true;
    const struct lend_plan plan = {spec->owner, spec->task_id, spec->parts, acp_on_lent, r};
    return lender->lend(lender->arg, &plan, &r->lent, &r->lending, ret_error);
}

static void acp_run_free(struct acp_run *r, const struct lender *lender)
{
    if (r->lending)
        lender->drop_lending(r->lending);
    buf_done(&r->lent);
    r->magic = 0;
    free(r);
}

static struct acp_run *acp_run_new(const struct run_events *events, void *task)
{
    struct acp_run *r = xcalloc(sizeof *r);
    *r = (struct acp_run){.magic = ACP_MAGIC, .events = *events, .task = task};
    return r;
}

/* Gives the run its process, and that its turn; from NULL: a new one. */
static void acp_begin_turn(struct acp_process *p, struct acp_run *r, const struct run_spec *spec,
                           const struct resumption *from)
{
    struct buf recap = {0}, files = {0};
    buf_clear(&p->folder.lent);
    snprintf(p->task_id, sizeof p->task_id, "%.*s", (int)spec->task_id.n, spec->task_id.p);
    acp_begin_run(p, r);
    p->session_kept = false;
    recap_put(&recap, spec->history, spec->input);
    if (!r->lending)
        acp_take_lent(r, &files);
    if (from)
        acp_turn_again(p, spec, buf_str(&recap), r->lending ? STR_NULL : buf_str(&files), from);
    else
        acp_ask(p, spec->input, buf_str(&recap), &files);
    buf_done(&recap);
    buf_done(&files);
}

static struct run *acp_start(void *settings, const struct run_spec *spec,
                             const struct run_events *events, void *task, char *ret_error)
{
    struct acp_settings *s = settings;
    struct acp_process *p = NULL;
    struct acp_run *r = acp_run_new(events, task);
    if (acp_lend(r, s->exec.lender, spec, ret_error)) {
        p = acp_from_pool(s, spec);
        p = p ? p : acp_process_new(s, spec, ACP_STARTS, false, 0, ret_error);
    }
    if (!p) {
        acp_run_free(r, s->exec.lender);
        return NULL;
    }
    acp_begin_turn(p, r, spec, NULL);
    return (struct run *)r;
}

/* Whether it was told to give its turn up by itself; else a signal is next. */
static bool acp_asks_politely(struct acp_process *p)
{
    bool again = p->acp.cancelled; /* an earlier gateway has told it */
    bool polite = again ? p->acp.awaits == ACP_AWAITS_PROMPT : acp_cancel(&p->acp);
    (void)acp_flush(p);
    return polite && !p->spent;
}

static void acp_cancel_run(struct run *run)
{
    struct acp_process *p = acp_run_of(run)->process;
    if (p->begins)
        (void)acp_flush(p);
    if (!acp_asks_politely(p))
        agent_exec_ops.cancel(p->inner);
    else
        acp_arm(p, p->s->grace_ms / 2);
    if (acp_is_kept(p)) {
        exec_ends_alone(p->inner);
        FAULT_DIE(CANCEL);
    }
}

static void acp_kill(struct run *run)
{
    struct acp_process *p = acp_run_of(run)->process;
    p->spent = p->acp.cancelled = true;
    agent_exec_ops.kill(p->inner);
}

/* Answers to permissions; it has asked for nothing else. */
static bool acp_deliver(struct run *run, struct str line)
{
    struct acp_process *p = acp_run_of(run)->process;
    acp_answer(&p->acp, line);
    (void)acp_flush(p);
    return !p->spent;
}

static bool acp_is_deaf(struct run *run)
{
    return agent_exec_ops.is_deaf(acp_run_of(run)->process->inner);
}

static void acp_unpause(struct run *run)
{
    struct acp_process *p = acp_run_of(run)->process;
    p->wants_more = true;
    if (!acp_is_busy(p))
        agent_exec_ops.unpause(p->inner);
}

static void acp_free(struct run *run)
{
    if (!run)
        return;
    struct acp_run *r = acp_run_of(run);
    const struct lender *lender = r->process->s->exec.lender;
    if (r->process->left)
        acp_close(r->process);
    else
        acp_to_pool(r->process);
    acp_run_free(r, lender);
}

static void acp_settled(void *settings, struct str task_id)
{
    const struct acp_settings *s = settings;
    agent_exec_ops.settled((void *)&s->exec, task_id);
}

const struct agent_ops agent_acp_ops = {
    .kind = "acp",
    .start = acp_start,
    .cancel = acp_cancel_run,
    .kill = acp_kill,
    .deliver = acp_deliver,
    .is_deaf = acp_is_deaf,
    .unpause = acp_unpause,
    .free = acp_free,
    .settled = acp_settled,
};

/* --- kept programs ---------------------------------------------------------------------------- */

static struct exec_settings *acp_exec(void *settings)
{
    struct acp_settings *s = settings;
    return &s->exec;
}

static bool acp_prepare(void *settings, struct str task_id, char *ret_error)
{
    return agent_kept_ops.prepare(acp_exec(settings), task_id, ret_error);
}

/* One that waits in the pool serves further turns, and ends with its gateway until then. */
static void acp_kept_settled(void *settings, struct str task_id)
{
    struct acp_settings *s = settings;
    list_each (it, &s->pool) {
        struct acp_process *p = list_item(it, struct acp_process, node);
        if (p->settled || !str_eq(str_of(p->task_id), task_id))
            continue;
        FAULT_DIE(SETTLED);
        p->settled = true;
        agent_exec_ops.settled(&s->exec, task_id);
        acp_idle(p);
        return;
    }
    agent_kept_ops.settled(&s->exec, task_id);
}

static bool acp_is_there(void *settings, struct str task_id, uint64_t *ret_last, char *ret_why)
{
    return agent_kept_ops.is_there(acp_exec(settings), task_id, ret_last, ret_why);
}

static struct run *acp_resume(void *settings, const struct run_spec *spec,
                              const struct resumption *from, const struct run_events *events,
                              void *task, char *ret_error)
{
    struct acp_settings *s = settings;
    struct acp_process *p = NULL;
    struct acp_run *r = acp_run_new(events, task);
    bool anew = false;
    if (acp_lend(r, s->exec.lender, spec, ret_error))
        p = acp_process_again(s, spec, from, &anew, ret_error);
    if (p)
        acp_begin_turn(p, r, spec, anew ? NULL : from);
    else
        acp_run_free(r, s->exec.lender);
    acp_forget_recall(from->recall);
    return p ? (struct run *)r : NULL;
}

static void acp_run_proceed(struct run *run)
{
    acp_proceed(acp_run_of(run)->process);
}

static bool acp_run_deliver_at(struct run *run, uint64_t position, struct str line)
{
    return acp_deliver_at(acp_run_of(run)->process, position, line);
}

static bool acp_kept_is_deaf(struct run *run)
{
    struct acp_process *p = acp_run_of(run)->process;
    return !p->second_waits && agent_kept_ops.is_deaf(p->inner);
}

static void acp_run_leave(struct run *run)
{
    struct acp_run *r = acp_run_of(run);
    struct acp_process *p = r->process;
    p->left = true;
    uv_timer_stop(&p->timer);
    if (r->lending)
        p->s->exec.lender->drop_lending(r->lending);
    r->lending = NULL;
    acp_gifts_clear(&p->gifts);
    acp_shell_leave(&p->shell);
    agent_kept_ops.leave(p->inner);
}

const struct agent_ops agent_acp_kept_ops = {
    .kind = "acp",
    .start = acp_start,
    .cancel = acp_cancel_run,
    .kill = acp_kill,
    .deliver = acp_deliver,
    .is_deaf = acp_kept_is_deaf,
    .unpause = acp_unpause,
    .free = acp_free,
    .prepare = acp_prepare,
    .settled = acp_kept_settled,
    .proceed = acp_run_proceed,
    .recall = acp_recall,
    .forget = acp_forget_recall,
    .is_there = acp_is_there,
    .resume = acp_resume,
    .leave = acp_run_leave,
    .deliver_at = acp_run_deliver_at,
};
