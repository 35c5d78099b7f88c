#include "tests/support/js_kit.h"

static struct str value_of(uint32_t node)
{
    buf_clear(&out);
    js_value(&doc, node, &out);
    return buf_str(&out);
}

/* A JSON string without its quotes. */
static struct str inside(struct str quoted)
{
    return (struct str){quoted.p + 1, quoted.n - 2};
}

/* --- strings ---------------------------------------------------------------------------------- */

/* Raw text between quotes, its value, and what a copy writes between quotes. */
struct string {
    const char *raw;
    struct str value;
    const char *copy;
    bool plain;
};

static void assert_string(const struct string *s, enum js_flags flags)
{
    struct buf text = {0};
    buf_putf(&text, json("'%s'"), s->raw);
    assert_true(js_parse(&doc, text.bytes, text.len, flags));
    assert_int_equal(js_type(&doc, 0), JS_STRING);
    assert_int_equal(doc.nodes[0].plain, s->plain);
    assert_span(js_raw(&doc, 0), s->raw, strlen(s->raw));
    assert_span(value_of(0), s->value.p, s->value.n);
    assert_span(inside(copy_of(0)), s->copy, strlen(s->copy));
    buf_done(&text);
}

static void test_js_write_strings_are_decoded_and_normalised(void **state)
{
    (void)state;
    const struct string rows[] = {
        {"", {"", 0}, "", true},
        {"abc", {"abc", 3}, "abc", true},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
         {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9},
         "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
         true},
        {json("\\'\\\\\\/\\b\\f\\n\\r\\t"),
         {json("'\\/\b\f\n\r\t"), 8},
         json("\\'\\\\/\\b\\f\\n\\r\\t"),
         false},
        {"\\u0041", {"A", 1}, "A", false},
        {"\\u00e9\\u20AC", {"\xc3\xa9\xe2\x82\xac", 5}, "\xc3\xa9\xe2\x82\xac", false},
        {"\\ud83d\\ude00", {"\xf0\x9f\x98\x80", 4}, "\xf0\x9f\x98\x80", false},
        {"\\uDBFF\\uDFFF", {"\xf4\x8f\xbf\xbf", 4}, "\xf4\x8f\xbf\xbf", false},
        {"\\u0000", {"\0", 1}, "\\u0000", false},
        {"\\u001f\\u000A\\u007f", {"\x1f\n\x7f", 3}, "\\u001f\\n\x7f", false},
        {"\\u000b", {"\v", 1}, "\\u000b", false},
        {"\\u0022\\u005c\\u002f", {json("'\\/"), 3}, json("\\'\\\\/"), false},
        {"\\u2028\\u2029", {"\xe2\x80\xa8\xe2\x80\xa9", 6}, "\xe2\x80\xa8\xe2\x80\xa9", false},
        {"\\ufffd\\uffff", {"\xef\xbf\xbd\xef\xbf\xbf", 6}, "\xef\xbf\xbd\xef\xbf\xbf", false},
        {"a\\\\u0041", {"a\\u0041", 7}, "a\\\\u0041", false},
        /* F55: halves of a pair */
        {"\\ud83d", {"\xef\xbf\xbd", 3}, "\xef\xbf\xbd", false},
        {"\\ude00", {"\xef\xbf\xbd", 3}, "\xef\xbf\xbd", false},
        {"a\\ud83dz", {"a\xef\xbf\xbdz", 5}, "a\xef\xbf\xbdz", false},
        {"\\ud83d\\ud83d\\ude00",
         {"\xef\xbf\xbd\xf0\x9f\x98\x80", 7},
         "\xef\xbf\xbd\xf0\x9f\x98\x80",
         false},
        {"\\ude00\\ud83d", {"\xef\xbf\xbd\xef\xbf\xbd", 6}, "\xef\xbf\xbd\xef\xbf\xbd", false},
        {"\\ud83d\\u0041",
         {"\xef\xbf\xbd"
          "A",
          4},
         "\xef\xbf\xbd"
         "A",
         false},
        {"\\ud83d\\n", {"\xef\xbf\xbd\n", 4}, "\xef\xbf\xbd\\n", false},
        {"\\ud83d\\\\ude00", {"\xef\xbf\xbd\\ude00", 9}, "\xef\xbf\xbd\\\\ude00", false},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        assert_string(&rows[i], JS_CLIENT);
        assert_string(&rows[i], JS_AGENT);
    }
}

static void test_js_write_specials_at_every_place_of_a_word_are_seen(void **state)
{
    (void)state;
    /* The scan takes eight bytes at a time: a special byte must stop it wherever it stands. */
    static const struct {
        const char *special, *value;
    } rows[] = {{"\\n", "\n"}, {"\\\"", "\""}, {"\xc3\xa9", "\xc3\xa9"}, {"\\u0041", "A"}};
    for (size_t i = 0; i < countof(rows); i++) {
        for (int before = 0; before < 20; before++) {
            for (int behind = 0; behind < 20; behind++) {
                char text[64], value[64];
                snprintf(text, sizeof text, json("'%.*s%s%.*s'"), before, "aaaaaaaaaaaaaaaaaaaa",
                         rows[i].special, behind, "!~#[]^AZ09 |}{!~#[]^");
                snprintf(value, sizeof value, "%.*s%s%.*s", before, "aaaaaaaaaaaaaaaaaaaa",
                         rows[i].value, behind, "!~#[]^AZ09 |}{!~#[]^");
                assert_true(parse(text, JS_CLIENT));
                assert_span(value_of(0), value, strlen(value));
            }
        }
    }
    for (int c = 0; c < 0x20; c++) {
        for (size_t at = 0; at < 20; at++) {
            char text[] = "\"aaaaaaaaaaaaaaaaaaaa\"";
            text[1 + at] = (char)c;
            assert_false(js_parse(&doc, text, sizeof text - 1, JS_AGENT));
            assert_int_equal(doc.error_at, 1 + at);
        }
    }
}

#define FFFD "\xef\xbf\xbd"

static void test_js_write_invalid_utf8_is_refused_or_repaired(void **state)
{
    (void)state;
    static const struct {
        const char *raw, *repaired;
    } rows[] = {
        {"\x80", FFFD},
        {"\xff", FFFD},
        {"\xc0\xaf", FFFD FFFD}, /* overlong, 2 */
        {"\xc1\xbf", FFFD FFFD},
        {"\xe0\x80\xaf", FFFD FFFD FFFD}, /* overlong, 3 */
        {"\xe0\x9f\xbf", FFFD FFFD FFFD},
        {"\xf0\x80\x80\xaf", FFFD FFFD FFFD FFFD}, /* overlong, 4 */
        {"\xf0\x8f\xbf\xbf", FFFD FFFD FFFD FFFD},
        {"\xed\xa0\x80", FFFD FFFD FFFD},          /* U+D800 */
        {"\xed\xbf\xbf", FFFD FFFD FFFD},          /* U+DFFF */
        {"\xf4\x90\x80\x80", FFFD FFFD FFFD FFFD}, /* U+110000 */
        {"\xf5\x80\x80\x80", FFFD FFFD FFFD FFFD},
        {"\xc3", FFFD}, /* cut off by the quote */
        {"\xe2\x82", FFFD},
        {"\xf0\x9f\x98", FFFD},
        {"\xf0\x9f", FFFD},
        {"\xf0", FFFD},
        {"\xe2\x82"
         "a",
         FFFD "a"},
        {"\xf0\x9f\x98\\n", FFFD "\\n"},
        {"\xf0\x9f\x98\xf0\x9f\x98\x80", FFFD "\xf0\x9f\x98\x80"},
        {"a\xf1\x80\x80\xe1\x80\xc2"
         "b\x80"
         "c\x80\xbf"
         "d", /* Unicode standard, table 3-8 */
         "a" FFFD FFFD FFFD "b" FFFD "c" FFFD FFFD "d"},
        {"\xed\x9f\xbf\xee\x80\x80\xe2\x28\xa1", "\xed\x9f\xbf\xee\x80\x80" FFFD "(" FFFD},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        char text[64];
        int n = snprintf(text, sizeof text, json("'%s'"), rows[i].raw);
        assert_false(js_parse(&doc, text, (size_t)n, JS_CLIENT));
        assert_string_equal(doc.error, "invalid UTF-8");
        assert_true(js_parse(&doc, text, (size_t)n, JS_AGENT));
        struct str copy = copy_of(0);
        assert_span(inside(copy), rows[i].repaired, strlen(rows[i].repaired));
        assert_true(utf8_valid(copy));
        buf_clear(&out);
        js_put_str(&out, str_of(rows[i].raw));
        assert_int_equal(js_str_size(str_of(rows[i].raw)), out.len);
        if (!strchr(rows[i].raw, '\\'))
            assert_span(inside(buf_str(&out)), rows[i].repaired, strlen(rows[i].repaired));
    }
}

static void test_js_write_invalid_bytes_outside_strings_are_refused_in_repair_too(void **state)
{
    (void)state;
    assert_false(parse("{\"a\":\xff}", JS_AGENT));
    assert_false(parse("\x80", JS_AGENT));
    assert_false(parse("[1]\xc3\xa9", JS_AGENT));
}

/* --- random documents with a known copy ------------------------------------------------------- */

struct maker {
    uint64_t random;
    struct buf text, compact;
    unsigned serial; /* makes keys unique */
};

static void make_space(struct maker *m)
{
    static const char *const spaces[] = {"", "", "", " ", "\n", "\t\r ", "          "};
    buf_puts(&m->text, spaces[t_below(&m->random, countof(spaces))]);
}

static void make_both(struct maker *m, const char *s)
{
    buf_puts(&m->text, s);
    buf_puts(&m->compact, s);
}

static void make_string(struct maker *m, bool key)
{
    /* one character: as it may be written, and as a copy writes it */
    const char *const pieces[][2] = {
        {"a", "a"},
        {"Z", "Z"},
        {" ", " "},
        {"hello world, ", "hello world, "},
        {"\\u0062", "b"},
        {"\\n", "\\n"},
        {"\\u000a", "\\n"},
        {"\\\"", "\\\""},
        {"\\/", "/"},
        {"/", "/"},
        {"\\\\", "\\\\"},
        {"\\u005C", "\\\\"},
        {"\\u0001", "\\u0001"},
        {"\\u001F", "\\u001f"},
        {"\xc3\xa9", "\xc3\xa9"},
        {"\\u00E9", "\xc3\xa9"},
        {"\xe4\xbd\xa0\xe5\xa5\xbd", "\xe4\xbd\xa0\xe5\xa5\xbd"},
        {"\\uD83D\\uDE00", "\xf0\x9f\x98\x80"},
        {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
        {"\xff", FFFD},
        {"\xe2\x82.", FFFD "."},
        {"\\udc00.", FFFD "."},
        {"\\ud800.", FFFD "."},
        {"\\u0000", "\\u0000"},
        {"\\b\\f\\r\\t", "\\b\\f\\r\\t"},
    };
    make_both(m, json("'"));
    if (key) {
        char serial[16];
        snprintf(serial, sizeof serial, "%u:", m->serial++);
        make_both(m, serial);
    }
    for (size_t n = t_below(&m->random, 12); n > 0; n--) {
        size_t i = t_below(&m->random, countof(pieces));
        buf_puts(&m->text, pieces[i][0]);
        buf_puts(&m->compact, pieces[i][1]);
    }
    make_both(m, json("'"));
}

static void make_value(struct maker *m, unsigned depth) /* NOLINT(misc-no-recursion) */
{
    static const char *const scalars[] = {
        "null", "true", "false", "0", "-0", "1.50", "1e400", "-12E-3", "18446744073709551616"};
    size_t kind = t_below(&m->random, depth < 6 ? 10 : 6);
    make_space(m);
    if (kind < 3) {
        make_both(m, scalars[t_below(&m->random, countof(scalars))]);
    } else if (kind < 6) {
        make_string(m, false);
    } else {
        bool object = kind >= 8;
        make_both(m, object ? "{" : "[");
        for (size_t n = t_below(&m->random, 5), i = 0; i < n; i++) {
            if (i > 0)
                make_both(m, ",");
            if (object) {
                make_space(m);
                make_string(m, true);
                make_space(m);
                make_both(m, ":");
            }
            make_value(m, depth + 1);
        }
        make_space(m);
        make_both(m, object ? "}" : "]");
    }
    make_space(m);
}

static void test_js_write_random_documents_copy_to_their_compact_form(void **state)
{
    (void)state;
    struct maker m = {.random = t_seed()};
    for (int round = 0; round < 20000; round++) {
        buf_clear(&m.text);
        buf_clear(&m.compact);
        make_value(&m, 0);
        bool ok = js_parse(&doc, m.text.bytes, m.text.len, JS_AGENT);
        if (!ok)
            print_error("%s: %s at %zu\n", m.text.bytes, doc.error, doc.error_at);
        assert_true(ok);
        assert_span(copy_of(0), m.compact.bytes, m.compact.len);
        assert_true(js_parse(&doc, m.compact.bytes, m.compact.len, JS_AGENT));
        assert_span(copy_of(0), m.compact.bytes, m.compact.len);
    }
    buf_done(&m.text);
    buf_done(&m.compact);
}

/* --- writing ---------------------------------------------------------------------------------- */

static void test_js_write_put_writes_compact_members(void **state)
{
    (void)state;
    buf_putc(&out, '{');
    js_put_field(&out, "type", STR("chat"));
    js_put_field(&out, "name", STR_NULL);
    js_put_int(&out, "n", 0);
    js_put_int(&out, "min", INT64_MIN);
    js_put_int(&out, "max", INT64_MAX);
    js_put_bool(&out, "yes", true);
    js_put_bool(&out, "no", false);
    js_put_raw(&out, "raw", STR("[1,2]"));
    js_put_key(&out, "list");
    buf_putc(&out, '[');
    js_put_str(&out, STR("a"));
    buf_puts(&out, ",{");
    js_put_int(&out, "x", -1);
    buf_puts(&out, "}]}");
    assert_text(buf_str(&out), json("{'type':'chat','name':null,'n':0,'min':-9223372036854775808,"
                                    "'max':9223372036854775807,'yes':true,'no':false,'raw':[1,2],"
                                    "'list':['a',{'x':-1}]}"));
    assert_int_equal(out.bytes[out.len], 0);
}

static void test_js_write_put_str_escapes_what_must_be(void **state)
{
    (void)state;
    const struct {
        struct str value;
        const char *json;
    } rows[] = {
        {{"", 0}, json("''")},
        {{"plain", 5}, json("'plain'")},
        {{json("'\\/"), 3}, json("'\\'\\\\/'")},
        {{"\b\f\n\r\t\v\x01\x1f\x7f", 9}, json("'\\b\\f\\n\\r\\t\\u000b\\u0001\\u001f\x7f'")},
        {{"a\0b", 3}, json("'a\\u0000b'")},
        {{"\\u0041", 6}, json("'\\\\u0041'")},
        {{"\xe2\x80\xa8", 3}, json("'\xe2\x80\xa8'")},
        {{"\xc3", 1}, json("'" FFFD "'")},
        {{"\xed\xa0\xbd\xed\xb8\x80", 6}, json("'" FFFD FFFD FFFD FFFD FFFD FFFD "'")}, /* CESU-8 */
        {{NULL, 0}, "null"},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        buf_clear(&out);
        js_put_str(&out, rows[i].value);
        assert_int_equal(js_str_size(rows[i].value), out.len);
        assert_span(buf_str(&out), rows[i].json, strlen(rows[i].json));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_js_write_strings_are_decoded_and_normalised),
        TEST(test_js_write_specials_at_every_place_of_a_word_are_seen),
        TEST(test_js_write_invalid_utf8_is_refused_or_repaired),
        TEST(test_js_write_invalid_bytes_outside_strings_are_refused_in_repair_too),
        TEST(test_js_write_random_documents_copy_to_their_compact_form),
        TEST(test_js_write_put_writes_compact_members),
        TEST(test_js_write_put_str_escapes_what_must_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
