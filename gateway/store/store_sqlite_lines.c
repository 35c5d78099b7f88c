/* Answers that are bytes: blocks, inboxes, notes, tails.  Each is checked against its checksum
 * first. */
#include <inttypes.h>

#include "gateway/store/block_slab.h"
#include "gateway/store/store_sqlite_private.h"
#include "proto/line_pack.h"

/* --- inbox, blocks ---------------------------------------------------------------------------- */

/* Rows of task_key, the ends of a run (which may be one column), bytes, checksum. */
static int list_runs(struct sql_reader *r, struct sql_call *c, const struct query *q,
                     struct answer *ret)
{
    bool notes = q->kind == QUERY_NOTES;
    int last = notes ? 2 : 1;
    size_t bytes = 0;
    int status = STORE_OK;
    sql_int(c, q->task_key);
    sql_int(c, (int64_t)q->after);
    while (status == STORE_OK && sql_step(c)) {
        uint64_t number = (uint64_t)sql_col_int(c, 1);
        struct str line = sql_col(c, last + 1);
        if (!query_has_room(q, ret->n_blocks, bytes, line.n)) {
            ret->more = true;
            break;
        }
        bytes += line.n;
        struct block *b = block_new(q->task_key, number, (uint64_t)sql_col_int(c, last), line.n);
        if (b) {
            if (line.n)
                memcpy(b->bytes, line.p, line.n);
            answer_add_block(ret, b);
        } else {
            status = STORE_IO;
        }
        if (b && !sql_is_sound(c, 0, 0, last + 1))
            status = sql_conn_damaged(&r->conn,
                                      "%s %" PRIu64 " of the task with key %" PRId64
                                      " is not as it was written",
                                      notes ? "note" : "message", number, q->task_key);
    }
    int end = sql_end(c);
    return status < 0 ? status : end;
}

int sqlite_ask_inbox(struct sql_reader *r, const struct query *q, struct answer *ret)
{
    struct sql_call c = sql_begin(&r->conn, STMT_ASK_INBOX);
    return list_runs(r, &c, q, ret);
}

int sqlite_ask_notes(struct sql_reader *r, const struct query *q, struct answer *ret)
{
    struct sql_call c = sql_begin(&r->conn, STMT_ASK_NOTES);
    return list_runs(r, &c, q, ret);
}

static uint32_t block_sum(const struct block *b, struct str bytes)
{
    uint32_t sum = sql_crc_int(0, b->task_key);
    sum = sql_crc_int(sql_crc_int(sum, (int64_t)b->first), (int64_t)b->last);
    return sql_crc_blob(sum, bytes.p, bytes.n);
}

static int block_damaged(struct sql_reader *r, const struct query *q, const struct sql_call *row)
{
    return sql_conn_damaged(&r->conn,
                            "the events %" PRId64 " to %" PRId64 " of the task with key %" PRId64
                            " are not as they were written",
                            sql_col_int(row, 1), sql_col_int(row, 2), q->task_key);
}

static int open_blob(struct sql_reader *r, sqlite3_blob **blob, const struct query *q, int64_t id)
{
    int rc = *blob ? sqlite3_blob_reopen(*blob, id)
                   : sqlite3_blob_open(r->conn.db, "main", "blocks", "bytes", id, 0, blob);
    if (rc == SQLITE_ERROR)
        return sql_conn_damaged(&r->conn, "a block of the task with key %" PRId64 " is not a blob",
                                q->task_key);
    return rc == SQLITE_OK ? STORE_OK : sql_conn_failed(&r->conn, rc);
}

/* Copies a block's bytes from SQLite's pages directly to where they are needed, the reader's room
 * or, if they are no pack, their final place: as a column they would be assembled elsewhere first,
 * even for a row that has no room. */
static int fill_block(struct sql_reader *r, sqlite3_blob *blob, const struct query *q,
                      const struct sql_call *row, struct block *b)
{
    int64_t crc = sql_col_int(row, 4);
    int n = sqlite3_blob_bytes(blob);
    bool is_packed = sql_block_is_packed(crc);
    struct str bytes = {is_packed ? buf_reserve(&r->packed, (size_t)n) : b->bytes, (size_t)n};
    sql_ahead_value(&r->ahead, bytes.n);
    int rc = sqlite3_blob_read(blob, is_packed ? r->packed.bytes : b->bytes, n, 0);
    sql_ahead_pause(&r->ahead);
    if (rc != SQLITE_OK)
        return sql_conn_failed(&r->conn, rc);
    if (!sql_block_is_sound(bytes, b->len, crc, block_sum(b, bytes)) ||
        (is_packed && !line_unpack(bytes, b->bytes, b->len)))
        return block_damaged(r, q, row);
    b->is_summed = true;
    return STORE_OK;
}

static int read_block(struct sql_reader *r, sqlite3_blob **blob, const struct query *q,
                      const struct sql_call *row, struct block **ret)
{
    int status = open_blob(r, blob, q, sql_col_int(row, 0));
    if (status < 0)
        return status;
    int64_t size = sql_col_int(row, 3);
    int n = sqlite3_blob_bytes(*blob);
    if (!sql_block_is_packed(sql_col_int(row, 4)))
        size = n;
    else if (size > LINE_PACK_MOST || n >= size)
        return block_damaged(r, q, row);
    struct block *b = block_slab_new(q->task_key, (uint64_t)sql_col_int(row, 1),
                                     (uint64_t)sql_col_int(row, 2), (size_t)size);
    if (!b)
        return STORE_IO;
    status = fill_block(r, *blob, q, row, b);
    if (status < 0)
        block_free(b);
    else
        *ret = b;
    return status;
}

/* Rows of rowid, first, last, size of the lines, checksum. */
static int list_blocks(struct sql_reader *r, struct sql_call *c, const struct query *q,
                       struct answer *ret)
{
    size_t bytes = 0;
    int status = STORE_OK;
    sqlite3_blob *blob = NULL;
    while (status == STORE_OK && sql_step(c)) {
        size_t n = (size_t)sql_col_int(c, 3);
        if (!query_has_room(q, ret->n_blocks, bytes, n)) {
            ret->more = true;
            break;
        }
        bytes += n;
        struct block *b = NULL;
        status = read_block(r, &blob, q, c, &b);
        if (status == STORE_OK)
            answer_add_block(ret, b);
    }
    sqlite3_blob_close(blob); /* repeats what is noted already */
    if (r->packed.cap > PACKED_KEPT)
        buf_done(&r->packed);
    int end = sql_end(c);
    return status < 0 ? status : end;
}

int sqlite_ask_blocks(struct sql_reader *r, const struct query *q, struct answer *ret)
{
    struct sql_call c = sql_begin(&r->conn, STMT_ASK_BLOCKS);
    sql_int(&c, q->task_key);
    sql_int(&c, (int64_t)q->after);
    sql_ahead_begin(&r->ahead);
    int status = list_blocks(r, &c, q, ret);
    sql_ahead_end(&r->ahead);
    if (status == STORE_CORRUPT && ret->n_blocks > 0) {
        ret->more = true; /* blocks before the damage are served; the next query meets it */
        status = STORE_OK;
    }
    return status;
}

/* --- tails ------------------------------------------------------------------------------------ */

static int data_version(struct sql_reader *r, int64_t *ret)
{
    struct sql_call c = sql_begin(&r->conn, STMT_DATA_VERSION);
    if (sql_step(&c))
        *ret = sql_col_int(&c, 0);
    return sql_end(&c);
}

/* The journal has no index: the first page reads all of it, and the next ones reuse that as long as
 * nothing was committed since. */
static int tails_refresh(struct sql_reader *r)
{
    int64_t version = 0;
    int status = sql_run_plain(&r->conn, STMT_SNAPSHOT);
    if (status < 0)
        return status;
    status = data_version(r, &version);
    if (status == STORE_OK && (!r->tails.at || version != r->tails_version)) {
        tails_done(&r->tails);
        status = sql_tails_load(&r->conn, &r->tails);
        r->tails_version = version;
    }
    int end = sql_run_plain(&r->conn, STMT_COMMIT);
    return status < 0 ? status : end;
}

int sqlite_ask_tails(struct sql_reader *r, const struct query *q, struct answer *ret)
{
    int status = tails_refresh(r);
    return status < 0 ? status : tails_page(&r->tails, q, ret);
}
