/* Recorded replies of models' servers, in tests/models/streams: what must come out of each stands
 * beside it, however its bytes are cut. */
#include <dirent.h>
#include <stdio.h>

#include "tests/support/t.h"

#include "tests/support/model_tape.h"

static void read_file(const char *name, const char *end, struct buf *out)
{
    char path[512];
    snprintf(path, sizeof path, TESTS_FOLDER "/models/streams/%s%s", name, end);
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s is missing", path);
    for (size_t n = 1; n > 0; out->len += n)
        n = fread(buf_reserve(out, 4096), 1, 4096, file);
    fclose(file);
    buf_putc(out, '\0');
    out->len--;
}

/* A recording names its source, what it was compared with, its API, and, where that is not "think",
 * the tag of thoughts. */
static enum tape_api api_of(const char *name, const struct buf *bytes)
{
    static const char *const apis[] = {": api chat\n", ": api responses\n", ": api anthropic\n"};
    for (size_t i = 0; i < countof(apis); i++)
        if (strstr(bytes->bytes, apis[i]))
            return (enum tape_api)i;
    fail_msg("%s names no api", name);
    return TAPE_CHAT;
}

static void check_recording(const char *name)
{
    static const size_t pieces[] = {1 << 20, 1, 7, 64};
    struct buf bytes = {0}, expected = {0};
    read_file(name, ".sse", &bytes);
    read_file(name, ".events", &expected);
    assert_non_null(strstr(bytes.bytes, ": source http"));
    assert_non_null(strstr(bytes.bytes, "\n: compared "));
    for (size_t i = 0; i < countof(pieces); i++) {
        tape.think_tag = strstr(bytes.bytes, ": think_tag thought\n") ? "thought" : "think";
        struct str seen = tape_play(api_of(name, &bytes), 200, buf_str(&bytes), pieces[i]);
        if (!str_eq(seen, buf_str(&expected)))
            fail_msg("%s, in pieces of %zu:\n%.*s", name, pieces[i], (int)seen.n, seen.p);
    }
    buf_done(&bytes);
    buf_done(&expected);
}

static void test_every_recording_gives_its_events(void **state)
{
    (void)state;
    DIR *folder = opendir(TESTS_FOLDER "/models/streams");
    size_t n = 0;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        size_t length = strlen(entry->d_name);
        char name[256];
        if (length < 5 || strcmp(entry->d_name + length - 4, ".sse") != 0)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(length - 4), entry->d_name);
        check_recording(name);
        n++;
    }
    closedir(folder);
    tape_close();
    assert_true(n >= 60);
}

/* A hostile server could have each of its items moved before all others, for ever. */
static void test_items_of_an_answer_are_bounded(void **state)
{
    struct buf bytes = {0};
    (void)state;
    for (int i = STREAM_MOST_ITEMS; i >= 0; i--)
        buf_putf(&bytes,
                 "data: {\"type\":\"response.output_item.done\",\"output_index\":%d,"
                 "\"item\":{\"type\":\"x\"}}\n\n",
                 i);
    struct str seen = tape_play(TAPE_RESPONSES, 200, buf_str(&bytes), 1 << 16);
    assert_true(str_eq(seen, STR("failed broke_off: an answer has more than 4096 items\n")));
    buf_done(&bytes);
    tape_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_items_of_an_answer_are_bounded),
        cmocka_unit_test(test_every_recording_gives_its_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
