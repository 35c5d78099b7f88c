#include "core/resume.h"

#include "tests/support/t.h"

/* Every small case against the rule in words: after is refused beyond head; what was pruned is
 * told; the rest is replayed; nothing missed is live, or done when the task has ended. */
static void test_resume_every_small_case_has_the_plan_of_the_rule(void **state)
{
    (void)state;
    for (uint64_t head = 0; head <= 6; head++)
        for (uint64_t first = 1; first <= head + 1; first++)
            for (uint64_t after = 0; after <= 9; after++)
                for (int ended = 0; ended <= 1; ended++) {
                    struct stream_bounds have = {.first = first, .head = head, .ended = ended};
                    bool misses_kept = false, misses_pruned = false;
                    for (uint64_t seq = after + 1; seq <= head; seq++) {
                        misses_kept = misses_kept || seq >= first;
                        misses_pruned = misses_pruned || seq < first;
                    }
                    enum resume_plan want = after > head    ? RESUME_AHEAD
                                            : misses_pruned ? RESUME_GAP
                                            : misses_kept   ? RESUME_REPLAY
                                            : ended         ? RESUME_DONE
                                                            : RESUME_LIVE;
                    assert_int_equal(resume_decide(after, have), want);
                }
}

static void test_resume_largest_after_does_not_overflow(void **state)
{
    (void)state;
    struct stream_bounds have = {.first = 1, .head = UINT64_MAX, .ended = false};
    assert_int_equal(resume_decide(UINT64_MAX, have), RESUME_LIVE);
    have.head = 5;
    assert_int_equal(resume_decide(UINT64_MAX, have), RESUME_AHEAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resume_every_small_case_has_the_plan_of_the_rule),
        cmocka_unit_test(test_resume_largest_after_does_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
