/* Parts of other protocols' messages: data URLs, base64, paths, names; and what is none. */
#include "proto/faces/face_parts.h"
#include "proto/parts.h"
#include "tests/support/t.h"

static struct face_parts parts;
static struct js_doc doc;

static int setup(void **state)
{
    (void)state;
    parts = (struct face_parts){0};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    face_parts_done(&parts);
    js_done(&doc);
    return 0;
}

/* The document is an array of strings; node n is its nth. */
static void read_doc(const char *text)
{
    assert_true(js_parse(&doc, text, strlen(text), JS_CLIENT));
}

static void expect(const char *expected)
{
    struct buf out = {0};
    face_parts_end(&parts, &out);
    buf_puts(&out, "");
    assert_string_equal(out.bytes, expected);
    struct js_doc own = {0};
    struct buf twice = {0};
    if (out.len) { /* it is a message of ours */
        assert_true(js_parse(&own, out.bytes, out.len, JS_CLIENT));
        assert_true(parts_read(&own, 0, &twice));
    }
    js_done(&own);
    buf_done(&twice);
    buf_done(&out);
}

static void test_texts_alone_are_no_parts(void **state)
{
    (void)state;
    read_doc(json("['a']"));
    face_parts_text(&parts, &doc, 1);
    face_parts_text(&parts, &doc, 0);
    expect("");
}

static void test_data_urls(void **state)
{
    (void)state;
    read_doc(json("['data:Image/PNG;base64,aGk=','data:;base64,','a/b\\\\c\\u0001.png',"
                  "'data:text/plain;charset=utf-8;base64,aGk=','look']"));
    face_parts_text(&parts, &doc, 5);
    assert_null(face_parts_url(&parts, &doc, 1, 3));
    assert_null(face_parts_url(&parts, &doc, 2, 0));
    assert_null(face_parts_url(&parts, &doc, 4, 0));
    expect(json("[{'type':'text','text':'look'},"
                "{'type':'file','media_type':'image/png','name':'abc.png','data':'aGk='},"
                "{'type':'file','media_type':'text/plain','data':''},"
                "{'type':'file','media_type':'text/plain','data':'aGk='}]"));
}

static void test_paths_of_files(void **state)
{
    (void)state;
    read_doc(
        json("['/v1/conversations/c/files/F1','https://x.y/v1/conversations/c/files/F2?a#b']"));
    assert_null(face_parts_url(&parts, &doc, 1, 0));
    assert_null(face_parts_url(&parts, &doc, 2, 0));
    expect(json("[{'type':'file','file_id':'F1'},{'type':'file','file_id':'F2'}]"));
}

static void test_base64(void **state)
{
    (void)state;
    read_doc(json("['aGk=','text/csv','n']"));
    assert_null(face_parts_data(&parts, &doc, 1, 2, 3));
    assert_null(face_parts_data(&parts, &doc, 1, 0, 0));
    expect(json("[{'type':'file','media_type':'text/csv','name':'n','data':'aGk='},"
                "{'type':'file','media_type':'application/octet-stream','data':'aGk='}]"));
}

static void test_what_is_no_file(void **state)
{
    (void)state;
    static const char *const urls[] = {"['']",
                                       "['https://elsewhere/x.png']",
                                       "['file:///etc/passwd']",
                                       "['data:image/png,x']",
                                       "['data:']",
                                       "['data:image/png;base64']",
                                       "['data:image/png;base64,?']",
                                       "['data:png;base64,aGk=']",
                                       "['/v1/conversations/c/files/']",
                                       "['/v1/conversations/c/tasks/T']",
                                       "['/v1/conversations/']"};
    for (size_t i = 0; i < countof(urls); i++) {
        read_doc(t_json(urls[i]));
        assert_non_null(face_parts_url(&parts, &doc, 1, 0));
    }
    assert_non_null(face_parts_url(&parts, &doc, 0, 0));
    assert_non_null(face_parts_data(&parts, &doc, 0, 0, 0));
    expect("");
}

static void test_message_is_the_text_or_the_parts(void **state)
{
    (void)state;
    struct buf out = {0};
    buf_putc(&out, '{');
    face_put_message(&out, STR("x"), STR_NULL);
    face_put_message(&out, STR("x"), STR("[1]"));
    assert_text(buf_str(&out), json("{'message':'x','message':[1]"));
    buf_done(&out);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_texts_alone_are_no_parts), TEST(test_data_urls),
        TEST(test_paths_of_files),           TEST(test_base64),
        TEST(test_what_is_no_file),          TEST(test_message_is_the_text_or_the_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
