/* conversation -- one owner's conversation while any part of it is live: a task, a reader.
 *
 * Shape:    its live tasks in order of creation, and the feed of its readers.  Everything else is
 *           only in the store.
 * Thread:   loop.
 * Owns:     itself by reference count: tasks, openers and requests hold one each.
 */
#ifndef CORE_CONVERSATION_H
#define CORE_CONVERSATION_H

#include "core/hub.h"

/* Embedded in the follower: the domain knows no connections (promise 4). */
struct follower {
    struct list node;
    void (*task_came)(struct follower *follower, struct stream *stream);
};

struct conversation {
    struct map_node node;
    struct hub *hub;
    struct owner *owner;
    struct names *names; /* a reference */
    const char *id;      /* in names */
    uint32_t refs;
    uint32_t deletions; /* how often it was deleted since it was loaded */
    struct list tasks;  /* live, in order of creation */
    struct feed feed;
    struct list followers;    /* those that get each new task from its first event */
    struct list changed;      /* in the hub's list */
    struct feed_entry *entry; /* in the owner's watch feed */
    struct feed_entry *turn;  /* in its own feed: which branch is chosen */
    struct call *deleting;    /* the request that removes it, or NULL */
    struct call *grafting;    /* the one that makes it, of messages from elsewhere, or NULL */
    struct list notices;      /* of struct notice, by key: ended, but not told yet */
    struct list due;          /* in the hub's list: a notice turn may be possible */
    struct list freed;        /* in the hub's list: a task has ended, and a waiting one may start */
    bool unlisted;            /* hidden from watchers; known once its record was read */
    bool asking;              /* its record is being read for the watchers … */
    bool noticing;            /* … and for a notice turn */
};

struct map_key conversation_key(const struct map_node *node);
struct conversation *conversation_find(struct hub *h, struct str owner, struct str id);
struct conversation *conversation_ref(struct hub *h, struct owner *owner, struct str id);
void conversation_unref(struct conversation *c);

/* Whether a chat or notice task of it is live, or waits. */
bool conversation_is_busy(const struct conversation *c);
/* Stages a message, with a new id and the current time, in its place of the tree. */
void conversation_say(struct conversation *c, const struct message_record *message,
                      enum message_place place);
/* Stages the choice of another branch (OP_BRANCH).  task_id may be NULL. */
void conversation_branch(struct conversation *c, struct str message_id, struct str task_id);
/* Stages a title by a model (OP_TITLE).  from: the one that it is to replace; NULL: none. */
void conversation_title(struct conversation *c, struct str from, struct str title);
/* A committed op has chosen another branch: everyone who opened the conversation is told. */
void conversation_tell_branch(struct conversation *c, const struct placed *placed);
/* The store has removed it: watchers are told, and followers of its tasks are released. */
void conversation_deleted(struct conversation *c);
/* Its entry in lists has changed: watchers get the newest state, read once a turn. */
void conversation_touch(struct conversation *c);
/* The end (struct op) of a change of the conversation op->ref, to which it holds a reference. */
void conversation_op_done(const struct op *op, int status);
/* Tells watchers what has changed; called once a turn. */
void conversations_tell(struct hub *h);

#endif
