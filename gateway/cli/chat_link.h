/* chat_link -- a client's connection to a gateway: opened, cut, opened again.
 *
 * Shape:    chat_link_connect makes one attempt and reports through callbacks; on_closed comes
 *           last, once for each attempt, and may connect again at once.  Lines go out one by one,
 *           in order, while the connection stands; a break drops unsent ones.
 * Thread:   the loop's.
 * Owns:     its libwebsockets context.  A chat_link does not move between _init and _done.
 * Errors:   on_closed: the code that the gateway closed with, 0 without one, and a few words.
 */
#ifndef GATEWAY_CLI_CHAT_LINK_H
#define GATEWAY_CLI_CHAT_LINK_H

#include <uv.h>

#include "proto/buf.h"

struct chat_url {
    bool is_tls;
    char *host; /* without brackets */
    uint16_t port;
    char *path;
};

/* ws://, wss://, http:// or https://; without a path, the protocol's. */
bool chat_url_read(const char *text, struct chat_url *ret) MUST_USE;
void chat_url_done(struct chat_url *url);
/* The file of the certificates that are trusted: the system's, or SSL_CERT_FILE. */
const char *chat_link_certificates(void);

struct chat_link_ops {
    void (*on_open)(void *arg);
    void (*on_line)(void *arg, struct str line); /* never empty; valid during the call */
    void (*on_closed)(void *arg, int code, const char *why);
};

struct lws;
struct lws_context;

struct chat_link {
    uv_loop_t *loop;
    const struct chat_url *url;
    const struct chat_link_ops *ops;
    void *arg;
    struct lws_context *context;
    struct lws *wsi;
    bool is_trying; /* an attempt or a connection is active */
    bool is_open;
    bool is_over; /* nothing is reported any more */
    int close_code;
    unsigned n_wsi;
    struct buf in, out;
};

bool chat_link_init(struct chat_link *link, uv_loop_t *loop, const struct chat_url *url,
                    const struct chat_link_ops *ops, void *arg) MUST_USE;
void chat_link_connect(struct chat_link *link);
void chat_link_send(struct chat_link *link, struct str line); /* without a newline */
void chat_link_drop(struct chat_link *link);                  /* cuts it; on_closed comes later */
/* Runs the loop until the connection is gone completely. */
void chat_link_done(struct chat_link *link);

#endif
