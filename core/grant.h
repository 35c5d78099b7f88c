/* grant -- what an owner lets others do: a link that reads, or a member of a conversation.
 *
 * Shape:    a grant is one row of the outbox, under a name that no receiver has, and one object in
 *           memory.  Its token (proto/rights.h) is signed by the gateway and names it: the token
 *           counts as long as the grant is there.  With the grant go the connections that came with
 *           its token, at once.
 *
 *             put ──▶ committed ──withdrawn, expired, its conversation is gone──▶ taken
 *
 * Units:    Unix ms.
 * Thread:   loop.
 * Owns:     all grants; each holds a reference to its owner.
 */
#ifndef CORE_GRANT_H
#define CORE_GRANT_H

#include "core/hub.h"

#define OUTBOX_GRANTS "\x01grants"

struct grant {
    struct list node; /* in its owner's, oldest first */
    struct hub *hub;
    struct owner *owner;
    char id[TASK_ID_LEN + 1];
    char *conversation_id;
    char *json; /* as clients see it */
    int64_t expires_at;
    int64_t key;
    bool committed;
    bool taken;           /* it is being removed, and counts no more */
    struct list sessions; /* of struct session, by in_grant */
};

/* NULL: this owner has none of that id that counts now. */
struct grant *grant_find(struct hub *h, struct str owner, struct str id);
/* Stages a new one; json is the whole object. */
struct grant *grant_add(struct hub *h, struct owner *owner, struct str conversation_id,
                        const char *id, int64_t expires_at, struct str json);
void grant_remove(struct grant *g);
/* Those of a conversation, in the batch that deletes it. */
void grants_forget(struct owner *owner, struct str conversation_id);
/* Those whose time is over. */
void grants_expire(struct owner *owner);
/* The session came with that grant's token, if with any; it ends with the grant. */
void grant_join(struct session *s);

/* At a start: a row that an earlier process left. */
void grant_restore(struct hub *h, const struct outbox_record *row);
/* Those in memory alone: another process has the owner from now on. */
void grants_drop(struct owner *owner);
void grants_done(struct hub *h);

#endif
