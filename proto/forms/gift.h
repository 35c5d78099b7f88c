/* gift -- the bytes within a block of content, as MCP and ACP write it: an image, a sound, or a
 * resource with a blob.
 *
 * Thread:   any.
 * Owns:     its texts; gift_done frees them.
 */
#ifndef PROTO_FORMS_GIFT_H
#define PROTO_FORMS_GIFT_H

#include "proto/js.h"

struct gift {
    struct buf bytes;
    struct buf name; /* the last segment of its URI, where that is a name; "" for none */
    struct buf type; /* its media type; "": it names none, or what is none */
    struct buf call; /* the id of the call that it is a result of; "" for none */
};

/* block: a node of doc.  False, and nothing is owned: it has no bytes, or they are no base64. */
bool gift_read(const struct js_doc *doc, uint32_t block, struct gift *ret) MUST_USE;
void gift_done(struct gift *gift);

#endif
