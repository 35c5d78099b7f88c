#include "client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define READ_BYTES (512 * 1024)
#define LINE_KEPT 4096
#define EVENTS 512
#define WATCH_BIT (1ull << 63)

/* The sample nonce of RFC 6455 and its answer. */
#define NONCE "dGhlIHNhbXBsZSBub25jZQ=="
#define ACCEPT "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

#define EVENT_HEAD "{\"type\":\"event\",\"task_id\":\""

struct client_ops client_ops;
uint64_t client_bytes, client_reads;
uint32_t clients_open;

static struct sockaddr_in address;
static char host[64];
static struct client *clients;
static uint32_t n_clients, max_clients, next_connect, n_connecting, max_connecting;
static bool spinning;
static int epoll_fd;
static char *buffer;

/* --- small things ----------------------------------------------------------------------------- */

void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

double wall_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

bool text_field(const char *line, const char *name, char *ret, size_t size)
{
    char key[64];
    int n = snprintf(key, sizeof key, "\"%s\":\"", name);
    const char *at = strstr(line, key);
    if (!at)
        return false;
    at += n;
    size_t len = strcspn(at, "\"");
    if (len >= size)
        len = size - 1;
    memcpy(ret, at, len);
    ret[len] = 0;
    return true;
}

int64_t int_field(const char *line, const char *name)
{
    char key[64];
    int n = snprintf(key, sizeof key, "\"%s\":", name);
    int64_t value = -1;
    for (const char *at = line; (at = strstr(at, key)) != NULL;) {
        at += n;
        if (*at >= '0' && *at <= '9')
            value = strtoll(at, NULL, 10);
    }
    return value;
}

/* --- connecting ------------------------------------------------------------------------------- */

void clients_init(const char *host_port, uint32_t max, uint32_t connecting, bool spin)
{
    const char *colon = strrchr(host_port, ':');
    struct rlimit files;
    if (!colon || (size_t)(colon - host_port) >= sizeof host)
        die("%s is not HOST:PORT", host_port);
    memcpy(host, host_port, (size_t)(colon - host_port));
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1)
        die("%s is not an IPv4 address", host);
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (max + 16 > files.rlim_max)
        die("%u connections need more than the %llu descriptors that there are", max,
            (unsigned long long)files.rlim_max);
    clients = calloc(max, sizeof *clients);
    buffer = malloc(READ_BYTES + 256); /* heads are compared past the end of the input */
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (!clients || !buffer || epoll_fd < 0)
        die("no memory");
    max_clients = max;
    max_connecting = connecting;
    spinning = spin;
}

static void watch(int op, int fd, uint32_t events, uint64_t tag)
{
    struct epoll_event e = {.events = events, .data.u64 = tag};
    if (epoll_ctl(epoll_fd, op, fd, &e) < 0)
        die("epoll_ctl: %s", strerror(errno));
}

void clients_watch(int fd, uint32_t tag)
{
    watch(EPOLL_CTL_ADD, fd, EPOLLIN, WATCH_BIT | tag);
}

static void start_connecting(void)
{
    int one = 1;
    while (next_connect < n_clients && n_connecting < max_connecting) {
        struct client *c = &clients[next_connect++];
        c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (c->fd < 0)
            die("socket: %s", strerror(errno));
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        c->begun_ns = now_ns();
        if (connect(c->fd, (struct sockaddr *)&address, sizeof address) < 0 && errno != EINPROGRESS)
            die("connect: %s", strerror(errno));
        c->state = CLIENT_CONNECTING;
        n_connecting++;
        watch(EPOLL_CTL_ADD, c->fd, EPOLLOUT, c->number);
    }
}

struct client *client_open(void)
{
    if (n_clients == max_clients)
        die("more than %u connections", max_clients);
    struct client *c = &clients[n_clients];
    *c = (struct client){.fd = -1, .number = n_clients++};
    return c;
}

void client_close(struct client *c)
{
    struct linger reset = {.l_onoff = 1, .l_linger = 0};
    setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(c->fd);
    c->fd = -1;
    clients_open--;
}

static void send_all(struct client *c, const void *bytes, size_t n)
{
    ssize_t sent = send(c->fd, bytes, n, MSG_NOSIGNAL);
    if (sent != (ssize_t)n)
        die("connection %u: send: %s", c->number, sent < 0 ? strerror(errno) : "cut short");
}

static void connected(struct client *c)
{
    char request[512];
    int error = 0;
    socklen_t n = sizeof error;
    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &n);
    if (error)
        die("connection %u: connect: %s", c->number, strerror(error));
    int len = snprintf(request, sizeof request,
                       "GET /v1/ws HTTP/1.1\r\nHost: %s:%u\r\nUpgrade: websocket\r\n"
                       "Connection: Upgrade\r\nSec-WebSocket-Key: " NONCE "\r\n"
                       "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: holdfast.v1\r\n\r\n",
                       host, ntohs(address.sin_port));
    send_all(c, request, (size_t)len);
    c->state = CLIENT_UPGRADING;
    watch(EPOLL_CTL_MOD, c->fd, EPOLLIN, c->number);
}

/* --- sending ---------------------------------------------------------------------------------- */

static void send_frame(struct client *c, unsigned opcode, const char *payload, size_t n)
{
    static const unsigned char mask[4] = {0x37, 0xfa, 0x21, 0x3d};
    unsigned char frame[8 + 16384];
    size_t at = 2;
    if (n > 16384)
        die("a message of %zu bytes is too long for this client", n);
    frame[0] = (unsigned char)(0x80 | opcode);
    frame[1] = (unsigned char)(0x80 | (n < 126 ? n : 126));
    if (n >= 126) {
        frame[at++] = (unsigned char)(n >> 8);
        frame[at++] = (unsigned char)(n & 255);
    }
    memcpy(frame + at, mask, 4);
    at += 4;
    for (size_t i = 0; i < n; i++)
        frame[at + i] = (unsigned char)payload[i] ^ mask[i & 3];
    send_all(c, frame, at + n);
}

void client_send(struct client *c, const char *lines, size_t n)
{
    send_frame(c, 1, lines, n);
}

void client_sendf(struct client *c, const char *format, ...)
{
    char text[16384];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof text)
        die("a request is too long");
    send_frame(c, 1, text, (size_t)n);
}

void client_follow(struct client *c, const char *task_id, uint64_t after)
{
    memcpy(c->task_id, task_id, TASK_ID);
    c->task_id[TASK_ID] = 0;
    c->seq = after;
    c->ended = false;
}

/* --- lines ------------------------------------------------------------------------------------ */

static const char *take_int(const char *at, int64_t *ret)
{
    int64_t value = 0;
    while (*at >= '0' && *at <= '9')
        value = value * 10 + (*at++ - '0');
    *ret = value;
    return at;
}

static const char *expect(struct client *c, const char *at, const char *text)
{
    size_t n = strlen(text);
    if (memcmp(at, text, n) != 0)
        die("connection %u: malformed event: %.160s", c->number, at);
    return at + n;
}

/* The head of an event line; it is complete, because lines are carried over until they are. */
static void take_event(struct client *c, const char *line, size_t n)
{
    struct event e = {.bytes = n};
    int64_t seq, from;
    const char *id = line + sizeof(EVENT_HEAD) - 1, *at = id + TASK_ID;
    at = take_int(expect(c, at, "\",\"seq\":"), &seq);
    from = seq;
    if (memcmp(at, ",\"from\":", 8) == 0)
        at = take_int(at + 8, &from);
    at = take_int(expect(c, at, ",\"ts\":"), &e.ts);
    at = expect(c, at, ",\"event\":\"");
    e.seq = (uint64_t)seq;
    e.from = (uint64_t)from;
    e.is_token = memcmp(at, "token\"", 6) == 0;
    e.is_terminal = memcmp(at, "task.completed\"", 15) == 0 || memcmp(at, "task.failed\"", 12) == 0;
    if (memcmp(id, c->task_id, TASK_ID) != 0)
        die("connection %u: event of task %.26s, but %s is followed", c->number, id, c->task_id);
    if (c->ended || e.from != c->seq + 1)
        die("connection %u: task %s: event %lld after %llu%s", c->number, c->task_id,
            (long long)from, (unsigned long long)c->seq, c->ended ? ", which was the last" : "");
    c->seq = e.seq;
    c->ended = e.is_terminal;
    if (client_ops.on_event)
        client_ops.on_event(c, &e);
}

static void take_line(struct client *c, const char *line, size_t n)
{
    char copy[LINE_KEPT + 1];
    if (n > sizeof(EVENT_HEAD) + TASK_ID + 40 &&
        memcmp(line, EVENT_HEAD, sizeof(EVENT_HEAD) - 1) == 0) {
        take_event(c, line, n);
        return;
    }
    if (n == 0)
        return;
    if (n > LINE_KEPT)
        n = LINE_KEPT;
    memcpy(copy, line, n);
    copy[n] = 0;
    if (client_ops.on_line)
        client_ops.on_line(c, copy);
}

static void carry(struct client *c, const char *piece, size_t n)
{
    if (!c->carry)
        c->carry = malloc(LINE_KEPT + 256);
    if (!c->carry)
        die("no memory");
    if (n > LINE_KEPT - c->n_carry)
        n = LINE_KEPT - c->n_carry;
    memcpy(c->carry + c->n_carry, piece, n);
    c->n_carry += (uint32_t)n;
}

static void carried(struct client *c)
{
    char *line = c->carry;
    uint32_t n = c->n_carry;
    c->carry = NULL;
    c->n_carry = 0;
    take_line(c, line, n);
    free(line);
}

/* A piece of a text message; is_last when the message ends with it. */
static void take_text(struct client *c, const char *at, size_t n, bool is_last)
{
    const char *end = at + n;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (!newline) {
            if (is_last && !c->carry)
                take_line(c, at, (size_t)(end - at));
            else
                carry(c, at, (size_t)(end - at));
            break;
        }
        if (c->carry) {
            carry(c, at, (size_t)(newline - at));
            carried(c);
        } else {
            take_line(c, at, (size_t)(newline - at));
        }
        at = newline + 1;
    }
    if (is_last && c->carry)
        carried(c);
}

/* --- frames ----------------------------------------------------------------------------------- */

static size_t head_length(const struct client *c)
{
    if (c->n_head < 2)
        return 2;
    unsigned n = c->head[1] & 127;
    return n == 126 ? 4 : n == 127 ? 10 : 2;
}

static void head_complete(struct client *c)
{
    uint64_t n = c->head[1] & 127;
    if (n >= 126) {
        size_t bytes = n == 126 ? 2 : 8;
        n = 0;
        for (size_t i = 0; i < bytes; i++)
            n = n << 8 | c->head[2 + i];
    }
    c->fin = c->head[0] & 0x80;
    c->opcode = c->head[0] & 15;
    c->left = n;
    if (c->head[1] & 0x80)
        die("connection %u: a masked frame came from the server", c->number);
}

static void take_piece(struct client *c, const char *piece, size_t n)
{
    bool is_last = n == c->left;
    c->left -= n;
    client_bytes += n;
    if (c->opcode <= 1) {
        take_text(c, piece, n, is_last && c->fin);
    } else if (c->opcode == 8) {
        die("connection %u: closed by the server: %u", c->number,
            n >= 2 ? (unsigned)(unsigned char)piece[0] << 8 | (unsigned char)piece[1] : 0);
    } else if (c->opcode == 9) {
        if (!is_last || n > 125)
            die("connection %u: a ping in pieces", c->number);
        send_frame(c, 10, piece, n);
    }
    if (is_last)
        c->n_head = 0;
}

static void take_bytes(struct client *c, const char *at, size_t n)
{
    while (n > 0) {
        size_t needed = head_length(c);
        if (c->n_head < needed) {
            c->head[c->n_head++] = (unsigned char)*at++;
            n--;
            if (c->n_head < head_length(c))
                continue;
            head_complete(c);
            if (c->left > 0)
                continue;
        }
        size_t piece = n < c->left ? n : (size_t)c->left;
        take_piece(c, at, piece);
        at += piece;
        n -= piece;
    }
}

static void upgraded(struct client *c, size_t n)
{
    buffer[n < READ_BYTES ? n : READ_BYTES - 1] = 0;
    const char *end = strstr(buffer, "\r\n\r\n");
    if (!end || strncmp(buffer, "HTTP/1.1 101", 12) != 0 || !strstr(buffer, ACCEPT))
        die("connection %u: not upgraded: %.300s", c->number, buffer);
    c->state = CLIENT_OPEN;
    n_connecting--;
    clients_open++;
    if (client_ops.on_open)
        client_ops.on_open(c);
    size_t used = (size_t)(end + 4 - buffer);
    take_bytes(c, buffer + used, n - used);
}

static void readable(struct client *c)
{
    ssize_t n = recv(c->fd, buffer, READ_BYTES, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0)
        die("connection %u: %s", c->number, n ? strerror(errno) : "the server hung up");
    client_reads++;
    if (c->state == CLIENT_UPGRADING)
        upgraded(c, (size_t)n);
    else
        take_bytes(c, buffer, (size_t)n);
}

void clients_turn(int timeout_ms)
{
    struct epoll_event events[EVENTS];
    start_connecting();
    int n = epoll_wait(epoll_fd, events, EVENTS, spinning ? 0 : timeout_ms);
    if (n < 0 && errno != EINTR)
        die("epoll_wait: %s", strerror(errno));
    for (int i = 0; i < n; i++) {
        uint64_t tag = events[i].data.u64;
        if (tag & WATCH_BIT) {
            client_ops.on_fd((uint32_t)tag);
            continue;
        }
        struct client *c = &clients[tag];
        if (c->state == CLIENT_CONNECTING)
            connected(c);
        else if (c->fd >= 0)
            readable(c);
    }
}
