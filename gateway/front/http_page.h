/* http_page -- the operator's own chat page: its facts, and its mark.
 *
 * Thread:   the loop's.
 * Errors:   none; the configuration was checked (config_page.c).
 * Source:   PROTOCOL.md 7, `/page.json` and `/mark`.
 */
#ifndef GATEWAY_FRONT_HTTP_PAGE_H
#define GATEWAY_FRONT_HTTP_PAGE_H

#include "gateway/config/config.h"
#include "gateway/front/web_files.h"

void http_page_put_facts(const struct config *c, struct buf *out);

#define HTTP_PAGE_HASH 17 /* characters of a mark's hash, and a NUL */

/* False: there is none.  What *ret points to belongs to c and to hash. */
bool http_page_mark(const struct config *c, char hash[static HTTP_PAGE_HASH], struct web_file *ret)
    MUST_USE;

#endif
