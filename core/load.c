#include "core/load.h"

#include <stdlib.h>

#define LOAD_RETRY_MS 200
#define LOAD_BYTES (256 * 1024)      /* of blocks in one read that somebody waits for */
#define LOAD_AHEAD (2 * LOAD_BYTES)  /* in one that comes before it is needed */
#define LOAD_ALONE (4 * LOAD_BYTES)  /* the same where nearly nothing else is read ahead */
#define AHEAD_BYTES (LOAD_AHEAD / 2) /* with less than this before it, a reader gets the next */

struct load {
    struct hub *hub;
    struct stream *stream;
    uint64_t seq; /* the first seq that is needed */
    msec_t since;
    struct timer again;
    size_t bytes; /* so many are asked for */
    bool ahead;   /* nobody needs it yet: whoever does asks again, and decides what is wrong */
};

/* Read ahead is a quarter of the cache at most: more would be gone before its readers come to it,
 * and be read again.  0: there is no room. */
static size_t room_ahead(const struct block_cache *cache)
{
    size_t most = cache->max_bytes / 4;
    if (cache->ahead_bytes < LOAD_AHEAD && LOAD_ALONE <= most / 4)
        return LOAD_ALONE;
    return cache->ahead_bytes + LOAD_AHEAD <= most ? LOAD_AHEAD : 0;
}

static void no_longer_on_its_way(struct load *load)
{
    if (load->ahead)
        load->hub->cache.ahead_bytes -= load->bytes;
}

static void end_load(struct load *load)
{
    struct stream *s = load->stream;
    s->load = NULL;
    stream_wake(s);
    hub_release_stream(load->hub, s);
    free(load);
}

static void load_blocks(struct load *load);

static void on_load_again(struct timer *timer)
{
    struct load *load = container_of(timer, struct load, again);
    struct stream *s = load->stream;
    bool is_late = load->hub->clock.now_ms - load->since >= load->hub->o.retry_ms;
    s->unread = is_late;
    if (is_late || s->gone || list_is_empty(&s->cursors))
        end_load(load);
    else
        load_blocks(load);
}

/* The store could not answer: ask again, a little later. */
static void load_later(struct load *load)
{
    timer_arm(&load->hub->clock, &load->again, load->hub->clock.now_ms + LOAD_RETRY_MS);
}

/* Everything lies in blocks, and nothing is on its way, so it may have been removed. */
static bool may_be_removed(const struct stream *s)
{
    return !s->task && !s->sealing && !s->tail.len && !list_is_in(&s->dirty);
}

/* The record was read after the blocks were found missing, and removals are for ever: events that
 * the record still has, and the blocks did not, are damaged. */
static void on_load_record(void *arg, int status, struct answer *answer)
{
    struct load *load = arg;
    struct stream *s = load->stream;
    if (status < 0 && status != STORE_CORRUPT && status != STORE_NOT_FOUND) {
        load_later(load);
        return;
    }
    uint64_t first = status == STORE_OK ? answer->tasks[0].state.first : 0;
    if (s->gone) { /* readers know already */
    } else if (status == STORE_NOT_FOUND && may_be_removed(s)) {
        stream_forget(s, &load->hub->cache);
    } else if (first > load->seq && first <= s->tail_first && may_be_removed(s)) {
        stream_cut(s, first, &load->hub->cache);
    } else {
        s->broken = true;
        hub_tell_damage(load->hub, s->task_id, load->seq);
    }
    end_load(load);
}

/* A removal may have come between the record that a reader got and its blocks, or between two of
 * them; a reader of the store may be held up for any time with its result.  So the record is read
 * again. */
static void ask_record(struct load *load)
{
    const struct stream *s = load->stream;
    hub_query(load->hub,
              &(struct query){.kind = QUERY_TASK,
                              .owner = stream_owner(s),
                              .conversation_id = stream_conversation_id(s),
                              .task_id = {s->task_id, TASK_ID_LEN}},
              on_load_record, load);
}

static void on_loaded(void *arg, int status, struct answer *answer)
{
    struct load *load = arg;
    struct stream *s = load->stream;
    void (*put)(struct block_cache *, struct stream *, struct block *) =
        load->ahead ? block_cache_put_ahead : block_cache_put;
    if (status < 0 && status != STORE_CORRUPT && !load->ahead) {
        load_later(load);
        return;
    }
    no_longer_on_its_way(load);
    bool found = answer->n_blocks > 0 && answer->blocks[0]->first <= load->seq &&
                 stream_owns(s, answer->blocks[0]);
    for (size_t i = 0; i < answer->n_blocks && !s->gone && stream_owns(s, answer->blocks[i]); i++) {
        put(&load->hub->cache, s, answer->blocks[i]);
        answer->blocks[i] = NULL;
    }
    if (found || s->gone || load->ahead)
        end_load(load);
    else
        ask_record(load);
}

static void load_blocks(struct load *load)
{
    hub_query(load->hub,
              &(struct query){.kind = QUERY_BLOCKS,
                              .task_key = load->stream->task_key,
                              .after = load->seq - 1,
                              .max_bytes = load->bytes},
              on_loaded, load);
}

/* ahead: bytes that are read before they are needed, or 0. */
static void load_new(struct hub *h, struct stream *s, uint64_t seq, size_t ahead)
{
    struct load *load = s->load = xcalloc(sizeof *load);
    *load = (struct load){.hub = h,
                          .stream = s,
                          .seq = seq,
                          .since = h->clock.now_ms,
                          .again.fire = on_load_again,
                          .bytes = ahead ? ahead : LOAD_BYTES,
                          .ahead = ahead > 0};
    h->cache.ahead_bytes += ahead;
    load_blocks(load);
}

void load_begin(struct hub *h, struct cursor *c)
{
    if (!c->stream->load)
        load_new(h, c->stream, c->seq + 1, 0);
}

void load_ahead(struct hub *h, struct cursor *c)
{
    struct stream *s = c->stream;
    size_t room = room_ahead(&h->cache);
    if (s->load || s->gone || s->broken || !room)
        return;
    uint64_t seq = cursor_misses(c, AHEAD_BYTES);
    if (seq)
        load_new(h, s, seq, room);
}

void load_drop(struct stream *s)
{
    if (!s->load)
        return;
    timer_disarm(&s->load->hub->clock, &s->load->again);
    no_longer_on_its_way(s->load);
    free(s->load);
    s->load = NULL;
}
