#include "gateway/front/deflate.h"

#include <stdlib.h>
#define ZLIB_CONST
#include <zlib.h>

#include "gateway/base/fault.h"
#include "gateway/base/header_list.h"
#include "gateway/front/fixed_block.h"
#include "gateway/front/frame.h"
#include "proto/limits.h"

#define MIN_BITS 9 /* zlib has no raw windows of 8 */
#define MAX_BITS 15
#define WORTH_BYTES 256  /* shorter messages hardly shrink by themselves */
#define LOOKAHEAD 262    /* zlib's: its matches go back by a window less these (MIN_LOOKAHEAD) */
#define PAST_BYTES 512   /* of a message's end: lines are alike, and most are shorter */
#define N_PAST 4096      /* a power of 2 */
#define SHORT_BYTES 2048 /* up to here counting letters, as zlib does, costs more than it saves */
#define LEVEL 1
#define SHORT_HEADER 4 /* of a frame with a short text, at most */
#define FLUSH_BYTES 4  /* 00 00 ff ff: the end of every flush, not sent (RFC 7692 section 7.2.1) */

/* The end of a message that was compressed, for some connection. */
struct past {
    uint64_t number; /* 0: none */
    size_t len;
    char text[PAST_BYTES];
};

struct deflate {
    z_stream in;
    z_stream out[MAX_BITS + 1]; /* by bits */
    bool has_in, has_out[MAX_BITS + 1];
    size_t blocks;    /* of the current message, or of the last one */
    struct buf plain; /* the text of the last frame, when it is no longer than MAX_MESSAGE_OUT */
    struct buf frame; /* FRAME_HEAD_MOST bytes, then the payload */
    size_t at;        /* of the frame's header; its end: compressing was not worthwhile */
    struct deflate_terms terms;
    uint64_t before;                     /* number of the last frame's dictionary; 0: it had none */
    uint64_t number;                     /* of the last frame's text */
    struct past *ring;                   /* N_PAST of them, by number; made when first used */
    char both[PAST_BYTES + SHORT_BYTES]; /* a short text behind its dictionary */
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
    free(d->ring);
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

static bool take_parameter(struct str parameter, unsigned *seen, struct deflate_terms *terms)
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
        terms->bits = (uint8_t)value;
        return value >= MIN_BITS;
    }
    if (which == SERVER_NO_TAKEOVER)
        terms->takes_over = false;
    if (which == CLIENT_BITS)
        return !has_value || value;
    return !has_value;
}

static bool names_us(struct str *offer)
{
    return str_eq(header_list_next_quoted(offer, ';'), STR(DEFLATE_NAME));
}

bool deflate_offer(struct str offers, unsigned nth, struct deflate_terms *ret)
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
    *ret = (struct deflate_terms){.bits = MAX_BITS, .takes_over = true};
    while (offer.n)
        if (!take_parameter(header_list_next_quoted(&offer, ';'), &seen, ret))
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

/* The smallest window that reaches all of a text and its dictionary: a compressor clears its table
 * for each message. */
static unsigned window_for(size_t n, unsigned most)
{
    unsigned bits = MIN_BITS;
    while (bits < most && ((size_t)1 << bits) < n + LOOKAHEAD)
        bits++;
    return bits;
}

/* Bytes of payload, so few that the frame has fewer than the text; 0: impossible. */
static size_t compress_short(struct deflate *d, unsigned bits, const struct past *past,
                             struct str text)
{
    size_t before = past ? past->len : 0;
    buf_clear(&d->frame);
    char *payload =
        buf_reserve(&d->frame, FRAME_HEAD_MOST + FIXED_BLOCK_ROOM(text.n)) + FRAME_HEAD_MOST;
    if (past)
        memcpy(d->both, past->text, before);
    memcpy(d->both + before, text.p, text.n);
    size_t n = fixed_block(d->both, before, before + text.n, (size_t)1 << bits, payload);
    return n + SHORT_HEADER < text.n ? n : 0;
}

static size_t compress_long(struct deflate *d, unsigned bits, const struct past *past,
                            struct str text)
{
    size_t before = past ? past->len : 0;
    z_stream *z = compressor(d, window_for(before + text.n, bits));
    if (!z)
        return 0;
    if (past && deflateSetDictionary(z, (const Bytef *)past->text, (uInt)before) != Z_OK)
        return 0;
    buf_clear(&d->frame);
    Bytef *payload = (Bytef *)buf_reserve(&d->frame, FRAME_HEAD_MOST + text.n) + FRAME_HEAD_MOST;
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

/* The message of that number, while its text is kept. */
static const struct past *past_find(const struct deflate *d, uint64_t number)
{
    const struct past *p = d->ring ? &d->ring[number % N_PAST] : NULL;
    return number && p && p->number == number ? p : NULL;
}

static void past_keep(struct deflate *d, struct str text)
{
    if (!d->ring)
        d->ring = xcalloc(N_PAST * sizeof *d->ring);
    struct past *p = &d->ring[d->number % N_PAST];
    p->number = d->number;
    p->len = text.n < PAST_BYTES ? text.n : PAST_BYTES;
    memcpy(p->text, text.p + text.n - p->len, p->len);
}

static bool is_last(const struct deflate *d, struct deflate_terms terms, uint64_t before)
{
    return terms.bits == d->terms.bits && terms.takes_over == d->terms.takes_over &&
           before == d->before;
}

/* Makes the frame; d->at is its end when there is none. */
static void frame_make(struct deflate *d, struct deflate_terms terms, const struct past *past,
                       struct str text)
{
    size_t n = text.n <= SHORT_BYTES ? compress_short(d, terms.bits, past, text)
                                     : compress_long(d, terms.bits, past, text);
    d->terms = terms;
    d->before = past ? past->number : 0;
    d->frame.len = FRAME_HEAD_MOST + n;
    d->at = n ? frame_head(d->frame.bytes, FRAME_TEXT_COMPRESSED, n) : d->frame.len;
}

struct str deflate_frame(struct deflate *d, struct deflate_terms terms, uint64_t *last,
                         struct str text)
{
    ASSERT(terms.bits >= MIN_BITS && terms.bits <= MAX_BITS);
    if (text.n == 0 || (!terms.takes_over && text.n < WORTH_BYTES) || text.n > UINT32_MAX / 2)
        return STR_NULL;
    const struct past *past = terms.takes_over ? past_find(d, *last) : NULL;
    bool is_known = d->number && str_eq(text, buf_str(&d->plain));
    if (!is_known) {
        d->number++;
        buf_clear(&d->plain);
        if (text.n <= MAX_MESSAGE_OUT)
            buf_putstr(&d->plain, text);
    }
    if (!is_known || !is_last(d, terms, past ? past->number : 0))
        frame_make(d, terms, past, text);
    if (d->at == d->frame.len)
        return STR_NULL;
    if (terms.takes_over) {
        past_keep(d, text);
        *last = d->number;
    }
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
