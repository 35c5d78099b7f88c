/* The handler of SIGTERM reads and writes, so it cannot be a signal handler: the signal is blocked
 * and read from a descriptor, wherever the agent waits. */
#include "tests/support/agents/channel.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

static int terms = -1; /* a signalfd; -1: SIGTERM has no handler */
static void (*term_handler)(uint32_t arg);
static uint32_t term_arg;

static sigset_t sigterm(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    return set;
}

void channel_on_term(void (*handler)(uint32_t arg), uint32_t arg)
{
    sigset_t set = sigterm();
    signal(SIGTERM, SIG_DFL);
    sigprocmask(SIG_BLOCK, &set, NULL);
    if (terms < 0)
        terms = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    term_handler = handler;
    term_arg = arg;
}

void channel_forked(void)
{
    sigset_t set = sigterm();
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

double channel_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Waits for fd (-1: for nothing) or until ms are over (-1: never).  False when it is not ready: the
 * time is over, or the handler ran, and may have taken the input. */
static bool await(int fd, short events, int ms)
{
    struct pollfd of[2] = {{.fd = fd, .events = events}, {.fd = terms, .events = POLLIN}};
    if (poll(of, 2, ms) < 0)
        return false;
    struct signalfd_siginfo info;
    if (of[1].revents && read(terms, &info, sizeof info) > 0) {
        term_handler(term_arg);
        return false;
    }
    return of[0].revents != 0;
}

void channel_say(struct str bytes)
{
    while (!await(STDOUT_FILENO, POLLOUT, -1)) {
    }
    for (ssize_t sent; bytes.n > 0; bytes.p += sent, bytes.n -= (size_t)sent) {
        sent = write(STDOUT_FILENO, bytes.p, bytes.n);
        if (sent < 0 && errno == EINTR)
            sent = 0;
        else if (sent < 0)
            _exit(1);
    }
}

bool channel_hear(struct buf *line)
{
    static struct buf in;
    for (;;) {
        char *end = in.len > 0 ? memchr(in.bytes, '\n', in.len) : NULL;
        if (end) {
            size_t n = (size_t)(end - in.bytes);
            buf_clear(line);
            buf_put(line, in.bytes, n);
            buf_consume(&in, n + 1);
            return true;
        }
        if (!await(STDIN_FILENO, POLLIN, -1))
            continue;
        ssize_t n = read(STDIN_FILENO, buf_reserve(&in, 65536), 65536);
        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        if (n > 0)
            in.len += (size_t)n;
    }
}

void channel_sleep(double ms)
{
    double until = channel_now() + ms;
    double left = ms;
    while (left > 0) {
        await(-1, 0, left < 1 ? 1 : left > 1e9 ? 1000000000 : (int)left);
        left = until - channel_now();
    }
}
