/* Several nodes over one PostgreSQL: who has which slots, what a dead one leaves, and who may end
 * whom.  The rest of a node's life is in test_store_pg.c. */
#include "tests/contract/store_kit.h"

#ifdef HOLDFAST_POSTGRES
#include "gateway/store/journal_entry.h"
#include "gateway/store/store_pg_private.h"
#include "proto/line_pack.h"

#define LEASE_S 1

static struct store_pg *open_node(const char *node)
{
    char error[STORE_ERROR_TEXT] = "";
    struct store_pg *s = NULL;
    struct store_pg_options o = {.url = pg_kit_url(), .node = node, .lease_s = LEASE_S};
    if (store_pg_open(&o, &s, error) < 0)
        fail_msg("%s", error);
    return s;
}

static struct store_pg *open_first(void)
{
    return open_node("one");
}

static int setup(void **state)
{
    return node_setup(state, open_first);
}

static struct store_pg *node_of(struct fixture *f)
{
    return f->store;
}

/* As others would: its row is dead. */
static void say_dead(const struct store_pg *s)
{
    char sql[160];
    snprintf(sql, sizeof sql,
             "UPDATE nodes SET state = 2 WHERE incarnation = %lld;"
             "UPDATE beats SET dead = 1 WHERE incarnation = %lld",
             (long long)s->incarnation, (long long)s->incarnation);
    pg_kit_sql(sql);
}

/* Lives on, as a loop that turns. */
static void turns(void *arg)
{
    store_pg_turned(arg);
}

/* A loop that hangs: the beats end. */
static void hangs(void *arg)
{
    (void)arg;
}

static void put_two(struct fixture *f)
{
    put_task(f, 7, "ann", "c", "t1");
    put_task(f, 8, "bob", "c", "t2");
    put_lines(f, 7, 1, 3);
    put_lines(f, 8, 1, 2);
    commit(f);
    put_lines(f, 7, 4, 6);
    commit(f);
}

static const char *blocks_of(struct fixture *f, int64_t key)
{
    static char said[64];
    struct query q = {.kind = QUERY_BLOCKS, .task_key = key};
    const struct answer *a = ask(f, q);
    uint64_t last = a->n_blocks ? a->blocks[a->n_blocks - 1]->last : 0;
    snprintf(said, sizeof said, "%llu to %llu",
             (unsigned long long)(last ? a->blocks[0]->first : 0), (unsigned long long)last);
    return said;
}

static void test_first_node_has_all_slots(void **state)
{
    (void)state;
    assert_string_equal(pg_kit_sql("SELECT count(*) FROM slots WHERE incarnation IS NOT NULL"),
                        "4096");
}

/* The lines in its journal are blocks, its slots nobody's, its rows gone; once. */
static void test_what_a_dead_node_left_is_sealed(void **state)
{
    struct fixture *f = *state;
    struct store_pg *two = open_node("two");
    int64_t one = node_of(f)->incarnation;
    put_two(f);
    say_dead(node_of(f));
    assert_int_equal(pg_rescue(&two->writer, one), STORE_OK);
    assert_int_equal(pg_rescue(&two->writer, one), STORE_NOT_FOUND);
    assert_string_equal(blocks_of(f, 7), "1 to 6");
    assert_string_equal(blocks_of(f, 8), "1 to 2");
    assert_string_equal(pg_kit_sql("SELECT count(*) FROM journal"), "0");
    assert_string_equal(pg_kit_sql("SELECT count(*) FROM nodes"), "1");
    assert_string_equal(pg_kit_sql("SELECT count(*) FROM slots WHERE incarnation IS NULL"), "4096");
    put_lines(f, 7, 7, 7);
    f->batch->number = 99;
    assert_int_equal(f->ops->commit(f->store, f->batch), STORE_FENCED);
    store_pg_ops.close(two);
}

/* Some of its lines are blocks, as of a rescue that has begun. */
static void seal_two(void)
{
    pg_kit_sql("INSERT INTO blocks SELECT 7, 1, 2, convert_to(string_agg(l, ''), 'UTF8') FROM "
               "(SELECT split_part(convert_from(bytes, 'LATIN1'), E'\\n', n) || E'\\n' AS l FROM "
               "generate_series(1, 2) n, (SELECT bytes FROM journal ORDER BY n LIMIT 1) j) x");
}

/* One that died in the middle, and cut blocks elsewhere: only what is behind the last block. */
static void test_rescue_goes_on_where_another_one_stopped(void **state)
{
    struct fixture *f = *state;
    struct store_pg *two = open_node("two");
    int64_t one = node_of(f)->incarnation;
    put_two(f);
    say_dead(node_of(f));
    seal_two();
    assert_int_equal(pg_rescue(&two->writer, one), STORE_OK);
    assert_string_equal(pg_kit_sql("SELECT string_agg(first || '-' || last, ' ' ORDER BY first) "
                                   "FROM blocks WHERE task_key = 7"),
                        "1-2 3-6");
    store_pg_ops.close(two);
}

/* A node that is back under its name has its lines as they were, in its own journal. */
static void test_own_journal_is_inherited(void **state)
{
    struct fixture *f = *state;
    put_two(f);
    say_dead(node_of(f));
    node_of(f)->fenced = true; /* it says nothing more */
    struct store_pg *again = open_node("one");
    struct fixture g = {.ops = &store_pg_ops, .store = again, .batch = batch_new()};
    g.reader = g.ops->reader_open(again);
    assert_lines(ask(&g, about(QUERY_TAILS, NULL, NULL)), 0, 7, 1, 6);
    assert_string_equal(pg_kit_sql("SELECT max(n) FROM journal"), "-1");
    put_lines(&g, 7, 7, 8);
    commit(&g);
    assert_lines(ask(&g, about(QUERY_TAILS, NULL, NULL)), 0, 7, 1, 8);
    assert_string_equal(pg_kit_sql("SELECT count(DISTINCT incarnation) FROM journal"), "1");
    assert_string_equal(pg_kit_sql("SELECT count(*) FROM slots WHERE incarnation IS NULL"), "0");
    answer_done(&g.answer);
    batch_free(g.batch);
    g.ops->reader_close(g.reader);
    store_pg_ops.close(again);
}

/* Into the rows of the table that the condition names. */
static void put_bytes(const char *table, const char *where, struct str bytes)
{
    struct buf sql = {0};
    buf_putf(&sql, "UPDATE %s SET bytes = '\\x", table);
    for (size_t i = 0; i < bytes.n; i++)
        buf_putf(&sql, "%02x", (unsigned char)bytes.p[i]);
    buf_putf(&sql, "' WHERE %s", where);
    pg_kit_sql(sql.bytes);
    buf_done(&sql);
}

/* This one writes none, because older gateways of the cluster would not understand them. */
static void test_packed_lines_of_a_later_gateway_are_read(void **state)
{
    struct fixture *f = *state;
    struct query q = {.kind = QUERY_BLOCKS, .task_key = 7};
    struct buf lines = {0}, packed = {0}, row = {0};
    put_two(f);
    put_seal(f, 7, 1, 6);
    put_lines(f, 7, 7, 30);
    commit(f);
    lines_of(&lines, 7, 1, 6);
    line_pack(&packed, buf_str(&lines));
    assert_true(line_pack_is(buf_str(&packed)));
    put_bytes("blocks", "task_key = 7", buf_str(&packed));
    assert_lines(ask(f, q), 0, 7, 1, 6);
    put_bytes("blocks", "task_key = 7", (struct str){packed.bytes, packed.len / 2});
    assert_int_equal(ask(f, q)->n_blocks, 1);
    assert_int_equal(f->answer.blocks[0]->bytes[0], 0); /* no lines, as core finds */
    lines_of(&lines, 7, 7, 30);
    buf_clear(&packed);
    line_pack(&packed, buf_str(&lines));
    journal_entry_put(&row, &(struct journal_entry){7, 7, 30, buf_str(&packed)});
    put_bytes("journal", "n = (SELECT max(n) FROM journal)", buf_str(&row));
    assert_lines(ask(f, about(QUERY_TAILS, NULL, NULL)), 0, 7, 7, 30);
    buf_done(&lines);
    buf_done(&packed);
    buf_done(&row);
}

/* A rescue that stopped behind its first piece: one task is sealed, the other is not. */
static void seal_the_other(void)
{
    struct buf lines = {0};
    char sql[1024];
    lines_of(&lines, 8, 1, 2);
    snprintf(sql, sizeof sql, "INSERT INTO blocks VALUES (8, 1, 2, '%.*s')", (int)lines.len,
             lines.bytes);
    pg_kit_sql(sql);
    buf_done(&lines);
}

/* The node is back under its name at some step of its rescue: one of the two goes on, the other
 * finds nothing, and each line is there once. */
static void back_in_the_middle(struct fixture *f, void (*step)(void))
{
    int64_t one = node_of(f)->incarnation;
    put_two(f);
    say_dead(node_of(f));
    node_of(f)->fenced = true;
    if (step)
        step();
    struct store_pg *again = open_node("one");
    assert_int_equal(pg_rescue(&again->writer, one), STORE_NOT_FOUND);
    struct fixture g = {.ops = &store_pg_ops, .store = again, .batch = batch_new()};
    g.reader = g.ops->reader_open(again);
    assert_lines(ask(&g, about(QUERY_TAILS, NULL, NULL)), 0, 7, 1, 6);
    assert_int_equal(g.answer.n_blocks, step ? 1 : 2);
    assert_string_equal(blocks_of(&g, 8), step ? "1 to 2" : "0 to 0");
    assert_string_equal(pg_kit_sql("SELECT count(*) FROM slots WHERE incarnation IS NULL"), "0");
    answer_done(&g.answer);
    batch_free(g.batch);
    g.ops->reader_close(g.reader);
    store_pg_ops.close(again);
}

/* Slots of its own that came from a process of its name. */
static unsigned count_own(struct store_pg *s)
{
    struct store_view *v = xcalloc(sizeof *v);
    unsigned n = 0;
    store_pg_watch(s, turns, s);
    store_pg_view(s, v);
    for (unsigned i = 0; i < N_SLOTS; i++)
        n += v->home[i] == s->incarnation && store_pg_is_own(s, i, v->moved[i]);
    free(v);
    return n;
}

/* It has its own 4095 again, and one that was nobody's, both since its start. */
static void test_node_knows_which_slots_it_had(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(count_own(node_of(f)), 0);
    store_pg_watch_end(node_of(f));
    say_dead(node_of(f));
    node_of(f)->fenced = true;
    pg_kit_sql("UPDATE slots SET incarnation = NULL WHERE slot = 1000");
    struct store_pg *again = open_node("one");
    assert_string_equal(pg_kit_sql("SELECT count(*) FROM slots WHERE incarnation IS NULL"), "0");
    assert_int_equal(count_own(again), N_SLOTS - 1);
    assert_true(store_pg_is_own(again, 999, again->incarnation));
    assert_false(store_pg_is_own(again, 1000, again->incarnation));
    assert_false(
        store_pg_is_own(again, 999, again->incarnation + 1)); /* it was away, and is back */
    store_pg_ops.close(again);
}

static void test_node_is_back_before_its_rescue(void **state)
{
    back_in_the_middle(*state, NULL);
}

static void test_node_is_back_within_its_rescue(void **state)
{
    back_in_the_middle(*state, seal_the_other);
}

/* Its slots are nobody's by then: it takes them as any other, and its lines are blocks. */
static void test_node_is_back_after_its_rescue(void **state)
{
    struct fixture *f = *state;
    struct store_pg *two = open_node("two");
    put_two(f);
    say_dead(node_of(f));
    node_of(f)->fenced = true;
    assert_int_equal(pg_rescue(&two->writer, node_of(f)->incarnation), STORE_OK);
    struct store_pg *again = open_node("one");
    assert_string_equal(blocks_of(f, 7), "1 to 6");
    assert_string_equal(pg_kit_sql("SELECT count(*) FROM journal"), "0");
    assert_string_equal(pg_kit_sql("SELECT count(*) FROM slots WHERE incarnation IS NULL"), "2048");
    assert_int_equal(count_own(again), 0);
    store_pg_ops.close(again);
    store_pg_ops.close(two);
}

/* Both beat; then one's loop hangs: it is ended, though its process and its thread live. */
static void test_loop_that_hangs_is_taken_over(void **state)
{
    struct fixture *f = *state;
    struct store_pg *two = open_node("two");
    store_pg_watch(node_of(f), turns, node_of(f));
    store_pg_watch(two, turns, two);
    put_two(f);
    pg_kit_wait_for("SELECT count(*) FROM nodes WHERE state = 0", "2");
    assert_true(store_pg_is_trusted(node_of(f)));
    store_pg_watch(node_of(f), hangs, NULL);
    pg_kit_wait_for("SELECT count(*) FROM nodes", "1");
    pg_kit_wait_for("SELECT count(*) FROM slots s JOIN nodes n ON n.incarnation = s.incarnation "
                    "WHERE n.node = 'two'",
                    "4096");
    assert_false(store_pg_is_trusted(node_of(f))); /* before anybody could take over */
    assert_int_equal(store_pg_takeovers(two), 1);
    assert_string_equal(blocks_of(f, 7), "1 to 6");
    put_lines(f, 7, 7, 7);
    f->batch->number = 99;
    int status = f->ops->commit(f->store, f->batch);
    if (status == STORE_UNKNOWN) /* its connection was ended as well */
        status = f->ops->commit(f->store, f->batch);
    assert_int_equal(status, STORE_FENCED);
    store_pg_ops.close(two);
}

/* As the writer of a start, which has nothing to commit yet. */
static void idles(void *arg)
{
    for (int i = 0; i < 20; i++)
        store_pg_ops.idle(arg);
}

static void test_watch_begins_beside_an_idle_writer(void **state)
{
    struct store_pg *one = node_of(*state);
    uv_thread_t writer;
    assert_int_equal(uv_thread_create(&writer, idles, one), 0);
    store_pg_watch(one, turns, one);
    uv_thread_join(&writer);
    assert_true(store_pg_is_trusted(one));
}

/* A node that stopped with half a batch sent holds its row for ever: its backends are ended. */
static void test_held_row_does_not_stop_a_takeover(void **state)
{
    struct fixture *f = *state;
    struct store_pg *two = open_node("two");
    struct pg_call c;
    struct store_pg *one = node_of(f);
    pg_begin(&c, &one->writer, PG_BEGIN);
    pg_send(&c);
    pg_begin(&c, &one->writer, PG_FENCE);
    pg_int(&c, 1);
    pg_text(&c, STR(""));
    pg_int(&c, one->incarnation);
    pg_text(&c, (struct str){one->life, sizeof one->life});
    pg_int(&c, 0);
    pg_send(&c);
    assert_int_equal(pg_flush(&one->writer, NULL, NULL), STORE_OK); /* and then nothing */
    store_pg_watch(two, turns, two);
    pg_kit_wait_for("SELECT count(*) FROM slots s JOIN nodes n ON n.incarnation = s.incarnation "
                    "WHERE n.node = 'two'",
                    "4096");
    store_pg_ops.close(two);
}

/* Slots that are given up are claimed by who has less than its share, and not by who gave them. */
static void test_released_slots_go_to_the_poor(void **state)
{
    struct fixture *f = *state;
    struct store_pg *two = open_node("two");
    struct slots half = {0};
    store_pg_watch(node_of(f), turns, node_of(f));
    store_pg_watch(two, turns, two);
    for (unsigned i = 1000; i < 1000 + N_SLOTS / 2; i++)
        slots_add(&half, i);
    pg_kit_wait_for("SELECT count(*) FROM nodes WHERE state = 0", "2");
    store_pg_release(node_of(f), &half);
    pg_kit_wait_for("SELECT count(*) FROM slots s JOIN nodes n ON n.incarnation = s.incarnation "
                    "WHERE n.node = 'two' AND s.slot BETWEEN 1000 AND 3047",
                    "2048");
    assert_string_equal(pg_kit_sql("SELECT count(*) FROM slots WHERE incarnation IS NULL"), "0");
    struct store_view *v = xcalloc(sizeof *v);
    store_pg_view(two, v);
    struct store_deal deal;
    store_view_deal(v, two->incarnation, &deal);
    assert_int_equal(deal.share, 2048);
    free(v);
    store_pg_ops.close(two);
}

/* --- at one instant --------------------------------------------------------------------------- */

/* A statement of a node's, which has to wait. */
struct waiting {
    struct store_pg *s;
    int64_t incarnation, beat; /* 0: its own sign of life; else that one's end */
    int status, rows;
};

static void waiting_run(void *arg)
{
    struct waiting *w = arg;
    struct pg_call c;
    PGresult *r;
    if (w->incarnation == 0) {
        w->status = pg_beat_on(w->s, &w->s->writer);
        return;
    }
    pg_begin(&c, &w->s->writer, PG_BEAT_DEAD);
    pg_int(&c, w->incarnation);
    pg_int(&c, w->beat);
    w->status = pg_ask(&c, &r);
    w->rows = PQntuples(r);
    PQclear(r);
}

/* The statement is begun while a session holds the row, by the SQL; it goes on behind that. */
static void begin_behind(struct waiting *w, const char *sql)
{
    uv_thread_t thread;
    PGconn *first = pg_kit_session(sql);
    assert_int_equal(uv_thread_create(&thread, waiting_run, w), 0);
    pg_kit_wait_behind(first);
    PQclear(PQexec(first, "COMMIT"));
    PQfinish(first);
    uv_thread_join(&thread);
}

static void test_takeover_behind_a_renewal_finds_another_beat(void **state)
{
    struct fixture *f = *state;
    struct store_pg *two = open_node("two");
    char sql[128];
    struct waiting w = {.s = two, .incarnation = node_of(f)->incarnation};
    snprintf(sql, sizeof sql, "BEGIN; UPDATE beats SET beat = beat + 1 WHERE incarnation = %lld",
             (long long)w.incarnation);
    begin_behind(&w, sql);
    assert_int_equal(w.status, STORE_OK);
    assert_int_equal(w.rows, 0);
    store_pg_ops.close(two);
}

static void test_renewal_behind_a_takeover_is_too_late(void **state)
{
    struct fixture *f = *state;
    char sql[128];
    struct waiting w = {.s = node_of(f)};
    snprintf(sql, sizeof sql, "BEGIN; UPDATE beats SET dead = 1 WHERE incarnation = %lld",
             (long long)w.s->incarnation);
    begin_behind(&w, sql);
    assert_int_equal(w.status, STORE_FENCED);
    assert_true(store_pg_is_fenced(w.s));
}

/* Takeovers stop at a gate, with the dead one's row locked; the session holds it. */
static PGconn *close_gate(void)
{
    char sql[512];
    snprintf(sql, sizeof sql,
             "CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
             "IF current_setting('application_name') LIKE 'holdfast/%%' THEN "
             "PERFORM pg_advisory_xact_lock(%ld); END IF; RETURN NEW; END $$;"
             "CREATE TRIGGER gate BEFORE UPDATE ON nodes FOR EACH ROW "
             "WHEN (NEW.state = 2 AND OLD.state < 2) EXECUTE FUNCTION gate()",
             (long)getpid());
    pg_kit_sql(sql);
    snprintf(sql, sizeof sql, "SELECT pg_advisory_lock(%ld)", (long)getpid());
    return pg_kit_session(sql);
}

/* Two ends one, and one, in a session that does as store_pg_watch.c, two.  alive: it gives a sign
 * of life of its own first, which makes a ring of the two: the server ends one of them. */
static void end_each_other(struct fixture *f, bool alive)
{
    struct store_pg *one = node_of(f), *two = open_node("two");
    PGconn *gate = close_gate(), *taker;
    char sql[320], beat[24];
    one->fenced = true; /* its own thread does nothing: what the session does is one's */
    store_pg_watch(two, turns, two);
    pg_kit_wait_behind(gate);
    snprintf(sql, sizeof sql, "SELECT beat FROM beats WHERE incarnation = %lld",
             (long long)two->incarnation);
    snprintf(beat, sizeof beat, "%s", pg_kit_sql(sql));
    snprintf(sql, sizeof sql,
             "BEGIN; UPDATE beats SET beat = beat + %d WHERE incarnation = %lld "
             "AND %d = 1; UPDATE nodes SET state = 2 WHERE incarnation = %lld",
             alive, (long long)one->incarnation, alive, (long long)two->incarnation);
    taker = pg_kit_session(sql);
    snprintf(sql, sizeof sql,
             "UPDATE beats SET dead = 1 WHERE incarnation = %lld AND beat = %s "
             "AND dead = 0 RETURNING 1",
             (long long)two->incarnation, beat);
    assert_int_equal(PQsendQuery(taker, sql), 1);
    if (alive)
        uv_sleep(100); /* either may be the one that closes the ring */
    PQfinish(gate);
    PGresult *r = PQgetResult(taker);
    bool won = PQresultStatus(r) == PGRES_TUPLES_OK && PQntuples(r) == 1;
    PQclear(r);
    assert_null(PQgetResult(taker));
    PQclear(PQexec(taker, won ? "COMMIT" : "ROLLBACK"));
    PQfinish(taker);
    pg_kit_wait_for("SELECT count(*) FROM nodes WHERE state < 2", "1");
    snprintf(sql, sizeof sql, "SELECT count(*) FROM nodes WHERE state < 2 AND incarnation = %lld",
             (long long)(won ? one : two)->incarnation);
    assert_string_equal(pg_kit_sql(sql), "1");
    for (int i = 0; won && i < 6000 && !store_pg_is_fenced(two); i++)
        uv_sleep(10);
    assert_true(store_pg_is_fenced(two) == won);
    store_pg_ops.close(two);
    pg_kit_sql("DROP TRIGGER gate ON nodes; DROP FUNCTION gate()");
}

static void test_taker_at_work_is_not_ended(void **state)
{
    end_each_other(*state, false);
}

static void test_two_takers_of_each_other_one_dies(void **state)
{
    end_each_other(*state, true);
}

/* --- keys ------------------------------------------------------------------------------------- */

/* The view's range, when it is another one than that. */
static int64_t other_range(struct store_pg *s, int64_t range)
{
    struct store_view *v = xcalloc(sizeof *v);
    for (int i = 0; i < 6000 && v->range <= range; i++) {
        uv_sleep(10);
        store_pg_view(s, v);
    }
    range = v->range;
    free(v);
    return range;
}

static void test_range_is_another_one_when_it_is_wanted(void **state)
{
    struct fixture *f = *state;
    store_pg_watch(node_of(f), turns, node_of(f));
    store_pg_want_range(node_of(f));
    int64_t first = other_range(node_of(f), 0);
    assert_true(first > node_of(f)->incarnation);
    store_pg_want_range(node_of(f));
    assert_true(other_range(node_of(f), first) > first);
    assert_string_equal(pg_kit_sql("SELECT last_number > incarnation FROM cluster, nodes"), "t");
}

// clang-format off
#define TEST(test) {#test, test, setup, each_teardown, "postgres"}
// clang-format on

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_first_node_has_all_slots),
        TEST(test_what_a_dead_node_left_is_sealed),
        TEST(test_rescue_goes_on_where_another_one_stopped),
        TEST(test_own_journal_is_inherited),
        TEST(test_packed_lines_of_a_later_gateway_are_read),
        TEST(test_node_knows_which_slots_it_had),
        TEST(test_node_is_back_before_its_rescue),
        TEST(test_node_is_back_within_its_rescue),
        TEST(test_node_is_back_after_its_rescue),
        TEST(test_watch_begins_beside_an_idle_writer),
        TEST(test_loop_that_hangs_is_taken_over),
        TEST(test_held_row_does_not_stop_a_takeover),
        TEST(test_released_slots_go_to_the_poor),
        TEST(test_takeover_behind_a_renewal_finds_another_beat),
        TEST(test_renewal_behind_a_takeover_is_too_late),
        TEST(test_taker_at_work_is_not_ended),
        TEST(test_two_takers_of_each_other_one_dies),
        TEST(test_range_is_another_one_when_it_is_wanted),
    };
    return kit_run_all(tests, countof(tests));
}

#else

int main(void)
{
    print_message("skipped: built without libpq\n");
    return 0;
}

#endif
