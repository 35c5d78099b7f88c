#include "gateway/metrics_requests.h"

#include <inttypes.h>

#include "gateway/agents/agents.h"
#include "gateway/agents/titles.h"
#include "gateway/audited.h"
#include "gateway/auth/jwks.h"
#include "gateway/cluster/cluster.h"
#include "gateway/front/tenants.h"
#include "gateway/models/model.h"
#include "gateway/models/model_stats.h"
#include "gateway/traces/traces.h"

static void put_label_text(struct buf *out, struct str text)
{
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] == '"' || text.p[i] == '\\')
            buf_putc(out, '\\');
        buf_putc(out, text.p[i]);
    }
}

void metrics_requests(struct server *s, struct buf *out, const char *name)
{
    for (int i = VERB_CHAT; i < N_VERBS; i++) /* those before are the session's own */
        buf_putf(out, "%s{verb=\"%s\"} %" PRIu64 "\n", name, audited_event((enum verb)i),
                 s->hub.stats.requests[i]);
}

void metrics_request_errors(struct server *s, struct buf *out, const char *name)
{
    for (int i = ERR_NONE + 1; i < N_ERRORS; i++)
        buf_putf(out, "%s{code=\"%s\"} %" PRIu64 "\n", name, error_code((enum error)i),
                 s->hub.stats.refusals[i]);
}

void metrics_refusals(struct server *s, struct buf *out, const char *name)
{
    static const char *const causes[] = {
#define X(name, label) label,
        REFUSAL_TABLE(X)
#undef X
    };
    for (size_t i = 0; i < countof(causes); i++)
        buf_putf(out, "%s{cause=\"%s\"} %" PRIu64 "\n", name, causes[i], s->front.refusals[i]);
}

void metrics_audit_lines(struct server *s, struct buf *out, const char *name)
{
    struct audit_stats stats = audit_stats(s->audit);
    buf_putf(out, "%s{outcome=\"written\"} %" PRIu64 "\n", name, stats.written);
    buf_putf(out, "%s{outcome=\"lost\"} %" PRIu64 "\n", name, stats.lost);
}

void metrics_schedules(struct server *s, struct buf *out, const char *name)
{
    buf_putf(out, "%s %" PRIu32 "\n", name, s->hub.n_schedules);
}

void metrics_schedule_runs(struct server *s, struct buf *out, const char *name)
{
    static const char *const outcomes[] = {"started", "missed", "refused"};
    _Static_assert(countof(outcomes) == N_SCHEDULE_OUTCOMES, "by enum schedule_outcome");
    for (size_t i = 0; i < countof(outcomes); i++)
        buf_putf(out, "%s{outcome=\"%s\"} %" PRIu64 "\n", name, outcomes[i],
                 s->hub.stats.schedule_runs[i]);
}

void metrics_trace_spans(struct server *s, struct buf *out, const char *name)
{
    struct traces_stats stats = traces_stats(s->traces);
    buf_putf(out, "%s{outcome=\"sent\"} %" PRIu64 "\n", name, stats.sent);
    buf_putf(out, "%s{outcome=\"dropped\"} %" PRIu64 "\n", name, stats.dropped);
}

/* --- the cluster ------------------------------------------------------------------------------ */

static void cluster_nodes(struct server *s, struct buf *out, const char *name)
{
    static const char *const states[] = {"live", "leaving", "dead"};
    struct cluster_counts n = cluster_count(s->cluster);
    for (size_t i = 0; i < countof(states); i++)
        buf_putf(out, "%s{state=\"%s\"} %" PRIu32 "\n", name, states[i], n.nodes[i]);
}

static void cluster_slots(struct server *s, struct buf *out, const char *name)
{
    struct cluster_counts n = cluster_count(s->cluster);
    buf_putf(out, "%s{state=\"open\"} %" PRIu32 "\n", name, n.open);
    buf_putf(out, "%s{state=\"restoring\"} %" PRIu32 "\n", name, n.coming);
    buf_putf(out, "%s{state=\"moving\"} %" PRIu32 "\n", name, n.leaving);
    buf_putf(out, "%s{state=\"unrepaired\"} %" PRIu32 "\n", name, n.unrepaired);
}

static void cluster_takeovers(struct server *s, struct buf *out, const char *name)
{
    buf_putf(out, "%s %" PRIu64 "\n", name, cluster_count(s->cluster).takeovers);
}

static void cluster_lease(struct server *s, struct buf *out, const char *name)
{
    double left = s->pg ? (double)store_pg_lease_left(s->pg) / 1000 : 0;
    buf_putf(out, "%s %.3f\n", name, left);
}

static void cluster_unknown(struct server *s, struct buf *out, const char *name)
{
    buf_putf(out, "%s %" PRIu64 "\n", name, s->hub.journal.n_unknown);
}

static void store_redone(struct server *s, struct buf *out, const char *name)
{
    buf_putf(out, "%s %" PRIu64 "\n", name, s->pg ? store_pg_redone(s->pg) : 0);
}

static void store_epoch(struct server *s, struct buf *out, const char *name)
{
    buf_putf(out, "%s %" PRId64 "\n", name, s->hub.epoch);
}

/* --- keys of an issuer ------------------------------------------------------------------------ */

static void jwks_fetches(struct server *s, struct buf *out, const char *name)
{
    struct jwks_stats stats = jwks_stats(s->jwks);
    buf_putf(out, "%s{outcome=\"ok\"} %" PRIu64 "\n", name, stats.fetched);
    buf_putf(out, "%s{outcome=\"failed\"} %" PRIu64 "\n", name, stats.failed);
}

static void jwks_age(struct server *s, struct buf *out, const char *name)
{
    int64_t age = jwks_stats(s->jwks).age_ms;
    buf_putf(out, "%s %.3f\n", name, age < 0 ? -1 : (double)age / 1000);
}

/* --- tenants ---------------------------------------------------------------------------------- */

static void put_tenant(struct buf *out, const char *name, struct str tenant, uint64_t value)
{
    buf_putf(out, "%s{tenant=\"", name);
    put_label_text(out, tenant);
    buf_putf(out, "\"} %" PRIu64 "\n", value);
}

static void tenant_connections(struct server *s, struct buf *out, const char *name)
{
    struct tenant_use rows[TENANTS_SHOWN + 1];
    size_t n = tenants_count(&s->front, rows);
    for (size_t i = 0; i < n; i++)
        put_tenant(out, name, rows[i].name, rows[i].connections);
}

static void tenant_tasks(struct server *s, struct buf *out, const char *name)
{
    struct tenant_use rows[TENANTS_SHOWN + 1];
    size_t n = tenants_count(&s->front, rows);
    for (size_t i = 0; i < n; i++)
        put_tenant(out, name, rows[i].name, rows[i].tasks);
}

/* --- what models cost ------------------------------------------------------------------------- */

struct cost_row {
    const struct config *config;
    struct buf *out;
    const char *name;
};

static void put_cost(void *arg, const char *agent, const struct model *m)
{
    const struct cost_row *row = arg;
    const struct config_model *told = config_find_model(row->config, m->name);
    if (!told || (!told->price_in && !told->price_out))
        return;
    double cached = told->price_cached ? told->price_cached : told->price_in;
    double cost = (double)(m->stats->in - m->stats->cached) * told->price_in +
                  (double)m->stats->cached * cached + (double)m->stats->out * told->price_out;
    buf_putf(row->out, "%s{agent=\"", row->name);
    put_label_text(row->out, str_of(agent));
    buf_puts(row->out, "\",model=\"");
    put_label_text(row->out, str_of(m->name));
    buf_putf(row->out, "\"} %.9f\n", cost / (1000.0 * 1000 * 1000)); /* config_model */
}

static void model_cost(struct server *s, struct buf *out, const char *name)
{
    metrics_each_model(s, put_cost, &(struct cost_row){s->config, out, name});
}

void metrics_each_model(struct server *s,
                        void (*visit)(void *arg, const char *agent, const struct model *model),
                        void *arg)
{
    agents_each_model(s->agents, s->n_agents, visit, arg);
    titles_each_model(s->titles, visit, arg);
}

static void put_titles(struct server *s, struct buf *out, const char *name)
{
    struct titles_stats stats = titles_stats(s->titles);
    buf_putf(out, "%s{outcome=\"said\"} %" PRIu64 "\n", name, stats.said);
    buf_putf(out, "%s{outcome=\"failed\"} %" PRIu64 "\n", name, stats.failed);
    buf_putf(out, "%s{outcome=\"too_many\"} %" PRIu64 "\n", name, stats.too_many);
}

const struct metric more_metrics[] = {
    {"holdfast_model_cost_total", COUNTER,
     "What the tokens have cost by models[].price_in, price_cached and price_out, in your currency.",
     model_cost},
    {"holdfast_titles_total", COUNTER,
     "Titles that a model was asked for, or would have been (titles.model), by outcome.",
     put_titles},
    {"holdfast_tenant_connections", GAUGE,
     "Connections and event streams now, by tenant (auth.tenant_claim).", tenant_connections},
    {"holdfast_tenant_tasks", GAUGE, "Live tasks, by tenant (auth.tenant_claim).", tenant_tasks},
    {"holdfast_auth_key_fetches_total", COUNTER, "Fetches of auth.jwks_url, by outcome.",
     jwks_fetches},
    {"holdfast_auth_keys_age_seconds", GAUGE,
     "Since the keys of auth.jwks_url came, as far as this process knows; -1: there are none.",
     jwks_age},
    {"holdfast_cluster_nodes", GAUGE, "Gateways that share the store, by state.", cluster_nodes},
    {"holdfast_cluster_slots", GAUGE, "Slots of owners that are this gateway's, by state.",
     cluster_slots},
    {"holdfast_cluster_takeovers_total", COUNTER,
     "Gateways without a sign of life that this one has ended.", cluster_takeovers},
    {"holdfast_cluster_lease_seconds_left", GAUGE,
     "How long this gateway is sure of its slots; 0 without PostgreSQL.", cluster_lease},
    {"holdfast_cluster_unknown_outcomes_total", COUNTER,
     "Answers of the store that left it open whether a batch was committed.", cluster_unknown},
    {"holdfast_store_redo_batches_total", COUNTER,
     "Committed batches that the server had lost, and that this gateway has sent again.",
     store_redone},
    {"holdfast_store_epoch", GAUGE,
     "Number of the last time when committed batches were lost for good; 0: never.", store_epoch},
};
const size_t n_more_metrics = countof(more_metrics);
