#include "gateway/files/files.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <unistd.h>

#include "gateway/base/fault.h"
#include "gateway/files/files_private.h"
#include "gateway/files/save.h"
#include "proto/parts.h"

/* --- jobs ------------------------------------------------------------------------------------- */

static void files_run(uv_work_t *work)
{
    struct job *job = container_of(work, struct job, work);
    job->run(job);
}

static void files_ran(uv_work_t *work, int status)
{
    struct job *job = container_of(work, struct job, work);
    (void)status; /* jobs are never cancelled */
    job->files->n_jobs--;
    job->done(job);
}

void files_job(struct files *f, struct job *job)
{
    job->files = f;
    f->n_jobs++;
    ASSERT(uv_queue_work(f->loop, &job->work, files_run, files_ran) == 0);
}

/* --- names ------------------------------------------------------------------------------------ */

void files_hash(struct str a, struct str b, char ret[FILE_HASH_LEN + 1])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    EVP_MD_CTX *sha = EVP_MD_CTX_new();
    ASSERT(sha && EVP_DigestInit_ex(sha, EVP_sha256(), NULL) == 1 &&
           EVP_DigestUpdate(sha, a.p, a.n) == 1 && EVP_DigestUpdate(sha, "", 1) == 1 &&
           EVP_DigestUpdate(sha, b.p, b.n) == 1 && EVP_DigestFinal_ex(sha, hash, &n) == 1);
    EVP_MD_CTX_free(sha);
    ASSERT(n * 2 == FILE_HASH_LEN);
    for (unsigned i = 0; i < n; i++) {
        ret[i * 2] = digits[hash[i] >> 4];
        ret[i * 2 + 1] = digits[hash[i] & 15];
    }
    ret[FILE_HASH_LEN] = 0;
}

/* --- reading ---------------------------------------------------------------------------------- */

struct file_read {
    struct job job;
    char blob[FILE_HASH_LEN + 1];
    int64_t at, got; /* got: bytes, or a negative enum store_error */
    size_t n;
    bool encodes; /* as base64 */
    int fd;       /* instead of blob; -1 */
    bool closes;  /* it, at the end */
    char *bytes;
    file_read_fn done;
    void *arg;
};

static int64_t encode(struct file_read *r)
{
    size_t n = BASE64_SIZE(r->n);
    char *text = try_alloc(n ? n : 1);
    if (!text)
        return STORE_IO;
    base64_write(r->bytes, r->n, text);
    free(r->bytes);
    r->bytes = text;
    return (int64_t)n;
}

static int64_t read_open(struct file_read *r)
{
    size_t got = 0;
    ssize_t n = 1;
    while (got < r->n && n > 0) {
        n = pread(r->fd, r->bytes + got, r->n - got, (off_t)r->at + (off_t)got);
        if (n < 0 && errno == EINTR)
            n = 1;
        else
            got += n > 0 ? (size_t)n : 0;
    }
    return n < 0 ? STORE_IO : (int64_t)got;
}

static void read_run(struct job *job)
{
    struct file_read *r = container_of(job, struct file_read, job);
    FAULT_GATE(FILE);
    r->bytes = try_alloc(r->n ? r->n : 1);
    r->got = !r->bytes ? STORE_IO
             : r->fd >= 0
                 ? read_open(r)
                 : job->files->ops->blob_read(job->files->store, r->blob, r->at, r->bytes, r->n);
    if (r->encodes && r->got >= 0)
        r->got = r->got == (int64_t)r->n ? encode(r) : STORE_IO;
}

static void read_ran(struct job *job)
{
    struct file_read *r = container_of(job, struct file_read, job);
    if (r->got < 0)
        job->files->stats.failures++;
    else
        job->files->stats.read_bytes += (uint64_t)r->got;
    if (r->done)
        r->done(r->arg, r->got < 0 ? (int)r->got : STORE_OK,
                (struct str){r->bytes, r->got < 0 ? 0 : (size_t)r->got});
    if (r->closes)
        close(r->fd);
    free(r->bytes);
    free(r);
}

static struct file_read *read_begin(struct files *f, const struct file_read *plan)
{
    if (f->closing)
        return NULL;
    struct file_read *r = xcalloc(sizeof *r);
    *r = *plan;
    r->job.run = read_run;
    r->job.done = read_ran;
    files_job(f, &r->job);
    return r;
}

struct file_read *files_read(struct files *f, struct str blob, int64_t at, size_t n,
                             file_read_fn done, void *arg)
{
    struct file_read plan = {.at = at, .n = n, .fd = -1, .done = done, .arg = arg};
    ASSERT(blob.n == FILE_HASH_LEN);
    memcpy(plan.blob, blob.p, blob.n);
    return read_begin(f, &plan);
}

struct file_read *files_load(struct files *f, struct str owner, struct str sha256, int64_t size,
                             file_read_fn done, void *arg)
{
    struct file_read plan = {
        .n = (size_t)size, .encodes = true, .fd = -1, .done = done, .arg = arg};
    files_hash(owner, sha256, plan.blob);
    return read_begin(f, &plan);
}

struct file_read *files_read_open(struct files *f, int fd, int64_t at, size_t n, file_read_fn done,
                                  void *arg)
{
    struct file_read plan = {.at = at, .n = n, .fd = fd, .done = done, .arg = arg};
    return read_begin(f, &plan);
}

void files_read_close(struct file_read *r, int *fd)
{
    if (r && r->fd == *fd)
        r->closes = true;
    else
        close(*fd);
    *fd = -1;
}

void files_set_workspaces(struct files *f, const char *folder,
                          void (*name)(struct str owner, struct str conversation_id, char *ret))
{
    f->workspaces = xstrdup(str_of(folder));
    f->name_workspace = name;
}

void files_read_forget(struct file_read *r)
{
    if (r)
        r->done = NULL;
}

/* --- all -------------------------------------------------------------------------------------- */

struct files *files_open(uv_loop_t *loop, struct hub *hub, const char *dir, int64_t max_bytes,
                         const struct file_store_ops *ops, void *store)
{
    struct files *f = xcalloc(sizeof *f);
    struct buf path = {0};
    char *whole = realpath(dir, NULL); /* an agent may have another folder */
    buf_putf(&path, "%s/files/task", whole ? whole : dir);
    free(whole);
    f->dir = buf_take(&path);
    f->loop = loop;
    f->hub = hub;
    f->ops = ops;
    f->store = store;
    f->max_bytes = max_bytes;
    file_tool_init(&f->tool, f);
    list_init(&f->uploads);
    list_init(&f->to_keep);
    return f;
}

void files_start(struct files *f)
{
    lend_sweep(f);
    sweep_start(f);
}

void files_stop(struct files *f)
{
    if (!f)
        return;
    f->closing = true;
    sweep_stop(f);
    uploads_stop(f);
    while (f->n_jobs > 0)
        uv_run(f->loop, UV_RUN_ONCE);
}

bool files_are_open(const struct files *f)
{
    return !f->closing;
}

void files_close(struct files *f)
{
    if (!f)
        return;
    ASSERT(f->n_jobs == 0);
    uploads_done(f);
    free(f->sweep.found.at);
    free(f->sweep.dead.at);
    f->ops->close(f->store);
    free(f->dir);
    free(f->workspaces);
    free(f);
}

const struct files_stats *files_stats(const struct files *f)
{
    return &f->stats;
}
