#include "gateway/agents/workers.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "gateway/agents/workers_private.h"
#include "gateway/base/secret_line.h"
#include "proto/str.h"

#define LEAST_SECRET 16 /* bytes */

/* --- secrets ---------------------------------------------------------------------------------- */

/* NULL: it can be used. */
static const char *read_secret(const char *file, struct buf *ret)
{
    struct stat is;
    const char *wrong = secret_line_read(file, WORKER_MAX_SECRET, ret);
    if (wrong)
        return wrong;
    if (stat(file, &is) == 0 && (is.st_mode & S_IRWXO))
        return "others may read it: chmod o= it";
    return ret->len < LEAST_SECRET ? "the first line is shorter than 16 bytes" : NULL;
}

static bool read_secrets(const struct config *config, struct worker *list, struct buf *ret_faults)
{
    bool good = true;
    for (size_t i = 0; i < config->n_workers; i++) {
        struct buf secret = {0};
        const char *wrong = read_secret(config->workers[i].secret_file, &secret);
        if (wrong)
            buf_putf(ret_faults, "workers[%zu].secret_file: %s: %s\n", i,
                     config->workers[i].secret_file, wrong);
        good = good && !wrong;
        if (list)
            list[i].secret = secret;
        else
            secret_line_done(&secret);
    }
    return good;
}

bool workers_check(const struct config *config, struct buf *ret_faults)
{
    return read_secrets(config, NULL, ret_faults);
}

/* In a time that does not depend on where they differ, or on their lengths. */
static bool is_secret(const struct buf *secret, struct str given)
{
    char padded[2][WORKER_MAX_SECRET] = {{0}};
    memcpy(padded[0], secret->bytes, secret->len);
    memcpy(padded[1], given.p, given.n);
    bool same = CRYPTO_memcmp(padded[0], padded[1], WORKER_MAX_SECRET) == 0;
    OPENSSL_cleanse(padded, sizeof padded);
    return same && secret->len == given.n;
}

struct instance *workers_hello(struct workers *w, const struct worker_decoder *d,
                               const struct worker_frame *hello, const struct worker_wire *wire,
                               enum error *ret_error, const char **ret_why)
{
    struct worker *found = NULL;
    for (size_t i = 0; i < w->n; i++) { /* each, so that the time does not tell which names exist */
        bool same = is_secret(&w->list[i].secret, hello->secret);
        if (same && str_eq(str_of(w->list[i].config->name), hello->worker))
            found = &w->list[i];
    }
    w->stats.refused += !found;
    *ret_error = found ? ERR_BAD_REQUEST : ERR_UNAUTHORIZED;
    *ret_why = "the worker's name or secret is wrong";
    return found ? instance_hello(w, found, d, hello, wire, ret_why) : NULL;
}

bool workers_are_resuming(const struct workers *w)
{
    return w->n_recalls > 0;
}

void workers_watch(struct workers *w, void (*resumed)(void *arg), void *arg)
{
    w->resumed = resumed;
    w->resumed_arg = arg;
}

/* --- opening and closing ---------------------------------------------------------------------- */

struct workers *workers_open(const struct config *config, struct hub *hub, struct buf *ret_faults)
{
    static const uint64_t no_secret[2]; /* the ids are the gateway's own */
    struct workers *w = xcalloc(sizeof *w);
    w->hub = hub;
    w->config = config;
    w->n = config->n_workers;
    w->list = xcalloc((w->n + 1) * sizeof *w->list);
    for (size_t i = 0; i < w->n; i++)
        w->list[i].config = &config->workers[i];
    struct list *const lists[] = {&w->instances, &w->waiting, &w->adrift, &w->noted, &w->flying};
    for (size_t i = 0; i < countof(lists); i++)
        list_init(lists[i]);
    map_init(&w->runs, no_secret, run_key);
    if (read_secrets(config, w->list, ret_faults))
        return w;
    workers_close(w);
    return NULL;
}

void workers_add_secrets(const struct workers *w, struct secrets *s)
{
    for (size_t i = 0; i < w->n; i++)
        secrets_add(s, buf_str(&w->list[i].secret));
}

void workers_start(struct workers *w)
{
    map_init(&w->shares, w->hub->streams.secret, share_key);
}

void workers_stop(struct workers *w)
{
    w->stops = true;
    timer_disarm(&w->hub->clock, &w->due);
    list_each (it, &w->instances)
        timer_disarm(&w->hub->clock, &list_item(it, struct instance, all)->grace);
}

void workers_close(struct workers *w)
{
    if (!w)
        return;
    while (!list_is_empty(&w->instances)) {
        struct instance *i = list_item(w->instances.next, struct instance, all);
        while (!list_is_empty(&i->runs))
            run_forget(list_item(i->runs.next, struct run, at));
        instance_free(i);
    }
    for (size_t i = 0; i < w->n; i++)
        secret_line_done(&w->list[i].secret);
    map_done(&w->runs);
    map_done(&w->shares);
    free(w->list);
    free(w);
}

/* --- for the operator ------------------------------------------------------------------------- */

const struct workers_stats *workers_stats(const struct workers *w)
{
    return &w->stats;
}

size_t workers_count(const struct workers *w)
{
    return w->n;
}

uint32_t workers_waiting(const struct workers *w)
{
    return w->n_waiting;
}

struct worker_view workers_view(const struct workers *w, size_t at)
{
    const struct worker *worker = &w->list[at];
    struct worker_view v = {.name = worker->config->name,
                            .runs = worker->n_runs,
                            .most = worker->config->runs,
                            .draining = worker->draining};
    list_each (it, &w->instances) {
        const struct instance *i = list_item(it, struct instance, all);
        if (i->worker == worker)
            i->is_here ? v.instances++ : v.away++;
    }
    return v;
}

static void put_instance(struct buf *out, const struct instance *i)
{
    buf_puts(out, out->bytes[out->len - 1] == '[' ? "{" : ",{");
    js_put_field(out, "instance", str_of(i->id));
    js_put_field(out, "status",
                 !i->is_here ? STR("away")
                 : i->drains ? STR("draining")
                             : STR("serving"));
    js_put_raw(out, "agents", STR("["));
    for (size_t at = 0; at < i->agents.len; at += strlen(i->agents.bytes + at) + 1) {
        if (at)
            buf_putc(out, ',');
        js_put_str(out, str_of(i->agents.bytes + at));
    }
    buf_putc(out, ']');
    js_put_int(out, "runs", i->n_runs);
    js_put_int(out, "most", i->most);
    buf_putc(out, '}');
}

void workers_put(const struct workers *w, struct buf *out)
{
    buf_puts(out, "{\"type\":\"workers\"");
    js_put_int(out, "waiting", w->n_waiting);
    js_put_raw(out, "workers", STR("["));
    for (size_t k = 0; k < w->n; k++) {
        struct worker_view v = workers_view(w, k);
        buf_puts(out, k ? ",{" : "{");
        js_put_field(out, "worker", str_of(v.name));
        js_put_int(out, "runs", v.runs);
        js_put_int(out, "most", v.most);
        js_put_bool(out, "draining", v.draining);
        js_put_raw(out, "instances", STR("["));
        list_each (it, &w->instances) {
            const struct instance *i = list_item(it, struct instance, all);
            if (i->worker == &w->list[k])
                put_instance(out, i);
        }
        buf_puts(out, "]}");
    }
    buf_puts(out, "]}");
}

bool workers_drain(struct workers *w, struct str name, bool on)
{
    struct worker *found = NULL;
    for (size_t i = 0; i < w->n; i++)
        if (str_eq(str_of(w->list[i].config->name), name))
            found = &w->list[i];
    if (!found)
        return false;
    found->draining = on;
    list_each (it, &w->instances) {
        struct instance *i = list_item(it, struct instance, all);
        if (i->worker == found && on)
            instance_say_drain(i);
    }
    places_give(w);
    return true;
}
