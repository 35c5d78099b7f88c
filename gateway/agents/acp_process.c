#include "gateway/agents/acp_process.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/agents/program_session.h"
#include "gateway/base/log.h"

#define ACP_MAGIC 0x00616370u
#define ACP_LINE (32 * 1024 * 1024)  /* bytes: what the protocol's own library takes */
#define ACP_QUEUE (64 * 1024 * 1024) /* bytes that wait for the program to read them */

struct acp_process *acp_process_of(void *arg)
{
    struct acp_process *p = arg;
    ASSERT(p && p->magic == ACP_MAGIC);
    return p;
}

struct acp_run *acp_run_of(void *arg)
{
    struct acp_run *r = arg;
    ASSERT(r && r->magic == ACP_MAGIC);
    return r;
}

struct program_session acp_session_of(const struct acp_process *p)
{
    return (struct program_session){p->s->data, p->s->agent, str_of(p->owner),
                                    str_of(p->conversation_id), str_of(p->task_id)};
}

/* --- its life --------------------------------------------------------------------------------- */

static void on_acp_close(uv_handle_t *timer)
{
    struct acp_process *p = acp_process_of(timer->data);
    p->magic = 0;
    free(p);
}

void acp_leave_list(struct acp_process *p)
{
    if (p->pooled)
        p->s->n_pool--;
    p->pooled = false;
    list_remove(&p->node);
}

void acp_close(struct acp_process *p)
{
    acp_leave_list(p);
    if (p->settled) /* core has said so, and does not say it again */
        exec_settle(&p->s->exec, str_of(p->task_id));
    acp_inner_ops(p)->free(p->inner);
    acp_gifts_clear(&p->gifts);
    if (p->left)
        acp_shell_leave(&p->shell);
    acp_shell_close(&p->shell);
    acp_done(&p->acp);
    acp_folder_close(&p->folder);
    buf_done(&p->given);
    buf_done(&p->noted);
    buf_done(&p->effect);
    free(p->owner);
    free(p->conversation_id);
    uv_close((uv_handle_t *)&p->timer, on_acp_close);
}

static void acp_on_timer(uv_timer_t *timer)
{
    struct acp_process *p = acp_process_of(timer->data);
    if (p->run && p->begins)
        acp_go_on_reading(p, acp_flush(p));
    else if (p->run)
        agent_exec_ops.cancel(p->inner); /* it has not given its turn up: SIGTERM */
    else
        acp_close(p);
}

void acp_arm(struct acp_process *p, msec_t ms)
{
    uv_timer_start(&p->timer, acp_on_timer, (uint64_t)ms, 0);
}

void acp_begin_run(struct acp_process *p, struct acp_run *r)
{
    p->gifts.task_id = str_of(p->task_id);
    p->run = r;
    r->process = p;
    list_push(&p->s->busy, &p->node);
    if (!acp_is_kept(p))
        return;
    p->shell.task_id = p->task_id;
    p->acp.holds = true;
    p->begins = p->wants_more = true;
    acp_arm(p, 0);
}

/* --- what is said ----------------------------------------------------------------------------- */

/* Each line of it, which is dropped: without its end. */
static bool next_line(const struct buf *lines, size_t *at, struct str *ret)
{
    if (*at >= lines->len)
        return false;
    const char *end = memchr(lines->bytes + *at, '\n', lines->len - *at);
    *ret = (struct str){lines->bytes + *at, (size_t)(end - lines->bytes) - *at};
    *at += ret->n + 1;
    return true;
}

/* False: it does not read. */
static bool acp_write(struct acp_process *p)
{
    struct str line;
    bool good = true;
    for (size_t at = 0; good && next_line(&p->acp.out, &at, &line);)
        good = agent_exec_ops.deliver(p->inner, line);
    buf_clear(&p->acp.out);
    return good;
}

/* The same for one that is kept, in its turn: it is told when that is committed. */
static void acp_put_lines(struct acp_process *p)
{
    struct acp_run *r = p->run;
    struct str line;
    for (size_t at = 0; next_line(&p->acp.out, &at, &line);) {
        uint64_t position = r->ended ? 0 : r->events.on_say(r->task, line);
        p->said = position ? position : p->said;
    }
    buf_clear(&p->acp.out);
}

static bool acp_say(struct acp_process *p)
{
    struct str line;
    bool wants_more = true;
    for (size_t at = 0; p->run && next_line(&p->acp.said, &at, &line);)
        wants_more &= p->run->events.on_line(p->run->task, line);
    buf_clear(&p->acp.said);
    for (size_t at = 0; p->run && next_line(&p->given, &at, &line);)
        wants_more &= p->run->events.on_event(
            p->run->task,
            &(struct agent_line){
                .kind = LINE_EVENT, .event = EVENT_FILE, .data = line, .timeout_s = -1});
    buf_clear(&p->given);
    return wants_more;
}

static void acp_keep_session(struct acp_process *p)
{
    struct str id = buf_str(&p->acp.session);
    if (p->session_kept || p->acp.awaits != ACP_AWAITS_PROMPT || !form_is_session(id))
        return;
    struct program_session session = acp_session_of(p);
    program_session_write(&session, id);
    p->session_kept = true;
}

static void acp_tell_end(struct acp_process *p, enum run_end end, struct str text)
{
    struct acp_run *r = p->run;
    if (!r || r->ended)
        return;
    r->ended = true;
    r->events.on_end(r->task, end, text);
}

bool acp_is_busy(const struct acp_process *p)
{
    return acp_gifts_are_open(&p->gifts) || p->effect.len > 0 || p->second_waits;
}

/* In one batch: what the lines until now say, what they are answered with, and the mark. */
static bool acp_flush_kept(struct acp_process *p)
{
    if (p->begins)
        uv_timer_stop(&p->timer);
    p->begins = false;
    if (acp_is_busy(p))
        return false;
    if (p->skip) /* they were for another program */
        p->run->events.on_taken(p->run->task, p->skip);
    p->skip = 0;
    p->wants_more = acp_say(p);
    acp_put_lines(p);
    acp_note(p);
    if (p->mark_waits)
        (void)p->run->events.on_mark(p->run->task, p->mark);
    p->mark_waits = false;
    return p->wants_more;
}

bool acp_flush(struct acp_process *p)
{
    bool in_turn = acp_is_kept(p) && p->run;
    if (p->left)
        return false;
    acp_keep_session(p);
    if (!in_turn && !acp_write(p))
        p->spent = true;
    if (acp_gifts_are_open(&p->gifts))
        return false;
    acp_gifts_take(&p->gifts, &p->acp);
    if (acp_gifts_are_open(&p->gifts))
        return false;
    bool wants_more = in_turn ? acp_flush_kept(p) : acp_say(p);
    if (p->acp.turn == ACP_DONE)
        acp_tell_end(p, RUN_DONE, STR(""));
    else if (p->acp.turn == ACP_FAILED)
        acp_tell_end(p, RUN_FAILED, buf_str(&p->acp.failure));
    return wants_more && !(in_turn && p->run->ended); /* the pool goes on reading */
}

void acp_go_on_reading(struct acp_process *p, bool wants_more)
{
    if (wants_more && !p->spent && !acp_is_busy(p))
        acp_inner_ops(p)->unpause(p->inner);
}

static void acp_on_file(void *arg, struct str data)
{
    struct acp_process *p = acp_process_of(arg);
    if (!p->run || p->run->ended)
        return;
    buf_putstr(&p->given, data);
    buf_putc(&p->given, '\n');
}

static void acp_on_files(void *arg)
{
    struct acp_process *p = acp_process_of(arg);
    acp_go_on_reading(p, acp_flush(p));
}

static bool acp_on_line(void *task, struct str line)
{
    struct acp_process *p = acp_process_of(task);
    p->heard = true;
    acp_take(&p->acp, line);
    return p->acp.effect_waits ? acp_hold_effect(p, line) : acp_flush(p);
}

/* True when the run has another process, or will have: this one had died in the pool, unnoticed, or
 * died of the prompt without a word.  Once, because the other one is new. */
static bool acp_begin_anew(struct acp_process *p)
{
    char error[256];
    struct run_spec spec = {.owner = str_of(p->owner),
                            .conversation_id = str_of(p->conversation_id)};
    if (!p->run || p->run->ended || !p->reused || p->heard || p->acp.cancelled)
        return false;
    if (acp_is_kept(p)) {
        acp_wait_for_second(p);
        return true;
    }
    struct acp_process *next = acp_process_new(p->s, &spec, ACP_STARTS, false, 0, error);
    if (!next)
        return false;
    acp_move_run(p, next);
    acp_ask(next, buf_str(&p->acp.input), buf_str(&p->acp.recap), &p->acp.files);
    return true;
}

void acp_move_run(struct acp_process *p, struct acp_process *next)
{
    memcpy(next->task_id, p->task_id, sizeof next->task_id);
    acp_begin_run(next, p->run);
    p->run = NULL;
    acp_leave_list(p);
    next->folder.lent = p->folder.lent;
    p->folder.lent = (struct buf){0};
    acp_arm(p, 0);
}

static void acp_on_end(void *task, enum run_end end, struct str text)
{
    struct acp_process *p = acp_process_of(task);
    p->spent = true;
    if (end == RUN_DONE)
        text = STR("it has ended before its turn");
    if (!acp_begin_anew(p)) {
        buf_clear(&p->effect); /* nobody waits for it any more */
        acp_lost(&p->acp, text);
        (void)acp_flush(p);
    }
    if (!p->run)
        acp_arm(p, 0);
}

static const struct run_events acp_events = {.on_line = acp_on_line,
                                             .on_end = acp_on_end,
                                             .on_mark = acp_on_mark,
                                             .on_taken = acp_on_taken,
                                             .when_committed = acp_when_committed};

void acp_ask(struct acp_process *p, struct str input, struct str recap, const struct buf *files)
{
    struct str those = files->len ? buf_str(files) : STR("");
    acp_prompt(&p->acp, input, recap, p->run->lending ? STR_NULL : those);
    if (!acp_is_kept(p) && !acp_write(p))
        p->spent = true; /* its end is told by its exit */
}

void acp_idle(struct acp_process *p)
{
    p->acp.holds = false;
    p->shell.task_id = NULL;
    exec_ends_alone(p->inner);
    for (; p->n_commits; p->n_commits--)
        if (p->commits[p->n_commits - 1] == ACP_COMMIT_INNER)
            agent_kept_ops.proceed(p->inner);
    if (!acp_write(p))
        p->spent = true;
    agent_kept_ops.unpause(p->inner);
}

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
    struct acp_process *p = acp_process_of(arg);
    acp_terminal_ended(&p->acp, number);
    if (p->run && acp_is_kept(p) && p->begins)
        return; /* it is not the time yet */
    if (p->run && acp_is_kept(p))
        (void)acp_flush(p);
    else if ((p->settled || !acp_is_kept(p)) && !acp_write(p))
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

struct acp_options acp_options_of(struct acp_process *p)
{
    return (struct acp_options){.cwd = p->folder.path,
                                .version = HOLDFAST_VERSION,
                                .auth_method = p->s->auth_method,
                                .mcp_stdio = p->s->mcp_stdio,
                                .mcp_http = p->s->mcp_http,
                                .files = p->s->serves_files ? &acp_files_port : NULL,
                                .files_arg = &p->folder,
                                .terminals = p->s->serves_terminals ? &acp_terminals_port : NULL,
                                .terminals_arg = &p->shell};
}

static struct run *acp_begin(struct acp_process *p, const struct run_spec *spec,
                             enum acp_begin begin, uint64_t mark, char *ret_error)
{
    const struct resumption from = {.mark = mark};
    struct exec_settings exec = p->s->exec;
    exec.feed = EXEC_FEED_OPEN;
    exec.max_line = ACP_LINE;
    exec.max_queue = ACP_QUEUE;
    exec.second = p->second;
    exec.anew = begin == ACP_STARTS_ANEW;
    switch (begin) {
    case ACP_STARTS: return acp_inner_ops(p)->start(&exec, spec, &acp_events, p, ret_error);
    case ACP_TAKES_PLACE: return exec_start_second(&exec, spec, &acp_events, p, ret_error);
    case ACP_STARTS_ANEW:
    case ACP_GOES_ON: break;
    }
    return agent_kept_ops.resume(&exec, spec, &from, &acp_events, p, ret_error);
}

static bool acp_launch(struct acp_process *p, const struct run_spec *spec, enum acp_begin begin,
                       uint64_t mark, char *ret_error)
{
    struct buf session = {0};
    if (!acp_open_folder(p, spec, ret_error))
        return false;
    p->inner = acp_begin(p, spec, begin, mark, ret_error);
    if (!p->inner || begin == ACP_GOES_ON)
        return p->inner != NULL;
    struct program_session known = acp_session_of(p);
    known.task_id = spec->task_id;
    struct acp_options o = acp_options_of(p);
    (void)!program_session_read(&known, spec->is_context ? STR_NULL : spec->turns, &session);
    acp_open(&p->acp, &o, buf_str(&session));
    buf_done(&session);
    return true;
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

struct acp_process *acp_process_new(struct acp_settings *s, const struct run_spec *spec,
                                    enum acp_begin begin, bool second, uint64_t mark,
                                    char *ret_error)
{
    struct acp_process *p = xcalloc(sizeof *p);
    p->magic = ACP_MAGIC;
    p->s = s;
    p->second = second;
    p->owner = xstrdup(spec->owner.p ? spec->owner : STR(""));
    p->conversation_id = xstrdup(spec->conversation_id);
    p->folder.fd = -1;
    acp_open_gifts(p);
    acp_open_shell(p);
    uv_timer_init(s->exec.loop, &p->timer);
    p->timer.data = p;
    if (acp_launch(p, spec, begin, mark, ret_error))
        return p;
    acp_close(p);
    return NULL;
}
