/* The source of benchmarks for core/agent.h: as many events as requested. */
#include "gateway/agents/agent_source.h"
#include "tests/support/run_probe.h"

static struct source_settings settings = {&loop};

static void start(const char *input)
{
    finish();
    assert_string_equal(probe_start(&agent_source_ops, &settings, str_of(input), NULL), "");
}

static void expect_events(const char *input, size_t events, size_t bytes)
{
    start(input);
    probe.silent = true;
    expect_end(RUN_DONE, "");
    assert_int_equal(probe.n_events, events);
    assert_int_equal(probe.tokens.len, events * bytes);
}

static void test_source_says_what_the_input_asks(void **state)
{
    (void)state;
    expect_events(json("{'events':1000,'bytes':120,'burst':16,'interval_ms':0}"), 1000, 120);
    expect_events(json(" {'events': 10, 'bytes': 7} "), 10, 7);
    expect_events("events=33 bytes=1 burst=10", 33, 1);
    expect_events("bytes=500000 events=2\n", 2, 500000);
    expect_events("{}", 1000, 120);
    expect_events("", 1000, 120);
    expect_events("events=0", 0, 0);
    start("events=1 bytes=5");
    expect_end(RUN_DONE, "");
    assert_string_equal(text_of(&probe.log), json("token {'text':'abcde'}\n"));
}

static void test_source_refuses_what_it_cannot(void **state)
{
    const struct {
        const char *input, *error;
    } table[] = {
        {"hello", "source: \"hello\" is not name=number"},
        {"events=x", "source: \"events=x\" is not name=number"},
        {"events=", "source: \"events=\" is not name=number"},
        {"events=5x", "source: \"events=5x\" is not name=number"},
        {"speed=5", "source: unknown name \"speed\""},
        {"events=-1", "source: \"events\" must be from 0 to 9007199254740991"},
        {"bytes=0", "source: \"bytes\" must be from 1 to 524288"},
        {"burst=0", "source: \"burst\" must be from 1 to 65536"},
        {json("{'burst':70000}"), "source: \"burst\" must be from 1 to 65536"},
        {json("{'events':1.5}"), "source: a value is not an integer"},
        {json("{'events':'1'}"), "source: a value is not an integer"},
        {json("{'x':1}"), "source: unknown name \"x\""},
    };
    (void)state;
    for (size_t i = 0; i < countof(table); i++)
        assert_string_equal(probe_start(&agent_source_ops, &settings, str_of(table[i].input), NULL),
                            table[i].error);
}

static void test_source_burst_is_per_turn_of_the_loop(void **state)
{
    (void)state;
    start("events=100 burst=7");
    for (size_t turn = 1; turn <= 5; turn++) {
        turn_loop(1);
        assert_int_equal(probe.n_events, turn * 7);
    }
}

static void test_source_interval_holds(void **state)
{
    (void)state;
    uint64_t begun = uv_hrtime();
    start("events=10 burst=2 interval_ms=20");
    expect_end(RUN_DONE, "");
    uint64_t ms = (uv_hrtime() - begun) / 1000000;
    assert_true(ms >= 75);
    assert_int_equal(probe.n_events, 10);
}

static void test_source_pauses_and_goes_on(void **state)
{
    (void)state;
    start("events=50 burst=16");
    for (size_t n = 5; n < 50; n += 5) {
        probe.pause_at = n;
        agent_source_ops.unpause(probe.run);
        turn_loop(20);
        assert_int_equal(probe.n_events, n);
    }
    probe.pause_at = 50;
    agent_source_ops.unpause(probe.run);
    turn_loop(20);
    assert_false(probe.ended); /* the last was taken, but no more is wanted */
    agent_source_ops.unpause(probe.run);
    expect_end(RUN_DONE, "");
    assert_int_equal(probe.n_events, 50);
}

static void test_source_cancel_and_kill_end_it_at_once(void **state)
{
    static const char *const inputs[] = {"events=1000000000", "interval_ms=3600000"};
    void (*const ways[])(struct run *) = {agent_source_ops.cancel, agent_source_ops.kill};
    (void)state;
    for (size_t i = 0; i < 8; i++) {
        start(inputs[i % 2]);
        probe.pause_at = i < 4 ? 0 : 3;
        turn_loop(5);
        assert_true(agent_source_ops.deliver(probe.run, str_of(json("{'type':'cancel'}"))));
        ways[i / 2 % 2](probe.run);
        assert_false(probe.ended);
        turn_loop(2);
        expect_end(RUN_FAILED, "cancelled");
        agent_source_ops.cancel(probe.run);
        agent_source_ops.unpause(probe.run);
        assert_false(agent_source_ops.deliver(probe.run, STR("{}")));
        turn_loop(2);
    }
}

static void cancel_inside(struct probe *p)
{
    agent_source_ops.cancel(p->run);
}

static void test_source_cancel_from_inside_an_event(void **state)
{
    (void)state;
    start("events=1");
    probe.on_event = cancel_inside;
    expect_end(RUN_FAILED, "cancelled");
    assert_int_equal(probe.n_events, 1);
}

static void test_source_free_at_any_time(void **state)
{
    (void)state;
    for (int n = 0; n < 8; n++) {
        start(n % 2 ? "events=1000" : "events=1000 interval_ms=1");
        turn_loop(n);
        finish();
        uv_run(&loop, UV_RUN_DEFAULT);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_source_says_what_the_input_asks),
        TEST(test_source_refuses_what_it_cannot),
        TEST(test_source_burst_is_per_turn_of_the_loop),
        TEST(test_source_interval_holds),
        TEST(test_source_pauses_and_goes_on),
        TEST(test_source_cancel_and_kill_end_it_at_once),
        TEST(test_source_cancel_from_inside_an_event),
        TEST(test_source_free_at_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
