/* The memory of a live task: a silent one has its record, its stream and its last lines, and no
 * more; what it needs at work comes with the work. */
#include <malloc.h>

#include "tests/support/hub_kit.h"

#define HEAP_HEADER 8 /* of each piece, beside what malloc_usable_size says */

static struct client *c;

static int setup(void **state)
{
    *state = kit_new();
    c = client_new(*state, "ann");
    return 0;
}

static int teardown(void **state)
{
    client_free(c);
    kit_free_all(*state);
    return 0;
}

static struct task *task_of(struct kit *k, const char *task)
{
    struct stream *s = hub_find_stream(&k->hub, STR("ann"), STR("c"), str_of(task));
    assert_non_null(s);
    assert_non_null(s->task);
    return s->task;
}

static size_t piece(const void *p)
{
    return p ? malloc_usable_size((void *)(uintptr_t)p) + HEAP_HEADER : 0;
}

/* The target is 640 bytes beside the tail (bench/README.md, live): that leaves 190 for a longer
 * input and for what the store keeps. */
static void test_hub_silent_task_holds_its_record_and_its_tail_alone(void **state)
{
    struct kit *k = *state;
    k->hub.o.limits.processes = 1;
    client_start(c, "c", "hi");
    const char *id = client_start(c, "c", "wait");
    assert_int_equal(k->n_runs, 1);
    const struct task *t = task_of(k, id);
    assert_null(t->work);
    assert_null(t->stream->cached);
    assert_ptr_equal(t->stream->names, t->conversation->names);
    assert_true(t->stream->tail.cap - t->stream->tail.len <= 16);
    size_t held = piece(t) + piece(t->stream) + piece(t->fixed) + piece(t->stream->tail.bytes) -
                  t->stream->tail.len;
    assert_true(held <= 450);
    kit_pass(k,
             TAIL_AGE_MS + 1000); /* sealed by now: what it said lies in the store and the cache */
    assert_int_equal(t->stream->tail.len, 0);
    assert_int_equal(t->stream->tail.cap, 0);
    assert_null(t->work);
}

/* Nobody asks for it again: the store has it, for a repeated request and for the results. */
static void test_hub_running_task_lets_go_of_its_input(void **state)
{
    static const char request[] =
        "{\"type\":\"chat\",\"id\":\"1\",\"conversation_id\":\"c\",\"message\":"
        "\"a long story\",\"name\":\"teller\",\"request_key\":\"k\","
        "\"metadata\":{\"a\":1}}";
    struct kit *k = *state;
    k->hub.o.limits.processes = 0;
    client_say(c, request);
    const char *id = line_field(client_await(c, json("'started'")), "task_id");
    const struct task *t = task_of(k, id);
    assert_text(task_field(t, FIELD_input), "a long story");
    k->hub.o.limits.processes = 1;
    kit_settle(k);
    assert_string_equal(kit_run(k, 0)->input, "a long story");
    assert_null_span(task_field(t, FIELD_input));
    assert_text(task_field(t, FIELD_name), "teller");
    assert_text(task_field(t, FIELD_metadata), json("{'a':1}"));
    assert_non_null(t->work);
    assert_null(t->work->inbox);
    client_say(c, request);
    const char *again = client_await(c, json("'repeated':true"));
    assert_non_null(strstr(again, id));
    assert_int_equal(k->n_runs, 1);
}

/* It may wait with messages, and end so: both without a run. */
static void test_hub_task_that_never_ran_keeps_its_messages_and_ends(void **state)
{
    struct kit *k = *state;
    k->hub.o.limits.processes = 0;
    const char *id = client_start(c, "c", "hi");
    client_ask(c, "respond", "c", id, json(",'input_id':'q','answer':'x'"));
    client_await(c, json("'not_found'"));
    assert_null(task_of(k, id)->work);
    client_ask(c, "send", "c", id, json(",'content':'more'"));
    client_await(c, json("'ok'"));
    assert_non_null(task_of(k, id)->work);
    client_ask(c, "cancel", "c", id, "");
    client_await(c, json("'event':'task.failed'"));
    client_ask(c, "task", "c", id, "");
    const char *told = client_await(c, json("'type':'task'"));
    assert_non_null(strstr(told, json("'status':'cancelled'")));
    assert_non_null(
        strstr(told, json("'undelivered':[{'type':'message','from':'user','content':'more'}]")));
}

#define HUB_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HUB_TEST(test_hub_silent_task_holds_its_record_and_its_tail_alone),
        HUB_TEST(test_hub_running_task_lets_go_of_its_input),
        HUB_TEST(test_hub_task_that_never_ran_keeps_its_messages_and_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
