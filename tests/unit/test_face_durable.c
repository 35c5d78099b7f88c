#include "tests/support/face_kit.h"

#include "proto/faces/durable.h"

/* The right answers are those of the Durable Streams protocol (its PROTOCOL.md, sections 5.5 to
 * 5.8, 8 and 10), worked out by hand from the mapping in docs/faces.md. */

#define LINE(seq, event, data)                                                          \
    "{\"type\":\"event\",\"task_id\":\"" TID "\",\"seq\":" seq ",\"ts\":1795953600007," \
    "\"event\":\"" event "\",\"data\":" data "}"
#define NOW 1728432060000 /* three intervals of 20 s after the epoch */

static struct durable_request request;
static char why[128];

static void begin_stream(enum durable_mode mode, uint64_t after, uint64_t first)
{
    request = (struct durable_request){
        .mode = mode, .after = after, .interval = 3, .form = {"application/json", true, true}};
    stream = durable_ops.make(
        &(struct face_task){.task_id = STR(TID), .request = &request, .first = first});
}

/* --- queries ---------------------------------------------------------------------------------- */

static bool reads(const char *query)
{
    request = (struct durable_request){0};
    return durable_read(str_of(query), NOW, 5, &request, why);
}

static void test_query_names_an_offset_and_a_mode(void **state)
{
    (void)state;
    assert_true(reads(""));
    assert_int_equal(request.mode, DURABLE_CATCH_UP);
    assert_int_equal(request.after, 0);
    assert_true(reads("offset=-1&other=1"));
    assert_false(request.from_now);
    assert_true(reads("offset=00000000000000000042&live=long-poll"));
    assert_int_equal(request.after, 42);
    assert_int_equal(request.mode, DURABLE_LONG_POLL);
    assert_true(reads("live=sse&offset=now"));
    assert_true(request.from_now);
    assert_int_equal(request.mode, DURABLE_LIVE);
}

static void test_query_that_names_none_is_refused(void **state)
{
    static const char *const bad[] = {
        "offset=",
        "offset",
        "offset=1",
        "offset=-2",
        "offset=NOW",
        "offset=0000000000000000004x",
        "offset=99999999999999999999",
        "offset=00000000000000000001,2",
        "offset=+0000000000000000001",
        "offset=%20000000000000000000",
        "offset=-1&offset=-1",
        "offset=-1&live=",
        "offset=-1&live=ws",
    };
    (void)state;
    for (size_t i = 0; i < countof(bad); i++)
        if (reads(bad[i]))
            fail_msg("%s", bad[i]);
    assert_false(reads("live=sse"));
    assert_string_equal(why, "\"live\" needs an \"offset\"");
}

static void test_cursor_grows_with_time_and_beyond_the_readers(void **state)
{
    (void)state;
    assert_true(reads("offset=-1&live=sse&cursor=2"));
    assert_int_equal(request.interval, 3);
    assert_true(reads("offset=-1&live=sse&cursor=3"));
    assert_int_equal(request.interval, 8);
    assert_true(reads("offset=-1&live=sse&cursor=100"));
    assert_int_equal(request.interval, 105);
    assert_true(reads("offset=-1&live=sse&cursor=9999999999999999999999"));
    assert_int_equal(request.interval, 3);
}

/* --- answers in one piece --------------------------------------------------------------------- */

static void test_catch_up_is_an_array_of_lines_to_the_tail(void **state)
{
    (void)state;
    begin_stream(DURABLE_CATCH_UP, 2, 0);
    tell(3, EVENT_TOKEN, "{\"text\":\"a\\nb\"}");
    tell(4, EVENT_PROGRESS, "{}");
    assert_int_equal(got.len, 0);
    face_stream_idle(stream, &sink);
    assert_text(got_now(), "[" LINE("3", "token", "{\"text\":\"a\\nb\"}") "," //
                LINE("4", "progress", "{}") "]\n");
    assert_true(stream->is_over);
    assert_int_equal(stream->status, 200);
    assert_text(stream->head, "content-type: application/json\n"
                              "stream-next-offset: 00000000000000000004\n"
                              "stream-up-to-date: true\n"
                              "cache-control: private, max-age=60, stale-while-revalidate=300\n"
                              "etag: \"" TID ":2:4\"\n"
                              "vary: Authorization, Cookie\n");
}

static void test_terminal_event_closes_the_stream(void **state)
{
    (void)state;
    begin_stream(DURABLE_CATCH_UP, 0, 0);
    tell(1, EVENT_TASK_COMPLETED, "{}");
    assert_text(got_now(), "[" LINE("1", "task.completed", "{}") "]\n");
    assert_true(stream->is_over);
    assert_text(stream->head, "content-type: application/json\n"
                              "stream-next-offset: 00000000000000000001\n"
                              "stream-up-to-date: true\n"
                              "stream-closed: true\n"
                              "cache-control: private, max-age=60, stale-while-revalidate=300\n"
                              "etag: \"" TID ":0:1:c\"\n"
                              "vary: Authorization, Cookie\n");
}

static void test_large_answer_ends_before_the_tail(void **state)
{
    struct buf data = {0};
    (void)state;
    buf_puts(&data, "{\"text\":\"");
    for (size_t i = 0; i < 60000; i++)
        buf_putc(&data, 'x');
    buf_puts(&data, "\"}");
    buf_putc(&data, 0);
    begin_stream(DURABLE_CATCH_UP, 0, 0);
    uint64_t seq = 0;
    while (!stream->is_over && seq < 40)
        tell(++seq, EVENT_TOKEN, data.bytes);
    buf_done(&data);
    assert_int_equal(seq, 18); /* the first one beyond 1 MiB */
    assert_null(strstr(stream->head.p, "up-to-date"));
    assert_non_null(strstr(stream->head.p, "stream-next-offset: 00000000000000000018\n"));
}

static void test_reader_who_has_the_answer_gets_none(void **state)
{
    (void)state;
    begin_stream(DURABLE_CATCH_UP, 0, 0);
    request.matches = STR("\"x\", \"" TID ":0:1\"");
    tell(1, EVENT_TASK_CREATED, "{}");
    face_stream_idle(stream, &sink);
    assert_int_equal(stream->status, 304);
    assert_text(got_now(), "\n");
    face_stream_free(stream);
    begin_stream(DURABLE_CATCH_UP, 0, 0);
    request.matches = STR("\"" TID ":0:1\"");
    tell(1, EVENT_TASK_COMPLETED, "{}"); /* closed is another answer */
    assert_int_equal(stream->status, 200);
}

static void test_long_poll_waits_for_an_event_or_for_its_end(void **state)
{
    (void)state;
    begin_stream(DURABLE_LONG_POLL, 3, 0);
    face_stream_idle(stream, &sink);
    assert_false(stream->is_over);
    stream->ops->late(stream, &sink);
    assert_true(stream->is_over);
    assert_int_equal(stream->status, 204);
    assert_text(stream->head, "content-type: application/json\n"
                              "stream-next-offset: 00000000000000000003\n"
                              "stream-up-to-date: true\n"
                              "stream-cursor: 3\n"
                              "etag: \"" TID ":3:3\"\n"
                              "vary: Authorization, Cookie\n");
    face_stream_free(stream);
    begin_stream(DURABLE_LONG_POLL, 3, 0);
    tell(4, EVENT_TOKEN, "{}");
    face_stream_idle(stream, &sink);
    assert_int_equal(stream->status, 200);
}

static void test_offset_before_what_is_kept_is_gone(void **state)
{
    (void)state;
    begin_stream(DURABLE_CATCH_UP, 2, 4);
    assert_true(stream->is_over);
    assert_int_equal(stream->status, 410);
    face_stream_free(stream);
    begin_stream(DURABLE_LIVE, 3, 4);
    assert_false(stream->is_over);
}

/* --- live ------------------------------------------------------------------------------------- */

static void test_live_stream_says_where_it_is_after_all_data(void **state)
{
    (void)state;
    begin_stream(DURABLE_LIVE, 0, 0);
    tell(1, EVENT_TASK_CREATED, "{}");
    tell(2, EVENT_TASK_STARTED, "{}");
    face_stream_idle(stream, &sink);
    face_stream_idle(stream, &sink);
    assert_text(
        got_now(), "data [" LINE("1", "task.created", "{}") "," //
        LINE("2", "task.started",
             "{}") "]\n"
                   "control {\"streamNextOffset\":\"00000000000000000002\",\"streamCursor\":\"3\","
                   "\"upToDate\":true}\n");
    tell(3, EVENT_TASK_FAILED, "{}");
    assert_text(
        got_now(),
        "data [" LINE(
            "3", "task.failed",
            "{}") "]\n"
                  "control {\"streamNextOffset\":\"00000000000000000003\",\"upToDate\":true,"
                  "\"streamClosed\":true}\n");
    assert_true(stream->is_over);
}

static void test_live_stream_at_the_end_is_closed_at_once(void **state)
{
    (void)state;
    begin_stream(DURABLE_LIVE, 9, 0);
    request.is_closed = true;
    face_stream_idle(stream, &sink);
    assert_text(got_now(), "control {\"streamNextOffset\":\"00000000000000000009\",\"upToDate\":"
                           "true,\"streamClosed\":true}\n");
    assert_true(stream->is_over);
}

/* --- exchanges -------------------------------------------------------------------------------- */

static enum face_next ask(enum durable_operation operation, const char *query)
{
    exchange_done(&x);
    x = (struct face_exchange){.ops = &durable_http_ops};
    return durable_http_ops.begin(&x, &(struct face_input){.operation = (int)operation,
                                                           .conversation = STR("c-1"),
                                                           .task = STR(TID),
                                                           .query = str_of(query),
                                                           .now_ms = NOW,
                                                           .doc = &doc});
}

static enum face_next hear(const char *line)
{
    return durable_http_ops.replied(&x, ERR_NONE, str_of(line), &reply_doc);
}

#define TASK(status)                                                                               \
    "{\"type\":\"task\",\"task\":{\"task_id\":\"" TID "\",\"conversation_id\":\"c-1\",\"status\":" \
    "\"" status "\",\"head\":7}}"

static void test_task_is_asked_for_and_followed_from_the_offset(void **state)
{
    (void)state;
    assert_int_equal(ask(DURABLE_READ, "offset=00000000000000000003"), FACE_ASK);
    assert_int_equal(x.ask.verb, VERB_TASK_GET);
    assert_int_equal(hear(TASK("running")), FACE_FOLLOW);
    assert_int_equal(x.ask.verb, VERB_RESUME);
    assert_text(buf_str(&x.ask.body), "{\"after\":3}");
    assert_true(x.is_whole);
    assert_int_equal(ask(DURABLE_READ, "offset=now&live=long-poll"), FACE_ASK);
    assert_int_equal(hear(TASK("running")), FACE_FOLLOW);
    assert_text(buf_str(&x.ask.body), "{\"after\":7}");
    assert_true(x.patience_ms > 0);
    assert_int_equal(ask(DURABLE_READ, "offset=-1&live=sse"), FACE_ASK);
    assert_int_equal(hear(TASK("completed")), FACE_FOLLOW);
    assert_false(x.is_whole);
}

static void test_reader_at_the_tail_is_answered_by_the_record(void **state)
{
    (void)state;
    assert_int_equal(ask(DURABLE_READ, "offset=now"), FACE_ASK);
    assert_int_equal(hear(TASK("running")), FACE_REPLY);
    assert_int_equal(x.status, 200);
    assert_text(buf_str(&x.reply), "[]");
    assert_text(buf_str(&x.head), "content-type: application/json\n"
                                  "stream-next-offset: 00000000000000000007\n"
                                  "stream-up-to-date: true\n");
    assert_int_equal(ask(DURABLE_READ, "offset=00000000000000000007&live=long-poll"), FACE_ASK);
    assert_int_equal(hear(TASK("failed")), FACE_REPLY);
    assert_int_equal(x.status, 204);
    assert_non_null(strstr(x.head.bytes, "stream-closed: true\n"));
}

static void test_head_is_the_tail(void **state)
{
    (void)state;
    assert_int_equal(ask(DURABLE_HEAD, "offset=bad"), FACE_ASK);
    assert_int_equal(hear(TASK("completed")), FACE_REPLY);
    assert_int_equal(x.status, 200);
    assert_int_equal(x.reply.len, 0);
    assert_text(buf_str(&x.head), "content-type: application/json\n"
                                  "stream-next-offset: 00000000000000000007\n"
                                  "stream-closed: true\n");
}

static void test_bad_requests_and_streams_that_are_not_there(void **state)
{
    (void)state;
    assert_int_equal(ask(DURABLE_READ, "offset=1"), FACE_REPLY);
    assert_int_equal(x.status, 400);
    assert_int_equal(ask(DURABLE_READ, "offset=00000000000000000008"), FACE_ASK);
    assert_int_equal(hear(TASK("running")), FACE_REPLY);
    assert_int_equal(x.status, 400);
    static const enum error none[] = {ERR_NOT_FOUND, ERR_BAD_REQUEST};
    for (size_t i = 0; i < countof(none); i++) {
        assert_int_equal(ask(DURABLE_READ, ""), FACE_ASK);
        assert_int_equal(durable_http_ops.replied(&x, none[i], STR("{}"), &reply_doc), FACE_REPLY);
        assert_int_equal(x.status, 404);
        assert_text(buf_str(&x.reply),
                    "{\"error\":{\"code\":\"not_found\",\"message\":\"no such task\"}}");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_query_names_an_offset_and_a_mode),
        TEST(test_query_that_names_none_is_refused),
        TEST(test_cursor_grows_with_time_and_beyond_the_readers),
        TEST(test_catch_up_is_an_array_of_lines_to_the_tail),
        TEST(test_terminal_event_closes_the_stream),
        TEST(test_large_answer_ends_before_the_tail),
        TEST(test_reader_who_has_the_answer_gets_none),
        TEST(test_long_poll_waits_for_an_event_or_for_its_end),
        TEST(test_offset_before_what_is_kept_is_gone),
        TEST(test_live_stream_says_where_it_is_after_all_data),
        TEST(test_live_stream_at_the_end_is_closed_at_once),
        TEST(test_task_is_asked_for_and_followed_from_the_offset),
        TEST(test_reader_at_the_tail_is_answered_by_the_record),
        TEST(test_head_is_the_tail),
        TEST(test_bad_requests_and_streams_that_are_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
