#include "gateway/agents/exec_lines.h"

static struct str lines_cut(struct exec_lines *l, size_t end, size_t next)
{
    struct str line = {l->held.bytes + l->at, end - l->at};
    if (!l->bytes && line.n && line.p[line.n - 1] == '\r')
        line.n--;
    l->at = l->scanned = next;
    return line;
}

enum exec_next exec_lines_next(struct exec_lines *l, struct str *ret)
{
    size_t left = l->held.len - l->scanned;
    if (l->bytes) {
        if (l->held.len == l->at)
            return EXEC_NEXT_NONE;
        *ret = lines_cut(l, l->held.len, l->held.len);
        return EXEC_NEXT_ONE;
    }
    const char *newline = left ? memchr(l->held.bytes + l->scanned, '\n', left) : NULL;
    size_t end = newline ? (size_t)(newline - l->held.bytes) : l->held.len;
    l->scanned = end;
    if (end - l->at > l->max)
        return EXEC_NEXT_TOO_LONG;
    if (!newline)
        return EXEC_NEXT_NONE;
    *ret = lines_cut(l, end, end + 1);
    return EXEC_NEXT_ONE;
}

struct str exec_lines_rest(struct exec_lines *l)
{
    if (l->at == l->held.len)
        return STR("");
    return lines_cut(l, l->held.len, l->held.len);
}

void exec_lines_consume(struct exec_lines *l, size_t keep_cap)
{
    buf_consume(&l->held, l->at);
    l->scanned -= l->at;
    l->at = 0;
    if (l->held.len == 0 && l->held.cap > keep_cap)
        buf_done(&l->held);
}

void exec_lines_done(struct exec_lines *l)
{
    buf_done(&l->held);
    l->at = l->scanned = 0;
}

void exec_tail_put(struct exec_tail *t, const char *bytes, size_t n)
{
    size_t fresh = n < EXEC_TAIL ? n : EXEC_TAIL;
    size_t kept = t->n < EXEC_TAIL - fresh ? t->n : EXEC_TAIL - fresh;
    memmove(t->bytes, t->bytes + t->n - kept, kept);
    memcpy(t->bytes + kept, bytes + n - fresh, fresh);
    t->n = kept + fresh;
}

struct str exec_tail_str(const struct exec_tail *t)
{
    size_t n = t->n;
    while (n && strchr(" \t\r\n", t->bytes[n - 1]))
        n--;
    return (struct str){t->bytes, n};
}
