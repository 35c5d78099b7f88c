/* complaint -- another server's error message, as one line for an error of ours.
 *
 * Thread:   any.
 */
#ifndef GATEWAY_FETCH_COMPLAINT_H
#define GATEWAY_FETCH_COMPLAINT_H

#include "proto/js.h"

#define COMPLAINT_BYTES 300 /* longer ones are cut */

/* Appends it: for a JSON object, or the first one of an array, the text of its error, errors,
 * message, detail or msg; for other text its first line; nothing for a page of HTML, or without a
 * message.  Valid UTF-8, no controls. */
void complaint_put(struct buf *out, struct str body);
/* The same for a parsed object, for streams that contain one among other things. */
void complaint_put_node(struct buf *out, const struct js_doc *doc, uint32_t object);

#endif
