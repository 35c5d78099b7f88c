/* SHA-256 with its padding put behind the line, so that a short line is one call over all of its
 * two or three blocks.  A context of EVP would cost a third more. */
#define OPENSSL_API_COMPAT 10101 /* they are deprecated, and as fast as the processor */
#include "gateway/base/chain_digest.h"

#include <openssl/sha.h>

#define PIECE (16 * SHA256_CBLOCK)

_Static_assert(CHAIN_BYTES == SHA256_DIGEST_LENGTH, "a hash is a digest");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "its words are the other way round");

static void put_big(uint8_t *to, uint32_t n)
{
    uint32_t big = __builtin_bswap32(n);
    memcpy(to, &big, sizeof big);
}

/* FIPS 180-4 section 5.1.1: a one, zeros, and the number of bits, up to the end of a block. */
static size_t put_padding(uint8_t *piece, size_t used, uint64_t bytes)
{
    size_t end = (used + 8 + SHA256_CBLOCK) / SHA256_CBLOCK * SHA256_CBLOCK;
    piece[used] = 0x80;
    memset(piece + used + 1, 0, end - 8 - used - 1);
    put_big(piece + end - 8, (uint32_t)(bytes >> 29));
    put_big(piece + end - 4, (uint32_t)(bytes << 3));
    return end;
}

void chain_digest(uint8_t hash[CHAIN_BYTES], struct str line)
{
    SHA256_CTX c;
    uint8_t piece[PIECE + SHA256_CBLOCK];
    size_t used = CHAIN_BYTES;
    uint64_t bytes = CHAIN_BYTES + line.n;
    SHA256_Init(&c);
    memcpy(piece, hash, CHAIN_BYTES);
    while (line.n >= PIECE - used) {
        size_t n = PIECE - used;
        memcpy(piece + used, line.p, n);
        SHA256_Update(&c, piece, PIECE);
        line = (struct str){line.p + n, line.n - n};
        used = 0;
    }
    memcpy(piece + used, line.p, line.n);
    SHA256_Update(&c, piece, put_padding(piece, used + line.n, bytes));
    for (size_t i = 0; i < CHAIN_BYTES / 4; i++)
        put_big(hash + 4 * i, c.h[i]);
}
