/* Reading on for many: eight clients read a long task each, with less and less of a cache. */
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

enum { READERS = 8, TOKENS = 400 }; /* of 4 KiB, in the task of each */

static struct {
    void (*query)(struct store_port *, const struct query *, store_query_fn, void *);
    store_query_fn done;
    size_t bytes; /* of blocks that are read from the store */
    size_t most;  /* that one read asked for */
} counted;

static void count_answer(void *arg, int status, struct answer *answer)
{
    for (size_t i = 0; i < answer->n_blocks; i++)
        counted.bytes += answer->blocks[i]->len;
    counted.done(arg, status, answer);
}

static void count_query(struct store_port *port, const struct query *q, store_query_fn done,
                        void *arg)
{
    if (q->kind == QUERY_BLOCKS) {
        counted.done = done; /* of all loads */
        counted.most = q->max_bytes > counted.most ? q->max_bytes : counted.most;
        done = count_answer;
    }
    counted.query(port, q, done, arg);
}

static bool has_query(struct kit *k)
{
    bool has = store_inline_hold(k->inline_store, false);
    if (has)
        store_inline_release(k->inline_store);
    return has;
}

/* A message for each reader, then a turn of the hub and what it asks of the store. */
static bool read_in_turn(struct kit *k, struct client **readers, int n)
{
    bool any = false;
    for (int i = 0; i < n; i++) {
        struct client *c = readers[i];
        if (!session_has_output(&c->session))
            continue;
        any = session_fill(&c->session, &c->got, MAX_MESSAGE_OUT) || any;
        buf_clear(&c->got);
    }
    kit_turn(k);
    while (has_query(k)) {
        any = true;
        kit_step(k);
    }
    return any;
}

static size_t bytes_read_by(struct kit *k, char ids[READERS][32], int n, size_t cache_bytes)
{
    struct client *readers[READERS];
    char line[256];
    kit_crash(k);
    k->hub.cache.max_bytes = cache_bytes;
    counted.bytes = counted.most = 0;
    counted.query = k->hub.port->query;
    k->hub.port->query = count_query;
    for (int i = 0; i < n; i++) {
        readers[i] = client_new(k, "ann");
        client_line(readers[i]);
        snprintf(line, sizeof line,
                 json("{'type':'resume','conversation_id':'c%d','task_id':'%s'}"), i, ids[i]);
        session_receive(&readers[i]->session, str_of(line));
        readers[i]->frozen = true;
    }
    bool reads = true;
    while (reads)
        reads = read_in_turn(k, readers, n);
    k->hub.port->query = counted.query;
    assert_int_equal(k->hub.cache.ahead_bytes, 0);
    for (int i = 0; i < n; i++)
        client_free(readers[i]);
    return counted.bytes;
}

/* Returns its id. */
static const char *finish_task(struct kit *k, struct client *c, const char *conversation)
{
    char line[4200];
    snprintf(line, sizeof line, json("{'event':'token','data':{'text':'%04000d'}}"), 7);
    const char *id = client_start(c, conversation, "hi");
    struct run *r = kit_run(k, k->n_runs - 1);
    for (int i = 0; i < TOKENS; i++)
        run_say(k, r, line);
    run_end(k, r, RUN_DONE, "");
    client_await(c, "task.completed");
    return id;
}

static void test_hub_what_is_read_ahead_for_many_is_there_when_they_come_to_it(void **state)
{
    struct kit *k = *state;
    char ids[READERS][32], conversation[8];
    struct client *c = client_new(k, "ann");
    for (int i = 0; i < READERS; i++) {
        snprintf(conversation, sizeof conversation, "c%d", i);
        snprintf(ids[i], sizeof ids[i], "%s", finish_task(k, c, conversation));
    }
    client_free(c);
    size_t once = bytes_read_by(k, ids, READERS, 64u << 20);
    assert_in_range(once, (size_t)READERS * TOKENS * 4000, SIZE_MAX);
    assert_in_range(bytes_read_by(k, ids, READERS, 8u << 20), once, once);
    assert_in_range(bytes_read_by(k, ids, READERS, 4u << 20), once, once * 5 / 4);
    assert_int_equal(counted.most, 512u << 10);
    /* A reader that is alone gets more at once, where the cache is large. */
    assert_in_range(bytes_read_by(k, ids, 1, 64u << 20), once / READERS, once / READERS + 1000);
    assert_int_equal(counted.most, 1u << 20);
    assert_in_range(bytes_read_by(k, ids, 1, 8u << 20), once / READERS, once / READERS + 1000);
    assert_int_equal(counted.most, 512u << 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_hub_what_is_read_ahead_for_many_is_there_when_they_come_to_it, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
