/* guest_key -- the gateway's own key, which signs guests' tokens, in a file.
 *
 * Shape:    <data>/guest.key, or a key that follows from a cluster's secret.  The file
 *           holds GUEST_KEY_BYTES random bytes and nothing else, mode 0600.  It is written and
 *           synced under another name first, so that there is never half a key; when two processes
 *           create one at once, both use the first.
 * Thread:   any.
 * Owns:     nothing.
 */
#ifndef GATEWAY_AUTH_GUEST_KEY_H
#define GATEWAY_AUTH_GUEST_KEY_H

#include "proto/base.h"

#define GUEST_KEY_BYTES 32

/* Reads the key, or creates it when there is none.  NULL, or what is wrong. */
const char *guest_key_load(const char *data_dir, unsigned char ret[GUEST_KEY_BYTES]) MUST_USE;
/* The key of all gateways that have the same secret, a file of at least 32 bytes: HMAC-SHA256 of a
 * text of ours (RFC 2104), so that the secret itself signs nothing. */
const char *guest_key_derive(const char *secret_file, unsigned char ret[GUEST_KEY_BYTES]) MUST_USE;

/* The key that signs the gateway's own tokens, such as those of shares: it follows from the key. */
bool guest_key_own(const unsigned char key[GUEST_KEY_BYTES], unsigned char ret[GUEST_KEY_BYTES])
    MUST_USE;
/* The key of proofs in the URLs of files (file_link.h), in the same way. */
bool guest_key_files(const unsigned char key[GUEST_KEY_BYTES], unsigned char ret[GUEST_KEY_BYTES])
    MUST_USE;

#endif
