#include "gateway/agents/acp_files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

bool acp_folder_open(struct acp_folder *f, char *path)
{
    *f = (struct acp_folder){.path = path, .fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (f->fd >= 0)
        return true;
    acp_folder_close(f);
    return false;
}

void acp_folder_close(struct acp_folder *f)
{
    if (f->fd >= 0)
        close(f->fd);
    free(f->path);
    buf_done(&f->lent);
    *f = (struct acp_folder){.fd = -1};
}

static const char *file_fault(void)
{
    switch (errno) {
    case ENOENT: return "there is no such file";
    case EXDEV:
    case ELOOP: return "the file is not in the conversation's folder";
    case EISDIR: return "it is a directory";
    case EACCES:
    case EPERM: return "permission denied";
    case EFBIG: return "the file is too large";
    case ENOSPC: return "no space is left";
    default: return "the file cannot be opened";
    }
}

/* -1 with errno. */
static int file_open(const struct acp_folder *f, const char *path, uint64_t flags)
{
    size_t n = strlen(f->path);
    struct stat st;
    if (strncmp(path, f->path, n) != 0 || path[n] != '/') {
        errno = EXDEV;
        return -1;
    }
    struct open_how how = {.flags = flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
                           .mode = flags & O_CREAT ? 0644 : 0,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};
    const char *below = path + n + strspn(path + n, "/");
    int fd = (int)syscall(SYS_openat2, f->fd, below, &how, sizeof how);
    if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
        close(fd);
        errno = EISDIR;
        return -1;
    }
    return fd;
}

static bool is_lent(const struct acp_folder *f, const char *path)
{
    for (size_t at = 0; at < f->lent.len; at += strlen(f->lent.bytes + at) + 1)
        if (strcmp(f->lent.bytes + at, path) == 0)
            return true;
    return false;
}

static const char *file_read(void *arg, const char *path, struct buf *ret)
{
    int fd = is_lent(arg, path) ? open(path, O_RDONLY | O_CLOEXEC) : file_open(arg, path, O_RDONLY);
    ssize_t n = -1;
    if (fd < 0)
        return file_fault();
    errno = 0;
    while (ret->len <= ACP_FILE && (n = read(fd, buf_reserve(ret, 65536), 65536)) > 0)
        ret->len += (size_t)n;
    if (ret->len > ACP_FILE)
        errno = EFBIG;
    close(fd);
    return errno ? file_fault() : NULL;
}

/* All of it, or an error: what was there is cut off only when there is something to write over. */
static const char *file_write(void *arg, const char *path, struct str content)
{
    int fd = file_open(arg, path, O_WRONLY | O_CREAT);
    bool good = fd >= 0 && ftruncate(fd, 0) == 0;
    while (good && content.n) {
        ssize_t n = write(fd, content.p, content.n);
        good = n > 0;
        if (good)
            content = (struct str){content.p + n, content.n - (size_t)n};
    }
    const char *why = good ? NULL : file_fault();
    if (fd >= 0 && close(fd) < 0 && !why)
        why = file_fault();
    return why;
}

const struct acp_files acp_files_port = {.read = file_read, .write = file_write};
