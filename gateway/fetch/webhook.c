/* An entry is waiting, flying or over.  It is over when its fetch has reported the end: a fetch
 * must not be freed in its own callback, so the timer, which fires in the same turn or the next,
 * frees it. */
#include "gateway/fetch/webhook.h"

#include <openssl/crypto.h>
#include <stdlib.h>

#include "core/backoff.h"
#include "gateway/base/log.h"
#include "gateway/config/config.h"
#include "gateway/fetch/fetch.h"
#include "proto/faces/a2a.h"
#include "proto/webhook.h"

#define FIRST_RETRY_MS 1000
#define LAST_RETRY_MS 3600000
#define CONNECT_MS 10000
#define PAGE 64

/* Clients' own webhooks: strangers' servers must not keep others waiting. */
static const struct config_hook of_tasks = {
    .name = OUTBOX_OF_TASKS, .timeout_s = 5, .give_up_s = 600, .at_once = 16};
#define OWNER_AT_ONCE 2 /* of one owner's webhooks */
#define OWNER_ITEMS (HOOK_ITEMS / 4)
#define OWNER_BYTES (HOOK_BYTES / 4)

struct entry {
    struct list node;
    struct hook *hook;
    int64_t key, at;
    unsigned tries;
    msec_t due;
    struct fetch *fetch;
    bool delivered;
    unsigned slot;
    uint64_t owner; /* of a task's webhook: a hash of its owner */
    char id[TASK_ID_LEN + 1];
    size_t len;
    char body[];
};

struct hook {
    struct webhooks *all;
    const struct config_hook *config;
    struct buf secret;
    struct fetch_options options;
    struct list waiting, flying, over;
    size_t n, bytes; /* the entries of all three, and their bodies */
    unsigned n_flying;
    int64_t loaded; /* the key of the newest entry that was ever in the window */
    bool behind;    /* the store has more */
    bool missed;    /* a new entry came during the query */
    bool asking;
    msec_t ask_at; /* the store could not be read: when to ask again */
};

struct webhooks {
    struct hub *hub;
    struct fetcher *fetcher;
    const struct config *config;
    struct hook *hooks;
    const char **names;
    size_t n;          /* the last one is of_tasks */
    struct js_doc doc; /* scratch */
    struct timer timer;
    bool started, closing;
    struct webhook_stats stats;
};

static void proceed(struct webhooks *w);

static msec_t now(const struct webhooks *w)
{
    return w->hub->clock.now_ms;
}

static const char *name_of(const struct hook *h)
{
    return h->config == &of_tasks ? "(of a task)" : h->config->name;
}

/* --- the window ------------------------------------------------------------------------------- */

static bool webhook_has_room(const struct hook *h, size_t bytes)
{
    return h->n == 0 || (h->n < HOOK_ITEMS && h->bytes + bytes <= HOOK_BYTES);
}

static uint64_t hash_of_owner(struct hook *h, struct str body)
{
    struct js_doc *doc = &h->all->doc;
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    bool good = h->config == &of_tasks && js_parse(doc, body.p, body.n, JS_OURS);
    uint32_t at = good && js_type(doc, 0) == JS_OBJECT ? js_get(doc, 0, "owner") : 0;
    struct str owner = at ? js_raw(doc, at) : STR("");
    for (size_t i = 0; i < owner.n; i++)
        hash = (hash ^ (unsigned char)owner.p[i]) * 0x100000001b3u;
    return hash;
}

static void add_entry(struct hook *h, const struct outbox_record *from)
{
    struct entry *e = xcalloc(sizeof *e + from->body.n);
    *e = (struct entry){.hook = h,
                        .key = from->key,
                        .at = from->at,
                        .due = now(h->all),
                        .slot = from->slot,
                        .len = from->body.n};
    e->owner = hash_of_owner(h, from->body);
    memcpy(e->id, from->id.p, from->id.n < TASK_ID_LEN ? from->id.n : TASK_ID_LEN);
    memcpy(e->body, from->body.p, from->body.n);
    list_push(&h->waiting, &e->node);
    h->n++;
    h->bytes += e->len;
    h->loaded = from->key;
}

static void drop_entry(struct entry *e)
{
    struct hook *h = e->hook;
    list_remove(&e->node);
    fetch_free(e->fetch);
    h->n--;
    h->bytes -= e->len;
    free(e);
}

static void webhook_give_up(struct entry *e);

/* Whether the owner has no more entries in the window than a share of it. */
static bool owner_has_room(const struct hook *h, uint64_t owner, size_t bytes)
{
    const struct list *const lists[] = {&h->waiting, &h->flying, &h->over};
    size_t n = 0;
    for (size_t i = 0; i < countof(lists); i++)
        list_each (it, lists[i]) {
            const struct entry *e = list_item(it, const struct entry, node);
            n += e->owner == owner;
            bytes += e->owner == owner ? e->len : 0;
        }
    return n == 0 || (n < OWNER_ITEMS && bytes <= OWNER_BYTES);
}

/* A full window of tasks' webhooks is one of servers that do not answer: the one that was tried
 * most often makes room. */
static bool webhook_make_room(struct hook *h, size_t bytes)
{
    while (!webhook_has_room(h, bytes) && !list_is_empty(&h->waiting)) {
        struct entry *worst = list_item(h->waiting.next, struct entry, node);
        list_each (it, &h->waiting) {
            struct entry *e = list_item(it, struct entry, node);
            if (e->tries > worst->tries)
                worst = e;
        }
        webhook_give_up(worst);
    }
    return webhook_has_room(h, bytes);
}

/* False: it waits in the store. Those of tasks' webhooks never do: nobody's wait for others'. */
static bool webhook_admit(struct hook *h, const struct outbox_record *row)
{
    if (h->config != &of_tasks && !webhook_has_room(h, row->body.n))
        return false;
    if (h->config != &of_tasks || (owner_has_room(h, hash_of_owner(h, row->body), row->body.n) &&
                                   webhook_make_room(h, row->body.n))) {
        add_entry(h, row);
        return true;
    }
    h->loaded = row->key;
    h->all->stats.given_up++;
    log_event_limited(LEVEL_WARN, "webhook", "given_up", LOG_TEXT("hook", name_of(h)),
                      LOG_STR("id", row->id), LOG_INT("tries", 0));
    outbox_take(h->all->hub, row->key);
    return true;
}

/* Whether it is in the window, where slots that came have made it read again. */
static bool is_loaded(struct hook *h, const struct outbox_record *row)
{
    const struct list *const lists[] = {&h->waiting, &h->flying, &h->over};
    for (size_t i = 0; i < countof(lists); i++)
        list_each (it, lists[i])
            if (list_item(it, const struct entry, node)->key == row->key) {
                h->loaded = row->key;
                return true;
            }
    return false;
}

static void on_loaded(void *arg, int status, struct answer *answer)
{
    struct hook *h = arg;
    h->asking = false;
    if (h->all->closing)
        return;
    bool full = false;
    if (status < 0)
        h->ask_at = now(h->all) + FIRST_RETRY_MS;
    for (size_t i = 0; i < answer->n_outbox && !full; i++)
        full = !is_loaded(h, &answer->outbox[i]) && !webhook_admit(h, &answer->outbox[i]);
    h->behind = status < 0 || full || answer->more || h->missed;
    h->missed = false;
    proceed(h->all);
}

static void webhook_load(struct hook *h)
{
    bool is_full = h->n > HOOK_ITEMS / 2 || h->bytes > HOOK_BYTES / 2;
    if (!h->behind || h->asking || h->ask_at > now(h->all) || (is_full && h->config != &of_tasks))
        return;
    h->asking = true;
    hub_query(h->all->hub,
              &(struct query){.kind = QUERY_OUTBOX,
                              .slots = hub_slots(h->all->hub),
                              .key = str_of(h->config->name),
                              .after = (uint64_t)h->loaded,
                              .limit = PAGE,
                              .max_bytes = HOOK_BYTES / 4},
              on_loaded, h);
}

static void on_posted(void *arg, const struct outbox_record *entry)
{
    struct webhooks *w = arg;
    for (size_t i = 0; i < w->n; i++) {
        struct hook *h = &w->hooks[i];
        if (!str_eq(entry->hook, str_of(h->config->name)))
            continue;
        if (h->behind || !webhook_admit(h, entry)) {
            h->behind = h->missed = true;
        } else {
            timer_arm(&w->hub->clock, &w->timer, now(w));
        }
    }
}

/* --- tries ------------------------------------------------------------------------------------ */

static bool webhook_on_bytes(void *user, struct str bytes)
{
    (void)user;
    (void)bytes;
    return true; /* the reply's body does not matter */
}

static void webhook_on_done(void *user, struct str error)
{
    struct entry *e = user;
    struct hook *h = e->hook;
    e->delivered = !error.p;
    if (error.p)
        log_event_limited(LEVEL_WARN, "webhook", "failed", LOG_TEXT("hook", name_of(h)),
                          LOG_TEXT("id", e->id), LOG_STR("why", error));
    list_remove(&e->node);
    list_push(&h->over, &e->node);
    h->n_flying--;
    timer_arm(&h->all->hub->clock, &h->all->timer, now(h->all));
}

static void webhook_on_head(void *user, const struct fetch_head *head)
{
    (void)user;
    (void)head;
}

static const struct fetch_events webhook_events = {webhook_on_head, webhook_on_bytes,
                                                   webhook_on_done};

/* The trace of its task, as the message says it; NULL: it says none. */
static const struct trace_context *message_trace(struct js_doc *doc, struct str message,
                                                 struct trace_context *to, char *room)
{
    bool given =
        js_parse(doc, message.p, message.n, JS_OURS) && trace_read_members(doc, 0, to, room);
    return given ? to : NULL;
}

static void start_post(struct entry *e, const char *url, const char *const *headers,
                       struct str message, struct str body)
{
    struct hook *h = e->hook;
    struct trace_context trace;
    char state[MAX_TRACESTATE];
    list_remove(&e->node);
    list_push(&h->flying, &e->node);
    h->n_flying++;
    struct fetch_request request = {.url = url,
                                    .headers = headers,
                                    .body = body,
                                    .trace = message_trace(&h->all->doc, message, &trace, state)};
    e->fetch = fetch_start(h->all->fetcher, &h->options, &request, &webhook_events, e);
}

/* To the server that the entry itself names; it has no secret to be signed with. False: the entry
 * cannot be read. */
static bool post_to_target(struct entry *e, const char *id, const char *when)
{
    struct js_doc *doc = &e->hook->all->doc;
    struct webhook_target target;
    struct buf body = {0};
    bool good = webhook_target_read(doc, (struct str){e->body, e->len}, &target);
    if (good && target.a2a)
        good = a2a_put_push(doc, buf_str(&target.message), &body);
    else if (good)
        buf_putstr(&body, buf_str(&target.message));
    if (good) {
        const char *headers[4 + MAX_WEBHOOK_HEADERS] = {
            target.a2a ? "Content-Type: application/a2a+json" : "Content-Type: application/json",
            id, when};
        for (size_t i = 0; i < MAX_WEBHOOK_HEADERS; i++)
            headers[3 + i] = target.headers[i];
        start_post(e, target.url, headers, buf_str(&target.message), buf_str(&body));
    }
    webhook_target_done(&target);
    buf_done(&body);
    return good;
}

static void post_signed(struct entry *e, const char *id, const char *when, int64_t at)
{
    struct hook *h = e->hook;
    struct str body = {e->body, e->len};
    struct buf signature = {0};
    buf_puts(&signature, "webhook-signature: ");
    webhook_sign(buf_str(&h->secret), str_of(e->id), at, body, &signature);
    const char *headers[] = {"Content-Type: application/json", id, when, signature.bytes, NULL};
    start_post(e, h->config->url, headers, body, body);
    buf_done(&signature);
}

static void post(struct entry *e)
{
    struct hook *h = e->hook;
    int64_t at = h->all->hub->clock.wall_ms / 1000;
    struct buf id = {0}, when = {0};
    buf_putf(&id, "webhook-id: %s", e->id);
    buf_putf(&when, "webhook-timestamp: %lld", (long long)at);
    if (h->config != &of_tasks)
        post_signed(e, id.bytes, when.bytes, at);
    else if (!post_to_target(e, id.bytes, when.bytes))
        webhook_give_up(e);
    buf_done(&id);
    buf_done(&when);
}

static bool may_fly(const struct entry *e)
{
    struct hook *h = e->hook;
    uint32_t n = 0;
    if (h->n_flying >= h->config->at_once || !hub_is_trusted(h->all->hub))
        return false;
    if (h->config == &of_tasks)
        list_each (it, &h->flying)
            n += list_item(it, struct entry, node)->owner == e->owner;
    return n < OWNER_AT_ONCE;
}

static msec_t retry_ms(const struct webhooks *w, unsigned tries)
{
    uint32_t random = 0;
    ASSERT(w->hub->o.random(&random, sizeof random));
    msec_t wait = backoff_ms(tries, FIRST_RETRY_MS, LAST_RETRY_MS);
    return backoff_between(wait - wait / 4, wait + wait / 4, random);
}

static bool is_too_old(const struct entry *e)
{
    const struct hook *h = e->hook;
    return h->all->hub->clock.wall_ms - e->at > (int64_t)h->config->give_up_s * 1000;
}

static void webhook_finish(struct entry *e)
{
    struct webhooks *w = e->hook->all;
    outbox_take(w->hub, e->key);
    drop_entry(e);
}

static void webhook_settle(struct entry *e)
{
    struct hook *h = e->hook;
    if (e->delivered) {
        h->all->stats.delivered++;
        webhook_finish(e);
        return;
    }
    h->all->stats.failed++;
    fetch_free(e->fetch);
    e->fetch = NULL;
    e->due = now(h->all) + retry_ms(h->all, ++e->tries);
    list_remove(&e->node);
    list_push(&h->waiting, &e->node);
}

static void webhook_give_up(struct entry *e)
{
    struct hook *h = e->hook;
    h->all->stats.given_up++;
    log_event_limited(LEVEL_ERROR, "webhook", "given_up", LOG_TEXT("hook", name_of(h)),
                      LOG_TEXT("id", e->id), LOG_INT("tries", e->tries));
    webhook_finish(e);
}

/* When the next of its entries is due; -1: no entry waits, or no more may fly. */
static msec_t run_hook(struct hook *h)
{
    msec_t next = -1;
    list_each (it, &h->over)
        webhook_settle(list_item(it, struct entry, node));
    list_each (it, &h->waiting) {
        struct entry *e = list_item(it, struct entry, node);
        if (is_too_old(e))
            webhook_give_up(e);
        else if (e->due <= now(h->all) && may_fly(e))
            post(e);
        else if (e->due > now(h->all) && (next < 0 || e->due < next))
            next = e->due;
    }
    webhook_load(h);
    if (h->behind && h->ask_at > now(h->all) && (next < 0 || h->ask_at < next))
        next = h->ask_at;
    return next;
}

static void proceed(struct webhooks *w)
{
    msec_t next = -1;
    for (size_t i = 0; i < w->n && w->started && !w->closing; i++) {
        msec_t due = run_hook(&w->hooks[i]);
        if (due >= 0 && (next < 0 || due < next))
            next = due;
    }
    if (next >= 0 && (!timer_is_armed(&w->timer) || w->timer.due > next))
        timer_arm(&w->hub->clock, &w->timer, next);
}

static void webhook_on_timer(struct timer *timer)
{
    proceed(container_of(timer, struct webhooks, timer));
}

/* --- outside ---------------------------------------------------------------------------------- */

static bool open_hook(struct webhooks *w, struct hook *h, const struct config_hook *config,
                      struct secrets *hidden, char *ret_error, size_t n)
{
    const struct config *c = w->config;
    *h = (struct hook){.all = w, .config = config, .behind = true};
    h->options = (struct fetch_options){.ca_file = config->ca_file,
                                        .connect_ms = CONNECT_MS,
                                        .total_ms = (msec_t)config->timeout_s * 1000,
                                        .once = true,
                                        .guarded = true,
                                        .allow = c->webhook_allow_nets,
                                        .n_allow = c->webhook_allow.n};
    list_init(&h->waiting);
    list_init(&h->flying);
    list_init(&h->over);
    if (config == &of_tasks)
        return true;
    return webhook_secret(config->secret_file, hidden, &h->secret, ret_error, n);
}

struct webhooks *webhooks_open(struct hub *hub, struct fetcher *fetcher, const struct config *c,
                               struct secrets *hidden, char *ret_error, size_t n)
{
    struct webhooks *w = xcalloc(sizeof *w);
    w->hub = hub;
    w->fetcher = fetcher;
    w->config = c;
    w->timer.fire = webhook_on_timer;
    w->hooks = xcalloc((c->n_webhooks + 1) * sizeof *w->hooks);
    w->names = xcalloc((c->n_webhooks + 1) * sizeof *w->names);
    for (; w->n <= c->n_webhooks; w->n++) {
        bool is_last = w->n == c->n_webhooks;
        const struct config_hook *config = is_last ? &of_tasks : &c->webhooks[w->n];
        w->names[w->n] = config->name;
        if (!open_hook(w, &w->hooks[w->n], config, hidden, ret_error, n)) {
            w->n++;
            webhooks_close(w);
            return NULL;
        }
    }
    return w;
}

struct outbox_options webhooks_outbox(struct webhooks *w)
{
    return (struct outbox_options){
        .hooks = w->names, .n_hooks = w->n - 1, .posted = on_posted, .arg = w};
}

void webhooks_start(struct webhooks *w)
{
    w->started = true;
    for (size_t i = 0; i < w->n; i++) {
        struct hook *h = &w->hooks[i];
        h->loaded = 0;
        h->behind = true;
        h->missed = h->asking;
    }
    proceed(w);
}

static void leave_entries(struct hook *h, const struct slots *slots)
{
    list_each (it, &h->waiting) {
        struct entry *e = list_item(it, struct entry, node);
        if (slots_has(slots, e->slot))
            drop_entry(e);
    }
}

void webhooks_leave(struct webhooks *w, const struct slots *slots)
{
    for (size_t i = 0; i < w->n; i++)
        leave_entries(&w->hooks[i], slots);
}

struct webhook_stats webhooks_stats(const struct webhooks *w)
{
    struct webhook_stats stats = w->stats;
    for (size_t i = 0; i < w->n; i++)
        stats.pending += w->hooks[i].n;
    return stats;
}

static void drop_all(struct list *entries)
{
    list_each (it, entries)
        drop_entry(list_item(it, struct entry, node));
}

void webhooks_close(struct webhooks *w)
{
    if (!w)
        return;
    w->closing = true;
    for (size_t i = 0; i < w->n; i++) {
        struct hook *h = &w->hooks[i];
        drop_all(&h->waiting);
        drop_all(&h->flying);
        drop_all(&h->over);
        if (h->secret.len)
            OPENSSL_cleanse(h->secret.bytes, h->secret.len);
        buf_done(&h->secret);
    }
    free(w->names);
    free(w->hooks);
    js_done(&w->doc);
    free(w);
}
