#include "proto/ulid.h"

/* Design.  An id is a 128-bit number, big end first: 6 bytes of milliseconds, 10 random ones.  When
 * the millisecond is not newer than the last id's, the whole number grows by 1 to 2^64: a carry out
 * of the random bytes runs into the milliseconds, where it does no harm.  Even somebody who knows
 * the last id has one chance in 2^64 to guess the next. */

#define TIME_BYTES 6
#define STEP_BYTES 8

static const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

static uint64_t time_of(const uint8_t id[16])
{
    uint64_t ms = 0;
    for (int i = 0; i < TIME_BYTES; i++)
        ms = ms << 8 | id[i];
    return ms;
}

static void set_time(uint8_t id[16], uint64_t ms)
{
    for (int i = TIME_BYTES; i-- > 0; ms >>= 8)
        id[i] = (uint8_t)ms;
}

/* id += step + 1 */
static void add_step(uint8_t id[16], const uint8_t step[STEP_BYTES])
{
    unsigned carry = 1;
    for (int i = 16; i-- > 0;) {
        unsigned sum = id[i] + carry + (i >= 16 - STEP_BYTES ? step[i - (16 - STEP_BYTES)] : 0u);
        id[i] = (uint8_t)sum;
        carry = sum >> 8;
    }
    ASSERT(carry == 0); /* the year 10889 */
}

void ulid_write(const uint8_t id[16], char ret_id[TASK_ID_LEN + 1])
{
    unsigned bits = 0, n_bits = 2; /* 130 bits of text for 128: two zeros come first */
    char *to = ret_id;
    for (int i = 0; i < 16; i++) {
        bits = bits << 8 | id[i];
        for (n_bits += 8; n_bits >= 5;) {
            n_bits -= 5;
            *to++ = alphabet[bits >> n_bits & 31];
        }
    }
    *to = 0;
}

void ulid_next(struct ulid_source *source, int64_t wall_ms, char ret_id[TASK_ID_LEN + 1])
{
    const int64_t newest = ((int64_t)1 << 48) - 1;
    uint64_t ms = (uint64_t)(wall_ms < 0 ? 0 : wall_ms > newest ? newest : wall_ms);
    if (ms > time_of(source->last)) {
        set_time(source->last, ms);
        ASSERT(source->random(source->last + TIME_BYTES, 16 - TIME_BYTES));
    } else {
        uint8_t step[STEP_BYTES];
        ASSERT(source->random(step, sizeof step));
        add_step(source->last, step);
    }
    ulid_write(source->last, ret_id);
}

/* The value of a digit; negative for any other character. */
static int digit_of(char c)
{
    const char *at = c ? strchr(alphabet, c) : NULL;
    return at ? (int)(at - alphabet) : -1;
}

bool ulid_read(struct str id, uint8_t ret_bytes[16])
{
    unsigned bits = 0, n_bits = 0;
    int to = 0;
    if (!ulid_is_valid(id))
        return false;
    for (int i = 0; i < TASK_ID_LEN; i++) {
        bits = bits << 5 | (unsigned)digit_of(id.p[i]);
        n_bits += i == 0 ? 3 : 5; /* the two leading zeros */
        if (n_bits >= 8) {
            n_bits -= 8;
            ret_bytes[to++] = (uint8_t)(bits >> n_bits);
        }
    }
    return true;
}

void ulid_after(struct ulid_source *source, struct str id)
{
    uint8_t bytes[16];
    if (ulid_read(id, bytes) && memcmp(bytes, source->last, sizeof bytes) > 0)
        memcpy(source->last, bytes, sizeof bytes);
}

bool ulid_is_valid(struct str id)
{
    if (id.n != TASK_ID_LEN || id.p[0] > '7')
        return false;
    for (size_t i = 0; i < id.n; i++)
        if (digit_of(id.p[i]) < 0)
            return false;
    return true;
}
