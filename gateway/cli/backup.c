#include "gateway/cli/backup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/store/data_dir.h"
#include "gateway/store/file_check.h"
#include "gateway/store/store_check.h"

/* While it is being made, the copy is FILE.part, beside which SQLite keeps FILE.part-journal.  The
 * process that makes it holds a lock on it, which tells a running backup from the remains of a
 * killed one.  A signal that ends the program removes both files, as a failure does. */
static char *part, *part_journal;
/* The copy of files: FILE.files.part, then FILE.files.  The next backup removes what a signal left
 * of the former. */
static char *files_part, *files;
static int64_t n_files;

static void remove_part(void)
{
    (void)unlink(part_journal);
    (void)unlink(part);
}

static void backup_on_signal(int signal_number)
{
    remove_part();
    (void)signal(signal_number, SIG_DFL);
    (void)raise(signal_number); /* pending until this returns */
}

static void catch_signals(void (*handler)(int))
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < countof(ends); i++)
        (void)signal(ends[i], handler);
}

static int backup_fail(const char *path, const char *why)
{
    fprintf(stderr, "holdfast: %s: %s\n", path, why);
    return 1;
}

static bool sync_path(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC);
    bool good = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return good;
}

/* Gives the complete file its name, but never replaces another file. */
static int publish(const char *file)
{
    char *copy = xstrdup(str_of(file));
    const char *why = NULL;
    if (!sync_path(part, O_RDWR) || renameat2(AT_FDCWD, part, AT_FDCWD, file, RENAME_NOREPLACE) < 0)
        why = strerror(errno);
    else if (!sync_path(dirname(copy), O_RDONLY | O_DIRECTORY))
        why = strerror(errno);
    free(copy);
    return why ? backup_fail(file, why) : 0;
}

static int verify(const char *file)
{
    struct store_check check;
    store_check(part, true, false, &check);
    bool good = check.n_faults == 0;
    if (good)
        printf("%s: %" PRId64 " conversations, %" PRId64 " tasks, %" PRIu64 " events; sound\n",
               file, check.n_conversations, check.n_tasks, check.n_events);
    else
        fprintf(stderr, "holdfast: the copy is not sound, so it was not kept:\n%.*s",
                (int)check.faults.len, check.faults.bytes);
    store_check_done(&check);
    return good ? 0 : 1;
}

static void remind_of_key(const struct data_dir *d)
{
    struct buf path = {0};
    buf_putf(&path, "%s/guest.key", d->path);
    if (access(path.bytes, F_OK) == 0)
        printf("the key that signs guests' tokens is not in it: keep a separate copy of %s\n",
               path.bytes);
    buf_done(&path);
}

/* Between open and lock its owner may have finished, and renamed it. */
static bool is_still_there(int fd)
{
    struct stat opened, named;
    return fstat(fd, &opened) == 0 && lstat(part, &named) == 0 && opened.st_dev == named.st_dev &&
           opened.st_ino == named.st_ino;
}

/* An empty file of ours, locked; -1 when the error was printed. */
static int part_open(void)
{
    struct stat st;
    int fd = open(part, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        backup_fail(part, strerror(errno));
        return -1;
    }
    const char *why = NULL;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        why = errno == EWOULDBLOCK ? "another backup is writing it" : strerror(errno);
    else if (!is_still_there(fd))
        why = "another backup has just finished";
    else if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
             st.st_nlink != 1)
        why = "exists, and no backup of this user left it";
    else if (fchmod(fd, 0600) < 0 || ftruncate(fd, 0) < 0)
        why = strerror(errno);
    if (!why)
        return fd;
    close(fd);
    backup_fail(part, why);
    return -1;
}

/* After the database, so that each file that it names was there; those that were deleted since are
 * taken out of it. */
static int copy_files(const struct data_dir *d, const char *file)
{
    struct buf error = {0};
    file_copy_remove(files_part);
    int status = file_copy(part, d->path, files_part, &n_files, &error);
    if (status == STORE_FULL)
        fprintf(stderr, "holdfast: %s: no room for the copy of files: %s\n", file, error.bytes);
    else if (status < 0)
        fprintf(stderr, "holdfast: cannot copy the files to %s: %s\n", files_part, error.bytes);
    buf_done(&error);
    return status < 0 ? 1 : 0;
}

static int fill(const struct data_dir *d, const char *file)
{
    struct buf error = {0};
    int status = store_copy(d->database, d->is_still, part, &error);
    if (status == STORE_FULL)
        fprintf(stderr, "holdfast: %s: no room for the copy: %s\n", file, error.bytes);
    else if (status < 0)
        fprintf(stderr, "holdfast: cannot copy %s to %s: %s\n", d->database, file, error.bytes);
    buf_done(&error);
    int code = status < 0 ? 1 : copy_files(d, file);
    code = code ? code : verify(file);
    if (code == 0 && n_files > 0 && rename(files_part, files) < 0)
        code = backup_fail(files, strerror(errno));
    code = code ? code : publish(file);
    if (code != 0 && n_files > 0)
        file_copy_remove(files);
    return code;
}

static int backup_copy(const struct data_dir *d, const char *file)
{
    struct stat st;
    if (lstat(file, &st) == 0)
        return backup_fail(file, "exists");
    if (lstat(files, &st) == 0)
        return backup_fail(files, "exists");
    int fd = part_open();
    if (fd < 0)
        return 1;
    catch_signals(backup_on_signal);
    (void)unlink(part_journal); /* of a run that was killed */
    int code = fill(d, file);
    if (code != 0) {
        remove_part();
        file_copy_remove(files_part);
    }
    catch_signals(SIG_DFL);
    close(fd); /* last: SQLite has closed it */
    return code;
}

static char *path_with(const char *file, const char *end)
{
    struct buf path = {0};
    buf_putf(&path, "%s%s", file, end);
    return buf_take(&path);
}

int backup_run(const char *data_dir, const char *file)
{
    struct data_dir d;
    char error[DATA_DIR_ERROR];
    if (!data_dir_look(data_dir, &d, error)) {
        fprintf(stderr, "holdfast: %s\n", error);
        return 1;
    }
    part = path_with(file, ".part");
    part_journal = path_with(file, ".part-journal");
    files = path_with(file, ".files");
    files_part = path_with(file, ".files.part");
    int code = backup_copy(&d, file);
    if (code == 0 && n_files > 0)
        printf("%s: the contents of %" PRId64 " files: restore it as the folder files\n", files,
               n_files);
    if (code == 0)
        remind_of_key(&d);
    free(part);
    free(part_journal);
    free(files);
    free(files_part);
    data_dir_leave(&d);
    return code;
}
