/* call -- one request in progress, for a session or for HTTP.
 *
 * Shape:    hub_request takes a decoded request and an authenticated owner, and calls reply exactly
 *           once: immediately, or after a look-up or a commit.  Verbs are in verb_*.c, found
 *           through one table.
 * Thread:   loop.
 * Owns:     the call owns its request.  It ends itself in call_reply or call_fail.
 * Errors:   replies carry them; everything that is not the owner's gets the same answer (promise
 *           5).
 */
#ifndef CORE_CALL_H
#define CORE_CALL_H

#include "core/task.h"
#include "proto/rights.h"

struct session;

#define FOLLOWS_TOO_MUCH "too many subscriptions on this connection"
#define STALE_RECORD "the task's record is damaged"
#define NO_SUCH_MESSAGE "no such message"
#define NO_SUCH_CONVERSATION "no such conversation"
#define IS_BEING_DELETED "the conversation is being deleted"
#define IS_BEING_MADE "the conversation is being made by a fork or an import"

/* line is the whole reply without newline; error is ERR_NONE for an answer. */
typedef void (*call_reply_fn)(void *arg, enum error error, struct str line);

struct opening;
struct claim; /* a request key that is being looked up or used for the first time */

/* The requester. */
struct asker {
    struct owner *owner;
    struct owner *quota; /* against whom live tasks count: the owner, or all guests of an address */
    struct session *session; /* where subscriptions go; NULL for HTTP */
    const char *from;        /* its address, or "operator"; NULL: nobody needs to know */
    struct rights *rights;   /* of its token; NULL: all of the owner's */
    int64_t expires_at_ms;   /* of its token; 0: never */
    const char *trace;       /* of the request's head (trace_put_head); NULL: none */
};

struct call {
    struct hub *hub;
    struct owner *owner, *quota;
    struct rights *rights; /* a reference */
    int64_t expires_at_ms; /* of the asker's token */
    char *request_key;     /* as it is looked up, when that is not the request's own */
    char *from;            /* of the asker, when a hub tells of requests */
    char *trace;           /* of a chat, as its asker has it */
    struct request req;
    struct session *session; /* where subscriptions go; NULL for HTTP, or when it has ended */
    call_reply_fn reply;     /* NULL when nobody waits for it any more */
    void *arg;
    struct waiter waiter;
    struct list node; /* in the list of what it waits for: a claim */
    struct claim *claim;
    struct conversation *conversation; /* a reference */
    struct stream *stream;             /* chat: pinned until the commit */
    struct buf out; /* cancel: the ids of tasks that were asked to stop; chat: its parts */
    uint32_t n;     /* cancel: how many; ack: how many acknowledged; title: earlier deletions */
    size_t at;      /* ack: the id that is being looked up; chat: the part */
    struct opening *opening; /* open: held until its snapshot is ready */
    struct placing *placing; /* chat: where it goes; NULL: at the tip */
    struct graft *graft;     /* fork, import: what it makes; NULL: nothing yet */
    struct exporting *exporting;
    struct list naming; /* in the hub's list, while a chat's files may end */
    struct chat_files {
        struct str parts; /* that name them; NULL: none was looked up */
        bool ended;       /* one may have ended since then */
        void (*then)(struct call *c);
        void (*refuse)(struct call *c, enum error e, const char *message);
    } files;
    struct list waits;     /* in the hub's list, while it waits for a commit */
    bool asked_again;      /* an answer of the store was out of date */
    bool is_away;          /* it is carried out, counted and told at its owner's home */
    msec_t retry_after_ms; /* of a refusal; 0: the usual value */
    bool *replied;         /* while hub_request is on the stack */
};

/* Carries the request out; takes its memory.  Returns the call when it waits, NULL when it has
 * replied already. */
struct call *hub_request(struct hub *h, const struct asker *who, struct request *req,
                         call_reply_fn reply, void *arg);
/* Nobody waits for the reply any more; the call itself continues. */
void call_forget(struct call *c);

/* For the hub: at its start, when commits begin to fail, and when a commit hangs. */
void calls_init(struct hub *h);
void calls_begin_losing_patience(struct hub *h);
void calls_lose_patience(struct hub *h);

/* For the verbs. */
void call_reply(struct call *c, struct str line); /* and frees the call */
void call_fail(struct call *c, enum error e, const char *message);
void call_finish(struct call *c, enum error e, struct str line);     /* an error with more */
void call_ok(struct call *c);                                        /* {"type":"ok"} */
void reply_begin(struct call *c, struct buf *out, const char *type); /* {"type":"…","id":… open */
void call_query(struct call *c, struct query *q, store_query_fn done);
/* done is called when everything staged so far is committed or abandoned. */
void call_wait(struct call *c, void (*done)(struct waiter *waiter, int status));
void call_wait_ok(struct call *c); /* replies ok then */
/* The flags of a conversation that the request gives this value. */
unsigned call_flags(const struct call *c, enum maybe value);
/* The store's answer about the task is older than what memory knows.  True once for each call: it
 * must ask again.  The store has answered with everything that was committed before, so a second
 * such answer is damage, which this reports: the call must then fail with STALE_RECORD. */
bool call_may_ask_again(struct call *c, const struct task_record *task);
/* The call waits for a commit: if the store fails meanwhile, `overloaded` is replied within 2 s,
 * and the call continues without a requester. */
void call_waits(struct call *c);
/* The store could not answer, or did not accept what was staged: everyone gets the same error. */
void call_read_failed(struct call *c);
/* The same, except that damage is reported as damage, because asking again is of no use. */
void call_store_failed(struct call *c, int status);
void call_write_failed(struct call *c);

/* Requests about one task (verb_task.c): the task, when it is live and exists for its owner; else
 * the record is asked for, and absence is answered, which is true when the call is over. */
struct task *call_live_task(struct call *c);
void call_ask_task(struct call *c, store_query_fn done);
bool call_is_absent(struct call *c, int status);

typedef void (*verb_fn)(struct call *c);
void verb_chat(struct call *c);
void verb_resume(struct call *c);
void verb_unsubscribe(struct call *c);
void verb_cancel(struct call *c);
void verb_cancel_all(struct call *c);
void verb_send(struct call *c);
void verb_respond(struct call *c);
void verb_webhook(struct call *c);
void verb_webhooks(struct call *c);
void verb_webhook_delete(struct call *c);
void verb_open(struct call *c);
void verb_close(struct call *c);
void verb_watch(struct call *c);
void verb_task(struct call *c);
void verb_tasks(struct call *c);
void verb_history(struct call *c);
void verb_conversations(struct call *c);
void verb_title(struct call *c);
void verb_delete(struct call *c);
void verb_results(struct call *c);
void verb_ack(struct call *c);
void verb_schedule(struct call *c);
void verb_schedules(struct call *c);
void verb_reschedule(struct call *c);
void verb_unschedule(struct call *c);
void verb_branch(struct call *c);
void verb_share(struct call *c);
void verb_shares(struct call *c);
void verb_unshare(struct call *c);
void verb_handover(struct call *c);
void verb_pin(struct call *c);
void verb_archive(struct call *c);
void verb_search(struct call *c);
void verb_fork(struct call *c);
void verb_import(struct call *c);
void verb_export(struct call *c);

/* A fork and an import (verb_fork.c), step by step: the conversation that is made, with that id or
 * a new one; false: somebody else makes it, and the call has failed; false: the store has one, and
 * the call has failed; after graft_check, all of it is staged, and the reply follows. */
void graft_begin(struct call *c, struct str id);
void exporting_free(struct exporting *e); /* NULL is allowed */
bool graft_may_begin(struct call *c);
bool graft_is_new(struct call *c, int status);
void graft_end(struct call *c);
void graft_over(struct call *c); /* of a call that has a graft */

/* Where a chat with reply_to, edit or regenerate goes (placing.c). */
struct placing {
    enum message_place place;
    char parent_id[TASK_ID_LEN + 1], behind[TASK_ID_LEN + 1], question_id[TASK_ID_LEN + 1];
    char *input, *agent; /* of the turn that is regenerated; NULL for others */
    char *parts;         /* the same; NULL: the input is one text */
    void (*then)(struct call *c);
    void (*refuse)(struct call *c, enum error e, const char *message);
};
/* Looks the place up: then, or refuse, is called when it is known; at once when it is the tip. */
void placing_find(struct call *c, void (*then)(struct call *c),
                  void (*refuse)(struct call *c, enum error e, const char *message));
void placing_free(struct placing *p);
/* The message with that id in the answer about a turn, or else the turn's answer, or its
 * question. */
const struct message_record *turn_find(const struct answer *answer, struct str id);

/* The files of a chat (chat_files.c): then is called in a turn in which each file that the parts
 * name is there, and c->out has the parts with what is known of each; else refuse.  The parts'
 * bytes must last as long as the call. */
void chat_files_find(struct call *c, struct str parts, void (*then)(struct call *c),
                     void (*refuse)(struct call *c, enum error e, const char *message));
bool chat_files_are_found(const struct call *c, struct str parts); /* and nothing has ended since */
/* The task names them: they live as long as it does. */
void chat_files_use(struct call *c, struct task *t, struct str parts);
/* journal_put, for a change that may end files: of a conversation, or of all without an owner. */
struct op *chat_files_end(struct hub *h, const struct op *op);

/* Request keys (verb_chat.c). */
struct map_key claim_key(const struct map_node *node);

#endif
