/* Streams and cursors against a naive log: an array of lines, and a number. */
#include "core/stream.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/t.h"

#define TASK "01ARZ3NDEKTSV4RRFFQ69G5FAV"
#define MAX_LINES 20000

struct oracle {
    struct str lines[MAX_LINES]; /* by seq - 1 */
    uint64_t next, head;
};

struct reader {
    struct cursor cursor;
    uint64_t seq; /* what the oracle says it has */
    unsigned woken;
};

static void on_wake(struct cursor *c)
{
    container_of(c, struct reader, cursor)->woken++;
}

static uint64_t rng;

static size_t below(size_t n)
{
    return t_below(&rng, n);
}

static struct stream *stream_of(const char *owner, int64_t task_key)
{
    struct names *names = names_new(str_of(owner), STR("c"));
    struct stream *s = stream_new(names, STR(TASK), task_key);
    names_unref(names); /* the stream has its own */
    return s;
}

static void append(struct stream *s, struct oracle *o)
{
    char text[600];
    int n =
        snprintf(text, sizeof text, json("{'text':'%0*d'}"), 1 + (int)below(400), (int)below(1000));
    struct buf line = {0};
    assert_int_equal(stream_append(s, 1000, EVENT_TOKEN, (struct str){text, (size_t)n}), o->next);
    event_line(&line, TASK, o->next, 1000, EVENT_TOKEN, (struct str){text, (size_t)n});
    o->lines[o->next - 1] = (struct str){line.bytes, line.len};
    o->next++;
}

/* The sealed blocks, as a store would have them. */
struct shelf {
    struct block *blocks[MAX_LINES];
    size_t n;
};

static struct block *copy_of(int64_t task_key, const struct lines *run)
{
    struct block *b = block_new(task_key, run->first, run->last, run->bytes.n);
    memcpy(b->bytes, run->bytes.p, run->bytes.n);
    return b;
}

static struct lines lines_of(const struct block *b)
{
    return (struct lines){b->first, b->last, {b->bytes, b->len}};
}

/* A store may divide sealed lines after any line. */
static void put_on_shelf(struct shelf *shelf, const struct block *b)
{
    struct lines left = lines_of(b);
    while (left.bytes.n > 0) {
        struct lines piece = left;
        const char *end = memrchr(left.bytes.p, '\n', below(left.bytes.n + 1));
        piece.bytes.n = end ? (size_t)(end + 1 - left.bytes.p) : left.bytes.n;
        left.bytes = (struct str){left.bytes.p + piece.bytes.n, left.bytes.n - piece.bytes.n};
        if (left.bytes.n > 0) {
            left.first = event_line_seq(left.bytes.p, left.bytes.n);
            piece.last = left.first - 1;
        }
        shelf->blocks[shelf->n++] = copy_of(b->task_key, &piece);
    }
}

/* The block with the line, and some of those after it, as from a read. */
static void load_from_shelf(const struct shelf *shelf, struct block_cache *cache, struct stream *s,
                            uint64_t seq)
{
    size_t i = 0, n = 1 + below(4);
    while (i < shelf->n && shelf->blocks[i]->last < seq)
        i++;
    assert_true(i < shelf->n && shelf->blocks[i]->first <= seq);
    assert_true(stream_owns(s, shelf->blocks[i]));
    for (; n > 0 && i < shelf->n && stream_owns(s, shelf->blocks[i]); i++, n--) {
        struct lines lines = lines_of(shelf->blocks[i]);
        block_cache_put(cache, s, copy_of(s->task_key, &lines));
    }
}

static void read_some(struct reader *r, struct block_cache *cache, const struct shelf *shelf,
                      const struct oracle *o)
{
    struct str lines;
    size_t max = below(3000);
    switch (cursor_peek(&r->cursor, cache, max, &lines)) {
    case READ_NONE: assert_int_equal(r->seq, o->head); return;
    case READ_LOAD: load_from_shelf(shelf, cache, r->cursor.stream, r->cursor.seq + 1); return;
    case READ_LINES: break;
    }
    const char *at = lines.p;
    size_t n = 0;
    while (at < lines.p + lines.n) {
        struct str want = o->lines[r->seq];
        assert_true((size_t)(lines.p + lines.n - at) >= want.n);
        assert_memory_equal(at, want.p, want.n);
        at += want.n;
        r->seq++;
        n++;
    }
    assert_true(r->seq <= o->head);
    assert_true(lines.n <= max || n == 1);
    cursor_take(&r->cursor, lines);
    assert_int_equal(r->cursor.seq, r->seq);
}

/* The live objects: the stream, its expected state, its blocks, its readers. */
static struct oracle o;
static struct shelf shelf;
static struct reader readers[8];
static bool flying;
static uint64_t flying_next;
static struct lines on_board; /* what flies, unless it is a block */

static void take(struct stream *s)
{
    uint64_t first, last;
    if (flying || o.next == o.head + 1)
        return;
    flying = true;
    flying_next = o.next;
    if (s->tail.len >= BLOCK_BYTES || below(20) == 0) {
        assert_non_null(stream_seal(s));
        return;
    }
    struct str lines = stream_take_lines(s, &first, &last);
    assert_int_equal(first, o.head + 1);
    assert_int_equal(last, o.next - 1);
    on_board = (struct lines){first, last, lines};
}

/* The batch points into the tail: its lines stay there, whatever was appended since. */
static void look_at_batch(void)
{
    const char *at = on_board.bytes.p;
    if (!at)
        return;
    for (uint64_t seq = on_board.first; seq <= on_board.last; seq++) {
        assert_memory_equal(at, o.lines[seq - 1].p, o.lines[seq - 1].n);
        at += o.lines[seq - 1].n;
    }
    assert_ptr_equal(at, on_board.bytes.p + on_board.bytes.n);
    on_board = (struct lines){0};
}

static void commit(struct stream *s, struct block_cache *cache)
{
    if (!flying)
        return;
    if (s->sealing)
        put_on_shelf(&shelf, s->sealing);
    look_at_batch();
    for (size_t n = below(20); n > 0; n--) /* the store has it, and nobody was told yet */
        read_some(&readers[below(countof(readers))], cache, &shelf, &o);
    stream_committed(s, cache);
    o.head = flying_next - 1;
    assert_int_equal(s->head, o.head);
    flying = false;
}

static void roll_back(struct stream *s)
{
    if (!flying || below(10) > 0)
        return;
    look_at_batch();
    stream_roll_back(s);
    for (uint64_t seq = o.head + 1; seq < o.next; seq++)
        free((char *)o.lines[seq - 1].p);
    o.next = o.head + 1;
    assert_int_equal(s->next, o.next);
    flying = false;
}

static void jump(struct reader *r, struct stream *s)
{
    if (below(50) > 0)
        return;
    uint64_t after = o.head ? below(o.head + 1) : 0;
    cursor_detach(&r->cursor);
    cursor_attach(&r->cursor, s, after);
    r->seq = after;
}

static void step(struct stream *s, struct block_cache *cache)
{
    struct reader *r = &readers[below(countof(readers))];
    switch (below(10)) {
    case 0:
    case 1:
    case 2: append(s, &o); break;
    case 3: take(s); break;
    case 4: commit(s, cache); break;
    case 5: roll_back(s); break;
    case 6: jump(r, s); break;
    default: read_some(r, cache, &shelf, &o);
    }
    assert_true(cache->bytes <= 100000 + BLOCK_BYTES * 4);
}

/* Batches are taken, committed or rolled back at random; cursors read at random; all that they get
 * is exactly the oracle's log, and never a line that was not committed (promises 1 and 2). */
static void test_stream_random_life_equals_naive_log(void **state)
{
    (void)state;
    rng = t_seed();
    struct block_cache cache;
    block_cache_init(&cache, 100000);
    struct stream *s = stream_of("me", 7);
    o.next = 1;
    for (size_t i = 0; i < countof(readers); i++) {
        readers[i].cursor.wake = on_wake;
        cursor_attach(&readers[i].cursor, s, 0);
    }
    for (int i = 0; i < 60000 && o.next < MAX_LINES; i++)
        step(s, &cache);
    for (size_t i = 0; i < countof(readers); i++) {
        while (cursor_has_more(&readers[i].cursor))
            read_some(&readers[i], &cache, &shelf, &o);
        assert_int_equal(readers[i].seq, o.head);
        cursor_detach(&readers[i].cursor);
    }
    if (flying)
        stream_roll_back(s);
    block_cache_drop(&cache, s);
    stream_free(s);
    assert_int_equal(cache.bytes, 0);
    for (size_t i = 0; i < shelf.n; i++)
        block_free(shelf.blocks[i]);
    for (uint64_t seq = 1; seq < o.next; seq++)
        free((char *)o.lines[seq - 1].p);
}

static void count_idle(struct stream *stream, void *arg)
{
    stream_free(stream);
    ++*(size_t *)arg;
}

/* Blocks of a few bytes cost what their streams cost: many short tasks do not pass the bound. */
static void test_stream_small_blocks_count_for_what_they_keep(void **state)
{
    (void)state;
    struct block_cache cache;
    size_t n_idle = 0;
    enum { N = 3000, KEPT = 1024 };
    block_cache_init(&cache, KEPT * (CACHED_OVERHEAD + 10));
    cache.idle = count_idle;
    cache.arg = &n_idle;
    for (int64_t i = 0; i < N; i++)
        block_cache_put(&cache, stream_of("a", i), block_new(i, 1, 4, 10));
    assert_int_equal(n_idle, N - KEPT);
    while (!list_is_empty(&cache.lru)) {
        struct stream *s = list_item(cache.lru.next, struct cached_block, lru)->stream;
        block_cache_drop(&cache, s);
        stream_free(s);
    }
    assert_int_equal(cache.bytes, 0);
}

/* One stream's long replay keeps to its share and leaves the others' blocks where they are. */
static void test_stream_long_replay_keeps_to_its_share_of_the_cache(void **state)
{
    (void)state;
    struct block_cache cache;
    block_cache_init(&cache, 64u << 20);
    struct stream *small = stream_of("a", 1);
    struct stream *large = stream_of("b", 2);
    for (uint64_t i = 0; i < 10; i++)
        block_cache_put(&cache, small, block_new(1, i * 10 + 1, i * 10 + 10, BLOCK_BYTES));
    for (uint64_t i = 0; i < 20000; i++)
        block_cache_put(&cache, large, block_new(2, i * 10 + 1, i * 10 + 10, BLOCK_BYTES));
    assert_true(large->cached->bytes <= STREAM_CACHE_BYTES);
    assert_int_equal(small->cached->n, 10);
    /* The last events are there, in order, wherever in the stream they lie. */
    block_cache_put(&cache, large, block_new(2, 1, 10, BLOCK_BYTES));
    block_cache_put(&cache, large, block_new(2, 11, 20, BLOCK_BYTES));
    assert_int_equal(large->cached->at[0]->block->first, 1);
    assert_int_equal(large->cached->at[1]->block->first, 11);
    block_cache_drop(&cache, small);
    block_cache_drop(&cache, large);
    assert_int_equal(cache.bytes, 0);
    stream_free(small);
    stream_free(large);
}

static void append_bytes(struct stream *s, size_t bytes)
{
    while (s->tail.len < bytes)
        stream_append(s, 1000, EVENT_TOKEN, str_of(json("{'text':'a word, and one more'}")));
}

/* A task that says little and then nothing holds its block alone; one that talks goes on in the
 * room that it has. */
static void test_stream_silent_one_keeps_no_room_for_a_tail(void **state)
{
    (void)state;
    struct block_cache cache;
    uint64_t first, last;
    block_cache_init(&cache, 1u << 20);
    struct stream *s = stream_of("a", 1);
    assert_null(s->cached);
    append_bytes(s, BLOCK_BYTES);
    assert_non_null(stream_seal(s));
    assert_true(s->tail.cap > BLOCK_BYTES);
    stream_committed(s, &cache);
    append_bytes(s, 1);
    stream_take_lines(s, &first, &last);
    stream_committed(s, &cache);
    assert_non_null(stream_seal(s));
    assert_int_equal(s->tail.cap, 0);
    stream_committed(s, &cache);
    assert_int_equal(s->head, last);
    assert_int_equal(s->cached->n, 2);
    append_bytes(s, 1);
    assert_int_equal(s->next, last + 2);
    stream_roll_back(s);
    assert_int_equal(s->next, last + 1);
    block_cache_drop(&cache, s);
    assert_null(s->cached);
    stream_free(s);
}

/* A read may bring blocks of a commit of which nobody was told yet. */
static void test_stream_does_not_own_a_block_of_what_it_still_has(void **state)
{
    (void)state;
    struct block_cache cache;
    block_cache_init(&cache, 1u << 20);
    struct stream *s = stream_of("a", 1);
    struct lines left = {0};
    append_bytes(s, BLOCK_MOST + BLOCK_BYTES);
    (void)stream_take_lines(s, &left.first, &left.last);
    stream_committed(s, &cache);
    append_bytes(s, BLOCK_MOST + BLOCK_BYTES + 1);
    struct block *whole = stream_seal(s), *blocks[2];
    left = lines_of(whole);
    for (size_t i = 0; i < countof(blocks); i++) {
        struct lines piece;
        assert_true(lines_take_block(&left, &piece));
        blocks[i] = copy_of(1, &piece);
        assert_false(stream_owns(s, blocks[i]));
    }
    stream_committed(s, &cache);
    for (size_t i = 0; i < countof(blocks); i++) {
        assert_true(stream_owns(s, blocks[i]));
        block_cache_put(&cache, s, blocks[i]);
    }
    assert_int_equal(s->cached->n, 1); /* as it was */
    block_cache_drop(&cache, s);
    stream_free(s);
}

/* A checksum vouches for the lines between the ends of a block; without one each is looked at.  The
 * ends are looked at always: another block may be sound as well. */
static void test_stream_looks_at_each_line_that_has_no_checksum(void **state)
{
    (void)state;
    struct buf all = {0};
    struct stream *s = stream_of("a", 1);
    stream_set(s, 1, 20, true);
    for (uint64_t seq = 5; seq < 12; seq++)
        event_line(&all, TASK, seq == 8 ? 9 : seq, 1000, EVENT_TOKEN, STR("{}"));
    struct lines wrong = {5, 11, buf_str(&all)};
    struct block *b = copy_of(1, &wrong);
    assert_false(stream_owns(s, b));
    b->is_summed = true;
    assert_true(stream_owns(s, b));
    b->first = 4;
    assert_false(stream_owns(s, b));
    b->first = 5;
    b->last = 12;
    assert_false(stream_owns(s, b));
    b->last = 11;
    b->len--;
    assert_false(stream_owns(s, b));
    b->len = 0;
    assert_false(stream_owns(s, b));
    block_free(b);
    buf_done(&all);
    stream_free(s);
}

/* Each block of a long run has whole lines, as many as there is room for; one that is longer is
 * alone. */
static void test_stream_long_run_becomes_blocks_of_whole_lines(void **state)
{
    (void)state;
    static char text[BLOCK_MOST + 100];
    memset(text, 'x', sizeof text);
    memcpy(text, json("{'text':'"), 9);
    memcpy(text + sizeof text - 2, json("'}"), 2);
    struct buf all = {0};
    for (uint64_t seq = 5; seq < 2000; seq++)
        event_line(&all, TASK, seq, 1000, EVENT_TOKEN,
                   seq % 500 ? str_of(json("{'text':'a word'}")) : (struct str){text, sizeof text});
    struct lines left = {5, 1999, buf_str(&all)}, block;
    const char *at = all.bytes;
    uint64_t next = 5;
    while (lines_take_block(&left, &block)) {
        assert_ptr_equal(block.bytes.p, at);
        assert_int_equal(block.first, next);
        assert_true(event_lines_are(block.bytes, block.first, block.last));
        assert_true(block.bytes.n <= BLOCK_MOST || block.first == block.last);
        at += block.bytes.n;
        next = block.last + 1;
        if (left.bytes.n > 0) { /* the next line had no room */
            const char *end = memchr(left.bytes.p, '\n', left.bytes.n);
            assert_true(block.bytes.n + (size_t)(end + 1 - left.bytes.p) > BLOCK_MOST);
        }
    }
    assert_ptr_equal(at, all.bytes + all.len);
    assert_int_equal(next, 2000);
    buf_done(&all);
}

static void lend(bool grow, bool forget)
{
    struct block_cache cache;
    uint64_t first, last;
    block_cache_init(&cache, 1u << 20);
    struct stream *s = stream_of("a", 1);
    append_bytes(s, 1);
    struct str lines = stream_take_lines(s, &first, &last), copy = str_own(lines);
    for (int times = 0; grow && times < 2; times++)
        append_bytes(s, s->tail.cap + 1);
    if (forget)
        stream_forget(s, &cache);
    assert_memory_equal(lines.p, copy.p, copy.n);
    assert_true(grow || forget ? lines.p == s->lent : lines.p == s->tail.bytes);
    stream_committed(s, &cache);
    assert_null(s->lent);
    assert_true(forget || memcmp(s->tail.bytes, copy.p, copy.n) == 0);
    str_free(&copy);
    stream_free(s);
}

/* The store may still read what it was lent when the tail grows, or is dropped. */
static void test_stream_lines_stay_where_the_batch_has_them(void **state)
{
    (void)state;
    lend(false, false);
    lend(true, false);
    lend(false, true);
    lend(true, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream_random_life_equals_naive_log),
        cmocka_unit_test(test_stream_lines_stay_where_the_batch_has_them),
        cmocka_unit_test(test_stream_small_blocks_count_for_what_they_keep),
        cmocka_unit_test(test_stream_long_replay_keeps_to_its_share_of_the_cache),
        cmocka_unit_test(test_stream_silent_one_keeps_no_room_for_a_tail),
        cmocka_unit_test(test_stream_does_not_own_a_block_of_what_it_still_has),
        cmocka_unit_test(test_stream_looks_at_each_line_that_has_no_checksum),
        cmocka_unit_test(test_stream_long_run_becomes_blocks_of_whole_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
