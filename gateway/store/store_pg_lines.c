/* Answers that are bytes: blocks, inboxes, notes, tails. */
#include "gateway/store/block_slab.h"
#include "gateway/store/store_pg_private.h"

typedef struct block *(*block_maker)(int64_t task_key, uint64_t first, uint64_t last, size_t len);

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
        if (is_last_asked || !query_has_room(q, ret->n_blocks, bytes, line.n)) {
            ret->more = true;
            break;
        }
        bytes += line.n;
        struct block *b =
            make(q->task_key, (uint64_t)pg_col_int(r, i, 0), (uint64_t)pg_col_int(r, i, 1), line.n);
        if (!b) {
            status = STORE_IO;
            break;
        }
        if (line.n)
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
