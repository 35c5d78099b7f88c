/* console_head -- the head of a request from a browser to the operator's console, and what of it
 * may go on to the gateway.
 *
 * Shape:    pure.  One request on a connection.  What is not understood is refused, so that the
 *           console and the gateway never read the same bytes differently: no Transfer-Encoding, no
 *           folded lines, each header that counts at most once.
 * Thread:   any.
 * Errors:   the status to answer with, and a static sentence.
 */
#ifndef GATEWAY_CLI_CONSOLE_HEAD_H
#define GATEWAY_CLI_CONSOLE_HEAD_H

#include "proto/buf.h"

#define CONSOLE_HEAD_MAX 16384
#define CONSOLE_BODY_MAX 65536

struct console_head {
    struct str method, path;                                    /* path: with its query */
    struct str host, origin, site, bearer, owner, content_type; /* p NULL: absent */
    size_t length;                                              /* of the body */
    size_t head_bytes;                                          /* with the empty line */
};

/* bytes begins with a whole head (it has an empty line).  0 when it was read. */
int console_head_read(struct str bytes, struct console_head *ret, const char **ret_why) MUST_USE;
/* Whether a page of this origin, "127.0.0.1:PORT", or nobody's page has sent it: by the Host that a
 * rebound name cannot have, and by what browsers say of other sites.  0, or the status. */
int console_head_check(const struct console_head *head, int port, const char **ret_why) MUST_USE;
/* Whether it asks for a file of the page: a plain name, since a server may read dots, slashes and
 * percent signs in other ways. */
bool console_head_is_page(const struct console_head *head);
/* Appends the head for the gateway: without the bearer, and closing. */
void console_head_put(const struct console_head *head, struct buf *out);

#endif
