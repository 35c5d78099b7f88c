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

static int lend_part(struct files *f, const struct js_doc *doc, uint32_t part, struct str owner,
                     const char *path)
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
        status = f->ops->blob_lend(f->store, blob, path);
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

bool files_lend(struct files *f, struct str owner, struct str task_id, struct str parts,
                struct buf *out, char *ret_error)
{
    struct js_doc doc = {0};
    size_t n = 0;
    int status = js_parse(&doc, parts.p, parts.n, JS_OURS) ? STORE_OK : STORE_CORRUPT;
    files_return(f, task_id); /* of a start that failed */
    buf_putc(out, '[');
    for (uint32_t i = js_first(&doc, 0); status == STORE_OK && i < js_end(&doc, 0);
         i = js_next(&doc, i), n++) {
        struct buf path = {0};
        bool is_file = js_is(&doc, js_get(&doc, i, "type"), "file");
        if (n)
            buf_putc(out, ',');
        js_copy(&doc, i, out);
        if (is_file && !make_path(f, &doc, i, task_id, n + 1, &path))
            status = STORE_IO;
        if (is_file && status == STORE_OK)
            status = lend_part(f, &doc, i, owner, path.bytes);
        if (is_file) {
            out->len--; /* the brace */
            js_put_field(out, "path", buf_str(&path));
            buf_putc(out, '}');
        }
        buf_done(&path);
    }
    buf_putc(out, ']');
    js_done(&doc);
    if (status == STORE_OK)
        return true;
    f->stats.failures++;
    snprintf(ret_error, 256, "a file of the message %s",
             status == STORE_NOT_FOUND ? "is not there any more" : "cannot be read");
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

static bool lend_by_port(void *arg, struct str owner, struct str task_id, struct str parts,
                         struct buf *out, char *ret_error)
{
    return files_lend(arg, owner, task_id, parts, out, ret_error);
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
