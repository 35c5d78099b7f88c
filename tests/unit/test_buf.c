#include "tests/support/t.h"

static struct buf b;

static int teardown(void **state)
{
    (void)state;
    buf_done(&b);
    return 0;
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

static void test_buf_zeroed_is_empty_and_usable(void **state)
{
    (void)state;
    assert_text(buf_str(&b), "");
    buf_put(&b, NULL, 0);
    buf_consume(&b, 0);
    buf_clear(&b);
    assert_text(buf_str(&b), "");
    buf_done(&b);
    buf_done(&b);
}

static void test_buf_put_keeps_a_nul_behind(void **state)
{
    (void)state;
    struct buf expected = {0};
    for (int i = 0; i < 300; i++) { /* over several growths, at every length */
        buf_putc(&b, (char)('a' + i % 26));
        assert_int_equal(b.len, i + 1);
        assert_int_equal(b.bytes[b.len], 0);
        assert_true(b.cap > b.len);
    }
    for (int i = 0; i < 300; i += 26)
        buf_put(&expected, "abcdefghijklmnopqrstuvwxyz", 26);
    bool same = memcmp(b.bytes, expected.bytes, b.len) == 0;
    buf_done(&expected);
    assert_true(same);
}

static void test_buf_grows_by_half_of_what_it_holds(void **state)
{
    size_t growths = 0, cap = 0;
    (void)state;
    for (size_t i = 0; i < 100000; i++) {
        buf_putc(&b, 'x');
        assert_true(b.cap <= 56 || b.cap <= b.len + b.len / 2 + 16);
        growths += b.cap != cap;
        cap = b.cap;
    }
    assert_true(growths <= 1 + 19); /* 56 * 1.5^19 > 100,000 */
    buf_done(&b);
    buf_reserve(&b, 999); /* one growth, when it is known how much there will be */
    assert_in_range(b.cap, 1000, 1015);
}

static void test_buf_numbers_and_formats_are_appended(void **state)
{
    (void)state;
    buf_put_u64(&b, 0);
    buf_putc(&b, ' ');
    buf_put_u64(&b, 18446744073709551615u);
    buf_putf(&b, " %s=%d", "x", -5);
    buf_putf(&b, "%s", "");
    buf_putstr(&b, STR_NULL);
    assert_text(buf_str(&b), "0 18446744073709551615 x=-5");
    buf_clear(&b);
    buf_putf(&b, "%0200d", 7);
    assert_int_equal(b.len, 200);
    assert_int_equal(b.bytes[199], '7');
    assert_int_equal(b.bytes[200], 0);
}

static void test_buf_consume_drops_the_front(void **state)
{
    (void)state;
    buf_puts(&b, "hello world");
    buf_consume(&b, 6);
    assert_text(buf_str(&b), "world");
    assert_int_equal(b.bytes[b.len], 0);
    buf_consume(&b, 5);
    assert_text(buf_str(&b), "");
}

static void test_buf_reserve_gives_room_behind_the_last_byte(void **state)
{
    (void)state;
    buf_puts(&b, "ab");
    char *to = buf_reserve(&b, 1000);
    memset(to, 'c', 1000);
    b.len += 1000;
    assert_int_equal(b.len, 1002);
    assert_memory_equal(b.bytes, "abc", 3);
}

static void test_buf_take_hands_over_and_empties(void **state)
{
    (void)state;
    buf_puts(&b, "mine");
    char *taken = buf_take(&b);
    bool right = strcmp(taken, "mine") == 0 && b.len == 0 && !b.bytes;
    free(taken);
    char *nothing = buf_take(&b);
    right = right && strcmp(nothing, "") == 0;
    free(nothing);
    assert_true(right);
}

static void test_str_helpers_treat_null_as_absent(void **state)
{
    (void)state;
    assert_null_span(str_of(NULL));
    assert_true(str_eq(STR_NULL, STR(""))); /* equal in bytes; p tells them apart */
    assert_false(str_eq(STR("a"), STR("b")));
    assert_null(xstrdup(STR_NULL));
    char *copy = xstrdup((struct str){"abc", 2});
    bool right = strcmp(copy, "ab") == 0;
    free(copy);
    assert_true(right);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_buf_zeroed_is_empty_and_usable),
        TEST(test_buf_put_keeps_a_nul_behind),
        TEST(test_buf_grows_by_half_of_what_it_holds),
        TEST(test_buf_numbers_and_formats_are_appended),
        TEST(test_buf_consume_drops_the_front),
        TEST(test_buf_reserve_gives_room_behind_the_last_byte),
        TEST(test_buf_take_hands_over_and_empties),
        TEST(test_str_helpers_treat_null_as_absent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
