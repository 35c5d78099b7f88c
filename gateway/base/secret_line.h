/* secret_line -- a secret in the first line of a file.
 *
 * Thread:   any.
 * Errors:   a static text or strerror's says what is wrong; NULL: nothing.  A secret is read whole
 *           or not at all, and never appears in the text.
 */
#ifndef GATEWAY_BASE_SECRET_LINE_H
#define GATEWAY_BASE_SECRET_LINE_H

#include "proto/buf.h"

/* Reads into an empty ret, without the line's end: 1 to max bytes, none of them NUL. */
const char *secret_line_read(const char *file, size_t max, struct buf *ret) MUST_USE;
/* Overwrites and frees it. */
void secret_line_done(struct buf *secret);

#endif
