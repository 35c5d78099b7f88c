/* gateway/deflate: the examples of RFC 7692, offers, limits to the byte, and what is cut off. */
#define ZLIB_CONST
#include <stdio.h>
#include <zlib.h>

#include "gateway/front/deflate.h"
#include "gateway/front/fixed_block.h"
#include "tests/support/t.h"

static struct deflate *ours;

static int open_deflate(void **state)
{
    (void)state;
    ours = deflate_open();
    return 0;
}

static int close_deflate(void **state)
{
    (void)state;
    deflate_close(ours);
    return 0;
}

/* --- offers ----------------------------------------------------------------------------------- */

static const struct {
    const char *offers;
    unsigned nth, bits; /* 0: declined */
} offers[] = {
    {"permessage-deflate", 0, 15},
    {"permessage-deflate; client_max_window_bits", 0, 15},
    {"permessage-deflate;client_max_window_bits=8", 0, 15},
    {"permessage-deflate; server_no_context_takeover; client_no_context_takeover", 0, 15},
    {"permessage-deflate; server_max_window_bits=15", 0, 15},
    {"permessage-deflate; server_max_window_bits=\"10\"", 0, 10},
    {"permessage-deflate ;\tserver_max_window_bits = 9 ; client_max_window_bits = 12", 0, 9},
    {"x-webkit-deflate-frame, permessage-deflate", 0, 15},
    {"x; a=\"permessage-deflate, \" , permessage-deflate; server_max_window_bits=11", 0, 11},
    {"", 0, 0},
    {"permessage-deflat", 0, 0},
    {"permessage-deflate2", 0, 0},
    {"permessage-deflate; server_max_window_bits=8", 0, 0}, /* zlib has no such window */
    {"permessage-deflate; server_max_window_bits", 0, 0},
    {"permessage-deflate; server_max_window_bits=", 0, 0},
    {"permessage-deflate; server_max_window_bits=16", 0, 0},
    {"permessage-deflate; server_max_window_bits=010", 0, 0},
    {"permessage-deflate; server_max_window_bits=-9", 0, 0},
    {"permessage-deflate; server_max_window_bits=\"10", 0, 0},
    {"permessage-deflate; client_max_window_bits=7", 0, 0},
    {"permessage-deflate; client_max_window_bits=16", 0, 0},
    {"permessage-deflate; client_max_window_bits=", 0, 0},
    {"permessage-deflate; client_max_window_bits; client_max_window_bits", 0, 0},
    {"permessage-deflate; server_no_context_takeover=1", 0, 0},
    {"permessage-deflate; server_no_context_takeover; server_no_context_takeover", 0, 0},
    {"permessage-deflate; unknown", 0, 0},
    {"permessage-deflate; server_max_window_bits=8, permessage-deflate", 0, 0},
    {"permessage-deflate; server_max_window_bits=8, permessage-deflate", 1, 15},
    {"permessage-deflate, permessage-deflate; server_max_window_bits=12", 0, 0},
    {"permessage-deflate, permessage-deflate; server_max_window_bits=12", 1, 12},
    {"permessage-deflate", 1, 0},
};

static void test_offers_are_taken_or_left(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(offers); i++) {
        struct deflate_terms terms = {0};
        bool good = deflate_offer(str_of(offers[i].offers), offers[i].nth, &terms);
        bool takes_over = !strstr(offers[i].offers, "server_no_context_takeover");
        if (good != (offers[i].bits != 0) ||
            (good && (terms.bits != offers[i].bits || terms.takes_over != takes_over)))
            fail_msg("%s (%u): %d, %u", offers[i].offers, offers[i].nth, good, terms.bits);
    }
}

/* --- in --------------------------------------------------------------------------------------- */

#define HELLO_SHARED "\xf2\x00\x11\x00\x00"

static const struct {
    struct str payload;
    const char *text; /* NULL: broken */
} messages[] = {
    {STR("\xf2\x48\xcd\xc9\xc9\x07\x00"), "Hello"},                         /* 7.2.3.1 */
    {STR("\x00\x05\x00\xfa\xff\x48\x65\x6c\x6c\x6f\x00"), "Hello"},         /* 7.2.3.3 */
    {STR("\xf3\x48\xcd\xc9\xc9\x07\x00\x00"), "Hello"},                     /* 7.2.3.4 */
    {STR("\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00"), "Hello"}, /* 7.2.3.5 */
    {STR("\x00"), ""},                                                      /* 7.2.3.6 */
    {STR(""), ""},
    {STR("\xf3\x48\xcd\xc9\xc9\x07\x00" HELLO_SHARED), "HelloHello"}, /* after a last block */
    {STR("\x01"), ""}, /* the empty block at the end is the last one: zlib's Z_FINISH at level 0 */
    {STR("\x00\x05\x00\xfa\xff\x48\x65\x6c\x6c\x6f\x01"), "Hello"},
    {STR(HELLO_SHARED), NULL}, /* 7.2.3.2: it looks back to another message */
    {STR("\xf3\x48\xcd\xc9\xc9\x07\x00"), NULL},
    {STR("\xf2\x48\xcd\xc9\xc9\x07"), NULL},
    {STR("\x00\x05\x00\xfa\xfe\x48\x65\x6c\x6c\x6f\x00"), NULL},
    {STR("\x07"), NULL}, /* a kind of block that there is not */
    {STR("Hello"), NULL},
};

static void test_examples_of_the_rfc(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(messages); i++) {
        struct buf text = {0};
        enum deflate_result result = deflate_expand(ours, messages[i].payload, 100, &text);
        if (result != (messages[i].text ? DEFLATE_OK : DEFLATE_BROKEN) ||
            (messages[i].text && !str_eq(buf_str(&text), str_of(messages[i].text))))
            fail_msg("message %zu: %d, %.*s", i, result, (int)text.len, text.bytes);
        buf_done(&text);
    }
}

/* A client's message: flushed, and its last four bytes cut off. */
static void compress_like_a_client(struct str text, int level, struct buf *ret)
{
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, level, Z_DEFLATED, -15, 1, Z_DEFAULT_STRATEGY), Z_OK);
    size_t room = deflateBound(&z, text.n) + text.n + 64;
    z.next_in = (const Bytef *)text.p;
    z.avail_in = (uInt)text.n;
    z.next_out = (Bytef *)buf_reserve(ret, room);
    z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_SYNC_FLUSH), Z_OK);
    ret->len = room - z.avail_out - 4;
    deflateEnd(&z);
}

static void fill(struct buf *b, size_t n, bool at_random)
{
    static uint32_t seed = 7;
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        buf_putc(b, at_random ? (char)(seed >> 24) : ' ');
    }
}

static void test_limit_holds_to_the_byte(void **state)
{
    (void)state;
    static const size_t limits[] = {1, 255, 32768, 65536};
    for (size_t i = 0; i < countof(limits); i++)
        for (int over = -1; over <= 2; over++)
            for (int level = 0; level <= 9; level += 3) {
                struct buf text = {0}, payload = {0}, back = {0};
                fill(&text, limits[i] + (size_t)over, level % 2);
                compress_like_a_client(buf_str(&text), level, &payload);
                assert_true(payload.len <= deflate_most(text.len));
                buf_puts(&back, "before");
                enum deflate_result result =
                    deflate_expand(ours, buf_str(&payload), limits[i], &back);
                assert_int_equal(result, over > 0 ? DEFLATE_TOO_BIG : DEFLATE_OK);
                assert_true(back.len <= strlen("before") + limits[i] + 1);
                if (over <= 0)
                    assert_memory_equal(back.bytes + strlen("before"), text.bytes, text.len);
                buf_done(&text);
                buf_done(&payload);
                buf_done(&back);
            }
}

/* A gigabyte in a megabyte costs what the limit allows, and no more. */
static void test_bomb_is_too_big(void **state)
{
    (void)state;
    struct buf text = {0}, payload = {0}, back = {0};
    fill(&text, 16 << 20, false);
    compress_like_a_client(buf_str(&text), 9, &payload);
    for (int i = 0; i < 6; i++) { /* 16 MiB, 64 times */
        assert_int_equal(deflate_expand(ours, buf_str(&payload), 65536, &back), DEFLATE_TOO_BIG);
        assert_true(back.cap <= 4 * 65536);
        buf_clear(&back);
        struct buf twice = {0};
        for (int n = 0; n < 2; n++) {
            buf_putstr(&twice, buf_str(&payload));
            buf_put(&twice, "\x00\x00\xff\xff", 4);
        }
        twice.len -= 4;
        buf_done(&payload);
        payload = twice;
    }
    buf_done(&text);
    buf_done(&payload);
    buf_done(&back);
}

/* Two bytes each, and what follows them may refer back beyond them. */
static void test_many_last_blocks_are_one_message(void **state)
{
    (void)state;
    struct buf text = {0}, payload = {0}, back = {0};
    fill(&text, 30000, false);
    compress_like_a_client(buf_str(&text), 9, &payload);
    buf_put(&payload, "\x00\x00\xff\xff", 4);
    for (int i = 0; i < 500000; i++)
        buf_put(&payload, "\x03\x00", 2); /* empty, and a last one */
    buf_put(&payload, HELLO_SHARED, 5);   /* an H, and four bytes of what was five before */
    assert_int_equal(deflate_expand(ours, buf_str(&payload), 65536, &back), DEFLATE_OK);
    buf_puts(&text, "H    ");
    assert_true(str_eq(buf_str(&back), buf_str(&text)));
    buf_done(&text);
    buf_done(&payload);
    buf_done(&back);
}

/* Headers alone are work without text: so they are told. */
static void test_blocks_are_counted(void **state)
{
    (void)state;
    static const struct {
        struct str payload;
        size_t blocks; /* with the empty one at the end, whose own end is not sent */
    } counted[] = {
        {STR(""), 0},
        {STR("\x00"), 1},
        {STR("\xf2\x48\xcd\xc9\xc9\x07\x00"), 2},
        {STR("\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00"), 4},
        {STR("\x03\x00\x03\x00\x03\x00\x00"), 4}, /* three that are empty, and last ones */
        {STR("\x02\x08\x20\x80\x00\x02\x08\x20\x80\x00\x00"), 9}, /* eight of ten bits each */
    };
    for (size_t i = 0; i < countof(counted); i++) {
        struct buf text = {0};
        assert_int_equal(deflate_expand(ours, counted[i].payload, 100, &text), DEFLATE_OK);
        assert_int_equal(deflate_blocks(ours), counted[i].blocks);
        buf_done(&text);
    }
}

static void test_every_cut_is_broken(void **state)
{
    (void)state;
    struct buf text = {0}, payload = {0};
    for (int i = 0; i < 200; i++)
        buf_putf(&text, json("{'n':%d,'text':'%x'}\n"), i, i * 7919);
    compress_like_a_client(buf_str(&text), 6, &payload);
    for (size_t n = 1; n < payload.len; n++) {
        struct buf back = {0};
        assert_int_equal(deflate_expand(ours, (struct str){payload.bytes, n}, 1 << 20, &back),
                         DEFLATE_BROKEN);
        buf_done(&back);
    }
    buf_done(&text);
    buf_done(&payload);
}

/* --- out -------------------------------------------------------------------------------------- */

/* The payload of a frame, after a look at its header (RFC 6455 5.2). */
static struct str payload_of(struct str frame)
{
    const uint8_t *p = (const uint8_t *)frame.p;
    assert_int_equal(p[0], 0xc1);
    size_t n = p[1], at = 2, more = n == 126 ? 2 : n == 127 ? 8 : 0;
    for (size_t i = 0; i < more; i++)
        n = (i ? n << 8 : 0) | p[at++];
    assert_int_equal(n, frame.n - at);
    assert_true(more == (n < 126 ? 0u : n < 65536 ? 2u : 8u)); /* the shortest form */
    return (struct str){frame.p + at, n};
}

/* As a client of that window would. */
static void expand_like_a_client(struct str payload, unsigned bits, struct buf *ret)
{
    z_stream z = {0};
    struct str parts[] = {payload, STR("\x00\x00\xff\xff")};
    assert_int_equal(inflateInit2(&z, -(int)bits), Z_OK);
    for (size_t i = 0; i < countof(parts); i++) {
        z.next_in = (const Bytef *)parts[i].p;
        z.avail_in = (uInt)parts[i].n;
        do {
            z.next_out = (Bytef *)buf_reserve(ret, 4096);
            z.avail_out = 4096;
            int status = inflate(&z, Z_SYNC_FLUSH);
            assert_true(status == Z_OK || status == Z_BUF_ERROR);
            ret->len += 4096 - z.avail_out;
        } while (!z.avail_out);
    }
    inflateEnd(&z);
}

/* For a client that keeps nothing. */
static struct str frame_alone(unsigned bits, struct str text)
{
    uint64_t last = 0;
    return deflate_frame(ours, (struct deflate_terms){.bits = (uint8_t)bits}, &last, text);
}

static void test_frame_is_read_back_in_every_window(void **state)
{
    (void)state;
    static const size_t sizes[] = {256, 1000, 65536, 300000};
    for (unsigned bits = 9; bits <= 15; bits++)
        for (size_t i = 0; i < countof(sizes); i++) {
            struct buf text = {0}, back = {0};
            while (text.len < sizes[i])
                fill(&text, 3 + text.len % 30, text.len % 1000 < 500);
            struct str frame = frame_alone(bits, buf_str(&text));
            if (!frame.p && sizes[i] < 1000) { /* this one has nothing that is alike */
                buf_clear(&text);
                fill(&text, sizes[i], false);
                frame = frame_alone(bits, buf_str(&text));
            }
            assert_non_null(frame.p);
            assert_true(frame.n < text.len);
            expand_like_a_client(payload_of(frame), bits, &back);
            assert_true(str_eq(buf_str(&back), buf_str(&text)));
            buf_done(&text);
            buf_done(&back);
        }
}

/* Little repeats in it, or much: the frame is shorter, with its header. */
static void test_frame_is_shorter_than_its_text(void **state)
{
    (void)state;
    struct buf text = {0};
    for (size_t same = 0; same < 300; same++) {
        buf_clear(&text);
        fill(&text, 300, true);
        fill(&text, same, false);
        struct str frame = frame_alone(15, buf_str(&text));
        assert_true(frame.n < text.len);
    }
    buf_done(&text);
}

static void test_same_text_is_the_same_frame(void **state)
{
    (void)state;
    struct buf text = {0};
    fill(&text, 1000, false);
    struct str first = frame_alone(15, buf_str(&text));
    struct str again = frame_alone(15, buf_str(&text));
    assert_ptr_equal(first.p, again.p);
    assert_int_equal(first.n, again.n);
    text.bytes[999] = 'x'; /* the same in all but its last byte */
    struct buf back = {0};
    expand_like_a_client(payload_of(frame_alone(15, buf_str(&text))), 15, &back);
    assert_true(str_eq(buf_str(&back), buf_str(&text)));
    buf_clear(&back);
    expand_like_a_client(payload_of(frame_alone(9, buf_str(&text))), 9, &back);
    assert_true(str_eq(buf_str(&back), buf_str(&text)));
    buf_done(&text);
    buf_done(&back);
}

static void test_what_gets_no_smaller_stays_as_it_is(void **state)
{
    (void)state;
    struct buf text = {0};
    fill(&text, 255, false); /* too short to be worth it */
    assert_null(frame_alone(15, buf_str(&text)).p);
    buf_clear(&text);
    fill(&text, 100000, true);
    for (int again = 0; again < 2; again++)
        assert_null(frame_alone(15, (struct str){text.bytes, 60000}).p);
    assert_null(frame_alone(15, buf_str(&text)).p);
    buf_clear(&text);
    fill(&text, 1000, false);
    assert_non_null(frame_alone(15, buf_str(&text)).p);
    buf_done(&text);
}

/* A client that got the bytes before reads the block of the rest, a byte at a time: so all that it
 * is referred back to must be in its window. */
static void check_block(struct str bytes, size_t before, unsigned bits)
{
    char *block = xalloc(FIXED_BLOCK_ROOM(bytes.n - before)), *back = xalloc(bytes.n + 1);
    size_t n = fixed_block(bytes.p, before, bytes.n, (size_t)1 << bits, block);
    struct str parts[] = {{block, n}, STR("\x00\x00\xff\xff")};
    z_stream z = {.next_out = (Bytef *)back};
    assert_true(n + sizeof(uint64_t) <= FIXED_BLOCK_ROOM(bytes.n - before));
    assert_int_equal(inflateInit2(&z, -(int)bits), Z_OK);
    assert_int_equal(inflateSetDictionary(&z, (const Bytef *)bytes.p, (uInt)before), Z_OK);
    for (size_t i = 0; i < countof(parts); i++) {
        z.next_in = (const Bytef *)parts[i].p;
        z.avail_in = (uInt)parts[i].n;
        int status = Z_OK;
        while (status == Z_OK && z.total_out <= bytes.n - before) {
            z.avail_out = 1;
            status = inflate(&z, Z_SYNC_FLUSH);
        }
        assert_true(status == Z_BUF_ERROR && z.avail_in == 0);
    }
    assert_int_equal(z.total_out, bytes.n - before);
    assert_memory_equal(back, bytes.p + before, bytes.n - before);
    inflateEnd(&z);
    free(block);
    free(back);
}

/* Each length, each distance (of the window, and one more), and each letter. */
static void test_block_with_fixed_codes_is_read_back(void **state)
{
    (void)state;
    struct buf text = {0};
    check_block(STR(""), 0, 15);
    for (size_t same = 1; same <= 300; same++) {
        buf_clear(&text);
        fill(&text, 300, true);
        buf_reserve(&text, same);
        buf_put(&text, text.bytes, same);
        check_block(buf_str(&text), 0, 15);
        check_block(buf_str(&text), 300, 15);
        check_block(buf_str(&text), text.len, 15);
    }
    for (size_t back = 1; back <= 32769; back += back < 1100 ? 1 : 977) {
        buf_clear(&text);
        fill(&text, back, true);
        buf_reserve(&text, 20);
        for (int i = 0; i < 20; i++)
            buf_putc(&text, text.bytes[i]);
        for (unsigned bits = 9; bits <= 15; bits += back <= 1100 ? 1 : 6)
            check_block(buf_str(&text), back < 512 ? back : 512, bits);
        check_block(buf_str(&text), 0, 15);
    }
    buf_clear(&text);
    while (text.len < FIXED_BLOCK_LONGEST)
        fill(&text, 1, text.len % 7000 < 5000);
    check_block(buf_str(&text), 0, 9);
    buf_done(&text);
}

/* A connection of a client that keeps its window, whatever is sent to others in between. */
struct reader {
    unsigned bits;
    uint64_t last;
    z_stream z;
};

static void reader_open(struct reader *r, unsigned bits)
{
    *r = (struct reader){.bits = bits};
    assert_int_equal(inflateInit2(&r->z, -(int)bits), Z_OK);
}

/* Sends a text, and checks that the client reads it; returns the bytes on the wire. */
static size_t reader_take(struct reader *r, struct str text)
{
    struct deflate_terms terms = {.bits = (uint8_t)r->bits, .takes_over = true};
    struct str frame = deflate_frame(ours, terms, &r->last, text);
    if (!frame.p)
        return text.n;
    struct str parts[] = {payload_of(frame), STR("\x00\x00\xff\xff")};
    struct buf back = {0};
    for (size_t i = 0; i < countof(parts); i++) {
        r->z.next_in = (const Bytef *)parts[i].p;
        r->z.avail_in = (uInt)parts[i].n;
        r->z.next_out = (Bytef *)buf_reserve(&back, text.n + 1);
        r->z.avail_out = (uInt)text.n + 1;
        int status = inflate(&r->z, Z_SYNC_FLUSH);
        assert_true((status == Z_OK || status == Z_BUF_ERROR) && r->z.avail_in == 0);
        back.len += text.n + 1 - r->z.avail_out;
    }
    assert_true(str_eq(buf_str(&back), text));
    buf_done(&back);
    return frame.n;
}

static void event_line(struct buf *b, int task, int n)
{
    static const char *const words[] = {"the", "journal", "keeps", "what", "was", "said", "so"};
    buf_clear(b);
    buf_putf(b, json("{'type':'event','task_id':'01M8G%021d','seq':%d,'ts':%ld,"), task, n,
             1795829840974L + n * 37);
    buf_putf(b, json("'event':'token','data':{'text':'%s '}}"), words[n * 5 % 7]);
}

static void test_message_like_the_one_before_is_a_few_bytes(void **state)
{
    (void)state;
    for (unsigned bits = 9; bits <= 15; bits++) {
        struct reader r;
        struct buf line = {0};
        size_t bytes = 0;
        reader_open(&r, bits);
        for (int n = 0; n < 500; n++) {
            event_line(&line, 1, n);
            bytes += reader_take(&r, buf_str(&line));
        }
        if (bytes / 500 > 30)
            fail_msg("%zu bytes an event in a window of %u bits", bytes / 500, bits);
        inflateEnd(&r.z);
        buf_done(&line);
    }
}

/* More connections than the ring has places: a text that has left it is no dictionary. */
static void test_message_before_may_be_forgotten(void **state)
{
    (void)state;
    enum { N = 5000 };
    struct reader *readers = xcalloc(N * sizeof *readers);
    struct buf line = {0};
    for (int i = 0; i < N; i++)
        reader_open(&readers[i], 15);
    for (int n = 0; n < 3; n++)
        for (int i = 0; i < N; i++) {
            event_line(&line, i, n);
            reader_take(&readers[i], buf_str(&line));
        }
    for (int i = 0; i < N; i++)
        inflateEnd(&readers[i].z);
    buf_done(&line);
    free(readers);
}

/* Readers of one stream that have got the same before get the same frame, also between others. */
static void test_readers_of_one_stream_share_a_frame(void **state)
{
    (void)state;
    struct deflate_terms terms = {.bits = 15, .takes_over = true};
    struct buf line = {0};
    uint64_t last[3] = {0};
    for (int n = 0; n < 10; n++) {
        struct str first = STR_NULL;
        event_line(&line, 1, n);
        for (size_t i = 0; i < countof(last); i++) {
            struct str frame = deflate_frame(ours, terms, &last[i], buf_str(&line));
            if (i == 0)
                first = frame;
            assert_ptr_equal(frame.p, first.p);
            assert_int_equal(frame.n, first.n);
        }
        assert_true(last[0] == last[1] && last[1] == last[2]);
    }
    buf_done(&line);
}

static void test_readers_at_random_places_read_what_was_sent(void **state)
{
    (void)state;
    enum { N = 12 };
    struct reader readers[N];
    struct buf text = {0};
    uint32_t seed = 3;
    for (unsigned i = 0; i < N; i++)
        reader_open(&readers[i], 9 + i % 7);
    for (int n = 0; n < 20000; n++) {
        seed = seed * 1664525 + 1013904223;
        struct reader *r = &readers[(seed >> 8) % N];
        if (seed >> 24 < 200) {
            event_line(&text, (int)(seed >> 12 & 3), n);
        } else {
            buf_clear(&text);
            fill(&text, seed >> 16 & 2047, seed >> 24 & 1);
        }
        reader_take(r, buf_str(&text));
        if (seed >> 28 == 0) /* the same text to the next one too */
            reader_take(&readers[(seed >> 9) % N], buf_str(&text));
    }
    for (unsigned i = 0; i < N; i++)
        inflateEnd(&readers[i].z);
    buf_done(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_offers_are_taken_or_left),
        cmocka_unit_test(test_examples_of_the_rfc),
        cmocka_unit_test(test_limit_holds_to_the_byte),
        cmocka_unit_test(test_bomb_is_too_big),
        cmocka_unit_test(test_many_last_blocks_are_one_message),
        cmocka_unit_test(test_blocks_are_counted),
        cmocka_unit_test(test_every_cut_is_broken),
        cmocka_unit_test(test_frame_is_read_back_in_every_window),
        cmocka_unit_test(test_frame_is_shorter_than_its_text),
        cmocka_unit_test(test_same_text_is_the_same_frame),
        cmocka_unit_test(test_what_gets_no_smaller_stays_as_it_is),
        cmocka_unit_test(test_block_with_fixed_codes_is_read_back),
        cmocka_unit_test(test_message_like_the_one_before_is_a_few_bytes),
        cmocka_unit_test(test_message_before_may_be_forgotten),
        cmocka_unit_test(test_readers_of_one_stream_share_a_frame),
        cmocka_unit_test(test_readers_at_random_places_read_what_was_sent),
    };
    return cmocka_run_group_tests(tests, open_deflate, close_deflate);
}
