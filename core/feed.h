/* feed -- newest states for readers of a conversation, or of an owner's list.
 *
 * Shape:    a list of complete lines in order of change.  An item that changes again replaces its
 *           line and moves to the end (pushes are newest states, not histories); a message is put
 *           once and stays.  A reader is a cursor: the next line that it has not seen (promise 7).
 *           Lines that all readers have seen are dropped; without a reader nothing is kept.
 * Thread:   loop.
 * Owns:     its entries.  Readers are embedded in their users; one joins and leaves in a turn of
 *           its own, never from inside wake or lost.
 */
#ifndef CORE_FEED_H
#define CORE_FEED_H

#include "core/list.h"
#include "proto/buf.h"
#include "proto/limits.h"

#define FEED_MAX_ENTRIES 4096 /* a reader that lags further is too slow */
#define FEED_MAX_BYTES (4 * 1024 * 1024)

struct feed_entry;

struct feed_lines {
    struct list entries; /* of struct feed_entry, by version */
    struct list readers; /* of struct feed_reader; at least one */
    uint64_t version;
    size_t n_entries, bytes;
};

/* Each live conversation has one, and few are read. */
struct feed {
    struct feed_lines *lines; /* NULL while it has no reader */
};

struct feed_reader {
    struct list node;
    struct feed_entry *next;       /* NULL: it has seen everything */
    char skip_id[TASK_ID_LEN + 1]; /* messages up to this id came with a snapshot: skip them */
    void (*wake)(struct feed_reader *reader);
    /* Whether it gets the line with that id; NULL: every one. */
    bool (*wants)(struct feed_reader *reader, struct str id);
    void (*lost)(struct feed_reader *reader); /* exceeded the limit: close the connection */
};

void feed_init(struct feed *f);
void feed_done(struct feed *f); /* no reader may be left */
static inline bool feed_has_readers(const struct feed *f)
{
    return f->lines != NULL;
}
/* Joins at the end: the reader gets what is put after this call. */
void feed_join(struct feed *f, struct feed_reader *r);
void feed_leave(struct feed *f, struct feed_reader *r);
/* Puts a line (without newline; copied) and wakes the readers. *slot is the caller's handle to its
 * entry, for an item that changes; NULL for an item that is put once.  The feed clears *slot when
 * it drops the entry.  id: in a conversation's feed that of a message, whose ids are in order, or
 * STR_NULL; in an owner's that of the conversation. */
void feed_put(struct feed *f, struct feed_entry **slot, struct str id, struct str line);
/* The owner of the slot goes away; the entry stays until it was read. */
void feed_forget(struct feed_entry **slot);
/* The next line that the reader has not seen, NULL span when there is none; the reader advances. */
struct str feed_next(struct feed *f, struct feed_reader *r);
/* The length of the next line, without taking it; 0 when there is none. */
size_t feed_peek(const struct feed *f, struct feed_reader *r);
/* Drops what all readers have seen: once a turn. */
void feed_trim(struct feed *f);

#endif
