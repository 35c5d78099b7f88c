#include "gateway/files/save.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/files/files_private.h"
#include "gateway/files/upload.h"
#include "proto/file_head.h"

struct file_save {
    struct files *files;
    struct upload *upload; /* NULL: none is under way */
    lender_saved done;     /* NULL: it was told, or nobody wants to know */
    void *user;
    char *owner, *conversation_id, *key, *name, *media_type, *path;
    struct buf bytes; /* without a path */
    struct job job;
    bool working, held, dropped;
    int fd;
    int64_t size, at;
    char piece[FILE_PIECE];
    int64_t got; /* of a read; negative: errno */
    struct timer begin;
};

static void save_free(struct file_save *s)
{
    char *const texts[] = {s->owner, s->conversation_id, s->key, s->name, s->media_type, s->path};
    for (size_t i = 0; i < countof(texts); i++)
        free(texts[i]);
    if (s->fd >= 0)
        close(s->fd);
    buf_done(&s->bytes);
    free(s);
}

static void save_tell(struct file_save *s, const char *why, struct str file)
{
    lender_saved done = s->done;
    s->done = NULL;
    if (s->upload)
        upload_leave(s->upload);
    s->upload = NULL;
    if (done)
        done(s->user, why, file);
}

static void save_fail(struct file_save *s, const char *why)
{
    save_tell(s, why, STR_NULL);
}

static void save_work(struct file_save *s, void (*run)(struct job *job),
                      void (*done)(struct job *job))
{
    s->working = true;
    s->job.run = run;
    s->job.done = done;
    files_job(s->files, &s->job);
}

/* False: the save is over, and may be gone. */
static bool save_is_on(struct file_save *s)
{
    s->working = false;
    if (s->dropped) {
        save_free(s);
        return false;
    }
    if (s->files->closing) {
        save_fail(s, "the gateway is stopping");
        return false;
    }
    return s->done != NULL;
}

/* --- pieces ----------------------------------------------------------------------------------- */

static void piece_run(struct job *job)
{
    struct file_save *s = container_of(job, struct file_save, job);
    do
        s->got = pread(s->fd, s->piece, sizeof s->piece, (off_t)s->at);
    while (s->got < 0 && errno == EINTR);
}

static void piece_ran(struct job *job);

static void save_go_on(struct file_save *s)
{
    if (s->working || s->held || !s->upload)
        return;
    if (s->at < s->size)
        save_work(s, piece_run, piece_ran);
    else
        upload_end(s->upload);
}

static void piece_ran(struct job *job)
{
    struct file_save *s = container_of(job, struct file_save, job);
    if (!save_is_on(s))
        return;
    int64_t n = s->got < s->size - s->at ? s->got : s->size - s->at;
    if (n <= 0) {
        save_fail(s, "the file was changed, or cannot be read");
        return;
    }
    s->at += n;
    upload_write(s->upload, s->piece, (size_t)n);
    save_go_on(s);
}

/* --- the upload ------------------------------------------------------------------------------- */

static void save_on_hold(void *arg, bool hold)
{
    struct file_save *s = arg;
    s->held = hold;
    if (!hold && s->path)
        save_go_on(s);
}

static void save_on_at(void *arg, int64_t offset)
{
    (void)arg;
    (void)offset;
}

static void save_on_done(void *arg, const struct file_record *file, bool repeated)
{
    struct file_save *s = arg;
    struct buf json = {0};
    (void)repeated;
    s->upload = NULL;
    buf_putc(&json, '{');
    file_put(&json, file);
    buf_putc(&json, '}');
    save_tell(s, NULL, buf_str(&json));
    buf_done(&json);
}

static void save_on_failed(void *arg, enum error e, const char *message, int64_t offset,
                           msec_t retry_after_ms)
{
    struct file_save *s = arg;
    (void)e;
    (void)offset;
    (void)retry_after_ms;
    s->upload = NULL;
    save_fail(s, message);
}

static void save_on_taken(void *arg)
{
    save_fail(arg, "another upload has taken its place");
}

static const struct upload_ops save_ops = {.hold = save_on_hold,
                                           .at = save_on_at,
                                           .done = save_on_done,
                                           .failed = save_on_failed,
                                           .taken = save_on_taken};

static void save_upload(struct file_save *s)
{
    if (s->size > s->files->max_bytes) {
        save_fail(s, "the file is larger than limits.file_mib");
        return;
    }
    struct upload_plan plan = {.owner = str_of(s->owner),
                               .quota = str_of(s->owner),
                               .conversation_id = str_of(s->conversation_id),
                               .key = str_of(s->key),
                               .name = str_of(s->name),
                               .media_type = str_of(s->media_type),
                               .length = s->size,
                               .anew = true,
                               .ops = &save_ops,
                               .arg = s};
    s->upload = upload_begin(s->files, &plan);
    if (s->path) {
        save_go_on(s);
        return;
    }
    if (s->bytes.len)
        upload_write(s->upload, s->bytes.bytes, s->bytes.len);
    buf_done(&s->bytes);
    upload_end(s->upload);
}

/* --- the beginning ---------------------------------------------------------------------------- */

static void name_type(struct file_save *s, struct str head)
{
    const char *image = image_type(head);
    if (!s->media_type[0]) {
        free(s->media_type);
        s->media_type = xstrdup(image ? str_of(image) : STR("application/octet-stream"));
    }
}

static void open_file_run(struct job *job)
{
    struct file_save *s = container_of(job, struct file_save, job);
    struct stat st;
    s->fd = open(s->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    bool is_there = s->fd >= 0 && fstat(s->fd, &st) == 0;
    if (!is_there || !S_ISREG(st.st_mode)) {
        s->got = is_there ? -EINVAL : -errno;
        return;
    }
    s->size = (int64_t)st.st_size;
    s->got = pread(s->fd, s->piece, IMAGE_HEAD, 0);
    if (s->got < 0)
        s->got = -errno;
}

static void open_file_ran(struct job *job)
{
    struct file_save *s = container_of(job, struct file_save, job);
    char why[128];
    if (!save_is_on(s))
        return;
    if (s->got < 0) {
        snprintf(why, sizeof why, "the file cannot be read: %s",
                 s->got == -EINVAL ? "it is no regular file" : strerror((int)-s->got));
        save_fail(s, why);
        return;
    }
    name_type(s, (struct str){s->piece, (size_t)s->got});
    save_upload(s);
}

static void save_on_begin(struct timer *timer)
{
    struct file_save *s = container_of(timer, struct file_save, begin);
    if (s->files->closing) {
        save_fail(s, "the gateway is stopping");
    } else if (s->path) {
        save_work(s, open_file_run, open_file_ran);
    } else {
        s->size = (int64_t)s->bytes.len;
        name_type(s, buf_str(&s->bytes));
        save_upload(s);
    }
}

struct file_save *save_begin(struct files *f, const struct file_plan *plan, lender_saved done,
                             void *user)
{
    struct file_save *s = xcalloc(sizeof *s);
    s->files = f;
    s->fd = -1;
    s->done = done;
    s->user = user;
    s->owner = xstrdup(plan->owner);
    s->conversation_id = xstrdup(plan->conversation_id);
    s->key = xstrdup(plan->key);
    s->name = xstrdup(plan->name.p ? plan->name : STR(""));
    s->media_type = xstrdup(plan->media_type.p ? plan->media_type : STR(""));
    s->path = plan->path.p ? xstrdup(plan->path) : NULL;
    if (!plan->path.p)
        buf_putstr(&s->bytes, plan->bytes);
    s->begin.fire = save_on_begin;
    timer_arm(&f->hub->clock, &s->begin, f->hub->clock.now_ms);
    return s;
}

void save_drop(struct file_save *s)
{
    s->done = NULL;
    if (timer_is_armed(&s->begin))
        timer_disarm(&s->files->hub->clock, &s->begin);
    if (s->upload)
        upload_leave(s->upload);
    s->upload = NULL;
    s->dropped = true;
    if (!s->working)
        save_free(s);
}
