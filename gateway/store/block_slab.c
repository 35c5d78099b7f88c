#include "gateway/store/block_slab.h"

#include <sys/mman.h>
#include <uv.h>

#ifndef __has_feature /* clang's equivalent of gcc's __SANITIZE_ADDRESS__ */
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, n) ((void)(at), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(at, n) ((void)(at), (void)(n))
#endif

#define CHUNK_BYTES (2u << 20)
#define CHUNKS_MAX (BLOCK_SLAB_BYTES / CHUNK_BYTES)
#define UNIT 2048
#define UNITS (CHUNK_BYTES / UNIT)

/* Lies in the first unit of its own memory. */
struct chunk {
    unsigned n_used;
    unsigned longest;  /* no free run has more units */
    char taken[UNITS]; /* 1 for each unit in use */
};
_Static_assert(sizeof(struct chunk) <= UNIT, "the head of a chunk is its first unit");

static uv_once_t once = UV_ONCE_INIT;
static uv_mutex_t lock;
static struct chunk *chunks[CHUNKS_MAX]; /* blocks go into the first with room */
static unsigned n_chunks;

static void init(void)
{
    ASSERT(uv_mutex_init(&lock) == 0);
}

static size_t units_of(size_t len)
{
    return (sizeof(struct block) + len + UNIT - 1) / UNIT;
}

/* A huge page begins at a multiple of its size: the memory around it is returned. */
static struct chunk *chunk_new(void)
{
    char *raw = mmap(NULL, 2 * (size_t)CHUNK_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED)
        return NULL;
    size_t before = -(uintptr_t)raw % CHUNK_BYTES;
    char *at = raw + before;
    if (before)
        munmap(raw, before);
    munmap(at + CHUNK_BYTES, CHUNK_BYTES - before);
    (void)madvise(at, CHUNK_BYTES, MADV_HUGEPAGE); /* small ones will do too */
    struct chunk *c = (struct chunk *)(void *)at;
    c->taken[0] = 1;
    c->n_used = 1;
    c->longest = UNITS - 1;
    ASAN_POISON_MEMORY_REGION(at + UNIT, CHUNK_BYTES - UNIT);
    return c;
}

/* The first unit of a free run of n; 0 when there is none. */
static size_t find_run(struct chunk *c, size_t n)
{
    const char *free_at = c->taken, *end = c->taken + UNITS;
    while (c->longest >= n && (free_at = memchr(free_at, 0, (size_t)(end - free_at)))) {
        const char *taken_at = memchr(free_at, 1, (size_t)(end - free_at));
        if ((size_t)((taken_at ? taken_at : end) - free_at) >= n)
            return (size_t)(free_at - c->taken);
        if (!taken_at)
            break;
        free_at = taken_at;
    }
    if (c->longest >= n)
        c->longest = (unsigned)n - 1;
    return 0;
}

static void *slab_take(size_t n)
{
    for (unsigned i = 0; i < CHUNKS_MAX; i++) {
        if (i == n_chunks) {
            chunks[i] = chunk_new();
            if (!chunks[i])
                return NULL;
            n_chunks++;
        }
        struct chunk *c = chunks[i];
        size_t at = find_run(c, n);
        if (at) {
            memset(c->taken + at, 1, n);
            c->n_used += (unsigned)n;
            return (char *)c + at * UNIT;
        }
    }
    return NULL;
}

/* The first chunk stays, so that an occasional replay does not have to ask for it. */
static void drop_if_empty(struct chunk *c)
{
    unsigned i = 0;
    while (chunks[i] != c)
        i++;
    if (i == 0 || c->n_used > 1)
        return;
    n_chunks--;
    memmove(chunks + i, chunks + i + 1, (n_chunks - i) * sizeof(struct chunk *));
    ASAN_UNPOISON_MEMORY_REGION(c, CHUNK_BYTES);
    munmap(c, CHUNK_BYTES);
}

static void give_back(struct block *b)
{
    size_t offset = (uintptr_t)b % CHUNK_BYTES, n = units_of(b->len);
    struct chunk *c = (struct chunk *)(void *)((char *)b - offset);
    ASAN_POISON_MEMORY_REGION(b, n * UNIT);
    uv_mutex_lock(&lock);
    memset(c->taken + offset / UNIT, 0, n);
    c->n_used -= (unsigned)n;
    c->longest = UNITS - 1;
    drop_if_empty(c);
    uv_mutex_unlock(&lock);
}

struct block *block_slab_new(int64_t task_key, uint64_t first, uint64_t last, size_t len)
{
    size_t n = units_of(len);
    uv_once(&once, init);
    uv_mutex_lock(&lock);
    struct block *b = n < UNITS / 2 ? slab_take(n) : NULL;
    uv_mutex_unlock(&lock);
    if (!b)
        return block_new(task_key, first, last, len);
    ASAN_UNPOISON_MEMORY_REGION(b, sizeof *b + len);
    *b = (struct block){.len = (uint32_t)len,
                        .task_key = task_key,
                        .first = first,
                        .last = last,
                        .give_back = give_back};
    return b;
}

size_t block_slab_bytes(void)
{
    uv_once(&once, init);
    uv_mutex_lock(&lock);
    size_t bytes = (size_t)n_chunks * CHUNK_BYTES;
    uv_mutex_unlock(&lock);
    return bytes;
}
