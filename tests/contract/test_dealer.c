/* Nodes that deal out their slots by what these cost, in a world with a clock of its own: there is
 * no hub and no store, but the plan (gateway/cluster/dealer.h) and what each takes
 * (store_nodes.h). */
#include "gateway/cluster/dealer.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/t.h"

#define BEAT_MS 2000
#define PATIENCE_MS 20000
#define NODES 5
#ifdef T_ADDRESS
#define ROUNDS 30
#else
#define ROUNDS 300
#endif

struct place {
    struct dealer dealer;
    struct slot_use use[N_SLOTS];
};

static struct world {
    struct store_view v;
    struct place *places[NODES];
    msec_t now;
    uint64_t random;
    unsigned tasks[N_SLOTS], rate[N_SLOTS]; /* events a second, of all of a slot's tasks */
    bool bound[N_SLOTS];                    /* its tasks cannot move */
    unsigned noise;                         /* percent by which a rate is off, each time anew */
    unsigned moved;                         /* slots, so far */
} w;

static void join(unsigned i)
{
    w.v.nodes[w.v.n++] = (struct store_node){.incarnation = 10 + i, .state = NODE_LIVES, .beat = 1};
    w.places[i] = xcalloc(sizeof *w.places[i]);
    w.places[i]->dealer = (struct dealer){.patience = PATIENCE_MS, .percent = 25};
}

static void world_new(unsigned n)
{
    memset(&w, 0, sizeof w);
    w.random = 1;
    w.now = 1000;
    for (unsigned i = 0; i < n; i++)
        join(i);
    for (unsigned i = 0; i < N_SLOTS; i++)
        w.v.home[i] = 10 + i % n;
}

static void world_end(void)
{
    for (unsigned i = 0; i < w.v.n; i++)
        free(w.places[i]);
}

static void take_free(unsigned at)
{
    unsigned n = store_view_claims(&w.v, 10 + at);
    for (unsigned i = 0; i < N_SLOTS && n > 0; i++) {
        if (w.v.home[i] != 0)
            continue;
        w.v.home[i] = 10 + at;
        n--;
    }
}

/* A node's work between two beats: all of its tasks go along with a slot. */
static void work(unsigned at)
{
    struct place *p = w.places[at];
    for (unsigned i = 0; i < N_SLOTS; i++) {
        bool is_home = w.v.home[i] == 10 + at;
        unsigned rate = w.rate[i] * (100 - w.noise + (unsigned)t_below(&w.random, 2 * w.noise + 1));
        p->use[i].tasks = is_home ? w.tasks[i] : 0;
        p->use[i].events += is_home ? rate * (BEAT_MS / 1000) / 100 : 0;
    }
}

static void choose(unsigned at)
{
    struct choices among = {0};
    struct slots ours = {0}, go, some;
    for (unsigned i = 0; i < N_SLOTS; i++) {
        if (w.v.home[i] != 10 + at)
            continue;
        slots_add(&ours, i);
        if (w.tasks[i] == 0)
            slots_add(&among.idle, i);
        else if (!w.bound[i])
            slots_add(&among.live, i);
    }
    dealer_measure(&w.places[at]->dealer, w.places[at]->use, &ours, w.now);
    w.v.nodes[at].load = w.places[at]->dealer.told;
    struct dealt dealt = dealer_look(&w.places[at]->dealer, &w.v, 10 + at, w.now);
    dealer_choose(&w.places[at]->dealer, &dealt, &among, true, &go, &some);
    unsigned n_live = 0;
    for (unsigned i = 0; i < N_SLOTS; i++) {
        if (!slots_has(&go, i) && !slots_has(&some, i))
            continue;
        n_live += slots_has(&some, i);
        w.v.home[i] = 0;
        w.moved++;
    }
    assert_true(n_live <= DEALER_PARTS);
}

/* Each node in its turn. */
static void beat(void)
{
    w.now += BEAT_MS;
    for (unsigned i = 0; i < w.v.n; i++)
        work(i);
    for (unsigned i = 0; i < w.v.n; i++) {
        choose(i);
        take_free(i);
    }
}

static void beats(unsigned n)
{
    while (n-- > 0)
        beat();
}

/* By what really happens there. */
static unsigned weight_at(unsigned at)
{
    unsigned sum = 0;
    for (unsigned i = 0; i < N_SLOTS; i++)
        sum += w.v.home[i] == 10 + at ? 1 + w.tasks[i] * DEALER_TASK + w.rate[i] : 0;
    return sum;
}

static void assert_even(unsigned percent)
{
    unsigned sum = 0;
    for (unsigned i = 0; i < w.v.n; i++)
        sum += weight_at(i);
    for (unsigned i = 0; i < w.v.n; i++)
        assert_in_range(weight_at(i) * w.v.n * 100, 0, sum * (100 + percent));
}

static void assert_even_numbers(void)
{
    for (unsigned i = 0; i < w.v.n; i++)
        assert_in_range(store_view_count(&w.v, 10 + i), N_SLOTS / w.v.n, N_SLOTS / w.v.n + 1);
    assert_int_equal(store_view_count(&w.v, 0), 0);
}

/* So many slots of one node, each with a task that says so much. */
static void make_busy(unsigned at, unsigned n, unsigned rate)
{
    for (unsigned i = 0; i < N_SLOTS && n > 0; i++) {
        if (w.v.home[i] != 10 + at)
            continue;
        w.tasks[i] = 1;
        w.rate[i] = rate;
        n--;
    }
}

/* --- by number -------------------------------------------------------------------------------- */

static void test_slots_in_which_nothing_happens_are_dealt_by_number(void **state)
{
    (void)state;
    world_new(1);
    for (unsigned n = 2; n <= NODES; n++) {
        unsigned before = w.moved;
        join(n - 1);
        beats(3);
        assert_even_numbers();
        assert_in_range(w.moved - before, N_SLOTS / n, N_SLOTS / n + 1); /* no other one moved */
    }
    unsigned before = w.moved;
    beats(100);
    assert_int_equal(w.moved, before);
    w.v.nodes[1].state = NODE_LEAVES;
    beats(3);
    assert_int_equal(store_view_count(&w.v, 11), 0);
    assert_int_equal(store_view_count(&w.v, 0), 0);
    world_end();
}

static void test_a_little_load_is_none(void **state)
{
    (void)state;
    world_new(3);
    make_busy(0, 10, 20);
    beats(100);
    assert_int_equal(w.moved, 0);
    join(3);
    beats(10);
    assert_even_numbers();
    world_end();
}

/* --- by load ---------------------------------------------------------------------------------- */

static void test_a_busy_node_gives_owners_away_once(void **state)
{
    (void)state;
    world_new(3);
    w.noise = 30;
    make_busy(0, 300, 40);
    beats(PATIENCE_MS / BEAT_MS - 1);
    assert_int_equal(w.moved, 0);
    beats(60);
    assert_even(25);
    unsigned before = w.moved;
    beats(1000); /* rates that are off by a third move nobody */
    assert_int_equal(w.moved, before);
    assert_in_range(w.moved, 1, 400);
    world_end();
}

static void test_a_short_burst_moves_nobody(void **state)
{
    (void)state;
    world_new(3);
    for (unsigned round = 0; round < 20; round++) {
        make_busy(0, 100, 40);
        beats(PATIENCE_MS / BEAT_MS / 4);
        memset(w.tasks, 0, sizeof w.tasks);
        memset(w.rate, 0, sizeof w.rate);
        beats(4 * PATIENCE_MS / BEAT_MS);
    }
    assert_int_equal(w.moved, 0);
    world_end();
}

/* All that it has besides goes, but for a part of its share: it stays somebody's home. */
static void test_what_cannot_move_drives_the_others_out(void **state)
{
    (void)state;
    world_new(2);
    make_busy(0, 5, 400);
    for (unsigned i = 0; i < N_SLOTS; i++)
        w.bound[i] = w.tasks[i] > 0;
    beats(200);
    for (unsigned i = 0; i < N_SLOTS; i++)
        assert_true(w.tasks[i] == 0 || w.v.home[i] == 10);
    assert_even(25);
    assert_true(store_view_count(&w.v, 10) >= N_SLOTS / 2 / 4);
    unsigned before = w.moved;
    beats(500);
    assert_int_equal(w.moved, before);
    world_end();
}

static void test_one_that_joins_busy_ones_has_its_part_at_once(void **state)
{
    (void)state;
    world_new(2);
    make_busy(0, 400, 20);
    make_busy(1, 400, 20);
    beats(100);
    assert_int_equal(w.moved, 0);
    join(2);
    beats(2);
    assert_true(store_view_count(&w.v, 12) > 0);
    beats(60);
    assert_even(25);
    unsigned before = w.moved;
    beats(500);
    assert_int_equal(w.moved, before);
    world_end();
}

static void test_when_all_is_quiet_again_numbers_are_even(void **state)
{
    (void)state;
    world_new(3);
    make_busy(0, 5, 400);
    beats(100);
    assert_true(w.moved > 0);
    memset(w.tasks, 0, sizeof w.tasks);
    memset(w.rate, 0, sizeof w.rate);
    beats(100);
    assert_even_numbers();
    world_end();
}

/* --- claims ----------------------------------------------------------------------------------- */

static void test_all_that_is_free_is_taken_by_those_who_have_less(void **state)
{
    (void)state;
    uint64_t random = t_seed();
    for (unsigned round = 0; round < t_often(ROUNDS, ROUNDS / 10); round++) {
        world_new(1 + (unsigned)t_below(&random, NODES));
        unsigned free_ones = 0, claimed = 0;
        for (unsigned i = 0; i < w.v.n; i++)
            w.v.nodes[i].load = t_below(&random, 2) ? (uint32_t)t_below(&random, 100000) : 0;
        for (unsigned i = 0; i < N_SLOTS; i++)
            if (t_below(&random, 3) == 0)
                w.v.home[i] = 0;
        free_ones = store_view_count(&w.v, 0);
        for (unsigned i = 0; i < w.v.n; i++) {
            struct store_deal d;
            unsigned n = store_view_claims(&w.v, 10 + i);
            store_view_deal(&w.v, 10 + i, &d);
            if (d.by_load && d.weight * (int64_t)d.n >= d.sum)
                assert_int_equal(n, 0);
            claimed += n;
        }
        assert_true(claimed >= free_ones);
        world_end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots_in_which_nothing_happens_are_dealt_by_number),
        cmocka_unit_test(test_a_little_load_is_none),
        cmocka_unit_test(test_a_busy_node_gives_owners_away_once),
        cmocka_unit_test(test_a_short_burst_moves_nobody),
        cmocka_unit_test(test_what_cannot_move_drives_the_others_out),
        cmocka_unit_test(test_one_that_joins_busy_ones_has_its_part_at_once),
        cmocka_unit_test(test_when_all_is_quiet_again_numbers_are_even),
        cmocka_unit_test(test_all_that_is_free_is_taken_by_those_who_have_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
