/* crew_page -- memory that the members of a crew share: metrics as text, and numbers of sockets.
 *
 * Shape:    a member writes its own text again and again, and reads those of all: whoever is asked
 *           answers for all, and what is read is never older than what was read before.  A series
 *           has the label process="N" in front of its own, so that one which begins again looks
 *           like a counter that begins again.
 * Thread:   the loop of each member, at the same time.
 * Errors:   a text that is too long, and that of a member which is gone, is left out.
 */
#ifndef GATEWAY_CREW_CREW_PAGE_H
#define GATEWAY_CREW_CREW_PAGE_H

#include "proto/buf.h"

struct crew_page;

struct crew_page *crew_page_new(unsigned members); /* before the first fork; NULL: errno */
void crew_page_put(struct crew_page *page, unsigned member, struct str text);
/* How many sockets it has, while it accepts further ones; and whether another one has fewer, so
 * that those which come now are better left to that. */
#define CREW_ACCEPTS_NONE UINT32_MAX
void crew_page_count(struct crew_page *page, unsigned member, uint32_t sockets);
bool crew_page_is_ahead(const struct crew_page *page, unsigned member, uint32_t sockets);
bool crew_page_others_accept(const struct crew_page *page, unsigned member); /* any sockets */
void crew_page_clear(struct crew_page *page, unsigned member);               /* it has ended */
/* Appends the families of all, each once. */
void crew_page_read(struct crew_page *page, struct buf *out);

#endif
