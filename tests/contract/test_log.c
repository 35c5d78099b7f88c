/* The log's lines: form, escaping, levels, and what is left out of a flood.
 */
#include "gateway/base/log.h"

#include <time.h>
#include <unistd.h>

#include "proto/js.h"
#include "tests/support/t.h"

#define STAMP "ts=2026-03-01T12:00:00.007Z level=info component=ws event=closed"

static struct buf line_of(enum log_format format, const struct log_field *fields)
{
    struct buf out = {0};

    log_line(&out, format, 1772366400007, &(struct log_entry){LEVEL_INFO, "ws", "closed", fields});
    return out;
}

static void assert_line(enum log_format format, const struct log_field *fields,
                        const char *expected)
{
    struct buf out = line_of(format, fields);
    char *text = buf_take(&out);

    if (strcmp(text, expected) != 0)
        print_error("got      %s\nexpected %s\n", text, expected);
    bool same = strcmp(text, expected) == 0;
    free(text);
    assert_true(same);
}

static void test_log_line_in_logfmt(void **state)
{
    (void)state;
    assert_line(FORMAT_LOGFMT, LOG_FIELDS(), STAMP);
    assert_line(FORMAT_LOGFMT, LOG_FIELDS(LOG_INT("conn", 41), LOG_INT("code", -1)),
                STAMP " conn=41 code=-1");
    assert_line(FORMAT_LOGFMT, LOG_FIELDS(LOG_TEXT("why", "gone"), LOG_TEXT("at", "[::1]:80")),
                STAMP " why=gone at=[::1]:80");
    assert_line(FORMAT_LOGFMT, LOG_FIELDS(LOG_TEXT("a", ""), LOG_TEXT("b", NULL)),
                json(STAMP " a='' b=''"));
}

static void test_log_line_escapes_what_peers_wrote(void **state)
{
    (void)state;
    assert_line(FORMAT_LOGFMT,
                LOG_FIELDS(LOG_TEXT("a", "x y"), LOG_TEXT("b", "x=y"), LOG_TEXT("c", "q\"q")),
                STAMP " a=\"x y\" b=\"x=y\" c=\"q\\\"q\"");
    assert_line(FORMAT_LOGFMT, LOG_FIELDS(LOG_TEXT("a", "x\nts=forged"), LOG_TEXT("b", "\x1b[2J")),
                STAMP " a=\"x\\nts=forged\" b=\"\\u001b[2J\"");
    assert_line(FORMAT_LOGFMT,
                LOG_FIELDS(LOG_TEXT("a", "\xc2\x9b\x7f"), LOG_TEXT("b", "h\xc3\xa9")),
                STAMP " a=\"???\" b=\"h\xc3\xa9\"");
    assert_line(FORMAT_LOGFMT, LOG_FIELDS(LOG_TEXT("a", "\xff")), STAMP " a=\"\xef\xbf\xbd\"");
}

static void test_log_line_in_json(void **state)
{
    (void)state;
    assert_line(FORMAT_JSON, LOG_FIELDS(LOG_INT("conn", 41), LOG_TEXT("why", "a \"b\"\n")),
                json("{'ts':'2026-03-01T12:00:00.007Z','level':'info','component':'ws',"
                     "'event':'closed','conn':41,'why':'a \\'b\\'\\n'}"));
}

static void test_log_line_cuts_long_values(void **state)
{
    char text[5000];
    (void)state;

    memset(text, 'a', sizeof text);
    struct buf out =
        line_of(FORMAT_LOGFMT, LOG_FIELDS(LOG_STR("x", ((struct str){text, sizeof text}))));
    size_t len = out.len;
    buf_done(&out);
    assert_int_equal(len, strlen(STAMP) + 3 + LOG_VALUE_MAX);
}

/* The output on stderr while run runs. */
static char *captured(void (*run)(void))
{
    FILE *file = tmpfile();
    int saved = dup(STDERR_FILENO);
    char *text = xcalloc(65536);

    dup2(fileno(file), STDERR_FILENO);
    run();
    dup2(saved, STDERR_FILENO);
    close(saved);
    if (pread(fileno(file), text, 65535, 0) < 0)
        text[0] = '\0';
    (void)fclose(file);
    return text;
}

static void run_levels(void)
{
    log_open(LEVEL_WARN, FORMAT_LOGFMT);
    log_event(LEVEL_INFO, "t", "info");
    log_event(LEVEL_WARN, "t", "warn");
    log_event(LEVEL_ERROR, "t", "error", LOG_INT("n", 1));
    log_open(LEVEL_INFO, FORMAT_LOGFMT);
}

static void test_log_event_below_the_level_is_not_written(void **state)
{
    (void)state;
    char *text = captured(run_levels);
    bool right = !strstr(text, "event=info") &&
                 strstr(text, "level=warn component=t event=warn\n") &&
                 strstr(text, "event=error n=1\n");
    free(text);
    assert_true(right);
}

static void flood(int n)
{
    for (int i = 0; i < n; i++)
        log_event_limited(LEVEL_INFO, "t", "flood", LOG_INT("i", i));
}

static void run_flood(void)
{
    struct timespec second = {.tv_sec = 1, .tv_nsec = 20000000};

    flood(100);
    nanosleep(&second, NULL); /* one more may be written */
    flood(1);
}

static void test_log_event_limited_counts_what_it_leaves_out(void **state)
{
    (void)state;
    char *text = captured(run_flood);
    size_t n_lines = 0, n_left_out = 0;
    for (const char *p = text; (p = strchr(p, '\n')); p++)
        n_lines++;
    for (const char *p = text; (p = strstr(p, "left_out=")); p++)
        n_left_out += strtoul(p + strlen("left_out="), NULL, 10);
    free(text);
    /* The burst and one more; and one for each second that the flood took on a busy machine. */
    assert_in_range(n_lines, LOG_BURST + 1, 2 * LOG_BURST);
    assert_int_equal(n_lines + n_left_out, 101);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log_line_in_logfmt),
        cmocka_unit_test(test_log_line_escapes_what_peers_wrote),
        cmocka_unit_test(test_log_line_in_json),
        cmocka_unit_test(test_log_line_cuts_long_values),
        cmocka_unit_test(test_log_event_below_the_level_is_not_written),
        cmocka_unit_test(test_log_event_limited_counts_what_it_leaves_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
