/* request_fields -- the table of every verb's fields (request_fields.c), and the reader of each
 * kind (request_kinds.c).  Internal to request.c and request_encode.c.
 *
 * Thread:   any.
 * Errors:   false, with the fault filled.
 */
#ifndef PROTO_REQUEST_FIELDS_H
#define PROTO_REQUEST_FIELDS_H

#include "proto/request.h"

enum kind {
    KIND_TEXT, /* min to max bytes */
    KIND_MESSAGE,
    KIND_NAME,
    KIND_BOOL,
    KIND_INTEGER, /* min to max, into a uint64_t */
    KIND_LIMIT,
    KIND_CONVERSATION_ID,
    KIND_ULID,
    KIND_METADATA,
    KIND_BUDGET,
    KIND_CONTEXT,
    KIND_WHEN_BUSY,
    KIND_STATUS,
    KIND_CLIENT,
    KIND_KEEPALIVE,
    KIND_ANSWER,
    KIND_TASK_IDS,
    KIND_WEBHOOK,
    KIND_MAYBE,
    KIND_LINES, /* an array of objects */
    KIND_RIGHTS,
};

struct field {
    const char *name;
    enum kind kind;
    bool required;
    uint64_t min, max;
    size_t offset; /* in struct request; unused for kinds that fill more than one member */
};

/* The rows of a verb, without the two ids of a VERB_TASK. */
const struct field *request_fields_of(enum verb verb, size_t *ret_n);
extern const char *const request_busy_words[BUSY_INTERRUPT + 1];

#define ANY_SIZE UINT64_MAX /* bounded by the message's own limit */

struct decoding {
    const struct js_doc *doc;
    struct request *to;
    struct request_fault *fault;
    struct buf block; /* over to->memory, which has room for every value, so it never grows */
    bool strict;      /* no unknown members */
    bool from_path;   /* HTTP: the ids are here, the body's are ignored */
    struct str path_conversation_id, path_task_id;
};

bool request_fail(struct request_fault *fault, enum error code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Reads the fields of to->verb except the two ids of a VERB_TASK. */
bool request_read_fields(struct decoding *d) MUST_USE;
/* One field, into the request: false for a bad value, of which request_expect then says what it
 * must be, as the end of a sentence. */
bool request_read_kind(struct decoding *d, const struct field *f, uint32_t node) MUST_USE;
void request_expect(const struct field *f, char *text, size_t size);
/* Copies a string's value into the block. */
struct str request_keep(struct decoding *d, uint32_t node);
struct str request_keep_str(struct decoding *d, struct str value);
/* An array of messages, into to->context (request_context.c). */
bool request_read_context(struct decoding *d, uint32_t node) MUST_USE;

#endif
