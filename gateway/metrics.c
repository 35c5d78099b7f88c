#include "gateway/metrics.h"

#include <inttypes.h>

enum metric_kind { COUNTER, GAUGE };

struct metric {
    const char *name;
    enum metric_kind kind;
    const char *help;
    void (*write)(struct server *s, struct buf *out, const char *name);
};

static void put(struct buf *out, const char *name, const char *labels, uint64_t value)
{
    buf_putf(out, "%s%s %" PRIu64 "\n", name, labels, value);
}

static void connections(struct server *s, struct buf *out, const char *name)
{
    put(out, name, "", s->n_conns);
}

static void closes(struct server *s, struct buf *out, const char *name)
{
    static const int codes[] = {
#define X(code, value, text) value,
        CLOSE_TABLE(X)
#undef X
    };
    for (size_t i = 0; i < countof(codes); i++)
        buf_putf(out, "%s{code=\"%d\"} %" PRIu64 "\n", name, codes[i], s->closes[i]);
    put(out, name, "{code=\"none\"}", s->closes[countof(s->closes) - 1]);
}

static void tasks(struct server *s, struct buf *out, const char *name)
{
    put(out, name, "{status=\"live\"}", s->hub.n_live);
    for (int i = STATUS_COMPLETED; i <= STATUS_CANCELLED; i++)
        buf_putf(out, "%s{status=\"%s\"} %" PRIu64 "\n", name, status_name((enum task_status)i),
                 s->hub.stats.tasks_ended[i]);
}

static void events(struct server *s, struct buf *out, const char *name)
{
    put(out, name, "", s->hub.journal.n_events);
}

static void commits(struct server *s, struct buf *out, const char *name)
{
    put(out, name, "", s->hub.journal.n_commits);
}

static void commit_failures(struct server *s, struct buf *out, const char *name)
{
    put(out, name, "{operation=\"batch\"}", s->hub.journal.n_failures);
}

static void resumes(struct server *s, struct buf *out, const char *name)
{
    const struct hub_stats *st = &s->hub.stats;
    put(out, name, "{outcome=\"exact\"}", st->resumes_exact);
    put(out, name, "{outcome=\"coalesced\"}", st->resumes_coalesced);
    put(out, name, "{outcome=\"gap\"}", st->resumes_gap);
    put(out, name, "{outcome=\"ahead\"}", st->resumes_ahead);
    put(out, name, "{outcome=\"refused\"}", st->resumes_refused);
}

static void limits(struct server *s, struct buf *out, const char *name)
{
    static const char *const names[] = {
        "tasks",         "tasks_per_owner", "processes",   "requests_per_second",
        "subscriptions", "task_bytes",      "task_events", "inbox"};
    for (size_t i = 0; i < countof(names); i++)
        buf_putf(out, "%s{limit=\"%s\"} %" PRIu64 "\n", name, names[i], s->hub.stats.limit_hits[i]);
}

static void cache(struct server *s, struct buf *out, const char *name)
{
    put(out, name, "", s->hub.cache.bytes);
}

static void sent(struct server *s, struct buf *out, const char *name)
{
    put(out, name, "", s->bytes_out);
}

static const struct metric metrics[] = {
    {"holdfast_connections", GAUGE, "Open WebSocket connections.", connections},
    {"holdfast_closes_total", COUNTER, "Closed connections, by the code that we closed with.",
     closes},
    {"holdfast_tasks", GAUGE, "Tasks: live now, and ended since the start by status.", tasks},
    {"holdfast_events_total", COUNTER, "Committed events.", events},
    {"holdfast_store_commits_total", COUNTER, "Committed batches.", commits},
    {"holdfast_store_commit_failures_total", COUNTER, "Commits that failed and were tried again.",
     commit_failures},
    {"holdfast_resume_total", COUNTER, "Resumes, by outcome.", resumes},
    {"holdfast_limit_hits_total", COUNTER, "Requests that met a limit.", limits},
    {"holdfast_replay_cache_bytes", GAUGE, "Blocks of events in memory.", cache},
    {"holdfast_sent_bytes_total", COUNTER, "Bytes of messages sent.", sent},
};

void metrics_write(struct server *s, struct buf *out)
{
    for (size_t i = 0; i < countof(metrics); i++) {
        const struct metric *m = &metrics[i];
        buf_putf(out, "# HELP %s %s\n# TYPE %s %s\n", m->name, m->help, m->name,
                 m->kind == GAUGE ? "gauge" : "counter");
        m->write(s, out, m->name);
    }
}

bool metrics_are_allowed(const struct config *config, const char *ip)
{
    if (config->metrics.is_public || strcmp(ip, "127.0.0.1") == 0 || strcmp(ip, "::1") == 0 ||
        strcmp(ip, "::ffff:127.0.0.1") == 0)
        return true;
    for (size_t i = 0; i < config->metrics.allow.n; i++)
        if (strcmp(config->metrics.allow.list[i], ip) == 0)
            return true;
    return false;
}
