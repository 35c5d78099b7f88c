/* admin -- the operator's Unix socket: the HTTP API for any owner, kick and revoke.  A token with
 * auth.admin_claim may do the same on the public port.
 *
 * Shape:    connections without TLS, served by the same code as the public ones (http_api.c).  Only
 *           the gateway's own user, or root, may use it: the socket is 0600, and the kernel tells
 *           who connects.  The caller names the owner in the header Holdfast-Owner, percent-encoded
 *           where needed.
 *
 *             POST /v1/admin/kick      {"owner"}           closes the owner's connections: 1001
 *             POST /v1/admin/revoke    {"owner","for_s"?}  and locks the owner out: 4401
 *             POST /v1/admin/unrevoke  {"owner"}
 *             GET  /v1/admin/revocations
 *             GET  /v1/admin/nodes
 * Thread:   loop.
 * Owns:     the socket's file; the front owns the descriptor and the poll.
 * Errors:   if the socket cannot be created, the log says why, and the gateway does not start.
 */
#ifndef GATEWAY_FRONT_ADMIN_H
#define GATEWAY_FRONT_ADMIN_H

#include "gateway/front/http_api.h"

bool admin_open(struct front *f); /* true if no socket is configured */
void admin_start(struct front *f);
void admin_close(struct front *f);

bool admin_is(struct lws *wsi); /* it came through the socket */
/* Whether the request is an operator's: it came through the socket, or asks for what is theirs with
 * a bearer that has auth.admin_claim (never a cookie: no other page can make a browser send it). */
bool admin_claims(struct exchange *x, const char *path);
/* Finds the request's owner; false when it was answered with an error. */
bool admin_take_owner(struct exchange *x);
void admin_forget(struct exchange *x); /* it has ended; NULL waiting is allowed */

/* The routes. */
void admin_kick(struct exchange *x);
void admin_revoke(struct exchange *x);
void admin_unrevoke(struct exchange *x);
void admin_revocations(struct exchange *x);
void admin_nodes(struct exchange *x);

/* A Unix socket's address for any path: one that is too long goes through the descriptor of its
 * directory, which the caller closes (-1: none).  False with errno. */
struct sockaddr_un;
bool unix_address(const char *path, struct sockaddr_un *ret, int *ret_dir);

#endif
