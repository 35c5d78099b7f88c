/* folders -- directories: one is made with all that is above it; and where a program keeps its
 * state.
 *
 * Thread:   any.
 * Errors:   false with errno.
 */
#ifndef GATEWAY_BASE_FOLDERS_H
#define GATEWAY_BASE_FOLDERS_H

#include "proto/buf.h"

/* What is missing of the path is made, for its owner alone (0700). */
bool folders_make(const char *path) MUST_USE;
/* Appends $XDG_STATE_HOME/holdfast, else ~/.local/state/holdfast; ENOENT when there is no HOME.
 * XDG's rule: a relative path there is to be ignored. */
bool folders_put_state(struct buf *out) MUST_USE;

#endif
