/* The domain as its clients see it: sessions in front, agents behind, a store that is stepped by
 * hand.  Each promise of the design has its tests here. */
#include "tests/support/hub_kit.h"

static int setup(void **state)
{
    *state = kit_new();
    return 0;
}

static int teardown(void **state)
{
    kit_free_all(*state);
    return 0;
}

static void test_hub_chat_streams_from_seq_1_to_the_end(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_expect(c, json("'welcome'"));
    client_say(c, json("{'type':'chat','id':'1','conversation_id':'c-1','message':'hi'}"));
    client_expect(c, json("{'type':'started','id':'1','task':{'task_id':'"));
    client_expect(
        c,
        json(
            "'seq':1,'ts':1764280000000,'event':'task.created','data':{'agent':'first','input':'hi'}}"));
    client_expect(c, json("'seq':2,'ts':1764280000000,'event':'task.started'"));
    struct run *r = kit_run(k, 0);
    run_say(k, r, json("{'event':'token','data':{'text':'Hel'}}"));
    run_say(k, r, json("{'event':'token','data':{'text':'lo'}}"));
    run_end(k, r, RUN_DONE, "");
    client_expect(c, json("'seq':3,"));
    client_expect(c, json("'seq':4,"));
    client_expect(
        c, json("'seq':5,'ts':1764280000000,'event':'final_answer','data':{'output':'Hello'}}"));
    client_expect(
        c,
        json(
            "'seq':6,'ts':1764280000000,'event':'task.completed','data':{'output':'Hello','result':null}}"));
    client_expect_nothing(c);
    client_say(c, json("{'type':'history','conversation_id':'c-1'}"));
    const char *line = client_line(c);
    assert_non_null(strstr(line, json("'role':'user','content':'hi'")));
    assert_non_null(strstr(line, json("'role':'assistant','content':'Hello'")));
    client_free(c);
}

/* Promise 2: while the commit has not answered, nobody sees anything of it. */
static void test_hub_nothing_is_seen_before_its_commit(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_expect(c, json("'welcome'"));
    session_receive(&c->session,
                    str_of(json("{'type':'chat','conversation_id':'c','message':'hi'}")));
    for (int i = 0; i < 5; i++)
        kit_turn(k);
    client_expect_nothing(c);
    assert_int_equal(k->n_runs, 0);
    kit_settle(k);
    client_await(c, "task.started");
    struct run *r = kit_run(k, 0);
    r->events->on_line(r->task, str_of(json("{'event':'token','data':{'text':'x'}}")));
    for (int i = 0; i < 5; i++)
        kit_turn(k);
    client_expect_nothing(c);
    store_inline_apply(k->inline_store); /* on disk, but nobody has been told */
    kit_turn(k);
    client_expect_nothing(c);
    kit_settle(k);
    client_expect(c, json("'seq':3,"));
    run_end(k, r, RUN_DONE, "");
    client_free(c);
}

/* F03: an event that is committed between any two steps of a resume comes exactly once. */
static void test_hub_resume_barrier_no_event_slips_between_replay_and_live(void **state)
{
    struct kit *k = *state;
    struct client *a = client_new(k, "ann");
    const char *task = client_start(a, "c", "hi");
    struct run *r = kit_run(k, 0);
    for (int i = 0; i < 48; i++)
        run_say(k, r, json("{'event':'token','data':{'text':'x'}}"));
    for (int barrier = 0; barrier < 12; barrier++) {
        struct client *b = client_new(k, "ann");
        client_expect(b, json("'welcome'"));
        uint64_t head = 50 + (uint64_t)barrier;
        char line[256];
        snprintf(line, sizeof line,
                 json("{'type':'resume','task_id':'%s','conversation_id':'c','after':%llu}"), task,
                 (unsigned long long)head - 3);
        /* The event is emitted, submitted or committed at each of the steps in turn. */
        if (barrier % 4 == 0)
            r->events->on_line(r->task, str_of(json("{'event':'token','data':{'text':'y'}}")));
        session_receive(&b->session, str_of(line));
        if (barrier % 4 == 1)
            r->events->on_line(r->task, str_of(json("{'event':'token','data':{'text':'y'}}")));
        hub_submit(&k->hub, false);
        if (barrier % 4 == 2)
            r->events->on_line(r->task, str_of(json("{'event':'token','data':{'text':'y'}}")));
        store_inline_step(k->inline_store);
        if (barrier % 4 == 3)
            r->events->on_line(r->task, str_of(json("{'event':'token','data':{'text':'y'}}")));
        kit_settle(k);
        client_expect(b, json("'resumed'"));
        bool marked = false;
        for (uint64_t seq = head - 2; seq <= head + 1;) {
            const char *got = client_line(b);
            if (strstr(got, "caught_up")) {
                assert_false(marked);
                marked = true;
                continue;
            }
            snprintf(line, sizeof line, json("'seq':%llu,"), (unsigned long long)seq);
            assert_non_null(strstr(got, line));
            seq++;
        }
        if (!marked)
            client_expect(b, "caught_up");
        client_expect_nothing(b);
        client_free(b);
    }
    run_end(k, r, RUN_DONE, "");
    client_free(a);
}

/* Promise 5: one answer, to the byte, for every verb about a task. */
static void test_hub_foreign_and_missing_get_the_same_bytes(void **state)
{
    struct kit *k = *state;
    struct client *ann = client_new(k, "ann"), *bob = client_new(k, "bob");
    const char *task = client_start(ann, "c", "hi");
    const char *const verbs[][2] = {
        {"resume", ""},
        {"unsubscribe", ""},
        {"cancel", ""},
        {"task", ""},
        {"send", json(",'content':'x'")},
        {"respond", json(",'input_id':'q1','answer':'x'")},
    };
    client_await(bob, "welcome");
    for (int ended = 0; ended < 2; ended++) {
        for (size_t i = 0; i < countof(verbs); i++) {
            static const char *const ids[][2] = {
                {"c", NULL}, {"other", NULL}, {"c", "01ARZ3NDEKTSV4RRFFQ69G5FAV"},
                {"c", ""},   {"", NULL},      {"c", "../../x"}};
            for (size_t m = 0; m < countof(ids); m++) {
                client_ask(bob, verbs[i][0], ids[m][0], ids[m][1] ? ids[m][1] : task, verbs[i][1]);
                assert_string_equal(client_line(bob),
                                    json("{'type':'error','id':'q','code':'not_found',"
                                         "'message':'no such task'}"));
            }
        }
        if (!ended)
            run_end(k, kit_run(k, 0), RUN_DONE, "");
    }
    client_await(ann, "task.completed");
    client_free(ann);
    client_free(bob);
}

/* Promise 6, also while the first is still on its way. */
static void test_hub_repeated_key_starts_nothing(void **state)
{
    struct kit *k = *state;
    struct client *a = client_new(k, "ann"), *b = client_new(k, "ann");
    const char *chat =
        json("{'type':'chat','conversation_id':'c','message':'hi','request_key':'k'}");
    session_receive(&a->session, str_of(chat));
    session_receive(&b->session, str_of(chat));
    kit_settle(k);
    const char *first = line_field(client_await(a, "started"), "task_id");
    const char *again = client_await(b, "started");
    assert_string_equal(line_field(again, "task_id"), first);
    assert_non_null(strstr(again, json("'repeated':true")));
    assert_int_equal(k->n_runs, 1);
    client_say(a,
               json("{'type':'chat','conversation_id':'c','message':'other','request_key':'k'}"));
    client_await(a, json("'code':'conflict'"));
    struct client *other = client_new(k, "bob"); /* another owner's key is another key */
    client_say(other, chat);
    assert_string_not_equal(line_field(client_await(other, "started"), "task_id"), first);
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    client_say(a, chat);
    assert_string_equal(line_field(client_await(a, json("'repeated':true")), "task_id"), first);
    client_free(a);
    client_free(b);
    client_free(other);
}

/* F15, F16: whatever the agent does after the ok, the task ends as cancelled, once. */
static void test_hub_cancel_ends_as_cancelled_whatever_the_agent_says(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    for (int variant = 0; variant < 3; variant++) {
        const char *task = client_start(c, "c", "hi");
        struct run *r = kit_run(k, k->n_runs - 1);
        run_say(k, r, json("{'event':'token','data':{'text':'part'}}"));
        client_ask(c, "cancel", "c", task, "");
        client_await(c, json("{'type':'ok','id':'q','cancelled':1,"));
        assert_int_equal(r->cancels, 1);
        client_ask(c, "cancel", "c", task, "");
        client_await(c, json("'cancelled':0,'task_ids':[]"));
        run_say(k, r, json("{'event':'token','data':{'text':' more'}}"));
        if (variant == 0)
            run_end(k, r, RUN_DONE, "");
        if (variant == 1)
            run_end(k, r, RUN_FAILED, "exit status 3");
        if (variant == 2) { /* it does neither: the grace, the force, and then the end without it */
            kit_pass(k, 5000);
            assert_int_equal(r->kills, 1);
            kit_pass(k, 2000);
        }
        const char *end = client_await(c, "task.failed");
        assert_non_null(strstr(end, json("'status':'cancelled'")));
        assert_non_null(strstr(end, json("'code':'cancelled'")));
        assert_non_null(strstr(end, json("'output':'part more'")));
        assert_non_null(strstr(end, json("'cancel':{'requested_at':")));
        client_expect_nothing(c);
        assert_true(r->freed);
    }
    client_say(c, json("{'type':'history','conversation_id':'c'}"));
    assert_non_null(strstr(client_line(c), json("'content':'part more','task_id'")));
    client_free(c);
}

static void on_ready(void *arg, int status)
{
    assert_int_equal(status, 0);
    *(bool *)arg = true;
}

/* Promise 3 over a restart: what ran is orphaned, what waited starts, what was cancelled is. */
static void test_hub_restart_repairs_before_anything_new(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    char ran[32], asked[32], waits[32];
    snprintf(ran, sizeof ran, "%s", client_start(c, "c", "ran"));
    run_say(k, kit_run(k, 0), json("{'event':'token','data':{'text':'half'}}"));
    snprintf(asked, sizeof asked, "%s", client_start(c, "c", "asked"));
    client_say(
        c, json("{'type':'chat','conversation_id':'c','message':'waits','when_busy':'enqueue'}"));
    snprintf(waits, sizeof waits, "%s", line_field(client_await(c, json("'started'")), "task_id"));
    client_ask(c, "cancel", "c", asked, "");
    client_await(c, json("'cancelled':1"));
    client_free(c);
    kit_close_hub(k); /* as a crash would */
    kit_open_hub(k);
    bool done = false;
    hub_restore(&k->hub, on_ready, &done);
    kit_settle(k);
    assert_true(done);
    c = client_new(k, "ann");
    client_ask(c, "resume", "c", ran, "");
    const char *end = client_await(c, "task.failed");
    assert_non_null(strstr(end, json("'seq':4,")));
    assert_non_null(strstr(end, json("'code':'orphaned'")));
    assert_non_null(strstr(end, json("'output':'half'")));
    client_ask(c, "resume", "c", asked, "");
    assert_non_null(strstr(client_await(c, "task.failed"), json("'status':'cancelled'")));
    client_ask(c, "task", "c", waits, "");
    client_await(c, json("'status':'running'"));
    assert_string_equal(kit_run(k, k->n_runs - 1)->input, "waits");
    run_end(k, kit_run(k, k->n_runs - 1), RUN_DONE, "");
    client_free(c);
}

static void test_hub_coalesced_replay_has_the_same_text(void **state)
{
    struct kit *k = *state;
    struct client *a = client_new(k, "ann"), *b = client_new(k, "ann");
    const char *task = client_start(a, "c", "hi");
    struct run *r = kit_run(k, 0);
    for (int i = 0; i < 300; i++)
        run_say(k, r, json("{'event':'token','data':{'text':'word'}}"));
    client_await(b, "welcome");
    client_ask(b, "resume", "c", task, json(",'after':2,'coalesce':true"));
    client_expect(b, json("'resumed'"));
    size_t words = 0, lines = 0;
    uint64_t last = 2;
    for (const char *got = client_line(b); !strstr(got, "caught_up"); got = client_line(b)) {
        assert_string_not_equal(got, "");
        const char *from = strstr(got, json("'from':")), *seq = strstr(got, json("'seq':"));
        assert_int_equal(strtoull((from ? from + 7 : seq + 6), NULL, 10), last + 1);
        last = strtoull(seq + 6, NULL, 10);
        for (const char *at = got; (at = strstr(at, "word")) != NULL; at += 4)
            words++;
        lines++;
    }
    assert_int_equal(last, 302);
    assert_int_equal(words, 300);
    assert_true(lines < 10);
    run_end(k, r, RUN_DONE, "");
    client_free(a);
    client_free(b);
}

static void test_hub_open_follow_sees_tasks_messages_and_events(void **state)
{
    struct kit *k = *state;
    struct client *a = client_new(k, "ann"), *b = client_new(k, "ann"), *w = client_new(k, "ann");
    client_say(w, json("{'type':'watch'}"));
    client_await(w, json("'ok'"));
    client_say(b, json("{'type':'open','id':'o','conversation_id':'c','follow':true}"));
    client_await(
        b, json("{'type':'conversation','id':'o','conversation_id':'c','messages':[],'tasks':[]}"));
    client_start(a, "c", "hi");
    run_say(k, kit_run(k, 0), json("{'event':'progress','data':{'progress':0.5}}"));
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    unsigned tasks = 0, messages = 0, events = 0;
    for (const char *got = client_line(b); *got; got = client_line(b)) {
        tasks += strstr(got, json("{'type':'task',")) != NULL;
        messages +=
            strstr(got, json("{'type':'message','conversation_id':'c','message':{'message_id'")) !=
            NULL;
        events += strstr(got, json("{'type':'event',")) != NULL;
    }
    assert_true(tasks >= 2);
    assert_int_equal(messages, 1); /* the user's: an empty answer is no message */
    assert_int_equal(events, 5);
    client_await(
        w,
        json("{'type':'conversation_changed','conversation':{'conversation_id':'c','title':'hi'"));
    client_say(b, json("{'type':'delete','id':'d','conversation_id':'c'}"));
    client_await(b, json("{'type':'ok','id':'d'}"));
    client_await(w, json("'deleted':true"));
    client_say(a, json("{'type':'tasks','id':'t','conversation_id':'c'}"));
    client_await(a, json("{'type':'tasks','id':'t','tasks':[],'more':false}"));
    client_free(a);
    client_free(b);
    client_free(w);
}

static void test_hub_delete_ends_what_runs_and_frees_the_id(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "hi");
    session_receive(&c->session, str_of(json("{'type':'delete','id':'d','conversation_id':'c'}")));
    kit_settle(k);
    assert_int_equal(kit_run(k, 0)->cancels, 1);
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    client_await(c, json("{'type':'ok','id':'d'}"));
    client_start(c, "c", "anew");
    client_say(c, json("{'type':'history','id':'h','conversation_id':'c'}"));
    assert_null(strstr(client_await(c, json("'h'")), json("'hi'")));
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    client_free(c);
}

/* Behind the ok of close there is nothing of what it followed, ended or not; the rest goes on. */
static void test_hub_close_ends_what_it_followed_and_nothing_else(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann"), *b = client_new(k, "ann");
    client_say(b, json("{'type':'open','conversation_id':'c','follow':true}"));
    client_start(c, "c", "ended");
    const char *own = client_start(b, "c", "own");
    b->frozen = true;
    run_say(k, kit_run(k, 0), json("{'event':'token','data':{'text':'unread'}}"));
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    session_receive(&b->session, str_of(json("{'type':'close','id':'x','conversation_id':'c'}")));
    b->frozen = false;
    session_wake(&b->session);
    kit_settle(k);
    client_await(b, json("{'type':'ok','id':'x'}"));
    client_expect_nothing(b);
    run_say(k, kit_run(k, 1), json("{'event':'token','data':{'text':'mine'}}"));
    client_expect(b, own);
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    client_free(c);
    client_free(b);
}

static void test_hub_inbox_message_is_delivered_or_undelivered(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "hi");
    struct run *r = kit_run(k, 0);
    client_ask(c, "send", "c", task, json(",'content':'more'"));
    client_await(c, json("{'type':'ok','id':'q'}"));
    assert_string_equal(r->delivered.bytes,
                        json("{'type':'message','from':'user','content':'more'}\n"));
    client_await(c, json("'event':'message','data':{'from':'user','content':'more'}"));
    run_end(k, r, RUN_DONE, "");
    client_ask(c, "send", "c", task, json(",'content':'late'"));
    client_await(c, json("'code':'task_terminated'"));
    client_free(c);
}

/* An input that is full is no input that is closed: messages and answers wait, and come. */
static void test_hub_full_agent_gets_its_messages_and_answers_later(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "hi");
    struct run *r = kit_run(k, 0);
    run_say(
        k, r,
        json("{'event':'input_required','data':{'input_id':'q','kind':'question','prompt':'?'}}"));
    r->full = true;
    client_ask(c, "send", "c", task, json(",'content':'more'"));
    client_await(c, json("{'type':'ok','id':'q'}"));
    client_ask(c, "respond", "c", task, json(",'input_id':'q','answer':'a'"));
    client_await(c, json("{'type':'ok','id':'q'}"));
    assert_int_equal(r->delivered.len, 0);
    r->full = false;
    kit_pass(k, 100);
    assert_string_equal(r->delivered.bytes,
                        json("{'type':'input','input_id':'q','answer':'a'}\n"
                             "{'type':'message','from':'user','content':'more'}\n"));
    r->full = true;
    client_ask(c, "send", "c", task, json(",'content':'lost?'"));
    client_await(c, json("{'type':'ok','id':'q'}"));
    r->deaf = true;
    client_ask(c, "send", "c", task, json(",'content':'no'"));
    client_await(c, json("'code':'no_inbox'"));
    run_end(k, r, RUN_DONE, "");
    client_ask(c, "task", "c", task, "");
    client_await(c, json("'undelivered':[{'type':'message','from':'user','content':'lost?'}]"));
    client_free(c);
}

static void test_hub_question_is_answered_once_for_everyone(void **state)
{
    struct kit *k = *state;
    struct client *a = client_new(k, "ann"), *b = client_new(k, "ann");
    const char *task = client_start(a, "c", "hi");
    struct run *r = kit_run(k, 0);
    run_say(
        k, r,
        json(
            "{'event':'input_required','data':{'input_id':'q1','kind':'approval','prompt':'ok?'}}"));
    client_await(a, json("'event':'input_required'"));
    client_ask(b, "task", "c", task, "");
    client_await(b, json("'waiting_for':'q1'"));
    kit_pass(k, 3600 * 1000); /* the clocks stand still */
    assert_int_equal(r->cancels, 0);
    client_ask(b, "respond", "c", task, json(",'input_id':'q1','answer':'yes'"));
    client_await(b, json("'code':'bad_request'"));
    client_ask(b, "respond", "c", task, json(",'input_id':'q1','answer':true"));
    client_await(b, json("{'type':'ok','id':'q'}"));
    client_ask(a, "respond", "c", task, json(",'input_id':'q1','answer':true"));
    client_await(a, json("{'type':'ok','id':'q'}"));
    client_ask(a, "respond", "c", task, json(",'input_id':'q1','answer':false"));
    client_await(a, json("'code':'conflict'"));
    assert_string_equal(r->delivered.bytes,
                        json("{'type':'input','input_id':'q1','answer':true}\n"));
    run_end(k, r, RUN_DONE, "");
    client_free(a);
    client_free(b);
}

static void test_hub_children_reach_their_parent_and_a_tree_is_cancelled(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "parent");
    struct run *parent = kit_run(k, 0);
    run_say(k, parent, json("{'call':'spawn','call_id':'c1','input':'kid','name':'one'}"));
    assert_non_null(
        strstr(parent->delivered.bytes, json("{'type':'child','call_id':'c1','task_id':'")));
    client_await(c, json("'event':'child'"));
    struct run *kid = kit_run(k, 1);
    run_say(k, kid, json("{'event':'token','data':{'text':'done'}}"));
    run_end(k, kid, RUN_DONE, "");
    assert_non_null(
        strstr(parent->delivered.bytes, json("'from':'child','content':'done','child':{")));
    run_say(k, parent, json("{'call':'spawn','call_id':'c2','input':'kid2'}"));
    client_ask(c, "cancel", "c", task, json(",'tree':true"));
    client_await(c, json("'cancelled':2,"));
    run_say(k, parent, json("{'call':'spawn','call_id':'c3','input':'late'}"));
    assert_non_null(strstr(parent->delivered.bytes, json("{'type':'error','call_id':'c3'")));
    run_end(k, kit_run(k, 2), RUN_DONE, "");
    run_end(k, parent, RUN_DONE, "");
    client_await(c, json("'status':'cancelled'"));
    client_free(c);
}

/* The one in between has ended by itself: the tree is still a tree. */
static void test_hub_tree_is_cancelled_through_tasks_that_have_ended(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "root");
    run_say(k, kit_run(k, 0), json("{'call':'spawn','call_id':'a','input':'middle'}"));
    run_say(k, kit_run(k, 1), json("{'call':'spawn','call_id':'b','input':'leaf'}"));
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    client_ask(c, "cancel", "c", task, json(",'tree':true"));
    client_await(c, json("'cancelled':2,"));
    assert_int_equal(kit_run(k, 2)->cancels, 1);
    run_end(k, kit_run(k, 2), RUN_DONE, "");
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    client_free(c);
}

static void test_hub_enqueued_chats_run_one_after_the_other(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "a");
    for (int i = 0; i < 2; i++)
        client_say(
            c, json("{'type':'chat','conversation_id':'c','message':'b','when_busy':'enqueue'}"));
    assert_int_equal(k->n_runs, 1);
    client_say(c, json("{'type':'chat','conversation_id':'c','message':'x','when_busy':'reject'}"));
    client_await(c, json("'code':'conflict'"));
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    assert_int_equal(k->n_runs, 2);
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    assert_int_equal(k->n_runs, 3);
    client_say(
        c, json("{'type':'chat','conversation_id':'c','message':'now','when_busy':'interrupt'}"));
    assert_int_equal(kit_run(k, 2)->cancels, 1);
    run_end(k, kit_run(k, 2), RUN_DONE, "");
    assert_string_equal(kit_run(k, 3)->input, "now");
    run_end(k, kit_run(k, 3), RUN_DONE, "");
    client_free(c);
}

static void test_hub_second_turn_has_the_history(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "one");
    run_say(k, kit_run(k, 0), json("{'event':'final_answer','data':{'output':'two'}}"));
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    client_start(c, "c", "three");
    assert_string_equal(
        kit_run(k, 1)->history.bytes,
        json("[{'role':'user','content':'one'},{'role':'assistant','content':'two'}]"));
    run_end(k, kit_run(k, 1), RUN_FAILED, "exit status 1");
    client_await(c, "agent_error: exit status 1");
    client_start(c, "c", "cannot start");
    client_await(c, "agent_error: it cannot start");
    client_free(c);
}

/* A test that fails returns in its middle: then the others still get their turn. */
static void test_hub_what_a_failed_test_leaves_is_freed_behind_it(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_new(k, "bob")->frozen = true;
    client_start(c, "c", "hi");
    session_receive(&c->session, str_of(json("{'type':'tasks'}"))); /* not answered yet */
}

#define HUB_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HUB_TEST(test_hub_chat_streams_from_seq_1_to_the_end),
        HUB_TEST(test_hub_nothing_is_seen_before_its_commit),
        HUB_TEST(test_hub_resume_barrier_no_event_slips_between_replay_and_live),
        HUB_TEST(test_hub_foreign_and_missing_get_the_same_bytes),
        HUB_TEST(test_hub_repeated_key_starts_nothing),
        HUB_TEST(test_hub_cancel_ends_as_cancelled_whatever_the_agent_says),
        HUB_TEST(test_hub_restart_repairs_before_anything_new),
        HUB_TEST(test_hub_coalesced_replay_has_the_same_text),
        HUB_TEST(test_hub_open_follow_sees_tasks_messages_and_events),
        HUB_TEST(test_hub_delete_ends_what_runs_and_frees_the_id),
        HUB_TEST(test_hub_close_ends_what_it_followed_and_nothing_else),
        HUB_TEST(test_hub_inbox_message_is_delivered_or_undelivered),
        HUB_TEST(test_hub_full_agent_gets_its_messages_and_answers_later),
        HUB_TEST(test_hub_question_is_answered_once_for_everyone),
        HUB_TEST(test_hub_children_reach_their_parent_and_a_tree_is_cancelled),
        HUB_TEST(test_hub_tree_is_cancelled_through_tasks_that_have_ended),
        HUB_TEST(test_hub_enqueued_chats_run_one_after_the_other),
        HUB_TEST(test_hub_second_turn_has_the_history),
        HUB_TEST(test_hub_what_a_failed_test_leaves_is_freed_behind_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
