/* journal_entry -- the entries of a journal row, as every store on disk writes them.
 *
 * Shape:    row   := entry*
 *           entry := task_key, first, last - first, length (each a varint), then length bytes of
 *                    lines, as they are or packed (proto/line_pack.h); PostgreSQL's are as they
 *                    are, because older gateways of its cluster read them
 * Thread:   any.
 */
#ifndef GATEWAY_STORE_JOURNAL_ENTRY_H
#define GATEWAY_STORE_JOURNAL_ENTRY_H

#include "proto/buf.h"

struct journal_entry {
    int64_t task_key;
    uint64_t first, last;
    struct str bytes;
};

void journal_entry_put(struct buf *row, const struct journal_entry *entry);
/* Takes one from the front; false when there is none, or it is not whole. */
bool journal_entry_take(struct str *from, struct journal_entry *ret);

#endif
