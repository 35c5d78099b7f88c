#include "gateway/cli/doctor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/auth/guest_key.h"
#include "gateway/base/privilege.h"
#include "gateway/base/secret_line.h"
#include "gateway/store/data_dir.h"
#include "gateway/store/file_check.h"
#include "gateway/store/store_check.h"
#include "gateway/store/store_pg.h"

#define URL_MAX 4096

static void wrong(size_t *n, const char *path, const char *what)
{
    printf("WRONG %s%s%s\n", path, *path ? ": " : "", what);
    ++*n;
}

static void check_mode(const char *path, const struct stat *st, size_t *n)
{
    char what[96];
    if (!(st->st_mode & DATA_DIR_OTHERS))
        return;
    snprintf(what, sizeof what, "other users may use it: chmod %s, it is %04o",
             S_ISDIR(st->st_mode) ? "700" : "600", (unsigned)st->st_mode & 07777);
    wrong(n, path, what);
}

/* For example, root has restored a backup, and the gateway's user cannot open it. */
static void check_owner(const char *path, const struct stat *st, const struct stat *dir, size_t *n)
{
    char what[96];
    if (st->st_uid == dir->st_uid)
        return;
    snprintf(what, sizeof what, "belongs to user %u, its directory to user %u: chown it",
             (unsigned)st->st_uid, (unsigned)dir->st_uid);
    wrong(n, path, what);
}

/* The user of the gateway that has the directory; when none has it, the directory's owner. */
static void check_user(const struct data_dir *d, size_t *n)
{
    struct buf path = {0};
    struct stat st;
    bool by_process = d->in_use && d->pid[0];
    if (by_process)
        buf_putf(&path, "/proc/%s", d->pid);
    else
        buf_puts(&path, d->path);
    if (stat(path.bytes, &st) == 0 && privilege_is_root(st.st_uid))
        wrong(
            n, d->path,
            by_process
                ? "its gateway runs as root: give it a user of its own"
                : "belongs to root: a gateway should have a user of its own, who owns its directory");
    buf_done(&path);
}

static void check_guest_key(const char *path, const struct stat *st, size_t *n)
{
    if (!S_ISREG(st->st_mode) || st->st_size != GUEST_KEY_BYTES)
        wrong(n, path,
              "is not a key of 32 bytes, so guests cannot be served; remove it, and the next "
              "start creates another, but earlier guests lose their identity");
}

static void check_files(const struct data_dir *d, size_t *n)
{
    static const char *const names[] = {"holdfast.db", "holdfast.db-wal", "holdfast.db-shm",
                                        "lock",        "files",           "guest.key"};
    struct stat st, dir;
    bool knows_dir = stat(d->path, &dir) == 0;
    if (knows_dir)
        check_mode(d->path, &dir, n);
    for (size_t i = 0; i < countof(names); i++) {
        struct buf path = {0};
        buf_putf(&path, "%s/%s", d->path, names[i]);
        if (lstat(path.bytes, &st) == 0) {
            check_mode(path.bytes, &st, n);
            if (knows_dir)
                check_owner(path.bytes, &st, &dir, n);
            if (strcmp(names[i], "guest.key") == 0)
                check_guest_key(path.bytes, &st, n);
        } else if (errno != ENOENT) {
            wrong(n, path.bytes, strerror(errno));
        } else if (strcmp(names[i], "guest.key") == 0) {
            printf("there is no guest key: a gateway that serves guests will create one\n");
        }
        buf_done(&path);
    }
}

static void tell_who(const struct data_dir *d)
{
    if (d->in_use)
        printf("%s is in use by process %s\n", d->path, d->pid[0] ? d->pid : "?");
    else
        printf("%s is in use by no gateway%s\n", d->path,
               d->is_still ? "" : ", and the last one was not stopped cleanly");
}

static void tell_database(const struct store_check *c, bool in_use)
{
    printf("schema version %" PRId64 "\n", c->version);
    printf("%" PRId64 " conversations, %" PRId64 " tasks, %" PRIu64 " events in %" PRId64
           " blocks and %" PRId64 " unsealed tails\n",
           c->n_conversations, c->n_tasks, c->n_events, c->n_blocks, c->n_tails);
    if (c->n_files)
        printf("%" PRId64 " files of %" PRId64 " bytes\n", c->n_files, c->file_bytes);
    if (c->n_live)
        printf("%" PRId64 " tasks are live%s\n", c->n_live,
               in_use ? "" : ": the next start ends those that ran, and starts those that waited");
}

static pid_t pid_of(const struct data_dir *d)
{
    long pid = d->in_use ? strtol(d->pid, NULL, 10) : 0;
    return pid > 0 ? (pid_t)pid : getpid();
}

static int doctor_conclude(size_t n, bool full)
{
    if (n)
        printf("%zu thing%s wrong\n", n, n == 1 ? " is" : "s are");
    else
        printf("sound%s\n", full ? "" : " in a quick check; --full reads everything");
    return n ? 1 : 0;
}

static void say_of_server(void *arg, bool is_wrong, const char *sentence)
{
    *(size_t *)arg += is_wrong;
    printf("%s%.*s\n", is_wrong ? "WRONG " : "", (int)strcspn(sentence, "\n"), sentence);
}

int doctor_run_postgres(const char *url_file, bool replicated, bool full)
{
    struct buf url = {0};
    size_t n = 0;
    const char *why = secret_line_read(url_file, URL_MAX, &url);
    buf_putc(&url, 0);
    if (why)
        wrong(&n, url_file, why);
    else
        (void)store_pg_check(&(struct store_pg_options){.url = url.bytes, .replicated = replicated},
                             full, say_of_server, &n);
    secret_line_done(&url);
    return doctor_conclude(n, full);
}

int doctor_run(const char *data_dir, bool full,
               void (*put_bounds)(const void *arg, pid_t gateway, struct buf *out), const void *arg)
{
    struct buf bounds = {0};
    struct data_dir d;
    struct store_check check;
    char error[DATA_DIR_ERROR];
    size_t n = 0;
    if (!data_dir_look(data_dir, &d, error)) {
        wrong(&n, "", error);
        return 1;
    }
    tell_who(&d);
    check_user(&d, &n);
    check_files(&d, &n);
    store_check(d.database, d.is_still, full, &check);
    file_check(d.database, d.is_still, d.path, full, &check);
    tell_database(&check, d.in_use);
    put_bounds(arg, pid_of(&d), &bounds);
    fwrite(bounds.bytes, 1, bounds.len, stdout);
    buf_done(&bounds);
    for (struct str rest = buf_str(&check.faults); rest.n > 0;) {
        const char *newline = memchr(rest.p, '\n', rest.n);
        size_t len = newline ? (size_t)(newline - rest.p) : rest.n;
        printf("WRONG %.*s\n", (int)len, rest.p);
        rest.p += len + (newline != NULL);
        rest.n -= len + (newline != NULL);
    }
    int code = doctor_conclude(n + check.n_faults, full);
    store_check_done(&check);
    data_dir_leave(&d);
    return code;
}
