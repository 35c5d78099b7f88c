/* pg_proxy -- a socket in front of the tests' PostgreSQL server, which loses what it is told to.
 *
 * Shape:    one thread carries bytes for one client at a time after another, both ways.  A loss
 *           happens once: to the next bytes that the client sends after pg_proxy_lose.
 * Thread:   pg_proxy_lose: any; the others: the test's.
 * Owns:     its folder, socket and thread.
 */
#ifndef TESTS_PG_PROXY_H
#define TESTS_PG_PROXY_H

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#include "tests/support/t.h"

enum pg_loss {
    LOSE_NOTHING,
    LOSE_REQUEST, /* the server gets none of it, and both connections end */
    LOSE_HALF,    /* it gets a part, and then nothing, but stays connected, as a stopped one */
    LOSE_ANSWER,  /* it gets all of it, and answers; then both connections end */
};

#define PROXY_PAIRS 16

struct pg_proxy {
    char folder[64], server[108];
    int listener, wake[2];
    struct {
        int client, server;
        bool swallows; /* the server's answer to what was just sent */
        bool frozen;   /* nothing goes through any more; the client may be gone already */
    } pairs[PROXY_PAIRS];
    atomic_int loss;
    uv_thread_t thread;
};

static inline void proxy_close(struct pg_proxy *p, size_t i)
{
    if (p->pairs[i].client >= 0)
        close(p->pairs[i].client);
    if (p->pairs[i].server >= 0)
        close(p->pairs[i].server);
    p->pairs[i].client = p->pairs[i].server = -1;
    p->pairs[i].swallows = p->pairs[i].frozen = false;
}

static inline int proxy_connect(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    return fd;
}

static inline void proxy_accept(struct pg_proxy *p)
{
    for (size_t i = 0; i < PROXY_PAIRS; i++) {
        if (p->pairs[i].client >= 0 || p->pairs[i].server >= 0)
            continue;
        p->pairs[i].client = accept(p->listener, NULL, NULL);
        p->pairs[i].server = proxy_connect(p->server);
        return;
    }
    fail_msg("more connections than the tests have");
}

static inline bool proxy_write(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t written = send(fd, bytes, n, MSG_NOSIGNAL);
        if (written <= 0)
            return false;
        bytes += written;
        n -= (size_t)written;
    }
    return true;
}

static inline void proxy_from_client(struct pg_proxy *p, size_t i)
{
    static char bytes[65536];
    ssize_t n = recv(p->pairs[i].client, bytes, sizeof bytes, 0);
    if (n <= 0) {
        if (p->pairs[i].frozen) { /* the server does not learn of it */
            close(p->pairs[i].client);
            p->pairs[i].client = -1;
        } else {
            proxy_close(p, i);
        }
        return;
    }
    enum pg_loss loss = (enum pg_loss)atomic_exchange(&p->loss, LOSE_NOTHING);
    if (p->pairs[i].frozen)
        return;
    if (loss == LOSE_REQUEST) {
        proxy_close(p, i);
        return;
    }
    p->pairs[i].swallows = loss == LOSE_ANSWER;
    p->pairs[i].frozen = loss == LOSE_HALF;
    if (!proxy_write(p->pairs[i].server, bytes, loss == LOSE_HALF ? (size_t)n / 2 : (size_t)n))
        proxy_close(p, i);
}

static inline void proxy_from_server(struct pg_proxy *p, size_t i)
{
    static char bytes[65536];
    ssize_t n = recv(p->pairs[i].server, bytes, sizeof bytes, 0);
    /* The end of an answer is ReadyForQuery: Z, a length of 5, the state. */
    bool ready = n >= 6 && memcmp(bytes + n - 6, "Z\0\0\0\5", 5) == 0;
    if (n <= 0 || (p->pairs[i].swallows && ready))
        proxy_close(p, i);
    else if (!p->pairs[i].swallows && !p->pairs[i].frozen &&
             !proxy_write(p->pairs[i].client, bytes, (size_t)n))
        proxy_close(p, i);
}

static inline void proxy_run(void *arg)
{
    struct pg_proxy *p = arg;
    for (;;) {
        struct pollfd fds[2 + 2 * PROXY_PAIRS];
        fds[0] = (struct pollfd){.fd = p->wake[0], .events = POLLIN};
        fds[1] = (struct pollfd){.fd = p->listener, .events = POLLIN};
        for (size_t i = 0; i < PROXY_PAIRS; i++) {
            fds[2 + 2 * i] = (struct pollfd){.fd = p->pairs[i].client, .events = POLLIN};
            fds[3 + 2 * i] = (struct pollfd){.fd = p->pairs[i].server, .events = POLLIN};
        }
        ASSERT(poll(fds, sizeof fds / sizeof *fds, -1) > 0);
        if (fds[0].revents)
            return;
        for (size_t i = 0; i < PROXY_PAIRS; i++) {
            if (fds[3 + 2 * i].revents && p->pairs[i].server >= 0)
                proxy_from_server(p, i);
            if (fds[2 + 2 * i].revents && p->pairs[i].client >= 0)
                proxy_from_client(p, i);
        }
        if (fds[1].revents)
            proxy_accept(p);
    }
}

/* In front of the server whose socket is in that folder. */
static inline struct pg_proxy *pg_proxy_new(const char *server_folder)
{
    struct pg_proxy *p = xcalloc(sizeof *p);
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(p->folder, sizeof p->folder, "/tmp/holdfast-proxy-XXXXXX");
    assert_non_null(mkdtemp(p->folder));
    snprintf(p->server, sizeof p->server, "%.80s/.s.PGSQL.5432", server_folder);
    snprintf(at.sun_path, sizeof at.sun_path, "%s/.s.PGSQL.5432", p->folder);
    for (size_t i = 0; i < PROXY_PAIRS; i++)
        p->pairs[i].client = p->pairs[i].server = -1;
    p->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(p->listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(p->listener, 16), 0);
    assert_int_equal(pipe(p->wake), 0);
    assert_int_equal(uv_thread_create(&p->thread, proxy_run, p), 0);
    return p;
}

static inline void pg_proxy_lose(struct pg_proxy *p, enum pg_loss loss)
{
    atomic_store(&p->loss, (int)loss);
}

static inline void pg_proxy_free(struct pg_proxy *p)
{
    char path[108];
    assert_int_equal(write(p->wake[1], "", 1), 1);
    uv_thread_join(&p->thread);
    for (size_t i = 0; i < PROXY_PAIRS; i++)
        proxy_close(p, i);
    close(p->listener);
    close(p->wake[0]);
    close(p->wake[1]);
    snprintf(path, sizeof path, "%s/.s.PGSQL.5432", p->folder);
    unlink(path);
    rmdir(p->folder);
    free(p);
}

#endif
