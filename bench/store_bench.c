/* store_bench -- events per second through a store, beside a bare bound in the same run.
 *
 *   store_bench [TASKS [BATCH [EVENTS [ROUNDS]]]]      default 1000 100 1000000 5
 *
 * The bound appends the same lines once to one rowid table: same commits, same pragmas, WAL of the
 * same size.  Ours gets the workload of core: each task's tail is sealed when it has BLOCK_BYTES,
 * at most max(4, bytes of the batch / BLOCK_BYTES) seals a commit, those that wait longest first; a
 * seal carries the lines of its batch.  The time is that of the writing thread (commit and
 * housekeeping), without the making of batches; then the store is opened anew and all blocks are
 * read.  POWER=1 is durability "power".  PG=URL: the store on that PostgreSQL server (in an empty
 * database, whose tables are dropped) beside SQLite's with durability "power", and the reading of
 * all blocks beside a bare loop of libpq.  Prints one JSON object: medians of the rounds (the ratio
 * is the median of each pair's), the rest of the last round; bytes are those passed to write(), WAL
 * and database. */
#include <fcntl.h>
#ifdef HOLDFAST_POSTGRES
#include <libpq-fe.h>
#endif
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "core/list.h"
#include "gateway/store/store_pg.h"
#include "gateway/store/store_sqlite.h"

#define LINE_BYTES 190
#define SEALS_MIN 4
#define WAL_PAGES 2048

struct setup {
    int64_t tasks;
    size_t batch, events, rounds;
    bool power;
    const char *pg; /* a URL; NULL: SQLite */
};

struct opened {
    const struct store_ops *ops;
    void *store;
    bool is_sqlite;
};

struct result {
    double seconds, max_ms, p50_ms, p99_ms;
    uint64_t written; /* passed to write(), all files, close included */
    double read_mib_per_s, bare_read_mib_per_s;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t bytes_written(void)
{
    char text[512], *at;
    int fd = open("/proc/self/io", O_RDONLY);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    at = strstr(text, "wchar: ");
    return at ? strtoull(at + 7, NULL, 10) : 0;
}

static void die(const char *what)
{
    fprintf(stderr, "store_bench: %s\n", what);
    abort();
}

/* A token's line, as a gateway writes it. */
static void line_make(char line[LINE_BYTES], int64_t task, uint64_t seq)
{
    memset(line, 'x', LINE_BYTES);
    int n = snprintf(line, LINE_BYTES,
                     "{\"type\":\"event\",\"task_id\":\"%026lld\",\"seq\":%llu,"
                     "\"ts\":1764500000000,\"event\":\"token\",\"data\":{\"text\":\"",
                     (long long)task, (unsigned long long)seq);
    line[n] = 'x';
    memcpy(line + LINE_BYTES - 4, "\"}}\n", 4);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct result sum_up(double *took, size_t n)
{
    struct result r = {0};
    for (size_t i = 0; i < n; i++)
        r.seconds += took[i];
    qsort(took, n, sizeof *took, by_value);
    r.p50_ms = took[n / 2] * 1e3;
    r.p99_ms = took[n * 99 / 100] * 1e3;
    r.max_ms = took[n - 1] * 1e3;
    return r;
}

/* --- bare ------------------------------------------------------------------------------------- */

static void bare_exec(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        die(sqlite3_errmsg(db));
}

static struct result run_bare(const struct setup *s, const char *dir)
{
    struct buf path = {0};
    sqlite3 *db;
    sqlite3_stmt *insert, *begin, *commit;
    size_t n_commits = s->events / s->batch, seq = 0;
    double *took = xalloc(n_commits * sizeof *took);
    uint64_t before = bytes_written();

    buf_putf(&path, "%s/bare.db", dir);
    if (sqlite3_open_v2(path.bytes, &db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK)
        die("bare.db");
    bare_exec(db, "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 2048;"
                  "PRAGMA journal_size_limit = 33554432; PRAGMA secure_delete = OFF;"
                  "PRAGMA cache_size = -8192;");
    bare_exec(db, s->power ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL");
    bare_exec(db,
              "CREATE TABLE lines (row INTEGER PRIMARY KEY, task INTEGER, seq INTEGER, line BLOB)");
    if (sqlite3_prepare_v2(db, "INSERT INTO lines (task, seq, line) VALUES (?,?,?)", -1, &insert,
                           NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(db, "BEGIN IMMEDIATE", -1, &begin, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(db, "COMMIT", -1, &commit, NULL) != SQLITE_OK)
        die(sqlite3_errmsg(db));

    char *lines = xalloc(s->batch * LINE_BYTES);
    for (size_t i = 0; i < n_commits; i++) {
        for (size_t k = 0; k < s->batch; k++)
            line_make(lines + k * LINE_BYTES, (int64_t)((seq + k) % (size_t)s->tasks),
                      (seq + k) / (size_t)s->tasks + 1);
        double begun = now();
        sqlite3_step(begin);
        sqlite3_reset(begin);
        for (size_t k = 0; k < s->batch; k++, seq++) {
            sqlite3_bind_int64(insert, 1, (int64_t)(seq % (size_t)s->tasks));
            sqlite3_bind_int64(insert, 2, (int64_t)(seq / (size_t)s->tasks) + 1);
            sqlite3_bind_blob(insert, 3, lines + k * LINE_BYTES, LINE_BYTES, SQLITE_STATIC);
            if (sqlite3_step(insert) != SQLITE_DONE)
                die(sqlite3_errmsg(db));
            sqlite3_reset(insert);
        }
        if (sqlite3_step(commit) != SQLITE_DONE)
            die(sqlite3_errmsg(db));
        sqlite3_reset(commit);
        took[i] = now() - begun;
    }
    sqlite3_finalize(insert);
    sqlite3_finalize(begin);
    sqlite3_finalize(commit);
    sqlite3_close(db);
    struct result r = sum_up(took, n_commits);
    r.written = bytes_written() - before;
    unlink(path.bytes);
    free(lines);
    free(took);
    buf_done(&path);
    return r;
}

/* --- ours ------------------------------------------------------------------------------------- */

struct task {
    struct list want_seal; /* in it when its tail is due and no seal was left */
    int64_t key;
    uint64_t first, next; /* of the tail; the next to be made */
    struct buf tail;
    uint64_t fresh;      /* first of this batch's lines; 0 for none, or sealed */
    size_t fresh_offset; /* where they begin in the tail */
};

static struct opened store_open(const struct setup *s, const char *dir)
{
    char error[STORE_ERROR_TEXT] = "";
    struct store_sqlite *sqlite = NULL;
    struct store_pg *pg = NULL;
    if (s->pg) {
        struct store_pg_options options = {.url = s->pg, .node = "bench"};
        if (store_pg_open(&options, &pg, error) < 0)
            die(error);
        return (struct opened){&store_pg_ops, pg, false};
    }
    struct store_sqlite_options options = {.dir = dir, .power = s->power};
    if (store_sqlite_open(&options, &sqlite, error) < 0)
        die(error);
    return (struct opened){&store_sqlite_ops, sqlite, true};
}

static void tasks_create(const struct opened *o, int64_t n)
{
    struct batch *b = batch_new();
    for (int64_t i = 0; i < n; i++) {
        char id[32];
        snprintf(id, sizeof id, "%026lld", (long long)i);
        struct task_record t = {.key = i + 1,
                                .owner = STR("owner"),
                                .conversation_id = STR("conversation"),
                                .task_id = str_of(id),
                                .agent = STR("assistant"),
                                .input = STR("go"),
                                .state = {.status = STATUS_RUNNING, .progress = -1}};
        batch_put(b, &(struct op){.kind = OP_TASK_NEW, .record = &t});
    }
    if (o->ops->commit(o->store, b) < 0)
        die("cannot create the tasks");
    batch_free(b);
}

static void put_seal(struct batch *b, struct task *t)
{
    batch_put(b, &(struct op){.kind = OP_SEAL,
                              .task_key = t->key,
                              .first = t->first,
                              .last = t->next - 1,
                              .bytes = arena_str(&b->chunks, buf_str(&t->tail))});
    list_remove(&t->want_seal);
    t->first = t->next;
    t->fresh = 0;
    buf_clear(&t->tail);
}

static void put_lines(struct batch *b, struct task *t)
{
    batch_put(
        b, &(struct op){.kind = OP_LINES,
                        .task_key = t->key,
                        .first = t->fresh,
                        .last = t->next - 1,
                        .bytes = {t->tail.bytes + t->fresh_offset, t->tail.len - t->fresh_offset}});
    t->fresh = 0;
}

static void lines_add(struct task *t, size_t n)
{
    t->fresh = t->next;
    t->fresh_offset = t->tail.len;
    for (size_t i = 0; i < n; i++) {
        line_make(buf_reserve(&t->tail, LINE_BYTES), t->key, t->next++);
        t->tail.len += LINE_BYTES;
    }
}

/* A batch of lines, one task after the other; *seq counts all events.  Tails that wait for a seal
 * come first, in the order in which they became due. */
static struct batch *batch_make(const struct setup *s, struct task *tasks, struct list *want_seal,
                                size_t *seq)
{
    struct batch *b = batch_new();
    size_t n_tasks = (size_t)s->tasks, seals = s->batch * LINE_BYTES / BLOCK_BYTES;
    /* With fewer tasks than lines in a batch, a task has several lines in it, in one op. */
    size_t per = s->batch / n_tasks > 1 ? s->batch / n_tasks : 1;
    size_t begin = *seq / per, n = s->batch / per;
    if (seals < SEALS_MIN)
        seals = SEALS_MIN;
    for (size_t i = begin; i < begin + n; i++)
        lines_add(&tasks[i % n_tasks], per);
    *seq += n * per;
    for (; seals > 0 && !list_is_empty(want_seal); seals--)
        put_seal(b, list_item(want_seal->next, struct task, want_seal));
    for (size_t i = begin; i < begin + n; i++) {
        struct task *t = &tasks[i % n_tasks];
        if (!t->fresh)
            continue;
        if (t->tail.len >= BLOCK_BYTES && seals > 0) {
            put_seal(b, t);
            seals--;
            continue;
        }
        put_lines(b, t);
        if (t->tail.len >= BLOCK_BYTES && !list_is_in(&t->want_seal))
            list_push(want_seal, &t->want_seal);
    }
    return b;
}

static void dir_clean(const char *dir)
{
    static const char *const names[] = {"holdfast.db", "holdfast.db-wal", "holdfast.db-shm",
                                        "lock"};
    for (size_t i = 0; i < countof(names); i++) {
        struct buf path = {0};
        buf_putf(&path, "%s/%s", dir, names[i]);
        unlink(path.bytes);
        buf_done(&path);
    }
}

/* All blocks of all tasks, as replays ask for them. */
static double read_all(const struct setup *s, const char *dir)
{
    double begun = now(), bytes = 0;
    struct opened o = store_open(s, dir);
    void *reader = o.ops->reader_open(o.store);
    fprintf(stderr, "ours: opened in %.1f ms\n", (now() - begun) * 1e3);
    begun = now();
    for (int64_t key = 1; key <= s->tasks; key++) {
        struct query q = {.kind = QUERY_BLOCKS, .task_key = key, .max_bytes = 256 << 10};
        struct answer a = {.more = true};
        while (a.more) {
            answer_done(&a);
            if (o.ops->query(reader, &q, &a) < 0)
                die("query failed");
            for (size_t i = 0; i < a.n_blocks; i++) {
                bytes += a.blocks[i]->len;
                q.after = a.blocks[i]->last;
            }
        }
        answer_done(&a);
    }
    double took = now() - begun;
    o.ops->reader_close(reader);
    o.ops->close(o.store);
    return bytes / took / 1048576;
}

#ifdef HOLDFAST_POSTGRES
/* The same blocks with nothing around them; then the tables go. */
static double read_bare(const struct setup *s)
{
    PGconn *pg = PQconnectdb(s->pg);
    double begun = now(), bytes = 0;
    PQclear(PQprepare(pg, "r", "SELECT bytes FROM blocks WHERE task_key = $1::int8 ORDER BY first",
                      1, NULL));
    for (int64_t key = 1; key <= s->tasks; key++) {
        char text[32];
        const char *value = text;
        snprintf(text, sizeof text, "%lld", (long long)key);
        PGresult *r = PQexecPrepared(pg, "r", 1, &value, NULL, NULL, 1);
        if (PQresultStatus(r) != PGRES_TUPLES_OK)
            die(PQerrorMessage(pg));
        for (int i = 0; i < PQntuples(r); i++)
            bytes += PQgetlength(r, i, 0);
        PQclear(r);
    }
    double took = now() - begun;
    PQclear(PQexec(pg, "DO $$ DECLARE t text; BEGIN FOR t IN SELECT tablename FROM pg_tables WHERE "
                       "schemaname = current_schema() LOOP EXECUTE 'DROP TABLE ' || t; END LOOP; "
                       "END $$"));
    PQfinish(pg);
    return bytes / took / 1048576;
}
#else
static double read_bare(const struct setup *s)
{
    (void)s;
    return 0;
}
#endif

static struct result run_ours(const struct setup *s, const char *dir)
{
    size_t n_commits = s->events / s->batch, seq = 0;
    double *took = xalloc(n_commits * sizeof *took);
    struct task *tasks = xcalloc((size_t)s->tasks * sizeof *tasks);
    struct list want_seal;
    uint64_t before = bytes_written(), most = 0;

    struct opened o = store_open(s, dir);
    list_init(&want_seal);
    for (int64_t i = 0; i < s->tasks; i++) {
        tasks[i].key = i + 1;
        tasks[i].first = tasks[i].next = 1;
    }
    tasks_create(&o, s->tasks);
    for (size_t i = 0; i < n_commits; i++) {
        struct batch *b = batch_make(s, tasks, &want_seal, &seq);
        double begun = now();
        if (o.ops->commit(o.store, b) < 0)
            die("commit failed");
        o.ops->idle(o.store);
        took[i] = now() - begun;
        batch_free(b);
        if (o.is_sqlite && store_sqlite_wal_bytes(o.store) > most)
            most = store_sqlite_wal_bytes(o.store);
    }
    o.ops->close(o.store);
    struct result r = sum_up(took, n_commits);
    r.written = bytes_written() - before;
    r.read_mib_per_s = read_all(s, dir);
    r.bare_read_mib_per_s = s->pg ? read_bare(s) : 0;
    fprintf(stderr, "ours: WAL at most %.1f MiB\n", (double)most / 1048576);
    for (int64_t i = 0; i < s->tasks; i++)
        buf_done(&tasks[i].tail);
    free(tasks);
    free(took);
    dir_clean(dir);
    return r;
}

/* --- main ------------------------------------------------------------------------------------- */

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, by_value);
    return values[n / 2];
}

static size_t argument(char **argv, int argc, int i, size_t otherwise)
{
    size_t n = i < argc ? strtoull(argv[i], NULL, 10) : otherwise;
    return n ? n : otherwise;
}

int main(int argc, char **argv)
{
    struct setup s = {.tasks = (int64_t)argument(argv, argc, 1, 1000),
                      .batch = argument(argv, argc, 2, 100),
                      .events = argument(argv, argc, 3, 1000000),
                      .rounds = argument(argv, argc, 4, 5),
                      .power = getenv("POWER") != NULL,
                      .pg = getenv("PG")};
    struct setup sqlite = s;
    sqlite.pg = NULL;
    sqlite.power = true;
    const char *base = getenv("TMPDIR");
    struct buf dir = {0};
    buf_putf(&dir, "%s/store-bench-XXXXXX", base ? base : "/var/tmp");
    if (!mkdtemp(dir.bytes))
        die("no temporary directory");

    double *ratio = xalloc(3 * s.rounds * sizeof *ratio), *bare = ratio + s.rounds;
    double *ours = bare + s.rounds;
    struct result b = {0}, o = {0};
    size_t events = s.events / s.batch * s.batch;
    for (size_t i = 0; i < s.rounds; i++) {
        b = s.pg ? run_ours(&sqlite, dir.bytes) : run_bare(&s, dir.bytes);
        o = run_ours(&s, dir.bytes);
        bare[i] = (double)events / b.seconds;
        ours[i] = (double)events / o.seconds;
        ratio[i] = ours[i] / bare[i];
    }
    rmdir(dir.bytes);
    printf(
        "{\"tasks\":%lld,\"batch\":%zu,\"events\":%zu,\"power\":%s,\"bare_events_per_s\":%.0f,"
        "\"events_per_s\":%.0f,\"ratio\":%.3f,\"bytes_per_event\":%.0f,"
        "\"bare_bytes_per_event\":%.0f,\"read_mib_per_s\":%.0f,\"bare_read_mib_per_s\":%.0f,\"commit_ms\":{\"p50\":%.3f,\"p99\":%.3f,\"max\":%.3f},"
        "\"bare_commit_ms\":{\"p50\":%.3f,\"p99\":%.3f,\"max\":%.3f}}\n",
        (long long)s.tasks, s.batch, events, s.power ? "true" : "false", median(bare, s.rounds),
        median(ours, s.rounds), median(ratio, s.rounds), (double)o.written / (double)events,
        (double)b.written / (double)events, o.read_mib_per_s, o.bare_read_mib_per_s, o.p50_ms,
        o.p99_ms, o.max_ms, b.p50_ms, b.p99_ms, b.max_ms);
    free(ratio);
    buf_done(&dir);
    return 0;
}
