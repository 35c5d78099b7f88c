/* handover -- how the load generator becomes an exec agent: the agent's program hands it the pipe
 * to the server (SCM_RIGHTS, unix(7)) over a Unix socket, and lives as long as that is open.
 *
 * Thread:   any; blocks.
 * Errors:   -1, and errno says why.
 */
#ifndef BENCH_HANDOVER_H
#define BENCH_HANDOVER_H

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

union handover_control {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr aligned;
};

/* Fills at; false: the path is too long for it. */
static inline bool handover_address(struct sockaddr_un *at, const char *path, size_t n)
{
    *at = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (n == 0 || n >= sizeof at->sun_path)
        return false;
    memcpy(at->sun_path, path, n);
    return true;
}

/* Returns the socket, which the caller owns, as it still owns fd. */
static inline int handover_give(const struct sockaddr_un *at, int fd)
{
    union handover_control control = {0};
    struct iovec one = {.iov_base = "", .iov_len = 1};
    struct msghdr message = {.msg_iov = &one,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(rights), &fd, sizeof fd);
    int to = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (to >= 0 && connect(to, (const struct sockaddr *)at, sizeof *at) == 0 &&
        sendmsg(to, &message, MSG_NOSIGNAL) == 1)
        return to;
    if (to >= 0)
        close(to);
    return -1;
}

/* Returns the descriptor that came over the socket; the caller owns it. */
static inline int handover_take(int from)
{
    union handover_control control;
    char byte;
    struct iovec one = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &one,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    int fd = -1;
    if (recvmsg(from, &message, MSG_CMSG_CLOEXEC) == 1) {
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        if (rights && rights->cmsg_type == SCM_RIGHTS)
            memcpy(&fd, CMSG_DATA(rights), sizeof fd);
    }
    return fd;
}

#endif
