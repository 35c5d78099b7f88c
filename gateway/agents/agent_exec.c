#include "gateway/agents/agent_exec.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gateway/agents/exec_lines.h"
#include "gateway/agents/run_line.h"
#include "gateway/processes/children.h"
#include "gateway/processes/sandbox.h"
#include "gateway/processes/strays.h"
#include "gateway/processes/supervisor.h"
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
 */

#define CHUNK 65536 /* bytes of one read: a pipe's size; one a turn, so that runs take turns */
#define RUN_MAGIC 0x65786563u

enum exec_state { EXEC_RUNNING, EXEC_EXITED, EXEC_KILLED, EXEC_GONE, EXEC_ENDED };

struct watched {
    uv_poll_t poll;
    int fd;     /* -1: closed, or never opened */
    int events; /* that it is watched for; 0: not watched */
};

struct run {
    unsigned magic;
    enum exec_state state;
    const char *program;
    struct run_events events;
    void *task;

    uv_timer_t timer; /* EXITED: the drain; KILLED: the wait for the dead */
    struct watched in, out, err, control, pidfd;
    int n_handles; /* open or closing */

    struct exec_lines lines; /* read, not handed over */
    struct buf queue;        /* for stdin */
    size_t queue_at;         /* the first byte that was not written */
    size_t queue_max;
    enum exec_feed feed;
    struct buf message;   /* not known to be written whole; "" for none */
    size_t message_after; /* bytes of the queue up to its end */

    bool paused;
    bool handing; /* on_line is on the stack */
    bool cancelled;
    bool freed;
    bool reported;
    struct supervisor_report report;
    const char *fault;     /* why the adapter ended it; NULL: it did not */
    struct exec_tail tail; /* of stderr */
};

static char chunk[CHUNK]; /* one loop, one thread */

static void exec_on_timer(uv_timer_t *timer);
static void on_stdin_ready(uv_poll_t *poll, int status, int events);
static void run_go_on(struct run *r);

static struct run *exec_run_of(const void *data)
{
    struct run *r = (struct run *)(uintptr_t)data;
    ASSERT(r && r->magic == RUN_MAGIC);
    return r;
}

/* --- handles ---------------------------------------------------------------------------------- */

static void run_drop(struct run *r)
{
    exec_lines_done(&r->lines);
    buf_done(&r->queue);
    buf_done(&r->message);
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

/* Takes over the descriptor, even on failure. */
static bool watched_open(struct run *r, struct watched *w, int fd)
{
    w->fd = fd;
    w->poll.data = r;
    if (uv_poll_init(r->timer.loop, &w->poll, fd) == 0) {
        r->n_handles++;
        return true;
    }
    close(fd);
    w->fd = -1;
    return false;
}

static void watched_close(struct watched *w)
{
    if (w->fd < 0)
        return;
    uv_close((uv_handle_t *)&w->poll, on_handle_close);
    close(w->fd);
    w->fd = -1;
}

/* Costs nothing when nothing changes: uv_poll_start itself makes two system calls. */
static void watched_start(struct watched *w, int events, uv_poll_cb on_ready)
{
    if (w->fd < 0 || w->events == events)
        return;
    w->events = events;
    uv_poll_start(&w->poll, events, on_ready);
}

static void watched_stop(struct watched *w)
{
    if (w->fd < 0 || w->events == 0)
        return;
    w->events = 0;
    uv_poll_stop(&w->poll);
}

static void timer_close(struct run *r)
{
    if (!uv_is_closing((uv_handle_t *)&r->timer))
        uv_close((uv_handle_t *)&r->timer, on_handle_close);
}

/* -1: nothing there now; 0: stdout has ended, and is closed. */
static ssize_t read_chunk(struct watched *w)
{
    ssize_t n;
    do
        n = read(w->fd, chunk, sizeof chunk);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return -1;
    if (n > 0)
        return n;
    watched_close(w);
    return 0;
}

/* --- stdin ------------------------------------------------------------------------------------ */

/* Writes what the pipe takes; waits for room for the rest.  False when nobody will read it. */
static bool stdin_flush(struct run *r)
{
    while (r->queue_at < r->queue.len) {
        ssize_t n = write(r->in.fd, r->queue.bytes + r->queue_at, r->queue.len - r->queue_at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0) {
            watched_close(&r->in);
            buf_done(&r->queue);
            r->queue_at = 0;
            return false;
        }
        r->queue_at += (size_t)n;
        r->message_after -= (size_t)n < r->message_after ? (size_t)n : r->message_after;
    }
    if (r->queue_at < r->queue.len) {
        if (r->queue_at >= r->queue.len / 2) { /* not at each write: the rest may be large */
            buf_consume(&r->queue, r->queue_at);
            r->queue_at = 0;
        }
        watched_start(&r->in, UV_WRITABLE, on_stdin_ready);
    } else {
        buf_done(&r->queue);
        r->queue_at = 0;
        watched_stop(&r->in);
        if (r->feed >= EXEC_FEED_INPUT) /* that was all */
            watched_close(&r->in);
    }
    return true;
}

static void on_stdin_ready(uv_poll_t *poll, int status, int events)
{
    struct run *r = exec_run_of(poll->data);
    (void)status, (void)events; /* an error ends the watch, and the write will show it */
    watched_stop(&r->in);
    if (stdin_flush(r) && r->message.len && r->message_after == 0 && r->events.on_room)
        r->events.on_room(r->task); /* before the program, which has all of it, can end */
}

static bool stdin_put(struct run *r, struct str line, size_t max)
{
    if (r->in.fd < 0 || r->queue.len - r->queue_at + line.n + 1 > max)
        return false;
    buf_putstr(&r->queue, line);
    buf_putc(&r->queue, '\n');
    return stdin_flush(r);
}

/* A message is accepted when the pipe has all of it: one that waits here may never be read.  Until
 * then it is refused, and recognized when it is tried again. */
static bool message_put(struct run *r, struct str line)
{
    if (r->message.len == 0) {
        if (r->queue_at < r->queue.len || !stdin_put(r, line, SIZE_MAX))
            return false;
        r->message_after = r->queue.len - r->queue_at;
        if (r->message_after > 0)
            buf_putstr(&r->message, line);
        return r->message_after == 0;
    }
    ASSERT(str_eq(line, buf_str(&r->message))); /* none overtakes another */
    if (r->in.fd < 0 || r->message_after > 0)
        return false;
    buf_done(&r->message);
    return true;
}

/* --- stdout and stderr ------------------------------------------------------------------------ */

static void run_kill(struct run *r)
{
    if (r->state >= EXEC_KILLED)
        return;
    r->state = EXEC_KILLED;
    supervisor_send(r->control.fd, SUPERVISOR_KILL);
    supervisor_wake(r->pidfd.fd);
    uv_timer_start(&r->timer, exec_on_timer, EXEC_KILL_MS, 0);
}

static void fail_long_line(struct run *r)
{
    r->fault = r->lines.max == MAX_AGENT_LINE
                   ? "a line of the agent exceeds 4 MiB, and its event 1 MiB"
                   : "a line of the agent exceeds the longest that is read";
    watched_close(&r->out);
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

static void lines_hand_over(struct run *r)
{
    struct str line;

    if (r->handing)
        return;
    r->handing = true;
    while (!r->paused && lines_take(r, &line)) {
        r->paused = true; /* first, so that an unpause from inside is not forgotten */
        if (r->events.on_line(r->task, line))
            r->paused = false;
    }
    exec_lines_consume(&r->lines, 2 * (size_t)CHUNK);
    r->handing = false;
}

/* False when there is nothing to read now. */
static bool stdout_read(struct run *r)
{
    ssize_t n = read_chunk(&r->out);
    if (n > 0)
        buf_put(&r->lines.held, chunk, (size_t)n);
    lines_hand_over(r);
    return n > 0;
}

static void on_stdout_ready(uv_poll_t *poll, int status, int events)
{
    struct run *r = exec_run_of(poll->data);
    (void)status, (void)events;
    stdout_read(r);
    run_go_on(r);
}

static bool stderr_read(struct run *r)
{
    ssize_t n = read_chunk(&r->err);
    if (n <= 0)
        return false;
    exec_tail_put(&r->tail, chunk, (size_t)n);
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
    for (int got = 0; !r->paused && r->out.fd >= 0 && got <= most; got += CHUNK)
        if (!stdout_read(r))
            break;
    if (r->paused)
        return false;
    watched_close(&r->out);
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
    watched_close(&r->in);
    watched_close(&r->err);
    watched_close(&r->control); /* kill whatever still lives there */
    supervisor_wake(r->pidfd.fd);
    timer_close(r);
    enum run_end end = describe_end(r, &text);
    r->events.on_end(r->task, end, buf_str(&text));
    buf_done(&text);
}

static void exec_on_timer(uv_timer_t *timer)
{
    struct run *r = exec_run_of(timer->data);
    if (r->state == EXEC_EXITED)
        run_kill(r);
    else if (r->state == EXEC_KILLED)
        r->state = EXEC_GONE;
    run_go_on(r);
}

/* Does everything that the state allows; called after each event. */
static void run_go_on(struct run *r)
{
    if (r->freed || r->handing || r->state == EXEC_ENDED)
        return;
    if (r->fault || (r->state == EXEC_EXITED && r->out.fd < 0))
        run_kill(r);
    if (r->paused || r->state == EXEC_GONE)
        watched_stop(&r->out);
    else
        watched_start(&r->out, UV_READABLE, on_stdout_ready);
    if (r->state == EXEC_GONE && stdout_drain(r))
        run_end(r);
}

static void take_report(struct run *r)
{
    if (r->reported || r->control.fd < 0 || !supervisor_read_report(r->control.fd, &r->report))
        return;
    r->reported = true;
    watched_close(&r->in);
    if (r->state != EXEC_RUNNING)
        return;
    r->state = EXEC_EXITED;
    uv_timer_start(&r->timer, exec_on_timer, EXEC_DRAIN_MS, 0);
}

static void on_control_ready(uv_poll_t *poll, int status, int events)
{
    struct run *r = exec_run_of(poll->data);
    (void)status, (void)events;
    take_report(r);
    watched_stop(&r->control); /* one report, or the end */
    run_go_on(r);
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
    run_go_on(r);
}

/* --- the port --------------------------------------------------------------------------------- */

static void exec_cancel(struct run *run)
{
    struct run *r = exec_run_of(run);
    if (r->cancelled || r->state != EXEC_RUNNING)
        return;
    r->cancelled = true;
    if (r->feed == EXEC_FEED_RUN)
        stdin_put(r, STR("{\"type\":\"cancel\"}"), SIZE_MAX);
    supervisor_send(r->control.fd, SUPERVISOR_TERM);
    supervisor_wake(r->pidfd.fd);
}

static void exec_kill(struct run *run)
{
    run_kill(exec_run_of(run));
}

/* Checks for a pipe that nobody can read any more, before anything is lost in it. */
static bool exec_is_deaf(struct run *run)
{
    struct pollfd in = {.fd = exec_run_of(run)->in.fd};
    return in.fd < 0 || (poll(&in, 1, 0) > 0 && (in.revents & (POLLERR | POLLHUP)));
}

static bool exec_deliver(struct run *run, struct str line)
{
    struct str message = STR("{\"type\":\"message\",");
    struct run *r = exec_run_of(run);
    bool is_message = line.n >= message.n && memcmp(line.p, message.p, message.n) == 0;
    return is_message ? message_put(r, line) : stdin_put(r, line, r->queue_max);
}

static void exec_unpause(struct run *run)
{
    struct run *r = exec_run_of(run);
    r->paused = false;
    lines_hand_over(r);
    run_go_on(r);
}

static void exec_free(struct run *run)
{
    if (!run)
        return;
    struct run *r = exec_run_of(run);
    ASSERT(!r->freed && !r->handing);
    r->freed = true;
    watched_close(&r->in);
    watched_close(&r->out);
    watched_close(&r->err);
    watched_close(&r->control); /* its end kills the tree; the supervisor's exit closes pidfd */
    supervisor_wake(r->pidfd.fd);
    timer_close(r);
    if (r->n_handles == 0)
        run_drop(r);
}

/* In the folder that is the conversation's own, when the settings want it. */
static bool exec_spawn(const struct exec_settings *s, const struct run_spec *spec,
                       struct supervisor *ret, char *ret_error)
{
    char *work = NULL;
    if (s->work) {
        work = sandbox_make_work(s->work, spec->owner, spec->conversation_id, ret_error);
        if (!work)
            return false;
    }
    struct supervisor_spec program = {s->command, s->env, work ? work : s->cwd, s->self, NULL};
    bool spawned = supervisor_spawn(&program, ret, ret_error);
    free(work);
    return spawned;
}

static void exec_feed(struct run *r, const struct run_spec *spec)
{
    if (r->feed == EXEC_FEED_RUN)
        run_line_put(&r->queue, spec);
    if (r->feed == EXEC_FEED_INPUT)
        buf_putstr(&r->queue, spec->input);
    r->queue_max += r->queue.len;
    stdin_flush(r);
}

static struct run *exec_new(const struct exec_settings *s, const struct run_events *events,
                            void *task)
{
    struct run *r = xcalloc(sizeof *r);
    r->magic = RUN_MAGIC;
    r->program = s->command[0];
    r->events = *events;
    r->task = task;
    r->feed = s->feed;
    r->queue_max = s->max_queue ? s->max_queue : EXEC_QUEUE;
    r->lines.bytes = s->bytes;
    r->lines.max = s->max_line ? s->max_line : MAX_AGENT_LINE;
    uv_timer_init(s->loop, &r->timer);
    r->timer.data = r;
    r->n_handles = 1;
    return r;
}

static struct run *exec_start(void *settings, const struct run_spec *spec,
                              const struct run_events *events, void *task, char *ret_error)
{
    const struct exec_settings *s = settings;
    struct supervisor sup;
    if (!exec_spawn(s, spec, &sup, ret_error))
        return NULL;
    struct run *r = exec_new(s, events, task);
    bool watches = watched_open(r, &r->pidfd, sup.pidfd);
    watches &= watched_open(r, &r->control, sup.control);
    watches &= watched_open(r, &r->in, sup.stdio[0]);
    watches &= watched_open(r, &r->out, sup.stdio[1]);
    watches &= watched_open(r, &r->err, sup.stdio[2]);
    watched_start(&r->pidfd, UV_READABLE, on_supervisor_exit);
    if (!watches) {
        snprintf(ret_error, SUPERVISOR_ERROR, "cannot start \"%s\": too many watches", r->program);
        bool reaped_later = r->pidfd.fd >= 0;
        exec_free(r);
        if (!reaped_later) /* at once: its control has ended */
            children_reap(P_PID, (id_t)sup.pid, 0, &(siginfo_t){0});
        return NULL;
    }
    watched_start(&r->control, UV_READABLE, on_control_ready);
    watched_start(&r->out, UV_READABLE, on_stdout_ready);
    watched_start(&r->err, UV_READABLE, on_stderr_ready);
    exec_feed(r, spec);
    return r;
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
};
