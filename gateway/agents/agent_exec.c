#include "gateway/agents/agent_exec.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/agents/exec_kept.h"
#include "gateway/agents/exec_run.h"
#include "gateway/agents/run_line.h"
#include "gateway/base/fault.h"
#include "gateway/processes/children.h"
#include "gateway/processes/hold_page.h"
#include "gateway/processes/sandbox.h"
#include "proto/parts.h"

/* --- lines ------------------------------------------------------------------------------------ */

static void exec_cancel(struct run *run)
{
    struct run *r = exec_run_of(run);
    if (r->state != EXEC_RUNNING || r->term_sent)
        return;
    if (!r->cancelled && r->feed == EXEC_FEED_RUN && !r->lending)
        input_put(&r->input, STR("{\"type\":\"cancel\"}"), SIZE_MAX, HOLD_SAID_CANCEL);
    r->cancelled = r->term_sent = true;
    supervisor_send(r->control.fd, SUPERVISOR_TERM);
    supervisor_wake(r->pidfd.fd);
    if (r->kept)
        FAULT_DIE(CANCEL);
}

static void exec_kill(struct run *run)
{
    exec_run_kill(exec_run_of(run));
}

/* Checks for a pipe that nobody can read any more, before anything is lost in it. */
static bool exec_is_deaf(struct run *run)
{
    struct pollfd in = {.fd = exec_run_of(run)->input.in.fd};
    return in.fd < 0 || (poll(&in, 1, 0) > 0 && (in.revents & (POLLERR | POLLHUP)));
}

static bool exec_deliver(struct run *run, struct str line)
{
    struct str message = STR("{\"type\":\"message\",");
    struct run *r = exec_run_of(run);
    if (r->lending) /* nothing goes before the run line */
        return false;
    bool is_message = line.n >= message.n && memcmp(line.p, message.p, message.n) == 0;
    return is_message ? input_message(&r->input, line)
                      : input_put(&r->input, line, r->input.max, 0);
}

static bool exec_deliver_at(struct run *run, uint64_t position, struct str line)
{
    struct run *r = exec_run_of(run);
    if (r->lending || !input_put_at(&r->input, r->page->from_line + position, line))
        return false;
    if (r->told >= position) /* an earlier gateway has given it, and this one has said so */
        r->events.on_taken(r->task, position);
    exec_run_input_moved(r);
    return true;
}

static void exec_unpause(struct run *run)
{
    exec_run_unpause(exec_run_of(run));
}

static void exec_proceed(struct run *run)
{
    exec_run_proceed(exec_run_of(run));
}

static void exec_leave(struct run *run)
{
    exec_run_leave(exec_run_of(run));
}

static void exec_free(struct run *run)
{
    if (run)
        exec_run_free(exec_run_of(run));
}

/* --- start ------------------------------------------------------------------------------------ */

static bool env_has(char *const *env, const char *name, size_t n)
{
    for (; env && *env; env++)
        if (strncmp(*env, name, n) == 0)
            return true;
    return false;
}

/* Takes the value over, unless the settings have one of that name. */
static size_t env_add(char **env, size_t n, const char *name, struct buf *value)
{
    struct buf text = {0};
    size_t name_len = strlen(name);
    if (!env_has(env, name, name_len) && value->len) {
        buf_puts(&text, name);
        buf_putstr(&text, buf_str(value));
        buf_putc(&text, 0);
        env[n++] = buf_take(&text);
    }
    buf_done(value);
    return n;
}

/* The settings' environment, and the trace as OpenTelemetry's environment-variable carriers have
 * it.  Those from *ret_own on are the caller's, like the array. */
static char **env_with_trace(const struct exec_settings *s, const struct trace_context *trace,
                             size_t *ret_own)
{
    struct buf parent = {0}, state = {0};
    size_t n = 0;
    while (s->env && s->env[n])
        n++;
    char **env = xcalloc((n + 3) * sizeof *env);
    for (size_t i = 0; i < n; i++)
        env[i] = s->env[i];
    *ret_own = n;
    traceparent_put(&parent, trace);
    if (trace->state.p)
        buf_putstr(&state, trace->state);
    n = env_add(env, n, "TRACEPARENT=", &parent);
    (void)env_add(env, n, "TRACESTATE=", &state);
    return env;
}

static void env_done(char **env, size_t own)
{
    for (size_t i = own; env && env[i]; i++)
        free(env[i]);
    free(env);
}

/* In the folder that is the conversation's own, when the settings want it. */
static bool exec_spawn(const struct exec_settings *s, const struct run_spec *spec,
                       const struct hold *hold, struct supervisor *ret, char *ret_error)
{
    char *work = NULL;
    if (s->work) {
        work = sandbox_make_work(s->work, spec->owner, spec->conversation_id, ret_error);
        if (!work)
            return false;
    }
    size_t own = 0;
    char **env = spec->trace ? env_with_trace(s, spec->trace, &own) : NULL;
    struct supervisor_spec program = {s->command, env ? env : s->env, work ? work : s->cwd, s->self,
                                      hold};
    bool spawned = supervisor_spawn(&program, ret, ret_error);
    env_done(env, own);
    free(work);
    return spawned;
}

#define NO_INPUT_ROOM "there is no room for its input"

/* The files are there: the program is told what to do. */
static void on_lent(void *user, const char *why)
{
    struct run *r = exec_run_of(user);
    r->lending = NULL;
    if (!why && !input_begin(&r->input, buf_str(&r->begin)))
        why = NO_INPUT_ROOM;
    buf_done(&r->begin);
    if (why)
        r->fault = why;
    else
        exec_run_input_moved(r);
    exec_run_go_on(r);
    if (!why && !r->freed && r->events.on_room)
        r->events.on_room(r->task);
}

/* The run line, whose files the program can read; with r->lending, when they are there. */
static bool put_run_line(const struct exec_settings *s, struct run *r, const struct run_spec *spec,
                         struct buf *out, char *ret_error)
{
    struct run_spec lent = *spec;
    struct buf parts = {0};
    bool good = true;
    if (s->lender && parts_have_file(spec->parts)) {
        const struct lend_plan plan = {spec->owner, spec->task_id, spec->parts, on_lent, r};
        good = s->lender->lend(s->lender->arg, &plan, &parts, &r->lending, ret_error);
        lent.parts = buf_str(&parts);
    }
    if (good)
        run_line_put(out, &lent);
    buf_done(&parts);
    return good;
}

/* False with a sentence. */
static bool exec_feed(const struct exec_settings *s, struct run *r, const struct run_spec *spec,
                      char *ret_error)
{
    struct buf begin = {0};
    if (r->feed == EXEC_FEED_OPEN || r->input.has_begun)
        return true;
    if (r->feed == EXEC_FEED_RUN && !put_run_line(s, r, spec, &begin, ret_error))
        return false;
    if (r->feed == EXEC_FEED_INPUT)
        buf_putstr(&begin, spec->input);
    r->input.max += begin.len;
    if (r->lending) {
        r->begin = begin;
        return true;
    }
    bool good = input_begin(&r->input, buf_str(&begin));
    if (!good)
        snprintf(ret_error, SUPERVISOR_ERROR, NO_INPUT_ROOM);
    buf_done(&begin);
    return good;
}

static void exec_settled(void *settings, struct str task_id)
{
    const struct exec_settings *s = settings;
    if (s->lender)
        s->lender->take_back(s->lender->arg, task_id);
}

static struct run *exec_start(void *settings, const struct run_spec *spec,
                              const struct run_events *events, void *task, char *ret_error)
{
    const struct exec_settings *s = settings;
    struct supervisor program;
    if (!exec_spawn(s, spec, NULL, &program, ret_error))
        return NULL;
    struct run *r = exec_run_new(s, events, task);
    if (!exec_run_open(r, &program)) {
        snprintf(ret_error, SUPERVISOR_ERROR, "cannot start \"%s\": too many watches", r->program);
        bool reaped_later = r->pidfd.fd >= 0;
        exec_free(r);
        if (!reaped_later) /* at once: its control has ended */
            children_reap(P_PID, (id_t)program.pid, 0, &(siginfo_t){0});
        return NULL;
    }
    if (exec_feed(s, r, spec, ret_error))
        return r;
    exec_free(r);
    return NULL;
}

const struct agent_ops agent_exec_ops = {
    .kind = "exec",
    .start = exec_start,
    .cancel = exec_cancel,
    .kill = exec_kill,
    .deliver = exec_deliver,
    .is_deaf = exec_is_deaf,
    .unpause = exec_unpause,
    .free = exec_free,
    .settled = exec_settled,
};

/* --- kept programs ---------------------------------------------------------------------------- */

void exec_set_digest(struct exec_settings *s, int form)
{
    struct buf all = {0};
    char *const *const lists[] = {s->command, s->env};
    for (size_t i = 0; i < countof(lists); i++) {
        for (char *const *text = lists[i]; text && *text; text++)
            buf_put(&all, *text, strlen(*text) + 1);
        buf_putc(&all, 0);
    }
    buf_puts(&all, s->work ? s->work : s->cwd ? s->cwd : "");
    buf_putf(&all, "%d%d", s->work != NULL, form);
    _Static_assert(sizeof s->digest == SANDBOX_NAME, "sandbox_name fills it");
    _Static_assert(sizeof s->digest == HOLD_DIGEST, "the page of a kept program has it");
    sandbox_name(buf_str(&all), STR(""), s->digest);
    buf_done(&all);
}

static struct run *kept_run_new(const struct exec_settings *s, const struct run_spec *spec,
                                const struct run_events *events, void *task)
{
    struct run *r = exec_run_new(s, events, task);
    r->kept = s->kept;
    r->task_id = xstrdup(spec->task_id);
    return r;
}

/* Takes the program over.  The socket stays until the end of the task is committed, so the next
 * gateway starts none a second time. */
static struct run *kept_begin(const struct exec_settings *s, struct run *r,
                              const struct supervisor *program, uint64_t mark,
                              const struct run_spec *spec, char *ret_error)
{
    char why[SUPERVISOR_ERROR] = "";
    bool sound = exec_run_open_spools(r, program, mark);
    bool watches = exec_run_open(r, program);
    kept_started(r->kept, spec->task_id, r);
    if (sound && watches && exec_feed(s, r, spec, why)) {
        exec_run_go_on_soon(r);
        FAULT_DIE(ATTACHED);
        return r;
    }
    snprintf(ret_error, SUPERVISOR_ERROR, "cannot run \"%.60s\": %.160s", r->program,
             !sound     ? "what is kept of it is older or newer than the store"
             : !watches ? "too many watches"
                        : why);
    exec_free(r);
    return NULL;
}

static struct run *kept_start(void *settings, const struct run_spec *spec,
                              const struct run_events *events, void *task, char *ret_error)
{
    const struct exec_settings *s = settings;
    struct supervisor program;
    struct hold hold;
    char digest[EXEC_DIGEST];
    if (!kept_hold(s->kept, spec->task_id, &hold)) {
        snprintf(ret_error, SUPERVISOR_ERROR, "cannot start \"%s\": it was not prepared",
                 s->command[0]);
        return NULL;
    }
    hold.keep_s = s->keep_s;
    memcpy(digest, s->digest, sizeof digest);
    if (s->second)
        digest[0] = KEPT_SECOND;
    hold.digest = digest;
    if (!exec_spawn(s, spec, &hold, &program, ret_error))
        return NULL;
    FAULT_DIE(SPAWN);
    return kept_begin(s, kept_run_new(s, spec, events, task), &program, 0, spec, ret_error);
}

static bool kept_prepare_run(void *settings, struct str task_id, char *ret_error)
{
    const struct exec_settings *s = settings;
    return kept_prepare(s->kept, task_id, ret_error);
}

static bool kept_is_there(void *settings, struct str task_id, uint64_t *ret_last, char ret_why[256])
{
    const struct exec_settings *s = settings;
    return kept_find(s->kept, task_id, s->digest, ret_last, ret_why) != KEPT_GONE;
}

/* One that was never started is started now. */
static struct run *kept_resume(void *settings, const struct run_spec *spec,
                               const struct resumption *from, const struct run_events *events,
                               void *task, char *ret_error)
{
    const struct exec_settings *s = settings;
    struct supervisor program;
    (void)from->recall; /* it stands for all */
    FAULT_DIE(RESUMED);
    if (s->anew && !kept_replace(s->kept, spec->task_id, ret_error))
        return NULL;
    if (s->anew)
        return kept_start(settings, spec, events, task, ret_error);
    if (kept_take(s->kept, spec->task_id, s->second, &program))
        return kept_begin(s, kept_run_new(s, spec, events, task), &program, from->mark, spec,
                          ret_error);
    if (!kept_prepare(s->kept, spec->task_id, ret_error))
        return NULL;
    return kept_start(settings, spec, events, task, ret_error);
}

struct run *exec_start_second(struct exec_settings *s, const struct run_spec *spec,
                              const struct run_events *events, void *task, char *ret_error)
{
    ASSERT(s->second);
    if (!kept_replace(s->kept, spec->task_id, ret_error))
        return NULL;
    return kept_start(s, spec, events, task, ret_error);
}

bool exec_move(struct run *run, struct str task_id)
{
    return exec_run_move(exec_run_of(run), task_id);
}

void exec_ends_alone(struct run *run)
{
    hold_page_set(&exec_run_of(run)->page->ends);
}

void exec_settle(const struct exec_settings *s, struct str task_id)
{
    struct run *r = kept_run(s->kept, task_id);
    if (r)
        exec_run_settle(r);
    kept_settle(s->kept, task_id);
}

static void kept_settled(void *settings, struct str task_id)
{
    FAULT_DIE(SETTLED);
    exec_settle(settings, task_id);
    exec_settled(settings, task_id);
}

/* All that a program has said stays: it is read on from the mark.  One recall stands for all. */
struct recall {
    char nothing;
};
static struct recall all_recall;

static struct recall *kept_recall(void *settings, struct recall *recall,
                                  const struct recalled *item, bool *ret_settled)
{
    (void)settings, (void)recall, (void)item;
    *ret_settled = true;
    return &all_recall;
}

static void kept_forget_recall(struct recall *recall)
{
    (void)recall;
}

const struct agent_ops agent_kept_ops = {
    .kind = "exec",
    .start = kept_start,
    .cancel = exec_cancel,
    .kill = exec_kill,
    .deliver = exec_deliver,
    .is_deaf = exec_is_deaf,
    .unpause = exec_unpause,
    .free = exec_free,
    .prepare = kept_prepare_run,
    .settled = kept_settled,
    .proceed = exec_proceed,
    .recall = kept_recall,
    .forget = kept_forget_recall,
    .is_there = kept_is_there,
    .resume = kept_resume,
    .leave = exec_leave,
    .deliver_at = exec_deliver_at,
};
