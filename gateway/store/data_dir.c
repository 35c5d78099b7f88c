#include "gateway/store/data_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static char *path_in(const char *dir, const char *name)
{
    struct buf path = {0};
    buf_putf(&path, "%s/%s", dir, name);
    return buf_take(&path);
}

static bool look_at_lock(struct data_dir *d, char *ret_error)
{
    char *path = path_in(d->path, "lock");
    d->lock_fd = open(path, O_RDONLY | O_CLOEXEC);
    bool good = d->lock_fd >= 0 || errno == ENOENT; /* a copy has none */
    if (!good)
        snprintf(ret_error, DATA_DIR_ERROR, "cannot read %.180s: %s", path, strerror(errno));
    free(path);
    if (d->lock_fd < 0)
        return good;
    ssize_t n = pread(d->lock_fd, d->pid, sizeof d->pid - 1, 0);
    d->pid[n > 0 ? n : 0] = 0;
    d->pid[strcspn(d->pid, "\n")] = 0;
    d->in_use = flock(d->lock_fd, LOCK_SH | LOCK_NB) < 0;
    return true;
}

/* NULL when it is a directory. */
static const char *why_no_directory(const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0)
        return S_ISDIR(st.st_mode) ? NULL : "is no directory";
    return errno == ENOENT ? "there is no such directory" : strerror(errno);
}

bool data_dir_look(const char *path, struct data_dir *ret, char ret_error[DATA_DIR_ERROR])
{
    struct stat st;
    *ret = (struct data_dir){.lock_fd = -1};
    const char *why = why_no_directory(path);
    if (why) {
        snprintf(ret_error, DATA_DIR_ERROR, "%.180s: %s", path, why);
        return false;
    }
    ret->path = xstrdup(str_of(path));
    ret->database = path_in(path, "holdfast.db");
    if (stat(ret->database, &st) < 0) {
        snprintf(ret_error, DATA_DIR_ERROR, "%.180s: %s", ret->database, strerror(errno));
        data_dir_leave(ret);
        return false;
    }
    if (!look_at_lock(ret, ret_error)) {
        data_dir_leave(ret);
        return false;
    }
    char *log = path_in(path, "holdfast.db-wal");
    ret->is_still = !ret->in_use && (stat(log, &st) < 0 || st.st_size == 0);
    free(log);
    return true;
}

void data_dir_leave(struct data_dir *d)
{
    if (d->lock_fd >= 0)
        close(d->lock_fd);
    free(d->path);
    free(d->database);
    *d = (struct data_dir){.lock_fd = -1};
}
