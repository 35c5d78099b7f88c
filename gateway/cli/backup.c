#include "gateway/cli/backup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/store/data_dir.h"
#include "gateway/store/store_check.h"

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

/* Gives the complete file its name, and never somebody else's. */
static int publish(const char *part, const char *file)
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

static int verify(const char *part, const char *file)
{
    struct store_check check;
    store_check(part, true, false, &check);
    bool good = check.n_faults == 0;
    if (good)
        printf("%s: %" PRId64 " conversations, %" PRId64 " tasks, %" PRIu64 " events; sound\n",
               file, check.n_conversations, check.n_tasks, check.n_events);
    else
        fprintf(stderr, "holdfast: the copy is not sound, and so is not kept:\n%.*s",
                (int)check.faults.len, check.faults.bytes);
    store_check_done(&check);
    return good ? 0 : 1;
}

static void remind_of_key(const struct data_dir *d)
{
    struct buf path = {0};
    buf_putf(&path, "%s/guest.key", d->path);
    if (access(path.bytes, F_OK) == 0)
        printf("the key that signs the tokens of guests is not in it: keep a copy of %s apart\n",
               path.bytes);
    buf_done(&path);
}

static int backup_copy(const struct data_dir *d, const char *part, const char *file)
{
    struct buf error = {0};
    struct stat st;
    if (lstat(file, &st) == 0)
        return backup_fail(file, "exists");
    int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return backup_fail(part, errno == EEXIST
                                     ? "exists: another backup runs, or one was cut off and "
                                       "this is to be removed"
                                     : strerror(errno));
    close(fd);
    int code = 0;
    if (!store_copy(d->database, d->is_still, part, &error))
        code = backup_fail(d->database, error.bytes);
    if (code == 0)
        code = verify(part, file);
    if (code == 0)
        code = publish(part, file);
    if (code != 0)
        (void)unlink(part);
    buf_done(&error);
    return code;
}

int backup_run(const char *data_dir, const char *file)
{
    struct data_dir d;
    struct buf part = {0};
    char error[DATA_DIR_ERROR];
    if (!data_dir_look(data_dir, &d, error)) {
        fprintf(stderr, "holdfast: %s\n", error);
        return 1;
    }
    buf_putf(&part, "%s.part", file);
    int code = backup_copy(&d, part.bytes, file);
    if (code == 0)
        remind_of_key(&d);
    buf_done(&part);
    data_dir_leave(&d);
    return code;
}
