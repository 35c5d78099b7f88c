/* chain -- the continuity proof of a task: h(0) is 32 zero bytes, h(n) the SHA-256 of h(n-1) and
 * the n-th event's line (PROTOCOL.md section 4).  Its terminal event tells h of the one before it.
 *
 * Shape:    a stream hashes its blocks as they are committed, and what is in no block yet at the
 *           end: each line once.  Nothing of it is stored: a start reads the blocks of every live
 *           task anyhow.
 * Thread:   loop.
 * Owns:     its own memory; the stream owns the chain.
 * Errors:   lines that are missing end it: then the terminal event has none.
 */
#ifndef CORE_CHAIN_H
#define CORE_CHAIN_H

#include "proto/base.h"

#define CHAIN_BYTES 32
#define CHAIN_HEX (2 * CHAIN_BYTES)

/* SHA-256 of hash and line, into hash. */
typedef void (*chain_digest_fn)(uint8_t hash[CHAIN_BYTES], struct str line);

struct chain {
    chain_digest_fn digest;
    uint64_t seq; /* of the last line; UINT64_MAX: lines are missing */
    bool proved;  /* the end tells it: nothing more is taken */
    uint8_t hash[CHAIN_BYTES];
};

struct chain *chain_new(chain_digest_fn digest);
/* Whole lines with the seqs first to last. */
void chain_take(struct chain *c, struct str lines, uint64_t first, uint64_t last);
/* False when lines are missing. */
bool chain_hex(const struct chain *c, char ret[CHAIN_HEX + 1]) MUST_USE;

#endif
