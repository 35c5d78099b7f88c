/* js -- JSON text: a strict RFC 8259 reader into a flat array of nodes, and a writer.
 *
 * Shape:    js_parse reads one value; nodes are numbered in document order, the root is 0.  A node
 *           knows its raw text and where its next sibling is; nothing is copied or unescaped until
 *           asked for.  No recursion: depth is bounded by MAX_JSON_DEPTH (by MAX_JSON_WRAP more in
 *           our own texts).
 * Why:      our own reader, because the wire needs what libraries do not offer: numbers that pass
 *           through as written, unpaired surrogate escapes that become U+FFFD, NUL kept, duplicate
 *           keys refused, and an error that says where.
 * Thread:   any; one at a time.
 * Owns:     the doc owns its nodes and is reused from parse to parse; the text stays the caller's
 *           and must outlive the use of the nodes.
 * Errors:   js_parse returns false and fills doc->error ("…" and doc->error_at, a byte offset), and
 *           there are no nodes; except for js_duplicate_key, where the text is whole and the nodes
 *           stand, and error_at is where the second key's text begins.
 */
#ifndef PROTO_JS_H
#define PROTO_JS_H

#include "proto/buf.h"
#include "proto/utf8.h"

enum js_type { JS_NULL, JS_FALSE, JS_TRUE, JS_NUMBER, JS_STRING, JS_ARRAY, JS_OBJECT };

struct js_node {
    uint32_t at;   /* offset of the first byte; for a string: after its quote */
    uint32_t len;  /* bytes; for a string: without the quotes */
    uint32_t next; /* index of the node after this one and all its children */
    uint16_t kids; /* child nodes (a member counts as two); 65535 means more: walk with js_first */
    uint8_t type;  /* enum js_type */
    uint8_t plain; /* for a string: no escape and no invalid byte, so raw text = value */
};

enum js_flags {
    JS_CLIENT = 0,      /* strict: invalid UTF-8 and integers beyond 2^53-1 are errors */
    JS_REPAIR_UTF8 = 1, /* invalid bytes inside strings become U+FFFD */
    JS_ANY_NUMBER = 2,  /* integers of any size are accepted */
    JS_AGENT = JS_REPAIR_UTF8 | JS_ANY_NUMBER,
    /* For texts that we have already accepted: aborts when memory is out, and allows MAX_JSON_WRAP
     * more levels than peers may send. */
    JS_MUST = 4,
    JS_OURS = JS_AGENT | JS_MUST,
};

struct js_doc {
    const char *text;
    struct js_node *nodes;
    uint32_t n_nodes, cap;
    const char *error; /* static text, e.g. "duplicate key", "unexpected end" */
    size_t error_at;
};

/* Two errors that callers tell apart, by comparing doc->error with the pointer. */
extern const char js_duplicate_key[], js_out_of_memory[];

/* Reads exactly one value, with white space around it; anything after it is an error. */
bool js_parse(struct js_doc *doc, const char *text, size_t len, enum js_flags flags) MUST_USE;
void js_done(struct js_doc *doc);
/* A short way for a text of ours in compact form: reads an object whose only member has that key
 * (which needs no escapes) and is a plain string, as js_parse would. False for any other text. */
bool js_parse_lone(struct js_doc *doc, struct str text, struct str key) MUST_USE;

/* Children: for (i = js_first(doc, parent); i < js_end(doc, parent); i = js_next(doc, i)).
 * An object's children alternate key, value, key, value … */
static inline uint32_t js_first(const struct js_doc *d, uint32_t node)
{
    (void)d;
    return node + 1;
}
static inline uint32_t js_end(const struct js_doc *d, uint32_t node)
{
    return d->nodes[node].next;
}
static inline uint32_t js_next(const struct js_doc *d, uint32_t node)
{
    return d->nodes[node].next;
}
static inline enum js_type js_type(const struct js_doc *d, uint32_t node)
{
    return (enum js_type)d->nodes[node].type;
}
/* The value of a member; 0 when the object has no such member (the root is no member). */
uint32_t js_get(const struct js_doc *d, uint32_t object, const char *key);
/* The raw text of a node, a string's without its quotes. */
static inline struct str js_raw(const struct js_doc *d, uint32_t node)
{
    return (struct str){d->text + d->nodes[node].at, d->nodes[node].len};
}
/* Whether a string's value is exactly that text (escapes understood). */
bool js_is(const struct js_doc *d, uint32_t node, const char *text);
/* A number in plain integer syntax (no fraction, no exponent, not "-0") that fits an int64_t. */
bool js_int(const struct js_doc *d, uint32_t node, int64_t *ret) MUST_USE;
/* A number in plain integer syntax beyond 2^53-1 (or below its negative). */
bool js_is_unsafe_integer(const struct js_doc *d, uint32_t node);
/* Any number as a double; false unless it is finite. */
bool js_double(const struct js_doc *d, uint32_t node, double *ret) MUST_USE;

/* Appends a string's value: unescaped, repaired, no quotes. */
void js_value(const struct js_doc *d, uint32_t node, struct buf *out);
/* Appends any node as compact JSON: no white space, numbers as written, strings normalised
 * (shortest escapes, U+FFFD for broken bytes, everything else as UTF-8).  Always valid UTF-8. */
void js_copy(const struct js_doc *d, uint32_t node, struct buf *out);

/* Writing: appends a quoted, escaped string; invalid UTF-8 becomes U+FFFD.  null for STR_NULL. */
void js_put_str(struct buf *out, struct str value);
/* How many bytes js_put_str would append. */
size_t js_str_size(struct str value);
/* The longest beginning of a text that js_put_str would write in so many bytes, in whole
 * characters; found in steps of a quarter. */
struct str js_fit(struct str value, size_t bytes);
/* Appends `,"key":`, without the comma directly after an opening brace or bracket. */
void js_put_key(struct buf *out, const char *key);
void js_put_field(struct buf *out, const char *key, struct str value); /* key and string */
void js_put_int(struct buf *out, const char *key, int64_t value);      /* key and number */
void js_put_bool(struct buf *out, const char *key, bool value);
void js_put_raw(struct buf *out, const char *key, struct str json); /* key and complete JSON */

#endif
