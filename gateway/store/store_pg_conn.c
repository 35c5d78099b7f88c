/* Connections.  All waiting has a deadline of ours: no time-out of the server's or of TCP's reaches
 * a server that has stopped in the middle of an answer. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/store/store_pg_hosts.h"
#include "gateway/store/store_pg_private.h"

#define OLDEST_SERVER 140000
#define CONNECT_MS 5000
#define ANSWER_MS 15000

/* Every connection sets these for itself: defaults of a role or a database do not count.  Plans are
 * made once; they use the indexes that the statements were written for. */
static const char settings[] =
    "SET synchronous_commit = on; SET statement_timeout = 10000; SET lock_timeout = 8000;"
    "SET idle_in_transaction_session_timeout = 15000; SET default_transaction_isolation = "
    "'read committed'; SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2;"
    "SET tcp_keepalives_count = 3; SET tcp_user_timeout = 15000;"
    "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET jit = off;"
    "SET max_parallel_workers_per_gather = 0; SET enable_mergejoin = off;"
    "SET enable_hashjoin = off; SET enable_bitmapscan = off; SET bytea_output = 'hex'";

int64_t pg_now(void)
{
    return (int64_t)(uv_hrtime() / 1000000);
}

/* --- errors ----------------------------------------------------------------------------------- */

static void conn_says(struct pg_conn *conn, const char *text)
{
    size_t n = strcspn(text, "\r\n"); /* its first line is the message */
    snprintf(conn->error, sizeof conn->error, "%.*s", (int)(n > 220 ? 220 : n), text);
}

/* Class and code of SQLSTATE: see appendix A of PostgreSQL's manual.  What is refused: data, a
 * constraint, the statement itself or the right to it, a program's limit, a trigger's word.  22012
 * is how our own statements say that their row is not as they want it. */
static int status_of(const char *state)
{
    static const struct {
        const char *prefix;
        int status;
    } table[] = {
        {"40001", STORE_BUSY},    {"40P01", STORE_BUSY}, {"55P03", STORE_BUSY},
        {"57014", STORE_BUSY},    {"53100", STORE_FULL}, {"XX001", STORE_CORRUPT},
        {"XX002", STORE_CORRUPT}, {"22012", STORE_IO},   {"22", STORE_REFUSED},
        {"23", STORE_REFUSED},    {"42", STORE_REFUSED}, {"54", STORE_REFUSED},
        {"P0", STORE_REFUSED},
    };
    for (size_t i = 0; i < countof(table); i++)
        if (strncmp(state, table[i].prefix, strlen(table[i].prefix)) == 0)
            return table[i].status;
    return STORE_IO;
}

static int conn_lost(struct pg_conn *conn, const char *why)
{
    conn->state[0] = 0;
    if (why)
        snprintf(conn->error, sizeof conn->error, "%s", why);
    else
        conn_says(conn, conn->pg ? PQerrorMessage(conn->pg) : "no connection");
    pg_conn_close(conn);
    return STORE_UNKNOWN;
}

static int result_failed(struct pg_conn *conn, const PGresult *r)
{
    const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
    const char *message = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
    snprintf(conn->state, sizeof conn->state, "%s", state ? state : "");
    conn_says(conn, message ? message : PQresultErrorMessage(r));
    return status_of(conn->state);
}

/* A commit that was not replicated as promised says so in a warning, and succeeds. */
static void on_notice(void *arg, const PGresult *r)
{
    struct pg_conn *conn = arg;
    const char *severity = PQresultErrorField(r, PG_DIAG_SEVERITY_NONLOCALIZED);
    if (!severity || strcmp(severity, "WARNING") != 0)
        return;
    conn->warned = true;
    const char *message = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
    conn_says(conn, message ? message : "a warning");
}

/* --- waiting ---------------------------------------------------------------------------------- */

static bool pg_wait(PGconn *pg, short events, int64_t until)
{
    for (;;) {
        int64_t left = until - pg_now();
        struct pollfd p = {.fd = PQsocket(pg), .events = events};
        int n = left > 0 ? poll(&p, 1, (int)left) : 0;
        if (n > 0)
            return true;
        if (n == 0 || errno != EINTR)
            return false;
    }
}

/* --- opening ---------------------------------------------------------------------------------- */

static bool conn_refused(struct pg_conn *conn, const char *why)
{
    (void)conn_lost(conn, why);
    return false;
}

static bool host_refused(struct pg_conn *conn, const struct pg_host *host)
{
    char why[STORE_ERROR_TEXT];
    const char *name = host->host ? host->host : host->hostaddr;
    snprintf(why, sizeof why, "the server%s%.100s does not answer", name ? " " : "",
             name ? name : "");
    return conn_refused(conn, why);
}

static bool connect_to(struct pg_conn *conn, const char *url, const char *name,
                       const struct pg_host *host, unsigned ms)
{
    /* Keys behind dbname count more than its text; NULL and "" count nothing. */
    const char *const keys[] = {"dbname",
                                "host",
                                "hostaddr",
                                "port",
                                "application_name",
                                "target_session_attrs",
                                "tcp_user_timeout",
                                "keepalives_idle",
                                "keepalives_interval",
                                "keepalives_count",
                                NULL};
    const char *const values[] = {
        url, host->host, host->hostaddr, host->port, name, "read-write", "15000", "5", "2",
        "3", NULL};
    conn->pg = PQconnectStartParams(keys, values, 1);
    if (!conn->pg || PQstatus(conn->pg) == CONNECTION_BAD)
        return conn_refused(conn, NULL);
    PQsetNoticeReceiver(conn->pg, on_notice, conn);
    int64_t until =
        pg_now() + ms; /* from here on: finding the address blocks, and ends by itself */
    PostgresPollingStatusType at = PGRES_POLLING_WRITING;
    while (at == PGRES_POLLING_READING || at == PGRES_POLLING_WRITING) {
        if (!pg_wait(conn->pg, at == PGRES_POLLING_READING ? POLLIN : POLLOUT, until))
            return host_refused(conn, host);
        at = PQconnectPoll(conn->pg);
    }
    return at == PGRES_POLLING_OK ? true : conn_refused(conn, NULL);
}

/* First the server that took us last.  All of the time is for one, a share of it for each of
 * several; what is wrong with each is said. */
static bool pg_connect(struct pg_conn *conn, const struct store_pg_options *o, const char *name)
{
    char said[STORE_ERROR_TEXT] = "";
    size_t used = 0;
    struct pg_hosts hosts;
    pg_hosts_read(&hosts, o->url);
    unsigned ms = (o->connect_ms ? o->connect_ms : CONNECT_MS) / (unsigned)hosts.n;
    bool is_open = false;
    for (size_t i = 0; i < hosts.n && !is_open; i++) {
        size_t at = (conn->host + i) % hosts.n;
        is_open = connect_to(conn, o->url, name, &hosts.all[at], ms);
        if (is_open)
            conn->host = at;
        else if (used < sizeof said)
            used += (size_t)snprintf(said + used, sizeof said - used, "%s%.*s", used ? "; " : "",
                                     (int)((sizeof said - 1) / hosts.n - 2), conn->error);
    }
    pg_hosts_done(&hosts);
    if (!is_open)
        snprintf(conn->error, sizeof conn->error, "%s", said);
    return is_open;
}

bool pg_conn_open(struct pg_conn *conn, const struct store_pg_options *o, const char *name)
{
    int answer_ms = o->answer_ms ? (int)o->answer_ms : ANSWER_MS;
    *conn =
        (struct pg_conn){.answer_ms = answer_ms, .is_reader = conn->is_reader, .host = conn->host};
    if (!pg_connect(conn, o, name))
        return false;
    if (PQserverVersion(conn->pg) < OLDEST_SERVER)
        return conn_refused(conn, "the server is older than PostgreSQL 14");
    if (PQsetnonblocking(conn->pg, 1) != 0)
        return conn_refused(conn, NULL);
    if (pg_conn_exec(conn, settings) < 0) {
        pg_conn_close(conn);
        return false;
    }
    return PQenterPipelineMode(conn->pg) == 1 ? true : conn_refused(conn, NULL);
}

void pg_conn_close(struct pg_conn *conn)
{
    if (conn->pg)
        PQfinish(conn->pg);
    conn->pg = NULL;
    memset(conn->prepared, 0, sizeof conn->prepared);
}

int pg_conn_pid(const struct pg_conn *conn)
{
    return conn->pg ? PQbackendPID(conn->pg) : 0;
}

/* --- calls ------------------------------------------------------------------------------------ */

enum { INT8 = 20, BYTEA = 17, FLOAT8 = 701 }; /* oids, of pg_type.dat */
enum { BYTEA_ARRAY = 1001, INT8_ARRAY = 1016, FLOAT8_ARRAY = 1022 };

void pg_begin(struct pg_call *c, struct pg_conn *conn, enum pg_stmt stmt)
{
    c->conn = conn;
    c->stmt = stmt;
    c->n = 0;
}

static void put_big_endian(char *to, uint64_t n, size_t bytes)
{
    for (size_t i = bytes; i-- > 0; n >>= 8)
        to[i] = (char)(n & 0xff);
}

static uint64_t big_endian(const char *p, int n)
{
    uint64_t number = 0;
    for (int i = 0; i < n; i++)
        number = number << 8 | (unsigned char)p[i];
    return number;
}

static void pg_param(struct pg_call *c, Oid type, const char *value, size_t n)
{
    ASSERT(c->n < PG_PARAMS_MAX && n <= INT32_MAX);
    c->types[c->n] = type;
    c->values[c->n] = value;
    c->lengths[c->n++] = (int)n;
}

void pg_text(struct pg_call *c, struct str s)
{
    pg_param(c, BYTEA, s.p, s.n);
}

void pg_last(struct pg_call *c)
{
    pg_text(c, STR("\xff")); /* in no UTF-8 */
}

void pg_int(struct pg_call *c, int64_t n)
{
    put_big_endian(c->numbers[c->n], (uint64_t)n, 8);
    pg_param(c, INT8, c->numbers[c->n], 8);
}

void pg_real(struct pg_call *c, double n)
{
    uint64_t bits;
    memcpy(&bits, &n, sizeof bits);
    put_big_endian(c->numbers[c->n], bits, 8);
    pg_param(c, FLOAT8, c->numbers[c->n], 8);
}

/* An array: its dimensions (1), whether NULLs follow, the type, the length, the first index; then
 * each element behind its length, -1 for NULL. */
#define ARRAY_HEAD 20

static void array_begin(struct buf *b, Oid type)
{
    char head[ARRAY_HEAD];
    put_big_endian(head, 1, 4);
    put_big_endian(head + 4, 1, 4);
    put_big_endian(head + 8, type, 4);
    put_big_endian(head + 12, 0, 4);
    put_big_endian(head + 16, 1, 4);
    buf_clear(b);
    buf_put(b, head, sizeof head);
}

static void array_add(struct buf *b, struct str item)
{
    char length[4];
    ASSERT(b->len >= ARRAY_HEAD && item.n <= INT32_MAX);
    put_big_endian(length, item.p ? item.n : UINT32_MAX, 4);
    buf_put(b, length, sizeof length);
    buf_put(b, item.p, item.p ? item.n : 0);
    put_big_endian(b->bytes + 12, pg_array_n(b) + 1, 4);
}

void pg_ints_begin(struct buf *b)
{
    array_begin(b, INT8);
}

void pg_reals_begin(struct buf *b)
{
    array_begin(b, FLOAT8);
}

void pg_texts_begin(struct buf *b)
{
    array_begin(b, BYTEA);
}

size_t pg_array_n(const struct buf *b)
{
    return b->len ? big_endian(b->bytes + 12, 4) : 0;
}

void pg_ints_add(struct buf *b, int64_t n)
{
    char bytes[8];
    put_big_endian(bytes, (uint64_t)n, 8);
    array_add(b, (struct str){bytes, 8});
}

void pg_reals_add(struct buf *b, double n)
{
    uint64_t bits;
    memcpy(&bits, &n, sizeof bits);
    pg_ints_add(b, (int64_t)bits);
}

void pg_texts_add(struct buf *b, struct str s)
{
    array_add(b, s);
}

void pg_array(struct pg_call *c, const struct buf *array)
{
    Oid of = (Oid)big_endian(array->bytes + 8, 4);
    pg_param(c,
             of == INT8    ? INT8_ARRAY
             : of == BYTEA ? BYTEA_ARRAY
                           : FLOAT8_ARRAY,
             array->bytes, array->len);
}

/* "?" becomes "$1", "$2" …; "?3" is "$3". */
static void numbered(const char *sql, struct buf *ret)
{
    unsigned n = 0;
    buf_clear(ret);
    for (const char *p = sql; *p; p++) {
        bool again = p[0] == '?' && p[1] >= '1' && p[1] <= '9';
        if (*p == '?' && !again)
            buf_putf(ret, "$%u", ++n);
        else
            buf_putc(ret, again ? '$' : *p);
    }
    buf_putc(ret, 0);
}

static void stmt_name(enum pg_stmt stmt, char ret[16])
{
    snprintf(ret, 16, "s%d", (int)stmt);
}

static bool pg_prepare(struct pg_call *c, const char *name)
{
    struct buf sql = {0};
    numbered(pg_sql(c->stmt), &sql);
    int sent = PQsendPrepare(c->conn->pg, name, sql.bytes, c->n, c->types);
    buf_done(&sql);
    c->conn->prepared[c->stmt] = sent == 1;
    return sent == 1;
}

/* A failure shows in pg_flush: the connection is then not as it should be. */
void pg_send(struct pg_call *c)
{
    static const int binary[PG_PARAMS_MAX] = {
#define TEN 1, 1, 1, 1, 1, 1, 1, 1, 1, 1
        TEN, TEN, TEN, TEN, TEN, TEN, TEN, TEN};
    char name[16];
    struct pg_conn *conn = c->conn;
    if (!pg_conn_is_open(conn))
        return;
    stmt_name(c->stmt, name);
    if (!conn->prepared[c->stmt] && !pg_prepare(c, name))
        (void)conn_lost(conn, NULL);
    else if (PQsendQueryPrepared(conn->pg, name, c->n, c->values, c->lengths, binary, 1) != 1)
        (void)conn_lost(conn, NULL);
    else
        conn->n_queued++;
}

/* --- answers ---------------------------------------------------------------------------------- */

/* Writes what is queued while it reads, so that neither side waits for the other.  NULL between two
 * statements' results; conn->pg is NULL when the connection is lost. */
static PGresult *next_result(struct pg_conn *conn, int64_t until)
{
    for (;;) {
        int left = PQflush(conn->pg);
        if (left >= 0 && !PQisBusy(conn->pg))
            return PQgetResult(conn->pg);
        short events = (short)(POLLIN | (left > 0 ? POLLOUT : 0));
        if (left < 0)
            (void)conn_lost(conn, NULL);
        else if (!pg_wait(conn->pg, events, until))
            (void)conn_lost(conn, "the server does not answer");
        else if (PQconsumeInput(conn->pg) != 1)
            (void)conn_lost(conn, NULL);
        if (!conn->pg)
            return NULL;
    }
}

/* A statement whose preparation was not carried out has to be prepared again.  Those behind a
 * failure all are. */
static void forget_prepared(struct pg_conn *conn)
{
    memset(conn->prepared, 0, sizeof conn->prepared);
}

/* The first failure forgets what is prepared: names are taken then, so the server does as well. */
static int after_failure(struct pg_conn *conn, int status)
{
    static const char forget[] = "DEALLOCATE ALL";
    char state[sizeof conn->state], error[sizeof conn->error];
    memcpy(state, conn->state, sizeof state);
    memcpy(error, conn->error, sizeof error);
    bool in_transaction = PQtransactionStatus(conn->pg) != PQTRANS_IDLE;
    forget_prepared(conn);
    conn->mending = true;
    if (in_transaction)
        (void)PQsendQueryParams(conn->pg, "ROLLBACK", 0, NULL, NULL, NULL, NULL, 1);
    (void)PQsendQueryParams(conn->pg, forget, 0, NULL, NULL, NULL, NULL, 1);
    int end = pg_flush(conn, NULL, NULL);
    conn->mending = false;
    memcpy(conn->state, state, sizeof state);
    memcpy(conn->error, error, sizeof error);
    if (end < 0)
        pg_conn_close(conn); /* the answer is known all the same */
    return status;
}

/* True when the flush is over. */
static bool flush_take(struct pg_conn *conn, const PGresult *r, int *status, bool *ret_counts)
{
    *ret_counts = false;
    switch (PQresultStatus(r)) {
    case PGRES_PIPELINE_SYNC: return true;
    case PGRES_PIPELINE_ABORTED: return false;
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK: *ret_counts = *status == STORE_OK; return false;
    default:
        if (*status == STORE_OK)
            *status = result_failed(conn, r);
        return false;
    }
}

static bool is_preparation(PGresult *r)
{
    return PQresultStatus(r) == PGRES_COMMAND_OK && *PQcmdStatus(r) == 0;
}

int pg_flush(struct pg_conn *conn, pg_take_fn take, void *arg)
{
    int status = STORE_OK;
    size_t n = 0;
    int64_t until = pg_now() + conn->answer_ms;
    conn->n_queued = 0;
    if (!pg_conn_is_open(conn))
        return STORE_UNKNOWN;
    if (!conn->mending)
        conn->state[0] = 0;
    if (PQpipelineSync(conn->pg) != 1)
        return conn_lost(conn, NULL);
    for (bool over = false; !over;) {
        bool counts = false;
        PGresult *r = next_result(conn, until);
        if (!conn->pg)
            return STORE_UNKNOWN;
        if (!r)
            continue; /* between two statements */
        over = flush_take(conn, r, &status, &counts);
        bool kept = counts && !is_preparation(r) && take && take(arg, n, r);
        n += counts && !is_preparation(r);
        if (!kept)
            PQclear(r);
        if (PQstatus(conn->pg) != CONNECTION_OK)
            return conn_lost(conn, NULL);
    }
    return status < 0 && !conn->mending ? after_failure(conn, status) : status;
}

/* --- one statement ---------------------------------------------------------------------------- */

static bool take_one(void *arg, size_t i, PGresult *result)
{
    (void)i;
    *(PGresult **)arg = result;
    return true;
}

int pg_ask(struct pg_call *c, PGresult **ret)
{
    *ret = NULL;
    pg_send(c);
    int status = pg_flush(c->conn, take_one, ret);
    ASSERT(status < 0 || *ret);
    if (status < 0 && *ret) {
        PQclear(*ret);
        *ret = NULL;
    }
    return status;
}

int pg_run(struct pg_call *c)
{
    pg_send(c);
    return pg_flush(c->conn, NULL, NULL);
}

int pg_run_plain(struct pg_conn *conn, enum pg_stmt stmt)
{
    struct pg_call c;
    pg_begin(&c, conn, stmt);
    return pg_run(&c);
}

int pg_conn_exec(struct pg_conn *conn, const char *script)
{
    int status = STORE_OK;
    int64_t until = pg_now() + conn->answer_ms;
    if (!pg_conn_is_open(conn))
        return STORE_UNKNOWN;
    if (PQsendQuery(conn->pg, script) != 1)
        return conn_lost(conn, NULL);
    for (;;) {
        PGresult *r = next_result(conn, until);
        if (!conn->pg)
            return STORE_UNKNOWN;
        if (!r)
            break;
        if (status == STORE_OK && PQresultStatus(r) != PGRES_COMMAND_OK &&
            PQresultStatus(r) != PGRES_TUPLES_OK && PQresultStatus(r) != PGRES_EMPTY_QUERY)
            status = result_failed(conn, r);
        PQclear(r);
        if (PQstatus(conn->pg) != CONNECTION_OK)
            return conn_lost(conn, NULL);
    }
    return status;
}

/* --- cells ------------------------------------------------------------------------------------ */

struct str pg_col(const PGresult *r, int row, int column)
{
    if (PQgetisnull(r, row, column))
        return STR_NULL;
    return (struct str){PQgetvalue(r, row, column), (size_t)PQgetlength(r, row, column)};
}

int64_t pg_col_int(const PGresult *r, int row, int column)
{
    int n = PQgetlength(r, row, column);
    if (PQgetisnull(r, row, column) || n > 8)
        return 0;
    uint64_t number = big_endian(PQgetvalue(r, row, column), n);
    return n == 4 ? (int32_t)number : (int64_t)number;
}

double pg_col_real(const PGresult *r, int row, int column)
{
    double real = 0;
    if (!PQgetisnull(r, row, column) && PQgetlength(r, row, column) == 8) {
        uint64_t bits = big_endian(PQgetvalue(r, row, column), 8);
        memcpy(&real, &bits, sizeof real);
    }
    return real;
}
