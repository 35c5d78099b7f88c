/* jwks -- an issuer's keys, by the URL at which it publishes them (RFC 7517 section 5).
 *
 * Shape:    the set is fetched at the start, again when it is JWKS_FRESH_MS old, and when a token
 *           has a kid that it lacks, JWKS_BURST times and then at most once in JWKS_COOL_MS.  A set
 *           that came replaces the one before, so a key that its issuer withdraws is good for
 *           JWKS_FRESH_MS at most; one that does not come, or has no key that we know, leaves the
 *           one before as it is, however long.  What came is kept in DATA/jwks.json: a start during
 *           an outage knows the last keys.
 * Trust:    public keys for signatures alone, RS256, ES256 and EdDSA; the key fixes the algorithm.
 *           Everything else in a set is passed over.  Redirects are not followed.
 * Thread:   loop.
 * Owns:     its keys; they live until the next set comes.
 * Errors:   in the log, when a fetch fails after one that did not, and when it works again.
 */
#ifndef GATEWAY_AUTH_JWKS_H
#define GATEWAY_AUTH_JWKS_H

#include "core/clock.h"
#include "gateway/auth/jwt_key.h"

#define JWKS_FRESH_MS (10 * 60 * 1000)
#define JWKS_COOL_MS (30 * 1000)
#define JWKS_BURST 4
#define JWKS_BYTES (256 * 1024) /* of a set */
#define JWKS_KEYS 64            /* of a set; further ones are passed over */

struct fetcher;
struct jwks;

struct jwks_stats {
    uint64_t fetched, failed;
    int64_t age_ms; /* of the keys, as long as this gateway knows; -1: there are none */
};

/* The texts must outlive it.  The first fetch begins at once. */
struct jwks *jwks_open(struct clock *clock, struct fetcher *fetcher, const char *url,
                       const char *data_dir);
void jwks_close(struct jwks *j); /* NULL is allowed */
const struct jwt_key *jwks_keys(const struct jwks *j, size_t *ret_n);
/* A token names a key that the set lacks.  True: the keys are under way, or there never were any,
 * so that its bearer may try again soon. */
bool jwks_miss(struct jwks *j);
struct jwks_stats jwks_stats(const struct jwks *j); /* NULL: zeros */

#endif
