#include "gateway/agents/agent_acp.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/agents/acp_files.h"
#include "gateway/agents/acp_gifts.h"
#include "gateway/agents/acp_terminals.h"
#include "gateway/agents/program_session.h"
#include "gateway/agents/recap.h"
#include "gateway/base/log.h"
#include "gateway/processes/sandbox.h"
#include "proto/parts.h"

/* Design
 *
 *   acp_run (a task) ──▶ acp_process ──▶ a run of agent_exec
 *                          │  ▲
 *            turn is over  ▼  │  next turn of the conversation
 *                          pool ─pool_idle_s, pool─▶ closed
 *
 * - A process with a turn has a run; one in the pool has none.  One that is spent (it has ended, or
 *   is broken) never comes into the pool: its run's free closes it, or, when it ends in the pool,
 *   its timer, since nothing is freed from inside a callback of its own.
 * - All that is written and said goes through acp_flush: first the program's answers, then the
 *   task's lines, then its files, then the end of the turn.  What comes while a file is stored
 *   waits for that. */

#define ACP_MAGIC 0x00616370u
#define ACP_LINE (32 * 1024 * 1024)  /* bytes: what the protocol's own library takes */
#define ACP_QUEUE (64 * 1024 * 1024) /* bytes that wait for the program to read them */

struct acp_run;

struct acp_process {
    unsigned magic;
    struct acp_settings *s;
    struct list node; /* in the pool, or busy */
    struct acp_run *run;
    struct run *inner; /* agent_exec's */
    struct acp acp;
    struct acp_folder folder;
    struct acp_shell shell;
    struct acp_gifts gifts;
    char *owner, *conversation_id;
    char task_id[TASK_ID_LEN + 1]; /* its last turn */
    uv_timer_t timer; /* in a turn: half of the grace; in the pool: keep_ms; spent: 0 */
    bool spent, kept, pooled;
    bool reused, heard; /* it comes from the pool; it has said anything since */
};

struct acp_run {
    unsigned magic;
    struct acp_process *process;
    struct run_events events;
    void *task;
    bool ended;
    struct lending *lending; /* the message's files are on their way to lent */
    struct buf lent;
};

static struct acp_process *process_of(void *arg)
{
    struct acp_process *p = arg;
    ASSERT(p && p->magic == ACP_MAGIC);
    return p;
}

static struct acp_run *acp_run_of(void *arg)
{
    struct acp_run *r = arg;
    ASSERT(r && r->magic == ACP_MAGIC);
    return r;
}

/* --- the process ------------------------------------------------------------------------------ */

static void on_acp_close(uv_handle_t *timer)
{
    struct acp_process *p = process_of(timer->data);
    p->magic = 0;
    free(p);
}

static void acp_leave_list(struct acp_process *p)
{
    if (p->pooled)
        p->s->n_pool--;
    p->pooled = false;
    list_remove(&p->node);
}

/* Never from inside a callback of its inner run. */
static void acp_close(struct acp_process *p)
{
    acp_leave_list(p);
    agent_exec_ops.free(p->inner);
    acp_gifts_clear(&p->gifts);
    acp_shell_close(&p->shell);
    acp_done(&p->acp);
    acp_folder_close(&p->folder);
    free(p->owner);
    free(p->conversation_id);
    uv_close((uv_handle_t *)&p->timer, on_acp_close);
}

static struct program_session acp_session_of(const struct acp_process *p)
{
    return (struct program_session){p->s->data, p->s->agent, str_of(p->owner),
                                    str_of(p->conversation_id)};
}

static void acp_on_timer(uv_timer_t *timer)
{
    struct acp_process *p = process_of(timer->data);
    if (p->run)
        agent_exec_ops.cancel(p->inner); /* it has not given its turn up: SIGTERM */
    else
        acp_close(p);
}

/* --- what is said ----------------------------------------------------------------------------- */

/* False: it does not read. */
static bool acp_write(struct acp_process *p)
{
    struct buf *out = &p->acp.out;
    bool good = true;
    for (size_t at = 0; good && at < out->len;) {
        const char *end = memchr(out->bytes + at, '\n', out->len - at);
        size_t n = (size_t)(end - out->bytes) - at;
        good = agent_exec_ops.deliver(p->inner, (struct str){out->bytes + at, n});
        at += n + 1;
    }
    buf_clear(out);
    return good;
}

static bool acp_say(struct acp_process *p)
{
    struct buf *said = &p->acp.said;
    bool wants_more = true;
    for (size_t at = 0; p->run && at < said->len;) {
        const char *end = memchr(said->bytes + at, '\n', said->len - at);
        size_t n = (size_t)(end - said->bytes) - at;
        wants_more &= p->run->events.on_line(p->run->task, (struct str){said->bytes + at, n});
        at += n + 1;
    }
    buf_clear(said);
    return wants_more;
}

static void acp_keep_session(struct acp_process *p)
{
    struct str id = buf_str(&p->acp.session);
    if (p->kept || p->acp.awaits != ACP_AWAITS_PROMPT || !form_is_session(id))
        return;
    struct program_session session = acp_session_of(p);
    program_session_write(&session, id, str_of(p->task_id));
    p->kept = true;
}

static void acp_tell_end(struct acp_process *p, enum run_end end, struct str text)
{
    struct acp_run *r = p->run;
    if (!r || r->ended)
        return;
    r->ended = true;
    r->events.on_end(r->task, end, text);
}

static bool acp_flush(struct acp_process *p)
{
    bool good = acp_write(p);
    acp_keep_session(p);
    if (!good)
        p->spent = true;
    if (acp_gifts_are_open(&p->gifts))
        return false;
    bool wants_more = acp_say(p);
    acp_gifts_take(&p->gifts, &p->acp);
    if (acp_gifts_are_open(&p->gifts))
        return false;
    if (p->acp.turn == ACP_DONE)
        acp_tell_end(p, RUN_DONE, STR(""));
    else if (p->acp.turn == ACP_FAILED)
        acp_tell_end(p, RUN_FAILED, buf_str(&p->acp.failure));
    return wants_more;
}

static void acp_on_file(void *arg, struct str data)
{
    struct acp_process *p = process_of(arg);
    if (p->run && !p->run->ended)
        (void)p->run->events.on_event(p->run->task, &(struct agent_line){.kind = LINE_EVENT,
                                                                         .event = EVENT_FILE,
                                                                         .data = data,
                                                                         .timeout_s = -1});
}

static void acp_on_files(void *arg)
{
    struct acp_process *p = process_of(arg);
    if (acp_flush(p) && !p->spent)
        agent_exec_ops.unpause(p->inner);
}

static bool acp_on_line(void *task, struct str line)
{
    struct acp_process *p = process_of(task);
    p->heard = true;
    acp_take(&p->acp, line);
    return acp_flush(p);
}

static bool acp_begin_anew(struct acp_process *p);

static void acp_on_end(void *task, enum run_end end, struct str text)
{
    struct acp_process *p = process_of(task);
    p->spent = true;
    if (end == RUN_DONE)
        text = STR("it has ended before its turn");
    if (!acp_begin_anew(p)) {
        acp_lost(&p->acp, text);
        (void)acp_flush(p);
    }
    if (!p->run)
        uv_timer_start(&p->timer, acp_on_timer, 0, 0);
}

static const struct run_events acp_events = {.on_line = acp_on_line, .on_end = acp_on_end};

/* --- starting --------------------------------------------------------------------------------- */

/* The folder that it works in, absolute: the conversation's, the configured one, or ours. */
static bool acp_open_folder(struct acp_process *p, const struct run_spec *spec, char *ret_error)
{
    const struct exec_settings *e = &p->s->exec;
    char whole[PATH_MAX];
    char *path;
    if (e->work) {
        path = sandbox_make_work(e->work, spec->owner, spec->conversation_id, ret_error);
        if (!path)
            return false;
    } else if (realpath(e->cwd ? e->cwd : ".", whole)) {
        path = xstrdup(str_of(whole));
    } else {
        snprintf(ret_error, 256, "cwd: there is no such directory");
        return false;
    }
    if (acp_folder_open(&p->folder, path))
        return true;
    snprintf(ret_error, 256, "cwd: the directory cannot be opened");
    return false;
}

static void acp_on_terminal(void *arg, unsigned number)
{
    struct acp_process *p = process_of(arg);
    acp_terminal_ended(&p->acp, number);
    if (!acp_write(p))
        p->spent = true;
}

static void acp_open_shell(struct acp_process *p)
{
    const struct acp_settings *s = p->s;
    p->shell = (struct acp_shell){.processes = s->processes,
                                  .sandbox = &s->sandbox,
                                  .folder = &p->folder,
                                  .is_measured = s->exec.work != NULL,
                                  .env = s->exec.env,
                                  .owner = p->owner,
                                  .conversation_id = p->conversation_id,
                                  .agent = s->agent,
                                  .ended = acp_on_terminal,
                                  .arg = p};
    list_init(&p->shell.list);
}

static bool acp_launch(struct acp_process *p, const struct run_spec *spec, char *ret_error)
{
    struct buf session = {0};
    if (!acp_open_folder(p, spec, ret_error))
        return false;
    struct exec_settings exec = p->s->exec;
    exec.feed = EXEC_FEED_OPEN;
    exec.max_line = ACP_LINE;
    exec.max_queue = ACP_QUEUE;
    p->inner = agent_exec_ops.start(&exec, spec, &acp_events, p, ret_error);
    if (!p->inner)
        return false;
    struct program_session known = acp_session_of(p);
    (void)!program_session_read(&known, spec->is_context ? STR_NULL : spec->turns, &session);
    struct acp_options o = {.cwd = p->folder.path,
                            .version = HOLDFAST_VERSION,
                            .auth_method = p->s->auth_method,
                            .mcp_stdio = p->s->mcp_stdio,
                            .mcp_http = p->s->mcp_http,
                            .files = p->s->serves_files ? &acp_files_port : NULL,
                            .files_arg = &p->folder,
                            .terminals = p->s->serves_terminals ? &acp_terminals_port : NULL,
                            .terminals_arg = &p->shell};
    acp_open(&p->acp, &o, buf_str(&session));
    buf_done(&session);
    return true;
}

static void acp_begin_run(struct acp_process *p, struct acp_run *r)
{
    p->gifts.task_id = str_of(p->task_id);
    p->run = r;
    r->process = p;
    list_push(&p->s->busy, &p->node);
}

static void acp_ask(struct acp_process *p, struct str input, struct str recap,
                    const struct buf *files)
{
    struct str those = files->len ? buf_str(files) : STR("");
    acp_prompt(&p->acp, input, recap, p->run->lending ? STR_NULL : those);
    if (!acp_write(p))
        p->spent = true; /* its end is told by its exit */
}

static void acp_open_gifts(struct acp_process *p)
{
    acp_gifts_init(&p->gifts);
    p->gifts.lender = p->s->exec.lender;
    p->gifts.owner = str_of(p->owner);
    p->gifts.conversation_id = str_of(p->conversation_id);
    p->gifts.told = acp_on_file;
    p->gifts.done = acp_on_files;
    p->gifts.arg = p;
}

static struct acp_process *acp_process_new(struct acp_settings *s, const struct run_spec *spec,
                                           char *ret_error)
{
    struct acp_process *p = xcalloc(sizeof *p);
    p->magic = ACP_MAGIC;
    p->s = s;
    p->owner = xstrdup(spec->owner.p ? spec->owner : STR(""));
    p->conversation_id = xstrdup(spec->conversation_id);
    p->folder.fd = -1;
    acp_open_gifts(p);
    acp_open_shell(p);
    uv_timer_init(s->exec.loop, &p->timer);
    p->timer.data = p;
    if (acp_launch(p, spec, ret_error))
        return p;
    acp_close(p);
    return NULL;
}

/* True when the run has another process: this one had died in the pool, unnoticed, or died of the
 * prompt without a word.  Once, because the other one is new. */
static bool acp_begin_anew(struct acp_process *p)
{
    char error[256];
    struct run_spec spec = {.owner = str_of(p->owner),
                            .conversation_id = str_of(p->conversation_id)};
    if (!p->run || p->run->ended || !p->reused || p->heard || p->acp.cancelled)
        return false;
    struct acp_process *next = acp_process_new(p->s, &spec, error);
    if (!next)
        return false;
    memcpy(next->task_id, p->task_id, sizeof next->task_id);
    acp_begin_run(next, p->run);
    p->run = NULL;
    acp_leave_list(p);
    next->folder.lent = p->folder.lent;
    p->folder.lent = (struct buf){0};
    acp_ask(next, buf_str(&p->acp.input), buf_str(&p->acp.recap), &p->acp.files);
    return true;
}

static bool acp_is_of(const struct acp_process *p, struct str owner, struct str conversation_id)
{
    return str_eq(str_of(p->owner), owner) && str_eq(str_of(p->conversation_id), conversation_id);
}

/* Whether its last turn is one of those before the task, and not one of another branch. */
static bool acp_knows_branch(const struct acp_process *p, const struct run_spec *spec)
{
    return spec->is_context || !spec->turns.p || strstr(spec->turns.p, p->task_id);
}

/* The conversation's process out of the pool; NULL: it has none that lives. */
static struct acp_process *acp_from_pool(struct acp_settings *s, const struct run_spec *spec)
{
    list_each (it, &s->pool) {
        struct acp_process *p = list_item(it, struct acp_process, node);
        if (!acp_is_of(p, spec->owner, spec->conversation_id) || p->spent ||
            agent_exec_ops.is_deaf(p->inner)) /* it has died, and its end is not heard yet */
            continue;
        if (!acp_knows_branch(p, spec)) {
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
    uv_timer_start(&p->timer, acp_on_timer, (uint64_t)s->keep_ms, 0);
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
    return lender->lend(lender->arg, spec->owner, spec->task_id, spec->parts, &r->lent, acp_on_lent,
                        r, &r->lending, ret_error);
}

static void acp_run_free(struct acp_run *r, const struct lender *lender)
{
    if (r->lending)
        lender->drop_lending(r->lending);
    buf_done(&r->lent);
    r->magic = 0;
    free(r);
}

static struct run *acp_start(void *settings, const struct run_spec *spec,
                             const struct run_events *events, void *task, char *ret_error)
{
    struct acp_settings *s = settings;
    struct buf recap = {0}, files = {0};
    struct acp_process *p = NULL;
    struct acp_run *r = xcalloc(sizeof *r);
    *r = (struct acp_run){.magic = ACP_MAGIC, .events = *events, .task = task};
    if (acp_lend(r, s->exec.lender, spec, ret_error)) {
        p = acp_from_pool(s, spec);
        p = p ? p : acp_process_new(s, spec, ret_error);
    }
    if (!p) {
        acp_run_free(r, s->exec.lender);
        return NULL;
    }
    buf_clear(&p->folder.lent);
    snprintf(p->task_id, sizeof p->task_id, "%.*s", (int)spec->task_id.n, spec->task_id.p);
    acp_begin_run(p, r);
    p->kept = false;
    recap_put(&recap, spec->history, spec->input);
    if (!r->lending)
        acp_take_lent(r, &files);
    acp_ask(p, spec->input, buf_str(&recap), &files);
    buf_done(&recap);
    buf_done(&files);
    return (struct run *)r;
}

static void acp_cancel_run(struct run *run)
{
    struct acp_process *p = acp_run_of(run)->process;
    if (!acp_cancel(&p->acp) || !acp_write(p)) {
        agent_exec_ops.cancel(p->inner);
        return;
    }
    uv_timer_start(&p->timer, acp_on_timer, (uint64_t)p->s->grace_ms / 2, 0);
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
    return acp_write(p);
}

static bool acp_is_deaf(struct run *run)
{
    return agent_exec_ops.is_deaf(acp_run_of(run)->process->inner);
}

static void acp_unpause(struct run *run)
{
    agent_exec_ops.unpause(acp_run_of(run)->process->inner);
}

static void acp_free(struct run *run)
{
    if (!run)
        return;
    struct acp_run *r = acp_run_of(run);
    const struct lender *lender = r->process->s->exec.lender;
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
