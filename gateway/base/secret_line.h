/* secret_line -- a secret that is the first line of a file.
 *
 * Thread:   any.
 * Errors:   what is wrong, as static text or strerror's: NULL when nothing is.  A secret is taken
 *           whole or not at all, and never stands in the text.
 */
#ifndef GATEWAY_BASE_SECRET_LINE_H
#define GATEWAY_BASE_SECRET_LINE_H

#include "proto/buf.h"

/* Into an empty ret, without the line's end: 1 to max bytes, none of them NUL. */
const char *secret_line_read(const char *file, size_t max, struct buf *ret) MUST_USE;
/* Overwrites and frees it. */
void secret_line_done(struct buf *secret);

#endif
