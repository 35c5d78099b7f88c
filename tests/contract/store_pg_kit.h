/* store_pg_kit -- a schema of the test program's own on the tests' PostgreSQL server.
 *
 * Shape:    HOLDFAST_POSTGRES names a file whose first line is the server's URL, which
 *           support/postgres.py writes.  Without it there is no server: tests on it are left
 *           out, with a word.
 * Thread:   one.
 */
#ifndef TESTS_STORE_PG_KIT_H
#define TESTS_STORE_PG_KIT_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <uv.h>

#include "gateway/store/store_pg.h"
#include "tests/support/t.h"

#ifdef HOLDFAST_POSTGRES
#include <libpq-fe.h>

/* The server's URL; NULL when there is none. */
static inline const char *pg_kit_server(void)
{
    static char url[256];
    const char *path = getenv("HOLDFAST_POSTGRES");
    FILE *file = path && *path ? fopen(path, "r") : NULL;
    if (!file)
        return NULL;
    bool found = fgets(url, sizeof url, file) != NULL;
    fclose(file);
    url[strcspn(url, "\n")] = 0;
    return found && *url ? url : NULL;
}

static inline const char *pg_kit_schema(void)
{
    static char name[64];
    snprintf(name, sizeof name, "t%ld", (long)getpid());
    return name;
}

/* The URL of this program's schema on that server. */
static inline const char *pg_kit_url(void)
{
    static char url[512];
    snprintf(url, sizeof url, "%s options='-c search_path=%s'", pg_kit_server(), pg_kit_schema());
    return url;
}

/* Runs it on a connection of its own, outside of the store; returns the first value, or "". */
static inline const char *pg_kit_sql(const char *sql)
{
    static char value[256];
    PGconn *pg = PQconnectdb(pg_kit_url());
    if (PQstatus(pg) != CONNECTION_OK)
        fail_msg("%s", PQerrorMessage(pg));
    PGresult *r = PQexec(pg, sql);
    ExecStatusType status = PQresultStatus(r);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(pg));
    bool has = status == PGRES_TUPLES_OK && PQntuples(r) > 0;
    snprintf(value, sizeof value, "%s", has ? PQgetvalue(r, 0, 0) : "");
    PQclear(r);
    PQfinish(pg);
    return value;
}

/* Until its first value is that. */
static inline void pg_kit_wait_for(const char *sql, const char *wanted)
{
    for (int i = 0; i < 6000 && strcmp(pg_kit_sql(sql), wanted) != 0; i++)
        uv_sleep(10);
    assert_string_equal(pg_kit_sql(sql), wanted);
}

/* A connection of its own, after that SQL: it may hold locks. */
static inline PGconn *pg_kit_session(const char *sql)
{
    PGconn *pg = PQconnectdb(pg_kit_url());
    if (PQstatus(pg) != CONNECTION_OK)
        fail_msg("%s", PQerrorMessage(pg));
    PQclear(PQexec(pg, sql));
    return pg;
}

/* Until somebody waits for what that session holds. */
static inline void pg_kit_wait_behind(PGconn *pg)
{
    char sql[128];
    snprintf(sql, sizeof sql,
             "SELECT count(*) > 0 FROM pg_stat_activity WHERE %d = ANY (pg_blocking_pids(pid))",
             PQbackendPID(pg));
    pg_kit_wait_for(sql, "t");
}

static inline void pg_kit_drop(void)
{
    char sql[128];
    PGconn *pg = PQconnectdb(pg_kit_server());
    snprintf(sql, sizeof sql, "SET client_min_messages = error; DROP SCHEMA IF EXISTS %s CASCADE",
             pg_kit_schema());
    PQclear(PQexec(pg, sql));
    PQfinish(pg);
}

/* An empty store: the schema is made once, and its rows are deleted after that. */
static inline void pg_kit_empty(void)
{
    static bool made;
    char sql[128];
    if (!made) {
        snprintf(sql, sizeof sql, "CREATE SCHEMA %s", pg_kit_schema());
        pg_kit_sql(sql);
        atexit(pg_kit_drop);
        made = true;
    }
    pg_kit_sql("DO $$ DECLARE t text; BEGIN FOR t IN SELECT tablename FROM pg_tables WHERE "
               "schemaname = current_schema() AND tablename NOT IN ('cluster', 'slots') LOOP "
               "EXECUTE 'DELETE FROM ' || t; END LOOP; IF to_regclass('slots') IS NOT NULL THEN "
               "UPDATE slots SET incarnation = NULL; END IF; END $$");
}

#else

static inline const char *pg_kit_server(void)
{
    return NULL;
}
static inline const char *pg_kit_url(void)
{
    return "";
}
static inline void pg_kit_empty(void)
{
}
#endif

#endif
