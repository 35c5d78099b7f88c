/* file_head -- what an HTTP head says about a file: its name, its type, the part that is wanted.
 *
 * Shape:    pure functions on header values.  A name is one segment of a path, UTF-8, without
 *           control characters: of a path only the last segment stays.
 * Thread:   any.
 * Errors:   false for a value that cannot be read.
 */
#ifndef PROTO_FILE_HEAD_H
#define PROTO_FILE_HEAD_H

#include "proto/buf.h"

#define MAX_FILE_NAME 255
#define MAX_MEDIA_TYPE 127

/* Appends the name of Content-Disposition (RFC 6266; filename* as in RFC 8187 counts first);
 * nothing when it has none. */
bool disposition_read(struct str value, struct buf *ret_name) MUST_USE;
/* Appends `attachment; filename=…`, or inline. */
void disposition_put(struct buf *out, bool is_inline, struct str name);

/* Appends type/subtype in lower case, without parameters (RFC 9110 section 8.3.1). */
bool media_type_read(struct str value, struct buf *ret) MUST_USE;

/* The type of an image that every browser shows, by its first bytes (at least IMAGE_HEAD of them,
 * if there are so many); NULL for anything else. */
#define IMAGE_HEAD 16
const char *image_type(struct str head);

/* Range of a representation of that size (RFC 9110 section 14.2): what is not one range of bytes is
 * ignored. */
enum range_verdict { RANGE_ALL, RANGE_PART, RANGE_NONE /* 416 */ };
enum range_verdict range_read(struct str value, int64_t size, int64_t *ret_from, int64_t *ret_n);

#endif
