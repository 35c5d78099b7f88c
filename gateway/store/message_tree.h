/* message_tree -- where messages go in a conversation's tree (core/batch.h, enum message_place),
 * and how a turn of it is found: the rules that every database has in common.
 *
 * Shape:    a store on disk answers small questions about rows (struct tree_rows inside a batch's
 *           transaction, struct turn_rows inside a reader's snapshot); what follows from the
 *           answers is decided here, once.  The reference in memory has rules of its own, so that
 *           the two can be compared.
 * Memory:   texts that rows give are copies in the arena of the tree, or of the answer.
 * Thread:   the one that has the store's connection.
 * Errors:   enum store_error, of the rows; the first one ends it.
 */
#ifndef GATEWAY_STORE_MESSAGE_TREE_H
#define GATEWAY_STORE_MESSAGE_TREE_H

#include "core/store.h"

/* One text about an id. */
enum tree_text {
    TREE_QUESTION_OF, /* a task: the message that it answers */
    TREE_ANSWER_OF,   /* a task: its answer's message_id */
    TREE_ANSWERER_OF, /* a message: the task that answers it, and has no answer yet */
    TREE_PARENT_OF,   /* a message */
    TREE_NEWEST_BELOW /* a message; NULL: of those without a parent */
};

/* --- writing ---------------------------------------------------------------------------------- */

/* A conversation in a batch's transaction. */
struct message_tree {
    const struct tree_rows *rows;
    void *store;
    const struct op *op;
    struct arena_chunk *chunks;
    struct str tip, tip_task;
};

struct tree_removed {
    struct str id; /* NULL: none is left */
    struct str parent_id, behind, heir;
    bool is_answer;
};

struct tree_rows {
    int (*text)(struct message_tree *t, enum tree_text what, struct str about, struct str *ret);
    int (*read_tip)(struct message_tree *t); /* sets tip and tip_task, if there is a conversation */
    int (*write_tip)(struct message_tree *t);
    /* *ret: that message exists, and these are its parent and what it stands behind. */
    int (*place)(struct message_tree *t, struct str id, struct str *ret_parent,
                 struct str *ret_behind, bool *ret);
    /* The op's message; an answer comes between its question and what stood behind its task. */
    int (*put)(struct message_tree *t, struct str parent, struct str behind);
    /* All with that parent, as in message_record.siblings, but also a single one. */
    int (*siblings)(struct message_tree *t, struct str parent_id, struct buf *ret);
    int (*first_of_task)(struct message_tree *t, struct tree_removed *ret);
    int (*find_heir)(struct message_tree *t,
                     struct tree_removed *m); /* another task that asked it */
    int (*pass_on)(struct message_tree *t, const struct tree_removed *m); /* to the heir */
    int (*cut_out)(struct message_tree *t, const struct tree_removed *m); /* children go up */
};

int message_tree_put(const struct tree_rows *rows, void *store, const struct op *op);
int message_tree_branch(const struct tree_rows *rows, void *store, const struct op *op);
/* The messages of a task that goes. */
int message_tree_remove(const struct tree_rows *rows, void *store, const struct op *op);

/* Puts an id in front of those that are there, with a blank between: rows come newest first. */
void message_tree_prepend(struct buf *ids, struct str id);

/* --- reading ---------------------------------------------------------------------------------- */

/* A question about a conversation in a reader's snapshot. */
struct turn_asked {
    const struct turn_rows *rows;
    void *reader;
    const struct query *q;
    struct answer *ret;
};

struct turn_rows {
    int (*text)(const struct turn_asked *a, enum tree_text what, struct str about, struct str *ret);
    int (*tip)(const struct turn_asked *a); /* answer.tip and tip_task */
    /* Adds it, if it is there. */
    int (*message)(const struct turn_asked *a, struct str id);
    int (*task)(const struct turn_asked *a, struct str task_id);
};

/* The lowest message of the path that a QUERY_PATH names; NULL: there is none. */
int message_tree_path_end(const struct turn_asked *a, struct str *ret_id);
int message_tree_turn(const struct turn_asked *a); /* a QUERY_TURN */

#endif
