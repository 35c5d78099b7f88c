#include "core/store.h"

/* The arrays of an answer live in its arena and double at each power of two, so no capacity need be
 * kept; outgrown arrays are freed with the arena. */
static void *add_row(struct answer *a, void *rows, size_t *n, size_t bytes)
{
    char *to = rows;
    if ((*n & (*n - 1)) == 0) {
        to = arena_alloc(&a->chunks, (*n ? *n * 2 : 1) * bytes);
        if (*n)
            memcpy(to, rows, *n * bytes);
    }
    memset(to + *n * bytes, 0, bytes);
    ++*n;
    return to;
}

struct task_record *answer_add_task(struct answer *a)
{
    a->tasks = add_row(a, a->tasks, &a->n_tasks, sizeof *a->tasks);
    return &a->tasks[a->n_tasks - 1];
}

struct message_record *answer_add_message(struct answer *a)
{
    a->messages = add_row(a, a->messages, &a->n_messages, sizeof *a->messages);
    return &a->messages[a->n_messages - 1];
}

struct conversation_record *answer_add_conversation(struct answer *a)
{
    a->conversations = add_row(a, a->conversations, &a->n_conversations, sizeof *a->conversations);
    return &a->conversations[a->n_conversations - 1];
}

struct notice_record *answer_add_notice(struct answer *a)
{
    a->notices = add_row(a, a->notices, &a->n_notices, sizeof *a->notices);
    return &a->notices[a->n_notices - 1];
}

struct owner_record *answer_add_owner(struct answer *a)
{
    a->owners = add_row(a, a->owners, &a->n_owners, sizeof *a->owners);
    return &a->owners[a->n_owners - 1];
}

struct outbox_record *answer_add_outbox(struct answer *a)
{
    a->outbox = add_row(a, a->outbox, &a->n_outbox, sizeof *a->outbox);
    return &a->outbox[a->n_outbox - 1];
}

struct file_record *answer_add_file(struct answer *a)
{
    a->files = add_row(a, a->files, &a->n_files, sizeof *a->files);
    return &a->files[a->n_files - 1];
}

void answer_add_block(struct answer *a, struct block *b)
{
    a->blocks = add_row(a, a->blocks, &a->n_blocks, sizeof(struct block *));
    a->blocks[a->n_blocks - 1] = b;
}

void answer_reverse(struct answer *a)
{
    for (size_t i = 0; i < a->n_tasks / 2; i++) {
        struct task_record swap = a->tasks[i];
        a->tasks[i] = a->tasks[a->n_tasks - 1 - i];
        a->tasks[a->n_tasks - 1 - i] = swap;
    }
    for (size_t i = 0; i < a->n_messages / 2; i++) {
        struct message_record swap = a->messages[i];
        a->messages[i] = a->messages[a->n_messages - 1 - i];
        a->messages[a->n_messages - 1 - i] = swap;
    }
}

void answer_done(struct answer *a)
{
    for (size_t i = 0; i < a->n_blocks; i++)
        block_free(a->blocks[i]);
    arena_done(&a->chunks);
    *a = (struct answer){0};
}

bool query_has_room(const struct query *q, size_t rows, size_t bytes, size_t next)
{
    size_t max = q->max_bytes;
    if (max == 0 || max > QUERY_MAX_BYTES)
        max = QUERY_MAX_BYTES;
    if (q->limit && rows >= q->limit)
        return false;
    return rows == 0 || bytes + next <= max;
}

bool search_goes_on(const struct query *q, const struct answer *ret, size_t rows, size_t *bytes,
                    struct str content)
{
    struct query bound = {.max_bytes = q->max_bytes};
    size_t next = content.n + SEARCH_ROW_BYTES;
    if ((q->limit && ret->n_messages >= q->limit) || !query_has_room(&bound, rows, *bytes, next))
        return false;
    *bytes += next;
    return true;
}

size_t task_record_bytes(const struct task_record *t)
{
    size_t n = 0;
#define T(name) n += t->name.n;
    TASK_NAMES(T)
    TASK_FIXED_TEXTS(T)
    TASK_INPUT_TEXTS(T)
    TASK_CONTEXT_TEXTS(T)
#undef T
#define T(name) n += t->state.name.n;
    TASK_STATE_TEXTS(T)
    TASK_LONG_TEXTS(T)
#undef T
    return n;
}

int64_t task_record_cost(const struct task_record *t)
{
    const struct task_state *s = &t->state;
    bool talks = t->type == TYPE_CHAT || t->type == TYPE_NOTICE;
    size_t said = t->input.n + s->output.n;
    return (int64_t)(TASK_ROW_BYTES + said + (talks ? said : 0) + t->metadata.n + t->parts.n +
                     s->result.n + s->undelivered.n + s->answers.n);
}

int64_t file_record_cost(const struct file_record *file)
{
    return TASK_ROW_BYTES + file->size;
}
