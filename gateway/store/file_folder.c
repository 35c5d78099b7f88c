#include "gateway/store/file_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/base/folders.h"
#include "proto/str.h"

struct file_folder {
    char *dir; /* the data directory */
};

static int folder_error(void)
{
    switch (errno) {
    case ENOENT: return STORE_NOT_FOUND;
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return STORE_FULL;
    default: return STORE_IO;
    }
}

/* --- paths ------------------------------------------------------------------------------------ */

void file_folder_put_path(struct buf *out, const char *dir, const char *blob)
{
    buf_putf(out, "%s/files/blob/%.2s/%s", dir, blob, blob);
}

static char *part_path(const struct file_folder *f, const char *part)
{
    struct buf path = {0};
    buf_putf(&path, "%s/files/part/%s", f->dir, part);
    return buf_take(&path);
}

static char *blob_path(const struct file_folder *f, const char *blob)
{
    struct buf path = {0};
    file_folder_put_path(&path, f->dir, blob);
    return buf_take(&path);
}

/* The folder that holds it. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return xstrdup((struct str){path, (size_t)(slash - path)});
}

static int make_folder_of(const char *path)
{
    char *folder = folder_of(path);
    int status = folders_make(folder) ? STORE_OK : folder_error();
    free(folder);
    return status;
}

static int folder_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int status = fd >= 0 && fsync(fd) == 0 ? STORE_OK : folder_error();
    if (fd >= 0)
        close(fd);
    return status;
}

/* --- bytes ------------------------------------------------------------------------------------ */

static int64_t read_at(const char *path, int64_t at, void *to, size_t n)
{
    size_t got = 0;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return folder_error();
    while (got < n) {
        ssize_t k = pread(fd, (char *)to + got, n - got, (off_t)at + (off_t)got);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0) {
            int status = folder_error();
            close(fd);
            return status;
        }
        if (k == 0)
            break;
        got += (size_t)k;
    }
    close(fd);
    return (int64_t)got;
}

static int write_at(int fd, int64_t at, struct str bytes)
{
    while (bytes.n > 0) {
        ssize_t k = pwrite(fd, bytes.p, bytes.n, (off_t)at);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return folder_error();
        at += k;
        bytes = str_from(bytes, (size_t)k);
    }
    return STORE_OK;
}

/* A sweep may remove an empty group at any moment. */
static int part_open(const char *path)
{
    static const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC;
    int fd = -1;
    for (int i = 0; i < 3 && fd < 0; i++) {
        fd = open(path, flags, 0600);
        if (fd < 0 && (errno != ENOENT || make_folder_of(path) < 0))
            break;
    }
    return fd;
}

/* --- parts ------------------------------------------------------------------------------------ */

static int64_t folder_part_size(void *store, const char *part)
{
    char *path = part_path(store, part);
    struct stat st;
    int64_t size = lstat(path, &st) == 0 ? (int64_t)st.st_size : folder_error();
    free(path);
    return size == STORE_NOT_FOUND ? 0 : size;
}

static int folder_part_write(void *store, unsigned slot, const char *part, int64_t at,
                             struct str bytes)
{
    (void)slot; /* all are at home here */
    char *path = part_path(store, part);
    int fd = part_open(path);
    int status = fd < 0 ? folder_error() : write_at(fd, at, bytes);
    if (fd >= 0 && close(fd) < 0 && status == STORE_OK)
        status = folder_error();
    free(path);
    return status;
}

static int64_t folder_part_read(void *store, const char *part, int64_t at, void *to, size_t n)
{
    char *path = part_path(store, part);
    int64_t got = read_at(path, at, to, n);
    free(path);
    return got;
}

static int part_sync(const char *path)
{
    int fd = part_open(path);
    int status = fd >= 0 && fsync(fd) == 0 ? STORE_OK : folder_error();
    if (fd >= 0)
        close(fd);
    return status;
}

static int folder_part_keep(void *store, unsigned slot, const char *part, const char *blob)
{
    (void)slot;
    char *from = part_path(store, part), *to = blob_path(store, blob);
    char *folder = folder_of(to), *above = folder_of(folder);
    int status = part_sync(from);
    if (status == STORE_OK && access(folder, F_OK) < 0) {
        status = folders_make(folder) ? folder_sync(above) : folder_error();
    }
    if (status == STORE_OK && rename(from, to) < 0)
        status = folder_error();
    if (status == STORE_OK)
        (void)chmod(to, 0400); /* agents that it is lent to read the same file */
    if (status == STORE_OK)
        status = folder_sync(folder);
    free(above);
    free(folder);
    free(from);
    free(to);
    return status;
}

static int folder_drop(char *path)
{
    int status = unlink(path) == 0 || errno == ENOENT ? STORE_OK : folder_error();
    free(path);
    return status;
}

static int folder_part_drop(void *store, const char *part)
{
    return folder_drop(part_path(store, part));
}

static bool is_entry(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static int folder_parts_of(void *store, const char *group, struct file_parts *ret)
{
    char *path = part_path(store, group);
    DIR *dir = opendir(path);
    struct dirent *e;
    struct stat st;
    *ret = (struct file_parts){0};
    int status = dir || errno == ENOENT ? STORE_OK : folder_error();
    while (dir && (e = readdir(dir)) != NULL) {
        if (!is_entry(e) || fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        ret->n++;
        ret->bytes += (int64_t)st.st_size;
    }
    if (dir)
        closedir(dir);
    free(path);
    return status;
}

static void sweep_group(int parts, const char *group, int64_t before_ms, bool starts)
{
    int fd = openat(parts, group, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *e;
    struct stat st;
    while (dir && (e = readdir(dir)) != NULL) {
        bool once = strncmp(e->d_name, FILE_PART_ONCE, sizeof FILE_PART_ONCE - 1) == 0;
        if (is_entry(e) && fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            ((starts && once) || (int64_t)st.st_mtime * 1000 < before_ms))
            (void)unlinkat(fd, e->d_name, 0);
    }
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
    (void)unlinkat(parts, group, AT_REMOVEDIR); /* fails while there is something in it */
}

static int folder_parts_sweep(void *store, int64_t before_ms, bool starts)
{
    char *path = part_path(store, "");
    DIR *dir = opendir(path);
    struct dirent *e;
    int status = dir ? STORE_OK : folder_error();
    while (dir && (e = readdir(dir)) != NULL)
        if (is_entry(e))
            sweep_group(dirfd(dir), e->d_name, before_ms, starts);
    if (dir)
        closedir(dir);
    free(path);
    return status;
}

/* --- blobs ------------------------------------------------------------------------------------ */

static int64_t folder_blob_read(void *store, const char *blob, int64_t at, void *to, size_t n)
{
    char *path = blob_path(store, blob);
    int64_t got = read_at(path, at, to, n);
    free(path);
    return got;
}

static int folder_blob_lend(void *store, const char *blob, const char *path)
{
    char *from = blob_path(store, blob);
    int status = link(from, path) == 0 ? STORE_OK : folder_error();
    free(from);
    return status;
}

static int folder_blob_drop(void *store, const char *blob)
{
    return folder_drop(blob_path(store, blob));
}

static int folder_blobs_list(void *store, unsigned piece,
                             void (*found)(void *arg, const char *blob), void *arg)
{
    const struct file_folder *f = store;
    struct buf path = {0};
    buf_putf(&path, "%s/files/blob/%02x", f->dir, piece);
    DIR *dir = opendir(path.bytes);
    struct dirent *e;
    int status = dir || errno == ENOENT ? STORE_OK : folder_error();
    while (dir && (e = readdir(dir)) != NULL)
        if (is_entry(e) && strlen(e->d_name) == FILE_HASH_LEN)
            found(arg, e->d_name);
    if (dir)
        closedir(dir);
    buf_done(&path);
    return status;
}

/* --- the store -------------------------------------------------------------------------------- */

static void folder_close(void *store)
{
    struct file_folder *f = store;
    if (!f)
        return;
    free(f->dir);
    free(f);
}

void *file_folder_open(const char *dir)
{
    static const char *const folders[] = {"part", "blob"};
    bool good = true;
    for (size_t i = 0; i < countof(folders) && good; i++) {
        struct buf path = {0};
        buf_putf(&path, "%s/files/%s", dir, folders[i]);
        good = folders_make(path.bytes);
        buf_done(&path);
    }
    if (!good)
        return NULL;
    struct file_folder *f = xcalloc(sizeof *f);
    f->dir = xstrdup(str_of(dir));
    return f;
}

const struct file_store_ops file_folder_ops = {
    .name = "folder",
    .part_size = folder_part_size,
    .part_write = folder_part_write,
    .part_read = folder_part_read,
    .part_keep = folder_part_keep,
    .part_drop = folder_part_drop,
    .parts_of = folder_parts_of,
    .parts_sweep = folder_parts_sweep,
    .blob_read = folder_blob_read,
    .lends_at_once = true,
    .blob_lend = folder_blob_lend,
    .blob_drop = folder_blob_drop,
    .blobs_list = folder_blobs_list,
    .close = folder_close,
};
