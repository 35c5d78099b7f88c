#include "proto/js.h"
#include "proto/js_scan.h"
#include "tests/support/t.h"

/* The oracle knows nothing of lead bytes and ranges: it writes down the encoding of every character
 * there is and remembers all that begins one. */
struct oracle {
    bool whole1[1 << 8], begins1[1 << 8];
    bool whole2[1 << 16], begins2[1 << 16];
    bool whole3[1 << 24], begins3[1 << 24];
};
static struct oracle *oracle;

static int make_oracle(void **state)
{
    (void)state;
    oracle = xcalloc(sizeof *oracle);
    for (uint32_t c = 0; c <= 0x10FFFF; c++) {
        if (c >= 0xD800 && c <= 0xDFFF)
            continue;
        if (c < 0x80) {
            oracle->whole1[c] = true;
        } else if (c < 0x800) {
            uint32_t b0 = 0xC0 + (c >> 6), b1 = 0x80 + c % 64;
            oracle->begins1[b0] = true;
            oracle->whole2[b0 << 8 | b1] = true;
        } else if (c < 0x10000) {
            uint32_t b0 = 0xE0 + (c >> 12), b1 = 0x80 + (c >> 6) % 64, b2 = 0x80 + c % 64;
            oracle->begins1[b0] = true;
            oracle->begins2[b0 << 8 | b1] = true;
            oracle->whole3[b0 << 16 | b1 << 8 | b2] = true;
        } else {
            uint32_t b0 = 0xF0 + (c >> 18), b1 = 0x80 + (c >> 12) % 64, b2 = 0x80 + (c >> 6) % 64;
            oracle->begins1[b0] = true;
            oracle->begins2[b0 << 8 | b1] = true;
            oracle->begins3[b0 << 16 | b1 << 8 | b2] = true; /* any trail byte ends it */
        }
    }
    return 0;
}

static int free_oracle(void **state)
{
    (void)state;
    free(oracle);
    return 0;
}

/* How many bytes the first character has, or the first maximal subpart of none. */
static size_t oracle_step(const unsigned char *p, size_t n, bool *ret_whole)
{
    uint32_t b0 = p[0], b01 = n > 1 ? b0 << 8 | p[1] : 0, b012 = n > 2 ? b01 << 8 | p[2] : 0;
    size_t whole = oracle->whole1[b0]                                               ? 1
                   : n > 1 && oracle->whole2[b01]                                   ? 2
                   : n > 2 && oracle->whole3[b012]                                  ? 3
                   : n > 3 && oracle->begins3[b012] && p[3] >= 0x80 && p[3] <= 0xBF ? 4
                                                                                    : 0;
    *ret_whole = whole > 0;
    if (whole)
        return whole;
    if (n > 2 && oracle->begins3[b012])
        return 3;
    return n > 1 && oracle->begins2[b01] ? 2 : 1;
}

static void test_utf8_random_bytes_are_judged_as_the_oracle_does(void **state)
{
    (void)state;
    static const unsigned char interesting[] = {
        'a',  '"',  '\\', 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2,
        0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF};
    uint64_t random = t_seed();
    for (int round = 0; round < 200000; round++) {
        unsigned char bytes[24];
        size_t n = t_below(&random, sizeof bytes), chars = 0;
        for (size_t i = 0; i < n; i++)
            bytes[i] =
                t_below(&random, 3) ? interesting[t_below(&random, sizeof interesting)] : 'x';
        struct str text = {(const char *)bytes, n};
        bool valid = true, whole;
        struct buf expected = {0}, got = {0};
        buf_putc(&expected, '"');
        for (size_t at = 0; at < n; chars++) {
            size_t len = oracle_step(bytes + at, n - at, &whole);
            bool escape = bytes[at] == '"' || bytes[at] == '\\';
            valid = valid && whole;
            if (escape)
                buf_putc(&expected, '\\');
            if (whole)
                buf_put(&expected, bytes + at, len);
            else
                buf_puts(&expected, "\xef\xbf\xbd");
            assert_int_equal(utf8_chars(text, chars), at);
            at += len;
        }
        buf_putc(&expected, '"');
        js_put_str(&got, text);
        assert_int_equal(utf8_valid(text), valid);
        assert_int_equal(utf8_chars(text, chars), n);
        assert_span(buf_str(&got), expected.bytes, expected.len);
        buf_done(&expected);
        buf_done(&got);
    }
}

static void test_utf8_every_character_is_valid_and_whole(void **state)
{
    (void)state;
    for (uint32_t b01 = 0; b01 < 1 << 16; b01++) {
        char two[2] = {(char)(b01 >> 8), (char)b01};
        bool ascii = b01 >> 8 < 0x80 && (b01 & 0xFF) < 0x80;
        assert_int_equal(utf8_valid((struct str){two, 2}), ascii || oracle->whole2[b01]);
    }
    for (uint32_t b012 = 0xE00000; b012 < 1 << 24; b012++) {
        char four[4] = {(char)(b012 >> 16), (char)(b012 >> 8), (char)b012, (char)0xBF};
        if (utf8_valid((struct str){four, 3}) != oracle->whole3[b012] ||
            utf8_valid((struct str){four, 4}) != oracle->begins3[b012])
            fail_msg("%06x", b012);
    }
}

static void test_utf8_cut_ends_on_a_border(void **state)
{
    (void)state;
    /*                          0 1   3       6           10 */
    const struct str text = STR("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z");
    static const size_t borders[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11, 11};
    for (size_t max = 0; max < countof(borders); max++)
        assert_int_equal(utf8_cut(text, max), borders[max]);
    assert_int_equal(utf8_cut(STR(""), 0), 0);
    assert_int_equal(utf8_cut(STR("abc"), 0), 0);
    assert_int_equal(utf8_cut(STR_NULL, 5), 0);
    /* Broken text has no borders: it is cut somewhere, not read beyond. */
    assert_true(utf8_cut(STR("\x80\x80\x80\x80\x80\x80"), 5) <= 5);
    assert_true(utf8_cut(STR("\x80\x80\x80"), 2) <= 2);
}

static void test_utf8_whole_drops_the_beginning_of_a_character(void **state)
{
    (void)state;
    /*                          0 1   3       6           10 */
    const struct str text = STR("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z");
    static const size_t whole[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11};
    for (size_t n = 0; n < countof(whole); n++)
        assert_int_equal(utf8_whole((struct str){text.p, n}), whole[n]);
    assert_int_equal(utf8_whole(STR_NULL), 0);
    /* Bytes that were broken before were not cut: they stay. */
    assert_int_equal(utf8_whole(STR("\x80\x80\x80\x80\x80")), 5);
    assert_int_equal(utf8_whole(STR("\x80\x80")), 2);
    assert_int_equal(utf8_whole(STR("a\xff")), 2);
}

static void test_utf8_chars_counts_characters(void **state)
{
    (void)state;
    const struct str text = STR("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z");
    static const size_t bytes[] = {0, 1, 3, 6, 10, 11, 11, 11};
    for (size_t n = 0; n < countof(bytes); n++)
        assert_int_equal(utf8_chars(text, n), bytes[n]);
}

static void test_utf8_begun_is_what_a_character_begins_with(void **state)
{
    (void)state;
    for (uint32_t c = 0; c <= 0x10FFFF; c = c == 0xD7FF ? 0xE000 : c + 1) {
        char text[5] = "\xbf"; /* what stands before it does not matter */
        size_t n = utf8_encode(c, text + 1);
        for (size_t part = 0; part < n; part++)
            assert_int_equal(utf8_begun((struct str){text + 1, part}), part);
        assert_int_equal(utf8_begun((struct str){text, n + 1}), 0);
    }
    static const char *const broken[] = {"\x80",         "\xc0",     "\xc1",         "\xf5",
                                         "\xff",         "\xe0\x80", "\xe0\x9f",     "\xed\xa0",
                                         "\xf0\x8f",     "\xf4\x90", "\xf0\x80\x80", "\xf4\x90\x80",
                                         "\x80\x80\x80", "\xc3x"};
    for (size_t i = 0; i < countof(broken); i++)
        assert_int_equal(utf8_begun(str_of(broken[i])), 0);
}

/* A run ends at the first byte that must be escaped or is broken, whatever the steps in which it
 * looks, and goes on over characters beyond ASCII. */
static void test_utf8_clean_run_ends_at_the_first_special_byte(void **state)
{
    (void)state;
    static const char special[] = {'"', '\\', 0, 0x1f, (char)0x80, (char)0xff};
    char text[301], plain[sizeof text];
    for (size_t i = 0; i < sizeof text; i++)
        plain[i] = "aZ ~\x7f!#[]"[i % 9];
    for (size_t at = 0; at < sizeof text; at++) {
        memcpy(text, plain, sizeof text);
        assert_int_equal(clean_run(text, at), at);
        for (size_t i = 0; i < sizeof special; i++) {
            text[at] = special[i];
            assert_int_equal(clean_run(text, sizeof text), at);
        }
        memcpy(text + at, "\xc3\xa4", at + 2 <= sizeof text ? 2 : 0);
        assert_int_equal(clean_run(text, sizeof text), at + 2 <= sizeof text ? sizeof text : at);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_utf8_random_bytes_are_judged_as_the_oracle_does),
        cmocka_unit_test(test_utf8_every_character_is_valid_and_whole),
        cmocka_unit_test(test_utf8_clean_run_ends_at_the_first_special_byte),
        cmocka_unit_test(test_utf8_cut_ends_on_a_border),
        cmocka_unit_test(test_utf8_whole_drops_the_beginning_of_a_character),
        cmocka_unit_test(test_utf8_chars_counts_characters),
        cmocka_unit_test(test_utf8_begun_is_what_a_character_begins_with),
    };
    return cmocka_run_group_tests(tests, make_oracle, free_oracle);
}
