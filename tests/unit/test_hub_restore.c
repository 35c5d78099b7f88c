/* The reading of live tasks at a start, some of them at once; and of slots that come, which wait
 * for a store that several share. */
#include "tests/support/hub_kit.h"

#define TASKS 40 /* more than are read at once */

static int setup(void **state)
{
    kit_fault.times = 0;
    *state = kit_new();
    return 0;
}

static int teardown(void **state)
{
    kit_free_all(*state);
    return 0;
}

static char ids[TASKS][TASK_ID_LEN + 1];

static const char *owner_of(int i)
{
    return i % 2 ? "ann" : "bob"; /* one may not have so many */
}

static void start_tasks(struct kit *k)
{
    for (int i = 0; i < TASKS; i++) {
        struct client *c = client_new(k, owner_of(i));
        snprintf(ids[i], sizeof ids[i], "%s", client_start(c, "c", "hi"));
        run_say(k, kit_run(k, (size_t)i), json("{'event':'token','data':{'text':'half'}}"));
        client_free(c);
    }
}

/* A start after a crash, up to the first query about a live task, which waits. */
static void hold_first_task(struct kit *k, int *ret_status)
{
    kit_close_hub(k);
    kit_open_hub(k);
    *ret_status = 1;
    hub_restore(&k->hub, kit_on_ready, ret_status);
    while (store_inline_next(k->inline_store) != QUERY_BLOCKS)
        assert_true(kit_step(k));
    assert_true(store_inline_hold(k->inline_store, false));
}

static void expect_orphans(struct kit *k)
{
    for (int i = 0; i < TASKS; i++) {
        struct client *c = client_new(k, owner_of(i));
        client_ask(c, "task", "c", ids[i], "");
        const char *record = client_await(c, json("'type':'task'"));
        assert_non_null(strstr(record, json("'code':'orphaned'")));
        assert_non_null(strstr(record, json("'output':'half'")));
        client_free(c);
    }
}

static void test_hub_restore_reads_tasks_side_by_side(void **state)
{
    struct kit *k = *state;
    int status;
    start_tasks(k);
    hold_first_task(k, &status);
    unsigned before = kit_passed[KIT_READ];
    kit_settle(k);
    assert_int_equal(kit_passed[KIT_READ] - before, 2 * (TASKS - 1)); /* its events, its inbox */
    assert_int_equal(status, 1);
    store_inline_release(k->inline_store);
    kit_settle(k);
    assert_int_equal(status, 0);
    expect_orphans(k);
}

/* The others are asked first: it has their memory. */
static void test_hub_restore_that_fails_waits_for_what_it_asked(void **state)
{
    struct kit *k = *state;
    int status;
    start_tasks(k);
    hold_first_task(k, &status);
    store_inline_fail_queries(k->inline_store, 1, STORE_IO);
    unsigned before = kit_passed[KIT_READ];
    kit_settle(k);
    assert_true(kit_passed[KIT_READ] - before < 2 * (TASKS - 1)); /* of no further task */
    assert_int_equal(status, 1);
    store_inline_release(k->inline_store);
    kit_settle(k);
    assert_int_equal(status, STORE_IO);
    kit_crash(k);
    expect_orphans(k);
}

static void test_hub_restore_is_closed_while_it_reads(void **state)
{
    struct kit *k = *state;
    int status;
    start_tasks(k);
    hold_first_task(k, &status);
    store_inline_release(k->inline_store);
    kit_crash(k);
    expect_orphans(k);
}

/* --- a store that several share --------------------------------------------------------------- */

/* The hub of the next home, which has not begun to repair. */
static void open_next_home(struct kit *k)
{
    kit_close_hub(k);
    kit_open_hub(k);
    k->hub.o.shared = true;
    k->hub.open = (struct slots){0};
}

static void take_all_slots(struct kit *k, int64_t tenure, int *ret_status)
{
    struct slots all;
    slots_add_all(&all);
    *ret_status = 1;
    hub_restore_slots(&k->hub, &all, NULL, (struct tenure){tenure, ""}, kit_on_ready, ret_status);
}

static void fail_reads(unsigned first, unsigned times, enum store_error error)
{
    kit_fault.point = KIT_READ;
    kit_fault.first = kit_passed[KIT_READ] + first;
    kit_fault.times = times;
    kit_fault.error = error;
}

#define FEW 3

static void start_few(struct kit *k)
{
    for (int i = 0; i < FEW; i++) {
        struct client *c = client_new(k, "ann");
        snprintf(ids[i], sizeof ids[i], "%s", client_start(c, "c", "hi"));
        run_say(k, kit_run(k, (size_t)i), json("{'event':'token','data':{'text':'half'}}"));
        client_free(c);
    }
}

static void expect_few_orphans(struct kit *k)
{
    struct client *c = client_new(k, "ann");
    for (int i = 0; i < FEW; i++) {
        client_ask(c, "task", "c", ids[i], "");
        const char *record = client_await(c, json("'type':'task'"));
        assert_non_null(strstr(record, json("'code':'orphaned'")));
        assert_non_null(strstr(record, json("'output':'half'")));
    }
    client_free(c);
}

/* Whichever question comes when the server goes: those behind it fail as well, for some seconds. */
static unsigned repair_over_an_outage(struct kit *k, unsigned first, enum store_error error)
{
    int status;
    open_next_home(k);
    unsigned before = kit_passed[KIT_READ];
    fail_reads(first, 3, error);
    take_all_slots(k, 10, &status);
    kit_settle(k);
    for (int i = 0; i < 10 && status == 1; i++)
        kit_pass(k, 1000);
    assert_int_equal(status, 0);
    kit_fault.times = 0;
    expect_few_orphans(k);
    return kit_passed[KIT_READ] - before;
}

static void test_slots_wait_for_a_store_that_others_share(void **state)
{
    static const enum store_error errors[] = {STORE_IO, STORE_BUSY};
    struct kit *k = *state;
    unsigned asked = 1;
    for (unsigned first = 1; first <= asked; first++) {
        kit_free_all(k);
        *state = k = kit_new();
        start_few(k);
        asked = repair_over_an_outage(k, first, errors[first % 2]);
        asked -= FEW; /* the client's own questions */
    }
    assert_true(asked > 8 + 2 * FEW); /* the owners', and of each task its events and its inbox */
}

static void test_other_owners_are_served_meanwhile(void **state)
{
    struct kit *k = *state;
    struct slots bobs = {0}, anns = {0};
    int status = 1;
    start_few(k);
    open_next_home(k);
    slots_add(&bobs, slot_of(STR("bob")));
    slots_add(&anns, slot_of(STR("ann")));
    hub_restore_slots(&k->hub, &bobs, NULL, (struct tenure){10, ""}, kit_on_ready, &status);
    kit_settle(k);
    assert_int_equal(status, 0);
    struct client *bob = client_new(k, "bob");
    const char *task = client_start(bob, "b", "hi");
    status = 1;
    fail_reads(1, 1000000, STORE_IO);
    hub_restore_slots(&k->hub, &anns, NULL, (struct tenure){11, ""}, kit_on_ready, &status);
    client_ask(bob, "resume", "b", task, "");
    for (int i = 0; i < 100; i++)
        kit_pass(k, 1000);
    run_say(k, kit_run(k, FEW), json("{'event':'token','data':{'text':'on'}}"));
    client_await(bob, json("'text':'on'"));
    assert_int_equal(status, 1);
    kit_fault.times = 0;
    kit_pass(k, 1000);
    assert_int_equal(status, 0);
    run_end(k, kit_run(k, FEW), RUN_DONE, "");
    client_await(bob, json("'event':'task.completed'"));
    client_free(bob);
    expect_few_orphans(k);
}

static void test_what_is_not_as_it_was_written_is_not_waited_for(void **state)
{
    struct kit *k = *state;
    int status;
    start_few(k);
    open_next_home(k);
    fail_reads(1, 1, STORE_CORRUPT);
    take_all_slots(k, 10, &status);
    kit_settle(k);
    assert_int_equal(status, STORE_CORRUPT);
}

static void test_a_home_may_end_while_its_slots_wait(void **state)
{
    struct kit *k = *state;
    int status;
    start_few(k);
    for (unsigned first = 1; first < 12; first++) {
        open_next_home(k);
        fail_reads(first, 1000000, STORE_IO);
        take_all_slots(k, 10 + first, &status);
        kit_settle(k);
        assert_int_equal(status, 1);
        kit_close_hub(k);
        assert_int_equal(status, STORE_IO);
        kit_fault.times = 0;
        kit_open_hub(k);
    }
    open_next_home(k);
    take_all_slots(k, 40, &status);
    kit_settle(k);
    assert_int_equal(status, 0);
    expect_few_orphans(k);
}

static void expect_few_ends(struct kit *k)
{
    struct client *c = client_new(k, "ann");
    for (int i = 0; i < FEW; i++) {
        client_ask(c, "task", "c", ids[i], "");
        const char *record = client_await(c, json("'type':'task'"));
        assert_non_null(strstr(record, json("'status':'failed'")));
        assert_non_null(strstr(record, json("'output':'half'")));
        client_ask(c, "resume", "c", ids[i], json(",'after':0"));
        client_await(c, json("'event':'task.failed'"));
    }
    client_free(c);
}

/* Nothing can be done for the slots that wait: the next process repairs them. */
static void test_slots_that_wait_hold_no_stop(void **state)
{
    struct kit *k = *state;
    int status;
    start_few(k);
    struct client *c = client_new(k, "ann");
    client_say(c, json("{'type':'chat','conversation_id':'c','message':'next',"
                       "'when_busy':'enqueue'}"));
    client_free(c);
    for (unsigned first = 1; first < 12; first++) {
        open_next_home(k);
        fail_reads(first, 1000000, STORE_IO);
        take_all_slots(k, 10 + first, &status);
        kit_settle(k);
        hub_pass_on(&k->hub);
        kit_pass(k, 1000);
        hub_abandon(&k->hub);
        kit_pass(k, 1000);
        assert_int_equal(status, 1);
        assert_true(hub_is_over(&k->hub));
        kit_fault.times = 0;
    }
    kit_pass(k, 1000); /* the store is back before the process has ended */
    assert_int_equal(status, 0);
    assert_true(hub_is_over(&k->hub));
    assert_int_equal(k->n_runs, FEW);
}

/* The repair's own batch is given up: nothing of it is on disk.  A task whose end was in it ends
 * another time. */
static void test_ends_that_were_given_up_come_later(void **state)
{
    struct kit *k = *state;
    int status;
    start_few(k);
    open_next_home(k);
    store_inline_fail_commits(k->inline_store, 1000000, STORE_IO);
    take_all_slots(k, 10, &status);
    kit_settle(k);
    assert_int_equal(status, 1);
    for (int i = 0; i < 100; i++) /* three times retry_ms */
        kit_pass(k, 1000);
    store_inline_fail_commits(k->inline_store, 0, STORE_IO);
    for (int i = 0; i < 5; i++)
        kit_pass(k, 1000);
    assert_int_equal(status, 0);
    expect_few_ends(k);
    kit_crash(k);
    expect_few_ends(k);
}

/* Tasks that ended at once, before a crash: their seals are more than one batch takes. */
static void leave_seals(struct kit *k)
{
    start_tasks(k);
    for (size_t i = 0; i < TASKS; i++)
        kit_run(k, i)->events->on_end(kit_run(k, i)->task, RUN_DONE, STR(""));
    k->bounded = true;
    k->steps_left = 1;
    kit_settle(k);
    k->bounded = false;
    open_next_home(k);
}

static void expect_seals(struct kit *k, const char *owner)
{
    for (int i = 0; i < TASKS; i++) {
        if (strcmp(owner_of(i), owner) != 0)
            continue;
        struct client *c = client_new(k, owner);
        client_ask(c, "resume", "c", ids[i], json(",'after':0"));
        client_await(c, json("'text':'half'"));
        client_await(c, json("'event':'task.completed'"));
        client_free(c);
    }
}

static void pass_seconds(struct kit *k, int n)
{
    for (int i = 0; i < n; i++)
        kit_pass(k, 1000);
}

static void test_seals_that_were_given_up_are_put_again(void **state)
{
    static const enum store_error errors[] = {STORE_IO, STORE_BUSY, STORE_FULL};
    struct kit *k = *state;
    int status;
    for (size_t e = 0; e < countof(errors); e++) {
        kit_free_all(k);
        *state = k = kit_new();
        leave_seals(k);
        store_inline_fail_commits(k->inline_store, 1000000, errors[e]);
        take_all_slots(k, 10, &status);
        pass_seconds(k, 100);
        assert_int_equal(status, 1);
        store_inline_fail_commits(k->inline_store, 0, STORE_IO);
        pass_seconds(k, 5);
        assert_int_equal(status, 0);
        expect_seals(k, "ann");
        expect_seals(k, "bob");
    }
}

/* It may have been somebody else's, in the same batch, that was refused. */
static void test_seals_that_were_refused_are_put_once_more(void **state)
{
    struct kit *k = *state;
    int status;
    leave_seals(k);
    store_inline_fail_commits(k->inline_store, 1000000, STORE_REFUSED);
    take_all_slots(k, 10, &status);
    pass_seconds(k, 40); /* more than retry_ms, less than twice as much */
    assert_int_equal(status, 1);
    store_inline_fail_commits(k->inline_store, 0, STORE_IO);
    pass_seconds(k, 5);
    assert_int_equal(status, 0);
    expect_seals(k, "ann");
}

/* And not for ever: each try costs what was staged beside it.  Others are served, nothing begins in
 * the slots, and nobody waits for them at a stop. */
static void test_seals_that_the_store_refuses_leave_their_slots_closed(void **state)
{
    static const enum store_error errors[] = {STORE_REFUSED, STORE_CORRUPT};
    struct kit *k = *state;
    for (size_t e = 0; e < countof(errors); e++) {
        struct slots bobs = {0}, anns = {0};
        int status = 1;
        kit_free_all(k);
        *state = k = kit_new();
        leave_seals(k);
        slots_add(&bobs, slot_of(STR("bob")));
        slots_add(&anns, slot_of(STR("ann")));
        hub_restore_slots(&k->hub, &bobs, NULL, (struct tenure){10, ""}, kit_on_ready, &status);
        kit_settle(k);
        assert_int_equal(status, 0);
        status = 1;
        store_inline_fail_commits(k->inline_store, 1000000, errors[e]);
        hub_restore_slots(&k->hub, &anns, NULL, (struct tenure){11, ""}, kit_on_ready, &status);
        pass_seconds(k, 100);
        assert_int_equal(status, errors[e]);
        store_inline_fail_commits(k->inline_store, 0, STORE_IO);
        pass_seconds(k, 5);
        assert_false(slots_has(&k->hub.open, slot_of(STR("ann"))));
        expect_seals(k, "bob");
        hub_drain(&k->hub);
        kit_pass(k, 1000);
        assert_true(hub_is_over(&k->hub));
    }
}

/* --- what cannot be read costs no more than it must ------------------------------------------- */

static bool is_open(const struct kit *k, const char *owner)
{
    return slots_has(&k->hub.open, slot_of(str_of(owner)));
}

/* Few of ann's, and a notice, a webhook and a schedule would be beside them: those are rows.  True
 * while the question is one about all of the slots. */
static bool begin_again_after(struct kit *k, unsigned first, enum store_error error)
{
    int status;
    start_few(k);
    struct client *c = client_new(k, "ann");
    client_say(c, json("{'type':'schedule','chat':{'message':'tick'},'every_s':3600}"));
    client_await(c, json("'type':'scheduled'"));
    client_free(c);
    open_next_home(k);
    fail_reads(first, 1, error);
    take_all_slots(k, 10, &status);
    kit_settle(k);
    if (slots_count(&k->hub.open) > 0 || status == 0)
        return false;
    assert_int_equal(status, error);
    assert_int_equal(slots_count(&k->hub.unrepaired), 0);
    assert_int_equal(k->hub.n_live, 0);
    assert_null(owner_find(&k->hub, STR("ann")));
    take_all_slots(k, 11, &status);
    kit_settle(k);
    assert_int_equal(status, 0);
    expect_few_orphans(k);
    assert_int_equal(k->hub.n_schedules, 1);
    return true;
}

static void test_a_repair_that_fails_may_begin_again(void **state)
{
    static const enum store_error errors[] = {STORE_REFUSED, STORE_CORRUPT};
    struct kit *k = *state;
    unsigned n = 0;
    for (unsigned first = 1; n + 1 == first; first++) {
        kit_free_all(k);
        *state = k = kit_new();
        n += begin_again_after(k, first, errors[first % 2]);
    }
    assert_in_range(n, 8, 12); /* revoked owners, tails, notices, live tasks, three kinds of rows */
}

/* Up to where a task's own questions begin: n of them are refused, or damaged. */
static void fail_task_reads(struct kit *k, unsigned n, enum store_error error, int *ret_status)
{
    start_tasks(k);
    open_next_home(k);
    take_all_slots(k, 10, ret_status);
    while (store_inline_next(k->inline_store) != QUERY_BLOCKS)
        assert_true(kit_step(k));
    fail_reads(1, n, error);
    kit_settle(k);
}

static void test_tasks_that_the_store_refuses_are_read_later(void **state)
{
    struct kit *k = *state;
    for (unsigned n = 1; n < 4; n++) {
        int status;
        kit_free_all(k);
        *state = k = kit_new();
        fail_task_reads(k, n, STORE_REFUSED, &status);
        assert_int_equal(status, STORE_REFUSED);
        assert_false(is_open(k, "bob")); /* the first task is his */
        assert_int_equal(is_open(k, "ann"), n == 1);
        assert_int_equal(slots_count(&k->hub.open), N_SLOTS - (n == 1 ? 1 : 2));
        assert_int_equal(slots_count(&k->hub.unrepaired), n == 1 ? 1 : 2);
        struct retention *retention = &k->hub.retention;
        k->hub.o.retention.owner_bytes = 1 << 30;
        retention->runs = retention->asking = true; /* so that it takes no step */
        pass_seconds(k, 3);
        assert_true(retention->sees_full); /* who came late may be full as well */
        retention->runs = retention->asking = false;
        assert_int_equal(status, REPAIRED_MORE);
        assert_int_equal(slots_count(&k->hub.open), N_SLOTS);
        assert_int_equal(slots_count(&k->hub.unrepaired), 0);
        expect_orphans(k);
        kit_crash(k);
        expect_orphans(k);
    }
}

/* They are asked for once a minute at last, and hold no stop. */
static void test_tasks_that_the_store_refuses_for_ever_hold_nothing_up(void **state)
{
    struct kit *k = *state;
    int status;
    fail_task_reads(k, 1000000, STORE_REFUSED, &status);
    pass_seconds(k, 600);
    unsigned before = kit_passed[KIT_READ];
    pass_seconds(k, 600);
    assert_int_equal(kit_passed[KIT_READ] - before, 10 * TASKS);
    assert_int_equal(slots_count(&k->hub.open), N_SLOTS - 2);
    hub_drain(&k->hub);
    kit_pass(k, 1000);
    assert_true(hub_is_over(&k->hub));
    kit_fault.times = 0;
    kit_crash(k);
    expect_orphans(k);
}

static void test_a_damaged_task_shuts_its_slot_alone(void **state)
{
    struct kit *k = *state;
    int status;
    start_tasks(k);
    open_next_home(k);
    take_all_slots(k, 10, &status);
    while (store_inline_next(k->inline_store) != QUERY_INBOX)
        assert_true(kit_step(k));
    fail_reads(1, 1, STORE_CORRUPT);
    kit_settle(k);
    assert_int_equal(status, STORE_CORRUPT);
    assert_int_equal(slots_count(&k->hub.open), N_SLOTS - 1);
    assert_int_equal(slots_count(&k->hub.unrepaired), 1);
    assert_int_equal(is_open(k, "ann") + is_open(k, "bob"), 1);
    pass_seconds(k, 100);
    assert_int_equal(slots_count(&k->hub.unrepaired), 1);
    hub_drain(&k->hub);
    kit_pass(k, 1000);
    assert_true(hub_is_over(&k->hub));
}

#define HUB_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HUB_TEST(test_hub_restore_reads_tasks_side_by_side),
        HUB_TEST(test_hub_restore_that_fails_waits_for_what_it_asked),
        HUB_TEST(test_hub_restore_is_closed_while_it_reads),
        HUB_TEST(test_slots_wait_for_a_store_that_others_share),
        HUB_TEST(test_other_owners_are_served_meanwhile),
        HUB_TEST(test_what_is_not_as_it_was_written_is_not_waited_for),
        HUB_TEST(test_a_home_may_end_while_its_slots_wait),
        HUB_TEST(test_slots_that_wait_hold_no_stop),
        HUB_TEST(test_ends_that_were_given_up_come_later),
        HUB_TEST(test_seals_that_were_given_up_are_put_again),
        HUB_TEST(test_seals_that_were_refused_are_put_once_more),
        HUB_TEST(test_seals_that_the_store_refuses_leave_their_slots_closed),
        HUB_TEST(test_a_repair_that_fails_may_begin_again),
        HUB_TEST(test_tasks_that_the_store_refuses_are_read_later),
        HUB_TEST(test_tasks_that_the_store_refuses_for_ever_hold_nothing_up),
        HUB_TEST(test_a_damaged_task_shuts_its_slot_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
