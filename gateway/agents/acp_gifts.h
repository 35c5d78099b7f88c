/* acp_gifts -- the files between a task and its ACP agent: those that the agent says, stored one
 * after the other and told as the event file, and those of the message, lent to it.
 *
 * Thread:   loop.
 * Owns:     gifts until they are told; acp_gifts_clear drops what is left.
 * Errors:   a file that cannot be stored is told in the log; the task goes on without it.
 */
#ifndef GATEWAY_AGENTS_ACP_GIFTS_H
#define GATEWAY_AGENTS_ACP_GIFTS_H

#include "core/agent.h"
#include "core/file_lender.h"
#include "core/list.h"
#include "gateway/agents/acp_files.h"

struct acp_gifts {
    const struct lender *lender; /* NULL: what the agent gives is not kept */
    struct str owner, conversation_id, task_id;
    struct list list;                         /* acp_gifts_init */
    struct file_save *save;                   /* of the first in the list */
    unsigned number;                          /* of the last one of the task */
    void (*told)(void *arg, struct str data); /* of the event */
    void (*done)(void *arg);                  /* none is left; not from inside acp_gifts_take */
    void *arg;
};

void acp_gifts_init(struct acp_gifts *g);
/* Takes those of the agent.  Spans must stay valid until done. */
void acp_gifts_take(struct acp_gifts *g, struct acp *acp);
static inline bool acp_gifts_are_open(const struct acp_gifts *g)
{
    return !list_is_empty(&g->list);
}
void acp_gifts_clear(struct acp_gifts *g);

/* Appends the files among the parts that a lender made, as acp_prompt wants them, and each path
 * with a NUL to paths. */
void acp_gifts_put_lent(struct str parts, struct buf *files, struct buf *paths);

#endif
