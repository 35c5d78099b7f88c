/* Rows whose lines are packed, as those of gateways that kept lines as they are. */
#include "gateway/store/store_sqlite_private.h"
#include "proto/line_pack.h"

static void raw_result(sqlite3_context *context, struct buf *raw, bool good)
{
    if (good)
        sqlite3_result_blob64(context, raw->len ? raw->bytes : "", raw->len, SQLITE_TRANSIENT);
    else
        sqlite3_result_error(context, "some lines are not as they were written", -1);
    buf_done(raw);
}

static struct str value_bytes(sqlite3_value *value)
{
    const void *p = sqlite3_value_blob(value);
    return (struct str){p ? p : "", (size_t)sqlite3_value_bytes(value)};
}

static void raw_lines(sqlite3_context *context, int n, sqlite3_value **values)
{
    struct buf raw = {0};
    (void)n;
    raw_result(context, &raw, line_unpack_to(&raw, value_bytes(values[0])));
}

static void raw_row(sqlite3_context *context, int n, sqlite3_value **values)
{
    struct str row = value_bytes(values[0]);
    struct buf raw = {0}, lines = {0};
    struct journal_entry e;
    bool good = true;
    (void)n;
    while (good && row.n > 0) {
        buf_clear(&lines);
        good = journal_entry_take(&row, &e) && line_unpack_to(&lines, e.bytes);
        e.bytes = buf_str(&lines);
        if (good)
            journal_entry_put(&raw, &e);
    }
    buf_done(&lines);
    raw_result(context, &raw, good);
}

int sql_raw_register(sqlite3 *db)
{
    const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY;
    int rc =
        sqlite3_create_function_v2(db, "raw_lines", 1, flags, NULL, raw_lines, NULL, NULL, NULL);
    if (rc != SQLITE_OK)
        return rc;
    return sqlite3_create_function_v2(db, "raw_row", 1, flags, NULL, raw_row, NULL, NULL, NULL);
}
