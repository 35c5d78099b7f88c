/* Forks and imports under way: what else is asked of the conversation that is made, and how many
 * there may be. */
#include "tests/support/hub_kit.h"

#define FORK "{'type':'fork','id':'f','conversation_id':'c','to':'%s'}"
#define SLOW_CONFLICT "is being made by a fork"

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

static struct client *owner_new(struct kit *k, const char *name)
{
    struct client *c = client_new(k, name);
    client_start(c, "c", "hi");
    run_end(k, kit_run(k, k->n_runs - 1), RUN_DONE, "");
    client_await(c, "task.completed");
    return c;
}

static void ask_fork(struct client *c, const char *to)
{
    char line[128];
    snprintf(line, sizeof line, json(FORK), to);
    client_say(c, line);
}

static void test_conversation_that_is_made_is_nobody_elses(void **state)
{
    struct kit *k = *state;
    struct client *c = owner_new(k, "ann"), *other = client_new(k, "ann");
    kit_hang(k, true);
    ask_fork(c, "d");
    ask_fork(other, "d");
    client_await(other, json("'code':'conflict'"));
    kit_hang(k, false);
    kit_settle(k);
    client_await(c, json("'forked'"));
    client_free(c);
    client_free(other);
}

/* A chat has no answer before the store's, and by then the other one is there. */
static void test_chat_and_delete_wait_for_the_fork(void **state)
{
    struct kit *k = *state;
    struct client *c = owner_new(k, "ann"), *other = client_new(k, "ann");
    kit_hang(k, true);
    ask_fork(c, "d");
    client_say(other, json("{'type':'delete','id':'d','conversation_id':'d'}"));
    assert_non_null(strstr(client_await(other, json("'code':'conflict'")), SLOW_CONFLICT));
    client_say(other, json("{'type':'chat','id':'m','conversation_id':'d','message':'me'}"));
    assert_non_null(strstr(client_await(other, json("'code':'conflict'")), SLOW_CONFLICT));
    kit_hang(k, false);
    kit_settle(k);
    client_await(c, json("'forked'"));
    client_start(other, "d", "me");
    client_free(c);
    client_free(other);
}

/* The last owner finds that there are enough in all.  A session's requests for one conversation are
 * carried out one after the other, so each fork has its own. */
static void test_so_many_are_under_way_and_no_more(void **state)
{
    static const char *const to[MAX_GRAFTS_PER_OWNER + 1] = {"d", "e", "f"};
    enum { OWNERS = MAX_GRAFTS / MAX_GRAFTS_PER_OWNER + 1 };
    struct kit *k = *state;
    struct client *clients[OWNERS][countof(to)];
    for (size_t i = 0; i < OWNERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "owner%zu", i);
        clients[i][0] = owner_new(k, name);
        for (size_t n = 1; n < countof(to); n++)
            clients[i][n] = client_new(k, name);
    }
    kit_hang(k, true);
    for (size_t i = 0; i < OWNERS; i++)
        for (size_t n = 0; n < countof(to); n++) {
            ask_fork(clients[i][n], to[n]);
            if (n == MAX_GRAFTS_PER_OWNER || i == OWNERS - 1)
                client_await(clients[i][n], json("'code':'overloaded'"));
        }
    assert_int_equal(k->hub.stats.limit_hits[LIMIT_GRAFTS], OWNERS + MAX_GRAFTS_PER_OWNER);
    kit_hang(k, false);
    kit_settle(k);
    assert_int_equal(k->hub.n_grafts, 0);
    for (size_t i = 0; i < OWNERS; i++)
        for (size_t n = 0; n < countof(to); n++) {
            if (n == MAX_GRAFTS_PER_OWNER || i == OWNERS - 1)
                ask_fork(clients[i][n], to[n]); /* there is room again */
            client_await(clients[i][n], json("'forked'"));
            client_free(clients[i][n]);
        }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_conversation_that_is_made_is_nobody_elses),
        TEST(test_chat_and_delete_wait_for_the_fork),
        TEST(test_so_many_are_under_way_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
