#include "gateway/base/log.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "core/secrets.h"
#include "proto/js.h"

static const char *const level_names[] = {"debug", "info", "warn", "error"};

static _Atomic int log_level = LEVEL_INFO;
static _Atomic int log_format = FORMAT_LOGFMT;
static _Atomic int log_process = -1; /* of a crew; -1: the process is alone */
static const struct secrets *_Atomic hidden;
static pthread_mutex_t rate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t write_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t n_lost; /* lines since the last one that was written whole */
static bool is_torn;    /* the last line was cut: the next output begins a new one */

void log_open(enum log_level level, enum log_format format)
{
    atomic_store(&log_level, (int)level);
    atomic_store(&log_format, (int)format);
}

void log_set_process(int process)
{
    atomic_store(&log_process, process);
}

void log_hide(const struct secrets *secrets)
{
    atomic_store(&hidden, secrets);
}

bool log_is_on(enum log_level level)
{
    return (int)level >= atomic_load_explicit(&log_level, memory_order_relaxed);
}

/* --- one line --------------------------------------------------------------------------------- */

/* A terminal must not obey what a peer has written: JSON allows DEL and the C1 controls (U+0080 to
 * U+009F) unescaped. */
static void put_quoted(struct buf *out, struct str text)
{
    size_t begun = out->len;

    js_put_str(out, text);
    for (size_t i = begun; i < out->len; i++) {
        unsigned char c = (unsigned char)out->bytes[i];
        if (c == 0x7f)
            out->bytes[i] = '?';
        else if (c == 0xc2 && i + 1 < out->len && (unsigned char)out->bytes[i + 1] < 0xa0)
            out->bytes[i] = out->bytes[i + 1] = '?';
    }
}

static bool is_bare(struct str text)
{
    if (!text.p || text.n == 0)
        return false;
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        bool plain = c > ' ' && c < 0x7f && c != '"' && c != '=' && c != '\\';
        if (!plain)
            return false;
    }
    return true;
}

static void log_put_clean(struct buf *out, enum log_format format, const char *key, struct str text)
{
    text.n = utf8_cut(text, LOG_VALUE_MAX);
    if (format == FORMAT_JSON) {
        js_put_key(out, key);
        put_quoted(out, text);
        return;
    }
    buf_putf(out, "%s%s=", out->len ? " " : "", key);
    if (is_bare(text))
        buf_putstr(out, text);
    else
        put_quoted(out, text);
}

static void log_put_text(struct buf *out, enum log_format format, const char *key, struct str text)
{
    struct buf clean = {0};
    if (secrets_hide(atomic_load(&hidden), text, &clean))
        text = buf_str(&clean);
    log_put_clean(out, format, key, text);
    buf_done(&clean);
}

static void put_number(struct buf *out, enum log_format format, const char *key, int64_t number)
{
    if (format == FORMAT_JSON)
        js_put_int(out, key, number);
    else
        buf_putf(out, " %s=%lld", key, (long long)number);
}

void log_line(struct buf *out, enum log_format format, int64_t wall_ms,
              const struct log_entry *entry)
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm tm;
    char day[32], ts[48];

    gmtime_r(&seconds, &tm);
    strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(ts, sizeof ts, "%s.%03dZ", day, (int)(wall_ms % 1000));
    if (format == FORMAT_JSON)
        buf_putc(out, '{');
    log_put_text(out, format, "ts", str_of(ts));
    log_put_text(out, format, "level", str_of(level_names[entry->level]));
    int process = atomic_load(&log_process);
    if (process >= 0)
        put_number(out, format, "process", process);
    log_put_text(out, format, "component", str_of(entry->component));
    log_put_text(out, format, "event", str_of(entry->event));
    for (const struct log_field *field = entry->fields; field->key; field++) {
        if (field->text.p)
            log_put_text(out, format, field->key, field->text);
        else
            put_number(out, format, field->key, field->number);
    }
    if (format == FORMAT_JSON)
        buf_putc(out, '}');
}

/* --- out -------------------------------------------------------------------------------------- */

/* The reader of the log may have stopped: a pager, a stuck log driver.  The loop must not stop with
 * it, so one line waits LOG_WAIT_MS, and until a write succeeds the following ones are lost at
 * once. */
static bool can_write(void)
{
    struct pollfd out = {STDERR_FILENO, POLLOUT, 0};
    int n;
    do
        n = poll(&out, 1, n_lost > 0 ? 0 : LOG_WAIT_MS);
    while (n < 0 && errno == EINTR);
    return n > 0;
}

/* False when the line, or its end, was lost: there is nobody to tell.  A pipe that is ready for
 * writing takes PIPE_BUF bytes without waiting. */
static bool write_all(struct str text)
{
    size_t all = text.n;
    while (text.n > 0 && can_write()) {
        ssize_t n = write(STDERR_FILENO, text.p, text.n < PIPE_BUF ? text.n : PIPE_BUF);
        if (n < 0 && errno != EINTR)
            break;
        if (n > 0)
            text = (struct str){text.p + n, text.n - (size_t)n};
    }
    is_torn = text.n > 0 && (is_torn || text.n < all);
    return text.n == 0;
}

static int64_t milliseconds(clockid_t of)
{
    struct timespec t;

    clock_gettime(of, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void log_put_line(struct buf *out, const struct log_entry *entry, uint64_t left_out)
{
    struct buf line = {0};
    enum log_format format = (enum log_format)atomic_load(&log_format);

    log_line(&line, format, milliseconds(CLOCK_REALTIME), entry);
    if (left_out > 0) {
        if (format == FORMAT_JSON)
            line.len--;
        put_number(&line, format, "left_out", (int64_t)left_out);
        if (format == FORMAT_JSON)
            buf_putc(&line, '}');
    }
    buf_putc(&line, '\n');
    buf_putstr(out, buf_str(&line));
    buf_done(&line);
}

void log_write(enum log_level level, const char *component, const char *event,
               const struct log_field *fields, uint64_t left_out)
{
    struct buf text = {0};

    pthread_mutex_lock(&write_lock);
    if (is_torn)
        buf_putc(&text, '\n');
    if (n_lost > 0) {
        struct log_entry lost = {LEVEL_WARN, "log", "lost", LOG_FIELDS(LOG_INT("lines", n_lost))};
        log_put_line(&text, &lost, 0);
    }
    log_put_line(&text, &(struct log_entry){level, component, event, fields}, left_out);
    n_lost = write_all(buf_str(&text)) ? 0 : n_lost + 1;
    pthread_mutex_unlock(&write_lock);
    buf_done(&text);
}

bool log_rate_allows(struct log_rate *rate, uint64_t *ret_left_out)
{
    msec_t now = milliseconds(CLOCK_MONOTONIC);

    pthread_mutex_lock(&rate_lock);
    msec_t regained = (now - rate->since) / 1000;
    if (rate->spent <= regained) {
        rate->spent = 0;
        rate->since = now;
    } else if (regained > 0) {
        rate->spent -= (uint32_t)regained;
        rate->since += regained * 1000;
    }
    bool allowed = rate->spent < LOG_BURST;
    if (allowed) {
        rate->spent++;
        *ret_left_out = rate->left_out;
        rate->left_out = 0;
    } else {
        rate->left_out++;
    }
    pthread_mutex_unlock(&rate_lock);
    return allowed;
}
