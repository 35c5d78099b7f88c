/* jwt_key -- a key that verifies tokens, parsed once and kept.
 *
 * Shape:    from a PEM file, a JWK, a JWK set, or (HS256) a file of raw bytes.
 * Thread:   any; const once opened.
 * Owns:     its key material, which jwt_key_done wipes.
 */
#ifndef GATEWAY_AUTH_JWT_KEY_H
#define GATEWAY_AUTH_JWT_KEY_H

#include "gateway/config/config.h"

#define MIN_SECRET 32 /* bytes: as long as HS256's output (RFC 7518 section 3.2) */
#define MIN_RSA_BITS 2048

struct jwt_key {
    char *kid;
    enum key_alg alg;
    struct evp_pkey_st *public_key; /* NULL for HS256 */
    unsigned char *secret;          /* HS256 */
    size_t n_secret;
};

/* Reads the file that the configuration names.  NULL, or what is wrong with it; call jwt_key_done
 * in both cases. */
const char *jwt_key_open(const struct config_key *config, struct jwt_key *ret) MUST_USE;
/* Reads the public keys for signatures of a JWK set (RFC 7517 section 5), each with its kid ("" for
 * none), and passes over all that is something else; returns how many, at most max. */
size_t jwt_keys_of_set(struct str text, struct jwt_key *ret, size_t max);
/* An HS256 key of given bytes. */
void jwt_key_of_secret(const char *kid, const void *secret, size_t n, struct jwt_key *ret);
void jwt_key_done(struct jwt_key *key);

#endif
