/* The audit's file: lines, rotation, reopening; a disk that is full for a while, and one that stays
 * so. */
#include "gateway/base/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "gateway/base/log.h"
#include "proto/js.h"
#include "tests/support/t.h"

#define NOW 1772366400007 /* 2026-03-01T12:00:00.007Z */

static char folder[64], path[96];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/test_audit.XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/audit.log", folder);
    return 0;
}

static int remove_folder(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static struct buf contents(const char *name)
{
    struct buf text = {0};
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : 1;
    while (n > 0) {
        n = read(fd, buf_reserve(&text, 65536), 65536);
        text.len += n > 0 ? (size_t)n : 0;
    }
    if (fd >= 0)
        close(fd);
    buf_putc(&text, 0);
    text.len--;
    return text;
}

static struct audit *open_audit(uint64_t rotate_bytes, uint32_t keep)
{
    struct audit *a = audit_open(&(struct audit_options){path, rotate_bytes, keep});
    assert_non_null(a);
    return a;
}

static void say_event(struct audit *a, const char *event)
{
    audit_write(a, NOW,
                &(struct audit_line){.event = event, .owner = STR("alice"), .outcome = "ok"});
}

/* Waits for the thread: all lines are written or lost. */
static void wait_for(struct audit *a, uint64_t lines)
{
    const struct timespec tick = {0, 1000000};
    for (;;) {
        struct audit_stats stats = audit_stats(a);
        if (stats.written + stats.lost >= lines)
            return;
        nanosleep(&tick, NULL);
    }
}

static void test_line_has_what_there_is_and_is_escaped(void **state)
{
    (void)state;
    struct audit *a = open_audit(0, 1);
    audit_write(a, NOW,
                &(struct audit_line){.event = "chat",
                                     .outcome = "ok",
                                     .owner = STR("a\"b\n"),
                                     .from = STR("192.0.2.1"),
                                     .conversation = STR("c-1"),
                                     .task = STR("t"),
                                     .agent = STR("assistant")});
    say_event(a, "tasks");
    audit_close(a);
    struct buf text = contents(path);
    assert_string_equal(
        text.bytes,
        "{\"ts\":\"2026-03-01T12:00:00.007Z\",\"event\":\"chat\",\"owner\":\"a\\\"b\\n\","
        "\"from\":\"192.0.2.1\",\"conversation\":\"c-1\",\"task\":\"t\","
        "\"agent\":\"assistant\",\"outcome\":\"ok\"}\n"
        "{\"ts\":\"2026-03-01T12:00:00.007Z\",\"event\":\"tasks\",\"owner\":\"alice\","
        "\"outcome\":\"ok\"}\n");
    buf_done(&text);
}

static void test_none_is_no_audit(void **state)
{
    (void)state;
    say_event(NULL, "chat");
    audit_reopen(NULL);
    audit_close(NULL);
    assert_int_equal(audit_stats(NULL).written, 0);
}

static void test_files_are_renamed_at_their_size(void **state)
{
    (void)state;
    static const char *const events[] = {"a", "b", "c", "d"};
    struct audit *a = open_audit(90, 2); /* a line has 72 bytes */
    for (size_t i = 0; i < countof(events); i++) {
        say_event(a, events[i]);
        wait_for(a, i + 1);
    }
    audit_close(a);
    char name[128];
    const struct {
        const char *end, *event;
    } files[] = {{"", "\"d\""}, {".1", "\"c\""}, {".2", "\"b\""}};
    for (size_t i = 0; i < countof(files); i++) {
        snprintf(name, sizeof name, "%s%s", path, files[i].end);
        struct buf text = contents(name);
        assert_non_null(strstr(text.bytes, files[i].event));
        assert_ptr_equal(strchr(text.bytes, '\n') + 1, text.bytes + text.len);
        buf_done(&text);
    }
    snprintf(name, sizeof name, "%s.3", path);
    assert_int_equal(access(name, F_OK), -1);
}

static void test_file_that_was_renamed_is_opened_again(void **state)
{
    (void)state;
    char moved[128];
    snprintf(moved, sizeof moved, "%s.moved", path);
    struct audit *a = open_audit(0, 1);
    say_event(a, "before");
    wait_for(a, 1);
    assert_int_equal(rename(path, moved), 0);
    audit_reopen(a);
    say_event(a, "after");
    audit_close(a);
    struct buf old = contents(moved), fresh = contents(path);
    assert_non_null(strstr(old.bytes, "before"));
    assert_null(strstr(old.bytes, "after"));
    assert_non_null(strstr(fresh.bytes, "after"));
    buf_done(&old);
    buf_done(&fresh);
}

static void set_disk(rlim_t bytes)
{
    struct rlimit now;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &now), 0);
    now.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
}

/* Each line is JSON; returns how many were lost, by those that say so. */
static uint64_t read_lines(uint64_t *ret_n)
{
    struct buf text = contents(path);
    struct js_doc doc = {0};
    uint64_t lost = 0;
    *ret_n = 0;
    for (char *line = text.bytes, *end; (end = strchr(line, '\n')); line = end + 1) {
        int64_t n;
        assert_true(js_parse(&doc, line, (size_t)(end - line), JS_CLIENT));
        uint32_t at = js_get(&doc, 0, "lines");
        if (at && js_int(&doc, at, &n))
            lost += (uint64_t)n;
        *ret_n += !at;
    }
    js_done(&doc);
    buf_done(&text);
    return lost;
}

static void test_full_disk_is_waited_for_and_what_is_lost_is_told(void **state)
{
    (void)state;
    const uint64_t many = 2 * AUDIT_BUFFER / 72;
    struct audit *a = open_audit(0, 1);
    set_disk(40); /* the first line is cut, and continued later */
    for (uint64_t i = 0; i < many; i++)
        say_event(a, "x");
    assert_true(audit_stats(a).lost > 0);
    assert_int_equal(audit_stats(a).written, 0);
    set_disk(RLIM_INFINITY);
    wait_for(a, many);
    say_event(a, "y");
    struct audit_stats stats = audit_stats(a);
    audit_close(a);
    uint64_t n, lost = read_lines(&n);
    assert_int_equal(lost, stats.lost);
    assert_int_equal(n, many + 1 - lost);
}

static void test_stop_does_not_wait_for_a_full_disk(void **state)
{
    (void)state;
    struct audit *a = open_audit(0, 1);
    set_disk(0);
    say_event(a, "x");
    audit_close(a);
    set_disk(RLIM_INFINITY);
    struct buf text = contents(path);
    assert_int_equal(text.len, 0);
    buf_done(&text);
}

static void test_what_is_no_file_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"/nowhere/at/all", "/dev/null", "/tmp"};
    for (size_t i = 0; i < countof(bad); i++)
        assert_null(audit_open(&(struct audit_options){bad[i], 0, 1}));
    assert_int_equal(symlink("/tmp/elsewhere", path), 0);
    assert_null(audit_open(&(struct audit_options){path, 0, 1}));
    assert_int_equal(errno, ELOOP);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    signal(SIGXFSZ, SIG_IGN); /* as the gateway does */
    log_open(LEVEL_ERROR, FORMAT_LOGFMT);
    const struct CMUnitTest tests[] = {
        TEST(test_line_has_what_there_is_and_is_escaped),
        TEST(test_none_is_no_audit),
        TEST(test_files_are_renamed_at_their_size),
        TEST(test_file_that_was_renamed_is_opened_again),
        TEST(test_full_disk_is_waited_for_and_what_is_lost_is_told),
        TEST(test_stop_does_not_wait_for_a_full_disk),
        TEST(test_what_is_no_file_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
