#include "gateway/processes/folder_size.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK 512 /* bytes: the unit of st_blocks on every file system */

struct walk {
    uint64_t bytes, max;
    dev_t disk;
};

static void count(struct walk *w, const struct stat *st)
{
    uint64_t names = S_ISDIR(st->st_mode) || st->st_nlink < 1 ? 1 : st->st_nlink;
    w->bytes += (uint64_t)st->st_blocks * BLOCK / names;
}

static int open_folder(int at, const char *name, const struct stat *st)
{
    int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
    int fd = openat(at, name, flags);
    if (fd >= 0 || (st->st_mode & S_IRWXU) == S_IRWXU)
        return fd;
    (void)!fchmodat(at, name, (st->st_mode | S_IRWXU) & 07777, 0);
    return openat(at, name, flags);
}

/* Takes fd.  False when the total is too much. */
static bool walk(struct walk *w, int fd, unsigned depth) /* NOLINT(misc-no-recursion): bounded */
{
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;
    bool good = depth < FOLDER_DEPTH;
    if (!dir) {
        if (fd >= 0)
            close(fd);
        return good;
    }
    while (good && (entry = readdir(dir))) {
        struct stat st;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_dev != w->disk)
            continue;
        count(w, &st);
        good = w->bytes <= w->max;
        if (good && S_ISDIR(st.st_mode))
            good = walk(w, open_folder(fd, entry->d_name, &st), depth + 1);
    }
    closedir(dir);
    return good;
}

bool folder_exceeds(const char *path, uint64_t max)
{
    struct walk w = {.max = max};
    struct stat st;
    if (lstat(path, &st) < 0)
        return false;
    w.disk = st.st_dev;
    return !walk(&w, open_folder(AT_FDCWD, path, &st), 0);
}
