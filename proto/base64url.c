#include "proto/base64url.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void base64url_put(struct buf *out, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    uint32_t word = 0;
    unsigned bits = 0;

    for (size_t i = 0; i < n; i++) {
        word = (word << 8 | p[i]) & 0xffff;
        for (bits += 8; bits >= 6; bits -= 6)
            buf_putc(out, alphabet[word >> (bits - 6) & 63]);
    }
    if (bits > 0)
        buf_putc(out, alphabet[word << (6 - bits) & 63]);
}

static int digit_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '-' ? 62 : c == '_' ? 63 : -1;
}

/* The encoding is canonical, so unused bits must be zero. */
bool base64url_read(struct str text, struct buf *out)
{
    uint32_t word = 0;
    unsigned bits = 0;

    if (text.n % 4 == 1)
        return false;
    for (size_t i = 0; i < text.n; i++) {
        int digit = digit_of(text.p[i]);
        if (digit < 0)
            return false;
        word = (word << 6 | (uint32_t)digit) & 0xffff;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            buf_putc(out, (char)(word >> bits & 0xff));
        }
    }
    return (word & ((1u << bits) - 1)) == 0;
}
