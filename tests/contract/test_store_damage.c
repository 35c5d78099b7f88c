/* One byte of the database changes, anywhere: what is then told is as it was written, or is told as
 * damage, and the doctor never calls sound what answers otherwise.  T_SEED repeats a run. */
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include "gateway/store/store_check.h"
#include "gateway/store/store_sqlite_private.h"
#include "tests/contract/store_world.h"
#include "tests/support/t.h"

#define PAGE 4096
#define ROUNDS 600
#define PAGES_MAX 512

struct damage {
    struct fixture *f;
    char path[128];
    char *whole; /* the sound file */
    size_t bytes;
    struct buf truth[WORLD_QUERIES];
    size_t of_rows[PAGES_MAX],
        n_of_rows; /* pages of tables; the others are of indexes, or nobody's */
};

static void find_pages(struct damage *d)
{
    sqlite3 *db;
    sqlite3_stmt *stmt;
    assert_int_equal(sqlite3_open(d->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db,
                                        "SELECT pageno - 1 FROM dbstat WHERE name IN "
                                        "(SELECT name FROM sqlite_master WHERE type = 'table')",
                                        -1, &stmt, NULL),
                     SQLITE_OK);
    while (sqlite3_step(stmt) == SQLITE_ROW && d->n_of_rows < PAGES_MAX)
        d->of_rows[d->n_of_rows++] = (size_t)sqlite3_column_int64(stmt, 0);
    assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_in_range(d->n_of_rows, 20, PAGES_MAX - 1);
}

static void load(struct damage *d)
{
    struct stat st;
    int fd = open(d->path, O_RDONLY);
    assert_int_equal(fstat(fd, &st), 0);
    d->bytes = (size_t)st.st_size;
    d->whole = xalloc(d->bytes);
    assert_int_equal(read(fd, d->whole, d->bytes), st.st_size);
    close(fd);
}

static int setup(void **state)
{
    struct damage *d = xcalloc(sizeof *d);
    d->f = kit_new(true);
    world_make(d->f);
    for (size_t i = 0; i < WORLD_QUERIES; i++)
        (void)world_ask(d->f, &world_queries[i], &d->truth[i]);
    kit_shut(d->f);
    snprintf(d->path, sizeof d->path, "%s/holdfast.db", d->f->dir);
    load(d);
    find_pages(d);
    *state = d;
    return 0;
}

static int teardown(void **state)
{
    struct damage *d = *state;
    for (size_t i = 0; i < WORLD_QUERIES; i++)
        buf_done(&d->truth[i]);
    free(d->whole);
    dir_remove(d->f->dir);
    d->f->dir[0] = 0;
    d->f->store = d->f->reader = NULL;
    kit_free(d->f);
    free(d);
    return 0;
}

static void write_with(struct damage *d, size_t at, char byte)
{
    char path[160];
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s%s", d->path, i ? "-shm" : "-wal");
        (void)unlink(path);
    }
    int fd = open(d->path, O_WRONLY | O_TRUNC);
    assert_int_equal(write(fd, d->whole, d->bytes), (ssize_t)d->bytes);
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    close(fd);
}

static bool doctor_says_sound(struct damage *d)
{
    struct store_check check;
    store_check(d->path, true, true, &check);
    bool sound = check.n_faults == 0;
    store_check_done(&check);
    return sound;
}

/* Every row in got is one of the truth's: the rows that are missing are missing alone. */
static bool only_has_of(struct str got, struct str truth)
{
    while (got.n > 0) {
        const char *newline = memchr(got.p, '\n', got.n);
        size_t n = newline ? (size_t)(newline - got.p) + 1 : got.n;
        if (strncmp(got.p, "status ", 7) != 0 && !memmem(truth.p, truth.n, got.p, n))
            return false;
        got.p += n;
        got.n -= n;
    }
    return true;
}

enum told { TRUTH, DAMAGE, LESS, OTHER };

/* The worst of all answers. */
static enum told look(struct damage *d)
{
    struct store_sqlite_options options = {.dir = d->f->dir};
    struct store_sqlite *s = NULL;
    char error[STORE_ERROR_TEXT];
    enum told told = TRUTH;
    if (store_sqlite_open(&options, &s, error) < 0)
        return DAMAGE;
    d->f->store = s;
    d->f->reader = d->f->ops->reader_open(s);
    for (size_t i = 0; i < WORLD_QUERIES && d->f->reader; i++) {
        struct buf got = {0};
        int status = world_ask(d->f, &world_queries[i], &got);
        enum told now = TRUTH;
        if (status < 0 && status != STORE_NOT_FOUND)
            now = DAMAGE;
        else if (!str_eq(buf_str(&got), buf_str(&d->truth[i])))
            now = LESS;
        if (!only_has_of(buf_str(&got), buf_str(&d->truth[i]))) {
            print_error("query %zu:\n%.*s", i, (int)got.len, got.bytes);
            now = OTHER;
        }
        if (now > told)
            told = now;
        buf_done(&got);
    }
    if (!d->f->reader)
        told = DAMAGE;
    kit_shut(d->f);
    return told;
}

static void test_changed_byte_is_never_told_as_truth(void **state)
{
    struct damage *d = *state;
    uint64_t seed = t_seed();
    size_t counts[OTHER + 1] = {0};
    unsigned rounds = t_often(ROUNDS, ROUNDS / 4);
    for (unsigned round = 0; round < rounds; round++) {
        bool of_rows = round % 4 != 0; /* else anywhere */
        size_t at = t_below(&seed, d->bytes);
        if (of_rows)
            at = d->of_rows[t_below(&seed, d->n_of_rows)] * PAGE + at % PAGE;
        char byte = (char)(d->whole[at] ^ (1 + (char)t_below(&seed, 255)));
        write_with(d, at, byte);
        bool sound = doctor_says_sound(d);
        enum told told = look(d);
        counts[told]++;
        if ((told != TRUTH && sound) || (told == OTHER && of_rows)) {
            print_error(
                "round %d: byte %zu of page %zu, 0x%02x for 0x%02x: told %d, the doctor says %s\n",
                round, at % PAGE, at / PAGE, (unsigned char)byte, (unsigned char)d->whole[at], told,
                sound ? "sound" : "WRONG");
            fail();
        }
    }
    print_message("of %d: %zu as it was, %zu told as damage, %zu less, %zu other (in indexes)\n",
                  rounds, counts[TRUTH], counts[DAMAGE], counts[LESS], counts[OTHER]);
    assert_true(counts[DAMAGE] > rounds / 4); /* it does hit what is read */
}

/* The next start recomputes values that are sums of others. */
static void test_damaged_usage_is_counted_anew(void **state)
{
    static const char *const changes[] = {"UPDATE usage SET bytes = bytes + 1000000",
                                          "UPDATE usage SET owner = owner || 'x'"};
    struct damage *d = *state;
    for (size_t i = 0; i < countof(changes); i++) {
        sqlite3 *db;
        write_with(d, 0, d->whole[0]);
        assert_int_equal(sqlite3_open(d->path, &db), SQLITE_OK);
        assert_int_equal(sqlite3_exec(db, changes[i], NULL, NULL, NULL), SQLITE_OK);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
        assert_false(doctor_says_sound(d));
        assert_int_equal(look(d), TRUTH);
        assert_true(doctor_says_sound(d));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_damaged_usage_is_counted_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(test_changed_byte_is_never_told_as_truth, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
