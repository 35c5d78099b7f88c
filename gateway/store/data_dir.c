#include "gateway/store/data_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/base/log.h"

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
        return S_ISDIR(st.st_mode) ? NULL : "is not a directory";
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

/* --- for its owner alone ---------------------------------------------------------------------- */

/* It contains a store, or nothing: a wrong --data must not close somebody's home directory. */
static bool is_ours_alone(const char *path)
{
    DIR *dir = opendir(path);
    bool has_store = false, has_others = !dir;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        const char *name = entry->d_name;
        has_store = has_store || strcmp(name, "holdfast.db") == 0;
        has_others = has_others || (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
                                    strcmp(name, "lost+found") != 0);
    }
    if (dir)
        closedir(dir);
    return has_store || !has_others;
}

bool data_dir_narrow(const char *path, char ret_error[DATA_DIR_ERROR])
{
    struct stat st;
    char mode[8];
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool good = fd >= 0 && fstat(fd, &st) == 0;
    if (!good) {
        snprintf(ret_error, DATA_DIR_ERROR, "cannot open the data directory %.160s: %s", path,
                 strerror(errno));
    } else if (st.st_mode & DATA_DIR_OTHERS) {
        snprintf(mode, sizeof mode, "%04o", (unsigned)st.st_mode & 07777);
        good = is_ours_alone(path) && fchmod(fd, 0700) == 0;
        if (good)
            log_event(LEVEL_WARN, "store", "data_dir_narrowed", LOG_TEXT("dir", path),
                      LOG_TEXT("was", mode), LOG_TEXT("is", "0700"));
        else
            snprintf(ret_error, DATA_DIR_ERROR,
                     "the data directory %.120s is open to others (%s): chmod 700 it, or name a "
                     "directory in it",
                     path, mode);
    }
    if (fd >= 0)
        close(fd);
    return good;
}
