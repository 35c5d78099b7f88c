/* The tools for core/tool.h: what they compute, and how they refuse. */
#include "gateway/models/arithmetic.h"
#include "gateway/models/calculator.h"
#include "gateway/tools/tools.h"
#include "tests/support/t.h"

static struct buf out;

static int teardown(void **state)
{
    (void)state;
    buf_done(&out);
    return 0;
}

static void check(const char *expression, bool good, const char *expected)
{
    buf_clear(&out);
    bool got = calculate(str_of(expression), &out);
    if (got != good || !str_eq(buf_str(&out), str_of(expected)))
        fail_msg("%s is \"%.*s\", expected \"%s\"", expression, (int)out.len, out.bytes, expected);
}

static void call(const char *tool, const char *arguments, int64_t wall_ms, bool good,
                 const char *expected)
{
    const struct tool *found = tool_find(str_of(tool));
    assert_non_null(found);
    buf_clear(&out);
    bool got = found->call(str_of(arguments), wall_ms, &out);
    if (got != good || !str_eq(buf_str(&out), str_of(expected)))
        fail_msg("%s(%s) is \"%.*s\", expected \"%s\"", tool, arguments, (int)out.len, out.bytes,
                 expected);
}

/* --- calculator ------------------------------------------------------------------------------- */

static void test_calculator_values(void **state)
{
    static const struct {
        const char *expression, *value;
    } table[] = {
        {"1", "1"},
        {"12*(3+4)", "84"},
        {" 1 +\t2\n", "3"},
        {"2-3-4", "-5"},
        {"2*3%4", "2"},
        {"8/4/2", "1"},
        {"1/3", "0.333333333333333"},
        {"2/3", "0.666666666666667"},
        {"0.1+0.2", "0.3"},
        {".5+1.", "1.5"},
        {"17%5", "2"},
        {"-17%5", "-2"},
        {"17%-5", "2"},
        {"5.5%2", "1.5"},
        {"2^10", "1024"},
        {"2^3^2", "512"},
        {"-2^2", "-4"},
        {"(-2)^2", "4"},
        {"2^-1", "0.5"},
        {"2^-2^2", "0.0625"},
        {"0^0", "1"},
        {"--5", "5"},
        {"+-+5", "-5"},
        {"2--3", "5"},
        {"0*-1", "0"},
        {"sqrt(2)", "1.4142135623731"},
        {"sqrt(16)*2", "8"},
        {"abs(-3.5)", "3.5"},
        {"round(2.5)", "3"},
        {"round(-2.5)", "-3"},
        {"floor(-0.5)", "-1"},
        {"ceil(-0.5)", "0"},
        {"min(3)", "3"},
        {"min(3,1,2)", "1"},
        {"max(3, 1, 2, 9)", "9"},
        {"pow(2,0.5)^2", "2"},
        {"ln(e)", "1"},
        {"log10(1000)", "3"},
        {"exp(0)", "1"},
        {"sin(0)+cos(0)+tan(0)", "1"},
        {"sin(pi/2)", "1"},
        {"pi", "3.14159265358979"},
        {"e", "2.71828182845905"},
        {"1e3", "1000"},
        {"1E+2*1e-2", "1"},
        {"10^-400", "0"},
        {"9007199254740992", "9007199254740992"},
        {"-9007199254740991", "-9007199254740991"},
        {"9007199254740993*2", "1.8014398509482e+16"},
        {"2^100", "1.26765060022823e+30"},
        {"1e-10", "1e-10"},
    };
    (void)state;
    for (size_t i = 0; i < countof(table); i++)
        check(table[i].expression, true, table[i].value);
}

static void test_calculator_refusals(void **state)
{
    const struct {
        const char *expression, *error;
    } table[] = {
        {"1/0", "division by zero"},
        {"1%0", "division by zero"},
        {"0^-1", "division by zero"},
        {"1/(2-2)", "division by zero"},
        {"sqrt(-1)", "the result is not a real number"},
        {"(-8)^0.5", "the result is not a real number"},
        {"ln(-1)", "the result is not a real number"},
        {"ln(0)", "the result is too large"},
        {"10^309", "the result is too large"},
        {"1e308*10", "the result is too large"},
        {"-1e308-1e308", "the result is too large"},
        {"9^9^9^9", "the result is too large"},
        {"exp(1000)", "the result is too large"},
        {"1e400", "a number is too large"},
        {"1e99999999999999999999", "a number is too large"},
        {"", "syntax error at position 1: a number expected"},
        {"  ", "syntax error at position 3: a number expected"},
        {"2+", "syntax error at position 3: a number expected"},
        {"2 3", "syntax error at position 3: an operator expected"},
        {"2+*3", "syntax error at position 3: a number expected"},
        {"(1+2", "syntax error at position 5: an operator or \")\" expected"},
        {"1+2)", "syntax error at position 4: an operator expected"},
        {"()", "syntax error at position 2: a number expected"},
        {"2(3)", "syntax error at position 2: an operator expected"},
        {"foo(1)", "syntax error at position 1: a number, a function or a constant expected"},
        {"1+x", "syntax error at position 3: a number, a function or a constant expected"},
        {"sqrt 2", "syntax error at position 6: \"(\" expected"},
        {"sqrt()", "syntax error at position 6: a number expected"},
        {"sqrt(1,2)", "syntax error at position 7: \")\" expected"},
        {"pow(1)", json("syntax error at position 6: ',' expected")},
        {"pow(1,2,3)", "syntax error at position 8: \")\" expected"},
        {"min(1,", "syntax error at position 7: a number expected"},
        {"max(1 2)", "syntax error at position 7: \",\" or \")\" expected"},
        {"0x10", "syntax error at position 2: an operator expected"},
        {"inf", "syntax error at position 1: a number, a function or a constant expected"},
        {"nan", "syntax error at position 1: a number, a function or a constant expected"},
        {"1e", "syntax error at position 2: an operator expected"},
        {"1.2.3", "syntax error at position 4: an operator expected"},
        {".", "syntax error at position 1: a number expected"},
        {"\xc3\xa9+1", "syntax error at position 1: a number expected"},
        {"1+2 \xc3\xa9\xc3\xa9", "syntax error at position 5: an operator expected"},
        {"1/0 + (", "division by zero"},
    };
    (void)state;
    for (size_t i = 0; i < countof(table); i++)
        check(table[i].expression, false, table[i].error);
}

static void test_calculator_nul_inside_is_no_end(void **state)
{
    (void)state;
    assert_false(calculate((struct str){"1\0002", 3}, &out));
    assert_text(buf_str(&out), "syntax error at position 2: an operator expected");
}

/* n times what, before and after a 1. */
static bool nested(const char *what, size_t n, const char *closing)
{
    struct buf text = {0};
    for (size_t i = 0; i < n; i++)
        buf_puts(&text, what);
    buf_putc(&text, '1');
    for (size_t i = 0; i < n; i++)
        buf_puts(&text, closing);
    buf_clear(&out);
    bool good = calculate(buf_str(&text), &out);
    buf_done(&text);
    return good;
}

static void test_calculator_deep_nesting_is_an_error(void **state)
{
    static const char *const deep[] = {"(", "-", "+", "2^", "sqrt(", "min(1,", "-(", "2^-("};
    (void)state;
    for (size_t i = 0; i < countof(deep); i++) {
        assert_false(nested(deep[i], 100000, ""));
        assert_text(buf_str(&out), "the expression is nested deeper than 200");
    }
    assert_true(nested("(", 199, ")"));
    assert_text(buf_str(&out), "1");
    assert_false(nested("(", 200, ")"));
    assert_true(nested("1+", 100000, ""));
    assert_text(buf_str(&out), "100001");
    assert_true(nested("1*", 100000, ""));
}

static void test_calculator_arguments(void **state)
{
    (void)state;
    call("calculator", json("{'expression':'12*(3+4)'}"), 0, true, "84");
    call("calculator", json("{'expression':'6\\u002a7','more':1}"), 0, true, "42");
    call("calculator", "{}", 0, false, "\"expression\" must be a string");
    call("calculator", "", 0, false, "\"expression\" must be a string");
    call("calculator", json("{'expression':5}"), 0, false, "\"expression\" must be a string");
    call("calculator", "[1]", 0, false, "the arguments are not a JSON object");
    call("calculator", json("{'expression':'1/0'}"), 0, false, "division by zero");
    call("calculator", json("{'expression':"), 0, false,
         "the arguments are not JSON: unexpected end at byte 14");
}

/* --- clock ------------------------------------------------------------------------------------ */

#define WALL_MS 1764280000123 /* Thursday, 2025-11-27, 21:46:40 UTC */

static void test_clock_formats(void **state)
{
    (void)state;
    call("clock", "{}", WALL_MS, true, "2025-11-27T21:46:40Z");
    call("clock", "", WALL_MS, true, "2025-11-27T21:46:40Z");
    call("clock", json("{'format':null,'utc_offset_minutes':null}"), WALL_MS, true,
         "2025-11-27T21:46:40Z");
    call("clock", json("{'format':'iso'}"), WALL_MS, true, "2025-11-27T21:46:40Z");
    call("clock", json("{'format':'unix'}"), WALL_MS, true, "1764280000");
    call("clock", json("{'format':'date'}"), WALL_MS, true, "Thursday, 2025-11-27");
    call("clock", json("{'format':'time'}"), WALL_MS, true, "21:46:40 UTC");
}

static void test_clock_offsets(void **state)
{
    (void)state;
    call("clock", json("{'utc_offset_minutes':330}"), WALL_MS, true, "2025-11-28T03:16:40+05:30");
    call("clock", json("{'utc_offset_minutes':-210}"), WALL_MS, true, "2025-11-27T18:16:40-03:30");
    call("clock", json("{'format':'date','utc_offset_minutes':134}"), WALL_MS, true,
         "Friday, 2025-11-28");
    call("clock", json("{'format':'time','utc_offset_minutes':60}"), WALL_MS, true,
         "22:46:40 +01:00");
    call("clock", json("{'format':'unix','utc_offset_minutes':60}"), WALL_MS, true, "1764280000");
}

static void test_clock_edges_of_time(void **state)
{
    (void)state;
    call("clock", "{}", 0, true, "1970-01-01T00:00:00Z");
    call("clock", "{}", -1, true, "1969-12-31T23:59:59Z");
    call("clock", "{}", 951782400000, true, "2000-02-29T00:00:00Z");
    call("clock", json("{'format':'unix'}"), -1, true, "-1");
    call("clock", "{}", INT64_MAX, true, "292278994-08-17T07:12:55Z");
}

static void test_clock_refusals(void **state)
{
    static const char format[] = "\"format\" must be iso, unix, date or time";
    static const char offset[] = "\"utc_offset_minutes\" must be an integer from -1439 to 1439";
    (void)state;
    call("clock", json("{'format':'rfc'}"), WALL_MS, false, format);
    call("clock", json("{'format':1}"), WALL_MS, false, format);
    call("clock", json("{'utc_offset_minutes':1440}"), WALL_MS, false, offset);
    call("clock", json("{'utc_offset_minutes':-1440}"), WALL_MS, false, offset);
    call("clock", json("{'utc_offset_minutes':1.5}"), WALL_MS, false, offset);
    call("clock", json("{'utc_offset_minutes':'60'}"), WALL_MS, false, offset);
    call("clock", json("{'utc_offset_minutes':99999999999999999999999}"), WALL_MS, false, offset);
    call("clock", "null", WALL_MS, false, "the arguments are not a JSON object");
}

/* --- the table -------------------------------------------------------------------------------- */

static void test_tools_are_found_and_described(void **state)
{
    static const char *const names[] = {"calculator", "clock"};
    struct js_doc doc = {0};
    (void)state;
    for (size_t i = 0; i < countof(names); i++) {
        const struct tool *tool = tool_find(str_of(names[i]));
        assert_non_null(tool);
        assert_string_equal(tool->name, names[i]);
        assert_true(strlen(tool->description) > 20);
        bool good = js_parse(&doc, tool->parameters, strlen(tool->parameters), JS_CLIENT);
        bool is_object = good && js_is(&doc, js_get(&doc, 0, "type"), "object");
        js_done(&doc);
        assert_true(is_object);
    }
    assert_null(tool_find(STR("calc")));
    assert_null(tool_find(STR("calculator ")));
    assert_null(tool_find(STR("")));
}

/* --- expressions in sentences ----------------------------------------------------------------- */

static void test_arithmetic_is_found_in_sentences(void **state)
{
    static const struct {
        const char *text, *expression;
    } table[] = {
        {"what is 12*(3+4)?", "12 * (3 + 4)"},
        {"17 % 5", "17 % 5"},
        {"2^10", "2^10"},
        {"2**10", "2^10"},
        {"What's 12 times 7, please", "12 * 7"},
        {"100 divided by 8 minus 2", "100 / 8 - 2"},
        {"20% of 50", "20 / 100 * 50"},
        {"5 squared", "5^2"},
        {"3 x 4", "3 * 4"},
        {"3 \xc3\x97 4 \xc3\xb7 2 \xe2\x88\x92 1", "3 * 4 / 2 - 1"},
        {"see (2+2)", "(2 + 2)"},
        {"(3 and 4+5)", "4 + 5"},
        {"1,234 + 5", "1234 + 5"},
        {"max(1,234) + 5", "max(1, 234) + 5"},
        {"sqrt(2)", "sqrt(2)"},
        {"sin(pi/2)", "sin(pi / 2)"},
        {"2 pi? 2 * pi!", "2 * pi"},
        {"1/0", "1 / 0"},
        {"-3^2.", "-3^2"},
        {"1.5e3+.5", "1.5e3 + .5"},
        {"on 2024-05-01 it was 2 + 2", "2 + 2"},
        {"((((1+1", "((((1 + 1"},
        {"\xc3\xbc"
         "5 4+4",
         "4 + 4"},
    };
    (void)state;
    for (size_t i = 0; i < countof(table); i++) {
        buf_clear(&out);
        if (!arithmetic_find(str_of(table[i].text), &out) ||
            !str_eq(buf_str(&out), str_of(table[i].expression)))
            fail_msg("%s has \"%.*s\", expected \"%s\"", table[i].text, (int)out.len, out.bytes,
                     table[i].expression);
    }
}

static void test_arithmetic_is_not_found_elsewhere(void **state)
{
    static const char *const table[] = {
        "",         "hello",     "count to 5", "on 2024-05-01", "v1.2",   "the 2nd of 3", "x",
        "e-mail 5", "5 % off",   "-5",         "4 -",           "(",      "((((((((",     "sqrt",
        "sqrt(",    "Godzilla^", "a*b",        "1, 2, 3",       "1.2.3.4"};
    (void)state;
    for (size_t i = 0; i < countof(table); i++)
        if (arithmetic_find(str_of(table[i]), &out))
            fail_msg("%s has \"%.*s\"", table[i], (int)out.len, out.bytes);
    assert_int_equal(out.len, 0);
}

/* On any noise the scan ends, and the calculator takes its result. */
static void test_arithmetic_survives_noise(void **state)
{
    static const char alphabet[] = "0123456789+-*/%^().,e pix sqrtmin\xc3\x97\n";
    uint64_t seed = t_seed();
    (void)state;
    for (int round = 0; round < 20000; round++) {
        char text[64];
        size_t n = t_below(&seed, sizeof text);
        for (size_t i = 0; i < n; i++)
            text[i] = alphabet[t_below(&seed, sizeof alphabet - 1)];
        struct buf found = {0};
        buf_clear(&out);
        if (arithmetic_find((struct str){text, n}, &found))
            (void)calculate(buf_str(&found), &out);
        buf_clear(&out);
        (void)calculate((struct str){text, n}, &out);
        buf_done(&found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_calculator_values, teardown),
        cmocka_unit_test_teardown(test_calculator_refusals, teardown),
        cmocka_unit_test_teardown(test_calculator_nul_inside_is_no_end, teardown),
        cmocka_unit_test_teardown(test_calculator_deep_nesting_is_an_error, teardown),
        cmocka_unit_test_teardown(test_calculator_arguments, teardown),
        cmocka_unit_test_teardown(test_clock_formats, teardown),
        cmocka_unit_test_teardown(test_clock_offsets, teardown),
        cmocka_unit_test_teardown(test_clock_edges_of_time, teardown),
        cmocka_unit_test_teardown(test_clock_refusals, teardown),
        cmocka_unit_test_teardown(test_tools_are_found_and_described, teardown),
        cmocka_unit_test_teardown(test_arithmetic_is_found_in_sentences, teardown),
        cmocka_unit_test_teardown(test_arithmetic_is_not_found_elsewhere, teardown),
        cmocka_unit_test_teardown(test_arithmetic_survives_noise, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
