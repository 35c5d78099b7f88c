/* Trace contexts against the examples and rules of W3C Trace Context, spans against OTLP's JSON. */
#include "proto/trace.h"
#include "tests/support/t.h"

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN "00f067aa0ba902b7"

static void test_trace_contexts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good, sampled;
    } rows[] = {
        {"00-" TRACE "-" SPAN "-01", true, true}, /* section 3.2.3 */
        {"00-" TRACE "-" SPAN "-00", true, false},
        {"00-" TRACE "-" SPAN "-ff", true, true},
        {"00-" TRACE "-" SPAN "-02", true, false}, /* another flag */
        {"cc-" TRACE "-" SPAN "-01", true, true},  /* a later version: section 4.3 */
        {"cc-" TRACE "-" SPAN "-01-what-comes", true, true},
        {"cc-" TRACE "-" SPAN "-01what-comes", false, false},
        {"00-" TRACE "-" SPAN "-01-what-comes", false, false},
        {"ff-" TRACE "-" SPAN "-01", false, false},
        {"00-00000000000000000000000000000000-" SPAN "-01", false, false},
        {"00-" TRACE "-0000000000000000-01", false, false},
        {"00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN "-01", false, false},
        {"00-" TRACE "-" SPAN "-0", false, false},
        {"00-" TRACE "-" SPAN "-0g", false, false},
        {"00_" TRACE "-" SPAN "-01", false, false},
        {"00-" TRACE "_" SPAN "-01", false, false},
        {"00-" TRACE "-" SPAN "_01", false, false},
        {" 00-" TRACE "-" SPAN "-01", false, false},
        {"", false, false},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct trace_context c = {0};
        if (traceparent_read(str_of(rows[i].text), &c) != rows[i].good ||
            (rows[i].good && c.sampled != rows[i].sampled))
            fail_msg("%s", rows[i].text);
    }
    struct trace_context c;
    struct buf out = {0};
    assert_true(traceparent_read(STR("00-" TRACE "-" SPAN "-03"), &c));
    traceparent_put(&out, &c);
    assert_true(str_eq(buf_str(&out), STR("00-" TRACE "-" SPAN "-01")));
    buf_done(&out);
    char *huge = xalloc(1000);
    memset(huge, '1', 1000);
    memcpy(huge, "cc-" TRACE "-" SPAN "-01-", 56);
    assert_false(traceparent_read((struct str){huge, 1000}, &c));
    assert_true(traceparent_read((struct str){huge, MAX_TRACEPARENT}, &c));
    free(huge);
}

#define T60 "123456789012345678901234567890123456789012345678901234567890"
#define T240 T60 T60 T60 T60
#define T256 T240 "1234567890123456"

static void test_tracestate_is_passed_on_as_it_came(void **state)
{
    static const struct {
        const char *text, *kept; /* NULL: it is dropped as a whole */
    } rows[] = {
        {"congo=t61rcWkgMzE", "congo=t61rcWkgMzE"},
        {"rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"},
        {" rojo=1 ,\tcongo=2 ,, ", "rojo=1,congo=2"},
        {"a_-*/1@b=x y \"~!", "a_-*/1@b=x y \"~!"},
        {"1tenant@system=v", "1tenant@system=v"},
        {"k= v", "k= v"},
        {"k=" T256, "k=" T256},
        {"k=" T256 "1", NULL},
        {"k" T256 "=v", NULL},
        {"", NULL},
        {" , ", NULL},
        {"k", NULL},
        {"=v", NULL},
        {"k=", NULL},
        {"K=v", NULL},
        {"_k=v", NULL},
        {"k=v=w", NULL},
        {"k=v\x7f", NULL},
        {"k=v\xc3\xa4", NULL},
        {"k=v,l=w\r\nx: y", NULL},
    };
    char room[MAX_TRACESTATE];
    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        struct str got = tracestate_read(str_of(rows[i].text), room);
        if (rows[i].kept ? !str_eq(got, str_of(rows[i].kept)) : got.p != NULL)
            fail_msg("%s", rows[i].text);
    }
    assert_null(tracestate_read(STR_NULL, room).p);
}

static struct buf numbered_states(int n, const char *value)
{
    struct buf text = {0};
    for (int i = 0; i < n; i++)
        buf_putf(&text, "%sk%d=%s", i ? "," : "", i, value);
    return text;
}

/* Section 3.3.1.5: long members go first, then the last ones. */
static void test_tracestate_of_too_many_bytes_is_cut_by_members(void **state)
{
    char room[MAX_TRACESTATE];
    (void)state;
    struct buf many = numbered_states(32, "v"), more = numbered_states(33, "v");
    assert_true(str_eq(tracestate_read(buf_str(&many), room), buf_str(&many)));
    assert_null(tracestate_read(buf_str(&more), room).p);
    buf_done(&many);
    buf_done(&more);
    struct buf long_ones = numbered_states(9, T60), fitting = numbered_states(8, T60);
    assert_true(str_eq(tracestate_read(buf_str(&long_ones), room), buf_str(&fitting)));
    buf_done(&long_ones);
    buf_done(&fitting);
    static const char first[] = "long=" T240 ",a=" T60 T60 ",b=" T60 T60 ",c=" T60;
    assert_true(
        str_eq(tracestate_read(str_of(first), room), STR("a=" T60 T60 ",b=" T60 T60 ",c=" T60)));
}

static void test_tracestate_goes_into_json_and_out_of_it(void **state)
{
    struct trace_context c;
    struct js_doc doc = {0};
    struct buf out = {0};
    struct trace_copy copy = {0};
    char room[MAX_TRACESTATE];
    (void)state;
    static const char text[] =
        "{\"tracestate\":\"k=\\\"\\\\x\",\"traceparent\":\"00-" TRACE "-" SPAN "-01\"}";
    assert_true(js_parse(&doc, text, strlen(text), JS_OURS));
    assert_true(trace_read_members(&doc, 0, &c, room));
    assert_true(str_eq(c.state, STR("k=\"\\x")));
    trace_keep(&copy, &c);
    memset(room, 0, sizeof room);
    buf_putc(&out, '{');
    trace_put_members(&out, trace_kept(&copy));
    buf_putc(&out, '}');
    assert_true(str_eq(buf_str(&out), STR("{\"traceparent\":\"00-" TRACE "-" SPAN
                                          "-01\",\"tracestate\":\"k=\\\"\\\\x\"}")));
    trace_drop(&copy);
    assert_null(trace_kept(&copy));
    static const char alone[] = "{\"tracestate\":\"k=v\"}";
    assert_true(js_parse(&doc, alone, strlen(alone), JS_OURS));
    assert_false(trace_read_members(&doc, 0, &c, room)); /* section 4.3 */
    buf_done(&out);
    js_done(&doc);
}

static void test_trace_of_a_task_is_its_id(void **state)
{
    struct trace_context a, b;
    unsigned char one[8], other[8];
    (void)state;
    assert_true(trace_of_task(STR("01ARZ3NDEKTSV4RRFFQ69G5FAV"), &a));
    static const unsigned char bytes[16] = {0x01, 0x56, 0x3e, 0x3a, 0xb5, 0xd3, 0xd6, 0x76,
                                            0x4c, 0x61, 0xef, 0xb9, 0x93, 0x02, 0xbd, 0x5b};
    assert_memory_equal(a.trace_id, bytes, 16); /* as other libraries decode it */
    assert_memory_equal(a.span_id, bytes + 8, 8);
    assert_true(a.sampled);
    assert_false(trace_of_task(STR("01ARZ3NDEKTSV4RRFFQ69G5FA"), &b));
    trace_child_id(&a, STR("tool 1"), one);
    trace_child_id(&a, STR("tool 2"), other);
    assert_memory_not_equal(one, other, 8);
    trace_child_id(&a, STR("tool 1"), other);
    assert_memory_equal(one, other, 8);
}

static void test_trace_share_is_of_the_ids(void **state)
{
    struct trace_context c = {0};
    uint64_t seed = 88172645463325252u;
    int n = 0;
    (void)state;
    for (int i = 0; i < 20000; i++) {
        for (int k = 0; k < 16; k++) {
            seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
            c.trace_id[k] = (unsigned char)(seed >> 32);
        }
        n += trace_is_sampled(&c, 0.25);
        assert_true(trace_is_sampled(&c, 1));
        assert_false(trace_is_sampled(&c, 0));
    }
    assert_in_range(n, 4600, 5400);
}

static void test_trace_spans_are_otlp(void **state)
{
    struct trace_context c;
    struct span_writer w;
    struct buf out = {0};
    (void)state;
    assert_true(traceparent_read(STR("00-" TRACE "-" SPAN "-01"), &c));
    spans_open(&out, STR("holdfast"), STR("a"), STR("0.1"));
    span_begin(&w, &out,
               &(struct span_head){&c, NULL, STR("invoke_agent \"x\""), SPAN_SERVER, 1000, 2500});
    span_text(&w, "gen_ai.agent.name", STR("x"));
    span_text(&w, "left.out", STR_NULL);
    span_int(&w, "gen_ai.usage.input_tokens", 12);
    span_event(&w, 1200, "cancel", NULL, STR_NULL);
    span_event(&w, 1300, "resumed", "attempt", STR("2"));
    span_end(&w, STR("cancelled"));
    buf_putc(&out, ',');
    span_begin(&w, &out, &(struct span_head){&c, c.span_id, STR("t"), SPAN_INTERNAL, 3000, 2000});
    span_end(&w, STR_NULL);
    spans_close(&out);
    buf_putc(&out, 0);
    assert_string_equal(
        out.bytes,
        json("{'resourceSpans':[{'resource':{'attributes':["
             "{'key':'service.name','value':{'stringValue':'holdfast'}},"
             "{'key':'service.instance.id','value':{'stringValue':'a'}},"
             "{'key':'service.version','value':{'stringValue':'0.1'}}]},"
             "'scopeSpans':[{'scope':{'name':'holdfast','version':'0.1'},'spans':["
             "{'traceId':'" TRACE "','spanId':'" SPAN "','name':'invoke_agent \\'x\\'','kind':2,"
             "'startTimeUnixNano':'1000000000','endTimeUnixNano':'2500000000','attributes':["
             "{'key':'gen_ai.agent.name','value':{'stringValue':'x'}},"
             "{'key':'gen_ai.usage.input_tokens','value':{'intValue':'12'}}],'events':["
             "{'timeUnixNano':'1200000000','name':'cancel','attributes':[]},"
             "{'timeUnixNano':'1300000000','name':'resumed','attributes':["
             "{'key':'attempt','value':{'stringValue':'2'}}]}],"
             "'status':{'code':2,'message':'cancelled'}},"
             "{'traceId':'" TRACE "','spanId':'" SPAN "','parentSpanId':'" SPAN
             "','name':'t','kind':1,'startTimeUnixNano':'3000000000',"
             "'endTimeUnixNano':'3000000000','attributes':[],'status':{'code':1}}]}]}]}"));
    buf_done(&out);
}

static void test_trace_events_of_a_span_are_bounded(void **state)
{
    struct trace_context c;
    struct span_writer w;
    struct buf out = {0};
    (void)state;
    assert_true(trace_of_task(STR("01ARZ3NDEKTSV4RRFFQ69G5FAV"), &c));
    span_begin(&w, &out, &(struct span_head){&c, NULL, STR("t"), SPAN_INTERNAL, 1, 2});
    for (int i = 0; i < MAX_TRACE_EVENTS + 7; i++)
        span_event(&w, i, "e", NULL, STR_NULL);
    span_end(&w, STR_NULL);
    buf_putc(&out, 0);
    assert_non_null(strstr(out.bytes, json("'droppedEventsCount':7")));
    assert_null(strstr(out.bytes, json("'128000000'")));
    buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trace_contexts),
        cmocka_unit_test(test_tracestate_is_passed_on_as_it_came),
        cmocka_unit_test(test_tracestate_of_too_many_bytes_is_cut_by_members),
        cmocka_unit_test(test_tracestate_goes_into_json_and_out_of_it),
        cmocka_unit_test(test_trace_of_a_task_is_its_id),
        cmocka_unit_test(test_trace_share_is_of_the_ids),
        cmocka_unit_test(test_trace_spans_are_otlp),
        cmocka_unit_test(test_trace_events_of_a_span_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
