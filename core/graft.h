/* graft -- a conversation made of messages that come from elsewhere: a branch of another one, or an
 * export (PROTOCOL.md section 5, fork and import).
 *
 * Shape:    messages are added in order of creation, as the source has them, with what is known of
 *           their tasks and files; graft_check finds what is wrong; graft_put stages all of it: new
 *           ids in the same order, and for each question a task that has ended, whose events were
 *           not copied, so that everything that works for a turn works for these.
 * Thread:   loop.
 * Owns:     copies of all that was added.
 * Errors:   graft_add_* are false when it is full; graft_check says what is wrong.
 */
#ifndef CORE_GRAFT_H
#define CORE_GRAFT_H

#include "core/conversation.h"

#define MAX_GRAFT_BYTES (8u << 20) /* of texts: they become one batch */
#define MAX_GRAFT_MESSAGES 5000
#define GRAFT_NONE SIZE_MAX

struct graft_message {
    struct message_record record; /* its ids are the source's */
    size_t parent;                /* an index, like the next; GRAFT_NONE: none */
    size_t task;
    char new_id[TASK_ID_LEN + 1];
    bool is_put;
};

struct graft_task {
    size_t question, answer; /* of its messages; answer: GRAFT_NONE while there is none */
    size_t known;            /* of what the source says about it; GRAFT_NONE: nothing */
    bool is_again;           /* the question is another task's */
    char new_id[TASK_ID_LEN + 1];
};

struct graft {
    struct arena_chunk *chunks;
    size_t bytes;
    struct graft_message *messages;
    size_t n_messages, cap_messages;
    struct task_record *known; /* only what a new task takes from it */
    size_t n_known, cap_known;
    struct file_record *files; /* file_id: the new one, key: the source's */
    struct str *file_keys;
    size_t n_files, cap_files;
    struct graft_task *tasks;
    size_t n_tasks;
    char *title, *agent; /* of the source; NULL for none */
    struct str tip;      /* the message_id of the source's current branch; NULL: the last one */
    char wrong[128];     /* of graft_check */
};

extern const char graft_is_full[]; /* for whoever adds to it */

struct graft *graft_new(void);
void graft_free(struct graft *g); /* NULL is allowed */
/* siblings and behind are not copied. */
bool graft_add_message(struct graft *g, const struct message_record *m) MUST_USE;
bool graft_add_task(struct graft *g, const struct task_record *t) MUST_USE;
/* A file of the owner's, which parts name as file_id: graft_put makes another row for its bytes. */
bool graft_add_file(struct graft *g, const struct file_record *f) MUST_USE;
void graft_name(struct graft *g, struct str title, struct str agent);
/* For pages that come newest first: the order of all messages is turned round. */
void graft_turn(struct graft *g);
void graft_sort(struct graft *g); /* into the order of creation, by created_at and id */
/* NULL, or what is wrong: valid until the graft is freed. */
const char *graft_check(struct graft *g);

struct graft_place {
    struct conversation *to;
    struct str title, agent; /* agent: of tasks of which the source says nothing */
};
/* After graft_check. */
void graft_put(struct graft *g, const struct graft_place *at);

#endif
