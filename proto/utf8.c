#include "proto/utf8.h"

#include "proto/js_scan.h"

/* Design.  Well-formed UTF-8 is table 3-7 of the Unicode standard: a lead byte fixes the length and
 * the range of the second byte (which is what keeps overlong forms, surrogates and everything
 * beyond U+10FFFF out); all others are 80..BF.  A broken sequence ends before the first byte that
 * cannot continue it: that is the "maximal subpart", and browsers replace exactly the same
 * bytes. */

/* Marks, among eight bytes, those that are not ASCII or that a JSON string must escape: their top
 * bits are set in the result.  Bits above the first hit may be wrong (borrows); zero is always
 * right. */
static uint64_t special_bytes(uint64_t w)
{
    const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
    uint64_t quote = w ^ (ones * '"'), slash = w ^ (ones * '\\');
    return (w | ((quote - ones) & ~quote) | ((slash - ones) & ~slash) | ((w - ones * 0x20) & ~w)) &
           tops;
}

static bool is_special(char c)
{
    unsigned char b = (unsigned char)c;
    return b < 0x20 || b >= 0x80 || b == '"' || b == '\\';
}

typedef signed char bytes16 __attribute__((vector_size(16)));

/* Marks the same, as minus ones: what is not ASCII is negative here. */
static bytes16 special_of_16(const char *p)
{
    bytes16 v;
    memcpy(&v, p, sizeof v);
    return (v < 0x20) | (v == '"') | (v == '\\');
}

#define STRIDE 64 /* a final answer is mostly far longer */

static bool is_plain_stride(const char *p)
{
    uint64_t halves[2];
    bytes16 any =
        special_of_16(p) | special_of_16(p + 16) | special_of_16(p + 32) | special_of_16(p + 48);
    memcpy(halves, &any, sizeof any);
    return (halves[0] | halves[1]) == 0;
}

static size_t plain_run(const char *p, size_t n)
{
    size_t i = 0;
    while (n - i >= STRIDE && is_plain_stride(p + i))
        i += STRIDE;
    for (; n - i >= 8; i += 8) {
        uint64_t w;
        memcpy(&w, p + i, 8);
        if (special_bytes(w))
            break;
    }
    while (i < n && !is_special(p[i]))
        i++;
    return i;
}

static inline bool is_trail(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

/* The length that a lead byte promises (0: it leads nothing) and the range of its second byte. */
static inline size_t lead(unsigned char b, unsigned char *ret_min, unsigned char *ret_max)
{
    *ret_min = b == 0xE0 ? 0xA0 : b == 0xF0 ? 0x90 : 0x80;
    *ret_max = b == 0xED ? 0x9F : b == 0xF4 ? 0x8F : 0xBF;
    if (b < 0xC2 || b > 0xF4)
        return 0;
    return b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
}

static inline size_t step(const char *p, size_t n, uint32_t *ret)
{
    unsigned char b = (unsigned char)p[0], min, max;
    if (b < 0x80) {
        *ret = b;
        return 1;
    }
    size_t len = lead(b, &min, &max);
    *ret = UTF8_BROKEN;
    if (len == 0 || n < 2 || (unsigned char)p[1] < min || (unsigned char)p[1] > max)
        return 1;
    uint32_t c = (uint32_t)(b & (0x7F >> len)) << 6 | ((unsigned char)p[1] & 0x3F);
    for (size_t i = 2; i < len; i++) {
        if (i >= n || !is_trail(p[i]))
            return i;
        c = c << 6 | ((unsigned char)p[i] & 0x3F);
    }
    *ret = c;
    return len;
}

size_t utf8_step(const char *p, size_t n, uint32_t *ret)
{
    return step(p, n, ret);
}

size_t utf8_encode(uint32_t c, char to[4])
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (char)(0xC0 | c >> 6);
        to[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        to[0] = (char)(0xE0 | c >> 12);
        to[1] = (char)(0x80 | (c >> 6 & 0x3F));
        to[2] = (char)(0x80 | (c & 0x3F));
        return 3;
    }
    to[0] = (char)(0xF0 | c >> 18);
    to[1] = (char)(0x80 | (c >> 12 & 0x3F));
    to[2] = (char)(0x80 | (c >> 6 & 0x3F));
    to[3] = (char)(0x80 | (c & 0x3F));
    return 4;
}

size_t clean_run(const char *p, size_t n)
{
    size_t i = 0;
    for (;;) {
        i += plain_run(p + i, n - i);
        /* Texts beyond ASCII come in runs too: stay in the short loop while a run lasts. */
        while (i < n && (unsigned char)p[i] >= 0x80) {
            uint32_t c;
            size_t len = step(p + i, n - i, &c);
            if (c == UTF8_BROKEN)
                return i;
            i += len;
        }
        if (i == n || is_special(p[i]))
            return i;
    }
}

size_t utf8_cut(struct str text, size_t max)
{
    if (text.n <= max)
        return text.n;
    size_t at = max;
    while (at > 0 && max - at < 3 && is_trail(text.p[at]))
        at--;
    return is_trail(text.p[at]) ? max : at; /* more than three in a row: no border nearby */
}

size_t utf8_whole(struct str text)
{
    unsigned char min, max;
    size_t at = text.n;
    while (at > 0 && text.n - at < 3 && is_trail(text.p[at - 1]))
        at--;
    if (at == 0)
        return text.n; /* no character begins here, so none was cut */
    bool is_cut = lead((unsigned char)text.p[at - 1], &min, &max) > text.n - (at - 1);
    return is_cut ? at - 1 : text.n;
}

size_t utf8_chars(struct str text, size_t n)
{
    size_t at = 0;
    for (uint32_t c; n > 0 && at < text.n; n--)
        at += step(text.p + at, text.n - at, &c);
    return at;
}

struct str utf8_tail(struct str text, size_t n)
{
    size_t at = text.n;
    while (at > 0 && n > 0)
        n -= !is_trail(text.p[--at]);
    return (struct str){text.p + at, text.n - at};
}

bool utf8_valid(struct str text)
{
    for (size_t at = 0; at < text.n;) {
        uint64_t w;
        if (text.n - at >= 8 && (memcpy(&w, text.p + at, 8), !(w & 0x8080808080808080u))) {
            at += 8;
            continue;
        }
        uint32_t c;
        at += step(text.p + at, text.n - at, &c);
        if (c == UTF8_BROKEN)
            return false;
    }
    return true;
}

size_t utf8_begun(struct str text)
{
    size_t n = 1;
    while (n <= 3 && n <= text.n && is_trail(text.p[text.n - n]))
        n++;
    if (n > 3 || n > text.n)
        return 0;
    const unsigned char *p = (const unsigned char *)text.p + text.n - n;
    unsigned char min, max;
    if (lead(p[0], &min, &max) <= n || (n > 1 && (p[1] < min || p[1] > max)))
        return 0;
    return n;
}
