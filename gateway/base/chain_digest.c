#include "gateway/base/chain_digest.h"

#include <openssl/evp.h>

/* The context is kept: to fetch the digest costs more than to hash a line. */
void chain_digest(uint8_t hash[CHAIN_BYTES], struct str line)
{
    static EVP_MD_CTX *ctx;
    const EVP_MD *kind = NULL;
    unsigned n = 0;
    if (!ctx) {
        ctx = EVP_MD_CTX_new();
        kind = EVP_sha256();
    }
    ASSERT(ctx && EVP_DigestInit_ex(ctx, kind, NULL) == 1);
    ASSERT(EVP_DigestUpdate(ctx, hash, CHAIN_BYTES) == 1);
    ASSERT(EVP_DigestUpdate(ctx, line.p, line.n) == 1);
    ASSERT(EVP_DigestFinal_ex(ctx, hash, &n) == 1 && n == CHAIN_BYTES);
}
