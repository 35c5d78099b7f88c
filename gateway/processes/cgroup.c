#include "gateway/processes/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- its files -------------------------------------------------------------------------------- */

static bool read_text(int at, const char *name, char *ret, size_t size)
{
    int fd = openat(at, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, ret, size - 1);
    if (fd >= 0)
        close(fd);
    ret[n > 0 ? n : 0] = 0;
    return n >= 0;
}

static bool write_text(int at, const char *name, const char *text)
{
    int fd = openat(at, name, O_WRONLY | O_CLOEXEC);
    size_t n = strlen(text);
    bool good = fd >= 0 && write(fd, text, n) == (ssize_t)n;
    int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
    return good;
}

static bool write_number(int at, const char *name, uint64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, number);
    return write_text(at, name, text);
}

/* For lines "key number". */
static uint64_t number_of(const char *text, const char *key)
{
    size_t n = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, n) == 0 && line[n] == ' ')
            return strtoull(line + n + 1, NULL, 10);
    }
    return 0;
}

static bool has_word(const char *text, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = text; (at = strstr(at, word)); at += n)
        if ((at == text || at[-1] == ' ') && (!at[n] || at[n] == ' ' || at[n] == '\n'))
            return true;
    return false;
}

/* --- which may be had ------------------------------------------------------------------------- */

/* The part after "0::" in PROC/PID/cgroup. */
static bool own_path(const char *proc, pid_t pid, char ret[PATH_MAX])
{
    char path[PATH_MAX], line[PATH_MAX];
    snprintf(path, sizeof path, "%s/%d/cgroup", proc, (int)pid);
    FILE *file = fopen(path, "re");
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file))
        found = strncmp(line, "0::/", 4) == 0;
    if (file)
        fclose(file);
    if (!found)
        return false;
    line[strcspn(line, "\n")] = 0;
    snprintf(ret, PATH_MAX, "%s", line + 3);
    return true;
}

/* The mount point of version 2, as a whole. */
static bool mount_point(const char *proc, pid_t pid, char ret[PATH_MAX])
{
    char path[PATH_MAX], line[2 * PATH_MAX], root[PATH_MAX], at[PATH_MAX];
    snprintf(path, sizeof path, "%s/%d/mountinfo", proc, (int)pid);
    FILE *file = fopen(path, "re");
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file))
        found = strstr(line, " - cgroup2 ") &&
                sscanf(line, "%*s %*s %*s %4095s %4095s", root, at) == 2 && strcmp(root, "/") == 0;
    if (file)
        fclose(file);
    if (found)
        snprintf(ret, PATH_MAX, "%s", at);
    return found;
}

/* NULL when groups can be created in it. */
static const char *why_not(const char *parent, uid_t user)
{
    char text[4096];
    struct stat st;
    int dir = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const char *why = NULL;
    if (dir < 0 || fstat(dir, &st) < 0)
        why = "the group above the gateway's cannot be read";
    else if (st.st_uid != user)
        why = "the group above the gateway's is not delegated to its user";
    else if (!read_text(dir, "cgroup.controllers", text, sizeof text) ||
             !has_word(text, "memory") || !has_word(text, "pids"))
        why = "the group above the gateway's does not have the memory and pids controllers";
    else if (!read_text(dir, "cgroup.procs", text, sizeof text) || text[0])
        why = "the group above the gateway's has processes of its own";
    if (dir >= 0)
        close(dir);
    return why;
}

static bool refuse(char ret_why[128], const char *why)
{
    snprintf(ret_why, 128, "%s", why);
    return false;
}

bool cgroup_find(const char *proc, pid_t pid, char ret_parent[PATH_MAX], char ret_why[128])
{
    char own[PATH_MAX], at[PATH_MAX], path[2 * PATH_MAX];
    struct stat st;
    if (!own_path(proc, pid, own) || !mount_point(proc, pid, at))
        return refuse(ret_why, "there are no cgroups of version 2");
    if (!own[1])
        return refuse(ret_why, "the gateway's group has none above it");
    *strrchr(own, '/') = 0;
    snprintf(path, sizeof path, "%s/%d", proc, (int)pid);
    if (stat(path, &st) < 0)
        return refuse(ret_why, "there is no such process");
    int n = snprintf(path, sizeof path, "%s%s", at, own);
    if (n < 0 || n >= PATH_MAX)
        return refuse(ret_why, "its path is too long");
    const char *why = why_not(path, st.st_uid);
    if (why)
        return refuse(ret_why, why);
    memcpy(ret_parent, path, (size_t)n + 1);
    return true;
}

bool cgroup_enable(const char *parent)
{
    char text[1024];
    int dir = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool good = dir >= 0 && ((read_text(dir, "cgroup.subtree_control", text, sizeof text) &&
                              has_word(text, "memory") && has_word(text, "pids")) ||
                             write_text(dir, "cgroup.subtree_control", "+memory +pids"));
    int error = errno;
    if (dir >= 0)
        close(dir);
    errno = error;
    return good;
}

/* --- one of them ------------------------------------------------------------------------------ */

bool cgroup_limit(int group, uint64_t memory, uint64_t processes)
{
    if (memory &&
        (!write_number(group, "memory.max", memory) || !write_text(group, "memory.oom.group", "1")))
        return false;
    if (memory) /* without swap there is no such file */
        (void)write_text(group, "memory.swap.max", "0");
    return !processes || write_number(group, "pids.max", processes);
}

int cgroup_make(const char *parent, const char *name, uint64_t memory, uint64_t processes)
{
    int dir = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC), group = -1;
    if (dir >= 0 && (mkdirat(dir, name, 0755) == 0 || errno == EEXIST))
        group = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = errno;
    if (group >= 0 && !cgroup_limit(group, memory, processes)) {
        error = errno;
        close(group);
        group = -1;
        unlinkat(dir, name, AT_REMOVEDIR);
    }
    if (dir >= 0)
        close(dir);
    errno = error;
    return group;
}

bool cgroup_enter(int group)
{
    return write_text(group, "cgroup.procs", "0");
}

bool cgroup_ran_out(int group)
{
    char text[1024];
    return read_text(group, "memory.events", text, sizeof text) && number_of(text, "oom_kill") > 0;
}

uint64_t cgroup_cpu_s(int group)
{
    char text[1024];
    return read_text(group, "cpu.stat", text, sizeof text) ? number_of(text, "usage_usec") / 1000000
                                                           : 0;
}

void cgroup_remove(const char *parent, const char *name)
{
    int dir = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return;
    unlinkat(dir, name, AT_REMOVEDIR);
    close(dir);
}
