/* complaint -- what another server says is wrong, as one line that can stand in an error.
 *
 * Thread:   any.
 */
#ifndef GATEWAY_FETCH_COMPLAINT_H
#define GATEWAY_FETCH_COMPLAINT_H

#include "proto/js.h"

#define COMPLAINT_BYTES 300 /* longer ones are cut */

/* Appends it: of a JSON object, or the first one of an array, what its error, errors, message,
 * detail or msg says; of other text its first line; nothing of a page of HTML, or when nothing is
 * said.  Valid UTF-8, no controls. */
void complaint_put(struct buf *out, struct str body);
/* The same of a parsed object, for streams that have one among other things. */
void complaint_put_node(struct buf *out, const struct js_doc *doc, uint32_t object);

#endif
