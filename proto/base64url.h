/* base64url -- bytes as text that stands in a URL (RFC 4648, 5): canonical, and without padding.
 *
 * Thread:   any.
 */
#ifndef PROTO_BASE64URL_H
#define PROTO_BASE64URL_H

#include "proto/buf.h"

void base64url_put(struct buf *out, const void *bytes, size_t n);
/* Appends what a text stands for; false for any text that base64url_put does not write. */
bool base64url_read(struct str text, struct buf *out) MUST_USE;

#endif
