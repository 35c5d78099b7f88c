/* A keeper that cannot be held is no process of ours any more: neither running nor a zombie. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gateway/processes/keeper.h"
#include "tests/support/t.h"

static char base[] = "/tmp/keeper-spawn-XXXXXX";
static char *env[] = {NULL};

/* Stands for the gateway's binary: it stays until it is killed. */
static void write_self(char ret_path[64])
{
    snprintf(ret_path, 64, "%s/self", base);
    int fd = open(ret_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "#!/bin/sh\nexec sleep 1000\n", 26), 26);
    close(fd);
}

static int spawn(char ret_error[256])
{
    char self[64];
    pid_t pid = 0;
    write_self(self);
    int folder = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(folder >= 0);
    unlinkat(folder, "input", 0);
    int pidfd = keeper_spawn(base, folder, env, self, &pid, ret_error);
    close(folder);
    return pidfd;
}

static void assert_no_child(void)
{
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static void test_keeper_that_is_discarded_is_reaped(void **state)
{
    char error[256] = "";
    (void)state;
    int pidfd = spawn(error);
    assert_true(pidfd >= 0);
    keeper_discard(pidfd);
    assert_int_equal(fcntl(pidfd, F_GETFD), -1);
    assert_no_child();
}

/* From here on pidfd_open says EMFILE. */
static void forbid_pidfd(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EMFILE),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = countof(filter), .filter = filter};
    assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static void test_keeper_without_a_descriptor_is_reaped(void **state)
{
    char error[256] = "";
    (void)state;
    forbid_pidfd();
    assert_int_equal(spawn(error), -1);
    assert_string_equal(error, "cannot start a command: a descriptor: Too many open files");
    assert_no_child();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keeper_that_is_discarded_is_reaped),
        cmocka_unit_test(
            test_keeper_without_a_descriptor_is_reaped), /* last: it cannot be undone */
    };
    if (!mkdtemp(base))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    int folder = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const char *const names[] = {"self", "input", "lock"};
    for (size_t i = 0; i < countof(names); i++)
        unlinkat(folder, names[i], 0);
    close(folder);
    rmdir(base);
    return failed;
}
