/* task_fixed -- the half of a task's record that never changes, in one piece of memory.
 *
 * Shape:    what every task has, then those strings that this one has: a length and its bytes each,
 *           in the order of enum task_field.  Found by walking: there are few, and they are seldom
 *           asked for.  Owner, conversation, id and key are not in it: the task's stream has them.
 * Thread:   loop.
 * Owns:     one allocation: free() it.  Spans of it live as long as it does.
 * Errors:   aborts when memory is out; who makes a task has checked what a peer sizes (limits.h).
 * Why:      most live tasks are silent, and there are many: eleven strings of their own would take
 *           more memory than they say.
 */
#ifndef CORE_TASK_FIXED_H
#define CORE_TASK_FIXED_H

#include "proto/record.h"

/* The last two can be dropped. */
#define TASK_FIELDS(T)  \
    TASK_FIXED_TEXTS(T) \
    T(metadata)         \
    T(context)          \
    T(input)
enum task_field {
#define T(name) FIELD_##name,
    TASK_FIELDS(T)
#undef T
        N_TASK_FIELDS
};

struct task_fixed {
    int64_t created_at;
    uint16_t has; /* a bit for each enum task_field */
    uint8_t type; /* enum task_type */
    bool notify_on_complete : 1;
    bool waits : 1;
    unsigned char packed[];
};

struct task_fixed *task_fixed_new(const struct task_record *rec);
/* NULL span for what it has not. */
struct str task_fixed_get(const struct task_fixed *f, enum task_field field);
/* Sets those members of the record; its strings are spans of f. */
void task_fixed_fill(const struct task_fixed *f, struct task_record *rec);
/* The same without context and input, which may be most of it.  Spans of f are no longer valid. */
struct task_fixed *task_fixed_drop_input(struct task_fixed *f) MUST_USE;

#endif
