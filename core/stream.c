#include "core/stream.h"

#include <stdlib.h>

struct map_key stream_key(const struct map_node *node)
{
    const struct stream *s = container_of(node, const struct stream, node);
    return (struct map_key){
        {stream_owner(s), stream_conversation_id(s), {s->task_id, TASK_ID_LEN}}};
}

struct stream *stream_new(struct names *names, struct str task_id, int64_t task_key)
{
    ASSERT(task_id.n == TASK_ID_LEN);
    struct stream *s = xcalloc(sizeof *s);
    s->names = names_ref(names);
    memcpy(s->task_id, task_id.p, TASK_ID_LEN);
    s->task_key = task_key;
    s->first = s->next = s->tail_first = 1;
    list_init(&s->cursors);
    return s;
}

void stream_free(struct stream *s)
{
    if (!s)
        return;
    ASSERT(list_is_empty(&s->cursors) && s->pins == 0 && !s->cached && !s->sealing && !s->lent);
    list_remove(&s->dirty);
    list_remove(&s->to_seal);
    buf_done(&s->tail);
    free(s->chain);
    free(s->summary);
    names_unref(s->names);
    free(s);
}

void stream_set(struct stream *s, uint64_t first, uint64_t head, bool ended)
{
    s->first = first;
    s->head = head;
    s->next = s->tail_first = head + 1;
    s->ended = ended;
}

/* A checksum is of all lines as they were written: then its ends tell that it is the right run. */
static bool has_its_lines(const struct block *b)
{
    struct str lines = {b->bytes, b->len}, last = event_last_line(lines);
    const char *newline = b->is_summed ? memchr(lines.p, '\n', lines.n) : NULL;
    if (!newline)
        return event_lines_are(lines, b->first, b->last);
    return event_lines_are((struct str){lines.p, (size_t)(newline + 1 - lines.p)}, b->first,
                           b->first) &&
           event_lines_are(last, b->last, b->last);
}

bool stream_owns(const struct stream *s, const struct block *b)
{
    uint64_t own = s->sealing ? s->sealing->first : s->tail_first;
    return b->last < own && has_its_lines(b) &&
           memcmp(b->bytes + sizeof(EVENT_PREFIX) - 1, s->task_id, TASK_ID_LEN) == 0;
}

void stream_set_tail(struct stream *s, const struct block *lines)
{
    buf_clear(&s->tail);
    buf_put(&s->tail, lines->bytes, lines->len);
    s->tail_first = lines->first;
    s->tail_put = s->tail_seen = lines->len;
    s->head = lines->last;
    s->next = lines->last + 1;
}

/* Whether the batch in flight points into the tail. */
static bool is_lent(const struct stream *s)
{
    return s->tail_put > s->tail_seen && !s->lent;
}

static void no_longer_lent(struct stream *s)
{
    free(s->lent);
    s->lent = NULL;
}

/* Grows it elsewhere. */
static void leave_lent(struct stream *s, size_t more)
{
    struct buf *tail = &s->tail;
    if (tail->cap - tail->len > more)
        return;
    s->lent = tail->bytes;
    tail->bytes = NULL;
    buf_reserve(tail, more);
    memcpy(tail->bytes, s->lent, tail->len);
}

uint64_t stream_append(struct stream *s, int64_t ts_wall_ms, enum event_type event, struct str data)
{
    if (is_lent(s))
        leave_lent(s, event_line_bytes(s->next, ts_wall_ms, event, data));
    event_line(&s->tail, s->task_id, s->next, ts_wall_ms, event, data);
    return s->next++;
}

struct str stream_take_lines(struct stream *s, uint64_t *ret_first, uint64_t *ret_last)
{
    struct str lines = {s->tail.bytes + s->tail_put, s->tail.len - s->tail_put};
    ASSERT(lines.n > 0);
    *ret_first = event_line_seq(lines.p, lines.n);
    *ret_last = s->next - 1;
    s->tail_put = (uint32_t)s->tail.len;
    return lines;
}

struct block *stream_seal(struct stream *s)
{
    ASSERT(!s->sealing && s->tail.len > 0);
    struct block *b = block_new(s->task_key, s->tail_first, s->next - 1, s->tail.len);
    if (!b)
        return NULL;
    memcpy(b->bytes, s->tail.bytes, s->tail.len);
    s->sealing = b;
    b->seen = s->tail_seen;
    /* A task that is sealed early is silent, or has ended: it keeps no room for more. */
    if (b->len < BLOCK_BYTES || s->tail.cap > 4 * BLOCK_BYTES)
        buf_done(&s->tail);
    buf_clear(&s->tail);
    s->tail_first = s->next;
    s->tail_put = s->tail_seen = 0;
    return b;
}

bool stream_prove(struct stream *s, char ret[CHAIN_HEX + 1])
{
    if (!s->chain)
        return false;
    struct chain all = *s->chain;
    if (s->sealing)
        chain_take(&all, (struct str){s->sealing->bytes, s->sealing->len}, s->sealing->first,
                   s->sealing->last);
    if (s->tail.len)
        chain_take(&all, buf_str(&s->tail), s->tail_first, s->next - 1);
    s->chain->proved = true;
    return chain_hex(&all, ret) && all.seq == s->next - 1;
}

void stream_committed(struct stream *s, struct block_cache *cache)
{
    if (s->sealing) {
        struct block *b = s->sealing;
        s->sealing = NULL;
        s->head = b->last;
        if (s->chain && !s->chain->proved)
            chain_take(s->chain, (struct str){b->bytes, b->len}, b->first, b->last);
        block_cache_put(cache, s, b);
    }
    s->tail_seen = s->tail_put;
    no_longer_lent(s);
    if (s->tail_seen) {
        s->head = event_last_seq((struct str){s->tail.bytes, s->tail_seen});
    }
}

void stream_roll_back(struct stream *s)
{
    no_longer_lent(s);
    if (s->sealing) {
        struct block *b = s->sealing;
        s->sealing = NULL;
        buf_clear(&s->tail);
        buf_put(&s->tail, b->bytes, b->seen);
        s->tail_first = b->first;
        s->tail_seen = b->seen;
        block_free(b);
    }
    if (s->chain)
        s->chain->proved = false;
    s->tail.len = s->tail_put = s->tail_seen;
    s->next = s->head + 1;
    if (s->tail.len == 0)
        s->tail_first = s->next;
    list_remove(&s->dirty);
}

void cursor_attach(struct cursor *c, struct stream *s, uint64_t after)
{
    c->stream = s;
    s->unread = false; /* a new reader makes it try again */
    c->seq = after;
    c->run_first = 0;
    c->run_at = 0;
    list_push(&s->cursors, &c->in_stream);
}

void cursor_detach(struct cursor *c)
{
    list_remove(&c->in_stream);
    c->stream = NULL;
}

/* The index of the cached block that holds seq, or -1. */
static ptrdiff_t find_block(const struct stream *s, uint64_t seq)
{
    const struct cached_blocks *c = s->cached;
    size_t low = 0, high = c ? c->n : 0, n = high;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (c->at[mid]->block->last < seq)
            low = mid + 1;
        else
            high = mid;
    }
    return low < n && c->at[low]->block->first <= seq ? (ptrdiff_t)low : -1;
}

/* The offset of line seq in a run of lines that begins with first: from the hint, or counted. */
static size_t offset_of(const struct cursor *c, uint64_t seq, uint64_t first, struct str run)
{
    if (c->run_first == first)
        return c->run_at;
    const char *at = run.p;
    for (uint64_t skip = seq - first; skip > 0; skip--) {
        at = memchr(at, '\n', run.n - (size_t)(at - run.p));
        ASSERT(at);
        at++;
    }
    return (size_t)(at - run.p);
}

static void touch(struct block_cache *cache, struct cached_block *cached)
{
    list_remove(&cached->lru);
    list_push(&cache->lru, &cached->lru);
    list_remove(&cached->own_lru);
    list_push(&cached->stream->cached->lru, &cached->own_lru);
}

/* A cached block's memory: its bytes, its entry here and, often, the stream and the summary that
 * only it keeps alive. */
static size_t cost_of(const struct block *b)
{
    return b->len + CACHED_OVERHEAD;
}

static void no_longer_ahead(struct block_cache *cache, struct cached_block *cached)
{
    if (cached->ahead)
        cache->ahead_bytes -= cost_of(cached->block);
    cached->ahead = false;
}

enum read_result cursor_peek(struct cursor *c, struct block_cache *cache, size_t max,
                             struct str *ret_lines)
{
    struct stream *s = c->stream;
    if (c->seq >= s->head)
        return READ_NONE;
    uint64_t seq = c->seq + 1;
    uint64_t first;
    struct str run;
    if (seq >= s->tail_first) {
        first = s->tail_first;
        run = (struct str){s->tail.bytes, s->tail_seen};
    } else if (s->sealing && seq >= s->sealing->first) {
        first = s->sealing->first;
        run = (struct str){s->sealing->bytes, s->sealing->seen};
    } else {
        ptrdiff_t i = find_block(s, seq);
        if (i < 0)
            return READ_LOAD;
        struct cached_block *cached = s->cached->at[i];
        touch(cache, cached);
        no_longer_ahead(cache, cached);
        first = cached->block->first;
        run = (struct str){cached->block->bytes, cached->block->len};
    }
    size_t at = offset_of(c, seq, first, run);
    ASSERT(at < run.n);
    struct str lines = {run.p + at, run.n - at};
    if (lines.n > max) {
        const char *cut = max ? memrchr(lines.p, '\n', max) : NULL;
        if (!cut)
            cut = memchr(lines.p, '\n', lines.n); /* one long line travels alone */
        lines.n = (size_t)(cut - lines.p) + 1;
    }
    c->run_first = first;
    c->run_at = at;
    *ret_lines = lines;
    return READ_LINES;
}

uint64_t cursor_misses(const struct cursor *c, size_t ahead)
{
    const struct stream *s = c->stream;
    uint64_t own = s->sealing ? s->sealing->first : s->tail_first;
    uint64_t seq = c->seq + 1;
    for (size_t found = 0; seq < own && found < ahead;) {
        ptrdiff_t i = find_block(s, seq);
        if (i < 0)
            return seq;
        found += s->cached->at[i]->block->len;
        seq = s->cached->at[i]->block->last + 1;
    }
    return 0;
}

void cursor_take(struct cursor *c, struct str lines)
{
    ASSERT(lines.n > 0 && lines.p[lines.n - 1] == '\n');
    uint64_t last = event_last_seq(lines);
    ASSERT(last > c->seq && last <= c->stream->head);
    c->seq = last;
    c->run_at += lines.n;
}

void stream_wake(struct stream *s)
{
    list_each (it, &s->cursors) {
        struct cursor *c = list_item(it, struct cursor, in_stream);
        c->wake(c);
    }
}

void stream_forget(struct stream *s, struct block_cache *cache)
{
    ASSERT(!s->sealing && !s->task);
    s->gone = true;
    block_cache_drop(cache, s);
    list_remove(&s->dirty);
    list_remove(&s->to_seal);
    if (is_lent(s))
        s->lent = buf_take(&s->tail);
    buf_done(&s->tail);
    s->tail_first = s->next;
    s->tail_put = s->tail_seen = 0;
    free(s->summary);
    s->summary = NULL;
    stream_wake(s);
}

void stream_cut(struct stream *s, uint64_t first, struct block_cache *cache)
{
    ASSERT(!s->task && first > s->first && first <= s->tail_first);
    s->first = first;
    block_cache_drop(cache, s);
}

void block_cache_init(struct block_cache *cache, size_t max_bytes)
{
    *cache = (struct block_cache){.max_bytes = max_bytes};
    list_init(&cache->lru);
}

static void uncache(struct block_cache *cache, struct cached_block *cached)
{
    struct stream *s = cached->stream;
    struct cached_blocks *all = s->cached;
    size_t at = (size_t)find_block(s, cached->block->first);
    ASSERT(all->at[at] == cached);
    no_longer_ahead(cache, cached);
    memmove(all->at + at, all->at + at + 1, (all->n - at - 1) * sizeof(struct cached_block *));
    all->n--;
    all->bytes -= cost_of(cached->block);
    cache->bytes -= cost_of(cached->block);
    list_remove(&cached->lru);
    list_remove(&cached->own_lru);
    block_free(cached->block);
    free(cached);
    if (all->n == 0) {
        free(all->at);
        free(all);
        s->cached = NULL;
    }
}

/* Drops the least recently used: the stream's own beyond its share, any beyond the limit. */
static void make_room(struct block_cache *cache, struct stream *s, size_t cost)
{
    while (s->cached && s->cached->bytes + cost > STREAM_CACHE_BYTES)
        uncache(cache, list_item(s->cached->lru.next, struct cached_block, own_lru));
    while (!list_is_empty(&cache->lru) && cache->bytes + cost > cache->max_bytes) {
        struct cached_block *old = list_item(cache->lru.next, struct cached_block, lru);
        struct stream *owner = old->stream;
        uncache(cache, old);
        if (owner != s && !owner->cached && cache->idle)
            cache->idle(owner, cache->arg);
    }
}

static void put_in_order(struct stream *s, struct cached_block *cached)
{
    struct cached_blocks *all = s->cached;
    if (!all) {
        all = s->cached = xcalloc(sizeof *all);
        list_init(&all->lru);
    }
    if (all->n == all->cap) {
        all->cap = all->cap ? all->cap * 2 : 1; /* most silent tasks have one block */
        all->at = xrealloc(all->at, all->cap * sizeof(struct cached_block *));
    }
    size_t at = all->n;
    while (at > 0 && all->at[at - 1]->block->first > cached->block->first)
        at--;
    memmove(all->at + at + 1, all->at + at, (all->n - at) * sizeof(struct cached_block *));
    all->at[at] = cached;
    all->n++;
}

static void cache_block(struct block_cache *cache, struct stream *s, struct block *b, bool ahead)
{
    if (find_block(s, b->first) >= 0) {
        block_free(b);
        return;
    }
    make_room(cache, s, cost_of(b));
    struct cached_block *cached = xcalloc(sizeof *cached);
    *cached = (struct cached_block){.stream = s, .block = b, .ahead = ahead};
    cache->ahead_bytes += ahead ? cost_of(b) : 0;
    put_in_order(s, cached);
    s->cached->bytes += cost_of(b);
    cache->bytes += cost_of(b);
    touch(cache, cached);
}

void block_cache_put(struct block_cache *cache, struct stream *s, struct block *b)
{
    cache_block(cache, s, b, false);
}

void block_cache_put_ahead(struct block_cache *cache, struct stream *s, struct block *b)
{
    cache_block(cache, s, b, true);
}

void block_cache_drop(struct block_cache *cache, struct stream *s)
{
    while (s->cached)
        uncache(cache, s->cached->at[s->cached->n - 1]);
}
