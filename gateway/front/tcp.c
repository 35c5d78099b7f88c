#include "gateway/front/tcp.h"

/* The kernel's own header: the C library's struct tcp_info is older and shorter.  The two cannot be
 * included together, so this is a file of its own. */
#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

uint64_t tcp_bytes_acked(int fd)
{
    struct tcp_info info = {0};
    socklen_t n = sizeof info;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) < 0 ? 0 : info.tcpi_bytes_acked;
}

void tcp_bound_unsent(int fd)
{
    int bytes = TCP_UNSENT_BYTES;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
}

bool tcp_has_sent(int fd)
{
    int unsent = 0;
    return ioctl(fd, SIOCOUTQNSD, &unsent) == 0 && unsent == 0;
}

msec_t tcp_silent_ms(int fd)
{
    struct tcp_info info = {0};
    socklen_t n = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) < 0)
        return -1;
    return info.tcpi_last_data_recv;
}

bool tcp_has_input(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || (errno != EAGAIN && errno != EINTR);
}
