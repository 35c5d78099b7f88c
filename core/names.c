#include "core/names.h"

#include <stdlib.h>

struct names *names_new(struct str owner, struct str conversation_id)
{
    ASSERT(owner.n <= UINT16_MAX && conversation_id.n <= UINT16_MAX);
    struct names *n = xcalloc(offsetof(struct names, bytes) + owner.n + conversation_id.n + 2);
    n->refs = 1;
    n->owner_len = (uint16_t)owner.n;
    n->conversation_len = (uint16_t)conversation_id.n;
    memcpy(n->bytes, owner.p, owner.n);
    memcpy(n->bytes + owner.n + 1, conversation_id.p, conversation_id.n);
    return n;
}

void names_unref(struct names *n)
{
    ASSERT(n->refs > 0);
    if (--n->refs == 0)
        free(n);
}
