/* http_head -- what the head of a request says of its body, and other headers that lws does not
 * read.
 *
 * Thread:   loop, before the body.
 * Owns:     nothing.
 */
#ifndef GATEWAY_FRONT_HTTP_HEAD_H
#define GATEWAY_FRONT_HTTP_HEAD_H

#include <libwebsockets.h>

#include "proto/base.h"

/* The header's value, by its name in lower case with the colon, without the blanks around it; NULL
 * when it is not there.  The caller frees it. */
char *http_head_value(struct lws *wsi, const char *name);
bool http_head_is_json(struct lws *wsi);
/* Where the client has found us: `https://host:port`, or "" without a Host; the caller frees. */
char *http_base(struct lws *wsi);
/* Sets the bytes of the body.  NULL, or why nobody can say where it ends: a proxy in front may have
 * read it another way, and what one of the two takes for a body is a request to the other (RFC 9112
 * 6.3). */
const char *http_head_length(struct lws *wsi, size_t *ret);
/* "Expect: 100-continue" (RFC 9110 10.1.1): the body comes when it is asked for, and not behind a
 * refusal. */
bool http_head_waits(struct lws *wsi);

#endif
