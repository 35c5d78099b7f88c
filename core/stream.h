/* stream -- one task's ordered log of event lines, and the cursors that read it.
 *
 * Shape:    seqs 1 … head are committed and may be seen; head+1 … next-1 are appended and may not
 *           (promise 2).  Lines lie in one of three places, in this order:
 *
 *             blocks (in the store, some in the cache) │ sealing (a block on its way) │ tail
 *             first ………………………………………………… sealed │ ……………………………………………… │ … head … next-1
 *
 *           The tail grows at its end; at BLOCK_BYTES it becomes a block as a whole.  A run of
 *           lines keeps its first seq and its bytes on its way from tail to block, so a cursor's
 *           (run, offset) stays valid, even in what the store returns, which begins as that block
 *           did, or with another seq.
 * Thread:   loop.
 * Owns:     its tail and its references on blocks.  Cursors are embedded in their readers.
 */
#ifndef CORE_STREAM_H
#define CORE_STREAM_H

#include "core/block.h"
#include "core/chain.h"
#include "core/list.h"
#include "core/map.h"
#include "core/names.h"
#include "core/resume.h"
#include "proto/event.h"

/* For one stream: a long replay must not push out everybody else's blocks. */
#define STREAM_CACHE_BYTES (4u << 20)
/* The cost of a cached block besides its bytes: its place, and a stream that it keeps. */
#define CACHED_OVERHEAD 1536

struct stream;
struct task;
struct block_cache;
struct load;

struct cached_block {
    struct list lru;     /* in the list of the whole cache */
    struct list own_lru; /* in the list of its stream */
    struct stream *stream;
    struct block *block;
    bool ahead; /* nobody has read it since it was put ahead */
};

/* The blocks of one stream that are in the cache: at least one. */
struct cached_blocks {
    struct cached_block **at; /* by first */
    size_t n, cap;
    struct list lru;
    size_t bytes; /* CACHED_OVERHEAD included, for each block */
};

/* Each live task has one, and most are silent, so its size matters (bench/README.md, `live`). */
struct stream {
    struct map_node node; /* in the hub, by (owner, conversation, task) */
    struct names *names;  /* a reference */
    int64_t task_key;
    struct task *task; /* while it is live; NULL when it has ended and is sealed */
    char *summary;     /* an ended task's summary as JSON, NULL until known */

    uint64_t first; /* oldest seq kept */
    uint64_t head;
    uint64_t next;

    struct buf tail;
    uint64_t tail_first;   /* seq of the tail's first line (= next when empty) */
    uint32_t tail_put;     /* bytes of the tail that are already in a batch */
    uint32_t tail_seen;    /* bytes of the tail that are committed */
    char *lent;            /* the tail's bytes before it grew, when the batch in flight has them */
    struct block *sealing; /* in the batch in flight */
    struct list dirty;     /* has lines that are in no batch */
    struct list to_seal;   /* has a tail: by tail_since, or (wants_seal) due for sealing */
    msec_t tail_since;     /* when the oldest line was added, or sealing it failed */

    struct cached_blocks *cached; /* NULL: none */
    struct load *load;            /* the current read of blocks, owned by the hub */

    struct chain *chain; /* of the committed blocks; NULL: nobody wants it, or it has ended */

    struct list cursors;
    uint32_t pins; /* reads and others that keep it in memory */
    bool wants_seal : 1;
    bool ended : 1;  /* head is the terminal event */
    bool gone : 1;   /* its conversation was deleted: it cannot be found, readers are told */
    bool broken : 1; /* the store lacks events that it must have: readers are told */
    bool unread : 1; /* the store could not be read for too long: readers are told */
    char task_id[TASK_ID_LEN + 1];
};
static inline struct str stream_owner(const struct stream *s)
{
    return names_owner(s->names);
}
static inline struct str stream_conversation_id(const struct stream *s)
{
    return names_conversation(s->names);
}

/* A reader of a stream: a position and a way to be woken, never a queue (promise 7). */
struct cursor {
    struct list in_stream;
    struct stream *stream;
    uint64_t seq;       /* the last seq that was taken */
    uint64_t run_first; /* hint: the run (block or tail) that contains seq+1 … */
    size_t run_at;      /* … and its offset there */
    void (*wake)(struct cursor *cursor);
};

struct stream *stream_new(struct names *names, struct str task_id, int64_t task_key);
void stream_wake(struct stream *s); /* all of its cursors */
/* Its task was removed: drops everything, and wakes its readers, so that they learn of it. */
void stream_forget(struct stream *s, struct block_cache *cache);
/* The events before first were removed: readers that have not read them are told. */
void stream_cut(struct stream *s, uint64_t first, struct block_cache *cache);
void stream_free(struct stream *s); /* no cursor and no pin may be left */
struct map_key stream_key(const struct map_node *node);
static inline struct stream_bounds stream_bounds(const struct stream *s)
{
    return (struct stream_bounds){.first = s->first, .head = s->head, .ended = s->ended};
}
/* A stream that was read from the store: it has events first to head, and none in the tail. */
void stream_set(struct stream *s, uint64_t first, uint64_t head, bool ended);
/* Whether a block from the store matches its seqs: it has lines of this task alone, and none that
 * the stream still has itself. */
bool stream_owns(const struct stream *s, const struct block *b);
/* At a start: the unsealed lines from the journal, all committed. */
void stream_set_tail(struct stream *s, const struct block *lines);

/* Appends an event and returns its seq.  It becomes visible when its batch is committed. */
uint64_t stream_append(struct stream *s, int64_t ts_wall_ms, enum event_type event,
                       struct str data);

/* The lines that are in no batch yet, for OP_LINES.  Marks them as put.  They stay where they are
 * until the batch is done. */
struct str stream_take_lines(struct stream *s, uint64_t *ret_first, uint64_t *ret_last);
/* The proof of all lines until now, for the terminal event, which is appended next; false: there is
 * none. */
bool stream_prove(struct stream *s, char ret[CHAIN_HEX + 1]) MUST_USE;
/* Turns the whole tail into a block for OP_SEAL. */
struct block *stream_seal(struct stream *s);
/* The batch is committed: everything that was put into it becomes visible. */
void stream_committed(struct stream *s, struct block_cache *cache);
/* The batch is abandoned: the stream is again as it was at head. */
void stream_roll_back(struct stream *s);

void cursor_attach(struct cursor *c, struct stream *s, uint64_t after);
void cursor_detach(struct cursor *c);
/* Whether the cursor's next event was removed. */
static inline bool cursor_is_cut_off(const struct cursor *c)
{
    return c->stream->gone || c->seq + 1 < c->stream->first;
}
static inline bool cursor_has_more(const struct cursor *c)
{
    return c->seq < c->stream->head;
}

enum read_result {
    READ_NONE,  /* nothing is committed after the cursor */
    READ_LINES, /* ret_lines is a span of whole lines, at least one; valid until the next append */
    READ_LOAD,  /* the next lines are only in the store: load them */
};
/* Looks at the lines after the cursor in one run: as many whole ones as fit into max bytes, but at
 * least one.  cursor_take moves past the lines that were used: a prefix of whole lines. */
enum read_result cursor_peek(struct cursor *c, struct block_cache *cache, size_t max,
                             struct str *ret_lines);
void cursor_take(struct cursor *c, struct str lines);
/* The first seq behind the cursor that is only in the store, if the blocks before it have less than
 * ahead bytes; 0: there is none. */
uint64_t cursor_misses(const struct cursor *c, size_t ahead);

/* The cache of blocks of all streams; drops the least recently used first. */
struct block_cache {
    struct list lru;
    size_t bytes, max_bytes; /* with CACHED_OVERHEAD for each block */
    size_t ahead_bytes;      /* of those that nobody has read yet, and of what is on its way */
    void (*idle)(struct stream *stream, void *arg); /* a stream lost its last block */
    void *arg;
};
void block_cache_init(struct block_cache *cache, size_t max_bytes);
/* Takes ownership of the block.  Ahead: before somebody needs it, on his way. */
void block_cache_put(struct block_cache *cache, struct stream *s, struct block *b);
void block_cache_put_ahead(struct block_cache *cache, struct stream *s, struct block *b);
void block_cache_drop(struct block_cache *cache, struct stream *s); /* all of a stream's */

#endif
