#include "core/chain.h"

struct chain *chain_new(chain_digest_fn digest)
{
    struct chain *c = xcalloc(sizeof *c);
    c->digest = digest;
    return c;
}

void chain_take(struct chain *c, struct str lines, uint64_t first, uint64_t last)
{
    if (c->seq == UINT64_MAX || first != c->seq + 1) {
        c->seq = UINT64_MAX;
        return;
    }
    while (lines.n > 0) {
        const char *newline = memchr(lines.p, '\n', lines.n);
        size_t n = newline ? (size_t)(newline - lines.p) : lines.n;
        c->digest(c->hash, (struct str){lines.p, n});
        n += newline ? 1 : 0;
        lines.p += n;
        lines.n -= n;
    }
    c->seq = last;
}

bool chain_hex(const struct chain *c, char ret[CHAIN_HEX + 1])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < CHAIN_BYTES; i++) {
        ret[2 * i] = digits[c->hash[i] >> 4];
        ret[2 * i + 1] = digits[c->hash[i] & 15];
    }
    ret[CHAIN_HEX] = 0;
    return c->seq != UINT64_MAX;
}
