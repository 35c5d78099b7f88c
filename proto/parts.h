/* parts -- a message in parts: texts and files (PROTOCOL.md section 3).
 *
 * Shape:    a client's array is checked and copied in one form, which the store and agents get:
 *           {"type":"text","text"}, {"type":"file","file_id"}, to which the gateway adds what it
 *           knows of the file, or {"type":"file","media_type","name","data"} with base64.
 * Thread:   any; pure functions.
 * Errors:   a sentence's end that says what a message must be.
 */
#ifndef PROTO_PARTS_H
#define PROTO_PARTS_H

#include "proto/js.h"

#define MAX_PARTS 64
#define MAX_PARTS_BYTES (256 * 1024) /* of the array in our form, before names of files are added */
#define PARTS_EXPECTED                                                                         \
    "must be a string of 1 byte or more, or an array of 1 to 64 parts: texts, and files with " \
    "\"file_id\", or with \"media_type\" and \"data\" (base64)"

/* Appends the array in our form.  False for one that is wrong, or that says nothing. */
bool parts_read(const struct js_doc *doc, uint32_t node, struct buf *ret) MUST_USE;
/* Appends its texts, joined by newlines. */
void parts_put_text(const struct js_doc *doc, uint32_t node, struct buf *out);
/* Whether it is one text and nothing else: a string would say the same. */
bool parts_are_plain(const struct js_doc *doc, uint32_t node);

/* Whether there is a file among parts in our form. */
bool parts_have_file(struct str parts);
/* Appends the title that a message, with its parts in our form, gives its conversation: the first
 * AUTO_TITLE_CHARS of its text, from its first word on, else of the name of its first file. */
void parts_put_title(struct str text, struct str parts, struct buf *out);
/* Whether two messages in parts say the same; the docs are scratch. */
bool parts_equal(struct js_doc *a, struct js_doc *b, struct str x, struct str y);
/* The id of a part's file, NULL for none; appends it to scratch. */
struct str part_file_id(const struct js_doc *doc, uint32_t part, struct buf *scratch);
/* Appends the bytes of standard base64 with padding (RFC 4648 section 4). */
bool base64_read(struct str text, struct buf *out) MUST_USE;
/* Writes BASE64_SIZE(n) characters. */
#define BASE64_SIZE(n) (((n) + 2) / 3 * 4)
void base64_write(const void *bytes, size_t n, char *ret);

#endif
