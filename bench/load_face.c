/* The modes about faces: other protocols' streams over HTTP, counted by their text. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "load.h"

#define READ_BYTES (256u << 10)
#define HEAD_BYTES 512 /* of a line, before its text */

/* How a face is asked, and how it says a piece of text. */
static const struct face {
    const char *name, *path; /* of a replay: conversation as base64url or as it is, then the task */
    const char *post, *body; /* of a question: conversation's number, message */
    const char *text;        /* its event begins with this … */
    const char *piece;       /* … and has its text after this, to the next quote */
    bool is_coded;           /* the path has the conversation in base64url */
} faces[] = {
    {"responses", "/v1/responses/resp_%s.%s?stream=true", "/v1/responses",
     "{\"model\":\"source\",\"stream\":true,\"conversation\":\"bench-%u\",\"input\":\"%s\"}",
     "{\"type\":\"response.output_text.delta\"", "\"delta\":\"", true},
    {"ai_sdk", "/v1/ai/chat/%s/stream", "/v1/ai/chat",
     "{\"id\":\"bench-%u\",\"trigger\":\"submit-message\",\"messages\":[{\"id\":\"m\",\"role\":"
     "\"user\",\"parts\":[{\"type\":\"text\",\"text\":\"%s\"}]}]}",
     "{\"type\":\"text-delta\"", "\"delta\":\"", false},
};

struct reader {
    int fd;
    char head[HEAD_BYTES]; /* the beginning of a line that is not whole yet */
    size_t n_head;
    bool in_text, skips; /* of that line: within its text; the rest is of no interest */
    bool ended;
};

static const struct face *face;
static struct reader *readers;
static uint64_t n_text, n_pieces, n_bytes, n_ended;
static int64_t first_ns, last_text_ns;

static const struct face *find_face(void)
{
    for (size_t i = 0; i < sizeof faces / sizeof *faces; i++)
        if (options.face && strcmp(options.face, faces[i].name) == 0)
            return &faces[i];
    die("--face must be responses or ai_sdk");
}

static int connect_to(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    char host[64];
    snprintf(host, sizeof host, "%s", options.url);
    char *colon = strrchr(host, ':');
    if (!colon)
        die("--url must be HOST:PORT");
    *colon = 0;
    at.sin_port = htons((uint16_t)strtol(colon + 1, NULL, 10));
    int fd = inet_pton(AF_INET, host, &at.sin_addr) == 1
                 ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)
                 : -1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof at) < 0)
        die("%s: %s", options.url, strerror(errno));
    return fd;
}

static void send_all(int fd, const char *bytes, size_t n)
{
    for (ssize_t sent; n > 0; bytes += sent, n -= (size_t)sent)
        if ((sent = write(fd, bytes, n)) <= 0)
            die("the gateway takes no more: %s", strerror(errno));
}

static void ask(int fd, const char *method, const char *path, const char *body)
{
    char head[4096];
    int n = snprintf(head, sizeof head,
                     "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"
                     "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                     method, path, options.url, load_token, strlen(body));
    send_all(fd, head, (size_t)n);
    send_all(fd, body, strlen(body));
}

static void base64url(const char *text, char *ret)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned bits = 0, n = 0;
    for (; *text; text++) {
        bits = bits << 8 | (unsigned char)*text;
        for (n += 8; n >= 6; n -= 6)
            *ret++ = digits[bits >> (n - 6) & 63];
    }
    if (n)
        *ret++ = digits[bits << (6 - n) & 63];
    *ret = 0;
}

/* --- reading ---------------------------------------------------------------------------------- */

static size_t take_text(struct reader *r, const char *p, size_t n)
{
    const char *quote = memchr(p, '"', n);
    size_t len = quote ? (size_t)(quote - p) : n;
    n_text += len;
    last_text_ns = now_ns();
    r->in_text = !quote;
    r->skips = quote;
    return len;
}

/* A line's head is complete enough to tell what it is, and its text begins in it or at p. */
static size_t take_head(struct reader *r)
{
    static const char data[] = "data: ";
    r->head[r->n_head] = 0;
    if (strncmp(r->head, data, 6) != 0 || strncmp(r->head + 6, face->text, strlen(face->text)) != 0)
        return 0;
    const char *piece = strstr(r->head, face->piece);
    if (!piece)
        return 0;
    n_pieces++;
    return (size_t)(piece - r->head) + strlen(face->piece);
}

static void take_line_end(struct reader *r)
{
    if (!r->in_text && !r->skips) {
        size_t at = take_head(r);
        if (at)
            take_text(r, r->head + at, r->n_head - at);
    }
    r->ended = r->ended || (r->n_head == 2 && r->head[0] == '0'); /* the last chunk */
    r->n_head = 0;
    r->in_text = r->skips = false;
}

static void take_part(struct reader *r, const char *p, size_t n)
{
    if (r->in_text) {
        take_text(r, p, n);
        return;
    }
    size_t room = r->skips ? 0 : sizeof r->head - 1 - r->n_head, some = n < room ? n : room;
    memcpy(r->head + r->n_head, p, some);
    r->n_head += some;
    if (r->skips || r->n_head < sizeof r->head - 1)
        return;
    size_t at = take_head(r);
    r->skips = !at;
    if (at)
        take_text(r, r->head + at, r->n_head - at);
    if (r->in_text)
        take_text(r, p + some, n - some);
}

/* False at the end of the connection. */
static bool read_some(struct reader *r)
{
    static char bytes[READ_BYTES];
    ssize_t n = read(r->fd, bytes, sizeof bytes);
    if (n <= 0)
        return false;
    n_bytes += (uint64_t)n;
    for (const char *p = bytes, *end = bytes + n; p < end;) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        take_part(r, p, (size_t)((newline ? newline : end) - p));
        if (newline)
            take_line_end(r);
        p = newline ? newline + 1 : end;
    }
    return true;
}

/* --- a replay --------------------------------------------------------------------------------- */

static int agent_fd = -1;

static void take_agent(uint32_t tag)
{
    (void)tag;
    agent_fd = agent_accept();
}

static uint64_t n_said;

static void said_event(struct client *c, const struct event *e)
{
    (void)c;
    n_said += e->is_token;
}

static void said_line(struct client *c, const char *line)
{
    load_unexpected(c, line);
    if (load_is(line, "started"))
        client_follow(c, load_add_task(line)->id, 0);
}

/* A task that says all its text, and lives on: an AI SDK's client gets nothing of one that has
 * ended. */
static void make_live(void)
{
    struct client *c = load_login();
    agent_listen();
    client_ops =
        (struct client_ops){.on_line = said_line, .on_event = said_event, .on_fd = take_agent};
    client_sendf(c,
                 "{\"type\":\"chat\",\"message\":\"%s\",\"conversation_id\":\"bench-1\","
                 "\"agent\":\"relay\"}",
                 options.socket);
    while (agent_fd < 0)
        clients_turn(100);
    agent_say_tokens(agent_fd, (uint64_t)options.events);
    load_wait(&n_said, (uint64_t)options.events, "tokens said");
}

static int64_t replay_once(void)
{
    char path[512], conversation[64];
    const struct task_ref *t = load_tasks;
    if (face->is_coded)
        base64url(t->conversation, conversation);
    else
        snprintf(conversation, sizeof conversation, "%s", t->conversation);
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(path, sizeof path, face->path, conversation, t->id);
    struct reader r = {.fd = connect_to()};
    uint64_t expected = n_text + (uint64_t)(options.events * options.bytes);
    int64_t begun = now_ns();
    ask(r.fd, "GET", path, "");
    while (n_text < expected && read_some(&r))
        ;
    int64_t took = now_ns() - begun;
    if (n_text < expected) /* the final answer may be told after it */
        die("%llu bytes of text instead of %llu", (unsigned long long)n_text,
            (unsigned long long)expected);
    while (options.state && !r.ended && read_some(&r)) /* to the clean end */
        ;
    if (options.state && !r.ended)
        die("the stream broke off");
    if (options.state) /* else its stream goes on, and a reader that leaves costs the server */
        close(r.fd);
    return took;
}

void run_replay_face(void)
{
    face = find_face();
    if (options.state)
        load_read_state();
    else
        make_live();
    for (int64_t i = 0; i < options.warm; i++)
        replay_once();
    n_bytes = n_pieces = 0;
    double cpu = load_server_cpu();
    int64_t total = 0;
    for (int64_t i = 0; i < options.repeat; i++)
        total += replay_once();
    cpu = load_server_cpu() - cpu;
    double s = (double)total / 1e9, events = (double)(options.events * options.repeat);
    printf("{\"seconds\":%.4f,\"cpu_s\":%.4f,\"events_s\":%.0f,\"pieces\":%llu,\"bytes\":%llu,"
           "\"mb_s\":%.1f}\n",
           s, cpu, events / s, (unsigned long long)n_pieces, (unsigned long long)n_bytes,
           (double)n_bytes / s / 1e6);
}

/* --- many live ones --------------------------------------------------------------------------- */

static void many_readable(uint32_t tag)
{
    struct reader *r = &readers[tag];
    uint64_t had = n_text;
    if (r->ended)
        return;
    if (!read_some(r))
        die("connection %u broke off", tag);
    if (!first_ns && n_text > had)
        first_ns = now_ns();
    n_ended += r->ended;
    if (r->ended)
        close(r->fd);
}

void run_many_face(void)
{
    char body[1024], input[256];
    face = find_face();
    snprintf(input, sizeof input, "%s", load_source(options.events, options.interval_ms));
    load_login();
    readers = calloc((size_t)options.tasks, sizeof *readers);
    client_ops = (struct client_ops){.on_fd = many_readable};
    double cpu = load_server_cpu();
    for (uint32_t i = 0; i < options.tasks; i++) {
        readers[i].fd = connect_to();
        snprintf(body, sizeof body, face->body, i, input);
        clients_watch(readers[i].fd, i);
        ask(readers[i].fd, "POST", face->post, body);
    }
    load_wait(&n_ended, (uint64_t)options.tasks, "ends");
    cpu = load_server_cpu() - cpu;
    uint64_t n = (uint64_t)(options.tasks * options.events), all = n * (uint64_t)options.bytes;
    if (n_text != all)
        die("%llu bytes of text instead of %llu", (unsigned long long)n_text,
            (unsigned long long)all);
    double s = (double)(last_text_ns - first_ns) / 1e9;
    printf("{\"seconds\":%.3f,\"cpu_s\":%.3f,\"tokens_s\":%.0f,\"pieces\":%llu,\"bytes\":%llu}\n",
           s, cpu, (double)n / s, (unsigned long long)n_pieces, (unsigned long long)n_bytes);
}
