/* front -- the side that peers see: ports, connections, identities, and their shared state.
 *
 * Shape:    the files of the front get this struct; it knows the hub that answers, the
 *           configuration and the keys, and nothing about stores, agents and webhooks.
 * Thread:   loop.
 * Owns:     libwebsockets' context, the listening sockets, the keys, and every connection.  The
 *           loop, the hub and the configuration are the server's, and outlive it.
 */
#ifndef GATEWAY_FRONT_FRONT_H
#define GATEWAY_FRONT_FRONT_H

#include <libwebsockets.h>
#include <uv.h>

#include "core/hub.h"
#include "core/session.h"
#include "gateway/auth/auth.h"
#include "gateway/config/config.h"

struct audit;
struct cluster;
struct deflate;
struct files;
struct pipe_port;
struct route;
struct ws_kind;

/* X(enum name, label): who is turned away before a request is read */
#define REFUSAL_TABLE(X)                  \
    X(REFUSED_TOKEN, "token")             \
    X(REFUSED_REVOKED, "revoked")         \
    X(REFUSED_ORIGIN, "origin")           \
    X(REFUSED_CONNECTIONS, "connections") \
    X(REFUSED_SOCKETS, "sockets")         \
    X(REFUSED_PROXY, "proxy_header")      \
    X(REFUSED_OPERATOR, "operator")
enum front_refusal {
#define X(name, label) name,
    REFUSAL_TABLE(X)
#undef X
        N_REFUSALS
};

enum front_phase { FRONT_STARTING, FRONT_SERVING, FRONT_DRAINING, FRONT_CLOSING };

struct front {
    uv_loop_t *loop;
    struct hub *hub;
    const struct config *config;
    struct auth *auth;
    struct cluster *cluster; /* the server's: who is the home of an owner */
    struct files *files;     /* NULL: none are kept */
    enum front_phase phase;  /* set by the server */
    /* Closes sessions of this owner that came over links; returns their number.  NULL: there are
     * none. */
    uint32_t (*close_linked)(void *arg, struct str owner, enum close_code code, const char *why);
    void *linked_arg;
    const struct pipe_port *pipes; /* to the homes of owners (relay.h); NULL: there are none */
    const struct pipe_server *pipe_server; /* NULL: no worker may come */
    void (*write_metrics)(void *arg, struct buf *out);
    void (*drain)(void *arg); /* a planned stop begins */
    bool is_told_to_drain;    /* at the next tick: the order is answered first */
    /* Whether another process that accepts at this port has fewer sockets.  NULL: there is none. */
    bool (*is_ahead)(void *arg);
    void *metrics_arg;    /* of these */
    struct route *routes; /* of other protocols, in addition to our own (http_api.h) */
    size_t n_routes;
    struct ws_kind *ws_kinds; /* the same on WebSockets (ws.h) */
    size_t n_ws_kinds;

    struct lws_context *lws;
    struct lws_vhost *vhost;
    struct lws_vhost *admin_vhost; /* NULL without an operator's socket */
    struct ssl_ctx_st *tls;        /* of the vhost, NULL without TLS */
    struct deflate *deflate;       /* NULL: messages are not compressed */
    int listen_fd;
    int port;
    bool is_cut_off;        /* a front whose home cannot be reached; set by the server */
    bool is_activated;      /* the socket is a service manager's, which keeps it … */
    bool holds_connections; /* … and connections wait there for the next gateway */
    uv_poll_t listener;
    int admin_fd;
    uv_poll_t admin_listener;
    uint32_t max_sockets;      /* of every kind: further ones wait in the listener's backlog */
    struct timer accept_again; /* fires after the process was out of descriptors */

    struct list conns;           /* of struct conn: the open ones, the longest silent first;
                                  * among them those that are closing */
    struct list blocked;         /* of struct stall: a partial write */
    struct list failed;          /* of struct stall: libwebsockets closes it (closing.h) */
    struct list streams;         /* of struct exchange: event streams over HTTP */
    struct list watchers;        /* of struct exchange: operators (admin_state.h) */
    struct list bodies;          /* of struct exchange: their bodies are incomplete */
    struct list under_way;       /* of struct exchange: the answer is awaited, or being sent */
    struct list greetings;       /* of struct greeting: PROXY headers that are due (proxied.c) */
    struct map addresses, paces; /* address.h */
    struct list paced;
    uint32_t n_conns, n_strangers; /* WebSockets; strangers: not welcomed yet */
    uint32_t n_streams;            /* event streams over HTTP */
    uint32_t n_greetings, n_watchers;
    uint32_t n_wsi; /* lws's own, of every kind */
    uint64_t next_conn;
    msec_t ticked_ms;    /* when front_tick was called last */
    struct buf out;      /* LWS_PRE bytes, then the message under construction */
    bool is_alone;       /* the connection that is flushed: no other has anything to say */
    struct buf lines;    /* scratch of event streams: what a session filled */
    struct audit *audit; /* for the operator's orders; NULL: none */
    uint64_t refusals[N_REFUSALS];
    uint64_t closes[16]; /* by row of CLOSE_TABLE; the last: without a code */
    uint64_t bytes_out;
};

/* First of all; the hub need not be open yet. */
void front_init(struct front *f, uv_loop_t *loop, struct hub *hub, const struct config *config);
/* Copies a row into routes or ws_kinds, before front_open. */
void front_add_route(struct front *f, const struct route *route);
void front_add_ws_kind(struct front *f, const struct ws_kind *kind);
/* Sets the keys from now on; takes ownership, and closes the old ones. */
void front_set_auth(struct front *f, struct auth *auth);
/* Creates the context and binds the ports, once the hub is open; accepts nothing yet.  False: the
 * log says why. */
bool front_open(struct front *f) MUST_USE;
void front_start(struct front *f); /* accepts */
void front_tick(struct front *f);  /* once a second */
/* Ends every connection and waits until libwebsockets has released them. */
void front_close(struct front *f);
/* Frees the rest, when the loop has closed its handles. */
void front_done(struct front *f);

bool front_is_ready(const struct front *f);
/* A token of the gateway's own (auth_sign). */
bool front_sign(struct front *f, struct str claims, struct buf *out) MUST_USE;
/* Identifies the client (auth_check), unless that owner is revoked. */
bool front_identify(struct front *f, struct str hello_token, struct str bearer, struct str cookie,
                    struct identity *ret);
/* The same of the bearer of a URL that was signed for one file (auth_check_file). */
bool front_identify_link(struct front *f, const struct file_link *link, struct str proof,
                         struct identity *ret) MUST_USE;
/* Appends the proof that such a URL has behind "signed=" (auth_sign_file). */
bool front_sign_file(struct front *f, const struct file_link *link, struct buf *out) MUST_USE;

#endif
