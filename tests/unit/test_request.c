#include "proto/parts.h"
#include "proto/request.h"
#include "tests/support/t.h"

#define TID "01ARZ3NDEKTSV4RRFFQ69G5FAV"
#define IDS "'task_id':'" TID "','conversation_id':'c-1'"

static struct js_doc doc;
static struct request request;
static struct request_fault fault;

static int setup(void **state)
{
    (void)state;
    doc = (struct js_doc){0};
    request = (struct request){0};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    request_done(&request);
    js_done(&doc);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static bool decode(const char *line)
{
    request_done(&request);
    memset(&fault, 0xAA, sizeof fault);
    /* A copy of its own, so that reading beyond is seen; spans must not point into it. */
    size_t n = strlen(line);
    char *copy = xalloc(n);
    memcpy(copy, line, n);
    bool ok = request_decode(&doc, (struct str){copy, n}, false, &request, &fault);
    free(copy);
    return ok;
}

static void decode_ok(const char *line)
{
    if (!decode(line))
        fail_msg("%s: %s", line, fault.message);
}

struct refusal {
    const char *line;
    enum error code;
    const char *message;
};

static void check_refusals(const struct refusal *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (decode(rows[i].line))
            fail_msg("accepted: %s", rows[i].line);
        if (fault.code != rows[i].code || strcmp(fault.message, rows[i].message) != 0)
            fail_msg("%s: %s: %s", rows[i].line, error_code(fault.code), fault.message);
        assert_false(fault.malformed);
        assert_null(request.memory);
    }
}

/* --- valid requests --------------------------------------------------------------------------- */

static void test_request_hello_fills_its_fields(void **state)
{
    (void)state;
    decode_ok(json("{'type':'hello','id':'1','token':'abc','keepalive':'data',"
                   "'client':{'name':'js','version':'1.0.0','os':5}}"));
    assert_int_equal(request.verb, VERB_HELLO);
    assert_text(request.id, "1");
    assert_text(request.token, "abc");
    assert_true(request.keepalive_data);
    decode_ok(json("{'type':'hello'}"));
    assert_null_span(request.id);
    assert_null_span(request.token);
    assert_false(request.keepalive_data);
    decode_ok(json("{'type':'hello','token':'','client':{'name':5,'version':null}}"));
    assert_text(request.token, "");
}

static void test_request_chat_fills_its_fields(void **state)
{
    (void)state;
    decode_ok(json("{'type':'chat','id':'x','message':'h\\u00e9\\n','conversation_id':'c-1',"
                   "'agent':'a','request_key':'k','background':true,'name':'n',"
                   "'description':'','notify_on_complete':true,'when_busy':'enqueue',"
                   "'metadata':{ 'a' : [1, 2.50] , 'b':{}},'unlisted':true,"
                   "'context':[ {'content':'\\u00e9','x':1,'role':'developer'},"
                   "{'role':'assistant','content':''}]}"));
    assert_int_equal(request.verb, VERB_CHAT);
    assert_text(request.message, "h\xc3\xa9\n");
    assert_text(request.conversation_id, "c-1");
    assert_text(request.agent, "a");
    assert_text(request.request_key, "k");
    assert_text(request.name, "n");
    assert_text(request.description, "");
    assert_text(request.metadata, json("{'a':[1,2.50],'b':{}}"));
    assert_text(request.context, json("[{'role':'system','content':'\xc3\xa9'},"
                                      "{'role':'assistant','content':''}]"));
    assert_true(request.unlisted);
    assert_true(request.background);
    assert_true(request.notify_on_complete);
    assert_int_equal(request.when_busy, BUSY_ENQUEUE);
    decode_ok(json("{'type':'chat','message':'\\u0000'}"));
    assert_span(request.message, "\0", 1);
    assert_null_span(request.conversation_id);
    assert_null_span(request.agent);
    assert_null_span(request.request_key);
    assert_null_span(request.name);
    assert_null_span(request.description);
    assert_null_span(request.metadata);
    assert_null_span(request.context);
    assert_false(request.unlisted);
    assert_false(request.background);
    assert_int_equal(request.when_busy, BUSY_PARALLEL);
}

static void test_request_when_busy_takes_four_words(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        enum when_busy value;
    } rows[] = {{"parallel", BUSY_PARALLEL},
                {"reject", BUSY_REJECT},
                {"enqueue", BUSY_ENQUEUE},
                {"interrupt", BUSY_INTERRUPT}};
    for (size_t i = 0; i < countof(rows); i++) {
        char line[100];
        snprintf(line, sizeof line, json("{'type':'chat','message':'m','when_busy':'%s'}"),
                 rows[i].word);
        decode_ok(line);
        assert_int_equal(request.when_busy, rows[i].value);
    }
}

static void test_request_of_a_task_fills_its_fields(void **state)
{
    (void)state;
    decode_ok(json("{'type':'resume'," IDS ",'after':9007199254740991,'coalesce':true}"));
    assert_int_equal(request.verb, VERB_RESUME);
    assert_text(request.task_id, TID);
    assert_text(request.conversation_id, "c-1");
    assert_true(request.after == 9007199254740991u);
    assert_true(request.coalesce);
    decode_ok(json("{'type':'resume'," IDS "}"));
    assert_true(request.after == 0);
    assert_false(request.coalesce);
    decode_ok(json("{'type':'unsubscribe'," IDS "}"));
    assert_int_equal(request.verb, VERB_UNSUBSCRIBE);
    decode_ok(json("{'type':'task'," IDS "}"));
    assert_int_equal(request.verb, VERB_TASK_GET);
    decode_ok(json("{'type':'cancel'," IDS ",'tree':true}"));
    assert_int_equal(request.verb, VERB_CANCEL);
    assert_true(request.tree);
    decode_ok(json("{'type':'send'," IDS ",'content':''}"));
    assert_int_equal(request.verb, VERB_SEND);
    assert_text(request.content, "");
}

static void test_request_respond_takes_a_bool_or_a_string(void **state)
{
    (void)state;
    decode_ok(json("{'type':'respond'," IDS ",'input_id':'q1','answer':true}"));
    assert_text(request.input_id, "q1");
    assert_int_equal(request.answer, ANSWER_TRUE);
    decode_ok(json("{'type':'respond'," IDS ",'input_id':'q1','answer':false}"));
    assert_int_equal(request.answer, ANSWER_FALSE);
    decode_ok(json("{'type':'respond'," IDS ",'input_id':'q1','answer':''}"));
    assert_int_equal(request.answer, ANSWER_TEXT);
    assert_text(request.answer_text, "");
}

static void test_request_of_a_conversation_fills_its_fields(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        enum verb verb;
    } bare[] = {{"cancel_all", VERB_CANCEL_ALL}, {"open", VERB_OPEN},       {"close", VERB_CLOSE},
                {"tasks", VERB_TASKS},           {"history", VERB_HISTORY}, {"delete", VERB_DELETE},
                {"results", VERB_RESULTS}};
    for (size_t i = 0; i < countof(bare); i++) {
        char line[100];
        snprintf(line, sizeof line, json("{'type':'%s','conversation_id':'c.1_A-'}"), bare[i].type);
        decode_ok(line);
        assert_int_equal(request.verb, bare[i].verb);
        assert_text(request.conversation_id, "c.1_A-");
        assert_int_equal(request.limit, 50);
        assert_null_span(request.before);
        assert_false(request.has_status);
    }
    decode_ok(json("{'type':'open','conversation_id':'c','limit':200,'follow':true}"));
    assert_int_equal(request.limit, 200);
    assert_true(request.follow);
    decode_ok(json("{'type':'tasks','conversation_id':'c','limit':1,'status':'failed',"
                   "'before':'" TID "'}"));
    assert_int_equal(request.limit, 1);
    assert_true(request.has_status);
    assert_int_equal(request.status, STATUS_FAILED);
    assert_text(request.before, TID);
    decode_ok(json("{'type':'conversations','limit':7,'before':'c-9'}"));
    assert_int_equal(request.limit, 7);
    assert_text(request.before, "c-9");
    decode_ok(json("{'type':'title','conversation_id':'c','title':'T'}"));
    assert_text(request.title, "T");
}

static void test_request_without_fields_is_accepted(void **state)
{
    (void)state;
    decode_ok(json("{'type':'ping','id':'p'}"));
    assert_int_equal(request.verb, VERB_PING);
    decode_ok(json(" { 'type' : 'w\\u0061tch' , 'extra' : [ { } ] } "));
    assert_int_equal(request.verb, VERB_WATCH);
    decode_ok(json("{'type':'conversations'}"));
    assert_int_equal(request.limit, 50);
}

static void test_request_ack_keeps_every_id(void **state)
{
    (void)state;
    decode_ok(json("{'type':'ack','conversation_id':'c','task_ids':['" TID "','','x\\ny']}"));
    assert_int_equal(request.n_task_ids, 3);
    assert_text(request.task_ids[0], TID);
    assert_text(request.task_ids[1], "");
    assert_text(request.task_ids[2], "x\ny");
    decode_ok(json("{'type':'ack','conversation_id':'c','task_ids':[]}"));
    assert_int_equal(request.n_task_ids, 0);
}

/* --- malformed lines -------------------------------------------------------------------------- */

static void test_request_malformed_line_says_what_and_counts(void **state)
{
    (void)state;
    const struct {
        const char *line, *message, *id; /* id NULL: none is echoed */
    } rows[] = {
        {"", "not JSON: unexpected end at byte 0", NULL},
        {" \t", "not JSON: unexpected end at byte 2", NULL},
        {"hello", "not JSON: unexpected character at byte 0", NULL},
        {json("{'type':'ping'"), "not JSON: unexpected end at byte 14", NULL},
        {"{\"type\":\"ping\"} x", "not JSON: unexpected text after the value at byte 16", NULL},
        {json("{'type':'\xff'}"), "not JSON: invalid UTF-8 at byte 9", NULL},
        {"[]", "not a JSON object", NULL},
        {"null", "not a JSON object", NULL},
        {json("'ping'"), "not a JSON object", NULL},
        {"{}", "\"type\" is missing", NULL},
        {json("{'id':'7'}"), "\"type\" is missing", "7"},
        {json("{'type':null,'id':'7'}"), "\"type\" must be a string", "7"},
        {json("{'id':5,'type':1}"), "\"type\" must be a string", NULL},
        {json("{'type':'ping','a':1,'a':2}"), "duplicate key \"a\" at byte 22", NULL},
        {json("{'type':'ping','a':1,'\\u0061':2,'id':'7'}"), "duplicate key \"a\" at byte 22", "7"},
        {json("{'type':'ping','id':'7','x':{'k':1,'k':2}}"), "duplicate key \"k\" at byte 36", "7"},
        {json("{'type':'ping','id':'7','id':'8'}"), "duplicate key \"id\" at byte 25", NULL},
        {json("[{'a':1,'a':2}]"), "duplicate key \"a\" at byte 9", NULL},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        if (decode(rows[i].line))
            fail_msg("accepted: %s", rows[i].line);
        if (strcmp(fault.message, rows[i].message) != 0)
            fail_msg("%s: %s", rows[i].line, fault.message);
        assert_int_equal(fault.code, ERR_BAD_REQUEST);
        assert_true(fault.malformed);
        assert_int_equal(fault.has_id, rows[i].id != NULL);
        if (rows[i].id)
            assert_string_equal(fault.id, rows[i].id);
    }
}

static void test_request_hostile_nesting_is_refused_f56(void **state)
{
    (void)state;
    char *line = xalloc(200001);
    memset(line, '[', 200000);
    line[200000] = 0;
    bool ok = decode(line);
    free(line);
    assert_false(ok);
    assert_true(fault.malformed);
    assert_string_equal(fault.message, "not JSON: nested too deeply at byte 128");

    /* In a member that nobody reads: with the object itself 128 levels are legal. */
    for (int arrays = 127; arrays <= 128; arrays++) {
        struct buf b = {0};
        buf_puts(&b, json("{'type':'ping','x':"));
        for (int i = 0; i < arrays; i++)
            buf_putc(&b, '[');
        for (int i = 0; i < arrays; i++)
            buf_putc(&b, ']');
        buf_putc(&b, '}');
        ok = decode(b.bytes);
        buf_done(&b);
        assert_int_equal(ok, arrays == 127);
    }
}

/* --- type and id ------------------------------------------------------------------------------ */

static void test_request_unknown_type_is_unsupported(void **state)
{
    (void)state;
    const struct refusal rows[] = {
        {json("{'type':'nope'}"), ERR_UNSUPPORTED, "unknown type \"nope\""},
        {json("{'type':''}"), ERR_UNSUPPORTED, json("unknown type ''")},
        {json("{'type':'Ping'}"), ERR_UNSUPPORTED, "unknown type \"Ping\""},
        {json("{'type':'ping\\u0000'}"), ERR_UNSUPPORTED, "unknown type \"ping?\""},
        {json("{'type':'a\\nb\\'c\\u009b\\ud800'}"), ERR_UNSUPPORTED, "unknown type \"a?b?c??\""},
        {json("{'type':'0123456789012345678901234567890123456789012345678901234567890'}"),
         ERR_UNSUPPORTED, "unknown type \"01234567890123456789012345678901234567890123...\""},
        {json("{'type':'0123456789012345678901234567890123456789012\xf0\x9f\x98\x80'}"),
         ERR_UNSUPPORTED, "unknown type \"0123456789012345678901234567890123456789012...\""},
    };
    check_refusals(rows, countof(rows));
}

static void test_request_bad_id_is_named_and_not_echoed(void **state)
{
    (void)state;
    static const char message[] = "\"id\" must be a string of 1 to 64 bytes";
    const struct refusal rows[] = {
        {json("{'type':'ping','id':''}"), ERR_BAD_REQUEST, message},
        {json("{'type':'ping','id':7}"), ERR_BAD_REQUEST, message},
        {json("{'type':'ping','id':null}"), ERR_BAD_REQUEST, message},
        {json("{'type':'ping','id':['a']}"), ERR_BAD_REQUEST, message},
        {json("{'type':'ping','id':9007199254740993}"), ERR_BAD_REQUEST, message}, /* F58 */
        {json("{'type':'nope','id':7}"), ERR_BAD_REQUEST, message},
        {json("{'type':'ping','id':"
              "'12345678901234567890123456789012345678901234567890123456789012345'}"),
         ERR_BAD_REQUEST, message},
        {json("{'type':'ping','id':"
              "'123456789012345678901234567890123456789012345678901234567890123\\u00e9'}"),
         ERR_BAD_REQUEST, message},
    };
    check_refusals(rows, countof(rows));
    assert_false(fault.has_id);
}

static void test_request_id_of_64_bytes_is_echoed(void **state)
{
    (void)state;
    struct buf line = {0};
    buf_puts(&line, json("{'type':'ping','id':'"));
    for (int i = 0; i < 64; i++)
        buf_puts(&line, "\\u0041"); /* as long as an id's text can be */
    buf_puts(&line, json("'}"));
    bool ok = decode(line.bytes);
    buf_done(&line);
    assert_true(ok);
    assert_int_equal(request.id.n, 64);
    assert_int_equal(request.id.p[63], 'A');
    decode_ok(json("{'type':'ping','id':'a\\u0000\\'b'}"));
    assert_span(request.id, "a\0\"b", 4);
}

static void test_request_good_id_is_echoed_with_any_fault(void **state)
{
    (void)state;
    const char *const lines[] = {
        json("{'type':'nope','id':'i\\u00e9'}"),
        json("{'id':'i\\u00e9','type':'chat'}"),
        json("{'type':'chat','message':5,'id':'i\\u00e9'}"),
        json("{'type':'resume','after':-1,'id':'i\\u00e9'}"),
        json("{'type':'resume','id':'i\\u00e9'}"),
        json("{'type':'ping','big':18446744073709551616,'id':'i\\u00e9'}"),
        json("{'id':'i\\u00e9'}"),
    };
    for (size_t i = 0; i < countof(lines); i++) {
        assert_false(decode(lines[i]));
        assert_true(fault.has_id);
        assert_span(((struct str){fault.id, fault.id_len}), "i\xc3\xa9", 3);
        assert_int_equal(fault.id[fault.id_len], 0);
    }
}

/* --- fields ----------------------------------------------------------------------------------- */

#define CHAT(rest) "{'type':'chat','message':'m'," rest "}"
#define AFTER(value) "{'type':'resume'," IDS ",'after':" value "}"
#define OPEN(rest) "{'type':'open','conversation_id':'c'," rest "}"
#define CONTEXT_RULE                                                                 \
    "'context' must be an array of at most 262144 bytes of messages: role (system, " \
    "developer, user, assistant) and content, a string"
#define CID_RULE                                                                  \
    "\"conversation_id\" must be a string of 1 to 128 letters, digits, '.', '_' " \
    "and '-', the first a letter or digit"

static void test_request_faulty_field_of_chat_is_named(void **state)
{
    (void)state;
    const struct refusal rows[] = {
        {json("{'type':'chat'}"), ERR_BAD_REQUEST, "\"message\" is missing: it " PARTS_EXPECTED},
        {json("{'type':'chat','message':''}"), ERR_BAD_REQUEST, "\"message\" " PARTS_EXPECTED},
        {json("{'type':'chat','message':null}"), ERR_BAD_REQUEST, "\"message\" " PARTS_EXPECTED},
        {json("{'type':'chat','message':['m']}"), ERR_BAD_REQUEST, "\"message\" " PARTS_EXPECTED},
        {json(CHAT("'conversation_id':''")), ERR_BAD_REQUEST, CID_RULE},
        {json(CHAT("'conversation_id':null")), ERR_BAD_REQUEST, CID_RULE},
        {json(CHAT("'conversation_id':'-c'")), ERR_BAD_REQUEST, CID_RULE},
        {json(CHAT("'conversation_id':'a/b'")), ERR_BAD_REQUEST, CID_RULE},
        {json(CHAT("'conversation_id':'a\\u0000'")), ERR_BAD_REQUEST, CID_RULE},
        {json(CHAT("'conversation_id':'\xc3\xa9'")), ERR_BAD_REQUEST, CID_RULE},
        {json(CHAT("'agent':''")), ERR_BAD_REQUEST, "\"agent\" must be a string of 1 to 128 bytes"},
        {json(CHAT("'request_key':7")), ERR_BAD_REQUEST,
         "\"request_key\" must be a string of 1 to 128 bytes"},
        {json(CHAT("'background':1")), ERR_BAD_REQUEST, "\"background\" must be true or false"},
        {json(CHAT("'background':null")), ERR_BAD_REQUEST, "\"background\" must be true or false"},
        {json(CHAT("'notify_on_complete':'true'")), ERR_BAD_REQUEST,
         "\"notify_on_complete\" must be true or false"},
        {json(CHAT("'name':''")), ERR_BAD_REQUEST,
         "\"name\" must be a string of 1 to 128 bytes, not one of parent, self, all, broadcast"},
        {json(CHAT("'name':'self'")), ERR_BAD_REQUEST,
         "\"name\" must be a string of 1 to 128 bytes, not one of parent, self, all, broadcast"},
        {json(CHAT("'name':'p\\u0061rent'")), ERR_BAD_REQUEST,
         "\"name\" must be a string of 1 to 128 bytes, not one of parent, self, all, broadcast"},
        {json(CHAT("'description':null")), ERR_BAD_REQUEST,
         "\"description\" must be a string of at most 1024 bytes"},
        {json(CHAT("'when_busy':'wait'")), ERR_BAD_REQUEST,
         "\"when_busy\" must be one of parallel, reject, enqueue, interrupt"},
        {json(CHAT("'when_busy':null")), ERR_BAD_REQUEST,
         "\"when_busy\" must be one of parallel, reject, enqueue, interrupt"},
        {json(CHAT("'metadata':[]")), ERR_BAD_REQUEST,
         "\"metadata\" must be an object of at most 16384 bytes"},
        {json(CHAT("'metadata':null")), ERR_BAD_REQUEST,
         "\"metadata\" must be an object of at most 16384 bytes"},
        {json(CHAT("'context':{}")), ERR_BAD_REQUEST, json(CONTEXT_RULE)},
        {json(CHAT("'context':[[]]")), ERR_BAD_REQUEST, json(CONTEXT_RULE)},
        {json(CHAT("'context':[{'role':'user'}]")), ERR_BAD_REQUEST, json(CONTEXT_RULE)},
        {json(CHAT("'context':[{'role':'tool','content':''}]")), ERR_BAD_REQUEST,
         json(CONTEXT_RULE)},
        {json(CHAT("'context':[{'role':'user','content':[]}]")), ERR_BAD_REQUEST,
         json(CONTEXT_RULE)},
        {json(CHAT("'unlisted':0")), ERR_BAD_REQUEST, "\"unlisted\" must be true or false"},
    };
    check_refusals(rows, countof(rows));
    assert_false(decode(json(CHAT("'name':'all'"))));
    assert_false(decode(json(CHAT("'name':'broadcast'"))));
    decode_ok(json(CHAT("'name':'Self'")));
}

#define PLACED "{'type':'chat','conversation_id':'c-1',"

static void test_request_chat_has_one_place(void **state)
{
    (void)state;
    decode_ok(json(PLACED "'message':'x','reply_to':'" TID "'}"));
    assert_true(str_eq(request.reply_to, STR(TID)));
    decode_ok(json(PLACED "'message':'x','edit':'" TID "'}"));
    assert_true(str_eq(request.edit, STR(TID)));
    decode_ok(json(PLACED "'regenerate':'" TID "'}"));
    assert_true(str_eq(request.regenerate, STR(TID)));
    assert_null(request.message.p);
    decode_ok(json(PLACED "'message':'x','begin':true}"));
    assert_true(request.begin);
    decode_ok(json("{'type':'branch','conversation_id':'c-1','message_id':'" TID "'}"));
    assert_true(str_eq(request.message_id, STR(TID)));
    const struct refusal rows[] = {
        {json(PLACED "'message':'x','edit':'m1'}"), ERR_BAD_REQUEST,
         json("'edit' must be an id of 26 characters from the gateway")},
        {json(PLACED "'message':'x','edit':null}"), ERR_BAD_REQUEST,
         json("'edit' must be an id of 26 characters from the gateway")},
        {json(PLACED "'edit':'" TID "'}"), ERR_BAD_REQUEST,
         json("'message' is missing: it must be a string of 1 byte or more, or an array of 1 to 64 "
              "parts: texts, and files with 'file_id', or with 'media_type' and 'data' (base64)")},
        {json(PLACED "'message':'x','reply_to':'" TID "','edit':'" TID "'}"), ERR_BAD_REQUEST,
         json("'edit' cannot be given together with 'reply_to'")},
        {json(PLACED "'message':'x','begin':true,'edit':'" TID "'}"), ERR_BAD_REQUEST,
         json("'begin' cannot be given together with 'edit'")},
        {json(PLACED "'message':'x','regenerate':'" TID "'}"), ERR_BAD_REQUEST,
         json("'message' cannot be given together with 'regenerate'")},
        {json(PLACED "'message':'x','edit':'" TID "','background':true}"), ERR_BAD_REQUEST,
         json("'background' cannot be given together with 'edit'")},
        {json("{'type':'chat','regenerate':'" TID "'}"), ERR_BAD_REQUEST,
         json("'conversation_id' is missing: 'regenerate' needs it")},
        {json("{'type':'branch','conversation_id':'c-1'}"), ERR_BAD_REQUEST,
         json("'message_id' is missing: it must be an id of 26 characters from the gateway")},
    };
    check_refusals(rows, countof(rows));
}

static void test_request_after_is_exact_or_refused_f58(void **state)
{
    (void)state;
    static const char message[] = "\"after\" must be an integer from 0 to 9007199254740991";
    const struct refusal rows[] = {
        {json(AFTER("1e3")), ERR_BAD_REQUEST, message},
        {json(AFTER("1.0")), ERR_BAD_REQUEST, message},
        {json(AFTER("-0")), ERR_BAD_REQUEST, message},
        {json(AFTER("-1")), ERR_BAD_REQUEST, message},
        {json(AFTER("9007199254740992")), ERR_BAD_REQUEST, message},
        {json(AFTER("9223372036854775807")), ERR_BAD_REQUEST, message},
        {json(AFTER("9223372036854775808")), ERR_BAD_REQUEST, message},
        {json(AFTER("18446744073709551616")), ERR_BAD_REQUEST, message},
        {json(AFTER("1e400")), ERR_BAD_REQUEST, message},
        {json(AFTER("null")), ERR_BAD_REQUEST, message},
        {json(AFTER("'5'")), ERR_BAD_REQUEST, message},
        {json(AFTER("true")), ERR_BAD_REQUEST, message},
        {json(AFTER("[5]")), ERR_BAD_REQUEST, message},
        {json(AFTER("1,'coalesce':'yes'")), ERR_BAD_REQUEST, "\"coalesce\" must be true or false"},
    };
    check_refusals(rows, countof(rows));
    decode_ok(json(AFTER("9007199254740990")));
    assert_true(request.after == 9007199254740990u);
}

static void test_request_unsafe_integer_anywhere_is_named_f58(void **state)
{
    (void)state;
    const struct refusal rows[] = {
        {json("{'type':'ping','x':9007199254740992}"), ERR_BAD_REQUEST,
         "\"x\" has an integer beyond 9007199254740991, the largest safe one"},
        {json("{'type':'ping','x':[{'y':-9007199254740992}]}"), ERR_BAD_REQUEST,
         "\"x\" has an integer beyond 9007199254740991, the largest safe one"},
        {json(CHAT("'metadata':{'n':18446744073709551616}")), ERR_BAD_REQUEST,
         "\"metadata\" has an integer beyond 9007199254740991, the largest safe one"},
        {json("{'type':'task','task_id':'x','x':9007199254740992}"), ERR_BAD_REQUEST,
         "\"x\" has an integer beyond 9007199254740991, the largest safe one"},
    };
    check_refusals(rows, countof(rows));
    decode_ok(json("{'type':'ping','x':[9007199254740991,-9007199254740991,1.5,1e30]}"));
}

static void test_request_faulty_field_of_lists_is_named(void **state)
{
    (void)state;
    static const char limit[] = "\"limit\" must be an integer from 1 to 200";
    static const char before[] = "\"before\" must be an id of 26 characters from the gateway";
    const struct refusal rows[] = {
        {json("{'type':'open'}"), ERR_BAD_REQUEST,
         "\"conversation_id\" is missing: it must be a string of 1 to 128 letters, digits, '.', '_' "
         "and '-', the first a letter or digit"},
        {json("{'type':'delete','conversation_id':7}"), ERR_BAD_REQUEST, CID_RULE},
        {json("{'type':'cancel_all','conversation_id':''}"), ERR_BAD_REQUEST, CID_RULE},
        {json("{'type':'close','conversation_id':'.'}"), ERR_BAD_REQUEST, CID_RULE},
        {json(OPEN("'limit':0")), ERR_BAD_REQUEST, limit},
        {json(OPEN("'limit':201")), ERR_BAD_REQUEST, limit},
        {json(OPEN("'limit':-1")), ERR_BAD_REQUEST, limit},
        {json(OPEN("'limit':4294967297")), ERR_BAD_REQUEST, limit},
        {json(OPEN("'limit':1.0")), ERR_BAD_REQUEST, limit},
        {json(OPEN("'limit':null")), ERR_BAD_REQUEST, limit},
        {json(OPEN("'limit':'5'")), ERR_BAD_REQUEST, limit},
        {json(OPEN("'follow':0")), ERR_BAD_REQUEST, "\"follow\" must be true or false"},
        {json("{'type':'tasks','conversation_id':'c','status':'done'}"), ERR_BAD_REQUEST,
         "\"status\" must be one of pending, running, completed, failed, cancelled"},
        {json("{'type':'tasks','conversation_id':'c','status':null}"), ERR_BAD_REQUEST,
         "\"status\" must be one of pending, running, completed, failed, cancelled"},
        {json("{'type':'tasks','conversation_id':'c','before':'x'}"), ERR_BAD_REQUEST, before},
        {json("{'type':'history','conversation_id':'c','before':5}"), ERR_BAD_REQUEST, before},
        {json("{'type':'results','conversation_id':'c','before':''}"), ERR_BAD_REQUEST, before},
        {json("{'type':'conversations','before':'/'}"), ERR_BAD_REQUEST,
         "\"before\" must be a string of 1 to 128 letters, digits, '.', '_' and '-', the first a "
         "letter or digit"},
        {json("{'type':'title','conversation_id':'c'}"), ERR_BAD_REQUEST,
         "\"title\" is missing: it must be a string of 1 to 512 bytes"},
        {json("{'type':'title','conversation_id':'c','title':''}"), ERR_BAD_REQUEST,
         "\"title\" must be a string of 1 to 512 bytes"},
        {json("{'type':'ack','conversation_id':'c'}"), ERR_BAD_REQUEST,
         "\"task_ids\" is missing: it must be an array of at most 1000 strings"},
        {json("{'type':'ack','conversation_id':'c','task_ids':'x'}"), ERR_BAD_REQUEST,
         "\"task_ids\" must be an array of at most 1000 strings"},
        {json("{'type':'ack','conversation_id':'c','task_ids':['x',5]}"), ERR_BAD_REQUEST,
         "\"task_ids\" must be an array of at most 1000 strings"},
        {json("{'type':'hello','token':5}"), ERR_BAD_REQUEST, "\"token\" must be a string"},
        {json("{'type':'hello','client':'x'}"), ERR_BAD_REQUEST, "\"client\" must be an object"},
        {json("{'type':'hello','keepalive':'ping'}"), ERR_BAD_REQUEST,
         "\"keepalive\" must be \"data\" when given"},
    };
    check_refusals(rows, countof(rows));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_request_hello_fills_its_fields),
        TEST(test_request_chat_fills_its_fields),
        TEST(test_request_when_busy_takes_four_words),
        TEST(test_request_of_a_task_fills_its_fields),
        TEST(test_request_respond_takes_a_bool_or_a_string),
        TEST(test_request_of_a_conversation_fills_its_fields),
        TEST(test_request_without_fields_is_accepted),
        TEST(test_request_ack_keeps_every_id),
        TEST(test_request_malformed_line_says_what_and_counts),
        TEST(test_request_hostile_nesting_is_refused_f56),
        TEST(test_request_unknown_type_is_unsupported),
        TEST(test_request_bad_id_is_named_and_not_echoed),
        TEST(test_request_id_of_64_bytes_is_echoed),
        TEST(test_request_good_id_is_echoed_with_any_fault),
        TEST(test_request_faulty_field_of_chat_is_named),
        TEST(test_request_chat_has_one_place),
        TEST(test_request_after_is_exact_or_refused_f58),
        TEST(test_request_unsafe_integer_anywhere_is_named_f58),
        TEST(test_request_faulty_field_of_lists_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
