#include "gateway/base/header_list.h"

#include "proto/str.h"

static struct str take(struct str *list, size_t end)
{
    struct str member = {list->p, end};
    *list = str_from(*list, end + (end < list->n));
    return str_trim(member);
}

struct str header_list_next(struct str *list, char separator)
{
    const char *end = list->n ? memchr(list->p, separator, list->n) : NULL;
    return take(list, end ? (size_t)(end - list->p) : list->n);
}

struct str header_list_next_quoted(struct str *list, char separator)
{
    bool quoted = false;
    size_t end = 0;
    while (end < list->n && (quoted || list->p[end] != separator))
        quoted ^= list->p[end++] == '"';
    return take(list, end);
}

struct str header_list_last(struct str *list, char separator)
{
    const char *before = list->n ? memrchr(list->p, separator, list->n) : NULL;
    size_t at = before ? (size_t)(before - list->p) + 1 : 0;
    struct str member = str_from(*list, at);
    list->n = at ? at - 1 : 0;
    return str_trim(member);
}
