/* Checksums of rows: the cells in order, each as its type, a number of 8 bytes (an integer, the
 * bits of a double, or how many bytes follow), and its bytes. */
#include <stdarg.h>
#include <stdio.h>

#include "gateway/store/crc32c.h"
#include "gateway/store/store_sqlite_private.h"
#include "proto/line_pack.h"

static uint32_t add(uint32_t crc, int type, uint64_t number, const void *bytes, size_t n)
{
    unsigned char head[9] = {(unsigned char)type};
    for (int i = 0; i < 8; i++)
        head[1 + i] = (unsigned char)(number >> 8 * i);
    crc = crc32c(crc, head, sizeof head);
    return n ? crc32c(crc, bytes, n) : crc;
}

static uint32_t add_real(uint32_t crc, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return add(crc, SQLITE_FLOAT, bits, NULL, 0);
}

uint32_t sql_crc_int(uint32_t crc, int64_t n)
{
    return add(crc, SQLITE_INTEGER, (uint64_t)n, NULL, 0);
}

uint32_t sql_crc_blob(uint32_t crc, const void *bytes, size_t n)
{
    return add(crc, SQLITE_BLOB, n, bytes, n);
}

static uint32_t add_column(uint32_t crc, const struct sql_call *c, int i)
{
    int type = sqlite3_column_type(c->stmt, i);
    if (type == SQLITE_INTEGER)
        return sql_crc_int(crc, sqlite3_column_int64(c->stmt, i));
    if (type == SQLITE_FLOAT)
        return add_real(crc, sqlite3_column_double(c->stmt, i));
    struct str s = sql_col(c, i);
    return add(crc, type, s.n, s.p, s.n);
}

uint32_t sql_row_crc(const struct sql_call *c, uint32_t crc, int from, int to)
{
    for (int i = from; i <= to; i++)
        crc = add_column(crc, c, i);
    return crc;
}

bool sql_is_sound(const struct sql_call *c, uint32_t crc, int from, int to)
{
    return sql_col_int(c, to + 1) == sql_row_crc(c, crc, from, to);
}

bool sql_block_is_sound(struct str bytes, size_t size, int64_t crc, uint32_t sum)
{
    size_t said;
    return (uint32_t)crc == sum && line_pack_is(bytes) == sql_block_is_packed(crc) &&
           line_pack_size(bytes, &said) && said == size;
}

int sql_conn_damaged(struct sql_conn *conn, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(conn->error, sizeof conn->error, format, args);
    va_end(args);
    return STORE_CORRUPT;
}

static uint32_t add_value(uint32_t crc, sqlite3_value *v)
{
    int type = sqlite3_value_type(v);
    if (type == SQLITE_INTEGER)
        return sql_crc_int(crc, sqlite3_value_int64(v));
    if (type == SQLITE_FLOAT)
        return add_real(crc, sqlite3_value_double(v));
    const void *p = type == SQLITE_NULL   ? NULL
                    : type == SQLITE_BLOB ? sqlite3_value_blob(v)
                                          : (const void *)sqlite3_value_text(v);
    size_t n = p ? (size_t)sqlite3_value_bytes(v) : 0;
    return add(crc, type, n, p, n);
}

static void row_crc(sqlite3_context *context, int n, sqlite3_value **values)
{
    uint32_t crc = 0;
    for (int i = 0; i < n; i++)
        crc = add_value(crc, values[i]);
    sqlite3_result_int64(context, crc);
}

int sql_crc_register(sqlite3 *db)
{
    return sqlite3_create_function_v2(db, "row_crc", -1,
                                      SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY, NULL,
                                      row_crc, NULL, NULL, NULL);
}
