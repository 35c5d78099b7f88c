/* Messages, results and tools of the Model Context Protocol: forms from its revisions 2026-07-28
 * and 2025-11-25, and lines that two servers have written (tests/mcp/golden). */
#include <stdio.h>

#include "proto/mcp/mcp_content.h"
#include "proto/mcp/mcp_tool.h"
#include "tests/support/t.h"

static struct js_doc doc;
static struct buf out;
static struct mcp_catalog catalog;
static char line[65536];

static int teardown(void **state)
{
    (void)state;
    js_done(&doc);
    buf_done(&out);
    mcp_catalog_done(&catalog);
    return 0;
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

static struct mcp_message read_text(const char *text)
{
    struct mcp_message m;
    snprintf(line, sizeof line, "%s", text);
    assert_true(js_parse(&doc, line, strlen(line), JS_AGENT));
    mcp_message_read(&doc, 0, &m);
    return m;
}

/* The recorded answer to that request of ours. */
static struct mcp_message golden(const char *name, int64_t id)
{
    char path[1024];
    struct mcp_message m = {0};
    snprintf(path, sizeof path, "%s/mcp/golden/%s.jsonl", TESTS_FOLDER, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (m.id != id && fgets(line, sizeof line, file)) {
        assert_true(js_parse(&doc, line, strlen(line), JS_AGENT));
        mcp_message_read(&doc, 0, &m);
        assert_int_not_equal(m.kind, MCP_JUNK);
    }
    (void)fclose(file);
    assert_int_equal(m.id, id);
    return m;
}

static const char *content(struct mcp_message m, bool good)
{
    assert_int_equal(m.kind, MCP_RESULT);
    buf_clear(&out);
    assert_int_equal(mcp_content_put(&doc, m.result, &out), good);
    buf_putc(&out, 0);
    return out.bytes;
}

/* --- reading ---------------------------------------------------------------------------------- */

static void test_mcp_message_is_of_four_kinds(void **state)
{
    (void)state;
    struct mcp_message m = read_text(json("{'jsonrpc':'2.0','id':7,'result':{}}"));
    assert_int_equal(m.kind, MCP_RESULT);
    assert_int_equal(m.id, 7);
    m = read_text(json("{'jsonrpc':'2.0','id':7,'error':{'code':-32601,'message':'no'}}"));
    assert_int_equal(m.kind, MCP_ERROR);
    assert_int_equal(m.code, MCP_NO_METHOD);
    m = read_text(json("{'jsonrpc':'2.0','id':'a','method':'ping'}"));
    assert_int_equal(m.kind, MCP_REQUEST);
    assert_text(js_raw(&doc, m.own_id), "a");
    m = read_text(json("{'jsonrpc':'2.0','id':0,'method':'ping'}"));
    assert_int_equal(m.kind, MCP_REQUEST);
    m = read_text(json("{'method':'notifications/x','params':[1]}"));
    assert_int_equal(m.kind, MCP_NOTIFICATION);
    assert_int_equal(m.params, 0);
}

static void test_mcp_answer_is_ours_only_by_an_integer(void **state)
{
    (void)state;
    static const char *const others[] = {
        "'7'", "null", "-7", "7.5", "[7]", "7e0", "18446744073709551617"};
    for (size_t i = 0; i < countof(others); i++) {
        struct buf text = {0};
        buf_putf(&text, "{\"id\":%s,\"result\":{}}", others[i][0] == '\'' ? "\"7\"" : others[i]);
        struct mcp_message m = read_text(text.bytes);
        buf_done(&text);
        assert_int_equal(m.kind, MCP_RESULT);
        assert_int_equal(m.id, 0);
    }
    assert_int_equal(read_text(json("{'error':{'code':-32000}}")).id, 0);
}

static void test_mcp_junk_is_no_message(void **state)
{
    (void)state;
    static const char *const junk[] = {"[]",
                                       "1",
                                       "\"x\"",
                                       "null",
                                       "{}",
                                       "{\"id\":1}",
                                       "{\"id\":1,\"result\":[]}",
                                       "{\"id\":1,\"error\":\"x\"}",
                                       "{\"method\":1}"};
    for (size_t i = 0; i < countof(junk); i++)
        assert_int_equal(read_text(junk[i]).kind, MCP_JUNK);
}

static void test_mcp_servers_say_which_versions_they_speak(void **state)
{
    (void)state;
    struct mcp_message m = golden("everything", 1); /* server/discover, before any handshake */
    assert_int_equal(m.kind, MCP_ERROR);
    assert_int_equal(m.code, MCP_NO_METHOD);
    m = golden("everything", 2);
    assert_true(mcp_is_legacy_version(&doc, js_get(&doc, m.result, "protocolVersion")));
    m = golden("modern", 1);
    assert_true(
        mcp_list_has(&doc, js_get(&doc, m.result, "supportedVersions"), MCP_MODERN_VERSION));
    read_text(json("['2026-07-28','2025-06-18','2099-01-01']"));
    assert_false(mcp_is_legacy_version(&doc, 1));
    assert_true(mcp_is_legacy_version(&doc, 2));
    assert_false(mcp_is_legacy_version(&doc, 3));
}

/* --- writing ---------------------------------------------------------------------------------- */

static void test_mcp_request_of_each_era(void **state)
{
    (void)state;
    struct mcp_request_form form = {.id = 4,
                                    .era = MCP_LEGACY,
                                    .version = "1.2",
                                    .method = "tools/call",
                                    .params = STR("\"name\":\"x\""),
                                    .wants_progress = true};
    mcp_put_request(&out, &form);
    assert_text(buf_str(&out),
                json("{'jsonrpc':'2.0','id':4,'method':'tools/call','params':{'name':'x',"
                     "'_meta':{'progressToken':4}}}"));
    buf_clear(&out);
    form = (struct mcp_request_form){.id = 5, .era = MCP_LEGACY, .method = "tools/list"};
    mcp_put_request(&out, &form);
    assert_text(buf_str(&out), json("{'jsonrpc':'2.0','id':5,'method':'tools/list','params':{}}"));
    buf_clear(&out);
    form = (struct mcp_request_form){.id = 1, .version = "1.2", .method = "server/discover"};
    mcp_put_request(&out, &form);
    assert_text(
        buf_str(&out),
        json("{'jsonrpc':'2.0','id':1,'method':'server/discover','params':{'_meta':{"
             "'io.modelcontextprotocol/protocolVersion':'2026-07-28',"
             "'io.modelcontextprotocol/clientCapabilities':{'elicitation':{'form':{},'url':{}},"
             "'extensions':{'io.modelcontextprotocol/tasks':{}}},"
             "'io.modelcontextprotocol/clientInfo':{'name':'holdfast','version':'1.2'}}}}"));
}

static void test_mcp_handshake_and_answers(void **state)
{
    (void)state;
    mcp_put_initialize(&out, 2, "1.2");
    assert_text(buf_str(&out),
                json("{'jsonrpc':'2.0','id':2,'method':'initialize','params':{'protocolVersion':"
                     "'2025-11-25','capabilities':{'elicitation':{'form':{},'url':{}}},"
                     "'clientInfo':{'name':'holdfast','version':'1.2'}}}"));
    buf_clear(&out);
    mcp_put_notification(&out, "notifications/initialized", STR(""));
    assert_text(buf_str(&out), json("{'jsonrpc':'2.0','method':'notifications/initialized'}"));
    buf_clear(&out);
    mcp_put_answer(&out, STR("\"a\""), STR("{}"));
    assert_text(buf_str(&out), json("{'jsonrpc':'2.0','id':'a','result':{}}"));
    buf_clear(&out);
    mcp_put_refusal(&out, STR("0"), MCP_NO_METHOD, "no \"such\"");
    assert_true(js_parse(&doc, out.bytes, out.len, JS_AGENT));
}

static void test_mcp_header_value_is_ascii_or_base64(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
    } rows[] = {{"get-sum", "get-sum"},
                {"a b", "a b"},
                {" a", "=?base64?IGE=?="},
                {"", "=?base64?"
                     "?="},
                {"\xc3\xa9", "=?base64?w6k=?="},
                {"a\r\nX: y", "=?base64?YQ0KWDogeQ==?="},
                {"=?base64?eA==?=", "=?base64?PT9iYXNlNjQ/ZUE9PT89?="}};
    for (size_t i = 0; i < countof(rows); i++) {
        buf_clear(&out);
        mcp_put_header_value(&out, str_of(rows[i].from));
        assert_text(buf_str(&out), rows[i].to);
    }
}

/* --- results ---------------------------------------------------------------------------------- */

static void test_mcp_text_of_a_result_is_bare(void **state)
{
    (void)state;
    assert_string_equal(content(golden("everything", 11), true), "Echo: hi");
    assert_string_equal(content(golden("modern", 11), true), "hi");
    assert_string_equal(content(golden("everything", 13), true), /* structured, too */
                        json("{'temperature':33,'conditions':'Cloudy','humidity':82}"));
    assert_string_equal(content(golden("modern", 17), false), "no such luck");
    assert_non_null(
        strstr(content(golden("everything", 17), false), "Invalid arguments for tool echo"));
}

static void test_mcp_parts_that_are_no_text_are_told_with_their_type(void **state)
{
    (void)state;
    assert_string_equal(
        content(golden("everything", 14), true),
        "Here are 2 resource links to resources available in this server:\n"
        "[link: Blob Resource 1 <demo://resource/dynamic/blob/1>, text/plain] Resource 1: plaintext resource\n"
        "[link: Text Resource 2 <demo://resource/dynamic/text/2>, text/plain] Resource 2: plaintext resource");
    const char *text = content(golden("everything", 15), true);
    assert_non_null(
        strstr(text, "Resource 1:\n[resource: text/plain] <demo://resource/dynamic/text/1>\n"));
    struct mcp_message m = read_text(json(
        "{'id':1,'result':{'content':[{'type':'image','data':'AAAAAAAA','mimeType':'image/png'},"
        "{'type':'audio','data':'','mimeType':'audio/wav'},{'type':'resource','resource':{'uri':'x:y',"
        "'blob':'AAAA'}},{'type':'hologram'},7,{'type':'resource'}]}}"));
    assert_string_equal(content(m, true),
                        "[image: image/png, 6 bytes]\n[audio: audio/wav, 0 bytes]\n"
                        "[resource: unknown type, 3 bytes] <x:y>\n"
                        "[content of a type that is not known]\n[resource without content]");
}

static void test_mcp_structured_content_stands_in_for_a_missing_text(void **state)
{
    (void)state;
    struct mcp_message m =
        read_text(json("{'id':1,'result':{'content':[],'structuredContent':[1,2.50,0.1]}}"));
    assert_string_equal(content(m, true), "[1,2.50,0.1]");
    m = read_text(
        json("{'id':1,'result':{'content':[{'type':'text','text':'a'},{'type':'text','text':'b'}],"
             "'structuredContent':1,'isError':false}}"));
    assert_string_equal(content(m, true), "a\nb");
}

static void test_mcp_long_output_loses_its_middle(void **state)
{
    (void)state;
    for (size_t i = 0; i < 40000; i++)
        buf_puts(&out, "\xc3\xa9");
    mcp_output_cut(&out);
    assert_true(out.len < MCP_OUTPUT + 64);
    assert_true(utf8_valid(buf_str(&out)));
    assert_non_null(memmem(out.bytes, out.len, "\n[14464 bytes are left out]\n", 28));
    buf_clear(&out);
    buf_puts(&out, "short");
    mcp_output_cut(&out);
    assert_text(buf_str(&out), "short");
}

static void test_mcp_outcomes(void **state)
{
    (void)state;
    struct mcp_task t;
    struct mcp_message m = golden("modern", 14);
    assert_int_equal(mcp_outcome_of(&doc, m.result), MCP_INPUT);
    m = golden("everything", 30);
    assert_int_equal(mcp_outcome_of(&doc, m.result), MCP_TASK);
    mcp_task_read(&doc, m.result, &t);
    assert_int_equal(t.status, MCP_TASK_WORKING);
    assert_int_equal(t.poll_ms, 1000);
    assert_true(t.id && t.message);
    m = golden("everything", 43); /* tasks/get: flat */
    mcp_task_read(&doc, m.result, &t);
    assert_int_equal(t.status, MCP_TASK_INPUT);
    m = read_text(json("{'id':1,'result':{'resultType':'task','taskId':'t','status':'completed',"
                       "'pollIntervalMs':5,'result':{'content':[]}}}"));
    assert_int_equal(mcp_outcome_of(&doc, m.result), MCP_TASK);
    mcp_task_read(&doc, m.result, &t);
    assert_int_equal(t.status, MCP_TASK_COMPLETED);
    assert_int_equal(t.poll_ms, 5);
    assert_true(t.result != 0);
    m = read_text(json("{'id':1,'result':{'resultType':'riddle'}}"));
    assert_int_equal(mcp_outcome_of(&doc, m.result), MCP_STRANGE);
    mcp_task_read(&doc, m.result, &t);
    assert_int_equal(t.status, MCP_TASK_STRANGE);
}

/* --- tools ------------------------------------------------------------------------------------ */

static unsigned n_left_out;
static char last_why[128];

static void on_left_out(void *arg, struct str name, const char *why)
{
    (void)arg, (void)name;
    n_left_out++;
    snprintf(last_why, sizeof last_why, "%s", why);
}

static enum mcp_page add_page(const char *text)
{
    catalog.left_out = on_left_out;
    struct mcp_message m = read_text(text);
    return mcp_catalog_add(&catalog, &doc, m.result);
}

static const struct mcp_tool *find(const char *name)
{
    for (size_t i = 0; i < catalog.n; i++)
        if (strcmp(catalog.list[i].name, name) == 0)
            return &catalog.list[i];
    return NULL;
}

static void test_mcp_tools_of_real_servers(void **state)
{
    (void)state;
    struct mcp_message m = golden("everything", 3);
    assert_int_equal(mcp_catalog_add(&catalog, &doc, m.result), MCP_PAGE_LAST);
    mcp_catalog_close(&catalog, "e");
    assert_true(catalog.n > 10);
    assert_string_equal(find("get-sum")->alias, "e__get-sum");
    assert_int_equal(find("simulate-research-query")->tasks, MCP_TASKS_REQUIRED);
    assert_int_equal(find("echo")->tasks, MCP_TASKS_FORBIDDEN);
    assert_string_equal(find("echo")->description, "Echoes back the input string");
    mcp_catalog_done(&catalog);
    m = golden("modern", 2);
    assert_int_equal(mcp_catalog_add(&catalog, &doc, m.result), MCP_PAGE_LAST);
    mcp_catalog_close(&catalog, "m");
    assert_true(find("echo")->is_read_only);
    assert_false(find("write")->is_read_only);
    assert_int_equal(find("region")->n_headers, 1);
    assert_string_equal(find("region")->headers[0].header, "Region");
    assert_string_equal(
        find("echo")->parameters, /* as it is */
        json("{'type':'object','$schema':'https://json-schema.org/draft/2020-12/schema',"
             "'properties':{'text':{'type':'string'}},'required':['text']}"));
}

static void test_mcp_schema_goes_on_as_it_is(void **state)
{
    (void)state;
    add_page(
        json("{'id':1,'result':{'tools':[{'name':'a','inputSchema':{'type':'object','properties':"
             "{'x':{'multipleOf':0.10,'maximum':18446744073709551616,'$ref':'#/x'}}}},"
             "{'name':'b','inputSchema':{'type':'object'}}]}}"));
    assert_string_equal(catalog.list[0].parameters,
                        json("{'type':'object','properties':{'x':{'multipleOf':0.10,'maximum':"
                             "18446744073709551616,'$ref':'#/x'}}}"));
    assert_string_equal(catalog.list[1].parameters, json("{'type':'object','properties':{}}"));
}

static void test_mcp_tools_that_are_left_out(void **state)
{
    (void)state;
    struct buf page = {0};
    static const struct {
        const char *tool, *why;
    } rows[] = {
        {"{'inputSchema':{'type':'object'}}", "it has no name"},
        {"{'name':'','inputSchema':{'type':'object'}}", "it has no name"},
        {"{'name':'x'}", "its inputSchema is no schema of an object"},
        {"{'name':'x','inputSchema':{'type':'array'}}",
         "its inputSchema is no schema of an object"},
        {"{'name':'x','inputSchema':true}", "its inputSchema is no schema of an object"},
        {"{'name':'x','inputSchema':{'type':'object','properties':{'p':{'type':'number','x-mcp-header':'P'}}}}",
         "x-mcp-header stands on an argument that is no text, integer or boolean"},
        {"{'name':'x','inputSchema':{'type':'object','properties':{'p':{'type':'string','x-mcp-header':'a b'}}}}",
         "x-mcp-header is not the name of a header"},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        buf_clear(&page);
        buf_putf(&page, "{'result':{'tools':[%s]}}", rows[i].tool);
        for (char *p = page.bytes; *p; p++)
            *p = *p == '\'' ? '"' : *p;
        n_left_out = 0;
        assert_int_equal(add_page(page.bytes), MCP_PAGE_LAST);
        assert_int_equal(n_left_out, 1);
        assert_string_equal(last_why, rows[i].why);
    }
    buf_done(&page);
    assert_int_equal(catalog.n, 0);
    add_page(json("{'result':{'tools':[{'name':'x','inputSchema':{'type':'object'}},"
                  "{'name':'x','inputSchema':{'type':'object'}}]}}"));
    assert_string_equal(last_why, "another one has the same name");
    assert_int_equal(catalog.n, 1);
    assert_int_equal(add_page(json("{'result':{'tools':{}}}")), MCP_PAGE_BAD);
}

static void test_mcp_schema_has_a_limit(void **state)
{
    (void)state;
    struct buf page = {0};
    buf_puts(
        &page,
        "{\"result\":{\"tools\":[{\"name\":\"x\",\"inputSchema\":{\"type\":\"object\",\"a\":\"");
    for (size_t i = 0; i < MCP_SCHEMA_BYTES; i++)
        buf_putc(&page, 'a');
    buf_puts(&page, "\"}}]}}");
    n_left_out = 0;
    assert_int_equal(add_page(page.bytes), MCP_PAGE_LAST);
    buf_done(&page);
    assert_int_equal(n_left_out, 1);
    assert_string_equal(last_why, "its inputSchema exceeds 32 KiB");
}

static void test_mcp_pages_end(void **state)
{
    (void)state;
    char text[128];
    assert_int_equal(add_page(json("{'result':{'tools':[],'nextCursor':''}}")), MCP_PAGE_MORE);
    assert_text(buf_str(&catalog.cursor), "\"\"");
    assert_int_equal(add_page(json("{'result':{'tools':[],'nextCursor':'a'}}")), MCP_PAGE_MORE);
    assert_int_equal(add_page(json("{'result':{'tools':[],'nextCursor':''}}")), MCP_PAGE_LAST);
    mcp_catalog_done(&catalog);
    unsigned n = 0;
    do
        snprintf(text, sizeof text, "{\"result\":{\"tools\":[],\"nextCursor\":\"%u\"}}", ++n);
    while (add_page(text) == MCP_PAGE_MORE);
    assert_int_equal(n, MCP_PAGES);
}

/* A model's API takes each as a name, none is there twice, and the order is of no matter. */
static void test_mcp_aliases_are_names_and_stable(void **state)
{
    (void)state;
    static const char *const pages[] = {
        "{'result':{'tools':[{'name':'a.b','inputSchema':{'type':'object'}},{'name':'a b','inputSchema':{'type':"
        "'object'}},{'name':'c','inputSchema':{'type':'object'}}]}}",
        "{'result':{'tools':[{'name':'c','inputSchema':{'type':'object'}},{'name':'a b','inputSchema':{'type':"
        "'object'}},{'name':'a.b','inputSchema':{'type':'object'}}]}}"};
    char first[2][128] = {"", ""}, text[512];
    for (size_t i = 0; i < 2; i++) {
        mcp_catalog_done(&catalog);
        snprintf(text, sizeof text, "%s", pages[i]);
        for (char *p = text; *p; p++)
            *p = *p == '\'' ? '"' : *p;
        add_page(text);
        mcp_catalog_close(&catalog, "s");
        assert_int_equal(catalog.n, 3);
        assert_string_equal(find("c")->alias, "s__c");
        assert_string_not_equal(find("a.b")->alias, find("a b")->alias);
        snprintf(first[i], sizeof first[i], "%s %s", find("a.b")->alias, find("a b")->alias);
    }
    assert_string_equal(first[0], first[1]);
    mcp_catalog_done(&catalog);
    add_page(json(
        "{'result':{'tools':[{'name':'"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "','inputSchema':{'type':'object'}}]}}"));
    mcp_catalog_close(&catalog, "s");
    assert_int_equal(strlen(catalog.list[0].alias), MCP_ALIAS_BYTES);
}

static void test_mcp_description_has_no_hidden_characters(void **state)
{
    (void)state;
    add_page(
        "{\"result\":{\"tools\":[{\"name\":\"x\",\"description\":\"a\\u0007b\\u202ec\\u200bd\\ne\","
        "\"inputSchema\":{\"type\":\"object\"}}]}}");
    assert_string_equal(catalog.list[0].description, "abcd\ne");
}

static void test_mcp_digest_tells_a_change(void **state)
{
    (void)state;
    uint64_t digests[3];
    static const char *const tools[] = {"'description':'a'", "'description':'b'",
                                        "'description':'a','annotations':{'readOnlyHint':true}"};
    for (size_t i = 0; i < countof(tools); i++) {
        char text[512];
        mcp_catalog_done(&catalog);
        snprintf(text, sizeof text,
                 "{'result':{'tools':[{'name':'x','inputSchema':{'type':'object'},%s}]}}",
                 tools[i]);
        for (char *p = text; *p; p++)
            *p = *p == '\'' ? '"' : *p;
        add_page(text);
        digests[i] = catalog.list[0].digest;
    }
    assert_true(digests[0] != digests[1] && digests[0] != digests[2] && digests[1] != digests[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_mcp_message_is_of_four_kinds),
        TEST(test_mcp_answer_is_ours_only_by_an_integer),
        TEST(test_mcp_junk_is_no_message),
        TEST(test_mcp_servers_say_which_versions_they_speak),
        TEST(test_mcp_request_of_each_era),
        TEST(test_mcp_handshake_and_answers),
        TEST(test_mcp_header_value_is_ascii_or_base64),
        TEST(test_mcp_text_of_a_result_is_bare),
        TEST(test_mcp_parts_that_are_no_text_are_told_with_their_type),
        TEST(test_mcp_structured_content_stands_in_for_a_missing_text),
        TEST(test_mcp_long_output_loses_its_middle),
        TEST(test_mcp_outcomes),
        TEST(test_mcp_tools_of_real_servers),
        TEST(test_mcp_schema_goes_on_as_it_is),
        TEST(test_mcp_tools_that_are_left_out),
        TEST(test_mcp_schema_has_a_limit),
        TEST(test_mcp_pages_end),
        TEST(test_mcp_aliases_are_names_and_stable),
        TEST(test_mcp_description_has_no_hidden_characters),
        TEST(test_mcp_digest_tells_a_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
