/* A slot moves with its live tasks: they are left here, and go on at the home that has it next.
 * Here that is the same hub again, from which everything of the slot was gone. */
#include "core/handover.h"
#include "core/task.h"
#include "tests/support/hub_again.h"

static struct slots anns;
static int64_t tenure;
static bool is_bound;

static bool bound(struct run *r)
{
    (void)r;
    return is_bound;
}

static const struct agent_ops moves_ops = {AGAIN_OPS, .deliver = kit_deliver, .is_bound = bound};

static int setup(void **state)
{
    struct kit *k = *state = kit_new();
    again_use(k, &moves_ops);
    for (size_t i = 0; i < countof(k->agents); i++)
        k->agents[i].is_process = false;
    anns = (struct slots){0};
    slots_add(&anns, slot_of(STR("ann")));
    k->hub.o.shared = true;
    is_bound = false;
    tenure = 10;
    return 0;
}

static int teardown(void **state)
{
    kit_free_all(*state);
    return 0;
}

static bool finds(struct kit *k,
                  void (*find)(struct hub *h, const struct slots *among, bool live,
                               struct slots *ret),
                  bool live)
{
    struct slots found;
    find(&k->hub, &anns, live, &found);
    return slots_has(&found, slot_of(STR("ann")));
}

static bool may_move(struct kit *k)
{
    return finds(k, hub_find_movable, true);
}

static bool is_idle(struct kit *k)
{
    struct slots found;
    hub_find_idle(&k->hub, &anns, &found);
    return slots_has(&found, slot_of(STR("ann")));
}

static bool is_quiet(struct kit *k)
{
    struct slots found;
    hub_find_quiet(&k->hub, &anns, &found);
    return slots_has(&found, slot_of(STR("ann")));
}

/* The number of tasks that went along. */
static unsigned go(struct kit *k)
{
    unsigned n = k->hub.use[slot_of(STR("ann"))].tasks;
    assert_true(may_move(k));
    hub_close_slots(&k->hub, &anns);
    assert_true(is_quiet(k));
    assert_int_equal(hub_part(&k->hub, &anns), n);
    kit_settle(k);
    assert_true(is_idle(k));
    hub_leave(&k->hub, &anns);
    kit_settle(k);
    assert_int_equal(k->hub.n_live, 0);
    assert_int_equal(k->hub.use[slot_of(STR("ann"))].tasks, 0);
    assert_int_equal(k->hub.streams.n + k->hub.conversations.n + k->hub.owners.n, 0);
    return n;
}

static void come_all(struct kit *k, const struct slots *slots, const struct slots *own)
{
    int status = 1;
    hub_restore_slots(&k->hub, slots, own, (struct tenure){tenure++, ""}, kit_on_ready, &status);
    kit_settle(k);
    assert_int_equal(status, 0);
}

static void come(struct kit *k)
{
    come_all(k, &anns, NULL);
}

/* It is sent away, and another one comes; task NULL: it resumes none. */
static struct client *move(struct kit *k, struct client *c, const char *task)
{
    client_free(c);
    (void)go(k);
    come(k);
    c = client_new(k, "ann");
    if (task)
        client_ask(c, "resume", "c", task, ",\"after\":0");
    return c;
}

#define TOKEN(text) json("{'event':'token','data':{'text':'" text "'}}")

static void test_a_task_goes_on_at_its_next_home(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    run_say(k, kit_run(k, 0), json("{'event':'progress','data':{'progress':0.5}}"));
    run_say(k, kit_run(k, 0), TOKEN("half"));
    c = move(k, c, task);
    assert_int_equal(again.left, 1);
    assert_true(kit_run(k, 0)->freed);
    assert_int_equal(k->n_runs, 2);
    run_say(k, kit_run(k, 1), TOKEN("whole"));
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    client_await(c, json("'seq':1,"));
    client_await(c, json("'text':'half'"));
    const char *resumed = client_await(c, json("'event':'task.resumed'"));
    assert_non_null(strstr(resumed, json("'attempt':2,")));
    assert_non_null(strstr(resumed, json("'planned':true,'retracts':3,'keep':{'text':0,")));
    client_await(c, json("'text':'whole'"));
    client_await(c, json("'output':'whole'"));
    client_free(c);
}

static void test_it_moves_any_number_of_times(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    for (int i = 0; i < 12; i++)
        c = move(k, c, NULL);
    client_ask(c, "resume", "c", task, "");
    client_await(c, json("'attempt':13,'why':'takeover','planned':true"));
    run_end(k, kit_run(k, 12), RUN_DONE, "");
    client_await(c, json("'event':'task.completed'"));
    client_free(c);
}

/* A kill, and a process that has no slots yet.  Clients must be gone. */
static void start_again(struct kit *k)
{
    kit_close_hub(k);
    kit_open_hub(k);
    k->hub.o.shared = true;
    k->hub.open = (struct slots){0};
}

static void resumes_by(struct kit *k, const char *owner, const char *task, const char *how)
{
    struct client *c = client_new(k, owner);
    client_ask(c, "resume", "c", task, "");
    client_await(c, how);
    client_free(c);
}

static void test_a_start_tells_its_own_slots_from_those_of_others(void **state)
{
    struct kit *k = *state;
    struct client *ann = client_new(k, "ann"), *bob = client_new(k, "bob");
    char *anns_task = xstrdup(str_of(client_start(ann, "c", "go")));
    char *bobs_task = xstrdup(str_of(client_start(bob, "c", "go")));
    struct slots both = anns;
    slots_add(&both, slot_of(STR("bob")));
    client_free(ann);
    client_free(bob);
    start_again(k);
    come_all(k, &both, &anns);
    resumes_by(k, "ann", anns_task, json("'attempt':2,'why':'restart'"));
    resumes_by(k, "bob", bobs_task, json("'attempt':2,'why':'takeover'"));
    start_again(k);
    come_all(k, &both, &both);
    resumes_by(k, "ann", anns_task, json("'attempt':3,'why':'restart'"));
    resumes_by(k, "bob", bobs_task, json("'attempt':3,'why':'restart'"));
    free(anns_task);
    free(bobs_task);
}

static void test_own_slots_that_went_come_back_as_those_of_others(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    client_free(c);
    start_again(k);
    come_all(k, &anns, &anns);
    resumes_by(k, "ann", task, json("'attempt':2,'why':'restart'"));
    (void)go(k);
    come(k);
    resumes_by(k, "ann", task, json("'attempt':3,'why':'takeover'"));
}

/* Slots that come later do not change what those that were here from the start are. */
static void test_own_slots_stay_its_own_when_others_come(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    struct slots bobs = {0};
    slots_add(&bobs, slot_of(STR("bob")));
    client_free(c);
    start_again(k);
    come_all(k, &bobs, NULL);
    come_all(k, &anns, &anns);
    resumes_by(k, "ann", task, json("'attempt':2,'why':'restart'"));
}

static void test_what_waits_goes_along(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    client_say(c, json("{'type':'chat','conversation_id':'c','message':'next',"
                       "'when_busy':'enqueue'}"));
    run_say(
        k, kit_run(k, 0),
        json("{'event':'input_required','data':{'input_id':'q','kind':'question','prompt':'?'}}"));
    c = move(k, c, NULL);
    client_ask(c, "respond", "c", task, json(",'input_id':'q','answer':'a'"));
    client_await(c, json("{'type':'ok'"));
    assert_non_null(strstr(kit_run(k, 1)->delivered.bytes, json("'answer':'a'")));
    assert_int_equal(k->n_runs, 2);
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    assert_string_equal(kit_run(k, 2)->input, "next");
    run_end(k, kit_run(k, 2), RUN_DONE, "");
    client_free(c);
}

static struct stream *only_stream(struct kit *k, const char *task)
{
    return hub_find_stream(&k->hub, STR("ann"), STR("c"), str_of(task));
}

/* Sealed, read by nobody: it is its run that keeps the slot. */
static void test_what_was_not_left_is_not_idle(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    run_say(k, kit_run(k, 0), TOKEN("half"));
    client_free(c);
    hub_close_slots(&k->hub, &anns);
    journal_want_seal(&k->hub.journal, only_stream(k, task));
    kit_settle(k);
    assert_int_equal(only_stream(k, task)->tail.len, 0);
    assert_true(is_quiet(k));
    assert_false(is_idle(k));
    assert_int_equal(hub_part(&k->hub, &anns), 1);
    kit_settle(k);
    assert_true(is_idle(k));
    hub_leave(&k->hub, &anns);
    kit_settle(k);
}

/* Each of what a left task may still have on its way to the store. */
static void test_what_is_not_in_the_store_is_not_idle(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    run_say(k, kit_run(k, 0), TOKEN("half"));
    client_free(c);
    hub_close_slots(&k->hub, &anns);
    struct stream *s = only_stream(k, task);
    hub_part(&k->hub, &anns);
    assert_true(s->wants_seal);
    assert_false(is_idle(k));
    kit_settle(k);
    assert_true(is_idle(k));
    journal_dirty(&k->hub.journal, s, 1);
    assert_true(list_is_in(&s->dirty) && s->tail.len == 0);
    assert_false(is_idle(k));
    list_remove(&s->dirty);
    assert_true(is_idle(k));
    hub_leave(&k->hub, &anns);
    kit_settle(k);
}

/* A run that outlives the gateway moves where any home finds it. */
static void test_runs_that_roam_go_along(void **state)
{
    static const struct agent_ops roams_ops = {AGAIN_OPS, .deliver = kit_deliver, .roams = true};
    struct kit *k = *state;
    again_use(k, &roams_ops);
    k->agents[0].is_process = false;
    k->agents[0].outlives = true;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    c = move(k, c, task);
    assert_int_equal(k->n_runs, 2);
    client_await(c, json("'event':'task.resumed'"));
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    client_await(c, json("'event':'task.completed'"));
    client_free(c);
}

/* A program, a call under way, a run that is to end: nobody finds them from elsewhere. */
static void test_what_lies_here_stays(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    assert_true(may_move(k));
    is_bound = true;
    assert_false(may_move(k));
    is_bound = false;
    k->agents[0].outlives = true;
    assert_false(may_move(k));
    k->agents[0].outlives = k->agents[0].goes_on = false;
    assert_false(may_move(k));
    k->agents[0].goes_on = true;
    assert_true(may_move(k));
    assert_false(finds(k, hub_find_movable, false));
    client_ask(c, "resume", "c", task, "");
    hub_close_slots(&k->hub, &anns);
    assert_false(is_quiet(k)); /* it is read */
    hub_reopen_slots(&k->hub, &anns);
    client_ask(c, "cancel", "c", task, "");
    assert_false(may_move(k));
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    client_free(c);
}

static void test_slots_that_stay_after_all_go_on(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "go");
    client_say(c, json("{'type':'chat','conversation_id':'c','message':'next',"
                       "'when_busy':'enqueue'}"));
    hub_close_slots(&k->hub, &anns);
    run_end(k, kit_run(k, 0), RUN_DONE, "");
    assert_int_equal(k->n_runs, 1);
    hub_reopen_slots(&k->hub, &anns);
    kit_settle(k);
    assert_string_equal(kit_run(k, 1)->input, "next");
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    client_free(c);
}

static void test_a_gateway_that_passes_on_lets_tasks_run(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    client_ask(c, "resume", "c", task, "");
    hub_pass_on(&k->hub);
    client_say(c, json("{'type':'chat','conversation_id':'d','message':'x'}"));
    client_await(c, json("'code':'overloaded'"));
    run_say(k, kit_run(k, 0), TOKEN("still"));
    client_await(c, json("'text':'still'"));
    assert_int_equal(again.left, 0);
    assert_true(hub_awaits_tasks(&k->hub));
    client_free(c);
    assert_int_equal(go(k), 1);
    assert_false(hub_awaits_tasks(&k->hub));
    come(k); /* as one that had it restored when it was told to stop */
    assert_int_equal(again.left, 1);
    hub_abandon(&k->hub);
    kit_settle(k);
    assert_int_equal(again.left, 2);
    assert_true(hub_is_over(&k->hub));
    client_free(client_new(k, "ann"));
}

/* Parted, and cannot be released: the store is away, or another slot's release is not known yet. */
static void test_what_waits_in_a_slot_on_its_way_holds_no_stop(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    client_start(c, "c", "go");
    client_say(c, json("{'type':'chat','conversation_id':'c','message':'next',"
                       "'when_busy':'enqueue'}"));
    client_await(c, json("'started'"));
    client_free(c);
    hub_pass_on(&k->hub);
    hub_close_slots(&k->hub, &anns);
    assert_int_equal(hub_part(&k->hub, &anns), 2);
    kit_settle(k);
    assert_true(is_idle(k));
    assert_true(hub_awaits_tasks(&k->hub)); /* it may still move */
    hub_abandon(&k->hub);
    assert_true(hub_is_over(&k->hub));
    assert_int_equal(again.left, 1);
}

/* Closed for its readers to go, when the time is over: its run is left as any other. */
static void test_what_runs_in_a_closed_slot_is_left_at_a_stop(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann");
    const char *task = client_start(c, "c", "go");
    run_say(k, kit_run(k, 0), TOKEN("half"));
    hub_pass_on(&k->hub);
    hub_close_slots(&k->hub, &anns);
    assert_int_equal(again.left, 0);
    hub_abandon(&k->hub);
    assert_int_equal(again.left, 1);
    kit_settle(k);
    assert_true(hub_is_over(&k->hub));
    client_free(c);
    kit_crash(k);
    c = client_new(k, "ann");
    client_ask(c, "resume", "c", task, json(",'after':0"));
    client_await(c, json("'planned':true"));
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    client_free(c);
}

/* Tasks that wait for room among all hear of it. */
static void test_a_notice_gets_the_room_of_what_moved(void **state)
{
    struct kit *k = *state;
    struct client *c = client_new(k, "ann"), *bob = client_new(k, "bob");
    client_start(c, "c", "go");
    client_say(bob, json("{'type':'chat','conversation_id':'b','background':true,"
                         "'notify_on_complete':true,'message':'job'}"));
    client_await(bob, json("'started'"));
    k->hub.o.limits.tasks = 1;
    run_end(k, kit_run(k, 1), RUN_DONE, "");
    kit_pass(k, 10000);
    assert_int_equal(k->n_runs, 2);
    client_free(c);
    hub_close_slots(&k->hub, &anns);
    assert_int_equal(hub_part(&k->hub, &anns), 1);
    kit_settle(k);
    assert_int_equal(k->n_runs, 2);
    hub_leave(&k->hub, &anns);
    kit_settle(k);
    assert_int_equal(k->n_runs, 3);
    run_end(k, kit_run(k, 2), RUN_DONE, "");
    client_free(bob);
}

/* A code that nobody took holds its owner for two minutes, and no longer. */
static void test_a_code_stays_as_long_as_it_is_good(void **state)
{
    struct kit *k = *state;
    struct buf code = {0};
    struct owner *ann = owner_ref(&k->hub, STR("ann"));
    assert_true(handover_make(&k->hub, ann, 5000000, &code));
    owner_unref(&k->hub, ann);
    k->hub.clock.wall_ms += HANDOVER_MS - 1;
    assert_false(is_idle(k));
    assert_false(finds(k, hub_find_movable, false));
    k->hub.clock.wall_ms++;
    assert_true(finds(k, hub_find_movable, false));
    assert_true(is_idle(k));
    assert_int_equal(k->hub.owners.n, 0);
    buf_done(&code);
}

#define HUB_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HUB_TEST(test_a_task_goes_on_at_its_next_home),
        HUB_TEST(test_it_moves_any_number_of_times),
        HUB_TEST(test_a_start_tells_its_own_slots_from_those_of_others),
        HUB_TEST(test_own_slots_that_went_come_back_as_those_of_others),
        HUB_TEST(test_own_slots_stay_its_own_when_others_come),
        HUB_TEST(test_what_waits_goes_along),
        HUB_TEST(test_what_was_not_left_is_not_idle),
        HUB_TEST(test_what_is_not_in_the_store_is_not_idle),
        HUB_TEST(test_runs_that_roam_go_along),
        HUB_TEST(test_what_lies_here_stays),
        HUB_TEST(test_slots_that_stay_after_all_go_on),
        HUB_TEST(test_a_gateway_that_passes_on_lets_tasks_run),
        HUB_TEST(test_what_waits_in_a_slot_on_its_way_holds_no_stop),
        HUB_TEST(test_what_runs_in_a_closed_slot_is_left_at_a_stop),
        HUB_TEST(test_a_notice_gets_the_room_of_what_moved),
        HUB_TEST(test_a_code_stays_as_long_as_it_is_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
