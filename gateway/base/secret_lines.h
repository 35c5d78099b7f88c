/* secret_lines -- the secrets among "Name: value" headers and "NAME=value" variables.
 *
 * Shape:    a name decides: those with key, token, secret, pass, authorization, cookie or
 *           credential in them, in any case, have a value that is one.  Of "Bearer X" and the like
 *           X is the secret.
 * Thread:   as secrets_add.
 */
#ifndef GATEWAY_BASE_SECRET_LINES_H
#define GATEWAY_BASE_SECRET_LINES_H

#include "core/secrets.h"

/* lines: up to a NULL; NULL for none.  s may be NULL. */
void secret_lines_add(struct secrets *s, char *const *lines, char separator);

#endif
