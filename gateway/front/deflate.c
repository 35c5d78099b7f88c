#include "gateway/front/deflate.h"

#include <stdlib.h>
#define ZLIB_CONST
#include <zlib.h>

#include "gateway/base/fault.h"
#include "gateway/base/header_list.h"
#include "proto/limits.h"

#define MIN_BITS 9 /* zlib has no raw windows of 8 */
#define MAX_BITS 15
#define WORTH_BYTES 256 /* shorter messages, such as a single token, hardly shrink */
#define LEVEL 1
#define HEADER_MOST 10
#define FLUSH_BYTES 4 /* 00 00 ff ff: the end of every flush, not sent (RFC 7692 section 7.2.1) */

struct deflate {
    z_stream in;
    z_stream out[MAX_BITS + 1]; /* by bits */
    bool has_in, has_out[MAX_BITS + 1];
    size_t blocks;    /* of the current message, or of the last one */
    struct buf plain; /* the text of the last frame, when it is no longer than MAX_MESSAGE_OUT */
    struct buf frame; /* HEADER_MOST bytes, then the payload */
    size_t at;        /* of the frame's header; 0: compressing was not worthwhile */
    unsigned bits;
};

static voidpf allocate_in(voidpf none, uInt n, uInt size)
{
    (void)none;
    return FAULT(INFLATE) ? NULL : try_alloc((size_t)n * size);
}

static voidpf allocate_out(voidpf none, uInt n, uInt size)
{
    (void)none;
    return FAULT(DEFLATE) ? NULL : try_alloc((size_t)n * size);
}

static void release(voidpf none, voidpf memory)
{
    (void)none;
    free(memory);
}

struct deflate *deflate_open(void)
{
    struct deflate *d = xcalloc(sizeof *d);
    d->in = (z_stream){.zalloc = allocate_in, .zfree = release};
    for (unsigned bits = MIN_BITS; bits <= MAX_BITS; bits++)
        d->out[bits] = (z_stream){.zalloc = allocate_out, .zfree = release};
    return d;
}

void deflate_close(struct deflate *d)
{
    if (!d)
        return;
    if (d->has_in)
        inflateEnd(&d->in);
    for (unsigned bits = MIN_BITS; bits <= MAX_BITS; bits++)
        if (d->has_out[bits])
            deflateEnd(&d->out[bits]);
    buf_done(&d->plain);
    buf_done(&d->frame);
    free(d);
}

/* --- offers (RFC 6455 9.1, RFC 7692 7.1) ------------------------------------------------------ */

/* 8..15 without leading zeros, perhaps in quotes; 0 for anything else. */
static unsigned window_bits(struct str value)
{
    if (value.n >= 2 && value.p[0] == '"' && value.p[value.n - 1] == '"')
        value = (struct str){value.p + 1, value.n - 2};
    if (value.n == 1 && (value.p[0] == '8' || value.p[0] == '9'))
        return (unsigned)(value.p[0] - '0');
    if (value.n == 2 && value.p[0] == '1' && value.p[1] >= '0' && value.p[1] <= '5')
        return 10 + (unsigned)(value.p[1] - '0');
    return 0;
}

enum { SERVER_NO_TAKEOVER, CLIENT_NO_TAKEOVER, SERVER_BITS, CLIENT_BITS, N_PARAMETERS };

static bool take_parameter(struct str parameter, unsigned *seen, unsigned *bits)
{
    static const struct str names[N_PARAMETERS] = {
        [SERVER_NO_TAKEOVER] = {"server_no_context_takeover", 26},
        [CLIENT_NO_TAKEOVER] = {"client_no_context_takeover", 26},
        [SERVER_BITS] = {"server_max_window_bits", 22},
        [CLIENT_BITS] = {"client_max_window_bits", 22}};
    bool has_value = parameter.n && memchr(parameter.p, '=', parameter.n);
    struct str name = header_list_next_quoted(&parameter, '=');
    unsigned value = window_bits(header_list_next_quoted(&parameter, ';'));
    unsigned which = 0;
    while (which < N_PARAMETERS && !str_eq(name, names[which]))
        which++;
    if (which == N_PARAMETERS || *seen & 1u << which)
        return false;
    *seen |= 1u << which;
    if (which == SERVER_BITS) {
        *bits = value;
        return value >= MIN_BITS;
    }
    if (which == CLIENT_BITS)
        return !has_value || value;
    return !has_value;
}

static bool names_us(struct str *offer)
{
    return str_eq(header_list_next_quoted(offer, ';'), STR(DEFLATE_NAME));
}

bool deflate_offer(struct str offers, unsigned nth, unsigned *ret_bits)
{
    struct str offer = STR_NULL;
    unsigned seen = 0, later = 0;
    bool found = false;
    while (offers.n) {
        struct str one = header_list_next_quoted(&offers, ',');
        if (!names_us(&one))
            continue;
        later += found;
        if (!found && nth-- == 0) {
            found = true;
            offer = one;
        }
    }
    if (!found || (later && offer.n == 0))
        return false;
    *ret_bits = MAX_BITS;
    while (offer.n)
        if (!take_parameter(header_list_next_quoted(&offer, ';'), &seen, ret_bits))
            return false;
    return true;
}

/* --- out -------------------------------------------------------------------------------------- */

static z_stream *compressor(struct deflate *d, unsigned bits)
{
    z_stream *z = &d->out[bits];
    if (d->has_out[bits])
        return deflateReset(z) == Z_OK ? z : NULL;
    int memory_level = (int)bits - 7; /* as many hashes as window: all are updated when it slides */
    d->has_out[bits] =
        deflateInit2(z, LEVEL, Z_DEFLATED, -(int)bits, memory_level, Z_DEFAULT_STRATEGY) == Z_OK;
    return d->has_out[bits] ? z : NULL;
}

/* Bytes of payload, fewer than the text has; 0: impossible. */
static size_t compress_text(struct deflate *d, unsigned bits, struct str text)
{
    z_stream *z = compressor(d, bits);
    if (!z)
        return 0;
    buf_clear(&d->frame);
    Bytef *payload = (Bytef *)buf_reserve(&d->frame, HEADER_MOST + text.n) + HEADER_MOST;
    z->next_in = (const Bytef *)text.p;
    z->avail_in = (uInt)text.n;
    z->next_out = payload;
    z->avail_out = (uInt)text.n;
    if (deflate(z, Z_SYNC_FLUSH) != Z_OK || z->avail_in || !z->avail_out)
        return 0;
    size_t n = text.n - z->avail_out - FLUSH_BYTES;
    ASSERT(memcmp(payload + n, "\x00\x00\xff\xff", FLUSH_BYTES) == 0);
    return n;
}

/* Before the payload: FIN, RSV1 ("compressed") and the opcode of text (RFC 6455 section 5.2). */
static size_t put_header(char *frame, size_t n)
{
    size_t bytes = n < 126 ? 0 : n <= UINT16_MAX ? 2 : 8;
    size_t at = HEADER_MOST - 2 - bytes;
    frame[at] = (char)0xc1;
    frame[at + 1] = (char)(bytes == 0 ? n : bytes == 2 ? 126 : 127);
    for (size_t i = 0; i < bytes; i++)
        frame[at + 2 + i] = (char)(n >> (8 * (bytes - 1 - i)));
    return at;
}

struct str deflate_frame(struct deflate *d, unsigned bits, struct str text)
{
    ASSERT(bits >= MIN_BITS && bits <= MAX_BITS);
    if (text.n < WORTH_BYTES || text.n > UINT32_MAX / 2)
        return STR_NULL;
    if (bits != d->bits || !str_eq(text, buf_str(&d->plain))) {
        size_t n = compress_text(d, bits, text);
        d->bits = bits;
        d->frame.len = HEADER_MOST + n;
        d->at = n ? put_header(d->frame.bytes, n) : d->frame.len;
        buf_clear(&d->plain);
        if (text.n <= MAX_MESSAGE_OUT)
            buf_putstr(&d->plain, text);
    }
    if (d->at == d->frame.len)
        return STR_NULL;
    return (struct str){d->frame.bytes + d->at, d->frame.len - d->at};
}

/* --- in --------------------------------------------------------------------------------------- */

size_t deflate_most(size_t n)
{
    return n + n / 8 + n / 64 + 64;
}

static bool deflate_begin(struct deflate *d)
{
    if (d->has_in)
        return inflateReset(&d->in) == Z_OK;
    return d->has_in = inflateInit2(&d->in, -MAX_BITS) == Z_OK;
}

static enum deflate_result expand(struct deflate *d, struct str in, size_t most, struct buf *ret,
                                  size_t from)
{
    z_stream *z = &d->in;
    z->next_in = (const Bytef *)in.p;
    z->avail_in = (uInt)in.n;
    do {
        size_t room = most - (ret->len - from), piece = 4 * (size_t)z->avail_in + 256;
        if (piece > room)
            piece = room;
        z->next_out = (Bytef *)buf_reserve(ret, piece);
        z->avail_out = (uInt)piece;
        int status = inflate(z, Z_BLOCK);
        ret->len += piece - z->avail_out;
        d->blocks += z->data_type >> 7 & 1; /* it has stopped after one */
        if (ret->len - from == most)
            return DEFLATE_TOO_BIG;
        /* After a last block (BFINAL, RFC 7692 section 7.2.3.4) another may follow, and may refer
         * back beyond it, so the window is kept.  Resetting it would copy 32 KiB for each two bytes
         * of a hostile message. */
        if (status == Z_STREAM_END)
            status = inflateResetKeep(z);
        if (status == Z_MEM_ERROR) /* its window is allocated on first use */
            return DEFLATE_NO_MEMORY;
        if (status != Z_OK && status != Z_BUF_ERROR)
            return DEFLATE_BROKEN;
    } while (z->avail_in || !z->avail_out);
    return DEFLATE_OK;
}

/* The last call has stopped after a block, on a byte boundary (zlib.h, Z_BLOCK).  It may be a last
 * one: the empty block whose end is not sent may have BFINAL as well. */
static bool is_at_end(const z_stream *z)
{
    return (z->data_type & ~64) == 128;
}

enum deflate_result deflate_expand(struct deflate *d, struct str payload, size_t limit,
                                   struct buf *ret)
{
    size_t from = ret->len;
    d->blocks = 0;
    if (payload.n == 0)
        return DEFLATE_OK;
    if (payload.n > UINT32_MAX / 8 || limit > UINT32_MAX / 8)
        return DEFLATE_BROKEN;
    if (!deflate_begin(d))
        return DEFLATE_NO_MEMORY;
    enum deflate_result result = expand(d, payload, limit + 1, ret, from);
    if (result == DEFLATE_OK)
        result = expand(d, STR("\x00\x00\xff\xff"), limit + 1, ret, from);
    if (result == DEFLATE_OK && !is_at_end(&d->in))
        result = DEFLATE_BROKEN;
    return result;
}

size_t deflate_blocks(const struct deflate *d)
{
    return d->blocks;
}
