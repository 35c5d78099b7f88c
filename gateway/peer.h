/* peer -- a configured HTTP server, made ready for fetches: its headers with the API key, its options.
 *
 * Thread:   loop.
 * Owns:     its headers; the configuration must outlive it.
 * Errors:   a sentence: the API key cannot be read.  It never holds a part of the key.
 */
#ifndef GATEWAY_PEER_H
#define GATEWAY_PEER_H

#include "gateway/config.h"
#include "gateway/fetch.h"

struct peer {
    struct fetch_options options;
    struct config_texts headers; /* those of the configuration, Content-Type, Authorization */
};

/* For requests that post JSON.  A zeroed peer is good for peer_done. */
bool peer_open(const struct config_peer *from, struct peer *ret, char *ret_error, size_t n)
    MUST_USE;
void peer_done(struct peer *peer);

#endif
