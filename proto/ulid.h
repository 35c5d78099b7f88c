/* ulid -- unguessable ids in order of creation (48 bits of wall milliseconds, 80 random bits).
 *
 * Shape:    26 characters of Crockford's base 32; within one millisecond, and when the clock goes
 *           back, the next id is the last one plus a random step, so that order always holds.
 * Thread:   one generator belongs to one thread.
 * Why:      the ULID specification (github.com/ulid/spec), its monotonic form; the step is random,
 *           since "plus one" would let an owner guess the next id.
 */
#ifndef PROTO_ULID_H
#define PROTO_ULID_H

#include "proto/base.h"
#include "proto/limits.h"

struct ulid_source {
    uint8_t last[16];
    bool (*random)(void *bytes, size_t n); /* cryptographic; false on failure */
};

/* Writes 26 characters and a NUL. */
void ulid_next(struct ulid_source *source, int64_t wall_ms, char ret_id[TASK_ID_LEN + 1]);
/* Ids made from now on sort after this one (for a restart after the clock went back). */
void ulid_after(struct ulid_source *source, struct str id);
bool ulid_is_valid(struct str id); /* 26 characters of the alphabet, upper case, no overflow */

/* Writes 26 characters and a NUL. */
void ulid_write(const uint8_t id[16], char ret_id[TASK_ID_LEN + 1]);
/* Its 128 bits, big end first; false when it is not valid. */
bool ulid_read(struct str id, uint8_t ret_bytes[16]) MUST_USE;

#endif
