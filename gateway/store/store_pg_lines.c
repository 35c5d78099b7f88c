/* Answers that are bytes: blocks, inboxes, notes, tails. */
#include "gateway/store/block_slab.h"
#include "gateway/store/store_pg_private.h"
#include "proto/line_pack.h"

typedef struct block *(*block_maker)(int64_t task_key, uint64_t first, uint64_t last, size_t len);

/* Lines stand as they are, because older gateways of the cluster read them; those of a later one
 * may be packed. */
static size_t lines_size(struct str bytes)
{
    size_t size;
    return line_pack_size(bytes, &size) ? size : bytes.n;
}

static void unpack_lines(struct block *b, struct str bytes)
{
    if (!line_unpack(bytes, b->bytes, b->len))
        memset(b->bytes, 0, b->len); /* core checks lines, and finds none */
}

/* Rows of first, last, bytes. */
static int list_bytes(struct pg_call *c, const struct query *q, block_maker make,
                      struct answer *ret)
{
    PGresult *r;
    size_t bytes = 0;
    pg_int(c, q->task_key);
    pg_int(c, (int64_t)q->after);
    pg_bound(c, q);
    int status = pg_ask(c, &r);
    for (int i = 0; status == STORE_OK && i < PQntuples(r); i++) {
        struct str line = pg_col(r, i, 2);
        bool is_last_asked = i + 1 == (int)pg_rows_wanted(q);
        size_t size = q->kind == QUERY_BLOCKS ? lines_size(line) : line.n;
        if (is_last_asked || !query_has_room(q, ret->n_blocks, bytes, size)) {
            ret->more = true;
            break;
        }
        bytes += size;
        struct block *b =
            make(q->task_key, (uint64_t)pg_col_int(r, i, 0), (uint64_t)pg_col_int(r, i, 1), size);
        if (!b) {
            status = STORE_IO;
            break;
        }
        if (q->kind == QUERY_BLOCKS)
            unpack_lines(b, line);
        else if (line.n)
            memcpy(b->bytes, line.p, line.n);
        answer_add_block(ret, b);
    }
    PQclear(r);
    return status;
}

int pg_ask_runs(struct pg_reader *r, const struct query *q, struct answer *ret)
{
    struct pg_call c;
    pg_begin(&c, &r->conn, q->kind == QUERY_NOTES ? PG_ASK_NOTES : PG_ASK_INBOX);
    return list_bytes(&c, q, block_new, ret);
}

int pg_ask_blocks(struct pg_reader *r, const struct query *q, struct answer *ret)
{
    struct pg_call c;
    pg_begin(&c, &r->conn, PG_ASK_BLOCKS);
    return list_bytes(&c, q, block_slab_new, ret);
}

/* The first page reads the whole journal, and the next ones go on in that as long as nothing was
 * committed since. */
int pg_ask_tails(struct pg_reader *r, const struct query *q, struct answer *ret)
{
    int status = STORE_OK;
    uint64_t commits = atomic_load(&r->store->commits);
    if (!r->tails.at || q->after == 0 || r->tails_at != commits) {
        tails_done(&r->tails);
        r->tails_at = commits;
        status = pg_tails_load(&r->conn, r->store->incarnation, q->slots, &r->tails);
    }
    return status < 0 ? status : tails_page(&r->tails, q, ret);
}
