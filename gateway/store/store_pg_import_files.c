/* The bytes of files, in a transfer of a store: from the data directory's folder into chunks on the
 * server, or back.  What came over is read again, and must have the hash of its row. */
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/store/file_folder.h"
#include "gateway/store/store_pg_import.h"

struct moved_file {
    char blob[FILE_HASH_LEN + 1], sha256[FILE_HASH_LEN + 1];
    unsigned slot;
    int64_t size;
};

static bool file_fails(struct transfer *t, const struct moved_file *f, const char *why)
{
    char what[FILE_HASH_LEN + 32];
    snprintf(what, sizeof what, "files/blob/%.2s/%s", f->blob, f->blob);
    return transfer_fails(t, what, why);
}

/* --- which ------------------------------------------------------------------------------------ */

static bool take_hash(struct str text, char to[FILE_HASH_LEN + 1])
{
    size_t n = 0;
    while (n < text.n && n < FILE_HASH_LEN && text.p[n] && strchr("0123456789abcdef", text.p[n]))
        n++;
    memcpy(to, text.p, n);
    to[n] = 0;
    return n == FILE_HASH_LEN && text.n == n;
}

static bool list_files(struct transfer *t, struct buf *ret)
{
    struct rows rows;
    bool good = true;
    if (!rows_open(&rows, t, !t->back,
                   "SELECT DISTINCT blob, sha256, size, owner FROM files WHERE state < 2 "
                   "ORDER BY blob"))
        return false;
    while (good && rows_next(&rows)) {
        struct moved_file f = {.size = rows_cell(&rows, 2).n,
                               .slot = slot_of(rows_cell(&rows, 3).bytes)};
        good = take_hash(rows_cell(&rows, 0).bytes, f.blob) &&
               take_hash(rows_cell(&rows, 1).bytes, f.sha256);
        buf_put(ret, (const char *)&f, sizeof f);
    }
    if (!good)
        (void)transfer_fails(t, "files", "a row has no hash");
    return rows_close(&rows, "files") && good;
}

/* --- pieces of either side -------------------------------------------------------------------- */

typedef bool (*piece_fn)(struct transfer *t, void *arg, int64_t at, struct str piece);

static bool read_folder(struct transfer *t, void *folder, const struct moved_file *f, piece_fn take,
                        void *arg)
{
    char *piece = xalloc(PG_FILE_CELL);
    int64_t at = 0, n = PG_FILE_CELL;
    bool good = true;
    while (good && n == PG_FILE_CELL) {
        n = file_folder_ops.blob_read(folder, f->blob, at, piece, PG_FILE_CELL);
        good = n >= 0 ? take(t, arg, at, (struct str){piece, (size_t)n})
                      : file_fails(t, f, n == STORE_NOT_FOUND ? "is missing" : "cannot be read");
        at += n > 0 ? n : 0;
    }
    free(piece);
    return good && (at == f->size || file_fails(t, f, "has not as many bytes as were written"));
}

static bool read_server(struct transfer *t, const struct moved_file *f, piece_fn take, void *arg)
{
    char sql[256];
    struct rows rows;
    int64_t at = 0;
    snprintf(sql, sizeof sql,
             "SELECT c.place, c.bytes FROM file_blobs b JOIN file_chunks c ON c.id = b.id WHERE "
             "b.blob = convert_to('%s', 'UTF8') ORDER BY c.place",
             f->blob);
    bool good = rows_open(&rows, t, false, sql);
    if (!good)
        return false;
    while (good && rows_next(&rows)) {
        struct str piece = rows_cell(&rows, 1).bytes;
        good = rows_cell(&rows, 0).n == at && take(t, arg, at, piece);
        at += (int64_t)piece.n;
    }
    good = rows_close(&rows, "file_chunks") && good;
    return good && (at == f->size || file_fails(t, f, "has not as many bytes as were written"));
}

/* --- writing ---------------------------------------------------------------------------------- */

#define PUT_BLOB "file_blobs"
#define PUT_CHUNK "file_chunks"

static bool prepare_puts(struct transfer *t)
{
    PGresult *blob = PQprepare(t->pg.pg, PUT_BLOB,
                               "INSERT INTO file_blobs (blob, slot, id, size) VALUES "
                               "($1, $2, nextval('file_parts_id_seq'), $3) RETURNING id",
                               0, NULL);
    PGresult *chunk =
        PQprepare(t->pg.pg, PUT_CHUNK,
                  "INSERT INTO file_chunks (id, place, bytes) VALUES ($1, $2, $3)", 0, NULL);
    bool good =
        PQresultStatus(blob) == PGRES_COMMAND_OK && PQresultStatus(chunk) == PGRES_COMMAND_OK;
    PQclear(blob);
    PQclear(chunk);
    return good || postgres_fails(t, "file_blobs");
}

static bool put_chunk(struct transfer *t, void *arg, int64_t at, struct str piece)
{
    const int64_t *id = arg;
    char numbers[2][8];
    const char *values[] = {numbers[0], numbers[1], piece.p};
    const int lengths[] = {8, 8, (int)piece.n}, formats[] = {1, 1, 1};
    if (piece.n == 0)
        return true;
    transfer_big(numbers[0], (uint64_t)*id);
    transfer_big(numbers[1], (uint64_t)at);
    PGresult *r = PQexecPrepared(t->pg.pg, PUT_CHUNK, 3, values, lengths, formats, 1);
    bool good = PQresultStatus(r) == PGRES_COMMAND_OK;
    PQclear(r);
    return good || postgres_fails(t, "file_chunks");
}

static bool put_on_server(struct transfer *t, void *folder, const struct moved_file *f)
{
    char numbers[2][8];
    const char *values[] = {f->blob, numbers[0], numbers[1]};
    const int lengths[] = {FILE_HASH_LEN, 8, 8}, formats[] = {1, 1, 1};
    transfer_big(numbers[0], f->slot);
    transfer_big(numbers[1], (uint64_t)f->size);
    PGresult *r = PQexecPrepared(t->pg.pg, PUT_BLOB, 3, values, lengths, formats, 1);
    bool good = PQresultStatus(r) == PGRES_TUPLES_OK && PQntuples(r) == 1;
    int64_t id = good ? pg_col_int(r, 0, 0) : 0;
    PQclear(r);
    return good ? read_folder(t, folder, f, put_chunk, &id) : postgres_fails(t, "file_blobs");
}

struct part {
    void *folder;
    const struct moved_file *file;
    char name[FILE_HASH_LEN + 32];
};

static bool write_piece(struct transfer *t, void *arg, int64_t at, struct str piece)
{
    const struct part *p = arg;
    return file_folder_ops.part_write(p->folder, 0, p->name, at, piece) == STORE_OK ||
           file_fails(t, p->file, "cannot be written");
}

static bool put_in_folder(struct transfer *t, void *folder, const struct moved_file *f)
{
    struct part p = {folder, f, ""};
    snprintf(p.name, sizeof p.name, "export/" FILE_PART_ONCE "%s", f->blob);
    return read_server(t, f, write_piece, &p) &&
           (file_folder_ops.part_keep(folder, 0, p.name, f->blob) == STORE_OK ||
            file_fails(t, f, "cannot be written"));
}

/* --- comparing -------------------------------------------------------------------------------- */

static bool hash_piece(struct transfer *t, void *arg, int64_t at, struct str piece)
{
    (void)t, (void)at;
    return EVP_DigestUpdate(arg, piece.p, piece.n) == 1;
}

/* Read where it came. */
static bool has_its_hash(struct transfer *t, void *folder, const struct moved_file *f)
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    char text[2 * EVP_MAX_MD_SIZE + 1] = "";
    unsigned n = 0;
    EVP_MD_CTX *sha = EVP_MD_CTX_new();
    bool good = sha && EVP_DigestInit_ex(sha, EVP_sha256(), NULL) == 1;
    good = good && (t->back ? read_folder(t, folder, f, hash_piece, sha)
                            : read_server(t, f, hash_piece, sha));
    bool hashed = good && EVP_DigestFinal_ex(sha, hash, &n) == 1;
    for (unsigned i = 0; hashed && i < n; i++)
        snprintf(text + (size_t)i * 2, 3, "%02x", hash[i]);
    EVP_MD_CTX_free(sha);
    return good && (strcmp(text, f->sha256) == 0 ||
                    file_fails(t, f, "is not as it was written: its hash is another one"));
}

bool transfer_files(struct transfer *t)
{
    struct buf all = {0};
    bool good = list_files(t, &all);
    size_t n = good ? all.len / sizeof(struct moved_file) : 0;
    void *folder = n > 0 ? file_folder_open(t->dir) : NULL;
    if (n > 0 && !folder)
        good = transfer_fails(t, t->dir, "its folder of files cannot be opened");
    good = good && (n == 0 || t->back || prepare_puts(t));
    for (size_t i = 0; i < n && good; i++) {
        struct moved_file f;
        memcpy(&f, all.bytes + i * sizeof f, sizeof f);
        good = (t->back ? put_in_folder(t, folder, &f) : put_on_server(t, folder, &f)) &&
               has_its_hash(t, folder, &f);
        t->files++;
        t->bytes += f.size;
    }
    file_folder_ops.close(folder);
    buf_done(&all);
    return good;
}
