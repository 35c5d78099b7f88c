/* Questions of MCP servers to the user: as they are asked, and what his answers become. */
#include <stdio.h>

#include "proto/mcp/mcp_form.h"
#include "tests/support/t.h"

static struct js_doc doc;
static struct mcp_form form;
static struct buf out;

static int teardown(void **state)
{
    (void)state;
    js_done(&doc);
    mcp_form_done(&form);
    buf_done(&out);
    return 0;
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

static bool ask(const char *params)
{
    const char *why = NULL;
    mcp_form_done(&form);
    assert_true(js_parse(&doc, params, strlen(params), JS_AGENT));
    bool good = mcp_form_read(&form, &doc, 0, &why);
    assert_true(good || why);
    return good;
}

static const char *prompt(void)
{
    buf_clear(&out);
    mcp_form_put_prompt(&form, "files", STR(""), &out);
    buf_putc(&out, 0);
    return out.bytes;
}

static void expect(const char *answer, enum mcp_verdict verdict, const char *result)
{
    enum mcp_verdict got = mcp_form_take(&form, str_of(answer), &out);
    assert_text(buf_str(&out), result);
    assert_int_equal(got, verdict);
}

#define ONE(schema)                                                                        \
    json("{'message':'Well?','requestedSchema':{'type':'object','properties':{'x':" schema \
         "},'required':['x']}}")
#define ACCEPT(x) "{\"action\":\"accept\",\"content\":{\"x\":" x "}}"
#define DECLINE "{\"action\":\"decline\"}"
#define CANCEL "{\"action\":\"cancel\"}"

static void test_form_with_one_field_takes_its_value(void **state)
{
    (void)state;
    assert_true(ask(ONE("{'type':'string'}")));
    assert_false(mcp_form_is_yes_or_no(&form));
    assert_string_equal(prompt(),
                        "The MCP server files asks: Well?\n- x (string)\nAnswer with the value, or "
                        "\"decline\".");
    expect("\"a \\\"b\\\"\"", MCP_ACCEPT, ACCEPT("\"a \\\"b\\\"\""));
    expect("\"42\"", MCP_ACCEPT, ACCEPT("\"42\"")); /* a text is one, whatever it looks like */
    expect("\"{\\\"x\\\":\\\"y\\\"}\"", MCP_ACCEPT, ACCEPT("\"y\""));
    assert_true(ask(ONE("{'type':'integer','minimum':1,'maximum':9}")));
    expect("\"5\"", MCP_ACCEPT, ACCEPT("5"));
    expect("\"5.5\"", MCP_AGAIN, "\"x\" must be an integer.");
    expect("\"10\"", MCP_AGAIN, "\"x\" is out of its range.");
    expect("\"five\"", MCP_AGAIN, "\"x\" must be an integer.");
    assert_true(ask(ONE("{'type':'boolean'}")));
    expect("\"true\"", MCP_ACCEPT, ACCEPT("true"));
    expect("\"yes\"", MCP_AGAIN, "\"x\" must be true or false.");
    assert_true(ask(ONE("{'type':'string','oneOf':[{'const':'a','title':'A'},{'const':'b'}]}")));
    expect("\"a\"", MCP_ACCEPT, ACCEPT("\"a\""));
    expect("\"A\"", MCP_AGAIN, "\"x\" must be one of the values offered.");
    assert_true(ask(ONE("{'type':'array','items':{'type':'string','enum':['a','b']}}")));
    expect("\"[\\\"a\\\",\\\"b\\\"]\"", MCP_ACCEPT, ACCEPT("[\"a\",\"b\"]"));
    expect("\"[\\\"c\\\"]\"", MCP_AGAIN, "\"x\" must be a list of the values that are offered.");
}

static void test_form_is_declined_and_cancelled(void **state)
{
    (void)state;
    assert_true(ask(ONE("{'type':'string'}")));
    expect("\"\"", MCP_DECLINE, DECLINE);
    expect("\"decline\"", MCP_DECLINE, DECLINE);
    expect("false", MCP_DECLINE, DECLINE);
    expect("null", MCP_CANCEL, CANCEL);
    expect("true", MCP_CANCEL, CANCEL);
    expect("\"{\\\"x\\\":\\\"decline\\\"}\"", MCP_ACCEPT, ACCEPT("\"decline\""));
}

static void test_form_with_several_fields_takes_an_object(void **state)
{
    (void)state;
    assert_true(ask(
        json("{'mode':'form','message':'Fill in','requestedSchema':{'type':'object','properties':{"
             "'n':{'type':'number','description':'How many','default':3.14},"
             "'e':{'type':'string','enum':['a','b']},'o':{'type':'string'}},'required':['e']}}")));
    assert_string_equal(prompt(),
                        "The MCP server files asks: Fill in\n"
                        "- n (number), optional, else 3.14: How many\n- e (one of \"a\", \"b\")\n"
                        "- o (string), optional\n"
                        "Answer with a JSON object of these fields, or \"decline\".");
    expect("\"{\\\"e\\\":\\\"a\\\",\\\"n\\\":0.10,\\\"other\\\":1,\\\"o\\\":null}\"", MCP_ACCEPT,
           "{\"action\":\"accept\",\"content\":{\"n\":0.10,\"e\":\"a\"}}");
    expect("\"{}\"", MCP_AGAIN, "\"e\" is missing.");
    expect("\"a\"", MCP_AGAIN, "The answer must be a JSON object.");
    expect("\"{\\\"e\\\":\\\"c\\\"}\"", MCP_AGAIN, "\"e\" must be one of the values offered.");
}

static void test_form_without_fields_is_yes_or_no(void **state)
{
    (void)state;
    assert_true(
        ask(json("{'message':'Sure?','requestedSchema':{'type':'object','properties':{}}}")));
    assert_true(mcp_form_is_yes_or_no(&form));
    expect("true", MCP_ACCEPT, "{\"action\":\"accept\",\"content\":{}}");
    expect("false", MCP_DECLINE, DECLINE);
    assert_true(ask(json("{'message':'Sure?'}")));
    assert_true(mcp_form_is_yes_or_no(&form));
}

static void test_url_is_shown_and_never_hidden(void **state)
{
    (void)state;
    assert_true(ask(json("{'mode':'url','message':'Sign in','url':'https://example.com/in'}")));
    assert_true(mcp_form_is_yes_or_no(&form));
    assert_non_null(strstr(prompt(), "\nhttps://example.com/in"));
    expect("true", MCP_ACCEPT, "{\"action\":\"accept\"}");
    expect("false", MCP_DECLINE, DECLINE);
    assert_false(ask(json("{'mode':'url','message':'x','url':'javascript:alert(1)'}")));
    assert_false(ask(json("{'mode':'url','message':'x','url':'https://a\\nb'}")));
    assert_false(ask(json("{'mode':'url','message':'x'}")));
}

static void test_form_message_cannot_imitate_other_lines(void **state)
{
    (void)state;
    assert_true(ask("{\"message\":\"a\\u001b[2Jb\\r\\u0000\"}"));
    assert_string_equal(prompt(), "The MCP server files asks: a [2Jb  ");
}

static void test_form_has_limits(void **state)
{
    (void)state;
    struct buf text = {0};
    buf_puts(&text, "{\"message\":\"x\",\"requestedSchema\":{\"properties\":{");
    for (size_t i = 0; i <= MCP_FORM_FIELDS; i++)
        buf_putf(&text, "%s\"f%zu\":{}", i ? "," : "", i);
    buf_puts(&text, "}}}");
    assert_false(ask(text.bytes));
    buf_done(&text);
    assert_false(ask(json("{'requestedSchema':{'properties':{'x':1}}}")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_form_with_one_field_takes_its_value),
        TEST(test_form_is_declined_and_cancelled),
        TEST(test_form_with_several_fields_takes_an_object),
        TEST(test_form_without_fields_is_yes_or_no),
        TEST(test_url_is_shown_and_never_hidden),
        TEST(test_form_message_cannot_imitate_other_lines),
        TEST(test_form_has_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
