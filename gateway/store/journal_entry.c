#include "gateway/store/journal_entry.h"

#include "proto/varint.h"

static void put_varint(struct buf *b, uint64_t n)
{
    unsigned char bytes[VARINT_MAX];
    buf_put(b, bytes, (size_t)(varint_put(bytes, n) - bytes));
}

void journal_entry_put(struct buf *row, const struct journal_entry *entry)
{
    put_varint(row, (uint64_t)entry->task_key);
    put_varint(row, entry->first);
    put_varint(row, entry->last - entry->first);
    put_varint(row, entry->bytes.n);
    buf_putstr(row, entry->bytes);
}

bool journal_entry_take(struct str *from, struct journal_entry *ret)
{
    uint64_t key, first, more, length;
    if (!varint_take(from, &key) || !varint_take(from, &first) || !varint_take(from, &more) ||
        !varint_take(from, &length) || length > from->n || first + more < first)
        return false;
    *ret = (struct journal_entry){(int64_t)key, first, first + more, {from->p, (size_t)length}};
    from->p += length;
    from->n -= (size_t)length;
    return true;
}
