/* tls -- the certificate of the gateway's port, and how to replace it while connections are open.
 *
 * Shape:    libwebsockets reads certificate and key at the start, after tls_check has, whose words
 *           are clearer; tls_begin gets the OpenSSL context that it made.  tls_reload reads the
 *           files again, into a context of its own, so that a pair that does not fit changes
 *           nothing.  Handshakes from then on take their pair from there, and never an older one;
 *           open connections continue.
 * Thread:   loop.
 * Owns:     the pair that was read last, which is freed with libwebsockets' context.
 */
#ifndef GATEWAY_FRONT_TLS_H
#define GATEWAY_FRONT_TLS_H

#include <openssl/ssl.h>

#include "gateway/config/config.h"

/* TLS 1.2 and 1.3, no compression, no renegotiation by the client (RFC 9325). */
void tls_begin(SSL_CTX *context);
/* NULL, or why the configured pair cannot be served, in a static buffer: which file, and what is
 * wrong with it. */
const char *tls_check(const struct config *config);
/* NULL, or why it failed, as above. */
const char *tls_reload(SSL_CTX *context, const struct config *config);

#endif
