#include "gateway/agents/exec_run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gateway/agents/exec_kept.h"
#include "gateway/base/fault.h"
#include "gateway/processes/children.h"
#include "gateway/processes/holder.h"
#include "gateway/processes/strays.h"
#include "proto/js.h"
#include "proto/limits.h"

/* Design
 *
 *            report             stdout ended, or            supervisor            all lines
 *           (child ended)       EXEC_DRAIN_MS, or kill      exited                handed over
 *   RUNNING ────────────▶ EXITED ───────────▶ KILLED ─────────────────▶ GONE ──────────────▶ ENDED
 *      └────────────────────kill─────────────────▲    or EXEC_KILL_MS    ▲                  on_end
 *      └─────────────── the supervisor exited (nothing was left) ────────┘
 *
 * - Descriptors are watched with uv_poll and read and written here: a run needs to know "nothing
 *   there now" at its end, and where exactly a write stopped; uv_stream hides both.
 * - Backpressure: while paused stdout is not watched, and the agent sleeps in write.  At most one
 *   read (CHUNK) and the beginning of a line are held.
 * - stdout is closed when it has ended or is given up; out.fd < 0 says so, and the rest of the
 *   buffer then counts as a line.
 * - Memory is freed in the last close callback after free.  A freed run only waits for its
 *   supervisor.
 * - A kept program's holder does not exit with its tree: its page says that nothing is left (GONE).
 *   It stays, with all that was not committed, until the end of the task is (exec_run_settle);
 *   should the gateway be killed before, the next one finds that end again.
 */

#define CHUNK SPOOL_CHUNK /* bytes of one read; one a turn, so that runs take turns */
#define RUN_MAGIC 0x65786563u
#define SETTLE_BYTES 65536 /* of a spool that may be dropped: below this it is not worth it */

static char chunk[CHUNK]; /* one loop, one thread */

static void exec_on_timer(uv_timer_t *timer);

struct run *exec_run_of(const void *data)
{
    struct run *r = (struct run *)(uintptr_t)data;
    ASSERT(r && r->magic == RUN_MAGIC);
    return r;
}

/* --- handles ---------------------------------------------------------------------------------- */

static void run_drop(struct run *r)
{
    if (r->kept) {
        spool_out_close(&r->spool);
        holder_unmap(r->page);
        for (size_t i = 0; i < countof(r->spool_files); i++)
            close(r->spool_files[i]);
    }
    exec_lines_done(&r->lines);
    input_done(&r->input);
    buf_done(&r->begin);
    free(r->task_id);
    r->magic = 0;
    free(r);
}

static void on_handle_close(uv_handle_t *handle)
{
    struct run *r = exec_run_of(handle->data);
    r->n_handles--;
    if (r->freed && r->n_handles == 0)
        run_drop(r);
}

static bool run_watch(struct run *r, struct watched *w, int fd)
{
    bool good = watched_open(w, r->timer.loop, fd, r, on_handle_close);
    r->n_handles += good;
    return good;
}

static void timer_close(struct run *r)
{
    if (!uv_is_closing((uv_handle_t *)&r->timer))
        uv_close((uv_handle_t *)&r->timer, on_handle_close);
}

/* --- stdin ------------------------------------------------------------------------------------ */

static void close_input(struct run *r)
{
    watched_close(&r->input.in);
    r->input.spool.pipe = -1;
}

void exec_run_input_moved(struct run *r)
{
    if (!r->kept || r->freed || r->left)
        return;
    if (r->input.in.fd < 0 && !hold_page_is_set(&r->page->in_ended)) {
        hold_page_set(&r->page->in_ended);
        supervisor_send(r->control.fd, SUPERVISOR_END_STDIN);
    }
    uint64_t told = input_told(&r->input);
    told -= told > r->page->from_line ? r->page->from_line : told;
    if (told <= r->told)
        return;
    r->told = told;
    r->events.on_taken(r->task, told);
}

static void on_stdin_ready(uv_poll_t *poll, int status, int events)
{
    struct run *r = exec_run_of(poll->data);
    (void)status, (void)events; /* an error ends the watch, and the write will show it */
    watched_stop(&r->input.in);
    bool good = input_flush(&r->input);
    exec_run_input_moved(r);
    if (good && input_has_message(&r->input) && r->events.on_room)
        r->events.on_room(r->task); /* before the program, which has all of it, can end */
}

/* --- stdout and stderr ------------------------------------------------------------------------ */

void exec_run_kill(struct run *r)
{
    if (r->state >= EXEC_KILLED)
        return;
    r->state = EXEC_KILLED;
    supervisor_send(r->control.fd, SUPERVISOR_KILL);
    supervisor_wake(r->pidfd.fd);
    uv_timer_start(&r->timer, exec_on_timer, EXEC_KILL_MS, 0);
}

static void stdout_close(struct run *r)
{
    watched_close(&r->out);
    r->spool.pipe = -1;
}

static void fail_long_line(struct run *r)
{
    r->fault = r->lines.max == MAX_AGENT_LINE
                   ? "a line of the agent exceeds 4 MiB, and its event 1 MiB"
                   : "a line of the agent exceeds the longest that is read";
    stdout_close(r);
    exec_lines_done(&r->lines);
}

/* Text after the last newline is a line when nothing can follow it.  If the agent died while it
 * wrote, the text is none: how it died says more. */
static bool lines_take_rest(struct run *r, struct str *ret)
{
    struct js_doc doc = {0};
    if (r->state != EXEC_GONE || r->out.fd >= 0)
        return false;
    *ret = exec_lines_rest(&r->lines);
    if (ret->n == 0 || (r->reported && r->report.status == 0))
        return ret->n > 0;
    bool whole = js_parse(&doc, ret->p, ret->n, JS_AGENT);
    js_done(&doc);
    return whole;
}

/* The next line; false when there is none, or when it is too long and the run has failed. */
static bool lines_take(struct run *r, struct str *ret)
{
    enum exec_next next = exec_lines_next(&r->lines, ret);
    if (next == EXEC_NEXT_TOO_LONG)
        fail_long_line(r);
    return next == EXEC_NEXT_ONE || (next == EXEC_NEXT_NONE && lines_take_rest(r, ret));
}

/* The place behind the last line that was handed over. */
static uint64_t place(const struct run *r)
{
    return r->spool.taken - (r->lines.held.len - r->lines.at);
}

/* Asks for proceed, one at a time, when there is something to drop. */
static void ask_to_settle(struct run *r)
{
    if (!r->kept || r->asked || r->freed || r->left ||
        r->marked - r->page->out_base < SETTLE_BYTES + r->spool.punched)
        return;
    r->asked = true;
    r->settling = r->marked;
    r->events.when_committed(r->task);
}

/* A mark that core does not stage (yet) is not one that may be dropped. */
static void set_mark(struct run *r)
{
    if (r->kept && !r->left && r->events.on_mark(r->task, place(r)))
        r->marked = place(r);
    if (r->kept)
        FAULT_DIE(MARK_STAGED);
}

static void lines_hand_over(struct run *r)
{
    struct str line;

    if (r->handing || r->left)
        return;
    r->handing = true;
    while (!r->paused && !r->left && lines_take(r, &line)) {
        r->paused = true; /* first, so that an unpause from inside is not forgotten */
        if (r->events.on_line(r->task, line))
            r->paused = false;
        if (r->kept)
            FAULT_DIE(LINE_TAKEN);
        set_mark(r);
    }
    exec_lines_consume(&r->lines, 2 * (size_t)CHUNK);
    r->handing = false;
    ask_to_settle(r);
}

/* -1: nothing there now; 0: stdout has ended, and is closed. */
static ssize_t stdout_take(struct run *r)
{
    ssize_t n;
    if (!r->kept) {
        n = watched_read(&r->out, chunk, sizeof chunk);
        if (n > 0)
            buf_put(&r->lines.held, chunk, (size_t)n);
        return n;
    }
    n = spool_out_read(&r->spool, &r->lines.held);
    if (n < 0 && errno != EAGAIN)
        r->fault = "its output cannot be kept";
    if (n == 0 || r->fault)
        stdout_close(r);
    return n;
}

/* False when there is nothing to read now. */
static bool stdout_read(struct run *r)
{
    ssize_t n = stdout_take(r);
    lines_hand_over(r);
    return n > 0;
}

/* An earlier gateway had read it, and not committed. */
static bool has_unread(const struct run *r)
{
    return r->kept && r->out.fd >= 0 && r->spool.taken < r->spool.position;
}

static void on_stdout_ready(uv_poll_t *poll, int status, int events)
{
    struct run *r = exec_run_of(poll->data);
    (void)status, (void)events;
    stdout_read(r);
    exec_run_go_on(r);
}

static bool stderr_read(struct run *r)
{
    ssize_t n = watched_read(&r->err, chunk, sizeof chunk);
    if (n <= 0)
        return false;
    exec_tail_put(&r->tail, chunk, (size_t)n);
    if (r->kept) {
        memcpy(r->page->tail, r->tail.bytes, r->tail.n);
        r->page->tail_bytes = (uint32_t)r->tail.n;
    }
    return true;
}

static void on_stderr_ready(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    stderr_read(exec_run_of(poll->data));
}

/* --- the end ---------------------------------------------------------------------------------- */

/* Reads what the pipe holds now.  True when all is handed over; false: paused.  When nothing of the
 * tree is left, no more can come.  If somebody else still writes (a descriptor was passed on), this
 * does not wait, so it reads at most one pipe full. */
static bool stdout_drain(struct run *r)
{
    int most = r->out.fd >= 0 ? fcntl(r->out.fd, F_GETPIPE_SZ) : 0;

    lines_hand_over(r);
    for (int got = 0; !r->paused && r->out.fd >= 0 && got <= most;) {
        got += has_unread(r) ? 0 : CHUNK;
        if (!stdout_read(r))
            break;
    }
    if (r->paused || has_unread(r))
        return false;
    stdout_close(r);
    lines_hand_over(r);
    return !r->paused;
}

static void stderr_drain(struct run *r)
{
    for (int n = 0; n < 16 && r->err.fd >= 0 && stderr_read(r); n++)
        ;
}

static enum run_end describe_end(const struct run *r, struct buf *out)
{
    struct str said = exec_tail_str(&r->tail);
    if (r->fault) {
        buf_puts(out, r->fault);
        return RUN_FAILED;
    }
    if (!r->reported)
        buf_puts(out, r->pidfd.fd < 0 ? "its supervisor ended without a report"
                                      : "does not die of SIGKILL");
    else if (supervisor_put_end(&r->report, r->program, out))
        return RUN_DONE;
    buf_puts(out, said.n ? ": " : "");
    buf_putstr(out, said);
    return RUN_FAILED;
}

static void run_end(struct run *r)
{
    struct buf text = {0};
    stderr_drain(r);
    r->state = EXEC_ENDED;
    close_input(r);
    watched_close(&r->err);
    if (r->kept)
        watched_stop(&r->control); /* until exec_run_settle */
    else
        watched_close(&r->control); /* kill whatever still lives there */
    supervisor_wake(r->pidfd.fd);
    timer_close(r);
    enum run_end end = describe_end(r, &text);
    r->events.on_end(r->task, end, buf_str(&text));
    buf_done(&text);
}

static void take_report(struct run *r)
{
    if (r->freed || r->control.fd < 0)
        return;
    if (r->kept && !r->reported && hold_page_is_set(&r->page->reported)) {
        r->report = (struct supervisor_report){r->page->error, r->page->status};
        r->reported = true;
    } else if (r->kept || r->reported || !supervisor_read_report(r->control.fd, &r->report)) {
        return;
    }
    r->reported = true;
    close_input(r);
    if (r->state != EXEC_RUNNING)
        return;
    r->state = EXEC_EXITED;
    uv_timer_start(&r->timer, exec_on_timer, EXEC_DRAIN_MS, 0);
}

/* All that the holder has said. */
static void take_page(struct run *r)
{
    take_report(r);
    if (hold_page_is_set(&r->page->gone) && r->state < EXEC_GONE)
        r->state = EXEC_GONE;
}

static void exec_on_timer(uv_timer_t *timer)
{
    struct run *r = exec_run_of(timer->data);
    if (r->state == EXEC_RUNNING) {
        (void)input_flush(&r->input);
        exec_run_input_moved(r);
        take_page(r);
    } else if (r->state == EXEC_EXITED) {
        exec_run_kill(r);
    } else if (r->state == EXEC_KILLED) {
        r->state = EXEC_GONE;
    }
    exec_run_go_on(r);
}

void exec_run_go_on(struct run *r)
{
    if (r->freed || r->handing || r->left || r->state == EXEC_ENDED)
        return;
    while (has_unread(r) && !r->paused && !r->fault)
        stdout_read(r);
    if (r->fault || (r->state == EXEC_EXITED && r->out.fd < 0))
        exec_run_kill(r);
    if (r->paused || r->state == EXEC_GONE)
        watched_stop(&r->out);
    else
        watched_start(&r->out, UV_READABLE, on_stdout_ready);
    if (r->state == EXEC_GONE && stdout_drain(r))
        run_end(r);
}

void exec_run_go_on_soon(struct run *r)
{
    uv_timer_start(&r->timer, exec_on_timer, 0, 0);
}

static void on_control_ready(uv_poll_t *poll, int status, int events)
{
    struct run *r = exec_run_of(poll->data);
    (void)status, (void)events;
    bool more = r->kept && holder_read(r->control.fd);
    if (r->kept)
        take_page(r);
    else
        take_report(r);
    if (!more)
        watched_stop(&r->control); /* one report, or the end */
    exec_run_go_on(r);
}

static void on_supervisor_exit(uv_poll_t *poll, int status, int events)
{
    struct run *r = exec_run_of(poll->data);
    siginfo_t info;

    (void)status, (void)events;
    if (!children_reap(P_PIDFD, (id_t)r->pidfd.fd, WNOHANG, &info))
        return; /* not yet */
    if (strays_may_be(&info))
        strays_kill(poll->loop);
    take_report(r);
    watched_close(&r->pidfd);
    if (r->state < EXEC_GONE)
        r->state = EXEC_GONE;
    exec_run_go_on(r);
}

/* --- its life --------------------------------------------------------------------------------- */

struct run *exec_run_new(const struct exec_settings *s, const struct run_events *events, void *task)
{
    struct run *r = xcalloc(sizeof *r);
    r->magic = RUN_MAGIC;
    r->program = s->command[0];
    r->events = *events;
    r->task = task;
    r->feed = s->feed;
    r->lender = s->lender;
    r->input.max = s->max_queue ? s->max_queue : EXEC_QUEUE;
    r->input.ends = s->feed >= EXEC_FEED_INPUT;
    r->input.on_ready = on_stdin_ready;
    r->lines.bytes = s->bytes;
    r->lines.max = s->max_line ? s->max_line : MAX_AGENT_LINE;
    uv_timer_init(s->loop, &r->timer);
    r->timer.data = r;
    r->n_handles = 1;
    return r;
}

/* Nothing follows, as an earlier gateway found; whether the holder knows is not known. */
static void end_input(struct run *r, int in)
{
    close(in);
    r->input.in.fd = r->input.spool.pipe = -1;
    supervisor_send(r->control.fd, SUPERVISOR_END_STDIN);
}

bool exec_run_open(struct run *r, const struct supervisor *program)
{
    bool hears = !r->page || !hold_page_is_set(&r->page->in_ended);
    bool good = run_watch(r, &r->pidfd, program->pidfd);
    good &= run_watch(r, &r->control, program->control);
    if (hears)
        good &= run_watch(r, &r->input.in, program->stdio[0]);
    else
        end_input(r, program->stdio[0]);
    good &= run_watch(r, &r->out, program->stdio[1]);
    good &= run_watch(r, &r->err, program->stdio[2]);
    watched_start(&r->pidfd, UV_READABLE, on_supervisor_exit);
    if (!good)
        return false;
    watched_start(&r->control, UV_READABLE, on_control_ready);
    watched_start(&r->out, UV_READABLE, on_stdout_ready);
    watched_start(&r->err, UV_READABLE, on_stderr_ready);
    return true;
}

bool exec_run_open_spools(struct run *r, const struct supervisor *program, uint64_t mark)
{
    struct hold_page *page = program->page;
    mark = mark > page->from_out ? mark : page->from_out;
    r->page = page;
    r->spool_files[0] = program->spool_out;
    r->spool_files[1] = program->spool_in;
    r->marked = mark;
    r->told = 0;
    r->tail.n = page->tail_bytes;
    memcpy(r->tail.bytes, page->tail, page->tail_bytes);
    r->input.is_kept = true;
    r->input.has_begun = hold_page_newest(page).said & HOLD_SAID_RUN;
    r->cancelled = hold_page_newest(page).said & HOLD_SAID_CANCEL;
    bool good = spool_in_open(&r->input.spool, page, program->stdio[0], program->spool_in);
    return spool_out_open(&r->spool, page, program->stdio[1], program->spool_out, mark) && good;
}

void exec_run_unpause(struct run *r)
{
    r->paused = false;
    lines_hand_over(r);
    exec_run_go_on(r);
}

void exec_run_proceed(struct run *r)
{
    r->asked = false;
    if (r->freed || r->left)
        return;
    spool_out_settle(&r->spool, r->settling);
    if (r->marked > r->settling)
        ask_to_settle(r);
}

static void drop_lending(struct run *r)
{
    if (r->lending)
        r->lender->drop_lending(r->lending);
    r->lending = NULL;
}

bool exec_run_move(struct run *r, struct str task_id)
{
    r->page->from_out = place(r);
    r->page->from_line = hold_page_newest(r->page).number;
    hold_page_clear(&r->page->ends);
    if (!kept_move(r->kept, str_of(r->task_id), task_id))
        return false;
    free(r->task_id);
    r->task_id = xstrdup(task_id);
    r->told = 0;
    r->marked = r->page->from_out;
    r->asked = false;
    return true;
}

void exec_run_leave(struct run *r)
{
    struct watched *const all[] = {&r->input.in, &r->out, &r->err, &r->control};
    r->left = true;
    drop_lending(r); /* the next gateway lends them again */
    for (size_t i = 0; i < countof(all); i++)
        watched_stop(all[i]);
    FAULT_DIE(LEAVE);
}

void exec_run_settle(struct run *r)
{
    r->settled = true;
    if (r->control.fd < 0)
        return;
    supervisor_send(r->control.fd, SUPERVISOR_QUIT);
    supervisor_wake(r->pidfd.fd);
    watched_close(&r->control);
}

void exec_run_free(struct run *r)
{
    ASSERT(!r->freed && !r->handing);
    r->freed = true;
    drop_lending(r);
    close_input(r);
    watched_close(&r->out);
    watched_close(&r->err);
    if (r->kept && r->left)
        kept_forget(r->kept, str_of(r->task_id));
    if (r->kept && r->left)
        watched_close(&r->pidfd);
    else if (r->kept && r->state < EXEC_KILLED)
        supervisor_send(r->control.fd, SUPERVISOR_KILL);
    if (!r->kept || r->left || r->settled)
        watched_close(&r->control); /* its end kills the tree; the supervisor's exit closes pidfd */
    if (!r->left)
        supervisor_wake(r->pidfd.fd);
    timer_close(r);
    if (r->n_handles == 0)
        run_drop(r);
}
