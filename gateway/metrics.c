#include "gateway/metrics.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/task.h"
#include "gateway/agents/agents.h"
#include "gateway/agents/exec_kept.h"
#include "gateway/agents/workers.h"
#include "gateway/base/cells.h"
#include "gateway/fetch/webhook.h"
#include "gateway/files/files.h"
#include "gateway/links/neighbours.h"
#include "gateway/metrics_requests.h"
#include "gateway/models/model_stats.h"

static void metrics_put(struct buf *out, const char *name, const char *labels, uint64_t value)
{
    buf_putf(out, "%s%s %" PRIu64 "\n", name, labels, value);
}

static void connections(struct server *s, struct buf *out, const char *name)
{
    metrics_put(out, name, "", s->front.n_conns);
}

static void closes(struct server *s, struct buf *out, const char *name)
{
    static const int codes[] = {
#define X(code, value, text) value,
        CLOSE_TABLE(X)
#undef X
    };
    for (size_t i = 0; i < countof(codes); i++)
        buf_putf(out, "%s{code=\"%d\"} %" PRIu64 "\n", name, codes[i], s->front.closes[i]);
    metrics_put(out, name, "{code=\"none\"}", s->front.closes[countof(s->front.closes) - 1]);
}

/* Live tasks by status and agent, counted on demand. */
struct census {
    const struct server *server;
    uint64_t (*n)[2]; /* by agent: pending, running; the last: agents that no longer exist */
};

static void count_task(struct map_node *node, void *arg)
{
    struct census *census = arg;
    const struct task *t = container_of(node, const struct stream, node)->task;
    if (!t)
        return;
    const struct server *s = census->server;
    size_t row = t->agent ? (size_t)(t->agent - s->agents) : s->n_agents;
    census->n[row][shown_state(t)->status == STATUS_RUNNING]++;
}

/* A label's value; a name has no control characters. */
static void put_escaped(struct buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            buf_putc(out, '\\');
        buf_putc(out, *text);
    }
}

static void put_tasks(struct buf *out, const char *name, const char *agent, const uint64_t n[2])
{
    for (int running = 0; running < 2; running++) {
        buf_putf(out, "%s{status=\"%s\",agent=\"", name, running ? "running" : "pending");
        put_escaped(out, agent);
        buf_putf(out, "\"} %" PRIu64 "\n", n[running]);
    }
}

static void tasks(struct server *s, struct buf *out, const char *name)
{
    struct census census = {s, xcalloc((s->n_agents + 1) * sizeof *census.n)};
    const uint64_t *no_agent = census.n[s->n_agents];
    map_each(&s->hub.streams, count_task, &census);
    for (size_t i = 0; i < s->n_agents; i++)
        put_tasks(out, name, s->agents[i].name, census.n[i]);
    if (no_agent[0] + no_agent[1] > 0)
        put_tasks(out, name, "", no_agent);
    free(census.n);
}

static void tasks_ended(struct server *s, struct buf *out, const char *name)
{
    for (int i = STATUS_COMPLETED; i <= STATUS_CANCELLED; i++)
        buf_putf(out, "%s{status=\"%s\"} %" PRIu64 "\n", name, status_name((enum task_status)i),
                 s->hub.stats.tasks_ended[i]);
}

static uint64_t hub_count_of(const struct hub_count counts[HUB_COUNTS], const char *what)
{
    for (size_t i = 0; i < HUB_COUNTS && counts[i].n > 0; i++)
        if (strcmp(counts[i].name, what) == 0)
            return counts[i].n;
    return 0;
}

/* A row for each kind that has agents whose tasks go on, or for one. */
static void tasks_resumed(struct server *s, struct buf *out, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n_agents; i++) {
        bool seen = !s->agents[i].goes_on;
        for (size_t j = 0; j < i; j++)
            seen = seen || (s->agents[j].goes_on &&
                            strcmp(s->agents[j].ops->kind, s->agents[i].ops->kind) == 0);
        const char *kind = s->agents[i].ops->kind;
        n += !seen;
        for (enum resumed_why w = 0; !seen && w < N_RESUMED_WHYS; w++)
            buf_putf(out, "%s{kind=\"%s\",why=\"%s\"} %" PRIu64 "\n", name, kind,
                     resumed_why_name(w), hub_count_of(s->hub.stats.resumed[w], kind));
    }
    if (n == 0)
        metrics_put(out, name, "{kind=\"react\",why=\"restart\"}", 0);
}

static void tasks_not_resumed(struct server *s, struct buf *out, const char *name)
{
    static const char *const reasons[] = {
#define X(name, label, text) label,
        NOT_RESUMED_TABLE(X)
#undef X
    };
    for (size_t i = 0; i < countof(reasons); i++)
        buf_putf(out, "%s{reason=\"%s\"} %" PRIu64 "\n", name, reasons[i],
                 s->hub.stats.not_resumed[i]);
}

static void held_agents(struct server *s, struct buf *out, const char *name)
{
    metrics_put(out, name, "", s->kept ? kept_count(s->kept) : 0);
}

static void retracted(struct server *s, struct buf *out, const char *name)
{
    metrics_put(out, name, "", s->hub.stats.retracted_bytes);
}

static void unknown_effects(struct server *s, struct buf *out, const char *name)
{
    const struct hub_count *counts = s->hub.stats.unknown_effects;
    for (size_t i = 0; i < HUB_COUNTS - 1 && counts[i].n > 0; i++) {
        buf_putf(out, "%s{tool=\"", name);
        put_escaped(out, counts[i].name);
        buf_putf(out, "\"} %" PRIu64 "\n", counts[i].n);
    }
    metrics_put(out, name, "{tool=\"other\"}", counts[HUB_COUNTS - 1].n);
}

/* labels: "" or those that stand before le, without braces. */
static void put_histogram_of(struct buf *out, const char *name, const char *labels,
                             const struct histogram *h)
{
    const char *comma = *labels ? "," : "", *open = *labels ? "{" : "", *close = *labels ? "}" : "";
    uint64_t sum = 0;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        sum += h->n[i];
        buf_putf(out, "%s_bucket{%s%sle=\"%g\"} %" PRIu64 "\n", name, labels, comma,
                 (double)histogram_bounds[i] / 1000, sum);
    }
    buf_putf(out, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, labels, comma, h->count);
    buf_putf(out, "%s_sum%s%s%s %g\n", name, open, labels, close, (double)h->sum_ms / 1000);
    buf_putf(out, "%s_count%s%s%s %" PRIu64 "\n", name, open, labels, close, h->count);
}

static void put_histogram(struct buf *out, const char *name, const struct histogram *h)
{
    put_histogram_of(out, name, "", h);
}

static void commit_time(struct server *s, struct buf *out, const char *name)
{
    put_histogram(out, name, &s->hub.journal.commit_time);
}

static void caught_up_time(struct server *s, struct buf *out, const char *name)
{
    put_histogram(out, name, &s->hub.stats.caught_up_time);
}

static void cancel_time(struct server *s, struct buf *out, const char *name)
{
    put_histogram(out, name, &s->hub.stats.cancel_time);
}

static void metrics_events(struct server *s, struct buf *out, const char *name)
{
    metrics_put(out, name, "", s->hub.journal.n_events);
}

static void commits(struct server *s, struct buf *out, const char *name)
{
    metrics_put(out, name, "", s->hub.journal.n_commits);
}

static void commit_failures(struct server *s, struct buf *out, const char *name)
{
    const uint64_t *n = s->hub.journal.n_failures;
    metrics_put(out, name, "{operation=\"events\"}", n[OPERATION_EVENTS]);
    metrics_put(out, name, "{operation=\"task_creation\"}", n[OPERATION_TASK_CREATION]);
    metrics_put(out, name, "{operation=\"task_completion\"}", n[OPERATION_TASK_COMPLETION]);
    metrics_put(out, name, "{operation=\"other\"}", n[OPERATION_OTHER]);
}

static void resumes(struct server *s, struct buf *out, const char *name)
{
    const struct hub_stats *st = &s->hub.stats;
    metrics_put(out, name, "{outcome=\"exact\"}", st->resumes_exact);
    metrics_put(out, name, "{outcome=\"coalesced\"}", st->resumes_coalesced);
    metrics_put(out, name, "{outcome=\"gap\"}", st->resumes_gap);
    metrics_put(out, name, "{outcome=\"ahead\"}", st->resumes_ahead);
    metrics_put(out, name, "{outcome=\"refused\"}", st->resumes_refused);
}

static void limits(struct server *s, struct buf *out, const char *name)
{
    static const char *const names[] = {
        "tasks",      "tasks_per_owner", "processes", "requests_per_second", "subscriptions",
        "task_bytes", "task_events",     "inbox",     "store_gib",           "store_mib_per_owner",
        "schedules",  "shares",          "grafts"};
    _Static_assert(countof(names) == N_LIMITS, "by enum hub_limit");
    for (size_t i = 0; i < countof(names); i++)
        buf_putf(out, "%s{limit=\"%s\"} %" PRIu64 "\n", name, names[i], s->hub.stats.limit_hits[i]);
}

static void cache(struct server *s, struct buf *out, const char *name)
{
    metrics_put(out, name, "", s->hub.cache.bytes);
}

/* Free heap is kept for later use: a large share of it after a peak is not a leak. */
static void heap(struct server *s, struct buf *out, const char *name)
{
    struct mallinfo2 info = mallinfo2();
    (void)s;
    metrics_put(out, name, "{state=\"used\"}", info.uordblks + info.hblkhd + cells_bytes());
    metrics_put(out, name, "{state=\"free\"}", info.fordblks);
}

static void removed(struct server *s, struct buf *out, const char *name)
{
    metrics_put(out, name, "{what=\"task\"}", s->hub.retention.n_tasks);
    metrics_put(out, name, "{what=\"events\"}", s->hub.retention.n_events);
}

static void store_bytes(struct server *s, struct buf *out, const char *name)
{
    metrics_put(out, name, "", (uint64_t)s->hub.retention.store_bytes);
}

static void full_owners(struct server *s, struct buf *out, const char *name)
{
    metrics_put(out, name, "", s->hub.retention.n_full);
}

static void hook_tries(struct server *s, struct buf *out, const char *name)
{
    struct webhook_stats stats = webhooks_stats(s->webhooks);
    metrics_put(out, name, "{outcome=\"delivered\"}", stats.delivered);
    metrics_put(out, name, "{outcome=\"failed\"}", stats.failed);
    metrics_put(out, name, "{outcome=\"given_up\"}", stats.given_up);
}

static void hooks_pending(struct server *s, struct buf *out, const char *name)
{
    metrics_put(out, name, "", webhooks_stats(s->webhooks).pending);
}

/* Without servers, a row with an empty name: a family has one at least. */
static bool mcp_row(struct server *s, size_t at, struct mcp_stats *ret)
{
    *ret = (struct mcp_stats){.server = ""};
    return mcp_stats(s->mcp, at, ret) || at == 0;
}

/* One row for each server, of a number of its. */
static void put_mcp(struct server *s, struct buf *out, const char *name, size_t offset)
{
    struct mcp_stats stats;
    for (size_t i = 0; mcp_row(s, i, &stats); i++)
        buf_putf(out, "%s{server=\"%s\"} %" PRIu64 "\n", name, stats.server,
                 *(const uint64_t *)(const void *)((const char *)&stats + offset));
}

static void mcp_calls(struct server *s, struct buf *out, const char *name)
{
    put_mcp(s, out, name, offsetof(struct mcp_stats, calls));
}

static void mcp_restarts(struct server *s, struct buf *out, const char *name)
{
    put_mcp(s, out, name, offsetof(struct mcp_stats, restarts));
}

static void mcp_tools(struct server *s, struct buf *out, const char *name)
{
    put_mcp(s, out, name, offsetof(struct mcp_stats, tools));
}

static void mcp_failures(struct server *s, struct buf *out, const char *name)
{
    struct mcp_stats stats;
    for (size_t i = 0; mcp_row(s, i, &stats); i++)
        for (size_t j = 0; j < N_MCP_FAILURES; j++)
            buf_putf(out, "%s{server=\"%s\",kind=\"%s\"} %" PRIu64 "\n", name, stats.server,
                     mcp_failure_name((enum mcp_failure)j), stats.failures[j]);
}

static void sent(struct server *s, struct buf *out, const char *name)
{
    metrics_put(out, name, "", s->front.bytes_out);
}

static void replayed(struct server *s, struct buf *out, const char *name)
{
    metrics_put(out, name, "", s->hub.stats.replayed_bytes);
}

static void uncommitted(struct server *s, struct buf *out, const char *name)
{
    metrics_put(out, name, "", s->hub.journal.pending_bytes);
}

static void store_queries(struct server *s, struct buf *out, const char *name)
{
    metrics_put(out, name, "", s->store_thread ? store_thread_queries(s->store_thread) : 0);
}

static void wal_bytes(struct server *s, struct buf *out, const char *name)
{
    metrics_put(out, name, "", s->sqlite ? store_sqlite_wal_bytes(s->sqlite) : 0);
}

static void checkpoint_failures(struct server *s, struct buf *out, const char *name)
{
    metrics_put(out, name, "", s->sqlite ? store_sqlite_checkpoint_failures(s->sqlite) : 0);
}

static void put_worker(struct buf *out, const char *name, const char *worker, const char *state,
                       uint32_t n)
{
    buf_putf(out, "%s{worker=\"", name);
    put_escaped(out, worker);
    buf_putf(out, state ? "\",state=\"%s\"} %" PRIu32 "\n" : "\"%s} %" PRIu32 "\n",
             state ? state : "", n);
}

static void worker_instances(struct server *s, struct buf *out, const char *name)
{
    for (size_t i = 0; i < workers_count(s->workers); i++) {
        struct worker_view v = workers_view(s->workers, i);
        put_worker(out, name, v.name, "here", v.instances);
        put_worker(out, name, v.name, "away", v.away);
    }
}

static void worker_runs(struct server *s, struct buf *out, const char *name)
{
    for (size_t i = 0; i < workers_count(s->workers); i++) {
        struct worker_view v = workers_view(s->workers, i);
        put_worker(out, name, v.name, NULL, v.runs);
    }
}

static void worker_waiting(struct server *s, struct buf *out, const char *name)
{
    metrics_put(out, name, "", workers_waiting(s->workers));
}

static void worker_events(struct server *s, struct buf *out, const char *name)
{
    const struct workers_stats *st = workers_stats(s->workers);
    metrics_put(out, name, "{event=\"given\"}", st->given);
    metrics_put(out, name, "{event=\"lost\"}", st->lost);
    metrics_put(out, name, "{event=\"returned\"}", st->returned);
    metrics_put(out, name, "{event=\"refused\"}", st->refused);
}

static void damages(struct server *s, struct buf *out, const char *name)
{
    metrics_put(out, name, "", s->hub.stats.damages);
}

static struct files_stats files_now(const struct server *s)
{
    return s->files ? *files_stats(s->files) : (struct files_stats){0};
}

static void file_uploads(struct server *s, struct buf *out, const char *name)
{
    struct files_stats st = files_now(s);
    metrics_put(out, name, "{outcome=\"stored\"}", st.stored);
    metrics_put(out, name, "{outcome=\"refused\"}", st.refused);
    metrics_put(out, name, "{outcome=\"cut\"}", st.cut);
}

static void file_bytes(struct server *s, struct buf *out, const char *name)
{
    struct files_stats st = files_now(s);
    metrics_put(out, name, "{direction=\"in\"}", st.stored_bytes);
    metrics_put(out, name, "{direction=\"out\"}", st.read_bytes);
}

static void files_uploading(struct server *s, struct buf *out, const char *name)
{
    metrics_put(out, name, "", files_now(s).uploading);
}

static void files_swept(struct server *s, struct buf *out, const char *name)
{
    metrics_put(out, name, "", files_now(s).swept);
}

static void file_failures(struct server *s, struct buf *out, const char *name)
{
    metrics_put(out, name, "", files_now(s).failures);
}

/* --- models ----------------------------------------------------------------------------------- */

struct model_row {
    struct buf *out;
    const char *name;
};

/* agent="…",model="…" */
static void put_model_labels(struct buf *out, const char *agent, const struct model *m)
{
    buf_puts(out, "agent=\"");
    put_escaped(out, agent);
    buf_puts(out, "\",model=\"");
    put_escaped(out, m->name);
    buf_putc(out, '"');
}

static void put_model_count(const struct model_row *row, const char *agent, const struct model *m,
                            const char *label, uint64_t n)
{
    buf_putf(row->out, "%s{", row->name);
    put_model_labels(row->out, agent, m);
    buf_putf(row->out, ",%s\"} %" PRIu64 "\n", label, n);
}

static void put_model_tokens(void *arg, const char *agent, const struct model *m)
{
    put_model_count(arg, agent, m, "kind=\"in", m->stats->in);
    put_model_count(arg, agent, m, "kind=\"out", m->stats->out);
    put_model_count(arg, agent, m, "kind=\"cached", m->stats->cached);
}

static void put_model_failures(void *arg, const char *agent, const struct model *m)
{
    char label[64];
    for (int i = 0; i < N_MODEL_REASONS; i++) {
        const char *word = model_reason_word((enum model_reason)i);
        snprintf(label, sizeof label, "reason=\"%s", *word ? word : "other");
        put_model_count(arg, agent, m, label, m->stats->failures[i]);
    }
}

static void put_model_first(void *arg, const char *agent, const struct model *m)
{
    const struct model_row *row = arg;
    struct buf labels = {0};
    put_model_labels(&labels, agent, m);
    put_histogram_of(row->out, row->name, labels.bytes, &m->stats->first_token);
    buf_done(&labels);
}

static void model_tokens(struct server *s, struct buf *out, const char *name)
{
    metrics_each_model(s, put_model_tokens, &(struct model_row){out, name});
}

static void model_failures(struct server *s, struct buf *out, const char *name)
{
    metrics_each_model(s, put_model_failures, &(struct model_row){out, name});
}

static void model_first(struct server *s, struct buf *out, const char *name)
{
    metrics_each_model(s, put_model_first, &(struct model_row){out, name});
}

static const struct metric metrics[] = {
    {"holdfast_connections", GAUGE, "Open WebSocket connections.", connections},
    {"holdfast_closes_total", COUNTER, "Closed connections, by the gateway's close code.", closes},
    {"holdfast_tasks", GAUGE, "Live tasks, by status and agent.", tasks},
    {"holdfast_tasks_ended_total", COUNTER, "Ended tasks, by status.", tasks_ended},
    {"holdfast_tasks_resumed_total", COUNTER, "Tasks that went on after a restart of the gateway.",
     tasks_resumed},
    {"holdfast_tasks_not_resumed_total", COUNTER,
     "Tasks that a restart ended as orphaned, by the reason.", tasks_not_resumed},
    {"holdfast_held_agents", GAUGE, "Programs that outlive the gateway, and their sockets.",
     held_agents},
    {"holdfast_retracted_bytes_total", COUNTER,
     "Text that was withdrawn because its step was done anew.", retracted},
    {"holdfast_unknown_effects_total", COUNTER,
     "Calls of tools that a restart cut, of which nobody knows whether they took effect.",
     unknown_effects},
    {"holdfast_events_total", COUNTER, "Committed events.", metrics_events},
    {"holdfast_store_commit_seconds", HISTOGRAM, "From a batch's submission to its commit.",
     commit_time},
    {"holdfast_resume_caught_up_seconds", HISTOGRAM, "From a resume to its caught_up.",
     caught_up_time},
    {"holdfast_cancel_seconds", HISTOGRAM, "From a cancel to the end of its task.", cancel_time},
    {"holdfast_store_commits_total", COUNTER, "Committed batches.", commits},
    {"holdfast_store_commit_failures_total", COUNTER, "Commits that failed and were retried.",
     commit_failures},
    {"holdfast_uncommitted_bytes", GAUGE, "Events that wait for their commit.", uncommitted},
    {"holdfast_store_queries", GAUGE, "Queries that wait for the store.", store_queries},
    {"holdfast_store_wal_bytes", GAUGE, "The write-ahead log.", wal_bytes},
    {"holdfast_store_checkpoint_failures_total", COUNTER,
     "Times that the log could not be copied into the database.", checkpoint_failures},
    {"holdfast_store_damages_total", COUNTER,
     "Times that events of a task were not on disk as they were written.", damages},
    {"holdfast_schedules", GAUGE, "Messages that are scheduled now.", metrics_schedules},
    {"holdfast_schedule_runs_total", COUNTER, "Times at which a schedule was due, by outcome.",
     metrics_schedule_runs},
    {"holdfast_resume_total", COUNTER, "Resumes, by outcome.", resumes},
    {"holdfast_limit_hits_total", COUNTER, "Requests that met a limit.", limits},
    {"holdfast_requests_total", COUNTER, "Requests carried out, well or not, by verb.",
     metrics_requests},
    {"holdfast_request_errors_total", COUNTER, "Requests that got an error, by its code.",
     metrics_request_errors},
    {"holdfast_refusals_total", COUNTER,
     "Peers turned away before a request was read, by the cause.", metrics_refusals},
    {"holdfast_audit_lines_total", COUNTER, "Lines of the audit's file, and those that were lost.",
     metrics_audit_lines},
    {"holdfast_replayed_bytes_total", COUNTER, "Events sent from a resume to its caught_up.",
     replayed},
    {"holdfast_replay_cache_bytes", GAUGE, "Blocks of events in memory.", cache},
    {"holdfast_heap_bytes", GAUGE, "Memory that malloc holds, by whether it is in use.", heap},
    {"holdfast_retention_removed_total", COUNTER,
     "Tasks removed by retention, and ended tasks that lost only their events.", removed},
    {"holdfast_store_used_bytes", GAUGE, "Bytes in the store, checked every 10 s.", store_bytes},
    {"holdfast_store_full_owners", GAUGE, "Owners whose share of the store is full.", full_owners},
    {"holdfast_webhook_messages_total", COUNTER,
     "Messages to webhooks: delivered, given up, and failed attempts.", hook_tries},
    {"holdfast_trace_spans_total", COUNTER,
     "Spans for the collector: sent, and dropped because it was away or slow.",
     metrics_trace_spans},
    {"holdfast_webhook_pending", GAUGE, "Messages to webhooks that wait in memory.", hooks_pending},
    {"holdfast_file_uploads_total", COUNTER, "Uploads of files, by outcome.", file_uploads},
    {"holdfast_file_bytes_total", COUNTER, "Bytes of files: of those that were stored, and read.",
     file_bytes},
    {"holdfast_file_uploading", GAUGE, "Uploads that are under way.", files_uploading},
    {"holdfast_files_swept_total", COUNTER, "Stored contents that no file had any more, removed.",
     files_swept},
    {"holdfast_file_failures_total", COUNTER, "Times that the folder of files failed.",
     file_failures},
    {"holdfast_mcp_calls_total", COUNTER, "Calls of tools of MCP servers.", mcp_calls},
    {"holdfast_mcp_failures_total", COUNTER, "Calls of them that failed, by kind.", mcp_failures},
    {"holdfast_mcp_restarts_total", COUNTER, "Times that an MCP server was started again.",
     mcp_restarts},
    {"holdfast_mcp_tools", GAUGE,
     "Tools that an MCP server has listed; 0: none, or it does not run.", mcp_tools},
    {"holdfast_worker_instances", GAUGE,
     "Processes of a worker that have a connection, or lost it and may come back.",
     worker_instances},
    {"holdfast_worker_runs", GAUGE, "Runs at a worker.", worker_runs},
    {"holdfast_worker_waiting_runs", GAUGE, "Runs that wait for a worker with a place.",
     worker_waiting},
    {"holdfast_worker_events_total", COUNTER,
     "Runs given to workers, and lost with them; instances that returned, hellos with a wrong "
     "secret.",
     worker_events},
    {"holdfast_model_tokens_total", COUNTER,
     "Tokens that models' servers counted, by agent and model; cached: those of in from a cache.",
     model_tokens},
    {"holdfast_model_failures_total", COUNTER,
     "Turns of models that failed after their retries, by agent, model and reason.",
     model_failures},
    {"holdfast_model_first_token_seconds", HISTOGRAM,
     "From a model's request to its first thought, word or call, by agent and model.", model_first},
    {"holdfast_sent_bytes_total", COUNTER, "Bytes of messages sent.", sent},
};

static void metrics_table(struct server *s, const struct metric *m, size_t n, struct buf *out)
{
    static const char *const kinds[] = {"counter", "gauge", "histogram"};
    for (; n > 0; m++, n--) {
        buf_putf(out, "# HELP %s %s\n# TYPE %s %s\n", m->name, m->help, m->name, kinds[m->kind]);
        m->write(s, out, m->name);
    }
}

void metrics_write(void *server, struct buf *out)
{
    struct server *s = server;
    metrics_table(s, metrics, countof(metrics), out);
    metrics_table(s, more_metrics, n_more_metrics, out);
    neighbours_write_metrics(s->neighbours, out);
}
