/* Files that are lent to agents: DIR/files/task/TASK/N/NAME, N being the part's place. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/task.h"
#include "gateway/base/folders.h"
#include "gateway/base/log.h"
#include "gateway/files/files_private.h"
#include "gateway/files/save.h"
#include "proto/parts.h"

#define GONE_FILE "a file of the message is not there any more"
#define UNREAD_FILE "a file of the message cannot be read"

/* Blobs that have to be fetched, and where to. */
struct lending {
    struct job job;
    struct lent_blob {
        char blob[FILE_HASH_LEN + 1];
        char *path;
    } * list;
    size_t n;
    char task_id[TASK_ID_LEN + 1];
    int status;
    lender_lent done; /* NULL: it was dropped */
    void *user;
};

static void put_folder(struct buf *out, const struct files *f, struct str task_id)
{
    buf_putf(out, "%s/%.*s", f->dir, (int)task_id.n, task_id.p);
}

/* Whether there is one, appended with a NUL. */
static bool get_member(const struct js_doc *doc, uint32_t part, const char *name, struct buf *out)
{
    uint32_t node = js_get(doc, part, name);
    if (node)
        js_value(doc, node, out);
    buf_putc(out, 0);
    out->len--;
    return node != 0;
}

static int write_inline(const char *path, struct str base64)
{
    struct buf bytes = {0};
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
    bool good = fd >= 0 && base64_read(base64, &bytes) &&
                write(fd, bytes.bytes ? bytes.bytes : "", bytes.len) == (ssize_t)bytes.len;
    if (fd >= 0 && close(fd) < 0)
        good = false;
    buf_done(&bytes);
    return good ? STORE_OK : STORE_IO;
}

static void lending_add(struct lending *l, const char *blob, const char *path)
{
    l->list = xrealloc(l->list, (l->n + 1) * sizeof *l->list);
    struct lent_blob *to = &l->list[l->n++];
    memcpy(to->blob, blob, sizeof to->blob);
    to->path = xstrdup(str_of(path));
}

static int lend_part(struct files *f, const struct js_doc *doc, uint32_t part, struct str owner,
                     const char *path, struct lending *later)
{
    char blob[FILE_HASH_LEN + 1];
    struct buf value = {0};
    int status;
    if (get_member(doc, part, "data", &value)) {
        status = write_inline(path, buf_str(&value));
    } else {
        buf_clear(&value);
        (void)get_member(doc, part, "sha256", &value);
        files_hash(owner, buf_str(&value), blob);
        status = f->ops->lends_at_once ? f->ops->blob_lend(f->store, blob, path) : STORE_OK;
        if (!f->ops->lends_at_once)
            lending_add(later, blob, path);
    }
    buf_done(&value);
    return status;
}

/* TASK/N/NAME, whose folder is made. */
static bool make_path(const struct files *f, const struct js_doc *doc, uint32_t part,
                      struct str task_id, size_t n, struct buf *path)
{
    struct buf name = {0};
    put_folder(path, f, task_id);
    buf_putf(path, "/%zu", n);
    bool good = folders_make(path->bytes);
    bool named = get_member(doc, part, "name", &name) && name.len > 0 &&
                 strcmp(name.bytes, ".") != 0 && strcmp(name.bytes, "..") != 0;
    buf_putf(path, "/%s", named ? name.bytes : "file");
    buf_done(&name);
    return good;
}

static const char *why_not_lent(int status)
{
    return status == STORE_OK ? NULL : status == STORE_NOT_FOUND ? GONE_FILE : UNREAD_FILE;
}

static void lending_free(struct lending *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->list[i].path);
    free(l->list);
    free(l);
}

static void lending_run(struct job *job)
{
    struct lending *l = container_of(job, struct lending, job);
    for (size_t i = 0; i < l->n && l->status == STORE_OK; i++)
        l->status = job->files->ops->blob_lend(job->files->store, l->list[i].blob, l->list[i].path);
}

/* When nobody waits for them, their task may be over, and its folder was removed before. */
static void lending_ran(struct job *job)
{
    struct lending *l = container_of(job, struct lending, job);
    if (l->status < 0)
        job->files->stats.failures++;
    if (l->done)
        l->done(l->user, why_not_lent(l->status));
    else
        files_return(job->files, str_of(l->task_id));
    lending_free(l);
}

void files_lend_drop(struct lending *lending)
{
    if (lending)
        lending->done = NULL;
}

static int lend_parts(struct files *f, struct str owner, struct str task_id,
                      const struct js_doc *doc, struct buf *out, struct lending *later)
{
    int status = STORE_OK;
    size_t n = 0;
    buf_putc(out, '[');
    for (uint32_t i = js_first(doc, 0); status == STORE_OK && i < js_end(doc, 0);
         i = js_next(doc, i), n++) {
        struct buf path = {0};
        bool is_file = js_is(doc, js_get(doc, i, "type"), "file");
        if (n)
            buf_putc(out, ',');
        js_copy(doc, i, out);
        if (is_file && !make_path(f, doc, i, task_id, n + 1, &path))
            status = STORE_IO;
        if (is_file && status == STORE_OK)
            status = lend_part(f, doc, i, owner, path.bytes, later);
        if (is_file) {
            out->len--; /* the brace */
            js_put_field(out, "path", buf_str(&path));
            buf_putc(out, '}');
        }
        buf_done(&path);
    }
    buf_putc(out, ']');
    return status;
}

bool files_lend(struct files *f, const struct lend_plan *plan, struct buf *out,
                struct lending **ret, char *ret_error)
{
    struct js_doc doc = {0};
    struct lending *later = xcalloc(sizeof *later);
    struct str task_id = plan->task_id;
    int status = js_parse(&doc, plan->parts.p, plan->parts.n, JS_OURS) ? STORE_OK : STORE_CORRUPT;
    *ret = NULL;
    files_return(f, task_id); /* of a start that failed */
    if (status == STORE_OK)
        status = lend_parts(f, plan->owner, task_id, &doc, out, later);
    js_done(&doc);
    if (status == STORE_OK && later->n > 0 && !f->closing) {
        later->done = plan->done;
        later->user = plan->user;
        snprintf(later->task_id, sizeof later->task_id, "%.*s", (int)task_id.n, task_id.p);
        later->job = (struct job){.run = lending_run, .done = lending_ran};
        files_job(f, &later->job);
        *ret = later;
        return true;
    }
    if (later->n > 0)
        status = STORE_IO;
    lending_free(later);
    if (status == STORE_OK)
        return true;
    f->stats.failures++;
    snprintf(ret_error, 256, "%s", why_not_lent(status));
    files_return(f, task_id);
    return false;
}

static int remove_lent(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

void files_return(struct files *f, struct str task_id)
{
    struct buf path = {0};
    put_folder(&path, f, task_id);
    if (access(path.bytes, F_OK) == 0)
        (void)nftw(path.bytes, remove_lent, 8, FTW_DEPTH | FTW_PHYS);
    buf_done(&path);
}

/* --- the port --------------------------------------------------------------------------------- */

static bool lend_by_port(void *arg, const struct lend_plan *plan, struct buf *out,
                         struct lending **ret, char *ret_error)
{
    return files_lend(arg, plan, out, ret, ret_error);
}

static void take_back(void *arg, struct str task_id)
{
    files_return(arg, task_id);
}

/* A load is a read, under the name that agents have for it. */
static struct file_load *load_by_port(void *arg, struct str owner, struct str sha256, int64_t size,
                                      lender_done done, void *user)
{
    return (struct file_load *)(void *)files_load(arg, owner, sha256, size, done, user);
}

static void forget_load(struct file_load *load)
{
    files_read_forget((struct file_read *)(void *)load);
}

static struct file_save *save_by_port(void *arg, const struct file_plan *plan, lender_saved done,
                                      void *user)
{
    return save_begin(arg, plan, done, user);
}

struct lender files_lender(struct files *f)
{
    return (struct lender){.lend = lend_by_port,
                           .drop_lending = files_lend_drop,
                           .take_back = take_back,
                           .load = load_by_port,
                           .forget = forget_load,
                           .save = save_by_port,
                           .drop = save_drop,
                           .tool = &f->tool,
                           .arg = f};
}

/* --- at a start ------------------------------------------------------------------------------- */

struct lent {
    const char *task_id;
    bool lives;
};

static void find_lent(struct map_node *node, void *arg)
{
    const struct stream *s = container_of(node, const struct stream, node);
    struct lent *lent = arg;
    lent->lives = lent->lives || (s->task && memcmp(s->task_id, lent->task_id, TASK_ID_LEN) == 0);
}

void lend_sweep(struct files *f)
{
    DIR *dir = opendir(f->dir);
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        struct lent lent = {e->d_name, strlen(e->d_name) != TASK_ID_LEN};
        if (!lent.lives)
            map_each(&f->hub->streams, find_lent, &lent);
        if (!lent.lives)
            files_return(f, str_of(e->d_name));
    }
    if (dir)
        closedir(dir);
}
