/* The API key of a configured server: whole in its header, or a sentence that says where it is
 * wrong. */
#include "gateway/fetch/upstream.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/t.h"

#define LONGEST 16384 /* bytes of a key */
#define VARIABLE "TEST_UPSTREAM_KEY"

static char path[] = "/tmp/upstream-key-XXXXXX";

static void write_file(struct str text)
{
    int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text.p, text.n), text.n);
    close(fd);
}

/* The result: a header, or a sentence. */
static char *opened(const struct config_upstream *from)
{
    struct upstream upstream;
    char error[512] = "";
    struct buf said = {0};
    if (!upstream_open(from, NULL, &upstream, error, sizeof error))
        buf_puts(&said, error);
    for (size_t i = 0; !*error && i < upstream.headers.n; i++)
        if (strncmp(upstream.headers.list[i], "Authorization: ", 15) == 0)
            buf_puts(&said, upstream.headers.list[i]);
    upstream_done(&upstream);
    return buf_take(&said);
}

static char *opened_file(struct str text)
{
    struct config_upstream from = {.api_key_file = path};
    write_file(text);
    return opened(&from);
}

static void expect_file(struct str text, const char *complaint)
{
    char wanted[256];
    char *said = opened_file(text);
    snprintf(wanted, sizeof wanted, "the API key in %s cannot be used: %s", path, complaint);
    assert_string_equal(said, wanted);
    free(said);
}

static void test_key_of_a_file_is_its_first_line(void **state)
{
    static const char *const texts[] = {"sk-1", "sk-1\n", "sk-1\r\n", "sk-1\nsk-2\n"};
    (void)state;
    for (size_t i = 0; i < countof(texts); i++) {
        char *said = opened_file(str_of(texts[i]));
        assert_string_equal(said, "Authorization: Bearer sk-1");
        free(said);
    }
    expect_file(STR(""), "the first line is empty");
    expect_file(STR("\nsk-1\n"), "the first line is empty");
    expect_file(STR("s\0k\0-\0"), "the first line contains a NUL"); /* UTF-16 */
    expect_file(STR("sk 1\n"), "it has characters that a key cannot have");
    expect_file(STR("sk-1\rsk-2\n"), "it has characters that a key cannot have");
    unlink(path);
    struct config_upstream from = {.api_key_file = path};
    char *said = opened(&from);
    assert_non_null(strstr(said, "No such file"));
    free(said);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

/* n characters of a key, and what follows them. */
static struct str long_text(struct buf *to, size_t n, const char *behind)
{
    buf_clear(to);
    for (size_t i = 0; i < n; i++)
        buf_putc(to, 'k');
    buf_puts(to, behind);
    return buf_str(to);
}

static void test_key_is_never_cut(void **state)
{
    static const char *const ends[] = {"", "\n", "\r\n", "\nmore\n"};
    struct buf text = {0};
    (void)state;
    for (size_t i = 0; i < countof(ends); i++) {
        char *said = opened_file(long_text(&text, LONGEST, ends[i]));
        assert_int_equal(strlen(said), strlen("Authorization: Bearer ") + LONGEST);
        free(said);
        expect_file(long_text(&text, LONGEST + 1, ends[i]), "the first line is too long");
        expect_file(long_text(&text, 10 * LONGEST, ends[i]), "the first line is too long");
    }
    buf_done(&text);
}

static void test_key_of_the_environment_is_never_cut(void **state)
{
    char variable[] = VARIABLE;
    struct config_upstream from = {.api_key_env = variable};
    const size_t sizes[] = {0, 1, LONGEST, LONGEST + 1};
    struct buf text = {0};
    (void)state;
    for (size_t i = 0; i < countof(sizes); i++) {
        setenv(VARIABLE, long_text(&text, sizes[i], "").p, 1);
        char *said = opened(&from);
        if (sizes[i] == 0)
            assert_string_equal(said, "the API key in " VARIABLE
                                      " cannot be used: it is empty, or not set");
        else if (sizes[i] > LONGEST)
            assert_string_equal(said, "the API key in " VARIABLE " cannot be used: it is too long");
        else
            assert_int_equal(strlen(said), strlen("Authorization: Bearer ") + sizes[i]);
        free(said);
    }
    buf_done(&text);
    unsetenv(VARIABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_key_of_a_file_is_its_first_line),
        cmocka_unit_test(test_key_is_never_cut),
        cmocka_unit_test(test_key_of_the_environment_is_never_cut),
    };
    int fd = mkstemp(path);
    if (fd < 0)
        return 1;
    close(fd);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
