/* privilege -- whether a user is the root of the whole machine.
 *
 * Shape:    a question about a user id.  A user 0 of a user namespace (a rootless container) is not
 *           the machine's root: the kernel protects its own parameters from it.
 * Thread:   any.
 * Errors:   none: when the map cannot be read, user 0 counts as the machine's root.
 */
#ifndef GATEWAY_BASE_PRIVILEGE_H
#define GATEWAY_BASE_PRIVILEGE_H

#include <sys/types.h>

#include "proto/base.h"

bool privilege_is_root(uid_t user);

#endif
