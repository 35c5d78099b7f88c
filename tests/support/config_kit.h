/* config_kit -- a configuration in a file, read, and its expected faults.
 *
 * Thread:   the test's.
 */
#ifndef TESTS_SUPPORT_CONFIG_KIT_H
#define TESTS_SUPPORT_CONFIG_KIT_H

#include <unistd.h>

#include "gateway/config/config.h"
#include "tests/support/t.h"

static char file[] = "/tmp/holdfast-config-XXXXXX";

static inline int make_file(void **state)
{
    int fd = mkstemp(file);
    (void)state;

    setenv("HOME", "/nonexistent", 1);
    unsetenv("XDG_STATE_HOME");
    return fd < 0 ? -1 : close(fd);
}

static inline int drop_file(void **state)
{
    (void)state;
    return unlink(file);
}

static inline void write_file(const char *json)
{
    FILE *out = fopen(file, "wb");

    assert_non_null(out);
    assert_int_equal(fputs(json, out) < 0, 0);
    assert_int_equal(fclose(out), 0);
}

/* Loads without faults, or fails the test. */
static inline struct config load(const char *json, const struct config_flags *flags)
{
    struct config c;
    struct buf faults = {0};

    if (json)
        write_file(json);
    int n = config_load(json ? file : NULL, flags, &c, &faults);
    if (n > 0)
        print_error("%s: %s", json ? json : "defaults", faults.bytes);
    buf_done(&faults);
    assert_int_equal(n, 0);
    return c;
}

/* The faults of a file, exactly; each is a line. */
static inline void assert_faults_with(const char *json, const struct config_flags *flags,
                                      const char *expected)
{
    struct config c;
    struct buf faults = {0};
    int n_lines = 0;

    write_file(json);
    int n = config_load(file, flags, &c, &faults);
    config_done(&c);
    char *got = faults.len > 0 ? buf_take(&faults) : xstrdup(STR(""));
    for (const char *p = got; (p = strchr(p, '\n')); p++)
        n_lines++;
    bool same = strcmp(got, expected) == 0;
    if (!same)
        print_error("%s\ngot:\n%sexpected:\n%s", json, got, expected);
    free(got);
    assert_true(same);
    assert_int_equal(n, n_lines);
}

static inline void assert_faults(const char *json, const char *expected)
{
    assert_faults_with(json, NULL, expected);
}

#endif
