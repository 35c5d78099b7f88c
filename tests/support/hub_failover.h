/* hub_failover -- the server of several hubs becomes another one, which has lost a tail: what each
 * does then (gateway/store/store_pg_redo.c), in the world of hub_nodes.
 *
 * Shape:    the standby is cut off, and has what was there then; later it is the server.
 * Thread:   the test's.
 */
#ifndef TESTS_SUPPORT_HUB_FAILOVER_H
#define TESTS_SUPPORT_HUB_FAILOVER_H

#include "tests/support/hub_nodes.h"

static void end_row(int64_t incarnation)
{
    w.t.rows[incarnation].dead = true;
    for (unsigned i = 0; i < OWNERS; i++)
        if (w.t.home[i] == incarnation)
            w.t.home[i] = 0;
}

static void end_raised(struct node *n)
{
    raise_epoch();
    end_row(n->incarnation);
    n->n_fenced++;
}

/* The newest claim is: so are all before it. */
static bool claim_is_kept(const struct node *n)
{
    return n->claimed == 0 || w.t.moved[n->claimed_owner] >= n->claimed;
}

/* False: too few are kept. */
static bool send_again(struct node *n)
{
    struct row *row = &w.t.rows[n->incarnation];
    for (size_t i = n->first_kept; i < n->n_kept && row->number < n->last; i++) {
        if (n->kept[i].from > row->number)
            return false;
        if (n->kept[i].from < row->number)
            continue;
        apply(n, n->kept[i].batch);
        w.redone++;
    }
    return row->number >= n->last;
}

static bool misses_others(const struct node *n)
{
    for (int64_t x = 1; x < (int64_t)w.n_rows; x++)
        if (n->seen[x] && w.t.rows[x].gone)
            return true;
    return false;
}

/* As gateway/store/store_pg_redo.c. */
static void ask(struct node *n)
{
    struct row *row = &w.t.rows[n->incarnation];
    n->server = w.server;
    n->sure = false;
    if (row->gone || (!row->dead && !claim_is_kept(n))) {
        end_raised(n);
        return;
    }
    if (row->dead) {
        n->n_fenced++;
        return;
    }
    if (!send_again(n)) {
        end_raised(n);
        return;
    }
    if (misses_others(n))
        raise_epoch();
    memset(n->seen, 0, sizeof n->seen); /* it begins to watch anew */
    row->server = w.t.server = w.server;
    if (n->kit.hub.epoch > w.t.epoch) { /* raised in what was lost */
        w.t.epoch = n->kit.hub.epoch;
        w.t.n_before = w.n_before;
    }
    tell_epoch(n);
    for (unsigned i = 0; i < OWNERS; i++) /* a release that was lost */
        if (w.t.home[i] == n->incarnation && !n->mine[i] && !n->goes[i]) {
            n->mine[i] = n->comes[i] = true;
        }
}

static void ask_others(struct node *n)
{
    for (size_t x = 1; x < w.n_rows; x++)
        if (!w.t.rows[x].dead && !w.t.rows[x].gone && w.t.rows[x].server != w.server)
            return;
    n->sure = true;
    if (w.t.epoch > n->range)
        n->range = ++w.number;
    tell_epoch(n);
}

/* The standby has all up to here. */
static void cut_standby_off(void)
{
    w.has_copy = true;
    w.copy = w.t;
}

static void fail_over(void)
{
    struct tables before = w.t;
    w.has_copy = false;
    w.losses++;
    w.quiet += w.losses > 1 && w.raised == w.raised_before; /* the one before cost nothing */
    w.raised_before = w.raised;
    w.server++;
    w.t = w.copy;
    /* One that was raised in what is lost, and that nobody had heard of, is none. */
    bool told = w.told > w.t.epoch;
    w.epoch = told ? w.told : w.t.epoch;
    w.n_before = told ? w.n_before_told : w.t.n_before;
    for (size_t x = 1; x < w.n_rows; x++)
        w.t.rows[x].gone = w.copy.rows[x].server == 0;
    store_memory_ops.close(w.memory);
    w.memory = store_memory_new();
    for (size_t i = 0; i < w.t.n_log; i++)
        assert_int_equal(store_memory_ops.commit(w.memory, w.log[i].batch), STORE_OK);
    for (size_t i = w.t.n_log; i < before.n_log; i++)
        batch_free(w.log[i].batch);
}

#endif
