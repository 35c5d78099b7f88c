/* Design.  A server that is a program, below a supervisor (gateway/processes/supervisor.h): one
 * message a line on its stdin and stdout.
 *
 *   RUNNING ── its report, or the end of its stdout ──▶ ENDING ── all of its tree is gone ──▶ died
 *
 * Its stderr is read all the time, because a full pipe would stop it; the end of it says why it
 * died.  A link that was closed lives until its last handle is, and tells nobody anything. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "gateway/base/log.h"
#include "gateway/mcp/mcp_private.h"
#include "gateway/processes/children.h"
#include "gateway/processes/strays.h"
#include "gateway/processes/supervisor.h"

#define CHUNK 65536
#define QUEUE_BYTES (16 * 1024 * 1024) /* that wait for it to read */
#define TAIL_BYTES 160                 /* of stderr, for the sentence */
#define DRAIN_MS 1000                  /* for the rest of its tree, when it has ended itself */
#define DRAIN_READS 16                 /* more than a pipe holds: somebody else writes */
#define POLITE_MS 500                  /* from the end of its stdin to SIGTERM, then to SIGKILL */

struct pipe_end {
    uv_poll_t poll;
    int fd; /* -1: closed */
};

struct stdio_link {
    struct mcp_link link;
    const char *program;
    char *name; /* the server's, for the log */
    struct pipe_end in, out, err, control, pidfd;
    uv_timer_t timer;
    unsigned n_handles;
    struct buf held; /* read, not taken */
    size_t scanned;
    struct buf queue; /* not written */
    size_t queue_at;
    bool paused, ending, closed, asked;
    bool reported;
    struct supervisor_report report;
    char tail[TAIL_BYTES + 1];
    size_t n_tail;
};

static char stdio_chunk[CHUNK]; /* one loop, one thread */

static void stdio_on_timer(uv_timer_t *timer);

static struct stdio_link *stdio_of(struct mcp_link *link)
{
    return container_of(link, struct stdio_link, link);
}

/* --- handles ---------------------------------------------------------------------------------- */

static void stdio_on_close(uv_handle_t *handle)
{
    struct stdio_link *l = handle->data;
    if (--l->n_handles > 0)
        return;
    buf_done(&l->held);
    buf_done(&l->queue);
    free(l->name);
    free(l);
}

static void end_close(struct pipe_end *e)
{
    if (e->fd < 0)
        return;
    uv_close((uv_handle_t *)&e->poll, stdio_on_close);
    close(e->fd);
    e->fd = -1;
}

/* Takes the descriptor over. */
static bool end_open(struct stdio_link *l, struct pipe_end *e, int fd)
{
    e->fd = fd;
    e->poll.data = l;
    if (uv_poll_init(l->timer.loop, &e->poll, fd) == 0) {
        l->n_handles++;
        return true;
    }
    close(fd);
    e->fd = -1;
    return false;
}

static void timer_end(struct stdio_link *l)
{
    if (!uv_is_closing((uv_handle_t *)&l->timer))
        uv_close((uv_handle_t *)&l->timer, stdio_on_close);
}

/* The end of its control kills what is left of its tree. */
static void end_all(struct stdio_link *l)
{
    end_close(&l->in);
    end_close(&l->out);
    end_close(&l->err);
    end_close(&l->control);
    supervisor_wake(l->pidfd.fd);
    timer_end(l);
}

static ssize_t stdio_read(int fd)
{
    ssize_t n;
    do
        n = read(fd, stdio_chunk, sizeof stdio_chunk);
    while (n < 0 && errno == EINTR);
    return n;
}

/* --- writing ---------------------------------------------------------------------------------- */

static void stdio_on_writable(uv_poll_t *poll, int status, int events);

static bool stdio_flush(struct stdio_link *l)
{
    while (l->queue_at < l->queue.len) {
        ssize_t n = write(l->in.fd, l->queue.bytes + l->queue_at, l->queue.len - l->queue_at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0) {
            end_close(&l->in);
            return false;
        }
        l->queue_at += (size_t)n;
    }
    if (l->queue_at == l->queue.len) {
        buf_done(&l->queue);
        l->queue_at = 0;
        uv_poll_stop(&l->in.poll);
    } else {
        uv_poll_start(&l->in.poll, UV_WRITABLE, stdio_on_writable);
    }
    return true;
}

static void stdio_on_writable(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events; /* the write will show an error */
    stdio_flush(poll->data);
}

static bool stdio_send(struct mcp_link *link, const struct mcp_outgoing *message)
{
    struct stdio_link *l = stdio_of(link);
    if (l->in.fd < 0 || l->queue.len - l->queue_at + message->body.n > QUEUE_BYTES)
        return false;
    if (l->queue_at > l->queue.len / 2) {
        buf_consume(&l->queue, l->queue_at);
        l->queue_at = 0;
    }
    buf_putstr(&l->queue, message->body);
    buf_putc(&l->queue, '\n');
    return stdio_flush(l);
}

static void stdio_forget(struct mcp_link *link, int64_t id)
{
    (void)link, (void)id; /* it was told by a notification */
}

static void stdio_listen(struct mcp_link *link)
{
    (void)link; /* one always does */
}

/* --- reading ---------------------------------------------------------------------------------- */

static void take_line(struct stdio_link *l, struct str line)
{
    while (line.n && (line.p[line.n - 1] == '\r' || line.p[line.n - 1] == ' '))
        line.n--;
    if (line.n == 0)
        return;
    if (line.p[0] == '{' || line.p[0] == '[')
        mcp_server_take(l->link.server, line, 0);
    else
        mcp_server_noise(l->link.server, line);
}

/* Hands over whole lines, as long as somebody wants them. */
static void take_lines(struct stdio_link *l, size_t bytes)
{
    size_t at = 0, lines = 0;
    while (l->link.server) {
        const char *from = l->held.bytes + l->scanned;
        const char *end =
            l->scanned < l->held.len ? memchr(from, '\n', l->held.len - l->scanned) : NULL;
        if (!end) {
            l->scanned = l->held.len;
            break;
        }
        size_t n = (size_t)(end - l->held.bytes) - at;
        take_line(l, (struct str){l->held.bytes + at, n});
        at += n + 1;
        l->scanned = at;
        lines++;
    }
    buf_consume(&l->held, at);
    l->scanned -= at;
    if (l->held.len == 0 && l->held.cap > 4 * (size_t)CHUNK)
        buf_done(&l->held);
    if (l->link.server && l->held.len > MCP_MESSAGE_BYTES)
        mcp_server_died(l->link.server, "a line of it exceeds 16 MiB");
    else if (l->link.server && !mcp_server_heard(l->link.server, lines, bytes))
        l->paused = true;
}

static void begin_end(struct stdio_link *l)
{
    if (l->ending || l->closed)
        return;
    l->ending = true;
    end_close(&l->in);
    uv_timer_start(&l->timer, stdio_on_timer, DRAIN_MS, 0);
}

/* False when there is nothing to read now. */
static bool read_out(struct stdio_link *l)
{
    ssize_t n = l->out.fd >= 0 ? stdio_read(l->out.fd) : -1;
    if (n > 0) {
        buf_put(&l->held, stdio_chunk, (size_t)n);
        take_lines(l, (size_t)n);
    } else if (n == 0 || (n < 0 && l->out.fd >= 0 && errno != EAGAIN)) {
        end_close(&l->out);
        begin_end(l);
    }
    return n > 0;
}

static void stdio_on_out(uv_poll_t *poll, int status, int events)
{
    struct stdio_link *l = poll->data;
    (void)status, (void)events;
    read_out(l);
    if (l->paused && l->out.fd >= 0)
        uv_poll_stop(&l->out.poll);
}

static void stdio_go_on(struct mcp_link *link)
{
    struct stdio_link *l = stdio_of(link);
    l->paused = false;
    if (l->out.fd >= 0)
        uv_poll_start(&l->out.poll, UV_READABLE, stdio_on_out);
}

static void put_tail(struct stdio_link *l, const char *bytes, size_t n)
{
    size_t fresh = n < TAIL_BYTES ? n : TAIL_BYTES;
    size_t kept = l->n_tail < TAIL_BYTES - fresh ? l->n_tail : TAIL_BYTES - fresh;
    memmove(l->tail, l->tail + l->n_tail - kept, kept);
    memcpy(l->tail + kept, bytes + n - fresh, fresh);
    l->n_tail = kept + fresh;
}

static bool read_err(struct stdio_link *l)
{
    ssize_t n = l->err.fd >= 0 ? stdio_read(l->err.fd) : -1;
    if (n > 0) {
        put_tail(l, stdio_chunk, (size_t)n);
        log_event_limited(LEVEL_DEBUG, "mcp", "stderr", LOG_TEXT("server", l->name),
                          LOG_STR("text", ((struct str){stdio_chunk, (size_t)n})));
    } else if (n == 0 || (l->err.fd >= 0 && errno != EAGAIN)) {
        end_close(&l->err);
    }
    return n > 0;
}

static void stdio_on_err(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    read_err(poll->data);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void stdio_on_control(uv_poll_t *poll, int status, int events)
{
    struct stdio_link *l = poll->data;
    (void)status, (void)events;
    l->reported = supervisor_read_report(l->control.fd, &l->report);
    uv_poll_stop(&l->control.poll); /* one report, or the end */
    begin_end(l);
}

static void tell_death(struct stdio_link *l)
{
    struct buf why = {0};
    for (int n = 0; n < DRAIN_READS && read_err(l); n++)
        ;
    if (!l->reported && l->control.fd >= 0)
        l->reported = supervisor_read_report(l->control.fd, &l->report);
    if (!l->reported)
        buf_puts(&why, "its supervisor ended without a report");
    else if (supervisor_put_end(&l->report, l->program, &why))
        buf_puts(&why, "it has ended");
    while (l->n_tail && (unsigned char)l->tail[l->n_tail - 1] <= ' ')
        l->n_tail--;
    if (l->n_tail) {
        buf_puts(&why, ": ");
        buf_put(&why, l->tail, l->n_tail);
    }
    mcp_server_died(l->link.server, why.bytes);
    buf_done(&why);
}

static void stdio_on_exit(uv_poll_t *poll, int status, int events)
{
    struct stdio_link *l = poll->data;
    siginfo_t info;
    (void)status, (void)events;
    if (!children_reap(P_PIDFD, (id_t)l->pidfd.fd, WNOHANG, &info))
        return; /* not yet */
    if (strays_may_be(&info))
        strays_kill(poll->loop);
    end_close(&l->pidfd);
    l->ending = true;
    for (int n = 0; n < DRAIN_READS && l->link.server && read_out(l); n++) /* its last words */
        ;
    if (l->link.server)
        tell_death(l); /* which closes the link */
    else
        end_all(l);
}

static void stdio_on_timer(uv_timer_t *timer)
{
    struct stdio_link *l = timer->data;
    if (l->closed && !l->asked) {
        l->asked = true;
        supervisor_send(l->control.fd, SUPERVISOR_TERM);
        supervisor_wake(l->pidfd.fd);
        uv_timer_start(timer, stdio_on_timer, POLITE_MS, 0);
    } else if (l->closed) {
        end_all(l);
    } else {
        supervisor_send(l->control.fd, SUPERVISOR_KILL); /* then its supervisor exits */
        supervisor_wake(l->pidfd.fd);
    }
}

static void stdio_close(struct mcp_link *link, bool kill)
{
    struct stdio_link *l = stdio_of(link);
    l->link.server = NULL;
    l->closed = true;
    end_close(&l->in);
    end_close(&l->out);
    end_close(&l->err);
    if (kill || l->pidfd.fd < 0)
        end_all(l);
    else
        uv_timer_start(&l->timer, stdio_on_timer, POLITE_MS, 0);
}

static const struct mcp_link_ops stdio_ops = {.send = stdio_send,
                                              .forget = stdio_forget,
                                              .listen = stdio_listen,
                                              .go_on = stdio_go_on,
                                              .close = stdio_close};

static struct stdio_link *stdio_new(struct mcp_server *s)
{
    struct stdio_link *l = xcalloc(sizeof *l);
    l->link = (struct mcp_link){&stdio_ops, s};
    l->program = s->config->command.list[0];
    l->name = xstrdup(str_of(s->config->name));
    uv_timer_init(s->mcp->o.loop, &l->timer);
    l->timer.data = l;
    l->n_handles = 1;
    return l;
}

static bool stdio_spawn(const struct mcp_server *s, struct supervisor *ret, char *ret_error)
{
    struct keep_texts argv = {0};
    char why[SUPERVISOR_ERROR];
    char **env = mcp_program_env(s->config);
    mcp_program_argv(s->config, &argv);
    struct supervisor_spec spec = {.command = argv.list, .env = env};
    if (s->config->sandbox == MCP_SANDBOX_NONE)
        spec.cwd = s->config->cwd;
    bool good = supervisor_spawn(&spec, ret, why);
    if (!good)
        snprintf(ret_error, MCP_WHY, "%s", why);
    keep_texts_done(&argv);
    free(env);
    return good;
}

struct mcp_link *mcp_stdio_open(struct mcp_server *s, char *ret_error)
{
    struct supervisor sup;
    if (!stdio_spawn(s, &sup, ret_error))
        return NULL;
    struct stdio_link *l = stdio_new(s);
    bool watches = end_open(l, &l->pidfd, sup.pidfd);
    watches &= end_open(l, &l->control, sup.control);
    watches &= end_open(l, &l->in, sup.stdio[0]);
    watches &= end_open(l, &l->out, sup.stdio[1]);
    watches &= end_open(l, &l->err, sup.stdio[2]);
    if (l->pidfd.fd >= 0)
        uv_poll_start(&l->pidfd.poll, UV_READABLE, stdio_on_exit);
    if (!watches) {
        snprintf(ret_error, MCP_WHY, "cannot start \"%s\": too many watches", l->program);
        bool reaped_later = l->pidfd.fd >= 0;
        stdio_close(&l->link, true);
        if (!reaped_later) /* at once: its control has ended */
            children_reap(P_PID, (id_t)sup.pid, 0, &(siginfo_t){0});
        return NULL;
    }
    uv_poll_start(&l->control.poll, UV_READABLE, stdio_on_control);
    uv_poll_start(&l->out.poll, UV_READABLE, stdio_on_out);
    uv_poll_start(&l->err.poll, UV_READABLE, stdio_on_err);
    return &l->link;
}
