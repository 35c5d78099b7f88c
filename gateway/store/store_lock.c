#include "gateway/store/store_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "proto/buf.h"

/* SQLite locks 0x40000000 to 0x400001ff; no page of the database lies there. */
#define LOCKED_BYTE 0x40000400
#define TRIES 200
#define PAUSE_NS 10000000

static int file_open(const char *dir, const char *name, int flags, char *ret_error)
{
    struct buf path = {0};
    buf_putf(&path, "%s/%s", dir, name);
    int fd = open(path.bytes, flags | O_CLOEXEC, 0600);
    if (fd < 0)
        snprintf(ret_error, STORE_ERROR_TEXT, "cannot open %.180s: %s", path.bytes,
                 strerror(errno));
    buf_done(&path);
    return fd;
}

/* Both kinds belong to the open file, not to the process: they survive when this process closes
 * another descriptor of it, or tries a second time. */
static bool lock_file(int fd, bool shared)
{
    return flock(fd, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0;
}

static bool lock_database(int fd, bool shared)
{
    struct flock byte = {.l_type = shared ? F_RDLCK : F_WRLCK,
                         .l_whence = SEEK_SET,
                         .l_start = LOCKED_BYTE,
                         .l_len = 1};
    return fcntl(fd, F_OFD_SETLK, &byte) == 0;
}

static void read_pid(int fd, char ret[32])
{
    ssize_t n = pread(fd, ret, 31, 0);
    ret[n > 0 ? n : 0] = 0;
    ret[strcspn(ret, "\n")] = 0;
}

/* A gateway was killed while it started a program: its child holds the locks until it has become
 * that program. */
static bool owner_is_gone(int fd)
{
    char pid[32];
    int saved = errno;
    read_pid(fd, pid);
    long owner = strtol(pid, NULL, 10);
    bool gone = owner <= 0 || (kill((pid_t)owner, 0) < 0 && errno == ESRCH);
    errno = saved;
    return gone;
}

static bool lock_both(const struct store_lock *l)
{
    return lock_file(l->file_fd, false) && lock_database(l->database_fd, false);
}

static int write_pid(int fd, const char *dir, char *ret_error)
{
    char pid[32];
    int n = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) == 0 && pwrite(fd, pid, (size_t)n, 0) == n)
        return STORE_OK;
    snprintf(ret_error, STORE_ERROR_TEXT, "cannot write %.160s/lock: %s", dir, strerror(errno));
    return STORE_IO;
}

/* errno is the last lock's.  When the lock file was deleted, its owner's number is unknown. */
static int say_why_not(int fd, const char *dir, char *ret_error)
{
    char pid[32];
    if (errno != EAGAIN && errno != EACCES) {
        snprintf(ret_error, STORE_ERROR_TEXT, "cannot lock the files of %.160s: %s", dir,
                 strerror(errno));
        return STORE_IO;
    }
    bool knows = !owner_is_gone(fd);
    read_pid(fd, pid);
    snprintf(ret_error, STORE_ERROR_TEXT, "data directory %.160s is in use by %s%s", dir,
             knows ? "process " : "another process", knows ? pid : "");
    return STORE_BUSY;
}

int store_lock_take(struct store_lock *l, const char *dir, char ret_error[STORE_ERROR_TEXT])
{
    *l = STORE_LOCK_NONE;
    l->file_fd = file_open(dir, "lock", O_RDWR | O_CREAT, ret_error);
    if (l->file_fd < 0)
        return STORE_IO;
    l->database_fd = file_open(dir, "holdfast.db", O_RDWR | O_CREAT, ret_error);
    if (l->database_fd < 0)
        return STORE_IO;
    for (int i = 0; !lock_both(l); i++) {
        if (i == TRIES || (errno != EAGAIN && errno != EACCES) || !owner_is_gone(l->file_fd))
            return say_why_not(l->file_fd, dir, ret_error);
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
    return write_pid(l->file_fd, dir, ret_error);
}

int store_lock_share(struct store_lock *l, const char *dir, bool *ret_in_use, char ret_pid[32],
                     char ret_error[STORE_ERROR_TEXT])
{
    *l = STORE_LOCK_NONE;
    ret_pid[0] = 0;
    l->file_fd = file_open(dir, "lock", O_RDONLY, ret_error);
    if (l->file_fd < 0 && errno != ENOENT)
        return STORE_IO;
    l->database_fd = file_open(dir, "holdfast.db", O_RDONLY, ret_error);
    if (l->database_fd < 0)
        return STORE_IO;
    if (l->file_fd >= 0)
        read_pid(l->file_fd, ret_pid);
    *ret_in_use =
        (l->file_fd >= 0 && !lock_file(l->file_fd, true)) || !lock_database(l->database_fd, true);
    return STORE_OK;
}

void store_lock_release(struct store_lock *l)
{
    if (l->database_fd >= 0)
        close(l->database_fd);
    if (l->file_fd >= 0)
        close(l->file_fd);
    *l = STORE_LOCK_NONE;
}
