/* gateway/frame: headers of each length, to the byte, and frames one behind the other. */
#include <stdlib.h>

#include "gateway/front/frame.h"
#include "tests/support/t.h"

/* RFC 6455 section 5.2: as few bytes of length as will do. */
static const struct {
    size_t n;
    struct str head;
} frames[] = {
    {0, STR("\x81\x00")},
    {1, STR("\x81\x01")},
    {125, STR("\x81\x7d")},
    {126, STR("\x81\x7e\x00\x7e")},
    {65535, STR("\x81\x7e\xff\xff")},
    {65536, STR("\x81\x7f\x00\x00\x00\x00\x00\x01\x00\x00")},
    {70000, STR("\x81\x7f\x00\x00\x00\x00\x00\x01\x11\x70")},
};

static struct str text_of(size_t n)
{
    static char text[70000];
    for (size_t i = 0; i < n; i++)
        text[i] = (char)('a' + i % 23);
    return (struct str){text, n};
}

static const char *assert_frame(const char *at, size_t i)
{
    assert_memory_equal(at, frames[i].head.p, frames[i].head.n);
    assert_memory_equal(at + frames[i].head.n, text_of(frames[i].n).p, frames[i].n);
    return at + frames[i].head.n + frames[i].n;
}

static void test_frame_has_the_shortest_header(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(frames); i++) {
        struct buf out = {0};
        frame_put(&out, text_of(frames[i].n));
        assert_ptr_equal(assert_frame(out.bytes, i), out.bytes + out.len);
        buf_done(&out);
    }
}

/* In both orders, in a buffer that has just as much room as it needs until then. */
static void test_frames_stand_one_behind_the_other(void **state)
{
    (void)state;
    for (int backwards = 0; backwards < 2; backwards++) {
        struct buf out = {0};
        buf_puts(&out, "before");
        for (size_t k = 0; k < countof(frames); k++) {
            size_t i = backwards ? countof(frames) - 1 - k : k;
            size_t at = frame_begin(&out);
            buf_putstr(&out, text_of(frames[i].n));
            frame_end(&out, at);
        }
        const char *at = out.bytes + 6;
        assert_memory_equal(out.bytes, "before", 6);
        for (size_t k = 0; k < countof(frames); k++)
            at = assert_frame(at, backwards ? countof(frames) - 1 - k : k);
        assert_ptr_equal(at, out.bytes + out.len);
        buf_done(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frame_has_the_shortest_header),
        cmocka_unit_test(test_frames_stand_one_behind_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
