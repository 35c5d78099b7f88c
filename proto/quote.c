#include "proto/quote.h"

#include "proto/js_scan.h"

static bool is_tame(uint32_t c)
{
    return c >= 0x20 && c != '"' && (c < 0x7F || c > 0x9F) && c != UTF8_REPLACEMENT;
}

/* Adds one character; false when there is no room: dots take its place. */
static bool quote_put(char text[QUOTE_SIZE], size_t *n, uint32_t c)
{
    char bytes[4];
    size_t len = utf8_encode(is_tame(c) ? c : '?', bytes);
    bool fits = *n + len <= QUOTE_SIZE - sizeof "...";
    if (!fits) {
        len = 3;
        memcpy(bytes, "...", len);
    }
    memcpy(text + *n, bytes, len);
    *n += len;
    text[*n] = 0;
    return fits;
}

void quote_raw(const char *p, const char *end, char ret_text[QUOTE_SIZE])
{
    size_t n = 0;
    ret_text[0] = 0;
    while (p < end && *p != '"') {
        uint32_t c;
        p = js_char(p, end, &c);
        if (!quote_put(ret_text, &n, c))
            return;
    }
}

void quote_text(struct str text, char ret_text[QUOTE_SIZE])
{
    size_t n = 0;
    ret_text[0] = 0;
    for (size_t at = 0; at < text.n;) {
        uint32_t c;
        at += utf8_step(text.p + at, text.n - at, &c);
        if (!quote_put(ret_text, &n, c == UTF8_BROKEN ? '?' : c))
            return;
    }
}
