/* privilege -- whether a user is the root of the whole machine.
 *
 * Shape:    a question about a user id.  A user 0 of a user namespace (a rootless container) is not
 *           the machine's root: the kernel keeps its parameters from it.
 * Thread:   any.
 * Errors:   none: what cannot be read counts as the machine's own.
 */
#ifndef GATEWAY_BASE_PRIVILEGE_H
#define GATEWAY_BASE_PRIVILEGE_H

#include <sys/types.h>

#include "proto/base.h"

bool privilege_is_root(uid_t user);

#endif
