/* The sweep, a step at a time.  Each step that removes blobs holds uploads back that would become
 * one: otherwise a blob could be removed between the question and its new row. */
#include <stdlib.h>

#include "core/call.h"
#include "gateway/base/log.h"
#include "gateway/files/files_private.h"

#define SWEEP_MS 10000   /* between two looks for files that are gone */
#define EXPIRE_MS 600000 /* between two looks for what nobody has named */
#define SWEEP_PIECE 32   /* blobs that are dropped at once */

static void sweep_step(struct files *f);

void blob_names_add(struct blob_names *names, const char *blob)
{
    if (names->n == names->cap) {
        names->cap = names->cap ? names->cap * 2 : 32;
        names->at = xrealloc(names->at, names->cap * sizeof *names->at);
    }
    memcpy(names->at[names->n++], blob, FILE_HASH_LEN + 1);
}

static void sweep_rest(struct files *f)
{
    struct sweep *s = &f->sweep;
    s->step = SWEEP_RESTS;
    s->at_start = false;
    timer_arm(&f->hub->clock, &s->timer, f->hub->clock.now_ms + SWEEP_MS);
}

static void sweep_release(struct files *f)
{
    f->sweep.holds = false;
    uploads_keep(f);
}

/* The rest waits for the next time. */
static void sweep_fail(struct files *f, const char *what, int status)
{
    f->stats.failures++;
    log_event_limited(LEVEL_WARN, "files", "sweep_failed", LOG_TEXT("what", what),
                      LOG_INT("status", status));
    sweep_release(f);
    if (!f->closing)
        sweep_rest(f);
}

static void sweep_job(struct files *f, void (*run)(struct job *job), void (*done)(struct job *job))
{
    f->sweep.job.run = run;
    f->sweep.job.done = done;
    files_job(f, &f->sweep.job);
}

/* --- parts ------------------------------------------------------------------------------------ */

static void parts_run(struct job *job)
{
    struct files *f = job->files;
    f->sweep.status = f->ops->parts_sweep(f->store, f->sweep.before_ms, f->sweep.at_start);
}

static void parts_ran(struct job *job)
{
    struct files *f = job->files;
    if (f->closing)
        return;
    if (f->sweep.status < 0)
        f->stats.failures++; /* what is left is no reason to keep the rest */
    f->sweep.step = SWEEP_GONE;
    sweep_step(f);
}

/* --- dropping --------------------------------------------------------------------------------- */

static void drop_run(struct job *job)
{
    struct files *f = job->files;
    struct sweep *s = &f->sweep;
    s->status = STORE_OK;
    for (size_t i = 0; i < s->dead.n && s->status == STORE_OK; i++)
        s->status = f->ops->blob_drop(f->store, s->dead.at[i]);
}

/* --- files that are gone ---------------------------------------------------------------------- */

static void on_rows_removed(struct waiter *w, int status)
{
    struct files *f = container_of(container_of(w, struct sweep, waiter), struct files, sweep);
    if (f->closing)
        return;
    if (status < 0) {
        sweep_fail(f, "rows", status);
        return;
    }
    sweep_release(f);
    sweep_step(f); /* there may be more */
}

/* The rows go when their bytes are gone.  found has those of dead, and those that others share. */
static void gone_dropped(struct job *job)
{
    struct files *f = job->files;
    struct sweep *s = &f->sweep;
    if (f->closing)
        return;
    if (s->status < 0) {
        sweep_fail(f, "bytes", s->status);
        return;
    }
    f->stats.swept += s->dead.n;
    for (size_t i = 0; i < s->found.n; i++)
        journal_put(&f->hub->journal,
                    &(struct op){.kind = OP_FILES_REMOVE, .key = str_of(s->found.at[i])});
    s->waiter.done = on_rows_removed;
    journal_wait(&f->hub->journal, &s->waiter);
}

static void on_gone(void *arg, int status, struct answer *answer)
{
    struct files *f = arg;
    struct sweep *s = &f->sweep;
    if (f->closing)
        return;
    if (status < 0) {
        sweep_fail(f, "question", status);
        return;
    }
    s->found.n = s->dead.n = 0;
    for (size_t i = 0; i < answer->n_files; i++) {
        char blob[FILE_HASH_LEN + 1] = "";
        if (answer->files[i].blob.n != FILE_HASH_LEN)
            continue;
        memcpy(blob, answer->files[i].blob.p, FILE_HASH_LEN);
        blob_names_add(&s->found, blob);
        if (!answer->files[i].shares)
            blob_names_add(&s->dead, blob);
    }
    if (s->found.n > 0) {
        sweep_job(f, drop_run, gone_dropped);
        return;
    }
    sweep_release(f);
    bool strays = f->hub->clock.wall_ms >= s->next_strays_ms;
    s->step = strays ? SWEEP_STRAYS : SWEEP_RESTS;
    s->piece = 0;
    if (strays)
        sweep_step(f);
    else
        sweep_rest(f);
}

/* --- bytes that no row names ------------------------------------------------------------------ */

static void ask_stray(struct files *f);

static void strays_dropped(struct job *job)
{
    struct files *f = job->files;
    struct sweep *s = &f->sweep;
    if (f->closing)
        return;
    if (s->status < 0) {
        sweep_fail(f, "bytes", s->status);
        return;
    }
    f->stats.swept += s->dead.n;
    if (s->dead.n > 0)
        log_event(LEVEL_INFO, "files", "swept", LOG_INT("blobs", (int64_t)s->dead.n));
    sweep_release(f);
    if (++s->piece < FILE_BLOB_PIECES) {
        sweep_step(f);
        return;
    }
    s->next_strays_ms = f->hub->clock.wall_ms + FILE_UNNAMED_MS;
    sweep_rest(f);
}

static void on_stray(void *arg, int status, struct answer *answer)
{
    struct files *f = arg;
    struct sweep *s = &f->sweep;
    (void)answer;
    if (f->closing)
        return;
    if (status < 0 && status != STORE_NOT_FOUND) {
        sweep_fail(f, "question", status);
        return;
    }
    if (status == STORE_NOT_FOUND)
        blob_names_add(&s->dead, s->found.at[s->at]);
    s->at++;
    ask_stray(f);
}

static void ask_stray(struct files *f)
{
    struct sweep *s = &f->sweep;
    if (s->at == s->found.n) {
        sweep_job(f, drop_run, strays_dropped);
        return;
    }
    struct query q = {.kind = QUERY_BLOB, .key = str_of(s->found.at[s->at])};
    hub_query(f->hub, &q, on_stray, f);
}

static void on_found(void *arg, const char *blob)
{
    blob_names_add(arg, blob);
}

static void list_run(struct job *job)
{
    struct files *f = job->files;
    f->sweep.status = f->ops->blobs_list(f->store, f->sweep.piece, on_found, &f->sweep.found);
}

static void list_ran(struct job *job)
{
    struct files *f = job->files;
    if (f->closing)
        return;
    if (f->sweep.status < 0)
        sweep_fail(f, "list", f->sweep.status);
    else
        ask_stray(f);
}

/* --- the driver ------------------------------------------------------------------------------- */

static void begin_step(struct files *f)
{
    struct sweep *s = &f->sweep;
    s->found.n = s->dead.n = s->at = 0;
    if (s->step == SWEEP_PARTS) {
        s->before_ms = f->hub->clock.wall_ms - FILE_UNNAMED_MS;
        sweep_job(f, parts_run, parts_ran);
    } else if (s->step == SWEEP_GONE) {
        struct query q = {.kind = QUERY_FILES_GONE, .slots = &f->hub->open, .limit = SWEEP_PIECE};
        hub_query(f->hub, &q, on_gone, f);
    } else {
        sweep_job(f, list_run, list_ran);
    }
}

/* Waits for the uploads that become blobs now. */
static void sweep_step(struct files *f)
{
    f->sweep.holds = true;
    if (f->n_keeping == 0)
        begin_step(f);
}

void sweep_proceed(struct files *f)
{
    if (f->sweep.holds && f->n_keeping == 0 && !f->closing)
        begin_step(f);
}

static void sweep_on_timer(struct timer *timer)
{
    struct files *f = container_of(container_of(timer, struct sweep, timer), struct files, sweep);
    struct sweep *s = &f->sweep;
    if (f->hub->draining || !hub_can_write(f->hub)) {
        sweep_rest(f);
        return;
    }
    bool expires = f->hub->clock.wall_ms >= s->next_expiry_ms;
    if (expires) {
        s->next_expiry_ms = f->hub->clock.wall_ms + EXPIRE_MS;
        chat_files_end(f->hub, &(struct op){.kind = OP_FILES_EXPIRE,
                                            .at = f->hub->clock.wall_ms - FILE_UNNAMED_MS});
    }
    s->step = expires ? SWEEP_PARTS : SWEEP_GONE;
    sweep_step(f);
}

void sweep_start(struct files *f)
{
    struct sweep *s = &f->sweep;
    s->at_start = true;
    s->timer.fire = sweep_on_timer;
    timer_arm(&f->hub->clock, &s->timer, f->hub->clock.now_ms);
}

void sweep_stop(struct files *f)
{
    if (timer_is_armed(&f->sweep.timer))
        timer_disarm(&f->hub->clock, &f->sweep.timer);
}
