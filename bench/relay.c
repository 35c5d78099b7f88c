/* relay -- exec agents of the benchmark.
 *
 *   relay PATH    hands its stdout to the load generator at the Unix socket PATH, which is the
 *                 agent from then on
 *   relay obey    prints one token, then nothing until SIGTERM, which it obeys at once
 */
#include <signal.h>
#include <stdio.h>

#include "handover.h"

static void on_term(int number)
{
    (void)number;
    _exit(0);
}

static int obey(void)
{
    static const char token[] = "{\"event\":\"token\",\"data\":{\"text\":\"here\"}}\n";
    signal(SIGTERM, on_term);
    if (write(STDOUT_FILENO, token, sizeof token - 1) < 0)
        return 1;
    for (;;)
        pause();
}

static int relay(const char *path)
{
    struct sockaddr_un at;
    char byte;
    if (!handover_address(&at, path, strlen(path)))
        return 2;
    int fd = handover_give(&at, STDOUT_FILENO);
    if (fd < 0) {
        perror(path);
        return 1;
    }
    close(STDOUT_FILENO);
    while (read(fd, &byte, 1) > 0)
        ;
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fputs("usage: relay PATH|obey\n", stderr);
        return 2;
    }
    return strcmp(argv[1], "obey") == 0 ? obey() : relay(argv[1]);
}
