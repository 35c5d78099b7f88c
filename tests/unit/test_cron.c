/* Times that come again, against the C library's own clock and a minute by minute search. */
#include "proto/cron.h"

#include <time.h>

#include "tests/support/t.h"

#define FOLDER "/usr/share/zoneinfo/"

static const char *const zones[] = {
    "Europe/Berlin",       "America/New_York",     "Asia/Kolkata",
    "Australia/Lord_Howe", "America/St_Johns",     "Pacific/Apia",
    "Africa/Casablanca",   "Asia/Tehran",          "Asia/Kathmandu",
    "Antarctica/Troll",    "America/Asuncion",     "Pacific/Chatham",
    "Europe/Dublin",       "America/Scoresbysund", "UTC",
};

static struct tz *zone(const char *name)
{
    char path[128];
    struct buf bytes = {0};
    snprintf(path, sizeof path, FOLDER "%s", name);
    FILE *f = fopen(path, "r");
    if (!f)
        fail_msg("%s: the package tzdata is needed", path);
    for (int c; (c = fgetc(f)) != EOF;)
        buf_putc(&bytes, (char)c);
    fclose(f);
    struct tz *z = tz_read(buf_str(&bytes));
    buf_done(&bytes);
    assert_non_null(z);
    return z;
}

static void use_in_libc(const char *name)
{
    setenv("TZ", name, 1);
    tzset();
}

static int32_t libc_offset(int64_t at)
{
    time_t t = (time_t)at;
    struct tm tm;
    localtime_r(&t, &tm);
    return (int32_t)tm.tm_gmtoff;
}

/* From 1971 to 2099, at random and around each change. */
static void test_tz_offsets_are_those_of_the_library(void **state)
{
    (void)state;
    uint64_t seed = 11;
    for (size_t i = 0; i < countof(zones); i++) {
        struct tz *z = zone(zones[i]);
        use_in_libc(zones[i]);
        int64_t at = 31536000;
        while (at < INT64_C(4070908800)) {
            int64_t until;
            int32_t offset = tz_offset(z, at, &until);
            if (offset != libc_offset(at))
                fail_msg("%s at %lld: %d, not %d", zones[i], (long long)at, offset,
                         libc_offset(at));
            assert_true(until > at);
            if (until < INT64_MAX) {
                assert_int_equal(tz_offset(z, until - 1, &(int64_t){0}), offset);
                assert_int_equal(tz_offset(z, until, &(int64_t){0}), libc_offset(until));
            }
            at += (int64_t)(t_random(&seed) % (40 * 86400)) + 1;
        }
        tz_free(z);
    }
}

static void test_tz_local_times_that_are_skipped_or_come_twice(void **state)
{
    (void)state;
    struct tz *z = zone("Europe/Berlin");
    int64_t spring = day_number(2027, 3, 28) * 86400, autumn = day_number(2027, 10, 31) * 86400;
    assert_int_equal(tz_instant(z, spring + 3600), spring); /* 01:00 is 00:00 UTC */
    assert_int_equal(tz_instant(z, spring + 2 * 3600 + 1800), spring + 3600); /* the jump */
    assert_int_equal(tz_instant(z, spring + 3 * 3600), spring + 3600);
    assert_int_equal(tz_instant(z, autumn + 2 * 3600 + 1800), autumn + 1800); /* the first time */
    assert_int_equal(tz_instant(z, autumn + 3 * 3600), autumn + 2 * 3600);
    tz_free(z);
    z = zone("Pacific/Apia"); /* 30 December 2011 was no day */
    int64_t day = day_number(2011, 12, 30) * 86400;
    assert_int_equal(tz_instant(z, day + 12 * 3600), day + 10 * 3600);
    assert_int_equal(tz_instant(z, day + 86400), day + 10 * 3600);
    tz_free(z);
}

static void test_tz_calendar_is_that_of_the_library(void **state)
{
    (void)state;
    for (int64_t n = -200000; n < 200000; n += 37) {
        time_t t = (time_t)(n * 86400);
        struct tm tm;
        gmtime_r(&t, &tm);
        struct day d = day_of(n);
        assert_int_equal(d.year, tm.tm_year + 1900);
        assert_int_equal(d.month, tm.tm_mon + 1);
        assert_int_equal(d.day, tm.tm_mday);
        assert_int_equal(d.weekday, tm.tm_wday);
        assert_int_equal(day_number(d.year, d.month, d.day), n);
    }
}

static void test_tz_what_is_no_zone_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = {
        "",   "/etc/passwd",     "../passwd", "Europe/../Berlin",     "a//b",
        "a/", "Europe/Berlin\n", ".",         "posix/Europe/./Berlin"};
    for (size_t i = 0; i < countof(names); i++)
        assert_false(tz_name_is_valid(str_of(names[i])));
    for (size_t i = 0; i < countof(zones); i++)
        assert_true(tz_name_is_valid(str_of(zones[i])));
    assert_true(tz_name_is_valid(STR("Etc/GMT+5")));
    assert_null(tz_read(STR("")));
    assert_null(tz_read(STR("TZif")));
    assert_null(
        tz_read(STR("nonsense that is longer than the header of such a file is, at least")));
}

/* Whether a minute of the local clock is meant. */
static bool is_meant(const struct cron *c, const struct tm *tm)
{
    bool day = c->days >> tm->tm_mday & 1, weekday = c->weekdays >> tm->tm_wday & 1;
    bool either = c->any_day || c->any_weekday ? day && weekday : day || weekday;
    return either && (c->months >> (tm->tm_mon + 1) & 1) && (c->hours >> tm->tm_hour & 1) &&
           (c->minutes >> tm->tm_min & 1);
}

/* Minute by minute.  A time that was shown before, within a day, does not count again, unless every
 * hour is meant; where the clock jumps, the minutes that it skips are meant too. */
static int64_t naive_next(const struct cron *c, int64_t after, int64_t until)
{
    for (int64_t at = (after / 60 + 1) * 60; at <= until; at += 60) {
        time_t t = (time_t)at;
        struct tm tm;
        localtime_r(&t, &tm);
        int32_t before = libc_offset(at - 60), now = (int32_t)tm.tm_gmtoff;
        bool every_hour = c->hours == 0xffffff;
        bool meant = is_meant(c, &tm);
        for (int32_t skipped = 60; !every_hour && !meant && skipped <= now - before;
             skipped += 60) {
            time_t s = (time_t)(at + now - skipped);
            struct tm gap;
            gmtime_r(&s, &gap);
            meant = is_meant(c, &gap);
        }
        bool again = false;
        for (int64_t back = 60; meant && !every_hour && back <= 3 * 3600 && !again; back += 60)
            again = at - back + libc_offset(at - back) == at + now;
        if (meant && !again)
            return at;
    }
    return -1;
}

static void put_field(struct buf *out, uint64_t *seed, int min, int max)
{
    unsigned kind = (unsigned)(t_random(seed) % 5);
    int a = min + (int)(t_random(seed) % (uint64_t)(max - min + 1));
    int b = a + (int)(t_random(seed) % (uint64_t)(max - a + 1));
    char text[64];
    if (kind == 0)
        snprintf(text, sizeof text, "*");
    else if (kind == 1)
        snprintf(text, sizeof text, "*/%d", 1 + (int)(t_random(seed) % 12));
    else if (kind == 2)
        snprintf(text, sizeof text, "%d-%d/%d", a, b, 1 + (int)(t_random(seed) % 5));
    else if (kind == 3)
        snprintf(text, sizeof text, "%d,%d", b, a);
    else
        snprintf(text, sizeof text, "%d", a);
    buf_puts(out, text);
    buf_putc(out, ' ');
}

static void test_cron_next_is_that_of_a_search(void **state)
{
    (void)state;
    uint64_t seed = 5;
    for (int round = 0; round < 200; round++) {
        const char *name = zones[t_random(&seed) % countof(zones)];
        struct tz *z = zone(name);
        use_in_libc(name);
        struct buf text = {0};
        put_field(&text, &seed, 0, 59);
        put_field(&text, &seed, 0, 23);
        put_field(&text, &seed, 1, 31);
        put_field(&text, &seed, 1, 12);
        put_field(&text, &seed, 0, 6);
        struct cron c;
        const char *why;
        if (!cron_parse(buf_str(&text), &c, &why))
            fail_msg("%s: %s", text.bytes, why);
        int64_t at = INT64_C(1700000000) + (int64_t)(t_random(&seed) % (6 * 365 * 86400));
        int64_t change; /* every other begins an hour or two before the clock changes */
        (void)tz_offset(z, at, &change);
        if (round % 2 && change < INT64_MAX)
            at = change - (int64_t)(t_random(&seed) % 7200);
        for (int i = 0; i < 4 && at > 0; i++) {
            int64_t want = naive_next(&c, at, at + 8 * 86400), got = cron_next(&c, z, at);
            if (want >= 0 ? got != want : got >= 0 && got <= at + 8 * 86400)
                fail_msg("%s in %s after %lld: %lld, not %lld", text.bytes, name, (long long)at,
                         (long long)got, (long long)want);
            at = got;
        }
        buf_done(&text);
        tz_free(z);
    }
}

static void test_cron_what_is_wrong_is_said(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"", "minute"},
        {"60 * * * *", "minute"},
        {"* 24 * * *", "hour"},
        {"* * 0 * *", "day of"},
        {"* * * 13 *", "month is"},
        {"* * * * 8", "weekday"},
        {"* * * *", "weekday"},
        {"* * * * * *", "more than"},
        {"5-1 * * * *", "minute"},
        {"*/0 * * * *", "minute"},
        {"1,,2 * * * *", "minute"},
        {"1/5 * * * *", "minute"},
        {"@reboot", "minute"},
        {"* * * foo *", "month is"},
        {"1x * * * *", "minute"},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct cron c;
        const char *why = "";
        if (cron_parse(str_of(rows[i][0]), &c, &why) || !strstr(why, rows[i][1]))
            fail_msg("%s: %s", rows[i][0], why);
    }
}

static void test_cron_names_and_words(void **state)
{
    (void)state;
    struct cron a, b;
    const char *why;
    assert_true(cron_parse(STR("0 9 * jan-MAR mon-Fri"), &a, &why));
    assert_true(cron_parse(STR("0 9 * 1-3 1-5"), &b, &why));
    assert_memory_equal(&a, &b, sizeof a);
    assert_true(cron_parse(STR("@weekly"), &a, &why));
    assert_true(cron_parse(STR(" 0\t0 * * 7 "), &b, &why));
    assert_int_equal(a.weekdays, b.weekdays);
    struct tz *utc = tz_utc();
    assert_true(cron_parse(STR("0 0 30 2 *"), &a, &why));
    assert_int_equal(cron_next(&a, utc, 1700000000), -1);
    assert_true(cron_parse(STR("0 0 29 2 *"), &a, &why));
    assert_int_equal(cron_next(&a, utc, day_number(2097, 1, 1) * 86400),
                     day_number(2104, 2, 29) * 86400); /* 2100 has none */
    tz_free(utc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tz_offsets_are_those_of_the_library),
        cmocka_unit_test(test_tz_local_times_that_are_skipped_or_come_twice),
        cmocka_unit_test(test_tz_calendar_is_that_of_the_library),
        cmocka_unit_test(test_tz_what_is_no_zone_is_refused),
        cmocka_unit_test(test_cron_next_is_that_of_a_search),
        cmocka_unit_test(test_cron_what_is_wrong_is_said),
        cmocka_unit_test(test_cron_names_and_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
