/* task_fixed -- the half of a task's record that never changes, in one piece of memory.
 *
 * Shape:    the members that every task has, then the strings that this one has: a length and its
 *           bytes each, in the order of enum task_field.  They are found by walking: there are few,
 *           and they are seldom needed.  Owner, conversation, id and key are in the task's stream.
 * Thread:   loop.
 * Owns:     one allocation: free() it.  Its spans live as long as it does.
 * Errors:   aborts when memory is out; the creator of a task has checked sizes that a peer chooses
 *           (limits.h).
 * Why:      most live tasks are silent, and there are many: eleven separate strings would take more
 *           memory than their contents.
 */
#ifndef CORE_TASK_FIXED_H
#define CORE_TASK_FIXED_H

#include "proto/record.h"

/* The input is last, so that it can be dropped. */
#define TASK_FIELDS(T)  \
    TASK_FIXED_TEXTS(T) \
    T(metadata)         \
    T(context)          \
    T(parts)            \
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
/* A NULL span for a string that it does not have. */
struct str task_fixed_get(const struct task_fixed *f, enum task_field field);
/* Sets these members of the record; its strings are spans of f. */
void task_fixed_fill(const struct task_fixed *f, struct task_record *rec);
/* The same without its input, which may be most of it.  Spans of f become invalid. */
struct task_fixed *task_fixed_drop_input(struct task_fixed *f) MUST_USE;

#endif
