/* names -- an owner and one of his conversations, by name: once for the conversation and for all
 * streams in it.
 *
 * Thread:   loop.
 * Owns:     itself by reference count; the spans live as long as it does.
 * Why:      both are part of the key of every stream (promise 5), and are as long as their makers
 *           like: fifty live tasks of a conversation would have them fifty times.
 */
#ifndef CORE_NAMES_H
#define CORE_NAMES_H

#include "proto/base.h"

struct names {
    uint32_t refs;
    uint16_t owner_len, conversation_len;
    char bytes[]; /* the owner's and the conversation's, each with a NUL */
};

struct names *names_new(struct str owner, struct str conversation_id); /* with one reference */
static inline struct names *names_ref(struct names *n)
{
    n->refs++;
    return n;
}
void names_unref(struct names *n);
static inline struct str names_owner(const struct names *n)
{
    return (struct str){n->bytes, n->owner_len};
}
static inline struct str names_conversation(const struct names *n)
{
    return (struct str){n->bytes + n->owner_len + 1, n->conversation_len};
}

#endif
