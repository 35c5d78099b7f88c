#include <stdio.h>

#include "proto/sse_reader.h"
#include "tests/support/t.h"

/* An event is written down as "type|data|id;". */
static void note(struct buf *seen, const struct sse_event *e)
{
    buf_putstr(seen, e->event);
    buf_putc(seen, '|');
    buf_putstr(seen, e->data);
    buf_putc(seen, '|');
    buf_putstr(seen, e->id);
    buf_putc(seen, ';');
}

/* A copy that is gone after the call, so that nothing points into it later. */
static void feed(struct sse_reader *s, const char *bytes, size_t n, struct buf *seen)
{
    char *copy = xalloc(n);
    if (n)
        memcpy(copy, bytes, n);
    struct str in = {copy, n};
    struct sse_event e;
    while (sse_reader_next(s, &in, &e) == SSE_EVENT)
        note(seen, &e);
    assert_int_equal(in.n, 0);
    free(copy);
}

static void expect(struct buf *seen, const char *want, const char *how, size_t cut)
{
    if (!str_eq(buf_str(seen), str_of(want)))
        fail_msg("%s, cut at %zu: got %s, want %s", how, cut, buf_str(seen).p, want);
    buf_done(seen);
}

/* Whole, in two pieces at every place, and byte by byte. */
static void check(struct str text, const char *want)
{
    struct buf seen = {0};
    for (size_t cut = 0; cut <= text.n; cut++) {
        struct sse_reader s = {0};
        feed(&s, text.p, cut, &seen);
        feed(&s, text.p + cut, text.n - cut, &seen);
        expect(&seen, want, text.p, cut);
        sse_reader_done(&s);
    }
    struct sse_reader s = {0};
    for (size_t i = 0; i < text.n; i++)
        feed(&s, text.p + i, 1, &seen);
    expect(&seen, want, text.p, text.n);
    sse_reader_done(&s);
}

struct row {
    const char *text, *want;
};

static void check_rows(const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        check(str_of(rows[i].text), rows[i].want);
}

/* The examples of the HTML Standard, section 9.2.6. */
static void test_sse_reader_examples_of_the_standard(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"data: YHOO\ndata: +2\ndata: 10\n\n", "message|YHOO\n+2\n10|;"},
        {": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n",
         "message|first event|1;message|second event|;"},
        {"data\n\ndata\ndata\n\ndata:", "message||;message|\n|;"},
        {"data:test\n\ndata: test\n\n", "message|test|;message|test|;"},
    };
    check_rows(rows, countof(rows));
}

/* F59 */
static void test_sse_reader_line_ends_of_all_three_kinds(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"data: a\r\ndata: b\r\n\r\n", "message|a\nb|;"},
        {"data: a\rdata: b\r\r", "message|a\nb|;"},
        {"data: a\ndata: b\r\rdata: c\r\n\n", "message|a\nb|;message|c|;"},
        {"data: a\r\n\ndata: b\n\r\n", "message|a|;message|b|;"},
        {"\r\n\r\n\r\rdata: a\r\n\r\n\r\n", "message|a|;"},
        {"data: a\n\r", "message|a|;"},
    };
    check_rows(rows, countof(rows));
}

static void test_sse_reader_fields(void **state)
{
    (void)state;
    const struct row rows[] = {
        {json("error: {'code':400}\n\ndata: [DONE]\n\n"), "error|{\"code\":400}|;message|[DONE]|;"},
        {"error\nevent: x\n\n", "x||;"},
        {"event: add\ndata: 1\n\ndata: 2\n\n", "add|1|;message|2|;"},
        {"event: add\n\ndata: 2\n\n", "message|2|;"}, /* no data: no event, and no name left */
        {"event: a\nevent: b\ndata: 1\n\n", "b|1|;"},
        {"event\ndata: 1\n\n", "message|1|;"},
        {"id: 7\ndata: 1\n\ndata: 2\n\nid: 8\n\ndata: 3\n\n",
         "message|1|7;message|2|7;message|3|8;"},
        {"Data: 1\n\n data: 1\n\ndatum: 1\n\ndata : 1\n\n", ""},
        {":data: 1\n\n: \n\n:\n\n", ""},
        {"data:: 1\n\ndata: a: b\n\n", "message|: 1|;message|a: b|;"},
        {"data:\t1 \n\n", "message|\t1 |;"},
        {"nonsense\ndata: 1\n:comment\ndata: 2\n\n", "message|1\n2|;"},
    };
    check_rows(rows, countof(rows));
}

static void test_sse_reader_characters_split_at_any_byte(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"data: \xC3\xA4\xE2\x82\xAC\xF0\x9F\x90\x9A\n\n",
         "message|\xC3\xA4\xE2\x82\xAC\xF0\x9F\x90\x9A|;"},
        {"event: \xE6\xB5\xB7\nid: \xF0\x9F\x8C\x8A\ndata: x\n\n",
         "\xE6\xB5\xB7|x|\xF0\x9F\x8C\x8A;"},
        {"data: \xFF\xC3\n\n", "message|\xFF\xC3|;"}, /* passes as it is */
    };
    check_rows(rows, countof(rows));
}

static void test_sse_reader_byte_order_mark_only_at_the_start(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"\xEF\xBB\xBF"
         "data: 1\n\n",
         "message|1|;"},
        {"\xEF\xBB\xBF\xEF\xBB\xBF"
         "data: 1\n\n",
         ""},
        {"\n\xEF\xBB\xBF"
         "data: 1\n\n",
         ""},
        {"\xEF\xBB"
         "data: 1\n\n",
         ""},
    };
    check_rows(rows, countof(rows));
}

static void test_sse_reader_nul_passes_in_data_and_not_in_an_id(void **state)
{
    (void)state;
    struct sse_reader s = {0};
    struct str in = STR("id: a\ndata: x\0y\n\nid: b\0\ndata: 1\n\n");
    struct sse_event e;
    assert_int_equal(sse_reader_next(&s, &in, &e), SSE_EVENT);
    assert_true(str_eq(e.data, STR("x\0y")) && str_eq(e.id, STR("a")));
    assert_int_equal(sse_reader_next(&s, &in, &e), SSE_EVENT);
    assert_true(str_eq(e.data, STR("1")) && str_eq(e.id, STR("a")));
    sse_reader_done(&s);
}

static void test_sse_reader_retry_takes_digits_only(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } rows[] = {{"retry: 3000\n", 3000}, {"retry:0\n", 0},         {"retry: 1.5\n", 0},
                {"retry: -1\n", 0},      {"retry: 5\nretry\n", 5}, {"retry: 5\nretry: 6x\n", 5}};
    for (size_t i = 0; i < countof(rows); i++) {
        struct sse_reader s = {0};
        struct buf seen = {0};
        feed(&s, rows[i].text, strlen(rows[i].text), &seen);
        assert_int_equal(s.retry_ms, rows[i].ms);
        assert_int_equal(seen.len, 0);
        sse_reader_done(&s);
    }
    struct sse_reader s = {0};
    struct str in = STR("retry: 99999999999999999999999999\n");
    assert_int_equal(sse_reader_next(&s, &in, &(struct sse_event){0}), SSE_MORE);
    assert_true(s.retry_ms > 1000000);
    sse_reader_done(&s);
}

static void test_sse_reader_last_gives_what_has_no_empty_line_behind_it(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"data: [DONE]", "message|[DONE]|;"},
        {"data: [DONE]\n", "message|[DONE]|;"},
        {"data: a\r\ndata: b\r", "message|a\nb|;"},
        {"event: x\ndata: b", "x|b|;"},
        {"event: x", ""},
        {"", ""},
        {"data: a\n\n", ""},
        {": bye", ""},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct str text = str_of(rows[i].text);
        for (size_t cut = 0; cut <= text.n; cut++) {
            struct sse_reader s = {0};
            struct buf seen = {0}, late = {0};
            struct sse_event e;
            feed(&s, text.p, cut, &seen);
            feed(&s, text.p + cut, text.n - cut, &seen);
            if (sse_reader_last(&s, &e) == SSE_EVENT)
                note(&late, &e);
            assert_int_equal(sse_reader_last(&s, &e), SSE_MORE);
            expect(&late, rows[i].want, text.p, cut);
            buf_done(&seen);
            sse_reader_done(&s);
        }
    }
}

static void test_sse_reader_event_that_is_too_long_breaks_the_stream(void **state)
{
    (void)state;
    static const char *const endless[] = {"data: xxxxxxxxxxxxxxxxxxxxxxxxx",
                                          "data: xxxxxxx\ndata: xxxxxxx\ndata: xxxxxxx\n",
                                          ":xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n"};
    for (size_t i = 0; i < countof(endless); i++) {
        struct sse_reader s = {.max = 24};
        struct sse_event e;
        struct str in = STR("data: just short enough\n\n"), more = str_of(endless[i]);
        assert_int_equal(sse_reader_next(&s, &in, &e), SSE_EVENT);
        assert_int_equal(sse_reader_next(&s, &more, &e), SSE_TOO_LONG);
        struct str after = STR("\n\ndata: 1\n\n");
        assert_int_equal(sse_reader_next(&s, &after, &e), SSE_TOO_LONG);
        assert_int_equal(sse_reader_last(&s, &e), SSE_TOO_LONG);
        sse_reader_done(&s);
        assert_int_equal(sse_reader_next(&s, &after, &e), SSE_EVENT); /* as new */
        sse_reader_done(&s);
    }
}

/* A quadratic cost would take a minute here. */
static void test_sse_reader_takes_line_ends_in_no_time(void **state)
{
    (void)state;
    static char text[2 * 1024 * 1024];
    struct buf seen = {0};
    for (const char *end = "\r\n"; *end; end++) {
        struct sse_reader s = {0};
        memset(text, *end, sizeof text);
        feed(&s, text, sizeof text, &seen);
        assert_int_equal(seen.len, 0);
        sse_reader_done(&s);
    }
    buf_done(&seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sse_reader_examples_of_the_standard),
        cmocka_unit_test(test_sse_reader_line_ends_of_all_three_kinds),
        cmocka_unit_test(test_sse_reader_fields),
        cmocka_unit_test(test_sse_reader_characters_split_at_any_byte),
        cmocka_unit_test(test_sse_reader_byte_order_mark_only_at_the_start),
        cmocka_unit_test(test_sse_reader_nul_passes_in_data_and_not_in_an_id),
        cmocka_unit_test(test_sse_reader_retry_takes_digits_only),
        cmocka_unit_test(test_sse_reader_last_gives_what_has_no_empty_line_behind_it),
        cmocka_unit_test(test_sse_reader_event_that_is_too_long_breaks_the_stream),
        cmocka_unit_test(test_sse_reader_takes_line_ends_in_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
