/* A tree whose parties are stopped at some step. Each parent is a child of the test: a tree takes
 * the signals and the children of its whole process. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gateway/processes/tree.h"
#include "tests/support/t.h"

#define FAILSAFE_S 30 /* then the parent is killed, and its tree with it */

static char *sleeper[] = {"/bin/sleep", "1000", NULL};
static char *missing[] = {"/no/such/program", NULL};
static int n_ended, ended_as;

static void on_ended(struct tree *t, int status)
{
    (void)t;
    n_ended++;
    ended_as = status;
}

static void release_nothing(struct tree *t)
{
    (void)t;
}

/* The program has not gone on yet: it waits for what comes after this. */
static void stop_program(struct tree *t)
{
    kill(t->program, SIGSTOP);
}

static void kill_program(struct tree *t)
{
    kill(t->program, SIGKILL);
}

static void expect_of_parent(int (*parent)(void))
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(parent());
    }
    for (int ms = 0; waitpid(pid, &status, WNOHANG) == 0; ms += 5) {
        if (ms > FAILSAFE_S * 1000)
            kill(pid, SIGKILL);
        (void)poll(NULL, 0, 5);
    }
    assert_int_equal(status, 0);
}

static int start(struct tree *t, char **command, void (*release)(struct tree *t))
{
    *t = (struct tree){.ended = on_ended, .release = release};
    int error = tree_open(t);
    return error ? error : tree_start(t, command, NULL, NULL);
}

static int killed_while_stopped(void)
{
    struct tree t;
    if (start(&t, sleeper, stop_program) != 0)
        return 1;
    tree_kill(&t);
    return n_ended == 1 && WIFSIGNALED(ended_as) && WTERMSIG(ended_as) == SIGKILL ? 0 : 2;
}

static int asked_while_stopped(void)
{
    struct tree t;
    if (start(&t, sleeper, stop_program) != 0)
        return 1;
    tree_ask(&t, false);
    while (tree_reap(&t))
        tree_wait(&t, 1000);
    return n_ended == 1 && WIFSIGNALED(ended_as) && WTERMSIG(ended_as) == SIGTERM ? 0 : 2;
}

static int not_run_after_it_was_stopped(void)
{
    struct tree t;
    if (start(&t, missing, stop_program) != 0 || !t.program)
        return 1;
    kill(t.program, SIGCONT);
    while (tree_reap(&t))
        tree_wait(&t, 1000);
    return n_ended == 1 && t.error == ENOENT ? 0 : 2;
}

static int killed_before_it_runs(void)
{
    struct tree t;
    if (start(&t, sleeper, kill_program) != 0)
        return 1;
    while (tree_reap(&t))
        tree_wait(&t, 1000);
    return n_ended == 1 && WIFSIGNALED(ended_as) && WTERMSIG(ended_as) == SIGKILL ? 0 : 2;
}

static int cannot_be_run(void)
{
    struct tree t;
    int error = start(&t, missing, release_nothing);
    return error == ENOENT && t.program == 0 && !tree_reap(&t) && n_ended == 0 ? 0 : 1;
}

static void test_tree_of_a_program_that_is_stopped_before_it_runs_can_be_killed(void **state)
{
    (void)state;
    expect_of_parent(killed_while_stopped);
}

static void test_tree_of_a_program_that_is_stopped_before_it_runs_can_be_asked(void **state)
{
    (void)state;
    expect_of_parent(asked_while_stopped);
}

static void test_tree_of_a_program_that_dies_before_it_runs_ends(void **state)
{
    (void)state;
    expect_of_parent(killed_before_it_runs);
}

static void test_tree_says_why_a_program_cannot_be_run(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) /* its death may come before its reason is read */
        expect_of_parent(cannot_be_run);
    expect_of_parent(not_run_after_it_was_stopped);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree_of_a_program_that_is_stopped_before_it_runs_can_be_killed),
        cmocka_unit_test(test_tree_of_a_program_that_is_stopped_before_it_runs_can_be_asked),
        cmocka_unit_test(test_tree_of_a_program_that_dies_before_it_runs_ends),
        cmocka_unit_test(test_tree_says_why_a_program_cannot_be_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
