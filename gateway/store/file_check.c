#include "gateway/store/file_check.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/base/folders.h"
#include "gateway/store/file_folder.h"
#include "gateway/store/store_sqlite_private.h"

#define PIECE 65536

static struct sql_call file_ask(struct sql_conn *conn, const char *text)
{
    struct sql_call c = {.conn = conn};
    c.rc = sqlite3_prepare_v2(conn->db, text, -1, &c.stmt, NULL);
    return c;
}

static int file_ask_end(struct sql_call *c)
{
    int status = sql_end(c);
    sqlite3_finalize(c->stmt);
    return status;
}

/* --- checking --------------------------------------------------------------------------------- */

static bool hash_is(int fd, struct str sha256)
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    char *bytes = xalloc(PIECE), text[2 * EVP_MAX_MD_SIZE + 1] = "";
    unsigned size = 0;
    ssize_t n = 0;
    EVP_MD_CTX *sha = EVP_MD_CTX_new();
    bool good = sha && EVP_DigestInit_ex(sha, EVP_sha256(), NULL) == 1;
    while (good && (n = read(fd, bytes, PIECE)) > 0)
        good = EVP_DigestUpdate(sha, bytes, (size_t)n) == 1;
    good = good && n == 0 && EVP_DigestFinal_ex(sha, hash, &size) == 1;
    for (unsigned i = 0; good && i < size; i++)
        snprintf(text + (size_t)i * 2, 3, "%02x", hash[i]);
    EVP_MD_CTX_free(sha);
    free(bytes);
    return good && str_eq(str_of(text), sha256);
}

/* NULL, or what is wrong with the bytes of a file. */
static const char *find_wrong(const char *path, int64_t size, struct str sha256, bool full)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? "are missing" : "cannot be read";
    const char *wrong = NULL;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (int64_t)st.st_size != size)
        wrong = "are not as many as were written";
    else if (full && !hash_is(fd, sha256))
        wrong = "are not as they were written";
    close(fd);
    return wrong;
}

static const char files_text[] = "SELECT blob, size, sha256, count(*) FROM files WHERE state < 2 "
                                 "GROUP BY blob ORDER BY blob";

static void check_each(struct sql_conn *conn, const char *dir, bool full, struct store_check *ret)
{
    struct sql_call c = file_ask(conn, files_text);
    while (sql_step(&c)) {
        struct str blob = sql_col(&c, 0);
        int64_t size = sql_col_int(&c, 1);
        char name[FILE_HASH_LEN + 1];
        struct buf path = {0};
        ret->n_files += sql_col_int(&c, 3);
        ret->file_bytes += size;
        if (blob.n != FILE_HASH_LEN)
            continue; /* its row's sum is wrong */
        snprintf(name, sizeof name, "%.*s", (int)blob.n, blob.p);
        file_folder_put_path(&path, dir, name);
        const char *wrong = find_wrong(path.bytes, size, sql_col(&c, 2), full);
        if (wrong)
            store_check_fault(ret, "the bytes of a file %s: %s", wrong, path.bytes);
        buf_done(&path);
    }
    if (file_ask_end(&c) < 0)
        store_check_fault(ret, "the files cannot be read: %s", conn->error);
}

void file_check(const char *database, bool is_still, const char *dir, bool full,
                struct store_check *ret)
{
    struct sql_conn conn;
    if (ret->version != schema_version)
        return; /* store_check has said why, or there are none yet */
    if (store_check_open(&conn, database, is_still) == STORE_OK)
        check_each(&conn, dir, full, ret);
    sql_conn_close(&conn);
}

/* --- copying ---------------------------------------------------------------------------------- */

static int copy_bytes(int from, int to)
{
    char *bytes = xalloc(PIECE);
    ssize_t n = 0;
    int status = STORE_OK;
    while (status == STORE_OK && (n = read(from, bytes, PIECE)) > 0)
        for (ssize_t at = 0, k; at < n && status == STORE_OK; at += k) {
            k = write(to, bytes + at, (size_t)(n - at));
            if (k < 0)
                status =
                    errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? STORE_FULL : STORE_IO;
        }
    free(bytes);
    return n < 0 ? STORE_IO : status == STORE_OK && fsync(to) < 0 ? STORE_IO : status;
}

/* STORE_NOT_FOUND when there is no such blob any more. */
static int copy_blob(const char *dir, const char *to, const char *blob)
{
    struct buf from = {0}, folder = {0};
    file_folder_put_path(&from, dir, blob);
    buf_putf(&folder, "%s/blob/%.2s", to, blob);
    int in = open(from.bytes, O_RDONLY | O_NOFOLLOW | O_CLOEXEC), out = -1;
    int status = in >= 0 ? STORE_OK : errno == ENOENT ? STORE_NOT_FOUND : STORE_IO;
    if (status == STORE_OK && !folders_make(folder.bytes))
        status = errno == ENOSPC || errno == EDQUOT ? STORE_FULL : STORE_IO;
    buf_putf(&folder, "/%s", blob);
    if (status == STORE_OK) {
        out = open(folder.bytes, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
        status = out < 0 ? STORE_IO : copy_bytes(in, out);
    }
    if (in >= 0)
        close(in);
    if (out >= 0 && close(out) < 0 && status == STORE_OK)
        status = STORE_IO;
    buf_done(&from);
    buf_done(&folder);
    return status;
}

/* Its rows in the copy, and what they count. */
static int take_out(struct sql_conn *conn, struct str blob)
{
#define LESS "bytes - (SELECT sum(" SQL_FILE_COST ") FROM files WHERE blob = ?1 AND state < 2)"
    static const char *const steps[] = {
        "UPDATE usage SET bytes = " LESS ", crc = row_crc(owner, " LESS ") WHERE owner = "
        "(SELECT owner FROM files WHERE blob = ?1 AND state < 2)",
        ("DELETE FROM file_uses WHERE (owner, conversation_id, file_id) IN "
         "(SELECT owner, conversation_id, file_id FROM files WHERE blob = ?1)"),
        "DELETE FROM files WHERE blob = ?1"};
#undef LESS
    int status = STORE_OK;
    for (size_t i = 0; i < countof(steps) && status == STORE_OK; i++) {
        struct sql_call c = file_ask(conn, steps[i]);
        sql_text(&c, blob);
        while (sql_step(&c))
            ;
        status = file_ask_end(&c);
    }
    return status;
}

static int copy_each(struct sql_conn *conn, const char *dir, const char *to, int64_t *ret_n)
{
    struct sql_call c =
        file_ask(conn, "SELECT DISTINCT blob FROM files WHERE state < 2 ORDER BY blob");
    struct buf gone = {0};
    int status = STORE_OK;
    while (status == STORE_OK && sql_step(&c)) {
        char name[FILE_HASH_LEN + 1];
        snprintf(name, sizeof name, "%.*s", (int)sql_col(&c, 0).n, sql_col(&c, 0).p);
        status = copy_blob(dir, to, name);
        *ret_n += status == STORE_OK;
        if (status == STORE_NOT_FOUND) {
            buf_put(&gone, name, FILE_HASH_LEN);
            status = STORE_OK;
        }
    }
    int end = file_ask_end(&c);
    for (size_t at = 0; at < gone.len && status == STORE_OK && end == STORE_OK; at += FILE_HASH_LEN)
        status = take_out(conn, (struct str){gone.bytes + at, FILE_HASH_LEN});
    buf_done(&gone);
    return status == STORE_OK ? end : status;
}

int file_copy(const char *copied_database, const char *dir, const char *to, int64_t *ret_n,
              struct buf *ret_error)
{
    struct sql_conn conn;
    *ret_n = 0;
    int status = sql_conn_open(&conn, copied_database, false);
    if (status == STORE_OK)
        status = copy_each(&conn, dir, to, ret_n);
    if (status < 0)
        buf_puts(ret_error, conn.error[0] ? conn.error : strerror(errno));
    sql_conn_close(&conn);
    return status;
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

void file_copy_remove(const char *to)
{
    (void)nftw(to, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}
