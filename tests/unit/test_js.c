#include "proto/limits.h"
#include "tests/support/js_kit.h"

/* --- the grammar ------------------------------------------------------------------------------ */

static void test_js_legal_text_is_accepted(void **state)
{
    (void)state;
    const struct {
        const char *text, *compact;
    } rows[] = {
        {"0", "0"},
        {" \t\r\n1 \t\r\n", "1"},
        {"-0", "-0"},
        {"-0.0e-0", "-0.0e-0"},
        {"1E+30", "1E+30"},
        {"123.456e7", "123.456e7"},
        {"true", "true"},
        {"false", "false"},
        {"null", "null"},
        {json("''"), json("''")},
        {"[]", "[]"},
        {"[ ]", "[]"},
        {"{}", "{}"},
        {"{ }", "{}"},
        {"[1 , 2,3]", "[1,2,3]"},
        {"[[],[[]],{}]", "[[],[[]],{}]"},
        {json("{ 'a' : 1 , 'b' : [ true , { 'c' : null } ] }"),
         json("{'a':1,'b':[true,{'c':null}]}")},
        {json("{'':{'':{'':0}}}"), json("{'':{'':{'':0}}}")},
        {json("'\x7f'"), json("'\x7f'")},
        {json("'\xe2\x80\xa8'"), json("'\xe2\x80\xa8'")},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        if (!parse(rows[i].text, JS_CLIENT))
            fail_msg("%s: %s at %zu", rows[i].text, doc.error, doc.error_at);
        assert_span(copy_of(0), rows[i].compact, strlen(rows[i].compact));
    }
}

static const struct {
    const char *text, *error;
    size_t at;
} illegal[] = {
    {"", "unexpected end", 0},
    {"  ", "unexpected end", 2},
    {"[", "unexpected end", 1},
    {"{\"a\"", "unexpected end", 4},
    {"{\"a\":", "unexpected end", 5},
    {"{\"a\":1", "unexpected end", 6},
    {"{\"a\":1,", "unexpected end", 7},
    {"\"abc", "unexpected end", 4},
    {"\"", "unexpected end", 1},
    {"1 2", "unexpected text after the value", 2},
    {"{}}", "unexpected text after the value", 2},
    {"[1,]", "unexpected character", 3},
    {"[,1]", "unexpected character", 1},
    {"[1 2]", "expected ',' or ']'", 3},
    {"[1}", "expected ',' or ']'", 2},
    {"{\"a\":1]", "expected ',' or '}'", 6},
    {"{\"a\":1,}", "expected a key", 7},
    {"{,}", "expected a key", 1},
    {"{1:2}", "expected a key", 1},
    {"{'a':1}", "expected a key", 1},
    {"{\"a\" 1}", "expected ':'", 5},
    {"{\"a\",1}", "expected ':'", 4},
    {"{\"a\"::1}", "unexpected character", 5},
    {"01", "unexpected text after the value", 1},
    {"[01]", "expected ',' or ']'", 2},
    {"-", "bad number", 0},
    {"+1", "unexpected character", 0},
    {".5", "unexpected character", 0},
    {"1.", "bad number", 0},
    {"[1.e3]", "bad number", 1},
    {"1e", "bad number", 0},
    {"1e+", "bad number", 0},
    {"-a", "bad number", 0},
    {"0x10", "unexpected text after the value", 1},
    {"NaN", "unexpected character", 0},
    {"Infinity", "unexpected character", 0},
    {"tru", "unexpected character", 0},
    {"nul", "unexpected character", 0},
    {"True", "unexpected character", 0},
    {"truex", "unexpected text after the value", 4},
    {"\"a\tb\"", "control character in a string", 2},
    {"\"a\nb\"", "control character in a string", 2},
    {"\"\x1f\"", "control character in a string", 1},
    {"\"\\x\"", "bad escape", 1},
    {"\"\\u12g4\"", "bad escape", 1},
    {"\"\\u123\"", "bad escape", 1},
    {"\"\\", "bad escape", 1},
    {"\"\\U0041\"", "bad escape", 1},
    {"\"\\'\"", "bad escape", 1},
    {"/* */1", "unexpected character", 0},
    {"1//", "unexpected text after the value", 1},
    {"\xef\xbb\xbf{}", "unexpected character", 0},
    {"\xc2\xa0{}", "unexpected character", 0},
    {"{\"a\":1,\"b\":2,\"a\":3}", "duplicate key", 14},
};

static void test_js_illegal_text_is_refused_with_its_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(illegal); i++) {
        if (parse(illegal[i].text, JS_CLIENT))
            fail_msg("accepted: %s", illegal[i].text);
        if (strcmp(doc.error, illegal[i].error) != 0 || doc.error_at != illegal[i].at)
            fail_msg("%s: %s at %zu", illegal[i].text, doc.error, doc.error_at);
    }
}

static void test_js_nul_bytes_outside_strings_are_refused(void **state)
{
    (void)state;
    assert_false(js_parse(&doc, "{}\0", 3, JS_CLIENT));
    assert_false(js_parse(&doc, "\0", 1, JS_CLIENT));
    assert_false(js_parse(&doc, json("'a\0b'"), 5, JS_CLIENT));
    assert_string_equal(doc.error, "control character in a string");
    assert_false(js_parse(&doc, NULL, 0, JS_CLIENT));
}

static void test_js_every_cut_of_a_text_is_refused(void **state)
{
    (void)state;
    static const char text[] =
        "{\"a\":[1,-2.5e+3,true,null],\"\\u00e9\\ud83d\\ude00\":\"\xf0\x9f\x98"
        "\x80\\n\",\"c\":{\"d\":false}}";
    for (size_t n = 0; n < sizeof text - 1; n++) {
        char *cut = xalloc(n); /* its own block, so that reading on is seen */
        memcpy(cut, text, n);
        bool strict = js_parse(&doc, cut, n, JS_CLIENT);
        bool lenient = js_parse(&doc, cut, n, JS_AGENT);
        free(cut);
        if (strict || lenient)
            fail_msg("accepted the first %zu bytes", n);
    }
    assert_true(js_parse(&doc, text, sizeof text - 1, JS_CLIENT));
}

/* --- nesting (F56) ---------------------------------------------------------------------------- */

static char *nested(size_t depth, const char *open, const char *middle, const char *close)
{
    struct buf b = {0};
    for (size_t i = 0; i < depth; i++)
        buf_puts(&b, open);
    buf_puts(&b, middle);
    for (size_t i = 0; i < depth; i++)
        buf_puts(&b, close);
    return buf_take(&b);
}

static void test_js_depth_at_the_limit_is_accepted_f56(void **state)
{
    (void)state;
    char *arrays = nested(MAX_JSON_DEPTH, "[", "", "]");
    char *objects = nested(MAX_JSON_DEPTH, json("{'a':"), "1", "}");
    bool ok = parse(arrays, JS_CLIENT);
    bool same = str_eq(copy_of(0), str_of(arrays));
    ok = ok && parse(objects, JS_AGENT);
    same = same && str_eq(copy_of(0), str_of(objects));
    free(arrays);
    free(objects);
    assert_true(ok);
    assert_true(same);
}

static void test_js_depth_over_the_limit_is_refused_f56(void **state)
{
    (void)state;
    static const size_t depths[] = {MAX_JSON_DEPTH + 1, 1000, 200000};
    for (size_t i = 0; i < countof(depths); i++) {
        char *arrays = nested(depths[i], "[", "", "]");
        char *objects = nested(depths[i], json("{'a':"), "1", "}");
        bool ok = parse(arrays, JS_CLIENT);
        size_t at = doc.error_at;
        const char *error = doc.error;
        ok = ok || parse(objects, JS_CLIENT);
        free(arrays);
        free(objects);
        assert_false(ok);
        assert_int_equal(at, MAX_JSON_DEPTH);
        assert_string_equal(error, "nested too deeply");
        assert_string_equal(doc.error, "nested too deeply");
        assert_int_equal(doc.n_nodes, 0);
    }
}

/* A value at the limit must still be readable inside our own wrapping. */
static void test_js_depth_of_our_own_texts_has_room_for_what_we_wrap(void **state)
{
    (void)state;
    char *full = nested(MAX_JSON_DEPTH + MAX_JSON_WRAP, json("{'a':"), "1", "}");
    char *over = nested(MAX_JSON_DEPTH + MAX_JSON_WRAP + 1, "[", "", "]");
    bool others = parse(full, JS_AGENT);
    bool ok = parse(full, JS_OURS);
    bool same = ok && str_eq(copy_of(0), str_of(full));
    bool too_deep = parse(over, JS_OURS);
    free(full);
    free(over);
    assert_false(others);
    assert_true(ok && same);
    assert_false(too_deep);
    assert_string_equal(doc.error, "nested too deeply");
}

static void test_js_unclosed_brackets_are_refused_f56(void **state)
{
    (void)state;
    size_t n = 200000;
    char *text = xalloc(n);
    memset(text, '[', n);
    bool ok = js_parse(&doc, text, n, JS_CLIENT);
    free(text);
    assert_false(ok);
    assert_string_equal(doc.error, "nested too deeply");
}

/* --- numbers (F58) ---------------------------------------------------------------------------- */

static void test_js_int_takes_plain_integers_only_f58(void **state)
{
    (void)state;
    const struct {
        const char *text;
        bool ok;
        int64_t value;
    } rows[] = {
        {"0", true, 0},
        {"7", true, 7},
        {"-7", true, -7},
        {"9007199254740991", true, 9007199254740991},
        {"9007199254740993", true, 9007199254740993},
        {"9223372036854775807", true, INT64_MAX},
        {"-9223372036854775808", true, INT64_MIN},
        {"9223372036854775808", false, 0},
        {"-9223372036854775809", false, 0},
        {"18446744073709551616", false, 0},
        {"99999999999999999999999999", false, 0},
        {"-0", false, 0},
        {"1.0", false, 0},
        {"1e3", false, 0},
        {"1E400", false, 0},
        {"0.0", false, 0},
        {json("'1'"), false, 0},
        {"true", false, 0},
        {"null", false, 0},
        {"[1]", false, 0},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        int64_t value = 42;
        assert_true(parse(rows[i].text, JS_AGENT));
        assert_int_equal(js_int(&doc, 0, &value), rows[i].ok);
        assert_true(value == (rows[i].ok ? rows[i].value : 42));
    }
}

static void test_js_integers_beyond_2_53_are_refused_from_clients_f58(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool safe;
    } rows[] = {
        {"9007199254740991", true},
        {"9007199254740992", false},
        {"-9007199254740991", true},
        {"-9007199254740992", false},
        {"10000000000000000", false},
        {"9999999999999999", false},
        {"999999999999999", true},
        {"18446744073709551616", false},
        {"9007199254740992.0", true}, /* not an integer's syntax: whoever wants one refuses it */
        {"1e400", true},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        char text[64];
        snprintf(text, sizeof text, json("{'a':[%s]}"), rows[i].text);
        assert_int_equal(parse(text, JS_CLIENT), rows[i].safe);
        if (!rows[i].safe)
            assert_string_equal(doc.error, "integer beyond 9007199254740991");
        assert_true(parse(text, JS_ANY_NUMBER));
        assert_int_equal(js_is_unsafe_integer(&doc, 3), !rows[i].safe);
        assert_span(js_raw(&doc, 3), rows[i].text, strlen(rows[i].text));
        assert_span(copy_of(0), text, strlen(text));
    }
}

static void test_js_double_reads_finite_numbers(void **state)
{
    (void)state;
    const struct {
        const char *text;
        bool ok;
        double value;
    } rows[] = {
        {"0", true, 0},
        {"-1.5", true, -1.5},
        {"0.1", true, 0.1},
        {"1e3", true, 1000},
        {"25E-2", true, 0.25},
        {"1e400", false, 0},
        {"-1e400", false, 0},
        {json("'1'"), false, 0},
        {"null", false, 0},
        {"1e-400", true, 0},
        {"0.50000000000000000000000000000000000000000000000000000000000000000000000", true, 0.5},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        double value = -42;
        assert_true(parse(rows[i].text, JS_AGENT));
        assert_int_equal(js_double(&doc, 0, &value), rows[i].ok);
        assert_true(value == (rows[i].ok ? rows[i].value : -42));
    }
}

/* --- keys ------------------------------------------------------------------------------------- */

static void test_js_duplicate_keys_are_refused_at_any_depth(void **state)
{
    (void)state;
    const struct {
        const char *text;
        bool unique;
    } rows[] = {
        {json("{'a':1,'a':2}"), false},
        {json("{'a':1,'A':2}"), true},
        {json("{'a':1,'\\u0061':2}"), false},
        {json("{'\\u0061':1,'a':2}"), false},
        {json("{'\\u0061':1,'\\u0061':2}"), false},
        {json("{'a/b':1,'a\\/b':2}"), false},
        {json("{'':1,'':2}"), false},
        {json("{'a':1,'ab':2,'abc':3}"), true},
        {json("{'\\u0000':1,'':2}"), true},
        {json("{'\\u0000':1,'\\u0000':2}"), false},
        {json("{'\xf0\x9f\x98\x80':1,'\\ud83d\\ude00':2}"), false},
        {json("{'\\ud800':1,'\\udfff':2}"), false}, /* both are U+FFFD */
        {json("{'\\ud800':1,'\xef\xbf\xbd':2}"), false},
        {json("{'a':{'x':1},'b':{'x':1}}"), true},
        {json("[{'x':1},{'x':1}]"), true},
        {json("{'a':{'b':[{'x':1,'y':2,'x':3}]}}"), false},
        {json("{'a':'b','b':'a'}"), true},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        if (parse(rows[i].text, JS_CLIENT) != rows[i].unique)
            fail_msg("%s", rows[i].text);
        if (!rows[i].unique)
            assert_ptr_equal(doc.error, js_duplicate_key);
    }
}

static void test_js_duplicate_key_leaves_the_nodes(void **state)
{
    (void)state;
    assert_false(parse(json("{'a':{'b':1,'b':2},'c':3}"), JS_CLIENT));
    assert_ptr_equal(doc.error, js_duplicate_key);
    assert_int_equal(doc.error_at, 13);
    assert_true(js_get(&doc, 0, "c") > 0);
    assert_false(parse(json("{'b':1,'b':2"), JS_CLIENT)); /* but the text's own fault comes first */
    assert_string_equal(doc.error, "unexpected end");
    assert_int_equal(doc.n_nodes, 0);
}

/* Objects on both sides of the change from pairs to sorting; the duplicate at every two places. */
static void test_js_duplicates_in_objects_of_many_keys_are_found(void **state)
{
    (void)state;
    for (int n = 1; n <= 40; n += n == 10 ? 4 : n == 20 ? 20 : 1) {
        for (int twin = -1; twin < n - 1; twin++) {
            struct buf text = {0};
            for (int i = 0; i < n; i++) {
                int key = i == n - 1 && twin >= 0 ? twin : i;
                buf_putf(&text, i % 3 ? json("%c'k%02d':%d") : json("%c'\\u006b%02d':%d"),
                         i ? ',' : '{', key, i);
            }
            buf_putc(&text, '}');
            bool ok = js_parse(&doc, text.bytes, text.len, JS_CLIENT);
            size_t at = doc.error_at;
            const char *comma = strrchr(text.bytes, ',');
            size_t last = comma ? (size_t)(comma + 2 - text.bytes) : 0;
            buf_done(&text);
            assert_int_equal(ok, twin < 0);
            if (twin >= 0)
                assert_int_equal(at, last);
        }
    }
}

/* Quadratic work on the larger ones would take minutes; the runner's time-out sees it. */
static void test_js_hostile_objects_stay_fast(void **state)
{
    (void)state;
    enum { MANY = 30000 };
    for (int escaped = 0; escaped < 2; escaped++) {
        for (int order = 0; order < 3; order++) {
            struct buf text = {0};
            for (int i = 0; i < MANY; i++) {
                int key = order == 0 ? i : order == 1 ? MANY - i : i * 7919 % MANY;
                buf_putf(&text, escaped ? json("%c'\\u0061%d':0") : json("%c'a%d':0"),
                         i ? ',' : '{', key);
            }
            buf_puts(&text, "}");
            bool ok = js_parse(&doc, text.bytes, text.len, JS_CLIENT);
            bool last = ok && js_get(&doc, 0, "a29999") != 0;
            buf_clear(&out);
            if (ok)
                js_copy(&doc, 0, &out);
            buf_done(&text);
            assert_true(ok);
            assert_true(last);
        }
    }
    assert_int_equal(doc.nodes[0].kids, 60000);
}

static void test_js_kids_saturate_and_siblings_go_on(void **state)
{
    (void)state;
    struct buf text = {0};
    for (int i = 0; i < 70000; i++)
        buf_puts(&text, i ? ",1" : "[1");
    buf_putc(&text, ']');
    bool ok = js_parse(&doc, text.bytes, text.len, JS_CLIENT);
    size_t n = 0;
    for (uint32_t i = js_first(&doc, 0); ok && i < js_end(&doc, 0); i = js_next(&doc, i))
        n++;
    bool again = js_parse(&doc, "1", 1, JS_CLIENT); /* a big doc serves on */
    uint32_t cap = doc.cap;
    buf_done(&text);
    assert_true(ok && again);
    assert_int_equal(n, 70000);
    assert_true(cap < 70000);
}

/* --- nodes ------------------------------------------------------------------------------------ */

static void test_js_nodes_are_in_document_order(void **state)
{
    (void)state;
    static const char text[] = "{\"a\":[1,{\"b\":\"x\"}],\"c\":true}";
    assert_true(parse(text, JS_CLIENT));
    static const struct {
        enum js_type type;
        uint32_t at, len, next, kids;
    } nodes[] = {
        {JS_OBJECT, 0, 28, 9, 4}, {JS_STRING, 2, 1, 2, 0},  {JS_ARRAY, 5, 13, 7, 2},
        {JS_NUMBER, 6, 1, 4, 0},  {JS_OBJECT, 8, 9, 7, 2},  {JS_STRING, 10, 1, 6, 0},
        {JS_STRING, 14, 1, 7, 0}, {JS_STRING, 20, 1, 8, 0}, {JS_TRUE, 23, 4, 9, 0},
    };
    assert_int_equal(doc.n_nodes, countof(nodes));
    for (uint32_t i = 0; i < countof(nodes); i++) {
        assert_int_equal(js_type(&doc, i), nodes[i].type);
        assert_int_equal(doc.nodes[i].at, nodes[i].at);
        assert_int_equal(doc.nodes[i].len, nodes[i].len);
        assert_int_equal(js_next(&doc, i), nodes[i].next);
        assert_int_equal(doc.nodes[i].kids, nodes[i].kids);
    }
    assert_text(js_raw(&doc, 2), json("[1,{'b':'x'}]"));
    assert_text(copy_of(4), json("{'b':'x'}"));
}

static void test_js_get_finds_members_of_that_object_only(void **state)
{
    (void)state;
    assert_true(parse(json("{'x':{'a':1},'\\u0061':'v','ab':3,'n':null}"), JS_CLIENT));
    assert_text(js_raw(&doc, js_get(&doc, 0, "a")), "v");
    assert_text(js_raw(&doc, js_get(&doc, 0, "ab")), "3");
    assert_text(js_raw(&doc, js_get(&doc, js_get(&doc, 0, "x"), "a")), "1");
    assert_int_equal(js_type(&doc, js_get(&doc, 0, "n")), JS_NULL);
    assert_int_equal(js_get(&doc, 0, "v"), 0);
    assert_int_equal(js_get(&doc, 0, ""), 0);
    assert_int_equal(js_get(&doc, js_get(&doc, 0, "ab"), "a"), 0); /* not an object */
    assert_true(parse("{}", JS_CLIENT));
    assert_int_equal(js_get(&doc, 0, "a"), 0);
}

static void test_js_is_understands_escapes(void **state)
{
    (void)state;
    const struct {
        const char *json, *text;
        bool same;
    } rows[] = {
        {json("'chat'"), "chat", true},
        {json("'ch\\u0061t'"), "chat", true},
        {json("'chat'"), "cha", false},
        {json("'cha'"), "chat", false},
        {json("'ch\\u0061'"), "chat", false},
        {json("'ch\\u0061tt'"), "chat", false},
        {json("''"), "", true},
        {json("'\\u0000'"), "", false},
        {json("'\\u00e9'"), "\xc3\xa9", true},
        {json("'\\ud800'"), "\xef\xbf\xbd", true},
        {"1", "1", false},
        {"true", "true", false},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        assert_true(parse(rows[i].json, JS_CLIENT));
        if (js_is(&doc, 0, rows[i].text) != rows[i].same)
            fail_msg("%s is %s", rows[i].json, rows[i].text);
    }
}

static void test_js_lone_text_is_read_as_any_other(void **state)
{
    static const char *const rows[] = {"{\"text\":\"\"}", "{\"text\":\"a, b: {c}\"}",
                                       "{\"text\":\"\xc3\xb6 \xf0\x9f\x8e\x89\"}"};
    static const char *const others[] = {"",
                                         "{}",
                                         "{\"text\":\"",
                                         "{\"text\":\"}",
                                         "{\"text\":1}",
                                         "{\"text\":\"a\\n\"}",
                                         "{\"text\":\"a\",\"b\":\"c\"}",
                                         "{\"test\":\"a\"}",
                                         "{\"text\": \"a\"}",
                                         "{\"text\":\"a\"} "};
    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        struct js_doc other = {0};
        assert_true(js_parse(&other, rows[i], strlen(rows[i]), JS_OURS));
        assert_true(js_parse_lone(&doc, str_of(rows[i]), STR("text")));
        assert_int_equal(doc.n_nodes, other.n_nodes);
        assert_memory_equal(doc.nodes, other.nodes, other.n_nodes * sizeof *other.nodes);
        assert_ptr_equal(doc.text, other.text);
        js_done(&other);
    }
    for (size_t i = 0; i < countof(others); i++)
        if (js_parse_lone(&doc, str_of(others[i]), STR("text")))
            fail_msg("%s", others[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_js_legal_text_is_accepted),
        TEST(test_js_illegal_text_is_refused_with_its_place),
        TEST(test_js_nul_bytes_outside_strings_are_refused),
        TEST(test_js_every_cut_of_a_text_is_refused),
        TEST(test_js_depth_at_the_limit_is_accepted_f56),
        TEST(test_js_depth_over_the_limit_is_refused_f56),
        TEST(test_js_depth_of_our_own_texts_has_room_for_what_we_wrap),
        TEST(test_js_unclosed_brackets_are_refused_f56),
        TEST(test_js_int_takes_plain_integers_only_f58),
        TEST(test_js_integers_beyond_2_53_are_refused_from_clients_f58),
        TEST(test_js_double_reads_finite_numbers),
        TEST(test_js_duplicate_keys_are_refused_at_any_depth),
        TEST(test_js_duplicate_key_leaves_the_nodes),
        TEST(test_js_duplicates_in_objects_of_many_keys_are_found),
        TEST(test_js_hostile_objects_stay_fast),
        TEST(test_js_kids_saturate_and_siblings_go_on),
        TEST(test_js_nodes_are_in_document_order),
        TEST(test_js_get_finds_members_of_that_object_only),
        TEST(test_js_is_understands_escapes),
        TEST(test_js_lone_text_is_read_as_any_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
