/* face_parts -- the parts of another protocol's message, as a message of our own (PROTOCOL.md 3).
 *
 * Shape:    texts and files are added in order; as long as there is no file, the message is the
 *           joined texts.  A file's bytes come as base64 or in a data URL (RFC 2397); the path of a
 *           file on the gateway names that file, which was uploaded before.
 * Thread:   any.
 * Owns:     its buffers; face_parts_done frees them.
 * Errors:   a sentence's end: what is wrong with the file.
 */
#ifndef PROTO_FACES_FACE_PARTS_H
#define PROTO_FACES_FACE_PARTS_H

#include "proto/js.h"

struct face_parts {
    struct buf json; /* without its closing bracket; "" for none */
    bool has_file;
};

/* A string of the document; 0: nothing is added. */
void face_parts_text(struct face_parts *p, const struct js_doc *doc, uint32_t text);
void face_parts_say(struct face_parts *p, struct str text);
/* NULL, or what is wrong.  Nodes are strings, 0 for none; the type of a data URL is its own. */
const char *face_parts_url(struct face_parts *p, const struct js_doc *doc, uint32_t url,
                           uint32_t name);
const char *face_parts_data(struct face_parts *p, const struct js_doc *doc, uint32_t base64,
                            uint32_t media_type, uint32_t name);
/* Appends the parts, a JSON array, when one of them is a file: else their texts say all. */
void face_parts_end(const struct face_parts *p, struct buf *out);
void face_parts_done(struct face_parts *p);

/* The member "message" of a chat: the parts, or the text when there are none (n 0). */
void face_put_message(struct buf *body, struct str text, struct str parts);

#endif
