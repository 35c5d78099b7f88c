/* Design.  The instruction takes 8 bytes in three cycles, but one may begin in each cycle.  So a
 * long text is summed as three lanes of LANE bytes side by side, which are joined afterwards.
 * Joining needs the sum of a lane as if LANE zeros followed it, and that is linear: four look-ups,
 * one for each byte of the sum, in a table that is made at the start. (Mark Adler's method; a
 * carry-less multiplication would do as well, but depends on one more instruction set.) */
#include "gateway/store/crc32c.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#define BY_PROCESSOR __attribute__((target("sse4.2")))
#define ADD_WORD(crc, word) ((uint32_t)_mm_crc32_u64(crc, word))
#define ADD_BYTE(crc, byte) _mm_crc32_u8(crc, byte)
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#ifdef __clang__
#define BY_PROCESSOR __attribute__((target("crc")))
#else
#define BY_PROCESSOR __attribute__((target("+crc")))
#endif
#define ADD_WORD(crc, word) __crc32cd(crc, word)
#define ADD_BYTE(crc, byte) __crc32cb(crc, byte)
#ifndef HWCAP_CRC32
#define HWCAP_CRC32 (1 << 7)
#endif
#endif

#define POLYNOMIAL 0x82f63b78u /* its bits reversed */
#define LANE 1024

#ifdef BY_PROCESSOR
static bool processor_can;
#endif
static uint32_t by_byte[256];
static uint32_t past_lane[4][256]; /* each byte of a sum, after LANE zeros */

uint32_t crc32c_by_table(uint32_t crc, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    crc = ~crc;
    for (; n > 0; n--)
        crc = by_byte[(crc ^ *p++) & 0xff] ^ crc >> 8;
    return ~crc;
}

/* A linear map of sums, as the image of each bit. */
static uint32_t map_of(const uint32_t map[32], uint32_t crc)
{
    uint32_t to = 0;
    for (int bit = 0; crc; bit++, crc >>= 1)
        to ^= crc & 1 ? map[bit] : 0;
    return to;
}

/* Passing one zero is a map; applied twice it passes two zeros, and so on up to LANE. */
static void make_past_lane(void)
{
    uint32_t map[32], twice[32];
    for (int bit = 0; bit < 32; bit++)
        map[bit] = by_byte[(1u << bit) & 0xff] ^ (1u << bit) >> 8;
    for (int zeros = 1; zeros < LANE; zeros *= 2) {
        for (int bit = 0; bit < 32; bit++)
            twice[bit] = map_of(map, map[bit]);
        memcpy(map, twice, sizeof map);
    }
    for (unsigned at = 0; at < 4; at++)
        for (uint32_t i = 0; i < 256; i++)
            past_lane[at][i] = map_of(map, i << 8 * at);
}

/* Runs before main, in some 20 us: no caller has to check whether the tables exist. */
__attribute__((constructor)) static void make_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
        by_byte[i] = crc;
    }
    make_past_lane();
#if defined(__x86_64__)
    __builtin_cpu_init();
    processor_can = __builtin_cpu_supports("sse4.2");
#elif defined(__aarch64__)
    processor_can = getauxval(AT_HWCAP) & HWCAP_CRC32;
#endif
}

#ifdef BY_PROCESSOR
static uint32_t skip_lane(uint32_t crc)
{
    return past_lane[0][crc & 0xff] ^ past_lane[1][crc >> 8 & 0xff] ^
           past_lane[2][crc >> 16 & 0xff] ^ past_lane[3][crc >> 24];
}

static uint64_t word_at(const unsigned char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

BY_PROCESSOR static uint32_t add_lanes(uint32_t crc, const unsigned char *p)
{
    uint32_t second = 0, third = 0;
    for (size_t i = 0; i < LANE; i += 8) {
        crc = ADD_WORD(crc, word_at(p + i));
        second = ADD_WORD(second, word_at(p + LANE + i));
        third = ADD_WORD(third, word_at(p + (size_t)2 * LANE + i));
    }
    return skip_lane(skip_lane(crc) ^ second) ^ third;
}

BY_PROCESSOR static uint32_t by_processor(uint32_t crc, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    crc = ~crc;
    for (; n >= (size_t)3 * LANE; n -= (size_t)3 * LANE, p += (size_t)3 * LANE)
        crc = add_lanes(crc, p);
    for (; n >= 8; n -= 8, p += 8)
        crc = ADD_WORD(crc, word_at(p));
    for (; n > 0; n--)
        crc = ADD_BYTE(crc, *p++);
    return ~crc;
}

#endif

uint32_t crc32c(uint32_t crc, const void *bytes, size_t n)
{
#ifdef BY_PROCESSOR
    if (processor_can)
        return by_processor(crc, bytes, n);
#endif
    return crc32c_by_table(crc, bytes, n);
}
