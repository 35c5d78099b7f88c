/* A message in parts: read into one form, joined, compared; and base64 (RFC 4648). */
#include "proto/limits.h"
#include "proto/parts.h"
#include "tests/support/t.h"

/* Reads the array; NULL: it is refused. */
static char *read_of(const char *text)
{
    struct js_doc doc = {0};
    struct buf out = {0};
    assert_true(js_parse(&doc, text, strlen(text), JS_ANY_NUMBER));
    bool good = parts_read(&doc, 0, &out);
    js_done(&doc);
    if (good) {
        buf_putc(&out, 0);
        return buf_take(&out);
    }
    buf_done(&out);
    return NULL;
}

static void assert_read(const char *text, const char *expected)
{
    char *got = read_of(text);
    if (expected) {
        assert_non_null(got);
        assert_string_equal(got, expected);
    } else {
        assert_null(got);
    }
    free(got);
}

static void test_parts_have_one_form(void **state)
{
    (void)state;
    assert_read(json("[ {'text' : 'a\\u0062', 'type':'text', 'more':1} ]"),
                json("[{'type':'text','text':'ab'}]"));
    assert_read(json("[{'file_id':'x','name':'mine','type':'file'},{'type':'text','text':''}]"),
                json("[{'type':'file','file_id':'x'},{'type':'text','text':''}]"));
    assert_read(json("[{'data':'aGk=','name':'a b','media_type':'text/plain','type':'file'}]"),
                json("[{'type':'file','media_type':'text/plain','name':'a b','data':'aGk='}]"));
    assert_read(json("[{'type':'file','media_type':'a/b','data':''}]"),
                json("[{'type':'file','media_type':'a/b','data':''}]"));
}

static void test_parts_that_are_none(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "{}",
        "[]",
        "[1]",
        "['a']",
        "[{}]",
        "[{'type':'text'}]",
        "[{'type':'text','text':1}]",
        "[{'type':'text','text':''}]",
        "[{'type':'image','text':'a'}]",
        "[{'type':'file'}]",
        "[{'type':'file','file_id':1}]",
        "[{'type':'file','file_id':null}]",
        "[{'type':'file','file_id':'x','data':'aGk='}]",
        "[{'type':'file','data':'aGk='}]",
        "[{'type':'file','media_type':'text','data':'aGk='}]",
        "[{'type':'file','media_type':'a/b','data':'aGk'}]",
        "[{'type':'file','media_type':'a/b','data':'aG-='}]",
        "[{'type':'file','media_type':'a/b','data':1}]",
        "[{'type':'file','media_type':'a/b','data':'aGk=','name':1}]",
        "[{'type':'file','media_type':'a/b','data':'aGk=','name':'../x'}]",
        "[{'type':'file','media_type':'a/b','data':'aGk=','name':'a\\n'}]",
    };
    for (size_t i = 0; i < countof(bad); i++)
        assert_read(t_json(bad[i]), NULL);
}

static void test_parts_are_so_many_at_most(void **state)
{
    (void)state;
    struct buf many = {0};
    for (int i = 0; i < MAX_PARTS + 1; i++)
        buf_putf(&many, "%s{\"type\":\"text\",\"text\":\"a\"}", i ? "," : "[");
    buf_puts(&many, "]");
    buf_putc(&many, 0);
    assert_read(many.bytes, NULL);
    buf_clear(&many);
    buf_puts(&many, "[{\"type\":\"text\",\"text\":\"");
    for (int i = 0; i < MAX_PARTS_BYTES; i++)
        buf_putc(&many, 'a');
    buf_puts(&many, "\"}]");
    buf_putc(&many, 0);
    assert_read(many.bytes, NULL);
    buf_done(&many);
}

static void test_texts_are_joined(void **state)
{
    (void)state;
    struct js_doc doc = {0};
    struct buf out = {0};
    const char *text = json("[{'type':'text','text':'a'},{'type':'file','file_id':'x'},"
                            "{'type':'text','text':'b\\n'},{'type':'text','text':''}]");
    assert_true(js_parse(&doc, text, strlen(text), JS_ANY_NUMBER));
    parts_put_text(&doc, 0, &out);
    assert_true(str_eq(buf_str(&out), STR("a\nb\n\n")));
    assert_false(parts_are_plain(&doc, 0));
    text = json("[{'type':'text','text':'a'}]");
    assert_true(js_parse(&doc, text, strlen(text), JS_ANY_NUMBER));
    assert_true(parts_are_plain(&doc, 0));
    buf_done(&out);
    js_done(&doc);
}

static bool equal(const char *x, const char *y)
{
    struct js_doc a = {0}, b = {0};
    char *copy = xstrdup(str_of(t_json(x)));
    bool same = parts_equal(&a, &b, str_of(copy), str_of(t_json(y)));
    free(copy);
    js_done(&a);
    js_done(&b);
    return same;
}

static void test_repeats_are_told_from_other_messages(void **state)
{
    (void)state;
    assert_true(equal("", ""));
    assert_true(equal("[{'type':'file','file_id':'x'}]",
                      "[{'type':'file','file_id':'x','name':'n','media_type':'a/b','size':1}]"));
    assert_false(equal("[{'type':'file','file_id':'x'}]", "[{'type':'file','file_id':'y'}]"));
    assert_false(equal("[{'type':'file','file_id':'x'}]", ""));
    assert_false(equal("[{'type':'text','text':'a'}]", "[{'type':'text','text':'b'}]"));
    assert_false(equal("[{'type':'text','text':'a'}]",
                       "[{'type':'text','text':'a'},{'type':'text','text':'a'}]"));
    assert_false(equal("[{'type':'file','media_type':'a/b','data':''}]",
                       "[{'type':'file','media_type':'a/c','data':''}]"));
}

static void test_file_is_no_text_that_looks_like_one(void **state)
{
    (void)state;
    assert_true(parts_have_file(str_of(json("[{'type':'file','file_id':'x'}]"))));
    char *text = read_of(json("[{'type':'text','text':'{\\'type\\':\\'file\\''}]"));
    assert_non_null(text);
    assert_false(parts_have_file(str_of(text)));
    free(text);
    assert_false(parts_have_file(STR_NULL));
}

static void assert_title(const char *text, const char *parts, const char *expected)
{
    struct buf out = {0};
    parts_put_title(str_of(text), str_of(parts), &out);
    assert_true(str_eq(buf_str(&out), str_of(expected)));
    buf_done(&out);
}

static void test_title_is_the_beginning_of_the_text_else_the_first_file_s_name(void **state)
{
    (void)state;
    const char *files = json("[{'type':'file','file_id':'x'},"
                             "{'type':'file','file_id':'y','name':'depths.csv'},"
                             "{'type':'file','file_id':'z','name':'other.csv'}]");
    char text[2 * AUTO_TITLE_CHARS + 1] = "", cut[AUTO_TITLE_CHARS + 1] = "";
    memset(text, 'x', sizeof text - 1);
    memset(cut, 'x', sizeof cut - 1);
    assert_title("How deep?", NULL, "How deep?");
    assert_title("How deep?", files, "How deep?");
    assert_title(" \n\n How deep?", NULL, "How deep?");
    assert_title(text, NULL, cut);
    assert_title("", files, "depths.csv");
    assert_title(" \n", files, "depths.csv");
    assert_title("", json("[{'type':'file','file_id':'x'}]"), "");
    assert_title("", json("[{'type':'text','text':' '}]"), "");
    assert_title("", NULL, "");
}

static void assert_base64(const char *text, const char *expected)
{
    struct buf out = {0};
    bool good = base64_read(str_of(text), &out);
    assert_int_equal(good, expected != NULL);
    if (expected)
        assert_true(str_eq(buf_str(&out), str_of(expected)));
    buf_done(&out);
}

static void test_base64_of_the_rfc(void **state)
{
    (void)state;
    static const char *const good[][2] = {{"", ""},
                                          {"Zg==", "f"},
                                          {"Zm8=", "fo"},
                                          {"Zm9v", "foo"},
                                          {"Zm9vYg==", "foob"},
                                          {"Zm9vYmE=", "fooba"},
                                          {"Zm9vYmFy", "foobar"}};
    static const char *const bad[] = {"Z",        "Zg",    "Zg=",   "Zh==", "Zm9=", "====",
                                      "Zg==Zg==", "Zm9\n", "Zm9v=", "Z===", "Zm-v", "Zm_v"};
    for (size_t i = 0; i < countof(good); i++) {
        char text[16] = "";
        assert_base64(good[i][0], good[i][1]);
        assert_int_equal(BASE64_SIZE(strlen(good[i][1])), strlen(good[i][0]));
        base64_write(good[i][1], strlen(good[i][1]), text);
        assert_string_equal(text, good[i][0]);
    }
    for (size_t i = 0; i < countof(bad); i++)
        assert_base64(bad[i], NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_have_one_form),
        cmocka_unit_test(test_parts_that_are_none),
        cmocka_unit_test(test_parts_are_so_many_at_most),
        cmocka_unit_test(test_texts_are_joined),
        cmocka_unit_test(test_repeats_are_told_from_other_messages),
        cmocka_unit_test(test_file_is_no_text_that_looks_like_one),
        cmocka_unit_test(test_title_is_the_beginning_of_the_text_else_the_first_file_s_name),
        cmocka_unit_test(test_base64_of_the_rfc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
