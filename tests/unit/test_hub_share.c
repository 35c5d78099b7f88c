/* Shares and handovers: over a crash, with a store that fails, until their time is over. */
#include "core/grant.h"
#include "core/handover.h"
#include "tests/support/hub_kit.h"

#define SHARE "{'type':'share','id':'s','conversation_id':'c'}"
#define SHARES "{'type':'shares','id':'l'}"

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

static struct client *owner_new(struct kit *k)
{
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "hi");
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    client_await(c, "task.completed");
    return c;
}

/* A connection with the token of that share. */
static struct client *bearer_new(struct kit *k, const char *share_id)
{
    struct js_doc doc = {0};
    struct str claim = STR("{\"conversations\":[{\"id\":\"c\",\"rights\":[\"read\"]}]}");
    struct client *c = xcalloc(sizeof *c);
    c->kit = k;
    session_init(&c->session, &k->hub, &client_ops, c);
    assert_true(js_parse(&doc, claim.p, claim.n, JS_OURS));
    struct owner *ann = owner_ref(&k->hub, STR("ann"));
    struct asker who = {
        .owner = ann, .quota = ann, .rights = rights_read(&doc, 0, str_of(share_id))};
    session_adopt(&c->session, &who);
    rights_unref(who.rights);
    owner_unref(&k->hub, ann);
    js_done(&doc);
    return c;
}

static void shared(struct client *c, char id[TASK_ID_LEN + 1])
{
    client_say(c, json(SHARE));
    snprintf(id, TASK_ID_LEN + 1, "%s", line_field(client_await(c, json("'shared'")), "share_id"));
}

static void test_share_counts_until_it_is_withdrawn(void **state)
{
    struct kit *k = *state;
    char id[TASK_ID_LEN + 1], line[128];
    struct client *c = owner_new(k);
    shared(c, id);
    client_free(c);
    kit_crash(k);
    kit_settle(k);
    assert_non_null(grant_find(&k->hub, STR("ann"), str_of(id)));
    assert_null(grant_find(&k->hub, STR("bob"), str_of(id)));
    struct client *bearer = bearer_new(k, id);
    c = client_new(k, "ann");
    client_say(bearer, json("{'type':'history','id':'h','conversation_id':'c'}"));
    client_await(bearer, json("'id':'h','messages':[{"));
    client_say(bearer, json("{'type':'title','id':'t','conversation_id':'c','title':'x'}"));
    client_await(bearer, json("'id':'t','code':'not_found'"));
    snprintf(line, sizeof line, json("{'type':'unshare','id':'u','share_id':'%s'}"), id);
    client_say(c, line);
    client_await(c, json("{'type':'ok','id':'u'}"));
    assert_int_equal(bearer->session.state, SESSION_CLOSING);
    assert_int_equal(bearer->session.close_code, CLOSE_UNAUTHORIZED);
    client_free(bearer);
    client_free(c);
    kit_crash(k);
    kit_settle(k);
    assert_null(grant_find(&k->hub, STR("ann"), str_of(id)));
}

/* All commits fail from here on until the hub gives them up. */
static void store_fails(struct kit *k, bool fails)
{
    kit_fault.point = KIT_COMMIT;
    kit_fault.error = STORE_IO;
    kit_fault.first = kit_passed[KIT_COMMIT] + 1;
    kit_fault.times = fails ? 1000000 : 0;
    if (!fails)
        kit_pass(k, 60000);
}

static void test_share_that_is_not_written_is_none(void **state)
{
    struct kit *k = *state;
    struct client *c = owner_new(k);
    store_fails(k, true);
    client_say(c, json(SHARE));
    kit_pass(k, 60000); /* given up */
    client_await(c, json("'id':'s','code':'overloaded'"));
    store_fails(k, false);
    client_say(c, json(SHARES));
    client_await(c, json("'shares':[]"));
    client_free(c);
}

static void test_share_that_cannot_be_withdrawn_counts_again(void **state)
{
    struct kit *k = *state;
    char id[TASK_ID_LEN + 1], line[128];
    struct client *c = owner_new(k);
    shared(c, id);
    store_fails(k, true);
    snprintf(line, sizeof line, json("{'type':'unshare','id':'u','share_id':'%s'}"), id);
    client_say(c, line);
    assert_null(grant_find(&k->hub, STR("ann"), str_of(id))); /* at once */
    kit_pass(k, 60000);
    client_await(c, json("'id':'u','code':'overloaded'"));
    assert_non_null(grant_find(&k->hub, STR("ann"), str_of(id)));
    store_fails(k, false);
    client_free(c);
}

static void test_share_ends_with_its_time_and_makes_room(void **state)
{
    struct kit *k = *state;
    char id[TASK_ID_LEN + 1];
    struct client *c = owner_new(k);
    for (int i = 0; i < 4; i++)
        shared(c, id);
    client_say(c, json(SHARE));
    client_await(c, json("'id':'s','code':'overloaded'"));
    k->hub.clock.wall_ms += 7 * 86400000LL;
    assert_null(grant_find(&k->hub, STR("ann"), str_of(id)));
    client_say(c, json(SHARES));
    client_await(c, json("'shares':[]"));
    shared(c, id);
    client_free(c);
}

static void test_handover_is_good_once_and_for_two_minutes(void **state)
{
    struct kit *k = *state;
    struct buf token = {0}, code = {0};
    struct owner *ann = owner_ref(&k->hub, STR("ann"));
    assert_true(handover_make(&k->hub, ann, 5000000, &code));
    assert_false(handover_take(&k->hub, (struct str){code.bytes, code.len - 1}, &token));
    assert_false(handover_take(&k->hub, STR(""), &token));
    k->hub.clock.wall_ms += HANDOVER_MS - 1;
    assert_true(handover_take(&k->hub, buf_str(&code), &token));
    assert_text(buf_str(&token), json("'sub':'ann','exp':5000"));
    assert_false(handover_take(&k->hub, buf_str(&code), &token));
    buf_clear(&code);
    assert_true(handover_make(&k->hub, ann, 5000000, &code));
    k->hub.clock.wall_ms += HANDOVER_MS;
    assert_false(handover_take(&k->hub, buf_str(&code), &token));
    buf_clear(&code);
    assert_true(handover_make(&k->hub, ann, 5000000, &code));
    struct buf more = {0};
    for (int i = 0; i < MAX_HANDOVERS; i++)
        assert_true(handover_make(&k->hub, ann, 5000000, &more));
    assert_false(handover_take(&k->hub, buf_str(&code), &token)); /* the oldest made room */
    buf_done(&more);
    owner_unref(&k->hub, ann);
    buf_done(&code);
    buf_done(&token);
}

#define HUB_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HUB_TEST(test_share_counts_until_it_is_withdrawn),
        HUB_TEST(test_share_that_is_not_written_is_none),
        HUB_TEST(test_share_that_cannot_be_withdrawn_counts_again),
        HUB_TEST(test_share_ends_with_its_time_and_makes_room),
        HUB_TEST(test_handover_is_good_once_and_for_two_minutes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
