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

struct upstream {
    struct fetch_options options;
    struct config_texts headers; /* from the configuration, Content-Type, Authorization */
};

/* For requests that post JSON.  upstream_done accepts a zeroed upstream. */
bool upstream_open(const struct config_upstream *from, struct upstream *ret, char *ret_error,
                   size_t n) MUST_USE;
void upstream_done(struct upstream *upstream);

#endif
