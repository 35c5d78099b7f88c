#include "core/tool_names.h"

#include <stdlib.h>

#define TOOL_NAMES 32
#define TOOL_NAME_BYTES 512

struct tool_names {
    struct tool_name {
        struct buf call_id, name;
    } ring[TOOL_NAMES];
    size_t next;
};

void tool_names_tell(struct tool_names **names, struct str call_id, struct str name)
{
    if (call_id.n + name.n > TOOL_NAME_BYTES)
        return;
    if (!*names)
        *names = xcalloc(sizeof **names);
    struct tool_name *to = &(*names)->ring[(*names)->next++ % TOOL_NAMES];
    buf_clear(&to->call_id);
    buf_clear(&to->name);
    buf_putstr(&to->call_id, call_id);
    buf_putstr(&to->name, name);
}

struct str tool_names_of(const struct tool_names *names, struct str call_id)
{
    size_t told = names ? names->next : 0;
    for (size_t back = 1; back <= TOOL_NAMES && back <= told; back++) {
        const struct tool_name *each = &names->ring[(told - back) % TOOL_NAMES];
        if (str_eq(buf_str(&each->call_id), call_id))
            return buf_str(&each->name);
    }
    return STR_NULL;
}

void tool_names_free(struct tool_names *names)
{
    if (!names)
        return;
    for (size_t i = 0; i < TOOL_NAMES; i++) {
        buf_done(&names->ring[i].call_id);
        buf_done(&names->ring[i].name);
    }
    free(names);
}
