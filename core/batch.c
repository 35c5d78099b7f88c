#include "core/batch.h"

#include <stdlib.h>

#define CHUNK_BYTES (64 * 1024 - sizeof(struct arena_chunk))

void *arena_alloc(struct arena_chunk **chunks, size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    struct arena_chunk *c = *chunks;
    if (!c || c->cap - c->used < bytes) {
        /* Small arenas stay small: the first chunk is 1 KiB, then each doubles up to the full
         * size. */
        size_t cap = c ? c->cap * 2 : 1024;
        if (cap > CHUNK_BYTES)
            cap = CHUNK_BYTES;
        if (cap < bytes)
            cap = bytes;
        c = xalloc(sizeof *c + cap);
        *c = (struct arena_chunk){.next = *chunks, .cap = cap};
        *chunks = c;
    }
    void *at = c->bytes + c->used;
    c->used += bytes;
    return at;
}

struct str arena_str(struct arena_chunk **chunks, struct str s)
{
    if (!s.p)
        return STR_NULL;
    char *copy = arena_alloc(chunks, s.n + 1);
    if (s.n)
        memcpy(copy, s.p, s.n);
    copy[s.n] = 0;
    return (struct str){copy, s.n};
}

void arena_done(struct arena_chunk **chunks)
{
    while (*chunks) {
        struct arena_chunk *c = *chunks;
        *chunks = c->next;
        free(c);
    }
}

struct batch *batch_new(void)
{
    return xcalloc(sizeof(struct batch));
}

void batch_free(struct batch *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->n_ops; i++)
        if (b->ops[i].placed)
            arena_done(&b->ops[i].placed->chunks);
    arena_done(&b->chunks);
    free(b->ops);
    free(b);
}

static struct str batch_copy(struct batch *b, struct str s)
{
    b->bytes += s.n;
    return arena_str(&b->chunks, s);
}

static struct task_state state_copy(struct batch *b, const struct task_state *from)
{
    struct task_state to = *from;
#define T(name) to.name = batch_copy(b, from->name);
    TASK_STATE_TEXTS(T)
    TASK_LONG_TEXTS(T)
#undef T
    return to;
}

static struct task_record *record_copy(struct batch *b, const struct task_record *from)
{
    struct task_record *to = arena_alloc(&b->chunks, sizeof *to);
    *to = *from;
#define T(name) to->name = batch_copy(b, from->name);
    TASK_NAMES(T)
    TASK_FIXED_TEXTS(T)
    TASK_INPUT_TEXTS(T)
    TASK_CONTEXT_TEXTS(T)
#undef T
    to->state = state_copy(b, &from->state);
    return to;
}

static struct message_record *message_copy(struct batch *b, const struct message_record *from)
{
    struct message_record *to = arena_alloc(&b->chunks, sizeof *to);
    *to = *from;
    to->message_id = batch_copy(b, from->message_id);
    to->parent_id = batch_copy(b, from->parent_id);
    to->behind = batch_copy(b, from->behind);
    to->task_id = batch_copy(b, from->task_id);
    to->content = batch_copy(b, from->content);
    to->parts = batch_copy(b, from->parts);
    return to;
}

static struct notice_record *notice_copy(struct batch *b, const struct notice_record *from)
{
    struct notice_record *to = arena_alloc(&b->chunks, sizeof *to);
    *to = *from;
    to->owner = batch_copy(b, from->owner);
    to->conversation_id = batch_copy(b, from->conversation_id);
    to->agent = batch_copy(b, from->agent);
    to->text = batch_copy(b, from->text);
    to->source = batch_copy(b, from->source);
    return to;
}

static struct outbox_record *outbox_copy(struct batch *b, const struct outbox_record *from)
{
    struct outbox_record *to = arena_alloc(&b->chunks, sizeof *to);
    *to = *from;
    to->hook = batch_copy(b, from->hook);
    to->id = batch_copy(b, from->id);
    to->body = batch_copy(b, from->body);
    return to;
}

static struct file_record *batch_copy_file(struct batch *b, const struct file_record *from)
{
    struct file_record *to = arena_alloc(&b->chunks, sizeof *to);
    *to = *from;
#define T(name) to->name = batch_copy(b, from->name);
    FILE_NAMES(T)
    FILE_TEXTS(T)
#undef T
    return to;
}

void batch_set_state(struct batch *b, struct op *op, const struct task_state *state)
{
    *op->state = state_copy(b, state);
}

void batch_set_mark(struct op *op, uint64_t mark)
{
    ASSERT(op->kind == OP_MARK && mark >= op->first);
    op->first = mark;
}

static bool borrows_bytes(const struct op *op)
{
    return op->kind == OP_SEAL || op->kind == OP_LINES;
}

struct op *batch_put(struct batch *b, const struct op *op)
{
    if (b->n_ops == b->cap_ops) {
        b->cap_ops = b->cap_ops ? b->cap_ops * 2 : 16;
        b->ops = xrealloc(b->ops, b->cap_ops * sizeof *b->ops);
    }
    struct op *to = &b->ops[b->n_ops++];
    *to = *op;
    if (borrows_bytes(op))
        b->bytes += op->bytes.n;
    else
        to->bytes = batch_copy(b, op->bytes);
    to->owner = batch_copy(b, op->owner);
    to->conversation_id = batch_copy(b, op->conversation_id);
    to->task_id = batch_copy(b, op->task_id);
    to->key = batch_copy(b, op->key);
    to->title = batch_copy(b, op->title);
    to->agent = batch_copy(b, op->agent);
    if (op->record)
        to->record = record_copy(b, op->record);
    if (op->state) {
        to->state = arena_alloc(&b->chunks, sizeof *to->state);
        batch_set_state(b, to, op->state);
    }
    if (op->message)
        to->message = message_copy(b, op->message);
    if (op->kind == OP_MESSAGE || op->kind == OP_BRANCH) {
        to->placed = arena_alloc(&b->chunks, sizeof *to->placed);
        *to->placed = (struct placed){0};
    }
    if (op->notice)
        to->notice = notice_copy(b, op->notice);
    if (op->outbox)
        to->outbox = outbox_copy(b, op->outbox);
    if (op->file)
        to->file = batch_copy_file(b, op->file);
    return to;
}

struct batch *batch_clone(const struct batch *b)
{
    struct batch *to = batch_new();
    to->number = b->number;
    to->n_events = b->n_events;
    for (size_t i = 0; i < b->n_ops; i++) {
        struct op op = b->ops[i];
        if (borrows_bytes(&op))
            op.bytes = arena_str(&to->chunks, op.bytes);
        batch_put(to, &op);
    }
    return to;
}
