#include "gateway/models/json_end.h"

static void take_in_string(struct json_end *e, char c)
{
    if (e->escaped)
        e->escaped = false;
    else if (c == '\\')
        e->escaped = true;
    else if (c == '"')
        e->in_string = false;
}

/* True when c closes the first bracket. */
static bool take(struct json_end *e, char c)
{
    switch (c) {
    case '"': e->in_string = e->depth > 0; return false;
    case '{':
    case '[': e->depth++; return false;
    case '}':
    case ']': return e->depth > 0 && --e->depth == 0;
    default: return false;
    }
}

size_t json_end_find(struct json_end *e, struct str piece)
{
    for (size_t i = 0; i < piece.n; i++) {
        if (e->in_string)
            take_in_string(e, piece.p[i]);
        else if (take(e, piece.p[i]))
            return i + 1;
    }
    return 0;
}
