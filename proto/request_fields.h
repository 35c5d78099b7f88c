/* request_fields -- the table of every verb's fields, and the reader of each kind.  Internal to
 * request.c.
 *
 * Thread:   any.
 * Errors:   false, with the fault filled.
 */
#ifndef PROTO_REQUEST_FIELDS_H
#define PROTO_REQUEST_FIELDS_H

#include "proto/request.h"

struct decoding {
    const struct js_doc *doc;
    struct request *to;
    struct request_fault *fault;
    struct buf block; /* over to->memory, which has room for every value, so it never grows */
    bool from_path;   /* HTTP: the ids are here, the body's are ignored */
    struct str path_conversation_id, path_task_id;
};

bool request_fail(struct request_fault *fault, enum error code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Reads the fields of to->verb except the two ids of a VERB_TASK. */
bool request_read_fields(struct decoding *d) MUST_USE;
/* Copies a string's value into the block. */
struct str request_keep(struct decoding *d, uint32_t node);
struct str request_keep_str(struct decoding *d, struct str value);
/* An array of messages, into to->context (request_context.c). */
bool request_read_context(struct decoding *d, uint32_t node) MUST_USE;

#endif
