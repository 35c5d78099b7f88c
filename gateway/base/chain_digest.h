/* chain_digest -- the digest of core/chain.h, by OpenSSL.
 *
 * Thread:   one.
 */
#ifndef GATEWAY_BASE_CHAIN_DIGEST_H
#define GATEWAY_BASE_CHAIN_DIGEST_H

#include "core/chain.h"

void chain_digest(uint8_t hash[CHAIN_BYTES], struct str line);

#endif
