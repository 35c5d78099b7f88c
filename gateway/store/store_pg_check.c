/* The server and the store on it, for doctor: each check is a statement whose rows are sentences;
 * one that begins with "!" says what is wrong.  Only reads. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "gateway/store/store_pg_private.h"

#define CLOCK_MS 500 /* ids of two machines would not be in order */

static const char *const of_server[] = {
    "SELECT 'PostgreSQL ' || current_setting('server_version') || ', schema ' || "
    "coalesce(current_schema(), 'none')",
    "SELECT '!' || name || ' is off: a crash of the server loses what was acknowledged' "
    "FROM pg_settings WHERE name IN ('fsync', 'full_page_writes') AND setting <> 'on'",
    "SELECT 'data_checksums is off: a page that the disk damages is not noticed' "
    "WHERE current_setting('data_checksums') <> 'on'",
    "SELECT 'synchronous standbys: ' || coalesce(nullif(current_setting("
    "'synchronous_standby_names'), ''), 'none: a failover may lose what was acknowledged')",
    "SELECT '!autovacuum is off: dead rows of the journal stay' "
    "WHERE current_setting('autovacuum') <> 'on'",
    "SELECT 'min_wal_size is ' || current_setting('min_wal_size') || ': after a quiet time commits "
    "wait for each new file of the log' "
    "WHERE pg_size_bytes(current_setting('min_wal_size')) < pg_size_bytes('1GB')",
    "SELECT '!' || n_dead_tup || ' dead rows of ' || relname || ' wait for a vacuum' "
    "FROM pg_stat_user_tables WHERE schemaname = current_schema() AND "
    "n_dead_tup > 200000 + n_live_tup",
    "SELECT '!the database needs a vacuum against wraparound: its oldest transaction is ' || "
    "age(datfrozenxid) || ' back' FROM pg_database WHERE datname = current_database() AND "
    "age(datfrozenxid) > 1500000000",
    "SELECT '!a transaction of ' || coalesce(nullif(application_name, ''), 'a program') || "
    "' is open since ' || xact_start || ': no vacuum removes what died since' "
    "FROM pg_stat_activity WHERE xact_start < now() - interval '15 minutes' AND "
    "datname = current_database()",
};

static const char *const of_replication[] = {
    "SELECT '!store.durability is \"replicated\", and synchronous_standby_names is empty' "
    "WHERE current_setting('synchronous_standby_names') = ''",
    "SELECT '!no synchronous standby is connected: commits wait' "
    "WHERE current_setting('synchronous_standby_names') <> '' AND NOT EXISTS "
    "(SELECT 1 FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum'))",
};

static const char *const of_store[] = {
    "SELECT 'schema version ' || schema_version || ', format ' || format FROM cluster",
    "SELECT 'gateway \"' || convert_from(node, 'UTF8') || '\" has it, with ' || batch || ' batches' "
    "FROM nodes WHERE state < 2",
    "SELECT count(*) || ' conversations' FROM conversations",
    "SELECT count(*) || ' tasks, ' || count(*) FILTER (WHERE status < 2) || ' of them live' "
    "FROM tasks",
    "SELECT '!the journal has rows of a node that is not known: ' || incarnation FROM journal j "
    "WHERE NOT EXISTS (SELECT 1 FROM nodes n WHERE n.incarnation = j.incarnation) "
    "GROUP BY incarnation",
};

#define TASK_NAME "convert_from(t.task_id, 'UTF8')"
static const char *const of_rows[] = {
    "SELECT '!task ' || " TASK_NAME " || ': event ' || b.first || ' follows event ' || b.before "
    "FROM (SELECT task_key, first, lag(last) OVER (PARTITION BY task_key ORDER BY first) AS before "
    "FROM blocks) b JOIN tasks t ON t.task_key = b.task_key WHERE b.first <> b.before + 1 "
    "LIMIT 100",
    "SELECT '!task ' || " TASK_NAME " || ': its events end with ' || coalesce(b.last, 0) || "
    "', its record says ' || t.head FROM tasks t LEFT JOIN LATERAL (SELECT last FROM blocks "
    "WHERE task_key = t.task_key ORDER BY first DESC LIMIT 1) b ON true WHERE t.status >= 2 AND "
    "t.first <= t.head AND coalesce(b.last, 0) <> t.head AND "
    "NOT EXISTS (SELECT 1 FROM journal) LIMIT 100",
    "SELECT '!task ' || " TASK_NAME " || ' hangs on no conversation' FROM tasks t WHERE NOT EXISTS "
    "(SELECT 1 FROM conversations c WHERE c.owner = t.owner AND "
    "c.conversation_id = t.conversation_id) LIMIT 100",
    "SELECT '!message ' || convert_from(m.message_id, 'UTF8') || ' hangs on one that is missing' "
    "FROM messages m WHERE parent_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM messages p WHERE "
    "p.owner = m.owner AND p.conversation_id = m.conversation_id AND p.message_id = m.parent_id) "
    "LIMIT 100",
};

struct pg_checkup {
    struct pg_conn conn;
    store_pg_say_fn say;
    void *arg;
};

static bool sentences(struct pg_checkup *k, const char *const *statements, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        PGresult *r = PQexec(k->conn.pg, statements[i]);
        bool good = PQresultStatus(r) == PGRES_TUPLES_OK;
        for (int row = 0; good && row < PQntuples(r); row++) {
            const char *text = PQgetvalue(r, row, 0);
            k->say(k->arg, *text == '!', *text == '!' ? text + 1 : text);
        }
        if (!good)
            k->say(k->arg, true, PQerrorMessage(k->conn.pg));
        PQclear(r);
        if (!good)
            return false;
    }
    return true;
}

static int64_t wall_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void check_clock(struct pg_checkup *k)
{
    char text[128];
    int64_t before = wall_ms();
    PGresult *r =
        PQexec(k->conn.pg, "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint");
    int64_t after = wall_ms();
    bool good = PQresultStatus(r) == PGRES_TUPLES_OK && PQntuples(r) == 1;
    int64_t theirs = good ? strtoll(PQgetvalue(r, 0, 0), NULL, 10) : 0;
    PQclear(r);
    int64_t off = theirs < before ? before - theirs : theirs > after ? theirs - after : 0;
    snprintf(text, sizeof text, "its clock and this machine's are %lld ms apart", (long long)off);
    if (good)
        k->say(k->arg, off > CLOCK_MS, text);
}

static bool has_store(struct pg_checkup *k)
{
    PGresult *r = PQexec(k->conn.pg, "SELECT 1 WHERE to_regclass('cluster') IS NOT NULL");
    bool found = PQresultStatus(r) == PGRES_TUPLES_OK && PQntuples(r) == 1;
    PQclear(r);
    if (!found)
        k->say(k->arg, false, "no gateway has been here yet");
    return found;
}

bool store_pg_check(const struct store_pg_options *o, bool full, store_pg_say_fn say, void *arg)
{
    struct pg_checkup k = {.say = say, .arg = arg};
    if (!pg_conn_open(&k.conn, o, "holdfast doctor")) {
        k.say(arg, true, k.conn.error);
        return false;
    }
    bool good = PQexitPipelineMode(k.conn.pg) == 1 && PQsetnonblocking(k.conn.pg, 0) == 0 &&
                pg_conn_exec(&k.conn, "SET statement_timeout = 0; SET enable_seqscan = on;"
                                      "SET default_transaction_read_only = on") == STORE_OK;
    good = good && sentences(&k, of_server, countof(of_server));
    if (good)
        check_clock(&k);
    if (good && o->replicated)
        good = sentences(&k, of_replication, countof(of_replication));
    if (good && has_store(&k)) {
        good = sentences(&k, of_store, countof(of_store));
        if (good && full)
            good = sentences(&k, of_rows, countof(of_rows));
    }
    pg_conn_close(&k.conn);
    return good;
}
