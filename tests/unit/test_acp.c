/* The Agent Client Protocol, line by line: forms from its schema, version 1. */
#include <stdio.h>

#include "proto/forms/acp.h"
#include "tests/support/t.h"

static struct acp acp;

static int teardown(void **state)
{
    (void)state;
    acp_done(&acp);
    return 0;
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

static const char *text(struct buf *b)
{
    if (b->len == 0)
        return "";
    b->bytes[b->len] = 0;
    return b->bytes;
}

static void expect(struct buf *lines, const char *expected)
{
    assert_string_equal(text(lines), expected);
    buf_clear(lines);
}

static void take(const char *line)
{
    acp_take(&acp, str_of(line));
}

static void begin(const char *session, const char *auth_method)
{
    acp_open(&acp, &(struct acp_options){.cwd = "/w", .version = "1.2", .auth_method = auth_method},
             str_of(session));
}

#define PLACE "\"cwd\":\"/w\",\"mcpServers\":[]"
#define CAN_ALL                                                                              \
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":1,\"agentCapabilities\":" \
    "{\"loadSession\":true,\"sessionCapabilities\":{\"resume\":{}}},\"authMethods\":[{\"id\":\"key\"}]}}"
#define CAN_NOTHING "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":1}}"
#define NEW(id) \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"session/new\",\"params\":{" PLACE "}}\n"
#define PROMPT(id, session, said)                                         \
    "{\"jsonrpc\":\"2.0\",\"id\":" id                                     \
    ",\"method\":\"session/prompt\",\"params\":{\"sessionId\":\"" session \
    "\",\"prompt\":[{\"type\":\"text\",\"text\":\"" said "\"}]}}\n"

/* Up to a prompt that is answered next, as request 3 of session s. */
static void begin_turn(void)
{
    begin("", NULL);
    acp_prompt(&acp, STR("go"), STR("all"), STR(""));
    take(CAN_NOTHING);
    take("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"sessionId\":\"s\"}}");
    buf_clear(&acp.out);
    assert_int_equal(acp.awaits, ACP_AWAITS_PROMPT);
}

static void test_acp_hands_mcp_servers_on(void **state)
{
    static const char *const servers[] = {"\"mcpServers\":[{\"name\":\"a\"}]",
                                          "\"mcpServers\":[{\"name\":\"a\"},{\"name\":\"b\"}]"};
    (void)state;
    for (int http = 0; http < 2; http++) {
        acp_done(&acp);
        acp_open(&acp,
                 &(struct acp_options){.cwd = "/w",
                                       .version = "1.2",
                                       .mcp_stdio = "{\"name\":\"a\"}",
                                       .mcp_http = "{\"name\":\"b\"}"},
                 STR(""));
        buf_clear(&acp.out);
        take(http ? "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":1,"
                    "\"agentCapabilities\":{\"mcpCapabilities\":{\"http\":true}}}}"
                  : CAN_NOTHING);
        assert_non_null(strstr(text(&acp.out), servers[http]));
    }
}

static void test_acp_begins_with_initialize_and_a_prompt_waits(void **state)
{
    (void)state;
    begin("", NULL);
    expect(
        &acp.out,
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1,"
        "\"clientCapabilities\":{\"fs\":{\"readTextFile\":false,\"writeTextFile\":false},"
        "\"terminal\":false},\"clientInfo\":{\"name\":\"holdfast\",\"version\":\"1.2\"}}}\n");
    acp_prompt(&acp, STR("go"), STR("before, and go"), STR(""));
    expect(&acp.out, "");
    take(CAN_NOTHING);
    expect(&acp.out, NEW("2"));
    take("{\"result\":{\"sessionId\":\"s\"},\"id\":2,\"jsonrpc\":\"2.0\"}"); /* in any order */
    expect(&acp.out, PROMPT("3", "s", "before, and go"));
    take("{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"stopReason\":\"end_turn\"}}");
    assert_int_equal(acp.turn, ACP_DONE);
    acp_prompt(&acp, STR("more"), STR("before, and more"), STR(""));
    expect(&acp.out, PROMPT("4", "s", "more")); /* it knows what was before */
}

static void test_acp_prompt_waits_for_its_files(void **state)
{
    (void)state;
    for (int later = 0; later < 2; later++) { /* than the session */
        acp_done(&acp);
        begin("", NULL);
        acp_prompt(&acp, STR("go"), STR("all"), STR_NULL);
        if (!later)
            acp_take_files(&acp, STR(""));
        take(CAN_NOTHING);
        buf_clear(&acp.out);
        take("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"sessionId\":\"s\"}}");
        if (later) {
            expect(&acp.out, "");
            acp_take_files(&acp, STR(""));
        }
        expect(&acp.out, PROMPT("3", "s", "all"));
        acp_take_files(&acp, STR("")); /* once */
        expect(&acp.out, "");
    }
}

static void test_acp_resumes_or_else_begins_anew(void **state)
{
    (void)state;
    begin("old", NULL);
    acp_prompt(&acp, STR("go"), STR("all"), STR(""));
    buf_clear(&acp.out);
    take(CAN_ALL);
    expect(&acp.out, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"session/resume\",\"params\":"
                     "{\"sessionId\":\"old\"," PLACE "}}\n");
    take(
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":-32002,\"message\":\"Resource not found\"}}");
    expect(&acp.out, NEW("3"));
    take("{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"sessionId\":\"s\"}}");
    expect(&acp.out, PROMPT("4", "s", "all"));
}

static void test_acp_drops_what_a_load_replays(void **state)
{
    (void)state;
    static const char *const replayed =
        "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"old\",\"update\":"
        "{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"x\"}}}}";
    begin("old", NULL);
    acp_prompt(&acp, STR("go"), STR("all"), STR(""));
    take("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":1,\"agentCapabilities\":"
         "{\"loadSession\":true}}}");
    assert_non_null(strstr(text(&acp.out), "session/load"));
    buf_clear(&acp.out);
    take(replayed);
    expect(&acp.said, "");
    take("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":null}");
    expect(&acp.out, PROMPT("3", "old", "go"));
    take(replayed); /* the same again, and it is said now */
    expect(&acp.said, "{\"event\":\"token\",\"data\":{\"text\":\"x\"}}\n");
    take("{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"stopReason\":\"end_turn\"}}");
    buf_clear(&acp.said);
    take(replayed); /* after its turn */
    expect(&acp.said, "");
}

static void test_acp_authenticates_once_and_only_by_the_named_method(void **state)
{
    (void)state;
    static const char *const asks =
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":-32000,\"message\":\"Authentication required\"}}";
    begin("", "key");
    acp_prompt(&acp, STR("go"), STR("all"), STR(""));
    take(CAN_ALL);
    buf_clear(&acp.out);
    take(asks);
    expect(&acp.out, "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"authenticate\",\"params\":"
                     "{\"methodId\":\"key\"}}\n");
    take("{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}");
    expect(&acp.out, NEW("4"));
    take("{\"jsonrpc\":\"2.0\",\"id\":4,\"error\":{\"code\":-32000,\"message\":\"No\"}}");
    expect(&acp.out, "");
    assert_string_equal(text(&acp.failure), "session/new: No");
    acp_done(&acp);
    begin("", NULL);
    acp_prompt(&acp, STR("go"), STR("all"), STR(""));
    take(CAN_ALL);
    take(asks);
    assert_true(acp.broken);
    assert_string_equal(text(&acp.failure), "it wants to be authenticated: name one of its methods "
                                            "as auth_method: key");
}

static void test_acp_other_version_is_a_failure(void **state)
{
    (void)state;
    static const char *const results[] = {"{\"protocolVersion\":2}", "{\"protocolVersion\":\"1\"}",
                                          "{}", "null"};
    for (size_t i = 0; i < countof(results); i++) {
        char line[128];
        snprintf(line, sizeof line, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":%s}", results[i]);
        begin("", NULL);
        acp_prompt(&acp, STR("go"), STR("all"), STR(""));
        take(line);
        assert_int_equal(acp.turn, ACP_FAILED);
        assert_true(acp.broken);
        acp_done(&acp);
    }
    begin("", NULL);
}

#define ASK                                                                                              \
    "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"session/request_permission\",\"params\":{"           \
    "\"sessionId\":\"s\",\"toolCall\":{\"toolCallId\":\"c\",\"title\":\"rm x\",\"rawInput\":{\"p\":1}}," \
    "\"options\":[{\"optionId\":\"e\",\"name\":\"Ever\",\"kind\":\"allow_always\"},"                     \
    "{\"optionId\":\"y\",\"name\":\"Yes\",\"kind\":\"allow_once\"}]}}"
#define OUTCOME(id, rest) \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"result\":{\"outcome\":{\"outcome\":" rest "}}}\n"

static void test_acp_permission_is_asked_and_answered_once(void **state)
{
    (void)state;
    begin_turn();
    take(ASK);
    expect(
        &acp.said,
        "{\"event\":\"input_required\",\"data\":{\"input_id\":\"permission-1\",\"kind\":\"approval\","
        "\"prompt\":\"rm x\",\"tool\":\"rm x\",\"arguments\":{\"p\":1},\"options\":["
        "{\"id\":\"e\",\"name\":\"Ever\",\"kind\":\"allow_always\"},"
        "{\"id\":\"y\",\"name\":\"Yes\",\"kind\":\"allow_once\"}]}}\n");
    expect(&acp.out, "");
    acp_answer(&acp, STR("{\"type\":\"input\",\"input_id\":\"permission-1\",\"answer\":true}"));
    expect(&acp.out, OUTCOME("\"a\"", "\"selected\",\"optionId\":\"y\""));
    acp_answer(&acp, STR("{\"type\":\"input\",\"input_id\":\"permission-1\",\"answer\":true}"));
    expect(&acp.out, "");
    take(ASK);
    acp_answer(&acp, STR("{\"type\":\"input\",\"input_id\":\"permission-2\",\"answer\":\"e\"}"));
    expect(&acp.out, OUTCOME("\"a\"", "\"selected\",\"optionId\":\"e\""));
    take(ASK);
    acp_answer(&acp, STR("{\"type\":\"input\",\"input_id\":\"permission-3\",\"answer\":false}"));
    expect(&acp.out, OUTCOME("\"a\"", "\"cancelled\"")); /* nothing here rejects */
    take(ASK);
    acp_answer(&acp, STR("{\"type\":\"input\",\"input_id\":\"permission-4\",\"answer\":null}"));
    expect(&acp.out, OUTCOME("\"a\"", "\"cancelled\"")); /* it expired */
}

static void test_acp_cancel_answers_open_permissions_and_later_ones(void **state)
{
    (void)state;
    begin_turn();
    take(ASK);
    assert_true(acp_cancel(&acp));
    expect(
        &acp.out,
        "{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\",\"params\":{\"sessionId\":\"s\"}}\n" OUTCOME(
            "\"a\"", "\"cancelled\""));
    take(ASK);
    expect(&acp.out, OUTCOME("\"a\"", "\"cancelled\""));
    take("{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"stopReason\":\"cancelled\"}}");
    assert_int_equal(acp.turn, ACP_FAILED);
    assert_false(acp.broken);
}

static void test_acp_cancel_before_its_prompt_is_for_a_signal(void **state)
{
    (void)state;
    begin("", NULL);
    acp_prompt(&acp, STR("go"), STR("all"), STR(""));
    assert_false(acp_cancel(&acp));
    assert_true(acp.broken);
}

static void test_acp_refuses_what_it_does_not_serve(void **state)
{
    (void)state;
    static const char *const methods[] = {"fs/read_text_file", "fs/write_text_file",
                                          "terminal/create", "elicitation/create", "_vendor/x"};
    begin_turn();
    for (size_t i = 0; i < countof(methods); i++) {
        char line[160];
        snprintf(
            line, sizeof line,
            "{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"%s\",\"params\":{\"path\":\"/w/a\"}}",
            methods[i]);
        take(line);
        expect(&acp.out, "{\"jsonrpc\":\"2.0\",\"id\":1.5,\"error\":{\"code\":-32601,\"message\":"
                         "\"Method not found\"}}\n");
    }
    take("{\"jsonrpc\":\"2.0\",\"method\":\"_vendor/told\",\"params\":{}}"); /* not asked */
    expect(&acp.out, "");
}

static const char foreign[] =
    "{\"method\":\"session/update\",\"params\":{\"sessionId\":\"other\",\"update\":{\"sessionUpdate\":"
    "\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"x\"}}}}";

static void test_acp_answers_to_nothing_are_passed_over(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "",
        "x",
        "[]",
        "7",
        "{}",
        "{\"id\":3}",
        "{\"id\":4,\"result\":{\"stopReason\":\"end_turn\"}}",
        "{\"id\":\"3\",\"result\":{\"stopReason\":\"end_turn\"}}",
        "{\"id\":null,\"error\":{\"code\":-32700,\"message\":\"Parse error\"}}",
        "{\"id\":2,\"result\":{\"sessionId\":\"other\"}}",
        foreign};
    begin_turn();
    for (size_t i = 0; i < countof(lines); i++)
        take(lines[i]);
    expect(&acp.said, "");
    expect(&acp.out, "");
    assert_int_equal(acp.turn, ACP_RUNNING);
}

static void test_acp_error_is_told_without_its_data(void **state)
{
    (void)state;
    begin_turn();
    take(
        "{\"jsonrpc\":\"2.0\",\"id\":3,\"error\":{\"code\":-32603,\"message\":\"Internal error\",\"data\":"
        "{\"details\":\"Query closed\",\"params\":{\"key\":\"sk-secret\"}}}}");
    assert_string_equal(text(&acp.failure), "session/prompt: Internal error (Query closed)");
}

/* The program's update in its turn. */
static void update(const char *json)
{
    struct buf line = {0};
    buf_putf(&line,
             "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\","
             "\"update\":%s}}",
             json);
    acp_take(&acp, buf_str(&line));
    buf_done(&line);
}

#define FILES                                                                                 \
    "[{\"name\":\"a.png\",\"media_type\":\"image/png\",\"size\":3,\"path\":\"/f/a.png\","     \
    "\"data\":\"AAEC\"},{\"name\":\"\",\"media_type\":\"text/plain\",\"path\":\"/f/\xc3\xbc " \
    "?#%\"}]"
#define TEXT_LINK                                                        \
    "{\"type\":\"resource_link\",\"name\":\"file\",\"uri\":\"file:///f/" \
    "%C3%BC%20%3F%23%25\",\"mimeType\":\"text/plain\"}"

static void test_acp_files_of_a_message(void **state)
{
    static const struct {
        const char *can, *blocks;
    } rows[] = {
        {"{\"promptCapabilities\":{\"image\":true}}",
         "{\"type\":\"image\",\"mimeType\":\"image/png\",\"data\":\"AAEC\"}," TEXT_LINK},
        {"{}",
         "{\"type\":\"resource_link\",\"name\":\"a.png\",\"uri\":\"file:///f/a.png\",\"mimeType\":"
         "\"image/png\",\"size\":3}," TEXT_LINK},
    };
    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        struct buf line = {0}, expected = {0};
        acp_done(&acp);
        begin("", NULL);
        acp_prompt(&acp, STR("go"), STR("all"), STR(FILES));
        buf_putf(&line,
                 "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":1,"
                 "\"agentCapabilities\":%s}}",
                 rows[i].can);
        acp_take(&acp, buf_str(&line));
        buf_clear(&acp.out);
        take("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"sessionId\":\"s\"}}");
        buf_putf(&expected, "\"prompt\":[{\"type\":\"text\",\"text\":\"all\"},%s]}}\n",
                 rows[i].blocks);
        assert_non_null(strstr(text(&acp.out), text(&expected)));
        buf_done(&line);
        buf_done(&expected);
        take("{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"stopReason\":\"end_turn\"}}");
        buf_clear(&acp.out);
        acp_prompt(&acp, STR("more"), STR("all"), STR("")); /* they were of that message alone */
        expect(&acp.out, PROMPT("4", "s", "more"));
    }
}

static void expect_gift(size_t i, struct str bytes, const char *name, const char *type,
                        const char *call)
{
    assert_true(acp.n_gifts > i);
    assert_true(str_eq(buf_str(&acp.gifts[i].bytes), bytes));
    assert_string_equal(text(&acp.gifts[i].name), name);
    assert_string_equal(text(&acp.gifts[i].type), type);
    assert_string_equal(text(&acp.gifts[i].call), call);
}

static void test_acp_what_has_bytes_is_a_gift(void **state)
{
    (void)state;
    begin_turn();
    update("{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"image\","
           "\"mimeType\":\"Image/PNG\",\"data\":\"AAEC\",\"uri\":\"file:///x/y.png\"}}");
    expect(&acp.said, "");
    expect_gift(0, STR("\0\1\2"), "y.png", "image/png", "");
    update("{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"resource\","
           "\"resource\":{\"uri\":\"x:\",\"mimeType\":\"no type\",\"blob\":\"AA==\"}}}");
    expect_gift(1, STR("\0"), "", "", "");
    /* No base64, no bytes, a text: told as they are. */
    update("{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"image\","
           "\"mimeType\":\"image/png\",\"data\":\"?\"}}");
    update("{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"resource_link\","
           "\"name\":\"a\",\"uri\":\"file:///a\"}}");
    assert_int_equal(acp.n_gifts, 2);
    assert_non_null(strstr(text(&acp.said), "\"event\":\"custom\""));
    for (size_t i = 0; i < 2 * ACP_GIFTS; i++)
        update("{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"audio\","
               "\"mimeType\":\"audio/wav\",\"data\":\"AAEC\"}}");
    assert_int_equal(acp.n_gifts, ACP_GIFTS);
}

static void test_acp_program_that_ends_fails_its_turn(void **state)
{
    (void)state;
    begin_turn();
    update("{\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"c\",\"title\":\"T\","
           "\"status\":\"in_progress\",\"rawInput\":{\"a\":1}}");
    buf_clear(&acp.said);
    acp_lost(&acp, STR("gone"));
    assert_int_equal(acp.turn, ACP_FAILED);
    assert_string_equal(text(&acp.failure), "gone");
    assert_non_null(strstr(text(&acp.said), "\"event\":\"tool_result\""));
    acp_done(&acp);
    begin_turn();
    take("{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"stopReason\":\"end_turn\"}}");
    acp_lost(&acp, STR("gone"));
    assert_int_equal(acp.turn, ACP_DONE); /* its turn was over */
}

/* Puts the state of acp into another one, whose turn goes on with that answer. */
static void go_on(struct str answer)
{
    struct buf state = {0}, again = {0};
    struct js_doc doc = {0};
    struct acp next;
    buf_putc(&state, '{');
    acp_put_state(&acp, &state);
    buf_putc(&state, '}');
    assert_true(js_parse(&doc, state.bytes, state.len, JS_OURS));
    assert_true(acp_take_state(&next, &acp.o, &doc, 0));
    buf_putc(&again, '{');
    acp_put_state(&next, &again);
    buf_putc(&again, '}');
    assert_true(str_eq(buf_str(&again), buf_str(&state)));
    acp_go_on(&next, STR("go"), STR("all"), STR(""), answer);
    acp_done(&acp);
    acp = next;
    js_done(&doc);
    buf_done(&state);
    buf_done(&again);
}

static void test_acp_turn_goes_on_from_its_state(void **state)
{
    (void)state;
    begin_turn();
    update("{\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"c\",\"title\":\"T \\\"\","
           "\"status\":\"in_progress\",\"rawInput\":{\"a\":1},\"content\":[{\"type\":\"content\","
           "\"content\":{\"type\":\"text\",\"text\":\"half\"}}]}");
    update("{\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"d\",\"title\":\"D\","
           "\"status\":\"pending\"}");
    go_on(STR(""));
    expect(&acp.said, "");
    take("{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"session/request_permission\",\"params\":{"
         "\"sessionId\":\"s\",\"toolCall\":{\"toolCallId\":\"d\",\"rawInput\":{\"b\":2}},"
         "\"options\":[{\"optionId\":\"o\",\"name\":\"O\",\"kind\":\"allow_once\"}]}}");
    assert_non_null(
        strstr(text(&acp.said), "\"call_id\":\"d\",\"name\":\"D\",\"arguments\":{\"b\":2}"));
    buf_clear(&acp.said);
    go_on(STR("said before, "));
    acp_answer(&acp, STR("{\"type\":\"input\",\"input_id\":\"permission-1\",\"answer\":true}"));
    expect(&acp.out, "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"result\":{\"outcome\":{\"outcome\":"
                     "\"selected\",\"optionId\":\"o\"}}}\n");
    update("{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\","
           "\"text\":\"and now\"}}");
    buf_clear(&acp.said);
    take("{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"stopReason\":\"end_turn\"}}");
    assert_int_equal(acp.turn, ACP_DONE);
    assert_non_null(
        strstr(text(&acp.said), "\"call_id\":\"c\",\"name\":\"T \\\"\",\"output\":\"half\""));
    assert_non_null(strstr(text(&acp.said), "{\"output\":\"said before, and now\"}"));
}

static void test_acp_what_is_no_state_is_refused(void **state)
{
    static const char *const all[] = {
        "{}",
        "[]",
        "{\"awaits\":7,\"id\":1,\"asked\":0,\"calls\":[],\"permissions\":[],\"waits\":[]}",
        "{\"awaits\":6,\"id\":-1,\"asked\":0,\"calls\":[],\"permissions\":[],\"waits\":[]}",
        "{\"awaits\":6,\"id\":1,\"asked\":0,\"calls\":[[\"a\"]],\"permissions\":[],\"waits\":[]}",
        "{\"awaits\":6,\"id\":1,\"asked\":0,\"calls\":[],\"permissions\":[[1,\"x\",\"[]\"]],\"waits\":[]}",
        "{\"awaits\":6,\"id\":1,\"asked\":0,\"calls\":[],\"permissions\":[],\"waits\":[[\"1\",\"2\"]]}",
        "{\"awaits\":6,\"id\":1,\"asked\":0,\"calls\":[],\"permissions\":[],\"waits\":[],\"held\":\"x\"}"};
    struct js_doc doc = {0};
    (void)state;
    for (size_t i = 0; i < countof(all); i++) {
        acp_done(&acp);
        assert_true(js_parse(&doc, all[i], strlen(all[i]), JS_OURS));
        assert_false(acp_take_state(&acp, &(struct acp_options){.cwd = "/w"}, &doc, 0));
    }
    js_done(&doc);
}

static int n_written;

static const char *read_one(void *arg, const char *path, struct buf *ret)
{
    (void)arg;
    buf_puts(ret, "one");
    return strcmp(path, "/w/none") == 0 ? "there is no such file" : NULL;
}

static const char *count_write(void *arg, const char *path, struct str content)
{
    (void)arg, (void)path, (void)content;
    n_written++;
    return NULL;
}

#define WRITE(path, content)                                                                \
    "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"fs/write_text_file\",\"params\":{\"path\":" \
    "\"" path "\",\"content\":\"" content "\"}}"
#define UNKNOWN \
    "{\"jsonrpc\":\"2.0\",\"id\":9,\"error\":{\"code\":-32603,\"message\":\"" ACP_UNKNOWN "\"}}\n"

static void test_acp_effect_waits_and_is_never_done_twice(void **state)
{
    static const struct acp_files files = {.read = read_one, .write = count_write};
    (void)state;
    begin_turn();
    acp.o.files = &files;
    acp.holds = true;
    n_written = 0;
    take(WRITE("/w/a", "one"));
    assert_true(acp.effect_waits);
    expect(&acp.out, "");
    acp_do(&acp, STR(WRITE("/w/a", "one")), true); /* it has the text */
    expect(&acp.out, "{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{}}\n");
    acp_do(&acp, STR(WRITE("/w/a", "two")), true);
    assert_true(acp.is_unknown);
    expect(&acp.out, UNKNOWN);
    acp_do(&acp, STR(WRITE("/w/none", "two")), true);
    expect(&acp.out, UNKNOWN);
    assert_int_equal(n_written, 0);
    acp_do(&acp, STR(WRITE("/w/a", "two")), false);
    expect(&acp.out, "{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{}}\n");
    assert_int_equal(n_written, 1);
    assert_true(acp.holds && !acp.effect_waits && !acp.is_unknown);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_acp_hands_mcp_servers_on),
        TEST(test_acp_begins_with_initialize_and_a_prompt_waits),
        TEST(test_acp_prompt_waits_for_its_files),
        TEST(test_acp_resumes_or_else_begins_anew),
        TEST(test_acp_drops_what_a_load_replays),
        TEST(test_acp_authenticates_once_and_only_by_the_named_method),
        TEST(test_acp_other_version_is_a_failure),
        TEST(test_acp_permission_is_asked_and_answered_once),
        TEST(test_acp_cancel_answers_open_permissions_and_later_ones),
        TEST(test_acp_cancel_before_its_prompt_is_for_a_signal),
        TEST(test_acp_refuses_what_it_does_not_serve),
        TEST(test_acp_answers_to_nothing_are_passed_over),
        TEST(test_acp_error_is_told_without_its_data),
        TEST(test_acp_files_of_a_message),
        TEST(test_acp_what_has_bytes_is_a_gift),
        TEST(test_acp_program_that_ends_fails_its_turn),
        TEST(test_acp_turn_goes_on_from_its_state),
        TEST(test_acp_what_is_no_state_is_refused),
        TEST(test_acp_effect_waits_and_is_never_done_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
