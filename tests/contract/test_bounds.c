/* The bounds of a command: which cgroup is available, what is written to it, and how a folder is
 * measured.  The groups are plain folders here: what the kernel would make of them is not what is
 * tested. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/processes/bounds.h"
#include "gateway/processes/cgroup.h"
#include "gateway/processes/folder_size.h"
#include "tests/support/t.h"

#define PID 4711

static char place[64];

static int make_place(void **state)
{
    (void)state;
    snprintf(place, sizeof place, "/tmp/holdfast-bounds-XXXXXX");
    return mkdtemp(place) ? 0 : -1;
}

static int remove_place(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", place);
    return system(command);
}

static const char *in_place(const char *name)
{
    static char path[4][256];
    static int n;
    char *to = path[n++ % 4];
    snprintf(to, sizeof path[0], "%s/%s", place, name);
    return to;
}

static void put(const char *name, const char *text)
{
    int fd = open(in_place(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static void assert_written(const char *name, const char *text)
{
    char got[256] = "";
    int fd = open(in_place(name), O_RDONLY);
    assert_true(fd >= 0 && read(fd, got, sizeof got - 1) >= 0);
    close(fd);
    assert_string_equal(got, text);
}

static void folder(const char *name)
{
    assert_true(mkdir(in_place(name), 0700) == 0 || errno == EEXIST);
}

/* --- groups ----------------------------------------------------------------------------------- */

/* A gateway in the group /unit/gateway, whose parent gives memory and pids. */
static void make_groups(void)
{
    char mounts[512];
    folder("proc");
    folder("proc/4711");
    folder("fs");
    folder("fs/unit");
    snprintf(
        mounts, sizeof mounts,
        "20 1 0:5 / /proc rw - proc proc rw\n30 1 0:9 /sub /elsewhere rw - cgroup2 cgroup2 rw\n"
        "31 1 0:9 / %s/fs rw,nosuid shared:4 - cgroup2 cgroup2 rw\n",
        place);
    put("proc/4711/mountinfo", mounts);
    put("proc/4711/cgroup", "4:memory:/other\n0::/unit/gateway\n");
    put("fs/unit/cgroup.controllers", "cpu memory pids\n");
    put("fs/unit/cgroup.procs", "");
    put("fs/unit/cgroup.subtree_control", "\n");
}

static void test_cgroup_above_a_leaf_that_is_delegated_is_found(void **state)
{
    char parent[PATH_MAX], why[128];
    (void)state;
    make_groups();
    assert_true(cgroup_find(in_place("proc"), PID, parent, why));
    assert_string_equal(parent, in_place("fs/unit"));
    assert_true(cgroup_enable(parent));
    assert_written("fs/unit/cgroup.subtree_control", "+memory +pids");
    put("fs/unit/cgroup.subtree_control", "cpu memory pids\n");
    assert_true(cgroup_enable(parent)); /* they are on: nothing is written */
    assert_written("fs/unit/cgroup.subtree_control", "cpu memory pids\n");
}

static void test_cgroup_that_cannot_be_had_is_told(void **state)
{
    static const struct {
        const char *file, *text, *why;
    } rows[] = {
        {"proc/4711/cgroup", "4:memory:/other\n", "no cgroups of version 2"},
        {"proc/4711/cgroup", "0::/\n", "none above it"},
        {"proc/4711/cgroup", "0::/gateway\n", "does not have the memory and pids controllers"},
        {"proc/4711/mountinfo", "20 1 0:5 / /proc rw - proc proc rw\n", "no cgroups of version 2"},
        {"fs/unit/cgroup.controllers", "cpu memory\n",
         "does not have the memory and pids controllers"},
        {"fs/unit/cgroup.controllers", "cpu mymemory pids\n",
         "does not have the memory and pids controllers"},
        {"fs/unit/cgroup.procs", "17\n", "processes of its own"},
    };
    char parent[PATH_MAX], why[128];
    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        make_groups();
        put(rows[i].file, rows[i].text);
        assert_false(cgroup_find(in_place("proc"), PID, parent, why));
        if (!strstr(why, rows[i].why))
            fail_msg("%zu: %s", i, why);
    }
    make_groups();
    assert_false(cgroup_find(in_place("proc"), PID + 1, parent, why));
    if (geteuid() == 0) {
        assert_int_equal(chown(in_place("fs/unit"), 65534, 65534), 0);
        assert_false(cgroup_find(in_place("proc"), PID, parent, why));
        assert_non_null(strstr(why, "not delegated"));
        assert_int_equal(chown(in_place("fs/unit"), 0, 0), 0);
    }
}

static void test_cgroup_has_the_bounds_and_tells_what_was_used(void **state)
{
    static const char *const files[] = {"memory.max", "memory.oom.group", "memory.swap.max",
                                        "pids.max", "cgroup.procs"};
    (void)state;
    make_groups();
    folder("fs/unit/command");
    for (size_t i = 0; i < countof(files); i++) {
        char name[64];
        snprintf(name, sizeof name, "fs/unit/command/%s", files[i]);
        put(name, "");
    }
    put("fs/unit/command/memory.events", "low 0\noom 3\noom_kill 0\noom_group_kill 0\n");
    put("fs/unit/command/cpu.stat", "usage_usec 7900000\nuser_usec 1\n");
    int group = cgroup_make(in_place("fs/unit"), "command", 1 << 20, 42);
    assert_true(group >= 0);
    assert_written("fs/unit/command/memory.max", "1048576");
    assert_written("fs/unit/command/memory.oom.group", "1");
    assert_written("fs/unit/command/memory.swap.max", "0");
    assert_written("fs/unit/command/pids.max", "42");
    assert_true(cgroup_enter(group));
    assert_written("fs/unit/command/cgroup.procs", "0");
    assert_int_equal(cgroup_cpu_s(group), 7);
    assert_false(cgroup_ran_out(group));
    put("fs/unit/command/memory.events", "oom 3\noom_kill 1\n");
    assert_true(cgroup_ran_out(group));
    close(group);
    /* A folder without the kernel's files is no group: it is not left behind. */
    assert_int_equal(cgroup_make(in_place("fs/unit"), "none", 1, 1), -1);
    assert_int_equal(access(in_place("fs/unit/none"), F_OK), -1);
}

/* --- folders ---------------------------------------------------------------------------------- */

static void fill(const char *name, size_t bytes)
{
    char *text = xcalloc(bytes + 1);
    memset(text, 'x', bytes);
    put(name, text);
    free(text);
}

static void test_folder_is_measured_as_the_disk_does(void **state)
{
    struct stat st;
    (void)state;
    folder("w");
    folder("w/a");
    folder("outside");
    fill("outside/big", 1 << 20);
    fill("w/a/file", 300000);
    assert_int_equal(stat(in_place("w/a/file"), &st), 0);
    uint64_t file = (uint64_t)st.st_blocks * 512;
    assert_int_equal(stat(in_place("w/a"), &st), 0);
    uint64_t all = file + (uint64_t)st.st_blocks * 512;
    assert_false(folder_exceeds(in_place("w"), all));
    assert_true(folder_exceeds(in_place("w"), all - 1));
    /* Links to what is outside are no bytes; two names of a file are one file. */
    assert_int_equal(symlink(in_place("outside"), in_place("w/link")), 0);
    assert_int_equal(link(in_place("w/a/file"), in_place("w/same")), 0);
    assert_false(folder_exceeds(in_place("w"), all + 4096));
    /* A folder without rights for its owner is measured too. */
    assert_int_equal(chmod(in_place("w/a"), 0300), 0);
    assert_true(folder_exceeds(in_place("w"), file - 4096));
    assert_false(folder_exceeds(in_place("nothing"), 0));
}

static void test_folder_that_is_too_deep_is_too_much(void **state)
{
    (void)state;
    folder("deep");
    int at = open(in_place("deep"), O_RDONLY | O_DIRECTORY);
    for (int i = 1; i < FOLDER_DEPTH; i++) {
        assert_int_equal(mkdirat(at, "d", 0700), 0);
        int next = openat(at, "d", O_RDONLY | O_DIRECTORY);
        close(at);
        at = next;
    }
    assert_false(folder_exceeds(in_place("deep"), UINT64_MAX));
    assert_int_equal(mkdirat(at, "d", 0700), 0);
    close(at);
    assert_true(folder_exceeds(in_place("deep"), UINT64_MAX));
}

static void test_bounds_look_waits_for_its_time(void **state)
{
    struct bounds bounds = {.folder = 1};
    struct bounds_watch w;
    char why[BOUNDS_WHY];
    (void)state;
    folder("looked");
    fill("looked/file", 3 << 20);
    bounds_open(&w, &bounds, in_place("looked"), NULL, 1000);
    assert_false(bounds_look(&w, 1000 + BOUNDS_LOOK_MS - 1, why));
    assert_true(bounds_look(&w, 1000 + BOUNDS_LOOK_MS, why));
    assert_non_null(strstr(why, "its conversation's folder takes more than"));
    assert_true(w.due >= 1000 + 2 * BOUNDS_LOOK_MS);
    assert_false(bounds_close(&w, why));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_cgroup_above_a_leaf_that_is_delegated_is_found,
                                        make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_cgroup_that_cannot_be_had_is_told, make_place,
                                        remove_place),
        cmocka_unit_test_setup_teardown(test_cgroup_has_the_bounds_and_tells_what_was_used,
                                        make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_folder_is_measured_as_the_disk_does, make_place,
                                        remove_place),
        cmocka_unit_test_setup_teardown(test_folder_that_is_too_deep_is_too_much, make_place,
                                        remove_place),
        cmocka_unit_test_setup_teardown(test_bounds_look_waits_for_its_time, make_place,
                                        remove_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
