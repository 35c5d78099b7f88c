/* folders -- creates a directory with its parents, and finds the one for a program's state.
 *
 * Thread:   any.
 * Errors:   false with errno.
 */
#ifndef GATEWAY_BASE_FOLDERS_H
#define GATEWAY_BASE_FOLDERS_H

#include "proto/buf.h"

/* Creates whatever is missing of the path, for its owner alone (0700). */
bool folders_make(const char *path) MUST_USE;
/* Appends $XDG_STATE_HOME/holdfast, or ~/.local/state/holdfast without it; ENOENT when there is no
 * HOME.  XDG's rule: a relative path in the variable is ignored. */
bool folders_put_state(struct buf *out) MUST_USE;

#endif
