#include "gateway/auth/jwks.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/backoff.h"
#include "gateway/base/log.h"
#include "gateway/fetch/fetch.h"

#define FETCH_MS 10000 /* a whole try */
#define FIRST_AGAIN_MS 1000
#define MOST_AGAIN_MS 60000

struct jwks {
    struct clock *clock;
    struct fetcher *fetcher;
    const char *url;
    char *file;
    struct fetch_options options;
    struct timer timer;
    struct fetch *fetch; /* done ones too, until the next begins */
    bool flies;
    bool is_big; /* the reply under way is too large */
    struct buf reply;
    msec_t read_at;    /* of the keys */
    unsigned asks;     /* that tokens with an unknown kid may cause now */
    msec_t asks_at;    /* when they were counted */
    unsigned failures; /* in a row */
    struct jwks_stats stats;
    size_t n_keys;
    struct jwt_key keys[JWKS_KEYS];
};

/* --- keys ------------------------------------------------------------------------------------- */

static void drop_keys(struct jwks *j)
{
    while (j->n_keys)
        jwt_key_done(&j->keys[--j->n_keys]);
}

/* False: there is none that is known. */
static bool take_set(struct jwks *j, struct str text)
{
    struct jwt_key keys[JWKS_KEYS];
    size_t n = jwt_keys_of_set(text, keys, JWKS_KEYS);
    if (n == 0)
        return false;
    drop_keys(j);
    memcpy(j->keys, keys, n * sizeof *keys);
    j->n_keys = n;
    return true;
}

/* --- the file: the URL, a newline, the set ---------------------------------------------------- */

static void read_kept(struct jwks *j)
{
    struct buf text = {0};
    size_t n = strlen(j->url), most = JWKS_BYTES + n + 1;
    int fd = open(j->file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return;
    ssize_t got = read(fd, buf_reserve(&text, most), most);
    close(fd);
    bool is_ours = got > (ssize_t)n && memcmp(text.bytes, j->url, n) == 0 && text.bytes[n] == '\n';
    if (is_ours && take_set(j, (struct str){text.bytes + n + 1, (size_t)got - n - 1}))
        log_event(LEVEL_INFO, "auth", "keys_kept", LOG_INT("keys", (int64_t)j->n_keys));
    buf_done(&text);
}

/* A whole one, or the one that was there. */
static void write_kept(struct jwks *j)
{
    struct buf part = {0}, text = {0};
    buf_putf(&part, "%s.part", j->file);
    buf_putf(&text, "%s\n", j->url);
    buf_putstr(&text, buf_str(&j->reply));
    int fd = open(part.bytes, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool good = fd >= 0 && write(fd, text.bytes, text.len) == (ssize_t)text.len && fsync(fd) == 0;
    if (fd >= 0 && close(fd) < 0)
        good = false;
    if (!good || rename(part.bytes, j->file) < 0)
        log_event_limited(LEVEL_WARN, "auth", "keys_not_written", LOG_TEXT("file", j->file));
    buf_done(&part);
    buf_done(&text);
}

/* --- fetching --------------------------------------------------------------------------------- */

static bool jwks_on_bytes(void *user, struct str bytes)
{
    struct jwks *j = user;
    j->is_big = j->is_big || j->reply.len + bytes.n > JWKS_BYTES;
    if (!j->is_big)
        buf_putstr(&j->reply, bytes);
    return true;
}

static void jwks_failed(struct jwks *j, struct str why)
{
    j->stats.failed++;
    if (j->failures++ == 0)
        log_event(LEVEL_ERROR, "auth", "keys_not_fetched", LOG_STR("why", why),
                  LOG_INT("keys", (int64_t)j->n_keys));
    timer_arm(j->clock, &j->timer,
              j->clock->now_ms + backoff_ms(j->failures, FIRST_AGAIN_MS, MOST_AGAIN_MS));
}

static void jwks_came(struct jwks *j)
{
    j->stats.fetched++;
    if (j->stats.fetched == 1 || j->failures)
        log_event(LEVEL_INFO, "auth", "keys_fetched", LOG_INT("keys", (int64_t)j->n_keys));
    j->failures = 0;
    j->read_at = j->clock->now_ms;
    write_kept(j);
    timer_arm(j->clock, &j->timer, j->clock->now_ms + JWKS_FRESH_MS);
}

static void jwks_on_done(void *user, struct str error)
{
    struct jwks *j = user;
    j->flies = false;
    if (error.p)
        jwks_failed(j, error);
    else if (j->is_big)
        jwks_failed(j, STR("the set is too large"));
    else if (!take_set(j, buf_str(&j->reply)))
        jwks_failed(j, STR("that is no set of keys, or has none that can be used"));
    else
        jwks_came(j);
    buf_done(&j->reply);
}

static const struct fetch_events jwks_events = {.on_bytes = jwks_on_bytes, .on_done = jwks_on_done};

static void jwks_fetch(struct jwks *j)
{
    static const char *const headers[] = {"Accept: application/jwk-set+json, application/json",
                                          NULL};
    if (j->flies)
        return;
    fetch_free(j->fetch);
    buf_clear(&j->reply);
    j->flies = true;
    j->is_big = false;
    j->fetch =
        fetch_start(j->fetcher, &j->options,
                    &(struct fetch_request){.url = j->url, .headers = headers}, &jwks_events, j);
}

static void jwks_on_timer(struct timer *timer)
{
    jwks_fetch(container_of(timer, struct jwks, timer));
}

/* --- the port --------------------------------------------------------------------------------- */

struct jwks *jwks_open(struct clock *clock, struct fetcher *fetcher, const char *url,
                       const char *data_dir)
{
    struct jwks *j = xcalloc(sizeof *j);
    struct buf file = {0};
    buf_putf(&file, "%s/jwks.json", data_dir);
    j->clock = clock;
    j->fetcher = fetcher;
    j->url = url;
    j->file = buf_take(&file);
    j->options = (struct fetch_options){.connect_ms = FETCH_MS, .total_ms = FETCH_MS};
    j->timer.fire = jwks_on_timer;
    j->read_at = j->asks_at = clock->now_ms;
    j->asks = JWKS_BURST;
    read_kept(j);
    jwks_fetch(j);
    return j;
}

void jwks_close(struct jwks *j)
{
    if (!j)
        return;
    timer_disarm(j->clock, &j->timer);
    fetch_free(j->fetch);
    buf_done(&j->reply);
    drop_keys(j);
    free(j->file);
    free(j);
}

const struct jwt_key *jwks_keys(const struct jwks *j, size_t *ret_n)
{
    *ret_n = j->n_keys;
    return j->keys;
}

static bool may_ask(struct jwks *j)
{
    msec_t more = (j->clock->now_ms - j->asks_at) / JWKS_COOL_MS;
    j->asks_at += more * JWKS_COOL_MS;
    j->asks = more > JWKS_BURST - j->asks ? JWKS_BURST : j->asks + (unsigned)more;
    if (j->asks == 0)
        return false;
    j->asks--;
    return true;
}

bool jwks_miss(struct jwks *j)
{
    if (!j->flies && may_ask(j))
        jwks_fetch(j);
    return j->flies || j->n_keys == 0;
}

struct jwks_stats jwks_stats(const struct jwks *j)
{
    struct jwks_stats stats = {.age_ms = -1};
    if (!j)
        return stats;
    stats = j->stats;
    stats.age_ms = j->n_keys ? j->clock->now_ms - j->read_at : -1;
    return stats;
}
