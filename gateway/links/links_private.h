/* links_private -- a link, and who is on it.  Internal to gateway/links/.
 *
 * Shape:    link.c has the socket, the handshake and the frames; link_front.c and link_home.c what
 *           the frames mean, on a link that was dialled and on one that was accepted.
 * Thread:   loop.
 * Owns:     a link is freed at the end of the turn in which libuv has closed it.
 */
#ifndef GATEWAY_LINKS_LINKS_PRIVATE_H
#define GATEWAY_LINKS_LINKS_PRIVATE_H

#include "core/map.h"
#include "gateway/front/relay.h"
#include "gateway/links/links.h"
#include "proto/link.h"

#define LINK_BACKLOG (1u << 20) /* bytes that wait for the socket: more are not filled */
#define LINK_PING_MS 1000
#define LINK_SILENT_MS 6000 /* without a byte: the link is dead */
#define LINK_HELLO_MS 10000 /* for the handshake */
#define MOST_STRANGERS 64   /* accepted links without a proof */
#define LINK_TLS_FIRST \
    0x16 /* the first byte of TLS; no hello begins so, whose length it would be */
#define LINK_TLS_PIECE 16384 /* bytes of a record: RFC 8446 section 5.1 */

enum link_state { LINK_CONNECTING, LINK_GREETING, LINK_PROVING, LINK_UP, LINK_ENDED };

/* A session or a request, by its id. */
struct on_link {
    struct map_node node;
    struct list all;
    struct link *link;
    uint32_t id;
};

struct link_tls;

struct link {
    struct list all;
    struct links *links;
    struct peer *peer; /* that was dialled; NULL: the other side has dialled */
    uv_tcp_t tcp;
    uv_connect_t connecting;
    uv_write_t write;
    bool writing, closing;
    enum link_state state;
    char name[128];          /* of the other node, once its hello is here; else its address */
    uint64_t incarnation;    /* of the other node */
    struct buf mine, theirs; /* the two HELLO frames */
    struct buf in;           /* the beginning of a frame */
    struct buf out, flying;  /* to be written; being written */
    struct link_tls *tls;    /* NULL: plain */
    struct buf sealed;       /* with TLS: behind out, as it goes */
    struct buf opened;       /* and what came, before its frames */
    bool listens;            /* until the dialler's first byte says whether it speaks TLS */
    uint32_t next_id;
    struct map sessions, requests;          /* of struct on_link */
    struct map pipes;                       /* of struct pipe */
    struct list all_sessions, all_requests; /* the same */
    struct list all_pipes;
    struct list blocked; /* of struct remote: the backlog is full */
    struct list over;    /* of struct remote: freed at the end of the turn */
    msec_t heard_ms;
    uint64_t pinged_ns;
    int64_t rtt_us;
    struct timer timer;
};

/* A node that is dialled. */
struct peer {
    struct list all;
    struct links *links;
    uint64_t incarnation;
    char node[128], address[136];
    struct link *link; /* NULL: the timer dials again */
    uint64_t tries;
    struct timer again;
    uv_getaddrinfo_t *resolving;
};

struct links {
    struct links_options o;
    struct buf cluster, node, secret;
    struct home_port port;
    struct pipe_port pipes;
    uv_tcp_t listener;
    bool listens;
    int bound;
    uint32_t n_strangers;
    uint32_t n_handles; /* open ones of libuv */
    bool is_closing;
    struct list all;   /* of struct link */
    struct list peers; /* of struct peer */
    uint64_t secret_of_maps[2];
    struct links_stats stats;
    char read[65536]; /* what one read gives */
};

/* link.c */
struct link *link_new(struct links *l, struct peer *peer);
void link_dial(struct link *k, const struct sockaddr *to);
void link_accept(struct link *k);
void link_say(struct link *k, const struct link_frame *f);
bool link_is_full(const struct link *k);
void link_write(struct link *k);
/* Ends it: sessions and requests are told, and libuv closes it.  why: for the log. */
void link_close(struct link *k, enum link_end end, const char *why);
void link_register(struct link *k, struct map *map, struct list *list, struct on_link *on);
void link_unregister(struct map *map, struct on_link *on);
struct on_link *link_find(const struct map *map, uint32_t id);

/* link_tls.c: begins for either end; from then on what goes is sealed, and what comes is opened. */
void link_tls_begin(struct link *k);
void link_tls_end(struct link *k);
/* Moves what may go already from plain to out. */
void link_tls_seal(struct link *k, struct buf *plain, struct buf *out);
/* Appends what the bytes hold to plain.  NULL, or why the link must end. */
const char *link_tls_take(struct link *k, struct str bytes, struct buf *plain);
/* Bytes that nobody between the two ends can have the same of: RFC 8446 section 7.5. */
void link_tls_bind(const struct link *k, unsigned char ret[LINK_MAC]);

/* link_proof.c */
/* The key of TLS. */
void link_tls_key(const struct links *l, unsigned char ret[LINK_MAC]);
struct link_frame link_hello_of(const struct buf *bytes);
void link_prove(struct link *k);
bool link_is_proven(const struct link *k, const struct link_frame *f);

/* links.c */
void peer_is_up(struct peer *p);
void peer_is_down(struct peer *p);
void links_handle_gone(struct links *l);

/* link_front.c */
void front_port_init(struct links *l);
struct link *link_to(struct links *l, uint64_t node);       /* NULL: it is not up */
struct link *front_link(struct links *l, struct str owner); /* to his home; the same */
void front_take(struct link *k, const struct link_frame *f);
void front_end(struct link *k);

/* link_pipe.c: of both ends */
void pipe_port_init(struct links *l);
bool pipe_take(struct link *k, const struct link_frame *f); /* false: it is none of a pipe */
void pipes_turn(struct link *k);
void pipes_end(struct link *k);

/* link_home.c */
void home_take(struct link *k, const struct link_frame *f);
void home_drained(struct link *k); /* the backlog has room again */
void home_turn(struct link *k);
void home_close_slots(struct link *k, const struct slots *slots);
uint32_t home_close_owner(struct link *k, struct str owner, enum close_code code, const char *why);
void home_end(struct link *k);

#endif
