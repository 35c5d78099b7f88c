/* The scripted agent's actions on files and processes. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/agents/channel.h"
#include "tests/support/agents/script.h"

#define POLL_MS 2

/* The file appears when it is complete. */
static void put_file(const char *path, struct str bytes)
{
    struct buf part = {0};
    buf_putf(&part, "%s.part", path);
    FILE *file = fopen(part.bytes, "w");
    if (!file || fwrite(bytes.p, 1, bytes.n, file) != bytes.n || fclose(file) ||
        rename(part.bytes, path))
        die("cannot write %s", path);
    buf_done(&part);
}

static void put_pid(const char *path)
{
    char pid[16];
    snprintf(pid, sizeof pid, "%d", getpid());
    put_file(path, str_of(pid));
}

/* {"touch": path}: creates it, with our pid in it. */
void touch(node step)
{
    char *path = text(&program, value_of(step));
    put_pid(path);
    free(path);
}

/* {"wait": path}: until that file exists. */
void wait_step(node step)
{
    char *path = text(&program, value_of(step));
    while (access(path, F_OK))
        channel_sleep(POLL_MS);
    free(path);
}

/* {"count": path}: appends one line, in one write: side effects that a test can count. */
void count(node step)
{
    char *path = text(&program, value_of(step));
    struct buf line = {0};
    js_value(&run, js_get(&run, 0, "task_id"), &line);
    buf_putc(&line, '\n');
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0 || write(fd, line.bytes, line.len) != (ssize_t)line.len)
        die("cannot write %s", path);
    close(fd);
    buf_done(&line);
    free(path);
}

static void put_environ(struct buf *out)
{
    js_put_key(out, "environ");
    buf_putc(out, '{');
    for (char **at = environ; *at; at++) {
        char *value = strchr(*at, '='), *key = xstrdup((struct str){*at, (size_t)(value - *at)});
        js_put_field(out, key, str_of(value + 1));
        free(key);
    }
    buf_putc(out, '}');
}

static void put_descriptors(struct buf *out)
{
    DIR *folder = opendir("/proc/self/fd");
    char own[16];
    if (!folder)
        die("cannot list the descriptors");
    snprintf(own, sizeof own, "%d", dirfd(folder));
    js_put_key(out, "fds");
    buf_putc(out, '{');
    for (struct dirent *entry; (entry = readdir(folder));) {
        char target[4096];
        ssize_t n = readlinkat(dirfd(folder), entry->d_name, target, sizeof target);
        if (n > 0 && strcmp(entry->d_name, own) != 0)
            js_put_field(out, entry->d_name, (struct str){target, (size_t)n});
    }
    buf_putc(out, '}');
    closedir(folder);
}

/* {"dump": path}: the run, the lines heard, and this process's environment, descriptors and ids. */
void dump(node step)
{
    char *path = text(&program, value_of(step)), *cwd = getcwd(NULL, 0);
    struct buf out = {0};
    buf_putc(&out, '{');
    js_put_key(&out, "run");
    js_copy(&run, 0, &out);
    js_put_key(&out, "heard");
    for (size_t i = 0; i < n_heard; i++) {
        buf_putc(&out, i == 0 ? '[' : ',');
        js_copy(&heard[i], 0, &out);
    }
    buf_puts(&out, n_heard == 0 ? "[]" : "]");
    put_environ(&out);
    put_descriptors(&out);
    js_put_int(&out, "pid", getpid());
    js_put_int(&out, "pgid", getpgid(0));
    js_put_field(&out, "cwd", str_of(cwd));
    buf_putc(&out, '}');
    put_file(path, buf_str(&out));
    buf_done(&out);
    free(cwd);
    free(path);
}

static _Noreturn void be_grandchild(node step, const char *path)
{
    int null = open("/dev/null", O_RDWR);
    channel_forked();
    if (is_set(step, "setsid"))
        setsid();
    if (is_set(step, "ignore_term"))
        signal(SIGTERM, SIG_IGN);
    dup2(null, STDIN_FILENO);
    if (!is_set(step, "hold_stdout")) {
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
    }
    close_range(3, ~0U, 0);
    put_pid(path);
    for (;;)
        pause();
}

/* {"grandchild": path}: one that writes its pid there and stays.
 * Options: "setsid", "ignore_term", "hold_stdout" (otherwise it has none). */
void grandchild(node step)
{
    char *path = text(&program, value_of(step));
    pid_t pid = fork();
    if (pid == 0)
        be_grandchild(step, path);
    if (pid < 0)
        die("cannot fork");
    free(path);
    wait_step(step);
}
