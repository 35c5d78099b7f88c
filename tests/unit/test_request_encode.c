/* A request that another node carries out is the request that came: encoded and decoded again, no
 * member has changed. */
#include "tests/support/request_kit.h"

#define TID "01ARZ3NDEKTSV4RRFFQ69G5FAV"
#define IDS "'task_id':'" TID "','conversation_id':'c-1'"

static void check_same(const struct request *a, const struct request *b)
{
    struct request x = *a, y = *b;
    struct str *const spans[][2] = {
#define SPAN(name) {&x.name, &y.name}
        SPAN(id),          SPAN(task_id),    SPAN(conversation_id),
        SPAN(token),       SPAN(message),    SPAN(agent),
        SPAN(request_key), SPAN(name),       SPAN(description),
        SPAN(parts),       SPAN(metadata),   SPAN(budget),
        SPAN(context),     SPAN(reply_to),   SPAN(edit),
        SPAN(regenerate),  SPAN(message_id), SPAN(webhook),
        SPAN(webhook_id),  SPAN(content),    SPAN(input_id),
        SPAN(answer_text), SPAN(title),      SPAN(before),
        SPAN(share_id),    SPAN(member),     SPAN(query),
        SPAN(schedule_id), SPAN(chat),       SPAN(cron),
        SPAN(time_zone),   SPAN(to),         SPAN(from),
        SPAN(lines)
#undef SPAN
    };
    for (size_t i = 0; i < countof(spans); i++) {
        assert_true(str_eq(*spans[i][0], *spans[i][1]));
        assert_int_equal(spans[i][0]->p != NULL, spans[i][1]->p != NULL);
        *spans[i][0] = *spans[i][1] = STR_NULL;
    }
    assert_int_equal(x.n_task_ids, y.n_task_ids);
    for (size_t i = 0; i < x.n_task_ids; i++)
        assert_true(str_eq(x.task_ids[i], y.task_ids[i]));
    x.task_ids = y.task_ids = NULL;
    x.memory = y.memory = NULL;
    assert_memory_equal(&x, &y, sizeof x); /* all other members are numbers */
}

static const char *const lines[] = {
    "{'type':'ping','id':'p'}",
    "{'type':'chat','message':'hello'}",
    "{'type':'chat','id':'a\\n\\u0001','message':'\\\"\\u00e4\\ud83d\\ude00','conversation_id':'c-1',"
    "'agent':'x','request_key':'k','background':true,'name':'n','description':'',"
    "'notify_on_complete':true,'when_busy':'enqueue','metadata':{'a':[1,2.50,null]},"
    "'budget':{'tokens':5},'context':[{'role':'developer','content':'be brief'}],'unlisted':true,"
    "'webhook':{'url':'https://a.example/x','webhook_id':'w','headers':{'X-A':'b'},'form':'a2a'}}",
    "{'type':'chat','message':[{'type':'text','text':'a'},"
    "{'type':'file','media_type':'image/png','name':'p','data':'AAAA'}]}",
    "{'type':'chat','message':[{'type':'text','text':'one'},{'type':'text','text':'two'}],"
    "'conversation_id':'c-1','edit':'" TID "','when_busy':'interrupt'}",
    "{'type':'chat','conversation_id':'c-1','regenerate':'" TID "'}",
    "{'type':'chat','message':'m','conversation_id':'c-1','reply_to':'" TID
    "','when_busy':'reject'}",
    "{'type':'branch','conversation_id':'c-1','message_id':'" TID "'}",
    "{'type':'resume'," IDS ",'after':12,'coalesce':true,'rollup_ms':250}",
    "{'type':'resume'," IDS "}",
    "{'type':'unsubscribe'," IDS "}",
    "{'type':'cancel'," IDS ",'tree':true}",
    "{'type':'cancel_all','conversation_id':'c-1'}",
    "{'type':'send'," IDS ",'content':'more'}",
    "{'type':'respond'," IDS ",'input_id':'q','answer':true}",
    "{'type':'respond'," IDS ",'input_id':'q','answer':false}",
    "{'type':'respond'," IDS ",'input_id':'q','answer':''}",
    "{'type':'webhook'," IDS ",'webhook':{'url':'http://a.example'}}",
    "{'type':'webhooks'," IDS "}",
    "{'type':'webhook_delete'," IDS ",'webhook_id':'w'}",
    "{'type':'open','conversation_id':'c-1','limit':3,'follow':true}",
    "{'type':'close','conversation_id':'c-1'}",
    "{'type':'watch'}",
    "{'type':'task'," IDS "}",
    "{'type':'tasks','conversation_id':'c-1','status':'pending','turns':true,'before':'" TID "'}",
    "{'type':'tasks','conversation_id':'c-1','status':'cancelled','limit':200}",
    "{'type':'history','conversation_id':'c-1','all':true}",
    "{'type':'conversations','before':'c-0'}",
    "{'type':'title','conversation_id':'c-1','title':'t'}",
    "{'type':'delete','conversation_id':'c-1'}",
    "{'type':'results','conversation_id':'c-1','before':'" TID "'}",
    "{'type':'ack','conversation_id':'c-1','task_ids':['" TID "','x','']}",
    "{'type':'ack','conversation_id':'c-1','task_ids':[]}",
    "{'type':'schedule','chat':{'message':'m'},'conversation_id':'c-1','not_before':5,"
    "'cron':'* * * * *','time_zone':'Europe/Berlin','every_s':3600,'catch_up':false,'paused':true}",
    "{'type':'schedule','chat':{'message':'m'}}",
    "{'type':'schedules','limit':5}",
    "{'type':'reschedule','schedule_id':'s','paused':false}",
    "{'type':'unschedule','schedule_id':'s'}",
    "{'type':'share','conversation_id':'c-1','task_id':'" TID
    "','rights':['read','ask'],'actor':'a','expires_at':5}",
    "{'type':'share','conversation_id':'c-1'}",
    "{'type':'shares'}",
    "{'type':'unshare','share_id':'s'}",
    "{'type':'pin','conversation_id':'c-1','pinned':false}",
    "{'type':'archive','conversation_id':'c-1','archived':true}",
    "{'type':'conversations','pinned':true}",
    "{'type':'search','query':'q'}",
    "{'type':'fork','conversation_id':'c','message_id':'01HF7YAT00000000000000000A','to':'d','title':'t'}",
    "{'type':'export','conversation_id':'c','from':'t.x.1'}",
    "{'type':'import','conversation_id':'c','title':'t','lines':[{'type':'x','n':[1.50]},{}]}",
    "{'type':'handover'}",
};

static void test_every_verb(void **state)
{
    bool seen[N_VERBS] = {[VERB_HELLO] = true};
    (void)state;
    for (size_t i = 0; i < countof(lines); i++) {
        struct request again;
        struct buf encoded = {0};
        request_done(&request);
        if (!request_decode(&doc, str_of(t_json(lines[i])), false, &request, &fault))
            fail_msg("%s: %s", lines[i], fault.message);
        seen[request.verb] = true;
        request_encode(&request, &encoded);
        if (!request_decode(&doc, buf_str(&encoded), false, &again, &fault))
            fail_msg("%s: %s", encoded.bytes, fault.message);
        check_same(&request, &again);
        request_done(&again);
        buf_done(&encoded);
    }
    for (int v = 0; v < N_VERBS; v++)
        if (!seen[v])
            fail_msg("no line of %s", verb_name((enum verb)v));
}

/* The ids that HTTP takes from the path are in the line. */
static void test_ids_of_a_path(void **state)
{
    struct request again;
    struct buf encoded = {0};
    (void)state;
    assert_true(
        request_from_body(&doc, VERB_CANCEL, STR("c-1"), STR(TID), STR(""), &request, &fault));
    request_encode(&request, &encoded);
    assert_true(request_decode(&doc, buf_str(&encoded), false, &again, &fault));
    check_same(&request, &again);
    request_done(&again);
    buf_done(&encoded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_every_verb), TEST(test_ids_of_a_path)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
