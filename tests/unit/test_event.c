#include "proto/event.h"
#include "proto/said.h"
#include "tests/support/t.h"

#define TID "01ARZ3NDEKTSV4RRFFQ69G5FAV"
#define LINE(seq, event, data)                                                                   \
    "{\"type\":\"event\",\"task_id\":\"" TID "\",\"seq\":" seq ",\"ts\":1000,\"event\":\"" event \
    "\",\"data\":" data "}\n"
#define MERGED(seq, from, event, data)                                           \
    "{\"type\":\"event\",\"task_id\":\"" TID "\",\"seq\":" seq ",\"from\":" from \
    ",\"ts\":1000,\"event\":\"" event "\",\"data\":" data "}\n"

static struct buf out;

static int teardown(void **state)
{
    (void)state;
    buf_done(&out);
    return 0;
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

static void test_event_line_is_that_of_the_page(void **state)
{
    (void)state;
    event_line(&out, TID, 17, 1764280000123, EVENT_TOKEN, str_of(json("{'text':'Hel'}")));
    event_line(&out, TID, UINT64_MAX, -5, EVENT_TASK_STARTED, STR("{}"));
    assert_text(buf_str(&out),
                json("{'type':'event','task_id':'" TID "','seq':17,'ts':1764280000123,"
                     "'event':'token','data':{'text':'Hel'}}\n"
                     "{'type':'event','task_id':'" TID "','seq':18446744073709551615,'ts':-5,"
                     "'event':'task.started','data':{}}\n"));
    assert_int_equal(out.bytes[EVENT_SEQ_AT], '1');
    assert_int_equal(out.bytes[EVENT_SEQ_AT + 1], '7');
    assert_int_equal(event_line_seq(out.bytes, out.len), 17);
}

/* The tail of a silent task is one line: what it reserves beyond that, each such task holds.  The
 * heap rounds up by less than 16 bytes; one is the NUL. */
static void test_event_line_takes_no_more_room_than_it_needs(void **state)
{
    static const int64_t times[] = {0, 9, 10, -10, 1764280000123, INT64_MAX, INT64_MIN};
    static const uint64_t seqs[] = {1, 9, 10, 100, 9007199254740991, UINT64_MAX};
    (void)state;
    for (int event = 0; event < N_EVENT_TYPES; event++)
        for (size_t i = 0; i < countof(times) * countof(seqs); i++) {
            event_line(&out, TID, seqs[i % countof(seqs)], times[i / countof(seqs)],
                       (enum event_type)event, str_of(json("{'text':'x'}")));
            assert_true(out.cap - out.len <= 16);
            buf_done(&out);
        }
}

static void test_event_names_are_those_of_the_wire(void **state)
{
    (void)state;
    static const char *const names[] = {
        "task.created",   "task.started",   "task.resumed", "thinking", "token",
        "tool_call",      "tool_result",    "progress",     "child",    "message",
        "input_required", "input_received", "custom",       "file",     "final_answer",
        "task.completed", "task.failed"};
    assert_int_equal(N_EVENT_TYPES, countof(names));
    for (size_t i = 0; i < countof(names); i++) {
        enum event_type event = EVENT_TOKEN;
        assert_string_equal(event_name((enum event_type)i), names[i]);
        assert_true(event_find(str_of(names[i]), &event));
        assert_int_equal(event, i);
        assert_int_equal(event_is_terminal(event), i >= 15);
    }
    enum event_type untouched = EVENT_CHILD;
    assert_false(event_find(STR("tok"), &untouched));
    assert_false(event_find(STR(""), &untouched));
    assert_false(event_find(STR_NULL, &untouched));
    assert_int_equal(untouched, EVENT_CHILD);
}

static void test_event_line_split_gives_back_every_part(void **state)
{
    (void)state;
    static const int64_t times[] = {0, 1, -1, 1764280000123, INT64_MAX, INT64_MIN};
    static const uint64_t seqs[] = {0, 1, 9, 10, 9007199254740991, UINT64_MAX};
    const char *const data[] = {"{}", json("{'text':'}\\n\\''}"), json("{'a':{'b':[{}]}}")};
    for (int event = 0; event < N_EVENT_TYPES; event++) {
        for (size_t i = 0; i < countof(times); i++) {
            struct event_parts parts;
            struct str given = str_of(data[i % countof(data)]);
            buf_clear(&out);
            event_line(&out, TID, seqs[i], times[i], (enum event_type)event, given);
            for (size_t newline = 0; newline < 2; newline++) {
                assert_true(event_line_split((struct str){out.bytes, out.len - newline}, &parts));
                assert_true(parts.seq == seqs[i]);
                assert_true(parts.ts == times[i]);
                assert_int_equal(parts.event, event);
                assert_span(parts.data, given.p, given.n);
            }
            assert_true(event_line_seq(out.bytes, out.len) == seqs[i]);
        }
    }
    struct event_parts parts;
    assert_true(event_line_split(str_of(json(MERGED("9", "3", "token", "{'text':'x'}"))), &parts));
    assert_int_equal(parts.seq, 9);
    assert_text(parts.data, json("{'text':'x'}"));
}

static void test_event_line_split_refuses_what_is_no_line(void **state)
{
    (void)state;
    const char *const lines[] = {
        "",
        "\n",
        "{}",
        json("{'type':'event'}"),
        "x" LINE("1", "token", "{}"),
        LINE("", "token", "{}"),
        LINE("-1", "token", "{}"),
        LINE("18446744073709551616", "token", "{}"),
        LINE("1", "tokens", "{}"),
        LINE("1", "", "{}"),
        LINE("1", "token", ""),
        LINE("1", "token", "[]"),
        LINE("1", "token", "1"),
        LINE("1", "token", "{"),
    };
    struct event_parts parts;
    for (size_t i = 0; i < countof(lines); i++)
        if (event_line_split(str_of(lines[i]), &parts))
            fail_msg("accepted: %s", lines[i]);
    assert_false(event_line_split(STR_NULL, &parts));
}

static void test_event_line_split_refuses_every_cut(void **state)
{
    (void)state;
    static const char line[] = LINE("12", "token", "{\"a\":\"x\"}");
    size_t whole = sizeof line - 1;
    for (size_t n = 0; n < whole; n++) {
        struct event_parts parts;
        char *cut = xalloc(n);
        memcpy(cut, line, n);
        bool ok = event_line_split((struct str){cut, n}, &parts);
        free(cut);
        if (ok != (n == whole - 1)) /* without its newline it is a line */
            fail_msg("%zu bytes", n);
    }
}

/* --- said ------------------------------------------------------------------------------------- */

static void say(struct said *said, struct str line)
{
    struct event_parts parts;
    if (event_line_split(line, &parts))
        said_line(said, &parts);
}

static void test_said_joins_tokens_until_a_final_answer(void **state)
{
    (void)state;
    struct said said = {0};
    assert_null_span(said_output(&said));
    say(&said, str_of(json(LINE("1", "task.created", "{'input':'x','text':'no'}"))));
    say(&said, str_of(json(LINE("2", "thinking", "{'text':'hm'}"))));
    assert_null_span(said_output(&said));
    say(&said, str_of(json(LINE("3", "token", "{'text':''}"))));
    assert_null_span(said_output(&said));
    say(&said, str_of(json(LINE("4", "token", "{'text':'a\\n'}"))));
    say(&said, str_of(json(LINE("5", "token", "{'x':1,'text':'\\u0062'}"))));
    say(&said, STR("garbage\n"));
    say(&said, str_of(json(LINE("6", "token", "{'text':5}"))));
    say(&said, str_of(json(LINE("7", "token", "{'text'}"))));
    assert_text(said_output(&said), "a\nb");
    say(&said, str_of(json(LINE("8", "final_answer", "{'output':'F1'}"))));
    said_token(&said, STR("c"));
    assert_text(said_output(&said), "F1");
    say(&said, str_of(json(LINE("9", "final_answer", "{'output':''}"))));
    assert_text(said_output(&said), "");
    assert_text(buf_str(&said.tokens), "a\nbc");
    said_done(&said);
    assert_null_span(said_output(&said));
}

static void test_said_tokens_are_cut_behind_a_whole_character(void **state)
{
    (void)state;
    struct said said = {0};
    char *text = xalloc(MAX_OUTPUT);
    memset(text, 'a', MAX_OUTPUT);
    said_token(&said, (struct str){text, MAX_OUTPUT - 2});
    assert_false(said.tokens_cut);
    said_token(&said, STR("\xe2\x82\xac"));
    assert_true(said.tokens_cut);
    assert_int_equal(said.tokens.len, MAX_OUTPUT - 2);
    said_token(&said, STR("b")); /* would fit, but is not the text's beginning */
    assert_int_equal(said.tokens.len, MAX_OUTPUT - 2);
    said_done(&said);

    said_token(&said, (struct str){text, MAX_OUTPUT}); /* all that may be is not cut */
    said_token(&said, STR(""));
    assert_false(said.tokens_cut);
    assert_int_equal(said.tokens.len, MAX_OUTPUT);
    said_token(&said, STR("b"));
    assert_true(said.tokens_cut);
    assert_int_equal(said.tokens.len, MAX_OUTPUT);
    said_done(&said);
    free(text);
}

static void assert_lines_are(const char *lines, bool good)
{
    assert_int_equal(event_lines_are(str_of(lines), 7, 9), good);
}

static void test_event_lines_are_dense_whole_and_of_one_task(void **state)
{
    (void)state;
    struct buf lines = {0};
    for (uint64_t seq = 7; seq <= 9; seq++)
        event_line(&lines, "01ARZ3NDEKTSV4RRFFQ69G5FAV", seq, 1, EVENT_TOKEN,
                   str_of(json("{'text':''}")));
    assert_true(event_lines_are(buf_str(&lines), 7, 9));
    assert_false(event_lines_are(buf_str(&lines), 7, 8));
    assert_false(event_lines_are(buf_str(&lines), 7, 10));
    assert_false(event_lines_are(buf_str(&lines), 6, 8));
    assert_false(event_lines_are(buf_str(&lines), 7, 6));
    for (size_t n = 0; n < lines.len; n++) /* every cut */
        assert_false(event_lines_are((struct str){lines.bytes, n}, 7, 9));
    for (size_t i = 0; i < EVENT_SEQ_AT + 2; i++) { /* in the first line, and then in the last */
        struct buf other = {0};
        buf_putstr(&other, buf_str(&lines));
        other.bytes[i] ^= 1;
        assert_false(event_lines_are(buf_str(&other), 7, 9));
        other.bytes[i] ^= 1;
        other.bytes[lines.len / 3 * 2 + i] ^= 1;
        assert_false(event_lines_are(buf_str(&other), 7, 9));
        buf_done(&other);
    }
    assert_lines_are("", false);
    assert_lines_are("\n\n\n", false);
    buf_done(&lines);
}

/* Where a number gets a digit more, and where it ends. */
static void test_event_lines_are_counted_up(void **state)
{
    static const uint64_t firsts[] = {1, 8, 95, 999, 9999999, UINT64_MAX - 4};
    (void)state;
    for (size_t i = 0; i < countof(firsts); i++) {
        struct buf lines = {0};
        for (uint64_t n = 0; n < 5; n++)
            event_line(&lines, "01ARZ3NDEKTSV4RRFFQ69G5FAV", firsts[i] + n, 1, EVENT_TOKEN,
                       str_of(json("{'text':'\\n'}")));
        bool good = event_lines_are(buf_str(&lines), firsts[i], firsts[i] + 4);
        bool early = event_lines_are(buf_str(&lines), firsts[i] - 1, firsts[i] + 3);
        uint64_t last = event_last_seq(buf_str(&lines));
        size_t n = event_last_line(buf_str(&lines)).n, all = lines.len;
        buf_done(&lines);
        assert_true(good);
        assert_false(early);
        assert_true(last == firsts[i] + 4);
        assert_true(n > all / 5 - 2 && n < all / 5 + 2);
    }
}

static void put_many(struct buf *ret, const char *piece, size_t n)
{
    for (size_t i = 0; i < n; i++)
        buf_puts(ret, piece);
}

/* In a line an output is quoted: what is cut is what makes that too long. */
static void test_event_output_is_cut_to_what_a_line_carries(void **state)
{
    static const struct {
        const char *piece;
        size_t n, least, most; /* bytes that are left */
    } rows[] = {
        {"", 0, 0, 0},
        {"x", 1000, 1000, 1000},
        {"x", MAX_OUTPUT, MAX_OUTPUT, MAX_OUTPUT},
        {"x", MAX_OUTPUT + 1, MAX_OUTPUT, MAX_OUTPUT},
        {"\xe2\x82\xac", MAX_OUTPUT, MAX_OUTPUT - 1,
         MAX_OUTPUT - 1}, /* three bytes each, whole ones */
        {"\x01", MAX_OUTPUT, 100000, (MAX_EVENT_LINE - EVENT_FRAME) / 6}, /* six each, quoted */
    };
    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        struct buf text = {0};
        put_many(&text, rows[i].piece, rows[i].n);
        buf_clear(&out);
        buf_putc(&out, '{');
        struct str left =
            event_put_output(&out, (struct str){text.len ? text.bytes : "", text.len});
        assert_in_range(left.n, rows[i].least, rows[i].most);
        assert_int_equal(left.n % (rows[i].n ? strlen(rows[i].piece) : 1), 0);
        assert_true(out.len <= MAX_EVENT_LINE - EVENT_FRAME);
        assert_int_equal(out.len, strlen(json("{'output':")) + js_str_size(left));
        buf_done(&text);
    }
}

/* The caller makes sure that this does not happen. */
static void test_event_output_behind_a_full_line_is_empty(void **state)
{
    (void)state;
    put_many(&out, "{", MAX_EVENT_LINE);
    assert_int_equal(event_put_output(&out, STR("x")).n, 0);
    assert_int_equal(out.len, MAX_EVENT_LINE + strlen(json("'output':''")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_event_line_is_that_of_the_page),
        TEST(test_event_line_takes_no_more_room_than_it_needs),
        TEST(test_event_names_are_those_of_the_wire),
        TEST(test_event_line_split_gives_back_every_part),
        TEST(test_event_line_split_refuses_what_is_no_line),
        TEST(test_event_line_split_refuses_every_cut),
        TEST(test_event_lines_are_dense_whole_and_of_one_task),
        TEST(test_event_lines_are_counted_up),
        TEST(test_event_output_is_cut_to_what_a_line_carries),
        TEST(test_event_output_behind_a_full_line_is_empty),
        TEST(test_said_joins_tokens_until_a_final_answer),
        TEST(test_said_tokens_are_cut_behind_a_whole_character),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
