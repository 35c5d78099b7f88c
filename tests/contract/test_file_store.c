/* The bytes of files on both stores: a folder, and PostgreSQL. */
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "core/file_store.h"
#include "gateway/store/file_folder.h"
#include "tests/contract/store_pg_kit.h"

#define BLOB_A "aa00000000000000000000000000000000000000000000000000000000000001"
#define BLOB_B "bb00000000000000000000000000000000000000000000000000000000000002"
#define SLOT 7
#define LATER INT64_MAX /* whatever was written by now is older */

struct bytes_fixture {
    const struct file_store_ops *ops;
    void *store;
    struct store_pg *pg; /* NULL: a folder */
    char dir[64];
};

static struct bytes_fixture *bytes_new(void)
{
    struct bytes_fixture *f = xcalloc(sizeof *f);
    snprintf(f->dir, sizeof f->dir, "/tmp/holdfast-test-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    return f;
}

static int setup_folder(void **state)
{
    struct bytes_fixture *f = *state = bytes_new();
    f->ops = &file_folder_ops;
    f->store = file_folder_open(f->dir);
    return f->store ? 0 : -1;
}

static void open_pg(struct bytes_fixture *f)
{
    char error[STORE_ERROR_TEXT] = "";
    struct store_pg_options options = {.url = pg_kit_url(), .node = "test", .lease_s = 1};
    if (store_pg_open(&options, &f->pg, error) < 0)
        fail_msg("%s", error);
    f->ops = &store_pg_bytes_ops;
    f->store = store_pg_bytes_open(f->pg);
}

static int setup_pg(void **state)
{
    struct bytes_fixture *f = *state = bytes_new();
    pg_kit_empty();
    open_pg(f);
    return 0;
}

static void shut(struct bytes_fixture *f)
{
    f->ops->close(f->store);
    if (f->pg)
        store_pg_ops.close(f->pg);
    f->pg = NULL;
}

static void reopen(struct bytes_fixture *f)
{
    bool pg = f->pg != NULL;
    shut(f);
    if (pg)
        open_pg(f);
    else
        f->store = file_folder_open(f->dir);
    assert_non_null(f->store);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static int teardown(void **state)
{
    struct bytes_fixture *f = *state;
    shut(f);
    (void)nftw(f->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    free(f);
    return 0;
}

/* --- short ways to say it --------------------------------------------------------------------- */

static char pattern(int64_t at)
{
    return (char)(at * 31 + at / 65536);
}

static void put_pattern(struct bytes_fixture *f, const char *part, int64_t at, size_t n)
{
    char *bytes = xalloc(n);
    for (size_t i = 0; i < n; i++)
        bytes[i] = pattern(at + (int64_t)i);
    assert_int_equal(f->ops->part_write(f->store, SLOT, part, at, (struct str){bytes, n}),
                     STORE_OK);
    free(bytes);
}

static void assert_pattern(int64_t (*read)(void *, const char *, int64_t, void *, size_t),
                           void *store, const char *name, int64_t at, size_t n, int64_t want)
{
    char *bytes = xalloc(n);
    assert_int_equal(read(store, name, at, bytes, n), want);
    for (int64_t i = 0; i < want; i++)
        assert_int_equal(bytes[i], pattern(at + i));
    free(bytes);
}

static void put_blob(struct bytes_fixture *f, const char *part, const char *blob, const char *text)
{
    assert_int_equal(f->ops->part_write(f->store, SLOT, part, 0, str_of(text)), STORE_OK);
    assert_int_equal(f->ops->part_keep(f->store, SLOT, part, blob), STORE_OK);
}

static void assert_blob(struct bytes_fixture *f, const char *blob, const char *want)
{
    char bytes[64];
    int64_t n = f->ops->blob_read(f->store, blob, 0, bytes, sizeof bytes);
    assert_int_equal(n, strlen(want));
    assert_memory_equal(bytes, want, strlen(want));
}

static void on_found(void *arg, const char *blob)
{
    snprintf((char *)arg + strlen(arg), 3, "%.2s", blob);
}

static void assert_listed(struct bytes_fixture *f, const char *want)
{
    char names[16] = "";
    for (unsigned i = 0; i < FILE_BLOB_PIECES; i++)
        assert_int_equal(f->ops->blobs_list(f->store, i, on_found, names), STORE_OK);
    assert_string_equal(names, want);
}

/* --- tests ------------------------------------------------------------------------------------ */

static void test_part_grows_over_a_restart_and_becomes_a_blob(void **state)
{
    struct bytes_fixture *f = *state;
    static const size_t pieces[] = {1, 70000, 65536, 3, 200000};
    int64_t at = 0;
    assert_int_equal(f->ops->part_size(f->store, "g/p"), 0);
    for (size_t i = 0; i < countof(pieces); i++) {
        put_pattern(f, "g/p", at, pieces[i]);
        at += (int64_t)pieces[i];
        assert_int_equal(f->ops->part_size(f->store, "g/p"), at);
        reopen(f);
    }
    assert_pattern(f->ops->part_read, f->store, "g/p", 65000, 66000, 66000);
    assert_int_equal(f->ops->part_keep(f->store, SLOT, "g/p", BLOB_A), STORE_OK);
    assert_int_equal(f->ops->part_size(f->store, "g/p"), 0);
    reopen(f);
    assert_pattern(f->ops->blob_read, f->store, BLOB_A, 0, 400000, at);
    assert_pattern(f->ops->blob_read, f->store, BLOB_A, 131071, 3, 3);
    assert_pattern(f->ops->blob_read, f->store, BLOB_A, at - 5, 100, 5);
    assert_pattern(f->ops->blob_read, f->store, BLOB_A, at, 100, 0);
}

static void test_nothing_becomes_an_empty_blob(void **state)
{
    struct bytes_fixture *f = *state;
    assert_int_equal(f->ops->part_keep(f->store, SLOT, "g/none", BLOB_A), STORE_OK);
    assert_blob(f, BLOB_A, "");
}

static void test_keeping_again_changes_nothing(void **state)
{
    struct bytes_fixture *f = *state;
    put_blob(f, "g/p", BLOB_A, "the bytes");
    put_blob(f, "g/q", BLOB_A, "the bytes");
    put_blob(f, "g/r", BLOB_B, "others");
    assert_blob(f, BLOB_A, "the bytes");
    assert_listed(f, "aabb");
    assert_int_equal(f->ops->blob_drop(f->store, BLOB_A), STORE_OK);
    assert_int_equal(f->ops->blob_drop(f->store, BLOB_A), STORE_OK);
    assert_int_equal(f->ops->blob_read(f->store, BLOB_A, 0, (char[4]){0}, 4), STORE_NOT_FOUND);
    assert_blob(f, BLOB_B, "others");
    assert_listed(f, "bb");
}

static void test_unfinished_ones_are_counted_dropped_and_swept(void **state)
{
    struct bytes_fixture *f = *state;
    struct file_parts parts;
    put_pattern(f, "g/p", 0, 10);
    put_pattern(f, "g/" FILE_PART_ONCE "1", 0, 20);
    put_pattern(f, "h/p", 0, 40);
    assert_int_equal(f->ops->parts_of(f->store, "g", &parts), STORE_OK);
    assert_int_equal(parts.n, 2);
    assert_int_equal(parts.bytes, 30);
    assert_int_equal(f->ops->parts_sweep(f->store, 0, true), STORE_OK);
    assert_int_equal(f->ops->parts_of(f->store, "g", &parts), STORE_OK);
    assert_int_equal(parts.bytes, 10);
    assert_int_equal(f->ops->part_drop(f->store, "g/p"), STORE_OK);
    assert_int_equal(f->ops->part_drop(f->store, "g/p"), STORE_OK);
    assert_int_equal(f->ops->parts_of(f->store, "g", &parts), STORE_OK);
    assert_int_equal(parts.n, 0);
    assert_int_equal(f->ops->part_size(f->store, "h/p"), 40);
    assert_int_equal(f->ops->parts_sweep(f->store, LATER, false), STORE_OK);
    assert_int_equal(f->ops->part_size(f->store, "h/p"), 0);
}

static void test_lent_one_is_a_file_for_its_reader_alone(void **state)
{
    struct bytes_fixture *f = *state;
    struct stat st;
    char path[96], bytes[16];
    snprintf(path, sizeof path, "%s/lent", f->dir);
    put_blob(f, "g/p", BLOB_A, "the bytes");
    assert_int_equal(f->ops->blob_lend(f->store, BLOB_A, path), STORE_OK);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0400);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, bytes, sizeof bytes), 9);
    assert_memory_equal(bytes, "the bytes", 9);
    close(fd);
    assert_true(f->ops->blob_lend(f->store, BLOB_A, path) < 0); /* it is there */
    snprintf(path, sizeof path, "%s/other", f->dir);
    assert_int_equal(f->ops->blob_lend(f->store, BLOB_B, path), STORE_NOT_FOUND);
    assert_int_not_equal(stat(path, &st), 0);
}

#ifdef HOLDFAST_POSTGRES
/* --- several nodes ---------------------------------------------------------------------------- */

static void move_slot(const char *to)
{
    char sql[96];
    snprintf(sql, sizeof sql, "UPDATE slots SET incarnation = %s WHERE slot = %d", to, SLOT);
    pg_kit_sql(sql);
}

static void test_bytes_of_a_slot_are_its_homes_alone(void **state)
{
    struct bytes_fixture *f = *state;
    struct file_parts parts;
    put_pattern(f, "g/p", 0, 10);
    put_blob(f, "g/q", BLOB_A, "the bytes");
    move_slot("1"); /* to another node */
    assert_true(f->ops->part_write(f->store, SLOT, "g/p", 10, STR("more")) < 0);
    assert_true(f->ops->part_keep(f->store, SLOT, "g/p", BLOB_B) < 0);
    assert_int_equal(f->ops->part_drop(f->store, "g/p"), STORE_OK);
    assert_int_equal(f->ops->parts_sweep(f->store, LATER, true), STORE_OK);
    assert_int_equal(f->ops->parts_of(f->store, "g", &parts), STORE_OK);
    assert_int_equal(parts.bytes, 10);
    assert_int_equal(f->ops->blob_drop(f->store, BLOB_A), STORE_OK);
    assert_listed(f, "");
    assert_blob(f, BLOB_A, "the bytes"); /* anybody reads */
    move_slot("NULL");
    put_pattern(f, "g/p", 10, 10);
    assert_listed(f, "aa");
}

/* A client is told how far it came; another place would make a hole. */
static void test_part_is_written_at_its_end_only(void **state)
{
    struct bytes_fixture *f = *state;
    assert_true(f->ops->part_write(f->store, SLOT, "g/p", 5, STR("hole")) < 0);
    put_pattern(f, "g/p", 0, 10);
    assert_true(f->ops->part_write(f->store, SLOT, "g/p", 5, STR("again")) < 0);
    assert_true(f->ops->part_write(f->store, SLOT, "g/p", 11, STR("hole")) < 0);
    assert_int_equal(f->ops->part_size(f->store, "g/p"), 10);
}

static void test_nothing_stays_of_what_is_dropped(void **state)
{
    struct bytes_fixture *f = *state;
    put_blob(f, "g/p", BLOB_A, "the bytes");
    put_blob(f, "g/q", BLOB_A, "the bytes");
    assert_string_equal(pg_kit_sql("SELECT count(*) FROM file_chunks"), "1");
    put_pattern(f, "g/r", 0, 100000);
    put_pattern(f, "g/s", 0, 100000);
    assert_int_equal(f->ops->part_drop(f->store, "g/r"), STORE_OK);
    assert_int_equal(f->ops->parts_sweep(f->store, LATER, false), STORE_OK);
    assert_int_equal(f->ops->blob_drop(f->store, BLOB_A), STORE_OK);
    assert_string_equal(pg_kit_sql("SELECT count(*) FROM file_chunks"), "0");
}

static void test_damage_in_the_middle_is_told(void **state)
{
    struct bytes_fixture *f = *state;
    char *bytes = xalloc(200000);
    put_pattern(f, "g/p", 0, 200000);
    assert_int_equal(f->ops->part_keep(f->store, SLOT, "g/p", BLOB_A), STORE_OK);
    pg_kit_sql("DELETE FROM file_chunks WHERE place = 65536");
    assert_int_equal(f->ops->blob_read(f->store, BLOB_A, 0, bytes, 200000), STORE_CORRUPT);
    assert_int_equal(f->ops->blob_read(f->store, BLOB_A, 70000, bytes, 10), STORE_CORRUPT);
    assert_int_equal(f->ops->blob_read(f->store, BLOB_A, 131072, bytes, 10), 10);
    free(bytes);
}
#endif

#define ON(setup, test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
#define ALL(on)                                                                                 \
    ON(on, test_part_grows_over_a_restart_and_becomes_a_blob),                                  \
        ON(on, test_nothing_becomes_an_empty_blob), ON(on, test_keeping_again_changes_nothing), \
        ON(on, test_unfinished_ones_are_counted_dropped_and_swept),                             \
        ON(on, test_lent_one_is_a_file_for_its_reader_alone)
    static const struct CMUnitTest folder[] = {ALL(setup_folder)};
    int failed = cmocka_run_group_tests_name("folder", folder, NULL, NULL);
#ifdef HOLDFAST_POSTGRES
    static const struct CMUnitTest postgres[] = {
        ALL(setup_pg), ON(setup_pg, test_bytes_of_a_slot_are_its_homes_alone),
        ON(setup_pg, test_part_is_written_at_its_end_only),
        ON(setup_pg, test_nothing_stays_of_what_is_dropped),
        ON(setup_pg, test_damage_in_the_middle_is_told)};
    if (pg_kit_server())
        failed += cmocka_run_group_tests_name("postgres", postgres, NULL, NULL);
    else
        print_message("no PostgreSQL server: its tests are left out\n");
#else
    (void)setup_pg;
#endif
    return failed;
}
