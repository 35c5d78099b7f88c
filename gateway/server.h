/* server -- the loop thread: the turn, and all that lives for the whole of a run.
 *
 * Shape:    one turn is: sleep until something is ready or due → carry out what is ready (uv_run) →
 *           timers → the end of the turn, a list in server_turn: submit the next batch, send to the
 *           woken, free what was closed.  Answers of the store come in as one async of the loop.
 * Thread:   loop.
 * Owns:     the hub, the store, the listener, the connections.
 */
#ifndef GATEWAY_SERVER_H
#define GATEWAY_SERVER_H

#include <libwebsockets.h>
#include <uv.h>

#include "core/hub.h"
#include "gateway/auth.h"
#include "gateway/config.h"
#include "gateway/store_sqlite.h"
#include "gateway/store_thread.h"
#include "gateway/tool_terminal.h"

struct address;
struct deflate;
struct fetcher;
struct webhooks;

enum server_phase { SERVER_STARTING, SERVER_SERVING, SERVER_DRAINING, SERVER_CLOSING };

struct server {
    uv_loop_t loop;
    const struct config *config;
    struct auth *auth;
    struct hub hub;
    struct webhooks *webhooks;
    struct fetcher *fetcher; /* requests of the agents' own */
    struct terminal terminal;
    struct agent *agents;
    size_t n_agents;
    struct store_sqlite *sqlite;
    void *store; /* the backend, whichever it is */
    const struct store_ops *store_ops;
    struct store_thread *store_thread;

    struct lws_context *lws;
    struct lws_vhost *vhost;
    struct lws_vhost *admin_vhost; /* NULL without an operator's socket */
    struct ssl_ctx_st *tls;        /* of the vhost, NULL without TLS */
    struct deflate *deflate;       /* NULL: messages are not compressed */
    int listen_fd;
    int port;
    uv_poll_t listener;
    int admin_fd;
    uv_poll_t admin_listener;
    uint32_t max_sockets;      /* of every kind: beyond, new ones wait in the listener's backlog */
    struct timer accept_again; /* descriptors were out */
    uv_signal_t sigterm, sigint, sighup, sigchld;

    enum server_phase phase;
    bool failed, stopped, abandoned, hub_is_open;
    bool busy;        /* the next turn comes at once */
    bool store_fails; /* as the log has it, and so is the next */
    bool checkpoints_fail;
    struct timer drain;
    struct timer tick;           /* heartbeats and slow readers: once a second */
    struct list conns;           /* of struct conn, all */
    struct list silent;          /* of struct conn, the one heard longest ago first */
    struct list blocked;         /* of struct conn with a partial write */
    struct list streams;         /* of struct exchange: events over HTTP */
    struct list bodies;          /* of struct exchange: whose body is to come */
    struct list under_way;       /* of struct exchange: whose answer is awaited, or goes on */
    struct list dead;            /* of struct conn, freed at the end of the turn */
    struct map addresses, paces; /* address.h */
    struct list paced;
    uint32_t n_conns, n_strangers; /* WebSockets; strangers: before welcome */
    uint32_t n_streams;            /* of events over HTTP */
    struct list greetings;         /* of struct greeting: PROXY headers that are due (proxied.c) */
    uint32_t n_greetings;
    uint32_t n_wsi; /* lws's own, of every kind */
    uint64_t next_conn;
    struct buf out;      /* LWS_PRE bytes, then the message that is being made */
    uint64_t closes[16]; /* by row of CLOSE_TABLE; the last: without a code */
    uint64_t bytes_out;
};

/* Opens everything and runs until it has been stopped.  The exit code. */
int server_run(const struct config *config);
void server_refresh_clock(struct server *s);
bool server_is_ready(const struct server *s);
/* Who it is (auth_check), unless that owner is revoked. */
bool server_identify(struct server *s, struct str hello_token, struct str bearer, struct str cookie,
                     struct identity *ret);

#endif
