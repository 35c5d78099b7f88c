#include "gateway/store/data_dir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static char *path_in(const char *dir, const char *name)
{
    struct buf path = {0};
    buf_putf(&path, "%s/%s", dir, name);
    return buf_take(&path);
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
    *ret = (struct data_dir){.held = STORE_LOCK_NONE};
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
    if (store_lock_share(&ret->held, path, &ret->in_use, ret->pid, ret_error) < 0) {
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
    store_lock_release(&d->held);
    free(d->path);
    free(d->database);
    *d = (struct data_dir){.held = STORE_LOCK_NONE};
}
