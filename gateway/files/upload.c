#include "gateway/files/upload.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/files/files_private.h"

enum upload_step {
    UPLOAD_LOOK,
    UPLOAD_WAIT,
    UPLOAD_OPEN,
    UPLOAD_WRITE,
    UPLOAD_KEEP,
    UPLOAD_COMMIT,
    UPLOAD_OVER
};

struct upload {
    struct list all, to_keep;
    struct files *files;
    const struct upload_ops *ops; /* NULL when the peer has left */
    void *arg;
    char *owner, *quota, *conversation_id, *key, *name, *media_type;
    unsigned slot; /* the owner's */
    int64_t offset, length;
    bool looks, anew;
    enum upload_step step;
    char part[2 * FILE_HASH_LEN + 2], group[FILE_HASH_LEN + 1];
    struct job job;
    bool working, held, ended;
    struct buf waiting, writing;
    int64_t at; /* written, or being written */
    EVP_MD_CTX *sha;
    struct file_parts others; /* of the owner */
    int64_t size;             /* of the part, when it was opened */
    int status;
    char sha256[FILE_HASH_LEN + 1], blob[FILE_HASH_LEN + 1], id[TASK_ID_LEN + 1];
    int64_t created_at;
    struct waiter waiter;
    struct timer begin; /* ops may not be called from inside upload_begin */
};

static void upload_look(struct upload *u);

static void upload_free(struct upload *u)
{
    struct files *f = u->files;
    list_remove(&u->all);
    list_remove(&u->to_keep);
    if (timer_is_armed(&u->begin))
        timer_disarm(&f->hub->clock, &u->begin);
    f->stats.uploading--;
    EVP_MD_CTX_free(u->sha);
    buf_done(&u->waiting);
    buf_done(&u->writing);
    char *const texts[] = {u->owner, u->quota, u->conversation_id, u->key, u->name, u->media_type};
    for (size_t i = 0; i < countof(texts); i++)
        free(texts[i]);
    free(u);
}

/* Another try may wait for this one's end. */
static void upload_over(struct upload *u)
{
    struct files *f = u->files;
    char part[sizeof u->part];
    memcpy(part, u->part, sizeof part);
    upload_free(u);
    list_each (it, &f->uploads) {
        struct upload *next = list_item(it, struct upload, all);
        if (next->step == UPLOAD_WAIT && !f->closing && strcmp(next->part, part) == 0) {
            next->step = UPLOAD_LOOK;
            timer_arm(&f->hub->clock, &next->begin, f->hub->clock.now_ms);
            return;
        }
    }
}

static void drop_part_run(struct job *job)
{
    struct upload *u = container_of(job, struct upload, job);
    u->status = job->files->ops->part_drop(job->files->store, u->part);
}

static void upload_work(struct upload *u, void (*run)(struct job *job),
                        void (*done)(struct job *job))
{
    u->working = true;
    u->job.run = run;
    u->job.done = done;
    files_job(u->files, &u->job);
}

static void part_dropped(struct job *job)
{
    struct upload *u = container_of(job, struct upload, job);
    u->working = false;
    upload_over(u);
}

/* The part of a key stays for another try. */
static void upload_finish(struct upload *u)
{
    bool had = u->step >= UPLOAD_WRITE && u->step < UPLOAD_COMMIT;
    u->step = UPLOAD_OVER;
    u->ops = NULL;
    if (had && !u->key && !u->files->closing)
        upload_work(u, drop_part_run, part_dropped);
    else
        upload_over(u);
}

static void upload_refuse_at(struct upload *u, enum error e, const char *message, int64_t offset)
{
    const struct upload_ops *ops = u->ops;
    u->ops = NULL;
    u->files->stats.refused++;
    if (ops)
        ops->failed(u->arg, e, message, offset, 0);
    upload_finish(u);
}

static void upload_refuse(struct upload *u, enum error e, const char *message)
{
    upload_refuse_at(u, e, message, -1);
}

static void upload_store_failed(struct upload *u, int status)
{
    u->files->stats.failures++;
    upload_refuse(u, status == STORE_CORRUPT ? ERR_INTERNAL : ERR_OVERLOADED,
                  status == STORE_FULL      ? "the store is full"
                  : status == STORE_CORRUPT ? "a record in the store is damaged"
                                            : "the store does not take files now");
}

/* --- commit ----------------------------------------------------------------------------------- */

static struct file_record upload_record(const struct upload *u)
{
    return (struct file_record){.owner = str_of(u->owner),
                                .conversation_id = str_of(u->conversation_id),
                                .file_id = str_of(u->id),
                                .name = str_of(u->name),
                                .media_type = str_of(u->media_type),
                                .sha256 = str_of(u->sha256),
                                .blob = str_of(u->blob),
                                .upload = str_of(u->key),
                                .size = u->at,
                                .created_at = u->created_at};
}

static void upload_kept(struct upload *u)
{
    u->files->n_keeping--;
    sweep_proceed(u->files);
}

static void on_upload_committed(struct waiter *w, int status)
{
    struct upload *u = container_of(w, struct upload, waiter);
    struct files *f = u->files;
    upload_kept(u);
    if (status < 0) { /* its bytes are found when bytes without a row are looked for */
        upload_refuse(u, ERR_OVERLOADED, "the store accepts no writes now");
        return;
    }
    f->stats.stored++;
    f->stats.stored_bytes += (uint64_t)u->at;
    if (!f->closing)
        retention_look_at(&f->hub->retention, str_of(u->owner));
    struct file_record file = upload_record(u);
    const struct upload_ops *ops = u->ops;
    u->ops = NULL;
    if (ops)
        ops->done(u->arg, &file, false);
    upload_finish(u);
}

static void keep_run(struct job *job)
{
    struct upload *u = container_of(job, struct upload, job);
    u->status = job->files->ops->part_keep(job->files->store, u->slot, u->part, u->blob);
}

static void keep_ran(struct job *job)
{
    struct upload *u = container_of(job, struct upload, job);
    struct files *f = job->files;
    u->working = false;
    if (u->status < 0 || f->closing) {
        upload_kept(u);
        upload_store_failed(u, u->status < 0 ? u->status : STORE_IO);
        return;
    }
    u->step = UPLOAD_COMMIT;
    hub_new_id(f->hub, u->id);
    u->created_at = f->hub->clock.wall_ms;
    struct file_record file = upload_record(u);
    journal_put(&f->hub->journal, &(struct op){.kind = OP_FILE_PUT, .file = &file});
    u->waiter.done = on_upload_committed;
    journal_wait(&f->hub->journal, &u->waiter);
}

static void upload_keep(struct upload *u)
{
    struct files *f = u->files;
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    u->step = UPLOAD_KEEP;
    if (u->sha256[0] == 0) {
        ASSERT(EVP_DigestFinal_ex(u->sha, hash, &n) == 1 && n * 2 == FILE_HASH_LEN);
        for (unsigned i = 0; i < n; i++)
            snprintf(u->sha256 + (size_t)i * 2, 3, "%02x", hash[i]);
        files_hash(str_of(u->owner), str_of(u->sha256), u->blob);
    }
    if (f->sweep.holds) {
        list_push(&f->to_keep, &u->to_keep);
        return;
    }
    f->n_keeping++;
    upload_work(u, keep_run, keep_ran);
}

void uploads_keep(struct files *f)
{
    struct list now, *node;
    list_init(&now);
    list_splice(&now, &f->to_keep);
    while ((node = list_pop(&now)) != NULL)
        upload_keep(list_item(node, struct upload, to_keep));
}

/* --- writing ---------------------------------------------------------------------------------- */

static void upload_go_on(struct upload *u);

static void write_run(struct job *job)
{
    struct upload *u = container_of(job, struct upload, job);
    struct str bytes = buf_str(&u->writing);
    ASSERT(EVP_DigestUpdate(u->sha, bytes.p, bytes.n) == 1);
    u->status = job->files->ops->part_write(job->files->store, u->slot, u->part, u->at, bytes);
}

static void write_ran(struct job *job)
{
    struct upload *u = container_of(job, struct upload, job);
    u->working = false;
    if (u->status < 0) {
        upload_store_failed(u, u->status);
        return;
    }
    u->at += (int64_t)u->writing.len;
    buf_clear(&u->writing);
    upload_go_on(u);
}

static void upload_hold(struct upload *u, bool hold)
{
    if (u->held == hold)
        return;
    u->held = hold;
    if (u->ops)
        u->ops->hold(u->arg, hold);
}

/* Nothing is being written: writes what waits, then does what comes after that. */
static void upload_go_on(struct upload *u)
{
    if (u->files->closing) {
        u->files->stats.cut++;
        upload_finish(u);
    } else if (u->waiting.len > 0) {
        struct buf empty = u->writing;
        u->writing = u->waiting;
        u->waiting = empty;
        upload_work(u, write_run, write_ran);
        upload_hold(u, false);
    } else if (u->ended) {
        upload_keep(u);
    } else if (!u->ops) {
        u->files->stats.cut++;
        upload_finish(u);
    }
}

void upload_write(struct upload *u, const char *bytes, size_t n)
{
    if (u->step == UPLOAD_OVER)
        return;
    buf_put(&u->waiting, bytes, n);
    if (u->step == UPLOAD_WRITE && !u->working)
        upload_go_on(u);
    if (u->waiting.len >= UPLOAD_WAITING)
        upload_hold(u, true);
}

void upload_end(struct upload *u)
{
    u->ended = true;
    if (u->step == UPLOAD_WRITE && !u->working)
        upload_go_on(u);
}

void upload_leave(struct upload *u)
{
    u->ops = NULL;
    if (u->step == UPLOAD_WRITE && !u->working)
        upload_go_on(u);
    else if (u->step == UPLOAD_WAIT)
        upload_finish(u);
}

/* --- opening ---------------------------------------------------------------------------------- */

/* The hash of what is there already. */
static int64_t hash_part(struct upload *u)
{
    struct files *f = u->files;
    char *bytes = xalloc(FILE_PIECE);
    int64_t at = 0, n = 1;
    while (at < u->size && n > 0) {
        n = f->ops->part_read(f->store, u->part, at, bytes, FILE_PIECE);
        if (n > 0)
            ASSERT(EVP_DigestUpdate(u->sha, bytes, (size_t)n) == 1);
        at += n > 0 ? n : 0;
    }
    free(bytes);
    return n < 0 ? n : at < u->size ? STORE_IO : STORE_OK;
}

static void open_run(struct job *job)
{
    struct upload *u = container_of(job, struct upload, job);
    struct files *f = job->files;
    if (u->anew)
        (void)f->ops->part_drop(f->store, u->part); /* its size tells whether it is gone */
    u->size = u->key ? f->ops->part_size(f->store, u->part) : 0;
    u->status = u->size < 0 ? (int)u->size : f->ops->parts_of(f->store, u->group, &u->others);
    if (u->status == STORE_OK && !u->looks && u->size == u->offset)
        u->status = (int)hash_part(u);
}

static void upload_opened(struct upload *u)
{
    u->step = UPLOAD_WRITE;
    u->at = u->offset;
    if (u->waiting.len > 0 || u->ended || !u->ops)
        upload_go_on(u);
    else
        upload_hold(u, false);
}

static int64_t coming_of(const struct files *f, const struct upload *but, const char *owner)
{
    int64_t bytes = 0;
    list_each (it, &f->uploads) {
        const struct upload *u = list_item(it, struct upload, all);
        if (u != but && strcmp(u->owner, owner) == 0 && !u->looks)
            bytes += u->length;
    }
    return bytes;
}

static void on_upload_usage(void *arg, int status, struct answer *answer)
{
    struct upload *u = arg;
    int64_t max = u->files->hub->o.retention.owner_bytes;
    if (status < 0 || u->files->closing) {
        upload_store_failed(u, status < 0 ? status : STORE_IO);
        return;
    }
    int64_t used = answer->n_owners ? answer->owners[0].value : 0;
    used += u->others.bytes + coming_of(u->files, u, u->owner) + u->length;
    if (used > max) {
        u->files->hub->stats.limit_hits[LIMIT_STORE_PER_OWNER]++;
        upload_refuse(u, ERR_OVERLOADED,
                      "this owner's share of the store has no room for the file");
        return;
    }
    upload_opened(u);
}

static void open_ran(struct job *job)
{
    struct upload *u = container_of(job, struct upload, job);
    struct files *f = job->files;
    u->working = false;
    if (u->status < 0 || f->closing) {
        upload_store_failed(u, u->status < 0 ? u->status : STORE_IO);
    } else if (!u->ops && u->waiting.len == 0 && !u->ended) {
        upload_finish(u);
    } else if (u->looks) {
        const struct upload_ops *ops = u->ops;
        u->ops = NULL;
        if (ops)
            ops->at(u->arg, u->size);
        upload_finish(u);
    } else if (u->size != u->offset) {
        upload_refuse_at(u, ERR_CONFLICT, "\"Upload-Offset\" is not where the upload ends",
                         u->size);
    } else if (u->size == 0 && u->others.n >= UPLOAD_PARTS) {
        upload_refuse(u, ERR_OVERLOADED, "too many unfinished uploads of this owner");
    } else if (f->hub->o.retention.owner_bytes) {
        struct query q = {.kind = QUERY_USAGE, .owner = str_of(u->owner)};
        hub_query(f->hub, &q, on_upload_usage, u);
    } else {
        upload_opened(u);
    }
}

/* An earlier try that is under way is told to leave; one that has all bytes becomes a file. */
static bool upload_waits(struct upload *u)
{
    list_each (it, &u->files->uploads) {
        struct upload *other = list_item(it, struct upload, all);
        if (other == u || other->step == UPLOAD_WAIT || strcmp(other->part, u->part) != 0)
            continue;
        u->step = UPLOAD_WAIT;
        if (other->step <= UPLOAD_WRITE && other->ops && !other->ended)
            other->ops->taken(other->arg);
        return true;
    }
    return false;
}

static void on_upload_key(void *arg, int status, struct answer *answer)
{
    struct upload *u = arg;
    const struct upload_ops *ops = u->ops;
    if ((status < 0 && status != STORE_NOT_FOUND) || u->files->closing) {
        upload_store_failed(u, status < 0 ? status : STORE_IO);
    } else if (status == STORE_NOT_FOUND) {
        u->step = UPLOAD_OPEN;
        upload_work(u, open_run, open_ran);
    } else {
        u->ops = NULL;
        if (ops && u->looks)
            ops->at(u->arg, answer->files[0].size);
        else if (ops)
            ops->done(u->arg, &answer->files[0], true);
        upload_finish(u);
    }
}

static void upload_look(struct upload *u)
{
    struct files *f = u->files;
    if (upload_waits(u))
        return;
    if (!u->key) {
        u->step = UPLOAD_OPEN;
        upload_work(u, open_run, open_ran);
        return;
    }
    struct query q = {.kind = QUERY_UPLOAD,
                      .owner = str_of(u->owner),
                      .conversation_id = str_of(u->conversation_id),
                      .key = str_of(u->key)};
    hub_query(f->hub, &q, on_upload_key, u);
}

/* --- the beginning ---------------------------------------------------------------------------- */

static enum error upload_fault(struct upload *u, const char **ret_why, msec_t *ret_retry)
{
    struct files *f = u->files;
    struct hub *h = f->hub;
    struct retention_refusal full;
    unsigned own = 0;
    list_each (it, &f->uploads)
        own += strcmp(list_item(it, struct upload, all)->quota, u->quota) == 0;
    *ret_why = "the gateway is stopping";
    if (f->closing || h->draining)
        return ERR_OVERLOADED;
    *ret_why = "the store accepts no writes now";
    if (!hub_can_write(h) && !u->looks)
        return ERR_OVERLOADED;
    *ret_why = "too many uploads at once";
    if (f->stats.uploading > UPLOADS_MOST || own > UPLOADS_OWNER)
        return ERR_OVERLOADED;
    *ret_why = u->looks ? NULL : retention_refuses(&h->retention, str_of(u->owner), &full);
    if (!*ret_why)
        return ERR_NONE;
    *ret_retry = full.retry_after_ms;
    h->stats.limit_hits[full.is_all ? LIMIT_STORE : LIMIT_STORE_PER_OWNER]++;
    return ERR_OVERLOADED;
}

static void upload_on_begin(struct timer *timer)
{
    struct upload *u = container_of(timer, struct upload, begin);
    const char *why = NULL;
    msec_t retry = 0;
    enum error e = upload_fault(u, &why, &retry);
    if (e && u->ops) {
        const struct upload_ops *ops = u->ops;
        u->ops = NULL;
        u->files->stats.refused++;
        ops->failed(u->arg, e, why, -1, retry);
    }
    if (e || !u->ops)
        upload_finish(u);
    else
        upload_look(u);
}

static void name_part(struct upload *u)
{
    char name[FILE_HASH_LEN + 1];
    uint64_t chance[2];
    files_hash(str_of(u->owner), STR(""), u->group);
    if (u->key) {
        files_hash(str_of(u->conversation_id), str_of(u->key), name);
        snprintf(u->part, sizeof u->part, "%s/%s", u->group, name);
        return;
    }
    ASSERT(u->files->hub->o.random(chance, sizeof chance));
    snprintf(u->part, sizeof u->part, "%s/" FILE_PART_ONCE "%016llx%016llx", u->group,
             (unsigned long long)chance[0], (unsigned long long)chance[1]);
}

struct upload *upload_begin(struct files *f, const struct upload_plan *plan)
{
    struct upload *u = xcalloc(sizeof *u);
    u->files = f;
    u->ops = plan->ops;
    u->arg = plan->arg;
    u->owner = xstrdup(plan->owner);
    u->slot = slot_of(plan->owner);
    u->quota = xstrdup(plan->quota);
    u->conversation_id = xstrdup(plan->conversation_id);
    u->key = plan->key.p ? xstrdup(plan->key) : NULL;
    u->name = xstrdup(plan->name);
    u->media_type = xstrdup(plan->media_type);
    u->offset = plan->offset;
    u->length = plan->length;
    u->looks = plan->looks;
    u->anew = plan->anew;
    u->sha = EVP_MD_CTX_new();
    ASSERT(u->sha && EVP_DigestInit_ex(u->sha, EVP_sha256(), NULL) == 1);
    name_part(u);
    u->begin.fire = upload_on_begin;
    list_push(&f->uploads, &u->all);
    f->stats.uploading++;
    if (!f->closing)
        timer_arm(&f->hub->clock, &u->begin, f->hub->clock.now_ms);
    return u;
}

void uploads_stop(struct files *f)
{
    list_each (it, &f->uploads) {
        struct upload *u = list_item(it, struct upload, all);
        if (timer_is_armed(&u->begin))
            timer_disarm(&f->hub->clock, &u->begin);
    }
}

void uploads_done(struct files *f)
{
    struct list *node;
    while ((node = list_pop(&f->uploads)) != NULL)
        upload_free(list_item(node, struct upload, all));
}
