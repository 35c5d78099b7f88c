/* tool -- the port behind which an agent's tools lie.
 *
 * Thread:   loop.  call must not block.
 */
#ifndef CORE_TOOL_H
#define CORE_TOOL_H

#include "proto/js.h"

struct tool {
    const char *name;
    const char *description;
    const char *parameters; /* JSON Schema of the arguments */
    /* Appends the output (plain text) to out; false for an error, whose text is then in out. */
    bool (*call)(struct str arguments, int64_t wall_ms, struct buf *out);
};

#endif
