/* rights -- what a narrowed token lets its bearer do (PROTOCOL.md section 2).
 *
 * Shape:    the claim `holdfast` of a token, read once: conversations, by name or by the beginning
 *           of their names, each with some of four rights, or one task of a conversation; and maybe
 *           an actor, who asks in the owner's name.  rights_allow is the whole decision.
 * Thread:   loop.
 * Owns:     itself, by reference count; its spans point into its own memory.
 * Errors:   NULL for a claim that is not understood: such a token must not be believed, since a
 *           part that is passed over would widen it.
 * Limits:   MAX_SCOPES; a token bounds the rest.
 */
#ifndef PROTO_RIGHTS_H
#define PROTO_RIGHTS_H

#include "proto/js.h"
#include "proto/limits.h"

/* X(NAME, bit, word) */
#define RIGHT_TABLE(X)     \
    X(READ, 1, "read")     \
    X(ASK, 2, "ask")       \
    X(ANSWER, 4, "answer") \
    X(CANCEL, 8, "cancel")
enum right {
#define X(NAME, bit, word) RIGHT_##NAME = (bit),
    RIGHT_TABLE(X)
#undef X
};

#define MAX_SCOPES 64
#define MAX_ACTOR 128 /* bytes */

struct scope {
    struct str name; /* of a conversation, or the beginning of names */
    bool is_prefix;
    struct str task_id; /* NULL: the whole conversation */
    unsigned rights;    /* of enum right */
};

struct rights {
    uint32_t refs;
    struct str json;     /* the claim, compact */
    struct str actor;    /* NULL: the owner asks */
    struct str grant_id; /* NULL: the token is no grant's (core/grant.h) */
    bool whole;          /* everything that the owner may */
    size_t n;
    struct scope scopes[];
};

/* node: the claim, an object.  grant_id may be NULL. */
struct rights *rights_read(const struct js_doc *doc, uint32_t node, struct str grant_id) MUST_USE;
struct rights *rights_ref(struct rights *r); /* NULL stays NULL: the owner */
void rights_unref(struct rights *r);
bool rights_equal(const struct rights *a, const struct rights *b);

/* Whether everything of the owner is allowed. */
static inline bool rights_are_whole(const struct rights *r)
{
    return !r || r->whole;
}
/* need: of enum right; 0: what only the owner may.  task_id is NULL for what concerns the whole
 * conversation; conversation_id is empty for one whose name is not known yet. */
bool rights_allow(const struct rights *r, struct str conversation_id, struct str task_id,
                  unsigned need);

/* An array of words, or false. */
bool rights_read_words(const struct js_doc *doc, uint32_t node, unsigned *ret) MUST_USE;
void rights_put_words(struct buf *out, unsigned rights);

#endif
