/* Frames of a worker, in the forms of PROTOCOL.md section 10. */
#include "proto/worker_frame.h"
#include "tests/support/t.h"

static struct worker_decoder decoder;

static struct worker_frame decode(const char *line)
{
    struct worker_frame f;
    worker_frame_decode(&decoder, str_of(line), &f);
    return f;
}

static int teardown(void **state)
{
    (void)state;
    worker_decoder_done(&decoder);
    return 0;
}

#define HELLO                                                                                    \
    "'type':'hello','worker':'gpu','secret':'p\\u0041ss','instance':'i-1','agents':['a','b c']," \
    "'runs':4"

static void test_hello_has_all_that_a_worker_says_of_itself(void **state)
{
    uint64_t n = 0;
    (void)state;
    struct worker_frame f = decode(json("{" HELLO ",'open':{'r1':17,'r2':0},'new':[1]}"));
    assert_int_equal(f.kind, WORKER_HELLO);
    assert_text(f.worker, "gpu");
    assert_text(f.secret, "pAss");
    assert_text(f.instance, "i-1");
    assert_span(f.agents, "a\0b c\0", 6);
    assert_int_equal(f.runs, 4);
    assert_true(worker_frame_opens(&decoder, &f, "r1", &n));
    assert_int_equal(n, 17);
    assert_true(worker_frame_opens(&decoder, &f, "r2", &n));
    assert_int_equal(n, 0);
    assert_false(worker_frame_opens(&decoder, &f, "r3", &n));
    f = decode(json("{" HELLO "}"));
    assert_int_equal(f.kind, WORKER_HELLO);
    assert_false(worker_frame_opens(&decoder, &f, "r1", &n));
}

static void test_line_of_an_agent_is_told_by_its_run_and_number(void **state)
{
    (void)state;
    struct worker_frame f =
        decode(json("{'event':'token','data':{'text':'x'},'run':'01M8','n':9007199254740991}"));
    assert_int_equal(f.kind, WORKER_LINE);
    assert_text(f.run, "01M8");
    assert_true(f.n == 9007199254740991u);
    f = decode(json("{'run':'\\u0030','n':1,'call':'send','n':2,'content':''}"));
    assert_int_equal(f.kind, WORKER_LINE); /* a key that stands twice is the run's own fault */
    assert_text(f.run, "0");
    f = decode(json("{'run':'01M8','n':3,'nonsense':1}"));
    assert_int_equal(f.kind, WORKER_LINE);
}

static void test_end_is_done_or_failed(void **state)
{
    (void)state;
    struct worker_frame f = decode(json("{'run':'r','n':3,'end':'done'}"));
    assert_int_equal(f.kind, WORKER_END);
    assert_false(f.failed);
    f = decode(json("{'run':'r','n':3,'end':'failed','error':'a\\nb'}"));
    assert_int_equal(f.kind, WORKER_END);
    assert_true(f.failed);
    assert_text(f.reason, "a\nb");
    f = decode(json("{'run':'r','n':3,'end':'failed','error':{}}"));
    assert_text(f.reason, "");
}

static void test_other_types(void **state)
{
    (void)state;
    struct worker_frame f = decode(json("{'type':'ack','run':'r','n':5}"));
    assert_int_equal(f.kind, WORKER_ACK);
    assert_int_equal(f.n, 5);
    assert_int_equal(decode(json("{'type':'drain'}")).kind, WORKER_DRAIN);
    assert_int_equal(decode(json("{'type':'later','run':7}")).kind, WORKER_NOTHING);
    assert_int_equal(decode(" \r").kind, WORKER_NOTHING);
}

static void test_faults_are_named_and_quote_nothing(void **state)
{
    const struct {
        const char *line, *error;
    } rows[] = {
        {"PLANTED", "a frame must be a JSON object"},
        {"[\"PLANTED\"]", "a frame must be a JSON object"},
        {json("{'event':'token','n':1}"), "\"run\" must be the id of a run"},
        {json("{'run':'','n':1}"), "\"run\" must be the id of a run"},
        {json("{'run':'a\\u0000','n':1}"), "\"run\" must be the id of a run"},
        {json("{'run':'r','n':0}"), "\"n\" must be a number from 1 on"},
        {json("{'run':'r','n':1.0}"), "\"n\" must be a number from 1 on"},
        {json("{'run':'r','n':9007199254740992}"), "\"n\" must be a number from 1 on"},
        {json("{'type':'ack','run':'r'}"), "\"n\" must be a number from 1 on"},
        {json("{'type':7,'run':'r','n':1}"), "\"type\" must be a text"},
        {json("{'run':'r','n':1,'end':true}"), "\"end\" must be \"done\" or \"failed\""},
        {json("{'run':'r','n':1,'end':'PLANTED'}"), "\"end\" must be \"done\" or \"failed\""},
        {json("{'type':'hello','secret':'PLANTED'}"), "\"worker\" must be a name"},
        {json("{'type':'hello','worker':'w','secret':''}"), "\"secret\" must be a text"},
        {json("{'type':'hello','worker':'w','secret':'s'}"),
         "\"instance\" must be a text of 1 to 64 bytes"},
        {json("{'type':'hello','worker':'w','secret':'s','instance':'i','agents':[]}"),
         "\"agents\" must be a list of names"},
        {json("{'type':'hello','worker':'w','secret':'s','instance':'i','agents':['a',1]}"),
         "\"agents\" must be a list of names"},
        {json("{'type':'hello','worker':'w','secret':'s','instance':'i','agents':['a'],'runs':0}"),
         "\"runs\" must be a number from 1 to 500"},
        {json("{" HELLO ",'open':[]}"), "\"open\" must be an object of numbers"},
        {json("{" HELLO ",'open':{'r':-1}}"), "\"open\" must be an object of numbers"},
    };
    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        struct worker_frame f = decode(rows[i].line);
        assert_int_equal(f.kind, WORKER_BAD);
        assert_string_equal(f.error, rows[i].error);
    }
}

static void test_texts_that_are_too_long_are_refused(void **state)
{
    struct buf line = {0};
    (void)state;
    for (size_t n = 500; n < 4000000; n = n * 8 + 13) {
        buf_clear(&line);
        buf_puts(&line, json("{'type':'hello','worker':'w','secret':'"));
        for (size_t i = 0; i < n; i++)
            buf_puts(&line, n % 2 ? "\\ud800" : "x");
        buf_puts(&line, json("'}"));
        struct worker_frame f = decode(line.bytes);
        assert_int_equal(f.kind, WORKER_BAD);
        assert_true(decoder.arena.cap < 1 << 18);
    }
    buf_done(&line);
}

static void test_frames_of_the_gateway(void **state)
{
    struct buf out = {0};
    (void)state;
    worker_put_line(&out, "01M8", 3,
                    str_of(json("{'type':'message','from':'user','content':'}'}")));
    assert_string_equal(out.bytes,
                        json("{'type':'message','from':'user','content':'}','run':'01M8','n':3}"));
    buf_clear(&out);
    worker_put_ack(&out, "01M8", 12);
    assert_string_equal(out.bytes, json("{'type':'ack','run':'01M8','n':12}"));
    buf_clear(&out);
    worker_put_gone(&out, STR("a\"b"));
    assert_string_equal(out.bytes, "{\"type\":\"gone\",\"run\":\"a\\\"b\"}");
    buf_done(&out);
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_hello_has_all_that_a_worker_says_of_itself),
        TEST(test_line_of_an_agent_is_told_by_its_run_and_number),
        TEST(test_end_is_done_or_failed),
        TEST(test_other_types),
        TEST(test_faults_are_named_and_quote_nothing),
        TEST(test_texts_that_are_too_long_are_refused),
        TEST(test_frames_of_the_gateway),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
