/* bound_epoll -- the bare bound of the benchmark: the throughput of an epoll server that only
 * writes ready-made frames.
 *
 *   bound_epoll [SNDBUF]      prints {"event":"ready","listen":"127.0.0.1:PORT"}
 *
 * It speaks enough of holdfast.v1 for the load generator, in lines of the same bytes: hello, chat,
 * resume, cancel.  There is one log of lines that all tasks share, made before it is needed: it has
 * no tasks, owners, journal, clock or limits.  Lines go out packed, up to 64 KiB a frame, with one
 * sendmsg() each; the rest of a partial write waits in place, without a copy. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "handover.h"

#define LOG_BYTES (1ull << 31)
#define LOG_LINES (16u << 20)
#define SPAN_BYTES 65536
#define OUTPUT_BYTES 262144
#define READ_BYTES 65536
#define MAX_FD 32768
#define TASK "01HZZZZZZZZZZZZZZZZZZZZZZZ"
#define ACCEPT "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

/* A frame that the socket did not take whole. */
struct pending {
    struct iovec parts[3];
    char before[1024], behind[128];
};

struct conn {
    int fd;
    bool is_open, follows, marks; /* marks: caught_up is still to be sent */
    bool wants_out;
    uint64_t next, burst; /* the next line; the most lines a frame, 0: as many as fit */
    uint32_t in_n;
    char *in; /* an unfinished frame or request */
    struct pending *pending;
    uint32_t at; /* in followers */
};

static char *log_bytes;
static uint64_t *log_end; /* of line i, from 1; [0] is 0 */
static uint64_t n_lines, head;
static uint64_t output_at,
    output_n; /* the text of the final answer in the log; n 0: still running */
static int64_t log_events = -1, log_text = -1;

static struct conn *conns[MAX_FD];
static struct conn **followers;
static uint32_t n_followers;
static int epoll_fd, relay_fd = -1, relay_life, send_buffer;
static char input[READ_BYTES + 16];
static char relay_rest[READ_BYTES];
static size_t relay_n;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void watch(int op, int fd, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.fd = fd};
    if (epoll_ctl(epoll_fd, op, fd, &e) < 0)
        die("epoll_ctl");
}

/* --- the log ---------------------------------------------------------------------------------- */

static void log_add(const char *event, const char *data, size_t n)
{
    char *at = log_bytes + log_end[n_lines];
    size_t used = (size_t)snprintf(at, 256,
                                   "{\"type\":\"event\",\"task_id\":\"" TASK "\",\"seq\":%llu,"
                                   "\"ts\":1764280000123,\"event\":\"%s\",\"data\":",
                                   (unsigned long long)n_lines + 1, event);
    memcpy(at + used, data, n);
    memcpy(at + used + n, "}\n", 2);
    log_end[n_lines + 1] = log_end[n_lines] + used + n + 2;
    n_lines++;
}

static void log_begin(void)
{
    static const char created[] =
        "{\"agent\":\"source\",\"input\":\"events=1000 bytes=120 burst=1\"}";
    n_lines = output_n = 0;
    log_add("task.created", created, sizeof created - 1);
    log_add("task.started", "{}", 2);
}

static void log_finish(const char *text, size_t n)
{
    static char data[OUTPUT_BYTES + 128];
    int used = snprintf(data, sizeof data, "{\"output\":\"%.*s\"}", (int)n, text);
    log_add("final_answer", data, (size_t)used);
    output_at = log_end[n_lines] - n - 4; /* before "}} and the newline */
    output_n = n;
    used = snprintf(data, sizeof data, "{\"output\":\"%.*s\",\"result\":null}", (int)n, text);
    log_add("task.completed", data, (size_t)used);
}

/* A source's whole task; the output is the joined tokens, as in the gateway. */
static void log_source(int64_t events, int64_t bytes)
{
    static char joined[OUTPUT_BYTES], data[16384];
    size_t output =
        (size_t)(events * bytes) < sizeof joined ? (size_t)(events * bytes) : sizeof joined;
    if (log_events == events && log_text == bytes)
        return;
    memset(joined, 'x', sizeof joined);
    int n = snprintf(data, sizeof data, "{\"text\":\"%.*s\"}", (int)bytes, joined);
    log_begin();
    for (int64_t i = 0; i < events; i++)
        log_add("token", data, (size_t)n);
    log_finish(joined, output);
    log_events = events;
    log_text = bytes;
}

/* --- frames out ------------------------------------------------------------------------------- */

static void want_out(struct conn *c, bool on)
{
    if (c->wants_out == on)
        return;
    c->wants_out = on;
    watch(EPOLL_CTL_MOD, c->fd, on ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void keep(struct conn *c, const struct iovec *parts, size_t sent)
{
    struct pending *p = calloc(1, sizeof *p);
    char *const room[3] = {p->before, NULL, p->behind};
    for (int i = 0; i < 3; i++) {
        size_t skip = sent < parts[i].iov_len ? sent : parts[i].iov_len;
        p->parts[i] = (struct iovec){(char *)parts[i].iov_base + skip, parts[i].iov_len - skip};
        if (room[i] && p->parts[i].iov_len)
            p->parts[i].iov_base = memcpy(room[i], p->parts[i].iov_base, p->parts[i].iov_len);
        sent -= skip;
    }
    c->pending = p;
    want_out(c, true);
}

static bool send_parts(struct conn *c, struct iovec *parts)
{
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = 3};
    size_t all = parts[0].iov_len + parts[1].iov_len + parts[2].iov_len;
    ssize_t n = sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN)
        return true; /* its end will be read soon */
    if (n >= 0 && (size_t)n == all)
        return true;
    keep(c, parts, n < 0 ? 0 : (size_t)n);
    return false;
}

static struct iovec part(const char *bytes, size_t n)
{
    return (struct iovec){(void *)(uintptr_t)bytes, n};
}

/* A text frame of a text, a span of the log and another text.  False when it waits. */
static bool send_frame(struct conn *c, struct iovec before, struct iovec span, struct iovec behind)
{
    char first[1024];
    size_t all = before.iov_len + span.iov_len + behind.iov_len, at = 2;
    first[0] = (char)0x81;
    if (all < 126) {
        first[1] = (char)all;
    } else {
        size_t bytes = all < 65536 ? 2 : 8;
        first[1] = bytes == 2 ? 126 : 127;
        for (size_t i = 0; i < bytes; i++)
            first[at++] = (char)(all >> (8 * (bytes - 1 - i)));
    }
    memcpy(first + at, before.iov_base, before.iov_len);
    struct iovec parts[3] = {{first, at + before.iov_len}, span, behind};
    return send_parts(c, parts);
}

/* The line after the last one of a frame that begins with c->next. */
static uint64_t span_end(const struct conn *c)
{
    uint64_t most = c->burst && c->next + c->burst <= head + 1 ? c->next + c->burst : head + 1;
    uint64_t start = log_end[c->next - 1], low = c->next + 1, high = most;
    if (log_end[most - 1] - start <= SPAN_BYTES)
        return most;
    while (low < high) { /* the last end that fits; at least one line */
        uint64_t mid = (low + high + 1) / 2;
        if (log_end[mid - 1] - start <= SPAN_BYTES)
            low = mid;
        else
            high = mid - 1;
    }
    return low;
}

/* One frame.  False when there is nothing more, or it waits. */
static bool step(struct conn *c, const char *before, size_t n)
{
    char mark[128];
    size_t mark_n = 0;
    if (c->pending || (c->next > head && !n && !c->marks))
        return false;
    uint64_t from = c->next, to = c->next > head ? c->next : span_end(c);
    c->next = to;
    if (c->marks && to > head) {
        mark_n = (size_t)snprintf(mark, sizeof mark,
                                  "{\"type\":\"caught_up\",\"task_id\":\"" TASK "\",\"seq\":%llu}",
                                  (unsigned long long)head);
        c->marks = false;
    }
    uint64_t start = log_end[from - 1];
    size_t bytes = (size_t)(log_end[to - 1] - start);
    if (bytes && !mark_n)
        bytes--; /* the last newline */
    return send_frame(c, part(before, n), part(log_bytes + start, bytes), part(mark, mark_n));
}

static void follow(struct conn *c, bool on)
{
    if (c->follows == on)
        return;
    c->follows = on;
    if (on) {
        c->at = n_followers;
        followers[n_followers++] = c;
        return;
    }
    followers[c->at] = followers[--n_followers];
    followers[c->at]->at = c->at;
}

/* Everything that is ready, or one burst. */
static void advance(struct conn *c)
{
    while (step(c, "", 0) && !c->burst)
        ;
    if (c->next > n_lines && relay_fd < 0 && !c->marks)
        follow(c, false);
}

/* --- requests --------------------------------------------------------------------------------- */

static int64_t word_of(const char *text, const char *name, int64_t otherwise)
{
    const char *at = strstr(text, name);
    return at ? strtoll(at + strlen(name), NULL, 10) : otherwise;
}

static void start_relay(const char *text)
{
    struct sockaddr_un at;
    int ends[2];
    const char *path = strstr(text, "\"message\":\"");
    if (!path || !handover_address(&at, path + 11, strcspn(path + 11, "\"")))
        die("no socket in chat");
    if (pipe2(ends, O_CLOEXEC) < 0 || (relay_life = handover_give(&at, ends[1])) < 0)
        die("relay");
    close(ends[1]);
    relay_fd = ends[0];
    watch(EPOLL_CTL_ADD, relay_fd, EPOLLIN);
    relay_n = 0;
    log_begin();
    log_events = -1;
    head = n_lines;
}

static void chat(struct conn *c, const char *text)
{
    static const char cid[] = "\"conversation_id\":\"";
    const char *id = strstr(text, cid);
    char line[512];
    bool relays = strstr(text, "\"agent\":\"relay\"") != NULL;
    if (relays) {
        start_relay(text);
    } else {
        log_source(word_of(text, "events=", 1000), word_of(text, "bytes=", 120));
        head = word_of(text, "interval_ms=", 0) > 0 ? 3 : n_lines;
    }
    int n =
        snprintf(line, sizeof line,
                 "{\"type\":\"started\",\"task\":{\"task_id\":\"" TASK "\","
                 "\"conversation_id\":\"%.*s\",\"agent\":\"source\",\"type\":\"background\","
                 "\"status\":\"pending\",\"head\":1,\"created_at\":1764280000000}}\n",
                 id ? (int)strcspn(id + sizeof cid - 1, "\"") : 0, id ? id + sizeof cid - 1 : "");
    c->burst = relays ? 0 : (uint64_t)word_of(text, "burst=", 16);
    c->next = 1;
    follow(c, true);
    step(c, line, (size_t)n);
}

static void resume(struct conn *c, const char *text)
{
    char line[1000], rest[128];
    int64_t after = word_of(text, "\"after\":", 0);
    int n = snprintf(
        line, sizeof line,
        "{\"type\":\"resumed\",\"task\":{\"task_id\":\"" TASK "\",\"conversation_id\":\"c\","
        "\"agent\":\"source\",\"type\":\"background\",\"status\":\"running\",\"head\":%llu,"
        "\"created_at\":1764280000000,\"output\":\"",
        (unsigned long long)head);
    int m = snprintf(rest, sizeof rest, "\"},\"after\":%lld,\"head\":%llu}", (long long)after,
                     (unsigned long long)head);
    c->next = (uint64_t)after + 1;
    c->burst = 0;
    c->marks = true;
    follow(c, true);
    if (output_n < 256) { /* packed with the next lines; otherwise in its own frame */
        memcpy(line + n, log_bytes + output_at, output_n);
        n += (int)output_n;
        n += snprintf(line + n, sizeof line - (size_t)n, "%s\n", rest);
        if (!step(c, line, (size_t)n))
            return;
    } else if (!send_frame(c, part(line, (size_t)n), part(log_bytes + output_at, output_n),
                           part(rest, (size_t)m))) {
        return;
    }
    advance(c);
}

static void request(struct conn *c, const char *text)
{
    static const char welcome[] =
        "{\"type\":\"welcome\",\"owner\":\"guest-bound\",\"token\":\"bound\",\"server\":{\"name\":"
        "\"bound\",\"version\":\"1\"},\"agents\":[],\"limits\":{}}";
    if (strstr(text, "\"type\":\"hello\""))
        send_frame(c, part(welcome, sizeof welcome - 1), part("", 0), part("", 0));
    if (strstr(text, "\"type\":\"chat\""))
        chat(c, text);
    if (strstr(text, "\"type\":\"resume\""))
        resume(c, text);
}

/* --- bytes in --------------------------------------------------------------------------------- */

static void forget(struct conn *c)
{
    follow(c, false);
    conns[c->fd] = NULL;
    close(c->fd);
    free(c->pending);
    free(c->in);
    free(c);
}

static size_t take_upgrade(struct conn *c, char *at, size_t n)
{
    static const char answer[] = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                                 "Connection: Upgrade\r\nSec-WebSocket-Accept: " ACCEPT "\r\n"
                                 "Sec-WebSocket-Protocol: holdfast.v1\r\n\r\n";
    const char *end = memmem(at, n, "\r\n\r\n", 4);
    if (!end)
        return 0;
    if (send(c->fd, answer, sizeof answer - 1, MSG_NOSIGNAL) < 0)
        return n;
    c->is_open = true;
    return (size_t)(end + 4 - at);
}

/* A masked frame at the front of the input; 0 when it is incomplete. */
static size_t take_frame(struct conn *c, char *at, size_t n)
{
    size_t len = n > 1 ? (unsigned char)at[1] & 127u : 0, used = 6;
    if (n < 6 || (len == 126 && n < 8))
        return 0;
    if (len == 126) {
        len = (size_t)(unsigned char)at[2] << 8 | (unsigned char)at[3];
        used = 8;
    }
    if (n < used + len)
        return 0;
    const char *mask = at + used - 4;
    char *text = at + used, after = text[len];
    for (size_t i = 0; i < len; i++)
        text[i] ^= mask[i & 3];
    text[len] = 0;
    if ((at[0] & 15) == 1)
        request(c, text);
    text[len] = after;
    return used + len;
}

static void take(struct conn *c, char *at, size_t n)
{
    for (size_t used; n > 0; at += used, n -= used) {
        used = c->is_open ? take_frame(c, at, n) : take_upgrade(c, at, n);
        if (used == 0)
            break;
    }
    free(c->in);
    c->in = NULL;
    c->in_n = (uint32_t)n;
    if (n > 0 && (c->in = malloc(n)) != NULL)
        memcpy(c->in, at, n);
}

static void readable(struct conn *c)
{
    if (c->in_n)
        memcpy(input, c->in, c->in_n);
    ssize_t n = recv(c->fd, input + c->in_n, READ_BYTES - c->in_n, 0);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0)
        forget(c);
    else
        take(c, input, c->in_n + (size_t)n);
}

static void writable(struct conn *c)
{
    struct pending *p = c->pending;
    c->pending = NULL;
    want_out(c, false);
    if (p && send_parts(c, p->parts))
        advance(c);
    free(p);
}

/* The agent's lines become events; each follower gets all received ones in one frame. */
static void relay_line(const char *line, size_t n)
{
    static const char data[] = "\"data\":";
    const char *at = memmem(line, n, data, sizeof data - 1);
    if (!at || memmem(line, n, "final_answer", 12))
        return;
    at += sizeof data - 1;
    log_add("token", at, (size_t)(line + n - 1 - at));
}

static void relay_readable(void)
{
    ssize_t n = read(relay_fd, relay_rest + relay_n, sizeof relay_rest - relay_n);
    char *at = relay_rest, *newline;
    if (n <= 0) {
        watch(EPOLL_CTL_DEL, relay_fd, 0);
        close(relay_fd);
        close(relay_life);
        relay_fd = -1;
        log_finish("done", 4);
    }
    relay_n += n > 0 ? (size_t)n : 0;
    while ((newline = memchr(at, '\n', (size_t)(relay_rest + relay_n - at))) != NULL) {
        relay_line(at, (size_t)(newline - at));
        at = newline + 1;
    }
    relay_n = (size_t)(relay_rest + relay_n - at);
    memmove(relay_rest, at, relay_n);
    head = n_lines;
    for (uint32_t i = n_followers; i-- > 0;)
        advance(followers[i]);
}

/* --- the server ------------------------------------------------------------------------------- */

static int open_listener(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, 4096) < 0)
        die("listen");
    getsockname(fd, (struct sockaddr *)&at, &n);
    printf("{\"event\":\"ready\",\"listen\":\"127.0.0.1:%u\"}\n", ntohs(at.sin_port));
    fflush(stdout);
    return fd;
}

static void accept_all(int listener)
{
    int one = 1, fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct conn *c = calloc(1, sizeof *c);
        if (!c || fd >= MAX_FD)
            die("too many connections");
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (send_buffer)
            setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof send_buffer);
        *c = (struct conn){.fd = fd, .next = 1};
        conns[fd] = c;
        watch(EPOLL_CTL_ADD, fd, EPOLLIN);
    }
}

/* Each source produces a burst in a turn. */
static bool burst_all(void)
{
    bool any = false;
    for (uint32_t i = n_followers; i-- > 0;) {
        struct conn *c = followers[i];
        if (!c->burst || c->next > head)
            continue;
        any = true;
        advance(c);
    }
    return any;
}

static void serve(int listener)
{
    struct epoll_event events[512];
    for (bool busy = false;; busy = burst_all()) {
        int n = epoll_wait(epoll_fd, events, 512, busy ? 0 : -1);
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) {
                accept_all(listener);
                continue;
            }
            if (fd == relay_fd) {
                relay_readable();
                continue;
            }
            if (events[i].events & EPOLLOUT && conns[fd])
                writable(conns[fd]);
            if (events[i].events & ~(unsigned)EPOLLOUT && conns[fd])
                readable(conns[fd]);
        }
    }
}

static void *reserve(size_t n)
{
    void *at =
        mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        die("mmap");
    return at;
}

int main(int argc, char **argv)
{
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    send_buffer = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0;
    log_bytes = reserve(LOG_BYTES);
    log_end = reserve(LOG_LINES * sizeof *log_end);
    followers = reserve(MAX_FD * sizeof(struct conn *));
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int listener = open_listener();
    watch(EPOLL_CTL_ADD, listener, EPOLLIN);
    serve(listener);
}
