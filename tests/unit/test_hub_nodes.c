/* Two and three hubs over one store, in random lives: each is the home of some owners under a lease
 * that it trusts by its own clock; processes die, stand still (also between two steps of a turn),
 * lose the store, and take over from each other; idle slots move; the server fails over to a
 * standby that lacks a tail.  The protocol around the hubs is the one of store_pg_watch.c and
 * store_pg_redo.c in gateway/store/, with a clock of the test's own.  The oracle is a naive log:
 * whatever line any reader has seen of a task is that task's line of that number for ever, or until
 * an epoch says that it may not be.
 *
 * Always: a batch is from the home of all that it touches; nothing is said and no agent begins
 * behind the end of a lease; readers are dense; a task ends once, begins to run at most once, and
 * there is one for a request key; a cursor of an older epoch is refused. */
#include "tests/support/hub_failover.h"

/* --- turns ------------------------------------------------------------------------------------ */

static void turn_first_half(struct node *n)
{
    kit_now = &n->kit;
    w.running = n;
    n->kit.hub.clock.now_ms = w.now;
    n->kit.hub.clock.wall_ms = 1764280000000 + w.now;
    clock_run(&n->kit.hub.clock);
    hub_submit(&n->kit.hub, false);
}

static void turn_second_half(struct node *n)
{
    struct list now, *node;
    kit_now = &n->kit;
    w.running = n;
    list_init(&now);
    list_splice(&now, &n->kit.hub.woken);
    while ((node = list_pop(&now)) != NULL) {
        struct client *c = list_item(node, struct session, woken)->rim;
        size_t before = c->got.len;
        while (session_fill(&c->session, &c->got, MAX_MESSAGE_OUT))
            buf_putc(&c->got, '\n');
        assert_true(c->got.len == before || is_trusted(n)); /* silence behind the lease */
        if (session_has_output(&c->session))
            session_wake(&c->session);
    }
    hub_reap(&n->kit.hub);
    for (size_t i = 0; i < w.n_readers; i++)
        if (w.readers[i]->node == n)
            read_lines(w.readers[i]);
}

static void nodes_on_restored(void *arg, int status)
{
    struct node *n = arg;
    n->restores = false;
    assert_true(status == 0 || n->kit.hub.closing); /* an outage ends no process */
}

static void restore_some(struct node *n)
{
    int64_t number = 0;
    bool any = false;
    if (n->restores || !is_sure(n))
        return;
    for (unsigned i = 0; i < OWNERS; i++) {
        number = n->comes[i] && w.t.moved[i] > number ? w.t.moved[i] : number;
        any = any || n->comes[i];
    }
    if (!any)
        return;
    struct slots slots = slots_of(n->comes);
    memset(n->comes, 0, sizeof n->comes);
    n->restores = true;
    hub_restore_slots(&n->kit.hub, &slots, NULL, (struct tenure){number, ""}, nodes_on_restored, n);
}

static void claim(struct node *n)
{
    unsigned living = 0, have = 0;
    for (size_t i = 0; i < w.n_nodes; i++)
        living += w.nodes[i]->incarnation > 0 && !w.t.rows[w.nodes[i]->incarnation].dead;
    for (unsigned i = 0; i < OWNERS; i++)
        have += w.t.home[i] == n->incarnation;
    for (unsigned i = 0; i < OWNERS && have < OWNERS / living + 1; i++) {
        if (w.t.home[i] != 0)
            continue;
        w.t.home[i] = n->incarnation;
        w.t.moved[i] = n->claimed = ++w.number;
        n->claimed_owner = i;
        n->mine[i] = n->comes[i] = true;
        have++;
    }
}

/* All that a dead one leaves is nobody's; tails are with their tasks here, so none is sealed. */
static void take_over(int64_t incarnation)
{
    if (w.t.rows[incarnation].server != w.server)
        raise_epoch(); /* it has not said what it had */
    end_row(incarnation);
    w.takeovers++;
}

static void judge(struct node *n)
{
    for (int64_t x = 1; x < (int64_t)w.n_rows; x++) {
        if (x == n->incarnation || w.t.rows[x].dead || w.t.rows[x].gone)
            continue;
        if (n->seen[x] != w.t.rows[x].beat + 1) {
            n->seen[x] = w.t.rows[x].beat + 1;
            n->since[x] = w.now;
        } else if (w.now - n->since[x] >= LEASE_MS) {
            take_over(x);
            tell_epoch(n);
        }
    }
}

static void take_range(struct node *n)
{
    n->range = ++w.number;
    w.ranges++;
    tell_epoch(n);
}

static void beat(struct node *n)
{
    if (!w.outage && !n->cut && n->server != w.server)
        ask(n);
    if (!w.outage && !n->cut && n->n_fenced == 0)
        ask_others(n);
    if (w.now - n->beat_at < BEAT_MS || w.outage || n->cut)
        return;
    if (w.t.rows[n->incarnation].dead) {
        n->n_fenced++;
        return;
    }
    for (size_t x = 1; x < w.n_rows && w.now - n->beat_at > 2 * BEAT_MS; x++)
        n->since[x] = w.now; /* late itself: it begins to watch anew */
    n->beat_at = w.now;
    if (is_sure(n))
        n->trusted_until = w.now + TRUST_MS;
    w.t.rows[n->incarnation].beat++;
    judge(n);
    if (is_sure(n))
        claim(n);
    if (hub_wants_range(&n->kit.hub))
        take_range(n);
}

static void on_staged(struct waiter *waiter, int status)
{
    struct node *n = container_of(waiter, struct node, staged);
    (void)status;
    for (unsigned i = 0; i < OWNERS && !w.t.rows[n->incarnation].dead; i++)
        if (n->goes[i]) {
            assert_int_equal(w.t.home[i], n->incarnation);
            w.t.home[i] = 0;
            w.moves++;
        }
    memset(n->goes, 0, sizeof n->goes);
    n->leaves = false;
}

/* Some that only readers keep: those are sent away. */
static void close_some(struct node *n)
{
    struct slots those;
    hub_find_movable(&n->kit.hub, &n->kit.hub.open, true, &those);
    for (unsigned i = 0; i < OWNERS; i++)
        if (chance(50))
            slots_take(&those, slot_of(str_of(names[i])));
    hub_close_slots(&n->kit.hub, &those);
    for (size_t i = w.n_readers; i-- > 0;) {
        if (w.readers[i]->node != n ||
            !slots_has(&those, slot_of(str_of(names[w.readers[i]->owner]))))
            continue;
        w.sent_away++;
        reader_drop(i);
    }
    n->closed = those;
}

/* Tasks that nobody reads any more are left to the next home. */
static void part_some(struct node *n)
{
    struct slots quiet;
    hub_find_quiet(&n->kit.hub, &n->closed, &quiet);
    for (unsigned i = 0; i < OWNERS; i++)
        if (chance(30))
            slots_take(&quiet, slot_of(str_of(names[i])));
    w.parted += hub_part(&n->kit.hub, &quiet);
    for (size_t i = 0; i < countof(quiet.bits); i++) {
        n->parted.bits[i] |= quiet.bits[i];
        n->closed.bits[i] &= ~quiet.bits[i];
    }
}

static bool may_leave(const struct node *n)
{
    return !n->leaves && !n->restores && !w.outage && !n->cut && is_sure(n);
}

/* All that are parted, and some of the others. */
static void leave_idle(struct node *n, unsigned percent)
{
    struct slots idle, some = {0}, among = n->kit.hub.open;
    for (size_t i = 0; i < countof(among.bits); i++)
        among.bits[i] |= n->closed.bits[i] | n->parted.bits[i];
    hub_find_idle(&n->kit.hub, &among, &idle);
    for (unsigned i = 0; i < OWNERS; i++) {
        unsigned slot = slot_of(str_of(names[i]));
        if (!n->mine[i] || !slots_has(&idle, slot) ||
            !(slots_has(&n->parted, slot) || chance(percent)))
            continue;
        n->goes[i] = n->leaves = true;
        n->mine[i] = false;
        slots_add(&some, slot);
        slots_take(&n->closed, slot);
        slots_take(&n->parted, slot);
    }
    if (!n->leaves)
        return;
    hub_leave(&n->kit.hub, &some);
    n->staged.done = on_staged;
    journal_wait(&n->kit.hub.journal, &n->staged);
}

static void leave_some(struct node *n)
{
    if (!may_leave(n))
        return;
    memset(&n->closed, 0, sizeof n->closed);
    if (chance(50))
        close_some(n);
    if (chance(70))
        part_some(n);
    leave_idle(n, 50);
    hub_reopen_slots(&n->kit.hub, &n->closed);
}

static void node_step(struct node *n)
{
    if (n->incarnation == 0 || n->paused)
        return;
    w.running = n;
    kit_now = &n->kit;
    if (n->half) { /* answers of the store are there, and what follows from them is done at once */
        n->half = false;
        for (unsigned i = pick(8); i > 0 && kit_step(&n->kit); i--)
            ;
        turn_second_half(n);
        return;
    }
    beat(n);
    if (n->n_fenced > 0) {
        w.fenced++;
        node_close(n);
        return;
    }
    restore_some(n);
    if (may_leave(n))
        leave_idle(n, 0);
    turn_first_half(n);
    if (!w.healing && chance(2)) { /* it stands still inside a turn */
        n->half = n->paused = true;
        return;
    }
    for (unsigned i = pick(4) + (w.healing ? 50 : 0); i > 0 && kit_step(&n->kit); i--)
        ;
    turn_second_half(n);
}

/* --- clients ---------------------------------------------------------------------------------- */

static struct node *node_of(int64_t incarnation)
{
    for (size_t i = 0; i < w.n_nodes; i++)
        if (incarnation && w.nodes[i]->incarnation == incarnation)
            return w.nodes[i];
    return NULL;
}

static void reader_say(struct reader *r, const char *line)
{
    kit_now = &r->node->kit;
    w.running = r->node;
    session_receive(&r->client->session, str_of(line));
}

/* Mostly where the owner's home is, sometimes anywhere. */
static struct reader *reader_new(unsigned owner)
{
    struct node *n = chance(90) ? node_of(w.t.home[owner]) : w.nodes[pick((unsigned)w.n_nodes)];
    if (!n || n->incarnation == 0 || n->paused || w.n_readers == READERS)
        return NULL;
    struct reader *r = xcalloc(sizeof *r);
    r->client = xcalloc(sizeof *r->client);
    r->client->kit = &n->kit;
    r->node = n;
    r->owner = owner;
    snprintf(r->client->owner, sizeof r->client->owner, "%s", names[owner]);
    session_init(&r->client->session, &n->kit.hub, &client_ops, r->client);
    w.readers[w.n_readers++] = r;
    reader_say(r, json("{'type':'hello'}"));
    for (size_t i = 0; i < w.n_tasks; i++) {
        char line[256];
        if (w.tasks[i].owner != owner || w.tasks[i].lost || (w.tasks[i].ended && !chance(10)))
            continue;
        r->stale[i] = w.epoch > 0 && n->kit.hub.epoch == w.epoch && i < w.n_before && chance(30);
        unsigned after = r->stale[i] ? 1 + pick(3) : pick((unsigned)w.tasks[i].n + 1);
        snprintf(line, sizeof line,
                 json("{'type':'resume','id':'%zu','conversation_id':'c','task_id':'%s','after':%u,"
                      "'epoch':%lld}"),
                 i, w.tasks[i].id, after, (long long)(w.epoch - r->stale[i]));
        reader_say(r, line);
    }
    return r;
}

static void ask_key(struct reader *r)
{
    char line[256];
    int key = w.key_of[r->owner];
    if (w.key_task[r->owner][key] >= 0) {
        if (w.healing || key + 1 == 24)
            return;
        key = ++w.key_of[r->owner];
    }
    snprintf(line, sizeof line,
             json("{'type':'chat','id':'%d','conversation_id':'c','message':'x',"
                  "'when_busy':'enqueue','request_key':'k%d'}"),
             key, key);
    reader_say(r, line);
}

static void clients_act(void)
{
    if (w.n_readers < 6 || chance(30))
        (void)reader_new(pick(OWNERS));
    if (w.n_readers == 0)
        return;
    size_t i = pick((unsigned)w.n_readers);
    struct reader *r = w.readers[i];
    if (r->node->paused && !chance(20))
        return; /* what is sent now is read when it goes on */
    if (chance(60))
        ask_key(r);
    else if (!r->node->paused && chance(50))
        reader_drop(i);
}

static void agents_act(struct node *n)
{
    struct kit *k = &n->kit;
    if (n->incarnation == 0 || n->paused || k->n_runs == 0)
        return;
    kit_now = k;
    w.running = n;
    for (size_t i = k->n_runs; i-- > 0;) {
        struct run *r = k->runs[i];
        if (r->freed || !r->wants_more || !(w.healing || chance(30)))
            continue;
        if (!w.healing && chance(w.goes_on ? 95 : 80))
            r->wants_more = r->events->on_line(
                r->task, str_of(json("{'event':'token','data':{'text':'word'}}")));
        else
            r->events->on_end(r->task, RUN_DONE, STR_NULL);
    }
}

/* --- lives ------------------------------------------------------------------------------------ */

/* As many years of tasks would. */
static void spend_keys(struct node *n)
{
    if ((uint32_t)n->kit.hub.next_key < HALF_RANGE / 2)
        n->kit.hub.next_key += HALF_RANGE - 1 - pick(4);
}

static void misfortune(struct node *n)
{
    unsigned what = pick(400);
    if (n->incarnation == 0) {
        if (chance(20))
            node_open(n);
        return;
    }
    if (n->paused && chance(6)) {
        n->paused = false;
        w.zombies += w.t.rows[n->incarnation].dead;
    } else if (what < 2) {
        n->paused = true;
    } else if (what < 4 && !n->paused) {
        node_close(n);
    } else if (what < 7) {
        n->cut = !n->cut;
    } else if (what == 7) {
        w.outage = !w.outage;
    } else if (what < (w.goes_on ? 60 : 20) && !n->paused) {
        kit_now = &n->kit;
        w.running = n;
        leave_some(n);
    } else if (what < 24) {
        spend_keys(n);
    }
    if (w.outage && chance(5))
        w.outage = false;
    if (n->cut && chance(5))
        n->cut = false;
}

static void life_step(void)
{
    w.now += 20 + pick(400);
    if (!w.has_copy && chance(2))
        cut_standby_off();
    else if (w.has_copy && chance(10))
        fail_over();
    for (size_t i = 0; i < w.n_nodes; i++) {
        misfortune(w.nodes[i]);
        agents_act(w.nodes[i]);
        node_step(w.nodes[i]);
    }
    clients_act();
}

/* Everything works again: in the end each key has its task, and each task its end. */
static bool is_whole(void)
{
    for (unsigned i = 0; i < OWNERS; i++)
        if (w.key_task[i][w.key_of[i]] < 0)
            return false;
    for (size_t i = 0; i < w.n_tasks; i++)
        if (!w.tasks[i].ended && !w.tasks[i].lost)
            return false;
    return true;
}

static void heal(void)
{
    w.outage = false;
    w.healing = true;
    for (size_t i = 0; i < w.n_nodes; i++) {
        w.nodes[i]->paused = w.nodes[i]->cut = false;
        if (w.nodes[i]->incarnation == 0)
            node_open(w.nodes[i]);
    }
    for (unsigned round = 0; round < 2000 && !is_whole(); round++) {
        w.now += 300;
        for (size_t i = 0; i < w.n_nodes; i++) {
            if (w.nodes[i]->incarnation == 0)
                node_open(w.nodes[i]);
            agents_act(w.nodes[i]);
            node_step(w.nodes[i]);
        }
        if (w.n_readers > 100)
            reader_drop(pick((unsigned)w.n_readers));
        struct reader *r = reader_new(round % OWNERS);
        if (r)
            ask_key(r);
    }
    assert_true(is_whole());
}

static void kit_runs_free(struct kit *k)
{
    for (size_t i = 0; i < k->n_runs; i++) {
        assert_true(k->runs[i]->freed);
        buf_done(&k->runs[i]->history);
        buf_done(&k->runs[i]->delivered);
        free(k->runs[i]);
    }
}

static void live(uint64_t seed, size_t n_nodes, unsigned steps)
{
    memset(&w, 0, sizeof w);
    w.random = kit_random_state = seed;
    w.memory = store_memory_new();
    w.now = 1000;
    w.n_rows = 1;
    w.server = w.t.server = 1;
    w.n_nodes = n_nodes;
    w.goes_on = chance(60);
    memset(w.key_task, 0xff, sizeof w.key_task);
    for (size_t i = 0; i < n_nodes; i++) {
        w.nodes[i] = xcalloc(sizeof *w.nodes[i]);
        node_open(w.nodes[i]);
    }
    for (unsigned i = 0; i < steps; i++)
        life_step();
    heal();
    for (size_t i = 0; i < n_nodes; i++) {
        if (w.nodes[i]->incarnation)
            node_close(w.nodes[i]);
        kit_runs_free(&w.nodes[i]->kit);
        free(w.nodes[i]);
    }
    store_memory_ops.close(w.memory);
    for (size_t i = 0; i < w.t.n_log; i++)
        batch_free(w.log[i].batch);
    for (size_t i = 0; i < w.n_tasks; i++) {
        for (size_t k = 0; k < w.tasks[i].n; k++)
            free(w.tasks[i].lines[k]);
        free(w.tasks[i].lines);
    }
}

static void test_several_hubs_keep_the_promises_in_random_lives(void **state)
{
    (void)state;
    const char *lives = getenv("HOLDFAST_MODEL_LIVES");
    unsigned n = lives ? (unsigned)strtoul(lives, NULL, 10) : t_often(200, 60);
    unsigned takeovers = 0, moves = 0, fenced = 0, lines = 0, zombies = 0, sent_away = 0,
             losses = 0, redone = 0, quiet = 0, refused = 0, ranges = 0, parted = 0, resumed = 0;
    uint64_t seed = t_seed();
    for (unsigned i = 0; i < OWNERS; i++)
        snprintf(names[i], sizeof names[i], "o%u", i);
    for (unsigned i = 0; i < n; i++) {
        print_message("life %u\n", i);
        live(seed + i, 2 + i % 2, 400);
        takeovers += w.takeovers;
        moves += w.moves;
        parted += w.parted;
        resumed += w.resumed;
        fenced += w.fenced;
        lines += w.lines;
        zombies += w.zombies;
        sent_away += w.sent_away;
        losses += w.losses;
        redone += w.redone;
        quiet += w.quiet;
        refused += w.refused;
        ranges += w.ranges;
    }
    print_message("%u lives: %u takeovers, %u moves (%u readers sent away, %u tasks with them), "
                  "%u fenced, %u zombies, %u tasks went on, %u lines\n",
                  n, takeovers, moves, sent_away, parted, fenced, zombies, resumed, lines);
    print_message(
        "%u tails lost: %u batches sent again, %u times no epoch, %u old cursors refused; %u ranges "
        "of keys were used up\n",
        losses, redone, quiet, refused, ranges);
    if (n >= 100)
        assert_true(losses > n && redone > n && quiet > n / 4 && refused > n && ranges > n);
    if (n >= 100)
        assert_true(takeovers > n && moves > n && fenced > n / 10 && zombies > n / 20 &&
                    sent_away > n && parted > n && resumed > n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_several_hubs_keep_the_promises_in_random_lives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
