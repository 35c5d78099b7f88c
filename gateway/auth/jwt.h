/* jwt -- JSON Web Tokens (RFC 7515, 7519): read, verified, written. auth.c decides which to
 * believe.
 *
 * Shape:    jwt_read parses a token and believes nothing; jwt_is_signed_by checks one key, and the
 *           key fixes the algorithm.  Only the compact form in canonical, unpadded base64url is
 *           accepted; duplicate claims and critical extensions are refused.
 * Thread:   any; one struct jwt at a time.
 * Owns:     a struct jwt owns its copies of header and claims; the token stays the caller's and
 *           must outlive it.
 * Errors:   a few words, static, without any part of the token.
 * Limits:   MAX_TOKEN bytes.
 */
#ifndef GATEWAY_AUTH_JWT_H
#define GATEWAY_AUTH_JWT_H

#include "gateway/auth/jwt_key.h"
#include "proto/js.h"

#define MAX_TOKEN 16384        /* bytes */
#define MAX_JWT_SIGNATURE 2048 /* bytes: RSA of 16,384 bits */

struct jwt {
    struct str signed_part;
    struct buf header_text, claims_text;
    struct js_doc header, claims; /* objects */
    unsigned char signature[MAX_JWT_SIGNATURE];
    size_t n_signature;
};

/* NULL, or what is wrong.  Call jwt_done in both cases. */
const char *jwt_read(struct str token, struct jwt *ret) MUST_USE;
void jwt_done(struct jwt *jwt);

/* Whether the header's alg is exactly the key's. */
bool jwt_has_alg(const struct jwt *jwt, enum key_alg alg);
/* Whether the token has no kid, or this one. */
bool jwt_may_be_of(const struct jwt *jwt, const char *kid);
bool jwt_is_signed_by(const struct jwt *jwt, const struct jwt_key *key) MUST_USE;

/* Appends a token with these claims (a JSON object), signed with an HS256 key. */
void jwt_write(const struct jwt_key *key, struct str claims, struct buf *out);

#endif
