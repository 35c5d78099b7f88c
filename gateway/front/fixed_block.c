#include "gateway/front/fixed_block.h"

#include <endian.h>

#define HASH_BITS 10
#define MATCH_LEAST 4 /* a reference takes about as many bits as three letters */
#define MATCH_MOST 258

#define TYPE_FIXED 2 /* the header of a block, its last bit first: not the last one, fixed codes */
#define END_BITS 7   /* the code of a block's end, all zeros */
#define STORED_BITS 3

/* Bits go out the lowest first. */
struct bits {
    uint64_t waiting;
    unsigned n;
    char *to;
};

static inline void bits_put(struct bits *b, unsigned value, unsigned n)
{
    b->waiting |= (uint64_t)value << b->n;
    b->n += n;
}

/* Writes what is whole: afterwards there is room for 57 more. */
static inline void bits_flush(struct bits *b)
{
    uint64_t word = htole64(b->waiting);
    memcpy(b->to, &word, sizeof word);
    b->to += b->n / 8;
    b->waiting >>= b->n & ~7u;
    b->n &= 7;
}

/* Codes go out the highest bit first. */
static inline unsigned reversed(unsigned byte)
{
    static const uint8_t half[16] = {0x0, 0x8, 0x4, 0xc, 0x2, 0xa, 0x6, 0xe,
                                     0x1, 0x9, 0x5, 0xd, 0x3, 0xb, 0x7, 0xf};
    return (unsigned)half[byte & 15] << 4 | half[byte >> 4];
}

static inline void put_letter(struct bits *b, unsigned char letter)
{
    if (letter < 144)
        bits_put(b, reversed(0x30u + letter), 8);
    else
        bits_put(b, 1 | reversed(letter) << 1, 9);
}

/* The codes of lengths and distances, counted from the shortest, come in groups: all of a group
 * have as many bits behind their code as the number is longer than the group's index, so that the
 * code is the place of the number's highest bit and the index_bits below it. */
static inline unsigned group_code(unsigned number, unsigned index_bits, unsigned *ret_more)
{
    unsigned top = number >> index_bits ? 31u - (unsigned)__builtin_clz(number) : index_bits;
    *ret_more = top - index_bits;
    return (*ret_more << index_bits) + (number >> *ret_more);
}

static void put_length(struct bits *b, unsigned length)
{
    unsigned more = 0;
    unsigned code = length == MATCH_MOST ? 28 : group_code(length - 3, 2, &more);
    unsigned symbol = code + 1; /* after the block's end */
    if (symbol < 24)
        bits_put(b, reversed(symbol) >> 1, 7);
    else
        bits_put(b, reversed(0xc0 + symbol - 24), 8);
    bits_put(b, (length - 3) & ((1u << more) - 1), more);
}

static void put_distance(struct bits *b, unsigned distance)
{
    unsigned more, code = group_code(distance - 1, 1, &more);
    bits_put(b, reversed(code) >> 3, 5);
    bits_put(b, (distance - 1) & ((1u << more) - 1), more);
}

static inline uint64_t eight_bytes(const char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return le64toh(word);
}

/* How many bytes are the same in both, most at most. */
static size_t count_same(const char *a, const char *b, size_t most)
{
    size_t n = 0;
    for (; most - n >= 8; n += 8) {
        uint64_t other = eight_bytes(a + n) ^ eight_bytes(b + n);
        if (other)
            return n + (size_t)__builtin_ctzll(other) / 8;
    }
    while (n < most && a[n] == b[n])
        n++;
    return n;
}

static inline size_t hash_of_four(const char *p)
{
    uint32_t next;
    memcpy(&next, p, sizeof next);
    return next * 2654435761u >> (32 - HASH_BITS);
}

size_t fixed_block(const char *bytes, size_t before, size_t n, size_t window, char *out)
{
    uint16_t last[1 << HASH_BITS] = {0}; /* one behind the last place of four bytes; 0: none */
    struct bits b = {.to = out};
    ASSERT(before <= n && n <= FIXED_BLOCK_LONGEST);
    for (size_t i = 0; i < before && n - i >= MATCH_LEAST; i++)
        last[hash_of_four(bytes + i)] = (uint16_t)(i + 1);
    bits_put(&b, TYPE_FIXED, 3);
    for (size_t i = before; i < n;) {
        size_t same = 0, back = 0;
        if (n - i >= MATCH_LEAST) {
            uint16_t *at = &last[hash_of_four(bytes + i)];
            back = *at ? i + 1 - *at : 0;
            *at = (uint16_t)(i + 1);
            if (back && back <= window)
                same = count_same(bytes + i - back, bytes + i,
                                  n - i < MATCH_MOST ? n - i : MATCH_MOST);
        }
        if (same < MATCH_LEAST) {
            put_letter(&b, (unsigned char)bytes[i++]);
        } else {
            put_length(&b, (unsigned)same);
            put_distance(&b, (unsigned)back);
            i += same;
        }
        bits_flush(&b);
    }
    bits_put(&b, 0, END_BITS + STORED_BITS);
    b.n = (b.n + 7) & ~7u;
    bits_flush(&b);
    return (size_t)(b.to - out);
}
