#include "proto/quote.h"

#include "proto/js_scan.h"

static bool is_tame(uint32_t c)
{
    return c >= 0x20 && c != '"' && (c < 0x7F || c > 0x9F) && c != UTF8_REPLACEMENT;
}

void quote_raw(const char *p, const char *end, char ret_text[QUOTE_SIZE])
{
    const size_t room = QUOTE_SIZE - 4; /* the dots and the NUL */
    size_t n = 0;
    while (p < end && *p != '"') {
        uint32_t c;
        char bytes[4];
        p = js_char(p, end, &c);
        size_t len = utf8_encode(is_tame(c) ? c : '?', bytes);
        if (n + len > room) {
            memcpy(ret_text + n, "...", 3);
            n += 3;
            break;
        }
        memcpy(ret_text + n, bytes, len);
        n += len;
    }
    ret_text[n] = 0;
}
