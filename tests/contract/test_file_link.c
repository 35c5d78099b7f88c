/* The proof in the URL of a file: for an hour, for one file of one owner, and for nothing else. */
#include "gateway/auth/file_link.h"

#include "proto/str.h"
#include "tests/support/t.h"

#define NOW_MS 1800000123456LL
static const unsigned char key[FILE_LINK_KEY_BYTES] = "a key that is known to this test",
                           other_key[FILE_LINK_KEY_BYTES] = "a key that is known to this tesT";
static const struct file_link file = {{"al/ice", 6}, {"c", 1}, {"f1", 2}};

static bool reads(const unsigned char *by, const struct file_link *link, struct buf *proof,
                  int64_t at_ms)
{
    struct buf owner = {0};
    int64_t until = 0;
    bool good = file_link_read(by, link, buf_str(proof), at_ms, &owner, &until);
    assert_true(!good || (str_eq(buf_str(&owner), file.owner) && until > at_ms));
    assert_true(good || owner.len == 0);
    buf_done(&owner);
    return good;
}

static void test_file_link_is_good_for_an_hour(void **state)
{
    struct buf proof = {0}, later = {0};
    int64_t begin = NOW_MS - NOW_MS % (FILE_LINK_STEP_S * 1000LL), end = begin + 3600000;
    (void)state;
    assert_true(file_link_put(key, &file, NOW_MS, &proof));
    assert_true(reads(key, &file, &proof, NOW_MS) && reads(key, &file, &proof, end - 1));
    assert_false(reads(key, &file, &proof, end));
    assert_false(reads(key, &file, &proof, end + 86400000));
    assert_true(file_link_put(key, &file, begin + FILE_LINK_STEP_S * 1000LL - 1, &later));
    assert_true(str_eq(buf_str(&proof), buf_str(&later)));
    buf_clear(&later);
    assert_true(file_link_put(key, &file, begin + FILE_LINK_STEP_S * 1000LL, &later));
    assert_false(str_eq(buf_str(&proof), buf_str(&later)));
    buf_done(&proof);
    buf_done(&later);
}

static void test_file_link_is_good_for_nothing_else(void **state)
{
    struct buf proof = {0}, cut = {0};
    const struct file_link others[] = {
        {{0}, {"c", 1}, {"f2", 2}}, {{0}, {"d", 1}, {"f1", 2}}, {{0}, {"c\0f", 3}, {"1", 1}}};
    (void)state;
    assert_true(file_link_put(key, &file, NOW_MS, &proof));
    assert_false(reads(other_key, &file, &proof, NOW_MS));
    for (size_t i = 0; i < countof(others); i++)
        assert_false(reads(key, &others[i], &proof, NOW_MS));
    for (size_t i = 0; i < proof.len; i++) { /* one character is another, or the last */
        proof.bytes[i] ^= 1;
        assert_false(reads(key, &file, &proof, NOW_MS));
        proof.bytes[i] ^= 1;
        buf_clear(&cut);
        buf_put(&cut, proof.bytes, i);
        assert_false(reads(key, &file, &cut, NOW_MS));
    }
    buf_putc(&proof, 'A');
    assert_false(reads(key, &file, &proof, NOW_MS));
    buf_done(&proof);
    buf_done(&cut);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file_link_is_good_for_an_hour),
        cmocka_unit_test(test_file_link_is_good_for_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
