#include "gateway/front/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "gateway/base/fault.h"
#include "gateway/base/log.h"
#include "gateway/base/net.h"
#include "gateway/front/activation.h"
#include "gateway/front/address.h"
#include "gateway/front/proxied.h"
#include "gateway/front/tcp.h"

#define PORT_TAKEN \
    "Address already in use: perhaps another gateway runs; --listen HOST:PORT names another port"
#define ACCEPTS_PER_TURN 64
#define ACCEPT_AGAIN_MS 200
#define OTHERS_ACCEPT_MS 20 /* for another process with fewer sockets; then it is ours after all */
#define BACKLOG 4096
/* A reader's kernel acknowledges in steps of some segments, which on loopback have 64 KiB: a reader
 * of 1 KiB/s would seem to take nothing for a minute.  Smaller ones are still sent many at once. */
#define MAX_SEGMENT 4096
/* The kernel doubles it.  Bytes that wait there delay a pong, those on their way do not: of the
 * first there may be fewer (tcp.h). */
#define SEND_BUFFER (128 * 1024)

static void on_accept_again(struct timer *timer);

/* --- sockets ---------------------------------------------------------------------------------- */

static struct peer *peer_of_socket(struct front *f, int fd, const struct net_address *named)
{
    struct peer *peer = peer_new(f, fd, named);
    if (peer)
        return peer;
    f->refusals[REFUSED_SOCKETS]++;
    log_event_limited(LEVEL_WARN, "ws", "refused",
                      LOG_TEXT("why", "too many sockets of one address"));
    close(fd);
    return NULL;
}

void listener_take_linked(struct front *f, int fd, const struct net_address *named,
                          bool is_operator)
{
    lws_sock_file_fd_type socket = {.sockfd = fd};
    struct peer *peer = peer_of_socket(f, fd, named);
    if (!peer)
        return;
    peer->is_linked = true;
    peer->is_operator = is_operator;
    /* Without TLS, which ends at the node that has the client. */
    struct lws *wsi =
        lws_adopt_descriptor_vhost(f->vhost, LWS_ADOPT_SOCKET | LWS_ADOPT_HTTP, socket, NULL, NULL);
    if (wsi)
        lws_set_opaque_user_data(wsi, peer);
    else
        peer_free(f, peer);
}

void listener_take(struct front *f, int fd, const struct net_address *named)
{
    int one = 1, bytes = SEND_BUFFER;
    struct peer *peer = peer_of_socket(f, fd, named);
    if (!peer)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    tcp_bound_unsent(fd);
    struct lws *wsi = lws_adopt_socket_vhost(f->vhost, fd); /* closes it on failure */
    if (wsi)
        lws_set_opaque_user_data(wsi, peer);
    else
        peer_free(f, peer);
}

/* --- the port --------------------------------------------------------------------------------- */

/* Out of descriptors: the listener stays readable, so it is ignored for a while. */
static void pause_accepting(struct front *f, const char *why)
{
    log_event_limited(LEVEL_WARN, "server", "accept_paused", LOG_TEXT("why", why));
    uv_poll_stop(&f->listener);
    timer_arm(&f->hub->clock, &f->accept_again, f->hub->clock.now_ms + ACCEPT_AGAIN_MS);
}

static void wait_for_others(struct front *f)
{
    uv_poll_stop(&f->listener);
    timer_arm(&f->hub->clock, &f->accept_again, f->hub->clock.now_ms + OTHERS_ACCEPT_MS);
}

static int accept_one(struct front *f)
{
    if (FAULT(ACCEPT)) {
        errno = EMFILE;
        return -1;
    }
    return accept4(f->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

/* ours: other processes have had their time. */
static void accept_some(struct front *f, bool ours)
{
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        if (f->n_wsi + f->n_greetings >= f->max_sockets) {
            pause_accepting(f, "too many sockets");
            return;
        }
        if (!ours && f->is_ahead && f->is_ahead(f->metrics_arg)) {
            wait_for_others(f);
            return;
        }
        int fd = accept_one(f);
        if (fd >= 0) {
            if (!proxied_accept(f, fd))
                listener_take(f, fd, NULL);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            pause_accepting(f, strerror(errno));
        if (errno != EINTR && errno != ECONNABORTED)
            return;
    }
}

static void on_acceptable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    accept_some(poll->data, false);
}

void listener_start(struct front *f)
{
    uv_poll_start(&f->listener, UV_READABLE, on_acceptable);
}

static void on_accept_again(struct timer *timer)
{
    struct front *f = container_of(timer, struct front, accept_again);
    if (f->holds_connections)
        return;
    listener_start(f);
    accept_some(f, true);
}

void listener_hold(struct front *f)
{
    if (!f->is_activated || f->holds_connections)
        return;
    f->holds_connections = true;
    uv_poll_stop(&f->listener);
}

static int bound_to(const struct addrinfo *a)
{
    int one = 1, fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* The port has the same offset in both families' addresses. */
_Static_assert(offsetof(struct sockaddr_in, sin_port) == offsetof(struct sockaddr_in6, sin6_port),
               "ports");

static int port_of(int fd)
{
    struct sockaddr_in6 at = {0};
    socklen_t n = sizeof at;
    getsockname(fd, (struct sockaddr *)&at, &n);
    return ntohs(at.sin6_port);
}

static void tell_cannot_listen(const struct config *c, const char *why)
{
    log_event(LEVEL_ERROR, "server", "cannot_listen", LOG_TEXT("host", c->listen_host),
              LOG_INT("port", c->listen_port), LOG_TEXT("why", why));
}

static int bind_port(const struct config *c)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char port[16];
    snprintf(port, sizeof port, "%d", c->listen_port);
    int e = getaddrinfo(c->listen_host, port, &hints, &found), fd = e == 0 ? bound_to(found) : -1;
    if (fd < 0)
        tell_cannot_listen(c, e                     ? gai_strerror(e)
                              : errno == EADDRINUSE ? PORT_TAKEN
                                                    : strerror(errno));
    if (found)
        freeaddrinfo(found);
    return fd;
}

/* A gateway allows more on loopback, which its configuration says. */
static bool is_as_configured(const struct config *c, int fd)
{
    struct sockaddr_storage at = {0};
    socklen_t n = sizeof at;
    struct net_address address;
    return !c->is_loopback ||
           (getsockname(fd, (struct sockaddr *)&at, &n) == 0 &&
            net_of_sockaddr((struct sockaddr *)&at, &address) && net_is_loopback(&address));
}

static int take_activated(const struct config *c, int fd)
{
    if (is_as_configured(c, fd)) {
        log_event(LEVEL_INFO, "server", "activated", LOG_INT("port", port_of(fd)));
        return fd;
    }
    tell_cannot_listen(c, "the service manager's socket is open beyond loopback, and \"listen\" "
                          "is an address on loopback");
    close(fd);
    return -1;
}

int listener_bind(const struct config *c, bool *ret_is_activated)
{
    char why[ACTIVATION_ERROR];
    int segment = MAX_SEGMENT, fd = activation_take(why);
    if (fd == ACTIVATION_FAULT)
        tell_cannot_listen(c, why);
    if (fd == ACTIVATION_FAULT)
        return -1;
    *ret_is_activated = fd >= 0;
    fd = fd >= 0 ? take_activated(c, fd) : bind_port(c);
    if (fd < 0)
        return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof segment); /* inherited */
    if (listen(fd, BACKLOG) == 0)
        return fd;
    tell_cannot_listen(c, strerror(errno));
    close(fd);
    return -1;
}

bool listener_open(struct front *f)
{
    if (f->listen_fd < 0)
        f->listen_fd = listener_bind(f->config, &f->is_activated);
    if (f->listen_fd < 0)
        return false;
    f->port = port_of(f->listen_fd);
    uv_poll_init(f->loop, &f->listener, f->listen_fd);
    f->listener.data = f;
    f->accept_again.fire = on_accept_again;
    return true;
}
