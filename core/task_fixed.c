#include "core/task_fixed.h"

#include "proto/varint.h"

static const size_t members[N_TASK_FIELDS] = {
#define T(name) [FIELD_##name] = offsetof(struct task_record, name),
    TASK_FIELDS(T)
#undef T
};

static struct str member(const struct task_record *rec, size_t i)
{
    return *(const struct str *)(const void *)((const char *)rec + members[i]);
}

static unsigned char *fixed_put(unsigned char *to, struct str s)
{
    to = varint_put(to, s.n);
    if (s.n)
        memcpy(to, s.p, s.n);
    return to + s.n;
}

static struct str fixed_take(const unsigned char **at)
{
    struct str s = {(const char *)*at, VARINT_MAX};
    uint64_t n;
    ASSERT(varint_take(&s, &n));
    s.n = (size_t)n;
    *at = (const unsigned char *)s.p + s.n;
    return s;
}

static bool fixed_has(const struct task_fixed *f, size_t field)
{
    return f->has >> field & 1;
}

struct task_fixed *task_fixed_new(const struct task_record *rec)
{
    size_t bytes = 0;
    uint16_t set = 0;
    for (size_t i = 0; i < N_TASK_FIELDS; i++) {
        struct str s = member(rec, i);
        if (!s.p)
            continue;
        set |= (uint16_t)(1u << i);
        bytes += varint_size(s.n) + s.n;
    }
    struct task_fixed *f = xalloc(sizeof *f + bytes);
    *f = (struct task_fixed){.created_at = rec->created_at,
                             .has = set,
                             .type = (uint8_t)rec->type,
                             .notify_on_complete = rec->notify_on_complete,
                             .waits = rec->waits};
    unsigned char *to = f->packed;
    for (size_t i = 0; i < N_TASK_FIELDS; i++)
        if (fixed_has(f, i))
            to = fixed_put(to, member(rec, i));
    ASSERT(to == f->packed + bytes);
    return f;
}

struct str task_fixed_get(const struct task_fixed *f, enum task_field field)
{
    if (!fixed_has(f, field))
        return STR_NULL;
    const unsigned char *at = f->packed;
    for (size_t i = 0; i < field; i++)
        if (fixed_has(f, i))
            fixed_take(&at);
    return fixed_take(&at);
}

void task_fixed_fill(const struct task_fixed *f, struct task_record *rec)
{
    const unsigned char *at = f->packed;
    rec->created_at = f->created_at;
    rec->type = (enum task_type)f->type;
    rec->notify_on_complete = f->notify_on_complete;
    rec->waits = f->waits;
    for (size_t i = 0; i < N_TASK_FIELDS; i++)
        *(struct str *)(void *)((char *)rec + members[i]) =
            fixed_has(f, i) ? fixed_take(&at) : STR_NULL;
}

struct task_fixed *task_fixed_drop_input(struct task_fixed *f)
{
    if (!fixed_has(f, FIELD_input) && !fixed_has(f, FIELD_parts) && !fixed_has(f, FIELD_context))
        return f;
    const unsigned char *end = f->packed;
    for (size_t i = 0; i < FIELD_context; i++)
        if (fixed_has(f, i))
            fixed_take(&end);
    f->has &= (uint16_t) ~(1u << FIELD_input | 1u << FIELD_parts | 1u << FIELD_context);
    return xrealloc(f, sizeof *f + (size_t)(end - f->packed));
}
