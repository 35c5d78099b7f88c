#include "gateway/files/workspace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gateway/files/files_private.h"

struct entry {
    char *name;
    int64_t size, modified_ms;
    bool is_folder;
};

struct workspace_look {
    struct job job;
    char *folder, *path;
    workspace_fn done;
    void *arg;
    int status;
    struct workspace_found found;
    struct buf json;
};

/* --- in the pool ------------------------------------------------------------------------------ */

static int open_beneath(const char *folder, const char *path)
{
    struct open_how how = {.flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
                                      RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};
    int base = open(folder, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int fd = base < 0 ? -1 : (int)syscall(SYS_openat2, base, *path ? path : ".", &how, sizeof how);
    if (base >= 0)
        close(base);
    return fd;
}

static int64_t modified_ms(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000;
}

static int compare_entries(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

static void put_entries(const struct entry *list, size_t n, struct buf *out)
{
    buf_putc(out, '[');
    for (size_t i = 0; i < n; i++) {
        buf_puts(out, i ? ",{" : "{");
        js_put_field(out, "name", str_of(list[i].name));
        js_put_field(out, "kind", list[i].is_folder ? STR("folder") : STR("file"));
        if (!list[i].is_folder)
            js_put_int(out, "size", list[i].size);
        js_put_int(out, "modified_at", list[i].modified_ms);
        buf_putc(out, '}');
    }
    buf_putc(out, ']');
}

/* Links, devices, sockets and names that are no UTF-8 cannot be fetched: they are not listed. */
static bool read_entry(int fd, const struct dirent *e, struct entry *ret)
{
    struct stat st;
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
        !utf8_valid(str_of(e->d_name)) || fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)))
        return false;
    *ret = (struct entry){.name = xstrdup(str_of(e->d_name)),
                          .size = (int64_t)st.st_size,
                          .modified_ms = modified_ms(&st),
                          .is_folder = S_ISDIR(st.st_mode)};
    return true;
}

static void list_folder(struct workspace_look *look, int fd)
{
    struct entry *list = xcalloc(WORKSPACE_ENTRIES * sizeof *list), one;
    size_t n = 0;
    DIR *dir = fdopendir(fd);
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        if (!read_entry(dirfd(dir), e, n < WORKSPACE_ENTRIES ? &list[n] : &one))
            continue;
        if (n == WORKSPACE_ENTRIES) {
            free(one.name);
            look->found.more = true;
            break;
        }
        n++;
    }
    if (dir)
        closedir(dir);
    else
        close(fd);
    qsort(list, n, sizeof *list, compare_entries);
    put_entries(list, n, &look->json);
    for (size_t i = 0; i < n; i++)
        free(list[i].name);
    free(list);
}

static void look_run(struct job *job)
{
    struct workspace_look *look = container_of(job, struct workspace_look, job);
    struct stat st;
    int fd = open_beneath(look->folder, look->path);
    look->status = STORE_NOT_FOUND;
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        look->status = STORE_OK;
        list_folder(look, fd);
    } else if (S_ISREG(st.st_mode)) {
        look->status = STORE_OK;
        look->found.fd = fd;
        look->found.size = (int64_t)st.st_size;
        snprintf(look->found.etag, sizeof look->found.etag, "\"w%" PRIx64 "-%" PRIx64 "\"",
                 (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec,
                 (uint64_t)st.st_size);
    } else {
        close(fd);
    }
}

/* --- on the loop ------------------------------------------------------------------------------ */

static void look_ran(struct job *job)
{
    struct workspace_look *look = container_of(job, struct workspace_look, job);
    look->found.json = buf_str(&look->json);
    if (look->done)
        look->done(look->arg, look->status, &look->found);
    else if (look->found.fd >= 0)
        close(look->found.fd);
    buf_done(&look->json);
    free(look->folder);
    free(look->path);
    free(look);
}

struct workspace_look *workspace_look(struct files *f, struct str owner, struct str conversation_id,
                                      struct str path, workspace_fn done, void *arg)
{
    struct buf folder = {0};
    char name[FILE_HASH_LEN + 1];
    if (f->closing || !f->workspaces)
        return NULL;
    struct workspace_look *look = xcalloc(sizeof *look);
    f->name_workspace(owner, conversation_id, name);
    buf_putf(&folder, "%s/%s", f->workspaces, name);
    look->folder = buf_take(&folder);
    look->path = xstrdup(path);
    look->done = done;
    look->arg = arg;
    look->found.fd = -1;
    look->job.run = look_run;
    look->job.done = look_ran;
    files_job(f, &look->job);
    return look;
}

void workspace_forget(struct workspace_look *look)
{
    if (look)
        look->done = NULL;
}
