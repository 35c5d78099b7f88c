/* store_memory_rows -- the rows of the memory backend, shared by its parts.
 *
 * Shape:    plain arrays, searched from one end to the other.
 * Thread:   one at a time.
 * Owns:     see store_memory.h.
 */
#ifndef CORE_STORE_MEMORY_ROWS_H
#define CORE_STORE_MEMORY_ROWS_H

#include "core/store.h"

/* A run of lines, an inbox message (first is its position), or a note (first is its number). */
struct run {
    uint64_t first, last;
    struct buf bytes;
};

struct runs {
    struct run *at;
    size_t n;
};

struct mem_task {
    struct task_record record;
    struct arena_chunk *fixed, *changing; /* strings of the record, and of its state */
    struct runs blocks, inbox, notes;
    struct run tail; /* unsealed lines; none when bytes.len is 0 */
    uint64_t head;   /* newest line, sealed or not */
};

struct mem_message {
    struct str owner, conversation_id;
    struct message_record record;
    struct arena_chunk *chunks;
};

struct mem_conversation {
    struct str owner, conversation_id, title, agent;
    char *tip, *tip_task; /* NULL for none */
    int64_t updated_at;
    uint32_t notices;
    bool unlisted;
    unsigned flags;
    struct arena_chunk *chunks;
};

struct mem_notice {
    struct notice_record record;
    struct arena_chunk *chunks;
};

struct mem_outbox {
    struct outbox_record record;
    struct arena_chunk *chunks;
};

enum mem_file_state { FILE_NEW, FILE_USED, FILE_GONE };

struct mem_file {
    struct file_record record;
    enum mem_file_state state;
    struct arena_chunk *chunks;
};

struct mem_file_use {
    struct str owner, conversation_id, task_id, file_id;
    struct arena_chunk *chunks;
};

struct mem_revocation {
    char *owner;
    int64_t until;
};

struct mem_key {
    struct str owner, key, conversation_id, task_id;
    struct arena_chunk *chunks;
};

/* Each list is an array of pointers in the order of insertion. */
struct rows {
    void **at;
    size_t n;
};

struct memory {
    struct rows tasks, messages, conversations, keys, notices, revocations, outbox;
    struct rows files, file_uses;
    struct store_start start;
};

static inline int str_order(struct str a, struct str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n ? memcmp(a.p, b.p, n) : 0;
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

void memory_rows_add(struct rows *r, void *row);
void memory_rows_remove(struct rows *r, size_t i);

/* The tree of messages (store_memory_tree.c). */
void memory_message_put(struct memory *m, const struct op *op);
void memory_branch(struct memory *m, const struct op *op);
/* The messages of a task that goes. */
void memory_messages_of_task_remove(struct memory *m, const struct op *op);
int memory_ask_path(const struct memory *m, const struct query *q, struct answer *ret);
int memory_ask_turn(const struct memory *m, const struct query *q, struct answer *ret);

/* Removals by retention (store_memory_retention.c). */
void memory_events_remove(struct mem_task *t);
void memory_task_remove(struct memory *m, const struct op *op);
int memory_ask_ended(const struct memory *m, const struct query *q, struct answer *ret);
void memory_outbox_put(struct memory *m, const struct op *op);
void memory_outbox_take(struct memory *m, const struct op *op);
void memory_outbox_done(struct memory *m);
int memory_ask_outbox(const struct memory *m, const struct query *q, struct answer *ret);
void memory_revoke(struct memory *m, const struct op *op);
void memory_revocations_done(struct memory *m);
int memory_ask_revoked(const struct memory *m, const struct query *q, struct answer *ret);
void memory_file_put(struct memory *m, const struct op *op);
void memory_file_use(struct memory *m, const struct op *op);
void memory_files_expire(struct memory *m, const struct op *op);
void memory_files_remove(struct memory *m, const struct op *op);
/* Those of the conversation, or with a task_id those that only this task names, are gone. */
void memory_files_delete(struct memory *m, const struct op *op);
void memory_files_done(struct memory *m);
int memory_ask_files(const struct memory *m, const struct query *q, struct answer *ret);
int memory_ask_usage(const struct memory *m, const struct query *q, struct answer *ret);

/* Rows and everything that they own. */
void memory_task_free(struct mem_task *t);
void memory_message_free(struct mem_message *m);
void memory_conversation_free(struct mem_conversation *c);
void memory_key_free(struct mem_key *k);
void memory_runs_done(struct runs *r);

/* NULL when there is none. */
struct mem_task *memory_task_find(const struct memory *m, struct str owner, struct str conversation,
                                  struct str task_id);
struct mem_task *memory_task_by_key(const struct memory *m, int64_t key);
struct mem_message *memory_message_find(const struct memory *m, struct str owner,
                                        struct str conversation, struct str message_id);
/* Made when there is none. */
struct mem_conversation *memory_conversation_get(struct memory *m, const struct op *op, int64_t at);
struct mem_conversation *memory_conversation_find(const struct memory *m, struct str owner,
                                                  struct str conversation);
struct mem_key *memory_key_find(const struct memory *m, struct str owner, struct str key);

/* brief leaves out the long strings.  record_copy copies everything but the state. */
struct task_state memory_state_copy(struct arena_chunk **chunks, const struct task_state *from,
                                    bool brief);
struct task_record memory_record_copy(struct arena_chunk **chunks, const struct task_record *from,
                                      bool brief);
struct message_record memory_message_copy(struct arena_chunk **chunks,
                                          const struct message_record *from);
struct notice_record memory_notice_copy(struct arena_chunk **chunks,
                                        const struct notice_record *from);

/* As QUERY_TASKS gives it. */
void memory_put_brief(struct answer *a, const struct mem_task *t);

/* The query half: answers into an empty ret; on failure the caller empties it. */
int memory_ask(const struct memory *m, const struct query *q, struct answer *ret);

#endif
