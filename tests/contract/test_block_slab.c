/* The memory of blocks that are read: nobody gets what somebody has, and there is an end to it. */
#include <stdlib.h>
#include <uv.h>

#include "gateway/store/block_slab.h"
#include "tests/support/t.h"

#define CHUNK_BYTES (2u << 20)
#define LIVE 200

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static struct block *make(size_t len, char mark)
{
    struct block *b = block_slab_new(7, 1, 2, len);
    assert_non_null(b);
    assert_int_equal(b->len, len);
    assert_int_equal(b->task_key, 7);
    assert_int_equal(b->last, 2);
    memset(b->bytes, mark, len);
    return b;
}

static bool holds(const struct block *b, char mark)
{
    return b->len == 0 || (b->bytes[0] == mark && memcmp(b->bytes, b->bytes + 1, b->len - 1) == 0);
}

/* Blocks of all sizes: nothing, a little, a block, many of them, more than a chunk. */
static size_t some_size(uint32_t *seed)
{
    static const size_t most[] = {64, 4096, 20000, 20000, 20000, 200000, 3u << 20};
    uint32_t kind = next_random(seed) % 100;
    return next_random(seed) % most[kind == 99 ? 6 : kind % 6];
}

static void live_a_random_life(void *arg)
{
    uint32_t seed = *(const uint32_t *)arg;
    struct block *live[LIVE] = {NULL};
    char marks[LIVE] = {0};
    for (int i = 0; i < 20000; i++) {
        size_t at = next_random(&seed) % LIVE;
        if (live[at]) {
            assert_true(holds(live[at], marks[at]));
            block_free(live[at]);
            live[at] = NULL;
        } else {
            marks[at] = (char)next_random(&seed);
            live[at] = make(some_size(&seed), marks[at]);
        }
    }
    for (size_t at = 0; at < LIVE; at++) {
        assert_true(!live[at] || holds(live[at], marks[at]));
        block_free(live[at]);
    }
}

static void test_blocks_keep_what_was_put_into_them(void **state)
{
    (void)state;
    uint32_t seed = 1;
    live_a_random_life(&seed);
    assert_in_range(block_slab_bytes(), 0, CHUNK_BYTES);
}

static void test_threads_do_not_get_each_others_blocks(void **state)
{
    (void)state;
    uv_thread_t threads[3];
    uint32_t seeds[3] = {2, 3, 4};
    for (size_t i = 0; i < countof(threads); i++)
        assert_int_equal(uv_thread_create(&threads[i], live_a_random_life, &seeds[i]), 0);
    for (size_t i = 0; i < countof(threads); i++)
        uv_thread_join(&threads[i]);
    assert_in_range(block_slab_bytes(), 0, CHUNK_BYTES);
}

static void test_what_was_given_back_is_used_again(void **state)
{
    (void)state;
    struct block *live[1000]; /* of 18 KiB: nine chunks */
    for (size_t i = 0; i < countof(live); i++)
        live[i] = make(17000, (char)i);
    size_t bytes = block_slab_bytes();
    assert_in_range(bytes, 1000 * 17000, 10 * CHUNK_BYTES);
    for (size_t i = 0; i < 20 * countof(live); i++) {
        block_free(live[i * 7 % countof(live)]);
        live[i * 7 % countof(live)] = make(16400 + i % 2000, (char)i);
        assert_int_equal(block_slab_bytes(), bytes);
    }
    for (size_t i = 0; i < countof(live); i++)
        block_free(live[i]);
    assert_int_equal(block_slab_bytes(), CHUNK_BYTES);
}

static void test_beyond_its_bound_there_is_the_heap(void **state)
{
    (void)state;
    struct block **live = xalloc(5000 * sizeof(struct block *)); /* 85 MB */
    for (size_t i = 0; i < 5000; i++)
        live[i] = make(17000, (char)i);
    assert_int_equal(block_slab_bytes(), BLOCK_SLAB_BYTES);
    for (size_t i = 0; i < 5000; i++) {
        assert_true(holds(live[i], (char)i));
        block_free(live[i]);
    }
    free(live);
    assert_int_equal(block_slab_bytes(), CHUNK_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_keep_what_was_put_into_them),
        cmocka_unit_test(test_threads_do_not_get_each_others_blocks),
        cmocka_unit_test(test_what_was_given_back_is_used_again),
        cmocka_unit_test(test_beyond_its_bound_there_is_the_heap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
