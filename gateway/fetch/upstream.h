/* upstream -- a configured HTTP server, ready for fetches: its headers with the API key, its
 * options.
 *
 * Thread:   loop.
 * Owns:     its headers; the configuration must outlive it.
 * Errors:   a sentence: the API key cannot be read, or is malformed.  It never contains a part of
 *           the key.
 */
#ifndef GATEWAY_FETCH_UPSTREAM_H
#define GATEWAY_FETCH_UPSTREAM_H

#include "gateway/config/config.h"
#include "gateway/fetch/fetch.h"

#define UPSTREAM_ADDED 4 /* headers that are added to the configured ones, at most */

struct upstream {
    struct fetch_options options;
    struct config_texts headers; /* from the configuration, Content-Type, Accept, the key's */
    size_t room;                 /* for headers */
};

/* For requests that post JSON.  key_header: whose value is the API key; NULL: Authorization, with
 * "Bearer ".  upstream_done accepts a zeroed upstream. */
bool upstream_open(const struct config_upstream *from, const char *key_header, struct upstream *ret,
                   char *ret_error, size_t n) MUST_USE;
/* Adds one more header, unless the configuration has it. */
void upstream_add(struct upstream *upstream, const char *name, const char *value);
void upstream_done(struct upstream *upstream);

#endif
