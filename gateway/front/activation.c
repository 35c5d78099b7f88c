#include "gateway/front/activation.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define FIRST_FD 3 /* SD_LISTEN_FDS_START */

/* -1: it is missing, or no number. */
static int64_t activation_number(const char *name)
{
    const char *text = getenv(name);
    char *end;
    if (!text || *text < '0' || *text > '9')
        return -1;
    long long n = strtoll(text, &end, 10);
    return *end ? -1 : n;
}

static int option_of(int fd, int option)
{
    int value = -1;
    socklen_t n = sizeof value;
    return getsockopt(fd, SOL_SOCKET, option, &value, &n) < 0 ? -1 : value;
}

static bool is_tcp_listener(int fd)
{
    int domain = option_of(fd, SO_DOMAIN);
    return (domain == AF_INET || domain == AF_INET6) && option_of(fd, SO_TYPE) == SOCK_STREAM &&
           option_of(fd, SO_ACCEPTCONN) == 1;
}

int activation_take(char ret_error[ACTIVATION_ERROR])
{
    int64_t n = activation_number("LISTEN_FDS");
    if (activation_number("LISTEN_PID") != (int64_t)getpid() || n <= 0)
        return ACTIVATION_NONE;
    if (n > 1) {
        snprintf(ret_error, ACTIVATION_ERROR,
                 "the service manager hands over %lld sockets, and one is wanted", (long long)n);
        return ACTIVATION_FAULT;
    }
    if (!is_tcp_listener(FIRST_FD)) {
        snprintf(
            ret_error, ACTIVATION_ERROR,
            "the descriptor that the service manager hands over is no TCP socket that listens");
        return ACTIVATION_FAULT;
    }
    int flags = fcntl(FIRST_FD, F_GETFL);
    if (flags < 0 || fcntl(FIRST_FD, F_SETFL, flags | O_NONBLOCK) < 0 ||
        fcntl(FIRST_FD, F_SETFD, FD_CLOEXEC) < 0) {
        snprintf(ret_error, ACTIVATION_ERROR, "the service manager's socket cannot be used");
        return ACTIVATION_FAULT;
    }
    return FIRST_FD;
}
