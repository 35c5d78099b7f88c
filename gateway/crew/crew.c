/* The first process: it waits for signals, for what members say on their standard output, and for
 * the moment when one that ended begins again. */
#include "gateway/crew/crew.h"

#include <errno.h>
#include <netinet/in.h>
#include <openssl/rand.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/backoff.h"
#include "gateway/base/log.h"
#include "gateway/base/notify.h"
#include "gateway/crew/crew_page.h"
#include "gateway/front/listener.h"

#define SECRET_BYTES 32
#define FIRST_AGAIN_MS 50
#define MOST_AGAIN_MS 5000
#define LINK_BACKLOG 64

struct seat {
    pid_t pid;         /* 0: nobody */
    int said;          /* its standard output; -1: none */
    struct buf line;   /* the beginning of what it has said */
    bool serves, ever; /* now, at some time */
    uint64_t tries;    /* since it last served */
    int64_t again_ms;  /* when it begins; 0: not */
};

struct crew {
    const struct config *config;
    int (*serve)(const struct config *config, const struct crew_member *member);
    struct crew_member common; /* what all have */
    unsigned char secret[SECRET_BYTES];
    struct seat *seats;
    unsigned n;
    sigset_t signals, before;
    int signals_fd;
    bool stops, told; /* told: all served once */
    int code;
    bool is_member; /* this is one of them, and code is what it ended with */
};

static int64_t crew_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* --- a member's own configuration ------------------------------------------------------------- */

struct own {
    struct config config;
    char *texts[5]; /* those that are not the first process's */
    size_t n;
};

static char *own_text(struct own *own, struct buf *text)
{
    ASSERT(own->n < countof(own->texts));
    return own->texts[own->n++] = buf_take(text);
}

/* "HOST:PORT" of a further member: the port behind, or any where the first has any. */
static char *shifted_port(struct own *own, const char *address, unsigned at)
{
    struct buf text = {0};
    const char *colon = strrchr(address, ':');
    long port = strtol(colon + 1, NULL, 10);
    buf_putf(&text, "%.*s:%ld", (int)(colon - address), address, port ? port + (long)at : 0);
    return own_text(own, &text);
}

static char *with_suffix(struct own *own, const char *text, const char *between, unsigned at)
{
    struct buf name = {0};
    buf_putf(&name, "%s%s%u", text, between, at + 1);
    return own_text(own, &name);
}

/* Everything of its own that a process may have once: names, folders, the operator's socket.  The
 * first member has what a single process has. */
static void make_own(struct own *own, const struct crew_member *m)
{
    struct config *c = &own->config;
    if (m->at == 0)
        return;
    c->admin.socket = NULL;
    if (c->audit.path)
        c->audit.path = with_suffix(own, c->audit.path, ".process", m->at);
    c->cluster.node = with_suffix(own, c->cluster.node, "-", m->at);
    if (m->is_front)
        return;
    c->data = with_suffix(own, c->data, "/process", m->at);
    c->cluster.listen = shifted_port(own, c->cluster.listen, m->at);
    c->cluster.advertise = shifted_port(own, c->cluster.advertise, m->at);
}

/* --- members ---------------------------------------------------------------------------------- */

/* In the new process.  A terminal's interrupt is the first process's to pass on, once. */
static void begin_member(struct crew *crew, unsigned at, int out)
{
    struct own own = {.config = *crew->config};
    struct crew_member m = crew->common;
    crew->is_member = true;
    setpgid(0, 0);
    sigprocmask(SIG_SETMASK, &crew->before, NULL);
    close(crew->signals_fd);
    for (unsigned i = 0; i < crew->n; i++)
        if (crew->seats[i].said >= 0)
            close(crew->seats[i].said);
    dup2(out, STDOUT_FILENO);
    close(out);
    unsetenv("NOTIFY_SOCKET");
    m.at = at;
    log_set_process((int)at);
    m.is_home = m.link_fd >= 0 && at == 0;
    m.is_front = m.link_fd >= 0 && at > 0;
    if (m.is_front) {
        close(m.link_fd);
        m.link_fd = -1;
    }
    make_own(&own, &m);
    crew->code = crew->serve(&own.config, &m);
    while (own.n > 0)
        free(own.texts[--own.n]);
}

static void seat_member(struct crew *crew, unsigned at)
{
    struct seat *s = &crew->seats[at];
    int ends[2];
    pid_t parent = getpid();
    s->again_ms = 0;
    s->tries++;
    if (pipe2(ends, O_CLOEXEC) < 0 || (s->pid = fork()) < 0) {
        log_event(LEVEL_ERROR, "crew", "cannot_begin", LOG_INT("process", at),
                  LOG_TEXT("why", strerror(errno)));
        s->pid = 0;
        s->again_ms = crew_now_ms() + MOST_AGAIN_MS;
        return;
    }
    if (s->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        close(ends[0]);
        begin_member(crew, at, ends[1]);
        return;
    }
    close(ends[1]);
    s->said = ends[0];
}

static void signal_all(const struct crew *crew, int number)
{
    for (unsigned i = 0; i < crew->n; i++)
        if (crew->seats[i].pid > 0)
            (void)kill(crew->seats[i].pid, number);
}

static void crew_stop(struct crew *crew, int number)
{
    if (!crew->stops)
        notify_manager("STOPPING=1\nSTATUS=waiting for the last tasks");
    crew->stops = true;
    for (unsigned i = 0; i < crew->n; i++)
        crew->seats[i].again_ms = 0;
    signal_all(crew, number);
}

static void leave_seat(struct crew *crew, struct seat *s)
{
    if (s->said >= 0)
        close(s->said);
    s->said = -1;
    s->pid = 0;
    s->serves = false;
    buf_clear(&s->line);
    crew_page_clear(crew->common.page, (unsigned)(s - crew->seats));
}

/* One that ended well was told to, by an operator: then all are to end. */
static void on_ended(struct crew *crew, struct seat *s, int status)
{
    unsigned at = (unsigned)(s - crew->seats);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    leave_seat(crew, s);
    if (crew->stops && code) {
        log_event(LEVEL_ERROR, "crew", "member_lost", LOG_INT("process", at),
                  LOG_INT("code", code));
        crew->code = crew->code ? crew->code : code;
    }
    if (crew->stops)
        return;
    if (code == 0 || !s->ever) {
        crew->code = code;
        crew_stop(crew, SIGTERM);
        return;
    }
    msec_t wait = (msec_t)backoff_ms(s->tries, FIRST_AGAIN_MS, MOST_AGAIN_MS);
    s->again_ms = crew_now_ms() + wait;
    log_event(LEVEL_ERROR, "crew", "member_lost", LOG_INT("process", at), LOG_INT("code", code),
              LOG_INT("again_ms", wait));
}

static void reap_members(struct crew *crew)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (unsigned i = 0; i < crew->n; i++)
            if (crew->seats[i].pid == pid)
                on_ended(crew, &crew->seats[i], status);
}

/* --- what they say ---------------------------------------------------------------------------- */

static void tell_ready(struct crew *crew)
{
    for (unsigned i = 0; i < crew->n; i++)
        if (!crew->seats[i].serves)
            return;
    if (crew->told || crew->stops)
        return;
    crew->told = true;
    notify_manager("READY=1\nSTATUS=serving");
    fwrite(crew->seats[0].line.bytes, 1, crew->seats[0].line.len, stdout);
    fflush(stdout);
}

/* A line: it is ready.  The first must be, before another begins: it makes what all use. */
static void on_said(struct crew *crew, struct seat *s)
{
    char bytes[512];
    ssize_t n = read(s->said, bytes, sizeof bytes);
    if (n <= 0) {
        close(s->said);
        s->said = -1;
        return;
    }
    if (s->serves)
        return;
    buf_put(&s->line, bytes, (size_t)n);
    s->serves = memchr(bytes, '\n', (size_t)n) != NULL;
    if (!s->serves)
        return;
    s->ever = true;
    s->tries = 0;
    for (unsigned i = 1; i < crew->n && !crew->stops; i++)
        if (!crew->seats[i].pid && !crew->seats[i].again_ms)
            crew->seats[i].again_ms = crew_now_ms();
    tell_ready(crew);
}

/* --- the loop --------------------------------------------------------------------------------- */

static void on_signals(struct crew *crew)
{
    struct signalfd_siginfo signal;
    while (read(crew->signals_fd, &signal, sizeof signal) == (ssize_t)sizeof signal) {
        if (signal.ssi_signo == SIGCHLD)
            reap_members(crew);
        else if (signal.ssi_signo == SIGHUP)
            signal_all(crew, SIGHUP);
        else
            crew_stop(crew, SIGTERM);
    }
}

static bool is_empty(const struct crew *crew)
{
    for (unsigned i = 0; i < crew->n; i++)
        if (crew->seats[i].pid > 0 || crew->seats[i].again_ms > 0)
            return false;
    return true;
}

/* -1: none. */
static int time_to_next(const struct crew *crew)
{
    int64_t next = -1, now = crew_now_ms();
    for (unsigned i = 0; i < crew->n; i++) {
        int64_t again = crew->seats[i].again_ms;
        if (again && (next < 0 || again - now < next))
            next = again > now ? again - now : 0;
    }
    return (int)next;
}

static void begin_due(struct crew *crew)
{
    for (unsigned i = 0; i < crew->n && !crew->is_member; i++)
        if (crew->seats[i].again_ms && crew->seats[i].again_ms <= crew_now_ms())
            seat_member(crew, i);
}

static void crew_turn(struct crew *crew, struct pollfd *fds)
{
    fds[crew->n] = (struct pollfd){.fd = crew->signals_fd, .events = POLLIN};
    for (unsigned i = 0; i < crew->n; i++)
        fds[i] = (struct pollfd){.fd = crew->seats[i].said, .events = POLLIN};
    if (poll(fds, crew->n + 1, time_to_next(crew)) < 0 && errno != EINTR)
        return;
    for (unsigned i = 0; i < crew->n; i++)
        if (fds[i].revents && crew->seats[i].said >= 0)
            on_said(crew, &crew->seats[i]);
    if (fds[crew->n].revents)
        on_signals(crew);
    begin_due(crew);
}

/* --- begin and end ---------------------------------------------------------------------------- */

static int listen_for_links(char ret_address[32])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, n) < 0 || listen(fd, LINK_BACKLOG) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &n) < 0) {
        log_event(LEVEL_ERROR, "crew", "cannot_listen", LOG_TEXT("why", strerror(errno)));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    snprintf(ret_address, 32, "127.0.0.1:%d", ntohs(at.sin_port));
    return fd;
}

static bool open_crew(struct crew *crew)
{
    struct crew_member *m = &crew->common;
    bool has_home = crew->config->store.kind != STORE_POSTGRES;
    m->n = crew->n;
    m->link_fd = -1;
    m->page = crew_page_new(crew->n);
    m->port_fd = m->page ? listener_bind(crew->config, &m->is_activated) : -1;
    if (m->port_fd >= 0 && has_home)
        m->link_fd = listen_for_links(m->link);
    if (m->port_fd < 0 || (has_home && m->link_fd < 0) ||
        RAND_bytes(crew->secret, SECRET_BYTES) != 1)
        return false;
    m->secret = (struct str){(const char *)crew->secret, SECRET_BYTES};
    crew->seats = xcalloc(crew->n * sizeof *crew->seats);
    for (unsigned i = 0; i < crew->n; i++)
        crew->seats[i].said = -1;
    crew->signals_fd = signalfd(-1, &crew->signals, SFD_NONBLOCK | SFD_CLOEXEC);
    return crew->signals_fd >= 0;
}

static void close_crew(struct crew *crew)
{
    for (unsigned i = 0; crew->seats && i < crew->n; i++)
        buf_done(&crew->seats[i].line);
    free(crew->seats);
    sigprocmask(SIG_SETMASK, &crew->before, NULL);
}

int crew_run(const struct config *config,
             int (*serve)(const struct config *config, const struct crew_member *member))
{
    struct crew crew = {.config = config, .serve = serve, .n = config->processes, .code = 1};
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD};
    sigemptyset(&crew.signals);
    for (size_t i = 0; i < countof(signals); i++)
        sigaddset(&crew.signals, signals[i]);
    sigprocmask(SIG_BLOCK, &crew.signals, &crew.before);
    if (open_crew(&crew)) {
        struct pollfd *fds = xcalloc((crew.n + 1) * sizeof *fds);
        crew.code = 0;
        seat_member(&crew, 0);
        while (!crew.is_member && !is_empty(&crew))
            crew_turn(&crew, fds);
        free(fds);
    }
    close_crew(&crew);
    return crew.code;
}
