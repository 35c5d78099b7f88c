/* file_link -- the proof in a URL that its bearer may read one file of an owner's, for an hour.
 *
 * Shape:    OWNER.EXPIRES.MAC: the owner and an HMAC-SHA256 (RFC 2104) of owner, conversation, file
 *           and expiry as base64url, the expiry as Unix seconds.  The file is what the URL's path
 *           names.  The key is no other's: the proof is good for no token, and no token for it.
 * Units:    Unix ms.  The same file has the same proof for FILE_LINK_STEP_S, so that a server that
 *           keeps what it was asked before finds the request's beginning unchanged.
 * Thread:   any.
 * Owns:     nothing.
 * Errors:   false, without a reason: nobody learns how near a proof came.
 */
#ifndef GATEWAY_AUTH_FILE_LINK_H
#define GATEWAY_AUTH_FILE_LINK_H

#include "proto/buf.h"

#define FILE_LINK_KEY_BYTES 32
#define FILE_LINK_QUERY "signed"
#define FILE_LINK_S 3600     /* at most … */
#define FILE_LINK_STEP_S 600 /* … and at least so much less */

struct file_link {
    struct str owner, conversation_id, file_id; /* none has a NUL in it */
};

bool file_link_put(const unsigned char key[FILE_LINK_KEY_BYTES], const struct file_link *link,
                   int64_t wall_ms, struct buf *out) MUST_USE;
/* link: what the path names, without an owner; that is appended to owner when the proof is good. */
bool file_link_read(const unsigned char key[FILE_LINK_KEY_BYTES], const struct file_link *link,
                    struct str proof, int64_t wall_ms, struct buf *owner,
                    int64_t *ret_expires_at_ms) MUST_USE;

#endif
