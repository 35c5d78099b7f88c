/* http_head -- what a request's head says about its body, and headers that lws does not read.
 *
 * Thread:   loop, before the body.
 * Owns:     nothing.
 */
#ifndef GATEWAY_FRONT_HTTP_HEAD_H
#define GATEWAY_FRONT_HTTP_HEAD_H

#include <libwebsockets.h>

#include "proto/buf.h"

/* The header's value, by its name in lower case with the colon, without the blanks around it; NULL
 * when absent.  The caller frees it. */
char *http_head_value(struct lws *wsi, const char *name);
/* Its trace context (trace_put_head), which the caller frees; NULL: it has no traceparent. */
char *http_trace(struct lws *wsi);
/* Whether a value of a query is a number, true or false, as JSON has them. */
bool http_value_is_json(struct str v);
bool http_head_is_json(struct lws *wsi);
/* The address that the client used: `https://host:port`, or "" without a Host; the caller frees. */
char *http_base(struct lws *wsi);
/* Sets the bytes of the body.  NULL, or why its end is uncertain: a proxy in front may have read it
 * differently, and then one side's body is the other side's request (RFC 9112 section 6.3). */
const char *http_head_length(struct lws *wsi, size_t *ret);
/* "Expect: 100-continue" (RFC 9110 section 10.1.1): the client sends the body when asked, and not
 * after a refusal. */
bool http_head_waits(struct lws *wsi);
/* Appends a text percent-encoded, without those characters that are left as they are (RFC 3986
 * section 2.3), and some more. */
void http_put_encoded(struct buf *out, const char *text, const char *but);

#endif
