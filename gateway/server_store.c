/* The store of the server: which it is, and what the log says of how it goes. */
#include <stdio.h>

#include "core/refusal.h"
#include "core/store_memory.h"
#include "gateway/base/log.h"
#include "gateway/base/secret_line.h"
#include "gateway/cluster/cluster.h"
#include "gateway/crew/crew.h"
#include "gateway/fetch/webhook.h"
#include "gateway/links/neighbours.h"
#include "gateway/server.h"
#include "gateway/store/store_locked.h"

#define URL_MAX 4096

/* --- opening ---------------------------------------------------------------------------------- */

static bool open_postgres(struct server *s, char error[STORE_ERROR_TEXT])
{
    struct buf url = {0};
    const char *wrong = secret_line_read(s->config->store.url_file, URL_MAX, &url);
    if (wrong)
        snprintf(error, STORE_ERROR_TEXT, "store.url_file: %s: %s", s->config->store.url_file,
                 wrong);
    buf_putc(&url, 0);
    struct store_pg_options o = {.url = url.bytes,
                                 .dir = s->config->data,
                                 .node = s->config->cluster.node,
                                 .replicated = s->config->store.durability == DURABLE_REPLICATED,
                                 .takes_no_slots = s->config->cluster.front_only,
                                 .is_crew = s->member != NULL,
                                 .clock_off_s = s->member && s->member->at > 0
                                                    ? 0 /* the first has passed */
                                                    : s->config->cluster.clock_off_s,
                                 .lease_s = s->config->cluster.lease_s,
                                 .redo_bytes = (size_t)s->config->store.redo_mib << 20};
    bool good = !wrong && store_pg_open(&o, &s->pg, error) == STORE_OK;
    secret_line_done(&url);
    s->store = s->pg;
    s->store_ops = &store_pg_ops;
    return good;
}

/* --- the cluster's questions ------------------------------------------------------------------ */

static void on_busy(void *arg, struct slots *ret)
{
    processes_mark(((struct server *)arg)->terminal.processes, ret);
}

static void on_closing(void *arg, const struct slots *slots, bool are_away)
{
    neighbours_close_slots(((struct server *)arg)->neighbours, slots, are_away);
}

static void on_leaving(void *arg, const struct slots *slots)
{
    webhooks_leave(((struct server *)arg)->webhooks, slots);
}

void server_let_go(struct server *s)
{
    bool others = cluster_has_others(s->cluster);
    if (!s->hub.draining && others)
        hub_pass_on(&s->hub);
    else if (!others && (!s->hub.draining || s->hub.passes_on))
        hub_drain(&s->hub);
}

bool server_open_store(struct server *s, void (*opened)(void *arg, int status))
{
    const struct crew_member *m = s->member;
    bool has_home = m && (m->is_home || m->is_front);
    const struct cluster_options cluster = {.opened = opened,
                                            .busy = on_busy,
                                            .closing = on_closing,
                                            .leaving = on_leaving,
                                            .arg = s,
                                            .lease_ms = (msec_t)s->config->cluster.lease_s * 1000,
                                            .uneven_percent = s->config->cluster.uneven_percent,
                                            .us = has_home ? CREW_HOME + (int64_t)m->at : 0,
                                            .home = has_home ? CREW_HOME : 0,
                                            .home_link = has_home ? m->link : NULL};
    char error[STORE_ERROR_TEXT] = "";
    if (s->config->store.kind == STORE_POSTGRES) {
        if (!open_postgres(s, error)) {
            log_event(LEVEL_ERROR, "store", "cannot_open", LOG_TEXT("why", error));
            return false;
        }
    } else if (s->config->store.kind == STORE_MEMORY) {
        s->store = store_locked_new(&store_memory_ops, store_memory_new());
        s->store_ops = &store_locked_ops;
    } else {
        struct store_sqlite_options o = {.dir = s->config->data,
                                         .power = s->config->store.durability == DURABLE_POWER};
        if (store_sqlite_open(&o, &s->sqlite, error) < 0) {
            log_event(LEVEL_ERROR, "store", "cannot_open", LOG_TEXT("why", error));
            return false;
        }
        s->store = s->sqlite;
        s->store_ops = &store_sqlite_ops;
    }
    if (store_thread_open(&s->loop, s->store_ops, s->store, 0, &s->store_thread) < 0) {
        log_event(LEVEL_ERROR, "store", "cannot_start",
                  LOG_TEXT("why", "cannot create a thread or a reader"));
        return false;
    }
    s->cluster = s->front.cluster = cluster_open(&s->loop, &s->hub, s->pg, &cluster);
    return true;
}

/* --- reports ---------------------------------------------------------------------------------- */

/* Logs when it begins and when it is over, at most once a second each. */
static void report_checkpoints(struct server *s)
{
    bool fail = s->sqlite && store_sqlite_checkpoints_fail(s->sqlite);
    if (fail == s->checkpoints_fail)
        return;
    s->checkpoints_fail = fail;
    char why[STORE_ERROR_TEXT];
    int64_t wal_bytes = (int64_t)store_sqlite_wal_bytes(s->sqlite);
    store_sqlite_last_error(s->sqlite, why);
    if (fail)
        log_event(LEVEL_ERROR, "store", "checkpoints_fail", LOG_TEXT("why", why),
                  LOG_INT("wal_bytes", wal_bytes));
    else
        log_event(LEVEL_INFO, "store", "checkpoints_again", LOG_INT("wal_bytes", wal_bytes));
}

static void report_store(struct server *s)
{
    const struct journal *j = &s->hub.journal;
    enum commits now = !j->failing ? COMMITS_WORK : j->n_tries == 0 ? COMMIT_HANGS : COMMITS_FAIL;
    if (now == s->commits)
        return;
    s->commits = now;
    char why[STORE_ERROR_TEXT] = "a commit hangs";
    if (s->sqlite && now == COMMITS_FAIL)
        store_sqlite_last_error(s->sqlite, why);
    else if (s->pg && now == COMMITS_FAIL)
        store_pg_last_error(s->pg, why);
    if (now != COMMITS_WORK)
        log_event(LEVEL_ERROR, "store", "commits_fail", LOG_TEXT("why", why));
    else
        log_event(LEVEL_INFO, "store", "commits_again", LOG_INT("tasks", s->hub.n_live));
}

/* Once for each batch, which is put again and again. */
static void report_refusal(struct server *s)
{
    const struct batch *batch = s->hub.journal.flying;
    struct refusal refusal;
    if (!s->hub.journal.failing || !batch || batch->number == s->refused ||
        !refusal_find(&s->hub, &refusal))
        return;
    s->refused = refusal.batch;
    log_event(LEVEL_ERROR, "store", "refuses", LOG_TEXT("op", refusal.op),
              LOG_TEXT("task", refusal.task_id), LOG_STR("owner", refusal.owner));
}

void server_report_repair(const struct server *s, int status)
{
    char says[STORE_ERROR_TEXT] = "";
    const char *why = status == STORE_CORRUPT   ? "a record of a live task is damaged"
                      : status == STORE_REFUSED ? "the store refuses it"
                                                : "the store cannot be read";
    if (s->pg)
        store_pg_last_error(s->pg, says);
    log_event(LEVEL_ERROR, "store", "cannot_repair", LOG_INT("status", status),
              LOG_TEXT("why", why), LOG_TEXT("store", says),
              LOG_INT("slots", cluster_count(s->cluster).unrepaired));
}

static void report_lease(struct server *s)
{
    bool sure = hub_is_trusted(&s->hub);
    if (sure == !s->unsure)
        return;
    s->unsure = !sure;
    if (sure)
        log_event(LEVEL_INFO, "cluster", "lease_again", LOG_INT("tasks", s->hub.n_live));
    else
        log_event(LEVEL_ERROR, "cluster", "lease_lapsed",
                  LOG_TEXT("why", "the store was not reached in time: nothing is said until then"));
}

void server_report_store(struct server *s)
{
    report_store(s);
    report_refusal(s);
    report_lease(s);
    report_checkpoints(s);
}
