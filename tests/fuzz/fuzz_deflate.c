/* Any bytes as a compressed message: never more than the limit, and what zlib makes of them when
 * asked for a piece of 100 bytes at a time.  The same bytes as a text: its frame is smaller, and is
 * read back.  And as offers: no window that zlib has not. */
#define ZLIB_CONST
#include <zlib.h>

#include "gateway/front/deflate.h"

#define LIMIT 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Blocks up to the end of the input, each last one begun anew with what came before. */
static bool expand_slowly(struct str in, struct buf *ret)
{
    struct buf whole = {0};
    z_stream z = {0};
    buf_putstr(&whole, in);
    buf_put(&whole, "\x00\x00\xff\xff", 4);
    ASSERT(inflateInit2(&z, -15) == Z_OK);
    z.next_in = (const Bytef *)whole.bytes;
    z.avail_in = (uInt)whole.len;
    int status = Z_OK;
    bool ended = false; /* by a last block, with nothing after it */
    while (status == Z_OK && ret->len <= LIMIT) {
        z.next_out = (Bytef *)buf_reserve(ret, 100);
        z.avail_out = 100;
        status = inflate(&z, Z_BLOCK);
        ret->len += 100 - z.avail_out;
        if (status == Z_STREAM_END) {
            ended = z.avail_in == 0;
            struct buf window = {0};
            size_t n = ret->len < 32768 ? ret->len : 32768;
            buf_put(&window, ret->bytes + ret->len - n, n);
            status = inflateReset(&z);
            if (status == Z_OK)
                status = inflateSetDictionary(&z, (const Bytef *)window.bytes, (uInt)n);
            buf_done(&window);
        }
    }
    bool good = status == Z_BUF_ERROR && z.avail_in == 0 && (ended || z.total_in >= 4) &&
                memcmp(whole.bytes + whole.len - 4, "\x00\x00\xff\xff", 4) == 0;
    inflateEnd(&z);
    buf_done(&whole);
    return good;
}

static void check_expand(struct deflate *d, struct str payload)
{
    struct buf text = {0}, slowly = {0};
    enum deflate_result result = deflate_expand(d, payload, LIMIT, &text);
    ASSERT(text.len <= LIMIT + 1);
    ASSERT((result == DEFLATE_TOO_BIG) == (text.len == LIMIT + 1));
    bool good = payload.n == 0 || expand_slowly(payload, &slowly);
    if (result == DEFLATE_OK)
        ASSERT(good && str_eq(buf_str(&text), buf_str(&slowly)));
    if (result == DEFLATE_TOO_BIG)
        ASSERT(slowly.len > LIMIT && memcmp(text.bytes, slowly.bytes, LIMIT) == 0);
    buf_done(&text);
    buf_done(&slowly);
}

static struct str payload_of(struct str frame)
{
    size_t at = (frame.p[1] & 127) < 126 ? 2 : (frame.p[1] & 127) == 126 ? 4 : 10;
    return (struct str){frame.p + at, frame.n - at};
}

static void check_frame(struct deflate *d, unsigned bits, struct str text)
{
    struct buf back = {0};
    uint64_t last = 0;
    struct str frame = deflate_frame(d, (struct deflate_terms){.bits = (uint8_t)bits}, &last, text);
    ASSERT(last == 0);
    if (!frame.p)
        return;
    ASSERT(frame.n < text.n);
    ASSERT(deflate_expand(d, payload_of(frame), text.n, &back) == DEFLATE_OK);
    ASSERT(str_eq(buf_str(&back), text));
    buf_done(&back);
}

/* Two readers who begin at different places, as zlib's own streams see them. */
static void check_stream(struct deflate *d, unsigned bits, struct str text)
{
    struct deflate_terms terms = {.bits = (uint8_t)bits, .takes_over = true};
    z_stream z[2] = {{0}};
    uint64_t last[2] = {0};
    struct buf back = {0};
    for (size_t i = 0; i < 2; i++)
        ASSERT(inflateInit2(&z[i], -(int)bits) == Z_OK);
    for (size_t n = 0; text.n; n++) {
        size_t len = (uint8_t)text.p[0] % 61u + 1;
        struct str one = {text.p, len < text.n ? len : text.n};
        text = (struct str){text.p + one.n, text.n - one.n};
        for (size_t i = n % 3 == 0; i < 2; i++) {
            struct str frame = deflate_frame(d, terms, &last[i], one);
            if (!frame.p)
                continue;
            struct str parts[] = {payload_of(frame), STR("\x00\x00\xff\xff")};
            buf_clear(&back);
            for (size_t part = 0; part < countof(parts); part++) {
                z[i].next_in = (const Bytef *)parts[part].p;
                z[i].avail_in = (uInt)parts[part].n;
                z[i].next_out = (Bytef *)buf_reserve(&back, 64);
                z[i].avail_out = 64;
                int status = inflate(&z[i], Z_SYNC_FLUSH);
                ASSERT((status == Z_OK || status == Z_BUF_ERROR) && z[i].avail_in == 0);
                back.len += 64 - z[i].avail_out;
            }
            ASSERT(str_eq(buf_str(&back), one));
        }
    }
    for (size_t i = 0; i < 2; i++)
        inflateEnd(&z[i]);
    buf_done(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct str rest = {(const char *)data + 1, size - 1};
    struct deflate *d = deflate_open();
    struct deflate_terms terms = {0};
    check_expand(d, rest);
    check_frame(d, 9 + data[0] % 7, rest);
    check_stream(d, 9 + data[0] % 7, rest);
    check_expand(d, rest); /* nothing is left over from the others */
    for (unsigned nth = 0; nth < 3; nth++)
        ASSERT(!deflate_offer(rest, nth, &terms) || (terms.bits >= 9 && terms.bits <= 15));
    deflate_close(d);
    return 0;
}
