#include "core/journal.h"

#include <stdlib.h>

#include "core/backoff.h"

#define BACKOFF_FIRST_MS 10
#define BACKOFF_MAX_MS 1000

static void on_committed(void *arg, struct batch *batch, int status);

/* It is not known whether the batch will be committed, so it stays; only patience ends. */
static void on_late(struct timer *t)
{
    struct journal *j = container_of(t, struct journal, late);
    j->failing = true;
    j->n_tries = 0;
    j->events->late(j->arg);
}

static void journal_commit(struct journal *j)
{
    if (!j->failing)
        timer_arm(j->clock, &j->late, j->clock->now_ms + LATE_COMMIT_MS);
    j->port->commit(j->port, j->flying, on_committed, j);
}

static void on_retry(struct timer *t)
{
    struct journal *j = container_of(t, struct journal, retry);
    if (!j->flying || j->fenced) /* abandoned: the end of this turn asks the store again */
        return;
    journal_commit(j);
}

static void arm_age(struct journal *j)
{
    if (list_is_empty(&j->aging) || timer_is_armed(&j->age))
        return;
    const struct stream *oldest = list_item(j->aging.next, struct stream, to_seal);
    timer_arm(j->clock, &j->age, oldest->tail_since + TAIL_AGE_MS);
}

static void on_age(struct timer *t)
{
    struct journal *j = container_of(t, struct journal, age);
    list_each (it, &j->aging) {
        struct stream *s = list_item(it, struct stream, to_seal);
        if (s->tail_since + TAIL_AGE_MS > j->clock->now_ms)
            break;
        journal_want_seal(j, s);
    }
    arm_age(j);
}

void journal_init(struct journal *j, struct store_port *port, struct clock *clock,
                  struct block_cache *cache, const struct journal_events *events, void *arg)
{
    *j = (struct journal){.port = port,
                          .clock = clock,
                          .cache = cache,
                          .events = events,
                          .arg = arg,
                          .retry.fire = on_retry,
                          .age.fire = on_age,
                          .late.fire = on_late};
    list_init(&j->building_waiters);
    list_init(&j->flying_waiters);
    list_init(&j->dirty);
    list_init(&j->aging);
    list_init(&j->want_seal);
}

static void journal_begin(struct journal *j)
{
    j->building = batch_new();
    j->building_number++;
}

struct op *journal_put(struct journal *j, const struct op *op)
{
    if (!j->building)
        journal_begin(j);
    return batch_put(j->building, op);
}

static void begin_aging(struct journal *j, struct stream *s)
{
    if (list_is_in(&s->to_seal))
        return;
    s->tail_since = j->clock->now_ms;
    list_push(&j->aging, &s->to_seal);
    arm_age(j);
}

void journal_dirty(struct journal *j, struct stream *s, size_t bytes)
{
    j->pending_bytes += bytes;
    if (!list_is_in(&s->dirty))
        list_push(&j->dirty, &s->dirty);
    begin_aging(j, s);
}

void journal_want_seal(struct journal *j, struct stream *s)
{
    if (s->tail.len == 0 || s->wants_seal)
        return;
    list_remove(&s->to_seal);
    list_push(&j->want_seal, &s->to_seal);
    s->wants_seal = true;
}

static void forget_seal(struct stream *s)
{
    list_remove(&s->to_seal);
    s->wants_seal = false;
}

static bool has_work(const struct journal *j)
{
    return (j->building && j->building->n_ops) || !list_is_empty(&j->dirty);
}

void journal_wait(struct journal *j, struct waiter *w)
{
    if (has_work(j))
        list_push(&j->building_waiters, &w->node);
    else if (j->flying)
        list_push(&j->flying_waiters, &w->node);
    else
        w->done(w, 0);
}

static void board(struct journal *j, struct stream *s)
{
    if (j->n_aboard == j->cap_aboard) {
        j->cap_aboard = j->cap_aboard ? j->cap_aboard * 2 : 16;
        j->aboard = xrealloc(j->aboard, j->cap_aboard * sizeof *j->aboard);
    }
    s->pins++;
    j->aboard[j->n_aboard++] = s;
}

/* False when there is no memory for the block now: its lines go into the journal instead. */
static bool seal(struct journal *j, struct stream *s)
{
    uint64_t fresh = s->next - 1 - s->head;
    struct block *b = stream_seal(s);
    if (!b)
        return false;
    forget_seal(s);
    batch_put(j->building, &(struct op){.kind = OP_SEAL,
                                        .task_key = s->task_key,
                                        .first = b->first,
                                        .last = b->last,
                                        .bytes = {b->bytes, b->len}});
    j->building->n_events += fresh;
    return true;
}

static void put_lines(struct journal *j, struct stream *s)
{
    struct op op = {.kind = OP_LINES, .task_key = s->task_key};
    op.bytes = stream_take_lines(s, &op.first, &op.last);
    batch_put(j->building, &op);
    j->building->n_events += op.last - op.first + 1;
}

/* Sealing in lockstep stalls commits (a thousand tasks fill their blocks together), so a batch
 * seals a few streams, or as many bytes as it brings.  No tail waits for ever. */
static void collect(struct journal *j)
{
    size_t budget = j->pending_bytes / BLOCK_BYTES;
    if (budget < SEALS_PER_COMMIT)
        budget = SEALS_PER_COMMIT;
    while (budget > 0 && !list_is_empty(&j->want_seal)) {
        struct stream *s = list_item(j->want_seal.next, struct stream, to_seal);
        forget_seal(s);
        if (s->tail.len == 0)
            continue;
        if (!seal(j, s)) {
            begin_aging(j, s);
            break;
        }
        list_remove(&s->dirty);
        board(j, s);
        budget--;
    }
    while (!list_is_empty(&j->dirty)) {
        struct stream *s = list_item(list_pop(&j->dirty), struct stream, dirty);
        board(j, s);
        bool due = s->tail.len >= BLOCK_BYTES;
        if (due && budget > 0 && seal(j, s)) {
            budget--;
            continue;
        }
        put_lines(j, s);
        if (due)
            journal_want_seal(j, s);
    }
}

/* On a busy loop there would be many small commits, which cost more than they bring.  Where turns
 * are long they mostly send, and two events to one subscriber are sent as cheaply as one. */
static bool waits_for_company(const struct journal *j, bool busy)
{
    bool soon = j->clock->now_ms - j->submitted_at < BATCH_PACE_MS || j->n_turns < BATCH_TURNS;
    return busy && soon && j->pending_bytes < JOURNAL_FULL_BYTES / 2;
}

void journal_submit(struct journal *j, bool busy)
{
    j->n_turns++;
    bool probes = j->failing; /* only a commit that succeeds shows that the store is back */
    if (j->flying || j->fenced || timer_is_armed(&j->retry))
        return;
    if (!has_work(j) && list_is_empty(&j->want_seal) && !probes)
        return;
    if (waits_for_company(j, busy))
        return;
    if (!j->building)
        journal_begin(j);
    collect(j);
    j->flying = j->building;
    j->flying->number = ++j->last_number;
    j->building = NULL;
    j->building_number++;
    j->flying_bytes = j->pending_bytes;
    list_splice(&j->flying_waiters, &j->building_waiters);
    j->submitted_at = j->clock->now_ms;
    j->n_turns = 0;
    journal_commit(j);
}

static void run_waiters(struct list *waiters, int status)
{
    struct list now;
    list_init(&now);
    list_splice(&now, waiters);
    while (!list_is_empty(&now)) {
        struct waiter *w = list_item(list_pop(&now), struct waiter, node);
        w->done(w, status);
    }
}

static void tell_ops(const struct batch *b, int status)
{
    for (size_t i = 0; b && i < b->n_ops; i++)
        if (b->ops[i].done)
            b->ops[i].done(&b->ops[i], status);
}

void journal_done(struct journal *j)
{
    struct batch *flying = j->flying, *building = j->building;
    j->flying = j->building = NULL;
    tell_ops(flying, STORE_IO);
    tell_ops(building, STORE_IO);
    for (size_t i = 0; i < j->n_aboard; i++) {
        stream_roll_back(j->aboard[i]);
        j->aboard[i]->pins--;
    }
    j->n_aboard = 0;
    list_splice(&j->flying_waiters, &j->building_waiters);
    run_waiters(&j->flying_waiters, STORE_IO);
    timer_disarm(j->clock, &j->retry);
    timer_disarm(j->clock, &j->age);
    timer_disarm(j->clock, &j->late);
    batch_free(flying);
    batch_free(building);
    batch_free(j->building); /* what the waiters have staged since */
    free(j->aboard);
}

static void advance(struct journal *j)
{
    for (size_t i = 0; i < j->n_aboard; i++)
        stream_committed(j->aboard[i], j->cache);
}

/* A stream that is aboard only to be sealed has nothing to lose.  Moves the others to the front and
 * returns their number. */
static size_t find_losers(struct journal *j)
{
    size_t n = 0;
    for (size_t i = 0; i < j->n_aboard; i++) {
        struct stream *s = j->aboard[i];
        if (s->next - 1 == s->head)
            continue;
        j->aboard[i] = j->aboard[n];
        j->aboard[n++] = s;
    }
    return n;
}

/* Drops everything that was appended and is not on disk, from the batch's streams and from later
 * ones; afterwards all of them are aboard. */
static void roll_back(struct journal *j)
{
    list_each (it, &j->dirty) {
        struct stream *s = list_item(it, struct stream, dirty);
        list_remove(&s->dirty);
        bool aboard = s->sealing || s->tail_put > s->tail_seen;
        if (!aboard)
            board(j, s);
    }
    const size_t n_losers = find_losers(j);
    for (size_t i = 0; i < j->n_aboard; i++) {
        stream_roll_back(j->aboard[i]);
        if (j->aboard[i]->tail.len > 0)
            begin_aging(j, j->aboard[i]); /* it may have been due for sealing */
    }
    for (size_t i = 0; i < n_losers; i++)
        j->events->lost(j->arg, j->aboard[i]);
}

/* Called only when all streams have moved, because a callback may look at any of them. */
static void tell_streams(struct journal *j)
{
    for (size_t i = 0; i < j->n_aboard; i++) {
        struct stream *s = j->aboard[i];
        s->pins--;
        j->events->advanced(j->arg, s);
        if (s->tail.len == 0)
            j->events->settled(j->arg, s);
    }
    j->n_aboard = 0;
}

static void journal_finish(struct journal *j)
{
    struct batch *batch = j->flying;
    j->flying = NULL;
    j->pending_bytes -= j->flying_bytes;
    j->flying_bytes = 0;
    advance(j);
    tell_ops(batch, 0);
    tell_streams(j);
    run_waiters(&j->flying_waiters, 0);
    batch_free(batch);
}

/* Nothing of the batch is on disk or will be; whatever was staged after it depends on it. */
static void journal_give_up(struct journal *j, int status)
{
    struct batch *lost = j->flying, *behind = j->building;
    j->flying = j->building = NULL;
    j->building_number++;
    j->failing_since = 0;
    j->pending_bytes = j->flying_bytes = 0;
    list_splice(&j->flying_waiters, &j->building_waiters);
    struct list waiters;
    list_init(&waiters);
    list_splice(&waiters, &j->flying_waiters);
    tell_ops(lost, status);
    tell_ops(behind, status);
    roll_back(j);
    tell_streams(j);
    run_waiters(&waiters, status);
    batch_free(lost);
    batch_free(behind);
}

static enum operation operation_of(const struct op *op)
{
    if (op->kind == OP_TASK_NEW)
        return OPERATION_TASK_CREATION;
    if (op->kind == OP_TASK_SET && status_is_terminal(op->state->status))
        return OPERATION_TASK_COMPLETION;
    return op->kind == OP_LINES || op->kind == OP_SEAL ? OPERATION_EVENTS : OPERATION_OTHER;
}

static void count_failure(struct journal *j)
{
    bool brings[N_OPERATIONS] = {false};
    for (size_t i = 0; i < j->flying->n_ops; i++)
        brings[operation_of(&j->flying->ops[i])] = true;
    brings[OPERATION_OTHER] = !brings[OPERATION_EVENTS] && !brings[OPERATION_TASK_CREATION] &&
                              !brings[OPERATION_TASK_COMPLETION];
    for (size_t i = 0; i < N_OPERATIONS; i++)
        j->n_failures[i] += brings[i];
}

/* Nobody is told: what was committed, and what was not, is the next home's to say. */
static void journal_fence(struct journal *j)
{
    bool first = !j->fenced;
    j->fenced = j->failing = true;
    timer_disarm(j->clock, &j->retry);
    if (first)
        j->events->fenced(j->arg);
}

static void on_failed(struct journal *j, int status)
{
    count_failure(j);
    j->n_unknown += status == STORE_UNKNOWN;
    if (!j->failing_since)
        j->failing_since = j->clock->now_ms;
    if (!j->failing) {
        j->failing = true;
        j->n_tries = 0;
        j->events->failing(j->arg);
    }
    msec_t wait = backoff_ms(++j->n_tries, BACKOFF_FIRST_MS, BACKOFF_MAX_MS);
    timer_arm(j->clock, &j->retry, j->clock->now_ms + wait);
    if (j->clock->now_ms - j->failing_since < j->retry_ms && status != STORE_VOID)
        return;
    if (status == STORE_UNKNOWN)
        j->flying->give_up = true;
    else
        journal_give_up(j, status == STORE_VOID ? STORE_IO : status);
}

static void on_committed(void *arg, struct batch *batch, int status)
{
    struct journal *j = arg;
    ASSERT(batch == j->flying);
    timer_disarm(j->clock, &j->late);
    if (status == STORE_FENCED || j->fenced) {
        journal_fence(j);
        return;
    }
    if (status < 0) {
        on_failed(j, status);
        return;
    }
    j->n_commits++;
    histogram_add(&j->commit_time, j->clock->now_ms - j->submitted_at);
    j->n_events += batch->n_events;
    j->failing_since = 0;
    bool recovered = j->failing;
    j->failing = false;
    journal_finish(j);
    if (recovered)
        j->events->recovered(j->arg);
}
