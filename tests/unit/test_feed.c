/* Feeds against a naive one: an array of all that was ever put, and an index for each reader. */
#include "core/feed.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/t.h"

#define MAX_PUT 20000
#define N_THINGS 12
#define N_READERS 5

struct put {
    struct feed_entry **slot; /* NULL for a message */
    char line[40];
    char message_id[TASK_ID_LEN + 1];
    bool replaced;
};

struct reader {
    struct feed_reader feed;
    bool joined;
    size_t at; /* of the puts: the first that it has not passed */
    unsigned woken, lost;
};

static struct put puts_[MAX_PUT];
static size_t n_puts, n_joined;
static uint64_t rng;

static void on_wake(struct feed_reader *r)
{
    container_of(r, struct reader, feed)->woken++;
}

static void on_lost(struct feed_reader *r)
{
    container_of(r, struct reader, feed)->lost++;
}

static void put(struct feed *f, struct feed_entry **slot)
{
    struct put *p = &puts_[n_puts];
    *p = (struct put){.slot = slot};
    int n = snprintf(p->line, sizeof p->line, "line %zu", n_puts);
    if (!slot)
        snprintf(p->message_id, sizeof p->message_id, "%026zu", n_puts);
    for (size_t i = 0; slot && i < n_puts; i++)
        puts_[i].replaced = puts_[i].replaced || puts_[i].slot == slot;
    feed_put(f, slot, slot ? STR_NULL : str_of(p->message_id), (struct str){p->line, (size_t)n});
    n_puts++;
}

static const struct put *expected(struct reader *r)
{
    for (; r->at < n_puts; r->at++) {
        const struct put *p = &puts_[r->at];
        bool skipped = p->message_id[0] && strcmp(p->message_id, r->feed.skip_id) <= 0;
        if (!p->replaced && !skipped)
            return p;
    }
    return NULL;
}

static void read_some(struct feed *f, struct reader *r, size_t n)
{
    for (; n > 0; n--) {
        const struct put *p = expected(r);
        assert_int_equal(feed_peek(f, &r->feed), p ? strlen(p->line) : 0);
        struct str line = feed_next(f, &r->feed);
        if (!p) {
            assert_null(line.p);
            return;
        }
        assert_true(str_eq(line, str_of(p->line)));
        r->at++;
    }
}

static void join(struct feed *f, struct reader *r)
{
    *r = (struct reader){.joined = true, .at = n_puts, .feed = {.wake = on_wake, .lost = on_lost}};
    feed_join(f, &r->feed);
    n_joined++;
}

static void leave(struct feed *f, struct reader *r)
{
    feed_leave(f, &r->feed);
    r->joined = false;
    n_joined--;
    assert_int_equal(f->lines != NULL, n_joined > 0); /* with no reader nothing is kept at all */
}

static void step(struct feed *f, struct feed_entry **slots, struct reader *readers)
{
    struct reader *r = &readers[t_below(&rng, N_READERS)];
    switch (t_below(&rng, 8)) {
    case 0:
        if (r->joined)
            leave(f, r);
        else
            join(f, r);
        break;
    case 1: /* a snapshot that holds the messages so far */
        if (r->joined && n_puts)
            snprintf(r->feed.skip_id, sizeof r->feed.skip_id, "%026zu", n_puts - 1);
        break;
    case 2:
    case 3:
        if (r->joined)
            read_some(f, r, 1 + t_below(&rng, 6));
        break;
    case 4: feed_trim(f); break;
    case 5: put(f, NULL); break;
    default: put(f, &slots[t_below(&rng, N_THINGS)]); break;
    }
}

static void test_feed_random_against_naive(void **state)
{
    (void)state;
    rng = t_seed();
    for (int life = 0; life < 20; life++) {
        struct feed f;
        struct feed_entry *slots[N_THINGS] = {NULL};
        struct reader readers[N_READERS] = {{.joined = false}};
        feed_init(&f);
        n_puts = 0;
        for (int i = 0; i < 900; i++)
            step(&f, slots, readers);
        for (size_t i = 0; i < N_READERS; i++) {
            if (!readers[i].joined)
                continue;
            read_some(&f, &readers[i], MAX_PUT);
            assert_int_equal(readers[i].lost, 0);
            feed_trim(&f);
            leave(&f, &readers[i]);
        }
        for (size_t i = 0; i < N_THINGS; i++)
            feed_forget(&slots[i]);
        feed_done(&f);
    }
}

static void test_feed_trim_keeps_what_one_has_not_read(void **state)
{
    (void)state;
    struct feed f;
    struct reader fast, slow;
    feed_init(&f);
    n_puts = 0;
    join(&f, &fast);
    join(&f, &slow);
    for (int i = 0; i < 3; i++)
        put(&f, NULL);
    read_some(&f, &fast, 3);
    read_some(&f, &slow, 1);
    feed_trim(&f);
    assert_int_equal(f.lines->n_entries, 2);
    read_some(&f, &slow, 9);
    feed_trim(&f);
    assert_int_equal(f.lines->n_entries, 0);
    leave(&f, &fast);
    leave(&f, &slow);
    feed_done(&f);
}

static void test_feed_reader_too_far_behind_is_lost(void **state)
{
    (void)state;
    struct feed f;
    struct reader fast, slow;
    feed_init(&f);
    n_puts = 0;
    join(&f, &fast);
    join(&f, &slow);
    for (int i = 0; i < FEED_MAX_ENTRIES; i++) {
        put(&f, NULL);
        read_some(&f, &fast, 9);
    }
    assert_int_equal(slow.lost, 0);
    assert_int_equal(slow.woken, FEED_MAX_ENTRIES);
    put(&f, NULL);
    assert_int_equal(slow.lost, 1);
    assert_int_equal(fast.lost, 0);
    read_some(&f, &fast, 9);
    assert_int_equal(f.lines->n_entries, FEED_MAX_ENTRIES);
    leave(&f, &slow);
    leave(&f, &fast);
    feed_done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_feed_random_against_naive),
        cmocka_unit_test(test_feed_trim_keeps_what_one_has_not_read),
        cmocka_unit_test(test_feed_reader_too_far_behind_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
