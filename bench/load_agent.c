/* The generator as an agent: at --socket, bench/relay hands it the pipe of each task. */
#include <stdio.h>
#include <stdlib.h>

#include "handover.h"
#include "load.h"

#define LINES 256
#define MAX_AGENT_FD 65536

static int listener;
static int lives[MAX_AGENT_FD]; /* by the pipe: the socket that keeps the relay alive */

void agent_listen(void)
{
    struct sockaddr_un at;
    if (!options.socket || !handover_address(&at, options.socket, strlen(options.socket)))
        die("--socket PATH is needed");
    unlink(options.socket);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&at, sizeof at) < 0 ||
        listen(listener, 64) < 0)
        die("%s: %s", options.socket, strerror(errno));
    clients_watch(listener, 0);
}

int agent_accept(void)
{
    int life = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    int fd = life < 0 ? -1 : handover_take(life);
    if (fd < 0 || fd >= MAX_AGENT_FD)
        die("no agent: %s", strerror(errno));
    lives[fd] = life;
    return fd;
}

static void say(int fd, const char *lines, size_t n)
{
    for (ssize_t sent; n > 0; lines += sent, n -= (size_t)sent)
        if ((sent = write(fd, lines, n)) <= 0)
            die("the agent takes no more: %s", strerror(errno));
}

void agent_say_tokens(int fd, uint64_t n)
{
    static char *lines;
    static size_t line_n;
    if (!lines) {
        char text[4096];
        memset(text, 'x', sizeof text);
        line_n = (size_t)options.bytes + 64;
        lines = malloc(LINES * line_n);
        if (!lines || options.bytes > (int64_t)sizeof text)
            die("--bytes is at most %zu here", sizeof text);
        line_n =
            (size_t)snprintf(lines, line_n, "{\"event\":\"token\",\"data\":{\"text\":\"%.*s\"}}\n",
                             (int)options.bytes, text);
        for (size_t i = 1; i < LINES; i++)
            memcpy(lines + i * line_n, lines, line_n);
    }
    for (uint64_t piece; n > 0; n -= piece) {
        piece = n < LINES ? n : LINES;
        say(fd, lines, piece * line_n);
    }
}

void agent_finish(int fd)
{
    static const char last[] = "{\"event\":\"final_answer\",\"data\":{\"output\":\"done\"}}\n";
    say(fd, last, sizeof last - 1);
    close(fd);
    close(lives[fd]);
}
