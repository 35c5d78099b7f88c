/* base64url -- bytes as text for URLs (RFC 4648, section 5): canonical, without padding.
 *
 * Thread:   any.
 */
#ifndef PROTO_BASE64URL_H
#define PROTO_BASE64URL_H

#include "proto/buf.h"

void base64url_put(struct buf *out, const void *bytes, size_t n);
/* Appends the bytes that a text encodes; false for any text that base64url_put would not write. */
bool base64url_read(struct str text, struct buf *out) MUST_USE;

#endif
