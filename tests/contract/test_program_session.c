/* With which session a program's next turn goes on. */
#include <stdlib.h>
#include <unistd.h>

#include "gateway/agents/program_session.h"
#include "tests/support/t.h"

#define BEFORE "01M8P46EJQJBYVYJ7EX54W08EP"
#define NOW "01M8P46F2JDHWEH2KCZYV3HPHC"
#define ELSEWHERE "01M8P46GAGQ54SV8G2KM7S7TPN"

static char folder[] = "/tmp/program-session-XXXXXX";

static struct program_session turn_of(const char *task_id)
{
    return (struct program_session){folder, "coder", STR("ann"), STR("c-1"), str_of(task_id)};
}

static bool reads(const char *task_id, struct str turns, const char *id)
{
    struct program_session s = turn_of(task_id);
    struct buf found = {0};
    bool good = program_session_read(&s, turns, &found);
    if (good)
        assert_true(str_eq(buf_str(&found), str_of(id)));
    buf_done(&found);
    return good;
}

static void test_session_is_of_the_history_or_of_the_turn_itself(void **state)
{
    (void)state;
    struct program_session before = turn_of(BEFORE), now = turn_of(NOW);
    assert_false(reads(NOW, STR(BEFORE), "s-1"));
    program_session_write(&before, STR("s-1"));
    assert_true(reads(NOW, STR(ELSEWHERE " " BEFORE), "s-1"));
    assert_true(reads(NOW, STR_NULL, "s-1"));
    assert_false(reads(NOW, STR(ELSEWHERE), "s-1"));
    assert_false(reads(NOW, STR(""), "s-1"));

    program_session_write(&now, STR("s-1")); /* and the gateway dies before anything is noted */
    assert_true(reads(NOW, STR(BEFORE), "s-1"));
    assert_false(reads(ELSEWHERE, STR(BEFORE), "s-1")); /* a turn beside it */

    program_session_forget(&now);
    assert_false(reads(NOW, STR_NULL, "s-1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_session_is_of_the_history_or_of_the_turn_itself)};
    if (!mkdtemp(folder))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    struct buf inner = {0};
    buf_putf(&inner, "%s/sessions", folder);
    bool is_empty = rmdir(inner.bytes) == 0 && rmdir(folder) == 0;
    buf_done(&inner);
    return failed || !is_empty;
}
