#include "gateway/base/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "gateway/base/log.h"
#include "proto/js.h"

#define AGAIN_S 1

struct audit {
    struct audit_options o;
    char *path;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    /* Under the lock. */
    struct buf waiting;
    uint64_t n_waiting, n_lost; /* lines: in waiting, and since the last that came through */
    struct audit_stats stats;
    bool reopens, stops;
    /* The thread's. */
    int fd;
    uint64_t size;
    bool fails, cannot_rotate; /* as last logged */
};

/* --- lines ------------------------------------------------------------------------------------ */

static void put_ts(struct buf *out, int64_t wall_ms)
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm tm;
    char day[32];
    gmtime_r(&seconds, &tm);
    strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &tm);
    buf_putf(out, "{\"ts\":\"%s.%03dZ\"", day, (int)(wall_ms % 1000));
}

static void audit_put_part(struct buf *out, const char *key, struct str text)
{
    if (text.p)
        js_put_field(out, key, text);
}

static void put_line(struct buf *out, int64_t wall_ms, const struct audit_line *line)
{
    put_ts(out, wall_ms);
    audit_put_part(out, "event", str_of(line->event));
    audit_put_part(out, "owner", line->owner);
    audit_put_part(out, "actor", line->actor);
    audit_put_part(out, "from", line->from);
    audit_put_part(out, "conversation", line->conversation);
    audit_put_part(out, "task", line->task);
    audit_put_part(out, "agent", line->agent);
    audit_put_part(out, "input", line->input);
    audit_put_part(out, "file", line->file);
    audit_put_part(out, "outcome", str_of(line->outcome));
    buf_puts(out, "}\n");
}

static void put_lost(struct buf *out, int64_t wall_ms, uint64_t lines)
{
    put_ts(out, wall_ms);
    buf_putf(out, ",\"event\":\"lost\",\"lines\":%llu}\n", (unsigned long long)lines);
}

void audit_write(struct audit *a, int64_t wall_ms, const struct audit_line *line)
{
    if (!a)
        return;
    struct buf text = {0};
    put_line(&text, wall_ms, line);
    pthread_mutex_lock(&a->lock);
    if (a->waiting.len + text.len > AUDIT_BUFFER) {
        a->n_lost++;
        a->stats.lost++;
    } else {
        if (a->n_lost > 0)
            put_lost(&a->waiting, wall_ms, a->n_lost);
        a->n_lost = 0;
        buf_putstr(&a->waiting, buf_str(&text));
        a->n_waiting++;
        pthread_cond_signal(&a->wake);
    }
    pthread_mutex_unlock(&a->lock);
    buf_done(&text);
}

/* --- the file --------------------------------------------------------------------------------- */

static bool ends_a_line(int fd, off_t size)
{
    char last;
    return size == 0 || (pread(fd, &last, 1, size - 1) == 1 && last == '\n');
}

/* -1 and errno on failure. */
static int open_file(const char *path, uint64_t *ret_size)
{
    struct stat is;
    int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -1;
    if (fstat(fd, &is) < 0 || !S_ISREG(is.st_mode)) {
        close(fd);
        errno = EINVAL;
        return -1;
    }
    *ret_size = (uint64_t)is.st_size;
    if (!ends_a_line(fd, is.st_size) && write(fd, "\n", 1) == 1) /* a kill cut it */
        *ret_size += 1;
    return fd;
}

static void open_again(struct audit *a)
{
    uint64_t size;
    int fd = open_file(a->path, &size);
    if (fd < 0) {
        log_event(LEVEL_ERROR, "audit", "cannot_open", LOG_TEXT("file", a->path),
                  LOG_TEXT("why", strerror(errno)));
        return; /* the old one takes further lines */
    }
    close(a->fd);
    a->fd = fd;
    a->size = size;
}

static bool rename_all(const struct audit *a)
{
    struct buf from = {0}, to = {0};
    bool good = true;
    for (uint32_t i = a->o.keep; i > 0; i--) {
        buf_clear(&from);
        buf_clear(&to);
        buf_putf(&to, "%s.%u", a->path, i);
        if (i > 1)
            buf_putf(&from, "%s.%u", a->path, i - 1);
        else
            buf_puts(&from, a->path);
        good = rename(from.bytes, to.bytes) == 0 || (errno == ENOENT && i > 1);
        if (!good)
            break;
    }
    buf_done(&from);
    buf_done(&to);
    return good;
}

static void rotate(struct audit *a)
{
    bool good = rename_all(a);
    if (good)
        open_again(a);
    else if (!a->cannot_rotate)
        log_event(LEVEL_ERROR, "audit", "cannot_rotate", LOG_TEXT("file", a->path),
                  LOG_TEXT("why", strerror(errno)));
    a->cannot_rotate = !good;
}

/* --- the thread ------------------------------------------------------------------------------- */

/* From *at on; false: not all of it. */
static bool append(struct audit *a, const struct buf *text, size_t *at)
{
    while (*at < text->len) {
        ssize_t n = write(a->fd, text->bytes + *at, text->len - *at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        *at += (size_t)n;
        a->size += (uint64_t)n;
    }
    return true;
}

static void tell_state(struct audit *a, bool fails, int error)
{
    if (fails && !a->fails)
        log_event(LEVEL_ERROR, "audit", "cannot_write", LOG_TEXT("file", a->path),
                  LOG_TEXT("why", strerror(error)));
    else if (!fails && a->fails)
        log_event(LEVEL_INFO, "audit", "writes_again",
                  LOG_INT("lost", (int64_t)audit_stats(a).lost));
    a->fails = fails;
}

/* With the lock: until the file should be tried again, or the audit stops. */
static void wait_again(struct audit *a)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += AGAIN_S;
    while (!a->stops && !a->reopens &&
           pthread_cond_timedwait(&a->wake, &a->lock, &until) != ETIMEDOUT)
        ;
}

static bool audit_take_reopen(struct audit *a)
{
    bool reopens = a->reopens;
    a->reopens = false;
    return reopens;
}

/* Without the lock.  After a stop one try is all. */
static void write_out(struct audit *a, const struct buf *text, uint64_t lines)
{
    size_t at = 0;
    bool last = false, reopens = false;
    if (a->o.rotate_bytes && a->size > 0 && a->size + text->len > a->o.rotate_bytes)
        rotate(a);
    while (!append(a, text, &at)) {
        tell_state(a, true, errno);
        if (last)
            break;
        pthread_mutex_lock(&a->lock);
        wait_again(a);
        reopens = audit_take_reopen(a) || reopens;
        last = a->stops;
        pthread_mutex_unlock(&a->lock);
        if (reopens && at == 0)
            open_again(a); /* else the rest of a line would stand in another file */
        reopens = reopens && at > 0;
    }
    if (reopens)
        open_again(a);
    pthread_mutex_lock(&a->lock);
    if (at == text->len)
        a->stats.written += lines;
    else
        a->stats.lost += lines;
    pthread_mutex_unlock(&a->lock);
    if (at == text->len)
        tell_state(a, false, 0);
}

static void *audit_run(void *arg)
{
    struct audit *a = arg;
    struct buf text = {0};
    pthread_mutex_lock(&a->lock);
    for (;;) {
        while (a->waiting.len == 0 && !a->reopens && !a->stops)
            pthread_cond_wait(&a->wake, &a->lock);
        if (a->waiting.len == 0 && !a->reopens)
            break;
        struct buf taken = a->waiting;
        uint64_t lines = a->n_waiting;
        bool reopens = audit_take_reopen(a);
        buf_clear(&text);
        a->waiting = text;
        a->n_waiting = 0;
        text = taken;
        pthread_mutex_unlock(&a->lock);
        if (reopens)
            open_again(a);
        if (text.len > 0)
            write_out(a, &text, lines);
        pthread_mutex_lock(&a->lock);
    }
    pthread_mutex_unlock(&a->lock);
    buf_done(&text);
    return NULL;
}

/* --- from outside ----------------------------------------------------------------------------- */

struct audit *audit_open(const struct audit_options *options)
{
    uint64_t size;
    int fd = open_file(options->path, &size);
    if (fd < 0)
        return NULL;
    struct audit *a = xcalloc(sizeof *a);
    pthread_condattr_t monotonic;
    a->o = *options;
    a->path = xstrdup(str_of(options->path));
    a->fd = fd;
    a->size = size;
    pthread_mutex_init(&a->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&a->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int error = pthread_create(&a->thread, NULL, audit_run, a);
    if (error == 0)
        return a;
    close(fd);
    free(a->path);
    free(a);
    errno = error;
    return NULL;
}

void audit_reopen(struct audit *a)
{
    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    a->reopens = true;
    pthread_cond_signal(&a->wake);
    pthread_mutex_unlock(&a->lock);
}

struct audit_stats audit_stats(struct audit *a)
{
    struct audit_stats stats = {0};
    if (!a)
        return stats;
    pthread_mutex_lock(&a->lock);
    stats = a->stats;
    pthread_mutex_unlock(&a->lock);
    return stats;
}

void audit_close(struct audit *a)
{
    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    a->stops = true;
    pthread_cond_signal(&a->wake);
    pthread_mutex_unlock(&a->lock);
    pthread_join(a->thread, NULL);
    close(a->fd);
    pthread_mutex_destroy(&a->lock);
    pthread_cond_destroy(&a->wake);
    buf_done(&a->waiting);
    free(a->path);
    free(a);
}
