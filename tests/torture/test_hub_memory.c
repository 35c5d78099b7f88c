/* Memory runs out at the first, second, … allocation of a whole conversation.
 *
 * Memory whose size a peer chooses comes from try_alloc: a failure is survived, with every promise
 * kept (the witness of hub_world.h sees to it).  All else is small, bounded by limits.h, and
 * aborts: that is as a kill, between any two steps of which test_hub_steps.c finds nothing lost;
 * here it is shown that it is an abort that says so, and nothing worse.
 *
 * The linker puts the wrappers between (--wrap, see tests/CMakeLists.txt). */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/hub_world.h"

#ifdef T_ADDRESS
#define LIVES 1
#define STRIDE 10
#else
#define LIVES 3
#define STRIDE 1
#endif
#define STEPS 240
#define SHORT_STEPS \
    80 /* of a life of which each STRIDE-th allocation fails, in a process of its own */

static uint64_t rng;

static size_t choose(size_t n)
{
    return t_below(&rng, n);
}

/* Allocations of a kind: counted until the world is healed. */
struct allocations {
    unsigned passed, fails_at;
    bool over;
};

static struct allocations peers, all;

static bool fails(struct allocations *of)
{
    return !of->over && ++of->passed == of->fails_at;
}

static void heal(void)
{
    peers.over = all.over = true;
}

static void live(uint64_t seed, size_t steps)
{
    rng = seed;
    world_choose = choose;
    world_heal = heal;
    begin_the_world();
    w.may_be_mute = 1;
    for (size_t i = 0; i < steps; i++) {
        step();
        if (i % 8 == 0)
            list(i / 8 % CLIENTS);
        if (i == steps / 2)
            crash();
    }
    end_the_world();
}

/* --- sizes that a peer chooses ---------------------------------------------------------------- */

void *__real_try_alloc(size_t bytes);
void *__real_try_realloc(void *old, size_t bytes);
void *__wrap_try_alloc(size_t bytes);
void *__wrap_try_realloc(void *old, size_t bytes);

void *__wrap_try_alloc(size_t bytes)
{
    return fails(&peers) ? NULL : __real_try_alloc(bytes);
}

void *__wrap_try_realloc(void *old, size_t bytes)
{
    return fails(&peers) ? NULL : __real_try_realloc(old, bytes);
}

static void test_torture_each_allocation_that_a_peer_sizes_fails(void **state)
{
    unsigned lives = 0;
    (void)state;
    kit_start_may_fail = true;
    for (uint64_t seed = 1; seed <= LIVES; seed++)
        do {
            peers.passed = 0;
            peers.over = false;
            peers.fails_at++;
            live(seed, STEPS);
            lives++;
        } while (peers.passed >= peers.fails_at || (peers.fails_at = 0));
    print_message("%u lives\n", lives);
    assert_true(lives > 50 * LIVES);
    peers.fails_at = 0;
}

/* --- all of them ------------------------------------------------------------------------------ */

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    return fails(&all) ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    return fails(&all) ? NULL : __real_calloc(n, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    return fails(&all) ? NULL : __real_realloc(old, bytes);
}

/* A life in a process of its own: how it ended, what it said last, and how many allocations it
 * had. */
struct end {
    int status;
    unsigned passed;
    char said[512];
};

static struct end live_apart(unsigned fails_at)
{
    struct end end = {0};
    int said[2], passed[2];
    assert_int_equal(pipe(said), 0);
    assert_int_equal(pipe(passed), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(said[1], STDERR_FILENO);
        all = (struct allocations){.fails_at = fails_at};
        kit_start_may_fail = true;
        live(1, SHORT_STEPS);
        _exit(write(passed[1], &all.passed, sizeof all.passed) == sizeof all.passed ? 0 : 1);
    }
    close(said[1]);
    close(passed[1]);
    size_t n = 0;
    for (ssize_t more; n < sizeof end.said - 1; n += (size_t)more)
        if ((more = read(said[0], end.said + n, sizeof end.said - 1 - n)) <= 0)
            break;
    if (read(passed[0], &end.passed, sizeof end.passed) < 0)
        end.passed = 0;
    close(said[0]);
    close(passed[0]);
    assert_int_equal(waitpid(child, &end.status, 0), child);
    return end;
}

static void test_torture_any_other_allocation_that_fails_ends_the_process_and_says_so(void **state)
{
    unsigned survived = 0, ended = 0;
    (void)state;
    struct end whole = live_apart(0);
    assert_int_equal(whole.status, 0);
    for (unsigned n = 1; n <= whole.passed; n += STRIDE) {
        struct end end = live_apart(n);
        if (WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGABRT &&
            strstr(end.said, "holdfast: out of memory"))
            ended++;
        else if (end.status == 0)
            survived++;
        else
            fail_msg("allocation %u: status %x, said: %s", n, (unsigned)end.status, end.said);
    }
    print_message("of %u allocations %u were survived, %u ended the process\n",
                  whole.passed / STRIDE, survived, ended);
    assert_true(survived > 0 && ended > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_torture_each_allocation_that_a_peer_sizes_fails),
        cmocka_unit_test(test_torture_any_other_allocation_that_fails_ends_the_process_and_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
