/* CRC-32C: the vectors of RFC 3720, B.4, and one value whichever way it is summed. */
#include "tests/support/t.h"

#include "gateway/store/crc32c.h"

/* RFC 3720 shows the sum as it goes over the wire, its lowest byte first: "aa 36 91 8a" is
 * 0x8a9136aa. */
static void test_rfc_3720_vectors(void **state)
{
    unsigned char zeros[32] = {0}, ones[32], up[32], down[32];
    static const unsigned char read_command[48] = {
        0x01, 0xc0, 0, 0, 0, 0, 0,    0, 0,    0, 0, 0,    0, 0, 0, 0,
        0x14, 0,    0, 0, 0, 0, 0x04, 0, 0,    0, 0, 0x14, 0, 0, 0, 0x18,
        0x28, 0,    0, 0, 0, 0, 0,    0, 0x02, 0, 0, 0,    0, 0, 0, 0};
    (void)state;
    memset(ones, 0xff, sizeof ones);
    for (unsigned char i = 0; i < 32; i++) {
        up[i] = i;
        down[i] = (unsigned char)(31 - i);
    }
    const struct {
        const void *bytes;
        size_t n;
        uint32_t sum;
    } vectors[] = {{zeros, 32, 0x8a9136aa},        {ones, 32, 0x62a8ab43},
                   {up, 32, 0x46dd794e},           {down, 32, 0x113fdb5c},
                   {read_command, 48, 0xd9963a56}, {"", 0, 0},
                   {"123456789", 9, 0xe3069283}};
    for (size_t i = 0; i < countof(vectors); i++) {
        assert_int_equal(crc32c(0, vectors[i].bytes, vectors[i].n), vectors[i].sum);
        assert_int_equal(crc32c_by_table(0, vectors[i].bytes, vectors[i].n), vectors[i].sum);
    }
}

/* Lanes, words and bytes meet at other places for each length and each alignment. */
static void test_processor_and_table_agree_at_every_length(void **state)
{
    static unsigned char text[10000];
    uint32_t x = 1;
    (void)state;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (unsigned char)((x = x * 1664525 + 1013904223) >> 24);
    for (size_t n = 0; n < sizeof text - 8; n += n < 100 ? 1 : 61)
        for (size_t at = 0; at < 8; at += 3)
            assert_int_equal(crc32c(7, text + at, n), crc32c_by_table(7, text + at, n));
}

static void test_pieces_have_the_sum_of_the_whole(void **state)
{
    static unsigned char text[9000];
    (void)state;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (unsigned char)(i * 7 + i / 256);
    uint32_t whole = crc32c(0, text, sizeof text);
    for (size_t cut = 0; cut <= sizeof text; cut += 37)
        assert_int_equal(crc32c(crc32c(0, text, cut), text + cut, sizeof text - cut), whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rfc_3720_vectors),
        cmocka_unit_test(test_processor_and_table_agree_at_every_length),
        cmocka_unit_test(test_pieces_have_the_sum_of_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
